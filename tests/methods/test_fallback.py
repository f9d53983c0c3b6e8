"""Where noise hides the records: the shares or the mean, little of the budget, and a word."""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction
from hashlib import shake_256
from itertools import count
from types import SimpleNamespace

import numpy as np
import pytest

import hedgerow as hr
from hedgerow.methods import boosting_classes, boosting_numbers, forest
from hedgerow.methods.blocks import fallback, target
from hedgerow.methods.blocks.flow import run
from hedgerow.methods.blocks.random_trees import is_signal_below, random_depth
from hedgerow.methods.blocks.target import (
    InitialRound,
    RecordCount,
    TrainingTarget,
    evenly_spread,
    target_within,
)
from hedgerow.methods.boosting_classes import SmoothedBoost
from hedgerow.methods.boosting_numbers import RegressionBoost
from hedgerow.methods.forest import GuidedForest
from hedgerow.methods.tree import ScreenedTree
from hedgerow.privacy.mechanisms import coins
from hedgerow.privacy.queries import ClassCounts, Count, Whole
from support.worlds import THREE, TWO, VALUE, federation, sample, site_rows, study

CASES = [
    (SmoothedBoost(), TWO),
    (SmoothedBoost(), THREE),
    (GuidedForest(), TWO),
    (GuidedForest(), VALUE),
    (ScreenedTree(), THREE),
    (ScreenedTree(), VALUE),
    (RegressionBoost(), VALUE),
]
EMPTY = tuple(hr.Numeric(f"empty{i}", 0.0, 1.0) for i in range(297))
"""So many columns hide what a table could tell."""


class TrueCount:
    """A federation that tells a given number of records, since noise would decide by luck."""

    def __init__(self, inner, told):
        self.inner, self.told = inner, told
        self.n_counted = 0

    def __getattr__(self, name):
        return getattr(self.inner, name)

    def ask(self, queries):
        pairs = zip(queries, self.inner.ask(queries), strict=True)
        return [self._told(query, reply) for query, reply in pairs]

    def _told(self, query, reply):
        if not _counts_all(query):
            return reply
        self.n_counted += 1
        return replace(reply, values=np.full_like(reply.values, self.told[self.n_counted - 1]))


def _counts_all(query):
    return isinstance(query.statistic, Count) and isinstance(query.by, Whole)


def trained(method, schema, n=400, columns=(), told=None, **guarantee):
    """The counts of all records give `told`, one after another, or their true number."""
    X, y = sample(n, schema)
    X = np.concatenate([X, np.zeros((n, len(columns)), object)], axis=1)
    schema = method.grid(replace(schema, features=(*schema.features, *columns)))
    rows = site_rows(X, y, np.zeros(n, int), 1, schema)
    fed = TrueCount(federation(study(schema, 1, **guarantee), rows), told or [n, n])
    return run(method.flow(schema, fed, np.random.default_rng(0)), fed), fed, rows[0].codes


@pytest.mark.parametrize(("method", "schema"), CASES)
@pytest.mark.parametrize(("epsilon", "delta"), [("0.15", "0"), ("0.1", "1e-6")])
def test_where_noise_hides_the_records_no_column_is_used_and_it_is_said(
    method, schema, epsilon, delta
):
    found, fed, codes = trained(method, schema, columns=EMPTY, epsilon=epsilon, delta=delta)
    said = found.model.predict(codes)
    assert np.ptp(said, axis=0).max() == 0.0
    assert found.instead is not None
    assert "no column" in found.instead
    assert fed.ledger.spent(fed.study.account) <= fed.study.total
    if schema.classes:
        assert said.min() > 0.0
        assert np.allclose(said.sum(axis=1), 1.0)


@pytest.mark.parametrize(("method", "schema"), CASES)
def test_where_they_are_seen_nothing_is_said(method, schema):
    found, _, codes = trained(method, schema, epsilon="500", delta="1e-6")
    assert found.instead is None
    assert np.ptp(found.model.predict(codes), axis=0).max() > 0.0


def test_no_more_is_spent_than_precise_shares_need():
    columns = tuple(hr.Numeric(f"x{i}", 0.0, 1.0) for i in range(3297))
    found, fed, _ = trained(SmoothedBoost(), TWO, 3000, columns, epsilon="0.2", delta="1e-6")
    assert found.instead is not None
    assert fed.ledger.spent(fed.study.account) < 0.7 * fed.study.total


