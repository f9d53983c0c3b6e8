"""What numba compiles: the loops over rows, integers in and integers out.

Nothing here is called as Python and nothing imports numba; `kernels` compiles each loop, holds
it against its plain form and knows when to use which. Compiled, a loop checks no bounds: `kernels`
has checked them.

Written for the compiler: indices are unsigned, since a signed one costs a test for negative, and
an element is read before it is chosen by, since a branch stays otherwise.

Shapes: F features, n rows, k rows of a selection, N nodes, B bins, C channels, T trees, O outputs,
P groups (features or trees, an even number of them). Codes are feature-major (F, n).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from hedgerow.values.arrays import Codes, FloatArray, Int32, IntArray, Words
from hedgerow.values.trees import Packed

GroupCodes = NDArray[np.uint8] | NDArray[np.uint16]  # cell codes, or leaf numbers
LeafIds = NDArray[np.uint16]
Array = NDArray[Any]

BLOCK = 4096  # rows that stay in the first-level cache while all features or trees pass over them
MOST_PACKED = 2**30 // BLOCK  # smaller numbers: a block of them cannot overflow half a word
BYTE_LEAVES = 256  # up to here a leaf number is a byte, and a tree is evaluated 32 rows at a time

HELPERS: list[Callable[..., Any]] = []
_Function = TypeVar("_Function", bound=Callable[..., Any])


def _helper(function: _Function) -> _Function:
    """Marks what loops call, so that numba will know it too."""
    HELPERS.append(function)
    return function


# ---------------------------------------------------------------------------- sums over groups
def sum_cells(
    codes: GroupCodes, rows: Int32, node_of: Int32, pairs: Int32, stats: IntArray, out: IntArray
) -> bool:
    """Adds the stats (k, C) of rows to out (P, N, B, C); without channels each row counts one.

    Two features at once: an addition need not wait for the last one in the same feature. False
    if a code is not below B; by then it was counted, elsewhere in `out` or in the room behind it.
    """
    one, other = np.empty(BLOCK, codes.dtype), np.empty(BLOCK, codes.dtype)
    starts, words = np.empty(BLOCK, np.uint32), np.empty(BLOCK, np.int64)
    lanes, held = _lanes(stats, out), 0
    for lo in range(0, node_of.size, BLOCK):
        hi, mine = min(lo + BLOCK, node_of.size), stats[lo : lo + BLOCK]
        at = _starts(node_of[lo:hi], out.shape[2], starts)
        held = _pack(mine, words, held, lanes, out)
        for j in range(0, pairs.size, 2):
            a = _cells(codes[pairs[j]], rows, lo, hi, one)
            b = _cells(codes[pairs[j + 1]], rows, lo, hi, other)
            _add_two(a, b, at, mine, words, held, lanes[j : j + 2], out[j : j + 2])
            if max(_highest(a), _highest(b)) >= out.shape[2]:
                return False
    _unpack(lanes, out)
    return True


@_helper
def _starts(node_of: Int32, n_bins: int, starts: Array) -> Array:
    """Where the sums of each row's node begin."""
    for i in range(node_of.size):
        starts[i] = np.uint32(node_of[i] * n_bins)
    return starts[: node_of.size]


@_helper
def _cells(column: Array, rows: Int32, lo: int, hi: int, buffer: Array) -> Array:
    """Cells of rows lo to hi of a selection; the empty selection stands for all rows."""
    if rows.size == 0:
        return column[lo:hi]
    for i in range(hi - lo):
        buffer[i] = column[np.uint64(rows[lo + i])]
    return buffer[: hi - lo]


@_helper
def _highest(cells: Array) -> int:
    highest = cells[0]
    for i in range(cells.size):
        highest = max(highest, cells[i])
    return int(highest)


@_helper
def _lanes(stats: IntArray, out: IntArray) -> IntArray:
    """(P, N * B) sums of both channels in one word; (P, 0) where there are not two."""
    room = out.shape[1] * out.shape[2] if stats.shape[1] == 2 else 0
    return np.zeros((out.shape[0], room), np.int64)


