"""Rows in a database: cells are computed there once, and integer counts and sums come back.

What the query selects is copied once into a table of the connection's own, and that into cells:
a run asks many times, and a record that changed meanwhile would be in two regions which the
ledger takes to be disjoint. Texts are turned into codes by this process, once for each distinct
one, since no two engines trim and compare texts alike.

Pushed down to the engine are `PUSHED` statistics by `PUSHED_BY` groupings, in regions of tests.
All else is summed here over cells that are streamed: losses need `exp`, which differs by engine,
and folds need secret draws, which no engine may know.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from hedgerow.data.engines.engine import Elsewhere, QueryInUnit, Work, added
from hedgerow.data.reading.columns import code_of_value, number_of
from hedgerow.data.reading.containers import check_named
from hedgerow.data.reading.databases import Database, Selected, quoted
from hedgerow.data.reading.encoding import Encoded
from hedgerow.data.reading.report import EngineCounts
from hedgerow.data.rows import Draws, Rows
from hedgerow.data.sums import Answering
from hedgerow.errors import DataError, ParameterError
from hedgerow.models.sensitivity import Sensitivity
from hedgerow.models.tree import Tree
from hedgerow.privacy.queries import (
    Cells,
    ClassCounts,
    Count,
    Fractions,
    Groups,
    Leaves,
    Statistic,
    SumQuery,
    TargetCells,
    TargetClassCounts,
    Whole,
)
from hedgerow.schema.arrays import IntArray
from hedgerow.schema.features import SMALLEST_TIME
from hedgerow.schema.grids import ColumnKind, Grid
from hedgerow.schema.regions import Fold, HeldOut, Region, Split
from hedgerow.schema.schema import Schema, Survival
from hedgerow.schema.tokens import token_of

# --------------------------------------------------------------------------------------------------
# Cells, regions, leaves and target intervals as SQL that DuckDB and PostgreSQL both understand.
#
# Cells are whole numbers, so all but two things are exact whatever the engine: the comparison of a
# float8 with an edge, and the parts of a target (see `parts_of`), which take the four operations
# that IEEE 754 rounds correctly and a rounding to whole numbers. No engine is asked for `exp`.

Y = "y"


def cell(feature: int) -> str:
    """The column of a feature's cells."""
    return f"c{feature}"


def sql_number(value: float) -> str:
    """A number as text, which engines read to the nearest float8; a bare decimal may differ."""
    return f"'{value!r}'::float8"


def interval(value: str, edges: Sequence[float]) -> str:
    """The number of edges at or below a value that is a number: halves, not one edge by one."""

    def among(low: int, high: int) -> str:
        if low == high:
            return str(low)
        middle = (low + high + 1) // 2
        below, above = among(low, middle - 1), among(middle, high)
        return f"CASE WHEN {value} < {sql_number(edges[middle - 1])} THEN {below} ELSE {above} END"

    return among(0, len(edges))


def is_no_number(value: str) -> str:
    """NULL or NaN, which both engines take to be equal to itself."""
    return f"{value} IS NULL OR {value} = 'NaN'::float8"


def within(region: Region, schema: Schema) -> str | None:
    """The SQL condition of a region; None if secret draws decide, which no engine knows."""
    conditions = []
    for step in region:
        if isinstance(step.test, Fold | HeldOut):
            return None
        goes_left = in_cells(schema.index(step.test.feature), step.test.left)
        conditions.append(goes_left if step.outcome == 0 else f"NOT ({goes_left})")
    return " AND ".join(f"({part})" for part in conditions) or "TRUE"


def in_cells(feature: int, bits: int) -> str:
    """The SQL condition of a set of cells, as runs of neighbors: numeric columns have few."""
    column = cell(feature)
    firsts = [code for code in range(bits.bit_length()) if bits >> code & 1 & ~(bits << 1 >> code)]
    lasts = [code for code in range(bits.bit_length()) if bits >> code & 1 & ~(bits >> code >> 1)]
    runs = [
        f"{column} = {a}" if a == b else f"{column} BETWEEN {a} AND {b}"
        for a, b in zip(firsts, lasts, strict=True)
    ]
    return " OR ".join(runs)


def leaf(tree: Tree, schema: Schema) -> str:
    """The SQL expression of a row's leaf number. Nodes are in preorder."""
    nodes = iter(zip(tree.tests, tree.leaf.tolist(), strict=True))

    def below() -> str:
        test, place = next(nodes)
        if test is None:
            return str(place)
        left, right = below(), below()
        return f"CASE WHEN {_question(test, schema)} THEN {left} ELSE {right} END"

    return below()


