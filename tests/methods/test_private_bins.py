"""Public thinning of grids and private bins: no cell is lost, none is counted twice."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hedgerow.methods.blocks.private_bins import bins_of_equal_mass, by_target_rate, quantile_runs
from hedgerow.methods.blocks.public_grids import fine_cells, fine_schema, finer_schema, thin_cells
from hedgerow.methods.blocks.tables import Tables, consistent
from hedgerow.schema.schema import Categorical, Numeric, Schema
from support.worlds import codes_of

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
