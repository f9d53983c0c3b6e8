"""Coins of exactly the stated bias: rationals and exp(-x), one at a time or many.

No float takes part. Proofs: docs/proofs/samplers.md, sections 2 and 3.
"""

from __future__ import annotations

from fractions import Fraction
from functools import lru_cache
from typing import Final

import numpy as np
from numpy.typing import NDArray

from hedgerow.privacy.noise.fixed_point import exp_bounds
from hedgerow.privacy.noise.randomness import Randomness, uniform_below
from hedgerow.values.arrays import Words

COIN_BITS: Final = 32
_UNSURE: Final = np.uint64(16)  # _exp32 is off by less than this many units of 2^-32
_REFINE_BITS: Final = 64


def bernoulli_exp(x: Fraction, secret: Randomness) -> bool:
    """True with probability exp(-x), x >= 0: Canonne, Kamath and Steinke 2020, Algorithm 1."""
    whole, rest = divmod(x.numerator, x.denominator)
    return all(_exp_up_to_one(1, 1, secret) for _ in range(whole)) and _exp_up_to_one(
        rest, x.denominator, secret
    )


def _exp_up_to_one(n: int, d: int, secret: Randomness) -> bool:
    """exp(-n/d) for n <= d: the first k whose coin n/(dk) fails is odd."""
    k = 1
    while uniform_below(d * k, secret) < n:
        k += 1
    return k % 2 == 1


def laplace(rate: Fraction, secret: Randomness) -> int:
    """Z with probability proportional to exp(-rate |z|): Canonne et al. 2020, Algorithm 2."""
    s, t = rate.numerator, rate.denominator
    while True:
        part = uniform_below(t, secret)
        if not _exp_up_to_one(part, t, secret):
            continue
        whole = 0
        while _exp_up_to_one(1, 1, secret):
            whole += 1
        size, negative = (part + t * whole) // s, uniform_below(2, secret) == 1
        if size or not negative:  # else zero would be drawn twice as often
            return -size if negative else size


def falls_below_exp(prefix: int, bits: int, x: Fraction, secret: Randomness) -> bool:
    """Whether a uniform number in [0, 1) whose first `bits` bits are `prefix` is below exp(-x).

    Bits are added until certified bounds decide, so the answer is exact. Each turn leaves the
    question open with probability about 2^-63.
    """
    while True:
        low, high = exp_bounds(x, bits)
        if prefix < low:
            return True
        if prefix >= high:
            return False
        more = int.from_bytes(secret.bytes(_REFINE_BITS // 8), "little")
        prefix, bits = prefix << _REFINE_BITS | more, bits + _REFINE_BITS


def exp_coins(
    numerators: Words, denominator: Fraction, uniforms: Words, secret: Randomness
) -> NDArray[np.bool_]:
    """For each numerator n a coin with probability exp(-n / denominator), denominator >= 1.

    `uniforms` are 32 random bits each. They settle all but about one coin in 2^27; the others,
    and any with n >= denominator, get more bits and exact bounds.
    """
    estimate = _exp32(numerators, denominator)
    heads = uniforms + np.uint64(1) + _UNSURE <= estimate
    tails = uniforms >= estimate + _UNSURE
    large = numerators >= np.uint64(int(denominator))
    for i in np.flatnonzero(large | ~(heads | tails)):
        x = Fraction(int(numerators[i])) / denominator
        heads[i] = falls_below_exp(int(uniforms[i]), COIN_BITS, x, secret)
    return heads


def exp_at_least(numerators: Words, denominator: Fraction) -> Words:
    """Integers at most 2^32 exp(-n / denominator), and not far below where n < denominator."""
    estimate = _exp32(np.minimum(numerators, np.uint64(int(denominator) - 1)), denominator)
    small = numerators < np.uint64(int(denominator))
    return np.where(small, estimate - _UNSURE, np.uint64(0))


def _exp32(numerators: Words, denominator: Fraction) -> Words:
    """2^32 exp(-n / denominator), off by less than 16, where n < denominator.

    x = n / denominator is cut to 32 bits, split into its first 8 bits (a table) and the rest
    r < 2^-8, for which 1 - r + r^2/2 - r^3/6 errs by less than 2^-36. No product reaches 2^64.
    """
    surplus = max(0, int(denominator).bit_length() - 32)
    reciprocal = int(Fraction(1 << (63 + surplus)) / denominator)
    x = (numerators >> np.uint64(surplus)) * np.uint64(reciprocal) >> np.uint64(31)
    head = _exp_table()[x >> np.uint64(24) & np.uint64(255)]
    r = x & np.uint64((1 << 24) - 1)
    square = r * r >> np.uint64(32)
    cube = square * r >> np.uint64(32)
    tail = np.uint64(1 << 32) - r + (square >> np.uint64(1)) - cube // np.uint64(6)
    return np.asarray(head * tail >> np.uint64(31))


@lru_cache(maxsize=1)
def _exp_table() -> Words:
    """2^31 exp(-i / 256), so that a product with a 32-bit number fits a word."""
    return np.array([exp_bounds(Fraction(i, 256), 63)[0] >> 32 for i in range(256)], np.uint64)
