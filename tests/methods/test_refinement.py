"""Pieces of our own tree in the papers' trees: what they ask, what they cost, what they change."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

import hedgerow as hr
from hedgerow.errors import ParameterError
from hedgerow.methods.blocks.flow import run
from hedgerow.methods.blocks.leaves import Shrinkage
from hedgerow.methods.blocks.screening import FeatureScreening, root_tables
from hedgerow.methods.blocks.tables import update_belief
from hedgerow.methods.blocks.target import TrainingTarget
from hedgerow.methods.gubler import HistogramTree
from hedgerow.methods.liu import ExtraTrees
from hedgerow.methods.wang import TopDown
from hedgerow.privacy.accounting.budget import DPModel
from hedgerow.privacy.queries import Cells, ClassCounts, Whole
from hedgerow.schema.schema import Numeric, Schema
from support.worlds import TWO, federation, sample, site_rows, study, watched_ends

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
