"""A forest in three or four rounds: structure from one noisy table, all leaves in one sum."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from hedgerow.methods.base import PrivateClassifier, PrivateRegressor
from hedgerow.methods.blocks.builder import Belief
from hedgerow.methods.blocks.calibration import (
    CALIBRATION_SHARE,
    EDGES,
    LEVEL_ASKS,
    MOST_CALIBRATION_SHARE,
    WEAK_CALIBRATION,
    ClassTotals,
    Levelling,
    Line,
    calibrated,
)
from hedgerow.methods.blocks.fallback import is_harmful, levelling_of, shares_or_mean
from hedgerow.methods.blocks.flow import Flow, Quote, ask
from hedgerow.methods.blocks.goal import Goal, Opening, goal_statistic, opening, opening_asks
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
    HOPELESS,
    HOPELESS_FOR_FORESTS,
    HOPELESS_IF_PURE,
    Gates,
    blind_depth,
    drawn_trees,
    is_hopeless,
)
from hedgerow.methods.blocks.scores import prefix_gains
from hedgerow.methods.blocks.screening import root_tables
from hedgerow.methods.blocks.sizes import QUERY, Scale
from hedgerow.methods.method import Method, Trained, mean_of, method
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
from hedgerow.schema.arrays import FloatArray
from hedgerow.schema.regions import EVERYONE
from hedgerow.schema.rules import or_none, whole
from hedgerow.schema.schema import Schema

FOREST_BINS = 16
TRIES = 4
SCREEN_FROM = 300.0  # signal from which columns that look like noise are kept out
NOISE_PENALTY, WEAK_PENALTY = 2.0, 0.5
"""Times the gain that noise alone would show, taken off a feature's gains before its chances are
made. Where the signal is weak the larger one would leave nothing to go by."""
LEAST_DEPTH, MOST_DEPTH = 3, 10
MOST_TREES = 48
MOST_LEAF_NOISE = 0.1
"""Part of a tree's rows that the noise of all its leaves may be: a number's trees end there."""
BLIND_TREES = 4  # of a forest that is drawn without looking


FOREST_INSTEAD = (
    "the signal is too weak against the noise for boosted trees: the model is a forest. Ask with a "
    "larger epsilon, more records or fewer columns for boosting."
)


@dataclass(frozen=True)
class ForestConstants:
    """What follows from the noisy signal-to-noise ratio alone."""

    n_trees: int
    depth: int
    root_share: Fraction
    cells: int
    sharpness: float
    screens: bool


def forest_constants(signal: float, is_pure: bool) -> ForestConstants:
    shallow, deep = (100, 1000) if is_pure else (30, 300)
    n_trees = MOST_TREES if not is_pure and signal >= 30 else 8 if is_pure and signal < 30 else 16
    return ForestConstants(
        n_trees=n_trees,
        depth=6 if signal < shallow else 8 if signal < deep else 10,
        root_share=Fraction(1, 2) if is_pure and 30 <= signal < 300 else Fraction(3, 10),
        cells=16 if signal < 30 else 64 if signal < 1000 else 256,
        sharpness=1.0 if signal < 30 else 1.5,
        screens=signal >= SCREEN_FROM,
    )


@dataclass(frozen=True)
class SaidOfLeaves:
    """A tree, its leaves' proportions (L, C), and the deviations of their noise."""

    tree: Tree
    p: FloatArray
    moved: FloatArray


