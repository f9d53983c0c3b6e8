"""The rivals of median forests: nodes with a child for every bin, within the budget they name."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from hedgerow.errors import UnsupportedQuery
from hedgerow.federation.wire import Receiver, Sender
from hedgerow.methods.multiway import (
    Branch,
    MultiwayForestMethod,
    Parting,
    PrunedMultiwayForest,
    _prune,
)
from hedgerow.models.tree import Tree
from hedgerow.privacy.accounting.budget import DPModel
from hedgerow.privacy.queries import LATTICE, MultiwaySplit, Score, Scoring, SelectQuery
from hedgerow.schema.regions import EVERYONE
from hedgerow.schema.schema import Numeric, Schema
from studies.simulation import Sites, study_of, train
from support.examples import scores
from support.worlds import TWO, VALUE, sample

RIVALS = {
    "DP-RF": MultiwayForestMethod(n_estimators=3, max_depth=2, max_features=2),
    "DP-DF": PrunedMultiwayForest(n_estimators=3, max_depth=3, min_samples_split=10.0),
}


def sites(schema=TWO, n_sites=1):
    X, y = sample(300, schema)
    return Sites(X, y, np.arange(300) % n_sites, schema)


def parting(schema=TWO):
    return Parting(schema, Scoring(Score.GINI), 1)


# --------------------------------------------------------------------------------------- chains
def test_the_children_of_a_chain_part_all_rows():
    part, codes = parting(), sites().pooled.rows.codes
    for feature, chain in part.chains.items():
        regions = chain.children(EVERYONE)
        leaf = Tree.build(TWO.names, {region: () for region in regions}).apply(codes)
        known = min(part.grids.binning.n_bins[feature] - 1, 5)
        assert len(regions) == known
        assert len(set(zip(codes[feature].tolist(), leaf.tolist(), strict=True))) <= len(
            np.unique(codes[feature])
        )


def test_a_chain_is_scored_by_the_impurity_of_all_its_children():
    part, rows = parting(), sites().pooled.rows
    chains = tuple(part.chains.values())
    query = SelectQuery(EVERYONE, chains, Scoring(Score.GINI), 1)
    for chain, score in zip(chains, scores(query, rows, TWO), strict=True):
        tree = Tree.build(TWO.names, {region: () for region in chain.children(EVERYONE)})
        held = np.zeros((tree.n_leaves, 2))
        np.add.at(held, (tree.apply(rows.codes), rows.labels), 1.0)
        n = np.maximum(held.sum(axis=1), 1.0)
        impurity = (n - (held**2).sum(axis=1) / n) * (held.sum(axis=1) > 0)
        assert score / LATTICE == pytest.approx(-impurity.sum(), abs=0.01)


def test_a_chain_of_one_test_scores_as_the_test():
    rows = sites().pooled.rows
    split = TWO.grids[0].split_values(range(3))
    for score in (Score.GINI, Score.ENTROPY, Score.BALANCE):
        query = SelectQuery(EVERYONE, (split, MultiwaySplit((split,))), Scoring(score), 1)
        alone, chained = scores(query, rows, TWO)
        assert alone == chained


# --------------------------------------------------------------------------------------- budget
@pytest.mark.parametrize("name", RIVALS)
def test_a_rival_spends_the_epsilon_it_names_and_no_more(name):
    method, world = RIVALS[name], sites()
    study = study_of(method, world, 2.0, dp_model=DPModel.CENTRAL)
    trained, spent = train(method, study, world, 0)
    assert spent == 2
    assert len(trained.model.score.trees) == 3


def test_numbers_have_leaves_within_their_range():
    method, world = RIVALS["DP-RF"], sites(VALUE)
    trained, spent = train(method, study_of(method, world, 5.0, dp_model=DPModel.CENTRAL), world, 0)
    said = trained.model.predict(world.pooled.rows.codes)
    assert spent == 5
    assert VALUE.target.low <= said.min() <= said.max() <= VALUE.target.high


def test_a_choice_of_features_needs_one_holder():
    method, world = RIVALS["DP-RF"], sites(n_sites=3)
    with pytest.raises(UnsupportedQuery, match="one site"):
        train(method, study_of(method, world, 2.0), world, 0)


# ------------------------------------------------------------------------------- shape of trees
def test_trees_of_dp_df_differ_in_the_feature_of_the_root():
    method, world = RIVALS["DP-DF"], sites()
    trained, _ = train(method, study_of(method, world, 50.0, dp_model=DPModel.CENTRAL), world, 0)
    assert len({tree.tests[0].feature for tree in trained.model.score.trees}) == 3


def families(below):
    """A root with one child at the third level that has two children holding `below`."""
    schema = Schema((Numeric("x", 0.0, 1.0, bins=8),), classes=("a", "b"))
    tests = [schema.grids[0].split_values(range(k)) for k in (4, 2, 1)]
    root = Branch(EVERYONE, ())
    a, b = (Branch(r, (), 1) for r in MultiwaySplit((tests[0],)).children(EVERYONE))
    c, d = (Branch(r, (), 2) for r in MultiwaySplit((tests[1],)).children(a.region))
    e, f = (Branch(r, (), 3) for r in MultiwaySplit((tests[2],)).children(c.region))
    held = dict.fromkeys([n.region for n in (root, a, b, d)], np.array([20.0, 20.0]))
    held |= {c.region: np.array([10.0, 10.0])}
    held |= {n.region: np.array(m) for n, m in zip((e, f), below, strict=True)}
    return held, {root: [a, b], a: [c, d], c: [e, f]}, c


def test_children_no_purer_than_their_parent_are_pruned():
    held, family, parent = families(([5.0, 5.0], [5.0, 5.0]))
    assert parent.region in _prune(held, family)


def test_purer_children_stay_and_so_do_the_levels_at_the_top():
    """Twin: the parent is no leaf then. The root's other children are impure and stay."""
    held, family, parent = families(([10.0, 0.0], [0.0, 10.0]))
    kept = _prune(held, family)
    assert parent.region not in kept
    assert len(kept) == 4


def test_a_chain_travels_as_it_is():
    query = SelectQuery(
        EVERYONE, tuple(parting().chains.values()), Scoring(Score.GINI), Fraction(1, 3)
    )
    assert Receiver().decode(Sender().encode([query]))[0] == [query]
