"""Public facts about the data: features, ranges, categories, classes, the target's bound.

Everything here is typed or agreed on by people; nothing is read from a row. Whatever else is
known of the data is private.
"""

from __future__ import annotations

import hashlib
import json
import math
import tomllib
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields, replace
from enum import Enum
from functools import cached_property
from numbers import Integral
from pathlib import Path
from typing import Any

from hedgerow.errors import SpecError
from hedgerow.values.grids import (
    ColumnKind,
    Grid,
    canonical,
    codes_of,
    fine_edges,
    log_edges,
    uniform_edges,
)
from hedgerow.values.tokens import Token, Unusable, spelled, token_of

__all__ = [
    "Categorical",
    "ColumnKind",
    "Feature",
    "Grid",
    "Hashed",
    "Numeric",
    "Schema",
    "Spacing",
    "Target",
]

MAX_BINS = 255
"""A code is one byte, and the missing cell takes one of its 256 values."""
MAX_VALUES = 254
"""One less, for `other`."""
MAX_CLASSES = 255


class Spacing(Enum):
    UNIFORM = "uniform"
    LOG = "log"
    FINE = "fine"  # has its own number of cells; `bins` is not used


@dataclass(frozen=True, slots=True)
class Numeric:
    """A number with a public range. Values outside it are clamped. `edges` override the spacing."""

    name: str
    low: float
    high: float
    bins: int = 32
    spacing: Spacing = Spacing.UNIFORM
    edges: tuple[float, ...] | None = None

    def __post_init__(self) -> None:
        where = _named_column(self.name)
        _settle_range(self, where)
        object.__setattr__(self, "spacing", _spacing(where, self.spacing))
        object.__setattr__(self, "bins", _count(where, "bins", self.bins, MAX_BINS))
        if self.edges is not None:
            listed = _listed(where, "edges", self.edges)
            edges = tuple(_finite(where, "an edge", edge) for edge in listed)
            object.__setattr__(self, "edges", edges)
            self._check_edges(where, edges)
        elif not self._spaced():
            raise SpecError(
                f"{where}: no number lies between low {self.low!r} and high {self.high!r} to cut "
                "at; widen the range."
            )

    def _check_edges(self, where: str, edges: tuple[float, ...]) -> None:
        rising = all(a < b for a, b in zip((self.low, *edges), edges, strict=False))
        if not rising or not 1 <= len(edges) < MAX_BINS or edges[-1] > self.high:
            raise SpecError(
                f"{where}: edges are {list(edges)}; give 1 to {MAX_BINS - 1} rising numbers above "
                f"low ({self.low!r}) and up to high ({self.high!r})."
            )

    def _spaced(self) -> tuple[float, ...]:
        if self.spacing is Spacing.FINE:
            return fine_edges(self.low, self.high)
        spaced = log_edges if self.spacing is Spacing.LOG else uniform_edges
        return spaced(self.low, self.high, self.bins)

    @property
    def grid(self) -> Grid:
        edges = self._spaced() if self.edges is None else self.edges
        return Grid(
            feature=self.name, kind=ColumnKind.NUMERIC, edges=edges, low=self.low, high=self.high
        )


@dataclass(frozen=True, slots=True)
class Categorical:
    """A public list of values. Any other text falls in `other`; without it, it is missing."""

    name: str
    values: tuple[str, ...]
    other: bool = True

    def __post_init__(self) -> None:
        where = _named_column(self.name)
        object.__setattr__(self, "values", _distinct_values(where, "values", self.values))
        if len(self.values) > MAX_VALUES:
            raise SpecError(
                f"{where} lists {len(self.values)} values; at most {MAX_VALUES} fit in one byte. "
                "Group them, or hash them: give the column `buckets` instead of `values`."
            )
        if not isinstance(self.other, bool):
            raise SpecError(f"{where}: other is {self.other!r}; use true or false.")
        if not self.values and not self.other:
            raise SpecError(f"{where} lists no values; list at least one, or set other to true.")

    @property
    def grid(self) -> Grid:
        return Grid(
            feature=self.name, kind=ColumnKind.CATEGORICAL, values=self.values, other=self.other
        )


