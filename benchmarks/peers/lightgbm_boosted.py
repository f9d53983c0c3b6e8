"""LightGBM without any privacy on the splits of `python -m studies boosted`: what noise costs.

Needs the `bench` extra:

    python benchmarks/peers/lightgbm_boosted.py DATA studies/work/boosted/lightgbm.csv SPLITS

One site of all rows, LightGBM's defaults, categories as categories. Its epsilon is infinite.
"""

from __future__ import annotations

import math

import lightgbm
import pandas as pd
from boosted_splits import main


def boosted(
    X: pd.DataFrame, n_train: int, epsilon: float, seed: int
) -> tuple[pd.DataFrame, lightgbm.LGBMClassifier]:
    X = X.apply(lambda c: c if c.dtype.kind in "if" else c.astype("category"))
    return X, lightgbm.LGBMClassifier(n_jobs=1, random_state=seed, verbose=-1)


if __name__ == "__main__":
    main(boosted, (math.inf,))
