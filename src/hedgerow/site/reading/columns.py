"""One column of rows: whatever a file or a frame holds, as numbers or as text.

What becomes of a value depends on the value alone, never on its neighbours in the column: a
record's code must not change because another record came or went.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from hedgerow.values.grids import MISSING_TEXTS

Column = Any
"""A NumPy array of numbers or booleans, or a pyarrow Array of anything else."""

Strange = dict[str, int]
"""Texts that could not be used, and how often each was met."""


def as_column(values: Any) -> Column:
    """Arrow sees through pandas' nullable, categorical and string types; numbers need no help."""
    dtype = getattr(values, "dtype", None)
    if isinstance(dtype, np.dtype) and dtype.kind in "biuf":
        return np.asarray(values)
    try:
        column = pa.array(values, from_pandas=True)
    except (pa.ArrowException, ValueError, TypeError, OverflowError):
        # Objects of several kinds side by side: each one's text is what they have in common.
        column = pa.array([_storable(text_of(value)) for value in values], pa.large_string())
    return column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column


def refused_type(column: Column) -> str | None:
    """The name of a type that is neither number, text nor boolean; None if all is well."""
    if isinstance(column, np.ndarray):
        return None
    kind = column.type.value_type if pa.types.is_dictionary(column.type) else column.type
    fits = _is_number(kind) or _is_text(kind) or pa.types.is_boolean(kind)
    return None if fits else str(kind)


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
    return column.dtype.kind != "b" if isinstance(column, np.ndarray) else _is_number(column.type)


def numbers(column: Column) -> tuple[NDArray[np.float64], Strange]:
    """As float64, NaN where a value is missing or is text that says no number."""
    if isinstance(column, np.ndarray):
        return column.astype(np.float64, copy=False), {}
    if pa.types.is_dictionary(column.type):
        return _parsed_one_by_one(column)
    if _is_text(column.type):
        return _parsed_at_once(column) or _parsed_one_by_one(column)
    return _floats(column), {}


def texts(column: Column) -> tuple[list[str | None], NDArray[np.intp]]:
    """The distinct texts (None: missing), and for each row which of them it holds."""
    if isinstance(column, np.ndarray):
        values, index = np.unique(column, return_inverse=True)
        return [text_of(value) for value in values.tolist()], index
    encoded = column if pa.types.is_dictionary(column.type) else column.dictionary_encode()
    distinct = [text_of(value) for value in encoded.dictionary.to_pylist()]
    index = encoded.indices.cast(pa.int64()).fill_null(len(distinct))
    return [*distinct, None], index.to_numpy(zero_copy_only=False).astype(np.intp, copy=False)


def counted(strange: list[bool], distinct: list[str | None], index: NDArray[np.intp]) -> Strange:
    """How often each distinct text that is marked strange was met."""
    times = np.bincount(index, minlength=len(distinct))
    marked = zip(distinct, strange, times.tolist(), strict=True)
    return {str(text): n for text, is_strange, n in marked if is_strange and n}


def text_of(value: object) -> str | None:
    """Booleans are "True" and "False", numbers as Python writes them; NaN and None are missing."""
    if value is None or (isinstance(value, float) and value != value):
        return None
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)


def _storable(text: str | None) -> str | None:
    """A lone surrogate cannot be stored as UTF-8."""
    return None if text is None else text.encode("utf-8", "replace").decode()


def _is_number(kind: Any) -> bool:
    is_a = pa.types
    if is_a.is_integer(kind) or is_a.is_floating(kind):
        return True
    return bool(is_a.is_decimal(kind) or is_a.is_null(kind))


def _is_text(kind: Any) -> bool:
    is_a = pa.types
    if is_a.is_string(kind) or is_a.is_large_string(kind) or is_a.is_string_view(kind):
        return True
    return bool(is_a.is_binary(kind) or is_a.is_large_binary(kind))


def _floats(column: Column) -> NDArray[np.float64]:
    floats = pc.cast(column, pa.float64(), safe=False)
    return np.asarray(floats.to_numpy(zero_copy_only=False), dtype=np.float64)


def _parsed_at_once(column: Column) -> tuple[NDArray[np.float64], Strange] | None:
    """The quick way; None if any text is in the way. What it parses, float() parses alike."""
    try:
        text = pc.cast(column, pa.large_string())
        blank = pc.is_in(text, value_set=pa.array(sorted(MISSING_TEXTS), pa.large_string()))
        return _floats(pc.cast(pc.if_else(blank, None, text), pa.float64())), {}
    except pa.ArrowInvalid:
        return None


def _parsed_one_by_one(column: Column) -> tuple[NDArray[np.float64], Strange]:
    distinct, index = texts(column)
    parsed = [_number_in(text) for text in distinct]
    values = np.array([np.nan if number is None else number for number in parsed])
    return values[index], counted([number is None for number in parsed], distinct, index)


def _number_in(text: str | None) -> float | None:
    """NaN for a missing value, None for text that is no number."""
    if text is None or text.strip() in MISSING_TEXTS:
        return np.nan
    try:
        return float(text)
    except ValueError:
        return None
