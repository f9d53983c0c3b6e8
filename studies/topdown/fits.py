"""One fit of the DP-TopDown study, and one timed through the whole secure sum."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from fractions import Fraction
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hedgerow.data.reading import encoding
from hedgerow.methods.wang import Finding, TopDownTreeClassifier
from studies import simulation
from studies.datasets import FOLDER_VARIABLE
from studies.simulation import Sites
from studies.topdown.data import Task, task
from studies.topdown.methods import PARTIES, Sized, of_name


def fit(
    seed: int,
    name: str,
    fraction: float,
    method: str,
    budget: str,
    leaf_fraction: float,
    alpha: float,
) -> dict[str, float]:
    """Accuracy, size, rounds and cost of one tree; alpha is the paper's name for epsilon."""
    line, data = of_name(method), task(name, os.environ[FOLDER_VARIABLE])
    sites = divided(name, fraction, line.n_sites, seed)
    guess = power_of_two_above(len(data.y))
    learner = line.learner(Sized(data.schema, budget, Fraction(str(leaf_fraction)), guess))
    study = simulation.study_of(learner, sites, alpha, line.delta, dp_model=line.dp_model)
    trained, spent = simulation.train(learner, study, sites, seed)
    (grown,) = trained.leaf_statistics
    return {
        "test": accuracy(trained, data.X_test, data.y_test, data),
        "train": accuracy(trained, data.X, data.y, data),
        "leaves": grown.tree.n_leaves,
        "depth": grown.tree.depth,
        "spent": float(spent),
    }


@lru_cache(maxsize=4)
def divided(name: str, fraction: float, n_sites: int, seed: int) -> Sites:
    """The training rows, or a part of them, divided at random among the parties."""
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


def timed(seed: int, split: Finding, max_splits: int) -> dict[str, float]:
    """One tree through the whole secure sum, every split taken, beside scikit-learn's."""
    from sklearn.tree import DecisionTreeClassifier

    data = task("adult", os.environ[FOLDER_VARIABLE])
    model = TopDownTreeClassifier(
        data.schema,
        epsilon=512.0,
        split=split,
        max_splits=max_splits,
        budget="even",
        min_gain=0.0,
        min_fraction_split=0.0,
    )
    owner = np.random.default_rng(seed).integers(0, PARTIES, len(data.y))
    ours = cpu_seconds(lambda: model.fit(data.X, data.y, site=owner))
    leaves = model.model_.score.trees[0].n_leaves
    codes = encoding.encode_features(data.X, data.schema).T.astype(np.float32)
    reference = DecisionTreeClassifier(max_leaf_nodes=leaves)
    theirs = cpu_seconds(lambda: reference.fit(codes, data.y))
    return {
        "rounds": len(model.run_.rounds),
        "leaves": leaves,
        "seconds": ours,
        "scikit-learn": theirs,
        "ratio": ours / theirs,
    }


def cpu_seconds(work: Callable[[], object]) -> float:
    start = time.process_time()
    work()
    return time.process_time() - start
