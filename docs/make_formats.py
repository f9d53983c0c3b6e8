"""The three files that people keep, as JSON Schema: `python -m docs.make_pages formats`.

The study's follows from the declaration by which a study is read. The schema's and the model's are
written here; tests hold them against what the product writes and refuses.
"""

from __future__ import annotations

import json
from dataclasses import fields
from itertools import combinations
from pathlib import Path
from typing import Any

from hedgerow.deployment.study_file import FILE, PRINTED
from hedgerow.methods.model_file import FORMAT_VERSION, MODEL_FORMAT
from hedgerow.methods.saving import ENTRIES
from hedgerow.models.model import Output
from hedgerow.privacy.declaration import object_schema, table_schema
from hedgerow.schema.features import Categorical, Hashed, Numeric, Spacing, Survival, Target
from hedgerow.schema.formats import CLASSES, MARKS, OPEN
from hedgerow.schema.parsers import OPTIONS, PARTS, Parser

FOLDER = Path(__file__).parents[1] / "src/hedgerow/deployment/json_schemas"
"""They ship with hedgerow, whose commands hold files against them."""
DIALECT = "https://json-schema.org/draft/2020-12/schema"
NUMBER = {"anyOf": [{"type": "number"}, {"type": "string"}]}
"""A number, or its exact text, as files written by hedgerow have it."""
TEXT, COUNT = {"type": "string"}, {"type": "integer"}
TEXTS = {"anyOf": [TEXT, {"type": "array", "items": {"type": ["string", "number"]}}]}


def _parsers() -> dict[str, Any]:
    """A parser as a table: its kind, and the options of that kind."""
    special: dict[str, Any] = {
        "decimal": {"enum": [".", ","]},
        "grouping": TEXT,
        "units": {"type": "object", "additionalProperties": {"type": "number"}},
        "part": {"enum": list(PARTS)},
        "since": TEXT,
        "length": {"type": "integer", "minimum": 1, "maximum": 40},
    }
    options = {name: special.get(name, TEXTS) for names in OPTIONS.values() for name in names}
    assert set(options) < {field.name for field in fields(Parser)}
    kinds = {"enum": list(OPTIONS)}
    return {"anyOf": [kinds, object_schema({"kind": kinds} | options, ["kind"])]}


KINDS: dict[str, dict[str, Any]] = {
    "name": {"type": "string", "minLength": 1},
    "low": NUMBER,
    "high": NUMBER,
    "bins": {"type": "integer", "minimum": 2, "maximum": 255},
    "spacing": {"enum": [one.value for one in Spacing]},
    "edges": {"type": "array", "items": NUMBER, "minItems": 1},
    "values": {"type": "array", "items": {"type": ["string", "number", "boolean"]}, "minItems": 1},
    "other": {"type": "boolean"},
    "buckets": {"type": "integer", "minimum": 2},
    "column": {"type": "string", "minLength": 1},
    "parse": {"$ref": "#/$defs/parser"},
    "event_parse": {"$ref": "#/$defs/parser"},
    "missing": {"type": "array", "items": {"type": ["string", "number", "boolean"]}},
    "time": {"type": "string", "minLength": 1},
    "event": {"type": "string", "minLength": 1},
    "horizon": NUMBER,
    "unit": TEXT,
}
FINGERPRINT = {"type": "string", "pattern": "^[0-9a-f]{64}$"}


def _table(kind: type[Any], needed: list[str]) -> dict[str, Any]:
    """One kind of entry: its own fields, and where its values come from."""
    names = [field.name for field in fields(kind) if field.init and field.name != "mark"]
    own = {name: KINDS[name] for name in names}
    return object_schema(own | _marks(), needed)


def _marks(prefix: str = "") -> dict[str, Any]:
    kinds = {word: {"type": "boolean"} if word == OPEN else TEXT for word in MARKS}
    return {prefix + word: kind for word, kind in kinds.items()}


def schema_file() -> dict[str, Any]:
    kinds = [
        _table(Numeric, ["name", "low", "high"]),
        _table(Categorical, ["name", "values"]),
        _table(Hashed, ["name", "buckets"]),
    ]
    properties = {
        "classes": {
            "type": "array",
            "items": {"type": ["string", "number", "boolean"]},
            "minItems": 2,
        },
        **_marks(CLASSES),
        **{CLASSES + name: KINDS[name] for name in ("parse", "missing")},
        "target": _table(Target, ["low", "high"]),
        "survival": _table(Survival, ["time", "event", "horizon"]),
        "feature": {"type": "array", "items": {"anyOf": kinds}, "minItems": 1},
    }
    outcomes = ("classes", "target", "survival")
    pairs = [{"type": "object", "required": list(pair)} for pair in combinations(outcomes, 2)]
    whole = object_schema(properties, ["feature"]) | {"allOf": [{"not": pair} for pair in pairs]}
    return _titled("hedgerow schema file", whole)


