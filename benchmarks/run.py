"""Runs the benchmarks, prints their table and keeps it in results.json.

python -m benchmarks.run              all of them, a few minutes
python -m benchmarks.run noise masks  some of them; results.json keeps its other lines
python -m benchmarks.run --quick      all of it on a few rows, to see that it runs
"""

from __future__ import annotations

import os
import platform
import sys
import tempfile
import warnings
from collections.abc import Iterator
from dataclasses import asdict
from importlib import import_module
from pathlib import Path

from benchmarks import results
from benchmarks.timing import QUICK, Row

BENCHES = {
    "kernels": ("bench_kernels", "rows"),
    "predict": ("bench_predict", "rows"),
    "noise": ("bench_parts", "noise_rows"),
    "masks": ("bench_parts", "mask_rows"),
    "guards": ("bench_parts", "guard_rows"),
    "cold_start": ("bench_cold_start", "rows"),
    "ours": ("bench_fits", "our_rows"),
    "topdown": ("bench_fits", "topdown_rows"),
    "extra_trees": ("bench_fits", "extra_trees_rows"),
}
"""By name, the module and the function that measure it; imported when it is run."""
NAMES = ("kernels", "predict", "noise", "masks", "guards", "cold_start", "ours")
"""What runs if nothing is named: all that needs no data folder."""
PART = "lines"
HEADER = (
    "| work | CPU s | reference | CPU s | ratio | target | met |",
    "|---|---|---|---|---|---|---|",
)


def main(names: tuple[str, ...]) -> None:
    measured = {}
    print(*HEADER, sep="\n", flush=True)
    for name in names or NAMES:
        for row in rows_of(name):
            measured[row.work] = asdict(row)
            print(line(row), flush=True)
    results.write(PART, {**(results.read(PART) if names else {}), **measured})
    results.add("machine", PART, machine())


def rows_of(name: str) -> list[Row]:
    module, function = BENCHES[name]
    return list(getattr(import_module(f"benchmarks.{module}"), function)())


def kept() -> list[Row]:
    """All lines that were measured."""
    return [Row(**found) for found in results.read(PART).values()]


def table() -> str:
    return "\n".join([*HEADER, *map(line, kept())]) + "\n"


def line(row: Row) -> str:
    ours, theirs = seconds(row.seconds), seconds(row.reference_seconds)
    ratio = f"{row.ratio:.3g}"
    return (
        f"| {row.work} | {ours} | {row.reference} | {theirs} | {ratio} | {row.target} | {row.met} |"
    )


def seconds(number: float) -> str:
    return f"{number:.4f}" if number >= 1e-3 else f"{number:.2g}"


def machine() -> str:
    load = ", ".join(f"{part:.1f}" for part in os.getloadavg())
    return (
        f"Python {platform.python_version()}, {platform.machine()}, {os.cpu_count()} CPUs, "
        f"load average at the end {load}"
    )


# --------------------------------------------------------------------------------------------------
# Every benchmark on a few rows, to see that it still can run. Nothing is timed or written.
SMOKE_ROWS = 2_000


def parts() -> Iterator[str]:
    """Runs one thing after the other, and names what has run. Sizes are settled by imports."""
    yield from _lines()
    yield from _works()
    yield from _sources()
    yield from _growth()


def _lines() -> Iterator[str]:
    for name in NAMES:
        yield f"run {name}: {len(rows_of(name))} lines"


def _works() -> Iterator[str]:
    for name, work in import_module("benchmarks.works").WORKS.items():
        work()
        yield f"works {name}"


def _sources() -> Iterator[str]:
    sources = import_module("benchmarks.sources")
    with tempfile.TemporaryDirectory() as folder:
        rows = sources.write_rows(Path(folder), SMOKE_ROWS)
        for name, (_, fit) in sources.PLACES.items():
            if "postgres" in name and not sources.has_postgres():
                yield f"sources {name}: left out, there is no server"
                continue
            fit(sources.Timed(sources.model()), rows)
            yield f"sources {name}"


def _growth() -> Iterator[str]:
    growth = import_module("benchmarks.growth")
    for (grows, words), (work, _, sizes) in growth.CURVES.items():
        for size in sizes:
            work(size)()
        yield f"growth: {words}, by {grows}"


def smoke() -> None:
    os.environ[QUICK] = "yes"
    warnings.simplefilter("ignore")
    for done in parts():
        print(done, flush=True)


if __name__ == "__main__":
    if sys.argv[1:] == ["--quick"]:
        smoke()
    else:
        main(tuple(sys.argv[1:]))
