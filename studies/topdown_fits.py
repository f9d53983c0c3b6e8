"""The seven data sets of Wang, Dick and Balcan 2020, each with its splitting class as a schema.

Thresholds are a matter of the schema: `Numeric(bins=k + 1)` gives k even ones, `Numeric(edges=...)`
any others, column by column. A category against all others is the paper's one-hot column.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from hedgerow.methods import wang
from hedgerow.methods.method import Method
from hedgerow.methods.wang import TopDown, TopDownTreeClassifier
from hedgerow.privacy.accounting.budget import DPModel
from hedgerow.schema.schema import Numeric, Schema
from studies import datasets, simulation
from studies.datasets import FOLDER_VARIABLE, Dataset
from studies.simulation import Sites

TEST_SEED = 1
"""Of the one division into training and test rows. Constants were chosen on division 0."""
TRAINING_IMAGES = 60_000
"""Mnist comes with its own division."""
BLOCK_THRESHOLDS = (42.5, 127.5, 212.5)
CTR_THRESHOLDS = {
    "c1": 7,
    "c14": 100,
    "c15": 4,
    "c16": 4,
    "c17": 40,
    "c19": 10,
    "c20": 15,
    "c21": 10,
}
CTR_CATEGORIES = ["banner_pos", "site_category", "app_category", "device_type", "device_conn_type"]


@dataclass(frozen=True)
class Task:
    """Training and test rows. The paper fixes the split once; so does the seed here."""

    name: str
    schema: Schema
    X: Any
    y: NDArray[Any]
    X_test: Any
    y_test: NDArray[Any]


@lru_cache(maxsize=2)
def task(name: str, where: str) -> Task:
    data = LOADERS[name](Path(where))
    rng, n = np.random.default_rng(TEST_SEED), len(data.y)
    is_test = np.arange(n) >= TRAINING_IMAGES if name == "mnist" else rng.random(n) < 0.1
    X, X_test = data.X[~is_test], data.X[is_test]
    return Task(name, data.schema, X, data.y[~is_test], X_test, data.y[is_test])


AUTHORS_RANGES = {"adult": {"capital_gain": (0.0, 20_000.0)}}
"""Ranges that the authors' code declares and that are narrower than the file's."""


def table(name: str, thresholds: int) -> Callable[[Path], Dataset]:
    """As many even thresholds for every numeric column."""

    def loaded(where: Path) -> Dataset:
        data = datasets.load(name, where)
        schema = with_ranges(data.schema, AUTHORS_RANGES.get(name, {}))
        return replace(data, schema=schema.with_grid(bins=thresholds + 1))

    return loaded


def with_ranges(schema: Schema, ranges: dict[str, tuple[float, float]]) -> Schema:
    """The schema with some columns' ranges replaced; values beyond them are clamped."""
    features = tuple(
        replace(f, low=ranges[f.name][0], high=ranges[f.name][1])
        if isinstance(f, Numeric) and f.name in ranges
        else f
        for f in schema.features
    )
    return replace(schema, features=features)


def kddcup(where: Path) -> Dataset:
    """Attack or not; 10 thresholds for each numeric column."""
    data = datasets.load("kddcup99_10pct", where)
    attack = np.where(data.y == "normal", "normal", "attack")
    again = datasets.of_frame("kddcup", data.X, attack, regression=False)
    return replace(again, schema=again.schema.with_grid(bins=11))


def mnist(where: Path) -> Dataset:
    """Means of the 49 blocks of 4 x 4 pixels, three thresholds each; digits as ten classes."""
    frame = pd.read_parquet(where / "mnist.parquet")
    digits = frame.pop("target").to_numpy()
    pixels = frame.to_numpy().reshape(-1, 7, 4, 7, 4)
    means = pixels.mean(axis=(2, 4), dtype=np.float64).reshape(-1, 49)
    X = pd.DataFrame(means, columns=[f"block{k}" for k in range(49)])
    features = tuple(Numeric(c, 0.0, 255.0, edges=BLOCK_THRESHOLDS) for c in X)
    y = np.asarray([str(d) for d in digits], dtype=object)
    return Dataset("mnist", X, y, Schema(features, classes=tuple("0123456789")))


