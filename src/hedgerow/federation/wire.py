"""Queries as bytes and back. Values only: no code is sent, and unknown content is refused.

A bundle has two parts. The *questions* are the same for all sites; large values (trees, curves,
models, binnings, tests, cuts, regions, layers) appear in them as digests. The *definitions* are the
values that a site may lack. A digest is the whole SHA-256 of a value's canonical bytes, which the
receiver recomputes: equal questions then mean equal values, whatever definitions came along.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections import ChainMap
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, fields, replace
from enum import Enum
from fractions import Fraction
from typing import Any, NamedTuple

from hedgerow.errors import ParameterError, SiteRefused
from hedgerow.models import losses, surfaces
from hedgerow.models import model as models
from hedgerow.models.layers import (
    MOST_TESTS,
    Layer,
    NodeTests,
    layer_from_dict,
    layer_to_dict,
    tests_in,
)
from hedgerow.models.tree import Tree
from hedgerow.models.validation import MOST_STEPS
from hedgerow.privacy import queries
from hedgerow.privacy.bundles import MOST_BYTES, MOST_QUERIES
from hedgerow.privacy.queries import Query
from hedgerow.schema import regions
from hedgerow.schema.grids import canonical_bytes
from hedgerow.secagg.codes import Code
from hedgerow.secagg.encoding import Reader, bytes_field

# Strict parsing of JSON from outside, and concatenated blobs.

MOST_DEPTH = 32
MOST_INTEGER_DIGITS = 80
"""Digits of an integer: a set of 256 cells has 78."""
MOST_VALUES = 1 << 22
"""Values in one JSON text, counted before parsing: two bytes may become an object."""
RATIONAL = re.compile(r"-?[0-9]{1,64}(/[0-9]{1,64})?")


def parse_json(text: bytes) -> Any:
    """Parses JSON without NaN, duplicate keys, endless digits or deep nesting.

    The number of values and their depth are bounded before any value is created.
    """
    if sum(map(text.count, (b",", b"[", b"{"))) > MOST_VALUES:
        raise ParameterError(f"more than {MOST_VALUES} values stand in one text.")
    _check_depth(text)
    return (_CAREFUL if _MANY_DIGITS.search(text) else _QUICK).decode(text.decode())


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    result = dict(pairs)
    if len(result) != len(pairs):
        raise ParameterError("a key stands twice.")
    return result


def _integer(digits: str) -> int:
    if len(digits) > MOST_INTEGER_DIGITS:
        raise ParameterError("a number has too many digits.")
    return int(digits)


def _no_constant(name: str) -> Any:
    raise ParameterError(f"{name} is no number.")


_MANY_DIGITS = re.compile(rb"[0-9]{%d}" % MOST_INTEGER_DIGITS)
_QUICK = json.JSONDecoder(object_pairs_hook=_once, parse_constant=_no_constant)
"""If no number can have too many digits, none is checked one by one."""
_CAREFUL = json.JSONDecoder(
    object_pairs_hook=_once, parse_int=_integer, parse_constant=_no_constant
)
_STRING = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"', re.DOTALL)
_BRACKETS = bytes.maketrans(b"{}", b"[]")
_OTHERS = bytes(set(range(256)) - set(b"[]{}"))


def _check_depth(text: bytes) -> None:
    """Removes innermost brackets once per allowed level; raises if any are left."""
    brackets = _STRING.sub(b"", text).translate(_BRACKETS, _OTHERS)
    for _ in range(MOST_DEPTH):
        brackets = brackets.replace(b"[]", b"")
    if brackets:
        raise ParameterError(f"values are nested deeper than {MOST_DEPTH}, or a bracket is alone.")


def parse_rational(text: Any) -> Fraction:
    if not isinstance(text, str) or RATIONAL.fullmatch(text) is None:
        raise ParameterError("not a rational of at most 64 digits.")
    return Fraction(text)


MOST_NAMES = 1 << 18

_PLAIN: dict[str, type[Any]] = {
    kind.__name__: kind
    for kind in (
        regions.Split,
        regions.Fold,
        regions.HeldOut,
        regions.Step,
        losses.LogLoss,
        losses.PlainLogLoss,
        losses.SoftmaxLoss,
        losses.SquaredLoss,
        losses.FirstOrder,
        losses.OddsLoss,
        models.Curve,
        models.Additive,
        surfaces.Basis,
        queries.Binning,
        queries.Scoring,
        queries.MultiwaySplit,
        queries.Thresholds,
        queries.SumQuery,
        queries.BoundQuery,
        queries.SelectQuery,
        queries.LocalSelection,
    )
}
_VALUES = ChainMap(_PLAIN, queries.STATISTICS, queries.GROUPINGS)
"""By name; statistics and groupings as registered when a name is read."""
_ENUMS: dict[str, type[Enum]] = {
    e.__name__: e for e in (queries.Score, queries.Mechanism, models.Output)
}
_NAMED = (Tree, models.Curve, surfaces.Basis, queries.Binning, queries.Thresholds, regions.Split)
"""Sent once, then by digest; models, layers and regions too, as their new parts."""
_REPEATED = (queries.Binning, queries.Thresholds, regions.Split)
"""Used so often that their names are cached."""
_MORE = "More"
"""A model as the trees added to an earlier one."""
_REGION = "Region"
"""A region as the step added to an earlier one."""


_FIELDS: dict[type[Any], tuple[str, ...]] = {}


def _fields(kind: type[Any]) -> tuple[str, ...]:
    if kind not in _FIELDS:
        _FIELDS[kind] = tuple(field.name for field in fields(kind))
    return _FIELDS[kind]


@dataclass(frozen=True)
class Bundle:
    """The queries of one round in bytes; `definitions` are those not sent before."""

    questions: bytes
    definitions: bytes

    @property
    def size(self) -> int:
        return len(self.questions) + len(self.definitions)


@dataclass
class Sender:
    """The coordinator's end: remembers what it has sent in this key session."""

    blobs: dict[str, bytes] = field(default_factory=dict)
    """All definitions of the key session, by digest."""
    names: dict[Any, str] = field(default_factory=dict)
    last_model: tuple[models.Additive, str] | None = None

    def encode(self, bundle: Sequence[Query]) -> Bundle:
        before = len(self.blobs)
        questions = canonical_bytes([self._plain(query) for query in bundle])
        return Bundle(questions, b"".join(map(bytes_field, [*self.blobs.values()][before:])))

    @property
    def is_full(self) -> bool:
        """Whether the key session has used half of the names or bytes that a site accepts.

        The other half is for the next bundle, whose weight keeps it within that.
        """
        size = sum(map(len, self.blobs.values()))
        return 2 * len(self.blobs) > MOST_NAMES or 2 * size > MOST_BYTES

    def everything(self) -> bytes:
        """All definitions of the key session, for a site that lacks some."""
        return b"".join(map(bytes_field, self.blobs.values()))

    def _plain(self, value: Any) -> Any:
        if isinstance(value, _REPEATED):
            if value not in self.names:
                self.names[value] = self._name(self._content(value))
            return {"@": self.names[value]}
        if isinstance(value, _NAMED):
            return {"@": self._name(self._content(value))}
        if isinstance(value, Layer):
            return {"@": self._layer(value)}
        if isinstance(value, NodeTests):
            return {"!": "NodeTests", "tests": value.to_dict()}
        if isinstance(value, models.Additive):
            return {"@": self._model(value)}
        if isinstance(value, tuple):
            if value and isinstance(value[0], regions.Step):
                return {"@": self._region(value)}
            return [v if type(v) is int else self._plain(v) for v in value]
        if isinstance(value, Fraction):
            return {"%": str(value)}
        if isinstance(value, Enum):
            return {"#": [type(value).__name__, value.name]}
        if type(value).__name__ in _VALUES:
            return self._content(value)
        if value is None or isinstance(value, bool | int | float | str):
            return value
        raise ParameterError(f"a {type(value).__name__} cannot be part of a query.")

    def _model(self, model: models.Additive) -> str:
        """Names a model; one that extends the last one is sent as its new trees."""
        if self.last_model is not None and self.last_model[0] is model:
            return self.last_model[1]
        content = self._growth(model) or self._content(model)
        self.last_model = (model, self._name(content))
        return self.last_model[1]

    def _growth(self, model: models.Additive) -> dict[str, Any] | None:
        if self.last_model is None:
            return None
        old, name = self.last_model
        n_old = len(old.trees)
        if replace(model, trees=()) != replace(old, trees=()) or model.trees[:n_old] != old.trees:
            return None
        return {"!": _MORE, "of": name, "trees": self._plain(model.trees[n_old:])}

    def _region(self, region: regions.Region) -> str:
        """Names a region and all above it; each is sent as its last step and the name above."""
        new = len(region)
        while new and region[:new] not in self.names:
            new -= 1
        name = self.names[region[:new]] if new else None
        for end in range(new + 1, len(region) + 1):
            step = self._plain(region[end - 1])
            name = self._name({"!": _REGION, "above": name, "step": step})
            self.names[region[:end]] = name
        assert name is not None
        return name

    def _layer(self, layer: Layer) -> str:
        """Names a layer; only what it adds to the one above is sent."""
        if layer not in self.names:
            above = None if layer.above is None else self._layer(layer.above)
            content = {"!": "Layer", "above": above, "new": layer_to_dict(layer)}
            self.names[layer] = self._name(content)
        return self.names[layer]

    def _name(self, content: Any) -> str:
        blob = canonical_bytes(content)
        digest = hashlib.sha256(blob).hexdigest()
        self.blobs.setdefault(digest, blob)
        return digest

    def _content(self, value: Any) -> Any:
        if isinstance(value, Tree):
            return {"!": "Tree", "tree": value.to_dict()}
        parts = {name: self._plain(getattr(value, name)) for name in _fields(type(value))}
        return {"!": type(value).__name__, **parts}


