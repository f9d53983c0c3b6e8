"""The meaning of a budget for one person: how well an attack can detect that they took part.

A membership attack is a test on what was released: it names some who did not take part (false
positives) and some who did (true positives). Differential privacy bounds the second rate for each
first, whatever else the attacker knows (Wasserman and Zhou 2010; Kairouz, Oh and Viswanath
2015; Dong, Roth and Su 2022). All numbers here are upper bounds, rounded up.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Any

from hedgerow.errors import ParameterError
from hedgerow.privacy.accounting import rounding
from hedgerow.privacy.accounting.budget import Cost, Measure
from hedgerow.privacy.accounting.rounding import Real, context, real

FALSE_POSITIVES = (Fraction(1, 1000), Fraction(1, 100), Fraction(1, 10))


@dataclass(frozen=True, slots=True)
class Meaning:
    """`guess`: how often a guess is right at most, where a coin is right half of the time.

    `advantage` is the largest gap between the true and the false positive rate; `found` has, for
    some false positive rates, the largest true positive rate.
    """

    guess: float
    advantage: float
    found: tuple[tuple[float, float], ...]

    @staticmethod
    def from_dict(d: dict[str, Any]) -> Meaning:
        return Meaning(d["guess"], d["advantage"], tuple((a, b) for a, b in d["found"]))


@lru_cache(maxsize=1024)
def meaning_of(measure: Measure, cost: Cost, more_delta: Fraction = Fraction(0)) -> Meaning:
    """`more_delta` is the failure probability beside the noise; it adds to every success rate."""
    most = advantage(measure, cost, more_delta)
    return Meaning(
        guess=_shown((1 + Fraction(most)) / 2),
        advantage=most,
        found=tuple((float(a), found_at(measure, cost, a, more_delta)) for a in FALSE_POSITIVES),
    )


def advantage(measure: Measure, cost: Cost, more_delta: Fraction = Fraction(0)) -> float:
    """The largest gap between the true and the false positive rate of an attack.

    tanh(epsilon / 2) for pure epsilon, 2 Phi(mu / 2) - 1 for mu-GDP.
    """
    if cost == math.inf:
        return 1.0
    ctx, amount = context(), _real(cost)
    if measure is Measure.PURE:
        return _bound(ctx.tanh(amount / 2), more_delta)
    _check(measure)
    return _bound(ctx.erf(ctx.sqrt(amount / 8)), more_delta)


def found_at(
    measure: Measure, cost: Cost, false_positives: Fraction, more_delta: Fraction = Fraction(0)
) -> float:
    """The highest true positive rate of a membership attack at a false positive rate.

    min(e^eps a, 1 - e^-eps (1 - a)) for pure epsilon, Phi(Phi^-1(a) + mu) for mu-GDP.
    """
    if cost == math.inf:
        return 1.0
    ctx, amount, rate = context(), _real(cost), real(false_positives)
    if measure is Measure.PURE:
        ratio = ctx.exp(amount)
        return _bound(min(ratio * rate, 1 - (1 - rate) / ratio), more_delta)
    _check(measure)
    quantile = -ctx.sqrt(2) * ctx.erfinv(1 - 2 * rate)
    return _bound(ctx.ncdf(quantile + ctx.sqrt(amount)), more_delta)


def _check(measure: Measure) -> None:
    if measure is not Measure.GDP:
        raise ParameterError(
            f"no meaning is derived for {measure.value}; use epsilon or mu squared."
        )


def _real(cost: Cost) -> Real:
    return real(Fraction(cost))


def _bound(number: Real, more_delta: Fraction) -> float:
    return _shown(rounding.above(number, rounding.FINE_BITS) + more_delta)


def _shown(number: Fraction) -> float:
    return min(rounding.float_above(number), 1.0)