def avazu(where: Path) -> Dataset:
    """Click or not; the paper's number of thresholds, column by column."""
    frame = pd.read_parquet(where / "avazu_15k.parquet")
    numbers = {c: pd.to_numeric(frame[c]).astype(float) for c in CTR_THRESHOLDS}
    X = pd.concat([pd.DataFrame(numbers), frame[CTR_CATEGORIES]], axis=1)
    data = datasets.of_frame("avazu", X, frame["target"], regression=False)
    features = tuple(
        replace(f, bins=CTR_THRESHOLDS[f.name] + 1) if isinstance(f, Numeric) else f
        for f in data.schema.features
    )
    return replace(data, schema=replace(data.schema, features=features))


LOADERS: dict[str, Callable[[Path], Dataset]] = {
    "adult": table("adult", 10),
    "bank": table("bank", 10),
    "credit_default": table("credit_default", 10),
    "skin": table("skin", 32),
    "kddcup": kddcup,
    "mnist": mnist,
    "avazu": avazu,
}
OTHER_NAMES = {"kddcup": "kddcup99_10pct", "avazu": "avazu_15k"}
FILES = {name: OTHER_NAMES.get(name, name) for name in LOADERS}
"""The Parquet file of each set."""


# --------------------------------------------------------------------------------------------------
# The methods that the DP-TopDown page compares: the paper's by name, and with our repairs.
PARTIES = 4
DELTA = 1e-6  # of the one line with Gaussian noise
MAX_SPLITS = 512


class Sized(NamedTuple):
    """What a cell says of a tree: who sees which columns, and how the budget is divided."""

    schema: Schema
    budget: str
    leaf_fraction: Fraction
    rows_at_most: int


@dataclass(frozen=True)
class FigureLine:
    """A line of a figure: a method, how many sites hold the rows, and where noise is added."""

    learner: Callable[[Sized], Method]
    n_sites: int
    dp_model: DPModel
    delta: float = 0.0

    def without_noise(self) -> FigureLine:
        return replace(self, dp_model=DPModel.NONE)


def _repaired(**options: Any) -> Callable[[Sized], Method]:
    """With the repairs that the estimator has by default."""

    def made(size: Sized) -> Method:
        return TopDown(
            **{"criterion": "entropy", "budget": size.budget, **options},
            max_splits=MAX_SPLITS,
            leaf_fraction=float(size.leaf_fraction),
            rows_at_most=size.rows_at_most,
        )

    return made


def _printed(line: Callable[..., TopDownTreeClassifier], *, chooses: bool) -> Callable[..., Method]:
    """As `hedgerow.papers` has it, on the schema's own thresholds."""

    def made(size: Sized) -> Method:
        guess = {"rows_at_most": size.rows_at_most} if chooses else {}
        model = line(
            size.schema,
            max_splits=MAX_SPLITS,
            budget=size.budget,
            leaf_fraction=float(size.leaf_fraction),
            n_bins=None,
            **guess,
        )
        return model._method(size.schema)

    return made


_tables = _repaired(split="noisy_counts")
_plain_tables = _repaired(split="noisy_counts", consistency=False)
_tables_of_splits = _repaired(split="noisy_counts", consistency=False, tables="split")
_local, _single = _repaired(split="local_choice"), _repaired(split="choice")
_single_gini = _repaired(split="choice", criterion="gini")