@dataclass(frozen=True, slots=True)
class Hashed:
    """Categories that nobody can list in public: a public hash puts each text in a bucket.

    The number of buckets, and with it the length of every answer, depends on the schema alone.
    """

    name: str
    buckets: int = 64

    def __post_init__(self) -> None:
        buckets = _count(_named_column(self.name), "buckets", self.buckets, MAX_VALUES)
        object.__setattr__(self, "buckets", buckets)

    @property
    def grid(self) -> Grid:
        values = tuple(f"bucket {i}" for i in range(self.buckets))
        return Grid(feature=self.name, kind=ColumnKind.HASHED, values=values)


Feature = Numeric | Categorical | Hashed


@dataclass(frozen=True, slots=True)
class Target:
    """The public range of a number to be predicted. Values outside it are clamped."""

    low: float
    high: float

    def __post_init__(self) -> None:
        _settle_range(self, "the target")


@dataclass(frozen=True, repr=False)
class Schema:
    """What all sites agree on before any row is read.

    `classes` for classification, `target` for regression, neither for features alone.
    """

    features: tuple[Feature, ...]
    classes: tuple[str, ...] | None = None
    target: Target | None = None

    def __post_init__(self) -> None:
        listed = _listed("the schema", "features", self.features)
        features = [_of_kind("a feature", one, Numeric, Categorical, Hashed) for one in listed]
        object.__setattr__(self, "features", tuple(features))
        if self.target is not None:
            _of_kind("the target", self.target, Target)
        if not self.features:
            raise SpecError("the schema has no features; declare at least one column.")
        name, times = Counter(self.names).most_common(1)[0]
        if times > 1:
            raise SpecError(f"column {name!r} is declared {times} times; keep one.")
        if self.classes is not None:
            self._settle_classes(_distinct_values("the schema", "classes", self.classes))

    def _settle_classes(self, classes: tuple[str, ...]) -> None:
        if self.target is not None:
            raise SpecError(
                "the schema has classes and a target; keep `classes` for classification or "
                "`target` for regression."
            )
        if not 2 <= len(classes) <= MAX_CLASSES:
            raise SpecError(
                f"the schema has {len(classes)} class(es), {list(classes[:3])}; list 2 to "
                f"{MAX_CLASSES}, also those that some sites never meet."
            )
        object.__setattr__(self, "classes", classes)

    def __repr__(self) -> str:
        """One line, for an estimator's parameters; `to_toml` spells everything out."""
        count = len(self.features)
        parts = [f"{count} feature{'s' if count > 1 else ''}: {_first_few(self.names)}"]
        if self.classes is not None:
            parts.append(f"classes: {_first_few(self.classes)}")
        if self.target is not None:
            parts.append(f"target: {self.target.low!r} to {self.target.high!r}")
        return f"Schema({'; '.join(parts)})"

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(feature.name for feature in self.features)

    @cached_property
    def grids(self) -> tuple[Grid, ...]:
        return tuple(feature.grid for feature in self.features)

    @cached_property
    def places(self) -> dict[str, int]:
        """Where each column stands."""
        return {name: i for i, name in enumerate(self.names)}

    @cached_property
    def _code_of_class(self) -> dict[Token, int]:
        return codes_of(self.classes or ())

    def index(self, name: str) -> int:
        """The position of a column, which is also the row of its codes."""
        if name not in self.places:
            raise SpecError(f"column {name!r} is not in the schema; it has {list(self.names)}.")
        return self.places[name]

    def class_code(self, token: Token) -> int | None:
        """The code of a label's token; None if there is no such class."""
        return self._code_of_class.get(token)

    def with_grid(self, bins: int | None = None, spacing: Spacing | None = None) -> Schema:
        """The same columns, every numeric one gridded anew (its explicit edges give way)."""
        changes: dict[str, Any] = {"bins": bins, "spacing": spacing}
        asked = {key: value for key, value in changes.items() if value is not None}
        if not asked:
            return self
        features = (
            replace(feature, edges=None, **asked) if isinstance(feature, Numeric) else feature
            for feature in self.features
        )
        return replace(self, features=tuple(features))

    @cached_property
    def digest(self) -> str:
        """Names the whole schema; sites compare it before they join."""
        return hashlib.sha256(canonical(["schema 1", self.to_dict()])).hexdigest()

    def to_dict(self) -> dict[str, Any]:
        """The canonical form: everything spelled out, floats as their exact shortest text."""
        content: dict[str, Any] = {}
        if self.classes is not None:
            content["classes"] = list(self.classes)
        if self.target is not None:
            content["target"] = _spelled_out(self.target)
        return {**content, "feature": [_spelled_out(feature) for feature in self.features]}

    @classmethod
    def from_dict(cls, content: Mapping[str, Any]) -> Schema:
        _check_keys("the schema", content, {"feature"}, {"feature", "classes", "target"})
        features, target = content["feature"], content.get("target")
        if not isinstance(features, list):
            raise SpecError("the schema's features are no list; write a [[feature]] per column.")
        if target is not None:
            _check_keys("the target", target, {"low", "high"}, {"low", "high"})
        return cls(
            features=tuple(_feature(entry) for entry in features),
            classes=content.get("classes"),
            target=None if target is None else Target(**target),
        )

    def to_toml(self) -> str:
        content = self.to_dict()
        lines = [] if self.classes is None else [f"classes = {_toml(content['classes'])}", ""]
        if self.target is not None:
            lines += ["[target]", *_toml_lines(content["target"])]
        for feature in content["feature"]:
            lines += ["[[feature]]", *_toml_lines(feature)]
        return "\n".join(lines)

    @classmethod
    def from_toml(cls, source: str | Path) -> Schema:
        """From a file (a Path, or a string that ends in .toml) or from the text itself."""
        is_file = isinstance(source, Path) or source.endswith(".toml")
        where = f"schema file {str(source)!r}" if is_file else "the schema text"
        try:
            content = tomllib.loads(Path(source).read_text("utf-8") if is_file else str(source))
        except OSError as error:
            raise SpecError(f"{where} cannot be read: {error.strerror}; check the path.") from None
        except UnicodeDecodeError:
            raise SpecError(f"{where} is not UTF-8 text; save it as UTF-8.") from None
        except tomllib.TOMLDecodeError as error:
            raise SpecError(f"{where} is not valid TOML: {error}") from None
        return cls.from_dict(content)


