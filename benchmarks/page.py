"""The full page of speed: what was asked and what is, how cost grows, and all that was measured."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from benchmarks import growth, results, run, works
from benchmarks.sources import BOOSTED_PART, COLUMNS, PART, PLACES
from benchmarks.sources import USUAL_SIZES as SIZES
from benchmarks.timing import Row

HEAD = """# Speed and memory

For engineers and data scientists with many rows.

Written by `make docs` from `benchmarks/results.json`, which `make bench` makes. CPU seconds of one
thread, because machines are shared; a reference ran in the same run, and a ratio to it says more.
*At the start* is what was measured when the goals were set, by code that is gone.

| work | at the start | now | reference | ratio | goal |
|---|---|---|---|---|---|
"""
WORK_GOALS = {
    "first_use": ("first boosted fit, 1e5 x 30, whole process", "14.4 s", "4 s"),
    "small_site": ("a site's process, 1,000 rows: until it serves", "322 MB", "120 MB, 1 s"),
    "median_forest": ("MedianForestClassifier, 1e5 x 30", "2.5x", "0.5x"),
    "extra_trees_classes": ("ExtraTreesClassifier, 1e6 x 30", "1.04x", "0.5x"),
    "extra_trees_numbers": ("ExtraTreesRegressor, 1e6 x 30", "3.1x", "1x"),
    "model_file": ("model file of 100 boosted trees, loaded", "20 ms", "8 ms"),
    "thousand_sites": ("tree over 1,000 sites in one process", "25 minutes", "180 s"),
    "mapped_1e7": ("default boosted fit, 1e7 x 30, mapped cells", "", ""),
    "mapped_1e8": ("the same, 1e8 x 30", "14-20 GB", "4 GB, 900 s"),
}
"""By name of a work: what it is; what it took, and what it may take at most."""
LINE_GOALS = {
    "import to first estimator, cold process": ("2.0 s", "1.5 s"),
    "whole fit of our boosted trees, epsilon 1, 1e6 x 30": ("0.63x", "0.25x"),
    "one row predicted, default boosted classifier, 100 trees, NumPy": ("0.6x", ""),
}
BOOSTED_GOALS = {"dask": ("3.6x", "1.3x"), "duckdb_pushed": ("5.4x", "2x"), "mapped": ("", "")}
GROWTH = """
## How cost grows

CPU seconds over a range of sizes, and the exponent of the power that fits them best (1 is in
proportion). Small sizes have fixed costs in them, which makes an exponent smaller.

![CPU seconds over size](growth.svg)

| what grows | work | sizes | CPU s | exponent |
|---|---|---|---|---|
"""
SOURCES = """
## Rows in every place

Written by `python -m benchmarks.sources DIR`: one `HistogramTreeClassifier` from rows of {columns}
columns, each fit in a process of its own. *Beside* are CPU seconds of processes that work for the
fit: a database server's, or a cluster's workers. *Peak* is the most memory that hedgerow's own
process held, with all that it had imported and, for DuckDB, with the engine, which runs inside and
keeps what it has read of its file up to its own `memory_limit`. A reader of record batches holds
what it reads ahead, which is for its maker to choose. An Arrow file is looked at where it lies; its
pages are let go as they are read. PostgreSQL's figures contain what the loading of its table, by
the same process, had left.

| rows lie in |{head}
|---|{line}
"""
RATIOS = """
## Beside named references

Written by `python -m benchmarks.run`: CPU seconds of one thread, least over rounds in which all
candidates take turns; `benchmarks/README.md` says what each line contains. {machine}.

"""


def page() -> str:
    text = HEAD + "\n".join(_goals()) + "\n" + GROWTH + "\n".join(map(_curve, growth.kept())) + "\n"
    return text + _sources() + RATIOS.format(machine=results.read("machine")["lines"]) + run.table()


def draw(folder: Path) -> None:
    """The page's figure."""
    growth.draw(folder / "growth.svg")


