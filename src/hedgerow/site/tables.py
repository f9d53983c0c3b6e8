"""Tables of a region's records by cell, for scores of splits. No noise and no charge here."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from hedgerow.errors import UnsupportedQuery
from hedgerow.kernels.sums import count_cells, sum_cells
from hedgerow.queries import LATTICE, Score, Selecting
from hedgerow.site.rows import Rows
from hedgerow.values.arrays import N_CODES, IntArray


def tables_of(query: Selecting, rows: Rows, features: Sequence[int]) -> IntArray:
    """(f, 256, C) class counts, or n, sum y and sum y^2 of the target in units, by cell."""
    index = rows.select(query.region)
    if is_of_target(query):
        u = np.rint(np.nan_to_num(rows.unit_target[index]) * LATTICE).astype(np.int64)
        moments = np.stack([np.ones_like(u), u, u * u], axis=1)
        codes = rows.codes[np.asarray(features)[:, None], index]
        (tables,) = sum_cells(codes, None, np.arange(len(features)), moments, N_CODES)
    elif query.scoring.score is Score.BALANCE:  # needs no target, so any rows have it
        one_class = np.zeros(rows.n, np.uint8)
        (tables,) = count_cells(rows.codes, [index], features, one_class, N_CODES, 1)
    elif rows.labels is not None:
        classes = rows.n_classes
        (tables,) = count_cells(rows.codes, [index], features, rows.labels, N_CODES, classes)
    else:
        raise UnsupportedQuery("class scores were asked of rows without classes.")
    return np.asarray(tables)


def is_of_target(query: Selecting) -> bool:
    """Whether sums are n, sum y and sum y^2, and not class counts."""
    return query.scoring.score is Score.SQUARED_ERROR
