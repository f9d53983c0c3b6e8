"""A tree routes every row to one leaf, says what it was built from, and survives JSON."""

from __future__ import annotations

import json
from fractions import Fraction
from typing import Any

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
from hedgerow.models.packing import PackedTrees, pack
from hedgerow.models.tree import MOST_LEAVES, Tree, children, descend, trees_from_dict
from hedgerow.privacy.queries import LATTICE, ClassCounts, Fractions, Sides, SumQuery, Whole
from hedgerow.schema.regions import EVERYONE, Fold, Region, Split, Step, cells
from hedgerow.schema.schema import Categorical, Numeric, Schema, Target
from kernels.test_loops import in_both_forms

AGE = Split("age", "grid-a", cells(range(3)))
JOB = Split("job", "grid-j", cells([1, 3, 200]))
FEATURES = ("job", "age")


def three_leaves() -> Tree:
    """Age below cell 3: 1.5. Else by job: one of {1, 3, 200}: -2.0, any other: 0.25."""
    return Tree.build(
        FEATURES,
        {
            (Step(AGE, 1), Step(JOB, 1)): (0.25,),
            (Step(AGE, 0),): (1.5,),
            (Step(AGE, 1), Step(JOB, 0)): (-2.0,),
        },
    )


def codes(job: list[int], age: list[int]) -> np.ndarray:
    return np.array([job, age], dtype=np.uint8)


def complete(depth: int, split_at: int = 0) -> Tree:
    regions: list[Region] = [EVERYONE]
    for level in range(depth):
        tests = [Split("age", "grid-a", cells(range(1 + level + split_at))) for _ in regions]
        regions = [(*r, Step(t, o)) for r, t in zip(regions, tests, strict=True) for o in (0, 1)]
    return Tree.build(FEATURES, {region: (float(i),) for i, region in enumerate(regions)})


def test_a_row_ends_in_the_leaf_whose_tests_it_passes() -> None:
    rows = codes(job=[0, 1, 3, 200, 255, 1], age=[2, 3, 3, 255, 3, 0])
    np.testing.assert_array_equal(three_leaves().apply(rows), [0, 1, 1, 1, 2, 0])
    np.testing.assert_array_equal(
        three_leaves().predict(rows)[:, 0], [1.5, -2.0, -2.0, -2.0, 0.25, 1.5]
    )


def test_leaves_are_counted_from_the_left_whatever_order_they_came_in() -> None:
    tree = three_leaves()
    assert tree.values.tolist() == [[1.5], [-2.0], [0.25]]
    assert tree.regions() == [
        (Step(AGE, 0),),
        (Step(AGE, 1), Step(JOB, 0)),
        (Step(AGE, 1), Step(JOB, 1)),
    ]
    assert (tree.depth, tree.n_leaves, tree.n_outputs) == (2, 3, 1)


def test_regions_of_leaves_lie_inside_the_root_that_is_asked_for() -> None:
    root = (Step(Fold("draw", 4), 2),)
    assert three_leaves().regions(root)[0] == (*root, Step(AGE, 0))


def test_building_from_its_own_regions_gives_the_equal_tree() -> None:
    tree = three_leaves()
    again = Tree.build(FEATURES, dict(zip(tree.regions(), tree.values, strict=True)))
    assert again == tree
    assert hash(again) == hash(tree)


def test_a_tree_of_one_leaf_says_the_same_to_everybody() -> None:
    tree = Tree.build(FEATURES, {EVERYONE: (0.5, 0.25)})
    assert tree.depth == 0
    assert tree.predict(codes([1, 2], [3, 4])).tolist() == [[0.5, 0.25]] * 2


def test_no_rows_give_no_predictions() -> None:
    assert three_leaves().predict(codes([], [])).shape == (0, 1)


def test_a_cut_is_named_only_where_the_left_cells_are_the_first_ones() -> None:
    assert three_leaves().feature.tolist() == [1, -1, 0, -1, -1]


