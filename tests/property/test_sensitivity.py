"""Gate 1: the declared sensitivity of every sum holds for every added or removed record.

Exact, in integers. Records are adversarial: bin edges, missing cells, extreme scores, the golden
point of the log-loss. A twin halves the declared bound and must be seen to fail.
"""

from __future__ import annotations

import itertools
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hedgerow.kernels.units import quantised
from hedgerow.privacy.accounting.sensitivity import Sensitivity
from hedgerow.queries import (
    LATTICE,
    Binning,
    BoundQuery,
    Cells,
    Chain,
    ClassCounts,
    Count,
    CurveNewton,
    Fractions,
    Gradients,
    Hessians,
    Leaves,
    LocalChoice,
    ResidualCells,
    Score,
    Scoring,
    SelectQuery,
    Sides,
    SumQuery,
    TargetCells,
    TargetClassCounts,
    Whole,
)
from hedgerow.site import answer
from hedgerow.site.answer import Answering, half_gini_units
from hedgerow.site.reading.encoding import Encoded
from hedgerow.site.rows import Rows
from hedgerow.site.scoring import scores
from hedgerow.values.candidates import Grids
from hedgerow.values.layers import ROOT_LAYER, Layer, NodeTests
from hedgerow.values.losses import FirstOrder, LogLoss, Norms, SoftmaxLoss, SquaredLoss
from hedgerow.values.models import Additive, Curve
from hedgerow.values.regions import EVERYONE, Split, Step
from hedgerow.values.schema import Categorical, Numeric, Schema, Target
from hedgerow.values.trees import Tree

CLASSES = ("a", "b", "c")
FEATURES = (
    Numeric("x", 0.0, 1.0, bins=4),
    Numeric("z", -2.0, 2.0, bins=3),
    Categorical("kind", ("p", "q")),
)
BY_CLASS = Schema(FEATURES, classes=CLASSES)
BY_TWO = Schema(FEATURES, classes=("a", "b"))
BY_VALUE = Schema(FEATURES, target=Target(-1.0, 3.0))
CELLS = [g.n_cells for g in BY_CLASS.grids]
SPLIT = BY_CLASS.grids[0].split_below(2)
STUMP = Tree.build(BY_CLASS.names, {(Step(SPLIT, 0),): (-3.0,), (Step(SPLIT, 1),): (0.4812,)})
SHARE = Fraction(1, 10)
OTHER = BY_CLASS.grids[2].split_values([1])


def cuts_of(*nodes: list[Split | None]) -> NodeTests:
    """The tests of each node."""
    feature = [[-1 if s is None else BY_CLASS.index(s.feature) for s in node] for node in nodes]
    left = [[[0 if s is None else s.left, 0, 0, 0] for s in node] for node in nodes]
    return NodeTests(np.array(feature, np.int16), np.array(left, np.uint64))


TESTS = cuts_of([SPLIT, OTHER])
BELOW = Layer(ROOT_LAYER, TESTS.picked(np.array([0]), np.array([True])), np.array([True, True]))
SHARED = Binning(((0, 0, 1, 1, 2), (0, 1, 1, 2), (0, 1, 1, 0)))


def rows(codes: np.ndarray, y: np.ndarray, schema: Schema) -> Rows:
    encoded = Encoded(codes=codes, y=y, record_ids=None, clamped={}, unknown={}, skipped=0)
    return Rows(encoded, schema)


def rows_of(records: list[tuple[tuple[int, ...], int, float]], schema: Schema) -> Rows:
    codes = np.array([r[0] for r in records], np.uint8).reshape(len(records), 3).T.copy()
    if schema.classes:
        last = len(schema.classes) - 1
        return rows(codes, np.array([min(r[1], last) for r in records], np.uint8), schema)
    return rows(codes, np.array([r[2] for r in records], np.float64), schema)


def records(least: int = 1) -> st.SearchStrategy[list[tuple[tuple[int, ...], int, float]]]:
    cell = st.tuples(*(st.integers(0, n - 1) for n in CELLS))
    value = st.one_of(
        st.sampled_from([-1.0, 3.0, 1.0, 0.0, -5.0, 7.0]),
        st.floats(-10, 10),
    )
    return st.lists(st.tuples(cell, st.integers(0, 2), value), min_size=least, max_size=9)


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
    Gradients(FirstOrder(LogLoss()), RAW),
    *(Gradients(LogLoss(), model) for model in BROKEN),
]
VALUE_STATISTICS = [
    TargetClassCounts((0.0, 1.0)),
    Fractions(-1.0, 3.0),
    Gradients(SQUARED, RAW),
    *(Gradients(SQUARED, model) for model in BROKEN),
]
GROUPS = [
    Whole(),
    Cells((0, 1, 2), Binning.of_cells(BY_CLASS)),
    Cells((0, 2), SHARED),
    Leaves((STUMP, STUMP)),
    Sides(ROOT_LAYER, TESTS),
    Sides(BELOW, cuts_of([SPLIT, OTHER], [OTHER, None])),
]
VALUE_GROUPS = [*GROUPS, TargetCells((0.0, 0.5, 2.0)), ResidualCells(RAW, (0.1, 1.0))]
SUMS = [
    (BY_CLASS, SumQuery(EVERYONE, s, g, SHARE))
    for s, g in itertools.product(CLASS_STATISTICS, GROUPS)
]
SUMS += [
    (BY_TWO, SumQuery(EVERYONE, s, g, SHARE))
    for s, g in itertools.product(TWO_CLASS_STATISTICS, GROUPS)
]
SUMS += [
    (BY_VALUE, SumQuery(EVERYONE, s, g, SHARE))
    for s, g in itertools.product(VALUE_STATISTICS, VALUE_GROUPS)
]
INSIDE = (Step(SPLIT, 1),)
SUMS += [(BY_CLASS, SumQuery(INSIDE, ClassCounts(3), GROUPS[1], SHARE))]
SUMS += [(BY_CLASS, BoundQuery(r, (0, 1, 2), SHARED, SHARE)) for r in (EVERYONE, INSIDE)]


