"""The study of our own tree, forest and regression: grids of fits, then a page."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import product

import pandas as pd

from studies.harness import Cell, Computation
from studies.ours.page import write
from studies.ours.tasks import (
    CLASSES,
    LARGE_UNSEEN,
    NUMBERS,
    PARTIES,
    SMALL_UNSEEN,
    WITH_PIECES,
    fit_classes,
    fit_merged,
    fit_numbers,
)

EPSILONS = (0.1, 0.5, 1.0, 2.0, 5.0)
MIDDLE_EPSILONS = (0.5, 1.0, 2.0)
NUMBER_EPSILONS = (1.0, 10.0)
NOISES = ("gaussian", "pure")
OURS = ("tree", "forest")
ON_BOTH_GRIDS = ("tree", "tree, even grid", "forest", "forest, even grid")
FOR_NUMBERS = ("tree", "forest", "boosted")
WITHOUT_PRIVACY = ("CART", "random forest", "HistGB")
NO_GUARANTEE = (float("inf"),)
WORK = {"numbers": fit_numbers, "merging": fit_merged}
SEEDS = 5
BESIDE = 3
"""Splits of what only stands beside ours."""
PIECES_TASKS = ("adult", "spambase", "wall_bin", "waveform")
QUICK_FILES = ("banknote", "waveform", "parkinsons", "spambase")
FRESH_SEED = 20
"""First of the splits on which no constant was chosen."""


def files(quick: bool) -> tuple[str, ...]:
    """Parquet files; the bundled sets need none."""
    names = QUICK_FILES if quick else (*CLASSES, *NUMBERS, *LARGE_UNSEEN)
    return tuple(name for name in names if name != "wall_bin")


def run(computation: Computation, quick: bool) -> None:
    write(computation, collected(computation, quick), quick)


def collected(computation: Computation, quick: bool = False) -> dict[str, pd.DataFrame]:
    grids = quick_grids() if quick else full_grids()
    return computation.tables(
        {name: (WORK.get(name, fit_classes), wanted) for name, wanted in grids.items()}
    )


def full_grids() -> dict[str, list[Cell]]:
    """About 4,000 fits; fewer splits where a method only stands beside ours."""
    ours, beside = range(SEEDS), range(BESIDE)
    fresh, few_fresh = (range(FRESH_SEED, FRESH_SEED + n) for n in (SEEDS, 2))
    return {
        "classes": cells(ours, CLASSES, OURS, NOISES),
        "unseen": [*_unseen(fresh, SMALL_UNSEEN), *_unseen(few_fresh, LARGE_UNSEEN)],
        "baselines": [
            *cells(beside, CLASSES, ("Algorithm 5",), NOISES),
            *cells(beside, CLASSES, ("LocalRNM",), ("pure",), n_sites=PARTIES),
            *cells(beside, CLASSES, ("one curator",), ("pure",)),
            *cells(beside, CLASSES, WITHOUT_PRIVACY, ("none",), NO_GUARANTEE),
        ],
        "numbers": [
            *cells(ours, NUMBERS, FOR_NUMBERS, NOISES, NUMBER_EPSILONS),
            *cells(ours, NUMBERS, ("mean",), ("none",), NO_GUARANTEE),
        ],
        "n_sites": cells(beside, CLASSES, OURS, NOISES, n_sites=PARTIES),
        "pieces": cells(beside, PIECES_TASKS, tuple(WITH_PIECES), NOISES, MIDDLE_EPSILONS),
        "fresh": cells(few_fresh, CLASSES, OURS, ("gaussian",), (1.0,)),
        "ladders": cells(few_fresh, ("credit_gmsc", "spambase"), ON_BOTH_GRIDS, ("gaussian",)),
        "merging": cells(beside, CLASSES, ("tree",), ("gaussian",), (0.5, 1.0)),
    }


def _unseen(seeds: range, tasks: Sequence[str]) -> list[Cell]:
    return [
        *cells(seeds, tasks, (*OURS, "Algorithm 5"), NOISES),
        *cells(seeds, tasks, ("LocalRNM",), ("pure",), n_sites=PARTIES),
    ]


def quick_grids() -> dict[str, list[Cell]]:
    """The same tables from one split of three small tasks."""
    few, some = ("banknote", "waveform"), (0.5, 5.0)
    return {
        "classes": cells(range(1), few, OURS, NOISES, some),
        "numbers": [
            *cells(range(1), ("parkinsons",), FOR_NUMBERS, NOISES, (10.0,)),
            *cells(range(1), ("parkinsons",), ("mean",), ("none",), NO_GUARANTEE),
        ],
        "unseen": cells(
            range(FRESH_SEED, FRESH_SEED + 1), ("wine",), (*OURS, "Algorithm 5"), NOISES, some
        ),
        "n_sites": cells(range(1), few, OURS, NOISES, some, n_sites=PARTIES),
        "baselines": [
            *cells(range(1), few, ("Algorithm 5",), NOISES, some),
            *cells(range(1), few, WITHOUT_PRIVACY, ("none",), NO_GUARANTEE),
        ],
        "fresh": cells(range(FRESH_SEED, FRESH_SEED + 1), few, OURS, ("gaussian",), (1.0,)),
        "pieces": cells(range(1), ("banknote",), tuple(WITH_PIECES), ("gaussian",), (1.0,)),
        "ladders": cells(range(1), ("spambase",), ON_BOTH_GRIDS, ("gaussian",), (1.0,)),
        "merging": cells(range(1), few, ("tree",), ("gaussian",), (1.0,)),
    }


def cells(
    seeds: Iterable[int],
    tasks: Sequence[str],
    methods: Sequence[str],
    noises: Sequence[str],
    epsilons: Sequence[float] = EPSILONS,
    n_sites: int = 1,
) -> list[Cell]:
    """Seed by seed, so that a run that is cut short has whole tables of fewer splits."""
    return [
        _cell(seed, task_name, method, noise, n_sites, epsilon)
        for seed, task_name, method, noise, epsilon in product(
            seeds, tasks, methods, noises, epsilons
        )
    ]


def _cell(seed: int, task_name: str, method: str, noise: str, n_sites: int, eps: float) -> Cell:
    return {
        "seed": seed,
        "task_name": task_name,
        "method": method,
        "noise": noise,
        "n_sites": n_sites,
        "epsilon": eps,
    }
