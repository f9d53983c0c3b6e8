"""Peers on the splits of `python -m studies boosted` and `which`, in environments of their own.

Needs pandas, pyarrow, scikit-learn and the peer alone: diffprivlib (see diffprivlib_tree.py beside
it), interpret-core for DP-EBM, or LightGBM (the `bench` extra). A finished cell is kept: started
again, the rest is run. `--first 800` takes the fresh splits of `which`, `--epsilon 3 --epsilon 8`
other epsilons:

    peers/bin/python benchmarks/peers/boosted_splits.py diffprivlib DATA RESULTS.csv SPLITS
    peers/bin/python benchmarks/peers/boosted_splits.py dp_ebm DATA RESULTS.csv 5 --first 800
    python benchmarks/peers/boosted_splits.py lightgbm DATA studies/work/boosted/lightgbm.csv SPLITS
"""

from __future__ import annotations

import argparse
import csv
import math
import time
import warnings
from collections.abc import Callable
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from sklearn.metrics import log_loss, roc_auc_score
from sklearn.model_selection import train_test_split

DATASETS = ("adult", "bank", "credit_default", "spambase", "higgs_18k", "credit_gmsc")
EPSILONS = (1.0, 0.1, 0.5)
FIRST_SPLIT = 200  # as there
WHOLE_ROWS = ("credit_gmsc",)  # as there; elsewhere a missing category is one of its own
FIELDS = ("dataset", "epsilon", "split", "auc", "log_loss", "accuracy", "seconds")

Fitting = tuple[pd.DataFrame, Any]
Peer = Callable[[pd.DataFrame, int, float, int], Fitting]
"""(all rows, number of training rows, epsilon, seed) -> the rows as it wants them, a classifier."""


def rows(name: str, folder: Path) -> pd.DataFrame:
    """The rows that `studies` takes: all, but where the paper leaves some out."""
    found = pd.read_parquet(folder / f"{name}.parquet")
    if name in WHOLE_ROWS:
        return found.dropna().reset_index(drop=True)
    words = found.select_dtypes(exclude="number").columns
    return found.assign(**{c: found[c].astype(object).fillna("missing") for c in words})


def measured(peer: Peer, name: str, folder: Path, epsilon: float, split: int) -> dict[str, object]:
    X = rows(name, folder)
    labels = X.pop("target").astype(str)
    hit = (labels == sorted(labels.unique())[1]).to_numpy(int)
    train, test = train_test_split(
        np.arange(len(X)), test_size=0.3, random_state=split, stratify=labels
    )
    X, model = peer(X, len(train), epsilon, split)
    began = time.process_time()
    model.fit(X.iloc[train], hit[train])
    seconds = time.process_time() - began
    p = np.clip(np.nan_to_num(model.predict_proba(X.iloc[test])[:, 1]), 1e-6, 1 - 1e-6)
    found = (roc_auc_score(hit[test], p), log_loss(hit[test], p), np.mean((p > 0.5) == hit[test]))
    return dict(zip(FIELDS, (name, epsilon, split, *found, seconds), strict=True))


def diffprivlib(X: pd.DataFrame, n_train: int, epsilon: float, seed: int) -> Fitting:
    """Its forest: one site of all rows, pure epsilon, 100 trees of depth 8.

    Categories are numbered; ranges are those of the whole file.
    """
    from diffprivlib.models import RandomForestClassifier

    for column in X.select_dtypes(exclude="number"):
        X[column] = pd.factorize(X[column], sort=True)[0]
    X = X.astype(float)
    model = RandomForestClassifier(
        n_estimators=100,
        max_depth=8,
        epsilon=epsilon,
        bounds=(X.min(axis=0).to_numpy(), X.max(axis=0).to_numpy()),
        classes=[0, 1],
        random_state=seed,
    )
    return X, model


def dp_ebm(X: pd.DataFrame, n_train: int, epsilon: float, seed: int) -> Fitting:
    """InterpretML's: one site, delta = 1 / n, defaults. Ranges of the whole file are public."""
    from interpret.privacy import DPExplainableBoostingClassifier

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


def lightgbm(X: pd.DataFrame, n_train: int, epsilon: float, seed: int) -> Fitting:
    """Without any privacy, its defaults, categories as categories: what noise costs."""
    from lightgbm import LGBMClassifier

    X = X.apply(lambda c: c if c.dtype.kind in "if" else c.astype("category"))
    return X, LGBMClassifier(n_jobs=1, random_state=seed, verbose=-1)


PEERS = {
    "diffprivlib": (diffprivlib, EPSILONS),
    "dp_ebm": (dp_ebm, EPSILONS),
    "lightgbm": (lightgbm, (math.inf,)),
}
"""By name, how its classifier is made, and its usual epsilons."""


def main() -> None:
    """Runs the cells that the file of results does not have yet."""
    warnings.simplefilter("ignore")
    given = arguments()
    peer, epsilons = PEERS[given.peer]
    done = set()
    if given.out.exists():
        with given.out.open(newline="") as lines:
            found = csv.DictReader(lines)
            done = {(r["dataset"], float(r["epsilon"]), int(r["split"])) for r in found}
    wanted = product(
        range(given.first, given.first + given.splits), DATASETS, given.epsilon or epsilons
    )
    with given.out.open("a", newline="") as lines:
        writer = csv.DictWriter(lines, FIELDS)
        if not done:
            writer.writeheader()
        for split, name, epsilon in wanted:
            if (name, epsilon, split) not in done:
                writer.writerow(measured(peer, name, given.data, epsilon, split))
                lines.flush()


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="a peer on the splits of the studies")
    parser.add_argument("peer", choices=PEERS)
    parser.add_argument("data", type=Path, help="folder of Parquet files")
    parser.add_argument("out", type=Path, help="CSV file of results; finished cells are kept")
    parser.add_argument("splits", type=int, help="how many splits")
    parser.add_argument("--first", type=int, default=FIRST_SPLIT, help="number of the first split")
    parser.add_argument("--epsilon", type=float, action="append", help="instead of the usual ones")
    return parser.parse_args()


if __name__ == "__main__":
    main()
