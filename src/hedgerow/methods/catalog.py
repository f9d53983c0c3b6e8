"""One of each kind of recipe: a new one that is listed here inherits the tests of all of them."""

from __future__ import annotations

from hedgerow.methods.blocks.screening import Refinement
from hedgerow.methods.boosting_classes import SmoothedBoost
from hedgerow.methods.boosting_numbers import RegressionBoost
from hedgerow.methods.consul import MedianForest
from hedgerow.methods.forest import GuidedForest
from hedgerow.methods.gubler import HistogramTree
from hedgerow.methods.liu import ExtraTrees
from hedgerow.methods.maddock import ComponentBoosting
from hedgerow.methods.method import Recipe
from hedgerow.methods.multiway import KaryForest, PrunedKaryForest
from hedgerow.methods.tree import ScreenedClassTree, ScreenedTree
from hedgerow.methods.wang import TopDown

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
    *(ExtraTrees(**one) for one in ExtraTrees.tried),
    *(KaryForest(**one) for one in KaryForest.tried),
    *(PrunedKaryForest(**one) for one in PrunedKaryForest.tried),
    *(TopDown(**one) for one in TopDown.tried),
    *(MedianForest(**one) for one in MedianForest.tried),
)
