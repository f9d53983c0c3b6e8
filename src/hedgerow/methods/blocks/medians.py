"""Splits near the median of a feature: nodes stay balanced, so that no leaf drowns in its noise.

Consul and Williamson 2020 (DiPriMe), Algorithm 1, made sound. A feature's candidates are the cuts
of its public grid that the path to the node leaves open, or public random halves of its
categories. Four ways to take one of them:

| chooser           | asks                                                    | who may ask       |
|-------------------|---------------------------------------------------------|-------------------|
| at_median         | one feature, drawn in public; its most balanced cut     | one holder        |
| among_medians     | the most balanced cut of K features, then one of the K  | one holder        |
| among_cuts        | one choice among all cuts of K features                 | one holder        |
| at_noisy_medians  | noisy tables of K features; medians and gains from them | any number        |

Departures: the paper charges K medians as one, which holds only if the other K - 1 are never
looked at; here each is paid. Cuts come from a public grid and not from the real line: the index
is all that leaves. Categories are scored by balance with the sign that prefers balance.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from itertools import islice
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hedgerow.methods.blocks.builder import Choice, Chooser, Node, Stop
from hedgerow.methods.blocks.dyadic import DyadicTables
from hedgerow.methods.blocks.flow import Flow, pick
from hedgerow.methods.blocks.histograms import HistogramRules
from hedgerow.methods.blocks.random_trees import random_half
from hedgerow.methods.blocks.scores import Impurity, left_masses
from hedgerow.models.tree import MOST_LEAVES
from hedgerow.privacy.queries import (
    LATTICE,
    Cuts,
    Mechanism,
    Picks,
    Reply,
    Score,
    Scoring,
    SelectQuery,
)
from hedgerow.privacy.queries.choices import Candidate, candidate
from hedgerow.schema.arrays import BoolArray, FloatArray
from hedgerow.schema.candidates import Grids
from hedgerow.schema.grids import ColumnKind
from hedgerow.schema.regions import Region, Split

MOST_HALVES = 32
"""Random halves of a feature's categories that are candidates at a node."""

BALANCE = Scoring(Score.BALANCE)


@dataclass(frozen=True)
class MedianRules:
    """Public facts: the bins, how many features a node looks at, how a choice is scored."""

    grids: Grids
    max_features: int | None
    scoring: Scoring
    mechanism: Mechanism

    def features(self, region: Region, k: int | None, rng: np.random.Generator) -> list[int]:
        """K (None: all) of the features that can still be split, drawn afresh for every node."""
        order = rng.permutation(self.grids.n_features).tolist()
        able = (f for f in order if self.grids.n_known_reachable(region, f) > 1)
        return sorted(islice(able, k))

    def cuts(self, region: Region, feature: int, rng: np.random.Generator) -> BoolArray:
        """(k, B) sets of bins to send left; `missing` goes to one random side in all of them."""
        known = np.flatnonzero(self.grids.reachable(region, feature)[:-1])
        n_bins = self.grids.binning.n_bins[feature]
        if self.grids.grid(feature).kind is ColumnKind.NUMERIC:
            sets = np.arange(n_bins) < known[1:, None]
        else:
            sets = np.stack(random_halves(n_bins, known, rng))
        sets[:, -1] = rng.random() < 0.5
        return sets

    def candidates(
        self, region: Region, feature: int, rng: np.random.Generator
    ) -> tuple[Candidate, ...]:
        """The tests of `cuts`, those of a number as one run."""
        if self.grids.grid(feature).kind is not ColumnKind.NUMERIC:
            cuts = self.cuts(region, feature, rng)
            return tuple(dict.fromkeys(self.grids.split(feature, left) for left in cuts))
        reach, missing_left = self.grids.reachable(region, feature), bool(rng.random() < 0.5)
        key = (feature, reach.tobytes(), missing_left)
        if key not in self._runs:
            self._runs[key] = self._run(feature, reach, missing_left)
        return (self._runs[key],)

    @cached_property
    def _runs(self) -> dict[tuple[int, bytes, bool], Cuts]:
        """Kept by content: nodes meet the same cuts again and again."""
        return {}

    def _run(self, feature: int, reach: BoolArray, missing_left: bool) -> Cuts:
        """A cut before every bin in reach but the first; bins of a number are runs of cells."""
        grid, bins = self.grids.grid(feature), np.asarray(self.grids.binning.bins[feature])
        at = np.searchsorted(bins[: grid.missing], np.flatnonzero(reach[:-1])[1:])
        also = grid.missing if missing_left else None
        return Cuts(grid.feature, grid.digest, tuple(at.tolist()), also)


def random_halves(
    n_bins: int, known: NDArray[np.int64], rng: np.random.Generator
) -> list[BoolArray]:
    """Public random subsets of the categories that the path leaves open; one if there are two."""
    wanted = min(MOST_HALVES, 2 ** min(len(known) - 1, 30) - 1)
    return [random_half(n_bins, known, rng) for _ in range(wanted)]


# ---------------------------------------------------------------------------------- one holder
def at_median(rules: MedianRules, share: Fraction) -> Chooser:
    """DiPriMe: the feature is drawn in public, so that one median is asked and one is paid."""

    def choose(node: Node, rng: np.random.Generator) -> Flow[Choice | Stop]:
        features = rules.features(node.region, 1, rng)
        if not features:
            return Stop()
        candidates = rules.candidates(node.region, features[0], rng)
        query = SelectQuery(node.region, candidates, BALANCE, share, rules.mechanism)
        (k,) = yield from pick(query)
        return Choice(_split(candidates, k), spent=share)

    return choose


