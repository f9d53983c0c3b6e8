"""Encodes numbers as cell codes, merges cells into bins, and splits a selection of rows.

Codes are uint8, feature-major (F, n).
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hedgerow.errors import ParameterError
from hedgerow.kernels.dispatch import Kernel, as_input, check_selection
from hedgerow.schema.arrays import N_CODES, Codes, FloatArray, Int32

N_BUCKETS = (
    4096  # buckets of the guide to a feature's edges; one byte each, so it stays in the cache
)


def encode_edges(values: NDArray[np.floating[Any]], edges: Sequence[float], out: Codes) -> None:
    """Writes the number of edges at or below each value; NaN becomes len(edges) + 1, missing."""
    if out.shape != values.shape or out.dtype != np.uint8:
        raise ParameterError(f"out is {out.dtype} {out.shape}; give one uint8 for each value.")
    numbers = as_input(values, np.float64)
    ENCODE.run(numbers, *_ruler(tuple(edges)), out)


@lru_cache(maxsize=1024)
def _ruler(edges: tuple[float, ...]) -> tuple[FloatArray, Codes, float]:
    """Cuts, and a guide to them; cached, since every chunk of rows uses the same.

    guide[b] is the number of cuts in buckets before b; it is empty if a bucket would hold two. The
    bucket floor((x - low) * scale) is monotone in x, also in floating point, so a cut in a lower
    bucket is below x, and only the cut in x's own bucket has to be compared.
    """
    cuts = as_input(edges, np.float64)
    if len(cuts) + 2 > N_CODES or not (cuts[1:] > cuts[:-1]).all():
        raise ParameterError(f"{len(cuts)} edges; give at most {N_CODES - 2}, rising.")
    width = float(cuts[-1]) - float(cuts[0]) if len(cuts) > 1 else 0.0  # may be infinite
    if not 1e-300 < width < 1e300:
        return cuts, as_input((), np.uint8), 0.0
    scale = (N_BUCKETS - 1) / width
    buckets = np.minimum((cuts - cuts[0]) * scale, N_BUCKETS - 1).astype(np.int32)
    if not np.diff(buckets).all():
        return cuts, as_input((), np.uint8), 0.0
    return cuts, as_input(np.searchsorted(buckets, np.arange(N_BUCKETS)), np.uint8), scale


def _encode_plain(
    values: FloatArray, cuts: FloatArray, guide: Codes, scale: float, out: Codes
) -> None:
    out[:] = np.searchsorted(cuts, values, side="right")
    out[np.isnan(values)] = len(cuts) + 1


def recode(codes: Codes, tables: Codes) -> Codes:
    """(F, n) bins: cell c of feature j becomes tables[j, c]."""
    if tables.shape != (len(codes), N_CODES):
        raise ParameterError(f"tables have shape {tables.shape}; give ({len(codes)}, {N_CODES}).")
    out = np.empty(codes.shape, dtype=np.uint8)
    RECODE.run(as_input(codes, np.uint8), as_input(tables, np.uint8), out)
    return out


def _recode_plain(codes: Codes, tables: Codes, out: Codes) -> None:
    for cells, table, bins in zip(codes, tables, out, strict=True):
        bins[:] = table[cells]


def split_rows(cells: Codes, rows: Int32 | None, left: int) -> tuple[Int32, Int32]:
    """The rows of a selection whose cell is in the bit set `left`, and the others, in order."""
    if rows is None:
        rows = np.arange(len(cells), dtype=np.int32)
    check_selection(rows, len(cells))
    chosen = as_input(rows, np.int32)
    bits = np.frombuffer(left.to_bytes(N_CODES // 8, "little"), np.uint8)
    goes_left = as_input(np.unpackbits(bits, bitorder="little"), np.uint8)
    lefts, rights = np.empty_like(chosen), np.empty_like(chosen)
    n_left = SPLIT_ROWS.run(as_input(cells, np.uint8), chosen, goes_left, lefts, rights)
    return lefts[:n_left].copy(), rights[: chosen.size - n_left].copy()


def _split_rows_plain(
    cells: Codes, rows: Int32, goes_left: Codes, lefts: Int32, rights: Int32
) -> int:
    left = goes_left[cells[rows]] == 1
    n_left = int(left.sum())
    lefts[:n_left], rights[: rows.size - n_left] = rows[left], rows[~left]
    return n_left


ENCODE = Kernel("encode", _encode_plain, "ddBNB")
RECODE = Kernel("recode", _recode_plain, "BBB")
SPLIT_ROWS = Kernel("split_rows", _split_rows_plain, "BiBii")