def test_a_user_is_warned_that_the_shares_are_all_there_is():
    columns = tuple(hr.Numeric(f"x{i}", 0.0, 1.0) for i in range(1000))
    schema = hr.Schema(columns, classes=("no", "yes"))
    X, y = np.zeros((300, 1000)), np.where(np.arange(300) % 4 == 0, "yes", "no")
    with pytest.warns(hr.SignalWarning, match="shares of the classes"):
        model = hr.BoostedTreesClassifier(schema, 0.2, 1e-6).fit(X, y)
    assert "shares of the classes" in str(model.privacy_)


def test_a_forest_instead_of_boosted_trees_is_said(monkeypatch):
    monkeypatch.setattr(boosting_numbers, "TABLES_FROM", math.inf)
    X, y = sample(300, VALUE)
    with pytest.warns(hr.SignalWarning, match="a forest"):
        model = hr.BoostedTreesRegressor(VALUE, 4.0, 1e-6, random_state=0).fit(X, y)
    assert "a forest" in model.privacy_.caveats[0]


LUCK = [1000, 60]
"""At epsilon .1 a first count has a noise of hundreds, and sixty records may look like these."""


def lone_leaf(found, codes):
    return np.ptp(found.model.predict(codes), axis=0).max() == 0.0


@pytest.mark.parametrize(("method", "schema"), CASES)
def test_a_count_that_luck_made_large_is_asked_again_and_decides_nothing(method, schema):
    found, fed, codes = trained(method, schema, 60, told=LUCK, epsilon="0.1", delta="1e-6")
    assert lone_leaf(found, codes)
    assert "between 0 and about" in found.instead
    assert fed.n_counted == 2


@pytest.mark.parametrize(("method", "schema"), CASES)
def test_a_count_that_was_seen_is_not_asked_again(method, schema):
    _, fed, _ = trained(method, schema, epsilon="500", delta="1e-6")
    assert fed.n_counted == 1


def test_without_the_rule_luck_decides(monkeypatch):
    """Twin: any count is believed, and a model is made of noise."""
    monkeypatch.setattr(target, "COUNT_IS_SEEN", -1.0)
    found, _, codes = trained(SmoothedBoost(), TWO, 60, told=LUCK, epsilon="0.1", delta="1e-6")
    assert not lone_leaf(found, codes)


SHARES = np.array([300.0, 100.0])


def told(masses, variance):
    return fallback.shrink_shares(masses, variance, fallback.LEAST_KEPT)


def test_shares_are_told_as_far_as_they_differ_beyond_their_noise():
    assert told(SHARES, 0.0) == pytest.approx([0.75, 0.25])
    assert told(SHARES, 1.0) == pytest.approx([0.75, 0.25], abs=1e-3)
    assert told(SHARES, 100.0**2) == pytest.approx([0.5, 0.5], abs=0.03)
    assert told(SHARES, 100.0**2)[0] > 0.5  # the likelier class is named all the same
    between = told(SHARES, 50.0**2)
    assert 0.5 < between[0] < 0.75


@pytest.mark.parametrize("masses", [[-40.0, -90.0], [0.0, 0.0], [900.0, -20.0], [5.0, -900.0, 3.0]])
def test_no_noise_says_that_a_class_does_not_exist(masses):
    p = told(np.array(masses), 30.0**2)
    assert p.min() > 0.0
    assert p.sum() == pytest.approx(1.0)


def loss_of_noise(n=2000):
    """Mean log-loss of shares read off noise alone, where both classes are equally many."""
    rng = np.random.default_rng(0)
    said = [told(m, 100.0) for m in rng.normal(0.0, 10.0, (n, 2))]
    return float(-np.log(said).mean())


def test_shares_of_pure_noise_are_hardly_worse_than_even_ones(monkeypatch):
    assert loss_of_noise() < np.log(2.0) + 0.005
    monkeypatch.setattr(fallback, "EVEN_UNTIL", 0.0)
    assert loss_of_noise() > np.log(2.0) + 0.05


WIDE = replace(VALUE, target=hr.Target(-500.0, 500.0))


def mean_missed(method):
    """By how much the mean is missed, in deviations of a target in a range far too wide."""
    found, _, codes = trained(method, WIDE, 3000, epsilon="0.1", delta="1e-6")
    _, y = sample(3000, WIDE)
    assert lone_leaf(found, codes)
    return abs(float(found.model.predict(codes)[0, 0]) - y.mean()) / y.std()


@pytest.mark.parametrize("method", [GuidedForest(), ScreenedTree(), RegressionBoost()])
def test_a_mean_is_looked_for_where_the_target_lies(method, monkeypatch):
    monkeypatch.setattr(fallback, "FALLBACK_BELOW_FOR_NUMBERS", np.inf)
    numbers = count()
    known = SimpleNamespace(urandom=lambda n: shake_256(str(next(numbers)).encode()).digest(n))
    monkeypatch.setattr(coins, "os", known)
    assert mean_missed(method) < 0.5
    monkeypatch.setattr(fallback, "MEAN_RANGE_FRACTION", Fraction(1, 10**6))
    assert mean_missed(method) > 1.0


