"""Runs every benchmark on a few rows, to see that it still can. Nothing is timed or written.

python -m benchmarks.smoke
"""

from __future__ import annotations

import os
import tempfile
import warnings
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

from benchmarks.timing import QUICK

ROWS = 2_000


def parts() -> Iterator[str]:
    """Runs one thing after the other, and names what has run. Sizes are settled by imports."""
    yield from _lines()
    yield from _works()
    yield from _sources()
    yield from _growth()


def _lines() -> Iterator[str]:
    run = import_module("benchmarks.run")
    for name in run.NAMES:
        yield f"run {name}: {len(run.rows_of(name))} lines"


def _works() -> Iterator[str]:
    for name, (_, _, work) in import_module("benchmarks.works").WORKS.items():
        work()
        yield f"works {name}"


def _sources() -> Iterator[str]:
    sources = import_module("benchmarks.sources")
    with tempfile.TemporaryDirectory() as folder:
        rows = sources.write_rows(Path(folder), ROWS)
        for name, (_, fit) in sources.PLACES.items():
            if "postgres" in name and not sources.has_postgres():
                yield f"sources {name}: left out, there is no server"
                continue
            fit(sources.Timed(sources.model()), rows)
            yield f"sources {name}"


def _growth() -> Iterator[str]:
    growth = import_module("benchmarks.growth")
    for work, (_, words, _, sizes) in growth.CURVES.items():
        for size in sizes:
            work(size)()
        yield f"growth: {words}"


def main() -> None:
    os.environ[QUICK] = "yes"
    warnings.simplefilter("ignore")
    for done in parts():
        print(done, flush=True)


if __name__ == "__main__":
    main()
