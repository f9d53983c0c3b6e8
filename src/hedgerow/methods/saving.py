"""Converts a fitted estimator to plain values and back: parameters, schema, trees, statement, run.

Everything in the file was released with noise, except the user's own parameters and the names of
labels. Ledgers and their paths are not saved.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Mapping
from dataclasses import asdict, fields, replace
from fractions import Fraction
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator

from hedgerow.errors import DataError, warn
from hedgerow.methods import model_file
from hedgerow.methods.blocks.screening import FeatureScreening
from hedgerow.methods.parameters import check_parameters
from hedgerow.models.model import Model
from hedgerow.models.tree import Tree
from hedgerow.models.uncertainty import LeafStatistics, LeafValue
from hedgerow.models.validation import model_incompatibility
from hedgerow.privacy.mechanisms.response import BloomRandomizedResponse
from hedgerow.privacy.statement.record import RunRecord
from hedgerow.privacy.statement.statement import PrivacyStatement
from hedgerow.report.evaluation import Evaluation, kept_evaluation
from hedgerow.schema.schema import Schema

ENTRIES = (
    *("estimator", "parameters", "schema", "classes", "columns"),
    *("model", "leaves", "privacy", "run"),
)
FITTED = ("schema_", "model_", "leaf_statistics_", "run_", "privacy_", "evaluation_")
FITTED_KEY = "fitted"
EXACT_NUMBER = re.compile(r"-?[0-9]{1,400}(/[0-9]{1,400})?")
EARLIER_BOOSTING = {
    "BoostedTreesClassifier": "ComponentBoostingClassifier",
    "BoostedTreesRegressor": "ComponentBoostingRegressor",
}
EARLIER_ESTIMATORS = {
    "KaryForestClassifier": "MultiwayForestClassifier",
    "KaryForestRegressor": "MultiwayForestRegressor",
}
EARLIER_PARAMETERS = {
    "batch": "trees_per_round",
    "bounds_share": "bounds_fraction",
    "index_share": "index_fraction",
    "leaf_share": "leaf_fraction",
    "lean": "shrinkage",
    "leaves": "leaf_values",
    "n_trees": "n_estimators",
    "placement": "dp_model",
    "refine": "screening",
    "save_budget": "budget_saving",
}
EARLIER_VALUES = {
    "accounting": {"sound": "corrected", "printed": "published"},
    "dp_model": {
        "curator": "central",
        "shares": "distributed",
        "silo": "per_site",
        "nowhere": "none",
    },
    "leaf_budget": {"share": "fraction"},
    "leaf_values": {"printed": "published", "pulled": "shrunk"},
}
EARLIER_FACTS = {
    "neighbours": "neighbors",
    "parties": "n_sites",
    "placement": "dp_model",
    "promised_epsilon": "guaranteed_epsilon",
}
"""Names in model files of version 5: of estimators, parameters, their values, and a statement."""
LABEL_KINDS = "biufUO"
"""NumPy's kinds of labels: booleans, numbers, texts, objects."""


def write_model(path: str | Path, estimator: Any) -> None:
    evaluation, signatures = kept_evaluation(estimator), getattr(estimator, "signed_", None)
    evaluation_content = None if evaluation is None else evaluation.to_dict()
    content = model_content(estimator)
    model_file.write(path, content, signed=signatures, evaluation=evaluation_content)


def model_content(estimator: Any) -> dict[str, Any]:
    """The model file's content about an estimator, in plain values."""
    classes, columns = (getattr(estimator, a, None) for a in ("classes_", "feature_names_in_"))
    if classes is not None:
        classes = {"type": str(classes.dtype), "values": classes.tolist()}
    return {
        "estimator": type(estimator).__name__,
        "parameters": _saved_parameters(estimator),
        "classes": classes,
        "columns": None if columns is None else list(columns),
        **fitted_content(estimator),
    }


def fitted_content(estimator: Any) -> dict[str, Any]:
    """The results of `fit` in plain values."""
    return {
        "schema": estimator.schema_.to_dict(),
        "model": estimator.model_.to_dict(),
        "leaves": [  # noisy masses, so that a tree can be shown from its file
            [
                {"masses": v.masses.tolist(), "variance": v.variance, "scale": v.scale}
                for v in statistics.leaves
            ]
            for statistics in estimator.leaf_statistics_
        ],
        "privacy": estimator.privacy_.to_dict(),
        "run": estimator.run_.to_dict(),
    }


HALF_A_DIGEST, GRID_LETTERS = 32, 16
"""Lengths of the digests of models and grids in older files."""


