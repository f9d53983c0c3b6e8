"""A fitted estimator as plain values, and back: parameters, schema, trees, statement, run.

Nothing in the file was not released with noise, but for the user's own parameters and labels'
names. The ledger of the fit is not kept, nor where a shared one lies.
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
from hedgerow.methods.blocks.screening import Refinement
from hedgerow.methods.parameters import checked
from hedgerow.models.model import Model
from hedgerow.models.tree import Tree
from hedgerow.models.uncertainty import Grown, LeafValue
from hedgerow.models.validation import misfit_of_model
from hedgerow.privacy.mechanisms.response import BloomReports
from hedgerow.privacy.statement.record import RunRecord
from hedgerow.privacy.statement.statement import PrivacyStatement
from hedgerow.report.evaluation import Evaluation, kept_evaluation
from hedgerow.schema.schema import Schema

ENTRIES = (
    *("estimator", "parameters", "schema", "classes", "columns"),
    *("model", "leaves", "privacy", "run"),
)
FITTED = ("schema_", "model_", "grown_", "run_", "privacy_", "evaluation_")
TEXT = "fitted"
RATIONAL = re.compile(r"-?[0-9]{1,400}(/[0-9]{1,400})?")
EARLIER_BOOSTING = {
    "BoostedTreesClassifier": "ComponentBoostingClassifier",
    "BoostedTreesRegressor": "ComponentBoostingRegressor",
}
LABEL_KINDS = "biufUO"
"""NumPy's letters for what labels may be: booleans, numbers, texts, objects."""


def save_model(path: str | Path, estimator: Any) -> None:
    classes, columns = (getattr(estimator, a, None) for a in ("classes_", "feature_names_in_"))
    content = {
        "estimator": type(estimator).__name__,
        "parameters": _saved_parameters(estimator),
        "classes": None if classes is None else _saved_labels(classes),
        "columns": None if columns is None else list(columns),
        **_fitted(estimator),
    }
    evaluation = kept_evaluation(estimator)
    model_file.write(
        path,
        content,
        signed=getattr(estimator, "signed_", None),
        evaluation=None if evaluation is None else evaluation.to_dict(),
    )


def _fitted(estimator: Any) -> dict[str, Any]:
    """What `fit` has released, in plain values."""
    return {
        "schema": estimator.schema_.to_dict(),
        "model": estimator.model_.to_dict(),
        "leaves": [_saved_leaves(grown) for grown in estimator.grown_],
        "privacy": estimator.privacy_.to_dict(),
        "run": estimator.run_.to_dict(),
    }


HALF_A_DIGEST, GRID_LETTERS = 32, 16
"""Of models and of grids, in files of before digests were whole."""


def load(path: str | Path) -> Any:
    """The fitted estimator that `save` wrote: it predicts, scores and shows itself as before.

    Parameters
    ----------
    path : str or Path
        A file written by `save`.

    Returns
    -------
    estimator
        Of the class that was saved, with its parameters, `classes_` in their own type,
        `privacy_`, `run_`, `schema_` and `model_`, with `evaluation_` if one was kept and
        `signed_`, the receipts and the signature of a networked model.

    """
    document = model_file.opened(path)
    content = document["content"]
    model_file.check_entries(path, content, ENTRIES)
    try:
        estimator = _restored(content)
        estimator.signed_ = document.get("signed")
        if document.get("evaluation") is not None:
            estimator.keep(_kept(Evaluation.from_dict(document["evaluation"]), estimator))
        return estimator
    except (LookupError, TypeError, ValueError, AttributeError, ArithmeticError) as error:
        raise DataError(
            f"{path} holds a model that hedgerow does not understand ({error}); {model_file.AGAIN}"
        ) from error


def _kept(evaluation: Evaluation, estimator: Any) -> Evaluation:
    """Files of before hold half a digest of the one model that was measured: the file's own."""
    if [len(digest) for digest in evaluation.digests] != [HALF_A_DIGEST]:
        return evaluation
    return replace(evaluation, digests=(estimator.model_.score.digest,))


