"""Oblivious trees that sample features by the gains of earlier trees.

The leaf sums of a tree also show how much less it would gain without one of its tests; they are
already released, so this is free. Features whose tests gain are drawn more often (a bandit with
decay; studies/notes/boosting.md#0117).

Shapes: F features that may be drawn, L leaves of an oblivious tree, O outputs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from hedgerow.methods.blocks.boosting import Batch, ask_leaves
from hedgerow.methods.blocks.flow import Flow
from hedgerow.methods.blocks.newton_steps import gradients_and_hessians, sampling_variance
from hedgerow.methods.blocks.random_trees import DrawableFeature, cut_by_mass, oblivious_tree
from hedgerow.methods.constants import constant
from hedgerow.models.losses import Loss, SquaredLoss
from hedgerow.models.uncertainty import NoisyTree
from hedgerow.schema.arrays import FloatArray, Rng
from hedgerow.schema.candidates import Grids
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

    def gain(sums: FloatArray, variance: float) -> float:
        return float(posterior_gain(*gradients_and_hessians(loss, sums), variance, loss).sum())

    depth = len(sums).bit_length() - 1
    sides = sums.reshape(*(2,) * depth, -1)
    without = [gain(sides.sum(axis=k), 2.0 * variance) for k in range(depth)]
    return gain(sides, variance) - np.array(without)


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

    def grow(self, batch: Batch, rng: Rng) -> Flow[list[NoisyTree]]:
        """Grows trees of random tests and records their gains."""
        names, drawn = self.grids.schema.names, [self.tests_of_a_tree(rng) for _ in batch.numbers]
        trees = tuple(oblivious_tree(names, tests) for _, tests in drawn)
        answer = yield from ask_leaves(trees, batch)
        for (places, _), sums in zip(drawn, answer.sums, strict=True):
            self.memory.learn(places, gains_of_tests(sums, answer.variance, self.loss))
        return answer.trees

    def tests_of_a_tree(self, rng: Rng) -> tuple[list[int], list[Split]]:
        """Random tests of distinct features, as long as there are enough, and their places."""
        width = min(self.depth, len(self.drawables))
        drawn = rng.choice(len(self.drawables), width, replace=False, p=self.memory.chances)
        places = [int(drawn[level % width]) for level in range(self.depth)]
        return places, [cut_by_mass(self.grids, self.drawables[place], rng) for place in places]
