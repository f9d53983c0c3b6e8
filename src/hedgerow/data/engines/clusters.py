"""Rows of a Dask or Spark data frame: workers encode and sum their partitions.

Each worker reads its partitions with the reader that all sources use. A `Keeper` on that worker
holds the cells and keeps raw scores between rounds: an actor of Dask, or an object of a Python
process of Spark, which reuses them. If a worker is lost, its partitions are read again and a new
keeper receives the whole public model; the sums do not change, because they are sums of integers.
The data frame must yield the same rows whenever it is read, in any order.

The site's secret is sent to the workers, which belong to the site: folds are drawn there.
"""

from __future__ import annotations

import pickle
import secrets
import weakref
from collections.abc import Iterator, Mapping
from contextlib import suppress
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa

from hedgerow.data.engines.engine import (
    EngineMessages,
    InKeepers,
    Keeper,
    Names,
    Work,
    check_columns,
    count_part,
    read_counts,
)
from hedgerow.data.reading.encoding import Encoded, encode
from hedgerow.data.rows import Draws
from hedgerow.errors import ComputationFailed, ParameterError
from hedgerow.schema.arrays import IntArray
from hedgerow.schema.schema import Schema

ROWS_FOR_TWO = 1 << 18
"""Fewer rows go to one worker: a second request would take longer than it saves."""
MOST_REBUILDS = 5
"""Attempts to replace lost workers for one answer before the query fails."""
LOOK_AFTER = 2.0
"""Seconds without an answer after which the worker's status is checked."""


def is_dask(source: Any) -> bool:
    """Whether this is a Dask collection; Dask itself is not imported."""
    return hasattr(source, "__dask_graph__") and hasattr(source, "to_delayed")


class OnDask(InKeepers):
    """The partitions of a data frame, on the workers of the active Dask cluster."""

    where = "the Dask cluster"
    instead = "give them in memory: frame.compute()"

    def __init__(self, frame: Any, schema: Schema, target: str, draws: Draws | None = None) -> None:
        import dask.base
        from dask.delayed import delayed

        if not hasattr(frame, "columns"):
            raise ParameterError("the Dask collection has no columns; give a dask.dataframe.")
        outcome = schema.label_columns(target)
        check_columns(self.where, list(frame.columns), schema, outcome)
        self.schema, self.target, self._draws = schema, target, draws
        read_part = delayed(partial(_cells_of, schema=schema, target=target), pure=True)
        parts = [read_part(part) for part in frame[[*schema.columns, *outcome]].to_delayed()]
        names = (*schema.names, target)
        base: Any = dask.base
        self._client: Any = getattr(base.get_scheduler(), "__self__", None)  # None: no cluster
        if self._client is None:
            cells = base.compute(*parts)
            counts = [count_part(part, names) for part in cells]
            self._keepers = [Keeper([part], schema, draws) for part in cells]
        else:
            cells = self._client.compute(parts)
            counts = self._client.gather(self._client.map(partial(count_part, names=names), cells))
            groups = self._group(parts, cells, sum(int(part[0]) for part in counts))
            self._parts = [own for own, _, _ in groups]
            self._keepers = [self._keeper(*group) for group in groups]
            self._messages = EngineMessages()
        self.read_counts = read_counts(np.sum(counts, axis=0), names)

    def _group(
        self, parts: list[Any], cells: list[Any], n: int
    ) -> list[tuple[list[Any], list[Any], str | None]]:
        """Groups partitions by the worker that has their cells; few rows form one group."""
        groups: dict[str | None, tuple[list[Any], list[Any]]] = {}
        workers = self._client.who_has(cells)
        for part, own in zip(parts, cells, strict=True):
            near = None if n < ROWS_FOR_TWO else next(iter(workers[own.key]), None)
            group = groups.setdefault(near, ([], []))
            group[0].append(part)
            group[1].append(own)
        return [(*group, worker) for worker, group in groups.items()]

    def _keeper(
        self, parts: list[Any], cells: list[Any] | None = None, near: str | None = None
    ) -> Any:
        """Creates an actor near the cells; without cells the partitions are read again."""
        place = {} if near is None else {"workers": [near], "allow_other_workers": True}
        cells = self._client.compute(parts) if cells is None else cells
        future = self._client.submit(
            Keeper, cells, self.schema, self._draws, actor=True, pure=False, **place
        )
        return future.result()

    def _answers(self, work: Work) -> list[list[IntArray]]:
        if self._client is None:
            return super()._answers(work)
        replies: dict[int, bytes | None] = dict.fromkeys(range(len(self._keepers)))
        for attempt in range(MOST_REBUILDS):
            missing = [place for place, reply in replies.items() if reply is None]
            if not missing:
                return [pickle.loads(reply) for reply in replies.values() if reply is not None]
            if work.has_draws:
                self._number_records()
            message = self._messages.pack(work, whole=attempt > 0)  # for a new keeper
            answers = self._call("answer", {place: (message,) for place in missing})
            replies.update(zip(missing, answers, strict=True))
        raise ComputationFailed(f"workers of the cluster were lost {MOST_REBUILDS} times in a row.")

    def _call(self, method: str, calls: Mapping[int, tuple[Any, ...]]) -> list[Any]:
        """Calls all keepers at once; a lost keeper is replaced and its answer is None."""
        if self._client is None:
            return super()._call(method, calls)
        futures = {place: self._ask(place, method, own) for place, own in calls.items()}
        return [self._reply(place, future) for place, future in futures.items()]

    def _ask(self, place: int, method: str, arguments: tuple[Any, ...]) -> Any:
        try:
            return getattr(self._keepers[place], method)(*arguments)
        except RuntimeError:  # its worker was lost since the last round
            return None

    def _reply(self, place: int, future: Any) -> Any:
        keeper = self._keepers[place]
        while future is not None and keeper._future.status in ("finished", "pending"):
            try:
                return future.result(timeout=LOOK_AFTER)
            except TimeoutError:  # an actor of a lost worker may never answer
                continue
            except OSError:
                break
        self._keepers[place], self._numbered = self._keeper(self._parts[place]), False
        return None


