"""Sources that `fit` reads: files, streams, databases, clusters."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from hedgerow.data.engines.clusters import is_cluster, open_cluster
from hedgerow.data.engines.database import InDatabase
from hedgerow.data.engines.engine import Elsewhere, OnDisk
from hedgerow.data.reading.containers import positions_of
from hedgerow.data.reading.databases import Selected
from hedgerow.data.reading.encoding import Encoded, encode
from hedgerow.data.reading.sources import Source, is_elsewhere, open_table
from hedgerow.data.site_rows import UNNAMED, draws_of_sites, warn_of_crowds
from hedgerow.errors import DataError, ParameterError
from hedgerow.kernels.threads import using
from hedgerow.methods.inputs import check_task, warn_of_marks
from hedgerow.methods.method import Method
from hedgerow.methods.parameters import check_parameters
from hedgerow.methods.training import agree
from hedgerow.privacy.study import Study
from hedgerow.schema.features import LABEL
from hedgerow.schema.schema import Schema
from hedgerow.schema.tokens import token_of

if TYPE_CHECKING:
    from hedgerow.methods.base import PrivateEstimator


@dataclass(frozen=True, kw_only=True)
class Columns:
    """Names of the columns that are not features."""

    target: str | None = None
    site: str | None = None
    sites: Sequence[Any] | None = None
    person: str | None = None


@dataclass(frozen=True)
class Several:
    """Sources that one process reads, each as one site."""

    sources: Sequence[Source]


@dataclass(frozen=True, kw_only=True)
class TrainingRows:
    """What a fit trains on: a study, and the rows of each site or an engine that holds them."""

    study: Study
    method: Method
    parts: Sequence[Encoded] = ()
    """Rows of each site."""
    engine: Elsewhere | None = None
    names: Sequence[str] = ()
    """Site names: from their column, or numbers."""
    found_sites: bool = False
    """Whether site names come from the rows."""
    persons_declared: bool = False
    label: str = LABEL
    """The outcome column."""
    has_names: bool = True
    """Whether columns have names."""
    are_codes: bool = False
    """Whether labels are the numbers of classes."""

    @property
    def most_rounds(self) -> int:
        return self.method.largest(self.study.schema).rounds_of(self.study.n_sites)


def source_of(
    X: Any, y: Any, target: str | None, sql: str | None, push_down: bool, in_file: bool = False
) -> Source | None:
    """The source to read by column names; None if rows and labels were passed directly."""
    if push_down and sql is None:
        raise ParameterError("push_down is for rows in a database; say which: sql='SELECT ...'.")
    if in_file and (push_down or is_cluster(X)):
        raise ParameterError(
            "temp_folder is for rows that are read here, and these are summed where they are; "
            "leave it out."
        )
    if isinstance(X, Several):
        return X
    if sql is None and target is None and not is_elsewhere(X) and not is_cluster(X):
        if in_file:
            raise ParameterError(
                "temp_folder is for rows that are read by the names of their columns; leave y out "
                "and name the column: target='...'."
            )
        return None
    if y is not None:
        raise ParameterError(
            "labels were given as y, but these rows are read by the names of their columns; "
            "leave y out and name the column: target='...'."
        )
    return X if sql is None else Selected(X, sql)


def rows_of_source(
    estimator: PrivateEstimator, source: Any, columns: Columns, push_down: bool, temp_folder: Any
) -> TrainingRows:
    """Reads a source here, or opens it where its rows stay."""
    if temp_folder is not None or push_down or is_cluster(source):
        return _open_elsewhere(estimator, source, columns, temp_folder)
    return _read_sources(estimator, getattr(source, "sources", (source,)), columns)


def _open_elsewhere(
    estimator: PrivateEstimator, source: Source, columns: Columns, temp_folder: Any
) -> TrainingRows:
    """The study of one site with an engine; refuses unsupported queries before any charge."""
    for name, value in (("site", columns.site), ("person", columns.person)):
        if value is not None:
            raise ParameterError(
                f"{name} was given, but these rows are summed where they are, as one site's and "
                f"each a person's own; leave {name} out, or let the rows be read into memory."
            )
    schema = schema_for(estimator)
    warn_of_marks(schema)
    study, method = agree(estimator, schema, 1, {})  # held-out records are queried in the same run
    (draws,) = draws_of_sites(study)
    label = outcome_column(source, schema, columns)
    engine: Elsewhere
    if temp_folder is not None:
        with using(estimator.n_jobs or 1):
            engine = OnDisk(source, study.schema, label, draws, Path(temp_folder))
    else:
        make = open_cluster if is_cluster(source) else InDatabase
        engine = make(source, study.schema, label, draws)
    engine.answering(study)
    engine.check()
    return TrainingRows(study=study, method=method, engine=engine)


def outcome_column(source: Source, schema: Schema, columns: Columns) -> str:
    """The schema's column of times, the named target, or the only undeclared column."""
    time_column = columns.target if schema.survival is None else schema.survival.time
    if columns.target not in (None, time_column):
        raise ParameterError(
            f"target is {columns.target!r}, but the schema says that times are in {time_column!r}; "
            "leave target out."
        )
    if time_column is None and is_cluster(source):
        raise ParameterError("say which column is to be predicted: target='...'.")
    return time_column or the_other_column(source, schema, columns)