@method("forest", tried=({"n_trees": 3, "max_depth": 3},))
class GuidedForest(Method):
    """All rows in all trees; a record is in one leaf of each, so T trees cost T together.

    | round | asked                                        | share of the budget              |
    |-------|----------------------------------------------|----------------------------------|
    | 1     | number of rows (and the target's counts at five widths) | 1 % (and 4 %)         |
    | 2     | class tables of all features on a thinned grid | 30 % (pure, middling signal: 50 %) |
    | 3     | class counts of the leaves of all trees      | all the rest                     |
    | 4     | two classes: class counts by score           | 3 % (rare, weak: up to 10 %)     |
    | 4     | numbers: the sum of what the trees miss      | 1 to 10 %, by the noise          |

    Classes: trees multiply their odds against the prior, to the power sharpness / trees; for two
    classes round 4 tells the sharpness, and how far the whole is off. Numbers: trees are averaged,
    and round 4 gives back what the clip of the target cut away.
    Where noise hides even the table of round 2, trees are drawn blindly and their leaves get all;
    where it hides those too, the model is the classes' shares or the mean.
    """

    n_trees: int | None = parameter(
        default=None,
        rule=or_none(whole(1)),
        text="Trees; None is 8, 16 or 48, by the noisy signal-to-noise ratio.",
    )
    max_depth: int | None = parameter(
        default=None,
        rule=or_none(whole(1)),
        text="Levels of splits; None is 6, 8 or 10, by the noisy signal-to-noise ratio.",
    )

    def asks(self, schema: Schema) -> QueryKinds:
        calibration = sums(ClassCounts, PredictionCells) if is_calibrated(schema) else frozenset()
        levelling = LEVEL_ASKS if schema.target is not None else frozenset()
        trees = sums(goal_statistic(schema), Cells, Leaves, Whole)
        return opening_asks(schema) | trees | calibration | levelling

    def grid(self, schema: Schema) -> Schema:
        return fine_schema(schema)

    def largest(self, schema: Schema) -> Size:
        scale = Scale(schema)
        n_trees = self.n_trees or MOST_TREES
        leaves, channels = scale.leaves(self.max_depth or MOST_DEPTH), scale.channels
        size = scale.opening() + scale.tables(channels=channels)
        tests = scale.tests(FOREST_BINS)
        size += scale.trees(n_trees, leaves, channels=channels, tests=tests)
        if len(schema.classes or ()) > 2:
            return size
        model = scale.model_bytes(n_trees, leaves, 1, tests)
        return size + Size.of_step(integers=channels * (len(EDGES) + 1), bytes=QUERY + model)

    def flow(self, schema: Schema, quote: Quote, rng: np.random.Generator) -> Flow[Trained]:
        opened = yield from opening(schema, quote)
        return (yield from self.grown(opened, schema, quote, rng))

    def grown(
        self, opened: Opening, schema: Schema, quote: Quote, rng: np.random.Generator
    ) -> Flow[Trained]:
        """All that follows the first round."""
        if is_harmful(opened, quote):
            return (yield from shares_or_mean(opened, schema, quote))
        if is_hopeless(opened, quote, Gates(HOPELESS, HOPELESS_FOR_FORESTS, HOPELESS_IF_PURE)):
            return (yield from self.drawn_blindly(opened, schema, quote, rng))
        constants = forest_constants(opened.signal, quote.is_pure)
        goal, n_trees = opened.goal, self.n_trees or constants.n_trees
        share = (1 - opened.spent) * constants.root_share
        leaves_share = 1 - opened.spent - share
        depth = self.max_depth or min(
            constants.depth, deepest(opened, leaves_share / n_trees, quote)
        )
        grids, belief = yield from root_tables(schema, goal, share, constants.cells, FOREST_BINS)
        weights = root_weights(belief, constants.screens)
        skeletons = guided_skeletons(belief, weights, n_trees, depth, TRIES, rng)
        shapes = shapes_of(skeletons, grids)
        by = Leaves(tuple(shape.tree for shape in shapes))
        levelling = levelling_of(opened, schema, quote)
        known = ClassTotals(belief.totals, belief.total_variance)
        at_the_end = levelling.share if levelling else Fraction(0)
        if is_calibrated(schema):
            at_the_end = calibration_share(opened.signal, known)
        rest = 1 - opened.spent - share - at_the_end
        answer = yield from ask(SumQuery(EVERYONE, goal.statistic, by, rest))
        prior = belief.totals / belief.totals.sum()
        leaves = on_last_level(shapes, answer.values, depth)
        found = leaf_proportions(goal, leaves, answer.variance, prior)
        said = [
            SaidOfLeaves(s.tree, p[s.leaf_at], moved[s.leaf_at])
            for s, p, moved in zip(shapes, *found, strict=True)
        ]
        if is_calibrated(schema):
            return Trained((yield from _read(said, known, constants.sharpness, at_the_end)))
        if levelling:
            return Trained((yield from _levelled(said, goal, levelling)))
        return Trained(_votes(said, prior, constants.sharpness))

    def drawn_blindly(
        self, opened: Opening, schema: Schema, quote: Quote, rng: np.random.Generator
    ) -> Flow[Trained]:
        """Where noise hides the table of round 2."""
        n_trees, depth = self.n_trees or BLIND_TREES, self.max_depth or blind_depth(opened)
        rest = 1 - opened.spent
        drawn = yield from drawn_trees(schema, opened.goal, n_trees, depth, rest, rng)
        return Trained(mean_of([grown.tree for grown in drawn]), tuple(drawn))


def deepest(opened: Opening, share: Fraction, quote: Quote) -> int:
    """Levels at which the noise of all leaves of a tree, together, is still a part of its rows.

    A number is read from the root down, and a node's sum has the noise of every leaf below it. With
    few columns the signal is strong and says nothing of that. Classes do not mind.
    """
    if opened.goal.shape is None:
        return MOST_DEPTH
    total = SumQuery(EVERYONE, opened.goal.statistic, Whole(), share)
    noise = np.sqrt(opened.goal.channels * quote.variance(total))
    ratio = MOST_LEAF_NOISE * opened.rows / max(float(noise), 1e-12)
    return int(np.clip(2.0 * np.log2(ratio), LEAST_DEPTH, MOST_DEPTH))


