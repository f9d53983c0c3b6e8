"""The cost of a release against a coordinator that colludes with sites, which reveal their noise.

A study relies on h = t - c noise shares: at least t survivors, at most c colluders. Against up to c
colluders the declared cost holds. Against more, the noise that they do not know has the shape (t -
colluders) / h of the declared law; against t or more there is none. In the worst case each record
of a person lies in another cell. Private selections are made and protected at one site, so
colluders elsewhere do not change their cost.
Proof: docs/proofs/ledger.md, section 4.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

from hedgerow.errors import ParameterError
from hedgerow.models.losses import Sensitivity
from hedgerow.privacy.accounting import conversions, rounding
from hedgerow.privacy.accounting.budget import Cost, Measure
from hedgerow.privacy.accounting.rounding import context, real
from hedgerow.privacy.mechanisms.mechanisms import DiscreteGaussian, DiscreteLaplace, NoiseLaw


@dataclass(frozen=True, slots=True, kw_only=True)
class Coalition:
    """`colluders` sites and the coordinator, in a study with t survivors and h honest shares."""

    h: int
    t: int
    colluders: int

    def __post_init__(self) -> None:
        if not (1 <= self.h < self.t and self.colluders >= 0):
            raise ParameterError(
                f"h={self.h}, t={self.t}, colluders={self.colluders}; "
                "a study has 1 <= h < t, and colluders are counted from 0."
            )

    @property
    def shape(self) -> Fraction:
        """The least fraction of the declared noise that this coalition does not know."""
        return Fraction(max(0, self.t - self.colluders), self.h)


@dataclass(frozen=True, slots=True, kw_only=True)
class CoalitionRelease:
    """A sum: its noise law, and how far and in how many coordinates one person moves it."""

    law: NoiseLaw
    sensitivity: Sensitivity
    touched_coordinates: int | None = None

    @property
    def coordinates(self) -> int:
        """Most coordinates that a record changes: each change is at least one unit."""
        return min(self.touched_coordinates or self.sensitivity.l1, self.sensitivity.l1)


def cost_against(measure: Measure, release: CoalitionRelease, coalition: Coalition) -> Cost:
    """The cost of a release given the noise that the coalition does not know; rounded up."""
    law, shape = release.law, coalition.shape
    if shape == 0:
        return math.inf
    if shape >= 1:
        return conversions.cost_of(measure, law, release.sensitivity)
    if isinstance(law, DiscreteGaussian):
        weaker = DiscreteGaussian(law.sigma2 * shape)
        return conversions.cost_of(measure, weaker, release.sensitivity)
    if not isinstance(law, DiscreteLaplace) or measure is not Measure.PURE:
        return math.inf
    # The loss is concave in the change of a coordinate, so an even spread is the worst case.
    per_coordinate, extra = divmod(release.sensitivity.l1, release.coordinates)
    loss = (release.coordinates - extra) * polya_loss(law.rate, shape, per_coordinate)
    return loss + extra * polya_loss(law.rate, shape, per_coordinate + 1) if extra else loss


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
    rising = ctx.gammaprod([r + change], [r, change + 1])  # (r)_k / k!
    at_change = ctx.hyp2f1(r, r + change, change + 1, a**2) * rising
    return rounding.above(change * real(rate) + ctx.log(at_zero / at_change))
