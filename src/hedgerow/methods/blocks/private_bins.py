"""Private bins: noisy counts of a public fine grid, merged until each bin holds enough records.

The grid is public (uniform and log ladders), so all that is bought is one flat histogram. Cells
that do not stand out of the noise share what mass is left over by a public prior. How fine the
grid is and how much a bin must hold follow from the noise (studies/notes/boosting.md#0033).
Departure from equal-mass quantiles: a cell that is heavy by itself (a spike) stays alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np

from hedgerow.methods.blocks.flow import Flow, ask
from hedgerow.methods.blocks.goal import RecordCount, count_query, surely
from hedgerow.methods.blocks.public_grids import fine_cells
from hedgerow.methods.blocks.tables import Tables, totals
from hedgerow.privacy.queries import Answer, Binning, Cells, Count, SumQuery, Whole, sums
from hedgerow.schema.arrays import FloatArray, IntArray
from hedgerow.schema.grids import ColumnKind, Grid
from hedgerow.schema.regions import EVERYONE
from hedgerow.schema.schema import Schema

# --------------------------------------------------------------------------------------------------
# Bins from noisy tables: which cells of the public grid a recipe treats as one.
#
# Runs of cells become bins of equal noisy mass, categories stand in the order of their target rate.
# A missing cell is never lost: it is a bin of its own at the end whose rows it resembles, or, if
# nobody seems to be in it, part of the heaviest bin.

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


COUNT_SHARE = Fraction(2, 1000)
BINS_SHARE = Fraction(4, 100) * (1 - COUNT_SHARE)
BINNING_SHARE = COUNT_SHARE + BINS_SHARE
"""Of the whole budget: the number of records, and the counts of all cells."""

ASKS = sums(Count, Whole, Cells)

LEAST_RECORDS = 100.0
FEW_BINS, MANY_BINS = 32, 1024  # parts of the records: the largest and the smallest bin
DEVIATIONS_A_BIN = 8.0  # of a class histogram's noise that a bin must hold, between the two
STRONG_FROM, STRONG_DEVIATIONS = 3000.0, 4.0  # from so many deviations in all, so many a bin
CURVES_ABOUT = 0.384  # of the budget: what the class histograms are taken to get
FINER_FROM = 1000.0  # records per deviation of a cell's noise, from which finer cells are asked
COUNT_STANDS_OUT = 2.0  # standard deviations of the noise
BY_WIDTH = 0.5  # part of the left-over mass that is spread by width; the rest, equally by cell


def numeric_features(schema: Schema) -> tuple[int, ...]:
    return tuple(j for j, g in enumerate(schema.grids) if g.kind is ColumnKind.NUMERIC)


@dataclass(frozen=True)
class Counted:
    """What was told of the records, and the deviation of a count bought with the whole budget."""

    told: RecordCount
    deviation: float

    @property
    def records(self) -> float:
        return max(self.told.number, LEAST_RECORDS)


def counted_records() -> Flow[Counted]:
    answer = yield from ask(count_query(COUNT_SHARE))
    deviation = float(np.sqrt(float(COUNT_SHARE) * answer.variance))
    return Counted(RecordCount.told(answer, COUNT_SHARE), deviation)


def counted_surely() -> Flow[Counted]:
    """With a second count where noise hides the first."""
    first = yield from counted_records()
    return replace(first, told=(yield from surely(first.told)))


def bins_by_count(schema: Schema, counted: Counted) -> Flow[Binning]:
    """The bins: how many depends on the records and on the noise."""
    records, numeric = counted.records, numeric_features(schema)
    if not numeric:
        return Binning.of_cells(schema)
    of_a_cell = counted.deviation * np.sqrt(len(numeric) / float(BINS_SHARE))
    is_seen = records >= FINER_FROM * of_a_cell
    cells = Binning.of_cells(schema) if is_seen else fine_cells(schema)
    counts = yield from ask(SumQuery(EVERYONE, Count(), Cells(numeric, cells), BINS_SHARE))
    noise = counted.deviation * np.sqrt(len(schema.grids) / CURVES_ABOUT)
    return merged_bins(schema, cells, counts, records, records_a_bin(records, noise))


def cell_counts(schema: Schema, share: Fraction) -> SumQuery:
    """One noisy count for every cell of every numeric feature."""
    by = Cells(numeric_features(schema), Binning.of_cells(schema))
    return SumQuery(EVERYONE, Count(), by, share)


def records_a_bin(records: float, deviation: float) -> float:
    """What a bin holds at least, if a class histogram's counts have noise of this deviation."""
    is_strong = records >= STRONG_FROM * deviation
    stands_out = deviation * (STRONG_DEVIATIONS if is_strong else DEVIATIONS_A_BIN)
    return min(records / FEW_BINS, max(records / MANY_BINS, stands_out))


def merged_bins(
    schema: Schema, cells: Binning, counts: Answer, total: float, enough: float
) -> Binning:
    """Numeric cells merged to bins of `enough` records; categories keep their cells.

    `counts` are those of all numeric features by `cells`.
    """
    bins = [tuple(range(g.n_cells)) for g in schema.grids]
    for position, j in enumerate(numeric_features(schema)):
        cell = np.array(cells.bins[j][:-1])  # of each cell of the grid but the missing one
        known = counts.values[position, : cell[-1] + 1, 0]
        widths = np.bincount(cell, cell_widths(schema.grids[j])).astype(np.float64)
        mass = denoised(known, counts.variance, total, widths)
        runs = np.asarray(merge(mass, enough), np.int64)[cell]
        bins[j] = (*runs.tolist(), int(runs[-1]) + 1)  # the missing cell is a bin of its own
    return Binning(tuple(bins))


def cell_widths(grid: Grid) -> FloatArray:
    """Widths of a numeric grid's cells as parts of its range."""
    ends = np.array([grid.low, *grid.edges, grid.high])
    return np.asarray(np.diff(ends) / (grid.high - grid.low))


def denoised(counts: FloatArray, variance: float, total: float, widths: FloatArray) -> FloatArray:
    """Counts that stand out of the noise; the others share the mass that is left over."""
    kept = np.where(counts > COUNT_STANDS_OUT * np.sqrt(variance), counts, 0.0)
    poor = kept == 0.0
    by_width = widths * poor / max(float(widths[poor].sum()), 1e-12)
    by_cell = poor / max(int(poor.sum()), 1)
    prior = BY_WIDTH * by_width + (1.0 - BY_WIDTH) * by_cell
    return np.asarray(kept + max(total - float(kept.sum()), 0.0) * prior)


def merge(mass: Sequence[float] | FloatArray, enough: float) -> tuple[int, ...]:
    """The bin of each cell, from left to right.

    A bin closes once it holds `enough`; a cell that holds it alone begins a bin. A last bin of
    less than half of `enough` joins its neighbour.
    """
    bins, now, held, size = list[int](), 0, 0.0, 0
    for m in mass:
        if m >= enough and size:
            now, held, size = now + 1, 0.0, 0
        bins.append(now)
        held, size = held + m, size + 1
        if held >= enough:
            now, held, size = now + 1, 0.0, 0
    if size and now and held < enough / 2:
        bins[-size:] = [now - 1] * size
    return tuple(bins)
