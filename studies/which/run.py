"""`python -m studies which`: which estimator for which data, and what noise costs.

Three grids: our three estimators on tasks of classes and of numbers at a few epsilons; the default
classifier on splits that no constant was chosen on; LightGBM without privacy on the same splits.
Beside them lie `before.csv`, the `fresh.csv` of an earlier commit, and peers on the same splits
(benchmarks/peers), which are compared cell by cell.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain, product

from studies.boosted.fits import work as fit_default
from studies.boosted.learners import DEFAULT, DEFAULT_SETS, SHARES_PARTIES
from studies.harness import Cell, Computation, Work
from studies.ours.run import NO_GUARANTEE, cells
from studies.ours.tasks import NUMBERS, SMALL_UNSEEN, fit_classes, fit_numbers
from studies.which.fits import fit_lightgbm, fit_stage
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
FIRST_STAGE_SPLIT = 960  # surfaces were decided on splits 710 to 729
STAGE_SPLITS = 10
STAGE_EPSILONS = (1.0, 3.0, 0.5, 8.0, 0.1)
TASK_SEED = 40  # of splits that no page uses
TASK_EPSILONS = (1.0, 0.1, 8.0)


@dataclass(frozen=True)
class Wanted:
    """How much of the grids: splits of the default classifier, and of every task."""

    splits: int
    tasks: int
    quick: bool


def files(wanted: Wanted) -> tuple[str, ...]:
    """Parquet files; the bundled sets need none."""
    classes = {str(cell["task_name"]) for cell in class_cells(wanted.tasks, wanted.quick)}
    numbers = {str(cell["task_name"]) for cell in number_cells(wanted.tasks, wanted.quick)}
    sets = DEFAULT_SETS[-2:] if wanted.quick else DEFAULT_SETS
    return tuple(sorted({*sets, *classes, *numbers} - {*SMALL_UNSEEN}))


def run(computation: Computation, wanted: Wanted) -> None:
    tables = computation.tables(_jobs(wanted))
    options = f"--splits {wanted.splits} --tasks {wanted.tasks}"
    write(computation, tables, f"python -m studies which {options} --data DIR")


def _jobs(wanted: Wanted) -> dict[str, tuple[Work, list[Cell]]]:
    """By the name of the table: what makes a cell, and the cells."""
    sets = DEFAULT_SETS[-2:] if wanted.quick else DEFAULT_SETS
    limits: list[Cell] = [
        {"dataset": name, "split": split} for split, name in product(_splits(wanted.splits), sets)
    ]
    return {
        "limits": (fit_lightgbm, limits),
        "fresh": (fit_default, list(fresh_cells(wanted.splits, sets))),
        "surfaces": (fit_stage, stage_cells(1 if wanted.quick else STAGE_SPLITS, sets)),
        "classes": (fit_classes, class_cells(wanted.tasks, wanted.quick)),
        "numbers": (fit_numbers, number_cells(wanted.tasks, wanted.quick)),
    }


def _splits(wanted: int) -> range:
    return range(FIRST_SPLIT, FIRST_SPLIT + wanted)


def fresh_cells(splits: int, names: tuple[str, ...]) -> Iterator[Cell]:
    """Split by split, one holder before five, so that a run cut short has whole tables.

    Without noise last, with one holder: with more of them the sums are the same.
    """
    of_all = product((1, SHARES_PARTIES), _splits(splits), EPSILONS, names)
    for n_sites, split, epsilon, name in chain(
        of_all, product((1,), _splits(splits), NO_GUARANTEE, names)
    ):
        yield {
            "dataset": name,
            "learner": DEFAULT,
            "epsilon": epsilon,
            "n_sites": n_sites,
            "split": split,
        }


def stage_cells(splits: int, names: tuple[str, ...]) -> list[Cell]:
    """Pairs with and without surfaces, split by split."""
    seeds = range(FIRST_STAGE_SPLIT, FIRST_STAGE_SPLIT + splits)
    grid = product(seeds, (1, SHARES_PARTIES), STAGE_EPSILONS, names, (1, 0))
    return [
        {"dataset": d, "surfaces": on, "epsilon": e, "n_sites": n, "split": split}
        for split, n, e, d, on in grid
    ]


def class_cells(splits: int, quick: bool) -> list[Cell]:
    names, seeds = TASKS[2:4] if quick else TASKS, range(TASK_SEED, TASK_SEED + splits)
    epsilons = TASK_EPSILONS[:1] if quick else TASK_EPSILONS
    return [
        *cells(seeds, names, OURS, ("gaussian",), epsilons),
        *cells(seeds, names, ("HistGB",), ("none",), NO_GUARANTEE),
    ]


def number_cells(splits: int, quick: bool) -> list[Cell]:
    names, seeds = NUMBERS[:1] if quick else NUMBERS, range(TASK_SEED, TASK_SEED + splits)
    epsilons = TASK_EPSILONS[:1] if quick else TASK_EPSILONS
    return [
        *cells(seeds, names, OURS, ("gaussian",), epsilons),
        *cells(seeds, names, ("mean", "HistGB"), ("none",), NO_GUARANTEE),
    ]
