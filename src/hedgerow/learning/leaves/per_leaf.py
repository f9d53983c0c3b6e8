"""What leaves say. A leaf component asks for all ends of a tree at once, or asks nothing."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction

import numpy as np

from hedgerow.learning.builder import LeafFlow, LeafValue, Node
from hedgerow.learning.choosing.histograms import Totals
from hedgerow.learning.choosing.tables import inverse_variance
from hedgerow.learning.flow import Flow
from hedgerow.queries import Answer, Statistic, SumQuery, Whole
from hedgerow.values.arrays import FloatArray

Reading = Callable[[FloatArray, float], FloatArray]
"""(noisy masses, their variance) -> what the leaf says."""


def plain_proportions(masses: FloatArray, variance: float) -> FloatArray:
    """Class probabilities; masses below zero count as none, an empty leaf says nothing."""
    c = np.maximum(masses, 0.0)
    n = c.sum()
    return c / n if n > 0 else np.full(len(c), 1.0 / len(c))


def unspent(node: Node) -> Fraction:
    """What the path to a node left of the whole budget."""
    return 1 - node.spent


def by_query(
    statistic: Statistic, share_of: Callable[[Node], Fraction], reading: Reading, combine: bool
) -> LeafFlow:
    """One sum per leaf, in one round. `share_of` may give a leaf what its path did not spend.

    With `combine`, what the parent's histogram already said about the leaf is averaged in, by
    inverse variance.
    """

    def leaves(ends: Sequence[Node]) -> Flow[list[LeafValue]]:
        replies = yield [SumQuery(n.region, statistic, Whole(), share_of(n)) for n in ends]
        values = []
        for node, reply in zip(ends, replies, strict=True):
            assert isinstance(reply, Answer)
            masses, variance = reply.values[0, 0], reply.variance
            if combine and isinstance(node.known, Totals):
                known = (node.known.masses, node.known.variance)
                masses, variance = inverse_variance([(masses, variance), known])
            values.append(LeafValue(reading(masses, variance), masses, variance))
        return values

    return leaves
