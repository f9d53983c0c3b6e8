"""What one round may hold, how a longer list is cut into rounds, and how large a recipe may become.

A list of queries that belong together may be longer than a bundle. None of them depends on
another's answer, and the ledger's total follows from the charges and not from the rounds, so the
list is cut, in order, and asked in as many rounds as it takes. What no cutting helps is refused
before the first charge: a recipe says beforehand how much it may ask at most.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from hedgerow.errors import UnsupportedQuery
from hedgerow.queries import Query
from hedgerow.study.limits import (
    MOST_BYTES,
    MOST_CANDIDATES,
    MOST_INTEGERS,
    MOST_QUERIES,
    length_of,
)
from hedgerow.study.weight import Weight
from hedgerow.values.fitting import MOST_STEPS
from hedgerow.values.trees import MOST_LEAVES


# ----------------------------------------------------------------------------------------- cutting
def cut(queries: Sequence[Query], *, travels: bool) -> list[list[Query]]:
    """The queries as bundles, in order, each as long as one may be.

    `travels`: whether they go as bytes. Refuses a query that is too large alone, before anything
    of the list is asked.
    """
    parts, integers, weight = list[list[Query]](), 0, Weight()
    for query in queries:
        own = length_of([query])
        integers += own
        heavy = travels and weight.with_query(query) > MOST_BYTES
        if not parts or len(parts[-1]) == MOST_QUERIES or integers > MOST_INTEGERS or heavy:
            parts.append([])
            integers, weight = own, Weight()
            _require_room(query, own, weight if travels else None)
        parts[-1].append(query)
    return parts


def _require_room(query: Query, integers: int, weight: Weight | None) -> None:
    size = 0 if weight is None else weight.with_query(query)
    if integers > MOST_INTEGERS or size > MOST_BYTES:
        raise UnsupportedQuery(
            f"one query asks for {integers} integers in about {size} bytes; a round holds "
            f"{MOST_INTEGERS} and {MOST_BYTES}. Nothing of it was asked, and what earlier rounds "
            "charged stays. Ask with fewer or smaller trees, fewer columns or fewer bins."
        )


# ------------------------------------------------------------------------------------------- sizes
@dataclass(frozen=True, kw_only=True)
class Size:
    """The most that a flow asks, known from public values before it runs.

    The first three are of one round, the next two of one query, then leaves of one tree, and the
    rounds of the whole flow: among sites, and with one holder, to whom nothing travels.
    """

    queries: int = 0
    integers: int = 0
    bytes: int = 0
    candidates: int = 0
    steps: int = 0
    leaves: int = 0
    rounds: int = 0
    rounds_alone: int = 0

    @staticmethod
    def of_step(
        queries: int = 1,
        *,
        integers: int = 0,
        bytes: int = 0,
        shared: int = 0,
        candidates: int = 0,
        steps: int = 0,
        leaves: int = 0,
    ) -> Size:
        """One step of a flow: so many queries of at most this size, cut where they must be.

        `shared` are bytes of values that all of them name.
        """
        alone = min(MOST_QUERIES, MOST_INTEGERS // max(integers, 1))
        together = min(alone, (MOST_BYTES - shared) // max(bytes, 1))
        return Size(
            queries=min(queries, MOST_QUERIES),
            integers=max(integers, min(queries * integers, MOST_INTEGERS)),
            bytes=max(shared + bytes, min(shared + queries * bytes, MOST_BYTES)),
            candidates=candidates,
            steps=steps,
            leaves=leaves,
            rounds=-(-queries // max(together, 1)),
            rounds_alone=-(-queries // max(alone, 1)),
        )

    def __add__(self, later: Size) -> Size:
        """One after the other."""
        alone = self.rounds_alone + later.rounds_alone
        return self._larger(later, self.rounds + later.rounds, alone)

    def __or__(self, other: Size) -> Size:
        """One or the other."""
        alone = max(self.rounds_alone, other.rounds_alone)
        return self._larger(other, max(self.rounds, other.rounds), alone)

    def __mul__(self, times: int) -> Size:
        """So many times."""
        if not times:
            return Size()
        return self._larger(self, self.rounds * times, self.rounds_alone * times)

    def _larger(self, other: Size, rounds: int, alone: int) -> Size:
        return Size(
            queries=max(self.queries, other.queries),
            integers=max(self.integers, other.integers),
            bytes=max(self.bytes, other.bytes),
            candidates=max(self.candidates, other.candidates),
            steps=max(self.steps, other.steps),
            leaves=max(self.leaves, other.leaves),
            rounds=rounds,
            rounds_alone=alone,
        )

    def rounds_of(self, parties: int) -> int:
        return self.rounds if parties > 1 else self.rounds_alone

    def excess(self, *, travels: bool, rounds: int | None = None) -> str | None:
        """What is more than a study can carry, and how much that is; None if all fits."""
        for name, (most, words) in LIMITS.items():
            found = getattr(self, name)
            if found > most and (travels or name != "bytes"):
                return f"{found} {words}, and {most} are allowed"
        if rounds is not None and self.rounds > rounds:
            return f"{self.rounds} rounds, and the study's sparse graph was paid for {rounds}"
        return None


LIMITS: Final = {
    "integers": (MOST_INTEGERS, "integers in one answer"),
    "bytes": (MOST_BYTES, "bytes in one letter"),
    "candidates": (MOST_CANDIDATES, "candidates in one private choice"),
    "steps": (MOST_STEPS, "tests on the way to one node"),
    "leaves": (MOST_LEAVES, "leaves in one tree"),
}
"""By the field of a size: what no cutting into rounds changes."""
