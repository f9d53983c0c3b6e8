"""Where rows come from: frames, arrays, lists, CSV and Parquet, all as chunks of columns.

Files are streamed, so that a site's rows never sit in memory as floats all at once.
"""

from __future__ import annotations

import io
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import chain
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
from numpy.typing import NDArray
from pyarrow.interchange import from_dataframe

from hedgerow.errors import DataError
from hedgerow.site.reading.columns import Column, as_column
from hedgerow.site.reading.lines import SoundLines, header_is_sound

Source = Any
"""A data frame, a 2-D array, a list of rows, or the path of a .csv or .parquet file or of a folder
of such files."""

CSV_BLOCK_BYTES = 1 << 20
"""What a parser reads at once. A line of more than half of it is broken."""
PARQUET_BUFFER_BYTES = 1 << 16


class RowTable(Protocol):
    """Named columns in order of rows. `capacity` is no less than the number of rows."""

    where: str
    names: list[str]
    capacity: int

    def chunks(self, names: Sequence[str], rows: int) -> Iterator[list[Column]]:
        """The named columns, `rows` rows at a time (a CSV file: some megabytes at a time)."""
        ...


def as_table(source: Any) -> Any:
    """Whatever has named columns as a pandas frame or an Arrow table; anything else as it is.

    Polars, DuckDB and others hand over Arrow memory; yet others speak the dataframe interchange
    protocol. Both know the names of their columns, which must not be lost on the way.
    """
    if hasattr(source, "iloc") or isinstance(source, pa.Table | np.ndarray):
        return source
    if hasattr(source, "collect_schema") and not hasattr(source, "__len__"):
        raise DataError("the rows are a lazy frame, which holds none yet; call .collect() first.")
    if hasattr(source, "__arrow_c_stream__"):
        return _with_plain_texts(pa.table(source))
    return from_dataframe(source) if hasattr(source, "__dataframe__") else source


def _with_plain_texts(table: pa.Table) -> pa.Table:
    """Views of text, which Polars hands over, cannot be picked from by row."""
    fields = [f.with_type(pa.large_string()) if _is_view(f.type) else f for f in table.schema]
    return table.cast(pa.schema(fields))


def _is_view(kind: Any) -> bool:
    return bool(pa.types.is_string_view(kind))


def open_table(source: Source, names: Sequence[str] | None = None) -> RowTable:
    """`names` are those of the columns of an array, which has none of its own."""
    if isinstance(source, str | Path):
        return _open_file(Path(source))
    source = as_table(source)
    if hasattr(source, "iloc"):
        return Frame(source)
    if isinstance(source, pa.Table):
        return Columns(source)
    if hasattr(source, "toarray"):
        raise DataError("the rows are a sparse matrix; call .toarray() on it first.")
    return Matrix(source, names)


def _open_file(path: Path) -> RowTable:
    if path.is_dir():
        return Folder(path)
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


class Columns:
    """An Arrow table; columns are found by name."""

    def __init__(self, frame: pa.Table) -> None:
        self.where = "the table"
        self.names = list(frame.column_names)
        self.capacity = len(frame)
        self._frame = frame

    def chunks(self, names: Sequence[str], rows: int) -> Iterator[list[Column]]:
        _positions(self, names)
        for start in range(0, self.capacity, rows):
            yield [as_column(self._frame[name][start : start + rows]) for name in names]


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
    """A UTF-8 file with a header. Cells stay bytes here: one bad cell must not stop the rest.

    Every line is a record: a broken one is left out alone, and no value holds a line break.
    """

    def __init__(self, path: Path) -> None:
        self.where = f"file {path.name!r}"
        self.malformed = 0
        self._path = path
        if not header_is_sound(path, CSV_BLOCK_BYTES // 2):
            raise DataError(
                f"{self.where} has a header that is too long or ends inside quotes; correct it."
            )
        with _as_data_error(self.where), self._lines() as lines:
            self.names = self._reader(lines, {}).schema.names
        self.capacity = _count_line_ends(path) + 1

    def chunks(self, names: Sequence[str], rows: int) -> Iterator[list[Column]]:
        _positions(self, names)
        self.malformed = 0
        with _as_data_error(self.where), self._lines() as lines:
            for batch in self._reader(lines, dict.fromkeys(names, pa.binary())):
                yield [batch.column(name) for name in names]
            self.malformed += lines.dropped

    def _lines(self) -> SoundLines:
        return SoundLines(self._path, CSV_BLOCK_BYTES // 2)

    def _reader(self, lines: SoundLines, types: dict[str, Any]) -> Any:
        def skip(row: Any) -> str:
            self.malformed += 1
            return "skip"

        return pa.csv.open_csv(
            io.BufferedReader(lines, CSV_BLOCK_BYTES),  # whole blocks: Arrow takes a short one ill
            read_options=pa.csv.ReadOptions(block_size=CSV_BLOCK_BYTES),
            parse_options=pa.csv.ParseOptions(invalid_row_handler=skip),
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
                yield [as_column(batch.column(name)) for name in names]

    def _streamed(self) -> Any:
        """Read ahead by a buffer's length only: by default Arrow fetches the whole file at once."""
        return pa.parquet.ParquetFile(
            self._path, pre_buffer=False, buffer_size=PARQUET_BUFFER_BYTES
        )


class Folder:
    """All .csv and .parquet files of a folder, by name, as one table."""

    def __init__(self, path: Path) -> None:
        self.where = f"folder {path.name!r}"
        kinds = (".csv", ".parquet", ".pq")
        files = sorted(file for file in path.iterdir() if file.suffix.lower() in kinds)
        if not files:
            raise DataError(f"{self.where} holds no .csv and no .parquet file; put some there.")
        self._tables = [_open_file(file) for file in files]
        self.names = self._tables[0].names
        self.capacity = sum(table.capacity for table in self._tables)

    @property
    def malformed(self) -> int:
        return sum(table.malformed for table in self._tables if isinstance(table, Csv))

    def chunks(self, names: Sequence[str], rows: int) -> Iterator[list[Column]]:
        for table in self._tables:
            yield from table.chunks(names, rows)


def _two_dimensional(rows: Any) -> NDArray[Any]:
    table = _cells(rows) if isinstance(rows, list | tuple) else np.asarray(rows)
    if table.ndim != 2:
        raise DataError(
            f"the rows have shape {table.shape}; give a table: as many values in every row."
        )
    return table


def _cells(rows: Sequence[Any]) -> NDArray[np.object_]:
    """A list's values as they are: one type for all of them would make text of numbers."""
    table = np.array(rows, dtype=object)
    if table.ndim <= 2:
        return table
    # Every cell happens to be a list. Each is one value still, if a useless one.
    height, width = table.shape[:2]
    cells = np.fromiter(chain.from_iterable(rows), dtype=object, count=height * width)
    return cells.reshape(height, width)


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
