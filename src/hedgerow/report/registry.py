"""A model's entry for the OpenDP Deployments Registry (Tier 3), from its own statement.

In the form of the registry's own entries (opendp/deployments-registry-data): texts are Markdown,
and some values are one of a list. What no study's file says, people fill in before they hand the
entry on: free texts say that they are not stated; the kind of curator, the sector and the date
of publication have no word for that and are left out, so that the registry's own check asks.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from typing import Any, Protocol

from hedgerow.privacy.accounting.budget import Placement
from hedgerow.privacy.accounting.guarantee import Protected
from hedgerow.privacy.statement.about import About, Curator
from hedgerow.privacy.statement.statement import PrivacyStatement
from hedgerow.privacy.statement.wording import meaning_words
from hedgerow.schema.schema import Schema

NOT_STATED = "not stated"
SAFEGUARDS = (
    "integers from the record on: contributions are cut to whole numbers before they are summed, "
    "noise is integer noise, and floating point is met only after it was added",
    "noise from the operating system's generator; no seed of a user reaches it",
    "a charge is written before an answer is computed, and stays if a round fails",
    "answers have lengths and errors that no row decides",
)
JUSTIFICATION = (
    "Each sum is charged by a sensitivity that is derived where the statistic is defined, before "
    "it is computed; proofs of sensitivities and samplers stand in docs/proofs of the source. "
    "Records enter as whole numbers, so that no floating point is met before noise was added."
)
POST_PROCESSING = (
    "Choice of splits, smoothing, leaf values and the whole model are computed from noisy answers "
    "and public facts alone."
)


class Stated(Protocol):
    schema_: Schema
    privacy_: PrivacyStatement


def registry_text(model: Stated) -> str:
    return "".join(_yaml(registry_entry(model)))


def registry_entry(model: Stated) -> dict[str, Any]:
    said = model.privacy_
    name = re.sub(r"(?<=[a-z])(?=[A-Z])", " ", type(model).__name__).capitalize() + " by hedgerow"
    return {
        "url_slug": name.lower().replace(" ", "-"),
        "status": "Draft",
        "tier": 3,
        "deployment": {
            "basic": _basic(model, name),
            "dp_variant": {
                "variant_name": _variant(said),
                "data_domain": _domain(model.schema_),
                "unprotected_quantities": _listed(said.unprotected),
            },
            "privacy_loss": _loss(said),
            "deployment_model": _deployment(said),
            "accounting": {
                "post_processing": POST_PROCESSING,
                "composition": f"{said.accountant}. {_spent(said)}",
            },
            "implementation": {
                "preprocessing_and_hyperparameter_tuning": _tuning(said),
                "mechanisms": _mechanisms(said),
                "justification": JUSTIFICATION,
            },
            "administrative": {
                "sources": _listed([f"hedgerow {said.release}, source SHA-256 {said.source}"]),
                "notes": _listed(said.caveats),
                "registry_authors": [NOT_STATED],
            },
        },
    }


def _basic(model: Stated, name: str) -> dict[str, Any]:
    about = model.privacy_.about or About()
    listed = {
        "publication_date": about.publication_date,
        "data_product_sector": about.sector,
    }
    return {
        "name": name,
        "data_curators": [_curator(one) for one in about.curators or (Curator(NOT_STATED),)],
        "intended_use": about.intended_use or NOT_STATED,
        "data_product_type": "Machine learning model",
        "data_product_region": about.region or NOT_STATED,
        "description": _description(model),
        **{field: value for field, value in listed.items() if value},
    }


def _curator(one: Curator) -> dict[str, str]:
    kind = {"data_curator_type": one.kind} if one.kind else {}
    return {"data_curator_name": one.name, **kind}


def _listed(lines: Iterable[str]) -> str:
    return "\n".join(f"- {line}" for line in lines)


def _mechanisms(said: PrivacyStatement) -> str:
    """What protects, with which part of the budget, and what was done against its known leaks."""
    parts = [f"{m.what} ({m.part:.1%} of the budget)" for m in said.mechanisms]
    return _listed([*(parts or ["none: no noise was added"]), *SAFEGUARDS])


def _description(model: Stated) -> str:
    said, columns = model.privacy_, len(model.schema_.names)
    what = "a number" if model.schema_.classes is None else f"{len(model.schema_.classes)} classes"
    held = f"{said.parties} sites" if said.parties > 1 else "one holder"
    return f"Trees that tell {what} from {columns} columns, trained on records of {held}."


def _variant(said: PrivacyStatement) -> str:
    """Whose labels or records are meant stands in the unit."""
    if said.guarantee.protected is Protected.NOTHING:
        return "Custom"
    return "Pure DP" if said.guarantee.delta == 0 else "Approximate DP"


def _domain(schema: Schema) -> str:
    target = "a class" if schema.classes is not None else "a number of a public range"
    return (
        f"Tables of any number of records with {len(schema.names)} columns of public ranges, "
        f"categories or buckets, and {target} for each record; missing values are allowed."
    )


def _loss(said: PrivacyStatement) -> dict[str, Any]:
    meaning = ". ".join(meaning_words(said.meaning, said.unit)) + "."
    epsilon, delta = said.guarantee.numbers
    bound = {"privacy_parameters": {"epsilon": epsilon, "delta": delta}}
    if said.guarantee.protected is Protected.NOTHING:
        bound, meaning = {}, f"Epsilon is infinite: nothing is bounded. {meaning}"
    return {
        "privacy_unit": said.unit,
        "privacy_unit_details": said.neighbours,
        **bound,
        "privacy_parameters_details": meaning,
    }


def _deployment(said: PrivacyStatement) -> dict[str, Any]:
    federated, local = said.parties > 1, said.placement == Placement.LABEL.value
    holders = "Sites that hold records" if federated else "A holder of all records"
    actors = [
        *(f"Against {who}: {what}." for who, what in said.trust),
        f"{holders}: trusted with their own records, and to run the code that is named here.",
        *(
            ["A coordinator: sees noisy sums and private choices alone."]
            if federated and not local
            else []
        ),
        "Users of the model: not trusted.",
    ]
    return {
        "model_name": "Federated" if federated else "Local" if local else "Central",
        "model_name_details": said.placement,
        "actors": _listed(actors),
        "release_type": "One release",
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


def _yaml(value: Any, indent: str = "") -> Iterator[str]:
    """Block style; a text is quoted as in JSON, which YAML reads, or a block if it has lines."""
    pairs = value.items() if isinstance(value, dict) else ((None, one) for one in value)
    for key, one in pairs:
        head = f"{indent}-" if key is None else f"{indent}{key}:"
        if isinstance(one, dict | list):
            yield f"{head}\n"
            yield from _yaml(one, indent + "  ")
        elif isinstance(one, str) and _is_block(one):
            yield f"{head} |-\n"
            yield from (f"{indent}  {line}\n" for line in one.split("\n"))
        else:
            yield f"{head} {_scalar(one)}\n"


def _is_block(text: str) -> bool:
    """Whether a block of lines says it: no line is empty or begins or ends with a space."""
    lines = text.split("\n")
    return (
        len(lines) > 1
        and all(line and line == line.strip() for line in lines)
        and (text.isprintable() or text.replace("\n", "").isprintable())
    )


def _scalar(value: Any) -> str:
    """Readers of YAML 1.1 take 1e-06 for a text; 1.0e-06 is a number to all of them."""
    text = json.dumps(value, ensure_ascii=False)
    is_short = isinstance(value, float) and "." not in text
    return text.replace("e", ".0e") if is_short else text
