"""What any model says of its columns: importances, shapes, and one decision taken apart.

Pure functions of the released model. No row and no further release is needed, so nothing is
charged. A model is `base + curves + trees` (values/models.py), or the mean of trees.

How many records go each way is known where leaves keep their noisy masses (single trees) or where
noisy counts of every column were released (`Model.parts`); columns are then taken as independent.
Elsewhere both sides of a test count alike, which is a convention of the reading and no fact.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from hedgerow.errors import SpecError
from hedgerow.report.view import readable
from hedgerow.values.arrays import Codes, FloatArray
from hedgerow.values.grids import ColumnKind, Grid, short_number
from hedgerow.values.grown import Grown
from hedgerow.values.models import Curve, Model, Output
from hedgerow.values.schema import Schema
from hedgerow.values.trees import Tree

SPIKE = 1e-5
"""A part of the range so small that its cell stands for the lowest value alone."""
CellParts = tuple[tuple[float, ...], ...]


class Readable(Protocol):
    """A fitted estimator, or a model read back from its file."""

    schema_: Schema
    model_: Model
    grown_: tuple[Grown, ...]


@dataclass(frozen=True)
class ColumnShape:
    """What a column adds to the raw score, cell by cell, all else averaged.

    `words[k]` says which values bin k holds; `values` is (K, O), centred; O raw outputs: one for
    two classes (log-odds of the second) or a number, else one per class. Bins are runs of cells
    that the model treats alike. The last bin may be that of missing values.
    """

    feature: str
    words: tuple[str, ...]
    values: FloatArray


@dataclass(frozen=True)
class Contributions:
    """raw score = base + contributions: `base` is (O,), `values` is (n, F, O)."""

    features: tuple[str, ...]
    base: FloatArray
    values: FloatArray


def importances(model: Readable) -> dict[str, float]:
    """The part of the score's variation that each column brings about, largest first; sum 1.

    Of a test: p (1 - p) times the squared difference of its two sides, by the chance to reach it.
    Of a curve: the variance over its bins. All 0 if the model asks nothing.
    """
    parts = _checked(model)
    found = np.zeros(len(model.schema_.features))
    for curve in parts.curves:
        table, weights = _by_cell(model, curve)
        found[curve.feature] += float((weights @ (table - weights @ table) ** 2).sum())
    for tree in parts.trees:
        _add_variations(tree, found)
    share = found / found.sum() if found.sum() > 0 else found
    order = np.argsort(-share, kind="stable")
    return {model.schema_.names[j]: float(share[j]) for j in order}


def shape(model: Readable, feature: str) -> ColumnShape:
    """The curve of one column: partial dependence by the model's own weights."""
    parts, schema = _checked(model), model.schema_
    at = schema.index(feature)
    grid = schema.grids[at]
    total = np.zeros((grid.n_cells, model.model_.score.outputs))
    for curve in parts.curves:
        if curve.feature == at:
            total += curve.table[: grid.n_cells]
    for tree in parts.trees:
        total += tree.dependence(at, grid.n_cells)
    bins = _runs_of_equals(total, grid.missing)
    values = total[[first for first, _ in bins]] - _weights(model, at, total) @ total
    return ColumnShape(feature, tuple(_bin_words(grid, b) for b in bins), values)


def contributions(model: Readable, codes: Codes) -> Contributions:
    """Of each record's own path: a test is credited with the change of the mean below it.

    For one tree this is the decision path with numbers (Saabas 2014); curves are their values
    less their means. Base and contributions add up to the score that a prediction is read off,
    but for models that clip their score after every tree.
    """
    parts, schema = _checked(model), model.schema_
    values = np.zeros((codes.shape[1], len(schema.features), model.model_.score.outputs))
    base = parts.base.copy()
    for curve in parts.curves:
        mean = mean_of_curve(model, curve)
        base += mean
        values[:, curve.feature] += curve.at(codes) - mean
    for tree in parts.trees:
        base += tree.mean[0]
        tree.credit(codes, values)
    return Contributions(schema.names, base, values)


