"""diffprivlib's DecisionTreeClassifier on the splits of `python -m studies gubler`.

diffprivlib 0.6.6 needs an older scikit-learn than hedgerow, hence an environment of its own:

    python3 -m venv peers
    peers/bin/pip install diffprivlib==0.6.6 scikit-learn==1.6.1 pandas pyarrow
    peers/bin/python benchmarks/peers/diffprivlib_tree.py DATA_FOLDER OUT.csv

The tree has one site of all rows (a trusted curator) and pure epsilon. Its splits are random;
the budget goes to the leaves' labels. Categories are one-hot; numbering them gave a lower AUC on
adult. Ranges are those of the whole file, as in hedgerow's experiments.
"""

from __future__ import annotations

import csv
import sys
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
from diffprivlib.models import DecisionTreeClassifier
from sklearn.metrics import roc_auc_score

DATA = ("adult", "bank", "credit_default", "spambase", "banknote")
EPSILONS = (0.1, 0.5, 1.0, 2.0, 5.0)
DEPTH = 5
RUNS = 3
TRAIN_PART = 0.7


def rows(name: str, folder: Path) -> tuple[np.ndarray, np.ndarray]:
    frame = pd.read_parquet(folder / f"{name}.parquet").dropna().reset_index(drop=True)
    target = frame.pop("target").astype(str)
    return pd.get_dummies(frame).to_numpy(np.float64), (target == sorted(set(target))[1]).to_numpy()


def measured(X: np.ndarray, y: np.ndarray, epsilon: float, seed: int) -> dict[str, float]:
    order = np.random.default_rng(seed).permutation(len(y))
    cut = int(TRAIN_PART * len(order))
    train, test = order[:cut], order[cut:]
    tree = DecisionTreeClassifier(
        max_depth=DEPTH,
        epsilon=epsilon,
        bounds=(X.min(axis=0), X.max(axis=0)),
        classes=[0, 1],
        random_state=seed,
    ).fit(X[train], y[train].astype(int))
    p = tree.predict_proba(X[test])[:, 1]
    return {
        "accuracy": round(float(np.mean(tree.predict(X[test]) == y[test])), 4),
        "auc": round(float(roc_auc_score(y[test], p)), 4),
    }


def main(folder: Path, out: Path) -> None:
    warnings.simplefilter("ignore")
    names = ["data", "epsilon", "seed", "accuracy", "auc"]
    with out.open("w", newline="", encoding="utf-8") as lines:
        writer = csv.DictWriter(lines, fieldnames=names)
        writer.writeheader()
        for name in DATA:
            X, y = rows(name, folder)
            for epsilon in EPSILONS:
                for seed in range(RUNS):
                    result = measured(X, y, epsilon, seed)
                    writer.writerow({"data": name, "epsilon": epsilon, "seed": seed, **result})


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
