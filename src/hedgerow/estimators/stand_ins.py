"""Rows that stand in for others while a fit is planned: public ones, or made up from the schema."""

from __future__ import annotations

from typing import Any

import numpy as np

from hedgerow.values.arrays import FloatArray
from hedgerow.values.schema import Categorical, Feature, Numeric, Schema

TEST_PART = 0.25


def stand_in_rows(
    schema: Schema, n: int, given: tuple[Any, Any] | None, seed: int
) -> tuple[Any, Any, Any, Any]:
    """Training rows, as many as the fit will have if there are so many, and test rows."""
    rng = np.random.default_rng(seed)
    if given is None:
        X, y = made_up(schema, n + max(2000, int(TEST_PART * n)), rng)
        return X[:n], y[:n], X[n:], y[n:]
    X, y = _as_array(given[0], schema), np.asarray(given[1], dtype=object)
    order = rng.permutation(len(y))
    test = max(1, int(TEST_PART * len(y)))
    train = order[test:][:n]
    return X[train], y[train], X[order[:test]], y[order[:test]]


def _as_array(X: Any, schema: Schema) -> Any:
    if hasattr(X, "columns"):
        return np.stack([np.asarray(X[name], dtype=object) for name in schema.names], axis=1)
    return np.asarray(X, dtype=object)


def made_up(schema: Schema, n: int, rng: np.random.Generator) -> tuple[Any, Any]:
    """Columns over their whole ranges; an outcome that depends on some of them, and on chance."""
    columns, effects = zip(*(_made_up(feature, n, rng) for feature in schema.features), strict=True)
    X = np.stack([np.asarray(column, dtype=object) for column in columns], axis=1)
    strengths = rng.exponential(1.0, len(effects)) * (rng.random(len(effects)) < 0.7)
    score = 1.5 * (strengths @ np.stack(effects)) / max(float(np.linalg.norm(strengths)), 1e-9)
    if schema.target is not None:
        width = schema.target.high - schema.target.low
        middle = schema.target.low + width / 2.0
        value = middle + width * 0.12 * (score + 0.5 * rng.normal(size=n))
        return X, np.clip(value, schema.target.low, schema.target.high)
    classes = np.asarray(schema.classes, dtype=object)
    noisy = score + rng.logistic(size=n)
    cuts = np.quantile(noisy, np.arange(1, len(classes)) / len(classes))
    return X, classes[np.searchsorted(cuts, noisy)]


def _made_up(feature: Feature, n: int, rng: np.random.Generator) -> tuple[Any, FloatArray]:
    """Values, and the effect of each: a step somewhere plus a slope, of variance about one."""
    if isinstance(feature, Numeric):
        part = rng.beta(1.2, 2.0, n)
        step = (part > rng.uniform(0.2, 0.6)).astype(float)
        effect = step + rng.uniform(-1, 1) * part
        return feature.low + (feature.high - feature.low) * part, _standard(effect)
    values = feature.values if isinstance(feature, Categorical) else tuple(map(str, range(64)))
    code = rng.integers(0, len(values), n)
    effect = rng.normal(size=len(values))[code]
    return np.asarray(values, dtype=object)[code], _standard(effect)


def _standard(effect: FloatArray) -> FloatArray:
    spread = float(effect.std())
    return np.asarray((effect - effect.mean()) / spread) if spread > 0 else effect * 0.0
