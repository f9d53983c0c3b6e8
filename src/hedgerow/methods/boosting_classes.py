"""Boosted trees for classes: private bins, smoothed curves, stacking, oblivious trees.

| rounds          | asked                                                                       |
|-----------------|-----------------------------------------------------------------------------|
| 1               | number of records: the signal-to-noise ratio (again, if below its noise)    |
| 2               | counts of a public grid: bins, as fine as the noise allows                  |
| 3               | class histograms of all features: smoothed curves of log-odds               |
| 4 to 6          | two classes: one weight per curve, by private Newton steps                  |
| then 21 (15)    | strong signal: curves and surfaces by gradient descent (at several sites)   |
| one per batch   | leaves of oblivious trees: without surfaces, or on top where they pay       |

All constants are functions of public facts and of noisy answers; there is nothing to tune.
Fractions after round 1 depend on the noisy number of records, which the additive filter allows.
"""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from functools import partial

import numpy as np

from hedgerow.methods.base import PrivateClassifier, StagedTrees
from hedgerow.methods.blocks import curves, private_bins, random_trees, surfaces
from hedgerow.methods.blocks.boosting import (
    BATCH_OVERLAP,
    TREES_PER_ROUND,
    BatchPlan,
    DrawnTrees,
    GainSampledTrees,
    Rounds,
    Splitting,
    boost,
)
from hedgerow.methods.blocks.curves import FeatureEffects, Stacking, even_stacking, shapes, stack
from hedgerow.methods.blocks.fallback import needs_fallback, shares_or_mean
from hedgerow.methods.blocks.flow import Flow, NoiseModel
from hedgerow.methods.blocks.newton_steps import DEVIATION, MANY_CLASSES, Wiener
from hedgerow.methods.blocks.public_grids import finer_schema
from hedgerow.methods.blocks.random_trees import (
    RANDOM_BOOSTING_BELOW,
    is_signal_below,
)
from hedgerow.methods.blocks.sizes import Scale
from hedgerow.methods.blocks.tables import ask_tables
from hedgerow.methods.blocks.target import InitialRound, declared_target
from hedgerow.methods.constants import constant
from hedgerow.methods.forest import FOREST_FALLBACK, GuidedForest
from hedgerow.methods.method import Method, Needs, Task, TrainingResult, method
from hedgerow.methods.parameters import estimator, parameter
from hedgerow.models.losses import LogLoss, Loss, SoftmaxLoss
from hedgerow.models.model import Model, Output
from hedgerow.models.uncertainty import ScoreNoise
from hedgerow.privacy.bundles import Size
from hedgerow.privacy.queries import (
    Cells,
    ClassCounts,
    CurveNewton,
    Gradients,
    Leaves,
    QueryKinds,
    SurfaceGradients,
    Whole,
    sums,
)
from hedgerow.schema.arrays import FloatArray, Rng
from hedgerow.schema.candidates import Grids
from hedgerow.schema.regions import EVERYONE
from hedgerow.schema.rules import or_none, whole
from hedgerow.schema.schema import Schema

STACK_PART = constant(Fraction(1, 5), unit="part", evidence="boosting.md#0030")
"""Fraction of what bins and trees leave."""
MOST_FOR_TREES = constant(0.5, unit="part of the budget", evidence="boosting.md#0033")
TREE_GATE = constant((200.0, 600.0), unit="signal", evidence="boosting.md#0030")
"""Signal below which there are no trees, and above which they get the largest fraction."""
TREE_GATE_OF_MANY = constant((70.0, 200.0), unit="signal", evidence="classes.md#0035")
"""The same for three or more classes, whose curves are not stacked."""
DEEPER_TREES_FROM = constant(3000.0, unit="signal", evidence="boosting.md#0117")
DEEPER = constant(2, unit="levels", evidence="boosting.md#0117")
"""Extra levels of gain-sampled trees at a strong signal."""
MANY_DEVIATION = constant(0.3, unit="deviation", evidence="classes.md#0118")
"""Expected deviation of leaves from zero, for many classes."""
SURFACES_FROM = constant(4500.0, unit="signal times columns", evidence="boosting.md#0161")
LEAST_FOR_SURFACES = constant(80.0, unit="signal", evidence="boosting.md#0161")
"""Signal from which curves and surfaces are learned by gradient descent."""
TREES_ON_SURFACES_FROM = constant(3000.0, unit="signal", evidence="boosting.md#0161")
TREES_PAY_FROM = constant(85_000.0, unit="signal times columns", evidence="boosting.md#0161")
"""Signal times columns from which trees follow, with half of the surfaces' fraction."""
OF_MANY = constant(Fraction(13, 20), unit="part of the budget", evidence="classes.md#0163")
"""Fraction for surfaces and trees together, for three or more classes."""
TREES_OF_MANY_FROM = constant(220.0, unit="signal per class", evidence="classes.md#0163")
"""Signal per class from which half of that is for trees."""
OVERLAP_OF_MANY = constant(0.9, unit="power", evidence="classes.md#0163")
"""For many classes, the trees of a round overlap more."""
BATCH_DEVIATION = constant(0.25, unit="power", evidence="boosting.md#0160")
"""Leaves of trees that share a round are expected to lie further from zero by this power."""
LEAST_CHANCE = constant(0.05, unit="chance")
"""Probability of a feature with a flat curve, before normalization."""


