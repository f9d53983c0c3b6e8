"""A site's rows as one study uses them: participating records and labels, ready to be summed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cached_property
from itertools import groupby
from typing import TypeVar

import numpy as np

from hedgerow.data.engines.engine import AnsweringElsewhere, Elsewhere
from hedgerow.data.rows import Rows
from hedgerow.data.sums import Answering, Sums, UnitOf
from hedgerow.errors import ComputationFailed, UnsupportedQuery
from hedgerow.kernels.threads import blocks, map_parts
from hedgerow.privacy.accounting.budget import DPModel
from hedgerow.privacy.mechanisms.response import Bits, BloomRandomizedResponse
from hedgerow.privacy.queries import Selecting, Summed, SumQuery
from hedgerow.privacy.study import Study
from hedgerow.schema.arrays import IntArray
from hedgerow.schema.schema import Schema

# Training and held-out records: each part answers from its own rows.
#
# The first step of a query's region names the part, and the rest of the region selects among the
# rows of that part, so a held-out record can contribute to no other sum.

# One site's rows in blocks, one thread each.
#
# Every sum is over records, and a record's contribution depends on that record alone, so the
# integers do not depend on the number of threads.


def answering(rows: Rows, schema: Schema) -> Answering:
    """Sums in blocks on several threads if there are enough rows."""
    parts = blocks(rows.n)
    return Answering(rows, schema) if len(parts) == 1 else InBlocks(rows, schema, parts)


class InBlocks(Answering):
    """Answers sums over records block by block, and other queries over all rows."""

    def __init__(self, rows: Rows, schema: Schema, parts: Sequence[slice]) -> None:
        super().__init__(rows, schema)
        self._places = list(parts)
        self._parts = [Answering(rows.block(part), schema) for part in parts]

    def integers_of_all(self, queries: Sequence[Summed], unit_of: UnitOf) -> list[IntArray]:
        sum_queries = [query for query in queries if isinstance(query, SumQuery)]
        block_sums = map_parts(lambda part: part.integers_of_all(sum_queries, unit_of), self._parts)
        sums = iter([_add_blocks(of_blocks) for of_blocks in zip(*block_sums, strict=True)])
        return [
            next(sums) if isinstance(query, SumQuery) else self._bounds(query, unit_of(query))
            for query in queries
        ]

    def integers(self, query: Summed, unit: int) -> IntArray:
        return self.integers_of_all([query], lambda _: unit)[0]

    def integers_of(self, query: SumQuery, contributions: IntArray) -> IntArray:
        blocks = zip(self._parts, self._places, strict=True)
        return _add_blocks(
            map_parts(lambda b: b[0].integers_of(query, contributions[b[1]]), blocks)
        )


def _add_blocks(blocks: Sequence[IntArray]) -> IntArray:
    return np.asarray(np.sum(blocks, axis=0, dtype=np.int64))


_Asked = TypeVar("_Asked", Summed, SumQuery, Selecting)
TRAINED_ON = 1
"""The outcome of `HeldOut` for training records."""


class InParts(Sums):
    """Answers like `Answering`; held-out rows are prepared at their first query."""

    def __init__(self, trained_on: Sums, prepare_held_out: Callable[[], Sums]) -> None:
        self._trained_on, self._prepare_held_out = trained_on, prepare_held_out

    @cached_property
    def _tested_on(self) -> Sums:
        return self._prepare_held_out()

    def integers_of_all(self, queries: Sequence[Summed], unit_of: UnitOf) -> list[IntArray]:
        sums = list[IntArray]()
        for outcome, group in groupby(queries, key=_part):
            sums += self._of(outcome).integers_of_all([_within(q) for q in group], unit_of)
        return sums

    def integers_of(self, query: SumQuery, contributions: IntArray) -> IntArray:
        """Contributions exist only for training records."""
        return self._trained_on.integers_of(_within(query), contributions)

    def tables(self, query: Selecting, features: Sequence[int]) -> IntArray:
        return self._of(_part(query)).tables(_within(query), features)

    def _of(self, outcome: int) -> Sums:
        return self._trained_on if outcome == TRAINED_ON else self._tested_on


def _part(query: Summed | Selecting) -> int:
    return query.region[0].outcome


def _within(query: _Asked) -> _Asked:
    return replace(query, region=query.region[1:])


Held = Rows | Elsewhere
"""A site's rows: in memory, or in an engine."""


class StudyRows:
    """The rows of one study, limited per person; closed for good when an answer fails."""

    def __init__(self, study: Study, rows: Held) -> None:
        self.study = study
        self.permanent: Bits | None = None
        """Permanent randomized bits of each record, for Bloom-filter label reports."""
        self._closed_because = ""
        self.sums: Sums = (
            self._of_engine(rows) if isinstance(rows, Elsewhere) else self._of_memory(rows)
        )

    def _of_engine(self, rows: Elsewhere) -> Sums:
        sums, test = rows.answering(self.study), self.study.held_out_test
        if test is None:
            return sums
        return InParts(
            AnsweringElsewhere(rows.part(test, TRAINED_ON)),
            lambda: AnsweringElsewhere(rows.part(test, 0)),
        )

    def _of_memory(self, rows: Rows) -> Sums:
        study = self.study
        rows = rows.of_each_person(study.records_per_person)
        if study.held_out_test is not None:
            test = study.held_out_test
            rows, held_out = rows.part(test, TRAINED_ON), rows.part(test, 0)
            trained_on = answering(self._with_label_model(rows), study.schema)
            return InParts(trained_on, lambda: answering(held_out, study.schema))
        return answering(self._with_label_model(rows), study.schema)

    def _with_label_model(self, rows: Rows) -> Rows:
        """Applies `dp_model` "label": labels are randomized once for the study."""
        study = self.study
        if study.label_reports is not None:
            self.permanent = permanent_bits(rows, study.label_reports)
            return without_labels(rows)
        return randomize_labels_once(rows, study) if study.dp_model is DPModel.LABEL else rows

    def require_open(self) -> None:
        if self._closed_because:
            raise ComputationFailed(self._closed_because)

    def close_after(self, error: Exception) -> ComputationFailed:
        """Closes the study at this site; the returned error is for the site's own log."""
        self._closed_because = (
            f"study {self.study.name!r} is closed at this site: an answer that was charged could "
            f"not be computed ({type(error).__name__}). Nothing was released and the charge stays. "
            "Find the cause in the log, then approve a new study."
        )
        return ComputationFailed(self._closed_because)


def randomize_labels_once(rows: Rows, study: Study) -> Rows:
    """Randomizes each label by the record's own draw, the same for all later queries."""
    if rows.labels is None:
        raise UnsupportedQuery("dp_model 'label' was asked of rows without classes.")
    noisy_labels = study.response.respond(rows.labels.astype(np.int64), rows.draw("label"))
    return rows.with_labels(noisy_labels.astype(np.uint8))


def permanent_bits(rows: Rows, reports: BloomRandomizedResponse) -> Bits:
    """(n, bits) each record's permanent randomized bits, fixed for the run by its own draws."""
    if rows.labels is None:
        raise UnsupportedQuery("dp_model 'label' was asked of rows without classes.")
    words = np.stack([rows.draw(f"label bit {b}") for b in range(reports.bits)], axis=1)
    return reports.permanent(rows.labels.astype(np.int64), words)


def without_labels(rows: Rows) -> Rows:
    """Sets all labels to 0, where only permanent bit strings are kept."""
    return rows.with_labels(np.zeros(rows.n, np.uint8))
