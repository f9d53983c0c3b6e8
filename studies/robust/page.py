"""The page of `python -m studies robust`, read off its table and off `before.csv`."""

from __future__ import annotations

import math

import pandas as pd

from studies.harness import Computation
from studies.ours.tasks import DELTA
from studies.pages import markdown_table, write_page
from studies.robust.fits import EPSILON
from studies.robust.harms import HARMS

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
    write_page(computation, "README.md", "Hurt records", command, parts)


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
