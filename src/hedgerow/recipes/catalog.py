"""One of each kind of recipe, for the tests that every recipe inherits, and what they need."""

from __future__ import annotations

from fractions import Fraction

from hedgerow.learning.bins.cut_points import QuantileCuts
from hedgerow.learning.choosing.screening import Refinement
from hedgerow.recipes.ours.boost_classes import SmoothedBoost
from hedgerow.recipes.ours.boost_numbers import RegressionBoost
from hedgerow.recipes.ours.forest import GuidedForest
from hedgerow.recipes.ours.tree import ScreenedTree
from hedgerow.recipes.papers.consul import Cuts, MedianForest
from hedgerow.recipes.papers.gubler import HistogramTree
from hedgerow.recipes.papers.liu import ExtraTrees, SplitRule
from hedgerow.recipes.papers.maddock import NAMED, Boosted, Splits, Updates
from hedgerow.recipes.papers.wang import Finding, TopDown
from hedgerow.recipes.recipe import Recipe
from hedgerow.values.schema import Schema

ALL: tuple[Recipe, ...] = (
    HistogramTree(max_depth=3),
    HistogramTree(max_depth=2, save_budget=True),
    HistogramTree(max_depth=2, save_budget=True, chunk=3),
    HistogramTree(max_depth=3, combine=True, level_growth=Fraction(3, 2)),
    HistogramTree(max_depth=3, refine=Refinement(keep=2), lean=True),
    SmoothedBoost(n_trees=3),
    Boosted(n_trees=4, depth=1, splits=Splits.PARTIALLY_RANDOM, updates=Updates.GRADIENT),
    Boosted(n_trees=4, depth=1, splits=Splits.HISTOGRAM, cuts=QuantileCuts()),
    NAMED["DP-RF"](3, 3),
    NAMED["DP-TR Batch IH EBM p=0.25"](4, 3),
    ScreenedTree(max_depth=3),
    ScreenedTree(max_depth=2, merge_equal_labels=True),
    ScreenedTree(max_depth=2, regression=True),
    GuidedForest(n_trees=3, max_depth=3),
    GuidedForest(n_trees=2, max_depth=3, regression=True),
    RegressionBoost(n_trees=3, max_depth=2),
    ExtraTrees(n_trees=3, max_depth=4, max_features=2),
    ExtraTrees(n_trees=2, max_depth=2, subsample=2),
    ExtraTrees(n_trees=2, max_depth=3, split=SplitRule.RANDOM),
    ExtraTrees(n_trees=2, max_depth=3, regression=True),
    ExtraTrees(n_trees=2, max_depth=3, lean=True),
    TopDown(max_splits=4),
    TopDown(max_splits=4, refine=Refinement(prior=False, bins=None), lean=True),
    TopDown(max_splits=3, finding=Finding.NOISY_MAX, rows_at_most=1000),
    TopDown(max_splits=3, finding=Finding.LOCAL_CHOICE, consistency=False),
    MedianForest(n_trees=2, max_depth=2, cuts=Cuts.GRID),
    MedianForest(n_trees=2, max_depth=2, cuts=Cuts.MEDIANS, n_candidates=2, regression=True),
    MedianForest(n_trees=2, max_depth=2, cuts=Cuts.MEDIAN, folds=False, lean=False),
    MedianForest(n_trees=2, max_depth=2, cuts=Cuts.TABLE, n_candidates=2, folds=False),
    MedianForest(n_trees=2, cuts=Cuts.TABLE, regression=True),
)


def is_regression(recipe: Recipe) -> bool:
    return bool(getattr(recipe, "regression", False))


def is_multiclass(recipe: Recipe) -> bool:
    return bool(getattr(recipe, "multiclass", True))


def depends_on_the_division(recipe: Recipe) -> bool:
    """Whether sites choose on their own rows, so that who holds what changes the model.

    Draws of a record are secrets of its site, so a subsample depends on the division too.
    """
    return (
        bool(getattr(recipe, "local_choices", False))
        or bool(getattr(recipe, "save_budget", False))
        or getattr(recipe, "subsample", None) is not None
    )


def answers(recipe: Recipe, parties: int, pure: bool) -> bool:
    """Whether the recipe runs over that many parties under that accountant."""
    one_holder = bool(getattr(recipe, "one_holder", False))
    gaussian_only = bool(getattr(recipe, "gaussian_only", False))
    return not (one_holder and parties > 1) and not (gaussian_only and pure)


def schema_for(recipe: Recipe, schema: Schema) -> Schema:
    """The schema on the grid a recipe wants."""
    spacing = getattr(recipe, "spacing", None)
    return schema if spacing is None else schema.with_grid(spacing=spacing)
