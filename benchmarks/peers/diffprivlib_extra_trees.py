"""diffprivlib's forest on the divisions of `python -m studies extra-trees`.

Runs in an environment of its own, see diffprivlib_tree.py beside it:

    peers/bin/python benchmarks/peers/diffprivlib_extra_trees.py DATA_FOLDER REPEATS \
        studies/work/extra-trees/diffprivlib.csv

One site of all rows, pure epsilon. Categories are one-hot; ranges are those of the whole file.
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

SETS = ("spambase", "credit_default", "waveform", "message", "kddcup99_10pct")
EPSILONS = (1.0, 2.0, 4.0, 8.0)
TREES, DEPTH = 20, 8
KDD, KDD_REPEATS = "kddcup99_10pct", 1
TEST_PART = {KDD: 0.01}
USUAL_TEST_PART = 0.2


def division(n: int, name: str, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """As in studies.extra_trees."""
    rows = np.random.default_rng(seed).permutation(n)
    n_test = int(TEST_PART.get(name, USUAL_TEST_PART) * n)
    return rows[n_test:], rows[:n_test]


def main(folder: Path, repeats: int, results: Path) -> None:
    warnings.simplefilter("ignore")
    with results.open("w", newline="", encoding="utf-8") as out:
        writer = csv.writer(out)
        writer.writerow(["data", "epsilon", "seed", "accuracy", "cpu_seconds"])
        for name in SETS:
            frame = pd.read_parquet(folder / f"{name}.parquet").dropna().reset_index(drop=True)
            y = np.unique(frame.pop("target").astype(str), return_inverse=True)[1]
            X = pd.get_dummies(frame).to_numpy(np.float64)
            for seed in range(KDD_REPEATS if name == KDD else repeats):
                for epsilon in EPSILONS:
                    writer.writerow([name, epsilon, seed, *measured(X, y, name, epsilon, seed)])
                    out.flush()


def measured(
    X: np.ndarray, y: np.ndarray, name: str, epsilon: float, seed: int
) -> tuple[float, float]:
    train, test = division(len(y), name, seed)
    started = time.process_time()
    model = RandomForestClassifier(
        TREES,
        epsilon=epsilon,
        bounds=(X.min(axis=0), X.max(axis=0)),
        classes=list(range(int(y.max()) + 1)),
        max_depth=DEPTH,
        random_state=seed,
    )
    said = model.fit(X[train], y[train]).predict(X[test])
    return float((said == y[test]).mean()), round(time.process_time() - started, 2)


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), Path(sys.argv[3]))
