"""One example or more of every statistic and grouping, for the gate of sensitivities.

A new one is added to a list here. Records are adversarial: bin edges, missing cells, extreme
scores, the golden point of the log-loss.
"""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from functools import cache
from itertools import product
from typing import Any

import numpy as np
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from hedgerow.data.reading.encoding import Encoded
from hedgerow.data.rows import Rows
from hedgerow.data.scoring import scores_by
from hedgerow.data.sums import Answering
from hedgerow.models.layers import ROOT_LAYER, Layer, NodeTests
from hedgerow.models.losses import (
    FirstOrder,
    LogLoss,
    OddsLoss,
    PlainLogLoss,
    SoftmaxLoss,
    SquaredLoss,
)
from hedgerow.models.model import Additive, Curve, Output
from hedgerow.models.surfaces import Basis
from hedgerow.models.tree import Tree
from hedgerow.privacy.queries import (
    Binning,
    Cells,
    ClassCounts,
    Count,
    CurveNewton,
    EventCounts,
    Fractions,
    Gradients,
    Hessians,
    LabelReports,
    Leaves,
    PredictionCells,
    ResidualCells,
    ScoreCells,
    Sides,
    SurfaceGradients,
    TargetCells,
    TargetClassCounts,
    Whole,
)
from hedgerow.schema.regions import Split, Step
from hedgerow.schema.schema import Categorical, Numeric, Schema, Survival, Target

CLASSES = ("a", "b", "c")
FEATURES = (
    Numeric("x", 0.0, 1.0, bins=4),
    Numeric("z", -2.0, 2.0, bins=3),
    Categorical("kind", ("p", "q")),
)
BY_CLASS = Schema(FEATURES, classes=CLASSES)
BY_TWO = Schema(FEATURES, classes=("a", "b"))
BY_VALUE = Schema(FEATURES, target=Target(-1.0, 3.0))
BY_TIME = Schema(FEATURES, survival=Survival("y", "event", 8.0, "days"))
CELLS = [g.n_cells for g in BY_CLASS.grids]
SPLIT = BY_CLASS.grids[0].split_values(range(2))
STUMP = Tree.build(BY_CLASS.names, {(Step(SPLIT, 0),): (-3.0,), (Step(SPLIT, 1),): (0.4812,)})
SHARE = Fraction(1, 10)
OTHER = BY_CLASS.grids[2].split_values([1])


def cuts_of(*nodes: list[Split | None]) -> NodeTests:
    """The tests of each node."""
    feature = [[-1 if s is None else BY_CLASS.index(s.feature) for s in node] for node in nodes]
    left = [[[0 if s is None else s.left, 0, 0, 0] for s in node] for node in nodes]
    return NodeTests(np.array(feature, np.int16), np.array(left, np.uint64))


TESTS = cuts_of([SPLIT, OTHER])
BELOW = Layer(ROOT_LAYER, TESTS.select(np.array([0]), np.array([True])), np.array([True, True]))
SHARED = Binning(((0, 0, 1, 1, 2), (0, 1, 1, 2), (0, 1, 1, 0)))


def rows(codes: np.ndarray, y: np.ndarray, schema: Schema) -> Rows:
    encoded = Encoded(codes=codes, y=y, persons=None, clamped={}, unknown={}, skipped=0)
    return Rows(encoded, schema)


def rows_of(records: list[tuple[tuple[int, ...], int, float]], schema: Schema) -> Rows:
    codes = np.array([r[0] for r in records], np.uint8).reshape(len(records), 3).T.copy()
    if schema.classes:
        last = len(schema.classes) - 1
        return rows(codes, np.array([min(r[1], last) for r in records], np.uint8), schema)
    return rows(codes, np.array([r[2] for r in records], np.float64), schema)


PLACES = list(product(product(*map(range, CELLS)), range(3)))
"""All cells with all classes: one draw each, not one for every column."""


def records(least: int = 1) -> st.SearchStrategy[list[tuple[tuple[int, ...], int, float]]]:
    place = st.sampled_from(PLACES)
    value = st.one_of(
        st.sampled_from([-1.0, 3.0, 1.0, 0.0, -5.0, 7.0]),
        st.floats(-10, 10),
    )
    record = st.builds(lambda place, value: (*place, value), place, value)
    return st.lists(record, min_size=least, max_size=9)


@cache
def pairs_of_sites(schema: Schema, many: int) -> list[tuple[Any, tuple[Answering, Answering]]]:
    """Drawn records, with a site that holds them and one that lacks the last: for all queries."""
    drawn: list[Any] = []
    keep = given(data=records())(lambda data: drawn.append(data))
    settings(max_examples=many, deadline=None, phases=[Phase.generate])(keep)()

    def site(data: Any) -> Answering:
        return Answering(rows_of(data, schema), schema)

    return [(data, (site(data), site(data[:-1]))) for data in drawn]


def curves(outputs: int) -> tuple[Curve, ...]:
    values = [-6.0, 0.481211825, 2.5, -0.2, 9.0]
    return tuple(
        Curve(j, tuple((values[(k + j) % 5],) * outputs for k in range(CELLS[j]))) for j in range(3)
    )


