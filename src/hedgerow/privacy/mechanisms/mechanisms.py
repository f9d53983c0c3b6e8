"""Noise laws on the integers, and the share of each that one site draws.

A law is a value; `sampling` draws from it. Every site adds an independent draw of `law.share(h)`;
any h of them sum to the law, and more only add noise.
Proofs: docs/proofs/samplers.md, section 6.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Final

from hedgerow.errors import ParameterError

# The widest laws whose samplers are proved exact; wider ones are refused.
LEAST_LAPLACE_RATE: Final = Fraction(1, 2**40)
LEAST_POLYA_RATE: Final = Fraction(1, 2**15)
MOST_GAUSSIAN_VARIANCE: Final = Fraction(2**60)

LEAST_GAUSSIAN_SHARE: Final = Fraction(1, 4)  # variance from which `gaussian_share_tau` is proved
MOST_SHARES: Final = 10**6


@dataclass(frozen=True, slots=True)
class DiscreteLaplace:
    """P(k) proportional to exp(-rate |k|). With rate = epsilon / L1 it is epsilon-DP."""

    rate: Fraction

    def __post_init__(self) -> None:
        _check_rate(self.rate, LEAST_LAPLACE_RATE)

    @property
    def variance(self) -> float:
        """2a / (1 - a)^2 with a = exp(-rate)."""
        rate = float(self.rate)
        return 2 * math.exp(-rate) / math.expm1(-rate) ** 2

    def share(self, h: int) -> DiscreteLaplace | PolyaDifference:
        return self if h == 1 else PolyaDifference(self.rate, h)


@dataclass(frozen=True, slots=True)
class PolyaDifference:
    """X - Y, both Polya(1 / shares, exp(-rate)): `shares` of them sum to DiscreteLaplace(rate).

    Goryczka and Xiong 2017. P(X = k) is proportional to Gamma(k + 1/shares) / k! exp(-rate k).
    """

    rate: Fraction
    shares: int

    def __post_init__(self) -> None:
        _check_rate(self.rate, LEAST_POLYA_RATE)
        _check_shares(self.shares)

    @property
    def variance(self) -> float:
        return DiscreteLaplace(self.rate).variance / self.shares

    def share(self, h: int) -> PolyaDifference:
        return PolyaDifference(self.rate, self.shares * h)


@dataclass(frozen=True, slots=True)
class DiscreteGaussian:
    """P(k) proportional to exp(-k^2 / (2 sigma2)): Canonne, Kamath and Steinke 2020."""

    sigma2: Fraction

    def __post_init__(self) -> None:
        _check_positive("variance", self.sigma2)
        if self.sigma2 > MOST_GAUSSIAN_VARIANCE:
            raise ParameterError(
                f"the variance of the noise is {float(self.sigma2):.3g} units; its sampler is "
                f"proved up to {float(MOST_GAUSSIAN_VARIANCE):.3g}. Use fewer units per 1.0 (a "
                "coarser lattice), or a larger epsilon."
            )

    @property
    def variance(self) -> float:
        """sigma2 up to terms of exp(-2 pi^2 sigma2); summed where these matter."""
        sigma2 = float(self.sigma2)
        if sigma2 > 4:
            return sigma2
        weights = [math.exp(-k * k / (2 * sigma2)) for k in range(40)]
        squares = math.fsum(k * k * w for k, w in enumerate(weights))
        return squares / (math.fsum(weights) - 0.5)

    def share(self, h: int) -> DiscreteGaussian:
        """One of h shares; their sum is within exp(+-tau) of this law (`gaussian_share_tau`)."""
        _check_shares(h)
        if h > 1 and self.sigma2 < h * LEAST_GAUSSIAN_SHARE:
            raise ParameterError(
                f"a Gaussian share would have variance {float(self.sigma2 / h):.3g}; the bound on "
                "the sum of shares is proved from 1/4 up. Use a finer lattice."
            )
        return DiscreteGaussian(self.sigma2 / h)


@dataclass(frozen=True, slots=True)
class NoNoise:
    """Always 0. A query without noise is charged infinity."""

    @property
    def variance(self) -> float:
        return 0.0

    def share(self, h: int) -> NoNoise:
        _check_shares(h)
        return self


NoiseLaw = DiscreteLaplace | PolyaDifference | DiscreteGaussian | NoNoise


def gaussian_share_tau(sigma2: Fraction, h: int) -> float:
    """Bound, in log probability, between h Gaussian shares and one Gaussian; rounded up.

    Proved by Kairouz, Liu and Steinke 2021 (the distributed discrete Gaussian):
        tau = 10 sum_{k=1}^{h-1} exp(-2 pi^2 v k / (k + 1)),  v = sigma2 / h >= 1/4
    per coordinate that a record can touch.
    """
    v = float(DiscreteGaussian(sigma2).share(h).sigma2)
    terms = [math.exp(-2 * math.pi**2 * v * k / (k + 1)) for k in range(1, h)]
    return 10 * math.fsum(terms) * (1 + 1e-9)  # exceeds all rounding errors


def _check_rate(rate: Fraction, least: Fraction) -> None:
    _check_positive("rate", rate)
    if rate < least:
        raise ParameterError(
            f"the rate of the noise is {float(rate):.3g} per unit; its sampler is proved from "
            f"{float(least):.3g} up. Use fewer units per 1.0 (a coarser lattice), fewer features "
            "per query, or a larger epsilon."
        )


def _check_positive(name: str, value: Fraction) -> None:
    if not (isinstance(value, Fraction) and value > 0):
        raise ParameterError(f"the {name} of the noise is {value!r}; use a Fraction above 0.")


def _check_shares(shares: int) -> None:
    if not 1 <= shares <= MOST_SHARES:
        raise ParameterError(
            f"noise is to be divided into {shares} shares; use 1 to {MOST_SHARES}."
        )
