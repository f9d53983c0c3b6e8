"""`python -m studies rounds`: trees that share rounds over five sites, beside one tree a round.

The rule of methods/blocks/boosting.py was chosen on splits 0 to 4 (notes/boosting.md#0160); these
are others. AUC of classes, R2 of numbers; every difference is of fits on the same rows.
"""

from __future__ import annotations

import warnings
from itertools import product
from typing import Any

import numpy as np
import pandas as pd
from sklearn.metrics import r2_score, roc_auc_score

import hedgerow as hr
from studies.harness import Cell, Computation
from studies.ours_fits import task
from studies.pages import markdown_table, write_page

CLASSES = ("adult", "bank", "credit_default", "credit_gmsc", "higgs_18k", "spambase")
NUMBERS = ("appliances_energy", "gas_turbine", "metro_traffic", "parkinsons")
EPSILONS = (0.5, 1.0, 3.0, 8.0)
WAYS = {"one tree a round": 1, "default": None}
FIRST_SPLIT, N_SITES = 60, 5


def files(quick: bool) -> tuple[str, ...]:
    return ("bank",) if quick else (*CLASSES, *NUMBERS)


def run(computation: Computation, splits: int, quick: bool) -> None:
    table = computation.tables({"rounds": (fitted, cells(splits, files(quick)))})["rounds"]
    command = f"python -m studies rounds --splits {splits}"
    title = "Boosted trees over five sites in at most 26 rounds"
    write_page(computation, "README.md", title, command, page(table))


def cells(splits: int, names: tuple[str, ...]) -> list[Cell]:
    """Split by split, so that a run cut short has whole tables."""
    seeds = range(FIRST_SPLIT, FIRST_SPLIT + splits)
    keys = ("split", "dataset", "epsilon", "way")
    return [dict(zip(keys, row, strict=True)) for row in product(seeds, names, EPSILONS, WAYS)]


def fitted(split: int, dataset: str, epsilon: float, way: str) -> dict[str, float]:
    one = task(dataset)
    train, test = one.split(split)
    is_number = one.schema.target is not None
    kind: Any = hr.BoostedTreesRegressor if is_number else hr.BoostedTreesClassifier
    model = kind(one.schema, epsilon, trees_per_round=WAYS[way], random_state=split)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        site = np.arange(len(train)) % N_SITES
        model.fit(one.X.iloc[train], one.y[train], site=site, sites=range(N_SITES))
    X, y = one.X.iloc[test], one.y[test]
    if is_number:
        quality = r2_score(y, model.predict(X))
    else:
        quality = roc_auc_score(y == model.classes_[1], model.predict_proba(X)[:, 1])
    return {"quality": float(quality), "rounds": float(len(model.run_.rounds))}


def differences(table: pd.DataFrame) -> pd.DataFrame:
    """Default less one tree a round: by data set and epsilon, mean and standard error."""
    index = ["split", "dataset", "epsilon"]
    wide = table.pivot(index=index, columns="way", values="quality")
    gains = (wide["default"] - wide["one tree a round"]).rename("gain").reset_index()
    found = gains.groupby(["dataset", "epsilon"])["gain"].agg(["mean", "sem", "count"])
    most = table[table["way"] == "default"].groupby(["dataset", "epsilon"])["rounds"].max()
    return found.join(most.rename("most_rounds")).reset_index()


def page(table: pd.DataFrame) -> list[str]:
    found = differences(table)
    lines = []
    for words, names in (("AUC", CLASSES), ("R2", NUMBERS)):
        some = found[found["dataset"].isin(names)]
        if some.empty:  # a quick run has sets of one kind
            continue
        rows = [
            [name, *(_cell(own, epsilon) for epsilon in EPSILONS)]
            for name, own in some.groupby("dataset")
        ]
        rows.append(["mean of all", *(_mean(some, epsilon) for epsilon in EPSILONS)])
        head = [f"{words} gained", *(f"epsilon {e:g}" for e in EPSILONS)]
        lines.append(markdown_table(pd.DataFrame(rows, columns=head)))
    n, most = int(found["count"].min()), int(found["most_rounds"].max())
    lines.append(
        f"Default less one tree a round, +- standard error of {n} splits; at most {most} rounds."
    )
    return lines


def _cell(own: pd.DataFrame, epsilon: float) -> str:
    row = own[own["epsilon"] == epsilon].iloc[0]
    return f"{row['mean']:+.4f} +- {row['sem']:.4f}"


def _mean(some: pd.DataFrame, epsilon: float) -> str:
    rows = some[some["epsilon"] == epsilon]
    error = float(np.sqrt((rows["sem"] ** 2).sum())) / len(rows)
    return f"{rows['mean'].mean():+.4f} +- {error:.4f}"
