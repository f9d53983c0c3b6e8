"""The opening round: a signal-to-noise ratio, and the useful range of a target."""

from __future__ import annotations

import numpy as np
import pytest

from hedgerow.methods.blocks import target
from hedgerow.methods.blocks.calibration import LEAST_TO_LEVEL, MOST_TO_LEVEL, BiasCorrection
from hedgerow.methods.blocks.flow import run
from hedgerow.methods.blocks.target import (
    MOST_UNSEEN,
    PURE_WIDTHS,
    TARGET_FRACTION,
    WIDTHS,
    target_queries,
    target_shape,
)
from hedgerow.methods.boosting_numbers import class_cuts, class_means
from hedgerow.methods.forest import forest_constants
from hedgerow.methods.tree import tree_constants, usual_depth
from hedgerow.models.model import Additive
from hedgerow.privacy.queries import Answer
from hedgerow.schema.schema import Numeric, Schema, Target

TARGET = Target(0.0, 100.0)


def answered(y, variance, seed=0, widths=WIDTHS):
    """Counts at every width, each with noise of this variance."""
    rng = np.random.default_rng(seed)
    counts = [np.histogram(y, np.linspace(0.0, 100.0, n + 1))[0].astype(float) for n in widths]
    return [
        Answer((c + rng.normal(0.0, np.sqrt(variance), len(c)))[None, :, None], variance)
        for c in counts
    ]


def drawn(n=50_000):
    return np.clip(np.random.default_rng(1).normal(30.0, 5.0, n), 0.0, 100.0)


def skewed(n=20_000):
    return np.clip(np.random.default_rng(1).lognormal(1.5, 1.0, n), 0.0, 100.0)


def lost(y, shape):
    """Part of the variance that the clip cuts away."""
    return np.mean((y - np.clip(y, shape.low, shape.high)) ** 2) / y.var()


@pytest.mark.parametrize(("is_pure", "widths"), [(False, WIDTHS), (True, PURE_WIDTHS)])
def test_all_widths_are_asked_and_share_the_budget(is_pure, widths):
    queries = target_queries(TARGET, is_pure, TARGET_FRACTION)
    assert [len(query.by.edges) + 1 for query in queries] == list(widths)
    assert sum(query.fraction for query in queries) == TARGET_FRACTION


def test_the_clip_is_close_to_the_quantiles_it_stands_for():
    y = drawn()
    shape = target_shape(TARGET, answered(y, 4.0), len(y))
    low, high = np.quantile(y, [0.001, 0.999])
    assert shape.low == pytest.approx(low, abs=2.5)
    assert shape.high == pytest.approx(high, abs=3.0)
    assert shape.spread == pytest.approx(25.0 / (shape.high - shape.low) ** 2, rel=0.1)


def test_noise_that_hides_single_cells_leaves_wider_ones():
    y = drawn(20_000)
    shape = target_shape(TARGET, answered(y, 900.0), len(y))
    assert 5.0 < shape.low < 30.0 < shape.high < 60.0


def test_a_tail_is_kept_that_a_flat_histogram_would_lose():
    """All of the budget for the finest width leaves a fifth of the noise, and loses the tail."""
    y = skewed()
    assert lost(y, target_shape(TARGET, answered(y, 1000.0), len(y))) < 0.1
    assert lost(y, target_shape(TARGET, answered(y, 200.0, widths=WIDTHS[-1:]), len(y))) > 0.3


def too_wide(draws=100):
    """How many of some clips leave the data, if the range is a hundred times as wide as they."""
    y = np.clip(np.random.default_rng(1).normal(30.0, 0.1, 20_000), 0.0, 100.0)
    shapes = [target_shape(TARGET, answered(y, 900.0, seed), len(y)) for seed in range(draws)]
    return sum(not 29.0 < shape.low < shape.high < 31.0 for shape in shapes)


def test_in_a_range_far_too_wide_cells_of_noise_hardly_ever_widen_the_clip(monkeypatch):
    assert too_wide() <= 5
    monkeypatch.setattr(target, "TARGET_STANDS_OUT", 1.0)
    assert too_wide() > 50


def test_noise_that_hides_everything_leaves_the_public_range():
    y = drawn(500)
    shape = target_shape(TARGET, answered(y, 1e6), len(y))
    assert not shape.is_seen
    assert shape.low < 0.5
    assert shape.high > 99.5


def test_a_cell_that_may_hide_many_rows_is_not_left_out():
    """Half of the rows are in each of two quarters; noise of a twelfth lets one be seen alone."""
    y = np.repeat([30.0, 60.0], 500)

    def is_cut(most_unseen):
        answers = [answered(y, 150.0**2, seed) for seed in range(50)]
        shapes = [target_shape(TARGET, told, 1000, most_unseen) for told in answers]
        return any(not shape.low <= 30.0 < 60.0 <= shape.high for shape in shapes)

    assert not is_cut(MOST_UNSEEN)
    assert is_cut(1.0)


class Missing:
    """Stands for the sites: every record is missed by so much, seen through this noise."""

    is_pure = False

    def __init__(self, missed, rows, deviation, reach):
        self.missed, self.rows, self.deviation, self.reach = missed, rows, deviation, reach

    def variance(self, query):
        return self.deviation**2 * float(MOST_TO_LEVEL / query.fraction)

    def ask(self, queries):
        total = -self.rows * self.missed / self.reach
        return [Answer(np.array([[[total, 0.0]]]), self.variance(query)) for query in queries]


def levelled(missed, deviation, rows=10_000.0):
    shape = target_shape(TARGET, answered(drawn(), 4.0), 50_000)
    reach = min(4.0 * (shape.high - shape.low), 100.0)
    sites = Missing(missed, rows, deviation, reach)
    bias_correction = BiasCorrection.of(TARGET, shape, rows, sites)
    return run(bias_correction.shift(Additive((0.0,))), sites), bias_correction


def test_what_the_clip_cut_away_is_given_back_and_noise_is_not():
    assert levelled(3.0, 1.0)[0] == pytest.approx(3.0, abs=1e-3)
    assert levelled(3.0, 1000.0)[0] == 0.0
    assert 0.0 < levelled(3.0, 200.0)[0] < 3.0


def test_levelling_spends_what_precision_needs():
    shares = [levelled(3.0, deviation)[1].fraction for deviation in (0.1, 10.0, 20.0, 1000.0)]
    assert shares == sorted(shares)
    assert (shares[0], shares[-1]) == (LEAST_TO_LEVEL, MOST_TO_LEVEL)


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
