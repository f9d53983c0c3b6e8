"""One cell of the study of median forests: a fit, a fit on folds or all rows, how rows fall."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from fractions import Fraction

import numpy as np

from hedgerow.data.reading import encoding
from hedgerow.methods.consul import MedianForest
from studies.diprime.data import halves
from studies.diprime.methods import (
    METHOD_EXAMPLES,
    Setting,
    fit_and_score,
    leaf_parts,
    left_parts,
    score,
    train,
)

FIRST_SPLIT = 100
"""No constant was chosen on splits from here on; see studies/notes/trees.md#0050."""
TREES, K, RHO = 10, 5, 0.5
EPSILON = {True: 10.0, False: 2.0}
"""The paper's, for regression and for classification."""


def fit(
    seed: int,
    data: str,
    method: str,
    epsilon: float,
    n_estimators: int,
    depth: int,
    rho: float,
    k: int,
) -> Mapping[str, float]:
    rows = halves(data, seed)
    setting = Setting(data, epsilon, n_estimators, depth, Fraction(rho), k)
    start = time.process_time()
    found = fit_and_score(method, setting, rows, seed)
    return {"score": found, "seconds": time.process_time() - start}


def fit_on_all_rows(
    seed: int,
    data: str,
    method: str,
    epsilon: float,
    n_estimators: int,
    depth: int,
    rho: float,
    k: int,
) -> Mapping[str, float]:
    """As `fit`, but no tree has rows of its own."""
    rows = halves(data, seed)
    setting = Setting(data, epsilon, n_estimators, depth, Fraction(rho), k)
    start = time.process_time()
    found = fit_and_score(method, setting, rows, seed, folds=False)
    return {"score": found, "seconds": time.process_time() - start}


def fit_rows(
    seed: int, data: str, delta: float, n_estimators: int, folds: bool
) -> Mapping[str, float]:
    rows = halves(data, seed)
    epsilon = EPSILON[rows.is_regression]
    setting = Setting(data, epsilon, n_estimators, 0, Fraction(RHO), K, delta)
    learner = MedianForest(n_estimators=n_estimators, folds=folds)
    start = time.process_time()
    trained = train("ours", learner, setting, rows, seed)
    return {"score": score(trained, rows), "seconds": time.process_time() - start}


OCCUPANCY_EDGES = (0.0, 0.005, 0.01, 0.02, 0.05, 0.1, 1.0)
LEFT_EDGES = (0.0, 0.05, 0.25, 0.4, 0.6, 0.75, 0.95, 1.0)


def parts(seed: int, data: str, method: str) -> Mapping[str, float]:
    """How evenly rows fall, on the experimenter's own training rows (Figures 3 and 4)."""
    rows = halves(data, seed)
    setting = Setting(data, EPSILON[False], TREES, 5, Fraction(1, 2), K)
    trained = train(method, METHOD_EXAMPLES[method](setting, rows), setting, rows, seed)
    codes = encoding.encode_features(rows.X, rows.schema)
    trees = trained.model.score.trees
    leaves = np.concatenate([leaf_parts(tree, codes) for tree in trees])
    left = np.concatenate([left_parts(tree, codes) for tree in trees])
    return {
        "leaves": float(len(leaves)),
        **_histogram("leaf", leaves, OCCUPANCY_EDGES),
        **_histogram("left", left, LEFT_EDGES),
    }


def _histogram(
    name: str, values: np.ndarray[tuple[int], np.dtype[np.float64]], edges: Sequence[float]
) -> dict[str, float]:
    counts, _ = np.histogram(values, edges)
    return {f"{name} to {b:g}": c / len(values) for b, c in zip(edges[1:], counts, strict=True)}
