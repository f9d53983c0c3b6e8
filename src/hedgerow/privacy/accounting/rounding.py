"""Directed rounding: real numbers enter a guarantee only through these functions.

Computations use 60 digits. The result is moved outward by 1e-40 of itself, far more than the error
of any elementary function at that precision, and then becomes a short rational.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from decimal import ROUND_CEILING, Context, Decimal
from fractions import Fraction
from functools import cache
from typing import Any

from hedgerow.schema.rules import exact

Real = Any
"""A number of `context()`; mpmath is untyped."""

DIGITS = 60
SLACK = Fraction(1, 10**40)
ROUNDING_BITS = 40
"""Bits of a rounded rational: its relative error is at most 2^-39, and it is cheap to store."""
FINE_BITS = 60
"""Length of a number for display: finer, so that a budget that was kept is shown as kept."""


SMALL = Decimal("0.0001")
"""Below it a number is printed with a power of ten."""


@cache
def context() -> Any:
    """A private mpmath context, so that nobody else's precision setting reaches a guarantee."""
    from mpmath.ctx_mp import MPContext

    own = MPContext()
    own.dps = DIGITS
    return own


def real(number: Fraction) -> Real:
    return context().mpf(number.numerator) / number.denominator


def rounded_down(number: Real) -> Fraction:
    """A short rational less than a number > 0, by at least 2^-41 and at most 2^-38 of it."""
    return _short(number * (1 - context().ldexp(1, -ROUNDING_BITS)), math.floor, ROUNDING_BITS)


def above(number: Real, bits: int = ROUNDING_BITS) -> Fraction:
    """A short rational at least a number >= 0."""
    return _short(number * (1 + real(SLACK)), math.ceil, bits)


def short_above(number: Fraction, bits: int = ROUNDING_BITS) -> Fraction:
    """A rational of `bits` bits at least `number` > 0, without leaving exact arithmetic."""
    shift = bits - (number.numerator.bit_length() - number.denominator.bit_length())
    return math.ceil(number * Fraction(2) ** shift) / Fraction(2) ** shift


def float_above(number: Fraction) -> float:
    """The smallest float that *reads* as at least `number`: its shortest decimal is the bound."""
    result = float(number)
    while exact(result) < number:
        result = math.nextafter(result, math.inf)
    return result


def float_below(number: Fraction) -> float:
    """The largest float that reads as at most `number` >= 0."""
    result = float(number)
    while exact(result) > number:
        result = math.nextafter(result, 0.0)
    return result


def format_above(number: float, digits: int = 4) -> str:
    """A number >= 0 to some digits, rounded up, so that no statement claims too much."""
    if math.isinf(number):
        return "infinity"
    shown = Decimal(repr(number)).normalize(Context(prec=digits, rounding=ROUND_CEILING))
    return f"{shown:e}" if 0 < shown < SMALL else f"{shown:f}"


def enclose(height: Callable[[Real], Real], low: Real, high: Real) -> tuple[Real, Real]:
    """Where a falling function crosses 0: an interval with `height` > 0 at `low`, <= 0 at `high`.

    Both ends were evaluated, so the tolerance does not affect safety. Steps follow the chord, with
    half the height at an end that stays (the Illinois rule).
    """
    above, below, side = height(low), height(high), 0
    while high - low > high * context().ldexp(1, -FINE_BITS):
        least = (high - low) * context().ldexp(1, -FINE_BITS // 2)
        step = (high - low) * above / (above - below)
        x = low + min(max(step, least), high - low - least)
        y = height(x)
        if y > 0:
            low, above, below, side = x, y, below / 2 if side > 0 else below, 1
        else:
            high, below, above, side = x, y, above / 2 if side < 0 else above, -1
    return low, high


def _short(number: Real, to_integer: Callable[[Real], int], bits: int) -> Fraction:
    if number == 0:
        return Fraction(0)
    _, exponent = context().frexp(number)
    shift = bits - int(exponent)
    return Fraction(int(to_integer(context().ldexp(number, shift)))) * Fraction(2) ** -shift
