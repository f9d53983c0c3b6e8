"""Threads change no integer: blocks of rows against all rows at once, for every kind of sum."""

from __future__ import annotations

import itertools
import threading

import numpy as np
import pytest
from hypothesis import given, settings

import hedgerow as hr
from hedgerow.data.prepared import InBlocks
from hedgerow.data.reading.encoding import Encoded
from hedgerow.data.rows import Draws, Rows
from hedgerow.data.sums import Answering
from hedgerow.kernels import threads
from hedgerow.privacy.queries import (
    LATTICE,
    Binning,
    BoundQuery,
    Count,
    LabelReports,
    SumQuery,
    Whole,
)
from hedgerow.schema.regions import EVERYONE, Fold, Step
from support.examples import (
    BY_CLASS,
    BY_TWO,
    BY_VALUE,
    CLASS_STATISTICS,
    GROUPS,
    SHARE,
    STEP_ON_CURVES,
    STEP_ON_SURFACES,
    TWO_CLASS_STATISTICS,
    VALUE_GROUPS,
    VALUE_STATISTICS,
    records,
    rows_of,
)

pytestmark = pytest.mark.property

FOLDED = ((), (Step(Fold("tree 1", 2), 1),))


def with_draws(rows):
    y = rows.target if rows.labels is None else rows.labels
    held = Encoded(codes=rows.codes, y=y, persons=None, clamped={}, unknown={}, skipped=0)
    return Rows(held, rows.schema, Draws(bytes(32), "test"))


def compare(data, schema, queries):
    """All rows at once, and one third and the rest on two threads."""
    rows = with_draws(rows_of(data, schema))
    parts = [slice(0, len(data) // 3), slice(len(data) // 3, len(data))]
    with threads.using(2):
        whole = Answering(rows, schema).integers_of_all(queries, lambda _: LATTICE)
        blocks = InBlocks(rows, schema, parts).integers_of_all(queries, lambda _: LATTICE)
        single = [InBlocks(rows, schema, parts).integers(query, LATTICE) for query in queries]
    for one, two, three in zip(whole, blocks, single, strict=True):
        assert np.array_equal(one, two)
        assert np.array_equal(one, three)


@settings(max_examples=8, deadline=None)
@given(data=records())
def test_sums_over_classes(data):
    asked = itertools.product(FOLDED, CLASS_STATISTICS, GROUPS)
    sums = [SumQuery(region, statistic, by, SHARE) for region, statistic, by in asked]
    bound = BoundQuery(EVERYONE, (0, 1), Binning.of_cells(BY_CLASS), SHARE)
    compare(data, BY_CLASS, [*sums, bound, SumQuery(EVERYONE, Count(), Whole(), SHARE)])


@settings(max_examples=8, deadline=None)
@given(data=records())
def test_sums_over_two_classes(data):
    some = [(cells, label % 2, value) for cells, label, value in data]
    both = (STEP_ON_CURVES, STEP_ON_SURFACES)
    steps = [SumQuery(EVERYONE, step, Whole(), SHARE) for step in both]
    asked = itertools.product(TWO_CLASS_STATISTICS, GROUPS)
    compare(some, BY_TWO, steps + [SumQuery(EVERYONE, s, by, SHARE) for s, by in asked])


@settings(max_examples=8, deadline=None)
@given(data=records())
def test_sums_over_values(data):
    asked = itertools.product(VALUE_STATISTICS, VALUE_GROUPS)
    compare(data, BY_VALUE, [SumQuery(EVERYONE, s, by, SHARE) for s, by in asked])


def test_contributions_that_are_told_fall_on_the_rows_they_belong_to():
    data = [((cell % 3, 0, 0), cell % 3, 0.0) for cell in range(30)]
    told = np.arange(90, dtype=np.int64).reshape(30, 3) % 2
    query = SumQuery(EVERYONE, LabelReports(2), GROUPS[0], SHARE)
    rows, parts = rows_of(data, BY_CLASS), [slice(0, 11), slice(11, 30)]
    whole = Answering(rows, BY_CLASS).integers_of(query, told)
    with threads.using(2):
        assert np.array_equal(InBlocks(rows, BY_CLASS, parts).integers_of(query, told), whole)


# ---------------------------------------------------------------------------------- whole models
X = np.random.default_rng(0).normal(size=(600, 3))
Y = (X[:, 0] + X[:, 1] > 0).astype(int)
SCHEMA = hr.Schema(tuple(hr.Numeric(f"x{j}", -4, 4) for j in range(3)), classes=("0", "1"))
MODELS = [
    hr.BoostedTreesClassifier(SCHEMA, n_estimators=3),
    hr.ExtraTreesClassifier(SCHEMA, n_estimators=2, max_depth=3, subsample=2),
    hr.HistogramTreeClassifier(SCHEMA, max_depth=2),
    hr.MedianForestClassifier(SCHEMA),
]


@pytest.mark.parametrize("site", [None, np.arange(600) % 3], ids=["one site", "three sites"])
@pytest.mark.parametrize("model", MODELS, ids=lambda model: type(model).__name__)
def test_a_model_is_the_same_on_any_number_of_threads(model, site, monkeypatch):
    monkeypatch.setattr(threads.blocks, "__defaults__", (64,))
    said = []
    for n_jobs in (None, 2, 3):
        model.set_params(dp_model="none", random_state=1, n_jobs=n_jobs)
        said.append(model.fit(X, Y, site=site).predict_proba(X))
    assert np.array_equal(said[0], said[1])
    assert np.array_equal(said[0], said[2])


# --------------------------------------------------------------------------------------- threads
def test_parts_run_on_threads_of_their_own_and_those_have_none_below():
    meeting = threading.Barrier(2, timeout=60)

    def work(part):
        meeting.wait()
        return part, threading.get_ident(), threads.count()

    with threads.using(2):
        (a, one, below), (b, other, _) = threads.map_parts(work, "ab")
    assert (a, b, below) == ("a", "b", 1)
    assert one != other


def test_the_first_part_that_fails_is_raised():
    def work(part):
        raise ValueError(part)

    with threads.using(2), pytest.raises(ValueError, match="a"):
        threads.map_parts(work, "ab")


def test_few_rows_stay_together_and_many_are_divided_evenly():
    with threads.using(3):
        assert threads.blocks(2 * threads.LEAST_BLOCK - 1) == [
            slice(0, 2 * threads.LEAST_BLOCK - 1)
        ]
        sizes = [part.stop - part.start for part in threads.blocks(10**6)]
    assert sum(sizes) == 10**6
    assert len(sizes) == 3
    assert max(sizes) - min(sizes) <= 1
    assert threads.blocks(10**6) == [slice(0, 10**6)]


@pytest.mark.parametrize("n_jobs", [0, 1.5, True, "all"])
def test_a_number_of_threads_that_is_none_is_refused(n_jobs):
    with pytest.raises(hr.ParameterError, match="n_jobs"):
        hr.TreeClassifier(SCHEMA, n_jobs=n_jobs).fit(X, Y)
