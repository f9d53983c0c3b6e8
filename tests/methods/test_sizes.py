"""No budget is spent on what cannot be asked: long lists are cut, and the rest is refused first."""

from __future__ import annotations

import warnings
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

import hedgerow as hr
from deployment.test_network import Running, listener
from hedgerow.deployment.study_file import StudyFile
from hedgerow.errors import (
    BudgetExceeded,
    ParameterError,
    TooFewSites,
    UnsupportedQuery,
)
from hedgerow.federation import wire
from hedgerow.federation.transports import in_process
from hedgerow.methods.blocks import builder, layered, random_trees
from hedgerow.methods.blocks.flow import run
from hedgerow.methods.blocks.medians import depth_for
from hedgerow.methods.gubler import HistogramTree
from hedgerow.methods.liu import ExtraTrees
from hedgerow.methods.maddock import ComponentBoosting
from hedgerow.methods.multiway import PrunedMultiwayForest
from hedgerow.methods.training import agree
from hedgerow.methods.wang import TopDown
from hedgerow.privacy import bundles
from hedgerow.privacy.accounting.budget import DPModel
from hedgerow.privacy.bundles import Size, cut
from hedgerow.privacy.ledger.charges import MemoryLedger
from hedgerow.privacy.queries import Binning, Cells, ClassCounts, Sides, SumQuery, Whole
from hedgerow.privacy.statement.statement import statement
from hedgerow.schema.regions import EVERYONE, Step
from hedgerow.secagg.parameters import Sparse
from methods.test_method_contract import METHOD_EXAMPLES, Heard, opened, trained, without_noise
from support.network import World, processes, tree_of
from support.worlds import TWO, federation, sample, site_rows, study, weight_of

SHARE = Fraction(1, 20)
SPLITS = [TWO.grids[0].split_values([k]) for k in range(8)]
REGIONS = [SumQuery((Step(s, 0),), ClassCounts(2), Whole(), SHARE) for s in SPLITS]
COUNTS = REGIONS[:4]
FIVE = [*COUNTS, SumQuery(EVERYONE, ClassCounts(2), Whole(), SHARE)]


def asking(n_sites=3, failing=(), **terms):
    """A federation whose rounds of these numbers reach the sites and bring no answer."""
    X, y = sample(90, TWO)
    parts = site_rows(X, y, np.arange(90) % n_sites, n_sites, TWO)
    fed = federation(study(TWO, n_sites, **terms), parts)
    plain = fed.sites.round

    def round(number, bundle):
        collected = plain(number, bundle)
        if number in failing:
            raise TooFewSites(f"round {number}: nobody came.")
        return collected

    fed.sites.round = round
    return fed


# ----------------------------------------------------------------------------------------- cutting
@pytest.mark.parametrize("n_sites", [1, 3])
def test_a_list_longer_than_a_bundle_is_asked_in_rounds_and_costs_the_same(monkeypatch, n_sites):
    whole = asking(n_sites, dp_model=DPModel.NONE).ask(FIVE)
    price = asking(n_sites)
    price.ask(FIVE)
    monkeypatch.setattr(bundles, "MOST_QUERIES", 2)
    fed = asking(n_sites)
    fed.ask(FIVE)
    assert [len(r.manifest) for r in fed.record.rounds] == [2, 2, 1]
    assert [len(entry) for _, entry in fed.ledger.entries] == [2, 2, 1]
    assert fed.sites.spent() == fed.ledger.spent(fed.study.account) == price.sites.spent()
    assert fed.slack == price.slack
    parts = asking(n_sites, dp_model=DPModel.NONE).ask(FIVE)
    for one, other in zip(whole, parts, strict=True):
        np.testing.assert_array_equal(one.values, other.values)
    said = statement(fed.study, fed.sites.spent(), fed.queries, is_simulation=True)
    assert sum(line.part for line in said.spending) == pytest.approx(said.spent_fraction)


def test_a_list_is_cut_in_order_by_queries_integers_and_bytes(monkeypatch):
    table = SumQuery(EVERYONE, ClassCounts(2), Cells((0, 1), Binning.of_cells(TWO)), SHARE)
    asked = [*COUNTS, table]
    assert cut(asked, travels=True) == [asked]
    monkeypatch.setattr(bundles, "MOST_INTEGERS", 36)
    assert cut(asked, travels=False) == [COUNTS, [table]]
    monkeypatch.setattr(bundles, "MOST_BYTES", max(weight_of([q]) for q in asked))
    parts = cut(asked, travels=True)
    assert [query for part in parts for query in part] == asked
    assert len(parts) > 2
    assert all(weight_of(part) <= bundles.MOST_BYTES for part in parts)


