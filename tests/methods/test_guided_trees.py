"""Structure from root tables alone: complete, within reach, and better than chance."""

from __future__ import annotations

import numpy as np
import pytest

from hedgerow.methods.blocks.guided_trees import (
    NO_SPLIT,
    feature_weights,
    guided_skeletons,
    on_last_level,
    shapes_of,
)
from hedgerow.methods.blocks.tables import Belief
from hedgerow.methods.forest import root_weights
from hedgerow.privacy.queries import Binning
from hedgerow.schema.candidates import Grids
from hedgerow.schema.regions import Split
from hedgerow.schema.schema import Categorical, Numeric, Schema

SCHEMA = Schema(
    (Numeric("x", 0.0, 1.0, bins=7), Numeric("z", 0.0, 1.0, bins=5), Categorical("c", ("a",))),
    classes=("no", "yes"),
)
GRIDS = Grids(SCHEMA, Binning.of_cells(SCHEMA))


def belief(signal=3.0):
    """Only the first feature tells the classes apart."""
    n_bins = GRIDS.binning.n_bins
    masses = np.zeros((3, max(n_bins), 2))
    for j, n in enumerate(n_bins):
        masses[j, :n] = 1000.0 / n
    masses[0, : n_bins[0], 1] *= np.linspace(1.0 / signal, signal, n_bins[0])
    possible = np.arange(max(n_bins))[None, :] < np.asarray(n_bins)[:, None]
    return Belief((0, 1, 2), masses, np.ones_like(masses), possible, np.array([1e3, 1e3]), 1.0)


def skeletons(depth=4, n_estimators=6, seed=0, tries=4, weights=(1.0, 1.0, 1.0)):
    rng = np.random.default_rng(seed)
    return guided_skeletons(belief(), np.array(weights), n_estimators, depth, tries, rng)


def test_equal_seeds_give_equal_trees_and_others_differ():
    assert np.array_equal(skeletons(seed=1).feature, skeletons(seed=1).feature)
    assert not np.array_equal(skeletons(seed=1).cut, skeletons(seed=2).cut)


def test_the_feature_that_tells_classes_apart_is_tested_first_most_often():
    roots = skeletons(n_estimators=200).feature[:, 0]
    assert (roots == 0).mean() > 0.6


def test_no_split_leaves_a_side_without_a_possible_bin():
    """Twin of the routing: every leaf's region holds at least one cell of every feature."""
    for shape in shapes_of(skeletons(depth=6), GRIDS):
        for region in shape.tree.regions():
            for j, grid in enumerate(SCHEMA.grids):
                assert GRIDS.reachable(region, j).any(), grid.feature


def test_a_tree_ends_where_nothing_is_left_to_split():
    """7 x 5 x 3 bins and more levels than they can part: some branch must end early."""
    deep = skeletons(depth=8, n_estimators=2)
    assert (deep.feature == NO_SPLIT).any()
    for shape in shapes_of(deep, GRIDS):
        assert shape.tree.n_leaves == len(shape.leaf_at) <= 2**8


def test_a_complete_tree_has_all_its_leaves_on_the_last_level():
    (shape,) = shapes_of(skeletons(depth=2, n_estimators=1), GRIDS)
    assert list(shape.leaf_at) == [3, 4, 5, 6]
    assert all(isinstance(t, Split) for t in shape.tree.tests if t is not None)


def test_leaf_sums_land_below_their_leaf_and_none_is_lost():
    shapes = shapes_of(skeletons(depth=8, n_estimators=3), GRIDS)
    width = max(s.tree.n_leaves for s in shapes)
    sums = np.zeros((3, width, 2))
    for row, shape in zip(sums, shapes, strict=True):
        row[: shape.tree.n_leaves] = np.random.default_rng(0).random((shape.tree.n_leaves, 2))
    placed = on_last_level(shapes, sums, 8)
    assert placed.shape == (3, 256, 2)
    assert np.allclose(placed.sum(axis=1), sums.sum(axis=1))


def test_a_feature_without_gain_keeps_a_small_chance():
    weights = feature_weights(np.array([100.0, 25.0, -np.inf]))
    assert weights == pytest.approx([1.1, 0.6, 0.1])
    assert feature_weights(np.array([-np.inf, -np.inf])) == pytest.approx([1.1, 1.1])


def test_a_hundred_columns_of_noise_take_few_places_where_they_are_screened():
    """Three columns tell the classes apart; the others hold the same shares in every bin."""
    rng, n = np.random.default_rng(0), 103
    masses = np.full((n, 6, 2), 500.0)
    masses[:3, :, 0] = np.linspace(100.0, 900.0, 6)
    masses[:3, :, 1] = np.linspace(900.0, 100.0, 6)
    noisy = masses + rng.normal(0.0, 10.0, masses.shape)
    belief = Belief(
        tuple(range(n)),
        noisy,
        np.full(masses.shape, 100.0),
        np.ones((n, 6), bool),
        np.array([3000.0, 3000.0]),
        1.0,
    )
    for screens, most in ((True, 0.5), (False, 1.0)):
        weights = root_weights(belief, screens)
        of_noise = float(weights[3:].sum() / weights.sum())
        assert of_noise < most
        assert screens or of_noise > 0.7  # what screening is there for
