"""Where rows come from: frames, arrays, lists, CSV and Parquet, all as chunks of columns.

Files are streamed, so that a site's rows never sit in memory as floats all at once.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
from numpy.typing import NDArray

from hedgerow.errors import DataError
from hedgerow.site.reading.columns import Column, as_column

Source = Any
"""A data frame, a 2-D array, a list of rows, or the path of a .csv or .parquet file."""

CSV_BLOCK_BYTES = 1 << 20
PARQUET_BUFFER_BYTES = 1 << 16


class RowTable(Protocol):
    """Named columns in order of rows. `capacity` is no less than the number of rows."""

    where: str
    names: list[str]
    capacity: int

    def chunks(self, names: Sequence[str], rows: int) -> Iterator[list[Column]]:
        """The named columns, `rows` rows at a time (a CSV file: some megabytes at a time)."""
        ...


def open_table(source: Source, names: Sequence[str] | None = None) -> RowTable:
    """`names` are those of the columns of an array, which has none of its own."""
    if isinstance(source, str | Path):
        return _open_file(Path(source))
    if hasattr(source, "iloc"):
        return Frame(source)
    if hasattr(source, "toarray"):
        raise DataError("the rows are a sparse matrix; call .toarray() on it first.")
    return Matrix(source, names)


def _open_file(path: Path) -> RowTable:
    if not path.is_file():
        raise DataError(f"there is no file {str(path)!r}; check the path.")
    if path.suffix.lower() == ".csv":
        return Csv(path)
    if path.suffix.lower() in (".parquet", ".pq"):
        return Parquet(path)
    raise DataError(f"{path.name!r} is neither a .csv nor a .parquet file; convert it to one.")


class Frame:
    """A pandas data frame; columns are found by name, extra ones are ignored."""

    def __init__(self, frame: Any) -> None:
        self.where = "the data frame"
        self.names = [str(name) for name in frame.columns]
        self.capacity = len(frame)
        self._frame = frame

    def chunks(self, names: Sequence[str], rows: int) -> Iterator[list[Column]]:
        positions = _positions(self, names)
        for start in range(0, self.capacity, rows):
            part = self._frame.iloc[start : start + rows]
            yield [as_column(part.iloc[:, position]) for position in positions]


class Matrix:
    """A 2-D array or a list of rows; columns are found by position."""

    def __init__(self, rows: Any, names: Sequence[str] | None) -> None:
        self.where = "the array"
        self._rows = _two_dimensional(rows)
        self.capacity, width = self._rows.shape
        self.names = [f"x{i}" for i in range(width)] if names is None else list(names)
        if width != len(self.names):
            raise DataError(
                f"the array has {width} columns, the schema has {len(self.names)}: {self.names}. "
                "Give the schema's columns, in its order, or a data frame with names."
            )

    def chunks(self, names: Sequence[str], rows: int) -> Iterator[list[Column]]:
        positions = _positions(self, names)
        for start in range(0, self.capacity, rows):
            part = self._rows[start : start + rows]
            yield [as_column(part[:, position]) for position in positions]


class Csv:
    """A UTF-8 file with a header. Cells stay bytes here: one bad cell must not stop the rest."""

    def __init__(self, path: Path) -> None:
        self.where = f"file {path.name!r}"
        self.malformed = 0
        self._path = path
        with _as_data_error(self.where):
            self.names = self._reader({}, count=False).schema.names
        self.capacity = _count_line_ends(path) + 1

    def chunks(self, names: Sequence[str], rows: int) -> Iterator[list[Column]]:
        _positions(self, names)
        self.malformed = 0
        with _as_data_error(self.where):
            for batch in self._reader(dict.fromkeys(names, pa.binary()), count=True):
                yield [batch.column(name) for name in names]

    def _reader(self, types: dict[str, Any], count: bool) -> Any:
        def skip(row: Any) -> str:
            self.malformed += count
            return "skip"

        return pa.csv.open_csv(
            self._path,
            read_options=pa.csv.ReadOptions(block_size=CSV_BLOCK_BYTES),
            parse_options=pa.csv.ParseOptions(newlines_in_values=True, invalid_row_handler=skip),
            convert_options=pa.csv.ConvertOptions(
                column_types=types, include_columns=list(types), check_utf8=False
            ),
        )


class Parquet:
    def __init__(self, path: Path) -> None:
        self.where = f"file {path.name!r}"
        self._path = path
        with _as_data_error(self.where), pa.parquet.ParquetFile(path) as file:
            self.names = file.schema_arrow.names
            self.capacity = file.metadata.num_rows

    def chunks(self, names: Sequence[str], rows: int) -> Iterator[list[Column]]:
        _positions(self, names)
        with _as_data_error(self.where), self._streamed() as file:
            for batch in file.iter_batches(rows, columns=list(names)):
                yield [batch.column(name) for name in names]

    def _streamed(self) -> Any:
        """Read ahead by a buffer's length only: by default Arrow fetches the whole file at once."""
        return pa.parquet.ParquetFile(
            self._path, pre_buffer=False, buffer_size=PARQUET_BUFFER_BYTES
        )


def _two_dimensional(rows: Any) -> NDArray[Any]:
    # A list may mix numbers and text, so its values are kept as they are.
    table = rows if isinstance(rows, np.ndarray) else np.asarray(rows, dtype=object)
    if table.ndim != 2:
        raise DataError(
            f"the rows have shape {table.shape}; give a table: as many values in every row."
        )
    return table


def _positions(table: RowTable, names: Sequence[str]) -> list[int]:
    """Where the named columns are; refuses what is absent or there twice."""
    times = Counter(table.names)
    for name in names:
        if times[name] == 0:
            raise DataError(
                f"{table.where} has no column {name!r}; it has {table.names}. Rename the column, "
                "or change the schema at all sites."
            )
        if times[name] > 1:
            raise DataError(f"{table.where} has {times[name]} columns named {name!r}; keep one.")
    return [table.names.index(name) for name in names]


def _count_line_ends(path: Path) -> int:
    """At least the number of rows, whatever the line ends: only to reserve memory once."""
    total = 0
    with path.open("rb") as file:
        while block := file.read(CSV_BLOCK_BYTES):
            total += block.count(b"\n") + block.count(b"\r")
    return total


@contextmanager
def _as_data_error(where: str) -> Iterator[None]:
    try:
        yield
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        reason = str(error).splitlines()[0]
        raise DataError(f"{where} cannot be read: {reason}. Check or rewrite the file.") from None
