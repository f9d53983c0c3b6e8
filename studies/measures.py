"""How good probabilities are, on rows kept aside: outside every privacy statement."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from hedgerow.schema.schema import Schema

LEAST_PROBABILITY = 1e-6
CONFIDENCE_BINS = 15
CONFIDENCE = 0.95


def of_classes(p: NDArray[np.float64], labels: NDArray[Any], schema: Schema) -> dict[str, float]:
    """Accuracy, AUC (two classes; else NaN), log-loss and expected calibration error."""
    place = {label: k for k, label in enumerate(schema.classes or ())}
    y = np.array([place[label] for label in labels])
    p = np.clip(p, LEAST_PROBABILITY, 1.0)
    p = p / p.sum(axis=1, keepdims=True)
    return {
        "accuracy": float((p.argmax(axis=1) == y).mean()),
        "auc": auc(p[:, 1], y) if p.shape[1] == 2 else float("nan"),
        "log_loss": float(-np.log(p[np.arange(len(y)), y]).mean()),
        "ece": calibration_error(p, y),
    }


def auc(score: NDArray[np.float64], y: NDArray[np.int64]) -> float:
    """Chance that a row of class 1 scores above one of class 0; ties count half."""
    from scipy.stats import rankdata

    ranks, n1 = rankdata(score), int(y.sum())
    if n1 in (0, len(y)):
        return float("nan")
    return float((ranks[y == 1].sum() - n1 * (n1 + 1) / 2) / (n1 * (len(y) - n1)))


def calibration_error(p: NDArray[np.float64], y: NDArray[np.int64]) -> float:
    """Mean distance between confidence and accuracy over bins of equal width (Guo et al. 2017)."""
    confidence, right = p.max(axis=1), (p.argmax(axis=1) == y).astype(np.float64)
    cell = np.minimum((confidence * CONFIDENCE_BINS).astype(np.int64), CONFIDENCE_BINS - 1)
    gaps = np.bincount(cell, confidence - right, minlength=CONFIDENCE_BINS)
    return float(np.abs(gaps).sum() / len(y))


def student(n: int) -> float:
    """Standard errors by which a mean of n differences must differ from 0 to be a clear lead.

    Student's t at 95 %, both sides. Not a number for one difference, which shows nothing.
    """
    from scipy.stats import t

    return float(t.ppf((1.0 + CONFIDENCE) / 2.0, n - 1))
