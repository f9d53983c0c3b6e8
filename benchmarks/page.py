"""The full page of speed: ratios to references, works before and after, and how cost grows.

No number is typed but those of `AT_THE_START`, by code that is gone.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from benchmarks import growth, results, run
from benchmarks.sources import BOOSTED_PART, COLUMNS, PART, PLACES
from benchmarks.sources import USUAL_SIZES as SIZES
from benchmarks.works import WORKS

HEAD = """# Speed and memory

For engineers and data scientists with many rows.

Written by `make docs` from `benchmarks/results.json`. Every work ran in a process of its own, on
one thread, with all loops compiled before, but for the line on first use. CPU seconds, because
machines are shared; a reference ran in the same process. *At the start* is what was measured when
the goals were set, on a loaded machine. *Before* is a later tree, which had reached some of them,
and which ran the same works: `python -m benchmarks.works before --source DIR`. A shared machine
slows CPU seconds down too, by up to two times: a ratio to a reference says more, and a line without
one is rough.

| work | at the start | before | after | reference | after / reference | goal |
|---|---|---|---|---|---|---|
"""
AT_THE_START = {
    "boosted_million": "48 s",
    "boosted_100_columns": "+1.3 GB",
    "boosted_300_columns": "MemoryError",
    "one_row": "14 ms",
    "model_file": "27 ms, 538 kB",
    "extra_trees_classes": "21 s",
    "extra_trees_million_numbers": "over 60 s",
    "median_forest": "4.4 s",
    "best_first": "13 s",
    "site_names": "3.2 s",
    "first_use": "8-14 s",
    "thousand_sites": "25 minutes, estimated",
}
"""Typed: the code that took so long is no part of any tree that could run the works."""
AFTER_THE_WORKS = """
Two more goals have lines elsewhere. Ten million rows of a Parquet file, goal 1.2 GB and 12 CPU
seconds, are in the next table, for a `HistogramTreeClassifier`. Wide noise, goal 10 times the
random words it needs, is a line of the table at the end.
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
GROWTH = """
## How cost grows

Written by `python -m benchmarks.growth`: CPU seconds over a range of sizes, and the exponent of the
power that fits them best (1 is in proportion). Small sizes have fixed costs in them, which makes an
exponent smaller.

![CPU seconds over size](growth.svg)

| what grows | work | sizes | CPU s | exponent |
|---|---|---|---|---|
"""


RATIOS = """
## Beside named references

Written by `python -m benchmarks.run`: CPU seconds of one thread, least over rounds in which all
candidates take turns; `benchmarks/README.md` says what each line contains. {machine}.

"""


def page() -> str:
    before, after = results.read("before"), results.read("after")
    lines = [_line(name, before.get(name, {}), after.get(name, {})) for name in WORKS]
    text = HEAD + "\n".join(lines) + "\n" + AFTER_THE_WORKS + _sources() + _growth()
    return text + RATIOS.format(machine=results.read("machine")["lines"]) + run.table()


def draw(folder: Path) -> None:
    """The page's figure."""
    growth.draw(folder / "growth.svg")


def _line(name: str, before: dict[str, Any], after: dict[str, Any]) -> str:
    what, goal, _ = WORKS[name]
    theirs = after.get("reference")
    ratio = f"{after['seconds'] / theirs:.2f}" if theirs and "seconds" in after else ""
    reference = _reference(after) if theirs else ""
    start = AT_THE_START.get(name, "")
    return (
        f"| {what} | {start} | {_cell(before)} | {_cell(after)} | {reference} | {ratio} | {goal} |"
    )


def _cell(found: dict[str, Any]) -> str:
    if not found:
        return "not measured"
    if "failed" in found:
        return str(found["failed"])
    words = [_seconds(found["seconds"])]
    if "kb" in found:
        words.append(f"{found['kb']:.0f} kB")
    if found.get("more_mb"):
        words.append(f"+{found['more_mb']:.0f} MB")
    return ", ".join(words)


def _reference(found: dict[str, Any]) -> str:
    size = f", {found['reference_kb']:.0f} kB" if "reference_kb" in found else ""
    return _seconds(found["reference"]) + size


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


def _growth() -> str:
    return GROWTH + "\n".join(map(_curve, growth.kept())) + "\n"


def _curve(curve: growth.Curve) -> str:
    sizes = ", ".join(f"{size:,}" for size in curve.sizes)
    seconds = ", ".join(f"{second:.3g}" for second in curve.seconds)
    return f"| {curve.grows} | {curve.work} | {sizes} | {seconds} | {curve.exponent:.2f} |"
