"""Consistency upwards, shrinkage downwards, and merging of equal labels."""

from __future__ import annotations

import numpy as np
import pytest

from hedgerow.methods.blocks.builder import Node, assemble
from hedgerow.methods.blocks.leaves import (
    Shrinkage,
    complete_means,
    complete_proportions,
    consistent_upwards,
    level_sums,
    merge_equal_labels,
    shrunk_proportions,
)
from hedgerow.models.uncertainty import LeafValue
from hedgerow.schema.regions import EVERYONE, Step
from hedgerow.schema.schema import Numeric, Schema

SCHEMA = Schema((Numeric("x", 0.0, 1.0, bins=8), Numeric("z", 0.0, 1.0, bins=8)))
X, Z = (grid.split_values(range(4)) for grid in SCHEMA.grids)
LEFT, RIGHT = (Step(X, 0),), (Step(X, 1),)


def test_a_parent_is_averaged_with_the_sum_of_its_children_by_their_variances():
    leaves = {LEFT: (np.array([10.0, 0.0]), 1.0), RIGHT: (np.array([0.0, 10.0]), 1.0)}
    nodes = consistent_upwards(leaves, {EVERYONE: (np.array([14.0, 14.0]), 2.0)})
    masses, variance = nodes[EVERYONE]
    assert np.allclose(masses, [12.0, 12.0])
    assert variance == pytest.approx(1.0)


def test_parents_come_before_children():
    leaves = {LEFT: (np.ones(2), 1.0), RIGHT: (np.ones(2), 1.0)}
    assert next(iter(consistent_upwards(leaves, {EVERYONE: (np.ones(2), 1.0)}))) == EVERYONE


def test_a_leaf_leans_on_its_parent_the_more_the_noisier_it_is():
    def leaf(variance):
        leaves = {LEFT: (np.array([0.0, 20.0]), variance), RIGHT: (np.array([100.0, 0.0]), 1.0)}
        nodes = consistent_upwards(leaves, {EVERYONE: (np.array([100.0, 20.0]), 1.0)})
        return shrunk_proportions(nodes, Shrinkage(2.0))[LEFT]

    assert leaf(1.0)[1] > leaf(100.0)[1] > leaf(10_000.0)[1]
    assert leaf(1.0).sum() == pytest.approx(1.0)


def test_without_noise_a_large_leaf_says_its_own_proportions():
    nodes = {EVERYONE: (np.array([3e6, 1e6]), 0.0)}
    assert shrunk_proportions(nodes, Shrinkage(2.0))[EVERYONE] == pytest.approx(
        [0.75, 0.25], abs=1e-5
    )


def test_level_sums_add_up():
    leaves = np.arange(16.0).reshape(1, 8, 2)
    levels = level_sums(leaves)
    assert [level.shape[1] for level in levels] == [1, 2, 4, 8]
    assert all(np.allclose(level.sum(axis=1), leaves.sum(axis=1)) for level in levels)


def test_an_empty_subtree_says_what_its_parent_says():
    leaves = np.array([[[30.0, 10.0], [10.0, 30.0], [0.0, 0.0], [0.0, 0.0]]])
    p = complete_proportions(leaves, 0.0, np.array([0.5, 0.5]), 0.5)[0][0]
    right = p[2]
    assert np.allclose(p[5], right)
    assert np.allclose(p[6], right)
    assert np.allclose(p.sum(axis=1), 1.0)


def test_the_noise_of_all_leaves_does_not_move_the_shares_of_everybody():
    prior = np.array([0.9, 0.1])
    leaves = np.random.default_rng(0).normal(0.0, 100.0, (5, 8, 2))
    p, moved = complete_proportions(leaves, 1e4, prior, 0.5)
    assert p.shape == moved.shape == (5, 15, 2)
    assert (p[:, 0] == prior).all()
    assert not moved[:, 0].any()
    assert (p[:, 1] != prior).any()


def test_noise_moves_a_leaning_leaf_less_than_one_that_stands_alone():
    prior = np.array([0.9, 0.1])
    leaves = 20.0 * prior + np.random.default_rng(0).normal(0.0, 20.0, (50, 16, 2))
    p = complete_proportions(leaves, 400.0, prior, 0.5)[0][:, -16:]
    alone = np.maximum(leaves, 0.0) + 1e-9
    alone /= alone.sum(axis=2, keepdims=True)
    assert ((p - prior) ** 2).mean() < 0.8 * ((alone - prior) ** 2).mean()


def test_noisy_means_are_pulled_to_their_parents():
    rng = np.random.default_rng(1)
    truth = np.repeat([0.5, -0.5], 4)
    n = np.full(8, 100.0)
    error, raw_error = 0.0, 0.0
    for _ in range(50):
        sums = n * truth + rng.normal(0.0, 40.0, 8)
        means = complete_means(np.stack([n, sums], axis=1), 1600.0, 1600.0, 0.3)[0][-8:]
        error += ((means - truth) ** 2).mean()
        raw_error += ((np.clip(sums / n, -1, 1) - truth) ** 2).mean()
    assert error < 0.6 * raw_error


def small_tree(labels):
    """Four leaves below two levels; each names the class it is told to."""
    regions = [(Step(X, i), Step(Z, j)) for i in (0, 1) for j in (0, 1)]
    values = [
        LeafValue(np.array([0.8, 0.2] if k == 0 else [0.3, 0.7]), np.array([4.0, 4.0]), 2.0)
        for k in labels
    ]
    return assemble(EVERYONE, [Node(r, 2) for r in regions], values, SCHEMA.names)


@pytest.mark.parametrize(
    ("labels", "leaves"), [((0, 0, 1, 1), 2), ((0, 0, 0, 1), 3), ((0, 1, 0, 1), 4), ((1,) * 4, 1)]
)
def test_siblings_of_one_label_merge_and_no_label_changes(labels, leaves):
    grown = small_tree(labels)
    merged = merge_equal_labels(grown)
    codes = np.random.default_rng(0).integers(0, 9, (2, 200)).astype(np.uint8)
    assert merged.tree.n_leaves == leaves
    assert np.array_equal(
        merged.tree.predict(codes).argmax(axis=1), grown.tree.predict(codes).argmax(axis=1)
    )
    assert sum(leaf.masses.sum() for leaf in merged.leaves) == 32.0