# ---- checks -------------------------------------------------------------------------------------


def _named_column(name: object) -> str:
    if not isinstance(name, str) or not name or not _is_unicode(name):
        raise SpecError(f"a column is named {name!r}; use a text that is not empty.")
    return f"column {name!r}"


def _is_unicode(text: str) -> bool:
    """A lone surrogate is a `str` that no file can hold."""
    return text.encode("utf-8", "replace").decode() == text


def _finite(where: str, what: str, value: object) -> float:
    try:
        number = float("nan" if isinstance(value, bool) else value)  # type: ignore[arg-type]
    except (TypeError, ValueError, OverflowError):
        number = math.nan
    if not math.isfinite(number):
        raise SpecError(f"{where}: {what} is {value!r}; use a finite number.")
    return number + 0.0  # -0.0 and 0.0 are one number; write it one way


def _settle_range(bound: Numeric | Target, where: str) -> None:
    for end in ("low", "high"):
        object.__setattr__(bound, end, _finite(where, end, getattr(bound, end)))
    if bound.low >= bound.high:
        raise SpecError(
            f"{where}: low is {bound.low!r} and high is {bound.high!r}; low must be below high. "
            "Give the range that is known in public, not the one seen in the rows."
        )


def _count(where: str, what: str, count: object, most: int) -> int:
    if isinstance(count, Integral) and not isinstance(count, bool) and 2 <= int(count) <= most:
        return int(count)
    raise SpecError(
        f"{where}: {what} is {count!r}; use a whole number from 2 to {most}, since a cell is "
        "stored in one byte."
    )


def _spacing(where: str, value: object) -> Spacing:
    try:
        return Spacing(value)
    except ValueError:
        allowed = [spacing.value for spacing in Spacing]
        raise SpecError(f"{where}: spacing is {value!r}; use one of {allowed}.") from None


