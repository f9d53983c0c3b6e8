"""The loops over rows, each in two forms: integers in, integers out. Only this file starts numba.

A kernel is a *loop* that numba compiles and a *plain* NumPy form that is the definition; both
take the same arguments and leave the same bits. Starting numba costs more than a small fit, so a
process begins with the plain forms and changes over once they have done about as much work as
starting would have cost (the ski-rental rule: never worse than twice the better choice made in
hindsight).

Sums are exact for any data: no accumulator can overflow but int64 itself, in the masks' own ring.

Shapes: F features, n rows, N nodes, B bins, C channels, T trees, L leaves, O outputs. Codes are
uint8, feature-major (F, n); leaf numbers may stand in for them as uint16.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray

from hedgerow.errors import DataError, SpecError
from hedgerow.kernels import loops
from hedgerow.kernels.loops import Array, GroupCodes, LeafIds
from hedgerow.privacy.noise.sampling import search
from hedgerow.values.arrays import N_CODES, Codes, FloatArray, Int32, IntArray, Words
from hedgerow.values.trees import Packed, Tree, descend, pack

PLAIN_STEPS = 2**26  # plain work, in steps of a few ns, that costs as much as starting numba
N_BUCKETS = 4096  # of the guide to a feature's edges; one byte each, so it stays in the cache


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
    codes: GroupCodes,
    rows: Int32 | None,
    features: ArrayLike,
    labels: Codes,
    n_bins: int,
    n_classes: int,
) -> IntArray:
    """(f, B, C) rows of a selection in each bin of the f features, by class. None: all rows."""
    one = None if rows is None else [rows]
    (counts,) = count_level(codes, one, features, labels, n_bins, n_classes)
    return np.asarray(counts)


def sum_cells(
    codes: GroupCodes, rows: Int32 | None, features: ArrayLike, stats: IntArray, n_bins: int
) -> IntArray:
    """(f, B, C) sums of `stats` (n, C) over a selection in each bin of the f features."""
    (sums,) = sum_level(codes, None if rows is None else [rows], features, stats, n_bins)
    return np.asarray(sums)


def count_level(
    codes: GroupCodes,
    nodes: Sequence[Int32] | None,
    features: ArrayLike,
    labels: Codes,
    n_bins: int,
    n_classes: int,
) -> IntArray:
    """(N, f, B, C) as `count_cells` for each of N selections; disjoint ones take one pass.

    A class within a node is a smaller node, in which every row counts as one.
    """
    layout = _laid_out(nodes, codes.shape[1])
    classes = _of_rows(_classes(labels, n_classes), layout, codes)
    parts = layout.node_of * np.int32(n_classes) + classes
    n_parts = layout.n_nodes * n_classes
    out = _by_cell(codes, layout.rows, parts, n_parts, features, _one_each(parts), n_bins)
    by_class = out.reshape(len(out), layout.n_nodes, n_classes, n_bins)
    return np.ascontiguousarray(by_class.transpose(1, 0, 3, 2)[: layout.n_wanted])


def sum_level(
    codes: GroupCodes,
    nodes: Sequence[Int32] | None,
    features: ArrayLike,
    stats: IntArray,
    n_bins: int,
) -> IntArray:
    """(N, f, B, C) as `sum_cells` for each of N selections; disjoint ones take one pass."""
    layout = _laid_out(nodes, codes.shape[1])
    mine = _of_rows(_input(stats, np.int64), layout, codes)
    out = _by_cell(codes, layout.rows, layout.node_of, layout.n_nodes, features, mine, n_bins)
    return np.ascontiguousarray(out.swapaxes(0, 1)[: layout.n_wanted])


class _Layout(NamedTuple):
    rows: Int32 | None  # (k,) to visit; None: all, in order
    node_of: Int32  # (k,)
    n_nodes: int
    n_wanted: int  # the first of them


def _laid_out(nodes: Sequence[Int32] | None, n_rows: int) -> _Layout:
    """Picking rows out costs more than passing over them, once for each node.

    So if most rows are wanted, once each, all are visited, and those that nobody wants go to
    one node more.
    """
    if nodes is None:
        return _Layout(None, np.zeros(n_rows, dtype=np.int32), 1, 1)
    for rows in nodes:
        _check_selection(rows, n_rows)
    sizes = [len(rows) for rows in nodes]
    if 2 * sum(sizes) > n_rows:
        node_of = np.full(n_rows, len(nodes), dtype=np.int32)
        for k, rows in enumerate(nodes):
            node_of[rows] = k
        if np.count_nonzero(node_of < len(nodes)) == sum(sizes):
            return _Layout(None, node_of, len(nodes) + 1, len(nodes))
    node_of = np.repeat(np.arange(len(nodes), dtype=np.int32), sizes)
    return _Layout(np.concatenate([*nodes, _NOBODY]), node_of, len(nodes), len(nodes))


def _by_cell(
    codes: GroupCodes,
    rows: Int32 | None,
    node_of: Int32,
    n_nodes: int,
    features: ArrayLike,
    stats: IntArray,
    n_bins: int,
) -> IntArray:
    """(f, N, B, C)"""
    wanted = np.asarray(features, dtype=np.int32)
    if wanted.size and not 0 <= wanted.min() <= wanted.max() < len(codes):
        raise SpecError(f"features are {wanted.tolist()}; the codes have {len(codes)} columns.")
    pairs = _pairs(wanted)
    out = _zeros((pairs.size, n_nodes, n_bins, max(stats.shape[1], 1)), codes.dtype)
    chosen = _input(_NOBODY if rows is None else rows, np.int32)
    args = _input(codes, codes.dtype), chosen, _input(node_of, np.int32), pairs, stats, out
    if not SUM_CELLS.run(pairs.size * node_of.size * out.shape[3], *args):
        raise DataError(f"a code is {n_bins} or more; there are {n_bins} bins.")
    return out[: wanted.size]


def _sum_cells_plain(
    codes: GroupCodes, rows: Int32, node_of: Int32, pairs: Int32, stats: IntArray, out: IntArray
) -> bool:
    for j, feature in enumerate(pairs if node_of.size else ()):
        cells = codes[feature][rows] if rows.size else codes[feature]
        if cells.max() >= out.shape[2]:
            return False
        _add_plain(cells, node_of, stats, out[j])
    return True


def _add_plain(group: Array, node_of: Int32, stats: IntArray, out: IntArray) -> None:
    """Adds one group, out: (N, B, C)."""
    flat = out.reshape(-1, out.shape[2])
    index = node_of.astype(np.intp) * out.shape[1] + group
    if stats.shape[1] == 0:
        flat[:, 0] += np.bincount(index, minlength=len(flat))
    for c in range(stats.shape[1]):
        np.add.at(flat[:, c], index, stats[:, c])


SUM_CELLS = Kernel(loops.sum_cells, _sum_cells_plain)


# ------------------------------------------------------------------------- codes and selections
def encode_edges(values: NDArray[np.floating[Any]], edges: Sequence[float], out: Codes) -> None:
    """Writes the number of edges at or below each value; NaN becomes len(edges) + 1, missing."""
    cuts = np.asarray(edges, dtype=np.float64)
    if len(cuts) + 2 > N_CODES or not (np.diff(cuts) > 0).all():
        raise SpecError(f"{len(cuts)} edges; give at most {N_CODES - 2}, rising.")
    if out.shape != values.shape or out.dtype != np.uint8:
        raise SpecError(f"out is {out.dtype} {out.shape}; give one uint8 for each value.")
    guide, scale = _guide(cuts)
    numbers = _input(values, np.float64)
    ENCODE.run(16 * numbers.size, numbers, _input(cuts, np.float64), guide, scale, out)


def _guide(cuts: FloatArray) -> tuple[Codes, float]:
    """guide[b] is the number of cuts in buckets before b; empty if a bucket would hold two.

    The bucket floor((x - low) * scale) never falls as x rises, in floating point too, so a cut
    in a lower bucket is a lower number, and only the cut in a value's own bucket is in doubt.
    """
    width = float(cuts[-1] - cuts[0]) if len(cuts) > 1 else 0.0
    if not 1e-300 < width < 1e300:
        return _input((), np.uint8), 0.0
    scale = (N_BUCKETS - 1) / width
    buckets = np.minimum((cuts - cuts[0]) * scale, N_BUCKETS - 1).astype(np.int32)
    if not np.diff(buckets).all():
        return _input((), np.uint8), 0.0
    return _input(np.searchsorted(buckets, np.arange(N_BUCKETS)), np.uint8), scale


def _encode_plain(
    values: FloatArray, cuts: FloatArray, guide: Codes, scale: float, out: Codes
) -> None:
    out[:] = np.searchsorted(cuts, values, side="right")
    out[np.isnan(values)] = len(cuts) + 1


def recode(codes: Codes, tables: Codes) -> Codes:
    """(F, n) bins: cell c of feature j becomes tables[j, c]."""
    if tables.shape != (len(codes), N_CODES):
        raise SpecError(f"tables have shape {tables.shape}; give ({len(codes)}, {N_CODES}).")
    out = np.empty(codes.shape, dtype=np.uint8)
    RECODE.run(codes.size, _input(codes, np.uint8), _input(tables, np.uint8), out)
    return out


def _recode_plain(codes: Codes, tables: Codes, out: Codes) -> None:
    for cells, table, bins in zip(codes, tables, out, strict=True):
        bins[:] = table[cells]


def split_rows(cells: Codes, rows: Int32 | None, left: int) -> tuple[Int32, Int32]:
    """The rows of a selection whose cell is in the bit set `left`, and the others, in order."""
    if rows is None:
        rows = np.arange(len(cells), dtype=np.int32)
    _check_selection(rows, len(cells))
    chosen = _input(rows, np.int32)
    bits = np.frombuffer(left.to_bytes(N_CODES // 8, "little"), np.uint8)
    goes_left = _input(np.unpackbits(bits, bitorder="little"), np.uint8)
    lefts, rights = np.empty_like(chosen), np.empty_like(chosen)
    n_left = SPLIT_ROWS.run(chosen.size, _input(cells, np.uint8), chosen, goes_left, lefts, rights)
    return lefts[:n_left].copy(), rights[: chosen.size - n_left].copy()


def _split_rows_plain(
    cells: Codes, rows: Int32, goes_left: Codes, lefts: Int32, rights: Int32
) -> int:
    left = goes_left[cells[rows]] == 1
    n_left = int(left.sum())
    lefts[:n_left], rights[: rows.size - n_left] = rows[left], rows[~left]
    return n_left


ENCODE = Kernel(loops.encode, _encode_plain)
RECODE = Kernel(loops.recode, _recode_plain)
SPLIT_ROWS = Kernel(loops.split_rows, _split_rows_plain)


# --------------------------------------------------------------------------------------- trees
def leaf_ids(trees: Packed | Sequence[Tree], codes: Codes) -> LeafIds:
    """(T, n) number of each row's leaf, counted from the left, in each tree."""
    packed = _packed(trees)
    out = np.empty((len(packed.depth), codes.shape[1]), dtype=np.uint16)
    LEAF_IDS.run(_routing_steps(packed, codes), packed, _columns(packed, codes), out)
    return out


