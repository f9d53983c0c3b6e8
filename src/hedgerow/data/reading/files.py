"""Streams files of rows: CSV, Excel, Parquet, Arrow, or several of them as one table."""

from __future__ import annotations

import csv
import glob
import io
import mmap
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from contextvars import ContextVar
from itertools import islice
from pathlib import Path
from typing import Any

import pyarrow as pa

from hedgerow.data.reading.columns import Column
from hedgerow.data.reading.containers import (
    LineFaults,
    RowTable,
    as_column,
    as_data_error,
    objects_of,
    positions_of,
)
from hedgerow.data.reading.lines import SoundLines, delimiter_of, header_is_sound, header_of
from hedgerow.errors import DataError

CSV_BLOCK_BYTES = 1 << 20
"""Bytes per parser read. A line longer than half of it is malformed."""
PARQUET_BUFFER_BYTES = 1 << 16
KINDS_IN_WORDS = ".csv, .csv.gz, .tsv, .xlsx, .parquet or .arrow file"
DELIMITER: ContextVar[str | None] = ContextVar("delimiter", default=None)
"""The delimiter of text files, if declared."""


def open_files(place: str) -> RowTable:
    """One file, all files of a folder, or all files of a pattern like `rows/*.parquet`."""
    if not place:
        raise DataError(f"the path of the rows is empty; name a {KINDS_IN_WORDS}.")
    path = Path(place)
    if path.is_dir():
        return Files(f"folder {path.name!r}", list(path.iterdir()))
    if path.is_file():
        return open_file(path)
    if glob.has_magic(place):
        return Files(f"pattern {place!r}", [Path(name) for name in glob.glob(place)])
    raise DataError(f"there is no file {place!r}; check the path.")


def file_kind(path: Path) -> str:
    """The file's suffix, without that of a compression."""
    names = [suffix.lower() for suffix in path.suffixes[-2:]]
    return names[0] if len(names) == 2 and names[1] == ".gz" else "".join(names[-1:])


def open_file(path: Path) -> RowTable:
    if file_kind(path) not in FILE_READERS:
        raise DataError(f"{path.name!r} is no {KINDS_IN_WORDS}; convert it to one.")
    return FILE_READERS[file_kind(path)](path)


