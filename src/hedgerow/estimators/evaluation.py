"""`hedgerow.evaluate`: how good a model is, as a paid answer with an interval."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from hedgerow.coordinator.federation import Federation
from hedgerow.coordinator.promise import unit
from hedgerow.coordinator.statement import PrivacyStatement, statement
from hedgerow.errors import SpecError
from hedgerow.estimators.checking import checked_labels, checked_rows
from hedgerow.estimators.holders import (
    HeldOutDraws,
    declared_parties,
    names_of_holders,
    secret_draws,
    split_by_party,
    split_persons,
    taken,
)
from hedgerow.estimators.ledger import as_ledger
from hedgerow.learning.evaluation import (
    calibration,
    many_class_measures,
    number_measures,
    right_and_wrong,
    two_class_measures,
)
from hedgerow.learning.flow import run
from hedgerow.privacy.accounting.budget import Placement, exact
from hedgerow.privacy.accounting.conversions import check_promise, warn_if_weak
from hedgerow.recipes import evaluation as recipe
from hedgerow.recipes.evaluation import EvaluationTables
from hedgerow.report.evaluation import Evaluation, Measured
from hedgerow.secagg.parameters import Parameters
from hedgerow.site.reading.encoding import encode
from hedgerow.site.rows import Draws, Rows
from hedgerow.study.terms import Study
from hedgerow.transport import in_process
from hedgerow.values.arrays import FloatArray
from hedgerow.values.joining import joint_schema, on_joint_grid
from hedgerow.values.models import Model
from hedgerow.values.regions import HeldOut
from hedgerow.values.schema import Schema

OF_HELD_OUT = (
    "these records were drawn to be left out of training by secrets of their holders: no record "
    "paid for both, so model and evaluation together keep the larger of both epsilons."
)
USUAL_CONFIDENCE = 0.95
OF_OTHERS = "if any of these records was trained on, the epsilons of both add for it."


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
    by: str | None = None,
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
    by : str or None, default=None
        A column of the schema: each of its values is evaluated by itself, for the same price.
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
        confidence=confidence,
        ledger=ledger,
    )


def compared(
    candidates: Sequence[Any],
    rows: tuple[Any, Any],
    told: Mapping[str, Any],
    promise: Mapping[str, Any],
    *,
    by: str | None = None,
    confidence: float = 0.95,
    ledger: Any = None,
    note: str | None = None,
    names: tuple[str, ...] = (),
) -> Evaluation:
    """All candidates by one query; `told` says whose rows these are, `note` who trained on them."""
    schema = _joint_schema(candidates)
    models = [on_joint_grid(one.model_, one.schema_, schema) for one in candidates]
    X, y = checked_rows(rows[0]), checked_labels(rows[1], schema.target is not None)
    party, person = told["party"], told["person"]
    sites = declared_parties(party, told["parties"])
    parts = [
        HolderRows(X=mine, y=labels, person=ids)
        for (mine, labels), ids in zip(
            split_by_party(X, y, party, sites), split_persons(person, y, party, sites), strict=True
        )
    ]
    study = _study(schema, len(parts), **{**promise, "most": _most(candidates, promise["most"])})
    who = names_of_holders(party, sites)
    held = _evaluated_rows(candidates, study, parts, who, person is not None)
    total = None
    if ledger is not None:
        what = unit(study, person is not None)
        total = as_ledger(ledger).reserve(study.epsilon, study.delta, unit=what, name=recipe.NAME)
    federation = in_process.open_federation(study, held)
    grid = None if by is None else schema.grids[schema.index(by)]
    tables = recipe.with_all(run(recipe.flow(models, schema, grid), federation))
    measured = tuple(
        tuple(_measured(table, k, one, schema, confidence) for table in tables)
        for k, one in enumerate(models)
    )
    note = note or (OF_HELD_OUT if _is_held_out(candidates) else OF_OTHERS)
    sources = {one.privacy_.schema_source for one in candidates}
    source = sources.pop() if len(sources) == 1 else schema.provenance
    said = _statement(study, federation, note, person is not None, total, source)
    best = max(range(len(candidates)), key=lambda k: _goodness(measured[k][0]))
    digests = tuple(one.model_.score.digest for one in candidates)
    classes = schema.classes or ()
    return Evaluation(measured, confidence, said, digests, candidates[best], names, classes)


def on_held_out_records(model: Model, federation: Federation) -> tuple[Measured, ...]:
    """The same measures, by one more query of a study's own run: of the records it holds out."""
    study = federation.study
    tables = run(recipe.flow([model], study.schema, None, study.held_out), federation)
    return tuple(_measured(table, 0, model, study.schema, USUAL_CONFIDENCE) for table in tables)


