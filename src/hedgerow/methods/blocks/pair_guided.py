"""Oblivious trees whose tests are read off noisy tables of pairs of features, beside random ones.

A look is one round: gradient and Hessian sums of every pair of the strongest features, in a table
of at most 8 x 8 groups each, at the present model. Until the next look, trees draw pairs and cuts
by what the table says they would gain, less what noise and sampling alone would gain. Where noise
hides the tables, the draw is close to an even one and little is lost. Knows no row.

Why half of the trees stay random, and why the others get two random tests besides: trees that only
follow the tables resemble each other too much (studies/notes/boosting.md#0034). What is random is
drawn by what earlier trees gained (`remembering`).

Shapes: F features looked at, A and B groups of a pair, O outputs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from itertools import combinations

import numpy as np

from hedgerow.methods.blocks.boosting import Rounds, Splitting, asked_leaves
from hedgerow.methods.blocks.flow import Flow, ask
from hedgerow.methods.blocks.newton_steps import Update, gradients_and_hessians, sampling_variance
from hedgerow.methods.blocks.private_bins import merge
from hedgerow.methods.blocks.random_trees import DrawableFeature, cut_by_mass, oblivious_tree
from hedgerow.models.losses import Loss
from hedgerow.models.model import Additive
from hedgerow.models.tree import Tree
from hedgerow.models.uncertainty import NoisyTree
from hedgerow.privacy.queries import Answer, Leaves, SumQuery
from hedgerow.schema.arrays import FloatArray, IntArray
from hedgerow.schema.candidates import Grids
from hedgerow.schema.grids import ColumnKind
from hedgerow.schema.regions import EVERYONE, Split

# --------------------------------------------------------------------------------------------------
# Oblivious trees that draw their features by what tests of them gained in the trees before.
#
# The sums of a tree's leaves tell more than the leaves' values: how much less the tree would gain
# without one of its tests. They were released already, so remembering that costs nothing. Features
# whose tests gain are drawn more often (a bandit that forgets; studies/notes/boosting.md#0117).
# Knows no row.
#
# Shapes: F features that may be drawn, L leaves of an oblivious tree, O outputs.

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


LOOKS = 10
LOOK_PART = Fraction(3, 10)  # of the trees' share, for all looks together
FEATURES = 8  # the strongest; their pairs are looked at
GROUPS = 8  # of a feature in a table
RANDOM_TREES = 0.5  # part of the trees that do not follow the tables
RANDOM_TESTS = 2  # of a tree that follows them, besides those of two pairs
PAIRS_A_TREE = 2
SHARPNESS = 1.5  # power of the gain by which the cuts of a pair are drawn

Nodes = list[Split | tuple[float, ...]]


@dataclass(frozen=True)
class LookedAt:
    """A feature in a few groups of bins, of about equal noisy mass."""

    known: DrawableFeature
    groups: IntArray  # (bins,)

    @property
    def n_groups(self) -> int:
        return int(self.groups.max()) + 1

    def test(self, grids: Grids, last_left: int) -> Split:
        return grids.split(self.known.feature, self.groups <= last_left)


def strongest(
    grids: Grids, known: Sequence[DrawableFeature], values: Sequence[FloatArray]
) -> list[LookedAt]:
    """The features whose curves say most; `values` are the curves (bins, O) as the model has them.

    Numbers keep the order of their bins, `missing` last; categories follow their curve's main
    direction.
    """
    strengths = [
        float((k.mass @ v**2).sum() / max(k.mass.sum(), 1.0))
        for k, v in zip(known, values, strict=True)
    ]
    order = np.argsort(-np.array(strengths), kind="stable")[:FEATURES]
    found = [LookedAt(known[i], _groups(grids, known[i], values[i])) for i in order.tolist()]
    return [feature for feature in found if feature.n_groups > 1]


def _groups(grids: Grids, known: DrawableFeature, values: FloatArray) -> IntArray:
    order = np.arange(len(known.mass))
    if grids.grid(known.feature).kind is not ColumnKind.NUMERIC:
        direction = np.linalg.svd(values, full_matrices=False)[2][0]
        order = np.argsort(values @ direction, kind="stable")
    groups = np.empty(len(order), np.int64)
    groups[order] = merge(known.mass[order], max(float(known.mass.sum()) / GROUPS, 1e-9))
    return groups


@dataclass(frozen=True)
class PairTable:
    """A table of two features: asked as a tree, since a record is in one leaf of it."""

    features: tuple[LookedAt, LookedAt]
    tree: Tree

    @staticmethod
    def of(grids: Grids, first: LookedAt, second: LookedAt) -> PairTable:
        inner = _ladder(grids, second, 0, second.n_groups - 1, [()])
        nodes = _ladder(grids, first, 0, first.n_groups - 1, inner)
        return PairTable((first, second), Tree.of_preorder(grids.schema.names, nodes))

    def gains(self, sums: FloatArray, variance: float, loss: Loss) -> FloatArray:
        """(A - 1, B - 1) what a step in each of four quadrants gains, beyond noise's own gain.

        A quadrant of c cells has c times the noise of one.
        """
        shape = [feature.n_groups for feature in self.features]
        table = sums[: shape[0] * shape[1]].reshape(*shape, -1)
        g = _quadrants(table[..., : loss.outputs] * loss.gradient_scale)
        h = _quadrants(table[..., loss.outputs :] / loss.hessian_scale)
        cells = _quadrants(np.ones((*shape, 1)))
        gain = posterior_gain(g, np.maximum(h, 0.0), cells * variance, loss)
        return np.asarray(gain.sum(axis=(0, -1)))


def _ladder(grids: Grids, feature: LookedAt, low: int, high: int, leaf: Nodes) -> Nodes:
    """A balanced tree over the groups `low` to `high`, each of which ends in `leaf`."""
    if low == high:
        return leaf
    middle = (low + high) // 2
    left = _ladder(grids, feature, low, middle, leaf)
    right = _ladder(grids, feature, middle + 1, high, leaf)
    return [feature.test(grids, middle), *left, *right]


def _quadrants(table: FloatArray) -> FloatArray:
    """(4, A - 1, B - 1, C) sums of the quadrants around each inner corner of (A, B, C)."""
    below = table.cumsum(axis=0).cumsum(axis=1)
    both, rows = below[:-1, :-1], below[:-1, -1:]
    columns, whole = below[-1:, :-1], below[-1:, -1:]
    return np.stack([both, rows - both, columns - both, whole - rows - columns + both])


@dataclass
class LookingTrees:
    """A `Splitting`: looks at the tables now and then, and draws trees by what it saw.

    Of what `boost` hands out for a batch the looks' part is kept back; the looks spend it. `others`
    draws the random trees and tests, and remembers what all trees gained.
    """

    grids: Grids
    tables: Sequence[PairTable]
    others: RememberingTrees
    rounds: Rounds
    gains: list[FloatArray] = field(default_factory=list)

    def grow(
        self,
        numbers: range,
        update: Update,
        at: Additive,
        share: Fraction,
        rng: np.random.Generator,
    ) -> Flow[list[NoisyTree]]:
        looks = self._looks
        if numbers.start in looks:
            statistic, by = update.statistic(at), Leaves(tuple(t.tree for t in self.tables))
            each = self.rounds.share * LOOK_PART / len(looks)
            answer = yield from ask(SumQuery(EVERYONE, statistic, by, each))
            self.gains = self._gains(answer)
        drawn = [self._tests_of_a_tree(rng) for _ in numbers]
        return (yield from self.others.grown(drawn, update, at, share * (1 - LOOK_PART)))

    @property
    def _looks(self) -> set[int]:
        """The first trees of the batches before which a look is taken."""
        n_batches = -(-self.rounds.n_trees // self.rounds.batch)
        return {self.rounds.batch * (n_batches * look // LOOKS) for look in range(LOOKS)}

    def _gains(self, answer: Answer) -> list[FloatArray]:
        pairs, loss = zip(self.tables, answer.values, strict=True), self.others.loss
        return [table.gains(sums, answer.variance, loss) for table, sums in pairs]

    def _tests_of_a_tree(self, rng: np.random.Generator) -> list[Split]:
        if rng.random() < RANDOM_TREES:
            return self.others.tests_of_a_tree(rng)
        best = np.maximum([float(gain.max()) for gain in self.gains], 1e-9)
        n_pairs = min(PAIRS_A_TREE, len(best))
        drawn = rng.choice(len(best), n_pairs, replace=False, p=best / best.sum())
        tests = [test for pair in drawn.tolist() for test in self._tests(pair, rng)]
        return [*tests, *self.others.some_tests(RANDOM_TESTS, rng)]

    def _tests(self, pair: int, rng: np.random.Generator) -> tuple[Split, ...]:
        """A cut of each feature, drawn by what both together gain; at random if nothing does."""
        first, second = self.tables[pair].features
        gain = np.maximum(self.gains[pair], 0.0)
        chances = gain.ravel() ** SHARPNESS
        if not chances.sum() > 0.0:
            return tuple(cut_by_mass(self.grids, f.known, rng) for f in (first, second))
        at = rng.choice(len(chances), p=chances / chances.sum())
        row, column = np.unravel_index(at, gain.shape)
        return first.test(self.grids, int(row)), second.test(self.grids, int(column))


def looking(
    grids: Grids, others: RememberingTrees, values: Sequence[FloatArray], rounds: Rounds
) -> Splitting:
    """Trees that look; random ones if there is no pair to look at."""
    pairs = combinations(strongest(grids, others.known, values), 2)
    tables = [PairTable.of(grids, first, second) for first, second in pairs]
    return LookingTrees(grids, tables, others, rounds) if tables else others
