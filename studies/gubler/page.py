"""The page of Gubler's study: what holds of the report's claims, and the numbers."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from studies.gubler import findings
from studies.harness import Computation
from studies.pages import curves, markdown_table, write_page

COMMAND = "python -m studies gubler --data DIR"


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
        *_mixture(out, results.mixture),
        *_shares(results.shares),
        *_permuted(results.permuted),
        *_real(results.real, results.peers),
        LIMITS,
    ]
    write_page(
        computation, "README.md", "Gubler's federated private tree", COMMAND + options, parts
    )


def _head(results: Results) -> Iterator[str]:
    yield (
        "Source: H. Gubler, *Secure and Interpretable: Federated Differentially Private Decision "
        "Trees*, EPFL 2023. Algorithm 5 is the plain tree, Algorithm 6 saves budget. Numbers come "
        "from the CSV files beside this page. ± is a standard error over cells (setting, epsilon, "
        "run).\n"
    )
    runs = results.mixture.groupby("depth")["seed"].nunique()
    words = ", ".join(f"{n} at depth {depth}" for depth, n in runs.items())
    yield f"The report averages 50 runs; this page has {words}. `--full` runs all 50.\n"


# -------------------------------------------------------------------------------------- mixtures
def _mixture(out: Path, mixture: pd.DataFrame) -> Iterator[str]:
    yield "## What Algorithm 6 spends\n"
    yield (
        "The report charges the noisy bounds of all p features as if they were one. True epsilon "
        "for each claimed epsilon, by formula before anything is saved, and as the ledger "
        "measured it:\n"
    )
    yield markdown_table(findings.honest_epsilons(mixture), 2)
    yield (
        "A run that stops early spends less than the formula; saved budget that is multiplied "
        "again in the children makes it more. *Saving* below is the repaired method: bounds "
        "charged for all features, sensitivity 1 instead of 5/4, held to epsilon by the ledger.\n"
    )
    yield "## What holds of the report's claims\n"
    yield findings.in_short(mixture) + "\n"
    yield "\n".join(f"* {line}" for line in findings.claims(mixture)) + "\n"
    yield "Defaults less one party's own tree, in points, by rows and epsilon:\n"
    yield markdown_table(findings.ahead_table(mixture), 1)
    yield "Mean accuracy by epsilon (0 stands for trees without privacy):\n"
    yield markdown_table(findings.mixture_means(mixture, ["epsilon"]).fillna("").reset_index())
    yield "## Accuracy against epsilon\n"
    for n in sorted(mixture["n"].unique()):
        part = mixture[mixture["n"] == n]
        curves(out / f"mixture_{n}", _panels(part), "claimed epsilon", "test accuracy")
        yield f"![n = {n}](mixture_{n}.png)\n"


def _panels(part: pd.DataFrame) -> dict[str, dict[str, tuple[list[float], list[float]]]]:
    panels = {}
    for (rho, depth, p), setting in part.groupby(["rho", "depth", "p"]):
        means = setting.groupby(["method", "epsilon"])["accuracy"].mean()
        epsilons = sorted(e for e in setting["epsilon"].unique() if e > 0.0)
        lines = {}
        for method in findings.METHOD_ORDER:
            flat = method in ("local", "centralised")
            at = {e: means.get((method, 0.0 if flat else e)) for e in epsilons}
            known = {e: float(height) for e, height in at.items() if height is not None}
            lines[method] = (list(known), list(known.values()))
        panels[f"rho = {rho}, depth {depth}, p = {p}"] = lines
    return panels


# -------------------------------------------------------------------------------------- the rest
def _shares(shares: pd.DataFrame | None) -> Iterator[str]:
    if shares is None:
        return
    yield "## How to divide the budget (Figure 2)\n"
    yield (
        f"n = 300, p = 10, rho = 0.3, depth 7, epsilon 5, {shares['seed'].nunique()} runs; the "
        "report does not name its epsilon. Test accuracy:\n"
    )
    yield markdown_table(findings.share_table(shares))


def _permuted(permuted: pd.DataFrame | None) -> Iterator[str]:
    if permuted is None:
        return
    yield "## Does saving see anything?\n"
    yield (
        "If savings came from features that are truly worse, there would be less to save when "
        "labels are permuted and no feature is better than another. Mean part of a node's budget "
        f"saved, rho = 0.3, depth 5, {permuted['seed'].nunique()} runs:\n"
    )
    yield markdown_table(findings.permuted_table(permuted))
    yield findings.permuted_words(permuted) + (
        " What is saved is mostly decided by noise: noisy bounds drop features blindly.\n"
        if not findings.saving_sees_labels(permuted)
        else "\n"
    )


def _real(real: pd.DataFrame | None, peers: pd.DataFrame | None) -> Iterator[str]:
    if real is None:
        yield "## Real data\n\nNot run: no data folder was given (`--data DIR`).\n"
        return
    yield "## Real data\n"
    yield (
        f"Five sites, depth 5, 10 uniform bins, {real['seed'].nunique()} random splits (70 % for "
        "training). Our methods carry the noise of the product's defaults for five sites (one may "
        "collude, one may be lost), which has 5/3 of a trusted curator's variance. diffprivlib "
        "0.6.6 is a trusted curator; its numbers come from the committed `diffprivlib.csv`, made "
        "by `benchmarks/peers/diffprivlib_tree.py` on the same splits.\n"
    )
    for delta in (0.0, 1e-6):
        for value in ("accuracy", "auc"):
            yield f"### {value}, delta = {delta:g}\n"
            yield markdown_table(findings.real_table(real, peers, value, delta).fillna(""))
    yield "What *saving as printed* spent, at most, for each claimed epsilon:\n"
    printed = real[real["method"] == "saving as printed"]
    spent = printed.groupby(["data", "epsilon"])["spent"].max().unstack().reset_index()
    yield markdown_table(spent, 2)
    yield "### What each option adds\n"
    yield markdown_table(findings.extras_table(real))


LIMITS = """## Limits

* Few runs: single settings differ by chance by several points. Read the means, not the wiggles.
* Ranges of mixtures are [-4, 4], public. The report's published code reads bin edges from the rows
  of each node, which is neither public nor private; here it is not done.
* In that code (hgubler/federated-private-trees, fc89ef9) a party's own best impurity is, by our
  reading, zero for every feature: it is computed from sums of labels, and the lowest threshold
  leaves one side empty. Its bounds are then noise alone. This page follows the report's text.
* *Saving*, printed or repaired, looks at few histograms per node and stops if all of them show a
  class without rows. With noisy histograms that ends many trees at the root.
* *Saving as printed* has noise for sensitivity 1 instead of 5/4, which is in its favour.
* All sites' shares of noise are counted on in the mixtures (no colluder), as in the report.
* On real data the range of the whole file is taken as public. A real study must not do that.
"""
