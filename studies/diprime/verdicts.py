"""What the tables of the median forests say: ours beside the paper's numbers and beside rivals."""

from __future__ import annotations

import math
from typing import NamedTuple

import pandas as pd

from studies.diprime.data import MOST_ROWS, REGRESSION, TRAIN_PART
from studies.diprime.paper import SETS, best_variant
from studies.measures import student
from studies.pages import markdown_table

TIMES = {name: times for name, times in SETS.items() if times > 1.0}
"""The paper's units of the mean squared error."""
RIVALS = ("DP-RF", "DP-DF", "DP-ERT", "diffprivlib forest")
PEER = "diffprivlib forest"
ROUNDING = 5e-4
"""Of an accuracy as the paper prints it."""


def scaled(name: str, mean: float, deviation: float | None = None) -> str:
    """In the paper's units."""
    times = TIMES.get(name, 1.0)
    digits = 2 if name in TIMES else 3
    shown = f"{times * mean:.{digits}f}"
    return shown if deviation is None else f"{shown} ± {times * deviation:.{digits}f}"


def scores(table: pd.DataFrame, name: str, method: str) -> pd.Series[float]:
    """By split."""
    mine = table[(table.data == name) & (table.method == method)]
    return mine.set_index("seed").score


# ------------------------------------------------------------------------------ against the paper
def against_paper(table: pd.DataFrame, names: tuple[str, ...]) -> str:
    """Per set: is ours no worse than the paper's best, give or take its deviation?"""
    lines = []
    for name in names:
        mine = scores(table, name, "ours")
        if not len(mine) or name in MOST_ROWS:  # a stand-in is no comparison
            continue
        paper = scaled(name, *best_variant(name))
        lines.append(
            f"- {name}: ours is {_word(name, float(mine.mean()))} the paper's best, {paper}."
        )
    return "\n".join(lines) + "\n"


def _word(name: str, mean: float) -> str:
    paper, deviation = best_variant(name)
    ahead = paper - mean if name in REGRESSION else mean - paper
    if ahead > 0:
        return "better than"
    within = ahead >= -max(deviation, 0.0 if name in REGRESSION else ROUNDING)
    return "as good, within the paper's deviation, as" if within else "**worse** than"


# ----------------------------------------------------------------------------- against the rivals
class Lead(NamedTuple):
    """Mean lead of ours over a rival on the same splits, and how far it is known.

    In accuracy, or in squared error that ours does not make.

    `error` is half of a 95 % interval for new rows of the same kind, by Student's law with the
    variance of Nadeau and Bengio 2003: splits of one set share rows, so n of them tell less than
    n samples would. `plain` is that of a paired t-test, which speaks of divisions of these very
    rows alone.
    """

    mean: float
    error: float
    plain: float
    splits: int

    @property
    def word(self) -> str:
        if self.mean <= 0:
            return "**behind**"
        return "ahead" if self.mean > self.error else "ahead, **not established**"


def lead(table: pd.DataFrame, name: str, rival: str) -> Lead | None:
    """None where the two share fewer than two splits."""
    both = pd.concat([scores(table, name, "ours"), scores(table, name, rival)], axis=1).dropna()
    n = len(both)
    if n < 2:
        return None
    ahead = (both.iloc[:, 0] - both.iloc[:, 1]) * (-1 if name in REGRESSION else 1)
    wide = student(n) * float(ahead.std(ddof=1))
    shared = (1 - TRAIN_PART) / TRAIN_PART
    return Lead(float(ahead.mean()), wide * math.sqrt(1 / n + shared), wide / math.sqrt(n), n)


def against_rivals(table: pd.DataFrame, names: tuple[str, ...]) -> str:
    """A table of leads, and in words where ours is not ahead."""
    there = [n for n in names if n in set(table.data)]
    leads = {
        (rival, name): found
        for rival in RIVALS
        for name in there
        if (found := lead(table, name, rival)) is not None
    }
    if not leads:
        return "One split: nothing is established.\n"
    rivals = list(dict.fromkeys(rival for rival, _ in leads))
    lines = [[r, *(_shown(n, leads.get((r, n))) for n in there)] for r in rivals]
    shown = markdown_table(pd.DataFrame(lines, columns=["lead over", *there]))
    return f"{shown}\n{_in_words(leads)}"


def _shown(name: str, found: Lead | None) -> str:
    if found is None:
        return ""
    plain = scaled(name, found.plain)
    return f"{scaled(name, found.mean, found.error)} ({plain}), {found.word}"


def _in_words(leads: dict[tuple[str, str], Lead]) -> str:
    """Where ours is behind, and where its lead may be chance."""
    lost = [f"{n} against {r}" for (r, n), found in leads.items() if found.mean <= 0]
    unsure = {k: lead for k, lead in leads.items() if 0 < lead.mean <= lead.error}
    said = [f"Ours is ahead in {len(leads) - len(lost)} of {len(leads)} cells"]
    if lost:
        said.append(f"**not** in: {'; '.join(lost)}")
    if unsure:
        said.append(f"ahead but **not established** in: {_named(unsure)}")
    elif not lost:
        said.append("and each lead is larger than its error")
    return "; ".join(said) + ".\n"


def _named(leads: dict[tuple[str, str], Lead]) -> str:
    """The cells, and whether a test about these very rows would call the lead one."""
    return "; ".join(
        f"{n} against {r} ({'though' if lead.mean > lead.plain else 'nor'} by the plain t-test)"
        for (r, n), lead in leads.items()
    )
