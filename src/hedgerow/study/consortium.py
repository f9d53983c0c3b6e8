"""How many sites there are, how many may collude, how many must survive, and what they speak.

These numbers belong to the study that every site approved; no message can change them. They
stand below the secure sum, which uses them, and beside the study, which names them.
"""

from __future__ import annotations

from dataclasses import dataclass

from hedgerow.errors import SpecError

PROTOCOL = 2
"""Version of the secure sum's messages; part of the study's hash and of every header."""

MOST_PARTIES = 2**16 - 2
"""Ids are 16 bits wide; the last two mean the coordinator and everybody."""


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

    def __post_init__(self) -> None:
        if not 2 <= self.parties <= MOST_PARTIES:
            raise SpecError(f"{self.parties} sites cannot form a sum; use 2 to {MOST_PARTIES}.")
        if self.colluders < 1:
            raise SpecError(
                f"{self.colluders} colluders are tolerated; use 1 or more, since each site is one "
                "to the others."
            )
        check_counts(self.parties, self.colluders, self.threshold)

    @classmethod
    def default(cls, parties: int) -> Consortium:
        """A third may collude, a fifth may be lost; of two or three sites nobody may be lost."""
        lost = 0 if parties <= 3 else max(1, parties // 5)
        return cls(parties=parties, colluders=max(1, (parties - 1) // 3), threshold=parties - lost)

    @property
    def honest(self) -> int:
        return self.threshold - self.colluders


def check_counts(parties: int, colluders: int, threshold: int) -> None:
    """Refuses numbers under which more noise shares would be counted on than can be there."""
    if not 0 <= colluders < threshold <= parties:
        raise SpecError(
            f"{colluders} colluders and a threshold of {threshold} do not fit {parties} sites; "
            "use colluders < threshold <= sites."
        )