class Csv(RowTable):
    """A text file with a header. Cells stay bytes, so that a bad cell does not stop the others.

    The header alone decides the delimiter unless it is declared; `lines` splits the file into
    records.
    """

    def __init__(self, path: Path) -> None:
        self.where = f"file {path.name!r}"
        self._n_skipped, self._path = 0, path
        with as_data_error(self.where, EOFError):
            header = header_of(path, CSV_BLOCK_BYTES // 2)
        self._delimiter = (DELIMITER.get() or "").encode() or delimiter_of(header)
        if not header_is_sound(path, CSV_BLOCK_BYTES // 2, self._delimiter):
            raise DataError(
                f"{self.where} has a header that is too long or ends inside quotes; correct it."
            )
        with as_data_error(self.where), self._lines() as lines:
            self.names = self._reader(lines, {}).schema.names
        is_packed = path.suffix.lower() == ".gz"
        self.capacity = 0 if is_packed else _count_line_ends(path) + 1

    def chunks(self, names: Sequence[str], rows: int) -> Iterator[list[Column]]:
        positions_of(self, names)
        self._n_skipped = 0
        with as_data_error(self.where, EOFError), self._lines() as lines:
            for batch in self._reader(lines, dict.fromkeys(names, pa.binary())):
                self._note(lines)
                yield [batch.column(name) for name in names]
            self._note(lines)

    def _note(self, lines: SoundLines) -> None:
        first = lines.first_problem or self.faults.first
        if self._n_skipped and first is None:
            with self._lines() as again:
                for _ in again.records():
                    if again.first_problem:
                        break
            first = again.first_problem
        n = self._n_skipped + lines.dropped_lines
        self.faults = LineFaults(n, lines.recoded_lines, first)

    def find(self, name: str, value: object) -> str | None:
        """Reads again."""
        text = value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)
        place, sign = self.names.index(name), self._delimiter.decode()
        with self._lines() as lines:
            for number, record in lines.records():
                cells = next(csv.reader(io.StringIO(record.decode(), newline=""), delimiter=sign))
                if len(cells) > place and cells[place] == text:
                    return f"line {number}"
        return None

    def _lines(self) -> SoundLines:
        return SoundLines(self._path, CSV_BLOCK_BYTES // 2, self._delimiter)

    def _reader(self, lines: SoundLines, types: dict[str, Any]) -> Any:
        from pyarrow import csv as arrow_csv

        def skip(row: Any) -> str:
            self._n_skipped += 1
            return "skip"

        return arrow_csv.open_csv(
            io.BufferedReader(lines, CSV_BLOCK_BYTES),  # Arrow needs full blocks
            read_options=arrow_csv.ReadOptions(block_size=CSV_BLOCK_BYTES),
            parse_options=arrow_csv.ParseOptions(
                delimiter=self._delimiter.decode(),
                newlines_in_values=True,  # each is inside a complete record
                invalid_row_handler=skip,
            ),
            convert_options=arrow_csv.ConvertOptions(
                column_types=types, include_columns=list(types), check_utf8=False
            ),
        )


class Excel(RowTable):
    """The first sheet of a workbook, with names in its first row. Cells have their own types."""

    def __init__(self, path: Path) -> None:
        self.where, self._path = f"file {path.name!r}", path
        first = next(self._rows(), ())
        self.names = ["" if name is None else str(name) for name in first]

    def chunks(self, names: Sequence[str], rows: int) -> Iterator[list[Column]]:
        places = positions_of(self, names)
        cells = (row for row in islice(self._rows(), 1, None) if any(v is not None for v in row))
        while block := list(islice(cells, rows)):
            yield [objects_of([row[k] if k < len(row) else None for row in block]) for k in places]

    def _rows(self) -> Iterator[tuple[Any, ...]]:
        try:
            from openpyxl import load_workbook
        except ImportError:
            raise DataError(
                f"{self.where} needs openpyxl; pip install 'hedgerow[excel]', or save it as .csv."
            ) from None
        with as_data_error(self.where, Exception):
            book = load_workbook(self._path, read_only=True, data_only=True)
            with closing(book):
                yield from book.worksheets[0].iter_rows(values_only=True)


class Parquet(RowTable):
    def __init__(self, path: Path) -> None:
        self.where = f"file {path.name!r}"
        self._path = path
        with as_data_error(self.where), self._open() as file:
            self.names = file.schema_arrow.names
            self.capacity = file.metadata.num_rows

    def chunks(self, names: Sequence[str], rows: int) -> Iterator[list[Column]]:
        positions_of(self, names)
        with as_data_error(self.where), self._open() as file:
            for batch in file.iter_batches(rows, columns=list(names)):
                yield [as_column(batch.column(name)) for name in names]

    def _open(self) -> Any:
        """Reads ahead by one buffer; by default Arrow fetches the whole file."""
        from pyarrow.parquet import ParquetFile

        return ParquetFile(self._path, pre_buffer=False, buffer_size=PARQUET_BUFFER_BYTES)


class Arrow(RowTable):
    """Arrow IPC files or streams, read through a memory map."""

    def __init__(self, path: Path) -> None:
        self.where, self._path = f"file {path.name!r}", path
        with as_data_error(self.where), pa.memory_map(str(path)) as file:
            self.names = _batches_of(file)[0].names

    def chunks(self, names: Sequence[str], rows: int) -> Iterator[list[Column]]:
        positions_of(self, names)
        with as_data_error(self.where), self._path.open("rb") as file:
            mapped_file = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
            for batch in _batches_of(pa.BufferReader(pa.py_buffer(mapped_file)))[1]:
                for start in range(0, len(batch), rows):
                    part = batch.slice(start, rows)
                    yield [as_column(part.column(name)) for name in names]
                    if hasattr(mapped_file, "madvise"):  # let go of pages that were read
                        mapped_file.madvise(mmap.MADV_DONTNEED)


def _batches_of(file: Any) -> tuple[pa.Schema, Iterator[pa.RecordBatch]]:
    from pyarrow import ipc

    try:
        ipc_file = ipc.open_file(file)
    except pa.ArrowInvalid:
        file.seek(0)
        stream = ipc.open_stream(file)
        return stream.schema, iter(stream)
    return ipc_file.schema, (ipc_file.get_batch(k) for k in range(ipc_file.num_record_batches))


FILE_READERS: dict[str, Callable[[Path], RowTable]] = {
    **dict.fromkeys((".csv", ".tsv"), Csv),
    ".xlsx": Excel,
    **dict.fromkeys((".parquet", ".pq"), Parquet),
    **dict.fromkeys((".arrow", ".feather", ".ipc"), Arrow),
}


class Files(RowTable):
    """Several files, in order of name, as one table."""

    def __init__(self, where: str, paths: Sequence[Path]) -> None:
        self.where = where
        files = sorted(path for path in paths if file_kind(path) in FILE_READERS)
        if not files:
            raise DataError(f"{where} holds no {KINDS_IN_WORDS}; put some there.")
        self._tables = [open_file(file) for file in files]
        self.names = self._tables[0].names
        capacities = [table.capacity for table in self._tables]
        self.capacity = sum(capacities) if all(capacities) else 0

    @property
    def faults(self) -> LineFaults:  # type: ignore[override]
        tables = self._tables
        first = next((f"{t.where}, {t.faults.first}" for t in tables if t.faults.first), None)
        n_recoded = sum(table.faults.n_recoded for table in tables)
        return LineFaults(sum(table.faults.n_malformed for table in tables), n_recoded, first)

    def find(self, name: str, value: object) -> str | None:
        lines = ((table.where, table.find(name, value)) for table in self._tables)
        return next((f"{where}, {line}" for where, line in lines if line), None)

    def chunks(self, names: Sequence[str], rows: int) -> Iterator[list[Column]]:
        for table in self._tables:
            yield from table.chunks(names, rows)


def _count_line_ends(path: Path) -> int:
    """An upper bound on the number of rows, to reserve memory once."""
    total = 0
    with path.open("rb") as file:
        while block := file.read(CSV_BLOCK_BYTES):
            total += block.count(b"\n") + block.count(b"\r")
    return total
