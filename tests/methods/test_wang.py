"""DP-TopDown by its parts: what it asks, when it stops, what it refuses."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import get_args

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import hedgerow as hr
from hedgerow.errors import ParameterError, UnsupportedQuery
from hedgerow.methods.blocks import leaves
from hedgerow.methods.blocks.builder import (
    ROOT,
    Evidence,
    Node,
    SplitChoice,
    Stop,
    TreePlan,
    grow,
)
from hedgerow.methods.blocks.flow import run
from hedgerow.methods.blocks.scores import entropy, full_gini, root_gini
from hedgerow.methods.wang import SplitMethod, TopDown, if_above_noise, if_worthwhile
from hedgerow.privacy.accounting.budget import DPModel, Measure
from hedgerow.privacy.ledger.charges import Charge
from hedgerow.privacy.queries import (
    Answer,
    Binning,
    ClassCounts,
    LocalSelection,
    Mechanism,
    Query,
    Reply,
    Selections,
    SelectQuery,
    Summed,
    SumQuery,
    Whole,
)
from hedgerow.schema.candidates import Grids
from hedgerow.schema.regions import EVERYONE
from hedgerow.schema.schema import Numeric, Schema
from support.worlds import (
    THREE,
    TWO,
    federation,
    sample,
    site_rows,
    study,
    watched_ends,
    worst_total,
)

SPLIT = TWO.grids[0].split_values(range(3))
X, Y = sample(300, TWO)


def trained(method, n_sites=1, schema=TWO, **options):
    rows, y = sample(300, schema)
    the_study = study(schema, n_sites, **options)
    fed = federation(the_study, site_rows(rows, y, np.arange(300) % n_sites, n_sites, schema))
    return run(method.flow(schema, fed, np.random.default_rng(0)), fed).model, fed


# ------------------------------------------------------------------------------------ exactness
@pytest.mark.parametrize("schema", [TWO, THREE], ids=["two classes", "three classes"])
@pytest.mark.parametrize("criterion", ["entropy", "gini"])
def test_without_noise_choices_and_tables_find_splits_of_the_same_gain(schema, criterion):
    """Ties apart: where missing values go is the same to a node that has none."""
    options = {"max_splits": 8, "criterion": criterion, "min_gain": 0.0}
    models = [
        trained(TopDown(split=f, **options), schema=schema, dp_model=DPModel.NONE)[0]
        for f in get_args(SplitMethod)
    ]
    rows, y = sample(300, schema)
    codes = site_rows(rows, y, np.zeros(300), 1, schema)[0].codes
    first, *others = [m.predict(codes) for m in models]
    assert all(np.allclose(p, first) for p in others)


def test_the_tree_without_noise_is_as_pure_as_the_best_first_tree_of_scikit_learn():
    from sklearn.tree import DecisionTreeClassifier

    schema = Schema((Numeric("a", 0.0, 1.0, bins=16), Numeric("b", 0.0, 1.0, bins=16)), ("n", "y"))
    rng = np.random.default_rng(3)
    rows = rng.integers(0, 16, (800, 2)) / 16 + 1 / 32
    y = np.where(rows[:, 0] + rng.normal(0, 0.2, 800) > rows[:, 1], "y", "n")
    ours = hr.TopDownTreeClassifier(
        schema,
        dp_model="none",
        criterion="entropy",
        max_splits=9,
        min_gain=0.0,
        min_fraction_split=0.0,
    ).fit(rows, y)
    theirs = DecisionTreeClassifier(criterion="entropy", max_leaf_nodes=10).fit(rows, y)
    assert ours.score(rows, y) == pytest.approx(theirs.score(rows, y), abs=0.004)
    assert ours.model_.score.trees[0].n_leaves == 10


@pytest.mark.parametrize("impurity", [entropy, full_gini, root_gini])
def test_criteria_are_one_per_row_at_even_classes_and_none_in_a_pure_node(impurity):
    assert impurity(np.array([40.0, 40.0])) == pytest.approx(80.0)
    assert impurity(np.array([80.0, 0.0])) == pytest.approx(0.0)


# ------------------------------------------------------------------------------------- refusals
@pytest.mark.parametrize("split", ["choice", "local_choice"])
def test_root_gini_is_refused_for_private_choices_with_the_reason(split):
    model = hr.TopDownTreeClassifier(TWO, split=split, criterion="root_gini")
    with pytest.raises(ParameterError, match=r"sqrt\(n\).*noisy_counts"):
        model.fit(X, Y)
    model.set_params(split="noisy_counts", max_splits=2).fit(X, Y)


@pytest.mark.parametrize("dp_model", [None, "per_site", "none"])
def test_a_choice_over_several_parties_names_the_alternatives_and_charges_nothing(dp_model):
    method = TopDown(max_splits=2, split="choice")
    place = None if dp_model is None else DPModel[dp_model.upper()]
    the_study = study(TWO, 3, place)
    fed = federation(the_study, site_rows(X, Y, np.arange(300) % 3, 3, TWO))
    with pytest.raises(UnsupportedQuery, match=r"noisy_counts.*local_choice"):
        run(method.flow(TWO, fed, np.random.default_rng(0)), fed)
    assert fed.ledger.entries == []
    assert fed.record.rounds == []


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"budget": lambda depth: 0.4}, "1.2.*at most 1"),
        ({"budget": lambda depth: 0 if depth == 2 else 0.1}, "more than 0"),
        ({"budget": "uniform"}, "decay.*even"),
        ({"split": "best"}, "local_choice"),
        ({"criterion": "sse"}, "entropy"),
        ({"leaf_fraction": 1.0}, "between 0 and 1"),
        ({"max_splits": 0}, "1 or more"),
        ({"rows_at_most": 2**33, "split": "choice"}, "rows_at_most"),
    ],
)
def test_what_cannot_be_meant_is_refused(options, message):
    with pytest.raises(ParameterError, match=message):
        hr.TopDownTreeClassifier(TWO, **{"max_splits": 3, **options}).fit(X, Y)


def test_a_budget_may_be_a_function_of_the_depth():
    model = hr.TopDownTreeClassifier(TWO, epsilon=50, max_splits=3, budget=lambda d: 0.6 / d**2)
    assert model.fit(X, Y).privacy_.spent_fraction == 1.0


# ------------------------------------------------------------------------------------- questions
class Spy:
    def __init__(self, fed):
        self.fed, self.asked = fed, []

    def __getattr__(self, name):
        return getattr(self.fed, name)

    def ask(self, queries):
        self.asked += queries
        return self.fed.ask(queries)


def asked_by(method, n_sites=1, **options):
    fed = Spy(
        federation(
            study(TWO, n_sites, **options), site_rows(X, Y, np.arange(300) % n_sites, n_sites, TWO)
        )
    )
    run(method.flow(TWO, fed, np.random.default_rng(0)), fed)
    assert fed.asked
    return fed.asked


@pytest.mark.parametrize(
    ("delta", "chooser"), [("0", Mechanism.PERMUTE_AND_FLIP), ("1e-6", Mechanism.EXPONENTIAL)]
)
@pytest.mark.parametrize(
    ("finding", "kind"), [("choice", SelectQuery), ("local_choice", LocalSelection)]
)
def test_each_accountant_has_its_own_mechanism_of_choice(finding, kind, delta, chooser):
    n_sites = 1 if finding == "choice" else 3
    asked = asked_by(TopDown(max_splits=2, split=finding), n_sites, delta=delta, epsilon="8")
    choices = [q for q in asked if isinstance(q, SelectQuery | LocalSelection)]
    assert choices
    assert all(isinstance(q, kind) and q.mechanism is chooser for q in choices)


def test_candidates_are_those_with_a_cell_in_reach_on_both_sides_and_nothing_else_decides():
    method = TopDown(max_splits=6, split="choice", min_gain=-10.0, min_fraction_split=0.0)
    for query in asked_by(method, epsilon="100"):
        if not isinstance(query, SelectQuery):
            continue
        for split in query.splits:
            reach = (1 << TWO.grids[TWO.index(split.feature)].n_cells) - 1
            for step in query.region:
                if step.test.feature == split.feature:
                    reach &= step.test.left if step.outcome == 0 else ~step.test.left
            assert reach & split.left
            assert reach & ~split.left


def test_a_local_choice_asks_tables_of_the_shortlist_alone():
    asked = asked_by(TopDown(max_splits=1, split="local_choice"), 3, epsilon="100")
    tables = asked[1]
    assert isinstance(asked[0], LocalSelection)
    assert isinstance(tables, SumQuery)
    assert tables.by.groups <= 3
    assert tables.by.n_cells == 2


# --------------------------------------------------------------------------------------- stopping
def told(gain, left, right, variance=1.0):
    """A chooser that always finds this split."""

    def choose(node, rng):
        evidence = (Evidence(np.array(left), variance), Evidence(np.array(right), variance))
        return SplitChoice(SPLIT, gain, Fraction(1, 8), evidence=evidence)
        yield

    return choose


def outcome(chooser, node=ROOT):
    with pytest.raises(StopIteration) as done:
        next(chooser(node, np.random.default_rng(0)))
    return done.value.value


def inside(masses, variance, whole=1000.0):
    root = Evidence(np.array([whole]), variance)
    return Node(EVERYONE, 1, Fraction(1, 8), evidence=Evidence(np.array(masses), variance, (root,)))


def test_a_split_that_gains_too_little_per_row_is_not_taken_but_paid():
    choose = told(0.5, [30.0, 20.0], [20.0, 30.0])
    assert outcome(if_worthwhile(choose, min_fraction=0.0, min_gain=0.01)) == Stop(Fraction(1, 8))
    assert isinstance(outcome(if_worthwhile(choose, min_fraction=0.0, min_gain=0.004)), SplitChoice)


def test_a_node_that_holds_too_few_of_all_rows_is_not_split():
    choose = if_worthwhile(told(50.0, [3.0, 0.0], [0.0, 3.0]), min_fraction=0.01, min_gain=0.0)
    assert outcome(choose, inside([3.0, 3.0], 100.0)) == Stop(Fraction(1, 8))
    assert isinstance(outcome(choose, inside([3.0, 3.0], 100.0, whole=500.0)), SplitChoice)


def test_a_node_that_is_surely_too_light_is_not_even_asked():
    choose = if_worthwhile(told(50.0, [3.0, 0.0], [0.0, 3.0]), min_fraction=0.01, min_gain=0.0)
    assert outcome(choose, inside([3.0, 3.0], 0.1)) == Stop()


@pytest.mark.parametrize("finding", get_args(SplitMethod))
def test_every_node_remembers_the_totals_of_all_nodes_above_it(finding):
    method = TopDown(max_splits=4, split=finding, min_gain=-10.0, min_fraction_split=0.0)
    the_study = study(TWO, 1, DPModel.NONE)
    fed = federation(the_study, site_rows(X, Y, np.zeros(300), 1, TWO))
    with watched_ends() as ends:
        run(method.flow(TWO, fed, np.random.default_rng(0)), fed)
    assert ends
    for node in ends:
        rows = [above.rows for above in node.evidence.above]
        assert len(rows) == len(node.region)
        assert rows == sorted(rows, reverse=True)


class Loud:
    def __init__(self, variance):
        self._variance = variance

    def variance(self, query):
        if self._variance is None:
            raise ParameterError("noise this wide cannot be drawn")
        return self._variance


@pytest.mark.parametrize(
    ("variance", "masses", "is_asked"),
    [(99.0, [5.0, 6.0], True), (144.0, [5.0, 6.0], False), (None, [5e9, 6e9], False)],
)
def test_a_node_that_noise_would_drown_is_not_asked(variance, masses, is_asked):
    def counts(node):
        return SumQuery(node.region, ClassCounts(2), Whole(), Fraction(1, 9))

    choose = if_above_noise(told(50.0, [5.0, 0.0], [0.0, 6.0]), counts, Loud(variance))
    assert isinstance(outcome(choose, inside(masses, 1.0)), SplitChoice) is is_asked


def test_with_a_budget_too_small_to_ask_anything_the_tree_is_one_leaf():
    model, fed = trained(TopDown(max_splits=512, budget="even"), n_sites=4, epsilon="0.01")
    assert model.score.trees[0].n_leaves == 1
    assert len(fed.record.rounds) == 1


# --------------------------------------------------------------------------------------------------
# No transcript of a best-first tree spends more than the whole budget on any path.
class Dice:
    """Answers anything: replies are random, and every charge is kept as a share of the whole."""

    def __init__(self, seed: int, n_sites: int = 3) -> None:
        self.rng = np.random.default_rng(seed)
        self.n_sites, self.lattice, self.is_pure = n_sites, 64, True
        self.charges: list[Charge] = []
        self.rounds: list[Sequence[Query]] = []

    def variance(self, query: Summed) -> float:
        return 1.0 / float(query.fraction)

    def ask(self, queries: Sequence[Query]) -> list[Reply]:
        self.rounds.append(queries)
        self.charges += [Charge(q.region, q.fraction, "", "test", Measure.PURE) for q in queries]
        return [self._reply(q) for q in queries]

    def _reply(self, query: Query) -> Reply:
        if isinstance(query, SelectQuery | LocalSelection):
            selections = 1 if isinstance(query, SelectQuery) else self.n_sites
            return Selections(
                tuple(int(k) for k in self.rng.integers(0, query.n_candidates, selections))
            )
        return Answer(self.rng.normal(400.0, 300.0, query.shape), self.variance(query))


def methods() -> st.SearchStrategy[TopDown]:
    splits = st.integers(1, 12)
    return splits.flatmap(
        lambda m: st.builds(
            TopDown,
            max_splits=st.just(m),
            split=st.sampled_from(get_args(SplitMethod)),
            criterion=st.sampled_from(["entropy", "gini"]),
            budget=st.sampled_from(["decay", "even", lambda d, m=m: Fraction(m + 1 - d, m * m)]),
            leaf_fraction=st.sampled_from([Fraction(1, 10), Fraction(1, 2), Fraction(9, 10)]),
            min_fraction_split=st.sampled_from([0.0, 0.05]),
            min_gain=st.sampled_from([-10.0, 0.01]),
        )
    )


@pytest.mark.property
@settings(max_examples=80, deadline=None)
@given(method=methods(), seed=st.integers(0, 2**32 - 1), schema=st.sampled_from([TWO, THREE]))
def test_every_path_spends_the_whole_budget_and_no_more(method, seed, schema):
    """What splits leave unspent goes to the leaves, so the sum is exact."""
    dice = Dice(seed)
    with watched_ends() as ends:
        trained = run(method.flow(schema, dice, np.random.default_rng(0)), dice)
    assert worst_total(dice.charges) == 1
    (grown,) = trained.leaf_statistics
    assert grown.tree.n_leaves <= method.max_splits + 1
    assert all(node.spent <= 1 - method.leaf_fraction for node in ends)


class OnceMore(TreePlan):
    """The paper's loop: children of the last split are asked too, and never split."""

    def is_open(self, n_splits: int) -> bool:
        return n_splits <= self.max_splits


