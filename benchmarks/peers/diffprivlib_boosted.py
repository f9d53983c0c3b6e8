"""diffprivlib's forest on the splits of `hedgerow reproduce boosted`.

Runs in an environment of its own, see diffprivlib_tree.py beside it:

    peers/bin/python benchmarks/peers/diffprivlib_boosted.py DATA RESULTS.csv SPLITS

One holder of all rows, pure epsilon, 100 trees of depth 8. Categories are numbered; ranges are
those of the whole file. A finished cell is kept: started again, the rest is run.
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
FIRST_SPLIT = 200  # as there
FIELDS = ("dataset", "epsilon", "split", "auc", "log_loss", "accuracy", "seconds")


def measured(name: str, folder: Path, epsilon: float, split: int) -> dict[str, object]:
    frame = pd.read_parquet(folder / f"{name}.parquet").dropna().reset_index(drop=True)
    labels = frame.pop("target").astype(str)
    hit = (labels == sorted(labels.unique())[1]).to_numpy(int)
    for column in frame.select_dtypes(exclude="number"):
        frame[column] = pd.factorize(frame[column], sort=True)[0]
    X = frame.to_numpy(np.float64)
    train, test = train_test_split(
        np.arange(len(X)), test_size=0.3, random_state=split, stratify=labels
    )
    model = RandomForestClassifier(
        n_estimators=100,
        max_depth=8,
        epsilon=epsilon,
        bounds=(X.min(axis=0), X.max(axis=0)),
        classes=[0, 1],
        random_state=split,
    )
    began = time.process_time()
    model.fit(X[train], hit[train])
    seconds = time.process_time() - began
    p = np.clip(np.nan_to_num(model.predict_proba(X[test])[:, 1]), 1e-6, 1 - 1e-6)
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
