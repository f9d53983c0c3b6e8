"""Columns as a schema declares them: numbers with a range, listed values, hashed texts."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import date
from enum import Enum
from functools import partial
from numbers import Integral
from typing import Any

from hedgerow.errors import ParameterError
from hedgerow.schema.grids import (
    WIDEST,
    ColumnKind,
    Grid,
    fine_edges,
    finer_edges,
    log_edges,
    uniform_edges,
    wide_edges,
)
from hedgerow.schema.parsers import NUMBER_PARSERS, TO_TEXT, Parser
from hedgerow.schema.rules import Problems, all_of
from hedgerow.schema.tokens import Token, Unusable, spell, token_of
from hedgerow.schema.visible import has_hidden

MAX_BINS = 255
"""A code is one byte, and the missing cell takes one of its 256 values."""
MAX_VALUES = 254
"""One less, for the cell `other`."""


NUMERAL = re.compile(r"-?[0-9]{1,40}(\.[0-9]{0,40})?(e[-+]?[0-9]{1,3})?")
"""A float as Python writes it; `float` also accepts other scripts, blanks and underscores."""


class Spacing(Enum):
    """How the cells of a number lie between its ends.

    UNIFORM cells have equal width, LOG cells equal width in the logarithm. FINE combines both, and
    FINER adds more of the latter: many cells, which a method merges by private counts.
    """

    UNIFORM = "uniform"
    LOG = "log"
    FINE = "fine"  # has a fixed number of cells; `bins` is not used
    FINER = "finer"  # likewise: all cells of `fine`, divided further


LABEL = "label"
"""The name of labels without a column name in counts and messages: they came as an array."""
SMALLEST_TIME = 2.0**-40
"""Stands for a time of zero, since minus zero could not mark a censored record."""


@dataclass(frozen=True, slots=True)
class Mark:
    """Marks values that were read from rows, and who has confirmed that they are public.

    A range that rows show is not a public fact. A person who knows it from elsewhere may confirm it
    with name and date; until then there is no guarantee.
    """

    confirmed_by: str | None = None
    confirmed_on: str | None = None
    source: str | None = None
    """The public source of the values, if a person has named one."""

    def __post_init__(self) -> None:
        if (self.confirmed_by is None) != (self.confirmed_on is None):
            raise ParameterError(
                f"confirmed_by is {self.confirmed_by!r} and confirmed_on {self.confirmed_on!r}; "
                "give both, or neither."
            )
        if self.confirmed_by is None:
            return
        if not isinstance(self.confirmed_by, str) or not self.confirmed_by.strip():
            raise ParameterError(f"confirmed_by is {self.confirmed_by!r}; give a person's name.")
        _check_visible("confirmed_by", self.confirmed_by)
        if self.source is not None:
            object.__setattr__(self, "source", str(self.source))
            _check_visible("the source", str(self.source))
        try:
            day = date.fromisoformat(str(self.confirmed_on)).isoformat()
        except ValueError:
            raise ParameterError(
                f"confirmed_on is {self.confirmed_on!r}; give a day such as 2026-01-31."
            ) from None
        object.__setattr__(self, "confirmed_on", day)

    @property
    def is_open(self) -> bool:
        return self.confirmed_by is None


@dataclass(frozen=True, slots=True)
class Numeric:
    """A number with a public range. Values outside it are clamped. `edges` override the spacing."""

    name: str
    low: float
    high: float
    bins: int = 32
    spacing: Spacing = Spacing.UNIFORM
    edges: tuple[float, ...] | None = None
    mark: Mark | None = field(default=None, compare=False)
    column: str | None = None
    parse: Parser | str | Mapping[str, Any] | None = None
    missing: tuple[str | float, ...] = ()

    def __post_init__(self) -> None:
        where, problems = _named_column(self.name), Problems()
        problems.past(lambda: _settle_range(self, where))
        problems.past(lambda: _settle_parser(self, where))
        spacing = problems.past(lambda: _spacing(where, self.spacing))
        bins = problems.past(lambda: _count(where, "bins", self.bins, MAX_BINS))
        problems.tell()
        object.__setattr__(self, "spacing", spacing)
        object.__setattr__(self, "bins", bins)
        if self.edges is not None:
            edge_list = require_list(where, "edges", self.edges)
            edges = tuple(_finite(where, "an edge", edge) for edge in edge_list)
            object.__setattr__(self, "edges", edges)
            rising = all(a < b for a, b in zip((self.low, *edges), edges, strict=False))
            if not rising or not 1 <= len(edges) < MAX_BINS or edges[-1] > self.high:
                raise ParameterError(
                    f"{where}: edges are {list(edges)}; give 1 to {MAX_BINS - 1} rising numbers "
                    f"above low ({self.low!r}) and up to high ({self.high!r})."
                )
        elif not self._grid_edges():
            raise ParameterError(
                f"{where}: no number lies between low {self.low!r} and high {self.high!r} to cut "
                "at; widen the range."
            )

    def _grid_edges(self) -> tuple[float, ...]:
        if self.spacing is Spacing.FINE:
            return fine_edges(self.low, self.high)
        if self.spacing is Spacing.FINER:
            return finer_edges(self.low, self.high)
        make_edges = log_edges if self.spacing is Spacing.LOG else uniform_edges
        return make_edges(self.low, self.high, self.bins)

    @staticmethod
    def open(name: str) -> Numeric:
        """A number without a declared range: its bins come from private counts."""
        return Numeric(name, -WIDEST, WIDEST, edges=wide_edges())

    @property
    def is_open(self) -> bool:
        return self.edges == wide_edges()

    @property
    def grid(self) -> Grid:
        edges = self._grid_edges() if self.edges is None else self.edges
        ends: dict[str, Any] = {"edges": edges, "low": self.low, "high": self.high}
        return Grid(feature=self.name, kind=ColumnKind.NUMERIC, **ends, **_reading(self))


@dataclass(frozen=True, slots=True)
class Categorical:
    """A public list of values. Any other text falls in `other`; without it, it is missing."""

    name: str
    values: tuple[str, ...]
    other: bool = True
    mark: Mark | None = field(default=None, compare=False)
    column: str | None = None
    parse: Parser | str | Mapping[str, Any] | None = None
    missing: tuple[str | float, ...] = ()

    def __post_init__(self) -> None:
        where = _named_column(self.name)
        object.__setattr__(self, "values", distinct_values(where, "values", self.values))
        _settle_parser(self, where)
        if len(self.values) > MAX_VALUES:
            raise ParameterError(
                f"{where} lists {len(self.values)} values; at most {MAX_VALUES} fit in one byte. "
                "Group them, or hash them: give the column `buckets` instead of `values`."
            )
        if not isinstance(self.other, bool):
            raise ParameterError(f"{where}: other is {self.other!r}; use true or false.")
        if not self.values:
            raise ParameterError(
                f"{where} lists no values; list at least one, or hash them: give the column "
                "`buckets` instead of `values`."
            )

    @property
    def grid(self) -> Grid:
        kind, values = ColumnKind.CATEGORICAL, self.values
        return Grid(feature=self.name, kind=kind, values=values, other=self.other, **_reading(self))


@dataclass(frozen=True, slots=True)
class Hashed:
    """Categories that cannot be listed in public: a public hash maps each text to a bucket.

    The number of buckets, and with it the length of every answer, depends on the schema alone.
    """

    name: str
    buckets: int = 64
    mark: Mark | None = field(default=None, compare=False)
    column: str | None = None
    parse: Parser | str | Mapping[str, Any] | None = None
    missing: tuple[str | float, ...] = ()

    def __post_init__(self) -> None:
        where = _named_column(self.name)
        _settle_parser(self, where)
        buckets = _count(where, "buckets", self.buckets, MAX_VALUES)
        object.__setattr__(self, "buckets", buckets)

    @property
    def grid(self) -> Grid:
        values = tuple(f"bucket {i}" for i in range(self.buckets))
        return Grid(feature=self.name, kind=ColumnKind.HASHED, values=values, **_reading(self))


Feature = Numeric | Categorical | Hashed


@dataclass(frozen=True, slots=True)
class Target:
    """The public range of a number to be predicted. Values outside it are clamped.

    `parse` declares how its cells are written, `missing` which of them mean that a row has no
    target.
    """

    low: float
    high: float
    mark: Mark | None = field(default=None, compare=False)
    parse: Parser | str | Mapping[str, Any] | None = None
    missing: tuple[str | float, ...] = ()

    def __post_init__(self) -> None:
        _settle_range(self, "the target")
        _settle_parser(self, "the target")

    @property
    def grids(self) -> tuple[Grid, ...]:
        """How each column of the outcome is read."""
        kind, reading = ColumnKind.NUMERIC, _reading(self)
        return (Grid(feature=LABEL, kind=kind, low=self.low, high=self.high, **reading),)


@dataclass(frozen=True)
class Survival(Target):
    """Time to an event: the columns that hold it, and the public end of follow-up.

    A record has the time of its event, or of the last contact without one. It is stored as one
    signed number: the time of an event, or minus the time of a censored record. Times beyond
    `horizon` are censored there.
    """

    low: float = field(init=False)
    high: float = field(init=False)
    mark: Mark | None = field(default=None, compare=False, kw_only=True)
    parse: Parser | str | Mapping[str, Any] | None = field(default=None, kw_only=True)
    missing: tuple[str | float, ...] = field(default=(), kw_only=True)
    time: str
    event: str
    horizon: float
    unit: str = ""
    event_parse: Parser | str | Mapping[str, Any] | None = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        if self.time == self.event:
            raise ParameterError(f"time and event are both {self.time!r}; name two columns.")
        for name in self.columns:
            _named_column(name)
        if not isinstance(self.unit, str):
            raise ParameterError(f"the unit of time is {self.unit!r}; use a text, such as days.")
        _check_visible("the unit of time", self.unit)
        end = _finite("survival", "horizon", self.horizon)
        if not end > SMALLEST_TIME:
            raise ParameterError(f"survival: horizon is {self.horizon!r}; use a time above 0.")
        _settle_parser(self, f"column {self.time!r}")
        event = Numeric(self.event, 0, 1, parse=self.event_parse, missing=self.missing)
        ends = {"low": -end, "high": end, "horizon": end}
        for key, value in {**ends, "event_parse": event.parse}.items():
            object.__setattr__(self, key, value)

    @property
    def columns(self) -> tuple[str, str]:
        """The column of the times, and that of the events."""
        return self.time, self.event

    @property
    def grids(self) -> tuple[Grid, ...]:
        parse = self.event_parse or "boolean"  # R's TRUE, 1, yes ... unless declared otherwise
        event = Numeric(self.event, 0, 1, parse=parse, missing=self.missing)
        return (*super().grids, event.grid)

    def within(self, times: Iterable[Any]) -> tuple[float, ...]:
        """The times as floats; raises for times outside [0, horizon]."""
        numbers, end = tuple(map(float, times)), f"{self.horizon:g}, the horizon"
        for time in (t for t in numbers if not 0.0 <= t <= self.horizon):
            raise ParameterError(f"a time is {time:g}; use times from 0 to {end}.")
        return numbers

    def words(self, time: float) -> str:
        """A time with its unit."""
        return f"{time:.4g} {self.unit}".strip()


def _named_column(name: object) -> str:
    if not isinstance(name, str) or not name or not _is_unicode(name):
        raise ParameterError(f"a column is named {name!r}; use a text that is not empty.")
    _check_visible("a column's name", name)
    return f"column {name!r}"


def _settle_parser(feature: Feature | Target, where: str) -> None:
    """Normalizes `column`, `parse` and `missing` of a feature, or raises."""
    if not isinstance(feature, Target) and feature.column is not None:
        _named_column(feature.column)
        is_same = feature.column == feature.name
        object.__setattr__(feature, "column", None if is_same else feature.column)
    try:
        parser = Parser.of(feature.parse)
    except (ParameterError, TypeError) as error:
        raise ParameterError(f"{where}: {error}") from None
    sentinels = distinct_values(where, "missing", feature.missing)
    object.__setattr__(feature, "parse", parser)
    object.__setattr__(feature, "missing", sentinels)
    is_number = isinstance(feature, Numeric | Target)
    if parser is not None and parser.kind in (TO_TEXT if is_number else NUMBER_PARSERS):
        kinds = ("values or buckets", "a number") if is_number else ("low and high", "a text")
        raise ParameterError(
            f"{where}: parse is {parser.kind!r}, whose column has {kinds[0]}; it cannot be "
            f"{kinds[1]}."
        )
    listed = {token_of(value) for value in getattr(feature, "values", ())}
    both = [text for text in sentinels if token_of(text) in listed]
    if both:
        raise ParameterError(f"{where}: {both} are values and missing; keep them in one list.")


def _reading(feature: Feature | Target) -> dict[str, Any]:
    return {
        "column": getattr(feature, "column", None) or "",
        "parser": feature.parse,
        "sentinels": feature.missing,
    }


def _check_visible(subject: str, text: str) -> None:
    """Raises for hidden characters: people see these texts on terminals and pages."""
    if has_hidden(text):
        raise ParameterError(
            f"{subject} is {text!r}; use no control characters, line breaks or marks of direction, "
            "which would change what people are shown."
        )


def _is_unicode(text: str) -> bool:
    """Whether UTF-8 can encode the text; a lone surrogate cannot be encoded."""
    return text.encode("utf-8", "replace").decode() == text


def _finite(where: str, entry: str, value: object) -> float:
    is_odd = isinstance(value, bool) or (isinstance(value, str) and not NUMERAL.fullmatch(value))
    try:
        number = float("nan" if is_odd else value)  # type: ignore[arg-type]
    except (TypeError, ValueError, OverflowError):
        number = math.nan
    if not math.isfinite(number):
        raise ParameterError(f"{where}: {entry} is {value!r}; use a finite number.")
    return number + 0.0  # -0.0 and 0.0 are one number; write it one way


def _settle_range(bound: Numeric | Target, where: str) -> None:
    ends = ("low", "high")
    numbers = all_of(partial(_finite, where, end, getattr(bound, end)) for end in ends)
    for end, number in zip(ends, numbers, strict=True):
        object.__setattr__(bound, end, number)
    if bound.low >= bound.high:
        raise ParameterError(
            f"{where}: low is {bound.low!r} and high is {bound.high!r}; low must be below high. "
            "Give the range that is known in public, not the one seen in the rows."
        )


def _count(where: str, entry: str, count: object, most: int) -> int:
    if isinstance(count, Integral) and not isinstance(count, bool) and 2 <= int(count) <= most:
        return int(count)
    raise ParameterError(
        f"{where}: {entry} is {count!r}; use a whole number from 2 to {most}, since a cell is "
        "stored in one byte."
    )


def _spacing(where: str, value: object) -> Spacing:
    try:
        return Spacing(value)
    except ValueError:
        spacings = [spacing.value for spacing in Spacing]
        raise ParameterError(f"{where}: spacing is {value!r}; use one of {spacings}.") from None


def require_list(where: str, entry: str, values: object) -> Iterable[object]:
    if isinstance(values, str) or not isinstance(values, Iterable):
        raise ParameterError(f"{where}: {entry} is {values!r}; give a list.")
    return values


def distinct_values(where: str, entry: str, values: object) -> tuple[str, ...]:
    """The values as texts. Two of one token are refused, since rows are matched by tokens."""
    items = list(require_list(where, entry, values))
    texts = all_of(partial(_spell_value, where, entry, value) for value in items)
    first_spellings: dict[Token, object] = {}
    all_of(partial(_check_new, where, entry, value, first_spellings) for value in items)
    return tuple(texts)


def _check_new(where: str, entry: str, value: object, first_spellings: dict[Token, object]) -> None:
    token = token_of(value)
    if token in first_spellings:
        raise ParameterError(
            f"{where}: {entry} names {first_spellings[token]!r} and {value!r}, which no site "
            "can tell apart; keep one."
        )
    first_spellings[token] = value


def _spell_value(where: str, entry: str, value: object) -> str:
    text = spell(value)
    if text is Unusable.TOO_LARGE:
        raise ParameterError(
            f"{where}: {entry} names {value!r}, {text.value}, which a floating-point column cannot "
            "tell from its neighbors. Write such codes as text, and give the column as text."
        )
    if not isinstance(text, str):
        means = "a missing value" if text is None else text.value
        raise ParameterError(f"{where}: {entry} names {value!r}, which is {means}; leave it out.")
    if not _is_unicode(text):
        raise ParameterError(f"{where}: {entry} holds {text!r}, which is not valid Unicode.")
    _check_visible(f"{where}: one of the {entry}", text)
    return text
