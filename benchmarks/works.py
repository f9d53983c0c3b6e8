"""Whole pieces of work, each in a process of its own: CPU seconds, peak memory, a reference.

python -m benchmarks.works                   all of them, into results.json
python -m benchmarks.works median_forest     some of them; the others stay
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import results
from benchmarks.timing import is_quick, sized

ROOT = Path(__file__).parents[1]
PART = "works"
LONGEST = 7200
MILLION = sized(1_000_000, 2_000)
TREES = sized(100, 3)
Measured = dict[str, Any]
WORKS: dict[str, Callable[[], Measured]] = {}


def work(function: Callable[[], Measured]) -> Callable[[], Measured]:
    """Registers a piece of work under its name; `page.GOALS` says what it is and what is asked."""
    WORKS[function.__name__] = function
    return function


def cpu(function: Callable[[], object], rounds: int = 1) -> float:
    """Least CPU seconds of some rounds."""
    found = []
    for _ in range(rounds):
        start = time.process_time()
        function()
        found.append(time.process_time() - start)
    return min(found)


def normals(rows: int, features: int, classes: int = 2) -> tuple[Any, Any, Any]:
    """Features, class labels and a number that depend on three of the features."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(rows, features)).astype(np.float32)
    score = X[:, 0] + X[:, 1] * X[:, 2] + 0.5 * (X[:, 3] > 0.3) + rng.normal(size=rows)
    cuts = np.quantile(score, np.arange(1, classes) / classes)
    return X, np.digitize(score, cuts), np.clip(score, -10, 10)


def schema_of(features: int, classes: int | None = 2) -> Any:
    import hedgerow as hr

    columns = tuple(hr.Numeric(f"x{j}", -6.0, 6.0) for j in range(features))
    if classes is None:
        return hr.Schema(columns, target=hr.Target(-10, 10))
    return hr.Schema(columns, classes=tuple(str(c) for c in range(classes)))


@work
def model_file() -> Measured:
    import xgboost

    import hedgerow as hr

    X, y, _ = normals(sized(30_000, 2_000), 30)
    ours = hr.BoostedTreesClassifier(schema_of(30), 64.0, 1e-6, n_estimators=TREES, random_state=0)
    theirs = xgboost.XGBClassifier(n_estimators=TREES, max_depth=6, n_jobs=1, tree_method="hist")
    with tempfile.TemporaryDirectory() as folder:
        mine, other = Path(folder) / "ours.json", Path(folder) / "theirs.json"
        ours.fit(X, y).save(mine)
        theirs.fit(X, y).save_model(other)
        return {
            "seconds": cpu(lambda: hr.load(mine), 9),
            "reference": cpu(lambda: xgboost.XGBClassifier().load_model(other), 9),
        }


@work
def extra_trees_classes() -> Measured:
    from sklearn.ensemble import ExtraTreesClassifier

    import hedgerow as hr

    X, y, _ = normals(MILLION, 30)
    sizes = {"n_estimators": 20, "max_depth": 20}
    ours = hr.ExtraTreesClassifier(schema_of(30), 1.0, 1e-6, random_state=0, **sizes)
    theirs = ExtraTreesClassifier(**sizes)
    return {
        "seconds": cpu(lambda: ours.fit(X, y)),
        "reference": cpu(lambda: theirs.fit(X, y)),
    }


@work
def extra_trees_numbers() -> Measured:
    from sklearn.ensemble import ExtraTreesRegressor

    import hedgerow as hr

    X, _, y = normals(MILLION, 30)
    sizes = {"n_estimators": 20, "max_depth": 20}
    ours = hr.ExtraTreesRegressor(schema_of(30, None), 1.0, 1e-6, random_state=0, **sizes)
    theirs = ExtraTreesRegressor(**sizes)
    return {"seconds": cpu(lambda: ours.fit(X, y)), "reference": cpu(lambda: theirs.fit(X, y))}


@work
def median_forest() -> Measured:
    import xgboost

    import hedgerow as hr

    X, y, _ = normals(sized(100_000, 500), 30)
    ours = hr.MedianForestClassifier(schema_of(30), 1.0, 1e-6, random_state=0, max_depth=8)
    theirs = xgboost.XGBClassifier(n_estimators=TREES, max_depth=6, n_jobs=1, tree_method="hist")
    return {
        "seconds": cpu(lambda: ours.fit(X, y), sized(3, 1)),
        "reference": cpu(lambda: theirs.fit(X, y), sized(3, 1)),
    }


@work
def thousand_sites() -> Measured:
    from benchmarks.growth import tree_over

    return {"seconds": cpu(lambda: tree_over(sized(1000, 9), sparse=not is_quick()))}


