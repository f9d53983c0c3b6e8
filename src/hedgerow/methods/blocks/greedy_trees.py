"""Boosted trees with greedy splits: from histograms, or from one random cut per feature.

Maddock et al. 2022, section 4.3. Equation (5) scores a split by the fit of its two sides. Leaves
read their sums from the last table, at no cost (kappa_w = 0). All features of a node are one query,
charged for all of them (kappa_s = T m d). `SplitRules` adds two corrections of ours.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from hedgerow.methods.blocks.boosting import Batch
from hedgerow.methods.blocks.builder import (
    Evidence,
    LeafFlow,
    Node,
    SplitChoice,
    Stop,
    TreePlan,
    grow,
)
from hedgerow.methods.blocks.flow import Flow, together
from hedgerow.methods.blocks.newton_steps import Update
from hedgerow.methods.blocks.random_trees import TreeFeatures, random_left
from hedgerow.methods.blocks.scores import left_masses
from hedgerow.methods.blocks.tables import Tables, ask_tables, consistent
from hedgerow.methods.constants import constant
from hedgerow.models.uncertainty import LeafStatistics, LeafValue, NoisyTree
from hedgerow.privacy.queries import Binning, Cells
from hedgerow.schema.arrays import BoolArray, FloatArray, Rng
from hedgerow.schema.candidates import Grids
from hedgerow.schema.regions import EVERYONE, Region

LEAST_HESSIAN = constant(1.0, unit="Hessian that a side must have, noise included")
HESSIAN_STANDS_OUT = constant(1.0, unit="deviations", evidence="boosting.md#0031")
"""Deviations of its noise that the Hessian of each side must reach."""


@dataclass(frozen=True)
class CandidateSet:
    """The candidate splits of a node: bins to sum, and per feature the sets sent left."""

    grids: Grids
    features: tuple[int, ...]
    left_sets: tuple[BoolArray, ...]
    single_cuts: bool = False


def every_cut(grids: Grids, features: tuple[int, ...]) -> CandidateSet:
    """All cuts of all features: a histogram."""
    return CandidateSet(grids, features, tuple(grids.left_sets[f] for f in features))


def one_random_cut(
    grids: Grids, features: tuple[int, ...], region: Region, rng: Rng
) -> CandidateSet:
    """One random cut per feature: two bins instead of a histogram."""
    bins, usable = [(0,) * len(b) for b in grids.binning.bins], []
    for f in features:
        left = random_left(grids, f, grids.reachable(region, f), rng)
        if left is not None:
            bins[f] = tuple(int(not left[b]) for b in grids.binning.bins[f])
            usable.append(f)
    two_way = Grids(grids.schema, Binning(tuple(bins)))
    sets = (np.array([[True, False]]),) * len(usable)
    return CandidateSet(two_way, tuple(usable), sets, single_cuts=True)


@dataclass(frozen=True)
class SideSums:
    """Sums (k, C) of both sides of k candidates, and their noise variances (k,)."""

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
        """Evidence for the two children of candidate k."""
        pairs = zip(self.sums, self.variances, strict=True)
        left, right = (Evidence(sums[k], float(variance[k])) for sums, variance in pairs)
        return left, right


@dataclass(frozen=True)
class SplitRules:
    """How a split is derived from noisy tables, with two corrections that the paper lacks.

    `consistency`: the tables of a node agree on its total. Without it, as in the released program,
    a histogram's right side is its own total less the left, over the reachable bins, and the other
    side of a single cut is the node's total, as its parent's split gave it, less the left.
    `noise_gate`: both sides need a Hessian (or number of records) that exceeds its noise. Without
    it a node is split unless its own noisy Hessian is below 0.
    """

    min_gain: float = 0.0
    consistency: bool = True
    noise_gate: bool = True

    def is_light(self, node: Node, update: Update) -> bool:
        """Whether a node is not queried at all."""
        if self.noise_gate or node.evidence is None:
            return False
        return bool(update.weight(node.evidence.masses) < 0.0)

    def gains(self, sides: SideSums, unsplit: FloatArray, update: Update) -> FloatArray:
        gains = sides.fits(update) - unsplit
        if not self.noise_gate:
            return gains
        return np.where(are_heavy(sides, update, LEAST_HESSIAN), gains, -np.inf)

    def sides(
        self, node: Node, offer: CandidateSet, tables: Tables, position: int, whole: Evidence
    ) -> tuple[BoolArray, SideSums]:
        """The candidates of a feature, and the sums of their sides."""
        table, sets, variance = tables.of(position), offer.left_sets[position], tables.variance
        left = left_masses(table, sets)
        if self.consistency:
            return sets, SideSums.of(left, whole.masses, sets, variance)
        if offer.single_cuts:
            noise = np.full(len(sets), variance)
            return sets, SideSums((left, whole.masses - left), (noise, noise + whole.variance))
        live = offer.grids.reachable(node.region, offer.features[position])
        n_left = sets[:, live].sum(axis=1)
        sets = sets[(n_left > 0) & (n_left < live.sum())]
        mine = left_masses(table[live], sets[:, live])
        return sets, SideSums.of(mine, table[live].sum(axis=0), sets[:, live], variance)


@dataclass(frozen=True)
class GreedyTrees:
    """Each level of a tree is one round; the trees of a batch grow side by side.

    `every_cut`: a node takes the best cut of all; otherwise the best of one random cut per feature.
    """

    grids: Grids
    every_cut: bool
    features: TreeFeatures
    depth: int
    rules: SplitRules

    def grow(self, batch: Batch, rng: Rng) -> Flow[list[NoisyTree]]:
        features_of = {number: self.features(number, rng) for number in batch.numbers}
        growing = {n: self._tree(features, batch, rng) for n, features in features_of.items()}
        statistics = yield from together(growing)
        return [with_noise(g, batch) for g in statistics.values()]

    def _tree(self, features: tuple[int, ...], batch: Batch, rng: Rng) -> Flow[LeafStatistics]:
        fraction = batch.fraction / (batch.size * self.depth)

        def choose(node: Node, rng: Rng) -> Flow[SplitChoice | Stop]:
            offer = (
                every_cut(self.grids, features)
                if self.every_cut
                else one_random_cut(self.grids, features, node.region, rng)
            )
            if not offer.features or self.rules.is_light(node, batch.update):
                return Stop()
            by = Cells(offer.features, offer.grids.binning)
            tables = yield from ask_tables(node.region, batch.statistic, by, fraction)
            if self.rules.consistency:
                tables = consistent(tables)
            return self._best(node, offer, tables, batch.update)

        plan = TreePlan(choose, self.depth, leaves_from_evidence(batch))
        return (yield from grow(plan, self.grids.schema.names, rng))

    def _best(
        self, node: Node, offer: CandidateSet, tables: Tables, update: Update
    ) -> SplitChoice | Stop:
        """The candidate with the largest gain; ties go to the lower feature."""
        from_parent = None if self.rules.consistency else node.evidence
        whole = from_parent or Evidence(*tables.total)
        unsplit = update.score(whole.masses, whole.variance)
        best, best_split = 2.0 * self.rules.min_gain, None
        for position, feature in enumerate(offer.features):
            sets, sides = self.rules.sides(node, offer, tables, position, whole)
            gains = self.rules.gains(sides, unsplit, update)
            k = int(np.argmax(gains)) if len(gains) else 0
            if len(gains) and gains[k] > best:
                best, best_split = float(gains[k]), (feature, sets[k], sides.evidence(k))
        if best_split is None:
            return Stop()
        feature, left, evidence = best_split
        return SplitChoice(offer.grids.split(feature, left), best / 2.0, evidence=evidence)


def are_heavy(sides: SideSums, update: Update, least: float) -> BoolArray:
    """Whether both sides' noisy Hessians exceed their noise and are large enough."""
    enough = [
        update.weight(sums)
        >= np.maximum(HESSIAN_STANDS_OUT * np.sqrt(variance) * update.weight_noise, least)
        for sums, variance in zip(sides.sums, sides.variances, strict=True)
    ]
    return np.asarray(enough[0] & enough[1])


