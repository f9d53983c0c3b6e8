"""Queries over rows, as values with their own sensitivity.

A query sums an integer statistic over groups of the rows of a region. One record falls into exactly
one cell of every group, so its contributions add over groups and not over cells. The features of a
histogram are groups and the bins of one feature are cells; the trees of a forest are groups and the
leaves of one tree are cells.

Shapes: G groups, B cells per group, C channels of the statistic. An answer is (G, B, C).
"""

from __future__ import annotations

from dataclasses import dataclass, field

from hedgerow.privacy.queries.choices import (
    MOST_ROWS,
    LocalSelection,
    Mechanism,
    MultiwaySplit,
    Score,
    Scoring,
    SelectQuery,
    Thresholds,
)
from hedgerow.privacy.queries.groups import (
    GROUPINGS,
    Cells,
    Groups,
    Leaves,
    PredictionCells,
    ResidualCells,
    ScoreCells,
    Sides,
    TargetCells,
    Whole,
)
from hedgerow.privacy.queries.kinds import (
    BoundQuery,
    Query,
    QueryKind,
    QueryKinds,
    SumQuery,
    bounds,
    choices,
    kind_of,
    sums,
)
from hedgerow.privacy.queries.statistics import (
    LATTICE,
    STATISTICS,
    ClassCounts,
    Count,
    CurveNewton,
    EventCounts,
    Fractions,
    Gradients,
    Hessians,
    LabelReports,
    Statistic,
    SurfaceGradients,
    TargetClassCounts,
)
from hedgerow.schema.arrays import FloatArray
from hedgerow.schema.candidates import Binning

Summed = SumQuery | BoundQuery
Selecting = SelectQuery | LocalSelection


@dataclass(frozen=True)
class Answer:
    """Released numbers in natural units, with the variance of the noise inside each."""

    values: FloatArray
    variance: float


@dataclass(frozen=True)
class Selections:
    """Released indices: one for a selection at one site, one per site for a local selection."""

    indices: tuple[int, ...] = field(default=())


Reply = Answer | Selections
