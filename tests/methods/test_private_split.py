"""The exact loss of each way to find a split, for small nodes, against what it is charged.

Everything is enumerated: all small sets of records, every record that may be added, every answer.
The negative controls compute the paper's own releases beside it and see them exceed what they
claim.
"""

from __future__ import annotations

import itertools
import math
from fractions import Fraction
from functools import cache

import numpy as np
import pytest

from hedgerow.data.reading.encoding import Encoded
from hedgerow.data.rows import Rows
from hedgerow.data.scoring import entropy_units
from hedgerow.data.sums import Answering
from hedgerow.methods.blocks.scores import entropy
from hedgerow.methods.blocks.selection import SelectionRules
from hedgerow.privacy.accounting.budget import DPModel
from hedgerow.privacy.queries import (
    LATTICE,
    MOST_ROWS,
    Binning,
    Cells,
    ClassCounts,
    LocalSelection,
    Mechanism,
    Score,
    Scoring,
    SelectQuery,
    SumQuery,
)
from hedgerow.privacy.study import Study
from hedgerow.schema.candidates import Grids
from hedgerow.schema.regions import EVERYONE
from hedgerow.schema.schema import Categorical, Numeric, Schema
from support.choices import exponential_pmf, permute_and_flip_pmf, report_noisy_max_pmf
from support.examples import scores
from support.worlds import EVERY_KIND

pytestmark = pytest.mark.property

SCHEMA = Schema(
    (Numeric("x", 0.0, 1.0, bins=2), Categorical("kind", ("p", "q"), other=False)),
    classes=("no", "yes"),
)
GRIDS = Grids(SCHEMA, Binning.of_cells(SCHEMA))
COUNTS = ClassCounts(2)
SPLITS = tuple(GRIDS.split(f, left) for f in range(2) for left in GRIDS.left_sets[f])
RECORDS = list(itertools.product(range(2), range(2), range(2)))  # (x, kind, class)
NODES = [node for n in range(3) for node in itertools.combinations_with_replacement(RECORDS, n)] + [
    [(1, 1, 0)] * 60,
    [(0, 0, 0)] * 30 + [(1, 1, 0)] * 30,
]
PMFS = {
    Mechanism.EXPONENTIAL: exponential_pmf,
    Mechanism.PERMUTE_AND_FLIP: permute_and_flip_pmf,
    Mechanism.REPORT_NOISY_MAX: report_noisy_max_pmf,
}
SHARE = Fraction(1, 4)
SLACK = 1e-9


def study(n_sites: int = 1, epsilon: Fraction = Fraction(4)) -> Study:
    return Study(
        name="small",
        schema=SCHEMA,
        asks=EVERY_KIND,
        method="topdown",
        epsilon=epsilon,
        delta=Fraction(0),
        dp_model=DPModel.CENTRAL if n_sites == 1 else DPModel.PER_SITE,
        n_sites=n_sites,
        colluders=0,
        threshold=n_sites,
    )


def rows(records) -> Rows:
    table = np.array(records, np.uint8).reshape(len(records), 3)
    codes, y = table[:, :2].T.copy(), table[:, 2].copy()
    return Rows(Encoded(codes=codes, y=y, persons=None, clamped={}, unknown={}, skipped=0), SCHEMA)


def neighbors():
    for node in NODES:
        before = rows(node)
        for record in RECORDS:
            yield before, rows([*node, record])


@cache
def log_pmf(chooser, gaps, coefficient):
    return np.log(PMFS[chooser]([-gap for gap in gaps], coefficient))


def log_chances(query, coefficient, r) -> np.ndarray:
    exact = scores(query, r, SCHEMA).tolist()
    return log_pmf(query.mechanism, tuple(max(exact) - u for u in exact), coefficient)


def loss_of_index(query, coefficient, before, after) -> float:
    """Largest log ratio of the probabilities of any index."""
    moved = log_chances(query, coefficient, before) - log_chances(query, coefficient, after)
    return float(np.abs(moved).max())


