"""Draws noise: vectors of exact integers, from secret words.

| law                        | how                                                                |
|----------------------------|--------------------------------------------------------------------|
| DiscreteLaplace            | sign and geometric number, digit by digit; no minus zero           |
| PolyaDifference            | difference of two draws from one table                             |
| DiscreteGaussian, narrow   | one table                                                          |
| DiscreteGaussian, wide     | table of coarse steps, uniform fine part, exact rejection          |

Integers only. `total_variation` bounds, per draw, the distance to the stated law. Proofs:
docs/proofs/samplers.md.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache, partial
from itertools import accumulate
from math import isqrt
from typing import Final, Protocol

import numpy as np
from numpy.typing import NDArray

from hedgerow.kernels.noise import invert
from hedgerow.privacy.mechanisms.coins import (
    COIN_BITS,
    Randomness,
    exp_at_least,
    exp_bounds,
    exp_coins,
    minus_log,
)
from hedgerow.privacy.mechanisms.mechanisms import (
    DiscreteGaussian,
    DiscreteLaplace,
    NoiseLaw,
    NoNoise,
    PolyaDifference,
)
from hedgerow.schema.arrays import IntArray, Words

# The one-sided and two-sided laws that tables hold, as exact integer probabilities: 2^320 P(k), in
# order of value from `lowest` on, rounded down at every step. All rounding together is less than
# 2^-193 of probability for every law that the mechanisms allow. Proofs: docs/proofs/samplers.md,
# section 4.
LAW_BITS: Final = 320
LAW_ONE: Final = 1 << LAW_BITS


class Law(Protocol):
    """A law from which a table is built. Hashable, so that a table is built once."""

    def probabilities(self) -> tuple[int, Iterator[int]]:
        """The lowest value, and 2^320 P(k) for it and its successors while above 0."""

    def entries(self) -> int:
        """An upper bound on the number of probabilities."""

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
class Gaussian:
    """P(k) proportional to exp(-k^2 / (2 sigma2)) for every integer k, or for k >= 0."""

    sigma2: Fraction
    is_half: bool = False

    def probabilities(self) -> tuple[int, Iterator[int]]:
        weights = gaussian_weights(self.sigma2)
        both = weights if self.is_half else weights[:0:-1] + weights
        total = sum(both)
        return len(weights) - len(both), (w * LAW_ONE // total for w in both)

    def entries(self) -> int:
        sides = len(gaussian_weights(self.sigma2))
        return sides if self.is_half else 2 * sides - 1


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


# Cumulative tables: 64 random bits decide almost every draw, 192 bits decide the rest. A uniform
# word x falls in entry k, the first with thresholds[k] > x, where thresholds[k] is floor(2^64
# P(value <= k)). Only if x equals a threshold, or lies beyond the last one, 128 more bits are drawn
# and compared with 192-bit thresholds, which are computed again from the law and reach as far into
# the tail as 192 bits can. An entry takes 8 bytes of memory, and the total variation is that of
# 192-bit thresholds. Proofs: docs/proofs/samplers.md, 5.

WORD_BITS: Final = 64
EXACT_BITS: Final = 192
_LAST_WORD: Final = 2**WORD_BITS - 1
_GUIDE_BITS: Final = (6, 18)
_MORE_GUIDE_BITS: Final = 2  # beyond the entries' own: most words then compare with one threshold


@dataclass(frozen=True, eq=False)
class LawTable:
    """`lowest` is the value of entry 0; `guide[x >> shift]` is the first entry that x can have."""

    law: Law
    lowest: int
    thresholds: Words
    guide: NDArray[np.int32]
    shift: int

    def settle(self, word: int, secret: Randomness) -> int:
        """The value of a draw that begins with `word`, decided by 128 more bits."""
        more = int.from_bytes(secret.bytes((EXACT_BITS - WORD_BITS) // 8), "little")
        point = word << (EXACT_BITS - WORD_BITS) | more
        lowest, probabilities = self.law.probabilities()
        value = lowest - 1
        for total in accumulate(probabilities):
            value += 1
            if total >> (LAW_BITS - EXACT_BITS) > point:
                break
        return value


@lru_cache(maxsize=64)
def table_of(law: Law) -> LawTable:
    """Built once per law and process; a table contains nothing secret."""
    lowest, probabilities = law.probabilities()
    thresholds: list[int] = []
    for total in accumulate(probabilities):
        thresholds.append(min(total >> (LAW_BITS - WORD_BITS), _LAST_WORD))
        if thresholds[-1] == _LAST_WORD:
            break
    # Of the values below the first 2^-64 one entry stays, so that the word 0 is a tie.
    surplus = max(0, bisect_right(thresholds, 0) - 1)
    table, (low, high) = np.array(thresholds[surplus:], np.uint64), _GUIDE_BITS
    bits = min(max(len(table).bit_length() + _MORE_GUIDE_BITS, low), high)
    first_words = np.arange(2**bits, dtype=np.uint64) << np.uint64(WORD_BITS - bits)
    guide = np.searchsorted(table, first_words, side="right").astype(np.int32)
    return LawTable(law, lowest + surplus, table, guide, WORD_BITS - bits)


def total_variation_of(law: Law) -> Fraction:
    """A bound per draw: each 192-bit threshold is less than 2 units below the true one."""
    return Fraction(2 * law.entries(), 2**EXACT_BITS)


NARROW_VARIANCE: Final = 2**20  # up to here a table of 64-bit words fits the cache
_DIGIT_BASE: Final = 2**10
_SLOW_RATE: Final = Fraction(1, 2**7)  # a geometric law this flat is split into digits
_STEPS_PER_SIGMA: Final = 16  # rejection then keeps at least 39 proposals in 40
_BLOCK: Final = 2**16  # draws at a time, to stay in the cache


Proposed = tuple[IntArray, NDArray[np.intp]]
"""Draws, and the positions of rejected ones."""
Proposing = Callable[[int, Randomness], Proposed]


def draw(law: NoiseLaw, size: int, secret: Randomness) -> IntArray:
    match law:
        case NoNoise():
            return np.zeros(size, np.int64)
        case DiscreteLaplace():
            return _sample_by_rejection(partial(_propose_signed, law.rate), size, secret)
        case PolyaDifference():
            pairs = draw_entries(table_of(Polya(law.rate, law.shares)), 2 * size, secret)
            return np.asarray(pairs[:size] - pairs[size:])
        case DiscreteGaussian():
            if law.sigma2 <= NARROW_VARIANCE:
                return draw_entries(table_of(Gaussian(law.sigma2)), size, secret)
            return wide_gaussian(law.sigma2, size, secret)


def total_variation(law: NoiseLaw) -> Fraction:
    """Bound on the total variation distance between one draw and the law."""
    match law:
        case NoNoise():
            return Fraction(0)
        case DiscreteLaplace():
            # Rejection divides by the acceptance probability, which is above 1/2.
            return 2 * sum((total_variation_of(d) for _, d in _digits(law.rate)), Fraction(0))
        case PolyaDifference():
            return 2 * total_variation_of(Polya(law.rate, law.shares))
        case DiscreteGaussian():
            if law.sigma2 <= NARROW_VARIANCE:
                return total_variation_of(Gaussian(law.sigma2))
            # Rejection divides by the acceptance probability, which is above 2/3.
            return 3 * total_variation_of(_coarse(law.sigma2)[1])


def draw_entries(table: LawTable, size: int, secret: Randomness) -> IntArray:
    out = np.empty(size, np.int64)
    for start in range(0, size, _BLOCK):
        part = out[start : start + _BLOCK]
        words, ties = secret.words(len(part)), np.empty(len(part), np.int64)
        tie_places = ties[: invert(words, table.thresholds, table.guide, table.shift, part, ties)]
        part += table.lowest
        tie_words = words[tie_places]  # a copy: the source may reuse its memory for more bits
        for i, word in zip(tie_places, tie_words, strict=True):
            part[i] = table.settle(int(word), secret)
    return out


def _sample_by_rejection(propose: Proposing, size: int, secret: Randomness) -> IntArray:
    """Rejection sampling: rejected places are drawn again until none is left."""
    out, again = np.empty(size, np.int64), [np.zeros(0, np.intp)]
    for start in range(0, size, _BLOCK):
        part = out[start : start + _BLOCK]
        part[:], rejected_places = propose(len(part), secret)
        again.append(start + rejected_places)
    places = np.concatenate(again)
    if places.size:
        out[places] = _sample_by_rejection(propose, places.size, secret)
    return out


def _propose_signed(rate: Fraction, size: int, secret: Randomness) -> Proposed:
    """Adds signs to geometric draws; minus zero is rejected, or zero would be drawn twice."""
    out = _geometric(rate, size, secret)
    words = secret.words(-(-size // WORD_BITS)).view(np.uint8)
    minus = np.unpackbits(words, count=size, bitorder="little")
    rejected_places = np.flatnonzero((out == 0) & minus.view(np.bool_))
    out *= 1 - 2 * minus.view(np.int8)
    return out, rejected_places


def _geometric(rate: Fraction, size: int, secret: Randomness) -> IntArray:
    (_, first), *others = _digits(rate)
    total = draw_entries(table_of(first), size, secret)
    for place, law in others:
        digit = draw_entries(table_of(law), size, secret)
        digit *= place
        total += digit
    return total


@lru_cache(maxsize=64)
def _digits(rate: Fraction) -> tuple[tuple[int, Law], ...]:
    """The digits of a geometric number are independent: exp(-rate k) is a product over them."""
    place, digits = 1, list[tuple[int, Law]]()
    while rate * place < _SLOW_RATE:
        digits.append((place, Digit(rate * place, _DIGIT_BASE)))
        place *= _DIGIT_BASE
    return (*digits, (place, Polya(rate * place, 1)))


def wide_gaussian(sigma2: Fraction, size: int, secret: Randomness) -> IntArray:
    """Discrete Gaussian of any width from sigma = 16 up, in steps of sigma/32 to sigma/16."""
    return _sample_by_rejection(partial(_coarse_and_fine, sigma2), size, secret)


def _coarse_and_fine(sigma2: Fraction, size: int, secret: Randomness) -> Proposed:
    """Proposes k with the weight exp(-coarse^2 / (2 sigma2)) of its coarse part, for a rejection.

    A sign bit maps j = coarse + fine to j or to -1 - j, so every integer is proposed in one way.
    The coin accepts with probability exp(-(k^2 - coarse^2) / (2 sigma2)), where |k| >= coarse. Most
    uniforms are below this probability for every fine part and need no coin.
    """
    fine_bits, coarse_law = _coarse(sigma2)
    steps = draw_entries(table_of(coarse_law), size, secret)
    words = secret.words(size)
    fine = words & np.uint64((1 << fine_bits) - 1)
    negative = words >> np.uint64(fine_bits) & np.uint64(1)
    uniforms = words >> np.uint64(64 - COIN_BITS)
    unsure = np.flatnonzero(uniforms >= _surely_kept(sigma2)[steps])
    coarse = (steps << fine_bits).view(np.uint64)
    signed_values = (coarse + fine).view(np.int64) ^ -negative.view(np.int64)  # j ^ -1 is -1 - j
    fine, negative, coarse = fine[unsure], negative[unsure], coarse[unsure]
    excess = fine + negative  # |k| - coarse
    numerators = excess * (np.uint64(2) * coarse + excess)
    keep = exp_coins(numerators, 2 * sigma2, uniforms[unsure], secret)
    return signed_values, unsure[~keep]


@lru_cache(maxsize=64)
def _surely_kept(sigma2: Fraction) -> Words:
    """For each coarse step, 2^32 times a lower bound on the acceptance of its fine parts."""
    fine_bits, coarse_law = _coarse(sigma2)
    most = np.uint64(1 << fine_bits)
    coarse = (np.arange(coarse_law.entries()) << fine_bits).view(np.uint64)
    return exp_at_least(most * (np.uint64(2) * coarse + most), 2 * sigma2)


@lru_cache(maxsize=64)
def _coarse(sigma2: Fraction) -> tuple[int, Gaussian]:
    """Bits of the fine part, and the law of the coarse part.

    At most 26 bits, so that they, a sign and a coin share one word.
    """
    fine_bits = (isqrt(int(sigma2)) // _STEPS_PER_SIGMA).bit_length() - 1
    return fine_bits, Gaussian(sigma2 / 4**fine_bits, is_half=True)
