"""Decision trees, forests and boosted trees over records that several sites hold.

Heavy imports are lazy: `import hedgerow` loads none of NumPy, Numba or scikit-learn.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hedgerow.estimators.boosted_trees import BoostedTreesClassifier, BoostedTreesRegressor
    from hedgerow.estimators.extra_trees import ExtraTreesClassifier, ExtraTreesRegressor
    from hedgerow.estimators.forest import ForestClassifier, ForestRegressor
    from hedgerow.estimators.histogram_tree import HistogramTreeClassifier
    from hedgerow.estimators.median_forest import MedianForestClassifier, MedianForestRegressor
    from hedgerow.estimators.saving import load_model as load
    from hedgerow.estimators.topdown import TopDownTreeClassifier
    from hedgerow.estimators.tree import TreeClassifier, TreeRegressor
    from hedgerow.learning.choosing.screening import Refinement
    from hedgerow.report.picture import draw_tree
    from hedgerow.report.text import explain, show_tree
    from hedgerow.values.schema import Categorical, Numeric, Schema, Target

__version__ = "0.1.0"

_HOMES = {
    "BoostedTreesClassifier": "hedgerow.estimators.boosted_trees",
    "BoostedTreesRegressor": "hedgerow.estimators.boosted_trees",
    "Categorical": "hedgerow.values.schema",
    "ExtraTreesClassifier": "hedgerow.estimators.extra_trees",
    "ExtraTreesRegressor": "hedgerow.estimators.extra_trees",
    "ForestClassifier": "hedgerow.estimators.forest",
    "ForestRegressor": "hedgerow.estimators.forest",
    "HistogramTreeClassifier": "hedgerow.estimators.histogram_tree",
    "MedianForestClassifier": "hedgerow.estimators.median_forest",
    "MedianForestRegressor": "hedgerow.estimators.median_forest",
    "Numeric": "hedgerow.values.schema",
    "Refinement": "hedgerow.learning.choosing.screening",
    "Schema": "hedgerow.values.schema",
    "Target": "hedgerow.values.schema",
    "TopDownTreeClassifier": "hedgerow.estimators.topdown",
    "TreeClassifier": "hedgerow.estimators.tree",
    "TreeRegressor": "hedgerow.estimators.tree",
    "draw_tree": "hedgerow.report.picture",
    "explain": "hedgerow.report.text",
    "load": "hedgerow.estimators.saving",
    "show_tree": "hedgerow.report.text",
}
_NAMES = {"load": "load_model"}

__all__ = [
    "BoostedTreesClassifier",
    "BoostedTreesRegressor",
    "Categorical",
    "ExtraTreesClassifier",
    "ExtraTreesRegressor",
    "ForestClassifier",
    "ForestRegressor",
    "HistogramTreeClassifier",
    "MedianForestClassifier",
    "MedianForestRegressor",
    "Numeric",
    "Refinement",
    "Schema",
    "Target",
    "TopDownTreeClassifier",
    "TreeClassifier",
    "TreeRegressor",
    "draw_tree",
    "explain",
    "load",
    "show_tree",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'hedgerow' has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), _NAMES.get(name, name))


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
