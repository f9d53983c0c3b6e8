"""The one-sided and two-sided laws that tables hold, as exact integer probabilities.

Each gives its probabilities times 2^320, in order of value from `lowest` on, rounded down at every
step. The rounding adds up to less than 2^-193 of probability anywhere in the range the mechanisms
allow. Proofs: docs/proofs/samplers.md, section 4.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from itertools import chain
from typing import Final, Protocol

from hedgerow.privacy.mechanisms.coins import exp_bounds, minus_log

LAW_BITS: Final = 320
LAW_ONE: Final = 1 << LAW_BITS


class Law(Protocol):
    """A law that a table is built from. Hashable, so that a table is built once."""

    def probabilities(self) -> tuple[int, Iterator[int]]:
        """The lowest value; 2^320 P(k) for it and its successors, until only 0 is left."""
        ...

    def entries(self) -> int:
        """At most so many probabilities are given."""
        ...

    def __hash__(self) -> int: ...


@dataclass(frozen=True, slots=True)
class Polya:
    """P(k) = (1-a)^r (r)_k / k! a^k for k >= 0, with r = 1/shares, a = exp(-rate).

    With one share it is the geometric law.
    """

    rate: Fraction
    shares: int

    def probabilities(self) -> tuple[int, Iterator[int]]:
        a = exp_bounds(self.rate, LAW_BITS)[0]
        log = Fraction(minus_log(LAW_ONE - a, LAW_BITS), LAW_ONE * self.shares)
        return 0, self._from(exp_bounds(log, LAW_BITS)[0], a)

    def _from(self, p: int, a: int) -> Iterator[int]:
        h, k = self.shares, 0
        while p:
            yield p
            p = (p * a >> LAW_BITS) * (h * k + 1) // (h * (k + 1))
            k += 1

    def entries(self) -> int:
        return int(224 / self.rate) + 2  # P(k) <= exp(-rate k), and exp(-224) < 2^-320


@dataclass(frozen=True, slots=True)
class Digit:
    """P(k) proportional to exp(-rate k) for 0 <= k < base: one digit of a geometric number."""

    rate: Fraction
    base: int

    def probabilities(self) -> tuple[int, Iterator[int]]:
        a = exp_bounds(self.rate, LAW_BITS)[0]
        first = ((LAW_ONE - a) << LAW_BITS) // (
            LAW_ONE - exp_bounds(self.rate * self.base, LAW_BITS)[0]
        )
        return 0, self._from(first, a)

    def _from(self, p: int, a: int) -> Iterator[int]:
        for _ in range(self.base):
            yield p
            p = p * a >> LAW_BITS

    def entries(self) -> int:
        return self.base


@dataclass(frozen=True, slots=True)
class HalfGaussian:
    """P(k) proportional to exp(-k^2 / (2 sigma2)) for k >= 0."""

    sigma2: Fraction

    def probabilities(self) -> tuple[int, Iterator[int]]:
        weights = gaussian_weights(self.sigma2)
        total = sum(weights)
        return 0, (w * LAW_ONE // total for w in weights)

    def entries(self) -> int:
        return len(gaussian_weights(self.sigma2))


@dataclass(frozen=True, slots=True)
class Gaussian:
    """P(k) proportional to exp(-k^2 / (2 sigma2)) for every integer k."""

    sigma2: Fraction

    def probabilities(self) -> tuple[int, Iterator[int]]:
        weights = gaussian_weights(self.sigma2)
        both = chain(reversed(weights), weights[1:])
        total = 2 * sum(weights) - weights[0]
        return 1 - len(weights), (w * LAW_ONE // total for w in both)

    def entries(self) -> int:
        return 2 * len(gaussian_weights(self.sigma2)) - 1


def gaussian_weights(sigma2: Fraction) -> list[int]:
    """2^320 exp(-k^2 / (2 sigma2)) for k = 0, 1, ... while above 0; ratios fall by one factor."""
    ratio = exp_bounds(1 / (2 * sigma2), LAW_BITS)[0]
    factor = exp_bounds(1 / sigma2, LAW_BITS)[0]
    weight, weights = LAW_ONE, []
    while weight:
        weights.append(weight)
        weight = weight * ratio >> LAW_BITS
        ratio = ratio * factor >> LAW_BITS
    return weights
