"""Post-processing of noisy histograms: free of charge, shared by every recipe.

H is (F, B, C): features, bins, channels. Bins beyond a feature's own number are padding.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property

import numpy as np

from hedgerow.learning.flow import Flow, ask
from hedgerow.queries import Cells, Statistic, SumQuery
from hedgerow.values.arrays import BoolArray, FloatArray
from hedgerow.values.regions import Region


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
