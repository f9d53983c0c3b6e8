"""diffprivlib's forest on the splits of `python -m studies boosted`.

Runs in an environment of its own, see diffprivlib_tree.py beside it:

    peers/bin/python benchmarks/peers/diffprivlib_boosted.py DATA RESULTS.csv SPLITS

One site of all rows, pure epsilon, 100 trees of depth 8. Categories are numbered; ranges are
those of the whole file.
"""

from __future__ import annotations

import pandas as pd
from boosted_splits import main
from diffprivlib.models import RandomForestClassifier


def forest(
    X: pd.DataFrame, n_train: int, epsilon: float, seed: int
) -> tuple[pd.DataFrame, RandomForestClassifier]:
    for column in X.select_dtypes(exclude="number"):
        X[column] = pd.factorize(X[column], sort=True)[0]
    X = X.astype(float)
    model = RandomForestClassifier(
        n_estimators=100,
        max_depth=8,
        epsilon=epsilon,
        bounds=(X.min(axis=0).to_numpy(), X.max(axis=0).to_numpy()),
        classes=[0, 1],
        random_state=seed,
    )
    return X, model


if __name__ == "__main__":
    main(forest)
