"""Tasks made from a seed: many sizes, widths, shapes and classes, and no record of anybody.

The seed decides everything. What is learned here may be judged on real data, none of which was
looked at for it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.datasets import make_classification

from hedgerow.schema.schema import Categorical, Feature, Numeric, Schema, Target
from studies.learned.constants import NUMBERS
from studies.ours.tasks import Task

LEAST_TRAIN, MOST_TRAIN, TEST_ROWS = 300, 10_000, 2_000
FEWEST_COLUMNS, MOST_COLUMNS = 3, 60
CLASS_NUMBERS = (2, 2, 2, 3, 4, 6, 10)
CATEGORIES = 6
TREE_LEVELS = 4

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Made:
    """A task, and how many of its rows are for training; they come first."""

    task: Task
    n_train: int


def made(seed: int, goal: str) -> Made:
    rng = np.random.default_rng([seed, goal == NUMBERS])
    n_train = int(_between(rng, LEAST_TRAIN, MOST_TRAIN))
    columns = int(_between(rng, FEWEST_COLUMNS, MOST_COLUMNS))
    n = n_train + TEST_ROWS
    if goal == NUMBERS:
        Z = rng.normal(size=(n, columns))
        y, target = _number(Z, rng)
        X, features = _declared(Z, rng)
        return Made(Task(X, y, Schema(features, target=target)), n_train)
    n_classes = int(rng.choice(CLASS_NUMBERS))
    if rng.random() < 0.3:
        Z, codes = _clusters(n, columns, n_classes, rng)
    else:
        Z = rng.normal(size=(n, columns))
        codes = _classes(Z, n_classes, rng)
    X, features = _declared(Z, rng)
    names = tuple(f"class_{k}" for k in range(n_classes))
    return Made(Task(X, np.array(names, object)[codes], Schema(features, classes=names)), n_train)


def _between(rng: np.random.Generator, low: float, high: float, power: float = 1.0) -> float:
    return float(low * (high / low) ** (rng.random() ** power))


# ------------------------------------------------------------------------------------- what is told
def _clusters(
    n: int, columns: int, n_classes: int, rng: np.random.Generator
) -> tuple[Floats, NDArray[np.int64]]:
    """scikit-learn's clusters at corners of a cube."""
    needed = int(np.ceil(np.log2(2 * n_classes)))
    informative = int(rng.integers(needed, max(columns // 2, needed) + 1))
    X, y = make_classification(
        n,
        max(columns, informative),
        n_informative=informative,
        n_redundant=0,
        n_classes=n_classes,
        weights=rng.dirichlet([3.0] * n_classes),
        flip_y=rng.uniform(0.0, 0.1),
        class_sep=rng.uniform(0.5, 2.0),
        random_state=int(rng.integers(2**31)),
    )
    return X, y


def _classes(Z: Floats, n_classes: int, rng: np.random.Generator) -> NDArray[np.int64]:
    """Drawn by the softmax of scores: one of random shape for each class."""
    scores = np.stack([_score(Z, rng) for _ in range(n_classes)], axis=1)
    scores = rng.uniform(0.5, 3.0) * scores + rng.normal(0.0, 0.7, n_classes)
    return np.asarray((scores + rng.gumbel(size=scores.shape)).argmax(axis=1))


def _number(Z: Floats, rng: np.random.Generator) -> tuple[Floats, Target]:
    """A score and noise, in some tasks with a heavy tail; a public range up to ten times wider."""
    y = _score(Z, rng) + rng.normal(0.0, rng.uniform(0.1, 1.0), len(Z))
    if rng.random() < 0.3:
        y = np.exp(y)
    width = float(np.ptp(y))
    room = width * (_between(rng, 1.0, 10.0, 2.0) - 1.0)
    below = rng.uniform(0.0, room)
    return y, Target(float(y.min() - below), float(y.max() + room - below))


def _score(Z: Floats, rng: np.random.Generator) -> Floats:
    """Curves of some columns, and in some tasks products of two or boxes; of deviation one."""
    used = rng.permutation(Z.shape[1])[: int(_between(rng, 2, Z.shape[1]))]
    total = np.zeros(len(Z))
    for j in used:
        total += rng.exponential() * _standard(CURVES[rng.integers(len(CURVES))](Z[:, j]))
    if rng.random() < 0.5:
        for _ in range(int(rng.integers(1, 4))):
            a, b = rng.choice(used, 2)
            total += rng.exponential(2.0) * _standard(Z[:, a] * Z[:, b])
    if rng.random() < 0.4:
        total += rng.exponential(2.0) * np.sqrt(len(used)) * _standard(_boxes(Z[:, used], rng))
    return _standard(total)


CURVES: tuple[Callable[[Floats], Floats], ...] = (
    lambda z: z,
    lambda z: np.tanh(2.0 * z),
    lambda z: (z > 0.5).astype(np.float64),
    np.abs,
    lambda z: np.sin(2.0 * z),
)


def _standard(v: Floats) -> Floats:
    return np.asarray((v - v.mean()) / max(float(v.std()), 1e-9))


def _boxes(Z: Floats, rng: np.random.Generator) -> Floats:
    """A random tree, the same test at all nodes of a level."""
    leaf = np.zeros(len(Z), np.int64)
    for _ in range(TREE_LEVELS):
        leaf = 2 * leaf + (Z[:, rng.integers(Z.shape[1])] > rng.normal(0.0, 0.7))
    return np.asarray(rng.normal(size=2**TREE_LEVELS)[leaf])


# -------------------------------------------------------------------------------- how it is written
def _declared(Z: Floats, rng: np.random.Generator) -> tuple[pd.DataFrame, tuple[Feature, ...]]:
    """Every column in a scale of its own: as it is, bent, rounded, or as a category."""
    columns: dict[str, object] = {}
    features: list[Feature] = []
    for j in range(Z.shape[1]):
        name, kind = f"c{j}", rng.random()
        if kind < 0.15:
            cuts = np.sort(rng.normal(size=CATEGORIES - 1))
            columns[name] = np.searchsorted(cuts, Z[:, j]).astype(str)
            features.append(Categorical(name, tuple(str(k) for k in range(CATEGORIES))))
            continue
        bend = BENDS[rng.integers(len(BENDS))]
        v = bend(Z[:, j])
        room = float(np.ptp(v)) * rng.uniform(0.0, 1.0)
        columns[name] = v
        features.append(Numeric(name, float(v.min()) - 0.1 * room - 1e-6, float(v.max()) + room))
    return pd.DataFrame(columns), tuple(features)


BENDS: tuple[Callable[[Floats], Floats], ...] = (
    lambda z: z,
    lambda z: np.exp(1.5 * z),
    lambda z: z**3,
    lambda z: 1.0 / (1.0 + np.exp(-2.0 * z)),
    lambda z: np.round(3.0 * z),
)
"""Rising, all of them: trees see the same order."""
