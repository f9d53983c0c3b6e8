"""Impurities and gains from class masses (..., C), which noise may make negative.

Masses, not averages: n (1 - sum p^2) and the like add up over children and over sites.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from hedgerow.schema.arrays import BoolArray, FloatArray

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


def full_gini(mass: FloatArray) -> FloatArray:
    """N (1 - sum p^2), scaled to n for even classes; for two classes 4 n p (1 - p)."""
    classes = mass.shape[-1]
    return np.asarray(gini(mass) * classes / (classes - 1))


def root_gini(mass: FloatArray) -> FloatArray:
    """2 n sqrt(p (1 - p)) for two classes; n sqrt(sum p (1 - p)) scaled to 1 in general."""
    c = np.maximum(mass, 0.0)
    n = c.sum(axis=-1)
    spread = np.maximum(n**2 - (c**2).sum(axis=-1), 0.0)
    return np.asarray(np.sqrt(spread * mass.shape[-1] / (mass.shape[-1] - 1)))


def variance(mass: FloatArray) -> FloatArray:
    """The sum of squares of a target in [0, 1], from complementary fractions (1 - u, u).

    Up to the within-record part n m (1 - m), which every split shares.
    """
    return gini(mass) / 2.0


def _xlog2(x: FloatArray) -> FloatArray:
    return np.asarray(np.where(x > TINY, x * np.log2(np.maximum(x, TINY)), 0.0))


def left_masses(histograms: FloatArray, left_sets: BoolArray | FloatArray) -> FloatArray:
    """(..., k, C) the mass sent left by each of k sets of bins, of (..., B, C) histograms.

    Adds bin by bin: a matrix product adds in an order that depends on the processor, and equal
    scores would no longer be equal.
    """
    *tables, bins, channels = histograms.shape
    masses = np.zeros((*tables, len(left_sets), channels))
    for b in range(bins):
        masses += left_sets[:, b, None] * histograms[..., b, None, :]
    return masses


def prefix_gains(
    masses: FloatArray,
    variances: FloatArray,
    totals: FloatArray,
    *,
    penalty: float,
    least: float,
    deviations: float,
) -> FloatArray:
    """(F, B - 1) Gini gain of sending bins 0..b left, less `penalty` times the gain of noise.

    Tables are (F, B, C) with the variance of each cell; `totals` are (C,). A side must hold `least`
    rows and `deviations` standard deviations of its own count, else the gain is -inf. A prefix of
    variance a, of a table of variance A with a known total, has variance a (1 - a / A).
    """
    n, channels = float(totals.sum()), len(totals)
    if n <= 0.0 or masses.shape[1] < 2:  # no records, or a single bin: no split
        return np.full((len(masses), max(masses.shape[1] - 1, 1)), -np.inf)
    left = np.clip(np.cumsum(masses, axis=1)[:, :-1], 0.0, totals)
    right = totals - left
    n_left, n_right = left.sum(axis=2), right.sum(axis=2)
    noise = np.cumsum(variances.sum(axis=2), axis=1)
    noise = noise[:, :-1] * (1.0 - noise[:, :-1] / np.maximum(noise[:, -1:], TINY))
    purity = float((totals**2).sum()) / n**2
    enough = np.maximum(least, deviations * np.sqrt(np.maximum(noise, 0.0)))
    is_allowed = (n_left >= enough) & (n_right >= enough) & (n_left > 0.0) & (n_right > 0.0)
    n_left, n_right = np.where(is_allowed, n_left, 1.0), np.where(is_allowed, n_right, 1.0)
    gain = (left**2).sum(axis=2) / n_left + (right**2).sum(axis=2) / n_right - n * purity
    by_noise = noise / channels * (channels - 2 + channels * purity) * n / (n_left * n_right)
    return np.where(is_allowed, gain - penalty * by_noise, -np.inf)
