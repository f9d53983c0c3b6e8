"""Random tests for all open nodes of a level at once, from public randomness alone.

Geurts et al. 2006 draw a node's cut between the smallest and the largest value it holds. These
are facts about rows, so here a cut is drawn where the public range and the tests above the node
still leave room. A cut in the node's own range is such a cut given that it parts the node: who
wants that law draws more tests than needed and drops those that part nothing.

Shapes: N nodes, F features, m tests of each node, H categorical features.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from hedgerow.values.arrays import N_CODES, BoolArray, FloatArray, Int16, IntArray, Words
from hedgerow.values.grids import ColumnKind
from hedgerow.values.layers import NO_TEST, Layer, NodeTests
from hedgerow.values.schema import Schema

ALL_BITS = np.uint64(2**64 - 1)


def cell_sets(cells: IntArray) -> Words:
    """(k, 4): for each number c, the set of the cells below c."""
    bits = np.arange(N_CODES)[None, :] < cells[:, None]
    return np.packbits(bits, axis=1, bitorder="little").view("<u8").astype(np.uint64)


PREFIXES = cell_sets(np.arange(N_CODES + 1))


@dataclass(frozen=True)
class DrawnColumns:
    """What drawing needs to know of the schema."""

    schema: Schema

    @cached_property
    def known(self) -> IntArray:
        """(F,) cells that are not `missing`; these come first."""
        return np.array([grid.missing for grid in self.schema.grids])

    @cached_property
    def missing(self) -> Words:
        """(F, 4) the set of the missing cell alone."""
        return PREFIXES[self.known + 1] & ~PREFIXES[self.known]

    @cached_property
    def categorical(self) -> IntArray:
        """(H,) features whose cells have no order."""
        kinds = [grid.kind for grid in self.schema.grids]
        return np.array(
            [j for j, kind in enumerate(kinds) if kind is not ColumnKind.NUMERIC], np.int64
        )

    @cached_property
    def edges(self) -> FloatArray:
        """(F, 257) the lower edge of each cell as a part of the range, and 1 from the last on."""
        out = np.ones((len(self.known), N_CODES + 1))
        for row, grid in zip(out, self.schema.grids, strict=True):
            if grid.kind is ColumnKind.NUMERIC:
                inner = (np.array(grid.edges) - grid.low) / (grid.high - grid.low)
                row[: grid.missing] = [0.0, *inner]
        return out

    def cell_of(self, feature: IntArray, part: FloatArray) -> IntArray:
        """The cell in which a value lies, given as a part of the feature's range."""
        flat = (self.edges[:, :-1] + 2.0 * np.arange(len(self.known))[:, None]).reshape(-1)
        return np.searchsorted(flat, part + 2.0 * feature, side="right") - N_CODES * feature - 1

    @cached_property
    def place(self) -> IntArray:
        """(F,) place of a feature among the categorical ones, -1 for a number."""
        out = np.full(len(self.known), -1)
        out[self.categorical] = np.arange(len(self.categorical))
        return out


@dataclass(frozen=True)
class Room:
    """Which known cells the path to each node leaves in reach."""

    first: Int16  # (N, F) of an ordered feature
    last: Int16  # (N, F)
    values: Words  # (N, H, 4) of a categorical one

    @staticmethod
    def at_the_root(columns: DrawnColumns) -> Room:
        last = (columns.known - 1).astype(np.int16)[None, :]
        return Room(np.zeros_like(last), last, PREFIXES[columns.known[columns.categorical]][None])

    @staticmethod
    def holding(columns: DrawnColumns, occupied: BoolArray) -> Room:
        """Of a root that is known to hold rows in these cells (F, B) alone."""
        known = occupied & (np.arange(occupied.shape[1]) < columns.known[:, None])
        found = known.any(axis=1)
        first = np.where(found, known.argmax(axis=1), 0)
        last = np.where(found, known.shape[1] - 1 - known[:, ::-1].argmax(axis=1), 0)
        wide = np.zeros((len(columns.categorical), N_CODES), bool)
        wide[:, : known.shape[1]] = known[columns.categorical]
        values = np.packbits(wide, axis=1, bitorder="little").view("<u8").astype(np.uint64)
        return Room(first.astype(np.int16)[None], last.astype(np.int16)[None], values[None])

    def open_features(self, columns: DrawnColumns) -> BoolArray:
        """(N, F) whether two known cells at least are in reach."""
        is_open = self.last > self.first
        is_open[:, columns.categorical] = np.bitwise_count(self.values).sum(axis=2) > 1
        return is_open

    def below(self, layer: Layer, columns: DrawnColumns) -> Room:
        """Of the nodes of `layer`, whose tests narrow the room of the nodes above."""
        assert layer.taken is not None
        above, side = np.nonzero(layer.children >= 0)
        order = np.argsort(layer.children[above, side])
        above, side = above[order], side[order]
        first, last, values = self.first[above], self.last[above], self.values[above]
        feature, left = layer.taken.feature[above].astype(np.int64), layer.taken.left[above]
        nodes, place = np.arange(len(above)), columns.place[feature]
        ordered = place < 0
        cut = np.bitwise_count(left & PREFIXES[columns.known[feature]]).sum(axis=1)
        lefts, rights = nodes[ordered & (side == 0)], nodes[ordered & (side == 1)]
        last[lefts, feature[lefts]] = cut[lefts] - 1
        first[rights, feature[rights]] = cut[rights]
        mine = nodes[~ordered]
        goes = np.where(side[mine, None] == 0, left[mine], ~left[mine])
        values[mine, place[mine]] &= goes
        return Room(first, last, values)


