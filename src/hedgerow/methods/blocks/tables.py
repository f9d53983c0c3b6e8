"""Post-processing of noisy histograms: free of charge, shared by every method.

H is (F, B, C): features, bins, channels. Bins beyond a feature's own number are padding.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property

import numpy as np

from hedgerow.methods.blocks.builder import Belief, Node
from hedgerow.methods.blocks.flow import Flow, ask
from hedgerow.methods.blocks.scores import TINY
from hedgerow.privacy.queries import Answer, Binning, Cells, Statistic, SumQuery
from hedgerow.schema.arrays import BoolArray, FloatArray
from hedgerow.schema.candidates import Grids
from hedgerow.schema.grids import ColumnKind
from hedgerow.schema.regions import Region


@dataclass(frozen=True)
class Tables:
    """Noisy histograms of some features of one node, with the variance of every cell."""

    features: tuple[int, ...]
    values: FloatArray
    variance: float
    n_bins: tuple[int, ...]
    reachable: BoolArray | None = None

    def of(self, position: int) -> FloatArray:
        """(B, C) the table of the feature at a position, without padding."""
        return self.values[position, : self.n_bins[position]]

    @cached_property
    def is_used(self) -> BoolArray:
        """(F, B) the bins that can hold a row: no padding, nothing that the path excludes."""
        bins = np.arange(self.values.shape[1])[None, :] < np.asarray(self.n_bins)[:, None]
        return bins if self.reachable is None else bins & self.reachable

    @cached_property
    def total(self) -> tuple[FloatArray, float]:
        """Channel totals of the node and their variance."""
        return common_total(self.values, self.is_used, self.variance)


def ask_tables(region: Region, statistic: Statistic, by: Cells, fraction: Fraction) -> Flow[Tables]:
    """One query for the histograms of some features."""
    answer = yield from ask(SumQuery(region, statistic, by, fraction))
    n_bins = tuple(by.binning.n_bins[f] for f in by.features)
    return Tables(by.features, answer.values, answer.variance, n_bins)


def consistent(tables: Tables) -> Tables:
    """The same histograms with one common total per channel (least squares).

    The total's variance falls by the number of features, that of a prefix by up to one half.
    """
    common, _ = tables.total
    return replace(tables, values=with_total(tables.values, tables.is_used, common))


def with_known_zeros(tables: Tables, reachable: BoolArray) -> Tables:
    """Bins that the region's own tests exclude hold no row: their noise is dropped."""
    values = np.where(reachable[:, :, None], tables.values, 0.0)
    return replace(tables, values=values, reachable=reachable)


def gather(parts: Sequence[Tables]) -> Tables:
    """Joins tables of one node that were asked with the same noise."""
    width = max(t.values.shape[1] for t in parts)
    padded_values = [
        np.pad(t.values, ((0, 0), (0, width - t.values.shape[1]), (0, 0))) for t in parts
    ]
    return Tables(
        tuple(f for t in parts for f in t.features),
        np.concatenate(padded_values),
        parts[0].variance,
        tuple(n for t in parts for n in t.n_bins),
    )


def common_total(
    values: FloatArray, is_used: BoolArray, variance: float
) -> tuple[FloatArray, float]:
    """(C,) the total that all features' histograms share, and its variance.

    A total over B cells has B times the variance of one, so features are weighted by 1 / B.
    """
    weights = 1.0 / np.maximum(is_used.sum(axis=1), 1)
    sums = (values * is_used[:, :, None]).sum(axis=1)  # (F, C)
    mean = (weights[:, None] * sums).sum(axis=0) / weights.sum()
    return mean, variance / float(weights.sum())


def with_total(values: FloatArray, is_used: BoolArray, total: FloatArray) -> FloatArray:
    """Shifts every used cell equally, so that each histogram sums to the total."""
    sums = (values * is_used[:, :, None]).sum(axis=1)
    shift = (total[None, :] - sums) / np.maximum(is_used.sum(axis=1), 1)[:, None]
    return np.where(is_used[:, :, None], values + shift[:, None, :], 0.0)


