"""diffprivlib's forest on the splits of `python -m studies diprime`, Table 2.

Runs in an environment of its own, see diffprivlib_tree.py beside it:

    peers/bin/python benchmarks/peers/diffprivlib_diprime.py DATA diffprivlib.csv

One site of all rows, pure epsilon = 2; ranges are those of the whole file.
"""

from __future__ import annotations

import csv
import sys
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
from diffprivlib.models import RandomForestClassifier

NAMES = ("banknote", "credit_default", "wall_robot", "higgs_18k", "puc_rio_har")
EPSILON, TREES, TRAIN_PART = 2.0, 10, 0.9
FIRST_SPLIT, SPLITS = 100, 5
MORE_SPLITS = {"banknote": 20, "puc_rio_har": 3}


def rows(name: str, folder: Path) -> tuple[np.ndarray, np.ndarray]:
    frame = pd.read_parquet(folder / f"{name}.parquet")
    frame = frame.drop(columns=["user"], errors="ignore").dropna().reset_index(drop=True)
    y = frame.pop("target").astype(str).to_numpy()
    if name == "wall_robot":
        y = (y != "Move-Forward").astype(str)
    if name == "puc_rio_har":
        kept = np.isin(y, ["sitting", "standing"])
        frame, y = frame[kept], y[kept]
    return pd.get_dummies(frame).to_numpy(np.float64), np.unique(y, return_inverse=True)[1]


def accuracy(X: np.ndarray, y: np.ndarray, depth: int, seed: int) -> float:
    order = np.random.default_rng(seed).permutation(len(y))
    n = int(TRAIN_PART * len(y))
    model = RandomForestClassifier(
        TREES,
        epsilon=EPSILON,
        bounds=(X.min(axis=0), X.max(axis=0)),
        classes=[0, 1],
        max_depth=depth,
        random_state=seed,
    )
    model.fit(X[order[:n]], y[order[:n]])
    return float(np.mean(model.predict(X[order[n:]]) == y[order[n:]]))


def main(folder: Path, out: Path) -> None:
    warnings.simplefilter("ignore")
    with out.open("w", newline="", encoding="utf-8") as lines:
        writer = csv.writer(lines)
        writer.writerow(["data", "depth", "seed", "score"])
        for name in NAMES:
            X, y = rows(name, folder)
            for depth in (5, 10):
                n = MORE_SPLITS.get(name, SPLITS)
                for seed in range(FIRST_SPLIT, FIRST_SPLIT + n):
                    writer.writerow([name, depth, seed, round(accuracy(X, y, depth, seed), 4)])
            lines.flush()


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
