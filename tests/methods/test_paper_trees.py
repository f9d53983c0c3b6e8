"""Trees of Gubler and of Wang et al. by name: each formula against a few lines of its own."""

from __future__ import annotations

from fractions import Fraction
from itertools import product

import numpy as np
import pytest

from hedgerow.data.reading.encoding import encode
from hedgerow.data.rows import Draws, Rows
from hedgerow.federation.transports import in_process
from hedgerow.methods import registry
from hedgerow.methods.blocks.flow import run
from hedgerow.methods.blocks.histograms import rounded_share
from hedgerow.methods.gubler import honest_factor
from hedgerow.methods.training import agree
from hedgerow.privacy.accounting.budget import DPModel
from hedgerow.privacy.queries import (
    BoundQuery,
    Cells,
    Count,
    Leaves,
    Mechanism,
    SelectQuery,
    Whole,
)
from support.rows import CLASSES, IMPURITY, SITE, Y01, P, X, Y, mass, proportions, sides
from support.rows import thresholds as edges

papers = registry.papers()

EVERY = np.arange(len(X))


class Asked:
    """A real federation that keeps what it was asked."""

    def __init__(self, model, sites):
        study, self.method = agree(model, CLASSES, sites)
        site = SITE if sites == 3 else np.zeros(len(X), int)
        rows = [
            Rows(encode(X[site == k], study.schema, y=Y[site == k]), study.schema, draws(k))
            for k in range(sites)
        ]
        self.fed, self.rounds = in_process.open_federation(study, rows), []
        self.trained = run(self.method.flow(study.schema, self.fed, np.random.default_rng(0)), self)
        assert self.rounds

    def ask(self, queries):
        self.rounds.append(list(queries))
        return self.fed.ask(queries)

    @property
    def queries(self):
        return [query for queries in self.rounds for query in queries]


def draws(k):
    return Draws(bytes([k]) * 32, "test")


# ---------------------------------------------------------------------------------------- Gubler
def gini(rows):
    """p (1 - p), Definition 2 of the report."""
    p = np.mean(Y01[rows])
    return p * (1.0 - p)


def weighted(left, right):
    """Algorithm 2, line 5, times n."""
    if not len(left) or not len(right):
        return np.inf
    return len(left) * gini(left) + len(right) * gini(right)


def best_split(rows, features=range(P), bins=10):
    found = [(weighted(*sides(rows, j, t)), j, t) for j, t in product(features, edges(bins))]
    return min(found)


def grown(rows, depth):
    """Algorithm 5 without noise: what each row is told."""
    told = np.tile(proportions(rows), (len(X), 1))
    if depth == 0 or len(rows) < 10 or len(set(Y01[rows])) < 2:
        return told
    _, j, t = best_split(rows)
    left, right = sides(rows, j, t)
    told[left] = grown(left, depth - 1)[left]
    told[right] = grown(right, depth - 1)[right]
    return told


def test_algorithm_2_splits_by_the_impurity_of_sums_over_all_parties():
    model = papers.gubler.algorithm_2(CLASSES, max_depth=3).fit(X, Y, site=SITE)
    assert np.allclose(model.predict_proba(X), grown(EVERY, 3))


def test_algorithm_5_without_noise_is_algorithm_2_and_spends_as_printed():
    model = papers.gubler.algorithm_5(CLASSES, dp_model="none", max_depth=3, leaf_fraction=0.4)
    assert np.allclose(model.fit(X, Y, site=SITE).predict_proba(X), grown(EVERY, 3))
    asked = Asked(model, 3).queries
    tables = [q for q in asked if isinstance(q.by, Cells)]
    leaves = [q for q in asked if isinstance(q.by, Whole)]
    assert {q.fraction for q in tables} == {Fraction(6, 10) / 3}
    assert {q.by.features for q in tables} == {(0, 1, 2)}
    assert {q.fraction for q in leaves} == {Fraction(4, 10)}


def local_bound(feature):
    """Theorem 7: the sum over sites of their own best impurity on a feature."""
    own = [EVERY[k == SITE] for k in range(3)]
    return sum(
        min(
            gini(left) * len(left) + (gini(right) * len(right) if len(right) else 0.0)
            for t in edges(10)
            for left, right in [sides(rows, feature, t)]
            if len(left)
        )
        for rows in own
    )


