"""Rows as a Dask collection: cells and partial sums where the partitions are, one vector back.

A partition is read by the one reader of rows, on a worker, and its cells stay there. Each round
sends the queries to the partitions and adds their integers up on the way back. A worker that is
lost takes its cells with it: Dask reads those partitions again and the sums are the same, since
they are sums of integers. The collection must give the same rows when it is read again.

The site's secret travels to the workers, which are the site's own machines: folds are drawn there.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hedgerow.data.engines.engine import Elsewhere, Work, added
from hedgerow.data.reading.containers import check_named
from hedgerow.data.reading.encoding import Encoded, encode
from hedgerow.data.reading.report import EngineCounts
from hedgerow.data.rows import Draws, Rows, copies_among
from hedgerow.data.sums import Answering
from hedgerow.errors import ParameterError
from hedgerow.schema.arrays import IntArray
from hedgerow.schema.schema import Schema

BUCKETS = 16
"""Into so many parts record names are dealt to be counted, so that no machine holds them all."""
ADDED_AT_ONCE = 8

Names = NDArray[np.uint64]
Block = tuple[Rows, Encoded]
"""The rows of a partition, and what reading them told."""


def is_dask(source: Any) -> bool:
    """Whether it looks like Dask: nothing of Dask is imported for users who have none."""
    return hasattr(source, "__dask_graph__") and hasattr(source, "to_delayed")


class OnCluster(Elsewhere):
    """The partitions of a dataframe, on the workers of the cluster that is in use."""

    where = "the Dask cluster"
    instead = "give them in memory: frame.compute()"

    def __init__(self, frame: Any, schema: Schema, target: str, draws: Draws | None = None) -> None:
        import dask.base
        from dask.delayed import delayed

        if not hasattr(frame, "columns"):
            raise ParameterError("the Dask collection has no columns; give a dask.dataframe.")
        outcome = schema.label_columns(target)
        check_named(self.where, list(frame.columns), target=outcome)
        absent = [name for name in schema.columns if name not in set(frame.columns)]
        if absent:
            raise ParameterError(
                f"{self.where} has no column {absent[0]!r}; it has {[*frame.columns]}. Rename the "
                "column, or correct the schema."
            )
        self.schema, self.target = schema, target
        read_part = delayed(partial(_cells_of, schema=schema, target=target), pure=True)
        cells = [read_part(part) for part in frame[[*schema.columns, *outcome]].to_delayed()]
        if draws is not None:
            cells = _number_rows(cells, schema, draws)
        else:
            cells = [delayed(partial(_rows_of, schema=schema), pure=True)(part) for part in cells]
        persist: Any = dask.base.persist
        self._blocks = list(persist(*cells))
        names = (*schema.names, target)
        count_block = delayed(partial(_count_block, names=names))
        (counts,) = self._sum_parts([count_block(block) for block in self._blocks])
        self.read_counts = _read_counts(counts, names)

    def total(self, work: Work) -> list[IntArray]:
        from dask.delayed import delayed

        return self._sum_parts([delayed(partial(_run_work, work))(block) for block in self._blocks])

    def _sum_parts(self, parts: list[Any]) -> list[IntArray]:
        """In a tree: no machine sees more than a few vectors at once."""
        from dask.delayed import delayed

        while len(parts) > 1:
            groups = range(0, len(parts), ADDED_AT_ONCE)
            parts = [delayed(added)(parts[at : at + ADDED_AT_ONCE]) for at in groups]
        totals: list[IntArray] = parts[0].compute()
        return totals


def _number_rows(cells: list[Any], schema: Schema, draws: Draws) -> list[Any]:
    """Each record's number among equal ones, over all partitions: it names it for its draws."""
    from dask.delayed import delayed

    row_names = [delayed(partial(_names_of, schema=schema, draws=draws))(part) for part in cells]
    dealt = [delayed(_dealt, nout=BUCKETS)(names) for names in row_names]
    copies = [
        delayed(_copies, nout=len(cells))([part[bucket] for part in dealt])
        for bucket in range(BUCKETS)
    ]
    make = delayed(partial(_rows_of, schema=schema, draws=draws))
    return [
        make(part, names, [numbers[place] for numbers in copies])
        for place, (part, names) in enumerate(zip(cells, row_names, strict=True))
    ]


def _cells_of(part: Any, schema: Schema, target: str) -> Encoded:
    return encode(part, schema, target=target)


def _names_of(part: Encoded, schema: Schema, draws: Draws) -> Names:
    return Rows(part, schema, draws).content_names()


def _bucket_of(names: Names) -> NDArray[np.uint64]:
    return names[:, 0] % np.uint64(BUCKETS)


def _dealt(names: Names) -> list[Names]:
    bucket = _bucket_of(names)
    return [names[bucket == k] for k in range(BUCKETS)]


def _copies(parts: list[Names]) -> list[NDArray[np.uint64]]:
    numbers = copies_among(np.concatenate(parts))
    return np.split(numbers, np.cumsum([len(part) for part in parts])[:-1])


def _rows_of(
    part: Encoded,
    names: Names | None = None,
    numbers: list[NDArray[np.uint64]] | None = None,
    *,
    schema: Schema,
    draws: Draws | None = None,
) -> Block:
    if names is None or numbers is None:
        return Rows(part, schema), part
    bucket, copies = _bucket_of(names), np.empty(len(names), np.uint64)
    for k, some in enumerate(numbers):
        copies[bucket == k] = some
    return Rows(part, schema, draws, copies=copies), part


def _count_block(block: Block, names: Sequence[str]) -> list[IntArray]:
    rows, encoded_rows = block
    by_kind = (encoded_rows.clamped, encoded_rows.unknown, encoded_rows.missing)
    counts = [
        rows.n,
        encoded_rows.skipped,
        *(kind.get(name, 0) for kind in by_kind for name in names),
    ]
    return [np.array(counts, np.int64)]


def _read_counts(counts: IntArray, names: Sequence[str]) -> EngineCounts:
    n, n_skipped, *rest = counts.tolist()
    parts = [dict(zip(names, rest[k * len(names) :], strict=False)) for k in range(3)]
    return EngineCounts(
        n=n, skipped=n_skipped, clamped=parts[0], unknown=parts[1], missing=parts[2]
    )


def _run_work(work: Work, block: Block) -> list[IntArray]:
    rows, _ = block
    return work(Answering(rows, rows.schema))