def _restored(content: Mapping[str, Any]) -> Any:
    """Sets what `fit` sets; the class is one of ours by name, never any other."""
    estimator = _unfitted(content)
    checked(estimator)
    _set_fitted(estimator, content)
    reason = misfit_of_model(estimator.model_.score, estimator.schema_)
    if reason is not None:
        raise ValueError(reason)
    estimator.n_features_in_ = len(estimator.schema_.grids)
    if content["columns"] is not None:
        estimator.feature_names_in_ = np.asarray(content["columns"], dtype=object)
    if content["classes"] is not None:
        estimator.classes_ = _labels(content["classes"])
    return estimator


def _unfitted(content: Mapping[str, Any]) -> Any:
    name, given = content["estimator"], read_parameters(content["parameters"])
    if "method" in given and name in EARLIER_BOOSTING:
        return _earlier_boosting(name, given, content["schema"])
    return _class_named(name)(**given)


def _earlier_boosting(name: str, given: Mapping[str, Any], schema: Mapping[str, Any]) -> Any:
    """Of files of before, where one class had all methods, and None was the method's own."""
    known = {n: value for n, value in given.items() if value is not None and n != "method"}
    method = given["method"]
    if method in ("default", "components"):
        return _class_named(name if method == "default" else EARLIER_BOOSTING[name])(**known)
    named = import_module("hedgerow.methods.maddock").NAMED[method]
    return named(**{**known, "schema": Schema.from_dict(schema)}).set_params(
        schema=given.get("schema")
    )


def _set_fitted(estimator: Any, content: Mapping[str, Any]) -> None:
    given = estimator.schema
    is_given = isinstance(given, Schema) and given.to_dict() == content["schema"]
    estimator.schema_ = given if is_given else Schema.from_dict(content["schema"])
    estimator.model_ = Model.from_dict(_with_whole_digests(content["model"], estimator.schema_))
    trees = estimator.model_.score.trees if content["leaves"] else ()
    estimator.grown_ = tuple(
        _grown(tree, leaves) for tree, leaves in zip(trees, content["leaves"], strict=True)
    )
    estimator.privacy_ = PrivacyStatement.from_dict(content["privacy"])
    estimator.run_ = RunRecord.from_dict(content["run"])


# ------------------------------------------------------------------------------------- pickles
def plain_state(estimator: Any, state: Mapping[str, Any]) -> dict[str, Any]:
    """What pickle, joblib and skops keep: parameters in plain values, what was fitted as one text.

    skops writes neither enumerations nor frozen values; text that is a model's is read by us.
    """
    plain = {name: _as_plain(value) for name, value in state.items() if name not in FITTED}
    if "model_" in state:
        evaluation = kept_evaluation(estimator)
        beside = {"evaluation": None if evaluation is None else evaluation.to_dict()}
        plain[TEXT] = json.dumps(_fitted(estimator) | beside)
    return plain


def set_state(estimator: Any, state: Mapping[str, Any]) -> None:
    """The estimator of a `plain_state`."""
    plain = dict(state)
    text = plain.pop(TEXT, None)
    vars(estimator).update({name: _of_plain(value) for name, value in plain.items()})
    if text is None:
        return
    content = json.loads(text)
    _set_fitted(estimator, content)
    if content["evaluation"] is not None:
        estimator.keep(Evaluation.from_dict(content["evaluation"]))


def _as_plain(value: Any) -> Any:
    saved = _saved_value(value)
    return saved if isinstance(saved, dict) else value


def _of_plain(value: Any) -> Any:
    is_table = isinstance(value, dict) and len(value) == 1 and value.keys() <= READERS.keys()
    return _value(value) if is_table else value


def _with_whole_digests(model: Mapping[str, Any], schema: Schema) -> dict[str, Any]:
    """Files of before name the grid of a test by the first letters of its digest."""
    whole = {grid.digest[:GRID_LETTERS]: grid.digest for grid in schema.grids}
    score = model["score"]
    tests = [{**test, "grid": whole.get(test["grid"], test["grid"])} for test in score["tests"]]
    return {**model, "score": {**score, "tests": tests}}


