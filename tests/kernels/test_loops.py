"""A compiled loop gives the bits of its plain form, and both give what the definition says.

The definitions below are written row by row, on purpose: they share no trick with either form.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hedgerow.errors import DataError, ParameterError
from hedgerow.kernels import dispatch
from hedgerow.kernels.build import FOR_ANY, FOR_AVX2
from hedgerow.kernels.codes import encode_edges, recode, split_rows
from hedgerow.kernels.dispatch import PLAIN
from hedgerow.kernels.noise import invert
from hedgerow.kernels.sums import Cuts, count_cells, score_cuts, sum_cells
from hedgerow.kernels.trees import (
    add_values,
    boosting_sums,
    count_sides,
    leaf_counts,
    leaf_sums,
    next_nodes,
    sum_sides,
)
from hedgerow.kernels.units import bounded_units, loss_contributions, numbers_of
from hedgerow.models.layers import ROOT_LAYER, Layer, NodeTests
from hedgerow.models.losses import LogLoss, PlainLogLoss, Sensitivity, SquaredLoss, logistic
from hedgerow.models.packing import pack
from hedgerow.models.tree import Tree
from hedgerow.schema.regions import EVERYONE, Region, Split, Step, cells
from support.effort import examples

pytestmark = pytest.mark.property

ROUNDS = settings(examples(40, 100), suppress_health_check=[HealthCheck.too_slow])
BLOCK = 4096  # rows that a compiled loop takes at a time
MOST_PACKED = 2**30 // BLOCK  # from here on two numbers are not added in one word
N_ROWS = st.sampled_from([0, 1, 2, 17, BLOCK - 1, BLOCK, BLOCK + 1, 9001])
N_FEATURES = st.integers(1, 5)
N_CELLS = st.sampled_from([1, 2, 33, 255, 256])
SEEDS = st.integers(0, 2**32 - 1)


@contextmanager
def using(form: str) -> Iterator[None]:
    """Another form than the fastest, for a while."""
    before, dispatch.FORM = dispatch.FORM, form
    try:
        yield
    finally:
        dispatch.FORM = before


def in_both_forms(work: Callable[[], Any]) -> Any:
    """What `work` gives, after seeing that plain and compiled agree to the last bit."""
    with using(PLAIN):
        plain = work()
    for kind in (FOR_ANY, FOR_AVX2):
        with using(kind):
            compiled = work()
        for a, b in zip(_arrays(plain), _arrays(compiled), strict=True):
            assert a.dtype == b.dtype
            np.testing.assert_array_equal(a, b)
    return plain


def _arrays(result: Any) -> list[np.ndarray]:
    return [np.asarray(part) for part in (result if isinstance(result, tuple) else (result,))]


def some_rows(rng: np.random.Generator, n: int) -> np.ndarray | None:
    """Everybody, nobody, or a random selection in order."""
    kind = rng.integers(3)
    if kind == 0:
        return None
    return np.flatnonzero(rng.random(n) < 0.9 * (kind - 1)).astype(np.int32)


def random_codes(rng: np.random.Generator, n: int) -> np.ndarray:
    return rng.integers(0, 256, (3, n)).astype(np.uint8)


def one_node(rows: np.ndarray | None) -> list[np.ndarray] | None:
    return None if rows is None else [rows]


def chosen(rows: np.ndarray | None, n: int) -> list[int]:
    return list(range(n)) if rows is None else rows.tolist()


ONE_LEAF = Tree.build(["a"], {EVERYONE: ()})


# ---------------------------------------------------------------------------- sums over groups
@ROUNDS
@given(n=N_ROWS, n_features=N_FEATURES, n_cells=N_CELLS, n_classes=st.integers(1, 4), seed=SEEDS)
def test_counts_by_cell_are_the_counts(
    n: int, n_features: int, n_cells: int, n_classes: int, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    codes = rng.integers(0, n_cells, (n_features, n)).astype(np.uint8)
    labels = rng.integers(0, n_classes, n).astype(np.uint8)
    rows, features = some_rows(rng, n), rng.integers(0, n_features, rng.integers(0, 4))
    got = in_both_forms(
        lambda: count_cells(codes, one_node(rows), features, labels, n_cells, n_classes)
    )
    expected = np.zeros((1, len(features), n_cells, n_classes), np.int64)
    for j, feature in enumerate(features):
        for i in chosen(rows, n):
            expected[0, j, codes[feature, i], labels[i]] += 1
    np.testing.assert_array_equal(got, expected)


def random_stats(rng: np.random.Generator, n: int, channels: int) -> np.ndarray:
    """Numbers of every size, which changes from block to block."""
    size = 2 ** rng.choice([1, 10, 17, 18, 19, 20, 40, 62], -(-n // BLOCK))
    most = np.repeat(size, BLOCK)[:n, None]
    return rng.integers(-most, most, (n, channels))


@ROUNDS
@given(n=N_ROWS, n_cells=st.sampled_from([1, 33, 256, 300]), channels=st.integers(1, 4), seed=SEEDS)
def test_sums_by_cell_are_the_sums(n: int, n_cells: int, channels: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    codes = rng.integers(0, n_cells, (3, n)).astype(np.uint8 if n_cells <= 256 else np.uint16)
    stats = random_stats(rng, n, channels)
    rows = some_rows(rng, n)
    got = in_both_forms(lambda: sum_cells(codes, one_node(rows), [2, 0, 2], stats, n_cells))
    expected = np.zeros((1, 3, n_cells, channels), np.int64)
    for j, feature in enumerate([2, 0, 2]):
        for i in chosen(rows, n):
            expected[0, j, codes[feature, i]] += stats[i]
    np.testing.assert_array_equal(got, expected)


@ROUNDS
@given(n=N_ROWS, n_nodes=st.integers(0, 5), overlap=st.booleans(), seed=SEEDS)
def test_a_level_is_its_nodes_one_by_one(n: int, n_nodes: int, overlap: bool, seed: int) -> None:
    rng = np.random.default_rng(seed)
    codes, labels = random_codes(rng, n), rng.integers(0, 3, n).astype(np.uint8)
    stats = random_stats(rng, n, 2)
    node_of = rng.integers(0, n_nodes + rng.choice([0, 1, 20]) + 1, n)  # some rows are in none
    nodes = [np.flatnonzero(node_of == k).astype(np.int32) for k in range(n_nodes)]
    if overlap and n_nodes:
        nodes[-1] = nodes[0]
    counts = in_both_forms(lambda: count_cells(codes, nodes, [0, 2], labels, 256, 3))
    sums = in_both_forms(lambda: sum_cells(codes, nodes, [0, 2], stats, 256))
    assert len(counts) == len(sums) == n_nodes
    for k, rows in enumerate(nodes):
        (alone,) = count_cells(codes, [rows], [0, 2], labels, 256, 3)
        np.testing.assert_array_equal(counts[k], alone)
        (alone,) = sum_cells(codes, [rows], [0, 2], stats, 256)
        np.testing.assert_array_equal(sums[k], alone)


def full_cell(records: int, sign: int) -> tuple[np.ndarray, np.ndarray]:
    """Records of one cell with the largest scaled Hessian, 3.33 / 4, at 2^16 units per 1."""
    unit = 2**16
    stats = np.tile(np.array([-sign, sign * int(3.33 / 4 * unit)]), (records, 1))
    return np.zeros((1, records), np.uint8), stats


@pytest.mark.parametrize("sign", [1, -1])
@pytest.mark.parametrize("records", [39_361, 39_362, 78_722, 78_723, 80_000, 200_000])
def test_one_more_record_in_a_full_cell_moves_the_sum_by_that_record(
    records: int, sign: int
) -> None:
    """Two sums of 32 bits in one word would pass 2^31 or 2^32 at these numbers of records."""
    codes, stats = full_cell(records, sign)
    sums = in_both_forms(lambda: sum_cells(codes, None, [0], stats, 1))
    leaves = in_both_forms(lambda: leaf_sums(pack([ONE_LEAF]), codes, stats))
    assert sums.ravel().tolist() == [-sign * records, sign * records * 54_558]
    np.testing.assert_array_equal(sums[0], leaves)


def test_packed_sums_that_are_never_emptied_do_not_survive_a_full_cell() -> None:
    _, stats = full_cell(80_000, sign=1)
    packed = int(np.sum((stats[:, 0] << 32) + stats[:, 1]))
    low = (packed + 2**31) % 2**32 - 2**31
    assert [(packed - low) >> 32, low] != stats.sum(axis=0).tolist()


@pytest.mark.parametrize("largest", [MOST_PACKED - 1, MOST_PACKED, 2**62 - 1])
def test_the_largest_numbers_that_are_packed_are_summed_as_exactly_as_the_next(
    largest: int,
) -> None:
    stats = np.tile([largest, -largest - 1], (3 * BLOCK, 1))
    codes = np.zeros((1, len(stats)), np.uint8)
    got = in_both_forms(lambda: sum_cells(codes, None, [0], stats, 1))
    np.testing.assert_array_equal(got[0, 0, 0], stats.sum(axis=0))


def test_sums_leave_int64_only_in_the_ring_of_the_masks() -> None:
    codes, stats = np.zeros((1, 4), np.uint8), np.full((4, 1), 2**62)
    got = in_both_forms(lambda: sum_cells(codes, None, [0], stats, 1))
    assert int(got[0, 0, 0, 0]) % 2**64 == 4 * 2**62 % 2**64


# ------------------------------------------------------------------------- codes and selections
@ROUNDS
@given(
    kind=st.integers(0, 2),
    n=st.sampled_from([0, 1, 30, 3000]),
    n_cells=st.sampled_from([2, 7, 256]),
    balance=st.sampled_from([0, 100]),
    seed=SEEDS,
)
def test_scores_of_cuts_are_exact(kind: int, n: int, n_cells: int, balance: int, seed: int) -> None:
    rng, unit = np.random.default_rng(seed), 1 << 14
    codes, y = rng.integers(0, n_cells, (3, n)), rng.integers(0, unit + 1, n)
    stats = np.stack([np.ones_like(y), y, y * y], axis=1) if kind == 2 else np.eye(3, dtype=int)
    stats = stats if kind == 2 else stats[y % 3 if kind == 0 else 0 * y]
    tables = np.zeros((3, n_cells, 3), np.int64)
    for table, cells_of_feature in zip(tables, codes, strict=True):
        np.add.at(table, cells_of_feature, stats)
    at = [np.flatnonzero(rng.random(n_cells) < 0.6) + 1 for _ in range(3)]
    first, also = np.cumsum([0, *map(len, at)]), rng.integers(-1, n_cells, 3)
    cuts = Cuts(np.array([2, 0, 1]), also, first, np.concatenate(at))
    scores = []
    for table, extra, cells_right in zip(tables[cuts.table], also, at, strict=True):
        for cell in cells_right.tolist():
            goes_left = (np.arange(n_cells) < cell) | (np.arange(n_cells) == extra)
            sides = [table[goes].sum(axis=0).tolist() for goes in (goes_left, ~goes_left)]
            sizes = [side[0] if kind == 2 else sum(side) for side in sides]
            loss = unit * (2 * max(sizes) - n)
            if kind == 0:
                squares = [sum(c * c for c in side) for side in sides]
                pairs = zip(sizes, squares, strict=True)
                loss = sum(2 * (unit * (m * m - s) // (2 * max(m, 1))) for m, s in pairs)
            if kind == 2:
                loss = sum((m * yy - q * q) // max(m * unit, 1) for m, q, yy in sides)
            scores.append(-(loss + balance * max(sizes)))
    for form in (FOR_ANY, FOR_AVX2):
        with using(form):
            assert score_cuts(tables, cuts, kind, unit, balance).tolist() == scores
    with using(PLAIN):
        assert score_cuts(tables, cuts, kind, unit, balance) is None


@pytest.mark.parametrize(
    ("kind", "n", "at"), [(0, 1 << 23, 1), (2, 1 << 17, 1), (0, 5, 3), (0, 5, 0)]
)
def test_scores_that_no_loop_may_compute_are_left_to_the_plain_steps(
    kind: int, n: int, at: int
) -> None:
    tables = np.array([[[n - 1, 0, 0], [1, 0, 0]]], np.int64)
    zero = np.zeros(1, np.int64)
    cuts = Cuts(zero, zero - 1, np.array([0, 1]), np.array([at]))
    assert score_cuts(tables, cuts, kind, 1 << 14, 0) is None
    enough = tables - [[[1, 0, 0], [0, 0, 0]]]
    assert score_cuts(enough, cuts._replace(at=np.array([1])), kind, 1 << 14, 0) is not None


@ROUNDS
@given(n=N_ROWS, n_features=N_FEATURES, seed=SEEDS)
def test_recoding_looks_every_cell_up(n: int, n_features: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    codes = rng.integers(0, 256, (n_features, n)).astype(np.uint8)
    tables = rng.integers(0, 256, (n_features, 256)).astype(np.uint8)
    got = in_both_forms(lambda: recode(codes, tables))
    assert got.tolist() == [[tables[j, c] for c in row] for j, row in enumerate(codes)]


@ROUNDS
@given(n=N_ROWS, left=st.integers(1, 2**256 - 1), seed=SEEDS)
def test_a_selection_splits_into_left_and_right_rows_in_order(n: int, left: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    column = rng.integers(0, 256, n).astype(np.uint8)
    rows = some_rows(rng, n)
    lefts, rights = in_both_forms(lambda: split_rows(column, rows, left))
    assert lefts.tolist() == [i for i in chosen(rows, n) if left >> int(column[i]) & 1]
    assert rights.tolist() == [i for i in chosen(rows, n) if not left >> int(column[i]) & 1]


UNEVEN = st.lists(st.floats(-1e6, 1e6, width=32), unique=True, max_size=254).map(sorted)
EVEN = st.builds(
    lambda low, width, size: np.linspace(low, low + width, size).tolist(),
    st.floats(-1e9, 1e9),
    st.floats(1.0, 1e6),
    st.integers(2, 254),
)


@ROUNDS
@given(edges=st.one_of(UNEVEN, EVEN), seed=SEEDS, dtype=st.sampled_from([np.float32, np.float64]))
def test_a_code_is_the_number_of_edges_at_or_below_the_value(
    edges: list[float], seed: int, dtype: type
) -> None:
    values = around(edges, np.random.default_rng(seed)).astype(dtype)
    got = in_both_forms(lambda: encoded(values, edges))
    missing = len(edges) + 1
    assert got.tolist() == [
        missing if np.isnan(x) else bisect_right(edges, float(x)) for x in values
    ]


def around(edges: list[float], rng: np.random.Generator) -> np.ndarray:
    """Edges, their neighbors among the floats, values between them, and everything unusual."""
    at = np.array(edges)
    between = rng.uniform(at[0] - 1, at[-1] + 1, 300) if edges else rng.normal(size=300)
    strange = [np.nan, np.inf, -np.inf, 0.0, -0.0, 1e30, -1e30]
    return np.concatenate(
        [at, np.nextafter(at, np.inf), np.nextafter(at, -np.inf), between, strange]
    )


def encoded(values: np.ndarray, edges: list[float]) -> np.ndarray:
    out = np.empty(len(values), np.uint8)
    encode_edges(values, edges, out)
    return out


# --------------------------------------------------------------------------------------- trees
FEATURES = ("a", "b", "c")


def random_tree(rng: np.random.Generator, n_leaves: int, outputs: int = 1) -> Tree:
    """Splits one random leaf at a time, by a cut, by scattered cells, or by all cells."""
    regions: list[Region] = [EVERYONE]
    while len(regions) < n_leaves:
        region = regions.pop(int(rng.integers(len(regions))))
        split = Split(FEATURES[rng.integers(3)], "grid", random_left(rng))
        regions += [(*region, Step(split, outcome)) for outcome in (0, 1)]
    return Tree.build(FEATURES, {region: rng.normal(size=outputs) for region in regions})


def random_left(rng: np.random.Generator) -> int:
    cut = cells(range(int(rng.integers(1, 256))))
    with_missing = cut | 1 << 255
    scattered = int.from_bytes(rng.bytes(32), "little") | 1
    return (cut, cut, with_missing, scattered, 2**256 - 1)[rng.integers(5)]


def oblivious_tree(rng: np.random.Generator, depth: int, outputs: int = 1) -> Tree:
    regions: list[Region] = [EVERYONE]
    for _ in range(depth):
        split = Split(FEATURES[rng.integers(3)], "grid", random_left(rng))
        regions = [(*region, Step(split, outcome)) for region in regions for outcome in (0, 1)]
    return Tree.build(FEATURES, {region: rng.normal(size=outputs) for region in regions})


def random_forest(rng: np.random.Generator, outputs: int = 1) -> list[Tree]:
    trees = [
        random_tree(rng, int(size), outputs) for size in rng.integers(1, 40, rng.integers(1, 4))
    ]
    trees += [
        oblivious_tree(rng, int(depth), outputs) for depth in rng.integers(0, 7, rng.integers(2))
    ]
    return trees


def leaf_by_steps(tree: Tree, row: np.ndarray) -> int:
    """The only leaf whose every step the row passes."""

    def passes(step: Step) -> bool:
        assert isinstance(step.test, Split)
        cell = int(row[FEATURES.index(step.test.feature)])
        return (step.test.left >> cell & 1) == 1 - step.outcome

    (leaf,) = [k for k, region in enumerate(tree.regions()) if all(map(passes, region))]
    return leaf


def leaf_numbers(trees: list[Tree], codes: np.ndarray) -> np.ndarray:
    """(T, n) the leaf of each row in each tree, told by leaves that say their own number."""
    numbered = [tree.with_values(np.arange(tree.n_leaves)[:, None]) for tree in trees]
    nothing = np.zeros((codes.shape[1], 1))
    said = [add_values(pack([tree]), codes, nothing.copy())[:, 0] for tree in numbered]
    return np.array(said).astype(np.uint16)


@ROUNDS
@given(seed=SEEDS, n=st.integers(0, 30))
def test_every_row_reaches_the_leaf_whose_steps_it_passes(seed: int, n: int) -> None:
    rng = np.random.default_rng(seed)
    trees, codes = random_forest(rng), random_codes(rng, n)
    got = in_both_forms(lambda: leaf_numbers(trees, codes))
    assert got.tolist() == [[leaf_by_steps(tree, row) for row in codes.T] for tree in trees]


def caterpillar(n_leaves: int) -> Tree:
    """Takes one cell of a, then of b, then of c away at a time; every leaf can be reached."""
    leaves, path = dict[Region, list[float]](), EVERYONE
    for k in range(n_leaves - 1):
        split = Split(FEATURES[k // 255], "grid", cells([k % 255]))
        leaves[(*path, Step(split, 0))] = [float(k)]
        path = (*path, Step(split, 1))
    return Tree.build(FEATURES, {**leaves, path: [-1.0]})


@pytest.mark.parametrize("n_leaves", [255, 256, 257, 600])
def test_trees_of_more_leaves_than_a_byte_are_routed_alike(n_leaves: int) -> None:
    codes = random_codes(np.random.default_rng(n_leaves), 5000)
    codes[:, ::2] = 255  # these rows reach the last leaf, whose number needs the most bits
    trees = [caterpillar(n_leaves), random_tree(np.random.default_rng(n_leaves), n_leaves)]
    got = in_both_forms(lambda: leaf_numbers(trees, codes))
    np.testing.assert_array_equal(got, [tree.apply(codes) for tree in trees])
    assert got[0].max() == n_leaves - 1


@ROUNDS
@given(seed=SEEDS, n=N_ROWS, channels=st.integers(1, 3))
def test_sums_and_counts_by_leaf_are_those_of_the_leaf_numbers(
    seed: int, n: int, channels: int
) -> None:
    rng = np.random.default_rng(seed)
    forest, codes, rows = random_forest(rng), random_codes(rng, n), some_rows(rng, n)
    stats, trees = random_stats(rng, n, channels), pack(forest)
    labels = rng.integers(0, channels, n).astype(np.uint8)
    sums = in_both_forms(lambda: leaf_sums(trees, codes, stats, rows))
    counts = in_both_forms(lambda: leaf_counts(trees, codes, labels, channels, rows))
    leaves, most = leaf_numbers(forest, codes), int(trees.n_leaves.max())
    nodes, groups = one_node(rows), range(len(leaves))
    (expected,) = sum_cells(leaves, nodes, groups, stats, most)
    np.testing.assert_array_equal(sums, expected)
    (expected,) = count_cells(leaves, nodes, groups, labels, most, channels)
    np.testing.assert_array_equal(counts, expected)


@ROUNDS
@given(seed=SEEDS, n=N_ROWS, outputs=st.integers(1, 3), clipped=st.booleans())
def test_predictions_have_the_bits_of_adding_tree_after_tree(
    seed: int, n: int, outputs: int, clipped: bool
) -> None:
    rng = np.random.default_rng(seed)
    trees, codes = random_forest(rng, outputs), random_codes(rng, n)
    start, clip = rng.normal(size=(n, outputs)), (-0.5, 0.75) if clipped else None
    got = in_both_forms(lambda: add_values(pack(trees), codes, start.copy(), clip))
    expected = start.copy()
    for tree in trees:
        expected += tree.predict(codes)
        expected = np.clip(expected, *clip) if clip else expected
    assert got.tobytes() == expected.tobytes()


def test_the_logistic_function_is_close_to_the_true_one_and_symmetric() -> None:
    z = np.concatenate([np.linspace(-31.0, 31.0, 10_001), [0.0, -0.0, 700.0, -np.inf, np.inf]])
    exact = 1.0 / (1.0 + np.exp(-np.clip(z, -30.0, 30.0).astype(np.longdouble)))
    assert (np.abs(logistic(z) - exact) <= 2.0**-51 * exact).all()
    assert np.isnan(logistic(np.array([np.nan]))).all()


@ROUNDS
@given(
    seed=SEEDS,
    n=N_ROWS,
    unit=st.sampled_from([1, 2**14, 2**20, 2**25]),
    loss=st.sampled_from([LogLoss(), PlainLogLoss(), SquaredLoss(-1.0, 2.0, 0.5)]),
    clipped=st.booleans(),
)
def test_a_round_of_boosting_is_its_steps_one_after_the_other(
    seed: int, n: int, unit: int, loss: Any, clipped: bool
) -> None:
    """One that is too long for the bound or no number adds what it does in the steps: nothing."""
    rng = np.random.default_rng(seed)
    added, trees = pack(random_forest(rng, 1)), pack(random_forest(rng, 1))
    codes, clip = random_codes(rng, n), (-0.5, 0.75) if clipped else None
    raw = rng.choice([-50.0, -1.0, 0.0, 0.3, 1e300, -np.inf, np.nan], (n, 1))
    y = rng.choice([0.0, 1.0, 1.0, 40.0, np.nan], n)
    bound = Sensitivity(2 * unit, unit**2, unit)
    bounds = unit, bound.l1, bound.l2_squared, bound.linf

    def in_one() -> tuple[np.ndarray, np.ndarray]:
        scores = raw.copy()
        given = codes, clip, (scores, numbers_of(loss), y), bounds
        return boosting_sums(added, trees, *given), scores

    def in_steps() -> tuple[np.ndarray, np.ndarray]:
        scores = add_values(added, codes, raw.copy(), clip)
        with np.errstate(all="ignore"):
            units = bounded_units(loss_contributions(loss, scores, y), unit, bound)
        return leaf_sums(trees, codes, units), scores

    steps = in_both_forms(in_steps)
    for form in (FOR_ANY, FOR_AVX2):
        with using(form):
            for one, step in zip(in_one(), steps, strict=True):
                np.testing.assert_array_equal(one, step)
    with using(PLAIN):
        sums, scores = in_one()
        assert sums is None
        np.testing.assert_array_equal(scores, raw)


# --------------------------------------------------------------------------------------- noise
@ROUNDS
@given(
    thresholds=st.lists(st.integers(0, 2**64 - 1), min_size=1, max_size=60).map(sorted),
    guide_bits=st.sampled_from([1, 6, 12]),
    seed=SEEDS,
)
def test_a_word_becomes_the_first_threshold_above_it_and_ties_are_told(
    thresholds: list[int], guide_bits: int, seed: int
) -> None:
    table = np.array(thresholds, np.uint64)
    words = np.concatenate(
        [
            np.random.default_rng(seed).integers(0, 2**64, 200, np.uint64),
            table,
            table + np.uint64(1),
        ]
    )
    guide, shift = guide_to(table, guide_bits)

    def work() -> tuple[np.ndarray, np.ndarray, int]:
        out, ties = np.empty(len(words), np.int64), np.full(len(words), -1)
        n_ties = invert(words, table, guide, shift, out, ties)
        return out, ties, n_ties

    out, ties, n_ties = in_both_forms(work)
    assert out.tolist() == [bisect_right(thresholds, int(word)) for word in words]
    tied = [i for i, word in enumerate(words) if int(word) in thresholds or word >= thresholds[-1]]
    assert n_ties == len(tied)
    assert ties[:n_ties].tolist() == tied


def guide_to(table: np.ndarray, bits: int) -> tuple[np.ndarray, int]:
    shift = 64 - bits
    starts = np.arange(2**bits, dtype=np.uint64) << np.uint64(shift)
    return np.searchsorted(table, starts, side="right").astype(np.int32), shift


# ---------------------------------------------------------------- what a compiled loop may meet
CODES = np.zeros((2, 4), np.uint8)
LABELS = np.array([0, 1, 1, 0], np.uint8)
TWO_LEAVES = pack([random_tree(np.random.default_rng(0), 2)])
WORDS = (np.zeros(1, np.uint64), np.ones(1, np.uint64), np.zeros(2, np.int32), 63)


@pytest.mark.parametrize(
    ("work", "complaint"),
    [
        (lambda: count_cells(CODES, [np.array([4])], [0], LABELS, 1, 2), "selected of 4"),
        (lambda: count_cells(CODES, [np.array([-1])], [0], LABELS, 1, 2), "selected of 4"),
        (lambda: split_rows(CODES[0], np.array([9]), 1), "selected of 4"),
        (
            lambda: sum_cells(CODES, None, [0], np.zeros((3, 1), int), 1),
            "3 labels or statistics",
        ),
    ],
)
def test_rows_that_would_be_read_or_written_outside_are_refused(
    work: Callable[[], Any], complaint: str
) -> None:
    for form in (PLAIN, FOR_AVX2):
        with using(form), pytest.raises(DataError, match=complaint):
            work()


GOOD = 9000  # more than two blocks of a loop
"""Rows of which nothing is strange; one more comes after the first block."""
STRANGE = 5000


def one_strange(kind: str, seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Codes below 5, labels below 2 and where rows stand, of 3 nodes; one record has none."""
    rng = np.random.default_rng(seed)
    codes = rng.integers(5, size=(3, GOOD), dtype=np.uint8)
    labels = rng.integers(2, size=GOOD, dtype=np.uint8)
    standing = rng.integers(-1, 3, GOOD, dtype=np.int32)
    codes[1, STRANGE] = 200 if kind == "code" else codes[1, STRANGE]
    labels[STRANGE] = 7 if kind == "label" else labels[STRANGE]
    standing[STRANGE] = 3 if kind == "node" else standing[STRANGE]
    return codes, labels, standing


