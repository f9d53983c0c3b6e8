"""A best-first tree of 512 splits on adult: four sites in one process, through the secure sum.

Needs the data folder: HEDGEROW_DATA=DIR python -m benchmarks.run topdown
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import pandas as pd

import hedgerow as hr
from benchmarks.sizes import sized
from benchmarks.timing import Row, named, race
from studies import datasets

MAX_SPLITS = sized(512, 4)
SITES = 4
ROUNDS = 1
MOST_SECONDS = 30.0
WAYS = {
    "noisy_counts, 513 rounds": {"split": "noisy_counts"},
    "local_choice, up to 1,025 rounds": {"split": "local_choice"},
}


def rows() -> list[Row]:
    from sklearn.tree import DecisionTreeClassifier

    data = datasets.load("adult", datasets.folder(None))
    codes = data.X.apply(_numbers)
    reference = DecisionTreeClassifier(max_leaf_nodes=MAX_SPLITS + 1)
    ways = {name: partial(fit, data, **options) for name, options in WAYS.items()}
    best = race({**ways, "sklearn": lambda: reference.fit(codes, data.y)}, ROUNDS)
    return [
        Row(
            work=f"best-first tree, adult, {SITES} sites, epsilon 512, {name}",
            seconds=best[name],
            reference=named("scikit-learn", f"tree of {MAX_SPLITS + 1} leaves, pooled rows"),
            reference_seconds=best["sklearn"],
            most_seconds=MOST_SECONDS,
        )
        for name in ways
    ]


def fit(data: datasets.Dataset, **options: Any) -> hr.TopDownTreeClassifier:
    """An even budget and no stop rule, so that all splits are taken."""
    model = hr.TopDownTreeClassifier(
        data.schema.with_grid(bins=11),
        epsilon=512.0,
        max_splits=MAX_SPLITS,
        budget="even",
        min_gain=0.0,
        min_fraction_split=0.0,
        **options,
    )
    return model.fit(data.X, data.y, site=np.arange(len(data.y)) % SITES)


def _numbers(column: Any) -> Any:
    is_number = pd.api.types.is_numeric_dtype(column)
    return column if is_number else column.astype("category").cat.codes
