"""Probabilities of private selections, written once more: by formula and by enumeration."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import mpmath
import numpy as np


def exponential_pmf(scores: Sequence[int], coefficient: Fraction) -> np.ndarray:
    weights = np.exp(float(coefficient) * (np.array(scores) - max(scores)))
    return weights / weights.sum()


def report_noisy_max_pmf(scores: Sequence[int], coefficient: Fraction) -> np.ndarray:
    """By the law of integer noise, summed in closed form; among equals the lowest index wins."""
    with mpmath.workdps(40):
        q = mpmath.exp(-mpmath.mpf(coefficient.numerator) / coefficient.denominator)
        return np.array([float(_chance_of_largest(scores, r, q)) for r in range(len(scores))])


def _chance_of_largest(scores: Sequence[int], r: int, q: mpmath.mpf) -> mpmath.mpf:
    """Sum over v of P(scores[r] + Z_r = v) and that all others stay below it.

    Between two of the places where one of these laws turns, each is 1 or nothing plus a power of
    q^v, so their product is a short sum of powers, and its sum over v a geometric series.
    """
    turns = [mine + (j < r) for j, mine in enumerate(scores)]
    ends = [-mpmath.inf, *sorted(set(turns)), mpmath.inf]
    total = mpmath.mpf(0)
    for first, end in itertools.pairwise(ends):
        at = end if first == -mpmath.inf else first
        powers = {0: mpmath.mpf(1)}  # by power of q^(v - at)
        for j, turn in enumerate(turns):
            rises = first >= turn
            law = _law(at - turn, rises, q) if j == r else _law_up_to(at - turn, rises, q)
            powers = _product(powers, law)
        total += sum(weight * _series(power, first, end, q) for power, weight in powers.items())
    return total


def _law(at: int, rises: bool, q: mpmath.mpf) -> dict[int, mpmath.mpf]:
    """P(Z = v - turn) on one side of 0."""
    way = 1 if rises else -1
    return {way: (1 - q) / (1 + q) * q ** (way * at)}


def _law_up_to(at: int, rises: bool, q: mpmath.mpf) -> dict[int, mpmath.mpf]:
    """P(Z <= v - turn) on one side of 0."""
    if rises:
        return {0: mpmath.mpf(1), 1: -(q ** (at + 1)) / (1 + q)}
    return {-1: q**-at / (1 + q)}


def _product(a: dict[int, mpmath.mpf], b: dict[int, mpmath.mpf]) -> dict[int, mpmath.mpf]:
    found: dict[int, mpmath.mpf] = {}
    for (i, x), (j, y) in itertools.product(a.items(), b.items()):
        found[i + j] = found.get(i + j, mpmath.mpf(0)) + x * y
    return found


def _series(power: int, first: Any, end: Any, q: mpmath.mpf) -> mpmath.mpf:
    """Sum of q^(power (v - at)), first <= v < end; `at` is `first`, or `end` if that is -inf."""
    if first == -mpmath.inf:
        return q**-power / (1 - q**-power)
    if end == mpmath.inf:
        return 1 / (1 - q**power)
    if power == 0:
        return mpmath.mpf(end - first)
    return (1 - q ** (power * (end - first))) / (1 - q**power)


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
