"""Leaves that lean on the nodes above them: the less sure a node is, the more.

Bottom-up, a node's total is averaged with the sum of its children (Hay et al. 2010); top-down,
its proportions are p = (N + m p_parent) / (n + m), where m grows with the noise in N.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from hedgerow.growing.builder import LeafFlow, LeafValue, Node
from hedgerow.growing.flow import Flow
from hedgerow.growing.screening import Known
from hedgerow.growing.tables import inverse_variance
from hedgerow.queries import Answer, SumQuery, Whole
from hedgerow.growing.targets import Goal
from hedgerow.regions import Region

FloatArray = NDArray[np.float64]
Estimate = tuple[FloatArray, float]
"""Channel masses of a node and the variance of each."""

PSEUDO_ROWS = 2.0


@dataclass(frozen=True)
class Lean:
    """How many pseudo-rows of its parent a node gets: 2 and `per_noise` times variance / rows."""

    per_noise: float

    def proportions(self, masses: FloatArray, variance: float, parent: FloatArray) -> FloatArray:
        n = float(masses.sum())
        m = PSEUDO_ROWS + self.per_noise * variance * len(masses) / max(n, 1.0)
        return (masses + m * parent) / (n + m)


def lean_of(goal: Goal) -> Lean:
    """A mean target varies less than a class does, so noise counts for more against it."""
    return Lean(2.0) if goal.shape is None else Lean(1.0 / goal.shape.spread)


def by_leaning_on_parents(goal: Goal, share_of: Callable[[Node], Fraction], lean: Lean) -> LeafFlow:
    """One sum per leaf, in one round; then consistency upwards and shrinkage downwards."""

    def leaves(ends: Sequence[Node]) -> Flow[list[LeafValue]]:
        replies = yield [SumQuery(n.region, goal.statistic, Whole(), share_of(n)) for n in ends]
        asked = dict[Region, Estimate]()
        for node, reply in zip(ends, replies, strict=True):
            assert isinstance(reply, Answer)
            asked[node.region] = (np.maximum(reply.values[0, 0], 0.0), reply.variance)
        p = proportions(consistent_upwards(asked, _above(ends)), lean)
        return [LeafValue(goal.value(p[n.region]), *asked[n.region]) for n in ends]

    return leaves


def _above(ends: Sequence[Node]) -> dict[Region, Estimate]:
    """The totals of all inner nodes, as the choosers left them."""
    above = dict[Region, Estimate]()
    for node in ends:
        assert isinstance(node.known, Known)
        start = len(node.region) - len(node.known.above)
        for k, totals in enumerate(node.known.above):
            above[node.region[: start + k]] = (totals.masses, totals.variance)
    return above


def consistent_upwards(
    leaves: dict[Region, Estimate], above: dict[Region, Estimate]
) -> dict[Region, Estimate]:
    """All nodes, each inner one averaged with the sum of its children; parents come first."""
    children = dict[Region, set[Region]]()
    for region in [*leaves, *above]:
        if region[:-1] in above and region:
            children.setdefault(region[:-1], set()).add(region)
    best = dict(leaves)
    for region in sorted(above, key=len, reverse=True):
        parts = [best[child] for child in children[region]]
        whole = sum((m for m, _ in parts), np.zeros_like(parts[0][0]))
        best[region] = inverse_variance([above[region], (whole, sum(v for _, v in parts))])
    return dict(sorted(best.items(), key=lambda item: len(item[0])))


def proportions(nodes: dict[Region, Estimate], lean: Lean) -> dict[Region, FloatArray]:
    """Of every node, from the root down; the root leans on equal shares."""
    p = dict[Region, FloatArray]()
    for region, (masses, variance) in nodes.items():
        parent = p.get(region[:-1]) if region else None
        if parent is None:
            parent = np.full(len(masses), 1.0 / len(masses))
        p[region] = lean.proportions(masses, variance, parent)
    return p