@pytest.mark.parametrize("limit", ["MOST_INTEGERS", "MOST_BYTES"])
def test_a_query_too_large_by_itself_is_refused_before_any_of_its_list_is_charged(
    monkeypatch, limit
):
    table = SumQuery(EVERYONE, ClassCounts(2), Cells((0, 1), Binning.of_cells(TWO)), SHARE)
    fed = asking()
    fed.ask(COUNTS[:1])
    before, most = fed.sites.spent(), {"MOST_INTEGERS": 35, "MOST_BYTES": weight_of([table]) - 1}
    monkeypatch.setattr(bundles, limit, most[limit])
    with pytest.raises(UnsupportedQuery, match="what earlier rounds charged stays"):
        fed.ask([*COUNTS, table])
    assert fed.sites.spent() == fed.ledger.spent(fed.study.account) == before > 0
    assert len(fed.record.rounds) == 1


def test_a_part_that_fails_is_repeated_alone_and_paid_from_the_reserve(monkeypatch):
    monkeypatch.setattr(bundles, "MOST_QUERIES", 2)
    fed = asking(failing={2}, retry_budget=Fraction(1, 5))
    fed.ask(FIVE)
    rounds = [(r.number, len(r.manifest), r.void) for r in fed.record.rounds]
    assert rounds == [(1, 2, False), (2, 2, True), (3, 2, False), (4, 1, False)]
    assert fed.sites.spent() == Fraction(4, 5) * SHARE * (len(FIVE) + 2)


def test_a_list_that_breaks_off_halfway_keeps_what_was_charged(monkeypatch):
    monkeypatch.setattr(bundles, "MOST_QUERIES", 2)
    fed = asking()
    fed.ledger = MemoryLedger(2 * SHARE * fed.study.total)
    with pytest.raises(BudgetExceeded):
        fed.ask(FIVE)
    done = fed.record.rounds
    assert [len(r.manifest) for r in done] == [2]
    assert fed.sites.spent() == fed.ledger.spent(fed.study.account) == 2 * SHARE * fed.study.total


@METHOD_EXAMPLES
def test_a_recipe_in_small_bundles_grows_the_same_model_in_the_rounds_it_declares(
    monkeypatch, method, schema
):
    whole, fed = without_noise(method, schema)
    monkeypatch.setattr(bundles, "MOST_QUERIES", 2)
    parts, cut_up = trained(method, schema, 1, dp_model=DPModel.NONE)
    assert parts.model.to_dict() == whole.model.to_dict()
    taken = len(cut_up.record.rounds)
    assert len(fed.record.rounds) <= taken <= method.largest(fed.study.schema).rounds_alone


# ------------------------------------------------------------------------------------------- sizes
def test_sizes_add_up_as_steps_do(monkeypatch):
    monkeypatch.setattr(bundles, "MOST_QUERIES", 4)
    monkeypatch.setattr(bundles, "MOST_BYTES", 100)
    step = Size.of_step(9, integers=2, bytes=30, shared_bytes=10)
    assert (step.queries, step.integers, step.bytes) == (4, 18, 100)
    assert (step.rounds, step.rounds_alone) == (3, 3)
    heavy = Size.of_step(9, bytes=45, shared_bytes=10)
    assert (heavy.rounds, heavy.rounds_alone) == (5, 3)
    both = step + heavy * 2
    assert (both.rounds, both.rounds_alone, both.integers) == (13, 9, 18)
    assert (step | heavy).rounds == 5
    assert (step * 0) == Size()


DEEP = {"epsilon": 1.0, "delta": 1e-6}
TOO_LARGE = [
    (hr.MedianForestClassifier, {"max_depth": 17}, 1, r"131072 leaves.*lower max_depth to 16"),
    (hr.MedianForestClassifier, {"max_depth": 17}, 3, r"131072 leaves.*lower max_depth to 16"),
    (hr.BoostedTreesClassifier, {"max_depth": 15}, 1, r"leaves in one tree.*lower max_depth to 14"),
    (
        hr.ComponentBoostingClassifier,
        {"split": "oblivious", "max_depth": 17},
        1,
        r"lower max_depth to 16",
    ),
    (
        hr.ForestClassifier,
        {"n_estimators": 10_000, "max_depth": 16},
        1,
        r"integers in one answer.*lower n_estimators to 512 .it is 10000. or max_depth to 11",
    ),
    (
        hr.ForestClassifier,
        {"n_estimators": 10_000},
        3,
        r"bytes in one message.*lower n_estimators to \d+",
    ),
    (
        hr.MultiwayForestClassifier,
        {"max_depth": 3, "n_bins": 64},
        1,
        r"leaves in one tree.*lower max_depth to 2 .it is 3. or n_bins to \d+",
    ),
]