def _question(test: Split, schema: Schema) -> str:
    return in_cells(schema.index(test.feature), test.left)


def parts_of(statistic: Fractions, unit: int, nearest: str) -> list[str]:
    """`Fractions.fractions`, truncated in units: the same operations in the same order.

    float8 that are whole: they become integers once they are held against their bound. A range
    that is none has no part, in an engine as in memory, and must not be divided by.
    """
    low, high = sql_number(statistic.low), sql_number(statistic.high)
    width, units = statistic.high - statistic.low or 1.0, sql_number(float(unit))
    clipped_value = f"LEAST(GREATEST({Y}, {low}), {high})"
    part = nearest.format(f"((({clipped_value}) - {low}) / {sql_number(width)}) * {units}")
    return [
        f"trunc((({units} - {part}) / {units}) * {units})",
        f"trunc(({part} / {units}) * {units})",
    ]


def bounded(columns: Sequence[str], bound: Sensitivity) -> list[str]:
    """`kernels.units.bounded_units` of whole float8: a record beyond its bound adds nothing.

    One CASE inside the other says what is looked at first: an engine may fail where it multiplies
    numbers that are beyond any bound. What is no number is beyond it.
    """
    l1, l2_squared, linf = (
        sql_number(float(norm)) for norm in (bound.l1, bound.l2_squared, bound.linf)
    )
    small = " AND ".join(f"abs({column}) <= {linf}" for column in columns)
    size = " + ".join(f"abs({column})" for column in columns)
    squares = " + ".join(f"{column} * {column}" for column in columns)
    within = f"{size} <= {l1} AND {squares} <= {l2_squared}"
    return [
        f"CASE WHEN {small} THEN "
        f"CASE WHEN {within} THEN CAST({column} AS BIGINT) ELSE 0 END ELSE 0 END"
        for column in columns
    ]


# --------------------------------------------------------------------------------------------------
# --------------------------------------------------------------------------------------------------
# From what a query selects to a table of cells, inside the database.
#
# Numbers become cells by CASE. Every other value becomes one by a table of its distinct values,
# whose codes this process makes exactly as a reader of files would. A row without a usable label is
# left out, as everywhere. All that decides whether a column can be used is its type, never a value.


@dataclass
class _Making:
    """The cells of a table under construction, one column after the other."""

    database: Database
    raw: str
    cells: list[str] = field(default_factory=list)
    joins: list[str] = field(default_factory=list)
    code_tables: list[str] = field(default_factory=list)
    count_conditions: dict[tuple[str, str], str] = field(default_factory=dict)
    """By what is counted and of which column: a condition."""

    def count(self, kind: str, name: str, condition: str) -> None:
        self.count_conditions[kind, name] = condition


def snapshot(selection: Selected, schema: Schema, target: str, name: str) -> EngineCounts:
    """Makes the table `name`: a column of cells for each feature, and `y`."""
    if schema.classes is None and schema.target is None:
        raise ParameterError("the schema declares neither classes nor a target; add one of them.")
    database, raw = selection.database, f"{name}_raw"
    outcome = schema.label_columns(target)
    columns = [*schema.columns, *outcome]
    check_named(selection.where, selection.names, target=outcome)
    missing = [column for column in columns if column not in selection.names]
    if missing:
        raise DataError(
            f"{selection.where} has no column {missing[0]!r}; it has {selection.names}. Name it so "
            "in the query (AS), or correct the schema."
        )
    database.run(f"CREATE TEMP TABLE {raw} AS {selection.of(columns)}")
    kinds = database.schema(f"SELECT * FROM {raw}")
    making = _Making(database, raw)
    for place, grid in enumerate(schema.grids):
        _add_feature(making, selection.where, grid, kinds.field(grid.source).type, place)
    label_kinds = {name: kinds.field(name).type for name in outcome}
    y = _label(making, selection.where, schema, target, label_kinds)
    database.run(
        f"CREATE TEMP TABLE {name} AS SELECT {', '.join([*making.cells, f'{y} AS {Y}'])} "
        f"FROM {raw} {' '.join(making.joins)} WHERE ({y}) IS NOT NULL"
    )
    database.run(f"ANALYZE {name}")  # else engines plan for a table of unknown size
    read_counts = _read_counts(making, y)
    for table in (raw, *making.code_tables):
        database.run(f"DROP TABLE {table}")
    return read_counts


