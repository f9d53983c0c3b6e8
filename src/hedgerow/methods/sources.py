"""Rows that `fit` reads from where they are: files, streams, databases, clusters."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from hedgerow.data.engines.dask import OnCluster, is_dask
from hedgerow.data.engines.database import InDatabase
from hedgerow.data.engines.engine import Elsewhere
from hedgerow.data.holders import UNNAMED, draws_of_holders, warn_of_crowds
from hedgerow.data.reading.containers import positions_of
from hedgerow.data.reading.databases import Selected
from hedgerow.data.reading.encoding import Encoded, encode
from hedgerow.data.reading.sources import Source, is_elsewhere, open_table
from hedgerow.errors import DataError, SpecError
from hedgerow.kernels.threads import using
from hedgerow.methods.inputs import check_task, warn_of_marks
from hedgerow.methods.method import Recipe
from hedgerow.methods.parameters import checked
from hedgerow.methods.training import agree
from hedgerow.privacy.study import Study
from hedgerow.schema.schema import Schema
from hedgerow.schema.tokens import token_of

if TYPE_CHECKING:
    from hedgerow.methods.base import PrivateEstimator


@dataclass(frozen=True, kw_only=True)
class Columns:
    """Which columns of the rows are no features; by name, since nobody holds them yet."""

    target: str | None = None
    party: str | None = None
    parties: Sequence[Any] | None = None
    person: str | None = None


@dataclass(frozen=True, kw_only=True)
class ReadRows:
    study: Study
    recipe: Recipe
    parts: Sequence[Encoded]
    """Of each holder."""
    names: Sequence[str]
    """What the holders are called: by the column that names them, or by their number."""
    parties_met: bool
    """Whether the rows themselves told who takes part."""


def source_of(
    X: Any, y: Any, target: str | None, sql: str | None, push_down: bool
) -> Source | None:
    """What is to be read by the names of its columns; None if rows were handed over with labels."""
    if push_down and sql is None:
        raise SpecError("push_down is for rows in a database; say which: sql='SELECT ...'.")
    if sql is None and target is None and not is_elsewhere(X) and not is_dask(X):
        return None
    if y is not None:
        raise SpecError(
            "labels were given as y, but these rows are read by the names of their columns; "
            "leave y out and name the column: target='...'."
        )
    return X if sql is None else Selected(X, sql)


def stays_elsewhere(source: Source, push_down: bool) -> bool:
    return push_down or is_dask(source)


def open_elsewhere(
    estimator: PrivateEstimator, source: Source, columns: Columns
) -> tuple[Study, Recipe, Elsewhere]:
    """One holder, whose engine sums. What it cannot answer is refused before any charge."""
    for what, value in (("party", columns.party), ("person", columns.person)):
        if value is not None:
            raise SpecError(
                f"{what} was given, but these rows are summed where they are, as one holder's and "
                f"each a person's own; leave {what} out, or let the rows be read into memory."
            )
    schema = schema_for(estimator)
    warn_of_marks(schema)
    study, recipe = agree(estimator, schema, 1)
    (draws,) = draws_of_holders(study)
    if is_dask(source):
        held: Elsewhere = OnCluster(source, study.schema, _named(columns.target), draws)
    else:
        label = columns.target or the_other_column(source, schema, columns)
        held = InDatabase(source, study.schema, label, draws)
    held.answering(study)
    held.check()
    return study, recipe, held


def _named(target: str | None) -> str:
    if target is None:
        raise SpecError("say which column is to be predicted: target='...'.")
    return target


def named_columns(
    target: str | None, party: Any, parties: Sequence[Any] | None, person: Any
) -> Columns:
    for what, value in (("target", target), ("party", party), ("person", person)):
        if value is not None and not isinstance(value, str):
            raise SpecError(
                f"{what} is a {type(value).__name__}, but these rows are read by the names of "
                f"their columns; give the name of a column: {what}='...'."
            )
    if parties is not None and party is None:
        raise SpecError("parties names the sites; name the column that says whose each row is too.")
    return Columns(target=target, party=party, parties=parties, person=person)


def read_sources(
    estimator: PrivateEstimator, sources: Sequence[Source], columns: Columns
) -> ReadRows:
    """Several sources are one holder's each; a single one may hold the rows of several."""
    schema = schema_for(estimator)
    warn_of_marks(schema)
    label = columns.target or the_other_column(sources[0], schema, columns)
    if columns.party is None:
        study, recipe = agree(estimator, schema, len(sources))
        parts = [_read(estimator, source, study.schema, label, columns) for source in sources]
        names = numbered(len(sources))
        return ReadRows(study=study, recipe=recipe, parts=parts, names=names, parties_met=False)
    (source,) = sources
    grid = estimator._recipe(schema).grid(schema)
    parts, names = by_holder(_read(estimator, source, grid, label, columns), columns.parties)
    study, recipe = agree(estimator, schema, len(parts))
    met = columns.parties is None
    return ReadRows(study=study, recipe=recipe, parts=parts, names=names, parties_met=met)