def _listed(where: str, what: str, values: object) -> Iterable[object]:
    if isinstance(values, str) or not isinstance(values, Iterable):
        raise SpecError(f"{where}: {what} is {values!r}; give a list.")
    return values


def _of_kind(what: str, value: object, *kinds: type) -> object:
    if not isinstance(value, kinds):
        names = " or ".join(f"hedgerow.{kind.__name__}" for kind in kinds)
        raise SpecError(f"{what} of the schema is {value!r}; use {names}.")
    return value


def _distinct_values(where: str, what: str, values: object) -> tuple[str, ...]:
    """The values as texts. Two of one token are refused, since rows are known by tokens."""
    texts: list[str] = []
    met: dict[Token, object] = {}
    for value in _listed(where, what, values):
        texts.append(_spelled_value(where, what, value))
        twin = met.setdefault(token_of(value), value)
        if len(met) < len(texts):
            raise SpecError(
                f"{where}: {what} names {twin!r} and {value!r}, which no site can tell apart; "
                "keep one."
            )
    return tuple(texts)


def _spelled_value(where: str, what: str, value: object) -> str:
    text = spelled(value)
    if text is Unusable.TOO_LARGE:
        raise SpecError(
            f"{where}: {what} names {value!r}, {text.value}, which a floating-point column cannot "
            "tell from its neighbours. Write such codes as text, and give the column as text."
        )
    if not isinstance(text, str):
        means = "a missing value" if text is None else text.value
        raise SpecError(f"{where}: {what} names {value!r}, which is {means}; leave it out.")
    if not _is_unicode(text):
        raise SpecError(f"{where}: {what} holds {text!r}, which is not valid Unicode.")
    return text


def _check_keys(where: str, content: object, needed: set[str], allowed: set[str]) -> None:
    if not isinstance(content, Mapping):
        raise SpecError(f"{where} is {content!r}; make it a table with {sorted(needed)}.")
    strange, absent = sorted(set(content) - allowed), sorted(needed - set(content))
    if strange:
        raise SpecError(f"{where} has unknown entries {strange}; allowed are {sorted(allowed)}.")
    if absent:
        raise SpecError(f"{where} lacks {absent}; add it.")


# ---- plain values -------------------------------------------------------------------------------


def _first_few(names: tuple[str, ...], shown: int = 3) -> str:
    rest = len(names) - shown
    return ", ".join(map(repr, names[:shown])) + (f" and {rest} more" if rest > 0 else "")


def _feature(entry: Any) -> Feature:
    """What a [[feature]] table declares: `values` and `buckets` tell the kinds apart."""
    if not isinstance(entry, Mapping) or "name" not in entry:
        raise SpecError(f"a feature is {entry!r}; make it a table with a name.")
    where = f"column {entry['name']!r}"
    if "values" in entry:
        _check_keys(where, entry, {"name"}, _field_names(Categorical))
        return Categorical(**entry)
    if "buckets" in entry:
        _check_keys(where, entry, {"name"}, _field_names(Hashed))
        return Hashed(**entry)
    _check_keys(where, entry, {"name", "low", "high"}, _field_names(Numeric))
    return Numeric(**entry)


def _field_names(kind: type[Feature]) -> set[str]:
    return {field.name for field in fields(kind)}


def _spelled_out(spec: Feature | Target) -> dict[str, Any]:
    values = {field.name: getattr(spec, field.name) for field in fields(spec)}
    return {key: _plain(value) for key, value in values.items() if value is not None}


def _plain(value: Any) -> Any:
    if isinstance(value, tuple):
        return [_plain(item) for item in value]
    if isinstance(value, Enum):
        return value.value
    return repr(value) if isinstance(value, float) else value


def _toml_lines(table: Mapping[str, Any]) -> list[str]:
    numbers = {"low", "high", "edges"}
    return [*(f"{key} = {_toml(table[key], key in numbers)}" for key in table), ""]


def _toml(value: Any, is_number: bool = False) -> str:
    if isinstance(value, list):
        return f"[{', '.join(_toml(item, is_number) for item in value)}]"
    if isinstance(value, str) and not is_number:
        # JSON's escapes are TOML's too, but for one control character that JSON leaves bare.
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    return str(value).lower() if isinstance(value, bool) else str(value)
