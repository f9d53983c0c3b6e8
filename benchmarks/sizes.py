"""Full sizes, or such as only show that a benchmark still runs: `python -m benchmarks.smoke`."""

from __future__ import annotations

import os

QUICK = "HEDGEROW_BENCH_QUICK"


def is_quick() -> bool:
    return bool(os.environ.get(QUICK))


def sized(full: int, small: int) -> int:
    return small if is_quick() else full