def leaf_sums(
    trees: Packed | Sequence[Tree], codes: Codes, stats: IntArray, rows: Int32 | None = None
) -> IntArray:
    """(T, L, C) sums of `stats` (n, C) over the rows of each leaf; L is the largest tree's."""
    codes, mine = _picked(rows, codes, _input(stats, np.int64))
    one_node = np.zeros(len(mine), dtype=np.int32)
    return _by_leaf(_packed(trees), codes, one_node, 1, mine)[:, 0]


def leaf_counts(
    trees: Packed | Sequence[Tree],
    codes: Codes,
    labels: Codes,
    n_classes: int,
    rows: Int32 | None = None,
) -> IntArray:
    """(T, L, C) rows in each leaf by class; L is the largest tree's."""
    codes, classes = _picked(rows, codes, _classes(labels, n_classes))
    out = _by_leaf(_packed(trees), codes, classes, n_classes, _one_each(classes))
    return np.ascontiguousarray(out[..., 0].swapaxes(1, 2))


def _by_leaf(
    trees: Packed, codes: Codes, node_of: Array, n_nodes: int, stats: IntArray
) -> IntArray:
    """(T, N, L, C)"""
    mine = _columns(trees, codes)
    pairs = _pairs(np.arange(len(trees.depth), dtype=np.int32))
    shape = (pairs.size, n_nodes, int(trees.n_leaves.max()), max(stats.shape[1], 1))
    out, parts = np.zeros(shape, dtype=np.int64), _input(node_of, np.int32)
    SUM_LEAVES.run(_routing_steps(trees, mine), trees, mine, parts, pairs, stats, out)
    return out[: len(trees.depth)]


