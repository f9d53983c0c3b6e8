"""What leaves say. A leaf component asks for all ends of a tree at once, or asks nothing."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction

import numpy as np

from hedgerow.learning.builder import LeafFlow, Node
from hedgerow.learning.flow import Flow
from hedgerow.queries import Answer, Reply, Statistic, SumQuery, Whole
from hedgerow.values.arrays import FloatArray
from hedgerow.values.grown import LeafValue


def plain_proportions(masses: FloatArray) -> FloatArray:
    """Class probabilities; masses below zero count as none, an empty leaf says nothing."""
    c = np.maximum(masses, 0.0)
    n = c.sum()
    return c / n if n > 0 else np.full(len(c), 1.0 / len(c))


def unspent(node: Node) -> Fraction:
    """What the path to a node left of the whole budget."""
    return 1 - node.spent


def by_query(statistic: Statistic, share_of: Callable[[Node], Fraction]) -> LeafFlow:
    """One sum per leaf, in one round. `share_of` may give a leaf what its path did not spend."""

    def leaves(ends: Sequence[Node]) -> Flow[list[LeafValue]]:
        replies = yield [SumQuery(n.region, statistic, Whole(), share_of(n)) for n in ends]
        return [_plain(reply) for reply in replies]

    return leaves


def _plain(reply: Reply) -> LeafValue:
    assert isinstance(reply, Answer)
    masses = reply.values[0, 0]
    return LeafValue(plain_proportions(masses), masses, reply.variance)
