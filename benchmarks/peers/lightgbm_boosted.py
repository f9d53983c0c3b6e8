"""LightGBM without any privacy on the splits of `hedgerow reproduce boosted`: what noise costs.

Needs the `bench` extra:

    python benchmarks/peers/lightgbm_boosted.py DATA docs/results/boosted/lightgbm.csv SPLITS

One holder of all rows, LightGBM's defaults, categories as categories. Its epsilon is infinite.
"""

from __future__ import annotations

import csv
import sys
from pathlib import Path

import lightgbm
import numpy as np
import pandas as pd
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import train_test_split

DATASETS = ("adult", "bank", "credit_default", "spambase", "higgs_18k", "credit_gmsc")
FIRST_SPLIT = 200  # as there
FIELDS = ("dataset", "epsilon", "split", "auc")


def measured(name: str, folder: Path, split: int) -> dict[str, object]:
    X = pd.read_parquet(folder / f"{name}.parquet").dropna().reset_index(drop=True)
    labels = X.pop("target").astype(str)
    hit = (labels == sorted(labels.unique())[1]).to_numpy(int)
    X = X.apply(lambda c: c if c.dtype.kind in "if" else c.astype("category"))
    train, test = train_test_split(
        np.arange(len(X)), test_size=0.3, random_state=split, stratify=labels
    )
    model = lightgbm.LGBMClassifier(n_jobs=1, random_state=split, verbose=-1)
    model.fit(X.iloc[train], hit[train])
    auc = roc_auc_score(hit[test], model.predict_proba(X.iloc[test])[:, 1])
    return dict(zip(FIELDS, (name, "inf", split, auc), strict=True))


def main(folder: Path, out: Path, splits: int) -> None:
    with out.open("w", newline="") as lines:
        writer = csv.DictWriter(lines, FIELDS)
        writer.writeheader()
        for split in range(FIRST_SPLIT, FIRST_SPLIT + splits):
            for name in DATASETS:
                writer.writerow(measured(name, folder, split))
                lines.flush()


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3]))
