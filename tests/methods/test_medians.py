"""Median forests: what nodes may be split by, what leaves say, and what users are told."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

import hedgerow as hr
from hedgerow.errors import ParameterError, UnsupportedQuery
from hedgerow.methods.blocks.flow import run
from hedgerow.methods.blocks.leaves import Shrinkage, leaf_proportions_below, sums_above
from hedgerow.methods.blocks.medians import MedianRules, balance_below, depth_for, random_halves
from hedgerow.methods.consul import MedianForest
from hedgerow.privacy.accounting.budget import DPModel
from hedgerow.privacy.queries import LATTICE, Binning, Mechanism, Score, Scoring
from hedgerow.privacy.queries.choices import candidate, n_candidates
from hedgerow.schema.candidates import Grids
from hedgerow.schema.regions import EVERYONE, Step
from hedgerow.schema.schema import Numeric, Schema
from support.worlds import TWO, VALUE, federation, sample, site_rows, study


def rules(k=None):
    grids = Grids(TWO, Binning.of_cells(TWO))
    return MedianRules(grids, k, Scoring(Score.GINI), Mechanism.EXPONENTIAL)


def spelled_out(candidates):
    return [candidate(candidates, k) for k in range(n_candidates(candidates))]


# ---------------------------------------------------------------------------------- candidates
def test_a_cut_that_the_path_excludes_is_no_candidate():
    age = TWO.grids[0]
    region = (Step(age.split_values(range(3)), 0),)
    splits = spelled_out(rules().candidates(region, 0, np.random.default_rng(0)))
    assert len(splits) == 2  # three bins and the side of `missing` are left
    assert all(s.left & 0b111 not in (0, 0b111) for s in splits)


def test_all_cuts_of_a_feature_send_missing_to_one_side():
    for seed in range(8):
        splits = spelled_out(rules().candidates(EVERYONE, 0, np.random.default_rng(seed)))
        missing = {s.left >> TWO.grids[0].missing & 1 for s in splits}
        assert len(missing) == 1


def test_a_run_of_cuts_is_the_splits_of_the_feature_in_their_order():
    for seed in range(8):
        candidates = rules().candidates(EVERYONE, 1, np.random.default_rng(seed))
        sets = rules().cuts(EVERYONE, 1, np.random.default_rng(seed))
        assert len(candidates) == 1
        assert spelled_out(candidates) == [rules().grids.split(1, left) for left in sets]


def test_halves_of_categories_leave_none_empty():
    known = np.array([0, 2, 3])
    for left in random_halves(5, known, np.random.default_rng(1)):
        assert 0 < left[known].sum() < 3


def test_a_node_without_cuts_asks_nothing():
    ward = TWO.grids[2]
    region = (Step(ward.split_values([1]), 0), Step(TWO.grids[1].split_values(range(1)), 0))
    region = (*region, Step(TWO.grids[0].split_values(range(1)), 0))
    assert rules().features(region, None, np.random.default_rng(0)) == []


def test_balance_is_a_quarter_on_the_last_level_and_halves_above():
    at = balance_below(4)
    assert [at(level) for level in range(4)] == [
        LATTICE // 32,
        LATTICE // 16,
        LATTICE // 8,
        LATTICE // 4,
    ]


@pytest.mark.parametrize(("rows", "depth"), [(-3.0, 1), (60.0, 1), (200.0, 2), (6400.0, 7)])
def test_depth_leaves_enough_rows_in_a_leaf(rows, depth):
    assert depth_for(rows, 50.0) == depth


# -------------------------------------------------------------------------------------- leaves
def test_a_node_is_the_sum_of_its_leaves_with_their_noise():
    split = TWO.grids[0].split_values(range(2))
    left, right = (Step(split, 0),), (Step(split, 1),)
    nodes = sums_above({left: np.array([1.0, 2.0]), right: np.array([3.0, 0.0])}.items(), 2.0, 0)
    assert nodes[EVERYONE][0].tolist() == [4.0, 2.0]
    assert nodes[EVERYONE][1] == 4.0
    assert next(iter(nodes)) == EVERYONE


def test_a_leaf_full_of_noise_leans_on_its_parent():
    split = TWO.grids[0].split_values(range(2))
    left, right = (Step(split, 0),), (Step(split, 1),)
    masses = {left: np.array([0.0, 3.0]), right: np.array([400.0, 100.0])}
    alone = leaf_proportions_below(masses, 50.0, 0, None)
    leaning = leaf_proportions_below(masses, 50.0, 0, Shrinkage(2.0))
    assert alone[left][1] == 1.0
    assert leaning[left][1] < 0.6
    assert abs(leaning[right][0] - 0.8) < 0.05


# --------------------------------------------------------------------------------- whole forest
@pytest.mark.parametrize("split", ["median", "medians", "table"])
def test_without_noise_a_median_split_parts_the_rows_evenly(split):
    schema = Schema((Numeric("x", 0.0, 1.0, bins=100),), classes=("no", "yes"))
    X = np.random.default_rng(0).beta(2, 6, (1000, 1))
    y = np.where(X[:, 0] > 0.3, "yes", "no")
    fed = federation(study(schema, 1, DPModel.NONE), site_rows(X, y, np.zeros(1000), 1, schema))
    method = MedianForest(n_estimators=1, max_depth=1, split=split, folds=False)
    (tree,) = run(method.flow(schema, fed, np.random.default_rng(0)), fed).model.score.trees
    held = np.bincount(tree.apply(fed.sites.rows.sums.rows.codes))
    assert abs(held[0] - 500) < 100  # the grid's bins hold up to 180 rows


def test_all_trees_ask_in_one_round_a_level():
    X, y = sample(200, TWO)
    fed = federation(study(TWO, 1, epsilon="5"), site_rows(X, y, np.zeros(200), 1, TWO))
    method = MedianForest(n_estimators=6, max_depth=3, split="grid")
    run(method.flow(TWO, fed, np.random.default_rng(0)), fed)
    assert len(fed.record.rounds) == 4
    assert fed.ledger.spent(fed.study.account) == Fraction(5)


def test_several_holders_have_medians_from_tables():
    X, y = sample(300, VALUE)
    model = hr.MedianForestRegressor(schema=VALUE, epsilon=8.0, max_depth=2)
    model.fit(X, y, site=np.arange(300) % 3)
    assert np.isfinite(model.predict(X)).all()
    with pytest.raises(UnsupportedQuery, match="one site"):
        model.set_params(split="medians").fit(X, y, site=np.arange(300) % 3)


@pytest.mark.parametrize(
    "wrong", [{"mechanism": "gini"}, {"split": "mean"}, {"folds": "some"}, {"leaf_fraction": 1.0}]
)
def test_a_wrong_word_is_refused_with_the_words_that_are_allowed(wrong):
    X, y = sample(50, TWO)
    with pytest.raises(ParameterError, match="use"):
        hr.MedianForestClassifier(schema=TWO, **wrong).fit(X, y)


@pytest.mark.parametrize("split", ["median", "medians", "grid"])
@pytest.mark.parametrize("mechanism", [None, "exponential", "permute_and_flip"])
@pytest.mark.parametrize(("folds", "delta"), [(True, 0.0), (False, 1e-6)])
def test_every_way_to_choose_fits_and_predicts(split, mechanism, folds, delta):
    X, y = sample(200, TWO)
    numbers = {"epsilon": 4.0, "delta": delta, "n_estimators": 3, "max_depth": 2}
    model = hr.MedianForestClassifier(TWO, split=split, mechanism=mechanism, folds=folds, **numbers)
    assert set(model.fit(X, y).predict(X)) <= {"no", "yes"}


def test_a_mechanism_is_refused_where_several_holders_ask_tables():
    X, y = sample(60, TWO)
    model = hr.MedianForestClassifier(TWO, mechanism="exponential", max_depth=2)
    with pytest.raises(ParameterError, match="as several sites must; leave it at None"):
        model.fit(X, y, site=np.arange(60) % 3)


def test_balance_is_never_more_than_the_noise_of_a_choice():
    assert [balance_below(2, 1e-9)(level) for level in range(2)] == [0, 0]
    assert [balance_below(2, 1 / 8)(level) for level in range(2)] == [LATTICE // 8, LATTICE // 8]
    assert balance_below(2, 1.0)(1) == balance_below(2)(1)


# ---------------------------------------------------------------------------------- the theorems
@pytest.mark.parametrize("split_epsilon", [0.0, 0.5, 2.0])
def test_private_medians_are_as_balanced_as_theorem_3_says(split_epsilon):
    """The exponential mechanism on the real line, by its exact probabilities of intervals."""
    rng = np.random.default_rng(0)
    n, t = 60, 10
    x = np.concatenate([[0.0], np.sort(rng.random(n)), [1.0]])
    k = np.arange(n + 1)  # rows left of each interval
    weights = np.diff(x) * np.exp(-split_epsilon * np.abs(2 * k - n) / 2.0)
    balanced = weights[(k >= t) & (k <= n - t)].sum() / weights.sum()
    spread = x[n - t + 1] - x[t]
    bound = hr.papers.consul.balance_probability(spread, split_epsilon)
    assert balanced >= bound - 1e-12
    assert bound >= spread - 1e-12
    assert hr.papers.consul.balance_probability(spread, 0.0) == pytest.approx(spread)


def test_noisy_counts_lose_no_more_accuracy_than_theorem_2_says():
    rng = np.random.default_rng(0)
    rows, purity, epsilon = 40, 0.6, 0.4
    counts = np.array([purity * rows, (1 - purity) * rows])
    noisy = counts + rng.laplace(0.0, 1.0 / epsilon, (200_000, 2))
    wrong = np.mean(noisy[:, 0] < noisy[:, 1])
    bound = hr.papers.consul.accuracy_loss(rows, epsilon, purity)
    assert wrong * (2 * purity - 1) <= bound
    assert wrong == pytest.approx(bound, rel=0.05)  # it bounds the chance of a wrong label itself


def test_theorem_1_falls_with_the_smaller_side():
    worst, even = (hr.papers.consul.excess_squared_error(100, t, 1.0, 0.5) for t in (1, 50))
    assert (worst, even) == (0.25 * (400 - 8 + 16), 0.25 * 16 / 50)
