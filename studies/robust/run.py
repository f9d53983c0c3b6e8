"""`python -m studies robust`: our estimators on records that are hurt, before and after.

One grid at epsilon 1. `before.csv` beside its table holds what an earlier release measured on
splits of its own: 70 to 30 for numbers too, so small differences mean nothing.
"""

from __future__ import annotations

import numpy as np

from studies.harness import Cell, Computation
from studies.ours.tasks import DELTA, FOR_CLASSES, FOR_NUMBERS, NUMBERS, task
from studies.robust.harms import ANY, HARMS, OF_NUMBERS, OF_TWO_CLASSES
from studies.robust.page import write

EPSILON = 1.0
FIRST_SEED = 50  # of splits that no other page uses and nothing was decided on
OURS = ("boosted", "forest", "tree")
TASKS = ("metro_traffic", "gas_turbine", "spambase", "waveform", "adult", "credit_default")
TWO_CLASSES = ("adult", "credit_default", "spambase")
DEAR = "300 noise columns"
"""Run last: a fit of boosted trees takes minutes there."""


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
    return sorted(cells, key=lambda cell: bool(cell["harm"] == DEAR))


def fits(harm: str, name: str) -> bool:
    """Whether a task can be hurt so."""
    kinds = {*ANY, *(OF_NUMBERS if name in NUMBERS else ())}
    return harm in kinds or (name in TWO_CLASSES and harm in OF_TWO_CLASSES)


def fit_harmed(seed: int, task_name: str, harm: str, method: str) -> dict[str, float]:
    """AUC of two classes, accuracy of more, R2 of a number; and whether anything was said."""
    from studies.measures import of_classes

    given = task(task_name)
    train, test = given.split(seed)
    hurt = HARMS[harm](given, train, np.random.default_rng(seed))
    make = (FOR_NUMBERS if task_name in NUMBERS else FOR_CLASSES)[method]
    model = make(hurt.task.schema, EPSILON, DELTA, random_state=seed, **hurt.more)
    model.fit(hurt.task.X.iloc[hurt.train], hurt.task.y[hurt.train], party=hurt.party)
    X, y = hurt.task.X.iloc[test], hurt.task.y[test]
    said = {"rounds": float(len(model.run_.rounds))}
    if task_name in NUMBERS:
        around = np.mean((y - given.y[train].mean()) ** 2)
        return {"score": float(1.0 - np.mean((model.predict(X) - y) ** 2) / around), **said}
    found = of_classes(model.predict_proba(X), y, hurt.task.schema)
    return {"score": found["auc" if task_name in TWO_CLASSES else "accuracy"], **said}