def _goals() -> Iterator[str]:
    """A line for each work of which something was asked."""
    kept, lines = results.read(works.PART), results.read(run.PART)
    for name, (what, start, goal) in WORK_GOALS.items():
        yield _line(what, start, goal, kept.get(name, {}))
    for what, (start, goal) in LINE_GOALS.items():
        row = Row(**lines[what])
        found = {"seconds": row.seconds, "reference": row.reference_seconds}
        yield _line(what, start, goal, found, row.reference.partition(",")[0])
    for size, places in results.read(BOOSTED_PART).items():
        for place, (start, goal) in BOOSTED_GOALS.items():
            found = {**places.get(place, {}), "reference": places["memory"]["seconds"]}
            what = f"default boosted fit, {size} x 30: {PLACES[place][0]}"
            yield _line(what, start, goal, found, "rows in memory")
    for name, far in results.read("network").items():
        if name.startswith("latency:"):
            what = f"default boosted fit, 3 sites, {far['latency']:g} ms there and back"
            rounds = f"{far['default_rounds']} rounds, {far['default_exchanges']} exchanges"
            start = "106 rounds, 212 exchanges"
            yield f"| {what} | {start} | {rounds}, {far['default']:.1f} s | | | 26 rounds |"
    image = results.read("containers")
    size = f"{image['image'] - image['base']:.0f} MB"
    yield f"| environment of a site (its image without Python's) | 735 MB | {size} | | | 450 MB |"


def _line(what: str, start: str, goal: str, found: dict[str, Any], beside: str = "") -> str:
    theirs, ratio = found.get("reference"), found.get("ratio")
    if theirs and "seconds" in found:
        ratio = ratio or found["seconds"] / theirs
    reference = f"{_seconds(theirs)} {beside}".rstrip() if theirs else ""
    shown = f"{ratio:.2f}x" if ratio else ""
    return f"| {what} | {start} | {_cell(found)} | {reference} | {shown} | {goal} |"


def _cell(found: dict[str, Any]) -> str:
    if "seconds" not in found:
        return f"fails: {found['failed']}" if "failed" in found else "not measured"
    resident = f", {found['resident_mb']:.0f} MB" if "resident_mb" in found else ""
    return _seconds(found["seconds"]) + resident


def _seconds(seconds: float) -> str:
    return f"{seconds:.2f} s" if seconds >= 1 else f"{1000 * seconds:.3g} ms"


def _sources() -> str:
    """Nothing until something was measured."""
    known = results.read(PART)
    if not known:
        return ""
    head = "".join(f" {size} rows: CPU, beside, peak |" for size in SIZES)
    lines = [
        f"| {what} |" + "".join(f" {_place(known.get(size, {}).get(place))} |" for size in SIZES)
        for place, (what, _) in PLACES.items()
    ]
    text = SOURCES.format(columns=COLUMNS, head=head, line="---|" * len(SIZES))
    return text + "\n".join(lines) + "\n" + _boosted_sources()


def _boosted_sources() -> str:
    """A boosted fit wherever rows are: CPU of all processes, as a ratio to memory in one run."""
    known = results.read(BOOSTED_PART)
    if not known:
        return ""
    head = "".join(f" {size} rows: ratio, CPU, beside, peak |" for size in known)
    lines = [
        f"| {what} |" + "".join(f" {_ratio(known[size].get(place))} |" for size in known)
        for place, (what, _) in PLACES.items()
        if any(place in found for found in known.values())
    ]
    title = "\nA default boosted classifier, CPU of all processes by that of rows in memory:\n\n"
    return title + f"| rows |{head}\n|---|{'---|' * len(known)}\n" + "\n".join(lines) + "\n"


def _ratio(found: dict[str, Any] | None) -> str:
    ratio = "" if found is None or "ratio" not in found else f"{found['ratio']:.2f}, "
    return ratio + _place(found)


def _place(found: dict[str, Any] | None) -> str:
    if found is None:
        return "not measured"
    if "failed" in found:
        return f"fails: {found['failed']}"
    beside = _seconds(found["beside_seconds"]) if found["beside_seconds"] > 0.01 else "-"
    return f"{_seconds(found['seconds'])}, {beside}, {found['peak_mb']:.0f} MB"


def _curve(curve: growth.Curve) -> str:
    sizes = ", ".join(f"{size:,}" for size in curve.sizes)
    seconds = ", ".join(f"{second:.3g}" for second in curve.seconds)
    return f"| {curve.grows} | {curve.work} | {sizes} | {seconds} | {curve.exponent:.2f} |"
