"""Gubler's tree: what it asks, where it stops, what it saves."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import hedgerow as hr
from hedgerow.data.sums import Answering
from hedgerow.methods.blocks import histograms
from hedgerow.methods.blocks.builder import Node
from hedgerow.methods.blocks.flow import run
from hedgerow.methods.blocks.scores import gini
from hedgerow.methods.blocks.tables import Tables, gather
from hedgerow.methods.gubler import HistogramTree
from hedgerow.privacy.accounting.budget import DPModel
from hedgerow.privacy.queries import LATTICE, Binning, BoundQuery, Cells, ClassCounts, SumQuery
from hedgerow.schema.candidates import Grids
from hedgerow.schema.regions import EVERYONE, Step
from support.worlds import THREE, TWO, federation, sample, site_rows, study, watched_ends

SHARE = Fraction(1, 10)
GRIDS = Grids(TWO, Binning.of_cells(TWO))
RULES = histograms.HistogramRules(GRIDS, ClassCounts(2), gini)
PLAIN = replace(RULES, consistency=False, known_zeros=False)


def world(schema=TWO, n=600, n_sites=5, seed=0, **more):
    X, y = sample(n, schema, seed)
    parts = site_rows(X, y, np.arange(n) % n_sites, n_sites, schema)
    return federation(study(schema, n_sites, **more), parts), X, y


def grown(method, schema=TWO, **more):
    inner, _, _ = world(schema, **more)
    trained = run(method.flow(schema, inner, np.random.default_rng(0)), inner)
    return trained, inner


def exact_counts(schema=TWO, n=600, seed=0):
    X, y = sample(n, schema, seed)
    (rows,) = site_rows(X, y, np.zeros(n, int), 1, schema)
    by = Cells(tuple(range(3)), Binning.of_cells(schema))
    query = SumQuery(EVERYONE, ClassCounts(len(schema.classes)), by, SHARE)
    return Answering(rows, schema).integers(query, 1).reshape(query.shape).astype(float)


# --------------------------------------------------------------------------------------- splits
@pytest.mark.parametrize("schema", [TWO, THREE], ids=["two classes", "three classes"])
def test_without_noise_the_root_takes_the_split_of_least_impurity(schema):
    counts, grids = exact_counts(schema), Grids(schema, Binning.of_cells(schema))
    best = min(
        float(gini(left @ h) + gini(h.sum(axis=0) - left @ h))
        for f, h in enumerate(counts)
        for left in grids.left_sets[f].astype(float)
        for h in [counts[f][: left.size]]
    )
    trained, _ = grown(HistogramTree(max_depth=1), schema, dp_model=DPModel.NONE)
    test = trained.leaf_statistics[0].tree.tests[0]
    f = schema.index(test.feature)
    left = np.array([test.left >> c & 1 for c in range(counts.shape[1])], float)
    assert gini(left @ counts[f]) + gini((1 - left) @ counts[f]) == pytest.approx(best)


def test_a_category_is_asked_for_by_equality():
    sets = GRIDS.left_sets[TWO.index("ward")]
    assert (sets.sum(axis=1) == 1).all()
    assert sets.any(axis=0).all()  # missing and any other value have their turn too


def test_missing_numbers_may_go_to_either_side():
    sets = GRIDS.left_sets[TWO.index("age")]
    assert sets[:, -1].any()
    assert not sets[:, -1].all()


def test_ties_go_to_the_lower_feature():
    values = np.tile(exact_counts()[:1], (2, 1, 1))
    schema = hr.Schema(
        (hr.Numeric("a", 0, 1, bins=8), hr.Numeric("b", 0, 1, bins=8)), classes=("no", "yes")
    )
    rules = replace(RULES, grids=Grids(schema, Binning.of_cells(schema)))
    assert rules.best(Tables((0, 1), values, 0.0, (9, 9))).feature == 0
    assert (
        rules.best(Tables((1, 0), values, 0.0, (9, 9))).feature == 1
    )  # negative control: the order asked


# ---------------------------------------------------------------------------------- known zeros
INSIDE = Node((Step(TWO.grids[0].split_values(range(3)), 0),), 1)


def test_bins_that_the_path_excludes_hold_nothing_and_are_no_side():
    tables = Tables((0, 1, 2), np.ones((3, 9, 2)), 4.0, GRIDS.binning.n_bins)
    settled = RULES.settle(INSIDE, tables)
    assert settled.is_used[0].tolist() == [True] * 3 + [False] * 6
    assert (settled.values[0, 3:] == 0).all()
    family = GRIDS.families(tables.features)[0]
    used = settled.is_used[family.positions, : family.left_sets.shape[1]]
    for left, allowed in zip(family.left_sets, family.has_two_sides(used)[0], strict=True):
        assert allowed == (0 < left[:3].sum() < 3)


def test_without_known_zeros_noise_can_split_off_an_impossible_side():
    """Twin: the split 'age below 3 cells' taken again inside itself."""
    values = np.zeros((1, 9, 2))
    values[0, :3], values[0, 3:] = (30.0, 0.0), (0.0, 5.0)  # noise in cells that hold no row
    tables = Tables((0,), values, 4.0, (9,))
    twin = replace(RULES, known_zeros=False)
    assert twin.best(twin.settle(INSIDE, tables)).candidate == 2
    assert RULES.best(RULES.settle(INSIDE, tables)).candidate in (0, 1)


def test_a_feature_with_one_bin_left_is_not_asked():
    ward = TWO.grids[2]
    at = Node((Step(ward.split_values([1]), 0),), 1)
    assert RULES.open_features(at, (0, 1, 2)) == (0, 1)
    assert replace(RULES, known_zeros=False).open_features(at, (0, 1, 2)) == (0, 1, 2)


def test_no_tree_tests_a_feature_whose_outcome_the_path_decides():
    trained, _ = grown(HistogramTree(max_depth=5, min_samples_split=0), epsilon="1/10")
    for region in trained.leaf_statistics[0].tree.regions():
        for step in region:
            assert GRIDS.reachable(region, TWO.index(step.test.feature)).any()


# ------------------------------------------------------------------------------------- stopping
def one_feature(masses, variance=0.0):
    values = np.zeros((1, 9, 2))
    values[0, 0] = masses
    return Tables((0,), values, variance, (9,))


@pytest.mark.parametrize(
    ("masses", "stops"), [((3, 3), True), ((6, 6), False), ((50, 0), True), ((50, -4), True)]
)
def test_a_node_stops_when_it_has_few_rows_or_one_class(masses, stops):
    assert replace(PLAIN, min_mass=10.0).must_stop(one_feature(masses)) is stops


def test_one_histogram_that_shows_enough_rows_keeps_a_node_open():
    """Algorithm 5 stops only if all histograms agree that it should."""
    parts = [one_feature((1, 1)), replace(one_feature((9, 9)), features=(1,), n_bins=(7,))]
    rules = replace(PLAIN, min_mass=10.0)
    assert not rules.must_stop(gather(parts))
    assert rules.must_stop(parts[0])


def test_where_totals_agree_a_node_must_look_empty_beyond_the_noise():
    rules = replace(RULES, known_zeros=False, min_mass=10.0)
    assert rules.must_stop(one_feature((3, 3), variance=0.01))
    assert not rules.must_stop(one_feature((3, 3), variance=9.0))


# --------------------------------------------------------------------------------------- budget
@pytest.mark.parametrize("saving", [False, True])
def test_every_path_may_spend_the_whole_budget_and_no_more(saving):
    method = HistogramTree(max_depth=3, budget_saving=saving)
    with watched_ends() as ends:
        _, inner = grown(method)
    assert inner.ledger.spent(inner.study.account) == inner.study.total
    assert ends
    assert all(node.spent <= 1 - method.leaf_fraction for node in ends)


def test_savings_are_seen_in_the_statement_and_in_the_ledger():
    X, y = sample(600, TWO)
    fit = dict(max_depth=3, min_samples_split=0)
    saving = hr.HistogramTreeClassifier(TWO, epsilon=5.0, budget_saving=True, **fit)
    plain = hr.HistogramTreeClassifier(TWO, epsilon=5.0, **fit)
    for model in (saving, plain):
        model.fit(X, y, site=np.arange(600) % 3)
    lines = [charge.what for _, charges in saving.ledger_.entries for charge in charges]
    assert any("could reach on all 3 columns" in line for line in lines)
    assert any("(1 of 3 columns)" in line for line in lines)
    assert saving.privacy_.saved_fraction > 0.0
    assert "passed on" in str(saving.privacy_)
    assert plain.privacy_.saved_fraction == 0.0
    assert "passed on" not in str(plain.privacy_)


def test_larger_chunks_cost_fewer_rounds():
    rounds = {}
    for chunk in (1, 3):
        method = HistogramTree(max_depth=2, budget_saving=True, chunk=chunk, min_samples_split=0)
        _, inner = grown(method, epsilon="5")
        rounds[chunk] = len(inner.record.rounds)
    assert rounds[3] <= 2 * 2 + 1
    assert rounds[1] >= rounds[3]


# --------------------------------------------------------------------------------------- bounds
@pytest.mark.property
@settings(max_examples=30, deadline=None)
@given(seed=st.integers(0, 10**6), n_sites=st.integers(1, 5))
def test_the_bounds_of_all_sites_stay_below_every_common_split(seed, n_sites):
    """Gubler 2023, Theorem 7."""
    X, y = sample(80, THREE, seed)
    binning = Binning.of_cells(THREE)
    query = BoundQuery(EVERYONE, (0, 1, 2), binning, SHARE)
    sites = site_rows(X, y, np.arange(80) % n_sites, n_sites, THREE)
    bounds = sum(Answering(rows, THREE).integers(query, LATTICE) for rows in sites) / LATTICE
    counts, grids = exact_counts(THREE, 80, seed), Grids(THREE, binning)
    for f, bound in enumerate(bounds):
        left_sets = grids.left_sets[f].astype(float)
        h = counts[f][: left_sets.shape[1]]
        left = left_sets @ h
        best = (gini(left) + gini(h.sum(axis=0) - left)).min() / 2.0
        assert bound <= best + 1e-9
        if n_sites == 1:  # one site: the bound is the best split itself, rounded down twice
            assert bound > best - 2.0 / LATTICE - 1e-9


@pytest.mark.property
@settings(max_examples=200, deadline=None)
@given(fraction=st.fractions(min_value=Fraction(1, 10**9), max_value=1).filter(lambda s: s > 0))
def test_a_short_share_is_a_little_below_and_has_few_digits(fraction):
    short = histograms.rounded_share(fraction)
    assert fraction * Fraction(31, 32) < short <= fraction
    digits = short.numerator // (short.numerator & -short.numerator)
    assert digits.bit_length() <= 7


def test_units_of_bounds_are_fine_for_little_noise_and_coarse_for_much():
    query = BoundQuery(EVERYONE, (0,), GRIDS.binning, SHARE)
    units = [study(TWO, 3, epsilon=e).unit(query) for e in ("10000", "1/50", "1/500")]
    assert units[0] == study(TWO, 3).lattice
    assert units[0] > units[1] > units[2] >= 1


def test_fifty_features_at_a_small_epsilon_can_be_bounded():
    """The noise of the bounds is wide here; units of a fixed fineness would be refused."""
    rng = np.random.default_rng(0)
    schema = hr.Schema(
        tuple(hr.Numeric(f"x{j}", -1, 1, bins=4) for j in range(50)), classes=("a", "b")
    )
    model = hr.HistogramTreeClassifier(
        schema, epsilon=0.3, max_depth=2, budget_saving=True, chunk=50
    )
    X = rng.uniform(-1, 1, (60, 50))
    model.fit(X, np.where(X[:, 0] > 0, "a", "b"), site=np.arange(60) % 3)
    assert model.privacy_.epsilon <= 0.3 + 1e-12


# --------------------------------------------------------------------------------------- tables
def test_gathered_tables_have_the_total_of_their_parts():
    a, b = one_feature((4, 2), 9.0), replace(one_feature((8, 6), 9.0), features=(1,), n_bins=(7,))
    both = gather([a, b])
    assert both.features == (0, 1)
    mean, _ = both.total
    weights = np.array([1 / 9, 1 / 7])
    expected = (weights @ np.array([[4, 2], [8, 6]])) / weights.sum()
    np.testing.assert_allclose(mean, expected)


def test_no_split_is_purer_than_the_bound_of_theorem_7():
    rng = np.random.default_rng(0)
    site, x, y = rng.integers(3, size=300), rng.random(300), rng.random(300) < 0.4

    def impurity(values, labels, cut):
        parts = [labels[values <= cut], labels[values > cut]]
        return sum(len(p) * p.mean() * (1 - p.mean()) for p in parts if len(p)) / len(labels)

    def best(values, labels):
        return min(impurity(values, labels, cut) for cut in values)

    rows = [int((site == k).sum()) for k in range(3)]
    bound = hr.papers.gubler.impurity_bound(
        rows, [best(x[site == k], y[site == k]) for k in range(3)]
    )
    assert 0.0 < bound <= best(x, y)
