"""Drafts a schema from rows, for a person to correct and confirm.

Ranges are rounded outwards to round numbers for readability; that protects nothing. Every part is
marked as read from rows, and a fit has no guarantee until each mark is confirmed.
"""

from __future__ import annotations

import math
import re
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache
from importlib.resources import files
from typing import Any

import numpy as np
import pyarrow as pa

from hedgerow.data.reading.columns import (
    Column,
    distinct,
    is_number,
    is_truth,
    numbers,
    parsed_distinct,
    parsed_numbers,
)
from hedgerow.data.reading.containers import ROWS_READ, RowTable, objects_of
from hedgerow.data.reading.encoding import CHUNK_ROWS, one_per_row, refuse_unusable
from hedgerow.data.reading.sources import Source, open_table
from hedgerow.errors import DataError, DataWarning, ParameterError, warn
from hedgerow.schema.arrays import FloatArray
from hedgerow.schema.features import (
    LABEL,
    MAX_VALUES,
    Categorical,
    Feature,
    Hashed,
    Mark,
    Numeric,
    Survival,
    Target,
)
from hedgerow.schema.formats import DRAFTED
from hedgerow.schema.parsers import TO_TEXT, Parser
from hedgerow.schema.schema import Schema
from hedgerow.schema.tokens import MISSING_TEXTS, Token, is_whole, spell, token_of
from hedgerow.schema.visible import has_hidden

# A schema read from the rows; it does not protect them, and privacy statements say so.

ENOUGH_ROWS = 50
"""In fewer rows, distinct whole numbers may be chance."""


def infer_schema(X: Source, y: Any = None, *, regression: bool = False) -> Schema:
    """Ranges, categories and classes as found in the rows; this does not protect them.

    A boolean or text column becomes categorical; with more values than fit into one byte it is
    hashed.
    """
    table = open_table(X)
    whole = next(table.chunks(table.names, max(table.capacity, 1)), None)
    if whole is None:
        raise DataError(f"{table.where} holds no rows; give at least one, or a schema.")
    features = tuple(map(_infer_feature, table.names, whole))
    warn_of_identifiers(table.names, whole)
    labels = None if y is None else one_per_row(table, y, "y", "label")
    outcome: dict[str, Any] = {}
    if regression and labels is not None:
        outcome = {"target": Target(*range_met(LABEL, labels))}
    elif labels is not None:
        outcome = {"classes": _several("y", met_classes(LABEL, labels))}
    return Schema(features, **outcome).with_mark(Mark())


def declared_schema(X: Source, y: Any) -> Schema:
    """The schema declared by a table's types, without reading values; ranges stay open.

    Available only for typed tables with boolean labels, where types do not depend on rows.
    """
    types = _types_of(X)
    if types is None:
        raise ParameterError(
            "schema='private' takes types from a typed table (a data frame or an Arrow table), for "
            "those of an array or of objects hang on the rows; give "
            "hedgerow.Schema({'age': float, 'job': str}, classes=...)."
        )
    if np.asarray(y).dtype.kind != "b":
        raise ParameterError(
            "schema='private' knows classes by their type only where labels are booleans; say what "
            "is public: hedgerow.Schema({'age': float, 'job': str}, classes=('no', 'yes')), or "
            "target=(low, high)."
        )
    return Schema(types, classes=(False, True))


def _types_of(X: Any) -> dict[str, type] | None:
    """The type of each column; None if X is untyped or has a column of objects."""
    if isinstance(X, pa.Table):
        types = {f.name: _type_of_arrow(f.type) for f in X.schema}
    elif hasattr(X, "dtypes") and hasattr(X, "columns"):
        types = {str(n): _type_of_numpy(kind) for n, kind in zip(X.columns, X.dtypes, strict=True)}
    else:
        return None
    known_types = {name: kind for name, kind in types.items() if kind is not None}
    return known_types if len(known_types) == len(types) else None


def _type_of_arrow(kind: Any) -> type | None:
    is_a = pa.types
    if is_a.is_boolean(kind):
        return bool
    if is_a.is_integer(kind) or is_a.is_floating(kind):
        return float
    return str if is_a.is_string(kind) or is_a.is_large_string(kind) else None