def load(path: str | Path) -> Any:
    """Load the fitted estimator that `save` wrote: it predicts, scores and reports as before.

    Parameters
    ----------
    path : str or Path
        A file written by `save`.

    Returns
    -------
    estimator
        Of the saved class, with its parameters, `classes_` in their own type, `privacy_`, `run_`,
        `schema_` and `model_`, `evaluation_` if one was stored, and `signed_`, the receipts and the
        signature of a networked model.

    """
    document = model_file.open_document(path)
    content = document["content"]
    model_file.check_entries(path, content, ENTRIES)
    try:
        if document["version"] < model_file.FORMAT_VERSION:
            document = _in_new_names(document)
            content = document["content"]
        estimator = _restore(content)
        estimator.signed_ = document.get("signed")
        if document.get("evaluation") is not None:
            evaluation = Evaluation.from_dict(document["evaluation"])
            if [len(digest) for digest in evaluation.digests] == [HALF_A_DIGEST]:  # older files
                evaluation = replace(evaluation, digests=(estimator.model_.score.digest,))
            estimator.keep(evaluation)
        return estimator
    except (LookupError, TypeError, ValueError, AttributeError, ArithmeticError) as error:
        raise DataError(
            f"{path} holds a model that hedgerow does not understand ({error}); {model_file.AGAIN}"
        ) from error


def _in_new_names(document: Mapping[str, Any]) -> dict[str, Any]:
    """Converts a file of version 5 to the names of this version; numbers are unchanged."""
    content, evaluation = document["content"], document.get("evaluation")
    parameters = {}
    for earlier_name, value in content["parameters"].items():
        name = EARLIER_PARAMETERS.get(earlier_name, earlier_name)
        values = EARLIER_VALUES.get(name, {})
        parameters[name] = values.get(value, value) if isinstance(value, str) else value
    new_content = {
        **content,
        "estimator": EARLIER_ESTIMATORS.get(content["estimator"], content["estimator"]),
        "parameters": parameters,
        "privacy": _new_facts(content["privacy"]),
    }
    if evaluation is not None:
        evaluation = {**evaluation, "privacy": _new_facts(evaluation["privacy"])}
    return {**document, "content": new_content, "evaluation": evaluation}


def _new_facts(statement: Mapping[str, Any]) -> dict[str, Any]:
    return {EARLIER_FACTS.get(name, name): value for name, value in statement.items()}


def _restore(content: Mapping[str, Any]) -> Any:
    """The estimator of a file, fitted; its class is one of hedgerow's."""
    estimator = _make_estimator(content)
    check_parameters(estimator)
    _set_fitted(estimator, content)
    reason = model_incompatibility(estimator.model_.score, estimator.schema_)
    if reason is not None:
        raise ValueError(reason)
    estimator.n_features_in_ = len(estimator.schema_.columns)
    if content["columns"] is not None:
        estimator.feature_names_in_ = np.asarray(content["columns"], dtype=object)
    if content["classes"] is not None:
        estimator.classes_ = _labels(content["classes"])
    return estimator


def _make_estimator(content: Mapping[str, Any]) -> Any:
    name, parameters = content["estimator"], read_parameters(content["parameters"])
    parameters.pop("merge_equal_labels", None)  # of older trees, which are saved as merged
    if "method" in parameters and name in EARLIER_BOOSTING:
        return _earlier_boosting(name, parameters, content["schema"])
    return _class_named(name)(**parameters)


def _earlier_boosting(name: str, parameters: Mapping[str, Any], schema: Mapping[str, Any]) -> Any:
    """Boosting in older files, where one class had all methods and None was the default."""
    set_parameters = {
        n: value for n, value in parameters.items() if value is not None and n != "method"
    }
    method = parameters["method"]
    if method in ("default", "components"):
        return _class_named(name if method == "default" else EARLIER_BOOSTING[name])(
            **set_parameters
        )
    call, _, p = method.replace("DP-TR Batch IH EBM", "dp_tr_batch").partition(" p=")
    call = "feverless" if method.startswith("FEVERLESS") else call.lower()
    preset = getattr(import_module("hedgerow.methods.maddock"), re.sub("[- ]", "_", call))
    own = {"schema": Schema.from_dict(schema), **({"p": float(p)} if p else {})}
    return preset(**{**set_parameters, **own}).set_params(schema=parameters.get("schema"))


def _set_fitted(estimator: Any, content: Mapping[str, Any]) -> None:
    is_given = content.get("parameters", {}).get("schema") == {"schema": content["schema"]}
    estimator.schema_ = estimator.schema if is_given else Schema.from_dict(content["schema"])
    estimator.model_ = Model.from_dict(_with_whole_digests(content["model"], estimator.schema_))
    trees = estimator.model_.score.trees if content["leaves"] else ()
    estimator.leaf_statistics_ = tuple(
        LeafStatistics(tree, _leaf_values(tree, leaves), ())
        for tree, leaves in zip(trees, content["leaves"], strict=True)
    )
    estimator.privacy_ = PrivacyStatement.from_dict(content["privacy"])
    estimator.run_ = RunRecord.from_dict(content["run"])


