"""Gate 1: the declared sensitivity of every sum holds for every added or removed record.

Exact, in integers, over the examples of `support.examples`; no statistic or grouping is without
one. A negative control declares less than is true and must be seen to fail.
"""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hedgerow.data import sums as answer
from hedgerow.data.sums import Answering, half_gini_units
from hedgerow.kernels.units import quantize
from hedgerow.models.losses import LogLoss, Norms, Sensitivity, SoftmaxLoss
from hedgerow.models.model import Additive
from hedgerow.privacy.queries import (
    GROUPINGS,
    LATTICE,
    STATISTICS,
    Binning,
    BoundQuery,
    ClassCounts,
    CurveNewton,
    Gradients,
    LocalSelection,
    MultiwaySplit,
    Score,
    Scoring,
    SelectQuery,
    SumQuery,
    Thresholds,
    Whole,
)
from hedgerow.privacy.queries.choices import candidate, n_candidates
from hedgerow.schema.candidates import Grids
from hedgerow.schema.regions import EVERYONE, Step
from hedgerow.schema.schema import ColumnKind, Schema
from support.effort import either
from support.examples import (
    BROKEN,
    BY_CLASS,
    BY_TIME,
    BY_TWO,
    BY_VALUE,
    CLASS_GROUPS,
    CLASS_STATISTICS,
    FEATURES,
    GROUPS,
    LOG_LOSS_CREST,
    REPORTS,
    SHARE,
    SHARED,
    SPLIT,
    STEP_OF_MANY,
    STEP_OF_VALUES,
    STEP_ON_CURVES,
    STEP_ON_SURFACES,
    STEP_ON_TIMES,
    TIME_GROUPS,
    TIME_STATISTICS,
    TWO_CLASS_GROUPS,
    TWO_CLASS_STATISTICS,
    VALUE_GROUPS,
    VALUE_STATISTICS,
    curves,
    pairs_of_sites,
    records,
    rows,
    rows_of,
    scores,
)

pytestmark = pytest.mark.property

ASKED = [
    *itertools.product([BY_CLASS], CLASS_STATISTICS, CLASS_GROUPS),
    *itertools.product([BY_TWO], TWO_CLASS_STATISTICS, TWO_CLASS_GROUPS),
    *itertools.product([BY_VALUE], VALUE_STATISTICS, VALUE_GROUPS),
    *itertools.product([BY_TIME], TIME_STATISTICS, TIME_GROUPS),
    (BY_TWO, STEP_ON_CURVES, Whole()),
    (BY_TWO, STEP_ON_SURFACES, Whole()),
    (BY_CLASS, STEP_OF_MANY, Whole()),
    (BY_VALUE, STEP_OF_VALUES, Whole()),
    (BY_TIME, STEP_ON_TIMES, Whole()),
]
SUMS = [(schema, SumQuery(EVERYONE, s, by, SHARE)) for schema, s, by in ASKED]
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


def named(value: object) -> str:
    """A test's name says which statistic and which grouping it is about."""
    asked = (value.statistic, value.by) if isinstance(value, SumQuery) else (value,)
    return "-by-".join(type(part).__name__ for part in asked)


@pytest.mark.parametrize(("schema", "query"), SUMS, ids=named)
def test_one_record_never_moves_a_sum_by_more_than_declared(schema, query):
    for data, sites in pairs_of_sites(schema, either(40, 500)):
        after, before = (site.integers(query, LATTICE) for site in sites)
        assert holds(after.astype(object) - before.astype(object), query.sensitivity(LATTICE)), data


def without_example() -> set[str]:
    """Registered statistics and groupings that no example here asks for."""
    sums = [query for _, query in SUMS if isinstance(query, SumQuery)]
    seen = {type(part).__name__ for query in sums for part in (query.statistic, query.by)}
    return {*STATISTICS, *GROUPINGS} - seen - {type(REPORTS).__name__}


def test_every_registered_statistic_and_grouping_has_an_example_here():
    assert without_example() == set()


@pytest.mark.parametrize("registry", [STATISTICS, GROUPINGS])
def test_one_that_is_registered_without_an_example_is_seen(registry, monkeypatch):
    """Twin."""
    monkeypatch.setitem(registry, "Forgotten", object)
    assert without_example() == {"Forgotten"}


