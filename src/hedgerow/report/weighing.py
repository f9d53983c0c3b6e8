"""A model decomposed into weighted pieces, for explanations.

The fraction of records on each side of a test is known from the noisy masses of leaves (single
trees) or from released noisy counts of every column (`Model.parts`), assuming independent columns.
Otherwise both sides count equally, by convention.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from hedgerow.errors import ParameterError
from hedgerow.models.model import Curve, Model, Output
from hedgerow.models.tree import Tree
from hedgerow.models.uncertainty import LeafStatistics
from hedgerow.schema.arrays import Codes, FloatArray
from hedgerow.schema.schema import Schema

MOST_OF_COLUMNS = 0.2
"""Largest fraction of a surface's variation due to single columns; ours have a hundredth."""
CellParts = tuple[tuple[float, ...], ...]


class Readable(Protocol):
    """A fitted estimator, or a model read back from its file."""

    schema_: Schema
    model_: Model
    leaf_statistics_: tuple[LeafStatistics, ...]


@dataclass(frozen=True)
class WeightedTree:
    """A tree, the probability of going left at each node, and the mean of all leaves below each
    node.

    `deviations` is (L, O) of the noise in its leaves, if there is any.
    """

    tree: Tree
    left_part: FloatArray  # (N,)
    mean: FloatArray  # (N, O)
    deviations: FloatArray | None

    def parts_of_leaves(self, column: int, cells: Sequence[int]) -> FloatArray:
        """(L, K) the probability of each leaf, given these cells of a column, others averaged."""
        tree, reach = self.tree, np.ones((len(self.tree.tests), len(cells)))
        for q, test in enumerate(tree.tests):  # parents come before their children
            if test is None:
                continue
            left: float | FloatArray = float(self.left_part[q])
            if tree.feature[q] == column:
                left = np.array([test.left >> cell & 1 for cell in cells], np.float64)
            reach[tree.left[q]], reach[tree.right[q]] = reach[q] * left, reach[q] * (1.0 - left)
        return reach[tree.leaf >= 0]

    def dependence(self, column: int, n_cells: int) -> FloatArray:
        """(cells, O) the partial dependence: one column is fixed and the others are averaged."""
        reach = self.parts_of_leaves(column, range(n_cells))
        return np.asarray(reach.T @ self.mean[self.tree.leaf >= 0])

    def credit(self, codes: Codes, values: FloatArray) -> None:
        """Adds to (n, F, O) in place, one level of all records at a time."""
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
class Surface:
    """A tree of two columns with nearly no effect of either alone: their interaction.

    `table` and `deviations` are (A, B, O) by cell, `weights` the fractions of records there.
    """

    columns: tuple[int, ...]
    weights: list[FloatArray]
    table: FloatArray
    deviations: FloatArray

    @property
    def variation(self) -> float:
        return float(np.einsum("a,b,abo->", *self.weights, self.table**2))

    @property
    def of_columns(self) -> float:
        """The fraction of the variation due to one column or the other."""
        means = [np.tensordot(self.table, w, (1 - k, 0)) for k, w in enumerate(self.weights[::-1])]
        own = [float((w @ m**2).sum()) for w, m in zip(self.weights, means, strict=True)]
        return sum(own) / max(self.variation, 1e-300)


@dataclass(frozen=True)
class Parts:
    """A model's score as a sum; votes are divided by their number. Surfaces are not trees here."""

    base: FloatArray
    curves: tuple[Curve, ...]
    trees: tuple[WeightedTree, ...]
    surfaces: list[Surface]


def parts_of_model(model: Readable) -> Parts:
    """The decomposed model, in units of the score from which predictions are computed."""
    if not hasattr(model, "model_"):
        raise ParameterError(
            f"this {type(model).__name__} is not fitted yet, so there is nothing to read in it; "
            "call fit first, or load a model."
        )
    score, tree_statistics = model.model_.score, model.leaf_statistics_
    scale = weight_of_a_tree(model.model_)
    masses: list[FloatArray | None] = [None] * len(score.trees)
    if len(tree_statistics) == len(score.trees):  # (L,) noisy records of each leaf, at least 0
        masses = [
            np.array([float(np.maximum(leaf.masses, 0.0).sum()) for leaf in own.leaves])
            if own.leaves
            else None
            for own in tree_statistics
        ]
    noise, surfaces = _leaf_noise(model), surfaces_of(model)
    deviations: list[FloatArray | None] = [None] * len(score.trees)
    if noise:
        deviations = [scale * of_tree for of_tree in noise]
    trees = tuple(
        _weigh_tree(tree, scale, masses[k], model.model_.parts, deviations[k])
        for k, tree in enumerate(score.trees)
        if surfaces[k] is None
    )
    shrunk = scale if model.model_.output is Output.MEAN else 1.0  # there the base is a vote too
    base = shrunk * np.asarray(score.base, np.float64)
    return Parts(base, score.curves, trees, [surface for surface in surfaces if surface])


