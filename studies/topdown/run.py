"""The experiments of Wang, Dick and Balcan 2020, Figures 1 to 3: grids of fits, then a page."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Sequence
from fractions import Fraction
from functools import lru_cache
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hedgerow.recipes.papers.wang import Budget, decay, even, slow
from hedgerow.site.reading import encoding
from studies import simulation
from studies.datasets import FOLDER_VARIABLE, folder
from studies.harness import Cell, run_grid
from studies.simulation import Sites
from studies.topdown.data import LOADERS, Task, task
from studies.topdown.methods import BASELINES, METHODS, PARTIES, SLOW, of_name
from studies.topdown.page import ORDERED_SETS, REPEATED, write

MAX_SPLITS = 512
ALPHAS = tuple(2.0**k for k in range(-3, 10))
LEAF_ALPHAS = (0.125, 1.0, 8.0)
LEAF_SHARES = (0.1, 0.3, 0.5, 0.7, 0.9)
LOUD = tuple(2.0**k for k in range(10, 17, 2))
"""Beyond the paper's: where lines that do not meet the tree without noise at 512 may meet it."""
FRACTIONS = (0.01, 0.05, 0.2, 1.0)
SEEDS, MORE_SEEDS = 3, 10
BUDGETS: dict[str, Budget] = {"decay": decay, "even": even(MAX_SPLITS), "slow": slow}
BOTH = ("decay", "even")  # the paper's


def run(out: Path, data: Path | None, quick: bool, workers: int | None) -> None:
    os.environ[FOLDER_VARIABLE] = str(folder(str(data) if data else None))
    grids = quick_grids() if quick else full_grids()
    tables = {
        name: run_grid(f"topdown: {name}", fit, cells, out / f"{name}.csv", workers)
        for name, cells in grids.items()
    }
    tables["speed"] = run_grid("topdown: speed", timed, speeds(quick), out / "speed.csv", 1)
    write(out, tables, quick)


def full_grids() -> dict[str, list[Cell]]:
    """Figure 2 on all sets, with more repeats where the paper claims an order.

    Figures 1 and 3 with repeats on the sets of the paper's body, once on those of its appendix.
    """
    body, some = ("adult", "bank"), ("single machine", "local choice", "noisy counts, shares")
    appendix = [name for name in LOADERS if name not in body]
    return {
        "baselines": cells(range(1), LOADERS, BASELINES, (1.0,)),
        "slow": cells(range(2), LOADERS, SLOW, REPEATED[2:], (0.2,), ("slow",)),
        "loud": cells(range(1), ("mnist",), METHODS, LOUD),
        "curves": [
            *cells(range(SEEDS), LOADERS, METHODS, ALPHAS),
            *cells(range(SEEDS, MORE_SEEDS), ORDERED_SETS, METHODS, REPEATED),
        ],
        "leaf_share": [
            *cells(range(SEEDS), body, some, LEAF_ALPHAS, LEAF_SHARES, BOTH),
            *cells(range(1), appendix, some, LEAF_ALPHAS, LEAF_SHARES, BOTH),
        ],
        "training_size": [
            *cells(range(SEEDS), body, some, REPEATED, fractions=FRACTIONS),
            *cells(range(1), appendix, some, REPEATED, fractions=FRACTIONS),
        ],
    }


def quick_grids() -> dict[str, list[Cell]]:
    """The same tables from one seed, two sets and few budgets."""
    few, one, some = ("adult", "bank"), ("bank",), (1.0, 512.0)
    return {
        "curves": cells(range(1), few, METHODS, some),
        "baselines": cells(range(1), few, BASELINES, (1.0,)),
        "slow": cells(range(1), one, SLOW, some[-1:], (0.2,), ("slow",)),
        "loud": cells(range(1), one, ["local choice"], LOUD[:1]),
        "leaf_share": cells(range(1), one, ["local choice"], (1.0,), (0.1, 0.9), BOTH),
        "training_size": cells(range(1), one, ["noisy counts, shares"], some, fractions=(0.2, 1.0)),
    }


