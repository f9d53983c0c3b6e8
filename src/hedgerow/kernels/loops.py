"""The loops of `sums` and `trees`, in one file because they share their helpers.

Shapes: F features, n rows, k rows of a selection, N nodes, B bins, C channels, T trees, O outputs,
P groups (features or trees, an even number of them). Codes are feature-major (F, n).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from hedgerow.kernels.dispatch import Array, helper
from hedgerow.models.packing import PackedTrees
from hedgerow.schema.arrays import Codes, FloatArray, GroupCodes, Int32, IntArray

LeafIds = NDArray[np.uint16]

BLOCK = 4096  # rows that stay in the first-level cache while all features or trees pass over them
MOST_PACKED = 2**30 // BLOCK  # smaller numbers: a block of them cannot overflow half a word
BYTE_LEAVES = 256  # up to here a leaf number is a byte, and a tree is evaluated 32 rows at a time
FEW_ROWS = 8  # fewer walk down one by one: in a block every node of a tree is evaluated


def sum_cells_loop(
    codes: GroupCodes, rows: Int32, node_of: Int32, pairs: Int32, stats: IntArray, out: IntArray
) -> bool:
    """Adds the stats (k, C) of rows to out (P, N, B, C); without channels each row counts one.

    Two features at once: an addition need not wait for the last one in the same feature. False
    if a code is not below B: it was not counted, and others may not have been.
    """
    first_cells, second_cells = np.empty(BLOCK, codes.dtype), np.empty(BLOCK, codes.dtype)
    starts, words = np.empty(BLOCK, np.uint32), np.empty(BLOCK, np.int64)
    lanes, lane_bound = _lanes(stats, out), 0
    for lo in range(0, node_of.size, BLOCK):
        hi, mine = min(lo + BLOCK, node_of.size), stats[lo : lo + BLOCK]
        at = _starts(node_of[lo:hi], out.shape[2], starts)
        lane_bound = _pack(mine, words, lane_bound, lanes, out)
        for j in range(0, pairs.size, 2):
            a = _cells(codes[pairs[j]], rows, lo, hi, first_cells)
            b = _cells(codes[pairs[j + 1]], rows, lo, hi, second_cells)
            if max(_highest(a), _highest(b)) >= out.shape[2]:
                return False
            _add_two(a, b, at, mine, words, lane_bound, lanes[j : j + 2], out[j : j + 2])
    _unpack(lanes, out)
    return True


@helper
def _starts(node_of: Int32, n_bins: int, starts: Array) -> Array:
    """Where the sums of each row's node begin."""
    for i in range(node_of.size):
        starts[i] = np.uint32(node_of[i] * n_bins)
    return starts[: node_of.size]


@helper
def _cells(column: Array, rows: Int32, lo: int, hi: int, buffer: Array) -> Array:
    """Cells of rows lo to hi of a selection; the empty selection stands for all rows."""
    if rows.size == 0:
        return column[lo:hi]
    for i in range(hi - lo):
        buffer[i] = column[np.uint64(rows[lo + i])]
    return buffer[: hi - lo]


@helper
def _highest(cells: Array) -> int:
    highest = cells[0]
    for i in range(cells.size):
        highest = max(highest, cells[i])
    return int(highest)


@helper
def _lanes(stats: IntArray, out: IntArray) -> IntArray:
    """(P, N * B) sums of both channels in one word; (P, 0) where there are not two."""
    room = out.shape[1] * out.shape[2] if stats.shape[1] == 2 else 0
    return np.zeros((out.shape[0], room), np.int64)


@helper
def _pack(stats: IntArray, words: IntArray, lane_bound: int, lanes: IntArray, out: IntArray) -> int:
    """Words of a block, first channel in the high half; returns a bound on any half of a lane.

    One addition then does for two. But a half that passes 2^31 would change its neighbor, and
    the sum would no longer be the sum: so lanes are emptied before they could be that full. A
    block of larger numbers is not packed: -1, and all lanes are empty.
    """
    if lanes.size == 0:
        return -1
    lane_bound, largest = max(lane_bound, 0), 0
    for i in range(stats.shape[0]):
        g, h = stats[i, 0], stats[i, 1]
        words[i] = (g << 32) + h
        largest = max(largest, max(g ^ (g >> 63), h ^ (h >> 63)))  # the size of x, or one less
    more = int((largest + 1) * stats.shape[0])
    if largest < MOST_PACKED and lane_bound + more < 2**31:
        return lane_bound + more
    _unpack(lanes, out)
    return more if largest < MOST_PACKED else -1