def plain_state(estimator: Any, state: Mapping[str, Any]) -> dict[str, Any]:
    """State for pickle, joblib and skops: plain parameters, and the fitted part as one text.

    skops supports neither enumerations nor frozen values, so the fitted part is a model file's
    text.
    """
    plain = {}
    for name, value in state.items():
        if name not in FITTED:
            plain_value = _saved_value(value)
            plain[name] = plain_value if isinstance(plain_value, dict) else value
    if "model_" in state:
        evaluation = kept_evaluation(estimator)
        beside = {"evaluation": None if evaluation is None else evaluation.to_dict()}
        plain[FITTED_KEY] = json.dumps(fitted_content(estimator) | beside)
    return plain


def set_state(estimator: Any, state: Mapping[str, Any]) -> None:
    """The estimator of a `plain_state`."""
    plain = dict(state)
    text = plain.pop(FITTED_KEY, None)
    for name, value in plain.items():
        is_table = isinstance(value, dict) and len(value) == 1 and value.keys() <= READERS.keys()
        vars(estimator)[name] = _value(value) if is_table else value
    if text is None:
        return
    content = json.loads(text)
    _set_fitted(estimator, content)
    if content["evaluation"] is not None:
        estimator.keep(Evaluation.from_dict(content["evaluation"]))


def _with_whole_digests(model: Mapping[str, Any], schema: Schema) -> dict[str, Any]:
    """Completes the grid digests of tests in older files, which have their first letters."""
    score = model["score"]
    if all(len(test["grid"]) > GRID_LETTERS for test in score["tests"]):
        return dict(model)
    whole = {grid.digest[:GRID_LETTERS]: grid.digest for grid in schema.grids}
    tests = [{**test, "grid": whole.get(test["grid"], test["grid"])} for test in score["tests"]]
    return {**model, "score": {**score, "tests": tests}}


def _class_named(name: str) -> Any:
    kind = getattr(import_module("hedgerow"), name, None)
    if not (isinstance(kind, type) and issubclass(kind, BaseEstimator)):
        raise ValueError(f"there is no estimator {name!r}")
    return kind


def _leaf_values(tree: Tree, leaves: list[dict[str, Any]]) -> tuple[LeafValue, ...]:
    return tuple(
        LeafValue(
            value,
            np.asarray(leaf["masses"], np.float64),
            float(leaf["variance"]),
            float(leaf["scale"]),
        )
        for value, leaf in zip(tree.values, leaves, strict=True)
    )


def _labels(content: Mapping[str, Any]) -> NDArray[Any]:
    kind = np.dtype(content["type"])
    if kind.kind not in LABEL_KINDS:
        raise ValueError(f"labels are of type {kind}")
    return np.asarray(content["values"], dtype=kind)


def _saved_parameters(estimator: BaseEstimator) -> dict[str, Any]:
    """Parameters in plain values; a function or a generator is saved as the default."""
    parameters = estimator.get_params(deep=False)
    del parameters["ledger"]  # a path on the machine of the fit; the statement has its total
    plain_values = {name: _saved_value(value) for name, value in parameters.items()}
    lost = sorted(name for name, value in plain_values.items() if value is NotImplemented)
    if lost:
        warn(
            f"the parameters {lost} hold a function or a generator, which a file cannot keep; "
            "the loaded estimator will have their defaults. Its predictions are not touched.",
            UserWarning,
        )
    return {name: value for name, value in plain_values.items() if value is not NotImplemented}


def _saved_value(value: Any) -> Any:
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float) and not math.isfinite(value):
        return {"float": str(value)}
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, Schema):
        return {"schema": value.to_dict()}
    if isinstance(value, FeatureScreening):
        return {"screening": asdict(value)}
    if isinstance(value, BloomRandomizedResponse):
        return {"label_reports": {f.name: str(getattr(value, f.name)) for f in fields(value)}}
    return {"fraction": str(value)} if isinstance(value, Fraction) else NotImplemented


def read_parameters(content: Mapping[str, Any]) -> dict[str, Any]:
    """Parameters from plain values; other types are a table of one entry that names the type."""
    return {name: _value(value) for name, value in content.items()}


def _value(content: Any) -> Any:
    if not isinstance(content, dict):
        return content
    ((kind, value),) = content.items()
    return READERS[kind](value)


def _rational(text: str) -> Fraction:
    """Parses a fraction of bounded length, which limits the time of reading."""
    if not EXACT_NUMBER.fullmatch(text):
        raise ValueError(f"a fraction is spelled {text[:60]!r}")
    return Fraction(text)


def _label_reports(texts: Mapping[str, str]) -> BloomRandomizedResponse:
    numbers: dict[str, Any] = {name: _rational(text) for name, text in texts.items()}
    whole = {name: int(numbers[name]) for name in ("classes", "bits", "hashes")}
    return BloomRandomizedResponse(**{**numbers, **whole})


READERS: dict[str, Callable[[Any], Any]] = {
    "schema": Schema.from_dict,
    "screening": lambda content: FeatureScreening(**content),
    "refinement": lambda content: FeatureScreening(**content),  # its name in version 5
    "label_reports": _label_reports,
    "fraction": _rational,
    "float": lambda text: {"inf": math.inf, "-inf": -math.inf, "nan": math.nan}[text],
}
