"""Splits near the median of a feature: balanced nodes, so that no leaf is below its noise.

Consul and Williamson 2020 (DiPriMe), Algorithm 1, corrected. The candidates of a feature are the
cuts of its public grid that the path to the node leaves open, or public random halves of its
categories. There are four choosers:

| chooser           | asks                                                    |
|-------------------|---------------------------------------------------------|
| at_median         | one feature, drawn publicly; its most balanced cut      |
| among_medians     | the most balanced cut of K features, then one of the K  |
| among_cuts        | one choice among all cuts of K features                 |
| at_noisy_medians  | noisy tables of K features; medians and gains from them |

Each of several sites selects on its own rows (docs/proofs/selection.md): the middle of their
medians is taken; of splits by the target, the best by noisy counts over all sites.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property

import numpy as np

from hedgerow.methods.blocks.builder import Chooser, Node, SplitChoice, Stop
from hedgerow.methods.blocks.flow import Flow, selection
from hedgerow.methods.blocks.histograms import HistogramRules
from hedgerow.methods.blocks.random_trees import random_half
from hedgerow.methods.blocks.scores import Impurity, left_masses
from hedgerow.methods.blocks.selection import SelectionRules, shortlist, split_at
from hedgerow.methods.constants import constant
from hedgerow.models.tree import MOST_LEAVES
from hedgerow.privacy.queries import (
    LATTICE,
    LocalSelection,
    Score,
    Scoring,
    Selecting,
    Selections,
    SelectQuery,
    Thresholds,
)
from hedgerow.privacy.queries.choices import Candidate
from hedgerow.schema.arrays import BoolArray, FloatArray, IntArray, Rng
from hedgerow.schema.candidates import Grids
from hedgerow.schema.grids import ColumnKind
from hedgerow.schema.regions import Region, Split

MOST_HALVES = constant(32, unit="random halves")
"""Random halves of a feature's categories that are candidates at a node."""


BALANCE = Scoring(Score.BALANCE)


@dataclass(frozen=True)
class MedianRules:
    """Public settings: bins, number of features per node, selections and counts of a shortlist.

    `several` says whether several sites have rows.
    """

    max_features: int | None
    selection: SelectionRules
    several: bool = False

    @cached_property
    def grids(self) -> Grids:
        return self.selection.grids

    def balanced(
        self, region: Region, candidates: tuple[Candidate, ...], fraction: Fraction
    ) -> Selecting:
        """A selection of the most balanced cut of a feature."""
        kind = LocalSelection if self.several else SelectQuery
        return kind(region, candidates, BALANCE, fraction, self.selection.mechanism)

    def by_target(
        self, node: Node, candidates: tuple[Candidate, ...], fraction: Fraction, balance: int = 0
    ) -> Flow[SplitChoice]:
        """The index of a selection at one site; among those of several, noisy counts decide."""
        rules = self.selection
        scoring = replace(rules.scoring, balance=balance)
        if self.several:
            rules = replace(rules, scoring=scoring)
            return (yield from shortlist(rules, node, candidates, fraction, LocalSelection))
        query = SelectQuery(node.region, candidates, scoring, fraction, rules.mechanism)
        (k,) = yield from selection(query)
        return SplitChoice(split_at(candidates, k))

    def features(self, region: Region, k: int | None, rng: Rng) -> list[int]:
        """K (None: all) of the features that can still be split, drawn anew for every node."""
        order, reach = rng.permutation(self.grids.n_features).tolist(), self.grids.reach(region)
        return sorted([f for f in order if reach[f].n_known > 1][:k])

    def cuts(self, region: Region, feature: int, rng: Rng) -> BoolArray:
        """(k, B) sets of bins to send left; `missing` goes to one random side in all of them."""
        number_bins = np.flatnonzero(self.grids.reachable(region, feature)[:-1])
        n_bins = self.grids.binning.n_bins[feature]
        if self.grids.grid(feature).kind is ColumnKind.NUMERIC:
            sets = np.arange(n_bins) < number_bins[1:, None]
        else:
            sets = np.stack(random_halves(n_bins, number_bins, rng))
        sets[:, -1] = rng.random() < 0.5
        return sets

    def candidates(self, region: Region, feature: int, rng: Rng) -> tuple[Candidate, ...]:
        """The tests of `cuts`; those of a numeric feature as one run."""
        if self.grids.grid(feature).kind is not ColumnKind.NUMERIC:
            cuts = self.cuts(region, feature, rng)
            return tuple(dict.fromkeys(self.grids.split(feature, left) for left in cuts))
        reach, missing_left = self.grids.reach(region)[feature], bool(rng.random() < 0.5)
        key = (feature, reach.cells, missing_left)
        if key not in self._runs:
            # a cut before every reachable bin but the first; numeric bins are runs of cells
            grid, bins = self.grids.grid(feature), np.asarray(self.grids.binning.bins[feature])
            at = np.searchsorted(bins[: grid.missing], np.flatnonzero(reach.bins[:-1])[1:])
            also = grid.missing if missing_left else None
            run = Thresholds(grid.feature, grid.digest, tuple(at.tolist()), also)
            self._runs[key] = (run,)
        return self._runs[key]

    @cached_property
    def _runs(self) -> dict[tuple[int, int, bool], tuple[Thresholds]]:
        """Cached by content: the same cuts occur at many nodes."""
        return {}


