"""Gubler's federated private tree: the report's simulation study, and real data.

Four grids: the Gaussian mixtures of Figures 3 to 5, the budget shares of Figure 2, permuted
labels, and five real data sets.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import product

import pandas as pd

from studies import datasets
from studies.gubler.fits import on_data, on_mixture, on_permuted, on_shares
from studies.gubler.methods import AS_PRINTED, AS_RELEASED, METHODS
from studies.gubler.page import Results, write_results
from studies.gubler.paper import DEEP, HIGH_RHO, LOW_RHO, SHALLOW
from studies.harness import Cell, Computation

MIXTURE_METHODS = ("plain", "saving", AS_PRINTED, AS_RELEASED, "defaults")
DATA_METHODS = tuple(name for name in METHODS if name != AS_RELEASED)
DELTAS = (0.0, 1e-6)


@dataclass(frozen=True, kw_only=True)
class Effort:
    """How much of the study is run."""

    runs: int
    epsilons: tuple[float, ...]
    rows: tuple[int, ...] = (100, 250, 1000)
    features: tuple[int, ...] = (10, 25, 50)
    rhos: tuple[float, ...] = (LOW_RHO, HIGH_RHO)
    deep_runs: int = 0
    deep_rows: tuple[int, ...] = (250,)
    deep_features: tuple[int, ...] = (10,)
    deep_epsilons: tuple[float, ...] = (5.0, 1.0)
    share_runs: int = 0
    permuted_runs: int = 0
    data: tuple[str, ...] = ()
    data_runs: int = 0
    data_epsilons: tuple[float, ...] = (0.1, 0.5, 1.0, 2.0, 5.0)


QUICK = Effort(
    runs=2,
    epsilons=(1.0, 5.0),
    rows=(250,),
    features=(10,),
    rhos=(LOW_RHO,),
    permuted_runs=1,
    data=("banknote",),
    data_runs=1,
    data_epsilons=(1.0,),
)
USUAL = Effort(
    runs=20,
    epsilons=(1.0, 5.0, 10.0),
    deep_runs=10,
    deep_rows=(250, 100, 1000),  # Figure 3, on which the claims on depth stand, comes first
    deep_features=(10, 25, 50),
    share_runs=20,
    permuted_runs=10,
    data=("adult", "bank", "credit_default", "spambase", "banknote"),
    data_runs=3,
)
FULL = replace(
    USUAL,
    runs=50,
    epsilons=(0.1, 1.2, 2.3, 3.4, 4.5, 5.6, 6.7, 7.8, 8.9, 10.0),
    deep_runs=50,
    deep_epsilons=(0.1, 1.2, 2.3, 3.4, 4.5, 5.6, 6.7, 7.8, 8.9, 10.0),
    share_runs=50,
    permuted_runs=50,
    data_runs=10,
)


def chosen(quick: bool, full: bool) -> Effort:
    return QUICK if quick else FULL if full else USUAL


def run(computation: Computation, effort: Effort, options: str) -> None:
    """All grids, then the page."""
    write_results(computation, collected(computation, effort), options)


def collected(computation: Computation, effort: Effort = USUAL) -> Results:
    """The tables of all grids. Without a data folder the real data are left out."""
    has_data = computation.page_only or datasets.FOLDER_VARIABLE in os.environ
    tables = computation.tables(
        {
            "shallow": (on_mixture, shallow_cells(effort)),
            "shares": (on_shares, share_cells(effort)),
            "permuted": (on_permuted, permuted_cells(effort)),
            "real": (on_data, data_cells(effort) if has_data else []),
            "deep": (on_mixture, deep_cells(effort)),
        }
    )
    peers = computation.kept.frame("diffprivlib")
    mixture = pd.concat(
        [table for name in ("shallow", "deep") if len(table := tables.get(name, ()))]
    )
    return Results(mixture, tables.get("shares"), tables.get("permuted"), tables.get("real"), peers)


# ------------------------------------------------------------------------------------- mixtures
def shallow_cells(effort: Effort) -> list[Cell]:
    """Runs outermost, so that a study cut short is even."""
    settings = product(
        range(effort.runs), effort.rows, effort.features, effort.rhos, [SHALLOW], effort.epsilons
    )
    return list(_with_methods(settings))


def deep_cells(effort: Effort) -> list[Cell]:
    """Few features first: with fifty, a fit that saves takes a quarter of a minute."""
    settings = (
        (run, n, p, rho, DEEP, epsilon)
        for epsilon, p, n, run, rho in product(
            effort.deep_epsilons,
            effort.deep_features,
            effort.deep_rows,
            range(effort.deep_runs),
            effort.rhos,
        )
    )
    return list(_with_methods(settings))


def _with_methods(settings: Iterable[tuple[int, int, int, float, int, float]]) -> Iterator[Cell]:
    seen = set[tuple[int, int, int, float]]()
    for seed, n, p, rho, depth, epsilon in settings:
        base = {"seed": seed, "n": n, "p": p, "rho": rho, "depth": depth}
        if (seed, n, p, rho) not in seen:
            seen.add((seed, n, p, rho))
            for method in ("local", "centralised"):
                yield {**base, "epsilon": 0.0, "method": method}
        for method in MIXTURE_METHODS:
            yield {**base, "epsilon": epsilon, "method": method}


# ------------------------------------------------------------------------------ shares, Figure 2
def share_cells(effort: Effort) -> list[Cell]:
    """Figure 2: n = 300, p = 10, rho = 0.3, depth 7; the report does not name its epsilon."""
    parts = (0.1, 0.3, 0.5, 0.7, 0.9)
    bounds = (0.0, 0.1, 0.25, 0.5, 0.75, 0.9)  # 0 stands for no saving
    return [
        {"seed": seed, "leaf_fraction": leaf, "bounds_fraction": bound, "epsilon": 5.0}
        for seed, leaf, bound in product(range(effort.share_runs), parts, bounds)
    ]


# ------------------------------------------------------------------------------- permuted labels
def permuted_cells(effort: Effort) -> list[Cell]:
    rows, features = ((250,), (10,)) if effort.runs < 3 else ((250, 1000), (10, 50))
    return [
        {"seed": seed, "n": n, "p": p, "epsilon": epsilon, "permuted": permuted}
        for seed, n, p, epsilon, permuted in product(
            range(effort.permuted_runs), rows, features, (1.0, 5.0), (False, True)
        )
    ]


# ------------------------------------------------------------------------------------- real data
def data_cells(effort: Effort) -> list[Cell]:
    cells: list[Cell] = []
    for seed, name in product(range(effort.data_runs), effort.data):
        base = {"seed": seed, "data": name}
        for method in ("no privacy", "one site, no privacy"):
            cells.append({**base, "delta": 0.0, "epsilon": 0.0, "method": method})
        for epsilon, delta, method in product(effort.data_epsilons, DELTAS, DATA_METHODS):
            if delta == 0.0 or method != AS_PRINTED:
                cells.append({**base, "delta": delta, "epsilon": epsilon, "method": method})
    return cells
