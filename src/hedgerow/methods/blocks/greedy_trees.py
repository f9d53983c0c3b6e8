"""Boosted trees that look before they split: histograms, or one random cut per feature.

Maddock et al. 2022, section 4.3. Equation (5) scores a split by the fit of its two sides. Leaves
read their sums off the last table, so they cost nothing more (kappa_w = 0).
Departures: all features of a node are one query, charged for all of them; their tables are made to
agree on the node's total; a side whose noisy Hessian does not stand out of its noise is no
candidate; in partially random trees a cut is drawn among the bins that can still reach the node.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from hedgerow.methods.blocks.builder import (
    Choice,
    Chooser,
    Evidence,
    LeafFlow,
    LevelOrder,
    Node,
    Stop,
    TreePlan,
    grow,
)
from hedgerow.methods.blocks.flow import Flow, together
from hedgerow.methods.blocks.newton_steps import Update
from hedgerow.methods.blocks.random_trees import TreeFeatures, random_left
from hedgerow.methods.blocks.scores import left_masses
from hedgerow.methods.blocks.tables import Tables, asked_tables, consistent, totals
from hedgerow.models.model import Additive
from hedgerow.models.uncertainty import Grown, LeafValue, NoisyTree
from hedgerow.privacy.queries import Binning, Cells, Statistic
from hedgerow.schema.arrays import BoolArray, FloatArray
from hedgerow.schema.candidates import Grids
from hedgerow.schema.regions import EVERYONE

LEAST_HESSIAN = 1.0  # that a side must have, noise included
HESSIAN_STANDS_OUT = 1.0  # standard deviations of its noise that a side's Hessian must reach


@dataclass(frozen=True)
class Offer:
    """What a node may choose from: bins to be summed, and per feature the sets sent left."""

    grids: Grids
    features: tuple[int, ...]
    left_sets: tuple[BoolArray, ...]


Offers = Callable[[Node, tuple[int, ...], np.random.Generator], Offer]


def every_cut(grids: Grids) -> Offers:
    """All candidates of all features: a histogram."""

    def offer(node: Node, features: tuple[int, ...], rng: np.random.Generator) -> Offer:
        return Offer(grids, features, tuple(grids.left_sets[f] for f in features))

    return offer


def one_random_cut(grids: Grids) -> Offers:
    """One random cut of each feature: two bins instead of a histogram."""

    def offer(node: Node, features: tuple[int, ...], rng: np.random.Generator) -> Offer:
        bins, usable = [(0,) * len(b) for b in grids.binning.bins], []
        for f in features:
            left = random_left(grids, f, grids.reachable(node.region, f), rng)
            if left is not None:
                bins[f] = tuple(int(not left[b]) for b in grids.binning.bins[f])
                usable.append(f)
        two_way = Grids(grids.schema, Binning(tuple(bins)))
        return Offer(two_way, tuple(usable), (np.array([[True, False]]),) * len(usable))

    return offer


@dataclass(frozen=True)
class SideSums:
    """Sums (k, C) of both sides of k candidates, and the variances (k,) of their noise."""

    sums: tuple[FloatArray, FloatArray]
    variances: tuple[FloatArray, FloatArray]

    @staticmethod
    def of(left: FloatArray, whole: FloatArray, sets: BoolArray, variance: float) -> SideSums:
        bins = sets.sum(axis=1)
        return SideSums((left, whole - left), (variance * bins, variance * (sets.shape[1] - bins)))

    def fits(self, update: Update) -> FloatArray:
        left, right = map(update.score, self.sums, self.variances)
        return left + right

    def evidence(self, k: int) -> tuple[Evidence, Evidence]:
        """What children of candidate k know of themselves."""
        pairs = zip(self.sums, self.variances, strict=True)
        left, right = (Evidence(sums[k], float(variance[k])) for sums, variance in pairs)
        return left, right


@dataclass(frozen=True)
class GreedyTrees:
    """Each level of a tree is one round; the trees of a batch grow side by side."""

    offers: Offers
    names: tuple[str, ...]
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
        statistic = update.statistic(at)
        leaves = known_leaves(update, statistic, len(numbers))
        each = share / (len(numbers) * self.depth)
        growing = {}
        for number in numbers:
            choose = self._chooser(self.features(number, rng), statistic, update, each)
            plan = TreePlan(choose, LevelOrder(), self.depth, leaves)
            growing[number] = grow(plan, self.names, rng)
        grown = yield from together(growing)
        return [with_noise(g, update, len(numbers)) for g in grown.values()]

    def _chooser(
        self, features: tuple[int, ...], statistic: Statistic, update: Update, share: Fraction
    ) -> Chooser:
        def choose(node: Node, rng: np.random.Generator) -> Flow[Choice | Stop]:
            offer = self.offers(node, features, rng)
            if not offer.features:
                return Stop()
            by = Cells(offer.features, offer.grids.binning)
            tables = yield from asked_tables(node.region, statistic, by, share)
            return self._best(offer, consistent(tables), update)

        return choose

    def _best(self, offer: Offer, tables: Tables, update: Update) -> Choice | Stop:
        """The candidate that gains most; ties go to the lower feature."""
        whole, doubt = totals(tables)
        unsplit = update.score(whole, doubt)
        best, taken = 2.0 * self.min_gain, None
        for position, sets in enumerate(offer.left_sets):
            left = SideSums.of(left_masses(tables.of(position), sets), whole, sets, tables.variance)
            heavy = are_heavy(left, update, LEAST_HESSIAN)
            gain = np.where(heavy, left.fits(update) - unsplit, -np.inf)
            k = int(np.argmax(gain))
            if gain[k] > best:
                best, taken = float(gain[k]), (position, k, left)
        if taken is None:
            return Stop()
        position, k, sides = taken
        split = offer.grids.split(offer.features[position], offer.left_sets[position][k])
        return Choice(split, best / 2.0, evidence=sides.evidence(k))


def are_heavy(sides: SideSums, update: Update, least: float) -> BoolArray:
    """Whether both sides' noisy Hessians are beyond doubt and large enough."""
    enough = [
        update.weight(sums)
        >= np.maximum(HESSIAN_STANDS_OUT * np.sqrt(variance) * update.weight_noise, least)
        for sums, variance in zip(sides.sums, sides.variances, strict=True)
    ]
    return np.asarray(enough[0] & enough[1])


def with_noise(grown: Grown, update: Update, batch: int) -> NoisyTree:
    sums = np.stack([leaf.masses for leaf in grown.leaves])
    variances = np.array([leaf.variance for leaf in grown.leaves])
    return NoisyTree(grown.tree, update.deviations(sums, variances / batch, variances))


def known_leaves(update: Update, statistic: Statistic, batch: int) -> LeafFlow:
    """Leaves from what the last table said of them; a root that never split says nothing."""

    def leaves(ends: Sequence[Node]) -> Flow[list[LeafValue]]:
        yield from ()
        nothing = Evidence(np.zeros(statistic.channels), 0.0)
        known = [node.evidence or nothing for node in ends]
        sums, variances = np.stack([k.masses for k in known]), np.array([k.variance for k in known])
        values = update.values(sums, variances / batch)
        return [LeafValue(v, k.masses, k.variance) for v, k in zip(values, known, strict=True)]

    return leaves


# --------------------------------------------------------------------------------------------------
# Boosted trees of one feature each: one table at the root tells every level.
#
# Maddock et al. 2022, section 5.1: with k = 1 a histogram is asked once a tree (kappa_s = T), and
# splits, scores and leaves of all levels are read off it. A batch of trees is one round.

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
