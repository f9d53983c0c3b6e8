"""The record of a run, for people: rounds, bytes, queries and charges; no row counts."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field
from typing import Any

from hedgerow.errors import ParameterError
from hedgerow.privacy.queries import Query
from hedgerow.schema.visible import has_hidden, html_table


@dataclass(frozen=True, slots=True)
class RoundRecord:
    """One round: its queries, the data sent by each site, the data received, and the sites.

    A `void` round has no answer; its charge stays and its bytes are not counted.
    """

    number: int
    manifest: tuple[str, ...]
    integers: int = 0
    bytes_out: int = 0
    bytes_in: int = 0
    void: bool = False
    sites: int | None = None

    @staticmethod
    def from_dict(d: dict[str, Any]) -> RoundRecord:
        return RoundRecord(**d | {"manifest": tuple(d["manifest"])})


@dataclass(repr=False)
class RunRecord:
    """All rounds of a run, in order."""

    rounds: list[RoundRecord] = field(default_factory=list)

    @property
    def bytes_per_site(self) -> int:
        """Bytes one site sends and receives in the whole run."""
        return sum(r.bytes_out + r.bytes_in for r in self.rounds)

    def to_dict(self) -> dict[str, Any]:
        """For JSON; `from_dict` is the inverse."""
        return asdict(self)

    @staticmethod
    def from_dict(d: dict[str, Any]) -> RunRecord:
        return RunRecord([RoundRecord.from_dict(r) for r in d["rounds"]])

    def __repr__(self) -> str:
        rounds = "1 round" if len(self.rounds) == 1 else f"{len(self.rounds)} rounds"
        return f"RunRecord({rounds}, {self.bytes_per_site} bytes per site)"

    def _repr_html_(self) -> str:
        lines = [
            (f"round {r.number}", f"{r.bytes_out + r.bytes_in} bytes", "; ".join(r.manifest))
            for r in self.rounds
        ]
        return html_table(repr(self), lines, is_open=False)


@dataclass(frozen=True, slots=True)
class Progress:
    """A public event: a round was opened or answered, or there is a note for observers."""

    round: int = 0
    queries: tuple[Query, ...] = ()
    done: bool = False
    note: str = ""
    sites: tuple[str, ...] = ()
    """The sites that the note is about."""


Listener = Callable[[Progress], None]


def silent(event: Progress) -> None:
    """A listener that ignores all events."""


# What the publisher states about a model, beyond what can be computed.


@dataclass(frozen=True)
class Curator:
    """The publisher of the model. `kind` is one of the deployments registry's."""

    name: str
    kind: str | None = None


@dataclass(frozen=True, kw_only=True)
class About:
    """The description in a study's file; stated by the coordinator and covered by its signature."""

    curators: tuple[Curator, ...] = ()
    intended_use: str | None = None
    region: str | None = None
    sector: str | None = None
    publication_date: str | None = None

    def __post_init__(self) -> None:
        """Refuses hidden characters, since pages and terminals show these texts."""
        for title, words in self.lines():
            if has_hidden(words.replace("\n", " ")):
                raise ParameterError(
                    f"{title} of the model is {words!r}; use no control characters or marks of "
                    "direction."
                )

    @staticmethod
    def from_dict(d: dict[str, Any]) -> About:
        return About(**{**d, "curators": tuple(Curator(**curator) for curator in d["curators"])})

    def lines(self) -> Iterator[tuple[str, str]]:
        """Titles and texts of the fields that are filled in."""
        if self.curators:
            yield "curators", ", ".join(curator.name for curator in self.curators)
        descriptions = {
            "intended use": self.intended_use,
            "region": self.region,
            "sector": self.sector,
            "published": self.publication_date,
        }
        yield from ((title, words) for title, words in descriptions.items() if words)
