"""The study's numbers as the secure sum uses them, and who shares masks with whom."""

from __future__ import annotations

from dataclasses import dataclass

from hedgerow.errors import SpecError
from hedgerow.secagg.graph import Graph, Neighbourhood, neighbourhood
from hedgerow.study.consortium import Consortium

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
class Parameters(Consortium):
    """The study's numbers, and who shares masks with whom."""

    sparse: Sparse | None = None

    def __post_init__(self) -> None:
        Consortium.__post_init__(self)
        if self.sparse is not None:
            if self.parties <= FULL_GRAPH_UP_TO:
                raise SpecError(
                    f"a sparse graph of {self.parties} sites saves nothing; "
                    f"it is for more than {FULL_GRAPH_UP_TO}."
                )
            _ = self.neighbourhood  # a study for which no degree exists is refused now

    @classmethod
    def of(cls, study: Consortium) -> Parameters:
        """The full graph over the sites of a study."""
        return cls(parties=study.parties, colluders=study.colluders, threshold=study.threshold)

    @classmethod
    def default(cls, parties: int) -> Parameters:
        return cls.of(Consortium.default(parties))

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
