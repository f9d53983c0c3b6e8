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