def _joint_schema(models: Sequence[Any]) -> Schema:
    for one in models:
        check_is_fitted(one, "model_")
    return joint_schema([one.schema_ for one in models])


def _is_held_out(models: Sequence[Any]) -> bool:
    """Whether the first model held records out, and so did all others: by the same draws."""
    kept = getattr(models[0], "_held_out_draws", None)
    return kept is not None and all(one._held_out_draws is kept for one in models[1:])


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
    if given is not None:
        return given
    kept = [getattr(one, "_held_out_draws", None) for one in models]
    return max(
        one.records_per_person if draws is None else draws.records_per_person
        for one, draws in zip(models, kept, strict=True)
    )


@dataclass(frozen=True, kw_only=True)
class HolderRows:
    """Rows of one holder as they were given, their labels, and whose they are if somebody said."""

    X: Any
    y: NDArray[Any]
    person: NDArray[np.object_] | None

    def taken(self, rows: NDArray[np.intp]) -> HolderRows:
        person = None if self.person is None else self.person[rows]
        return HolderRows(X=taken(self.X, rows), y=self.y[rows], person=person)

    def on_grid(self, schema: Schema, own: Draws) -> Rows:
        read = encode(self.X, schema, y=self.y, person=self.person, check=len(self.y) > 0)
        return Rows(read, schema, own)

    def is_held_out(self, schema: Schema, own: Draws, one_in: int) -> NDArray[np.bool_]:
        """(n,) by the holder's secret: a record is drawn by its codes on this schema's grid.

        On a finer grid, records that are equal here would no longer be alike, and one record more
        could change which of them are held out.
        """
        return np.asarray(self.on_grid(schema, own).fold(HeldOut(one_in)) == 0)


def _evaluated_rows(
    models: Sequence[Any],
    study: Study,
    parts: Sequence[HolderRows],
    names: Sequence[str],
    by_person: bool,
) -> list[Rows]:
    """All rows, or of a model with `hold_out` those that its holders' secrets kept from it."""
    model = models[0]
    kept: HeldOutDraws | None = getattr(model, "_held_out_draws", None)
    if kept is None:
        draws = secret_draws(recipe.NAME, len(parts))
        return [part.on_grid(study.schema, own) for part, own in zip(parts, draws, strict=True)]
    if not _is_held_out(models):
        raise SpecError(
            "the model held records out of training, and another one may have been trained on "
            "them; compare them on new rows, or let hedgerow.choose train them all."
        )
    draws = kept.of(
        names,
        by_person=by_person,
        schema=model.schema_.digest,
        records_per_person=study.records_per_person,
    )
    found = []
    for part, own in zip(parts, draws, strict=True):
        keep = np.flatnonzero(part.is_held_out(model.schema_, own, kept.one_in))
        found.append(part.taken(keep).on_grid(study.schema, own))
    return found


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
    federation: Federation,
    note: str,
    persons_told: bool,
    total: Any,
    schema_source: str,
) -> PrivacyStatement:
    said = statement(
        study,
        federation.link.spent(),
        federation.asked,
        simulated=True,
        slack=federation.slack,
        persons_told=persons_told,
        total=total,
        schema_source=schema_source,
    )
    return replace(said, covers="evaluation", caveats=(note, *said.caveats))
