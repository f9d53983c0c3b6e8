"""The graph of masks: pairs of all sites, or of neighbors on a ring.

`hedgerow.secagg.parameters` computes the degree.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from hedgerow.secagg.encoding import digest, u16
from hedgerow.secagg.parameters import Parameters


@dataclass(frozen=True, slots=True)
class Graph:
    """Sites on a ring; two are joined if they are at most `reach` steps apart."""

    order: tuple[int, ...]
    reach: int

    @classmethod
    def of(cls, parameters: Parameters, session_id: bytes) -> Graph:
        """The graph of a key session: a new one for each."""
        if parameters.sparse is None:
            return cls.full(parameters.n_sites)
        return cls.ring(parameters.n_sites, parameters.neighborhood.degree, session_id)

    @classmethod
    def full(cls, n_sites: int) -> Graph:
        return cls(tuple(range(n_sites)), n_sites // 2)

    @classmethod
    def ring(cls, n_sites: int, degree: int, session_id: bytes) -> Graph:
        return cls(_ring_order(n_sites, session_id), degree // 2)

    def neighbors(self, site: int) -> frozenset[int]:
        n, here = len(self.order), self.order.index(site)
        steps = range(-self.reach, self.reach + 1)
        return frozenset(self.order[(here + step) % n] for step in steps) - {site}


@lru_cache(maxsize=16)
def _ring_order(n_sites: int, session_id: bytes) -> tuple[int, ...]:
    """Cached: all sites of one process draw the same ring."""
    return tuple(sorted(range(n_sites), key=lambda site: digest("ring", session_id, u16(site))))
