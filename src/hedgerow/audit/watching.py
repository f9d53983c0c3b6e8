"""One fit of the real pipeline with canaries in it, and all that it released.

Nothing is replaced: an estimator's own study and recipe run over an in-process federation. Beside
it the same queries are put to the same rows without noise, and to each canary alone: released
sums less their expectation, what each canary adds, and how it moves the scores of choices.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from hedgerow.audit.choices import Chosen, chosen_in
from hedgerow.audit.labels import ToldLabels, told_in
from hedgerow.data.reading.encoding import encode
from hedgerow.data.rows import Draws, Rows
from hedgerow.federation.server import Server
from hedgerow.federation.transports import in_process
from hedgerow.methods.blocks.flow import run
from hedgerow.methods.training import agree
from hedgerow.privacy.accounting.budget import Placement
from hedgerow.privacy.queries import Answer, Query, Reply, SumQuery
from hedgerow.privacy.study import Study
from hedgerow.schema.arrays import BoolArray, FloatArray
from hedgerow.schema.schema import Schema


@dataclass(frozen=True)
class Released:
    """One noisy sum: the noise in it, and what each canary adds to it (M, ...)."""

    query: SumQuery
    noise: FloatArray
    variance: float
    pulls: FloatArray


@dataclass(frozen=True)
class Watched:
    """A finished fit: its study, what it released, and which canaries were in."""

    study: Study
    released: tuple[Released, ...]
    included: BoolArray  # (M,)
    chosen: tuple[Chosen, ...] = ()
    told: ToldLabels | None = None
    """Where labels are told at random there is nothing else to see."""


class _Recording:
    """A federation that keeps what it is asked and what it answers."""

    def __init__(self, federation: Server) -> None:
        self._federation = federation
        self.pairs: list[tuple[Query, Reply]] = []

    def ask(self, queries: Sequence[Query]) -> Sequence[Reply]:
        replies = self._federation.ask(queries)
        self.pairs += zip(queries, replies, strict=True)
        return replies


def watched_fit(
    estimator: Any,
    schema: Schema,
    rows: tuple[Any, Any],
    canaries: tuple[Any, Any],
    parties: int,
    rng: np.random.Generator,
) -> Watched:
    """Fits once; a fair coin decides of each canary whether it is in, at the first site."""
    study, recipe = agree(estimator, schema, parties)
    X, y = (np.asarray(part, dtype=object) for part in rows)
    extra_X, extra_y = (np.asarray(part, dtype=object) for part in canaries)
    included = rng.random(len(extra_y)) < 0.5
    draws = [Draws(rng.bytes(32), study.name) for _ in range(parties)]
    holders = []
    for k in range(parties):
        own_X, own_y = X[k::parties], y[k::parties]
        if k == 0:
            own_X = np.concatenate([own_X, extra_X[included]])
            own_y = np.concatenate([own_y, extra_y[included]])
        holders.append(_rows(own_X, own_y, study.schema, draws[k]))
    federation = in_process.open_federation(study, holders)
    recording = _Recording(federation)
    public = np.random.default_rng(study.public_seed)
    run(recipe.flow(study.schema, federation, public), recording)
    if study.placement is Placement.LABEL:
        return Watched(study, (), included, told=told_in(study, holders[0], draws[0], included))
    alone = [
        _rows(extra_X[i : i + 1], extra_y[i : i + 1], study.schema, draws[0])
        for i in range(len(extra_y))
    ]
    released = _released(study, recording.pairs, holders, alone)
    chosen = chosen_in(study, recording.pairs, holders, alone, included)
    return Watched(study, tuple(released), included, tuple(chosen))


def _rows(X: Any, y: Any, schema: Schema, draws: Draws) -> Rows:
    return Rows(encode(X, schema, y=y, check=False), schema, draws)


def _released(
    study: Study,
    pairs: Sequence[tuple[Query, Reply]],
    holders: Sequence[Rows],
    alone: Sequence[Rows],
) -> list[Released]:
    """The noisy sums; private choices are in `audit.choices`."""
    sums = [(q, r) for q, r in pairs if isinstance(q, SumQuery) and isinstance(r, Answer)]
    queries = [query for query, _ in sums]
    by_holder = [_exact(study, holder, queries) for holder in holders]
    exact = [np.sum(parts, axis=0) for parts in zip(*by_holder, strict=True)]
    pulls = zip(*(_exact(study, one, queries) for one in alone), strict=True)
    return [
        Released(query, reply.values - expected, reply.variance, np.stack(pull))
        for (query, reply), expected, pull in zip(sums, exact, pulls, strict=True)
        if reply.variance > 0.0
    ]


def _exact(study: Study, rows: Rows, queries: Sequence[SumQuery]) -> list[FloatArray]:
    """What the queries would say of these rows alone, without noise."""
    silent = replace(
        study, placement=Placement.NOWHERE, parties=1, colluders=0, threshold=1, label_reports=None
    )
    replies = in_process.open_federation(silent, [rows]).ask(queries) if queries else []
    return [reply.values for reply in replies if isinstance(reply, Answer)]
