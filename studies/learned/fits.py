"""One fit with other constants, on a task that is made or on a real one."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from studies.fixed_noise import fixed_noise
from studies.learned.constants import fitted_with
from studies.learned.made import Made, made
from studies.measures import of_classes
from studies.ours.tasks import DELTA, FOR_CLASSES, FOR_NUMBERS, Task, task

MOST_TRAIN, MOST_TEST = 6_000, 3_000
CALLS = 10**7
"""More than a fit asks for random bytes: the noise of two seeds has nothing in common."""
WORST = -1.0
"""Of R2: how bad a fit is beyond that must not decide."""
BUNDLED_NUMBERS = "diabetes"


def fit_made(seed: int, goal: str, method: str, epsilon: float, setting: str) -> dict[str, float]:
    """On a task that the seed makes; minus log-loss of classes, R2 of numbers."""
    given = _made(seed, goal)
    order = np.arange(len(given.task.y))
    rows = order[: given.n_train], order[given.n_train :]
    return _fit(given.task, rows, method, epsilon, setting, seed)


def fit_real(
    split: int, task_name: str, method: str, epsilon: float, setting: str
) -> dict[str, float]:
    given = _real(task_name)
    train, test = given.split(split)
    return _fit(given, (train[:MOST_TRAIN], test[:MOST_TEST]), method, epsilon, setting, split)


@lru_cache(maxsize=2)
def _made(seed: int, goal: str) -> Made:
    return made(seed, goal)


def _real(name: str) -> Task:
    return _diabetes() if name == BUNDLED_NUMBERS else task(name)


@lru_cache(maxsize=1)
def _diabetes() -> Task:
    from sklearn.datasets import load_diabetes

    from hedgerow.schema.schema import Schema, Target
    from studies.datasets import declared, whole

    frame: pd.DataFrame = load_diabetes(as_frame=True).frame
    y = np.asarray(frame.pop("target"), np.float64)
    features = tuple(whole(declared(frame[column]), frame[column]) for column in frame)
    return Task(frame, y / y.max(), Schema(features, target=Target(0.0, 1.0)))


def _fit(
    given: Task,
    rows: tuple[NDArray[np.int64], NDArray[np.int64]],
    method: str,
    epsilon: float,
    setting: str,
    seed: int,
) -> dict[str, float]:
    """The noise is that of the seed, so that two settings differ in what they make of it."""
    train, test = rows
    is_number = given.schema.target is not None
    make = (FOR_NUMBERS if is_number else FOR_CLASSES)[method]
    model = make(given.schema, epsilon, DELTA, random_state=seed)
    with fixed_noise(seed * CALLS), fitted_with(setting):
        model.fit(given.X.iloc[train], given.y[train])
    X, y = given.X.iloc[test], given.y[test]
    if is_number:
        around = np.mean((y - given.y[train].mean()) ** 2)
        return {"score": max(float(1.0 - np.mean((model.predict(X) - y) ** 2) / around), WORST)}
    return {"score": -of_classes(model.predict_proba(X), y, given.schema)["log_loss"]}
