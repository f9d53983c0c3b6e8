"""`python -m studies extra-trees`: Liu et al. 2020, Table 2 and Figure 3, and our placements.

Every cell is a real fit of the estimator: two sites or more, masked sums, noise of the real
pipeline. The paper's MIMIC rows are not public.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import product

from studies.extra_trees import page
from studies.extra_trees.fits import (
    DEPTH,
    KDD,
    LABELS,
    MANY_SITES,
    MOST_CLIENTS,
    NOISY,
    SHARP,
    TREES,
    WHOLE,
    work,
)
from studies.harness import Cell, Computation

SETS = ("spambase", "credit_default", "waveform", "letter", KDD)
REPEATS = 30  # as in the paper
QUICK_SETS = ("spambase", "waveform")
QUICK_EPSILONS = (2.0, 8.0)
QUICK_FIGURE = {"clients": (1, 2), "trees": (1, 5), "depth": (5, 10)}
EPSILONS = (1.0, 2.0, 4.0, 8.0)
KDD_REPEATS = 1  # 494,021 rows: one repeat takes as long as four of all other sets


FIGURE_REPEATS = 1
FIGURE_SETS = ("credit_default", "letter")
FIGURE_METHODS = {"FET": 0.0, "response": 4.0, "silo": 8.0}
FIGURE = {
    "clients": tuple(range(1, MOST_CLIENTS + 1)),
    "trees": (1, 5, 10, 20, 40),
    "depth": (5, 10, 15, 20),
}


def files(quick: bool) -> tuple[str, ...]:
    return QUICK_SETS if quick else SETS


def run(computation: Computation, quick: bool, repeats: int) -> None:
    if quick:
        cells = table_cells(1, QUICK_SETS, QUICK_EPSILONS)
        figure_3 = figure_cells(1, QUICK_SETS[:1], QUICK_FIGURE)
    else:
        cells = table_cells(repeats, SETS, EPSILONS)
        figure_3 = figure_cells(min(repeats, FIGURE_REPEATS), FIGURE_SETS, FIGURE)
    tables = computation.tables({"figure3": (work, list(figure_3)), "table2": (work, list(cells))})
    options = "--quick" if quick else f"--repeats {repeats}"
    command = f"python -m studies extra-trees {options} --data DIR"
    page.write(computation, tables["table2"], tables["figure3"], command)


def table_cells(repeats: int, sets: Sequence[str], epsilons: Sequence[float]) -> Iterator[Cell]:
    methods = [("ET", 0.0), ("FET", 0.0), (WHOLE, 0.0)]
    methods += [(m, e) for m in NOISY for e in epsilons]
    methods += [(m, e) for m in LABELS for e in epsilons]
    for seed in range(repeats):
        for method, epsilon in methods:
            clients = MOST_CLIENTS if method.endswith(MANY_SITES) else 0
            for name in sets:
                if name != KDD or (seed < KDD_REPEATS and method not in (WHOLE, SHARP)):
                    yield _cell(name, method, epsilon, seed, clients)


def figure_cells(
    repeats: int, sets: Sequence[str], figure: Mapping[str, Sequence[int]]
) -> Iterator[Cell]:
    changes = [{what: value} for what, values in figure.items() for value in values]
    settings = {
        (c.get("clients", 0), c.get("trees", TREES), c.get("depth", DEPTH)) for c in changes
    }
    for seed, setting in product(range(repeats), sorted(settings)):
        for name in sets:
            for method, epsilon in FIGURE_METHODS.items():
                yield _cell(name, method, epsilon, seed, *setting)


def _cell(
    name: str,
    method: str,
    epsilon: float,
    seed: int,
    clients: int = 0,
    trees: int = TREES,
    depth: int = DEPTH,
) -> Cell:
    """`clients` 0 is the table's division; k of Figure 3 are k ninths of the rows."""
    return {
        "data": name,
        "method": method,
        "epsilon": epsilon,
        "seed": seed,
        "clients": clients,
        "trees": trees,
        "depth": depth,
    }
