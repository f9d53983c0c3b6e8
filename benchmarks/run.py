"""Runs the benchmarks, prints their table and writes it to results.md.

python -m benchmarks.run              all of them, a few minutes
python -m benchmarks.run noise masks  some of them; results.md keeps its other lines
"""

from __future__ import annotations

import os
import platform
import sys
from importlib import import_module
from pathlib import Path

from benchmarks.timing import Row
from hedgerow.kernels.warming import warm

NAMES = ("kernels", "predict", "noise", "masks", "guards", "cold_start", "ours")
RESULTS = Path(__file__).with_name("results.md")
HEADER = (
    "| work | CPU s | reference | CPU s | ratio | target | met |",
    "|---|---|---|---|---|---|---|",
)


def main(names: tuple[str, ...]) -> None:
    measured = []
    warm()
    print(*HEADER, sep="\n", flush=True)
    for name in names or NAMES:
        for row in import_module(f"benchmarks.bench_{name}").rows():
            measured.append(line(row))
            print(measured[-1], flush=True)
    kept = kept_lines(RESULTS.read_text()) if names and RESULTS.exists() else []
    lines = [*preamble(), *HEADER, *merged(kept, measured), ""]
    RESULTS.write_text("\n".join(lines))


def kept_lines(page: str) -> list[str]:
    """The lines of the table, without its header."""
    return [text for text in page.splitlines() if text.startswith("|")][len(HEADER) :]


def merged(kept: list[str], measured: list[str]) -> list[str]:
    """Lines about the same work are replaced in their place; new ones come last."""
    table = {text.split("|")[1]: text for text in kept}
    return list({**table, **{text.split("|")[1]: text for text in measured}}.values())


def line(row: Row) -> str:
    ours, theirs = seconds(row.seconds), seconds(row.reference_seconds)
    ratio = f"{row.ratio:.3g}"
    return (
        f"| {row.work} | {ours} | {row.reference} | {theirs} | {ratio} | {row.target} | {row.met} |"
    )


def seconds(number: float) -> str:
    return f"{number:.4f}" if number >= 1e-3 else f"{number:.2g}"


def preamble() -> list[str]:
    load = ", ".join(f"{part:.1f}" for part in os.getloadavg())
    return [
        "# Benchmark results",
        "",
        "Written by `python -m benchmarks.run`. CPU seconds of one thread, least over rounds in",
        "which all candidates take turns; README.md says what each line contains.",
        "",
        f"Python {platform.python_version()}, {platform.machine()}, {os.cpu_count()} CPUs, "
        f"load average at the end {load}.",
        "",
    ]


if __name__ == "__main__":
    main(tuple(sys.argv[1:]))
