"""Declared parsers: how a column's cells are written, as a public fact of the schema.

A parser is a total function of one value: a date, an amount or a code becomes a number or a text, a
declared sentinel is missing, everything else is unreadable. `parse` and the functions below it are
copied into exported Python files, so they use the standard library alone; Python, RE2 (Arrow,
DuckDB) and PostgreSQL interpret the patterns alike.
"""

from __future__ import annotations

import datetime
import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import cache
from typing import Any

from hedgerow.errors import ParameterError
from hedgerow.schema.tokens import MISSING_TEXTS, plain_of, token_of

OPTIONS: dict[str, tuple[str, ...]] = {
    "number": ("decimal", "grouping", "units"),
    "money": ("decimal", "grouping", "units", "currency"),
    "percent": ("decimal", "grouping"),
    "date": ("part", "since", "format"),
    "boolean": ("true", "false"),
    "ordinal": ("order",),
    "prefix": ("length",),
    "icd": ("length",),
    "atc": ("length",),
    "zip": ("length",),
}
"""The kinds of parsers, and the options of each."""
TO_TEXT = ("prefix", "icd", "atc", "zip")
NUMBER_PARSERS = ("number", "money", "percent")
PARTS = ("days", "year", "month", "day", "weekday", "hour")
CURRENCIES = (*"$€£¥₹₽₩₺₪₫฿", "zł", "Kč", "kr", "Fr.", "[A-Z]{3}")
GROUP_MARKS = ("", ",", ".", "'", " ", "_")
TRUE_WORDS = ("yes", "y", "true", "t", "on", "1")
FALSE_WORDS = ("no", "n", "false", "f", "off", "0")
LENGTHS = {"prefix": 3, "icd": 3, "atc": 4, "zip": 3}
ZIP_DIGITS = 5
TEXTS = ("currency", "format", "true", "false", "order")
POWERS_OF_TEN = {float(f"1e{power}"): power for power in range(-12, 16)}
BLANK = "[ \u00a0\u2009\u202f]"
MONTHS = ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"]
_MONTH_NAME = "|".join("".join(f"[{c.upper()}{c}]" for c in name) for name in MONTHS)
DIRECTIVES = {
    "%Y": "(?P<Y>[12][0-9]{3})",
    "%y": "(?P<y>[0-9]{2})",
    "%m": "(?P<m>0?[1-9]|1[0-2])",
    "%b": f"(?P<b>{_MONTH_NAME})[a-z]{{0,6}}",
    "%d": "(?P<d>0?[1-9]|[12][0-9]|3[01])",
    "%H": "(?P<H>[01]?[0-9]|2[0-3])",
    "%M": "(?P<M>[0-5][0-9])",
    "%S": "[0-5][0-9]",
}
CLOCK = (
    f"(?:[T ]{DIRECTIVES['%H']}:{DIRECTIVES['%M']}(?::[0-5][0-9](?:[.,][0-9]{{1,9}})?)?"
    "(?:Z|(?P<Z>[-+][0-9]{2}:?[0-9]{2}|[-+][0-9]{2}))?)?"
)
"""May follow a day. A time with an offset is read in UTC."""
ISO = "%Y-%m-%d"
SINCE = "1970-01-01"


