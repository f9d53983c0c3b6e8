"""A forest in three or four rounds: structure from one noisy table, all leaves in one sum."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from hedgerow.methods.base import PrivateClassifier, PrivateRegressor
from hedgerow.methods.blocks.builder import Belief
from hedgerow.methods.blocks.fallback import (
    LEVEL_ASKS,
    BiasCorrection,
    bias_correction_of,
    needs_fallback,
    shares_or_mean,
)
from hedgerow.methods.blocks.flow import Flow, NoiseModel, ask
from hedgerow.methods.blocks.leaves import leaf_proportions
from hedgerow.methods.blocks.public_grids import fine_schema
from hedgerow.methods.blocks.random_trees import (
    RANDOM_FOREST_BELOW,
    draw_trees,
    is_signal_below,
    random_depth,
)
from hedgerow.methods.blocks.scores import TINY, prefix_gains
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
from hedgerow.models.losses import sigmoid
from hedgerow.models.model import Additive, Model, Output
from hedgerow.models.tree import Tree
from hedgerow.models.uncertainty import NoisyTree, ScoreNoise
from hedgerow.privacy.bundles import Size
from hedgerow.privacy.queries import (
    Answer,
    Cells,
    ClassCounts,
    Leaves,
    PredictionCells,
    QueryKinds,
    SumQuery,
    Whole,
    sums,
)
from hedgerow.schema.arrays import BoolArray, FloatArray, IntArray, Rng, canonical
from hedgerow.schema.candidates import Grids
from hedgerow.schema.regions import EVERYONE, Split
from hedgerow.schema.rules import or_none, whole
from hedgerow.schema.schema import Schema

WEIGHT_FLOOR = constant(0.1, unit="part of a weight", evidence="forests.md#0064")
"""Smallest weight of a feature, relative to the best, so that every feature may be drawn."""
CALIBRATION_FRACTION = constant(
    Fraction(3, 100), unit="part of the budget", evidence="forests.md#0064"
)
"""Fraction of the budget for the table of scores."""
MAX_CALIBRATION_FRACTION = constant(
    Fraction(1, 10), unit="largest fraction that a rare class may get", evidence="forests.md#0153"
)
WEAK_CALIBRATION = constant(100.0, unit="signal", evidence="forests.md#0153")
"""Signal below which a rare class gets more."""
SIDE = constant(
    (0.05, 0.1, 0.2, 0.3, 0.45, 0.6, 0.8, 1.0, 1.3, 1.6, 2.0, 2.5, 3.0, 4.0),
    unit="score",
    evidence="forests.md#0064",
)
"""Interval ends of the score, mirrored at 0."""
EXPECTED_ERROR = constant(0.5, unit="deviation of shift and slope from what is expected before")
STANDS_OUT = constant(3.0, unit="deviations of its noise that an interval's count must exceed")
LINE_STEPS = constant(12, unit="Newton steps of the fit of the line")
EDGES = (*(-e for e in reversed(SIDE)), 0.0, *SIDE)
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
        if is_signal_below(first_round, noise_model, RANDOM_FOREST_BELOW):
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
        reports = [
            NoisyTree(shape.tree.with_values(p[shape.leaf_at]), deviations[shape.leaf_at])
            for shape, p, deviations in zip(shapes, *proportions, strict=True)
        ]
        if bias_correction:
            model = yield from _bias_corrected_model(reports, target, bias_correction)
        elif is_calibrated(schema):
            sharpness = constants.sharpness
            model = yield from _calibrated_model(reports, totals, sharpness, at_the_end)
        else:
            model = _votes(reports, prior, constants.sharpness)
        return TrainingResult(model)

    def totally_random_model(
        self, first_round: InitialRound, schema: Schema, noise_model: NoiseModel, rng: Rng
    ) -> Flow[TrainingResult]:
        """A totally random forest, where the table of round 2 is below the noise."""
        n_estimators = self.n_estimators or RANDOM_TREE_COUNT
        depth = self.max_depth or random_depth(first_round)
        target, rest = first_round.target, 1 - first_round.spent
        statistics = yield from draw_trees(schema, target, n_estimators, depth, rest, rng)
        return TrainingResult(mean_of([part.tree for part in statistics]), tuple(statistics))


# Many complete trees from the root tables alone: no further query, no further charge. Extremely
# randomized trees (Geurts et al. 2006) whose candidates are scored from the root tables: a node
# carries its expected class totals and treats features as independent within a class (naive Bayes).
# Randomness is public. Nodes are in heap order: the children of v are 2 v + 1 and 2 v + 2.
#
# Shapes: T trees, M nodes of one level of all trees, F features, B bins, C channels.

NO_SPLIT = -1


@dataclass(frozen=True)
class Skeletons:
    """Complete trees of one depth: the feature of each inner node, and its last bin sent left."""

    feature: IntArray  # (T, 2^depth - 1), NO_SPLIT where no feature has two bins left
    cut: IntArray
    depth: int


@dataclass(frozen=True)
class Shape:
    """A tree without values, and the heap index of each of its leaves from the left."""

    tree: Tree
    leaf_at: IntArray


def guided_skeletons(
    belief: Belief, weights: FloatArray, n_estimators: int, depth: int, tries: int, rng: Rng
) -> Skeletons:
    """Each node draws `tries` features with a random cut each, and keeps the best."""
    below = np.cumsum(np.maximum(belief.masses, 0.0) + 1.0, axis=1)
    below = np.pad(below, ((0, 0), (1, 0), (0, 0)))  # (F, B + 1, C) mass before each bin
    level = _Level(
        np.zeros((n_estimators, len(weights)), np.int64),
        np.tile(belief.possible.sum(axis=1) - 1, (n_estimators, 1)),
        np.tile(belief.totals, (n_estimators, 1)),
    )
    features, cuts = [], []
    for _ in range(depth):
        chosen = _best_of(level, below, weights, tries, rng)
        features.append(chosen.feature.reshape(n_estimators, -1))
        cuts.append(chosen.cut.reshape(n_estimators, -1))
        level = _children(level, chosen)
    return Skeletons(np.concatenate(features, axis=1), np.concatenate(cuts, axis=1), depth)


@dataclass(frozen=True)
class _Level:
    """The nodes of one level: first and last possible bin, and expected class totals."""

    first: IntArray  # (M, F)
    last: IntArray
    totals: FloatArray  # (M, C)


@dataclass(frozen=True)
class _Chosen:
    feature: IntArray  # (M,)
    cut: IntArray
    left: FloatArray  # (M, C) expected totals of the left child


def _best_of(
    level: _Level, below: FloatArray, weights: FloatArray, tries: int, rng: Rng
) -> _Chosen:
    chances = np.cumsum(weights * (level.last > level.first), axis=1)
    best = np.full(len(chances), -1.0)
    feature, cut = np.full(len(chances), NO_SPLIT), np.zeros(len(chances), np.int64)
    left, nodes = level.totals.copy(), np.arange(len(chances))
    for _ in range(tries):
        feature_index, at = _draw(level, chances, rng)
        first, last = level.first[nodes, feature_index], level.last[nodes, feature_index]
        start = below[feature_index, first]
        parts = (below[feature_index, at + 1] - start) / (below[feature_index, last + 1] - start)
        left_masses = level.totals * parts  # of each class, the part below the cut at the root
        gain = np.where(
            chances[:, -1] > 0.0, _purity(left_masses) + _purity(level.totals - left_masses), -1.0
        )
        better = gain > best
        best = np.where(better, gain, best)
        feature, cut = np.where(better, feature_index, feature), np.where(better, at, cut)
        left = np.where(better[:, None], left_masses, left)
    return _Chosen(feature, cut, left)


def _draw(level: _Level, chances: FloatArray, rng: Rng) -> tuple[IntArray, IntArray]:
    """For each node, a feature with at least two possible bins, and one of its cuts."""
    nodes = np.arange(len(chances))
    x = rng.random(len(chances)) * chances[:, -1]
    feature_index = np.minimum((chances <= x[:, None]).sum(axis=1), chances.shape[1] - 1)
    first, last = level.first[nodes, feature_index], level.last[nodes, feature_index]
    return feature_index, first + (rng.random(len(chances)) * (last - first)).astype(np.int64)


def _purity(masses: FloatArray) -> FloatArray:
    return np.asarray((masses**2).sum(axis=1) / (masses.sum(axis=1) + TINY))


def _children(level: _Level, chosen: _Chosen) -> _Level:
    """The children of each node, adjacent. Where nothing splits, all rows go left."""
    first, last = np.repeat(level.first, 2, axis=0), np.repeat(level.last, 2, axis=0)
    split = np.flatnonzero(chosen.feature != NO_SPLIT)
    last[2 * split, chosen.feature[split]] = chosen.cut[split]
    first[2 * split + 1, chosen.feature[split]] = chosen.cut[split] + 1
    totals = np.repeat(chosen.left, 2, axis=0)
    totals[1::2] = level.totals - chosen.left
    return _Level(first, last, totals)


def shapes_of(skeletons: Skeletons, grids: Grids) -> list[Shape]:
    """The trees; a node that cannot split is a leaf."""
    splits: dict[tuple[int, int], Split] = {}
    n_bins = max(grids.binning.n_bins)

    def split(feature: int, cut: int) -> Split:
        if (feature, cut) not in splits:
            splits[feature, cut] = grids.split(feature, np.arange(n_bins) <= cut)
        return splits[feature, cut]

    shapes = []
    for feature, cut in zip(skeletons.feature.tolist(), skeletons.cut.tolist(), strict=True):
        nodes: list[Split | tuple[float, ...]] = []
        leaf_at, waiting = [], [0]
        while waiting:
            v = waiting.pop()
            if v < len(feature) and feature[v] != NO_SPLIT:
                nodes.append(split(feature[v], cut[v]))
                waiting += [2 * v + 2, 2 * v + 1]
            else:
                nodes.append(())
                leaf_at.append(v)
        tree = Tree.of_preorder(grids.schema.names, nodes)
        shapes.append(Shape(tree, np.asarray(leaf_at)))
    return shapes


def on_last_level(shapes: list[Shape], sums: FloatArray, depth: int) -> FloatArray:
    """(T, 2^depth, C) leaf sums (T, L, C) placed in complete trees.

    A leaf above the last level is represented by its leftmost descendant; the others are 0.
    """
    out = np.zeros((len(shapes), 2**depth, sums.shape[2]))
    for row, shape, mine in zip(out, shapes, sums, strict=True):
        height = depth - np.floor(np.log2(shape.leaf_at + 1)).astype(np.int64)
        place = (shape.leaf_at + 1) * 2**height - 2**depth
        row[place] = mine[: len(place)]
    return out


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
    """(F,) probabilities of the features, from their best noise-penalized gains at the root.

    Features without a gain get a floor. If columns of noise are to be excluded, all floors together
    are at most the best feature's weight.
    """
    penalty = NOISE_PENALTY if screens else WEAK_PENALTY
    tables = belief.masses, belief.variances, belief.totals
    gains = prefix_gains(*tables, penalty=penalty, least=5.0, deviations=1.0)
    floor = min(WEIGHT_FLOOR, 1.0 / len(gains)) if screens else WEIGHT_FLOOR
    return feature_weights(gains.max(axis=1), floor)


def feature_weights(best_gains: FloatArray, floor: float = WEIGHT_FLOOR) -> FloatArray:
    gains = np.maximum(best_gains, 0.0)
    top = float(gains.max())
    return np.sqrt(gains / top if top > 0.0 else np.ones(len(gains))) + floor


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


# Calibrated probabilities: a line through the scores of two classes (Platt), from one noisy table.
# Trees that share evidence may be overconfident or underconfident together, depending on the data.
# One round counts the records of each class in intervals of the score, a table with sensitivity 1,
# and the log-odds become shift + slope * score (Platt 1999). The fit accounts for the noise in the
# table. The line is shrunk towards a prior line, so that pure noise changes nothing; the
# probabilities are fitted to add up to the number of records of the second class by earlier
# answers, for which only the rows per interval are needed. Shapes: B intervals of the score.


@dataclass(frozen=True)
class Line:
    """Log-odds of the second class are shift + slope * score.

    `slope_noise` is the relative deviation of the noise in the slope.
    """

    shift: float
    slope: float
    slope_noise: float = 0.0


@dataclass(frozen=True)
class ClassTotals:
    """(2,) records of each class by earlier answers, and the variance of each."""

    masses: FloatArray
    variance: float


def fit_line(answer: Answer, prior_line: Line, totals: ClassTotals) -> Line:
    """Gauss-Newton steps on the hits of each interval, weighted by their noise and sampling
    variance.

    With p the probability under the current line, h - p n has slope n p (1 - p) and a variance of
    that plus the noise of n and h in it. Intervals below the noise have no weight. One more
    equation covers all intervals: the known number of hits less the sum of p n, in which the noise
    of n is small if the class is rare. It has no weight if all rows together are below the noise.
    """
    counts = answer.values[0]  # (B, 2)
    rows, hits = counts.sum(axis=1), counts[:, 1]
    everyone = rows if _stands_out(totals.masses.sum(), len(rows), answer) else np.zeros_like(rows)
    rows = np.where(_stands_out(rows, 1, answer), rows, 0.0)
    columns = np.stack([np.ones(len(rows)), _middles()], axis=1)
    prior = np.array([prior_line.shift, prior_line.slope])
    line, pull = prior.copy(), np.eye(2) / EXPECTED_ERROR**2
    for _ in range(LINE_STEPS):
        p = sigmoid(columns @ line)
        cell_slopes, total = rows * p * (1.0 - p), everyone * p * (1.0 - p)
        noise = answer.variance * np.append((1.0 - p) ** 2 + p**2, 2.0 * (p**2).sum())
        noise[-1] += totals.variance
        spread = np.append(cell_slopes, max(float(total.sum()), 0.0)) + noise + 1e-9
        jacobian = np.vstack([cell_slopes[:, None] * columns, total @ columns])  # (B + 1, 2)
        residuals = np.append(hits - p * rows, totals.masses[1] - p @ everyone)
        curvature = jacobian.T @ (jacobian / spread[:, None]) + pull
        gradient = jacobian.T @ (residuals / spread) - pull @ (line - prior)
        line = line + np.clip(np.linalg.solve(curvature, gradient), -0.5, 0.5)
    slope_noise = np.sqrt(
        np.linalg.solve(curvature, (jacobian / spread[:, None]).T)[1] ** 2 @ noise
    )
    shift, steep = canonical([line[0], max(line[1], 0.0)]).tolist()
    return Line(shift, steep, float(canonical(slope_noise / steep)) if steep else 0.0)


def _stands_out(rows: FloatArray, intervals: int, answer: Answer) -> BoolArray:
    """Whether `rows` exceed the noise of this many intervals of both classes."""
    return np.asarray(rows > STANDS_OUT * np.sqrt(2.0 * intervals * answer.variance))


def _middles() -> FloatArray:
    """Midpoints of the intervals; the outer ones are as wide as their neighbors."""
    edges = np.array(EDGES)
    ends = np.concatenate([[2 * edges[0] - edges[1]], edges, [2 * edges[-1] - edges[-2]]])
    return np.asarray((ends[:-1] + ends[1:]) / 2.0)


def _calibrated_model(
    reports: list[NoisyTree], totals: ClassTotals, sharpness: float, fraction: Fraction
) -> Flow[Model]:
    """Two classes: the mean log-odds against the prior, calibrated by a line."""
    base = float(np.log(totals.masses[1] / totals.masses[0]))
    odds = []
    for report in reports:
        p, of_classes = report.tree.values, np.log1p(report.deviations / report.tree.values)
        own = report.tree.with_values(np.log(p[:, 1:] / p[:, :1]) - base)
        noisy = NoisyTree(own, of_classes.sum(axis=1, keepdims=True))
        odds.append(noisy.scale(1.0 / len(reports)))
    mean = Additive((0.0,), trees=tuple(tree.tree for tree in odds))
    by = PredictionCells(mean, EDGES)
    answer = yield from ask(SumQuery(EVERYONE, ClassCounts(2), by, fraction))
    line = fit_line(answer, Line(base, sharpness), totals)
    scaled_trees = [tree.scale(line.slope) for tree in odds]
    noise = ScoreNoise.of([tree.deviations for tree in scaled_trees], common=line.slope_noise)
    trees = tuple(tree.tree for tree in scaled_trees)
    return Model(Additive((line.shift,), trees=trees), Output.SIGMOID, noise=noise)


def _bias_corrected_model(
    reports: list[NoisyTree], target: TrainingTarget, bias_correction: BiasCorrection
) -> Flow[Model]:
    """Regression: the mean of the trees, corrected for the bias of clipping."""
    means = [report.tree.with_values(target.value(report.tree.values)) for report in reports]
    parts = tuple(tree.with_values(tree.values / len(reports)) for tree in means)
    shift = yield from bias_correction.shift(Additive((0.0,), trees=parts))
    noise = ScoreNoise.of([target.deviations(report.deviations) for report in reports])
    return mean_of([tree.with_values(tree.values + shift) for tree in means], noise)


def _votes(reports: list[NoisyTree], prior: FloatArray, sharpness: float) -> Model:
    base = np.log(prior)
    odds = tuple(r.tree.with_values(np.log(r.tree.values) - base) for r in reports)
    noise = ScoreNoise.of([np.log1p(r.deviations / r.tree.values) for r in reports])
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
