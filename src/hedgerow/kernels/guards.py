"""What a compiled loop does not look at: it reads and writes where it is told.

A sum of labels or statistics passes here before its loop begins.
"""

from __future__ import annotations

import numpy as np

from hedgerow.errors import DataError
from hedgerow.kernels.dispatch import Array, as_input
from hedgerow.values.arrays import Codes, Int32


def check_selection(rows: Int32, n_rows: int) -> None:
    if rows.size and not 0 <= rows.min() <= rows.max() < n_rows:
        raise DataError(f"rows {rows.min()} to {rows.max()} were selected of {n_rows}.")


def check_one_each(values: Array, n_rows: int) -> None:
    if len(values) != n_rows:
        raise DataError(
            f"{len(values)} labels or statistics for {n_rows} rows; give one for each row."
        )


def class_codes(labels: Codes, n_classes: int) -> Codes:
    """The labels as a loop wants them: none beyond the classes."""
    if labels.size and not 0 <= labels.min() <= labels.max() < n_classes:
        raise DataError(
            f"labels are {labels.min()} to {labels.max()}; use 0 to {n_classes - 1}, one per class."
        )
    return as_input(labels, np.uint8)
