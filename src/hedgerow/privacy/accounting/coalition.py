"""What a release costs against the coordinator and some sites that tell it their noise.

A study counts on h = t - c noise shares: t survivors at least, c colluders at most. Against c
or fewer the declared cost holds. Against more, the noise that is left has the shape
(t - colluders) / h of the declared law; from t colluders on nothing is left to count on.
Proof: docs/proofs/ledger.md, section 4.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

from hedgerow.errors import SpecError
from hedgerow.privacy.accounting import conversions, rounding
from hedgerow.privacy.accounting.budget import Cost, Measure
from hedgerow.privacy.accounting.rounding import Real, context, real
from hedgerow.privacy.accounting.sensitivity import Sensitivity
from hedgerow.privacy.noise.mechanisms import (
    DiscreteGaussian,
    DiscreteLaplace,
    NoiseLaw,
    gaussian_share_tau,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Coalition:
    """`colluders` sites and the coordinator, in a study that opens t survivors and counts on h."""

    h: int
    t: int
    colluders: int

    def __post_init__(self) -> None:
        if not (1 <= self.h < self.t and self.colluders >= 0):
            raise SpecError(
                f"h={self.h}, t={self.t}, colluders={self.colluders}; "
                "a study has 1 <= h < t, and colluders are counted from 0."
            )

    @property
    def shape(self) -> Fraction:
        """The part of the declared noise that this coalition does not know, at least."""
        return Fraction(max(0, self.t - self.colluders), self.h)


@dataclass(frozen=True, slots=True, kw_only=True)
class Release:
    """`times` sums under one law; a record moves at most `touched` coordinates of each."""

    law: NoiseLaw
    sensitivity: Sensitivity
    times: int = 1
    touched: int | None = None

    @property
    def coordinates(self) -> int:
        """A record that moves a coordinate moves it by one unit at least."""
        return min(self.touched or self.sensitivity.l1, self.sensitivity.l1)


def epsilon_against(
    measure: Measure, path: Iterable[Release], delta: Fraction, coalition: Coalition
) -> float:
    """Epsilon against a coalition, for a record that all of `path` can touch; rounded up."""
    spent: Cost = Fraction(0)
    for release in path:
        spent += release.times * cost_against(measure, release, coalition)
    return conversions.epsilon_of(measure, spent, delta)


def cost_against(measure: Measure, release: Release, coalition: Coalition) -> Cost:
    """One release of `release`, priced by the noise the coalition does not know; rounded up."""
    law, shape = release.law, coalition.shape
    if shape == 0:
        return math.inf
    if shape >= 1:
        return conversions.cost_of(measure, law, release.sensitivity)
    if isinstance(law, DiscreteGaussian):
        weaker = DiscreteGaussian(law.sigma2 * shape)
        return conversions.cost_of(measure, weaker, release.sensitivity)
    if isinstance(law, DiscreteLaplace) and measure is Measure.PURE:
        return _laplace_cost(law.rate, shape, release)
    return math.inf


def _laplace_cost(rate: Fraction, shape: Fraction, release: Release) -> Fraction:
    """The loss is concave in the change of a coordinate, so an even spread is the worst."""
    each, extra = divmod(release.sensitivity.l1, release.coordinates)
    even = release.coordinates - extra
    loss = even * polya_loss(rate, shape, each)
    return loss + extra * polya_loss(rate, shape, each + 1) if extra else loss


@lru_cache(maxsize=4096)
def polya_loss(rate: Fraction, shape: Fraction, change: int) -> Fraction:
    """The largest, over x, of log P(X = x) / P(X = x + change), rounded up, for 0 < shape <= 1.

    X is the difference of two Polya(shape, a) numbers with a = exp(-rate). Its law is a mixture
    of two-sided geometric laws, so log P is convex on each side and the maximum is at x = 0:
    P(k) / P(0) = a^k (r)_k / k! F(r, r + k; k + 1; a^2) / F(r, r; 1; a^2).
    """
    ctx, r = context(), real(shape)
    a = ctx.exp(-real(rate))
    at_zero = ctx.hyp2f1(r, r, 1, a**2)
    at_change = ctx.hyp2f1(r, r + change, change + 1, a**2) * _rising(r, change)
    return rounding.above(change * real(rate) + ctx.log(at_zero / at_change))


def _rising(r: Real, k: int) -> Real:
    """(r)_k / k!"""
    return context().gammaprod([r + k], [r, k + 1])


def share_slack(sigma2: Fraction, h: int, touched: int) -> tuple[float, float]:
    """What dividing a discrete Gaussian in h shares adds: (to epsilon, factor on delta).

    The sum of the shares is within exp(+-tau) of the undivided law at every point, so
    (epsilon, delta) becomes (epsilon + 2 d tau, delta exp(d tau)). Only the d coordinates that a
    record can touch count: the others have equal laws on both sides.
    """
    tau = gaussian_share_tau(sigma2, h)
    if tau == 0.0:
        return 0.0, 1.0
    return _up(2 * touched * tau), _up(_up(math.exp(_up(touched * tau))))


def _up(number: float) -> float:
    return math.nextafter(number, math.inf)