def change(schema: Schema, query, records) -> np.ndarray:
    """Integers with the last record less integers without it."""
    after = Answering(rows_of(records, schema), schema).integers(query, LATTICE)
    before = Answering(rows_of(records[:-1], schema), schema).integers(query, LATTICE)
    return after.astype(object) - before.astype(object)


def holds(moved: np.ndarray, bound: Sensitivity) -> bool:
    l1 = sum(abs(v) for v in moved)
    l2 = sum(v * v for v in moved)
    return (
        l1 <= bound.l1 and l2 <= bound.l2_squared and max(map(abs, moved), default=0) <= bound.linf
    )


def named(query) -> str:
    if isinstance(query, BoundQuery):
        return "BoundQuery"
    return f"{type(query.statistic).__name__}-{type(query.by).__name__}"


@pytest.mark.parametrize(("schema", "query"), SUMS, ids=[named(query) for _, query in SUMS])
@settings(max_examples=40, deadline=None)
@given(data=records())
def test_one_record_never_moves_a_sum_by_more_than_declared(schema, query, data):
    assert holds(change(schema, query, data), query.sensitivity(LATTICE))


def test_a_bound_declared_for_one_feature_alone_would_be_seen():
    """Twin: features treated as parallel."""
    query = SumQuery(EVERYONE, ClassCounts(3), GROUPS[1], SHARE)
    moved = change(BY_CLASS, query, [((0, 0, 0), 1, 0.0)])
    assert not holds(moved, query.statistic.bound(LATTICE))


CREST = SumQuery(EVERYONE, Gradients(LogLoss(), Additive((LOG_LOSS_CREST,))), Whole(), SHARE)


def test_the_l1_norm_of_the_log_loss_is_reached_and_a_norm_of_one_is_seen(monkeypatch):
    """Twin: 1 instead of (1 + c)^2 / (4 c) = 1.41, which only Laplace noise would feel."""
    moved = change(BY_TWO, CREST, [((0, 0, 0), 1, 0.0)])
    assert holds(moved, CREST.sensitivity(LATTICE))
    assert sum(map(abs, moved)) > 0.999 * CREST.sensitivity(LATTICE).l1
    monkeypatch.setattr(LogLoss, "norms", property(lambda self: Norms(1.0, 1.0, 1.0)))
    assert not holds(moved, CREST.sensitivity(LATTICE))


@pytest.mark.parametrize("model", BROKEN, ids=["curve", "start"])
def test_a_contribution_that_is_no_number_kept_in_a_sum_is_seen(model, monkeypatch):
    """Twin: NaN becomes -2^63 when it is cast."""
    query = SumQuery(EVERYONE, Gradients(LogLoss(), model), Whole(), SHARE)
    record = [((0, 0, 0), 1, 0.0)]
    assert not any(change(BY_TWO, query, record))

    def kept(values, unit, bound):
        with np.errstate(invalid="ignore"):
            return np.trunc(values * unit).astype(np.int64)

    monkeypatch.setattr(answer, "bounded_units", kept)
    assert not holds(change(BY_TWO, query, record), query.sensitivity(LATTICE))


@settings(max_examples=200, deadline=None)
@given(p=st.floats(0.0, 1.0), y=st.integers(0, 1))
def test_the_log_loss_keeps_norm_one_at_its_hessian_scale(p, y):
    raw = np.array([[np.log(max(p, 1e-13) / max(1 - p, 1e-13))]])
    units = quantised(LogLoss().contributions(raw, np.array([float(y)])), LATTICE)[0].astype(object)
    assert sum(u * u for u in units) <= LATTICE**2


def test_the_binary_hessian_scale_breaks_the_softmax_norm():
    """Twin: 3.33 reused for three classes has squared norm 2.886 > 2."""
    p = np.array([0.0, 0.5, 0.5])
    g, h = p - np.array([1.0, 0, 0]), p * (1 - p)
    assert (g**2).sum() + (3.33 * h) @ (3.33 * h) > 2.8
    assert (g**2).sum() + (2.0 * h) @ (2.0 * h) <= 2.0


