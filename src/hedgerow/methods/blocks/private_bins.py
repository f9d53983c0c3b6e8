"""Private bins: noisy counts of a public fine grid, merged until each bin holds enough records.

The grid is public (uniform and logarithmic), so the only cost is one flat histogram. Cells that do
not exceed the noise share the remaining mass by a public prior. The width of the cells and the
least mass of a bin follow from the noise (studies/notes/boosting.md#0033). A cell that is heavy by
itself (a spike) stays alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np

from hedgerow.methods.blocks.flow import Flow, ask
from hedgerow.methods.blocks.public_grids import fine_cells
from hedgerow.methods.blocks.tables import Tables
from hedgerow.methods.blocks.target import RecordCount, count_query, recount_if_unclear
from hedgerow.methods.constants import constant
from hedgerow.privacy.queries import Binning, Cells, Count, SumQuery, Whole, sums
from hedgerow.schema.arrays import FloatArray, IntArray
from hedgerow.schema.grids import ColumnKind, Grid
from hedgerow.schema.regions import EVERYONE
from hedgerow.schema.schema import Schema

MISSING_STANDS_OUT = constant(3.0, unit="deviations")
"""Deviations of noise from which missing values get their own bin."""
COUNT_FRACTION = constant(Fraction(2, 1000), unit="part of the budget", evidence="boosting.md#0030")
"""Fraction of the budget for the number of records."""
BINS_FRACTION = constant(
    Fraction(4, 100) * (1 - COUNT_FRACTION), unit="part of the budget", evidence="boosting.md#0030"
)
"""Fraction of the budget for the counts of all cells."""
LEAST_RECORDS = constant(100.0, unit="records there are taken to be at least")
FEW_BINS = constant(32, unit="parts of the records", evidence="boosting.md#0033")
"""A bin needs at most 1 / this of the records."""
MANY_BINS = constant(1024, unit="parts of the records", evidence="boosting.md#0033")
"""A bin needs at least 1 / this of the records."""
DEVIATIONS_A_BIN = constant(8.0, unit="deviations", evidence="boosting.md#0033")
"""Between these limits, a bin must hold this many deviations of a class histogram's noise."""
STRONG_FROM = constant(3000.0, unit="deviations", evidence="boosting.md#0033")
"""Total deviations from which a bin may hold fewer."""
STRONG_DEVIATIONS = constant(4.0, unit="deviations", evidence="boosting.md#0033")
"""Deviations that a bin must hold then."""
CURVES_ABOUT = constant(0.384, unit="part of the budget", evidence="boosting.md#0033")
"""Assumed fraction of the budget for class histograms."""
FINER_FROM = constant(1000.0, unit="records per deviation", evidence="boosting.md#0033")
"""Records per noise deviation of a cell, from which finer cells are used."""
COUNT_STANDS_OUT = constant(2.0, unit="deviations of its noise by which a cell must be seen")
BY_WIDTH = constant(0.5, unit="part")
"""Fraction of the remaining mass that is spread by width; the rest is spread equally by cell."""

# Bins from noisy tables. Runs of cells become bins of equal noisy mass; categories are ordered by
# target rate. The missing cell becomes a bin at the end whose rows it resembles or, if it seems
# empty, part of the heaviest bin.


def bins_of_equal_mass(schema: Schema, cells: Binning, tables: Tables, n_bins: int) -> Binning:
    """At most `n_bins` bins of equal mass per feature, and one for missing values.

    `tables` are the consistent class histograms of `cells` for all features.
    """
    prior = np.maximum(tables.total[0], 1.0)
    column_bins = []
    for j, grid in enumerate(schema.grids):
        bins = _bins_of(grid, tables.of(j), tables.variance, prior / prior.sum(), n_bins)
        column_bins.append(tuple(int(bins[c]) for c in cells.bins[j]))
    return Binning(tuple(column_bins))


def _bins_of(
    grid: Grid, table: FloatArray, variance: float, prior: FloatArray, n_bins: int
) -> IntArray:
    """(cells,) the bin of each cell of one feature; the last cell is `missing`."""
    masses = table.sum(axis=1)
    if grid.kind is not ColumnKind.NUMERIC:
        order, bins = by_target_rate(table, variance, prior), np.empty(len(table), np.int64)
        bins[order] = quantile_runs(masses[order], n_bins)
        return bins
    number_bins = quantile_runs(masses[:-1], n_bins)
    if masses[-1] <= MISSING_STANDS_OUT * np.sqrt(variance * table.shape[1]):
        return np.append(number_bins, int(np.argmax(np.bincount(number_bins, masses[:-1]))))
    # Missing is put first or last: at the end whose classes are more similar.
    last = number_bins.max()
    ends = (table[:-1][number_bins == end].sum(axis=0) for end in (0, last))
    positive = [np.maximum(sums, 0.0) + 1e-9 for sums in (*ends, table[-1])]
    of_first, of_last, of_missing = (sums / sums.sum() for sums in positive)
    if np.abs(of_first - of_missing).sum() < np.abs(of_last - of_missing).sum():
        return np.append(number_bins + 1, 0)
    return np.append(number_bins, last + 1)