def schema_for(estimator: PrivateEstimator) -> Schema:
    schema: Schema | None = checked(estimator).schema
    if schema is None:
        raise SpecError(
            "rows that are read from where they are need a schema: draft one with "
            "hedgerow.Schema.draft or `hedgerow schema draft`, and confirm it."
        )
    check_task(schema, estimator._regression, type(estimator).__name__)
    return schema


def _read(
    estimator: PrivateEstimator, source: Source, grid: Schema, label: str, columns: Columns
) -> Encoded:
    with using(estimator.n_jobs or 1):
        return encode(
            source, grid, target=label, person=columns.person, party=columns.party, check=True
        )


def the_other_column(source: Source, schema: Schema, columns: Columns) -> str:
    """What is left to be predicted."""
    table = open_table(source, schema.names)
    positions_of(table, schema.names)
    used = (*schema.names, columns.party, columns.person)
    left = [name for name in table.names if name not in used]
    if len(left) == 1:
        return left[0]
    found = f"has the columns {left}" if left else "has no column"
    raise DataError(
        f"{table.where} {found} beside those of the schema; say which one is to be predicted "
        "(`target`)."
    )


# ---------------------------------------------------------------------------------------- holders
def numbered(sources: int) -> list[str]:
    """Names of holders that are sources of their own; the only one has none."""
    return [str(k) for k in range(sources)] if sources > 1 else [UNNAMED]


def by_holder(encoded: Encoded, parties: Sequence[Any] | None) -> tuple[list[Encoded], list[str]]:
    """The rows of each holder and its name, in the order of `parties`; or of those met, sorted."""
    if encoded.holders is None:
        raise DataError("there is no row, so nobody holds any; give at least one.")
    met, holder = encoded.holders
    names = sorted(met) if parties is None else [str(token_of(name)) for name in parties]
    warn_of_crowds(len(names), len(holder))
    place = {name: k for k, name in enumerate(names)}
    for name in met:
        if name not in place:
            raise DataError(
                f"party is {name!r} in some row, which is not among the parties {names}; name it "
                "there or correct the row."
            )
    sorted_by = np.array([place[name] for name in met], np.int32)[holder]
    order = np.argsort(sorted_by, kind="stable").astype(np.int32)
    ends = np.searchsorted(sorted_by[order], np.arange(1, len(names)))
    first, *others = [_taken(encoded, rows) for rows in np.split(order, ends)]
    kinds = ("clamped", "unknown", "missing", "reach", "skipped")
    whole = replace(first, **{kind: getattr(encoded, kind) for kind in kinds})
    return [whole, *others], names


def _taken(encoded: Encoded, rows: NDArray[np.int32]) -> Encoded:
    """What became of values is told of all holders together, so once is enough."""
    return Encoded(
        codes=encoded.codes[:, rows],
        y=None if encoded.y is None else encoded.y[rows],
        persons=None if encoded.persons is None else encoded.persons[rows],
        clamped={},
        unknown={},
        skipped=0,
    )
