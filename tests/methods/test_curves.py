"""Curves, stacking, leaf values and drawn trees: post-processing that must be right on its own."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from hedgerow.errors import ParameterError
from hedgerow.methods import forest
from hedgerow.methods.blocks import curves as smoothing
from hedgerow.methods.blocks import newton_steps, random_trees
from hedgerow.methods.blocks import random_trees as feature_draws
from hedgerow.methods.blocks.boosting import Batch, DrawnTrees
from hedgerow.methods.blocks.curves import LARGEST_STEP, newton_step
from hedgerow.methods.blocks.flow import run
from hedgerow.methods.forest import (
    CALIBRATION_FRACTION,
    EDGES,
    MAX_CALIBRATION_FRACTION,
    ClassTotals,
    GuidedForest,
    Line,
    calibration_fraction,
    fit_line,
)
from hedgerow.models.losses import FirstOrder, LogLoss, SquaredLoss, sigmoid
from hedgerow.models.model import Additive, Curve, Output
from hedgerow.privacy.queries import Answer, Binning, CurveNewton, Fractions
from hedgerow.schema.candidates import Grids
from support.worlds import TWO, federation, sample, site_rows, study

GRIDS = Grids(TWO, Binning.of_cells(TWO))


# ----------------------------------------------------------------------------------- smoothing
def histogram(log_odds, n=5000.0):
    p = sigmoid(np.asarray(log_odds))
    return n * np.stack([1 - p, p], axis=1)


def test_without_noise_a_curve_is_the_log_odds_themselves():
    truth = np.linspace(-1.5, 1.5, 12)
    found = smoothing.curve(histogram(truth), np.zeros(1), 1e-9, is_numeric=True)[0][:, 0]
    assert np.abs(found - truth).max() < 0.1


def test_a_histogram_of_noise_alone_gives_a_flat_curve():
    rng = np.random.default_rng(0)
    counts = histogram(np.zeros(12), 50.0) + rng.normal(0, 100.0, (12, 2))
    found, _ = smoothing.curve(counts, np.zeros(1), 100.0**2, is_numeric=True)
    assert np.abs(found).max() < 0.1


def test_smoothing_is_nearer_to_the_truth_than_the_noisy_histogram():
    rng = np.random.default_rng(1)
    truth = np.sin(np.linspace(0, 3, 24))
    exact = histogram(truth, 400.0)
    noisy = exact + rng.normal(0, 40.0, exact.shape)
    found = smoothing.curve(noisy, np.zeros(1), 40.0**2, is_numeric=True)[0][:, 0]
    raw = np.log(np.maximum(noisy[:, 1], 1.0) / np.maximum(noisy[:, 0], 1.0))
    assert np.square(found - truth).mean() < 0.5 * np.square(raw - truth).mean()


def test_curves_of_three_classes_order_the_classes_as_the_counts_do():
    counts = np.array([[90.0, 5.0, 5.0], [5.0, 90.0, 5.0], [5.0, 5.0, 90.0], [0, 0, 0]]) * 50
    base = smoothing.log_prior(counts.sum(axis=0))
    found, _ = smoothing.curve(counts, base, 1.0, is_numeric=False)
    assert found[:3].argmax(axis=1).tolist() == [0, 1, 2]


# ------------------------------------------------------------------------------------ stacking
def newton_problem():
    curves = tuple(Curve(j, tuple((0.1,) for _ in range(5))) for j in range(2))
    statistic = CurveNewton(curves, 0.5, 2.0, (0.5, 0.5, 0.0), 0.0)
    gradient = np.array([10.0, -6.0, 2.0])
    hessian = np.array([[300.0, 50.0, 0.0], [50.0, 200.0, 10.0], [0.0, 10.0, 100.0]])
    upper = hessian[np.triu_indices(3)] * 3.33 / 4.0
    return statistic, gradient, hessian, np.concatenate([gradient / 2.0, upper])


def test_without_noise_a_step_is_newtons_own():
    statistic, gradient, hessian, sums = newton_problem()
    step, _, _ = newton_step(statistic, Answer(sums[None, None, :], 0.0))
    assert np.allclose(step, np.linalg.solve(hessian, gradient))


def test_under_heavy_noise_a_step_hardly_moves_and_is_never_longer_than_allowed():
    statistic, _, _, sums = newton_problem()
    heavy, _, _ = newton_step(statistic, Answer(sums[None, None, :], 1e12))
    assert np.abs(heavy).max() < 1e-3
    wild, _, _ = newton_step(
        statistic, Answer(1e6 * sums[None, None, :] * [1, 1, 1, *[1e-7] * 6], 1.0)
    )
    assert np.abs(wild).max() <= LARGEST_STEP * (1 + 1e-9)


# -------------------------------------------------------------------------------------- leaves
def test_a_newton_leaf_is_clipped_and_a_negative_hessian_counts_as_zero():
    step = newton_steps.Steps(LogLoss(), clip=2.0, ridge=1.0)
    sums = np.array([[-6.0, 3.33 * 2.0], [50.0, -3.0]])
    assert np.allclose(step.values(sums, 0.0)[:, 0], [2.0, -2.0])
    assert np.allclose(step.values(np.array([[1.0, 3.33 * 4.0]]), 0.0), -0.2)


def test_a_thin_leaf_says_what_its_tree_says_and_without_noise_every_leaf_speaks_for_itself():
    step = newton_steps.Steps(LogLoss(), ridge=0.0)
    # At p = 1/2, one record in ten is a hit everywhere; the second leaf has five records only.
    sums = np.array([[0.4 * 5000, 3.33 * 0.25 * 5000], [0.4 * 5, 3.33 * 0.25 * 5]])
    assert np.allclose(step.values(sums, 100.0**2), -1.6, atol=0.3)
    thin = np.array([sums[0], [-2.0, sums[1, 1]]])  # four of the five are hits
    assert np.allclose(step.values(thin, 0.0)[1], 1.6)
    assert step.values(thin, 100.0**2)[1, 0] < -1.0


def test_a_leaf_of_a_batch_is_pulled_less_since_the_noise_of_a_mean_is_less():
    alone, together = (_values_of_first_tree(trees_per_round) for trees_per_round in (1, 4))
    assert together[0] < alone[0] < 0.0


def _values_of_first_tree(trees_per_round):
    """Leaves of a tree of which one leaf alone has a gradient, asked beside others like it."""
    tree = random_trees.oblivious_tree(
        GRIDS.schema.names, [GRIDS.split(0, np.arange(GRIDS.binning.n_bins[0]) < 1)]
    )
    splitting = DrawnTrees(lambda number, rng: tree)
    update, at = newton_steps.Steps(LogLoss()), Additive((0.0,))
    batch = Batch(range(trees_per_round), update, at, Fraction(1))
    flow = splitting.grow(batch, np.random.default_rng(0))
    next(flow)
    sums = np.tile([[50.0, 3.33 * 100], [-50.0, 3.33 * 100]], (trees_per_round, 1, 1))
    with pytest.raises(StopIteration) as done:
        flow.send([Answer(sums, 400.0)])
    return done.value.value[0].tree.values[:, 0]


def test_a_gradient_leaf_is_the_mean_negative_gradient():
    step = newton_steps.Steps(FirstOrder(LogLoss()), ridge=0.0)
    assert np.allclose(step.values(np.array([[-30.0, 100.0]]), 0.0), 0.3)


def test_a_squared_loss_leaf_is_the_mean_residual_in_units_of_the_target():
    loss = SquaredLoss(0.0, 10.0, clip=4.0, weight=0.25)
    step = newton_steps.Steps(loss, clip=10.0, ridge=0.0)
    # 20 rows, each 2 below its target: gradient -2 / 4 a row.
    assert np.allclose(step.values(np.array([[-10.0, 5.0]]), 0.0), 2.0)


LEAF_SUMS = np.array([[-20.0, 3.33 * 100], [10.0, 3.33 * 50], [5.0, 3.33 * 80], [0.0, 3.33 * 70]])


def test_wiener_leaves_are_newtons_where_records_abound_and_nothing_under_much_noise():
    update = newton_steps.Wiener(LogLoss(), clip=9.0)
    newton = -LEAF_SUMS[:, 0] / (LEAF_SUMS[:, 1] / 3.33)
    assert np.allclose(update.values(1e6 * LEAF_SUMS, 0.0)[:, 0], newton, atol=1e-4)
    assert np.abs(update.values(LEAF_SUMS, 1e9)).max() < 1e-3


def test_without_noise_wiener_leaves_still_doubt_what_few_records_say():
    """Prior variance d^2 against 1 / h: a leaf of h = 1 / d^2 alone goes half of the way."""
    update = newton_steps.Wiener(LogLoss(), deviation=0.1, alike=0.0)
    assert np.allclose(update.values(np.array([[-10.0, 3.33 * 100.0]] * 2), 0.0), 0.05, atol=1e-6)


def test_the_scatter_of_residuals_is_not_guessed_from_a_count():
    update = newton_steps.Wiener(SquaredLoss(0.0, 10.0, clip=4.0, weight=0.25), clip=9.0)
    assert np.allclose(update.values(np.array([[-10.0, 5.0]] * 2), 0.0), 2.0, atol=1e-5)


def test_wiener_leaves_are_refused_for_trees_that_are_not_complete():
    with pytest.raises(ParameterError, match="oblivious"):
        newton_steps.Wiener(LogLoss()).values(np.ones((3, 2)), 1.0)


def test_an_average_of_a_target_stays_in_its_range():
    update = newton_steps.Averages(Fractions(-2.0, 6.0))
    sums = np.array([[30.0, 10.0], [-3.0, 5.0], [-1.0, -1.0]])
    assert np.allclose(update.values(sums, 1.0)[:, 0], [0.0, 6.0, 2.0])


# --------------------------------------------------------------------------------------- trees
def test_cyclic_order_visits_every_feature_and_one_feature_at_a_time_is_the_ebm():
    rng = np.random.default_rng(0)
    draw = feature_draws.cyclic(3, 1)
    assert [draw(t, rng) for t in range(4)] == [(0,), (1,), (2,), (0,)]
    tree = random_trees.totally_random(GRIDS, draw, 4)(1, rng)
    assert {test.feature for test in tree.tests if test is not None} == {"dose"}


def test_no_random_split_sends_all_that_can_reach_it_one_way():
    rng = np.random.default_rng(0)
    for number in range(40):
        tree = random_trees.totally_random(GRIDS, feature_draws.random(3, 3), 4)(number, rng)
        for region in tree.regions():
            for feature in range(3):
                assert GRIDS.reachable(region, feature).any()


def test_an_oblivious_tree_is_complete_with_one_test_a_level():
    rng = np.random.default_rng(0)
    known = [
        random_trees.DrawableFeature(j, np.ones(GRIDS.binning.n_bins[j]), 1.0) for j in range(3)
    ]
    tree = random_trees.oblivious(GRIDS, known, 3)(0, rng)
    levels = {tuple(step.test for step in region) for region in tree.regions()}
    assert len(levels) == 1
    assert tree.n_leaves == 8


def test_oblivious_cuts_leave_records_on_both_sides():
    rng = np.random.default_rng(0)
    mass = np.zeros(GRIDS.binning.n_bins[0])
    mass[2:6] = 100.0
    for _ in range(50):
        split = random_trees.cut_by_mass(GRIDS, random_trees.DrawableFeature(0, mass, 1.0), rng)
        bins = GRIDS.binning.bins[0]
        left = {b for cell, b in enumerate(bins) if split.left >> cell & 1}
        assert 0 < mass[sorted(left)].sum() < mass.sum()


# --------------------------------------------------------------------------------------------------
# A line through scores: right where the table is exact, and no change where it is noise.
def table(shift, slope, n=200_000, noise=0.0, seed=0):
    rng = np.random.default_rng(seed)
    score = rng.normal(0.0, 1.2, n)
    hit = rng.random(n) < sigmoid(shift + slope * score)
    cells = np.searchsorted(EDGES, score, side="right")
    counts = [np.bincount(cells[hit == k], minlength=len(EDGES) + 1) for k in (False, True)]
    values = np.stack(counts, axis=1) + rng.normal(0.0, noise, (len(EDGES) + 1, 2))
    return Answer(values[None], noise**2)


UNKNOWN = ClassTotals(np.array([1.0, 1.0]), 1e12)
"""Totals that say nothing."""


@pytest.mark.parametrize(("shift", "slope"), [(-2.0, 0.6), (0.3, 1.0), (-0.5, 2.2)])
@pytest.mark.parametrize("noise", [0.0, 60.0])
def test_the_line_behind_a_table_is_found(shift, slope, noise):
    found = fit_line(table(shift, slope, noise=noise), Line(0.0, 1.5), UNKNOWN)
    assert found.shift == pytest.approx(shift, abs=0.1)
    assert found.slope == pytest.approx(slope, abs=0.1)


def test_a_table_of_noise_alone_changes_nothing_but_once_in_a_while():
    """An empty interval stands out by chance once in 700; there are 30 of them."""
    expected = Line(-1.0, 1.5)
    known = ClassTotals(np.array([10.0, 40.0]), 1.0)
    tables = [table(0.0, 0.0, n=50, noise=1e4, seed=seed) for seed in range(20)]
    lines = [fit_line(answer, expected, known) for answer in tables]
    assert sum(line == expected for line in lines) >= 17


def test_a_score_that_points_the_wrong_way_is_not_turned_round():
    assert fit_line(table(0.0, -1.0), Line(0.0, 1.0), UNKNOWN).slope == 0.0


def test_probabilities_add_up_to_what_is_known_of_a_class():
    """Of a rare class the hits drown in noise that the rows of the intervals stand out of."""
    n, true, expected = 20_000, Line(-3.0, 1.0), Line(-2.0, 1.0)
    hits = table(true.shift, true.slope, n).values[0, :, 1].sum()
    known = ClassTotals(np.array([n - hits, hits]), 100.0)
    noisy = [table(true.shift, true.slope, n, noise=400.0, seed=seed) for seed in range(10)]

    score = np.random.default_rng(0).normal(0.0, 1.2, n)

    def missed(totals):
        lines = [fit_line(one, expected, totals) for one in noisy]
        means = [sigmoid(line.shift + line.slope * score).mean() for line in lines]
        return np.mean(np.abs(np.array(means) - hits / n))

    assert missed(known) < 0.5 * missed(UNKNOWN)


@pytest.mark.parametrize(
    ("signal", "masses", "variance", "fraction"),
    [
        (50.0, (500.0, 500.0), 0.0, CALIBRATION_FRACTION),
        (50.0, (950.0, 50.0), 0.0, MAX_CALIBRATION_FRACTION),
        (50.0, (50.0, 950.0), 0.0, MAX_CALIBRATION_FRACTION),
        (500.0, (950.0, 50.0), 0.0, CALIBRATION_FRACTION),
        (50.0, (950.0, 50.0), 1e12, CALIBRATION_FRACTION),
    ],
)
def test_a_rare_class_buys_more_of_a_calibration_where_noise_is_strong(
    signal, masses, variance, fraction
):
    known = ClassTotals(np.array(masses), variance)
    assert calibration_fraction(signal, known) == fraction


def test_a_forest_of_two_classes_says_probabilities_that_come_true():
    schema = GuidedForest().grid(TWO)
    X, y = sample(6000, TWO)
    rows = site_rows(X, y, np.zeros(6000, int), 1, schema)
    fed = federation(study(schema, 1, epsilon="20", delta="1e-6"), rows)
    found = run(GuidedForest().flow(schema, fed, np.random.default_rng(0)), fed)
    assert found.model.output is Output.SIGMOID
    assert len(fed.record.rounds) == 4
    assert fed.ledger.spent(fed.study.account) == fed.study.total
    p, hit = found.model.predict(rows[0].codes)[:, 1], y == "yes"
    for low, high in ((0.0, 0.2), (0.2, 0.8), (0.8, 1.0)):
        inside = (p >= low) & (p < high)
        assert abs(p[inside].mean() - hit[inside].mean()) < 0.05


def test_edges_of_scores_rise_around_zero():
    assert list(EDGES) == sorted(set(EDGES))
    assert len(forest._middles()) == len(EDGES) + 1
