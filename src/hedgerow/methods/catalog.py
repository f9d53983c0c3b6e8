"""One of each kind of recipe: a new one that is listed here inherits the tests of all of them."""

from __future__ import annotations

from hedgerow.methods.blocks.cut_points import QuantileCuts
from hedgerow.methods.blocks.iterative_hessian import HessianCuts
from hedgerow.methods.blocks.screening import Refinement
from hedgerow.methods.boosting_classes import SmoothedBoost
from hedgerow.methods.boosting_numbers import RegressionBoost
from hedgerow.methods.consul import MedianForest
from hedgerow.methods.forest import GuidedForest
from hedgerow.methods.gubler import HistogramTree
from hedgerow.methods.liu import ExtraTrees
from hedgerow.methods.maddock import NAMED, Boosted, Splits, Updates
from hedgerow.methods.method import Recipe
from hedgerow.methods.multiway import KaryForest, PrunedKaryForest
from hedgerow.methods.tree import ScreenedTree
from hedgerow.methods.wang import TopDown

ALL: tuple[Recipe, ...] = (
    HistogramTree(max_depth=3),
    HistogramTree(max_depth=2, save_budget=True),
    HistogramTree(max_depth=2, save_budget=True, chunk=3),
    HistogramTree(max_depth=2, save_budget=True, accounting="printed"),
    HistogramTree(max_depth=2, save_budget=True, accounting="released"),
    HistogramTree(max_depth=3, refine=Refinement(keep=2), lean=True),
    SmoothedBoost(n_trees=3),
    Boosted(n_trees=4, max_depth=1, split=Splits.PARTIALLY_RANDOM, update=Updates.GRADIENT),
    Boosted(n_trees=4, max_depth=1, split=Splits.HISTOGRAM, candidates=QuantileCuts()),
    Boosted(n_trees=4, max_depth=1, split=Splits.HISTOGRAM, candidates=HessianCuts(n_bins=8)),
    Boosted(n_trees=3, max_depth=2, split=Splits.HISTOGRAM, features_per_tree=1),
    NAMED["DP-TR Newton IH"](3, 3),
    NAMED["DP-RF"](3, 3),
    NAMED["DP-TR Batch IH EBM p=0.25"](4, 3),
    ScreenedTree(max_depth=3),
    ScreenedTree(max_depth=2, merge_equal_labels=True),
    GuidedForest(n_trees=3, max_depth=3),
    RegressionBoost(n_trees=3, max_depth=2),
    *(ExtraTrees(**one) for one in ExtraTrees.tried),
    *(KaryForest(**one) for one in KaryForest.tried),
    *(PrunedKaryForest(**one) for one in PrunedKaryForest.tried),
    *(TopDown(**one) for one in TopDown.tried),
    *(MedianForest(**one) for one in MedianForest.tried),
)
