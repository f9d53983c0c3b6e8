"""Decision trees, forests and boosted trees over records that several sites hold.

Heavy imports are lazy: `import hedgerow` loads none of NumPy, Numba or scikit-learn.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from hedgerow.version import __version__ as __version__

if TYPE_CHECKING:
    from types import SimpleNamespace

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
    from hedgerow.federation.policy import Policy
    from hedgerow.methods.blocks.screening import Refinement
    from hedgerow.methods.boosting_classes import BoostedTreesClassifier
    from hedgerow.methods.boosting_numbers import BoostedTreesRegressor
    from hedgerow.methods.choose import choose
    from hedgerow.methods.consul import MedianForestClassifier, MedianForestRegressor
    from hedgerow.methods.evaluate import evaluate
    from hedgerow.methods.forest import ForestClassifier, ForestRegressor
    from hedgerow.methods.gubler import HistogramTreeClassifier
    from hedgerow.methods.ledger import Ledger
    from hedgerow.methods.liu import ExtraTreesClassifier, ExtraTreesRegressor
    from hedgerow.methods.maddock import ComponentBoostingClassifier, ComponentBoostingRegressor
    from hedgerow.methods.multiway import KaryForestClassifier, KaryForestRegressor
    from hedgerow.methods.plan import Plan, plan
    from hedgerow.methods.saving import load
    from hedgerow.methods.tree import TreeClassifier, TreeRegressor
    from hedgerow.methods.wang import TopDownTreeClassifier
    from hedgerow.privacy.mechanisms.response import BloomReports
    from hedgerow.report.evaluation import Evaluation
    from hedgerow.report.importances import importances, shape
    from hedgerow.report.picture import draw_tree
    from hedgerow.report.text import explain, show_tree
    from hedgerow.schema.schema import Categorical, Hashed, Mark, Numeric, Schema, Spacing, Target

    papers: SimpleNamespace


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
    "hedgerow.methods.boosting_classes": ("BoostedTreesClassifier",),
    "hedgerow.methods.boosting_numbers": ("BoostedTreesRegressor",),
    "hedgerow.methods.choose": ("choose",),
    "hedgerow.methods.evaluate": ("evaluate",),
    "hedgerow.methods.liu": ("ExtraTreesClassifier", "ExtraTreesRegressor"),
    "hedgerow.methods.forest": ("ForestClassifier", "ForestRegressor"),
    "hedgerow.methods.gubler": ("HistogramTreeClassifier",),
    "hedgerow.methods.multiway": ("KaryForestClassifier", "KaryForestRegressor"),
    "hedgerow.methods.ledger": ("Ledger",),
    "hedgerow.methods.maddock": ("ComponentBoostingClassifier", "ComponentBoostingRegressor"),
    "hedgerow.methods.consul": ("MedianForestClassifier", "MedianForestRegressor"),
    "hedgerow.methods.plan": ("Plan", "plan"),
    "hedgerow.methods.saving": ("load",),
    "hedgerow.methods.wang": ("TopDownTreeClassifier",),
    "hedgerow.methods.tree": ("TreeClassifier", "TreeRegressor"),
    "hedgerow.methods.blocks.screening": ("Refinement",),
    "hedgerow.privacy.mechanisms.response": ("BloomReports",),
    "hedgerow.report.picture": ("draw_tree",),
    "hedgerow.report.evaluation": ("Evaluation",),
    "hedgerow.report.importances": ("importances", "shape"),
    "hedgerow.report.text": ("explain", "show_tree"),
    "hedgerow.federation.policy": ("Policy",),
    "hedgerow.schema.schema": (
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
    "ComponentBoostingClassifier",
    "ComponentBoostingRegressor",
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
        return import_module("hedgerow.methods.registry").papers()
    if name not in _HOME_OF:
        raise AttributeError(f"module 'hedgerow' has no attribute {name!r}")
    return getattr(import_module(_HOME_OF[name]), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__, "papers"])
