"""A number that is quoted, with all that says where it is from: a line of docs/evidence.json."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import Any

import pandas as pd

from studies import authors
from studies.claims import Claim, Lead, in_short, lead
from studies.harness import CODE
from studies.kept import ROOT, archived

FILE = ROOT / "docs" / "evidence.json"
DIGITS = 5
"""Of a value that is kept: more than any page shows."""
VERDICT, PROGRAM = "verdict", "by the authors' program"
"""The units of entries whose value is what holds of a claim, in words: here, and there."""


@dataclass(frozen=True)
class Entry:
    """`id` is page / subject / place; `low` and `high` are the ends of the 95% interval."""

    id: str
    value: float | str
    low: float | None
    high: float | None
    n: int
    unit: str
    study: str
    table: str
    code: str
    command: str

    @property
    def parts(self) -> list[str]:
        return self.id.split(" / ")

    @property
    def is_clear(self) -> bool:
        """Whether the interval leaves zero out."""
        return self.low is not None and self.high is not None and self.low * self.high > 0.0


@dataclass(frozen=True)
class Source:
    """Where numbers are from: a table of an archive, and the command that computed it."""

    study: str
    table: str
    command: str

    def entry(
        self, name: Sequence[str], value: float | str, unit: str, n: int, *ends: float
    ) -> Entry:
        low, high = (rounded(end) for end in ends) if ends else (None, None)
        kept = value if isinstance(value, str) else rounded(value)
        assert kept is not None, f"{name} has no value"
        code = codes(self.study, self.table)
        return Entry(
            " / ".join(name), kept, low, high, n, unit, self.study, self.table, code, self.command
        )

    def mean(self, name: Sequence[str], values: Any, unit: str) -> Entry:
        found = lead(values)
        return self.lead(name, found, unit)

    def lead(self, name: Sequence[str], found: Lead, unit: str) -> Entry:
        return self.entry(name, found.mean, unit, found.n, *found.range)

    def claim(self, page: str, claim: Claim, unit: str) -> Iterable[Entry]:
        """The verdict, and the numbers behind it place by place."""
        subject = (page, f"{claim.says} [{claim.where}]")
        n = sum(found.n for found in claim.leads.values())
        yield self.entry(subject, claim.verdict, VERDICT, n)
        for place, found in claim.leads.items():
            yield self.lead((*subject, place or "all"), found, unit)
        if claim.program:
            n = sum(found.n for found in claim.program.values())
            quoted = Source(authors.STUDY, page, f"quoted: {authors.PROGRAMS[page]}")
            yield quoted.entry((*subject, PROGRAM), in_short(claim.program), PROGRAM, n)


def rounded(value: float) -> float | None:
    """To some digits, the same on every machine; what is not finite is no number."""
    return float(f"{value:.{DIGITS}g}") if math.isfinite(value) else None


@cache
def codes(study: str, tables: str) -> str:
    """Digests of the code that made a study's tables, the commonest first; none for benchmarks.

    Eight digits of each, and of three at most: the archive has all of them.
    """
    found = [archived(study).frame(table, dtype=str) for table in tables.split(", ")]
    named = [table[CODE].dropna() for table in found if table is not None and CODE in table]
    return " ".join(code[:8] for code in pd.concat(named).value_counts().index[:3]) if named else ""


def store(entries: Iterable[Entry]) -> None:
    """A line for each, so that a change can be read."""
    lines = (
        json.dumps(asdict(entry), ensure_ascii=False, separators=(",", ":")) for entry in entries
    )
    FILE.write_text("[\n" + ",\n".join(lines) + "\n]\n", encoding="utf-8")


def stored(path: Path = FILE) -> list[Entry]:
    return [Entry(**line) for line in json.loads(path.read_text(encoding="utf-8"))]
