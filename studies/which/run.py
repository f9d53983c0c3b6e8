"""`python -m studies which`: which estimator for which data, and what noise costs.

Three grids: our three estimators on tasks of classes and of numbers at a few epsilons; the default
classifier on splits that no constant was chosen on; LightGBM without privacy on the same splits.
A file `before.csv` beside them, the `fresh.csv` of an earlier commit, is compared cell by cell.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from itertools import product
from pathlib import Path

import numpy as np

from studies.boosted.recipes import DEFAULT, DEFAULT_SETS, SHARES_PARTIES
from studies.boosted.run import TEST_PART, loaded, measures
from studies.boosted.run import work as fit_default
from studies.datasets import FOLDER_VARIABLE, folder
from studies.harness import Cell, run_grid
from studies.ours.run import NO_PROMISE, cells
from studies.ours.tasks import NUMBERS, fit_classes, fit_numbers
from studies.which.page import write

FIRST_SPLIT = 800  # no choice was ever made on the splits from here on
ALL_SPLITS = 5
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


def run(
    out: Path, data: Path | None, quick: bool, workers: int | None, splits: int, tasks: int
) -> None:
    os.environ[FOLDER_VARIABLE] = str(folder(str(data) if data else None))
    wanted = 1 if quick else splits
    fresh = list(fresh_cells(wanted, DEFAULT_SETS[-2:] if quick else DEFAULT_SETS))
    tables = {"fresh": run_grid("fresh splits", fit_default, fresh, out / "fresh.csv", workers)}
    limits = [
        {"dataset": name, "split": split}
        for split, name in product(_splits(wanted), dict.fromkeys(c["dataset"] for c in fresh))
    ]
    tables["limits"] = run_grid("LightGBM", fit_lightgbm, limits, out / "limits.csv", workers)
    for name, work, asked in (
        ("classes", fit_classes, class_cells(tasks, quick)),
        ("numbers", fit_numbers, number_cells(tasks, quick)),
    ):
        tables[name] = run_grid(name, work, asked, out / f"{name}.csv", workers)
    write(out, tables, f"python -m studies which --splits {wanted} --tasks {tasks} --data DIR")


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