METHODS: dict[str, FigureLine] = {
    "single machine": FigureLine(_single, 1, DPModel.CENTRAL),
    "single machine, Gini": FigureLine(_single_gini, 1, DPModel.CENTRAL),
    "local choice": FigureLine(_local, PARTIES, DPModel.PER_SITE),
    "noisy counts as written": FigureLine(_tables_of_splits, PARTIES, DPModel.PER_SITE),
    "noisy counts, silo": FigureLine(_plain_tables, PARTIES, DPModel.PER_SITE),
    "noisy counts, shares": FigureLine(_tables, PARTIES, DPModel.DISTRIBUTED),
    "noisy counts, shares, Gaussian": FigureLine(_tables, PARTIES, DPModel.DISTRIBUTED, DELTA),
}
PRINTED: dict[str, FigureLine] = {
    "SingleMachine RNM": FigureLine(
        _printed(wang.single_machine_rnm, chooses=True), 1, DPModel.CENTRAL
    ),
    "LocalRNM": FigureLine(_printed(wang.local_rnm, chooses=True), PARTIES, DPModel.PER_SITE),
    "NoisyCounts": FigureLine(
        _printed(wang.noisy_counts, chooses=False), PARTIES, DPModel.PER_SITE
    ),
}
"""The paper's three under its names, without a repair."""
SLOW = tuple(name for name in METHODS if name != "noisy counts as written")
"""Lines that are drawn again with a budget that falls slowly with the depth."""
BASELINES: dict[str, str] = {
    "without noise": "noisy counts, shares",
    "Gini without noise": "single machine, Gini",
    "local choice without noise": "local choice",
}


def of_name(name: str) -> FigureLine:
    every = METHODS | PRINTED
    return every[BASELINES[name]].without_noise() if name in BASELINES else every[name]


# --------------------------------------------------------------------------------------------------
# One fit of the DP-TopDown study, and one timed through the whole secure sum.
def fit(
    seed: int,
    name: str,
    fraction: float,
    method: str,
    budget: str,
    leaf_fraction: float,
    alpha: float,
) -> dict[str, float]:
    """Accuracy and size of one tree; alpha is the paper's name for epsilon."""
    line, data = of_name(method), task(name, os.environ[FOLDER_VARIABLE])
    sites = divided(name, fraction, line.n_sites, seed)
    guess = power_of_two_above(len(data.y))
    learner = line.learner(Sized(data.schema, budget, Fraction(str(leaf_fraction)), guess))
    study = simulation.study_of(learner, sites, alpha, line.delta, dp_model=line.dp_model)
    trained, _ = simulation.train(learner, study, sites, seed)
    (grown,) = trained.leaf_statistics
    return {
        "test": accuracy(trained, data.X_test, data.y_test, data),
        "train": accuracy(trained, data.X, data.y, data),
        "leaves": grown.tree.n_leaves,
        "depth": grown.tree.depth,
    }


@lru_cache(maxsize=4)
def divided(name: str, fraction: float, n_sites: int, seed: int) -> Sites:
    """The training rows, or a part of them, divided at random among the sites."""
    data, rng = task(name, os.environ[FOLDER_VARIABLE]), np.random.default_rng(seed)
    keep = np.sort(rng.permutation(len(data.y))[: round(fraction * len(data.y))])
    owner = rng.integers(0, n_sites, len(keep))
    return Sites(data.X.iloc[keep], data.y[keep], owner, data.schema)


def accuracy(trained: Any, X: Any, y: NDArray[Any], data: Task) -> float:
    best = simulation.probabilities(trained, X, data.schema).argmax(axis=1)
    return float((np.asarray(data.schema.classes, dtype=object)[best] == y).mean())


def power_of_two_above(rows: int) -> int:
    """A public guess of the number of rows: an order of magnitude, not the count."""
    return 1 << rows.bit_length()


def sent(seed: int, name: str, method: str) -> dict[str, float]:
    """Numbers that a site tells for each split, and bytes of the whole secure sum."""
    data = task(name, os.environ[FOLDER_VARIABLE])
    owner = np.random.default_rng(seed).integers(0, PARTIES, len(data.y))
    model = SENDERS[method](data.schema, epsilon=512.0, max_splits=SENT_SPLITS, n_bins=None)
    model.fit(data.X, data.y, site=owner)
    splits = model.model_.score.trees[0].n_leaves - 1
    told = sum(one.integers for one in model.run_.rounds)
    return {"numbers": round(told / splits), "bytes": round(model.run_.bytes_per_site / splits)}


SENDERS = {"LocalRNM": wang.local_rnm, "NoisyCounts": wang.noisy_counts}
SENT_SPLITS = 16
SENT_SETS = ("adult", "bank", "credit_default", "kddcup")


def cpu_seconds(work: Callable[[], object]) -> float:
    start = time.process_time()
    work()
    return time.process_time() - start