def root_weights(belief: Belief, screens: bool) -> FloatArray:
    """Chances of the features, from their noise-penalised gains at the root.

    Those without a gain have a floor. If columns of noise are to be kept out, all floors together
    are no more than the best feature's weight.
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
    """Whether a round is spent on what the votes mean: for two classes."""
    return len(schema.classes or ()) == 2


def calibration_share(signal: float, known: ClassTotals) -> Fraction:
    """What that round gets: more if noise is strong and a class rare.

    With p the second class's part of n rows, noise moves the log-odds by its deviation over
    n p (1 - p). To be as sure as of even classes takes 1 / (4 p (1 - p))^2 times the share. A
    class may seem rare by noise, so each is given a deviation more.
    """
    if signal >= WEAK_CALIBRATION:
        return CALIBRATION_SHARE
    likely = known.masses + np.sqrt(known.variance)
    p = float(likely[1] / likely.sum())
    times = Fraction(round(100.0 * (4.0 * p * (1.0 - p)) ** -2), 100)
    return min(CALIBRATION_SHARE * times, MOST_CALIBRATION_SHARE)


def _read(
    said: list[SaidOfLeaves], known: ClassTotals, sharpness: float, share: Fraction
) -> Flow[Model]:
    """Two classes: the mean log-odds against the prior, read by a line that is asked for."""
    base = float(np.log(known.masses[1] / known.masses[0]))
    odds = [_against(one, base).scaled(1.0 / len(said)) for one in said]
    mean = Additive((0.0,), trees=tuple(one.tree for one in odds))
    line = yield from calibrated(mean, Line(base, sharpness), known, share)
    scaled = [one.scaled(line.slope) for one in odds]
    noise = ScoreNoise.of([one.deviations for one in scaled], common=line.slope_noise)
    trees = tuple(one.tree for one in scaled)
    return Model(Additive((line.shift,), trees=trees), Output.SIGMOID, noise=noise)


def _against(said: SaidOfLeaves, base: float) -> NoisyTree:
    """Log-odds of the second class; how far they move if both classes take the noise."""
    odds = np.log(said.p[:, 1:] / said.p[:, :1]) - base
    moved = np.log1p(said.moved / said.p).sum(axis=1, keepdims=True)
    return NoisyTree(said.tree.with_values(odds), moved)


def _levelled(said: list[SaidOfLeaves], goal: Goal, levelling: Levelling) -> Flow[Model]:
    """Numbers: the mean of the trees, all of whose leaves move by what the clip cut away."""
    means = [one.tree.with_values(goal.value(one.p)) for one in said]
    parts = tuple(tree.with_values(tree.values / len(said)) for tree in means)
    shift = yield from levelling.shift(Additive((0.0,), trees=parts))
    noise = ScoreNoise.of([goal.deviations(one.moved) for one in said])
    return mean_of([tree.with_values(tree.values + shift) for tree in means], noise)


def _votes(said: list[SaidOfLeaves], prior: FloatArray, sharpness: float) -> Model:
    base = np.log(prior)
    odds = tuple(one.tree.with_values(np.log(one.p) - base) for one in said)
    noise = ScoreNoise.of([np.log1p(one.moved / one.p) for one in said])
    score = Additive(tuple(base.tolist()), trees=odds)
    return Model(score, Output.LOG_MEAN, sharpness, noise=noise)


@estimator
class ForestClassifier(PrivateClassifier, GuidedForest):
    """A private forest: structure from one noisy table, all leaves from one sum.

    For two classes a last round asks what the votes mean, so that probabilities come true.

    Few rounds matter where sites are far apart: here two of them train one forest together.

    Examples
    --------
    >>> import hedgerow as hr
    >>> columns = (hr.Numeric("age", 0, 100), hr.Numeric("dose", 0, 10))
    >>> schema = hr.Schema(columns, classes=("no", "yes"))
    >>> X = [[20, 1], [30, 2], [70, 8], [80, 9]] * 500
    >>> y = ["no", "no", "yes", "yes"] * 500
    >>> site = ["Basel", "Bern"] * 1000
    >>> model = hr.ForestClassifier(schema, epsilon=10.0, random_state=0).fit(X, y, party=site)
    >>> model.predict([[25, 1], [75, 9]])
    array(['no', 'yes'], dtype='<U3')
    >>> len(model.run_.rounds)
    4

    """


@estimator
class ForestRegressor(PrivateRegressor, GuidedForest):
    """A private forest for a number, in four rounds; see ForestClassifier.

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