def among_medians(rules: MedianRules, share: Fraction) -> Chooser:
    """DiPriMeExp and DiPriMeFlip: K private medians, each paid, then a choice by the target.

    Which median wins depends on all of them, so K medians cost K times one. Of a level's budget
    a median has 2 parts in 2 K + 1 and the choice one: the paper's equal epsilons, the choice
    counted by its true cost, half of what the paper gives it, since its score is monotone.
    """

    def choose(node: Node, rng: np.random.Generator) -> Flow[Choice | Stop]:
        features = rules.features(node.region, rules.max_features, rng)
        if not features:
            return Stop()
        part = share / (2 * len(features) + 1)
        candidates = [rules.candidates(node.region, f, rng) for f in features]
        replies = yield [
            SelectQuery(node.region, some, BALANCE, 2 * part, rules.mechanism)
            for some in candidates
        ]
        medians = tuple(_split(c, _index(r)) for c, r in zip(candidates, replies, strict=True))
        query = SelectQuery(node.region, medians, rules.scoring, part, rules.mechanism)
        (k,) = yield from pick(query)
        return Choice(medians[k], spent=share)

    return choose


def _split(candidates: Sequence[Candidate], k: int) -> Split:
    found = candidate(candidates, k)
    assert isinstance(found, Split)
    return found


def _index(reply: Reply) -> int:
    assert isinstance(reply, Picks)
    return reply.indices[0]


def among_cuts(rules: MedianRules, share: Fraction, balance_at: Callable[[int], int]) -> Chooser:
    """One choice among all cuts of K features by the target; no median is asked for.

    Feature and cut leave as one index, so K features cost no more than one. `balance_at` gives
    the units that a level takes off for every record of the larger child.
    """

    def choose(node: Node, rng: np.random.Generator) -> Flow[Choice | Stop]:
        features = rules.features(node.region, rules.max_features, rng)
        candidates = tuple(c for f in features for c in rules.candidates(node.region, f, rng))
        if not candidates:
            return Stop()
        scoring = replace(rules.scoring, balance=balance_at(node.depth))
        query = SelectQuery(node.region, candidates, scoring, share, rules.mechanism)
        (k,) = yield from pick(query)
        return Choice(_split(candidates, k), spent=share)

    return choose


def no_balance(level: int) -> int:
    """The target alone decides."""
    return 0


def balance_below(depth: int, noise: float = math.inf) -> Callable[[int], int]:
    """A quarter of a squared error per record on the last level, half as much on each above.

    Squared errors shrink with every level and their noise does not: near the leaves the target
    would tell nothing, and cuts would be random and uneven. Never more than `noise`, the deviation
    of a count for the same price, in records: where choices are all but exact the target decides.
    """
    return lambda level: int(min(LATTICE >> (depth + 1 - level), LATTICE * noise))


# ------------------------------------------------------------------------------ several holders
TableFlow = Callable[[Node, tuple[int, ...]], Flow[list[FloatArray]]]
"""(node, features) -> the noisy (B, C) table of each."""


def flat_tables(rules: HistogramRules, share: Fraction) -> TableFlow:
    """One table of the bins of each feature, all made to agree on their total."""

    def tables_of(node: Node, features: tuple[int, ...]) -> Flow[list[FloatArray]]:
        tables = yield from rules.ask(node, features, share)
        tables = rules.settled(node, tables)
        return [tables.of(i) for i in range(len(features))]

    return tables_of


def dyadic_tables(tables: DyadicTables, share: Fraction) -> TableFlow:
    """Tables of runs of bins of all widths, read as one."""
    return lambda node, features: tables.ask(node, features, share)


def at_noisy_medians(
    rules: MedianRules, tables_of: TableFlow, impurity: Impurity, share: Fraction
) -> Chooser:
    """Medians and gains of K features are read off their noisy tables of the target by bin.

    A choice on true totals needs one holder of all rows. A table needs none: sites add noise
    shares, and reading medians and gains off it is free.
    """

    def choose(node: Node, rng: np.random.Generator) -> Flow[Choice | Stop]:
        features = tuple(rules.features(node.region, rules.max_features, rng))
        if not features:
            return Stop()
        tables = yield from tables_of(node, features)
        cuts = [rules.cuts(node.region, f, rng) for f in features]
        found = [_balanced(t, mine, impurity) for t, mine in zip(tables, cuts, strict=True)]
        best = max(range(len(found)), key=lambda i: found[i].gain)
        split = rules.grids.split(features[best], cuts[best][found[best].cut])
        return Choice(split, found[best].gain, share)

    return choose


class _Balanced(NamedTuple):
    gain: float
    cut: int


def _balanced(table: FloatArray, cuts: BoolArray, impurity: Impurity) -> _Balanced:
    """The cut that parts the noisy mass of one feature most evenly, and its noisy gain."""
    left = left_masses(table, cuts)
    total = table.sum(axis=0)
    k = int(np.argmin(np.abs((2.0 * left - total).sum(axis=1))))
    gain = impurity(total) - impurity(left[k]) - impurity(total - left[k])
    return _Balanced(float(gain), k)


# --------------------------------------------------------------------------------------- depth
MOST_BOUGHT_DEPTH = MOST_LEAVES.bit_length() - 1
"""Levels of a complete tree that has as many leaves as a tree may have."""


def depth_for(rows: float, rows_per_leaf: float) -> int:
    """The deepest complete tree whose leaves can expect `rows_per_leaf` of so many rows each."""
    return min(max(1, int(np.log2(max(rows / rows_per_leaf, 2.0)))), MOST_BOUGHT_DEPTH)