def surfaces_of(model: Readable) -> list[Surface | None]:
    """Per tree: at most one surface per pair, if noisy counts of its columns exist."""
    own, noise, out = model.model_, model.model_.noise.trees, list[Surface | None]()
    outputs = Output.SIGMOID, Output.SOFTMAX, Output.VALUE
    is_sum = own.output in outputs and own.score.clip is None
    for k, tree in enumerate(own.score.trees):
        pair = tuple(np.unique(tree.feature[tree.leaf < 0]).tolist())
        counts = [own.parts[j] for j in pair] if own.parts and is_sum else []
        out.append(None)
        if len(pair) == 2 == sum(map(any, counts)) and pair not in (s.columns for s in out if s):
            shape = len(counts[0]), len(counts[1])
            codes = np.zeros((len(tree.features), *shape), np.uint8)
            codes[pair[0]], codes[pair[1]] = np.ogrid[: shape[0], : shape[1]]
            leaf = tree.apply(codes.reshape(len(codes), -1)).reshape(shape)
            weights = [np.asarray(c) / sum(c) for c in counts]
            deviations = (np.array(noise[k]).T if noise else np.zeros_like(tree.values))[leaf]
            table = tree.values[leaf]
            surface = Surface(pair, weights, table, np.broadcast_to(deviations, table.shape))
            out[-1] = surface if surface.of_columns < MOST_OF_COLUMNS else None
    return out


def _leaf_noise(model: Readable) -> list[FloatArray]:
    """(L, O or 1) of each tree: the noise in the model, or from the leaf statistics."""
    if model.model_.noise.trees:
        return [np.array(tree).T for tree in model.model_.noise.trees]
    if not have_all_leaves(model):
        return []
    return [np.array([leaf.deviations for leaf in own.leaves]) for own in model.leaf_statistics_]


def have_all_leaves(model: Readable) -> bool:
    """Whether the model has statistics of every tree's leaves."""
    leaves = [statistics.leaves for statistics in model.leaf_statistics_]
    return len(leaves) == len(model.model_.score.trees) and all(leaves)


def weight_of_a_tree(model: Model) -> float:
    """The weight of a tree's output in the score that `Model.read` uses."""
    many = max(len(model.score.trees), 1)
    return {Output.MEAN: 1.0 / many, Output.LOG_MEAN: model.sharpness / many}.get(model.output, 1.0)


def _weigh_tree(
    tree: Tree,
    scale: float,
    masses: FloatArray | None,
    parts: CellParts,
    deviations: FloatArray | None,
) -> WeightedTree:
    n = len(tree.tests)
    mass, mean = np.zeros(n), np.zeros((n, tree.n_outputs))
    part = np.full(n, 0.5)
    for q in reversed(range(n)):  # children come after their parent
        if (test := tree.tests[q]) is None:
            mass[q] = 1.0 if masses is None else masses[tree.leaf[q]]
            mean[q] = scale * tree.value[q]
            continue
        left, right = tree.left[q], tree.right[q]
        mass[q] = mass[left] + mass[right]
        part[q] = part_inside(int(tree.feature[q]), test.left, parts)
        if masses is not None and mass[q] > 0:
            part[q] = mass[left] / mass[q]
        mean[q] = part[q] * mean[left] + (1.0 - part[q]) * mean[right]
    if deviations is not None:
        deviations = np.broadcast_to(deviations, tree.values.shape)
    return WeightedTree(tree, part, mean, deviations)


def part_inside(column: int, cells: int, parts: CellParts) -> float:
    """The fraction of records in a set of cells; one half if nothing is known."""
    column_parts = parts[column] if parts else ()
    if not any(column_parts):
        return 0.5
    inside = sum(part for cell, part in enumerate(column_parts) if cells >> cell & 1)
    return float(inside / sum(column_parts))
