"""Boosting: batches of trees, each batch trained on the gradients of the model so far.

Maddock et al. 2022, Algorithm 1. A `Splitting` chooses the splits and an `Update` the leaf values,
in any combination. A batch takes one round if its splits need no query.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cached_property
from itertools import accumulate, count
from typing import Protocol

import numpy as np

from hedgerow.methods.blocks.flow import Flow, NoiseModel, ask, both
from hedgerow.methods.blocks.newton_steps import (
    Update,
    gradients_and_hessians,
    sampling_variance,
)
from hedgerow.methods.blocks.random_trees import (
    DrawableFeature,
    TreeDraw,
    cut_by_mass,
    oblivious_tree,
)
from hedgerow.methods.constants import constant
from hedgerow.models.losses import Loss, SquaredLoss
from hedgerow.models.model import Additive
from hedgerow.models.tree import Tree
from hedgerow.models.uncertainty import NoisyTree
from hedgerow.privacy.bundles import MOST_INTEGERS, Size
from hedgerow.privacy.queries import Answer, Leaves, Statistic, SumQuery
from hedgerow.schema.arrays import FloatArray, Rng
from hedgerow.schema.candidates import Grids
from hedgerow.schema.regions import EVERYONE, Split


@dataclass(frozen=True)
class Batch:
    """Trees with these numbers, trained at one model; `fraction` is their whole budget."""

    numbers: range
    update: Update
    at: Additive
    fraction: Fraction

    @property
    def size(self) -> int:
        return len(self.numbers)

    @cached_property
    def statistic(self) -> Statistic:
        return self.update.statistic(self.at)


class Splitting(Protocol):
    def grow(self, batch: Batch, rng: Rng) -> Flow[list[NoisyTree]]: ...


GAIN_DECAY = constant(0.95, unit="part of past gains", evidence="boosting.md#0117")
"""Decay of past gains from tree to tree."""
FIRST_CHANCES = constant(0.15, unit="part of the draws", evidence="boosting.md#0117")
"""Fraction of the draws that always follow the curves' strengths."""
UNSEEN = constant(0.5, unit="tests that a feature is taken to have had, with the mean gain of all")
GROUP_DEVIATION = constant(0.2, unit="deviation", evidence="boosting.md#0034")
"""Expected deviation of a group's step from zero."""
CLIPPED_SCATTER = constant(0.25, unit="mean square of residuals, in squares of their clip")
MOST_ROUNDS = constant(26, unit="rounds over several sites", evidence="boosting.md#0160")
"""Rounds of a training over several sites, unless the study declares `max_rounds`."""
BATCH_OVERLAP = constant(0.75, unit="power", evidence="boosting.md#0160")
"""The trees of a round are weighted by (number of trees)^-this; 1 would be their mean."""
MOST_TREES_PER_ROUND = constant(32, unit="trees")
"""Most trees that share gradients, however few rounds are allowed."""


TREES_PER_ROUND = (
    "How many trees see the same gradients, in one round. None is 1 at one site, and over several "
    "1, 1, 2, 4 and so on, until all fit into the rounds of the study (max_rounds; 26 by default)."
)


@dataclass(frozen=True)
class Rounds:
    """The number of trees in each round (which share gradients), and the whole budget.

    `looks` are the first trees of rounds before which a method asks something of its own; `beside`:
    but for the first, that query shares the round of the trees before it.
    """

    sizes: Sequence[int]
    fraction: Fraction
    looks: Collection[int] = ()
    beside: bool = False

    @property
    def starts(self) -> list[int]:
        """The number of the first tree of each round."""
        return list(accumulate(self.sizes, initial=0))[:-1]


def equal_sizes(n_estimators: int, trees_per_round: int) -> list[int]:
    """The number of trees in each round; the last round has the remainder."""
    whole, rest = divmod(n_estimators, trees_per_round)
    return [trees_per_round] * whole + [rest] * bool(rest)


