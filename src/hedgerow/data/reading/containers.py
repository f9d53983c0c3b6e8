"""Converts any container of values to a column of its declared type, or of objects.

No type is inferred from values: one record would then decide how all others are read. Lists, object
arrays and object columns declare no type and are read value by value.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from itertools import chain
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from hedgerow.data.reading.columns import Column, is_plain
from hedgerow.errors import DataError, HedgerowError

OF_POLARS = "Object"
"""Polars' object type, which Polars exports as raw memory addresses."""


def as_column(values: Any) -> Column:
    """Reads the container; Arrow handles pandas' nullable, categorical and string types."""
    values = fill_masked(values)
    dtype = getattr(values, "dtype", None)
    if isinstance(dtype, np.dtype) and dtype.kind in "biuf":
        return np.asarray(values)
    if not _declares_type(values, dtype):
        return objects_of(values)
    try:
        column = _as_arrow(values)
    except Exception:  # invalid Unicode, a 128-bit integer
        return objects_of(values)
    return column if is_plain(column.type) else objects_of(values)


def _declares_type(values: Any, dtype: Any) -> bool:
    """Whether the container declares its type, so that Arrow need not infer it."""
    if isinstance(dtype, np.dtype):
        return dtype.kind in "biufUS"
    if isinstance(values, pa.Array | pa.ChunkedArray):
        return True
    if not hasattr(values, "array"):  # not a pandas object
        return hasattr(values, "__arrow_c_stream__") and str(dtype) != OF_POLARS
    categories = getattr(dtype, "categories", None)
    if categories is not None:
        return _declares_type(categories, categories.dtype)
    return hasattr(values.array, "__arrow_array__")


def _as_arrow(values: Any) -> Any:
    if hasattr(values, "__arrow_c_stream__") and not hasattr(values, "iloc"):
        column = pa.chunked_array(values)  # Polars exports Arrow; pandas needs NaN handling
    else:
        column = pa.array(values, from_pandas=True)
    whole = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    return pc.cast(whole, pa.large_string()) if pa.types.is_string_view(whole.type) else whole


def objects_of(values: Any) -> NDArray[np.object_]:
    """The values as individual Python objects."""
    if isinstance(getattr(values, "dtype", None), np.dtype) and values.dtype.kind == "O":
        return np.asarray(values)
    if isinstance(values, pa.Array | pa.ChunkedArray):
        values = [_of_arrow(value) for value in values]
    elif hasattr(values, "__dlpack__"):  # of another array library, whose items are arrays
        values = np.asarray(values)
    return np.fromiter(values, dtype=object, count=len(values))


def _of_arrow(value: Any) -> Any:
    """The Python value; a date beyond Python's calendar stays an Arrow scalar and is unusable."""
    try:
        return value.as_py()
    except Exception:
        return value


def fill_masked(values: Any) -> Any:
    """Replaces masked values by missing ones."""
    is_array = isinstance(values, np.ndarray)  # numpy.ma is loaded for arrays alone
    if not is_array or not isinstance(values, np.ma.MaskedArray) or values.dtype.names:
        return values
    if values.dtype.kind == "f":
        return values.filled(np.nan)
    objects = objects_of(values.data.ravel()).reshape(values.shape).copy()
    objects[np.ma.getmaskarray(values)] = None
    return objects


def is_listed(values: Any) -> bool:
    """Whether it is a Python sequence, to which NumPy would assign one common type."""
    return isinstance(values, Sequence) and not isinstance(values, str | bytes | memoryview)


def is_row(value: Any) -> bool:
    return is_listed(value) or getattr(value, "ndim", 0) > 0


def cells_of(rows: Sequence[Any]) -> NDArray[np.object_]:
    """(n, columns) an object array of a list of rows, with every value unchanged.

    NumPy would turn numbers next to text into text, and expand values that are sequences.
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


# Every source of rows becomes named columns that are read chunk by chunk.


ROWS_READ: ContextVar[Callable[[str, int], None]] = ContextVar("rows read", default=lambda *_: None)
"""Called after every chunk with the source and its number of rows so far, for progress."""


@dataclass(frozen=True, slots=True)
class LineFaults:
    """Lines that are not rows, lines in another encoding, and the first problem in words."""

    n_malformed: int = 0
    n_recoded: int = 0
    first: str | None = None


class RowTable(ABC):
    """Named columns, read in order of rows.

    `capacity` is at least the number of rows, or 0 if unknown; `faults` are known after reading.
    """

    where: str
    names: list[str]
    capacity = 0
    faults = LineFaults()

    def find(self, name: str, value: object) -> str | None:
        """The line of the first cell of a column with that text, for an error message."""
        return None

    @abstractmethod
    def chunks(self, names: Sequence[str], rows: int) -> Iterator[list[Column]]:
        """Yields the named columns in chunks of `rows` rows (CSV: of some megabytes)."""
        ...


def positions_of(table: RowTable, names: Sequence[str]) -> list[int]:
    """The positions of the named columns; refuses absent and repeated names."""
    times = Counter(table.names)
    for name in names:
        if times[name] == 0:
            raise DataError(
                f"{table.where} has no column {name!r}; it has {table.names}. "
                "Rename the column or correct the schema."
            )
        if times[name] > 1:
            raise DataError(f"{table.where} has {times[name]} columns named {name!r}; keep one.")
    return [table.names.index(name) for name in names]


def check_named(where: str, names: Sequence[str], **columns: str | Sequence[str] | None) -> None:
    """Raises if a column that the user named (target, site, person) is absent."""
    pairs = ((k, n) for k, v in columns.items() for n in ([v] if isinstance(v, str) else v or ()))
    for parameter, name in pairs:
        if name not in names:
            raise DataError(
                f"{where} has no column {name!r}, which `{parameter}` names; it has {list(names)}. "
                f"Correct `{parameter}`."
            )


@contextmanager
def as_data_error(
    where: str, *others: type[Exception], advice: str = "Check or rewrite it"
) -> Iterator[None]:
    """Turns an error of the whole source, not of one row, into a `DataError`."""
    try:
        yield
    except HedgerowError:
        raise
    except (pa.ArrowException, OSError, UnicodeDecodeError, *others) as error:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise DataError(f"{where} cannot be read: {reason}. {advice}.") from None
