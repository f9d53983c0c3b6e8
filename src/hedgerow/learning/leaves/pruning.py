"""Smaller trees for free: what a finished tree says is not changed, only how much it takes."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from hedgerow.learning.builder import Grown, LeafValue, Node, assemble
from hedgerow.values.regions import Region


def merge_equal_labels(grown: Grown) -> Grown:
    """Sibling leaves that name the same class become one leaf, again and again.

    No prediction of a class changes: a mean of two distributions with one winner has it too.
    Probabilities become coarser.
    """
    nodes = dict(_leaves(grown))
    while pair := next(_mergeable(nodes), None):
        left, right = (nodes.pop(region) for region in pair)
        parent = pair[0][:-1]
        node = Node(parent, left[0].depth - 1, left[0].spent, known=left[0].known)
        nodes[parent] = (node, _merged(left[1], right[1]))
    ends = [node for node, _ in nodes.values()]
    values = [value for _, value in nodes.values()]
    return assemble(_root(grown), ends, values, grown.tree.features)


def _leaves(grown: Grown) -> Iterator[tuple[Region, tuple[Node, LeafValue]]]:
    for node, value in zip(grown.ends, grown.leaves, strict=True):
        yield node.region, (node, value)


def _root(grown: Grown) -> Region:
    """The steps above the tree's own."""
    first = grown.ends[0].region
    return first[: len(first) - len(grown.tree.regions()[0])]


def _mergeable(nodes: dict[Region, tuple[Node, LeafValue]]) -> Iterator[tuple[Region, Region]]:
    waiting: dict[Region, Region] = {}
    for region in nodes:
        if not region:
            return
        sibling = waiting.pop(region[:-1], None)
        if sibling is None:
            waiting[region[:-1]] = region
        elif _label(nodes[region]) == _label(nodes[sibling]):
            yield sibling, region


def _label(leaf: tuple[Node, LeafValue]) -> int:
    return int(np.argmax(leaf[1].value))


def _merged(left: LeafValue, right: LeafValue) -> LeafValue:
    """Values weighed by rows; masses and their variances add."""
    n_left, n_right = (max(float(leaf.masses.sum()), 1e-9) for leaf in (left, right))
    value = (n_left * left.value + n_right * right.value) / (n_left + n_right)
    return LeafValue(value, left.masses + right.masses, left.variance + right.variance)
