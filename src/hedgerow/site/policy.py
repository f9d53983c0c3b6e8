"""What a site allows, whoever asks. Refusals go out as constant codes; reasons stay in its log."""

from __future__ import annotations

from dataclasses import dataclass, field
from fractions import Fraction

from hedgerow.errors import PartyRefused
from hedgerow.privacy.accounting.budget import Placement
from hedgerow.study.terms import Study


@dataclass(frozen=True, kw_only=True)
class Policy:
    """What a site allows. Empty sets allow everything; the ceiling is per study."""

    recipes: frozenset[str] = field(default=frozenset())
    features: frozenset[str] = field(default=frozenset())
    max_epsilon: Fraction | None = None
    min_parties: int = 1
    allow_no_noise: bool = True

    def check(self, study: Study) -> None:
        """Raises the code a stranger may see; `why` says it to the site's own log."""
        if self.why(study) is not None:
            raise PartyRefused("PolicyRefused")

    def why(self, study: Study) -> str | None:
        """The reason for refusing a study, or None."""
        if self.recipes and study.recipe not in self.recipes:
            return f"recipe {study.recipe!r} is not among {sorted(self.recipes)}"
        if study.placement is Placement.NOWHERE and not self.allow_no_noise:
            return "the study adds no noise"
        if self.max_epsilon is not None and study.epsilon > self.max_epsilon:
            return f"epsilon {study.epsilon} is above the ceiling {self.max_epsilon}"
        if study.parties < self.min_parties:
            return f"{study.parties} parties are fewer than {self.min_parties}"
        strange = {g.feature for g in study.schema.grids} - self.features
        if self.features and strange:
            return f"features {sorted(strange)} are not allowed"
        return None