def quantile_runs(masses: FloatArray, n_bins: int) -> IntArray:
    """(cells,) the bin of each cell: runs of about equal mass, numbered without gaps.

    A cell belongs to the quantile of its middle, so a heavy cell stays alone.
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

    Two classes: the rate of the second. More: the direction in which rates differ most, the first
    right singular vector of the weighted rates (Coppersmith et al. 1999).
    """
    masses = np.maximum(table, 0.0)
    rows = masses.sum(axis=1, keepdims=True)
    pull = MISSING_STANDS_OUT * np.sqrt(variance) + 1.0
    excess = (masses + pull * prior) / (rows + pull) - prior
    direction = np.array([-1.0, 1.0])
    if table.shape[1] > 2:
        weighted_excess = excess * np.sqrt(np.maximum(rows, 1.0))
        direction = np.linalg.svd(weighted_excess, full_matrices=False)[2][0]
    return np.argsort(excess @ direction, kind="stable")


BINNING_FRACTION = COUNT_FRACTION + BINS_FRACTION
"""Fraction of the budget for the number of records and the counts of all cells."""

ASKS = sums(Count, Whole, Cells)


def numeric_features(schema: Schema) -> tuple[int, ...]:
    return tuple(j for j, g in enumerate(schema.grids) if g.kind is ColumnKind.NUMERIC)


@dataclass(frozen=True)
class NoisyCount:
    """A noisy number of records, and the deviation of a count at the whole budget."""

    count: RecordCount
    deviation: float

    @property
    def records(self) -> float:
        return max(self.count.number, LEAST_RECORDS)


def count_records() -> Flow[NoisyCount]:
    answer = yield from ask(count_query(COUNT_FRACTION))
    deviation = float(np.sqrt(float(COUNT_FRACTION) * answer.variance))
    return NoisyCount(RecordCount.of(answer, COUNT_FRACTION), deviation)


def count_until_clear() -> Flow[NoisyCount]:
    """Counts the records, twice if the first count is below its noise."""
    first = yield from count_records()
    return replace(first, count=(yield from recount_if_unclear(first.count)))


def bins_by_count(schema: Schema, record_count: NoisyCount) -> Flow[Binning]:
    """Private bins; their number depends on the records and on the noise.

    Numeric cells are merged into bins of enough records; categories keep their cells.
    """
    records, numeric = record_count.records, numeric_features(schema)
    if not numeric:
        return Binning.of_cells(schema)
    of_a_cell = record_count.deviation * np.sqrt(len(numeric) / float(BINS_FRACTION))
    is_seen = records >= FINER_FROM * of_a_cell
    cells = Binning.of_cells(schema) if is_seen else fine_cells(schema)
    counts = yield from ask(SumQuery(EVERYONE, Count(), Cells(numeric, cells), BINS_FRACTION))
    of_class = record_count.deviation * np.sqrt(len(schema.grids) / CURVES_ABOUT)
    enough, bins = records_a_bin(records, of_class), [tuple(range(g.n_cells)) for g in schema.grids]
    for j, own in zip(numeric, counts.values, strict=True):
        cell, grid = np.array(cells.bins[j][:-1]), schema.grids[j]  # all cells but `missing`
        parts = np.diff([grid.low, *grid.edges, grid.high]) / (grid.high - grid.low)
        widths = np.bincount(cell, parts).astype(np.float64)
        mass = denoise(own[: cell[-1] + 1, 0], counts.variance, records, widths)
        runs = np.asarray(merge(mass, enough), np.int64)[cell]
        bins[j] = (*runs.tolist(), int(runs[-1]) + 1)  # `missing` has its own bin
    return Binning(tuple(bins))


def cell_counts(schema: Schema, fraction: Fraction) -> SumQuery:
    """One noisy count for every cell of every numeric feature."""
    by = Cells(numeric_features(schema), Binning.of_cells(schema))
    return SumQuery(EVERYONE, Count(), by, fraction)


def records_a_bin(records: float, deviation: float) -> float:
    """The least mass of a bin, if the counts of a class histogram have this noise deviation."""
    is_strong = records >= STRONG_FROM * deviation
    stands_out = deviation * (STRONG_DEVIATIONS if is_strong else DEVIATIONS_A_BIN)
    return min(records / FEW_BINS, max(records / MANY_BINS, stands_out))


def denoise(counts: FloatArray, variance: float, total: float, widths: FloatArray) -> FloatArray:
    """Keeps counts that exceed the noise; the others share the remaining mass."""
    clear_counts = np.where(counts > COUNT_STANDS_OUT * np.sqrt(variance), counts, 0.0)
    poor = clear_counts == 0.0
    by_width = widths * poor / max(float(widths[poor].sum()), 1e-12)
    by_cell = poor / max(int(poor.sum()), 1)
    prior = BY_WIDTH * by_width + (1.0 - BY_WIDTH) * by_cell
    return np.asarray(clear_counts + max(total - float(clear_counts.sum()), 0.0) * prior)


def merge(mass: Sequence[float] | FloatArray, enough: float) -> tuple[int, ...]:
    """The bin of each cell, from left to right.

    A bin closes once it holds `enough`; a cell that holds it alone begins a bin. A last bin of less
    than half of `enough` is merged with its neighbor.
    """
    bins, now, bin_mass, size = list[int](), 0, 0.0, 0
    for m in mass:
        if m >= enough and size:
            now, bin_mass, size = now + 1, 0.0, 0
        bins.append(now)
        bin_mass, size = bin_mass + m, size + 1
        if bin_mass >= enough:
            now, bin_mass, size = now + 1, 0.0, 0
    if size and now and bin_mass < enough / 2:
        bins[-size:] = [now - 1] * size
    return tuple(bins)
