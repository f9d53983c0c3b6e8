"""diffprivlib's trees and forests on the splits of four studies.

diffprivlib 0.6.6 needs an older scikit-learn than hedgerow, hence an environment of its own:

    python3 -m venv peers
    peers/bin/pip install diffprivlib==0.6.6 scikit-learn==1.6.1 pandas pyarrow
    peers/bin/python benchmarks/peers/diffprivlib_trees.py STUDY DATA OUT/diffprivlib.csv

STUDY is gubler, diprime, extra-trees or ours, OUT is studies/work/STUDY. One site of all rows (a
trusted curator), pure epsilon. The splits of a tree are random; the budget goes to the leaves'
labels. Categories are one-hot; numbering them gave a lower AUC on adult. Ranges are those of the
whole file.
"""

from __future__ import annotations

import csv
import sys
import time
import warnings
from collections.abc import Iterator
from itertools import product
from pathlib import Path

import numpy as np
import pandas as pd
from diffprivlib.models import DecisionTreeClassifier, RandomForestClassifier
from sklearn.metrics import roc_auc_score

LEAST_PROBABILITY = 1e-6
MOST_VALUES = 254  # a column of more texts is numbered, not one-hot
MOST_ROWS = {"puc_rio_har": 60_000, "credit_gmsc": 60_000, "skin": 60_000}  # of the study "ours"
SMALL = ("breast_cancer", "wine", "digits")


def stored(name: str, folder: Path) -> tuple[pd.DataFrame, np.ndarray]:
    """Whole rows, and labels as texts."""
    frame = pd.read_parquet(folder / f"{name}.parquet").dropna().reset_index(drop=True)
    return frame, frame.pop("target").astype(str).to_numpy()


def coded(frame: pd.DataFrame, labels: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    return pd.get_dummies(frame).to_numpy(np.float64), np.unique(labels, return_inverse=True)[1]


def fitted(
    kind, X: np.ndarray, y: np.ndarray, train: np.ndarray, epsilon: float, seed: int, **more
):
    bounds, classes = (X.min(axis=0), X.max(axis=0)), list(range(int(y.max()) + 1))
    model = kind(epsilon=epsilon, bounds=bounds, classes=classes, random_state=seed, **more)
    return model.fit(X[train], y[train])


def order(n: int, seed: int) -> np.ndarray:
    return np.random.default_rng(seed).permutation(n)


def gubler(folder: Path) -> Iterator[dict]:
    for name in ("adult", "bank", "credit_default", "spambase", "banknote"):
        X, y = coded(*stored(name, folder))
        for epsilon, seed in product((0.1, 0.5, 1.0, 2.0, 5.0), range(3)):
            train, test = np.split(order(len(y), seed), [int(0.7 * len(y))])
            tree = fitted(DecisionTreeClassifier, X, y, train, epsilon, seed, max_depth=5)
            accuracy = round(float(np.mean(tree.predict(X[test]) == y[test])), 4)
            auc = round(float(roc_auc_score(y[test], tree.predict_proba(X[test])[:, 1])), 4)
            key = {"data": name, "epsilon": epsilon, "seed": seed}
            yield {**key, "accuracy": accuracy, "auc": auc}


def diprime(folder: Path) -> Iterator[dict]:
    """Table 2."""
    splits = {
        "banknote": 20,
        "credit_default": 5,
        "wall_robot": 5,
        "higgs_18k": 5,
        "puc_rio_har": 3,
    }
    for name, n_splits in splits.items():
        frame, labels = stored(name, folder)
        if name == "wall_robot":
            labels = (labels != "Move-Forward").astype(str)
        if name == "puc_rio_har":
            kept = np.isin(labels, ["sitting", "standing"])
            frame, labels = frame[kept].drop(columns="user"), labels[kept]
        X, y = coded(frame, labels)
        for depth, seed in product((5, 10), range(100, 100 + n_splits)):
            train, test = np.split(order(len(y), seed), [int(0.9 * len(y))])
            options = {"n_estimators": 10, "max_depth": depth}
            model = fitted(RandomForestClassifier, X, y, train, 2.0, seed, **options)
            score = round(float(np.mean(model.predict(X[test]) == y[test])), 4)
            yield {"data": name, "depth": depth, "seed": seed, "score": score}


def extra_trees(folder: Path) -> Iterator[dict]:
    """On the divisions of studies.extra_trees."""
    for name in ("spambase", "credit_default", "waveform", "message", "kddcup99_10pct"):
        is_kdd = name == "kddcup99_10pct"
        X, y = coded(*stored(name, folder))
        for seed, epsilon in product(range(1 if is_kdd else 30), (1.0, 2.0, 4.0, 8.0)):
            test, train = np.split(order(len(y), seed), [int((0.01 if is_kdd else 0.2) * len(y))])
            started, options = time.process_time(), {"n_estimators": 20, "max_depth": 8}
            model = fitted(RandomForestClassifier, X, y, train, epsilon, seed, **options)
            accuracy = float((model.predict(X[test]) == y[test]).mean())
            seconds = round(time.process_time() - started, 2)
            key = {"data": name, "epsilon": epsilon, "seed": seed}
            yield {**key, "accuracy": accuracy, "cpu_seconds": seconds}


def ours(folder: Path) -> Iterator[dict]:
    seen = ("adult", "bank", "credit_default", "spambase", "banknote", "wall_robot", "wall_bin")
    splits = {
        **dict.fromkeys((*seen, "message", "waveform", "puc_rio_har", "higgs_18k"), range(3)),
        **dict.fromkeys(SMALL, range(20, 25)),
        **dict.fromkeys(("credit_gmsc", "avazu_15k", "skin"), range(20, 22)),
    }
    makers = {
        "tree": (DecisionTreeClassifier, {"max_depth": 5}),
        "forest": (RandomForestClassifier, {"n_estimators": 10, "max_depth": 5}),
    }
    for name, seeds in splits.items():
        X, y = rows_of_ours(name, folder)
        for seed, method, epsilon in product(seeds, makers, (0.1, 0.5, 1.0, 2.0, 5.0)):
            test, train = np.split(order(len(y), 1000 + seed), [int(0.3 * len(y))])
            kind, options = makers[method]
            model = fitted(kind, X, y, train, epsilon, seed, **options)
            p = np.clip(np.nan_to_num(model.predict_proba(X[test])), LEAST_PROBABILITY, 1.0)
            p /= p.sum(axis=1, keepdims=True)
            key = {"task_name": name, "seed": seed, "method": method, "epsilon": epsilon}
            accuracy = round(float(np.mean(p.argmax(axis=1) == y[test])), 4)
            loss = round(float(-np.log(p[np.arange(len(test)), y[test]]).mean()), 4)
            yield {**key, "accuracy": accuracy, "log_loss": loss}


def rows_of_ours(name: str, folder: Path) -> tuple[np.ndarray, np.ndarray]:
    if name in SMALL:
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
    return coded(frame, target.to_numpy())


STUDIES = {"gubler": gubler, "diprime": diprime, "extra-trees": extra_trees, "ours": ours}


def main(study: str, folder: Path, out: Path) -> None:
    warnings.simplefilter("ignore")
    with out.open("w", newline="", encoding="utf-8") as lines:
        writer = None
        for row in STUDIES[study](folder):
            if writer is None:
                writer = csv.DictWriter(lines, list(row))
                writer.writeheader()
            writer.writerow(row)
            lines.flush()


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3]))
