"""Post-processing of noisy histograms: free of charge, shared by every recipe.

H is (F, B, C): features, bins, channels. Bins beyond a feature's own number are padding.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property

import numpy as np

from hedgerow.methods.blocks.builder import Belief
from hedgerow.methods.blocks.flow import Flow, ask
from hedgerow.methods.blocks.scores import TINY
from hedgerow.privacy.queries import Binning, Cells, Statistic, SumQuery
from hedgerow.schema.arrays import BoolArray, FloatArray
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
        """(B, C) of the feature at a position, without padding."""
        return self.values[position, : self.n_bins[position]]

    @cached_property
    def used(self) -> BoolArray:
        """(F, B) which bins can hold a row: no padding, and nothing that the path excludes."""
        bins = np.arange(self.values.shape[1])[None, :] < np.asarray(self.n_bins)[:, None]
        return bins if self.reachable is None else bins & self.reachable

    @cached_property
    def total(self) -> tuple[FloatArray, float]:
        """Channel totals of the node and their variance."""
        return common_total(self.values, self.used, self.variance)


def asked_tables(region: Region, statistic: Statistic, by: Cells, share: Fraction) -> Flow[Tables]:
    """One query for the histograms of some features."""
    answer = yield from ask(SumQuery(region, statistic, by, share))
    n_bins = tuple(by.binning.n_bins[f] for f in by.features)
    return Tables(by.features, answer.values, answer.variance, n_bins)


def totals(tables: Tables) -> tuple[FloatArray, float]:
    """Channel totals of the node and their variance."""
    return tables.total


def consistent(tables: Tables) -> Tables:
    """The same histograms with one common total per channel (least squares).

    The total's variance falls by the number of features, that of a prefix by up to one half.
    """
    common, _ = totals(tables)
    return replace(tables, values=with_total(tables.values, tables.used, common))


def with_known_zeros(tables: Tables, reachable: BoolArray) -> Tables:
    """Bins that the region's own tests exclude hold no row: their noise is dropped."""
    values = np.where(reachable[:, :, None], tables.values, 0.0)
    return replace(tables, values=values, reachable=reachable)


def gathered(parts: Sequence[Tables]) -> Tables:
    """Tables of one node that were asked with the same noise, as one."""
    width = max(t.values.shape[1] for t in parts)
    padded = [np.pad(t.values, ((0, 0), (0, width - t.values.shape[1]), (0, 0))) for t in parts]
    return Tables(
        tuple(f for t in parts for f in t.features),
        np.concatenate(padded),
        parts[0].variance,
        tuple(n for t in parts for n in t.n_bins),
    )


def common_total(values: FloatArray, used: BoolArray, variance: float) -> tuple[FloatArray, float]:
    """(C,) the total that all features' histograms share, and its variance.

    A total over B cells has B times the variance of one, so features are weighted by 1 / B.
    """
    weights = 1.0 / np.maximum(used.sum(axis=1), 1)
    sums = (values * used[:, :, None]).sum(axis=1)  # (F, C)
    mean = (weights[:, None] * sums).sum(axis=0) / weights.sum()
    return mean, variance / float(weights.sum())


def with_total(values: FloatArray, used: BoolArray, total: FloatArray) -> FloatArray:
    """Histograms moved, by the same amount in every used cell, until each sums to the total."""
    sums = (values * used[:, :, None]).sum(axis=1)
    shift = (total[None, :] - sums) / np.maximum(used.sum(axis=1), 1)[:, None]
    return np.where(used[:, :, None], values + shift[:, None, :], 0.0)


def inverse_variance(
    parts: Sequence[tuple[FloatArray, float]],
) -> tuple[FloatArray, float]:
    """Best combination of independent estimates of one vector."""
    weights = [1.0 / max(v, 1e-12) for _, v in parts]
    mean = sum(
        (w * x for w, (x, _) in zip(weights, parts, strict=True)), np.zeros_like(parts[0][0])
    )
    return mean / sum(weights), 1.0 / sum(weights)


