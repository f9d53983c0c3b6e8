"""The loops over rows: integers in, integers out. The only file that imports numba.

Every kernel is written twice, with the same arguments and the same bits as its result: a *loop*
that numba compiles, and a *plain* NumPy form that is the definition. Starting numba costs more
than a small fit, so a process begins with the plain forms and changes over once they have done
about as much work as starting would have cost (the ski-rental rule: never worse than twice the
better choice made in hindsight). Tests hold the two forms against each other.

Sums are exact for any data. Accumulators are int64 from the first row on; there are no packed
or narrow lanes that could wrap before noise is added, and int64 wraps in the ring of the masks.

Shapes: F features, n rows, k rows of a block or selection, B bins, C channels, T trees, L leaves,
O outputs. Codes are uint8, feature-major (F, n). Loops index with unsigned numbers, since a signed
index costs a test for negative, and read an element before they choose by it, since the compiler
keeps a branch otherwise.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray

from hedgerow.errors import DataError, SpecError
from hedgerow.privacy.sampling import search
from hedgerow.trees import N_CODES, Codes, Floats, Packed, Tree, Words, descend, pack

Groups = NDArray[np.uint8] | NDArray[np.uint16]  # cell codes, or leaf numbers
Labels = NDArray[np.uint8]
LeafIds = NDArray[np.uint16]
Int64 = NDArray[np.int64]
Rows = NDArray[np.int32]
Array = NDArray[Any]

BLOCK = 4096  # rows that stay in the first-level cache while all features or trees pass over them
BYTE_LEAVES = 256  # up to here a leaf number is a byte, and a tree is evaluated 32 rows at a time
PLAIN_STEPS = 2**26  # plain work, in steps of a few ns, that costs as much as starting numba


class Kernel:
    """A loop and its plain form; `run` picks one by the work done so far in this process."""

    steps_so_far: ClassVar[int] = 0

    def __init__(self, loop: Callable[..., Any], plain: Callable[..., Any]) -> None:
        self.loop, self.plain = loop, plain

    def run(self, steps: int, *args: Any) -> Any:
        Kernel.steps_so_far += steps
        if Kernel.steps_so_far < PLAIN_STEPS:
            return self.plain(*args)
        return self.compiled(*args)

    def compiled(self, *args: Any) -> Any:
        return _compile(self.loop)(*args)


# ---------------------------------------------------------------------------- sums over groups
def count_cells(
    codes: Groups,
    rows: Rows | None,
    features: ArrayLike,
    labels: Labels,
    n_bins: int,
    n_classes: int,
) -> Int64:
    """(f, B, C) rows of a selection in each bin of the f features, by class. None: all rows."""
    chosen = _selection(rows, codes.shape[1])
    mine = _checked_labels(_weights(labels, chosen, codes.shape[1], np.uint8), n_classes)
    return _sum_cells(codes, chosen, features, mine, n_bins, n_classes)


def sum_cells(
    codes: Groups, rows: Rows | None, features: ArrayLike, stats: Int64, n_bins: int
) -> Int64:
    """(f, B, C) sums of `stats` (n, C) over a selection in each bin of the f features."""
    chosen = _selection(rows, codes.shape[1])
    mine = _weights(stats, chosen, codes.shape[1], np.int64)
    return _sum_cells(codes, chosen, features, mine, n_bins, mine.shape[1])


def _sum_cells(
    codes: Groups,
    rows: Rows | None,
    features: ArrayLike,
    weights: Array,
    n_bins: int,
    channels: int,
) -> Int64:
    """Bytes are summed into all 256 codes, so that none can fall outside; then bins are kept."""
    wanted = np.asarray(features, dtype=np.int32)
    if wanted.size and not 0 <= wanted.min() <= wanted.max() < len(codes):
        raise SpecError(f"features are {wanted.tolist()}; the codes have {len(codes)} columns.")
    is_byte = codes.dtype == np.uint8
    if not is_byte and codes.size:
        _check_bins(int(codes.max()) < n_bins, n_bins)
    pairs = _pairs(wanted)
    out = np.zeros((len(pairs), N_CODES if is_byte else n_bins, channels), dtype=np.int64)
    if len(weights):
        selected = _input(() if rows is None else rows, np.int32)
        steps = pairs.size * weights.size
        SUM_CELLS.run(steps, _input(codes, codes.dtype), selected, pairs, weights, out)
    _check_bins(not out[:, n_bins:].any(), n_bins)
    return out[: wanted.size, :n_bins]


def _sum_cells_loop(codes: Groups, rows: Rows, pairs: Rows, weights: Array, out: Int64) -> None:
    first, second = np.empty(BLOCK, codes.dtype), np.empty(BLOCK, codes.dtype)
    for lo in range(0, len(weights), BLOCK):
        mine = weights[lo : lo + BLOCK]
        for j in range(0, pairs.size, 2):
            a = _cells(codes[pairs[j]], rows, lo, lo + len(mine), first)
            b = _cells(codes[pairs[j + 1]], rows, lo, lo + len(mine), second)
            _add_two(a, b, mine, out[j], out[j + 1])


def _cells(column: Array, rows: Rows, lo: int, hi: int, buffer: Array) -> Array:
    """Cells of rows lo to hi of a selection; the empty selection stands for all rows."""
    if rows.size == 0:
        return column[lo:hi]
    for i in range(hi - lo):
        buffer[i] = column[np.uint64(rows[lo + i])]
    return buffer[: hi - lo]


def _add_two(a: Array, b: Array, weights: Array, out_a: Int64, out_b: Int64) -> None:
    """Two groups at once: an addition need not wait for the last one in the same group."""
    if weights.ndim == 1:
        _count_two(a, b, weights, out_a, out_b)
    elif weights.shape[1] == 2:
        _sum_two(a, b, weights, out_a, out_b)
    else:
        for i in range(weights.shape[0]):
            p, q = np.uint64(a[i]), np.uint64(b[i])
            for c in range(weights.shape[1]):
                out_a[p, np.uint64(c)] += weights[i, c]
                out_b[q, np.uint64(c)] += weights[i, c]


def _count_two(a: Array, b: Array, labels: Labels, out_a: Int64, out_b: Int64) -> None:
    for i in range(labels.size):
        label = np.uint64(labels[i])
        out_a[np.uint64(a[i]), label] += 1
        out_b[np.uint64(b[i]), label] += 1


def _sum_two(a: Array, b: Array, stats: Int64, out_a: Int64, out_b: Int64) -> None:
    """Two channels, such as gradient and Hessian, side by side in one register."""
    zero, one = np.uint64(0), np.uint64(1)
    for i in range(stats.shape[0]):
        p, q = np.uint64(a[i]), np.uint64(b[i])
        g, h = stats[i, 0], stats[i, 1]
        g_a, h_a = out_a[p, zero] + g, out_a[p, one] + h
        out_a[p, zero], out_a[p, one] = g_a, h_a
        g_b, h_b = out_b[q, zero] + g, out_b[q, one] + h
        out_b[q, zero], out_b[q, one] = g_b, h_b


def _sum_cells_plain(codes: Groups, rows: Rows, pairs: Rows, weights: Array, out: Int64) -> None:
    for j, feature in enumerate(pairs):
        _add_plain(codes[feature][rows] if rows.size else codes[feature], weights, out[j])


def _add_plain(index: Array, weights: Array, out: Int64) -> None:
    if weights.ndim == 1:
        joint = index.astype(np.intp) * out.shape[1] + weights
        out += np.bincount(joint, minlength=out.size).reshape(out.shape)
    else:
        for c in range(out.shape[1]):
            np.add.at(out[:, c], index, weights[:, c])


SUM_CELLS = Kernel(_sum_cells_loop, _sum_cells_plain)


# ------------------------------------------------------------------------- codes and selections
def encode_edges(values: NDArray[np.floating[Any]], edges: Sequence[float], out: Codes) -> None:
    """Writes the number of edges at or below each value; NaN becomes len(edges) + 1, missing."""
    cuts = np.asarray(edges, dtype=np.float64)
    if len(cuts) + 2 > N_CODES or not (np.diff(cuts) > 0).all():
        raise SpecError(f"{len(cuts)} edges; give at most {N_CODES - 2}, rising.")
    numbers = _input(values, np.float64)
    steps = 16 * numbers.size
    if _is_even(cuts):
        ENCODE_EVEN.run(steps, numbers, _input(cuts, np.float64), out)
    else:
        ENCODE.run(steps, numbers, _input(cuts, np.float64), out)


def _is_even(cuts: Floats) -> bool:
    """Whether a straight line names every value's cell up to one cell."""
    if len(cuts) < 2:
        return False
    line = np.linspace(cuts[0], cuts[-1], len(cuts))
    return bool(np.abs(cuts - line).max() < 0.25 * (line[1] - line[0]))


