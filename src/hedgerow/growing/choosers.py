"""How a node takes its split. A chooser is a flow; what it asks is all it knows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from hedgerow.growing.builder import Choice, Chooser, Node, Stop
from hedgerow.growing.candidates import FeatureDraw, Grids
from hedgerow.growing.flow import Flow, ask
from hedgerow.growing.scores import Impurity, children_impurity, left_masses
from hedgerow.growing.tables import Tables, consistent, totals
from hedgerow.queries import BoundQuery, Cells, Statistic, SumQuery

FloatArray = NDArray[np.float64]
ShareAt = Callable[[Node], Fraction]
"""What a node may spend on its own split."""


@dataclass(frozen=True)
class Totals:
    """What a node knows of itself from its parent's answer: channel masses and their variance."""

    masses: FloatArray
    variance: float


@dataclass(frozen=True)
class Found:
    """The best candidate of a feature."""

    feature: int
    candidate: int
    impurity: float


@dataclass(frozen=True)
class HistogramRules:
    """What every histogram chooser needs, and when it stops (on noisy numbers only)."""

    grids: Grids
    statistic: Statistic
    impurity: Impurity
    min_mass: float = 0.0
    consistency: bool = True

    def ask(self, node: Node, features: tuple[int, ...], share: Fraction) -> Flow[Tables]:
        by = Cells(features, self.grids.binning)
        answer = yield from ask(SumQuery(node.region, self.statistic, by, share))
        n_bins = tuple(self.grids.binning.n_bins[f] for f in features)
        tables = Tables(features, answer.values, answer.variance, n_bins)
        return consistent(tables) if self.consistency else tables

    def best(self, tables: Tables) -> Found:
        """Smallest children's impurity over all features; ties go to the lower feature."""
        found = [self._best_of(tables, i) for i in range(len(tables.features))]
        return min(found, key=lambda f: f.impurity)

    def _best_of(self, tables: Tables, position: int) -> Found:
        feature, histogram = tables.features[position], tables.of(position)
        left = self.grids.left_sets[feature]
        impurity = children_impurity(self.impurity, histogram, left)
        masses = left_masses(histogram, left).sum(axis=1)
        small = np.minimum(masses, histogram.sum() - masses) < self.min_mass
        impurity = np.where(small, np.inf, impurity)
        k = int(np.argmin(impurity))
        return Found(feature, k, float(impurity[k]))

    def must_stop(self, tables: Tables) -> bool:
        """Too few rows in all histograms, or one class alone in all of them."""
        sums = (tables.values * tables.used[:, :, None]).sum(axis=1)  # (F, C)
        if bool((sums.sum(axis=1) < self.min_mass).all()):
            return True
        return int(np.sum((sums > 0).any(axis=0))) < 2

    def choice(
        self, tables: Tables, found: Found, spent: Fraction, saved: Fraction = Fraction(0)
    ) -> Choice:
        sets = self.grids.left_sets[found.feature][found.candidate]
        histogram = tables.of(tables.features.index(found.feature))
        whole, _ = totals(tables)
        left = left_masses(histogram, sets[None, :])[0]
        n_left = int(sets[: len(histogram)].sum())
        known = (
            Totals(left, tables.variance * n_left),
            Totals(whole - left, tables.variance * (len(histogram) - n_left)),
        )
        gain = float(self.impurity(whole) - found.impurity)
        split = self.grids.split(found.feature, sets)
        return Choice(split, gain, spent, saved, known)


def by_histogram(rules: HistogramRules, features: FeatureDraw, share_at: ShareAt) -> Chooser:
    """Best split of a node from private histograms of all its features in one query.

    Gubler 2023, Algorithm 5 lines 8-16 and Algorithm 4; Wang et al. 2020, NoisyCounts, with one
    histogram per feature instead of one table per threshold.
    Departures: any number of classes; masses are clamped at 0 before proportions are formed;
    a side below `min_mass` is no candidate; ties go to the lower feature, so a run can be replayed.
    """

    def choose(node: Node, rng: np.random.Generator) -> Flow[Choice | Stop]:
        share = share_at(node)
        tables = yield from rules.ask(node, features(rng), share)
        found = rules.best(tables)
        if rules.must_stop(tables) or not np.isfinite(found.impurity):
            return Stop(share)
        return rules.choice(tables, found, share)

    return choose


def by_bounds(
    rules: HistogramRules,
    features: FeatureDraw,
    share_at: ShareAt,
    bounds_share: Fraction,
    chunk: int,
    unit: int,
) -> Chooser:
    """Asks only for histograms that noisy bounds leave in play; the rest is saved.

    Gubler 2023, Algorithm 6, made sound: the bounds of all p features are one query charged for
    all of them, each with sensitivity 1, and what was saved goes to both children under the
    additive filter. `chunk` features are asked per round: larger chunks, fewer rounds, smaller
    savings. Without bounds and with chunk = p this is Algorithm 5.
    """

    def choose(node: Node, rng: np.random.Generator) -> Flow[Choice | Stop]:
        drawn = features(rng)
        share = share_at(node) + node.saved
        each = share * (1 - bounds_share) / len(drawn)
        query = BoundQuery(node.region, drawn, rules.grids.binning, share * bounds_share, unit)
        bounds = (yield from ask(query)).values
        lower = dict(zip(drawn, bounds.tolist(), strict=True))
        queue, seen = sorted(drawn, key=lower.__getitem__), list[Tables]()
        best: tuple[Tables, Found] | None = None
        while queue:
            now, queue = tuple(queue[:chunk]), queue[chunk:]
            tables = yield from rules.ask(node, now, each * len(now))
            seen.append(tables)
            found = rules.best(tables)
            if best is None or found.impurity < best[1].impurity:
                best = (tables, found)
            # `impurity` is n (1 - sum p^2); the bounds are half of that, as in the paper.
            queue = [f for f in queue if lower[f] <= best[1].impurity / 2.0]
        spent = share * bounds_share + each * sum(len(t.features) for t in seen)
        if (
            best is None
            or all(rules.must_stop(t) for t in seen)
            or not np.isfinite(best[1].impurity)
        ):
            return Stop(spent)
        return rules.choice(best[0], best[1], spent, saved=share - spent)

    return choose
