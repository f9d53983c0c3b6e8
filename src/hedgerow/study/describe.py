"""Queries in words, and what they cost: both follow from the study and the query alone."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

from hedgerow.privacy.ledger.charges import Charge
from hedgerow.queries import BoundQuery, Cells, LocalChoice, Query, SelectQuery, SumQuery
from hedgerow.study.terms import Study
from hedgerow.values.grids import Grid
from hedgerow.values.regions import Fold


def charges_of(bundle: Sequence[Query], study: Study) -> list[Charge]:
    """What the bundle costs a record, by region."""
    return [study.charge(q.region, study.cost(q), describe(q, study)) for q in bundle]


def describe(query: Query, study: Study) -> str:
    """One line a person can read: what is asked of which rows."""
    where = " and ".join(_step_words(query, study)) or "all rows"
    match query:
        case SumQuery():
            by = query.by
            what = type(query.statistic).__name__
            if isinstance(by, Cells):
                return f"{what} in the bins of {_asked(by.features, study)}, of {where}"
            return f"{what} by {type(by).__name__} ({by.groups} x {by.n_cells}), of {where}"
        case BoundQuery():
            return f"best local impurity of {_asked(query.features, study)}, of {where}"
        case LocalChoice():
            return f"each site's choice among {len(query.splits)} splits, of {where}"
        case SelectQuery():
            return f"choice among {len(query.splits)} splits, of {where}"


def _asked(features: Sequence[int], study: Study) -> str:
    """Which features, and of how many: what a node did not ask was saved."""
    every = study.schema.names
    if len(features) == len(every):
        return f"all {len(every)} features"
    named = ", ".join(every[f] for f in features[:3])
    return (
        f"{named}{', ...' if len(features) > 3 else ''} ({len(features)} of {len(every)} features)"
    )


def _step_words(query: Query, study: Study) -> list[str]:
    words = []
    for step in query.region:
        if isinstance(step.test, Fold):
            words.append(f"fold {step.outcome} of {step.test.n}")
            continue
        grid = study.schema.grids[study.schema.index(step.test.feature)]
        everything = (1 << grid.n_cells) - 1
        left = step.test.left
        words.append(_in_words(grid, left if step.outcome == 0 else everything & ~left))
    return words


@lru_cache(maxsize=1 << 14)
def _in_words(grid: Grid, cells: int) -> str:
    """Kept: the nodes of a tree share their steps, and every site describes every query."""
    return grid.describe(cells)
