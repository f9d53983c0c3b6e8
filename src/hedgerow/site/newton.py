"""Newton vectors, summed record by record. Nothing here looks at two records at a time."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from hedgerow.kernels.newton import add_newton_vectors, scaled_rows
from hedgerow.queries import CurveNewton
from hedgerow.values.arrays import Codes, FloatArray, Int32, IntArray
from hedgerow.values.losses import LogLoss

LOSS = LogLoss()
NEWTON_ENTRIES = 2**17  # of the records that a Newton sum holds at once: a megabyte


def newton_sum(
    statistic: CurveNewton, codes: Codes, y: FloatArray, rows: Int32 | None, unit: int
) -> IntArray:
    """(C,) the sum of (g z, c h upper(z z^T)) in units, z divided by the radius.

    A record's vector is long, so it is added where it is made and kept nowhere.
    """
    features = np.array([curve.feature for curve in statistic.curves], np.intp)
    tables = np.array([curve.table[:, 0] for curve in statistic.curves])
    weights, radius = np.asarray(statistic.weights), statistic.radius
    total, most = np.zeros(statistic.channels, np.int64), most_squared(statistic, unit)
    for part in _parts(len(y), rows, NEWTON_ENTRIES // statistic.dimension):
        cells = codes[:, part][features]
        z, score = scaled_rows(tables, cells, statistic.constant, radius, weights)
        with np.errstate(all="ignore"):  # what is not finite adds nothing
            raw = statistic.base + radius * score
            gh = LOSS.contributions(raw[:, None], y[part]) * unit
        add_newton_vectors(z, gh[:, 0], gh[:, 1], most, total)
    return total


def most_squared(statistic: CurveNewton, unit: int) -> int:
    """The largest squared norm that keeps the whole bound: Linf <= L2, L1 <= sqrt(C) L2."""
    bound = statistic.bound(unit)
    return min(bound.l2_squared, bound.linf**2, bound.l1**2 // statistic.channels)


def _parts(n: int, rows: Int32 | None, size: int) -> Iterator[slice | Int32]:
    """Chunks of all rows, or of those selected."""
    for lo in range(0, n if rows is None else len(rows), max(size, 1)):
        chunk = slice(lo, lo + max(size, 1))
        yield chunk if rows is None else rows[chunk]