def an_initial_round(signal, sure):
    records, fraction = RecordCount(6000.0, 40.0, Fraction(1, 100)), Fraction(1, 100)
    return InitialRound(TrainingTarget(ClassCounts(2)), records, signal, sure, fraction)


GAUSSIAN, LAPLACE = SimpleNamespace(is_pure=False), SimpleNamespace(is_pure=True)
GATES = 40.0, 500.0


@pytest.mark.parametrize(
    ("noise_model", "signal", "sure", "hopeless"),
    [
        (GAUSSIAN, 4.9, 1e4, True),
        (GAUSSIAN, 5.1, 41.0, False),
        (GAUSSIAN, 1e4, 39.0, True),
        (LAPLACE, 1.0, 501.0, False),
        (LAPLACE, 50.0, 499.0, True),
    ],
)
def test_trees_are_drawn_blindly_by_the_signal_or_by_the_noise_of_one_sum(
    noise_model, signal, sure, hopeless
):
    opened = an_initial_round(signal, sure)
    assert is_signal_below(opened, noise_model, *GATES) is hopeless


def test_shares_are_given_by_the_signal_or_by_the_noise_of_one_sum():
    assert fallback.needs_fallback(an_initial_round(1.9, 1e4), GAUSSIAN)
    assert fallback.needs_fallback(an_initial_round(1e4, 7.9), GAUSSIAN)
    assert not fallback.needs_fallback(an_initial_round(2.1, 8.1), GAUSSIAN)
    assert fallback.needs_fallback(an_initial_round(50.0, 39.0), LAPLACE)
    assert not fallback.needs_fallback(an_initial_round(0.1, 41.0), LAPLACE)


def test_few_records_make_a_forest_however_few_the_columns(monkeypatch):
    few = {"epsilon": "0.3", "delta": "1e-6"}
    found, _, _ = trained(SmoothedBoost(), TWO, **few)
    assert found.instead == forest.FOREST_FALLBACK
    monkeypatch.setattr(boosting_classes, "RANDOM_BOOSTING_BELOW", 0.0)
    found, _, _ = trained(SmoothedBoost(), TWO, **few)
    assert found.instead is None


def test_trees_drawn_blindly_are_deeper_where_there_are_more_records():
    assert random_depth(an_initial_round(50.0, 29.0)) == 4
    assert random_depth(an_initial_round(50.0, 31.0)) == 6


def test_numbers_are_never_drawn_blindly():
    opened = replace(an_initial_round(1.0, 1.0), target=WITHIN)
    assert not is_signal_below(opened, LAPLACE, *GATES)


@pytest.mark.parametrize("method", [SmoothedBoost(), GuidedForest(), ScreenedTree()])
def test_many_columns_do_not_stop_trees_that_are_drawn_blindly(method):
    """Laplace noise in a few leaves is the same for any number of columns."""
    found, fed, _ = trained(method, TWO, columns=EMPTY, epsilon="0.5", delta="0")
    assert found.leaf_statistics[0].tree.n_leaves > 1
    assert fed.ledger.spent(fed.study.account) <= fed.study.total


def test_a_forest_instead_of_boosted_classes_is_said():
    found, _, _ = trained(SmoothedBoost(), TWO, epsilon="0.5", delta="0")
    assert "a forest" in found.instead


WITHIN = target_within(evenly_spread(hr.Target(0.0, 1.0)))


def test_a_forest_for_a_number_is_no_deeper_than_its_leaves_noise_allows():
    records = RecordCount(3000.0, 40.0, Fraction(1, 100))
    opened = InitialRound(WITHIN, records, 350.0, 800.0, Fraction(1, 20))
    depths = [forest.deepest(opened, Fraction(1, 100), Loud(d)) for d in (0.0, 10.0, 40.0, 1e6)]
    assert depths[0] == forest.MOST_FOREST_DEPTH
    assert depths[-1] == forest.LEAST_DEPTH
    assert depths == sorted(depths, reverse=True)
    assert depths[1] > depths[2]
    classes = replace(opened, target=TrainingTarget(ClassCounts(2)))
    assert forest.deepest(classes, Fraction(1, 100), Loud(1e6)) == forest.MOST_FOREST_DEPTH


class Loud:
    """Quotes one deviation for every query."""

    is_pure, n_sites = False, 1

    def __init__(self, deviation):
        self.deviation = deviation

    def variance(self, query):
        return self.deviation**2
