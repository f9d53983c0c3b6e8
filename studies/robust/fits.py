"""One fit on records that are hurt."""

from __future__ import annotations

import numpy as np

from studies.ours.tasks import DELTA, FOR_CLASSES, FOR_NUMBERS, NUMBERS, task
from studies.robust.harms import HARMS

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
