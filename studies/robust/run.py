"""`python -m studies robust`: our estimators on records that are hurt, before and after.

One grid at epsilon 1. `before.csv` beside its table holds what an earlier release measured on
splits of its own: 70 to 30 for numbers too, so small differences mean nothing.
"""

from __future__ import annotations

from studies.harness import Cell, Computation
from studies.ours.tasks import NUMBERS
from studies.robust.fits import TWO_CLASSES, fit_harmed
from studies.robust.harms import ANY, HARMS, OF_NUMBERS, OF_TWO_CLASSES
from studies.robust.page import write

FIRST_SEED = 50  # of splits that no other page uses and nothing was decided on
OURS = ("boosted", "forest", "tree")
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
