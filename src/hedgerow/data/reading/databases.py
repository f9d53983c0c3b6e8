"""Databases as sources of rows: query results arrive as Arrow, batch by batch.

DuckDB and PostgreSQL (through ADBC) can also sum rows; any other database is only streamed, as
Arrow by an ADBC driver or row by row by a driver of Python's DB-API, because its SQL is untested. A
source is an open connection or a location: the path of a DuckDB file, opened read-only, or
postgresql://user@host/database.
"""

from __future__ import annotations

import secrets
import weakref
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from hedgerow.data.reading.columns import Column
from hedgerow.data.reading.containers import (
    RowTable,
    as_column,
    as_data_error,
    objects_of,
    positions_of,
)
from hedgerow.errors import ParameterError
from hedgerow.kernels.codes import encode_edges

POSTGRES = ("postgresql://", "postgres://")
DUCKDB = (".duckdb", ".ddb")
ASK_THE_SERVER = "Check the address, and that the server runs and lets this user in"
FREE_THE_FILE = "Check the path, and that nobody else has the file open to write"
CHECK_THE_QUERY = "Check the query"


def is_database(source: Any) -> bool:
    """Whether this is a database connection or location, which needs a query."""
    if isinstance(source, str | Path):
        return str(source).startswith(POSTGRES) or str(source).lower().endswith(DUCKDB)
    return hasattr(source, "cursor") and hasattr(source, "commit")


class Streamed:
    """A connection of Python's DB-API: rows come as objects, each read by its own value alone.

    A column of mixed rows would have no type that all of them declare, so none is inferred.
    """

    def __init__(self, connection: Any) -> None:
        self._connection = connection
        if not hasattr(self, "where"):
            self.where = f"the query by {type(connection).__module__.partition('.')[0]}"

    def names(self, query: str) -> list[str]:
        with closing(self._connection.cursor()) as cursor:
            cursor.execute(f"SELECT * FROM ({query}) asked WHERE 1 = 0")
            return [str(column[0]) for column in cursor.description]

    def columns(self, query: str, names: Sequence[str], rows: int) -> Iterator[list[Any]]:
        with closing(self._connection.cursor()) as cursor:
            cursor.execute(query)
            places = [[column[0] for column in cursor.description].index(name) for name in names]
            while block := cursor.fetchmany(rows):
                yield [objects_of([row[place] for row in block]) for place in places]


class Database(Streamed, ABC):
    """A connection that yields Arrow, and the expressions in which SQL dialects differ."""

    where: str
    nearest: str
    """Template that rounds the float8 {} to the nearest whole number, ties to even."""
    sums = False
    """Whether its SQL is tested to give the same integers as memory."""

    def names(self, query: str) -> list[str]:
        return list(self.schema(query).names)

    def columns(self, query: str, names: Sequence[str], rows: int) -> Iterator[list[Any]]:
        for batch in self.batches(self.project(query, names), rows):
            yield [as_column(plain_storage(batch.column(name))) for name in names]

    @abstractmethod
    def run(self, statement: str) -> None: ...
    @abstractmethod
    def batches(self, query: str, rows: int) -> Iterator[pa.RecordBatch]:
        """Streams a result; read it to the end, or close it, before the next query."""
        ...

    @abstractmethod
    def schema(self, query: str) -> pa.Schema: ...
    @abstractmethod
    def put(self, name: str, table: pa.Table) -> None:
        """Creates a temporary table."""
        ...

    @abstractmethod
    def table(self, query: str) -> pa.Table:
        """The whole result of a query; for small results."""
        ...

    def project(self, query: str, names: Sequence[str]) -> str:
        return f"SELECT {', '.join(map(quote_name, names))} FROM ({query}) AS selected"

    def interval(self, value: str, edges: Sequence[float]) -> str:
        """SQL for the number of edges at or below a numeric value."""
        return interval(value, edges)

    def release(self) -> None:
        """Drops the objects that `interval` created; its expressions become invalid."""
        return


def sql_number(value: float) -> str:
    """A number as a text literal, which engines parse to the nearest float8."""
    return f"'{value!r}'::float8"


def interval(value: str, edges: Sequence[float]) -> str:
    """SQL for the number of edges at or below a numeric value, by bisection."""

    def among(low: int, high: int) -> str:
        if low == high:
            return str(low)
        middle = (low + high + 1) // 2
        below, above = among(low, middle - 1), among(middle, high)
        return f"CASE WHEN {value} < {sql_number(edges[middle - 1])} THEN {below} ELSE {above} END"

    return among(0, len(edges))


