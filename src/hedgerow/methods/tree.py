"""One tree, as good as noise allows: private bins, screened tables, leaves that lean on parents."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from hedgerow.methods.base import PrivateClassifier, PrivateRegressor
from hedgerow.methods.blocks.builder import LevelOrder, Node, TreePlan, grow
from hedgerow.methods.blocks.calibration import LEVEL_ASKS
from hedgerow.methods.blocks.fallback import is_harmful, levelling_of, shares_or_mean
from hedgerow.methods.blocks.flow import Flow, Quote
from hedgerow.methods.blocks.goal import goal_statistic, opening, opening_asks
from hedgerow.methods.blocks.leaves import (
    by_leaning_on_parents,
    lean_of,
    merge_equal_labels,
    unspent,
)
from hedgerow.methods.blocks.public_grids import fine_schema
from hedgerow.methods.blocks.random_trees import (
    HOPELESS,
    Gates,
    blind_depth,
    drawn_trees,
    is_hopeless,
)
from hedgerow.methods.blocks.screening import Refinement, refined_chooser
from hedgerow.methods.blocks.sizes import QUERY, Scale
from hedgerow.methods.method import Method, Trained, mean_of, method
from hedgerow.methods.parameters import estimator, parameter
from hedgerow.models.model import Additive
from hedgerow.models.uncertainty import Grown
from hedgerow.privacy.bundles import Size
from hedgerow.privacy.queries import Cells, Leaves, QueryKinds, Whole, sums
from hedgerow.schema.rules import or_none, whole
from hedgerow.schema.schema import Schema

ROOT_SHARE = Fraction(35, 100)
LEAST_ROWS = 5.0
DEPTH, WEAK_DEPTH = 6, 3
HOPELESS_ALONE, HOPELESS_ALONE_IF_PURE = 0.0, 300.0
"""Rows per noise of one sum below which noise draws a worse tree than chance: fewer than for a
forest, since one blind tree says less than a few; with Gaussian noise there is no such number."""


@dataclass(frozen=True)
class TreeConstants:
    """What follows from the noisy signal-to-noise ratio alone."""

    pieces: Refinement
    leaf_share: Fraction = Fraction(1, 5)
    max_depth: int = DEPTH


def usual_depth(schema: Schema) -> int:
    """Six levels for a number or two classes, and one more whenever the classes double."""
    n_classes = len(schema.classes or ())
    return DEPTH + max(n_classes // 2, 1).bit_length() - 1


def tree_constants(signal: float, is_pure: bool) -> TreeConstants:
    few = 6 if is_pure else 10
    if signal < 30:
        # No stop rule: weak splits beat no splits.
        pieces = Refinement(cells=16, bins=6, keep=few, penalty=0.0, deviations=0.0)
        return TreeConstants(pieces, Fraction(3, 10), WEAK_DEPTH)
    if signal < 300:
        return TreeConstants(Refinement(cells=32, bins=6, keep=few))
    if signal < 1000:
        return TreeConstants(Refinement(cells=64, bins=6, keep=10))
    return TreeConstants(Refinement(cells=256, bins=16, keep=12))


@method("tree", tried=({"max_depth": 3},))
class ScreenedTree(Method):
    """A tree of depth D in D + 2 rounds, D + 3 for a number; more where round 1 is asked again.

    | round  | asked                                           | share of the budget       |
    |--------|-------------------------------------------------|---------------------------|
    | 1      | number of rows (and the target's counts at five widths) | 1 % (and 4 %)     |
    | 2      | class tables of all features on a thinned grid  | 35 % of the rest          |
    | 3..D+1 | class tables of each node's best features       | 45 % of the rest, equally |
    | D+2    | class counts of the leaves                      | all a path did not spend  |
    | D+3    | numbers: the sum of what the tree misses        | 1 to 10 %, kept back      |

    Where noise hides even the root's tables, a tree is drawn blindly and its leaves get all; where
    it hides those too, the tree is one leaf: the classes' shares or the mean.
    """

    max_depth: int | None = parameter(
        default=None,
        rule=or_none(whole(1)),
        text="Levels of splits; None is 6 and one more whenever the classes double, or 3 where "
        "noise is as large as the data.",
    )

    def asks(self, schema: Schema) -> QueryKinds:
        kinds = opening_asks(schema) | sums(goal_statistic(schema), Cells, Whole)
        # Numbers that noise hides this much get their mean, so no tree is drawn blindly for them.
        return kinds | (
            LEVEL_ASKS if schema.target is not None else sums(goal_statistic(schema), Leaves)
        )

    def grid(self, schema: Schema) -> Schema:
        return fine_schema(schema)

    def largest(self, schema: Schema) -> Size:
        """Classes that noise hides get a tree drawn blindly, as deep as was asked for."""
        scale = Scale(schema)
        depth = scale.deepest(self.max_depth or usual_depth(schema))
        channels, grown = scale.channels, Size()
        for level in range(depth):
            grown += scale.tables(scale.nodes(level), channels=channels, depth=level)
        grown += scale.sums(scale.nodes(depth), channels=channels, depth=depth)
        if schema.target is None:
            drawn = scale.trees(1, scale.nodes(depth), channels=channels)
            return scale.opening() + (grown | drawn)
        model = scale.model_bytes(1, scale.nodes(depth), 1)
        return scale.opening() + grown + Size.of_step(integers=channels, bytes=QUERY + model)

    def flow(self, schema: Schema, quote: Quote, rng: np.random.Generator) -> Flow[Trained]:
        opened = yield from opening(schema, quote)
        rest, goal = 1 - opened.spent, opened.goal
        levelling = levelling_of(opened, schema, quote)
        if is_harmful(opened, quote):
            return (yield from shares_or_mean(opened, schema, quote))
        if is_hopeless(opened, quote, Gates(HOPELESS, HOPELESS_ALONE, HOPELESS_ALONE_IF_PURE)):
            depth = self.max_depth or blind_depth(opened)
            (grown,) = yield from drawn_trees(schema, goal, 1, depth, rest, rng)
            return self._finished(grown)
        kept_back = levelling.share if levelling else Fraction(0)
        rest -= kept_back
        constants = tree_constants(opened.signal, quote.is_pure)
        deeper = usual_depth(schema) if constants.max_depth == DEPTH else constants.max_depth
        depth = self.max_depth or deeper
        levels = rest * (1 - ROOT_SHARE - constants.leaf_share) / max(depth - 1, 1)

        def share_at(node: Node) -> Fraction:
            return levels if node.depth else rest * ROOT_SHARE

        root, choose = yield from refined_chooser(
            schema, goal, constants.pieces, share_at, least=LEAST_ROWS, spent=1 - rest
        )
        ends = by_leaning_on_parents(goal, unspent, lean_of(goal))
        plan = TreePlan(choose, LevelOrder(), depth, ends)
        grown = yield from grow(plan, schema.names, rng, root)
        if levelling:
            grown = grown.shifted(
                (yield from levelling.shift(Additive((0.0,), trees=(grown.tree,))))
            )
        return self._finished(grown)

    def _finished(self, grown: Grown) -> Trained:
        return Trained(mean_of([grown.tree]), (grown,))


@method("tree", tried=({"max_depth": 2, "merge_equal_labels": True},))
class ScreenedClassTree(ScreenedTree):
    """The same for classes; siblings that name one class may become one leaf, at no charge."""

    merge_equal_labels: bool = parameter(
        default=False,
        text="Whether sibling leaves that name one class become one leaf: about half the leaves, "
        "the same predictions, coarser probabilities.",
    )

    def _finished(self, grown: Grown) -> Trained:
        return super()._finished(merge_equal_labels(grown) if self.merge_equal_labels else grown)


@estimator
class TreeClassifier(PrivateClassifier, ScreenedClassTree):
    """One interpretable private tree: private bins, screened tables, leaves that lean on parents.

    Private bins are cells of a public grid, joined by noisy counts. Screened tables: a node asks
    only for the features that looked best to its parent. A leaf that leans says something between
    its own noisy counts and those of the nodes above it, the closer to theirs the noisier it is.
    All constants follow from a noisy signal-to-noise ratio. A tree of depth D costs D + 2 rounds,
    and more where noise hides the number of records, which is then asked again.
    Numeric columns are read on an even and a logarithmic ladder at once, unless the schema
    declares their edges.

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
    >>> model.privacy_.promise
    'epsilon = 10, delta = 1e-6'

    """


@estimator
class TreeRegressor(PrivateRegressor, ScreenedTree):
    """One interpretable private tree for a number; see TreeClassifier.

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
