"""InterpretML's DP-EBM on the splits of `hedgerow reproduce boosted`.

Runs in an environment of its own (interpret-core, pandas, pyarrow, scikit-learn):

    peers/bin/python benchmarks/peers/dp_ebm_boosted.py DATA docs/results/boosted/dp_ebm.csv SPLITS

One holder, delta = 1 / n, defaults. Ranges of the whole file are given as public. A finished cell
is kept: started again, the rest is run.
"""

from __future__ import annotations

import csv
import sys
import time
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
from interpret.privacy import DPExplainableBoostingClassifier
from sklearn.metrics import log_loss, roc_auc_score
from sklearn.model_selection import train_test_split

DATASETS = ("adult", "bank", "credit_default", "spambase", "higgs_18k", "credit_gmsc")
EPSILONS = (1.0, 0.1, 0.5)
FIRST_SPLIT = 200  # as there
FIELDS = ("dataset", "epsilon", "split", "auc", "log_loss", "accuracy", "seconds")


def measured(name: str, folder: Path, epsilon: float, split: int) -> dict[str, object]:
    X = pd.read_parquet(folder / f"{name}.parquet").dropna().reset_index(drop=True)
    labels = X.pop("target").astype(str)
    hit = (labels == sorted(labels.unique())[1]).to_numpy(int)
    train, test = train_test_split(
        np.arange(len(X)), test_size=0.3, random_state=split, stratify=labels
    )
    numeric = X.select_dtypes("number").columns
    bounds = {X.columns.get_loc(c): (float(X[c].min()), float(X[c].max())) for c in numeric}
    model = DPExplainableBoostingClassifier(
        epsilon=epsilon,
        delta=1.0 / len(train),
        privacy_bounds=bounds,
        feature_types=["continuous" if c in numeric else "nominal" for c in X],
        random_state=split,
        n_jobs=1,
    )
    began = time.process_time()
    model.fit(X.iloc[train], hit[train])
    seconds = time.process_time() - began
    p = model.predict_proba(X.iloc[test])[:, 1]
    found = (roc_auc_score(hit[test], p), log_loss(hit[test], p), np.mean((p > 0.5) == hit[test]))
    return dict(zip(FIELDS, (name, epsilon, split, *found, seconds), strict=True))


def main(folder: Path, out: Path, splits: int) -> None:
    done = set()
    if out.exists():
        done = {
            (r["dataset"], float(r["epsilon"]), int(r["split"])) for r in csv.DictReader(out.open())
        }
    with out.open("a", newline="") as lines:
        writer = csv.DictWriter(lines, FIELDS)
        if not done:
            writer.writeheader()
        for split in range(FIRST_SPLIT, FIRST_SPLIT + splits):
            for name in DATASETS:
                for epsilon in EPSILONS:
                    if (name, epsilon, split) not in done:
                        writer.writerow(measured(name, folder, epsilon, split))
                        lines.flush()


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    main(Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3]))