def sides_of(n: int, seed: int) -> NodeTests:
    rng = np.random.default_rng(seed)
    feature = rng.integers(-1, 3, (n, 2), dtype=np.int16)
    return NodeTests(feature, rng.integers(2**63, size=(n, 2, 4), dtype=np.uint64))


Work = Callable[[np.ndarray, np.ndarray, np.ndarray, np.ndarray], np.ndarray]
STRANGE_WORK: dict[str, tuple[str, Work]] = {
    "a code, counted": ("code", lambda c, y, at, who: count_cells(c, [who], [1], y, 5, 2)),
    "a code, all rows": (
        "code",
        lambda c, y, at, who: count_cells(c[:, who], None, [1], y[who], 5, 2),
    ),
    "a wide code": (
        "code",
        lambda c, y, at, who: count_cells(c.astype(np.uint16), [who], [1, 1], y, 5, 2),
    ),
    "a code, one channel": (
        "code",
        lambda c, y, at, who: sum_cells(c, [who], [1], y[:, None].astype(int), 5),
    ),
    "a code, two channels": (
        "code",
        lambda c, y, at, who: sum_cells(c, [who], [1], np.stack([y, 1 - y], 1).astype(int), 5),
    ),
    "a label, counted": ("label", lambda c, y, at, who: count_cells(c, [who], [0, 1], y, 5, 2)),
    "a label, all rows": (
        "label",
        lambda c, y, at, who: count_cells(c[:, who], None, [0], y[who], 5, 2),
    ),
    "a label below 0": (
        "label",
        lambda c, y, at, who: count_cells(c, [who], [0], np.where(y == 7, -1, y.astype(int)), 5, 2),
    ),
    "a label, in leaves": ("label", lambda c, y, at, who: leaf_counts(TWO_LEAVES, c, y, 2, who)),
    "a label, in all leaves": (
        "label",
        lambda c, y, at, who: leaf_counts(TWO_LEAVES, c[:, who], y[who], 2),
    ),
    "a label, at sides": (
        "label",
        lambda c, y, at, who: count_sides(sides_of(3, 1), at[who], c[:, who], y[who], 2),
    ),
    "a node, counted": (
        "node",
        lambda c, y, at, who: count_sides(sides_of(3, 1), at[who], c[:, who], y[who], 2),
    ),
    "a node, summed": (
        "node",
        lambda c, y, at, who: sum_sides(
            sides_of(3, 1), at[who], c[:, who], y[who, None].astype(int)
        ),
    ),
    "a node, passed on": (
        "node",
        lambda c, y, at, who: np.bincount(next_nodes(LAYER, at[who], c[:, who]) + 1)[1:],
    ),
}
LAYER = Layer(
    Layer(
        ROOT_LAYER, NodeTests(np.zeros(1, np.int16), np.ones((1, 4), np.uint64)), np.ones(2, bool)
    ),
    NodeTests(np.array([0, 1, 2], np.int16), np.full((3, 4), 5, np.uint64)),
    np.ones(6, bool),
)