def histograms_asked(lower):
    """Algorithm 6 without noise: features in the order of their bounds, until these rule out."""
    best, asked = np.inf, []
    for j in sorted(range(P), key=lower.__getitem__):
        if lower[j] > best:
            continue
        asked.append(j)
        best = min(best, best_split(EVERY, [j])[0])
    return asked


def of_the_root(asked):
    return [
        q.by.features[0]
        for q in asked
        if q.region == () and hasattr(q, "by") and isinstance(q.by, Cells)
    ]


@pytest.mark.parametrize("make", ["algorithm_6", "algorithm_6_as_published"])
def test_algorithm_6_asks_the_histograms_that_its_bounds_leave_in_play(make):
    model = getattr(papers.gubler, make)(CLASSES, dp_model="none", max_depth=2)
    asked = Asked(model, 3).queries
    wanted = histograms_asked([local_bound(j) for j in range(P)])
    assert of_the_root(asked) == wanted
    assert len(wanted) < P


def test_algorithm_6_as_released_has_bounds_of_zero_and_asks_for_none():
    model = papers.gubler.algorithm_6_as_released(CLASSES, dp_model="none", max_depth=2)
    asked = Asked(model, 3).queries
    assert not any(isinstance(q, BoundQuery) for q in asked)
    assert of_the_root(asked) == histograms_asked([0.0] * P) == [0, 1, 2]


def test_bounds_spend_what_each_account_gives_them():
    """In parts of the printed epsilon, rounded down; sensitivity 5/4 is printed."""
    level = Fraction(1, 2) / 2
    for accounting, each in [("algorithm_6", level / 4 / P), ("as_published", level / 4 * 4 / 5)]:
        name = accounting if accounting == "algorithm_6" else f"algorithm_6_{accounting}"
        model = getattr(papers.gubler, name)(CLASSES, dp_model="none", max_depth=2)
        kind = "corrected" if accounting == "algorithm_6" else "published"
        factor = honest_factor(kind, P, 2)
        (root,) = (q for q in Asked(model, 3).queries if isinstance(q, BoundQuery) and not q.region)
        assert root.fraction == P * rounded_share(each / factor)


def dearest_path(p, depth, leaf, fraction, cost_of_bounds):
    """The most that a path can cost, by trying every number of histograms at every node."""

    def below(level, saved):
        if level == depth:
            return Fraction(0)
        budget = (1 - leaf) / depth + saved
        each = budget * (1 - fraction) / p
        return max(
            cost_of_bounds * budget + asked * each + below(level + 1, (p - asked) * each)
            for asked in range(1, p + 1)
        )

    return leaf + below(0, Fraction(0))


@pytest.mark.parametrize(("p", "depth"), [(1, 1), (2, 3), (4, 3), (3, 4)])
def test_the_honest_epsilon_of_algorithm_6_is_that_of_its_dearest_path(p, depth):
    leaf, fraction = Fraction(2, 5), Fraction(1, 4)
    printed = dearest_path(p, depth, leaf, fraction, p * fraction * Fraction(4, 5))
    released = dearest_path(p, depth, leaf, fraction, Fraction(0))
    assert honest_factor("published", p, depth, leaf, fraction) == printed
    assert honest_factor("released", p, depth, leaf, fraction) == released < 1
    assert honest_factor("corrected", p, depth, leaf, fraction) == 1


@pytest.mark.parametrize("make", ["algorithm_6_as_published", "algorithm_6_as_released"])
def test_the_honest_epsilon_is_never_spent_beyond(make):
    model = getattr(papers.gubler, make)(CLASSES, published_epsilon=4.0, max_depth=3)
    model.fit(X, Y, site=SITE)
    assert model.privacy_.epsilon <= model.epsilon * (1 + 1e-9)
    assert (model.epsilon > 4.0) == (make == "algorithm_6_as_published")


# ------------------------------------------------------------------------------------------ Wang
SPLITS = list(product(range(P), edges(11)))


def gain(rows, split, impurity):
    """n J: what Equation (1) falls by if some rows are split."""
    left, right = sides(rows, *split)
    return mass(rows, impurity) - mass(left, impurity) - mass(right, impurity)


def best_of(rows, splits, impurity):
    return max(splits, key=lambda split: gain(rows, split, impurity))


