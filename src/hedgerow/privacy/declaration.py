"""A study as plain values, and back: what is hashed, approved and sent are the same words."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, fields
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from hedgerow.errors import HedgerowError, SpecError
from hedgerow.privacy.accounting.budget import Placement
from hedgerow.privacy.mechanisms.response import BloomReports
from hedgerow.privacy.queries import QueryKind, QueryKinds
from hedgerow.schema.schema import Schema
from hedgerow.secagg.parameters import PROTOCOL, Sparse

if TYPE_CHECKING:
    from hedgerow.privacy.study import Study


NOISE_LAW_VERSION = 1
COMPLETE = "complete"
_DERIVED = {"lattice", "protocol", "noise_law"}
"""Said, and hashed, so that two releases of hedgerow that differ in them never join."""


def content_of(study: Study) -> dict[str, Any]:
    """Everything that was approved: numbers as integers or texts, never as floats."""
    return {
        "name": study.name,
        "schema": study.schema.to_dict(),
        "recipe": study.recipe,
        "recipe_parameters": study.recipe_parameters,
        "asks": _kinds_content(study.asks),
        "public_seed": study.public_seed,
        "epsilon": str(study.epsilon),
        "delta": str(study.delta),
        "placement": study.placement.name,
        "parties": study.parties,
        "colluders": study.colluders,
        "threshold": study.threshold,
        "graph": _graph_content(study),
        "hold_out": study.hold_out,
        "asks_held_out": _kinds_content(study.asks_held_out),
        "slot": study.slot,
        "sites": [key.hex() for key in study.sites],
        "names": list(study.names),
        "coordinator": study.coordinator.hex(),
        "records_per_person": study.records_per_person,
        "by_person": study.by_person,
        "retry_reserve": str(study.retry_reserve),
        "label_reports": _reports_content(study.label_reports),
        "lattice": study.lattice,
        "protocol": PROTOCOL,
        "noise_law": NOISE_LAW_VERSION,
    }


def rebuilt(make: type[Study], content: Mapping[str, Any]) -> Study:
    """The study of some content; what is derived in it is left for its hash to compare."""
    try:
        return make(**_fields(content))
    except HedgerowError:
        raise
    except (KeyError, TypeError, ValueError, AttributeError, ArithmeticError) as error:
        raise SpecError(
            f"this is not the content of a study ({type(error).__name__}: {error}); give what "
            "`to_dict` made, whole and unchanged."
        ) from None


def _fields(content: Mapping[str, Any]) -> dict[str, Any]:
    plain = {name: value for name, value in content.items() if name not in _DERIVED}
    rationals = {name: Fraction(plain[name]) for name in ("epsilon", "delta", "retry_reserve")}
    return {
        **plain,
        **rationals,
        "schema": Schema.from_dict(plain["schema"]),
        "asks": _kinds_of(plain["asks"]),
        "asks_held_out": _kinds_of(plain["asks_held_out"]),
        "placement": Placement[plain["placement"]],
        "graph": _graph_of(plain["graph"]),
        "sites": tuple(bytes.fromhex(key) for key in plain["sites"]),
        "names": tuple(str(name) for name in plain["names"]),
        "coordinator": bytes.fromhex(plain["coordinator"]),
        "label_reports": _reports_of(plain["label_reports"]),
    }


def _kinds_content(kinds: QueryKinds) -> list[list[str]]:
    return [[kind.query, kind.what, kind.by] for kind in sorted(kinds)]


def _kinds_of(content: Any) -> QueryKinds:
    return frozenset(QueryKind(*kind) for kind in content)


def _graph_content(study: Study) -> str | dict[str, int]:
    """A sparse graph with its degree, which follows from the other numbers."""
    if study.graph is None:
        return COMPLETE
    return {**asdict(study.graph), **asdict(study.parameters.neighbourhood)}


def _graph_of(content: Any) -> Sparse | None:
    if content == COMPLETE:
        return None
    return Sparse(**{field.name: content[field.name] for field in fields(Sparse)})


def _reports_content(reports: BloomReports | None) -> dict[str, str] | None:
    if reports is None:
        return None
    return {field.name: str(getattr(reports, field.name)) for field in fields(BloomReports)}


def _reports_of(content: Mapping[str, str] | None) -> BloomReports | None:
    if content is None:
        return None
    return BloomReports(
        classes=int(content["classes"]),
        bits=int(content["bits"]),
        hashes=int(content["hashes"]),
        keep=Fraction(content["keep"]),
        one_if_set=Fraction(content["one_if_set"]),
        one_if_clear=Fraction(content["one_if_clear"]),
    )


# --------------------------------------------------------------------------------------------------
# The one hash of a study's content: headers, accounts and approvals all use it.


def content_hash(content: Mapping[str, Any]) -> bytes:
    """Over parsed content: order and spelling do not matter, values and versions do."""
    text = json.dumps(without_floats(content), sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(b"hedgerow/study/2/" + text.encode()).digest()


def without_floats(value: Any) -> Any:
    """The same content without floats, whose spelling is not the same everywhere."""
    if isinstance(value, float):
        numerator, denominator = value.as_integer_ratio()
        return f"{numerator}/{denominator}"
    if isinstance(value, Mapping):
        return {key: without_floats(part) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [without_floats(part) for part in value]
    return value
