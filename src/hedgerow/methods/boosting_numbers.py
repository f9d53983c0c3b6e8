"""Boosted trees for a number: structure from one noisy table, then one small sum a round."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np

from hedgerow.methods.base import PrivateRegressor, StagedTrees
from hedgerow.methods.blocks.boosting import BATCH_OVERLAP, TREES_PER_ROUND, BatchPlan, Rounds
from hedgerow.methods.blocks.flow import Flow, NoiseModel, ask, both
from hedgerow.methods.blocks.guided_trees import Shape, guided_skeletons, on_last_level, shapes_of
from hedgerow.methods.blocks.leaves import complete_means
from hedgerow.methods.blocks.public_grids import fine_schema
from hedgerow.methods.blocks.screening import root_tables
from hedgerow.methods.blocks.sizes import QUERY, Scale
from hedgerow.methods.blocks.target import TargetShape, TrainingTarget, initial_round
from hedgerow.methods.constants import constant
from hedgerow.methods.forest import FOREST_FALLBACK, GuidedForest, root_weights
from hedgerow.methods.method import Method, Needs, Task, TrainingResult, method
from hedgerow.methods.parameters import estimator, parameter
from hedgerow.models.losses import SquaredLoss
from hedgerow.models.model import Additive, Model, Output
from hedgerow.models.uncertainty import NoisyTree, ScoreNoise
from hedgerow.privacy.bundles import NUMBER, Size
from hedgerow.privacy.queries import (
    Cells,
    Count,
    Gradients,
    Leaves,
    QueryKinds,
    ResidualCells,
    SumQuery,
    TargetClassCounts,
    sums,
)
from hedgerow.schema.arrays import FloatArray
from hedgerow.schema.regions import EVERYONE
from hedgerow.schema.rules import number, or_none, whole
from hedgerow.schema.schema import Schema

LEAST_SIGNAL = constant(300.0, unit="signal", evidence="numbers.md#0119")
"""Signal below which a forest is no worse, and is grown instead."""
TARGET_CLASSES = constant(8, unit="classes of the target in the tables that guide trees")
BOOST_BINS = constant(32, unit="bins of a feature in these tables")
BOOST_CELLS = constant(256, unit="cells of the public grid")
MOST_BOOSTED_TREES = constant(120, unit="trees")
MOST_BOOSTED_DEPTH = constant(7, unit="levels of a tree", evidence="numbers.md#0119")
RESIDUAL_ROUNDS = constant(6, unit="rounds that ask the size of the residuals")
RESIDUAL_FRACTION = constant(Fraction(3, 100), unit="part of the budget for all of these together")
RESIDUAL_CELLS = constant(64, unit="cells of the residuals")
RESIDUAL_TAIL = constant(0.02, unit="part of the rows whose residual is clipped")
ROW_WEIGHT = constant(0.25, unit="weight of a row beside its clipped residual, in one sum")
RESIDUAL_STANDS_OUT = constant(2.0, unit="deviations")
"""Deviations of its noise by which a residual cell must be seen."""


@dataclass(frozen=True)
class BoostConstants:
    """Settings that follow from the noisy signal-to-noise ratio alone."""

    n_estimators: int
    depth: int
    tries: int
    root_fraction: Fraction


def boost_constants(signal: float, is_pure: bool) -> BoostConstants:
    if is_pure:
        return BoostConstants(20, MOST_BOOSTED_DEPTH, 5, Fraction(1, 5))
    if signal < 1000:
        return BoostConstants(MOST_BOOSTED_TREES, 5, 3, Fraction(1, 10))
    return BoostConstants(MOST_BOOSTED_TREES, MOST_BOOSTED_DEPTH, 5, Fraction(1, 10))


@dataclass(frozen=True)
class Residuals:
    """The clip of residuals, and their mean square."""

    clip: float
    mean_square: float


@dataclass(frozen=True)
class TreeStage:
    """What the rounds with trees share; `in_one_round`: residuals are asked with trees, for the
    next ones.
    """

    target: TargetShape
    depth: int
    rounds: Rounds
    in_one_round: bool


@method(
    "regression_boost",
    test_settings=(
        {"n_estimators": 3, "max_depth": 2, "trees_per_round": 1},
        {"n_estimators": 50, "max_depth": 2},
    ),
)
class RegressionBoost(Method):
    """Squared error. A tree's leaves are (rows, clipped residuals), shrunk level by level.

    | round    | asked                                           | fraction of the budget  |
    |----------|-------------------------------------------------|-------------------------|
    | 1        | number of rows, counts of the target at five widths | 5 %                 |
    | 2        | target-class tables of all features             | 10 % (pure: 20 %)       |
    | 6 rounds | histogram of absolute residuals, beside a tree's | 3 % together            |
    | per tree | leaf sums of (weight, clipped residual)         | equal parts of the rest |

    The residual histogram and the tree that follows are two rounds, since the clip depends on
    the first. Over several sites trees share rounds, and histograms but the first go with them.
    """

    n_estimators: int | None = parameter(
        default=None,
        rule=or_none(whole(1)),
        text="Trees; None is 20 (delta = 0) or 120.",
    )
    max_depth: int | None = parameter(
        default=None,
        rule=or_none(whole(1)),
        text="Levels of splits; None is 5 or 7, by the noisy signal-to-noise ratio.",
    )
    trees_per_round: int | None = parameter(
        default=None, rule=or_none(whole(1)), text=TREES_PER_ROUND
    )
    learning_rate: float = parameter(
        default=0.4, rule=number(above=0.0), text="Part of a step that is taken."
    )

    @property
    def needs(self) -> Needs:
        return Needs(tasks=frozenset({Task.NUMBER}))

    def asks(self, schema: Schema) -> QueryKinds:
        boosting = sums(TargetClassCounts, Cells) | sums(Gradients, Leaves)
        return GuidedForest().asks(schema) | boosting | sums(Count, ResidualCells)

    def grid(self, schema: Schema) -> Schema:
        return fine_schema(schema)

    def largest(self, schema: Schema) -> Size:
        """The larger of the fallback forest and the boosted trees."""
        scale, n_estimators = Scale(schema), self.n_estimators or MOST_BOOSTED_TREES
        leaves = scale.leaves(self.max_depth or MOST_BOOSTED_DEPTH)
        model = scale.model_bytes(n_estimators, leaves, 1, scale.tests(BOOST_BINS))
        residual_size = Size.of_step(
            integers=RESIDUAL_CELLS, bytes=QUERY + NUMBER * RESIDUAL_CELLS, shared_bytes=model
        )
        plan = self._batches(schema, n_estimators)
        trees = plan.largest(
            lambda n: scale.trees(n, leaves, channels=2, shared_bytes=model),
            residual_size,
            RESIDUAL_ROUNDS,
        )
        boosting_size = self._before_trees(schema) + trees
        if self.trees_per_round is None:
            boosting_size += replace(residual_size, rounds_alone=0)  # before the first tree
        return GuidedForest(max_depth=self.max_depth).largest(schema) | boosting_size

    def _before_trees(self, schema: Schema) -> Size:
        scale = Scale(schema)
        return scale.initial_round() + scale.tables(channels=TARGET_CLASSES)

    def _batches(self, schema: Schema, n_estimators: int) -> BatchPlan:
        """One round before the first tree asks for the residuals."""
        leaves = Scale(schema).leaves(self.max_depth or MOST_BOOSTED_DEPTH)
        before = self._before_trees(schema).rounds + 1
        return BatchPlan(n_estimators, self.trees_per_round, before, 2 * leaves)

    def flow(
        self, schema: Schema, noise_model: NoiseModel, rng: np.random.Generator
    ) -> Flow[TrainingResult]:
        first_round = yield from initial_round(schema, noise_model)
        target = first_round.target.shape
        assert target is not None
        if first_round.signal < LEAST_SIGNAL:
            forest = GuidedForest(max_depth=self.max_depth)
            forest_model = yield from forest.grow_from(first_round, schema, noise_model, rng)
            return (
                forest_model
                if forest_model.instead
                else replace(forest_model, instead=FOREST_FALLBACK)
            )
        constants = boost_constants(first_round.signal, noise_model.is_pure)
        cuts = class_cuts(target)
        grids, belief = yield from root_tables(
            schema,
            TrainingTarget(TargetClassCounts(cuts)),
            constants.root_fraction,
            BOOST_CELLS,
            BOOST_BINS,
        )
        depth, n_estimators = (
            self.max_depth or constants.depth,
            self.n_estimators or constants.n_estimators,
        )
        skeletons = guided_skeletons(
            belief, root_weights(belief, screens=True), n_estimators, depth, constants.tries, rng
        )
        start = class_means(target, cuts) @ belief.totals / belief.totals.sum()
        plan = self._batches(schema, n_estimators)
        rest = 1 - first_round.spent - constants.root_fraction - RESIDUAL_FRACTION
        rounds = Rounds(plan.sizes(noise_model), rest)
        stage = TreeStage(target, depth, rounds, plan.is_shared(noise_model))
        model, noise = yield from self._boost(shapes_of(skeletons, grids), stage, float(start))
        return TrainingResult(Model(model, Output.VALUE, noise=ScoreNoise.of(noise)))

    def _boost(
        self, shapes: Sequence[Shape], stage: TreeStage, start: float
    ) -> Flow[tuple[Additive, list[FloatArray]]]:
        target, rounds = stage.target, stage.rounds
        width = target.high - target.low
        model, noise = Additive((start,), clip=(target.low, target.high)), list[FloatArray]()
        residuals, starts = Residuals(width, width**2 / 12.0), rounds.starts
        looks = set(starts[:: max(len(starts) // RESIDUAL_ROUNDS, 1)][:RESIDUAL_ROUNDS])
        for first, size in zip(starts, rounds.sizes, strict=True):
            look = update_residuals(model, residuals, width, RESIDUAL_FRACTION / len(looks))
            is_beside = stage.in_one_round and first > 0
            if first in looks and not is_beside:
                residuals = yield from look
            fraction = rounds.fraction * size / len(shapes)
            batch = self._trees(shapes[first : first + size], stage, model, residuals, fraction)
            if first in looks and is_beside:
                trees, residuals = yield from both(batch, look)
            else:
                trees = yield from batch
            model = model.plus(*(tree.tree for tree in trees))
            noise += [tree.deviations for tree in trees]
        return model, noise

    def _trees(
        self,
        shapes: Sequence[Shape],
        stage: TreeStage,
        model: Additive,
        residuals: Residuals,
        fraction: Fraction,
    ) -> Flow[list[NoisyTree]]:
        """Leaf values in the target's units; the gradient is the residual with its sign turned."""
        loss = SquaredLoss(stage.target.low, stage.target.high, residuals.clip, ROW_WEIGHT)
        by = Leaves(tuple(shape.tree for shape in shapes))
        answer = yield from ask(SumQuery(EVERYONE, Gradients(loss, model), by, fraction))
        rate = self.learning_rate / len(shapes) ** BATCH_OVERLAP
        sums = np.stack([answer.values[..., 1] / ROW_WEIGHT, -answer.values[..., 0]], axis=-1)
        trees = []
        for shape, own in zip(shapes, sums, strict=True):
            means = complete_means(
                on_last_level([shape], own[None], stage.depth)[0],
                answer.variance / ROW_WEIGHT**2,
                answer.variance,
                residuals.mean_square / residuals.clip**2,
                len(shapes),
            )
            values, noise = (residuals.clip * part[shape.leaf_at, None] for part in means)
            trees.append(NoisyTree(shape.tree.with_values(values), noise).scale(rate))
        return trees


