"""Sums over the leaves of trees, and the trees' values added up: one pass over the rows.

Shapes: F features, n rows, N nodes, T trees, L leaves of the largest, C channels, O outputs.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from hedgerow.errors import SpecError
from hedgerow.kernels.dispatch import (
    Array,
    Kernel,
    as_input,
    check_one_each,
    check_selection,
    rows_without,
    unknown_labels,
)
from hedgerow.kernels.loops import add_values_loop, sum_leaves_loop
from hedgerow.kernels.sums import add_group, one_each, paired
from hedgerow.models.packing import Packed
from hedgerow.models.tree import descend
from hedgerow.schema.arrays import Codes, FloatArray, Int32, IntArray

ROUTED = 2**14  # rows that the plain forms route at a time: few enough to stay in the cache


def leaf_sums(trees: Packed, codes: Codes, stats: IntArray, rows: Int32 | None = None) -> IntArray:
    """(T, L, C) sums of `stats` (n, C) over the rows of each leaf."""
    codes, mine = _picked(rows, codes, as_input(stats, np.int64))
    one_node = np.zeros(len(mine), dtype=np.int32)
    return _by_leaf(trees, codes, one_node, 1, mine)[:, 0]


def leaf_counts(
    trees: Packed, codes: Codes, labels: Codes, n_classes: int, rows: Int32 | None = None
) -> IntArray:
    """(T, L, C) rows in each leaf by class; a label that is no class counts nowhere."""
    left_out = unknown_labels(labels, n_classes)
    if left_out is not None:
        check_one_each(labels, codes.shape[1])
        rows, labels = rows_without(left_out, rows), np.where(left_out, 0, labels)
    codes, classes = _picked(rows, codes, as_input(labels, np.uint8))
    out = _by_leaf(trees, codes, classes, n_classes, one_each(classes))
    return np.ascontiguousarray(out[..., 0].swapaxes(1, 2))


def add_values(
    trees: Packed, codes: Codes, raw: FloatArray, clip: tuple[float, float] | None = None
) -> FloatArray:
    """Adds the trees to `raw` (n, O) in place, one after the other, clipping after each."""
    if raw.shape != (codes.shape[1], trees.value.shape[2]) or raw.dtype != np.float64:
        raise SpecError(
            f"raw is {raw.dtype} {raw.shape}; give float64 "
            f"{(codes.shape[1], trees.value.shape[2])}, one row per row of the codes."
        )
    low, high = (-np.inf, np.inf) if clip is None else map(float, clip)
    ADD_VALUES.run(trees, _columns(trees, codes), low, high, raw)
    return raw


def _picked(rows: Int32 | None, codes: Codes, values: Array) -> tuple[Codes, Array]:
    check_one_each(values, codes.shape[1])
    if rows is None:
        return codes, values
    check_selection(rows, codes.shape[1])
    return codes[:, rows], as_input(values[rows], values.dtype)


def _by_leaf(
    trees: Packed, codes: Codes, node_of: Array, n_nodes: int, stats: IntArray
) -> IntArray:
    """(T, N, L, C)"""
    mine = _columns(trees, codes)
    pairs = paired(np.arange(len(trees.depth), dtype=np.int32))
    shape = (pairs.size, n_nodes, int(trees.n_leaves.max()), max(stats.shape[1], 1))
    out, parts = np.zeros(shape, dtype=np.int64), as_input(node_of, np.int32)
    SUM_LEAVES.run(trees, mine, parts, pairs, stats, out)
    return out[: len(trees.depth)]


def _columns(trees: Packed, codes: Codes) -> Codes:
    if len(codes) != trees.n_features:
        raise SpecError(f"codes have {len(codes)} columns; the trees read {trees.n_features}.")
    return as_input(codes, np.uint8)


def _sum_leaves_plain(
    trees: Packed, codes: Codes, node_of: Int32, pairs: Int32, stats: IntArray, out: IntArray
) -> None:
    for part in _parts(trees, codes):
        leaves = _leaves(trees, codes[:, part])
        for t, mine in zip(pairs, out, strict=True):
            add_group(leaves[t], node_of[part], stats[part], mine)


def _add_values_plain(
    trees: Packed, codes: Codes, low: float, high: float, raw: FloatArray
) -> None:
    tree = np.arange(len(trees.depth))[:, None]
    for part in _parts(trees, codes):
        said = trees.value[tree, _leaves(trees, codes[:, part])]  # (T, rows, O)
        if low == -np.inf and high == np.inf:  # sums that are kept on the way are added in order
            raw[part] = np.add.accumulate(np.concatenate([raw[None, part], said]))[-1]
            continue
        for value in said:
            raw[part] = np.minimum(np.maximum(raw[part] + value, low), high)


def _parts(trees: Packed, codes: Codes) -> Iterator[slice]:
    """Blocks of rows, such that all trees together have `ROUTED` rows or not many more."""
    size = -(-ROUTED // len(trees.depth))
    return (slice(lo, lo + size) for lo in range(0, codes.shape[1], size))


def _leaves(trees: Packed, codes: Codes) -> Int32:
    """(T, n) number of each row's leaf in each tree, counted from the left."""
    start = np.repeat(trees.root[:-1, None], codes.shape[1], axis=1)
    return trees.leaf[descend(trees, start, codes)]


SUM_LEAVES = Kernel(sum_leaves_loop, _sum_leaves_plain, effort=24)
ADD_VALUES = Kernel(add_values_loop, _add_values_plain, effort=13)
