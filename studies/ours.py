"""`python -m studies ours`: our own tree, forest and regression beside others."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import product
from pathlib import Path

import numpy as np
import pandas as pd

from studies import ours_claims as shown
from studies.harness import Cell, Computation
from studies.kept import Tables as TablesOf
from studies.measures import CONFIDENCE
from studies.ours_claims import OVER_PARTIES, Tables
from studies.ours_fits import (
    CLASSES,
    DELTA,
    LARGE_UNSEEN,
    NUMBERS,
    NUMBERS_TEST_PART,
    PARTIES,
    SMALL_UNSEEN,
    TEST_PART,
    WITH_PIECES,
    fit_classes,
    fit_numbers,
)
from studies.pages import curves, markdown_table, means, write_page

COMMAND = "python -m studies ours --data DIR"

MEASURES = ("accuracy", "auc", "log_loss", "ece")

LINES = {
    "gaussian": ("tree", "forest", "Algorithm 5"),
    "pure": ("tree", "forest", "Algorithm 5", "one curator", "diffprivlib tree",
             "diffprivlib forest"),
    f"pure{OVER_PARTIES}": ("tree", "forest", "LocalRNM"),
}  # fmt: skip
"""What the figure shows, by guarantee and sites."""


INTRO = f"""
Test rows are {TEST_PART:.0%} ({NUMBERS_TEST_PART:.0%} for numbers) of a random split. Gaussian is
delta = {DELTA:g}, pure means delta zero. One site unless a row says {PARTIES} sites: then noise is
divided among them and only masked sums are seen. diffprivlib ran by
`benchmarks/peers/diffprivlib_trees.py` on the same splits. *Unseen* tasks decided no constant but
the gates for Laplace noise (studies/notes/gates.md#0155).

Accuracy of ours less that of another, mean of the tasks ± standard error over splits; ~ marks what
is no clear difference (Student's t at {CONFIDENCE:.0%}).
"""


def write(computation: Computation, tables: Tables, quick: bool) -> None:
    everything, unseen = joined(computation.kept, tables)
    _figure(computation.out, everything)
    classes = ("who", "epsilon", "accuracy")
    parts = [
        INTRO,
        markdown_table(shown.against_rivals(everything)),
        markdown_table(shown.unseen_verdicts(unseen)),
        "## Against the targets\n",
        markdown_table(shown.accuracy_targets(tables["classes"])),
        markdown_table(shown.adult_targets(everything)),
        markdown_table(shown.number_targets(tables["numbers"])),
        "![Mean accuracy](accuracy.png)\n",
        *(f"## {m}\n\n" + means(everything, ["who"], "epsilon", m) for m in MEASURES),
        "## Every task, accuracy\n",
        means(pd.concat([everything, unseen]), ["task_name", classes[0]], *classes[1:]),
        "## Numbers: mean squared error, target scaled to the unit interval\n",
        means(tables["numbers"], ["task_name", "method", "noise"], "epsilon", "mse", 5),
        "## The pieces of our own tree in the papers' trees\n",
        means(tables["pieces"], ["noise", "method"], "epsilon", "accuracy"),
    ]
    command = COMMAND + (" --quick" if quick else "")
    write_page(computation, "README.md", "Our own tree, forest and regression", command, parts)


def joined(kept: TablesOf, tables: Tables) -> tuple[pd.DataFrame, pd.DataFrame]:
    """All methods on the tasks that decided constants, and on those that did not."""
    peers = _peers(kept)
    seen = set(tables["classes"]["task_name"])
    everything = pd.concat(
        [shown.named(tables[name]) for name in ("classes", "n_sites", "baselines")]
        + [peers[peers["task_name"].isin(seen)]]
    )
    strange = set(tables["unseen"]["task_name"])
    unseen = pd.concat([shown.named(tables["unseen"]), peers[peers["task_name"].isin(strange)]])
    return everything, unseen


# ---------------------------------------------------------------------------------------- parts
def _peers(kept: TablesOf) -> pd.DataFrame:
    """Results of diffprivlib, made by its own script in its own environment."""
    peers = kept.frame("diffprivlib")
    if peers is None:
        return pd.DataFrame(columns=["task_name", "seed", "epsilon", "who", *MEASURES])
    peers["who"] = "diffprivlib " + peers["method"] + " (pure)"
    return peers


# ------------------------------------------------------------------------------------- in words


# --------------------------------------------------------------------------------------- figure
def _figure(out: Path, everything: pd.DataFrame) -> None:
    rows = everything[np.isfinite(everything["epsilon"].astype(float))]
    by_task = rows.groupby(["who", "epsilon", "task_name"])["accuracy"].mean()
    means = by_task.groupby(["who", "epsilon"]).mean()
    panels = {}
    for guarantee, names in LINES.items():
        found = {name: f"{name} ({guarantee})" for name in names}
        panels[f"mean accuracy ({guarantee})"] = {
            name: (list(means[who].index), list(means[who]))
            for name, who in found.items()
            if who in means.index
        }
    curves(out / "accuracy", panels, "epsilon", "")


# --------------------------------------------------------------------------------------------------
# The study of our own tree, forest and regression: grids of fits, then a page.
EPSILONS = (0.1, 0.5, 1.0, 2.0, 5.0)
MIDDLE_EPSILONS = (0.5, 1.0, 2.0)
NUMBER_EPSILONS = (1.0, 10.0)
NOISES = ("gaussian", "pure")
OURS = ("tree", "forest")
FOR_NUMBERS = ("tree", "forest", "boosted")
WITHOUT_PRIVACY = ("CART", "random forest", "HistGB")
NO_GUARANTEE = (float("inf"),)
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
        {n: (fit_numbers if n == "numbers" else fit_classes, g) for n, g in grids.items()}
    )


def full_grids() -> dict[str, list[Cell]]:
    """About 4,000 fits; fewer splits where a method only stands beside ours."""
    ours, beside = range(SEEDS), range(BESIDE)
    fresh, few_fresh = (range(FRESH_SEED, FRESH_SEED + n) for n in (SEEDS, 2))
    return {
        "classes": cells(ours, CLASSES, OURS, NOISES),
        "unseen": [*_unseen_cells(fresh, SMALL_UNSEEN), *_unseen_cells(few_fresh, LARGE_UNSEEN)],
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
    }


def _unseen_cells(seeds: range, tasks: Sequence[str]) -> list[Cell]:
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
        "pieces": cells(range(1), ("banknote",), tuple(WITH_PIECES), ("gaussian",), (1.0,)),
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
