"""Leaves of one whole tree, asked as one sum: a record is in one leaf, so all of them cost one.

The sum of the leaves below a node is that node's own total with more noise. A leaf may lean on
the nodes above it by that (post-processing, free), or say its own noisy mean, as papers do.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from fractions import Fraction

import numpy as np

from hedgerow.learning.builder import LeafFlow, Node
from hedgerow.learning.flow import Flow, ask
from hedgerow.learning.goal import Goal
from hedgerow.learning.leaves.leaning import Estimate, Lean, leaning_proportions
from hedgerow.learning.leaves.per_leaf import plain_proportions as plain_proportions
from hedgerow.queries import Leaves, SumQuery
from hedgerow.values.arrays import FloatArray
from hedgerow.values.grown import LeafValue
from hedgerow.values.regions import EVERYONE, Region
from hedgerow.values.trees import Tree


def by_one_sum(
    goal: Goal, share: Fraction, root: Region, names: Sequence[str], lean: Lean | None
) -> LeafFlow:
    """What the leaves of the tree under `root` say; without `lean`, each for itself."""

    def leaves(ends: Sequence[Node]) -> Flow[list[LeafValue]]:
        tree = Tree.build(names, {n.region[len(root) :]: () for n in ends})
        by = Leaves((tree,))
        answer = yield from ask(SumQuery(root, goal.statistic, by, share))
        values = leaf_values(tree, answer.values[0], answer.variance, goal, lean, root)
        return [values[n.region] for n in ends]

    return leaves


def leaf_values(
    tree: Tree,
    masses: FloatArray,
    variance: float,
    goal: Goal,
    lean: Lean | None,
    root: Region = EVERYONE,
) -> dict[Region, LeafValue]:
    """What each leaf of a tree under `root` says, from left to right; masses are (L, C)."""
    regions = tree.regions(root)
    mine = dict(zip(regions, masses[: len(regions)], strict=True))
    p = said(mine, variance, len(root), lean)
    return {region: goal.leaf(p[region], mine[region], variance) for region in regions}


def said(
    masses: dict[Region, FloatArray], variance: float, above: int, lean: Lean | None
) -> dict[Region, FloatArray]:
    """Proportions of the leaves; steps before `above` are no nodes of the tree."""
    if lean is None:
        return {region: plain_proportions(mine) for region, mine in masses.items()}
    return leaning_proportions(sums_above(masses.items(), variance, above), lean)


def sums_above(
    leaves: Iterable[tuple[Region, FloatArray]], variance: float, above: int
) -> dict[Region, Estimate]:
    """Every node with the sum of the leaves below it and the noise of that sum; parents first."""
    nodes = dict[Region, Estimate]()
    for region, masses in leaves:
        for end in range(above, len(region) + 1):
            held, noise = nodes.get(region[:end], (np.zeros_like(masses), 0.0))
            nodes[region[:end]] = (held + masses, noise + variance)
    return dict(sorted(nodes.items(), key=lambda item: len(item[0])))
