"""`python -m studies boosted`: Maddock et al. 2022, Tables 3-6 and 9-12, Figures 2-5 and 20.

Every cell is a real fit on integers, with the noise of the real pipeline. delta = 1 / n as in the
paper, for comparison only: a study should promise far less.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from typing import Any

from hedgerow.privacy.accounting.conversions import WEAK_DELTA_WORDS
from studies.boosted import page
from studies.boosted.fits import work
from studies.boosted.paper import (
    BATCHES,
    CANDIDATES,
    DATASETS,
    RANKS,
    SPLITS,
    UPDATES,
    WEIGHT_TABLES,
)
from studies.boosted.recipes import (
    DEFAULT,
    DEFAULT_SETS,
    EPSILONS,
    EVERY_RECORD,
    FIGURE_SET,
    FIRST_SPLIT,
    LOCAL_BASELINE,
    NAMED,
    SHARES_PARTIES,
    batched,
    components,
    named,
    placed,
)
from studies.harness import Cell, Computation

ALL_SPLITS = 15  # three repeats of five splits, as in the paper
QUICK_SET, QUICK_EPSILON = "bank", 1.0
SLOW = ("DP-EBM", "DP-GBM", "FEVERLESS (uniform)")  # minutes a split; after all else


def files(quick: bool) -> tuple[str, ...]:
    return (QUICK_SET, FIGURE_SET) if quick else DEFAULT_SETS


def run(computation: Computation, quick: bool, splits: int) -> None:
    print(f"delta = 1 / n, as in the paper. {WEAK_DELTA_WORDS}", file=sys.stderr)
    wanted = list(quick_cells() if quick else cells(splits))
    table = computation.tables({"cells": (work, wanted)})["cells"]
    options = "--quick" if quick else f"--splits {splits}"
    page.write(computation, table, f"python -m studies boosted {options} --data DIR")


# ---------------------------------------------------------------------------------------- cells
def cells(splits: int) -> Iterator[Cell]:
    """Each once, most wanted first; what figures need besides tables is run on the first split."""
    seen = set[tuple[Any, ...]]()
    for cell in _with_repeats(range(FIRST_SPLIT, FIRST_SPLIT + splits)):
        key = tuple(cell.values())
        if key not in seen:
            seen.add(key)
            yield cell


def quick_cells() -> Iterator[Cell]:
    """The same tables from one split of one set, and two points of two figures."""
    for cell in cells(1):
        if cell["dataset"] == QUICK_SET and cell["epsilon"] == QUICK_EPSILON:
            yield cell
    for batch in (1, 0):
        yield _cell(QUICK_SET, batched(batch), 0.1, FIRST_SPLIT)
    points = [components("totally_random", "newton", trees) for trees in (10, 25)]
    points += [named("DP-RF", trees) for trees in (25, 100)]
    for recipe in points:
        yield _cell(FIGURE_SET, recipe, 1.0, FIRST_SPLIT)


def _with_repeats(splits: range) -> Iterator[Cell]:
    for parties in (1, SHARES_PARTIES):
        for split in splits:
            yield from _everywhere(DEFAULT, split, parties)
    for split in splits:
        yield from _weights(split, (0.5, 1.0))
        yield from _candidates_and_batches(split)
        yield from _named(split, [name for name in NAMED if name not in SLOW])
    yield from figures()
    for split in splits:
        yield from _everywhere(LOCAL_BASELINE, split, EVERY_RECORD)
        yield from _weights(split, (0.1, 0.25, 0.75))
        yield from _named(split, SLOW)


def _cell(dataset: str, recipe: str, epsilon: float, split: int, parties: int = 1) -> Cell:
    return {
        "dataset": dataset,
        "recipe": recipe,
        "epsilon": epsilon,
        "parties": parties,
        "split": split,
    }


def _everywhere(recipe: str, split: int, parties: int = 1) -> Iterator[Cell]:
    for dataset in DEFAULT_SETS:
        for epsilon in EPSILONS:
            yield _cell(dataset, recipe, epsilon, split, parties)


def _named(split: int, names: Sequence[str]) -> Iterator[Cell]:
    for name in names:
        yield from _everywhere(named(name, 100), split)


def _weights(split: int, epsilons: Sequence[float]) -> Iterator[Cell]:
    for epsilon in epsilons:
        for dataset in DATASETS:
            for kind in SPLITS:
                for update in UPDATES:
                    yield _cell(dataset, components(kind, update), epsilon, split)


def _candidates_and_batches(split: int) -> Iterator[Cell]:
    for candidates, dataset in CANDIDATES:
        yield _cell(dataset, placed(candidates), 1.0, split)
    for batch, dataset in BATCHES:
        yield _cell(dataset, batched(batch), 0.1, split)


def figures() -> Iterator[Cell]:
    """Figures 2 to 5 on Credit 1; Figure 20 reads bytes and seconds of the same fits."""
    recipes = [(1.0, components(s, "newton", t)) for s in SPLITS for t in (10, 25, 50, 100)]
    recipes += [(1.0, components("totally_random", "newton", t)) for t in (200, 300)]
    recipes += [(1.0, components(s, "newton", depth=d)) for s in SPLITS for d in (2, 3, 4, 5, 6)]
    recipes += [(e, components(s, "newton", depth=3)) for s in SPLITS for e in WEIGHT_TABLES]
    recipes += [
        (e, placed("iterative_hessian", rounds=s)) for s in (5, 10, 20, 30) for e in EPSILONS
    ]
    kinds = ("iterative_hessian", "quantile", "log", "uniform")
    recipes += [(1.0, placed(k, trees=t)) for k in kinds for t in (100, 200, 300)]
    recipes += [(1.0, placed(k, bins=q)) for k in kinds for q in (2, 4, 8, 16, 32, 64, 128)]
    recipes += [(e, batched(b)) for b in (1, 10, 20, 50, 100, 200, 0) for e in (0.1, 0.5, 1.0)]
    recipes += [(1.0, named(n, t)) for n in RANKS if n != "DP-EBM" for t in (25, 100, 200)]
    recipes += [(1.0, named("DP-EBM", t)) for t in (25, 100)]
    for epsilon, recipe in recipes:
        yield _cell(FIGURE_SET, recipe, epsilon, FIRST_SPLIT)
    for trees in (25, 100, 200):
        yield _cell(FIGURE_SET, named("DP-TR Newton", trees), 1.0, FIRST_SPLIT, EVERY_RECORD)
