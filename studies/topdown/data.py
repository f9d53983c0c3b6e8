"""The seven data sets of Wang, Dick and Balcan 2020, each with its splitting class as a schema.

Thresholds are a matter of the schema: `Numeric(bins=k + 1)` gives k even ones, `Numeric(edges=...)`
any others, column by column. A category against all others is the paper's one-hot column.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from hedgerow.schema.schema import Numeric, Schema
from studies import datasets
from studies.datasets import Dataset

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
