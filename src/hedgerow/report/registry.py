"""A model's entry for the OpenDP Deployments Registry (Tier 3), from its own statement.

It has the form of the registry's own entries (opendp/deployments-registry-data): texts are
Markdown, and some values come from a list. People complete what no study file contains: free texts
say "not stated"; the kind of curator, the sector and the date of publication have no such value and
are omitted, so that the registry's check asks for them.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from typing import Any, Protocol

from hedgerow.privacy.accounting.budget import DPModel
from hedgerow.privacy.accounting.guarantee import Protected
from hedgerow.privacy.statement.record import About, Curator
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
    statement = model.privacy_
    name = re.sub(r"(?<=[a-z])(?=[A-Z])", " ", type(model).__name__).capitalize() + " by hedgerow"
    parts = [f"{line.what}: {line.part:.1%}" for line in statement.spending]
    spending = "Parts of the budget: " + "; ".join(parts) + "." if parts else "No guarantee."
    total = f" All fits of one ledger: {statement.total.summary}." if statement.total else ""
    searches = "counted in a ledger" if statement.total else "not counted here"
    tuning = f"Schema {statement.schema_source}. Searches over parameters are {searches}.{total}"
    mechanisms = [f"{m.what} ({m.part:.1%} of the budget)" for m in statement.mechanisms]
    source = f"hedgerow {statement.release}, source SHA-256 {statement.source}"
    return {
        "url_slug": name.lower().replace(" ", "-"),
        "status": "Draft",
        "tier": 3,
        "deployment": {
            "basic": _basic(model, name),
            **_protection(model),
            "deployment_model": _deployment(statement),
            "accounting": {
                "post_processing": POST_PROCESSING,
                "composition": f"{statement.accountant}. {spending}",
            },
            "implementation": {
                "preprocessing_and_hyperparameter_tuning": tuning,
                "mechanisms": _join_lines(
                    [*(mechanisms or ["none: no noise was added"]), *SAFEGUARDS]
                ),
                "justification": JUSTIFICATION,
            },
            "administrative": {
                "sources": _join_lines([source]),
                "notes": _join_lines(statement.caveats),
                "registry_authors": [NOT_STATED],
            },
        },
    }


def _basic(model: Stated, name: str) -> dict[str, Any]:
    statement, schema = model.privacy_, model.schema_
    about = statement.about or About()
    about_fields = {"publication_date": about.publication_date, "data_product_sector": about.sector}
    target = "a number" if schema.classes is None else f"{len(schema.classes)} classes"
    target = target if schema.survival is None else "the time to an event"
    sites = f"{statement.n_sites} sites" if statement.n_sites > 1 else "one site"
    return {
        "name": name,
        "data_curators": [
            {"data_curator_name": own.name} | ({"data_curator_type": own.kind} if own.kind else {})
            for own in about.curators or (Curator(NOT_STATED),)
        ],
        "intended_use": about.intended_use or NOT_STATED,
        "data_product_type": "Machine learning model",
        "data_product_region": about.region or NOT_STATED,
        "description": f"Trees that predict {target} from {len(schema.names)} columns, trained on "
        f"records of {sites}.",
        **{field: value for field, value in about_fields.items() if value},
    }


def _join_lines(lines: Iterable[str]) -> str:
    return "\n".join(f"- {line}" for line in lines)


def _protection(model: Stated) -> dict[str, Any]:
    """The variant of DP and the loss; the unit says whether labels or records are protected."""
    statement, schema = model.privacy_, model.schema_
    target = "a class" if schema.classes is not None else "a number of a public range"
    target = target if schema.survival is None else "a time with or without an event"
    meaning = ". ".join(meaning_words(statement.meaning, statement.unit)) + "."
    epsilon, delta = statement.guarantee.numbers
    variant = "Pure DP" if statement.guarantee.delta == 0 else "Approximate DP"
    bound = {"privacy_parameters": {"epsilon": epsilon, "delta": delta}}
    if statement.guarantee.protected is Protected.NOTHING:
        variant, bound = "Custom", {}
        meaning = f"Epsilon is infinite: there is no guarantee. {meaning}"
    return {
        "dp_variant": {
            "variant_name": variant,
            "data_domain": f"Tables of any number of records with {len(schema.names)} columns of "
            f"public ranges, categories or buckets, and {target} for each record; missing values "
            "are allowed.",
            "unprotected_quantities": _join_lines(statement.unprotected),
        },
        "privacy_loss": {
            "privacy_unit": statement.unit,
            "privacy_unit_details": statement.neighbors,
            **bound,
            "privacy_parameters_details": meaning,
        },
    }


def _deployment(statement: PrivacyStatement) -> dict[str, Any]:
    is_federated, is_local = statement.n_sites > 1, statement.dp_model == DPModel.LABEL.value
    site_rows = "Sites that hold records" if is_federated else "A site of all records"
    actors = [
        *(f"Against {adversary}: {bound}." for adversary, bound in statement.trust),
        f"{site_rows}: trusted with their own records, and to run the code that is named here.",
    ]
    if is_federated and not is_local:
        actors.append("A coordinator: sees noisy sums and private selections alone.")
    return {
        "model_name": "Federated" if is_federated else "Local" if is_local else "Central",
        "model_name_details": statement.dp_model,
        "actors": _join_lines([*actors, "Users of the model: not trusted."]),
        "release_type": "One release",
        "release_type_details": "One model; every further fit is a release of its own.",
        "data_source_type": "Static",
        "access_type": "Non-interactive",
    }


def _yaml(value: Any, indent: str = "") -> Iterator[str]:
    """Block style; a text is quoted as in JSON, or a block if it has several lines."""
    pairs = value.items() if isinstance(value, dict) else ((None, item) for item in value)
    for key, item in pairs:
        head = f"{indent}-" if key is None else f"{indent}{key}:"
        if isinstance(item, dict | list):
            yield f"{head}\n"
            yield from _yaml(item, indent + "  ")
        elif isinstance(item, str) and _is_block(lines := item.split("\n")):
            yield f"{head} |-\n"
            yield from (f"{indent}  {line}\n" for line in lines)
        else:
            text = json.dumps(item, ensure_ascii=False)
            if isinstance(item, float) and "." not in text:
                text = text.replace("e", ".0e")  # YAML 1.1 readers take 1e-06 for a text
            yield f"{head} {text}\n"


def _is_block(lines: list[str]) -> bool:
    """Whether a text fits a YAML block: no line is empty or begins or ends with a space."""
    return len(lines) > 1 and all(
        line and line == line.strip() and line.isprintable() for line in lines
    )
