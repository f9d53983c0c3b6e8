"""A carrier that does to letters what networks do; from a seed, so that every run is the same."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence

from hedgerow.federation.exchange import Patience, Timing

PATIENT = Timing(answer_seconds=1, asks=10_000, patience_seconds=1e9, return_seconds=1e9)


class Lossy:
    """Loses a letter or its answer, delivers it twice, or gives an answer to a later question."""

    def __init__(
        self, sites: Mapping[str, Callable[[bytes], bytes]], seed: int, chance: float = 0.15
    ) -> None:
        self._sites, self._random, self._chance = dict(sites), random.Random(seed), chance
        self._late: dict[str, list[bytes]] = {name: [] for name in sites}
        self._old: dict[str, bytes] = {}
        self.lost = self.repeated = self.delayed = 0

    def ask(self, letters: Mapping[str, bytes], timeout: float) -> dict[str, bytes]:
        order = list(letters)
        self._random.shuffle(order)
        answers = {name: self._one(name, letters[name]) for name in order}
        return {name: answer for name, answer in answers.items() if answer is not None}

    def _one(self, name: str, letter: bytes) -> bytes | None:
        if self._happens():
            self.lost += 1
            return None
        if self._happens():
            self.repeated += 1
            self._late[name].append(self._sites[name](self._old.get(name, letter)))
        answer = self._sites[name](letter)
        self._old[name] = letter
        if self._happens():
            self.lost += 1
            return None
        if self._happens():
            self.delayed += 1
            self._late[name].append(answer)
            return None
        if self._late[name] and self._happens():
            return self._late[name].pop(0)
        return answer

    def _happens(self) -> bool:
        return self._random.random() < self._chance


class Clock:
    """Time that passes when somebody waits, and a little with every look."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        self.now += 0.001
        return self.now

    def wait(self, seconds: float) -> None:
        self.now += seconds


def unhurried(names: Sequence[str], timing: Timing = PATIENT) -> Patience:
    """By a clock of its own, so that a slow machine changes nothing."""
    clock = Clock()
    return Patience(names, timing, clock=clock, wait=clock.wait)
