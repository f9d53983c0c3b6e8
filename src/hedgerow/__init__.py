"""Decision trees, forests and boosted trees over records that several sites hold.

Heavy imports are lazy: `import hedgerow` loads none of NumPy, Numba or scikit-learn.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from hedgerow.version import __version__ as __version__

if TYPE_CHECKING:
    from hedgerow import papers as papers
    from hedgerow.errors import (
        BudgetExceeded,
        ComputationFailed,
        DataError,
        DataWarning,
        EngineLost,
        HedgerowError,
        LedgerBroken,
        LedgerError,
        LedgerRolledBack,
        LedgerUnavailable,
        PartyRefused,
        PrivacyWarning,
        QualityWarning,
        RoundFailed,
        RunEnded,
        SignalWarning,
        SpecError,
        TooFewParties,
        UnsupportedQuery,
    )
    from hedgerow.estimators.boosted_trees import BoostedTreesClassifier, BoostedTreesRegressor
    from hedgerow.estimators.choosing import choose
    from hedgerow.estimators.evaluation import evaluate
    from hedgerow.estimators.extra_trees import ExtraTreesClassifier, ExtraTreesRegressor
    from hedgerow.estimators.forest import ForestClassifier, ForestRegressor
    from hedgerow.estimators.histogram_tree import HistogramTreeClassifier
    from hedgerow.estimators.kary_forest import KaryForestClassifier, KaryForestRegressor
    from hedgerow.estimators.ledger import Ledger
    from hedgerow.estimators.median_forest import MedianForestClassifier, MedianForestRegressor
    from hedgerow.estimators.planning import Plan, plan
    from hedgerow.estimators.saving import load
    from hedgerow.estimators.topdown import TopDownTreeClassifier
    from hedgerow.estimators.tree import TreeClassifier, TreeRegressor
    from hedgerow.learning.choosing.screening import Refinement
    from hedgerow.privacy.noise.response import BloomReports
    from hedgerow.report.evaluation import Evaluation
    from hedgerow.report.picture import draw_tree
    from hedgerow.report.reading import importances, shape
    from hedgerow.report.text import explain, show_tree
    from hedgerow.site.policy import Policy
    from hedgerow.values.schema import Categorical, Hashed, Mark, Numeric, Schema, Spacing, Target


_HOMES = {
    "hedgerow.errors": (
        "BudgetExceeded",
        "ComputationFailed",
        "DataError",
        "DataWarning",
        "EngineLost",
        "HedgerowError",
        "LedgerBroken",
        "LedgerError",
        "LedgerRolledBack",
        "LedgerUnavailable",
        "PartyRefused",
        "PrivacyWarning",
        "QualityWarning",
        "RoundFailed",
        "RunEnded",
        "SignalWarning",
        "SpecError",
        "TooFewParties",
        "UnsupportedQuery",
    ),
    "hedgerow.estimators.boosted_trees": ("BoostedTreesClassifier", "BoostedTreesRegressor"),
    "hedgerow.estimators.choosing": ("choose",),
    "hedgerow.estimators.evaluation": ("evaluate",),
    "hedgerow.estimators.extra_trees": ("ExtraTreesClassifier", "ExtraTreesRegressor"),
    "hedgerow.estimators.forest": ("ForestClassifier", "ForestRegressor"),
    "hedgerow.estimators.histogram_tree": ("HistogramTreeClassifier",),
    "hedgerow.estimators.kary_forest": ("KaryForestClassifier", "KaryForestRegressor"),
    "hedgerow.estimators.ledger": ("Ledger",),
    "hedgerow.estimators.median_forest": ("MedianForestClassifier", "MedianForestRegressor"),
    "hedgerow.estimators.planning": ("Plan", "plan"),
    "hedgerow.estimators.saving": ("load",),
    "hedgerow.estimators.topdown": ("TopDownTreeClassifier",),
    "hedgerow.estimators.tree": ("TreeClassifier", "TreeRegressor"),
    "hedgerow.learning.choosing.screening": ("Refinement",),
    "hedgerow.privacy.noise.response": ("BloomReports",),
    "hedgerow.report.picture": ("draw_tree",),
    "hedgerow.report.evaluation": ("Evaluation",),
    "hedgerow.report.reading": ("importances", "shape"),
    "hedgerow.report.text": ("explain", "show_tree"),
    "hedgerow.site.policy": ("Policy",),
    "hedgerow.values.schema": (
        "Categorical",
        "Hashed",
        "Mark",
        "Numeric",
        "Schema",
        "Spacing",
        "Target",
    ),
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}

__all__ = [
    "BloomReports",
    "BoostedTreesClassifier",
    "BoostedTreesRegressor",
    "BudgetExceeded",
    "Categorical",
    "ComputationFailed",
    "DataError",
    "DataWarning",
    "EngineLost",
    "Evaluation",
    "ExtraTreesClassifier",
    "ExtraTreesRegressor",
    "ForestClassifier",
    "ForestRegressor",
    "Hashed",
    "HedgerowError",
    "HistogramTreeClassifier",
    "KaryForestClassifier",
    "KaryForestRegressor",
    "Ledger",
    "LedgerBroken",
    "LedgerError",
    "LedgerRolledBack",
    "LedgerUnavailable",
    "Mark",
    "MedianForestClassifier",
    "MedianForestRegressor",
    "Numeric",
    "PartyRefused",
    "Plan",
    "Policy",
    "PrivacyWarning",
    "QualityWarning",
    "Refinement",
    "RoundFailed",
    "RunEnded",
    "Schema",
    "SignalWarning",
    "Spacing",
    "SpecError",
    "Target",
    "TooFewParties",
    "TopDownTreeClassifier",
    "TreeClassifier",
    "TreeRegressor",
    "UnsupportedQuery",
    "choose",
    "draw_tree",
    "evaluate",
    "explain",
    "importances",
    "load",
    "plan",
    "shape",
    "show_tree",
]


def __getattr__(name: str) -> Any:
    if name == "papers":
        return import_module("hedgerow.papers")
    if name not in _HOME_OF:
        raise AttributeError(f"module 'hedgerow' has no attribute {name!r}")
    return getattr(import_module(_HOME_OF[name]), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__, "papers"])
