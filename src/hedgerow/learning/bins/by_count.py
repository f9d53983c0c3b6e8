"""Private bins: noisy counts of a public fine grid, merged until each bin holds enough records.

The grid is public (uniform and log ladders), so all that is bought is one flat histogram. Cells
that do not stand out of the noise share what mass is left over by a public prior.
Departure from equal-mass quantiles: a cell that is heavy by itself (a spike) stays alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

import numpy as np

from hedgerow.learning.flow import Flow
from hedgerow.queries import Answer, Binning, Cells, Count, SumQuery, Whole, sums
from hedgerow.values.arrays import FloatArray
from hedgerow.values.grids import ColumnKind, Grid
from hedgerow.values.regions import EVERYONE
from hedgerow.values.schema import Schema

COUNT_SHARE = Fraction(2, 1000)
BINS_SHARE = Fraction(4, 100) * (1 - COUNT_SHARE)
BINNING_SHARE = COUNT_SHARE + BINS_SHARE
"""Of the whole budget: the number of records, and the counts of all cells."""

ASKS = sums(Count, Whole, Cells)

LEAST_RECORDS = 100.0
MOST_BINS = 32
COUNT_STANDS_OUT = 2.0  # standard deviations of the noise
BY_WIDTH = 0.5  # part of the left-over mass that is spread by width; the rest, equally by cell


def numeric_features(schema: Schema) -> tuple[int, ...]:
    return tuple(j for j, g in enumerate(schema.grids) if g.kind is ColumnKind.NUMERIC)


def bins_by_count(schema: Schema) -> Flow[tuple[float, Binning]]:
    """The noisy number of records and the bins, asked in one round."""
    queries = [SumQuery(EVERYONE, Count(), Whole(), COUNT_SHARE)]
    if numeric_features(schema):
        queries.append(count_query(schema, BINS_SHARE))
    replies = yield queries
    answers = [reply for reply in replies if isinstance(reply, Answer)]
    records = max(float(answers[0].values.sum()), LEAST_RECORDS)
    return records, merged(schema, answers[1] if len(answers) > 1 else None, records)


def count_query(schema: Schema, share: Fraction) -> SumQuery:
    """One noisy count for every cell of every numeric feature."""
    by = Cells(numeric_features(schema), Binning.of_cells(schema))
    return SumQuery(EVERYONE, Count(), by, share)


def merged(schema: Schema, counts: Answer | None, total: float) -> Binning:
    """Numeric cells merged to bins of `total` / 32; categories keep their cells.

    `counts` answers `count_query`; None if no feature is numeric.
    """
    bins = [tuple(range(g.n_cells)) for g in schema.grids]
    for position, j in enumerate(numeric_features(schema)):
        assert counts is not None
        grid = schema.grids[j]
        known = counts.values[position, : grid.missing, 0]
        mass = denoised(known, counts.variance, total, cell_widths(grid))
        runs = merge(mass, total / MOST_BINS)
        bins[j] = (*runs, runs[-1] + 1)  # the missing cell is a bin of its own
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