@dataclass(frozen=True, slots=True, kw_only=True)
class Parser:
    """How the cells of a column are written; the `parse` parameter of a feature.

    `kind` is one of number, money, percent, date, boolean, ordinal, prefix, icd, atc and zip.

    Examples
    --------
    >>> import hedgerow as hr
    >>> hr.Parser(kind="money", decimal=",", grouping=".").read("1.250,50 EUR")
    1250.5
    >>> hr.Parser(kind="date", part="month").read("2026-03-31")
    3.0
    >>> wage = hr.Numeric("wage", 0, 1e6, parse={"kind": "number", "units": {"k": 1000}})
    >>> wage.grid.read("2.3k")
    2300.0

    """

    kind: str
    decimal: str = "."
    grouping: str | None = None
    units: tuple[tuple[str, float], ...] = ()
    currency: tuple[str, ...] = ()
    part: str = "days"
    since: str = SINCE
    format: tuple[str, ...] = ()
    true: tuple[str, ...] = TRUE_WORDS
    false: tuple[str, ...] = FALSE_WORDS
    order: tuple[str, ...] = ()
    length: int = 0

    def __post_init__(self) -> None:
        if self.kind not in OPTIONS:
            raise ParameterError(f"parse is {self.kind!r}; use one of {list(OPTIONS)}.")
        for name in TEXTS:
            object.__setattr__(self, name, _texts(name, getattr(self, name)))
        units = self.units.items() if isinstance(self.units, Mapping) else self.units
        object.__setattr__(self, "units", tuple(sorted((str(unit), f) for unit, f in units)))
        if self.grouping is None:
            object.__setattr__(self, "grouping", "." if self.decimal == "," else ",")
        if self.kind in LENGTHS and self.length == 0:
            object.__setattr__(self, "length", LENGTHS[self.kind])
        for is_wrong, words in self._mistakes():
            if is_wrong:
                raise ParameterError(f"parse of kind {self.kind!r}: {words}.")

    def _mistakes(self) -> list[tuple[bool, str]]:
        words = {name: [w.lower() for w in getattr(self, name)] for name in ("true", "false")}
        formats = [_directives(text) for text in self.format]
        length = self.length if isinstance(self.length, int) else -1
        return [
            (self.decimal not in (".", ","), f"decimal is {self.decimal!r}; use '.' or ','"),
            (
                self.grouping not in GROUP_MARKS or self.grouping == self.decimal,
                f"grouping is {self.grouping!r}; use one of {list(GROUP_MARKS)}, not the decimal",
            ),
            (
                any(factor not in POWERS_OF_TEN for _, factor in self.units),
                f"units are {dict(self.units)}; use powers of ten, such as 1000: others round",
            ),
            (self.part not in PARTS, f"part is {self.part!r}; use one of {list(PARTS)}"),
            (not _is_day(self.since), f"since is {self.since!r}; give a day such as 2020-01-31"),
            (
                None in formats or any(len({"%Y", "%y"} & set(f or ())) != 1 for f in formats),
                f"format is {list(self.format)}; use {' '.join(DIRECTIVES)}, each once, and a year",
            ),
            ("%Y-%d-%m" in self.format, "format %Y-%d-%m reads 2020-01-02 unlike the standard"),
            (bool(set(words["true"]) & set(words["false"])), "true and false share a word"),
            (
                self.kind == "ordinal" and len(set(self.order)) < max(len(self.order), 2),
                f"order is {list(self.order)}; list at least two values, each once",
            ),
            (
                self.kind in LENGTHS and not 1 <= length <= 40,
                f"length is {self.length!r}; use a whole number from 1 to 40",
            ),
        ]

    @staticmethod
    def of(declaration: object) -> Parser | None:
        """Builds a parser from a parser, the name of a kind, or a table with `kind` and options."""
        if declaration is None or isinstance(declaration, Parser):
            return declaration
        if isinstance(declaration, str):
            return Parser(kind=declaration)
        if not isinstance(declaration, Mapping) or "kind" not in declaration:
            raise ParameterError(
                f"parse is {declaration!r}; use one of {list(OPTIONS)}, or a table with `kind`."
            )
        kind = str(declaration["kind"])
        allowed = ("kind", *OPTIONS.get(kind, ()))
        strange = [key for key in declaration if key not in allowed] if kind in OPTIONS else []
        if strange:
            raise ParameterError(f"parse of kind {kind!r} has {strange}; allowed are {allowed}.")
        return Parser(**declaration)

    @property
    def entries(self) -> dict[str, Any]:
        """The kind, and the options that differ from the defaults, as plain values."""
        usual = Parser(kind=self.kind, order=("a", "b"))
        if self.grouping == ("." if self.decimal == "," else ","):
            object.__setattr__(usual, "grouping", self.grouping)
        changed = {
            f.name: getattr(self, f.name)
            for f in fields(self)
            if f.name in OPTIONS[self.kind] and getattr(self, f.name) != getattr(usual, f.name)
        }
        if "units" in changed:
            powers = {unit: POWERS_OF_TEN[factor] for unit, factor in self.units}
            changed["units"] = {u: 10**p if p >= 0 else 10.0**p for u, p in powers.items()}
        plain = {k: list(v) if isinstance(v, tuple) else v for k, v in changed.items()}
        return {"kind": self.kind, **plain}

    def read(self, value: object) -> Any:
        """A number, a text, NaN if the value is missing, () if it is unreadable."""
        return reader(self, ())(value)


