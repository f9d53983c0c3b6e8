"""Who shares a mask with whom: everybody, or only the near ones on a ring.

How near is near enough: `hedgerow.secagg.parameters`.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from hedgerow.secagg.encoding import digest, u16
from hedgerow.secagg.parameters import Consortium


@dataclass(frozen=True, slots=True)
class Graph:
    """Sites on a ring; two are joined when they are at most `reach` steps apart."""

    order: tuple[int, ...]
    reach: int

    @classmethod
    def full(cls, parties: int) -> Graph:
        return cls(tuple(range(parties)), parties // 2)

    @classmethod
    def ring(cls, parties: int, degree: int, epoch_id: bytes) -> Graph:
        return cls(_ring_order(parties, epoch_id), degree // 2)

    def neighbours(self, site: int) -> frozenset[int]:
        n, here = len(self.order), self.order.index(site)
        steps = range(-self.reach, self.reach + 1)
        return frozenset(self.order[(here + step) % n] for step in steps) - {site}


@lru_cache(maxsize=16)
def _ring_order(parties: int, epoch_id: bytes) -> tuple[int, ...]:
    """Kept: all sites of one process draw the same ring."""
    return tuple(sorted(range(parties), key=lambda site: digest("ring", epoch_id, u16(site))))


# --------------------------------------------------------------------------------------------------
# The study's numbers as the secure sum uses them, and who shares masks with whom.


@dataclass(frozen=True, slots=True, kw_only=True)
class Parameters(Consortium):
    """A consortium that draws its graph of masks anew for every epoch."""

    @classmethod
    def of(cls, study: Consortium) -> Parameters:
        return cls(
            parties=study.parties,
            colluders=study.colluders,
            threshold=study.threshold,
            sparse=study.sparse,
        )

    @classmethod
    def default(cls, parties: int) -> Parameters:
        return cls.of(Consortium.default(parties))

    def graph(self, epoch_id: bytes) -> Graph:
        if self.sparse is None:
            return Graph.full(self.parties)
        return Graph.ring(self.parties, self.neighbourhood.degree, epoch_id)