def rising_sizes(n_estimators: int, most_rounds: int) -> list[int]:
    """Sizes of at most `most_rounds` rounds: 1, 1, 2, 4, ... up to the smallest sufficient maximum.

    The first steps change the model most, so few trees share their gradients.
    """
    n_rounds = min(most_rounds, n_estimators)
    ramp = [min(1 << max(k - 1, 0), n_estimators) for k in range(n_rounds)]
    if sum(ramp) < n_estimators:
        return equal_sizes(n_estimators, -(-n_estimators // n_rounds))
    most = next(m for m in count(1) if sum(min(size, m) for size in ramp) >= n_estimators)
    excess = sum(min(size, most) for size in ramp) - n_estimators
    lower = range(first := sum(size < most for size in ramp), first + excess)
    return [min(size, most) - (k in lower) for k, size in enumerate(ramp)]


def boost(
    rounds: Rounds,
    splitting: Splitting,
    update_of: Callable[[int], Update],
    start: Additive,
    rng: Rng,
    look: Callable[[Additive], Flow[None]] | None = None,
) -> Flow[tuple[Additive, list[FloatArray]]]:
    """The start model with all trees added, and the deviations of the noise in their leaves.

    The budget is divided evenly among trees. `update_of` gives the update for a round size, and
    `look` asks about a model at the rounds' `looks`.
    """
    model, noise = start, list[FloatArray]()
    for first, size in zip(rounds.starts, rounds.sizes, strict=True):
        looking = look(model) if look and first in rounds.looks else None
        is_beside = rounds.beside and first > 0
        if looking and not is_beside:
            yield from looking
        numbers, update = range(first, first + size), update_of(size)
        fraction = rounds.fraction * size / sum(rounds.sizes)
        growing = splitting.grow(Batch(numbers, update, model, fraction), rng)
        if looking and is_beside:
            trees, _ = yield from both(growing, looking)
        else:
            trees = yield from growing
        scaled_trees = [tree.scale(update.rate(size)) for tree in trees]
        model = model.plus(*(tree.tree for tree in scaled_trees))
        noise += [tree.deviations for tree in scaled_trees]
    return model, noise


@dataclass(frozen=True)
class BatchPlan:
    """Trees per round: `trees_per_round`, or None to derive them from the sites and rounds.

    None is one tree per round at one site. Several sites wait for each other in every round, so
    trees share rounds there, as far as the study's `max_rounds` demands, and so do the other
    queries between trees. `before` is the number of rounds before the first tree.
    """

    n_estimators: int
    trees_per_round: int | None
    before: int
    integers: int
    """Integers in the sums of one tree."""

    def sizes(self, noise_model: NoiseModel) -> list[int]:
        if not self.is_shared(noise_model):
            return equal_sizes(self.n_estimators, self.trees_per_round or 1)
        most = (noise_model.max_rounds or MOST_ROUNDS) - self.before
        sizes = rising_sizes(self.n_estimators, max(most, self._fewest))
        is_few = max(sizes) <= self._most_trees
        return sizes if is_few else equal_sizes(self.n_estimators, self._most_trees)

    def fits(self, noise_model: NoiseModel) -> bool:
        """Whether a study's rounds suffice for all trees and for the rounds before them."""
        most = noise_model.max_rounds
        return not most or noise_model.n_sites == 1 or self.before + self._fewest <= most

    def is_shared(self, noise_model: NoiseModel) -> bool:
        return self.trees_per_round is None and noise_model.n_sites > 1

    @property
    def _most_trees(self) -> int:
        """Most trees per round: half of a round's integers are left for other queries."""
        most = min(MOST_TREES_PER_ROUND, self.n_estimators, MOST_INTEGERS // (2 * self.integers))
        return max(most, 1)

    @property
    def _fewest(self) -> int:
        return -(-self.n_estimators // self._most_trees)

    def largest(self, trees: Callable[[int], Size], between: Size, times: int) -> Size:
        """The size of all rounds with `trees` and of at most `times` rounds `between` them."""
        if self.trees_per_round is not None:
            batches = -(-self.n_estimators // self.trees_per_round)
            return trees(self.trees_per_round) * batches + between * min(times, batches)
        alone = trees(1) * self.n_estimators + between * min(times, self.n_estimators)
        most = max(MOST_ROUNDS - self.before, self._fewest)
        together = trees(self._most_trees).beside(between)
        rounds = min(most, self.n_estimators)
        return replace(alone | together, rounds=rounds, fewest_rounds=self._fewest)


def ask_leaves(trees: tuple[Tree, ...], batch: Batch) -> Flow[tuple[list[NoisyTree], Answer]]:
    """Asks for the leaves of a batch of trees as one query; also returns their noisy sums.

    A record is in one leaf of every tree, so the sensitivity adds up over the batch.
    """
    answer = yield from ask(SumQuery(EVERYONE, batch.statistic, Leaves(trees), batch.fraction))
    left = answer.variance / len(trees)  # noise variance in the mean of the batch
    noisy = []
    for tree, sums in zip(trees, answer.values, strict=True):
        own = sums[: tree.n_leaves]
        noise = batch.update.deviations(own, left, answer.variance)
        noisy.append(NoisyTree(tree.with_values(batch.update.values(own, left)), noise))
    return noisy, answer


@dataclass(frozen=True)
class DrawnTrees:
    """Splits by public randomness; the leaves of a batch are one query."""

    draw: TreeDraw

    def grow(self, batch: Batch, rng: Rng) -> Flow[list[NoisyTree]]:
        trees = tuple(self.draw(number, rng) for number in batch.numbers)
        noisy, _ = yield from ask_leaves(trees, batch)
        return noisy


# Oblivious trees that sample features by the gains of earlier trees. The leaf sums of a tree also
# show how much less it would gain without one of its tests; they are already released, so this is
# free. Features whose tests gain are drawn more often (a bandit with decay; boosting.md#0117).
# Shapes: F features that may be drawn, L leaves of an oblivious tree, O outputs.


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
        tests_of = [self.tests_of_a_tree(rng) for _ in batch.numbers]
        trees = tuple(oblivious_tree(self.grids.schema.names, tests) for _, tests in tests_of)
        noisy, answer = yield from ask_leaves(trees, batch)
        for (places, _), sums in zip(tests_of, answer.values, strict=True):
            self.memory.learn(places, gains_of_tests(sums, answer.variance, self.loss))
        return noisy

    def tests_of_a_tree(self, rng: Rng) -> tuple[list[int], list[Split]]:
        """Random tests of distinct features, as long as there are enough, and their places."""
        width = min(self.depth, len(self.drawables))
        columns = rng.choice(len(self.drawables), width, replace=False, p=self.memory.chances)
        places = [int(columns[level % width]) for level in range(self.depth)]
        return places, [cut_by_mass(self.grids, self.drawables[place], rng) for place in places]
