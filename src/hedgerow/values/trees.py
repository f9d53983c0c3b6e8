"""A tree as arrays: where a row ends and what the leaf says. Knows nothing of how it was grown.

Shapes: F features, n rows, N nodes, L leaves, O outputs, T trees, M nodes of all trees together.
Rows are cell codes, uint8, feature-major (F, n). Nodes stand in preorder, so leaf k is the k-th
leaf from the left wherever leaves are counted: in `apply`, in `regions` and in leaf sums.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import Any, Protocol

import numpy as np
from numpy.typing import ArrayLike

from hedgerow.errors import SpecError
from hedgerow.values.arrays import N_CODES, Codes, FloatArray, Int32, Words, frozen, int32
from hedgerow.values.regions import EVERYONE, Region, Split, Step

MOST_LEAVES = 2**16  # a leaf number is two bytes
WORD = 64


class Routing(Protocol):
    """What sends a row from node to node: of one tree, or of trees laid end to end."""

    @property
    def feature(self) -> Int32: ...
    @property
    def left_bits(self) -> Words: ...
    @property
    def left(self) -> Int32: ...
    @property
    def right(self) -> Int32: ...


@dataclass(frozen=True, eq=False, repr=False)
class Tree:
    """Binary tests on cells. `tests[q]` is None at a leaf; arrays say the same for fast routing.

    Two trees are equal if they hold the same tests and values; `digest` names that content.
    """

    features: tuple[str, ...]  # column j of the codes holds features[j]
    tests: tuple[Split | None, ...]  # N
    feature: Int32  # (N,) column tested, -1 at a leaf
    cut: Int32  # (N,) cells below go left; -1 where the left cells are no prefix
    left_bits: Words  # (N, 4) bit set of the cells that go left
    left: Int32  # (N,) next node on outcome 0, -1 at a leaf
    right: Int32  # (N,) next node on outcome 1, -1 at a leaf
    leaf: Int32  # (N,) number of the leaf from the left, -1 at a test
    value: FloatArray  # (N, O), zero at a test

    @staticmethod
    def build(features: Sequence[str], leaves: Mapping[Region, Sequence[float]]) -> Tree:
        """The tree whose leaves are these regions. Values may be empty until `with_values`."""
        if not leaves:
            raise SpecError("a tree needs at least one leaf; a stump is {EVERYONE: value}.")
        return _assemble(tuple(features), _preorder(leaves.items()))

    @staticmethod
    def of_preorder(features: Sequence[str], nodes: Sequence[Split | tuple[float, ...]]) -> Tree:
        """The tree whose nodes, each before its left and its right subtree, are these."""
        return _assemble(tuple(features), nodes)

    def with_values(self, values: ArrayLike) -> Tree:
        """The same tests with new leaf values (L, O), leaves counted from the left."""
        given = np.asarray(values, dtype=np.float64)
        if given.ndim != 2 or len(given) != self.n_leaves:
            raise SpecError(
                f"values have shape {given.shape}; give one row for each of {self.n_leaves} leaves."
            )
        value = np.zeros((len(self.tests), given.shape[1]))
        value[self.leaf >= 0] = given
        return replace(self, value=frozen(_finite(value)))

    @property
    def n_leaves(self) -> int:
        return (len(self.tests) + 1) // 2

    @property
    def n_outputs(self) -> int:
        return int(self.value.shape[1])

    @cached_property
    def values(self) -> FloatArray:
        """(L, O), leaves counted from the left."""
        return frozen(self.value[self.leaf >= 0])

    @cached_property
    def depth(self) -> int:
        return sum(1 for _ in levels(self)) - 1

    @cached_property
    def digest(self) -> str:
        """Names the content: equal trees have one digest, in every process."""
        text = json.dumps(self.to_dict(), sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(text.encode()).hexdigest()[:32]

    def apply(self, codes: Codes) -> Int32:
        """(n,) number of each row's leaf."""
        if len(codes) != len(self.features):
            raise SpecError(
                f"codes have {len(codes)} columns; this tree reads {len(self.features)} features."
            )
        start = np.zeros(codes.shape[1], dtype=np.int32)
        return self.leaf[descend(self, start, codes)]

    def predict(self, codes: Codes) -> FloatArray:
        """(n, O) value of each row's leaf."""
        return self.values[self.apply(codes)]

    def regions(self, root: Region = EVERYONE) -> list[Region]:
        """Regions of the leaves inside `root`, from the left."""
        found: list[Region] = []
        waiting = [root]  # regions of subtrees still to come; the next one in preorder is last
        for test in self.tests:
            region = waiting.pop()
            if test is None:
                found.append(region)
            else:
                waiting += [(*region, Step(test, 1)), (*region, Step(test, 0))]
        return found

    def to_dict(self) -> dict[str, Any]:
        """Plain lists and strings; `from_dict` gives the equal tree back, to the last bit.

        A node is the number of its test, or the list of its values: deep trees repeat few tests.
        """
        tests = [test for test in dict.fromkeys(self.tests) if test is not None]
        return {
            "features": list(self.features),
            "tests": [_test_to_dict(test) for test in tests],
            "nodes": _preorder_of(self, {test: i for i, test in enumerate(tests)}),
        }

    @staticmethod
    def from_dict(data: Mapping[str, Any]) -> Tree:
        try:
            features = tuple(str(name) for name in data["features"])
            tests = [_test_from_dict(test) for test in data["tests"]]
            nodes = [_node_from_dict(node, tests) for node in data["nodes"]]
        except (KeyError, TypeError, ValueError, IndexError) as error:
            raise SpecError(
                f"not a tree: {error!r}. Expected 'features', 'tests' with 'feature', 'grid' and "
                "'left', and a preorder list 'nodes' of test numbers and lists of values."
            ) from error
        return _assemble(features, nodes)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Tree) and self.digest == other.digest

    def __hash__(self) -> int:
        return hash(self.digest)

    def __getstate__(self) -> dict[str, Any]:
        return without_caches(self)

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Arrays come back as they were: a copy must not be open to writing."""
        for part in state.values():
            if isinstance(part, np.ndarray):
                frozen(part)
        self.__dict__.update(state)

    def __repr__(self) -> str:
        return f"Tree({self.n_leaves} leaves, depth {self.depth}, {self.n_outputs} outputs)"


def without_caches(value: Any) -> dict[str, Any]:
    """What a pickle or a copy of a frozen value holds: its fields, not what was worked out."""
    return {field.name: getattr(value, field.name) for field in fields(value)}


def trees_to_dict(trees: Sequence[Tree]) -> dict[str, Any]:
    """Trees that read the same columns, their features and tests named once for all."""
    features = {tree.features for tree in trees}
    if len(features) > 1:
        raise SpecError("the trees of one model read different columns; give all the same.")
    tests = [test for test in dict.fromkeys(t for tree in trees for t in tree.tests) if test]
    place = {test: i for i, test in enumerate(tests)}
    return {
        "features": list(features.pop()) if trees else [],
        "tests": [_test_to_dict(test) for test in tests],
        "trees": [_preorder_of(tree, place) for tree in trees],
    }


def trees_from_dict(data: Mapping[str, Any]) -> tuple[Tree, ...]:
    features = tuple(str(name) for name in data["features"])
    tests = [_test_from_dict(test) for test in data["tests"]]
    return tuple(
        _assemble(features, [_node_from_dict(node, tests) for node in nodes])
        for nodes in data["trees"]
    )


def _preorder_of(tree: Tree, place: Mapping[Split, int]) -> list[Any]:
    """A node is the number of its test, or the list of its values."""
    values = iter(tree.values.tolist())
    return [next(values) if test is None else place[test] for test in tree.tests]


def descend(nodes: Routing, start: Int32, codes: Codes) -> Int32:
    """(..., n) leaf nodes where rows end, from their nodes in `start`; all go a level a time."""
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


_Node = Split | tuple[float, ...]  # a test, or the value of a leaf
_Leaves = list[tuple[Region, Sequence[float]]]


def _preorder(leaves: Iterable[tuple[Region, Sequence[float]]]) -> list[_Node]:
    """Nodes of the tree with these leaves: leaves that share a path part at its next test."""
    nodes: list[_Node] = []
    waiting = [(0, list(leaves))]  # subtrees still to come; the next one in preorder is last
    while waiting:
        depth, group = waiting.pop()
        region, value = group[0]
        if len(group) == 1 and len(region) == depth:
            nodes.append(tuple(float(v) for v in value))
        else:
            test, left, right = _parted(group, depth)
            nodes.append(test)
            waiting += [(depth + 1, right), (depth + 1, left)]
    return nodes


def _parted(group: _Leaves, depth: int) -> tuple[Split, _Leaves, _Leaves]:
    """The test after `depth` steps of all leaves of a group, and the leaves on either side."""
    steps = [region[depth] if len(region) > depth else None for region, _ in group]
    test = steps[0].test if steps[0] else None
    sides: tuple[_Leaves, _Leaves] = [], []
    for step, leaf in zip(steps, group, strict=True):
        if isinstance(test, Split) and step and step.test == test:
            sides[step.outcome].append(leaf)
    if not isinstance(test, Split) or not all(sides) or sum(map(len, sides)) < len(group):
        raise SpecError(
            f"the {len(group)} leaves below step {depth} are not the two sides of one split; "
            "give every leaf of one tree exactly once, without the steps above its root."
        )
    return test, *sides


def _assemble(features: tuple[str, ...], nodes: Sequence[_Node]) -> Tree:
    """Arrays from a preorder list. The second child starts where the first child's nodes end."""
    left, right = _children(nodes)
    tests = tuple(None if isinstance(node, tuple) else node for node in nodes)
    is_leaf = np.array([test is None for test in tests])
    if is_leaf.sum() > MOST_LEAVES:
        raise SpecError(f"the tree has {is_leaf.sum()} leaves; the most is {MOST_LEAVES}.")
    column = {name: j for j, name in enumerate(features)}
    distinct = {test: i for i, test in enumerate(dict.fromkeys(tests))}
    kind = np.array([distinct[test] for test in tests])  # a deep tree repeats few tests often
    return Tree(
        features=features,
        tests=tests,
        feature=int32([-1 if test is None else _column(column, test) for test in distinct], kind),
        cut=int32([-1 if test is None else _prefix(test.left) for test in distinct], kind),
        left_bits=frozen(np.array([_words(test) for test in distinct], dtype=np.uint64)[kind]),
        left=int32(left),
        right=int32(right),
        leaf=int32(np.where(is_leaf, np.cumsum(is_leaf) - 1, -1)),
        value=frozen(_finite(_values(nodes))),
    )


