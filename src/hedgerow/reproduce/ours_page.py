"""The page of the study of our own tree, forest and regression. What is missed is said."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pandas as pd

from hedgerow.reproduce.pages import curves, markdown_table, write_page

COMMAND = "hedgerow reproduce ours --data DIR"
MEASURES = {
    "accuracy": "Accuracy",
    "auc": "AUC (two classes)",
    "log_loss": "Log-loss",
    "ece": "Expected calibration error",
}
ACCURACY_TARGETS = {
    ("tree", "gaussian"): (0.645, 0.770, 0.797, 0.808, 0.820),
    ("tree", "pure"): (0.597, 0.685, 0.747, 0.783, 0.800),
    ("forest", "gaussian"): (0.655, 0.797, 0.829, 0.847, 0.861),
    ("forest", "pure"): (0.606, 0.725, 0.785, 0.821, 0.846),
}
ADULT_TARGETS = {("accuracy", 0.5): 0.818, ("accuracy", 1.0): 0.825, ("accuracy", 2.0): 0.833,
                 ("auc", 1.0): 0.868}  # fmt: skip
NUMBER_TARGETS = {
    ("parkinsons", 10.0): 0.0085,
    ("appliances_energy", 10.0): 0.0080,
    ("metro_traffic", 10.0): 0.0049,
    ("gas_turbine", 10.0): 0.00033,
    ("parkinsons", 1.0): 0.048,
    ("appliances_energy", 1.0): 0.0088,
    ("metro_traffic", 1.0): 0.0054,
    ("gas_turbine", 1.0): 0.00090,
}
PRIVATREE = {0.5: (0.810, 0.684), 1.0: (0.817, 0.691), 2.0: (0.818, 0.695)}
"""PrivaTree on adult: accuracy and AUC as published; it counts features as parallel."""
DIPRIME = {"parkinsons": 0.0330, "appliances_energy": 0.00846, "metro_traffic": 0.0247,
           "gas_turbine": 0.000812}  # fmt: skip
"""Best of DiPriMe's Table 1 at a claimed epsilon of 10; its true bound is up to 1.9 times that."""

N_TASKS = 11
"""A split counts only if all tasks were measured on it."""

Tables = Mapping[str, pd.DataFrame]


def write(out: Path, tables: Tables) -> None:
    peers = _peers(out)
    everything = pd.concat(
        [_named(tables["classes"]), _named(tables["parties"]), _named(tables["baselines"]), peers]
    )
    parts = [
        _how(tables),
        "## Against the targets\n",
        _targets(tables["classes"]),
        _adult(everything),
        "## Mean over the tasks\n",
        *(_means(everything, measure) for measure in MEASURES),
        "![Mean accuracy](accuracy.png)\n",
        "## Numbers\n",
        _numbers(tables["numbers"]),
        "## Tasks and splits on which no constant was chosen\n",
        _unseen(pd.concat([_named(tables["unseen"]), peers])),
        _fresh(tables),
        "## Heavy-tailed columns\n",
        _ladders(tables["ladders"]),
        "## Smaller trees\n",
        _merging(tables["merging"]),
        "## What travels\n",
        _traffic(pd.concat([tables["classes"], tables["parties"]])),
        "## Speed\n",
        _speed(out),
        "## Every task\n",
        _every_task(tables["classes"]),
    ]
    _figure(out, everything)
    write_page(out / "README.md", "Our own tree, forest and regression", COMMAND, parts)


# --------------------------------------------------------------------------------------- naming
def _named(table: pd.DataFrame) -> pd.DataFrame:
    named = table.copy()
    parties = np.where(named["parties"] > 1, ", 5 parties", "")
    noise = np.where(named["noise"] == "none", "no privacy", named["noise"])
    named["who"] = named["method"] + " (" + noise + parties + ")"
    return named


