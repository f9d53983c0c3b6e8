"""Rows by site as a user gives them; of an evaluation all, or those that a fit held out."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hedgerow.data.reading.encoding import Encoded, encode
from hedgerow.data.rows import Draws, Rows
from hedgerow.data.site_rows import (
    HELD_OUT,
    HeldOutDraws,
    declared_sites,
    names_of_sites,
    secret_draws,
    split_by_site,
    split_persons,
    take_rows,
)
from hedgerow.errors import ParameterError
from hedgerow.methods.constants import constant
from hedgerow.methods.inputs import by_schema_names, names_of_codes
from hedgerow.models.joining import joint_schema
from hedgerow.privacy.study import Study
from hedgerow.schema.features import Numeric, Spacing
from hedgerow.schema.grids import log_edges, uniform_edges
from hedgerow.schema.regions import HeldOut
from hedgerow.schema.schema import Schema

USUAL_GROUPS = constant(4, unit="groups")
"""Default number of groups of a numeric column, without missing values."""


@dataclass(frozen=True, kw_only=True)
class SiteRows:
    """Rows of one site as given, with labels and, if declared, persons."""

    name: str
    X: Any
    y: NDArray[Any]
    person: NDArray[np.object_] | None

    def take(self, rows: NDArray[np.intp]) -> SiteRows:
        person = None if self.person is None else self.person[rows]
        return SiteRows(name=self.name, X=take_rows(self.X, rows), y=self.y[rows], person=person)

    def encoded(self, schema: Schema) -> Encoded:
        """Rows on the schema's grid; without rows there is nothing to check."""
        return encode(self.X, schema, y=self.y, person=self.person, check=len(self.y) > 0)

    def on_grid(self, schema: Schema, own: Draws) -> Rows:
        return Rows(self.encoded(schema), schema, own)

    def is_held_out(self, schema: Schema, own: Draws, one_in: int) -> NDArray[np.bool_]:
        """(n,) whether each record is held out, by the site's secret and its codes on this schema's
        grid.

        On a finer grid, records that are equal here would differ, and one added record could change
        which of them are held out.
        """
        return np.asarray(self.on_grid(schema, own).fold(HeldOut(one_in)) == HELD_OUT)


def rows_of_the_sites(
    X: Any, labels: NDArray[Any], schema: Schema, site: Any, sites: Any, person: Any
) -> tuple[list[SiteRows], bool]:
    """The rows of each site, and whether labels are the numbers of classes."""
    X = by_schema_names(X, schema)
    labels, are_codes = names_of_codes(labels, schema)
    names = declared_sites(site, sites)
    parts = zip(
        names_of_sites(site, names),
        split_by_site(X, labels, site, names),
        split_persons(person, labels, site, names),
        strict=True,
    )
    rows = [SiteRows(name=name, X=mine, y=y, person=own) for name, (mine, y), own in parts]
    return rows, are_codes


def common_draws(models: Sequence[Any]) -> HeldOutDraws | None:
    """The draws by which all of these models held out records: those of one fit and its stages."""
    draws: HeldOutDraws | None = getattr(models[0], "_held_out_draws", None)
    if draws is not None and any(model._held_out_draws is not draws for model in models[1:]):
        raise ParameterError(
            "the model held records out of training, and another one may have been trained on "
            "them; compare them on new rows, or let hedgerow.select_model train them all."
        )
    return draws


def evaluated_rows(
    models: Sequence[Any], study: Study, parts: Sequence[SiteRows], by_person: bool
) -> list[Rows]:
    """All rows, or those that the sites' secrets held out of the model's training."""
    held_out, names = common_draws(models), [part.name for part in parts]
    if held_out is None:
        draws = secret_draws(study.name, len(parts))
        return [part.on_grid(study.schema, own) for part, own in zip(parts, draws, strict=True)]
    grid: Schema = models[0].schema_
    most = study.records_per_person
    draws = held_out.of(names, by_person=by_person, schema=grid.digest, records_per_person=most)
    left = [
        part.take(np.flatnonzero(part.is_held_out(grid, own, held_out.one_in)))
        for part, own in zip(parts, draws, strict=True)
    ]
    return [part.on_grid(study.schema, own) for part, own in zip(left, draws, strict=True)]


