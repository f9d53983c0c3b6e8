"""A model's entry for the OpenDP Deployments Registry (Tier 3), from its own statement.

What a statement cannot know (who the curators are, what the model is for, when it is published)
is named in the entry as not stated; people fill it in before they hand it on.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from typing import Any, Protocol

from hedgerow.coordinator.promise import meaning_words
from hedgerow.coordinator.statement import PrivacyStatement
from hedgerow.privacy.accounting.budget import Placement
from hedgerow.values.schema import Schema

NOT_STATED = "not stated"
SAFEGUARDS = (
    "integers from the record on: contributions are cut to whole numbers before they are summed, "
    "noise is integer noise, and floating point is met only after it was added",
    "noise from the operating system's generator; no seed of a user reaches it",
    "a charge is written before an answer is computed, and stays if a round fails",
    "answers have lengths and errors that no row decides",
)
POST_PROCESSING = (
    "Choice of splits, smoothing, leaf values and the whole model are computed from noisy answers "
    "and public facts alone."
)


class Stated(Protocol):
    schema_: Schema
    privacy_: PrivacyStatement


def written(model: Stated) -> str:
    return "".join(_yaml(registry_entry(model)))


def registry_entry(model: Stated) -> dict[str, Any]:
    said, name = model.privacy_, type(model).__name__
    federated = said.parties > 1
    return {
        "name": f"{name} by hedgerow",
        "data_curators": [NOT_STATED],
        "intended_use": NOT_STATED,
        "data_product_type": "Machine learning model",
        "data_product_region": NOT_STATED,
        "description": _description(model),
        "publication_date": NOT_STATED,
        "data_product_sector": NOT_STATED,
        "dp_variant": {
            "variant_name": _variant(said),
            "data_domain": _domain(model.schema_),
            "unprotected_quantities": list(said.unprotected),
        },
        "privacy_loss": _loss(said),
        "deployment_model": _deployment(said, federated),
        "accounting": {
            "post_processing": POST_PROCESSING,
            "composition": f"{said.accountant}. {_spent(said)}",
        },
        "implementation": {
            "preprocessing_and_hyperparameter_tuning": _tuning(said),
            "mechanisms": [f"{m.what} ({m.part:.1%} of the budget)" for m in said.mechanisms],
            "justification": "; ".join(SAFEGUARDS) + ".",
        },
        "sources": [f"hedgerow {said.release}, source SHA-256 {said.source}"],
        "notes": list(said.caveats),
        "registry_authors": [NOT_STATED],
    }


def _description(model: Stated) -> str:
    said, columns = model.privacy_, len(model.schema_.names)
    what = "a number" if model.schema_.classes is None else f"{len(model.schema_.classes)} classes"
    held = f"{said.parties} sites" if said.parties > 1 else "one holder"
    return f"Trees that tell {what} from {columns} columns, trained on records of {held}."


def _variant(said: PrivacyStatement) -> str:
    if math.isinf(said.epsilon):
        return "none"
    local = "label differential privacy, " if said.placement == Placement.LABEL.value else ""
    kind = "pure" if said.delta == 0 else "approximate, by Gaussian differential privacy"
    return f"{local}{kind} differential privacy"


def _domain(schema: Schema) -> str:
    target = "a class" if schema.classes is not None else "a number of a public range"
    return (
        f"Tables of any number of records with {len(schema.names)} columns of public ranges, "
        f"categories or buckets, and {target} for each record; missing values are allowed."
    )


def _loss(said: PrivacyStatement) -> dict[str, Any]:
    bounded = not math.isinf(said.epsilon)
    return {
        "privacy_unit": said.unit,
        "privacy_unit_details": said.neighbours,
        "privacy_parameters": {
            "epsilon": said.epsilon if bounded else "infinity",
            "delta": said.delta,
            "rho": None,
        },
        "privacy_parameters_details": ". ".join(meaning_words(said.meaning, said.unit)) + ".",
    }


def _deployment(said: PrivacyStatement, federated: bool) -> dict[str, Any]:
    local = said.placement == Placement.LABEL.value
    return {
        "model_name": "Federated" if federated else "Local" if local else "Central",
        "model_name_description": said.placement,
        "details": "; ".join(f"against {who}: {what}" for who, what in said.trust),
        "actors": ["sites that hold records", "a coordinator", "users of the model"]
        if federated
        else ["a holder of all records", "users of the model"],
        "release_type": "Static",
        "release_type_details": "One model; every further fit is a release of its own.",
        "data_source_type": "Static",
        "access_type": "Non-interactive",
    }


def _spent(said: PrivacyStatement) -> str:
    parts = [f"{line.what}: {line.part:.1%}" for line in said.spending]
    return "Parts of the budget: " + "; ".join(parts) + "." if parts else "Nothing is bounded."


def _tuning(said: PrivacyStatement) -> str:
    total = f" All fits of one ledger: {said.total.promise}." if said.total else ""
    accounted = "counted in a ledger" if said.total else "not counted here"
    return f"Schema {said.schema_source}. Searches over parameters are {accounted}.{total}"


# -------------------------------------------------------------------------------------------- YAML
def _yaml(value: Any, indent: str = "") -> Iterator[str]:
    """Block style; every text is quoted as in JSON, which YAML reads."""
    pairs = value.items() if isinstance(value, dict) else ((None, one) for one in value)
    for key, one in pairs:
        head = f"{indent}- " if key is None else f"{indent}{key}:"
        if isinstance(one, dict | list) and one:
            yield f"{head}\n"
            yield from _yaml(one, indent + "  ")
        else:
            yield f"{head.rstrip()} {_scalar(one)}\n"


def _scalar(value: Any) -> str:
    """Readers of YAML 1.1 take 1e-06 for a text; 1.0e-06 is a number to all of them."""
    text = json.dumps(value, ensure_ascii=False)
    is_short = isinstance(value, float) and "." not in text
    return text.replace("e", ".0e") if is_short else text
