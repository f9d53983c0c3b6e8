"""Whole pieces of work, each in a process of its own: CPU seconds, peak memory, a reference.

    python -m benchmarks.works after                      all of them, into results.json
    python -m benchmarks.works after median_forest        some of them; the others stay
    python -m benchmarks.works before --source DIR        by an older tree of hedgerow

A work uses what users use, so an older tree can run it too. Works that an older tree cannot do say
so there. Some need the data folder: HEDGEROW_DATA=DIR.
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
from collections.abc import Callable
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import results
from benchmarks.timing import is_quick, sized

ROOT = Path(__file__).parents[1]
LONGEST = 3600
MILLION = sized(1_000_000, 2_000)
TREES = sized(100, 3)
CALLS = sized(200, 2)  # of one row each: one is shorter than the clock's step
NO_REFERENCE = "HEDGEROW_BENCH_WITHOUT_REFERENCES"
Measured = dict[str, Any]
WORKS: dict[str, tuple[str, str, Callable[[], Measured]]] = {}


def work(what: str, goal: str) -> Callable[[Callable[[], Measured]], Callable[[], Measured]]:
    """Registers a piece of work under the name of its function."""

    def register(function: Callable[[], Measured]) -> Callable[[], Measured]:
        WORKS[function.__name__] = (what, goal, function)
        return function

    return register


def cpu(function: Callable[[], object], rounds: int = 1) -> float:
    """Least CPU seconds of some rounds."""
    found = []
    for _ in range(rounds):
        start = time.process_time()
        function()
        found.append(time.process_time() - start)
    return min(found)


def reference(function: Callable[[], object], rounds: int = 1) -> float | None:
    """As `cpu`; an older tree has the same references, so they are left out there."""
    return None if os.environ.get(NO_REFERENCE) else cpu(function, rounds)


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


def boosted(rows: int, features: int) -> Measured:
    import hedgerow as hr

    X, y, _ = normals(rows, features)
    model = hr.BoostedTreesClassifier(schema_of(features), 1.0, 1e-6, random_state=0)
    model.fit(X[:1000], y[:1000])
    base = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    spent = cpu(lambda: model.fit(X, y))
    more = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - base) / 1024
    return {"seconds": spent, "more_mb": more}


@work("default boosted classifier, 1e6 x 30, whole fit", "at most .5 x XGBoost, 100 x depth 6")
def boosted_million() -> Measured:
    import xgboost

    X, y, _ = normals(MILLION, 30)
    theirs = xgboost.XGBClassifier(n_estimators=TREES, max_depth=6, n_jobs=1, tree_method="hist")
    ours = boosted(MILLION, 30)["seconds"]  # making the rows takes more memory than the fit
    return {"seconds": ours, "reference": reference(lambda: theirs.fit(X, y))}


@work("the same, 20,000 x 100", "memory: a chunk of rows and one matrix of F^2")
def boosted_100_columns() -> Measured:
    return boosted(sized(20_000, 500), 100)


@work("the same, 20,000 x 300", "does not crash")
def boosted_300_columns() -> Measured:
    return boosted(sized(20_000, 500), sized(300, 100))


@work("the same, 20,000 x 1,000", "works")
def boosted_1000_columns() -> Measured:
    return boosted(sized(20_000, 500), sized(1000, 100))


def served() -> tuple[Any, Any, Any, Any]:
    """A boosted model of 100 trees, XGBoost's, and rows to ask about."""
    import xgboost

    import hedgerow as hr

    X, y, _ = normals(sized(30_000, 2_000), 30)
    ours = hr.BoostedTreesClassifier(schema_of(30), 64.0, 1e-6, n_estimators=TREES, random_state=0)
    theirs = xgboost.XGBClassifier(n_estimators=TREES, max_depth=6, n_jobs=1, tree_method="hist")
    return ours.fit(X, y), theirs.fit(X, y), X, y


@work("one row predicted, 100 boosted trees", "at most 3 x XGBoost, below 1 ms")
def one_row() -> Measured:
    ours, theirs, X, _ = served()

    def calls(model: Any) -> Callable[[], object]:
        return lambda: [model.predict_proba(X[:1]) for _ in range(CALLS)]

    cpu(calls(ours))
    theirs_seconds = reference(calls(theirs), 3)
    return {
        "seconds": cpu(calls(ours), 3) / CALLS,
        "reference": theirs_seconds and theirs_seconds / CALLS,
    }


