"""Sources of rows: frames, arrays, lists, files and streams, all as chunks of columns."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from hedgerow.data.reading.columns import Column
from hedgerow.data.reading.containers import (
    OF_POLARS,
    RowTable,
    as_column,
    as_data_error,
    cells_of,
    fill_masked,
    is_listed,
    positions_of,
)
from hedgerow.data.reading.databases import Selected, is_database
from hedgerow.data.reading.files import PARQUET_BUFFER_BYTES, open_files
from hedgerow.errors import DataError

Source = Any
"""A data frame, a 2-D array, a list of rows; the path of a .csv, .parquet or .arrow file, of a
folder of such files, or a pattern that names some; an Arrow dataset or reader of record batches;
what a database selects."""


def give_room_back() -> None:
    """Returns Arrow's unused memory to the operating system."""
    pa.default_memory_pool().release_unused()


def as_table(source: Any) -> Any:
    """Converts any object with named columns to a pandas frame or an Arrow table; others pass
    unchanged.

    It uses Arrow's interface or the dataframe interchange protocol, which preserve column names.
    """
    if hasattr(source, "iloc") or isinstance(source, pa.Table | np.ndarray):
        return source
    if hasattr(source, "collect_schema") and not hasattr(source, "__len__"):
        raise DataError("the rows are a lazy frame, which holds none yet; call .collect() first.")
    if hasattr(source, "__arrow_c_stream__"):
        return _as_arrow(source)
    if not hasattr(source, "__dataframe__"):
        return source
    from pyarrow.interchange import from_dataframe

    return from_dataframe(source)


def _as_arrow(source: Any) -> Any:
    """Converts to Arrow; returns the frame itself if a column has no Arrow type."""
    if any(str(kind) == OF_POLARS for kind in getattr(source, "dtypes", ())):
        return source
    try:
        table = pa.table(source)
    except pa.ArrowInvalid:
        return source
    fields = [  # string views (of Polars) do not support selection by row
        f.with_type(pa.large_string()) if pa.types.is_string_view(f.type) else f
        for f in table.schema
    ]
    return table.cast(pa.schema(fields))


def open_table(source: Source, names: Sequence[str] | None = None) -> RowTable:
    """Opens any source; `names` are the column names of an array."""
    if is_database(source):
        raise DataError("the rows are in a database; say which of them: sql='SELECT ...'.")
    if isinstance(source, str | Path):
        return open_files(str(source))
    if isinstance(source, Selected):
        return source
    if is_stream(source):
        return Stream(source)
    source = as_table(source)
    if hasattr(source, "iloc"):
        return Frame(source)
    if isinstance(source, pa.Table):
        return NamedColumns(source, "the table", source.column_names)
    if hasattr(source, "__arrow_c_stream__"):
        return NamedColumns(source, "the data frame", source.columns)
    if hasattr(source, "toarray"):
        raise DataError("the rows are a sparse matrix; call .toarray() on it first.")
    return Matrix(source, names)


class Frame(RowTable):
    """A pandas data frame; columns are found by name, others are ignored."""

    def __init__(self, frame: Any) -> None:
        self.where = "the data frame"
        self.names = [str(name) for name in frame.columns]
        self.capacity = len(frame)
        self._frame = frame

    def chunks(self, names: Sequence[str], rows: int) -> Iterator[list[Column]]:
        positions = positions_of(self, names)
        for start in range(0, self.capacity, rows):
            part = self._frame.iloc[start : start + rows]
            yield [as_column(part.iloc[:, position]) for position in positions]


class NamedColumns(RowTable):
    """Columns accessed one by one: an Arrow table, or a Polars frame that Arrow cannot hold."""

    def __init__(self, frame: Any, where: str, names: Sequence[str]) -> None:
        self.where, self.names = where, list(names)
        self.capacity = len(frame)
        self._frame = frame

    def chunks(self, names: Sequence[str], rows: int) -> Iterator[list[Column]]:
        positions_of(self, names)
        for start in range(0, self.capacity, rows):
            yield [as_column(self._frame[name][start : start + rows]) for name in names]


class Stream(RowTable):
    """An Arrow dataset or a reader of record batches; can be read once."""

    def __init__(self, source: Any) -> None:
        self.where = "the dataset" if _is_dataset(source) else "the reader of record batches"
        self.names = list(source.schema.names)
        self._source = source

    def chunks(self, names: Sequence[str], rows: int) -> Iterator[list[Column]]:
        positions_of(self, names)
        with as_data_error(self.where):
            for batch in self._batches(names, rows):
                for start in range(0, len(batch), rows):
                    part = batch.slice(start, rows)
                    yield [as_column(part.column(name)) for name in names]

    def _batches(self, names: Sequence[str], rows: int) -> Iterator[pa.RecordBatch]:
        if not _is_dataset(self._source):
            return iter(self._source)
        batches: Iterator[pa.RecordBatch] = self._source.to_batches(
            columns=list(names),
            batch_size=rows,
            batch_readahead=1,
            fragment_readahead=1,
            use_threads=False,  # threads would read too far ahead
            fragment_scan_options=_stream_dataset(self._source),
        )
        return batches


def _stream_dataset(dataset: Any) -> Any:
    """Reads Parquet through buffers: by default Arrow caches each file to its end.

    Options set on the dataset, such as decryption keys, are kept.
    """
    if getattr(dataset, "format", None) is None or dataset.format.default_extname != "parquet":
        return None
    from pyarrow.dataset import ParquetFragmentScanOptions

    if dataset.format.default_fragment_scan_options != ParquetFragmentScanOptions():
        return None
    return ParquetFragmentScanOptions(
        pre_buffer=False, use_buffered_stream=True, buffer_size=PARQUET_BUFFER_BYTES
    )


def is_elsewhere(source: Any) -> bool:
    """Whether rows are read from a file, database or stream, not passed in memory."""
    return isinstance(source, str | Path | Selected) or is_stream(source) or is_database(source)


def is_stream(source: Any) -> bool:
    return _is_dataset(source) or isinstance(source, pa.RecordBatchReader)


def _is_dataset(source: Any) -> bool:
    """Whether it is an Arrow dataset; that module is missing in some builds."""
    return hasattr(source, "to_batches") and hasattr(source, "count_rows")


class Matrix(RowTable):
    """A 2-D array or a list of rows; columns are found by position."""

    def __init__(self, rows: Any, names: Sequence[str] | None) -> None:
        self.where = "the array"
        self._rows = cells_of(rows) if is_listed(rows) else np.asarray(fill_masked(rows))
        if self._rows.ndim != 2:
            raise DataError(
                f"the rows have shape {self._rows.shape}; give a table: as many values in every "
                "row."
            )
        self.capacity, width = self._rows.shape
        self.names = [f"x{i}" for i in range(width)] if names is None else list(names)
        if width != len(self.names):
            raise DataError(
                f"the array has {width} columns, the schema has {len(self.names)}: {self.names}. "
                "Give the schema's columns, in its order, or a data frame with names."
            )

    def chunks(self, names: Sequence[str], rows: int) -> Iterator[list[Column]]:
        positions = positions_of(self, names)
        for start in range(0, self.capacity, rows):
            part = self._rows[start : start + rows]
            yield [as_column(part[:, position]) for position in positions]
