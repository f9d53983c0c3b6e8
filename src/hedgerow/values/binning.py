"""How cells merge into bins: public values, once they were released."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from hedgerow.values.regions import Split, cells
from hedgerow.values.schema import Grid, Schema


@dataclass(frozen=True)
class Binning:
    """How the cells of each feature merge into bins: a public value, once it was released.

    `bins[j][cell]` is the bin of a cell of feature j. Bins of a numeric feature are runs of
    cells; categories may be gathered in any order.
    """

    bins: tuple[tuple[int, ...], ...]

    @staticmethod
    def of_cells(schema: Schema) -> Binning:
        """Every cell its own bin."""
        return Binning(tuple(tuple(range(g.n_cells)) for g in schema.grids))

    @cached_property
    def n_bins(self) -> tuple[int, ...]:
        return tuple(max(b) + 1 for b in self.bins)

    @cached_property
    def digest(self) -> str:
        return hashlib.sha256(repr(self.bins).encode()).hexdigest()

    @cached_property
    def luts(self) -> NDArray[np.uint8]:
        """(F, 256) cell -> bin."""
        out = np.zeros((len(self.bins), 256), np.uint8)
        for j, bins in enumerate(self.bins):
            out[j, : len(bins)] = bins
        return out

    def split(self, grid: Grid, feature: int, left_bins: frozenset[int]) -> Split:
        """The test that sends the cells of `left_bins` left."""
        left = [c for c, b in enumerate(self.bins[feature]) if b in left_bins]
        return Split(grid.feature, grid.digest, cells(left))