def _class_named(name: str) -> Any:
    package = import_module("hedgerow")
    found = getattr(package, name) if name in package.__all__ else None
    if not (isinstance(found, type) and issubclass(found, BaseEstimator)):
        raise ValueError(f"there is no estimator {name!r}")
    return found


# ------------------------------------------------------------------------------------- leaves
def _saved_leaves(grown: Grown) -> list[dict[str, Any]]:
    """Noisy masses of a tree's leaves, so that the tree can be shown from its file."""
    return [
        {"masses": v.masses.tolist(), "variance": v.variance, "scale": v.scale}
        for v in grown.leaves
    ]


def _grown(tree: Tree, leaves: list[dict[str, Any]]) -> Grown:
    values = tuple(
        LeafValue(
            value,
            np.asarray(leaf["masses"], np.float64),
            float(leaf["variance"]),
            float(leaf["scale"]),
        )
        for value, leaf in zip(tree.values, leaves, strict=True)
    )
    return Grown(tree, values, ())


# ------------------------------------------------------------------------------------- labels
def _saved_labels(labels: NDArray[Any]) -> dict[str, Any]:
    """With their type: after loading, 1 is still a number."""
    return {"type": str(labels.dtype), "values": labels.tolist()}


def _labels(saved: Mapping[str, Any]) -> NDArray[Any]:
    kind = np.dtype(saved["type"])
    if kind.kind not in LABEL_KINDS:
        raise ValueError(f"labels are of type {kind}")
    return np.asarray(saved["values"], dtype=kind)


# --------------------------------------------------------------------------------- parameters
def _saved_parameters(estimator: BaseEstimator) -> dict[str, Any]:
    """A function or a generator is no value; its parameter comes back as its default."""
    given = estimator.get_params(deep=False)
    del given["ledger"]  # a place on the machine that fitted; the statement has what it says
    saved = {name: _saved_value(value) for name, value in given.items()}
    lost = sorted(name for name, value in saved.items() if value is NotImplemented)
    if lost:
        warn(
            f"the parameters {lost} hold a function or a generator, which a file cannot keep; "
            "the loaded estimator will have their defaults. Its predictions are not touched.",
            UserWarning,
        )
    return {name: value for name, value in saved.items() if value is not NotImplemented}


def _saved_value(value: Any) -> Any:
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float) and not math.isfinite(value):
        return {"float": str(value)}
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, Schema):
        return {"schema": value.to_dict()}
    if isinstance(value, Refinement):
        return {"refinement": asdict(value)}
    if isinstance(value, BloomReports):
        return {"label_reports": {f.name: str(getattr(value, f.name)) for f in fields(value)}}
    return {"fraction": str(value)} if isinstance(value, Fraction) else NotImplemented


def read_parameters(saved: Mapping[str, Any]) -> dict[str, Any]:
    """From plain values; what is no number or text is a table of one entry that names its kind."""
    return {name: _value(value) for name, value in saved.items()}


def _value(saved: Any) -> Any:
    if not isinstance(saved, dict):
        return saved
    ((kind, value),) = saved.items()
    return READERS[kind](value)


def _rational(text: str) -> Fraction:
    """As `str` spells one; whoever wrote the file, reading it takes no time."""
    if not RATIONAL.fullmatch(text):
        raise ValueError(f"a fraction is spelled {text[:60]!r}")
    return Fraction(text)


def _label_reports(texts: Mapping[str, str]) -> BloomReports:
    numbers: dict[str, Any] = {name: _rational(text) for name, text in texts.items()}
    whole = {name: int(numbers[name]) for name in ("classes", "bits", "hashes")}
    return BloomReports(**{**numbers, **whole})


READERS: dict[str, Callable[[Any], Any]] = {
    "schema": Schema.from_dict,
    "refinement": lambda saved: Refinement(**saved),
    "label_reports": _label_reports,
    "fraction": _rational,
    "float": lambda text: {"inf": math.inf, "-inf": -math.inf, "nan": math.nan}[text],
}