def named_columns(
    target: str | None, site: Any, sites: Sequence[Any] | None, person: Any
) -> Columns:
    for name, value in (("target", target), ("site", site), ("person", person)):
        if value is not None and not isinstance(value, str):
            raise ParameterError(
                f"{name} is a {type(value).__name__}, but these rows are read by the names of "
                f"their columns; give the name of a column: {name}='...'."
            )
    if sites is not None and site is None:
        raise ParameterError(
            "sites names the sites; name the column that says whose each row is too."
        )
    return Columns(target=target, site=site, sites=sites, person=person)


def _read_sources(
    estimator: PrivateEstimator, sources: Sequence[Source], columns: Columns
) -> TrainingRows:
    """Reads sources: several are one site each; a single one may hold several sites' rows."""
    schema = schema_for(estimator)
    warn_of_marks(schema)
    label = outcome_column(sources[0], schema, columns)

    def read(source: Source, grid: Schema) -> Encoded:
        site, person = columns.site, columns.person
        with using(estimator.n_jobs or 1):
            return encode(source, grid, target=label, person=person, site=site, check=True)

    if columns.site is None:
        study, method = agree(estimator, schema, len(sources))
        parts = [read(source, study.schema) for source in sources]
        names = [str(k) for k in range(len(sources))] if len(sources) > 1 else [UNNAMED]
    else:
        (source,) = sources
        grid = estimator._method(schema).grid(schema)
        parts, names = by_site(read(source, grid), columns.sites)
        study, method = agree(estimator, schema, len(parts))
    return TrainingRows(
        study=study,
        method=method,
        parts=parts,
        names=names,
        found_sites=columns.site is not None and columns.sites is None,
        persons_declared=columns.person is not None,
        label=label,
    )


def schema_for(estimator: PrivateEstimator) -> Schema:
    schema: Schema | None = check_parameters(estimator).schema
    if schema is None:
        raise ParameterError(
            "rows that are read from where they are need a schema: draft one with "
            "hedgerow.draft_schema or `hedgerow schema draft`, and confirm it."
        )
    check_task(schema, estimator._regression, type(estimator).__name__)
    return schema


def the_other_column(source: Source, schema: Schema, columns: Columns) -> str:
    """The only column that the schema does not declare: the target."""
    table = open_table(source, schema.columns)
    positions_of(table, schema.columns)
    other_names = (*schema.columns, columns.site, columns.person)
    left = [name for name in table.names if name not in other_names]
    if len(left) == 1:
        return left[0]
    state = f"has the columns {left}" if left else "has no column"
    raise DataError(
        f"{table.where} {state} beside those of the schema; say which one is to be predicted "
        "(`target`)."
    )


def by_site(encoded_rows: Encoded, sites: Sequence[Any] | None) -> tuple[list[Encoded], list[str]]:
    """The rows and the name of each site, in the order of `sites` or sorted by name."""
    if encoded_rows.site_rows is None:
        raise DataError("there is no row, so nobody holds any; give at least one.")
    site_names, site = encoded_rows.site_rows
    names = sorted(site_names) if sites is None else [str(token_of(name)) for name in sites]
    warn_of_crowds(len(names), len(site))
    place = {name: k for k, name in enumerate(names)}
    for name in site_names:
        if name not in place:
            raise DataError(
                f"site is {name!r} in some row, which is not among the sites {names}; name it "
                "there or correct the row."
            )
    sorted_by = np.array([place[name] for name in site_names], np.int32)[site]
    order = np.argsort(sorted_by, kind="stable").astype(np.int32)
    ends = np.searchsorted(sorted_by[order], np.arange(1, len(names)))
    codes, y, persons = encoded_rows.codes, encoded_rows.y, encoded_rows.persons
    first, *others = [
        Encoded(
            codes=codes[:, rows],
            y=None if y is None else y[rows],
            persons=None if persons is None else persons[rows],
            clamped={},
            unknown={},
            skipped=0,
        )
        for rows in np.split(order, ends)
    ]
    # counts of clamped values stay with the first site, so they count once
    kinds = ("clamped", "unknown", "missing", "reach", "skipped")
    whole = replace(first, **{kind: getattr(encoded_rows, kind) for kind in kinds})
    return [whole, *others], names