def _encode_loop(values: Floats, cuts: Floats, out: Codes) -> None:
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
            code = min(found[i], cuts.size)  # infinity is not below the padding
            out[lo + i] = cuts.size + 1 if np.isnan(block[i]) else code


def _encode_even_loop(values: Floats, cuts: Floats, out: Codes) -> None:
    """A straight line names the cell up to one; the cuts themselves decide, so no bit differs."""
    low, most, missing = cuts[0], np.float64(cuts.size), np.uint64(cuts.size + 1)
    per_cell = (cuts.size - 1) / (cuts[-1] - low)
    around = np.full(cuts.size + 2, np.nan)  # cell k lies in around[k:k + 2]; NaN stops a step
    around[1:-1] = cuts
    for i in range(values.size):
        x = values[i]
        line = (x - low) * per_cell + 1.0
        line = line if line > 0.0 else 0.0  # NaN too
        cell = np.uint64(np.int32(line if line < most else most))
        cell += np.uint64(x >= around[cell + np.uint64(1)])
        cell -= np.uint64(x < around[cell])
        out[i] = cell if x == x else missing


def _encode_plain(values: Floats, cuts: Floats, out: Codes) -> None:
    out[:] = np.searchsorted(cuts, values, side="right")
    out[np.isnan(values)] = len(cuts) + 1


