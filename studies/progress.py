"""How far a computation is: plain lines with a total and an estimate, on a terminal or in a log."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TextIO

SECONDS_BETWEEN_LINES = 10.0


class Progress:
    """Says how many of how many are done, at most every ten seconds, and at the end."""

    def __init__(
        self, title: str, total: int, out: TextIO, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.title, self.total, self.done = title, total, 0
        self._out, self._clock = out, clock
        self._began = self._said = clock()
        print(f"{title}: {total} to compute", file=out, flush=True)

    def advance(self) -> None:
        self.done += 1
        now = self._clock()
        if self.done == self.total or now - self._said >= SECONDS_BETWEEN_LINES:
            self._said = now
            print(self.line(now - self._began), file=self._out, flush=True)

    def line(self, seconds: float) -> str:
        left = seconds / self.done * (self.total - self.done)
        return (
            f"{self.title}: {self.done} of {self.total}, {_spoken(seconds)} gone, "
            f"about {_spoken(left)} left"
        )


def _spoken(seconds: float) -> str:
    if seconds < 100.0:
        return f"{seconds:.0f} s"
    return f"{seconds / 60.0:.0f} min" if seconds < 6000.0 else f"{seconds / 3600.0:.1f} h"
