"""The page of `python -m studies learned`, read off its three tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction

import pandas as pd

from studies.harness import Computation
from studies.learned.constants import AND, CLASSES, OF_METHODS, Constant
from studies.learned.differences import Difference, gains, paired
from studies.learned.made import (
    CLASS_NUMBERS,
    FEWEST_COLUMNS,
    LEAST_TRAIN,
    MOST_COLUMNS,
    MOST_TRAIN,
)
from studies.learned.real import REAL
from studies.measures import CONFIDENCE
from studies.ours.tasks import DELTA
from studies.pages import markdown_table, write_page

LearnerKey = tuple[str, str]
NOTHING = "-"


def write(
    computation: Computation,
    tables: Mapping[str, pd.DataFrame],
    found: Mapping[LearnerKey, str],
    command: str,
) -> None:
    judged = {
        learner: on_real(tables.get("judge"), setting, learner)
        for learner, setting in found.items()
    }
    parts = [
        HEAD.format(
            least=LEAST_TRAIN,
            most=MOST_TRAIN,
            few=FEWEST_COLUMNS,
            many=MOST_COLUMNS,
            classes=max(CLASS_NUMBERS),
            epsilons=_listed(sorted(tables["search"]["epsilon"].unique())),
            delta=DELTA,
            confidence=CONFIDENCE,
        ),
        _verdict(judged),
        "## What was learned\n",
        markdown_table(_summary(tables, found, judged)),
        "## Real data, set by set\n\nMean gain over splits and epsilon, with its standard error.\n",
        *(_by_set(goal, judged) for goal in dict.fromkeys(goal for _, goal in OF_METHODS)),
        "## Every constant alone\n\nMean gain on made tasks, with its standard error; **clear** "
        "ones are bold. A constant that a task never meets gains nothing there.\n",
        *(_alone(tables["search"], learner) for learner in OF_METHODS),
    ]
    write_page(computation, "README.md", "Constants that were learned", command, parts)


HEAD = """The constants by which our recipes read noisy answers (shares, shrinkage, smoothing,
gates) were set on a few data sets. Would constants fitted off-line on many made tasks serve
better? Each was tried larger and smaller, alone, on tasks made from seeds; what was clearly better
there was taken together, tried on other made tasks, and judged on real data that the search never
saw. Made tasks have {least:,} to {most:,} rows for training, {few} to {many} columns, two to
{classes} classes or a number (`studies/learned/made.py`).

A gain is in log-loss for classes (how much lower) and in R2 for numbers, at epsilon {epsilons},
one holder, delta {delta:g}. Two fits that are compared have the same rows, draws and noise. Clear
is what Student's t calls so at {confidence:.0%}. On real data errors are those over data sets;
constants would be kept if the mean gain were clear and no data set clearly worse.
"""


def _listed(numbers: Sequence[float]) -> str:
    return ", ".join(f"{number:g}" for number in numbers)


# ------------------------------------------------------------------------------------- real data
def on_real(judge: pd.DataFrame | None, setting: str, learner: LearnerKey) -> dict[str, Difference]:
    """By data set: over its splits and all epsilon."""
    if judge is None or not setting:
        return {}
    method, goal = learner
    is_mine = (judge["method"] == method) & judge["task_name"].isin(REAL[goal])
    pairs = paired(judge[is_mine & judge["setting"].isin(("", setting))])
    return {str(name): Difference.of(rows["gain"]) for name, rows in pairs.groupby("task_name")}


def over_sets(judged: Mapping[str, Difference]) -> Difference:
    return Difference.of(pd.Series([one.mean for one in judged.values()], dtype=float))


def is_kept(judged: Mapping[str, Difference]) -> bool:
    """Clearly better on the mean of all data sets, and on none clearly worse."""
    harmed = any(one.is_worse for one in judged.values())
    return bool(judged) and over_sets(judged).is_better and not harmed


def _verdict(judged: Mapping[LearnerKey, Mapping[str, Difference]]) -> str:
    kept = [" of ".join(learner) for learner, sets in judged.items() if is_kept(sets)]
    tried = sum(bool(sets) for sets in judged.values())
    return (
        f"Of {tried} recipes for which something was learned, to be kept: "
        + (", ".join(kept) or "none")
        + ".\n"
    )


def _by_set(goal: str, judged: Mapping[LearnerKey, Mapping[str, Difference]]) -> str:
    mine = {method: sets for (method, of), sets in judged.items() if of == goal and sets}
    names = sorted({name for sets in mine.values() for name in sets})
    rows = [
        {"data": name, **{method: _told(sets.get(name)) for method, sets in mine.items()}}
        for name in names
    ]
    return markdown_table(pd.DataFrame(rows)) if rows else f"Nothing was learned for {goal}.\n"


# ------------------------------------------------------------------------------------ made tasks
def _summary(
    tables: Mapping[str, pd.DataFrame],
    found: Mapping[LearnerKey, str],
    judged: Mapping[LearnerKey, Mapping[str, Difference]],
) -> pd.DataFrame:
    rows = []
    for learner, setting in found.items():
        again = gains(tables["again"], learner).get(setting) if "again" in tables else None
        sets = judged[learner]
        rows.append(
            {
                "learner": " of ".join(learner),
                "constants": setting.replace(AND, ", ") or "none",
                "other made tasks": _told(again),
                "real data": _told(over_sets(sets)) if sets else NOTHING,
                "sets better": sum(one.is_better for one in sets.values()),
                "sets worse": sum(one.is_worse for one in sets.values()),
            }
        )
    return pd.DataFrame(rows)


def _alone(search: pd.DataFrame, learner: LearnerKey) -> str:
    gained = gains(search, learner)
    if not gained:
        return ""
    rows = []
    for constant in OF_METHODS[learner]:
        smaller, larger = (_told(gained.get(setting)) for setting in constant.settings())
        factors = " and ".join(f"{float(f):.2g}" for f in constant.factors)
        rows.append(
            {
                "constant": f"`{constant.label}`",
                "value": value_of(constant),
                "times": factors,
                "smaller": smaller,
                "larger": larger,
            }
        )
    unit = "log-loss" if learner[1] == CLASSES else "R2"
    title = f"### {learner[0].capitalize()}, {learner[1]} ({unit})\n\n"
    return title + markdown_table(pd.DataFrame(rows))


def value_of(constant: Constant) -> str:
    """As it is today; what a function makes follows the signal."""
    present = getattr(constant.module, constant.name)
    if constant.field:
        if not isinstance(present, type):
            return "by the signal"
        present = present.__dataclass_fields__[constant.field].default  # type: ignore[attr-defined]
    values = present if isinstance(present, tuple) else (present,)
    return " to ".join(f"{float(v) if isinstance(v, Fraction) else v:.3g}" for v in values)


def _told(difference: Difference | None) -> str:
    if difference is None:
        return NOTHING
    is_clear = difference.is_better or difference.is_worse
    return f"**{difference}**" if is_clear else str(difference)
