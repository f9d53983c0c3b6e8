"""Rows in a database: the database computes cells once and returns integer counts and sums.

The result of the query is copied once into a temporary table and encoded into cells. A run asks
many queries, and a record that changed in between could fall into two regions that the ledger
treats as disjoint. Texts are encoded by this process, once per distinct value, because engines trim
and compare texts differently.

The engine computes the statistics in `PUSHED`, grouped as in `PUSHED_BY`, in regions defined by
tests. Everything else is summed in this process over streamed cells: losses need `exp`, which
differs between engines, and folds need secret draws, which no engine may know. A small table of
cells is streamed once and cached here. Of a large one only the needed columns are streamed in each
round, and raw scores are kept here or in a table of the session (see `InDatabase.manner`).
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import Any

import numpy as np
import pyarrow as pa

from hedgerow.data.engines.engine import Elsewhere, QueryInUnit, Work, add_blocks, join
from hedgerow.data.reading.columns import code_of_value, is_arrow_number, number_of
from hedgerow.data.reading.containers import check_named
from hedgerow.data.reading.databases import Database, Selected, interval, quote_name, sql_number
from hedgerow.data.reading.encoding import Encoded
from hedgerow.data.reading.report import EngineCounts
from hedgerow.data.rows import Draws, Rows
from hedgerow.data.sums import Answering, trees_in_common
from hedgerow.errors import DataError, ParameterError
from hedgerow.models.losses import Sensitivity
from hedgerow.models.model import Additive, Curve
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
from hedgerow.schema.arrays import FloatArray, IntArray
from hedgerow.schema.features import SMALLEST_TIME
from hedgerow.schema.grids import ColumnKind, Grid, runs
from hedgerow.schema.regions import Fold, HeldOut, Region
from hedgerow.schema.schema import Schema, Survival
from hedgerow.schema.tokens import token_of

# Cells, regions, leaves and target intervals as SQL for DuckDB and PostgreSQL.
#
# Cells are integers, so only two computations use floats: comparing a float8 with an edge, and the
# scaled target (`parts_of`), which needs only arithmetic that IEEE 754 rounds correctly.

Y = "y"
PLACE = "r"
"""The column that numbers the rows of the cells."""


def cell(feature: int) -> str:
    return f"c{feature}"


def is_no_number(value: str) -> str:
    """SQL for NULL or NaN; both engines treat NaN as equal to itself."""
    return f"{value} IS NULL OR {value} = 'NaN'::float8"


def within(region: Region, schema: Schema) -> str | None:
    """The SQL condition of a region; None if secret draws decide, which the engine lacks."""
    conditions = []
    for step in region:
        if isinstance(step.test, Fold | HeldOut):
            return None
        goes_left = in_cells(schema.index(step.test.feature), step.test.left)
        conditions.append(goes_left if step.outcome == 0 else f"NOT ({goes_left})")
    return " AND ".join(f"({part})" for part in conditions) or "TRUE"


def in_cells(feature: int, bits: int) -> str:
    """The SQL condition of a set of cells, written as ranges of adjacent cells."""
    column = cell(feature)
    codes = [code for code in range(bits.bit_length()) if bits >> code & 1]
    return " OR ".join(
        f"{column} = {a}" if a == b else f"{column} BETWEEN {a} AND {b}" for a, b in runs(codes)
    )


def leaf(tree: Tree, schema: Schema, words: Sequence[str] | None = None) -> str:
    """The SQL expression of a row's leaf: its number in preorder, or its entry of `words`."""
    nodes = iter(zip(tree.tests, tree.leaf.tolist(), strict=True))

    def below() -> str:
        test, place = next(nodes)
        if test is None:
            return str(place) if words is None else words[place]
        goes_left = in_cells(schema.index(test.feature), test.left)
        left, right = below(), below()
        return f"CASE WHEN {goes_left} THEN {left} ELSE {right} END"

    return below()


def score_sql(model: Additive, n_scored: int | None, schema: Schema) -> list[str]:
    """SQL expressions of the raw scores: the sums so far in `s0`, ... plus the new trees.

    Additions happen in the same order as in memory, so IEEE 754 rounding gives the same bits.
    """
    scores = [f"s{k}" for k in range(model.outputs)]
    if n_scored is None:
        scores = [sql_number(value) for value in model.base]
        for curve in model.curves:
            scores = [f"({score} + {curve_sql(curve, k)})" for k, score in enumerate(scores)]
    for tree in model.trees[n_scored or 0 :]:
        for k, score in enumerate(scores):
            words = [sql_number(value) for value in tree.values[:, k].tolist()]
            total = f"({score} + {leaf(tree, schema, words)})"
            if model.clip is not None:
                low, high = map(sql_number, model.clip)
                total = f"LEAST(GREATEST({total}, {low}), {high})"
            scores[k] = total
    return scores


