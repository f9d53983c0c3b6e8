"""`hedgerow.evaluate`: how good a model is, as a paid answer with an interval."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from sklearn.utils.validation import check_is_fitted

from hedgerow.coordinator.federation import Federation
from hedgerow.coordinator.promise import unit
from hedgerow.coordinator.statement import PrivacyStatement, statement
from hedgerow.errors import SpecError
from hedgerow.estimators.checking import checked_labels, checked_rows
from hedgerow.estimators.holders import (
    declared_parties,
    secret_draws,
    split_by_party,
    split_persons,
)
from hedgerow.estimators.ledger import as_ledger
from hedgerow.learning.evaluation import (
    CalibrationBin,
    EstimatedMeasure,
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
from hedgerow.secagg.parameters import Parameters
from hedgerow.site.reading.encoding import encode
from hedgerow.site.rows import Rows
from hedgerow.study.terms import Study
from hedgerow.transport import in_process
from hedgerow.values.arrays import FloatArray
from hedgerow.values.models import Model
from hedgerow.values.notebook import html_table
from hedgerow.values.regions import HeldOut
from hedgerow.values.schema import Schema

OF_HELD_OUT = (
    "these records were drawn to be left out of training by secrets of their holders: no record "
    "paid for both, so model and evaluation together keep the larger of both epsilons."
)
USUAL_CONFIDENCE = 0.95
OF_OTHERS = "if any of these records was trained on, the epsilons of both add for it."


@dataclass(frozen=True)
class Measured:
    """One model on one group of records."""

    group: str
    measures: dict[str, EstimatedMeasure]
    calibration: tuple[CalibrationBin, ...]

    def __getitem__(self, name: str) -> EstimatedMeasure:
        return self.measures[name]

    @property
    def is_told(self) -> bool:
        """Whether noise left anything to say."""
        return not any(math.isnan(one.value) for one in self.measures.values())


@dataclass(frozen=True)
class Evaluation:
    """What the query gave of each model: over all records, or one part for each group."""

    parts: tuple[tuple[Measured, ...], ...]
    confidence: float
    privacy_: PrivacyStatement
    chosen: Any

    def __getitem__(self, name: str) -> EstimatedMeasure:
        """A measure of the first model over all records, or over its first group."""
        return self.parts[0][0][name]

    @property
    def groups(self) -> dict[str, Measured]:
        """Of the first model, by the cells of the column `by`."""
        return {one.group: one for one in self.parts[0]}

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {
            "confidence": self.confidence,
            "models": [[_plain(one) for one in part] for part in self.parts],
            "privacy": self.privacy_.to_dict(),
        }

    def __repr__(self) -> str:
        return f"Evaluation({_main(self.parts[0][0])}, {self.privacy_.promise})"

    def _repr_html_(self) -> str:
        lines = [
            (f"model {k + 1}", one.group, name, str(value))
            for k, part in enumerate(self.parts)
            for one in part
            for name, value in one.measures.items()
        ]
        return html_table(repr(self), lines)

    def __str__(self) -> str:
        lines = [f"Evaluation, {self.privacy_.promise}; {self.confidence:.0%} intervals"]
        for k, part in enumerate(self.parts):
            lines += [f"model {k + 1}"] if len(self.parts) > 1 else []
            for one in (one for one in part if one.is_told or len(part) == 1):
                lines += [f"  {one.group}"] if len(part) > 1 else []
                lines += [f"    {name:<24} {value}" for name, value in one.measures.items()]
        return "\n".join(lines)


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
    records_per_person: int = 1,
    ledger: Any = None,
) -> Evaluation:
    """Measures a model on records that it was not trained on, by one private query.

    Records are counted by predicted probability (between public edges) and by class; AUC, accuracy,
    log-loss, Brier score and calibration follow from these counts. For a number they are counted by
    the size of the error and by the target. Intervals count sampling and noise.

    Parameters
    ----------
    model : estimator
        Fitted. If it was fitted with `hold_out`, give the same rows: those that were held out are
        found again by the holders' secrets. Otherwise all rows given are evaluated.
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
        the result is the best of all. They must read rows on the same grid.
    confidence : float, default=0.95
        Of the intervals.
    records_per_person : int, default=1
        How many records one person may have.
    ledger : str, Path, Ledger or None, default=None
        A file in which this adds up with fits.

    Returns
    -------
    Evaluation
        `result["auc"]` is an estimate with `value`, `low` and `high`; `result.groups` has those of
        each group; `result.privacy_` is the statement.

    """
    candidates = [model, *choose]
    schema = _common_schema(candidates)
    X, y = checked_rows(X), checked_labels(y, schema.target is not None)
    names = declared_parties(party, parties)
    parts = split_by_party(X, y, party, names)
    persons = split_persons(person, y, party, names)
    study = _study(schema, len(parts), epsilon, delta, records_per_person)
    rows = _held_out(model, schema, parts, persons)
    total = None
    if ledger is not None:
        what = unit(study, person is not None)
        total = as_ledger(ledger).reserve(study.epsilon, study.delta, unit=what, name=recipe.NAME)
    federation = in_process.open_federation(study, rows)
    grid = None if by is None else schema.grids[schema.index(by)]
    tables = run(recipe.flow([one.model_ for one in candidates], schema, grid), federation)
    measured = tuple(
        tuple(_measured(table, k, one.model_, schema, confidence) for table in tables)
        for k, one in enumerate(candidates)
    )
    said = _statement(study, federation, model, person is not None, total)
    best = max(range(len(candidates)), key=lambda k: _goodness(measured[k][0]))
    return Evaluation(measured, confidence, said, candidates[best])


def on_held_out_records(model: Model, federation: Federation) -> tuple[Measured, ...]:
    """The same measures, by one more query of a study's own run: of the records it holds out."""
    study = federation.study
    tables = run(recipe.flow([model], study.schema, None, study.held_out), federation)
    return tuple(_measured(table, 0, model, study.schema, USUAL_CONFIDENCE) for table in tables)