def _peers(out: Path) -> pd.DataFrame:
    """Results of diffprivlib, made by its own script in its own environment."""
    path = out / "diffprivlib.csv"
    if not path.exists():
        return pd.DataFrame(columns=["task_name", "epsilon", "who", "accuracy", "log_loss"])
    peers = pd.read_csv(path)
    peers["who"] = "diffprivlib " + peers["method"] + " (pure)"
    return peers


def _how(tables: Tables) -> str:
    repeats = {name: table["seed"].nunique() for name, table in tables.items()}
    return (
        "Test rows are 30 % (10 % for numbers) of a random split. All fits go through the integer "
        "pipeline: grid, exact integer sums, discrete noise from the operating system, ledger. "
        "Gaussian means delta = 1e-6, pure means delta = 0. One holder unless a row says 5 "
        "parties: then noise is divided among them and only masked sums are seen.\n\n"
        "Splits per cell: "
        + ", ".join(f"{name} {n}" for name, n in repeats.items())
        + ". Noise cannot be seeded, so a second run gives slightly different numbers.\n"
    )


# --------------------------------------------------------------------------------------- tables
def _targets(classes: pd.DataFrame) -> str:
    lines = []
    for (method, noise), wanted in ACCURACY_TARGETS.items():
        rows = classes[(classes["method"] == method) & (classes["noise"] == noise)]
        splits = rows.groupby(["epsilon", "seed"])["accuracy"].agg(["mean", "count"])
        whole = splits[splits["count"] == N_TASKS]
        by_split = whole["mean"].groupby("epsilon")
        got, error, n = by_split.mean(), by_split.sem(), by_split.count()
        for epsilon, target in zip((0.1, 0.5, 1.0, 2.0, 5.0), wanted, strict=True):
            if epsilon in got.index:
                met = "yes" if got[epsilon] >= target else "NO"
                lines.append((f"{method} ({noise})", f"{epsilon:g}", int(n[epsilon]),
                              got[epsilon], float(error[epsilon]), target, met))  # fmt: skip
    names = ["method", "epsilon", "splits", "mean accuracy", "standard error", "target", "met"]
    missed = sum(line[-1] == "NO" for line in lines)
    said = f"{len(lines) - missed} of {len(lines)} targets of mean accuracy are met.\n\n"
    return said + markdown_table(pd.DataFrame(lines, columns=names))


def _adult(everything: pd.DataFrame) -> str:
    adult = everything[everything["task_name"] == "adult"]
    if adult.empty:
        return ""
    means = adult.groupby(["who", "epsilon"])[["accuracy", "auc", "log_loss", "ece"]].mean()
    lines = [
        (measure, f"{epsilon:g}", float(means.loc[("tree (gaussian)", epsilon), measure]), target)
        for (measure, epsilon), target in ADULT_TARGETS.items()
        if ("tree (gaussian)", epsilon) in means.index
    ]
    table = pd.DataFrame(lines, columns=["adult, tree (gaussian)", "epsilon", "ours", "target"])
    table["met"] = np.where(table["ours"] >= table["target"], "yes", "NO")
    published = "; ".join(
        f"epsilon {e:g}: {accuracy:.3f} / {auc:.3f}" for e, (accuracy, auc) in PRIVATREE.items()
    )
    shown = means.reset_index()
    shown = shown[shown["epsilon"].isin([0.5, 1.0, 2.0, np.inf])].sort_values(["epsilon", "who"])
    return (
        markdown_table(table)
        + f"\nPrivaTree as published, accuracy / AUC on a split of its own: {published}. It counts "
        "features as parallel, so its true epsilon is larger.\n\n" + markdown_table(shown)
    )


def _means(everything: pd.DataFrame, measure: str) -> str:
    """Over the tasks, of each method, with the number of tasks it was measured on."""
    rows = everything.dropna(subset=[measure])
    rows = rows[~rows["task_name"].isin(_only_unseen(everything))]
    by_task = rows.groupby(["who", "epsilon", "task_name"])[measure].mean()
    table = by_task.groupby(["who", "epsilon"]).mean().unstack()
    table.columns = [f"{epsilon:g}" for epsilon in table.columns]
    table["tasks"] = rows.groupby("who")["task_name"].nunique()
    return f"**{MEASURES[measure]}**\n\n" + markdown_table(_texts(table.reset_index()))


