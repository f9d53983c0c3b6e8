"""The study's numbers as the secure sum uses them, and who shares masks with whom."""

from __future__ import annotations

from dataclasses import dataclass

from hedgerow.secagg.graph import Graph
from hedgerow.study.consortium import Consortium


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
