"""The Gaussian mixtures of Gubler 2023, section 4.1.1, and how five parties hold them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hedgerow.schema.schema import Numeric, Schema
from studies.simulation import Sites

PARTIES = 5
COMPONENTS = 5
BINS = 10
REACH = 4.0
"""Means lie within 1 of zero and variances are 1; this range is public, values are clamped."""

FloatArray = NDArray[np.float64]


@dataclass(frozen=True)
class Drawn:
    """Training rows of all parties, encoded, and test rows from the same mixture."""

    X: FloatArray
    y: NDArray[Any]
    site: NDArray[np.int64]
    X_test: FloatArray
    y_test: NDArray[Any]
    schema: Schema
    sites: Sites


@lru_cache(maxsize=2)
def mixture(n: int, p: int, rho: float, seed: int, permuted: bool = False) -> Drawn:
    """One training and one test set; with `permuted`, the training labels mean nothing."""
    rng = np.random.default_rng([seed, n, p, int(100 * rho)])
    X, y = _rows(n, p, rho, rng)
    X_test, y_test = _rows(n, p, rho, rng)
    site = rng.permutation(np.arange(n) % PARTIES)
    y = rng.permutation(y) if permuted else y
    schema = mixture_schema(p)
    return Drawn(X, y, site, X_test, y_test, schema, Sites(X, y, site, schema))


def mixture_schema(p: int) -> Schema:
    columns = tuple(Numeric(f"x{j}", -REACH, REACH, bins=BINS) for j in range(p))
    return Schema(columns, classes=("0", "1"))


def _rows(n: int, p: int, rho: float, rng: np.random.Generator) -> tuple[FloatArray, NDArray[Any]]:
    """Half of the rows of each class; component i is centered at +-(i/5, ..., i/5)."""
    distance = np.abs(np.subtract.outer(np.arange(p), np.arange(p)))
    root = np.linalg.cholesky(rho**distance)
    labels = rng.permutation(np.arange(n) % 2)
    center = rng.integers(1, COMPONENTS + 1, n) / COMPONENTS * (1 - 2 * labels)
    X = rng.standard_normal((n, p)) @ root.T + center[:, None]
    return X, labels.astype(str)
