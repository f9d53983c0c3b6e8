"""The graph of masks: pairs of all sites, or of neighbors on a ring.

`hedgerow.secagg.parameters` computes the degree.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from hedgerow.secagg.encoding import digest, u16
from hedgerow.secagg.parameters import MOST_RECEIPTS, Consortium


@dataclass(frozen=True, slots=True)
class Graph:
    """Sites on a ring; two are joined if they are at most `reach` steps apart."""

    order: tuple[int, ...]
    reach: int

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


# The study's numbers as the secure sum uses them, and who shares masks with whom.


@dataclass(frozen=True, slots=True, kw_only=True)
class Parameters(Consortium):
    """A consortium that draws a new graph of masks for every key session."""

    @classmethod
    def of(cls, study: Consortium) -> Parameters:
        return cls(
            n_sites=study.n_sites,
            colluders=study.colluders,
            threshold=study.threshold,
            sparse=study.sparse,
        )

    @classmethod
    def default(cls, n_sites: int) -> Parameters:
        return cls.of(Consortium.default(n_sites))

    @property
    def reach(self) -> int:
        """Rounds by which a site's knowledge of a peer's ledger may lag: two cycles of receipts."""
        return 2 * -(-self.n_sites // MOST_RECEIPTS)

    def graph(self, session_id: bytes) -> Graph:
        if self.sparse is None:
            return Graph.full(self.n_sites)
        return Graph.ring(self.n_sites, self.neighborhood.degree, session_id)
