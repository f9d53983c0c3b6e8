"""Conversions from budget to cost and from cost to noise, all rounded to the safe side.

Budgets and the epsilon of a selection round down, noise and printed epsilons round up. The
cost of a query is exact: what adds up is epsilon, rho or mu^2 (`Measure`).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from functools import lru_cache

from hedgerow.errors import ParameterError, PrivacyWarning, warn
from hedgerow.models.losses import Sensitivity
from hedgerow.privacy.accounting import gaussian, rounding
from hedgerow.privacy.accounting.budget import Cost, Measure, checked_cost
from hedgerow.privacy.accounting.rounding import context, real
from hedgerow.privacy.mechanisms.mechanisms import (
    DiscreteGaussian,
    DiscreteLaplace,
    NoiseLaw,
    NoNoise,
)
from hedgerow.privacy.queries.choices import Mechanism
from hedgerow.schema.rules import exact, shown_value

NOTHING = Fraction(0)
LEAST_EPSILON, MOST_EPSILON = Fraction(1, 10**12), Fraction(10**6)
LEAST_DELTA = Fraction(1, 10**100)
GUARANTEES = "a finite number above 0, from 1e-12 to 1,000,000"
"""Below, no noise law is proved; above, nothing is guaranteed and numbers overflow floats."""
FAILURES = (
    "0 for pure epsilon, or a public number of 1e-100 or more, well below 1 / (100 x the largest "
    "number of records there could be)"
)
WEAK_DELTA = Fraction(1, 10**4)
WEAK_DELTA_WORDS = (
    "delta is above 1e-4: a mechanism that publishes one record in ten thousand keeps such a "
    "guarantee. Use a delta well below 1 / the number of records."
)


def check_guarantee(epsilon: Fraction, delta: Fraction) -> None:
    if not is_epsilon(exact(epsilon, "epsilon")):
        raise ParameterError(f"epsilon is {shown_value(epsilon)}; use {GUARANTEES}.")
    if not is_delta(exact(delta, "delta")):
        raise ParameterError(f"delta is {shown_value(delta)}; use {FAILURES}.")


def is_epsilon(epsilon: Fraction) -> bool:
    return LEAST_EPSILON <= epsilon <= MOST_EPSILON


def is_delta(delta: Fraction) -> bool:
    return delta == 0 or LEAST_DELTA <= delta < 1


def is_weak_delta(delta: Fraction) -> bool:
    return delta > WEAK_DELTA


def warn_if_weak(delta: Fraction) -> None:
    """Warns by delta alone: a warning that depended on the number of rows would reveal it."""
    if is_weak_delta(delta):
        warn(WEAK_DELTA_WORDS, PrivacyWarning)


def delta_of_sparse_rounds(rounds: int, sigma: int) -> Fraction:
    """The delta of a sparse mask graph: a round is exposed with probability at most 2^-sigma.

    Proof: docs/proofs/ledger.md, section 4.
    """
    return Fraction(rounds, 2**sigma)


def whole_budget(measure: Measure, epsilon: Fraction, delta: Fraction) -> Fraction:
    """The largest budget within (epsilon, delta), in units of the measure, rounded down."""
    check_guarantee(epsilon, delta)
    if measure is Measure.PURE:
        return epsilon
    if delta == 0:
        raise ParameterError(
            f"delta is 0, but noise counted in {measure.value} needs delta > 0; "
            "use pure epsilon, or name a delta."
        )
    if measure is Measure.GDP:
        return gaussian.mu_squared_within(epsilon, delta)
    return _rho_within(epsilon, delta)


def epsilon_of(measure: Measure, spent: Cost, delta: Fraction) -> float:
    """The epsilon of `spent` at `delta`, rounded up; infinite if there is none."""
    spent = checked_cost(spent)
    check_guarantee(Fraction(1), delta)
    if not isinstance(spent, Fraction):
        return math.inf
    if measure is Measure.PURE or spent == 0:
        return rounding.float_above(spent)
    if delta == 0:
        return math.inf
    bound = gaussian.epsilon_at if measure is Measure.GDP else _epsilon_of_rho
    return rounding.float_above(bound(spent, delta))


def noise_law(measure: Measure, cost: Cost, sensitivity: Sensitivity) -> NoiseLaw:
    """The least noise, on integers, whose release costs at most `cost`.

    PURE: discrete Laplace, cost = L1 x rate. ZCDP: discrete Gaussian, cost = L2^2 / (2 sigma^2)
    (Canonne, Kamath and Steinke 2020). GDP: cost = L2^2 x mu^2 of a unit change, which for
    integer noise is not 1 / sigma^2. Proof: docs/proofs/discrete_gaussian_gdp.md.
    """
    cost = checked_cost(cost)
    if not isinstance(cost, Fraction):
        return NoNoise()
    _check_positive(cost)
    match measure:
        case Measure.PURE:
            return DiscreteLaplace(cost / sensitivity.l1)
        case Measure.ZCDP:
            return DiscreteGaussian(sensitivity.l2_squared / (2 * cost))
        case Measure.GDP:
            return DiscreteGaussian(gaussian.variance_for(cost / sensitivity.l2_squared))


def cost_of(measure: Measure, law: NoiseLaw, sensitivity: Sensitivity) -> Cost:
    """The cost of a release with this noise, rounded up: the inverse of `noise_law`."""
    match measure, law:
        case Measure.PURE, DiscreteLaplace():
            return sensitivity.l1 * law.rate
        case Measure.GDP, DiscreteLaplace():
            return _mu_squared_of_pure(sensitivity.l1 * law.rate)
        case Measure.GDP, DiscreteGaussian():
            return sensitivity.l2_squared * gaussian.unit_mu_squared(law.sigma2)
        case _:
            return math.inf


@lru_cache(maxsize=4096)
def selection_epsilon(
    measure: Measure, cost: Fraction, chooser: str, remainder: Fraction = NOTHING
) -> Fraction:
    """The epsilon of a selection that costs `cost` and leaves `remainder` behind, rounded down.

    Under mu-GDP any eps-DP mechanism pays mu = 2 Phi^-1(logistic(eps)). The exponential mechanism
    bounds the *range* of its loss by epsilon, hence half of it counts. With mu^2 = s left after it,
    eps^2 / 4 = cost s / (cost + s) is kept too, and mostly more (section 4).
    Proof: docs/proofs/discrete_gaussian_gdp.md.
    """
    _check_positive(cost)
    is_bounded_range = Mechanism(chooser) is Mechanism.EXPONENTIAL
    if measure is Measure.PURE:
        return cost
    ctx, half = context(), context().sqrt(real(cost)) / 2
    epsilon = rounding.rounded_down(ctx.log(ctx.ncdf(half) / ctx.ncdf(-half)))
    if remainder:
        # In convex order, the likelihood ratio of the selection, times that of the remaining
        # Gaussian noise, is below the ratio of both as Gaussian noise.
        square = cost * remainder / (cost + remainder)
        epsilon = max(epsilon, rounding.rounded_down(ctx.sqrt(real(square))))
    return (2 if is_bounded_range else 1) * epsilon


def lifetime_cost(measure: Measure, spent: Cost, lifetime: Measure) -> Cost:
    """The cost of a study in a site's lifetime budget, which is in epsilon or in rho.

    In rho an epsilon counts eps tanh(eps / 2), the tight form of Bun and Steinke's eps^2 / 2.
    """
    if measure is lifetime or not isinstance(spent, Fraction):
        return spent
    if lifetime is not Measure.ZCDP:
        raise ParameterError(
            f"this site's lifetime budget counts in {lifetime.value} and the study in "
            f"{measure.value}; approve studies with delta = 0, or keep the lifetime budget in rho."
        )
    if measure is Measure.GDP:
        return spent / 2
    return rounding.above(real(spent) * context().tanh(real(spent) / 2))


def _check_positive(cost: Fraction) -> None:
    if cost <= 0:
        raise ParameterError(
            f"a release that costs {cost} cannot say anything; give it a fraction > 0."
        )


def _mu_squared_of_pure(epsilon: Fraction) -> Fraction:
    """The mu^2 that every eps-DP mechanism keeps: mu = 2 Phi^-1(e^eps / (1 + e^eps)), rounded up.

    No test of an eps-DP mechanism beats one that is wrong either way with probability
    a = 1 / (1 + e^eps) (Wasserman and Zhou 2010), and N(0, 1) against N(mu, 1) has such a test
    where Phi(-mu / 2) = a. With x = mu / sqrt(8) that reads erfc(x) / 2 = a, solved in logs so
    that a large epsilon keeps its digits. Proof: docs/proofs/discrete_gaussian_gdp.md, section 3.
    """
    ctx = context()
    wrong = 1 / (1 + ctx.exp(real(epsilon)))
    start = ctx.sqrt(-ctx.log(2 * wrong)) + ctx.mpf(1) / 100  # erfc(x) is about exp(-x^2)
    x = ctx.findroot(lambda z: ctx.log(ctx.erfc(z) / 2) - ctx.log(wrong), start)
    return rounding.above(8 * x**2)


def _epsilon_of_rho(rho: Fraction, delta: Fraction) -> Fraction:
    """Least of a rho + log(1 - 1/a) - log(a delta) / (a - 1); every a > 1 is a bound.

    Canonne, Kamath and Steinke 2020, Proposition 12.
    """
    ctx, r, d = context(), real(rho), real(delta)
    a = _best_order(lambda x: x * r + ctx.log(1 - 1 / x) - ctx.log(x * d) / (x - 1))
    epsilon = a * r + ctx.log(1 - 1 / a) - ctx.log(a * d) / (a - 1)
    return rounding.above(max(epsilon, ctx.mpf(0)), rounding.FINE_BITS)


def _rho_within(epsilon: Fraction, delta: Fraction) -> Fraction:
    """The same bound solved for rho, at the order where it is largest."""
    ctx, e, d = context(), real(epsilon), real(delta)

    def rho(a: rounding.Real) -> rounding.Real:
        return (e - ctx.log(1 - 1 / a) + ctx.log(a * d) / (a - 1)) / a

    return rounding.rounded_down(rho(_best_order(lambda a: -rho(a))))


def _best_order(loss: Callable[[rounding.Real], rounding.Real]) -> rounding.Real:
    """Golden-section search for the order a in (1, 2^80) on the scale of log(a - 1)."""
    ctx = context()
    golden, low, high = (ctx.sqrt(5) - 1) / 2, ctx.mpf(-60), ctx.mpf(55)
    while high - low > ctx.ldexp(1, -40):
        left, right = high - golden * (high - low), low + golden * (high - low)
        if loss(1 + ctx.exp(left)) < loss(1 + ctx.exp(right)):
            high = right
        else:
            low = left
    return 1 + ctx.exp((low + high) / 2)
