"""How far noise may have moved importances: one standard deviation of each column's.

An importance is a part of the score's variation, V_j / V. Both are squares of numbers that carry
noise; to first order dV_j = sum over leaves of 2 (chance to end there) (what column j added on the
way there) d(leaf), since the derivative of a variation along a path is what the path credits. Noise
of leaves is independent. Noise of one curve is not, and is taken to move all its cells in the
direction that moves V_j most, which says too much rather than too little.

Noise alone makes every column that is asked about look a little important: a column whose
importance is not well above its deviation may be nothing but noise.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from hedgerow.report.reading import by_cell, importance_parts
from hedgerow.report.weighing import Readable, WeightedTree, parts_of_model
from hedgerow.values.arrays import FloatArray


def importance_deviations(model: Readable) -> FloatArray:
    """(F,) standard deviations of the noise in the importances, in the order of the schema."""
    share, total = importance_parts(model)
    if total == 0.0:
        return np.zeros_like(share)
    variance = np.zeros_like(share)
    for moved in _moves(model, len(share)):  # (sources of noise, F): how far each moves each V_j
        of_shares = (moved - moved.sum(axis=1, keepdims=True) * share) / total
        variance += (of_shares**2).sum(axis=0)
    return np.asarray(np.minimum(np.sqrt(variance), 0.5))


def _moves(model: Readable, n_columns: int) -> Iterator[FloatArray]:
    parts = parts_of_model(model)
    for curve, noise in zip(parts.curves, model.model_.noise.curves, strict=False):
        table, weights = by_cell(model, curve)
        slope = 2.0 * weights[:, None] * (table - weights @ table)
        moved = np.zeros((table.shape[1], n_columns))
        moved[:, curve.feature] = (np.abs(slope) * np.array(noise).T).sum(axis=0)
        yield moved
    for tree in parts.trees:
        if tree.deviations is not None:
            yield _moves_of_tree(tree, n_columns)


def _moves_of_tree(weighted: WeightedTree, n_columns: int) -> FloatArray:
    """(leaves and outputs, F): 2 chance credit deviation."""
    tree, n = weighted.tree, len(weighted.tree.tests)
    chance, credit = np.ones(n), np.zeros((n, n_columns, tree.n_outputs))
    for q, test in enumerate(tree.tests):  # parents stand before their children
        if test is None:
            continue
        ways = ((tree.left[q], weighted.left_part[q]), (tree.right[q], 1.0 - weighted.left_part[q]))
        for child, part in ways:
            chance[child], credit[child] = chance[q] * part, credit[q]
            credit[child, tree.feature[q]] += weighted.mean[child] - weighted.mean[q]
    ends = tree.leaf >= 0
    assert weighted.deviations is not None
    slope = 2.0 * chance[ends, None, None] * credit[ends]  # (L, F, O)
    moved = slope * weighted.deviations[:, None, :]
    return np.asarray(np.moveaxis(moved, 1, 2).reshape(-1, n_columns))
