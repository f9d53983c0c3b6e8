"""`python -m studies open-ranges`: what it costs to leave ranges open.

Boosted trees on three schemas of the same data: the rows' own ranges, which nobody may use; wide
ranges as a person would type them (0 to a million); and no ranges at all. The ladder of open ranges
was chosen on splits from 100 on; the page has those from 0 on.
"""

from __future__ import annotations

import warnings
from functools import cache
from itertools import product
from typing import Any

import numpy as np
import pandas as pd
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import train_test_split

import hedgerow as hr
from studies.datasets import folder
from studies.harness import Cell, Computation
from studies.pages import markdown_table, write_page

DATA = ("adult", "bank", "credit_gmsc")
SCHEMAS = ("true", "wide", "open")
EPSILONS, PARTIES = (0.5, 1.0), (1, 3)
WIDE = 1e6
TEST_PART = 0.25
PAIRED = ["dataset", "n_sites", "epsilon", "split"]


def files(quick: bool) -> tuple[str, ...]:
    return DATA[:1] if quick else DATA


def run(computation: Computation, splits: int, quick: bool) -> None:
    tables = computation.tables({"cells": (measured, cells(splits, files(quick)))})
    command = f"python -m studies open-ranges --splits {splits} --data DIR"
    title = "What it costs to leave ranges open"
    write_page(computation, "README.md", title, command, page(tables["cells"]))


def cells(splits: int, names: tuple[str, ...]) -> list[Cell]:
    """Split by split, so that a run cut short has whole tables."""
    grid = product(range(splits), names, PARTIES, EPSILONS, SCHEMAS)
    return [dict(zip(("split", *PAIRED[:3], "schema"), cell, strict=True)) for cell in grid]


@cache
def loaded(dataset: str) -> tuple[pd.DataFrame, Any]:
    rows = pd.read_parquet(folder(None) / f"{dataset}.parquet")
    labels = rows.pop("target").astype(str)
    return rows, labels


def schema_of(rows: pd.DataFrame, how: str) -> hr.Schema:
    numbers = [c for c in rows if rows[c].dtype.kind in "iuf"]
    lists = {c: sorted(map(str, rows[c].dropna().unique())) for c in rows if c not in numbers}
    ranges: dict[str, Any] = {}
    for c in numbers:
        low, high = float(rows[c].min()), float(rows[c].max())
        wide = (0.0 if low >= 0 else -WIDE, WIDE)
        ranges[c] = {"true": (low, high), "wide": wide, "open": float}[how]
    return hr.Schema({**ranges, **lists}, classes=("0", "1"))


def measured(
    split: int, dataset: str, n_sites: int, epsilon: float, schema: str
) -> dict[str, float]:
    rows, labels = loaded(dataset)
    X, X_test, y, y_test = train_test_split(
        rows, labels, test_size=TEST_PART, random_state=split, stratify=labels
    )
    model = hr.BoostedTreesClassifier(schema_of(rows, schema), epsilon=epsilon, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.fit(X, y, site=None if n_sites == 1 else np.arange(len(y)) % n_sites)
        said = model.predict_proba(X_test)[:, 1]
    return {"auc": float(roc_auc_score(y_test == "1", said))}


# ------------------------------------------------------------------------------------------- page
def page(table: pd.DataFrame) -> list[str]:
    pairs = table.pivot(index=PAIRED, columns="schema", values="auc").dropna()
    over = [f"open - {other}" for other in ("wide", "true")]
    for name, other in zip(over, ("wide", "true"), strict=True):
        pairs[name] = pairs["open"] - pairs[other]
    lines = []
    for (dataset, n_sites, epsilon), part in pairs.groupby(PAIRED[:3]):
        means = {how: float(part[how].mean()) for how in SCHEMAS}
        told = {name: in_pairs(part[name]) for name in over}
        lines.append(
            {"data": dataset, "sites": n_sites, "epsilon": f"{epsilon:g}", **means, **told}
        )
    splits = pairs.index.get_level_values("split").nunique()
    clear = {name: clearly_below(pairs, name) for name in over}
    words = [
        f"Over all cells open ranges differ from {other} ones by {in_pairs(pairs[name])}; "
        f"clearly below them, by more than two standard errors: {clear[name] or 'nowhere'}."
        for name, other in zip(over, ("wide", "true"), strict=True)
    ]
    return [HEAD.format(splits=splits), markdown_table(pd.DataFrame(lines)), "\n".join(words)]


def in_pairs(differences: pd.Series) -> str:
    """Mean of pairs of fits on one split, and its standard error."""
    error = f"{differences.sem():.4f}" if len(differences) > 1 else "one split"
    return f"{differences.mean():+.4f} ({error})"


def clearly_below(pairs: pd.DataFrame, name: str) -> str:
    by = pairs[name].groupby(level=PAIRED[:3]).agg(["mean", "sem"])
    behind = by[by["mean"] < -2.0 * by["sem"]]
    return "; ".join(f"{data}, {sites} site(s), epsilon {e:g}" for data, sites, e in behind.index)


HEAD = """Test AUC of the default boosted trees (delta = 1e-6), mean of {splits} split(s). *True*
are the rows' own ranges, which nobody may use; *wide* are 0 (or -1,000,000) to 1,000,000, as a
person would type them; *open* declares nothing (`float` in the schema, or `schema="private"`).
Categories are listed in all three. Differences are means over pairs of fits on one split, with
their standard error; noise is drawn anew for each fit.
"""
