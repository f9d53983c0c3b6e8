"""`python -m studies which`: which estimator for which data, and what noise costs.

Three grids: our three estimators on tasks of classes and of numbers at a few epsilons; the default
classifier on splits that no constant was chosen on; LightGBM without privacy on the same splits.
A file `before.csv` beside them, the `fresh.csv` of an earlier commit, is compared cell by cell.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from pathlib import Path

import numpy as np

from studies.boosted.recipes import DEFAULT, DEFAULT_SETS, SHARES_PARTIES
from studies.boosted.run import TEST_PART, loaded, measures
from studies.boosted.run import work as fit_default
from studies.datasets import FOLDER_VARIABLE, folder
from studies.harness import Cell, Work, finished, run_grid
from studies.ours.run import NO_PROMISE, cells
from studies.ours.tasks import NUMBERS, fit_classes, fit_numbers
from studies.which.page import write

FIRST_SPLIT = 800  # no choice was ever made on the splits from here on
EPSILONS = (8.0, 1.0, 3.0, 0.1, 0.5, 100.0)
OURS = ("boosted", "forest", "tree")
TASKS = (
    "adult",
    "bank",
    "spambase",
    "banknote",
    "skin",
    "avazu_15k",
    "breast_cancer",
    "waveform",
    "wall_robot",
    "wine",
    "digits",
    "letter",
    "puc_rio_har",
)
TASK_SEED = 40  # of splits that no page uses
TASK_EPSILONS = (1.0, 0.1, 8.0)


@dataclass(frozen=True)
class Wanted:
    """How much of the grids: splits of the default classifier, and of every task."""

    splits: int
    tasks: int
    quick: bool


def run(out: Path, data: Path | None, wanted: Wanted, workers: int | None, page_only: bool) -> None:
    os.environ[FOLDER_VARIABLE] = str(folder(str(data) if data else None))
    jobs = _jobs(wanted)
    if page_only:
        tables = {name: finished(out / f"{name}.csv") for name in jobs}
    else:
        tables = {
            name: run_grid(name, work, cells, out / f"{name}.csv", workers)
            for name, (work, cells) in jobs.items()
        }
    command = f"python -m studies which --splits {wanted.splits} --tasks {wanted.tasks} --data DIR"
    write(out, tables, command + (" --page-only" if page_only else ""))


def _jobs(wanted: Wanted) -> dict[str, tuple[Work, list[Cell]]]:
    """By the name of the table: what makes a cell, and the cells."""
    sets = DEFAULT_SETS[-2:] if wanted.quick else DEFAULT_SETS
    limits: list[Cell] = [
        {"dataset": name, "split": split} for split, name in product(_splits(wanted.splits), sets)
    ]
    return {
        "fresh": (fit_default, list(fresh_cells(wanted.splits, sets))),
        "limits": (fit_lightgbm, limits),
        "classes": (fit_classes, class_cells(wanted.tasks, wanted.quick)),
        "numbers": (fit_numbers, number_cells(wanted.tasks, wanted.quick)),
    }


def _splits(wanted: int) -> range:
    return range(FIRST_SPLIT, FIRST_SPLIT + wanted)


def fresh_cells(splits: int, names: tuple[str, ...]) -> Iterator[Cell]:
    """Split by split, one holder before five, so that a run cut short has whole tables."""
    for parties, split, epsilon, name in product(
        (1, SHARES_PARTIES), _splits(splits), EPSILONS, names
    ):
        yield {
            "dataset": name,
            "recipe": DEFAULT,
            "epsilon": epsilon,
            "parties": parties,
            "split": split,
        }


def class_cells(splits: int, quick: bool) -> list[Cell]:
    names, seeds = TASKS[2:4] if quick else TASKS, range(TASK_SEED, TASK_SEED + splits)
    epsilons = TASK_EPSILONS[:1] if quick else TASK_EPSILONS
    return [
        *cells(seeds, names, OURS, ("gaussian",), epsilons),
        *cells(seeds, names, ("HistGB",), ("none",), NO_PROMISE),
    ]


def number_cells(splits: int, quick: bool) -> list[Cell]:
    names, seeds = NUMBERS[:1] if quick else NUMBERS, range(TASK_SEED, TASK_SEED + splits)
    epsilons = TASK_EPSILONS[:1] if quick else TASK_EPSILONS
    return [
        *cells(seeds, names, OURS, ("gaussian",), epsilons),
        *cells(seeds, names, ("mean", "HistGB"), ("none",), NO_PROMISE),
    ]


def fit_lightgbm(dataset: str, split: int) -> dict[str, float]:
    """No privacy: LightGBM's defaults, categories as categories, on the rows of a fresh split."""
    import lightgbm
    from sklearn.model_selection import train_test_split

    known = loaded(dataset)
    X = known.X.apply(lambda c: c if c.dtype.kind in "if" else c.astype("category"))
    hit = (known.y == (known.schema.classes or ())[1]).astype(float)
    train, test = train_test_split(
        np.arange(len(hit)), test_size=TEST_PART, random_state=split, stratify=known.y
    )
    model = lightgbm.LGBMClassifier(n_jobs=1, random_state=split, verbose=-1)
    model.fit(X.iloc[train], hit[train])
    return measures(hit[test], np.asarray(model.predict_proba(X.iloc[test]))[:, 1])