class DuckDb(Database):
    where = "the DuckDB query"
    nearest = "round_even({}, 0)"
    sums = True

    def __init__(self, connection: Any) -> None:
        super().__init__(connection)
        self._functions = list[str]()

    def interval(self, value: str, edges: Sequence[float]) -> str:
        """A user-defined function in this process: DuckDB plans nested CASEs slowly."""
        name = f"hedgerow_{secrets.token_hex(8)}"
        count = partial(_count_edges, tuple(edges))
        self._connection.create_function(name, count, ["DOUBLE"], "SMALLINT", type="arrow")
        self._functions.append(name)
        return f"{name}({value})"

    def release(self) -> None:
        while self._functions:
            self._connection.remove_function(self._functions.pop())

    def run(self, statement: str) -> None:
        self._connection.execute(statement)

    def batches(self, query: str, rows: int) -> Iterator[pa.RecordBatch]:
        with closing(self._connection.sql(query).to_arrow_reader(rows)) as reader:
            yield from reader

    def schema(self, query: str) -> pa.Schema:
        with closing(self._connection.sql(query).limit(0).to_arrow_reader(1)) as reader:
            return reader.schema

    def table(self, query: str) -> pa.Table:
        return self._connection.sql(query).to_arrow_table()

    def put(self, name: str, table: pa.Table) -> None:
        view_name = f"{name}_given"
        self._connection.register(view_name, table)
        self._connection.execute(f"CREATE TEMP TABLE {name} AS SELECT * FROM {view_name}")
        self._connection.unregister(view_name)


def _count_edges(edges: tuple[float, ...], values: Any) -> Any:
    numbers = np.asarray(values.to_numpy(zero_copy_only=False), np.float64)
    codes = np.empty(len(numbers), np.uint8)
    encode_edges(numbers, edges, codes)
    return pa.array(codes, pa.int16())


class Adbc(Database):
    """Any database with an ADBC driver: rows are streamed, nothing is summed there."""

    nearest = ""

    def __init__(self, connection: Any, vendor: str = "") -> None:
        super().__init__(connection)
        if vendor:
            self.where = f"the {vendor} query"

    def run(self, statement: str) -> None:
        with self._connection.cursor() as cursor:
            cursor.execute(statement)

    def batches(self, query: str, rows: int) -> Iterator[pa.RecordBatch]:
        with self._connection.cursor() as cursor:
            cursor.execute(query)
            for batch in cursor.fetch_record_batch():
                yield from (batch.slice(at, rows) for at in range(0, len(batch), rows))

    def schema(self, query: str) -> pa.Schema:
        with self._connection.cursor() as cursor:
            cursor.execute(query)
            return cursor.fetch_record_batch().schema

    def project(self, query: str, names: Sequence[str]) -> str:
        return query

    def table(self, query: str) -> pa.Table:
        with self._connection.cursor() as cursor:
            cursor.execute(query)
            return cursor.fetch_arrow_table()

    def put(self, name: str, table: pa.Table) -> None:
        with self._connection.cursor() as cursor:
            cursor.adbc_ingest(name, table, mode="create", temporary=True)


class Postgres(Adbc):
    where = "the PostgreSQL query"
    nearest = "round({})"
    sums = True
    project = Database.project

    def interval(self, value: str, edges: Sequence[float]) -> str:
        return f"width_bucket({value}, '{{{','.join(map(repr, edges))}}}'::float8[])"

    def schema(self, query: str) -> pa.Schema:
        return super().schema(f"SELECT * FROM ({query}) AS asked LIMIT 0")


def database_of(connection: Any) -> Streamed:
    """The database of an open connection or of a location."""
    if isinstance(connection, str | Path):
        return _open_database(str(connection))
    module = type(connection).__module__
    if module in ("_duckdb", "duckdb"):
        return DuckDb(connection)
    if module.startswith("adbc_driver"):
        vendor = connection.adbc_get_info().get("vendor_name")
        return Postgres(connection) if vendor == "PostgreSQL" else Adbc(connection, str(vendor))
    if hasattr(connection, "cursor"):
        return Streamed(connection)
    raise ParameterError(
        f"sql was given with a {type(connection).__name__}; give a DuckDB connection, one of an "
        "ADBC or DB-API driver, the path of a DuckDB file or postgresql://..."
    )


def _open_database(place: str) -> Database:
    try:
        if place.startswith(POSTGRES):
            from adbc_driver_postgresql import dbapi

            with as_data_error("the PostgreSQL database", dbapi.Error, advice=ASK_THE_SERVER):
                return _close_when_unused(Postgres, dbapi.connect(place, autocommit=True))
        import duckdb
    except ImportError as error:
        raise ParameterError(
            f"{error.name} is not installed; install it: pip install 'hedgerow[sql]'."
        ) from None
    with as_data_error(f"the DuckDB file {Path(place).name!r}", duckdb.Error, advice=FREE_THE_FILE):
        return _close_when_unused(DuckDb, duckdb.connect(place, read_only=True))


def _close_when_unused(kind: type[Database], connection: Any) -> Database:
    """Closes a connection opened here when it is no longer referenced."""
    database = kind(connection)
    weakref.finalize(database, connection.close)
    return database


class Selected(RowTable):
    """The result of one query, as a table read in chunks."""

    def __init__(self, connection: Any, query: str) -> None:
        self.database = database_of(connection)
        self.query = query.strip().removesuffix(";")
        self.where = self.database.where
        # Each driver has errors of its own.
        with as_data_error(self.where, Exception, advice=CHECK_THE_QUERY):
            self.names = self.database.names(self.query)

    def chunks(self, names: Sequence[str], rows: int) -> Iterator[list[Column]]:
        positions_of(self, names)
        with as_data_error(self.where, Exception, advice=CHECK_THE_QUERY):
            yield from self.database.columns(self.query, names, rows)


def plain_storage(column: Any) -> Any:
    """Unwraps PostgreSQL's NUMERIC, which arrives as text in an extension type."""
    return column.storage if isinstance(column, pa.ExtensionArray) else column


def quote_name(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
