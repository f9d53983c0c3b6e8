"""Boosted trees of one feature each: one table at the root tells every level.

Maddock et al. 2022, section 5.1: with k = 1 a histogram is asked once a tree (kappa_s = T), and
splits, scores and leaves of all levels are read off it. A batch of trees is one round.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from hedgerow.learning.builder import Choice, Chooser, Node, Stop, TreePlan, grow
from hedgerow.learning.choosing.scores import left_masses
from hedgerow.learning.choosing.tables import Tables, asked_tables
from hedgerow.learning.feature_draws import TreeFeatures
from hedgerow.learning.flow import Flow, together
from hedgerow.learning.forests.greedy_trees import (
    LEAST_HESSIAN,
    SideSums,
    are_heavy,
    known_leaves,
    with_noise,
)
from hedgerow.learning.forests.random_trees import random_left
from hedgerow.learning.frontier import LevelOrder
from hedgerow.learning.leaves.updates import Update
from hedgerow.queries import Cells
from hedgerow.values.arrays import BoolArray
from hedgerow.values.candidates import Grids
from hedgerow.values.grown import Grown
from hedgerow.values.models import Additive
from hedgerow.values.noise import NoisyTree
from hedgerow.values.regions import EVERYONE

LeftSets = Callable[[int, BoolArray, np.random.Generator], BoolArray]
"""(feature, bins in reach) -> (k, B) sets of bins that a node may send left."""


def every_set(grids: Grids) -> LeftSets:
    return lambda feature, live, rng: grids.left_sets[feature]


def one_random_set(grids: Grids) -> LeftSets:
    def sets(feature: int, live: BoolArray, rng: np.random.Generator) -> BoolArray:
        left = random_left(grids, feature, live, rng)
        return np.zeros((0, len(live)), bool) if left is None else left[None, :]

    return sets


@dataclass(frozen=True)
class OneFeatureTrees:
    """Each tree looks at one feature; all that is asked is its histogram at the root."""

    grids: Grids
    left_sets: LeftSets
    features: TreeFeatures
    depth: int
    min_gain: float = 0.0

    def grow(
        self,
        numbers: range,
        update: Update,
        at: Additive,
        share: Fraction,
        rng: np.random.Generator,
    ) -> Flow[list[NoisyTree]]:
        each = share / len(numbers)
        growing = {
            number: self._tree(self.features(number, rng)[0], update, at, each, len(numbers), rng)
            for number in numbers
        }
        grown = yield from together(growing)
        return [with_noise(g, update, len(numbers)) for g in grown.values()]

    def _tree(
        self,
        feature: int,
        update: Update,
        at: Additive,
        share: Fraction,
        batch: int,
        rng: np.random.Generator,
    ) -> Flow[Grown]:
        statistic = update.statistic(at)
        by = Cells((feature,), self.grids.binning)
        table = yield from asked_tables(EVERYONE, statistic, by, share)
        leaves = known_leaves(update, statistic, batch)
        plan = TreePlan(self._chooser(table, update), LevelOrder(), self.depth, leaves)
        return (yield from grow(plan, self.grids.schema.names, rng))

    def _chooser(self, table: Tables, update: Update) -> Chooser:
        def choose(node: Node, rng: np.random.Generator) -> Flow[Choice | Stop]:
            yield from ()
            return self._best(node, table, update, rng)

        return choose

    def _best(
        self, node: Node, table: Tables, update: Update, rng: np.random.Generator
    ) -> Choice | Stop:
        """The cut of the bins in reach that gains most."""
        (feature,) = table.features
        live = self.grids.reachable(node.region, feature)
        sets = self.left_sets(feature, live, rng)
        if not len(sets):
            return Stop()
        histogram, mine = table.of(0)[live], sets[:, live]
        whole = histogram.sum(axis=0)
        sides = SideSums.of(left_masses(histogram, mine), whole, mine, table.variance)
        unsplit = update.score(whole, np.asarray(table.variance * live.sum()))
        heavy = are_heavy(sides, update, LEAST_HESSIAN)
        gains = np.where(heavy, sides.fits(update) - unsplit, -np.inf)
        k = int(np.argmax(gains))
        if gains[k] <= 2.0 * self.min_gain:
            return Stop()
        split = self.grids.split(feature, sets[k])
        return Choice(split, float(gains[k]) / 2.0, evidence=sides.evidence(k))
