"""Grows a tree level by level with all open nodes as arrays: one query per level.

`builder.py` has one object per node, which is clearer for trees of some hundred nodes. A forest of
fully grown trees has hundreds of thousands, hence this second implementation.

Shapes: N open nodes, m tests of each, C channels.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from hedgerow.methods.blocks.flow import Flow, ask
from hedgerow.methods.blocks.histograms import PATIENCE
from hedgerow.methods.blocks.scores import TINY, Impurity
from hedgerow.methods.constants import constant
from hedgerow.models.layers import NO_TEST, ROOT_LAYER, Layer, NodeTests
from hedgerow.models.tree import MOST_LEAVES, Tree
from hedgerow.privacy.bundles import MOST_INTEGERS
from hedgerow.privacy.queries import Sides, Statistic, SumQuery
from hedgerow.schema.arrays import N_CODES, BoolArray, FloatArray, Int16, IntArray, Rng, Words
from hedgerow.schema.grids import ColumnKind
from hedgerow.schema.regions import Region, Split
from hedgerow.schema.schema import Schema

MOST_ASKED_TESTS = constant(1 << 20, unit="tests of one level of a tree: memory")

# Random tests for all open nodes of a level at once, from public randomness alone. Geurts et al.
# 2006 draw a node's cut between its smallest and largest value. Those depend on rows, so here a cut
# is drawn within the public range that the tests above the node leave. Conditional on separating
# the node's rows, such a cut has the same distribution: draw more tests than needed and drop those
# that separate nothing. Shapes: N nodes, F features, m tests of each node, H categorical features.


def _bits(is_member: BoolArray) -> Words:
    """(k, 4) sets of cells as bits."""
    return np.packbits(is_member, axis=1, bitorder="little").view("<u8").astype(np.uint64)


PREFIXES = _bits(np.arange(N_CODES) < np.arange(N_CODES + 1)[:, None])
"""(257, 4): for each number c, the set of the cells below c."""


@dataclass(frozen=True)
class DrawnColumns:
    """Facts of the schema that random draws need."""

    schema: Schema

    @cached_property
    def n_known(self) -> IntArray:
        """(F,) number of cells before `missing`."""
        return np.array([grid.missing for grid in self.schema.grids])

    @cached_property
    def missing(self) -> Words:
        """(F, 4) the set of the missing cell alone."""
        return PREFIXES[self.n_known + 1] & ~PREFIXES[self.n_known]

    @cached_property
    def categorical(self) -> IntArray:
        """(H,) features whose cells have no order."""
        kinds = [grid.kind for grid in self.schema.grids]
        return np.array(
            [j for j, kind in enumerate(kinds) if kind is not ColumnKind.NUMERIC], np.int64
        )

    @cached_property
    def edges(self) -> FloatArray:
        """(F, 257) the lower edge of each cell relative to the range, and 1 from the last on."""
        out = np.ones((len(self.n_known), N_CODES + 1))
        for row, grid in zip(out, self.schema.grids, strict=True):
            if grid.kind is ColumnKind.NUMERIC:
                inner = (np.array(grid.edges) - grid.low) / (grid.high - grid.low)
                row[: grid.missing] = [0.0, *inner]
        return out

    def cell_of(self, feature: IntArray, part: FloatArray) -> IntArray:
        """The cell of a value, given relative to the feature's range."""
        flat = (self.edges[:, :-1] + 2.0 * np.arange(len(self.n_known))[:, None]).reshape(-1)
        return np.searchsorted(flat, part + 2.0 * feature, side="right") - N_CODES * feature - 1

    @cached_property
    def place(self) -> IntArray:
        """(F,) index of a feature among the categorical ones, -1 for a numeric one."""
        out = np.full(len(self.n_known), -1)
        out[self.categorical] = np.arange(len(self.categorical))
        return out