def _read_counts(making: _Making, y: str) -> EngineCounts:
    """Counts of clamped, unknown and missing values in one scan, as a reader counts them."""
    conditions = [f"({y}) IS NOT NULL", f"({y}) IS NULL", *making.count_conditions.values()]
    sums = [f"COUNT(CASE WHEN {part} THEN 1 END) AS n{k}" for k, part in enumerate(conditions)]
    totals = making.database.table(
        f"SELECT {', '.join(sums)} FROM {making.raw} {' '.join(making.joins)}"
    )
    n_used, n_skipped, *counts = (int(column[0].as_py()) for column in totals.columns)
    by = dict(zip(making.count_conditions, counts, strict=True))
    clamped_values, unknown, missing = (
        {name: count for (counted_kind, name), count in by.items() if counted_kind == kind}
        for kind in ("clamped", "unknown", "missing")
    )
    return EngineCounts(
        n=n_used, skipped=n_skipped, clamped=clamped_values, unknown=unknown, missing=missing
    )


def _add_feature(making: _Making, where: str, grid: Grid, kind: Any, place: int) -> None:
    column = f"{making.raw}.{quoted(grid.source)}"
    if grid.kind is ColumnKind.NUMERIC and not grid.is_parsed:
        value = _number(column, where, grid.feature, kind)
        inside = interval(value, grid.edges)
        making.count("missing", grid.feature, is_no_number(value))
        making.count("clamped", grid.feature, _outside(value, grid.low, grid.high))
        code = f"CASE WHEN {is_no_number(value)} THEN {grid.missing} ELSE {inside} END"
    else:
        codes = _codes(making, where, grid.source, kind, partial(_read, grid), grid.is_parsed)
        code, is_known = f"COALESCE({codes}.code, {grid.missing})", f"COALESCE({codes}.known, 1)"
        making.count("missing", grid.feature, f"{code} = {grid.missing} AND {is_known} = 1")
        making.count("unknown", grid.feature, f"{is_known} = 0")
        if grid.kind is ColumnKind.NUMERIC:
            making.count("clamped", grid.feature, f"{codes}.clamped = 1")
    making.cells.append(f"CAST({code} AS SMALLINT) AS {cell(place)}")


def _label(
    making: _Making, where: str, schema: Schema, target: str, kinds: Mapping[str, Any]
) -> str:
    """NULL for a row that has none."""
    if schema.target is None:
        code_of = partial(_class_code, schema)
        return f"{_codes(making, where, target, kinds[target], code_of)}.code"
    numbers = {
        name: _number(f"{making.raw}.{quoted(name)}", where, name, kind)
        for name, kind in kinds.items()
    }
    if schema.survival is not None:
        return _signed_time(making, schema.survival, numbers, target)
    value = numbers[target]
    low, high = sql_number(schema.target.low), sql_number(schema.target.high)
    making.count("clamped", target, _outside(value, schema.target.low, schema.target.high))
    clipped_value = f"LEAST(GREATEST({value}, {low}), {high})"
    return f"CASE WHEN {is_no_number(value)} THEN NULL ELSE {clipped_value} END"


def _signed_time(
    making: _Making, survival: Survival, numbers: Mapping[str, str], target: str
) -> str:
    """The time of an event, minus that of a censored record; as `encoding.signed_times` has it."""
    time, event = (numbers[name] for name in survival.columns)
    end, least = sql_number(survival.horizon), sql_number(SMALLEST_TIME)
    usable = f"NOT ({is_no_number(time)}) AND {time} >= 0 AND {event} IN (0, 1)"
    making.count("clamped", target, f"{usable} AND {time} > {end}")
    late = f"WHEN {usable} AND {time} > {end} THEN -({end})"
    held = f"GREATEST({time}, {least})"
    died = f"WHEN {usable} AND {event} = 1 THEN {held}"
    return f"CASE {late} {died} WHEN {usable} THEN -{held} ELSE NULL END"


def _outside(value: str, low: float, high: float) -> str:
    """PostgreSQL takes NaN to be larger than any number."""
    bounds = f"{value} < {sql_number(low)} OR {value} > {sql_number(high)}"
    return f"NOT ({is_no_number(value)}) AND ({bounds})"


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


Reading = tuple[int | None, int, int]
"""The code of a value, whether it is known, and whether it is clamped."""


def _read(grid: Grid, value: object) -> Reading:
    read_value = grid.read(value)
    if grid.kind is not ColumnKind.NUMERIC:
        token = token_of(read_value)
        return grid.category_code(token), int(grid.knows(token)), 0
    number = number_of(read_value)
    is_outside = number is not None and (number < grid.low or number > grid.high)
    return code_of_value(value, grid), int(number is not None), int(is_outside)