def _children(nodes: Sequence[_Node]) -> tuple[list[int], list[int]]:
    """Numbers of both children of every node of a preorder list."""
    left, right = [-1] * len(nodes), [-1] * len(nodes)
    open_tests: list[int] = []  # tests whose second child has not begun
    for q, node in enumerate(nodes):
        if not isinstance(node, tuple):
            left[q] = q + 1
            open_tests.append(q)
        elif open_tests:
            right[open_tests.pop()] = q + 1
        elif q + 1 < len(nodes):
            raise SpecError(f"the tree is complete after {q + 1} nodes; {len(nodes)} were given.")
    if open_tests or not nodes or max(right) >= len(nodes):
        raise SpecError(f"{len(nodes)} nodes end inside the tree; every test needs two children.")
    return left, right


def _values(nodes: Sequence[_Node]) -> FloatArray:
    outputs = {len(node) for node in nodes if isinstance(node, tuple)}
    if len(outputs) != 1:
        raise SpecError(f"leaves have {sorted(outputs)} outputs; give every leaf the same number.")
    nothing = (0.0,) * outputs.pop()
    return np.array(
        [node if isinstance(node, tuple) else nothing for node in nodes], dtype=np.float64
    )


def _column(column: Mapping[str, int], test: Split) -> int:
    if test.feature not in column:
        raise SpecError(f"a split tests {test.feature!r}; the features are {list(column)}.")
    if test.left.bit_length() > N_CODES:
        raise SpecError(f"a split on {test.feature!r} names cells beyond code {N_CODES - 1}.")
    return column[test.feature]


