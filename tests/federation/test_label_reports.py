"""Labels told in noisy bits: permanent strings once per record, and the whole path to the counts.

The loss is measured, not quoted: from what a site really sends over several queries.
"""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest

import hedgerow as hr
from hedgerow.data import prepared
from hedgerow.errors import ParameterError, UnsupportedQuery
from hedgerow.privacy.accounting.budget import DPModel
from hedgerow.privacy.mechanisms.coins import SecretRandomness
from hedgerow.privacy.mechanisms.response import ALL_WORDS, BloomRandomizedResponse
from hedgerow.privacy.pricing import priced
from hedgerow.privacy.queries import ClassCounts, Count, LabelReports, SumQuery, Whole
from hedgerow.schema.regions import EVERYONE
from support.worlds import THREE, TWO, federation, sample, site_rows, study

REPORTS = BloomRandomizedResponse(classes=3, bits=6, hashes=2, keep=Fraction(9, 10))
COUNTS = SumQuery(EVERYONE, ClassCounts(3), Whole(), Fraction(1, 4))
TINY = BloomRandomizedResponse(classes=2, bits=2, hashes=1, keep=Fraction(1, 2))


def opened(reports=REPORTS, n_sites=2, n=6000):
    X, y = sample(n, THREE)
    the_study = study(THREE, n_sites, DPModel.LABEL, epsilon="30", label_reports=reports)
    return federation(the_study, site_rows(X, y, np.arange(n) % n_sites, n_sites, THREE)), y


def test_class_counts_come_back_from_noisy_bits():
    fed, y = opened()
    (answer,) = fed.ask([COUNTS])
    truth = np.array([(y == c).sum() for c in THREE.classes])
    assert np.abs(answer.values[0, 0] - truth).max() <= 8.0 * math.sqrt(answer.variance)


def test_the_entry_is_charged_for_any_number_of_reports():
    fed, _ = opened()
    for _ in range(3):
        fed.ask([COUNTS])
    spent = Fraction(REPORTS.epsilon_forever)
    assert fed.ledger.spent(fed.study.account) == spent
    assert {e.store.ledger.spent(fed.study.account) for e in fed.sites.clients} == {spent}


def test_a_site_refuses_class_counts_and_keeps_no_labels():
    fed, _ = opened(n_sites=2)
    with pytest.raises(UnsupportedQuery, match="true labels"):
        priced(fed.study, COUNTS)
    assert not fed.sites.clients[0].rows.sums.rows.labels.any()
    told = SumQuery(EVERYONE, LabelReports(6), Whole(), Fraction(1, 4))
    assert priced(fed.study, told).charge.cost == 0
    counted = SumQuery(EVERYONE, Count(), Whole(), Fraction(1, 4))
    assert priced(fed.study, counted).charge.cost == 0


def test_permanent_bits_stay_and_instant_bits_do_not():
    fed, _ = opened(n_sites=1)
    rows = fed.sites.rows
    again, _ = opened(n_sites=1)
    np.testing.assert_array_equal(rows.permanent, again.sites.rows.permanent)
    (one,), (two,) = fed.ask([COUNTS]), fed.ask([COUNTS])
    assert not np.array_equal(one.values, two.values)


# ------------------------------------------------------------------ the loss, by enumeration
def transcript_odds(
    reports: BloomRandomizedResponse, label: int, queries: int, draws_per_run: int
) -> dict:
    """Exact odds of all instant bits a record sends in `queries` reports.

    The permanent string is drawn `draws_per_run` times: once if the site keeps its word.
    """
    flip = Fraction(reports._flip_words, ALL_WORDS)
    ones = [Fraction(w, ALL_WORDS) for w in reports._one_words]
    code = reports.code[label].tolist()
    each, odds = queries // draws_per_run, {}
    for sent in itertools.product((0, 1), repeat=queries * reports.bits):
        chance = Fraction(1)
        for draw in range(draws_per_run):
            part = sent[draw * each * reports.bits : (draw + 1) * each * reports.bits]
            chance *= _odds_of_one_draw(code, part, flip, ones)
        odds[sent] = chance
    return odds


def _odds_of_one_draw(code, sent, flip, ones):
    total = Fraction(1)
    for b, bit in enumerate(code):
        mine = sent[b :: len(code)]
        p = {1: 1 - flip if bit else flip, 0: flip if bit else 1 - flip}
        total *= sum(
            p[kept] * math.prod(ones[1 - kept] if s else 1 - ones[1 - kept] for s in mine)
            for kept in (0, 1)
        )
    return total


def loss(reports, queries, draws_per_run):
    one, two = (transcript_odds(reports, y, queries, draws_per_run) for y in (0, 1))
    assert sum(one.values()) == sum(two.values()) == 1
    return math.log(max(max(one[s] / two[s], two[s] / one[s]) for s in one))


def stays_within(reports, queries, draws_per_run) -> bool:
    """The gate: whatever is sent, the loss is at most what the statement says for ever."""
    return loss(reports, queries, draws_per_run) <= reports.epsilon_forever + 1e-12


def test_one_report_loses_exactly_what_is_stated_for_one():
    assert loss(TINY, 1, 1) == pytest.approx(TINY.epsilon_once, abs=1e-12)


def test_many_reports_of_one_permanent_string_stay_below_epsilon_for_ever():
    losses = [loss(TINY, q, 1) for q in (1, 2, 4)]
    assert losses == sorted(losses)
    assert all(stays_within(TINY, q, 1) for q in (1, 2, 4))
    assert losses[-1] > 0.9 * TINY.epsilon_forever  # and the bound is near


