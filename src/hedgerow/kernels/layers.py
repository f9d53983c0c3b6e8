"""Which open node of a layer each row stands at, and sums over both sides of its tests.

Shapes: n rows, N nodes of a layer, m tests of each, C channels.
"""

from __future__ import annotations

import numpy as np

from hedgerow.errors import SpecError
from hedgerow.kernels.dispatch import Array, Kernel, as_input, check_one_each, unknown_labels
from hedgerow.models.layers import Layer, NodeTests
from hedgerow.schema.arrays import Codes, Int32, IntArray, Words


def next_nodes(layer: Layer, standing: Int32, codes: Codes) -> Int32:
    """(n,) the node of this layer at which each row stands; -1 for a row that left the tree."""
    assert layer.taken is not None
    feature, left = _tests(layer.taken, codes)
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
    """Where rows stand; at none of the nodes if at one that no test came for."""
    if standing.size and standing.max() >= n_nodes:
        standing = np.where(standing < n_nodes, standing, -1)
    return as_input(standing, np.int32)


def _tests(tests: NodeTests, codes: Codes) -> tuple[Array, Words]:
    """A compiled loop does not look where it reads."""
    if tests.feature.size and not -1 <= tests.feature.min() <= tests.feature.max() < len(codes):
        raise SpecError(f"a test reads column {tests.feature.max()} of {len(codes)}.")
    return as_input(tests.feature, np.int16), as_input(tests.left, np.uint64)


def _next_nodes_plain(
    standing: Int32, feature: Array, left: Words, children: Int32, codes: Codes, out: Int32
) -> None:
    out[:] = -1
    rows = _tested(standing, feature)
    at = standing[rows]
    out[rows] = children[at, _sides_plain(codes[feature[at], rows], left[at])]


def _sum_sides_plain(
    standing: Int32, feature: Array, left: Words, codes: Codes, stats: Array, out: IntArray
) -> None:
    for j, mine in enumerate(out):
        rows = _tested(standing, feature[:, j])
        at = standing[rows]
        side = _sides_plain(codes[feature[at, j], rows], left[at, j])
        np.add.at(mine, 2 * at + side, stats[rows])


def _count_sides_plain(
    standing: Int32, feature: Array, left: Words, codes: Codes, labels: Array, out: IntArray
) -> None:
    for j, mine in enumerate(out):
        rows = _tested(standing, feature[:, j])
        at = standing[rows].astype(np.intp)
        side = _sides_plain(codes[feature[at, j], rows], left[at, j])
        place = (2 * at + side) * mine.shape[1] + labels[rows]
        mine += np.bincount(place, minlength=mine.size).reshape(mine.shape)


def _tested(standing: Int32, feature: Array) -> Array:
    """The rows at a node that has a test; a layer may have no node at all."""
    rows = np.flatnonzero(standing >= 0)
    return rows[feature[standing[rows]] >= 0]


def _sides_plain(cells: Array, left: Words) -> Array:
    word = np.take_along_axis(left, (cells >> 6).astype(np.intp)[:, None], axis=1)[:, 0]
    return 1 - (word >> (cells & 63).astype(np.uint64) & np.uint64(1)).astype(np.intp)


def _next_nodes_loop(
    standing: Int32, feature: Array, left: Words, children: Int32, codes: Codes, out: Int32
) -> None:
    for r in range(standing.size):
        at = standing[r]
        out[r] = -1
        if at >= 0 and feature[at] >= 0:
            cell = codes[feature[at], r]
            word = left[at, cell >> 6] >> np.uint64(cell & 63)
            out[r] = children[at, 1 - int(word & np.uint64(1))]


def _sum_sides_loop(
    standing: Int32, feature: Array, left: Words, codes: Codes, stats: IntArray, out: IntArray
) -> None:
    # two channels are what a number has; a loop over so few costs more than what it does
    pair = out.shape[2] == 2
    for r in range(standing.size):
        at = standing[r]
        for j in range(feature.shape[1] if at >= 0 else 0):
            if feature[at, j] >= 0:
                cell = codes[feature[at, j], r]
                word = left[at, j, cell >> 6] >> np.uint64(cell & 63)
                side = 2 * at + 1 - int(word & np.uint64(1))
                if pair:
                    out[j, side, 0] += stats[r, 0]
                    out[j, side, 1] += stats[r, 1]
                else:
                    for c in range(out.shape[2]):
                        out[j, side, c] += stats[r, c]


def _count_sides_loop(
    standing: Int32, feature: Array, left: Words, codes: Codes, labels: Codes, out: IntArray
) -> None:
    for r in range(standing.size):
        at = standing[r]
        for j in range(feature.shape[1] if at >= 0 else 0):
            if feature[at, j] >= 0:
                cell = codes[feature[at, j], r]
                word = left[at, j, cell >> 6] >> np.uint64(cell & 63)
                out[j, 2 * at + 1 - int(word & np.uint64(1)), labels[r]] += 1


NEXT_NODES = Kernel(_next_nodes_loop, _next_nodes_plain)
SUM_SIDES = Kernel(_sum_sides_loop, _sum_sides_plain, effort=2)
COUNT_SIDES = Kernel(_count_sides_loop, _count_sides_plain, effort=2)
