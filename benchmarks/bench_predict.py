"""One row through `predict_proba`, as a service would ask for it, beside XGBoost's.

The default boosted classifier with 100 trees, its surfaces and 30 curves. Checks of the input,
reading and output included. A call is timed as a part of many, since one is shorter than the
clock's step.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pandas as pd
import xgboost

import hedgerow as hr
from benchmarks.sizes import sized
from benchmarks.timing import Row, named, race
from hedgerow.methods.blocks.surfaces import PAIRED

ROWS, FEATURES, TREES = sized(100_000, 10_000), 30, sized(100, 5)
SURFACES = math.comb(PAIRED, 2)
CALLS = sized(200, 2)
NAMES = [f"x{j}" for j in range(FEATURES)]


def rows() -> list[Row]:
    X, y = data()
    ours, theirs = private_model(X, y), xgboost_model(X, y)
    return [*one_row(ours, theirs, X[:1], "NumPy"), *one_row(ours, theirs, frame(X[:1]), "pandas")]


def data() -> tuple[Any, Any]:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(ROWS, FEATURES))
    score = X[:, 0] + X[:, 1] * X[:, 2] + 0.5 * (X[:, 3] > 0.3) + rng.normal(size=ROWS)
    return X, (score > 0).astype(int)


def frame(X: Any) -> pd.DataFrame:
    return pd.DataFrame(X, columns=NAMES)


def private_model(X: Any, y: Any) -> hr.BoostedTreesClassifier:
    """With a budget that pays for all trees on top of surfaces, each of which is a tree too."""
    schema = hr.Schema(tuple(hr.Numeric(name, -6.0, 6.0) for name in NAMES), classes=("0", "1"))
    model = hr.BoostedTreesClassifier(schema, 16.0, 1e-6, n_estimators=TREES, random_state=0).fit(
        X, y
    )
    assert len(model.model_.score.trees) == TREES + SURFACES
    return model


def xgboost_model(X: Any, y: Any) -> xgboost.XGBClassifier:
    return xgboost.XGBClassifier(n_estimators=TREES, max_depth=6, n_jobs=1, tree_method="hist").fit(
        frame(X), y
    )


def one_row(ours: Any, theirs: Any, row: Any, kind: str) -> list[Row]:
    best = race({"ours": lambda: repeated(ours, row), "theirs": lambda: repeated(theirs, row)})
    return [
        Row(
            work=f"one row predicted, default boosted classifier, {TREES} trees, {kind}",
            seconds=best["ours"] / CALLS,
            reference=named("xgboost-cpu", f"predict_proba, {TREES} trees, {kind}"),
            reference_seconds=best["theirs"] / CALLS,
            most_ratio=3.0,
        )
    ]


def repeated(model: Any, row: Any) -> None:
    for _ in range(CALLS):
        model.predict_proba(row)
