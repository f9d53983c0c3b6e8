"""Sums over the leaves of trees, and sums of the trees' values: one pass over the rows.

Shapes: F features, n rows, N nodes, T trees, L leaves of the largest, C channels, O outputs.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from hedgerow.errors import ParameterError
from hedgerow.kernels.dispatch import (
    Array,
    Kernel,
    as_input,
    check_one_each,
    check_selection,
    rows_without,
    unknown_labels,
)
from hedgerow.kernels.sums import add_group, one_each
from hedgerow.models.layers import Layer, NodeTests
from hedgerow.models.packing import PackedTrees
from hedgerow.models.tree import descend
from hedgerow.schema.arrays import Codes, FloatArray, Int32, IntArray, Words

PACKED_TYPES = "iiQiiiiBB?iidW"  # of the fields of `PackedTrees`
ROUTED = 2**14  # rows that the plain forms route at a time: few enough to stay in the cache


def leaf_sums(
    trees: PackedTrees, codes: Codes, stats: IntArray, rows: Int32 | None = None
) -> IntArray:
    """(T, L, C) sums of `stats` (n, C) over the rows of each leaf."""
    codes, mine = _select_rows(rows, codes, as_input(stats, np.int64))
    one_node = np.zeros(len(mine), dtype=np.int32)
    return _by_leaf(trees, codes, one_node, 1, mine)[:, 0]


def leaf_counts(
    trees: PackedTrees, codes: Codes, labels: Codes, n_classes: int, rows: Int32 | None = None
) -> IntArray:
    """(T, L, C) rows in each leaf by class; a label that is no class counts nowhere."""
    left_out = unknown_labels(labels, n_classes)
    if left_out is not None:
        check_one_each(labels, codes.shape[1])
        rows, labels = rows_without(left_out, rows), np.where(left_out, 0, labels)
    codes, classes = _select_rows(rows, codes, as_input(labels, np.uint8))
    out = _by_leaf(trees, codes, classes, n_classes, one_each(classes))
    return np.ascontiguousarray(out[..., 0].swapaxes(1, 2))


def add_values(
    trees: PackedTrees, codes: Codes, raw: FloatArray, clip: tuple[float, float] | None = None
) -> FloatArray:
    """Adds the trees to `raw` (n, O) in place, one after the other, clipping after each."""
    if raw.shape != (codes.shape[1], trees.value.shape[2]) or raw.dtype != np.float64:
        raise ParameterError(
            f"raw is {raw.dtype} {raw.shape}; give float64 "
            f"{(codes.shape[1], trees.value.shape[2])}, one row per row of the codes."
        )
    low, high = (-np.inf, np.inf) if clip is None else map(float, clip)
    ADD_VALUES.run(trees, _columns(trees, codes), low, high, raw)
    return raw


def boosting_sums(
    added: PackedTrees | None,
    trees: PackedTrees,
    codes: Codes,
    clip: tuple[float, float] | None,
    scores: tuple[FloatArray, FloatArray, FloatArray],
    bounds: Sequence[float],
) -> IntArray | None:
    """(T, L, 2) a round of boosting in one pass over the rows; None where it is not compiled.

    `scores` are raw (n, 1), the loss's numbers and the targets. The trees `added` advance raw, as
    `add_values`; contributions there, as `loss_contributions` and `bounded_units` with the bounds
    (unit, l1, l2_squared, linf), are summed as `leaf_sums`.
    """
    raw, loss, y = scores
    if raw.shape != (len(y), 1) or len(y) != codes.shape[1]:
        raise ParameterError(f"{raw.shape} scores and {len(y)} targets: codes {codes.shape}.")
    none = trees._replace(depth=trees.depth[:0])
    out, limits = _halves(trees, 1, 2), (-np.inf, np.inf) if clip is None else map(float, clip)
    rows = _columns(trees, codes), *limits, raw, loss, as_input(y, np.float64)
    is_done = BOOSTING_SUMS.run(added or none, trees, *rows, *map(float, bounds), out)
    return _whole(out)[:, 0] if is_done else None


def _select_rows(rows: Int32 | None, codes: Codes, values: Array) -> tuple[Codes, Array]:
    check_one_each(values, codes.shape[1])
    if rows is None:
        return codes, values
    check_selection(rows, codes.shape[1])
    return codes[:, rows], as_input(values[rows], values.dtype)


def _by_leaf(
    trees: PackedTrees, codes: Codes, node_of: Array, n_nodes: int, stats: IntArray
) -> IntArray:
    """(T, N, L, C)"""
    mine, parts = _columns(trees, codes), as_input(node_of, np.int32)
    out = _halves(trees, n_nodes, stats.shape[1])
    SUM_LEAVES.run(trees, mine, parts, stats, out)
    return _whole(out)


def _halves(trees: PackedTrees, n_nodes: int, channels: int) -> IntArray:
    """(2 T, N, L, C) zeros: loops sum two halves of the rows, so that no addition waits."""
    shape = 2 * len(trees.depth), n_nodes, int(trees.n_leaves.max()), max(channels, 1)
    return np.zeros(shape, np.int64)


def _whole(halves: IntArray) -> IntArray:
    return np.asarray(halves[::2] + halves[1::2])


def _columns(trees: PackedTrees, codes: Codes) -> Codes:
    if len(codes) != trees.n_features:
        raise ParameterError(f"codes have {len(codes)} columns; the trees read {trees.n_features}.")
    return as_input(codes, np.uint8)


def _sum_leaves_plain(
    trees: PackedTrees, codes: Codes, node_of: Int32, stats: IntArray, out: IntArray
) -> None:
    for part in _parts(trees, codes):
        for leaves, mine in zip(_leaves(trees, codes[:, part]), out[::2], strict=True):
            add_group(leaves, node_of[part], stats[part], mine)


def _add_values_plain(
    trees: PackedTrees, codes: Codes, low: float, high: float, raw: FloatArray
) -> None:
    tree = np.arange(len(trees.depth))[:, None]
    for part in _parts(trees, codes):
        leaf_values = trees.value[tree, _leaves(trees, codes[:, part])]  # (T, rows, O)
        if low == -np.inf and high == np.inf:  # accumulate adds in order
            raw[part] = np.add.accumulate(np.concatenate([raw[None, part], leaf_values]))[-1]
            continue
        for value in leaf_values:
            raw[part] = np.minimum(np.maximum(raw[part] + value, low), high)


def _parts(trees: PackedTrees, codes: Codes) -> Iterator[slice]:
    """Blocks of rows such that all trees together route about `ROUTED` rows."""
    size = -(-ROUTED // len(trees.depth))
    return (slice(lo, lo + size) for lo in range(0, codes.shape[1], size))


def _leaves(trees: PackedTrees, codes: Codes) -> Int32:
    """(T, n) the number of each row's leaf in each tree, counted from the left."""
    start = np.repeat(trees.root[:-1, None], codes.shape[1], axis=1)
    return trees.leaf[descend(trees, start, codes)]


