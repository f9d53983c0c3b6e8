"""One column of rows: whatever a file or a frame holds, as numbers or as tokens.

What becomes of a value depends on the value alone, never on its neighbours in the column: a
record's code must not change because another record came or went. Arrow and NumPy are quick ways
to the same result; where a column is of no plain type, its values are read one by one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from hedgerow.values.grids import MISSING_TEXTS
from hedgerow.values.tokens import (
    TRUTHS,
    Token,
    Unusable,
    nearest_float,
    plain_text,
    real_of,
    token_of,
)

Column = Any
"""A NumPy array of numbers or booleans, a pyarrow Array of a plain type, or an array of objects."""

Strange = list[tuple[Any, int]]
"""Values that could not be used, and how often each was met."""


@dataclass(frozen=True, slots=True)
class Distinct:
    """The distinct values of a column, and for each row which of them it holds."""

    values: list[Any]
    index: NDArray[np.intp]

    def tokens(self) -> list[Token]:
        return [token_of(value) for value in self.values]

    def met(self, marked: Sequence[bool]) -> Strange:
        """The marked values that some row holds, and in how many rows."""
        if not any(marked):
            return []
        times = np.bincount(self.index, minlength=len(self.values)).tolist()
        found = zip(self.values, times, marked, strict=True)
        return [(value, n) for value, n, is_marked in found if n and is_marked]


def as_column(values: Any) -> Column:
    """Arrow sees through pandas' nullable, categorical and string types; numbers need no help."""
    dtype = getattr(values, "dtype", None)
    if isinstance(dtype, np.dtype) and dtype.kind in "biuf":
        return np.asarray(values)
    try:
        column = _as_arrow(values)
    except Exception:  # an object may raise anything, and one object must not stop a column
        return _objects(values)
    return column if _is_plain(column.type) else _objects(values)


def _as_arrow(values: Any) -> Any:
    if hasattr(values, "__arrow_c_stream__") and not hasattr(values, "iloc"):
        column = pa.chunked_array(values)  # Polars hands over what it holds; pandas knows NaN
    else:
        column = pa.array(values, from_pandas=True)
    whole = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    return pc.cast(whole, pa.large_string()) if pa.types.is_string_view(whole.type) else whole


def _objects(values: Any) -> NDArray[np.object_]:
    """The values one by one, as the objects they are."""
    if isinstance(values, pa.Array | pa.ChunkedArray):
        values = values.to_pylist()
    return np.fromiter(values, dtype=object, count=len(values))


def is_utf8(column: Column) -> bool:
    """Bytes of a file that are no text are read with replacement marks; an owner wants to know."""
    if isinstance(column, np.ndarray) or not pa.types.is_binary(column.type):
        return True
    try:
        pc.cast(column, pa.string())
    except pa.ArrowInvalid:
        return False
    return True


def is_number(column: Column) -> bool:
    """Whether the column says by its type, or by each of its objects, that it holds numbers."""
    if not isinstance(column, np.ndarray):
        return _is_number(column.type)
    if column.dtype.kind != "O":
        return bool(column.dtype.kind != "b")
    return not any(isinstance(value, str | bytes | bool | np.bool_) for value in column)


def is_truth(column: Column) -> bool:
    """Whether the column says by its type, or by each of its objects, that it holds booleans."""
    if not isinstance(column, np.ndarray):
        return bool(pa.types.is_boolean(column.type))
    if column.dtype.kind != "O":
        return bool(column.dtype.kind == "b")
    return all(isinstance(value, bool | np.bool_) for value in column if value is not None)


def numbers(column: Column) -> tuple[NDArray[np.float64], Strange]:
    """As float64, NaN where a value is missing or says no number."""
    if isinstance(column, np.ndarray):
        is_plain = column.dtype.kind != "O"
        return (column.astype(np.float64, copy=False), []) if is_plain else _one_by_one(column)
    if _is_text(column.type):
        return _parsed_at_once(column) or _one_by_one(column)
    return _one_by_one(column) if pa.types.is_dictionary(column.type) else (_floats(column), [])


def distinct(column: Column) -> Distinct:
    if isinstance(column, np.ndarray):
        if column.dtype.kind == "O":
            return _distinct_objects(column)
        values, index = np.unique(column, return_inverse=True)
        return Distinct(values.tolist(), index)
    encoded = column if pa.types.is_dictionary(column.type) else column.dictionary_encode()
    values = encoded.dictionary.to_pylist()
    index = encoded.indices.cast(pa.int64()).fill_null(len(values)).to_numpy(zero_copy_only=False)
    return Distinct([*values, None], index.astype(np.intp, copy=False))


def _distinct_objects(column: NDArray[np.object_]) -> Distinct:
    """One value of each token and type: objects may be unhashable, and True equals 1."""
    place: dict[tuple[type, Token], int] = {}
    values: list[Any] = []
    index = np.empty(len(column), np.intp)
    for row, value in enumerate(column):
        index[row] = at = place.setdefault((type(value), token_of(value)), len(values))
        if at == len(values):
            values.append(value)
    return Distinct(values, index)


def _is_plain(kind: Any) -> bool:
    """Decimals are left to Python: Arrow rounds them another way."""
    if pa.types.is_dictionary(kind):
        return _is_plain(kind.value_type)
    return _is_number(kind) or _is_text(kind) or bool(pa.types.is_boolean(kind))


def _is_number(kind: Any) -> bool:
    is_a = pa.types
    return bool(
        is_a.is_integer(kind)
        or is_a.is_float32(kind)
        or is_a.is_float64(kind)
        or is_a.is_null(kind)
    )


def _is_text(kind: Any) -> bool:
    is_a = pa.types
    if is_a.is_string(kind) or is_a.is_large_string(kind):
        return True
    return bool(is_a.is_binary(kind) or is_a.is_large_binary(kind))


def _floats(column: Column) -> NDArray[np.float64]:
    floats = pc.cast(column, pa.float64(), safe=False)
    return np.asarray(floats.to_numpy(zero_copy_only=False), dtype=np.float64)


def _parsed_at_once(column: Column) -> tuple[NDArray[np.float64], Strange] | None:
    """The quick way; None if any text is in the way. What it parses, float() parses alike.

    But for one: Arrow takes "nan(anything)" for NaN.
    """
    try:
        text = pc.cast(column, pa.large_string())
        blank = pc.is_in(text, value_set=pa.array(sorted(MISSING_TEXTS), pa.large_string()))
        parsed = pc.cast(pc.if_else(blank, None, text), pa.float64())
    except pa.ArrowInvalid:
        return None
    has_nan = pc.any(pc.is_nan(parsed)).as_py()
    return None if has_nan else (_floats(parsed), [])


def _one_by_one(column: Column) -> tuple[NDArray[np.float64], Strange]:
    """Objects of one token may be different numbers, so they are not taken together."""
    is_mixed = isinstance(column, np.ndarray)
    found = Distinct(list(column), np.arange(len(column))) if is_mixed else distinct(column)
    parsed = [number_of(value) for value in found.values]
    values = np.array([np.nan if number is None else number for number in parsed], np.float64)
    return values[found.index], found.met([number is None for number in parsed])


def number_of(value: object) -> float | None:
    """NaN for a missing value, None for what says no number."""
    if isinstance(value, str | bytes):
        return _number_in(plain_text(value))
    number = real_of(value)
    return None if isinstance(number, Unusable) else nearest_float(number)


def _number_in(text: str) -> float | None:
    if text in MISSING_TEXTS:
        return np.nan
    try:
        return float(TRUTHS.get(text, text))
    except ValueError:
        return None