@helper
def _unpack(lanes: IntArray, out: IntArray) -> None:
    """Adds the lanes to the sums and empties them."""
    flat = out.ravel()
    lane_words = lanes.ravel()
    for p in range(lane_words.size):
        low = np.int64(np.int32(lane_words[p]))
        flat[2 * p] += (lane_words[p] - low) >> 32
        flat[2 * p + 1] += low
        lane_words[p] = 0


@helper
def _add_two(
    a: Array,
    b: Array,
    starts: Array,
    stats: IntArray,
    words: IntArray,
    lane_bound: int,
    lanes: IntArray,
    out: IntArray,
) -> None:
    if stats.shape[1] == 0:
        _count_two(a, b, starts, out[0].ravel(), out[1].ravel())
    elif lane_bound >= 0:
        _add_words(a, b, starts, words, lanes[0], lanes[1])
    else:
        _add_channels(a, starts, stats, out[0].ravel())
        _add_channels(b, starts, stats, out[1].ravel())


@helper
def _count_two(a: Array, b: Array, starts: Array, out_a: IntArray, out_b: IntArray) -> None:
    for i in range(starts.size):
        start = np.uint64(starts[i])
        out_a[np.uint64(a[i]) + start] += 1
        out_b[np.uint64(b[i]) + start] += 1


@helper
def _add_words(
    a: Array, b: Array, starts: Array, words: IntArray, out_a: IntArray, out_b: IntArray
) -> None:
    for i in range(starts.size):
        start, word = np.uint64(starts[i]), words[i]
        out_a[np.uint64(a[i]) + start] += word
        out_b[np.uint64(b[i]) + start] += word


@helper
def _add_channels(group: Array, starts: Array, stats: IntArray, out: IntArray) -> None:
    channels = np.uint64(stats.shape[1])
    for i in range(starts.size):
        first = (np.uint64(group[i]) + np.uint64(starts[i])) * channels
        for c in range(stats.shape[1]):
            out[first + np.uint64(c)] += stats[i, c]


def sum_leaves_loop(
    trees: PackedTrees, codes: Codes, node_of: Int32, pairs: Int32, stats: IntArray, out: IntArray
) -> None:
    """As `sum_cells_loop`, with a tree's leaves for a feature's cells."""
    stack = np.empty((trees.depth.max() + 2, BLOCK), np.uint8)
    first_leaves, second_leaves = np.empty(BLOCK, np.uint16), np.empty(BLOCK, np.uint16)
    starts, words = np.empty(BLOCK, np.uint32), np.empty(BLOCK, np.int64)
    lanes, lane_bound = _lanes(stats, out), 0
    for lo in range(0, node_of.size, BLOCK):
        mine = stats[lo : lo + BLOCK]
        at = _starts(node_of[lo : lo + BLOCK], out.shape[2], starts)
        lane_bound = _pack(mine, words, lane_bound, lanes, out)
        a, b = first_leaves[: at.size], second_leaves[: at.size]
        for j in range(0, pairs.size, 2):
            _route(trees, pairs[j], codes, lo, stack, a)
            _route(trees, pairs[j + 1], codes, lo, stack, b)
            _add_two(a, b, at, mine, words, lane_bound, lanes[j : j + 2], out[j : j + 2])
    _unpack(lanes, out)


def add_values_loop(
    trees: PackedTrees, codes: Codes, low: float, high: float, raw: FloatArray
) -> None:
    stack = np.empty((trees.depth.max() + 2, BLOCK), np.uint8)
    leaves = np.empty(BLOCK, np.uint16)
    for lo in range(0, len(raw), BLOCK):
        mine = raw[lo : lo + BLOCK]
        for t in range(trees.depth.size):
            _route(trees, t, codes, lo, stack, leaves[: len(mine)])
            for o in range(mine.shape[1]):
                value = trees.value[t, :, o]
                for i in range(len(mine)):
                    total = mine[i, o] + value[np.uint64(leaves[i])]
                    mine[i, o] = min(max(total, low), high)


