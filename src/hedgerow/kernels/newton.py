"""The sum of all records' Newton vectors on curve weights; the long vectors are not stored.

A record's vector is (g z, h upper(z z^T)): z has d entries, the vector d + d (d + 1) / 2. Sums over
the entries of a record are taken in order, so that a record's contribution depends on that record
alone. (With a matrix product, the order of additions would depend on the row's place among the
others.)

Memory: the sums, and d numbers for each record that is passed at once.

Shapes: n records, d entries of z, the last one constant.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import reduce

import numpy as np
from numpy.typing import NDArray

from hedgerow.errors import ParameterError
from hedgerow.kernels.dispatch import Kernel, as_input
from hedgerow.schema.arrays import N_CODES, Codes, FloatArray, IntArray


def scaled_rows(
    tables: FloatArray, codes: Codes, constant: float, radius: float, weights: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """(n, d) z of norm 1 or less, and (n,) the weighted sum of its entries.

    An entry is a curve's value in the record's cell, the last one the constant, all divided by the
    radius, or by their norm if it is larger. `tables` (d - 1, 256) and `codes` (d - 1, n) are those
    of the same curves.
    """
    if tables.shape != (len(codes), N_CODES) or weights.shape != (len(codes) + 1,):
        raise ParameterError(
            f"tables {tables.shape}, weights {weights.shape}: {len(codes)} curves."
        )
    if not radius > 0:
        raise ParameterError(f"the radius is {radius}; use a number above 0.")
    z, score = np.empty((codes.shape[1], len(weights))), np.zeros(codes.shape[1])
    inputs = as_input(tables, np.float64), as_input(codes, np.uint8)
    scale = float(constant), float(radius), as_input(weights, np.float64)
    SCALED_ROWS.run(*inputs, *scale, z, score)
    return z, score


def add_newton_vectors(
    z: FloatArray, g: FloatArray, h: FloatArray, most: int, total: IntArray
) -> None:
    """Adds every record's vector (g z, h upper(z z^T)), truncated toward zero, to `total`.

    A record adds nothing if its squared norm could exceed `most` after truncation, or if it is not
    finite. The norm follows from the factors: with s = sum z^2 and q = sum z^4 it is g^2 s + h^2
    (s^2 + q) / 2 before truncation, which only shrinks it. Rounding, there and in the entries, is
    below (2 d + 20) 2^-53 of that: less than half a unit, since `most` is limited. So if the
    computed number is at most `most` + 1/2, the sum of the squared integers is below `most` + 1
    and, being an integer, at most `most`.
    """
    d = z.shape[1]
    if total.shape != (d + d * (d + 1) // 2,) or not len(z) == len(g) == len(h):
        raise ParameterError(
            f"{total.shape} sums, {len(g)} and {len(h)} factors: rows are {z.shape}."
        )
    if most * (2 * d + 20) >= 2**51:
        raise ParameterError(f"the bound {most} is too large for {d} entries; use a smaller unit.")
    inputs = [as_input(x, np.float64) for x in (z, g, h)]
    ADD_VECTORS.run(*inputs, most + 0.5, total)


def _scaled_rows_plain(
    tables: FloatArray,
    codes: Codes,
    constant: float,
    radius: float,
    weights: FloatArray,
    z: FloatArray,
    score: FloatArray,
) -> None:
    z[:, -1] = constant
    for column, table, cells in zip(z.T, tables, codes, strict=False):
        column[:] = table[cells]
    with np.errstate(all="ignore"):
        norm = np.sqrt(_sum_of(column * column for column in z.T))
        z *= (1.0 / np.where(norm > radius, norm, radius))[:, None]
        for column, weight in zip(z.T, weights, strict=True):
            score += column * weight


def _add_vectors_plain(
    z: FloatArray, g: FloatArray, h: FloatArray, limit: float, total: IntArray
) -> None:
    fits = _fit(z, g, h, limit)
    z, g, h = z[fits], g[fits], h[fits]
    d = z.shape[1]
    total[:d] += np.trunc(g[:, None] * z).sum(axis=0).astype(np.int64)
    at = d
    for i in range(d):
        entries = np.trunc((h * z[:, i])[:, None] * z[:, i:])
        total[at : at + d - i] += entries.sum(axis=0).astype(np.int64)
        at += d - i


def _fit(z: FloatArray, g: FloatArray, h: FloatArray, limit: float) -> NDArray[np.bool_]:
    with np.errstate(all="ignore"):
        s = _sum_of(column * column for column in z.T)
        q = _sum_of((column * column) * (column * column) for column in z.T)
        return np.asarray(g * g * s + h * h * (0.5 * (s * s + q)) <= limit)


def _sum_of(columns: Iterable[FloatArray]) -> FloatArray:
    """Sums column by column, in order; `np.sum` would use another order."""
    return reduce(np.add, columns)


SCALED_ROWS = Kernel("scaled_rows", _scaled_rows_plain, "dBNNddd")
ADD_VECTORS = Kernel("add_vectors", _add_vectors_plain, "dddNq")
