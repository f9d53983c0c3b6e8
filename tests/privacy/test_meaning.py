"""What a budget means for one person, against other people's implementations."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
import riskcal.analysis
from scipy.stats import norm

from hedgerow.errors import ParameterError
from hedgerow.privacy.accounting import gaussian, meaning
from hedgerow.privacy.accounting.budget import Measure
from hedgerow.privacy.accounting.meaning import advantage, found_at, meaning_of

EPSILONS = [Fraction(1, 100), Fraction(1, 2), Fraction(1), Fraction(3), Fraction(10)]
ALARMS = [Fraction(1, 1000), Fraction(1, 100), Fraction(1, 10), Fraction(1, 2)]


@pytest.mark.parametrize("epsilon", EPSILONS)
def test_pure_epsilon_means_what_riskcal_says(epsilon):
    expected = riskcal.analysis.get_advantage_for_epsilon_delta(float(epsilon), 0.0)
    assert advantage(Measure.PURE, epsilon) == pytest.approx(expected, rel=1e-12)
    for alarms in ALARMS:
        beta = riskcal.analysis.get_beta_for_epsilon_delta(float(epsilon), 0.0, float(alarms))
        found = found_at(Measure.PURE, epsilon, alarms)
        assert found == pytest.approx(1.0 - float(np.asarray(beta)), rel=1e-9)


@pytest.mark.parametrize("epsilon", EPSILONS)
def test_gaussian_noise_means_what_riskcal_says(epsilon):
    mu_squared = gaussian.mu_squared_within(epsilon, Fraction(1, 10**6))
    mu = math.sqrt(mu_squared)
    expected = riskcal.analysis.get_advantage_for_mu(mu)
    assert advantage(Measure.GDP, mu_squared) == pytest.approx(expected, rel=1e-9)
    for alarms in ALARMS:
        beta = riskcal.analysis.get_beta_for_mu(mu, float(alarms))
        found = found_at(Measure.GDP, mu_squared, alarms)
        assert found == pytest.approx(1.0 - float(np.asarray(beta)), rel=1e-9)


def test_bounds_are_rounded_up():
    """Never below the value in double precision, which is right to a few units in 10^16."""
    for epsilon in EPSILONS:
        assert advantage(Measure.PURE, epsilon) >= math.tanh(float(epsilon) / 2) * (1 - 1e-15)
        exact = 2 * norm.cdf(math.sqrt(epsilon) / 2) - 1
        assert advantage(Measure.GDP, epsilon) >= exact * (1 - 1e-13)


def test_a_test_of_two_gaussians_reaches_the_bound_and_less_noise_would_pass_it():
    """The best test between N(0, 1) and N(mu, 1), by definition; 10 % less noise is seen."""
    mu = 0.7
    for alarms in ALARMS:
        bound = found_at(Measure.GDP, Fraction(49, 100), alarms)
        reached = norm.sf(norm.isf(float(alarms)) - mu)
        assert reached == pytest.approx(bound, rel=1e-9)
        assert norm.sf(norm.isf(float(alarms)) - mu / 0.9) > bound * 1.01


def test_without_noise_everything_can_be_found_and_delta_adds():
    said = meaning_of(Measure.GDP, math.inf)
    assert (said.guess, said.advantage) == (1.0, 1.0)
    assert {found for _, found in said.found} == {1.0}
    more = advantage(Measure.PURE, Fraction(1), Fraction(1, 100))
    assert more == pytest.approx(advantage(Measure.PURE, Fraction(1)) + 0.01)


def test_a_guess_is_the_posterior_of_one_half_under_pure_epsilon():
    said = meaning_of(Measure.PURE, Fraction(1))
    assert said.guess == pytest.approx(math.e / (1 + math.e))
    assert meaning.Meaning.from_dict({"guess": 0.5, "advantage": 0.0, "found": [[0.1, 0.1]]}) == (
        meaning.Meaning(0.5, 0.0, ((0.1, 0.1),))
    )


def test_a_measure_without_a_derivation_is_refused():
    with pytest.raises(ParameterError, match="rho"):
        advantage(Measure.ZCDP, Fraction(1))