SUM_LEAVES = Kernel("sum_leaves", _sum_leaves_plain, PACKED_TYPES + "Biqq")
ADD_VALUES = Kernel("add_values", _add_values_plain, PACKED_TYPES + "BNNd")
BOOSTING_SUMS = Kernel("boosting_sums", None, 2 * PACKED_TYPES + "BNNdddNNNNq")


# The open node of each row in a layer, and sums over both sides of the nodes' tests. Shapes: n
# rows, N nodes of a layer, m tests of each, C channels.


def next_nodes(layer: Layer, standing: Int32, codes: Codes) -> Int32:
    """(n,) the node of each row in this layer; -1 for a row that left the tree."""
    assert layer.node_tests is not None
    feature, left = _tests(layer.node_tests, codes)
    out = np.empty(standing.size, np.int32)
    args = _at_nodes(standing, len(feature)), feature, left, as_input(layer.children, np.int32)
    NEXT_NODES.run(*args, as_input(codes, np.uint8), out)
    return out


def count_sides(
    tests: NodeTests, standing: Int32, codes: Codes, labels: Codes, n_classes: int
) -> IntArray:
    """(m, 2 N, C) rows on either side of each of m tests of every node, by class.

    A label that is no class counts nowhere.
    """
    left_out = unknown_labels(labels, n_classes)
    if left_out is not None:
        check_one_each(standing, len(labels))
        standing, labels = np.where(left_out, -1, standing), np.where(left_out, 0, labels)
    return _by_side(COUNT_SIDES, tests, standing, codes, as_input(labels, np.uint8), n_classes)