def test_arrays_cannot_be_written() -> None:
    with pytest.raises(ValueError, match="read-only"):
        three_leaves().value[0, 0] = 1.0


def test_json_gives_the_same_tree_back_to_the_last_bit() -> None:
    tree = three_leaves().with_values([[0.1], [np.nextafter(1.0, 2.0)], [-0.0]])
    again = Tree.from_dict(json.loads(json.dumps(tree.to_dict())))
    assert again == tree
    assert again.value.tobytes() == tree.value.tobytes()
    assert again.tests == tree.tests


def test_one_changed_bit_changes_the_digest() -> None:
    tree = three_leaves()
    nudged = tree.values.copy()
    nudged[1] = np.nextafter(nudged[1], 0.0)
    assert tree.with_values(nudged) != tree
    other_grid = Split("age", "grid-b", AGE.left)
    assert Tree.build(FEATURES, {(Step(AGE, 0),): [1], (Step(AGE, 1),): [2]}) != Tree.build(
        FEATURES, {(Step(other_grid, 0),): [1], (Step(other_grid, 1),): [2]}
    )


def test_structure_may_come_before_values() -> None:
    shape = Tree.build(FEATURES, dict.fromkeys(three_leaves().regions(), ()))
    assert shape.n_outputs == 0
    assert shape.with_values([[1.5], [-2.0], [0.25]]) == three_leaves()


@pytest.mark.parametrize(
    ("leaves", "complaint"),
    [
        ({}, "at least one leaf"),
        ({(Step(AGE, 0),): [1.0]}, "two sides of one split"),
        ({(Step(AGE, 0),): [1.0], (Step(JOB, 1),): [1.0]}, "two sides of one split"),
        ({EVERYONE: [1.0], (Step(AGE, 1),): [1.0]}, "two sides of one split"),
        ({(Step(Fold("d", 3), o),): [1.0] for o in range(3)}, "two sides"),
        ({(Step(AGE, 0),): [1.0], (Step(AGE, 1),): [1.0, 2.0]}, "same number"),
        ({EVERYONE: [float("nan")]}, "finite"),
    ],
)
def test_leaves_that_are_no_tree_are_refused(leaves: dict, complaint: str) -> None:
    with pytest.raises(ParameterError, match=complaint):
        Tree.build(FEATURES, leaves)


def test_a_split_on_an_unknown_feature_is_refused() -> None:
    with pytest.raises(ParameterError, match="'age'"):
        Tree.build(("job",), {(Step(AGE, 0),): [1.0], (Step(AGE, 1),): [2.0]})


def test_a_split_on_cells_beyond_a_byte_is_refused() -> None:
    wide = Split("age", "grid-a", 1 << 256)
    with pytest.raises(ParameterError, match="beyond code 255"):
        Tree.build(FEATURES, {(Step(wide, 0),): [1.0], (Step(wide, 1),): [2.0]})


AGE_TEST = {"feature": "age", "grid": "g", "left": "0x1"}


@pytest.mark.parametrize(
    ("tests", "nodes", "leaves", "complaint"),
    [
        ([], [], [], "end inside the tree"),
        ([AGE_TEST], [0, -1], [1.0], "end inside"),
        ([], [-1, -1], [1.0, 1.0], "complete after 1"),
        ([{"feature": "age", "left": "0x1"}], [-1], [1.0], "not a tree"),
        ([], [-1], ["much"], "not a tree"),
        ([], [0, -1, -1], [1.0, 2.0], "not a tree"),
        ([AGE_TEST], [-2, -1, -1], [1.0, 2.0], "not a tree"),
        ([AGE_TEST], [0.0, -1, -1], [1.0, 2.0], "not a tree"),
        ([AGE_TEST], [2**80, -1, -1], [1.0, 2.0], "not a tree"),
        ([AGE_TEST], 3, [1.0, 2.0], "not a tree"),
        ([AGE_TEST | {"left": "0x0"}], [-1], [1.0], "not a tree"),
        ([AGE_TEST], [0, -1, -1], [1.0], "more or fewer leaves"),
        ([AGE_TEST], [0, -1, -1], [1.0, [2.0]], "not a tree"),
        ([AGE_TEST], [0, -1, -1], [[[1.0]], [[2.0]]], "neither a number nor a list"),
        ([], [-1], [10**400], "not a tree"),
    ],
)
def test_a_broken_file_is_refused(tests: list, nodes: list, leaves: list, complaint: str) -> None:
    broken = {"features": list(FEATURES), "tests": tests, "nodes": nodes, "leaves": leaves}
    with pytest.raises(ParameterError, match=complaint):
        Tree.from_dict(broken)