@dataclass
class Receiver:
    """A site's end: the names of this key session, stored once a round was released.

    An invalid message is `BadMessage`; an undefined digest is `UnknownName`, after which the same
    questions come again with more definitions.
    """

    definitions: dict[str, Any] = field(default_factory=dict)
    past: bytes = b""
    """A digest of all known names, in the order of their arrival."""

    def decode(self, bundle: Bundle) -> tuple[list[Query], dict[str, Any]]:
        """The queries, and the names learned from the bundle, which are not stored yet.

        A name is the digest of its value, so the result follows from the known names and the
        bundle, and sites of one process share it.
        """
        if bundle.size > MOST_BYTES:
            raise SiteRefused(Code.BAD_MESSAGE.value)
        key = (self.past, bundle)
        result = _READ.get(key)
        if result is None:
            result = self._read(bundle)
            _READ.clear()
            _READ[key] = result
        return list(result[0]), result[1]

    def _read(self, bundle: Bundle) -> _Read:
        additions: dict[str, Any] = {}
        reader = _Reading(self.definitions, additions)
        try:
            for blob in Reader(bundle.definitions).all_fields():
                reader.define(blob)
            questions = parse_json(bundle.questions)
            if not isinstance(questions, list) or not 0 < len(questions) <= MOST_QUERIES:
                raise ParameterError(f"a bundle asks 1 to {MOST_QUERIES} queries.")
            return tuple(_query(reader.value(query)) for query in questions), additions
        except _UnknownName:
            raise SiteRefused(Code.UNKNOWN_NAME.value) from None
        except SiteRefused:
            raise
        except Exception:
            # Whatever strange content does to a parser or to a value's own checks, outside it is
            # one thing: an invalid message.
            raise SiteRefused(Code.BAD_MESSAGE.value) from None

    def keep(self, additions: dict[str, Any]) -> None:
        """Stores names after the round was released; those of a refused round are dropped."""
        if len(self.definitions) + len(additions) > MOST_NAMES:
            raise SiteRefused(Code.BAD_MESSAGE.value)
        if additions:
            self.definitions.update(additions)
            self.past = hashlib.sha256("".join((self.past.hex(), *additions)).encode()).digest()

    def forget(self) -> None:
        """Drops all names, at a new key session."""
        self.definitions.clear()
        self.past = b""


