"""`hedgerow.evaluate`: private measures of a model's quality, with intervals."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from hedgerow.data.site_rows import HELD_OUT, TRAINED_ON, HeldOutDraws
from hedgerow.errors import ParameterError, SignalWarning, warn
from hedgerow.federation.server import Server
from hedgerow.federation.transports import in_process
from hedgerow.methods.blocks import evaluation as method
from hedgerow.methods.blocks.evaluation import EvaluationTables, GroupedBy
from hedgerow.methods.blocks.flow import run
from hedgerow.methods.constants import constant
from hedgerow.methods.evaluated_rows import (
    common_draws,
    evaluated_rows,
    group_column,
    rows_of_the_sites,
)
from hedgerow.methods.inputs import checked_rows, labels_for
from hedgerow.methods.ledger import as_ledger
from hedgerow.models.joining import joint_schema, on_joint_grid
from hedgerow.models.model import Model
from hedgerow.models.survival import RiskTable
from hedgerow.privacy.accounting.budget import DPModel
from hedgerow.privacy.accounting.conversions import check_guarantee, warn_if_weak
from hedgerow.privacy.accounting.guarantee import Guarantee
from hedgerow.privacy.statement.statement import statement
from hedgerow.privacy.statement.wording import evaluation_words, guarantee_of
from hedgerow.privacy.study import Study
from hedgerow.report.evaluation import Evaluation, Measured
from hedgerow.report.measures import (
    calibration,
    evaluation_grid,
    many_class_measures,
    number_measures,
    right_and_wrong,
    survival_measures,
    two_class_measures,
)
from hedgerow.schema.arrays import FloatArray
from hedgerow.schema.rules import exact
from hedgerow.schema.schema import Schema
from hedgerow.secagg.parameters import Parameters

USUAL_CONFIDENCE = constant(0.95, unit="confidence of an interval where nobody chose one")

NOT_ASKED = (
    "groups of {!r} were not asked, and their part of epsilon was not spent: by what was released "
    "of all records, they are below the noise. Ask for fewer groups, or for a larger epsilon."
)


def evaluate(
    model: Any,
    X: Any,
    y: Any,
    *,
    epsilon: float,
    delta: float = 0.0,
    site: Any = None,
    sites: Any = None,
    person: Any = None,
    by: str | Mapping[str, Sequence[float]] | None = None,
    records: int | None = None,
    compare_with: Sequence[Any] = (),
    confidence: float = USUAL_CONFIDENCE,
    records_per_person: int | None = None,
    ledger: Any = None,
) -> Evaluation:
    """Evaluate a model by one private query over records that it was not trained on.

    Records are counted by predicted probability (between public edges) and by class; AUC, accuracy,
    log-loss, Brier score and calibration follow from these counts. For regression they are counted
    by size of the error and by target; for survival by risk group, time and event. Intervals
    include sampling and noise.

    Parameters
    ----------
    model : estimator
        A fitted estimator. If it was fitted with `hold_out`, pass the same rows, the same `sites`
        in
        any order and the same `person`: the held-out rows are found again by the sites' secrets,
        and
        anything else is refused. Otherwise all rows are evaluated.
    X, y : rows and labels
        As for `fit`.
    epsilon, delta : float
        The guarantee for the evaluated records. A record takes part in one sum, so pure DP
        (delta = 0) has the least noise.
    site, sites, person : as for `fit`
        The site of each row, the participating sites, and the person of each row.
    by : str, dict or None, default=None
        A column of the schema: each of its values is evaluated separately, all of them for half of
        epsilon; the other half is for all records. A number is cut into four by its declared edges
        or range, or as in `by={"age": [40, 65]}`. If the result for all records shows that an even
        group would be below the noise, groups are not asked and a warning says so.
    records : int or None, default=None
        The approximate number of evaluated records, if public: if an even group would be below the
        noise, `by` is refused before anything is charged.
    compare_with : sequence of estimators, default=()
        Other fitted estimators, compared in the same query; the noise grows with their number.
        `chosen` of the result is the best of all. `hedgerow.select_model` also trains them, on
        other
        records.
    confidence : float, default=0.95
        Confidence level of the intervals.
    records_per_person : int or None, default=None
        The largest number of records per person; None is that of the model's fit.
    ledger : str, Path, Ledger or None, default=None
        A ledger that charges this evaluation together with fits.

    Returns
    -------
    Evaluation
        `result["auc"]` is an estimate with `value`, `low` and `high`; `result.groups` has those of
        each group; `result.privacy_` is the statement.

    """
    return compare(
        [model, *compare_with],
        (X, y),
        {"site": site, "sites": sites, "person": person},
        {"epsilon": epsilon, "delta": delta, "most": records_per_person},
        by=by,
        records=records,
        confidence=confidence,
        ledger=ledger,
    )


def compare(
    candidates: Sequence[Any],
    rows: tuple[Any, Any],
    row_columns: Mapping[str, Any],
    privacy_terms: Mapping[str, Any],
    *,
    by: str | Mapping[str, Sequence[float]] | None = None,
    records: int | None = None,
    confidence: float = USUAL_CONFIDENCE,
    ledger: Any = None,
    left_by: HeldOutDraws | None = None,
    names: tuple[str, ...] = (),
) -> Evaluation:
    """Evaluates all candidates by one query; `row_columns` has the site and person of each row.

    `left_by` are the draws that held out exactly these rows from all trainings, if any.
    """
    for candidate in candidates:
        check_is_fitted(candidate, "model_")
    schema = joint_schema([candidate.schema_ for candidate in candidates])
    column = group_column(by, candidates[0])
    schema = schema if column is None else column.on_grid(schema)
    models = [
        on_joint_grid(candidate.model_, candidate.schema_, schema) for candidate in candidates
    ]
    X, labels = checked_rows(rows[0]), labels_for(rows[1], schema)
    parts, _ = rows_of_the_sites(X, labels, schema, **row_columns)
    study = _study(
        schema, len(parts), **{**privacy_terms, "most": _most(candidates, privacy_terms["most"])}
    )
    by_person = row_columns["person"] is not None
    site_rows = evaluated_rows(candidates, study, parts, by_person)
    left_by = left_by or common_draws(candidates)
    draw = None if left_by is None else left_by.part(HELD_OUT)
    guarantee = guarantee_of(study, by_person, sample=draw)
    note = evaluation_words(_trainings(candidates, left_by), guarantee)
    grouping = None
    if column is not None:
        grouping = GroupedBy(schema.grids[schema.index(column.name)], column.cuts)
    if grouping is not None and records is not None:
        _check_groups(records, models, grouping, study)
    total = None
    if ledger is not None:
        total = as_ledger(ledger).reserve(guarantee, name=method.EVALUATION)
    federation = in_process.open_federation(study, site_rows)
    flow = method.flow(models, schema, grouping, variance=federation.variance)
    tables = run(flow, federation)
    if grouping is not None and len(tables) == 1:
        warn(NOT_ASKED.format(grouping.grid.feature), SignalWarning)
    measures = tuple(
        tuple(_measure(table, k, model, schema, confidence) for table in tables)
        for k, model in enumerate(models)
    )
    sources = {candidate.privacy_.schema_source for candidate in candidates}
    source = sources.pop() if len(sources) == 1 else schema.provenance
    privacy = statement(
        study,
        federation.sites.spent(),
        federation.queries,
        is_simulation=True,
        slack=federation.slack,
        persons_declared=by_person,
        total=total,
        schema_source=source,
        sample=draw,
    )
    privacy = replace(privacy, covers="evaluation", caveats=(note, *privacy.caveats))
    best = max(range(len(candidates)), key=lambda k: _goodness(measures[k][0]))
    digests = tuple(candidate.model_.score.digest for candidate in candidates)
    classes = schema.classes or ()
    return Evaluation(measures, confidence, privacy, digests, candidates[best], names, classes)


def _check_groups(records: int, models: Sequence[Model], by: GroupedBy, study: Study) -> None:
    if not isinstance(records, int) or records < 1:
        raise ParameterError(f"records is {records!r}; say about how many there are, 1 or more.")
    if not method.can_tell_groups(records, models, study.schema, by, study):
        raise ParameterError(
            f"{by.size} groups of {by.grid.feature!r} with about {records / by.size:.0f} records "
            "each "
            "are below the noise. Nothing was charged; ask for fewer groups (cuts such as "
            "age=40,65), or for a larger epsilon."
        )


def _trainings(models: Sequence[Any], left_by: HeldOutDraws | None) -> list[Guarantee]:
    """The guarantee of each fit once, however many of its stages are compared."""
    fits = {id(model.privacy_): model.privacy_.guarantee for model in models}.values()
    if left_by is None:
        return list(fits)
    return [replace(fit, drawn=left_by.part(TRAINED_ON)) for fit in fits]


def on_held_out_records(model: Model, federation: Server) -> tuple[Measured, ...]:
    """Measures on the held-out records of a study, by one more query of the same run."""
    study = federation.study
    tables = run(method.flow([model], study.schema, None, study.held_out), federation)
    return tuple(_measure(table, 0, model, study.schema, USUAL_CONFIDENCE) for table in tables)


def _study(schema: Schema, n_sites: int, epsilon: Any, delta: Any, most: int) -> Study:
    privacy_terms = exact(epsilon, "epsilon"), exact(delta, "delta")
    check_guarantee(*privacy_terms)
    warn_if_weak(privacy_terms[1])
    usual = Parameters.default(n_sites) if n_sites > 1 else None
    return Study(
        name=method.EVALUATION,
        schema=schema,
        method=method.EVALUATION,
        asks=method.asks(schema),
        epsilon=privacy_terms[0],
        delta=privacy_terms[1],
        dp_model=DPModel.CENTRAL if usual is None else DPModel.DISTRIBUTED,
        n_sites=n_sites,
        colluders=usual.colluders if usual else 0,
        threshold=usual.threshold if usual else 1,
        records_per_person=most,
    )


def _most(models: Sequence[Any], most: int | None) -> int:
    """Records per person: the largest of the models' fits, unless given."""
    fitted_most = max(model.privacy_.guarantee.unit.most for model in models)
    return fitted_most if most is None else most


