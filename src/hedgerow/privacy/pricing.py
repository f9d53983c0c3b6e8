"""The price of a query and its description, which follow from the study and the query alone.

Descriptions are for people who approve studies and read statements: "class counts of 14 columns in
32 ranges", never the name of a class of this package.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache, wraps
from math import prod
from typing import Any, TypeVar

from hedgerow.privacy.accounting.budget import DPModel, Measure
from hedgerow.privacy.accounting.coalition import CoalitionRelease
from hedgerow.privacy.accounting.rounding import format_above
from hedgerow.privacy.ledger.charges import Charge
from hedgerow.privacy.mechanisms.mechanisms import NoiseLaw
from hedgerow.privacy.queries import (
    BoundQuery,
    Cells,
    LocalSelection,
    Mechanism,
    Query,
    SelectQuery,
    Summed,
    SumQuery,
)
from hedgerow.privacy.queries.statistics import Phrase, counting
from hedgerow.privacy.study import Study
from hedgerow.schema.grids import Grid
from hedgerow.schema.regions import EVERYONE, Fold, HeldOut, Region, Split
from hedgerow.schema.schema import Schema

# Results that follow from a study and a query are cached on the query object: all sites of one
# process share both objects. The cache is neither copied nor sent.

REMEMBERED = "_remembered"
AQuery = TypeVar("AQuery")
Result = TypeVar("Result")
Follows = Callable[[Study, AQuery], Result]


class _Remembered:
    """Cached results of one study, by the name of the function."""

    __slots__ = ("results", "study")

    def __init__(self, study: Study | None = None) -> None:
        self.study, self.results = study, dict[str, Any]()

    def __reduce__(self) -> tuple[Any, ...]:
        return _Remembered, ()


def once_a_query(function: Follows[AQuery, Result]) -> Follows[AQuery, Result]:
    """Caches a function of a study and an immutable query; exceptions are not cached."""
    name = function.__qualname__

    @wraps(function)
    def look_up(study: Study, query: AQuery) -> Result:
        cache = vars(query).get(REMEMBERED)
        if cache is None or cache.study is not study:
            cache = vars(query)[REMEMBERED] = _Remembered(study)
        if name not in cache.results:
            cache.results[name] = function(study, query)
        result: Result = cache.results[name]
        return result

    return look_up


# Prices.
@dataclass(frozen=True, slots=True)
class Noise:
    """The noise of a sum: its number of integers, their units per 1.0, and the law of each site.

    Noise is drawn in units that are `refinement` times finer.
    """

    query: Summed
    size: int
    unit: int
    refinement: int
    of_site: NoiseLaw
    release: CoalitionRelease
    slack: Fraction

    @property
    def scale(self) -> int:
        """Integer units per 1.0 of the values that leave a site."""
        return self.unit * self.refinement


@dataclass(frozen=True, slots=True)
class Priced:
    """A query with its charge, description and noise; a selection has no noise."""

    query: Query
    charge: Charge
    phrase: Phrase
    mechanism: str
    noise: Noise | None

    @property
    def size(self) -> int:
        """The number of integers that leave each site."""
        return 0 if self.noise is None else self.noise.size


@once_a_query
def priced(study: Study, query: Query) -> Priced:
    """Prices a query that was admitted; a hostile query may raise."""
    what, remainder = describe(query, study), study.remainder(query)
    charge = study.charge(query.region, study.cost(query), what, remainder)
    noise = None
    if isinstance(query, SumQuery | BoundQuery):
        noise = Noise(
            query,
            prod(query.shape),
            study.unit(query),
            study.refinement(query),
            study.site_law(query),
            study.release(query),
            study.slack(query),
        )
    return Priced(query, charge, phrase_of(query), mechanism_of(query, study), noise)


def entry_charges(study: Study) -> list[Charge]:
    """The charges for entering the study, made once before all others; empty if it is free."""
    if not study.entry_cost:
        return []
    purpose = "labels, randomized once per record for the whole study"
    return [study.charge(EVERYONE, study.entry_cost, purpose)]


# Words of queries.
def phrase_of(query: Query) -> Phrase:
    match query:
        case SumQuery():
            return query.statistic.words.then(query.by.words)
        case BoundQuery():
            columns = counting("column", len(query.features))
            return Phrase("best impurity that each site could reach on {column}", (columns,))
        case LocalSelection():
            splits = counting("split", query.n_candidates)
            return Phrase("each site's private selection among {split}", (splits,))
        case SelectQuery():
            splits = counting("split", query.n_candidates)
            return Phrase("private selection among {split}", (splits,))


def describe(query: Query, study: Study) -> str:
    """Describes a query and its records in one line.

    Columns are named out of how many: those that are not asked cost nothing.
    """
    names = {}
    if isinstance(query, BoundQuery):
        names = {"column": _column_words(query.features, study)}
    elif isinstance(query, SumQuery) and isinstance(query.by, Cells):
        names = {"column": _column_words(query.by.features, study)}
    return f"{phrase_of(query).said(**names)}, for {_records(query.region, study.schema)}"


def _column_words(features: Sequence[int], study: Study) -> str:
    every = study.schema.names
    if len(features) == len(every):
        return f"all {len(every)} columns"
    names = ", ".join(every[f] for f in features[:3])
    more = ", ..." if len(features) > 3 else ""
    return f"{names}{more} ({len(features)} of {len(every)} columns)"


@lru_cache(maxsize=1 << 12)
def _records(region: Region, schema: Schema) -> str:
    """Describes a region; cached, since all sites of one process describe the same regions."""
    draws = [step.outcome for step in region if isinstance(step.test, HeldOut)]
    which = ("held-out records", "records trained on")[draws[0]] if draws else "records"
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
    """Describes cells of a grid; cached, since the nodes of a tree share their steps."""
    return grid.describe(cells)


# Words of mechanisms.
NOISES = {
    Measure.PURE: "discrete Laplace noise on integer sums",
    Measure.GDP: "discrete Gaussian noise on integer sums",
}
CHOICES = {
    Mechanism.EXPONENTIAL: "private selection by the exponential mechanism: the index is released",
    Mechanism.PERMUTE_AND_FLIP: "private selection by permute-and-flip: the index is released",
    Mechanism.REPORT_NOISY_MAX: "private selection by report-noisy-max: the index is released",
}
NO_MECHANISM = "none"


def mechanism_of(query: Query, study: Study) -> str:
    if study.dp_model in (DPModel.NONE, DPModel.LABEL):
        return NO_MECHANISM
    if isinstance(query, SelectQuery | LocalSelection):
        return CHOICES[query.mechanism]
    return NOISES[study.measure]


def label_mechanism(study: Study) -> str:
    """The mechanism that protects labels under DP model `label`, before any query."""
    reports = study.label_reports
    if reports is None:
        keep = float(study.response.keep)
        return f"k-ary randomized response, drawn once per record; the truth with p = {keep:.3f}"
    ever, once = format_above(reports.epsilon_forever), format_above(reports.epsilon_once)
    return (
        f"Bloom filter of the label, {reports.hashes} of {reports.bits} bits; permanent bits drawn "
        f"once per record: epsilon {ever} for any number of reports, {once} for one report"
    )
