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

from hedgerow.queries import Selecting, Summed, SumQuery
from hedgerow.site.answer import Answering
from hedgerow.site.blocks import answering
from hedgerow.site.rows import Rows
from hedgerow.values.arrays import IntArray
from hedgerow.values.schema import Schema

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