def test_the_first_broken_tree_of_a_model_is_told() -> None:
    good, short = {"nodes": [0, -1, -1], "leaves": [1.0, 2.0]}, {"nodes": [0, -1], "leaves": [1.0]}
    parts = {"features": list(FEATURES), "tests": [AGE_TEST]}
    assert len(trees_from_dict(parts | {"trees": [good, good]})) == 2
    with pytest.raises(ParameterError, match="2 nodes end inside"):
        trees_from_dict(parts | {"trees": [good, short, good]})
    long = {"nodes": [0, -1, -1, 0, -1], "leaves": [1.0] * 3}
    with pytest.raises(ParameterError, match="complete after 3 nodes; 5 were given"):
        trees_from_dict(parts | {"trees": [good, long]})


@pytest.mark.property
@given(st.lists(st.recursive(st.none(), lambda t: st.tuples(t, t), max_leaves=12), min_size=1))
def test_children_are_those_that_walking_the_tree_finds(shapes: list) -> None:
    """Trees laid end to end, against a walk of each by itself."""

    def walk(shape: Any, at: int) -> list[tuple[int, int]]:
        if shape is None:
            return [(-1, -1)]
        below = walk(shape[0], at + 1)
        return [(at + 1, at + 1 + len(below)), *below, *walk(shape[1], at + 1 + len(below))]

    trees = [walk(shape, 0) for shape in shapes]
    pairs = [pair for tree in trees for pair in tree]
    starts = np.cumsum([0, *map(len, trees)])
    left, right = children(np.array([pair != (-1, -1) for pair in pairs]), starts)
    assert list(zip(left.tolist(), right.tolist(), strict=True)) == pairs


def test_codes_with_a_column_too_few_are_refused() -> None:
    with pytest.raises(ParameterError, match="1 columns"):
        three_leaves().apply(np.zeros((1, 3), np.uint8))


def test_values_for_the_wrong_number_of_leaves_are_refused() -> None:
    with pytest.raises(ParameterError, match="each of 3 leaves"):
        three_leaves().with_values([[1.0], [2.0]])


def test_packed_trees_send_rows_where_the_trees_do() -> None:
    rng = np.random.default_rng(3)
    rows = rng.integers(0, 256, (2, 500)).astype(np.uint8)
    trees = [three_leaves(), complete(3), Tree.build(FEATURES, {EVERYONE: (7.0,)})]
    packed = pack(trees)
    for t, tree in enumerate(trees):
        ends = descend(packed, np.full(500, packed.root[t], np.int32), rows)
        np.testing.assert_array_equal(packed.leaf[ends], tree.apply(rows))
        np.testing.assert_array_equal(packed.value[t, packed.leaf[ends]], tree.predict(rows))


def test_the_runs_of_a_packed_test_are_its_left_cells() -> None:
    for left in (0b1, 0b1011, 1 << 255 | 1, cells(range(256)), cells(range(0, 256, 2)), 2**255 - 1):
        split = Split("age", "g", left)
        packed = pack([Tree.build(FEATURES, {(Step(split, o),): [0.0] for o in (0, 1)})])
        assert covered(packed, node=0) == {c for c in range(256) if left >> c & 1}


