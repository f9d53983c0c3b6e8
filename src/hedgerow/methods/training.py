"""From parameters to a study, and from a finished run to a fitted estimator: one place for both.

`fit` uses it for rows of this process, and a run over real sites for theirs. An estimator is
fitted when its model, its run record and its statement are set; nothing else sets them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.utils import check_random_state

from hedgerow.errors import QualityWarning, SignalWarning, SpecError, warn
from hedgerow.federation.server import Server
from hedgerow.methods.blocks import evaluation
from hedgerow.methods.blocks.flow import run
from hedgerow.methods.common import DEFAULT_DELTA
from hedgerow.methods.evaluate import USUAL_CONFIDENCE, on_held_out_records
from hedgerow.methods.inputs import check_task
from hedgerow.methods.method import Recipe, Trained, check_needs, check_size, spelled_out
from hedgerow.methods.parameters import checked
from hedgerow.privacy.accounting.budget import Placement
from hedgerow.privacy.accounting.conversions import check_promise, warn_if_weak
from hedgerow.privacy.accounting.guarantee import Drawn
from hedgerow.privacy.statement.spending import Total
from hedgerow.privacy.statement.statement import statement
from hedgerow.privacy.study import Study
from hedgerow.report.evaluation import Evaluation
from hedgerow.schema.rules import exact
from hedgerow.schema.schema import Schema
from hedgerow.secagg.graph import Parameters

if TYPE_CHECKING:
    from hedgerow.methods.base import PrivateEstimator


MANY_COLUMNS = 9
"""From here on a record takes part in so many sums that Gaussian noise is smaller."""


@dataclass(frozen=True, kw_only=True)
class Circumstances:
    """What a statement says of a run beside its numbers."""

    simulated: bool = True
    parties_met: bool = False
    persons_told: bool = False
    total: Total | None = field(default=None)
    drawn: Drawn | None = None
    """Which records it is of, where secret draws left others for an evaluation of its own."""


def agree(
    estimator: PrivateEstimator, given: Schema, parties: int, terms: Mapping[str, Any] | None = None
) -> tuple[Study, Recipe]:
    """The study that an estimator's parameters mean for so many holders, and its recipe.

    `terms` are fields of the study that parties agree on beside these; a simulation has none.
    """
    read = checked(estimator)
    check_task(given, estimator._regression, type(estimator).__name__)
    is_study, placement = terms is not None, read.placement
    epsilon, delta = exact(estimator.epsilon, "epsilon"), exact(estimator.delta, "delta")
    if placement is Placement.LABEL and estimator.delta == DEFAULT_DELTA:
        delta = Fraction(0)  # labels are told under pure epsilon; the usual delta asks for no more
    if placement is not Placement.NOWHERE:
        check_promise(epsilon, delta)
        warn_if_weak(delta)
        hint_at_delta(delta, len(given.features), placement)
    recipe = estimator._recipe(given)
    schema = recipe.grid(given.with_sorted_classes())
    colluders, threshold = _counts(read.colluders, read.threshold, parties)
    study = Study(
        schema=schema,
        recipe=recipe.name,
        asks=recipe.asks(schema),
        recipe_parameters=spelled_out(recipe),
        public_seed=public_seed(estimator),
        epsilon=epsilon,
        delta=delta,
        placement=placement or (Placement.CURATOR if parties == 1 else Placement.SHARES),
        parties=parties,
        colluders=colluders,
        threshold=threshold,
        records_per_person=read.records_per_person,
        label_reports=estimator._label_reports(schema, epsilon, placement),
        hold_out=read.hold_out or 0,
        asks_held_out=evaluation.asks(schema) if is_study and read.hold_out else frozenset(),
        **{"name": "fit", **(terms or {})},
    )
    check_needs(recipe, schema, study.placement, study.parties)
    check_size(recipe, study)
    return study, recipe


def _given_schema(estimator: PrivateEstimator, study: Study) -> Schema:
    """What people typed, before the recipe's grid: `hedgerow schema check` prints its digest.

    What was worked out from rows has no file, and no other form than the study's.
    """
    given = checked(estimator).schema
    return given if isinstance(given, Schema) else study.schema


def hint_at_delta(delta: Fraction, columns: int, placement: Placement | None) -> None:
    """By the number of columns alone, which is public."""
    if delta == 0 and columns >= MANY_COLUMNS and placement is not Placement.LABEL:
        warn(
            f"delta is 0 and there are {columns} columns: with so many, Laplace noise is larger "
            "than Gaussian noise of the same epsilon. A delta well below 1 / the number of "
            "records, such as 1e-6, gives better models; see docs/accounting.md.",
            QualityWarning,
        )


def _counts(colluders: int | None, threshold: int | None, parties: int) -> tuple[int, int]:
    """How many may collude and how many must survive, where nobody said."""
    if parties == 1:
        if (colluders, threshold) != (None, None):
            raise SpecError(
                f"colluders is {colluders} and threshold is {threshold}, but one holder has all "
                "rows; name several with `party`, or leave both at None."
            )
        return 0, 1
    usual = Parameters.default(parties)
    return colluders or usual.colluders, threshold or usual.threshold


def public_seed(estimator: PrivateEstimator) -> int:
    """Of all public draws of a run: feature draws and random cuts, never noise."""
    return int(check_random_state(estimator.random_state).randint(2**31 - 1))


def train(
    estimator: PrivateEstimator,
    study: Study,
    recipe: Recipe,
    federation: Server,
    circumstances: Circumstances,
) -> None:
    """Drives the recipe over the federation; the estimator is then fitted.

    Where the study says so, held-out records tell how good the model is, in one more round.
    """
    rng = np.random.default_rng(study.public_seed)
    trained: Trained = run(recipe.flow(study.schema, federation, rng), federation)
    measured = on_held_out_records(trained.model, federation) if study.asks_held_out else None
    estimator.schema_ = study.schema
    estimator.model_ = trained.model
    estimator.grown_ = trained.grown
    estimator.run_ = federation.record
    estimator.signed_ = None  # a run over real sites signs its model's file
    estimator.ledger_ = federation.ledger
    estimator.n_features_in_ = len(study.schema.grids)
    estimator.privacy_ = statement(
        study,
        federation.sites.spent(),
        federation.asked,
        simulated=circumstances.simulated,
        saved_fraction=trained.saved,
        slack=federation.slack,
        parties_met=circumstances.parties_met,
        persons_told=circumstances.persons_told,
        total=circumstances.total,
        instead=trained.instead,
        schema_source=_given_schema(estimator, study).provenance,
        drawn=circumstances.drawn,
    )
    if measured is not None:
        estimator.evaluation_ = Evaluation(
            (measured,),
            USUAL_CONFIDENCE,
            estimator.privacy_,
            (trained.model.score.digest,),
            classes=study.schema.classes or (),
        )
    if trained.instead:
        warn(trained.instead, SignalWarning)