@pytest.mark.parametrize(("kind", "spent"), [(TreePlan, Fraction(1)), (OnceMore, Fraction(3, 2))])
def test_asking_the_children_of_the_last_split_would_break_the_budget(kind, spent):
    """Twin: a tree of M splits is then asked at depth M + 1, which sum_{d <= M} B(d) leaves out."""
    method = TopDown(max_splits=1, budget="even", min_fraction_split=0.0, min_gain=-10.0)
    grids, counts, dice = Grids(TWO, Binning.of_cells(TWO)), ClassCounts(2), Dice(1)
    ends = leaves.by_query(counts, lambda node: Fraction(1, 2))
    choose = if_above_noise(*method._chooser(grids, counts, dice), dice)
    plan = kind(choose, 2, ends, max_splits=1)
    run(grow(plan, TWO.names, np.random.default_rng(0)), dice)
    assert worst_total(dice.charges) == spent


@pytest.mark.parametrize(
    ("finding", "a_split"),
    [("noisy_counts", 1), ("local_choice", 2), ("choice", 2)],
)
def test_a_split_takes_one_round_from_tables_and_two_from_choices(finding, a_split):
    """Both children are asked in one round; the leaves of the whole tree take one more."""
    method = TopDown(max_splits=6, split=finding, min_fraction_split=0.0, min_gain=-10.0)
    dice = Dice(5, n_sites=1 if finding == "choice" else 3)
    (grown,) = run(method.flow(TWO, dice, np.random.default_rng(0)), dice).leaf_statistics
    assert grown.tree.n_leaves == 7
    assert len(dice.rounds) == a_split * 6 + 1 == method.largest(TWO).rounds
    assert [len(r) for r in dice.rounds[:-1]] == [1] * a_split + [2] * (a_split * 5)


