"""The splits of `python -m studies boosted`, for peers in environments of their own.

Needs pandas, pyarrow and scikit-learn alone. A finished cell is kept: started again, the rest is
run.
"""

from __future__ import annotations

import csv
import sys
import time
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from sklearn.metrics import log_loss, roc_auc_score
from sklearn.model_selection import train_test_split

DATASETS = ("adult", "bank", "credit_default", "spambase", "higgs_18k", "credit_gmsc")
EPSILONS = (1.0, 0.1, 0.5)
FIRST_SPLIT = 200  # as there
FIELDS = ("dataset", "epsilon", "split", "auc", "log_loss", "accuracy", "seconds")

Peer = Callable[[pd.DataFrame, int, float, int], tuple[pd.DataFrame, Any]]
"""(all rows, number of training rows, epsilon, seed) -> the rows as it wants them, a classifier."""


def measured(peer: Peer, name: str, folder: Path, epsilon: float, split: int) -> dict[str, object]:
    X = pd.read_parquet(folder / f"{name}.parquet").dropna().reset_index(drop=True)
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


def main(peer: Peer, epsilons: Sequence[float] = EPSILONS) -> None:
    """Arguments of the command: the data folder, the CSV file of results, how many splits."""
    warnings.simplefilter("ignore")
    folder, out, splits = Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3])
    done = set()
    if out.exists():
        with out.open(newline="") as lines:
            rows = csv.DictReader(lines)
            done = {(r["dataset"], float(r["epsilon"]), int(r["split"])) for r in rows}
    with out.open("a", newline="") as lines:
        writer = csv.DictWriter(lines, FIELDS)
        if not done:
            writer.writeheader()
        for split in range(FIRST_SPLIT, FIRST_SPLIT + splits):
            for name in DATASETS:
                for epsilon in epsilons:
                    if (name, epsilon, split) not in done:
                        writer.writerow(measured(peer, name, folder, epsilon, split))
                        lines.flush()
