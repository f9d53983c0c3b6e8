"""What a site allows, whoever asks. Refusals go out as constant codes; reasons stay in its log."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction

from hedgerow.errors import PartyRefused, SpecError
from hedgerow.privacy.accounting.budget import Placement
from hedgerow.site.log import LOG
from hedgerow.study.terms import Study

FEWEST_PARTIES = 3
"""Of two sites each knows the other's part of a sum but for its noise."""


@dataclass(frozen=True)
class Volume:
    """What a study has taken at this site: rounds, bytes that left, bytes on its disk."""

    rounds: int
    sent: int
    disk: int


@dataclass(frozen=True, kw_only=True)
class Policy:
    """What a site allows: nothing, unless it says so. None in a place allows anything there."""

    recipes: frozenset[str] | None = frozenset()
    features: frozenset[str] | None = frozenset()
    placements: frozenset[Placement] = frozenset()
    max_epsilon: Fraction | None = Fraction(0)
    """For one study, like all ceilings."""
    max_delta: Fraction | None = Fraction(0)
    min_parties: int = FEWEST_PARTIES
    min_colluders: int = 1
    max_colluders: int | None = 1_000
    max_records_per_person: int | None = 100
    max_rounds: int | None = 10_000
    max_bytes: int | None = 10**10
    """Of answers that leave."""
    max_disk: int | None = 10**9
    """Bytes that its rounds keep or write down here."""

    @staticmethod
    def open() -> Policy:
        """Everything, for simulations: one process holds all rows, and nobody is a stranger."""
        return Policy(
            recipes=None,
            features=None,
            placements=frozenset(Placement),
            max_epsilon=None,
            max_delta=None,
            min_parties=1,
            min_colluders=0,
            max_colluders=None,
            max_records_per_person=None,
            max_rounds=None,
            max_bytes=None,
            max_disk=None,
        )

    def check(self, study: Study) -> None:
        """Raises the code that a stranger may see; the site's own log has the reasons."""
        self._refuse(study, list(self.reasons(study)))

    def check_volume(self, study: Study, volume: Volume) -> None:
        """The same for what a study has taken here with the round that is about to leave."""
        self._refuse(study, list(self._excesses(volume)))

    def _refuse(self, study: Study, reasons: Sequence[str]) -> None:
        if reasons:
            LOG.warning("the policy refuses %r: %s", study.name, "; ".join(reasons))
            raise PartyRefused("PolicyRefused") from SpecError("; ".join(reasons))

    def _excesses(self, volume: Volume) -> Iterator[str]:
        yield from _above("rounds", volume.rounds, self.max_rounds)
        yield from _above("bytes", volume.sent, self.max_bytes)
        yield from _above("bytes on disk", volume.disk, self.max_disk)

    def reasons(self, study: Study, rounds: int | None = None) -> Iterator[str]:
        """Every reason for refusing a study that takes so many rounds, where that is known."""
        if self.recipes is not None and study.recipe not in self.recipes:
            yield f"recipe {study.recipe!r} is not among {sorted(self.recipes)}"
        if study.placement not in self.placements:
            yield f"placement {study.placement.name.lower()!r} is not allowed"
        yield from _above("epsilon", study.epsilon, self.max_epsilon)
        yield from _above("delta", study.delta, self.max_delta)
        yield from _above("colluders", study.colluders, self.max_colluders)
        if study.colluders < self.min_colluders:
            yield f"colluders {study.colluders} are fewer than {self.min_colluders}"
        most = self.max_records_per_person
        yield from _above("records per person", study.records_per_person, most)
        yield from _above("rounds", rounds or 0, self.max_rounds)
        if study.parties < self.min_parties:
            yield f"{study.parties} parties are fewer than {self.min_parties}"
        strange = set(study.schema.names) - (self.features or frozenset())
        if self.features is not None and strange:
            yield f"features {sorted(strange)} are not allowed"


def _above(what: str, found: Fraction | int, ceiling: Fraction | int | None) -> Iterator[str]:
    if ceiling is not None and found > ceiling:
        yield f"{what} {found} is above the ceiling {ceiling}"