def _cells_of(part: Any, schema: Schema, target: str) -> Encoded:
    return encode(part, schema, target=target)


def is_spark(source: Any) -> bool:
    """Whether this is a Spark data frame; Spark itself is not imported."""
    return hasattr(source, "mapInArrow") and hasattr(source, "sparkSession")


def is_cluster(source: Any) -> bool:
    return is_dask(source) or is_spark(source)


def open_cluster(frame: Any, schema: Schema, target: str, draws: Draws | None) -> InKeepers:
    return (OnDask if is_dask(frame) else OnSpark)(frame, schema, target, draws)


class OnSpark(InKeepers):
    """The partitions of a data frame, on the executors of its Spark session.

    Spark keeps the cells, one object a partition, and makes those of a lost executor anew. Every
    task carries the whole public model; a process that has seen it adds the new trees alone.
    """

    where = "the Spark data frame"
    instead = "give them in memory: frame.toPandas()"

    def __init__(self, frame: Any, schema: Schema, target: str, draws: Draws | None = None) -> None:
        outcome = schema.label_columns(target)
        check_columns(self.where, list(frame.columns), schema, outcome)
        self.schema, self.target, self._draws = schema, target, draws
        names = (*schema.names, target)
        columns = [f"`{name.replace('`', '``')}`" for name in (*schema.columns, *outcome)]
        rows = frame.selectExpr(*columns, f"spark_partition_id() AS {PARTITION}")
        encode_part = partial(_encode_part, schema=schema, target=target, names=names)
        # Numbers of records follow their order, which a shuffle may change when it is read again.
        self._keep(rows.sortWithinPartitions(*columns).mapInArrow(encode_part, CELLS))
        counts = self._cells.select("place", "counts").collect()
        self._keepers = sorted(place for place, _ in counts)
        totals = [np.frombuffer(part, np.int64) for _, part in counts]
        no_rows = count_part(encode(rows.limit(0).toArrow(), schema, target=target), names)
        self.read_counts = read_counts(np.sum([no_rows, *totals], axis=0), names)

    def _keep(self, cells: Any) -> None:
        """Lets Spark store these cells on the executors, under a new name."""
        self._cells, self._name = cells.persist(), secrets.token_hex(16)
        weakref.finalize(self, _unpersist, cells).atexit = False

    def _answers(self, work: Work) -> list[list[IntArray]]:
        return self._call("run", dict.fromkeys(range(len(self._keepers)), (work,)))

    def _call(self, method: str, calls: Mapping[int, tuple[Any, ...]]) -> list[Any]:
        by_place = {self._keepers[k]: arguments for k, arguments in calls.items()}
        answer = partial(_answer_part, self._name, self.schema, self._draws, method, by_place)
        replies = dict(self._cells.mapInArrow(answer, "place int, reply binary").collect())
        return [pickle.loads(replies[place]) for place in by_place]

    def _set_numbers(self, bucket: int, buckets: int, numbers: list[Names]) -> None:
        """Stores the numbers beside the cells: no process of an executor is sure to stay."""
        by_place = dict(zip(self._keepers, numbers, strict=True))
        number = partial(_number_part, self.schema, self._draws, bucket, buckets, by_place)
        self._keep(self._cells.mapInArrow(number, CELLS))


