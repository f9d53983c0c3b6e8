"""Scores and sums of curves and surfaces: a record's cell in every table that terms share.

A table reads up to three groups of a record, and has a number for all of them together. Scores and
squared norms add the numbers in a record's cells, and sums add a record's number to its cells.
Tables are added in order, so that a record's result depends on that record alone.

Shapes: R rows of groups, n records, S tables (rows of `Basis.layout`), M cells of all tables.
"""

from __future__ import annotations

import numpy as np

from hedgerow.errors import ParameterError
from hedgerow.kernels.dispatch import Kernel, as_input
from hedgerow.models.losses import LONGER
from hedgerow.models.surfaces import Basis
from hedgerow.schema.arrays import Codes, FloatArray, IntArray

MARGIN = 1.0 - 2.0**-48
"""The bound is lowered by this factor, which exceeds all rounding errors of the comparison."""


def look_up(groups: Codes, layout: IntArray, table: FloatArray) -> FloatArray:
    """(n,) sums of the numbers (M,) in each record's cells."""
    _check(groups, layout, len(table))
    out = np.zeros(groups.shape[1])
    inputs = as_input(groups, np.uint8), as_input(layout, np.int64)
    LOOK_UP.run(*inputs, as_input(table, np.float64), out)
    return out


def add_at_places(groups: Codes, layout: IntArray, multiples: IntArray, totals: IntArray) -> None:
    """Adds each record's integer to `totals` (M,), in its cell of every table."""
    _check(groups, layout, len(totals))
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
    out, limit = np.empty(gradient.shape, np.int64), (units * radius) ** 2 * MARGIN
    inputs = as_input(gradient, np.float64), as_input(norm, np.float64)
    BOUNDED_MULTIPLES.run(*inputs, float(units), float(radius), limit, out)
    return out


def surface_step(
    basis: Basis,
    codes: Codes,
    table: FloatArray,
    norm: FloatArray,
    scores: tuple[FloatArray, FloatArray, FloatArray],
    bounds: tuple[float, int, int],
) -> IntArray | None:
    """(M,) sums of a gradient step in one pass over the rows; None where it is not compiled.

    `scores` are raw (n, 1), the loss's numbers and the targets; `bounds` clip, units and radius.
    The steps are `look_up`, `loss_contributions`, `clipped_gradients`, `bounded_multiples` and
    `add_at_places`.
    """
    raw, loss, y = scores
    if not raw.size == len(norm) == len(y) == codes.shape[1]:
        raise ParameterError(f"{raw.shape} scores, {len(norm)} norms, {len(y)} targets came.")
    columns = np.array([*(basis.functions[k].feature for k in basis.grouped), 0], np.int64)
    groups, totals = basis.groups[[*basis.grouped, -1]], np.zeros(basis.n_cells, np.int64)
    most = np.concatenate([groups.max(axis=1), codes.max(axis=1, initial=0)])
    _check_most(most, basis.layout, min(len(table), len(totals)))
    limits = LONGER, *map(float, bounds), (bounds[1] * bounds[2]) ** 2 * MARGIN
    numbers = [as_input(values, np.float64) for values in (table, norm, raw, loss, y)]
    places = as_input(codes, np.uint8), columns, groups, basis.layout
    return totals if SURFACE_STEP.run(*places, *numbers, *limits, totals) else None


def _check(groups: Codes, layout: IntArray, size: int) -> None:
    _check_most(groups.max(axis=1, initial=0), layout, size)


def _check_most(highest: Codes, layout: IntArray, size: int) -> None:
    """Compiled loops check no bounds: the last cell of every table must lie within the numbers."""
    most, (a, b, c, begin, seconds, thirds) = highest.astype(np.int64), layout.T
    last = begin + (most[a] * seconds + most[b]) * thirds + most[c]
    if len(layout) and (last.max() >= size or layout.min() < 0):
        raise ParameterError(f"places up to {last.max()} in tables of {size} cells.")


def _places(groups: Codes, table: IntArray) -> IntArray:
    a, b, c, begin, seconds, thirds = table.tolist()
    first = groups[a].astype(np.int64) * seconds + groups[b]
    return np.asarray(begin + first * thirds + groups[c])


def _look_up_plain(groups: Codes, layout: IntArray, numbers: FloatArray, out: FloatArray) -> None:
    for table in layout:
        out += numbers[_places(groups, table)]


def _add_at_places_plain(
    groups: Codes, layout: IntArray, multiples: IntArray, totals: IntArray
) -> None:
    """Sums of these integers are far below 2^53, so that floating point adds exactly."""
    for table in layout:
        sums = np.bincount(_places(groups, table), multiples, len(totals))
        totals += sums.astype(np.int64)


def _bounded_multiples_plain(
    gradient: FloatArray,
    norm: FloatArray,
    units: float,
    radius: float,
    limit: float,
    out: IntArray,
) -> None:
    with np.errstate(all="ignore"):
        scale = radius / np.sqrt(np.maximum(norm, radius**2))
        multiples = np.trunc(units * (gradient * scale[:, None]))
        squares = np.zeros(len(norm))
        for own in multiples.T:
            squares += own * own
        fits = squares * norm <= limit
    out[:] = np.where(fits[:, None], multiples, 0.0)


LOOK_UP = Kernel("look_up", _look_up_plain, "Bqdd")
ADD_AT_PLACES = Kernel("add_at_places", _add_at_places_plain, "Bqqq")
BOUNDED_MULTIPLES = Kernel("bounded_multiples", _bounded_multiples_plain, "ddNNNq")
SURFACE_STEP = Kernel("surface_step", None, "BqBqdddddNNNNNq")
