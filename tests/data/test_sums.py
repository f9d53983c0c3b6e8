"""The integers of a bundle are those of its queries, one by one."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hedgerow.data import sums
from hedgerow.data.sums import Answering
from hedgerow.models.losses import SoftmaxLoss
from hedgerow.models.model import Additive
from hedgerow.models.tree import Tree
from hedgerow.privacy.queries import (
    LATTICE,
    Binning,
    BoundQuery,
    Cells,
    ClassCounts,
    Gradients,
    SumQuery,
    Whole,
)
from hedgerow.schema.regions import EVERYONE, Step
from support.examples import BY_CLASS, OTHER, SHARE, SHARED, SPLIT, records, rows_of

pytestmark = pytest.mark.property

REGIONS = [
    EVERYONE,
    *[(Step(SPLIT, side),) for side in (0, 1)],
    *[(Step(SPLIT, a), Step(OTHER, b)) for a in (0, 1) for b in (0, 1)],
]
KINDS = [
    (ClassCounts(3), Cells((0, 2), SHARED)),
    (ClassCounts(3), Cells((1,), SHARED)),
    (ClassCounts(3), Whole()),
    (Gradients(SoftmaxLoss(3), Additive((0.0, 1.0, -1.0))), Cells((0, 2), SHARED)),
]
QUERIES = st.one_of(
    st.builds(
        lambda region, kind: SumQuery(region, *kind, SHARE), *map(st.sampled_from, (REGIONS, KINDS))
    ),
    st.builds(lambda region: BoundQuery(region, (0, 1), SHARED, SHARE), st.sampled_from(REGIONS)),
)


@settings(max_examples=150, deadline=None)
@given(data=records(least=0), bundle=st.lists(QUERIES, max_size=12))
def test_a_bundle_is_answered_as_its_queries_are(data: Any, bundle: list[Any]) -> None:
    site = Answering(rows_of(data, BY_CLASS), BY_CLASS)
    together = site.integers_of_all(bundle, lambda query: LATTICE)
    assert len(together) == len(bundle)
    for query, mine in zip(bundle, together, strict=True):
        alone = Answering(rows_of(data, BY_CLASS), BY_CLASS).integers(query, LATTICE)
        np.testing.assert_array_equal(mine, alone)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("region", REGIONS)
def test_cells_are_merged_into_bins_as_rows_are(
    kind: Any, region: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = [((x, z, k), 0, 0.0) for x in range(5) for z in range(4) for k in range(2)]
    query, rows = SumQuery(region, *kind, SHARE), rows_of(data, BY_CLASS)
    of_bins = Answering(rows, BY_CLASS).integers(query, LATTICE)
    for most in ("MOST_RECODED_BYTES", "MOST_RECODED_FOR_ALL"):
        monkeypatch.setattr(sums, most, 0)
    np.testing.assert_array_equal(Answering(rows, BY_CLASS).integers(query, LATTICE), of_bins)


def test_histograms_of_one_kind_are_each_in_their_own_unit() -> None:
    """A small share has wide noise and a coarse unit: in the unit of a larger share beside it, a
    record would move its sum by more than the noise was made for.
    """
    data = [((x, z, k), 0, 0.0) for x in range(5) for z in range(4) for k in range(2)]
    level = [SumQuery(region, *KINDS[3], SHARE) for region in REGIONS]
    units = dict(zip(map(id, level), (LATTICE, 3, LATTICE, LATTICE, 10_007, 3, 3), strict=True))
    site = Answering(rows_of(data, BY_CLASS), BY_CLASS)
    together = site.integers_of_all(level, lambda query: units[id(query)])
    for query, mine in zip(level, together, strict=True):
        alone = Answering(rows_of(data, BY_CLASS), BY_CLASS).integers(query, units[id(query)])
        np.testing.assert_array_equal(mine, alone)


def test_the_histograms_of_a_level_take_one_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    passes: list[int] = []
    count = sums.count_cells
    monkeypatch.setattr(
        sums,
        "count_cells",
        lambda codes, nodes, *rest: passes.append(len(nodes)) or count(codes, nodes, *rest),
    )
    data = [((x, z, k), 0, 0.0) for x in range(5) for z in range(4) for k in range(2)]
    level = [SumQuery(region, *KINDS[0], SHARE) for region in REGIONS[3:]]
    Answering(rows_of(data, BY_CLASS), BY_CLASS).integers_of_all(level, lambda query: LATTICE)
    assert passes == [4]


def test_no_pass_visits_more_rows_than_there_are(monkeypatch: pytest.MonkeyPatch) -> None:
    """Trees of a forest ask for the same rows; gathered all at once they would fill the memory."""
    visited: list[int] = []
    count = sums.count_cells
    monkeypatch.setattr(
        sums,
        "count_cells",
        lambda codes, nodes, *rest: (
            visited.append(sum(map(len, nodes))) or count(codes, nodes, *rest)
        ),
    )
    data = [((x, 0, 0), 0, 0.0) for x in range(5)] * 4
    forest = [SumQuery(region, *KINDS[0], SHARE) for region in REGIONS[:3] * 5]
    Answering(rows_of(data, BY_CLASS), BY_CLASS).integers_of_all(forest, lambda query: LATTICE)
    assert visited == [20] * 10


def stump(left: float) -> Tree:
    values = {(Step(SPLIT, 0),): (left, 0.0, 0.0), (Step(SPLIT, 1),): (0.0, left, 0.0)}
    return Tree.build(BY_CLASS.names, values)


def gradients(*trees: Tree) -> SumQuery:
    at = Additive((0.0, 1.0, -1.0), (), trees)
    return SumQuery(EVERYONE, Gradients(SoftmaxLoss(3), at), Whole(), SHARE)


AGAIN = gradients(stump(0.5))
ONE_AFTER_ANOTHER = {
    "another binning": [
        (SumQuery(EVERYONE, ClassCounts(3), Cells((0, 1, 2), binning), SHARE), 1)
        for binning in (SHARED, Binning.of_cells(BY_CLASS), SHARED)
    ],
    "another unit": [(AGAIN, 64), (AGAIN, LATTICE), (AGAIN, 64)],
    "other trees": [(gradients(*trees), LATTICE) for trees in (
        (stump(0.5),), (stump(2.0), stump(1.0)), (stump(2.0),), (stump(2.0), stump(1.0)), (),
    )],
}  # fmt: skip


@pytest.mark.parametrize("asked", ONE_AFTER_ANOTHER.values(), ids=ONE_AFTER_ANOTHER)
def test_what_a_site_kept_of_one_question_answers_no_other(asked: list[Any]) -> None:
    """Caches are values made again: whatever was asked before, an answer is the rows' own."""
    data = [((x, z, k), (x + z) % 3, 0.0) for x in range(5) for z in range(4) for k in range(4)]
    site = Answering(rows_of(data, BY_CLASS), BY_CLASS)
    for query, unit in asked:
        alone = Answering(rows_of(data, BY_CLASS), BY_CLASS).integers(query, unit)
        np.testing.assert_array_equal(site.integers(query, unit), alone)