# ------------------------------------------------------------------------------ post-processing
def class_cuts(target: TargetShape) -> tuple[float, ...]:
    """Cuts of the target into classes of equal noisy mass; each class has a cell at least."""
    places = np.searchsorted(target.below, np.arange(1, TARGET_CLASSES) / TARGET_CLASSES)
    places = np.maximum(places, 1)
    half = (target.middles[1] - target.middles[0]) / 2.0
    return tuple(float(v) for v in np.unique(target.middles[places] - half))


def class_means(target: TargetShape, cuts: tuple[float, ...]) -> FloatArray:
    """Mean target of each class."""
    cell_class = np.searchsorted(np.asarray(cuts), target.middles, side="right")
    weights = target.weights + 1e-9
    sums = np.bincount(cell_class, weights * target.middles, minlength=len(cuts) + 1)
    return np.asarray(sums / np.bincount(cell_class, weights, minlength=len(cuts) + 1))


def update_residuals(
    model: Additive, before: Residuals, width: float, fraction: Fraction
) -> Flow[Residuals]:
    """Asks where 98 % of the absolute residuals lie; as before if nothing stands out."""
    edges = width * np.geomspace(1e-3, 1.0, RESIDUAL_CELLS - 1)
    by = ResidualCells(model, tuple(float(e) for e in edges))
    answer = yield from ask(SumQuery(EVERYONE, Count(), by, fraction))
    counts = answer.values[0, :, 0]
    clear_counts = np.where(counts > RESIDUAL_STANDS_OUT * np.sqrt(answer.variance), counts, 0.0)
    if clear_counts.sum() <= 0.0:
        return before
    above = np.append(edges, width)
    below = np.cumsum(clear_counts) / clear_counts.sum()
    clip = float(above[np.searchsorted(below, 1.0 - RESIDUAL_TAIL)])
    return Residuals(min(clip, width), float((clear_counts * above**2).sum() / clear_counts.sum()))


@estimator
class BoostedTreesRegressor(StagedTrees, PrivateRegressor, RegressionBoost):
    """Gradient boosting with differential privacy, for a numeric target.

    The structure of all trees comes from one noisy table, then each round asks for one small
    sum. Where the signal is too weak for boosting it trains a forest instead.

    Examples
    --------
    >>> import hedgerow as hr
    >>> columns = (hr.Numeric("age", 0, 100), hr.Numeric("dose", 0, 10))
    >>> schema = hr.Schema(columns, target=hr.Target(0, 100))
    >>> X = [[20, 1], [30, 2], [70, 8], [80, 9]] * 500
    >>> y = [10, 20, 80, 90] * 500
    >>> model = hr.BoostedTreesRegressor(schema, epsilon=10.0, random_state=0).fit(X, y)
    >>> model.predict([[25, 1], [75, 9]]).shape
    (2,)

    """
