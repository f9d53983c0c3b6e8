"""Scores and sums of curves and surfaces: a record's cell in the table of every term.

A term reads two groups of a record; its table has a number for every pair of them. Scores and
squared norms add the numbers in a record's cells, and sums add a record's number to its cells.
Terms are added in order, so that a record's result depends on that record alone.

Shapes: C rows of groups, n records, T terms (rows of `Basis.layout`), M cells of all tables.
"""

from __future__ import annotations

import numpy as np

from hedgerow.errors import ParameterError
from hedgerow.kernels.dispatch import Kernel, as_input
from hedgerow.schema.arrays import Codes, FloatArray, IntArray

MARGIN = 1.0 - 2.0**-48
"""The bound is lowered by this factor, which exceeds all rounding errors of the comparison."""


def look_up(
    groups: Codes, layout: IntArray, tables: FloatArray, squares: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """(n,) sums of the tables' numbers in each record's cells, and the same of `squares`."""
    _check(groups, layout, len(tables), len(squares))
    score, norm = np.zeros((2, groups.shape[1]))
    inputs = as_input(groups, np.uint8), as_input(layout, np.int64)
    LOOK_UP.run(*inputs, as_input(tables, np.float64), as_input(squares, np.float64), score, norm)
    return score, norm


def add_at_places(groups: Codes, layout: IntArray, multiples: IntArray, totals: IntArray) -> None:
    """Adds each record's integer to `totals` (M,), in its cell of every term."""
    _check(groups, layout, len(totals), len(totals))
    if len(multiples) != groups.shape[1]:
        raise ParameterError(f"{len(multiples)} numbers came for {groups.shape[1]} records.")
    inputs = as_input(groups, np.uint8), as_input(layout, np.int64)
    ADD_AT_PLACES.run(*inputs, as_input(multiples, np.int64), totals)


def bounded_multiples(gradient: FloatArray, norm: FloatArray, units: int, radius: int) -> IntArray:
    """(n, O) integers m near units g min(1, R / |F|), with |m|^2 |F|^2 <= (units R)^2.

    `norm` is |F|^2, an exact integer. A record whose numbers are not finite or exceed the bound
    adds nothing. That never happens to honest ones, whose |g| is below 1 - 2^-44.
    """
    if (units * radius) ** 2 >= 2**52 or units >= 2**26:
        raise ParameterError(f"the bound {units} x {radius} is too large; use a smaller unit.")
    with np.errstate(all="ignore"):
        scale = radius / np.sqrt(np.maximum(norm, float(radius) ** 2))
        multiples = np.trunc(units * (gradient * scale[:, None]))
        squares = np.zeros(len(norm))
        for own in multiples.T:
            squares += own * own
        fits = squares * norm <= (units * radius) ** 2 * MARGIN
    return np.where(fits[:, None], multiples, 0.0).astype(np.int64)


def _check(groups: Codes, layout: IntArray, *sizes: int) -> None:
    """Compiled loops check no bounds: the last cell of every term must lie within the tables."""
    most = groups.max(axis=1, initial=0).astype(np.int64)
    last = layout[:, 2] + layout[:, 3] * most[layout[:, 0]] + most[layout[:, 1]]
    if len(layout) and (last.max() >= min(sizes) or layout.min() < 0):
        raise ParameterError(f"places up to {last.max()} in tables of {min(sizes)} cells.")


def _places(groups: Codes, term: IntArray) -> IntArray:
    first, second, begin, width = term.tolist()
    return np.asarray(begin + width * groups[first].astype(np.int64) + groups[second])


def _look_up_plain(
    groups: Codes,
    layout: IntArray,
    tables: FloatArray,
    squares: FloatArray,
    score: FloatArray,
    norm: FloatArray,
) -> None:
    for term in layout:
        places = _places(groups, term)
        score += tables[places]
        norm += squares[places]


def _add_at_places_plain(
    groups: Codes, layout: IntArray, multiples: IntArray, totals: IntArray
) -> None:
    """Sums of these integers are far below 2^53, so that floating point adds exactly."""
    for term in layout:
        sums = np.bincount(_places(groups, term), multiples, len(totals))
        totals += sums.astype(np.int64)


LOOK_UP = Kernel("look_up", _look_up_plain, "Bqdddd")
ADD_AT_PLACES = Kernel("add_at_places", _add_at_places_plain, "Bqqq")
