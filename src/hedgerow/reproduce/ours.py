"""The study of our own tree, forest and regression: grids of fits, then a page."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from itertools import product
from pathlib import Path

from hedgerow.reproduce.datasets import FOLDER_VARIABLE, folder
from hedgerow.reproduce.harness import Cell, run_grid
from hedgerow.reproduce.ours_page import write
from hedgerow.reproduce.ours_tasks import (
    CLASSES,
    NUMBERS,
    PARTIES,
    UNSEEN,
    fit_classes,
    fit_merged,
    fit_numbers,
)

EPSILONS = (0.1, 0.5, 1.0, 2.0, 5.0)
NUMBER_EPSILONS = (1.0, 10.0)
NOISES = ("gaussian", "pure")
OURS = ("tree", "forest")
ON_BOTH_GRIDS = ("tree", "tree, even grid", "forest", "forest, even grid")
WITHOUT_PRIVACY = ("CART", "random forest", "HistGB")
NO_PROMISE = (float("inf"),)
WORK = {"numbers": fit_numbers, "merging": fit_merged}
SEEDS = 5
FRESH_SEED = 20
"""First of the splits on which no constant was chosen."""


def run(out: Path, data: Path | None, quick: bool, workers: int | None) -> None:
    os.environ[FOLDER_VARIABLE] = str(folder(str(data) if data else None))
    grids = quick_grids() if quick else full_grids()
    tables = {
        name: run_grid(name, WORK.get(name, fit_classes), wanted, out / f"{name}.csv", workers)
        for name, wanted in grids.items()
    }
    write(out, tables)


def full_grids() -> dict[str, list[Cell]]:
    """About 1,900 fits; fewer splits where a method only stands beside ours."""
    fresh, for_numbers = range(FRESH_SEED, FRESH_SEED + 2), ("tree", "forest", "boosted")
    return {
        "classes": cells(range(SEEDS), CLASSES, OURS, NOISES),
        "numbers": [
            *cells(range(SEEDS), NUMBERS, for_numbers, ("gaussian",), NUMBER_EPSILONS),
            *cells(range(SEEDS), NUMBERS, ("mean",), ("none",), NO_PROMISE),
            *cells(range(2), NUMBERS, for_numbers, ("pure",), NUMBER_EPSILONS),
        ],
        "unseen": [
            *cells(fresh, UNSEEN, (*OURS, "Algorithm 5"), NOISES),
            *cells(fresh, UNSEEN, ("LocalRNM",), ("pure",), parties=PARTIES),
        ],
        "baselines": [
            *cells(range(1), CLASSES, ("Algorithm 5",), NOISES),
            *cells(range(1), CLASSES, ("LocalRNM",), ("pure",), parties=PARTIES),
            *cells(range(1), CLASSES, ("one curator",), ("pure",)),
            *cells(range(1), CLASSES, WITHOUT_PRIVACY, ("none",), NO_PROMISE),
        ],
        "parties": cells(range(1), CLASSES, OURS, ("gaussian",), parties=PARTIES),
        "fresh": cells(fresh, CLASSES, OURS, ("gaussian",), (1.0,)),
        "ladders": cells(fresh, ("credit_gmsc", "spambase"), ON_BOTH_GRIDS, ("gaussian",)),
        "merging": cells(range(1), CLASSES, ("tree",), ("gaussian",), (0.5, 1.0)),
    }


def quick_grids() -> dict[str, list[Cell]]:
    """The same tables from one split of three small tasks."""
    few, some = ("banknote", "waveform"), (0.5, 5.0)
    return {
        "classes": cells(range(1), few, OURS, NOISES, some),
        "numbers": [
            *cells(range(1), ("parkinsons",), ("tree", "forest", "boosted"), NOISES, (10.0,)),
            *cells(range(1), ("parkinsons",), ("mean",), ("none",), NO_PROMISE),
        ],
        "unseen": cells(
            range(FRESH_SEED, FRESH_SEED + 1), ("wine",), (*OURS, "Algorithm 5"), NOISES, some
        ),
        "parties": cells(range(1), few, OURS, NOISES, some, parties=PARTIES),
        "baselines": [
            *cells(range(1), few, ("Algorithm 5",), NOISES, some),
            *cells(range(1), few, WITHOUT_PRIVACY, ("none",), NO_PROMISE),
        ],
        "fresh": cells(range(FRESH_SEED, FRESH_SEED + 1), few, OURS, ("gaussian",), (1.0,)),
        "ladders": cells(range(1), ("spambase",), ON_BOTH_GRIDS, ("gaussian",), (1.0,)),
        "merging": cells(range(1), few, ("tree",), ("gaussian",), (1.0,)),
    }


def cells(
    seeds: Iterable[int],
    tasks: Sequence[str],
    methods: Sequence[str],
    noises: Sequence[str],
    epsilons: Sequence[float] = EPSILONS,
    parties: int = 1,
) -> list[Cell]:
    """Seed by seed, so that a run that is cut short has whole tables of fewer splits."""
    return [
        _cell(seed, task_name, method, noise, parties, epsilon)
        for seed, task_name, method, noise, epsilon in product(
            seeds, tasks, methods, noises, epsilons
        )
    ]


def _cell(seed: int, task_name: str, method: str, noise: str, parties: int, eps: float) -> Cell:
    return {
        "seed": seed,
        "task_name": task_name,
        "method": method,
        "noise": noise,
        "parties": parties,
        "epsilon": eps,
    }
