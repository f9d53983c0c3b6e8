"""Impurities and gains from class masses. Arrays end in C classes; noise may make them negative.

Masses, not averages: n (1 - sum p^2) and its relatives add up over children and over sites.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]
Impurity = Callable[[FloatArray], FloatArray]
"""(..., C) class masses -> (...) impurity mass."""

TINY = 1e-9


def gini(mass: FloatArray) -> FloatArray:
    """N (1 - sum p^2); for two classes 2 n p (1 - p)."""
    c = np.maximum(mass, 0.0)
    n = c.sum(axis=-1)
    return np.asarray(n - (c**2).sum(axis=-1) / np.maximum(n, TINY))


def entropy(mass: FloatArray) -> FloatArray:
    """N times the entropy in bits."""
    c = np.maximum(mass, 0.0)
    n = c.sum(axis=-1)
    return np.asarray(_xlog2(n) - _xlog2(c).sum(axis=-1))


def root_gini(mass: FloatArray) -> FloatArray:
    """2 n sqrt(p (1 - p)) for two classes; n sqrt(sum p (1 - p)) scaled to 1 in general."""
    c = np.maximum(mass, 0.0)
    n = c.sum(axis=-1)
    spread = np.maximum(n**2 - (c**2).sum(axis=-1), 0.0)
    return np.asarray(np.sqrt(spread * mass.shape[-1] / (mass.shape[-1] - 1)))


def variance(mass: FloatArray) -> FloatArray:
    """Sum of squares of a target in [0, 1] seen as complementary fractions (1 - u, u).

    Up to the within-record part, which every split shares: n m (1 - m).
    """
    return gini(mass) / 2.0


def _xlog2(x: FloatArray) -> FloatArray:
    return np.asarray(np.where(x > TINY, x * np.log2(np.maximum(x, TINY)), 0.0))


def left_masses(histogram: FloatArray, left_sets: NDArray[np.bool_]) -> FloatArray:
    """(k, C) mass sent left by each of k candidate sets of bins; histogram is (B, C)."""
    return np.asarray(left_sets[:, : len(histogram)] @ histogram)


def children_impurity(
    impurity: Impurity, histogram: FloatArray, left_sets: NDArray[np.bool_]
) -> FloatArray:
    """(k,) impurity mass that each candidate leaves."""
    left = left_masses(histogram, left_sets)
    return impurity(left) + impurity(histogram.sum(axis=0) - left)
