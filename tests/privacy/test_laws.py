"""The gate: is the noise that comes out the noise that was guaranteed?

Two tests whose false-alarm bounds hold at any sample size: the exact binomial test on the number
of zeros, and Dvoretzky-Kiefer-Wolfowitz on the distribution function. Each fails a right sampler
once in 10^12 runs. Nothing is seeded, since noise has no seed. Reference laws are computed with
SciPy, from formulas that the samplers do not use.
"""

import math
from fractions import Fraction

import numpy as np
import pytest
from scipy import stats

from hedgerow.errors import ParameterError
from hedgerow.privacy.mechanisms.coins import SecretRandomness
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
from hedgerow.privacy.mechanisms.sampling import draw, wide_gaussian

ALPHA = 1e-12
N = 300_000
WRONG = Fraction(9, 10)  # noise of nine tenths the scale must be seen


# --------------------------------------------------------------------------------- the gate
def cdf_of(law):
    """P(noise <= k) for an integer array k."""
    match law:
        case DiscreteLaplace():
            return stats.dlaplace(float(law.rate)).cdf
        case PolyaDifference():
            return _from_pmf(polya_difference_pmf(law))
        case DiscreteGaussian() if law.sigma2 > 400:  # Euler-Maclaurin: equal to 1e-10 and better
            return lambda k: stats.norm.cdf((k + 0.5) / math.sqrt(law.sigma2))
        case DiscreteGaussian():
            k = np.arange(-400, 401)
            weights = np.exp(-(k**2) / (2 * float(law.sigma2)))
            return _from_pmf(weights / weights.sum())


def polya_difference_pmf(law):
    one = stats.nbinom(1 / law.shares, -math.expm1(-float(law.rate))).pmf(np.arange(2000))
    return np.convolve(one, one[::-1])


def _from_pmf(pmf):
    middle, sums = len(pmf) // 2, np.cumsum(pmf)
    return lambda k: sums[np.clip(np.asarray(k) + middle, 0, len(pmf) - 1)]


def distance(noise, cdf):
    values, counts = np.unique(noise, return_counts=True)
    at = np.cumsum(counts) / noise.size
    before = at - counts / noise.size
    return max(np.abs(at - cdf(values)).max(), np.abs(before - cdf(values - 1)).max())


def gate(noise, law):
    """Whether the noise may pass for a sample of the law."""
    cdf = cdf_of(law)
    zeros, p = np.count_nonzero(noise == 0), float(cdf(0) - cdf(-1))
    tail = min(stats.binom.cdf(zeros, noise.size, p), stats.binom.sf(zeros - 1, noise.size, p))
    furthest = math.sqrt(math.log(2 / ALPHA) / (2 * noise.size))
    return 2 * tail > ALPHA and distance(noise, cdf) <= furthest


def narrower(law):
    match law:
        case DiscreteLaplace():
            return DiscreteLaplace(law.rate / WRONG)
        case PolyaDifference():
            return PolyaDifference(law.rate / WRONG, law.shares)
        case _:
            return type(law)(law.sigma2 * WRONG**2)


# ------------------------------------------------------------------------------ one site
LAWS = [
    DiscreteLaplace(Fraction(1)),
    DiscreteLaplace(Fraction(1, 20)),
    DiscreteLaplace(Fraction(1, 1000)),
    DiscreteLaplace(Fraction(1, 10**7)),
    DiscreteGaussian(Fraction(1, 3)),
    DiscreteGaussian(Fraction(12)),
    DiscreteGaussian(Fraction(10**5)),
    DiscreteGaussian(Fraction(10**7)),
    DiscreteGaussian(Fraction(10**14)),
]


@pytest.mark.statistical
@pytest.mark.parametrize("law", LAWS, ids=str)
def test_noise_follows_its_law(law):
    assert gate(draw(law, N, SecretRandomness()), law)


@pytest.mark.statistical
@pytest.mark.parametrize("law", LAWS, ids=str)
def test_noise_of_nine_tenths_the_scale_is_refused(law):
    assert not gate(draw(narrower(law), N, SecretRandomness()), law)


@pytest.mark.statistical
@pytest.mark.parametrize("law", [DiscreteLaplace(Fraction(1)), DiscreteGaussian(Fraction(1, 3))])
def test_noise_five_in_a_hundred_too_small_is_refused_at_scales_near_one(law):
    noise = draw(law, N, SecretRandomness())
    scale = Fraction(95, 100)
    wider = (
        DiscreteLaplace(law.rate * scale)
        if isinstance(law, DiscreteLaplace)
        else DiscreteGaussian(law.sigma2 / scale**2)
    )
    assert not gate(noise, wider)


