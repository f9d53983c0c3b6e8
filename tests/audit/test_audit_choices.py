"""The audit sees private selections and randomized labels, and mutants that are planted in them."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from typer.testing import CliRunner

import hedgerow as hr
from federation.test_member_choices import CASES, RECORDS, SCHEMA, SHARE, SPLITS
from hedgerow.audit import choices
from hedgerow.audit.choices import (
    chosen_in,
    evidence,
    gaussian_loss,
    log_chances,
    loss_of_labels,
    losses,
    sharpness,
    told_in,
)
from hedgerow.audit.measuring import ERROR, ROUNDING
from hedgerow.audit.running import audited, lines
from hedgerow.cli.main import app
from hedgerow.data.rows import Draws
from hedgerow.federation import client
from hedgerow.privacy.accounting import conversions
from hedgerow.privacy.accounting.budget import DPModel
from hedgerow.privacy.mechanisms.response import BloomRandomizedResponse, RandomizedResponse
from hedgerow.privacy.queries import Mechanism, Score, Scoring, Selections, SelectQuery
from hedgerow.schema.regions import EVERYONE
from support.audited_methods import methods
from support.choices import exponential_pmf, permute_and_flip_pmf, report_noisy_max_pmf
from support.worlds import TWO, sample, site_rows, study

PMFS = {
    Mechanism.EXPONENTIAL: exponential_pmf,
    Mechanism.PERMUTE_AND_FLIP: permute_and_flip_pmf,
    Mechanism.REPORT_NOISY_MAX: report_noisy_max_pmf,
}
SCORES = ([0, 0], [0, -40_000, -7], [5, -90_000, -30_000, 0, -20_000, -300_000])
RATE = Fraction(1, 10_000)


# -------------------------------------------------------------------------------------- laws
@pytest.mark.parametrize("scores", SCORES, ids=len)
@pytest.mark.parametrize("mechanism", PMFS)
def test_the_odds_of_a_choice_are_those_of_an_independent_sum(mechanism, scores):
    ours = log_chances(mechanism, float(RATE) * np.array(scores, float))
    theirs = np.log(PMFS[mechanism](scores, RATE))
    assert ours == pytest.approx(theirs, abs=2e-3)  # sums over a grid, and noise as if it were real


def test_many_candidates_are_told_from_each_other_as_well_as_few():
    flat = np.zeros(3000)
    for mechanism in PMFS:
        assert log_chances(mechanism, flat) == pytest.approx(-math.log(3000), abs=1e-6)


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 5.0])
def test_two_answers_cost_in_gaussian_terms_what_the_accountant_says(epsilon):
    p = 1.0 / (1.0 + math.exp(-epsilon))
    found = gaussian_loss(np.array([p, 1 - p]), np.array([1 - p, p]))
    assert found == pytest.approx(
        float(conversions._mu_squared_of_pure(Fraction(epsilon))), rel=1e-6
    )


# ----------------------------------------------------------------------------------- choices
def chosen(mechanism: Mechanism, delta: str):
    """One choice of a site that is drawn a thousand times, and three canaries: two in, one out."""
    the_study = study(SCHEMA, 1, epsilon="2" if delta == "0" else "5", delta=delta)
    rows = [(float(x), y) for x, y in RECORDS] + [(1.0, "no"), (7.0, "no"), (7.0, "no")]
    X, y = np.array([[x] for x, _ in rows]), np.array([y for _, y in rows], object)
    (all_rows,) = site_rows(X[:-1], y[:-1], np.zeros(len(rows) - 1, int), 1, SCHEMA)
    alone = [site_rows(X[k:][:1], y[k:][:1], np.zeros(1, int), 1, SCHEMA)[0] for k in (-3, -2, -1)]
    query = SelectQuery(EVERYONE, SPLITS, Scoring(Score.GINI), SHARE, mechanism)
    included = np.array([True, True, False])
    (one,) = chosen_in(the_study, [(query, Selections((2,)))], [all_rows], alone, included)
    return the_study, one, included


MECHANISMS = sorted({(mechanism, delta) for mechanism, delta, _ in CASES}, key=str)


def sharpened(monkeypatch, factor: float) -> None:
    for mechanism, right in list(client.MECHANISMS.items()):
        monkeypatch.setitem(
            client.MECHANISMS, mechanism, lambda s, c, z, right=right: right(s, factor * c, z)
        )


@pytest.mark.parametrize(("mechanism", "delta"), MECHANISMS)
def test_a_choice_is_as_sharp_as_it_claims_and_loses_no_more_than_its_charge(mechanism, delta):
    the_study, one, included = chosen(mechanism, delta)
    seen = sharpness([one], ERROR)
    assert 0.4 < seen.at_least <= ROUNDING
    assert seen.at_least < seen.measured
    for factor in (seen.at_least, 1.0):
        lost = losses(the_study, one, factor) / float(the_study.cost(one.query))
        assert 0.02 < lost.max() <= ROUNDING
    assert evidence(one, included).shape == (3,)


@pytest.mark.parametrize(("mechanism", "delta"), MECHANISMS)
def test_a_choice_with_half_its_noise_is_seen(mechanism, delta, monkeypatch):
    sharpened(monkeypatch, 2)
    _, one, _ = chosen(mechanism, delta)
    assert sharpness([one], ERROR).at_least > ROUNDING


def test_a_canary_that_moves_no_score_loses_nothing():
    the_study, one, included = chosen(Mechanism.EXPONENTIAL, "0")
    same = type(one)(one.query, one.scores, one.scores[None, :], one.selection, one.selections)
    assert losses(the_study, same, 1.0).tolist() == [0.0]
    assert evidence(same, included[:1]).tolist() == [0.0]


@pytest.mark.parametrize("delta", [0.0, 1e-6])
def test_a_forest_of_private_choices_is_measured_and_half_the_noise_in_them_is_seen(
    delta, monkeypatch
):
    found = audited(hr.MedianForestClassifier, delta=delta, canaries=10)
    assert found.is_sound
    assert found.white_box > 0.1
    (kind,) = [kind for kind in found.kinds if kind.what.startswith("choices")]
    assert 0.0 < kind.at_least <= ROUNDING
    sharpened(monkeypatch, 2)
    ill = audited(hr.MedianForestClassifier, delta=delta, canaries=4)
    assert not ill.is_sound
    assert "ABOVE ITS CLAIM" in list(lines("MedianForest", "central", ill))[-1]


def test_choices_whose_reach_is_declared_too_small_are_seen(monkeypatch):
    """The law is drawn as claimed; it is the canaries that pull too far."""
    reach = Scoring.reach.fget
    monkeypatch.setattr(Scoring, "reach", property(lambda scoring: reach(scoring) // 4))
    method = methods()["papers.consul.diprime_exp(schema)"]
    found = audited(method, method.dp_model, delta=0.0, canaries=20)
    (kind,) = [kind for kind in found.kinds if kind.what.startswith("choices")]
    assert kind.at_least > ROUNDING


# ------------------------------------------------------------------------------------ labels
def told(reports: bool, monkeypatch, epsilon: str = "8"):
    if reports or epsilon == "1":  # lies are not rare
        monkeypatch.setattr(choices, "RECORDS", 1 << 14)
    placed = (
        {"label_reports": BloomRandomizedResponse.of_labels(2, Fraction(epsilon))}
        if reports
        else {}
    )
    the_study = study(TWO, 1, DPModel.LABEL, epsilon=epsilon, **placed)
    X, y = sample(300, TWO)
    (rows,) = site_rows(X, y, np.zeros(300, int), 1, TWO)
    included = np.arange(20) % 2 == 0
    return the_study, told_in(the_study, rows, Draws(b"s" * 32, "audit"), included)


@pytest.mark.parametrize("reports", [False, True], ids=["labels", "bits"])
@pytest.mark.parametrize("epsilon", ["1", "8"])
def test_labels_told_at_random_lose_what_was_charged_and_hardly_less(reports, epsilon, monkeypatch):
    the_study, seen = told(reports, monkeypatch, epsilon)
    lost = loss_of_labels([seen], ERROR)
    assert 0.8 * float(epsilon) < lost <= float(the_study.entry_cost) * ROUNDING
    assert 0 <= seen.canaries_right <= 10


def half_the_lies(self, labels, words):
    """As if twice the epsilon had been asked for."""
    twice = RandomizedResponse.for_epsilon(self.classes, 2 * Fraction(self.epsilon))
    return RESPOND(twice, labels, words)


RESPOND, PERMANENT = RandomizedResponse.respond, BloomRandomizedResponse.permanent


def half_the_flips(self, labels, words):
    twice = BloomRandomizedResponse.of_labels(self.classes, 2 * Fraction(self.epsilon_forever))
    return PERMANENT(twice, labels, words)


@pytest.mark.parametrize("reports", [False, True], ids=["labels", "bits"])
def test_labels_told_by_twice_the_epsilon_are_seen(reports, monkeypatch):
    monkeypatch.setattr(RandomizedResponse, "respond", half_the_lies)
    monkeypatch.setattr(BloomRandomizedResponse, "permanent", half_the_flips)
    the_study, seen = told(reports, monkeypatch)
    assert loss_of_labels([seen], ERROR) > float(the_study.entry_cost) * ROUNDING


def test_labels_that_are_told_as_they_are_are_seen_by_the_command(monkeypatch):
    asked = ["audit", "--estimator", "ExtraTreesClassifier", "--dp-model", "label", "--fits", "1"]
    done = CliRunner().invoke(app, asked)
    assert done.exit_code == 0, done.output
    assert "randomized labels" in done.output
    monkeypatch.setattr(RandomizedResponse, "respond", lambda self, labels, words: labels)
    done = CliRunner().invoke(app, asked)
    assert done.exit_code == 1, done.output
    assert "ABOVE ITS CLAIM" in done.output
