"""Bins from noisy tables: which cells of the public grid a recipe treats as one.

Runs of cells become bins of equal noisy mass, categories stand in the order of their target rate.
A missing cell is never lost: it is a bin of its own at the end whose rows it resembles, or, if
nobody seems to be in it, part of the heaviest bin.
"""

from __future__ import annotations

import numpy as np

from hedgerow.learning.choosing.tables import Tables, totals
from hedgerow.queries import Binning
from hedgerow.values.arrays import FloatArray, IntArray
from hedgerow.values.grids import ColumnKind, Grid
from hedgerow.values.schema import Schema

MISSING_STANDS_OUT = 3.0
"""Deviations of its noise by which a missing cell must be seen to get a bin of its own."""


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
