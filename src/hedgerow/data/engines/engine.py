"""Rows that stay in an engine: sums are computed there or block by block, and added up here.

Every sum is over records, and a record's contribution depends on that record alone, so any
partition of the rows into blocks gives the same integers. Results that are not sums over records
(bounds, scores) are computed here from such sums.

An engine declares unsupported studies before any charge (`Elsewhere.reason_against`). Only the site
draws noise, never an engine.

Where several processes hold rows, each has a `Keeper`, which stores raw scores between rounds so
that only new trees are evaluated. Its state can be recomputed from its rows and the public model,
so a lost keeper can be replaced.
"""

from __future__ import annotations

import copy
import io
import pickle
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hedgerow.data.reading.containers import check_named
from hedgerow.data.reading.encoding import NO_CAUSES, Encoded, encode_blocks, map_cells
from hedgerow.data.reading.report import DataReport, EngineCounts, describe_allowed, report_of
from hedgerow.data.rows import Draws, Rows, places_among
from hedgerow.data.sums import (
    Answering,
    Sums,
    UnitOf,
    best_impurities,
    counts_for,
    is_of_target,
    trees_in_common,
)
from hedgerow.errors import DataError, ParameterError, UnsupportedQuery
from hedgerow.kernels.threads import map_parts
from hedgerow.models.model import Additive
from hedgerow.models.tree import Tree
from hedgerow.privacy.accounting.budget import DPModel
from hedgerow.privacy.queries import (
    Binning,
    BoundQuery,
    Cells,
    ClassCounts,
    Count,
    CurveNewton,
    Gradients,
    Hessians,
    Leaves,
    PredictionCells,
    ResidualCells,
    Score,
    ScoreCells,
    Selecting,
    Sides,
    Statistic,
    Summed,
    SumQuery,
    SurfaceGradients,
)
from hedgerow.privacy.study import Study
from hedgerow.schema.arrays import IntArray, Words
from hedgerow.schema.candidates import Grids
from hedgerow.schema.regions import Fold, HeldOut, Region
from hedgerow.schema.schema import Schema

QueryInUnit = tuple[SumQuery, int]
"""A query and the unit in which it is answered."""


OF_A_MODEL = Gradients | Hessians | ResidualCells | PredictionCells | SurfaceGradients
"""Statistics and groupings that need the raw scores of the model `at`."""


@dataclass(frozen=True)
class Work:
    """The queries to compute on one block of rows, in any process; or the tables of a selection."""

    queries: tuple[QueryInUnit, ...] = ()
    tables: tuple[Selecting, tuple[int, ...]] | None = None

    def __call__(self, block: Answering) -> list[IntArray]:
        if self.tables is not None:
            return [block.tables(*self.tables)]
        units = {id(query): unit for query, unit in self.queries}
        queries = [query for query, _ in self.queries]
        return block.integers_of_all(queries, lambda query: units[id(query)])

    @property
    def regions(self) -> list[Region]:
        selecting = [] if self.tables is None else [self.tables[0].region]
        return [*selecting, *(query.region for query, _ in self.queries)]

    @property
    def has_draws(self) -> bool:
        """Whether secret draws decide which records are counted."""
        steps = (step for region in self.regions for step in region)
        return any(isinstance(step.test, Fold | HeldOut) for step in steps)

    @property
    def models(self) -> list[Additive]:
        """All models whose raw scores are needed."""
        models = list[Additive]()
        for query, _ in self.queries:
            for part in (query.statistic, query.by):
                if isinstance(part, ScoreCells):
                    models.extend(part.at)
                elif isinstance(part, OF_A_MODEL):
                    models.append(part.at)
        return models

    def features(self, schema: Schema, scored_model: Additive | None) -> set[int]:
        """The columns needed, given that the raw scores of `scored_model` are available."""
        if self.has_draws or any(isinstance(query.by, Sides) for query, _ in self.queries):
            return set(range(len(schema.grids)))  # a record id needs all columns
        names = {step.test.feature for region in self.regions for step in region}  # type: ignore[union-attr]
        columns = set() if self.tables is None else set(self.tables[1])
        for query, _ in self.queries:
            if isinstance(query.by, Cells):
                columns |= set(query.by.features)
            elif isinstance(query.by, Leaves):
                names |= _tested_features(query.by.trees)
            if isinstance(query.statistic, CurveNewton):
                columns |= {curve.feature for curve in query.statistic.curves}
            elif isinstance(query.statistic, SurfaceGradients):
                columns |= {curve.feature for curve in query.statistic.basis.functions}
        for model in self.models:
            n_scored = trees_in_common(scored_model, model)
            if n_scored is None:
                columns |= {curve.feature for curve in model.curves}
            names |= _tested_features(model.trees[n_scored or 0 :])
        return columns | {schema.index(name) for name in names}