def random_cuts(columns: DrawnColumns, room: Room, m: int, rng: np.random.Generator) -> NodeTests:
    """M different features of every node in random order, with one random test each.

    Ordered cells are cut anywhere in reach; categories go left in random halves; `missing` goes
    to a random side. A node with fewer features in reach gets fewer tests.
    """
    feature = _features(room.open_features(columns), m, rng)
    column = np.maximum(feature, 0).astype(np.int64)
    left = _prefixes(columns, room, column, rng)
    if len(columns.categorical):
        left = np.where(
            (columns.place[column] < 0)[..., None], left, _halves(columns, room, column, rng)
        )
    side = np.where(rng.random(column.shape) < 0.5, ALL_BITS, np.uint64(0))
    return NodeTests(feature, left | columns.missing[column] & side[..., None])


def _features(is_open: BoolArray, m: int, rng: np.random.Generator) -> Int16:
    """(N, m) open features in random order, NO_TEST where there are no more."""
    keys = np.where(is_open, rng.random(is_open.shape), 2.0)
    order = np.argsort(keys, axis=1)[:, :m]
    found = np.take_along_axis(is_open, order, axis=1)
    return np.where(found, order, NO_TEST).astype(np.int16)


def _prefixes(
    columns: DrawnColumns, room: Room, column: IntArray, rng: np.random.Generator
) -> Words:
    """(N, m, 4) cells below a cut in reach: below a random value, or a random one of the cells.

    On a grid that is fine where values may pile up, cells stand for orders of magnitude. A value
    alone would hardly ever cut a skewed column; a cell alone would waste cuts on an even one.
    """
    nodes = np.arange(len(column))[:, None]
    first, last = (a[nodes, column].astype(np.int64) for a in (room.first, room.last))
    low, high = columns.edges[column, first], columns.edges[column, last + 1]
    by_value = columns.cell_of(column, low + (high - low) * rng.random(column.shape))
    by_cell = first + (rng.random(column.shape) * (last - first)).astype(np.int64)
    cell = np.where(rng.random(column.shape) < 0.5, by_value, by_cell)
    return np.asarray(PREFIXES[np.clip(cell + 1, first + 1, np.maximum(last, first + 1))])


def _halves(columns: DrawnColumns, room: Room, column: IntArray, rng: np.random.Generator) -> Words:
    """(N, m, 4) a random half of the values in reach, one of them if a half would be empty."""
    nodes = np.arange(len(column))[:, None]
    values = room.values[nodes, np.maximum(columns.place[column], 0)]
    half = values & rng.integers(0, 2**64, values.shape, dtype=np.uint64)
    empty = (half == 0).all(axis=-1) | (half == values).all(axis=-1)
    return np.where(empty[..., None], _one_of(values), half)


def _one_of(values: Words) -> Words:
    """The lowest member of each set."""
    lowest = values & (~values + np.uint64(1))
    earlier = np.cumsum(values != 0, axis=-1) - (values != 0)
    return np.where(earlier == 0, lowest, np.uint64(0))
