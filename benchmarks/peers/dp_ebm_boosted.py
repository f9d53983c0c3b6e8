"""InterpretML's DP-EBM on the splits of `python -m studies boosted`.

Runs in an environment of its own (interpret-core, pandas, pyarrow, scikit-learn):

    peers/bin/python benchmarks/peers/dp_ebm_boosted.py DATA studies/work/boosted/dp_ebm.csv SPLITS

One site, delta = 1 / n, defaults. Ranges of the whole file are given as public.
"""

from __future__ import annotations

import pandas as pd
from boosted_splits import main
from interpret.privacy import DPExplainableBoostingClassifier


def ebm(
    X: pd.DataFrame, n_train: int, epsilon: float, seed: int
) -> tuple[pd.DataFrame, DPExplainableBoostingClassifier]:
    numeric = X.select_dtypes("number").columns
    bounds = {X.columns.get_loc(c): (float(X[c].min()), float(X[c].max())) for c in numeric}
    model = DPExplainableBoostingClassifier(
        epsilon=epsilon,
        delta=1.0 / n_train,
        privacy_bounds=bounds,
        feature_types=["continuous" if c in numeric else "nominal" for c in X],
        random_state=seed,
        n_jobs=1,
    )
    return X, model


if __name__ == "__main__":
    main(ebm)