def curve_sql(curve: Curve, output: int) -> str:
    cases = (f"WHEN {k} THEN {sql_number(v[output])}" for k, v in enumerate(curve.values))
    return f"CASE {cell(curve.feature)} {' '.join(cases)} ELSE {sql_number(0.0)} END"


def parts_of(statistic: Fractions, unit: int, nearest: str) -> list[str]:
    """SQL of `Fractions.fractions`, truncated to units: the same operations in the same order.

    The results are whole float8 numbers, cast to integers after the bound check. An empty range
    contributes 0, as in memory, and is never a divisor.
    """
    low, high = sql_number(statistic.low), sql_number(statistic.high)
    width, units = statistic.high - statistic.low or 1.0, sql_number(float(unit))
    clipped_value = f"LEAST(GREATEST({Y}, {low}), {high})"
    part = nearest.format(f"((({clipped_value}) - {low}) / {sql_number(width)}) * {units}")
    return [
        f"trunc((({units} - {part}) / {units}) * {units})",
        f"trunc(({part} / {units}) * {units})",
    ]


def bound_columns(columns: Sequence[str], bound: Sensitivity) -> list[str]:
    """SQL of `kernels.units.bounded_units`: a record beyond its bound contributes 0.

    Nested CASE expressions fix the order of evaluation: an engine may fail when it multiplies
    numbers beyond every bound. NaN counts as beyond the bound.
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


# Encodes the result of a query into a table of cells, inside the database.
#
# Numbers are encoded by CASE, other values by joining a table of distinct values, whose codes this
# process computes as a file reader would. Rows without a usable label are skipped. Only a column's
# type decides whether it can be used, never a value.


@dataclass
class _Making:
    """The cells of a table under construction, one column after the other."""

    database: Database
    where: str
    raw: str
    cells: list[str] = field(default_factory=list)
    joins: list[str] = field(default_factory=list)
    code_tables: list[str] = field(default_factory=list)
    count_conditions: dict[tuple[str, str], str] = field(default_factory=dict)
    """SQL conditions of rows to count, by (kind of count, column)."""

    def count(self, kind: str, name: str, condition: str) -> None:
        self.count_conditions[kind, name] = condition


def snapshot(
    selection: Selected, database: Database, schema: Schema, target: str, name: str
) -> EngineCounts:
    """Creates the table `name` with one column of cells per feature, and `y`."""
    if schema.classes is None and schema.target is None:
        raise ParameterError("the schema declares neither classes nor a target; add one of them.")
    raw = f"{name}_raw"
    outcome = schema.label_columns(target)
    columns = [*schema.columns, *outcome]
    check_named(selection.where, selection.names, target=outcome)
    missing = [column for column in columns if column not in selection.names]
    if missing:
        raise DataError(
            f"{selection.where} has no column {missing[0]!r}; it has {selection.names}. Name it so "
            "in the query (AS), or correct the schema."
        )
    database.run(f"CREATE TEMP TABLE {raw} AS {database.project(selection.query, columns)}")
    kinds = database.schema(f"SELECT * FROM {raw}")
    making = _Making(database, selection.where, raw)
    for place, grid in enumerate(schema.grids):
        _add_feature(making, grid, kinds.field(grid.source).type, place)
    y = _label(making, schema, target, {name: kinds.field(name).type for name in outcome})
    database.run(
        f"CREATE TEMP TABLE {name} AS SELECT {', '.join([*making.cells, f'{y} AS {Y}'])}, "
        f"row_number() OVER () - 1 AS {PLACE} FROM {raw} {' '.join(making.joins)} "
        f"WHERE ({y}) IS NOT NULL"
    )
    database.run(f"ANALYZE {name}")  # so that the planner knows its size
    database.release()
    read_counts = _read_counts(making, y)
    for table in (raw, *making.code_tables):
        database.run(f"DROP TABLE {table}")
    return read_counts


def _read_counts(making: _Making, y: str) -> EngineCounts:
    """Counts clamped, unknown and missing values in one scan, as a file reader does."""
    conditions = [f"({y}) IS NOT NULL", f"({y}) IS NULL", *making.count_conditions.values()]
    sums = [f"COUNT(CASE WHEN {part} THEN 1 END) AS n{k}" for k, part in enumerate(conditions)]
    totals = making.database.table(
        f"SELECT {', '.join(sums)} FROM {making.raw} {' '.join(making.joins)}"
    )
    n_used, n_skipped, *counts = (int(column[0].as_py()) for column in totals.columns)
    by: dict[str, Any] = {"clamped": {}, "unknown": {}, "missing": {}}
    for (kind, name), count in zip(making.count_conditions, counts, strict=True):
        by[kind][name] = count
    return EngineCounts(n=n_used, skipped=n_skipped, **by)


def _add_feature(making: _Making, grid: Grid, kind: Any, place: int) -> None:
    column = f"{making.raw}.{quote_name(grid.source)}"
    if grid.kind is ColumnKind.NUMERIC and not grid.is_parsed:
        value = _number(making, column, grid.feature, kind)
        inside = making.database.interval(value, grid.edges)
        making.count("missing", grid.feature, is_no_number(value))
        making.count("clamped", grid.feature, _outside(value, grid.low, grid.high))
        code = f"CASE WHEN {is_no_number(value)} THEN {grid.missing} ELSE {inside} END"
    else:
        codes = _codes(making, grid.source, kind, partial(_read, grid), grid.is_parsed)
        code, is_known = f"COALESCE({codes}.code, {grid.missing})", f"COALESCE({codes}.known, 1)"
        making.count("missing", grid.feature, f"{code} = {grid.missing} AND {is_known} = 1")
        making.count("unknown", grid.feature, f"{is_known} = 0")
        if grid.kind is ColumnKind.NUMERIC:
            making.count("clamped", grid.feature, f"{codes}.clamped = 1")
    making.cells.append(f"CAST({code} AS SMALLINT) AS {cell(place)}")


def _label(making: _Making, schema: Schema, target: str, kinds: Mapping[str, Any]) -> str:
    """SQL of a row's label; NULL if it has none."""
    if schema.target is None:
        code_of, is_parsed = partial(_class_code, schema), schema.label_grids[0].is_parsed
        codes = _codes(making, target, kinds[target], code_of, is_parsed)
        making.count("unknown", target, f"{codes}.known = 0")
        return f"{codes}.code"
    numbers = {
        name: _label_number(making, grid, name, kind)
        for grid, (name, kind) in zip(schema.label_grids, kinds.items(), strict=True)
    }
    if schema.survival is not None:
        return _signed_time(making, schema.survival, numbers, target)
    value = numbers[target]
    low, high = sql_number(schema.target.low), sql_number(schema.target.high)
    making.count("clamped", target, _outside(value, schema.target.low, schema.target.high))
    clipped_value = f"LEAST(GREATEST({value}, {low}), {high})"
    return f"CASE WHEN {is_no_number(value)} THEN NULL ELSE {clipped_value} END"


