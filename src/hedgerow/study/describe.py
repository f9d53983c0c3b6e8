"""Queries in words, and what they cost: both follow from the study and the query alone.

Words are for people who approve studies and read statements: "class counts of 14 columns in 32
ranges", never the name of a class of this package.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache, reduce
from typing import Any

from hedgerow.privacy.accounting.budget import Measure, Placement
from hedgerow.privacy.accounting.rounding import printed
from hedgerow.privacy.ledger.charges import Charge
from hedgerow.privacy.noise.response import BloomReports
from hedgerow.queries import (
    BoundQuery,
    Cells,
    ClassCounts,
    Count,
    CurveNewton,
    Fractions,
    Gradients,
    Groups,
    Hessians,
    LabelReports,
    Leaves,
    LocalChoice,
    Mechanism,
    Query,
    ResidualCells,
    SelectQuery,
    Sides,
    Statistic,
    SumQuery,
    TargetCells,
    TargetClassCounts,
    Whole,
)
from hedgerow.study.terms import Study
from hedgerow.values.grids import Grid
from hedgerow.values.regions import Fold, Region


@dataclass(frozen=True, slots=True)
class Phrase:
    """Words with counted nouns in them: "in {range}" and ("range", 5, 32): "in 5 to 32 ranges"."""

    pattern: str
    counts: tuple[tuple[str, int, int], ...] = ()

    def __str__(self) -> str:
        return self.said()

    def said(self, **instead: str) -> str:
        """The words; a noun may be replaced, as by the names of the things it counts."""
        nouns = {noun: _counted(noun, low, high) for noun, low, high in self.counts}
        return self.pattern.format(**nouns | instead)

    def then(self, other: Phrase) -> Phrase:
        return Phrase(f"{self.pattern} {other.pattern}", self.counts + other.counts)


def merged(phrases: Iterable[Phrase]) -> list[Phrase]:
    """One phrase for all of a pattern, its counts from the lowest to the highest."""
    by_pattern: dict[str, list[Phrase]] = {}
    for phrase in phrases:
        by_pattern.setdefault(phrase.pattern, []).append(phrase)
    return [reduce(_widened, alike) for alike in by_pattern.values()]


def _widened(one: Phrase, two: Phrase) -> Phrase:
    counts = (
        (noun, min(low, low2), max(high, high2))
        for (noun, low, high), (_, low2, high2) in zip(one.counts, two.counts, strict=True)
    )
    return Phrase(one.pattern, tuple(counts))


def _counted(noun: str, low: int, high: int) -> str:
    number = f"{low}" if low == high else f"{low} to {high}"
    return f"{number} {noun}" if high == 1 else f"{number} {noun}s"


def _of(noun: str, count: int) -> tuple[str, int, int]:
    return noun, count, count


# -------------------------------------------------------------- words of statistics and groupings
STATISTICS: dict[type, Callable[[Any], Phrase]] = {
    Count: lambda _: Phrase("record counts"),
    ClassCounts: lambda _: Phrase("class counts"),
    LabelReports: lambda _: Phrase("sums of randomised label bits"),
    TargetClassCounts: lambda s: Phrase(
        "record counts by {interval} of the target", (_of("interval", s.channels),)
    ),
    Fractions: lambda _: Phrase("target sums"),
    Gradients: lambda _: Phrase("prediction-error sums"),
    Hessians: lambda _: Phrase("prediction-uncertainty sums"),
    CurveNewton: lambda s: Phrase(
        "sums for one step on the weights of {curve}", (_of("curve", len(s.curves)),)
    ),
}


def words_of(statistic: Statistic) -> Phrase:
    """What is summed."""
    return STATISTICS[type(statistic)](statistic)


def _cells_words(by: Cells) -> Phrase:
    bins = [by.binning.n_bins[f] for f in by.features]
    ranges = ("range", min(bins), max(bins))
    return Phrase("of {column} in {range}", (_of("column", by.groups), ranges))


GROUPINGS: dict[type, Callable[[Any], Phrase]] = {
    Whole: lambda _: Phrase("in total"),
    Cells: _cells_words,
    Leaves: lambda by: Phrase("in the leaves of {tree}", (_of("tree", by.groups),)),
    Sides: lambda by: Phrase(
        "on both sides of {test} at each of {node}",
        (_of("test", by.groups), _of("node", by.layer.n_nodes)),
    ),
    TargetCells: lambda by: Phrase("in {range} of the target", (_of("range", by.n_cells),)),
    ResidualCells: lambda by: Phrase(
        "in {range} of the size of the prediction error", (_of("range", by.n_cells),)
    ),
}


def words_of_grouping(by: Groups) -> Phrase:
    """In what pieces it is told."""
    return GROUPINGS[type(by)](by)


# --------------------------------------------------------------------------------- words of queries
def charges_of(bundle: Sequence[Query], study: Study) -> list[Charge]:
    """What the bundle costs a record, by region."""
    return [study.charge(q.region, study.cost(q), describe(q, study)) for q in bundle]


def phrase_of(query: Query) -> Phrase:
    """What is asked, of whichever records."""
    match query:
        case SumQuery():
            return words_of(query.statistic).then(words_of_grouping(query.by))
        case BoundQuery():
            columns = _of("column", len(query.features))
            return Phrase("best impurity that each site could reach on {column}", (columns,))
        case LocalChoice():
            splits = _of("split", len(query.splits))
            return Phrase("each site's private choice among {split}", (splits,))
        case SelectQuery():
            return Phrase("private choice among {split}", (_of("split", len(query.splits)),))


def describe(query: Query, study: Study) -> str:
    """One line a person can read: what is asked of which records."""
    return f"{phrase_of(query).said(**_names(query, study))}, for {_records(query.region, study)}"


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


def _records(region: Region, study: Study) -> str:
    folds = [f"fold {s.outcome} of {s.test.n}" for s in region if isinstance(s.test, Fold)]
    tests = _test_words(region, study)
    if not folds and not tests:
        return "all records"
    inside = f" in {' and '.join(folds)}" if folds else ""
    having = f" with {' and '.join(tests)}" if tests else ""
    return f"records{inside}{having}"


def _test_words(region: Region, study: Study) -> list[str]:
    words = []
    for step in region:
        if isinstance(step.test, Fold):
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


# ------------------------------------------------------------------------------ words of mechanisms
NOISES = {
    Measure.PURE: "discrete Laplace noise on integer sums",
    Measure.ZCDP: "discrete Gaussian noise on integer sums",
    Measure.GDP: "discrete Gaussian noise on integer sums",
}
CHOICES = {
    Mechanism.EXPONENTIAL: "private choice by the exponential mechanism; only the index leaves",
    Mechanism.PERMUTE_AND_FLIP: "private choice by permute-and-flip; only the index leaves",
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
