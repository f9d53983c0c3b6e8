"""The one builder. A learner is a plan: how a node chooses, which nodes come next, what leaves say.

A node's identity is its region. What a chooser learned about a node (tables, totals) is handed
to the children as `known`; what it spent is added up along the path, so that leaves may have
what their path did not use.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any

import numpy as np

from hedgerow.learning.flow import Flow, together
from hedgerow.learning.frontier import Frontier
from hedgerow.values.arrays import FloatArray
from hedgerow.values.regions import EVERYONE, Region, Split, Step
from hedgerow.values.trees import Tree


@dataclass(frozen=True)
class Node:
    region: Region
    depth: int = 0
    spent: Fraction = Fraction(0)
    saved: Fraction = Fraction(0)
    known: Any = field(default=None, compare=False)

    def child(self, choice: Choice, side: int) -> Node:
        return Node(
            (*self.region, Step(choice.split, side)),
            self.depth + 1,
            self.spent + choice.spent,
            choice.saved,
            choice.known[side],
        )


@dataclass(frozen=True)
class Choice:
    """A split taken: what it gains, what asking cost, what is left for the children."""

    split: Split
    gain: float = 0.0
    spent: Fraction = Fraction(0)
    saved: Fraction = Fraction(0)
    known: tuple[Any, Any] = field(default=(None, None), compare=False)


@dataclass(frozen=True)
class Stop:
    """The node stays a leaf; asking cost this much all the same, and this much was not asked."""

    spent: Fraction = Fraction(0)
    saved: Fraction = Fraction(0)


@dataclass(frozen=True)
class LeafValue:
    """What a leaf says, the noisy masses it says it from, and the variance of each mass.

    `scale` is what a proportion of 1 is worth in `value`: 1 for classes, a target's range.
    """

    value: FloatArray
    masses: FloatArray
    variance: float
    scale: float = 1.0


ROOT = Node(EVERYONE)

Chooser = Callable[[Node, np.random.Generator], Flow[Choice | Stop]]
LeafFlow = Callable[[Sequence[Node]], Flow[list[LeafValue]]]


@dataclass(frozen=True)
class TreePlan:
    choose: Chooser
    frontier: Frontier
    max_depth: int
    leaves: LeafFlow


@dataclass(frozen=True)
class Grown:
    """A finished tree with what is known of its leaves, in the order of `tree.leaves`.

    `saved` is the part of its budget that each node asked did not spend.
    """

    tree: Tree
    leaves: tuple[LeafValue, ...]
    ends: tuple[Node, ...]
    saved: tuple[float, ...] = ()


def grow(
    plan: TreePlan,
    names: Sequence[str],
    rng: np.random.Generator,
    root: Node = ROOT,
) -> Flow[Grown]:
    """Grows one tree; `names` are the schema's features in order."""
    fresh, pending = [root], dict[Node, Choice]()
    ends, saved, n_splits = list[Node](), list[float](), 0
    while fresh:
        goes_on = plan.frontier.is_open(n_splits)
        open_nodes = [n for n in fresh if goes_on and n.depth < plan.max_depth]
        ends += [n for n in fresh if not (goes_on and n.depth < plan.max_depth)]
        asking = {n: plan.choose(n, rng) for n in open_nodes}
        chosen = yield from together(asking)  # one round for all of them
        saved += [_saved_part(c) for c in chosen.values()]
        ends += [_after(n, c) for n, c in chosen.items() if isinstance(c, Stop)]
        pending |= {n: c for n, c in chosen.items() if isinstance(c, Choice)}
        fresh = []
        for node in plan.frontier.take(pending, n_splits):
            choice = pending.pop(node)
            fresh += [node.child(choice, side) for side in (0, 1)]
            n_splits += 1
    ends += [_after(n, Stop(c.spent)) for n, c in pending.items()]
    values = yield from plan.leaves(ends)
    return replace(assemble(root.region, ends, values, names), saved=tuple(saved))


def _saved_part(chosen: Choice | Stop) -> float:
    """What part of a node's budget its choice left for later."""
    budget = chosen.spent + chosen.saved
    return float(chosen.saved / budget) if budget else 0.0


def _after(node: Node, stop: Stop) -> Node:
    return Node(node.region, node.depth, node.spent + stop.spent, node.saved, node.known)


def assemble(
    root: Region, ends: Sequence[Node], values: Sequence[LeafValue], names: Sequence[str]
) -> Grown:
    """The tree over the ends, with its leaves counted from the left."""
    at = {n.region: (n, v) for n, v in zip(ends, values, strict=True)}
    below = len(root)
    tree = Tree.build(names, {region[below:]: v.value.tolist() for region, (_, v) in at.items()})
    order = [at[region] for region in tree.regions(root)]
    return Grown(tree, tuple(v for _, v in order), tuple(n for n, _ in order))