def _unpersist(cells: Any) -> None:
    with suppress(Exception):  # the session may have ended before
        cells.unpersist()


PARTITION = "hedgerow_partition"
CELLS = "place int, cells binary, copies binary, counts binary"
_KEEPERS: dict[tuple[str, int], Keeper] = {}
"""Of this process of an executor: the keepers of the latest fit."""


def _encode_part(
    batches: Iterator[pa.RecordBatch], schema: Schema, target: str, names: tuple[str, ...]
) -> Iterator[pa.RecordBatch]:
    """The cells of a partition as one row; nothing for a partition without rows."""
    parts = [batch for batch in batches if batch.num_rows]
    if parts:
        rows = pa.Table.from_batches(parts)
        cells = encode(rows.drop([PARTITION]), schema, target=target)
        counts = count_part(cells, names).tobytes()
        yield _row(rows[PARTITION][0].as_py(), cells=cells, copies=None, counts=counts)


def _row(place: int, **content: Any) -> pa.RecordBatch:
    columns = {
        name: pa.array([value if isinstance(value, bytes) else pickle.dumps(value)], pa.binary())
        for name, value in content.items()
    }
    return pa.RecordBatch.from_pydict({"place": pa.array([place], pa.int32()), **columns})


def _rows(batches: Iterator[pa.RecordBatch]) -> Iterator[dict[str, Any]]:
    for batch in batches:
        for k in range(batch.num_rows):
            yield {name: batch.column(name)[k] for name in batch.schema.names}


def _keeper_of(row: Mapping[str, Any], schema: Schema, draws: Draws | None) -> Keeper:
    cells, copies = (pickle.loads(row[name].as_buffer()) for name in ("cells", "copies"))
    return Keeper([cells], schema, draws, copies=copies)


def _answer_part(
    name: str,
    schema: Schema,
    draws: Draws | None,
    method: str,
    calls: Mapping[int, tuple[Any, ...]],
    batches: Iterator[pa.RecordBatch],
) -> Iterator[pa.RecordBatch]:
    for row in _rows(batches):
        place = row["place"].as_py()
        if (name, place) not in _KEEPERS:
            for other in [key for key in _KEEPERS if key[0] != name]:
                del _KEEPERS[other]
            _KEEPERS[name, place] = _keeper_of(row, schema, draws)
        yield _row(place, reply=getattr(_KEEPERS[name, place], method)(*calls[place]))


def _number_part(
    schema: Schema,
    draws: Draws | None,
    bucket: int,
    buckets: int,
    numbers: Mapping[int, Names],
    batches: Iterator[pa.RecordBatch],
) -> Iterator[pa.RecordBatch]:
    for row in _rows(batches):
        place, keeper = row["place"].as_py(), _keeper_of(row, schema, draws)
        keeper.number(bucket, buckets, numbers[place])
        cells, counts = row["cells"].as_py(), row["counts"].as_py()
        yield _row(place, cells=cells, copies=keeper.copies, counts=counts)