def _type_of_numpy(kind: Any) -> type | None:
    """The Python type of a NumPy or pandas type; None for `object`."""
    letter = getattr(kind, "kind", "O")
    if letter == "b":
        return bool
    if letter in "iuf":
        return float
    return str if str(kind) in ("str", "string") else None


def warn_of_identifiers(names: Sequence[str], columns: Sequence[Column]) -> None:
    """Warns of columns that identify every record: useless for training, and personal."""
    identifiers = [n for n, column in zip(names, columns, strict=True) if is_identifier(column)]
    if identifiers:
        warn(
            f"column(s) {identifiers} hold another value in every row, as identifiers do. Nothing "
            "can be learned from them; leave them out. If they say whose record it is, pass them "
            "as `person`.",
            DataWarning,
        )


def is_identifier(column: Column) -> bool:
    """Whether texts or whole numbers are all distinct."""
    if len(column) < ENOUGH_ROWS:
        return False
    if is_number(column):
        values, _ = numbers(column)
        if not np.all(np.isfinite(values)) or not np.array_equal(values, np.floor(values)):
            return False
        return len(np.unique(values)) == len(values)
    return len({token for token in distinct(column).tokens() if token}) == len(column)


def _infer_feature(name: str, column: Column) -> Feature:
    if is_number(column):
        return Numeric(name, *range_met(name, column))
    values = met_values(name, column)
    if set(values) <= {"True", "False"}:
        return Categorical(name, ("False", "True"))
    return listed_or_hashed(name, values)


def listed_or_hashed(name: str, values: tuple[str, ...]) -> Feature:
    """A categorical feature; hashed if it has no values or more than fit into one byte.

    Values that a schema cannot list, such as text with a line break, count as `other`.
    """
    shown = tuple(value for value in values if not has_hidden(value))
    return Categorical(name, shown) if shown and len(values) <= MAX_VALUES else Hashed(name)


def range_met(name: str, column: Column) -> tuple[float, float]:
    """The range of the finite numbers; a constant is extended towards zero."""
    values, strange = numbers(column)
    for value, _ in strange:
        refuse_unusable(f"column {name!r}", value)
    finite = values[np.isfinite(values)]
    if finite.size == 0:
        return 0.0, 1.0
    low, high = float(finite.min()), float(finite.max())
    room = max(1.0, abs(low)) if low == high else 0.0
    return (low - room, high) if low > 0 else (low, high + room)


def met_values(name: str, column: Column) -> tuple[str, ...]:
    """The values that occur, numbers in order of size."""
    spellings: dict[Token, str] = {}
    for value, _ in distinct(column).met():
        refuse_unusable(f"column {name!r}", value)
        if token_of(value):
            spellings.setdefault(token_of(value), str(spell(value)))
    texts = list(spellings.values())
    try:
        return tuple(sorted(texts, key=float))
    except ValueError:
        return tuple(sorted(texts))


def met_classes(name: str, column: Column) -> tuple[str | int | bool, ...]:
    """The labels that occur, in the type of their column.

    Text files have no types; there, labels that print as whole numbers or booleans become such.
    """
    texts = met_values(name, column)
    is_array = isinstance(column, np.ndarray)
    kinds = column if is_array or not pa.types.is_dictionary(column.type) else column.dictionary
    is_open = not is_array and bool(pa.types.is_binary(kinds.type))
    if set(texts) <= {"True", "False"} and (is_open or is_truth(kinds)):
        return tuple(text == "True" for text in texts)
    if (is_open or is_number(kinds)) and all(is_whole(text) for text in texts):
        return tuple(int(text) for text in texts)
    return texts


def _several(where: str, classes: tuple[Any, ...]) -> tuple[Any, ...]:
    if len(classes) < 2:
        raise DataError(
            f"{where} holds {len(classes)} class(es), {list(classes)}; at least 2 are needed. Give "
            "a schema that lists all classes if this site simply never met the others."
        )
    return classes


NO_LETTER = "\ufffd"
ROUND = (1.0, 1.5, 2.0, 2.5, 3.0, 4.0, 5.0, 6.0, 8.0, 10.0)
"""Round numbers within a decade."""
MOST_CLASSES = 20
"""Whole-number labels with more values are a regression target."""
MISSING_MARKS = {"?", "-", ".", "unknown", "missing"}
"""Further texts for a missing value, besides those that are always read so."""


