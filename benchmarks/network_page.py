"""The page of rounds between processes, from what `bench_network` measured."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from benchmarks import results

MOST_RATIO, MOST_OF_BOOSTING = 2.0, 1.5
HEAD = """\
# What a round costs between processes

For engineers who plan a study.

Written by `python -m benchmarks.bench_network`. All processes on one machine ({machine}); each site
has 1,000 rows and a store on disk, the coordinator a journal. The echo sends as many bytes through
the same transport to the same processes and back. CPU seconds are those of all processes together,
FLARE's and Flower's own among them, means of several turns. Wall seconds are medians on a machine
that others use too, and rough, the more so with more processes than cores: thirty sites over FLARE
are 90. So the goal is held against CPU: at most {ratio:g} times the echo.
[The page of rounds](design/rounds.md) says where the rest goes.

"""
COLUMNS = (
    *("transport", "sites", "integers", "sends B", "gets B", "round s", "echo s"),
    *("round CPU", "echo CPU", "ratio", "goal"),
)
BOOSTING = """
## A whole model

The default `BoostedTreesClassifier` over three site processes by HTTPS took {rounds} rounds. The
goal is at most {most:g} times one process, plus as many echoes.

| | wall s | CPU s |
|---|---|---|
| one process | {alone:.2f} | {alone_cpu:.2f} |
| {rounds} echoes | {echoes:.2f} | {echoes_cpu:.2f} |
| three sites | {together:.2f} | {together_cpu:.2f} |
| {most:g} x one process + echoes | {goal:.2f} | {goal_cpu:.2f} |
| goal | {met} | {met_cpu} |
"""
LATENCY = """
## Far away

The same model, when every site calls through a TCP proxy that delays: latency is milliseconds there
and back. By default trees share rounds over several sites; `trees_per_round=1` is one tree a round.
Seconds are wall time of one run each, with the work of four processes on this machine.

| latency ms | rounds | s | rounds, one tree a round | s |
|---|---|---|---|---|
"""
RAISE = """
A round waits for the slowest site once (twice where a site may be lost and the retry budget cannot
pay for a repetition). `hedgerow study check --latency 40` and `hedgerow plan --sites 5 --latency
40` say rounds, round trips and seconds beforehand. Raise `max_rounds` (26 rounds by default) where
sites are close to each other; lower it, down to about a dozen, where they are far apart or people
have to let every message pass.
"""
MEMORY = """
## Memory of a site

`hedgerow site serve` with one study of boosted trees on {rows:,} rows and {columns} columns, read
from a Parquet file of {file:.0f} MB: {resident:.0f} MB resident once it serves, {highest:.0f} MB at
the highest while it read.
"""


def page() -> str:
    parts = results.read("network")
    text = HEAD.format(machine=parts["machine"], ratio=MOST_RATIO)
    text += "".join(map(_row, (COLUMNS, ["---"] * len(COLUMNS), *_rounds(parts))))
    if "boosting" in parts:
        text += _boosting(parts["boosting"])
    far = [parts[name] for name in parts if name.startswith("latency:")]
    if far:
        text += LATENCY + "".join(map(_far, sorted(far, key=lambda one: one["latency"]))) + RAISE
    if "memory" in parts:
        found = parts["memory"]
        sizes = {name: found[name] / 1e6 for name in ("resident", "highest")}
        text += MEMORY.format(
            rows=found["rows"], columns=found["columns"], file=found["file_bytes"] / 1e6, **sizes
        )
    return text


def _far(one: Mapping[str, Any]) -> str:
    cells = (one["default_rounds"], one["default"], one["single_rounds"], one["single"])
    return _row((f"{one['latency']:g}", *(f"{n:.1f}" if k % 2 else n for k, n in enumerate(cells))))


def _row(cells: Iterable[Any]) -> str:
    return f"| {' | '.join(map(str, cells))} |\n"


def _rounds(parts: Mapping[str, Any]) -> Iterator[tuple[Any, ...]]:
    lines = [line for found in parts.values() if isinstance(found, list) for line in found]
    for one in sorted(lines, key=_order):
        ratio = one["round_cpu"] / one["echo_cpu"]
        yield (
            one["transport"], one["sites"], one["integers"], one["bytes_out"], one["bytes_in"],
            f"{one['round']:.3f}", f"{one['echo']:.3f}", f"{one['round_cpu']:.3f}",
            f"{one['echo_cpu']:.3f}", f"{ratio:.1f}", "met" if ratio <= MOST_RATIO else "NO",
        )  # fmt: skip


def _order(line: Mapping[str, Any]) -> tuple[Any, ...]:
    return line["transport"] != "HTTPS", line["transport"], line["sites"], line["integers"]


def _boosting(found: Mapping[str, Any]) -> str:
    goal = MOST_OF_BOOSTING * found["alone"] + found["echoes"]
    goal_cpu = MOST_OF_BOOSTING * found["alone_cpu"] + found["echoes_cpu"]
    return BOOSTING.format(
        most=MOST_OF_BOOSTING,
        goal=goal,
        goal_cpu=goal_cpu,
        met="met" if found["together"] <= goal else "NO",
        met_cpu="met" if found["together_cpu"] <= goal_cpu else "NO",
        **found,
    )
