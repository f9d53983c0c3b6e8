"""Queries in words, for people who approve studies and read statements."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import reduce


@dataclass(frozen=True, slots=True)
class Phrase:
    """Words with counted nouns in them: "in {range}" and ("range", 5, 32): "in 5 to 32 ranges"."""

    pattern: str
    counts: tuple[tuple[str, int, int], ...] = ()

    def __str__(self) -> str:
        return self.said()

    def said(self, **instead: str) -> str:
        """The words; a noun may be replaced, as by the names of the things it counts."""
        nouns = {noun: _count_words(noun, low, high) for noun, low, high in self.counts}
        return self.pattern.format(**nouns | instead)

    def then(self, other: Phrase) -> Phrase:
        return Phrase(f"{self.pattern} {other.pattern}", self.counts + other.counts)


def condensed(phrases: Iterable[Phrase]) -> list[Phrase]:
    """One phrase for all of a pattern, its counts from the lowest to the highest."""
    by_pattern: dict[str, list[Phrase]] = {}
    for phrase in phrases:
        by_pattern.setdefault(phrase.pattern, []).append(phrase)
    return [reduce(_widen_counts, alike) for alike in by_pattern.values()]


def _widen_counts(first: Phrase, second: Phrase) -> Phrase:
    counts = (
        (noun, min(low, low2), max(high, high2))
        for (noun, low, high), (_, low2, high2) in zip(first.counts, second.counts, strict=True)
    )
    return Phrase(first.pattern, tuple(counts))


def _count_words(noun: str, low: int, high: int) -> str:
    number = f"{low}" if low == high else f"{low} to {high}"
    return f"{number} {noun}" if high == 1 else f"{number} {noun}s"


def counting(noun: str, count: int) -> tuple[str, int, int]:
    """A noun that is counted exactly."""
    return noun, count, count
