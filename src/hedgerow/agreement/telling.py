"""What a live page shows of a run or of a site: events turned into words, facts and a tree.

A page only puts down what it is told here; it computes nothing.
"""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass, field
from typing import Any, Protocol

from hedgerow.agreement.watching import RunEvent, event_in_words
from hedgerow.site.audit import AuditLine, in_words

ENDS = ("finished", "ended")


@dataclass(frozen=True)
class Shown:
    """One line, what it changes of the facts, the part of the budget, and paths of a tree.

    Paths add to the tree that is shown, or begin another one.
    """

    time: float
    words: str
    facts: dict[str, str]
    spent: float | None = None
    paths: tuple[tuple[str, ...], ...] = ()
    is_new_tree: bool = False
    is_last: bool = False


class Teller(Protocol):
    """Hears events in their order and says what a page shows of each."""

    facts: dict[str, str]
    """Titles by the names under which they are filled."""
    budget: str
    has_tree: bool

    def shown(self, event: dict[str, Any]) -> Shown: ...


@dataclass
class RunTeller:
    """Of a study's run, at its coordinator."""

    budget = "Budget of the most charged site"
    has_tree = True
    facts = {  # noqa: RUF012  (shared and never changed)
        "state": "State",
        "rounds": "Rounds",
        "sites": "Sites",
        "seconds": "Seconds",
        "bytes": "Bytes per site",
        "spent": "Spent",
    }
    seconds: float = 0.0
    bytes: int = 0

    def shown(self, event: RunEvent) -> Shown:
        words, name = event_in_words(event), event["event"]
        if name == "round":
            return self._round(event, words)
        facts = {} if name == "note" else {"state": name}
        return Shown(event["time"], words, facts, is_last=name in ENDS)

    def _round(self, event: RunEvent, words: str) -> Shown:
        self.seconds += event["seconds"]
        self.bytes += event["bytes"]
        spent, of = event["spent"], event["of"]
        facts = {
            "state": "training",
            "rounds": f"{event['round']} of {of}" if of else f"{event['round']}",
            "sites": f"{event['sites']}",
            "seconds": f"{self.seconds:.1f}",
            "bytes": f"{self.bytes}",
            "spent": "without noise" if spent is None else f"{100 * spent:.1f} %",
        }
        paths = tuple(tuple(path) for path in event["paths"])
        return Shown(event["time"], words, facts, spent, paths, event["is_new_tree"])


@dataclass
class SiteTeller:
    """Of one site that serves, for its own people."""

    budget = "Budget of the study that asked last"
    has_tree = False
    facts = {  # noqa: RUF012  (shared and never changed)
        "state": "State",
        "studies": "Studies served",
        "answered": "Rounds answered",
        "refused": "Letters refused",
        "asked": "Asked last",
        "spent": "Spent",
    }
    served: set[str] = field(default_factory=set)
    answered: int = 0
    refused: int = 0

    def shown(self, event: AuditLine) -> Shown:
        facts, spent = self._changed(event)
        when = dt.datetime.fromisoformat(event["time"]).timestamp()
        words = in_words(event)[10:]  # the page has its own clock
        return Shown(when, words, facts, spent, is_last=event["event"] == "stopped")

    def _changed(self, event: AuditLine) -> tuple[dict[str, str], float | None]:
        match event["event"]:
            case "started" | "stopped":
                return {"state": event["event"]}, None
            case "serves":
                self.served.add(event["study"])
                return {"state": "serving", "studies": f"{len(self.served)}"}, None
            case "refused":
                self.refused += 1
                return {"refused": f"{self.refused}"}, None
            case "round":
                self.answered += 1
                spent = _part(event["spent"])
                words = event["spent"] if spent is None else f"{100 * spent:.1f} %"
                asked = event["name"] or event["study"][:16]
                return {"answered": f"{self.answered}", "asked": asked, "spent": words}, spent
        return {}, None


def _part(words: str) -> float | None:
    """Of '0.3 of 1.2'; None where nothing is bounded."""
    spent, _, limit = words.partition(" of ")
    return None if limit == "inf" else float(spent) / float(limit)
