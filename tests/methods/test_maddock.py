"""Boosted methods end to end on small worlds: budgets, rounds, bytes, and the limit of no noise."""

from __future__ import annotations

import math
from collections import Counter
from fractions import Fraction
from typing import get_args

import numpy as np
import pytest

import hedgerow as hr
from hedgerow.errors import ParameterError
from hedgerow.federation.wire import Receiver, Sender
from hedgerow.methods import boosting_classes, registry
from hedgerow.methods.blocks.builder import Evidence, Node
from hedgerow.methods.blocks.curves import ROUNDS as STACKING_ROUNDS
from hedgerow.methods.blocks.flow import run, watch_first_round
from hedgerow.methods.blocks.greedy_trees import SideSums, SplitRules, every_cut, one_random_cut
from hedgerow.methods.blocks.iterative_hessian import even_starts, starts_of
from hedgerow.methods.blocks.newton_steps import PublishedSteps
from hedgerow.methods.blocks.tables import Tables
from hedgerow.methods.boosting_classes import SmoothedBoost
from hedgerow.methods.maddock import ComponentBoosting, Splits, Updates
from hedgerow.models.losses import PlainLogLoss
from hedgerow.models.model import Additive
from hedgerow.privacy.queries import Answer, Binning, Cells, Gradients, Hessians, Leaves, SumQuery
from hedgerow.schema.candidates import Grids
from hedgerow.schema.regions import EVERYONE
from hedgerow.schema.schema import Categorical, Numeric, Schema
from support.worlds import THREE, TWO, VALUE, federation, sample, site_rows, study

DELTA = "1e-6"


def trained(method, schema, n=600, **options):
    X, y = sample(n, schema)
    fed = federation(study(schema, 1, **options), site_rows(X, y, np.zeros(n, int), 1, schema))
    found = run(method.flow(schema, fed, np.random.default_rng(0)), fed)
    return found, fed


