"""One tree from private histograms: Gubler 2023, Algorithms 5 and 6."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from hedgerow.growing import choosers, leaves
from hedgerow.growing.builder import Chooser, Node, TreePlan, grow
from hedgerow.growing.candidates import Grids, all_features
from hedgerow.growing.flow import Flow, Quote
from hedgerow.growing.frontier import LevelOrder
from hedgerow.growing.scores import gini
from hedgerow.queries import Binning, ClassCounts
from hedgerow.recipes.plan import Trained, mean_of
from hedgerow.schema import Schema


@dataclass(frozen=True, kw_only=True)
class HistogramTree:
    """Level by level; a node spends (1 - leaf_share) / max_depth, a leaf at least leaf_share.

    With `save_budget`, Algorithm 6. Departures from the paper: any number of classes; a leaf gets
    all that its path did not spend; the histograms of a node are made to agree on their totals
    (`consistency`); the leaf query is averaged with the parent's histogram (`combine`).
    """

    max_depth: int = 5
    min_samples_leaf: float = 5.0
    leaf_share: Fraction = Fraction(1, 2)
    save_budget: bool = False
    bounds_share: Fraction = Fraction(1, 4)
    chunk: int = 1
    consistency: bool = True
    combine: bool = True

    @property
    def name(self) -> str:
        return "histogram_tree"

    def expected_rounds(self, schema: Schema) -> int | None:
        return None if self.save_budget else self.max_depth + 1

    def flow(self, schema: Schema, quote: Quote, rng: np.random.Generator) -> Flow[Trained]:
        counts = ClassCounts(len(schema.classes or ()))
        grids = Grids(schema, Binning.of_cells(schema))
        rules = choosers.HistogramRules(
            grids, counts, gini, self.min_samples_leaf, self.consistency
        )
        ends = leaves.by_query(counts, _unspent, leaves.proportions, self.combine)
        plan = TreePlan(self._chooser(rules, quote.lattice), LevelOrder(), self.max_depth, ends)
        grown = yield from grow(plan, [g.feature for g in schema.grids], rng)
        return Trained(mean_of([grown], counts.n_classes), (grown,))

    def _chooser(self, rules: choosers.HistogramRules, unit: int) -> Chooser:
        features = all_features(rules.grids.n_features)
        if not self.save_budget:
            return choosers.by_histogram(rules, features, self._node_share)
        return choosers.by_bounds(
            rules, features, self._node_share, self.bounds_share, self.chunk, unit
        )

    def _node_share(self, node: Node) -> Fraction:
        return (1 - self.leaf_share) / self.max_depth


def _unspent(node: Node) -> Fraction:
    return 1 - node.spent
