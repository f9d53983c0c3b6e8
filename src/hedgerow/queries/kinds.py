"""Kinds of query: what a recipe says it may ask, and what a site holds it to."""

from __future__ import annotations

from dataclasses import dataclass

from hedgerow.queries.choices import LocalChoice, Score, SelectQuery
from hedgerow.queries.sums import BoundQuery, SumQuery

Query = SumQuery | BoundQuery | SelectQuery | LocalChoice


@dataclass(frozen=True, slots=True, order=True)
class QueryKind:
    """The query, what it counts or scores, and by what it tells records apart; all by name."""

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
        case SelectQuery() | LocalChoice():
            return QueryKind(name, query.scoring.score.name)


def sums(statistic: type, *groupings: type) -> QueryKinds:
    """Sums of one statistic by each of some groupings."""
    return frozenset(
        QueryKind(SumQuery.__name__, statistic.__name__, by.__name__) for by in groupings
    )


def bounds() -> QueryKinds:
    return frozenset({QueryKind(BoundQuery.__name__)})


def choices(kind: type[SelectQuery] | type[LocalChoice], *scores: Score) -> QueryKinds:
    """Choices, by one holder or by each site, that go by any of some scores."""
    return frozenset(QueryKind(kind.__name__, score.name) for score in scores)