@pytest.mark.parametrize("work", STRANGE_WORK)
def test_a_record_that_no_kernel_can_place_is_left_out_alone(work: str) -> None:
    """After a charge an error would tell of it: it adds nothing, and all others what they did."""
    kind, summed = STRANGE_WORK[work]
    codes, labels, standing = one_strange(kind, 3)
    everyone = np.arange(GOOD, dtype=np.int32)
    others = np.delete(everyone, STRANGE)
    found = in_both_forms(lambda: summed(codes, labels, standing, everyone))
    assert np.array_equal(found, summed(codes, labels, standing, others))
    assert found.sum() > 0


def test_a_layer_without_open_nodes_is_summed_whatever_the_rows() -> None:
    """Both forms: an admitted question must not fail where there is a row and pass where none."""
    none, codes = np.full(4, -1, np.int32), np.zeros((3, 4), np.uint8)
    closed = Layer(
        ROOT_LAYER, NodeTests(np.zeros(1, np.int16), np.ones((1, 4), np.uint64)), np.zeros(2, bool)
    )
    below = Layer(
        closed, NodeTests(np.zeros(0, np.int16), np.zeros((0, 4), np.uint64)), np.zeros(0, bool)
    )
    for rows in (slice(0, 0), slice(0, 4)):
        at, some, labels = none[rows], codes[:, rows], LABELS[rows]
        found = in_both_forms(lambda: count_sides(sides_of(0, 1), at, some, labels, 2))  # noqa: B023
        assert found.shape == (2, 0, 2)
        assert (in_both_forms(lambda: next_nodes(below, at, some)) == at).all()  # noqa: B023


@pytest.mark.parametrize(
    ("work", "complaint"),
    [
        (lambda: count_cells(CODES, None, [2], LABELS, 1, 2), "2 columns"),
        (lambda: recode(CODES, np.zeros((2, 4), np.uint8)), r"give \(2, 256\)"),
        (lambda: leaf_counts(TWO_LEAVES, CODES, LABELS, 2), "the trees read 3"),
        (lambda: invert(*WORDS, np.zeros(1, int), np.zeros(0, int)), "0 ties"),
        (lambda: encoded(np.zeros(3), [2.0, 1.0]), "rising"),
        (lambda: encode_edges(np.zeros(3), [0.0], CODES[0]), "one uint8 for each"),
        (lambda: encoded(np.zeros(3), [float("nan")] * 2), "rising"),
        (lambda: encoded(np.zeros(3), list(range(255))), "at most 254"),
        (
            lambda: add_values(TWO_LEAVES, np.zeros((3, 4), np.uint8), np.zeros((3, 1))),
            "one row per row",
        ),
    ],
)
def test_questions_that_make_no_sense_are_refused(work: Callable[[], Any], complaint: str) -> None:
    with pytest.raises(ParameterError, match=complaint):
        work()
