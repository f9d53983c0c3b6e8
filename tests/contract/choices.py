"""Probabilities of private choices, written once more: by formula and by enumeration."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from fractions import Fraction

import numpy as np


def exponential_pmf(scores: Sequence[int], coefficient: Fraction) -> np.ndarray:
    weights = np.exp(float(coefficient) * (np.array(scores) - max(scores)))
    return weights / weights.sum()


def report_noisy_max_pmf(scores: Sequence[int], coefficient: Fraction) -> np.ndarray:
    """By the law of integer noise; among equals the lowest index wins."""
    c, reach = float(coefficient), max(scores) - min(scores)
    z = np.arange(-int(40 / c) - reach, int(40 / c) + reach + 1)
    law = np.exp(-c * np.abs(z))
    law /= law.sum()
    below = np.concatenate([[0.0], np.cumsum(law)])  # below[i] = P(Z < z[0] + i)
    pmf = []
    for r, mine in enumerate(scores):
        wins = law.copy()
        for j, other in enumerate(scores):
            if j != r:
                least = z + mine - other + (j > r)  # Z_j must be below this
                wins *= below[np.clip(least - z[0], 0, len(z))]
        pmf.append(wins.sum())
    return np.array(pmf)


def permute_and_flip_pmf(scores: Sequence[int], coefficient: Fraction) -> np.ndarray:
    """The sum over all orders of the candidates; for at most 8 of them."""
    heads = np.exp(float(coefficient) * (np.array(scores) - max(scores)))
    pmf = np.zeros(len(scores))
    for order in itertools.permutations(range(len(scores))):
        still = 1.0
        for r in order:
            pmf[r] += still * heads[r]
            still *= 1 - heads[r]
    return pmf / math.factorial(len(scores))
