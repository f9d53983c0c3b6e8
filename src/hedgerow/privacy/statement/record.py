"""What happened in a run, for people: rounds, bytes, what was asked and charged. No row count."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from typing import Any

from hedgerow.privacy.queries import Query
from hedgerow.schema.problems import html_table


@dataclass(frozen=True, slots=True)
class RoundRecord:
    """One round: what was asked, how much left each site, how much came in, and from how many.

    Of a `void` round nobody got an answer; its charge stays and its bytes are not counted.
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
    def bytes_per_party(self) -> int:
        """Bytes one party sends and receives in the whole run."""
        return sum(r.bytes_out + r.bytes_in for r in self.rounds)

    def to_dict(self) -> dict[str, Any]:
        """For JSON; `from_dict` gives the equal record back."""
        return asdict(self)

    @staticmethod
    def from_dict(d: dict[str, Any]) -> RunRecord:
        return RunRecord([RoundRecord.from_dict(r) for r in d["rounds"]])

    def __repr__(self) -> str:
        rounds = "1 round" if len(self.rounds) == 1 else f"{len(self.rounds)} rounds"
        return f"RunRecord({rounds}, {self.bytes_per_party} bytes per party)"

    def _repr_html_(self) -> str:
        lines = [
            (f"round {r.number}", f"{r.bytes_out + r.bytes_in} bytes", "; ".join(r.manifest))
            for r in self.rounds
        ]
        return html_table(repr(self), lines, is_open=False)


@dataclass(frozen=True, slots=True)
class Progress:
    """A public event: a round was opened or answered, or there is a note for people who watch."""

    round: int = 0
    queries: tuple[Query, ...] = ()
    done: bool = False
    note: str = ""
    sites: tuple[str, ...] = ()
    """Whom the note is about."""


Listener = Callable[[Progress], None]


def silent(event: Progress) -> None:
    """Nobody listens."""