def _measure(
    table: EvaluationTables, k: int, model: Model, schema: Schema, confidence: float
) -> Measured:
    values, variance = table.values, table.variance
    if model.survival is not None:
        cuts, times = evaluation_grid(model.survival)
        noisy = RiskTable(cuts, times, tuple(values[k].ravel().tolist()), float(np.sqrt(variance)))
        return Measured(table.group, *survival_measures(noisy, model.survival, confidence))
    if schema.classes is None:
        assert schema.target is not None
        errors, targets = values[k][:, 0], values[-1][:, 0]
        edges, target_edges = method.error_edges(schema), method.coarse_target_edges(schema)
        ends = schema.target.low, schema.target.high
        measures = number_measures(errors, edges, targets, target_edges, variance, confidence, ends)
        return Measured(table.group, measures, ())
    counts: FloatArray = values[k]
    if len(schema.classes) == 2:
        few = _few_probabilities(model)
        measures = two_class_measures(counts, variance, confidence, probabilities=few)
        return Measured(table.group, measures, calibration(counts, variance, confidence))
    right, noise = right_and_wrong(counts, variance)
    measures = many_class_measures(counts, variance, confidence)
    return Measured(table.group, measures, calibration(right, noise, confidence))


def _few_probabilities(model: Model) -> FloatArray | None:
    """Probabilities of the second class per leaf of a single tree; None for sums of trees."""
    score = model.score
    if len(score.trees) > 1 or score.curves:
        return None
    leaves = [tree.values for tree in score.trees] or [np.zeros((1, score.outputs))]
    return np.unique(model.read(np.asarray(score.base) + leaves[0])[:, 1])


def _goodness(measures: Measured) -> float:
    """AUC, accuracy, or the negative mean error."""
    name = next(iter(measures.measures))
    value = measures[name].value
    return -value if name == "mean_absolute_error" else value