def _texts(name: str, values: object) -> tuple[str, ...]:
    items = [values] if isinstance(values, str) else values
    if not isinstance(items, Sequence) or not all(isinstance(v, str | int | float) for v in items):
        raise ParameterError(f"parse: {name} is {values!r}; give a text or a list of texts.")
    return tuple(v if isinstance(v, str) else str(token_of(v)) for v in items)


def _directives(text: str) -> list[str] | None:
    """The directives of a format; None if one is unknown or repeated."""
    names = re.findall("%.?", text)
    return names if set(names) <= set(DIRECTIVES) and len(set(names)) == len(names) else None


def _is_day(text: object) -> bool:
    try:
        return datetime.date.fromisoformat(str(text)).year >= 1000
    except ValueError:
        return False


@cache
def reader(parser: Parser | None, sentinels: tuple[str, ...]) -> Callable[[object], Any]:
    """The function that reads one value by a parser and sentinels. It raises nothing."""
    rules = rules_of(parser, sentinels)

    def read(value: object) -> Any:
        try:
            while hasattr(value, "as_py"):
                value = value.as_py()
            return parse(rules, value)
        except Exception:  # an object may raise anything; only its own record is affected
            return ()

    return read


def rules_of(parser: Parser | None, sentinels: tuple[str, ...]) -> dict[str, Any]:
    """Everything that determines the result for a value, as plain values."""
    rules: dict[str, Any] = {"kind": "", "sentinels": [token_of(text) for text in sentinels]}
    if parser is None:
        return rules
    kind = parser.kind
    if kind in NUMBER_PARSERS:
        units = {unit: POWERS_OF_TEN[factor] for unit, factor in parser.units}
        return rules | {"kind": "number", "pattern": number_pattern(parser), "units": units}
    if kind == "date":
        since = datetime.date.fromisoformat(parser.since).toordinal()
        formats = list(dict.fromkeys([*parser.format, ISO]))
        patterns = [_date_pattern(text) for text in formats]
        return rules | {"kind": kind, "patterns": patterns, "part": parser.part, "since": since}
    if kind == "boolean":
        truths = {w.lower(): 1.0 for w in parser.true} | {w.lower(): 0.0 for w in parser.false}
        return rules | {"kind": "words", "words": truths}
    if kind == "ordinal":
        ranks = {str(token_of(word)): float(rank) for rank, word in enumerate(parser.order)}
        return rules | {"kind": "words", "words": ranks}
    is_code, digits = kind != "prefix", ZIP_DIGITS if kind == "zip" else 0
    code = {"upper": is_code, "drop": " ." if is_code else "", "digits": digits}
    return rules | {"kind": "code", **code, "length": parser.length}


def number_pattern(parser: Parser) -> str:
    """Five groups: sign, whole part, fraction, exponent, unit."""
    signs = {"money": parser.currency or CURRENCIES, "percent": ("%", "percent", "pct")}
    around = [s if s in CURRENCIES[-1:] else re.escape(s) for s in signs.get(parser.kind, ())]
    edge = f"(?:{'|'.join([BLANK, *around])}){{0,4}}"
    group = BLANK if parser.grouping == " " else re.escape(parser.grouping or "")
    grouped = f"[0-9]{{1,3}}(?:{group}[0-9]{{3}}){{1,12}}|" if group else ""
    point = re.escape(parser.decimal)
    units = "|".join(re.escape(unit) for unit, _ in parser.units)
    power, unit = ("()", f"(?:{BLANK}{{0,2}}({units}))?") if units else (EXPONENT, "()")
    whole = f"({grouped}[0-9]{{1,40}})?"
    sign = "(?:\\+|([-\u2212(]))?"
    return f"{edge}{sign}{edge}{whole}(?:{point}([0-9]{{0,40}}))?{power}{unit}{edge}\\)?{edge}"


