"""Many complete trees from the root tables alone: no further query, no further charge.

Extremely randomized trees (Geurts et al. 2006) whose candidates are scored from the root tables: a
node carries its expected class totals and treats features as independent within a class (naive
Bayes). Randomness is public.

Shapes: T trees, M nodes of one level of all trees, F features, B bins, C channels. Nodes of a tree
are in heap order: the children of v are 2 v + 1 and 2 v + 2.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from hedgerow.methods.blocks.builder import Belief
from hedgerow.methods.blocks.scores import TINY
from hedgerow.methods.constants import constant
from hedgerow.models.tree import Tree
from hedgerow.schema.arrays import FloatArray, IntArray, Rng
from hedgerow.schema.candidates import Grids
from hedgerow.schema.regions import Split

WEIGHT_FLOOR = constant(0.1, unit="part of a weight", evidence="forests.md#0064")
"""Smallest weight of a feature, relative to the best, so that every feature may be drawn."""

NO_SPLIT = -1


@dataclass(frozen=True)
class Skeletons:
    """Complete trees of one depth: the feature of each inner node, and its last bin sent left."""

    feature: IntArray  # (T, 2^depth - 1), NO_SPLIT where no feature has two bins left
    cut: IntArray
    depth: int


@dataclass(frozen=True)
class Shape:
    """A tree without values, and the heap index of each of its leaves from the left."""

    tree: Tree
    leaf_at: IntArray


def feature_weights(best_gains: FloatArray, floor: float = WEIGHT_FLOOR) -> FloatArray:
    """(F,) probabilities of drawing a feature, from its best gain at the root."""
    gains = np.maximum(best_gains, 0.0)
    top = float(gains.max())
    return np.sqrt(gains / top if top > 0.0 else np.ones(len(gains))) + floor


def guided_skeletons(
    belief: Belief, weights: FloatArray, n_estimators: int, depth: int, tries: int, rng: Rng
) -> Skeletons:
    """Each node draws `tries` features with a random cut each, and keeps the best."""
    below = np.cumsum(np.maximum(belief.masses, 0.0) + 1.0, axis=1)
    below = np.pad(below, ((0, 0), (1, 0), (0, 0)))  # (F, B + 1, C) mass before each bin
    level = _Level(
        np.zeros((n_estimators, len(weights)), np.int64),
        np.tile(belief.possible.sum(axis=1) - 1, (n_estimators, 1)),
        np.tile(belief.totals, (n_estimators, 1)),
    )
    features, cuts = [], []
    for _ in range(depth):
        chosen = _best_of(level, below, weights, tries, rng)
        features.append(chosen.feature.reshape(n_estimators, -1))
        cuts.append(chosen.cut.reshape(n_estimators, -1))
        level = _children(level, chosen)
    return Skeletons(np.concatenate(features, axis=1), np.concatenate(cuts, axis=1), depth)


@dataclass(frozen=True)
class _Level:
    """The nodes of one level: first and last possible bin, and expected class totals."""

    first: IntArray  # (M, F)
    last: IntArray
    totals: FloatArray  # (M, C)


@dataclass(frozen=True)
class _Chosen:
    feature: IntArray  # (M,)
    cut: IntArray
    left: FloatArray  # (M, C) expected totals of the left child


def _best_of(
    level: _Level, below: FloatArray, weights: FloatArray, tries: int, rng: Rng
) -> _Chosen:
    chances = np.cumsum(weights * (level.last > level.first), axis=1)
    best = np.full(len(chances), -1.0)
    feature, cut = np.full(len(chances), NO_SPLIT), np.zeros(len(chances), np.int64)
    left = level.totals.copy()
    for _ in range(tries):
        feature_index, at = _draw(level, chances, rng)
        left_masses = _sent_left(level, below, feature_index, at)
        gain = np.where(
            chances[:, -1] > 0.0, _purity(left_masses) + _purity(level.totals - left_masses), -1.0
        )
        better = gain > best
        best = np.where(better, gain, best)
        feature, cut = np.where(better, feature_index, feature), np.where(better, at, cut)
        left = np.where(better[:, None], left_masses, left)
    return _Chosen(feature, cut, left)


def _draw(level: _Level, chances: FloatArray, rng: Rng) -> tuple[IntArray, IntArray]:
    """For each node, a feature with at least two possible bins, and one of its cuts."""
    nodes = np.arange(len(chances))
    x = rng.random(len(chances)) * chances[:, -1]
    feature_index = np.minimum((chances <= x[:, None]).sum(axis=1), chances.shape[1] - 1)
    first, last = level.first[nodes, feature_index], level.last[nodes, feature_index]
    return feature_index, first + (rng.random(len(chances)) * (last - first)).astype(np.int64)


def _sent_left(level: _Level, below: FloatArray, feature: IntArray, cut: IntArray) -> FloatArray:
    """(M, C) class totals times the fraction of each class, at the root, below the cut."""
    nodes = np.arange(len(feature))
    first, last = level.first[nodes, feature], level.last[nodes, feature]
    start = below[feature, first]
    part = (below[feature, cut + 1] - start) / (below[feature, last + 1] - start)
    return np.asarray(level.totals * part)


def _purity(masses: FloatArray) -> FloatArray:
    return np.asarray((masses**2).sum(axis=1) / (masses.sum(axis=1) + TINY))


def _children(level: _Level, chosen: _Chosen) -> _Level:
    """The children of each node, adjacent. Where nothing splits, all rows go left."""
    first, last = np.repeat(level.first, 2, axis=0), np.repeat(level.last, 2, axis=0)
    split = np.flatnonzero(chosen.feature != NO_SPLIT)
    last[2 * split, chosen.feature[split]] = chosen.cut[split]
    first[2 * split + 1, chosen.feature[split]] = chosen.cut[split] + 1
    totals = np.repeat(chosen.left, 2, axis=0)
    totals[1::2] = level.totals - chosen.left
    return _Level(first, last, totals)


def shapes_of(skeletons: Skeletons, grids: Grids) -> list[Shape]:
    """The trees; a node that cannot split is a leaf."""
    splits: dict[tuple[int, int], Split] = {}
    n_bins = max(grids.binning.n_bins)

    def split(feature: int, cut: int) -> Split:
        if (feature, cut) not in splits:
            splits[feature, cut] = grids.split(feature, np.arange(n_bins) <= cut)
        return splits[feature, cut]

    shapes = []
    for feature, cut in zip(skeletons.feature.tolist(), skeletons.cut.tolist(), strict=True):
        nodes: list[Split | tuple[float, ...]] = []
        leaf_at, waiting = [], [0]
        while waiting:
            v = waiting.pop()
            if v < len(feature) and feature[v] != NO_SPLIT:
                nodes.append(split(feature[v], cut[v]))
                waiting += [2 * v + 2, 2 * v + 1]
            else:
                nodes.append(())
                leaf_at.append(v)
        tree = Tree.of_preorder(grids.schema.names, nodes)
        shapes.append(Shape(tree, np.asarray(leaf_at)))
    return shapes


def on_last_level(shapes: list[Shape], sums: FloatArray, depth: int) -> FloatArray:
    """(T, 2^depth, C) leaf sums (T, L, C) placed in complete trees.

    A leaf above the last level is represented by its leftmost descendant; the others are 0.
    """
    out = np.zeros((len(shapes), 2**depth, sums.shape[2]))
    for row, shape, mine in zip(out, shapes, sums, strict=True):
        height = depth - np.floor(np.log2(shape.leaf_at + 1)).astype(np.int64)
        place = (shape.leaf_at + 1) * 2**height - 2**depth
        row[place] = mine[: len(place)]
    return out