@dataclass(frozen=True)
class Finding:
    """One column of a draft: what was seen, the proposed feature, and why."""

    name: str
    seen: str
    reasons: tuple[str, ...] = ()
    feature: Feature | None = None
    """None leaves the column out."""
    source: str | None = None
    """The source of a publicly known range."""


@dataclass(frozen=True)
class Diagnosis:
    """A draft and the findings behind it, column by column."""

    schema: Schema
    findings: tuple[Finding, ...]
    outcome: tuple[Finding, ...] = ()
    """Of classes or a target with a parser; its name is empty, as no column's is."""

    def to_toml(self) -> str:
        """The draft with the reasons above each feature."""
        head, *parts = self.schema.to_toml().split("[[feature]]\n")
        drafted = [f for f in self.findings if f.feature is not None]
        left_out = [
            f"# {_bare(f.name)} is left out: {_bare(f.reasons[0])}.\n"
            for f in self.findings
            if f not in drafted
        ]
        comments = ["".join(f"# {_bare(r)}\n" for r in f.reasons) for f in drafted]
        pairs = zip(comments, parts, strict=True)
        outcome = [reason for finding in self.outcome for reason in finding.reasons]
        notes = "".join(f"# The outcome: {_bare(reason)}.\n" for reason in outcome)
        return (
            head.replace(DRAFTED, DRAFTED + notes)
            + "".join(left_out)
            + "\n" * bool(left_out)
            + "".join(f"{t}[[feature]]\n{p}" for t, p in pairs)
        )


def _bare(text: str) -> str:
    """The text on one line, for a comment."""
    return " ".join("".join(c if c.isprintable() else " " for c in text).split())


def draft_schema(
    data: Source, target: str | None = None, *, y: Any = None, event: str | None = None
) -> Schema:
    """Draft a schema from rows, to be corrected and confirmed: parsers, round ranges, values.

    Every part is marked as read from rows, so a fit with it has no guarantee yet. `data` is a
    frame, an array or the path of a file; `target` names its label column, or `y` holds the labels.
    With `event`, the column of events, `target` is the column of times. Identifiers are left out.

    Examples
    --------
    >>> import hedgerow as hr
    >>> draft = hr.draft_schema([[31, 2], [47, 9]], y=["no", "yes"])
    >>> draft.classes
    ('no', 'yes')

    """
    return diagnose(data, target, y=y, event=event).schema


def diagnose(
    data: Source, target: str | None = None, *, y: Any = None, event: str | None = None
) -> Diagnosis:
    """Draft a schema, with what was seen in each column and the reason of each proposal."""
    if target is not None and y is not None:
        raise ParameterError("labels were given twice, as y and as the column `target`; give one.")
    table = open_table(data)
    if event is not None and target is None:
        raise ParameterError(f"event is {event!r}; name the column of times, too, as `target`.")
    for name in {target, event} - {None, *table.names}:
        raise DataError(f"{table.where} has no column {name!r}; it has {table.names}.")
    columns = dict(zip(table.names, _whole(table), strict=True))
    label = columns.pop(target) if target is not None else None
    columns.pop(event or "", None)
    if y is not None:
        label = one_per_row(table, y, "y", "label")
    if not columns:
        raise DataError(f"{table.where} has no columns beside {target!r}; nothing can be learned.")
    _warn_of_lines(table)
    findings = [examine(name, column) for name, column in columns.items()]
    identifiers = [f.name for f in findings if f.feature is None]
    if len(identifiers) == len(findings):
        findings = [replace(f, feature=_draft_feature(f.name, columns[f.name])) for f in findings]
    if identifiers:
        warn_of_identifiers(identifiers, [columns[name] for name in identifiers])
    features = tuple(f.feature for f in findings if f.feature is not None)
    outcome_findings, outcome = ((), {}) if label is None else _outcome(target or LABEL, label)
    if event is not None and label is not None:
        end = round_range(0.0, range_met(str(target), label)[1])[1]
        outcome_findings, outcome = (), {"survival": Survival(str(target), event, end)}
    bare = Schema(features, **outcome)
    _warn_of_strange_letters(table, bare)
    return Diagnosis(bare.with_mark(Mark()), tuple(findings), outcome_findings)


