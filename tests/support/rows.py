"""Rows that tests share: of the papers' formulas, in every place that holds rows, in PostgreSQL."""

from __future__ import annotations

import getpass
import itertools
import os
import pickle
import pwd
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch

import cloudpickle
import dask.dataframe
import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest

from hedgerow.data.engines.clusters import OnDask, OnSpark
from hedgerow.data.engines.database import InDatabase
from hedgerow.data.engines.engine import OnDisk
from hedgerow.data.reading import encoding
from hedgerow.data.reading.databases import Selected
from hedgerow.data.reading.encoding import encode
from hedgerow.data.rows import Draws, Rows
from hedgerow.schema.grids import ColumnKind, Grid
from hedgerow.schema.schema import Numeric, Schema, Target

P = 3
COLUMNS = tuple(Numeric(f"x{j}", 0.0, 1.0, bins=10) for j in range(P))
CLASSES = Schema(COLUMNS, classes=("no", "yes"))
NUMBERS = Schema(COLUMNS, target=Target(0.0, 2.0))
RNG = np.random.default_rng(11)
X = RNG.uniform(0.0, 1.0, (240, P)) ** np.array([1.0, 1.5, 2.0])
SIGNAL = X[:, 0] + X[:, 1] + 0.2 * RNG.normal(size=len(X))
Y01 = (SIGNAL > 0.9).astype(int)
Y = np.where(Y01 == 1, "yes", "no")
VALUE = np.clip(SIGNAL, 0.0, 2.0)
SITE = np.arange(len(X)) % 3


def thresholds(bins):
    """Inner edges of so many equal bins of [0, 1]; x < t goes left, as a cell holds its low end."""
    return np.arange(1, bins) / bins


def leaf_of(tree, model):
    """Which leaf each row of X reaches, by the tree's own tests on the model's cells."""
    return tree.apply(model.cells(X))


def proportions(rows):
    return np.array([np.mean(Y01[rows] == 0), np.mean(Y01[rows] == 1)])


# impurities of the papers, of a share q of ones, scaled as Wang et al. scale them
def entropy(q):
    inside = (q > 0.0) & (q < 1.0)
    safe = np.where(inside, q, 0.5)
    return np.where(inside, -safe * np.log2(safe) - (1 - safe) * np.log2(1 - safe), 0.0)


IMPURITY = {
    "entropy": entropy,
    "gini": lambda q: 4.0 * q * (1.0 - q),
    "root_gini": lambda q: 2.0 * np.sqrt(q * (1.0 - q)),
}


def mass(rows, impurity):
    """n G(q) of some rows."""
    return len(rows) * float(impurity(np.mean(Y01[rows]))) if len(rows) else 0.0


def sides(rows, feature, cut):
    left = X[rows, feature] < cut
    return rows[left], rows[~left]


# --------------------------------------------------------------------------------------------------
# One small table of records in every place that rows may be held, for tests of equal answers.
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
    elif schema.survival is not None:
        signed = [value for _, _, value in records]
        columns["y"] = pa.array([*map(abs, signed), None, -1.0], pa.float64())
        columns["event"] = pa.array([*(value > 0.0 for value in signed), True, False])
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


def on_disk(table: pa.Table, schema: Schema) -> OnDisk:
    """In blocks of four rows at most."""
    reader = pa.RecordBatchReader.from_batches(table.schema, table.to_batches(4))
    with tempfile.TemporaryDirectory() as folder, patch.object(encoding, "BLOCK_BYTES", 1):
        return OnDisk(reader, schema, "y", DRAWS, Path(folder), check=False)


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


def on_dask(table: pa.Table, schema: Schema) -> OnDask:
    frame = dask.dataframe.from_pandas(table.to_pandas(), npartitions=3, sort=False)
    return OnDask(frame, schema, "y", DRAWS)


class FrameOfSpark:
    """What a Spark data frame does for us, in this process: partitions, lazily, one row a reply.

    tests/data/test_spark.py has a real one.
    """

    sparkSession = None  # noqa: N815

    def __init__(self, parts: list[pa.Table]) -> None:
        self.parts, self.columns = parts, parts[0].column_names

    @classmethod
    def of(cls, table: pa.Table, n: int = 3) -> FrameOfSpark:
        edges = [k * len(table) // n for k in range(n + 1)]
        return cls([table.slice(a, b - a) for a, b in itertools.pairwise(edges)])

    def selectExpr(self, *columns: str) -> FrameOfSpark:
        *quoted, place = columns
        names = [name[1:-1].replace("``", "`") for name in quoted]
        assert place == "spark_partition_id() AS hedgerow_partition"
        return FrameOfSpark(
            [
                part.select(names).append_column(
                    "hedgerow_partition", pa.array([k] * len(part), pa.int32())
                )
                for k, part in enumerate(self.parts)
            ]
        )

    def sortWithinPartitions(self, *quoted: str) -> FrameOfSpark:
        names = [(name[1:-1].replace("``", "`"), "ascending") for name in quoted]
        return FrameOfSpark([part.sort_by(names) for part in self.parts])

    def mapInArrow(self, function: Any, schema: str) -> FrameOfSpark:
        names = [column.split()[0] for column in schema.split(", ")]
        carried = cloudpickle.dumps(function)  # as it travels to executors
        parts = [list(pickle.loads(carried)(iter(part.to_batches()))) for part in self.parts]
        empty = pa.table({name: pa.array([], pa.binary()) for name in names})
        made = [pa.Table.from_batches(part) if part else empty for part in parts]
        assert all(part.column_names == names for part in made)
        return FrameOfSpark(made)

    def select(self, *names: str) -> FrameOfSpark:
        return FrameOfSpark([part.select(names) for part in self.parts])

    def limit(self, n: int) -> FrameOfSpark:
        return FrameOfSpark([self.parts[0].slice(0, n)])

    def toArrow(self) -> pa.Table:
        return pa.concat_tables(self.parts)

    def persist(self) -> FrameOfSpark:
        return self

    def unpersist(self) -> None: ...

    def collect(self) -> list[tuple[Any, ...]]:
        return [tuple(row.values()) for part in self.parts for row in part.to_pylist()]


def on_spark(table: pa.Table, schema: Schema) -> OnSpark:
    return OnSpark(FrameOfSpark.of(table), schema, "y", DRAWS)


# --------------------------------------------------------------------------------------------------
# A PostgreSQL server of our own, in a folder that goes away; only a socket, no port.
def server_programs() -> Path | None:
    """Where initdb and pg_ctl are: on the path, or where Debian keeps them."""
    found = shutil.which("initdb")
    places = [Path(found).parent] if found else []
    places += sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)
    return next((place for place in places if (place / "pg_ctl").exists()), None)