def recode(codes: Codes, tables: Codes) -> Codes:
    """(F, n) bins: cell c of feature j becomes tables[j, c]."""
    if tables.shape != (len(codes), N_CODES):
        raise SpecError(f"tables have shape {tables.shape}; give ({len(codes)}, {N_CODES}).")
    out = np.empty(codes.shape, dtype=np.uint8)
    RECODE.run(codes.size, _input(codes, np.uint8), _input(tables, np.uint8), out)
    return out


def _recode_loop(codes: Codes, tables: Codes, out: Codes) -> None:
    for j in range(codes.shape[0]):
        cells, table, bins = codes[j], tables[j], out[j]
        for i in range(cells.size):
            bins[i] = table[np.uint64(cells[i])]


def _recode_plain(codes: Codes, tables: Codes, out: Codes) -> None:
    for cells, table, bins in zip(codes, tables, out, strict=True):
        bins[:] = table[cells]


def split_rows(cells: Codes, rows: Rows | None, left: int) -> tuple[Rows, Rows]:
    """The rows of a selection whose cell is in the bit set `left`, and the others, in order."""
    if rows is None:
        rows = np.arange(len(cells), dtype=np.int32)
    _selection(rows, len(cells))
    chosen = _input(rows, np.int32)
    bits = np.frombuffer(left.to_bytes(N_CODES // 8, "little"), np.uint8)
    goes_left = _input(np.unpackbits(bits, bitorder="little"), np.uint8)
    lefts, rights = np.empty_like(chosen), np.empty_like(chosen)
    n_left = SPLIT_ROWS.run(chosen.size, _input(cells, np.uint8), chosen, goes_left, lefts, rights)
    return lefts[:n_left].copy(), rights[: chosen.size - n_left].copy()


def _split_rows_loop(cells: Codes, rows: Rows, goes_left: Codes, lefts: Rows, rights: Rows) -> int:
    n_left = np.uint64(0)
    for i in range(rows.size):
        row = rows[i]
        lefts[n_left] = row  # written to both sides; only one side moves on
        rights[np.uint64(i) - n_left] = row
        n_left += np.uint64(goes_left[np.uint64(cells[np.uint64(row)])])
    return int(n_left)


def _split_rows_plain(cells: Codes, rows: Rows, goes_left: Codes, lefts: Rows, rights: Rows) -> int:
    left = goes_left[cells[rows]] == 1
    n_left = int(left.sum())
    lefts[:n_left], rights[: rows.size - n_left] = rows[left], rows[~left]
    return n_left


ENCODE = Kernel(_encode_loop, _encode_plain)
ENCODE_EVEN = Kernel(_encode_even_loop, _encode_plain)
RECODE = Kernel(_recode_loop, _recode_plain)
SPLIT_ROWS = Kernel(_split_rows_loop, _split_rows_plain)


# --------------------------------------------------------------------------------------- trees
def leaf_ids(trees: Packed | Sequence[Tree], codes: Codes) -> LeafIds:
    """(T, n) number of each row's leaf, counted from the left, in each tree."""
    packed = _packed(trees)
    out = np.empty((len(packed.depth), codes.shape[1]), dtype=np.uint16)
    LEAF_IDS.run(_routing_steps(packed, codes), packed, _columns(packed, codes), out)
    return out


def leaf_sums(
    trees: Packed | Sequence[Tree], codes: Codes, stats: Int64, rows: Rows | None = None
) -> Int64:
    """(T, L, C) sums of `stats` (n, C) over the rows of each leaf; L is the largest tree's."""
    chosen = _selection(rows, codes.shape[1])
    mine = _weights(stats, chosen, codes.shape[1], np.int64)
    return _sum_leaves(_packed(trees), codes, chosen, mine, mine.shape[1])


def leaf_counts(
    trees: Packed | Sequence[Tree],
    codes: Codes,
    labels: Labels,
    n_classes: int,
    rows: Rows | None = None,
) -> Int64:
    """(T, L, C) rows in each leaf by class; L is the largest tree's."""
    chosen = _selection(rows, codes.shape[1])
    mine = _checked_labels(_weights(labels, chosen, codes.shape[1], np.uint8), n_classes)
    return _sum_leaves(_packed(trees), codes, chosen, mine, n_classes)


def _sum_leaves(
    trees: Packed, codes: Codes, rows: Rows | None, weights: Array, channels: int
) -> Int64:
    mine = _columns(trees, codes if rows is None else codes[:, rows])
    pairs = _pairs(np.arange(len(trees.depth), dtype=np.int32))
    out = np.zeros((len(pairs), int(trees.n_leaves.max()), channels), dtype=np.int64)
    SUM_LEAVES.run(_routing_steps(trees, mine), trees, pairs, mine, weights, out)
    return out[: len(trees.depth)]


def predict(trees: Packed | Sequence[Tree], codes: Codes) -> Floats:
    """(n, O) sum of the trees' values, added in the order of the trees."""
    packed = _packed(trees)
    return add_values(packed, codes, np.zeros((codes.shape[1], packed.value.shape[2])))


def add_values(
    trees: Packed | Sequence[Tree],
    codes: Codes,
    raw: Floats,
    clip: tuple[float, float] | None = None,
) -> Floats:
    """Adds the trees to `raw` (n, O) in place, one after the other, clipping after each."""
    packed = _packed(trees)
    if raw.shape != (codes.shape[1], packed.value.shape[2]) or raw.dtype != np.float64:
        raise SpecError(
            f"raw is {raw.dtype} {raw.shape}; give float64 "
            f"{(codes.shape[1], packed.value.shape[2])}, one row per row of the codes."
        )
    low, high = (-np.inf, np.inf) if clip is None else map(float, clip)
    mine = _columns(packed, codes)
    ADD_VALUES.run(_routing_steps(packed, codes), packed, mine, low, high, raw)
    return raw


def _leaf_ids_loop(trees: Packed, codes: Codes, out: LeafIds) -> None:
    stack = np.empty((trees.depth.max() + 2, BLOCK), np.uint8)
    for lo in range(0, out.shape[1], BLOCK):
        for t in range(out.shape[0]):
            _route(trees, t, codes, lo, stack, out[t, lo : lo + BLOCK])


def _sum_leaves_loop(trees: Packed, pairs: Rows, codes: Codes, weights: Array, out: Int64) -> None:
    stack = np.empty((trees.depth.max() + 2, BLOCK), np.uint8)
    first, second = np.empty(BLOCK, np.uint16), np.empty(BLOCK, np.uint16)
    for lo in range(0, len(weights), BLOCK):
        mine = weights[lo : lo + BLOCK]
        a, b = first[: len(mine)], second[: len(mine)]
        for j in range(0, pairs.size, 2):
            _route(trees, pairs[j], codes, lo, stack, a)
            _route(trees, pairs[j + 1], codes, lo, stack, b)
            _add_two(a, b, mine, out[j], out[j + 1])


def _add_values_loop(trees: Packed, codes: Codes, low: float, high: float, raw: Floats) -> None:
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


def _take_left(cells: Codes, start: int, width: int, left: Codes, result: Codes) -> None:
    """Rows whose cell is in the run take the left result; cells below `start` wrap to the top."""
    for i in range(cells.size):
        yes, no = left[i], result[i]
        result[i] = yes if np.uint8(cells[i] - start) < width else no


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


def _leaf_ids_plain(trees: Packed, codes: Codes, out: LeafIds) -> None:
    for t in range(len(out)):
        start = np.full(codes.shape[1], trees.root[t], dtype=np.int32)
        out[t] = trees.leaf[descend(trees, start, codes)]


def _sum_leaves_plain(trees: Packed, pairs: Rows, codes: Codes, weights: Array, out: Int64) -> None:
    leaves = np.empty((len(trees.depth), codes.shape[1]), dtype=np.uint16)
    _leaf_ids_plain(trees, codes, leaves)
    for j, t in enumerate(pairs):
        _add_plain(leaves[t], weights, out[j])


def _add_values_plain(trees: Packed, codes: Codes, low: float, high: float, raw: Floats) -> None:
    leaves = np.empty((len(trees.depth), codes.shape[1]), dtype=np.uint16)
    _leaf_ids_plain(trees, codes, leaves)
    for value, mine in zip(trees.value, leaves, strict=True):
        raw += value[mine]
        np.clip(raw, low, high, out=raw)


LEAF_IDS = Kernel(_leaf_ids_loop, _leaf_ids_plain)
SUM_LEAVES = Kernel(_sum_leaves_loop, _sum_leaves_plain)
ADD_VALUES = Kernel(_add_values_loop, _add_values_plain)


# --------------------------------------------------------------------------------------- noise
def invert(
    words: Words, thresholds: Words, guide: Rows, shift: int, out: Int64, ties: Int64
) -> int:
    """Looks words up in a cumulative table; `hedgerow.privacy.sampling.Invert` says how."""
    if not len(words) == len(out) == len(ties):
        raise SpecError(
            f"{len(words)} words for {len(out)} results and {len(ties)} ties; give one each."
        )
    table = _input(thresholds, np.uint64), _input(guide, np.int32)
    steps = 8 * words.size
    return int(INVERT.run(steps, _input(words, np.uint64), *table, np.uint64(shift), out, ties))


def _invert_loop(
    words: Words, thresholds: Words, guide: Rows, shift: np.uint64, out: Int64, ties: Int64
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


INVERT = Kernel(_invert_loop, search)


# --------------------------------------------------------------------------------- preparation
_HELPERS = (
    _cells,
    _add_two,
    _count_two,
    _sum_two,
    _route,
    _by_nodes,
    _take_left,
    _by_levels,
    _by_rows,
)


@cache
def _numba() -> Any:
    import numba
    from numba.extending import register_jitable

    for helper in _HELPERS:
        register_jitable(helper)
    return numba


@cache
def _compile(loop: Callable[..., Any]) -> Callable[..., Any]:
    """Compiled on first use and kept on disk for the next process."""
    compiled: Callable[..., Any] = _numba().njit(cache=True, nogil=True)(loop)
    return compiled


def _input(values: ArrayLike, dtype: DTypeLike) -> Array:
    """One layout and read-only: numba compiles a loop anew for every kind of array it meets."""
    array = np.ascontiguousarray(values, dtype=dtype).view()
    array.flags.writeable = False
    return array


def _pairs(groups: Rows) -> Rows:
    """An even number of groups: the last may stand twice, its second sum is dropped."""
    return _input(np.append(groups, groups[-1:]) if groups.size % 2 else groups, np.int32)


def _selection(rows: Rows | None, n_rows: int) -> Rows | None:
    """Checked, since a compiled loop does not look where it reads."""
    if rows is not None and rows.size and not 0 <= rows.min() <= rows.max() < n_rows:
        raise DataError(f"rows {rows.min()} to {rows.max()} were selected of {n_rows}.")
    return rows


def _weights(values: Array, rows: Rows | None, n_rows: int, dtype: DTypeLike) -> Array:
    if len(values) != n_rows:
        raise DataError(f"{len(values)} statistics for {n_rows} rows; give one for each row.")
    return _input(values if rows is None else values[rows], dtype)


def _checked_labels(labels: Labels, n_classes: int) -> Labels:
    if labels.size and int(labels.max()) >= n_classes:
        raise DataError(f"a label is {labels.max()}; {n_classes} classes end at {n_classes - 1}.")
    return labels


def _check_bins(inside: bool, n_bins: int) -> None:
    if not inside:
        raise DataError(f"a code is {n_bins} or more; there are {n_bins} bins.")


def _packed(trees: Packed | Sequence[Tree]) -> Packed:
    return trees if isinstance(trees, Packed) else pack(trees)


def _columns(trees: Packed, codes: Codes) -> Codes:
    if len(codes) != trees.n_features:
        raise SpecError(f"codes have {len(codes)} columns; the trees read {trees.n_features}.")
    return _input(codes, np.uint8)


def _routing_steps(trees: Packed, codes: Codes) -> int:
    return int(trees.depth.sum() + 1) * 8 * int(codes.shape[1])
