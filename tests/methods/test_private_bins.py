"""Public thinning of grids and private bins: no cell is lost, none is counted twice."""

from __future__ import annotations

from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hedgerow.errors import UnsupportedQuery
from hedgerow.methods.blocks import private_bins
from hedgerow.methods.blocks.cut_points import DeclaredCuts, MergedCuts, QuantileCuts, SplitContext
from hedgerow.methods.blocks.flow import run
from hedgerow.methods.blocks.iterative_hessian import HessianCuts, even_starts, refine_starts
from hedgerow.methods.blocks.private_bins import bins_of_equal_mass, by_target_rate, quantile_runs
from hedgerow.methods.blocks.public_grids import fine_cells, fine_schema, finer_schema, thin_cells
from hedgerow.methods.blocks.tables import Tables, consistent
from hedgerow.methods.maddock import ComponentBoosting
from hedgerow.methods.method import check_needs
from hedgerow.models.losses import LogLoss, SoftmaxLoss
from hedgerow.models.model import Additive
from hedgerow.privacy.accounting.budget import DPModel
from hedgerow.schema.schema import Categorical, Numeric, Schema
from studies.tests.answers import fixed_noise
from support.worlds import TWO, codes_of, federation, sample, site_rows, study

SCHEMA = Schema(
    (
        Numeric("dose", 0.0, 1000.0),
        Numeric("change", -5.0, 20.0),
        Numeric("rooms", 1.0, 6.0, edges=(1.5, 2.5, 3.5, 4.5, 5.5)),
        Categorical("ward", ("north", "south", "west")),
    ),
    classes=("no", "yes"),
)


def root(schema, table_of, variance=0.0, cells=32):
    """Tables of all features on a thinned grid; `table_of` gives (cells, classes) of a feature."""
    thin = thin_cells(schema, cells)
    values = np.zeros((len(schema.grids), max(thin.n_bins), len(schema.classes)))
    for j, n in enumerate(thin.n_bins):
        values[j, :n] = table_of(j, n)
    return thin, Tables(tuple(range(len(values))), values, variance, thin.n_bins)


def test_a_declared_edge_is_kept_and_all_other_numbers_get_both_ladders():
    fine = fine_schema(SCHEMA)
    assert fine.features[2] == SCHEMA.features[2]
    assert fine.features[3] == SCHEMA.features[3]
    assert min(fine.grids[0].edges) < 1e-3
    assert len(fine.grids[0].edges) > 100


def test_finer_cells_gather_to_the_fine_ones_cell_by_cell():
    fine, finer = fine_schema(SCHEMA), finer_schema(SCHEMA)
    assert finer.grids[0].n_cells == 242
    assert finer.features[2] == SCHEMA.features[2]
    gathered = fine_cells(finer)
    for small, large, bins in zip(finer.grids, fine.grids, gathered.bins, strict=True):
        assert max(bins) + 1 == large.n_cells
        if large.edges:
            kept = [e for e, a, b in zip(small.edges, bins[:-2], bins[1:-1], strict=True) if a != b]
            assert tuple(kept) == large.edges


@pytest.mark.parametrize("cells", [16, 32, 64, 256])
def test_a_thinned_grid_has_its_cells_a_few_powers_of_ten_and_one_for_missing(cells):
    thin = thin_cells(fine_schema(SCHEMA), cells)
    for grid, bins in zip(fine_schema(SCHEMA).grids, thin.bins, strict=True):
        assert len(bins) == grid.n_cells
        assert max(bins) + 1 <= max(cells + 8, len(grid.values) + 2)
        assert set(bins) == set(range(max(bins) + 1))
        assert bins.count(bins[-1]) == 1


def test_a_thinned_grid_still_tells_small_values_apart():
    fine = fine_schema(SCHEMA)
    bins = thin_cells(fine, 32).bins[0]
    assert len({bins[c] for c in codes_of(fine.features[0], [0.02, 0.5, 5.0])}) == 3


