"""A model as one SELECT for DuckDB and PostgreSQL.

Columns are cleaned first: NaN becomes NULL, texts become the schema's categories. Trees are CASE
expressions over the cleaned columns. Each step has a few dozen trees, because databases limit the
depth of expressions.
"""

from __future__ import annotations

import datetime
import math
import re
from collections.abc import Iterable, Sequence
from string import ascii_lowercase, ascii_uppercase
from typing import Any

from hedgerow.models.survival import SurvivalCurve
from hedgerow.report.exports.plain_text import sum_words
from hedgerow.report.plain import (
    OutputLink,
    PlainBranch,
    PlainLeaf,
    PlainModel,
    PlainNode,
    category_set,
    is_missing_in,
    nodes_of,
    other_spellings,
    spellings,
    unknown_code,
)
from hedgerow.schema.features import NUMERAL
from hedgerow.schema.grids import ColumnKind, Grid
from hedgerow.schema.parsers import MONTHS
from hedgerow.schema.tokens import MISSING_TEXTS
from hedgerow.version import __version__

TERMS_PER_STEP = 40
PLAIN_DIGITS = 15
"""Decimals up to this length are the same number in every database, whatever their type."""
RECORD = "record_id"
HIGHEST_POWER = 700.0
"""PostgreSQL reports powers of e beyond this as out of range, in both directions."""


def to_sql(model: PlainModel) -> str:
    *steps, last = *_clean_columns(model), *_sums(model), _apply_link(model, len(_steps_of(model)))
    return "\n".join([*_head(model), "WITH " + ",\n".join(steps), f"{last};"]) + "\n"


def _head(model: PlainModel) -> list[str]:
    buckets = [g.feature for g in model.grids if g.kind is ColumnKind.HASHED]
    lines = [
        f"{model.name}, exported by hedgerow {__version__}, for DuckDB and PostgreSQL.",
        f"{sum_words(model)}.",
        f"Reads `records`, a table or view with {RECORD}, to tell records apart, and our columns.",
        *(f"{name + '_bucket'!r} is the number of the bucket of {name!r}." for name in buckets),
        *(f"{g.feature!r} is read from the text of {g.source!r}." for g in model.grids if g.parser),
    ]
    return [f"-- {' '.join(line.splitlines())}" for line in lines]


def _clean_columns(model: PlainModel) -> list[str]:
    columns = {n.column for t in model.terms for n in nodes_of(t) if isinstance(n, PlainBranch)}
    parts = [RECORD, *(f"{_clean(model.grids[j])} AS {_name(model, j)}" for j in sorted(columns))]
    steps = _texts([model.grids[j] for j in sorted(columns) if model.grids[j].is_parsed])
    rows = f"texts_{len(steps)}" if steps else "records"
    return [*steps, f"cleaned AS MATERIALIZED (\n  SELECT {_join_lines(parts)}\n  FROM {rows}\n)"]


def _texts(parsed: Sequence[Grid]) -> list[str]:
    """The records with the texts of parsed columns, and dates split into parts."""
    texts = {grid.source: _text_of(grid) for grid in parsed if grid.kind is not ColumnKind.HASHED}
    dates = [_date_slots(grid) for grid in parsed if grid.rules["kind"] == "date"]
    trims = [f"trim({_quote(name)}::text, {SPACES}) AS {text}" for name, text in texts.items()]
    category_grids = [grid for grid in parsed if grid.kind is ColumnKind.CATEGORICAL]
    categories = [f"{_parsed_text(grid)} AS {_category_of(grid)}" for grid in category_grids]
    steps, source = list[str](), "records"
    for part in filter(None, (trims, dates, categories)):
        columns, name = _join_lines(["*", *part]), f"texts_{len(steps) + 1}"
        steps.append(f"{name} AS MATERIALIZED (\n  SELECT {columns}\n  FROM {source}\n)")
        source = name
    return steps


def _clean(grid: Grid) -> str:
    if grid.kind is ColumnKind.HASHED:
        column = _quote(grid.feature + "_bucket")
        return f"NULLIF({column}::float8, 'NaN'::float8)::integer"
    if grid.kind is ColumnKind.NUMERIC:
        number = f"NULLIF({_quote(grid.source)}::float8, 'NaN'::float8)"
        return _parsed_number(grid, number) if grid.is_parsed else number
    column = _category_of(grid) if grid.is_parsed else f"trim({_quote(grid.source)}::text)"
    texts: dict[int, list[str]] = {}
    for text, code in spellings(grid).items():
        texts.setdefault(code, []).append(text)
    ways = " ".join(
        f"WHEN {column} IN {_listed(texts[code])} THEN {_category(grid, code)}"
        for code in sorted(texts)
    )
    other = _category(grid, unknown_code(grid))
    return f"CASE WHEN {column} IS NULL THEN NULL {ways} ELSE {other} END"


