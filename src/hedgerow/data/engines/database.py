"""Rows in a database: cells are computed there once, and integer counts and sums come back.

What the query selects is copied once into a table of the connection's own, and that into cells:
a run asks many times, and a record that changed meanwhile would be in two regions which the
ledger takes to be disjoint. Texts are turned into codes by this process, once for each distinct
one, since no two engines trim and compare texts alike.

Pushed down to the engine are `PUSHED` statistics by `PUSHED_BY` groupings, in regions of tests.
All else is summed here over cells that are streamed: losses need `exp`, which differs by engine,
and folds need secret draws, which no engine may know. Few cells are streamed once and kept here. Of
many those columns are streamed in each round that are looked at, and raw scores are kept from one
round to the next: here, or in a table of the session (`InDatabase.manner` says which, and why).
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
from numpy.typing import NDArray

from hedgerow.data.engines.engine import Elsewhere, QueryInUnit, Work, add_blocks, join
from hedgerow.data.reading.columns import code_of_value, number_of
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
from hedgerow.schema.grids import ColumnKind, Grid
from hedgerow.schema.regions import Fold, HeldOut, Region
from hedgerow.schema.schema import Schema, Survival
from hedgerow.schema.tokens import token_of

# --------------------------------------------------------------------------------------------------
# Cells, regions, leaves and target intervals as SQL that DuckDB and PostgreSQL both understand.
#
# Cells are whole numbers, so all but two things are exact whatever the engine: the comparison of a
# float8 with an edge, and the parts of a target (see `parts_of`), which take the four operations
# that IEEE 754 rounds correctly and a rounding to whole numbers. No engine is asked for `exp`.

Y = "y"
PLACE = "r"
"""The column that numbers the rows of the cells."""


def cell(feature: int) -> str:
    """The column of a feature's cells."""
    return f"c{feature}"


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


