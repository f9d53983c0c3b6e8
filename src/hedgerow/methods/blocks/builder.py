"""Grows a tree by a plan: how nodes choose splits, in which order, and how leaves get values.

A node's identity is its region. What a chooser learned about a node is passed to the children as
evidence; what it spent is added up along the path, so that leaves may use the unspent rest.

Other growers share flows, queries, candidates, scores and leaf values, but not the node objects:

| grower                 | what is special                                                     |
|------------------------|---------------------------------------------------------------------|
| `builder.grow`         | one object a node; levels or best first; any chooser                |
| `greedy_trees`         | `builder.grow` with boosting's sums, many trees side by side        |
| `layered`              | all open nodes of a level as arrays: forests of 1e5 nodes           |
| `random_trees`         | drawn from public randomness: no node asks anything                 |
| `methods.forest`       | all trees at once from the root's tables, as arrays in heap order   |
| `methods.multiway`     | a child for every bin of the selected feature                       |
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction

from hedgerow.methods.blocks.flow import Flow, together
from hedgerow.models.tree import MOST_LEAVES, Tree
from hedgerow.models.uncertainty import LeafStatistics, LeafValue
from hedgerow.schema.arrays import BoolArray, FloatArray, Rng
from hedgerow.schema.regions import EVERYONE, Region, Split, Step

# Released statistics of a node and of its ancestors, passed down the tree.
#
# Shapes: F features in play, B bins, C channels.

NOWHERE = -1


@dataclass(frozen=True)
class Belief:
    """Tables of one node. `possible` marks the bins that its rows can be in."""

    features: tuple[int, ...]
    masses: FloatArray  # (F, B, C)
    variances: FloatArray  # (F, B, C)
    possible: BoolArray  # (F, B)
    totals: FloatArray  # (C,), not negative
    total_variance: float
    split: int = NOWHERE  # the feature whose split made this node; its table is known exactly

    def of(self, features: tuple[int, ...]) -> Belief:
        """The same node, with fewer features in play."""
        keep = [self.features.index(f) for f in features]
        return replace(
            self,
            features=features,
            masses=self.masses[keep],
            variances=self.variances[keep],
            possible=self.possible[keep],
        )


@dataclass(frozen=True)
class Evidence:
    """Channel masses of a node by its parent's answer, and the variance of each.

    `above` is the evidence of all ancestors from the root down, each by its own answer. `belief`
    holds the tables expected at the node, if its chooser predicts them.
    """

    masses: FloatArray  # (C,)
    variance: float
    above: tuple[Evidence, ...] = ()
    belief: Belief | None = None

    @property
    def rows(self) -> float:
        return float(self.masses.sum())

    @staticmethod
    def of(belief: Belief, above: tuple[Evidence, ...] = ()) -> Evidence:
        return Evidence(belief.totals, belief.total_variance, above, belief)


@dataclass(frozen=True)
class Node:
    region: Region
    depth: int = 0
    spent: Fraction = Fraction(0)
    unspent: Fraction = Fraction(0)
    evidence: Evidence | None = field(default=None, compare=False)

    def child(self, choice: SplitChoice, side: int) -> Node:
        return Node(
            (*self.region, Step(choice.split, side)),
            self.depth + 1,
            self.spent + choice.spent,
            choice.unspent,
            choice.evidence[side],
        )


@dataclass(frozen=True)
class SplitChoice:
    """A selected split: its gain, the budget it spent, the budget left for the children."""

    split: Split
    gain: float = 0.0
    spent: Fraction = Fraction(0)
    unspent: Fraction = Fraction(0)
    evidence: tuple[Evidence | None, Evidence | None] = field(default=(None, None), compare=False)
    rows: float | None = field(default=None, compare=False)
    """The node's number of rows, if a separate query asked for it."""


@dataclass(frozen=True)
class Stop:
    """The node stays a leaf: the budget spent on asking, and the budget left unspent."""

    spent: Fraction = Fraction(0)
    unspent: Fraction = Fraction(0)


ROOT = Node(EVERYONE)

Chooser = Callable[[Node, Rng], Flow[SplitChoice | Stop]]
LeafFlow = Callable[[Sequence[Node]], Flow[list[LeafValue]]]


@dataclass(frozen=True)
class TreePlan:
    """How a tree grows: level by level, one round each, unless `max_splits` is given.

    Then the node with the largest gain is split, while splits are left (DP-TopDown, Algorithm 1).
    """

    choose: Chooser
    max_depth: int
    leaves: LeafFlow
    max_splits: int | None = None

    def is_open(self, n_splits: int) -> bool:
        """Whether a node may still be split."""
        return self.max_splits is None or n_splits < self.max_splits

    def take(self, pending: Mapping[Node, SplitChoice], n_splits: int) -> list[Node]:
        """The nodes to split next."""
        if self.max_splits is None:
            return list(pending)
        if not pending or n_splits >= self.max_splits:
            return []
        # Iterating items avoids lookups, which would hash every path of the tree at every split.
        most = max(choice.gain for choice in pending.values())
        return [next(node for node, choice in pending.items() if choice.gain == most)]


def grow(plan: TreePlan, names: Sequence[str], rng: Rng, root: Node = ROOT) -> Flow[LeafStatistics]:
    """Grows one tree; `names` are the schema's features in order."""
    fresh, pending = [root], dict[Node, SplitChoice]()
    ends, unspent_parts, n_splits = list[Node](), list[float](), 0
    while fresh:
        # The number of leaves is limited: nodes that could not be split any more are not queried.
        room = MOST_LEAVES - 1 - n_splits if plan.is_open(n_splits) else 0
        able = [n for n in fresh if n.depth < plan.max_depth]
        ends += [n for n in fresh if n.depth >= plan.max_depth] + able[room:]
        asking = {n: plan.choose(n, rng) for n in able[:room]}
        chosen = yield from together(asking)  # one round for all nodes
        unspent_parts += [_unspent_part(c) for c in chosen.values()]
        ends += [_after(n, c) for n, c in chosen.items() if isinstance(c, Stop)]
        pending |= {n: c for n, c in chosen.items() if isinstance(c, SplitChoice)}
        fresh = []
        for node in plan.take(pending, n_splits)[:room]:
            choice = pending.pop(node)
            fresh += [node.child(choice, side) for side in (0, 1)]
            n_splits += 1
    ends += [_after(n, Stop(c.spent)) for n, c in pending.items()]
    values = yield from plan.leaves(ends)
    return assemble(root.region, ends, values, names, tuple(unspent_parts))


def _unspent_part(chosen: SplitChoice | Stop) -> float:
    """The fraction of a node's budget that its choice left unspent."""
    budget = chosen.spent + chosen.unspent
    return float(chosen.unspent / budget) if budget else 0.0


def _after(node: Node, stop: Stop) -> Node:
    return replace(node, spent=node.spent + stop.spent)


def assemble(
    root: Region,
    ends: Sequence[Node],
    values: Sequence[LeafValue],
    names: Sequence[str],
    unspent_fractions: tuple[float, ...] = (),
) -> LeafStatistics:
    """The tree over the end nodes, with its leaves numbered from the left."""
    at = {n.region[len(root) :]: v for n, v in zip(ends, values, strict=True)}
    tree = Tree.build(names, {region: v.value.tolist() for region, v in at.items()})
    return LeafStatistics(tree, tuple(at[region] for region in tree.regions()), unspent_fractions)
