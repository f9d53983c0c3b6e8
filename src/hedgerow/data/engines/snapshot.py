"""From what a query selects to a table of cells, inside the database.

Numbers become cells by CASE. Every other value becomes one by a table of its distinct values,
whose codes this process makes exactly as a reader of files would. A row without a usable label is
left out, as everywhere. All that decides whether a column can be used is its type, never a value.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from hedgerow.data.engines import sql
from hedgerow.data.reading.containers import check_named
from hedgerow.data.reading.databases import Database, Selected, quoted
from hedgerow.data.reading.report import Told
from hedgerow.errors import DataError, SpecError
from hedgerow.schema.grids import ColumnKind, Grid
from hedgerow.schema.schema import Schema
from hedgerow.schema.tokens import Token, token_of


@dataclass
class _Making:
    """One column of cells after the other."""

    database: Database
    raw: str
    cells: list[str] = field(default_factory=list)
    joins: list[str] = field(default_factory=list)
    made: list[str] = field(default_factory=list)
    counted: dict[tuple[str, str], str] = field(default_factory=dict)
    """By what is counted and of which column: a condition."""

    def count(self, what: str, name: str, condition: str) -> None:
        self.counted[what, name] = condition


def snapshot(selected: Selected, schema: Schema, target: str, name: str) -> Told:
    """Makes the table `name`: a column of cells for each feature, and `y`."""
    if schema.classes is None and schema.target is None:
        raise SpecError("the schema declares neither classes nor a target; add one of them.")
    database, raw = selected.database, f"{name}_raw"
    columns = [*schema.names, target]
    check_named(selected.where, selected.names, target=target)
    missing = [column for column in columns if column not in selected.names]
    if missing:
        raise DataError(
            f"{selected.where} has no column {missing[0]!r}; it has {selected.names}. Name it so "
            "in the query (AS), or change the schema at all sites."
        )
    database.run(f"CREATE TEMP TABLE {raw} AS {selected.of(columns)}")
    kinds = database.schema(f"SELECT * FROM {raw}")
    making = _Making(database, raw)
    for place, grid in enumerate(schema.grids):
        _add_feature(making, selected.where, grid, kinds.field(grid.feature).type, place)
    label_kind = kinds.field(target).type
    y = _label(making, selected.where, schema, target, label_kind)
    database.run(
        f"CREATE TEMP TABLE {name} AS SELECT {', '.join([*making.cells, f'{y} AS {sql.Y}'])} "
        f"FROM {raw} {' '.join(making.joins)} WHERE ({y}) IS NOT NULL"
    )
    database.run(f"ANALYZE {name}")  # else engines plan for a table of unknown size
    told = _told(making, y)
    for table in (raw, *making.made):
        database.run(f"DROP TABLE {table}")
    return told


def _told(making: _Making, y: str) -> Told:
    """What became of values, counted in one scan of all rows, as a reader counts them."""
    conditions = [f"({y}) IS NOT NULL", f"({y}) IS NULL", *making.counted.values()]
    sums = [f"COUNT(CASE WHEN {part} THEN 1 END) AS n{k}" for k, part in enumerate(conditions)]
    found = making.database.table(
        f"SELECT {', '.join(sums)} FROM {making.raw} {' '.join(making.joins)}"
    )
    used, skipped, *counts = (int(column[0].as_py()) for column in found.columns)
    by = dict(zip(making.counted, counts, strict=True))
    clamped, unknown, missing = (
        {name: count for (what, name), count in by.items() if what == kind}
        for kind in ("clamped", "unknown", "missing")
    )
    return Told(n=used, skipped=skipped, clamped=clamped, unknown=unknown, missing=missing)


def _add_feature(making: _Making, where: str, grid: Grid, kind: Any, place: int) -> None:
    column = f"{making.raw}.{quoted(grid.feature)}"
    if grid.kind is ColumnKind.NUMERIC:
        value = _number(column, where, grid.feature, kind)
        inside = sql.interval(value, grid.edges)
        making.count("missing", grid.feature, sql.is_no_number(value))
        making.count("clamped", grid.feature, _outside(value, grid.low, grid.high))
        code = f"CASE WHEN {sql.is_no_number(value)} THEN {grid.missing} ELSE {inside} END"
    else:
        codes = _codes(making, where, grid.feature, kind, grid.category_code, grid.knows)
        code, known = f"COALESCE({codes}.code, {grid.missing})", f"COALESCE({codes}.known, 1)"
        making.count("missing", grid.feature, f"{code} = {grid.missing} AND {known} = 1")
        making.count("unknown", grid.feature, f"{known} = 0")
    making.cells.append(f"CAST({code} AS SMALLINT) AS {sql.cell(place)}")


def _label(making: _Making, where: str, schema: Schema, target: str, kind: Any) -> str:
    """NULL for a row that has none."""
    if schema.target is None:
        return f"{_codes(making, where, target, kind, schema.class_code)}.code"
    value = _number(f"{making.raw}.{quoted(target)}", where, target, kind)
    low, high = sql.sql_number(schema.target.low), sql.sql_number(schema.target.high)
    making.count("clamped", target, _outside(value, schema.target.low, schema.target.high))
    clipped = f"LEAST(GREATEST({value}, {low}), {high})"
    return f"CASE WHEN {sql.is_no_number(value)} THEN NULL ELSE {clipped} END"


def _outside(value: str, low: float, high: float) -> str:
    """PostgreSQL takes NaN to be larger than any number."""
    bounds = f"{value} < {sql.sql_number(low)} OR {value} > {sql.sql_number(high)}"
    return f"NOT ({sql.is_no_number(value)}) AND ({bounds})"


def _number(column: str, where: str, name: str, kind: Any) -> str:
    is_a = pa.types
    if is_a.is_boolean(kind):
        return f"CAST(CAST({column} AS INTEGER) AS float8)"
    if is_a.is_integer(kind) or is_a.is_float32(kind) or is_a.is_float64(kind):
        return f"CAST({column} AS float8)"
    raise DataError(
        f"{where}, column {name!r} is {kind}, and numbers are wanted; cast it in the query: "
        f"CAST({name} AS DOUBLE PRECISION)."
    )


def _codes(
    making: _Making,
    where: str,
    name: str,
    kind: Any,
    code_of: Callable[[Token], int | None],
    knows: Callable[[Token], bool] = lambda token: True,
) -> str:
    """A table of the values, joined: the code of each, if it has one, and whether it is known."""
    column, table = f"{making.raw}.{quoted(name)}", f"{making.raw}_{len(making.made)}"
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        column = f'CAST({column} AS TEXT) COLLATE "C"'  # equal are equal bytes, and nothing else
    elif not (pa.types.is_integer(kind) or pa.types.is_boolean(kind) or _is_float(kind)):
        raise DataError(
            f"{where}, column {name!r} is {kind}; numbers, texts or booleans are wanted. Cast it "
            "in the query."
        )
    found = making.database.table(f"SELECT DISTINCT {column} AS value FROM {making.raw}")
    values = found["value"].drop_null()
    tokens = [token_of(value) for value in values.to_pylist()]
    codes = pa.array([code_of(token) for token in tokens], pa.int16())
    known = pa.array([int(knows(token)) for token in tokens], pa.int16())
    making.database.put(table, pa.table({"value": values, "code": codes, "known": known}))
    making.made.append(table)
    making.joins.append(f"LEFT JOIN {table} ON {column} = {table}.value")
    return table


def _is_float(kind: Any) -> bool:
    return bool(pa.types.is_float32(kind) or pa.types.is_float64(kind))