def cells(
    seeds: Iterable[int],
    names: Iterable[str],
    methods: Iterable[str],
    alphas: Sequence[float],
    leaf_shares: Sequence[float] = (0.5,),
    budgets: Sequence[str] = ("decay",),
    fractions: Sequence[float] = (1.0,),
) -> list[Cell]:
    """Seed by seed, so that a run that is cut short has whole tables of fewer repeats."""
    keys = ("seed", "name", "fraction", "method", "budget", "leaf_share", "alpha")
    values = product(seeds, names, fractions, list(methods), budgets, leaf_shares, alphas)
    return [dict(zip(keys, one, strict=True)) for one in values]


def speeds(quick: bool) -> list[Cell]:
    splits = 32 if quick else MAX_SPLITS
    return [
        {"seed": 0, "split": split, "max_splits": splits}
        for split in ("noisy_counts", "local_choice")
    ]


# --------------------------------------------------------------------------------------- one fit
def fit(
    seed: int,
    name: str,
    fraction: float,
    method: str,
    budget: str,
    leaf_share: float,
    alpha: float,
) -> dict[str, float]:
    """Accuracy, size, rounds and cost of one tree; alpha is the paper's name for epsilon."""
    line, data = of_name(method), task(name, os.environ[FOLDER_VARIABLE])
    sites = divided(name, fraction, line.parties, seed)
    recipe = line.recipe(
        max_splits=MAX_SPLITS,
        budget=BUDGETS[budget],
        leaf_share=Fraction(str(leaf_share)),
        rows_at_most=power_of_two_above(len(data.y)),
    )
    study = simulation.study_of(recipe, sites, alpha, line.delta, placement=line.placement)
    trained, spent = simulation.train(recipe, study, sites, seed)
    (grown,) = trained.grown
    return {
        "test": accuracy(trained, data.X_test, data.y_test, data),
        "train": accuracy(trained, data.X, data.y, data),
        "leaves": grown.tree.n_leaves,
        "depth": grown.tree.depth,
        "spent": float(spent),
    }


@lru_cache(maxsize=4)
def divided(name: str, fraction: float, parties: int, seed: int) -> Sites:
    """The training rows, or a part of them, divided at random among the parties."""
    data, rng = task(name, os.environ[FOLDER_VARIABLE]), np.random.default_rng(seed)
    keep = np.sort(rng.permutation(len(data.y))[: round(fraction * len(data.y))])
    owner = rng.integers(0, parties, len(keep))
    return Sites(data.X.iloc[keep], data.y[keep], owner, data.schema)


def accuracy(trained: Any, X: Any, y: NDArray[Any], data: Task) -> float:
    best = simulation.probabilities(trained, X, data.schema).argmax(axis=1)
    return float((np.asarray(data.schema.classes, dtype=object)[best] == y).mean())


def power_of_two_above(rows: int) -> int:
    """A public guess of the number of rows: an order of magnitude, not the count."""
    return 1 << rows.bit_length()


def timed(seed: int, split: str, max_splits: int) -> dict[str, float]:
    """One tree through the whole secure sum, every split taken, beside scikit-learn's."""
    from sklearn.tree import DecisionTreeClassifier

    from hedgerow.estimators.topdown import TopDownTreeClassifier

    data = task("adult", os.environ[FOLDER_VARIABLE])
    model = TopDownTreeClassifier(
        data.schema,
        epsilon=512.0,
        split=split,
        max_splits=max_splits,
        budget="even",
        min_gain=0.0,
        min_fraction_split=0.0,
    )
    owner = np.random.default_rng(seed).integers(0, PARTIES, len(data.y))
    ours = cpu_seconds(lambda: model.fit(data.X, data.y, party=owner))
    leaves = model.model_.score.trees[0].n_leaves
    codes = encoding.encode_features(data.X, data.schema).T.astype(np.float32)
    reference = DecisionTreeClassifier(max_leaf_nodes=leaves)
    theirs = cpu_seconds(lambda: reference.fit(codes, data.y))
    return {
        "rounds": len(model.run_.rounds),
        "leaves": leaves,
        "seconds": ours,
        "scikit-learn": theirs,
        "ratio": ours / theirs,
    }


def cpu_seconds(work: Callable[[], object]) -> float:
    start = time.process_time()
    work()
    return time.process_time() - start