def _prefix(left: int) -> int:
    """Number of cells if `left` is the set of the first cells, else -1."""
    return left.bit_length() if left & (left + 1) == 0 else -1


def _words(test: Split | None) -> list[int]:
    left = 0 if test is None else test.left
    return [left >> shift & (2**WORD - 1) for shift in range(0, N_CODES, WORD)]


def levels(tree: Tree) -> Iterator[Int32]:
    """The numbers of the nodes of each level, from the root down."""
    nodes = np.zeros(1, dtype=np.int32)
    while nodes.size:
        yield nodes
        tests = nodes[tree.feature[nodes] >= 0]
        nodes = np.concatenate([tree.left[tests], tree.right[tests]])


def _test_to_dict(test: Split) -> dict[str, str]:
    return {"feature": test.feature, "grid": test.grid, "left": hex(test.left)}


def _test_from_dict(test: Mapping[str, Any]) -> Split:
    return Split(str(test["feature"]), str(test["grid"]), int(test["left"], 16))


def _node_from_dict(node: Any, tests: Sequence[Split]) -> _Node:
    if isinstance(node, (list, tuple)):
        return tuple(map(float, node))
    if not isinstance(node, int) or node < 0:
        raise ValueError(f"a node is {node!r}")
    return tests[node]


def _finite(value: FloatArray) -> FloatArray:
    if not np.isfinite(value).all():
        raise SpecError(f"leaf values hold {value[~np.isfinite(value)][0]}; use finite numbers.")
    return value
