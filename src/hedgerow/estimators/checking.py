"""scikit-learn's manners about inputs, before hedgerow's own reading of them."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.exceptions import DataConversionWarning
from sklearn.utils import assert_all_finite, check_array
from sklearn.utils.multiclass import check_classification_targets

from hedgerow.errors import DataError


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
    if regression and labels.dtype.kind == "f":
        assert_all_finite(labels, input_name="y")
    if not regression and labels.dtype.kind in "iufb" and not np.isnan(_floats(labels)).any():
        check_classification_targets(labels)
    if regression and labels.dtype.kind == "f" and not np.isfinite(labels).all():
        raise DataError("y holds NaN or inf; a target must be a finite number in every row.")
    if isinstance(y, list | tuple) and labels.ndim == 1:
        return np.fromiter(y, dtype=object, count=len(y))  # each as it is, whatever the others are
    return labels


def _floats(labels: NDArray[Any]) -> NDArray[np.float64]:
    return labels.astype(np.float64)


def check_width(X: Any, expected: int, name: str) -> None:
    """Arrays have no column names, so their number must be right."""
    if not hasattr(X, "columns") and X.shape[1] != expected:
        raise DataError(
            f"X has {X.shape[1]} features, but {name} is expecting {expected} features as input; "
            "give the columns it was fitted on, in their order."
        )
