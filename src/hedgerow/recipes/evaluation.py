"""How good models are on records that none of them has seen: one private query for all of them.

Not a way to train. Sites admit it as they admit a recipe: by what it asks.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from hedgerow.learning.evaluation import PROBABILITY_EDGES
from hedgerow.learning.flow import Flow
from hedgerow.queries import (
    Answer,
    ClassCounts,
    Count,
    Groups,
    QueryKinds,
    ResidualCells,
    ScoreCells,
    SumQuery,
    TargetCells,
    sums,
)
from hedgerow.values.arrays import FloatArray
from hedgerow.values.grids import Grid
from hedgerow.values.models import Additive, Model, Output
from hedgerow.values.regions import EVERYONE, Region, Step
from hedgerow.values.schema import Schema

NAME = "evaluation"
ALL_GROUPS = "all"
"""What the records of all groups together are called."""
ERROR_CELLS, COARSE_TARGET_CELLS = 40, 24
SMALLEST_ERROR = 1e-3
"""Of the target's range: the end of the first cell of errors."""


@dataclass(frozen=True)
class EvaluationTables:
    """Noisy counts of one group of records: by model, by cell, by class; and their variance."""

    group: str
    values: tuple[FloatArray, ...]
    variance: float


def asks(schema: Schema) -> QueryKinds:
    if schema.classes is not None:
        return sums(ClassCounts, ScoreCells)
    return sums(Count, ResidualCells, TargetCells)


def regions_by(grid: Grid | None) -> dict[str, Region]:
    """A region for each cell of a column, disjoint: cell after cell is parted from the rest.

    A record is in one of them, so that all together cost what one costs.
    """
    if grid is None:
        return {ALL_GROUPS: EVERYONE}
    found: dict[str, Region] = {}
    way: Region = EVERYONE
    for cell in range(grid.n_cells - 1):
        test = grid.split_values([cell])
        found[grid.describe(1 << cell)] = (*way, Step(test, 0))
        way = (*way, Step(test, 1))
    return {**found, grid.describe(1 << grid.missing): way}


def flow(
    models: Sequence[Model], schema: Schema, by: Grid | None, within: Region = EVERYONE
) -> Flow[list[EvaluationTables]]:
    """All groups of the records in a region, in one round."""
    regions = {name: within + region for name, region in regions_by(by).items()}
    asked = [q for region in regions.values() for q in _queries(models, schema, region)]
    replies = yield asked
    answers = [reply for reply in replies if isinstance(reply, Answer)]
    each = len(asked) // len(regions)
    return [_tables(name, answers[k * each : (k + 1) * each]) for k, name in enumerate(regions)]


def _queries(models: Sequence[Model], schema: Schema, region: Region) -> list[SumQuery]:
    if schema.classes is not None:
        by = ScoreCells(
            tuple(model.score for model in models),
            tuple(model.output for model in models),
            tuple(model.sharpness for model in models),
            len(schema.classes),
            PROBABILITY_EDGES,
        )
        return [SumQuery(region, ClassCounts(len(schema.classes)), by, Fraction(1))]
    share = Fraction(1, len(models) + 1)
    edges = error_edges(schema)
    groups: list[Groups] = [ResidualCells(predictor(model), edges) for model in models]
    groups.append(TargetCells(coarse_target_edges(schema)))
    return [SumQuery(region, Count(), one, share) for one in groups]


def _tables(name: str, answers: Sequence[Answer]) -> EvaluationTables:
    values = [group for answer in answers for group in answer.values]
    return EvaluationTables(name, tuple(values), answers[0].variance)


def with_all(tables: Sequence[EvaluationTables]) -> list[EvaluationTables]:
    """Before the groups, all of them together: their counts add up, and so does their noise."""
    if len(tables) == 1:
        return list(tables)
    values = zip(*(table.values for table in tables), strict=True)
    summed = tuple(np.sum(groups, axis=0) for groups in values)
    return [EvaluationTables(ALL_GROUPS, summed, sum(table.variance for table in tables)), *tables]


def error_edges(schema: Schema) -> tuple[float, ...]:
    """Rising by equal factors up to the whole range."""
    width = _width(schema)
    return tuple(float(e) for e in width * np.geomspace(SMALLEST_ERROR, 0.9, ERROR_CELLS - 1))


def coarse_target_edges(schema: Schema) -> tuple[float, ...]:
    assert schema.target is not None
    ends = schema.target.low, schema.target.high
    return tuple(float(e) for e in np.linspace(*ends, COARSE_TARGET_CELLS + 1)[1:-1])


def _width(schema: Schema) -> float:
    assert schema.target is not None
    return schema.target.high - schema.target.low


def predictor(model: Model) -> Additive:
    """The sum whose raw value is the prediction: trees that vote are divided by their number."""
    score = model.score
    if model.output is not Output.MEAN:
        return score
    many = max(len(score.trees), 1)
    trees = tuple(tree.with_values(tree.values / many) for tree in score.trees)
    return Additive(tuple(b / many for b in score.base), trees=trees)
