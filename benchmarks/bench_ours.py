"""A whole fit of our tree, forest and boosted trees on a million rows, reading and noise too."""

from __future__ import annotations

from typing import Any

import numpy as np

import hedgerow as hr
from benchmarks.sizes import sized
from benchmarks.timing import Row, named, race

ROWS, FEATURES, TREES = sized(1_000_000, 2_000), 30, sized(100, 3)
ROUNDS = 2
TARGETS = {"tree": 0.2, "forest": 0.5, "boosted trees": 0.5}


def data() -> tuple[Any, Any]:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(ROWS, FEATURES)).astype(np.float32)
    score = X[:, 0] + X[:, 1] * X[:, 2] + 0.5 * (X[:, 3] > 0.3) + rng.normal(0, 1, ROWS)
    return X, (score > 0).astype(int)


def rows() -> list[Row]:
    import xgboost

    X, y = data()
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
        ROUNDS,
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
