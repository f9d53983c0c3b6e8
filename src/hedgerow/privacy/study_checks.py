"""What no study may say: numbers that do not fit each other are refused before anybody joins."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hedgerow.errors import SpecError
from hedgerow.models.validation import MOST_FOLDS
from hedgerow.privacy.accounting import conversions
from hedgerow.privacy.accounting.budget import Placement
from hedgerow.privacy.declaration import STUDY
from hedgerow.secagg.parameters import check_counts

if TYPE_CHECKING:
    from hedgerow.privacy.study import Study


def check_study(study: Study) -> None:
    check_counts(study.parties, study.colluders, study.threshold)
    for name in ("records_per_person", "retry_reserve", "slot"):
        STUDY[name].rule.check(name, getattr(study, name))
    _check_keys(study)
    _check_slot(study)
    _check_held_out(study)
    if study.graph is not None:
        _ = study.parameters  # refused if no such graph exists
    if study.placement is Placement.NOWHERE:
        return
    conversions.check_promise(study.epsilon, study.delta)
    _check_placement(study)
    _check_graph(study)
    _check_reports(study)


def _check_keys(study: Study) -> None:
    named = bool(study.sites) or bool(study.coordinator)
    if named and (len(study.sites) != study.parties or not study.coordinator):
        raise SpecError(
            f"the study names {len(study.sites)} keys of {study.parties} sites and "
            f"{'a' if study.coordinator else 'no'} coordinator's; name all of them, or none "
            "in a simulation."
        )
    if study.names and (len(study.names), len(set(study.names))) != (study.parties,) * 2:
        raise SpecError(
            f"the study has {len(set(study.names))} names for {study.parties} sites; give each "
            "site one of its own."
        )


def _check_slot(study: Study) -> None:
    if study.slot and study.parties == 1:
        raise SpecError(
            f"slot is {study.slot}, but one holder has all rows and replies to nobody; use 0."
        )


def _check_held_out(study: Study) -> None:
    if type(study.hold_out) is not int or not (
        study.hold_out == 0 or 2 <= study.hold_out <= MOST_FOLDS
    ):
        raise SpecError(
            f"hold_out is {study.hold_out!r}; use 0 (no record is held out) or 2 to {MOST_FOLDS}: "
            "one record in so many."
        )
    if study.asks_held_out and not study.hold_out:
        raise SpecError("held-out records are asked, but hold_out is 0; say one in how many is.")
    if study.asks_held_out and study.placement is Placement.LABEL:
        raise SpecError(
            "held-out records cannot be asked under placement 'label', where labels are told at "
            "random before training; leave the evaluation out, or use another placement."
        )


def _check_placement(study: Study) -> None:
    if study.placement is Placement.CURATOR and study.parties != 1:
        raise SpecError(
            f"placement 'curator' needs one holder, but {study.parties} parties hold rows; "
            "use 'shares' or 'silo'."
        )
    if study.placement is Placement.SHARES and study.parties < 2:
        raise SpecError(
            "placement 'shares' divides noise among parties, but one party holds all rows; "
            "use 'curator'."
        )
    if study.placement is Placement.LABEL and (study.delta > 0 or study.schema.classes is None):
        raise SpecError(
            "placement 'label' randomises class labels under pure epsilon; use delta = 0 and "
            "a schema with classes."
        )


def _check_graph(study: Study) -> None:
    """What a sparse graph may expose is part of delta; pure epsilon has no part to give."""
    if study.graph_delta and not study.graph_delta < study.delta:
        raise SpecError(
            f"a sparse graph may expose something in {study.graph.rounds if study.graph else 0} "
            f"rounds with probability {float(study.graph_delta):.2g}, and delta is "
            f"{float(study.delta):.2g}; use the complete graph, a larger delta, a larger sigma or "
            "fewer rounds."
        )


def _check_reports(study: Study) -> None:
    reports = study.label_reports
    if reports is None:
        return
    if study.placement is not Placement.LABEL:
        raise SpecError(
            f"label reports were given under placement {study.placement.name.lower()!r}; they "
            "belong to placement 'label'."
        )
    if reports.classes != len(study.schema.classes or ()):
        raise SpecError(
            f"label reports are for {reports.classes} classes; the schema has "
            f"{len(study.schema.classes or ())}."
        )
    if study.entry_cost > study.epsilon:
        raise SpecError(
            f"label reports cost a person epsilon {float(study.entry_cost):.4g} for ever; the "
            f"study promises {float(study.epsilon):.4g}. Keep fewer bits or promise more."
        )
