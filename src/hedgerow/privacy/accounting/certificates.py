"""A tighter epsilon for a plan of releases that was fixed before the run.

Privacy loss distributions (Koskela et al. 2020; Doroshenko et al. 2022) through dp_accounting.
Unlike the filters in epsilon, rho and mu^2 they say nothing about noise that was chosen by
earlier answers, so the plan has to hold retries and early leaves as well.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

from hedgerow.errors import SpecError
from hedgerow.privacy.accounting import conversions, rounding
from hedgerow.privacy.accounting.budget import Measure
from hedgerow.privacy.accounting.coalition import Release
from hedgerow.privacy.accounting.rounding import context, real
from hedgerow.privacy.noise.mechanisms import DiscreteGaussian, DiscreteLaplace

GRID = 1e-4
SMALLEST_DELTA = Fraction(1, 10**10)
"""Below it the rounding errors of the convolution, about 1e-15, would no longer be negligible."""


def certificate(plan: Sequence[Release], delta: Fraction) -> float:
    """Epsilon at `delta` for a record that the whole plan can touch; pessimistic.

    All Gaussian releases together are one mu-GDP step, taken as N(0, 1) against N(mu, 1). A
    Laplace release that moves coordinates by one unit is taken exactly; any other as the worst
    mechanism of its epsilon.
    """
    if not SMALLEST_DELTA <= delta < 1:
        raise SpecError(
            f"delta is {float(delta)}; a certificate needs {float(SMALLEST_DELTA)} <= delta < 1. "
            "Report the filter's own epsilon instead."
        )
    if not all(isinstance(r.law, DiscreteLaplace | DiscreteGaussian) for r in plan):
        return math.inf
    losses = [_laplace_loss(r) for r in plan if isinstance(r.law, DiscreteLaplace)]
    losses += _gaussian_loss([r for r in plan if isinstance(r.law, DiscreteGaussian)])
    if not losses:
        return 0.0
    whole = losses[0]
    for loss in losses[1:]:
        whole = whole.compose(loss)
    return float(whole.get_epsilon_for_delta(float(delta)))


def _gaussian_loss(releases: list[Release]) -> list[Any]:
    from dp_accounting.pld import privacy_loss_distribution as pld

    if not releases:
        return []
    costs = [r.times * conversions.cost_of(Measure.GDP, r.law, r.sensitivity) for r in releases]
    sigma = rounding.rounded_down(1 / context().sqrt(real(Fraction(sum(costs)))))
    return [pld.from_gaussian_mechanism(float(sigma), value_discretization_interval=GRID)]


def _laplace_loss(release: Release) -> Any:
    from dp_accounting.pld import common
    from dp_accounting.pld import privacy_loss_distribution as pld

    law, sensitivity = release.law, release.sensitivity
    assert isinstance(law, DiscreteLaplace)
    if sensitivity.linf == 1:
        one = pld.from_discrete_laplace_mechanism(
            rounding.float_above(law.rate), value_discretization_interval=GRID
        )
        return one.self_compose(release.times * sensitivity.l1)
    epsilon = rounding.float_above(law.rate * sensitivity.l1)
    worst = pld.from_privacy_parameters(
        common.DifferentialPrivacyParameters(epsilon, 0.0), value_discretization_interval=GRID
    )
    return worst.self_compose(release.times)
