"""`hedgerow.evaluate`: how good a model is, as a paid answer with an interval."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from hedgerow.data.holders import HELD_OUT, TRAINED_ON, HeldOutDraws
from hedgerow.errors import SignalWarning, SpecError, warn
from hedgerow.federation.server import Server
from hedgerow.federation.transports import in_process
from hedgerow.methods.blocks import evaluation as recipe
from hedgerow.methods.blocks.evaluation import EvaluationTables, GroupedBy
from hedgerow.methods.blocks.flow import run
from hedgerow.methods.evaluated_rows import (
    GroupColumn,
    common_draws,
    evaluated_rows,
    group_column,
    rows_of_holders,
)
from hedgerow.methods.ledger import as_ledger
from hedgerow.models.joining import joint_schema, on_joint_grid
from hedgerow.models.model import Model
from hedgerow.privacy.accounting.budget import Placement
from hedgerow.privacy.accounting.conversions import check_promise, warn_if_weak
from hedgerow.privacy.accounting.guarantee import Drawn, Guarantee
from hedgerow.privacy.statement.statement import PrivacyStatement, statement
from hedgerow.privacy.statement.wording import evaluation_words, guarantee_of
from hedgerow.privacy.study import Study
from hedgerow.report.evaluation import Evaluation, Measured
from hedgerow.report.measures import (
    calibration,
    many_class_measures,
    number_measures,
    right_and_wrong,
    two_class_measures,
)
from hedgerow.schema.arrays import FloatArray
from hedgerow.schema.rules import exact
from hedgerow.schema.schema import Schema
from hedgerow.secagg.graph import Parameters

USUAL_CONFIDENCE = 0.95
NOT_ASKED = (
    "groups of {!r} were not asked, and their part of epsilon was not spent: by what was released "
    "of all records, noise would hide them. Ask for fewer groups, or for a larger epsilon."
)


def evaluate(
    model: Any,
    X: Any,
    y: Any,
    *,
    epsilon: float,
    delta: float = 0.0,
    party: Any = None,
    parties: Any = None,
    person: Any = None,
    by: str | Mapping[str, Sequence[float]] | None = None,
    records: int | None = None,
    choose: Sequence[Any] = (),
    confidence: float = USUAL_CONFIDENCE,
    records_per_person: int | None = None,
    ledger: Any = None,
) -> Evaluation:
    """Measures a model on records that it was not trained on, by one private query.

    Records are counted by predicted probability (between public edges) and by class; AUC, accuracy,
    log-loss, Brier score and calibration follow from these counts. For a number they are counted by
    the size of the error and by the target. Intervals count sampling and noise.

    Parameters
    ----------
    model : estimator
        Fitted. If it was fitted with `hold_out`, give the same rows, with the same `parties` in
        any order and with `person` as before: those that were held out are found again by the
        holders' secrets, and anything else is refused. Otherwise all rows given are evaluated.
    X, y : rows and labels
        As for `fit`.
    epsilon, delta : float
        The promise to the records that are evaluated. A record takes part in one sum, so that pure
        epsilon (delta = 0) has the smallest noise.
    party, parties, person : as for `fit`
        Who holds each row, who takes part, and whose record it is.
    by : str, dict or None, default=None
        A column of the schema: each of its values is evaluated by itself, all of them for half of
        epsilon; the other half is for all records. A number is cut into four by its declared edges
        or range, or where `by={"age": [40, 65]}` says. Where what is released of all records shows
        that noise would hide an even group, groups are not asked and a warning says so.
    records : int or None, default=None
        About how many records will be evaluated, if that is public: if noise would hide an even
        group of so many, `by` is refused before anything is charged.
    choose : sequence of estimators, default=()
        Others to compare with, in the same query; the noise grows with their number. `chosen` of
        the result is the best of all. `hedgerow.choose` also trains them, on other records.
    confidence : float, default=0.95
        Of the intervals.
    records_per_person : int or None, default=None
        How many records one person may have; None is as many as the model was fitted for.
    ledger : str, Path, Ledger or None, default=None
        A file in which this adds up with fits.

    Returns
    -------
    Evaluation
        `result["auc"]` is an estimate with `value`, `low` and `high`; `result.groups` has those of
        each group; `result.privacy_` is the statement.

    """
    return compared(
        [model, *choose],
        (X, y),
        {"party": party, "parties": parties, "person": person},
        {"epsilon": epsilon, "delta": delta, "most": records_per_person},
        by=by,
        records=records,
        confidence=confidence,
        ledger=ledger,
    )


def compared(
    candidates: Sequence[Any],
    rows: tuple[Any, Any],
    told: Mapping[str, Any],
    promise: Mapping[str, Any],
    *,
    by: str | Mapping[str, Sequence[float]] | None = None,
    records: int | None = None,
    confidence: float = 0.95,
    ledger: Any = None,
    left_by: HeldOutDraws | None = None,
    names: tuple[str, ...] = (),
) -> Evaluation:
    """All candidates by one query; `told` says whose rows these are.

    `left_by` are the draws that left exactly these rows out of all trainings, if some did.
    """
    schema = _joint_schema(candidates)
    column = group_column(by, candidates[0])
    schema = schema if column is None else column.on_grid(schema)
    models = [on_joint_grid(one.model_, one.schema_, schema) for one in candidates]
    parts = rows_of_holders(rows, told, schema)
    study = _study(schema, len(parts), **{**promise, "most": _most(candidates, promise["most"])})
    by_person = told["person"] is not None
    held = evaluated_rows(candidates, study, parts, by_person)
    left_by = left_by or common_draws(candidates)
    drawn = None if left_by is None else left_by.part(HELD_OUT)
    guarantee = guarantee_of(study, by_person, drawn=drawn)
    note = evaluation_words(_trainings(candidates, left_by), guarantee)
    grouped = _grouped(column, schema)
    if grouped is not None and records is not None:
        _check_groups(records, models, grouped, study)
    total = None
    if ledger is not None:
        total = as_ledger(ledger).reserve(guarantee, name=recipe.NAME)
    federation = in_process.open_federation(study, held)
    asked = recipe.flow(models, schema, grouped, variance=federation.variance)
    tables = run(asked, federation)
    if grouped is not None and len(tables) == 1:
        warn(NOT_ASKED.format(grouped.grid.feature), SignalWarning)
    measured = tuple(
        tuple(_measured(table, k, one, schema, confidence) for table in tables)
        for k, one in enumerate(models)
    )
    sources = {one.privacy_.schema_source for one in candidates}
    source = sources.pop() if len(sources) == 1 else schema.provenance
    said = _statement(study, federation, note, by_person, total, source, drawn)
    best = max(range(len(candidates)), key=lambda k: _goodness(measured[k][0]))
    digests = tuple(one.model_.score.digest for one in candidates)
    classes = schema.classes or ()
    return Evaluation(measured, confidence, said, digests, candidates[best], names, classes)


def _grouped(column: GroupColumn | None, schema: Schema) -> GroupedBy | None:
    if column is None:
        return None
    return GroupedBy(schema.grids[schema.index(column.name)], column.cuts)


def _check_groups(records: int, models: Sequence[Model], by: GroupedBy, study: Study) -> None:
    if not isinstance(records, int) or records < 1:
        raise SpecError(f"records is {records!r}; say about how many there are, 1 or more.")
    if not recipe.can_tell_groups(records, models, study.schema, by, study):
        raise SpecError(
            f"noise would hide {by.size} groups of about {records / by.size:.0f} records each: "
            f"nothing could be told of {by.grid.feature!r}. Nothing was charged; ask for fewer "
            "groups (cuts such as age=40,65), or for a larger epsilon."
        )


def _trainings(models: Sequence[Any], left_by: HeldOutDraws | None) -> list[Guarantee]:
    """Of each fit once, however many stages of it are compared."""
    fits = {id(one.privacy_): one.privacy_.guarantee for one in models}.values()
    if left_by is None:
        return list(fits)
    return [replace(fit, drawn=left_by.part(TRAINED_ON)) for fit in fits]


def on_held_out_records(model: Model, federation: Server) -> tuple[Measured, ...]:
    """The same measures, by one more query of a study's own run: of the records it holds out."""
    study = federation.study
    tables = run(recipe.flow([model], study.schema, None, study.held_out), federation)
    return tuple(_measured(table, 0, model, study.schema, USUAL_CONFIDENCE) for table in tables)


