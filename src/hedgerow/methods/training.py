"""From parameters to a study, and from a finished run to a fitted estimator.

Used by `fit` and by runs over real sites. An estimator is fitted when its model, its run record and
its statement are set, which happens only here.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from fractions import Fraction
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from sklearn.utils import check_random_state

from hedgerow.errors import ParameterError, QualityWarning, SignalWarning, warn
from hedgerow.federation.server import Server
from hedgerow.methods.blocks import evaluation
from hedgerow.methods.blocks.flow import run
from hedgerow.methods.common import DEFAULT_DELTA
from hedgerow.methods.constants import constant
from hedgerow.methods.evaluate import USUAL_CONFIDENCE, on_held_out_records
from hedgerow.methods.inputs import check_task
from hedgerow.methods.method import Method, TrainingResult, canonical_text, check_needs, check_size
from hedgerow.methods.parameters import check_parameters
from hedgerow.privacy.accounting.budget import DPModel
from hedgerow.privacy.accounting.conversions import check_guarantee, warn_if_weak
from hedgerow.privacy.accounting.guarantee import Drawn
from hedgerow.privacy.statement.record import Listener, Progress, silent
from hedgerow.privacy.statement.spending import Total
from hedgerow.privacy.statement.statement import statement
from hedgerow.privacy.study import Study
from hedgerow.report.evaluation import Evaluation
from hedgerow.schema.rules import exact
from hedgerow.schema.schema import Schema
from hedgerow.secagg.parameters import Parameters

WORTH_A_BAR_SECONDS = constant(2.0, unit="seconds a fit lasts before a bar is shown")
MANY_COLUMNS = constant(9, unit="columns", evidence="docs/design/budget.md")
"""Number of columns from which Gaussian noise is smaller."""

if TYPE_CHECKING:
    from hedgerow.methods.base import PrivateEstimator


@dataclass(frozen=True, kw_only=True)
class Circumstances:
    """Circumstances of a run that its privacy statement mentions."""

    simulated: bool = True
    found_sites: bool = False
    persons_declared: bool = False
    total: Total | None = field(default=None)
    drawn: Drawn | None = None
    """The secretly drawn part of the records, if others are held out."""


def agree(
    estimator: PrivateEstimator,
    declared_schema: Schema,
    n_sites: int,
    terms: Mapping[str, Any] | None = None,
    max_rounds: int = 0,
) -> tuple[Study, Method]:
    """The study and the method that an estimator's parameters define for `n_sites` sites.

    `terms` are further study fields on which sites agree; a simulation has none but `max_rounds`,
    and that only in a plan.
    """
    parameters = check_parameters(estimator)
    check_task(declared_schema, estimator._regression, type(estimator).__name__)
    is_study, dp_model = terms is not None, parameters.dp_model
    epsilon, delta = exact(estimator.epsilon, "epsilon"), exact(estimator.delta, "delta")
    if dp_model is DPModel.LABEL and estimator.delta == DEFAULT_DELTA:
        delta = Fraction(0)  # label randomization is pure epsilon; the default delta means 0
    if dp_model is not DPModel.NONE:
        check_guarantee(epsilon, delta)
        warn_if_weak(delta)
        hint_at_delta(delta, len(declared_schema.features), dp_model)
    method = estimator._method(declared_schema)
    schema = method.grid(declared_schema.with_sorted_classes())
    colluders, threshold = _counts(parameters.colluders, parameters.threshold, n_sites)
    study = Study(
        schema=schema,
        asks=method.asks(schema),
        method_parameters=canonical_text(method),
        public_seed=public_seed(estimator),
        epsilon=epsilon,
        delta=delta,
        dp_model=dp_model or (DPModel.CENTRAL if n_sites == 1 else DPModel.DISTRIBUTED),
        n_sites=n_sites,
        colluders=colluders,
        threshold=threshold,
        records_per_person=parameters.records_per_person,
        label_reports=estimator._label_reports(schema, epsilon, dp_model),
        hold_out=parameters.hold_out or 0,
        asks_held_out=evaluation.asks(schema) if is_study and parameters.hold_out else frozenset(),
        **{
            "name": "fit",
            "method": type(estimator).__name__,
            "max_rounds": max_rounds,
            **(terms or {}),
        },
    )
    check_needs(method, schema, study.dp_model, study.n_sites)
    check_size(method, study)
    return study, method


def hint_at_delta(delta: Fraction, columns: int, dp_model: DPModel | None) -> None:
    """Warns of delta 0 with many columns; the number of columns is public."""
    if delta == 0 and columns >= MANY_COLUMNS and dp_model is not DPModel.LABEL:
        warn(
            f"delta is 0 and there are {columns} columns: with so many, Laplace noise is larger "
            "than Gaussian noise of the same epsilon. A delta well below 1 / the number of "
            "records, such as 1e-6, gives better models; see docs/accounting.md.",
            QualityWarning,
        )


def _counts(colluders: int | None, threshold: int | None, n_sites: int) -> tuple[int, int]:
    """Colluders and threshold, with defaults."""
    if n_sites == 1:
        if (colluders, threshold) != (None, None):
            raise ParameterError(
                f"colluders is {colluders} and threshold is {threshold}, but one site has all "
                "rows; name several with `site`, or leave both at None."
            )
        return 0, 1
    usual = Parameters.default(n_sites)
    return colluders or usual.colluders, threshold or usual.threshold


def public_seed(estimator: PrivateEstimator) -> int:
    """The seed of all public draws of a run: feature draws and random cuts, never noise."""
    return int(check_random_state(estimator.random_state).randint(2**31 - 1))


def train(
    estimator: PrivateEstimator,
    study: Study,
    method: Method,
    federation: Server,
    circumstances: Circumstances,
) -> None:
    """Runs the method over the federation and sets the fitted attributes of the estimator.

    If the study holds out records, the model is evaluated on them in one more round.
    """
    rng = np.random.default_rng(study.public_seed)
    trained_model: TrainingResult = run(method.flow(study.schema, federation, rng), federation)
    measures = on_held_out_records(trained_model.model, federation) if study.asks_held_out else None
    # as declared, before the method's grid: `hedgerow schema check` prints its digest; a schema
    # inferred from rows exists only in the study's form
    schema = check_parameters(estimator).schema
    schema = schema if isinstance(schema, Schema) else study.schema
    estimator.schema_ = study.schema
    estimator.model_ = trained_model.model
    estimator.leaf_statistics_ = trained_model.leaf_statistics
    estimator.run_ = federation.record
    estimator.signed_ = None  # a run over real sites signs its model's file
    estimator.ledger_ = federation.ledger
    estimator.n_features_in_ = len(study.schema.columns)
    estimator.privacy_ = statement(
        study,
        federation.spent(),
        federation.queries,
        is_simulation=circumstances.simulated,
        saved_fraction=trained_model.unspent_fraction,
        slack=federation.slack,
        found_sites=circumstances.found_sites,
        persons_declared=circumstances.persons_declared,
        total=circumstances.total,
        instead=trained_model.instead,
        schema_source=schema.provenance,
        sample=circumstances.drawn,
    )
    if measures is not None:
        estimator.evaluation_ = Evaluation(
            (measures,),
            USUAL_CONFIDENCE,
            estimator.privacy_,
            (trained_model.model.score.digest,),
            classes=study.schema.classes or (),
        )
    if trained_model.instead:
        warn(trained_model.instead, SignalWarning)


# A progress bar over rounds and dry runs; usually not shown during the first two seconds.

_T = TypeVar("_T")


@contextmanager
def bar(show: bool, n_rounds: int | None, *, at_once: bool = False) -> Iterator[Listener]:
    """A listener that shows rounds in a progress bar; `at_once` shows it before the first."""
    with _draw_bar(show, "rounds", n_rounds, at_once) as update:

        def listen(event: Progress) -> None:
            update(event.round if event.done else None)

        yield listen if show else silent


@contextmanager
def count_steps(show: bool, title: str, total: int) -> Iterator[Callable[[_T], _T]]:
    """A function that returns its argument and advances a progress bar."""
    n_done = 0
    with _draw_bar(show, title, total) as update:

        def step(result: _T) -> _T:
            nonlocal n_done
            n_done += 1
            update(n_done)
            return result

        yield step


@contextmanager
def _draw_bar(
    show: bool, title: str, total: int | None, at_once: bool = False
) -> Iterator[Callable[[int | None], None]]:
    """Yields a function that updates a progress bar; None only keeps it alive."""
    if not show:
        yield lambda n_done: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn
    from rich.progress import Progress as Bar

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
    )
    began = time.monotonic()
    drawing = Bar(*columns, console=Console(stderr=True))
    task = drawing.add_task(title, total=total)

    def update(n_done: int | None) -> None:
        if at_once or time.monotonic() - began > WORTH_A_BAR_SECONDS:
            drawing.start()
        if n_done is not None:
            drawing.update(task, completed=n_done)

    if at_once:
        update(0)
    try:
        yield update
    finally:
        drawing.stop()
