"""Choosers: flows that select the split of a node from private histograms."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from hedgerow.methods.blocks.builder import Chooser, Evidence, Node, SplitChoice, Stop
from hedgerow.methods.blocks.flow import Flow, NoiseModel, ask
from hedgerow.methods.blocks.scores import TINY, Impurity, left_masses
from hedgerow.methods.blocks.tables import (
    Tables,
    ask_tables,
    consistent,
    gather,
    with_known_zeros,
)
from hedgerow.methods.constants import constant
from hedgerow.privacy.queries import BoundQuery, Cells, Statistic
from hedgerow.schema.arrays import BoolArray, FloatArray, Rng
from hedgerow.schema.candidates import FeatureDraw, Grids

PATIENCE = constant(2.0, unit="deviations")
"""Deviations of noise by which a node must look empty, or of one class."""

FractionAt = Callable[[Node], Fraction]
"""The budget fraction that a node may spend on its split."""


def above_of(node: Node) -> tuple[Evidence, ...]:
    """The evidence of all ancestors; empty if none was passed down."""
    return () if node.evidence is None else node.evidence.above


@dataclass(frozen=True)
class BestCandidate:
    """The best candidate of a feature: its score, and its impurity mass n G."""

    feature: int
    candidate: int
    impurity: float
    mass: float


@dataclass(frozen=True)
class HistogramRules:
    """Settings of every histogram chooser, and its stopping rules (on noisy numbers only).

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
        """The features with at least two reachable bins."""
        if not self.known_zeros:
            return features
        reach = self.grids.reachable
        return tuple(f for f in features if np.count_nonzero(reach(node.region, f)) > 1)

    def ask(self, node: Node, features: tuple[int, ...], fraction: Fraction) -> Flow[Tables]:
        by = Cells(features, self.grids.binning)
        return (yield from ask_tables(node.region, self.statistic, by, fraction))

    def settle(self, node: Node, tables: Tables) -> Tables:
        """The tables after post-processing: known zeros and consistent totals."""
        if self.known_zeros:
            tables = with_known_zeros(tables, self._reachable(node, tables))
        return consistent(tables) if self.consistency else tables

    def _reachable(self, node: Node, tables: Tables) -> BoolArray:
        out = np.zeros(tables.values.shape[:2], bool)
        for row, feature in zip(out, tables.features, strict=True):
            bins = self.grids.reachable(node.region, feature)
            row[: len(bins)] = bins
        return out

    def best(self, tables: Tables) -> BestCandidate:
        """The smallest impurity of the children over all features; ties go to the lower feature."""
        families, lefts, rights, two_sided = self.grids.families(tables.features), [], [], []
        for family in families:
            width = family.left_sets.shape[1]
            histograms = tables.values[family.positions, :width]  # (g, B, C)
            left = left_masses(histograms, family.left_sets)  # (g, k, C)
            lefts.append(left.reshape(-1, left.shape[2]))
            rights.append((histograms.sum(axis=1)[:, None, :] - left).reshape(-1, left.shape[2]))
            if tables.reachable is not None:
                is_used = tables.is_used[family.positions, :width]
                two_sided.append(family.has_two_sides(is_used).reshape(-1))
        impurity, mass = self._scores(np.concatenate(lefts), np.concatenate(rights))
        if two_sided:
            impurity = np.where(np.concatenate(two_sided), impurity, np.inf)
        smallest, starts = impurity.min(), np.cumsum([0, *map(len, lefts)])
        firsts: dict[int, BestCandidate] = {}  # best candidate of each family
        for place in np.flatnonzero(impurity == smallest).tolist():
            number = int(np.searchsorted(starts, place, side="right")) - 1
            family = families[number]
            position, k = divmod(place - int(starts[number]), len(family.left_sets))
            feature = tables.features[family.positions[position]]
            best = BestCandidate(feature, k, float(smallest), float(mass[place]))
            firsts.setdefault(number, best)
        return min(firsts.values(), key=lambda found: found.feature)

    def _scores(self, left: FloatArray, right: FloatArray) -> tuple[FloatArray, FloatArray]:
        """(..., C) sides -> the score to minimize, and the children's impurity mass n G.

        Where totals agree, masses are compared. Otherwise each feature has its own noisy total: G
        is divided by it, and a side without rows does not count (Algorithm 4).
        """
        if self.consistency:
            mass = self.impurity(left) + self.impurity(right)
            return mass, mass
        (n_left, h_left), (n_right, h_right) = self._side(left), self._side(right)
        mass, rows = n_left * h_left + n_right * h_right, n_left + n_right
        is_allowed = (n_left > 0.0) & (n_right > 0.0)
        return np.where(is_allowed, mass / np.where(is_allowed, rows, 1.0), np.inf), mass

    def _side(self, masses: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Noisy rows of a side, and its impurity per row from masses clamped at 0."""
        positive = np.maximum(masses, 0.0).sum(axis=-1)
        return masses.sum(axis=-1), self.impurity(masses) / np.maximum(positive, TINY)

    def must_stop(self, tables: Tables) -> bool:
        """Whether all histograms show too few rows, or all show fewer than two classes.

        Where totals agree, all histograms give the same number. It must then be too small by
        `PATIENCE` deviations of its noise: at small budgets noise alone would otherwise end most
        trees at the root.
        """
        sums = (tables.values * tables.is_used[:, :, None]).sum(axis=1)  # (F, C)
        variance = tables.total[1] if self.consistency else 0.0
        rows = sums.sum(axis=1) + PATIENCE * math.sqrt(variance * sums.shape[1])
        present = (sums + PATIENCE * math.sqrt(variance) > 0.0).any(axis=0)
        return bool((rows < self.min_mass).all()) or int(present.sum()) < 2

    def choice(
        self,
        node: Node,
        tables: Tables,
        best: BestCandidate,
        spent: Fraction,
        unspent: Fraction = Fraction(0),
    ) -> SplitChoice:
        sets = self.grids.left_sets[best.feature][best.candidate]
        position = tables.features.index(best.feature)
        histogram = tables.of(position)
        whole, noise = tables.total
        above = (*above_of(node), Evidence(whole, noise))
        left = left_masses(histogram, sets[None, :])[0]
        is_used = tables.is_used[position, : len(histogram)]
        n_left = int((sets & is_used).sum())
        evidence = (
            Evidence(left, tables.variance * n_left, above),
            Evidence(whole - left, tables.variance * (int(is_used.sum()) - n_left), above),
        )
        gain = float(self.impurity(whole)) - best.mass
        split = self.grids.split(best.feature, sets)
        return SplitChoice(split, gain, spent, unspent, evidence)


def by_histogram(rules: HistogramRules, features: FeatureDraw, fraction_at: FractionAt) -> Chooser:
    """The best split of a node from private histograms of all its features in one query.

    Gubler 2023, Algorithm 5 lines 8-16 and Algorithm 4; Wang et al. 2020, NoisyCounts, with one
    histogram per feature. Negative masses are 0 in proportions, a candidate has a reachable bin on
    both sides, and ties go to the lower feature, so a run can be replayed.
    """

    def choose(node: Node, rng: Rng) -> Flow[SplitChoice | Stop]:
        fraction, drawn_features = fraction_at(node), rules.open_features(node, features(rng))
        if not drawn_features:
            return Stop()
        tables = rules.settle(node, (yield from rules.ask(node, drawn_features, fraction)))
        best = rules.best(tables)
        if rules.must_stop(tables) or not np.isfinite(best.impurity):
            return Stop(fraction)
        return rules.choice(node, tables, best, fraction)

    return choose


PartOfEach = Callable[[int], Fraction]
"""Number of features -> the fraction of a node's budget for the bound of one of them."""


def by_bounds(
    rules: HistogramRules,
    features: FeatureDraw,
    fraction_at: FractionAt,
    bounds_fraction: Fraction,
    chunk: int,
    part_of_each: PartOfEach,
    noise_of_zero: NoiseModel | None = None,
) -> Chooser:
    """Asks only for histograms that noisy bounds do not exclude; the rest stays unspent.

    Gubler 2023, Algorithm 6: histograms get what `bounds_fraction` leaves of a node's budget, and
    the unspent part goes to both children under the additive filter. `chunk` features are queried
    per round: larger chunks mean fewer rounds and smaller savings. Without bounds and with chunk =
    p this is Algorithm 5.

    All bounds of a node are one query, charged for all of them, each with sensitivity 1. With
    `noise_of_zero` they are noise around zero, drawn publicly, which uses no record and is free: so
    does the code released with the report.
    """

    def choose(node: Node, rng: Rng) -> Flow[SplitChoice | Stop]:
        drawn_features = rules.open_features(node, features(rng))
        fraction = fraction_at(node) + node.unspent
        if not drawn_features:
            return Stop(unspent=fraction)
        table_fraction = rounded_share(fraction * (1 - bounds_fraction) / len(drawn_features))
        p = len(drawn_features)
        for_bounds = p * rounded_share(fraction * part_of_each(p))
        query = BoundQuery(node.region, drawn_features, rules.grids.binning, for_bounds)
        if noise_of_zero is None:
            bounds = (yield from ask(query)).values
        else:
            bounds = rng.laplace(0.0, math.sqrt(noise_of_zero.variance(query) / 2.0), p)
            for_bounds = Fraction(0)
        lower = dict(zip(drawn_features, bounds.tolist(), strict=True))
        queue, answered_tables = sorted(drawn_features, key=lower.__getitem__), list[Tables]()
        best: tuple[Tables, BestCandidate] | None = None
        while queue:
            now, queue = tuple(queue[:chunk]), queue[chunk:]
            answered_tables.append((yield from rules.ask(node, now, table_fraction * len(now))))
            # Totals are made to agree among all tables so far.
            tables = rules.settle(
                node, gather(answered_tables) if rules.consistency else answered_tables[-1]
            )
            candidate = rules.best(tables)
            if best is None or rules.consistency or candidate.impurity < best[1].impurity:
                best = (tables, candidate)
            # `mass` is n (1 - sum p^2); the bounds are half of that, as in the paper.
            mass = best[1].mass if np.isfinite(best[1].impurity) else math.inf
            queue = [f for f in queue if lower[f] <= mass / 2.0]
        assert best is not None
        n_tables = sum(len(t.features) for t in answered_tables)
        spent = for_bounds + table_fraction * n_tables
        unspent = table_fraction * (len(drawn_features) - n_tables)
        if rules.must_stop(rules.settle(node, gather(answered_tables))) or not np.isfinite(
            best[1].impurity
        ):
            return Stop(spent, unspent)
        return rules.choice(node, *best, spent, unspent)

    return choose


def rounded_share(fraction: Fraction) -> Fraction:
    """The fraction rounded down to six binary digits, by at most 3 percent.

    Unspent fractions differ from node to node, and each distinct one needs its own noise tables.
    Short fractions repeat; the remainder goes to the leaf.
    """
    excess = fraction.numerator.bit_length() - fraction.denominator.bit_length() - 6
    scale = Fraction(2) ** excess
    return fraction // scale * scale
