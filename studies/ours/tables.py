"""Tables of the study of our own tree, forest and regression."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pandas as pd

from studies.ours.tasks import EVEN_CELLS, PARTIES
from studies.pages import markdown_table

MEASURES = {
    "accuracy": "Accuracy",
    "auc": "AUC (two classes)",
    "log_loss": "Log-loss",
    "ece": "Expected calibration error",
}
OVER_PARTIES = f", {PARTIES} parties"
Tables = Mapping[str, pd.DataFrame]


def named(table: pd.DataFrame) -> pd.DataFrame:
    named = table.copy()
    n_sites = np.where(named["n_sites"] > 1, OVER_PARTIES, "")
    noise = np.where(named["noise"] == "none", "no privacy", named["noise"])
    named["who"] = named["method"] + " (" + noise + n_sites + ")"
    return named


def means(everything: pd.DataFrame, measure: str) -> str:
    """Over the tasks, of each method, with the number of tasks it was measured on."""
    rows = everything.dropna(subset=[measure])
    by_task = rows.groupby(["who", "epsilon", "task_name"])[measure].mean()
    table = by_task.groupby(["who", "epsilon"]).mean().unstack()
    table.columns = [f"{epsilon:g}" for epsilon in table.columns]
    table["tasks"] = rows.groupby("who")["task_name"].nunique()
    return f"**{MEASURES[measure]}**\n\n" + markdown_table(_texts(table.reset_index()))


def _texts(table: pd.DataFrame, decimals: int = 3) -> pd.DataFrame:
    """Numbers as text, nothing where there is none."""
    return table.map(
        lambda v: ("" if np.isnan(v) else f"{v:.{decimals}f}") if isinstance(v, float) else v
    )


def wide(rows: pd.DataFrame, measure: str) -> str:
    """A line per task and method, a column per epsilon."""
    rows = rows.dropna(subset=[measure])
    wide = rows.groupby(["task_name", "who", "epsilon"])[measure].mean().unstack()
    wide = wide.rename(columns=lambda epsilon: f"{epsilon:g}").reset_index()
    return markdown_table(_texts(wide))


def spread(rows: pd.DataFrame, measure: str) -> str:
    stats = rows.groupby(["task_name", "who", "epsilon"])[measure].agg(["mean", "std"])
    text = stats.apply(lambda row: f"{row['mean']:.3f} ± {row['std']:.3f}", axis=1).unstack()
    text.columns = [f"{epsilon:g}" for epsilon in text.columns]
    return markdown_table(text.reset_index().fillna(""))


def numbers(table: pd.DataFrame) -> str:
    means = table.groupby(["task_name", "method", "noise", "epsilon"])["mse"].agg(["mean", "std"])
    every = means.reset_index().rename(columns={"mean": "MSE", "std": "deviation"})
    return markdown_table(_texts(every, 5))


def fresh(tables: Tables) -> str:
    lines = []
    for method in ("tree", "forest"):
        fresh = tables["fresh"][tables["fresh"]["method"] == method]
        seen = tables["classes"]
        seen = seen[(seen["method"] == method) & (seen["noise"] == "gaussian")]
        seen = seen[seen["epsilon"].isin(fresh["epsilon"])]
        if len(seen) and len(fresh):
            lines.append((method, seen["accuracy"].mean(), fresh["accuracy"].mean()))
    names = ["method", "splits used in tuning", "fresh splits"]
    epsilons = ", ".join(f"{e:g}" for e in sorted(tables["fresh"]["epsilon"].unique()))
    return f"Mean accuracy of the tasks at epsilon {epsilons}, Gaussian:\n\n" + markdown_table(
        pd.DataFrame(lines, columns=names)
    )


def pieces(tables: Tables) -> str:
    """The papers' trees, plain and with pieces, beside our own tree on the same splits."""
    table, ours = tables["pieces"], tables["classes"]
    same = [ours[name].isin(table[name]) for name in ("task_name", "seed", "noise", "epsilon")]
    ours = ours[np.logical_and.reduce(same) & (ours["method"] == "tree")]
    rows = pd.concat([table, ours.assign(method="our tree")])
    means = rows.groupby(["noise", "method", "epsilon"])[["accuracy", "log_loss"]].mean()
    wide = means.unstack()
    wide.columns = [f"{name.replace('_', '-')}, {epsilon:g}" for name, epsilon in wide.columns]
    tasks = ", ".join(sorted(table["task_name"].unique()))
    return (
        "Pieces of our own tree switched on in the papers' estimators (`refine` and `lean`): the "
        "budget's division, the order of growth and the charges stay the papers'. Agreeing tables: "
        "the histograms of a node agree on their totals. Leaning leaves: they lean on the nodes "
        "above them. Private bins: cells merged by noisy mass on the fine grid. All pieces: these, "
        "the naive-Bayes prior, screening to ten features and the noise-penalized gain. Mean of "
        f"{tasks}.\n\n" + markdown_table(wide.reset_index())
    )


def ladders(table: pd.DataFrame) -> str:
    means = table.groupby(["task_name", "method", "epsilon"])["auc"].mean().unstack()
    means = means.rename(columns=lambda epsilon: f"AUC, {epsilon:g}")
    return (
        f"The even grid has {EVEN_CELLS} cells of equal width. Ours has an even and a logarithmic "
        f"ladder, "
        "and merges cells by noisy mass.\n\n" + markdown_table(means.reset_index())
    )


def merging(table: pd.DataFrame) -> str:
    columns = ["leaves", "merged_leaves", "accuracy", "merged_accuracy", "log_loss",
               "merged_log_loss"]  # fmt: skip
    means = table.groupby("epsilon")[columns].mean().reset_index()
    return (
        "`merge_equal_labels` turns sibling leaves of one label into one leaf; no predicted class "
        "changes.\n\n" + markdown_table(means)
    )


def traffic(table: pd.DataFrame) -> str:
    wide = named(table).groupby(["who", "epsilon"])[["rounds", "megabytes"]].mean().unstack()
    wide.columns = [f"{name}, {epsilon:g}" for name, epsilon in wide.columns]
    return "Rounds, and megabytes that one party sends and receives.\n\n" + markdown_table(
        _texts(wide.reset_index(), 2)
    )