@pytest.mark.statistical
def test_noise_halved_by_dropping_its_last_bit_is_refused():
    law = DiscreteLaplace(Fraction(1, 20))
    assert not gate(draw(law, N, SecretRandomness()) // 2, law)


@pytest.mark.statistical
def test_a_rounded_continuous_laplace_is_refused():
    law = DiscreteLaplace(Fraction(1))
    rounded = np.rint(np.random.default_rng(0).laplace(size=N)).astype(np.int64)
    assert not gate(rounded, law)


# ---------------------------------------------------------------------- the wide Gaussian
WIDE_SIGMA2 = Fraction(64**2)  # narrow enough that single integers are seen, in steps of 4
WIDE_N = 4_000_000  # so that the small correction by rejection is seen


@pytest.mark.statistical
def test_the_wide_sampler_gives_single_integers_their_probability():
    noise = wide_gaussian(WIDE_SIGMA2, WIDE_N, SecretRandomness())
    assert gate(noise, DiscreteGaussian(WIDE_SIGMA2))
    for k in range(-8, 9):
        p = stats.norm.pdf(k / 64) / 64
        assert stats.binomtest(int((noise == k).sum()), WIDE_N, p).pvalue > ALPHA


@pytest.mark.statistical
def test_the_wide_sampler_without_its_coin_is_refused(monkeypatch):
    """Without rejection a coarse step is flat: too heavy at its outer end."""
    keep_all = lambda numerators, *_: np.ones(len(numerators), bool)  # noqa: E731
    monkeypatch.setattr("hedgerow.privacy.mechanisms.sampling.exp_coins", keep_all)
    noise = wide_gaussian(WIDE_SIGMA2, WIDE_N, SecretRandomness())
    assert not gate(noise, DiscreteGaussian(WIDE_SIGMA2))


@pytest.mark.statistical
def test_the_low_bits_of_very_wide_noise_are_even():
    for law in (DiscreteGaussian(Fraction(10**14)), DiscreteLaplace(Fraction(1, 10**7))):
        noise = draw(law, N, SecretRandomness())
        for bit in range(12):
            ones = int((noise >> bit & 1).sum())
            assert stats.binomtest(ones, N, 0.5).pvalue > ALPHA


# ---------------------------------------------------------------------------------- shares
def sum_of_shares(law, h, present=None):
    secret = SecretRandomness()
    return sum(draw(law.share(h), N, secret) for _ in range(present or h))


SHARED = [
    DiscreteLaplace(Fraction(1)),
    DiscreteLaplace(Fraction(1, 8)),
    DiscreteGaussian(Fraction(60)),
]


@pytest.mark.statistical
@pytest.mark.parametrize("h", [2, 3, 7])
@pytest.mark.parametrize("law", SHARED, ids=str)
def test_h_shares_sum_to_the_law(law, h):
    noise = sum_of_shares(law, h)
    assert gate(noise, law)
    assert not gate(noise, narrower(law))


@pytest.mark.statistical
@pytest.mark.parametrize("law", SHARED, ids=str)
def test_one_silent_site_of_four_is_seen(law):
    assert not gate(sum_of_shares(law, 4, present=3), law)


@pytest.mark.statistical
@pytest.mark.parametrize(
    "share", [PolyaDifference(Fraction(1, 2), 5), PolyaDifference(Fraction(1, 30), 2)], ids=str
)
def test_a_single_share_follows_its_own_law(share):
    noise = draw(share, N, SecretRandomness())
    assert gate(noise, share)
    assert not gate(noise, PolyaDifference(share.rate, share.shares + 1))


@pytest.mark.statistical
def test_draws_next_to_each_other_are_not_correlated():
    """Hoeffding on products of signs, which are fair and independent: bounds at 1e-12."""
    noise = draw(DiscreteLaplace(Fraction(1, 1000)), N, SecretRandomness())
    signs = np.sign(noise)
    furthest = math.sqrt(2 * N * math.log(2 / ALPHA))
    for lag in (1, 2, 64, N // 2):
        assert abs(int((signs[lag:] * signs[:-lag]).sum())) < furthest
    assert abs(int((signs * signs).sum())) > furthest  # words used twice would be seen


# --------------------------------------------------------------------------------------------------
# Laws as values: their ranges, their shares, their variances.
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
