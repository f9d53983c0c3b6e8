"""One tree from private histograms: Gubler 2023, Algorithms 5 and 6."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from fractions import Fraction

import numpy as np

from hedgerow.errors import SpecError
from hedgerow.methods.blocks import histograms
from hedgerow.methods.blocks.builder import ROOT, Chooser, LevelOrder, Node, TreePlan, grow
from hedgerow.methods.blocks.flow import Flow, Quote
from hedgerow.methods.blocks.goal import Goal
from hedgerow.methods.blocks.leaves import LeafBudget, by_leaf_budget
from hedgerow.methods.blocks.public_grids import fine_schema
from hedgerow.methods.blocks.scores import gini
from hedgerow.methods.blocks.screening import Refinement, refined_chooser
from hedgerow.methods.blocks.sizes import Scale
from hedgerow.methods.method import Needs, Task, Trained, mean_of
from hedgerow.privacy.bundles import Size
from hedgerow.privacy.queries import Binning, Cells, ClassCounts, QueryKinds, Whole, bounds, sums
from hedgerow.schema.candidates import Grids, all_features
from hedgerow.schema.schema import Schema


class Accounting(Enum):
    """What Algorithm 6 spends on its bounds."""

    SOUND = "sound"  # all bounds of a node share what is meant for them
    PRINTED = "printed"  # each bound has it: the report counts p of them as one
    RELEASED = "released"  # the released code's bounds are zero, so they cost nothing


PRINTED_SENSITIVITY = Fraction(5, 4)
"""Of a bound, by the report's Lemma 3.2; the true one is 1."""


def honest_factor(
    accounting: Accounting,
    p: int,
    max_depth: int,
    leaf_share: Fraction = Fraction(1, 2),
    bounds_share: Fraction = Fraction(1, 4),
) -> Fraction:
    """What Algorithm 6 costs at most, in units of the epsilon that it names.

    The report gives each of p bounds the budget that it charges once, with noise for a sensitivity
    of 5/4, so a node of budget b pays 4/5 p bounds_share b for them. What a node saves is spent
    below, bounds again included: where these cost more than they save, the dearest path saves all
    it can, which leaves one histogram of p a node.
    """
    if accounting is Accounting.SOUND:
        return Fraction(1)
    bounds = p * bounds_share / PRINTED_SENSITIVITY if accounting is Accounting.PRINTED else 0
    level, hists = (1 - leaf_share) / max_depth, 1 - bounds_share
    below, slope = Fraction(0), bounds + hists  # of the last level: below + slope x its budget
    for _ in range(max_depth - 1):
        saved = Fraction(p - 1, p) if slope > 1 else Fraction(0)
        below, slope = below + slope * level, bounds + hists * (1 - saved + saved * slope)
    return leaf_share + below + slope * level