def _label_number(making: _Making, grid: Grid, name: str, kind: Any) -> str:
    """SQL of a row's numeric target; NULL or NaN if it has none."""
    if not grid.is_parsed:
        return _number(making, f"{making.raw}.{quote_name(name)}", name, kind)
    codes = _codes(making, name, kind, partial(_parsed_number, grid), True, pa.float64())
    making.count("unknown", name, f"{codes}.known = 0")
    return f"{codes}.code"


def _signed_time(
    making: _Making, survival: Survival, numbers: Mapping[str, str], target: str
) -> str:
    """SQL of the event time, negated if censored, as in `encoding.signed_times`."""
    time, event = (numbers[name] for name in survival.columns)
    end, least = sql_number(survival.horizon), sql_number(SMALLEST_TIME)
    usable = f"NOT ({is_no_number(time)}) AND {time} >= 0 AND {event} IN (0, 1)"
    making.count("clamped", target, f"{usable} AND {time} > {end}")
    late = f"WHEN {usable} AND {time} > {end} THEN -({end})"
    held_time = f"GREATEST({time}, {least})"
    event_time = f"WHEN {usable} AND {event} = 1 THEN {held_time}"
    return f"CASE {late} {event_time} WHEN {usable} THEN -{held_time} ELSE NULL END"


