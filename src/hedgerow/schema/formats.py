"""Schemas as text: hedgerow's TOML, and other formats."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import fields
from enum import Enum
from pathlib import Path
from typing import Any

from hedgerow.errors import ParameterError
from hedgerow.schema.features import Categorical, Feature, Hashed, Mark, Numeric, Survival, Target
from hedgerow.schema.parsers import Parser
from hedgerow.schema.rules import Problems

# A schema as plain values and as TOML, and back. All problems are reported at once.
OPEN = "read_from_rows"
MARKS = (OPEN, "confirmed_by", "confirmed_on", "source")
"""Keys that mark values read from rows; those of the classes begin with `classes_`."""
CLASSES = "classes_"
BARE = re.compile("[A-Za-z0-9_-]+")
DRAFTED = """\
# Drafted from rows. What is marked `read_from_rows` was read from them and is not public: as long
# as a mark stands open, a fit guarantees nothing (epsilon is infinite). Correct each entry to what
# is known without looking at the rows. Then replace its mark by your name and the day,
#     confirmed_by = "..."
#     confirmed_on = "2026-01-31"
# or let `hedgerow schema confirm` ask you one by one.

"""


def check_keys(
    where: str, content: object, required_keys: set[str], allowed_keys: set[str]
) -> None:
    if not isinstance(content, Mapping):
        raise ParameterError(
            f"{where} is {content!r}; make it a table with {sorted(required_keys)}."
        )
    strange, absent = sorted(set(content) - allowed_keys), sorted(required_keys - set(content))
    problems = Problems()
    if strange:
        problems.messages.append(
            f"{where} has unknown entries {strange}; allowed are {sorted(allowed_keys)}."
        )
    if absent:
        problems.messages.append(f"{where} lacks {absent}; add it.")
    problems.tell()


def feature_of(entry: Any) -> Feature:
    """The feature of a [[feature]] table: `values` and `buckets` decide its kind."""
    if not isinstance(entry, Mapping) or "name" not in entry:
        raise ParameterError(f"a feature is {entry!r}; make it a table with a name.")
    where = f"column {entry['name']!r}"
    if "values" in entry:
        return Categorical(**_arguments_of(where, entry, {"name"}, Categorical))
    if "buckets" in entry:
        return Hashed(**_arguments_of(where, entry, {"name"}, Hashed))
    return Numeric(**_arguments_of(where, entry, {"name", "low", "high"}, Numeric))


def target_of(entry: Any) -> Target:
    return Target(**_arguments_of("the target", entry, {"low", "high"}, Target))


def survival_of(entry: Any) -> Survival:
    return Survival(**_arguments_of("survival", entry, {"time", "event", "horizon"}, Survival))


def _arguments_of(
    where: str, entry: Any, required_keys: set[str], kind: type[Feature | Target]
) -> dict[str, Any]:
    """An entry as arguments; the keys of a mark become one value."""
    allowed_keys = {field.name for field in fields(kind) if field.init} - {"mark"}
    check_keys(where, entry, required_keys, allowed_keys | set(MARKS))
    values = {key: value for key, value in entry.items() if key not in MARKS}
    return {**values, "mark": mark_of(where, entry)}


def mark_of(where: str, entry: Mapping[str, Any], prefix: str = "") -> Mark | None:
    is_read, by, on, source = (entry.get(prefix + word) for word in MARKS)
    if is_read not in (None, True, False):
        raise ParameterError(f"{where}: {prefix}{OPEN} is {is_read!r}; use true or false.")
    if by is None and on is None:
        return Mark() if is_read else None
    try:
        return Mark(by, on, source)
    except ParameterError as error:
        raise ParameterError(f"{where}: {error}") from None


def words_of_mark(mark: Mark | None, prefix: str = "") -> dict[str, Any]:
    if mark is None:
        return {}
    if mark.is_open:
        return {prefix + OPEN: True}
    words = {"confirmed_by": mark.confirmed_by, "confirmed_on": mark.confirmed_on}
    words |= {"source": mark.source} if mark.source else {}
    return {prefix + word: text for word, text in words.items()}


def spec_entries(spec: Feature | Target) -> dict[str, Any]:
    names = [field.name for field in fields(spec) if field.init and field.name != "mark"]
    values = {name: plain_value(getattr(spec, name)) for name in names}
    set_values = {n: v for n, v in values.items() if v is not None and (n, v) != ("missing", [])}
    return set_values | words_of_mark(spec.mark)


def plain_value(value: Any) -> Any:
    if isinstance(value, tuple):
        return [plain_value(item) for item in value]
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, Parser):
        return value.entries
    return repr(value) if isinstance(value, float) else value


def _toml_lines(table: Mapping[str, Any]) -> list[str]:
    numbers = {"low", "high", "edges", "horizon"}
    return [*(f"{key} = {_toml(table[key], key in numbers)}" for key in table), ""]


def _toml(value: Any, is_number: bool = False) -> str:
    if isinstance(value, list):
        return f"[{', '.join(_toml(item, is_number) for item in value)}]"
    if isinstance(value, Mapping):
        pairs = (f"{k if BARE.fullmatch(k) else _toml(k)} = {_toml(v)}" for k, v in value.items())
        return f"{{ {', '.join(pairs)} }}"
    if isinstance(value, str) and not is_number:
        # JSON's escapes are TOML's too, but for one control character that JSON leaves bare.
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    return str(value).lower() if isinstance(value, bool) else str(value)


def toml_of(content: Mapping[str, Any]) -> str:
    """The canonical TOML text of a schema."""
    first = {key: content[key] for key in content if key not in ("target", "survival", "feature")}
    lines = _toml_lines(first) if first else []
    for outcome in ("target", "survival"):
        if outcome in content:
            lines += [f"[{outcome}]", *_toml_lines(content[outcome])]
    for feature in content["feature"]:
        lines += ["[[feature]]", *_toml_lines(feature)]
    text = "\n".join(lines)
    return DRAFTED + text if OPEN in text else text


def parsed_toml(source: str | Path) -> dict[str, Any]:
    """Parses a file (a Path, or a string that ends in .toml) or the text itself."""
    is_file = isinstance(source, Path) or source.endswith(".toml")
    where = f"schema file {str(source)!r}" if is_file else "the schema text"
    try:
        return tomllib.loads(Path(source).read_text("utf-8") if is_file else str(source))
    except OSError as error:
        raise ParameterError(f"{where} cannot be read: {error.strerror}; check the path.") from None
    except UnicodeDecodeError:
        raise ParameterError(f"{where} is not UTF-8 text; save it as UTF-8.") from None
    except tomllib.TOMLDecodeError as error:
        raise ParameterError(f"{where} is not valid TOML: {error}") from None


# Schemas in other formats as plain values: Table Schema, JSON Schema, Arrow metadata. Only declared
# facts are used, never rows: a range without both ends or a text without its values is a problem,
# and all problems are reported at once.
NUMBER_TYPES = {"number", "integer", "float", "double", "int"}
TRUTH_KINDS = {"boolean", "bool"}


Described = tuple[str, str, Mapping[str, Any]]
"""One column as another format describes it: its name, its type and its constraints."""


def of_table_schema(source: Mapping[str, Any], target: str | None) -> dict[str, Any]:
    """https://specs.frictionlessdata.io/table-schema: `fields` with `constraints`."""
    fields = source.get("fields") if isinstance(source, Mapping) else None
    if not isinstance(fields, list):
        raise ParameterError("this is no Table Schema: it has no list of `fields`.")
    columns = (
        (str(f.get("name")), str(f.get("type", "string")), f.get("constraints", {})) for f in fields
    )
    return _content(columns, target)


