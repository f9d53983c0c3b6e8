"""The page of `python -m studies which`, read off its tables alone."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from itertools import chain, product
from typing import Any

import pandas as pd

from studies.boosted_fits import (
    DEFAULT,
    DEFAULT_SETS,
    SHARES_PARTIES,
    TITLES,
    fit_lightgbm,
    fit_stage,
)
from studies.boosted_fits import work as fit_default
from studies.claims import Lead, lead
from studies.harness import Cell, Computation, Work
from studies.ours import NO_GUARANTEE, cells
from studies.ours_fits import DELTA, NUMBERS, SMALL_UNSEEN, fit_classes, fit_numbers
from studies.pages import markdown_table, write_page

KEYS = ["dataset", "epsilon", "n_sites", "split"]
OTHERS = {"against DP-EBM": "dp_ebm", "against diffprivlib": "diffprivlib"}
"""Tables beside ours, by the column that compares; a peer has one site."""
CLOSE = 0.01  # as good as the best
TARGET = {3.0: 0.005, 8.0: 0.003, 100.0: 0.003, math.inf: 0.003}
"""How far below LightGBM the default may be."""

Tables = Mapping[str, pd.DataFrame]


def write(computation: Computation, tables: Tables, command: str) -> None:
    others = {
        title: found
        for title, name in OTHERS.items()
        if (found := computation.kept.frame(name)) is not None
    }
    limits = tables["limits"].reindex(columns=["dataset", "split", "auc"])
    sections: dict[str, Callable[[pd.DataFrame], str]] = {
        "classes": _classes,
        "numbers": _numbers,
        "fresh": partial(_fresh, limits=limits, others=others),
        "surfaces": _surfaces,
    }
    parts = [section(tables[name]) for name, section in sections.items() if len(tables[name])]
    write_page(computation, "README.md", "Which estimator?", command, parts)


# ---------------------------------------------------------------------------------------- tasks
def _classes(table: pd.DataFrame) -> str:
    rows = standing_of_classes(table)
    return (
        "## Classes\n\nAUC where there are two classes, accuracy where there are more; delta "
        f"{DELTA:g}; "
        f"mean of {_repeats(table)}. *take*: the best of ours, and what is within {CLOSE} of it. "
        "HistGB: scikit-learn's gradient boosting without privacy, on the same public grid.\n\n"
        + markdown_table(pd.DataFrame(rows))
    )


def _numbers(table: pd.DataFrame) -> str:
    rows = standing_of_numbers(table)
    return (
        "## Numbers\n\nR2 against the training rows' mean: below zero is worse than no model. "
        f"Mean of {_repeats(table)}.\n\n" + markdown_table(pd.DataFrame(rows))
    )


def standing_of_classes(table: pd.DataFrame) -> list[dict[str, Any]]:
    """AUC of two classes, accuracy of more."""
    score = table["auc"].fillna(table["accuracy"])
    means = _means(table.assign(score=score))
    is_two = table.groupby("task_name")["auc"].apply(lambda auc: bool(auc.notna().all()))
    return [
        _row(name, epsilon, means, "AUC" if is_two[name] else "accuracy")
        for name, epsilon in _asked(means)
    ]


def standing_of_numbers(table: pd.DataFrame) -> list[dict[str, Any]]:
    """1 - error / error of the mean: R2 on the test rows."""
    plain = _of(table, "mean").groupby(["task_name", "seed"])["mse"].first()
    keys = pd.MultiIndex.from_frame(table[["task_name", "seed"]])
    table = table.assign(score=1.0 - table["mse"].to_numpy() / plain.reindex(keys).to_numpy())
    means = _means(table)
    return [_row(name, epsilon, means, "R2") for name, epsilon in _asked(means)]


def _of(table: pd.DataFrame, method: str) -> pd.DataFrame:
    return table[table["method"] == method]


def _repeats(table: pd.DataFrame) -> str:
    n = table["seed"].nunique()
    return "one split" if n == 1 else f"{n} splits"


def _means(table: pd.DataFrame) -> pd.Series:
    return table.groupby(["task_name", "epsilon", "method"], sort=False)["score"].mean()


def _asked(means: pd.Series) -> list[tuple[str, float]]:
    found = dict.fromkeys((name, epsilon) for name, epsilon, _ in means.index)
    return sorted((n, e) for n, e in found if math.isfinite(e))


def _row(name: str, epsilon: float, means: pd.Series, measure: str) -> dict[str, Any]:
    ours = {
        m: float(means.get((name, epsilon, m), math.nan)) for m in ("boosted", "forest", "tree")
    }
    limit = float(means.get((name, math.inf, "HistGB"), math.nan))
    best = max((v for v in ours.values() if not math.isnan(v)), default=math.nan)
    take = ", ".join(m for m, v in ours.items() if v >= best - CLOSE)
    shown: dict[str, Any] = {"data": name, "measure": measure, "epsilon": epsilon, **ours}
    return {**shown, "take": take, "HistGB": limit, "lost": limit - best}


# ---------------------------------------------------------------------------------- fresh splits
def _fresh(now: pd.DataFrame, limits: pd.DataFrame, others: Tables) -> str:
    rows = []
    groups = now.groupby(["dataset", "n_sites", "epsilon"], sort=False)
    for dataset, n_sites, epsilon in sorted(groups.groups, key=_in_order):
        mine = groups.get_group((dataset, n_sites, epsilon))
        plain, gap = _limit(mine, limits)
        rows.append(
            {
                **_place(dataset, n_sites, epsilon),
                "AUC": f"{mine['auc'].mean():.4f}",
                "splits": len(mine),
                **{title: _lead(mine, other).shown(4) for title, other in others.items()},
                "log-loss": f"{mine['log_loss'].mean():.4f}",
                "LightGBM": f"{plain:.4f}",
                "below it": f"{gap:+.4f}{_verdict(epsilon, n_sites, gap)}",
                "rounds": f"{mine['rounds'].max():.0f}",
            }
        )
    return (
        "## The default classifier on fresh splits\n\nAUC; delta is one over the rows, for "
        "comparison only. "
        "*against DP-EBM*, *against diffprivlib*: InterpretML's "
        "private boosting and diffprivlib's forest with one site, by benchmarks/peers, on the "
        "same rows (their delta: one over the rows, and none): mean difference with the standard "
        "error of the pairs and their number. LightGBM: defaults, no privacy, the "
        'same rows. *no noise*: `dp_model="none"`.\n\n' + markdown_table(pd.DataFrame(rows))
    )


def _place(dataset: str, n_sites: int, epsilon: float) -> dict[str, Any]:
    shown = "no noise" if math.isinf(epsilon) else f"{epsilon:g}"
    return {"data": TITLES[dataset], "sites": n_sites, "epsilon": shown}


# -------------------------------------------------------------------------------------- surfaces
def paired(table: pd.DataFrame) -> pd.DataFrame:
    """Cells with surfaces beside the same cells without them (`_before`)."""
    sides = [table[table["surfaces"] == on] for on in (1, 0)]
    return sides[0].merge(sides[1], on=KEYS, suffixes=("", "_before"))


def _surfaces(table: pd.DataFrame) -> str:
    rows, worse, compared = [], [], []
    groups = paired(table).groupby(["dataset", "n_sites", "epsilon"], sort=False)
    for dataset, n_sites, epsilon in sorted(groups.groups, key=_in_order):
        mine = groups.get_group((dataset, n_sites, epsilon))
        gains = {m: lead(mine[m] - mine[f"{m}_before"]) for m in ("auc", "log_loss")}
        if gains["auc"].n > 1:
            compared.append(gains["auc"])
        if _is_behind(gains["auc"]):
            worse.append(f"{TITLES[dataset]} at epsilon {epsilon:g} ({n_sites} sites)")
        rows.append(
            {
                **_place(dataset, n_sites, epsilon),
                "without": f"{mine['auc_before'].mean():.4f}",
                "with": f"{mine['auc'].mean():.4f}",
                "difference": gains["auc"].shown(4),
                "of log-loss": gains["log_loss"].shown(4),
                "rounds": f"{mine['rounds_before'].max():.0f}, {mine['rounds'].max():.0f}",
                "seconds": f"{mine['seconds_before'].mean():.2f}, {mine['seconds'].mean():.2f}",
            }
        )
    return (
        "## With and without surfaces\n\nTest AUC of the default, and of the default before it "
        "learned curves and surfaces by gradient descent, on the same splits; noise is drawn anew "
        "for each. Rounds and processor seconds: without, with. "
        f"Clearly worse, by more than two standard errors: {'; '.join(worse) or 'none'}; "
        f"{len(worse)} of {len(compared)} cells. With few pairs an error is itself little known: "
        f"where nothing has changed, chance alone puts "
        f"{sum(map(_behind_by_chance, compared)):.1f} there and as many clearly ahead.\n\n"
        + markdown_table(pd.DataFrame(rows))
    )


def _in_order(key: tuple[str, int, float]) -> tuple[int, int, float]:
    dataset, n_sites, epsilon = key
    return n_sites, list(TITLES).index(dataset), epsilon


def _verdict(epsilon: float, n_sites: int, gap: float) -> str:
    goal = TARGET.get(epsilon)
    if goal is None or n_sites > 1:
        return ""
    return " held" if gap <= goal else f" (goal {goal})"


def _limit(mine: pd.DataFrame, limits: pd.DataFrame) -> tuple[float, float]:
    """AUC of LightGBM and how far ours is below, on the splits that both were run on."""
    both = mine.merge(limits, on=["dataset", "split"], suffixes=("", "_limit"))
    return float(both["auc_limit"].mean()), float((both["auc_limit"] - both["auc"]).mean())


def _lead(mine: pd.DataFrame, other: pd.DataFrame) -> Lead:
    """How far ours is ahead of another on the splits that both were run on."""
    both = mine.merge(other, on=[key for key in KEYS if key in other], suffixes=("", "_other"))
    return lead(both["auc"] - both["auc_other"])


BEHIND = 2.0
"""Standard errors."""


def _is_behind(found: Lead) -> bool:
    return found.n > 1 and found.mean < -BEHIND * found.error


def _behind_by_chance(found: Lead) -> float:
    """How often so many pairs of equals, two at least, are that far behind: Student's t."""
    from scipy.stats import t

    return float(t.sf(BEHIND, found.n - 1))


