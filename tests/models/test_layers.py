"""Layers of a tree say what regions say, and travel as they are."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hedgerow.data.reading.encoding import Encoded
from hedgerow.data.rows import Draws, Rows
from hedgerow.data.sums import Answering
from hedgerow.errors import ParameterError
from hedgerow.federation.wire import Receiver, Sender
from hedgerow.models.layers import NO_TEST, ROOT_LAYER, Layer, NodeTests
from hedgerow.privacy.queries import LATTICE, ClassCounts, Fractions, Sides, SumQuery, Whole
from hedgerow.schema.regions import EVERYONE, Fold, Step
from hedgerow.schema.schema import Categorical, Numeric, Schema, Target
from kernels.test_loops import in_both_forms

pytestmark = pytest.mark.property

FEATURES = (
    Numeric("x", 0.0, 1.0, bins=200),
    Numeric("z", -2.0, 2.0, bins=3),
    Categorical("kind", ("p", "q", "r")),
)
BY_CLASS = Schema(FEATURES, classes=("a", "b", "c"))
BY_VALUE = Schema(FEATURES, target=Target(0.0, 1.0))
SHARE = Fraction(1, 10)
SEEDS = st.integers(0, 2**32 - 1)


def some_rows(rng, n, schema):
    codes = np.stack([rng.integers(0, g.n_cells, n) for g in schema.grids]).astype(np.uint8)
    y = rng.integers(0, 3, n).astype(np.uint8) if schema.classes else rng.random(n)
    encoded = Encoded(codes=codes, y=y, persons=None, clamped={}, unknown={}, skipped=0)
    return Rows(encoded, schema, Draws(bytes(32), "test"))


def some_cuts(rng, n_nodes, m):
    feature = rng.integers(NO_TEST, len(FEATURES), (n_nodes, m)).astype(np.int16)
    left = rng.integers(0, 2**64, (n_nodes, m, 4), dtype=np.uint64)
    left[..., 0] |= np.uint64(1)  # no empty set
    return NodeTests(feature, left)


def some_layer(rng, depth):
    """A layer, and the region of each of its nodes inside the root."""
    layer, regions = ROOT_LAYER, [EVERYONE]
    for _ in range(depth):
        cuts = some_cuts(rng, layer.n_nodes, 2)
        if layer is ROOT_LAYER:
            cuts.feature[:] = rng.integers(0, len(FEATURES))
        splits = (rng.random(layer.n_nodes) < 0.9) | (layer is ROOT_LAYER)
        index = np.zeros(layer.n_nodes, np.intp)
        taken = cuts.select(index, splits & (cuts.feature[:, 0] != NO_TEST))
        nodes = np.flatnonzero(taken.feature != NO_TEST)
        is_open = rng.random(2 * len(nodes)) < 0.8
        below = [
            (*regions[q], Step(taken.split(int(q), BY_CLASS), side))
            for q in nodes
            for side in (0, 1)
        ]
        regions = [r for r, goes_on in zip(below, is_open, strict=True) if goes_on]
        layer = Layer(layer, taken, is_open)
    return layer, regions


@settings(max_examples=30, deadline=None)
@given(seed=SEEDS, depth=st.integers(0, 4), fold=st.booleans())
@pytest.mark.parametrize("schema", [BY_CLASS, BY_VALUE], ids=["classes", "numbers"])
def test_a_side_of_a_test_holds_what_the_region_behind_it_holds(schema, seed, depth, fold):
    rng = np.random.default_rng(seed)
    rows = some_rows(rng, 60, schema)
    layer, regions = some_layer(rng, depth)
    if not regions:
        return
    root = (Step(Fold("tree 1", 2), 1),) if fold else EVERYONE
    cuts = some_cuts(rng, layer.n_nodes, 3)
    statistic = ClassCounts(3) if schema.classes else Fractions(0.0, 1.0)
    query = SumQuery(root, statistic, Sides(layer, cuts), SHARE)
    answering = Answering(rows, schema)
    got = in_both_forms(lambda: Answering(rows, schema).integers(query, LATTICE)).reshape(
        query.shape
    )
    for q, region in enumerate(regions):
        for j in range(3):
            if cuts.feature[q, j] == NO_TEST:
                assert not got[j, 2 * q : 2 * q + 2].any()
                continue
            split = NodeTests(cuts.feature[q, j : j + 1], cuts.left[q, j : j + 1]).split(0, schema)
            for side in (0, 1):
                there = (*root, *region, Step(split, side))
                whole = SumQuery(there, statistic, Whole(), SHARE)
                np.testing.assert_array_equal(
                    got[j, 2 * q + side], answering.integers(whole, LATTICE)
                )


def test_a_site_that_forgot_a_layer_finds_its_rows_again():
    rng = np.random.default_rng(3)
    rows = some_rows(rng, 80, BY_CLASS)
    layer, _ = some_layer(rng, 3)
    stepped = Answering(rows, BY_CLASS)
    for above in (layer.above.above, layer.above, layer):
        there = stepped.standing(above, EVERYONE)
    np.testing.assert_array_equal(there, Answering(rows, BY_CLASS).standing(layer, EVERYONE))
    assert (there >= 0).any()


@settings(max_examples=20, deadline=None)
@given(seed=SEEDS)
def test_a_layer_travels_as_what_is_new_in_it(seed):
    rng = np.random.default_rng(seed)
    layer, _ = some_layer(rng, 3)
    sender, receiver = Sender(), Receiver()
    sizes = []
    for value in (layer.above, layer):
        if not value.n_nodes:
            return
        query = SumQuery(
            EVERYONE, ClassCounts(3), Sides(value, some_cuts(rng, value.n_nodes, 2)), SHARE
        )
        message = sender.encode([query])
        sizes.append(message.definitions.count(b'"Layer"'))
        (back,), learned = receiver.decode(message)
        receiver.keep(learned)
        assert back == query
        assert back.by.layer.digest == value.digest
    assert sizes == [3, 1]


def test_tests_that_do_not_fit_their_nodes_are_refused():
    cuts = some_cuts(np.random.default_rng(0), 2, 2)
    with pytest.raises(ParameterError, match="same number of tests"):
        Sides(ROOT_LAYER, cuts)
    with pytest.raises(ParameterError, match="words for each"):
        NodeTests(cuts.feature, cuts.left[:1])
    packed = cuts.to_dict()
    with pytest.raises(ParameterError, match="does not hold"):
        NodeTests.from_dict({**packed, "shape": [2, 1]})
    with pytest.raises(ParameterError, match="at most"):
        NodeTests.from_dict({**packed, "shape": [1 << 20, 1 << 20]})
