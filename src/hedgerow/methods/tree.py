"""One tree, as good as noise allows: private bins, screened tables, shrunk leaf values."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from hedgerow.methods.base import PrivateClassifier, PrivateRegressor
from hedgerow.methods.blocks.builder import Node, TreePlan, grow
from hedgerow.methods.blocks.fallback import (
    LEVEL_ASKS,
    bias_correction_of,
    needs_fallback,
    shares_or_mean,
)
from hedgerow.methods.blocks.flow import Flow, NoiseModel
from hedgerow.methods.blocks.leaves import (
    shrink_to_parents,
    shrinkage_of,
    unspent,
)
from hedgerow.methods.blocks.public_grids import fine_schema
from hedgerow.methods.blocks.random_trees import (
    draw_trees,
    is_signal_below,
    random_depth,
)
from hedgerow.methods.blocks.screening import FeatureScreening, refined_chooser
from hedgerow.methods.blocks.sizes import QUERY, Scale
from hedgerow.methods.blocks.target import initial_asks, initial_round, target_statistic
from hedgerow.methods.constants import constant
from hedgerow.methods.method import Method, TrainingResult, mean_of, method
from hedgerow.methods.parameters import estimator, parameter
from hedgerow.models.model import Additive
from hedgerow.privacy.bundles import Size
from hedgerow.privacy.queries import Cells, Leaves, QueryKinds, Whole, sums
from hedgerow.schema.arrays import Rng
from hedgerow.schema.rules import or_none, whole
from hedgerow.schema.schema import Schema

ROOT_FRACTION = constant(Fraction(35, 100), unit="part of the budget", evidence="trees.md#0063")
"""Fraction of the budget for the root's tables."""
LEAST_ROWS = constant(5.0, unit="rows that a side must hold")
DEPTH = constant(6, unit="levels of a tree", evidence="forests.md#0064")
WEAK_DEPTH = constant(3, unit="depth where noise is as large as the data", evidence="gates.md#0062")
RANDOM_SINGLE_TREE_BELOW_IF_PURE = constant(
    300.0, unit="rows per Laplace noise of one sum", evidence="gates.md#0155"
)
"""Rows per Laplace noise deviation of one sum below which one tree is totally random."""


@dataclass(frozen=True)
class TreeConstants:
    """Settings that follow from the noisy signal-to-noise ratio alone."""

    pieces: FeatureScreening
    leaf_fraction: Fraction = Fraction(1, 5)
    max_depth: int = DEPTH