def _outside(value: str, low: float, high: float) -> str:
    """SQL for a value outside the range; PostgreSQL sorts NaN above all numbers."""
    bounds = f"{value} < {sql_number(low)} OR {value} > {sql_number(high)}"
    return f"NOT ({is_no_number(value)}) AND ({bounds})"


def _number(making: _Making, column: str, name: str, kind: Any) -> str:
    if pa.types.is_boolean(kind):
        return f"CAST(CAST({column} AS INTEGER) AS float8)"
    if is_arrow_number(kind):
        return f"CAST({column} AS float8)"
    raise DataError(
        f"{making.where}, column {name!r} is {kind}, and numbers are wanted; cast it in the query: "
        f"CAST({name} AS DOUBLE PRECISION)."
    )


Reading = tuple[float | None, int, int]
"""Code or number of a value, whether it is known, and whether it is clamped."""


def _read(grid: Grid, value: object) -> Reading:
    read_value = grid.read(value)
    if grid.kind is not ColumnKind.NUMERIC:
        token = token_of(read_value)
        return grid.category_code(token), int(grid.knows(token)), 0
    number = number_of(read_value)
    is_outside = number is not None and (number < grid.low or number > grid.high)
    return code_of_value(value, grid), int(number is not None), int(is_outside)


def _class_code(schema: Schema, value: object) -> Reading:
    token = token_of(schema.label_grids[0].read(value))
    code = schema.class_code(token)
    return code, int(code is not None or token is None), 0


def _parsed_number(grid: Grid, value: object) -> Reading:
    number = number_of(grid.read(value))
    return None if number is None or number != number else number, int(number is not None), 0


def _codes(
    making: _Making,
    name: str,
    kind: Any,
    read: Callable[[object], Reading],
    is_parsed: bool = False,
    code_kind: Any = None,
) -> str:
    """Joins a table that maps each distinct value to its reading; returns its name."""
    column, table = f"{making.raw}.{quote_name(name)}", f"{making.raw}_{len(making.code_tables)}"
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        column = f'CAST({column} AS TEXT) COLLATE "C"'  # compare bytes
    elif not (
        is_arrow_number(kind)
        or pa.types.is_boolean(kind)
        or (is_parsed and (pa.types.is_date(kind) or pa.types.is_timestamp(kind)))
    ):
        raise DataError(
            f"{making.where}, column {name!r} is {kind}; numbers, texts or booleans are wanted. "
            "Cast it in the query."
        )
    distinct_values = making.database.table(f"SELECT DISTINCT {column} AS value FROM {making.raw}")
    values = distinct_values["value"].drop_null()
    readings = list(zip(*map(read, values.to_pylist()), strict=True)) or [(), (), ()]
    kinds = {"code": code_kind or pa.int16(), "known": pa.int16(), "clamped": pa.int16()}
    pairs = zip(kinds.items(), readings, strict=True)
    columns = {name: pa.array(part, own_kind) for (name, own_kind), part in pairs}
    making.database.put(table, pa.table({"value": values, **columns}))
    making.code_tables.append(table)
    making.joins.append(f"LEFT JOIN {table} ON {column} = {table}.value")
    return table


PUSHED: tuple[type, ...] = (Count, ClassCounts, TargetClassCounts, Fractions)
PUSHED_BY: tuple[type, ...] = (Whole, Cells, Leaves, TargetCells)
MOST_NODES = 128
"""Most tree nodes in one statement: planning a larger one is slower than streaming."""
ROWS_A_BATCH = 1 << 17
MOST_CELL_BYTES = 1 << 26
"""Cells up to this size are cached here; more are streamed in every round."""
MOST_SCORE_BYTES = 1 << 28
"""Raw scores up to this size are kept here; more go to a table of the session."""