def file_of(model: Any, save: str, name: str) -> Path:
    path = Path("/tmp") / f"hedgerow-bench-{os.getpid()}-{name}.json"
    getattr(model, save)(path)
    return path


@work("model file of 100 boosted trees, loaded", "at most 1 x XGBoost's JSON, 8 ms")
def model_file() -> Measured:
    import xgboost

    import hedgerow as hr

    ours, theirs, _, _ = served()
    mine, other = file_of(ours, "save", "ours"), file_of(theirs, "save_model", "theirs")
    try:
        return {
            "seconds": cpu(lambda: hr.load(mine), 9),
            "reference": reference(lambda: xgboost.XGBClassifier().load_model(other), 9),
            "kb": mine.stat().st_size / 1000,
            "reference_kb": other.stat().st_size / 1000,
        }
    finally:
        mine.unlink()
        other.unlink()


@work("ExtraTreesClassifier, 1e6 x 30, 20 trees of depth 20", "at most .5 x scikit-learn's")
def extra_trees_classes() -> Measured:
    from sklearn.ensemble import ExtraTreesClassifier

    import hedgerow as hr

    X, y, _ = normals(MILLION, 30)
    ours = hr.ExtraTreesClassifier(schema_of(30), 1.0, 1e-6, random_state=0)
    theirs = ExtraTreesClassifier(20, max_depth=20)
    return {
        "seconds": cpu(lambda: ours.fit(X, y)),
        "reference": reference(lambda: theirs.fit(X, y)),
    }


@work("ExtraTreesRegressor, 200,000 x 30, 20 trees of depth 20", "at most .5 x scikit-learn's")
def extra_trees_numbers() -> Measured:
    return extra_trees_of_numbers(sized(200_000, 2_000))


def extra_trees_of_numbers(rows: int) -> Measured:
    from sklearn.ensemble import ExtraTreesRegressor

    import hedgerow as hr

    X, _, y = normals(rows, 30)
    ours = hr.ExtraTreesRegressor(schema_of(30, None), 1.0, 1e-6, random_state=0)
    theirs = ExtraTreesRegressor(20, max_depth=20)
    return {
        "seconds": cpu(lambda: ours.fit(X, y)),
        "reference": reference(lambda: theirs.fit(X, y)),
    }


@work("the same, 1e6 x 30", "at most .5 x scikit-learn's")
def extra_trees_million_numbers() -> Measured:
    return extra_trees_of_numbers(MILLION)


@work("MedianForestClassifier, 1e4 x 30", "at most .3 s")
def median_forest() -> Measured:
    import hedgerow as hr

    X, y, _ = normals(sized(10_000, 500), 30)
    model = hr.MedianForestClassifier(schema_of(30), 1.0, 1e-6, random_state=0, max_depth=8)
    model.fit(X, y)
    return {"seconds": cpu(lambda: model.fit(X, y), 3)}


@work("best-first tree, 512 splits, adult, 4 sites", "a third of before")
def best_first() -> Measured:
    from benchmarks import bench_fits
    from studies import datasets

    data = a_few_rows() if is_quick() else datasets.load("adult", datasets.folder(None))
    bench_fits.hr.TopDownTreeClassifier()  # imports what it needs
    return {"seconds": cpu(lambda: bench_fits.fit_topdown(data, split="noisy_counts"), sized(3, 1))}


def a_few_rows() -> Any:
    """In the place of adult, whose file not everybody has."""
    import pandas as pd

    from studies import datasets

    X, y, _ = normals(500, 5)
    return datasets.of_frame("a few rows", pd.DataFrame(X).add_prefix("x"), y, regression=False)


@work("shares of one self-mask, 300 sites", "faster")
def shares_300() -> Measured:
    return shares(sized(300, 30))


@work("shares of one self-mask, 1,000 sites", "faster")
def shares_1000() -> Measured:
    return shares(sized(1000, 100))


