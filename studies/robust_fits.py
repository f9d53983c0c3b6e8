"""Ways in which real records are worse than a benchmark's: each makes other records of a task."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from hedgerow.schema.schema import Feature, Hashed, Numeric, Target
from studies.ours_fits import DELTA, FOR_CLASSES, FOR_NUMBERS, NUMBERS, Task, task

SITES, MANY_SITES = 5, 20
ONE_IN = 100  # of the training rows, those of the rare class
CODES = 2000  # values of a column that tells much
CODE_EFFECT = 2.0  # deviation of a code's log-odds
SKEW = 0.3  # of Dirichlet shares of labels


@dataclass(frozen=True)
class Harmed:
    """A task with rows for training, who holds them, and where noise is added."""

    task: Task
    train: NDArray[np.int64]
    site: NDArray[np.int64] | None = None
    more: Mapping[str, Any] = field(default_factory=dict)


Harm = Callable[[Task, NDArray[np.int64], np.random.Generator], Harmed]


# ------------------------------------------------------------------------------------- columns
def unharmed(task: Task, train: NDArray[np.int64], rng: np.random.Generator) -> Harmed:
    return Harmed(task, train)


def missing(
    task: Task, train: NDArray[np.int64], rng: np.random.Generator, part: float = 0.2
) -> Harmed:
    """That part of all cells is not known."""
    hidden = pd.DataFrame(rng.random(task.X.shape) < part, task.X.index, task.X.columns)
    return Harmed(replace(task, X=task.X.astype(object).mask(hidden, None)), train)


def wide(
    task: Task, train: NDArray[np.int64], rng: np.random.Generator, columns: float, target: float
) -> Harmed:
    """Public ranges so many times as wide as they need be."""
    schema = task.schema
    features = tuple(_wider(feature, columns) for feature in schema.features)
    goal = schema.target
    if goal is not None and target > 1.0:
        goal = Target(*_around(goal.low, goal.high, target))
    return Harmed(replace(task, schema=replace(schema, features=features, target=goal)), train)


def _wider(feature: Feature, times: float) -> Feature:
    if not isinstance(feature, Numeric) or feature.edges is not None or times == 1.0:
        return feature
    low, high = _around(feature.low, feature.high, times)
    return Numeric(feature.name, low, high)


def _around(low: float, high: float, times: float) -> tuple[float, float]:
    more = (times - 1.0) * (high - low) / 2.0
    return low - more, high + more


def noise_columns(task: Task, train: NDArray[np.int64], rng: np.random.Generator, n: int) -> Harmed:
    names = [f"noise_{k}" for k in range(n)]
    drawn = pd.DataFrame(rng.random((len(task.X), n)), task.X.index, names)
    features = (*task.schema.features, *(Numeric(name, 0.0, 1.0) for name in names))
    X = pd.concat([task.X, drawn], axis=1)
    return Harmed(replace(task, X=X, schema=replace(task.schema, features=features)), train)


def codes(
    task: Task,
    train: NDArray[np.int64],
    rng: np.random.Generator,
    buckets: int,
    hashes: int = 1,
) -> Harmed:
    """One more column of 2,000 values that tells the class well, hashed once or several times."""
    effects = np.exp(rng.normal(0.0, CODE_EFFECT, CODES) / 2.0)
    is_second = task.y == (task.schema.classes or ())[1]
    of = [rng.choice(CODES, len(task.y), p=w / w.sum()) for w in (1.0 / effects, effects)]
    code = np.where(is_second, of[1], of[0])
    columns = {f"code_{h}": [f"{h}:{c}" for c in code] for h in range(hashes)}
    X = task.X.assign(**columns)
    features = (*task.schema.features, *(Hashed(name, buckets) for name in columns))
    return Harmed(replace(task, X=X, schema=replace(task.schema, features=features)), train)


def rare(task: Task, train: NDArray[np.int64], rng: np.random.Generator) -> Harmed:
    """One training row in a hundred is of the second class; test rows stay as they are."""
    is_second = task.y[train] == (task.schema.classes or ())[1]
    first, second = train[~is_second], train[is_second]
    kept = rng.permutation(second)[: max(len(first) // (ONE_IN - 1), 1)]
    return Harmed(task, np.concatenate([first, kept]))


# --------------------------------------------------------------------------------------- sites
def by_chance(task: Task, train: NDArray[np.int64], rng: np.random.Generator, sites: int) -> Harmed:
    return Harmed(task, train, rng.integers(0, sites, len(train)))


def by_feature(
    task: Task, train: NDArray[np.int64], rng: np.random.Generator, sites: int
) -> Harmed:
    """Sites hold quantiles of the first numeric column."""
    name = next(f.name for f in task.schema.features if isinstance(f, Numeric))
    ranks = np.argsort(np.argsort(task.X[name].to_numpy()[train], kind="stable"))
    return Harmed(task, train, ranks * sites // len(train))


def by_label(task: Task, train: NDArray[np.int64], rng: np.random.Generator, sites: int) -> Harmed:
    """Every class (or fifth of a number) is shared out by Dirichlet parts of its own."""
    site = np.empty(len(train), np.int64)
    label = _labels(task)[train]
    for value in np.unique(label):
        mine = label == value
        site[mine] = rng.choice(sites, int(mine.sum()), p=rng.dirichlet([SKEW] * sites))
    return Harmed(task, train, site)


def uneven(task: Task, train: NDArray[np.int64], rng: np.random.Generator) -> Harmed:
    """Three sites by chance, one that holds a single class, and one of two rows."""
    site = rng.integers(0, 3, len(train))
    label = _labels(task)[train]
    site[(label == np.unique(label)[0]) & (rng.random(len(train)) < 0.5)] = 3
    site[rng.choice(len(train), 2, replace=False)] = 4
    return Harmed(task, train, site)


def _labels(task: Task) -> NDArray[Any]:
    if task.schema.target is None:
        return np.asarray(task.y, str)
    return np.asarray(pd.qcut(task.y, 5, labels=False, duplicates="drop"))


def alone(task: Task, train: NDArray[np.int64], rng: np.random.Generator) -> Harmed:
    """Each site adds all of the noise that protects it."""
    return replace(by_chance(task, train, rng, SITES), more={"dp_model": "per_site"})


ANY: Mapping[str, Harm] = {
    "clean": unharmed,
    "20 % missing": missing,
    "ranges x 10": partial(wide, columns=10.0, target=1.0),
    "ranges x 100": partial(wide, columns=100.0, target=1.0),
    "30 noise columns": partial(noise_columns, n=30),
    "100 noise columns": partial(noise_columns, n=100),
    "5 sites": partial(by_chance, sites=SITES),
    "5 sites, by a column": partial(by_feature, sites=SITES),
    "5 sites, by label": partial(by_label, sites=SITES),
    "two rows, one class": uneven,
    "5 sites, noise of each": alone,
    "20 sites": partial(by_chance, sites=MANY_SITES),
    "20 sites, by a column": partial(by_feature, sites=MANY_SITES),
    "20 sites, by label": partial(by_label, sites=MANY_SITES),
    "300 noise columns": partial(noise_columns, n=300),
}
OF_TWO_CLASSES: Mapping[str, Harm] = {
    "1 : 99": rare,
    "2,000 codes, 254 buckets": partial(codes, buckets=254),
    "2,000 codes, hashed 4 times": partial(codes, buckets=254, hashes=4),
}
OF_NUMBERS: Mapping[str, Harm] = {
    "target x 10": partial(wide, columns=1.0, target=10.0),
    "target x 100": partial(wide, columns=1.0, target=100.0),
    "both x 10": partial(wide, columns=10.0, target=10.0),
}
HARMS: Mapping[str, Harm] = {**ANY, **OF_TWO_CLASSES, **OF_NUMBERS}


# --------------------------------------------------------------------------------------------------
# One fit on records that are hurt.
EPSILON = 1.0
TWO_CLASSES = ("adult", "credit_default", "spambase")


def fit_harmed(seed: int, task_name: str, harm: str, method: str) -> dict[str, float]:
    """AUC of two classes, accuracy of more, R2 of a number."""
    from studies.measures import of_classes

    given = task(task_name)
    train, test = given.split(seed)
    hurt = HARMS[harm](given, train, np.random.default_rng(seed))
    make = (FOR_NUMBERS if task_name in NUMBERS else FOR_CLASSES)[method]
    model = make(hurt.task.schema, EPSILON, DELTA, random_state=seed, **hurt.more)
    model.fit(hurt.task.X.iloc[hurt.train], hurt.task.y[hurt.train], site=hurt.site)
    X, y = hurt.task.X.iloc[test], hurt.task.y[test]
    rounds = {"rounds": float(len(model.run_.rounds))}
    if task_name in NUMBERS:
        around = np.mean((y - given.y[train].mean()) ** 2)
        return {"score": float(1.0 - np.mean((model.predict(X) - y) ** 2) / around), **rounds}
    found = of_classes(model.predict_proba(X), y, hurt.task.schema)
    return {"score": found["auc" if task_name in TWO_CLASSES else "accuracy"], **rounds}
