"""What a compiled loop does not look at: it reads and writes where it is told.

A sum of labels or statistics passes here before its loop begins. What is wrong with all rows is an
error of whoever calls; what is wrong with one record must be none, since an error after a charge
would tell of it: that record is left out.
"""

from __future__ import annotations

import numpy as np

from hedgerow.errors import DataError
from hedgerow.kernels.dispatch import Array
from hedgerow.values.arrays import BoolArray, Codes, Int32


def check_selection(rows: Int32, n_rows: int) -> None:
    if rows.size and not 0 <= rows.min() <= rows.max() < n_rows:
        raise DataError(f"rows {rows.min()} to {rows.max()} were selected of {n_rows}.")


def check_one_each(values: Array, n_rows: int) -> None:
    if len(values) != n_rows:
        raise DataError(
            f"{len(values)} labels or statistics for {n_rows} rows; give one for each row."
        )


def unknown_labels(labels: Codes, n_classes: int) -> BoolArray | None:
    """(n,) which records have a label that is no class; None if there are none, as should be."""
    if not labels.size or 0 <= labels.min() <= labels.max() < n_classes:
        return None
    return np.asarray((labels < 0) | (labels >= n_classes))


def rows_without(left_out: BoolArray, rows: Int32 | None) -> Int32:
    """The rows of a selection, but for those that are left out."""
    if rows is None:
        return np.flatnonzero(~left_out).astype(np.int32)
    check_selection(rows, len(left_out))
    return rows[~left_out[rows]]
