"""exp and log in exact integer arithmetic, with bounds that are proved and not hoped for.

A number x in [0, 1] stands as the integer 2^bits x. Proofs: docs/proofs/samplers.md, section 1.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Final

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

    From the left of the root of this convex problem no step passes it. The result is off by at
    most 4 / z units.
    """
    one, root = 1 << bits, 0
    while True:
        step = one - (value << bits) // exp_bounds(Fraction(root, one), bits)[0]
        root += step
        if abs(step) < 1 << (bits // 4):  # the error left is its square: far below one unit
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
