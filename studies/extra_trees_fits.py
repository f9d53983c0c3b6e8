"""One fit of the study of federated extra-trees: masked sums, noise of the real pipeline."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from functools import lru_cache
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.ensemble import ExtraTreesClassifier as PooledExtraTrees
from sklearn.metrics import f1_score

from hedgerow.methods import liu
from hedgerow.methods.liu import ExtraTreesClassifier
from hedgerow.privacy.mechanisms.response import BloomRandomizedResponse
from hedgerow.schema.rules import exact
from hedgerow.schema.schema import Schema
from studies import datasets

KDD = "kddcup99_10pct"
WHOLE = "FET, whole numbers"
"""FET on a schema that says which columns hold whole numbers."""
SHARP_ODDS = Fraction(99, 100)
SHARP = f"bloom, {SHARP_ODDS.numerator} : {SHARP_ODDS.denominator - SHARP_ODDS.numerator}"
"""The filter with instant bits that are nearly the permanent ones."""
LABELS = ("response", "bloom", SHARP)
CLIENTS, TREES, DEPTH = 2, 20, 20
MOST_CLIENTS = 9
TEST_PART = {KDD: 0.01}
USUAL_TEST_PART = 0.2
GAUSSIAN_DELTA = 1e-6
LEAF_ROWS = 5.0  # fewest rows of a leaf that told labels fill
MANY_SITES = f", {MOST_CLIENTS} sites"
AS_PRINTED = f"silo, {TREES} trees of depth {DEPTH}"
"""FET-GDP with the sizes of the paper."""

# Where every sum carries noise, a tree and a level cost budget: few of both.
NOISY: dict[str, dict[str, Any]] = {
    "silo": {"dp_model": "per_site", "n_estimators": 5, "max_depth": 6},
    "shares": {"dp_model": "distributed", "n_estimators": 5, "max_depth": 6},
    "silo, random": {"dp_model": "per_site", "n_estimators": 20, "max_depth": 8, "split": "random"},
    "shares, random": {
        "dp_model": "distributed",
        "n_estimators": 20,
        "max_depth": 8,
        "split": "random",
    },
    f"silo{MANY_SITES}": {"dp_model": "per_site", "n_estimators": 5, "max_depth": 6},
    f"shares{MANY_SITES}": {"dp_model": "distributed", "n_estimators": 5, "max_depth": 6},
    "shares, Gaussian": {
        "dp_model": "distributed",
        "n_estimators": 10,
        "max_depth": 6,
        "delta": GAUSSIAN_DELTA,
    },
}


def work(
    data: str, method: str, epsilon: float, seed: int, clients: int, trees: int, depth: int
) -> dict[str, float]:
    """Accuracy and F1 on the test rows of one fit."""
    given = _loaded(data)
    train, test = division(len(given.y), data, seed)
    if method == "ET":
        said = _pooled(given, train, test, seed, trees, depth)
    else:
        model = _federated(given, method, epsilon, seed, trees, depth)
        rows, site = held(train, clients)
        model.fit(given.X.iloc[rows], given.y[rows], site=site)
        said = model.predict(given.X.iloc[test])
    truth, told = given.y[test].astype(str), np.asarray(said).astype(str)
    return {"accuracy": float((told == truth).mean()), "f1": paper_f1(truth, told)}


def held(
    train: NDArray[np.int64], clients: int
) -> tuple[NDArray[np.int64], NDArray[np.int64] | None]:
    """The rows of the clients that take part, and whose they are."""
    if not clients:
        return train, np.arange(len(train)) % CLIENTS
    owner = np.arange(len(train)) % MOST_CLIENTS
    present = owner < clients
    return train[present], owner[present] if clients > 1 else None


def _pooled(
    given: datasets.Dataset,
    train: NDArray[np.int64],
    test: NDArray[np.int64],
    seed: int,
    trees: int,
    depth: int,
) -> NDArray[Any]:
    """What scikit-learn says with all rows in one place; one column a category."""
    X = pd.get_dummies(given.X).to_numpy(dtype=np.float64)
    model = PooledExtraTrees(trees, max_depth=depth, random_state=seed)
    return np.asarray(model.fit(X[train], given.y[train]).predict(X[test]))


def _federated(
    given: datasets.Dataset, method: str, epsilon: float, seed: int, trees: int, depth: int
) -> Any:
    """What the paper has is called by its name; the label mechanisms and placements are ours."""
    schema = with_whole_numbers(given) if method == WHOLE else given.schema
    sizes: dict[str, Any] = {"n_estimators": trees, "max_depth": depth, "random_state": seed}
    if method == AS_PRINTED:
        return liu.fet_gdp(schema, epsilon, **sizes)
    if method in LABELS:
        mechanism = reports(given, method, epsilon)
        return ExtraTreesClassifier(
            schema,
            epsilon=epsilon,
            dp_model="label",
            label_mechanism=mechanism,
            min_samples_leaf=LEAF_ROWS,
            **sizes,
        )
    if method in NOISY:
        return ExtraTreesClassifier(schema, epsilon=epsilon, **NOISY[method] | sizes)
    return liu.fet(schema, **sizes)


def with_whole_numbers(given: datasets.Dataset) -> Schema:
    features = tuple(datasets.whole(f, given.X[f.name]) for f in given.schema.features)
    return replace(given.schema, features=features)


def reports(given: datasets.Dataset, method: str, epsilon: float) -> str | BloomRandomizedResponse:
    """The estimator's own filter, or the same with sharper instant bits."""
    if method != SHARP:
        return method
    classes = len(given.schema.classes or ())
    usual = BloomRandomizedResponse.of_labels(classes, exact(epsilon, "epsilon"))
    return replace(usual, one_if_set=SHARP_ODDS, one_if_clear=1 - SHARP_ODDS)


def paper_f1(truth: NDArray[Any], said: NDArray[Any]) -> float:
    """Of the more frequent class for two classes, micro for more: as the paper's cells suggest."""
    classes, counts = np.unique(truth, return_counts=True)
    if len(classes) > 2:
        return float(f1_score(truth, said, average="micro"))
    return float(f1_score(truth, said, pos_label=classes[np.argmax(counts)]))


# -------------------------------------------------------------------------------------- rows
@lru_cache(maxsize=8)
def _loaded(name: str) -> datasets.Dataset:
    return datasets.load(name, datasets.folder(None))


def division(n: int, name: str, seed: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Rows to train and to test on."""
    rows = np.random.default_rng(seed).permutation(n)
    n_test = int(TEST_PART.get(name, USUAL_TEST_PART) * n)
    return rows[n_test:], rows[:n_test]
