"""A forest in three or four rounds: structure from one noisy table, all leaves in one sum."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from hedgerow.methods.base import PrivateClassifier, PrivateRegressor
from hedgerow.methods.blocks.builder import Belief
from hedgerow.methods.blocks.calibration import (
    CALIBRATION_FRACTION,
    EDGES,
    LEVEL_ASKS,
    MAX_CALIBRATION_FRACTION,
    WEAK_CALIBRATION,
    BiasCorrection,
    ClassTotals,
    Line,
    calibrate,
)
from hedgerow.methods.blocks.fallback import bias_correction_of, needs_fallback, shares_or_mean
from hedgerow.methods.blocks.flow import Flow, NoiseModel, ask
from hedgerow.methods.blocks.guided_trees import (
    WEIGHT_FLOOR,
    feature_weights,
    guided_skeletons,
    on_last_level,
    shapes_of,
)
from hedgerow.methods.blocks.leaves import leaf_proportions
from hedgerow.methods.blocks.public_grids import fine_schema
from hedgerow.methods.blocks.random_trees import (
    RANDOM_FOREST_BELOW,
    RANDOM_TREES_BELOW,
    RANDOM_TREES_BELOW_IF_PURE,
    Gates,
    draw_trees,
    is_signal_below,
    random_depth,
)
from hedgerow.methods.blocks.scores import prefix_gains
from hedgerow.methods.blocks.screening import root_tables
from hedgerow.methods.blocks.sizes import QUERY, Scale
from hedgerow.methods.blocks.target import (
    InitialRound,
    TrainingTarget,
    initial_asks,
    initial_round,
    target_statistic,
)
from hedgerow.methods.constants import constant
from hedgerow.methods.method import Method, TrainingResult, mean_of, method
from hedgerow.methods.parameters import estimator, parameter
from hedgerow.models.model import Additive, Model, Output
from hedgerow.models.tree import Tree
from hedgerow.models.uncertainty import NoisyTree, ScoreNoise
from hedgerow.privacy.bundles import Size
from hedgerow.privacy.queries import (
    Cells,
    ClassCounts,
    Leaves,
    PredictionCells,
    QueryKinds,
    SumQuery,
    Whole,
    sums,
)
from hedgerow.schema.arrays import FloatArray, Rng
from hedgerow.schema.regions import EVERYONE
from hedgerow.schema.rules import or_none, whole
from hedgerow.schema.schema import Schema

FOREST_BINS = constant(16, unit="bins of a feature in the tables that guide trees")
TRIES = constant(4, unit="draws of a test at a node")
SCREEN_FROM = constant(300.0, unit="signal", evidence="forests.md#0064")
"""Signal from which columns that look like noise are excluded."""
NOISE_PENALTY = constant(2.0, unit="times the gain", evidence="forests.md#0064")
"""Multiple of the gain of pure noise that is subtracted from a feature's gains."""
WEAK_PENALTY = constant(0.5, unit="times the gain", evidence="forests.md#0064")
"""The same at a weak signal, where the larger one would leave nothing."""
LEAST_DEPTH = constant(3, unit="levels of a tree, at least")
MOST_FOREST_DEPTH = constant(10, unit="levels of a tree, at most", evidence="gates.md#0138")
MOST_FOREST_TREES = constant(48, unit="trees", evidence="gates.md#0062")
MOST_LEAF_NOISE = constant(0.1, unit="part of a tree's rows", evidence="gates.md#0138")
"""Largest noise of all leaves of a tree, relative to its rows."""
RANDOM_TREE_COUNT = constant(4, unit="trees of a totally random forest", evidence="gates.md#0155")


FOREST_FALLBACK = (
    "the signal is too weak against the noise for boosted trees: the model is a forest. Ask with a "
    "larger epsilon, more records or fewer columns for boosting."
)


@dataclass(frozen=True)
class ForestConstants:
    """Settings that follow from the noisy signal-to-noise ratio alone."""

    n_estimators: int
    depth: int
    root_fraction: Fraction
    cells: int
    sharpness: float
    screens: bool


