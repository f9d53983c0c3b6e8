"""Oblivious trees that sample features by the gains of earlier trees; tables of feature pairs.

The leaf sums of a tree also show how much less it would gain without one of its tests; they are
already released, so this is free. Features whose tests gain are drawn more often (a bandit with
decay; studies/notes/boosting.md#0117).

Shapes: F features that may be drawn, L leaves of an oblivious tree, O outputs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property

import numpy as np

from hedgerow.methods.blocks.boosting import ask_leaves
from hedgerow.methods.blocks.flow import Flow
from hedgerow.methods.blocks.newton_steps import Update, gradients_and_hessians, sampling_variance
from hedgerow.methods.blocks.private_bins import merge
from hedgerow.methods.blocks.random_trees import DrawableFeature, cut_by_mass, oblivious_tree
from hedgerow.methods.constants import constant
from hedgerow.models.losses import Loss, SquaredLoss
from hedgerow.models.model import Additive
from hedgerow.models.tree import Tree
from hedgerow.models.uncertainty import NoisyTree
from hedgerow.schema.arrays import FloatArray, IntArray, Rng
from hedgerow.schema.candidates import Grids
from hedgerow.schema.grids import ColumnKind
from hedgerow.schema.regions import Split

GAIN_DECAY = constant(0.95, unit="part of past gains", evidence="boosting.md#0117")
"""Decay of past gains from tree to tree."""
FIRST_CHANCES = constant(0.15, unit="part of the draws", evidence="boosting.md#0117")
"""Fraction of the draws that always follow the curves' strengths."""
UNSEEN = constant(0.5, unit="tests that a feature is taken to have had, with the mean gain of all")
GROUP_DEVIATION = constant(0.2, unit="deviation", evidence="boosting.md#0034")
"""Expected deviation of a group's step from zero."""
CLIPPED_SCATTER = constant(0.25, unit="mean square of residuals, in squares of their clip")


def posterior_gain(
    g: FloatArray, h: FloatArray, noise: FloatArray | float, loss: Loss
) -> FloatArray:
    """The gain of a step in each group, less the apparent gain of noise and sampling alone.

    With sums G and H, and variance s of noise and sampling together, the expected gain of a
    posterior step is (G^2 - s) H / (H^2 + s / deviation^2); its mean over groups of pure noise is
    zero. `noise` is the variance of a channel, in the statistic's units.
    """
    scatter = sampling_variance(loss, h)
    if isinstance(loss, SquaredLoss):
        scatter = CLIPPED_SCATTER * loss.gradient_scale**2 * h
    spread = noise * loss.gradient_scale**2 + scatter
    return np.asarray((g**2 - spread) * h / (h**2 + spread / GROUP_DEVIATION**2 + 1e-12))


def gains_of_tests(sums: FloatArray, variance: float, loss: Loss) -> FloatArray:
    """(depth,) gain of each test of an oblivious tree, given its other tests; sums are (L, C)."""
    depth = len(sums).bit_length() - 1
    sides = sums.reshape(*(2,) * depth, -1)
    whole = _gain(sides, variance, loss)
    without = [_gain(sides.sum(axis=k), 2.0 * variance, loss) for k in range(depth)]
    return whole - np.array(without)


def _gain(sums: FloatArray, variance: float, loss: Loss) -> float:
    g, h = gradients_and_hessians(loss, sums)
    return float(posterior_gain(g, h, variance, loss).sum())


@dataclass
class PastGains:
    """Decayed sums of gains and numbers of tests per feature."""

    first: FloatArray  # (F,) chances before any test
    total_gains: FloatArray = field(init=False)
    tests: FloatArray = field(init=False)

    def __post_init__(self) -> None:
        self.total_gains, self.tests = np.zeros(len(self.first)), np.zeros(len(self.first))

    def learn(self, features: Sequence[int], gains: FloatArray) -> None:
        self.total_gains *= GAIN_DECAY
        self.tests *= GAIN_DECAY
        np.add.at(self.total_gains, list(features), gains)
        np.add.at(self.tests, list(features), 1.0)

    @property
    def gains(self) -> FloatArray:
        """(F,) expected gain of one more test."""
        usual = max(float(self.total_gains.sum()) / max(float(self.tests.sum()), 1.0), 0.0)
        return np.maximum(self.total_gains + UNSEEN * usual, 0.0) / (self.tests + UNSEEN)

    @property
    def chances(self) -> FloatArray:
        total = float(self.gains.sum())
        if not total > 0.0:
            return self.first
        return (1.0 - FIRST_CHANCES) * self.gains / total + FIRST_CHANCES * self.first


