"""Boosting for a numeric target: smooth curves and surfaces, tables of pairs, then trees.

Tables of all columns show the curves. Gradient descent learns curves and surfaces together
(methods/blocks/surfaces.py). Tables of pairs and trees follow, by sums of (clipped residual, row)
in their cells and leaves: one per round at one site, several per round over several sites. Under
Laplace noise, or if a study allows few rounds, there are only trees, whose structure comes from one
table of the target's classes. With a weak signal it trains a forest.

Shapes: B bins of a column or cells of a table.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import partial
from itertools import combinations
from math import comb

import numpy as np

from hedgerow.methods import forest
from hedgerow.methods.base import PrivateRegressor, StagedTrees
from hedgerow.methods.blocks import private_bins, surfaces
from hedgerow.methods.blocks.boosting import (
    BATCH_OVERLAP,
    TREES_PER_ROUND,
    Batch,
    BatchPlan,
    GainSampledTrees,
    Rounds,
    boost,
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
from hedgerow.methods.blocks.flow import Flow, NoiseModel, ask
from hedgerow.methods.blocks.leaves import complete_means
from hedgerow.methods.blocks.newton_steps import NoiseVariance, Steps
from hedgerow.methods.blocks.private_bins import quantile_runs
from hedgerow.methods.blocks.public_grids import finer_schema
from hedgerow.methods.blocks.random_trees import DrawableFeature
from hedgerow.methods.blocks.scores import TINY
from hedgerow.methods.blocks.screening import root_tables
from hedgerow.methods.blocks.sizes import QUERY, Scale
from hedgerow.methods.blocks.target import (
    InitialRound,
    TargetShape,
    TrainingTarget,
    count_query,
    initial_round,
    initial_rounds,
)
from hedgerow.methods.constants import constant
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

    shape: forest.Shape
    depth: int

    @property
    def tree(self) -> Tree:
        return self.shape.tree

    def learn(self, sums: FloatArray, variance: float, update: MeanResiduals) -> NoisyTree:
        leaves = forest.on_last_level([self.shape], sums[None], self.depth)[0]
        values, noise = (part[self.shape.leaf_at] for part in update.nodes(leaves, variance))
        return NoisyTree(self.tree.with_values(values), noise)


@dataclass
class SmoothTable:
    """Mean residuals of the cells of one column or of two.

    A table is asked as a tree with one leaf per cell. A cell is expected to hold about `rows` rows,
    which the answer corrects. Their error counts as noise of the residuals.
    """

    tree: Tree
    is_pair: bool
    families: FloatArray  # (l, B, B) correlations of cells that are tried
    rows: FloatArray

    def learn(self, sums: FloatArray, variance: float, update: MeanResiduals) -> NoisyTree:
        residuals, noise = update.residuals, variance / ROW_WEIGHT**2
        doubt = self.rows**2 + 1.0
        trust = doubt / (doubt + noise + TINY)
        self.rows = self.rows + trust * (sums[:, 1] / ROW_WEIGHT - self.rows)
        slope = np.maximum(self.rows, 1e-3)
        of_sums = np.full(len(slope), variance)
        energy = SURFACE_ENERGY if self.is_pair else 1.0
        of_rows = (1.0 - trust) * doubt * residuals.scatter * energy
        spread = of_sums + residuals.scatter * slope + of_rows + 1e-6
        strengths = SURFACE_STRENGTHS if self.is_pair else STRENGTHS
        means, noise_of_means = smooth_curve(
            -sums[:, 0], slope, of_sums, spread, self.families, strengths
        )
        values, deviations = (residuals.clip * part[:, None] for part in (means, noise_of_means))
        return NoisyTree(self.tree.with_values(canonical(values)), deviations)


@dataclass(frozen=True)
class TableTrees:
    """A `Splitting` that yields tables or trees in a fixed order."""

    tables: Sequence[SmoothTable] | Sequence[GuidedTree]

    def grow(self, batch: Batch, rng: Rng) -> Flow[list[NoisyTree]]:
        tables, update = [self.tables[k] for k in batch.numbers], batch.update
        by = Leaves(tuple(table.tree for table in tables))
        answer = yield from ask(SumQuery(EVERYONE, batch.statistic, by, batch.fraction))
        assert isinstance(update, MeanResiduals)
        return [
            table.learn(own[: table.tree.n_leaves], answer.variance, update)
            for table, own in zip(tables, answer.values, strict=True)
        ]


def of_column(grids: Grids, feature: int, records: float) -> SmoothTable:
    n_bins = grids.binning.n_bins[feature]
    rows = np.full(n_bins, records / n_bins)
    column = surfaces.FeatureGroups(feature, rows, np.arange(n_bins))
    unit = families(n_bins, grids.grid(feature).kind is ColumnKind.NUMERIC)
    return SmoothTable(surfaces.table_tree(grids, [column]), False, unit, rows)


def of_pair(
    grids: Grids, first: surfaces.FeatureGroups, second: surfaces.FeatureGroups
) -> SmoothTable:
    """A table of two columns: expected rows as if independent, and a product kernel."""
    parts = second.rows / max(float(second.rows.sum()), 1.0)
    kernels = []
    for length in SURFACE_LENGTHS:  # of ordered groups, without a bin for missing values
        sides = [correlations(f.n_groups + 1, length)[:-1, :-1] for f in (first, second)]
        kernels.append(np.kron(*sides))
    rows = np.outer(first.rows, parts).ravel()
    return SmoothTable(surfaces.table_tree(grids, (first, second)), True, np.stack(kernels), rows)


def pair_surfaces(
    effects: FeatureEffects, model: Additive, grids: Grids, n_columns: int, groups: int
) -> list[SmoothTable]:
    """Tables of all pairs of the columns with the strongest curves in a model, strong pairs first.

    Values of a curve are equal within a bin.
    """
    values = []
    for curve in model.curves:
        _, firsts = np.unique(grids.binning.bins[curve.feature], return_index=True)
        values.append(np.array(curve.values)[firsts])
    columns = [
        replace(column, groups=quantile_runs(column.rows, groups)[column.groups])
        for column in surfaces.strongest(grids, effects, values, n_columns, groups)
    ]
    pairs = sorted(combinations(range(len(columns)), 2), key=sum)
    return [of_pair(grids, columns[a], columns[b]) for a, b in pairs]


def drawable_columns(effects: FeatureEffects) -> list[DrawableFeature]:
    """Columns with strong curves are tested more often."""
    strengths = effects.strengths
    chances = np.sqrt(strengths / max(float(strengths.max()), 1e-12)) + LEAST_DRAWN
    columns = zip(effects.features, effects.masses, chances, strict=True)
    return [DrawableFeature(feature, mass, float(c)) for feature, mass, c in columns]


@dataclass
class Stage:
    """What all rounds share, and the size of residuals as it was last seen."""

    target: TargetShape
    shares_rounds: bool
    learning_rate: float
    residuals: Residuals

    @property
    def loss(self) -> SquaredLoss:
        return SquaredLoss(self.target.low, self.target.high, self.residuals.clip, ROW_WEIGHT)

    def update(
        self, trees: int, rate: float | None = None, overlap: float = BATCH_OVERLAP
    ) -> MeanResiduals:
        rate, residuals = rate or self.learning_rate, self.residuals
        return MeanResiduals(self.loss, rate, residuals=residuals, overlap=overlap, trees=trees)

    def clipped(self, model: Additive) -> Additive:
        """The model with predictions in the target's range."""
        return replace(model, clip=(self.target.low, self.target.high))

    def look(self, model: Additive) -> Flow[None]:
        """Asks how large absolute residuals are; nothing changes if none exceeds the noise."""
        width = self.target.high - self.target.low
        edges = width * np.geomspace(SMALLEST_CLIP, 1.0, RESIDUAL_CELLS - 1)
        by = ResidualCells(self.clipped(model), tuple(float(e) for e in edges))
        answer = yield from ask(SumQuery(EVERYONE, Count(), by, LOOK_FRACTION))
        counts, least = answer.values[0, :, 0], RESIDUAL_STANDS_OUT * np.sqrt(answer.variance)
        clear_counts = np.where(counts > least, counts, 0.0)
        if clear_counts.sum() > 0.0:
            self.residuals = clipped_residuals(np.append(edges, width), clear_counts, width)

    def tree_rounds(self, sizes: Sequence[int], rest: Fraction) -> Rounds:
        """Trees with the rest of the budget, less that of the looks before some of them."""
        starts = Rounds(sizes, rest).starts
        looks = set(starts[:: max(len(starts) // RESIDUAL_ROUNDS, 1)][:RESIDUAL_ROUNDS])
        return Rounds(sizes, rest - len(looks) * LOOK_FRACTION, looks, self.shares_rounds)


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
        return forest.GuidedForest().asks(schema) | boosting | counts

    def grid(self, schema: Schema) -> Schema:
        return finer_schema(schema)

    def largest(self, schema: Schema) -> Size:
        """The largest of the fallback forest, trees alone, and tables with trees."""
        scale = Scale(schema)
        model = self._model_bytes(scale)
        trees = partial(scale.trees, leaves=self._leaves, channels=2, shared_bytes=model)

        def with_trees(before: Size, plan: BatchPlan) -> Size:
            return before + plan.largest(trees, self._look(scale), RESIDUAL_ROUNDS)

        alone = with_trees(self._before_guided(schema), self._batches(schema, is_guided=True))
        by_tables = with_trees(self._before_trees(schema), self._batches(schema))
        if self.trees_per_round is None:  # there are trees alone if a study allows few rounds
            by_tables = replace(by_tables, fewest_rounds=alone.fewest_rounds)
        return forest.GuidedForest(max_depth=self.max_depth).largest(schema) | alone | by_tables

    def _before_guided(self, schema: Schema) -> Size:
        """The rounds before the first tree, including one for the residuals."""
        scale = Scale(schema)
        tables = scale.tables(channels=TARGET_CLASSES)
        return scale.initial_round() + tables + self._look(scale)

    def _before_trees(self, schema: Schema) -> Size:
        scale = Scale(schema)
        size = scale.initial_round() + scale.tables(channels=1) + self._look(scale) * 4
        tables = partial(scale.trees, channels=2, shared_bytes=self._model_bytes(scale))
        size += tables(scale.columns, scale.cells) + surfaces.largest(scale, 1)
        n_pairs = comb(min(max(PAIRED_COLUMNS), scale.columns), 2)
        together = -(-n_pairs // SHARED_TABLE_ROUNDS)
        pairs = tables(together, SURFACE_GROUPS[1] ** 2) * min(SHARED_TABLE_ROUNDS, n_pairs)
        size += replace(pairs, rounds_alone=n_pairs)
        return size if self.trees_per_round is None else replace(size, rounds=size.rounds_alone)

    def _look(self, scale: Scale) -> Size:
        size, model = QUERY + NUMBER * RESIDUAL_CELLS, self._model_bytes(scale)
        return Size.of_step(integers=RESIDUAL_CELLS, bytes=size, shared_bytes=model)

    @property
    def _leaves(self) -> int:
        return Scale.complete(self.max_depth or MOST_BOOSTED_DEPTH)

    def _model_bytes(self, scale: Scale) -> int:
        """Bytes of curves, surfaces and trees; trees of a one-column table soon become curves."""
        n_estimators, tests = self.n_estimators or MOST_BOOSTED_TREES, scale.tests(BOOST_BINS)
        size = scale.model_bytes(n_estimators, self._leaves, 1, tests)
        size += surfaces.tree_bytes(scale, 1) + scale.columns * scale.tree_bytes(scale.cells, 1)
        pairs = comb(min(max(PAIRED_COLUMNS), scale.columns), 2)
        return size + pairs * scale.tree_bytes(SURFACE_GROUPS[1] ** 2, 1)

    def _batches(self, schema: Schema, *, is_guided: bool = False) -> BatchPlan:
        before = (self._before_guided if is_guided else self._before_trees)(schema).rounds
        n_estimators = self.n_estimators or MOST_BOOSTED_TREES
        return BatchPlan(n_estimators, self.trees_per_round, before, 2 * self._leaves)

    def flow(self, schema: Schema, noise_model: NoiseModel, rng: Rng) -> Flow[TrainingResult]:
        first_round = yield from initial_round(schema, noise_model)
        plan = self._batches(schema)
        has_tables = not noise_model.is_pure and plan.fits(noise_model)
        if first_round.signal < (TABLES_FROM if has_tables else LEAST_SIGNAL):
            return (yield from self._forest(first_round, schema, noise_model, rng))
        target = first_round.target.shape
        assert target is not None
        width = target.high - target.low
        unknown = Residuals(width, width**2 / 12.0)
        stage = Stage(target, plan.is_shared(noise_model), self.learning_rate, unknown)
        if not has_tables:
            return (yield from self._grow_guided(first_round, stage, schema, noise_model, rng))
        deviation = float(np.sqrt(noise_model.variance(count_query(Fraction(1)))))
        count = private_bins.NoisyCount(first_round.records, deviation)
        grids = Grids(schema, (yield from private_bins.bins_by_count(schema, count)))
        spent = first_round.spent + private_bins.BINS_FRACTION
        if not grids.active:
            after_bins = replace(first_round, spent=spent)
            return (yield from self._forest(after_bins, schema, noise_model, rng))
        more_pairs = first_round.signal >= MORE_PAIRS_FROM
        tables = yield from learn_tables(count, stage, grids, PAIRED_COLUMNS[more_pairs], rng)
        if first_round.rounds == 1:  # what was not asked again leaves rounds for trees
            plan = replace(plan, before=plan.before - initial_rounds(schema) + 1)
        rounds = stage.tree_rounds(plan.sizes(noise_model), 1 - spent - tables.spent)
        depth = self.max_depth or depth_by_noise(count, rounds.fraction / sum(rounds.sizes))
        splitting = GainSampledTrees(grids, drawable_columns(tables.effects), IN_CLIPS, depth)
        score, trees = yield from boost(
            rounds, splitting, stage.update, tables.model, rng, stage.look
        )
        noise = ScoreNoise.of([*tables.of_tables, *trees], tables.of_curves)
        parts = tables.effects.parts(grids)
        return TrainingResult(Model(score, Output.VALUE, parts=parts, noise=noise))

    def _forest(
        self, first_round: InitialRound, schema: Schema, noise_model: NoiseModel, rng: Rng
    ) -> Flow[TrainingResult]:
        method = forest.GuidedForest(max_depth=self.max_depth)
        result = yield from method.grow_from(first_round, schema, noise_model, rng)
        return result if result.instead else replace(result, instead=forest.FOREST_FALLBACK)

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
        weights = forest.root_weights(belief, screens=True)
        skeletons = forest.guided_skeletons(belief, weights, n_estimators, depth, GUIDED_TRIES, rng)
        base = class_means(stage.target, cuts) @ belief.totals / belief.totals.sum()
        plan = replace(self._batches(schema, is_guided=True), n_estimators=n_estimators)
        rounds = stage.tree_rounds(plan.sizes(noise_model), 1 - first_round.spent - fraction)
        shapes = forest.shapes_of(skeletons, grids)
        splitting = TableTrees([GuidedTree(shape, depth) for shape in shapes])
        start = stage.clipped(Additive((float(base),)))
        score, trees = yield from boost(rounds, splitting, stage.update, start, rng, stage.look)
        return TrainingResult(Model(score, Output.VALUE, noise=ScoreNoise.of(trees)))


@dataclass(frozen=True)
class LearnedTables:
    """Curves, surfaces and tables of pairs as a model, and what was spent on them."""

    effects: FeatureEffects
    model: Additive
    of_curves: list[FloatArray]
    """Noise deviations of the curves, by cell."""
    of_tables: list[FloatArray]
    """Noise deviations of surfaces and tables, by leaf."""
    spent: Fraction


def learn_tables(
    count: private_bins.NoisyCount, stage: Stage, grids: Grids, n_columns: int, rng: Rng
) -> Flow[LearnedTables]:
    """Tables of all columns at once, gradient descent on curves and surfaces, tables of pairs."""
    effects = yield from _curves(count, stage, grids, rng)
    clip = stage.residuals.clip
    in_clips = replace(effects, values=tuple(values / clip for values in effects.values))
    stacking = even_stacking(in_clips)
    yield from stage.look(effects.start(grids, stacking))

    def slope_at(model: Additive) -> Flow[surfaces.Slope]:
        yield from stage.look(model)
        return surfaces.Slope.of_number(stage.loss, count.records)

    surface_model = yield from surfaces.learn_surfaces(
        effects,
        stacking,
        grids,
        DESCENT_FRACTION,
        stage.shares_rounds,
        surfaces.Slope.of_number(stage.loss, count.records),
        slope_at,
    )
    model = stage.clipped(surface_model.score())
    yield from stage.look(model)
    side = np.sqrt(count.records / (RECORDS_PER_CELL * max(count.deviation, 1e-9)))
    groups = int(np.clip(side, *SURFACE_GROUPS))
    pairs = pair_surfaces(effects, model, grids, n_columns, groups)
    together = -(-len(pairs) // SHARED_TABLE_ROUNDS) if stage.shares_rounds else 1
    rounds = Rounds(equal_sizes(len(pairs), max(together, 1)), SURFACES_FRACTION)
    update = partial(stage.update, rate=1.0, overlap=TABLES_OVERLAP)
    model, of_pairs = yield from boost(rounds, TableTrees(pairs), update, model, rng)
    of_tables = [*(tree.deviations for tree in surface_model.trees), *of_pairs]
    spent = CURVES_FRACTION + DESCENT_FRACTION + 3 * LOOK_FRACTION
    spent += SURFACES_FRACTION if pairs else 0
    return LearnedTables(effects, model, surface_model.curve_noise(), of_tables, spent)


def _curves(
    count: private_bins.NoisyCount, stage: Stage, grids: Grids, rng: Rng
) -> Flow[FeatureEffects]:
    """The curves of all columns, each with mean 0, from one round of tables around the mean."""
    target, width = stage.target, stage.target.high - stage.target.low
    middles = np.clip(target.middles, target.low, target.high)
    base = float(canonical(np.average(middles, weights=target.weights)))
    sizes, order = np.abs(middles - base), np.argsort(np.abs(middles - base), kind="stable")
    stage.residuals = clipped_residuals(sizes[order], target.weights[order], width)
    tables = [of_column(grids, j, count.records) for j in grids.active]
    numbers, start = range(len(tables)), Additive((base,))
    batch = Batch(numbers, stage.update(1), start, CURVES_FRACTION)
    trees = yield from TableTrees(tables).grow(batch, rng)
    masses = tuple(np.maximum(table.rows, 0.0) for table in tables)
    pairs = [(m, noisy.tree.values) for m, noisy in zip(masses, trees, strict=True)]
    values = tuple(canonical(v - m @ v / max(float(m.sum()), 1.0)) for m, v in pairs)
    noise = tuple(noisy.deviations for noisy in trees)
    return FeatureEffects(np.array([base]), grids.active, values, masses, noise)


def depth_by_noise(count: private_bins.NoisyCount, fraction: Fraction) -> int:
    """Levels of trees that get this fraction of the budget each."""
    noise = count.deviation * np.sqrt((1.0 + ROW_WEIGHT**2) / float(fraction))
    leaves = count.records / (ROWS_PER_NOISE * max(noise, 1.0))
    return int(np.clip(np.rint(np.log2(max(leaves, 1.0))), LEAST_BOOSTED_DEPTH, MOST_BOOSTED_DEPTH))


def clipped_residuals(sizes: FloatArray, rows: FloatArray, width: float) -> Residuals:
    """The clip, from the rows by size of residual."""
    below = np.cumsum(rows) / rows.sum()
    place = min(int(np.searchsorted(below, 1.0 - RESIDUAL_TAIL)), len(sizes) - 1)
    clip = min(float(canonical(max(sizes[place], SMALLEST_CLIP * width))), width)
    return Residuals(clip, float(np.average(np.minimum(sizes, clip) ** 2, weights=rows)))


def class_cuts(target: TargetShape) -> tuple[float, ...]:
    """Cuts of the target into classes of equal noisy mass; each has at least one cell."""
    below = np.cumsum(target.weights) / target.weights.sum()  # rows at or below each cell
    places = np.searchsorted(below, np.arange(1, TARGET_CLASSES) / TARGET_CLASSES)
    places = np.maximum(places, 1)
    half = (target.middles[1] - target.middles[0]) / 2.0
    return tuple(float(v) for v in np.unique(target.middles[places] - half))


def class_means(target: TargetShape, cuts: tuple[float, ...]) -> FloatArray:
    """Mean target of each class."""
    cell_class = np.searchsorted(np.asarray(cuts), target.middles, side="right")
    weights = target.weights + 1e-9
    sums = np.bincount(cell_class, weights * target.middles, minlength=len(cuts) + 1)
    return np.asarray(sums / np.bincount(cell_class, weights, minlength=len(cuts) + 1))


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
