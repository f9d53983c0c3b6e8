"""Checks inputs by scikit-learn's conventions, before rows are encoded."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from sklearn.exceptions import DataConversionWarning
from sklearn.utils import check_array
from sklearn.utils.multiclass import check_classification_targets

from hedgerow.data.reading.columns import distinct, is_number, is_truth, numbers, parsed_numbers
from hedgerow.data.reading.containers import (
    as_column,
    cells_of,
    fill_masked,
    is_listed,
    is_row,
    objects_of,
)
from hedgerow.data.reading.encoding import NO_CAUSES, refuse_times, signed_times
from hedgerow.data.reading.sources import as_table
from hedgerow.errors import DataError, ParameterError, PrivacyWarning, warn
from hedgerow.schema.schema import Grid, Schema, Survival
from hedgerow.schema.tokens import Token, spell, token_of


def checked_rows(X: Any) -> Any:
    """A table with its names; anything else as a two-dimensional array, missing values allowed.

    Common mistakes are refused with clearer errors than NumPy's.
    """
    if X is None:
        raise DataError("X is None; give rows, as a data frame or an array.")
    if isinstance(X, str | Path):
        raise DataError(
            f"X is the path {str(X)!r}; read the file first (pandas.read_parquet, read_csv), or "
            "let `hedgerow predict model.json FILE` do it."
        )
    first_row = X[0] if isinstance(X, list | tuple) and X else X
    is_sparse = hasattr(first_row, "shape")  # some sparse matrices are dicts
    if isinstance(first_row, Mapping) and not is_sparse:
        raise DataError(
            f"X is a {type(X).__name__} {'' if first_row is X else 'of dicts '}without a table's "
            "form; make a data frame of it: pandas.DataFrame(X)."
        )
    X = as_table(X)
    if hasattr(X, "columns"):
        return X
    X = cells_of(X) if is_listed(X) and any(map(is_row, X)) else fill_masked(X)
    return check_array(X, dtype=None, ensure_all_finite=False, ensure_min_samples=0)


def by_schema_names(X: Any, schema: Schema) -> Any:
    """Renames columns that a ColumnTransformer calls `num__age` to the schema's name, `age`.

    Only if the match is unique; otherwise reading reports the absent column.
    """
    if not hasattr(X, "columns"):
        return X
    is_arrow = isinstance(X, pa.Table)
    columns = [str(name) for name in (X.column_names if is_arrow else X.columns)]
    new_names = dict(enumerate(columns))
    for name in set(schema.columns) - set(columns):
        places = [at for at, column in enumerate(columns) if column.endswith(f"__{name}")]
        if len(places) != 1:
            return X
        new_names[places[0]] = name
    names = list(new_names.values())
    if names == columns:
        return X
    return X.rename_columns(names) if is_arrow else X.set_axis(names, axis=1)


def checked_times(y: Any, survival: Survival | None) -> NDArray[np.float64]:
    """Signed times of a structured array or a frame of two columns: event and time."""
    fields: Any = getattr(getattr(y, "dtype", None), "names", None)
    names = list(fields or getattr(y, "column_names", getattr(y, "columns", ())))
    if len(names) != 2:
        late = " Late entry (left truncation) is not supported." if len(names) > 2 else ""
        raise DataError(
            f"y has the fields {names}; give the event and the time of each row, as a structured "
            f"array (sksurv.util.Surv.from_arrays(event, time)) or a frame of two columns.{late}"
        )
    if survival is None or set(names) != set(survival.columns):
        # the boolean field; else the first, as in scikit-survival
        event = next((n for n in names if is_truth(as_column(y[n]))), names[0])
        survival = Survival(names[1 - names.index(event)], event, 1.0)
    advice = "Correct them or remove those rows.", NO_CAUSES
    outcome = zip(survival.columns, survival.grids, advice, strict=True)
    times, events = (_label_numbers(y[name], name, grid, words) for name, grid, words in outcome)
    refuse_times("y", survival, times, events)
    return signed_times(times, events)


def _label_numbers(values: Any, name: str, grid: Grid, advice: str) -> NDArray[np.float64]:
    numbers, strange = parsed_numbers(as_column(values), grid)
    if strange or np.isnan(numbers).any():
        values_or_none = [value for value, _ in strange[:3]] or "missing"
        raise DataError(f"y[{name!r}] has values that say nothing: {values_or_none}. {advice}")
    return numbers


def labels_for(y: Any, schema: Schema) -> NDArray[Any]:
    """One label per row, of the kind that the schema declares."""
    if schema.survival is not None:
        return checked_times(y, schema.survival)
    return checked_labels(y, schema.target is not None)


def checked_labels(y: Any, regression: bool) -> NDArray[Any]:
    """One label per row."""
    if y is None:
        raise DataError("fit requires y to be passed, but the target y is None; give labels.")
    if not is_listed(y):
        labels = np.asarray(fill_masked(y))
    else:  # objects, each in its own type
        labels = cells_of(y) if y and all(map(is_row, y)) else objects_of(y)
    if labels.ndim == 0:
        raise DataError(
            f"y is {y!r}, and not a label for each row; give labels, as an array or a column. A "
            "column of the rows is named by `target`: fit(frame, target='...')."
        )
    if labels.ndim == 2 and labels.shape[1] == 1:
        warn("A column-vector y was passed when a 1d array was expected.", DataConversionWarning)
        labels = labels[:, 0]
    values: NDArray[Any] = labels
    if labels.dtype.kind == "O" and labels.ndim == 1 and is_number(labels):
        label_numbers, strange = numbers(labels)
        values = labels if strange else label_numbers
    if values.dtype.kind == "f" and not np.isfinite(values).all():
        raise DataError(
            "y holds NaN or infinity, which is no label; remove those rows, or correct them."
        )
    if not regression and values.dtype.kind in "iufb":
        check_classification_targets(values)
    return labels


def check_task(schema: Schema, regression: bool, name: str) -> None:
    """A classifier needs classes, a regressor a target's range."""
    check_outcome(schema, name)
    if regression and schema.classes is not None:
        raise ParameterError(
            f"{name} predicts a number, but its schema has classes {_some(schema.classes)}; give "
            "the target's public range (low and high), or use a classifier."
        )
    if not regression and schema.target is not None:
        raise ParameterError(
            f"{name} predicts classes, but its schema has a target, {schema.target.low:g} to "
            f"{schema.target.high:g}; list the classes, or use a regressor."
        )


