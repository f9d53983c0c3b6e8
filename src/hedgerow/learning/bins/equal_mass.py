"""Bins from noisy tables: which cells of the public grid a recipe treats as one.

First, in public: a fine grid is thinned, so that few empty cells add noise. Then, from the noisy
root tables: runs of cells become bins of equal mass, categories stand in the order of their
target rate. A missing cell is never lost: it is a bin of its own at the end whose rows it
resembles, or, if nobody seems to be in it, part of the heaviest bin.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from hedgerow.learning.choosing.tables import Tables, totals
from hedgerow.queries import Binning
from hedgerow.values.arrays import FloatArray, IntArray
from hedgerow.values.grids import ColumnKind, Grid, uniform_edges
from hedgerow.values.schema import Feature, Numeric, Schema, Spacing

DECADES = 6
"""Most powers of ten below a hundredth of the range that a thinned grid tells apart."""
MISSING_STANDS_OUT = 3.0
"""Deviations of its noise by which a missing cell must be seen to get a bin of its own."""


# ------------------------------------------------------------------------------- public grids
def fine_schema(schema: Schema) -> Schema:
    """Uniform and log ladders for every numeric column, except where edges were declared."""
    return replace(schema, features=tuple(_finer(feature) for feature in schema.features))


def _finer(feature: Feature) -> Feature:
    if isinstance(feature, Numeric) and feature.edges is None:
        return replace(feature, spacing=Spacing.FINE)
    return feature


def thinned(schema: Schema, cells: int) -> Binning:
    """An even ladder of `cells` cells per numeric feature, and some powers of ten below it.

    `cells` should divide the fine grid's even ladder, a power of two: uneven cells cost accuracy.
    """
    return Binning(tuple(_thinned(grid, cells) for grid in schema.grids))


def _thinned(grid: Grid, cells: int) -> tuple[int, ...]:
    if grid.kind is not ColumnKind.NUMERIC or grid.missing <= cells:
        return tuple(range(grid.n_cells))
    edges, powers = np.array(grid.edges), _powers_of_ten(grid.low, grid.high, cells // 10)
    wanted = [*uniform_edges(grid.low, grid.high, cells), *powers]
    kept = np.unique([np.argmin(np.abs(edges - edge)) for edge in wanted])
    # Cell k lies above edge k - 1: its run is the number of kept edges at or below that.
    runs = np.searchsorted(kept, np.arange(grid.missing), side="left")
    return (*(int(r) for r in runs), int(runs[-1]) + 1)


def _powers_of_ten(low: float, high: float, n_steps: int) -> list[float]:
    """Steps away from the place where values may pile up: zero inside the range, else its low.

    Zero inside needs two ladders; a coarse grid has no cells to spare for them.
    """
    steps = 10.0 ** -np.arange(2.0, 2.0 + min(n_steps, DECADES))
    if not low < 0.0 < high:
        return [float(low + (high - low) * step) for step in steps]
    if n_steps < DECADES:
        return []
    return [0.0, *(low * steps[: DECADES // 2]), *(high * steps[: DECADES // 2])]


# -------------------------------------------------------------------------------- private bins
def bins_of_equal_mass(schema: Schema, cells: Binning, tables: Tables, n_bins: int) -> Binning:
    """At most `n_bins` bins of equal mass per feature, and one for missing values, from tables.

    `tables` answers the class histograms of `cells` for all features, made consistent.
    """
    prior, _ = totals(tables)
    share = np.maximum(prior, 1.0) / np.maximum(prior, 1.0).sum()
    merged = []
    for j, grid in enumerate(schema.grids):
        bins = _bins_of(grid, tables.of(j), tables.variance, share, n_bins)
        merged.append(tuple(int(bins[c]) for c in cells.bins[j]))
    return Binning(tuple(merged))


def _bins_of(
    grid: Grid, table: FloatArray, variance: float, prior: FloatArray, n_bins: int
) -> IntArray:
    """(cells,) the bin of each cell of one feature; the last cell is `missing`."""
    if grid.kind is not ColumnKind.NUMERIC:
        order = by_target_rate(table, variance, prior)
        return _gathered(order, quantile_runs(table[order].sum(axis=1), n_bins))
    known = quantile_runs(table[:-1].sum(axis=1), n_bins)
    missing = table[-1].sum()
    if missing <= MISSING_STANDS_OUT * np.sqrt(variance * table.shape[1]):
        masses = np.bincount(known, weights=table[:-1].sum(axis=1))
        return np.append(known, int(np.argmax(masses)))
    return _with_missing(known, table)


def _with_missing(known: IntArray, table: FloatArray) -> IntArray:
    """Missing as the first or the last bin: the end whose classes are more like its own."""
    first, last = table[:-1][known == 0].sum(axis=0), table[:-1][known == known.max()].sum(axis=0)
    to_first, to_last = (np.abs(_rates(end) - _rates(table[-1])).sum() for end in (first, last))
    return np.append(known + 1, 0) if to_first < to_last else np.append(known, known.max() + 1)


def _rates(masses: FloatArray) -> FloatArray:
    clipped = np.maximum(masses, 0.0) + 1e-9
    return np.asarray(clipped / clipped.sum())


def quantile_runs(masses: FloatArray, n_bins: int) -> IntArray:
    """(cells,) the bin of each cell: runs of about equal mass, bins numbered without gaps.

    A cell belongs to the quantile of its middle, so a heavy cell is not split and stands alone.
    """
    if len(masses) <= n_bins:
        return np.arange(len(masses))
    above = np.maximum.accumulate(np.maximum(np.cumsum(masses), 0.0))
    above = above / max(float(above[-1]), 1.0)
    middle = (np.concatenate([[0.0], above[:-1]]) + above) / 2.0
    quantile = np.minimum((middle * n_bins).astype(np.int64), n_bins - 1)
    return np.asarray(np.unique(quantile, return_inverse=True)[1], np.int64)


def by_target_rate(table: FloatArray, variance: float, prior: FloatArray) -> IntArray:
    """Categories in the order of their class rates, each shrunk to the prior by its noise.

    Two classes: the rate of the second. More: the direction in which rates differ most, the
    first right singular vector of the weighted rates (Coppersmith et al. 1999 order by it).
    """
    masses = np.maximum(table, 0.0)
    rows = masses.sum(axis=1, keepdims=True)
    pull = MISSING_STANDS_OUT * np.sqrt(variance) + 1.0
    excess = (masses + pull * prior) / (rows + pull) - prior
    direction = np.array([-1.0, 1.0])
    if table.shape[1] > 2:
        weighted = excess * np.sqrt(np.maximum(rows, 1.0))
        direction = np.linalg.svd(weighted, full_matrices=False)[2][0]
    return np.argsort(excess @ direction, kind="stable")


def _gathered(order: IntArray, runs: IntArray) -> IntArray:
    bins = np.empty_like(runs)
    bins[order] = runs
    return bins
