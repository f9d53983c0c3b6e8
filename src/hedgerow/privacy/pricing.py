"""Queries in words, and what they cost: both follow from the study and the query alone.

Words are for people who approve studies and read statements: "class counts of 14 columns in 32
ranges", never the name of a class of this package.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache, wraps
from math import prod
from typing import Any, TypeVar

from hedgerow.privacy.accounting.budget import Measure, Placement
from hedgerow.privacy.accounting.coalition import Release
from hedgerow.privacy.accounting.rounding import printed
from hedgerow.privacy.ledger.charges import Charge
from hedgerow.privacy.mechanisms.mechanisms import NoiseLaw
from hedgerow.privacy.mechanisms.response import BloomReports
from hedgerow.privacy.queries import (
    BoundQuery,
    Cells,
    LocalChoice,
    Mechanism,
    Query,
    SelectQuery,
    Summed,
    SumQuery,
)
from hedgerow.privacy.queries.words import Phrase, counting
from hedgerow.privacy.study import Study
from hedgerow.schema.grids import Grid
from hedgerow.schema.regions import EVERYONE, Fold, HeldOut, Region, Split
from hedgerow.schema.schema import Schema

# --------------------------------------------------------------------------------------------------
# What follows from a study and a query alone is worked out once for each query.
#
# All sites of one process have the same study, and read the same questions as the same objects.
# What is kept lies with the query and goes with it; it is not copied or sent along.

REMEMBERED = "_remembered"
AQuery = TypeVar("AQuery")
Result = TypeVar("Result")
Follows = Callable[[Study, AQuery], Result]


class _Remembered:
    """Results by the names of the functions that made them, for one study."""

    __slots__ = ("results", "study")

    def __init__(self, study: Study | None = None) -> None:
        self.study, self.results = study, dict[str, Any]()

    def __reduce__(self) -> tuple[Any, ...]:
        return _Remembered, ()


def once_a_query(function: Follows[AQuery, Result]) -> Follows[AQuery, Result]:
    """For functions of a study and of a query that never changes; what they raise is not kept."""
    name = function.__qualname__

    @wraps(function)
    def remembered(study: Study, query: AQuery) -> Result:
        kept = vars(query).get(REMEMBERED)
        if kept is None or kept.study is not study:
            kept = vars(query)[REMEMBERED] = _Remembered(study)
        if name not in kept.results:
            kept.results[name] = function(study, query)
        result: Result = kept.results[name]
        return result

    return remembered


# ------------------------------------------------------------------------------------------- prices
@dataclass(frozen=True, slots=True)
class Noise:
    """Of a sum: so many integers of so many units per 1.0, and the noise that each site adds.

    Noise is drawn in units that are `refinement` times finer.
    """

    query: Summed
    size: int
    unit: int
    refinement: int
    of_site: NoiseLaw
    release: Release
    slack: Fraction

    @property
    def scale(self) -> int:
        """Integer units per 1.0 of what leaves a site."""
        return self.unit * self.refinement


@dataclass(frozen=True, slots=True)
class Priced:
    """A query with all that both halves of a round need to know of it; a choice has no noise."""

    query: Query
    charge: Charge
    phrase: Phrase
    mechanism: str
    noise: Noise | None

    @property
    def size(self) -> int:
        """Integers that leave each site."""
        return 0 if self.noise is None else self.noise.size


@once_a_query
def priced(study: Study, query: Query) -> Priced:
    """For queries that were admitted: a hostile one can make this raise."""
    charge = study.charge(query.region, study.cost(query), describe(query, study))
    noise = _noise(study, query) if isinstance(query, SumQuery | BoundQuery) else None
    return Priced(query, charge, phrase_of(query), mechanism_of(query, study), noise)


def _noise(study: Study, query: Summed) -> Noise:
    return Noise(
        query,
        prod(query.shape),
        study.unit(query),
        study.refinement(query),
        study.site_law(query),
        study.release(query),
        study.slack(query),
    )


def entry_charges(study: Study) -> list[Charge]:
    """What records pay on entering the study, where there is such a price: once, first of all."""
    if not study.entry_cost:
        return []
    what = "labels, randomised once per record for the whole study"
    return [study.charge(EVERYONE, study.entry_cost, what)]


# --------------------------------------------------------------------------------- words of queries
def phrase_of(query: Query) -> Phrase:
    """What is asked, of whichever records."""
    match query:
        case SumQuery():
            return query.statistic.words.then(query.by.words)
        case BoundQuery():
            columns = counting("column", len(query.features))
            return Phrase("best impurity that each site could reach on {column}", (columns,))
        case LocalChoice():
            splits = counting("split", query.n_candidates)
            return Phrase("each site's private choice among {split}", (splits,))
        case SelectQuery():
            return Phrase("private choice among {split}", (counting("split", query.n_candidates),))


def describe(query: Query, study: Study) -> str:
    """One line a person can read: what is asked of which records."""
    words = phrase_of(query).said(**_names(query, study))
    return f"{words}, for {_records(query.region, study.schema)}"


def _names(query: Query, study: Study) -> dict[str, str]:
    """Which columns, and of how many: what a node did not ask was saved."""
    if isinstance(query, BoundQuery):
        return {"column": _asked(query.features, study)}
    if isinstance(query, SumQuery) and isinstance(query.by, Cells):
        return {"column": _asked(query.by.features, study)}
    return {}


def _asked(features: Sequence[int], study: Study) -> str:
    every = study.schema.names
    if len(features) == len(every):
        return f"all {len(every)} columns"
    named = ", ".join(every[f] for f in features[:3])
    return (
        f"{named}{', ...' if len(features) > 3 else ''} ({len(features)} of {len(every)} columns)"
    )


@lru_cache(maxsize=1 << 12)
def _records(region: Region, schema: Schema) -> str:
    """Kept: the coordinator and every site of one process describe the same regions."""
    held = [s.outcome for s in region if isinstance(s.test, HeldOut)]
    which = ("held-out records" if held[0] == 0 else "records trained on") if held else "records"
    folds = [f"fold {s.outcome} of {s.test.n}" for s in region if isinstance(s.test, Fold)]
    tests = _test_words(region, schema)
    if not folds and not tests:
        return f"all {which}"
    inside = f" in {' and '.join(folds)}" if folds else ""
    having = f" with {' and '.join(tests)}" if tests else ""
    return f"{which}{inside}{having}"


def _test_words(region: Region, schema: Schema) -> list[str]:
    words = []
    for step in region:
        if not isinstance(step.test, Split):
            continue
        grid = schema.grids[schema.index(step.test.feature)]
        everything = (1 << grid.n_cells) - 1
        left = step.test.left
        words.append(_in_words(grid, left if step.outcome == 0 else everything & ~left))
    return words


@lru_cache(maxsize=1 << 14)
def _in_words(grid: Grid, cells: int) -> str:
    """Kept: the nodes of a tree share their steps."""
    return grid.describe(cells)


# ------------------------------------------------------------------------------ words of mechanisms
NOISES = {
    Measure.PURE: "discrete Laplace noise on integer sums",
    Measure.ZCDP: "discrete Gaussian noise on integer sums",
    Measure.GDP: "discrete Gaussian noise on integer sums",
}
CHOICES = {
    Mechanism.EXPONENTIAL: "private choice by the exponential mechanism; only the index leaves",
    Mechanism.PERMUTE_AND_FLIP: "private choice by permute-and-flip; only the index leaves",
    Mechanism.REPORT_NOISY_MAX: "private choice by report-noisy-max; only the index leaves",
}
NO_MECHANISM = "none"


def mechanism_of(query: Query, study: Study) -> str:
    """What protects the answer to a query."""
    if study.placement in (Placement.NOWHERE, Placement.LABEL):
        return NO_MECHANISM
    if isinstance(query, SelectQuery | LocalChoice):
        return CHOICES[query.mechanism]
    return NOISES[study.measure]


def label_mechanism(study: Study) -> str:
    """What protects labels under placement `label`, before anything is asked."""
    if study.label_reports is not None:
        return _reports_words(study.label_reports)
    keep = float(study.response.keep)
    return f"k-ary randomised response, drawn once per record; the truth with p = {keep:.3f}"


def _reports_words(reports: BloomReports) -> str:
    ever, once = printed(reports.epsilon_forever), printed(reports.epsilon_once)
    return (
        f"Bloom filter of the label, {reports.hashes} of {reports.bits} bits; permanent bits drawn "
        f"once per record: epsilon {ever} for any number of reports, {once} for one report"
    )
