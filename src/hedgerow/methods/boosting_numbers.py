"""Boosting for a numeric target: smooth curves and surfaces, tables of pairs, then trees.

Tables of all columns show the curves. Gradient descent learns curves and surfaces together
(methods/blocks/surfaces.py). Tables of pairs and trees follow, by sums of (clipped residual, row)
in their cells and leaves: one per round at one site, several per round over several sites. Under
Laplace noise, or if a study allows few rounds, there are only trees, whose structure comes from one
table of the target's classes. With a weak signal it trains a forest.

Shapes: B bins of a column or cells of a table.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import partial
from itertools import combinations
from math import comb

import numpy as np

from hedgerow.methods.base import PrivateRegressor, StagedTrees
from hedgerow.methods.blocks import private_bins, surfaces
from hedgerow.methods.blocks.boosting import (
    BATCH_OVERLAP,
    TREES_PER_ROUND,
    BatchPlan,
    Rounds,
    Splitting,
    equal_sizes,
)
from hedgerow.methods.blocks.curves import (
    STRENGTHS,
    FeatureEffects,
    correlations,
    even_stacking,
    families,
    smooth_curve,
)
from hedgerow.methods.blocks.flow import Flow, NoiseModel, ask, both
from hedgerow.methods.blocks.gain_sampled import (
    FeatureGroups,
    GainSampledTrees,
    strongest,
    table_tree,
)
from hedgerow.methods.blocks.guided_trees import Shape, guided_skeletons, on_last_level, shapes_of
from hedgerow.methods.blocks.leaves import complete_means
from hedgerow.methods.blocks.newton_steps import NoiseVariance, Steps, Update
from hedgerow.methods.blocks.private_bins import quantile_runs
from hedgerow.methods.blocks.public_grids import finer_schema
from hedgerow.methods.blocks.random_trees import DrawableFeature
from hedgerow.methods.blocks.scores import TINY
from hedgerow.methods.blocks.screening import root_tables
from hedgerow.methods.blocks.sizes import QUERY, Scale
from hedgerow.methods.blocks.surfaces import Slope, learn_surfaces
from hedgerow.methods.blocks.target import (
    InitialRound,
    TargetShape,
    TrainingTarget,
    count_query,
    initial_round,
    initial_rounds,
)
from hedgerow.methods.constants import constant
from hedgerow.methods.forest import FOREST_FALLBACK, GuidedForest, root_weights
from hedgerow.methods.method import Method, Needs, Task, TrainingResult, method
from hedgerow.methods.parameters import estimator, parameter
from hedgerow.models.losses import SquaredLoss
from hedgerow.models.model import Additive, Model, Output
from hedgerow.models.tree import Tree
from hedgerow.models.uncertainty import NoisyTree, ScoreNoise
from hedgerow.privacy.bundles import NUMBER, Size
from hedgerow.privacy.queries import (
    Cells,
    Count,
    Gradients,
    Leaves,
    QueryKinds,
    ResidualCells,
    SumQuery,
    SurfaceGradients,
    TargetClassCounts,
    Whole,
    sums,
)
from hedgerow.schema.arrays import FloatArray, Rng, canonical
from hedgerow.schema.candidates import Grids
from hedgerow.schema.grids import ColumnKind
from hedgerow.schema.regions import EVERYONE
from hedgerow.schema.rules import number, or_none, whole
from hedgerow.schema.schema import Schema

LEAST_SIGNAL = constant(300.0, unit="signal", evidence="numbers.md#0119")
"""Signal below which a forest is grown, being no worse than trees alone."""
TABLES_FROM = constant(60.0, unit="signal", evidence="numbers.md#0162")
"""The same threshold for curves, surfaces and trees."""
TARGET_CLASSES = constant(8, unit="classes of the target in the tables that guide trees")
BOOST_BINS = constant(32, unit="bins of a feature in these tables")
BOOST_CELLS = constant(256, unit="cells of the public grid")
GUIDED_DEPTH = constant(7, unit="levels of a tree", evidence="numbers.md#0119")
GUIDED_TRIES = constant(5, unit="draws of a test at a node", evidence="numbers.md#0119")
GUIDING_FRACTION = constant((Fraction(1, 10), Fraction(1, 5)), unit="part of the budget")
"""Budget fraction of the tables that guide trees, under Gaussian and under Laplace noise."""
PURE_TREES = constant(20, unit="trees under Laplace noise", evidence="numbers.md#0119")
MOST_BOOSTED_TREES = constant(100, unit="trees", evidence="numbers.md#0162")
LEAST_BOOSTED_DEPTH, MOST_BOOSTED_DEPTH = constant(
    (4, 9), unit="levels of a tree", evidence="numbers.md#0162"
)
ROWS_PER_NOISE = constant(6.0, unit="rows of a leaf per deviation", evidence="numbers.md#0162")
"""Least rows of a leaf per noise deviation, which limits the depth."""
CURVES_FRACTION = constant(Fraction(1, 10), unit="part of the budget", evidence="numbers.md#0168")
"""Budget fraction for tables of all columns, in one round."""
DESCENT_FRACTION = constant(Fraction(1, 4), unit="part of the budget", evidence="numbers.md#0168")
SHARED_TABLE_ROUNDS = constant(3, unit="rounds", evidence="numbers.md#0168")
"""Rounds over several sites for the tables of all pairs."""
TABLES_OVERLAP = constant(0.5, unit="power", evidence="numbers.md#0168")
"""The tables of a round are weighted by (number of tables)^-this."""
SURFACES_FRACTION = constant(Fraction(1, 5), unit="part of the budget", evidence="numbers.md#0162")
PAIRED_COLUMNS = constant((5, 7), unit="columns", evidence="numbers.md#0162")
"""Number of strongest columns whose pairs are asked, below and above a signal threshold."""
MORE_PAIRS_FROM = constant(5000.0, unit="signal", evidence="numbers.md#0162")
SURFACE_GROUPS = constant((6, 20), unit="groups of a column", evidence="numbers.md#0162")
"""Least and most groups per column of a surface."""
RECORDS_PER_CELL = constant(20.0, unit="records per deviation", evidence="numbers.md#0162")
"""Records per cell of a surface, in noise deviations of one count at the whole budget."""
SURFACE_LENGTHS = constant((0.15, 0.5), unit="correlation lengths", evidence="numbers.md#0162")
SURFACE_STRENGTHS = constant((0.05, 0.1, 0.2, 0.4), unit="prior deviations, in clips")
SURFACE_ENERGY = constant(0.1, unit="part of the residuals' variance that a surface may explain")
LEAST_DRAWN = constant(0.1, unit="chance of a flat column, by that of the strongest")
RESIDUAL_ROUNDS = constant(6, unit="rounds that ask the size of the residuals, beside trees")
LOOK_FRACTION = constant(Fraction(4, 1000), unit="part of the budget for each of these")
SMALLEST_CLIP = constant(1e-3, unit="clip of residuals at least, by the range of the target")
RESIDUAL_CELLS = constant(64, unit="cells of the residuals")
RESIDUAL_TAIL = constant(0.05, unit="part of the rows", evidence="numbers.md#0162")
"""Fraction of rows whose residual is clipped."""
ROW_WEIGHT = constant(0.25, unit="weight of a row beside its clipped residual, in one sum")
RESIDUAL_STANDS_OUT = constant(2.0, unit="deviations")
"""Deviations of noise that the count of a residual cell must exceed."""
IN_CLIPS = SquaredLoss(0.0, 1.0, 1.0, ROW_WEIGHT)
"""Residuals in units of their clip."""


@dataclass(frozen=True)
class Residuals:
    """The clip of residuals, and the mean square of clipped ones."""

    clip: float
    mean_square: float

    @property
    def scatter(self) -> float:
        return self.mean_square / self.clip**2


@dataclass(frozen=True)
class MeanResiduals(Steps):
    """Leaves of complete trees are mean residuals, shrunk level by level."""

    residuals: Residuals = field(kw_only=True)
    overlap: float = BATCH_OVERLAP
    trees: int = 1

    def nodes(self, sums: FloatArray, variance: float) -> tuple[FloatArray, FloatArray]:
        """(nodes, 1) values in heap order and their deviations; the gradient's sign is reversed."""
        leaves = np.stack([sums[:, 1] / ROW_WEIGHT, -sums[:, 0]], axis=-1)
        scatter, of_count = self.residuals.scatter, variance / ROW_WEIGHT**2
        means, noise = complete_means(leaves, of_count, variance, scatter, self.trees)
        clip = self.residuals.clip
        return clip * means[:, None], clip * noise[:, None]

    def values(self, sums: FloatArray, variance: NoiseVariance) -> FloatArray:
        return self.nodes(sums, float(np.mean(variance)) * self.trees)[0][-len(sums) :]

    def deviations(
        self, sums: FloatArray, left: NoiseVariance, variance: NoiseVariance
    ) -> FloatArray:
        return self.nodes(sums, float(np.mean(variance)))[1][-len(sums) :]

    def rate(self, trees_per_round: int) -> float:
        return float(self.learning_rate / trees_per_round**self.overlap)


