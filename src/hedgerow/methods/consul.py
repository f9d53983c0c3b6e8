"""A forest of balanced trees: DiPriMe of Consul and Williamson 2020, made sound."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from enum import Enum
from fractions import Fraction

import numpy as np

from hedgerow.errors import SpecError
from hedgerow.methods.blocks import medians
from hedgerow.methods.blocks.builder import Chooser, LevelOrder, Node, TreePlan, grow
from hedgerow.methods.blocks.dyadic import DyadicTables
from hedgerow.methods.blocks.flow import Flow, Quote, ask, together
from hedgerow.methods.blocks.goal import SIZE_SHARE, Goal, declared_goal, goal_statistic
from hedgerow.methods.blocks.histograms import HistogramRules
from hedgerow.methods.blocks.leaves import by_one_sum, lean_of
from hedgerow.methods.blocks.public_grids import fine_schema, thinned
from hedgerow.methods.blocks.scores import gini
from hedgerow.methods.blocks.sizes import Scale
from hedgerow.methods.method import Needs, Trained, mean_of
from hedgerow.models.uncertainty import Grown
from hedgerow.privacy.bundles import Size
from hedgerow.privacy.queries import (
    Cells,
    Count,
    Leaves,
    Mechanism,
    QueryKinds,
    Score,
    Scoring,
    SelectQuery,
    SumQuery,
    Whole,
    choices,
    sums,
)
from hedgerow.schema.candidates import Grids
from hedgerow.schema.regions import EVERYONE, Fold, Step
from hedgerow.schema.schema import Schema

FINE_CELLS = 64
"""Bins of a numeric feature where more of them cost little: in a choice, in a dyadic table."""
COARSE_CELLS = 16
"""And in a flat table, where every bin brings noise."""
TABLE_FEATURES = 5
"""Features of a table; each one more divides the budget."""
SIZE = SumQuery(EVERYONE, Count(), Whole(), SIZE_SHARE)
"""The number of rows, for the depth."""


class MedianSplit(Enum):
    """How a node takes its split; see hedgerow.methods.blocks.medians."""

    MEDIAN = "median"  # a feature at random, its private median
    MEDIANS = "medians"  # the private medians of K features, one of them by the target
    GRID = "grid"  # one choice among all cuts of K features by the target
    TABLE = "table"  # medians of K features from noisy tables: any number of holders


def _folds_pay(quote: Quote) -> bool:
    """Laplace noise is the same for a tree on a fold and on all rows; all other noise is not."""
    return quote.is_pure and quote.variance(SIZE) > 0.0


@dataclass(frozen=True, kw_only=True)
class MedianForest:
    """Trees on disjoint folds of the rows, or all trees on all rows.

    Of the budget, `leaf_share` is for the leaves and the rest is divided equally among the levels.
    With `folds`, every record draws its tree by itself, so a record pays for one tree; without,
    each of T trees has 1 / T of the budget; None is folds under Laplace noise only. `max_depth`
    None buys the number of rows for 1 % and lets leaves expect `rows_per_leaf` of them. `split`
    None is one choice on the grid for one holder and tables for several. `max_features` None
    looks at all features, in tables at five.
    `mechanism` None is permute-and-flip for pure epsilon and, under Gaussian noise, the
    exponential mechanism, which is cheaper there.

    Departures from Algorithms 1 and 2: those of the choosers; folds by independent draws and not
    by a shuffle into equal parts, which tells more than it charges; leaf means from complementary
    fractional counts and not with noise scaled by the private number of rows; with `lean`, leaves
    lean on the nodes above them.
    """

    n_trees: int = 1
    max_depth: int | None = None
    rows_per_leaf: float = 20.0
    max_features: int | None = None
    leaf_share: Fraction = Fraction(3, 10)
    split: MedianSplit | None = None
    mechanism: Mechanism | None = None
    folds: bool | None = None
    lean: bool = True

    @property
    def name(self) -> str:
        return "median_forest"

    @property
    def needs(self) -> Needs:
        return Needs(one_holder=self.split not in (None, MedianSplit.TABLE))

    def asks(self, schema: Schema) -> QueryKinds:
        """`split` None is one choice for one holder and tables for several, so both are named."""
        size = sums(Count, Whole) if self.max_depth is None else frozenset()
        kinds = size | sums(goal_statistic(schema), Leaves)
        if self.split in (None, MedianSplit.TABLE):
            kinds |= sums(goal_statistic(schema), Cells)
        if self.split is not MedianSplit.TABLE:
            kinds |= choices(SelectQuery, Score.BALANCE, _score(schema))
        return kinds

    def grid(self, schema: Schema) -> Schema:
        return fine_schema(schema)

    def largest(self, schema: Schema) -> Size:
        scale = Scale(schema)
        depth = self.max_depth or medians.MOST_BOUGHT_DEPTH
        size = scale.total() if self.max_depth is None else Size()
        for level in range(scale.deepest(depth)):
            size += self._largest_level(scale, level, self.n_trees * scale.nodes(level))
        leaves = scale.leaves(depth)
        return size + scale.trees(1, leaves, channels=scale.channels, queries=self.n_trees)

    def _largest_level(self, scale: Scale, level: int, nodes: int) -> Size:
        looks = min(self.max_features or scale.columns, scale.columns)
        cuts = looks * max(scale.cells, medians.MOST_HALVES)
        split = {"candidates": cuts, "runs": looks * medians.MOST_HALVES, "depth": level}
        grid = scale.choices(nodes, **split)
        columns = self.max_features or TABLE_FEATURES
        widths = scale.cells.bit_length()
        table = scale.tables(nodes * widths, channels=scale.channels, depth=level, columns=columns)
        match self.split:
            case None:
                return grid | table
            case MedianSplit.TABLE:
                return table
            case MedianSplit.MEDIANS:
                return scale.choices(nodes * looks, **split) + grid
            case MedianSplit.MEDIAN | MedianSplit.GRID:
                return grid

    def flow(self, schema: Schema, quote: Quote, rng: np.random.Generator) -> Flow[Trained]:
        split = self._split(quote)
        folds = _folds_pay(quote) if self.folds is None else self.folds
        spent = Fraction(0) if self.max_depth is not None else SIZE_SHARE
        depth = self.max_depth or (yield from self._bought_depth(folds))
        budget = (1 - spent) / (1 if folds else self.n_trees)
        goal = declared_goal(schema)
        level_share = budget * (1 - self.leaf_share) / depth
        choose = self._chooser(split, schema, goal, quote, level_share, depth)
        leaf_share, lean = budget * self.leaf_share, lean_of(goal) if self.lean else None

        def tree(number: int, seed: int) -> Flow[Grown]:
            root = (Step(Fold("trees", self.n_trees), number),) if folds else EVERYONE
            ends = by_one_sum(goal, leaf_share, root, schema.names, lean)
            plan = TreePlan(choose, LevelOrder(), depth, ends)
            return grow(plan, schema.names, np.random.default_rng(seed), Node(root))

        seeds = rng.integers(2**63, size=self.n_trees).tolist()
        grown = yield from together({t: tree(t, seed) for t, seed in enumerate(seeds)})
        return Trained(mean_of([g.tree for g in grown.values()]), tuple(grown.values()))

    def _bought_depth(self, folds: bool) -> Flow[int]:
        answer = yield from ask(SIZE)
        rows = float(answer.values[0, 0, 0]) / (self.n_trees if folds else 1)
        return medians.depth_for(rows, self.rows_per_leaf)

    def _split(self, quote: Quote) -> MedianSplit:
        split = self.split or (MedianSplit.GRID if quote.parties == 1 else MedianSplit.TABLE)
        if split is MedianSplit.TABLE and self.mechanism is not None:
            raise SpecError(
                f"mechanism is {self.mechanism.value!r}, but nodes split at medians of noisy "
                "tables, as several holders must; leave it at None."
            )
        return split

    def _chooser(
        self,
        split: MedianSplit,
        schema: Schema,
        goal: Goal,
        quote: Quote,
        share: Fraction,
        depth: int,
    ) -> Chooser:
        if split is MedianSplit.TABLE:
            return self._table_chooser(schema, goal, quote, share)
        rules = self._rules(Grids(schema, thinned(schema, FINE_CELLS)), quote, self.max_features)
        match split:
            case MedianSplit.MEDIAN:
                return medians.at_median(rules, share)
            case MedianSplit.MEDIANS:
                return medians.among_medians(rules, share)
            case MedianSplit.GRID:
                if not goal.shape:
                    return medians.among_cuts(rules, share, medians.no_balance)
                noise = math.sqrt(quote.variance(replace(SIZE, share=share)))
                return medians.among_cuts(rules, share, medians.balance_below(depth, noise))

    def _table_chooser(self, schema: Schema, goal: Goal, quote: Quote, share: Fraction) -> Chooser:
        """Flat tables of few bins under Laplace noise, dyadic ones of many under Gaussian noise."""
        grids = Grids(schema, thinned(schema, COARSE_CELLS if quote.is_pure else FINE_CELLS))
        rules = self._rules(grids, quote, self.max_features or TABLE_FEATURES)
        if quote.is_pure:
            tables = medians.flat_tables(HistogramRules(grids, goal.statistic, gini), share)
        else:
            tables = medians.dyadic_tables(DyadicTables(grids, goal.statistic), share)
        return medians.at_noisy_medians(rules, tables, gini, share)

    def _rules(self, grids: Grids, quote: Quote, k: int | None) -> medians.MedianRules:
        usual = Mechanism.PERMUTE_AND_FLIP if quote.is_pure else Mechanism.EXPONENTIAL
        scoring = Scoring(_score(grids.schema))
        return medians.MedianRules(grids, k, scoring, self.mechanism or usual)


def _score(schema: Schema) -> Score:
    return Score.GINI if schema.target is None else Score.SQUARED_ERROR
