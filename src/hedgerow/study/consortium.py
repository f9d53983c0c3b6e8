"""How many sites there are, how many may collude, how many must survive, and what they speak.

These numbers belong to the study that every site approved; no message can change them. They
stand below the secure sum, which uses them, and beside the study, which names them.
"""

from __future__ import annotations

from dataclasses import dataclass

from hedgerow.errors import SpecError
from hedgerow.study.neighbourhood import Neighbourhood, neighbourhood

PROTOCOL = 2
"""Version of the secure sum's messages; part of the study's hash and of every header."""

MOST_PARTIES = 2**16 - 2
"""Ids are 16 bits wide; the last two mean the coordinator and everybody."""

COMPLETE_UP_TO = 200
"""Sites among whom a sparse graph of masks saves nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sparse:
    """Masks between neighbours on a ring only; without it everybody shares one with everybody.

    Secrecy then fails with probability at most 2^-sigma a round. A study pays for that out of its
    delta, for `rounds` of them, and sites answer no more. Covers a coordinator that is curious,
    not one that lies. `eta` bounds, in the same way, the rounds that are lost without need.
    """

    sigma: int = 40
    eta: int = 20
    rounds: int = 1000

    def __post_init__(self) -> None:
        if self.sigma < 40 or self.eta < 20 or self.rounds < 1:
            raise SpecError(
                f"a sparse graph with sigma {self.sigma}, eta {self.eta} and {self.rounds} rounds "
                "promises too little; use sigma >= 40, eta >= 20 and one round or more."
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class Consortium:
    """`threshold` = fewest survivors that may be opened = shares that rebuild = certificate size.

    Of any opened sum at least `honest = threshold - colluders` summands come from honest
    sites; noise is calibrated to that many shares. A site is always at least an adversary of
    the others, so one colluder is the least that may be counted on.
    """

    parties: int
    colluders: int
    threshold: int
    sparse: Sparse | None = None

    def __post_init__(self) -> None:
        if not 2 <= self.parties <= MOST_PARTIES:
            raise SpecError(f"{self.parties} sites cannot form a sum; use 2 to {MOST_PARTIES}.")
        if self.colluders < 1:
            raise SpecError(
                f"{self.colluders} colluders are tolerated; use 1 or more, since each site is one "
                "to the others."
            )
        check_counts(self.parties, self.colluders, self.threshold)
        if self.sparse is not None:
            if self.parties <= COMPLETE_UP_TO:
                raise SpecError(
                    f"a sparse graph of {self.parties} sites saves nothing; "
                    f"it is for more than {COMPLETE_UP_TO}."
                )
            _ = self.neighbourhood  # a study for which no degree exists is refused now

    @classmethod
    def default(cls, parties: int) -> Consortium:
        """A third may collude, a fifth may be lost; of two or three sites nobody may be lost."""
        lost = 0 if parties <= 3 else max(1, parties // 5)
        return cls(parties=parties, colluders=max(1, (parties - 1) // 3), threshold=parties - lost)

    @property
    def honest(self) -> int:
        return self.threshold - self.colluders

    @property
    def neighbourhood(self) -> Neighbourhood:
        """Neighbours of a site, and how many of them rebuild its self-mask."""
        if self.sparse is None:
            return Neighbourhood(self.parties - 1, self.threshold)
        lost = self.parties - self.threshold
        return neighbourhood(self.parties, self.colluders, lost, self.sparse.sigma, self.sparse.eta)


def check_counts(parties: int, colluders: int, threshold: int) -> None:
    """Refuses numbers under which more noise shares would be counted on than can be there."""
    if not 0 <= colluders < threshold <= parties:
        raise SpecError(
            f"threshold is {threshold} and colluders is {colluders}, which do not fit {parties} "
            "sites; use colluders < threshold <= sites."
        )
