"""What happened in a run, for people: rounds, bytes, what was asked and charged. No row count."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class RoundRecord:
    """One round: what was asked, how much left each site and how much came in."""

    number: int
    manifest: tuple[str, ...]
    integers: int
    bytes_out: int
    bytes_in: int


@dataclass
class RunRecord:
    rounds: list[RoundRecord] = field(default_factory=list)

    @property
    def bytes_per_party(self) -> int:
        """Bytes one party sends and receives in the whole run."""
        return sum(r.bytes_out + r.bytes_in for r in self.rounds)

    def to_dict(self) -> dict[str, Any]:
        return {"rounds": [asdict(r) | {"manifest": list(r.manifest)} for r in self.rounds]}

    @staticmethod
    def from_dict(saved: Mapping[str, Any]) -> RunRecord:
        rounds = [RoundRecord(**r | {"manifest": tuple(r["manifest"])}) for r in saved["rounds"]]
        return RunRecord(rounds)


@dataclass(frozen=True, slots=True)
class Progress:
    """A public event: a round was opened or answered."""

    round: int
    queries: int
    done: bool


Listener = Callable[[Progress], None]


def silent(event: Progress) -> None:
    """Nobody listens."""
