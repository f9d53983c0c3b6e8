"""How a node takes its split. A chooser is a flow; what it asks is all it knows."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from hedgerow.methods.blocks.builder import Choice, Chooser, Evidence, Node, Stop
from hedgerow.methods.blocks.flow import Flow, Quote, ask
from hedgerow.methods.blocks.scores import TINY, Impurity, left_masses
from hedgerow.methods.blocks.tables import (
    Tables,
    asked_tables,
    consistent,
    gathered,
    totals,
    with_known_zeros,
)
from hedgerow.privacy.queries import BoundQuery, Cells, Statistic
from hedgerow.schema.arrays import BoolArray, FloatArray
from hedgerow.schema.candidates import Family, FeatureDraw, Grids

ShareAt = Callable[[Node], Fraction]
"""What a node may spend on its own split."""


PATIENCE = 2.0
"""Deviations of noise by which a node must look empty, or of one class, before it stops."""


def above_of(node: Node) -> tuple[Evidence, ...]:
    """The evidence of all nodes above; none where nothing was handed down."""
    return () if node.evidence is None else node.evidence.above


@dataclass(frozen=True)
class Found:
    """The best candidate of a feature: the score it is best by, and its impurity mass n G."""

    feature: int
    candidate: int
    impurity: float
    mass: float


@dataclass(frozen=True)
class HistogramRules:
    """What every histogram chooser needs, and when it stops (on noisy numbers only).

    `consistency` makes all histograms of a node agree on their totals; `known_zeros` drops the
    noise of bins that the path to the node excludes. Both are post-processing.
    """

    grids: Grids
    statistic: Statistic
    impurity: Impurity
    min_mass: float = 0.0
    consistency: bool = True
    known_zeros: bool = True

    def open_features(self, node: Node, features: tuple[int, ...]) -> tuple[int, ...]:
        """Without those that have one bin left on this path: nothing to split, nothing to ask."""
        if not self.known_zeros:
            return features
        reach = self.grids.reachable
        return tuple(f for f in features if np.count_nonzero(reach(node.region, f)) > 1)

    def ask(self, node: Node, features: tuple[int, ...], share: Fraction) -> Flow[Tables]:
        by = Cells(features, self.grids.binning)
        return (yield from asked_tables(node.region, self.statistic, by, share))

    def settled(self, node: Node, tables: Tables) -> Tables:
        """The tables with all that is known beforehand."""
        if self.known_zeros:
            tables = with_known_zeros(tables, self._reachable(node, tables))
        return consistent(tables) if self.consistency else tables

    def _reachable(self, node: Node, tables: Tables) -> BoolArray:
        out = np.zeros(tables.values.shape[:2], bool)
        for row, feature in zip(out, tables.features, strict=True):
            bins = self.grids.reachable(node.region, feature)
            row[: len(bins)] = bins
        return out

    def best(self, tables: Tables) -> Found:
        """Smallest children's impurity over all features; ties go to the lower feature."""
        families = self.grids.families(tables.features)
        sides = [self._sides(tables, family) for family in families]
        left, right = (np.concatenate(side) for side in zip(*sides, strict=True))
        impurity, mass = self._scores(left, right)
        if tables.reachable is not None:
            impurity = np.where(self._has_two_sides(tables, families), impurity, np.inf)
        smallest = impurity.min()
        firsts: dict[int, Found] = {}  # of each family that has one so small
        for place in np.flatnonzero(impurity == smallest).tolist():
            family, feature, candidate = _at(place, tables, families)
            found = Found(feature, candidate, float(smallest), float(mass[place]))
            firsts.setdefault(family, found)
        return min(firsts.values(), key=lambda found: found.feature)

    @staticmethod
    def _sides(tables: Tables, family: Family) -> tuple[FloatArray, FloatArray]:
        """(g k, C) what each candidate of g features sends left and right."""
        width = family.left_sets.shape[1]
        histograms = tables.values[family.positions, :width]  # (g, B, C)
        left = left_masses(histograms, family.left_sets)  # (g, k, C)
        right = histograms.sum(axis=1)[:, None, :] - left
        channels = left.shape[2]
        return left.reshape(-1, channels), right.reshape(-1, channels)

    @staticmethod
    def _has_two_sides(tables: Tables, families: Sequence[Family]) -> BoolArray:
        """Of each candidate, one family after the other: whether both sides are in reach."""
        used = (tables.used[f.positions, : f.left_sets.shape[1]] for f in families)
        each = [f.has_two_sides(bins) for f, bins in zip(families, used, strict=True)]
        return np.concatenate([sides.reshape(-1) for sides in each])

    def _scores(self, left: FloatArray, right: FloatArray) -> tuple[FloatArray, FloatArray]:
        """(..., C) sides -> what to minimise, and the children's impurity mass n G.

        Where totals agree, masses compare. Elsewhere each feature has a noisy total of its own:
        G is then divided by it, and a side without rows is no side (Algorithm 4).
        """
        if self.consistency:
            mass = self.impurity(left) + self.impurity(right)
            return mass, mass
        (n_left, h_left), (n_right, h_right) = self._side(left), self._side(right)
        mass, rows = n_left * h_left + n_right * h_right, n_left + n_right
        allowed = (n_left > 0.0) & (n_right > 0.0)
        return np.where(allowed, mass / np.where(allowed, rows, 1.0), np.inf), mass

    def _side(self, masses: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Noisy rows of a side, and its impurity per row from masses clamped at 0."""
        positive = np.maximum(masses, 0.0).sum(axis=-1)
        return masses.sum(axis=-1), self.impurity(masses) / np.maximum(positive, TINY)

    def must_stop(self, tables: Tables) -> bool:
        """Too few rows by all histograms, or fewer than two classes by all of them.

        Where totals agree, "by all p histograms" would ask a single number. Instead it must be
        too small by `PATIENCE` deviations of its noise: at small budgets noise alone would
        otherwise end most trees at the root.
        """
        sums = (tables.values * tables.used[:, :, None]).sum(axis=1)  # (F, C)
        variance = totals(tables)[1] if self.consistency else 0.0
        rows = sums.sum(axis=1) + PATIENCE * math.sqrt(variance * sums.shape[1])
        present = (sums + PATIENCE * math.sqrt(variance) > 0.0).any(axis=0)
        return bool((rows < self.min_mass).all()) or int(present.sum()) < 2

    def choice(
        self,
        node: Node,
        tables: Tables,
        found: Found,
        spent: Fraction,
        saved: Fraction = Fraction(0),
    ) -> Choice:
        sets = self.grids.left_sets[found.feature][found.candidate]
        position = tables.features.index(found.feature)
        histogram = tables.of(position)
        whole, noise = totals(tables)
        above = (*above_of(node), Evidence(whole, noise))
        left = left_masses(histogram, sets[None, :])[0]
        used = tables.used[position, : len(histogram)]
        n_left = int((sets & used).sum())
        evidence = (
            Evidence(left, tables.variance * n_left, above),
            Evidence(whole - left, tables.variance * (int(used.sum()) - n_left), above),
        )
        gain = float(self.impurity(whole)) - found.mass
        split = self.grids.split(found.feature, sets)
        return Choice(split, gain, spent, saved, evidence)


def _at(place: int, tables: Tables, families: Sequence[Family]) -> tuple[int, int, int]:
    """The family, the feature and its candidate at a place among the candidates of all families."""
    number = 0
    while place >= (size := len(families[number].positions) * len(families[number].left_sets)):
        place, number = place - size, number + 1
    position, candidate = divmod(place, len(families[number].left_sets))
    return number, tables.features[families[number].positions[position]], candidate


def by_histogram(rules: HistogramRules, features: FeatureDraw, share_at: ShareAt) -> Chooser:
    """Best split of a node from private histograms of all its features in one query.

    Gubler 2023, Algorithm 5 lines 8-16 and Algorithm 4; Wang et al. 2020, NoisyCounts, with one
    histogram per feature instead of one table per threshold.
    Departures: any number of classes; masses are clamped at 0 before proportions are formed; a
    candidate needs a bin in reach on both sides; ties go to the lower feature, so a run can be
    replayed.
    """

    def choose(node: Node, rng: np.random.Generator) -> Flow[Choice | Stop]:
        share, asked = share_at(node), rules.open_features(node, features(rng))
        if not asked:
            return Stop()
        tables = rules.settled(node, (yield from rules.ask(node, asked, share)))
        found = rules.best(tables)
        if rules.must_stop(tables) or not np.isfinite(found.impurity):
            return Stop(share)
        return rules.choice(node, tables, found, share)

    return choose


BoundFlow = Callable[
    [Node, tuple[int, ...], Fraction, np.random.Generator], Flow[tuple[list[float], Fraction]]
]
"""(node, features, its share) -> a lower bound of each feature's impurity, and what they cost."""

PartOfEach = Callable[[int], Fraction]
"""Of p features -> the part of a node's share that the bound of one of them may spend."""


def asked_bounds(grids: Grids, part_of_each: PartOfEach) -> BoundFlow:
    """All bounds of a node as one query, charged for all of them, each with sensitivity 1."""

    def bounds(
        node: Node, features: tuple[int, ...], share: Fraction, rng: np.random.Generator
    ) -> Flow[tuple[list[float], Fraction]]:
        query = _bounds_of(grids, node, features, share, part_of_each)
        return (yield from ask(query)).values.tolist(), query.share

    return bounds


def bounds_of_zero(grids: Grids, part_of_each: PartOfEach, quote: Quote) -> BoundFlow:
    """Noise around zero, drawn in public: no record is looked at, so it costs nothing.

    The code that Gubler 2023 released computes every party's bound as zero.
    """

    def bounds(
        node: Node, features: tuple[int, ...], share: Fraction, rng: np.random.Generator
    ) -> Flow[tuple[list[float], Fraction]]:
        yield from ()
        variance = quote.variance(_bounds_of(grids, node, features, share, part_of_each))
        return rng.laplace(0.0, math.sqrt(variance / 2.0), len(features)).tolist(), Fraction(0)

    return bounds


def _bounds_of(
    grids: Grids, node: Node, features: tuple[int, ...], share: Fraction, part_of_each: PartOfEach
) -> BoundQuery:
    p = len(features)
    return BoundQuery(node.region, features, grids.binning, p * short(share * part_of_each(p)))


def by_bounds(
    rules: HistogramRules,
    features: FeatureDraw,
    share_at: ShareAt,
    bounds_share: Fraction,
    chunk: int,
    bounds_of: BoundFlow,
) -> Chooser:
    """Asks only for histograms that noisy bounds leave in play; the rest is saved.

    Gubler 2023, Algorithm 6: histograms have what `bounds_share` leaves of a node's share, and what
    was saved goes to both children under the additive filter. `chunk` features are asked per
    round: larger chunks, fewer rounds, smaller savings. Without bounds and with chunk = p this is
    Algorithm 5.
    """

    def choose(node: Node, rng: np.random.Generator) -> Flow[Choice | Stop]:
        drawn = rules.open_features(node, features(rng))
        share = share_at(node) + node.saved
        if not drawn:
            return Stop(saved=share)
        each = short(share * (1 - bounds_share) / len(drawn))
        bounds, for_bounds = yield from bounds_of(node, drawn, share, rng)
        lower = dict(zip(drawn, bounds, strict=True))
        queue, seen = sorted(drawn, key=lower.__getitem__), list[Tables]()
        best: tuple[Tables, Found] | None = None
        while queue:
            now, queue = tuple(queue[:chunk]), queue[chunk:]
            seen.append((yield from rules.ask(node, now, each * len(now))))
            # Totals agree among all that was asked so far, or among nothing.
            tables = rules.settled(node, gathered(seen) if rules.consistency else seen[-1])
            found = rules.best(tables)
            if best is None or rules.consistency or found.impurity < best[1].impurity:
                best = (tables, found)
            # `mass` is n (1 - sum p^2); the bounds are half of that, as in the paper.
            mass = best[1].mass if np.isfinite(best[1].impurity) else math.inf
            queue = [f for f in queue if lower[f] <= mass / 2.0]
        assert best is not None
        asked = sum(len(t.features) for t in seen)
        spent, saved = for_bounds + each * asked, each * (len(drawn) - asked)
        if rules.must_stop(rules.settled(node, gathered(seen))) or not np.isfinite(
            best[1].impurity
        ):
            return Stop(spent, saved)
        return rules.choice(node, *best, spent, saved)

    return choose


def short(share: Fraction) -> Fraction:
    """The share rounded down to six binary digits, by at most 3 percent.

    What is saved differs from node to node, and each share has a noise law of its own, with
    tables to be made. Short shares repeat; what rounding leaves over goes to the leaf.
    """
    excess = share.numerator.bit_length() - share.denominator.bit_length() - 6
    scale = Fraction(2) ** excess
    return share // scale * scale
