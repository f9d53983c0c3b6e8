"""What boosting asks, counted as in Table 1 of Maddock et al. 2022, and how often it goes round."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

import hedgerow as hr
from hedgerow.methods.blocks.flow import run, watched
from hedgerow.methods.blocks.iterative_hessian import even_runs, runs_of
from hedgerow.methods.maddock import ComponentBoosting
from hedgerow.privacy.queries import Answer, Cells, Gradients, Hessians, Leaves
from hedgerow.schema.schema import Numeric, Schema

M = 3
SCHEMA = Schema(tuple(Numeric(f"x{j}", 0.0, 1.0) for j in range(M)), classes=("no", "yes"))
ROWS = np.random.default_rng(0).beta(0.4, 4.0, (2000, M))
LABELS = (ROWS[:, 0] + ROWS[:, 1] > 0.2).astype(int)


class Counting:
    """Answers from rows without noise, and counts what is asked."""

    parties, is_pure = 1, False

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
    recipe = ComponentBoosting(**{"update": "newton", "max_depth": 2, **options})
    schema = recipe.grid(SCHEMA)
    fed = Counting(schema)
    run(recipe.flow(schema, fed, np.random.default_rng(0)), fed)
    return recipe, fed


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
    recipe, fed = counted(n_trees=T)
    assert kappas(fed) == (0, 0, T)
    assert fed.rounds == recipe.largest(SCHEMA).rounds == T


def test_the_iterative_hessian_of_random_trees_costs_s_histograms_and_no_round():
    recipe, fed = counted(n_trees=T, **REFINED, hessian_rounds=S)
    assert kappas(fed) == (S * M, 0, T)
    assert fed.rounds == recipe.largest(SCHEMA).rounds == T


def test_no_histogram_is_asked_that_no_tree_would_use():
    _, fed = counted(n_trees=2, **REFINED, hessian_rounds=5)
    assert kappas(fed) == (M, 0, 2)


@pytest.mark.parametrize(("batch", "rounds"), [(T, 1 + S), (2, T // 2 + 1)])
def test_batches_refine_ahead_of_their_trees(batch, rounds):
    recipe, fed = counted(n_trees=T, batch=batch, **REFINED, hessian_rounds=S)
    assert kappas(fed) == (S * M, 0, T)
    assert fed.rounds == recipe.largest(SCHEMA).rounds == rounds


def test_histogram_trees_ask_every_feature_on_every_level():
    _, fed = counted(n_trees=T, split="histogram")
    assert levels(fed) == T * M * D
    assert fed.rounds == T * D


def test_the_iterative_hessian_of_histogram_trees_is_free():
    _, fed = counted(n_trees=T, split="histogram", **REFINED)
    assert levels(fed) == T * M * D
    assert kappas(fed)[0] == kappas(fed)[2] == 0
    assert fed.rounds == T * D


@pytest.mark.parametrize("split", ["histogram", "partially_random"])
def test_trees_of_one_feature_ask_one_histogram_each(split):
    recipe, fed = counted(n_trees=T, split=split, order="cyclic", features_per_tree=1)
    assert kappas(fed) == (0, T, 0)
    assert fed.rounds == recipe.largest(SCHEMA).rounds == T
    assert sum(q.share for q in fed.asked) == 1


# ------------------------------------------------------------------------- that it really iterates
def test_hessians_are_those_of_the_model_so_far_and_each_round_refines_the_last():
    _, fed = counted(n_trees=T, **REFINED, n_bins=8, hessian_rounds=S)
    asked = [q for q in fed.asked if isinstance(q.statistic, Hessians)]
    assert [len(q.statistic.at.trees) for q in asked] == [0, 1, 2]
    assert len({q.by.binning for q in asked}) == S
    schema = fed.schema
    assert runs_of(schema, asked[0].by.binning, 0) == even_runs(schema.grids[0], 8)


def test_histogram_trees_move_their_bins_from_tree_to_tree():
    _, fed = counted(n_trees=4, split="histogram", **REFINED, n_bins=8)
    by_tree = {len(q.statistic.at.trees): q.by.binning for q in fed.asked}
    assert len(set(by_tree.values())) == 4
    assert runs_of(fed.schema, by_tree[0], 0) == even_runs(fed.schema.grids[0], 8)


def test_refined_bins_are_finer_where_hessians_are():
    """Two rows in three lie in the lowest tenth of the range."""
    _, fed = counted(n_trees=6, split="histogram", **REFINED, n_bins=8)
    grid = fed.schema.grids[0]
    ends = (grid.low, *grid.edges, grid.high)

    def low(binning):
        return sum(ends[end] <= 0.1 for _, end in runs_of(fed.schema, binning, 0))

    assert low(fed.binnings[0]) < low(fed.binnings[-1])


def test_a_flow_that_asks_nothing_can_be_watched():
    def silent():
        yield from ()
        return 7

    assert run(watched(silent()), None) == (7, [])


# ---------------------------------------------------------------------------- one table, all levels
def test_a_tree_of_one_feature_is_the_tree_of_a_table_a_level():
    """Without noise, the root's table tells what a table at every node would."""
    one = {"n_trees": 1, "split": "histogram", "order": "cyclic", "max_depth": 3}
    alone, _ = grown(features_per_tree=1, **one)
    first = Schema(SCHEMA.features[:1], classes=SCHEMA.classes)
    nodes, _ = grown(first, **one)
    assert [t and t.left for t in alone.tests] == [t and t.left for t in nodes.tests]
    assert sum(t is not None for t in alone.tests) >= 3
    assert np.allclose(alone.values, nodes.values)


def grown(schema=SCHEMA, **options):
    recipe = ComponentBoosting(update="newton", **options)
    fed = Counting(recipe.grid(schema))
    trained = run(recipe.flow(fed.schema, fed, np.random.default_rng(0)), fed)
    return trained.model.score.trees[0], fed


def test_a_number_of_hessian_rounds_is_refused_where_it_is_not_used():
    model = hr.ComponentBoostingClassifier(
        split="histogram", candidates="iterative_hessian", hessian_rounds=3
    )
    with pytest.raises(hr.SpecError, match="hessian_rounds is 3"):
        model._recipe(SCHEMA)
