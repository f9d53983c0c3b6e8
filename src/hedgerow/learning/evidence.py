"""What a node knows of itself and of the nodes above it: released numbers, handed down a tree.

Shapes: F features in play, B bins, C channels.
"""

from __future__ import annotations

from dataclasses import dataclass

from hedgerow.values.arrays import BoolArray, FloatArray

NOWHERE = -1


@dataclass(frozen=True)
class Belief:
    """Tables of one node. `possible` says which bins its rows can be in at all."""

    features: tuple[int, ...]
    masses: FloatArray  # (F, B, C)
    variances: FloatArray  # (F, B, C)
    possible: BoolArray  # (F, B)
    totals: FloatArray  # (C,), not negative
    total_variance: float
    split: int = NOWHERE  # the feature whose split made this node: its table is known exactly

    def of(self, features: tuple[int, ...]) -> Belief:
        """The same node, with fewer features in play."""
        keep = [self.features.index(f) for f in features]
        return Belief(
            features,
            self.masses[keep],
            self.variances[keep],
            self.possible[keep],
            self.totals,
            self.total_variance,
            self.split,
        )


@dataclass(frozen=True)
class Evidence:
    """Channel masses of a node by its parent's answer, and the variance of each.

    `above` is the evidence of all nodes above it, from the root, each by its own answer. `belief`
    are the tables that the node may expect, where its chooser foretells them.
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
