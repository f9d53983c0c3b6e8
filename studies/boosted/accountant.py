"""How much noise the paper adds at an epsilon, and which epsilon that noise has by our account.

Maddock et al. 2022 account by Renyi divergences (section 2.3: [64], converted as in [11]); ours is
exact for Gaussian noise. At one epsilon the paper's noise is therefore about a tenth larger. A
method as printed is best compared with its printed cell at the paper's noise.
"""

from __future__ import annotations

import math
from fractions import Fraction
from functools import cache

from hedgerow.privacy.accounting import gaussian

DIGITS = 4
"""Of an epsilon that names a cell."""
ORDERS: tuple[float, ...] = tuple(1.0 + math.pow(10.0, k / 200.0) for k in range(-200, 1000))
"""Of Renyi divergences, close enough together to lose nothing that a page shows."""


def renyi_epsilon(mu: float, delta: float) -> float:
    """Of Gaussian noise whose sensitivities have the sum of squares mu^2, in standard deviations.

    Its divergence of order a is a mu^2 / 2; Canonne, Kamath and Steinke 2020, Proposition 12.
    """
    return min(
        a * mu * mu / 2.0 + math.log1p(-1.0 / a) - math.log(delta * a) / (a - 1.0) for a in ORDERS
    )


@cache
def at_the_papers_noise(epsilon: float, records: int) -> float:
    """Our epsilon of the noise that the paper adds for its own, with delta = 1 / records."""
    low, high = 0.0, epsilon
    while high - low > 1e-9:
        middle = (low + high) / 2.0
        within = renyi_epsilon(middle, 1.0 / records) <= epsilon
        low, high = (middle, high) if within else (low, middle)
    return round(float(gaussian.epsilon_at(Fraction(low) ** 2, Fraction(1, records))), DIGITS)
