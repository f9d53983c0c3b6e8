"""What the DP-TopDown study says, in tables, figures and plain words."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import product

import pandas as pd

from studies.claims import section
from studies.harness import Cell, Computation, Grid
from studies.pages import means, write_page
from studies.topdown_claims import (
    ADULT_RANGES,
    ORDERED_SETS,
    REPEATED,
    ROWS,
    RUNS,
    claims,
    draw_all,
)
from studies.topdown_fits import (
    BASELINES,
    DELTA,
    FILES,
    LOADERS,
    MAX_SPLITS,
    METHODS,
    PARTIES,
    PRINTED,
    SENDERS,
    SENT_SETS,
    SLOW,
    fit,
    sent,
)

COMMAND = "python -m studies topdown --data DIR"

Tables = Mapping[str, pd.DataFrame]

INTRO = f"""
Wang, Dick and Balcan (2020) grow a tree best first and find each split privately in three ways.
Here they are again, with every epsilon counted exactly: pure epsilon, one record added or removed,
{MAX_SPLITS} splits at most, entropy, half of the budget for the leaves, budgets that halve with the
depth, {PARTIES} sites with rows divided at random, one fixed test set. The paper averages {RUNS}
runs. avazu is an extract; the paper has {ROWS["avazu"]:,} rows. All shares of noise are counted on.

| line | how a split is found | noise |
|---|---|---|
| single machine | one site picks an index by permute-and-flip; two fresh counts | curator |
| single machine, Gini | the same, scored by Gini, which one record moves less | curator |
| local choice | each site picks on its own rows; consistent tables of the shortlist | each site |
| noisy counts as written | a table for each of the splits, as in the paper | each site its own |
| noisy counts, silo | one histogram for each of the features instead | each site its own |
| noisy counts, shares | the same, made consistent; sites share the noise of one sum | shares |
| noisy counts, shares, Gaussian | the same with Gaussian noise, delta = {DELTA:g} | shares |

These carry the repairs that docs/papers.md lists; *as published* are the methods of
`hedgerow.papers.wang` without any. Single machine on adult at epsilon one and without noise: with
the file's ranges {ADULT_RANGES["file"][0]:.3f} and {ADULT_RANGES["file"][1]:.3f}, with those of the
authors' code {ADULT_RANGES["authors"][0]:.3f} and {ADULT_RANGES["authors"][1]:.3f}.
"""


def write(computation: Computation, tables: Tables, quick: bool) -> None:
    command = f"{COMMAND} --quick" if quick else COMMAND
    keys = ["name", "method"]
    parts = [
        INTRO,
        section(claims(tables)),
        "## Test accuracy\n",
        means(tables["curves"], keys, "alpha", "test"),
        "## As published\n",
        means(tables["printed"], keys, "alpha", "test"),
        "## Without noise, with slow budgets, and at larger epsilons\n",
        *(means(tables[name], keys, "alpha", "test") for name in ("baselines", "slow", "loud")),
        draw_all(computation.out, tables),
    ]
    write_page(computation, "README.md", "DP-TopDown: private best-first trees", command, parts)


# --------------------------------------------------------------------------------------------------
# The experiments of Wang, Dick and Balcan 2020, Figures 1 to 6: grids of fits, then a page.
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
    return computation.tables({"bytes": (sent, bytes_cells(quick)), **grids})


def bytes_cells(quick: bool) -> list[Cell]:
    keys = ("seed", "name", "method")
    every = product(range(2), QUICK_SETS if quick else SENT_SETS, SENDERS)
    return [dict(zip(keys, one, strict=True)) for one in every]


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
