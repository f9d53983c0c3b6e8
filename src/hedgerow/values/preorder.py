"""Nodes of a tree in preorder, each before its left and its right subtree.

What a list of nodes says about the shape of its tree, and the list that a set of leaves makes.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise, zip_longest

import numpy as np

from hedgerow.errors import SpecError
from hedgerow.values.arrays import BoolArray, IntArray
from hedgerow.values.regions import Region, Split

TreeNode = Split | tuple[float, ...]  # a test, or the value of a leaf
_Leaves = list[tuple[Region, Sequence[float]]]


def preorder(leaves: Iterable[tuple[Region, Sequence[float]]]) -> list[TreeNode]:
    """Nodes of the tree with these leaves: leaves that share a path part at its next test."""
    nodes: list[TreeNode] = []
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


def children(is_test: BoolArray, starts: IntArray) -> tuple[IntArray, IntArray]:
    """Left and right child of every node of trees that lie end to end, -1 at a leaf.

    `starts` has the first place of every tree and the end of the last; a child is counted within
    its tree. A left child is the next node. A test opens one subtree more than it closes, a leaf
    closes one: the left subtree of a test ends where, for the first time after the test, one
    subtree less is open than at it.
    """
    opened = np.cumsum(np.where(is_test, 1, -1))
    trees, many = np.repeat(np.arange(len(starts) - 1), np.diff(starts)), len(opened)
    _check_complete(np.flatnonzero(opened + trees < 0), starts)
    place = np.arange(many)
    by_level = np.sort(opened * many + place)  # places of one level side by side
    tests = place[is_test]
    level = (opened[tests] - 1) * many
    ends = by_level[np.searchsorted(by_level, level + tests)] - level
    left, right = np.full(many, -1), np.full(many, -1)
    left[tests] = tests + 1 - starts[trees[tests]]
    right[tests] = ends + 1 - starts[trees[tests]]
    return left, right


def _check_complete(ends: IntArray, starts: IntArray) -> None:
    """Every tree is complete at its last node, and not before."""
    if np.array_equal(ends, starts[1:] - 1):
        return
    for end, (first, after) in zip_longest(ends.tolist(), pairwise(starts.tolist())):
        if end is None or end >= after:
            raise SpecError(
                f"{after - first} nodes end inside the tree; every test needs two children."
            )
        if end < after - 1:
            raise SpecError(
                f"the tree is complete after {end - first + 1} nodes; {after - first} were given."
            )