def covered(packed: PackedTrees, node: int) -> set[int]:
    runs = range(packed.run_first[node], packed.run_first[node + 1])
    return {int(packed.run_start[r]) + i for r in runs for i in range(packed.run_width[r])}


def test_only_complete_trees_with_one_test_a_level_are_oblivious() -> None:
    shifted = {  # the right child of the root asks another test than the left one
        (Step(AGE, 0), Step(JOB, 0)): [0.0],
        (Step(AGE, 0), Step(JOB, 1)): [0.0],
        (Step(AGE, 1), Step(AGE, 0)): [0.0],
        (Step(AGE, 1), Step(AGE, 1)): [0.0],
    }
    trees = [complete(3), three_leaves(), Tree.build(FEATURES, shifted)]
    assert pack(trees).oblivious.tolist() == [True, False, False]


def test_trees_of_different_models_are_not_packed_together() -> None:
    with pytest.raises(ParameterError, match="one model"):
        pack([three_leaves(), Tree.build(FEATURES, {EVERYONE: (1.0, 2.0)})])
    with pytest.raises(ParameterError, match="no trees"):
        pack([])


def test_a_leaf_number_must_fit_two_bytes() -> None:
    nodes, leaves = [0] * MOST_LEAVES + [-1] * (MOST_LEAVES + 1), [0.0] * (MOST_LEAVES + 1)
    deep = {"features": ["age"], "tests": [AGE_TEST], "nodes": nodes, "leaves": leaves}
    with pytest.raises(ParameterError, match="the most is 65536"):
        Tree.from_dict(deep)


# --------------------------------------------------------------------------------------------------
# Layers of a tree say what regions say, and travel as they are.
LAYER_FEATURES = (
    Numeric("x", 0.0, 1.0, bins=200),
    Numeric("z", -2.0, 2.0, bins=3),
    Categorical("kind", ("p", "q", "r")),
)
BY_CLASS = Schema(LAYER_FEATURES, classes=("a", "b", "c"))
BY_VALUE = Schema(LAYER_FEATURES, target=Target(0.0, 1.0))
SHARE = Fraction(1, 10)
SEEDS = st.integers(0, 2**32 - 1)


def some_rows(rng, n, schema):
    codes = np.stack([rng.integers(0, g.n_cells, n) for g in schema.grids]).astype(np.uint8)
    y = rng.integers(0, 3, n).astype(np.uint8) if schema.classes else rng.random(n)
    encoded = Encoded(codes=codes, y=y, persons=None, clamped={}, unknown={}, skipped=0)
    return Rows(encoded, schema, Draws(bytes(32), "test"))


def some_cuts(rng, n_nodes, m):
    feature = rng.integers(NO_TEST, len(LAYER_FEATURES), (n_nodes, m)).astype(np.int16)
    left = rng.integers(0, 2**64, (n_nodes, m, 4), dtype=np.uint64)
    left[..., 0] |= np.uint64(1)  # no empty set
    return NodeTests(feature, left)


def some_layer(rng, depth):
    """A layer, and the region of each of its nodes inside the root."""
    layer, regions = ROOT_LAYER, [EVERYONE]
    for _ in range(depth):
        cuts = some_cuts(rng, layer.n_nodes, 2)
        if layer is ROOT_LAYER:
            cuts.feature[:] = rng.integers(0, len(LAYER_FEATURES))
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


@pytest.mark.property
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


@pytest.mark.property
def test_a_site_that_forgot_a_layer_finds_its_rows_again():
    rng = np.random.default_rng(3)
    rows = some_rows(rng, 80, BY_CLASS)
    layer, _ = some_layer(rng, 3)
    stepped = Answering(rows, BY_CLASS)
    for above in (layer.above.above, layer.above, layer):
        there = stepped.standing(above, EVERYONE)
    np.testing.assert_array_equal(there, Answering(rows, BY_CLASS).standing(layer, EVERYONE))
    assert (there >= 0).any()


@pytest.mark.property
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


@pytest.mark.property
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
