"""Pair-guided oblivious trees: tests from noisy tables of pairs of features, and random ones.

An interaction query is one round: gradient and Hessian sums of every pair of the strongest
features, in a table of at most 8 x 8 groups each, at the present model. Until the next one, trees
draw pairs and cuts by their gains in the table, less what noise and sampling alone would gain.
Where the tables are below the noise, the draw is close to an even one. Touches no row.

Why half of the trees stay random, and why the others get two random tests besides: trees that only
follow the tables resemble each other too much (studies/notes/boosting.md#0034). What is random is
drawn by the gains of earlier trees (`GainSampledTrees`).

Shapes: F features, A and B groups of a pair, O outputs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from itertools import combinations

import numpy as np

from hedgerow.methods.blocks.boosting import Rounds, Splitting, ask_leaves
from hedgerow.methods.blocks.flow import Flow, ask, both
from hedgerow.methods.blocks.newton_steps import Update, gradients_and_hessians, sampling_variance
from hedgerow.methods.blocks.private_bins import merge
from hedgerow.methods.blocks.random_trees import DrawableFeature, cut_by_mass, oblivious_tree
from hedgerow.methods.constants import constant
from hedgerow.models.losses import Loss, SquaredLoss
from hedgerow.models.model import Additive
from hedgerow.models.tree import Tree
from hedgerow.models.uncertainty import NoisyTree
from hedgerow.privacy.queries import Answer, Leaves, Statistic, SumQuery
from hedgerow.schema.arrays import FloatArray, IntArray
from hedgerow.schema.candidates import Grids
from hedgerow.schema.grids import ColumnKind
from hedgerow.schema.regions import EVERYONE, Split

GAIN_DECAY = constant(0.95, unit="part of past gains", evidence="boosting.md#0117")
"""Decay of past gains from tree to tree."""
FIRST_CHANCES = constant(0.15, unit="part of the draws", evidence="boosting.md#0117")
"""Part of the draws that always follow the curves' strengths."""
UNSEEN = constant(0.5, unit="tests that a feature is taken to have had, with the mean gain of all")
GROUP_DEVIATION = constant(0.2, unit="deviation", evidence="boosting.md#0034")
"""How far a group of records is expected to lie from zero."""
CLIPPED_SCATTER = constant(0.25, unit="mean square of residuals, in squares of their clip")
INTERACTION_ROUNDS = constant(
    10, unit="rounds that ask tables of pairs", evidence="boosting.md#0034"
)
INTERACTION_FRACTION = constant(
    Fraction(3, 10), unit="part of the trees", evidence="boosting.md#0034"
)
"""Part of the trees' budget, for all of them together."""
FEATURES = constant(8, unit="strongest features whose pairs are asked", evidence="boosting.md#0034")
PAIR_GROUPS = constant(8, unit="groups of a feature in a table", evidence="boosting.md#0034")
RANDOM_TREES = constant(0.5, unit="part of the trees", evidence="boosting.md#0034")
"""Part of the trees that do not follow the tables."""
RANDOM_TESTS = constant(2, unit="random tests", evidence="boosting.md#0034")
"""Random tests of a tree that follows them, besides those of two pairs."""
PAIRS_A_TREE = constant(2, unit="pairs of features of such a tree", evidence="boosting.md#0034")
SHARPNESS = constant(1.5, unit="power", evidence="boosting.md#0034")
"""Power of the gain by which the cuts of a pair are drawn."""

# --------------------------------------------------------------------------------------------------
# Feature sampling by past gain: oblivious trees draw features by the gains of earlier trees.
#
# The sums of a tree's leaves also show how much less the tree would gain without one of its tests.
# They were released already, so this costs nothing. Features whose tests gain are drawn more often
# (a bandit with decay; studies/notes/boosting.md#0117). Touches no row.
#
# Shapes: F features that may be drawn, L leaves of an oblivious tree, O outputs.


def posterior_gain(
    g: FloatArray, h: FloatArray, noise: FloatArray | float, loss: Loss
) -> FloatArray:
    """Gain of a step in each group, less the apparent gain of noise and sampling alone.

    With sums G and H, and variance s of noise and sampling together, the expected gain of a
    posterior step is (G^2 - s) H / (H^2 + s / deviation^2). Over groups of mere noise its mean is
    zero. `noise` is the variance of a channel, in the statistic's units.
    """
    scatter = sampling_variance(loss, h)
    if isinstance(loss, SquaredLoss):
        scatter = CLIPPED_SCATTER * loss.gradient_scale**2 * h
    spread = noise * loss.gradient_scale**2 + scatter
    return np.asarray((g**2 - spread) * h / (h**2 + spread / GROUP_DEVIATION**2 + 1e-12))


