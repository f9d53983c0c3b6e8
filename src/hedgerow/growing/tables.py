"""Post-processing of noisy histograms: free of charge, shared by every recipe.

H is (F, B, C): features, bins, channels. Bins beyond a feature's own number are padding.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]


@dataclass(frozen=True)
class Tables:
    """Noisy histograms of some features of one node, with the variance of every cell."""

    features: tuple[int, ...]
    values: FloatArray
    variance: float
    n_bins: tuple[int, ...]

    def of(self, position: int) -> FloatArray:
        """(B, C) of the feature at a position, without padding."""
        return self.values[position, : self.n_bins[position]]

    @property
    def used(self) -> NDArray[np.bool_]:
        """(F, B) which cells are not padding."""
        return np.arange(self.values.shape[1])[None, :] < np.asarray(self.n_bins)[:, None]


def totals(tables: Tables) -> tuple[FloatArray, float]:
    """Channel totals of the node and their variance.

    Every feature's histogram sums to the same total; a total over B cells has B times the
    variance of one, so features are weighted by 1 / B.
    """
    weights = 1.0 / np.asarray(tables.n_bins, np.float64)
    sums = (tables.values * tables.used[:, :, None]).sum(axis=1)  # (F, C)
    mean = (weights[:, None] * sums).sum(axis=0) / weights.sum()
    return mean, tables.variance / float(weights.sum())


def consistent(tables: Tables) -> Tables:
    """The same histograms with one common total per channel (least squares).

    The total's variance falls by the number of features, that of a prefix by up to one half.
    """
    common, _ = totals(tables)
    used = tables.used[:, :, None]
    sums = (tables.values * used).sum(axis=1)
    shift = (common[None, :] - sums) / np.asarray(tables.n_bins)[:, None]
    values = np.where(used, tables.values + shift[:, None, :], 0.0)
    return Tables(tables.features, values, tables.variance, tables.n_bins)


def inverse_variance(
    parts: Sequence[tuple[FloatArray, float]],
) -> tuple[FloatArray, float]:
    """Best combination of independent estimates of one vector."""
    weights = [1.0 / max(v, 1e-12) for _, v in parts]
    mean = sum(
        (w * x for w, (x, _) in zip(weights, parts, strict=True)), np.zeros_like(parts[0][0])
    )
    return mean / sum(weights), 1.0 / sum(weights)