def _warn_of_lines(table: RowTable) -> None:
    faults = table.faults
    if faults.n_malformed:
        warn(
            f"{table.where}: {faults.n_malformed} line(s) are left out, with an open quote or "
            "another number of cells than the header; correct them, or what they hold is not in "
            f"the draft. The first: {faults.first}.",
            DataWarning,
        )
    if faults.n_recoded:
        warn(
            f"{table.where} is not UTF-8: {faults.n_recoded} line(s) are read as Windows-1252; "
            "look at them, or save the file as UTF-8.",
            DataWarning,
        )


# Examines one column: its kind, its parser, its publicly known range.

DATE_FORMATS = (
    *("%Y-%m-%d", "%d.%m.%Y", "%m/%d/%Y", "%d/%m/%Y", "%Y/%m/%d", "%d-%m-%Y", "%d%b%Y", "%Y%m%d"),
    *("%d.%m.%y", "%m/%d/%y", "%d/%m/%y", "%d %b %Y", "%b %d, %Y"),
)
PROPOSED: tuple[tuple[dict[str, Any], str, str], ...] = (
    *(({"kind": "date", "format": [f]}, r".*\d", f"dates written as {f}") for f in DATE_FORMATS),
    ({"kind": "percent"}, r".*(%|percent|pct)", "percentages"),
    ({"kind": "percent", "decimal": ","}, r".*(%|percent|pct)", "percentages, decimal comma"),
    ({"kind": "money"}, r".*([^\d\s.,'+-]\s*[-\d(]|\d\s*[^\d\s.,'%)+-])", "amounts of money"),
    (
        {"kind": "money", "decimal": ","},
        r".*([^\d\s.,'+-]\s*[-\d(]|\d\s*[^\d\s.,'%)+-])",
        "amounts of money, decimal comma",
    ),
    ({"kind": "number"}, r".*\d", "numbers with groups of digits"),
    ({"kind": "number", "decimal": ","}, r".*\d", "numbers with a decimal comma"),
    ({"kind": "number", "units": {"k": 1000, "M": 1000000}}, r".*\d\s*[kM]$", "numbers with units"),
    ({"kind": "boolean"}, r"[A-Za-z]", "words for true and false"),
    (
        {"kind": "icd"},
        r"[A-Za-z]\d[\dA-Za-z](\.?[\dA-Za-z]{1,4})?$",
        "codes of ICD-10, by their first three",
    ),
    ({"kind": "atc"}, r"[A-Za-z]\d\d[A-Za-z]{2}\d\d$", "codes of ATC, by their first four"),
)
"""Parsers in the order in which they are tried, a sign that some value must show, and words."""
READABLE = 0.95
"""Part of the values that a parser must read; the others may be sentinels."""
MOST_SENTINELS = 5
SENTINELS: tuple[int, ...] = (-1, -8, -9, -88, -99, -888, -999, -9999, -99999)
SENTINELS += (88, 99, 777, 888, 999, 9999, 99999, 999999)
WIDENS = 3.0
"""A sentinel makes the range at least so many times as wide."""
PERSONS = re.compile(
    r"\b(patient|person|subject|member|customer|client|user|mrn|ssn|pid|borrower)\b"
)
IDENTIFIERS = re.compile(r"\b(id|key|number|nr|no|index|uuid|guid)\b")
SITE_WORDS = re.compile(r"\b(site|hospital|clinic|cent(er|re)|branch|facility|institution|bank)\b")
CODES = re.compile(r"\b(zip|postal|postcode|plz|code|icd|atc|snomed|ndc|cpt|drg|type|class)\b")


def examine(name: str, column: Column) -> Finding:
    words = re.sub(r"[\W_]+", " ", name).strip().lower()
    counts = _met(column)
    rows, seen = sum(n for _, n in counts), _seen(column, counts)
    if not counts:
        return Finding(
            name, seen, ("no row has a value: leave it out",), _draft_feature(name, column)
        )
    if _looks_like_identifier(words, column, counts):
        return Finding(name, seen, ("another value in every row, as identifiers have",))
    if (
        PERSONS.search(words)
        and 1.2 * len(counts) < rows < 50 * len(counts)
        and len(counts) > ENOUGH_ROWS
    ):
        reason = f"looks like a person, {rows / len(counts):.1f} rows each: pass it as `person`"
        return Finding(name, seen, (reason,))
    reasons = ["one value in all rows teaches nothing: leave it out"] * (len(counts) == 1)
    feature, more = _propose(name, words, column, counts)
    if SITE_WORDS.search(words) and not isinstance(feature, Numeric):
        reasons.append("looks like a site: pass it as `site`, or keep it")
    finding = Finding(name, seen, (*reasons, *more), feature)
    return _with_known_range(finding, words, column)