def check_outcome(schema: Schema, name: str) -> None:
    """Refuses a schema without classes and target: training needs one of them."""
    if schema.classes is None and schema.target is None:
        raise ParameterError(
            f"{name} predicts classes or a number, but its schema has neither classes nor a "
            "target; name the column when you draft it (`hedgerow schema draft rows.csv --target "
            "COLUMN`), or write them into the schema: the list `classes`, or a `target` with low "
            "and high."
        )


def warn_of_marks(schema: Schema) -> None:
    """Warns of a schema that was read from rows and not confirmed."""
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


def check_column_names(X: Any, estimator: Any) -> None:
    """Checks the number of columns; arrays have no names, so their order is trusted."""
    if hasattr(X, "columns"):
        return
    name, n_columns = type(estimator).__name__, estimator.n_features_in_
    if X.shape[1] != n_columns:
        raise DataError(
            f"X has {X.shape[1]} features, but {name} is expecting {n_columns} features as input; "
            "give the columns it was fitted on, in their order."
        )
    if hasattr(estimator, "feature_names_in_"):
        warn(  # in scikit-learn's words, so that its warning filters apply
            f"X does not have valid feature names, but {name} was fitted with feature names",
            UserWarning,
        )


def names_of_codes(labels: NDArray[Any], schema: Schema) -> tuple[NDArray[Any], bool]:
    """Maps codes 0 ... k-1 to the names of the sorted classes; also returns whether labels were
    codes.

    scikit-learn's meta-estimators pass such codes and expect codes from `predict`. The schema
    decides whether codes are possible: a code must not be another class. Either all labels are
    codes or none is; a label of the other kind is refused like any unknown class, so no record
    decides for others.
    """
    classes = schema.with_sorted_classes().classes or ()
    codes: dict[Token, str] = {str(code): name for code, name in enumerate(classes)}
    if schema.classes_parse is not None:
        return labels, False
    if not _has_codes(schema, codes):
        _refuse_codes(labels, classes, codes)
        return labels, False
    if not len(labels) or not _is_code(labels[0], codes):
        return labels, False
    distinct_labels = distinct(as_column(labels))
    for value, _ in distinct_labels.met(
        [not _is_code(value, codes) for value in distinct_labels.values]
    ):
        raise DataError(
            f"y holds {spell(value)!r} beside the code {spell(labels[0])}; give classes "
            f"{_some(classes)}, or the codes 0 to {len(classes) - 1} for all of them."
        )
    texts = [codes.get(token) for token in distinct_labels.tokens()]
    return np.array(texts, dtype=object)[distinct_labels.index], True


def _refuse_codes(labels: NDArray[Any], classes: Sequence[str], codes: Mapping[Token, str]) -> None:
    """Refuses codes if classes are other numbers, for example 1 and 2."""
    class_tokens = {token_of(name) for name in classes}
    if class_tokens == codes.keys():
        return
    distinct_labels = distinct(as_column(labels))
    labels_seen = [value for value, _ in distinct_labels.met([True] * len(distinct_labels.values))]
    strange = [value for value in labels_seen if token_of(value) not in class_tokens]
    if strange and all(_is_code(value, codes) for value in labels_seen):
        raise DataError(
            f"y holds {spell(strange[0])}, which is not a class of the schema; it has "
            f"{_some(classes)}. If a meta-estimator has encoded labels as 0 to {len(classes) - 1}, "
            f"list these: classes=range({len(classes)}). It gives your own labels back."
        )


def _is_code(label: object, codes: Mapping[Token, str]) -> bool:
    return not isinstance(label, str | bytes) and token_of(label) in codes


def _has_codes(schema: Schema, codes: Mapping[Token, str]) -> bool:
    """Whether labels may be codes: not if classes are numbers themselves."""
    name_of_token = {token_of(name): name for name in schema.classes or ()}
    if schema.label_type is str and all(
        name_of_token.get(code) == name for code, name in codes.items()
    ):
        return True
    return not name_of_token.keys() & codes.keys()
