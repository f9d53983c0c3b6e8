"""Schemas in other formats as plain values: Table Schema, JSON Schema, Arrow metadata.

Only declared facts are used: a range without both ends or a text without its values is a
problem, and all problems are reported at once. Nothing is read from rows.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from hedgerow.errors import ParameterError
from hedgerow.schema.problems import Problems

NUMBER_TYPES = {"number", "integer", "float", "double", "int"}
TRUTH_KINDS = {"boolean", "bool"}


@dataclass(frozen=True, slots=True)
class ColumnDescription:
    """One column as another format describes it."""

    name: str
    kind: str
    minimum: Any = None
    maximum: Any = None
    values: list[Any] | None = None

    @property
    def problem(self) -> str | None:
        if self.values is not None or self.kind in TRUTH_KINDS:
            return None
        if self.kind in NUMBER_TYPES:
            absent = [k for k in ("minimum", "maximum") if getattr(self, k) is None]
            return f"column {self.name!r} has no {' and no '.join(absent)}" if absent else None
        return f"column {self.name!r} is {self.kind or 'of no type'} without an enum of its values"

    @property
    def entry(self) -> dict[str, Any]:
        if self.values is not None:
            return {"name": self.name, "values": [v for v in self.values if v is not None]}
        if self.kind in TRUTH_KINDS:
            return {"name": self.name, "values": [False, True]}
        return {"name": self.name, "low": self.minimum, "high": self.maximum}


def of_table_schema(source: Mapping[str, Any], target: str | None) -> dict[str, Any]:
    """https://specs.frictionlessdata.io/table-schema: `fields` with `constraints`."""
    fields = source.get("fields") if isinstance(source, Mapping) else None
    if not isinstance(fields, list):
        raise ParameterError("this is no Table Schema: it has no list of `fields`.")
    return _content([_of_field(field) for field in fields], target)


def _of_field(field: Mapping[str, Any]) -> ColumnDescription:
    rules = field.get("constraints", {})
    return _describe(str(field.get("name")), str(field.get("type", "string")), rules)


def of_json_schema(source: Mapping[str, Any], target: str | None) -> dict[str, Any]:
    """https://json-schema.org: the `properties` of an object, or of the items of an array."""
    if isinstance(source, Mapping) and "items" in source:
        source = source["items"]
    properties = source.get("properties") if isinstance(source, Mapping) else None
    if not isinstance(properties, Mapping):
        raise ParameterError("this is no JSON Schema of a record: it has no `properties`.")
    columns = [_describe(name, _json_type(rules), rules) for name, rules in properties.items()]
    return _content(columns, target)


def _json_type(rules: Mapping[str, Any]) -> str:
    """A type that allows null beside it is that type: missing values are always allowed."""
    kind = rules.get("type", "")
    kinds = [k for k in (kind if isinstance(kind, list) else [kind]) if k != "null"]
    return str(kinds[0]) if len(kinds) == 1 else ""


def of_arrow(source: Any, target: str | None) -> dict[str, Any]:
    """Of `pyarrow.Schema`: each field's metadata, numbers and lists written as JSON."""
    return _content([_of_arrow_field(field) for field in source], target)


def _of_arrow_field(field: Any) -> ColumnDescription:
    metadata = {k.decode(): v.decode() for k, v in (field.metadata or {}).items()}
    rules = {
        key: _json_value(metadata[key]) for key in ("minimum", "maximum", "enum") if key in metadata
    }
    kind = str(field.type)
    is_number = kind.startswith(("int", "uint", "float", "double", "half", "decimal"))
    return _describe(field.name, "number" if is_number else kind, rules)


def _json_value(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text


def _describe(name: str, kind: str, rules: Mapping[str, Any]) -> ColumnDescription:
    low = rules.get("minimum", rules.get("exclusiveMinimum"))
    high = rules.get("maximum", rules.get("exclusiveMaximum"))
    return ColumnDescription(name, kind, low, high, rules.get("enum"))


def _content(columns: Iterable[ColumnDescription], target: str | None) -> dict[str, Any]:
    """The features, and of the column `target` the classes or the range."""
    descriptions = list(columns)
    names = [column.name for column in descriptions]
    wrong = Problems()
    wrong.messages += [f"{c.problem}; add it." for c in descriptions if c.problem]
    if target is not None and target not in names:
        wrong.messages.append(f"there is no column {target!r} to predict; there are {names}.")
    wrong.tell()
    content: dict[str, Any] = {"feature": [c.entry for c in descriptions if c.name != target]}
    for column in descriptions:
        if column.name == target and "values" in column.entry:
            content["classes"] = column.entry["values"]
        elif column.name == target:
            content["target"] = {k: column.entry[k] for k in ("low", "high")}
    return content