@pytest.mark.parametrize(("kind", "parameters", "n_sites", "words"), TOO_LARGE)
def test_what_no_cutting_helps_is_refused_before_the_first_charge(
    monkeypatch, tmp_path, kind, parameters, n_sites, words
):
    """And the value that the message names is accepted."""
    columns = tuple(hr.Numeric(f"x{j}", 0.0, 1.0) for j in range(4))
    schema = hr.Schema(columns, classes=("no", "yes"))

    def no_round(*given):
        raise AssertionError("a federation was opened.")

    monkeypatch.setattr(in_process, "open_federation", no_round)
    model = kind(schema, **DEEP, **parameters, ledger=hr.Ledger(tmp_path / "ledger"))
    X, y, site = np.zeros((6, 4)), ["no", "yes"] * 3, np.arange(6) % n_sites
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with pytest.raises(ParameterError, match=words) as refused:
            model.fit(X, y, site=site if n_sites > 1 else None)
    assert not (tmp_path / "ledger").exists()
    name, value, *_ = str(refused.value).split("lower ")[1].split(" to ")
    agree(kind(schema, **DEEP, **{**parameters, name: int(value.split()[0])}), schema, n_sites)


def test_a_sparse_graph_must_be_paid_for_all_rounds_that_may_come():
    model = hr.HistogramTreeClassifier(TWO, epsilon=1.0, delta=1e-6, max_depth=4)
    agree(model, TWO, 300, {"graph": Sparse(rounds=5)})
    with pytest.raises(ParameterError, match=r"5 rounds, .* allows 4 .*lower max_depth to 3"):
        agree(model, TWO, 300, {"graph": Sparse(rounds=4)})


def test_a_study_file_that_asks_too_much_is_refused_by_whoever_reads_it(tmp_path):
    """Who writes it, who approves it and who runs it: all read it the same way."""
    world = World(tmp_path)
    other = {"HistogramTree": "MedianForest", "max_depth = 2": "max_depth = 17"}
    path = world.write_study("deep", **other)
    with pytest.raises(
        ParameterError, match=r"deep.toml.* leaves in one tree.*lower max_depth to 16"
    ):
        world.approve_at(world.sites[0], path)
    assert not world.lines(0, "approved")


@pytest.mark.parametrize("method", [HistogramTree(max_depth=6), TopDown(max_splits=30)])
def test_a_tree_ends_at_the_most_leaves_a_tree_may_have(monkeypatch, method):
    """Levels and best first: a node that could not be split any more is not asked."""
    monkeypatch.setattr(builder, "MOST_LEAVES", 5)
    found, fed = trained(method, TWO, 1, dp_model=DPModel.NONE)
    (tree,) = found.model.score.trees
    assert tree.n_leaves == 5
    assert sum(len(r.manifest) for r in fed.record.rounds) <= 2 * 4 + 5


@pytest.mark.parametrize("split", ["totally_random", "histogram"])
def test_a_tree_that_is_drawn_ends_there_too(monkeypatch, split):
    monkeypatch.setattr(random_trees, "MOST_LEAVES", 16)
    monkeypatch.setattr(builder, "MOST_LEAVES", 16)
    method = ComponentBoosting(n_estimators=2, max_depth=9, split=split, min_gain=-1e9)
    found, _ = trained(method, TWO, 1, dp_model=DPModel.NONE)
    assert 8 <= max(tree.n_leaves for tree in found.model.score.trees) <= 16


def test_a_pruned_tree_ends_there_too(monkeypatch):
    monkeypatch.setattr("hedgerow.methods.multiway.MOST_LEAVES", 30)
    method = PrunedMultiwayForest(n_estimators=1, max_depth=3, min_samples_split=0.0)
    found, _ = trained(method, TWO, 1, dp_model=DPModel.NONE)
    assert max(tree.n_leaves for tree in found.model.score.trees) <= 30


@pytest.mark.parametrize("limit", [("MOST_ASKED_TESTS", 16), ("MOST_INTEGERS", 2 * 2 * 5 * 8)])
def test_a_layer_stays_open_for_as_many_nodes_as_one_query_holds(monkeypatch, limit):
    """Two tests a node, of two classes or of five bits: eight nodes of a level."""
    monkeypatch.setattr(layered, *limit)
    method = ExtraTrees(n_estimators=1, max_depth=8, max_features=2, spare=1)
    fed = Heard(opened(method, TWO, 1, dp_model=DPModel.NONE))
    run(method.flow(fed.study.schema, fed, np.random.default_rng(7)), fed)
    nodes = [q.by.layer.n_nodes for asked in fed.bundles for q in asked if isinstance(q.by, Sides)]
    assert max(nodes) == 8


