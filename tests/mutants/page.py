"""The table of slips, as docs/mutants.md shows it, and the verdicts that it is made of."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from itertools import groupby
from pathlib import Path
from typing import Final

from mutants.bench import SECONDS, Verdict
from mutants.slip import Slip

VERDICTS: Final = Path(__file__).with_name("verdicts.csv")

HEAD: Final = """# Planted slips

For reviewers who ask what the tests would notice.

Made of the verdicts of `make mutants`, which plants each mistake below in a copy of the source,
alone, and runs the test named beside it. A slip is caught if that test, which passes on the sound
source, fails within {seconds:.0f} seconds by its own judgement or by one of the package's own
refusals; a mistake that does not even import is not counted. `make test-all` runs it too.

{slips} slips, {caught} caught, {survived} survived.
"""


def keep(verdicts: Sequence[Verdict]) -> None:
    """One line a slip, by file: no times, no order of arrival."""
    ordered = sorted(verdicts, key=lambda one: (one.slip.path.split("/")[0], one.slip.path))
    with VERDICTS.open("w", newline="", encoding="utf-8") as lines:
        writer = csv.writer(lines, lineterminator="\n")
        writer.writerow(("words", "path", "test", "caught"))
        writer.writerows((*_of(one.slip), "yes" if one.caught else "no") for one in ordered)


def _of(slip: Slip) -> tuple[str, str, str]:
    return slip.words, slip.path, slip.test


def kept() -> list[Verdict]:
    """What the last whole run said of every slip."""
    with VERDICTS.open(newline="", encoding="utf-8") as lines:
        return [
            Verdict(Slip(r["words"], r["path"], "", "", r["test"]), r["caught"] == "yes", "", 0.0)
            for r in csv.DictReader(lines)
        ]


def page(verdicts: Sequence[Verdict]) -> str:
    """The same text for the same verdicts: no times, no order of arrival."""
    caught = sum(verdict.caught for verdict in verdicts)
    head = HEAD.format(
        seconds=SECONDS, slips=len(verdicts), caught=caught, survived=len(verdicts) - caught
    )
    ordered = sorted(verdicts, key=lambda one: (one.slip.path.split("/")[0], one.slip.path))
    rooms = groupby(ordered, key=lambda one: one.slip.path.split("/")[0])
    return "\n".join([head, *(_table(room, list(group)) for room, group in rooms)])


def _table(room: str, verdicts: Sequence[Verdict]) -> str:
    lines = [f"## {room}", "", "| slip | file | the test that sees it |", "|---|---|---|"]
    return "\n".join([*lines, *map(_row, verdicts), ""])


def _row(verdict: Verdict) -> str:
    slip = verdict.slip
    words = slip.words if verdict.caught else f"**{slip.words} (survived)**"
    return f"| {words} | `{slip.path}` | `{slip.test}` |"