def random_halves(n_bins: int, number_bins: IntArray, rng: Rng) -> list[BoolArray]:
    """Public random subsets of the reachable categories; one if there are two categories."""
    n_halves = min(MOST_HALVES, 2 ** min(len(number_bins) - 1, 30) - 1)
    return [random_half(n_bins, number_bins, rng) for _ in range(n_halves)]


def at_median(rules: MedianRules, fraction: Fraction) -> Chooser:
    """DiPriMe: the feature is drawn publicly, so one median is queried and charged."""

    def choose(node: Node, rng: Rng) -> Flow[SplitChoice | Stop]:
        features = rules.features(node.region, 1, rng)
        if not features:
            return Stop()
        candidates = rules.candidates(node.region, features[0], rng)
        cuts = yield from selection(rules.balanced(node.region, candidates, fraction))
        return SplitChoice(_middle(candidates, cuts), spent=fraction)

    return choose


def among_medians(rules: MedianRules, fraction: Fraction) -> Chooser:
    """DiPriMeExp and DiPriMeFlip: K private medians, each charged, then a choice by the target.

    Of a level's budget a median has 2 parts in 2 K + 1 and the choice one: the paper's equal
    epsilons, of which the choice costs half, since its score is monotone.
    """

    def choose(node: Node, rng: Rng) -> Flow[SplitChoice | Stop]:
        features = rules.features(node.region, rules.max_features, rng)
        if not features:
            return Stop()
        part = fraction / (2 * len(features) + 1)
        candidates = [rules.candidates(node.region, f, rng) for f in features]
        replies = yield [rules.balanced(node.region, some, 2 * part) for some in candidates]
        cuts = [reply.indices for reply in replies if isinstance(reply, Selections)]
        medians = tuple(_middle(*pair) for pair in zip(candidates, cuts, strict=True))
        choice = yield from rules.by_target(node, medians, part)
        return replace(choice, spent=fraction)

    return choose


def _middle(candidates: Sequence[Candidate], cuts: Sequence[int]) -> Split:
    """The cut in the middle of those that sites selected; the cut itself at one site."""
    return split_at(candidates, sorted(cuts)[len(cuts) // 2])


def among_cuts(rules: MedianRules, fraction: Fraction, balance_at: Callable[[int], int]) -> Chooser:
    """One choice among all cuts of K features by the target; no median is asked for.

    Feature and cut are released as one index, so K features cost no more than one. `balance_at`
    gives the penalty units per level for every record of the larger child.
    """

    def choose(node: Node, rng: Rng) -> Flow[SplitChoice | Stop]:
        features = rules.features(node.region, rules.max_features, rng)
        candidates = tuple(c for f in features for c in rules.candidates(node.region, f, rng))
        if not candidates:
            return Stop()
        choice = yield from rules.by_target(node, candidates, fraction, balance_at(node.depth))
        return replace(choice, spent=fraction)

    return choose


def balance_below(depth: int, noise: float = math.inf) -> Callable[[int], int]:
    """A quarter of a squared error per record on the last level, half as much on each above.

    Squared errors shrink with every level and their noise does not: near the leaves the target
    would have no influence, and cuts would be random and uneven. Limited to `noise`, the deviation
    in records of a count at the same price: where choices are nearly exact, the target decides.
    """
    return lambda level: int(min(LATTICE >> (depth + 1 - level), LATTICE * noise))


TableFlow = Callable[[Node, tuple[int, ...]], Flow[list[FloatArray]]]
"""(node, features) -> the noisy (B, C) table of each."""


def flat_tables(rules: HistogramRules, fraction: Fraction) -> TableFlow:
    """One table of the bins of each feature, made to agree on their total."""

    def tables_of(node: Node, features: tuple[int, ...]) -> Flow[list[FloatArray]]:
        tables = rules.settle(node, (yield from rules.ask(node, features, fraction)))
        return [tables.of(i) for i in range(len(features))]

    return tables_of


def at_noisy_medians(
    rules: MedianRules, tables_of: TableFlow, impurity: Impurity, fraction: Fraction
) -> Chooser:
    """Medians and gains of K features from their noisy tables of the target by bin.

    A selection on true totals needs one site with all rows. A table does not: sites add noise
    shares, and computing medians and gains from it is free.
    """

    def choose(node: Node, rng: Rng) -> Flow[SplitChoice | Stop]:
        features = tuple(rules.features(node.region, rules.max_features, rng))
        if not features:
            return Stop()
        tables = yield from tables_of(node, features)
        gains, medians = list[float](), list[BoolArray]()
        for feature, table in zip(features, tables, strict=True):
            cuts, total = rules.cuts(node.region, feature, rng), table.sum(axis=0)
            left = left_masses(table, cuts)
            middle = int(np.argmin(np.abs((2.0 * left - total).sum(axis=1))))
            gain = impurity(total) - impurity(left[middle]) - impurity(total - left[middle])
            gains.append(float(gain))
            medians.append(cuts[middle])
        best = int(np.argmax(gains))
        split = rules.grids.split(features[best], medians[best])
        return SplitChoice(split, gains[best], fraction)

    return choose


MOST_BOUGHT_DEPTH = MOST_LEAVES.bit_length() - 1
"""Depth of the complete tree with the largest allowed number of leaves."""


def depth_for(rows: float, rows_per_leaf: float) -> int:
    """The deepest complete tree whose leaves can expect `rows_per_leaf` rows each."""
    return min(max(1, int(np.log2(max(rows / rows_per_leaf, 2.0)))), MOST_BOUGHT_DEPTH)