def inverse_variance(parts: Sequence[tuple[FloatArray, float]]) -> tuple[FloatArray, float]:
    """The inverse-variance weighted mean of independent estimates of one vector."""
    weights = [1.0 / max(v, 1e-12) for _, v in parts]
    mean = sum(
        (w * x for w, (x, _) in zip(weights, parts, strict=True)), np.zeros_like(parts[0][0])
    )
    return mean / sum(weights), 1.0 / sum(weights)


# Beliefs: expected tables of a node, with variances, before and after it is asked. A child's prior
# comes from its parent's tables: exact for the split feature, and for the others as if features
# were independent within a class (naive Bayes). The child's own noisy tables then update it, the
# more the less certain it is (empirical Bayes). Shapes: F features in play, B bins, C channels.


def root_belief(cells: Tables, thin_binning: Binning, bins: Binning) -> Belief:
    """Consistent root tables of all features, their cells grouped into bins."""
    n_bins = max(bins.n_bins)
    shape = (len(cells.features), n_bins, cells.values.shape[2])
    masses, variances = np.zeros(shape), np.zeros(shape)
    for j in range(len(cells.features)):
        bin_of = dict(zip(thin_binning.bins[j], bins.bins[j], strict=True))
        place = [bin_of[c] for c in range(cells.n_bins[j])]
        np.add.at(masses[j], place, cells.of(j))
        np.add.at(variances[j], place, cells.variance)
    common, variance = cells.total
    possible = np.arange(n_bins)[None, :] < np.asarray(bins.n_bins)[:, None]
    return Belief(cells.features, masses, variances, possible, np.maximum(common, 1.0), variance)


def child_prior(parent: Belief, position: int, left: BoolArray, side: int) -> Belief:
    """The prior of a child after a split of the feature at `position`.

    `left` is the set of its bins sent left; `side` is 0 for the left child.
    """
    inside = (left if side == 0 else ~left) & parent.possible[position]
    sums = np.clip(parent.masses[position, inside].sum(axis=0), 0.0, parent.totals)
    part = sums / np.maximum(parent.totals, TINY)  # (C,) of each class
    masses, variances = parent.masses * part, parent.variances * part**2
    possible = parent.possible.copy()
    masses[position] = parent.masses[position] * inside[:, None]
    variances[position] = parent.variances[position] * inside[:, None]
    possible[position] = inside
    noise, split = parent.variances[position, inside].sum(axis=0), parent.features[position]
    return Belief(parent.features, masses, variances, possible, sums, float(noise.mean()), split)


def update_belief(
    prior: Belief, node_tables: FloatArray, variance: float, *, trusting: bool = True
) -> Belief:
    """The prior moved towards the node's own noisy tables (F, B, C) of its features.

    Per feature and class, the variance t2 of the truth around the prior is what the squared
    difference shows beyond both noises; it is 0 for the split feature. A cell then moves by (prior
    variance + t2) / (prior variance + t2 + noise), or all the way if not `trusting`.
    """
    is_used = prior.possible
    common, total_variance = common_total(node_tables, is_used, variance)
    common = np.maximum(common, 0.0)
    own = with_total(node_tables, is_used, common)
    guess = with_total(prior.masses, is_used, common)
    step = np.ones_like(own)
    if trusting:
        spread = prior.variances + _between_variance(prior, own - guess, variance)[:, None, :]
        step = spread / np.maximum(spread + variance, TINY)
    step = np.where(is_used[:, :, None], step, 0.0)
    return replace(
        prior,
        masses=guess + step * (own - guess),
        variances=step * variance,
        totals=common,
        total_variance=total_variance,
    )


def _between_variance(prior: Belief, difference: FloatArray, variance: float) -> FloatArray:
    """(F, C) variance of the truth around the prior, per feature and class."""
    is_used = prior.possible[:, :, None]
    excess = (difference**2 - variance - prior.variances) * is_used
    spread = np.maximum(excess.sum(axis=1) / np.maximum(is_used.sum(axis=1), 1), 0.0)
    if prior.split in prior.features:
        spread[prior.features.index(prior.split)] = 0.0
    return np.asarray(spread)