@pytest.mark.parametrize(("cells", "told"), [(16, 1), (32, 4), (64, 4)])
def test_a_range_far_too_wide_on_both_sides_leaves_small_values_apart(cells, told):
    """Values of a hundredth of the range: the coarsest grid alone has them all in one cell."""
    schema = fine_schema(Schema((Numeric("x", -1000.0, 1000.0),), classes=("no", "yes")))
    bins = thin_cells(schema, cells).bins[0]
    places = np.searchsorted(schema.grids[0].edges, [0.05, 0.5, 5.0, 15.0], side="right")
    assert len({bins[place] for place in places}) == told


@pytest.mark.parametrize("cells", [16, 32])
def test_the_even_cells_of_a_thinned_grid_are_equally_wide(cells):
    """Zero lies inside this range; what tells small values apart there moves no even edge."""
    grid = fine_schema(SCHEMA).grids[1]
    bins = np.array(thin_cells(fine_schema(SCHEMA), cells).bins[1][:-1])
    edges = np.array(grid.edges)[np.diff(bins) > 0]
    even = np.linspace(grid.low, grid.high, cells + 1)[1:-1]
    assert all(np.abs(edges - edge).min() < 1e-9 for edge in even)
    others = [edge for edge in edges if np.abs(even - edge).min() > 1e-9]
    assert np.abs(others).max(initial=0.0) < 25.0 / cells


def test_runs_of_neighbors_stay_runs():
    bins = thin_cells(fine_schema(SCHEMA), 32).bins[0]
    assert list(bins) == sorted(bins)


@pytest.mark.property
@given(st.lists(st.floats(-50.0, 1e4), min_size=1, max_size=80), st.integers(2, 16))
@settings(max_examples=200, deadline=None)
def test_quantile_bins_are_runs_without_gaps(masses, n_bins):
    runs = quantile_runs(np.array(masses), n_bins)
    assert len(runs) == len(masses)
    assert list(runs) == sorted(runs)
    assert set(runs) == set(range(int(runs.max()) + 1))
    assert runs.max() < max(n_bins, len(masses) if len(masses) <= n_bins else 0)


def test_bins_hold_about_equal_mass():
    masses = np.random.default_rng(0).gamma(2.0, 10.0, 200)
    held = np.bincount(quantile_runs(masses, 8), weights=masses)
    assert held.max() < 1.4 * held.min()


def test_a_spike_stands_alone():
    masses = np.array([1.0, 1.0, 500.0, 1.0, 1.0, 1.0, 1.0, 1.0])
    runs = quantile_runs(masses, 4)
    assert list(runs).count(runs[2]) == 1


def test_two_classes_order_categories_by_the_rate_of_the_second():
    table = np.array([[10.0, 90.0], [90.0, 10.0], [50.0, 50.0]])
    assert list(by_target_rate(table, 0.0, np.array([0.5, 0.5]))) == [1, 2, 0]


def test_a_rate_from_few_rows_is_pulled_to_the_prior():
    """Two rows of two say less than sixty of a hundred, if the noise is as large as they are."""
    table = np.array([[0.0, 2.0], [40.0, 60.0], [60.0, 40.0]])
    assert list(by_target_rate(table, 100.0, np.array([0.5, 0.5]))) == [2, 0, 1]


def test_three_classes_are_ordered_along_the_direction_in_which_they_differ():
    table = np.array([[90.0, 5.0, 5.0], [5.0, 5.0, 90.0], [48.0, 5.0, 47.0]])
    order = list(by_target_rate(table, 1.0, np.full(3, 1 / 3)))
    assert order.index(2) == 1


def test_every_cell_has_a_bin_and_thinned_cells_are_not_parted():
    schema = fine_schema(SCHEMA)
    rng = np.random.default_rng(1)
    thin, tables = root(schema, lambda j, n: rng.normal(30.0, 20.0, (n, 2)), 400.0)
    bins = bins_of_equal_mass(schema, thin, consistent(tables), 6)
    for cells, merged, grid in zip(thin.bins, bins.bins, schema.grids, strict=True):
        assert len(merged) == grid.n_cells
        assert len(set(zip(cells, merged, strict=True))) == max(cells) + 1
        assert set(merged) == set(range(max(merged) + 1))


