"""Kinds of query: a method declares them, and a site answers no others."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from hedgerow.models.losses import Sensitivity
from hedgerow.models.validation import (
    binning_incompatibility,
    columns_incompatibility,
    region_incompatibility,
)
from hedgerow.privacy.queries.choices import LocalSelection, Score, SelectQuery
from hedgerow.privacy.queries.groups import Groups
from hedgerow.privacy.queries.statistics import Statistic
from hedgerow.schema.candidates import Binning
from hedgerow.schema.regions import Region
from hedgerow.schema.schema import Schema


@dataclass(frozen=True)
class SumQuery:
    """Sum of a statistic over the cells of some groups of a region.

    One row falls into one cell of *every* group, so groups add up (Gubler 2023, 3.3.4).
    """

    region: Region
    statistic: Statistic
    by: Groups
    fraction: Fraction

    @property
    def shape(self) -> tuple[int, int, int]:
        return (self.by.groups, self.by.n_cells, self.statistic.channels)

    def sensitivity(self, unit: int) -> Sensitivity:
        return self.statistic.bound(unit).repeat(self.by.groups)

    def incompatibility(self, schema: Schema) -> str | None:
        return (
            region_incompatibility(self.region, schema)
            or self.statistic.incompatibility(schema)
            or self.by.incompatibility(schema)
        )


@dataclass(frozen=True)
class BoundQuery:
    """Per feature, the sum over sites of the best impurity that a site could reach on its own rows.

    Gubler 2023, Theorem 7, with sensitivity 1 instead of 5/4 and charged for all features. A site's
    part is n (1 - sum p^2) / 2 over the two children, in units, rounded down: adding a record
    changes it by at most 1.0, whatever the unit. Proof: docs/proofs/bound_query.md.
    """

    region: Region
    features: tuple[int, ...]
    binning: Binning
    fraction: Fraction

    @property
    def shape(self) -> tuple[int]:
        return (len(self.features),)

    def sensitivity(self, unit: int) -> Sensitivity:
        return Sensitivity(unit, unit**2, unit).repeat(len(self.features))

    def incompatibility(self, schema: Schema) -> str | None:
        if schema.classes is None:
            return "the rows have no classes"
        return (
            region_incompatibility(self.region, schema)
            or columns_incompatibility(self.features, schema)
            or binning_incompatibility(self.binning, schema)
        )


Query = SumQuery | BoundQuery | SelectQuery | LocalSelection


@dataclass(frozen=True, slots=True, order=True)
class QueryKind:
    """A query's type, its statistic or score, and its grouping, by name."""

    query: str
    what: str = ""
    by: str = ""


QueryKinds = frozenset[QueryKind]


def kind_of(query: Query) -> QueryKind:
    name = type(query).__name__
    match query:
        case SumQuery():
            return QueryKind(name, type(query.statistic).__name__, type(query.by).__name__)
        case BoundQuery():
            return QueryKind(name)
        case SelectQuery() | LocalSelection():
            return QueryKind(name, query.scoring.score.name)


def sums(statistic: type, *groupings: type) -> QueryKinds:
    """Sums of one statistic by each of these groupings."""
    return frozenset(
        QueryKind(SumQuery.__name__, statistic.__name__, by.__name__) for by in groupings
    )


def bounds() -> QueryKinds:
    return frozenset({QueryKind(BoundQuery.__name__)})


def choices(kind: type[SelectQuery] | type[LocalSelection], *scores: Score) -> QueryKinds:
    """Selections, at one site or at every site, by any of these scores."""
    return frozenset(QueryKind(kind.__name__, score.name) for score in scores)