_Read = tuple[tuple[Query, ...], dict[str, Any]]
_READ: dict[tuple[bytes, Bundle], _Read] = {}
"""The last bundle read, which other sites of the same process will read too."""


class _UnknownName(Exception):
    pass


class _Path(NamedTuple):
    """A region as it is stored: it shares the steps of the regions above it."""

    above: _Path | None
    step: regions.Step
    length: int

    def region(self) -> regions.Region:
        steps, path = [self.step], self.above
        while path is not None:
            steps.append(path.step)
            path = path.above
        return tuple(reversed(steps))


@dataclass
class _Reading:
    definitions: dict[str, Any]
    additions: dict[str, Any]
    room: int = MOST_TESTS
    """Tests that the rest of the bundle may hold: a few packed bytes can hold very many."""

    def define(self, blob: bytes) -> None:
        digest = hashlib.sha256(blob).hexdigest()
        value = self.value(parse_json(blob))
        if not isinstance(value, (*_NAMED, models.Additive, Layer, _Path)):
            raise ParameterError("this kind of value has no name.")
        self.additions[digest] = value

    def name(self, digest: Any) -> Any:
        if digest in self.additions:
            return self.additions[digest]
        if digest not in self.definitions:
            raise _UnknownName
        return self.definitions[digest]

    def value(self, plain: Any) -> Any:
        if isinstance(plain, list):
            return tuple(v if type(v) is int else self.value(v) for v in plain)
        if not isinstance(plain, dict):
            return plain
        if "!" not in plain:
            return self._small(plain)
        kind = plain["!"]
        special = _SPECIAL.get(kind)
        if special is not None:
            return special(self, plain)
        parts = {k: self.value(v) for k, v in plain.items() if k != "!"}
        if parts.keys() != set(_fields(_VALUES[kind])):
            raise ParameterError(f"a {kind} came with other fields.")
        return _VALUES[kind](**parts)

    def _small(self, plain: dict[str, Any]) -> Any:
        ((mark, content),) = plain.items()
        match mark:
            case "@":
                result = self.name(content)
                return result.region() if isinstance(result, _Path) else result
            case "%":
                return parse_rational(content)
            case "#":
                kind, name = content
                return _ENUMS[kind][name]
        raise ParameterError(f"{mark!r} marks no value.")

    def tests(self, plain: dict[str, Any]) -> NodeTests:
        self._make_room(plain["tests"])
        return NodeTests.from_dict(plain["tests"])

    def layer(self, plain: dict[str, Any]) -> Layer:
        above = None if plain["above"] is None else self.name(plain["above"])
        if above is not None:
            self._make_room(plain["new"]["taken"])
        return layer_from_dict(plain["new"], above)

    def _make_room(self, tests: dict[str, Any]) -> None:
        self.room -= tests_in(tests)
        if self.room < 0:
            raise ParameterError(f"a bundle holds more than {MOST_TESTS} tests.")

    def region(self, plain: dict[str, Any]) -> _Path:
        above = None if plain["above"] is None else self.name(plain["above"])
        step = self.value(plain["step"])
        if not isinstance(above, _Path | None) or not isinstance(step, regions.Step):
            raise ParameterError("a region is a step below another region.")
        length = 1 if above is None else above.length + 1
        if length > MOST_STEPS:
            raise ParameterError(f"a region has more than {MOST_STEPS} steps.")
        return _Path(above, step, length)

    def more(self, plain: dict[str, Any]) -> models.Additive:
        model = self.name(plain["of"])
        if not isinstance(model, models.Additive):
            raise ParameterError("only a model grows.")
        return model.plus(*self.value(plain["trees"]))


_SPECIAL: dict[str, Callable[[_Reading, dict[str, Any]], Any]] = {
    "Tree": lambda read, plain: Tree.from_dict(plain["tree"]),
    "NodeTests": _Reading.tests,
    "Layer": _Reading.layer,
    _MORE: _Reading.more,
    _REGION: _Reading.region,
}


def _query(value: Any) -> Query:
    if not isinstance(value, Query):
        raise ParameterError("this is no query.")
    return value