def shares(sites: int) -> Measured:
    from hedgerow.secagg import shamir

    split = shamir.split
    split(1, sites * 4 // 5, range(sites), os.urandom)
    return {"seconds": cpu(lambda: split(1, sites * 4 // 5, range(sites), os.urandom), 5)}


@work("tree over 1,000 sites in one process, sparse graph", "below 180 s")
def thousand_sites() -> Measured:
    from benchmarks.growth import tree_over

    return {"seconds": cpu(lambda: tree_over(sized(1000, 9), sparse=not is_quick()))}


@work("`site` with 1,000 names, 2e5 rows", "one sort")
def site_names() -> Measured:
    from hedgerow.data.site_rows import split_by_site

    X, y, _ = normals(sized(200_000, 2_000), 5)
    who = np.random.default_rng(1).integers(1000, size=len(y)).astype(str)
    return {"seconds": cpu(lambda: split_by_site(X, y, who, None), 3)}


@work("first fit of a tree, 1e5 x 30, whole process, empty caches", "below 4 s")
def first_use() -> Measured:
    return first_fit_of("TreeClassifier")


@work("first boosted fit, 1e5 x 30, whole process, empty caches", "below 4 s")
def first_use_of_boosted_trees() -> Measured:
    return first_fit_of("BoostedTreesClassifier")


def first_fit_of(estimator: str) -> Measured:
    """In processes of their own, without anything that a process before them compiled."""
    ours = "import hedgerow as hr; hr.{estimator}(schema_of(30), 1.0, 1e-6, random_state=0)"
    theirs = "import xgboost; xgboost.XGBClassifier(n_estimators={trees}, max_depth=6, n_jobs=1)"

    def process(model: str) -> None:
        words = (
            f"from benchmarks.works import *\nX, y, _ = normals(sized(100_000, 500), 30)\n{model}"
        )
        words = words.format(estimator=estimator, trees=TREES) + ".fit(X, y)"
        with tempfile.TemporaryDirectory() as folder:
            environment = {**os.environ, "NUMBA_CACHE_DIR": folder}  # an older tree's
            command = [sys.executable, "-W", "ignore", "-c", words]
            subprocess.run(command, check=True, capture_output=True, env=environment, cwd=ROOT)

    return {
        "seconds": cpu_of_processes(lambda: process(ours)),
        "reference": cpu_of_processes(lambda: process(theirs)),
    }


def cpu_of_processes(function: Callable[[], object]) -> float:
    """CPU seconds of the processes that a function starts and waits for."""
    start = resource.getrusage(resource.RUSAGE_CHILDREN)
    function()
    end = resource.getrusage(resource.RUSAGE_CHILDREN)
    return end.ru_utime + end.ru_stime - start.ru_utime - start.ru_stime


@work("boosted fit, 1e6 x 30, n_jobs=2: the longest chain of work", "1.7 x shorter than one thread")
def two_threads() -> Measured:
    from benchmarks.chain import longest_chain

    return longest_chain(MILLION, 30)


# ------------------------------------------------------------------------------------- running
def measure(name: str, source: Path) -> Measured:
    """In a process of its own that imports hedgerow from `source`."""
    paths = os.pathsep.join([str(source / "src"), str(ROOT)])
    environment = {"OMP_NUM_THREADS": "1", **os.environ, "PYTHONPATH": paths}
    if source != ROOT:
        environment[NO_REFERENCE] = "yes"
    command = [sys.executable, "-W", "ignore", "-m", "benchmarks.works", "one", name]
    done = subprocess.run(
        command, capture_output=True, text=True, env=environment, timeout=LONGEST, cwd=ROOT
    )
    if done.returncode:
        error = done.stderr.strip().splitlines()[-1].partition(":")[0]
        absent = error in ("ImportError", "ModuleNotFoundError")
        return {"failed": "not there yet" if absent else f"fails: {error}"}
    return dict(json.loads(done.stdout.splitlines()[-1]))


def run_one(name: str) -> None:
    with suppress(ImportError):  # an older tree compiles its loops while it runs
        import_module("hedgerow.kernels.compilation").compile_kernels()
    found = WORKS[name][2]()
    found["peak_mb"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(json.dumps(found))


def run(when: str, source: Path, names: list[str]) -> None:
    """A result is kept as soon as it is there: works take minutes, and may run side by side."""
    for name in names or list(WORKS):
        found = measure(name, source)
        print(when, name, found, flush=True)
        results.add(when, name, found)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("what", choices=["before", "after", "one"])
    parser.add_argument("names", nargs="*")
    parser.add_argument("--source", type=Path, default=ROOT)
    given = parser.parse_args()
    if given.what == "one":
        run_one(given.names[0])
    else:
        run(given.what, given.source.resolve(), given.names)


if __name__ == "__main__":
    main()
