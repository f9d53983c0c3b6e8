"""Smaller trees for free: what a finished tree says is not changed, only how much it takes."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from hedgerow.values.grown import Grown, LeafValue
from hedgerow.values.regions import Region
from hedgerow.values.trees import Tree

LeafValues = dict[Region, LeafValue]


def merge_equal_labels(grown: Grown) -> Grown:
    """Sibling leaves that name the same class become one leaf, again and again.

    No prediction of a class changes: a mean of two distributions with one winner has it too.
    Probabilities become coarser.
    """
    leaves = dict(zip(grown.tree.regions(), grown.leaves, strict=True))
    while pair := next(_mergeable(leaves), None):
        left, right = (leaves.pop(region) for region in pair)
        leaves[pair[0][:-1]] = _merged(left, right)
    values = {region: leaf.value.tolist() for region, leaf in leaves.items()}
    tree = Tree.build(grown.tree.features, values)
    return Grown(tree, tuple(leaves[region] for region in tree.regions()), grown.saved)


def _mergeable(leaves: LeafValues) -> Iterator[tuple[Region, Region]]:
    waiting: dict[Region, Region] = {}
    for region in leaves:
        if not region:
            return
        sibling = waiting.pop(region[:-1], None)
        if sibling is None:
            waiting[region[:-1]] = region
        elif np.argmax(leaves[region].value) == np.argmax(leaves[sibling].value):
            yield sibling, region


def _merged(left: LeafValue, right: LeafValue) -> LeafValue:
    """Values weighed by rows; masses and their variances add."""
    n_left, n_right = (max(float(leaf.masses.sum()), 1e-9) for leaf in (left, right))
    value = (n_left * left.value + n_right * right.value) / (n_left + n_right)
    return LeafValue(value, left.masses + right.masses, left.variance + right.variance)