@contextmanager
def postgres_server() -> Iterator[str]:
    """The words with which to connect. A server refuses to run as root, so root lends a user."""
    programs = server_programs()
    if programs is None:
        pytest.skip("PostgreSQL is not installed: no initdb on the path or in /usr/lib/postgresql")
    user = _lent_user()
    folder = Path(tempfile.mkdtemp(prefix="hr-pg-", dir="/tmp"))  # a socket's path must be short
    try:
        if user is not None:
            os.chown(folder, pwd.getpwnam(user).pw_uid, -1)
        data, options = folder / "data", f"-c listen_addresses='' -k {folder} -c fsync=off"
        _run(user, programs / "initdb", "-D", data, "-A", "trust", "-U", "reader", "--no-sync")
        log = folder / "log"
        _run(user, programs / "pg_ctl", "-D", data, "-o", options, "-l", log, "-w", "start")
        try:
            yield f"host={folder} user=reader dbname=postgres"
        finally:
            _run(user, programs / "pg_ctl", "-D", data, "-m", "immediate", "stop")
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def address(words: str) -> str:
    """The same server as a URI, for drivers that want one."""
    host = words.split()[0].removeprefix("host=")
    return f"postgresql://reader@/postgres?host={host}"


def _lent_user() -> str | None:
    if os.geteuid() != 0:
        return None
    names = {entry.pw_name for entry in pwd.getpwall()}
    return next(name for name in ("postgres", "nobody") if name in names)


def _run(user: str | None, *command: object) -> None:
    words = [str(word) for word in command]
    subprocess.run(words, check=True, user=user, cwd="/", stdout=subprocess.DEVNULL)


# --------------------------------------------------------------------------------------------------
# A MariaDB server of our own, likewise.
@contextmanager
def mariadb() -> Iterator[Any]:
    """A connection of Python's DB-API to an empty database; its cursors stream."""
    pymysql = pytest.importorskip("pymysql", reason="PyMySQL is not installed")
    programs = shutil.which("mariadb-install-db"), shutil.which("mariadbd")
    if None in programs:
        pytest.skip("MariaDB is not installed: no mariadb-install-db or mariadbd on the path")
    folder = Path(tempfile.mkdtemp(prefix="hr-my-", dir="/tmp"))
    place = ("--no-defaults", f"--datadir={folder}/data", f"--user={getpass.getuser()}")
    options = (f"--socket={folder}/socket", f"--pid-file={folder}/pid", "--skip-networking")
    try:
        _run(None, programs[0], *place, "--auth-root-authentication-method=normal")
        words = [programs[1], *place, *options]
        with subprocess.Popen(words, stderr=subprocess.PIPE, text=True) as run:
            try:
                next(line for line in run.stderr if "ready for connections" in line)
                with pymysql.connect(
                    unix_socket=f"{folder}/socket",
                    user="root",
                    cursorclass=pymysql.cursors.SSCursor,
                ) as connection:
                    connection.cursor().execute("CREATE DATABASE clinic")
                    connection.select_db("clinic")
                    yield connection
            finally:
                run.kill()
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def in_mariadb(connection: Any, table: pa.Table, schema: Schema) -> Rows:
    """Streamed, a few rows at a time; numbers are DOUBLE, which has no NaN but NULL."""
    kinds = {pa.float64(): "DOUBLE", pa.bool_(): "BOOLEAN", pa.string(): "TEXT"}
    columns = [f"{field.name} {kinds[field.type]}" for field in table.schema]
    signs = ", ".join(["%s"] * len(columns))
    rows = [
        [None if value != value else value for value in row.values()] for row in table.to_pylist()
    ]
    with connection.cursor() as cursor:
        cursor.execute("DROP TABLE IF EXISTS records")
        cursor.execute(f"CREATE TABLE records ({', '.join(columns)}) CHARACTER SET utf8mb4")
        cursor.executemany(f"INSERT INTO records VALUES ({signs})", rows)
    read = encode(Selected(connection, SELECT), schema, target="y", chunk_rows=3)
    return Rows(read, schema, DRAWS)
