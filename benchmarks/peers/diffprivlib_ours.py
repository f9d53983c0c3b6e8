"""diffprivlib's tree and forest on the splits of `python -m studies ours`.

Runs in an environment of its own, see diffprivlib_tree.py beside it:

    peers/bin/python benchmarks/peers/diffprivlib_ours.py DATA studies/work/ours/diffprivlib.csv

One site of all rows, pure epsilon. Categories are one-hot; ranges are those of the whole file.
"""

from __future__ import annotations

import csv
import sys
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
from diffprivlib.models import DecisionTreeClassifier, RandomForestClassifier

SEEN = (
    "adult", "bank", "credit_default", "spambase", "banknote", "wall_robot", "wall_bin", "message",
    "waveform", "puc_rio_har", "higgs_18k",
)  # fmt: skip
SMALL_UNSEEN = ("breast_cancer", "wine", "digits")
LARGE_UNSEEN = ("credit_gmsc", "avazu_15k", "skin")
SPLITS = {
    **dict.fromkeys(SEEN, range(3)),
    **dict.fromkeys(SMALL_UNSEEN, range(20, 25)),
    **dict.fromkeys(LARGE_UNSEEN, range(20, 22)),
}
MOST_ROWS = {"puc_rio_har": 60_000, "credit_gmsc": 60_000, "skin": 60_000}
EPSILONS = (0.1, 0.5, 1.0, 2.0, 5.0)
LEAST_PROBABILITY = 1e-6
MOST_VALUES = 254  # a column of more texts is numbered, not one-hot


def rows(name: str, folder: Path) -> tuple[np.ndarray, np.ndarray]:
    if name in SMALL_UNSEEN:
        from sklearn import datasets

        frame = getattr(datasets, f"load_{name}")(as_frame=True).frame
    else:
        base = "wall_robot" if name == "wall_bin" else name
        frame = pd.read_parquet(folder / f"{base}.parquet").dropna()
    if len(frame) > MOST_ROWS.get(name, len(frame)):
        frame = frame.sample(MOST_ROWS[name], random_state=0)
    target = frame.pop("target").astype(str)
    if name == "wall_bin":
        target = (target != "Move-Forward").astype(str)
    for column in frame.select_dtypes(exclude="number"):
        if frame[column].nunique() > MOST_VALUES:
            frame[column] = pd.factorize(frame[column], sort=True)[0]
    return pd.get_dummies(frame).to_numpy(np.float64), np.unique(target, return_inverse=True)[1]


def measured(make, X: np.ndarray, y: np.ndarray, epsilon: float, seed: int) -> dict[str, float]:
    order = np.random.default_rng(1000 + seed).permutation(len(y))
    n_test = int(0.3 * len(y))
    train, test = order[n_test:], order[:n_test]
    bounds, classes = (X.min(axis=0), X.max(axis=0)), list(range(int(y.max()) + 1))
    model = make(epsilon=epsilon, bounds=bounds, classes=classes, random_state=seed)
    p = model.fit(X[train], y[train]).predict_proba(X[test])
    p = np.clip(np.nan_to_num(p), LEAST_PROBABILITY, 1.0)
    p /= p.sum(axis=1, keepdims=True)
    return {
        "accuracy": round(float(np.mean(p.argmax(axis=1) == y[test])), 4),
        "log_loss": round(float(-np.log(p[np.arange(len(test)), y[test]]).mean()), 4),
    }


MAKERS = {
    "tree": lambda **o: DecisionTreeClassifier(max_depth=5, **o),
    "forest": lambda **o: RandomForestClassifier(n_estimators=10, max_depth=5, **o),
}


def main(folder: Path, out: Path) -> None:
    warnings.simplefilter("ignore")
    with out.open("w", newline="", encoding="utf-8") as lines:
        writer = csv.DictWriter(
            lines, ["task_name", "seed", "method", "epsilon", "accuracy", "log_loss"]
        )
        writer.writeheader()
        for name, seeds in SPLITS.items():
            X, y = rows(name, folder)
            for seed in seeds:
                for method, make in MAKERS.items():
                    for epsilon in EPSILONS:
                        cell = measured(make, X, y, epsilon, seed)
                        key = {"task_name": name, "seed": seed, "method": method}
                        writer.writerow({**key, "epsilon": epsilon, **cell})
                        lines.flush()


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
