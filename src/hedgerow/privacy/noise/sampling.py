"""Draws noise: whole vectors of exact integers, from secret words.

| law                        | how                                                                |
|----------------------------|--------------------------------------------------------------------|
| DiscreteLaplace            | difference of two geometric numbers, each drawn digit by digit     |
| PolyaDifference            | difference of two draws from one table                             |
| DiscreteGaussian, narrow   | one table                                                          |
| DiscreteGaussian, wide     | table of coarse steps, uniform fine part, exact rejection          |

Integers only. `total_variation` bounds, per draw, the distance to the law as written.
Proofs: docs/proofs/samplers.md.
"""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from math import isqrt
from typing import Final, Protocol

import numpy as np
from numpy.typing import NDArray

from hedgerow.privacy.noise.coins import COIN_BITS, exp_coins
from hedgerow.privacy.noise.laws import Digit, Gaussian, HalfGaussian, Law, Polya
from hedgerow.privacy.noise.mechanisms import (
    DiscreteGaussian,
    DiscreteLaplace,
    NoiseLaw,
    NoNoise,
    PolyaDifference,
)
from hedgerow.privacy.noise.randomness import Randomness
from hedgerow.privacy.noise.tables import LawTable, table_of, total_variation_of
from hedgerow.values.arrays import IntArray, Words

NARROW_VARIANCE: Final = 2**20  # up to here a table of 64-bit words stays in the cache
_DIGIT_BASE: Final = 2**10
_SLOW_RATE: Final = Fraction(1, 2**7)  # a geometric law this flat is split into digits
_STEPS_PER_SIGMA: Final = 16  # so that rejection keeps 39 proposals in 40 or more
_BLOCK: Final = 2**15  # proposals at a time: few enough to stay in the cache


class Invert(Protocol):
    """The seam for a compiled loop: words in, entries out.

    For every i, out[i] becomes the first k with thresholds[k] > words[i]. The positions of words
    that equal a threshold, or for which there is no such k, go to the front of `ties` (as long as
    `words`), and their number is returned; out is not read there. `guide[words[i] >> shift]` is
    an entry at or before the right one, so that a loop can walk up from it.
    """

    def __call__(
        self,
        words: Words,
        thresholds: Words,
        guide: NDArray[np.int32],
        shift: int,
        out: IntArray,
        ties: IntArray,
    ) -> int: ...


def search(
    words: Words,
    thresholds: Words,
    guide: NDArray[np.int32],
    shift: int,
    out: IntArray,
    ties: IntArray,
) -> int:
    """The definition of `Invert`, in NumPy; it has no use for the guide."""
    out[:] = np.searchsorted(thresholds, words, side="right")
    undecided = (out == len(thresholds)) | (thresholds[out - 1] == words) & (out > 0)
    found = np.flatnonzero(undecided)
    ties[: len(found)] = found
    return len(found)


def draw(law: NoiseLaw, size: int, secret: Randomness, invert: Invert = search) -> IntArray:
    """`size` independent draws of a law."""
    match law:
        case NoNoise():
            return np.zeros(size, np.int64)
        case DiscreteLaplace():
            return _difference(_geometric(law.rate, 2 * size, secret, invert))
        case PolyaDifference():
            polya = table_of(Polya(law.rate, law.shares))
            return _difference(_look_up(polya, 2 * size, secret, invert))
        case DiscreteGaussian():
            if law.sigma2 <= NARROW_VARIANCE:
                return _look_up(table_of(Gaussian(law.sigma2)), size, secret, invert)
            return wide_gaussian(law.sigma2, size, secret, invert)


def total_variation(law: NoiseLaw) -> Fraction:
    """Bound on the total variation distance between one draw and the law."""
    match law:
        case NoNoise():
            return Fraction(0)
        case DiscreteLaplace():
            return 2 * sum((total_variation_of(d) for _, d in _digits(law.rate)), Fraction(0))
        case PolyaDifference():
            return 2 * total_variation_of(Polya(law.rate, law.shares))
        case DiscreteGaussian():
            if law.sigma2 <= NARROW_VARIANCE:
                return total_variation_of(Gaussian(law.sigma2))
            # Rejection divides by the chance to accept, which is above 2/3.
            return 3 * total_variation_of(_coarse(law.sigma2)[1])


def _look_up(table: LawTable, size: int, secret: Randomness, invert: Invert) -> IntArray:
    words = secret.words(size)
    out, ties = np.empty(size, np.int64), np.empty(size, np.int64)
    tied = ties[: invert(words, table.thresholds, table.guide, table.shift, out, ties)]
    out += table.lowest
    undecided = words[tied]  # copied before more bits are drawn: a source may reuse its memory
    for i, word in zip(tied, undecided, strict=True):
        out[i] = table.settle(int(word), secret)
    return out


def _difference(pairs: IntArray) -> IntArray:
    half = len(pairs) // 2
    return np.asarray(pairs[:half] - pairs[half:])


def _geometric(rate: Fraction, size: int, secret: Randomness, invert: Invert) -> IntArray:
    total = np.zeros(size, np.int64)
    for place, law in _digits(rate):
        total += place * _look_up(table_of(law), size, secret, invert)
    return total


def _digits(rate: Fraction) -> Iterator[tuple[int, Law]]:
    """The digits of a geometric number are independent: exp(-rate k) is a product over them."""
    place = 1
    while rate * place < _SLOW_RATE:
        yield place, Digit(rate * place, _DIGIT_BASE)
        place *= _DIGIT_BASE
    yield place, Polya(rate * place, 1)


def wide_gaussian(sigma2: Fraction, size: int, secret: Randomness, invert: Invert) -> IntArray:
    """Discrete Gaussian of any width from sigma = 16 up, in steps of sigma/32 to sigma/16."""
    out = np.empty(size, np.int64)
    filled = 0
    while filled < size:
        missing = size - filled
        proposals = min(missing + missing // 16 + 64, _BLOCK)
        kept = _accepted(sigma2, proposals, secret, invert)[:missing]
        out[filled : filled + len(kept)] = kept
        filled += len(kept)
    return out


def _accepted(sigma2: Fraction, proposals: int, secret: Randomness, invert: Invert) -> IntArray:
    """Proposes k with the weight exp(-coarse^2 / (2 sigma2)) of its coarse part; a coin mends it.

    A sign bit maps j = coarse + fine to j or to -1 - j, so every integer is proposed in one way.
    The coin shows heads with probability exp(-(k^2 - coarse^2) / (2 sigma2)); |k| >= coarse.
    """
    fine_bits, coarse_law = _coarse(sigma2)
    steps = _look_up(table_of(coarse_law), proposals, secret, invert)
    coarse = (steps << fine_bits).view(np.uint64)
    words = secret.words(proposals)
    fine = words & np.uint64((1 << fine_bits) - 1)
    negative = words >> np.uint64(fine_bits) & np.uint64(1)
    excess = fine + negative  # |k| - coarse
    numerators = excess * (np.uint64(2) * coarse + excess)
    keep = exp_coins(numerators, 2 * sigma2, words >> np.uint64(64 - COIN_BITS), secret)
    signed = (coarse + fine).view(np.int64) ^ -negative.view(np.int64)  # j ^ -1 is -1 - j
    return np.asarray(signed[keep])


def _coarse(sigma2: Fraction) -> tuple[int, HalfGaussian]:
    """Bits of the fine part (at most 26, so that they, a sign and a coin share one word)."""
    fine_bits = (isqrt(int(sigma2)) // _STEPS_PER_SIGMA).bit_length() - 1
    return fine_bits, HalfGaussian(sigma2 / 4**fine_bits)
