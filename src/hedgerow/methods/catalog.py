"""One of each kind of recipe: a new one that is listed here inherits the tests of all of them."""

from __future__ import annotations

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

KINDS = (
    *(HistogramTree, SmoothedBoost, ComponentBoosting, RegressionBoost),
    *(ScreenedTree, ScreenedClassTree, GuidedForest, ExtraTrees, KaryForest, PrunedKaryForest),
    *(TopDown, MedianForest),
)
ALL: tuple[Recipe, ...] = tuple(kind(**setting) for kind in KINDS for setting in kind.tried)
