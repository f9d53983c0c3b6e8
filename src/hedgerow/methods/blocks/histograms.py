"""Choosers: flows that select the split of a node from private histograms."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
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
from hedgerow.schema.candidates import CandidateBlock, FeatureDraw, Grids

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
        families = self.grids.families(tables.features)
        sides = [self._sides(tables, family) for family in families]
        left, right = (np.concatenate(side) for side in zip(*sides, strict=True))
        impurity, mass = self._scores(left, right)
        if tables.reachable is not None:
            impurity = np.where(self._has_two_sides(tables, families), impurity, np.inf)
        smallest = impurity.min()
        firsts: dict[int, BestCandidate] = {}  # best candidate of each family
        for place in np.flatnonzero(impurity == smallest).tolist():
            family, feature, candidate = _at(place, tables, families)
            candidate_score = BestCandidate(feature, candidate, float(smallest), float(mass[place]))
            firsts.setdefault(family, candidate_score)
        return min(firsts.values(), key=lambda candidate_score: candidate_score.feature)

    @staticmethod
    def _sides(tables: Tables, family: CandidateBlock) -> tuple[FloatArray, FloatArray]:
        """(g k, C) the masses that each candidate of g features sends left and right."""
        width = family.left_sets.shape[1]
        histograms = tables.values[family.positions, :width]  # (g, B, C)
        left = left_masses(histograms, family.left_sets)  # (g, k, C)
        right = histograms.sum(axis=1)[:, None, :] - left
        channels = left.shape[2]
        return left.reshape(-1, channels), right.reshape(-1, channels)

    @staticmethod
    def _has_two_sides(tables: Tables, families: Sequence[CandidateBlock]) -> BoolArray:
        """For each candidate, family by family: whether both sides are reachable."""
        bins_in_use = (tables.is_used[f.positions, : f.left_sets.shape[1]] for f in families)
        sides_by_family = [
            f.has_two_sides(bins) for f, bins in zip(families, bins_in_use, strict=True)
        ]
        return np.concatenate([sides.reshape(-1) for sides in sides_by_family])

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


def _at(place: int, tables: Tables, families: Sequence[CandidateBlock]) -> tuple[int, int, int]:
    """Splits an index over the candidates of all families into family, feature and candidate."""
    number = 0
    while place >= (size := len(families[number].positions) * len(families[number].left_sets)):
        place, number = place - size, number + 1
    position, candidate = divmod(place, len(families[number].left_sets))
    return number, tables.features[families[number].positions[position]], candidate


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


BoundFlow = Callable[[Node, tuple[int, ...], Fraction, Rng], Flow[tuple[list[float], Fraction]]]
"""(node, features, budget fraction) -> a lower bound of each feature's impurity, and their cost."""

PartOfEach = Callable[[int], Fraction]
"""Number of features -> the fraction of a node's budget for the bound of one of them."""


def ask_bounds(grids: Grids, part_of_each: PartOfEach) -> BoundFlow:
    """All bounds of a node as one query, charged for all of them, each with sensitivity 1."""

    def bounds(
        node: Node, features: tuple[int, ...], fraction: Fraction, rng: Rng
    ) -> Flow[tuple[list[float], Fraction]]:
        query = _bounds_of(grids, node, features, fraction, part_of_each)
        return (yield from ask(query)).values.tolist(), query.fraction

    return bounds


def bounds_of_zero(grids: Grids, part_of_each: PartOfEach, noise_model: NoiseModel) -> BoundFlow:
    """Noise around zero, drawn publicly: no record is used, so it is free.

    The code released by Gubler 2023 computes every site's bound as zero.
    """

    def bounds(
        node: Node, features: tuple[int, ...], fraction: Fraction, rng: Rng
    ) -> Flow[tuple[list[float], Fraction]]:
        yield from ()
        variance = noise_model.variance(_bounds_of(grids, node, features, fraction, part_of_each))
        return rng.laplace(0.0, math.sqrt(variance / 2.0), len(features)).tolist(), Fraction(0)

    return bounds


def _bounds_of(
    grids: Grids,
    node: Node,
    features: tuple[int, ...],
    fraction: Fraction,
    part_of_each: PartOfEach,
) -> BoundQuery:
    p = len(features)
    return BoundQuery(
        node.region, features, grids.binning, p * rounded_share(fraction * part_of_each(p))
    )


def by_bounds(
    rules: HistogramRules,
    features: FeatureDraw,
    fraction_at: FractionAt,
    bounds_fraction: Fraction,
    chunk: int,
    bounds_of: BoundFlow,
) -> Chooser:
    """Asks only for histograms that noisy bounds do not exclude; the rest stays unspent.

    Gubler 2023, Algorithm 6: histograms get what `bounds_fraction` leaves of a node's budget, and
    the unspent part goes to both children under the additive filter. `chunk` features are queried
    per round: larger chunks mean fewer rounds and smaller savings. Without bounds and with chunk =
    p this is Algorithm 5.
    """

    def choose(node: Node, rng: Rng) -> Flow[SplitChoice | Stop]:
        drawn_features = rules.open_features(node, features(rng))
        fraction = fraction_at(node) + node.unspent
        if not drawn_features:
            return Stop(unspent=fraction)
        table_fraction = rounded_share(fraction * (1 - bounds_fraction) / len(drawn_features))
        bounds, for_bounds = yield from bounds_of(node, drawn_features, fraction, rng)
        lower = dict(zip(drawn_features, bounds, strict=True))
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