def _only_unseen(everything: pd.DataFrame) -> set[str]:
    ours = set(everything[everything["who"] == "tree (gaussian)"]["task_name"])
    return set(everything["task_name"]) - ours


def _texts(table: pd.DataFrame, decimals: int = 3) -> pd.DataFrame:
    """Numbers as text, nothing where there is none."""
    return table.map(
        lambda v: ("" if np.isnan(v) else f"{v:.{decimals}f}") if isinstance(v, float) else v
    )


def _numbers(table: pd.DataFrame) -> str:
    means = table.groupby(["task_name", "method", "noise", "epsilon"])["mse"].agg(["mean", "std"])
    lines = []
    for (task, epsilon), target in NUMBER_TARGETS.items():
        if (task, "boosted", "gaussian", epsilon) in means.index:
            got = float(means.loc[(task, "boosted", "gaussian", epsilon), "mean"])
            lines.append((task, f"{epsilon:g}", f"{got:.5f}", f"{target:.5f}",
                          "yes" if got <= target else "NO"))  # fmt: skip
    names = ["task", "epsilon", "boosted (gaussian), MSE", "target", "met"]
    theirs = ", ".join(f"{task} {mse:g}" for task, mse in DIPRIME.items())
    every = means.reset_index().rename(columns={"mean": "MSE", "std": "deviation"})
    return (
        "Mean squared error, target scaled to [0, 1].\n\n"
        + markdown_table(pd.DataFrame(lines, columns=names))
        + f"\nBest of DiPriMe as published at a claimed epsilon of 10: {theirs}.\n\n"
        + markdown_table(_texts(every, 5))
    )


def _unseen(table: pd.DataFrame) -> str:
    tasks = sorted(set(table[table["who"] == "tree (gaussian)"]["task_name"]))
    rows = table[table["task_name"].isin(tasks)]
    wide = rows.groupby(["task_name", "who", "epsilon"])["accuracy"].mean().unstack()
    gaps = pd.DataFrame(
        [
            (task, f"{method} ({noise})", _lost(wide.loc[task], method, noise))
            for task in tasks
            for noise in ("gaussian", "pure")
            for method in ("tree", "forest")
        ],
        columns=["task", "ours", "epsilon (by how much)"],
    )
    auc = rows.dropna(subset=["auc"]).groupby(["task_name", "who", "epsilon"])["auc"].mean()
    return (
        "Where ours has a lower accuracy than the best of Algorithm 5, LocalRNM and diffprivlib "
        "under a promise at least as strong. Wine has 125 training rows, breast_cancer 399 and "
        "digits 1,258 with 64 features: there noise hides most of the root tables, and "
        "diffprivlib, which spends nothing on splits, or ten even bins can win. On avazu_15k and "
        "credit_gmsc all are close to the share of the larger class; the AUC below tells them "
        "apart.\n\n"
        + markdown_table(gaps)
        + "\n**Accuracy**\n\n"
        + markdown_table(_by_epsilon(wide))
        + "\n**AUC**\n\n"
        + markdown_table(_by_epsilon(auc.unstack()))
    )


def _by_epsilon(wide: pd.DataFrame) -> pd.DataFrame:
    named = wide.rename(columns=lambda epsilon: f"{epsilon:g}")
    return _texts(named.reset_index())


def _lost(accuracy: pd.DataFrame, method: str, noise: str) -> str:
    """Pure rivals keep the weaker promise too, so a Gaussian method must beat all of them."""
    names = ("Algorithm 5", "LocalRNM", "diffprivlib")
    rivals = [
        who for who in accuracy.index
        if who.startswith(names) and (noise == "gaussian" or "pure" in who)
    ]  # fmt: skip
    if f"{method} ({noise})" not in accuracy.index or not rivals:
        return "not measured"
    gap = accuracy.loc[f"{method} ({noise})"] - accuracy.loc[rivals].max()
    return ", ".join(f"{e:g} ({-g:.3f})" for e, g in gap.items() if g < 0) or "nowhere"