# Declared parsers: the patterns of `schema.parsers`, which both databases support. A CASE guards
# every cast and date, so that no text of a row raises an error.

SPACES = " || ".join(f"chr({n})" for n in range(0x3001) if chr(n).isspace())


def _text_of(grid: Grid) -> str:
    return _quote(f"text of {grid.source}")


def _category_of(grid: Grid) -> str:
    return _quote(f"category of {grid.feature}")


def _is_sentinel(grid: Grid) -> str:
    texts = {t for s in grid.rules["sentinels"] for t in {s, *other_spellings(s)}}
    return f"{_text_of(grid)} IN {_listed(texts)}" if texts else "FALSE"


def _parsed_number(grid: Grid, number: str) -> str:
    if grid.rules["kind"]:
        number = PARSED[grid.rules["kind"]](grid)
    values = [_number(float(s)) for s in grid.rules["sentinels"] if NUMERAL.fullmatch(s)]
    if grid.rules["kind"] == "number" and values:
        number = f"CASE WHEN {number} IN ({', '.join(values)}) THEN NULL ELSE {number} END"
    return (
        f"CASE WHEN {_is_sentinel(grid)} THEN NULL ELSE {number} END" if grid.sentinels else number
    )


def _parsed_text(grid: Grid) -> str:
    """NULL for a missing value; an unreadable text is no category."""
    rules, column = grid.rules, _text_of(grid)
    value = column
    if rules["kind"] == "code":
        value = _code(rules, column)
    elif rules["kind"]:
        value = f"COALESCE({PARSED[rules['kind']](grid)}::bigint::text, '()')"
    missing = _listed(MISSING_TEXTS - set(rules.get("words", ())))
    kept_way = f"WHEN {column} IN {missing} THEN {column}"
    absent = f"{column} IS NULL OR {_is_sentinel(grid)}"
    return f"CASE WHEN {absent} THEN NULL {kept_way} ELSE {value} END"


def _group(pattern: str, column: str, place: int) -> str:
    return f"regexp_replace({column}, {pattern}, '\\{place}')"


def _read_number(grid: Grid) -> str:
    rules, column = grid.rules, _text_of(grid)
    pattern = _text(f"^(?:{rules['pattern']})$")
    sign, whole, part, power, unit = (_group(pattern, column, k) for k in range(1, 6))
    digits = "regexp_replace({}, '[^0-9]', '', 'g')"
    is_number = (
        f"{column} ~ {pattern} AND {digits.format(column)} <> '' "
        f"AND (position('(' in {column}) > 0) = (position(')' in {column}) > 0)"
    )
    powers = f"CASE {power} WHEN '' THEN '0' ELSE {power} END"
    if rules["units"]:
        ways = " ".join(f"WHEN {_text(u)} THEN '{p}'" for u, p in rules["units"].items())
        powers = f"CASE {unit} {ways} ELSE '0' END"
    text = (
        f"CASE {sign} WHEN '' THEN '' ELSE '-' END || '0' || {digits.format(whole)} || '.' "
        f"|| {part} || '0e' || {powers}"
    )
    return f"CAST(CASE WHEN {is_number} THEN {text} ELSE NULL END AS float8)"


DATE_SLOTS = "YymbdHMZ"


def _date_slots(grid: Grid) -> str:
    """The parts of a date in a fixed order, for any format; NULL if there are none."""
    ways = []
    for named_pattern in grid.rules["patterns"]:
        places = {name: k for k, name in enumerate(re.findall(r"\?P<(\w)>", named_pattern), 1)}
        pattern = _text("^(?:" + re.sub(r"\?P<\w>", "", named_pattern) + ")$")
        slots = "|".join(f"\\{places[name]}" if name in places else "" for name in DATE_SLOTS)
        text = _text_of(grid)
        ways.append(f"WHEN {text} ~ {pattern} THEN regexp_replace({text}, {pattern}, '{slots}')")
    return f"CASE {' '.join(ways)} ELSE NULL END AS {_slots_of(grid)}"


def _slots_of(grid: Grid) -> str:
    return _quote(f"date of {grid.feature}")


