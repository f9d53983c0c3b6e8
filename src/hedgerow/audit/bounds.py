"""Lower bounds on a privacy loss from what an audit saw.

One run with many canaries: Steinke, Nasr and Jagielski 2023, Theorem 5.2. Each canary was put in
by a fair coin; a guesser who is right more often than epsilon and delta allow refutes them,
however its guesses depend on each other.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from hedgerow.schema.arrays import FloatArray

MOST_EPSILON = 60.0
BISECTIONS = 60


def chance_of(guesses: int, right: int, canaries: int, epsilon: float, delta: float) -> float:
    """The most probability with which so many of the guesses are right, if the claim holds."""
    keep = 1.0 / (1.0 + math.exp(-epsilon))
    chances = _binomial(guesses, keep)
    tail = float(chances[right:].sum())
    below = np.cumsum(chances[:right][::-1])  # right - 1, right - 2, ... right guesses
    steepest = float((below / np.arange(1, right + 1)).max()) if right else 0.0
    return min(tail + 2.0 * canaries * delta * steepest, 1.0)


def epsilon_at_least(guesses: int, right: int, canaries: int, delta: float, error: float) -> float:
    """The largest epsilon that is refuted, but for an accident of probability `error`."""
    low, high = 0.0, MOST_EPSILON
    if chance_of(guesses, right, canaries, low, delta) >= error:
        return 0.0
    for _ in range(BISECTIONS):
        middle = (low + high) / 2.0
        is_refuted = chance_of(guesses, right, canaries, middle, delta) < error
        low, high = (middle, high) if is_refuted else (low, middle)
    return low


def _binomial(n: int, p: float) -> FloatArray:
    """(n + 1,) probabilities of 0, 1, ... n successes."""
    k = np.arange(n + 1)
    factorials = np.concatenate([[0.0], np.cumsum(np.log(np.arange(1, n + 1)))])
    ways = factorials[n] - factorials[k] - factorials[n - k]
    return np.asarray(np.exp(ways + k * math.log(p) + (n - k) * math.log1p(-p)))


@dataclass(frozen=True)
class NoiseSeen:
    """Released numbers less what they would be without noise, in deviations of their claim.

    `square` is the mean of their squares: 1 if the noise has the variance it claims. `tail` is the
    kurtosis of the law less 1: 2 for a Gaussian, 5 for a wide Laplace law.
    """

    count: int
    square: float
    tail: float

    def at_most(self, deviations: float) -> float:
        """The noise's variance over its claim is at most this, but for an accident."""
        width = deviations * math.sqrt(self.tail / self.count) if self.count else math.inf
        return self.square / (1.0 - width) if width < 1.0 else math.inf
