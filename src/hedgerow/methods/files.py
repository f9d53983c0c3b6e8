"""Fits and predicts from files, each with the rows of one site, without data frames."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from hedgerow.data.reading.containers import objects_of
from hedgerow.data.reading.encoding import has_label
from hedgerow.data.reading.sources import Source, open_table
from hedgerow.errors import DataError
from hedgerow.methods.base import PrivateEstimator
from hedgerow.methods.evaluate import evaluate
from hedgerow.methods.predicting import encode_with_warnings
from hedgerow.methods.sources import Columns, Several, outcome_column, schema_for
from hedgerow.report.plain import times_of
from hedgerow.schema.arrays import FloatArray
from hedgerow.schema.schema import Schema


def fit_files(
    estimator: PrivateEstimator,
    sources: Sequence[Source],
    target: str | None,
    person: str | None = None,
) -> PrivateEstimator:
    """Fits on sources that one process reads, each as one site.

    Labels are the column `target`; None takes the only column that the schema does not declare.
    """
    return estimator.fit(Several(sources), target=target, person=person)


def fit_and_evaluate_files(
    estimator: PrivateEstimator,
    sources: Sequence[Source],
    target: str | None,
    person: str | None = None,
) -> PrivateEstimator:
    """Fits an estimator with held-out records and evaluates it on them.

    Both happen in one process, because no file stores the secrets that determine these records.
    They get the guarantee of the fit.
    """
    rows, labels, whose = rows_of_sites(sources, schema_for(estimator), target, person)
    estimator.fit(rows, labels, **whose)
    evaluation = evaluate(
        estimator, rows, labels, epsilon=estimator.epsilon, ledger=estimator.ledger, **whose
    )
    return estimator._set_names().keep(evaluation)


def predict_file(
    model: Any, source: Source, times: Sequence[float] = ()
) -> tuple[FloatArray, list[str]]:
    """(n, O) outputs and their names: class probabilities, or the predicted number.

    For survival models: the risk, and the probability of no event until `times`.
    """
    ends = times_of(model, times)
    outputs = model.model_.predict(encode_with_warnings(source, model.schema_))
    curve = model.model_.survival
    if curve is not None:
        chances = curve.survival(outputs[:, 0], ends)
        return np.column_stack([outputs, chances]), ["risk", *(f"S({t:g})" for t in ends)]
    classes = model.schema_.classes
    return outputs, ["prediction"] if classes is None else [str(name) for name in classes]


def first_rows(source: Source, schema: Schema, count: int) -> Any:
    """(count, F) the first rows of a source as objects, in the schema's order of columns."""
    return next(_parts(source, schema.columns, count))[:count]


def rows_of_sites(
    sources: Sequence[Source], schema: Schema, target: str | None, person: str | None = None
) -> tuple[Any, Any, dict[str, Any]]:
    """(n, F) rows of all sources, their labels, and the site and person columns."""
    label = outcome_column(sources[0], schema, Columns(target=target, person=person))
    outcome = schema.label_columns(label)
    names = [*schema.columns, *outcome, *([person] if person else [])]
    tables = [np.concatenate(list(_parts(source, names, 65_536))) for source in sources]
    columns = len(schema.columns)
    label_masks = [has_label(table[:, columns], schema.label_grids[0]) for table in tables]
    tables = [table[keep] for table, keep in zip(tables, label_masks, strict=True)]
    rows = np.concatenate(tables)
    whose: dict[str, Any] = {"person": rows[:, -1]} if person else {}
    if len(tables) > 1:
        whose["site"] = np.repeat(np.arange(len(tables)), [len(table) for table in tables])
        whose["sites"] = range(len(tables))
    labels = rows[:, columns]
    if schema.survival is not None:
        labels = np.empty(len(rows), [(name, object) for name in outcome])
        for place, name in enumerate(outcome):
            labels[name] = rows[:, columns + place]
    return rows[:, :columns], labels, whose


def _parts(source: Source, names: Sequence[str], size: int) -> Iterator[Any]:
    """(n, columns) rows of a source as objects, in chunks; at least one."""
    is_empty = True
    for columns in open_table(source, names).chunks(names, size):
        is_empty = False
        yield np.stack([objects_of(column) for column in columns], axis=1)
    if is_empty:
        raise DataError(f"{source} holds no rows; give at least one.")