def _met(column: Column) -> list[tuple[Any, int]]:
    """The values that occur, with their frequencies."""
    empty = {None, *MISSING_TEXTS}
    return [(value, n) for value, n in distinct(column).met() if token_of(value) not in empty]


def _seen(column: Column, counts: Sequence[tuple[Any, int]]) -> str:
    rows = sum(n for _, n in counts)
    return f"{len(column):,} rows, {len(column) - rows:,} empty, {len(counts):,} values"


def _looks_like_identifier(words: str, column: Column, counts: Sequence[tuple[Any, int]]) -> bool:
    """Whether texts all differ and no parser reads them, or whole numbers look like ids."""
    if len(counts) < ENOUGH_ROWS or any(n > 1 for _, n in counts):
        return False
    if not _says_numbers(column):
        some = [spell(v) if isinstance(v, str | bytes) else v for v, _ in counts[:200]]
        parser = _first_parser(some)
        return parser is None or parser[0].kind in TO_TEXT
    finite = _finite(column)
    is_whole_number = np.array_equal(finite, np.floor(finite))
    is_dense = float(np.ptp(finite)) < 1.5 * len(finite)
    return is_whole_number and (is_dense or IDENTIFIERS.search(words) is not None)


def _propose(
    name: str, words: str, column: Column, counts: Sequence[tuple[Any, int]]
) -> tuple[Feature, list[str]]:
    is_text = all(isinstance(value, str | bytes) for value, _ in counts)
    texts = [str(spell(value)).strip() for value, _ in counts] if is_text else []
    is_code = any(re.fullmatch("0[0-9]+", t) for t in texts) or CODES.search(words)
    if is_text and is_code and all(re.fullmatch(r"[0-9-]+", text) for text in texts):
        return _draft_code(name, words, texts)
    values = texts if is_text else [value for value, _ in counts]
    if not _says_numbers(column):
        parser = _first_parser(values)
        if parser is not None:
            return _draft_parsed(name, column, *parser)
        return _draft_feature(name, column), []
    feature = _draft_feature(name, column)
    if not isinstance(feature, Numeric):
        return feature, []
    marks = [text for text in texts if text.lower() in MISSING_MARKS]
    sentinels: list[str | float] = [*_number_sentinels(column), *marks]
    reasons = [f"{s} looks like a sentinel for missing values" for s in sentinels]
    if CODES.search(words) and len(counts) <= MAX_VALUES:
        reasons.append("looks like codes, not amounts: list `values` instead of a range")
    if not sentinels:
        return feature, reasons
    bare = Numeric(name, 0, 1, missing=tuple(sentinels))
    return replace(feature, missing=bare.missing, **_range_of(column, bare)), reasons


def _range_of(column: Column, feature: Numeric) -> dict[str, Any]:
    values, _ = parsed_numbers(column, feature.grid)
    low, high = round_range(*range_met(feature.name, values))
    return {"low": low, "high": high}


def _number_sentinels(column: Column) -> list[int]:
    """Conventional codes (such as 999) at an end of the range that widen it much."""
    finite = np.unique(_finite(column))
    sentinels = list[int]()
    while len(finite) > 3:
        ends = [(finite[0], finite[1:]), (finite[-1], finite[:-1])]
        wide = [
            (end, rest)
            for end, rest in ends
            if end in SENTINELS and finite[-1] - finite[0] > WIDENS * (rest[-1] - rest[0])
        ]
        if not wide:
            break
        sentinels.append(int(wide[0][0]))
        finite = wide[0][1]
    return sentinels


