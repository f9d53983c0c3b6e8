"""How many sites there are, how many may collude, and how many must survive.

These numbers belong to the study that every site approved; no message can change them.
"""

from __future__ import annotations

from dataclasses import dataclass

from hedgerow.errors import SpecError
from hedgerow.secagg.graph import Graph, Neighbourhood, neighbourhood

MOST_PARTIES = 2**16 - 2  # ids are 16 bits wide and the last one is the coordinator's
FULL_GRAPH_UP_TO = 200


@dataclass(frozen=True, slots=True)
class Sparse:
    """Ask for masks between ring neighbours only.

    Secrecy then fails with probability at most 2^-sigma a round, which belongs into delta:
    a study with delta = 0 uses the full graph. Covers a coordinator that is curious, not one
    that lies. `eta` bounds, in the same way, the rounds that are lost without need.
    """

    sigma: int = 40
    eta: int = 20

    def __post_init__(self) -> None:
        if self.sigma < 40 or self.eta < 20:
            raise SpecError(
                f"a sparse graph with sigma {self.sigma} and eta {self.eta} promises too little; "
                "use sigma >= 40 and eta >= 20."
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class Parameters:
    """`threshold` = fewest survivors that may be opened = shares that rebuild = certificate size.

    Of any opened sum at least `honest = threshold - colluders` summands come from honest
    sites; noise is calibrated to that many shares.
    """

    parties: int
    colluders: int
    threshold: int
    sparse: Sparse | None = None

    def __post_init__(self) -> None:
        _check_counts(self.parties, self.colluders, self.threshold)
        if self.sparse is not None:
            if self.parties <= FULL_GRAPH_UP_TO:
                raise SpecError(
                    f"a sparse graph of {self.parties} sites saves nothing; "
                    f"it is for more than {FULL_GRAPH_UP_TO}."
                )
            _ = self.neighbourhood  # a study for which no degree exists is refused now

    @classmethod
    def default(cls, parties: int) -> Parameters:
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

    def graph(self, epoch_id: bytes) -> Graph:
        if self.sparse is None:
            return Graph.full(self.parties)
        return Graph.ring(self.parties, self.neighbourhood.degree, epoch_id)


def _check_counts(parties: int, colluders: int, threshold: int) -> None:
    if not 2 <= parties <= MOST_PARTIES:
        raise SpecError(f"{parties} sites cannot form a sum; use 2 to {MOST_PARTIES}.")
    if not 1 <= colluders < threshold <= parties:
        raise SpecError(
            f"{colluders} colluders and a threshold of {threshold} do not fit {parties} sites; "
            "use 1 <= colluders < threshold <= sites."
        )