def flawed(outputs: int) -> tuple[Curve, ...]:
    """Curves of a model that somebody broke: some values are no numbers."""
    values = [np.nan, 0.3, -7.0, np.nan]
    return tuple(
        Curve(j, tuple((values[(k + j) % 4],) * outputs for k in range(CELLS[j]))) for j in range(2)
    )


BROKEN = [Additive((0.0,), flawed(1)), Additive((np.nan,), (), (STUMP,))]
"""Trees refuse such values themselves."""

LOG_LOSS_CREST = -0.6197
"""The raw score where |g| + 3.33 h is largest for the second class: p = (c - 1) / (2 c)."""

SQUARED = SquaredLoss(low=-1.0, high=3.0, clip=1.5, weight=0.25)
RAW = Additive((0.2,), curves(1), (STUMP,))
CLASS_STATISTICS = [
    Count(),
    ClassCounts(3),
    Gradients(SoftmaxLoss(3), Additive((0.0, 1.0, -1.0), curves(3))),
    Hessians(SoftmaxLoss(3), Additive((0.0, 1.0, -1.0), curves(3))),
    Gradients(FirstOrder(SoftmaxLoss(3)), Additive((0.0, 1.0, -1.0), curves(3))),
    Gradients(SoftmaxLoss(3), Additive((0.0, 1.0, -1.0), flawed(3))),
]
TWO_CLASS_STATISTICS = [
    *(s(LogLoss(), Additive((b,), curves(1))) for s in (Gradients, Hessians) for b in (0.2, 1.8)),
    Gradients(LogLoss(), Additive((LOG_LOSS_CREST,))),
    Gradients(PlainLogLoss(), Additive((-1.0,), curves(1))),
    Gradients(FirstOrder(LogLoss()), RAW),
    *(Gradients(LogLoss(), model) for model in BROKEN),
]
VALUE_STATISTICS = [
    TargetClassCounts((0.0, 1.0)),
    Fractions(-1.0, 3.0),
    Gradients(SQUARED, RAW),
    *(Gradients(SQUARED, model) for model in BROKEN),
]
STEP_ON_CURVES = CurveNewton(curves(1), 0.5, 2.0, (0.4, 0.1, -0.2, 0.0), 0.3)
"""Asked of all records at once only."""
BASIS = Basis(
    tuple(Curve(c.feature, tuple((10.0 * v, 2.0 * v * v) for (v,) in c.values)) for c in curves(1)),
    ((0, -1), (1, -1), (2, -1), (0, 2), (1, 2)),
    (1.0, 2.0, 0.5, 0.01, 0.02),
    60,
)
STEP_ON_SURFACES = SurfaceGradients(BASIS, RAW, tuple(0.001 * k - 0.006 for k in range(15)), 120)
"""Asked of all records at once only, too; most records are scaled to the radius."""
STEP_OF_MANY = SurfaceGradients(
    BASIS,
    Additive((0.0, 0.5, -0.5)),
    tuple(0.001 * (k % 15) - 0.002 * (k // 15) for k in range(45)),
    120,
    SoftmaxLoss(3),
    0.5,
)
"""The same of three classes, whose gradients are clipped."""
STEP_OF_VALUES = replace(STEP_ON_SURFACES, loss=SQUARED)
"""The same of a number, by clipped residuals."""
ODDS = OddsLoss((1.0, 2.5, 6.0), (0.2, 1.0, 1.0))
TIME_STATISTICS = [
    EventCounts((1.0, 2.5)),
    *(s(ODDS, Additive((b,), curves(1))) for s in (Gradients, Hessians) for b in (0.2, 1.8)),
    Gradients(ODDS, Additive((0.0,))),
    Gradients(OddsLoss((1.0,), (2.0**60,)), RAW),
    *(Gradients(ODDS, model) for model in BROKEN),
]
STEP_ON_TIMES = CurveNewton(curves(1), 0.5, 2.0, (0.4, 0.1, -0.2, 0.0), 0.3, ODDS)
REPORTS = LabelReports(4)
"""What a site told of labels; the rows alone do not decide it."""
GROUPS = [
    Whole(),
    Cells((0, 1, 2), Binning.of_cells(BY_CLASS)),
    Cells((0, 2), SHARED),
    Leaves((STUMP, STUMP)),
    Sides(ROOT_LAYER, TESTS),
    Sides(BELOW, cuts_of([SPLIT, OTHER], [OTHER, None])),
    PredictionCells(RAW, (-1.0, 0.0, 0.5)),
]
TWO_CLASS_GROUPS = [
    *GROUPS,
    ScoreCells((RAW, *BROKEN), (Output.SIGMOID,) * 3, (1.0,) * 3, 2, (0.2, 0.9)),
]
CLASS_GROUPS = [
    *GROUPS,
    ScoreCells((Additive((0.0, 1.0, -1.0), curves(3)),), (Output.SOFTMAX,), (1.0,), 3, (0.5,)),
]
TIME_GROUPS = GROUPS
VALUE_GROUPS = [*GROUPS, TargetCells((0.0, 0.5, 2.0)), ResidualCells(RAW, (0.1, 1.0))]


def scores(query: Any, rows: Rows, schema: Any) -> Any:
    """The scores of candidates over rows in memory, as a site makes them before it chooses."""
    return scores_by(query, Answering(rows, schema).tables, schema)
