"""What holds of a paper's claims, judged by differences of pairs: the first table of a page."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pandas as pd

from studies.measures import CONFIDENCE, student
from studies.pages import markdown_table

HOLDS, FAILS, OPEN, NOT_RUN = "holds", "does not hold", "open", "not run"
NOTHING = "-"
THEIRS, RELEASED, PUBLISHED, OURS = "theirs", "as released", "as published", "ours"
COLUMNS = (THEIRS, RELEASED, PUBLISHED, OURS)
"""By what a claim is judged: the authors' program, its behavior or its paper's here, and ours."""
ABSTRACT = "abstract"
"""How the place of a claim begins that the paper's abstract makes."""


@dataclass(frozen=True)
class Claim:
    """A claim, where the paper makes it, and the leads that it is judged by.

    By place; one place has no name. Verdicts are those of the leads if no others are `judged`.
    """

    says: str
    where: str
    leads: Mapping[str, Lead]
    words: str = ""
    """What the numbers are."""
    judged: Mapping[str, str] | None = None
    told: str | None = None
    """All that is said of the numbers, if not `words` and the leads."""
    authors: str = NOTHING
    """What is known of the authors' own code beside `program`."""
    program: Mapping[str, Lead] = field(default_factory=dict)
    """The same numbers by the authors' own program, where it was run (`studies/authors.py`)."""
    slack: float = 0.0
    """By how much a lead may be below zero for the claim to hold."""
    decimals: int = 3
    column: str = PUBLISHED

    @property
    def verdicts(self) -> Mapping[str, str]:
        return self._verdicts(self.leads) if self.judged is None else self.judged

    @property
    def verdict(self) -> str:
        return joined(self.verdicts)

    @property
    def of_program(self) -> dict[str, str]:
        """Verdicts of the authors' program by place."""
        return self._verdicts(self.program)

    def _verdicts(self, leads: Mapping[str, Lead]) -> dict[str, str]:
        return {k: replace(gap, mean=gap.mean + self.slack).verdict for k, gap in leads.items()}

    @property
    def numbers(self) -> str:
        if self.told is not None:
            return self.told
        numbers = listed(self.leads, self.decimals)
        return f"{self.words}: {numbers}" if self.words and numbers else numbers

    @property
    def by_program(self) -> str:
        """Verdict and numbers of the authors' program."""
        said = [self.authors] if self.authors != NOTHING else []
        if self.program:
            numbers = listed(self.program, self.decimals)
            said.insert(0, f"**{joined(self.of_program)}**: {numbers}")
        return "; ".join(said) or NOTHING


@dataclass(frozen=True)
class Lead:
    """Mean of paired differences, its standard error by the sample deviation, and their number."""

    mean: float
    error: float
    n: int
    unit: str = "pairs"

    @property
    def is_clear(self) -> bool:
        return self.n > 1 and abs(self.mean) > student(self.n) * self.error

    @property
    def verdict(self) -> str:
        """Of the claim that the mean is above zero."""
        if self.n == 0:
            return NOT_RUN
        if not self.is_clear:
            return OPEN
        return HOLDS if self.mean > 0.0 else FAILS

    def within(self, margin: float) -> str:
        """Verdict on the claim that the mean is no further from zero than a margin."""
        if self.n == 0:
            return NOT_RUN
        if self.n == 1:
            return OPEN
        scatter = student(self.n) * self.error
        if abs(self.mean) + scatter <= margin:
            return HOLDS
        return FAILS if abs(self.mean) - scatter > margin else OPEN

    @property
    def range(self) -> tuple[float, float]:
        """Where the true mean is, by Student's t; one pair says nothing."""
        scatter = student(self.n) * self.error if self.n > 1 else math.inf
        return self.mean - scatter, self.mean + scatter

    def shown(self, decimals: int = 3, times: float = 1.0) -> str:
        if self.n == 0:
            return NOTHING
        if self.n == 1:
            return f"{times * self.mean:+.{decimals}f} (one pair)"
        return (
            f"{times * self.mean:+.{decimals}f} ± {times * self.error:.{decimals}f} "
            f"({self.n} {self.unit})"
        )


