"""The opening round: a signal-to-noise ratio, and the useful range of a target."""

from __future__ import annotations

import numpy as np
import pytest

from hedgerow.learning import goal
from hedgerow.learning.goal import TARGET_CELLS, target_edges, target_shape
from hedgerow.queries import Answer
from hedgerow.recipes.ours.boost_numbers import class_cuts, class_means
from hedgerow.recipes.ours.forest import forest_constants
from hedgerow.recipes.ours.tree import tree_constants, usual_depth
from hedgerow.values.schema import Numeric, Schema, Target

TARGET = Target(0.0, 100.0)


def answered(y, variance, seed=0):
    counts = np.histogram(y, np.linspace(0.0, 100.0, TARGET_CELLS + 1))[0].astype(float)
    noise = np.random.default_rng(seed).normal(0.0, np.sqrt(variance), TARGET_CELLS)
    return Answer((counts + noise)[None, :, None], variance)


def drawn(n=50_000):
    return np.clip(np.random.default_rng(1).normal(30.0, 5.0, n), 0.0, 100.0)


def test_there_are_as_many_cells_as_declared():
    assert len(target_edges(TARGET)) + 1 == TARGET_CELLS


def test_the_clip_is_close_to_the_quantiles_it_stands_for():
    y = drawn()
    shape = target_shape(TARGET, answered(y, 4.0), len(y))
    low, high = np.quantile(y, [0.001, 0.999])
    assert shape.low == pytest.approx(low, abs=2.5)
    assert shape.high == pytest.approx(high, abs=3.0)
    assert shape.spread == pytest.approx(25.0 / (shape.high - shape.low) ** 2, rel=0.1)


def test_noise_that_hides_single_cells_leaves_merged_ones():
    y = drawn(20_000)
    shape = target_shape(TARGET, answered(y, 900.0), len(y))
    assert 5.0 < shape.low < 30.0 < shape.high < 60.0


def too_wide(draws=100):
    """How many of some clips leave the data, if the range is a hundred times as wide as they."""
    y = np.clip(np.random.default_rng(1).normal(30.0, 0.1, 20_000), 0.0, 100.0)
    shapes = [target_shape(TARGET, answered(y, 900.0, seed), len(y)) for seed in range(draws)]
    return sum(not 29.0 < shape.low < shape.high < 31.0 for shape in shapes)


def test_in_a_range_far_too_wide_cells_of_noise_hardly_ever_widen_the_clip(monkeypatch):
    assert too_wide() <= 5
    monkeypatch.setattr(goal, "ALONE_STANDS_OUT", goal.TARGET_STANDS_OUT)
    assert too_wide() > 50


def test_noise_that_hides_everything_leaves_the_public_range():
    y = drawn(500)
    shape = target_shape(TARGET, answered(y, 1e6), len(y))
    assert shape.low < 0.5
    assert shape.high > 99.5


def test_target_classes_hold_equal_parts_and_their_means_rise():
    y = drawn()
    shape = target_shape(TARGET, answered(y, 4.0), len(y))
    cuts = class_cuts(shape)
    parts = np.bincount(np.searchsorted(cuts, y, side="right")) / len(y)
    assert len(cuts) == 7
    assert parts.max() < 1.5 * parts.min()
    means = class_means(shape, cuts)
    assert (np.diff(means) > 0).all()
    assert means @ parts == pytest.approx(y.mean(), abs=0.3)


@pytest.mark.parametrize("is_pure", [True, False])
def test_more_signal_never_means_coarser_bins_or_shallower_trees(is_pure):
    signals = [1.0, 29.0, 31.0, 299.0, 301.0, 999.0, 1001.0, 1e9]
    trees = [tree_constants(s, is_pure) for s in signals]
    forests = [forest_constants(s, is_pure) for s in signals]
    for read in (lambda c: c.pieces.cells, lambda c: c.pieces.bins, lambda c: c.max_depth):
        assert [read(c) for c in trees] == sorted(read(c) for c in trees)
    assert [c.depth for c in forests] == sorted(c.depth for c in forests)


@pytest.mark.parametrize(("n_classes", "depth"), [(0, 6), (2, 6), (3, 6), (4, 7), (10, 8), (26, 9)])
def test_a_tree_is_one_level_deeper_whenever_the_classes_double(n_classes, depth):
    classes = tuple(str(k) for k in range(n_classes)) or None
    target = None if classes else TARGET
    schema = Schema((Numeric("x", 0.0, 1.0),), classes=classes, target=target)
    assert usual_depth(schema) == depth