@method(
    "smoothed_boost",
    test_settings=({"n_estimators": 3, "trees_per_round": 1}, {"n_estimators": 70}),
)
class SmoothedBoost(Method):
    """Curves, then at most `n_estimators` oblivious trees, `trees_per_round` of them per round."""

    n_estimators: int = parameter(default=100, rule=whole(1), text="Most trees after the curves.")
    max_depth: int = parameter(default=4, rule=whole(1), text="Levels of splits.")
    trees_per_round: int | None = parameter(
        default=None, rule=or_none(whole(1)), text=TREES_PER_ROUND
    )

    @property
    def needs(self) -> Needs:
        return Needs(tasks=frozenset({Task.CLASSES}))

    def asks(self, schema: Schema) -> QueryKinds:
        stacking = sums(CurveNewton, Whole) if len(schema.classes or ()) == 2 else frozenset()
        counts, trees = sums(ClassCounts, Cells, Whole, Leaves), sums(Gradients, Leaves)
        steps = sums(SurfaceGradients, Whole)
        return private_bins.ASKS | counts | stacking | steps | trees

    def grid(self, schema: Schema) -> Schema:
        return finer_schema(schema)

    def largest(self, schema: Schema) -> Size:
        """The larger of surfaces with all trees, and the totally random forest."""
        scale, loss = Scale(schema), loss_for(len(schema.classes or ()))
        leaves, model = scale.complete(self.max_depth + DEEPER), self._model_bytes(scale, loss)
        one_size = partial(scale.trees, channels=loss.channels, shared_bytes=model)
        trees = self._batches(schema).largest(lambda n: one_size(n, leaves), Size(), 0)
        return self._before_trees(schema) + trees | GuidedForest().largest(schema)

    def _before_trees(self, schema: Schema) -> Size:
        """The number of records, bins, curves, their weights, and surfaces."""
        scale, loss = Scale(schema), loss_for(len(schema.classes or ()))
        size = scale.total() * 2 + scale.tables(channels=1) + scale.tables(channels=scale.channels)
        size += surfaces.largest(scale, loss.outputs)
        if loss.outputs > 1:
            return size
        return size + curves.size_of_step(scale, self._model_bytes(scale, loss)) * curves.ROUNDS

    def _model_bytes(self, scale: Scale, loss: Loss) -> int:
        tests = self.max_depth + DEEPER  # one for each level
        trees = scale.model_bytes(self.n_estimators, scale.complete(tests), loss.outputs, tests)
        return trees + surfaces.tree_bytes(scale, loss.outputs)

    def _batches(self, schema: Schema) -> BatchPlan:
        integers = Scale.complete(self.max_depth + DEEPER)
        integers *= loss_for(len(schema.classes or ())).channels
        before = self._before_trees(schema).rounds
        return BatchPlan(self.n_estimators, self.trees_per_round, before, integers)

    def flow(self, schema: Schema, noise_model: NoiseModel, rng: Rng) -> Flow[TrainingResult]:
        n_classes = len(schema.classes or ())
        record_count = yield from private_bins.count_until_clear()
        root_counts, target = record_count.count, declared_target(schema)
        first_round = InitialRound.of(target, root_counts, schema, noise_model, root_counts.spent)
        if needs_fallback(first_round, noise_model):
            return (yield from shares_or_mean(first_round, schema, noise_model))
        if is_signal_below(first_round, noise_model, RANDOM_BOOSTING_BELOW):
            random_model = yield from GuidedForest().totally_random_model(
                first_round, schema, noise_model, rng
            )
            return replace(random_model, instead=FOREST_FALLBACK)
        grids = Grids(schema, (yield from private_bins.bins_by_count(schema, record_count)))
        if not grids.active:  # only class shares can be learned
            spent = root_counts.spent + private_bins.BINS_FRACTION
            after_bins = replace(first_round, spent=spent)
            return (yield from shares_or_mean(after_bins, schema, noise_model))
        plan, strength = self._batches(schema), signal_to_noise(record_count, len(schema.grids))
        part, of_surfaces = for_trees(strength, n_classes), Fraction(0)
        if not noise_model.is_pure and plan.fits(noise_model):
            if n_classes == 2:
                part, of_surfaces = with_surfaces(part, strength, len(schema.grids))
            else:  # its curves are not stacked
                has_trees = strength >= TREES_OF_MANY_FROM * n_classes
                part, of_surfaces = OF_MANY, Fraction(1, 1 + has_trees)
        of_trees = part * (1 - private_bins.COUNT_FRACTION)
        additive = 1 - root_counts.spent - private_bins.BINS_FRACTION - of_trees
        stacks = additive * STACK_PART if n_classes == 2 else Fraction(0)
        by, counts = Cells(grids.active, grids.binning), ClassCounts(n_classes)
        tables = yield from ask_tables(EVERYONE, counts, by, additive - stacks)
        effects = shapes(grids, tables)
        stacking = even_stacking(effects)
        if stacks:
            stacking = yield from stack(effects, grids, stacks, is_constant_free=of_surfaces > 0)
        score, noise_of_trees = effects.start(grids, stacking), list[FloatArray]()
        of_curves = effects.noise(grids, stacking)
        if of_surfaces:
            surface_model = yield from surfaces.learn_surfaces(
                effects,
                stacking,
                grids,
                of_trees * of_surfaces,
                noise_model.n_sites > 1,
                surfaces.Slope.of_classes(effects, strength),
            )
            score = surface_model.score()
            noise_of_trees = [tree.deviations for tree in surface_model.trees]
            of_curves = surface_model.curve_noise()
        if of_trees and of_surfaces < 1:
            if not of_surfaces:
                plan = replace(plan, before=plan.before - sum(surfaces.SHARED_DESCENT_ROUNDS[0]))
            rounds = Rounds(plan.sizes(noise_model), of_trees * (1 - of_surfaces))
            splitting = self._splitting(effects, stacking, grids, strength, n_classes)
            update = partial(leaves_for, n_classes)
            score, more_noise = yield from boost(rounds, splitting, update, score, rng)
            noise_of_trees += more_noise
        noise, parts = ScoreNoise.of(noise_of_trees, of_curves), effects.parts(grids)
        output = Output.SIGMOID if n_classes == 2 else Output.SOFTMAX
        return TrainingResult(Model(score, output, parts=parts, noise=noise))

    def _splitting(
        self,
        effects: FeatureEffects,
        stacking: Stacking,
        grids: Grids,
        strength: float,
        n_classes: int,
    ) -> Splitting:
        """Gain-sampled trees, deeper at a strong signal; plain ones at a weak signal."""
        features, is_strong = drawable_features(effects, stacking), strength >= DEEPER_TREES_FROM
        if is_strong or n_classes > 2:
            depth = self.max_depth + (DEEPER if is_strong else 0)
            return GainSampledTrees(grids, features, loss_for(n_classes), depth)
        return DrawnTrees(random_trees.oblivious(grids, features, self.max_depth))