def forest_constants(signal: float, is_pure: bool) -> ForestConstants:
    shallow, deep = (100, 1000) if is_pure else (30, 300)
    n_estimators = (
        MOST_FOREST_TREES if not is_pure and signal >= 30 else 8 if is_pure and signal < 30 else 16
    )
    return ForestConstants(
        n_estimators=n_estimators,
        depth=6 if signal < shallow else 8 if signal < deep else 10,
        root_fraction=Fraction(1, 2) if is_pure and 30 <= signal < 300 else Fraction(3, 10),
        cells=16 if signal < 30 else 64 if signal < 1000 else 256,
        sharpness=1.0 if signal < 30 else 1.5,
        screens=signal >= SCREEN_FROM,
    )


@dataclass(frozen=True)
class LeafReports:
    """A tree, its leaves' proportions (L, C), and the deviations of their noise."""

    tree: Tree
    p: FloatArray
    deviations: FloatArray


@method("forest", test_settings=({"n_estimators": 3, "max_depth": 3},))
class GuidedForest(Method):
    """All rows in all trees; a record is in one leaf of each, so T trees cost T together.

    | round | asked                                        | fraction of the budget           |
    |-------|----------------------------------------------|----------------------------------|
    | 1     | number of rows (and the target's counts at five widths) | 1 % (and 4 %)         |
    | 2     | class tables of all features on a coarse grid | 30 % (pure, medium signal: 50 %)  |
    | 3     | class counts of the leaves of all trees      | all the rest                     |
    | 4     | two classes: class counts by score           | 3 % (rare, weak: up to 10 %)     |
    | 4     | numbers: the sum of the residuals            | 1 to 10 %, by the noise          |

    Classes: trees multiply their odds against the prior, to the power sharpness / trees; for two
    classes round 4 gives the sharpness and the shift. Regression: trees are averaged, and round 4
    corrects the bias of clipping the target. If the table of round 2 is below the noise, trees are
    totally random and their leaves get the rest; if those are too, the model is the class shares or
    the mean.
    """

    n_estimators: int | None = parameter(
        default=None,
        rule=or_none(whole(1)),
        text="Trees; None is 8, 16 or 48, depending on the noisy signal-to-noise ratio.",
    )
    max_depth: int | None = parameter(
        default=None,
        rule=or_none(whole(1)),
        text="Levels of splits; None is 6, 8 or 10, depending on the noisy signal-to-noise ratio.",
    )

    def asks(self, schema: Schema) -> QueryKinds:
        calibration = sums(ClassCounts, PredictionCells) if is_calibrated(schema) else frozenset()
        bias_correction = LEVEL_ASKS if schema.target is not None else frozenset()
        trees = sums(target_statistic(schema), Cells, Leaves, Whole)
        return initial_asks(schema) | trees | calibration | bias_correction

    def grid(self, schema: Schema) -> Schema:
        return fine_schema(schema)

    def largest(self, schema: Schema) -> Size:
        scale = Scale(schema)
        n_estimators = self.n_estimators or MOST_FOREST_TREES
        leaves, channels = scale.leaves(self.max_depth or MOST_FOREST_DEPTH), scale.channels
        size = scale.initial_round() + scale.tables(channels=channels)
        tests = scale.tests(FOREST_BINS)
        size += scale.trees(n_estimators, leaves, channels=channels, tests=tests)
        if len(schema.classes or ()) > 2:
            return size
        model = scale.model_bytes(n_estimators, leaves, 1, tests)
        return size + Size.of_step(integers=channels * (len(EDGES) + 1), bytes=QUERY + model)

    def flow(self, schema: Schema, noise_model: NoiseModel, rng: Rng) -> Flow[TrainingResult]:
        first_round = yield from initial_round(schema, noise_model)
        return (yield from self.grow_from(first_round, schema, noise_model, rng))

    def grow_from(
        self, first_round: InitialRound, schema: Schema, noise_model: NoiseModel, rng: Rng
    ) -> Flow[TrainingResult]:
        """Trains the forest after the first round."""
        if needs_fallback(first_round, noise_model):
            return (yield from shares_or_mean(first_round, schema, noise_model))
        if is_signal_below(
            first_round,
            noise_model,
            Gates(RANDOM_TREES_BELOW, RANDOM_FOREST_BELOW, RANDOM_TREES_BELOW_IF_PURE),
        ):
            return (yield from self.totally_random_model(first_round, schema, noise_model, rng))
        constants = forest_constants(first_round.signal, noise_model.is_pure)
        target, n_estimators = first_round.target, self.n_estimators or constants.n_estimators
        fraction = (1 - first_round.spent) * constants.root_fraction
        leaves_fraction = 1 - first_round.spent - fraction
        depth = self.max_depth or min(
            constants.depth, deepest(first_round, leaves_fraction / n_estimators, noise_model)
        )
        grids, belief = yield from root_tables(
            schema, target, fraction, constants.cells, FOREST_BINS
        )
        weights = root_weights(belief, constants.screens)
        skeletons = guided_skeletons(belief, weights, n_estimators, depth, TRIES, rng)
        shapes = shapes_of(skeletons, grids)
        by = Leaves(tuple(shape.tree for shape in shapes))
        bias_correction = bias_correction_of(first_round, schema, noise_model)
        totals = ClassTotals(belief.totals, belief.total_variance)
        at_the_end = bias_correction.fraction if bias_correction else Fraction(0)
        if is_calibrated(schema):
            at_the_end = calibration_fraction(first_round.signal, totals)
        rest = 1 - first_round.spent - fraction - at_the_end
        answer = yield from ask(SumQuery(EVERYONE, target.statistic, by, rest))
        prior = belief.totals / belief.totals.sum()
        leaves = on_last_level(shapes, answer.values, depth)
        proportions = leaf_proportions(target, leaves, answer.variance, prior)
        leaf_reports = [
            LeafReports(s.tree, p[s.leaf_at], deviations[s.leaf_at])
            for s, p, deviations in zip(shapes, *proportions, strict=True)
        ]
        if is_calibrated(schema):
            return TrainingResult(
                (
                    yield from _calibrated_model(
                        leaf_reports, totals, constants.sharpness, at_the_end
                    )
                )
            )
        if bias_correction:
            return TrainingResult(
                (yield from _bias_corrected_model(leaf_reports, target, bias_correction))
            )
        return TrainingResult(_votes(leaf_reports, prior, constants.sharpness))

    def totally_random_model(
        self, first_round: InitialRound, schema: Schema, noise_model: NoiseModel, rng: Rng
    ) -> Flow[TrainingResult]:
        """A totally random forest, where the table of round 2 is below the noise."""
        n_estimators = self.n_estimators or RANDOM_TREE_COUNT
        depth = self.max_depth or random_depth(first_round)
        rest = 1 - first_round.spent
        statistics = yield from draw_trees(
            schema, first_round.target, n_estimators, depth, rest, rng
        )
        return TrainingResult(mean_of([part.tree for part in statistics]), tuple(statistics))