@dataclass(frozen=True)
class GuidedTree:
    """A tree whose structure was drawn beforehand, with at most `depth` levels."""

    shape: Shape
    depth: int

    @property
    def tree(self) -> Tree:
        return self.shape.tree

    def learn(self, sums: FloatArray, variance: float, update: MeanResiduals) -> NoisyTree:
        leaves = on_last_level([self.shape], sums[None], self.depth)[0]
        values, noise = (part[self.shape.leaf_at] for part in update.nodes(leaves, variance))
        return NoisyTree(self.tree.with_values(values), noise)


@dataclass
class SmoothTable:
    """Mean residuals of the cells of one column or of two.

    A table is asked as a tree with one leaf per cell. A cell is expected to hold about `rows` rows,
    which the answer corrects. Their error counts as noise of the residuals.
    """

    features: tuple[FeatureGroups, ...]
    tree: Tree
    families: FloatArray  # (l, B, B) correlations of cells that are tried
    rows: FloatArray

    def learn(self, sums: FloatArray, variance: float, update: MeanResiduals) -> NoisyTree:
        residuals, noise = update.residuals, variance / ROW_WEIGHT**2
        doubt = self.rows**2 + 1.0
        trust = doubt / (doubt + noise + TINY)
        self.rows = self.rows + trust * (sums[:, 1] / ROW_WEIGHT - self.rows)
        slope = np.maximum(self.rows, 1e-3)
        of_sums = np.full(len(slope), variance)
        is_pair = len(self.features) > 1
        of_rows = (1.0 - trust) * doubt * residuals.scatter * (SURFACE_ENERGY if is_pair else 1.0)
        spread = of_sums + residuals.scatter * slope + of_rows + 1e-6
        strengths = SURFACE_STRENGTHS if is_pair else STRENGTHS
        means, noise_of_means = smooth_curve(
            -sums[:, 0], slope, of_sums, spread, self.families, strengths
        )
        values, deviations = (residuals.clip * part[:, None] for part in (means, noise_of_means))
        return NoisyTree(self.tree.with_values(canonical(values)), deviations)