# --------------------------------------------------------------------------------------------------
# `python -m studies which`: which estimator for which data, and what noise costs.
#
# Four grids: our three estimators on tasks of classes and of numbers at a few epsilons; the
# default classifier on splits that no constant was chosen on, and with and without its surfaces on
# others of these; LightGBM without privacy. Beside them lie peers on the same splits
# (benchmarks/peers), which are compared cell by cell.
FIRST_SPLIT = 800  # no choice was ever made on the splits from here on
EPSILONS = (8.0, 1.0, 3.0, 0.1, 0.5, 100.0)
OURS = ("boosted", "forest", "tree")
TASKS = (
    "adult",
    "bank",
    "spambase",
    "banknote",
    "skin",
    "avazu_15k",
    "breast_cancer",
    "waveform",
    "wall_robot",
    "wine",
    "digits",
    "letter",
    "puc_rio_har",
)
FIRST_STAGE_SPLIT, STAGE_SPLITS = 960, 10  # surfaces were decided on splits 710 to 729
STAGE_EPSILONS = (1.0, 3.0, 0.5, 8.0, 0.1)
TASK_SEED = 40  # of splits that no page uses
TASK_EPSILONS = (1.0, 0.1, 8.0)


@dataclass(frozen=True)
class Wanted:
    """How much of the grids: splits of the default classifier, and of every task."""

    splits: int
    tasks: int
    quick: bool


