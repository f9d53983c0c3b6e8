"""One small table of records in every place that rows may be held, for tests of equal answers."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import dask.dataframe
import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet

from hedgerow.data.engines.dask import OnCluster
from hedgerow.data.engines.database import InDatabase
from hedgerow.data.reading.databases import Selected
from hedgerow.data.reading.encoding import encode
from hedgerow.data.rows import Draws, Rows
from hedgerow.schema.grids import ColumnKind, Grid
from hedgerow.schema.schema import Schema

SELECT = "SELECT * FROM records"
DRAWS = Draws(bytes(32), "test")
Record = tuple[tuple[int, ...], int, float]


def table_of(records: list[Record], schema: Schema) -> pa.Table:
    """Values that fall in the records' cells, and rows without a label, which nobody counts."""
    columns: dict[str, Any] = {}
    for j, grid in enumerate(schema.grids):
        is_number = grid.kind is ColumnKind.NUMERIC
        values = [*(_value(grid, cells[j]) for cells, _, _ in records), None, None]
        columns[grid.feature] = pa.array(values, pa.float64() if is_number else pa.string())
    if schema.classes is not None:
        last = len(schema.classes) - 1
        labels = [schema.classes[min(label, last)] for _, label, _ in records]
        columns["y"] = pa.array([*labels, None, "no such class"])
    else:
        columns["y"] = pa.array([*(value for _, _, value in records), None, np.nan], pa.float64())
    return pa.table(columns)


def _value(grid: Grid, code: int) -> float | str | None:
    if code == grid.missing:
        return None
    if grid.kind is ColumnKind.NUMERIC:
        return grid.edges[code - 1] if code else -7.0
    known = code < len(grid.values)
    return f" {grid.values[code]}\t" if known else "any other"  # as a person may have typed it


def in_memory(table: pa.Table, schema: Schema) -> Rows:
    return Rows(encode(table, schema, target="y"), schema, DRAWS)


def in_file(table: pa.Table, schema: Schema) -> Rows:
    """Streamed, a few rows at a time."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "rows.parquet"
        pyarrow.parquet.write_table(table, path, row_group_size=5)
        read = encode(path, schema, target="y", chunk_rows=3)
    return Rows(read, schema, DRAWS)


def in_duckdb(table: pa.Table, schema: Schema) -> InDatabase:
    connection = duckdb.connect()
    connection.register("given", table)
    connection.execute("CREATE TABLE records AS SELECT * FROM given")
    return InDatabase(Selected(connection, SELECT), schema, "y", DRAWS)


def in_postgres(connection: Any, table: pa.Table, schema: Schema) -> InDatabase:
    with connection.cursor() as cursor:
        cursor.execute("DROP TABLE IF EXISTS records")
        cursor.adbc_ingest("records", table, mode="create", temporary=True)
    return InDatabase(Selected(connection, SELECT), schema, "y", DRAWS)


def on_dask(table: pa.Table, schema: Schema) -> OnCluster:
    frame = dask.dataframe.from_pandas(table.to_pandas(), npartitions=3, sort=False)
    return OnCluster(frame, schema, "y", DRAWS)