def _first_parser(values: Sequence[Any]) -> tuple[Parser, tuple[Any, ...], str] | None:
    """The first parser that reads nearly all values, and the sentinels it leaves."""
    texts = [value for value in values if isinstance(value, str)]
    if len(texts) < len(values) and not any(hasattr(value, "isoformat") for value in values):
        return None
    for options, sign, words in PROPOSED:
        share = np.mean([bool(re.match(sign, text)) for text in texts[:2000]]) if texts else 1.0
        if share == 0.0 or (options["kind"] in TO_TEXT and share < READABLE):
            continue
        parser = Parser(**options)
        sample = values[:: max(1, len(values) // 500)]
        if sum(parser.read(value) == () for value in sample) > (1 - READABLE) * len(sample) + 1:
            continue
        unread = tuple(value for value in values if parser.read(value) == ())
        few = len(unread) <= min(MOST_SENTINELS, (len(values) - 1) // 2)
        if few and not any(re.search(r"\d", str(v)) for v in unread):
            return parser, unread, words
    return None


def _draft_parsed(
    name: str, column: Column, parser: Parser, unread: tuple[Any, ...], words: str
) -> tuple[Feature, list[str]]:
    unit = f", in days since {parser.since}" if parser.kind == "date" else ""
    reasons = [f"{words}: parse is {parser.kind}{unit}"]
    reasons += [f"{list(unread)} stand for missing values"] * bool(unread)
    if parser.kind == "boolean":
        return Categorical(name, (False, True), other=False, parse=parser, missing=unread), reasons  # type: ignore[arg-type]
    if parser.kind in TO_TEXT:
        probe = Hashed(name, parse=parser, missing=unread)
        tokens = set(parsed_distinct(column, probe.grid)[1]) - {None, *MISSING_TEXTS}
        return replace(
            listed_or_hashed(name, tuple(sorted(map(str, tokens)))), parse=parser, missing=unread
        ), reasons
    probe_number = Numeric(name, 0, 1, parse=parser, missing=unread)
    values, _ = parsed_numbers(column, probe_number.grid)
    sentinels = _number_sentinels(values)
    reasons += [f"{s} looks like a sentinel for missing values" for s in sentinels]
    probe_number = replace(probe_number, missing=(*unread, *sentinels))
    return replace(probe_number, **_range_of(column, probe_number)), reasons


def _draft_code(name: str, words: str, texts: Sequence[str]) -> tuple[Feature, list[str]]:
    if re.search(r"zip|postal|postcode|plz", words):
        parser = Parser(kind="zip")
        heads = tuple(sorted({str(parser.read(text)) for text in texts}))
        reason = "codes that look like numbers: the first three digits of a ZIP code"
        return replace(listed_or_hashed(name, heads), parse=parser), [reason]
    values = tuple(sorted(set(texts)))
    return listed_or_hashed(name, values), ["codes that look like numbers are kept as texts"]


@cache
def known_ranges() -> list[dict[str, Any]]:
    """Public ranges of common columns, each with its published source."""
    text = files("hedgerow.data").joinpath("known_ranges.toml").read_text("utf-8")
    return list(tomllib.loads(text)["column"])


def _with_known_range(finding: Finding, words: str, column: Column) -> Finding:
    feature = finding.feature
    row = next((row for row in known_ranges() if re.fullmatch(row["name"], words)), None)
    if row is None or not isinstance(feature, Numeric):
        return finding
    if isinstance(feature.parse, Parser) and feature.parse.kind == "date":
        return finding
    values, _ = parsed_numbers(column, feature.grid)
    finite = values[np.isfinite(values)]
    if np.mean((finite >= row["low"]) & (finite <= row["high"])) < 0.99:
        reason = (
            f"not in the public range {row['low']} to {row['high']} {row['unit']}: look at its unit"
        )
        return replace(finding, reasons=(*finding.reasons, reason))
    source, bounds = row["source"], f"range {row['low']} to {row['high']} {row['unit']}"
    reason = f"public {bounds}: {source}"
    wide = replace(feature, low=float(row["low"]), high=float(row["high"]))
    return replace(finding, feature=wide, reasons=(*finding.reasons, reason), source=source)


def _warn_of_strange_letters(table: RowTable, schema: Schema) -> None:
    """Warns of replacement characters, which stand for bytes that are not UTF-8."""
    texts = {f.name: (f.name, *getattr(f, "values", ())) for f in schema.features}
    texts["the classes"] = schema.classes or ()
    strange = [
        column for column, names in texts.items() if any(NO_LETTER in name for name in names)
    ]
    if strange:
        warn(
            f"{table.where} is not UTF-8: some values of {strange} are read with {NO_LETTER} for "
            "unreadable characters; save the file as UTF-8 and draft again.",
            DataWarning,
        )


def _whole(table: RowTable) -> list[Column]:
    """All rows of a table, one column each."""
    parts, rows = list[list[Column]](), 0
    for part in table.chunks(table.names, table.capacity or CHUNK_ROWS):
        parts.append(part)
        rows += len(part[0])
        ROWS_READ.get()(table.where, rows)
    if not parts:
        raise DataError(f"{table.where} holds no rows; give at least one.")
    if len(parts) == 1:
        return list(parts[0])
    return [
        np.concatenate(list(map(objects_of, column)))
        if any(isinstance(part, np.ndarray) for part in column)
        else pa.concat_arrays(column)
        for column in zip(*parts, strict=True)
    ]


def _draft_feature(name: str, column: Column) -> Feature:
    if _says_numbers(column) and set(np.unique(_finite(column))) != {0.0, 1.0}:
        return Numeric(name, *round_range(*range_met(name, column)))
    values = tuple(v for v in met_values(name, column) if v.strip() not in MISSING_TEXTS)
    if set(map(token_of, values)) == {"0", "1"}:
        return Categorical(name, values, other=False)
    return listed_or_hashed(name, values)


def _says_numbers(column: Column) -> bool:
    """Whether a column is numeric: by type or, in a text file, in every non-blank cell."""
    if is_number(column):
        return True
    if isinstance(column, np.ndarray) or not pa.types.is_binary(column.type):
        return False
    values, strange = numbers(column)
    texts = [value.decode("utf-8", "replace").strip() for value, _ in strange]
    blank = all(text in MISSING_TEXTS or text.lower() in MISSING_MARKS for text in texts)
    return blank and bool(np.isfinite(values).any())  # in a text column a mark like ? is a value


def _finite(column: Column) -> FloatArray:
    values, _ = numbers(column)
    return values[np.isfinite(values)]


def _classes(name: str, label: Column) -> tuple[str | int | bool, ...] | None:
    """The classes; None for a regression target (fractions, or too many whole numbers)."""
    values = met_classes(name, label)
    if _says_numbers(label):
        finite = _finite(label)
        if len(values) > MOST_CLASSES or not np.array_equal(finite, np.floor(finite)):
            return None
    return _several(f"column {name!r}", values)


def _outcome(name: str, label: Column) -> tuple[tuple[Finding, ...], dict[str, Any]]:
    """Classes or target and their parser, as arguments of a schema.

    A few texts become classes unchanged; several spellings of true and false become two classes.
    """
    counts = _met(label)
    feature, reasons = _propose(name, "", label, counts)
    finding = Finding("", _seen(label, counts), tuple(reasons), feature)
    reads: dict[str, Any] = {"parse": feature.parse, "missing": feature.missing}
    is_written = feature.parse is not None or bool(feature.missing)
    if isinstance(feature, Numeric) and is_written and len(counts) > MOST_CLASSES:
        return (finding,), {"target": Target(feature.low, feature.high, **reads)}
    if isinstance(feature.parse, Parser) and feature.parse.kind == "boolean" and len(counts) > 2:
        words = {f"classes_{entry}": value for entry, value in reads.items()}
        return (finding,), {"classes": (False, True), **words}
    classes = _classes(name, label)
    if classes is not None:
        return (), {"classes": classes}
    return (), {"target": Target(*round_range(*range_met(LABEL, label)))}


def round_range(low: float, high: float) -> tuple[float, float]:
    """The enclosing range of round numbers; from zero, if the range comes near it."""
    width = high - low
    if 0.0 <= low <= width:
        return 0.0, _above(high)
    if -width <= high <= 0.0:
        return -_above(-low), 0.0
    if low < 0.0 < high:
        return -_above(-low), _above(high)
    step = 10.0 ** math.floor(math.log10(width))
    return _tidy(math.floor(low / step) * step), _tidy(math.ceil(high / step) * step)


def _above(number: float) -> float:
    """The smallest round number at or above `number`."""
    decade = 10.0 ** math.floor(math.log10(number))
    return _tidy(next(r * decade for r in (*ROUND, 15.0) if r * decade >= number))


def _tidy(number: float) -> float:
    """The number without binary rounding noise."""
    return float(f"{number:.12g}")