def test_redrawing_the_permanent_string_for_each_tree_turns_the_gate_red():
    """Twin: two trees, two reports each, fresh permanent bits for every tree."""
    assert loss(TINY, 4, 2) > 1.5 * loss(TINY, 4, 1)
    assert not stays_within(TINY, 4, 2)


def test_a_site_that_redraws_for_each_query_is_seen(monkeypatch):
    """Twin in the code itself: draws named by the query give a record new permanent bits."""
    kept = prepared.permanent_bits
    X, y = sample(200, THREE)
    (rows,) = site_rows(X, y, np.zeros(200, int), 1, THREE)
    np.testing.assert_array_equal(kept(rows, REPORTS), kept(rows, REPORTS))
    names = iter(range(10**6))
    monkeypatch.setattr(type(rows), "draw", _draw_by_number(type(rows).draw, names))
    assert not np.array_equal(kept(rows, REPORTS), kept(rows, REPORTS))


def _draw_by_number(draw, names):
    return lambda self, name: draw(self, f"{name} in query {next(names)}")


# ------------------------------------------------------------------------- studies and estimators
def test_reports_that_cost_more_than_the_promise_or_fit_no_schema_are_refused():
    with pytest.raises(ParameterError, match="guarantees"):
        study(THREE, 1, DPModel.LABEL, epsilon="1", label_reports=REPORTS)
    with pytest.raises(ParameterError, match="classes"):
        study(TWO, 1, DPModel.LABEL, epsilon="30", label_reports=REPORTS)
    with pytest.raises(ParameterError, match="dp_model"):
        study(THREE, 1, DPModel.CENTRAL, epsilon="30", label_reports=REPORTS)


@pytest.mark.parametrize("epsilon", ["1/10", "1", "4", "12"])
def test_the_most_truthful_bits_for_an_epsilon_cost_that_epsilon(epsilon):
    reports = BloomRandomizedResponse.for_epsilon(3, 6, 2, Fraction(epsilon))
    assert 0.999 * float(Fraction(epsilon)) < reports.epsilon_forever <= Fraction(epsilon)


def test_two_studies_that_tell_labels_differently_do_not_join():
    plain = study(THREE, 1, DPModel.LABEL, epsilon="30")
    assert plain.hash != study(THREE, 1, DPModel.LABEL, epsilon="30", label_reports=REPORTS).hash


@pytest.mark.parametrize("mechanism", ["response", "bloom", REPORTS])
def test_extra_trees_learn_from_told_labels_and_say_what_is_protected(mechanism):
    X, y = sample(1500, THREE)
    model = hr.ExtraTreesClassifier(
        THREE,
        epsilon=12.0,
        n_estimators=5,
        max_depth=5,
        max_features=3,
        min_samples_leaf=20,
        dp_model="label",
        label_mechanism=mechanism,
        random_state=0,
    ).fit(X[:1000], y[:1000], site=np.arange(1000) % 2)
    most_frequent = max((y[1000:] == c).mean() for c in THREE.classes)
    assert (model.predict(X[1000:]) == y[1000:]).mean() > most_frequent + 0.08
    words = str(model.privacy_)
    assert "features are not protected" in words
    assert mechanism == "response" or "for any number of reports" in words
    assert len(model.run_.rounds) <= 6


def test_an_unknown_label_mechanism_is_refused():
    X, y = sample(50, TWO)
    with pytest.raises(ParameterError, match="label_mechanism"):
        hr.ExtraTreesClassifier(TWO, label_mechanism="hash", dp_model="label").fit(X, y)


def test_permanent_bits_have_draws_of_their_own():
    """With one draw for all bits a record's string would be its code or the opposite of it."""
    fed, y = opened(n_sites=1)
    code = REPORTS.code[np.searchsorted(THREE.classes, y.astype(str))]
    flipped = fed.sites.rows.permanent ^ code
    pairs = np.corrcoef(flipped.T.astype(float))[np.triu_indices(REPORTS.bits, 1)]
    assert np.abs(pairs).max() < 6.0 / math.sqrt(len(y))


def test_instant_bits_have_coins_of_their_own():
    """Between the bits of a report, between records and between reports."""
    n = 4000
    permanent = np.zeros((n, REPORTS.bits), np.uint8)
    one, two = (REPORTS.instant(permanent, SecretRandomness()).astype(float) for _ in range(2))
    pairs = np.corrcoef(np.concatenate([one, two, np.roll(one, 1, axis=0)], axis=1).T)
    assert np.abs(pairs[np.triu_indices(len(pairs), 1)]).max() < 6.0 / math.sqrt(n)


def test_bits_of_several_labels_of_a_person_all_count():
    one = study(THREE, 2, DPModel.LABEL, epsilon="90", label_reports=REPORTS)
    three = study(
        THREE, 2, DPModel.LABEL, epsilon="90", label_reports=REPORTS, records_per_person=3
    )
    assert three.entry_cost == 3 * one.entry_cost == 3 * Fraction(REPORTS.epsilon_forever)


def test_bits_are_refused_from_the_moment_they_cost_more_than_the_promise():
    cost = Fraction(REPORTS.epsilon_forever)
    just = {"schema": THREE, "n_sites": 2, "dp_model": DPModel.LABEL, "label_reports": REPORTS}
    assert study(epsilon=str(cost), **just).entry_cost == cost
    with pytest.raises(ParameterError, match="cost a person"):
        study(epsilon=str(cost * Fraction(999, 1000)), **just)
