"""`python -m studies rounds`: trees that share rounds over five sites, beside one tree a round.

The rule of methods/blocks/boosting.py was chosen on splits 0 to 4 (notes/boosting.md#0160); these
are others. AUC of classes, R2 of numbers; every difference is of fits on the same rows.

A second table has curves, surfaces and trees for a number beside trees alone, at one site and at
five: 70 % of the rows are trained on, delta is 1 / rows. Its constants were chosen on splits 740 to
750 (notes/numbers.md#0168). A third has the same of three classes and more; chosen on splits 700 to
705 (notes/classes.md#0163).
"""

from __future__ import annotations

import warnings
from itertools import product
from time import process_time
from typing import Any
from unittest import mock

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.metrics import r2_score, roc_auc_score

import hedgerow as hr
from hedgerow.methods.blocks.boosting import BatchPlan
from studies.datasets import folder, load
from studies.harness import Cell, Computation
from studies.ours_fits import SMALL_UNSEEN, task
from studies.pages import markdown_table, write_page

CLASSES = ("adult", "bank", "credit_default", "credit_gmsc", "higgs_18k", "spambase")
NUMBERS = ("appliances_energy", "gas_turbine", "metro_traffic", "parkinsons")
EPSILONS = (0.5, 1.0, 3.0, 8.0)
KEYS = ("split", "dataset", "epsilon", "way")
WAYS = {"one tree a round": 1, "default": None}
FIRST_SPLIT, N_SITES = 60, 5
MANY = ("digits", "letter", "puc_rio_har", "wall_robot", "waveform", "wine")
FIRST_SPLIT_OF_NUMBERS, FIRST_SPLIT_OF_CLASSES, TRAINED = 1020, 980, 0.7
STAGES = {
    "trees alone": 1,
    "one site": 1,
    "five sites": N_SITES,
    "trees alone, five sites": N_SITES,
}
"""Ways to train, and their sites."""
SPLITS_OF_SMALL = 6
"""Times as many for sets of few test rows, whose accuracy varies more."""


def files(quick: bool) -> tuple[str, ...]:
    return ("bank",) if quick else (*CLASSES, *NUMBERS, *(set(MANY) - set(SMALL_UNSEEN)))


def run(computation: Computation, splits: int, quick: bool) -> None:
    names = ("parkinsons",) if quick else (*NUMBERS, "flights_nyc13")
    seeds = range(FIRST_SPLIT_OF_NUMBERS, FIRST_SPLIT_OF_NUMBERS + splits)
    rows = product(seeds, names, (1.0, 8.0), STAGES)
    many = MANY[-1:] if quick else MANY
    tables = computation.tables(
        {
            "rounds": (fitted, cells(splits, ("bank",) if quick else (*CLASSES, *NUMBERS))),
            "numbers": (number_fitted, [dict(zip(KEYS, row, strict=True)) for row in rows]),
            "classes": (class_fitted, cells_of_classes(splits, many)),
        }
    )
    command = f"python -m studies rounds --splits {splits}"
    title = "Boosted trees over five sites in at most 26 rounds"
    lines = page(tables["rounds"]) if len(tables["rounds"]) else []
    for table, measure in ((tables["numbers"], "R2"), (tables["classes"], "accuracy")):
        lines += stages_page(table, measure) if len(table) else []
    write_page(computation, "README.md", title, command, lines)


def cells(splits: int, names: tuple[str, ...]) -> list[Cell]:
    """Split by split, so that a run cut short has whole tables."""
    seeds = range(FIRST_SPLIT, FIRST_SPLIT + splits)
    return [dict(zip(KEYS, row, strict=True)) for row in product(seeds, names, EPSILONS, WAYS)]


def cells_of_classes(splits: int, names: tuple[str, ...]) -> list[Cell]:
    first = FIRST_SPLIT_OF_CLASSES
    seeds = range(first, first + splits * SPLITS_OF_SMALL)
    rows = product(seeds, names, (1.0, 8.0, 0.1), STAGES)
    few = [row for row in rows if row[0] < first + splits or row[1] in SMALL_UNSEEN]
    return [dict(zip(KEYS, row, strict=True)) for row in few]


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


def number_fitted(split: int, dataset: str, epsilon: float, way: str) -> dict[str, float]:
    data = load(dataset, folder(None), regression=True)
    order = np.random.default_rng(1000 + split).permutation(len(data.y))
    train, test = np.split(order[::-1], [round(TRAINED * len(order))])
    return stage_fitted(hr.BoostedTreesRegressor, data, train, test, split, epsilon, way)


def class_fitted(split: int, dataset: str, epsilon: float, way: str) -> dict[str, float]:
    data = task(dataset)
    return stage_fitted(hr.BoostedTreesClassifier, data, *data.split(split), split, epsilon, way)


def stage_fitted(
    kind: Any,
    data: Any,
    train: NDArray[np.int64],
    test: NDArray[np.int64],
    split: int,
    epsilon: float,
    way: str,
) -> dict[str, float]:
    """Trees alone are what a method grows where a study allows too few rounds."""
    model = kind(data.schema, epsilon, 1.0 / len(train), random_state=split)
    site = None if STAGES[way] == 1 else np.arange(len(train)) % N_SITES
    fits = (lambda *_: False) if way.startswith("trees alone") else BatchPlan.fits
    with warnings.catch_warnings(), mock.patch.object(BatchPlan, "fits", fits):
        warnings.simplefilter("ignore")
        begin = process_time()
        model.fit(data.X.iloc[train], data.y[train], site=site)
        seconds = process_time() - begin
        quality = model.score(data.X.iloc[test], data.y[test])
    rounds = float(len(model.run_.rounds))
    return {"quality": float(quality), "rounds": rounds, "seconds": seconds}


def stages_page(table: pd.DataFrame, measure: str) -> list[str]:
    ways = [way for way in STAGES if way in set(table["way"])]
    rows = [
        [name, f"{epsilon:g}", *(_measured(own[own["way"] == way]) for way in ways)]
        for (name, epsilon), own in table.groupby(["dataset", "epsilon"])
    ]
    head = [f"{measure} (rounds at most; processor seconds)", "epsilon", *ways]
    n = table.groupby(["dataset", "epsilon", "way"]).size().min()
    words = f"Mean +- standard error, at least {n} splits from {table['split'].min()} on."
    return [markdown_table(pd.DataFrame(rows, columns=head)), words]


def _measured(own: pd.DataFrame) -> str:
    mean, error = own["quality"].mean(), own["quality"].sem()
    return f"{mean:.3f} +- {error:.3f} ({own['rounds'].max():.0f}; {own['seconds'].mean():.1f})"


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