def gains_of_tests(sums: FloatArray, variance: float, loss: Loss) -> FloatArray:
    """(depth,) gain of each test of an oblivious tree (L, C), given its other tests."""
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
    """Sums of gains and numbers of tests by feature, both with decay."""

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
    """A `Splitting` for one flow: each tree's gains change the feature chances of the next."""

    grids: Grids
    drawables: Sequence[DrawableFeature]
    loss: Loss
    depth: int
    memory: PastGains = field(init=False)

    def __post_init__(self) -> None:
        weights = np.array([feature.weight for feature in self.drawables])
        self.memory = PastGains(weights / weights.sum())

    def grow(
        self,
        numbers: range,
        update: Update,
        at: Additive,
        fraction: Fraction,
        rng: np.random.Generator,
    ) -> Flow[list[NoisyTree]]:
        tree_tests = [self.tests_of_a_tree(rng) for _ in numbers]
        return (yield from self.grow_from_tests(tree_tests, update, at, fraction))

    def grow_from_tests(
        self,
        tree_tests: Sequence[Sequence[Split]],
        update: Update,
        at: Additive,
        fraction: Fraction,
    ) -> Flow[list[NoisyTree]]:
        """Grows trees of these tests and records their gains."""
        names = self.grids.schema.names
        trees = tuple(oblivious_tree(names, tests) for tests in tree_tests)
        answer = yield from ask_leaves(trees, update, at, fraction)
        for tests, sums in zip(tree_tests, answer.sums, strict=True):
            places = [self._place(test) for test in tests]
            self.memory.learn(places, gains_of_tests(sums, answer.variance, self.loss))
        return answer.trees

    def tests_of_a_tree(self, rng: np.random.Generator) -> list[Split]:
        """Random tests of different features, as long as there are enough."""
        width = min(self.depth, len(self.drawables))
        places = rng.choice(len(self.drawables), width, replace=False, p=self.memory.chances)
        return [self._test(places[level % width], rng) for level in range(self.depth)]

    def some_tests(self, n: int, rng: np.random.Generator) -> list[Split]:
        places = rng.choice(len(self.drawables), n, p=self.memory.chances)
        return [self._test(place, rng) for place in places]

    def _test(self, place: int, rng: np.random.Generator) -> Split:
        return cut_by_mass(self.grids, self.drawables[place], rng)

    def _place(self, test: Split) -> int:
        return self._places[test.feature]

    @cached_property
    def _places(self) -> dict[str, int]:
        """The place of each drawable feature, by name."""
        names = self.grids.schema.names
        return {names[drawable.feature]: place for place, drawable in enumerate(self.drawables)}


Nodes = list[Split | tuple[float, ...]]


@dataclass(frozen=True)
class FeatureGroups:
    """A feature in a few groups of bins, of about equal noisy mass."""

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
    many: int = FEATURES,
    n_groups: int = PAIR_GROUPS,
) -> list[FeatureGroups]:
    """The features with the strongest curves; `values` are the curves (bins, O) of the model.

    Numbers keep the order of their bins, `missing` last; categories follow their curve's main
    direction.
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


@dataclass(frozen=True)
class PairTable:
    """A table of two features, asked as a tree: a record is in one leaf of it."""

    features: tuple[FeatureGroups, FeatureGroups]
    tree: Tree

    @staticmethod
    def of(grids: Grids, first: FeatureGroups, second: FeatureGroups) -> PairTable:
        return PairTable((first, second), table_tree(grids, (first, second)))

    def gains(self, sums: FloatArray, variance: float, loss: Loss) -> FloatArray:
        """(A - 1, B - 1) gain of a step in each of four quadrants, less the gain of noise.

        A quadrant of c cells has c times the noise of one.
        """
        shape = [feature.n_groups for feature in self.features]
        table = sums[: shape[0] * shape[1]].reshape(*shape, -1)
        g = _quadrants(table[..., : loss.outputs] * loss.gradient_scale)
        h = _quadrants(table[..., loss.outputs :] / loss.hessian_scale)
        cells = _quadrants(np.ones((*shape, 1)))
        gain = posterior_gain(g, np.maximum(h, 0.0), cells * variance, loss)
        return np.asarray(gain.sum(axis=(0, -1)))


def table_tree(grids: Grids, features: Sequence[FeatureGroups]) -> Tree:
    """A tree with a leaf for every cell of the table of these features, the last one's fastest."""
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