@dataclass(frozen=True, kw_only=True)
class HistogramTree:
    """Level by level; a node spends (1 - leaf_share) / max_depth, a leaf at least leaf_share.

    With `save_budget`, Algorithm 6, its bounds made sound unless `accounting` says otherwise: then
    the budget is what they really cost at most (`honest_factor`), and the report's own epsilon is
    that much smaller. Departures from the paper: any number of classes; missing values and
    categories have bins of their own; while saving, shares are rounded down by at most 3 percent.
    Extras, each of which can be turned off: a leaf gets all that its path did not spend
    (`leaf_budget`), the histograms of a node agree on their totals (`consistency`), bins that the
    path excludes hold nothing (`known_zeros`). Defaults by
    measurement: studies/notes/trees.md#0010. `n_bins` None takes the schema's bins.
    A node of fewer than `min_samples_split` noisy rows is not split; with `refine`, a side of fewer
    than `min_samples_leaf` is no split.
    Pieces of our own tree, off by default: leaves that `lean` on the nodes above them, and tables
    asked and read with `refine`; studies/notes/trees.md#0063.
    """

    max_depth: int = 5
    n_bins: int | None = None
    min_samples_split: float = 5.0
    min_samples_leaf: float = 5.0
    leaf_share: Fraction = Fraction(1, 2)
    save_budget: bool = False
    bounds_share: Fraction = Fraction(1, 4)
    accounting: Accounting = Accounting.SOUND
    chunk: int = 1
    leaf_budget: LeafBudget = LeafBudget.UNSPENT
    consistency: bool = True
    known_zeros: bool = True
    lean: bool = False
    refine: Refinement | None = None

    def __post_init__(self) -> None:
        if self.refine is not None and (self.save_budget or not self.consistency):
            raise SpecError(
                "refine needs save_budget=False and consistency=True: refined tables are asked "
                "together and agree on their totals."
            )

    @property
    def name(self) -> str:
        return "histogram_tree"

    @property
    def needs(self) -> Needs:
        """Bounds are each site's own, so with them the division counts."""
        return Needs(tasks=frozenset({Task.CLASSES}))

    def asks(self, schema: Schema) -> QueryKinds:
        tables = sums(ClassCounts, Cells, Whole)
        asked = self.save_budget and self.accounting is not Accounting.RELEASED
        return tables | bounds() if asked else tables

    def grid(self, schema: Schema) -> Schema:
        if self.n_bins is not None:
            return schema.with_grid(bins=self.n_bins)
        return schema if self.refine is None else fine_schema(schema)

    def largest(self, schema: Schema) -> Size:
        scale = Scale(schema)
        depth, channels = scale.deepest(self.max_depth), scale.channels
        size = Size()
        for level in range(depth):
            table = scale.tables(scale.nodes(level), channels=channels, depth=level)
            looks = -(-scale.columns // self.chunk) + 1 if self.save_budget else 1
            size += table * looks
        return size + scale.sums(scale.nodes(depth), channels=channels, depth=depth)

    def flow(self, schema: Schema, quote: Quote, rng: np.random.Generator) -> Flow[Trained]:
        goal = Goal(ClassCounts(len(schema.classes or ())))
        if self.refine is None:
            root, choose = ROOT, self._chooser(schema, goal, quote)
        else:
            root, choose = yield from refined_chooser(
                schema, goal, self.refine, self._node_share, least=self.min_samples_leaf
            )
        leaf_share = self.leaf_share / self._honest(len(schema.grids))
        ends = by_leaf_budget(goal, self.leaf_budget, leaf_share, lean=self.lean)
        plan = TreePlan(choose, LevelOrder(), self.max_depth, ends)
        grown = yield from grow(plan, schema.names, rng, root)
        return Trained(mean_of([grown.tree]), (grown,))

    def _chooser(self, schema: Schema, goal: Goal, quote: Quote) -> Chooser:
        rules = histograms.HistogramRules(
            Grids(schema, Binning.of_cells(schema)),
            goal.statistic,
            gini,
            self.min_samples_split,
            self.consistency,
            self.known_zeros,
        )
        features = all_features(rules.grids.n_features)
        if not self.save_budget:
            return histograms.by_histogram(rules, features, self._node_share)
        honest = self._honest(rules.grids.n_features)
        return histograms.by_bounds(
            rules,
            features,
            lambda node: self._node_share(node) / honest,
            self.bounds_share,
            self.chunk,
            self._bounds(rules.grids, quote),
        )

    def _honest(self, p: int) -> Fraction:
        return honest_factor(self.accounting, p, self.max_depth, self.leaf_share, self.bounds_share)

    def _bounds(self, grids: Grids, quote: Quote) -> histograms.BoundFlow:
        printed = self.bounds_share / PRINTED_SENSITIVITY
        match self.accounting:
            case Accounting.SOUND:
                return histograms.asked_bounds(grids, lambda p: self.bounds_share / p)
            case Accounting.PRINTED:
                return histograms.asked_bounds(grids, lambda p: printed)
            case Accounting.RELEASED:
                return histograms.bounds_of_zero(grids, lambda p: printed, quote)

    def _node_share(self, node: Node) -> Fraction:
        """Levels divide equally what the leaves do not keep."""
        return (1 - self.leaf_share) / self.max_depth
