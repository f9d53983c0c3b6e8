"""Sizes of a benchmark, and races between candidates."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib.metadata import version

# --------------------------------------------------------------------------------------------------
# Full sizes, or such as only show that a benchmark still runs: `python -m benchmarks.run --quick`.
QUICK = "HEDGEROW_BENCH_QUICK"


def is_quick() -> bool:
    return bool(os.environ.get(QUICK))


def sized(full: int, small: int) -> int:
    return small if is_quick() else full


# --------------------------------------------------------------------------------------------------
# Races: candidates take turns, and each keeps its best CPU time.
#
# A shared machine slows everything down, now and then and by different amounts. The least CPU time
# over rounds in which all candidates take turns is what that disturbs least, and a ratio of two
# such times can be compared from one machine to the next.
@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One line of the table. A target is a ratio to the reference, or CPU seconds."""

    work: str
    seconds: float
    reference: str
    reference_seconds: float
    most_ratio: float | None = None
    most_seconds: float | None = None

    @property
    def ratio(self) -> float:
        return self.seconds / self.reference_seconds

    @property
    def target(self) -> str:
        if self.most_ratio is not None:
            return f"<= {self.most_ratio:g}x"
        return "" if self.most_seconds is None else f"<= {self.most_seconds:g} s"

    @property
    def met(self) -> str:
        if self.most_ratio is not None:
            return "yes" if self.ratio <= self.most_ratio else "NO"
        if self.most_seconds is not None:
            return "yes" if self.seconds <= self.most_seconds else "NO"
        return ""


def race(candidates: Mapping[str, Callable[[], object]], rounds: int = 5) -> dict[str, float]:
    """Least CPU seconds of each candidate, after one round that does not count."""
    best: dict[str, float] = {}
    for turn in range(sized(rounds, 1) + 1):
        for name, work in candidates.items():
            start = time.process_time()
            work()
            spent = time.process_time() - start
            if turn:
                best[name] = min(spent, best.get(name, spent))
    return best


def named(package: str, what: str) -> str:
    """A reference with the version that was measured."""
    return f"{package} {version(package)}, {what}"