def top_down(choose, impurity, most):
    """Algorithm 1 without noise: what each row is told."""
    leaves, queue = [EVERY], [EVERY]
    for _ in range(most):
        chosen = {i: choose(rows) for i, rows in enumerate(queue)}
        worth = {i: gain(queue[i], s, impurity) for i, s in chosen.items()}
        able = [
            i
            for i in worth
            if worth[i] > 0.01 * len(queue[i]) and len(queue[i]) >= 0.1 / most * len(X)
        ]
        if not able:
            break
        i = max(able, key=worth.__getitem__)
        rows = queue.pop(i)
        leaves = [leaf for leaf in leaves if leaf is not rows]
        below = [part for part in sides(rows, *chosen[i]) if len(part)]
        leaves += below
        queue += below
    told = np.zeros((len(X), 2))
    for rows in leaves:
        told[rows] = proportions(rows)
    return told


def anywhere(impurity):
    return lambda rows: best_of(rows, SPLITS, impurity)


def by_parties(impurity):
    """LocalRNM: the best of the splits that are best for somebody."""

    def choose(rows):
        own = [rows[SITE[rows] == k] for k in range(3)]
        return best_of(rows, [best_of(mine, SPLITS, impurity) for mine in own], impurity)

    return choose


WAYS = {
    "single_machine_rnm": (anywhere, 1, ["entropy", "gini"]),
    "noisy_counts": (anywhere, 3, ["entropy", "gini", "root_gini"]),
    "local_rnm": (by_parties, 3, ["entropy", "gini"]),
}
CASES = [(name, c, b) for name, w in WAYS.items() for c in w[2] for b in ("even", "decay")]


@pytest.mark.parametrize(("name", "criterion", "budget"), CASES)
def test_a_way_to_split_takes_the_split_that_its_lines_in_the_paper_take(name, criterion, budget):
    way, sites, _ = WAYS[name]
    impurity, most = IMPURITY[criterion], 4
    model = getattr(papers.wang, name)(
        CLASSES, criterion=criterion, budget=budget, max_splits=most, dp_model="none"
    )
    model.fit(X, Y, site=SITE if sites == 3 else None)
    assert np.allclose(model.predict_proba(X), top_down(way(impurity), impurity, most))


@pytest.mark.parametrize(("budget", "parts"), [("even", [4, 4]), ("decay", [2, 4])])
@pytest.mark.parametrize("name", WAYS)
def test_depths_have_the_budgets_of_the_paper(name, budget, parts):
    model = getattr(papers.wang, name)(CLASSES, max_splits=4, budget=budget, dp_model="none")
    asked = Asked(model, WAYS[name][1])
    for depth, part in enumerate(parts):
        of_depth = [q for q in asked.queries if len(q.region) == depth and not is_leaf(q)]
        node = {q.region: Fraction(0) for q in of_depth}
        for query in of_depth:
            node[query.region] += query.fraction
        assert set(node.values()) == {Fraction(1, 2) / part}
        weights = [q.fraction for q in of_depth if is_weight(q)]  # lines 10 and 11: half and half
        assert set(weights) == ({Fraction(1, 4) / part} if depth else set())
    assert {q.fraction for q in asked.queries if is_leaf(q)} == {Fraction(1, 2)}


def is_leaf(query):
    return isinstance(getattr(query, "by", None), Whole) and not is_weight(query)


def is_weight(query):
    return isinstance(getattr(query, "statistic", None), Count)


def test_noisy_counts_asks_both_sides_of_every_split_of_a_node():
    asked = Asked(papers.wang.noisy_counts(CLASSES, max_splits=2, dp_model="none"), 3)
    root = next(q for q in asked.queries if not q.region)
    assert isinstance(root.by, Leaves)
    assert len(root.by.trees) == len(SPLITS)
    assert root.sensitivity(1).l1 == len(SPLITS)  # so that noise grows with |H|


@pytest.mark.parametrize("name", ["single_machine_rnm", "local_rnm"])
def test_half_of_a_node_is_for_a_real_noisy_max_and_half_for_fresh_counts(name):
    asked = Asked(getattr(papers.wang, name)(CLASSES, dp_model="none", max_splits=2), WAYS[name][1])
    first, second = asked.rounds[0][0], asked.rounds[1][0]
    assert first.mechanism is Mechanism.REPORT_NOISY_MAX
    assert isinstance(first, SelectQuery) == (name == "single_machine_rnm")
    assert first.fraction == second.fraction
    assert isinstance(second.by, Leaves)


def test_every_entity_adds_enough_noise_for_itself():
    model = papers.wang.noisy_counts(CLASSES)
    study, _ = agree(model, CLASSES, 3)
    assert study.dp_model is DPModel.PER_SITE
