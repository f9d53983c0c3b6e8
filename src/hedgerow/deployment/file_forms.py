"""Checks of files against the JSON Schemas that ship with hedgerow, in plain words.

Done by command, never when a model is loaded: our readers check what they restore, and a schema
says less than they do (docs/design/report_and_files.md). What it adds is every problem at once,
with its place.
"""

from __future__ import annotations

import json
import reprlib
from collections.abc import Callable, Iterable, Iterator
from importlib.resources import files
from importlib.util import find_spec
from typing import Any

INSTALL = "pip install 'hedgerow[check]'"
TYPES = {
    "string": "a text",
    "number": "a number",
    "integer": "a whole number",
    "boolean": "true or false",
    "array": "a list",
    "object": "a table",
    "null": "nothing",
}
ALLOWED: dict[str, Callable[[Any], str]] = {
    "type": lambda kinds: _either(TYPES[k] for k in ([kinds] if isinstance(kinds, str) else kinds)),
    "enum": lambda values: _either(map(repr, values)),
    "const": repr,
    "minimum": lambda least: f"{least} or more",
    "maximum": lambda most: f"{most} or less",
    "minItems": lambda least: f"a list of {least} or more",
    "minLength": lambda least: f"a text of {least} or more characters",
    "pattern": lambda pattern: f"a text of the form {pattern}",
}
"""In the words of JSON Schema: what may stand there instead."""


def can_validate() -> bool:
    return find_spec("jsonschema") is not None


def problems_of(kind: str, content: Any) -> list[str]:
    """Problems of a "schema", "study" or "model" file: place, value found, values allowed."""
    from jsonschema import Draft202012Validator

    schema_file = files("hedgerow.deployment").joinpath(f"json_schemas/{kind}.schema.json")
    validator = Draft202012Validator(json.loads(schema_file.read_text(encoding="utf-8")))
    errors = [plain for error in validator.iter_errors(content) for plain in _plain(error)]
    return list(dict.fromkeys(f"{_place(content, error)}: {_words(error)}" for error in errors))


def _plain(error: Any) -> Iterator[Any]:
    """Of several forms that a value may have, the problems of the nearest one."""
    if error.validator != "anyOf":
        yield error
        return
    forms: dict[int, list[Any]] = {}
    for inner in error.context:
        forms.setdefault(inner.schema_path[0], []).append(inner)
    if all(_is_of_another_type(errors) for errors in forms.values()):
        yield error
        return
    for inner in min(forms.values(), key=_distance):
        yield from _plain(inner)


def _is_of_another_type(errors: list[Any]) -> bool:
    return any(error.validator in ("type", "const") and not error.path for error in errors)


def _distance(errors: list[Any]) -> int:
    """The distance to a form; each unknown entry counts, since it shows what was intended."""
    return sum(len(_unknown(e)) if e.validator == "additionalProperties" else 1 for e in errors)


def _unknown(error: Any) -> list[str]:
    return sorted(set(error.instance) - set(error.schema["properties"]))


def _place(content: Any, error: Any) -> str:
    """Such as feature[2] 'age', bins: steps from the whole file, with the names of columns."""
    words = ""
    for step in error.absolute_path:
        content = content[step]
        words += f"[{step}]" if isinstance(step, int) else f"{'.' if words else ''}{step}"
        if isinstance(step, int) and isinstance(content, dict) and "name" in content:
            words += f" ({content['name']!r})"
    return words or "the file"


def _words(error: Any) -> str:
    value, limit = error.instance, error.validator_value
    if error.validator == "additionalProperties":
        names = ", ".join(sorted(error.schema["properties"]))
        return f"{_all(_unknown(error))} was found; allowed are {names}"
    if error.validator == "required":
        return f"{_all(n for n in limit if n not in value)} is missing and must be there"
    if error.validator == "not":
        return f"{_all(limit['required'])} stand together; only one of them is allowed"
    if error.validator == "anyOf":
        limits = [(key, option[key]) for option in limit for key in option if key in ALLOWED]
        allowed_words = _either(ALLOWED[key](value) for key, value in limits)
        return f"{reprlib.repr(value)} was found; {allowed_words} is allowed"
    describe = ALLOWED.get(error.validator)
    return f"{reprlib.repr(value)} was found; " + (
        f"{describe(limit)} is allowed" if describe else f"it breaks {error.validator} = {limit!r}"
    )


def _all(names: Iterable[str]) -> str:
    return " and ".join(map(repr, names))


def _either(words: Iterable[str]) -> str:
    *most, last = dict.fromkeys(words)
    return f"{', '.join(most)} or {last}" if most else last