# Dyadic histograms: noisy sums of runs of bins, of all widths, made to agree by least squares. A
# prefix of a flat table adds the noise of all its bins, up to B of them. Asked as runs of 1, 2, 4,
# ... bins it adds that of at most log2 B runs (Hay et al. 2010). The widths share the budget. Under
# Gaussian noise each of b tables is then b times as variable, and prefixes gain; under Laplace
# noise b^2 times, and they lose (studies/notes/trees.md#0051). Categories have no runs: their table
# is asked again at every width, and the mean of b tables with b times the variance is as good as
# one. `missing` is a run of its own at every width.


@dataclass(frozen=True)
class DyadicTables:
    """Asks for features' tables by runs of their bins, and solves for the bins."""

    grids: Grids
    statistic: Statistic

    def ask(
        self, node: Node, features: Sequence[int], fraction: Fraction
    ) -> Flow[list[FloatArray]]:
        """(B, C) per feature; bins that the path to the node excludes are 0."""
        part = fraction / len(self.levels)
        replies = yield [
            SumQuery(node.region, self.statistic, Cells(tuple(features), level), part)
            for level in self.levels
        ]
        answers = [reply.values for reply in replies if isinstance(reply, Answer)]
        return [
            self.bins(feature, self.grids.reachable(node.region, feature), [v[i] for v in answers])
            for i, feature in enumerate(features)
        ]

    def bins(self, feature: int, reachable: BoolArray, runs: Sequence[FloatArray]) -> FloatArray:
        """(B, C) the bins that fit the noisy runs of all widths best; runs may be padded."""
        sizes = [level.n_bins[feature] for level in self.levels]
        run_sums = np.concatenate([values[:size] for values, size in zip(runs, sizes, strict=True)])
        return np.asarray(self._solution(feature, reachable) @ run_sums)

    def _solution(self, feature: int, reachable: BoolArray) -> FloatArray:
        """(B, R) the least-squares solution as a matrix, cached: nodes have few different ranges.

        Each bin is asked alone at the first width, so the normal equations are well conditioned.
        """
        key = (feature, reachable.tobytes())
        if key not in self._solutions:
            of_cell, n_bins = self.grids.binning.bins[feature], self.grids.binning.n_bins[feature]
            blocks = []  # which bins each run of each width holds
            for level in self.levels:
                members = np.zeros((level.n_bins[feature], n_bins))
                members[np.asarray(level.bins[feature]), np.asarray(of_cell)] = 1.0
                blocks.append(members)
            members = np.concatenate(blocks)
            solution, inside = np.zeros(members.T.shape), members[:, reachable]
            solution[reachable] = np.linalg.solve(inside.T @ inside, inside.T)
            self._solutions[key] = solution
        return self._solutions[key]

    @cached_property
    def _solutions(self) -> dict[tuple[int, bytes], FloatArray]:
        return {}

    @cached_property
    def levels(self) -> tuple[Binning, ...]:
        """The bins, then runs of two, of four, and so on, until two runs are left.

        A feature with fewer widths starts again.
        """
        columns = [self._column(f) for f in range(self.grids.n_features)]
        n_levels = max(map(len, columns))
        return tuple(
            Binning(tuple(widths[k % len(widths)] for widths in columns)) for k in range(n_levels)
        )

    def _column(self, feature: int) -> list[tuple[int, ...]]:
        """The runs of a column at each of its widths; `missing`, the last bin, stays alone."""
        binning, n_widths = self.grids.binning, 1
        bins, missing = np.asarray(binning.bins[feature]), binning.n_bins[feature] - 1
        if self.grids.grid(feature).kind is ColumnKind.NUMERIC:
            n_widths = max(1, int(np.ceil(np.log2(missing))))
        widths = []
        for width in 1 << np.arange(n_widths):
            runs = np.where(bins == missing, (missing - 1) // width + 1, bins // width)
            widths.append(tuple(runs.tolist()))
        return widths