def _class_code(schema: Schema, value: object) -> Reading:
    return schema.class_code(token_of(value)), 1, 0


def _codes(
    making: _Making,
    where: str,
    name: str,
    kind: Any,
    read: Callable[[object], Reading],
    is_parsed: bool = False,
) -> str:
    """A joined table of the values, and what each is read as."""
    column, table = f"{making.raw}.{quoted(name)}", f"{making.raw}_{len(making.code_tables)}"
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        column = f'CAST({column} AS TEXT) COLLATE "C"'  # equal are equal bytes, and nothing else
    elif not (
        pa.types.is_integer(kind)
        or pa.types.is_boolean(kind)
        or _is_float(kind)
        or (is_parsed and (pa.types.is_date(kind) or pa.types.is_timestamp(kind)))
    ):
        raise DataError(
            f"{where}, column {name!r} is {kind}; numbers, texts or booleans are wanted. Cast it "
            "in the query."
        )
    distinct_values = making.database.table(f"SELECT DISTINCT {column} AS value FROM {making.raw}")
    values = distinct_values["value"].drop_null()
    readings = [read(value) for value in values.to_pylist()]
    columns = {
        name: pa.array([reading[k] for reading in readings], pa.int16())
        for k, name in enumerate(("code", "known", "clamped"))
    }
    making.database.put(table, pa.table({"value": values, **columns}))
    making.code_tables.append(table)
    making.joins.append(f"LEFT JOIN {table} ON {column} = {table}.value")
    return table


def _is_float(kind: Any) -> bool:
    return bool(pa.types.is_float32(kind) or pa.types.is_float64(kind))


# --------------------------------------------------------------------------------------------------
PUSHED: tuple[type, ...] = (Count, ClassCounts, TargetClassCounts, Fractions)
PUSHED_BY: tuple[type, ...] = (Whole, Cells, Leaves, TargetCells)
MOST_NODES = 128
"""Of trees whose leaves an engine counts: it plans longer over more than a stream would take."""
ROWS_A_BATCH = 1 << 16


