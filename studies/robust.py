"""The page of `python -m studies robust`, read off its table and off `before.csv`."""

from __future__ import annotations

import math

import pandas as pd

from studies.harness import Cell, Computation
from studies.ours_fits import DELTA, NUMBERS
from studies.pages import markdown_table, write_page
from studies.robust_fits import (
    ANY,
    EPSILON,
    HARMS,
    OF_NUMBERS,
    OF_TWO_CLASSES,
    TWO_CLASSES,
    fit_harmed,
)

KEYS = ["task_name", "harm", "method"]
CLOSE = 0.02  # by which two fits on different splits may differ without a meaning
NO_MODEL = {"R2": 0.0, "AUC": 0.5}
HARMLESS = 0.01  # below what no model reaches, by so much noise alone
OURS = ("boosted", "forest", "tree")


def write(computation: Computation, table: pd.DataFrame, command: str) -> None:
    before = computation.kept.frame("before")
    if before is None:
        before = pd.DataFrame(columns=[*KEYS, "score"])
    now = table.reindex(columns=[*KEYS, "seed", "score"]).groupby(KEYS)["score"].mean()
    then = before.groupby(KEYS)["score"].mean()
    parts = [_words(table, now, then), *(_of_harm(harm, now, then) for harm in _done(now))]
    write_page(computation, "README.md", "Corrupted records", command, parts)


def _done(now: pd.Series) -> list[str]:
    there = set(now.index.get_level_values("harm"))
    return [harm for harm in HARMS if harm in there]


def _words(table: pd.DataFrame, now: pd.Series, then: pd.Series) -> str:
    both = now.to_frame("now").join(then.rename("then"), how="inner")
    worse = both[both["now"] < both["then"] - CLOSE]
    better = both[both["now"] > both["then"] + CLOSE]
    harmful = [key for key, score in now.items() if is_harm(str(key[0]), float(score))]
    n = table["seed"].nunique() if len(table) else 0
    return (
        f"For people whose records are not a benchmark's. Epsilon {EPSILON:g}, delta {DELTA:g}; "
        "AUC of two classes, accuracy of waveform, part of the variance that is explained of "
        f"metro_traffic and gas_turbine; mean of {'one split' if n == 1 else f'{n} splits'}. "
        "*before*: an earlier release, on one split of its own with its own noise (before.csv; "
        "for numbers it trained on fewer of the rows than here), so differences within "
        f"{CLOSE} mean nothing.\n\n"
        f"Of {len(both)} rows with both, {len(better)} are better by more than {CLOSE}, "
        f"{len(worse)} are worse: {_listed(worse.index)}. Worse than no model: "
        f"{_listed(harmful)}.\n"
    )


def is_harm(task: str, score: float) -> bool:
    if task == "waveform":
        return score < 1.0 / 3.0 - HARMLESS
    is_number = task in ("metro_traffic", "gas_turbine")
    return score < NO_MODEL["R2" if is_number else "AUC"] - HARMLESS


def _listed(keys: object) -> str:
    named = [f"{method} on {task}, {harm}" for task, harm, method in keys]  # type: ignore[attr-defined]
    return "; ".join(named) if named else "none"


def _of_harm(harm: str, now: pd.Series, then: pd.Series) -> str:
    rows = []
    for name in dict.fromkeys(n for n, h, _ in now.index if h == harm):
        row: dict[str, object] = {"data": name}
        for method in OURS:
            key = (name, harm, method)
            row[f"{method} before"] = float(then.get(key, math.nan))
            row[method] = float(now.get(key, math.nan))
        rows.append(row)
    return f"## {harm[0].upper()}{harm[1:]}\n\n" + markdown_table(pd.DataFrame(rows))


# --------------------------------------------------------------------------------------------------
# `python -m studies robust`: our estimators on records that are hurt, before and after.
#
# One grid at epsilon 1. `before.csv` beside its table holds what an earlier release measured on
# splits of its own: 70 to 30 for numbers too, so small differences mean nothing.
FIRST_SEED = 50  # of splits that no other page uses and nothing was decided on
TASKS = ("metro_traffic", "gas_turbine", "spambase", "waveform", "adult", "credit_default")
FIRST = (
    "clean",
    "2,000 codes, 254 buckets",
    "2,000 codes, hashed 4 times",
    "target x 100",
    "1 : 99",
    "20 % missing",
    "ranges x 100",
    "two rows, one class",
    "5 sites, by label",
    "100 noise columns",
)
"""Run first, so that a run cut short has whole tables of these."""
LAST = "300 noise columns"
"""Run last: the most columns of all, at 2 to 20 seconds a fit of boosted trees."""


def files(quick: bool) -> tuple[str, ...]:
    return TASKS[2:3] if quick else TASKS


def run(computation: Computation, splits: int, quick: bool) -> None:
    table = computation.tables({"robust": (fit_harmed, grid(splits, quick))})["robust"]
    write(computation, table, f"python -m studies robust --splits {splits} --data DIR")


def grid(splits: int, quick: bool) -> list[Cell]:
    names, harms = (TASKS[2:3], ("clean", "1 : 99")) if quick else (TASKS, tuple(HARMS))
    cells: list[Cell] = [
        {"seed": seed, "task_name": name, "harm": harm, "method": method}
        for seed in range(FIRST_SEED, FIRST_SEED + splits)
        for harm in harms
        for name in names
        if fits(harm, name)
        for method in OURS
    ]
    return sorted(cells, key=lambda cell: _turn(str(cell["harm"])))


def _turn(harm: str) -> int:
    if harm in FIRST:
        return FIRST.index(harm)
    return len(FIRST) + (harm == LAST)


def fits(harm: str, name: str) -> bool:
    """Whether a task can be hurt so."""
    kinds = {*ANY, *(OF_NUMBERS if name in NUMBERS else ())}
    return harm in kinds or (name in TWO_CLASSES and harm in OF_TWO_CLASSES)