@dataclass(frozen=True)
class Room:
    """The cells, without `missing`, that are reachable at each node."""

    first: Int16  # (N, F) of an ordered feature
    last: Int16  # (N, F)
    values: Words  # (N, H, 4) of a categorical one

    @staticmethod
    def at_the_root(columns: DrawnColumns) -> Room:
        last = (columns.n_known - 1).astype(np.int16)[None, :]
        return Room(np.zeros_like(last), last, PREFIXES[columns.n_known[columns.categorical]][None])

    @staticmethod
    def holding(columns: DrawnColumns, is_occupied: BoolArray) -> Room:
        """The reachable cells of a root whose rows are only in the cells `is_occupied` (F, B)."""
        is_number = is_occupied & (np.arange(is_occupied.shape[1]) < columns.n_known[:, None])
        has_number = is_number.any(axis=1)
        first = np.where(has_number, is_number.argmax(axis=1), 0)
        last = np.where(has_number, is_number.shape[1] - 1 - is_number[:, ::-1].argmax(axis=1), 0)
        wide = np.zeros((len(columns.categorical), N_CODES), bool)
        wide[:, : is_number.shape[1]] = is_number[columns.categorical]
        return Room(first.astype(np.int16)[None], last.astype(np.int16)[None], _bits(wide)[None])

    def open_features(self, columns: DrawnColumns) -> BoolArray:
        """(N, F) whether at least two known cells are reachable."""
        is_open = self.last > self.first
        is_open[:, columns.categorical] = np.bitwise_count(self.values).sum(axis=2) > 1
        return is_open

    def below(self, layer: Layer, columns: DrawnColumns) -> Room:
        """The reachable cells of the nodes of `layer`, after the tests above them."""
        assert layer.node_tests is not None
        above, side = np.nonzero(layer.children >= 0)
        order = np.argsort(layer.children[above, side])
        above, side = above[order], side[order]
        first, last, values = self.first[above], self.last[above], self.values[above]
        feature = layer.node_tests.feature[above].astype(np.int64)
        left = layer.node_tests.left[above]
        nodes, place = np.arange(len(above)), columns.place[feature]
        is_numeric = place < 0
        cut = np.bitwise_count(left & PREFIXES[columns.n_known[feature]]).sum(axis=1)
        lefts, rights = nodes[is_numeric & (side == 0)], nodes[is_numeric & (side == 1)]
        last[lefts, feature[lefts]] = cut[lefts] - 1
        first[rights, feature[rights]] = cut[rights]
        mine = nodes[~is_numeric]
        goes = np.where(side[mine, None] == 0, left[mine], ~left[mine])
        values[mine, place[mine]] &= goes
        return Room(first, last, values)


def random_cuts(columns: DrawnColumns, room: Room, m: int, rng: Rng) -> NodeTests:
    """For every node, m different features in random order, with one random test each.

    Ordered cells are cut anywhere within reach; categories go left in random halves; `missing` goes
    to a random side. A node with fewer open features gets fewer tests.
    """
    feature = _features(room.open_features(columns), m, rng)
    column = np.maximum(feature, 0).astype(np.int64)
    left = _prefixes(columns, room, column, rng)
    if len(columns.categorical):
        left = np.where(
            (columns.place[column] < 0)[..., None], left, _halves(columns, room, column, rng)
        )
    side = np.where(rng.random(column.shape) < 0.5, ~np.uint64(0), np.uint64(0))
    return NodeTests(feature, left | columns.missing[column] & side[..., None])


def _features(is_open: BoolArray, m: int, rng: Rng) -> Int16:
    """(N, m) open features in random order, NO_TEST where there are no more."""
    keys = np.where(is_open, rng.random(is_open.shape), 2.0)
    order = np.argsort(keys, axis=1)[:, :m]
    is_found = np.take_along_axis(is_open, order, axis=1)
    return np.where(is_found, order, NO_TEST).astype(np.int16)


def _prefixes(columns: DrawnColumns, room: Room, column: IntArray, rng: Rng) -> Words:
    """(N, m, 4) the cells below a reachable cut: below a random value, or below a random cell.

    On a grid that is fine where values may pile up, cells represent orders of magnitude. A random
    value would rarely cut a skewed column; a random cell would waste cuts on an even one.
    """
    nodes = np.arange(len(column))[:, None]
    first, last = (a[nodes, column].astype(np.int64) for a in (room.first, room.last))
    low, high = columns.edges[column, first], columns.edges[column, last + 1]
    by_value = columns.cell_of(column, low + (high - low) * rng.random(column.shape))
    by_cell = first + (rng.random(column.shape) * (last - first)).astype(np.int64)
    cell = np.where(rng.random(column.shape) < 0.5, by_value, by_cell)
    return np.asarray(PREFIXES[np.clip(cell + 1, first + 1, np.maximum(last, first + 1))])


def _halves(columns: DrawnColumns, room: Room, column: IntArray, rng: Rng) -> Words:
    """(N, m, 4) a random half of the reachable values; a single one if a half would be empty."""
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


@dataclass(frozen=True, kw_only=True)
class RandomSplits:
    """How a node is split: the best of some random tests, by their noisy 2 x C tables.

    Of `n_asked` tests the first `n_considered` that separate the node's rows compete: without a
    charge, a few more tests give the distribution of tests drawn within the node's own range.
    """

    statistic: Statistic
    impurity: Impurity
    n_considered: int
    n_asked: int
    max_depth: int
    min_samples_split: float
    min_samples_leaf: float
    level_fraction: Fraction
    noise: float  # noise variance of each cell
    consistency: bool = True


