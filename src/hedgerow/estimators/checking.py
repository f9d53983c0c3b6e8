"""scikit-learn's manners about inputs, before hedgerow's own reading of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.exceptions import DataConversionWarning
from sklearn.utils import check_array
from sklearn.utils.multiclass import check_classification_targets

from hedgerow.errors import DataError, PrivacyWarning, SpecError, warn
from hedgerow.site.reading.columns import is_number, numbers
from hedgerow.site.reading.containers import cells_of, is_listed, is_row, objects_of, unmasked
from hedgerow.site.reading.sources import as_table
from hedgerow.values.schema import Schema
from hedgerow.values.tokens import token_of


def checked_rows(X: Any) -> Any:
    """A table with its names; anything else as a two-dimensional array, missing values allowed."""
    _check_is_table(X)
    X = as_table(X)
    if hasattr(X, "columns"):
        return X
    X = cells_of(X) if is_listed(X) and any(map(is_row, X)) else unmasked(X)
    return check_array(X, dtype=None, ensure_all_finite=False, ensure_min_samples=0)


def _check_is_table(X: Any) -> None:
    """What is often handed over instead of a table; NumPy's own words would not say so."""
    if X is None:
        raise DataError("X is None; give rows, as a data frame or an array.")
    if isinstance(X, str | Path):
        raise DataError(
            f"X is the path {str(X)!r}; read the file first (pandas.read_parquet, read_csv), or "
            "let `hedgerow predict model.json FILE` do it."
        )
    one = X[0] if isinstance(X, list | tuple) and X else X
    if isinstance(one, Mapping) and not hasattr(one, "shape"):  # some sparse matrices are dicts
        raise DataError(
            f"X is a {type(X).__name__} {'' if one is X else 'of dicts '}without a table's form; "
            "make a data frame of it: pandas.DataFrame(X)."
        )


def checked_labels(y: Any, regression: bool) -> NDArray[Any]:
    """One label a row."""
    if y is None:
        raise DataError("fit requires y to be passed, but the target y is None; give labels.")
    labels = _as_labels(y)
    if labels.ndim == 2 and labels.shape[1] == 1:
        warn(
            "A column-vector y was passed when a 1d array was expected.",
            DataConversionWarning,
        )
        labels = labels[:, 0]
    known = labels if labels.dtype.kind != "O" else _as_numbers(labels)
    if known.dtype.kind == "f" and not np.isfinite(known).all():
        raise DataError(
            "y holds NaN or infinity, which is no label; remove those rows, or correct them."
        )
    if not regression and known.dtype.kind in "iufb":
        check_classification_targets(known)
    return labels


def _as_labels(y: Any) -> NDArray[Any]:
    """Each as it is, whatever the others are."""
    if not is_listed(y):
        return np.asarray(unmasked(y))
    return cells_of(y) if y and all(map(is_row, y)) else objects_of(y)


def _as_numbers(labels: NDArray[np.object_]) -> NDArray[Any]:
    """Objects that are numbers, all of them, as such; others as they are."""
    if labels.ndim != 1 or not is_number(labels):
        return labels
    values, strange = numbers(labels)
    return labels if strange else values


def check_task(schema: Schema, regression: bool, name: str) -> None:
    """A classifier needs classes, a regressor a target's range."""
    check_outcome(schema, name)
    if regression and schema.classes is not None:
        raise SpecError(
            f"{name} predicts a number, but its schema has classes {_some(schema.classes)}; give "
            "the target's public range (low and high), or use a classifier."
        )
    if not regression and schema.target is not None:
        raise SpecError(
            f"{name} predicts classes, but its schema has a target, {schema.target.low:g} to "
            f"{schema.target.high:g}; list the classes, or use a regressor."
        )


def check_outcome(schema: Schema, name: str) -> None:
    """A schema may tell of columns alone; whatever learns must know what is to be predicted."""
    if schema.classes is None and schema.target is None:
        raise SpecError(
            f"{name} predicts classes or a number, but its schema has neither classes nor a "
            "target; name the column when you draft it (`hedgerow schema draft rows.csv --target "
            "COLUMN`), or write them into the schema: the list `classes`, or a `target` with low "
            "and high."
        )


def warn_of_marks(schema: Schema) -> None:
    """A schema that was read from rows does not become public by being passed on."""
    if schema.unconfirmed:
        warn(
            f"the schema holds values that were read from rows and that nobody has confirmed: "
            f"{', '.join(schema.unconfirmed[:4])}{', ...' if len(schema.unconfirmed) > 4 else ''}. "
            "The privacy statement will say epsilon = infinity. Confirm what is known in public "
            "(`hedgerow schema confirm`, or confirmed_by and confirmed_on in its file).",
            PrivacyWarning,
        )


def _some(values: Sequence[str]) -> str:
    return f"({', '.join(values[:3])}{', ...' if len(values) > 3 else ''})"


def name_columns(estimator: Any, X: Any) -> None:
    """`feature_names_in_` are the columns that are used, if rows came with names at all."""
    if hasattr(X, "columns"):
        estimator.feature_names_in_ = np.asarray(estimator.schema_.names, dtype=object)
    elif hasattr(estimator, "feature_names_in_"):
        del estimator.feature_names_in_  # of a fit before this one


def check_columns(X: Any, estimator: Any) -> None:
    """Arrays have no column names: their number must be right, and their order is believed."""
    if hasattr(X, "columns"):
        return
    name, expected = type(estimator).__name__, estimator.n_features_in_
    if X.shape[1] != expected:
        raise DataError(
            f"X has {X.shape[1]} features, but {name} is expecting {expected} features as input; "
            "give the columns it was fitted on, in their order."
        )
    if hasattr(estimator, "feature_names_in_"):
        warn(  # in scikit-learn's own words, so that its filters know it
            f"X does not have valid feature names, but {name} was fitted with feature names",
            UserWarning,
        )


def like_labels(classes: Sequence[str], y: NDArray[Any]) -> NDArray[Any]:
    """The schema's classes in the type of the user's labels: 1, not '1'.

    Where some class cannot be read as that type ('unknown' among numbers), all are texts.
    """
    texts = np.asarray(classes, dtype=str if y.dtype.kind == "U" else object)
    read = READ_AS.get(_kind(y))
    if read is None:
        return texts
    try:
        labels = np.asarray([read(str(token_of(text))) for text in classes], dtype=y.dtype)
    except ValueError:
        return texts
    return labels if len(set(labels.tolist())) == len(classes) else texts


def type_of_classes(classes: Sequence[str]) -> np.dtype[Any]:
    """Of classes that nobody told in a type, as in a CSV file: whole numbers are numbers."""
    return np.dtype(np.int64 if all(_is_whole(text) for text in classes) else str)


def _is_whole(text: str) -> bool:
    """As a whole number prints itself: '01' is a text."""
    digits = text.removeprefix("-")
    return digits.isascii() and digits.isdigit() and text == str(int(text))


def _kind(y: NDArray[Any]) -> str:
    """NumPy's letter for the labels; objects are what all of them are."""
    if y.dtype.kind != "O":
        return y.dtype.kind
    one_of_each = {type(label): label for label in y}
    kinds = {np.asarray(label).dtype.kind for label in one_of_each.values()}
    return kinds.pop() if len(kinds) == 1 else "O"


def _truth(token: str) -> bool:
    if token not in ("0", "1"):
        raise ValueError(token)
    return token == "1"


READ_AS: dict[str, Callable[[str], Any]] = {"b": _truth, "i": int, "u": int, "f": float}
