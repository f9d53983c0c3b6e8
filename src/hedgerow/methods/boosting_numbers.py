"""Boosted trees for a number: structure from one noisy table, then one small sum a round."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np

from hedgerow.methods.base import PrivateRegressor, StagedTrees
from hedgerow.methods.blocks.flow import Flow, Quote, ask
from hedgerow.methods.blocks.goal import Goal, TargetShape, opening
from hedgerow.methods.blocks.guided_trees import Shape, guided_skeletons, on_last_level, shapes_of
from hedgerow.methods.blocks.leaves import complete_means
from hedgerow.methods.blocks.public_grids import fine_schema
from hedgerow.methods.blocks.screening import root_tables
from hedgerow.methods.blocks.sizes import QUERY, Scale
from hedgerow.methods.forest import FOREST_INSTEAD, GuidedForest, root_weights
from hedgerow.methods.method import Method, Needs, Task, Trained, method
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

LEAST_SIGNAL = 300.0
"""Below it the recipe grows a forest instead: boosting is then no better than the mean."""
TARGET_CLASSES = 8
BOOST_BINS = 32
BOOST_CELLS = 256
MOST_TREES, MOST_DEPTH = 120, 7
RESIDUAL_LOOKS = 6  # how often the size of the residuals is asked
LOOK_SHARE = Fraction(3, 100)  # for all looks together
RESIDUAL_CELLS = 64
RESIDUAL_TAIL = 0.02  # part of the rows whose residual is clipped
ROW_WEIGHT = 0.25  # of a row beside its clipped residual, in one sum
RESIDUAL_STANDS_OUT = 2.0  # deviations of its noise by which a residual cell must be seen


@dataclass(frozen=True)
class BoostConstants:
    """What follows from the noisy signal-to-noise ratio alone."""

    n_trees: int
    depth: int
    tries: int
    root_share: Fraction


def boost_constants(signal: float, is_pure: bool) -> BoostConstants:
    if is_pure:
        return BoostConstants(20, MOST_DEPTH, 5, Fraction(1, 5))
    if signal < 1000:
        return BoostConstants(MOST_TREES, 5, 3, Fraction(1, 10))
    return BoostConstants(MOST_TREES, MOST_DEPTH, 5, Fraction(1, 10))


@dataclass(frozen=True)
class Residuals:
    """How large residuals are: where they are clipped, and their mean square."""

    clip: float
    mean_square: float


@method("regression_boost", tried=({"n_trees": 3, "max_depth": 2},))
class RegressionBoost(Method):
    """Squared error. A tree's leaves are (rows, clipped residuals), shrunk level by level.

    | round    | asked                                           | share of the budget     |
    |----------|-------------------------------------------------|-------------------------|
    | 1        | number of rows, counts of the target at five widths | 5 %                 |
    | 2        | target-class tables of all features             | 10 % (pure: 20 %)       |
    | 6 rounds | histogram of absolute residuals, beside a tree's | 3 % together            |
    | per tree | leaf sums of (weight, clipped residual)         | equal parts of the rest |

    The residual histogram and the tree that follows are two rounds, since the clip depends on
    the first.
    """

    n_trees: int | None = parameter(
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
        """Of the forest that a weak signal gets, or of the boosted trees."""
        scale = Scale(schema)
        n_trees, leaves = self.n_trees or MOST_TREES, scale.leaves(self.max_depth or MOST_DEPTH)
        model = scale.model_bytes(n_trees, leaves, 1, scale.tests(BOOST_BINS))
        look = Size.of_step(
            integers=RESIDUAL_CELLS, bytes=QUERY + NUMBER * RESIDUAL_CELLS, shared=model
        )
        boosted = scale.opening() + scale.tables(channels=TARGET_CLASSES)
        boosted += scale.trees(1, leaves, channels=2, shared=model) * n_trees
        boosted += look * min(RESIDUAL_LOOKS, n_trees)
        return GuidedForest(max_depth=self.max_depth).largest(schema) | boosted

    def flow(self, schema: Schema, quote: Quote, rng: np.random.Generator) -> Flow[Trained]:
        opened = yield from opening(schema, quote)
        target = opened.goal.shape
        assert target is not None
        if opened.signal < LEAST_SIGNAL:
            forest = GuidedForest(max_depth=self.max_depth)
            grown = yield from forest.grown(opened, schema, quote, rng)
            return grown if grown.instead else replace(grown, instead=FOREST_INSTEAD)
        constants = boost_constants(opened.signal, quote.is_pure)
        cuts = class_cuts(target)
        grids, belief = yield from root_tables(
            schema, Goal(TargetClassCounts(cuts)), constants.root_share, BOOST_CELLS, BOOST_BINS
        )
        depth, n_trees = self.max_depth or constants.depth, self.n_trees or constants.n_trees
        skeletons = guided_skeletons(
            belief, root_weights(belief, screens=True), n_trees, depth, constants.tries, rng
        )
        start = class_means(target, cuts) @ belief.totals / belief.totals.sum()
        each = (1 - opened.spent - constants.root_share - LOOK_SHARE) / n_trees
        model, noise = yield from self._boosted(
            shapes_of(skeletons, grids), depth, target, float(start), each
        )
        return Trained(Model(model, Output.VALUE, noise=ScoreNoise.of(noise)))

    def _boosted(
        self,
        shapes: Sequence[Shape],
        depth: int,
        target: TargetShape,
        start: float,
        each: Fraction,
    ) -> Flow[tuple[Additive, list[FloatArray]]]:
        width = target.high - target.low
        model, noise = Additive((start,), clip=(target.low, target.high)), list[FloatArray]()
        residuals = Residuals(width, width**2 / 12.0)
        looks = set(range(0, len(shapes), max(len(shapes) // RESIDUAL_LOOKS, 1))[:RESIDUAL_LOOKS])
        for t, shape in enumerate(shapes):
            if t in looks:
                residuals = yield from look(model, residuals, width, LOOK_SHARE / len(looks))
            loss = SquaredLoss(target.low, target.high, residuals.clip, ROW_WEIGHT)
            statistic = Gradients(loss, model)
            answer = yield from ask(SumQuery(EVERYONE, statistic, Leaves((shape.tree,)), each))
            grown = self._tree(shape, answer, depth, residuals)
            model = model.plus(grown.tree)
            noise.append(grown.deviations)
        return model, noise

    def _tree(self, shape: Shape, answer: Answer, depth: int, residuals: Residuals) -> NoisyTree:
        """Leaf values in the target's units; the gradient is the residual with its sign turned."""
        sums = np.stack([answer.values[..., 1] / ROW_WEIGHT, -answer.values[..., 0]], axis=-1)
        means, moved = complete_means(
            on_last_level([shape], sums, depth)[0],
            answer.variance / ROW_WEIGHT**2,
            answer.variance,
            residuals.mean_square / residuals.clip**2,
        )
        values, noise = (residuals.clip * part[shape.leaf_at, None] for part in (means, moved))
        return NoisyTree(shape.tree.with_values(values), noise).scaled(self.learning_rate)


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


def look(model: Additive, before: Residuals, width: float, share: Fraction) -> Flow[Residuals]:
    """Where 98 % of the absolute residuals lie now; as before if nothing stands out."""
    edges = width * np.geomspace(1e-3, 1.0, RESIDUAL_CELLS - 1)
    by = ResidualCells(model, tuple(float(e) for e in edges))
    answer = yield from ask(SumQuery(EVERYONE, Count(), by, share))
    counts = answer.values[0, :, 0]
    seen = np.where(counts > RESIDUAL_STANDS_OUT * np.sqrt(answer.variance), counts, 0.0)
    if seen.sum() <= 0.0:
        return before
    above = np.append(edges, width)
    below = np.cumsum(seen) / seen.sum()
    clip = float(above[np.searchsorted(below, 1.0 - RESIDUAL_TAIL)])
    return Residuals(min(clip, width), float((seen * above**2).sum() / seen.sum()))


@estimator
class BoostedTreesRegressor(StagedTrees, PrivateRegressor, RegressionBoost):
    """Boosted trees for a number.

    It reads the structure of all trees off one noisy table, then asks one small sum a
    round; below a signal that boosting needs it grows a forest instead.

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