@dataclass
class Branches:
    """The tree so far: per level, the layer below and the masses of all children."""

    layers: list[Layer] = field(default_factory=list)
    masses: list[FloatArray] = field(default_factory=list)  # (2 x tests taken, C)
    root: FloatArray | None = None

    @property
    def n_leaves(self) -> int:
        """The number of leaves if the tree ended here."""
        return 1 + sum(len(masses) // 2 for masses in self.masses)


def grow_layers(
    rules: RandomSplits, schema: Schema, rng: Rng, region: Region, room: Room
) -> Flow[Branches]:
    """Asks once per level until no node is open; stops on released numbers only.

    `room` restricts where the root may be cut.
    """
    columns, branches, layer = DrawnColumns(schema), Branches(), ROOT_LAYER
    while len(branches.layers) < rules.max_depth and layer.n_nodes:
        cuts = random_cuts(columns, room, rules.n_asked, rng)
        if (cuts.feature == NO_TEST).all():
            break
        query = SumQuery(region, rules.statistic, Sides(layer, cuts), rules.level_fraction)
        values = (yield from ask(query)).values
        tables, totals = make_consistent(values, cuts, move=rules.consistency)
        branches.root = totals[0] if branches.root is None else branches.root
        best, is_split = best_tests(rules, tables, cuts)
        is_split &= np.cumsum(is_split) <= MOST_LEAVES - branches.n_leaves
        sides = tables[best[is_split], np.flatnonzero(is_split)].reshape(-1, tables.shape[-1])
        is_open = goes_on(rules, sides)
        is_open &= np.cumsum(is_open) <= most_open(rules.n_asked, rules.statistic.channels)
        layer = Layer(layer, cuts.select(best, is_split), is_open)
        room = room.below(layer, columns)
        branches.layers.append(layer)
        branches.masses.append(sides)
    return branches


def most_open(tests_per_node: int, channels: int) -> int:
    """The largest number of open nodes whose tests fit into one query.

    A query has at most `MOST_ASKED_TESTS` tests; a table has two sides, and a randomized label has
    two channels per class and one more.
    """
    integers = 2 * tests_per_node * (2 * channels + 1)
    return min(MOST_LEAVES, MOST_ASKED_TESTS // tests_per_node, MOST_INTEGERS // integers)


def make_consistent(
    values: FloatArray, cuts: NodeTests, *, move: bool = True
) -> tuple[FloatArray, FloatArray]:
    """(m, N, 2, C) tables that agree on their node's total if they `move`, and these totals (N, C).

    Every test of a node counts the same rows: the mean of the totals has 1 / m of their variance,
    and half of each table's difference from it is added to either side.
    """
    tables = values.reshape(len(values), -1, 2, values.shape[-1])
    has_test = (cuts.feature.T != NO_TEST)[:, :, None]
    sums = tables.sum(axis=2)  # (m, N, C)
    totals = (sums * has_test).sum(axis=0) / np.maximum(has_test.sum(axis=0), 1)
    return (tables + (totals - sums)[:, :, None, :] / 2.0 if move else tables), totals


def best_tests(
    rules: RandomSplits, tables: FloatArray, cuts: NodeTests
) -> tuple[NDArray[np.intp], BoolArray]:
    """(N,) the best test of each node, and whether there is one."""
    rows = tables.sum(axis=-1)  # (m, N, 2)
    least = max(rules.min_samples_leaf, TINY)
    is_allowed = (rows >= least).all(axis=2) & (cuts.feature.T != NO_TEST)
    is_allowed &= np.cumsum(is_allowed, axis=0) <= rules.n_considered
    left_over = np.where(is_allowed, rules.impurity(tables).sum(axis=2), np.inf)
    return np.argmin(left_over, axis=0), is_allowed.any(axis=0)


def goes_on(rules: RandomSplits, masses: FloatArray) -> BoolArray:
    """(N,) whether a node may be split: enough rows and two classes, by noisy counts."""
    spread = PATIENCE * math.sqrt(rules.noise)
    rows = masses.sum(axis=1) + spread * math.sqrt(masses.shape[1])
    present = (masses + spread > TINY).sum(axis=1)
    return np.asarray((rows >= rules.min_samples_split) & (present > 1))


def assemble_tree(branches: Branches, schema: Schema, channels: int) -> tuple[Tree, FloatArray]:
    """The tree without values, and the masses of its leaves (L, C) according to the tables."""
    layer_splits = [_splits(layer, schema) for layer in branches.layers]
    start = np.zeros(channels) if branches.root is None else branches.root
    nodes, leaves = list[Split | tuple[float, ...]](), list[FloatArray]()
    waiting: list[tuple[int, int, FloatArray]] = [(0, 0, start)]  # level, node there, its masses
    while waiting:
        level, node, masses = waiting.pop()
        split_and_rank = layer_splits[level].get(node) if level < len(layer_splits) else None
        if split_and_rank is None:
            nodes.append(())
            leaves.append(masses)
            continue
        split, rank = split_and_rank
        nodes.append(split)
        numbers, below = branches.layers[level].children[node], branches.masses[level]
        waiting += [(level + 1, int(numbers[s]), below[2 * rank + s]) for s in (1, 0)]
    return Tree.of_preorder(schema.names, nodes), np.array(leaves)


def _splits(layer: Layer, schema: Schema) -> dict[int, tuple[Split, int]]:
    """The tests that led to a layer, by node above, each with its rank among them."""
    assert layer.node_tests is not None
    nodes = np.flatnonzero(layer.node_tests.feature != NO_TEST).tolist()
    return {node: (layer.node_tests.split(node, schema), rank) for rank, node in enumerate(nodes)}
