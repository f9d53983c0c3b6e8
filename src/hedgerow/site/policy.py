"""What a site allows, whoever asks. Refusals go out as constant codes; reasons stay in its log."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction

from hedgerow.errors import PartyRefused, SpecError
from hedgerow.privacy.accounting.budget import Placement
from hedgerow.site.log import LOG
from hedgerow.study.terms import Study

FEWEST_PARTIES = 3
"""Of two sites each knows the other's part of a sum but for its noise."""


@dataclass(frozen=True, kw_only=True)
class Policy:
    """What a site allows: nothing, unless it says so. None in a place allows anything there."""

    recipes: frozenset[str] | None = frozenset()
    features: frozenset[str] | None = frozenset()
    placements: frozenset[Placement] = frozenset()
    max_epsilon: Fraction | None = Fraction(0)
    """For one study."""
    min_parties: int = FEWEST_PARTIES

    @staticmethod
    def open() -> Policy:
        """Everything, for simulations: one process holds all rows, and nobody is a stranger."""
        return Policy(
            recipes=None,
            features=None,
            placements=frozenset(Placement),
            max_epsilon=None,
            min_parties=1,
        )

    def check(self, study: Study) -> None:
        """Raises the code that a stranger may see; the site's own log has the reasons."""
        reasons = list(self.reasons(study))
        if reasons:
            LOG.warning("the policy refuses %r: %s", study.name, "; ".join(reasons))
            raise PartyRefused("PolicyRefused") from SpecError("; ".join(reasons))

    def reasons(self, study: Study) -> Iterator[str]:
        """Every reason for refusing a study."""
        if self.recipes is not None and study.recipe not in self.recipes:
            yield f"recipe {study.recipe!r} is not among {sorted(self.recipes)}"
        if study.placement not in self.placements:
            yield f"placement {study.placement.name.lower()!r} is not allowed"
        if self.max_epsilon is not None and study.epsilon > self.max_epsilon:
            yield f"epsilon {study.epsilon} is above the ceiling {self.max_epsilon}"
        if study.parties < self.min_parties:
            yield f"{study.parties} parties are fewer than {self.min_parties}"
        strange = set(study.schema.names) - (self.features or frozenset())
        if self.features is not None and strange:
            yield f"features {sorted(strange)} are not allowed"