def predict(trees: Packed | Sequence[Tree], codes: Codes) -> FloatArray:
    """(n, O) sum of the trees' values, added in the order of the trees."""
    packed = _packed(trees)
    return add_values(packed, codes, np.zeros((codes.shape[1], packed.value.shape[2])))


def add_values(
    trees: Packed | Sequence[Tree],
    codes: Codes,
    raw: FloatArray,
    clip: tuple[float, float] | None = None,
) -> FloatArray:
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


def _leaf_ids_plain(trees: Packed, codes: Codes, out: LeafIds) -> None:
    for t in range(len(out)):
        start = np.full(codes.shape[1], trees.root[t], dtype=np.int32)
        out[t] = trees.leaf[descend(trees, start, codes)]


def _sum_leaves_plain(
    trees: Packed, codes: Codes, node_of: Int32, pairs: Int32, stats: IntArray, out: IntArray
) -> None:
    leaves = np.empty((len(trees.depth), codes.shape[1]), dtype=np.uint16)
    _leaf_ids_plain(trees, codes, leaves)
    for j, t in enumerate(pairs):
        _add_plain(leaves[t], node_of, stats, out[j])


def _add_values_plain(
    trees: Packed, codes: Codes, low: float, high: float, raw: FloatArray
) -> None:
    leaves = np.empty((len(trees.depth), codes.shape[1]), dtype=np.uint16)
    _leaf_ids_plain(trees, codes, leaves)
    for value, mine in zip(trees.value, leaves, strict=True):
        raw += value[mine]
        np.clip(raw, low, high, out=raw)


