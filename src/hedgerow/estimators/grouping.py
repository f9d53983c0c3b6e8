"""By which column an evaluation tells groups apart, and where a number is cut: in public."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from hedgerow.errors import SpecError
from hedgerow.values.features import Numeric, Spacing
from hedgerow.values.grids import log_edges, uniform_edges
from hedgerow.values.joining import joint_schema
from hedgerow.values.schema import Schema

USUAL_GROUPS = 4
"""So many groups a number has if nobody says where to cut it, missing values aside."""


@dataclass(frozen=True)
class GroupColumn:
    """`cuts` are those of a number; listed values are a group each."""

    name: str
    cuts: tuple[float, ...] = ()

    def on_grid(self, schema: Schema) -> Schema:
        """The schema, with its grid cut here too."""
        place = schema.index(self.name)
        feature = schema.features[place]
        if not self.cuts or not isinstance(feature, Numeric):
            return schema
        features = list(schema.features)
        features[place] = Numeric(self.name, feature.low, feature.high, edges=self.cuts)
        return joint_schema([schema, replace(schema, features=tuple(features))])


def group_column(by: str | Mapping[str, Sequence[float]] | None, model: Any) -> GroupColumn | None:
    """What `by` means for a model: a column, or a column and where to cut it."""
    if by is None:
        return None
    schema: Schema = model.schema if isinstance(model.schema, Schema) else model.schema_
    name, cuts = (by, None) if isinstance(by, str) else _one_column(by)
    feature = schema.features[schema.index(name)]
    if not isinstance(feature, Numeric):
        if cuts is not None:
            raise SpecError(
                f"column {name!r} is no number, so it has no cuts; give its name alone."
            )
        return GroupColumn(name)
    return GroupColumn(name, usual_cuts(feature) if cuts is None else _checked(feature, cuts))


def usual_cuts(feature: Numeric) -> tuple[float, ...]:
    """At most three: of the edges that people declared, or by the range, quarter by quarter."""
    if feature.is_open:
        raise SpecError(
            f"column {feature.name!r} has no declared range, so nobody knows where to cut it; say "
            f"it: by={{{feature.name!r}: [40, 65]}}, or --by {feature.name}=40,65."
        )
    edges = feature.edges
    if edges is None:
        spaced = log_edges if feature.spacing is Spacing.LOG else uniform_edges
        return spaced(feature.low, feature.high, USUAL_GROUPS)
    inner = [len(edges) * k // USUAL_GROUPS for k in range(1, USUAL_GROUPS)]
    return edges if len(edges) < USUAL_GROUPS else tuple(edges[k] for k in inner)


def _one_column(by: Any) -> tuple[str, Any]:
    if not isinstance(by, Mapping) or len(by) != 1:
        raise SpecError(
            f"by is {by!r}; give one column, or one with its cuts: {{'age': [40, 65]}}."
        )
    ((name, cuts),) = by.items()
    return name, cuts


def _checked(feature: Numeric, cuts: Any) -> tuple[float, ...]:
    try:
        found = tuple(float(cut) for cut in cuts) if isinstance(cuts, Iterable) else ()
    except (TypeError, ValueError):
        found = ()
    is_rising = all(a < b for a, b in zip((feature.low, *found), found, strict=False))
    if not found or not is_rising or not (found[-1] <= feature.high and math.isfinite(found[-1])):
        raise SpecError(
            f"column {feature.name!r} is to be cut at {cuts!r}; give rising numbers above "
            f"{feature.low:g} and up to {feature.high:g}, its range in the schema."
        )
    return found


def column_and_cuts(text: str, names: Sequence[str]) -> str | dict[str, list[float]]:
    """As people type it: `age`, or `age=40,65`. A column may itself be called so."""
    name, equals, cuts = text.rpartition("=")
    if text in names or not equals:
        return text
    try:
        return {name: [float(cut) for cut in cuts.split(",")]}
    except ValueError:
        raise SpecError(f"--by is {text!r}; write cuts as numbers: --by {name}=40,65.") from None
