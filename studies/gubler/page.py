"""The page of Gubler's study: what holds of the report's claims, and the numbers."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from studies.claims import section
from studies.gubler import findings
from studies.gubler.claims import claims
from studies.gubler.findings import GAUSSIAN_DELTA, PURE
from studies.gubler.fits import (
    DEPTH_ON_REAL_DATA,
    LEAST_ROWS,
    PERMUTED_DEPTH,
    PERMUTED_RHO,
    SHARES_DEPTH,
    SHARES_FEATURES,
    SHARES_RHO,
    SHARES_ROWS,
    TRAIN_PART,
)
from studies.gubler.methods import AS_PRINTED, AS_RELEASED
from studies.gubler.mixture import BINS, PARTIES, REACH
from studies.gubler.paper import REPEATED_AT, RUNS
from studies.harness import Computation
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
        section(claims(results.mixture)),
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
        "(hgubler/federated-private-trees, fc89ef9) a party's own best impurity is always zero, so "
        "its noisy bounds are noise alone: *as released*. With the bound of the report's text put "
        "into that code, it loses to its own plain tree too: that *as printed* loses here is no "
        "fault of this implementation.\n"
    )
    yield markdown_table(findings.beside_the_author(mixture))


def _spent(mixture: pd.DataFrame) -> Iterator[str]:
    yield "## What Algorithm 6 spends\n"
    yield (
        "The report charges the noisy bounds of all p features as if they were one. True epsilon "
        "for each claimed epsilon, by formula before anything is saved, and as the ledger "
        "measured it:\n"
    )
    yield markdown_table(findings.honest_epsilons(mixture), 2)
    yield (
        "A run that stops early spends less than the formula; saved budget that is multiplied "
        "again in the children makes it more. *Saving* is the method made sound: bounds charged "
        "for all features, with the sensitivity that is proved (docs/proofs/bound_query.md), held "
        "to epsilon by the ledger.\n"
    )


def _mixture(out: Path, mixture: pd.DataFrame) -> Iterator[str]:
    yield "## Accuracy against epsilon\n"
    yield "Defaults less one party's own tree, in per cent of accuracy, by rows and epsilon:\n"
    yield markdown_table(findings.ahead_table(mixture), 1)
    yield "Mean accuracy by epsilon (zero stands for trees without privacy):\n"
    yield markdown_table(findings.mixture_means(mixture, ["epsilon"]).reset_index())
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
        for method in findings.METHOD_ORDER:
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
    yield markdown_table(findings.share_table(shares))
    yield findings.best_shares(shares)


def _permuted(permuted: pd.DataFrame | None) -> Iterator[str]:
    if permuted is None or permuted.empty:
        return
    yield "## Does saving see anything?\n"
    yield (
        "If savings came from features that are truly worse, there would be less to save when "
        "labels are permuted and no feature is better than another. Mean part of a node's budget "
        f"saved, rho = {PERMUTED_RHO}, depth {PERMUTED_DEPTH}, {permuted['seed'].nunique()} runs:\n"
    )
    yield markdown_table(findings.permuted_table(permuted))
    yield findings.permuted_words(permuted) + (
        " What is saved is mostly decided by noise: noisy bounds drop features blindly.\n"
        if not findings.saving_sees_labels(permuted)
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
        "`diffprivlib.csv`, made by `benchmarks/peers/diffprivlib_tree.py` on rows without missing "
        "values.\n"
    )
    for delta in (PURE, GAUSSIAN_DELTA):
        for value in ("accuracy", "auc"):
            yield f"### {value}, delta = {delta:g}\n"
            yield markdown_table(findings.real_table(real, peers, value, delta))
    yield "What *saving as printed* spent, at most, for each claimed epsilon:\n"
    printed = real[real["method"] == AS_PRINTED]
    spent = printed.groupby(["data", "epsilon"])["spent"].max().unstack().reset_index()
    yield markdown_table(spent, 2)
    yield "### What each option adds\n"
    yield markdown_table(findings.extras_table(real))


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
