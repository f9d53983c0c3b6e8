"""Grows a tree level by level with all open nodes as arrays: one query a level.

The builder in `builder.py` keeps an object per node, which is the clearer way for trees of some
hundred nodes. A forest of fully grown trees has hundreds of thousands, hence this second one.

Shapes: N open nodes, m tests of each, C channels.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from hedgerow.learning.choosing.histograms import PATIENCE
from hedgerow.learning.choosing.random_cuts import DrawnColumns, Room, random_cuts
from hedgerow.learning.choosing.scores import TINY, Impurity
from hedgerow.learning.flow import Flow, ask
from hedgerow.queries import Sides, Statistic, SumQuery
from hedgerow.study.limits import MOST_INTEGERS
from hedgerow.values.arrays import BoolArray, FloatArray
from hedgerow.values.layers import NO_TEST, ROOT_LAYER, Layer, NodeTests
from hedgerow.values.regions import Region, Split
from hedgerow.values.schema import Schema
from hedgerow.values.trees import MOST_LEAVES, Tree

MOST_ASKED_TESTS = 1 << 20


@dataclass(frozen=True, kw_only=True)
class RandomSplits:
    """How a node is split: the best of some random tests, by their noisy 2 x C tables.

    Of `asked` tests the first `considered` that part the node compete: where nothing costs
    budget, asking a few more gives the law of tests drawn within the node's own range.
    """

    statistic: Statistic
    impurity: Impurity
    considered: int
    asked: int
    max_depth: int
    min_samples_split: float
    min_samples_leaf: float
    level_share: Fraction
    noise: float  # variance in each cell that the study adds to what sites hold


@dataclass
class Branches:
    """What has been grown so far: per level, the layer below and the masses of all children."""

    layers: list[Layer] = field(default_factory=list)
    masses: list[FloatArray] = field(default_factory=list)  # (2 x tests taken, C)
    root: FloatArray | None = None

    @property
    def n_leaves(self) -> int:
        """Of the tree, if it ended here."""
        return 1 + sum(len(masses) // 2 for masses in self.masses)


def grow_layers(
    rules: RandomSplits, schema: Schema, rng: np.random.Generator, region: Region, room: Room
) -> Flow[Branches]:
    """Asks once a level until no node is open; stops on released numbers only.

    `room` is where the root may be cut.
    """
    columns, grown, layer = DrawnColumns(schema), Branches(), ROOT_LAYER
    while len(grown.layers) < rules.max_depth and layer.n_nodes:
        cuts = random_cuts(columns, room, rules.asked, rng)
        if (cuts.feature == NO_TEST).all():
            break
        query = SumQuery(region, rules.statistic, Sides(layer, cuts), rules.level_share)
        tables, totals = agreeing((yield from ask(query)).values, cuts)
        grown.root = totals[0] if grown.root is None else grown.root
        best, wanted = best_tests(rules, tables, cuts)
        wanted &= np.cumsum(wanted) <= MOST_LEAVES - grown.n_leaves
        sides = tables[best[wanted], np.flatnonzero(wanted)].reshape(-1, tables.shape[-1])
        is_open = goes_on(rules, sides)
        is_open &= np.cumsum(is_open) <= most_open(rules.asked, rules.statistic.channels)
        layer = Layer(layer, cuts.picked(best, wanted), is_open)
        room = room.below(layer, columns)
        grown.layers.append(layer)
        grown.masses.append(sides)
    return grown


def most_open(asked: int, channels: int) -> int:
    """Open nodes of a level whose tests, so many of each, still go in one query.

    Tests are packed in `MOST_ASKED_TESTS` at most; a table has two sides, and a label that is told
    in bits has two of them a class and one more.
    """
    integers = 2 * asked * (2 * channels + 1)
    return min(MOST_LEAVES, MOST_ASKED_TESTS // asked, MOST_INTEGERS // integers)


def agreeing(values: FloatArray, cuts: NodeTests) -> tuple[FloatArray, FloatArray]:
    """(m, N, 2, C) tables that agree on their node's total, and these totals (N, C).

    Every test of a node counts the same rows: the mean of the totals has 1 / m of their variance,
    and each table takes half of what it differs by on either side.
    """
    tables = values.reshape(len(values), -1, 2, values.shape[-1])
    asked = (cuts.feature.T != NO_TEST)[:, :, None]
    sums = tables.sum(axis=2)  # (m, N, C)
    totals = (sums * asked).sum(axis=0) / np.maximum(asked.sum(axis=0), 1)
    return tables + (totals - sums)[:, :, None, :] / 2.0, totals


def best_tests(
    rules: RandomSplits, tables: FloatArray, cuts: NodeTests
) -> tuple[NDArray[np.intp], BoolArray]:
    """(N,) the best test of each node, and whether there is one."""
    rows = tables.sum(axis=-1)  # (m, N, 2)
    least = max(rules.min_samples_leaf, TINY)
    allowed = (rows >= least).all(axis=2) & (cuts.feature.T != NO_TEST)
    allowed &= np.cumsum(allowed, axis=0) <= rules.considered
    left_over = np.where(allowed, rules.impurity(tables).sum(axis=2), np.inf)
    return np.argmin(left_over, axis=0), allowed.any(axis=0)


def goes_on(rules: RandomSplits, masses: FloatArray) -> BoolArray:
    """(N,) whether a node may be split: enough rows and two classes, as far as noise can tell."""
    spread = PATIENCE * math.sqrt(rules.noise)
    rows = masses.sum(axis=1) + spread * math.sqrt(masses.shape[1])
    present = (masses + spread > TINY).sum(axis=1)
    return np.asarray((rows >= rules.min_samples_split) & (present > 1))


def assembled(grown: Branches, schema: Schema, channels: int) -> tuple[Tree, FloatArray]:
    """The tree without values, and its leaves' masses (L, C) as the tables had them."""
    taken = [_splits(layer, schema) for layer in grown.layers]
    start = np.zeros(channels) if grown.root is None else grown.root
    nodes, leaves = list[Split | tuple[float, ...]](), list[FloatArray]()
    waiting: list[tuple[int, int, FloatArray]] = [(0, 0, start)]  # level, node there, its masses
    while waiting:
        level, node, masses = waiting.pop()
        found = taken[level].get(node) if level < len(taken) else None
        if found is None:
            nodes.append(())
            leaves.append(masses)
            continue
        split, rank = found
        nodes.append(split)
        numbers, below = grown.layers[level].children[node], grown.masses[level]
        waiting += [(level + 1, int(numbers[s]), below[2 * rank + s]) for s in (1, 0)]
    return Tree.of_preorder(schema.names, nodes), np.array(leaves)


def _splits(layer: Layer, schema: Schema) -> dict[int, tuple[Split, int]]:
    """The tests that led to a layer, by node above, each with its number among them."""
    assert layer.taken is not None
    nodes = np.flatnonzero(layer.taken.feature != NO_TEST).tolist()
    return {node: (layer.taken.split(node, schema), rank) for rank, node in enumerate(nodes)}