@helper
def _route(
    trees: PackedTrees, t: int, codes: Codes, lo: int, stack: Codes, leaves: LeafIds
) -> None:
    """Leaf of each row from `lo` on, as many as `leaves` has room for."""
    if leaves.size < FEW_ROWS:
        for i in range(leaves.size):
            leaves[i] = _walk(trees, t, codes, lo + i)
        return
    if trees.n_leaves[t] > BYTE_LEAVES:
        _by_rows(trees, t, codes, lo, leaves)
        return
    if trees.oblivious[t]:
        _by_levels(trees, t, codes, lo, stack[0, : leaves.size])
    else:
        _by_nodes(trees, t, codes, lo, leaves.size, stack)
    for i in range(leaves.size):
        leaves[i] = stack[0, i]


@helper
def _walk(trees: PackedTrees, t: int, codes: Codes, row: int) -> int:
    """Leaf of one row. It does not stop early, as rows of a block do not."""
    q = np.uint64(trees.root[t])
    for _ in range(trees.depth[t]):
        cell = np.uint64(codes[np.uint64(max(trees.feature[q], 0)), np.uint64(row)])
        word = trees.left_bits[q, cell >> np.uint64(6)]
        left, right = np.uint64(trees.left[q]), np.uint64(trees.right[q])
        q = left if (word >> (cell & np.uint64(63))) & np.uint64(1) else right
    return int(trees.leaf[q])


@helper
def _by_nodes(trees: PackedTrees, t: int, codes: Codes, lo: int, size: int, stack: Codes) -> None:
    """Evaluates the tree as an expression over a block of rows; the result is stack[0].

    In reverse preorder a leaf pushes its number, and a test finds its left result on top of its
    right result. It leaves, row by row, one of the two: no row branches, and any shape will do.
    """
    top = -1
    for q in range(trees.root[t + 1] - 1, trees.root[t] - 1, -1):
        if trees.feature[q] < 0:
            top += 1
            stack[top, :size] = np.uint8(trees.leaf[q])
            continue
        cells, left, result = codes[trees.feature[q], lo : lo + size], stack[top], stack[top - 1]
        for r in range(trees.run_first[q], trees.run_first[q + 1]):
            _take_left(cells, trees.run_start[r], trees.run_width[r], left, result)
        top -= 1


@helper
def _take_left(cells: Codes, start: int, width: int, left: Codes, result: Codes) -> None:
    """Rows whose cell is in the run take the left result; cells below `start` wrap to the top."""
    for i in range(cells.size):
        yes, no = left[i], result[i]
        result[i] = yes if np.uint8(cells[i] - start) < width else no


@helper
def _by_levels(trees: PackedTrees, t: int, codes: Codes, lo: int, leaves: Codes) -> None:
    """An oblivious tree: its leaf number in binary is the outcomes of its levels."""
    leaves[:] = np.uint8(0)
    for q in range(trees.root[t], trees.root[t] + trees.depth[t]):  # down the left edge
        cells = codes[trees.feature[q], lo : lo + leaves.size]
        for i in range(leaves.size):
            leaves[i] = np.uint8(leaves[i] + leaves[i] + 1)
        for r in range(trees.run_first[q], trees.run_first[q + 1]):
            start, width = trees.run_start[r], trees.run_width[r]
            for i in range(leaves.size):
                leaf = leaves[i]
                leaves[i] = np.uint8(leaf - 1) if np.uint8(cells[i] - start) < width else leaf


@helper
def _by_rows(trees: PackedTrees, t: int, codes: Codes, lo: int, leaves: LeafIds) -> None:
    """For trees of more leaves than a byte can number: all rows go a level a time.

    No row leaves early, since a row at its leaf stays there: that costs less than a branch.
    """
    node = np.full(leaves.size, trees.root[t], np.int32)
    for _ in range(trees.depth[t]):
        for i in range(leaves.size):
            q = np.uint64(node[i])
            cell = np.uint64(codes[np.uint64(max(trees.feature[q], 0)), np.uint64(lo + i)])
            word = trees.left_bits[q, cell >> np.uint64(6)]
            left, right = trees.left[q], trees.right[q]
            node[i] = left if (word >> (cell & np.uint64(63))) & np.uint64(1) else right
    for i in range(leaves.size):
        leaves[i] = trees.leaf[np.uint64(node[i])]