# The column that divides an evaluation into groups, and the public cuts of a number.


@dataclass(frozen=True)
class GroupColumn:
    """A group column; `cuts` divide a numeric one, each listed value is a group."""

    name: str
    cuts: tuple[float, ...] = ()

    def on_grid(self, schema: Schema) -> Schema:
        """The schema with these cuts added to its grid."""
        place = schema.index(self.name)
        feature = schema.features[place]
        if not self.cuts or not isinstance(feature, Numeric):
            return schema
        features = list(schema.features)
        features[place] = Numeric(self.name, feature.low, feature.high, edges=self.cuts)
        return joint_schema([schema, replace(schema, features=tuple(features))])


def group_column(by: str | Mapping[str, Sequence[float]] | None, model: Any) -> GroupColumn | None:
    """Parses `by`: a column, or a column and its cuts."""
    if by is None:
        return None
    schema: Schema = model.schema if isinstance(model.schema, Schema) else model.schema_
    columns: Any = {by: None} if isinstance(by, str) else by
    if not isinstance(columns, Mapping) or len(columns) != 1:
        raise ParameterError(
            f"by is {by!r}; give one column, or one with its cuts: {{'age': [40, 65]}}."
        )
    ((name, cuts),) = columns.items()
    feature = schema.features[schema.index(name)]
    if not isinstance(feature, Numeric):
        if cuts is not None:
            raise ParameterError(
                f"column {name!r} is no number, so it has no cuts; give its name alone."
            )
        return GroupColumn(name)
    return GroupColumn(name, usual_cuts(feature) if cuts is None else _check_cuts(feature, cuts))


def usual_cuts(feature: Numeric) -> tuple[float, ...]:
    """At most three cuts: from the declared edges, or at quarters of the range."""
    if feature.is_open:
        raise ParameterError(
            f"column {feature.name!r} has no declared range, so nobody knows where to cut it; say "
            f"it: by={{{feature.name!r}: [40, 65]}}, or --by {feature.name}=40,65."
        )
    edges = feature.edges
    if edges is None:
        make_edges = log_edges if feature.spacing is Spacing.LOG else uniform_edges
        return make_edges(feature.low, feature.high, USUAL_GROUPS)
    inner = [len(edges) * k // USUAL_GROUPS for k in range(1, USUAL_GROUPS)]
    return edges if len(edges) < USUAL_GROUPS else tuple(edges[k] for k in inner)


def _check_cuts(feature: Numeric, cuts: Any) -> tuple[float, ...]:
    try:
        cut_values = tuple(float(cut) for cut in cuts) if isinstance(cuts, Iterable) else ()
    except (TypeError, ValueError):
        cut_values = ()
    is_rising = all(a < b for a, b in zip((feature.low, *cut_values), cut_values, strict=False))
    last = cut_values[-1] if cut_values and is_rising else math.inf
    if not (last <= feature.high and math.isfinite(last)):
        raise ParameterError(
            f"column {feature.name!r} is to be cut at {cuts!r}; give rising numbers above "
            f"{feature.low:g} and up to {feature.high:g}, its range in the schema."
        )
    return cut_values


def column_and_cuts(text: str, names: Sequence[str]) -> str | dict[str, list[float]]:
    """Parses `age` or `age=40,65`; a column's name may itself look like that."""
    name, equals, cuts = text.rpartition("=")
    if text in names or not equals:
        return text
    try:
        return {name: [float(cut) for cut in cuts.split(",")]}
    except ValueError:
        raise ParameterError(
            f"--by is {text!r}; write cuts as numbers: --by {name}=40,65."
        ) from None
