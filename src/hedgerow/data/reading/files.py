"""Files of rows, streamed: CSV, Parquet, Arrow, and several of them as one table.

A site's rows never sit in memory as floats all at once.
"""

from __future__ import annotations

import glob
import io
import mmap
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv
import pyarrow.ipc
import pyarrow.parquet

from hedgerow.data.reading.columns import Column
from hedgerow.data.reading.containers import RowTable, as_column, as_data_error, positions_of
from hedgerow.data.reading.lines import SoundLines, header_is_sound
from hedgerow.errors import DataError

CSV_BLOCK_BYTES = 1 << 20
"""What a parser reads at once. A line of more than half of it is broken."""
PARQUET_BUFFER_BYTES = 1 << 16
PARQUET = (".parquet", ".pq")
ARROW = (".arrow", ".feather", ".ipc")
FILE_KINDS = (".csv", *PARQUET, *ARROW)
KINDS_IN_WORDS = ".csv, .parquet or .arrow file"


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


def open_file(path: Path) -> RowTable:
    kind = path.suffix.lower()
    if kind == ".csv":
        return Csv(path)
    if kind in PARQUET:
        return Parquet(path)
    if kind in ARROW:
        return Arrow(path)
    raise DataError(f"{path.name!r} is no {KINDS_IN_WORDS}; convert it to one.")


class Csv:
    """A UTF-8 file with a header. Cells stay bytes here: one bad cell must not stop the rest.

    Every line is a record: a broken one is left out alone, and no value holds a line break.
    """

    def __init__(self, path: Path) -> None:
        self.where = f"file {path.name!r}"
        self.malformed_lines = 0
        self._path = path
        if not header_is_sound(path, CSV_BLOCK_BYTES // 2):
            raise DataError(
                f"{self.where} has a header that is too long or ends inside quotes; correct it."
            )
        with as_data_error(self.where), self._lines() as lines:
            self.names = self._reader(lines, {}).schema.names
        self.capacity = _count_line_ends(path) + 1

    def chunks(self, names: Sequence[str], rows: int) -> Iterator[list[Column]]:
        positions_of(self, names)
        self.malformed_lines = 0
        with as_data_error(self.where), self._lines() as lines:
            for batch in self._reader(lines, dict.fromkeys(names, pa.binary())):
                yield [batch.column(name) for name in names]
            self.malformed_lines += lines.dropped_lines

    def _lines(self) -> SoundLines:
        return SoundLines(self._path, CSV_BLOCK_BYTES // 2)

    def _reader(self, lines: SoundLines, types: dict[str, Any]) -> Any:
        def skip(row: Any) -> str:
            self.malformed_lines += 1
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
    malformed_lines = 0

    def __init__(self, path: Path) -> None:
        self.where = f"file {path.name!r}"
        self._path = path
        with as_data_error(self.where), pa.parquet.ParquetFile(path) as file:
            self.names = file.schema_arrow.names
            self.capacity = file.metadata.num_rows

    def chunks(self, names: Sequence[str], rows: int) -> Iterator[list[Column]]:
        positions_of(self, names)
        with as_data_error(self.where), self._open_stream() as file:
            for batch in file.iter_batches(rows, columns=list(names)):
                yield [as_column(batch.column(name)) for name in names]

    def _open_stream(self) -> Any:
        """Read ahead by a buffer's length only: by default Arrow fetches the whole file at once."""
        return pa.parquet.ParquetFile(
            self._path, pre_buffer=False, buffer_size=PARQUET_BUFFER_BYTES
        )


class Arrow:
    """Arrow's own files, with or without a footer; their batches are looked at where they lie."""

    malformed_lines = 0

    def __init__(self, path: Path) -> None:
        self.where = f"file {path.name!r}"
        self.capacity = 0
        self._path = path
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
                    _let_go(mapped_file)


def _let_go(mapped_file: mmap.mmap) -> None:
    """Releases pages that were read from this process' memory; the file still has them."""
    if hasattr(mapped_file, "madvise"):  # not on every system
        mapped_file.madvise(mmap.MADV_DONTNEED)


def _batches_of(file: Any) -> tuple[pa.Schema, Iterator[pa.RecordBatch]]:
    try:
        ipc_file = pa.ipc.open_file(file)
    except pa.ArrowInvalid:
        file.seek(0)
        stream = pa.ipc.open_stream(file)
        return stream.schema, iter(stream)
    return ipc_file.schema, (ipc_file.get_batch(k) for k in range(ipc_file.num_record_batches))


class Files:
    """Several files, by name, as one table."""

    def __init__(self, where: str, paths: Sequence[Path]) -> None:
        self.where = where
        files = sorted(path for path in paths if path.suffix.lower() in FILE_KINDS)
        if not files:
            raise DataError(f"{where} holds no {KINDS_IN_WORDS}; put some there.")
        self._tables = [open_file(file) for file in files]
        self.names = self._tables[0].names
        capacities = [table.capacity for table in self._tables]
        self.capacity = sum(capacities) if all(capacities) else 0

    @property
    def malformed_lines(self) -> int:
        return sum(table.malformed_lines for table in self._tables)

    def chunks(self, names: Sequence[str], rows: int) -> Iterator[list[Column]]:
        for table in self._tables:
            yield from table.chunks(names, rows)


def _count_line_ends(path: Path) -> int:
    """At least the number of rows, whatever the line ends: only to reserve memory once."""
    total = 0
    with path.open("rb") as file:
        while block := file.read(CSV_BLOCK_BYTES):
            total += block.count(b"\n") + block.count(b"\r")
    return total