# --------------------------------------------------------------------------------------------------
# What a node is thought to hold before and after it is asked: tables with their variances.
#
# A child's tables are guessed from its parent's: exactly for the split feature, and for the others
# as if features were independent within a class (the naive-Bayes prior). The child's own noisy
# tables then move the guess, the further the less sure the guess is (empirical Bayes).
#
# Shapes: F features in play, B bins, C channels.


def root_belief(cells: Tables, thinned: Binning, bins: Binning) -> Belief:
    """Consistent root tables of all features, their cells gathered into bins."""
    n_bins = max(bins.n_bins)
    shape = (len(cells.features), n_bins, cells.values.shape[2])
    masses, variances = np.zeros(shape), np.zeros(shape)
    for j in range(len(cells.features)):
        bin_of = dict(zip(thinned.bins[j], bins.bins[j], strict=True))
        place = [bin_of[c] for c in range(cells.n_bins[j])]
        np.add.at(masses[j], place, cells.of(j))
        np.add.at(variances[j], place, cells.variance)
    common, variance = totals(cells)
    possible = np.arange(n_bins)[None, :] < np.asarray(bins.n_bins)[:, None]
    return Belief(cells.features, masses, variances, possible, np.maximum(common, 1.0), variance)


def child_prior(parent: Belief, position: int, left: BoolArray, side: int) -> Belief:
    """What to expect in a child after a split of the feature at `position`.

    `left` is the set of its bins sent left; `side` is 0 for the left child.
    """
    inside = (left if side == 0 else ~left) & parent.possible[position]
    sent = np.clip(parent.masses[position, inside].sum(axis=0), 0.0, parent.totals)
    part = sent / np.maximum(parent.totals, TINY)  # (C,) of each class
    masses, variances = parent.masses * part, parent.variances * part**2
    possible = parent.possible.copy()
    masses[position] = parent.masses[position] * inside[:, None]
    variances[position] = parent.variances[position] * inside[:, None]
    possible[position] = inside
    sent_variance = float(parent.variances[position, inside].sum(axis=0).mean())
    return Belief(
        parent.features,
        masses,
        variances,
        possible,
        sent,
        sent_variance,
        parent.features[position],
    )


def updated(prior: Belief, asked: FloatArray, variance: float, *, trusting: bool = True) -> Belief:
    """The prior moved towards the node's own noisy tables, (F, B, C), of its features.

    Per feature and class, the spread t2 of the truth around the prior is what the squared
    difference holds beyond both noises; the split feature's prior has none. A cell then moves by
    (prior variance + t2) / (prior variance + t2 + noise), or all the way if not `trusting`.
    """
    used = prior.possible
    common, total_variance = common_total(asked, used, variance)
    common = np.maximum(common, 0.0)
    own = with_total(asked, used, common)
    guess = with_total(prior.masses, used, common)
    step = _steps(prior, own - guess, variance) if trusting else np.ones_like(own)
    step = np.where(used[:, :, None], step, 0.0)
    return Belief(
        prior.features,
        guess + step * (own - guess),
        step * variance,
        used,
        common,
        total_variance,
        prior.split,
    )


def _steps(prior: Belief, difference: FloatArray, variance: float) -> FloatArray:
    spread = prior.variances + _between(prior, difference, variance)[:, None, :]
    return np.asarray(spread / np.maximum(spread + variance, TINY))


def _between(prior: Belief, difference: FloatArray, variance: float) -> FloatArray:
    """(F, C) variance of the truth around the prior, per feature and class."""
    used = prior.possible[:, :, None]
    excess = (difference**2 - variance - prior.variances) * used
    spread = np.maximum(excess.sum(axis=1) / np.maximum(used.sum(axis=1), 1), 0.0)
    if prior.split in prior.features:
        spread[prior.features.index(prior.split)] = 0.0
    return np.asarray(spread)
