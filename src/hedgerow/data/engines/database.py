"""Rows in a database: cells are made there once, and counts and sums of integers come back.

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
from collections.abc import Iterator, Sequence
from contextlib import closing
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from hedgerow.data.engines import sql
from hedgerow.data.engines.engine import Elsewhere, QueryInUnit, Work, added
from hedgerow.data.engines.snapshot import snapshot
from hedgerow.data.reading.databases import Selected
from hedgerow.data.reading.encoding import Encoded
from hedgerow.data.rows import Draws, Rows
from hedgerow.data.sums import Answering
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
from hedgerow.schema.schema import Schema

PUSHED: tuple[type, ...] = (Count, ClassCounts, TargetClassCounts, Fractions)
PUSHED_BY: tuple[type, ...] = (Whole, Cells, Leaves, TargetCells)
MOST_NODES = 128
"""Of trees whose leaves an engine counts: it plans longer over more than a stream would take."""
ROWS_A_BATCH = 1 << 16


class InDatabase(Elsewhere):
    """What a query selects, as cells in a temporary table of its connection."""

    instead = "leave push_down out, so that they are read into memory"

    def __init__(
        self, selected: Selected, schema: Schema, target: str, draws: Draws | None = None
    ) -> None:
        self.where, self.schema, self.target = selected.where, schema, target
        self._database, self._draws = selected.database, draws
        self._cells = f"hedgerow_cells_{secrets.token_hex(6)}"
        self.told = snapshot(selected, schema, target, self._cells)

    # ------------------------------------------------------------------------------------ answers
    def sums(self, asked: Sequence[QueryInUnit]) -> list[IntArray]:
        streamed = [pair for pair in asked if not self._is_pushed(pair[0])]
        rest = iter(super().sums(streamed))
        return [
            self._pushed(query, unit) if self._is_pushed(query) else next(rest)
            for query, unit in asked
        ]

    def _is_pushed(self, query: SumQuery) -> bool:
        known = type(query.statistic) in PUSHED and type(query.by) in PUSHED_BY
        if isinstance(query.by, Leaves):
            known = known and sum(len(tree.tests) for tree in query.by.trees) <= MOST_NODES
        return known and sql.within(query.region, self.schema) is not None

    def total(self, work: Work) -> list[IntArray]:
        total: list[IntArray] | None = None
        for block in self._blocks():
            found = work(Answering(block, self.schema))
            total = found if total is None else added([total, found])
        return total or []

    # ---------------------------------------------------------------------------------- pushed down
    def _pushed(self, query: SumQuery, unit: int) -> IntArray:
        """One scan: a grouping set for each group, so that a row of the answer is in one."""
        groups = self._groups(query.by)
        names = [f"g{k}" for k in range(len(groups))]
        channel, values = self._channel(query.statistic, unit)
        columns = [f"{e} AS {n}" for e, n in zip(groups, names, strict=True)]
        columns += [f"{channel} AS channel", *(f"{v} AS v{k}" for k, v in enumerate(values))]
        kept = sql.bounded([f"v{k}" for k in range(len(values))], query.statistic.bound(unit))
        summed = [f"CAST(SUM({part}) AS TEXT) AS s{k}" for k, part in enumerate(kept)]
        sets = ", ".join(f"({name}, channel)" for name in names)
        found = self._database.table(
            f"SELECT {', '.join([*names, 'channel', *(summed or ['COUNT(*) AS s0'])])} "
            f"FROM (SELECT {', '.join(columns)} FROM {self._cells} "
            f"WHERE {sql.within(query.region, self.schema)}) AS told "
            f"GROUP BY GROUPING SETS ({sets})"
        )
        return self._placed(query, found, names).reshape(-1)

    def _groups(self, by: Groups) -> list[str]:
        """The cell of a row in each group."""
        match by:
            case Cells():
                return [sql.cell(feature) for feature in by.features]
            case Leaves():
                return [sql.leaf(tree, self.schema) for tree in by.trees]
            case TargetCells():
                return [sql.interval(sql.Y, by.edges)]
        return ["0"]

    def _channel(self, statistic: Statistic, unit: int) -> tuple[str, list[str]]:
        """Which channel counts a row; or what it adds to each, as whole numbers."""
        match statistic:
            case ClassCounts():
                return sql.Y, []
            case TargetClassCounts():
                return sql.interval(sql.Y, statistic.cuts), []
            case Fractions():
                return "0", sql.parts_of(statistic, unit, self._database.nearest)
        return "0", []

    def _placed(self, query: SumQuery, found: pa.Table, names: Sequence[str]) -> IntArray:
        """The engine's groups in the query's shape; NULL where a row belongs to another set.

        A cell or a class that the query does not know of counts nowhere, as in memory.
        """
        sums, by = np.zeros(query.shape, np.int64), query.by
        channel = _integers(found["channel"])
        is_known = (channel >= 0) & (channel < query.statistic.channels)
        values = [_integers(found[name]) for name in found.column_names if name.startswith("s")]
        for group, name in enumerate(names):
            cells, places_of = _integers(found[name]), np.arange(by.n_cells)
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
        columns = [sql.cell(k) for k in range(len(self.schema.grids))]
        query = f"SELECT {', '.join([*columns, sql.Y, 'copy'])} FROM {self._numbered}"
        empty = True
        with closing(self._database.batches(query, ROWS_A_BATCH)) as batches:  # type: ignore[type-var]
            for batch in batches:
                empty = False
                yield self._block(batch)
        if empty:
            yield self._block(self._database.schema(query).empty_table())

    @cached_property
    def _numbered(self) -> str:
        """The cells, with each record's number among equal ones: it names the record for draws."""
        columns = [sql.cell(k) for k in range(len(self.schema.grids))]
        name = f"{self._cells}_numbered"
        self._database.run(
            f"CREATE TEMP TABLE {name} AS SELECT *, row_number() OVER "
            f"(PARTITION BY {', '.join([*columns, sql.Y])}) - 1 AS copy FROM {self._cells}"
        )
        return name

    def _block(self, batch: Any) -> Rows:
        grids, y = self.schema.grids, np.asarray(batch.column(sql.Y).to_numpy())
        codes = np.empty((len(grids), len(batch)), np.uint8)
        for k in range(len(grids)):
            codes[k] = batch.column(sql.cell(k)).to_numpy()
        labels = y.astype(np.uint8) if self.schema.target is None else y.astype(np.float64)
        encoded = Encoded(codes=codes, y=labels)
        return Rows(
            encoded, self.schema, self._draws, copies=np.asarray(batch.column("copy"), np.uint64)
        )


def _integers(column: Any) -> NDArray[np.int64]:
    """-1 for NULL. Sums come as text: they may be wider than any integer of an engine's driver."""
    if pa.types.is_string(column.type) or pa.types.is_large_string(column.type):
        return np.array([int(value) for value in column.to_pylist()], np.int64)
    filled = column.cast(pa.int64()).combine_chunks().fill_null(-1)
    return np.asarray(filled.to_numpy(zero_copy_only=False), np.int64)