@_helper
def _pack(stats: IntArray, words: IntArray, held: int, lanes: IntArray, out: IntArray) -> int:
    """Words of a block, first channel in the high half; returns a bound on any half of a lane.

    One addition then does for two. But a half that passes 2^31 would change its neighbour, and
    the sum would no longer be the sum: so lanes are emptied before they could be that full. A
    block of larger numbers is not packed: -1, and all lanes are empty.
    """
    if lanes.size == 0:
        return -1
    held, largest = max(held, 0), 0
    for i in range(stats.shape[0]):
        g, h = stats[i, 0], stats[i, 1]
        words[i] = (g << 32) + h
        largest = max(largest, max(g ^ (g >> 63), h ^ (h >> 63)))  # the size of x, or one less
    more = int((largest + 1) * stats.shape[0])
    if largest < MOST_PACKED and held + more < 2**31:
        return held + more
    _unpack(lanes, out)
    return more if largest < MOST_PACKED else -1


@_helper
def _unpack(lanes: IntArray, out: IntArray) -> None:
    """Adds the lanes to the sums and empties them."""
    flat = out.ravel()
    packed = lanes.ravel()
    for p in range(packed.size):
        low = np.int64(np.int32(packed[p]))
        flat[2 * p] += (packed[p] - low) >> 32
        flat[2 * p + 1] += low
        packed[p] = 0


@_helper
def _add_two(
    a: Array,
    b: Array,
    starts: Array,
    stats: IntArray,
    words: IntArray,
    held: int,
    lanes: IntArray,
    out: IntArray,
) -> None:
    if stats.shape[1] == 0:
        _count_two(a, b, starts, out[0].ravel(), out[1].ravel())
    elif held >= 0:
        _add_words(a, b, starts, words, lanes[0], lanes[1])
    else:
        _add_channels(a, starts, stats, out[0].ravel())
        _add_channels(b, starts, stats, out[1].ravel())


@_helper
def _count_two(a: Array, b: Array, starts: Array, out_a: IntArray, out_b: IntArray) -> None:
    for i in range(starts.size):
        start = np.uint64(starts[i])
        out_a[np.uint64(a[i]) + start] += 1
        out_b[np.uint64(b[i]) + start] += 1


@_helper
def _add_words(
    a: Array, b: Array, starts: Array, words: IntArray, out_a: IntArray, out_b: IntArray
) -> None:
    for i in range(starts.size):
        start, word = np.uint64(starts[i]), words[i]
        out_a[np.uint64(a[i]) + start] += word
        out_b[np.uint64(b[i]) + start] += word


@_helper
def _add_channels(group: Array, starts: Array, stats: IntArray, out: IntArray) -> None:
    channels = np.uint64(stats.shape[1])
    for i in range(starts.size):
        first = (np.uint64(group[i]) + np.uint64(starts[i])) * channels
        for c in range(stats.shape[1]):
            out[first + np.uint64(c)] += stats[i, c]


# ------------------------------------------------------------------------- codes and selections
def encode(values: FloatArray, cuts: FloatArray, guide: Codes, scale: float, out: Codes) -> None:
    """Number of cuts at or below each value; NaN: one more than there can be."""
    if guide.size:
        _by_guide(values, cuts, guide, scale, out)
    else:
        _by_search(values, cuts, out)
    for i in range(values.size):
        code = out[i]
        out[i] = code if values[i] == values[i] else np.uint8(cuts.size + 1)


@_helper
def _by_guide(values: FloatArray, cuts: FloatArray, guide: Codes, scale: float, out: Codes) -> None:
    """The guide counts the cuts in lower buckets; a value's own bucket holds one cut at most."""
    low, last = cuts[0], np.float64(guide.size - 1)
    following = np.full(cuts.size + 1, np.nan)  # no value is at or above NaN
    following[:-1] = cuts
    for i in range(values.size):
        bucket = (values[i] - low) * scale
        bucket = bucket if bucket > 0.0 else 0.0  # NaN too
        cell = np.uint64(guide[np.uint64(np.int32(bucket if bucket < last else last))])
        out[i] = cell + np.uint64(values[i] >= following[cell])


@_helper
def _by_search(values: FloatArray, cuts: FloatArray, out: Codes) -> None:
    """Binary search without branches: each step is taken by a whole block before the next."""
    steps = 1
    while steps <= cuts.size:
        steps *= 2
    padded = np.full(steps, np.inf)
    padded[: cuts.size] = cuts
    found = np.empty(256, np.int32)
    for lo in range(0, values.size, found.size):
        block = values[lo : lo + found.size]
        found[:] = 0
        step = steps // 2
        while step > 0:
            for i in range(block.size):
                at = found[i]
                found[i] = at + step if padded[at + step - 1] <= block[i] else at
            step //= 2
        for i in range(block.size):
            out[lo + i] = min(found[i], cuts.size)  # infinity is not below the padding