def lead(differences: Any) -> Lead:
    values = pd.Series(differences, dtype=float).dropna()
    n = len(values)
    if n == 0:
        return Lead(math.nan, math.nan, 0)
    return Lead(float(values.mean()), float(values.std(ddof=1)) / math.sqrt(n), n)


def clustered(values: pd.Series, draw: Sequence[str], unit: str = "draws") -> Lead:
    """Pairs of one draw of rows are one cluster: its mean counts once."""
    if values.empty:
        return lead([])
    means = values.dropna().groupby(list(draw)).mean()
    return replace(lead(means), unit=unit)


def in_short(verdicts: Mapping[str, str]) -> str:
    """Verdicts of several places counted: holds 3/4, fails 1/4."""
    found = [verdict for verdict in verdicts.values() if verdict != NOT_RUN]
    words = {HOLDS: "holds", FAILS: "fails"}
    if len(set(found)) <= 1:
        return words.get(found[0], found[0]) if found else NOT_RUN
    counts = [f"{word} {found.count(v)}/{len(found)}" for v, word in words.items() if v in found]
    return ", ".join(counts) or OPEN


def by_place(leads: Mapping[str, Lead]) -> dict[str, str]:
    return {name: found.verdict for name, found in leads.items()}


def where_it_holds(leads: Mapping[str, Lead]) -> str:
    return joined(by_place(leads))


def joined(verdicts: Mapping[str, str]) -> str:
    """One verdict over several places: holds in all, in none, or only in those that are named."""
    groups: dict[str, list[str]] = {}
    for name, verdict in verdicts.items():
        groups.setdefault(verdict, []).append(name)
    groups.pop(NOT_RUN, None)
    if not groups:
        return NOT_RUN
    if len(groups) == 1:
        return next(iter(groups))
    if HOLDS not in groups:
        return f"{FAILS} for {', '.join(groups[FAILS])}; {OPEN} for {', '.join(groups[OPEN])}"
    rest = [f"{word} for {', '.join(names)}" for word, names in groups.items() if word != HOLDS]
    return f"holds only for {', '.join(groups[HOLDS])}; {'; '.join(rest)}"


def listed(leads: Mapping[str, Lead], decimals: int = 3, times: float = 1.0) -> str:
    shown = {name: found.shown(decimals, times) for name, found in leads.items()}
    return "; ".join(f"{name}: {numbers}" if name else numbers for name, numbers in shown.items())


def section(claims: Sequence[Claim]) -> str:
    """The claims as a table, with the words that explain it."""
    rows = [
        {
            "claim": claim.says,
            "where": claim.where,
            "judged": claim.column,
            "verdict": f"**{claim.verdict}**",
            "numbers": claim.numbers or NOTHING,
            "the authors' program": claim.by_program,
        }
        for claim in claims
    ]
    return (
        "## What holds of the paper's claims\n\n"
        "± is a standard error (sample deviation over the root of the number of pairs). A claim "
        f"holds, or does not, where Student's t at {CONFIDENCE:.0%} says so, both sides; else it "
        "is open. Pairs of one draw of rows are one cluster where draws or splits are counted. "
        "What the authors' own program gives on the same splits is quoted; `studies/authors.py` "
        f"names repositories and commits. {by_chance(claims)}\n\n"
        + markdown_table(pd.DataFrame(rows))
    )


def by_chance(claims: Sequence[Claim]) -> str:
    """How many of these comparisons would look clear if nothing were there."""
    n = sum(len(claim.leads) for claim in claims)
    return (
        f"Of {n} comparisons at {CONFIDENCE:.0%} about {(1 - CONFIDENCE) * n:.0f} would look clear "
        "by chance alone; no allowance is made for that."
    )
