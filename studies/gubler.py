"""The page of Gubler's study: what holds of the report's claims, and the numbers."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path

import pandas as pd

from studies import datasets
from studies.claims import section
from studies.gubler_claims import (
    DEEP,
    HIGH_RHO,
    LOW_RHO,
    METHOD_ORDER,
    RUNS,
    SHALLOW,
    claims,
)
from studies.gubler_fits import (
    AS_PRINTED,
    AS_RELEASED,
    BINS,
    DEPTH_ON_REAL_DATA,
    LEAST_ROWS,
    METHODS,
    PARTIES,
    PERMUTED_DEPTH,
    PERMUTED_RHO,
    REACH,
    SHARES_DEPTH,
    SHARES_FEATURES,
    SHARES_RHO,
    SHARES_ROWS,
    TRAIN_PART,
    on_data,
    on_mixture,
    on_permuted,
    on_shares,
)
from studies.harness import Cell, Computation
from studies.pages import (
    Line,
    curves,
    evenly,
    left_out,
    line,
    means,
    repeats,
    write_page,
)

COMMAND = "python -m studies gubler --data DIR"
FIGURES = {250: 3, 1000: 4, 100: 5}
"""Rows -> the report's figure."""
Tables = dict[str, pd.DataFrame]
POINTS = ("rho", "p", "method", "epsilon")
"""What tells the points of a figure apart."""


# -------------------------------------------------------------------------------------- mixtures


INTRO = f"""
Source: H. Gubler, *Secure and Interpretable: Federated Differentially Private Decision Trees*, EPFL
2023, which averages {RUNS} runs (`--full`). Algorithm 5 is the plain tree, Algorithm 6 saves
budget: *{AS_PRINTED}*, at the epsilon that its bounds cost (column `spent`); *{AS_RELEASED}*, whose
bounds are noise around zero; and *saving*, whose bounds are all charged. Ranges of mixtures are
[{-REACH:g}, {REACH:g}], public; the released code reads bin edges from the rows of each node. Nodes
of fewer than {LEAST_ROWS:g} noisy rows are not split. All sites' shares of noise are counted on.
"""


def write_results(computation: Computation, tables: Tables, options: str) -> None:
    found = mixture(tables)
    shares, permuted, real = (tables.get(n, pd.DataFrame()) for n in ("shares", "permuted", "real"))
    parts = [
        INTRO,
        section(claims(found, shares)),
        *_mixture(computation.out, found),
        "## How to divide the budget (Figure 2)\n",
        f"n = {SHARES_ROWS}, p = {SHARES_FEATURES}, rho = {SHARES_RHO}, depth {SHARES_DEPTH}.\n",
        means(shares, ["leaf_fraction"], "bounds_fraction", "accuracy"),
        "## Does saving see anything?\n",
        "Part of a node's budget that is saved, with true labels and with permuted ones, of which "
        f"no feature knows anything; rho = {PERMUTED_RHO}, depth {PERMUTED_DEPTH}.\n",
        means(permuted, ["n", "p", "epsilon"], "permuted", "saved"),
        "## Real data\n",
        f"Not in the report. {PARTIES} sites, depth {DEPTH_ON_REAL_DATA}, {BINS} uniform bins, "
        f"{TRAIN_PART:.0%} for training, the range of the whole file taken as public.\n",
        means(real, ["data", "delta", "method"], "epsilon", "accuracy"),
    ]
    title = "Gubler's federated private tree"
    write_page(computation, "README.md", title, COMMAND + options, parts)


def mixture(tables: Tables) -> pd.DataFrame:
    """Of both depths."""
    found = [tables[name] for name in ("shallow", "deep") if len(tables.get(name, ()))]
    return pd.concat(found) if found else pd.DataFrame()


def _mixture(out: Path, mixture: pd.DataFrame) -> Iterator[str]:
    yield "## Accuracy against epsilon\n"
    yield "Zero stands for trees without privacy.\n"
    yield means(mixture, ["depth", "n", "method"], "epsilon", "accuracy")
    for (n, depth), part in mixture.groupby(["n", "depth"]):
        even = evenly(part, POINTS, "seed")
        panels = _panels(even)
        if not panels:
            yield f"Depth {depth}, n = {n}: too few of its cells were run for a figure.\n"
            continue
        name = f"mixture_{n}_{depth}"
        curves(out / name, panels, "claimed epsilon", "test accuracy")
        told = repeats(even, "seed", "runs") + left_out(part, even, POINTS)
        yield f"{_figure(n)}, depth {depth} ({told}):\n"
        yield f"![n = {n}, depth {depth}]({name}.png)\n"


def _figure(n: int) -> str:
    return f"Figure {FIGURES[n]}" if n in FIGURES else "Not in the report"


def _panels(part: pd.DataFrame) -> dict[str, dict[str, Line]]:
    """One for each setting that has a private point."""
    panels = {}
    for (rho, p), setting in part.groupby(["rho", "p"]):
        epsilons = sorted(e for e in setting["epsilon"].unique() if e > 0.0)
        if not epsilons:
            continue
        lines: dict[str, Line] = {}
        for method in METHOD_ORDER:
            mine = setting[setting["method"] == method]
            if method in ("local", "centralised"):
                mine = pd.concat([mine.assign(epsilon=e) for e in epsilons])
            lines[method] = line(mine, "epsilon", "accuracy")
        panels[f"rho = {rho}, p = {p}"] = lines
    return panels


# -------------------------------------------------------------------------------------- the rest


# --------------------------------------------------------------------------------------------------
# Gubler's federated private tree: the report's simulation study, and real data.
#
# Four grids: the Gaussian mixtures of Figures 3 to 5, the budget shares of Figure 2, permuted
# labels, and five real data sets.
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


def collected(computation: Computation, effort: Effort = USUAL) -> Tables:
    """The tables of all grids. Without a data folder the real data are left out."""
    has_data = computation.page_only or datasets.FOLDER_VARIABLE in os.environ
    return computation.tables(
        {
            "shallow": (on_mixture, shallow_cells(effort)),
            "shares": (on_shares, share_cells(effort)),
            "permuted": (on_permuted, permuted_cells(effort)),
            "real": (on_data, data_cells(effort) if has_data else []),
            "deep": (on_mixture, deep_cells(effort)),
        }
    )


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