@dataclass(frozen=True)
class TableTrees:
    """A `Splitting` that yields tables or trees in a fixed order."""

    tables: Sequence[SmoothTable] | Sequence[GuidedTree]

    def grow(
        self, numbers: range, update: Update, at: Additive, fraction: Fraction, rng: Rng
    ) -> Flow[list[NoisyTree]]:
        tables = [self.tables[k] for k in numbers]
        by = Leaves(tuple(table.tree for table in tables))
        answer = yield from ask(SumQuery(EVERYONE, update.statistic(at), by, fraction))
        assert isinstance(update, MeanResiduals)
        return [
            table.learn(own[: table.tree.n_leaves], answer.variance, update)
            for table, own in zip(tables, answer.values, strict=True)
        ]


def of_column(grids: Grids, feature: int, records: float) -> SmoothTable:
    n_bins = grids.binning.n_bins[feature]
    rows = np.full(n_bins, records / n_bins)
    groups = (FeatureGroups(DrawableFeature(feature, rows, 1.0), np.arange(n_bins)),)
    is_numeric = grids.grid(feature).kind is ColumnKind.NUMERIC
    return SmoothTable(groups, table_tree(grids, groups), families(n_bins, is_numeric), rows)


def of_pair(grids: Grids, first: FeatureGroups, second: FeatureGroups) -> SmoothTable:
    """A table of two columns: expected rows as if independent, and a product kernel."""
    rows_of_second = _group_rows(second)
    parts = rows_of_second / max(float(rows_of_second.sum()), 1.0)
    rows = np.outer(_group_rows(first), parts).ravel()
    kernels = [
        np.kron(*(_even_correlations(f.n_groups, length) for f in (first, second)))
        for length in SURFACE_LENGTHS
    ]
    pair = (first, second)
    return SmoothTable(pair, table_tree(grids, pair), np.stack(kernels), rows)


def _group_rows(column: FeatureGroups) -> FloatArray:
    return np.asarray(np.bincount(column.groups, column.drawable.mass, column.n_groups))


def _even_correlations(n_groups: int, length: float) -> FloatArray:
    """Correlations of ordered groups, without a bin for missing values."""
    return correlations(n_groups + 1, length)[:-1, :-1]


