"""How many neighbours a site needs on a sparse graph of masks, and how many rebuild its self-mask.

With many sites each keeps masks and shares for k neighbours instead of K - 1 peers: a Harary
graph of even degree k on a ring whose order is a hash of the epoch (Bell, Bonawitz, Gascon,
Lepoint, Raykova 2020, "Secure single-server aggregation with (poly)logarithmic overhead").
Three events must be rare; each has its inequality below, in exact integer arithmetic:

1. the honest survivors fall apart: two disjoint runs of k/2 lost or corrupt ring neighbours;
2. some site has `threshold` corrupt neighbours, who could rebuild its self-mask;
3. some survivor has fewer than `threshold` surviving neighbours, and its mask cannot come off.

Departure: the population of 2 and 3 is n - 1, which is exact for the neighbours of one honest
survivor. The ring covers the whole roster; a site that never turned up counts as lost.
The bound is for a coordinator that keeps to the protocol, since the order is a hash that
colluders could grind by trying keys.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

from hedgerow.errors import SpecError


@dataclass(frozen=True, slots=True)
class Neighbourhood:
    """How many neighbours a site has, and how many of them can rebuild its self-mask."""

    degree: int
    threshold: int


@lru_cache(maxsize=64)
def neighbourhood(
    parties: int, corrupt: int, lost: int, sigma: int = 40, eta: int = 20
) -> Neighbourhood:
    """The smallest even degree at which all three events are rare enough.

    Secrecy fails with probability at most 2^-sigma a round, recovery with at most 2^-eta.
    """
    for degree in range(2, parties - 1, 2):
        if stays_connected(parties, corrupt + lost, degree, sigma):
            lowest = _lowest_secret_threshold(parties, corrupt, degree, sigma)
            if lowest <= _highest_reachable_threshold(parties, lost, degree, eta):
                return Neighbourhood(degree, lowest)
    raise SpecError(
        f"no sparse graph of {parties} sites bears {corrupt} corrupt and {lost} lost ones at "
        f"2^-{sigma}; use the complete graph, or tolerate fewer."
    )


def stays_connected(parties: int, bad: int, degree: int, sigma: int) -> bool:
    """Event 1: n (n-k-1)/2 pairs of runs, each of k bad places out of n, below 2^-(sigma+1)."""
    runs = parties * (parties - degree - 1) * math.perm(bad, degree)
    return runs << (sigma + 1) < 2 * math.perm(parties, degree)


def _lowest_secret_threshold(parties: int, corrupt: int, degree: int, sigma: int) -> int:
    """Event 2: smallest t with n P[corrupt neighbours >= t] <= 2^-(sigma+1)."""
    ways = dict(_ways(parties - 1, corrupt, degree))
    allowed = math.comb(parties - 1, degree)
    tail, threshold = 0, degree + 1
    while threshold > 2:
        tail += ways.get(threshold - 1, 0)
        if parties * tail << (sigma + 1) > allowed:
            break
        threshold -= 1
    return threshold


def _highest_reachable_threshold(parties: int, lost: int, degree: int, eta: int) -> int:
    """Event 3: largest t with n P[surviving neighbours < t] <= 2^-eta."""
    ways = dict(_ways(parties - 1, parties - lost - 1, degree))
    allowed = math.comb(parties - 1, degree)
    tail, threshold = 0, 0
    while threshold < degree:
        tail += ways.get(threshold, 0)
        if parties * tail << eta > allowed:
            break
        threshold += 1
    return threshold


def _ways(population: int, marked: int, draws: int) -> Iterator[tuple[int, int]]:
    """(x, number of ways to draw exactly x marked ones): hypergeometric, not yet divided."""
    plain = population - marked
    x = max(0, draws - plain)
    ways = math.comb(marked, x) * math.comb(plain, draws - x)
    while x <= min(marked, draws):
        yield x, ways
        ways = ways * (marked - x) * (draws - x) // ((x + 1) * (plain - draws + x + 1))
        x += 1
