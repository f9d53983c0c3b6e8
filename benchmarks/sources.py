"""One tree from rows in every place they may lie: CPU seconds and peak memory of the process.

    python -m benchmarks.sources DIR              1e6 and 1e7 rows; files are kept in DIR
    python -m benchmarks.sources DIR --rows 1e6 --only parquet csv
    python -m benchmarks.sources DIR --rows 1e5 --boosted     a boosted fit, as a ratio to memory

Each fit runs in a process of its own. A result that is there is measured again only if it is named;
`make docs` puts all of them on the page of speed. PostgreSQL is a server
that this starts in a temporary folder, Dask a cluster of two worker processes.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import results
from benchmarks.timing import is_quick
from benchmarks.works import ROOT, schema_of

PART = "sources"
BOOSTED_PART = "boosted_sources"
COLUMNS = 30
CHUNK = 1_000_000
SELECT = "SELECT * FROM rows"
LIMIT = "256MB"
SIZES = {"1e5": 100_000, "1e6": 1_000_000, "1e7": 10_000_000}
USUAL_SIZES = ("1e6", "1e7")
BOOSTED = ("memory", "mapped", "duckdb", "duckdb_pushed", "postgres_pushed", "dask")
IS_BOOSTED = "HEDGEROW_BENCH_BOOSTED"


class Timed:
    """Fits, and keeps the CPU seconds of this process and of those that work for it."""

    def __init__(self, model: Any) -> None:
        self.model, self.seconds, self.beside = model, 0.0, 0.0

    def fit(self, *rows: Any, others: Callable[[], float] = lambda: 0.0, **how: Any) -> None:
        if os.environ.get(IS_BOOSTED):
            self.model.fit(*rows, **how)  # loops are loaded where they run, once
        if not is_quick():
            Path("/proc/self/clear_refs").write_text("5")  # the peak is counted from here
        began, theirs = time.process_time(), others()
        self.model.fit(*rows, **how)
        self.seconds, self.beside = time.process_time() - began, others() - theirs


Fit = Callable[[Timed, Path], None]


# ----------------------------------------------------------------------------------------- places
def _memory(model: Timed, rows: Path) -> None:
    import pandas as pd

    frame = pd.read_parquet(rows)
    model.fit(frame.drop(columns="y"), frame.y)


def _numpy(model: Timed, rows: Path) -> None:
    import pandas as pd

    frame = pd.read_parquet(rows)
    X, y = frame.drop(columns="y").to_numpy(), frame.y.to_numpy()
    del frame
    model.fit(X, y)


def _polars(model: Timed, rows: Path) -> None:
    import polars as pl

    model.fit(pl.read_parquet(rows), target="y")


def _arrow_file(model: Timed, rows: Path) -> None:
    model.fit(str(rows.with_suffix(".arrow")), target="y")


def _dataset(model: Timed, rows: Path) -> None:
    import pyarrow.dataset

    model.fit(pyarrow.dataset.dataset(str(rows)), target="y")


def _reader(model: Timed, rows: Path) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    with pq.ParquetFile(rows, pre_buffer=False) as file:
        batches = pa.RecordBatchReader.from_batches(file.schema_arrow, file.iter_batches())
        model.fit(batches, target="y")


def _eager_reader(model: Timed, rows: Path) -> None:
    import pyarrow.dataset

    model.fit(pyarrow.dataset.dataset(str(rows)).scanner().to_reader(), target="y")


def _duckdb(model: Timed, rows: Path, limit: str | None = None, **how: Any) -> None:
    import duckdb

    config = {"memory_limit": limit} if limit else {}
    with duckdb.connect(str(rows.with_suffix(".duckdb")), read_only=True, config=config) as opened:
        model.fit(opened, sql=SELECT, target="y", **how)


def _postgres(model: Timed, rows: Path, **how: Any) -> None:
    with postgres(rows) as (address, server):
        model.fit(address, sql=SELECT, target="y", others=lambda: _cpu_of(server), **how)


def _dask(model: Timed, rows: Path) -> None:
    import dask.dataframe
    from distributed import Client, LocalCluster

    frame = dask.dataframe.read_parquet(rows)
    if is_quick():
        with dask.config.set(scheduler="synchronous"):
            model.fit(frame, target="y")
        return
    started = {"n_workers": 2, "threads_per_worker": 1, "dashboard_address": None}
    with LocalCluster(host="127.0.0.1", **started) as local, Client(local) as client:
        model.fit(frame, target="y", others=lambda: sum(client.run(time.process_time).values()))


PLACES: dict[str, tuple[str, Fit]] = {
    "memory": ("a data frame in memory", _memory),
    "numpy": ("a NumPy array in memory", _numpy),
    "polars": ("a Polars frame in memory", _polars),
    "parquet": ("Parquet file, streamed", lambda m, rows: m.fit(str(rows), target="y")),
    "mapped": (
        "Parquet file, cells in a memory-mapped file",
        lambda m, rows: m.fit(str(rows), target="y", temp_folder=rows.parent),
    ),
    "csv": ("CSV file, streamed", lambda m, rows: m.fit(str(rows.with_suffix(".csv")), target="y")),
    "arrow": ("Arrow file, streamed", _arrow_file),
    "dataset": ("pyarrow dataset, streamed", _dataset),
    "reader": ("reader of record batches, one after the other", _reader),
    "eager_reader": ("reader of record batches, with Arrow's own read-ahead", _eager_reader),
    "duckdb": ("DuckDB, streamed", _duckdb),
    "duckdb_limited": (
        f"DuckDB with a memory_limit of {LIMIT}, streamed",
        lambda m, rows: _duckdb(m, rows, limit=LIMIT),
    ),
    "duckdb_pushed": ("DuckDB, pushed down", lambda m, r: _duckdb(m, r, push_down=True)),
    "postgres": ("PostgreSQL, streamed", _postgres),
    "postgres_pushed": ("PostgreSQL, pushed down", lambda m, r: _postgres(m, r, push_down=True)),
    "dask": ("Dask, two workers", _dask),
}


# ------------------------------------------------------------------------------------------ files
def write_rows(folder: Path, rows: int) -> Path:
    """The same rows as Parquet, as CSV, as an Arrow file and in DuckDB."""
    import duckdb
    import pyarrow as pa
    import pyarrow.csv
    import pyarrow.ipc
    import pyarrow.parquet as pq

    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"rows{rows}.parquet"
    if not path.exists():
        half = path.with_suffix(".part")
        parts = (_part(k, min(CHUNK, rows - k)) for k in range(0, rows, CHUNK))
        first = next(parts)
        with (
            pq.ParquetWriter(half, first.schema) as parquet,
            pyarrow.csv.CSVWriter(path.with_suffix(".csv"), first.schema) as text,
            pa.ipc.new_file(path.with_suffix(".arrow"), first.schema) as arrow,
        ):
            for part in chain([first], parts):
                parquet.write_table(part, row_group_size=CHUNK // 8)
                text.write_table(part)
                arrow.write_table(part, max_chunksize=CHUNK // 8)
        path.with_suffix(".duckdb").unlink(missing_ok=True)
        with duckdb.connect(str(path.with_suffix(".duckdb"))) as made:
            made.execute(f"CREATE TABLE rows AS SELECT * FROM read_parquet('{half}')")
        half.rename(path)
        pa.default_memory_pool().release_unused()
    return path


def _part(start: int, rows: int) -> Any:
    import pyarrow as pa

    rng = np.random.default_rng(start)
    X = np.round(rng.normal(size=(rows, COLUMNS)), 3).astype(np.float32)
    y = X[:, 0] + X[:, 1] * X[:, 2] + rng.normal(size=rows) > 0
    columns = {f"x{j}": X[:, j] for j in range(COLUMNS)}
    return pa.table({**columns, "y": y.astype(np.int8)})


def has_postgres() -> bool:
    return _servers().server_programs() is not None


def _servers() -> Any:
    """The tests know how to start a server."""
    sys.path.insert(0, str(ROOT / "tests"))
    return import_module("support.rows")


@contextmanager
def postgres(rows: Path) -> Iterator[tuple[str, int]]:
    """A server of the tests' own kind that holds the rows: its address and its process."""
    import pyarrow.parquet as pq
    from adbc_driver_postgresql import dbapi

    address, postgres_server = _servers().address, _servers().postgres_server
    with postgres_server() as words:
        with dbapi.connect(address(words)) as opened:
            for k, batch in enumerate(pq.ParquetFile(rows).iter_batches(CHUNK // 8)):
                with opened.cursor() as cursor:
                    cursor.adbc_ingest("rows", batch, mode="append" if k else "create")
            opened.commit()
        folder = Path(words.split()[0].removeprefix("host="))
        yield address(words), int((folder / "data" / "postmaster.pid").read_text().split()[0])


# -------------------------------------------------------------------------------------- measuring
def one(place: str, rows: Path) -> None:
    """Prints what one fit took. Imports and loops that were compiled before are not counted."""
    fit = Timed(model())
    PLACES[place][1](fit, rows)
    found = {"seconds": fit.seconds, "beside_seconds": fit.beside, "peak_mb": _peak_mb()}
    print(json.dumps(found))


def model() -> Any:
    import hedgerow as hr

    if os.environ.get(IS_BOOSTED):
        return hr.BoostedTreesClassifier(schema_of(COLUMNS), 1.0, 1e-6, random_state=0)
    return hr.HistogramTreeClassifier(schema_of(COLUMNS), 1.0, 1e-6, random_state=0)


def _peak_mb() -> float:
    """Of this program alone: `getrusage` also knows what the process held that started it."""
    status = Path("/proc/self/status").read_text()
    line = next(line for line in status.splitlines() if line.startswith("VmHWM:"))
    return int(line.split()[1]) / 1024


def _cpu_of(server: int) -> float:
    """Of a server and its processes, those that have ended too."""
    ticks = 0
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            numbers = stat.read_text().rpartition(") ")[2].split()
        except OSError:  # it has just ended
            continue
        if stat.parent.name == str(server):
            ticks += sum(map(int, numbers[11:15]))
        elif numbers[1] == str(server):
            ticks += sum(map(int, numbers[11:13]))
    return ticks / os.sysconf("SC_CLK_TCK")


def measure(place: str, rows: Path, boosted: bool = False) -> dict[str, Any]:
    paths = os.pathsep.join([str(ROOT / "src"), str(ROOT)])
    environment = {"OMP_NUM_THREADS": "1", **os.environ, "PYTHONPATH": paths}
    if boosted:
        environment[IS_BOOSTED] = "1"
    command = [
        sys.executable,
        "-W",
        "ignore",
        "-m",
        "benchmarks.sources",
        str(rows),
        "--one",
        place,
    ]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, cwd=ROOT)
    if done.returncode:
        print(done.stderr, file=sys.stderr)
        return {"failed": done.stderr.strip().splitlines()[-1].partition(":")[0]}
    return dict(json.loads(done.stdout.splitlines()[-1]))


def compare_boosted(size: str, rows: Path, places: Sequence[str]) -> None:
    """CPU seconds of all processes, as ratios to rows in memory in the same run."""
    found = dict[str, Any]()
    for place in dict.fromkeys(["memory", *places]):
        found[place] = measure(place, rows, boosted=True)
        if "failed" not in found[place]:
            spent = {name: of["seconds"] + of["beside_seconds"] for name, of in found.items()}
            found[place]["ratio"] = spent[place] / spent["memory"]
        print(size, place, found[place], flush=True)
    kept = results.read(BOOSTED_PART)
    results.add(BOOSTED_PART, size, {**kept.get(size, {}), **found})


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--rows", nargs="*", choices=list(SIZES), default=list(USUAL_SIZES))
    parser.add_argument("--boosted", action="store_true", help="a boosted classifier, not a tree")
    parser.add_argument("--only", nargs="*", choices=list(PLACES))
    parser.add_argument("--one", choices=list(PLACES), help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.one:
        one(given.one, given.folder)
        return
    for size in given.rows:
        rows = write_rows(given.folder, SIZES[size])
        if given.boosted:
            compare_boosted(size, rows, given.only or BOOSTED)
            continue
        for place in given.only or PLACES:
            if given.only is None and place in results.read(PART).get(size, {}):
                continue
            found = measure(place, rows)
            print(size, place, found, flush=True)
            results.add(PART, size, {**results.read(PART).get(size, {}), place: found})


if __name__ == "__main__":
    main()