def loss_of_sum(query, the_study, before, after) -> float:
    """Largest log ratio of the probabilities of any answer, where P(x) ~ exp(-rate |x|)."""
    rate = float(the_study.sum_law(query).rate)
    moved = Answering(after, SCHEMA).integers(query, 1) - Answering(before, SCHEMA).integers(
        query, 1
    )
    at = np.arange(-9, 10)
    ratios = rate * (np.abs(at[:, None] - moved) - np.abs(at[:, None]))
    return float(np.abs(ratios).max(axis=0).sum())


def rules(score: Score, chooser: Mechanism) -> SelectionRules:
    return SelectionRules(GRIDS, COUNTS, entropy, Scoring(score, rows_at_most=64), chooser)


def test_the_small_nodes_have_at_most_eight_candidates():
    assert 4 <= len(SPLITS) <= 8


# ------------------------------------------------------------------------------- what is charged
@pytest.mark.parametrize("chooser", Mechanism)
@pytest.mark.parametrize("score", [Score.GINI, Score.ENTROPY])
@pytest.mark.parametrize("kind", [SelectQuery, LocalSelection])
def test_an_index_and_fresh_counts_never_lose_more_than_both_are_charged(kind, score, chooser):
    """A local choice is made by the record's one owner, so its loss is that of one site."""
    the_study = study(1 if kind is SelectQuery else 3)
    query = kind(EVERYONE, SPLITS, Scoring(score, rows_at_most=64), SHARE, chooser)
    shortlists = [SPLITS[:1], SPLITS[-1:]] if kind is SelectQuery else [SPLITS[:3]]
    node = type("Whole", (), {"region": EVERYONE})
    counts = [rules(score, chooser).sides(node, splits, SHARE) for splits in shortlists]
    sharp = the_study.selection_epsilon(query) / query.scoring.reach
    worst = max(
        loss_of_index(query, sharp, *pair) + max(loss_of_sum(c, the_study, *pair) for c in counts)
        for pair in neighbors()
    )
    charge = float(the_study.cost(query) + the_study.cost(counts[0]))
    assert 0.5 * charge < worst <= charge + SLACK


@pytest.mark.parametrize("chooser", Mechanism)
@pytest.mark.parametrize("score", [Score.GINI, Score.ENTROPY])
def test_a_choice_twice_as_sharp_would_lose_more_than_it_is_charged(score, chooser):
    """Twin: half the reach."""
    the_study = study()
    query = SelectQuery(EVERYONE, SPLITS, Scoring(score, rows_at_most=64), SHARE, chooser)
    sharp = 2 * the_study.selection_epsilon(query) / query.scoring.reach
    worst = max(loss_of_index(query, sharp, *pair) for pair in neighbors())
    assert worst > float(the_study.cost(query))


def test_histograms_of_all_features_lose_exactly_what_they_are_charged():
    the_study = study()
    query = SumQuery(EVERYONE, COUNTS, Cells((0, 1), GRIDS.binning), SHARE)
    losses = [loss_of_sum(query, the_study, *pair) for pair in neighbors()]
    assert max(losses) == pytest.approx(float(the_study.cost(query)), abs=SLACK)


def test_histograms_charged_for_one_feature_would_lose_more():
    """Twin: features are not parallel, since a record sits in a bin of each."""
    the_study = study()
    one = SumQuery(EVERYONE, COUNTS, Cells((0,), GRIDS.binning), SHARE)
    both = SumQuery(EVERYONE, COUNTS, Cells((0, 1), GRIDS.binning), SHARE)
    pair = next(neighbors())
    moved = Answering(pair[1], SCHEMA).integers(both, 1) - Answering(pair[0], SCHEMA).integers(
        both, 1
    )
    loss = float(the_study.sum_law(one).rate) * np.abs(moved).sum()
    assert loss > float(the_study.cost(one)) + SLACK


