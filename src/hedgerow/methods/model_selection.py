"""`hedgerow.select_model`: compares estimators, or stages of one, by one private query.

Each site draws the held-out records by its own secret: a record's draw depends on its content on a
grid that joins those of all candidates, so that one added record changes no other's part. All
candidates are trained on the other records, and one query over the held-out ones compares them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone

from hedgerow.data.reading.containers import fill_masked, is_listed, objects_of
from hedgerow.data.site_rows import (
    HeldOutDraws,
    declared_sites,
    names_of_sites,
    secret_draws,
    split_by_site,
    split_persons,
    take_rows,
)
from hedgerow.errors import ParameterError, PrivacyWarning, QualityWarning, warn
from hedgerow.methods.base import PrivateEstimator
from hedgerow.methods.blocks import evaluation as method
from hedgerow.methods.evaluate import USUAL_CONFIDENCE, compare
from hedgerow.methods.evaluated_rows import SiteRows
from hedgerow.methods.inputs import check_task, checked_rows, labels_for
from hedgerow.methods.parameters import check_parameters
from hedgerow.models.joining import joint_schema
from hedgerow.privacy.accounting.budget import DPModel
from hedgerow.privacy.accounting.guarantee import Unit, check_one_unit
from hedgerow.report.evaluation import Evaluation
from hedgerow.schema.schema import Schema

OF_TWO_KINDS = (
    "some candidates protect labels alone and others whole records, so that all of them together "
    "guarantee nothing (epsilon = infinity); select among candidates of one kind."
)


def select_model(
    candidates: Sequence[Any],
    X: Any,
    y: Any,
    *,
    epsilon: float,
    delta: float = 0.0,
    hold_out: int = 5,
    stages: Sequence[int] = (),
    site: Any = None,
    sites: Any = None,
    person: Any = None,
    confidence: float = USUAL_CONFIDENCE,
    ledger: Any = None,
) -> Evaluation:
    """Train several estimators, compare them by one private query, and name the best.

    Parameters
    ----------
    candidates : sequence of estimators
        Unfitted, each with its schema and its own epsilon, all with the same
        `records_per_person`. Their epsilons and deltas add up.
    X, y : rows and labels
        As for `fit`.
    epsilon, delta : float
        The guarantee for the held-out records, which are charged for the comparison only.
    hold_out : int, default=5
        One record in this many is held out, by its own secret draw.
    stages : sequence of int, default=()
        Early stopping: boosted trees are also compared after these numbers of trees. That needs no
        further training; each stage makes the comparison noisier. Dropped trees stay charged.
    site, sites, person : as for `fit`
        With `site`, name all sites in `sites`.
    confidence : float, default=0.95
        Confidence level of the intervals.
    ledger : str, Path, Ledger or None, default=None
        A ledger that charges the comparison; candidates name their own.

    Returns
    -------
    Evaluation
        `result.chosen` is the best of the fitted candidates; if noise hides the difference, the
        first. `result.names` and `result.parts` have the name and the measures of each.

    """
    schemas = [_grid_of(candidate) for candidate in candidates]
    if not schemas:
        raise ParameterError("no candidates were given; name at least one estimator.")
    if not isinstance(hold_out, int) or hold_out < 2:
        raise ParameterError(f"hold_out is {hold_out!r}; one record in 2 or more can be held out.")
    _check_stages(stages, candidates)
    joint = joint_schema(schemas)
    X, labels = checked_rows(X), labels_for(y, joint)
    names = declared_sites(site, sites)
    if site is not None and names is None:
        raise ParameterError("site says who holds each row; name all sites too: sites=[...].")
    most = _one_unit(candidates, person is not None)
    site_names = names_of_sites(site, names)
    draws = secret_draws(method.EVALUATION, len(site_names))
    left_by = HeldOutDraws(
        secrets=dict(zip(site_names, draws, strict=True)),
        one_in=hold_out,
        by_person=person is not None,
        schema=joint.digest,
        records_per_person=most,
    )
    held_out = _held_out(X, labels, joint, left_by, (site, names, person))
    row_columns = {"site": site, "person": person}

    def part(keep: NDArray[np.bool_]) -> tuple[tuple[Any, Any], dict[str, Any]]:
        rows = np.flatnonzero(keep)
        whose = {name: _some(values, rows) for name, values in row_columns.items()}
        mine = labels[rows].tolist() if is_listed(y) else labels[rows]  # as given
        mine = mine if joint.survival is None else take_rows(y, rows)
        return (take_rows(X, rows), mine), {**whose, "sites": names}

    rows, whose = part(~held_out)
    fitted_models = [clone(candidate).fit(*rows, **whose) for candidate in candidates]
    rows, whose = part(held_out)
    models = {
        f"{number}. {title}": stage
        for number, candidate in enumerate(fitted_models, 1)
        for title, stage in _stages(candidate, stages).items()
    }
    return compare(
        list(models.values()),
        rows,
        whose,
        {"epsilon": epsilon, "delta": delta, "most": most},
        confidence=confidence,
        ledger=ledger,
        left_by=left_by,
        names=tuple(models),
    )


def _grid_of(candidate: PrivateEstimator) -> Schema:
    name, parameters = type(candidate).__name__, check_parameters(candidate)
    if not isinstance(parameters.schema, Schema):
        raise ParameterError(f"{name} has no schema; candidates are compared on one: schema=...")
    if parameters.hold_out is not None:
        raise ParameterError(
            f"{name} has hold_out={parameters.hold_out}; leave that to `select_model`."
        )
    check_task(parameters.schema, candidate._regression, name)
    return candidate._method(parameters.schema).grid(parameters.schema)


def _check_stages(stages: Sequence[int], candidates: Sequence[Any]) -> None:
    """Refuses stages without boosted trees, before anything is spent."""
    strange = [n for n in stages if not isinstance(n, int) or n < 1]
    if strange:
        raise ParameterError(f"stages has {strange}; a stage is a number of trees, 1 or more.")
    if stages and not any(hasattr(candidate, "staged") for candidate in candidates):
        raise ParameterError(
            "stages are for boosted trees, and no candidate is of that kind; drop them."
        )


def _one_unit(candidates: Sequence[Any], persons_declared: bool) -> int:
    """The common number of records per person; guarantees for different units do not add up."""
    parameters = [check_parameters(candidate) for candidate in candidates]
    check_one_unit(
        *(Unit(most=own.records_per_person, counted=persons_declared) for own in parameters)
    )
    if len({own.dp_model is DPModel.LABEL for own in parameters}) > 1:
        warn(OF_TWO_KINDS, PrivacyWarning)
    return int(parameters[0].records_per_person)


def _held_out(
    X: Any,
    labels: NDArray[Any],
    schema: Schema,
    by: HeldOutDraws,
    row_columns: tuple[Any, Any, Any],
) -> NDArray[np.bool_]:
    """(n,) which rows are held out, by the secrets of their sites."""
    site, names, person = row_columns
    numbers = split_by_site(np.arange(len(labels)), labels, site, names)
    persons = split_persons(person, labels, site, names)
    is_held_out = np.zeros(len(labels), bool)
    for (name, own), (rows, mine), whose in zip(by.secrets.items(), numbers, persons, strict=True):
        if len(rows):
            part = SiteRows(name=name, X=take_rows(X, rows), y=mine, person=whose)
            is_held_out[rows] = part.is_held_out(schema, own, by.one_in)
    return is_held_out


def _some(values: Any, rows: NDArray[np.intp]) -> Any:
    return None if values is None else objects_of(fill_masked(values))[rows]


def _stages(model: Any, stages: Sequence[int]) -> dict[str, Any]:
    """The whole model and, if it is a sum of trees, its first trees, by title."""
    name = type(model).__name__
    if not hasattr(model, "staged"):
        return {name: model}
    whole = len(model.model_.score.trees)
    if late := [n for n in stages if n >= whole]:
        warn(
            f"{name} has {whole} trees, so stages {late} are the whole model: give smaller ones.",
            QualityWarning,
        )
    out = {name: model}
    for n in stages:
        if n < whole:
            out[f"{name}, first {n} trees" if n > 1 else f"{name}, first tree"] = model.staged(n)
    return out
