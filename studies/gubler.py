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
    GAUSSIAN_DELTA,
    HIGH_RHO,
    LOW_RHO,
    METHOD_ORDER,
    PURE,
    REPEATED_AT,
    RUNS,
    SHALLOW,
    ahead_table,
    beside_the_author,
    best_shares,
    claims,
    extras_table,
    honest_epsilons,
    mixture_means,
    permuted_table,
    permuted_words,
    real_table,
    saving_sees_labels,
    share_table,
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
    markdown_table,
    repeats,
    write_page,
)

COMMAND = "python -m studies gubler --data DIR"
FIGURES = {250: 3, 1000: 4, 100: 5}
"""Rows -> the report's figure."""
POINTS = ("rho", "p", "method", "epsilon")
"""What tells the points of a figure apart."""


@dataclass(frozen=True)
class Results:
    """Tables of the finished cells; None where a grid was not run."""

    mixture: pd.DataFrame
    shares: pd.DataFrame | None
    permuted: pd.DataFrame | None
    real: pd.DataFrame | None
    peers: pd.DataFrame | None


def write_results(computation: Computation, results: Results, options: str) -> None:
    """README.md and figures beside the CSV files."""
    out = computation.out
    parts = [
        *_head(results),
        section(claims(results.mixture, results.shares)),
        *_author(results.mixture),
        *_spent(results.mixture),
        *_mixture(out, results.mixture),
        *_shares(results.shares),
        *_permuted(results.permuted),
        *_real(results.real, results.peers),
        _limits(),
    ]
    write_page(
        computation, "README.md", "Gubler's federated private tree", COMMAND + options, parts
    )


def _head(results: Results) -> Iterator[str]:
    yield (
        "Source: H. Gubler, *Secure and Interpretable: Federated Differentially Private Decision "
        "Trees*, EPFL 2023. Algorithm 5 is the plain tree, Algorithm 6 saves budget. Numbers come "
        "from the CSV files beside this page. Pairs have the same rows, setting and epsilon; pairs "
        "of one draw of rows count as independent, since noise decides most of a difference.\n"
    )
    runs = results.mixture.groupby("depth")["seed"].nunique()
    words = ", ".join(f"{n} at depth {depth}" for depth, n in runs.items())
    yield f"The report averages {RUNS} runs; this page has up to {words}. `--full` runs all.\n"


# -------------------------------------------------------------------------------------- mixtures
def _author(mixture: pd.DataFrame) -> Iterator[str]:
    at = ", ".join(f"{name} = {value:g}" for name, value in REPEATED_AT.items())
    yield "## Beside the author's code\n"
    yield (
        f"Accuracy ({at}), ours as mean (sample deviation). In the released code "
        "(hgubler/federated-private-trees, fc89ef9) a site's own best impurity is always zero, so "
        "its noisy bounds are noise alone: *as released*. With the bound of the report's text put "
        "into that code, it loses to its own plain tree too: that *as published* loses is no "
        "fault of this implementation.\n"
    )
    yield markdown_table(beside_the_author(mixture))


def _spent(mixture: pd.DataFrame) -> Iterator[str]:
    yield "## What Algorithm 6 spends\n"
    yield (
        "The report charges the noisy bounds of all p features as if they were one. True epsilon "
        "for each claimed epsilon, by formula before anything is saved, and as the ledger "
        "measured it:\n"
    )
    yield markdown_table(honest_epsilons(mixture), 2)
    yield (
        "A run that stops early spends less than the formula; saved budget that is multiplied "
        "again in the children makes it more. *Saving* is the corrected method: bounds charged "
        "for all features, with the sensitivity that is proved (docs/proofs/bound_query.md), held "
        "to epsilon by the ledger.\n"
    )


