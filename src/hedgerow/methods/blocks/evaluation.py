"""Evaluates models on records that none was trained on, by one private query for all.

Sites admit an evaluation like a training method: by its queries.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from hedgerow.methods.blocks.flow import Flow
from hedgerow.methods.constants import constant
from hedgerow.models.model import Additive, Model, Output
from hedgerow.privacy.queries import (
    Answer,
    ClassCounts,
    Count,
    EventCounts,
    Groups,
    PredictionCells,
    QueryKinds,
    ResidualCells,
    ScoreCells,
    Summed,
    SumQuery,
    TargetCells,
    sums,
)
from hedgerow.privacy.study import Study
from hedgerow.report.evaluation import ALL_GROUPS
from hedgerow.report.measures import PROBABILITY_EDGES, evaluation_grid, stand_out
from hedgerow.schema.arrays import FloatArray
from hedgerow.schema.grids import ColumnKind, Grid
from hedgerow.schema.regions import EVERYONE, Region, Step
from hedgerow.schema.schema import Schema

ALL_FRACTION = constant(Fraction(1, 2), unit="part")
"""Budget fraction for all records if groups are queried too, whose noise would add up."""
ERROR_CELLS = constant(40, unit="cells of the errors of a number")
COARSE_TARGET_CELLS = constant(24, unit="cells of the target beside them")
SMALLEST_ERROR = constant(1e-3, unit="part of the target's range")
"""Upper end of the first error cell, relative to the target's range."""

EVALUATION = "evaluation"


@dataclass(frozen=True)
class EvaluationTables:
    """Noisy counts of one group of records, by model, cell and class, and their variance."""

    group: str
    values: tuple[FloatArray, ...]
    variance: float


def asks(schema: Schema) -> QueryKinds:
    if schema.classes is not None:
        return sums(ClassCounts, ScoreCells)
    if schema.survival is not None:
        return sums(EventCounts, PredictionCells)
    return sums(Count, ResidualCells, TargetCells)


@dataclass(frozen=True)
class GroupedBy:
    """A column whose groups are evaluated separately; numbers are cut at public edges."""

    grid: Grid
    cuts: tuple[float, ...] = ()

    def regions(self) -> dict[str, Region]:
        """Disjoint regions, one per group.

        A record is in one of them, so all together cost as much as one.
        """
        regions: dict[str, Region] = {}
        way: Region = EVERYONE
        *others, last = self._cells()
        for cells in others:
            test = self.grid.split_values(cells)
            regions[self._words(cells)] = (*way, Step(test, 0))
            way = (*way, Step(test, 1))
        return {**regions, self._words(last): way}

    @property
    def size(self) -> int:
        """Number of groups, without the group of missing values."""
        return len(self._cells()) - 1

    def _cells(self) -> list[list[int]]:
        """Cells of each group, missing values last."""
        number_cells = range(self.grid.missing)
        if self.grid.kind is not ColumnKind.NUMERIC:
            return [[cell] for cell in (*number_cells, self.grid.missing)]
        starts = np.array([-np.inf, *self.grid.edges])
        group = np.searchsorted(self.cuts, starts, side="right")
        groups = [np.flatnonzero(group == k).tolist() for k in range(len(self.cuts) + 1)]
        return [*groups, [self.grid.missing]]

    def _words(self, cells: Sequence[int]) -> str:
        return self.grid.describe(sum(1 << cell for cell in cells))


def flow(
    models: Sequence[Model],
    schema: Schema,
    by: GroupedBy | None,
    within: Region = EVERYONE,
    variance: Callable[[Summed], float] | None = None,
) -> Flow[list[EvaluationTables]]:
    """Evaluates the records of a region in one round, with the whole budget.

    With groups, all records are queried first, with a fraction of the budget. If that answer shows
    that no group would exceed its noise, the groups are neither queried nor charged.
    """
    if by is None:
        return (yield from _ask_tables(models, schema, {ALL_GROUPS: within}, Fraction(1)))
    assert variance is not None
    (whole,) = yield from _ask_tables(models, schema, {ALL_GROUPS: within}, ALL_FRACTION)
    regions = {name: within + region for name, region in by.regions().items()}
    noise = variance(_queries(models, schema, within, 1 - ALL_FRACTION)[0])
    if not _stand_out(whole.values[0] / by.size, noise, schema):
        return [whole]
    return [whole, *(yield from _ask_tables(models, schema, regions, 1 - ALL_FRACTION))]


