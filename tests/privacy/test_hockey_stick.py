"""Each mechanism by itself: how far two neighbors' answers are apart, beyond exp(epsilon).

The hockey-stick divergence at epsilon is the least delta that a mechanism keeps there. Exact laws
are held against their claims for neighbors that Hypothesis draws; then the samplers' own draws are,
by a test that a sound mechanism fails less than once in a million times. Every claim has a negative
control: a law that is a little sharper than it says is refused.
"""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import beta, norm

from hedgerow.audit.choices import log_chances
from hedgerow.privacy.accounting import conversions, gaussian
from hedgerow.privacy.accounting.budget import Measure
from hedgerow.privacy.mechanisms import sampling, selection
from hedgerow.privacy.mechanisms.coins import SecretRandomness
from hedgerow.privacy.mechanisms.mechanisms import (
    DiscreteGaussian,
    DiscreteLaplace,
    PolyaDifference,
)
from hedgerow.privacy.mechanisms.response import BloomRandomizedResponse, RandomizedResponse
from hedgerow.privacy.mechanisms.sampling import LAW_ONE, Gaussian, Polya
from hedgerow.privacy.queries import Mechanism

pytestmark = pytest.mark.property

EXAMPLES = settings(max_examples=40, deadline=None)
NOTHING = 1e-12
"""Rounding of sums of floats."""


def hockey_stick(p, q, epsilon):
    """The least delta at epsilon, both ways."""
    factor = math.exp(epsilon)
    return max(np.maximum(p - factor * q, 0).sum(), np.maximum(q - factor * p, 0).sum())


def normal_delta(mu, epsilon):
    """What a mechanism keeps that is mu-GDP."""
    return norm.cdf(mu / 2 - epsilon / mu) - math.exp(epsilon) * norm.cdf(-mu / 2 - epsilon / mu)


# -------------------------------------------------------------------------------- noise on integers
def chances(law):
    """(values, probabilities) of a table's law, exact to floats."""
    lowest, numbers = law.probabilities()
    return lowest, np.array([float(Fraction(n, LAW_ONE)) for n in numbers])


def shifted(p, by):
    both = np.zeros((2, len(p) + by))
    both[0, : len(p)], both[1, by:] = p, p
    return both


def two_sided(rate, shares):
    """The difference of two Polya numbers, of which so many sum to a Laplace law."""
    _, one = chances(Polya(rate, shares))
    return np.convolve(one, one[::-1])


def laplace_delta(rate, moved, *, claim=1.0):
    return hockey_stick(*shifted(two_sided(rate, 1), moved), float(rate) * moved * claim)


@EXAMPLES
@given(rate=st.fractions(Fraction(1, 10), 3), moved=st.integers(1, 6))
def test_laplace_noise_keeps_epsilon_and_nothing_less(rate, moved):
    assert laplace_delta(rate, moved) <= NOTHING
    assert laplace_delta(rate, moved, claim=0.98) > 1e-6  # negative control


@EXAMPLES
@given(variance=st.fractions(Fraction(1, 4), 60), moved=st.integers(1, 5))
def test_gaussian_noise_keeps_the_delta_of_its_mu_at_every_epsilon(variance, moved):
    both = shifted(chances(Gaussian(variance))[1], moved)
    mu = moved * math.sqrt(gaussian.unit_mu_squared(variance))
    grid = np.linspace(0.0, mu**2 / 2 + 3 * mu, 12)
    assert all(hockey_stick(*both, e) <= normal_delta(mu, e) + NOTHING for e in grid)
    less = 0.95 * mu  # negative control; coarse noise is tight for a move of one alone
    refuted = [hockey_stick(*both, e) > normal_delta(less, e) + NOTHING for e in grid]
    assert any(refuted) or (variance < 4 and moved > 1)


@pytest.mark.parametrize("shares", [2, 3, 5])
def test_polya_shares_together_keep_epsilon_and_one_too_few_do_not(shares):
    rate, one = Fraction(1, 2), two_sided(Fraction(1, 2), shares)
    together = one
    for _ in range(shares - 2):
        together = np.convolve(together, one)
    assert hockey_stick(*shifted(np.convolve(together, one), 1), float(rate)) <= NOTHING
    assert hockey_stick(*shifted(together, 1), float(rate)) > 1e-3  # negative control


# ---------------------------------------------------------------------------------------- selection
@st.composite
def neighbors(draw):
    """Scores in units, and those of a neighbor: each moved by 0 to `reach`, all by one shift."""
    k = draw(st.integers(2, 7))
    scores = draw(st.lists(st.integers(-60, 0), min_size=k, max_size=k))
    reach, shift = draw(st.integers(1, 20)), draw(st.integers(-30, 30))
    moved = draw(st.lists(st.integers(0, reach), min_size=k, max_size=k))
    both = np.array(scores, float), np.array(scores, float) + np.array(moved) + shift
    return *both, max(moved) - min(moved)


@pytest.mark.parametrize("mechanism", Mechanism)
def test_a_selection_keeps_epsilon_whatever_one_record_does_to_its_scores(mechanism):
    worst = [0.0]

    @settings(max_examples=120, deadline=None)
    @given(pair=neighbors(), nats=st.floats(0.01, 0.3))
    def check(pair, nats):
        scores, others, reach = pair
        p, q = (np.exp(log_chances(mechanism, nats * one)) for one in (scores, others))
        assert hockey_stick(p, q, nats * reach) <= 1e-9
        worst[0] = max(worst[0], hockey_stick(p, q, 0.7 * nats * reach))

    check()
    assert worst[0] > 1e-4  # negative control: 0.7 of it is not kept