def test_missing_rows_get_a_bin_of_their_own_at_the_end_they_resemble():
    schema = fine_schema(SCHEMA)

    def table(j, n):
        rising = np.linspace(5.0, 95.0, n)
        out = np.stack([100.0 - rising, rising], axis=1)
        out[-1] = (190.0, 10.0)  # missing rows are mostly of the first class
        return out

    thin, tables = root(schema, table)
    bins = bins_of_equal_mass(schema, thin, tables, 6).bins[0]
    assert bins[-1] == 0
    assert bins.count(0) == 1


def test_where_nobody_seems_to_be_missing_the_cell_joins_the_heaviest_bin():
    schema = fine_schema(SCHEMA)

    def table(j, n):
        out = np.full((n, 2), 50.0)
        out[-1] = (3.0, -4.0)
        return out

    thin, tables = root(schema, table, 25.0)
    bins = bins_of_equal_mass(schema, thin, tables, 6).bins[0]
    assert bins.count(bins[-1]) > 1


# --------------------------------------------------------------------------------------------------
# Where candidate cuts come from: merged cells, quantiles, the iterative Hessian.
X, Y = sample(400, TWO)
FINE, FINER = fine_schema(TWO), finer_schema(TWO)
SKEWED = fine_schema(Schema((Numeric("pay", 0.0, 1e6),), classes=("no", "yes"))).grids[0]
METHODS = [DeclaredCuts(), MergedCuts(), QuantileCuts(), HessianCuts(rounds=2)]


def bins(schema):
    """Both rounds of private bins."""
    counted = yield from private_bins.count_records()
    return (yield from private_bins.bins_by_count(schema, counted))


def open_study(dp_model=None, schema=FINE, **options):
    rows = site_rows(X, Y, np.zeros(len(Y), int), 1, schema)
    return federation(study(schema, 1, dp_model, **options), rows)


@pytest.mark.property
@given(st.lists(st.floats(0, 100), min_size=2, max_size=60), st.floats(1, 50))
def test_merged_cells_are_runs_and_every_inner_bin_holds_enough(mass, enough):
    bins = np.array(private_bins.merge(mass, enough))
    assert bins[0] == 0
    assert set(np.diff(bins)) <= {0, 1}
    spikes = {int(b) for b, m in zip(bins, mass, strict=True) if m >= enough}
    held = np.bincount(bins, weights=mass)
    for b in range(len(held) - 1):
        assert held[b] >= enough * (1 - 1e-9) or b + 1 in spikes


def test_a_heavy_cell_stays_alone_and_a_light_end_joins_its_neighbor():
    assert private_bins.merge([1, 1, 50, 1, 9, 2], enough=10) == (0, 0, 1, 2, 2, 2)


def test_counts_below_the_noise_share_what_is_left_of_the_records():
    counts = np.array([400.0, 3.0, -5.0, 1.0])
    mass = private_bins.denoise(
        counts, variance=16.0, total=500.0, widths=np.array([1, 1, 1, 1]) / 4
    )
    assert mass[0] == 400.0
    assert np.allclose(mass[1:], 100.0 / 3)


def test_the_missing_cell_is_always_a_bin_of_its_own():
    binning = run(bins(FINE), open_study(epsilon="5"))
    for grid, merged in zip(FINE.grids, binning.bins, strict=True):
        assert merged[grid.missing] not in merged[: grid.missing]


@pytest.mark.parametrize(
    ("records", "deviation", "bins"),
    [(1e4, 1e3, 32), (6400.0, 8.0, 100), (1.2e4, 3.0, 1000), (1e4, 0.1, 1024)],
)
def test_a_bin_holds_some_deviations_of_the_noise_within_limits(records, deviation, bins):
    assert records / private_bins.records_a_bin(records, deviation) == pytest.approx(bins)


