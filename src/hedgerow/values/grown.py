"""A finished tree with what is known of its leaves: released numbers, for people to read."""

from __future__ import annotations

from dataclasses import dataclass, field

from hedgerow.values.arrays import FloatArray
from hedgerow.values.trees import Tree


@dataclass(frozen=True)
class LeafValue:
    """What a leaf says, the noisy masses it says it from, and the variance of each mass.

    `scale` is what a proportion of 1 is worth in `value`: 1 for classes, a target's range.
    """

    value: FloatArray
    masses: FloatArray
    variance: float
    scale: float = 1.0


@dataclass(frozen=True)
class Grown:
    """A tree and its leaves, counted from the left.

    `saved` is the part of its budget that each node asked did not spend.
    """

    tree: Tree
    leaves: tuple[LeafValue, ...] = field(repr=False)
    saved: tuple[float, ...] = field(default=(), repr=False)