def pair_surfaces(
    effects: FeatureEffects, grids: Grids, many: int, groups: int
) -> list[SmoothTable]:
    """Tables of all pairs of the strongest columns, strong pairs first."""
    drawables = drawable_columns(effects)
    columns = [
        replace(column, groups=quantile_runs(_group_rows(column), groups)[column.groups])
        for column in strongest(grids, drawables, effects.values, many, groups)
    ]
    pairs = sorted(combinations(range(len(columns)), 2), key=sum)
    return [of_pair(grids, columns[a], columns[b]) for a, b in pairs]


def drawable_columns(effects: FeatureEffects) -> list[DrawableFeature]:
    """Columns with strong curves are tested more often."""
    strengths = effects.strengths
    chances = np.sqrt(strengths / max(float(strengths.max()), 1e-12)) + LEAST_DRAWN
    columns = zip(effects.features, effects.masses, chances, strict=True)
    return [DrawableFeature(feature, mass, float(c)) for feature, mass, c in columns]


def curves_of_tables(
    features: Sequence[int],
    tables: Sequence[SmoothTable],
    learned: Sequence[NoisyTree],
    base: float,
) -> FeatureEffects:
    """The curves that tables learned. Each has mean 0."""
    masses = tuple(np.maximum(table.rows, 0.0) for table in tables)
    pairs = [(m, noisy.tree.values) for m, noisy in zip(masses, learned, strict=True)]
    values = tuple(canonical(v - m @ v / max(float(m.sum()), 1.0)) for m, v in pairs)
    noise = tuple(noisy.deviations for noisy in learned)
    return FeatureEffects(np.array([base]), tuple(features), values, masses, noise)


@dataclass(frozen=True)
class Stage:
    """Settings of all rounds; `shares_rounds`: tables and trees of several sites share rounds."""

    target: TargetShape
    shares_rounds: bool
    learning_rate: float = 1.0
    overlap: float = BATCH_OVERLAP

    def update(self, residuals: Residuals, trees: int) -> MeanResiduals:
        loss = SquaredLoss(self.target.low, self.target.high, residuals.clip, ROW_WEIGHT)
        rate, overlap = self.learning_rate, self.overlap
        return MeanResiduals(loss, rate, residuals=residuals, overlap=overlap, trees=trees)

    def slope(self, residuals: Residuals, records: float) -> Slope:
        return Slope.of_number(
            SquaredLoss(self.target.low, self.target.high, residuals.clip, ROW_WEIGHT), records
        )

    def clipped(self, model: Additive) -> Additive:
        """The model with predictions in the target's range."""
        return replace(model, clip=(self.target.low, self.target.high))