def _mixture(out: Path, mixture: pd.DataFrame) -> Iterator[str]:
    yield "## Accuracy against epsilon\n"
    yield "Defaults less one site's own tree, in per cent of accuracy, by rows and epsilon:\n"
    yield markdown_table(ahead_table(mixture), 1)
    yield "Mean accuracy by epsilon (zero stands for trees without privacy):\n"
    yield markdown_table(mixture_means(mixture, ["epsilon"]).reset_index())
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
def _shares(shares: pd.DataFrame | None) -> Iterator[str]:
    if shares is None or shares.empty:
        return
    yield "## How to divide the budget (Figure 2)\n"
    (epsilon,) = shares["epsilon"].unique()
    yield (
        f"n = {SHARES_ROWS}, p = {SHARES_FEATURES}, rho = {SHARES_RHO}, depth {SHARES_DEPTH}, "
        f"epsilon {epsilon:g}, {shares['seed'].nunique()} runs; the report does not name its "
        "epsilon. Test accuracy, mean (sample deviation):\n"
    )
    yield markdown_table(share_table(shares))
    yield best_shares(shares)


def _permuted(permuted: pd.DataFrame | None) -> Iterator[str]:
    if permuted is None or permuted.empty:
        return
    yield "## Does saving see anything?\n"
    yield (
        "If savings came from features that are truly worse, there would be less to save when "
        "labels are permuted and no feature is better than another. Mean part of a node's budget "
        f"saved, rho = {PERMUTED_RHO}, depth {PERMUTED_DEPTH}, {permuted['seed'].nunique()} runs:\n"
    )
    yield markdown_table(permuted_table(permuted))
    yield permuted_words(permuted) + (
        " What is saved is mostly decided by noise: noisy bounds drop features at random.\n"
        if not saving_sees_labels(permuted)
        else "\n"
    )


def _real(real: pd.DataFrame | None, peers: pd.DataFrame | None) -> Iterator[str]:
    if real is None or real.empty:
        yield "## Real data\n\nNot run: no data folder was given (`--data DIR`), or no time left.\n"
        return
    yield "## Real data\n"
    yield (
        f"Not in the report. {PARTIES} sites, depth {DEPTH_ON_REAL_DATA}, {BINS} uniform bins, "
        f"all rows, {real['seed'].nunique()} random splits ({TRAIN_PART:.0%} for training). Our "
        "methods carry the noise of the product's defaults for these sites (one may collude, one "
        "may be lost). diffprivlib is a trusted curator; its numbers come from the committed "
        "`diffprivlib.csv`, made by `benchmarks/peers/diffprivlib_trees.py` on rows that miss no "
        "value.\n"
    )
    for delta in (PURE, GAUSSIAN_DELTA):
        for value in ("accuracy", "auc"):
            yield f"### {value}, delta = {delta:g}\n"
            yield markdown_table(real_table(real, peers, value, delta))
    yield "What saving as published spent, at most, for each claimed epsilon:\n"
    printed = real[real["method"] == AS_PRINTED]
    spent = printed.groupby(["data", "epsilon"])["spent"].max().unstack().reset_index()
    yield markdown_table(spent, 2)
    yield "### What each option adds\n"
    yield markdown_table(extras_table(real))


def _limits() -> str:
    return f"""## Limits

* Ranges of mixtures are [{-REACH:g}, {REACH:g}], public. The report's published code reads bin
  edges from the rows of each node, which is neither public nor private; here it is not done.
* *{AS_RELEASED}* is the printed method over sites whose bounds are all zero; its bins are ours.
* *Saving* in every form looks at few histograms per node and stops if all of them show a class
  without rows. With noisy histograms that ends many trees at the root. Nodes of fewer than
  {LEAST_ROWS:g} noisy rows are not split.
* *{AS_PRINTED}* has noise for the sensitivity that is proved, not for the report's larger one,
  which is in its favor.
* All sites' shares of noise are counted on in the mixtures (no colluder), as in the report.
* On real data the range of the whole file is taken as public. A real study must not do that.
"""


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