class InDatabase(Elsewhere):
    """The rows of a query, as cells in a temporary table of its connection."""

    instead = "leave push_down out, so that they are read into memory"

    def __init__(
        self, selection: Selected, schema: Schema, target: str, draws: Draws | None = None
    ) -> None:
        self.where, self.schema, self.target = selection.where, schema, target
        self._database, self._draws = selection.database, draws
        self._cells = f"hedgerow_cells_{secrets.token_hex(6)}"
        self.read_counts = snapshot(selection, schema, target, self._cells)

    # ------------------------------------------------------------------------------------ answers
    def sums(self, queries: Sequence[QueryInUnit]) -> list[IntArray]:
        streamed_queries = [pair for pair in queries if not self._is_pushed(pair[0])]
        rest = iter(super().sums(streamed_queries))
        return [
            self._push_sum(query, unit) if self._is_pushed(query) else next(rest)
            for query, unit in queries
        ]

    def _is_pushed(self, query: SumQuery) -> bool:
        can_push = type(query.statistic) in PUSHED and type(query.by) in PUSHED_BY
        if isinstance(query.by, Leaves):
            can_push = can_push and sum(len(tree.tests) for tree in query.by.trees) <= MOST_NODES
        return can_push and within(query.region, self.schema) is not None

    def total(self, work: Work) -> list[IntArray]:
        total: list[IntArray] | None = None
        for block in self._blocks():
            block_sums = work(Answering(block, self.schema))
            total = block_sums if total is None else added([total, block_sums])
        return total or []

    # ---------------------------------------------------------------------------------- pushed down
    def _push_sum(self, query: SumQuery, unit: int) -> IntArray:
        """One scan: a grouping set for each group, so that a row of the answer is in one."""
        groups = self._groups(query.by)
        names = [f"g{k}" for k in range(len(groups))]
        channel, values = self._channel(query.statistic, unit)
        columns = [f"{e} AS {n}" for e, n in zip(groups, names, strict=True)]
        columns += [f"{channel} AS channel", *(f"{v} AS v{k}" for k, v in enumerate(values))]
        bounded_columns = bounded(
            [f"v{k}" for k in range(len(values))], query.statistic.bound(unit)
        )
        sum_columns = [
            f"CAST(SUM({part}) AS TEXT) AS s{k}" for k, part in enumerate(bounded_columns)
        ]
        sets = ", ".join(f"({name}, channel)" for name in names)
        cell_table = self._database.table(
            f"SELECT {', '.join([*names, 'channel', *(sum_columns or ['COUNT(*) AS s0'])])} "
            f"FROM (SELECT {', '.join(columns)} FROM {self._cells} "
            f"WHERE {within(query.region, self.schema)}) AS summed "
            f"GROUP BY GROUPING SETS ({sets})"
        )
        return self._place_sums(query, cell_table, names).reshape(-1)

    def _groups(self, by: Groups) -> list[str]:
        """The cell of a row in each group."""
        match by:
            case Cells():
                return [cell(feature) for feature in by.features]
            case Leaves():
                return [leaf(tree, self.schema) for tree in by.trees]
            case TargetCells():
                return [interval(Y, by.edges)]
        return ["0"]

    def _channel(self, statistic: Statistic, unit: int) -> tuple[str, list[str]]:
        """The channel that counts a row, or the whole numbers it adds to each."""
        match statistic:
            case ClassCounts():
                return Y, []
            case TargetClassCounts():
                return interval(Y, statistic.cuts), []
            case Fractions():
                return "0", parts_of(statistic, unit, self._database.nearest)
        return "0", []

    def _place_sums(self, query: SumQuery, cell_table: pa.Table, names: Sequence[str]) -> IntArray:
        """The engine's groups in the query's shape; NULL where a row belongs to another set.

        A cell or a class that the query does not know of counts nowhere, as in memory.
        """
        sums, by = np.zeros(query.shape, np.int64), query.by
        channel = _integers(cell_table["channel"])
        is_known = (channel >= 0) & (channel < query.statistic.channels)
        values = [
            _integers(cell_table[name]) for name in cell_table.column_names if name.startswith("s")
        ]
        for group, name in enumerate(names):
            cells, places_of = _integers(cell_table[name]), np.arange(by.n_cells)
            if isinstance(by, Cells):
                places_of = np.asarray(by.binning.bins[by.features[group]], np.int64)
            rows = np.flatnonzero(is_known & (cells >= 0) & (cells < len(places_of)))
            places = places_of[cells[rows]]
            for k, value in enumerate(values):
                to = channel[rows] if len(values) == 1 else np.full(len(rows), k)
                np.add.at(sums[group], (places, to), value[rows])
        return sums

    # ------------------------------------------------------------------------------------- streamed
    def _blocks(self) -> Iterator[Rows]:
        """At least one, if of no rows, so that sums have their length."""
        columns = [cell(k) for k in range(len(self.schema.grids))]
        query = f"SELECT {', '.join([*columns, Y, 'copy'])} FROM {self._number_rows}"
        empty = True
        with closing(self._database.batches(query, ROWS_A_BATCH)) as batches:  # type: ignore[type-var]
            for batch in batches:
                empty = False
                yield self._block(batch)
        if empty:
            yield self._block(self._database.schema(query).empty_table())

    @cached_property
    def _number_rows(self) -> str:
        """The cells, with each record's number among equal ones: it names the record for draws."""
        columns = [cell(k) for k in range(len(self.schema.grids))]
        name = f"{self._cells}_number_rows"
        self._database.run(
            f"CREATE TEMP TABLE {name} AS SELECT *, row_number() OVER "
            f"(PARTITION BY {', '.join([*columns, Y])}) - 1 AS copy FROM {self._cells}"
        )
        return name

    def _block(self, batch: Any) -> Rows:
        grids, y = self.schema.grids, np.asarray(batch.column(Y).to_numpy())
        codes = np.empty((len(grids), len(batch)), np.uint8)
        for k in range(len(grids)):
            codes[k] = batch.column(cell(k)).to_numpy()
        labels = y.astype(np.uint8) if self.schema.target is None else y.astype(np.float64)
        encoded_rows = Encoded(codes=codes, y=labels)
        return Rows(
            encoded_rows,
            self.schema,
            self._draws,
            copies=np.asarray(batch.column("copy"), np.uint64),
        )


def _integers(column: Any) -> NDArray[np.int64]:
    """-1 for NULL. Sums come as text: they may be wider than any integer of an engine's driver."""
    if pa.types.is_string(column.type) or pa.types.is_large_string(column.type):
        return np.array([int(value) for value in column.to_pylist()], np.int64)
    filled_column = column.cast(pa.int64()).combine_chunks().fill_null(-1)
    return np.asarray(filled_column.to_numpy(zero_copy_only=False), np.int64)