@settings(max_examples=40, deadline=None)
@given(data=records(), seed=st.integers(0, 2**32 - 1), most=st.sampled_from([1, 2, 2**40]))
def test_one_report_of_a_label_never_moves_a_sum_by_more_than_declared(data, seed, most):
    """Whatever is told, bits or not."""
    query = SumQuery(EVERYONE, REPORTS, GROUPS[1], SHARE)
    told = np.random.default_rng(seed).integers(-most, most, (len(data), REPORTS.channels))
    sites = [Answering(rows_of(some, BY_CLASS), BY_CLASS) for some in (data, data[:-1])]
    after, before = (site.integers_of(query, told[: site.n]) for site in sites)
    assert holds(after.astype(object) - before.astype(object), query.sensitivity(1))


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
    units = quantize(LogLoss().contributions(raw, np.array([float(y)])), LATTICE)[0].astype(object)
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
    units = quantize(loss.contributions(np.array([z]), np.array([float(y)])), LATTICE)[0].astype(
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
    cut = quantize(pairs, unit)
    assert (rounded**2).sum(axis=1).max() > unit**2
    assert (cut**2).sum(axis=1).max() <= unit**2


def scaled(curve, by):
    return replace(curve, values=tuple(tuple(by * v for v in row) for row in curve.values))


@settings(max_examples=60, deadline=None)
@given(data=records(), scale=st.floats(0.1, 3.0))
def test_one_newton_step_on_curve_weights_keeps_its_norm(data, scale):
    schema = Schema(FEATURES, classes=("a", "b"))
    data = [(c, min(y, 1), v) for c, y, v in data]
    statistic = CurveNewton(
        tuple(scaled(c, scale) for c in curves(1)), 0.5, 2.0, (0.4, 0.1, -0.2, 0.0), 0.3
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
    MultiwaySplit(tuple(grid.split_values([cell]) for cell in range(grid.n_cells - 2)))
    for grid in BY_CLASS.grids
    if grid.n_cells > 3
)
CUTS = tuple(
    Thresholds(grid.feature, grid.digest, tuple(range(1, grid.missing)), also)
    for grid in BY_CLASS.grids
    for also in (None, grid.missing)
    if grid.kind is ColumnKind.NUMERIC and grid.missing > 1
)


@pytest.mark.parametrize("score", list(Score))
@settings(max_examples=30, deadline=None)
@given(data=records())
def test_a_run_of_cuts_has_the_scores_of_its_splits(score, data):
    schema = BY_VALUE if score is Score.SQUARED_ERROR else BY_CLASS
    asked = (*CUTS[:1], SPLITS[0], *CUTS[1:])
    splits = tuple(candidate(asked, k) for k in range(n_candidates(asked)))
    rows, scoring = rows_of(data, schema), Scoring(score, 16)
    together = scores(SelectQuery(EVERYONE, asked, scoring, SHARE), rows, schema)
    apart = scores(SelectQuery(EVERYONE, splits, scoring, SHARE), rows, schema)
    assert together.tolist() == apart.tolist()


@pytest.mark.parametrize("candidates", [SPLITS, CHAINS, CUTS, SPLITS + CHAINS + CUTS])
@pytest.mark.parametrize("balance", [0, LATTICE // 4])
@pytest.mark.parametrize("score", list(Score))
def test_the_range_of_score_changes_over_candidates_is_at_most_the_reach(
    score, balance, candidates
):
    schema = BY_VALUE if score is Score.SQUARED_ERROR else BY_CLASS
    query = SelectQuery(EVERYONE, candidates, Scoring(score, 16, balance), SHARE)
    for data, sites in pairs_of_sites(schema, either(60, 500)):
        after, before = (scores(query, site.rows, schema) for site in sites)
        moved = [a - b for a, b in zip(after, before, strict=True)]
        assert max(moved) - min(moved) <= query.scoring.reach, data


@pytest.mark.parametrize("score", [Score.GINI, Score.ENTROPY])
def test_half_the_reach_would_be_too_little(score):
    """Twin: a pure node and a record that every candidate isolates or not."""
    data = [((3, 0, 0), 0, 0.0)] * 15 + [((0, 0, 0), 1, 0.0)]
    query = LocalSelection(EVERYONE, SPLITS, Scoring(score, rows_at_most=16), SHARE)
    after = scores(query, rows_of(data, BY_CLASS), BY_CLASS)
    before = scores(query, rows_of(data[:-1], BY_CLASS), BY_CLASS)
    moved = [a - b for a, b in zip(after, before, strict=True)]
    assert max(moved) - min(moved) > replace(query.scoring).reach / 2
