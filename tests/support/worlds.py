"""Small worlds that many tests share: a schema, rows, and a federation over them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from fractions import Fraction
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest

from hedgerow.data.prepared import StudyRows
from hedgerow.data.reading.encoding import Encoded, encode
from hedgerow.data.rows import Draws, Rows
from hedgerow.federation import response
from hedgerow.federation.exchange import Collected
from hedgerow.federation.response import Response
from hedgerow.federation.server import Server
from hedgerow.federation.transports import in_process
from hedgerow.methods.blocks import builder
from hedgerow.methods.blocks.builder import Node
from hedgerow.privacy.accounting.budget import Placement
from hedgerow.privacy.pricing import priced
from hedgerow.privacy.queries import GROUPINGS, STATISTICS, Query, QueryKind, Score
from hedgerow.privacy.study import Study
from hedgerow.schema.schema import Categorical, Feature, Numeric, Schema, Target
from hedgerow.secagg.graph import Parameters

FEATURES = (
    Numeric("age", 0.0, 100.0, bins=8),
    Numeric("dose", 0.0, 1.0, bins=6),
    Categorical("ward", ("north", "south", "west")),
)
EVERY_KIND = frozenset(
    {QueryKind("SumQuery", s, g) for s in STATISTICS for g in GROUPINGS}
    | {QueryKind(kind, score.name) for kind in ("SelectQuery", "LocalChoice") for score in Score}
    | {QueryKind("BoundQuery")}
)
"""A recipe that asks anything."""
TWO = Schema(FEATURES, classes=("no", "yes"))
THREE = Schema(FEATURES, classes=("a", "b", "c"))
VALUE = Schema(FEATURES, target=Target(-2.0, 6.0))


def sample(n: int, schema: Schema, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Rows with missing values, values out of range and an unknown ward."""
    rng = np.random.default_rng(seed)
    age, dose = rng.uniform(-10, 110, n), rng.uniform(0, 1, n)
    ward = rng.choice(["north", "south", "west", "elsewhere"], n)
    age[rng.random(n) < 0.1] = np.nan
    score = (age > 40).astype(float) + 2.0 * dose + (ward == "south") + rng.normal(0, 0.4, n)
    if schema.classes is None:
        y = score
    else:
        cuts = 1.4 + np.arange(len(schema.classes) - 1)
        y = np.asarray(schema.classes, dtype=object)[np.searchsorted(cuts, score)]
    return np.stack([age.astype(object), dose.astype(object), ward.astype(object)], axis=1), y


def encoded(feature: Feature, values: Sequence[object]) -> Encoded:
    """One column as a site reads it."""
    column = np.empty((len(values), 1), dtype=object)
    column[:, 0] = list(values)
    return encode(column, Schema((feature,)))


def codes_of(feature: Feature, values: Sequence[object]) -> list[int]:
    return [int(code) for code in encoded(feature, values).codes[0]]


def holders(X: np.ndarray, y: np.ndarray, owner: np.ndarray, k: int, schema: Schema) -> list[Rows]:
    """One `Rows` per party 0..k-1, each with a secret of its own; a party may be empty."""
    draws = [Draws(bytes([i]) * 32, "test") for i in range(k)]
    return [
        Rows(encode(X[owner == i], schema, y=y[owner == i]), schema, own)
        for i, own in enumerate(draws)
    ]


def study(
    schema: Schema,
    parties: int,
    placement: Placement | None = None,
    epsilon: str = "1",
    delta: str = "0",
    **more: object,
) -> Study:
    numbers = Parameters.default(parties) if parties > 1 else None
    return Study(
        name="test",
        schema=schema,
        recipe="test",
        asks=EVERY_KIND,
        epsilon=Fraction(epsilon),
        delta=Fraction(delta),
        placement=placement or (Placement.CURATOR if parties == 1 else Placement.SHARES),
        parties=parties,
        colluders=numbers.colluders if numbers else 0,
        threshold=numbers.threshold if numbers else 1,
        **more,  # type: ignore[arg-type]
    )


@contextmanager
def watched_ends() -> Iterator[list[Node]]:
    """The nodes at which trees end while this is open, from the left."""
    seen: list[Node] = []
    real = builder.assemble

    def watching(root, ends, *rest):
        grown = real(root, ends, *rest)
        at = {node.region[len(root) :]: node for node in ends}
        seen.extend(at[region] for region in grown.tree.regions())
        return grown

    with patch.object(builder, "assemble", watching):
        yield seen


def federation(the_study: Study, parts: Sequence[Rows]) -> Server:
    return in_process.open_federation(the_study, parts)


def round_of(sites: Any, number: int, queries: Sequence[Query]) -> Collected:
    """One round, as a server asks it."""
    return sites.round(number, [priced(sites.study, query) for query in queries])


def tap(patched: pytest.MonkeyPatch, rows: StudyRows, around: Callable[..., Response]) -> None:
    """`around` gets the way to make a site's own responses; other sites are left alone."""
    plain = response.respond

    def tapped(of: StudyRows, *given: Any) -> Response:
        return around(lambda: plain(of, *given)) if of is rows else plain(of, *given)

    patched.setattr(response, "respond", tapped)


class Opened(Exception):
    """Stops a fit at the moment before its first round."""


def opened_by(model: Any, X: Any, y: Any, **how: Any) -> tuple[Study, list[Rows]]:
    """The study and the holders that a fit is about to run with."""

    def stop(the_study: Study, parts: list[Rows], *rest: Any) -> None:
        raise Opened(the_study, parts)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(in_process, "open_federation", stop)
        with pytest.raises(Opened) as opened:
            model.fit(X, y, **how)
    return opened.value.args
