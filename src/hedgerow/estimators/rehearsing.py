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

from hedgerow.estimators.assembling import agree, public_seed
from hedgerow.estimators.base import PrivateEstimator
from hedgerow.estimators.holders import secret_draws
from hedgerow.estimators.stand_ins import stand_in_rows
from hedgerow.learning.flow import run
from hedgerow.queries import Query, Reply, SumQuery
from hedgerow.site.reading.encoding import encode
from hedgerow.site.rows import Rows
from hedgerow.study.describe import phrase_of
from hedgerow.transport import in_process
from hedgerow.values.arrays import FloatArray
from hedgerow.values.schema import Schema

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
