"""Boosted trees for classes: private bins, smoothed curves, stacking, oblivious trees.

Our own method; each stage is a block that other methods use as well.

    round 1   noisy number of records: how strong is the signal against the noise? Once more
              where noise hides that number itself. Where it hides the rest too, a forest that
              is drawn without looking, or the classes' shares
    round 2   noisy counts of a public grid -> bins, as fine as the noise allows
    round 3   class histograms of all features -> smoothed curves of log-odds
    rounds 4-6   one weight per curve, by private Newton steps (two classes)
    then      random oblivious trees with Wiener leaves, one round per batch, if the signal is
              strong enough to pay for them
    between   where it is stronger still, ten looks at tables of pairs of features, after which
              half of the trees test what the tables say; there, and for three classes and more,
              features whose tests gained in earlier trees are drawn more often

All constants are functions of public facts and of noisy answers; nothing is left to tune. Shares
after round 1 depend on the noisy number of records, which the additive filter allows.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np

from hedgerow.methods.base import PrivateClassifier, StagedTrees
from hedgerow.methods.blocks import curves, pair_guided, private_bins, random_trees
from hedgerow.methods.blocks.boosting import DrawnTrees, Rounds, Splitting, boost
from hedgerow.methods.blocks.curves import Shapes, Stacked, shapes, stack, unstacked
from hedgerow.methods.blocks.fallback import is_harmful, shares_alone
from hedgerow.methods.blocks.flow import Flow, Quote
from hedgerow.methods.blocks.goal import Opening, declared_goal
from hedgerow.methods.blocks.newton_steps import Wiener
from hedgerow.methods.blocks.pair_guided import RememberingTrees
from hedgerow.methods.blocks.public_grids import finer_schema
from hedgerow.methods.blocks.random_trees import (
    HOPELESS,
    HOPELESS_FOR_BOOSTING,
    HOPELESS_IF_PURE,
    Gates,
    is_hopeless,
)
from hedgerow.methods.blocks.sizes import QUERY, Scale
from hedgerow.methods.blocks.tables import asked_tables
from hedgerow.methods.forest import FOREST_INSTEAD, GuidedForest
from hedgerow.methods.method import Method, Needs, Task, Trained, method
from hedgerow.methods.parameters import estimator, parameter
from hedgerow.models.losses import LogLoss, Loss, SoftmaxLoss
from hedgerow.models.model import Additive, Model, Output
from hedgerow.models.uncertainty import ScoreNoise
from hedgerow.privacy.bundles import NUMBER, Size
from hedgerow.privacy.queries import (
    Cells,
    ClassCounts,
    CurveNewton,
    Gradients,
    Leaves,
    QueryKinds,
    Whole,
    sums,
)
from hedgerow.schema.arrays import FloatArray
from hedgerow.schema.candidates import Grids
from hedgerow.schema.regions import EVERYONE
from hedgerow.schema.rules import whole
from hedgerow.schema.schema import Schema

STACK_PART = Fraction(1, 5)  # of what bins and trees leave
MOST_FOR_TREES = 0.5
TREE_GATE = (200.0, 600.0)
"""Signal to noise: below the first no trees, above the second the most of the budget."""
TREE_GATE_OF_MANY = (70.0, 200.0)
"""The same for three classes and more, whose curves are not stacked: trees pay sooner there."""
LOOK_FROM = 3000.0  # signal to noise from which trees look at pairs of features
DEEPER = 2  # levels that random trees have more from there on
MANY_CLASSES, MANY_DEVIATION = 4, 0.3
"""From so many classes on, how far leaves are expected to lie from zero: log-odds reach further."""
LEAST_CHANCE = 0.05  # of a feature whose curve is flat, before chances are made to sum to 1


@dataclass(frozen=True)
class StageShares:
    """What the stages after the bins may spend; with the bins they add up to the whole budget."""

    curves: Fraction
    stacking: Fraction
    trees: Fraction

    @staticmethod
    def with_trees(part: Fraction, stacks: bool, counting: Fraction) -> StageShares:
        """`counting` is what the number of records did cost."""
        trees = part * (1 - private_bins.COUNT_SHARE)
        additive = 1 - counting - private_bins.BINS_SHARE - trees
        stacking = additive * STACK_PART if stacks else Fraction(0)
        return StageShares(additive - stacking, stacking, trees)


@dataclass(frozen=True)
class Start:
    """What trees are drawn by: bins, features, their weighted curves (B, O), and the signal."""

    grids: Grids
    features: Sequence[random_trees.DrawableFeature]
    said: Sequence[FloatArray]
    strength: float


@method("smoothed_boost", tried=({"n_trees": 3},))
class SmoothedBoost(Method):
    """Curves, then at most `n_trees` oblivious trees, `batch` of them a round."""

    n_trees: int = parameter(default=100, rule=whole(1), text="The most trees after the curves.")
    max_depth: int = parameter(default=4, rule=whole(1), text="Levels of splits.")
    batch: int = parameter(
        default=1,
        rule=whole(1),
        text="How many trees see the same gradients: a batch of random trees is one round.",
    )

    @property
    def needs(self) -> Needs:
        return Needs(tasks=frozenset({Task.CLASSES}))

    def asks(self, schema: Schema) -> QueryKinds:
        stacking = sums(CurveNewton, Whole) if len(schema.classes or ()) == 2 else frozenset()
        counts, trees = sums(ClassCounts, Cells, Whole, Leaves), sums(Gradients, Leaves)
        return private_bins.ASKS | counts | stacking | trees

    def grid(self, schema: Schema) -> Schema:
        return finer_schema(schema)

    def largest(self, schema: Schema) -> Size:
        """With all trees and looks, which only a strong signal pays for; or the blind forest."""
        scale, loss = Scale(schema), loss_for(len(schema.classes or ()))
        leaves, batches = scale.complete(self.max_depth + DEEPER), -(-self.n_trees // self.batch)
        tests = self.max_depth + DEEPER  # one for each level
        model = scale.model_bytes(self.n_trees, leaves, loss.outputs, tests)
        dimension = scale.columns + 1
        size = scale.total() * 2 + scale.tables(channels=1) + scale.tables(channels=scale.channels)
        if len(schema.classes or ()) == 2:
            channels = dimension * (dimension + 3) // 2
            size += Size.of_step(integers=channels, bytes=QUERY + NUMBER * dimension + model) * (
                curves.ROUNDS
            )
        pairs = math.comb(pair_guided.FEATURES, 2)
        looks = scale.trees(pairs, pair_guided.GROUPS**2, channels=loss.channels, shared=model)
        trees = scale.trees(self.batch, leaves, channels=loss.channels, shared=model)
        size += looks * min(pair_guided.LOOKS, batches) + trees * batches
        return size | GuidedForest().largest(schema)

    def flow(self, schema: Schema, quote: Quote, rng: np.random.Generator) -> Flow[Trained]:
        n_classes = len(schema.classes or ())
        counted = yield from private_bins.counted_surely()
        told = counted.told
        strength = signal_to_noise(counted, len(schema.grids))
        goal = declared_goal(schema)
        opened = Opening.of(goal, told, schema, quote, told.spent)
        if is_harmful(opened, quote):
            return (yield from shares_alone(schema, goal, told, 1 - told.spent, quote))
        if is_hopeless(opened, quote, Gates(HOPELESS, HOPELESS_FOR_BOOSTING, HOPELESS_IF_PURE)):
            drawn = yield from GuidedForest().drawn_blindly(opened, schema, quote, rng)
            return replace(drawn, instead=FOREST_INSTEAD)
        binning = yield from private_bins.bins_by_count(schema, counted)
        grids = Grids(schema, binning)
        active = active_features(grids)
        if not active:  # no column has two bins: the shares are all there is to learn
            rest = 1 - told.spent - private_bins.BINS_SHARE
            return (yield from shares_alone(schema, goal, told, rest, quote))
        part = for_trees(strength, n_classes)
        shares = StageShares.with_trees(part, n_classes == 2, told.spent)
        found = yield from _curves(grids, active, n_classes, shares.curves)
        stacked = unstacked(found)
        if shares.stacking:
            stacked = yield from stack(found, grids, shares.stacking)
        score, of_trees = started(found, grids, stacked), list[FloatArray]()
        if shares.trees:
            rounds = Rounds(self.n_trees, self.batch, shares.trees)
            said = [w * v for w, v in zip(stacked.weights, found.values, strict=True)]
            start = Start(grids, known(found, stacked), said, strength)
            splitting = self._splitting(start, rounds, n_classes)
            update = leaves_for(n_classes)
            score, of_trees = yield from boost(rounds, splitting, update, score, rng)
        of_curves = found.noise(grids, stacked.weights, stacked.deviations)
        noise = ScoreNoise.of(of_trees, of_curves)
        parts = found.parts(grids)
        return Trained(Model(score, output_for(n_classes), parts=parts, noise=noise))

    def _splitting(self, start: Start, rounds: Rounds, n_classes: int) -> Splitting:
        """Trees that look where the signal is strong; else such as remember, or plain ones."""
        grids, features, loss = start.grids, start.features, loss_for(n_classes)
        if start.strength >= LOOK_FROM:
            deeper = RememberingTrees(grids, features, loss, self.max_depth + DEEPER)
            return pair_guided.looking(grids, deeper, start.said, rounds)
        if n_classes > 2:
            return RememberingTrees(grids, features, loss, self.max_depth)
        return DrawnTrees(random_trees.oblivious(grids, features, self.max_depth))


def active_features(grids: Grids) -> tuple[int, ...]:
    """Features with two bins besides `missing`; others have nothing to say."""
    return tuple(j for j, n in enumerate(grids.binning.n_bins) if n > 2)


def signal_to_noise(counted: private_bins.Counted, n_features: int) -> float:
    """Records per standard deviation of a count bought with the whole budget, per root feature."""
    return float(counted.records / max(counted.deviation * np.sqrt(n_features), 1e-9))


def for_trees(strength: float, n_classes: int) -> Fraction:
    """Nothing below the gate, the most above it, linear in the logarithm between."""
    few, plenty = TREE_GATE if n_classes == 2 else TREE_GATE_OF_MANY
    part = np.log(strength / few) / np.log(plenty / few)
    return Fraction(round(10_000 * MOST_FOR_TREES * float(np.clip(part, 0.0, 1.0))), 10_000)


def _curves(grids: Grids, active: Sequence[int], n_classes: int, share: Fraction) -> Flow[Shapes]:
    by = Cells(tuple(active), grids.binning)
    return shapes(grids, (yield from asked_tables(EVERYONE, ClassCounts(n_classes), by, share)))


def started(found: Shapes, grids: Grids, stacked: Stacked) -> Additive:
    base = tuple((found.base + stacked.shift).tolist())
    return Additive(base, found.curves(grids, stacked.weights))


def known(found: Shapes, stacked: Stacked) -> list[random_trees.DrawableFeature]:
    """Strong features are tested more often."""
    strengths = found.strengths * stacked.weights**2
    return [
        random_trees.DrawableFeature(feature, mass, float(np.sqrt(s)) + LEAST_CHANCE)
        for feature, mass, s in zip(found.features, found.masses, strengths, strict=True)
    ]


def loss_for(n_classes: int) -> Loss:
    return LogLoss() if n_classes == 2 else SoftmaxLoss(n_classes)


def leaves_for(n_classes: int) -> Wiener:
    loss = loss_for(n_classes)
    return Wiener(loss, deviation=MANY_DEVIATION) if n_classes >= MANY_CLASSES else Wiener(loss)


def output_for(n_classes: int) -> Output:
    return Output.SIGMOID if n_classes == 2 else Output.SOFTMAX


@estimator
class BoostedTreesClassifier(StagedTrees, PrivateClassifier, SmoothedBoost):
    """Boosted trees for two classes or more.

    It buys private bins, smooth curves of one feature each, their weights, and then, if
    there are records enough, trees that share one test a level.

    Examples
    --------
    >>> import hedgerow as hr
    >>> columns = (hr.Numeric("age", 0, 100), hr.Numeric("dose", 0, 10))
    >>> schema = hr.Schema(columns, classes=("no", "yes"))
    >>> X = [[20, 1], [30, 2], [70, 8], [80, 9]] * 500
    >>> y = ["no", "no", "yes", "yes"] * 500
    >>> model = hr.BoostedTreesClassifier(schema, epsilon=10.0, random_state=0).fit(X, y)
    >>> model.predict([[25, 1], [75, 9]])
    array(['no', 'yes'], dtype='<U3')

    """
