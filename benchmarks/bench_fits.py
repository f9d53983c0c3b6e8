"""Whole fits of our methods and of the papers'."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import pandas as pd

import hedgerow as hr
from benchmarks.timing import Row, named, race, sized
from studies import datasets

# --------------------------------------------------------------------------------------------------
# A whole fit of our tree, forest and boosted trees on a million rows, reading and noise too.
ROWS, FEATURES, TREES = sized(1_000_000, 2_000), 30, sized(100, 3)
OUR_ROUNDS = 2
TARGETS = {"tree": 0.2, "forest": 0.5, "boosted trees": 0.5}


def our_data() -> tuple[Any, Any]:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(ROWS, FEATURES)).astype(np.float32)
    score = X[:, 0] + X[:, 1] * X[:, 2] + 0.5 * (X[:, 3] > 0.3) + rng.normal(0, 1, ROWS)
    return X, (score > 0).astype(int)


def our_rows() -> list[Row]:
    import xgboost

    X, y = our_data()
    columns = tuple(hr.Numeric(f"x{j}", -6.0, 6.0) for j in range(FEATURES))
    schema = hr.Schema(columns, classes=("0", "1"))
    guarantee = {"epsilon": 1.0, "delta": 1e-6, "random_state": 0}
    best = race(
        {
            "tree": lambda: hr.TreeClassifier(schema, **guarantee).fit(X, y),
            "forest": lambda: hr.ForestClassifier(schema, **guarantee).fit(X, y),
            "boosted trees": lambda: hr.BoostedTreesClassifier(schema, **guarantee).fit(X, y),
            "xgboost": lambda: xgboost.XGBClassifier(
                n_estimators=TREES, max_depth=6, n_jobs=1, tree_method="hist"
            ).fit(X, y),
        },
        OUR_ROUNDS,
    )
    return [
        Row(
            work=f"whole fit of our {name}, epsilon 1, 1e6 x {FEATURES}",
            seconds=best[name],
            reference=named("xgboost-cpu", "100 trees of depth 6, one thread"),
            reference_seconds=best["xgboost"],
            most_ratio=target,
        )
        for name, target in TARGETS.items()
    ]


# --------------------------------------------------------------------------------------------------
# A best-first tree of 512 splits on adult: four sites in one process, through the secure sum.
#
# Needs the data folder: HEDGEROW_DATA=DIR python -m benchmarks.run topdown
MAX_SPLITS = sized(512, 4)
TOPDOWN_SITES = 4
TOPDOWN_ROUNDS = 1
MOST_SECONDS = 30.0
WAYS = {
    "noisy_counts, 513 rounds": {"split": "noisy_counts"},
    "local_choice, up to 1,025 rounds": {"split": "local_choice"},
}


def topdown_rows() -> list[Row]:
    from sklearn.tree import DecisionTreeClassifier

    data = datasets.load("adult", datasets.folder(None))
    codes = data.X.apply(_numbers)
    reference = DecisionTreeClassifier(max_leaf_nodes=MAX_SPLITS + 1)
    ways = {name: partial(fit_topdown, data, **options) for name, options in WAYS.items()}
    best = race({**ways, "sklearn": lambda: reference.fit(codes, data.y)}, TOPDOWN_ROUNDS)
    return [
        Row(
            work=f"best-first tree, adult, {TOPDOWN_SITES} sites, epsilon 512, {name}",
            seconds=best[name],
            reference=named("scikit-learn", f"tree of {MAX_SPLITS + 1} leaves, pooled rows"),
            reference_seconds=best["sklearn"],
            most_seconds=MOST_SECONDS,
        )
        for name in ways
    ]


def fit_topdown(data: datasets.Dataset, **options: Any) -> hr.TopDownTreeClassifier:
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
    return model.fit(data.X, data.y, site=np.arange(len(data.y)) % TOPDOWN_SITES)


def _numbers(column: Any) -> Any:
    is_number = pd.api.types.is_numeric_dtype(column)
    return column if is_number else column.astype("category").cat.codes


# --------------------------------------------------------------------------------------------------
# 20 extra-trees of depth 20 on message and credit_default: 2 and 9 sites in one process.
#
# Needs the data folder: HEDGEROW_DATA=DIR python -m benchmarks.run extra_trees Nothing is left out:
# encoding rows, masked sums, all trees fully grown. Rounds and bytes of one site are part of a
# line's name.
EXTRA_TREES, EXTRA_TREES_DEPTH = 20, 20
EXTRA_TREES_SITES = (2, 9)
EXTRA_TREES_ROUNDS = 1


def extra_trees_rows() -> list[Row]:
    return [row for name in ("message", "credit_default") for row in _rows(name)]


def _rows(name: str) -> list[Row]:
    from sklearn.ensemble import ExtraTreesClassifier

    data = datasets.load(name, datasets.folder(None))
    numbers = pd.get_dummies(data.X).to_numpy(np.float64)
    pooled = ExtraTreesClassifier(EXTRA_TREES, max_depth=EXTRA_TREES_DEPTH, random_state=0)
    fits = {sites: partial(fit_extra_trees, data, sites) for sites in EXTRA_TREES_SITES}
    sizes = {sites: work().run_ for sites, work in fits.items()}
    best = race(
        {**{str(k): v for k, v in fits.items()}, "sklearn": lambda: pooled.fit(numbers, data.y)},
        EXTRA_TREES_ROUNDS,
    )
    return [
        Row(
            work=f"{EXTRA_TREES} extra-trees of depth {EXTRA_TREES_DEPTH}, {name}, {sites} sites: "
            f"{len(run.rounds)} rounds, {run.bytes_per_site / 1e6:.0f} MB a site",
            seconds=best[str(sites)],
            reference=named("scikit-learn", "ExtraTreesClassifier, pooled rows"),
            reference_seconds=best["sklearn"],
        )
        for sites, run in sizes.items()
    ]


def fit_extra_trees(data: datasets.Dataset, sites: int) -> hr.ExtraTreesClassifier:
    model = hr.ExtraTreesClassifier(
        data.schema,
        n_estimators=EXTRA_TREES,
        max_depth=EXTRA_TREES_DEPTH,
        dp_model="none",
        random_state=0,
    )
    return model.fit(data.X, data.y, site=np.arange(len(data.y)) % sites)