def recode(codes: Codes, tables: Codes, out: Codes) -> None:
    for j in range(codes.shape[0]):
        cells, table, bins = codes[j], tables[j], out[j]
        for i in range(cells.size):
            bins[i] = table[np.uint64(cells[i])]


def split_rows(cells: Codes, rows: Int32, goes_left: Codes, lefts: Int32, rights: Int32) -> int:
    n_left = np.uint64(0)
    for i in range(rows.size):
        row = rows[i]
        lefts[n_left] = row  # written to both sides; only one side moves on
        rights[np.uint64(i) - n_left] = row
        n_left += np.uint64(goes_left[np.uint64(cells[np.uint64(row)])])
    return int(n_left)


# --------------------------------------------------------------------------------------- trees
def leaf_ids(trees: Packed, codes: Codes, out: LeafIds) -> None:
    stack = np.empty((trees.depth.max() + 2, BLOCK), np.uint8)
    for lo in range(0, out.shape[1], BLOCK):
        for t in range(out.shape[0]):
            _route(trees, t, codes, lo, stack, out[t, lo : lo + BLOCK])


def sum_leaves(
    trees: Packed, codes: Codes, node_of: Int32, pairs: Int32, stats: IntArray, out: IntArray
) -> None:
    """As `sum_cells`, with a tree's leaves for a feature's cells."""
    stack = np.empty((trees.depth.max() + 2, BLOCK), np.uint8)
    one, other = np.empty(BLOCK, np.uint16), np.empty(BLOCK, np.uint16)
    starts, words = np.empty(BLOCK, np.uint32), np.empty(BLOCK, np.int64)
    lanes, held = _lanes(stats, out), 0
    for lo in range(0, node_of.size, BLOCK):
        mine = stats[lo : lo + BLOCK]
        at = _starts(node_of[lo : lo + BLOCK], out.shape[2], starts)
        held = _pack(mine, words, held, lanes, out)
        a, b = one[: at.size], other[: at.size]
        for j in range(0, pairs.size, 2):
            _route(trees, pairs[j], codes, lo, stack, a)
            _route(trees, pairs[j + 1], codes, lo, stack, b)
            _add_two(a, b, at, mine, words, held, lanes[j : j + 2], out[j : j + 2])
    _unpack(lanes, out)


def add_values(trees: Packed, codes: Codes, low: float, high: float, raw: FloatArray) -> None:
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


@_helper
def _route(trees: Packed, t: int, codes: Codes, lo: int, stack: Codes, leaves: LeafIds) -> None:
    """Leaf of each row from `lo` on, as many as `leaves` has room for."""
    if trees.n_leaves[t] > BYTE_LEAVES:
        _by_rows(trees, t, codes, lo, leaves)
        return
    if trees.oblivious[t]:
        _by_levels(trees, t, codes, lo, stack[0, : leaves.size])
    else:
        _by_nodes(trees, t, codes, lo, leaves.size, stack)
    for i in range(leaves.size):
        leaves[i] = stack[0, i]


@_helper
def _by_nodes(trees: Packed, t: int, codes: Codes, lo: int, size: int, stack: Codes) -> None:
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


@_helper
def _take_left(cells: Codes, start: int, width: int, left: Codes, result: Codes) -> None:
    """Rows whose cell is in the run take the left result; cells below `start` wrap to the top."""
    for i in range(cells.size):
        yes, no = left[i], result[i]
        result[i] = yes if np.uint8(cells[i] - start) < width else no


@_helper
def _by_levels(trees: Packed, t: int, codes: Codes, lo: int, leaves: Codes) -> None:
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


@_helper
def _by_rows(trees: Packed, t: int, codes: Codes, lo: int, leaves: LeafIds) -> None:
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


# --------------------------------------------------------------------------------------- noise
def invert(
    words: Words, thresholds: Words, guide: Int32, shift: np.uint64, out: IntArray, ties: IntArray
) -> int:
    n_ties = 0
    last = np.uint64(thresholds.size)
    for i in range(words.size):
        word = words[i]
        k = np.uint64(guide[word >> shift])
        while k < last and thresholds[k] <= word:
            k += np.uint64(1)
        out[i] = k
        if k == last or (k > 0 and thresholds[k - np.uint64(1)] == word):
            ties[n_ties] = i
            n_ties += 1
    return n_ties