@method(
    "regression_boost",
    test_settings=(
        {"n_estimators": 3, "max_depth": 2, "trees_per_round": 1},
        {"n_estimators": 50, "max_depth": 2},
    ),
)
class RegressionBoost(Method):
    """Squared error. Tables and leaves are (rows, clipped residuals).

    | round    | asked                                           | fraction of the budget  |
    |----------|-------------------------------------------------|-------------------------|
    | 1        | number of rows, counts of the target at five widths | 5 %                 |
    | 2        | counts of all numeric columns' cells            | 4 %                     |
    | 3        | tables of all columns                           | 10 %                    |
    | 10 or 21 | gradients of curves and surfaces                | 25 % together           |
    | a pair   | its table                                       | 20 % together           |
    | per tree | leaf sums of (weight, clipped residual)         | equal parts of the rest |
    | up to 9  | histogram of absolute residuals: the clip       | 4 % together            |

    Trees alone: target-class tables of all features (10 %; pure: 20 %), then trees.
    Over several sites tables and trees share rounds, and histograms go with trees.
    """

    n_estimators: int | None = parameter(
        default=None, rule=or_none(whole(1)), text="Trees; None is 20 (delta = 0) or 100."
    )
    max_depth: int | None = parameter(
        default=None,
        rule=or_none(whole(1)),
        text="Levels of splits; None is 4 to 9, depending on the noise (delta = 0: 7).",
    )
    trees_per_round: int | None = parameter(
        default=None, rule=or_none(whole(1)), text=TREES_PER_ROUND
    )
    learning_rate: float = parameter(
        default=0.5, rule=number(above=0.0), text="Fraction of each step that is taken."
    )

    @property
    def needs(self) -> Needs:
        return Needs(tasks=frozenset({Task.NUMBER}))

    def asks(self, schema: Schema) -> QueryKinds:
        boosting = sums(TargetClassCounts, Cells) | sums(Gradients, Leaves)
        counts = private_bins.ASKS | sums(Count, ResidualCells) | sums(SurfaceGradients, Whole)
        return GuidedForest().asks(schema) | boosting | counts

    def grid(self, schema: Schema) -> Schema:
        return finer_schema(schema)

    def largest(self, schema: Schema) -> Size:
        """The largest of the fallback forest, trees alone, and tables with trees."""
        scale = Scale(schema)
        leaves, model = self._leaves(scale), self._model_bytes(scale)

        trees = partial(scale.trees, leaves=leaves, channels=2, shared_bytes=model)

        def with_trees(before: Size, plan: BatchPlan) -> Size:
            return before + plan.largest(trees, self._look(scale), RESIDUAL_ROUNDS)

        guided = with_trees(self._before_guided(schema), self._batches(schema, is_guided=True))
        by_tables = with_trees(self._before_trees(schema), self._batches(schema))
        if self.trees_per_round is None:  # there are trees alone if a study allows few rounds
            by_tables = replace(by_tables, fewest_rounds=guided.fewest_rounds)
        return GuidedForest(max_depth=self.max_depth).largest(schema) | guided | by_tables

    def _before_guided(self, schema: Schema) -> Size:
        """The rounds before the first tree, including one for the residuals."""
        scale = Scale(schema)
        tables = scale.tables(channels=TARGET_CLASSES)
        return scale.initial_round() + tables + self._look(scale)

    def _before_trees(self, schema: Schema) -> Size:
        scale = Scale(schema)
        size = scale.initial_round() + scale.tables(channels=1) + self._look(scale) * 4
        model, columns = self._model_bytes(scale), scale.columns
        curves = scale.trees(columns, scale.cells, channels=2, shared_bytes=model)
        of_trees = partial(
            scale.trees, leaves=SURFACE_GROUPS[1] ** 2, channels=2, shared_bytes=model
        )
        n_pairs = comb(min(max(PAIRED_COLUMNS), columns), 2)
        n_rounds = min(SHARED_TABLE_ROUNDS, n_pairs)
        pairs = of_trees(-(-n_pairs // SHARED_TABLE_ROUNDS)) * n_rounds
        size += curves + surfaces.largest(scale, 1) + replace(pairs, rounds_alone=n_pairs)
        return size if self.trees_per_round is None else replace(size, rounds=size.rounds_alone)

    def _look(self, scale: Scale) -> Size:
        size, model = QUERY + NUMBER * RESIDUAL_CELLS, self._model_bytes(scale)
        return Size.of_step(integers=RESIDUAL_CELLS, bytes=size, shared_bytes=model)

    def _leaves(self, scale: Scale) -> int:
        return scale.complete(self.max_depth or MOST_BOOSTED_DEPTH)

    def _model_bytes(self, scale: Scale) -> int:
        """Bytes of curves, surfaces and trees; trees of a one-column table soon become curves."""
        n_estimators, leaves = self.n_estimators or MOST_BOOSTED_TREES, self._leaves(scale)
        trees = scale.model_bytes(n_estimators, leaves, 1, scale.tests(BOOST_BINS))
        columns, groups = scale.columns, SURFACE_GROUPS[1]
        tables = comb(min(max(PAIRED_COLUMNS), columns), 2) * scale.tree_bytes(groups**2, 1)
        return (
            trees
            + surfaces.tree_bytes(scale, 1)
            + tables
            + columns * scale.tree_bytes(scale.cells, 1)
        )

    def _batches(self, schema: Schema, *, is_guided: bool = False) -> BatchPlan:
        before = (self._before_guided if is_guided else self._before_trees)(schema).rounds
        n_estimators = self.n_estimators or MOST_BOOSTED_TREES
        return BatchPlan(
            n_estimators, self.trees_per_round, before, 2 * self._leaves(Scale(schema))
        )

    def flow(self, schema: Schema, noise_model: NoiseModel, rng: Rng) -> Flow[TrainingResult]:
        first_round = yield from initial_round(schema, noise_model)
        plan = self._batches(schema)
        has_tables = not noise_model.is_pure and plan.fits(noise_model)
        if first_round.signal < (TABLES_FROM if has_tables else LEAST_SIGNAL):
            return (yield from self._forest(first_round, schema, noise_model, rng))
        assert first_round.target.shape is not None
        stage = Stage(first_round.target.shape, plan.is_shared(noise_model), self.learning_rate)
        if not has_tables:
            return (yield from self._grow_guided(first_round, stage, schema, noise_model, rng))
        deviation = float(np.sqrt(noise_model.variance(count_query(Fraction(1)))))
        count = private_bins.NoisyCount(first_round.records, deviation)
        grids = Grids(schema, (yield from private_bins.bins_by_count(schema, count)))
        spent = first_round.spent + private_bins.BINS_FRACTION
        active = [j for j, n in enumerate(grids.binning.n_bins) if n > 2]
        if not active:  # no column has two bins
            binned = replace(first_round, spent=spent)
            return (yield from self._forest(binned, schema, noise_model, rng))
        learned = yield from learn_tables(first_round, count, stage, grids, active, rng)
        if first_round.rounds == 1:  # what was not asked again leaves rounds for trees
            plan = replace(plan, before=plan.before - initial_rounds(schema) + 1)
        sizes = plan.sizes(noise_model)
        rounds = tree_rounds(sizes, 1 - spent - learned.spent)
        depth = self.max_depth or depth_by_noise(count, rounds.fraction / sum(sizes))
        splitting = GainSampledTrees(grids, drawable_columns(learned.effects), IN_CLIPS, depth)
        score, trees, _ = yield from grow_in_rounds(
            splitting, stage, rounds, looks_at(rounds), learned.model, learned.residuals, rng
        )
        of_trees = [tree.deviations for tree in (*learned.surfaces, *trees)]
        noise, parts = ScoreNoise.of(of_trees, learned.noise), learned.effects.parts(grids)
        return TrainingResult(Model(score, Output.VALUE, parts=parts, noise=noise))

    def _forest(
        self, first_round: InitialRound, schema: Schema, noise_model: NoiseModel, rng: Rng
    ) -> Flow[TrainingResult]:
        forest = GuidedForest(max_depth=self.max_depth)
        result = yield from forest.grow_from(first_round, schema, noise_model, rng)
        return result if result.instead else replace(result, instead=FOREST_FALLBACK)

    def _grow_guided(
        self,
        first_round: InitialRound,
        stage: Stage,
        schema: Schema,
        noise_model: NoiseModel,
        rng: Rng,
    ) -> Flow[TrainingResult]:
        """Trees alone, their structure from tables of the target's classes."""
        cuts, fraction = class_cuts(stage.target), GUIDING_FRACTION[noise_model.is_pure]
        classes = TrainingTarget(TargetClassCounts(cuts))
        grids, belief = yield from root_tables(schema, classes, fraction, BOOST_CELLS, BOOST_BINS)
        depth = self.max_depth or GUIDED_DEPTH
        usual = PURE_TREES if noise_model.is_pure else MOST_BOOSTED_TREES
        n_estimators = self.n_estimators or usual
        weights = root_weights(belief, screens=True)
        skeletons = guided_skeletons(belief, weights, n_estimators, depth, GUIDED_TRIES, rng)
        base = class_means(stage.target, cuts) @ belief.totals / belief.totals.sum()
        width = stage.target.high - stage.target.low
        model = Additive((float(base),), clip=(stage.target.low, stage.target.high))
        plan = replace(self._batches(schema, is_guided=True), n_estimators=n_estimators)
        rounds = tree_rounds(plan.sizes(noise_model), 1 - first_round.spent - fraction)
        splitting = TableTrees([GuidedTree(shape, depth) for shape in shapes_of(skeletons, grids)])
        residuals, looks = Residuals(width, width**2 / 12.0), looks_at(rounds)
        score, trees, _ = yield from grow_in_rounds(
            splitting, stage, rounds, looks, model, residuals, rng
        )
        noise = ScoreNoise.of([tree.deviations for tree in trees])
        return TrainingResult(Model(score, Output.VALUE, noise=noise))


@dataclass(frozen=True)
class LearnedTables:
    """Curves, surfaces and tables of pairs as a model, and what was spent on them."""

    effects: FeatureEffects
    model: Additive
    noise: list[FloatArray]
    """Noise deviations of the curves, by cell."""
    surfaces: list[NoisyTree]
    residuals: Residuals
    spent: Fraction


def learn_tables(
    first_round: InitialRound,
    count: private_bins.NoisyCount,
    stage: Stage,
    grids: Grids,
    active: Sequence[int],
    rng: Rng,
) -> Flow[LearnedTables]:
    """Tables of all columns at once, gradient descent on curves and surfaces, tables of pairs."""
    effects, residuals = yield from _curves(count, stage, grids, active, rng)
    in_clips = replace(effects, values=tuple(values / residuals.clip for values in effects.values))
    stacking = even_stacking(in_clips)
    start = Additive(tuple(effects.base.tolist()), effects.curves(grids, stacking.weights))
    residuals = yield from update_residuals(stage.clipped(start), residuals, stage.target)

    def slope_at(model: Additive) -> Flow[Slope]:
        new_residuals = yield from update_residuals(stage.clipped(model), residuals, stage.target)
        return stage.slope(new_residuals, count.records)

    surface_model = yield from learn_surfaces(
        effects,
        stacking,
        grids,
        drawable_columns(effects),
        start,
        DESCENT_FRACTION,
        stage.shares_rounds,
        stage.slope(residuals, count.records),
        slope_at,
    )
    model = stage.clipped(surface_model.score())
    residuals = yield from update_residuals(model, residuals, stage.target)
    side = np.sqrt(count.records / (RECORDS_PER_CELL * max(count.deviation, 1e-9)))
    many = PAIRED_COLUMNS[first_round.signal >= MORE_PAIRS_FROM]
    pairs = pair_surfaces(
        with_curves(effects, model, grids), grids, many, int(np.clip(side, *SURFACE_GROUPS))
    )
    noise = effects.noise(grids, stacking.weights, stacking.deviations)
    noise = [np.hypot(a, b) for a, b in zip(noise, surface_model.curve_noise(), strict=True)]
    spent = CURVES_FRACTION + DESCENT_FRACTION + 3 * LOOK_FRACTION
    together = -(-len(pairs) // SHARED_TABLE_ROUNDS) if stage.shares_rounds else 1
    rounds = Rounds(equal_sizes(len(pairs), max(together, 1)), SURFACES_FRACTION)
    steps = replace(stage, learning_rate=1.0, overlap=TABLES_OVERLAP)
    model, tables, _ = yield from grow_in_rounds(
        TableTrees(pairs), steps, rounds, (), model, residuals, rng
    )
    spent += SURFACES_FRACTION if pairs else 0
    return LearnedTables(effects, model, noise, [*surface_model.trees, *tables], residuals, spent)


def _curves(
    count: private_bins.NoisyCount, stage: Stage, grids: Grids, active: Sequence[int], rng: Rng
) -> Flow[tuple[FeatureEffects, Residuals]]:
    """The curves of all columns, from one round."""
    base, residuals = around_the_mean(stage.target)
    tables = [of_column(grids, j, count.records) for j in active]
    splitting, update = TableTrees(tables), stage.update(residuals, 1)
    start = Additive((base,))
    trees = yield from splitting.grow(range(len(tables)), update, start, CURVES_FRACTION, rng)
    return curves_of_tables(active, tables, trees, base), residuals


def with_curves(effects: FeatureEffects, model: Additive, grids: Grids) -> FeatureEffects:
    """The effects with the curves of a model, whose values are equal within a bin."""
    values = []
    for curve in model.curves:
        _, firsts = np.unique(grids.binning.bins[curve.feature], return_index=True)
        values.append(np.array(curve.values)[firsts])
    return replace(effects, values=tuple(values))


def grow_in_rounds(
    splitting: Splitting,
    stage: Stage,
    rounds: Rounds,
    looks: Collection[int],
    start: Additive,
    residuals: Residuals,
    rng: Rng,
) -> Flow[tuple[Additive, list[NoisyTree], Residuals]]:
    """Adds tables or trees to a model; before some of them the size of residuals is asked.

    Over several sites that query shares the round of the trees before.
    """
    model, grown = start, list[NoisyTree]()
    for first, size in zip(rounds.starts, rounds.sizes, strict=True):
        look = update_residuals(model, residuals, stage.target)
        is_beside = stage.shares_rounds and first > 0
        if first in looks and not is_beside:
            residuals = yield from look
        update, fraction = stage.update(residuals, size), rounds.fraction * size / sum(rounds.sizes)
        batch = splitting.grow(range(first, first + size), update, model, fraction, rng)
        if first in looks and is_beside:
            trees, residuals = yield from both(batch, look)
        else:
            trees = yield from batch
        scaled_trees = [tree.scale(update.rate(size)) for tree in trees]
        model = model.plus(*(tree.tree for tree in scaled_trees))
        grown += scaled_trees
    return model, grown, residuals


def looks_at(rounds: Rounds) -> set[int]:
    """Trees before which the residuals are asked: the first ones of some rounds."""
    starts = rounds.starts
    return set(starts[:: max(len(starts) // RESIDUAL_ROUNDS, 1)][:RESIDUAL_ROUNDS])


def tree_rounds(sizes: Sequence[int], rest: Fraction) -> Rounds:
    """The rest of the budget, less the queries for residuals."""
    return Rounds(sizes, rest - len(looks_at(Rounds(sizes, rest))) * LOOK_FRACTION)


def depth_by_noise(count: private_bins.NoisyCount, fraction: Fraction) -> int:
    """Levels of trees that get this fraction of the budget each."""
    noise = count.deviation * np.sqrt((1.0 + ROW_WEIGHT**2) / float(fraction))
    leaves = count.records / (ROWS_PER_NOISE * max(noise, 1.0))
    return int(np.clip(np.rint(np.log2(max(leaves, 1.0))), LEAST_BOOSTED_DEPTH, MOST_BOOSTED_DEPTH))


def around_the_mean(target: TargetShape) -> tuple[float, Residuals]:
    """The mean of the clipped target, and the residuals of a constant model."""
    values = np.clip(target.middles, target.low, target.high)
    mean = float(canonical(np.average(values, weights=target.weights)))
    sizes, order = np.abs(values - mean), np.argsort(np.abs(values - mean), kind="stable")
    width = target.high - target.low
    return mean, clipped_residuals(sizes[order], target.weights[order], width)


def clipped_residuals(sizes: FloatArray, rows: FloatArray, width: float) -> Residuals:
    """The clip, from the rows by size of residual."""
    below = np.cumsum(rows) / rows.sum()
    place = min(int(np.searchsorted(below, 1.0 - RESIDUAL_TAIL)), len(sizes) - 1)
    clip = min(float(canonical(max(sizes[place], SMALLEST_CLIP * width))), width)
    return Residuals(clip, float(np.average(np.minimum(sizes, clip) ** 2, weights=rows)))


def class_cuts(target: TargetShape) -> tuple[float, ...]:
    """Cuts of the target into classes of equal noisy mass; each has at least one cell."""
    places = np.searchsorted(target.below, np.arange(1, TARGET_CLASSES) / TARGET_CLASSES)
    places = np.maximum(places, 1)
    half = (target.middles[1] - target.middles[0]) / 2.0
    return tuple(float(v) for v in np.unique(target.middles[places] - half))


def class_means(target: TargetShape, cuts: tuple[float, ...]) -> FloatArray:
    """Mean target of each class."""
    cell_class = np.searchsorted(np.asarray(cuts), target.middles, side="right")
    weights = target.weights + 1e-9
    sums = np.bincount(cell_class, weights * target.middles, minlength=len(cuts) + 1)
    return np.asarray(sums / np.bincount(cell_class, weights, minlength=len(cuts) + 1))


def update_residuals(model: Additive, before: Residuals, target: TargetShape) -> Flow[Residuals]:
    """Asks how large absolute residuals are; unchanged if nothing exceeds the noise."""
    width = target.high - target.low
    edges = width * np.geomspace(SMALLEST_CLIP, 1.0, RESIDUAL_CELLS - 1)
    by = ResidualCells(model, tuple(float(e) for e in edges))
    answer = yield from ask(SumQuery(EVERYONE, Count(), by, LOOK_FRACTION))
    counts = answer.values[0, :, 0]
    clear_counts = np.where(counts > RESIDUAL_STANDS_OUT * np.sqrt(answer.variance), counts, 0.0)
    if clear_counts.sum() <= 0.0:
        return before
    return clipped_residuals(np.append(edges, width), clear_counts, width)


@estimator
class BoostedTreesRegressor(StagedTrees, PrivateRegressor, RegressionBoost):
    """Gradient boosting with differential privacy, for a numeric target.

    Smooth curves of all columns, surfaces of pairs of the strongest, then trees: each round asks
    for one small sum. Where the signal is too weak for boosting it trains a forest instead.

    Examples
    --------
    >>> import hedgerow as hr
    >>> columns = (hr.Numeric("age", 0, 100), hr.Numeric("dose", 0, 10))
    >>> schema = hr.Schema(columns, target=hr.Target(0, 100))
    >>> X = [[20, 1], [30, 2], [70, 8], [80, 9]] * 500
    >>> y = [10, 20, 80, 90] * 500
    >>> model = hr.BoostedTreesRegressor(schema, epsilon=10.0, random_state=0).fit(X, y)
    >>> model.predict([[25, 1], [75, 9]]).shape
    (2,)

    """
