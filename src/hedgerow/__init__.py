"""Federated, differentially private decision trees, forests and gradient boosting.

Heavy imports are lazy: `import hedgerow` loads none of NumPy, Numba or scikit-learn. Estimators are
found in the files of `hedgerow.methods` and errors in `hedgerow.errors`; all other public names are
listed below. Type checkers read `__init__.pyi`, which `make pages` writes.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

from hedgerow import errors
from hedgerow.version import __version__ as __version__

_NAMES = {
    "data.schema_draft": "draft_schema",
    "federation.policy": "Policy",
    "methods.blocks.screening": "FeatureScreening",
    "methods.model_selection": "select_model",
    "methods.evaluate": "evaluate",
    "methods.ledger": "Ledger",
    "methods.plan": "Plan plan",
    "methods.saving": "load",
    "privacy.mechanisms.response": "BloomRandomizedResponse",
    "report.evaluation": "Evaluation compare_models",
    "report.importances": "importances pair_importances feature_effect pair_effect",
    "report.picture": "draw_tree",
    "report.text": "explain show_tree",
    "schema.parsers": "Parser",
    "schema.schema": "Categorical Hashed Mark Numeric Schema Spacing Survival Target",
}
_HOMES = {name: f"hedgerow.{home}" for home, names in _NAMES.items() for name in names.split()}
_HOMES |= {
    name: errors.__name__
    for name, kind in vars(errors).items()
    if isinstance(kind, type) and kind.__module__ == errors.__name__
}
_REGISTRY = "hedgerow.methods.registry"


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), name)
    if name == "papers":
        return import_module(_REGISTRY).papers()
    if name == "mlflow":
        return import_module("hedgerow.methods.mlflow")
    if name == "__all__":
        return sorted([*_HOMES, *import_module(_REGISTRY).estimators()])
    if name[:1].isupper():  # only estimators are left
        kinds = import_module(_REGISTRY).estimators()
        if name in kinds:
            return kinds[name]
    raise AttributeError(f"module 'hedgerow' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__getattr__("__all__"), "mlflow", "papers"})