@pytest.mark.parametrize("schema", [TWO, THREE], ids=["two", "three"])
@pytest.mark.parametrize("trees_per_round", [1, 3])
@pytest.mark.parametrize(
    ("epsilon", "n_estimators"),
    [("50", 0), ("50", 7), ("5000", 7)],
    ids=["no trees", "trees", "deeper"],
)
def test_the_default_recipe_spends_the_whole_budget_whatever_it_decides(
    schema, epsilon, n_estimators, trees_per_round, monkeypatch
):
    monkeypatch.setattr(boosting_classes, "LEAST_FOR_SURFACES", 1e9)  # trees follow curves alone
    if n_estimators == 0:  # near a gate the noise of the count decides, so the gate is moved away
        for gate in ("TREE_GATE", "TREE_GATE_OF_MANY"):
            monkeypatch.setattr(boosting_classes, gate, (1e9, 2e9))
    method = SmoothedBoost(n_estimators=7, trees_per_round=trees_per_round)
    delta = DELTA if schema is TWO else "0"  # three classes have surfaces at any other
    found, fed = trained(method, method.grid(schema), epsilon=epsilon, delta=delta)
    assert fed.ledger.spent(fed.study.account) == fed.study.total
    assert len(found.model.score.trees) == n_estimators
    bins_and_curves = 3 + (STACKING_ROUNDS if schema is TWO else 0)
    batches = -(-n_estimators // trees_per_round)
    assert len(fed.record.rounds) == bins_and_curves + batches


@pytest.mark.parametrize("schema", [TWO, THREE], ids=["two", "three"])
@pytest.mark.parametrize("on_top", [0, 7])
def test_surfaces_spend_the_whole_budget_with_and_without_trees_on_top(schema, on_top, monkeypatch):
    gate = 0.0 if on_top else 1e9
    for name in ("TREES_ON_SURFACES_FROM", "TREES_PAY_FROM", "TREES_OF_MANY_FROM"):
        monkeypatch.setattr(boosting_classes, name, gate)
    method = SmoothedBoost(n_estimators=7)
    found, fed = trained(method, method.grid(schema), epsilon="50", delta=DELTA)
    assert fed.ledger.spent(fed.study.account) == fed.study.total
    surfaces = math.comb(len(schema.names), 2)
    assert len(found.model.score.trees) == surfaces + on_top
    assert len(fed.record.rounds) - on_top <= 40


@pytest.mark.parametrize(("n_classes", "between"), [(2, 346.0), (3, 118.0), (26, 118.0)])
def test_the_part_for_trees_rises_from_nothing_to_one_half(n_classes, between):
    assert boosting_classes.for_trees(60.0, n_classes) == 0
    assert boosting_classes.for_trees(1e9, n_classes) == Fraction(1, 2)
    assert 0 < boosting_classes.for_trees(between, n_classes) < Fraction(1, 2)


def test_a_schema_without_numbers_and_one_without_use_are_answered():
    words = Schema((Categorical("ward", ("north", "south", "west")),), classes=("no", "yes"))
    X, y = sample(200, TWO)
    model = hr.BoostedTreesClassifier(words, 5.0, n_estimators=3).fit(X[:, 2:], y)
    assert model.predict_proba(X[:, 2:]).shape == (200, 2)
    constant = Schema((Numeric("dose", 0.0, 1.0),), classes=("no", "yes"))
    model = hr.BoostedTreesClassifier(constant, 5.0, n_estimators=3).fit(np.zeros((200, 1)), y)
    assert np.ptp(model.predict_proba(np.zeros((5, 1)))[:, 1]) == 0.0


CALLS = [m.call for m in registry.papers().METHODS if m.paper == "maddock" and "ldp" not in m.call]


@pytest.mark.parametrize("call", CALLS)
def test_every_named_method_keeps_its_budget_and_its_rounds(call):
    names = {**vars(registry.papers()), "schema": TWO}
    method = eval(call, names).set_params(n_estimators=4)._method(TWO)
    found, fed = trained(method, method.grid(TWO), epsilon="20", delta=DELTA)
    assert fed.ledger.spent(fed.study.account) <= fed.study.total
    most, taken = method.largest(fed.study.schema).rounds, len(fed.record.rounds)
    may_stop = method.split == "histogram" and method.features_per_tree != 1
    assert taken <= most if may_stop else taken == most
    assert len(found.model.score.trees) == method.n_estimators


@pytest.mark.parametrize("split", get_args(Splits))
@pytest.mark.parametrize("update", get_args(Updates))
@pytest.mark.parametrize("schema", [THREE, VALUE], ids=["classes", "value"])
def test_components_combine_freely(split, update, schema):
    options = {
        "n_estimators": 6,
        "trees_per_round": 2,
        "max_depth": 2,
        "split": split,
        "update": update,
    }
    if update == "wiener" and split != "oblivious":
        with pytest.raises(ParameterError, match="oblivious"):
            ComponentBoosting(**options)
        return
    found, fed = trained(ComponentBoosting(**options), schema, epsilon="50", delta=DELTA)
    X, _ = sample(50, schema, seed=1)
    codes = site_rows(X, sample(50, schema, seed=1)[1], np.zeros(50, int), 1, schema)[0].codes
    assert np.isfinite(found.model.predict(codes)).all()
    assert fed.ledger.spent(fed.study.account) <= fed.study.total


def test_a_batch_of_drawn_trees_is_one_round():
    _, fed = trained(
        ComponentBoosting(n_estimators=12, trees_per_round=4), TWO, epsilon="5", delta=DELTA
    )
    assert len(fed.record.rounds) == 3


@pytest.mark.parametrize("split", ["histogram", "totally_random"])
def test_without_noise_boosting_learns(split):
    X, y = sample(1500, TWO)
    model = hr.ComponentBoostingClassifier(TWO, dp_model="none", split=split, n_estimators=60).fit(
        X, y
    )
    assert model.score(X, y) > 0.86


def test_with_much_budget_the_default_recipe_is_accurate_and_calibrated():
    X, y = sample(4000, TWO)
    test, truth = sample(4000, TWO, seed=1)
    model = hr.BoostedTreesClassifier(TWO, 20.0, 1e-6, random_state=0).fit(X, y)
    p = model.predict_proba(test)[:, 1]
    assert model.score(test, truth) > 0.84
    assert abs(p.mean() - (truth == "yes").mean()) < 0.03


def test_a_regression_by_components_beats_the_mean():
    X, y = sample(3000, VALUE)
    model = hr.ComponentBoostingRegressor(VALUE, 20.0, 1e-6, n_estimators=60, random_state=0).fit(
        X, y
    )
    assert model.score(X, y) > 0.5


# ----------------------------------------------------------------------------------------- wire
def rounds_of(n_estimators):
    """What is asked for each tree of a growing model."""
    method = ComponentBoosting(n_estimators=n_estimators, max_depth=3)
    X, y = sample(80, TWO)
    fed = federation(
        study(TWO, 1, epsilon="5", delta=DELTA), site_rows(X, y, np.zeros(80, int), 1, TWO)
    )
    flow, asked = method.flow(TWO, fed, np.random.default_rng(0)), []
    try:
        queries = next(flow)
        while True:
            asked.append(queries)
            queries = flow.send(fed.ask(queries))
    except StopIteration:
        return asked


def test_bytes_of_a_round_do_not_grow_with_the_model():
    sender = Sender()
    sizes = [sender.encode(bundle).size for bundle in rounds_of(60)]
    assert max(sizes[30:]) < 1.3 * max(sizes[1:10])


def test_a_site_that_only_hears_what_is_new_holds_the_whole_model():
    sender, receiver = Sender(), Receiver()
    for bundle in rounds_of(12):
        (heard,), learned = receiver.decode(sender.encode(bundle))
        receiver.keep(learned)
        assert heard == bundle[0]


def test_a_model_that_did_not_grow_out_of_the_last_one_travels_whole():
    sender, receiver = Sender(), Receiver()
    (first,), *_, (last,) = rounds_of(5)
    other = Gradients(last.statistic.loss, Additive((0.7,), trees=last.statistic.at.trees[1:]))
    for query in (
        first,
        last,
        SumQuery(EVERYONE, other, Leaves(last.by.trees), last.fraction),
        last,
    ):
        heard, learned = receiver.decode(sender.encode([query]))
        receiver.keep(learned)
        assert heard == [query]


# --------------------------------------------------------------------------------------------------
# What boosting asks, counted as in Table 1 of Maddock et al. 2022, and how often it goes round.
M = 3
SCHEMA = Schema(tuple(Numeric(f"x{j}", 0.0, 1.0) for j in range(M)), classes=("no", "yes"))
ROWS = np.random.default_rng(0).beta(0.4, 4.0, (2000, M))
LABELS = (ROWS[:, 0] + ROWS[:, 1] > 0.2).astype(int)


class Counting:
    """Answers from rows without noise, and counts what is asked."""

    n_sites, is_pure = 1, False

    def __init__(self, schema):
        self.schema, self.rounds, self.asked, self.binnings = schema, 0, [], []
        self.codes = np.stack(
            [np.searchsorted(g.edges, ROWS[:, j], "right") for j, g in enumerate(schema.grids)]
        ).astype(np.uint8)

    def variance(self, query):
        return 0.0

    def ask(self, queries):
        self.rounds += 1
        self.asked += queries
        return [self._answer(q) for q in queries]

    def _answer(self, query):
        inside = np.ones(len(LABELS), bool)
        for step in query.region:
            j = self.schema.names.index(step.test.feature)
            left = np.array([(step.test.left >> int(c)) & 1 for c in self.codes[j]], bool)
            inside &= left == (step.outcome == 0)
        score = query.statistic.at.raw(self.codes)[:, 0]
        p = 1.0 / (1.0 + np.exp(-score))
        loss = query.statistic.loss
        g, h = (p - LABELS) / loss.gradient_scale, p * (1.0 - p)
        hessian = h if isinstance(query.statistic, Hessians) else h * loss.hessian_scale
        rows = np.stack([g, hessian], axis=1)[:, -query.statistic.channels :] * inside[:, None]
        values = np.zeros(query.shape)
        if isinstance(query.by, Cells):
            self.binnings.append(query.by.binning)
            for i, j in enumerate(query.by.features):
                np.add.at(values[i], np.asarray(query.by.binning.bins[j])[self.codes[j]], rows)
        else:
            for i, tree in enumerate(query.by.trees):
                np.add.at(values[i], tree.apply(self.codes), rows)
        return Answer(values, 0.0)


def counted(**options):
    method = ComponentBoosting(**{"update": "newton", "max_depth": 2, **options})
    schema = method.grid(SCHEMA)
    fed = Counting(schema)
    run(method.flow(schema, fed, np.random.default_rng(0)), fed)
    return method, fed


def kappas(fed):
    """Candidates, splits, leaves: a query counts once for each feature or tree it asks about."""
    found = Counter()
    for q in fed.asked:
        if isinstance(q.statistic, Hessians):
            found["c"] += len(q.by.features)
        elif isinstance(q.by, Leaves):
            found["w"] += len(q.by.trees)
        else:
            assert isinstance(q.statistic, Gradients)
            found["s"] += len(q.by.features)  # nodes of one level are disjoint: see `levels`
    return found["c"], found["s"], found["w"]


def levels(fed):
    """Tables by round: nodes of one level of one tree count as one."""
    seen = {(q.statistic.at, len(q.region)): len(q.by.features) for q in fed.asked}
    return sum(seen.values())


T, S, D = 6, 3, 2
REFINED = {"candidates": "iterative_hessian"}


def test_totally_random_trees_ask_their_leaves_once():
    method, fed = counted(n_estimators=T)
    assert kappas(fed) == (0, 0, T)
    assert fed.rounds == method.largest(SCHEMA).rounds == T


def test_the_iterative_hessian_of_random_trees_costs_s_histograms_and_no_round():
    method, fed = counted(n_estimators=T, **REFINED, hessian_rounds=S)
    assert kappas(fed) == (S * M, 0, T)
    assert fed.rounds == method.largest(SCHEMA).rounds == T


def test_no_histogram_is_asked_that_no_tree_would_use():
    _, fed = counted(n_estimators=2, **REFINED, hessian_rounds=5)
    assert kappas(fed) == (M, 0, 2)


@pytest.mark.parametrize(("trees_per_round", "rounds"), [(T, 1 + S), (2, T // 2 + 1)])
def test_batches_refine_ahead_of_their_trees(trees_per_round, rounds):
    method, fed = counted(
        n_estimators=T, trees_per_round=trees_per_round, **REFINED, hessian_rounds=S
    )
    assert kappas(fed) == (S * M, 0, T)
    assert fed.rounds == method.largest(SCHEMA).rounds == rounds


def test_histogram_trees_ask_every_feature_on_every_level():
    _, fed = counted(n_estimators=T, split="histogram")
    assert levels(fed) == T * M * D
    assert fed.rounds == T * D


def test_the_iterative_hessian_of_histogram_trees_is_free():
    _, fed = counted(n_estimators=T, split="histogram", **REFINED)
    assert levels(fed) == T * M * D
    assert kappas(fed)[0] == kappas(fed)[2] == 0
    assert fed.rounds == T * D


@pytest.mark.parametrize("split", ["histogram", "partially_random"])
def test_trees_of_one_feature_ask_one_histogram_each(split):
    method, fed = counted(n_estimators=T, split=split, order="cyclic", features_per_tree=1)
    assert kappas(fed) == (0, T, 0)
    assert fed.rounds == method.largest(SCHEMA).rounds == T
    assert sum(q.fraction for q in fed.asked) == 1


# ------------------------------------------------------------------------- that it really iterates
def test_hessians_are_those_of_the_model_so_far_and_each_round_refines_the_last():
    _, fed = counted(n_estimators=T, **REFINED, n_bins=8, hessian_rounds=S)
    asked = [q for q in fed.asked if isinstance(q.statistic, Hessians)]
    assert [len(q.statistic.at.trees) for q in asked] == [0, 1, 2]
    assert len({q.by.binning for q in asked}) == S
    schema = fed.schema
    assert starts_of(schema, asked[0].by.binning, 0) == even_starts(schema.grids[0], 8)


def test_histogram_trees_move_their_bins_from_tree_to_tree():
    _, fed = counted(n_estimators=4, split="histogram", **REFINED, n_bins=8)
    by_tree = {len(q.statistic.at.trees): q.by.binning for q in fed.asked}
    assert len(set(by_tree.values())) == 4
    assert starts_of(fed.schema, by_tree[0], 0) == even_starts(fed.schema.grids[0], 8)


def test_refined_bins_are_finer_where_hessians_are():
    """Two rows in three lie in the lowest tenth of the range."""
    _, fed = counted(n_estimators=6, split="histogram", **REFINED, n_bins=8)
    grid = fed.schema.grids[0]
    ends = (grid.low, *grid.edges, grid.high)

    def low(binning):
        return sum(ends[end] <= 0.1 for end in starts_of(fed.schema, binning, 0)[1:])

    assert low(fed.binnings[0]) < low(fed.binnings[-1])


def test_a_flow_that_asks_nothing_can_be_watched():
    def silent():
        yield from ()
        return 7

    assert run(watch_first_round(silent()), None) == (7, [])


# ---------------------------------------------------------------------------- one table, all levels
def test_a_tree_of_one_feature_is_the_tree_of_a_table_a_level():
    """Without noise, the root's table tells what a table at every node would."""
    one = {"n_estimators": 1, "split": "histogram", "order": "cyclic", "max_depth": 3}
    alone, _ = grown(features_per_tree=1, **one)
    first = Schema(SCHEMA.features[:1], classes=SCHEMA.classes)
    nodes, _ = grown(first, **one)
    assert [t and t.left for t in alone.tests] == [t and t.left for t in nodes.tests]
    assert sum(t is not None for t in alone.tests) >= 3
    assert np.allclose(alone.values, nodes.values)


def grown(schema=SCHEMA, **options):
    method = ComponentBoosting(update="newton", **options)
    fed = Counting(method.grid(schema))
    trained = run(method.flow(fed.schema, fed, np.random.default_rng(0)), fed)
    return trained.model.score.trees[0], fed


def test_a_number_of_hessian_rounds_is_refused_where_it_is_not_used():
    model = hr.ComponentBoostingClassifier(
        split="histogram", candidates="iterative_hessian", hessian_rounds=3
    )
    with pytest.raises(hr.ParameterError, match="hessian_rounds is 3"):
        model._method(SCHEMA)


# --------------------------------------------------------------------------- published, not ours
PUBLISHED = {"epsilon": "1", "delta": DELTA}


@pytest.mark.parametrize(("norms", "spent"), [("joint", 1.0), ("published", 16.0 / 17.0)])
def test_noise_for_the_published_norm_leaves_a_seventeenth_of_the_budget(norms, spent):
    """Section 4.2: the square of sqrt(17) / 4 is 17/16 of the true one, 1."""
    method = ComponentBoosting(n_estimators=4, leaf_values="published", norms=norms)
    _, fed = trained(method, method.grid(TWO), **PUBLISHED)
    found = fed.ledger.spent(fed.study.account) / fed.study.total
    assert float(found) == pytest.approx(spent, rel=1e-9)


@pytest.mark.parametrize("schema", [TWO, VALUE], ids=["classes", "number"])
def test_published_averages_ask_a_pair_of_norm_root_two(schema):
    method = ComponentBoosting(n_estimators=2, update="averaging", leaf_values="published")
    statistic = method._update(schema).statistic(None)
    assert statistic.bound(1000).l2_squared == pytest.approx(2 * 1000**2, rel=1e-2)
    ours = ComponentBoosting(n_estimators=2, update="averaging")
    assert ours._update(schema).statistic(None).bound(1000).l2_squared <= 1000**2


def test_a_published_average_is_the_ratio_of_its_pair_and_one_half_of_nobody():
    method = ComponentBoosting(update="averaging", leaf_values="published")
    update = method._update(TWO)
    sums = np.array([[-30.0, 100.0], [5.0, 10.0], [-9.0, 3.0], [-4.0, -1.0]])
    assert np.allclose(update.values(sums, 0.0)[:, 1], [0.3, 0.0, 1.0, 0.5])
    assert update.score(np.array([-30.0, 100.0]), 0.0) == pytest.approx(30.0**2 / 101.0)


@pytest.mark.parametrize(("cost", "weight"), [("own", 2 / 16), ("published", 2.0)])
def test_a_histogram_of_hessians_costs_what_the_switch_says(cost, weight):
    """T trees and s histograms of the two numbers of the schema: (T + s m) / mu^2 as published."""
    trees, rounds = 4, 2
    method = ComponentBoosting(
        n_estimators=trees,
        candidates="iterative_hessian",
        hessian_rounds=rounds,
        hessian_cost=cost,
        leaf_values="published",
    )
    schema = method.grid(TWO)
    setting = method._setting(schema)
    assert float(method._cut_points.fraction(setting)) == pytest.approx(
        rounds * weight / (trees + rounds * weight), rel=1e-3
    )


def evidence(masses, variance=1.0):
    return Evidence(np.array(masses), variance)


def test_without_consistency_a_side_is_its_own_table_s_or_the_node_s_less_the_other():
    """As in the released program: own totals of histograms, the parent's for single cuts."""
    rules = SplitRules(consistency=False, noise_gate=False)
    schema = Schema((Numeric("a", 0.0, 1.0, bins=3), Numeric("b", 0.0, 1.0, bins=3)), ("n", "y"))
    grids = Grids(schema, Binning.of_cells(schema))
    values = np.arange(16.0).reshape(2, 4, 2)
    tables = Tables((0, 1), values, 1.0, (4, 4))
    offer = every_cut(grids, (0, 1))
    whole = evidence([100.0, 50.0])
    _, sides = rules.sides(Node(EVERYONE), offer, tables, 1, whole)
    assert np.allclose(sides.sums[0] + sides.sums[1], values[1].sum(axis=0))
    assert np.allclose(sides.variances[0] + sides.variances[1], 4.0)
    single = one_random_cut(grids, (0, 1), EVERYONE, np.random.default_rng(0))
    two = Tables((0, 1), values[:, :2], 1.0, (2, 2))
    _, sides = rules.sides(Node(EVERYONE), single, two, 0, whole)
    assert np.allclose(sides.sums[0], values[0, 0])
    assert np.allclose(sides.sums[1], whole.masses - values[0, 0])
    assert sides.variances[1] == pytest.approx(2.0)


def test_without_the_gate_any_side_is_a_split_and_a_negative_node_is_none():
    update = PublishedSteps(PlainLogLoss())
    sides = SideSums((np.array([[9.0, 0.1]]), np.array([[-9.0, 0.1]])), (np.ones(1), np.ones(1)))
    off, on = SplitRules(noise_gate=False), SplitRules()
    assert off.gains(sides, np.zeros(1), update)[0] > 0.0
    assert on.gains(sides, np.zeros(1), update)[0] == -np.inf
    light = Node(EVERYONE, evidence=evidence([1.0, -0.5]))
    assert off.is_light(light, update)
    assert not on.is_light(light, update)
