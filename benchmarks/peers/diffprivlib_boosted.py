"""diffprivlib's forest on the first split of `hedgerow reproduce boosted`.

Runs in an environment of its own, see diffprivlib_tree.py beside it:

    peers/bin/python benchmarks/peers/diffprivlib_boosted.py DATA RESULTS.csv

One holder of all rows, pure epsilon, 100 trees of depth 8. Categories are numbered; ranges are
those of the whole file.
"""

from __future__ import annotations

import csv
import sys
import time
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
from diffprivlib.models import RandomForestClassifier
from sklearn.metrics import log_loss, roc_auc_score
from sklearn.model_selection import train_test_split

DATASETS = ("adult", "bank", "credit_default", "spambase", "higgs_18k", "credit_gmsc")
EPSILONS = (1.0, 0.1, 0.5)
FIELDS = ("dataset", "epsilon", "split", "auc", "log_loss", "accuracy", "seconds")


def measured(name: str, folder: Path, epsilon: float) -> dict[str, object]:
    frame = pd.read_parquet(folder / f"{name}.parquet").dropna().reset_index(drop=True)
    labels = frame.pop("target").astype(str)
    hit = (labels == sorted(labels.unique())[1]).to_numpy(int)
    for column in frame.select_dtypes(exclude="number"):
        frame[column] = pd.factorize(frame[column], sort=True)[0]
    X = frame.to_numpy(np.float64)
    train, test = train_test_split(
        np.arange(len(X)), test_size=0.3, random_state=0, stratify=labels
    )
    model = RandomForestClassifier(
        n_estimators=100,
        max_depth=8,
        epsilon=epsilon,
        bounds=(X.min(axis=0), X.max(axis=0)),
        classes=[0, 1],
        random_state=0,
    )
    began = time.process_time()
    model.fit(X[train], hit[train])
    seconds = time.process_time() - began
    p = np.clip(np.nan_to_num(model.predict_proba(X[test])[:, 1]), 1e-6, 1 - 1e-6)
    found = (roc_auc_score(hit[test], p), log_loss(hit[test], p), np.mean((p > 0.5) == hit[test]))
    return dict(zip(FIELDS, (name, epsilon, 0, *found, seconds), strict=True))


def main(folder: Path, out: Path) -> None:
    with out.open("w", newline="") as lines:
        writer = csv.DictWriter(lines, FIELDS)
        writer.writeheader()
        for name in DATASETS:
            for epsilon in EPSILONS:
                writer.writerow(measured(name, folder, epsilon))
                lines.flush()


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    main(Path(sys.argv[1]), Path(sys.argv[2]))