def _read_date(grid: Grid) -> str:
    slots, part = _slots_of(grid), grid.rules["part"]

    def slot(name: str) -> str:
        return f"split_part({slots}, '|', {DATE_SLOTS.index(name) + 1})"

    def whole(text: str) -> str:
        return f"CAST(NULLIF({text}, '') AS integer)"

    short = whole(slot("y"))
    year = f"COALESCE({whole(slot('Y'))}, {short} + CASE WHEN {short} > 68 THEN 1900 ELSE 2000 END)"
    names = " ".join(f"WHEN {_text(name)} THEN {k}" for k, name in enumerate(MONTHS, 1))
    month = f"COALESCE({whole(slot('m'))}, CASE lower({slot('b')}) {names} ELSE 1 END)"
    day, hour, minute = (
        f"COALESCE({whole(slot(name))}, {usual})" for name, usual in (("d", 1), ("H", 0), ("M", 0))
    )
    zone = f"rpad(replace({slot('Z')}, ':', ''), 5, '0')"
    shift = f"({whole(f'substr({zone}, 2, 2)')} * 60 + {whole(f'substr({zone}, 4, 2)')})"
    shift = f"CASE substr({zone}, 1, 1) WHEN '-' THEN {shift} WHEN '+' THEN -{shift} ELSE 0 END"
    first = f"make_timestamp({year}, {month}, 1, {hour}, {minute}, 0)"
    local = f"({first} + ({day} - 1) * INTERVAL '1 day')"
    moment = f"({local} + {shift} * INTERVAL '1 minute')"
    since = datetime.date.fromordinal(grid.rules["since"]).isoformat()
    value = f"EXTRACT({'isodow' if part == 'weekday' else part} FROM {moment})"
    if part == "days":
        value = f"(CAST({moment} AS DATE) - DATE '{since}')"
    return f"CASE WHEN EXTRACT(month FROM {local}) = {month} THEN {value} ELSE NULL END::float8"


def _read_words(grid: Grid) -> str:
    rules, column = grid.rules, _text_of(grid)
    folded_text = f"translate({column}, {_text(ascii_uppercase)}, {_text(ascii_lowercase)})"
    ways = " ".join(
        f"WHEN {text} IN {_listed({word, *other_spellings(word)})} THEN {_number(value)}"
        for text in (column, folded_text)
        for word, value in rules["words"].items()
    )
    return f"CASE {ways} ELSE NULL END"


PARSED = {"number": _read_number, "date": _read_date, "words": _read_words}


def _code(rules: dict[str, Any], column: str) -> str:
    text = f"regexp_replace({column}, '^(-?[0-9]+)[.]0$', '\\1')"
    if rules["upper"]:
        text = f"translate({text}, {_text(ascii_lowercase)}, {_text(ascii_uppercase)})"
    if rules["drop"]:
        text = f"regexp_replace({text}, '[{rules['drop']}]', '', 'g')"
    if rules["digits"]:
        whole = f"lpad(regexp_replace({text}, '-.*$', ''), {rules['digits']}, '0')"
        text = f"CASE WHEN {text} ~ '^[0-9]{{1,5}}(-[0-9]{{4}})?$' THEN {whole} ELSE {text} END"
    return f"substr({text}, 1, {rules['length']})"


def _category(grid: Grid, code: int) -> str:
    """A category as the cleaned column spells it."""
    if code == grid.missing:
        return "NULL"
    if grid.kind is ColumnKind.HASHED:
        return str(code)
    if code < len(grid.values):
        return _text(grid.values[code])
    placeholder = "(any other value)"
    while placeholder in grid.values:
        placeholder = f"({placeholder})"
    return _text(placeholder)


def _steps_of(model: PlainModel) -> list[Sequence[PlainNode]]:
    count = max(len(model.terms), 1)
    return [model.terms[k : k + TERMS_PER_STEP] for k in range(0, count, TERMS_PER_STEP)]


def _sums(model: PlainModel) -> list[str]:
    """One step per few dozen terms; each starts from the sums of the step before."""
    steps, place, source = [], 0, "cleaned"
    before = [_number(value) for value in model.base]
    for number, terms in enumerate(_steps_of(model), 1):
        sums = [
            f"{_sum_expression(model, terms, place, start, output)} AS s{number}_{output}"
            for output, start in enumerate(before)
        ]
        columns = _join_lines([f"{source}.*", *sums])
        steps.append(f"sum_{number} AS MATERIALIZED (\n  SELECT {columns}\n  FROM {source}\n)")
        before = [f"s{number}_{output}" for output in range(model.outputs)]
        place, source = place + len(terms), f"sum_{number}"
    return steps


def _sum_expression(
    model: PlainModel, terms: Sequence[PlainNode], place: int, start: str, output: int
) -> str:
    expression = start
    for k, root in enumerate(terms, place):
        expression = f"{expression}\n    + {_case(model, root, output)}"
        if model.clip is not None and k >= len(model.curves):
            low, high = (_number(bound) for bound in model.clip)
            expression = f"LEAST(GREATEST({expression}, {low}), {high})"
    return expression


def _case(model: PlainModel, node: PlainNode, output: int) -> str:
    if isinstance(node, PlainLeaf):
        return _number(node.values[output])
    yes, no = _case(model, node.yes, output), _case(model, node.no, output)
    return f"CASE WHEN {_question(model, node)} THEN {yes} ELSE {no} END"


