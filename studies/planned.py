"""`python -m studies planned`: does a plan name the estimator that turns out best?

A plan sees the schema, the number of records and epsilon, and no row. Its recommendation is held
against the test AUC of our three estimators on real data with two classes, or with classes that
were gathered to two. What `hedgerow.plan` prefers was decided on splits from 900 on; the page has
those from 0 on.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from itertools import product
from typing import Any

import numpy as np
import pandas as pd
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import train_test_split

import hedgerow as hr
from hedgerow.methods.plan import OWN_METHODS, preferred_names
from studies.harness import Cell, Computation
from studies.ours_fits import Task, task
from studies.pages import markdown_table, write_page

MOST_ROWS = 8_000
TEST_PART = 0.25
EPSILONS = (1.0, 0.1, 8.0)
NEAR, GOAL = 0.01, 0.9
TITLE = "Does a plan name the best estimator?"
ESTIMATORS = tuple(f"{name}Classifier" for name in OWN_METHODS)
GATHERED: dict[str, Any] = {
    "letter": lambda y: y <= "M",
    "puc_rio_har": lambda y: y == "sitting",
    "wall_robot": lambda y: y != "Move-Forward",
    "waveform": lambda y: y == "0",
}
"""How more classes become two. kddcup99 is left out for its copies of rows, mnist for its width."""
TASKS = (
    *("adult", "bank", "credit_gmsc", "credit_default", "higgs_18k", "skin", "avazu_15k"),
    *("spambase", "banknote", *GATHERED),
)


def files(quick: bool) -> tuple[str, ...]:
    return TASKS[-1:] if quick else TASKS


def run(computation: Computation, splits: int, quick: bool) -> None:
    names = files(quick)
    tables = computation.tables(
        {
            "cells": (measured, cells(range(splits), names)),
            "plans": (plan_of, [{"dataset": name} for name in names]),
        }
    )
    table, taken = tables["cells"], taken_by(tables["plans"])
    command = f"python -m studies planned --splits {splits} --data DIR"
    write_page(computation, "README.md", TITLE, command, page(table, taken))


def cells(splits: range, names: tuple[str, ...]) -> list[Cell]:
    """Split by split, so that a run cut short has whole tables."""
    grid = product(splits, EPSILONS, names, ESTIMATORS)
    return [dict(zip(("split", "epsilon", "dataset", "estimator"), c, strict=True)) for c in grid]


@cache
def some_rows(dataset: str) -> Task:
    """At most so many rows, always the same ones."""
    whole = task(dataset)
    some = np.random.default_rng(0).permutation(len(whole.y))[:MOST_ROWS]
    X, y = whole.X.iloc[some].reset_index(drop=True), whole.y[some]
    if dataset in GATHERED:
        y = np.where(GATHERED[dataset](y.astype(str)), "yes", "no").astype(object)
    return Task(X, y, replace(whole.schema, classes=tuple(sorted(set(y)))))


def plan_of(dataset: str) -> dict[str, float]:
    """The place of the estimator that a plan names."""
    return {"method": OWN_METHODS.index(preferred_names(some_rows(dataset).schema))}


def measured(split: int, epsilon: float, dataset: str, estimator: str) -> dict[str, float]:
    known = some_rows(dataset)
    X, X_test, y, y_test = train_test_split(
        known.X, known.y, test_size=TEST_PART, random_state=split, stratify=known.y
    )
    model = getattr(hr, estimator)(known.schema, epsilon=epsilon, random_state=split)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        said = model.fit(X, y).predict_proba(X_test)[:, 1]
    return {"auc": float(roc_auc_score(y_test == (known.schema.classes or ())[1], said))}


# ------------------------------------------------------------------------------------------- page
def taken_by(plans: pd.DataFrame) -> dict[str, str]:
    """By data set, the estimator that a plan names."""
    return {d: OWN_METHODS[int(k)] for d, k in zip(plans["dataset"], plans["method"], strict=True)}


def compared(table: pd.DataFrame, taken: Mapping[str, str]) -> pd.DataFrame:
    """A line for each data set and epsilon: ours, the plan's, and how far it is below the best."""
    means = table.pivot_table(index=["dataset", "epsilon"], columns="estimator", values="auc")
    lines = []
    for cell, auc in means.dropna().iterrows():
        dataset, epsilon = cell
        best = float(auc.max())
        lines.append(
            {
                "data": dataset,
                "epsilon": f"{epsilon:g}",
                **{name: float(auc[f"{name}Classifier"]) for name in OWN_METHODS},
                "plan": taken[dataset],
                "below the best": best - float(auc[f"{taken[dataset]}Classifier"]),
                "always boosted": best - float(auc[ESTIMATORS[0]]),
            }
        )
    return pd.DataFrame(lines)


def page(table: pd.DataFrame, taken: Mapping[str, str]) -> list[str]:
    """`taken` is the method that a plan recommends for each data set."""
    shown = compared(table, taken)
    repeats = table.groupby(["dataset", "epsilon", "estimator"]).size()
    fewest, most = repeats.min(), repeats.max()
    splits = f"{most}" if fewest == most else f"{fewest} to {most}"
    is_near = shown["below the best"] <= NEAR
    by = ", ".join(
        f"{100 * part:.0f}% at {e}" for e, part in is_near.groupby(shown["epsilon"]).mean().items()
    )
    near, first = (float((shown[c] <= NEAR).mean()) for c in ("below the best", "always boosted"))
    words = (
        f"Of {len(shown)} cells the plan's estimator is within {NEAR} of the best in {near:.0%} "
        f"(goal {GOAL:.0%}; {by}); boosted trees, whatever the plan says, in {first:.0%}. The best "
        "of a cell is that of the means: the fewer splits, the more of it is luck."
    )
    return [HEAD.format(splits=splits, rows=MOST_ROWS), words + "\n", markdown_table(shown)]


HEAD = """Test AUC, mean of {splits} split(s) of at most {rows} rows; delta 1e-6, one site. A plan
sees the schema, and never these rows; where a user names public rows that resemble them, those
decide, and are not measured here.
"""