def signal_to_noise(record_count: private_bins.NoisyCount, n_features: int) -> float:
    """Records per standard deviation of a count at the whole budget, per root of the features."""
    return float(record_count.records / max(record_count.deviation * np.sqrt(n_features), 1e-9))


def for_trees(strength: float, n_classes: int) -> Fraction:
    """Budget fraction of the trees: 0 below the gate, then linear in the logarithm."""
    few, plenty = TREE_GATE if n_classes == 2 else TREE_GATE_OF_MANY
    part = np.log(strength / few) / np.log(plenty / few)
    return Fraction(round(10_000 * MOST_FOR_TREES * float(np.clip(part, 0.0, 1.0))), 10_000)


def with_surfaces(part: Fraction, strength: float, columns: int) -> tuple[Fraction, Fraction]:
    """Budget fraction of surfaces and trees together, and the surfaces' part of it.

    One vector per record is asked, however many columns there are; with many columns a noisy
    Hessian hardly determines the weights of their curves. With few columns surfaces cover nearly
    all pairs, and trees find little more.
    """
    if strength < LEAST_FOR_SURFACES or strength * columns < SURFACES_FROM:
        return part, Fraction(0)
    if strength < TREES_ON_SURFACES_FROM or strength * columns < TREES_PAY_FROM:
        return Fraction(MOST_FOR_TREES), Fraction(1)
    return Fraction(MOST_FOR_TREES), Fraction(1, 2)


def drawable_features(
    effects: FeatureEffects, stacking: Stacking
) -> list[random_trees.DrawableFeature]:
    """The features with their weights: strong ones are tested more often."""
    strengths = effects.strengths * stacking.weights**2
    return [
        random_trees.DrawableFeature(feature, mass, float(np.sqrt(s)) + LEAST_CHANCE)
        for feature, mass, s in zip(effects.features, effects.masses, strengths, strict=True)
    ]


def loss_for(n_classes: int) -> Loss:
    return LogLoss() if n_classes == 2 else SoftmaxLoss(n_classes)


def leaves_for(n_classes: int, trees: int = 1) -> Wiener:
    """The leaves of trees of which `trees` share a round."""
    deviation = MANY_DEVIATION if n_classes >= MANY_CLASSES else DEVIATION
    wider = deviation * trees**BATCH_DEVIATION
    overlap = BATCH_OVERLAP if n_classes == 2 else OVERLAP_OF_MANY
    return Wiener(loss_for(n_classes), deviation=wider, overlap=overlap)


@estimator
class BoostedTreesClassifier(StagedTrees, PrivateClassifier, SmoothedBoost):
    """Gradient boosting with differential privacy, for two classes or more.

    Trains at one site, or federated over several (`site=`). The budget goes to private bins,
    one smooth curve per feature and then, if the signal is strong enough, surfaces of feature
    pairs and oblivious trees (one test per level).

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