def _fresh(tables: Tables) -> str:
    lines = []
    for method in ("tree", "forest"):
        fresh = tables["fresh"][tables["fresh"]["method"] == method]
        seen = tables["classes"]
        seen = seen[(seen["method"] == method) & (seen["noise"] == "gaussian")]
        seen = seen[seen["epsilon"].isin(fresh["epsilon"])]
        if len(seen) and len(fresh):
            lines.append((method, seen["accuracy"].mean(), fresh["accuracy"].mean()))
    names = ["method", "splits used in tuning", "fresh splits"]
    return "\nMean accuracy of the tasks at epsilon 1, Gaussian:\n\n" + markdown_table(
        pd.DataFrame(lines, columns=names)
    )


def _ladders(table: pd.DataFrame) -> str:
    means = table.groupby(["task_name", "method", "epsilon"])[["accuracy", "auc", "log_loss"]]
    return (
        "The even grid has 254 cells of equal width. Ours has an even and a logarithmic ladder, "
        "and merges cells by noisy mass.\n\n" + markdown_table(means.mean().reset_index())
    )


def _merging(table: pd.DataFrame) -> str:
    columns = ["leaves", "merged_leaves", "accuracy", "merged_accuracy", "log_loss",
               "merged_log_loss"]  # fmt: skip
    means = table.groupby("epsilon")[columns].mean().reset_index()
    return (
        "`merge_equal_labels` turns sibling leaves of one label into one leaf; no predicted class "
        "changes.\n\n" + markdown_table(means)
    )


def _traffic(table: pd.DataFrame) -> str:
    named = _named(table)
    means = named.groupby(["who", "epsilon"])[["rounds", "megabytes"]].mean().reset_index()
    return "Rounds, and megabytes that one party sends and receives.\n\n" + markdown_table(means)


def _speed(out: Path) -> str:
    """Measured by `python -m benchmarks.run ours`, which needs XGBoost."""
    path = out / "speed.csv"
    if not path.exists():
        return "Not measured here; see `python -m benchmarks.run ours`.\n"
    speed = pd.read_csv(path)
    speed["ratio"] = speed["cpu_seconds"] / speed["xgboost_cpu_seconds"]
    speed["met"] = np.where(speed["ratio"] <= speed["target_ratio"], "yes", "NO")
    return (
        "A whole fit on 1,000,000 x 30 rows, one thread, CPU seconds on a shared machine, beside "
        "XGBoost with 100 trees of depth 6 (`python -m benchmarks.run ours`).\n\n"
        + markdown_table(speed)
    )


def _every_task(classes: pd.DataFrame) -> str:
    named = _named(classes)
    stats = named.groupby(["task_name", "who", "epsilon"])["accuracy"].agg(["mean", "std"])
    text = stats.apply(lambda row: f"{row['mean']:.3f} +- {row['std']:.3f}", axis=1).unstack()
    text.columns = [f"{epsilon:g}" for epsilon in text.columns]
    return markdown_table(text.reset_index().fillna(""))


def _figure(out: Path, everything: pd.DataFrame) -> None:
    rows = everything[np.isfinite(everything["epsilon"].astype(float))]
    rows = rows[~rows["task_name"].isin(_only_unseen(everything))]
    panels = {}
    for title, measure in (("mean accuracy", "accuracy"), ("mean log-loss", "log_loss")):
        means = rows.groupby(["who", "epsilon"])[measure].mean()
        panels[title] = {
            who: (list(line.index.get_level_values("epsilon")), list(line.to_numpy()))
            for who, line in means.groupby("who")
        }
    curves(out / "accuracy", panels, "epsilon", "", columns=2)
