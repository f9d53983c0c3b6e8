"""The methods that the study of Gubler's tree compares, with the one that the report printed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import ClassVar

import numpy as np

from hedgerow.methods.blocks import histograms, leaves
from hedgerow.methods.blocks.builder import LevelOrder, Node, TreePlan, grow
from hedgerow.methods.blocks.flow import Flow, NoiseModel
from hedgerow.methods.blocks.scores import gini
from hedgerow.methods.gubler import HistogramTree
from hedgerow.methods.method import Method, Needs, Task, TrainingResult, mean_of
from hedgerow.privacy.bundles import Size
from hedgerow.privacy.queries import Binning, Cells, ClassCounts, QueryKinds, Whole, bounds, sums
from hedgerow.schema.candidates import Grids, all_features
from hedgerow.schema.schema import Schema


@dataclass(frozen=True, kw_only=True)
class PublishedSaving(Method):
    """Algorithm 6 with the budgets the report gives it. **Not private at the claimed epsilon.**

    For measuring only: it runs in simulations without a limit, and the ledger says what it costs.
    The report charges the bounds of all p features as if they were one. Shares here are parts of
    the claimed epsilon and name what is really asked, so they add up to more than 1. Departure:
    noise for sensitivity 1, not 5/4, which is in the method's favor.
    """

    name: ClassVar[str] = "published_saving"
    max_depth: int
    min_samples_split: float
    leaf_fraction: Fraction = Fraction(1, 2)
    bounds_fraction: Fraction = Fraction(1, 4)

    @property
    def needs(self) -> Needs:
        return Needs(tasks=frozenset({Task.CLASSES}))

    def asks(self, schema: Schema) -> QueryKinds:
        return sums(ClassCounts, Cells, Whole) | bounds()

    def largest(self, schema: Schema) -> Size:
        return HistogramTree(max_depth=self.max_depth, budget_saving=True).largest(schema)

    def flow(
        self, schema: Schema, noise_model: NoiseModel, rng: np.random.Generator
    ) -> Flow[TrainingResult]:
        p, counts = len(schema.grids), ClassCounts(len(schema.classes or ()))
        rules = histograms.HistogramRules(
            Grids(schema, Binning.of_cells(schema)),
            counts,
            gini,
            self.min_samples_split,
            consistency=False,
            known_zeros=False,
        )
        true_cost = node_cost(p, self.bounds_fraction)
        level = (1 - self.leaf_fraction) / self.max_depth

        def fraction_at(node: Node) -> Fraction:
            # A child multiplies what was saved by the same factor again.
            return true_cost * level + (true_cost - 1) * node.unspent

        for_each = self.bounds_fraction / true_cost
        bounds_of = histograms.ask_bounds(rules.grids, lambda features: for_each)
        choose = histograms.by_bounds(
            rules, all_features(p), fraction_at, p * for_each, 1, bounds_of
        )
        ends = leaves.by_query(counts, lambda node: self.leaf_fraction)
        plan = TreePlan(choose, LevelOrder(), self.max_depth, ends)
        grown = yield from grow(plan, schema.names, rng)
        return TrainingResult(mean_of([grown.tree]), (grown,))


def node_cost(p: int, bounds_fraction: Fraction) -> Fraction:
    """What a node really spends for each part of epsilon that the report gives it."""
    return p * bounds_fraction + 1 - bounds_fraction


def honest_factor(p: int, leaf_fraction: Fraction, bounds_fraction: Fraction) -> Fraction:
    """True epsilon over claimed epsilon of Algorithm 6 as printed, before any saving."""
    return leaf_fraction + (1 - leaf_fraction) * node_cost(p, bounds_fraction)


Make = Callable[[int, float], Method]
"""(max_depth, min_samples_split) -> method."""


def plain(max_depth: int, min_samples_split: float) -> HistogramTree:
    """Algorithm 5 without extras."""
    return HistogramTree(
        max_depth=max_depth,
        min_samples_split=min_samples_split,
        consistency=False,
        known_zeros=False,
    )


def ours(max_depth: int, min_samples_split: float) -> HistogramTree:
    """Algorithm 5 with the extras that are on by default."""
    return HistogramTree(max_depth=max_depth, min_samples_split=min_samples_split)


def published_saving(max_depth: int, min_samples_split: float) -> PublishedSaving:
    return PublishedSaving(max_depth=max_depth, min_samples_split=min_samples_split)


def _changed(make: Callable[[int, float], HistogramTree], **changes: object) -> Make:
    return lambda depth, least: replace(make(depth, least), **changes)  # type: ignore[arg-type]


AS_PRINTED, AS_RELEASED = "saving as printed", "saving as released"
"""Not private at the claimed epsilon; the second over sites whose bounds are all zero."""
METHODS: dict[str, Make] = {
    "plain": plain,
    "saving": _changed(plain, budget_saving=True),
    AS_PRINTED: published_saving,
    AS_RELEASED: published_saving,
    "defaults": ours,
    "plain + known zeros": _changed(plain, known_zeros=True),
    "plain + consistency": _changed(plain, consistency=True),
    "defaults + saving": _changed(ours, budget_saving=True),
}