EXPONENT = "(?:[eE]([-+]?[0-9]{1,2}))?"


def _date_pattern(text: str) -> str:
    parts = re.split("(%.)", text)
    pattern = "".join(DIRECTIVES.get(part, re.escape(part)) for part in parts)
    return pattern if "%H" in text else pattern + CLOCK


# The functions below are copied into exported Python files.


def parse(rules: dict[str, Any], value: Any) -> Any:
    """By a column's rules: a number, a text, NaN if missing, () if it is unreadable."""
    if hasattr(value, "isoformat") or type(value).__name__ == "datetime64":
        value = str(value) if rules["kind"] == "date" else value
    token, plain = token_of(value), plain_of(value)
    if token is None or token in rules["sentinels"]:
        return math.nan
    if token in MISSING_TEXTS and token not in rules.get("words", ()):
        return token
    if rules["kind"] == "number":
        number = parse_number(rules, plain) if isinstance(plain, str) else plain
        if not isinstance(number, (int, float)):
            return ()
        return math.nan if token_of(number) in rules["sentinels"] else number
    if rules["kind"] == "words":
        folded = re.sub("[A-Z]", lambda letter: letter.group().lower(), str(token))
        return rules["words"].get(token, rules["words"].get(folded, ()))
    if rules["kind"] == "":
        return value
    if not isinstance(plain, str):
        plain = token
    if not isinstance(plain, str):
        return ()
    text = re.sub("^(-?[0-9]+)[.]0$", "\\1", plain)
    return parse_date(rules, text) if rules["kind"] == "date" else parse_code(rules, text)


def parse_number(rules: dict[str, Any], text: str) -> Any:
    match = re.fullmatch(rules["pattern"], text)
    if match is None or not re.search("[0-9]", text) or text.count("(") != text.count(")"):
        return ()
    sign, whole, part, power, unit = (group or "" for group in match.groups())
    digits = re.sub("[^0-9]", "", whole)
    size = float(f"{digits or 0}.{part or 0}e{power or rules['units'].get(unit, 0)}")
    return -size if sign else size


def parse_date(rules: dict[str, Any], text: str) -> Any:
    for pattern in rules["patterns"]:
        match = re.fullmatch(pattern, text)
        if match is not None:
            return date_part(rules, match.groupdict())
    return ()


def date_part(rules: dict[str, Any], groups: dict[str, str | None]) -> Any:
    short = int(groups.get("y") or 0)
    year = int(groups.get("Y") or (1900 if short > 68 else 2000) + short)
    name = groups.get("b")
    month = MONTHS.index(name.lower()) + 1 if name else int(groups.get("m") or 1)
    try:
        day = datetime.date(year, month, int(groups.get("d") or 1)).toordinal()
    except ValueError:
        return ()
    zone = (groups.get("Z") or "+0000").replace(":", "").ljust(5, "0")
    shift = int(zone[1:3]) * 60 + int(zone[3:])
    minutes = (day * 24 + int(groups.get("H") or 0)) * 60 + int(groups.get("M") or 0)
    minutes += shift if zone[0] == "-" else -shift
    day, hour = minutes // 1440, minutes % 1440 // 60
    if rules["part"] == "days":
        return float(day - rules["since"])
    when = datetime.date.fromordinal(day)
    parts = {"year": when.year, "month": when.month, "day": when.day, "hour": hour}
    return float(parts.get(rules["part"], when.isoweekday()))


def parse_code(rules: dict[str, Any], text: str) -> str:
    if rules["upper"]:
        text = re.sub("[a-z]", lambda letter: letter.group().upper(), text)
    text = "".join(sign for sign in text if sign not in rules["drop"])
    if rules["digits"] and re.fullmatch("[0-9]{1,5}(-[0-9]{4})?", text):
        text = text.split("-")[0].zfill(rules["digits"])
    return text[: rules["length"]]