@settings(max_examples=200, deadline=None)
@given(z=st.lists(st.floats(-30, 30), min_size=3, max_size=6), y=st.integers(0, 2))
def test_softmax_keeps_squared_norm_two(z, y):
    loss = SoftmaxLoss(len(z))
    units = quantised(loss.contributions(np.array([z]), np.array([float(y)])), LATTICE)[0].astype(
        object
    )
    assert sum(u * u for u in units) <= 2 * LATTICE**2
    assert sum(abs(u) for u in units) <= loss.norms.l1 * LATTICE


def test_rounding_to_nearest_would_break_the_joint_norm():
    """Twin of truncation: at some p the rounded (g, 3.33 h) leaves the unit ball."""
    unit = 256
    p = np.linspace(0.0, 1.0, 20_001)
    pairs = np.stack([p - 1.0, 3.33 * p * (1 - p)], axis=1)
    rounded = np.rint(pairs * unit)
    cut = quantised(pairs, unit)
    assert (rounded**2).sum(axis=1).max() > unit**2
    assert (cut**2).sum(axis=1).max() <= unit**2


@settings(max_examples=60, deadline=None)
@given(data=records(), scale=st.floats(0.1, 3.0))
def test_one_newton_step_on_curve_weights_keeps_its_norm(data, scale):
    schema = Schema(FEATURES, classes=("a", "b"))
    data = [(c, min(y, 1), v) for c, y, v in data]
    statistic = CurveNewton(
        tuple(c.scaled(scale) for c in curves(1)), 0.5, 2.0, (0.4, 0.1, -0.2, 0.0), 0.3
    )
    query = SumQuery(EVERYONE, statistic, Whole(), SHARE)
    codes = np.array([r[0] for r in data], np.uint8).reshape(len(data), 3).T.copy()
    labels = np.array([r[1] for r in data], np.uint8)
    after = Answering(rows(codes, labels, schema), schema).integers(query, LATTICE)
    before = Answering(rows(codes[:, :-1].copy(), labels[:-1], schema), schema).integers(
        query, LATTICE
    )
    assert holds((after - before).astype(object), query.sensitivity(LATTICE))


def test_every_small_count_table_moves_half_the_gini_by_at_most_one_unit():
    """Enumeration of all tables up to n = 12, and of the extreme that approaches the bound."""
    for a, b in itertools.product(range(13), repeat=2):
        before = half_gini_units(np.array([[a, b]]))[0]
        for more in ([a + 1, b], [a, b + 1]):
            moved = half_gini_units(np.array([more]))[0] - before
            assert 0 <= moved <= LATTICE
    extreme = (
        half_gini_units(np.array([[1, 10**6]]))[0] - half_gini_units(np.array([[0, 10**6]]))[0]
    )
    assert extreme > 0.99 * LATTICE


SPLITS = tuple(
    Grids(BY_CLASS, Binning.of_cells(BY_CLASS)).split(f, s)
    for f in range(3)
    for s in Grids(BY_CLASS, Binning.of_cells(BY_CLASS)).left_sets[f]
)

CHAINS = tuple(
    Chain(tuple(grid.split_values([cell]) for cell in range(grid.n_cells - 2)))
    for grid in BY_CLASS.grids
    if grid.n_cells > 3
)


@pytest.mark.parametrize("candidates", [SPLITS, CHAINS, SPLITS + CHAINS])
@pytest.mark.parametrize("balance", [0, LATTICE // 4])
@pytest.mark.parametrize("score", list(Score))
@settings(max_examples=60, deadline=None)
@given(data=records())
def test_the_range_of_score_changes_over_candidates_is_at_most_the_reach(
    score, balance, candidates, data
):
    schema = BY_VALUE if score is Score.SQUARED_ERROR else BY_CLASS
    query = SelectQuery(EVERYONE, candidates, Scoring(score, 16, balance), SHARE)
    after = scores(query, rows_of(data, schema), schema)
    before = scores(query, rows_of(data[:-1], schema), schema)
    moved = [a - b for a, b in zip(after, before, strict=True)]
    assert max(moved) - min(moved) <= query.scoring.reach


@pytest.mark.parametrize("score", [Score.GINI, Score.ENTROPY])
def test_half_the_reach_would_be_too_little(score):
    """Twin: a pure node and a record that every candidate isolates or not."""
    data = [((3, 0, 0), 0, 0.0)] * 15 + [((0, 0, 0), 1, 0.0)]
    query = LocalChoice(EVERYONE, SPLITS, Scoring(score, rows_at_most=16), SHARE)
    after = scores(query, rows_of(data, BY_CLASS), BY_CLASS)
    before = scores(query, rows_of(data[:-1], BY_CLASS), BY_CLASS)
    moved = [a - b for a, b in zip(after, before, strict=True)]
    assert max(moved) - min(moved) > replace(query.scoring).reach / 2