@dataclass
class GainSampledTrees:
    """A `Splitting` for one flow: each tree's gains change how the next trees draw features."""

    grids: Grids
    drawables: Sequence[DrawableFeature]
    loss: Loss
    depth: int
    memory: PastGains = field(init=False)

    def __post_init__(self) -> None:
        weights = np.array([feature.weight for feature in self.drawables])
        self.memory = PastGains(weights / weights.sum())

    def grow(
        self, numbers: range, update: Update, at: Additive, fraction: Fraction, rng: Rng
    ) -> Flow[list[NoisyTree]]:
        """Grows trees of random tests and records their gains."""
        names, tree_tests = self.grids.schema.names, [self.tests_of_a_tree(rng) for _ in numbers]
        trees = tuple(oblivious_tree(names, tests) for tests in tree_tests)
        answer = yield from ask_leaves(trees, update, at, fraction)
        for tests, sums in zip(tree_tests, answer.sums, strict=True):
            places = [self._place(test) for test in tests]
            self.memory.learn(places, gains_of_tests(sums, answer.variance, self.loss))
        return answer.trees

    def tests_of_a_tree(self, rng: Rng) -> list[Split]:
        """Random tests of distinct features, as long as there are enough."""
        width = min(self.depth, len(self.drawables))
        places = rng.choice(len(self.drawables), width, replace=False, p=self.memory.chances)
        return [
            cut_by_mass(self.grids, self.drawables[places[level % width]], rng)
            for level in range(self.depth)
        ]

    def _place(self, test: Split) -> int:
        return self._places[test.feature]

    @cached_property
    def _places(self) -> dict[str, int]:
        """The index of each drawable feature, by name."""
        names = self.grids.schema.names
        return {names[drawable.feature]: place for place, drawable in enumerate(self.drawables)}


Nodes = list[Split | tuple[float, ...]]


@dataclass(frozen=True)
class FeatureGroups:
    """A feature's bins in a few groups of about equal noisy mass."""

    drawable: DrawableFeature
    groups: IntArray  # (bins,)

    @property
    def n_groups(self) -> int:
        return int(self.groups.max()) + 1

    def test(self, grids: Grids, last_left: int) -> Split:
        return grids.split(self.drawable.feature, self.groups <= last_left)


def strongest(
    grids: Grids,
    drawables: Sequence[DrawableFeature],
    values: Sequence[FloatArray],
    many: int,
    n_groups: int,
) -> list[FeatureGroups]:
    """The features with the strongest curves; `values` are the curves (bins, O) of the model.

    Numeric features keep the order of their bins, `missing` last; categories follow the main
    direction of their curve.
    """
    strengths = [
        float((k.mass @ v**2).sum() / max(k.mass.sum(), 1.0))
        for k, v in zip(drawables, values, strict=True)
    ]
    order = np.argsort(-np.array(strengths), kind="stable")[:many]
    groupings = [
        FeatureGroups(drawables[i], _groups(grids, drawables[i], values[i], n_groups))
        for i in order.tolist()
    ]
    return [feature for feature in groupings if feature.n_groups > 1]


def _groups(grids: Grids, drawable: DrawableFeature, values: FloatArray, n_groups: int) -> IntArray:
    order = np.arange(len(drawable.mass))
    if grids.grid(drawable.feature).kind is not ColumnKind.NUMERIC:
        direction = np.linalg.svd(values, full_matrices=False)[2][0]
        order = np.argsort(values @ direction, kind="stable")
    groups = np.empty(len(order), np.int64)
    groups[order] = merge(drawable.mass[order], max(float(drawable.mass.sum()) / n_groups, 1e-9))
    return groups


def table_tree(grids: Grids, features: Sequence[FeatureGroups]) -> Tree:
    """A tree with one leaf per cell of the features' table; the last feature varies fastest."""
    nodes: Nodes = [()]
    for feature in reversed(features):
        nodes = _balanced_tree(grids, feature, 0, feature.n_groups - 1, nodes)
    return Tree.of_preorder(grids.schema.names, nodes)


def _balanced_tree(grids: Grids, feature: FeatureGroups, low: int, high: int, leaf: Nodes) -> Nodes:
    """A balanced tree over the groups `low` to `high`, each of which ends in `leaf`."""
    if low == high:
        return leaf
    middle = (low + high) // 2
    left = _balanced_tree(grids, feature, low, middle, leaf)
    right = _balanced_tree(grids, feature, middle + 1, high, leaf)
    return [feature.test(grids, middle), *left, *right]
