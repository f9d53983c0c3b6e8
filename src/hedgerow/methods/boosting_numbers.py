"""Boosted trees for a number: structure from one noisy table, then one small sum a round."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np

from hedgerow.methods.base import PrivateRegressor, StagedTrees
from hedgerow.methods.blocks.flow import Flow, NoiseModel, ask
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
    Answer,
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


@method("regression_boost", test_settings=({"n_estimators": 3, "max_depth": 2},))
class RegressionBoost(Method):
    """Squared error. A tree's leaves are (rows, clipped residuals), shrunk level by level.

    | round    | asked                                           | fraction of the budget  |
    |----------|-------------------------------------------------|-------------------------|
    | 1        | number of rows, counts of the target at five widths | 5 %                 |
    | 2        | target-class tables of all features             | 10 % (pure: 20 %)       |
    | 6 rounds | histogram of absolute residuals, beside a tree's | 3 % together            |
    | per tree | leaf sums of (weight, clipped residual)         | equal parts of the rest |

    The residual histogram and the tree that follows are two rounds, since the clip depends on
    the first.
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
        scale = Scale(schema)
        n_estimators, leaves = (
            self.n_estimators or MOST_BOOSTED_TREES,
            scale.leaves(self.max_depth or MOST_BOOSTED_DEPTH),
        )
        model = scale.model_bytes(n_estimators, leaves, 1, scale.tests(BOOST_BINS))
        residual_size = Size.of_step(
            integers=RESIDUAL_CELLS, bytes=QUERY + NUMBER * RESIDUAL_CELLS, shared_bytes=model
        )
        boosting_size = scale.initial_round() + scale.tables(channels=TARGET_CLASSES)
        boosting_size += scale.trees(1, leaves, channels=2, shared_bytes=model) * n_estimators
        boosting_size += residual_size * min(RESIDUAL_ROUNDS, n_estimators)
        return GuidedForest(max_depth=self.max_depth).largest(schema) | boosting_size

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
        tree_fraction = (
            1 - first_round.spent - constants.root_fraction - RESIDUAL_FRACTION
        ) / n_estimators
        model, noise = yield from self._boost(
            shapes_of(skeletons, grids), depth, target, float(start), tree_fraction
        )
        return TrainingResult(Model(model, Output.VALUE, noise=ScoreNoise.of(noise)))

    def _boost(
        self,
        shapes: Sequence[Shape],
        depth: int,
        target: TargetShape,
        start: float,
        tree_fraction: Fraction,
    ) -> Flow[tuple[Additive, list[FloatArray]]]:
        width = target.high - target.low
        model, noise = Additive((start,), clip=(target.low, target.high)), list[FloatArray]()
        residuals = Residuals(width, width**2 / 12.0)
        looks = set(range(0, len(shapes), max(len(shapes) // RESIDUAL_ROUNDS, 1))[:RESIDUAL_ROUNDS])
        for t, shape in enumerate(shapes):
            if t in looks:
                residuals = yield from update_residuals(
                    model, residuals, width, RESIDUAL_FRACTION / len(looks)
                )
            loss = SquaredLoss(target.low, target.high, residuals.clip, ROW_WEIGHT)
            statistic = Gradients(loss, model)
            answer = yield from ask(
                SumQuery(EVERYONE, statistic, Leaves((shape.tree,)), tree_fraction)
            )
            tree = self._tree(shape, answer, depth, residuals)
            model = model.plus(tree.tree)
            noise.append(tree.deviations)
        return model, noise

    def _tree(self, shape: Shape, answer: Answer, depth: int, residuals: Residuals) -> NoisyTree:
        """Leaf values in the target's units; the gradient is the residual with its sign turned."""
        sums = np.stack([answer.values[..., 1] / ROW_WEIGHT, -answer.values[..., 0]], axis=-1)
        means, mean_noise = complete_means(
            on_last_level([shape], sums, depth)[0],
            answer.variance / ROW_WEIGHT**2,
            answer.variance,
            residuals.mean_square / residuals.clip**2,
        )
        values, noise = (residuals.clip * part[shape.leaf_at, None] for part in (means, mean_noise))
        return NoisyTree(shape.tree.with_values(values), noise).scale(self.learning_rate)


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
