"""Consistency upwards, shrinkage downwards, and merging of equal labels."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

import hedgerow as hr
from hedgerow.errors import ParameterError
from hedgerow.methods.blocks.flow import run
from hedgerow.methods.blocks.leaves import (
    Shrinkage,
    complete_means,
    complete_proportions,
    consistent_upwards,
    level_sums,
    shrunk_proportions,
)
from hedgerow.methods.blocks.screening import FeatureScreening, root_tables
from hedgerow.methods.blocks.tables import update_belief
from hedgerow.methods.blocks.target import TrainingTarget
from hedgerow.methods.gubler import HistogramTree
from hedgerow.methods.liu import ExtraTrees
from hedgerow.methods.wang import TopDown
from hedgerow.privacy.accounting.budget import DPModel
from hedgerow.privacy.queries import Cells, ClassCounts, Whole
from hedgerow.schema.regions import EVERYONE, Step
from hedgerow.schema.schema import Numeric, Schema
from support.worlds import TWO, federation, sample, site_rows, study, watched_ends

SCHEMA = Schema((Numeric("x", 0.0, 1.0, bins=8), Numeric("z", 0.0, 1.0, bins=8)))
X = SCHEMA.grids[0].split_values(range(4))
LEFT, RIGHT = (Step(X, 0),), (Step(X, 1),)


def test_a_parent_is_averaged_with_the_sum_of_its_children_by_their_variances():
    leaves = {LEFT: (np.array([10.0, 0.0]), 1.0), RIGHT: (np.array([0.0, 10.0]), 1.0)}
    nodes = consistent_upwards(leaves, {EVERYONE: (np.array([14.0, 14.0]), 2.0)})
    masses, variance = nodes[EVERYONE]
    assert np.allclose(masses, [12.0, 12.0])
    assert variance == pytest.approx(1.0)


def test_parents_come_before_children():
    leaves = {LEFT: (np.ones(2), 1.0), RIGHT: (np.ones(2), 1.0)}
    assert next(iter(consistent_upwards(leaves, {EVERYONE: (np.ones(2), 1.0)}))) == EVERYONE


def test_a_leaf_leans_on_its_parent_the_more_the_noisier_it_is():
    def leaf(variance):
        leaves = {LEFT: (np.array([0.0, 20.0]), variance), RIGHT: (np.array([100.0, 0.0]), 1.0)}
        nodes = consistent_upwards(leaves, {EVERYONE: (np.array([100.0, 20.0]), 1.0)})
        return shrunk_proportions(nodes, Shrinkage(2.0))[LEFT]

    assert leaf(1.0)[1] > leaf(100.0)[1] > leaf(10_000.0)[1]
    assert leaf(1.0).sum() == pytest.approx(1.0)


def test_without_noise_a_large_leaf_says_its_own_proportions():
    nodes = {EVERYONE: (np.array([3e6, 1e6]), 0.0)}
    assert shrunk_proportions(nodes, Shrinkage(2.0))[EVERYONE] == pytest.approx(
        [0.75, 0.25], abs=1e-5
    )


def test_level_sums_add_up():
    leaves = np.arange(16.0).reshape(1, 8, 2)
    levels = level_sums(leaves)
    assert [level.shape[1] for level in levels] == [1, 2, 4, 8]
    assert all(np.allclose(level.sum(axis=1), leaves.sum(axis=1)) for level in levels)


def test_an_empty_subtree_says_what_its_parent_says():
    leaves = np.array([[[30.0, 10.0], [10.0, 30.0], [0.0, 0.0], [0.0, 0.0]]])
    p = complete_proportions(leaves, 0.0, np.array([0.5, 0.5]), 0.5)[0][0]
    right = p[2]
    assert np.allclose(p[5], right)
    assert np.allclose(p[6], right)
    assert np.allclose(p.sum(axis=1), 1.0)


def test_the_noise_of_all_leaves_does_not_move_the_shares_of_everybody():
    prior = np.array([0.9, 0.1])
    leaves = np.random.default_rng(0).normal(0.0, 100.0, (5, 8, 2))
    p, moved = complete_proportions(leaves, 1e4, prior, 0.5)
    assert p.shape == moved.shape == (5, 15, 2)
    assert (p[:, 0] == prior).all()
    assert not moved[:, 0].any()
    assert (p[:, 1] != prior).any()


def test_noise_moves_a_leaning_leaf_less_than_one_that_stands_alone():
    prior = np.array([0.9, 0.1])
    leaves = 20.0 * prior + np.random.default_rng(0).normal(0.0, 20.0, (50, 16, 2))
    p = complete_proportions(leaves, 400.0, prior, 0.5)[0][:, -16:]
    alone = np.maximum(leaves, 0.0) + 1e-9
    alone /= alone.sum(axis=2, keepdims=True)
    assert ((p - prior) ** 2).mean() < 0.8 * ((alone - prior) ** 2).mean()


def test_noisy_means_are_pulled_to_their_parents():
    rng = np.random.default_rng(1)
    truth = np.repeat([0.5, -0.5], 4)
    n = np.full(8, 100.0)
    error, raw_error = 0.0, 0.0
    for _ in range(50):
        sums = n * truth + rng.normal(0.0, 40.0, 8)
        means = complete_means(np.stack([n, sums], axis=1), 1600.0, 1600.0, 0.3)[0][-8:]
        error += ((means - truth) ** 2).mean()
        raw_error += ((np.clip(sums / n, -1, 1) - truth) ** 2).mean()
    assert error < 0.6 * raw_error


# --------------------------------------------------------------------------------------------------
# Pieces of our own tree in the papers' trees: what they ask, what they cost, what they change.
ROWS = 300
REFINED = [
    HistogramTree(max_depth=3, screening=FeatureScreening(keep=2)),
    TopDown(max_splits=4, min_gain=0.0, min_fraction_split=0.0, screening=FeatureScreening(keep=2)),
]
EACH = pytest.mark.parametrize("method", REFINED, ids=lambda r: r.name)


def trained(method, **options):
    X, y = sample(ROWS, TWO)
    fed = federation(study(TWO, 1, **options), site_rows(X, y, np.zeros(ROWS), 1, TWO))
    return run(method.flow(TWO, fed, np.random.default_rng(0)), fed), fed


def exact(method):
    return trained(method, dp_model=DPModel.NONE)[0]


class Listening:
    """Keeps what a federation was asked."""

    def __init__(self, fed):
        self.fed, self.asked = fed, []

    def __getattr__(self, name):
        return getattr(self.fed, name)

    def ask(self, queries):
        self.asked += queries
        return self.fed.ask(queries)


def heard(method):
    """The trained tree, tables by their region, and shares of the leaves by theirs."""
    X, y = sample(ROWS, TWO)
    fed = Listening(
        federation(study(TWO, 1, epsilon="100"), site_rows(X, y, np.zeros(ROWS), 1, TWO))
    )
    found = run(method.flow(TWO, fed, np.random.default_rng(0)), fed)
    tables = [q for q in fed.asked if isinstance(q.by, Cells)]
    leaves = {q.region: q.fraction for q in fed.asked if isinstance(q.by, Whole)}
    return found, tables, leaves


# ------------------------------------------------------------------------------- what they cost
@EACH
def test_the_roots_own_tables_make_the_bins_and_nothing_else_is_asked_of_it(method):
    _, tables, _ = heard(method)
    _, of_the_paper, _ = heard(replace(method, screening=None))
    at_root = [q for q in tables if not q.region]
    assert [q.by.features for q in at_root] == [(0, 1, 2)]
    assert at_root[0].fraction == of_the_paper[0].fraction


@EACH
def test_children_ask_for_the_features_that_are_kept(method):
    below = [q for q in heard(method)[1] if q.region]
    assert below
    assert all(len(q.by.features) == 2 for q in below)


@EACH
def test_every_leaf_gets_exactly_what_its_path_left(method):
    with watched_ends() as ends:
        _, _, leaves = heard(method)
    assert ends
    assert all(node.spent + leaves[node.region] == Fraction(1) for node in ends)


# ----------------------------------------------------------------------------- what they change
def test_private_bins_find_a_cut_that_even_bins_cannot_see():
    """All values but one lie in the first of ten even bins, and so does the cut."""
    rng = np.random.default_rng(0)
    x = rng.uniform(0.0, 0.05, (4000, 1))
    y = np.where(x[:, 0] > 0.02, "yes", "no")
    schema = Schema((Numeric("x", 0.0, 1.0),), classes=("no", "yes"))
    options = {"epsilon": 5.0, "max_depth": 2}
    even = hr.HistogramTreeClassifier(schema, n_bins=10, **options).fit(x, y)
    fine = hr.HistogramTreeClassifier(
        schema, screening=FeatureScreening(cells=256, bins=16), **options
    )
    assert even.score(x, y) < 0.7
    assert fine.fit(x, y).score(x, y) > 0.9


@EACH
def test_without_noise_a_refined_tree_classifies_about_as_well_as_the_plain_one(method):
    X, y = sample(ROWS, TWO)
    codes = site_rows(X, y, np.zeros(ROWS), 1, TWO)[0].codes
    pieces = FeatureScreening(bins=None, keep=None)
    scores = [
        np.mean(
            exact(replace(method, screening=r)).model.predict(codes).argmax(axis=1) == (y == "yes")
        )
        for r in (pieces, None)
    ]
    assert scores[0] >= scores[1] - 0.02


def test_without_the_prior_a_node_believes_its_own_tables():
    X, y = sample(ROWS, TWO)
    fed = federation(study(TWO, 1, DPModel.NONE), site_rows(X, y, np.zeros(ROWS), 1, TWO))
    _, belief = run(root_tables(TWO, TrainingTarget(ClassCounts(2)), Fraction(1), 8, None), fed)
    other = belief.masses[:, ::-1] * belief.possible[:, :, None]
    loud = 1e9
    alone = update_belief(belief, other, loud, trusting=False)
    trusting = update_belief(belief, other, loud)
    far = np.abs(belief.masses - other).max()
    assert np.abs(alone.masses - other).max() < 0.5 * far
    assert np.abs(trusting.masses - belief.masses).max() < 0.5 * far


@pytest.mark.parametrize(
    "method",
    [
        HistogramTree(max_depth=2, shrinkage=True),
        TopDown(max_splits=3, min_gain=0.0, shrinkage=True),
    ],
    ids=lambda r: r.name,
)
def test_a_leaning_leaf_has_two_pseudo_rows_of_its_parent_where_there_is_no_noise(method):
    with watched_ends() as ends:
        leaves = exact(method).leaf_statistics[0].leaves
    for node, leaf in zip(ends, leaves, strict=True):
        parent = np.full(2, 0.5)
        for above in node.evidence.above:
            parent = Shrinkage(2.0).proportions(above.masses, 0.0, parent)
        expected = (leaf.masses + 2.0 * parent) / (leaf.masses.sum() + 2.0)
        assert np.allclose(leaf.value, expected)


def test_extra_trees_that_lean_say_proportions():
    X, y = sample(ROWS, TWO)
    found, _ = trained(ExtraTrees(n_estimators=2, max_depth=3, shrinkage=True), epsilon="0.5")
    p = found.model.predict(site_rows(X, y, np.zeros(ROWS), 1, TWO)[0].codes)
    assert np.allclose(p.sum(axis=1), 1.0)
    assert (p >= 0.0).all()


def test_a_leaf_that_leans_never_says_a_negative_proportion():
    p = Shrinkage(2.0).proportions(np.array([80.0, -9.0]), 4.0, np.array([0.9, 0.1]))
    assert (p >= 0.0).all()
    assert p.sum() == pytest.approx(1.0)


# ------------------------------------------------------------------------------------- refusals
@pytest.mark.parametrize(
    "refused",
    [
        lambda: HistogramTree(screening=FeatureScreening(), budget_saving=True),
        lambda: HistogramTree(screening=FeatureScreening(), consistency=False),
        lambda: TopDown(screening=FeatureScreening(), split="choice"),
        lambda: TopDown(screening=FeatureScreening(), criterion="entropy"),
        lambda: FeatureScreening(bins=1),
        lambda: FeatureScreening(penalty=-1.0),
    ],
)
def test_pieces_that_do_not_fit_together_are_refused(refused):
    with pytest.raises(ParameterError):
        refused()


@pytest.mark.parametrize("kind", [hr.HistogramTreeClassifier, hr.TopDownTreeClassifier])
def test_a_switch_that_is_no_refinement_is_refused_in_words(kind):
    with pytest.raises(ParameterError, match=r"use a hedgerow\.FeatureScreening"):
        kind(TWO, screening=True).fit(*sample(ROWS, TWO))