def files(wanted: Wanted) -> tuple[str, ...]:
    """Parquet files; the bundled sets need none."""
    classes = {str(cell["task_name"]) for cell in class_cells(wanted.tasks, wanted.quick)}
    numbers = {str(cell["task_name"]) for cell in number_cells(wanted.tasks, wanted.quick)}
    sets = DEFAULT_SETS[-2:] if wanted.quick else DEFAULT_SETS
    return tuple(sorted({*sets, *classes, *numbers} - {*SMALL_UNSEEN}))


def run(computation: Computation, wanted: Wanted) -> None:
    tables = computation.tables(_jobs(wanted))
    options = f"--splits {wanted.splits} --tasks {wanted.tasks}"
    write(computation, tables, f"python -m studies which {options} --data DIR")


def _jobs(wanted: Wanted) -> dict[str, tuple[Work, list[Cell]]]:
    """By the name of the table: what makes a cell, and the cells."""
    sets = DEFAULT_SETS[-2:] if wanted.quick else DEFAULT_SETS
    limits: list[Cell] = [
        {"dataset": name, "split": split} for split, name in product(_splits(wanted.splits), sets)
    ]
    return {
        "limits": (fit_lightgbm, limits),
        "fresh": (fit_default, list(fresh_cells(wanted.splits, sets))),
        "surfaces": (fit_stage, stage_cells(1 if wanted.quick else STAGE_SPLITS, sets)),
        "classes": (fit_classes, class_cells(wanted.tasks, wanted.quick)),
        "numbers": (fit_numbers, number_cells(wanted.tasks, wanted.quick)),
    }