class InDatabase(Elsewhere):
    """The rows of a query, as cells in a temporary table of its connection."""

    instead = "leave push_down out, so that they are read into memory"

    def __init__(
        self, selection: Selected, schema: Schema, target: str, draws: Draws | None = None
    ) -> None:
        if not isinstance(selection.database, Database) or not selection.database.sums:
            raise ParameterError(
                f"push_down was given with {selection.where}; only the SQL of DuckDB and Postgres "
                f"is tested to sum as memory does. {self.instead.capitalize()}."
            )
        self.where, self.schema, self.target = selection.where, schema, target
        self._database, self._draws = selection.database, draws
        self._cells = f"hedgerow_cells_{secrets.token_hex(6)}"
        self.read_counts = snapshot(selection, self._database, schema, target, self._cells)
        self._scored_model: Additive | None = None
        self._scores = np.empty((0, 0))
        self._score_table: str | None = None

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
        """Sums block by block; scores half updated by an error are computed again."""
        if self._are_cells_here:
            return work(self._all_rows)
        total: list[IntArray] | None = None
        model = next(iter(work.models), None)
        if any(other != model for other in work.models):
            model = None  # scores of several models are not kept
        scored_model, self._scored_model = self._scored_model, None if model else self._scored_model
        if model is not None and not self._are_scores_here:
            scored_model = self._advance_session(model, scored_model)
        elif model is not None and self._scores.shape != (self.n, model.outputs):
            self._scores, scored_model = np.empty((self.n, model.outputs)), None
        features = sorted(work.features(self.schema, model and scored_model))
        table = self._numbered if work.has_draws else self._cells
        for part, batch, places in self._blocks(features, table, model and scored_model):
            copies = np.asarray(batch.column("copy"), np.uint64) if work.has_draws else None
            rows = Rows(part, self.schema, self._draws, copies=copies)
            answering = Answering(rows, self.schema)
            if model is not None and scored_model is not None:
                answering.resume(scored_model, self._raw(batch, places, scored_model))
            block_sums = work(answering)
            total = block_sums if total is None else add_blocks([total, block_sums])
            if model is not None and self._are_scores_here:
                self._scores[places] = answering.raw(model)
        self._scored_model = model or self._scored_model
        return total or []

    @property
    def manner(self) -> str:
        """How queries that are not pushed down are computed, and why."""
        cells, scores = self.n * len(self.schema.grids), self.n * 8
        if self._are_cells_here:
            return f"{cells:,} bytes of cells are few: streamed once, then kept in this process"
        streamed = f"{cells:,} bytes of cells are too many to keep: streamed in every round"
        if self._are_scores_here:
            return f"{streamed}; {scores:,} bytes of raw scores are kept in this process"
        return f"{streamed}; {scores:,} bytes of raw scores are kept in a table of the session"

    @property
    def _are_cells_here(self) -> bool:
        return self.n * len(self.schema.grids) <= MOST_CELL_BYTES

    @property
    def _are_scores_here(self) -> bool:
        return self.n * 8 <= MOST_SCORE_BYTES

    @cached_property
    def _all_rows(self) -> Answering:
        every = tuple(range(len(self.schema.grids)))
        parts = [part for part, _, _ in self._blocks(every, self._cells)]
        return Answering(Rows(join(parts), self.schema, self._draws), self.schema)

    def _advance_session(self, model: Additive, scored_model: Additive | None) -> Additive:
        """Adds the new trees to the session's table, a few at a time."""
        n_scored = trees_in_common(scored_model, model) or 0
        if scored_model is None or trees_in_common(scored_model, model) is None:
            scored_model = replace(model, trees=())
            self._write_scores(score_sql(scored_model, None, self.schema), None)
        for trees in _in_plans(model.trees[n_scored:]):
            more = scored_model.plus(*trees)
            self._write_scores(
                score_sql(more, len(scored_model.trees), self.schema), self._score_table
            )
            scored_model = more
        return model

    def _write_scores(self, scores: list[str], earlier: str | None) -> None:
        table = f"{self._cells}_s{secrets.token_hex(4)}"
        columns = ", ".join(f"{score} AS s{k}" for k, score in enumerate(scores))
        cells = self._cells if earlier is None else f"{self._cells} JOIN {earlier} USING ({PLACE})"
        self._database.run(f"CREATE TEMP TABLE {table} AS SELECT {PLACE}, {columns} FROM {cells}")
        if self._score_table is not None:
            self._database.run(f"DROP TABLE {self._score_table}")
        self._score_table = table

    def _push_sum(self, query: SumQuery, unit: int) -> IntArray:
        """Sums in one scan, with one grouping set per group."""
        groups = self._groups(query.by)
        names = [f"g{k}" for k in range(len(groups))]
        channel, values = self._channel(query.statistic, unit)
        columns = [f"{e} AS {n}" for e, n in zip(groups, names, strict=True)]
        columns += [f"{channel} AS channel", *(f"{v} AS v{k}" for k, v in enumerate(values))]
        bounded_columns = bound_columns(
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
        """SQL expressions of a row's cell in each group."""
        match by:
            case Cells():
                return [cell(feature) for feature in by.features]
            case Leaves():
                return [leaf(tree, self.schema) for tree in by.trees]
            case TargetCells():
                return [interval(Y, by.edges)]
        return ["0"]

    def _channel(self, statistic: Statistic, unit: int) -> tuple[str, list[str]]:
        """SQL of the channel in which a row counts, and of the values it contributes."""
        match statistic:
            case ClassCounts():
                return Y, []
            case TargetClassCounts():
                return interval(Y, statistic.cuts), []
            case Fractions():
                return "0", parts_of(statistic, unit, self._database.nearest)
        return "0", []

    def _place_sums(self, query: SumQuery, cell_table: pa.Table, names: Sequence[str]) -> IntArray:
        """Arranges the engine's groups in the query's shape.

        NULL marks a row of another grouping set. Cells and classes outside the query are ignored,
        as in memory.
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

    def _blocks(
        self, features: Sequence[int], table: str, scored_model: Additive | None = None
    ) -> Iterator[tuple[Encoded, Any, slice | IntArray]]:
        """Streams blocks of rows with their places; yields at least one, possibly empty."""
        columns = [*map(cell, features), Y, PLACE]
        if table != self._cells:
            columns.append("copy")
        if scored_model is not None and not self._are_scores_here:
            table = f"{table} JOIN {self._score_table} USING ({PLACE})"
            columns += [f"s{k}" for k in range(scored_model.outputs)]
        query, is_empty = f"SELECT {', '.join(columns)} FROM {table}", True
        with closing(self._database.batches(query, ROWS_A_BATCH)) as batches:  # type: ignore[type-var]
            for batch in batches:
                is_empty = False
                yield self._block(batch, features)
        if is_empty:
            yield self._block(self._database.schema(query).empty_table(), features)

    @cached_property
    def _numbered(self) -> str:
        """A table of cells with each record's number among equal ones, its id for draws."""
        columns = [cell(k) for k in range(len(self.schema.grids))]
        name = f"{self._cells}_n"
        self._database.run(
            f"CREATE TEMP TABLE {name} AS SELECT *, row_number() OVER "
            f"(PARTITION BY {', '.join([*columns, Y])}) - 1 AS copy FROM {self._cells}"
        )
        return name

    def _block(self, batch: Any, features: Sequence[int]) -> tuple[Encoded, Any, slice | IntArray]:
        grids, y = self.schema.grids, np.asarray(batch.column(Y).to_numpy())
        codes = np.zeros((len(grids), len(batch)), np.uint8)  # unused columns stay 0
        for k in features:
            codes[k] = batch.column(cell(k)).to_numpy()
        labels = y.astype(np.uint8) if self.schema.target is None else y.astype(np.float64)
        places = np.asarray(batch.column(PLACE).to_numpy(), np.int64)
        return Encoded(codes=codes, y=labels), batch, _as_slice(places)

    def _raw(self, batch: Any, places: slice | IntArray, scored_model: Additive) -> FloatArray:
        if self._are_scores_here:
            return self._scores[places]
        columns = [batch.column(f"s{k}").to_numpy() for k in range(scored_model.outputs)]
        return np.stack(columns, axis=1)


def _as_slice(places: IntArray) -> slice | IntArray:
    """Rows usually arrive in order: a slice then avoids copying their scores."""
    first = int(places[0]) if len(places) else 0
    in_order = np.array_equal(places, np.arange(first, first + len(places)))
    return slice(first, first + len(places)) if in_order else places


def _in_plans(trees: Sequence[Tree]) -> Iterator[list[Tree]]:
    """Groups trees so that one statement has at most `MOST_NODES` nodes."""
    plan = list[Tree]()
    for tree in trees:
        if plan and sum(len(other.tests) for other in (*plan, tree)) > MOST_NODES:
            yield plan
            plan = []
        plan.append(tree)
    if plan:
        yield plan


def _integers(column: Any) -> IntArray:
    """The column as int64, -1 for NULL. Sums arrive as text: drivers may lack wide integers."""
    if pa.types.is_string(column.type) or pa.types.is_large_string(column.type):
        return np.array([int(value) for value in column.to_pylist()], np.int64)
    filled_column = column.cast(pa.int64()).combine_chunks().fill_null(-1)
    return np.asarray(filled_column.to_numpy(zero_copy_only=False), np.int64)