# --------------------------------------------------------------------------- the paper's releases
def isolated(m: int) -> tuple[float, float]:
    """Gain per row of a split that isolates an added record of the other class: before, after."""

    def gain(m0: int, m1: int) -> float:
        whole = np.array([float(m0), float(m1)])
        left, right = np.array([float(m0), 0.0]), np.array([0.0, float(m1)])
        return float(entropy(whole) - entropy(left) - entropy(right)) / (m0 + m1)

    return gain(m, 0), gain(m, 1)


def sensitivity_claimed(m: int) -> float:
    """Wang, Dick and Balcan 2020, Lemma 11: 2 (3 lg m + 1) / m."""
    return 2 * (3 * math.log2(m) + 1) / m


def loss_of_value_with_index(k: int, u: float, v: float, b: float, c: float, at: float) -> float:
    """Of releasing the winner among k equal candidates and its noisy score `at`, below u and v.

    Scores u and Laplace scale b before, v and c after. An index and `at` have the density
    f(at) F(at)^(k - 1), and below the center f = exp((at - u) / b) / 2b, F = exp((at - u) / b) / 2.
    """
    before = k * (at - u) / b - math.log(b)
    after = k * (at - v) / c - math.log(c)
    return abs(before - after)


@pytest.mark.parametrize("k", [3, 8])
def test_the_noisy_maximum_released_with_its_index_loses_k_halves_of_its_claim(k):
    """Twin: every count-scaled score moves by the same full step, the scale is the right one."""
    m, alpha = 1000, 1.0
    step = (m + 1) * isolated(m)[1]  # m J moves from 0 by this much, for all k candidates
    scale = 2 * step / alpha
    loss = loss_of_value_with_index(k, 0.0, step, scale, scale, at=-step)
    assert loss == pytest.approx(k * alpha / 2)
    assert loss > alpha


def test_noise_scaled_by_the_private_number_of_rows_loses_without_bound():
    """Twin: the paper's scale 2 (sensitivity at |S_l|) / alpha differs between neighbors."""
    m, alpha, k = 1000, 1.0, 8
    u, v = isolated(m)
    b, c = (2 * sensitivity_claimed(n) / alpha for n in (m, m + 1))
    losses = [loss_of_value_with_index(k, u, v, b, c, at=-depth * b) for depth in (10, 1e3, 1e6)]
    assert losses[0] < losses[1] < losses[2]
    assert losses[1] > alpha


def test_root_gini_has_no_bound_like_the_papers():
    """Lemma 20 claims 10 / m; a relabeled record that a split isolates moves 2 sqrt(m - 1) / m."""
    m = 1000
    before, after = 0.0, 2 * math.sqrt((m - 1) * 1.0) / m
    assert after - before > 6 * 10 / m


# ------------------------------------------------------------------------------------ the entropy
def test_every_small_count_table_moves_the_entropy_within_its_reach_beyond_the_bound_too():
    scoring = Scoring(Score.ENTROPY, rows_at_most=6)
    tables = np.array(list(itertools.product(range(13), repeat=3)))
    base = entropy_units(tables, scoring)
    for k in range(3):
        moved = entropy_units(tables + np.eye(3, dtype=np.int64)[k], scoring) - base
        assert moved.min() >= -8
        assert moved.max() <= scoring.reach - 8
    assert moved.max() > 0.9 * (scoring.reach - 16)


def test_units_of_x_log_x_are_within_two_of_the_truth():
    from mpmath import log, mp, mpf

    mp.prec = 200
    rng = np.random.default_rng(0)
    points = [*range(1, 200), *(int(x) for x in rng.integers(1, MOST_ROWS, 300)), MOST_ROWS]
    told = entropy_units(np.array([[x, 0] for x in points]), Scoring(Score.ENTROPY))
    assert np.abs(told).max() == 0  # one class has no entropy, to the unit
    scoring = Scoring(Score.ENTROPY)
    pairs = entropy_units(np.array([[x, x] for x in points if 2 * x <= MOST_ROWS]), scoring)
    truth = [2 * x * log(mpf(2)) * LATTICE for x in points if 2 * x <= MOST_ROWS]
    worst = max(abs(mpf(int(a)) - b) for a, b in zip(pairs, truth, strict=True))
    assert worst <= 6  # three terms of at most two units
