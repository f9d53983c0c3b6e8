"""How long a fit on two threads would take on two cores of its own: its longest chain of work.

CPU seconds of the main thread, and of the slowest part each time parts are handed to threads. Wall
time would say the same on a quiet machine, and on a busy one says nothing.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from typing import Any

import hedgerow as hr
from benchmarks.timing import sized
from benchmarks.works import normals, schema_of

ROUNDS = sized(3, 1)  # one thread and two take turns, and each keeps its best


def longest_chain(rows: int, features: int) -> dict[str, float]:
    from hedgerow.data import prepared
    from hedgerow.data.reading import encoding
    from hedgerow.kernels import threads

    X, y, _ = normals(rows, features)
    plain, waited = threads.map_parts, [0.0]

    def timed_each(work: Callable[[Any], Any], parts: Iterable[Any]) -> list[Any]:
        if threads.count() == 1:
            return plain(work, parts)

        def timed(part: Any) -> tuple[Any, float]:
            start = time.thread_time()
            return work(part), time.thread_time() - start

        found = plain(timed, parts)
        waited[0] += max(spent for _, spent in found)
        return [value for value, _ in found]

    def fit(n_jobs: int) -> float:
        model = hr.BoostedTreesClassifier(
            schema_of(features), 1.0, 1e-6, random_state=0, n_jobs=n_jobs
        )
        waited[0], start = 0.0, time.thread_time()
        model.fit(X, y)
        return time.thread_time() - start + waited[0]

    prepared.each = encoding.each = timed_each
    alone, both = zip(*[(fit(1), fit(2)) for _ in range(ROUNDS)], strict=True)
    return {"seconds": min(both), "reference": min(alone)}