def _quadrants(table: FloatArray) -> FloatArray:
    """(4, A - 1, B - 1, C) sums of the quadrants around each inner corner of (A, B, C)."""
    below = table.cumsum(axis=0).cumsum(axis=1)
    both, rows = below[:-1, :-1], below[:-1, -1:]
    columns, whole = below[-1:, :-1], below[-1:, -1:]
    return np.stack([both, rows - both, columns - both, whole - rows - columns + both])


@dataclass
class PairGuidedTrees:
    """A `Splitting` that draws trees by the gains of pair tables, asked now and then.

    Interaction queries take their fraction of what `boost` gives a batch. `others` draws the random
    trees and tests, and records the gains of all trees. `in_one_round`: a query goes with the trees
    of a round and guides those of the next.
    """

    grids: Grids
    tables: Sequence[PairTable]
    others: GainSampledTrees
    rounds: Rounds
    in_one_round: bool = False
    gains: list[FloatArray] = field(default_factory=list)

    def grow(
        self,
        numbers: range,
        update: Update,
        at: Additive,
        fraction: Fraction,
        rng: np.random.Generator,
    ) -> Flow[list[NoisyTree]]:
        query_trees, tree_fraction = self._query_trees, fraction * (1 - INTERACTION_FRACTION)
        is_query_due = numbers.start in query_trees
        query = self._ask_tables(update.statistic(at), len(query_trees))
        if is_query_due and not self.in_one_round:
            yield from query
        tree_tests = [self._tests_of_a_tree(rng) for _ in numbers]
        trees = self.others.grow_from_tests(tree_tests, update, at, tree_fraction)
        if is_query_due and self.in_one_round:
            return (yield from both(trees, query))[0]
        return (yield from trees)

    def _ask_tables(self, statistic: Statistic, times: int) -> Flow[None]:
        by = Leaves(tuple(t.tree for t in self.tables))
        fraction = self.rounds.fraction * INTERACTION_FRACTION / times
        answer = yield from ask(SumQuery(EVERYONE, statistic, by, fraction))
        self.gains = self._gains(answer)

    @property
    def _query_trees(self) -> set[int]:
        """The first trees of the batches before which an interaction query is asked."""
        starts = self.rounds.starts
        return {
            starts[len(starts) * look // INTERACTION_ROUNDS] for look in range(INTERACTION_ROUNDS)
        }

    def _gains(self, answer: Answer) -> list[FloatArray]:
        pairs, loss = zip(self.tables, answer.values, strict=True), self.others.loss
        return [table.gains(sums, answer.variance, loss) for table, sums in pairs]

    def _tests_of_a_tree(self, rng: np.random.Generator) -> list[Split]:
        if rng.random() < RANDOM_TREES or not self.gains:
            return self.others.tests_of_a_tree(rng)
        best = np.maximum([float(gain.max()) for gain in self.gains], 1e-9)
        n_pairs = min(PAIRS_A_TREE, len(best))
        pairs = rng.choice(len(best), n_pairs, replace=False, p=best / best.sum())
        tests = [test for pair in pairs.tolist() for test in self._tests(pair, rng)]
        return [*tests, *self.others.some_tests(RANDOM_TESTS, rng)]

    def _tests(self, pair: int, rng: np.random.Generator) -> tuple[Split, ...]:
        """A cut of each feature, drawn by their joint gain; at random if no cut gains."""
        first, second = self.tables[pair].features
        gain = np.maximum(self.gains[pair], 0.0)
        chances = gain.ravel() ** SHARPNESS
        if not chances.sum() > 0.0:
            return tuple(cut_by_mass(self.grids, f.drawable, rng) for f in (first, second))
        at = rng.choice(len(chances), p=chances / chances.sum())
        row, column = np.unravel_index(at, gain.shape)
        return first.test(self.grids, int(row)), second.test(self.grids, int(column))


def pair_guided_trees(
    grids: Grids,
    others: GainSampledTrees,
    values: Sequence[FloatArray],
    rounds: Rounds,
    in_one_round: bool = False,
) -> Splitting:
    """Pair-guided trees; random ones if there is no pair."""
    pairs = combinations(strongest(grids, others.drawables, values), 2)
    tables = [PairTable.of(grids, first, second) for first, second in pairs]
    return PairGuidedTrees(grids, tables, others, rounds, in_one_round) if tables else others
