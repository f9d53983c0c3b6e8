"""Extra-trees: cuts in reach, stops on released numbers, a round a level, as the pooled forest."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.datasets import make_classification, make_regression
from sklearn.ensemble import ExtraTreesClassifier as PooledClassifier

import hedgerow as hr
from hedgerow.errors import ParameterError, UnsupportedQuery
from hedgerow.methods.blocks import layered
from hedgerow.methods.blocks.layered import (
    DrawnColumns,
    RandomSplits,
    Room,
    best_tests,
    goes_on,
    make_consistent,
    random_cuts,
)
from hedgerow.methods.blocks.scores import gini
from hedgerow.models.layers import NO_TEST, ROOT_LAYER, Layer
from hedgerow.privacy.queries import Binning, ClassCounts
from hedgerow.schema.candidates import Grids
from hedgerow.schema.regions import EVERYONE, Fold, Step
from hedgerow.schema.schema import Categorical, Numeric, Schema, Spacing, Target

MIXED = Schema(
    (
        Numeric("even", 0.0, 1.0, bins=9),
        Numeric("skewed", -5.0, 1000.0, spacing=Spacing.FINE),
        Categorical("kind", ("p", "q", "r", "s")),
        Categorical("many", tuple(str(i) for i in range(200))),
    ),
    classes=("a", "b"),
)


@pytest.mark.property
@settings(max_examples=30, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), depth=st.integers(0, 7))
def test_a_random_cut_leaves_a_known_cell_in_reach_on_both_sides(seed, depth):
    """Room is held as intervals and sets; regions say the same the long way."""
    rng, columns = np.random.default_rng(seed), DrawnColumns(MIXED)
    grids = Grids(MIXED, Binning.of_cells(MIXED))
    layer, room, regions = ROOT_LAYER, Room.at_the_root(columns), [EVERYONE]
    for _ in range(depth):
        cuts = random_cuts(columns, room, 3, rng)
        taken = cuts.select(np.zeros(layer.n_nodes, np.intp), cuts.feature[:, 0] != NO_TEST)
        nodes = np.flatnonzero(taken.feature != NO_TEST)
        below = [(*regions[q], Step(taken.split(int(q), MIXED), s)) for q in nodes for s in (0, 1)]
        goes = rng.random(len(below)) < 0.6
        goes[:1] = True
        layer = Layer(layer, taken, goes)
        room = room.below(layer, columns)
        regions = [r for r, on in zip(below, goes, strict=True) if on]
    cuts = random_cuts(columns, room, 3, rng)
    for q, region in enumerate(regions):
        for j in range(3):
            f = int(cuts.feature[q, j])
            if f == NO_TEST:
                continue
            reach = grids.reachable(region, f)[:-1]
            one = type(cuts)(cuts.feature[q, j : j + 1], cuts.left[q, j : j + 1]).split(0, MIXED)
            left = np.array([one.left >> cell & 1 for cell in range(len(reach))], bool)
            assert (reach & left).any()
            assert (reach & ~left).any()


def rules(**changes):
    plain = {
        "statistic": ClassCounts(2),
        "impurity": gini,
        "n_considered": 2,
        "n_asked": 3,
        "max_depth": 3,
        "min_samples_split": 2.0,
        "min_samples_leaf": 1.0,
        "level_fraction": Fraction(1, 10),
        "noise": 0.0,
    }
    return RandomSplits(**{**plain, **changes})


def cuts_for(n_nodes):
    columns = DrawnColumns(MIXED)
    cuts = random_cuts(columns, Room.at_the_root(columns), 3, np.random.default_rng(0))
    return type(cuts)(np.repeat(cuts.feature, n_nodes, 0), np.repeat(cuts.left, n_nodes, 0))


def test_the_first_tests_that_part_the_node_compete_and_the_purer_wins():
    empty, mixed, pure = [[0, 0], [5, 5]], [[3, 2], [2, 3]], [[5, 0], [0, 5]]
    values = np.array([[empty], [mixed], [pure]], float).reshape(3, 2, 2)
    tables, totals = make_consistent(values, cuts_for(1))
    best, wanted = best_tests(rules(), tables, cuts_for(1))
    assert (best[0], wanted[0]) == (2, True)
    best, _ = best_tests(rules(n_considered=1), tables, cuts_for(1))
    assert best[0] == 1  # the one that parts nothing does not count as considered
    np.testing.assert_array_equal(totals, [[5.0, 5.0]])


def test_tables_of_one_node_agree_on_its_total():
    values = np.random.default_rng(0).normal(0, 5, (3, 2, 2))
    tables, totals = make_consistent(values, cuts_for(1))
    np.testing.assert_allclose(tables.sum(axis=2), np.broadcast_to(totals, (3, 1, 2)))


def test_pure_and_small_nodes_stop_and_noise_makes_them_patient():
    masses = np.array([[9.0, 0.0], [1.0, 0.0], [4.0, 4.0], [0.5, 0.5]])
    assert goes_on(rules(), masses).tolist() == [False, False, True, False]
    assert goes_on(rules(noise=4.0), masses).all()


@pytest.fixture(scope="module")
def rows():
    X, y = make_classification(3000, 12, n_informative=8, n_classes=4, random_state=3)
    schema = Schema(
        tuple(Numeric(f"x{j}", -12.0, 12.0) for j in range(12)), classes=("0", "1", "2", "3")
    )
    return schema, X, y


def test_without_noise_the_forest_is_as_good_as_the_pooled_one(rows):
    schema, X, y = rows
    fit = {"n_estimators": 20, "max_depth": 12, "random_state": 0}
    ours = hr.ExtraTreesClassifier(schema, dp_model="none", **fit)
    ours.fit(X[:2000], y[:2000], site=np.arange(2000) % 3)
    pooled = PooledClassifier(20, max_depth=12, random_state=0).fit(X[:2000], y[:2000])
    assert ours.score(X[2000:], y[2000:]) > pooled.score(X[2000:], y[2000:]) - 0.04
    assert len(ours.run_.rounds) <= 13


def test_a_forest_takes_one_round_a_level_however_many_trees(rows):
    schema, X, y = rows
    counts = [
        len(
            hr.ExtraTreesClassifier(
                schema, epsilon=2.0, n_estimators=t, max_depth=3, random_state=0
            )
            .fit(X, y)
            .run_.rounds
        )
        for t in (1, 7)
    ]
    assert counts == [4, 4]


def test_a_tree_stops_before_it_has_more_leaves_than_can_be_numbered(rows, monkeypatch):
    schema, X, y = rows
    monkeypatch.setattr(layered, "MOST_LEAVES", 9)
    model = hr.ExtraTreesClassifier(
        schema, dp_model="none", n_estimators=3, max_depth=8, random_state=0
    ).fit(X[:400], y[:400])
    assert {tree.n_leaves for tree in model.model_.score.trees} == {9}


def test_random_trees_ask_for_their_leaves_alone(rows):
    schema, X, y = rows
    model = hr.ExtraTreesClassifier(
        schema, epsilon=4.0, n_estimators=9, max_depth=5, split="random", random_state=0
    ).fit(X, y)
    assert len(model.run_.rounds) == 1
    assert model.score(X, y) > 0.4


def test_each_tree_draws_its_own_rows_and_the_ledger_adds_them_up(rows):
    schema, X, y = rows
    model = hr.ExtraTreesClassifier(
        schema, epsilon=1.0, n_estimators=3, max_depth=2, subsample=2, random_state=0
    ).fit(X, y)
    charges = [c for _, entry in model.ledger_.entries for c in entry]
    draws = {c.region[0].test for c in charges}
    assert draws == {Fold(f"tree {t}", 2) for t in range(3)}
    assert model.ledger_.total == sum(c.cost for c in charges) <= 1


def test_numbers_are_split_by_variance():
    X, y = make_regression(1500, 6, n_informative=4, noise=5.0, random_state=0)
    schema = Schema(
        tuple(Numeric(f"x{j}", -5.0, 5.0) for j in range(6)),
        target=Target(float(y.min()), float(y.max())),
    )
    model = hr.ExtraTreesRegressor(schema, dp_model="none", max_depth=12, random_state=0)
    assert model.fit(X[:1000], y[:1000]).score(X[1000:], y[1000:]) > 0.75


@pytest.mark.parametrize(
    "wrong", [{"split": "worst"}, {"subsample": 1}, {"n_estimators": 0}, {"leaf_fraction": 1.0}]
)
def test_parameters_that_make_no_sense_are_refused(rows, wrong):
    schema, X, y = rows
    with pytest.raises(ParameterError):
        hr.ExtraTreesClassifier(schema, **wrong).fit(X[:50], y[:50])


# ---------------------------------------------------------------------------------- observed ranges
WIDE = Schema(
    (Numeric("x", 0.0, 1e6, bins=200), Numeric("z", 0.0, 1e6, bins=200)), classes=("a", "b")
)


def in_a_corner(n=400):
    """Rows in the lowest tenth of a wide public range."""
    X = np.random.default_rng(0).random((n, 2)) * 1e5
    return X, np.where(X[:, 0] > X[:, 1], "a", "b")


def test_a_room_that_holds_some_cells_is_cut_between_them():
    columns = DrawnColumns(MIXED)
    occupied = np.zeros((4, 256), bool)
    occupied[0, [2, 5]] = occupied[2, [0, 3]] = True
    occupied[1, columns.n_known[1]] = True  # missing alone: nothing to cut
    room = Room.holding(columns, occupied)
    assert (room.first[0, 0], room.last[0, 0]) == (2, 5)
    assert room.open_features(columns)[0].tolist() == [True, False, True, False]
    cuts = random_cuts(columns, room, 2, np.random.default_rng(0))
    assert set(cuts.feature[0].tolist()) == {0, 2}


def test_observed_ranges_use_every_cut_where_the_public_range_is_wide():
    X, y = in_a_corner()
    scores = {}
    for ranges in ("public", "observed"):
        model = hr.ExtraTreesClassifier(
            WIDE, n_estimators=10, max_depth=4, ranges=ranges, dp_model="none", random_state=0
        ).fit(X, y, site=np.arange(len(y)) % 2)
        scores[ranges] = model.score(X, y)
    assert scores["observed"] > scores["public"] + 0.05


@pytest.mark.parametrize("dp_model", ["per_site", "distributed"])
def test_observed_ranges_are_refused_where_features_are_protected(dp_model):
    X, y = in_a_corner()
    model = hr.ExtraTreesClassifier(WIDE, ranges="observed", dp_model=dp_model, max_depth=2)
    with pytest.raises(UnsupportedQuery, match=r"use one of .'label', 'none'"):
        model.fit(X, y, site=np.arange(len(y)) % 3)


@pytest.mark.parametrize("options", [{"ranges": "mine"}, {"ranges": "observed", "split": "random"}])
def test_ranges_that_make_no_sense_are_refused(options):
    X, y = in_a_corner()
    with pytest.raises(ParameterError, match="ranges is"):
        hr.ExtraTreesClassifier(WIDE, dp_model="none", **options).fit(X, y)


def test_leaves_get_what_levels_leave():
    """Trees of a few records end early; without what is left, leaves would get half."""
    X = np.random.default_rng(0).random((30, 2))
    columns = (Numeric("even", 0.0, 1.0), Numeric("odd", 0.0, 1.0))
    schema = Schema(columns, classes=("a", "b"))
    model = hr.ExtraTreesClassifier(schema, epsilon=0.5, n_estimators=2, max_depth=30)
    model.fit(X, np.where(X[:, 0] > 0.5, "a", "b"))
    assert len(model.run_.rounds) < 20
    assert model.privacy_.spent_fraction == 1.0
    model.set_params(budget_saving=False, dp_model="central").fit(
        X, np.where(X[:, 0] > 0.5, "a", "b")
    )
    assert model.privacy_.spent_fraction < 0.9


# ------------------------------------------------------------------------------- as published
def test_every_sum_of_the_published_gdp_has_the_published_epsilon():
    """Four tests a level and a leaf, in each tree; the statement has what they cost together."""
    columns = tuple(hr.Numeric(f"x{j}", 0.0, 1.0) for j in range(16))
    schema = hr.Schema(columns, classes=("no", "yes"))
    sizes = {"n_estimators": 3, "max_depth": 2}
    model = hr.papers.liu.fet_gdp_as_published(schema, published_epsilon=0.5, **sizes)
    assert model.epsilon == 0.5 * 3 * (2 * 4 + 1)
    leaves = model._method(schema).leaf_fraction * model.epsilon
    assert leaves / 3 == pytest.approx(0.5)
    assert (model.epsilon - leaves) / (3 * 2 * 4) == pytest.approx(0.5)