# ------------------------------------------------------------------------------------- weights
@dataclass(frozen=True)
class WeightedTree:
    """A tree, the chance to go left at each node, and the mean of all leaves below each node."""

    tree: Tree
    left_part: FloatArray  # (N,)
    mean: FloatArray  # (N, O)

    def dependence(self, column: int, n_cells: int) -> FloatArray:
        """(cells, O) where one column is known and the others are averaged."""
        tree, out = self.tree, [np.zeros(0)] * len(self.tree.tests)
        for q in reversed(range(len(tree.tests))):  # children stand after their parent
            test = tree.tests[q]
            if test is None:
                out[q] = np.broadcast_to(self.mean[q], (n_cells, self.mean.shape[1]))
                continue
            left, right = out[tree.left[q]], out[tree.right[q]]
            if tree.feature[q] == column:
                goes_left = np.array([test.left >> cell & 1 for cell in range(n_cells)], bool)
                out[q] = np.where(goes_left[:, None], left, right)
            else:
                out[q] = self.left_part[q] * left + (1.0 - self.left_part[q]) * right
        return out[0]

    def credit(self, codes: Codes, values: FloatArray) -> None:
        """Adds to (n, F, O) in place, a level of all records at a time."""
        tree, node = self.tree, np.zeros(codes.shape[1], np.int64)
        rows = np.arange(len(node))
        while True:
            going = tree.feature[node] >= 0
            if not going.any():
                return
            here, r = node[going], rows[going]
            column = tree.feature[here]
            cell = codes[column, r].astype(np.int64)
            word = tree.left_bits[here, cell // 64] >> (cell % 64).astype(np.uint64)
            below = np.where(word & np.uint64(1) == 1, tree.left[here], tree.right[here])
            values[r, column] += self.mean[below] - self.mean[here]
            node[going] = below


@dataclass(frozen=True)
class Parts:
    """A model's score as a sum; votes are divided by their number."""

    base: FloatArray
    curves: tuple[Curve, ...]
    trees: tuple[WeightedTree, ...]


def _checked(model: Readable) -> Parts:
    if not hasattr(model, "model_"):
        raise SpecError(
            f"this {type(model).__name__} is not fitted yet, so there is nothing to read in it; "
            "call fit first, or load a model."
        )
    score, grown = model.model_.score, model.grown_
    scale = _scale(model.model_)
    masses = [_masses(one) for one in grown] if len(grown) == len(score.trees) else []
    parts = model.model_.parts
    trees = tuple(
        _weighted(tree, scale, masses[k] if masses else None, parts)
        for k, tree in enumerate(score.trees)
    )
    shrunk = scale if model.model_.output is Output.MEAN else 1.0  # there the base is a vote too
    return Parts(shrunk * np.asarray(score.base, np.float64), score.curves, trees)


def _scale(model: Model) -> float:
    """What a tree's output is worth in the score that `Model.read` makes a prediction of."""
    many = max(len(model.score.trees), 1)
    match model.output:
        case Output.MEAN:
            return 1.0 / many
        case Output.LOG_MEAN:
            return model.sharpness / many
    return 1.0


def _masses(grown: Grown) -> FloatArray | None:
    """(L,) noisy records of each leaf, never below nothing."""
    if not grown.leaves:
        return None
    return np.array([float(np.maximum(leaf.masses, 0.0).sum()) for leaf in grown.leaves])


def _weighted(
    tree: Tree, scale: float, masses: FloatArray | None, parts: CellParts
) -> WeightedTree:
    n = len(tree.tests)
    mass, mean = np.zeros(n), np.zeros((n, tree.n_outputs))
    part = np.array([_part_left(tree, q, parts) for q in range(n)])
    for q in reversed(range(n)):  # children stand after their parent
        if tree.tests[q] is None:
            mass[q] = 1.0 if masses is None else masses[tree.leaf[q]]
            mean[q] = scale * tree.value[q]
            continue
        left, right = tree.left[q], tree.right[q]
        mass[q] = mass[left] + mass[right]
        if masses is not None and mass[q] > 0:
            part[q] = mass[left] / mass[q]
        mean[q] = part[q] * mean[left] + (1.0 - part[q]) * mean[right]
    return WeightedTree(tree, part, mean)


def _part_left(tree: Tree, q: int, parts: CellParts) -> float:
    test = tree.tests[q]
    return 0.5 if test is None else part_inside(int(tree.feature[q]), test.left, parts)


def part_inside(column: int, cells: int, parts: CellParts) -> float:
    """Of the records, in a set of cells; one half where nothing is known of the column."""
    known = parts[column] if parts else ()
    if not any(known):
        return 0.5
    inside = sum(part for cell, part in enumerate(known) if cells >> cell & 1)
    return float(inside / sum(known))


def _add_variations(weighted: WeightedTree, found: FloatArray) -> None:
    tree, chance = weighted.tree, np.zeros(len(weighted.tree.tests))
    chance[0] = 1.0
    for q, test in enumerate(tree.tests):
        if test is None:
            continue
        left, right, part = tree.left[q], tree.right[q], weighted.left_part[q]
        chance[left], chance[right] = chance[q] * part, chance[q] * (1.0 - part)
        apart = float(((weighted.mean[left] - weighted.mean[right]) ** 2).sum())
        found[tree.feature[q]] += chance[q] * part * (1.0 - part) * apart


# ---------------------------------------------------------------------------------------- bins
def _by_cell(model: Readable, curve: Curve) -> tuple[FloatArray, FloatArray]:
    """(cells, O) what a curve says, and (cells,) the part of the records in each."""
    table = curve.table[: model.schema_.grids[curve.feature].n_cells]
    return table, _weights(model, curve.feature, table)


def mean_of_curve(model: Readable, curve: Curve) -> FloatArray:
    """(O,) what a curve says of the mean record: reasons are told against it."""
    table, weights = _by_cell(model, curve)
    return np.asarray(weights @ table)


def _weights(model: Readable, column: int, table: FloatArray) -> FloatArray:
    """(cells,) by noisy counts; else each run of equal cells counts alike, missing ones not."""
    known = model.model_.parts[column] if model.model_.parts else ()
    if any(known):
        return np.asarray(known) / sum(known)
    out = np.zeros(len(table))
    runs = _runs_of_equals(table, model.schema_.grids[column].missing)[:-1]
    for first, last in runs:
        out[first : last + 1] = 1.0 / len(runs) / (last + 1 - first)
    return out


def _runs_of_equals(table: FloatArray, missing: int) -> list[tuple[int, int]]:
    """First and last cell of each run of equal rows; the missing cell is a run of its own."""
    starts = [k for k in range(missing) if k == 0 or not np.array_equal(table[k], table[k - 1])]
    ends = [*(start - 1 for start in starts[1:]), missing - 1]
    return [*zip(starts, ends, strict=True), (missing, missing)]


def words_at(model: Readable, column: int, cell: int) -> str:
    """The value of a cell in words: with its neighbours, where a curve treats them alike."""
    grid = model.schema_.grids[column]
    for curve in model.model_.score.curves:
        if curve.feature == column:
            bins = _runs_of_equals(curve.table[: grid.n_cells], grid.missing)
            return _bin_words(grid, next(b for b in bins if b[0] <= cell <= b[1]))
    return _bin_words(grid, (cell, cell))


def _bin_words(grid: Grid, cells: tuple[int, int]) -> str:
    first, last = cells
    is_lowest = grid.kind is ColumnKind.NUMERIC and first == 0 and last < len(grid.edges)
    if is_lowest and grid.edges[last] - grid.low < SPIKE * (grid.high - grid.low):
        return f"{grid.feature} about {short_number(grid.low)}"
    return readable(grid.describe(((1 << (last + 1)) - 1) ^ ((1 << first) - 1)))