def _tested_features(trees: Sequence[Tree]) -> set[str]:
    return {test.feature for tree in trees for test in tree.tests if test is not None}


class Elsewhere(ABC):
    """A site's rows under one schema, held by an engine. Opened for one study at a time."""

    where: str
    instead: str
    """Advice for rows that the engine cannot sum."""
    schema: Schema
    target: str
    read_counts: EngineCounts
    """Counts made while reading; they stay at the site."""
    holds_out = False
    """Whether it can separate held-out records."""

    def part(self, test: HeldOut, outcome: int) -> Elsewhere:
        """The records whose own draw has this outcome."""
        raise UnsupportedQuery(f"{self.where} holds no records out.")

    @property
    def n(self) -> int:
        return self.read_counts.n

    @property
    def report(self) -> DataReport:
        return report_of([self.read_counts], self.schema, self.target)

    @abstractmethod
    def total(self, work: Work) -> list[IntArray]:
        """The sums of all blocks, added up."""
        ...

    def sums(self, queries: Sequence[QueryInUnit]) -> list[IntArray]:
        """The integers of each query; engines that can sum override this."""
        return self.total(Work(tuple(queries))) if queries else []

    def reason_against(self, study: Study) -> str | None:
        """Why the engine cannot answer a study, or None. Checked before any charge."""
        if study.dp_model is DPModel.LABEL:
            return "dp_model 'label' tells labels at random and keeps them record by record"
        if study.records_per_person > 1 or study.by_person:
            return "a person's records are chosen by secret draws over all rows"
        if study.held_out_test is not None and not self.holds_out:
            return "records that are held out are chosen by secret draws over all rows"
        if study.schema.grids != self.schema.grids:
            return "cells were made by another schema than the study's"
        return None

    def check(self) -> None:
        """Raises a `DataError` where a file reader with `check=True` would."""
        read_counts = self.read_counts
        for grid in self.schema.grids:
            times = read_counts.unknown.get(grid.feature, 0)
            if times and not grid.other:
                raise DataError(
                    f"{self.where}, column {grid.feature!r}: {times} value(s) are not among "
                    f"{describe_allowed(grid)}. Correct them, or set other to true to admit "
                    "any value."
                )
        may_lack = self.schema.label_grids[0].sentinels and not read_counts.unknown.get(self.target)
        if read_counts.skipped and not may_lack:
            columns = " and ".join(map(repr, self.schema.label_columns(self.target)))
            advice = "Leave those rows out." if self.schema.survival is None else NO_CAUSES
            raise DataError(
                f"{self.where}, column {columns}: {read_counts.skipped} label(s) are missing, "
                f"no number or not a class of the schema. {advice}"
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


class AnsweringElsewhere(Sums):
    """Answers like `Answering`, using sums only."""

    def __init__(self, rows: Elsewhere) -> None:
        self._rows = rows

    def integers_of_all(self, queries: Sequence[Summed], unit_of: UnitOf) -> list[IntArray]:
        """Answers all queries of a round together, so that blocks are read once."""
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

    def integers_of(self, query: SumQuery, contributions: IntArray) -> IntArray:
        raise UnsupportedQuery(f"{self._rows.where} keeps no randomized labels of its records.")

    def tables(self, query: Selecting, features: Sequence[int]) -> IntArray:
        """Count tables are queried as sums; moments of a target are added over blocks."""
        if is_of_target(query):
            return self._rows.total(Work(tables=(query, tuple(features))))[0]
        schema = self._rows.schema
        by = Cells(tuple(features), Binning.of_cells(schema))
        of_all = query.scoring.score is Score.BALANCE
        statistic: Statistic = Count() if of_all else ClassCounts(len(schema.classes or ()))
        sum_query = SumQuery(query.region, statistic, by, query.fraction)
        return self._rows.sums([(sum_query, 1)])[0].reshape(sum_query.shape)

    def _bounds(self, query: BoundQuery, counts: IntArray, unit: int) -> IntArray:
        shape = counts_for(query, self._rows.schema).shape
        grids = Grids(self._rows.schema, query.binning)
        return best_impurities(query, counts.reshape(shape), grids, unit)


def add_blocks(parts: Sequence[list[IntArray]]) -> list[IntArray]:
    """Adds the integers of several blocks, query by query."""
    return [
        np.asarray(np.sum(of_query, axis=0, dtype=np.int64))
        for of_query in zip(*parts, strict=True)
    ]


# Rows in several processes, each with cached results of earlier rounds.

Names = Words
NAMES_AT_ONCE = 1 << 22
"""Records that are numbered at once: their ids may not all fit into memory."""


class Keeper:
    """Holds some rows and, between rounds, their raw scores and selections."""

    def __init__(
        self,
        parts: Sequence[Encoded],
        schema: Schema,
        draws: Draws | None,
        lean: bool = False,
        copies: Words | None = None,
    ) -> None:
        """`lean` recomputes whatever takes more memory than scores and selections."""
        self._block, self._draws = join(parts), draws
        self._rows = Rows(self._block, schema, draws, self._record_ids)
        self._answering, self._lean = Answering(self._rows, schema), lean
        self.copies = copies
        self._messages = EngineMessages()

    def run(self, work: Work) -> list[IntArray]:
        sums = work(self._answering)
        if self._lean:
            self._answering.release()
        return sums

    def answer(self, message: bytes) -> bytes | None:
        """Returns None if the message builds on a model that this keeper does not have."""
        work = self._messages.unpack(message)
        return None if work is None else pickle.dumps(self.run(work))

    def part(self, test: HeldOut, outcome: int, folder: Path) -> Keeper:
        """The records whose own draw has this outcome, with cells in a separate file."""
        assert self.copies is not None
        at, block = np.flatnonzero(self._rows.fold(test) == outcome), self._block
        codes = map_cells(folder, (len(block.codes), len(at)))
        for row, new_row in zip(block.codes, codes, strict=True):
            new_row[:] = row[at]
        y = None if block.y is None else block.y[at]
        cells, copies = Encoded(codes=codes, y=y), self.copies[at]
        return Keeper([cells], self._rows.schema, self._draws, self._lean, copies)

    def names(self, bucket: int, buckets: int) -> Names:
        names = self._rows.content_names()
        return np.asarray(names[names[:, 0] % np.uint64(buckets) == bucket])

    def number(self, bucket: int, buckets: int, copies: Words) -> None:
        """Sets the numbers of a bucket's records among equal records of all keepers."""
        if self.copies is None:
            self.copies = np.zeros(self._rows.n, np.uint64)
        names = self._rows.content_names()
        self.copies[names[:, 0] % np.uint64(buckets) == bucket] = copies

    def _record_ids(self) -> Names:
        if self.copies is None:
            raise UnsupportedQuery("a draw was asked of records that are not numbered yet.")
        ids = self._rows.content_names()
        ids[:, 1] += self.copies
        return ids


def join(parts: Sequence[Encoded]) -> Encoded:
    if len(parts) == 1:
        return parts[0]
    labels: list[NDArray[Any]] = [part.y for part in parts if part.y is not None]
    codes = np.concatenate([part.codes for part in parts], axis=1)
    return Encoded(codes=codes, y=np.concatenate(labels))


class InKeepers(Elsewhere):
    """Rows divided among keepers; in this class all keepers are in this process."""

    _keepers: list[Any]
    _numbered = False

    def total(self, work: Work) -> list[IntArray]:
        if work.has_draws:
            self._number_records()
        return add_blocks(self._answers(work))

    def _answers(self, work: Work) -> list[list[IntArray]]:
        return map_parts(lambda keeper: keeper.run(work), self._keepers)

    def _call(self, method: str, calls: Mapping[int, tuple[Any, ...]]) -> list[Any]:
        """Calls a method of several keepers, each with its own arguments."""
        return map_parts(lambda k: getattr(self._keepers[k], method)(*calls[k]), calls)

    def _number_records(self) -> None:
        """Numbers each record among equal ones; content and number identify it for secret draws.

        Keepers are ordered and equal records are interchangeable, so numbering again after a keeper
        was replaced gives every keeper the same numbers.
        """
        buckets, places = 1 + self.n // NAMES_AT_ONCE, range(len(self._keepers))
        while not self._numbered:
            self._numbered = True  # until a keeper is replaced
            for bucket in range(buckets):
                parts = self._call("names", {k: (bucket, buckets) for k in places})
                if not self._numbered:
                    break
                ends = np.cumsum([len(part) for part in parts])[:-1]
                numbers = np.split(places_among(np.concatenate(parts)), ends)
                self._set_numbers(bucket, buckets, numbers)

    def _set_numbers(self, bucket: int, buckets: int, numbers: list[Words]) -> None:
        self._call("number", {k: (bucket, buckets, own) for k, own in enumerate(numbers)})


class OnDisk(InKeepers):
    """Rows in memory-mapped files on this machine, one keeper per block.

    The process needs memory only for labels, raw scores and selections; the operating system pages
    cells in and out.
    """

    where = "the file of cells"
    instead = "leave temp_folder out, so that they are read into memory"
    holds_out = True

    def __init__(
        self,
        source: Any,
        schema: Schema,
        target: str,
        draws: Draws | None,
        folder: Path,
        check: bool = True,
    ) -> None:
        if not folder.is_dir():
            raise ParameterError(f"temp_folder {str(folder)!r} is no folder; make it first.")
        blocks = encode_blocks(source, schema, target=target, check=check, folder=folder)
        self.schema, self.target, self._folder = schema, target, folder
        self._keepers = [Keeper([block], schema, draws, lean=True) for block in blocks]
        names = (*schema.names, target)
        counts = np.sum([count_part(block, names) for block in blocks], axis=0)
        self.read_counts = read_counts(counts, names)

    def part(self, test: HeldOut, outcome: int) -> OnDisk:
        self._number_records()
        part = copy.copy(self)
        part._keepers = [keeper.part(test, outcome, self._folder) for keeper in self._keepers]
        return part


def check_columns(where: str, names: list[str], schema: Schema, outcome: Sequence[str]) -> None:
    check_named(where, names, target=outcome)
    absent = [name for name in schema.columns if name not in names]
    if absent:
        raise ParameterError(
            f"{where} has no column {absent[0]!r}; it has {names}. Rename the column, or correct "
            "the schema."
        )


def count_part(part: Encoded, names: Sequence[str]) -> IntArray:
    """Counts made while reading a block, as one vector that can be summed."""
    by_kind = (part.clamped, part.unknown, part.missing)
    counts = [part.n, part.skipped, *(kind.get(name, 0) for kind in by_kind for name in names)]
    return np.array(counts, np.int64)


def read_counts(counts: IntArray, names: Sequence[str]) -> EngineCounts:
    n, n_skipped, *rest = counts.tolist()
    parts = [dict(zip(names, rest[k * len(names) :], strict=False)) for k in range(3)]
    return EngineCounts(
        n=n, skipped=n_skipped, clamped=parts[0], unknown=parts[1], missing=parts[2]
    )


# Serialized work: a model that grew since the last message is sent as its new trees.


class EngineMessages:
    """One end of a channel on which both ends remember the last model sent."""

    def __init__(self) -> None:
        self._model: Additive | None = None
        self._number = 0

    def pack(self, work: Work, whole: bool = False) -> bytes:
        """Serializes work; `whole=True` resends the full model to an end that lacks it."""
        body, base = io.BytesIO(), None if whole else self._model
        pickler = _Pickler(body, base)
        pickler.dump(work)
        needs = self._number if pickler.is_based else None
        if pickler.last_model is not None and not whole:
            self._model, self._number = pickler.last_model, self._number + 1
        return pickle.dumps((needs, self._number, body.getvalue()))

    def unpack(self, message: bytes) -> Work | None:
        needs, number, body = pickle.loads(message)
        if needs is not None and needs != self._number:
            return None
        unpickler = _Unpickler(io.BytesIO(body), self._model)
        work: Work = unpickler.load()
        if unpickler.last_model is not None:
            self._model, self._number = unpickler.last_model, number
        return work


class _Pickler(pickle.Pickler):
    """Writes a model as its trees beyond `base`, or whole if it does not build on that."""

    def __init__(self, file: io.BytesIO, base: Additive | None) -> None:
        super().__init__(file, protocol=5)
        self._base, self.is_based = base, False
        self.last_model: Additive | None = None

    def persistent_id(self, part: Any) -> tuple[bool, tuple[Any, ...]] | None:
        if not isinstance(part, Additive):
            return None
        self.last_model, n = part, trees_in_common(self._base, part)
        if n is None:
            return False, (part.base, part.curves, part.trees, part.clip)
        self.is_based = True
        return True, part.trees[n:]


class _Unpickler(pickle.Unpickler):
    def __init__(self, file: io.BytesIO, base: Additive | None) -> None:
        super().__init__(file)
        self._base = base
        self.last_model: Additive | None = None

    def persistent_load(self, pid: tuple[bool, tuple[Any, ...]]) -> Additive:
        is_based, content = pid
        if not is_based:
            self.last_model = Additive(*content)
        elif self._base is not None:
            self.last_model = self._base.plus(*content)
        else:
            raise UnsupportedQuery("a message was read without the model that it builds on.")
        return self.last_model
