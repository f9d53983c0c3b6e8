"""Candidate splits: (feature, set of bins sent left), public or from released answers."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hedgerow.schema.arrays import N_CODES, BoolArray, Rng, freeze
from hedgerow.schema.regions import Region, Split, cells
from hedgerow.schema.schema import ColumnKind, Grid, Schema


@dataclass(frozen=True)
class Binning:
    """How the cells of each feature merge into bins: public, once it was released.

    `bins[j][cell]` is the bin of a cell of feature j. Bins of a numeric feature are runs of cells;
    categories may be merged in any order.
    """

    bins: tuple[tuple[int, ...], ...]

    @staticmethod
    def of_cells(schema: Schema) -> Binning:
        """Each cell is a bin."""
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


ALL_CELLS = (1 << N_CODES) - 1
MOST_SIDES = 1024
"""Cache size: sets of bins in use, per block."""


def prefix_sets(n_bins: int) -> BoolArray:
    """(B - 2, B): bins below each cut go left; the last bin, `missing`, goes right."""
    return np.arange(n_bins)[None, :] < np.arange(1, n_bins - 1)[:, None]


@dataclass(frozen=True)
class CandidateBlock:
    """Positions of features with the same candidates, and these candidates: (k, B), 1 goes left."""

    positions: NDArray[np.intp]
    left_sets: NDArray[np.float64]

    def has_two_sides(self, is_used: BoolArray) -> BoolArray:
        """(g, k) whether a candidate leaves a bin in use on both sides; `is_used` is (g, B).

        Cached: a split narrows one feature, and all others keep their bins.
        """
        key = is_used.tobytes()
        has_both = self._sides.get(key)
        if has_both is None:
            left = is_used.astype(np.float64) @ self.left_sets.T
            has_both = (left > 0) & (left < is_used.sum(axis=1)[:, None])
            if len(self._sides) >= MOST_SIDES:
                self._sides.clear()
            self._sides[key] = has_both
        return has_both

    @cached_property
    def _sides(self) -> dict[bytes, BoolArray]:
        return {}


class Reach(NamedTuple):
    """What a path leaves in reach of one feature."""

    cells: int
    bins: BoolArray  # (B,)
    n_known: int  # bins without `missing`


@dataclass(frozen=True)
class Grids:
    """The schema's cells merged by a binning, with their candidate splits."""

    schema: Schema
    binning: Binning

    @property
    def n_features(self) -> int:
        return len(self.schema.grids)

    def grid(self, feature: int) -> Grid:
        return self.schema.grids[feature]

    @cached_property
    def active(self) -> tuple[int, ...]:
        """Features with at least two bins besides `missing`."""
        return tuple(j for j, n in enumerate(self.binning.n_bins) if n > 2)

    @cached_property
    def left_sets(self) -> tuple[BoolArray, ...]:
        """Per feature, the sets of bins a split may send left."""
        return tuple(self._sets(j) for j in range(self.n_features))

    def _sets(self, feature: int) -> BoolArray:
        n_bins = self.binning.n_bins[feature]
        if self.grid(feature).kind is not ColumnKind.NUMERIC:
            return np.eye(n_bins, dtype=bool)  # one against all others, `missing` included
        missing_left = prefix_sets(n_bins)
        missing_left[:, -1] = True
        return np.concatenate([prefix_sets(n_bins), missing_left])

    @cached_property
    def _families(self) -> dict[tuple[int, ...], tuple[CandidateBlock, ...]]:
        return {}

    def families(self, features: tuple[int, ...]) -> tuple[CandidateBlock, ...]:
        """Groups features by their candidates, so that similar histograms are scored at once."""
        if features not in self._families:
            self._families[features] = tuple(self._alike(features))
        return self._families[features]

    def _alike(self, features: tuple[int, ...]) -> Iterator[CandidateBlock]:
        groups: dict[tuple[bool, int], list[int]] = {}
        for position, feature in enumerate(features):
            kind = (self.grid(feature).kind is ColumnKind.NUMERIC, self.binning.n_bins[feature])
            groups.setdefault(kind, []).append(position)
        for positions in groups.values():
            sets = self.left_sets[features[positions[0]]]
            yield CandidateBlock(np.asarray(positions), sets.astype(np.float64))

    def reachable(self, region: Region, feature: int) -> BoolArray:
        """(B,) which bins of a feature the region's own tests leave in reach; read-only."""
        return self.reach(region)[feature].bins

    def reach(self, region: Region) -> Sequence[Reach]:
        """What the region's tests leave in reach of each feature.

        Cached by the remaining cells: a node narrows one feature, and all others keep theirs. The
        last result is cached too, since all features of a node are asked in a row. Regions are
        compared by identity: hashing one takes longer than everything else here.
        """
        if not self._last or self._last[0][0] is not region:
            left: dict[str, int] = {}
            for step in region:
                if isinstance(test := step.test, Split):
                    goes = test.left if step.outcome == 0 else ALL_CELLS & ~test.left
                    left[test.feature] = left.get(test.feature, ALL_CELLS) & goes
            reach = list(self._everywhere)
            for name, cells in left.items():
                feature = self.schema.places[name]
                reach[feature] = self._reach_of(feature, cells)
            self._last[:] = [(region, reach)]
        return self._last[0][1]

    @cached_property
    def _last(self) -> list[tuple[Region, Sequence[Reach]]]:
        return []

    @cached_property
    def _everywhere(self) -> list[Reach]:
        return [self._reach_of(feature, ALL_CELLS) for feature in range(self.n_features)]

    @cached_property
    def _reach_by_cells(self) -> dict[tuple[int, int], Reach]:
        return {}

    def _reach_of(self, feature: int, cells: int) -> Reach:
        known_reach = self._reach_by_cells.get((feature, cells))
        if known_reach is not None:
            return known_reach
        bins = np.zeros(self.binning.n_bins[feature], bool)
        octets = np.frombuffer(cells.to_bytes(N_CODES // 8, "little"), np.uint8)
        n_cells = len(self.binning.bins[feature])
        is_reachable = np.unpackbits(octets, count=n_cells, bitorder="little").view(bool)
        bins[self.binning.luts[feature, :n_cells][is_reachable]] = True
        reach = Reach(cells, freeze(bins), int(np.count_nonzero(bins[:-1])))
        self._reach_by_cells[feature, cells] = reach
        return reach

    def split(self, feature: int, left: BoolArray) -> Split:
        chosen = frozenset(int(b) for b in np.flatnonzero(left))
        return self.binning.split(self.grid(feature), feature, chosen)


FeatureDraw = Callable[[Rng], tuple[int, ...]]
"""Draws the features that a node considers."""


def all_features(n: int) -> FeatureDraw:
    return lambda rng: tuple(range(n))