@work
def small_site() -> Measured:
    """The service of a site, a process of its own, once it serves a thousand rows.

    As hedgerow is installed: Arrow loads what is hidden here wherever it is there.
    """
    from benchmarks.bench_site import of_a_service

    with tempfile.TemporaryDirectory() as folder:
        for name in ("pandas", "cloudpickle", "dateutil"):
            (Path(folder) / f"{name}.py").write_text("raise ImportError\n")
        os.environ["PYTHONPATH"] = os.pathsep.join([folder, os.environ.get("PYTHONPATH", "")])
        found = of_a_service(Path(folder), 1_000)
    return {"seconds": found["cpu"], "resident_mb": found["resident"] / 1e6}


@work
def mapped_1e7() -> Measured:
    return mapped(sized(10_000_000, 2_000))


@work
def mapped_1e8() -> Measured:
    return mapped(sized(100_000_000, 2_000))


AT_ONCE = 1 << 18


def mapped(rows: int) -> Measured:
    """The default boosted fit of a stream of rows; cells in a memory-mapped file."""
    import pyarrow as pa

    import hedgerow as hr

    block = np.random.default_rng(0).random((31, AT_ONCE), np.float32)
    names, making = [f"x{j}" for j in range(30)], [0.0]

    def batches() -> Iterator[Any]:
        for k in range(-(-rows // AT_ONCE)):
            start = time.thread_time()
            turned = [np.roll(column, 7919 * k * (j + 1)) for j, column in enumerate(block)]
            score = turned[0] + turned[1] + turned[30] / 2
            columns = [*turned[:30], (score > 1.25).astype(np.int64)]
            batch = pa.RecordBatch.from_arrays(list(map(pa.array, columns)), [*names, "y"])
            making[0] += time.thread_time() - start
            yield batch.slice(0, rows - k * AT_ONCE)

    kinds = pa.schema([*((name, pa.float32()) for name in names), ("y", pa.int64())])
    schema = hr.Schema({name: (0, 1) for name in names}, classes=[0, 1])
    model = hr.BoostedTreesClassifier(schema, 1.0, 1e-9, random_state=0)
    with tempfile.TemporaryDirectory() as folder:
        stream = pa.RecordBatchReader.from_batches(kinds, batches())
        spent = cpu(lambda: model.fit(stream, target="y", temp_folder=folder))
    return {"seconds": spent - making[0], "resident_mb": peak_mb()}


@work
def first_use() -> Measured:
    """A first boosted fit: importing too, in processes of their own."""
    rows = "from benchmarks.works import *\nX, y, _ = normals(sized(100_000, 500), 30)\n"
    ours = "import hedgerow as hr; hr.BoostedTreesClassifier(schema_of(30), 1.0, 1e-6).fit(X, y)"
    theirs = (
        f"import xgboost; xgboost.XGBClassifier(n_estimators={TREES}, max_depth=6, n_jobs=1)"
        ".fit(X, y)"
    )
    return {"seconds": cpu_of_process(rows + ours), "reference": cpu_of_process(rows + theirs)}


def cpu_of_process(program: str) -> float:
    """CPU seconds of a process from its start to its end."""
    start = resource.getrusage(resource.RUSAGE_CHILDREN)
    command = [sys.executable, "-W", "ignore", "-c", program]
    subprocess.run(command, check=True, capture_output=True, cwd=ROOT)
    end = resource.getrusage(resource.RUSAGE_CHILDREN)
    return end.ru_utime + end.ru_stime - start.ru_utime - start.ru_stime


# ------------------------------------------------------------------------------------- running
def measure(name: str) -> Measured:
    """In a process of its own."""
    paths = os.pathsep.join([str(ROOT / "src"), str(ROOT)])
    environment = {"OMP_NUM_THREADS": "1", **os.environ, "PYTHONPATH": paths}
    command = [sys.executable, "-W", "ignore", "-m", "benchmarks.works", "--one", name]
    done = subprocess.run(
        command, capture_output=True, text=True, env=environment, timeout=LONGEST, cwd=ROOT
    )
    if done.returncode:
        return {"failed": done.stderr.strip().splitlines()[-1].partition(":")[0]}
    return dict(json.loads(done.stdout.splitlines()[-1]))


def peak_mb() -> float:
    """Of this program alone: `getrusage` also knows what the process held that started it."""
    status = Path("/proc/self/status").read_text()
    line = next(line for line in status.splitlines() if line.startswith("VmHWM:"))
    return int(line.split()[1]) / 1024


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("names", nargs="*", choices=[[], *WORKS])
    parser.add_argument("--one", choices=list(WORKS), help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.one:
        print(json.dumps(WORKS[given.one]()))
        return
    for name in given.names or WORKS:  # a result is kept as soon as it is there
        found = measure(name)
        print(name, found, flush=True)
        results.add(PART, name, found)


if __name__ == "__main__":
    main()