@pytest.mark.parametrize("mechanism", Mechanism)
def test_a_selection_keeps_the_mu_that_it_is_charged_for(mechanism):
    mu_squared = Fraction(1, 2)
    epsilon = float(conversions.selection_epsilon(Measure.GDP, mu_squared, mechanism.value))
    mu, worst = math.sqrt(mu_squared), [0.0]

    @settings(max_examples=120, deadline=None)
    @given(pair=neighbors())
    def check(pair):
        scores, others, reach = pair
        nats = epsilon / max(reach, 1)
        p, q = (np.exp(log_chances(mechanism, nats * one)) for one in (scores, others))
        for e in np.linspace(0.0, epsilon, 6):
            assert hockey_stick(p, q, e) <= normal_delta(mu, e) + 1e-9
        worst[0] = max(worst[0], hockey_stick(p, q, 0.0) / normal_delta(mu, 0.0))

    check()
    assert worst[0] > 0.5


# ------------------------------------------------------------------------------------------- labels
@EXAMPLES
@given(classes=st.integers(2, 9), epsilon=st.fractions(Fraction(1, 20), 8))
def test_a_randomized_label_keeps_epsilon(classes, epsilon):
    response = RandomizedResponse.for_epsilon(classes, epsilon)
    p = np.full(classes, float(response.each_other))
    q = p.copy()
    p[0] = q[1] = float(response.keep)
    assert hockey_stick(p, q, float(epsilon)) <= NOTHING
    assert hockey_stick(p, q, 0.97 * float(epsilon)) > NOTHING  # negative control


def test_permanent_bits_keep_their_epsilon_over_all_strings():
    reports = BloomRandomizedResponse.for_epsilon(3, 4, 1, Fraction(2))
    flip = (1.0 - float(reports.keep)) / 2.0
    strings = (np.arange(16)[:, None] >> np.arange(4)) & 1
    laws_of = [np.where(strings == code, 1 - flip, flip).prod(axis=1) for code in reports.code]
    worst = max(hockey_stick(p, q, 2.0) for p in laws_of for q in laws_of)
    assert worst <= 1e-9
    assert max(hockey_stick(p, q, 1.9) for p in laws_of for q in laws_of) > 1e-4


# ------------------------------------------------------------------------ what samplers really draw
DRAWS, ERROR = 12_000, 5e-7


def is_refuted(one, other, epsilon, delta=0.0):
    """Whether P(event) <= e^epsilon P'(event) + delta cannot be, but for an accident."""
    seen, unseen = int(one.sum()), int(other.sum())
    low = beta.ppf(ERROR, seen, DRAWS - seen + 1) if seen else 0.0
    high = beta.ppf(1 - ERROR, unseen + 1, DRAWS - unseen)
    return bool(low > math.exp(epsilon) * high + delta)


def drawn_noise(law):
    return sampling.draw(law, DRAWS, SecretRandomness())


@pytest.mark.statistical
@pytest.mark.parametrize("sharper", [1, 2])
def test_draws_of_noise_keep_what_their_law_is_charged_for(sharper):
    """Twice as sharp is the negative control: it must be refuted."""
    rate, variance = Fraction(1, 2), Fraction(4)
    both = [drawn_noise(DiscreteLaplace(sharper * rate)) for _ in range(2)]
    assert is_refuted(both[0] <= -2, both[1] + 2 <= -2, 2 * float(rate)) is (sharper > 1)
    shares = [
        sum(drawn_noise(PolyaDifference(sharper * rate, 3)) for _ in range(3)) for _ in range(2)
    ]
    assert is_refuted(shares[0] <= -2, shares[1] + 2 <= -2, 2 * float(rate)) is (sharper > 1)
    mu = 2 * math.sqrt(gaussian.unit_mu_squared(variance))
    normal = [drawn_noise(DiscreteGaussian(variance / sharper**2)) for _ in range(2)]
    event = normal[0] <= 1, normal[1] + 2 <= 1
    assert is_refuted(*event, 0.5, normal_delta(mu, 0.5)) is (sharper > 1)


DRAWN = {
    Mechanism.EXPONENTIAL: selection.exponential,
    Mechanism.PERMUTE_AND_FLIP: selection.permute_and_flip,
    Mechanism.REPORT_NOISY_MAX: selection.report_noisy_max,
}


@pytest.mark.statistical
@pytest.mark.parametrize("mechanism", Mechanism)
@pytest.mark.parametrize("sharper", [1, 2])
def test_draws_of_a_selection_keep_what_was_charged(mechanism, sharper):
    """A record takes the second of two candidates from far behind to nearly equal."""
    epsilon, reach = Fraction(2), 4
    coefficient, secret = sharper * epsilon / reach, SecretRandomness()
    pairs = ([0, -1], [0, -1 - reach])
    one, other = (
        np.array([DRAWN[mechanism](pair, coefficient, secret) == 1 for _ in range(DRAWS)])
        for pair in pairs
    )
    assert is_refuted(one, other, float(epsilon)) is (sharper > 1)


@pytest.mark.statistical
@pytest.mark.parametrize("sharper", [1, 2])
def test_draws_of_randomized_labels_keep_what_was_charged(sharper):
    epsilon = Fraction(3, 2)
    response = RandomizedResponse.for_epsilon(4, sharper * epsilon)
    told = [
        response.respond(np.full(DRAWS, label), SecretRandomness().words(DRAWS)) for label in (0, 1)
    ]
    assert is_refuted(told[0] == 0, told[1] == 0, float(epsilon)) is (sharper > 1)
