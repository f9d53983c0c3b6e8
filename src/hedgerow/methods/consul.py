"""A forest of balanced trees: DiPriMe of Consul and Williamson 2020, corrected."""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction
from functools import partial
from typing import Any, Literal

import numpy as np

from hedgerow.methods.base import PrivateClassifier, PrivateRegressor
from hedgerow.methods.blocks import medians
from hedgerow.methods.blocks.builder import Chooser, Node, TreePlan, grow
from hedgerow.methods.blocks.flow import Flow, NoiseModel, ask, together
from hedgerow.methods.blocks.histograms import HistogramRules
from hedgerow.methods.blocks.leaves import by_one_sum, shrinkage_of
from hedgerow.methods.blocks.public_grids import fine_schema, thin_cells
from hedgerow.methods.blocks.scores import gini
from hedgerow.methods.blocks.selection import MechanismName, SelectionRules
from hedgerow.methods.blocks.sizes import Scale
from hedgerow.methods.blocks.tables import DyadicTables
from hedgerow.methods.blocks.target import (
    SIZE_FRACTION,
    TrainingTarget,
    declared_target,
    target_statistic,
)
from hedgerow.methods.constants import constant
from hedgerow.methods.liu import ExtraTreesClassifier, ExtraTreesRegressor
from hedgerow.methods.method import Method, TrainingResult, Values, mean_of, method
from hedgerow.methods.multiway import (
    MultiwayForestClassifier,
    MultiwayForestRegressor,
    score_of,
)
from hedgerow.methods.parameters import estimator, parameter, when
from hedgerow.methods.presets import Departure, preset
from hedgerow.models.uncertainty import LeafStatistics
from hedgerow.privacy.bundles import Size
from hedgerow.privacy.queries import (
    Cells,
    Count,
    Leaves,
    LocalSelection,
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
from hedgerow.schema.arrays import Rng
from hedgerow.schema.candidates import Grids
from hedgerow.schema.regions import EVERYONE, Fold, Step
from hedgerow.schema.rules import FLAG, FRACTION, exact, number, or_none, rule_of, whole
from hedgerow.schema.schema import Schema

FINE_CELLS = constant(64, unit="bins", evidence="trees.md#0051")
"""Bins where more of them cost little: in a selection, in a dyadic table."""
COARSE_CELLS = constant(16, unit="bins", evidence="trees.md#0051")
"""Bins in a flat table, where every bin adds noise."""
TABLE_FEATURES = constant(5, unit="features", evidence="trees.md#0051")
"""Features of a table; each one more divides the budget."""

PAPER = "Consul and Williamson 2020"
DEPARTURES = (
    Departure("leaf values are shrunk towards their ancestors", {"shrinkage": False}),
    Departure("all trees use all rows and divide the budget", {"folds": True}),
    Departure(
        "each of the K medians that DiPriMeExp and DiPriMeFlip use is charged",
        published_as=("diprime_exp_as_published", "diprime_flip_as_published"),
    ),
    Departure(
        "folds by independent draws, not by a shuffle into equal parts",
        unsound="the sizes of equal parts reveal more than they are charged for",
    ),
    Departure(
        "each of several sites selects on its own rows",
        reason="the paper has one site; a secure sum would open every score",
    ),
    Departure(
        "leaf means from complementary fractional counts",
        unsound="noise scaled by the private number of rows of a leaf reveals that number",
    ),
    Departure(
        "cuts come from a public grid; categories are scored by balance with the sign that prefers "
        "balance",
        unsound="a cut on the real line is a value of a record; the paper's sign prefers imbalance",
    ),
    Departure(
        "DP-RF: all rows and no bootstrap sample, scores scaled by counts, and the depth alone "
        "ends a path; DP-DF: scores scaled by counts",
        unsound="a record may appear many times in a bootstrap sample; the sensitivity at the "
        "private number of rows has no bound",
    ),
)
SIZE = SumQuery(EVERYONE, Count(), Whole(), SIZE_FRACTION)
"""The number of rows, which determines the depth."""

MOST_SHORTLISTED = constant(5, unit="splits", evidence="trees.md#0164")
"""Splits that several sites selected and that are counted; each divides the budget."""

MedianSplit = Literal["median", "medians", "grid", "table"]
"""How a node selects its split; see hedgerow.methods.blocks.medians."""
BY_TARGET = ("grid", "medians")
SELECTED = (*BY_TARGET, "median")
"""Splits that sites select by exact scores instead of noisy tables."""


@method(
    "median_forest",
    test_settings=(
        {"n_estimators": 2, "max_depth": 2, "split": "grid"},
        {"n_estimators": 2, "max_depth": 2, "split": "medians", "max_features": 2},
        {"n_estimators": 2, "max_depth": 2, "split": "median", "folds": False, "shrinkage": False},
        {"n_estimators": 2, "max_depth": 2, "split": "table", "max_features": 2, "folds": False},
        {"n_estimators": 2, "split": "table"},
    ),
)
class MedianForest(Method):
    """Trees on disjoint folds of the rows, or all trees on all rows.

    `leaf_fraction` of the budget is for the leaves; the rest is divided equally among the levels.
    With `folds`, each record secretly draws its tree and pays for one tree; without, each of T
    trees has 1 / T of the budget; None uses folds under Laplace noise only. `max_depth` None asks
    for the number of rows with 1 % of the budget and gives leaves about `rows_per_leaf` of them.
    `max_features` None uses all features, in tables five. `mechanism` None is permute-and-flip for
    pure epsilon and, under Gaussian noise, the exponential mechanism, which is cheaper there.

    Differences from Algorithms 1 and 2: `DEPARTURES`.
    """

    n_estimators: int = parameter(
        default=1,
        rule=whole(1),
        text="Trees. One tree on all rows was better than several on parts of them, see "
        "docs/results/consul.md.",
    )
    max_depth: int | None = parameter(
        default=None,
        rule=or_none(whole(1)),
        text="Levels of splits. None spends 1 % of the budget on a noisy number of rows and takes "
        "as many levels as leave about `rows_per_leaf` rows in a leaf.",
    )
    rows_per_leaf: float = parameter(
        default=20.0,
        rule=number(above=0.0),
        used_with=(when(max_depth=None),),
        text="Expected rows of a leaf.",
    )
    max_features: int | None = parameter(
        default=None,
        rule=or_none(whole(1)),
        used_with=(when(split=(*BY_TARGET, "table")),),
        text="Features that a node considers, drawn anew for each (K in the paper); None is all of "
        "them, and five for 'table'.",
    )
    leaf_fraction: float = parameter(
        default=0.3,
        rule=FRACTION,
        text="Fraction of the budget for the leaves; the splits of a path get the rest (rho in the "
        "paper).",
    )
    split: MedianSplit = parameter(
        default="grid",
        text="How a node finds its split. 'grid': one private selection among all features and "
        "cuts. 'medians': a private median of each considered feature, then one of them, as in the "
        "paper, with each median charged. 'median': a random feature, split at its private median. "
        "'table': medians from noisy tables. Each of several sites selects on its own rows: the "
        "middle of their medians is taken, and the best of their splits by noisy counts.",
    )
    mechanism: MechanismName | None = parameter(
        default=None,
        rule=or_none(rule_of(MechanismName)),
        used_with=(when(split=SELECTED),),
        text="The mechanism of a site's private selections. None is 'permute_and_flip' for "
        "delta = 0, and 'exponential', which is cheaper there, for delta > 0.",
    )
    folds: bool | None = parameter(
        default=None,
        rule=or_none(FLAG),
        text="Whether every record draws the one tree it is used for, or all trees use all rows "
        "and divide the budget. None is True under Laplace noise (delta = 0), where both have the "
        "same noise, and False otherwise.",
    )
    shrinkage: bool = parameter(
        default=True,
        text="Whether leaf values are shrunk towards their ancestors; False is the paper's plain "
        "leaf. Free of charge.",
    )

    def asks(self, schema: Schema) -> QueryKinds:
        """Selections of both kinds: of one site, and of each of several."""
        size = sums(Count, Whole) if self.max_depth is None else frozenset()
        kinds = size | sums(target_statistic(schema), Leaves)
        if self.split == "table":
            return kinds | sums(target_statistic(schema), Cells)
        scores = [Score.BALANCE] * (self.split != "grid")
        scores += [score_of(schema)] * (self.split in BY_TARGET)
        return kinds | choices(SelectQuery, *scores) | choices(LocalSelection, *scores)

    def grid(self, schema: Schema) -> Schema:
        return fine_schema(schema)

    def largest(self, schema: Schema) -> Size:
        scale = Scale(schema)
        depth = self.max_depth or medians.MOST_BOUGHT_DEPTH
        size = scale.total() if self.max_depth is None else Size()
        for level in range(scale.deepest(depth)):
            size += self._largest_level(scale, level, self.n_estimators * scale.nodes(level))
        leaves = scale.leaves(depth)
        return size + scale.trees(1, leaves, channels=scale.channels, queries=self.n_estimators)

    def _largest_level(self, scale: Scale, level: int, nodes: int) -> Size:
        looks = min(self.max_features or scale.columns, scale.columns)
        cuts = looks * max(scale.cells, medians.MOST_HALVES)
        split = {"candidates": cuts, "runs": looks * medians.MOST_HALVES, "depth": level}
        grid = scale.choices(nodes, **split)
        if self.split == "table":
            columns = self.max_features or TABLE_FEATURES
            widths = scale.cells.bit_length()
            channels = scale.channels
            return scale.tables(nodes * widths, channels=channels, depth=level, columns=columns)
        if self.split == "median":
            return grid
        if self.split == "medians":
            grid += scale.choices(nodes * looks, **split)
        channels = scale.channels
        counts = scale.trees(MOST_SHORTLISTED, 2, channels=channels, queries=nodes, depth=level)
        return grid + replace(counts, rounds_alone=0)  # one site needs no counts

    def flow(self, schema: Schema, noise_model: NoiseModel, rng: Rng) -> Flow[TrainingResult]:
        folds = self.folds
        if folds is None:  # Laplace noise is the same for a tree on a fold and on all rows
            folds = noise_model.is_pure and noise_model.variance(SIZE) > 0.0
        spent = Fraction(0) if self.max_depth is not None else SIZE_FRACTION
        depth = self.max_depth
        if depth is None:
            rows = float((yield from ask(SIZE)).values[0, 0, 0])
            depth = medians.depth_for(
                rows / (self.n_estimators if folds else 1), self.rows_per_leaf
            )
        budget = (1 - spent) / (1 if folds else self.n_estimators)
        target, leaf_fraction = declared_target(schema), budget * exact(self.leaf_fraction)
        level_fraction = (budget - leaf_fraction) / depth
        choose = self._chooser(schema, target, noise_model, level_fraction, depth)
        shrinkage = shrinkage_of(target) if self.shrinkage else None

        def tree(number: int, seed: int) -> Flow[LeafStatistics]:
            root = (Step(Fold("trees", self.n_estimators), number),) if folds else EVERYONE
            ends = by_one_sum(target, leaf_fraction, root, schema.names, shrinkage)
            plan = TreePlan(choose, depth, ends)
            return grow(plan, schema.names, np.random.default_rng(seed), Node(root))

        seeds = rng.integers(2**63, size=self.n_estimators).tolist()
        statistics = yield from together({t: tree(t, seed) for t, seed in enumerate(seeds)})
        return TrainingResult(
            mean_of([g.tree for g in statistics.values()]), tuple(statistics.values())
        )

    def _chooser(
        self,
        schema: Schema,
        target: TrainingTarget,
        noise_model: NoiseModel,
        fraction: Fraction,
        depth: int,
    ) -> Chooser:
        """Tables have few bins, flat, under Laplace noise, and many, dyadic, under Gaussian."""
        is_pure, has_tables = noise_model.is_pure, self.split == "table"
        grids = Grids(
            schema, thin_cells(schema, COARSE_CELLS if has_tables and is_pure else FINE_CELLS)
        )
        usual = Mechanism.PERMUTE_AND_FLIP if is_pure else Mechanism.EXPONENTIAL
        selection = SelectionRules(
            grids,
            target.statistic,
            gini,
            Scoring(score_of(schema)),
            Mechanism(self.mechanism or usual),
            most_counted=MOST_SHORTLISTED,
        )
        looks = self.max_features or (TABLE_FEATURES if has_tables else None)
        rules = medians.MedianRules(looks, selection, several=noise_model.n_sites > 1)
        if self.split == "median":
            return medians.at_median(rules, fraction)
        if self.split == "medians":
            return medians.among_medians(rules, fraction)
        if has_tables and is_pure:
            flat = medians.flat_tables(HistogramRules(grids, target.statistic, gini), fraction)
            return medians.at_noisy_medians(rules, flat, gini, fraction)
        if has_tables:
            dyadic = partial(DyadicTables(grids, target.statistic).ask, fraction=fraction)
            return medians.at_noisy_medians(rules, dyadic, gini, fraction)
        if not target.shape:
            return medians.among_cuts(rules, fraction, lambda level: 0)
        noise = math.sqrt(noise_model.variance(replace(SIZE, fraction=fraction)))
        return medians.among_cuts(rules, fraction, medians.balance_below(depth, noise))


@estimator
class MedianForestClassifier(PrivateClassifier, MedianForest):
    """Trees of private medians: DiPriMe, Consul and Williamson 2020, corrected; for classes.

    Corrected means: everything that leaves a site is charged in full. The paper charges one median
    and looks at several; here each is charged (studies/notes/trees.md#0050).

    Examples
    --------
    >>> import hedgerow as hr
    >>> columns = (hr.Numeric("age", 0, 100), hr.Numeric("dose", 0, 10))
    >>> schema = hr.Schema(columns, classes=("no", "yes"))
    >>> X = [[20, 1], [30, 2], [70, 8], [80, 9]] * 500
    >>> y = ["no", "no", "yes", "yes"] * 500
    >>> model = hr.MedianForestClassifier(schema, epsilon=10.0).fit(X, y)
    >>> model.predict([[20, 1], [80, 9]])
    array(['no', 'yes'], dtype='<U3')

    """


@estimator
class MedianForestRegressor(PrivateRegressor, MedianForest):
    """DiPriMe for a numeric target; see MedianForestClassifier.

    Examples
    --------
    >>> import hedgerow as hr
    >>> columns = (hr.Numeric("age", 0, 100), hr.Numeric("dose", 0, 10))
    >>> schema = hr.Schema(columns, target=hr.Target(0, 100))
    >>> X = [[20, 1], [30, 2], [70, 8], [80, 9]] * 500
    >>> y = [10, 20, 80, 90] * 500
    >>> model = hr.MedianForestRegressor(schema, epsilon=10.0).fit(X, y)
    >>> low, high = model.predict([[20, 1], [80, 9]])
    >>> bool(low < high)
    True

    """


# `max_depth=None, rows_per_leaf=25` takes the depth as the paper's tables do, from a number of
# rows that is asked privately. DP-RF and DP-DF need one site with all rows.
PURE = {"delta": 0.0, "n_estimators": 10}
CONSUL_DEFAULTS = {**PURE, "max_depth": 5, "leaf_fraction": 0.5, "folds": True, "shrinkage": False}
"""10 trees on disjoint parts of the rows, half of the budget for the splits, plain leaves."""
FIVE_FEATURES = {**CONSUL_DEFAULTS, "max_features": 5}
EXP = {"split": "medians", "mechanism": "exponential"}
FLIP = {"split": "medians", "mechanism": "permute_and_flip"}


def honest_factor_of_medians(k: int, rho: Fraction = Fraction(1, 2)) -> Fraction:
    """The true cost of DiPriMeExp and DiPriMeFlip, in units of their published epsilon.

    A level has epsilon_s = epsilon_a = rho epsilon / 2 d: each of k medians costs epsilon_s, and
    the choice half of epsilon_a, since its score is monotone.
    """
    return 1 - rho + rho * (k + Fraction(1, 2)) / 2


def excess_squared_error(rows: int, least: int, leaf_epsilon: float, bound: float) -> float:
    """Theorem 1: an upper bound on the excess error of a private median split over the exact one.

    Each side has at least `least` rows; targets lie within plus or minus `bound`.
    """
    return bound**2 * (4.0 * rows - 8.0 * least + 16.0 / (leaf_epsilon**2 * least))


def accuracy_loss(least: int, leaf_epsilon: float, purity: float) -> float:
    """Theorem 2: an upper bound on the accuracy lost by noisy counts of at least `least` rows a
    side.

    `purity` is the share of the more common class in the less pure side.
    """
    x = leaf_epsilon * least * (2.0 * purity - 1.0)
    return (x / 4.0 + 0.5) * math.exp(-x)


def balance_probability(spread: float, split_epsilon: float) -> float:
    """Theorem 3: a lower bound on the probability that a private median leaves t rows on each side.

    `spread` is the fraction of the range that all but the t outermost rows of each end cover; an
    epsilon of 0 is a random cut, as in DP-ERT.
    """
    outside = math.exp(-split_epsilon)
    return spread / (outside + spread * (1.0 - outside))


def _printed_factor(schema: Schema, values: Values) -> Fraction:
    n = len(schema.features)
    k = min(values["max_features"] or n, n)
    return honest_factor_of_medians(k, exact(values["rho"], "rho"))


def _printed_leaves(schema: Any, values: Values) -> Values:
    part = 1 - exact(values["rho"], "rho")
    return {"leaf_fraction": float(part / _printed_factor(schema, values))}


def _switch_off_pruning(schema: Any, values: Values) -> Values:
    """Pruning is off for a regression."""
    is_number = isinstance(schema, Schema) and schema.target is not None
    return {} if is_number else {"prune": False}


def _medians(name: str, title: str, words: str, fixed: Values, usual: Values, **more: Any) -> Any:
    kinds = MedianForestClassifier, MedianForestRegressor
    return preset(
        name, title, *kinds, words=words, fixed_parameters=fixed, usual=usual, file=__name__, **more
    )


def _published(name: str, title: str, fixed: Values) -> Any:
    return _medians(
        f"{name}_as_published",
        f"{title} as published",
        "the paper's budgets, at their true epsilon.",
        fixed,
        FIVE_FEATURES,
        rows={f"{title}, as published": "schema, published_epsilon=2.0"},
        own={"rho": 0.5},
        factor=_printed_factor,
        derive=_printed_leaves,
    )


diprime = _medians(
    "diprime",
    "DiPriMe",
    "a random feature, cut at its private median by the exponential mechanism.",
    {"split": "median", "mechanism": "exponential"},
    CONSUL_DEFAULTS,
    rows={"DiPriMe": "", "DiPriMe, regression": "numbers"},
)
diprime_exp = _medians(
    "diprime_exp",
    "DiPriMeExp",
    "K private medians, each charged, and one of them selected by the target.",
    EXP,
    FIVE_FEATURES,
    rows={"DiPriMeExp, each median paid": "", "DiPriMeExp, regression": "numbers"},
)
diprime_exp_as_published = _published("diprime_exp", "DiPriMeExp", EXP)
diprime_flip = _medians(
    "diprime_flip",
    "DiPriMeFlip",
    "DiPriMeExp with permute-and-flip, each median charged.",
    FLIP,
    FIVE_FEATURES,
    rows={"DiPriMeFlip, each median paid": "", "DiPriMeFlip, regression": "numbers"},
)
diprime_flip_as_published = _published("diprime_flip", "DiPriMeFlip", FLIP)
dp_ert = preset(
    "dp_ert",
    "DP-ERT",
    ExtraTreesClassifier,
    ExtraTreesRegressor,
    words="random splits; the whole budget is for the leaves (Bojarski et al. 2014).",
    fixed_parameters={"split": "random"},
    usual={**PURE, "max_depth": 5, "shrinkage": False},
    rows={"DP-ERT": "", "DP-ERT, regression": "numbers"},
)
dp_rf = preset(
    "dp_rf",
    "DP-RF",
    MultiwayForestClassifier,
    MultiwayForestRegressor,
    words="a branch for every bin of a privately chosen feature (Patil and Singh 2014).",
    usual={**PURE, "max_features": 5, "n_bins": 5},
    rows={"DP-RF": "", "DP-RF, regression": "numbers"},
    derive=_switch_off_pruning,
)
dp_df = preset(
    "dp_df",
    "DP-DF",
    MultiwayForestClassifier,
    words="the same, pruned by noisy counts of every level (Fletcher and Islam 2015).",
    fixed_parameters={"prune": True},
    usual={**PURE, "n_bins": 5, "min_samples_split": 25.0},
)
