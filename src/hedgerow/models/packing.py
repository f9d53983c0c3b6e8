"""Trees laid end to end, as the kernels read them.

Shapes: T trees, M nodes of all trees together, R runs of cells, L leaves, O outputs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hedgerow.errors import ParameterError
from hedgerow.models.tree import Tree, levels
from hedgerow.schema.arrays import N_CODES, Codes, FloatArray, Int32, Words, freeze, int32
from hedgerow.schema.regions import Split

NO_VALUES = freeze(np.zeros((0, 0, 0)))


class PackedTrees(NamedTuple):
    """Trees laid end to end for the kernels; node numbers count over all trees.

    A left set is also stored as runs of neighboring cells, because testing whether a cell is in a
    run takes one byte subtraction and one comparison, for 32 rows at a time.
    """

    root: Int32  # (T + 1,) first node of each tree
    feature: Int32  # (M,)
    left_bits: Words  # (M, 4)
    left: Int32  # (M,) a leaf leads to itself
    right: Int32  # (M,)
    leaf: Int32  # (M,)
    run_first: Int32  # (M + 1,) first run of each node
    run_start: Codes  # (R,)
    run_width: Codes  # (R,) at most 255, so that it is a byte too
    oblivious: NDArray[np.bool_]  # whether all nodes of each level have the same test
    n_leaves: Int32  # (T,)
    depth: Int32  # (T,)
    value: FloatArray  # (T, max L, O)
    n_features: int


def pack(trees: Sequence[Tree]) -> PackedTrees:
    """Lays trees over the same features and outputs end to end."""
    if not trees:
        raise ParameterError("no trees to pack; give at least one.")
    if len({(tree.features, tree.n_outputs) for tree in trees}) > 1:
        raise ParameterError("trees differ in features or outputs; pack trees of one model only.")
    routes = _routes_of(tuple(_Shape(tree.features, tree.tests, tree) for tree in trees))
    value = np.zeros((len(trees), int(routes.n_leaves.max()), trees[0].n_outputs))
    for t, tree in enumerate(trees):
        value[t, : tree.n_leaves] = tree.values
    return routes._replace(value=freeze(value))


@dataclass(frozen=True)
class _Shape:
    """A tree that equals all trees with the same tests, whatever their leaf values."""

    features: tuple[str, ...]
    tests: tuple[Split | None, ...]
    tree: Tree = field(compare=False)


@lru_cache(maxsize=4)
def _routes_of(shapes: tuple[_Shape, ...]) -> PackedTrees:
    """Everything but the values. Cached: trees are packed for a query, and again with its answers,
    after the next ones were packed.
    """
    trees = [shape.tree for shape in shapes]
    sizes = [len(tree.tests) for tree in trees]
    root = np.concatenate([[0], np.cumsum(sizes)])
    runs_of = {test: _runs(test) for test in {test for tree in trees for test in tree.tests}}
    runs = [runs_of[test] for tree in trees for test in tree.tests]
    flat = [run for node in runs for run in node]
    shift, itself = np.repeat(root[:-1], sizes), np.arange(root[-1])
    left = np.concatenate([tree.left for tree in trees])
    right = np.concatenate([tree.right for tree in trees])
    return PackedTrees(
        root=int32(root),
        feature=int32(np.concatenate([tree.feature for tree in trees])),
        left_bits=freeze(np.concatenate([tree.left_bits for tree in trees])),
        left=int32(np.where(left < 0, itself, left + shift)),
        right=int32(np.where(right < 0, itself, right + shift)),
        leaf=int32(np.concatenate([tree.leaf for tree in trees])),
        run_first=int32(np.concatenate([[0], np.cumsum([len(node) for node in runs])])),
        run_start=freeze(np.array([start for start, _ in flat], dtype=np.uint8)),
        run_width=freeze(np.array([width for _, width in flat], dtype=np.uint8)),
        oblivious=freeze(np.array([_is_oblivious(tree) for tree in trees])),
        n_leaves=int32([tree.n_leaves for tree in trees]),
        depth=int32([tree.depth for tree in trees]),
        value=NO_VALUES,
        n_features=len(trees[0].features),
    )


def _runs(test: Split | None) -> list[tuple[int, int]]:
    """(start, width) of each run of neighboring cells that go left, widths below 256."""
    left = 0 if test is None else test.left
    if left == 2**N_CODES - 1:
        return [(0, N_CODES // 2), (N_CODES // 2, N_CODES // 2)]
    runs, start = [], 0
    while left:
        skip = (left & -left).bit_length() - 1
        left >>= skip
        width = (~left & (left + 1)).bit_length() - 1
        runs.append((start + skip, width))
        left >>= width
        start += skip + width
    return runs


def _is_oblivious(tree: Tree) -> bool:
    """Whether a tree is complete with one test per level: leaf numbers are outcomes in binary."""
    if tree.n_leaves != 2**tree.depth:
        return False
    return all(
        bool((tree.feature[nodes] == tree.feature[nodes[0]]).all())
        and bool((tree.left_bits[nodes] == tree.left_bits[nodes[0]]).all())
        for nodes in levels(tree)
    )