def deepest(first_round: InitialRound, fraction: Fraction, noise_model: NoiseModel) -> int:
    """The depth at which the total noise of a tree's leaves is still small relative to its rows.

    Regression estimates go from the root down, and a node's sum has the noise of every leaf below
    it. With few columns the signal is strong and does not show that. Classes have no such limit.
    """
    if first_round.target.shape is None:
        return MOST_FOREST_DEPTH
    total = SumQuery(EVERYONE, first_round.target.statistic, Whole(), fraction)
    noise = np.sqrt(first_round.target.channels * noise_model.variance(total))
    ratio = MOST_LEAF_NOISE * first_round.rows / max(float(noise), 1e-12)
    return int(np.clip(2.0 * np.log2(ratio), LEAST_DEPTH, MOST_FOREST_DEPTH))


def root_weights(belief: Belief, screens: bool) -> FloatArray:
    """Probabilities of the features, from their noise-penalized gains at the root.

    Features without a gain get a floor. If columns of noise are to be excluded, all floors together
    are at most the best feature's weight.
    """
    gains = prefix_gains(
        belief.masses,
        belief.variances,
        belief.totals,
        penalty=NOISE_PENALTY if screens else WEAK_PENALTY,
        least=5.0,
        deviations=1.0,
    )
    floor = min(WEIGHT_FLOOR, 1.0 / len(gains)) if screens else WEIGHT_FLOOR
    return feature_weights(gains.max(axis=1), floor)


def is_calibrated(schema: Schema) -> bool:
    """Whether a round is spent on calibration: for two classes."""
    return len(schema.classes or ()) == 2


def calibration_fraction(signal: float, totals: ClassTotals) -> Fraction:
    """Budget fraction of calibration: more if the noise is strong and a class rare.

    With p the second class's fraction of n rows, noise moves the log-odds by its deviation over n p
    (1 - p). The precision of even classes takes 1 / (4 p (1 - p))^2 times the fraction. Noise may
    make a class seem rare, so each count is raised by one deviation.
    """
    if signal >= WEAK_CALIBRATION:
        return CALIBRATION_FRACTION
    likely = totals.masses + np.sqrt(totals.variance)
    p = float(likely[1] / likely.sum())
    times = Fraction(round(100.0 * (4.0 * p * (1.0 - p)) ** -2), 100)
    return min(CALIBRATION_FRACTION * times, MAX_CALIBRATION_FRACTION)


