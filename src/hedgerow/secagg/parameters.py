"""How many sites there are, how many may collude and how many must survive; the protocol version.

These numbers belong to the study that every site approved; no message can change them.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

from hedgerow.errors import ParameterError

# How many neighbors a site needs on a sparse graph of masks, and how many rebuild its self-mask.
#
# With many sites each has masks and shares for k neighbors instead of K - 1 peers: a Harary graph
# of even degree k on a ring whose order is a hash of the key session (Bell, Bonawitz, Gascon,
# Lepoint, Raykova 2020, "Secure single-server aggregation with (poly)logarithmic overhead"). Three
# events must be rare; each has its inequality below, in exact integer arithmetic:
#
# 1. the honest survivors fall apart: two disjoint runs of k/2 lost or corrupt ring neighbors;
# 2. some site has `threshold` corrupt neighbors, who could rebuild its self-mask;
# 3. some survivor has fewer than `threshold` surviving neighbors, and its mask cannot be removed.
#
# Departure: the population of 2 and 3 is n - 1, which is exact for the neighbors of one honest
# survivor. The ring covers the whole roster; a site that never joined counts as lost. The bound is
# for a coordinator that follows the protocol, since colluders could influence the order, a hash, by
# trying keys.


@dataclass(frozen=True, slots=True)
class Neighborhood:
    """How many neighbors a site has, and how many of them can rebuild its self-mask."""

    degree: int
    threshold: int


@lru_cache(maxsize=64)
def neighborhood(
    n_sites: int, corrupt: int, lost: int, sigma: int = 40, eta: int = 20
) -> Neighborhood:
    """The smallest even degree at which all three events are rare enough.

    Secrecy fails with probability at most 2^-sigma per round, recovery with at most 2^-eta.
    """
    for degree in range(2, n_sites - 1, 2):
        if stays_connected(n_sites, corrupt + lost, degree, sigma):
            lowest = _lowest_secret_threshold(n_sites, corrupt, degree, sigma)
            if lowest <= _highest_reachable_threshold(n_sites, lost, degree, eta):
                return Neighborhood(degree, lowest)
    raise ParameterError(
        f"no sparse graph of {n_sites} sites bears {corrupt} corrupt and {lost} lost ones at "
        f"2^-{sigma}; use the complete graph, or tolerate fewer."
    )


def stays_connected(n_sites: int, bad: int, degree: int, sigma: int) -> bool:
    """Event 1: n (n-k-1)/2 pairs of runs, each of k bad places out of n, below 2^-(sigma+1)."""
    runs = n_sites * (n_sites - degree - 1) * math.perm(bad, degree)
    return runs << (sigma + 1) < 2 * math.perm(n_sites, degree)


def _lowest_secret_threshold(n_sites: int, corrupt: int, degree: int, sigma: int) -> int:
    """Event 2: smallest t with n P[corrupt neighbors >= t] <= 2^-(sigma+1)."""
    ways = dict(_ways(n_sites - 1, corrupt, degree))
    all_ways = math.comb(n_sites - 1, degree)
    tail, threshold = 0, degree + 1
    while threshold > 2:
        tail += ways.get(threshold - 1, 0)
        if n_sites * tail << (sigma + 1) > all_ways:
            break
        threshold -= 1
    return threshold


def _highest_reachable_threshold(n_sites: int, lost: int, degree: int, eta: int) -> int:
    """Event 3: largest t with n P[surviving neighbors < t] <= 2^-eta."""
    ways = dict(_ways(n_sites - 1, n_sites - lost - 1, degree))
    all_ways = math.comb(n_sites - 1, degree)
    tail, threshold = 0, 0
    while threshold < degree:
        tail += ways.get(threshold, 0)
        if n_sites * tail << eta > all_ways:
            break
        threshold += 1
    return threshold


def _ways(population: int, n_marked: int, draws: int) -> Iterator[tuple[int, int]]:
    """(x, number of ways to draw exactly x marked ones): hypergeometric, not normalized."""
    plain = population - n_marked
    x = max(0, draws - plain)
    ways = math.comb(n_marked, x) * math.comb(plain, draws - x)
    while x <= min(n_marked, draws):
        yield x, ways
        ways = ways * (n_marked - x) * (draws - x) // ((x + 1) * (plain - draws + x + 1))
        x += 1


PROTOCOL = 3
"""Version of the secure sum's messages; part of the study's hash and of every header."""

MOST_RECEIPTS = 8
"""Signed headers of participants that one ROUND carries."""

MAX_SITES = 2**16 - 2
"""Ids are 16 bits wide; the last two mean the coordinator and everybody."""

COMPLETE_UP_TO = 200
"""Up to so many sites a sparse graph of masks saves nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sparse:
    """Masks between neighbors on a ring only, instead of between all pairs.

    Secrecy then fails with probability at most 2^-sigma per round. A study pays for that out of its
    delta, for `rounds` rounds, and sites answer no more. This covers a coordinator that is curious,
    not one that lies. `eta` bounds likewise the rounds that are lost needlessly.
    """

    sigma: int = 40
    eta: int = 20
    rounds: int = 1000

    def __post_init__(self) -> None:
        if self.sigma < 40 or self.eta < 20 or self.rounds < 1:
            raise ParameterError(
                f"a sparse graph with sigma {self.sigma}, eta {self.eta} and {self.rounds} rounds "
                "guarantees too little; use sigma >= 40, eta >= 20 and one round or more."
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class Parameters:
    """`threshold` = fewest survivors that may be opened = shares that rebuild = certificate size.

    Of any opened sum at least `honest = threshold - colluders` summands come from honest sites;
    noise is calibrated to that many shares. Each site is an adversary of the others, so at least
    one colluder is assumed.
    """

    n_sites: int
    colluders: int
    threshold: int
    sparse: Sparse | None = None

    def __post_init__(self) -> None:
        if not 2 <= self.n_sites <= MAX_SITES:
            raise ParameterError(f"{self.n_sites} sites cannot form a sum; use 2 to {MAX_SITES}.")
        if self.colluders < 1:
            raise ParameterError(
                f"{self.colluders} colluders are tolerated; use 1 or more, since each site is one "
                "to the others."
            )
        check_counts(self.n_sites, self.colluders, self.threshold)
        if self.sparse is not None:
            if self.n_sites <= COMPLETE_UP_TO:
                raise ParameterError(
                    f"a sparse graph of {self.n_sites} sites saves nothing; "
                    f"it is for more than {COMPLETE_UP_TO}."
                )
            _ = self.neighborhood  # raises if no degree exists

    @classmethod
    def default(cls, n_sites: int) -> Parameters:
        """A third may collude, a fifth may be lost; of two or three sites none may be lost."""
        lost = 0 if n_sites <= 3 else max(1, n_sites // 5)
        return cls(n_sites=n_sites, colluders=max(1, (n_sites - 1) // 3), threshold=n_sites - lost)

    @property
    def honest(self) -> int:
        return self.threshold - self.colluders

    @property
    def reach(self) -> int:
        """Rounds by which a site's knowledge of a peer's ledger may lag: two cycles of receipts."""
        return 2 * -(-self.n_sites // MOST_RECEIPTS)

    @property
    def neighborhood(self) -> Neighborhood:
        """The number of neighbors of a site, and how many of them rebuild its self-mask."""
        if self.sparse is None:
            return Neighborhood(self.n_sites - 1, self.threshold)
        lost = self.n_sites - self.threshold
        return neighborhood(self.n_sites, self.colluders, lost, self.sparse.sigma, self.sparse.eta)


def check_counts(n_sites: int, colluders: int, threshold: int) -> None:
    """Raises for numbers that count on more noise shares than there can be."""
    if not 0 <= colluders < threshold <= n_sites:
        raise ParameterError(
            f"threshold is {threshold} and colluders is {colluders}, which do not fit {n_sites} "
            "sites; use colluders < threshold <= sites."
        )
