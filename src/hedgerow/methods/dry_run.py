"""One fit on stand-in rows, watched: its noise, rounds, bytes and quality are what a plan tells."""

from __future__ import annotations

import math
import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any

import numpy as np
from sklearn.metrics import roc_auc_score

from hedgerow.data.holders import secret_draws
from hedgerow.data.reading.encoding import encode
from hedgerow.data.rows import Rows
from hedgerow.federation.transports import in_process
from hedgerow.methods.base import PrivateEstimator
from hedgerow.methods.blocks.flow import run
from hedgerow.methods.training import agree, public_seed
from hedgerow.privacy.pricing import phrase_of
from hedgerow.privacy.queries import Query, Reply, SumQuery
from hedgerow.schema.arrays import FloatArray
from hedgerow.schema.schema import Categorical, Feature, Numeric, Schema

# --------------------------------------------------------------------------------------------------
# Rows that stand in for others while a fit is planned: public ones, or made up from the schema.

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


CLEAR = 2.0
"""Deviations by which a group must stand out of the noise."""


@dataclass(frozen=True)
class PlannedNoise:
    """One kind of release: its rounds, what it is, and the deviation of the noise on each sum."""

    rounds: str
    what: str
    deviation: float

    @property
    def smallest(self) -> int:
        """Records that a group needs to be told from noise."""
        return math.ceil(CLEAR * self.deviation)


@dataclass(frozen=True)
class Trial:
    """One run on the stand-in: quality on rows that were left out, and what it took."""

    estimator: str
    epsilon: float
    quality: float
    noise: tuple[PlannedNoise, ...]
    rounds: int
    bytes_per_site: int
    seconds: float
    rows: int
    blind: float
    """The quality of a model that looks at no column."""


@dataclass(frozen=True)
class Rehearsal:
    """What all trials of a plan have in common."""

    schema: Schema
    delta: float
    parties: int
    stand_in: tuple[Any, Any] | None
    repeats: int

    def runs(
        self, name: str, n: int, epsilon: float, step: Callable[[Trial], Trial]
    ) -> list[Trial]:
        rows = (stand_in_rows(self.schema, n, self.stand_in, seed) for seed in range(self.repeats))
        return [
            step(_trial(name, self.schema, one, epsilon, self.delta, self.parties)) for one in rows
        ]


def is_binary(schema: Schema) -> bool:
    return len(schema.classes or ()) == 2


class _Watching:
    """Hands queries on and notes the noise that each will carry."""

    def __init__(self, federation: Any) -> None:
        self.federation = federation
        self.seen: dict[tuple[str, float], list[int]] = {}

    def ask(self, queries: Sequence[Query]) -> Sequence[Reply]:
        replies: Sequence[Reply] = self.federation.ask(queries)
        number = len(self.federation.record.rounds)
        for query in queries:
            if isinstance(query, SumQuery):
                deviation = round(math.sqrt(self.federation.variance(query)), 6)
                self.seen.setdefault((str(phrase_of(query)), deviation), []).append(number)
        return replies

    @property
    def noise(self) -> tuple[PlannedNoise, ...]:
        return tuple(
            PlannedNoise(_rounds(numbers), what, deviation)
            for (what, deviation), numbers in self.seen.items()
        )


def _rounds(numbers: Sequence[int]) -> str:
    return str(numbers[0]) if numbers[0] == numbers[-1] else f"{numbers[0]}-{numbers[-1]}"


def _trial(
    name: str,
    schema: Schema,
    rows: tuple[Any, Any, Any, Any],
    epsilon: float,
    delta: float,
    parties: int,
) -> Trial:
    X, y, X_test, y_test = rows
    made: PrivateEstimator = getattr(import_module("hedgerow"), name)(
        schema, epsilon=epsilon, delta=delta, random_state=0
    )
    began = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of the fit to come, not of a rehearsal
        study, recipe = agree(made, schema, parties)
    owner = np.arange(len(y)) % parties
    holders = [
        Rows(encode(X[owner == k], study.schema, y=y[owner == k], check=True), study.schema, own)
        for k, own in enumerate(secret_draws(study.name, parties))
    ]
    federation = in_process.open_federation(study, holders)
    watching = _Watching(federation)
    rng = np.random.default_rng(public_seed(made))
    model = run(recipe.flow(study.schema, federation, rng), watching).model
    seconds = time.perf_counter() - began
    test = encode(X_test, study.schema, y=y_test)
    assert test.y is not None
    quality = _quality(model.predict(test.codes), np.asarray(test.y), schema)
    record = federation.record
    return Trial(
        estimator=name,
        epsilon=epsilon,
        quality=quality,
        noise=watching.noise,
        rounds=len(record.rounds),
        bytes_per_site=record.bytes_per_party,
        seconds=seconds,
        rows=len(y),
        blind=_blind(np.asarray(test.y), schema),
    )


def _blind(truth: Any, schema: Schema) -> float:
    if schema.target is not None:
        return 0.0
    return 0.5 if is_binary(schema) else float(np.bincount(truth).max() / len(truth))


def _quality(said: FloatArray, truth: Any, schema: Schema) -> float:
    if schema.target is not None:
        return float(1.0 - ((said[:, 0] - truth) ** 2).mean() / max(truth.var(), 1e-12))
    if is_binary(schema):
        return float(roc_auc_score(truth == 1, said[:, 1])) if 0 < truth.mean() < 1 else 0.5
    return float((np.argmax(said, axis=1) == truth).mean())