LEAF_IDS = Kernel(loops.leaf_ids, _leaf_ids_plain)
SUM_LEAVES = Kernel(loops.sum_leaves, _sum_leaves_plain)
ADD_VALUES = Kernel(loops.add_values, _add_values_plain)


# --------------------------------------------------------------------------------------- noise
def invert(
    words: Words, thresholds: Words, guide: Int32, shift: int, out: IntArray, ties: IntArray
) -> int:
    """Looks words up in a cumulative table; `hedgerow.privacy.noise.sampling.Invert` says how."""
    if not len(words) == len(out) == len(ties):
        raise SpecError(
            f"{len(words)} words for {len(out)} results and {len(ties)} ties; give one each."
        )
    table = _input(thresholds, np.uint64), _input(guide, np.int32)
    steps = 8 * words.size
    return int(INVERT.run(steps, _input(words, np.uint64), *table, np.uint64(shift), out, ties))


INVERT = Kernel(loops.invert, search)


# --------------------------------------------------------------------------------- preparation
@cache
def _numba() -> Any:
    import numba
    from numba.extending import register_jitable

    for helper in loops.HELPERS:
        register_jitable(helper)
    return numba


@cache
def _compile(loop: Callable[..., Any]) -> Callable[..., Any]:
    """Compiled on first use and kept on disk for the next process, where the disk allows it."""
    compiled: Callable[..., Any]
    try:
        compiled = _numba().njit(cache=True, nogil=True)(loop)
    except RuntimeError:  # neither the package's folder nor the user's can be written
        compiled = _numba().njit(nogil=True)(loop)
    return compiled


def _input(values: ArrayLike, dtype: DTypeLike) -> Array:
    """One layout and read-only: numba compiles a loop anew for every kind of array it meets."""
    array = np.ascontiguousarray(values, dtype=dtype).view()
    array.flags.writeable = False
    return array


_NOBODY = _input((), np.int32)


def _pairs(groups: Int32) -> Int32:
    """An even number of groups: the last may stand twice, its second sum is dropped."""
    return _input(np.append(groups, groups[-1:]) if groups.size % 2 else groups, np.int32)


def _check_selection(rows: Int32, n_rows: int) -> None:
    """A compiled loop does not look where it reads."""
    if rows.size and not 0 <= rows.min() <= rows.max() < n_rows:
        raise DataError(f"rows {rows.min()} to {rows.max()} were selected of {n_rows}.")


def _zeros(shape: tuple[int, int, int, int], code: DTypeLike) -> IntArray:
    """Sums, with room behind them for any code: a wrong one is then reported, not obeyed."""
    size, spare = math.prod(shape), (np.iinfo(np.dtype(code)).max + 1) * shape[3]
    return np.zeros(size + spare, dtype=np.int64)[:size].reshape(shape)


def _one_each(rows: Array) -> IntArray:
    """Statistics without channels: every row counts as one."""
    return _input(np.empty((len(rows), 0)), np.int64)


def _of_rows(values: Array, layout: _Layout, codes: GroupCodes) -> Array:
    _check_one_each(values, codes)
    return values if layout.rows is None else _input(values[layout.rows], values.dtype)


def _picked(rows: Int32 | None, codes: Codes, values: Array) -> tuple[Codes, Array]:
    _check_one_each(values, codes)
    if rows is None:
        return codes, values
    _check_selection(rows, codes.shape[1])
    return codes[:, rows], _input(values[rows], values.dtype)


def _check_one_each(values: Array, codes: GroupCodes) -> None:
    if len(values) != codes.shape[1]:
        raise DataError(
            f"{len(values)} labels or statistics for {codes.shape[1]} rows; give one for each row."
        )


def _classes(labels: Codes, n_classes: int) -> Codes:
    if labels.size and not 0 <= labels.min() <= labels.max() < n_classes:
        raise DataError(
            f"labels are {labels.min()} to {labels.max()}; use 0 to {n_classes - 1}, one per class."
        )
    return _input(labels, np.uint8)


def _packed(trees: Packed | Sequence[Tree]) -> Packed:
    return trees if isinstance(trees, Packed) else pack(trees)


def _columns(trees: Packed, codes: Codes) -> Codes:
    if len(codes) != trees.n_features:
        raise SpecError(f"codes have {len(codes)} columns; the trees read {trees.n_features}.")
    return _input(codes, np.uint8)


def _routing_steps(trees: Packed, codes: Codes) -> int:
    return int(trees.depth.sum() + 1) * 8 * int(codes.shape[1])