def _common_schema(models: Sequence[Any]) -> Schema:
    for one in models:
        check_is_fitted(one, "model_")
    first: Schema = models[0].schema_
    if any(one.schema_.digest != first.digest for one in models):
        raise SpecError(
            "the models read rows on different grids, so that no one query compares them; evaluate "
            "them one by one, or fit them with estimators of one kind."
        )
    return first


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


def _held_out(model: Any, schema: Schema, parts: Any, persons: Any) -> list[Rows]:
    kept = getattr(model, "_held_out_draws", None)
    if kept is not None and len(kept) != len(parts):
        raise SpecError(
            f"{len(kept)} holders held records out of training and {len(parts)} are named here; "
            "give the same rows with the same parties."
        )
    draws = kept or secret_draws(recipe.NAME, len(parts))
    rows = [
        Rows(encode(X, schema, y=y, person=who, check=len(y) > 0), schema, own)
        for (X, y), who, own in zip(parts, persons, draws, strict=True)
    ]
    if kept is None:
        return rows
    return [one.part(HeldOut(int(model.hold_out)), 0) for one in rows]


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
        is_tied = len(model.score.trees) <= 1 and not model.score.curves
        found = two_class_measures(counts, variance, confidence, is_tied=is_tied)
        return Measured(table.group, found, calibration(counts, variance, confidence))
    right, noise = right_and_wrong(counts, variance)
    found = many_class_measures(counts, variance, confidence)
    return Measured(table.group, found, calibration(right, noise, confidence))


def _main(one: Measured) -> str:
    name = next(iter(one.measures))
    return f"{name} = {one[name]}"


def _goodness(one: Measured) -> float:
    """AUC, accuracy, or the mean error with its sign turned."""
    name = next(iter(one.measures))
    value = one[name].value
    return -value if name == "mean_absolute_error" else value


def _statement(
    study: Study, federation: Federation, model: Any, persons_told: bool, total: Any
) -> PrivacyStatement:
    said = statement(
        study,
        federation.link.spent(),
        federation.asked,
        simulated=True,
        slack=federation.slack,
        persons_told=persons_told,
        total=total,
    )
    note = OF_HELD_OUT if getattr(model, "_held_out_draws", None) else OF_OTHERS
    return replace(said, caveats=(note, *said.caveats))


def _plain(one: Measured) -> dict[str, Any]:
    return {
        "group": one.group,
        "measures": {name: _numbers(value) for name, value in one.measures.items()},
        "calibration": [
            {"low": b.low, "high": b.high, "records": b.records, "share": _numbers(b.share)}
            for b in one.calibration
        ],
    }


def _numbers(value: EstimatedMeasure) -> list[float | None]:
    found = (value.value, value.low, value.high)
    return [number if abs(number) < float("inf") else None for number in found]
