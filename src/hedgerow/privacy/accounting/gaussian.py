"""Gaussian differential privacy of integer noise: the cost of a variance, and the converse.

A mechanism is mu-GDP if distinguishing two neighbors is no easier than distinguishing N(0, 1) from
N(mu, 1) (Dong, Roth and Su 2022). mu^2 adds up, also when noise is chosen by earlier answers.
Proofs: docs/proofs/discrete_gaussian_gdp.md.
"""

from __future__ import annotations

from fractions import Fraction
from functools import lru_cache

from hedgerow.errors import ParameterError
from hedgerow.privacy.accounting import rounding
from hedgerow.privacy.accounting.rounding import SLACK, Real, context, real

VARIANCE_BITS = 24
"""Bits of a variance, which is rounded up: 6e-8 too much noise, and short integers to sample."""

ONE = Fraction(1)


# The discrete Gaussian's own mu.
def unit_mu_squared(sigma2: Fraction) -> Fraction:
    """mu^2 of the discrete Gaussian for a change of one unit, rounded up.

    mu = 2 Phi^-1((1 + P(Y = 0)) / 2), which is larger than the 1 / sigma of real-valued noise.
    """
    if sigma2 >= 1:
        return rounding.short_above(_series(1 / sigma2))
    ctx = context()
    spread = _off_center(sigma2)
    start = ctx.sqrt(-ctx.log(spread))
    root = ctx.findroot(lambda x: ctx.log(ctx.erfc(x)) - ctx.log(spread), start)
    return rounding.above(8 * root**2)


@lru_cache(maxsize=1 << 14)
def variance_for(mu_squared: Fraction) -> Fraction:
    """The smallest short sigma^2 whose `unit_mu_squared` is at most `mu_squared`."""
    if mu_squared <= 0 or float(mu_squared) == 0.0:
        raise ParameterError(
            f"a cost of {float(mu_squared)} allows no finite noise; use a fraction > 0."
        )
    if mu_squared <= _series(ONE):
        w = float(mu_squared)
        for _ in range(20):
            w = float(mu_squared) / (1 + w * (1 / 12 + w * (13 / 1440 + w / 750)))
        guess = 1 / Fraction(w)
    else:
        guess = _by_center(mu_squared)
    sigma2 = rounding.short_above(guess, VARIANCE_BITS)
    while not _affords(mu_squared, sigma2):
        sigma2 = rounding.short_above(sigma2 * (1 + Fraction(1, 1 << 30)), VARIANCE_BITS)
    return sigma2


def _series(w: Fraction) -> Fraction:
    """Upper bound on mu^2 at sigma^2 = 1 / w, for w <= 1: all terms of the series are positive."""
    return w * (1 + w * (Fraction(1, 12) + w * (Fraction(13, 1440) + w / 750)))


def _by_center(mu_squared: Fraction) -> Fraction:
    """Solves by secants in log P(Y != 0), which is nearly proportional to 1 / sigma^2."""
    ctx = context()
    affordable = ctx.log(_tail(mu_squared))
    start = 2 * (ctx.log(2) - affordable)
    w = ctx.findroot(
        lambda w: ctx.log(_off_centre_of(1 / w)) - affordable, (start, start * ctx.mpf("0.9"))
    )
    return rounding.above(1 / w)


def _affords(mu_squared: Fraction, sigma2: Fraction) -> bool:
    if sigma2 >= 1:
        return _series(1 / sigma2) <= mu_squared
    return bool(_off_center(sigma2) >= _tail(mu_squared))


def _tail(mu_squared: Fraction) -> Real:
    """The least allowed 1 - P(Y = 0): P(|N(0, 1)| > mu / 2), moved to the safe side."""
    return context().erfc(context().sqrt(real(mu_squared / 8))) * (1 + real(SLACK))


def _off_center(sigma2: Fraction) -> Real:
    """P(Y != 0), rounded down."""
    return _off_centre_of(real(sigma2)) * (1 - real(SLACK))


def _off_centre_of(sigma2: Real) -> Real:
    ctx = context()
    beside, k, term = ctx.mpf(0), 0, ctx.mpf(1)
    while k == 0 or term > beside * ctx.eps:
        k += 1
        term = 2 * ctx.exp(-k * k / (2 * sigma2))
        beside += term
    return beside / (1 + beside)


# Between mu and (eps, delta).
@lru_cache(maxsize=1024)
def mu_squared_within(epsilon: Fraction, delta: Fraction) -> Fraction:
    """The largest short mu^2 within (epsilon, delta)."""
    ctx, goal = context(), real(delta)
    reach = ctx.sqrt(-2 * ctx.log(goal))
    low = ctx.sqrt(reach**2 + 2 * real(epsilon)) - reach
    high = 2 * low
    while _delta(high, real(epsilon)) <= goal:
        high *= 2
    _, inverse = rounding.enclose(
        lambda w: ctx.log(_delta(1 / w, real(epsilon)) / goal), 1 / high, 1 / low
    )
    mu = 1 / inverse
    return rounding.rounded_down(mu**2)


@lru_cache(maxsize=1024)
def epsilon_at(mu_squared: Fraction, delta: Fraction) -> Fraction:
    """The smallest epsilon of mu at `delta`, rounded up."""
    ctx, goal = context(), real(delta)
    mu = ctx.sqrt(real(mu_squared))
    if mu == 0 or _delta(mu, ctx.mpf(0)) <= goal:
        return Fraction(0)
    high = mu**2 / 2 + mu * ctx.sqrt(-2 * ctx.log(goal))
    _, epsilon = rounding.enclose(lambda e: ctx.log(_delta(mu, e) / goal), ctx.mpf(0), high)
    return rounding.above(epsilon, rounding.FINE_BITS)


def _delta(mu: Real, epsilon: Real) -> Real:
    """Phi(-eps/mu + mu/2) - e^eps Phi(-eps/mu - mu/2), rounded up."""
    ctx = context()
    first, second = ctx.ncdf(mu / 2 - epsilon / mu), ctx.ncdf(-mu / 2 - epsilon / mu)
    return first * (1 + real(SLACK)) - ctx.exp(epsilon) * second * (1 - real(SLACK))
