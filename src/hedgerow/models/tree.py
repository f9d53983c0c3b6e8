"""A tree as arrays: the leaf of a row and its value. Independent of how it was trained.

Shapes: F features, n rows, N nodes, L leaves, O outputs, T trees, M nodes of all trees together.
Rows are cell codes, uint8, feature-major (F, n). Nodes are in preorder, so leaf k is the k-th leaf
from the left in `apply`, in `regions` and in leaf sums.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property
from itertools import chain, pairwise, zip_longest
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from hedgerow.errors import ParameterError
from hedgerow.schema.arrays import (
    N_CODES,
    BoolArray,
    Codes,
    FloatArray,
    Int32,
    IntArray,
    Words,
    freeze,
    int32,
)
from hedgerow.schema.regions import EVERYONE, Region, Split, Step

if TYPE_CHECKING:
    from hedgerow.models.packing import PackedTrees

# Nodes of a tree in preorder, each before its left and its right subtree: the structure of a tree
# from its list of nodes, and the list of nodes from a set of leaves.

TreeNode = Split | tuple[float, ...]  # a test, or the value of a leaf
_Leaves = list[tuple[Region, Sequence[float]]]


def preorder(leaves: Iterable[tuple[Region, Sequence[float]]]) -> list[TreeNode]:
    """Nodes of the tree with these leaves: leaves that share a path divide at its next test."""
    nodes: list[TreeNode] = []
    waiting = [(0, list(leaves))]  # remaining subtrees; the next in preorder is last
    while waiting:
        depth, group = waiting.pop()
        region, value = group[0]
        if len(group) == 1 and len(region) == depth:
            nodes.append(tuple(float(v) for v in value))
        else:
            test, left, right = _part_leaves(group, depth)
            nodes.append(test)
            waiting += [(depth + 1, right), (depth + 1, left)]
    return nodes


def _part_leaves(group: _Leaves, depth: int) -> tuple[Split, _Leaves, _Leaves]:
    """The test after `depth` steps of all leaves of a group, and the leaves on either side."""
    steps = [region[depth] if len(region) > depth else None for region, _ in group]
    test = steps[0].test if steps[0] else None
    sides: tuple[_Leaves, _Leaves] = [], []
    for step, leaf in zip(steps, group, strict=True):
        if isinstance(test, Split) and step and step.test == test:
            sides[step.outcome].append(leaf)
    if not isinstance(test, Split) or not all(sides) or sum(map(len, sides)) < len(group):
        raise ParameterError(
            f"the {len(group)} leaves below step {depth} are not the two sides of one split; "
            "give every leaf of one tree exactly once, without the steps above its root."
        )
    return test, *sides


def children(is_test: BoolArray, starts: IntArray) -> tuple[IntArray, IntArray]:
    """Left and right child of every node of trees that lie end to end, -1 at a leaf.

    `starts` has the first position of every tree and the end of the last; children are counted
    within their tree. A left child is the next node. A test opens one subtree more than it closes,
    and a leaf closes one, so the left subtree of a test ends where for the first time one subtree
    less is open than at the test.
    """
    open_subtrees = np.cumsum(np.where(is_test, 1, -1))
    trees, many = np.repeat(np.arange(len(starts) - 1), np.diff(starts)), len(open_subtrees)
    _check_complete(np.flatnonzero(open_subtrees + trees < 0), starts)
    place = np.arange(many)
    by_level = np.sort(open_subtrees * many + place)  # positions of one level side by side
    tests = place[is_test]
    level = (open_subtrees[tests] - 1) * many
    ends = by_level[np.searchsorted(by_level, level + tests)] - level
    left, right = np.full(many, -1), np.full(many, -1)
    left[tests] = tests + 1 - starts[trees[tests]]
    right[tests] = ends + 1 - starts[trees[tests]]
    return left, right


def _check_complete(ends: IntArray, starts: IntArray) -> None:
    """Raises unless every tree is complete at its last node, and not before."""
    if np.array_equal(ends, starts[1:] - 1):
        return
    for end, (first, after) in zip_longest(ends.tolist(), pairwise(starts.tolist())):
        if end is None or end >= after:
            raise ParameterError(
                f"{after - first} nodes end inside the tree; every test needs two children."
            )
        if end < after - 1:
            raise ParameterError(
                f"the tree is complete after {end - first + 1} nodes; {after - first} were given."
            )


MOST_LEAVES = 2**16  # a leaf number is two bytes
WORD = 64
LEAF = -1
"""The kind of a leaf, where other nodes have the number of a test."""


def without_caches(value: Any) -> dict[str, Any]:
    """State of a frozen value for pickle and copy: its fields, without caches."""
    return {field.name: getattr(value, field.name) for field in fields(value)}


@dataclass(frozen=True, eq=False, repr=False)
class Tree:
    """Binary tests on cells. `tests[q]` is None at a leaf; the arrays repeat that for fast routing.

    Trees with the same tests and values are equal; `digest` is the hash of that content.
    """

    features: tuple[str, ...]  # column j of the codes holds features[j]
    tests: tuple[Split | None, ...]  # N
    feature: Int32  # (N,) column tested, -1 at a leaf
    left_bits: Words  # (N, 4) bit set of the cells that go left
    left: Int32  # (N,) next node on outcome 0, -1 at a leaf
    right: Int32  # (N,) next node on outcome 1, -1 at a leaf
    leaf: Int32  # (N,) number of the leaf from the left, -1 at a test
    value: FloatArray  # (N, O), zero at a test

    @staticmethod
    def build(features: Sequence[str], leaves: Mapping[Region, Sequence[float]]) -> Tree:
        """The tree whose leaves are these regions. Values may be empty until `with_values`."""
        if not leaves:
            raise ParameterError("a tree needs at least one leaf; a stump is {EVERYONE: value}.")
        return _assemble(tuple(features), preorder(leaves.items()))

    @staticmethod
    def of_preorder(features: Sequence[str], nodes: Sequence[TreeNode]) -> Tree:
        return _assemble(tuple(features), nodes)

    def with_values(self, values: ArrayLike) -> Tree:
        """The same tests with new leaf values (L, O), leaves counted from the left."""
        leaf_values = np.asarray(values, dtype=np.float64)
        if leaf_values.ndim != 2 or len(leaf_values) != self.n_leaves:
            raise ParameterError(
                f"values have shape {leaf_values.shape}; give one row for each of "
                f"{self.n_leaves} leaves."
            )
        value = np.zeros((len(self.tests), leaf_values.shape[1]))
        value[self.leaf >= 0] = leaf_values
        return replace(self, value=freeze(_finite(value)))

    @property
    def n_leaves(self) -> int:
        return (len(self.tests) + 1) // 2

    @property
    def n_outputs(self) -> int:
        return int(self.value.shape[1])

    @cached_property
    def values(self) -> FloatArray:
        """(L, O), leaves counted from the left."""
        return freeze(self.value[self.leaf >= 0])

    @cached_property
    def depth(self) -> int:
        return sum(1 for _ in levels(self)) - 1

    @cached_property
    def digest(self) -> str:
        """Hash of the content: equal trees have the same digest, in every process."""
        text = json.dumps(self.to_dict(), sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(text.encode()).hexdigest()

    def apply(self, codes: Codes) -> Int32:
        """(n,) number of each row's leaf."""
        if len(codes) != len(self.features):
            raise ParameterError(
                f"codes have {len(codes)} columns; this tree reads {len(self.features)} features."
            )
        start = np.zeros(codes.shape[1], dtype=np.int32)
        return self.leaf[descend(self, start, codes)]

    def predict(self, codes: Codes) -> FloatArray:
        """(n, O) value of each row's leaf."""
        return self.values[self.apply(codes)]

    def regions(self, root: Region = EVERYONE) -> list[Region]:
        """Regions of the leaves inside `root`, from the left."""
        regions: list[Region] = []
        waiting = [root]  # regions of remaining subtrees; the next in preorder is last
        for test in self.tests:
            region = waiting.pop()
            if test is None:
                regions.append(region)
            else:
                waiting += [(*region, Step(test, 1)), (*region, Step(test, 0))]
        return regions

    def to_dict(self) -> dict[str, Any]:
        """Plain lists and strings; `from_dict` restores the tree, to the last bit.

        `nodes` are in preorder, each the number of its test or -1 for a leaf: deep trees repeat few
        tests. `leaves` are from the left, each a number or a list of numbers.
        """
        whole = trees_to_dict((self,))
        return {**whole, **whole.pop("trees")[0]}

    @staticmethod
    def from_dict(data: Mapping[str, Any]) -> Tree:
        return trees_from_dict({**data, "trees": [data]})[0]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Tree) and self.digest == other.digest

    def __hash__(self) -> int:
        return hash(self.digest)

    __getstate__ = without_caches

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Makes the arrays of a copy read-only again."""
        for part in state.values():
            if isinstance(part, np.ndarray):
                freeze(part)
        self.__dict__.update(state)

    def __repr__(self) -> str:
        return f"Tree({self.n_leaves} leaves, depth {self.depth}, {self.n_outputs} outputs)"


def trees_to_dict(trees: Sequence[Tree]) -> dict[str, Any]:
    """Trees that read the same columns; features and tests are listed once for all."""
    features = {tree.features for tree in trees}
    if len(features) > 1:
        raise ParameterError("the trees of one model read different columns; give all the same.")
    tests = [test for test in dict.fromkeys(t for tree in trees for t in tree.tests) if test]
    place: dict[Split | None, int] = {test: i for i, test in enumerate(tests)} | {None: LEAF}
    return {
        "features": list(features.pop()) if trees else [],
        "tests": [
            {"feature": test.feature, "grid": test.grid, "left": hex(test.left)} for test in tests
        ],
        "trees": [
            {
                "nodes": [place[test] for test in tree.tests],
                "leaves": (tree.values[:, 0] if tree.n_outputs == 1 else tree.values).tolist(),
            }
            for tree in trees
        ],
    }


def trees_from_dict(data: Mapping[str, Any]) -> tuple[Tree, ...]:
    try:
        features = tuple(str(name) for name in data["features"])
        tests = [
            Split(str(test["feature"]), str(test["grid"]), int(test["left"], 16))
            for test in data["tests"]
        ]
        nodes = [list(tree["nodes"]) for tree in data["trees"]]
        leaves = [list(tree["leaves"]) for tree in data["trees"]]
        if [tree_nodes.count(LEAF) for tree_nodes in nodes] != list(map(len, leaves)):
            raise ValueError("a tree has more or fewer leaves than values")
        values = np.array(list(chain.from_iterable(leaves)), dtype=np.float64)
        if values.ndim > 2:
            raise ValueError("a leaf is neither a number nor a list of numbers")
        values = values if values.ndim == 2 else values[:, None]
        return _trees(features, tests, nodes, values) if nodes else ()
    except (KeyError, TypeError, ValueError, OverflowError) as error:
        raise ParameterError(
            f"not a tree: {error!r}. Expected 'features', 'tests' with 'feature', 'grid' and "
            "'left', and of each tree its 'nodes' in preorder, test numbers and -1 for a leaf, and "
            "the values of its 'leaves'."
        ) from error


def descend(nodes: Tree | PackedTrees, start: Int32, codes: Codes) -> Int32:
    """(..., n) the leaf node of each row, from its node in `start`; all move level by level."""
    node, n = start.flatten(), codes.shape[1]
    on_way = np.flatnonzero(nodes.feature[node] >= 0)
    while on_way.size:
        here = node[on_way]
        cell = codes[nodes.feature[here], on_way % n]
        word = nodes.left_bits[here, cell // WORD]
        goes_left = (word >> (cell % WORD).astype(np.uint64)) & np.uint64(1) == 1
        node[on_way] = np.where(goes_left, nodes.left[here], nodes.right[here])
        on_way = on_way[nodes.feature[node[on_way]] >= 0]
    return node.reshape(start.shape)


def _assemble(features: tuple[str, ...], nodes: Sequence[TreeNode]) -> Tree:
    """The tree with these nodes in preorder, each a test or the values of a leaf."""
    tests = tuple(dict.fromkeys(node for node in nodes if not isinstance(node, tuple)))
    place = {test: i for i, test in enumerate(tests)}
    kinds = [LEAF if isinstance(node, tuple) else place[node] for node in nodes]
    return _trees(features, tests, [kinds], _table([n for n in nodes if isinstance(n, tuple)]))[0]


def _table(leaves: Sequence[Sequence[float]]) -> FloatArray:
    """(L, O) values of leaves."""
    outputs = {len(leaf) for leaf in leaves}
    if len(outputs) > 1:
        raise ParameterError(
            f"leaves have {sorted(outputs)} outputs; give every leaf the same number."
        )
    return np.array(leaves, dtype=np.float64).reshape(len(leaves), *outputs)


def _trees(
    features: tuple[str, ...],
    tests: Sequence[Split],
    nodes: Sequence[Sequence[int]],
    values: FloatArray,
) -> tuple[Tree, ...]:
    """Trees from the kinds of their nodes in preorder: the number of a test, or LEAF.

    Arrays are made once for all trees, and each tree has slices of them: a model of a hundred trees
    is read in one pass. `values` (L, O) are those of all leaves, tree by tree.
    """
    kind, sizes = _kinds(nodes, len(tests)), [len(tree_nodes) for tree_nodes in nodes]
    starts = np.concatenate([[0], np.cumsum(sizes)])
    child = children(kind != LEAF, starts)
    leaves = [(size + 1) // 2 for size in sizes]
    if max(leaves) > MOST_LEAVES:
        raise ParameterError(f"the tree has {max(leaves)} leaves; the most is {MOST_LEAVES}.")
    is_leaf, column = kind == LEAF, {name: j for j, name in enumerate(features)}
    before = np.repeat(np.cumsum([0, *leaves[:-1]]), sizes)  # leaves of earlier trees
    leaf = int32(np.where(is_leaf, np.cumsum(is_leaf) - 1 - before, -1))
    value = np.zeros((len(kind), values.shape[1]))
    value[is_leaf] = _finite(values)
    freeze(value)
    # the last entry of each table is that of a leaf, whose kind is -1
    feature = int32([*(_column(column, test) for test in tests), -1], kind)
    left_bits, left, right = freeze(_words(tests)[kind]), int32(child[0]), int32(child[1])
    test_of = (*tests, None)

    def piece(nodes: Sequence[int], of: slice) -> Tree:
        tree_tests = tuple([test_of[k] for k in nodes])
        routing = (feature[of], left_bits[of], left[of], right[of])
        return Tree(features, tree_tests, *routing, leaf[of], value[of])

    places = starts.tolist()
    return tuple(map(piece, nodes, map(slice, places, places[1:])))


def _kinds(nodes: Sequence[Sequence[int]], tests: int) -> IntArray:
    kind = np.array(list(chain.from_iterable(nodes)) or [LEAF])[: sum(map(len, nodes))]
    if kind.dtype != np.int64 or not ((kind >= LEAF) & (kind < tests)).all():
        raise ValueError(f"a node is neither {LEAF} nor the number of one of {tests} tests")
    return kind


def _column(column: Mapping[str, int], test: Split) -> int:
    if test.feature not in column:
        raise ParameterError(f"a split tests {test.feature!r}; the features are {list(column)}.")
    if test.left.bit_length() > N_CODES:
        raise ParameterError(f"a split on {test.feature!r} names cells beyond code {N_CODES - 1}.")
    return column[test.feature]


def _words(tests: Sequence[Split]) -> Words:
    """(tests + 1, 4) bit sets of the cells that go left; the last, of a leaf, is empty."""
    sets = [*(test.left for test in tests), 0]
    set_bytes = b"".join(left.to_bytes(N_CODES // 8, "little") for left in sets)
    return np.frombuffer(set_bytes, dtype="<u8").astype(np.uint64).reshape(len(sets), -1)


def levels(tree: Tree) -> Iterator[Int32]:
    """The numbers of the nodes of each level, from the root down."""
    nodes = np.zeros(1, dtype=np.int32)
    while nodes.size:
        yield nodes
        tests = nodes[tree.feature[nodes] >= 0]
        nodes = np.concatenate([tree.left[tests], tree.right[tests]])


def _finite(value: FloatArray) -> FloatArray:
    if not np.isfinite(value).all():
        raise ParameterError(
            f"leaf values hold {value[~np.isfinite(value)][0]}; use finite numbers."
        )
    return value
