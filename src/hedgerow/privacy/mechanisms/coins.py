"""Coins of exactly the stated bias, rational or exp(-x), one at a time or many.

No float takes part. Proofs: docs/proofs/samplers.md, sections 2 and 3.
"""

from __future__ import annotations

import os
from fractions import Fraction
from functools import lru_cache
from typing import Final, Protocol

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher, CipherContext, algorithms, modes
from numpy.typing import NDArray

from hedgerow.schema.arrays import Words

# exp and log in exact integer arithmetic, with proved bounds. The integer 2^bits x represents a
# number x in [0, 1]. Proofs: docs/proofs/samplers.md, section 1.

_GUARD_BITS: Final = 64
_MARGIN: Final = 1 << 32  # covers every rounding inside exp_bounds, up to 2^12 bits
_SMALL: Final = 8  # the series is summed at arguments below 2^-8


def exp_bounds(x: Fraction, bits: int) -> tuple[int, int]:
    """Integers with low <= 2^bits exp(-x) <= high and high - low <= 2, for x >= 0."""
    if x == 0:
        return 1 << bits, 1 << bits
    if x > bits:  # exp(-x) < 2^-bits
        return 0, 1
    precision = bits + _GUARD_BITS
    halvings = (x.numerator // x.denominator).bit_length() + _SMALL
    value = _exp_series((x.numerator << precision) // (x.denominator << halvings), precision)
    for _ in range(halvings):
        value = value * value >> precision
    return max(0, value - _MARGIN) >> _GUARD_BITS, (value + _MARGIN >> _GUARD_BITS) + 1


def minus_log(value: int, bits: int) -> int:
    """2^bits times -log(z), where z = value / 2^bits is at least 2^(-bits/8), by Newton's method.

    The problem is convex, so steps from the left of the root never pass it. The error is at most 4
    / z units.
    """
    unit, root = 1 << bits, 0
    while True:
        step = unit - (value << bits) // exp_bounds(Fraction(root, unit), bits)[0]
        root += step
        if abs(step) < 1 << (bits // 4):  # the remaining error is its square: far below one unit
            return root


def _exp_series(argument: int, precision: int) -> int:
    """The alternating Taylor series of exp(-argument / 2^precision), to the last nonzero term."""
    total = term = 1 << precision
    k = 1
    while term:
        term = (term * argument >> precision) // k
        total += term if k % 2 == 0 else -term
        k += 1
    return total


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
    """True with probability exp(-n/d), n <= d: the first k whose coin n/(dk) fails is odd."""
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

    Bits are added until certified bounds decide, so the answer is exact. Each time they fail to
    decide with probability about 2^-63.
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

    `uniforms` are 32 random bits each. They decide all but about one coin in 2^27; the others, and
    any with n >= denominator, get more bits and exact bounds.
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
    """Lower bounds on 2^32 exp(-n / denominator): tight where n < denominator, 0 elsewhere."""
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


# Secret randomness: fresh from the operating system, never seeded, never repeated after a fork.
# Noise that can be reproduced protects nobody, so nothing here takes a seed. Public choices
# (feature draws, cut points) use a NumPy generator elsewhere.

_ZEROS: Final = memoryview(bytes(1 << 16))
_SPARE_WORDS: Final = 2  # the cipher may need one block of room beyond its output

_forks = 0  # forks of this process's ancestors since they imported this module


class Randomness(Protocol):
    """A source of uniform bits. Tests script it; in production it is the operating system."""

    def words(self, count: int) -> Words:
        """`count` fresh, independent, uniform 64-bit words, in a new array."""
        ...

    def bytes(self, count: int) -> bytes: ...


class SecretRandomness:
    """AES-256 in counter mode under 32 bytes from the OS. Create one per round; not thread-safe.

    It holds a key and a counter, no buffer of words. A forked child takes a new key before its
    first word; otherwise parent and child would draw the same noise, and the difference of their
    answers would reveal the data. For the same reason an instance cannot be pickled.
    """

    __slots__ = ("_forks_seen", "_stream")

    def __init__(self) -> None:
        self._stream = _fresh_stream()
        self._forks_seen = _forks

    def words(self, count: int) -> Words:
        out = np.empty(count + _SPARE_WORDS, np.dtype("<u8"))
        view = out.data.cast("B")
        stream = self._current_stream()
        for start in range(0, 8 * count, len(_ZEROS)):
            stream.update_into(_ZEROS[: min(len(_ZEROS), 8 * count - start)], view[start:])
        return out[:count]

    def bytes(self, count: int) -> bytes:
        return self._current_stream().update(bytes(count))

    def _current_stream(self) -> CipherContext:
        if self._forks_seen != _forks:
            self._stream, self._forks_seen = _fresh_stream(), _forks
        return self._stream


def uniform_below(n: int, secret: Randomness) -> int:
    """A uniform integer in 0 .. n-1, exactly: draws that are too large are rejected."""
    bits = (n - 1).bit_length()
    surplus = -bits % 8
    while True:
        candidate = int.from_bytes(secret.bytes((bits + 7) // 8), "little") >> surplus
        if candidate < n:
            return candidate


def _fresh_stream() -> CipherContext:
    # The key is used for one stream only, so the counter may start at zero.
    return Cipher(algorithms.AES256(os.urandom(32)), modes.CTR(bytes(16))).encryptor()


def _note_fork() -> None:
    global _forks
    _forks += 1


os.register_at_fork(after_in_child=_note_fork)
