"""Trees that share rounds: how many each has, how many rounds a run takes, what a study allows."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import hedgerow as hr
from hedgerow.errors import ParameterError
from hedgerow.methods.blocks.boosting import (
    MOST_ROUNDS,
    MOST_TREES_PER_ROUND,
    BatchPlan,
    equal_sizes,
    rising_sizes,
)
from hedgerow.methods.blocks.flow import run
from hedgerow.methods.boosting_classes import SmoothedBoost
from hedgerow.methods.boosting_numbers import RegressionBoost
from hedgerow.methods.dry_run import most_rounds
from hedgerow.methods.method import check_size
from hedgerow.privacy.bundles import MOST_INTEGERS, Size
from support.worlds import TWO, VALUE, federation, sample, site_rows, study

SEVERAL = SimpleNamespace(n_sites=5, max_rounds=0)
BOOSTED = [(SmoothedBoost, TWO), (RegressionBoost, VALUE)]
IDS = ["classes", "number"]
CLEAR = "40000"
"""Epsilon at which few records and columns are enough for trees on top of surfaces."""


@pytest.mark.property
@given(st.integers(1, 400), st.integers(1, 60))
def test_sizes_rise_add_up_and_keep_to_their_rounds(n_estimators, most):
    sizes = rising_sizes(n_estimators, most)
    assert sum(sizes) == n_estimators
    assert len(sizes) <= most
    assert min(sizes) >= 1
    if sizes[0] == 1:  # else the rounds are too few for a ramp
        assert sizes == sorted(sizes)
        assert all(size <= 2**k for k, size in enumerate(sizes))


def test_sizes_are_as_small_as_the_rounds_allow():
    assert rising_sizes(100, 19) == [1, 1, 2, 4, *[6] * 13, 7, 7]
    assert rising_sizes(5, 9) == [1] * 5
    assert equal_sizes(7, 3) == [3, 3, 1]


def test_one_site_and_a_number_by_hand_share_no_round():
    alone = SimpleNamespace(n_sites=1, max_rounds=3)
    assert BatchPlan(9, None, 7, 8).sizes(alone) == [1] * 9
    assert BatchPlan(9, 4, 7, 8).sizes(SEVERAL) == [4, 4, 1]


def test_a_round_never_has_more_trees_than_one_may():
    few = SimpleNamespace(n_sites=2, max_rounds=1)
    assert max(BatchPlan(100, None, 7, 8).sizes(few)) <= MOST_TREES_PER_ROUND
    wide = BatchPlan(10, None, 7, MOST_INTEGERS // 4)
    assert max(wide.sizes(few)) == 2


def trained(method, schema, n_sites=3, **options):
    method_schema, n = method.grid(schema), 600
    X, y = sample(n, schema)
    fed = federation(
        study(method_schema, n_sites, epsilon=CLEAR, delta="1e-6", **options),
        site_rows(X, y, np.arange(n) % n_sites, n_sites, method_schema),
    )
    return run(method.flow(method_schema, fed, np.random.default_rng(0)), fed), fed


@pytest.mark.parametrize(("kind", "schema"), BOOSTED, ids=IDS)
@pytest.mark.parametrize("max_rounds", [0, 18, 40])
def test_default_boosting_over_sites_keeps_to_its_rounds(kind, schema, max_rounds):
    method = kind()
    found, fed = trained(method, schema, max_rounds=max_rounds)
    taken = len(fed.record.rounds)
    assert len(found.model.score.trees) >= 100
    assert (max_rounds or MOST_ROUNDS) - 3 <= taken <= (max_rounds or MOST_ROUNDS)
    assert taken <= most_rounds(fed.study, method) <= (max_rounds or MOST_ROUNDS)
    assert fed.ledger.spent(fed.study.account) == fed.study.total


@pytest.mark.parametrize(("kind", "schema"), BOOSTED, ids=IDS)
def test_rounds_that_no_sharing_saves_are_refused_before_anything_is_charged(kind, schema):
    method = kind()
    with pytest.raises(ParameterError, match=r"rounds, and the study allows 5 \(max_rounds"):
        check_size(method, study(method.grid(schema), 3, max_rounds=5))
    check_size(method, study(method.grid(schema), 3, max_rounds=20))


def test_a_method_that_cannot_share_rounds_is_refused_by_name():
    fixed = SmoothedBoost(n_estimators=100, trees_per_round=1)
    with pytest.raises(ParameterError, match="lower n_estimators"):
        check_size(fixed, study(fixed.grid(TWO), 3, max_rounds=50))


def test_the_evaluation_is_one_of_the_rounds():
    asked = study(TWO, 3, max_rounds=20, hold_out=5)
    evaluated = study(TWO, 3, max_rounds=20, hold_out=5, asks_held_out=asked.asks)
    assert (asked.training_rounds, evaluated.training_rounds) == (20, 19)


def test_two_steps_in_one_round_add_up():
    one, two = Size.of_step(integers=5, bytes=100), Size.of_step(2, integers=7, bytes=50)
    both = one.beside(two)
    assert (both.queries, both.integers, both.bytes, both.rounds) == (3, 19, 200, 1)


def test_an_estimator_of_one_site_takes_one_tree_a_round():
    X, y = sample(600, TWO)
    model = hr.BoostedTreesClassifier(TWO, float(CLEAR), n_estimators=30, random_state=0).fit(X, y)
    assert len(model.run_.rounds) >= 30