def _calibrated_model(
    reports: list[LeafReports], totals: ClassTotals, sharpness: float, fraction: Fraction
) -> Flow[Model]:
    """Two classes: the mean log-odds against the prior, calibrated by a line."""
    base = float(np.log(totals.masses[1] / totals.masses[0]))
    odds = [_log_odds(report, base).scale(1.0 / len(reports)) for report in reports]
    mean = Additive((0.0,), trees=tuple(tree.tree for tree in odds))
    line = yield from calibrate(mean, Line(base, sharpness), totals, fraction)
    scaled_trees = [tree.scale(line.slope) for tree in odds]
    noise = ScoreNoise.of([tree.deviations for tree in scaled_trees], common=line.slope_noise)
    trees = tuple(tree.tree for tree in scaled_trees)
    return Model(Additive((line.shift,), trees=trees), Output.SIGMOID, noise=noise)


def _log_odds(report: LeafReports, base: float) -> NoisyTree:
    """Log-odds of the second class, and their deviations by the noise of both classes."""
    odds = np.log(report.p[:, 1:] / report.p[:, :1]) - base
    deviations = np.log1p(report.deviations / report.p).sum(axis=1, keepdims=True)
    return NoisyTree(report.tree.with_values(odds), deviations)


def _bias_corrected_model(
    reports: list[LeafReports], target: TrainingTarget, bias_correction: BiasCorrection
) -> Flow[Model]:
    """Regression: the mean of the trees, corrected for the bias of clipping."""
    means = [report.tree.with_values(target.value(report.p)) for report in reports]
    parts = tuple(tree.with_values(tree.values / len(reports)) for tree in means)
    shift = yield from bias_correction.shift(Additive((0.0,), trees=parts))
    noise = ScoreNoise.of([target.deviations(report.deviations) for report in reports])
    return mean_of([tree.with_values(tree.values + shift) for tree in means], noise)


def _votes(reports: list[LeafReports], prior: FloatArray, sharpness: float) -> Model:
    base = np.log(prior)
    odds = tuple(report.tree.with_values(np.log(report.p) - base) for report in reports)
    noise = ScoreNoise.of([np.log1p(report.deviations / report.p) for report in reports])
    score = Additive(tuple(base.tolist()), trees=odds)
    return Model(score, Output.LOG_MEAN, sharpness, noise=noise)


@estimator
class ForestClassifier(PrivateClassifier, GuidedForest):
    """A random forest with differential privacy, in three or four rounds.

    The structure comes from one noisy table, and all leaves from one sum. For two classes a last
    round calibrates the probabilities. Few rounds matter where sites are far apart: in the example
    two sites train one forest together.

    Examples
    --------
    >>> import hedgerow as hr
    >>> columns = (hr.Numeric("age", 0, 100), hr.Numeric("dose", 0, 10))
    >>> schema = hr.Schema(columns, classes=("no", "yes"))
    >>> X = [[20, 1], [30, 2], [70, 8], [80, 9]] * 500
    >>> y = ["no", "no", "yes", "yes"] * 500
    >>> site = ["Basel", "Bern"] * 1000
    >>> model = hr.ForestClassifier(schema, epsilon=10.0, random_state=0).fit(X, y, site=site)
    >>> model.predict([[25, 1], [75, 9]])
    array(['no', 'yes'], dtype='<U3')
    >>> len(model.run_.rounds)
    4

    """


@estimator
class ForestRegressor(PrivateRegressor, GuidedForest):
    """A random forest with differential privacy for a numeric target; see ForestClassifier.

    Examples
    --------
    >>> import hedgerow as hr
    >>> columns = (hr.Numeric("age", 0, 100), hr.Numeric("dose", 0, 10))
    >>> schema = hr.Schema(columns, target=hr.Target(0, 100))
    >>> X = [[20, 1], [30, 2], [70, 8], [80, 9]] * 500
    >>> y = [10, 20, 80, 90] * 500
    >>> model = hr.ForestRegressor(schema, epsilon=10.0, random_state=0).fit(X, y)
    >>> low, high = model.predict([[20, 1], [80, 9]])
    >>> bool(low < high)
    True

    """
