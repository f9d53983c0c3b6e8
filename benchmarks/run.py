"""Runs the benchmarks, prints their table and writes it to results.md.

python -m benchmarks.run              all of them, a few minutes
python -m benchmarks.run noise masks  some of them; results.md stays as it is
"""

from __future__ import annotations

import os
import platform
import sys
from importlib import import_module
from pathlib import Path

from benchmarks.timing import Row

NAMES = ("kernels", "noise", "masks", "cold_start", "ours")
RESULTS = Path(__file__).with_name("results.md")
HEADER = (
    "| work | CPU s | reference | CPU s | ratio | target | met |",
    "|---|---|---|---|---|---|---|",
)


def main(names: tuple[str, ...]) -> None:
    lines = list(HEADER)
    print(*lines, sep="\n", flush=True)
    for name in names or NAMES:
        for row in import_module(f"benchmarks.bench_{name}").rows():
            lines.append(line(row))
            print(lines[-1], flush=True)
    if not names:
        RESULTS.write_text("\n".join([*preamble(), *lines, ""]))


def line(row: Row) -> str:
    ours, theirs = f"{row.seconds:.4f}", f"{row.reference_seconds:.4f}"
    ratio = f"{row.ratio:.3g}"
    return (
        f"| {row.work} | {ours} | {row.reference} | {theirs} | {ratio} | {row.target} | {row.met} |"
    )


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