def sum_sides(tests: NodeTests, standing: Int32, codes: Codes, stats: IntArray) -> IntArray:
    """(m, 2 N, C) sums of `stats` (n, C) on either side of each of m tests of every node."""
    return _by_side(SUM_SIDES, tests, standing, codes, as_input(stats, np.int64), stats.shape[1])


def _by_side(
    kernel: Kernel, tests: NodeTests, standing: Int32, codes: Codes, values: Array, channels: int
) -> IntArray:
    check_one_each(values, codes.shape[1])
    check_one_each(standing, codes.shape[1])
    (n_nodes, m), (feature, left) = tests.feature.shape, _tests(tests, codes)
    out = np.zeros((m, 2 * n_nodes, channels), np.int64)
    args = _at_nodes(standing, n_nodes), feature, left, as_input(codes, np.uint8), values
    kernel.run(*args, out)
    return out


def _at_nodes(standing: Int32, n_nodes: int) -> Array:
    """The node of each row; -1 for a node without tests."""
    if standing.size and standing.max() >= n_nodes:
        standing = np.where(standing < n_nodes, standing, -1)
    return as_input(standing, np.int32)


def _tests(tests: NodeTests, codes: Codes) -> tuple[Array, Words]:
    """Tests as inputs of a compiled loop, after checking their columns."""
    if tests.feature.size and not -1 <= tests.feature.min() <= tests.feature.max() < len(codes):
        raise ParameterError(f"a test reads column {tests.feature.max()} of {len(codes)}.")
    return as_input(tests.feature, np.int16), as_input(tests.left, np.uint64)


def _next_nodes_plain(
    standing: Int32, feature: Array, left: Words, children: Int32, codes: Codes, out: Int32
) -> None:
    out[:] = -1
    rows = _rows_with_test(standing, feature)
    at = standing[rows]
    out[rows] = children[at, _sides_plain(codes[feature[at], rows], left[at])]


def _sum_sides_plain(
    standing: Int32, feature: Array, left: Words, codes: Codes, stats: Array, out: IntArray
) -> None:
    for j, mine in enumerate(out):
        rows = _rows_with_test(standing, feature[:, j])
        at = standing[rows]
        side = _sides_plain(codes[feature[at, j], rows], left[at, j])
        np.add.at(mine, 2 * at + side, stats[rows])


def _count_sides_plain(
    standing: Int32, feature: Array, left: Words, codes: Codes, labels: Array, out: IntArray
) -> None:
    for j, mine in enumerate(out):
        rows = _rows_with_test(standing, feature[:, j])
        at = standing[rows].astype(np.intp)
        side = _sides_plain(codes[feature[at, j], rows], left[at, j])
        place = (2 * at + side) * mine.shape[1] + labels[rows]
        mine += np.bincount(place, minlength=mine.size).reshape(mine.shape)


def _rows_with_test(standing: Int32, feature: Array) -> Array:
    """The rows at a node that has a test; a layer may have no nodes."""
    rows = np.flatnonzero(standing >= 0)
    return rows[feature[standing[rows]] >= 0]


def _sides_plain(cells: Array, left: Words) -> Array:
    word = np.take_along_axis(left, (cells >> 6).astype(np.intp)[:, None], axis=1)[:, 0]
    return 1 - (word >> (cells & 63).astype(np.uint64) & np.uint64(1)).astype(np.intp)


NEXT_NODES = Kernel("next_nodes", _next_nodes_plain, "ihQiBi")
SUM_SIDES = Kernel("sum_sides", _sum_sides_plain, "ihQBqq")
COUNT_SIDES = Kernel("count_sides", _count_sides_plain, "ihQBBq")