def with_noise(statistics: LeafStatistics, batch: Batch) -> NoisyTree:
    sums = np.stack([leaf.masses for leaf in statistics.leaves])
    variances = np.array([leaf.variance for leaf in statistics.leaves])
    noise = batch.update.deviations(sums, variances / batch.size, variances)
    return NoisyTree(statistics.tree, noise)


def leaves_from_evidence(batch: Batch) -> LeafFlow:
    """Leaf values from the last tables; a root that never split has value 0."""

    def leaves(ends: Sequence[Node]) -> Flow[list[LeafValue]]:
        yield from ()
        nothing = Evidence(np.zeros(batch.statistic.channels), 0.0)
        evidence = [node.evidence or nothing for node in ends]
        sums = np.stack([k.masses for k in evidence])
        variances = np.array([k.variance for k in evidence])
        values = batch.update.values(sums, variances / batch.size)
        return [LeafValue(v, k.masses, k.variance) for v, k in zip(values, evidence, strict=True)]

    return leaves


# Boosted trees of one feature each: one table at the root serves every level. Maddock et al. 2022,
# section 5.1: with k = 1 there is one histogram per tree (kappa_s = T), from which splits, scores
# and leaves of all levels are computed. A batch of trees is one round.


class OneFeatureTrees(GreedyTrees):
    """Trees of one feature each; the only query is its histogram at the root."""

    def _tree(self, features: tuple[int, ...], batch: Batch, rng: Rng) -> Flow[LeafStatistics]:
        by, fraction = Cells(features[:1], self.grids.binning), batch.fraction / batch.size
        table = yield from ask_tables(EVERYONE, batch.statistic, by, fraction)

        def choose(node: Node, rng: Rng) -> Flow[SplitChoice | Stop]:
            yield from ()
            return self._best_cut(node, table, batch.update, rng)

        plan = TreePlan(choose, self.depth, leaves_from_evidence(batch))
        return (yield from grow(plan, self.grids.schema.names, rng))

    def _best_cut(self, node: Node, table: Tables, update: Update, rng: Rng) -> SplitChoice | Stop:
        """The cut of the reachable bins with the largest gain."""
        (feature,) = table.features
        live = self.grids.reachable(node.region, feature)
        sets = self.grids.left_sets[feature]
        if not self.every_cut:
            left = random_left(self.grids, feature, live, rng)
            sets = np.zeros((0, len(live)), bool) if left is None else left[None, :]
        sets = sets[sets[:, live].any(axis=1) & ~sets[:, live].all(axis=1)]
        if not len(sets) or self.rules.is_light(node, update):
            return Stop()
        histogram, mine = table.of(0)[live], sets[:, live]
        whole = histogram.sum(axis=0)
        sides = SideSums.of(left_masses(histogram, mine), whole, mine, table.variance)
        unsplit = update.score(whole, np.asarray(table.variance * live.sum()))
        gains = self.rules.gains(sides, unsplit, update)
        k = int(np.argmax(gains))
        if gains[k] <= 2.0 * self.rules.min_gain:
            return Stop()
        split = self.grids.split(feature, sets[k])
        return SplitChoice(split, float(gains[k]) / 2.0, evidence=sides.evidence(k))
