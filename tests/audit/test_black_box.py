"""Gate 5: no fitted model tells more of a record than its statement claims, seen from outside.

All estimators, all DP models, five canaries. The gate is wrong once in a million audits. Its
negative controls draw half the noise at every DP model, where the leaves say what was counted,
and none at all where models are less plain.
"""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

import hedgerow as hr
from hedgerow.privacy.mechanisms import sampling
from hedgerow.privacy.mechanisms.mechanisms import (
    DiscreteGaussian,
    DiscreteLaplace,
    NoiseLaw,
    NoNoise,
    PolyaDifference,
)
from hedgerow.privacy.mechanisms.response import RandomizedResponse
from support.black_box import CANARIES, EPSILON, PAIRS, canaries_of, guesses, measured

NAMES = [f"{kind.__name__}-{where}" for kind, where in PAIRS]
PLAIN = (
    hr.HistogramTreeClassifier,
    hr.TopDownTreeClassifier,
    hr.MedianForestClassifier,
    hr.ExtraTreesClassifier,
)
"""Their leaves say what was counted. The others shrink it, or say it in several steps."""

MANY = 4000
"""Canaries of all fits together: enough that half the noise is seen but once in a million."""


@pytest.mark.slow
@pytest.mark.parametrize("name", CANARIES)
@pytest.mark.parametrize(("kind", "dp_model"), PAIRS, ids=NAMES)
def test_no_model_tells_more_of_a_record_than_was_claimed(kind, dp_model, name):
    found = measured(kind, dp_model, name)
    print(found)
    assert found.at_least <= EPSILON


def halved(law: NoiseLaw) -> NoiseLaw:
    match law:
        case DiscreteLaplace():
            return DiscreteLaplace(2 * law.rate)
        case PolyaDifference():
            return PolyaDifference(2 * law.rate, law.shares)
        case DiscreteGaussian():
            return DiscreteGaussian(law.sigma2 / 4)
        case NoNoise():
            return law


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "dp_model"),
    [pair for pair in PAIRS if pair[0] in PLAIN],
    ids=[name for name, pair in zip(NAMES, PAIRS, strict=True) if pair[0] in PLAIN],
)
def test_half_the_noise_is_seen_from_outside(monkeypatch, kind, dp_model):
    """The negative control: noise of half its scale, labels randomized for twice the epsilon."""
    draw, respond = sampling.draw, RandomizedResponse.respond
    monkeypatch.setattr(sampling, "draw", lambda law, *a, **k: draw(halved(law), *a, **k))
    monkeypatch.setattr(
        RandomizedResponse,
        "respond",
        lambda told, *a: respond(told.for_epsilon(told.classes, Fraction(2 * EPSILON)), *a),
    )
    found = measured(kind, dp_model, "out of range", MANY // canaries_of(dp_model))
    print(found)
    assert found.at_least > EPSILON


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "dp_model"), PAIRS, ids=NAMES)
def test_no_noise_is_seen_by_as_few_fits_as_the_audit_makes(monkeypatch, kind, dp_model):
    """The negative control of every cell: intervals must not hide such a plain leak."""
    draw = sampling.draw
    monkeypatch.setattr(sampling, "draw", lambda law, *a, **k: draw(NoNoise(), *a, **k))
    monkeypatch.setattr(RandomizedResponse, "respond", lambda told, labels, words: labels)
    found = measured(kind, dp_model, "out of range")
    print(found)
    assert found.at_least > EPSILON


def test_the_plainest_cases_are_guessed_by_what_is_usual_for_their_class():
    coins = np.array([[True, False], [False, True], [True, True], [False, False], [True, False]])
    usual = np.array([10.0, -3.0])
    assert guesses(usual + coins, coins) == (6, 6)
    assert guesses(usual - coins, coins) == (6, 0)


def test_scores_of_pure_chance_are_right_half_of_the_time():
    rng = np.random.default_rng(0)
    guessed, right = guesses(rng.normal(size=(400, 15)), rng.integers(0, 2, (400, 15)) == 1)
    assert abs(right / guessed - 0.5) < 0.05
