"""Scores of two settings, same rows and same noise: their mean difference and its error."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

import pandas as pd

from hedgerow.errors import ParameterError
from studies.harness import Cell, Computation
from studies.learned_fits import (
    AND,
    BUNDLED,
    CLASS_NUMBERS,
    CLASSES,
    FEWEST_COLUMNS,
    LEAST_TRAIN,
    MOST_COLUMNS,
    MOST_TRAIN,
    NUMBERS,
    OF_METHODS,
    REAL,
    STORED,
    Constant,
    fit_made,
    fit_real,
)
from studies.measures import CONFIDENCE, student
from studies.ours_fits import DELTA
from studies.pages import markdown_table, write_page


@dataclass(frozen=True)
class Difference:
    """Of `n` pairs: the mean, and its standard error."""

    mean: float
    error: float
    n: int

    @staticmethod
    def of(values: pd.Series) -> Difference:
        n = len(values)
        error = float(values.std(ddof=1)) / n**0.5 if n > 1 else float("nan")
        return Difference(float(values.mean()), error, n)

    @property
    def is_better(self) -> bool:
        """Beyond Student's t at 95 %. Never for a single pair, nor where nothing moved."""
        return self.mean > student(self.n) * self.error

    @property
    def is_worse(self) -> bool:
        return -self.mean > student(self.n) * self.error

    def __str__(self) -> str:
        return f"{self.mean:+.4f} ({self.error:.4f})"


def paired(table: pd.DataFrame) -> pd.DataFrame:
    """Every fit with a setting beside the one without: `gain` is how much better it is."""
    keys = [name for name in table.columns if name not in ("setting", "score", "code")]
    without = table[table["setting"] == ""].set_index(keys)["score"].rename("without")
    joined = table[table["setting"] != ""].join(without, on=keys, how="inner")
    return joined.assign(gain=joined["score"] - joined["without"])


def gains(table: pd.DataFrame, learner: tuple[str, str]) -> dict[str, Difference]:
    """Of each setting that was tried on made tasks for this method and goal."""
    method, goal = learner
    mine = table[(table["method"] == method) & (table["goal"] == goal)]
    return {str(s): Difference.of(rows["gain"]) for s, rows in paired(mine).groupby("setting")}


# --------------------------------------------------------------------------------------------------
# The page of `python -m studies learned`, read off its three tables.
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


HEAD = """The constants by which our methods read noisy answers (shares, shrinkage, smoothing,
gates) were set on a few data sets. Would constants fitted off-line on many made tasks serve
better? Each was tried larger and smaller, alone, on tasks made from seeds; what was clearly better
there was taken together, tried on other made tasks, and judged on real data that the search never
saw. Made tasks have {least:,} to {most:,} rows for training, {few} to {many} columns, two to
{classes} classes or a number (`studies/learned_fits.py`).

A gain is in log-loss for classes (how much lower) and in R2 for numbers, at epsilon {epsilons},
one site, delta {delta:g}. Two fits that are compared have the same rows, draws and noise. Clear
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
        f"Of {tried} methods for which something was learned, to be kept: "
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


# --------------------------------------------------------------------------------------------------
# `python -m studies learned`: would other constants serve our methods better?
#
# Three grids, each after the one before. *search*: every constant larger and smaller, alone, on
# made tasks. *again*: what was clearly better, all together, on other made tasks. *judge*: the same
# on real data, which no earlier grid has seen. Two fits that are compared have the same rows, the
# same draws and the same noise.
EPSILONS = (0.1, 0.3, 1.0)
FIRST_AGAIN = 1000  # seeds of made tasks from here on were not searched on
FIRST_SPLIT = 120
"""Method and goal."""
Learned = Mapping[LearnerKey, str]


@dataclass(frozen=True)
class Wanted:
    """Made tasks of each kind, splits of real data; or a few cells, to see that it runs."""

    tasks: int
    splits: int
    quick: bool

    @property
    def learners(self) -> list[LearnerKey]:
        return [("tree", CLASSES)] if self.quick else list(OF_METHODS)

    def real(self, goal: str) -> tuple[str, ...]:
        return BUNDLED[goal][1:2] if self.quick else REAL[goal]


def files(quick: bool) -> tuple[str, ...]:
    return () if quick else (*STORED[CLASSES], *STORED[NUMBERS])


def run(computation: Computation, wanted: Wanted) -> None:
    if computation.only:
        raise ParameterError(
            "--only is not for this study: each of its tables follows from another."
        )
    search = computation.tables({"search": (fit_made, search_grid(wanted))})["search"]
    found = learned_settings(search)
    later = {
        "again": (fit_made, again_grid(wanted, found)),
        "judge": (fit_real, judge_grid(wanted, found)),
    }
    tables = {"search": search, **computation.tables(later)}
    command = f"python -m studies learned --tasks {wanted.tasks} --splits {wanted.splits}"
    write(computation, tables, found, f"{command} --data DIR")


def search_grid(wanted: Wanted) -> list[Cell]:
    """Task by task, each at one epsilon: more tasks tell more than a task three times."""
    return [
        _made_cell(seed, learner, setting)
        for seed in range(wanted.tasks)
        for learner in wanted.learners
        for setting in ("", *(s for constant in OF_METHODS[learner] for s in constant.settings()))
    ]


def again_grid(wanted: Wanted, found: Learned) -> list[Cell]:
    return [
        _made_cell(seed, learner, setting)
        for seed in range(FIRST_AGAIN, FIRST_AGAIN + wanted.tasks)
        for learner in wanted.learners
        for setting in _both(found[learner])
    ]


def judge_grid(wanted: Wanted, found: Learned) -> list[Cell]:
    return [
        {
            "split": split,
            "task_name": name,
            "method": method,
            "epsilon": epsilon,
            "setting": setting,
        }
        for goal in (CLASSES, NUMBERS)
        for name in wanted.real(goal)
        for split in range(FIRST_SPLIT, FIRST_SPLIT + wanted.splits)
        for method, of in wanted.learners
        if of == goal
        for epsilon in EPSILONS
        for setting in _both(found[method, of])
    ]


def _made_cell(seed: int, learner: LearnerKey, setting: str) -> Cell:
    method, goal = learner
    epsilon = EPSILONS[seed % len(EPSILONS)]
    return {"seed": seed, "goal": goal, "method": method, "epsilon": epsilon, "setting": setting}


def _both(setting: str) -> tuple[str, ...]:
    """The method as it is and with what was learned, where anything was."""
    return ("", setting) if setting else ()


def learned_settings(search: pd.DataFrame) -> dict[LearnerKey, str]:
    """For each method, every constant whose better factor was clearly better alone."""
    found: dict[LearnerKey, str] = {}
    for learner, constants in OF_METHODS.items():
        gained = gains(search, learner)
        best = [max(c.settings(), key=lambda s: _mean(gained.get(s))) for c in constants]
        found[learner] = AND.join(s for s in best if s in gained and gained[s].is_better)
    return found


def _mean(difference: Difference | None) -> float:
    return difference.mean if difference else 0.0