def leaf(tree: Tree, schema: Schema, words: Sequence[str] | None = None) -> str:
    """The SQL expression of a row's leaf: its number, or its word. Nodes are in preorder."""
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
    """The SQL expressions of raw scores: those of earlier trees, in `s0`, ..., and the new trees.

    The same additions in the same order as in memory, which IEEE 754 rounds alike everywhere.
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


def bound_columns(columns: Sequence[str], bound: Sensitivity) -> list[str]:
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
        f"CREATE TEMP TABLE {name} AS SELECT {', '.join([*making.cells, f'{y} AS {Y}'])}, "
        f"row_number() OVER () - 1 AS {PLACE} FROM {raw} {' '.join(making.joins)} "
        f"WHERE ({y}) IS NOT NULL"
    )
    database.run(f"ANALYZE {name}")  # else engines plan for a table of unknown size
    database.release()
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
    column = f"{making.raw}.{quote_name(grid.source)}"
    if grid.kind is ColumnKind.NUMERIC and not grid.is_parsed:
        value = _number(column, where, grid.feature, kind)
        inside = making.database.interval(value, grid.edges)
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
        code_of, is_parsed = partial(_class_code, schema), schema.label_grids[0].is_parsed
        codes = _codes(making, where, target, kinds[target], code_of, is_parsed)
        making.count("unknown", target, f"{codes}.known = 0")
        return f"{codes}.code"
    numbers = {
        name: _label_number(making, where, grid, name, kind)
        for grid, (name, kind) in zip(schema.label_grids, kinds.items(), strict=True)
    }
    if schema.survival is not None:
        return _signed_time(making, schema.survival, numbers, target)
    value = numbers[target]
    low, high = sql_number(schema.target.low), sql_number(schema.target.high)
    making.count("clamped", target, _outside(value, schema.target.low, schema.target.high))
    clipped_value = f"LEAST(GREATEST({value}, {low}), {high})"
    return f"CASE WHEN {is_no_number(value)} THEN NULL ELSE {clipped_value} END"


def _label_number(making: _Making, where: str, grid: Grid, name: str, kind: Any) -> str:
    """NULL or NaN where a row has none."""
    if not grid.is_parsed:
        return _number(f"{making.raw}.{quote_name(name)}", where, name, kind)
    read = partial(_parsed_number, grid)
    codes = _codes(making, where, name, kind, read, True, pa.float64())
    making.count("unknown", name, f"{codes}.known = 0")
    return f"{codes}.code"


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


Reading = tuple[float | None, int, int]
"""The code of a value, or its number, whether it is known, and whether it is clamped."""


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
    where: str,
    name: str,
    kind: Any,
    read: Callable[[object], Reading],
    is_parsed: bool = False,
    code_kind: Any = None,
) -> str:
    """A joined table of the values, and what each is read as."""
    column, table = f"{making.raw}.{quote_name(name)}", f"{making.raw}_{len(making.code_tables)}"
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
        name: pa.array([reading[k] for reading in readings], own_kind)
        for k, (name, own_kind) in enumerate(
            (("code", code_kind or pa.int16()), ("known", pa.int16()), ("clamped", pa.int16()))
        )
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
ROWS_A_BATCH = 1 << 17
MOST_CELL_BYTES = 1 << 26
"""Of cells that are kept here once they were streamed; more are streamed in every round."""
MOST_SCORE_BYTES = 1 << 28
"""Of raw scores that are kept here; more are kept in a table of the session."""


class InDatabase(Elsewhere):
    """The rows of a query, as cells in a temporary table of its connection."""

    instead = "leave push_down out, so that they are read into memory"

    def __init__(
        self, selection: Selected, schema: Schema, target: str, draws: Draws | None = None
    ) -> None:
        if not selection.database.sums:
            raise ParameterError(
                f"push_down was given with {selection.where}; only the SQL of DuckDB and Postgres "
                f"is tested to sum as memory does. {self.instead.capitalize()}."
            )
        self.where, self.schema, self.target = selection.where, schema, target
        self._database, self._draws = selection.database, draws
        self._cells = f"hedgerow_cells_{secrets.token_hex(6)}"
        self.read_counts = snapshot(selection, schema, target, self._cells)
        self._scored_model: Additive | None = None
        self._scores = np.empty((0, 0))
        self._score_table: str | None = None

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
        """Block by block. Scores that an error leaves half advanced are computed anew."""
        if self._are_cells_here:
            return work(self._all_rows)
        total: list[IntArray] | None = None
        model = next(iter(work.models), None)
        if any(other != model for other in work.models):
            model = None  # of several models no scores are kept
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

    # --------------------------------------------------------------------------------------- scores
    @property
    def manner(self) -> str:
        """How sums are made that no database makes, and why."""
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

    # ---------------------------------------------------------------------------------- pushed down
    def _push_sum(self, query: SumQuery, unit: int) -> IntArray:
        """One scan: a grouping set for each group, so that a row of the answer is in one."""
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
    def _blocks(
        self, features: Sequence[int], table: str, scored_model: Additive | None = None
    ) -> Iterator[tuple[Encoded, Any, slice | IntArray]]:
        """At least one, if of no rows, so that sums have their length. With the rows' places."""
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
        """The cells, with each record's number among equal ones: it names the record for draws."""
        columns = [cell(k) for k in range(len(self.schema.grids))]
        name = f"{self._cells}_n"
        self._database.run(
            f"CREATE TEMP TABLE {name} AS SELECT *, row_number() OVER "
            f"(PARTITION BY {', '.join([*columns, Y])}) - 1 AS copy FROM {self._cells}"
        )
        return name

    def _block(self, batch: Any, features: Sequence[int]) -> tuple[Encoded, Any, slice | IntArray]:
        grids, y = self.schema.grids, np.asarray(batch.column(Y).to_numpy())
        codes = np.zeros((len(grids), len(batch)), np.uint8)  # a column nobody looks at stays empty
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
    """Rows come in their order, as a rule: then their scores need no copy."""
    first = int(places[0]) if len(places) else 0
    in_order = np.array_equal(places, np.arange(first, first + len(places)))
    return slice(first, first + len(places)) if in_order else places


def _in_plans(trees: Sequence[Tree]) -> Iterator[list[Tree]]:
    """Trees of one statement: so many that an engine plans it soon."""
    plan = list[Tree]()
    for tree in trees:
        if plan and sum(len(other.tests) for other in (*plan, tree)) > MOST_NODES:
            yield plan
            plan = []
        plan.append(tree)
    if plan:
        yield plan


def _integers(column: Any) -> NDArray[np.int64]:
    """-1 for NULL. Sums come as text: they may be wider than any integer of an engine's driver."""
    if pa.types.is_string(column.type) or pa.types.is_large_string(column.type):
        return np.array([int(value) for value in column.to_pylist()], np.int64)
    filled_column = column.cast(pa.int64()).combine_chunks().fill_null(-1)
    return np.asarray(filled_column.to_numpy(zero_copy_only=False), np.int64)
