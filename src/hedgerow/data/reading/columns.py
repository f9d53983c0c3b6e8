"""Converts one column of any file or frame to numbers or tokens.

The result for a value depends on that value alone, never on other rows: a record's code must not
change because another record was added or removed. `code_of_value` defines the rule. Arrow and
NumPy are fast paths to the same result, for columns with a declared type and for objects of exactly
one Python type.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from hedgerow.data.reading.lines import is_text
from hedgerow.schema.arrays import FloatArray
from hedgerow.schema.grids import ColumnKind, Grid
from hedgerow.schema.tokens import (
    MISSING_TEXTS,
    TRUTHS,
    Token,
    Unusable,
    nearest_float,
    plain_of,
    token_of,
)

Column = Any
"""A NumPy array of numbers or booleans, a pyarrow Array of a plain type, or an array of objects."""

Strange = list[tuple[Any, int]]
"""Values that could not be used, and how often each occurred."""

WHOLE_NUMBERS = (int, np.int8, np.int16, np.int32, np.int64, np.uint8, np.uint16, np.uint32)
TYPED: dict[type, Any] = {
    **dict.fromkeys((float, np.float16, np.float32, np.float64), np.float64),
    **dict.fromkeys(WHOLE_NUMBERS, np.int64),
    **dict.fromkeys((bool, np.bool_), np.bool_),
    **dict.fromkeys((str, np.str_), pa.large_string()),
    bytes: pa.large_binary(),
    type(None): pa.null(),
}
"""The column type, of NumPy or Arrow, that holds objects of exactly one Python type."""


@dataclass(frozen=True, slots=True)
class Distinct:
    """The distinct values of a column, and the index of each row's value among them."""

    values: list[Any]
    index: NDArray[np.intp]

    def tokens(self) -> list[Token]:
        return [token_of(value) for value in self.values]

    def met(self, marks: Sequence[bool] | None = None) -> Strange:
        """The values that occur, or the marked ones of them, with their numbers of rows."""
        if marks is not None and not any(marks):
            return []
        times = np.bincount(self.index, minlength=len(self.values)).tolist()
        triples = zip(self.values, times, marks or [True] * len(times), strict=True)
        return [(value, n) for value, n, is_marked in triples if n and is_marked]


def is_utf8(column: Column) -> bool:
    """Whether all text is valid UTF-8; other bytes are read as replacement characters."""
    if _holds_objects(column):
        has_bytes = any(issubclass(kind, bytes) for kind in set(map(type, column)))
        return not has_bytes or all(is_text(v) for v in column if isinstance(v, bytes))
    if isinstance(column, np.ndarray) or not pa.types.is_binary(column.type):
        return True
    try:
        pc.cast(column, pa.string())
    except pa.ArrowInvalid:
        return False
    return True


def is_number(column: Column) -> bool:
    """Whether the column's type, or each of its objects, is a number."""
    if not isinstance(column, np.ndarray):
        return _is_number(column.type)
    if column.dtype.kind != "O":
        return bool(column.dtype.kind != "b")
    return not any(isinstance(value, str | bytes | bool | np.bool_) for value in column)


def is_truth(column: Column) -> bool:
    """Whether the column's type, or each of its objects, is a boolean."""
    if not isinstance(column, np.ndarray):
        return bool(pa.types.is_boolean(column.type))
    if column.dtype.kind != "O":
        return bool(column.dtype.kind == "b")
    return all(isinstance(value, bool | np.bool_) for value in column if value is not None)


def code_of_value(value: object, grid: Grid) -> int:
    """The cell of any value, independent of its container and of other values."""
    value = grid.read(value)
    if grid.kind is not ColumnKind.NUMERIC:
        return grid.category_code(token_of(value))
    number = number_of(value)
    if number is None or number != number:
        return grid.missing
    return bisect_right(grid.edges, number)


def numbers(column: Column) -> tuple[FloatArray, Strange]:
    """The column as float64, NaN where a value is missing or no number."""
    if not _holds_objects(column):
        return _typed_numbers(column)
    values, strange = np.empty(len(column), np.float64), list[tuple[Any, int]]()
    for rows, part in _by_type(column):
        values[rows], some = (_one_by_one if _holds_objects(part) else _typed_numbers)(part)
        strange += some
    return values, strange


def parsed_numbers(column: Column, grid: Grid) -> tuple[FloatArray, Strange]:
    """Like `numbers`, after the column's parser."""
    if not grid.is_parsed:
        return numbers(column)
    at_once = _numbers_without_sentinels(column, grid)
    return at_once or _one_by_one(column, grid)


def parsed_distinct(column: Column, grid: Grid) -> tuple[Distinct, list[Token]]:
    """The distinct values as written, and the parsed token of each."""
    raw = _each(column) if grid.is_parsed else distinct(column)
    return raw, [token_of(grid.read(value)) for value in raw.values]


def _each(column: Column) -> Distinct:
    """Distinct values of a typed column; objects one by one, since dates share one token."""
    if not _holds_objects(column):
        return _typed_distinct(column)
    return Distinct(list(column), np.arange(len(column)))


def _numbers_without_sentinels(column: Column, grid: Grid) -> tuple[FloatArray, Strange] | None:
    """The numbers of a typed numeric column, sentinels as NaN; None if another path is needed."""
    is_typed = not _holds_objects(column) and (
        isinstance(column, np.ndarray) or _is_number(column.type)
    )
    if not is_typed or grid.rules["kind"] not in ("", "number"):
        return None
    values = _typed_numbers(column)[0].copy()
    for token in grid.rules["sentinels"]:
        number = number_of(token)
        if number is not None:
            near = np.flatnonzero(values.astype(np.float32) == np.float32(number))
            values[[row for row in near if token_of(values[row].item()) == token]] = np.nan
    return values, []


