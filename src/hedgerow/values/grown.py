"""A finished tree with what is known of its leaves: released numbers, for people to read."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np

from hedgerow.values.arrays import FloatArray
from hedgerow.values.noise import of_proportions
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

    @property
    def deviations(self) -> FloatArray:
        """(O,) of the noise in `value`, as if the leaf leaned on nothing; leaning makes it less."""
        masses = np.maximum(self.masses, 0.0)
        rows = max(float(masses.sum()), 1.0)
        moved = self.scale * of_proportions(masses / rows, rows, self.variance)
        return moved[-len(self.value) :]


@dataclass(frozen=True)
class Grown:
    """A tree and its leaves, counted from the left.

    `saved` is the part of its budget that each node asked did not spend.
    """

    tree: Tree
    leaves: tuple[LeafValue, ...] = field(repr=False)
    saved: tuple[float, ...] = field(default=(), repr=False)

    def shifted(self, by: float) -> Grown:
        """All leaves say so much more."""
        leaves = tuple(replace(leaf, value=leaf.value + by) for leaf in self.leaves)
        return replace(self, tree=self.tree.with_values(self.tree.values + by), leaves=leaves)
