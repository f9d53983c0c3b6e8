"""Laws as values: their ranges, their shares, their variances."""

import math
from fractions import Fraction

import numpy as np
import pytest

from hedgerow.errors import ParameterError
from hedgerow.privacy.mechanisms.mechanisms import (
    LEAST_LAPLACE_RATE,
    LEAST_POLYA_RATE,
    MOST_GAUSSIAN_VARIANCE,
    MOST_SHARES,
    DiscreteGaussian,
    DiscreteLaplace,
    NoNoise,
    PolyaDifference,
    gaussian_share_tau,
)

K = np.arange(-400, 401)


def gaussian_pmf(sigma2):
    weights = np.exp(-(K**2) / (2 * float(sigma2)))
    return weights / weights.sum()


@pytest.mark.parametrize("value", [Fraction(0), Fraction(-1), 0.5, 1, math.nan])
@pytest.mark.parametrize("law", [DiscreteLaplace, DiscreteGaussian])
def test_a_scale_is_an_exact_positive_fraction(law, value):
    with pytest.raises(ParameterError, match="use a Fraction above 0"):
        law(value)


@pytest.mark.parametrize(
    ("law", "last_allowed", "beyond"),
    [
        (DiscreteLaplace, LEAST_LAPLACE_RATE, Fraction(1, 2**41)),
        (lambda rate: PolyaDifference(rate, 3), LEAST_POLYA_RATE, Fraction(1, 2**16)),
        (DiscreteGaussian, MOST_GAUSSIAN_VARIANCE, Fraction(2**61)),
    ],
)
def test_a_law_wider_than_its_sampler_is_proved_for_is_refused(law, last_allowed, beyond):
    law(last_allowed)
    with pytest.raises(ParameterError, match=r"proved .* coarser lattice"):
        law(beyond)


@pytest.mark.parametrize("shares", [0, -1, MOST_SHARES + 1])
def test_noise_is_divided_into_a_sensible_number_of_shares(shares):
    laws = [DiscreteLaplace(Fraction(1)), DiscreteGaussian(Fraction(10**9))]
    for law in [*laws, NoNoise()]:
        with pytest.raises(ParameterError, match="shares"):
            law.share(shares)


@pytest.mark.parametrize("law", [DiscreteLaplace, DiscreteGaussian])
def test_the_only_share_of_one_is_the_law_itself(law):
    assert law(Fraction(7, 3)).share(1) == law(Fraction(7, 3))


@pytest.mark.parametrize("h", [1, 2, 9])
def test_the_variances_of_the_shares_add_up(h):
    for law in (
        DiscreteLaplace(Fraction(1, 3)),
        DiscreteGaussian(Fraction(99)),
    ):
        assert h * law.share(h).variance == pytest.approx(law.variance, rel=1e-12)
    assert NoNoise().share(h).variance == 0.0


def test_a_share_of_a_share_is_a_smaller_share():
    law = DiscreteLaplace(Fraction(1, 3))
    assert law.share(3).share(4) == law.share(12)


@pytest.mark.parametrize("rate", [Fraction(1, 50), Fraction(1), Fraction(9)])
def test_the_laplace_variance_is_that_of_its_probabilities(rate):
    p = np.exp(-float(rate) * np.abs(np.arange(-4000, 4001)))
    exact = (p * np.arange(-4000, 4001) ** 2).sum() / p.sum()
    assert DiscreteLaplace(rate).variance == pytest.approx(exact, rel=1e-12)


@pytest.mark.parametrize("sigma2", [Fraction(1, 5), Fraction(1), Fraction(4), Fraction(5)])
def test_the_gaussian_variance_is_that_of_its_probabilities(sigma2):
    exact = (gaussian_pmf(sigma2) * K**2).sum()
    assert DiscreteGaussian(sigma2).variance == pytest.approx(exact, rel=1e-12)


def test_a_law_with_hardly_any_noise_has_a_finite_variance():
    assert DiscreteLaplace(Fraction(5000)).variance == 0.0


# ------------------------------------------------------------------------- Gaussian shares
def largest_log_ratio(h, share_variance):
    """Of the sum of h shares against one Gaussian, where floats still resolve it."""
    total, share = gaussian_pmf(share_variance), gaussian_pmf(share_variance)
    for _ in range(h - 1):
        total = np.convolve(total, share, mode="same")
    one = gaussian_pmf(h * share_variance)
    visible = one > 1e-9
    return np.abs(np.log(total[visible] / one[visible])).max()


@pytest.mark.parametrize("h", [2, 3, 6])
@pytest.mark.parametrize("v", [Fraction(1, 4), Fraction(1, 2), Fraction(1)])
def test_the_sum_of_gaussian_shares_is_within_tau_of_one_gaussian(h, v):
    measured = largest_log_ratio(h, v)
    assert measured <= gaussian_share_tau(h * v, h)
    assert measured > gaussian_share_tau(2 * h * v, h)  # the bound would be seen if it were lost


def test_tau_vanishes_for_one_share_and_for_smooth_ones():
    assert gaussian_share_tau(Fraction(1, 100), 1) == 0.0
    assert gaussian_share_tau(Fraction(5 * 4), 5) < 1e-14


def test_gaussian_shares_too_small_for_the_bound_are_refused():
    with pytest.raises(ParameterError, match="finer lattice"):
        DiscreteGaussian(Fraction(1)).share(5)