def _splits(wanted: int) -> range:
    return range(FIRST_SPLIT, FIRST_SPLIT + wanted)


def fresh_cells(splits: int, names: tuple[str, ...]) -> Iterator[Cell]:
    """Split by split, one site before five, so that a run cut short has whole tables.

    Without noise last, with one site: with more of them the sums are the same.
    """
    of_all = product((1, SHARES_PARTIES), _splits(splits), EPSILONS, names)
    for n_sites, split, epsilon, name in chain(
        of_all, product((1,), _splits(splits), NO_GUARANTEE, names)
    ):
        yield {
            "dataset": name,
            "learner": DEFAULT,
            "epsilon": epsilon,
            "n_sites": n_sites,
            "split": split,
        }


def stage_cells(splits: int, names: tuple[str, ...]) -> list[Cell]:
    """Pairs with and without surfaces, split by split."""
    seeds = range(FIRST_STAGE_SPLIT, FIRST_STAGE_SPLIT + splits)
    grid = product(seeds, (1, SHARES_PARTIES), STAGE_EPSILONS, names, (1, 0))
    return [
        {"dataset": d, "surfaces": on, "epsilon": e, "n_sites": n, "split": split}
        for split, n, e, d, on in grid
    ]


def class_cells(splits: int, quick: bool) -> list[Cell]:
    names, seeds = TASKS[2:4] if quick else TASKS, range(TASK_SEED, TASK_SEED + splits)
    epsilons = TASK_EPSILONS[:1] if quick else TASK_EPSILONS
    return [
        *cells(seeds, names, OURS, ("gaussian",), epsilons),
        *cells(seeds, names, ("HistGB",), ("none",), NO_GUARANTEE),
    ]


def number_cells(splits: int, quick: bool) -> list[Cell]:
    names, seeds = NUMBERS[:1] if quick else NUMBERS, range(TASK_SEED, TASK_SEED + splits)
    epsilons = TASK_EPSILONS[:1] if quick else TASK_EPSILONS
    return [
        *cells(seeds, names, OURS, ("gaussian",), epsilons),
        *cells(seeds, names, ("mean", "HistGB"), ("none",), NO_GUARANTEE),
    ]
