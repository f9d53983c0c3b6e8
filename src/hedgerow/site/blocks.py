"""One holder's rows in blocks, each on a thread of its own: the integers are those of all rows.

Every sum is one over records, and what a record adds depends on that record alone. So blocks are
summed side by side and their integers added up: the same bits, whatever the number of threads.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from hedgerow.kernels.threads import blocks, each
from hedgerow.queries import Summed, SumQuery
from hedgerow.site.answer import Answering
from hedgerow.site.rows import Rows
from hedgerow.values.arrays import IntArray
from hedgerow.values.schema import Schema


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