def _question(model: PlainModel, branch: PlainBranch) -> str:
    grid, column = model.grids[branch.column], _name(model, branch.column)
    parts = _ranges if grid.kind is ColumnKind.NUMERIC else _memberships
    conditions = parts(grid, column, branch.cells & ~(1 << grid.missing))
    ways = [*conditions, *([f"{column} IS NULL"] if is_missing_in(grid, branch.cells) else [])]
    return " OR ".join(ways) or "FALSE"


def _ranges(grid: Grid, column: str, cells: int) -> list[str]:
    codes = category_set(grid, cells)
    firsts = [code for code in codes if not cells << 1 >> code & 1]
    lasts = [code for code in codes if not cells >> (code + 1) & 1]
    conditions = []
    for first, last in zip(firsts, lasts, strict=True):
        ends = [f"{column} >= {_bound(grid.edges[first - 1])}"] if first else []
        ends += [f"{column} < {_bound(grid.edges[last])}"] if last < len(grid.edges) else []
        conditions.append(" AND ".join(ends) or f"{column} IS NOT NULL")
    return conditions


def _memberships(grid: Grid, column: str, cells: int) -> list[str]:
    """The shorter of IN and NOT IN; NULL is in neither."""
    inside = category_set(grid, cells)
    outside = [code for code in range(grid.missing) if code not in set(inside)]
    if not inside:
        return []
    if not outside:
        return [f"{column} IS NOT NULL"]
    word, codes = ("IN", inside) if len(inside) <= len(outside) else ("NOT IN", outside)
    return [f"{column} {word} ({', '.join(_category(grid, code) for code in codes)})"]


def _apply_link(model: PlainModel, steps: int) -> str:
    last = [f"s{steps}_{output}" for output in range(model.outputs)]
    if model.survival is not None:
        return _survival(model.survival, model.times, last[0], f"sum_{steps}")
    if model.classes is None:
        return f'SELECT {RECORD}, {last[0]} AS "prediction"\nFROM sum_{steps}'
    probabilities = _probabilities(model.link, last)
    outputs = [
        f"{p} AS {_quote('p_' + name)}"
        for name, p in zip(model.classes, probabilities, strict=True)
    ]
    return f"SELECT {RECORD},\n  {_join_lines(outputs)}\nFROM sum_{steps}"


def _survival(curve: SurvivalCurve, times: Sequence[float], score: str, rows: str) -> str:
    """The risk, and the probability of no event until each time, which never rises."""
    sigmoids, highest = list[str](), list[str]()
    for place, (odds, slope) in enumerate(zip(curve.odds, curve.slopes, strict=True)):
        level = _number(math.log(odds) + curve.center)
        z = f"{level} + {_number(slope)} * ({score} - {_number(curve.center)})"
        sigmoids.append(f"1 / (1 + exp(-LEAST(GREATEST({z}, -30), 30))) AS p{place}")
        highest.append(f"GREATEST({', '.join(f'p{k}' for k in range(place + 1))})")
    columns = [f'{score} AS "risk"']
    for time, weights in zip(times, curve.weights(times).T, strict=True):
        parts = (f"{_number(float(w))} * {highest[k]}" for k, w in enumerate(weights) if w)
        columns.append(f"{' - '.join(['1', *parts])} AS {_quote(f's_{time:g}')}")
    inner = f"SELECT *,\n  {_join_lines(sigmoids)}\nFROM {rows}"
    return f"SELECT {RECORD},\n  {_join_lines(columns)}\nFROM ({inner}) AS chances"


def _probabilities(link: OutputLink, sums: Sequence[str]) -> list[str]:
    if link is OutputLink.NONE:
        return list(sums)
    if link is OutputLink.SIGMOID:
        power = f"LEAST(GREATEST({sums[0]}, -30), 30)"
        return [f"1 / (1 + exp({power}))", f"1 / (1 + exp(-{power}))"]
    top = f"GREATEST({', '.join(sums)})"
    parts = [f"exp(GREATEST({s} - {top}, {-HIGHEST_POWER:g}))" for s in sums]
    return [f"{part} / ({' + '.join(parts)})" for part in parts]


def _name(model: PlainModel, column: int) -> str:
    return _quote(f"c{column} {model.grids[column].feature}")


def _join_lines(parts: Sequence[str]) -> str:
    return ",\n  ".join(parts)


def _number(value: float) -> str:
    """A float8 literal: a bare decimal is an exact, slow number in PostgreSQL."""
    return f"'{value!r}'::float8"


def _bound(edge: float) -> str:
    digits = repr(edge).lstrip("-").replace(".", "").strip("0")
    is_plain = len(digits) <= PLAIN_DIGITS and "e" not in digits
    return f"{edge:.15g}" if is_plain else _number(edge)


def _listed(texts: Iterable[str]) -> str:
    return f"({', '.join(map(_text, sorted(texts)))})"


def _text(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def _quote(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
