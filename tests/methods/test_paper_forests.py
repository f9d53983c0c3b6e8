"""Forests of three papers by name: each formula against a few lines of its own."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from hedgerow.errors import ParameterError
from hedgerow.methods import registry
from hedgerow.methods.blocks.newton_steps import PublishedSteps
from hedgerow.methods.blocks.public_grids import fine_schema, thin_cells
from hedgerow.methods.training import agree
from hedgerow.models.losses import PlainLogLoss
from hedgerow.models.tree import Tree
from hedgerow.privacy.accounting.budget import DPModel
from hedgerow.privacy.mechanisms.response import BloomRandomizedResponse
from hedgerow.privacy.queries import Leaves, SumQuery
from hedgerow.schema.arrays import canonical
from hedgerow.schema.candidates import Grids
from hedgerow.schema.regions import EVERYONE, Step
from support.rows import (
    CLASSES,
    NUMBERS,
    SITE,
    VALUE,
    Y01,
    P,
    X,
    Y,
    leaf_of,
    proportions,
)

papers = registry.papers()

CLOSE = 5e-3
"""Gradients are truncated on a lattice of 1 / 2^14."""


def without_noise(make, schema=CLASSES, **options):
    model = make(schema, dp_model="none", random_state=3, **options)
    return model.fit(X, Y if schema is CLASSES else VALUE)


# --------------------------------------------------------------------------------------- Maddock
def steps_of(model, trees_per_round, newton, rate=0.3, clip=2.0, ridge=1.0):
    """What every leaf should say: equations (3) and (4), clipped, at the model of its batch."""
    raw, told = np.zeros(len(X)), []
    trees = model.model_.score.trees
    for first in range(0, len(trees), trees_per_round):
        together = trees[first : first + trees_per_round]
        p = 1.0 / (1.0 + np.exp(-raw))
        g, h = p - Y01, p * (1.0 - p) if newton else np.ones(len(X))
        for tree in together:
            leaf = leaf_of(tree, model)
            sums = [np.bincount(leaf, weights=w, minlength=tree.n_leaves) for w in (g, h)]
            steps = np.where(sums[1] > 0, -sums[0] / (sums[1] + ridge), 0.0)
            told.append(rate / len(together) * np.clip(steps, -clip, clip))
            raw = raw + told[-1][leaf]
    return told


MADDOCK = {
    "dp_gbm": (1, False),
    "feverless": (1, True),
    "dp_ebm": (1, False),
    "dp_ebm_newton": (1, True),
    "dp_tr_newton": (1, True),
    "dp_tr_newton_ih": (1, True),
    "dp_tr_newton_ih_ebm": (1, True),
    "dp_tr_batch": (2, True),
}


@pytest.mark.parametrize("name", MADDOCK)
def test_leaves_of_boosted_trees_are_the_steps_of_the_paper(name):
    trees_per_round, newton = MADDOCK[name]
    options = {"n_estimators": 4, "max_depth": 2} | ({"p": 0.5} if name == "dp_tr_batch" else {})
    model = without_noise(getattr(papers.maddock, name), **options)
    trees = model.model_.score.trees
    assert len(trees) == (4 * P if name == "dp_ebm" else 4)
    for tree, steps in zip(trees, steps_of(model, trees_per_round, newton), strict=True):
        assert np.allclose(tree.values[:, 0], steps, atol=CLOSE)


@pytest.mark.parametrize("name", [n for n in MADDOCK if "ebm" in n or "trees_per_round" in n])
def test_trees_of_an_ebm_have_one_feature_each_in_turns(name):
    model = without_noise(getattr(papers.maddock, name), n_estimators=6, max_depth=2)
    used = [{t.feature for t in tree.tests if t} for tree in model.model_.score.trees]
    assert used[:6] == [{f"x{t % P}"} for t in range(6)]


def eq_5(rows, g, h, ridge=1.0):
    return g[rows].sum() ** 2 / (h[rows].sum() + ridge)


@pytest.mark.parametrize(("name", "newton"), [("dp_gbm", False), ("feverless", True)])
def test_the_root_of_a_histogram_tree_has_the_largest_split_score(name, newton):
    """Equation (5) over 32 uniform candidates a feature, x <= k / 31."""
    model = without_noise(getattr(papers.maddock, name), n_estimators=1, max_depth=1)
    g, h = 0.5 - Y01, np.full(len(X), 0.25 if newton else 1.0)
    scores = {}
    for j in range(P):
        for cut in np.linspace(0.0, 1.0, 32)[:-1]:
            left = X[:, j] <= cut
            if min(h[left].sum(), h[~left].sum()) >= 1.0:
                scores[j, cut] = eq_5(left, g, h) + eq_5(~left, g, h)
    j, cut = max(scores, key=scores.__getitem__)
    (tree,) = model.model_.score.trees
    assert tree.tests[0].feature == f"x{j}"
    assert np.array_equal(leaf_of(tree, model) == 0, X[:, j] <= cut)


@pytest.mark.parametrize(
    ("g", "h", "fits"),
    [
        (10.0, 9.0, 10.0**2 / (9.0 + 1.0)),  # a step within the clip: equation (5)
        (-100.0, 1.0, 2.0 * 100.0 * 2.0 - (1.0 + 1.0) * 2.0**2),  # clipped: far less than 5000
        (100.0, -3.0, -2.0 * 100.0 * 2.0 + (3.0 - 1.0) * 2.0**2),  # noise made H negative
    ],
)
def test_a_side_of_a_printed_split_is_scored_by_the_step_it_takes(g, h, fits):
    """The loss that a step s takes away is -(2 G s + (H + ridge) s^2), halves left out."""
    found = PublishedSteps(PlainLogLoss()).score(np.array([[g, h]]), 0.0)
    assert np.allclose(found, fits)


def test_dp_rf_averages_the_classes_of_its_leaves():
    model = without_noise(papers.maddock.dp_rf, n_estimators=3, max_depth=2)
    lattice = 1e-4  # the class of a record is asked as a gradient, one unit short of 1
    assert np.allclose(model.predict_proba(X), mean_of_leaves(model), atol=lattice)


def test_a_printed_leaf_whose_noisy_hessian_is_not_positive_says_nothing():
    model = papers.maddock.dp_tr_newton(CLASSES, epsilon=0.01, n_estimators=4, max_depth=3).fit(
        X, Y
    )
    said = np.concatenate([tree.values[:, 0] for tree in model.model_.score.trees])
    assert np.abs(said).max() <= canonical(0.3 * 2.0)
    assert (said == 0.0).any()  # of 32 leaves about half; none is 0 with a chance of 2^-32
    pulled = papers.maddock.dp_tr_newton(
        CLASSES, epsilon=0.01, n_estimators=4, leaf_values="shrunk"
    )
    assert pulled._method(CLASSES).leaf_values == "shrunk"


def test_every_record_of_the_ldp_baseline_adds_noise_for_all_trees():
    """A sum of n records has n times the noise of one that alone keeps epsilon."""
    model = papers.maddock.ldp(CLASSES, n_estimators=5)
    stump = Tree.build(CLASSES.names, {EVERYONE: ()})
    many, method = agree(model, CLASSES, 20)
    update = method._update(CLASSES)
    query = SumQuery(
        EVERYONE,
        update.statistic(method._setting(many.schema).start),
        Leaves((stump,)),
        Fraction(1, 5),
    )
    alone, _ = agree(papers.maddock.dp_tr_newton(CLASSES, n_estimators=5), CLASSES, 1)
    assert many.dp_model is DPModel.PER_SITE
    assert many.variance(query) == pytest.approx(20 * alone.variance(query), rel=1e-6)


# ------------------------------------------------------------------------------------------- Liu
def mean_of_leaves(model, value=proportions):
    """What a forest says whose trees say what the rows of their leaves are."""
    told = []
    for tree in model.model_.score.trees:
        leaf = leaf_of(tree, model)
        by_leaf = {k: value(np.flatnonzero(leaf == k)) for k in np.unique(leaf)}
        told.append([by_leaf[k] for k in leaf])
    return np.mean(told, axis=0)


def mean_value(rows):
    return VALUE[rows].mean()


def test_fet_counts_the_labels_of_all_clients_in_its_leaves():
    model = papers.liu.fet(CLASSES, n_estimators=3, max_depth=4, random_state=0).fit(
        X, Y, site=SITE
    )
    assert np.allclose(model.predict_proba(X), mean_of_leaves(model), atol=1e-6)
    numbers = papers.liu.fet(NUMBERS, n_estimators=3, max_depth=4, random_state=0)
    numbers.fit(X, VALUE, site=SITE)
    assert np.allclose(numbers.predict(X), mean_of_leaves(numbers, mean_value), atol=1e-3)


def gini_gain(left):
    sides = [np.mean(Y01[s]) for s in (left, ~left)]
    parts = [np.mean(left), np.mean(~left)]
    return -sum(w * 2 * q * (1 - q) for w, q in zip(parts, sides, strict=True))


def test_the_root_of_fet_is_the_best_of_its_random_tests_by_gini_gain():
    """With as many trees as it takes to see worse tests drawn and turned down."""
    options = {"max_depth": 1, "spare": 1, "random_state": 0}
    one = papers.liu.fet(CLASSES, n_estimators=200, max_features=1, **options).fit(X, Y, site=SITE)
    three = papers.liu.fet(CLASSES, n_estimators=200, max_features=3, **options).fit(
        X, Y, site=SITE
    )
    gains = [
        [gini_gain(leaf_of(tree, m) == 0) for tree in m.model_.score.trees if tree.n_leaves > 1]
        for m in (one, three)
    ]
    assert np.median(gains[1]) > np.quantile(gains[0], 0.7)  # of three draws: at 2^(-1/3) = .79


def test_fet_ldp_tells_labels_as_bits_of_one_bloom_filter():
    model = papers.liu.fet_ldp(CLASSES, epsilon=2.0)
    reports = agree(model, CLASSES, 2)[0].label_reports
    assert (reports.hashes, reports.bits) == (2, 4)
    assert 1.9 < reports.epsilon_forever <= 2.0


def test_counts_of_fet_ldp_are_estimated_from_the_sums_of_bits():
    """Bits that are told truly but for a chance of 1e-10 each give the counts themselves."""
    seldom = Fraction(1, 10**13)
    true = replace(
        BloomRandomizedResponse.of_labels(2, Fraction(100)),
        one_if_set=1 - seldom,
        one_if_clear=seldom,
    )
    options = {"n_estimators": 3, "max_depth": 2, "random_state": 0, "label_mechanism": true}
    told = papers.liu.fet_ldp(CLASSES, epsilon=100.0, **options).fit(X, Y, site=SITE)
    assert np.allclose(told.predict_proba(X), mean_of_leaves(told), atol=0.02)


def test_every_client_of_fet_gdp_adds_laplace_noise_for_itself():
    model = papers.liu.fet_gdp(CLASSES, epsilon=1.0, n_estimators=2, max_depth=2)
    study, method = agree(model, CLASSES, 3)
    rules = method._rules(_goal(study), study.schema, study_noise_model(study))
    rate = 0.5 / (2 * 2) / rules.n_asked  # the splits' half, by trees, levels and tests
    laplace = 2 * np.exp(-rate) / (1 - np.exp(-rate)) ** 2
    assert study.dp_model is DPModel.PER_SITE
    assert rules.noise == pytest.approx(3 * laplace, rel=1e-9)


def _goal(study):
    from hedgerow.methods.blocks.target import declared_target

    return declared_target(study.schema)


def study_noise_model(study):
    class Quoted:
        is_pure, n_sites = study.delta == 0, study.n_sites
        variance = staticmethod(study.variance)

    return Quoted()


# ---------------------------------------------------------------------------------------- Consul
BINS = thin_cells(fine_schema(CLASSES), 64)


def cells_of(model):
    return model.cells(X)


def balanced_cuts(model, rows, feature):
    """Per cut of the 64 bins: the rows that go left, of those that part the bins in reach."""
    codes = np.asarray(BINS.bins[feature])[cells_of(model)[feature]]
    return [codes[rows] < b for b in range(1, BINS.n_bins[feature] - 1)]


def imbalance(left):
    return abs(2 * int(left.sum()) - len(left))


def nodes(tree, model):
    """(rows, feature, rows that go left) of every inner node."""
    held = {(): np.arange(len(X))}
    leaf, regions = leaf_of(tree, model), tree.regions()
    for region in regions:
        for end in range(len(region)):
            below = [k for k, r in enumerate(regions) if r[:end] == region[:end]]
            held[region[:end]] = np.flatnonzero(np.isin(leaf, below))
    for region, rows in held.items():
        step = next(r[len(region)] for r in regions if r[: len(region)] == region)
        test = step.test
        left = [
            k for k, r in enumerate(regions) if r[: len(region) + 1] == (*region, Step(test, 0))
        ]
        yield rows, int(test.feature[1:]), np.isin(leaf[rows], left)


@pytest.mark.parametrize("schema", [CLASSES, NUMBERS], ids=["classes", "number"])
def test_diprime_cuts_every_node_at_its_median_and_leaves_are_plain(schema):
    model = without_noise(papers.consul.diprime, schema, n_estimators=1, max_depth=2)
    (tree,) = model.model_.score.trees
    for rows, feature, left in nodes(tree, model):
        best = min(imbalance(cut) for cut in balanced_cuts(model, rows, feature))
        assert imbalance(left) == best
    if schema is CLASSES:
        assert np.allclose(model.predict_proba(X), mean_of_leaves(model), atol=1e-6)
    else:
        assert np.allclose(model.predict(X), mean_of_leaves(model, mean_value), atol=1e-3)


def error(rows, left, schema):
    """What the target is scored by: Gini mass, or the sum of squared errors."""
    parts = [rows[left], rows[~left]]
    if schema is CLASSES:
        return sum(len(r) * 2 * np.mean(Y01[r]) * (1 - np.mean(Y01[r])) for r in parts if len(r))
    return sum(((VALUE[r] - VALUE[r].mean()) ** 2).sum() for r in parts if len(r))


@pytest.mark.parametrize("schema", [CLASSES, NUMBERS], ids=["classes", "number"])
@pytest.mark.parametrize(
    "name", ["diprime_exp", "diprime_flip", "diprime_exp_as_published", "diprime_flip_as_published"]
)
def test_diprime_exp_and_flip_take_the_median_that_the_target_likes_best(name, schema):
    make = getattr(papers.consul, name)
    model = without_noise(make, schema, n_estimators=1, max_depth=1)
    (tree,) = model.model_.score.trees
    ((rows, _, left),) = nodes(tree, model)
    medians = [min(balanced_cuts(model, rows, j), key=imbalance) for j in range(P)]
    assert error(rows, left, schema) == pytest.approx(
        min(error(rows, cut, schema) for cut in medians), abs=0.01
    )
    mechanism = "exponential" if "exp" in name else "permute_and_flip"
    assert model.mechanism == mechanism


def test_what_is_printed_of_diprime_exp_keeps_the_paper_s_epsilons():
    """epsilon_l = (1 - rho) epsilon, and each median has rho epsilon / 2 d."""
    model = papers.consul.diprime_exp_as_published(
        CLASSES, published_epsilon=2.0, rho=0.4, max_depth=3
    )
    splits = model.epsilon * (1 - model.leaf_fraction) / 3
    assert model.epsilon * model.leaf_fraction == pytest.approx(0.6 * 2.0)
    assert splits * 2 / (2 * P + 1) == pytest.approx(0.4 * 2.0 / (2 * 3))
    assert model.epsilon == pytest.approx(2.0 * (0.6 + 0.4 * (P + 0.5) / 2))


@pytest.mark.parametrize("schema", [CLASSES, NUMBERS], ids=["classes", "number"])
def test_dp_ert_draws_its_splits_and_pays_for_leaves_alone(schema):
    model = without_noise(papers.consul.dp_ert, schema, n_estimators=3, max_depth=3)
    assert len(model.run_.rounds) == 1
    if schema is CLASSES:
        assert np.allclose(model.predict_proba(X), mean_of_leaves(model), atol=1e-6)
    else:
        assert np.allclose(model.predict(X), mean_of_leaves(model, mean_value), atol=1e-3)


# ----------------------------------------------------------------------------------- Jagannathan
def shapes(model):
    return [tree.tests for tree in model.model_.score.trees]


def test_random_decision_trees_are_drawn_without_data_and_half_as_deep_as_features():
    model = without_noise(papers.jagannathan.random_decision_trees)
    assert model.max_depth == P // 2
    assert len(model.run_.rounds) == 1
    assert np.allclose(model.predict_proba(X), mean_of_leaves(model), atol=1e-6)
    other = papers.jagannathan.random_decision_trees(CLASSES, 2.0, random_state=3)
    assert shapes(other.fit(1.0 - X, Y[::-1])) == shapes(model)
    assert papers.jagannathan.random_decision_trees(CLASSES, max_depth=1).max_depth == 1


def test_each_random_decision_tree_has_an_equal_part_of_epsilon_as_laplace_noise():
    model = papers.jagannathan.random_decision_trees(CLASSES, 2.0, n_estimators=4)
    study, method = agree(model, CLASSES, 1)
    queries = next(method.flow(study.schema, study_noise_model(study), np.random.default_rng(0)))
    assert [query.fraction for query in queries] == [Fraction(1, 4)] * 4
    rate = 2.0 / 4
    laplace = 2 * np.exp(-rate) / (1 - np.exp(-rate)) ** 2
    assert study.variance(queries[0]) == pytest.approx(laplace, rel=1e-9)


def branches(model, feature, bins=5):
    return np.minimum((X[:, feature] * bins).astype(int), bins - 1)


def kary_error(feature, schema):
    child = branches(None, feature)
    groups = [np.flatnonzero(child == k) for k in range(5)]
    if schema is CLASSES:
        return sum(len(r) * 2 * np.mean(Y01[r]) * (1 - np.mean(Y01[r])) for r in groups if len(r))
    return sum(((VALUE[r] - VALUE[r].mean()) ** 2).sum() for r in groups if len(r))


@pytest.mark.parametrize("schema", [CLASSES, NUMBERS], ids=["classes", "number"])
def test_dp_rf_has_a_branch_for_every_bin_of_the_best_feature(schema):
    model = without_noise(papers.consul.dp_rf, schema, n_estimators=1, max_depth=1)
    (tree,) = model.model_.score.trees
    best = min(range(P), key=lambda j: kary_error(j, schema))
    assert {t.feature for t in tree.tests if t} == {f"x{best}"}
    assert tree.n_leaves == 5
    if schema is CLASSES:
        assert np.allclose(model.predict_proba(X), mean_of_leaves(model), atol=1e-6)
    else:
        assert np.allclose(model.predict(X), mean_of_leaves(model, mean_value), atol=1e-3)


def test_dp_df_gives_every_tree_another_root_the_best_first():
    model = without_noise(papers.consul.dp_df, n_estimators=3, max_depth=1, min_samples_split=1.0)
    roots = [tree.tests[0].feature for tree in model.model_.score.trees]
    assert roots == [f"x{j}" for j in sorted(range(P), key=lambda j: kary_error(j, CLASSES))]
    assert np.allclose(model.predict_proba(X), mean_of_leaves(model), atol=1e-6)


def test_grids_of_the_tests_are_those_of_the_forests():
    assert Grids(fine_schema(CLASSES), BINS).binning.n_bins[0] > 32


def test_trees_of_dp_ebm_are_counted_for_each_feature():
    model = papers.maddock.dp_ebm(CLASSES, n_estimators=3)
    assert model.n_estimators == 3 * len(CLASSES.features)
    with pytest.raises(ParameterError, match="n_estimators is True; use a whole number"):
        papers.maddock.dp_ebm(CLASSES, n_estimators=True)
    with pytest.raises(
        ParameterError, match=r"schema is None, but DP-EBM .*; pass a hedgerow.Schema"
    ):
        papers.maddock.dp_ebm()


# ------------------------------------------------------------------ the sizes of Consul's tables
NAMES = ("diprime", "diprime_exp", "diprime_flip")
DEPTHS = [(3, name) for name in NAMES] + [(8, "diprime")]
DEEP = [(8, "diprime_exp"), (8, "diprime_flip"), *((11, name) for name in NAMES)]


@pytest.mark.parametrize(
    ("depth", "name"), [*DEPTHS, *(pytest.param(*one, marks=pytest.mark.slow) for one in DEEP)]
)
def test_median_forests_grow_to_the_depths_of_the_paper(depth, name):
    """A level's medians are asked in as many rounds as their number needs.

    Choices at depth 8 are grown in the short suite by `test_sizes.py`, on more columns.
    """
    trees = 10 if depth < 11 else 2
    model = getattr(papers.consul, name)(CLASSES, 2.0, max_depth=depth, n_estimators=trees)
    model.fit(X, Y)
    assert len(model.model_.score.trees) == trees
    deepest = max(len(r) for tree in model.model_.score.trees for r in tree.regions())
    assert deepest <= depth + 1  # the fold of a tree is a step of its own
    assert model.privacy_.epsilon <= 2.0 + 1e-9


@pytest.mark.parametrize(("trees", "rho"), [(1, 0.2), (28, 0.8)])
def test_median_forests_take_the_paper_s_numbers_of_trees_and_its_rho(trees, rho):
    model = papers.consul.diprime(CLASSES, 2.0, n_estimators=trees, leaf_fraction=1.0 - rho)
    assert len(model.fit(X, Y).model_.score.trees) == trees
    printed = papers.consul.diprime_exp_as_published(CLASSES, 2.0, n_estimators=trees, rho=rho)
    assert len(printed.fit(X, Y).model_.score.trees) == trees
