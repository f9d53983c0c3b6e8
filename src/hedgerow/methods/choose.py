"""`hedgerow.choose`: several estimators, or stages of one, compared by one paid query.

Each holder draws by a secret of its own which records are held out: a record's draw belongs to its
content on a grid that joins those of all candidates, so that one record more changes no other's
part. All candidates are trained on the others, and one query over those held out compares them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone

from hedgerow.data.holders import (
    HeldOutDraws,
    declared_parties,
    names_of_holders,
    secret_draws,
    split_by_party,
    split_persons,
    taken,
)
from hedgerow.data.reading.containers import is_listed, objects_of, unmasked
from hedgerow.errors import PrivacyWarning, QualityWarning, SpecError, warn
from hedgerow.methods.base import PrivateEstimator
from hedgerow.methods.blocks import evaluation as recipe
from hedgerow.methods.evaluate import compared
from hedgerow.methods.evaluated_rows import HolderRows
from hedgerow.methods.inputs import check_task, checked_labels, checked_rows
from hedgerow.methods.parameters import checked
from hedgerow.models.joining import joint_schema
from hedgerow.privacy.accounting.budget import Placement
from hedgerow.privacy.accounting.guarantee import Unit, check_one_unit
from hedgerow.report.evaluation import Evaluation
from hedgerow.schema.schema import Schema

OF_TWO_KINDS = (
    "some candidates protect labels alone and others whole records, so that all of them together "
    "promise nothing (epsilon = infinity); choose among candidates of one kind."
)


def choose(
    candidates: Sequence[Any],
    X: Any,
    y: Any,
    *,
    epsilon: float,
    delta: float = 0.0,
    hold_out: int = 5,
    stages: Sequence[int] = (),
    party: Any = None,
    parties: Any = None,
    person: Any = None,
    confidence: float = 0.95,
    ledger: Any = None,
) -> Evaluation:
    """Trains some estimators, compares them by one private query, and says which is the best.

    Parameters
    ----------
    candidates : sequence of estimators
        Not yet fitted, each with its schema and its own epsilon, all with one
        `records_per_person`. Their epsilons and deltas add up.
    X, y : rows and labels
        As for `fit`.
    epsilon, delta : float
        The promise to the records that are held out, which pay for the comparison alone.
    hold_out : int, default=5
        One record in so many is held out, by a secret draw of its own.
    stages : sequence of int, default=()
        Early stopping: boosted trees are compared with their own first trees, so many of them,
        too. That costs no further training; each stage makes the comparison noisier. Trees that
        are dropped were trained and stay paid for: nothing comes back to the budget.
    party, parties, person : as for `fit`
        With `party`, name all sites in `parties`.
    confidence : float, default=0.95
        Of the intervals.
    ledger : str, Path, Ledger or None, default=None
        A file in which the comparison adds up; candidates name theirs themselves.

    Returns
    -------
    Evaluation
        `result.chosen` is the best of the fitted candidates; where noise hides the difference,
        the first. `result.names` and `result.parts` have the name and the measures of each.

    """
    schemas = [_grid_of(one) for one in candidates]
    if not schemas:
        raise SpecError("no candidates were given; name at least one estimator.")
    if not isinstance(hold_out, int) or hold_out < 2:
        raise SpecError(f"hold_out is {hold_out!r}; one record in 2 or more can be held out.")
    _check_stages(stages, candidates)
    joint = joint_schema(schemas)
    X, labels = checked_rows(X), checked_labels(y, joint.target is not None)
    names = declared_parties(party, parties)
    if party is not None and names is None:
        raise SpecError("party says who holds each row; name all sites too: parties=[...].")
    most = _one_unit(candidates, person is not None)
    called = names_of_holders(party, names)
    left_by = HeldOutDraws.over(
        called,
        secret_draws(recipe.NAME, len(called)),
        one_in=hold_out,
        by_person=person is not None,
        schema=joint.digest,
        records_per_person=most,
    )
    held_out = _held_out(X, labels, joint, left_by, (party, names, person))
    told = {"party": party, "person": person}

    def part(keep: NDArray[np.bool_]) -> tuple[tuple[Any, Any], dict[str, Any]]:
        rows = np.flatnonzero(keep)
        whose = {name: _some(given, rows) for name, given in told.items()}
        mine = labels[rows].tolist() if is_listed(y) else labels[rows]  # as they were given
        return (taken(X, rows), mine), {**whose, "parties": names}

    rows, whose = part(~held_out)
    fitted = [clone(one).fit(*rows, **whose) for one in candidates]
    rows, whose = part(held_out)
    models = {
        f"{number}. {title}": stage
        for number, one in enumerate(fitted, 1)
        for title, stage in _stages(one, stages).items()
    }
    return compared(
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
    name, read = type(candidate).__name__, checked(candidate)
    if not isinstance(read.schema, Schema):
        raise SpecError(f"{name} has no schema; candidates are compared on one: schema=...")
    if read.hold_out is not None:
        raise SpecError(f"{name} has hold_out={read.hold_out}; leave that to `choose`.")
    check_task(read.schema, candidate._regression, name)
    return candidate._recipe(read.schema).grid(read.schema)


def _check_stages(stages: Sequence[int], candidates: Sequence[Any]) -> None:
    """Before anything is spent."""
    strange = [n for n in stages if not isinstance(n, int) or n < 1]
    if strange:
        raise SpecError(f"stages has {strange}; a stage is a number of trees, 1 or more.")
    if stages and not any(hasattr(one, "staged") for one in candidates):
        raise SpecError(
            "stages are for boosted trees, and no candidate is of that kind; drop them."
        )


def _one_unit(candidates: Sequence[Any], counted: bool) -> int:
    """Records of a person, the same for all; promises to different units do not add up."""
    read = [checked(one) for one in candidates]
    check_one_unit(*(Unit(most=one.records_per_person, counted=counted) for one in read))
    if len({one.placement is Placement.LABEL for one in read}) > 1:
        warn(OF_TWO_KINDS, PrivacyWarning)
    return int(read[0].records_per_person)


def _held_out(
    X: Any, labels: NDArray[Any], schema: Schema, by: HeldOutDraws, who: tuple[Any, Any, Any]
) -> NDArray[np.bool_]:
    """(n,) which rows are held out, by the secrets of their holders."""
    party, names, person = who
    numbers = split_by_party(np.arange(len(labels)), labels, party, names)
    persons = split_persons(person, labels, party, names)
    found = np.zeros(len(labels), bool)
    for (name, own), (rows, mine), whose in zip(by.secrets.items(), numbers, persons, strict=True):
        if len(rows):
            part = HolderRows(name=name, X=taken(X, rows), y=mine, person=whose)
            found[rows] = part.is_held_out(schema, own, by.one_in)
    return found


def _some(given: Any, rows: NDArray[np.intp]) -> Any:
    return None if given is None else objects_of(unmasked(given))[rows]


def _stages(fitted: Any, stages: Sequence[int]) -> dict[str, Any]:
    """By title: the whole model, and its first trees where it is a sum of them."""
    name = type(fitted).__name__
    if not hasattr(fitted, "staged"):
        return {name: fitted}
    whole = len(fitted.model_.score.trees)
    late = [n for n in stages if n >= whole]
    if late:
        words = (
            f"{name} has {whole} trees, so stages {late} are the whole model: give smaller ones."
        )
        warn(words, QualityWarning)
    shorter = [n for n in stages if n < whole]
    titles = {n: f"{name}, first {n} trees" if n > 1 else f"{name}, first tree" for n in shorter}
    return {name: fitted} | {titles[n]: fitted.staged(n) for n in shorter}
