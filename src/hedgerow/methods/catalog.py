"""One of each kind of recipe: a new one that is listed here inherits the tests of all of them."""

from __future__ import annotations

from hedgerow.methods.blocks.screening import Refinement
from hedgerow.methods.boosting_classes import SmoothedBoost
from hedgerow.methods.boosting_numbers import RegressionBoost
from hedgerow.methods.consul import MedianForest, MedianSplit
from hedgerow.methods.forest import GuidedForest
from hedgerow.methods.gubler import HistogramTree
from hedgerow.methods.liu import ExtraTrees, LeanOn, SplitRule
from hedgerow.methods.maddock import ComponentBoosting
from hedgerow.methods.method import Recipe
from hedgerow.methods.multiway import KaryForest, PrunedKaryForest
from hedgerow.methods.tree import ScreenedClassTree, ScreenedTree
from hedgerow.methods.wang import Finding, PerTable, TopDown
from hedgerow.privacy.queries import Mechanism

BOOSTED = SmoothedBoost, ComponentBoosting, RegressionBoost
ALL: tuple[Recipe, ...] = (
    HistogramTree(max_depth=3),
    HistogramTree(max_depth=2, save_budget=True),
    HistogramTree(max_depth=2, save_budget=True, chunk=3),
    HistogramTree(max_depth=2, save_budget=True, accounting="printed"),
    HistogramTree(max_depth=2, save_budget=True, accounting="released"),
    HistogramTree(max_depth=3, refine=Refinement(keep=2), lean=True),
    *(kind(**tried) for kind in BOOSTED for tried in kind.tried),
    *(kind(**tried) for kind in (ScreenedTree, ScreenedClassTree) for tried in kind.tried),
    *(GuidedForest(**tried) for tried in GuidedForest.tried),
    ExtraTrees(n_trees=3, max_depth=4, max_features=2),
    ExtraTrees(n_trees=2, max_depth=2, subsample=2),
    ExtraTrees(n_trees=2, max_depth=3, split=SplitRule.RANDOM),
    ExtraTrees(n_trees=2, max_depth=3, lean=LeanOn.ABOVE),
    KaryForest(n_trees=2, max_depth=2, max_features=2),
    PrunedKaryForest(n_trees=2, max_depth=2, min_samples_split=5.0),
    TopDown(max_splits=4),
    TopDown(max_splits=4, refine=Refinement(prior=False, bins=None), lean=True),
    TopDown(max_splits=3, tables=PerTable.SPLIT, consistency=False, ask_all=True),
    TopDown(max_splits=3, split=Finding.CHOICE, rows_at_most=1000),
    TopDown(max_splits=3, split=Finding.LOCAL_CHOICE, mechanism=Mechanism.REPORT_NOISY_MAX),
    TopDown(max_splits=3, split=Finding.LOCAL_CHOICE, consistency=False),
    MedianForest(n_trees=2, max_depth=2, split=MedianSplit.GRID),
    MedianForest(n_trees=2, max_depth=2, split=MedianSplit.MEDIANS, max_features=2),
    MedianForest(n_trees=2, max_depth=2, split=MedianSplit.MEDIAN, folds=False, lean=False),
    MedianForest(n_trees=2, max_depth=2, split=MedianSplit.TABLE, max_features=2, folds=False),
    MedianForest(n_trees=2, split=MedianSplit.TABLE),
)