# --------------------------------------------------------------------------------- the theorems
def test_rows_needed_grow_as_the_corollaries_say():
    """Corollary 5: M^3 / (error^2 advantage^2 epsilon), but for logarithms."""
    base = hr.papers.wang.rows_needed(0.1, 0.2, 16, 1.0, 0.05, 100)
    assert 8 < hr.papers.wang.rows_needed(0.1, 0.2, 32, 1.0, 0.05, 100) / base < 12
    assert 4 < hr.papers.wang.rows_needed(0.05, 0.2, 16, 1.0, 0.05, 100) / base < 6
    assert 3.5 < hr.papers.wang.rows_needed(0.1, 0.1, 16, 1.0, 0.05, 100) / base < 5
    assert 1.9 < hr.papers.wang.rows_needed(0.1, 0.2, 16, 0.5, 0.05, 100) / base < 2.3
    counts = hr.papers.wang.rows_needed(0.1, 0.2, 16, 1.0, 0.05, 100, sites=4, noisy_counts=True)
    assert counts / base > 4 * 100 / 10  # Corollary 7: k |H| times as many, but for constants


def test_a_noisy_maximum_over_enough_rows_is_nearly_the_best():
    """Theorem 14 measured: at its number of rows it fails far less often than it says."""
    zeta, epsilon, failure, k = 0.05, 1.0, 0.05, 50
    rows = hr.papers.wang.rows_for_split(zeta, epsilon, failure, k)
    rng = np.random.default_rng(0)
    gains = rng.random(k) * 0.5
    scale = 20.0 * np.log2(rows) / (epsilon * rows)
    chosen = np.argmax(gains + rng.laplace(0.0, scale, (4000, k)), axis=1)
    failures = np.mean(gains[chosen] < gains.max() - zeta)
    assert failures <= failure
    few = 20.0 * np.log2(rows // 50) / (epsilon * (rows // 50))  # negative control: far fewer rows
    chosen = np.argmax(gains + rng.laplace(0.0, few, (4000, k)), axis=1)
    assert np.mean(gains[chosen] < gains.max() - zeta) > failure