def test_a_bought_depth_is_one_that_a_tree_may_have():
    assert depth_for(327_680.0, 20.0) == 14
    assert 2 ** depth_for(1e30, 1e-30) == 2**16


def test_an_epoch_ends_before_a_site_would_have_to_remember_too_many_names(monkeypatch):
    """Each of these asks for a region of its own, which is two names."""
    monkeypatch.setattr(wire, "MOST_NAMES", 8)
    fed = asking(dp_model=DPModel.NONE)
    first = fed.sites.coordinator.attempt
    answers = [fed.ask([query])[0].values for query in REGIONS]
    assert fed.sites.coordinator.attempt == first + 2
    assert max(len(end.receiver.definitions) for end in fed.sites.clients) <= 8
    plain = asking(1, dp_model=DPModel.NONE)
    np.testing.assert_array_equal(answers, [plain.ask([query])[0].values for query in REGIONS])


# --------------------------------------------------------------------------- the papers' own sizes
def wide(rows, columns=6):
    schema = hr.Schema(
        tuple(hr.Numeric(f"x{j}", 0.0, 1.0) for j in range(columns)), classes=("no", "yes")
    )
    X = np.random.default_rng(5).uniform(0.0, 1.0, (rows, columns))
    return schema, X, np.where(X[:, 0] + X[:, 1] > 1.0, "yes", "no")


SLOW = pytest.mark.slow
PAPER = [
    ("diprime_exp", 8, 10, 0.5),
    pytest.param("diprime_flip", 8, 10, 0.8, marks=SLOW),
    pytest.param("diprime_exp", 8, 28, 0.2, marks=SLOW),
    pytest.param("diprime", 10, 28, 0.5, marks=SLOW),
    pytest.param("diprime", 12, 10, 0.5, marks=SLOW),
    pytest.param("diprime_exp", 11, 1, 0.5, marks=SLOW),
]
"""Depths of Tables 1 and 2 and Figure 1, numbers of trees and rho of Figures 1, 7 and 8."""


@pytest.mark.parametrize(("name", "depth", "trees", "rho"), PAPER)
def test_forests_of_medians_run_at_the_paper_s_own_sizes(name, depth, trees, rho):
    schema, X, y = wide(400)
    sizes = {"max_depth": depth, "n_estimators": trees, "leaf_fraction": 1.0 - rho}
    model = getattr(hr.papers.consul, name)(schema, epsilon=1.0, **sizes).fit(X, y)
    asked = [len(r.manifest) for r in model.run_.rounds]
    assert len(model.model_.score.trees) == trees
    assert max(asked) == bundles.MOST_QUERIES
    declared = model._method(schema).largest(model.schema_)
    assert len(asked) == declared.rounds_alone
    assert model.privacy_.spent_fraction == pytest.approx(1.0)
    assert {tree.n_leaves for tree in model.model_.score.trees} == {2**depth}


@pytest.mark.slow
@pytest.mark.parametrize(("n_sites", "split"), [(1, "grid"), (3, "table")])
def test_a_forest_that_buys_its_depth_runs_on_many_rows(n_sites, split):
    rows = 330_000 if n_sites == 1 else 42_000  # from so many on a level was one bundle too many
    schema, X, y = wide(rows, 3)
    site = None if n_sites == 1 else np.arange(rows) % n_sites
    model = hr.MedianForestClassifier(schema, epsilon=50.0, delta=1e-6, split=split)
    model.fit(X, y, site=site)
    declared = model._method(schema).largest(model.schema_)
    asked = [len(r.manifest) for r in model.run_.rounds]
    assert max(asked) == bundles.MOST_QUERIES
    assert len(asked) <= declared.rounds_of(n_sites)


@pytest.mark.network
@pytest.mark.slow
def test_a_level_longer_than_a_bundle_travels_over_https(tmp_path: Path):
    """Three processes; without noise, and to the bit what one process learns."""
    world = World(tmp_path)
    forest = 'max_depth = 9\nn_estimators = 3\nfolds = false\nsplit = "table"'
    world.study_file = world.write_study(
        "deep", **{"HistogramTreeClassifier": "MedianForestClassifier", "max_depth = 2": forest}
    )
    with listener(world) as transport, processes(tmp_path) as started:
        there = Running(world, transport, started)
        model = world.train(transport)
        charged = there.charges()
    asked = [len(r.manifest) for r in model.run_.rounds]
    assert max(asked) == bundles.MOST_QUERIES
    assert charged == [len(asked)] * 3
    assert len(asked) <= StudyFile.read(world.study_file).rounds
    assert tree_of(model) == tree_of(world.in_one_process())
