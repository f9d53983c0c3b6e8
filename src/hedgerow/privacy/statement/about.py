"""What people say of a model and no computation knows: who made it, for what, where and when."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from hedgerow.errors import SpecError
from hedgerow.schema.visible import has_hidden


@dataclass(frozen=True)
class Curator:
    """Who publishes the model. `kind` is one of those that the deployments registry lists."""

    name: str
    kind: str | None = None


@dataclass(frozen=True, kw_only=True)
class About:
    """As a study's file says it; the coordinator's word, which its signature covers."""

    curators: tuple[Curator, ...] = ()
    intended_use: str | None = None
    region: str | None = None
    sector: str | None = None
    publication_date: str | None = None

    def __post_init__(self) -> None:
        """Pages and terminals show it, whoever wrote it; line breaks are its own."""
        for title, words in self.lines():
            if has_hidden(words.replace("\n", " ")):
                raise SpecError(
                    f"{title} of the model is {words!r}; use no control characters or marks of "
                    "direction."
                )

    @staticmethod
    def from_dict(d: dict[str, Any]) -> About:
        return About(**{**d, "curators": tuple(Curator(**one) for one in d["curators"])})

    def lines(self) -> Iterator[tuple[str, str]]:
        """Titles and words of what is said."""
        if self.curators:
            yield "curators", ", ".join(one.name for one in self.curators)
        told = {
            "intended use": self.intended_use,
            "region": self.region,
            "sector": self.sector,
            "published": self.publication_date,
        }
        yield from ((title, words) for title, words in told.items() if words)
