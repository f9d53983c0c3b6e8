"""Oblivious trees that draw their features by what tests of them gained in the trees before.

The sums of a tree's leaves tell more than the leaves' values: how much less the tree would gain
without one of its tests. They were released already, so remembering that costs nothing. Features
whose tests gain are drawn more often (a bandit that forgets; studies/notes/boosting.md#0117).
Knows no row.

Shapes: F features that may be drawn, L leaves of an oblivious tree, O outputs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property

import numpy as np

from hedgerow.learning.flow import Flow
from hedgerow.learning.forests.boosting import asked_leaves
from hedgerow.learning.forests.random_trees import DrawableFeature, cut_by_mass, oblivious_tree
from hedgerow.learning.leaves.updates import Update, gradients_and_hessians, sampling_variance
from hedgerow.values.arrays import FloatArray
from hedgerow.values.candidates import Grids
from hedgerow.values.losses import Loss
from hedgerow.values.models import Additive
from hedgerow.values.noise import NoisyTree
from hedgerow.values.regions import Split

KEPT = 0.95  # of what is remembered, from tree to tree
FIRST_CHANCES = 0.15  # part of the draws that follow the curves' strengths for ever
UNSEEN = 0.5  # tests that a feature is taken to have had, with the mean gain of all
GROUP_DEVIATION = 0.2  # how far a group of records is expected to lie from zero


def posterior_gain(
    g: FloatArray, h: FloatArray, noise: FloatArray | float, loss: Loss
) -> FloatArray:
    """What a step in each group gains beyond what noise and sampling alone would seem to gain.

    With sums G and H, and variance s of noise and sampling together, the expected gain of a
    posterior step is (G^2 - s) H / (H^2 + s / deviation^2). Over groups of mere noise its mean is
    zero. `noise` is the variance of a channel, in the statistic's units.
    """
    spread = noise * loss.gradient_scale**2 + sampling_variance(loss, h)
    return np.asarray((g**2 - spread) * h / (h**2 + spread / GROUP_DEVIATION**2 + 1e-12))


def gains_of_tests(sums: FloatArray, variance: float, loss: Loss) -> FloatArray:
    """(depth,) what an oblivious tree (L, C) gains by each test, given its other tests."""
    depth = len(sums).bit_length() - 1
    sides = sums.reshape(*(2,) * depth, -1)
    whole = _gain(sides, variance, loss)
    without = [_gain(sides.sum(axis=k), 2.0 * variance, loss) for k in range(depth)]
    return whole - np.array(without)


def _gain(sums: FloatArray, variance: float, loss: Loss) -> float:
    g, h = gradients_and_hessians(loss, sums)
    return float(posterior_gain(g, h, variance, loss).sum())


@dataclass
class Remembered:
    """Sums of gains and numbers of tests by feature, both fading."""

    first: FloatArray  # (F,) chances before anything is seen
    gained: FloatArray = field(init=False)
    tests: FloatArray = field(init=False)

    def __post_init__(self) -> None:
        self.gained, self.tests = np.zeros(len(self.first)), np.zeros(len(self.first))

    def learn(self, features: Sequence[int], gains: FloatArray) -> None:
        self.gained *= KEPT
        self.tests *= KEPT
        np.add.at(self.gained, list(features), gains)
        np.add.at(self.tests, list(features), 1.0)

    @property
    def gains(self) -> FloatArray:
        """(F,) of one more test, as far as is known."""
        usual = max(float(self.gained.sum()) / max(float(self.tests.sum()), 1.0), 0.0)
        return np.maximum(self.gained + UNSEEN * usual, 0.0) / (self.tests + UNSEEN)

    @property
    def chances(self) -> FloatArray:
        total = float(self.gains.sum())
        if not total > 0.0:
            return self.first
        return (1.0 - FIRST_CHANCES) * self.gains / total + FIRST_CHANCES * self.first


@dataclass
class RememberingTrees:
    """A `Splitting` for one flow: each tree's sums move the chances of the next."""

    grids: Grids
    known: Sequence[DrawableFeature]
    loss: Loss
    depth: int
    memory: Remembered = field(init=False)

    def __post_init__(self) -> None:
        weights = np.array([feature.weight for feature in self.known])
        self.memory = Remembered(weights / weights.sum())

    def grow(
        self,
        numbers: range,
        update: Update,
        at: Additive,
        share: Fraction,
        rng: np.random.Generator,
    ) -> Flow[list[NoisyTree]]:
        drawn = [self.tests_of_a_tree(rng) for _ in numbers]
        return (yield from self.grown(drawn, update, at, share))

    def grown(
        self, drawn: Sequence[Sequence[Split]], update: Update, at: Additive, share: Fraction
    ) -> Flow[list[NoisyTree]]:
        """Trees of these tests; what they gained is remembered."""
        names = self.grids.schema.names
        trees = tuple(oblivious_tree(names, tests) for tests in drawn)
        asked = yield from asked_leaves(trees, update, at, share)
        for tests, sums in zip(drawn, asked.sums, strict=True):
            places = [self._place(test) for test in tests]
            self.memory.learn(places, gains_of_tests(sums, asked.variance, self.loss))
        return asked.trees

    def tests_of_a_tree(self, rng: np.random.Generator) -> list[Split]:
        """Of different features, as long as there are enough."""
        width = min(self.depth, len(self.known))
        drawn = rng.choice(len(self.known), width, replace=False, p=self.memory.chances)
        return [self._test(drawn[level % width], rng) for level in range(self.depth)]

    def some_tests(self, n: int, rng: np.random.Generator) -> list[Split]:
        drawn = rng.choice(len(self.known), n, p=self.memory.chances)
        return [self._test(place, rng) for place in drawn]

    def _test(self, place: int, rng: np.random.Generator) -> Split:
        return cut_by_mass(self.grids, self.known[place], rng)

    def _place(self, test: Split) -> int:
        return self._places[test.feature]

    @cached_property
    def _places(self) -> dict[str, int]:
        """Of the features among those that may be drawn, by name."""
        names = self.grids.schema.names
        return {names[known.feature]: place for place, known in enumerate(self.known)}
