"""Rows that stay where they are: sums are computed there, or block by block, and added up here.

Every sum is over records, and what a record adds depends on that record alone. So any way to cut
the rows into blocks gives the same integers as all rows at once. A result that is no sum over
records, for example a bound or a score, is computed here from such sums.

An engine reports what it cannot do before anything is charged: see `Elsewhere.reason_against`.
Noise is drawn by the site alone, never by an engine.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from functools import partial

import numpy as np

from hedgerow.data.reading.report import DataReport, EngineCounts, allowed, report_of
from hedgerow.data.sums import Answering, best_impurities, counts_for, is_of_target
from hedgerow.errors import DataError, ParameterError, UnsupportedQuery
from hedgerow.privacy.accounting.budget import DPModel
from hedgerow.privacy.queries import (
    Binning,
    BoundQuery,
    Cells,
    ClassCounts,
    Count,
    Score,
    Selecting,
    Statistic,
    Summed,
    SumQuery,
)
from hedgerow.privacy.study import Study
from hedgerow.schema.arrays import N_CODES, IntArray
from hedgerow.schema.candidates import Grids
from hedgerow.schema.schema import Schema

Work = Callable[[Answering], list[IntArray]]
"""What is computed of one block of rows. It travels to other processes."""

QueryInUnit = tuple[SumQuery, int]
"""A query and the unit in which it is answered."""


class Elsewhere(ABC):
    """A site's rows under one schema, held by an engine. Opened for one study at a time."""

    where: str
    instead: str
    """What to do with rows that the engine cannot sum."""
    schema: Schema
    target: str
    read_counts: EngineCounts
    """What the engine counted: for the site's own eyes."""

    @property
    def n(self) -> int:
        return self.read_counts.n

    @property
    def report(self) -> DataReport:
        return report_of([self.read_counts], self.schema, self.target)

    @abstractmethod
    def total(self, work: Work) -> list[IntArray]:
        """The work of every block of rows, added up."""
        ...

    def sums(self, queries: Sequence[QueryInUnit]) -> list[IntArray]:
        """The integers of each query; an engine that can sum by itself overrides this."""
        return self.total(partial(integers_of_block, queries)) if queries else []

    def reason_against(self, study: Study) -> str | None:
        """Why a study cannot be answered here; None if it can. Checked before any charge."""
        if study.dp_model is DPModel.LABEL:
            return "dp_model 'label' tells labels at random and keeps them record by record"
        if study.records_per_person > 1 or study.by_person:
            return "a person's records are chosen by secret draws over all rows"
        if study.held_out_test is not None:
            return "records that are held out are chosen by secret draws over all rows"
        if study.schema.grids != self.schema.grids:
            return "cells were made by another schema than the study's"
        return None

    def check(self) -> None:
        """For people looking at their own rows: refuses what a checking reader would."""
        read_counts = self.read_counts
        for grid in self.schema.grids:
            times = read_counts.unknown.get(grid.feature, 0)
            if times and not grid.other:
                raise DataError(
                    f"{self.where}, column {grid.feature!r}: {times} value(s) are not among "
                    f"{allowed(grid)}. Correct them, or set other to true to admit any value."
                )
        if read_counts.skipped:
            raise DataError(
                f"{self.where}, column {self.target!r}: {read_counts.skipped} label(s) are "
                "missing, no number or not a class of the schema; leave those rows out."
            )
        if read_counts.n == 0:
            raise DataError(f"{self.where} holds no rows; give at least one.")

    def answering(self, study: Study) -> AnsweringElsewhere:
        reason = self.reason_against(study)
        if reason is not None:
            raise ParameterError(
                f"these rows cannot be summed where they are ({self.where}): {reason}. Nothing "
                f"was charged; {self.instead}."
            )
        return AnsweringElsewhere(self)


class AnsweringElsewhere:
    """Answers as `Answering` does, from sums alone."""

    def __init__(self, rows: Elsewhere) -> None:
        self._rows = rows

    def integers_of_all(
        self, queries: Sequence[Summed], unit_of: Callable[[Summed], int]
    ) -> list[IntArray]:
        """All queries of a round together, so that blocks are read once."""
        sum_queries = [
            counts_for(query, self._rows.schema) if isinstance(query, BoundQuery) else query
            for query in queries
        ]
        units = [unit_of(query) for query in queries]
        sums = self._rows.sums(list(zip(sum_queries, units, strict=True)))
        return [
            self._bounds(query, part, unit) if isinstance(query, BoundQuery) else part
            for query, part, unit in zip(queries, sums, units, strict=True)
        ]

    def integers(self, query: Summed, unit: int) -> IntArray:
        return self.integers_of_all([query], lambda _: unit)[0]

    def integers_of(self, query: SumQuery, contributions: IntArray) -> IntArray:
        raise UnsupportedQuery(f"{self._rows.where} keeps no randomized labels of its records.")

    def tables(self, query: Selecting, features: Sequence[int]) -> IntArray:
        """Counts are sums like any other; the moments of a target are summed over blocks."""
        if is_of_target(query):
            return self._rows.total(partial(tables_of_block, query, tuple(features)))[0]
        schema = self._rows.schema
        by = Cells(tuple(features), Binning.of_cells(schema))
        of_all = query.scoring.score is Score.BALANCE
        statistic: Statistic = Count() if of_all else ClassCounts(len(schema.classes or ()))
        sum_query = SumQuery(query.region, statistic, by, query.fraction)
        counts = self._rows.sums([(sum_query, 1)])[0].reshape(sum_query.shape)
        tables = np.zeros((len(features), N_CODES, statistic.channels), np.int64)
        tables[:, : by.n_cells] = counts
        return tables

    def _bounds(self, query: BoundQuery, counts: IntArray, unit: int) -> IntArray:
        shape = counts_for(query, self._rows.schema).shape
        grids = Grids(self._rows.schema, query.binning)
        return best_impurities(query, counts.reshape(shape), grids, unit)


def integers_of_block(queries: Sequence[QueryInUnit], block: Answering) -> list[IntArray]:
    units = {id(query): unit for query, unit in queries}
    return block.integers_of_all([query for query, _ in queries], lambda query: units[id(query)])


def tables_of_block(query: Selecting, features: Sequence[int], block: Answering) -> list[IntArray]:
    return [block.tables(query, features)]


def added(parts: Sequence[list[IntArray]]) -> list[IntArray]:
    """The integers of some blocks, query by query."""
    return [
        np.asarray(np.sum(of_query, axis=0, dtype=np.int64))
        for of_query in zip(*parts, strict=True)
    ]