def study_file() -> dict[str, Any]:
    inside = {key: value for key, value in schema_file().items() if not key.startswith("$")}
    whole = table_schema(FILE)
    tables = whole["properties"]
    tables["schema"] = {"anyOf": [inside, object_schema({"file": TEXT}, ["file"])]}
    tables["privacy"]["required"] = []
    with_epsilon = {"properties": {"privacy": {"required": ["epsilon"]}}}
    own = {"properties": {"parameters": {"required": [PRINTED]}}, "required": ["parameters"]}
    with_own = {"properties": {"model": own}}
    return _titled("hedgerow study file", whole | {"anyOf": [with_epsilon, with_own]})


def model_file() -> dict[str, Any]:
    schema = {key: value for key, value in schema_file().items() if not key.startswith("$")}
    parts: dict[str, Any] = {name: {} for name in ENTRIES} | {
        "estimator": TEXT,
        "parameters": {"type": "object"},
        "schema": schema,
        "classes": {
            "anyOf": [
                {"type": "null"},
                object_schema({"type": TEXT, "values": {"type": "array"}}, ["type", "values"]),
            ]
        },
        "columns": {"type": ["array", "null"], "items": TEXT},
        "model": _score(),
        "leaves": {"type": "array", "items": {"type": "array", "items": {"type": "object"}}},
        "privacy": _statement(),
        "run": object_schema(
            {"rounds": {"type": "array", "items": {"type": "object"}}}, ["rounds"]
        ),
    }
    properties = {
        "format": {"const": MODEL_FORMAT},
        "version": {"const": FORMAT_VERSION},
        "release": TEXT,
        "digest": FINGERPRINT,
        "content": object_schema(parts, list(ENTRIES)),
        "signed": {"type": "object"},
        "signer": {"type": "object"},
        "evaluation": object_schema(
            {
                "confidence": {"type": "number"},
                "models": {"type": "array", "minItems": 1},
                "digests": {"type": "array", "items": TEXT, "minItems": 1},
                "classes": {"type": "array", "items": TEXT},
                "privacy": _statement(),
            },
            ["confidence", "models", "digests", "privacy"],
        ),
    }
    needed = ["format", "version", "release", "digest", "content"]
    return _titled("hedgerow model file", object_schema(properties, needed))


def _score() -> dict[str, Any]:
    """What predicts: base + curves + trees, read by `output`."""
    numbers = {"type": "array", "items": {"type": "number"}}
    runs = {
        "cells": {"type": "array", "items": {"type": "integer", "minimum": 1}},
        "values": {"type": "array", "items": numbers},
    }
    test = object_schema({"feature": TEXT, "grid": TEXT, "left": TEXT}, ["feature", "grid", "left"])
    score = {
        "base": numbers,
        "curves": {
            "type": "array",
            "items": object_schema({"feature": COUNT, **runs}, ["feature", *runs]),
        },
        "features": {"type": "array", "items": TEXT},
        "tests": {"type": "array", "items": test},
        "trees": {
            "type": "array",
            "items": object_schema(
                {"nodes": {"type": "array", "items": COUNT}, "leaves": {"type": "array"}},
                ["nodes", "leaves"],
            ),
        },
    }
    return {
        "type": "object",
        "properties": {
            "score": {"type": "object", "properties": score, "required": list(score)},
            "output": {"enum": [one.name for one in Output]},
            "sharpness": {"type": "number"},
            "survival": {"type": "object", "required": ["edges", "odds", "slopes", "center"]},
            "noise": object_schema(
                {
                    "trees": {"type": "array", "items": {"type": "array"}},
                    "curves": {"type": "array", "items": object_schema(runs, list(runs))},
                    "common": {"type": "number", "minimum": 0},
                },
                ["trees", "curves", "common"],
            ),
        },
        "required": ["score", "output"],
    }


def _statement() -> dict[str, Any]:
    infinite = {"anyOf": [{"type": "number", "minimum": 0}, {"const": "infinity"}]}
    texts = {"type": "array", "items": TEXT}
    properties = {
        "epsilon": infinite,
        "delta": {"type": "number", "minimum": 0},
        "unit": TEXT,
        "neighbors": TEXT,
        "dp_model": TEXT,
        "n_sites": COUNT,
        "trust": {"type": "array", "items": {"type": "array", "items": TEXT}},
        "spending": {"type": "array", "items": {"type": "object"}},
        "unprotected": texts,
        "caveats": texts,
    }
    return {"type": "object", "properties": properties, "required": list(properties)}


def _titled(title: str, content: dict[str, Any]) -> dict[str, Any]:
    return {"$schema": DIALECT} | content | {"title": title, "$defs": {"parser": _parsers()}}


FORMATS = {"schema": schema_file, "study": study_file, "model": model_file}


def text_of(name: str) -> str:
    return json.dumps(FORMATS[name](), indent=1) + "\n"


def files() -> dict[Path, str]:
    return {FOLDER / f"{name}.schema.json": text_of(name) for name in FORMATS}