def distinct(column: Column) -> Distinct:
    if not _holds_objects(column):
        return _typed_distinct(column)
    values, index = list[Any](), np.empty(len(column), np.intp)
    for rows, part in _by_type(column):
        part_values = (_distinct_objects if _holds_objects(part) else _typed_distinct)(part)
        index[rows] = part_values.index + len(values)
        values += part_values.values
    return Distinct(values, index)


def _holds_objects(column: Column) -> bool:
    return isinstance(column, np.ndarray) and column.dtype.kind == "O"


def _by_type(column: NDArray[np.object_]) -> Iterator[tuple[Any, Column]]:
    """For each Python type among the objects: its rows, and their values as a column."""
    types = list(map(type, column))
    place = {kind: k for k, kind in enumerate(dict.fromkeys(types))}
    if len(place) == 1:
        yield slice(None), _of_one_type(types[0], column)
        return
    which = np.fromiter(map(place.__getitem__, types), np.intp, len(types))
    for kind, k in place.items():
        rows = np.flatnonzero(which == k)
        yield rows, _of_one_type(kind, column[rows])


def _of_one_type(kind: type, values: NDArray[np.object_]) -> Column:
    """A typed column, if the type can hold every value; otherwise objects."""
    column_type = TYPED.get(kind)
    try:
        if isinstance(column_type, pa.DataType):
            return pa.array(values, column_type)
        return values if column_type is None else values.astype(column_type)
    except (OverflowError, ValueError):
        return values


def _typed_numbers(column: Column) -> tuple[FloatArray, Strange]:
    if isinstance(column, np.ndarray):
        with np.errstate(over="ignore"):  # a number of 128 bits may become infinite
            return column.astype(np.float64, copy=False), []
    if _is_text(column.type):
        return _parsed_at_once(column) or _one_by_one(column)
    return _one_by_one(column) if pa.types.is_dictionary(column.type) else (_floats(column), [])


def _typed_distinct(column: Column) -> Distinct:
    if isinstance(column, np.ndarray):
        values, index = np.unique(column, return_inverse=True)
        return Distinct(values.tolist(), index)
    coded = column if pa.types.is_dictionary(column.type) else column.dictionary_encode()
    values = coded.dictionary.to_pylist()
    index = coded.indices.cast(pa.int64()).fill_null(len(values)).to_numpy(zero_copy_only=False)
    return Distinct([*values, None], index.astype(np.intp, copy=False))


def _distinct_objects(column: NDArray[np.object_]) -> Distinct:
    """One value per token and type: objects may be unhashable, and True equals 1."""
    place: dict[tuple[type, Token], int] = {}
    values: list[Any] = []
    index = np.empty(len(column), np.intp)
    for row, value in enumerate(column):
        index[row] = at = place.setdefault((type(value), token_of(value)), len(values))
        if at == len(values):
            values.append(value)
    return Distinct(values, index)


def is_plain(kind: Any) -> bool:
    """Excludes decimals, which Arrow rounds differently from Python."""
    if pa.types.is_dictionary(kind):
        return is_plain(kind.value_type)
    return _is_number(kind) or _is_text(kind) or bool(pa.types.is_boolean(kind))


def is_arrow_number(kind: Any) -> bool:
    is_a = pa.types
    return bool(is_a.is_integer(kind) or is_a.is_float32(kind) or is_a.is_float64(kind))


def _is_number(kind: Any) -> bool:
    return is_arrow_number(kind) or bool(pa.types.is_null(kind))


def _is_text(kind: Any) -> bool:
    is_a = pa.types
    if is_a.is_string(kind) or is_a.is_large_string(kind):
        return True
    return bool(is_a.is_binary(kind) or is_a.is_large_binary(kind))


def _floats(column: Column) -> FloatArray:
    floats = pc.cast(column, pa.float64(), safe=False)
    return np.asarray(floats.to_numpy(zero_copy_only=False), dtype=np.float64)


def _parsed_at_once(column: Column) -> tuple[FloatArray, Strange] | None:
    """Parses texts with Arrow, which agrees with float(); None if any text fails.

    The exception is "nan(anything)", which Arrow reads as NaN.
    """
    try:
        text = pc.cast(column, pa.large_string())
        blank = pc.is_in(text, value_set=pa.array(sorted(MISSING_TEXTS), pa.large_string()))
        parsed_column = pc.cast(pc.if_else(blank, None, text), pa.float64())
    except pa.ArrowInvalid:
        return None
    has_nan = pc.any(pc.is_nan(parsed_column)).as_py()
    return None if has_nan else (_floats(parsed_column), [])


def _one_by_one(column: Column, grid: Grid | None = None) -> tuple[FloatArray, Strange]:
    """Parses value by value: objects with one token may be different numbers."""
    raw = _each(column)
    meant = raw.values if grid is None else [grid.read(value) for value in raw.values]
    read_values = list(map(number_of, meant))
    values = np.array([np.nan if v is None else v for v in read_values], np.float64)
    return values[raw.index], raw.met([v is None for v in read_values])


def number_of(value: object) -> float | None:
    """The number of a value: NaN if it is missing, None if it is not a number."""
    plain = plain_of(value)
    if not isinstance(plain, str):
        return None if isinstance(plain, Unusable) else nearest_float(plain)
    if plain in MISSING_TEXTS:
        return np.nan
    try:
        return float(TRUTHS.get(plain, plain))
    except ValueError:
        return None
