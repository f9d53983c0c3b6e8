"""Median forests: what nodes may be split by, what leaves say, and what users are told."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest

import hedgerow as hr
from hedgerow.data.reading.encoding import Encoded
from hedgerow.data.rows import Draws, Rows
from hedgerow.errors import ParameterError
from hedgerow.methods.blocks.builder import Node
from hedgerow.methods.blocks.flow import run
from hedgerow.methods.blocks.leaves import Shrinkage, leaf_proportions_below, sums_above
from hedgerow.methods.blocks.medians import (
    BALANCE,
    MedianRules,
    among_cuts,
    among_medians,
    at_median,
    balance_below,
    depth_for,
    random_halves,
)
from hedgerow.methods.blocks.scores import gini
from hedgerow.methods.blocks.selection import SelectionRules
from hedgerow.methods.blocks.target import declared_target
from hedgerow.methods.consul import MOST_SHORTLISTED, MedianForest
from hedgerow.privacy.accounting.budget import DPModel
from hedgerow.privacy.queries import (
    LATTICE,
    Binning,
    LocalSelection,
    Mechanism,
    Score,
    Scoring,
    Selections,
    SelectQuery,
)
from hedgerow.privacy.queries.choices import candidate, n_candidates
from hedgerow.schema.candidates import Grids
from hedgerow.schema.regions import EVERYONE, Fold, Step
from hedgerow.schema.schema import Numeric, Schema, Target
from support.choices import exponential_pmf, permute_and_flip_pmf
from support.examples import scores
from support.worlds import TWO, VALUE, federation, sample, site_rows, study


def rules(k=None, schema=TWO, mechanism=Mechanism.EXPONENTIAL, several=False):
    score = Score.GINI if schema.classes else Score.SQUARED_ERROR
    grids, target = Grids(schema, Binning.of_cells(schema)), declared_target(schema)
    selection = SelectionRules(
        grids, target.statistic, gini, Scoring(score), mechanism, most_counted=MOST_SHORTLISTED
    )
    return MedianRules(k, selection, several)


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


@pytest.mark.parametrize("split", ["median", "medians", "grid", "table"])
@pytest.mark.parametrize("delta", [0.0, 1e-6])
def test_several_sites_fit_by_every_split(split, delta):
    X, y = sample(300, VALUE)
    numbers = {"epsilon": 8.0, "delta": delta, "max_depth": 2, "split": split}
    model = hr.MedianForestRegressor(VALUE, **numbers).fit(X, y, site=np.arange(300) % 3)
    assert np.isfinite(model.predict(X)).all()
    assert model.privacy_.spent_fraction == pytest.approx(1.0)


def test_the_middle_of_the_medians_of_several_sites_is_taken():
    choose = at_median(rules(several=True), Fraction(1))
    for cuts, middle in (((4, 0, 3), 3), ((4, 4, 0, 1, 2), 2), ((2,), 2)):
        flow = choose(Node(EVERYONE), np.random.default_rng(5))  # draws dose
        (query,) = next(flow)
        assert isinstance(query, LocalSelection)
        with pytest.raises(StopIteration) as stop:
            flow.send([Selections(cuts)])
        assert stop.value.value.split == candidate(query.splits, middle)


def test_no_more_splits_are_counted_than_declared():
    """Those that most sites selected."""
    choose = among_cuts(rules(several=True), Fraction(1), lambda level: 0)
    flow = choose(Node(EVERYONE), np.random.default_rng(0))
    (query,) = next(flow)
    picks = (0, 1, 2, 3, 4, 5, 5, 6, 6)
    (counts,) = flow.send([Selections(picks)])
    assert len(counts.by.trees) == MOST_SHORTLISTED
    tests = [tree.tests[0] for tree in counts.by.trees]
    assert tests == [candidate(query.splits, k) for k in (0, 1, 2, 5, 6)]
    assert query.fraction + counts.fraction == 1


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


def test_a_mechanism_is_refused_where_tables_are_asked():
    X, y = sample(60, TWO)
    model = hr.MedianForestClassifier(TWO, split="table", mechanism="exponential", max_depth=2)
    with pytest.raises(ParameterError, match="mechanism"):
        model.fit(X, y)


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


def test_private_medians_and_means_lose_no_more_than_theorem_1_says():
    """Squared error beyond that of the exact median and means; weak learners: a noisy step."""
    rng, n, least, bound, epsilon = np.random.default_rng(0), 60, 10, 0.5, 1.0
    x = np.sort(rng.random(n))
    y = np.clip(0.2 * np.sign(x - 0.5) + rng.normal(0.0, 0.2, n), -bound, bound)
    cuts = np.arange(least, n - least + 1)
    weights = np.exp(-epsilon * np.abs(2 * cuts - n) / 2.0)

    def error(cut, noisy):
        means = [part.mean() for part in (y[:cut], y[cut:])]
        scales = [2 * bound / (len(part) * epsilon) * noisy for part in (y[:cut], y[cut:])]
        said = np.repeat(means + rng.laplace(0.0, scales), [cut, n - cut])
        return float(((y - said) ** 2).sum())

    private = [error(cut, 1) for cut in rng.choice(cuts, 2000, p=weights / weights.sum())]
    limit = hr.papers.consul.excess_squared_error(n, least, epsilon, bound)
    assert 0.0 < np.mean(private) - error(n // 2, 0) <= limit


def test_theorem_1_falls_with_the_smaller_side():
    worst, even = (hr.papers.consul.excess_squared_error(100, t, 1.0, 0.5) for t in (1, 50))
    assert (worst, even) == (0.25 * (400 - 8 + 16), 0.25 * 16 / 50)


# --------------------------------------------------------------------------------------------------
# The exact loss of median forests' choices on small nodes, by enumeration; the paper's beside.
#
# Probabilities follow from the product's own integer scores. Loss is the largest |log ratio| over
# outcomes when one record is added.
EPSILON = 1.0
SEED = 1  # public; a node that looks at one feature then looks at x
TOLERANCE = 1e-9
FEATURES = (Numeric("x", 0.0, 1.0, bins=3), Numeric("z", 0.0, 1.0, bins=2))
BY_CLASS = Schema(FEATURES, classes=("no", "yes"))
BY_VALUE = Schema(FEATURES, target=Target(0.0, 1.0))
RECORDS = list(itertools.product(range(3), range(2), (0, 1)))
PMF = {
    Mechanism.EXPONENTIAL: exponential_pmf,
    Mechanism.PERMUTE_AND_FLIP: permute_and_flip_pmf,
}
MECHANISMS = pytest.mark.parametrize("mechanism", list(PMF), ids=lambda m: m.value)
SCHEMAS = pytest.mark.parametrize("schema", [BY_CLASS, BY_VALUE], ids=["classes", "numbers"])


def rows(records, schema):
    codes = np.array([r[:2] for r in records], np.uint8).reshape(-1, 2).T.copy()
    kind = np.uint8 if schema is BY_CLASS else np.float64
    y = np.array([r[2] for r in records], kind)
    encoded = Encoded(codes=codes, y=y, persons=None, clamped={}, unknown={}, skipped=0)
    return Rows(encoded, schema, Draws(bytes(32), "test"))


def neighbors(most):
    """All sets of up to `most` records, each with one record more."""
    for n in range(most + 1):
        for records in itertools.combinations_with_replacement(RECORDS, n):
            for added in RECORDS:
                yield list(records), [*records, added]


def chances(query, data, schema, reach=None):
    """The product's chance of every candidate, at EPSILON times the query's share."""
    coefficient = Fraction(EPSILON) * query.fraction / (reach or query.scoring.reach)
    return np.asarray(PMF[query.mechanism](scores(query, data, schema), coefficient))


def step(choose, selections):
    """What a chooser asks after these picks, and what it has chosen if it asks no more."""
    flow, left = choose(Node(EVERYONE), np.random.default_rng(SEED)), list(selections)
    asked = next(flow)
    try:
        while len(left) >= len(asked):
            mine, left = left[: len(asked)], left[len(asked) :]
            asked = flow.send([Selections((k,)) for k in mine])
    except StopIteration as stop:
        return [], stop.value
    return asked, None


def outcomes(choose, data, schema, reach=None):
    """Chances of the split a chooser ends with, over all selections on the way."""
    found, waiting = {}, [((), 1.0)]
    while waiting:
        selections, chance = waiting.pop()
        asked, choice = step(choose, selections)
        if choice is not None:
            found[choice.split] = found.get(choice.split, 0.0) + chance
            continue
        each = [chances(q, data, schema, reach) for q in asked]
        for ways in itertools.product(*(range(len(p)) for p in each)):
            more = math.prod(p[k] for p, k in zip(each, ways, strict=True))
            waiting.append(((*selections, *ways), chance * more))
    return found


def worst_loss(choose, schema, most, reach=None):
    known = {}

    def law(records):
        key = tuple(sorted(records))
        if key not in known:
            known[key] = outcomes(choose, rows(records, schema), schema, reach)
        return known[key]

    return max(
        abs(math.log(law(fewer)[split] / chance))
        for fewer, more in neighbors(most)
        for split, chance in law(more).items()
    )


def rules_of_choices(schema, mechanism, k=2, several=False):
    return rules(k, schema, mechanism, several)


# ----------------------------------------------------------------------- what the choosers lose
@pytest.mark.property
@MECHANISMS
def test_a_private_median_loses_no_more_than_its_charge(mechanism):
    choose = at_median(rules_of_choices(BY_CLASS, mechanism, 1), Fraction(1))
    assert 0.5 * EPSILON < worst_loss(choose, BY_CLASS, 2) <= EPSILON + TOLERANCE


@pytest.mark.property
@MECHANISMS
@SCHEMAS
def test_one_choice_among_all_cuts_loses_no_more_than_its_charge(schema, mechanism):
    choose = among_cuts(rules_of_choices(schema, mechanism), Fraction(1), balance_below(2))
    assert 0.3 * EPSILON < worst_loss(choose, schema, 2) <= EPSILON + TOLERANCE


@pytest.mark.property
@MECHANISMS
@SCHEMAS
def test_medians_and_the_choice_among_them_lose_no_more_than_their_charge(schema, mechanism):
    choose = among_medians(rules_of_choices(schema, mechanism), Fraction(1))
    assert worst_loss(choose, schema, 2) <= EPSILON + TOLERANCE


@pytest.mark.property
def test_half_the_declared_range_would_lose_more_than_the_charge():
    """Twin: the enumeration sees a score whose range is declared too small."""
    choose = at_median(rules_of_choices(BY_CLASS, Mechanism.EXPONENTIAL, 1), Fraction(1))
    assert worst_loss(choose, BY_CLASS, 2, reach=BALANCE.reach // 2) > EPSILON + TOLERANCE


@pytest.mark.property
@SCHEMAS
def test_a_chooser_spends_its_share_and_no_more(schema):
    for choose in (
        at_median(rules_of_choices(schema, Mechanism.EXPONENTIAL, 1), Fraction(1, 7)),
        among_medians(rules_of_choices(schema, Mechanism.EXPONENTIAL), Fraction(1, 7)),
        among_cuts(
            rules_of_choices(schema, Mechanism.EXPONENTIAL), Fraction(1, 7), balance_below(2)
        ),
    ):
        selections, spent = [], Fraction(0)
        asked, choice = step(choose, selections)
        while choice is None:
            spent += sum(q.fraction for q in asked)
            selections += [0] * len(asked)
            asked, choice = step(choose, selections)
        assert choice.spent == spent == Fraction(1, 7)


@pytest.mark.property
def test_numbers_without_classes_have_a_balance_too():
    data = rows([(0, 0, 0.3), (1, 0, 0.2), (2, 1, 0.9)], BY_VALUE)
    splits = tuple(BY_VALUE.grids[0].split_values(range(k)) for k in (1, 2))
    query = SelectQuery(EVERYONE, splits, BALANCE, Fraction(1))
    assert scores(query, data, BY_VALUE).tolist() == [-LATTICE, -LATTICE]


# ------------------------------------------------------------------------ the paper's versions
def loss_of_k_medians(epsilon_s, epsilon_a, k, between, wide, n=2000):
    """K copies of a feature: n low records of one class, n + 1 high of the other.

    `between` of the high ones lie apart from the rest: the one cut below them is good, and `wide`
    times as many cuts above them are bad. One low record more makes bad medians rarer. The event
    is that a bad cut is released; it needs all K medians to be bad, or a mutant of the choice.
    """

    def chance(extra):
        q_good = -abs(n + extra - (n + 1))
        q_bad = -abs(n + extra + between - (n + 1 - between))
        odds = wide * math.exp(epsilon_s / 2 * (q_bad - q_good))
        p = odds / (1 + odds)
        worse = math.exp(-epsilon_a / 2 * (n + extra) * between / (n + extra + between))
        return sum(
            math.comb(k, j) * p**j * (1 - p) ** (k - j) * j * worse / (j * worse + k - j)
            for j in range(1, k + 1)
        )

    return math.log(chance(0) / chance(1))


@pytest.mark.property
def test_k_medians_for_the_price_of_one_lose_more_than_the_paper_charges():
    epsilon, k = 0.5, 5
    wide = math.exp(epsilon * (60 - 1)) * 3 / 7  # bad medians then have chance 0.3
    loss = loss_of_k_medians(epsilon, epsilon, k, between=60, wide=wide)
    assert loss > 1.5 * (epsilon + epsilon)  # what the paper charges
    assert loss <= k * epsilon + epsilon / 2  # what it costs


@pytest.mark.property
def test_k_paid_medians_lose_no_more_than_their_charge_on_the_same_rows():
    fraction, k = 1.0, 5
    median, choice = 2 * fraction / (2 * k + 1), fraction / (2 * k + 1)
    # The monotone choice may be twice as sharp as the paper's formula for the same charge.
    wide = math.exp(median * (60 - 1)) * 3 / 7
    assert 0 < loss_of_k_medians(median, 2 * choice, k, between=60, wide=wide) <= fraction


def laplace_log_density(value, mean, scale):
    return -abs(value - mean) / scale - math.log(2 * scale)


@pytest.mark.property
def test_a_mean_with_noise_scaled_by_the_private_number_of_rows_has_no_bounded_loss():
    """Leaf means 0 of N and of N - 1 rows, target within [-1, 1], noise 2 / (N epsilon)."""
    n, epsilon = 10, 1.0
    losses = []
    for value in (1.0, 10.0, 100.0):
        more = laplace_log_density(value, 0.0, 2 / (n * epsilon))
        fewer = laplace_log_density(value, 0.0, 2 / ((n - 1) * epsilon))
        losses.append(abs(more - fewer))
    assert losses == sorted(losses)
    assert losses[-1] > 40 * epsilon


@pytest.mark.property
def test_complementary_fractions_lose_exactly_their_charge_at_worst():
    """Integer Laplace noise of rate epsilon / unit on both channels; a record moves unit units."""
    unit, epsilon = 8, 1.0
    for part in range(unit + 1):
        moved = (unit - part, part)
        assert sum(abs(m) for m in moved) * epsilon / unit == pytest.approx(epsilon)


@pytest.mark.property
def test_a_shuffle_into_equal_parts_loses_more_than_one_part_charges():
    """T - 1 records of kind A, then one of kind B: another record may be pushed to another part.

    Two parts of one record each, two counts each, Laplace noise: sums over the shuffles.
    """
    epsilon, t = 1.0, 2

    def log_chance(shuffles, at):
        """Of noisy counts (2 parts, 2 kinds) near `at`, up to a constant."""
        ways = [-epsilon * np.abs(np.asarray(at) - np.asarray(w)).sum() for w in shuffles]
        return float(np.logaddexp.reduce(ways)) - math.log(len(ways))

    without = [[[1, 0], [0, 0]]]  # one record: np.array_split puts it first
    with_one = [[[1, 0], [0, 1]], [[0, 1], [1, 0]]]
    at = [[0.0, 1.0], [1.0, 0.0]]
    loss = log_chance(with_one, at) - log_chance(without, at)
    assert loss == pytest.approx(math.log(math.exp(-epsilon) / t + (1 - 1 / t) * math.exp(3)))
    assert loss > 2 * epsilon


@pytest.mark.property
def test_a_new_record_leaves_every_other_record_in_its_fold():
    records = [(0, 0, 1), (1, 1, 0), (2, 0, 1), (2, 1, 1)]
    fold = Fold("trees", 5)
    before = rows(records, BY_CLASS).fold(fold)
    for added in RECORDS:
        after = rows([added, *records], BY_CLASS).fold(fold)
        assert sorted(after.tolist()) == sorted([*before.tolist(), *_new(after, before)])


def _new(after, before):
    """The one fold that `after` holds beyond those of `before`."""
    left = after.tolist()
    for f in before.tolist():
        assert f in left, "a record changed its fold"
        left.remove(f)
    return left