@pytest.mark.parametrize(("epsilon", "n_cells"), [("0.1", 121), ("5000", 241)])
def test_finer_cells_are_asked_only_where_they_stand_out_of_the_noise(epsilon, n_cells):
    fed, asked = open_study(schema=FINER, epsilon=epsilon, delta="1e-6"), []
    flow = bins(FINER)
    queries = next(flow)
    while queries:
        asked += queries
        try:
            queries = flow.send(fed.ask(queries))
        except StopIteration:
            break
    assert asked[1].by.binning.n_bins[0] == n_cells + 1


def test_more_budget_gives_more_bins():
    x = np.random.default_rng(0).uniform(0, 1, (4000, 1))
    schema = finer_schema(Schema((Numeric("x", 0.0, 1.0),), classes=("no", "yes")))
    rows = site_rows(
        x, np.resize(np.array(["no", "yes"], object), 4000), np.zeros(4000, int), 1, schema
    )
    found = []
    for epsilon in ("0.1", "20"):
        fed = federation(study(schema, 1, epsilon=epsilon, delta="1e-6"), rows)
        with fixed_noise():  # where noise is wide, the number of bins is a matter of luck
            found.append(run(bins(schema), fed).n_bins[0])
    assert found[0] <= 40
    assert found[1] >= 64


@pytest.mark.parametrize("method", METHODS, ids=lambda m: type(m).__name__)
def test_a_method_spends_the_share_it_names_in_the_rounds_it_names(method):
    schema = method.grid(TWO)
    fed = open_study(schema=schema, delta="1e-6")
    setting = SplitContext(schema, LogLoss(), Additive((0.0,)), n_estimators=20, trees_per_round=20)
    run(method.place(setting, fed), fed)
    assert fed.ledger.spent(fed.study.account) == method.fraction(setting) * fed.study.total
    assert len(fed.record.rounds) == method.rounds_for(setting)


def test_exact_quantiles_are_refused_wherever_somebody_is_protected():
    setting = SplitContext(FINE, LogLoss(), Additive((0.0,)), n_estimators=20)
    method = ComponentBoosting(candidates="exact_quantile")
    for dp_model in set(DPModel) - {DPModel.NONE}:
        with pytest.raises(UnsupportedQuery, match="none"):
            check_needs(method, TWO, dp_model, 1)
    check_needs(method, TWO, DPModel.NONE, 1)
    open_to_all = open_study(DPModel.NONE)
    binning = run(QuantileCuts(8, exact=True).place(setting, open_to_all), open_to_all)
    assert max(binning.n_bins[:2]) <= 9


def test_a_hessian_histogram_is_charged_at_a_sixteenth_of_a_leaf_query():
    """At equal noise: |h| <= 1/4 where |(g, c h)| <= 1; softmax has its own ratio."""
    trees, method = 100, HessianCuts(rounds=5)
    setting = SplitContext(FINE, LogLoss(), Additive((0.0,)), trees)
    assert method.fraction(setting) == Fraction(5 * 2, 16) / (trees + Fraction(5 * 2, 16))
    three = SplitContext(FINE, SoftmaxLoss(3), Additive((0.0,) * 3), trees)
    assert method.fraction(three) > method.fraction(setting)


def test_the_iterative_hessian_finds_a_crowd_near_zero():
    """Nine of ten records lie in the lowest thousandth of the range."""
    starts = even_starts(SKEWED, 32)
    edges = (SKEWED.low, *SKEWED.edges, SKEWED.high)

    def hessians(starts):
        shares = []
        for first, end in pairwise(starts):
            low, high = edges[first], edges[end]
            crowd = 0.9 * max(min(high, 1e3) - low, 0.0) / 1e3
            shares.append(1e4 * (crowd + 0.1 * (high - low) / 1e6))
        return np.array(shares)

    assert sum(edges[end] <= 1e3 for end in starts[1:]) == 0
    for _ in range(5):
        starts = refine_starts(SKEWED, starts, hessians(starts), 32)
        assert all(first < end for first, end in pairwise(starts))
    assert len(starts) > 32
    assert sum(edges[end] <= 1.1e3 for end in starts[1:]) >= 4