def of_json_schema(source: Mapping[str, Any], target: str | None) -> dict[str, Any]:
    """https://json-schema.org: the `properties` of an object, or of the items of an array."""
    if isinstance(source, Mapping) and "items" in source:
        source = source["items"]
    properties = source.get("properties") if isinstance(source, Mapping) else None
    if not isinstance(properties, Mapping):
        raise ParameterError("this is no JSON Schema of a record: it has no `properties`.")
    columns = ((name, _json_type(rules), rules) for name, rules in properties.items())
    return _content(columns, target)


def _json_type(rules: Mapping[str, Any]) -> str:
    """The type of a property, ignoring null: missing values are always allowed."""
    kind = rules.get("type", "")
    kinds = [k for k in (kind if isinstance(kind, list) else [kind]) if k != "null"]
    return str(kinds[0]) if len(kinds) == 1 else ""


def of_arrow(source: Any, target: str | None) -> dict[str, Any]:
    """From `pyarrow.Schema`: each field's metadata, numbers and lists written as JSON."""
    return _content(map(_of_arrow_field, source), target)


def _of_arrow_field(field: Any) -> Described:
    metadata = {k.decode(): v.decode() for k, v in (field.metadata or {}).items()}
    rules = {
        key: _json_value(metadata[key]) for key in ("minimum", "maximum", "enum") if key in metadata
    }
    kind = str(field.type)
    is_number = kind.startswith(("int", "uint", "float", "double", "half", "decimal"))
    return field.name, "number" if is_number else kind, rules


def _json_value(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text


def _content(columns: Iterable[Described], target: str | None) -> dict[str, Any]:
    """The features, and the classes or the range of the column `target`."""
    problems = Problems()
    entries = [_entry(*column, problems) for column in columns]
    names = [entry["name"] for entry in entries]
    if target is not None and target not in names:
        problems.messages.append(f"there is no column {target!r} to predict; there are {names}.")
    problems.tell()
    content: dict[str, Any] = {"feature": [e for e in entries if e["name"] != target]}
    for outcome in (entry for entry in entries if entry["name"] == target):
        if "values" in outcome:
            content["classes"] = outcome["values"]
        else:
            content["target"] = {"low": outcome["low"], "high": outcome["high"]}
    return content


def _entry(name: str, kind: str, rules: Mapping[str, Any], problems: Problems) -> dict[str, Any]:
    """The column as an entry of a schema file."""
    values = rules.get("enum", [False, True] if kind in TRUTH_KINDS else None)
    if values is not None:
        return {"name": name, "values": [value for value in values if value is not None]}
    low = rules.get("minimum", rules.get("exclusiveMinimum"))
    high = rules.get("maximum", rules.get("exclusiveMaximum"))
    ends = {"minimum": low, "maximum": high}
    absent = [word for word, end in ends.items() if end is None]
    if kind not in NUMBER_TYPES:
        words = f"is {kind or 'of no type'} without an enum of its values"
        problems.messages.append(f"column {name!r} {words}; add it.")
    elif absent:
        problems.messages.append(f"column {name!r} has no {' and no '.join(absent)}; add it.")
    return {"name": name, "low": low, "high": high}
