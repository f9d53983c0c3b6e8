"""`python -m studies extra-trees`: Liu et al. 2020, Table 2 and Figure 3, and our placements.

Every cell is a real fit of the estimator: two sites or more, masked sums, noise of the real
pipeline. The paper's MIMIC rows are not public.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import product

import pandas as pd

from studies.extra_trees import page
from studies.extra_trees.fits import (
    AS_PRINTED,
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
LOUD = (8.0, 100.0, 1000.0, 10000.0)
"""Epsilons at which the paper's FET-GDP is tried, since it names none."""
PRINTED_SETS = ("letter", "waveform", "spambase", "credit_default")
KDD_REPEATS = 1  # 494,021 rows: one repeat takes as long as four of all other sets
BLOOMS = ("bloom", SHARP)


FIGURE_REPEATS = 3
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
    options = "--quick" if quick else f"--repeats {repeats}"
    command = f"python -m studies extra-trees {options} --data DIR"
    page.write(computation, collected(computation, quick, repeats), command)


def collected(
    computation: Computation, quick: bool = False, repeats: int = REPEATS
) -> dict[str, pd.DataFrame]:
    if quick:
        cells = table_cells(1, QUICK_SETS, QUICK_EPSILONS)
        figure_3 = figure_cells(1, QUICK_SETS[:1], QUICK_FIGURE)
    else:
        cells = table_cells(repeats, SETS, EPSILONS)
        figure_3 = figure_cells(min(repeats, FIGURE_REPEATS), FIGURE_SETS, FIGURE)
    printed = [] if quick else list(printed_cells(min(repeats, 3), PRINTED_SETS, LOUD))
    return computation.tables(
        {
            "table2": (work, list(cells)),
            "figure3": (work, _once(figure_3)),
            "printed": (work, printed),
        }
    )


def _once(cells: Iterable[Cell]) -> list[Cell]:
    """A cell may be on several axes of a figure."""
    return list({tuple(cell.values()): cell for cell in cells}.values())


def table_cells(repeats: int, sets: Sequence[str], epsilons: Sequence[float]) -> Iterator[Cell]:
    """Repeat by repeat; the largest set last and once, and of it Bloom filters, minutes each."""
    methods = [("ET", 0.0), ("FET", 0.0), (WHOLE, 0.0)]
    methods += [(m, e) for m in LABELS for e in epsilons]
    methods += [(m, e) for m in NOISY for e in epsilons]
    others = [name for name in sets if name != KDD]
    for seed, name, (method, epsilon) in product(range(repeats), others, methods):
        yield _cell(name, method, epsilon, seed)
    if KDD in sets:
        slow_last = sorted(methods, key=lambda known: known[0] in BLOOMS)
        for seed, (method, epsilon) in product(range(KDD_REPEATS), slow_last):
            if method != WHOLE:
                yield _cell(KDD, method, epsilon, seed)


def printed_cells(repeats: int, sets: Sequence[str], epsilons: Sequence[float]) -> Iterator[Cell]:
    """FET-GDP with the paper's sizes, and the epsilon it would take."""
    for seed, name, epsilon in product(range(repeats), sets, epsilons):
        yield _cell(name, AS_PRINTED, epsilon, seed)


def figure_cells(
    repeats: int, sets: Sequence[str], figure: Mapping[str, Sequence[int]]
) -> Iterator[Cell]:
    """One of clients, trees and depth varies; the other two are the method's own."""
    for seed, name in product(range(repeats), sets):
        for method, epsilon in FIGURE_METHODS.items():
            for what, values in figure.items():
                for value in values:
                    yield _cell(name, method, epsilon, seed, **{what: value})


def _cell(
    name: str,
    method: str,
    epsilon: float,
    seed: int,
    clients: int | None = None,
    trees: int | None = None,
    depth: int | None = None,
) -> Cell:
    """`clients` 0 is the table's division; k of Figure 3 are k ninths of the rows.

    Numbers of trees and levels are those that are fitted: noisy forests have few of both.
    """
    many = MOST_CLIENTS if method.endswith(MANY_SITES) else 0
    return {
        "data": name,
        "method": method,
        "epsilon": epsilon,
        "seed": seed,
        "clients": many if clients is None else clients,
        "trees": NOISY.get(method, {}).get("n_estimators", TREES) if trees is None else trees,
        "depth": NOISY.get(method, {}).get("max_depth", DEPTH) if depth is None else depth,
    }
