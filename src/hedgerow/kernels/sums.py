"""Sums over the cells of features, of class labels or of statistics: integers in, integers out.

Exact for any data: sums wrap around only at int64, as the masks do.

Shapes: F features of the codes, f of them summed, n rows, k rows visited, N nodes, B bins, C
channels. Codes are uint8, feature-major (F, n); numbers of intervals may be uint16.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

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
from hedgerow.schema.arrays import Codes, GroupCodes, Int32, IntArray

RowSelections = Sequence[Int32] | None
"""The rows of each of N nodes. None: one node that holds all rows."""


def count_cells(
    codes: GroupCodes,
    nodes: RowSelections,
    features: ArrayLike,
    labels: Codes,
    n_bins: int,
    n_classes: int,
) -> IntArray:
    """(N, f, B, C) rows of each node in each bin of the f features, by class.

    Each class within a node is treated as a smaller node. A label that is no class counts nowhere.
    """
    layout = _lay_out(nodes, codes.shape[1])
    classes = layout.select(labels)  # of small nodes alone
    if unknown_labels(classes, n_classes) is not None:
        left_out = (labels < 0) | (labels >= n_classes)
        nodes = [rows_without(left_out, rows) for rows in ([None] if nodes is None else nodes)]
        return count_cells(codes, nodes, features, np.where(left_out, 0, labels), n_bins, n_classes)
    classes = as_input(classes, np.uint8)
    parts = layout.node_of * np.int32(n_classes) + classes
    n_parts = layout.n_nodes * n_classes
    out = _by_cell(codes, layout.rows, parts, n_parts, features, one_each(parts), n_bins)
    by_class = out.reshape(len(out), layout.n_nodes, n_classes, n_bins)
    return np.ascontiguousarray(by_class.transpose(1, 0, 3, 2)[: layout.n_wanted])


def sum_cells(
    codes: GroupCodes, nodes: RowSelections, features: ArrayLike, stats: IntArray, n_bins: int
) -> IntArray:
    """(N, f, B, C) sums of `stats` (n, C) over each node in each bin of the f features.

    A code that is no bin of a feature adds nothing there.
    """
    layout = _lay_out(nodes, codes.shape[1])
    mine = layout.select(as_input(stats, np.int64))
    out = _by_cell(codes, layout.rows, layout.node_of, layout.n_nodes, features, mine, n_bins)
    return np.ascontiguousarray(out.swapaxes(0, 1)[: layout.n_wanted])


def one_each(rows: Array) -> IntArray:
    """Statistics without channels: every row counts as one."""
    return as_input(np.empty((len(rows), 0)), np.int64)


def pad_to_even(groups: Int32) -> Int32:
    """Repeats the last group if their number is odd; its second sum is dropped."""
    return as_input(np.append(groups, groups[-1:]) if groups.size % 2 else groups, np.int32)


def add_group(group: Array, node_of: Int32, stats: IntArray, out: IntArray) -> None:
    """Adds the rows of one group to out (N, B, C), in plain NumPy."""
    flat = out.reshape(-1, out.shape[2])
    index = node_of.astype(np.intp) * out.shape[1] + group
    if stats.shape[1] == 0:
        flat[:, 0] += np.bincount(index, minlength=len(flat))
    for c in range(stats.shape[1]):
        np.add.at(flat[:, c], index, stats[:, c])


class _Layout(NamedTuple):
    rows: Int32 | None  # (k,) to visit; None: all, in order
    node_of: Int32  # (k,)
    n_nodes: int
    n_wanted: int  # the first of them
    n_rows: int  # of the codes

    def select(self, values: Array) -> Array:
        """(k, ...) the values of the visited rows."""
        check_one_each(values, self.n_rows)
        return values if self.rows is None else as_input(values[self.rows], values.dtype)


def _lay_out(nodes: RowSelections, n_rows: int) -> _Layout:
    """Decides how to visit the rows of all nodes: by selection, or all rows in order.

    Selecting rows costs more than skipping them. If most rows are needed, once each, all rows are
    visited, and the others go to one extra node.
    """
    if nodes is None:
        return _Layout(None, np.zeros(n_rows, dtype=np.int32), 1, 1, n_rows)
    for rows in nodes:
        check_selection(rows, n_rows)
    sizes = [len(rows) for rows in nodes]
    if 2 * sum(sizes) > n_rows:
        node_of = np.full(n_rows, len(nodes), dtype=np.int32)
        for k, rows in enumerate(nodes):
            node_of[rows] = k
        if np.count_nonzero(node_of < len(nodes)) == sum(sizes):
            return _Layout(None, node_of, len(nodes) + 1, len(nodes), n_rows)
    node_of = np.repeat(np.arange(len(nodes), dtype=np.int32), sizes)
    return _Layout(np.concatenate([*nodes, _NOBODY]), node_of, len(nodes), len(nodes), n_rows)


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
    columns = np.asarray(features, dtype=np.int32)
    if columns.size and not 0 <= columns.min() <= columns.max() < len(codes):
        raise ParameterError(
            f"features are {columns.tolist()}; the codes have {len(codes)} columns."
        )
    pairs = pad_to_even(columns)
    out = np.zeros((pairs.size, n_nodes, n_bins, max(stats.shape[1], 1)), np.int64)
    chosen = as_input(_NOBODY if rows is None else rows, np.int32)
    args = as_input(codes, codes.dtype), chosen, as_input(node_of, np.int32), pairs, stats, out
    if not (SUM_WIDE_CELLS if codes.dtype == np.uint16 else SUM_CELLS).run(*args):
        out[:] = 0
        _sum_cells_plain(*args)
    return out[: columns.size]


def _sum_cells_plain(
    codes: GroupCodes, rows: Int32, node_of: Int32, pairs: Int32, stats: IntArray, out: IntArray
) -> bool:
    for j, feature in enumerate(pairs if node_of.size else ()):
        cells = codes[feature][rows] if rows.size else codes[feature]
        if cells.max() < out.shape[2]:
            add_group(cells, node_of, stats, out[j])
        else:
            is_bin = cells < out.shape[2]
            add_group(cells[is_bin], node_of[is_bin], stats[is_bin], out[j])
    return True


class Cuts(NamedTuple):
    """Runs of threshold splits, as `score_cuts` reads them."""

    table: IntArray  # (R,) the feature's table
    also: IntArray  # (R,) the extra cell sent left, -1 for nothing
    first: IntArray  # (R + 1,) the first split of each run, and the end of the last
    at: IntArray  # (k,) the first cell on each split's right


def score_cuts(tables: IntArray, cuts: Cuts, kind: int, unit: int, balance: int) -> IntArray | None:
    """(k,) exact scores of cuts in (f, B, C) tables of the same rows; None where not compiled.

    `kind` is 0 for Gini, 1 for balance, 2 for squared errors of n, sum y and sum y^2.
    """
    out = np.empty(len(cuts.at), np.int64)
    is_done = CUT_SCORES.run(as_input(tables, np.int64), cuts, kind, unit, balance, out)
    return out if is_done else None


_NOBODY = as_input((), np.int32)
SUM_CELLS = Kernel("sum_cells", _sum_cells_plain, "Biiiqq")
SUM_WIDE_CELLS = Kernel("sum_wide_cells", _sum_cells_plain, "Hiiiqq")
CUT_SCORES = Kernel("score_cuts", None, "qqqqqWWWq")
