"""Work on several threads: blocks of a site's rows, columns of a file, simulated sites.

Compiled loops, NumPy and ciphers release Python's lock, so threads are enough. Answers do not
depend on their number: integers are added, and each row is processed by itself.

    with using(2):
        parts = map_parts(work, blocks(n_rows))

Work that runs on one of the threads starts no others.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from contextvars import ContextVar
from itertools import pairwise
from typing import TypeVar

_Part = TypeVar("_Part")
_Found = TypeVar("_Found")

LEAST_BLOCK = 1 << 16
"""Smallest size of a block: handing over a smaller one costs more than it saves."""

_ALONE = (None, 1)
_USED: ContextVar[tuple[ThreadPoolExecutor | None, int]] = ContextVar("threads", default=_ALONE)


@contextmanager
def using(n_jobs: int) -> Iterator[None]:
    """Sets the number of threads in this context; -1 is all processors, -2 all but one."""
    has_affinity = hasattr(os, "sched_getaffinity")
    processors = len(os.sched_getaffinity(0)) if has_affinity else os.cpu_count() or 1
    count = n_jobs if n_jobs > 0 else max(1, processors + 1 + n_jobs)
    with ExitStack() as stack:
        if count > 1:
            pool = stack.enter_context(ThreadPoolExecutor(count, thread_name_prefix="hedgerow"))
            stack.callback(_USED.reset, _USED.set((pool, count)))
        else:
            stack.callback(_USED.reset, _USED.set(_ALONE))
        yield


def count() -> int:
    """Number of threads that may be used here."""
    return _USED.get()[1]


def map_parts(work: Callable[[_Part], _Found], parts: Iterable[_Part]) -> list[_Found]:
    """Results of `work` for all parts, in order; the first exception is raised."""
    (pool, _), waiting = _USED.get(), list(parts)
    if pool is None or len(waiting) < 2:
        return [work(part) for part in waiting]
    return list(pool.map(work, waiting))


def blocks(n: int, least: int = LEAST_BLOCK) -> list[slice]:
    """Slices of n items, as many as there are threads, of `least` items or more each."""
    n_blocks = max(1, min(count(), n // least))
    ends = [n * k // n_blocks for k in range(n_blocks + 1)]
    return [slice(lo, hi) for lo, hi in pairwise(ends)]
