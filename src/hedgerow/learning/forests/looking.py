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
from itertools import combinations

import numpy as np

from hedgerow.learning.bins.by_count import merge
from hedgerow.learning.flow import Flow, ask
from hedgerow.learning.forests.boosting import Rounds, Splitting
from hedgerow.learning.forests.random_trees import DrawableFeature, cut_by_mass
from hedgerow.learning.forests.remembering import RememberingTrees, posterior_gain
from hedgerow.learning.leaves.updates import Update
from hedgerow.queries import Answer, Leaves, SumQuery
from hedgerow.values.arrays import FloatArray, IntArray
from hedgerow.values.candidates import Grids
from hedgerow.values.grids import ColumnKind
from hedgerow.values.losses import Loss
from hedgerow.values.models import Additive
from hedgerow.values.noise import NoisyTree
from hedgerow.values.regions import EVERYONE, Split
from hedgerow.values.trees import Tree

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
