"""The weight of a bundle is no less than its bytes, whatever it holds."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hedgerow.federation.wire import Sender
from hedgerow.models.layers import ROOT_LAYER, Layer, NodeTests
from hedgerow.privacy.bundles import weight_of
from hedgerow.privacy.queries import (
    BoundQuery,
    Cells,
    LocalSelection,
    MultiwaySplit,
    Query,
    Score,
    Scoring,
    SelectQuery,
    Sides,
    SumQuery,
    Thresholds,
    Whole,
)
from hedgerow.schema.candidates import Binning
from hedgerow.schema.regions import EVERYONE, Fold, HeldOut, Region, Split, Step
from support.examples import (
    CLASS_STATISTICS,
    REPORTS,
    SHARED,
    STEP_ON_CURVES,
    STEP_ON_SURFACES,
    STEP_ON_TIMES,
    TIME_STATISTICS,
    TWO_CLASS_STATISTICS,
    VALUE_GROUPS,
    VALUE_STATISTICS,
)

pytestmark = pytest.mark.property

LONG_SHARE = Fraction(10**63 - 1, 10**63 + 1)
FULL = (1 << 256) - 1
TESTS = [
    Split("\N{SNOWMAN}\N{MUSICAL SYMBOL G CLEF}" * 128, "f" * 64, FULL),
    Split('a"\\\n', "0" * 64, 1),
    Fold("\N{SNOWMAN}" * 256, 1 << 16),
    HeldOut(1 << 16),
]
STEPS = [Step(test, outcome) for test in TESTS for outcome in (0, 1)]
EVERY = [
    *CLASS_STATISTICS,
    *TWO_CLASS_STATISTICS,
    *VALUE_STATISTICS,
    *TIME_STATISTICS,
    *(REPORTS, STEP_ON_CURVES, STEP_ON_SURFACES, STEP_ON_TIMES),
]
STATISTICS = [statistic for statistic in EVERY if "nan" not in repr(statistic)]
"""Those that can travel."""
CUTS = [
    Thresholds("\N{SNOWMAN}" * 256, "f" * 64, tuple(range(1, 257)), None),
    Thresholds("a", "0", (1,), 255),
]
SPLITS = [test for test in TESTS if isinstance(test, Split)]
CHAIN = MultiwaySplit(tuple(SPLITS))


def bytes_of(bundle: list[Query]) -> int:
    return Sender().encode(bundle).size


REGIONS: st.SearchStrategy[Region] = st.lists(st.sampled_from(STEPS), max_size=12).map(tuple)
QUERIES = st.one_of(
    st.builds(
        SumQuery,
        REGIONS,
        st.sampled_from(STATISTICS),
        st.sampled_from(VALUE_GROUPS),
        st.just(LONG_SHARE),
    ),
    st.builds(
        lambda region, kind, splits: kind(region, splits, Scoring(Score.ENTROPY), LONG_SHARE),
        REGIONS,
        st.sampled_from([SelectQuery, LocalSelection]),
        st.lists(st.sampled_from([*CUTS, *SPLITS, CHAIN]), min_size=1, max_size=4).map(tuple),
    ),
    st.builds(lambda region: BoundQuery(region, (0, 1), SHARED, LONG_SHARE), REGIONS),
)


@settings(max_examples=200, deadline=None)
@given(bundle=st.lists(QUERIES, min_size=1, max_size=8))
def test_no_bundle_is_longer_than_its_weight(bundle: list[Query]) -> None:
    assert bytes_of(bundle) <= weight_of(bundle)


@pytest.mark.parametrize(("statistic", "by"), list(product(STATISTICS, VALUE_GROUPS)))
def test_no_query_is_longer_than_its_weight(statistic, by):
    query = SumQuery(EVERYONE, statistic, by, LONG_SHARE)
    assert bytes_of([query]) <= weight_of([query])


def test_packed_tests_of_random_cells_are_no_longer_than_their_weight():
    """What cannot be packed: every test of every layer is another one."""
    rng, layer, many = np.random.default_rng(0), ROOT_LAYER, list[Query]()
    for _ in range(9):
        shape = (layer.n_nodes, 1)
        left = rng.integers(1, 2**64, (*shape, 4), dtype=np.uint64)
        tests = NodeTests(rng.integers(0, 3, shape, dtype=np.int16), left)
        by = Sides(layer, tests)
        many.append(SumQuery(EVERYONE, CLASS_STATISTICS[0], by, LONG_SHARE))
        taken = tests.select(np.zeros(layer.n_nodes, np.intp), np.ones(layer.n_nodes, bool))
        layer = Layer(layer, taken, np.ones(2 * layer.n_nodes, bool))
    assert bytes_of(many[-1:]) <= weight_of(many[-1:])
    assert bytes_of(many) <= weight_of(many) <= 4 * bytes_of(many)


def test_what_queries_share_is_weighed_once():
    bins = Binning(tuple(tuple(range(200)) for _ in range(50)))
    one = SumQuery(EVERYONE, CLASS_STATISTICS[0], Cells((0,), bins), LONG_SHARE)
    other = replace(one, by=Cells((1,), bins))
    assert weight_of([one, other]) < 1.2 * weight_of([one])
    deep = tuple(Step(Split("age", "0", k + 1), 0) for k in range(40))
    ends = [replace(one, region=(*deep, Step(SPLITS[0], side)), by=Whole()) for side in (0, 1)]
    assert weight_of(ends) < 1.2 * weight_of(ends[:1])
