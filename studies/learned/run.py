"""`python -m studies learned`: would other constants serve our recipes better?

Three grids, each after the one before. *search*: every constant larger and smaller, alone, on made
tasks. *again*: what was clearly better, all together, on other made tasks. *judge*: the same on
real data, which no earlier grid has seen. Two fits that are compared have the same rows, the same
draws and the same noise.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import pandas as pd

from hedgerow.errors import ParameterError
from studies.harness import Cell, Computation
from studies.learned.constants import AND, CLASSES, NUMBERS, OF_METHODS
from studies.learned.differences import Difference, gains
from studies.learned.fits import fit_made, fit_real
from studies.learned.page import write
from studies.learned.real import BUNDLED, REAL, STORED

EPSILONS = (0.1, 0.3, 1.0)
FIRST_AGAIN = 1000  # seeds of made tasks from here on were not searched on
FIRST_SPLIT = 120
LearnerKey = tuple[str, str]
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
    found = learned(search)
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
    """The recipe as it is and with what was learned, where anything was."""
    return ("", setting) if setting else ()


def learned(search: pd.DataFrame) -> dict[LearnerKey, str]:
    """For each recipe, every constant whose better factor was clearly better alone."""
    found: dict[LearnerKey, str] = {}
    for learner, constants in OF_METHODS.items():
        gained = gains(search, learner)
        best = [max(c.settings(), key=lambda s: _mean(gained.get(s))) for c in constants]
        found[learner] = AND.join(s for s in best if s in gained and gained[s].is_better)
    return found


def _mean(difference: Difference | None) -> float:
    return difference.mean if difference else 0.0