def can_tell_groups(
    records: int, models: Sequence[Model], schema: Schema, by: GroupedBy, study: Study
) -> bool:
    """Whether `records`, evenly divided among groups and classes, would exceed the noise."""
    query = _queries(models, schema, EVERYONE, 1 - ALL_FRACTION)[0]
    table = query.shape[1:]
    even_counts = np.full(table, records / by.size / math.prod(table))
    return _stand_out(even_counts, study.variance(query), schema)


def _stand_out(counts: FloatArray, variance: float, schema: Schema) -> bool:
    is_two = schema.classes is not None and len(schema.classes) == 2
    return stand_out(counts if is_two else counts.reshape(-1, 1), variance)


def _ask_tables(
    models: Sequence[Model], schema: Schema, regions: Mapping[str, Region], fraction: Fraction
) -> Flow[list[EvaluationTables]]:
    queries = [q for region in regions.values() for q in _queries(models, schema, region, fraction)]
    replies = yield queries
    answers = [reply for reply in replies if isinstance(reply, Answer)]
    queries_per_region = len(queries) // len(regions)
    return [
        _tables(name, answers[k * queries_per_region : (k + 1) * queries_per_region])
        for k, name in enumerate(regions)
    ]


def _queries(
    models: Sequence[Model], schema: Schema, region: Region, fraction: Fraction
) -> list[SumQuery]:
    if schema.classes is not None:
        by = ScoreCells(
            tuple(model.score for model in models),
            tuple(model.output for model in models),
            tuple(model.sharpness for model in models),
            len(schema.classes),
            PROBABILITY_EDGES,
        )
        return [SumQuery(region, ClassCounts(len(schema.classes)), by, fraction)]
    if schema.survival is not None:
        queries = []
        for model in models:  # one table by interval of the score, time, and event
            assert model.survival is not None
            cuts, times = evaluation_grid(model.survival)
            cells = PredictionCells(model.score, cuts)
            queries.append(SumQuery(region, EventCounts(times), cells, fraction / len(models)))
        return queries
    query_fraction = fraction / (len(models) + 1)
    edges = error_edges(schema)
    groups: list[Groups] = [ResidualCells(predictor(model), edges) for model in models]
    groups.append(TargetCells(coarse_target_edges(schema)))
    return [SumQuery(region, Count(), group, query_fraction) for group in groups]


def _tables(name: str, answers: Sequence[Answer]) -> EvaluationTables:
    values = [group for answer in answers for group in answer.values]
    return EvaluationTables(name, tuple(values), answers[0].variance)


def error_edges(schema: Schema) -> tuple[float, ...]:
    """Error cells that grow by equal factors up to the whole range."""
    assert schema.target is not None
    width = schema.target.high - schema.target.low
    return tuple(float(e) for e in width * np.geomspace(SMALLEST_ERROR, 0.9, ERROR_CELLS - 1))


def coarse_target_edges(schema: Schema) -> tuple[float, ...]:
    assert schema.target is not None
    ends = schema.target.low, schema.target.high
    return tuple(float(e) for e in np.linspace(*ends, COARSE_TARGET_CELLS + 1)[1:-1])


def predictor(model: Model) -> Additive:
    """The sum whose raw value is the prediction; averaged trees are divided by their number."""
    score = model.score
    if model.output is not Output.MEAN:
        return score
    many = max(len(score.trees), 1)
    trees = tuple(tree.with_values(tree.values / many) for tree in score.trees)
    return Additive(tuple(b / many for b in score.base), trees=trees)
