"""No transcript of a best-first tree spends more than the whole budget on any path."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import get_args

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hedgerow.methods.blocks import leaves
from hedgerow.methods.blocks.builder import BestFirst, TreePlan, grow
from hedgerow.methods.blocks.flow import run
from hedgerow.methods.wang import Finding, TopDown
from hedgerow.privacy.accounting.budget import Measure
from hedgerow.privacy.ledger.charges import Charge, worst_total
from hedgerow.privacy.queries import (
    Answer,
    Binning,
    ClassCounts,
    LocalChoice,
    Picks,
    Query,
    Reply,
    SelectQuery,
    Summed,
)
from hedgerow.schema.candidates import Grids
from support.worlds import THREE, TWO, watched_ends


class Dice:
    """Answers anything: replies are random, and every charge is kept as a share of the whole."""

    def __init__(self, seed: int, parties: int = 3) -> None:
        self.rng = np.random.default_rng(seed)
        self.parties, self.lattice, self.is_pure = parties, 64, True
        self.charges: list[Charge] = []
        self.rounds: list[Sequence[Query]] = []

    def variance(self, query: Summed) -> float:
        return 1.0 / float(query.share)

    def ask(self, queries: Sequence[Query]) -> list[Reply]:
        self.rounds.append(queries)
        self.charges += [Charge(q.region, q.share, "", "test", Measure.PURE) for q in queries]
        return [self._reply(q) for q in queries]

    def _reply(self, query: Query) -> Reply:
        if isinstance(query, SelectQuery | LocalChoice):
            picks = 1 if isinstance(query, SelectQuery) else self.parties
            return Picks(tuple(int(k) for k in self.rng.integers(0, query.n_candidates, picks)))
        return Answer(self.rng.normal(400.0, 300.0, query.shape), self.variance(query))


def recipes() -> st.SearchStrategy[TopDown]:
    splits = st.integers(1, 12)
    return splits.flatmap(
        lambda m: st.builds(
            TopDown,
            max_splits=st.just(m),
            split=st.sampled_from(get_args(Finding)),
            criterion=st.sampled_from(["entropy", "gini"]),
            budget=st.sampled_from(["decay", "even", lambda d, m=m: Fraction(m + 1 - d, m * m)]),
            leaf_share=st.sampled_from([Fraction(1, 10), Fraction(1, 2), Fraction(9, 10)]),
            min_fraction_split=st.sampled_from([0.0, 0.05]),
            min_gain=st.sampled_from([-10.0, 0.01]),
        )
    )


@settings(max_examples=80, deadline=None)
@given(recipe=recipes(), seed=st.integers(0, 2**32 - 1), schema=st.sampled_from([TWO, THREE]))
def test_every_path_spends_the_whole_budget_and_no_more(recipe, seed, schema):
    """What splits leave unspent goes to the leaves, so the sum is exact."""
    dice = Dice(seed)
    with watched_ends() as ends:
        trained = run(recipe.flow(schema, dice, np.random.default_rng(0)), dice)
    assert worst_total(dice.charges) == 1
    (grown,) = trained.grown
    assert grown.tree.n_leaves <= recipe.max_splits + 1
    assert all(node.spent <= 1 - recipe.leaf_share for node in ends)


class OnceMore(BestFirst):
    """The paper's loop: children of the last split are asked too, and never split."""

    def is_open(self, n_splits: int) -> bool:
        return n_splits <= self.max_splits

    def take(self, pending, n_splits):
        return BestFirst.take(self, pending, n_splits) if n_splits < self.max_splits else []


@pytest.mark.parametrize(
    ("frontier", "spent"), [(BestFirst(1), Fraction(1)), (OnceMore(1), Fraction(3, 2))]
)
def test_asking_the_children_of_the_last_split_would_break_the_budget(frontier, spent):
    """Twin: a tree of M splits is then asked at depth M + 1, which sum_{d <= M} B(d) leaves out."""
    recipe = TopDown(max_splits=1, budget="even", min_fraction_split=0.0, min_gain=-10.0)
    grids, counts, dice = Grids(TWO, Binning.of_cells(TWO)), ClassCounts(2), Dice(1)
    ends = leaves.by_query(counts, lambda node: Fraction(1, 2))
    plan = TreePlan(recipe._by_tables(grids, counts, dice), frontier, 2, ends)
    run(grow(plan, TWO.names, np.random.default_rng(0)), dice)
    assert worst_total(dice.charges) == spent


@pytest.mark.parametrize(
    ("finding", "a_split"),
    [("noisy_counts", 1), ("local_choice", 2), ("choice", 2)],
)
def test_a_split_takes_one_round_from_tables_and_two_from_choices(finding, a_split):
    """Both children are asked in one round; the leaves of the whole tree take one more."""
    recipe = TopDown(max_splits=6, split=finding, min_fraction_split=0.0, min_gain=-10.0)
    dice = Dice(5, parties=1 if finding == "choice" else 3)
    (grown,) = run(recipe.flow(TWO, dice, np.random.default_rng(0)), dice).grown
    assert grown.tree.n_leaves == 7
    assert len(dice.rounds) == a_split * 6 + 1 == recipe.largest(TWO).rounds
    assert [len(r) for r in dice.rounds[:-1]] == [1] * a_split + [2] * (a_split * 5)
