"""Which (feature, set of bins sent left) are on the table. Public, or read from answers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from hedgerow.queries import Binning
from hedgerow.regions import Split
from hedgerow.schema import Grid, Kind, Schema

BoolArray = NDArray[np.bool_]


def prefix_sets(n_bins: int) -> BoolArray:
    """(B - 2, B): bins below each cut go left; the last bin, `missing`, goes right."""
    return np.arange(n_bins)[None, :] < np.arange(1, n_bins - 1)[:, None]


def prefix_sets_missing_left(n_bins: int) -> BoolArray:
    """As `prefix_sets`, with `missing` sent left."""
    sets = prefix_sets(n_bins)
    sets[:, -1] = True
    return sets


def one_value_sets(n_bins: int) -> BoolArray:
    """(B, B): one category against all others, `missing` and `other` being categories too."""
    return np.eye(n_bins, dtype=bool)


@dataclass(frozen=True)
class Grids:
    """The schema's cells merged by a binning, as the candidates see them."""

    schema: Schema
    binning: Binning

    @property
    def n_features(self) -> int:
        return len(self.schema.grids)

    def grid(self, feature: int) -> Grid:
        return self.schema.grids[feature]

    @cached_property
    def left_sets(self) -> tuple[BoolArray, ...]:
        """Per feature, the sets of bins a split may send left."""
        return tuple(self._sets(j) for j in range(self.n_features))

    def _sets(self, feature: int) -> BoolArray:
        n_bins = self.binning.n_bins[feature]
        if self.grid(feature).kind is not Kind.NUMERIC:
            return one_value_sets(n_bins)
        return np.concatenate([prefix_sets(n_bins), prefix_sets_missing_left(n_bins)])

    def split(self, feature: int, left: BoolArray) -> Split:
        chosen = frozenset(int(b) for b in np.flatnonzero(left))
        return self.binning.split(self.grid(feature), feature, chosen)


FeatureDraw = Callable[[np.random.Generator], tuple[int, ...]]
"""Which features a node looks at."""


def all_features(n: int) -> FeatureDraw:
    return lambda rng: tuple(range(n))


def random_features(n: int, k: int) -> FeatureDraw:
    """K of n, drawn afresh for every node from the public generator."""
    return lambda rng: tuple(sorted(int(f) for f in rng.choice(n, min(k, n), replace=False)))
