"""The experiments of Wang, Dick and Balcan 2020, Figures 1 to 6: grids of fits, then a page."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import product

import pandas as pd

from studies.harness import Cell, Computation, Grid
from studies.topdown.claims import ORDERED_SETS, REPEATED
from studies.topdown.data import FILES, LOADERS
from studies.topdown.fits import fit, timed
from studies.topdown.methods import BASELINES, MAX_SPLITS, METHODS, PRINTED, SLOW
from studies.topdown.page import write

ALPHAS = tuple(2.0**k for k in range(-3, 10))
LEAF_ALPHAS = (0.125, 1.0, 8.0)
LEAF_SHARES = (0.1, 0.3, 0.5, 0.7, 0.9)
LOUD = tuple(2.0**k for k in range(10, 17, 2))
"""Beyond the paper's: where lines that do not meet the tree without noise at 512 may meet it."""
FRACTIONS = (0.01, 0.05, 0.2, 1.0)
SEEDS, MORE_SEEDS = 3, 10
OFTEN = (*ORDERED_SETS, "avazu")
"""Sets of which the paper claims an order of its methods, or that noise helps. The others have
many rows or many classes, and fits take long."""
SELDOM = tuple(name for name in LOADERS if name not in OFTEN)
BESIDE_NO_NOISE = ("bank",)
"""Where the paper holds small parts of the rows with noise against the same without."""
BOTH = ("decay", "even")  # the paper's
QUICK_SETS = ("adult", "bank")


def files(quick: bool) -> tuple[str, ...]:
    return QUICK_SETS if quick else tuple(FILES.values())


def run(computation: Computation, quick: bool) -> None:
    write(computation, collected(computation, quick), quick)


def collected(computation: Computation, quick: bool = False) -> dict[str, pd.DataFrame]:
    grids: dict[str, Grid] = {
        name: (fit, cells) for name, cells in (quick_grids() if quick else full_grids()).items()
    }
    return computation.tables({"speed": (timed, speeds(quick)), **grids})


def full_grids() -> dict[str, list[Cell]]:
    """All figures on all sets, with more repeats where the paper claims something of one set."""
    some = ("single machine", "local choice", "noisy counts, shares")
    more = range(SEEDS, MORE_SEEDS)
    return {
        "baselines": cells(range(1), LOADERS, BASELINES, (1.0,)),
        "printed": printed_cells(),
        "slow": cells(range(2), LOADERS, SLOW, REPEATED[2:], (0.2,), ("slow",)),
        "loud": cells(range(1), ("mnist",), METHODS, LOUD),
        "curves": [
            *cells(range(MORE_SEEDS), OFTEN, METHODS, ALPHAS),
            *cells(range(SEEDS), SELDOM, METHODS, ALPHAS),
        ],
        "leaf_fraction": cells(range(SEEDS), LOADERS, some, LEAF_ALPHAS, LEAF_SHARES, BOTH),
        "training_size": [
            *cells(range(SEEDS), LOADERS, some, REPEATED, fractions=FRACTIONS),
            *cells(more, BESIDE_NO_NOISE, some, REPEATED, fractions=FRACTIONS),
        ],
        "size_baselines": [
            *cells(range(SEEDS), LOADERS, BASELINES, (1.0,), fractions=FRACTIONS),
            *cells(more, BESIDE_NO_NOISE, BASELINES, (1.0,), fractions=FRACTIONS),
        ],
    }


def printed_cells() -> list[Cell]:
    """Methods without a repair, but on many rows or many classes.

    Seed by seed, and within it the slowest line, which asks every node of all splits, last.
    """
    return [
        cell
        for seed, line in product(range(SEEDS), PRINTED)
        for cell in cells((seed,), OFTEN, (line,), REPEATED)
    ]


def quick_grids() -> dict[str, list[Cell]]:
    """The same tables from one seed, two sets and few budgets."""
    few, one, some = QUICK_SETS, ("bank",), (1.0, 512.0)
    return {
        "curves": cells(range(1), few, METHODS, some),
        "printed": cells(range(1), one, PRINTED, some),
        "baselines": cells(range(1), few, BASELINES, (1.0,)),
        "slow": cells(range(1), one, SLOW, some[-1:], (0.2,), ("slow",)),
        "loud": cells(range(1), one, ["local choice"], LOUD[:1]),
        "leaf_fraction": cells(range(1), one, ["local choice"], (1.0,), (0.1, 0.9), BOTH),
        "training_size": cells(range(1), one, ["noisy counts, shares"], some, fractions=(0.2, 1.0)),
        "size_baselines": cells(range(1), one, ["without noise"], some[:1], fractions=(0.2, 1.0)),
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
    keys = ("seed", "name", "fraction", "method", "budget", "leaf_fraction", "alpha")
    values = product(seeds, names, fractions, list(methods), budgets, leaf_shares, alphas)
    return [dict(zip(keys, one, strict=True)) for one in values]


def speeds(quick: bool) -> list[Cell]:
    splits = 32 if quick else MAX_SPLITS
    return [
        {"seed": 0, "split": split, "max_splits": splits}
        for split in ("noisy_counts", "local_choice")
    ]