def _joint_schema(models: Sequence[Any]) -> Schema:
    for one in models:
        check_is_fitted(one, "model_")
    return joint_schema([one.schema_ for one in models])


def _study(schema: Schema, parties: int, epsilon: Any, delta: Any, most: int) -> Study:
    promise = exact(epsilon, "epsilon"), exact(delta, "delta")
    check_promise(*promise)
    warn_if_weak(promise[1])
    usual = Parameters.default(parties) if parties > 1 else None
    return Study(
        name=recipe.NAME,
        schema=schema,
        recipe=recipe.NAME,
        asks=recipe.asks(schema),
        epsilon=promise[0],
        delta=promise[1],
        placement=Placement.CURATOR if usual is None else Placement.SHARES,
        parties=parties,
        colluders=usual.colluders if usual else 0,
        threshold=usual.threshold if usual else 1,
        records_per_person=most,
    )


def _most(models: Sequence[Any], given: int | None) -> int:
    """Records of a person: as many as the models were fitted for, if nobody says otherwise."""
    fitted = max(one.privacy_.guarantee.unit.most for one in models)
    return fitted if given is None else given


def _measured(
    table: EvaluationTables, k: int, model: Model, schema: Schema, confidence: float
) -> Measured:
    values, variance = table.values, table.variance
    if schema.classes is None:
        assert schema.target is not None
        found = number_measures(
            values[k][:, 0],
            recipe.error_edges(schema),
            values[-1][:, 0],
            recipe.coarse_target_edges(schema),
            variance,
            confidence,
            (schema.target.low, schema.target.high),
        )
        return Measured(table.group, found, ())
    counts: FloatArray = values[k]
    if len(schema.classes) == 2:
        found = two_class_measures(counts, variance, confidence, told=_few_probabilities(model))
        return Measured(table.group, found, calibration(counts, variance, confidence))
    right, noise = right_and_wrong(counts, variance)
    found = many_class_measures(counts, variance, confidence)
    return Measured(table.group, found, calibration(right, noise, confidence))


def _few_probabilities(model: Model) -> FloatArray | None:
    """Of the second class, one for each leaf of a single tree; None where trees add up."""
    score = model.score
    if len(score.trees) > 1 or score.curves:
        return None
    leaves = [tree.values for tree in score.trees] or [np.zeros((1, score.outputs))]
    return np.unique(model.read(np.asarray(score.base) + leaves[0])[:, 1])


def _goodness(one: Measured) -> float:
    """AUC, accuracy, or the mean error with its sign turned."""
    name = next(iter(one.measures))
    value = one[name].value
    return -value if name == "mean_absolute_error" else value


def _statement(
    study: Study,
    federation: Server,
    note: str,
    persons_told: bool,
    total: Any,
    schema_source: str,
    drawn: Drawn | None,
) -> PrivacyStatement:
    said = statement(
        study,
        federation.sites.spent(),
        federation.asked,
        simulated=True,
        slack=federation.slack,
        persons_told=persons_told,
        total=total,
        schema_source=schema_source,
        drawn=drawn,
    )
    return replace(said, covers="evaluation", caveats=(note, *said.caveats))
