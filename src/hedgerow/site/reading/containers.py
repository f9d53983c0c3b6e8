"""From whatever holds values to a column: of the type that the container declares, or objects.

No type is inferred from values: one record would decide how all the others are read. A list, an
array of objects or a column of objects declares none, so what it holds is read value by value.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from hedgerow.errors import DataError
from hedgerow.site.reading.columns import Column, is_plain

OF_POLARS = "Object"
"""Polars' type of any object at all. It hands the addresses of these over as if they were bytes."""


def as_column(values: Any) -> Column:
    """Arrow sees through pandas' nullable, categorical and string types; numbers need no help."""
    values = unmasked(values)
    dtype = getattr(values, "dtype", None)
    if isinstance(dtype, np.dtype) and dtype.kind in "biuf":
        return np.asarray(values)
    if not _declares_type(values, dtype):
        return objects_of(values)
    try:
        column = _as_arrow(values)
    except Exception:  # a text that is no Unicode, an integer of 128 bits
        return objects_of(values)
    return column if is_plain(column.type) else objects_of(values)


def _declares_type(values: Any, dtype: Any) -> bool:
    """Whether the container says what it holds, so that Arrow need not look."""
    if isinstance(dtype, np.dtype):
        return dtype.kind in "biufUS"
    if isinstance(values, pa.Array | pa.ChunkedArray):
        return True
    if not hasattr(values, "array"):  # as all of pandas has
        return hasattr(values, "__arrow_c_stream__") and str(dtype) != OF_POLARS
    categories = getattr(dtype, "categories", None)
    if categories is not None:
        return _declares_type(categories, categories.dtype)
    return hasattr(values.array, "__arrow_array__")


def _as_arrow(values: Any) -> Any:
    if hasattr(values, "__arrow_c_stream__") and not hasattr(values, "iloc"):
        column = pa.chunked_array(values)  # Polars hands over what it holds; pandas knows NaN
    else:
        column = pa.array(values, from_pandas=True)
    whole = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    return pc.cast(whole, pa.large_string()) if pa.types.is_string_view(whole.type) else whole


def objects_of(values: Any) -> NDArray[np.object_]:
    """The values one by one, as the objects they are."""
    if isinstance(getattr(values, "dtype", None), np.dtype) and values.dtype.kind == "O":
        return np.asarray(values)
    if isinstance(values, pa.Array | pa.ChunkedArray):
        values = [_of_arrow(value) for value in values]
    elif hasattr(values, "__dlpack__"):  # an array of another library, whose items are arrays
        values = np.asarray(values)
    return np.fromiter(values, dtype=object, count=len(values))


def _of_arrow(value: Any) -> Any:
    """As Python knows it; a date beyond Python's calendar stays what it is, no usable value."""
    try:
        return value.as_py()
    except Exception:
        return value


def unmasked(values: Any) -> Any:
    """A masked value is missing, whatever lies beneath its mask."""
    if not isinstance(values, np.ma.MaskedArray) or values.dtype.names:
        return values
    if values.dtype.kind == "f":
        return values.filled(np.nan)
    objects = objects_of(values.data.ravel()).reshape(values.shape).copy()
    objects[np.ma.getmaskarray(values)] = None
    return objects


# ---- rows ---------------------------------------------------------------------------------------


def is_listed(values: Any) -> bool:
    """Whether it is one of Python's sequences: NumPy would find one type for all that it holds."""
    return isinstance(values, Sequence) and not isinstance(values, str | bytes | memoryview)


def is_row(value: Any) -> bool:
    return is_listed(value) or getattr(value, "ndim", 0) > 0


def cells_of(rows: Sequence[Any]) -> NDArray[np.object_]:
    """(n, columns) of a list of rows, each value as it is and none looked into.

    NumPy would make text of numbers beside one text, and look for dimensions inside of values.
    """
    are_rows = set(map(type, rows)) <= {list, tuple} or all(map(is_row, rows))
    widths = set(map(len, rows)) if are_rows else {0}
    if len(widths) != 1 or 0 in widths:
        raise DataError(
            f"the rows have no common shape: {sorted(widths)} values in a row; give a table: as "
            "many values in every row."
        )
    (width,) = widths
    cells = np.fromiter(chain.from_iterable(rows), dtype=object, count=len(rows) * width)
    return cells.reshape(len(rows), width)
