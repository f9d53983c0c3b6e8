"""`python -m studies.open_ranges --data DIR`: what it costs to leave ranges open.

Boosted trees on three schemas of the same data: the rows' own ranges, which nobody may use; wide
ranges as a person would type them (0 to a million); and no ranges at all. Cells land in a CSV file
one by one, so that a run that was stopped goes on where it was.
"""

from __future__ import annotations

import csv
import warnings
from itertools import product
from pathlib import Path
from statistics import mean
from typing import Annotated, Any

import numpy as np
import pandas as pd
import typer

import hedgerow as hr

DATA = ("adult", "bank", "credit_gmsc")
SCHEMAS = ("true", "wide", "open")
EPSILONS, PARTIES = (0.5, 1.0), (1, 3)
FIELDS = ("data", "seed", "parties", "epsilon", "schema", "auc")
OUT = Path("docs/results/open_ranges")
WIDE = 1e6


def main(
    data: Annotated[Path, typer.Option(exists=True, file_okay=False)],
    seeds: Annotated[int, typer.Option(help="Splits of each data set.")] = 1,
) -> None:
    known = {tuple(line[f] for f in FIELDS[:-1]) for line in lines()}
    for name in DATA:
        rows = pd.read_parquet(data / f"{name}.parquet")
        labels = rows.pop("target").astype(str)
        cells = product(range(seeds), PARTIES, EPSILONS, SCHEMAS)
        for seed, parties, epsilon, how in cells:
            if (name, str(seed), str(parties), str(epsilon), how) not in known:
                auc = measured(rows, labels, seed, parties, epsilon, how)
                with (OUT / "cells.csv").open("a", encoding="utf-8", newline="") as file:
                    csv.writer(file).writerow((name, seed, parties, epsilon, how, auc))
    (OUT / "README.md").write_text(page(), encoding="utf-8")


def lines() -> list[dict[str, str]]:
    text = (OUT / "cells.csv").read_text(encoding="utf-8")
    return list(csv.DictReader(text.splitlines()))


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
    rows: pd.DataFrame, labels: Any, seed: int, parties: int, epsilon: float, how: str
) -> float:
    from sklearn.metrics import roc_auc_score
    from sklearn.model_selection import train_test_split

    X, X_test, y, y_test = train_test_split(
        rows, labels, test_size=0.25, random_state=seed, stratify=labels
    )
    model = hr.BoostedTreesClassifier(schema_of(rows, how), epsilon=epsilon, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.fit(X, y, party=None if parties == 1 else np.arange(len(y)) % parties)
        return float(roc_auc_score(y_test == "1", model.predict_proba(X_test)[:, 1]))


def page() -> str:
    found = lines()
    table = []
    for name, parties, epsilon in product(DATA, PARTIES, EPSILONS):
        cells = []
        for how in SCHEMAS:
            auc = [
                float(line["auc"])
                for line in found
                if (line["data"], line["parties"], line["epsilon"], line["schema"])
                == (name, str(parties), str(epsilon), how)
            ]
            cells.append(f"{mean(auc):.3f}" if auc else "")
        table.append(f"| {name} | {parties} | {epsilon:g} | {' | '.join(cells)} |")
    splits = len({line["seed"] for line in found})
    return HEAD.format(splits=splits) + "\n".join(table) + "\n"


HEAD = """# What it costs to leave ranges open

Made by `python -m studies.open_ranges --data DIR`. Test AUC of the default boosted trees
(delta = 1e-6), mean of {splits} split(s); with few splits small differences are chance. *True* are
the rows' own ranges, which nobody may use; *wide* are 0 (or -1,000,000) to 1,000,000, as a person
would type them; *open* declares nothing (`float` in the schema, or `schema="private"`). Categories
are listed in all three.

| data | sites | epsilon | true | wide | open |
|---|---|---|---|---|---|
"""


if __name__ == "__main__":
    typer.run(main)
