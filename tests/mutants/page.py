"""The table of mutants, as docs/mutants.md shows it, and the verdicts that it is made of."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from itertools import groupby
from pathlib import Path
from typing import Final

from mutants.bench import SECONDS, Verdict
from mutants.mutant import Mutant

VERDICTS: Final = Path(__file__).with_name("verdicts.csv")

HEAD: Final = """# Planted mutants

For reviewers who ask what the tests would notice.

Made of the verdicts of `make mutants`, which plants each mistake below in a copy of the source,
alone, and runs the test named beside it. A mutant is caught if that test, which passes on the sound
source, fails within {seconds:.0f} seconds by its own judgment or by one of the package's own
refusals; a mistake that does not even import is not counted. `make test-all` runs it too.

{mutants} mutants, {caught} caught, {survived} survived.
"""


def keep(verdicts: Sequence[Verdict]) -> None:
    """One line a mutant, by file: no times, no order of arrival."""
    ordered = sorted(verdicts, key=lambda one: (one.mutant.path.split("/")[0], one.mutant.path))
    with VERDICTS.open("w", newline="", encoding="utf-8") as lines:
        writer = csv.writer(lines, lineterminator="\n")
        writer.writerow(("words", "path", "test", "caught"))
        writer.writerows((*_of(one.mutant), "yes" if one.caught else "no") for one in ordered)


def _of(mutant: Mutant) -> tuple[str, str, str]:
    return mutant.words, mutant.path, mutant.test


def kept() -> list[Verdict]:
    """What the last whole run said of every mutant."""
    with VERDICTS.open(newline="", encoding="utf-8") as lines:
        return [
            Verdict(Mutant(r["words"], r["path"], "", "", r["test"]), r["caught"] == "yes", "", 0.0)
            for r in csv.DictReader(lines)
        ]


def page(verdicts: Sequence[Verdict]) -> str:
    """The same text for the same verdicts: no times, no order of arrival."""
    caught = sum(verdict.caught for verdict in verdicts)
    head = HEAD.format(
        seconds=SECONDS, mutants=len(verdicts), caught=caught, survived=len(verdicts) - caught
    )
    ordered = sorted(verdicts, key=lambda one: (one.mutant.path.split("/")[0], one.mutant.path))
    rooms = groupby(ordered, key=lambda one: one.mutant.path.split("/")[0])
    return "\n".join([head, *(_table(room, list(group)) for room, group in rooms)])


def _table(room: str, verdicts: Sequence[Verdict]) -> str:
    lines = [f"## {room}", "", "| mutant | file | the test that sees it |", "|---|---|---|"]
    return "\n".join([*lines, *map(_row, verdicts), ""])


def _row(verdict: Verdict) -> str:
    mutant = verdict.mutant
    words = mutant.words if verdict.caught else f"**{mutant.words} (survived)**"
    return f"| {words} | `{mutant.path}` | `{mutant.test}` |"
