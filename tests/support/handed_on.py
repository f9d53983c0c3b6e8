"""Models of every kind and rows of every kind, for whatever reads models of ours."""

from __future__ import annotations

import inspect
import math
from functools import cache
from typing import Any

import numpy as np
import pandas as pd
from sklearn.base import is_regressor

import hedgerow as hr
from hedgerow.report.weighing import surfaces_of
from hedgerow.schema.schema import Categorical, Hashed, Numeric, Schema, Spacing, Target
from studies.tests.answers import fixed_noise

FEATURES = (
    Numeric("age", 0.0, 100.0, bins=12),
    Numeric("change", -0.3, 0.7, spacing=Spacing.FINE),
    Categorical('ward "A", it\'s', ("north", "south", "west", "east")),
    Categorical("grade", ("1", "2", "0.5"), other=False),
    Hashed("place", buckets=6),
)
NAMES = tuple(feature.name for feature in FEATURES)
SCHEMAS = {
    "two classes": Schema(FEATURES, classes=("no", "yes")),
    "three classes": Schema(FEATURES, classes=("a", "b", "c's")),
    "number": Schema(FEATURES, target=Target(-2.0, 6.0)),
}
ESTIMATORS = {
    name: getattr(hr, name) for name in hr.__all__ if name.endswith(("Classifier", "Regressor"))
}
CASES = [
    (name, task)
    for name, kind in ESTIMATORS.items()
    for task in SCHEMAS
    if is_regressor(kind()) == (task == "number")
]
SURFACES = ("BoostedTreesClassifier", "surfaces")
"""Two classes and a signal that pays for surfaces, and for trees on top of them."""
SCHEMAS["surfaces"] = SCHEMAS["two classes"]
CASES.append(SURFACES)


def rows(n: int, seed: int = 0) -> pd.DataFrame:
    """Missing values, values out of range or on an edge, unknown and oddly spelled categories."""
    rng = np.random.default_rng(seed)
    age = rng.uniform(-20, 120, n)
    age[rng.random(n) < 0.2] = rng.choice(
        [math.nan, math.inf, -math.inf, *SCHEMAS["number"].grids[0].edges]
    )
    edges = np.array(SCHEMAS["number"].grids[1].edges)
    change = np.where(rng.random(n) < 0.5, rng.choice(edges, n), rng.normal(0.0, 0.3, n))
    change[rng.random(n) < 0.1] = math.nan
    wards = ["north", "south", "west", "east", " east ", "elsewhere", "NA", "", None]
    grades = ["1", "1.0", "2", "0.5", "True", "7", None]
    places = ["Aa", "Bb", "Cc", "Dd", "Ee", "Ff", "NA", None]
    data = {
        NAMES[0]: age,
        NAMES[1]: change,
        NAMES[2]: rng.choice(np.array(wards, object), n),
        NAMES[3]: rng.choice(np.array(grades, object), n),
        NAMES[4]: rng.choice(np.array(places, object), n),
    }
    return pd.DataFrame(data)


def labeled(n: int, schema: Schema) -> tuple[pd.DataFrame, Any]:
    """Rows that the schema admits, and what they teach."""
    X = rows(n, seed=7)
    X[NAMES[3]] = X[NAMES[3]].replace({"7": "2"})
    known = X[NAMES[0]].replace([math.inf, -math.inf], math.nan).fillna(0.0)
    score = (known > 40) + 2.0 * X[NAMES[1]].fillna(0.0) + (X[NAMES[2]] == "south")
    if schema.classes is None:
        return X, score.to_numpy(float)
    cuts = np.quantile(score, np.arange(1, len(schema.classes)) / len(schema.classes))
    return X, np.array(schema.classes)[np.searchsorted(cuts, score)]


@cache
def fitted(name: str, task: str) -> Any:
    """A model of this kind, with little noise so that it has grown.

    The noise is fixed: a number that lies between two rounded ones by luck is rounded otherwise
    by those who read the model's file with fewer digits.
    """
    kind, schema = ESTIMATORS[name], SCHEMAS[task]
    known = inspect.signature(kind).parameters
    quick = {"n_estimators": 4, "max_depth": 3, "max_splits": 5, "random_state": 0, "epsilon": 50.0}
    n, strong = (1500, {"epsilon": 5000.0}) if task == "surfaces" else (300, {})
    model = kind(schema, **{k: v for k, v in (quick | strong).items() if k in known})
    with fixed_noise():
        model.fit(*labeled(n, schema))
    kinds = {surface is not None for surface in surfaces_of(model)}
    has_both = task == "surfaces" or (name, task) == ("BoostedTreesClassifier", "three classes")
    assert not has_both or kinds == {True, False}, f"surfaces and trees were wanted: {kinds}"
    return model


def answers(model: Any, X: pd.DataFrame) -> np.ndarray:
    """(n, classes) or (n, 1); grades outside the list are told as missing, as exports read them."""
    admitted = X.assign(**{NAMES[3]: X[NAMES[3]].replace({"7": None})})
    if hasattr(model, "predict_proba"):
        return np.asarray(model.predict_proba(admitted))
    return np.asarray(model.predict(admitted))[:, None]
