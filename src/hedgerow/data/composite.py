"""Records that are trained on and records that are held out: each part answers from its own rows.

A query says in the first step of its region which part it is of. What is left of the region then
selects among the rows of that part, so that a record held out can take part in no other sum.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cached_property
from itertools import groupby
from typing import TypeVar

import numpy as np

from hedgerow.data.rows import Rows
from hedgerow.data.sums import Answering
from hedgerow.kernels.threads import blocks, each
from hedgerow.privacy.queries import Selecting, Summed, SumQuery
from hedgerow.schema.arrays import IntArray
from hedgerow.schema.schema import Schema

# --------------------------------------------------------------------------------------------------
# One holder's rows in blocks, each on a thread of its own: the integers are those of all rows.
#
# Every sum is one over records, and what a record adds depends on that record alone. So blocks are
# summed side by side and their integers added up: the same bits, whatever the number of threads.


def answering(rows: Rows, schema: Schema) -> Answering:
    """In blocks, if there are several threads and enough rows for them."""
    parts = blocks(rows.n)
    return Answering(rows, schema) if len(parts) == 1 else InBlocks(rows, schema, parts)


class InBlocks(Answering):
    """Answers by blocks what is a sum over records, and all else by the rows as a whole."""

    def __init__(self, rows: Rows, schema: Schema, parts: Sequence[slice]) -> None:
        super().__init__(rows, schema)
        self._places = list(parts)
        self._parts = [Answering(rows.block(part), schema) for part in parts]

    def integers_of_all(
        self, queries: Sequence[Summed], unit_of: Callable[[Summed], int]
    ) -> list[IntArray]:
        summed = [query for query in queries if isinstance(query, SumQuery)]
        found = each(lambda part: part.integers_of_all(summed, unit_of), self._parts)
        sums = iter([_added(of_blocks) for of_blocks in zip(*found, strict=True)])
        return [
            next(sums) if isinstance(query, SumQuery) else self.integers(query, unit_of(query))
            for query in queries
        ]

    def integers(self, query: Summed, unit: int) -> IntArray:
        if not isinstance(query, SumQuery):
            return super().integers(query, unit)
        return _added(each(lambda part: part.integers(query, unit), self._parts))

    def integers_of(self, query: SumQuery, contributions: IntArray) -> IntArray:
        blocks = zip(self._parts, self._places, strict=True)
        return _added(each(lambda b: b[0].integers_of(query, contributions[b[1]]), blocks))


def _added(blocks: Sequence[IntArray]) -> IntArray:
    return np.asarray(np.sum(blocks, axis=0, dtype=np.int64))


_Asked = TypeVar("_Asked", Summed, SumQuery, Selecting)
TRAINED_ON = 1
"""The outcome of `HeldOut` for all records that are not held out."""


class InParts:
    """Answers as `Answering` does. Rows that are held out are made ready once they are asked."""

    def __init__(self, rows: Rows, held_out: Rows, schema: Schema) -> None:
        """`rows` are those that are trained on."""
        self.rows, self._held_out, self._schema = rows, held_out, schema
        self._trained_on = answering(rows, schema)

    @cached_property
    def _tested_on(self) -> Answering:
        return answering(self._held_out, self._schema)

    def integers_of_all(
        self, queries: Sequence[Summed], unit_of: Callable[[Summed], int]
    ) -> list[IntArray]:
        found = list[IntArray]()
        for outcome, group in groupby(queries, key=_part):
            found += self._of(outcome).integers_of_all([_within(q) for q in group], unit_of)
        return found

    def integers(self, query: Summed, unit: int) -> IntArray:
        return self._of(_part(query)).integers(_within(query), unit)

    def integers_of(self, query: SumQuery, contributions: IntArray) -> IntArray:
        """Contributions are told for records that are trained on, and for no other."""
        return self._trained_on.integers_of(_within(query), contributions)

    def tables(self, query: Selecting, features: Sequence[int]) -> IntArray:
        return self._of(_part(query)).tables(_within(query), features)

    def _of(self, outcome: int) -> Answering:
        return self._trained_on if outcome == TRAINED_ON else self._tested_on


def _part(query: Summed | Selecting) -> int:
    return query.region[0].outcome


def _within(query: _Asked) -> _Asked:
    return replace(query, region=query.region[1:])
