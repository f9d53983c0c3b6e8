"""scikit-learn's manners about inputs, before hedgerow's own reading of them."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.exceptions import DataConversionWarning
from sklearn.utils import check_array
from sklearn.utils.multiclass import check_classification_targets

from hedgerow.errors import DataError
from hedgerow.values.tokens import token_of


def checked_rows(X: Any) -> Any:
    """A data frame as it is; anything else as a two-dimensional array, missing values allowed."""
    if hasattr(X, "columns"):
        return X
    if isinstance(X, list | tuple):  # NumPy would make text of all numbers beside one text
        X = np.array(X, dtype=object)
    return check_array(X, dtype=None, ensure_all_finite=False, ensure_min_samples=0)


def checked_labels(y: Any, regression: bool) -> NDArray[Any]:
    """One label a row."""
    if y is None:
        raise DataError("fit requires y to be passed, but the target y is None; give labels.")
    labels = np.asarray(y)
    if labels.ndim == 2 and labels.shape[1] == 1:
        warnings.warn(
            "A column-vector y was passed when a 1d array was expected.",
            DataConversionWarning,
            stacklevel=4,
        )
        labels = labels[:, 0]
    if labels.dtype.kind == "f" and not np.isfinite(labels).all():
        raise DataError(
            "y holds NaN or infinity, which is no label; remove those rows, or correct them."
        )
    if not regression and labels.dtype.kind in "iufb":
        check_classification_targets(labels)
    if isinstance(y, list | tuple) and labels.ndim == 1:
        return np.fromiter(y, dtype=object, count=len(y))  # each as it is, whatever the others are
    return labels


def check_width(X: Any, expected: int, name: str) -> None:
    """Arrays have no column names, so their number must be right."""
    if not hasattr(X, "columns") and X.shape[1] != expected:
        raise DataError(
            f"X has {X.shape[1]} features, but {name} is expecting {expected} features as input; "
            "give the columns it was fitted on, in their order."
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