def usual_depth(schema: Schema) -> int:
    """Six levels for regression or two classes, and one more for each doubling of the classes."""
    n_classes = len(schema.classes or ())
    return DEPTH + max(n_classes // 2, 1).bit_length() - 1


def tree_constants(signal: float, is_pure: bool) -> TreeConstants:
    few = 6 if is_pure else 10
    if signal < 30:
        # No stopping rule: weak splits beat no splits.
        pieces = FeatureScreening(cells=16, bins=6, keep=few, penalty=0.0, deviations=0.0)
        return TreeConstants(pieces, Fraction(3, 10), WEAK_DEPTH)
    if signal < 300:
        return TreeConstants(FeatureScreening(cells=32, bins=6, keep=few))
    if signal < 1000:
        return TreeConstants(FeatureScreening(cells=64, bins=6, keep=10))
    return TreeConstants(FeatureScreening(cells=256, bins=16, keep=12))


@method("tree", test_settings=({"max_depth": 3},))
class ScreenedTree(Method):
    """A tree of depth D in D + 2 rounds, D + 3 for regression; more if round 1 is repeated.

    | round  | asked                                           | fraction of the budget    |
    |--------|-------------------------------------------------|---------------------------|
    | 1      | number of rows (and the target's counts at five widths) | 1 % (and 4 %)     |
    | 2      | class tables of all features on a coarse grid   | 35 % of the rest          |
    | 3..D+1 | class tables of each node's best features       | 45 % of the rest, equally |
    | D+2    | class counts of the leaves                      | all a path did not spend  |
    | D+3    | numbers: the sum of the residuals               | 1 to 10 %, kept back      |

    If the root's tables are below the noise, the tree is totally random and its leaves get the
    rest; if those are too, the tree is one leaf: the class shares or the mean.
    """

    max_depth: int | None = parameter(
        default=None,
        rule=or_none(whole(1)),
        text="Levels of splits; None is 6 and one more for each doubling of the classes, or 3 "
        "where noise is as large as the data.",
    )

    def asks(self, schema: Schema) -> QueryKinds:
        kinds = initial_asks(schema) | sums(target_statistic(schema), Cells, Whole)
        # With so weak a signal regression returns the mean, so its trees are never totally random.
        random_trees = sums(target_statistic(schema), Leaves)
        return kinds | (LEVEL_ASKS if schema.target is not None else random_trees)

    def grid(self, schema: Schema) -> Schema:
        return fine_schema(schema)

    def largest(self, schema: Schema) -> Size:
        """Classes below the noise get a totally random tree of the requested depth."""
        scale = Scale(schema)
        depth = scale.deepest(self.max_depth or usual_depth(schema))
        channels, tree_size = scale.channels, Size()
        for level in range(depth):
            tree_size += scale.tables(scale.nodes(level), channels=channels, depth=level)
        tree_size += scale.sums(scale.nodes(depth), channels=channels, depth=depth)
        if schema.target is None:
            random_tree_size = scale.trees(1, scale.nodes(depth), channels=channels)
            return scale.initial_round() + (tree_size | random_tree_size)
        model = scale.model_bytes(1, scale.nodes(depth), 1)
        return (
            scale.initial_round() + tree_size + Size.of_step(integers=channels, bytes=QUERY + model)
        )

    def flow(self, schema: Schema, noise_model: NoiseModel, rng: Rng) -> Flow[TrainingResult]:
        first_round = yield from initial_round(schema, noise_model)
        rest, target = 1 - first_round.spent, first_round.target
        bias_correction = bias_correction_of(first_round, schema, noise_model)
        if needs_fallback(first_round, noise_model):
            return (yield from shares_or_mean(first_round, schema, noise_model))
        if is_signal_below(first_round, noise_model, 0.0, RANDOM_SINGLE_TREE_BELOW_IF_PURE):
            depth = self.max_depth or random_depth(first_round)
            (statistics,) = yield from draw_trees(schema, target, 1, depth, rest, rng)
            return TrainingResult(mean_of([statistics.tree]), (statistics,))
        kept_back = bias_correction.fraction if bias_correction else Fraction(0)
        rest -= kept_back
        constants = tree_constants(first_round.signal, noise_model.is_pure)
        usual = usual_depth(schema) if constants.max_depth == DEPTH else constants.max_depth
        depth = self.max_depth or usual
        levels = rest * (1 - ROOT_FRACTION - constants.leaf_fraction) / max(depth - 1, 1)

        def fraction_at(node: Node) -> Fraction:
            return levels if node.depth else rest * ROOT_FRACTION

        root, choose = yield from refined_chooser(
            schema, target, constants.pieces, fraction_at, least=LEAST_ROWS, spent=1 - rest
        )
        ends = shrink_to_parents(target, unspent, shrinkage_of(target))
        plan = TreePlan(choose, depth, ends)
        statistics = yield from grow(plan, schema.names, rng, root)
        if bias_correction:
            mean = Additive((0.0,), trees=(statistics.tree,))
            statistics = statistics.shift((yield from bias_correction.shift(mean)))
        return TrainingResult(mean_of([statistics.tree]), (statistics,))


@estimator
class TreeClassifier(PrivateClassifier, ScreenedTree):
    """One interpretable decision tree with differential privacy.

    Private bins are cells of a public grid, merged by noisy counts. Tables are screened: a node
    asks only for the features that looked best to its parent. Leaf values are shrunk towards their
    ancestors, the more the noisier they are. All constants follow from a noisy signal-to-noise
    ratio. A tree of depth D takes D + 2 rounds, and more if the number of records is below the
    noise and is asked again. Numeric columns use a uniform and a logarithmic grid at once, unless
    the schema declares their edges.

    Examples
    --------
    >>> import hedgerow as hr
    >>> columns = (hr.Numeric("age", 0, 100), hr.Numeric("dose", 0, 10))
    >>> schema = hr.Schema(columns, classes=("no", "yes"))
    >>> X = [[20, 1], [30, 2], [70, 8], [80, 9]] * 500
    >>> y = ["no", "no", "yes", "yes"] * 500
    >>> model = hr.TreeClassifier(schema, epsilon=10.0).fit(X, y)
    >>> model.predict([[25, 1], [75, 9]])
    array(['no', 'yes'], dtype='<U3')
    >>> model.privacy_.summary
    'epsilon = 10, delta = 1e-6'

    """


@estimator
class TreeRegressor(PrivateRegressor, ScreenedTree):
    """One decision tree with differential privacy for a numeric target; see TreeClassifier.

    The target is clipped to its noisy .1 and 99.9 % quantiles within the schema's public range.

    Examples
    --------
    >>> import hedgerow as hr
    >>> columns = (hr.Numeric("age", 0, 100), hr.Numeric("dose", 0, 10))
    >>> schema = hr.Schema(columns, target=hr.Target(0, 100))
    >>> X = [[20, 1], [30, 2], [70, 8], [80, 9]] * 500
    >>> y = [10, 20, 80, 90] * 500
    >>> model = hr.TreeRegressor(schema, epsilon=10.0).fit(X, y)
    >>> low, high = model.predict([[25, 1], [75, 9]])
    >>> bool(low < high)
    True

    """
