"""Which features a tree may look at (Maddock et al. 2022, section 5.1)."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

TreeFeatures = Callable[[int, np.random.Generator], tuple[int, ...]]
"""(number of the tree, public randomness) -> the features it may split on."""


def cyclic(n_features: int, k: int) -> TreeFeatures:
    """Tree after tree the next k features, around and around; k = 1 is the EBM."""
    width = min(k, n_features)

    def draw(tree: int, rng: np.random.Generator) -> tuple[int, ...]:
        return tuple(sorted((tree * width + i) % n_features for i in range(width)))

    return draw


def random(n_features: int, k: int) -> TreeFeatures:
    """K features drawn afresh for every tree; k = all is the ordinary tree."""

    def draw(tree: int, rng: np.random.Generator) -> tuple[int, ...]:
        drawn = rng.choice(n_features, min(k, n_features), replace=False)
        return tuple(sorted(int(f) for f in drawn))

    return draw
