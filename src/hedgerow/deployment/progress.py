"""The events of a run: a file that pages can read, and other listeners."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from hedgerow.errors import RunEnded
from hedgerow.federation.exchange import Accept, Exchange, Messages, Misses, Quorum
from hedgerow.privacy.queries import Leaves, Query, SumQuery
from hedgerow.privacy.statement.record import Progress
from hedgerow.schema.regions import Region, Split
from hedgerow.schema.schema import Schema
from hedgerow.schema.visible import visible

if TYPE_CHECKING:
    from hedgerow.federation.server import Server

RunEvent = dict[str, Any]
Listen = Callable[[RunEvent], None]
MOST_PATHS = 64
"""Paths of one round that are shown: a page is for people."""


SITES_EVENT, SITES_FILE = "sites", "sites.json"
"""The event with the state of every site; only the last one is stored."""
WITHOUT = "goes on without"


class SiteState(NamedTuple):
    """A site's state: connecting, waiting (for a message), computing, slow (asked again), lost."""

    state: str
    time: float
    """Time of its last answer, in seconds of the clock; 0 if there is none."""


class Watch:
    """Listens to the server and to its exchanges, and records their events.

    The only information about rows is what was opened with noise; spending comes from the sites'
    own receipts.
    """

    def __init__(
        self,
        file: Path,
        stop_file: Path,
        rounds: int,
        replayed_rounds: int,
        listen: Listen,
        *,
        show_trees: bool,
    ) -> None:
        """`replayed_rounds` are rounds of the record, which were reported before.

        Describing a tree of many leaves takes a hundredth of a second, so `show_trees` is for
        viewers only.
        """
        self._file, self._stop_file = file.open("a", encoding="utf-8"), stop_file
        self._sites_file = file.with_name(SITES_FILE)
        self._rounds, self._replayed_rounds, self._listen = rounds, replayed_rounds, listen
        self._show_trees = show_trees
        self._federation: Server | None = None
        self._began = 0.0
        self._sites: dict[str, SiteState] = {}

    def close(self) -> None:
        self._file.close()

    def follow(self, federation: Server) -> None:
        self._federation = federation

    def over(self, exchange: Exchange, names: Sequence[str]) -> Exchange:
        """The same exchange, which also records the state of every site."""
        self._sites = {name: SiteState("connecting", 0.0) for name in names}

        unanswered: set[int] = set()

        def exchange_watched(messages: Messages, accept: Accept, quorum: Quorum) -> Misses:
            def note_answer(site: int, answer: bytes) -> None:
                accept(site, answer)
                unanswered.discard(site)
                self._sites[names[site]] = SiteState("waiting", time.time())

            for site in messages:
                seen = self._sites[names[site]].time
                state = "slow" if site in unanswered else "computing" if seen else "connecting"
                self._sites[names[site]] = SiteState(state, seen)
                unanswered.add(site)
            self._tell_sites()
            missing = exchange(messages, note_answer, quorum)
            self._tell_sites()
            return missing

        return exchange_watched

    def _tell_sites(self) -> None:
        """Writes the present state of all sites, which the record leaves out, to its own file."""
        states = {name: {"state": s.state, "seen": s.time} for name, s in self._sites.items()}
        event = {"time": round(time.time(), 3), "event": SITES_EVENT, "sites": states}
        new = self._sites_file.with_suffix(".new")
        new.write_text(json.dumps(event), encoding="utf-8")
        new.replace(self._sites_file)
        self._listen(event)

    def hear(self, event: Progress) -> None:
        """Notes the start and end of rounds, absent and returning sites, and key sessions."""
        if event.note:
            for name in event.sites if event.note == WITHOUT else ():
                if name in self._sites:
                    self._sites[name] = SiteState("lost", self._sites[name].time)
            self.say("note", what=event.note, sites=list(event.sites))
        elif event.round > self._replayed_rounds and not event.done:
            self._began = time.monotonic()
            if self._stop_file.exists():  # between rounds, so that nothing is charged in vain
                raise RunEnded(
                    f"stopped before round {event.round}, as somebody asked; `hedgerow study "
                    "resume` goes on from there, and nothing is charged twice."
                )
        elif event.round > self._replayed_rounds:
            self._tell_round(event)

    def _tell_round(self, event: Progress) -> None:
        assert self._federation is not None
        record = self._federation.record.rounds[-1]
        self.say(
            "round",
            round=record.number,
            of=self._rounds,
            sites=record.sites,
            seconds=round(time.monotonic() - self._began, 3),
            bytes=record.bytes_out + record.bytes_in,
            spent=self._spent(),
            **(self._tree(event.queries) if self._show_trees else {}),
        )

    def say(self, event: str, **content: Any) -> None:
        line = {"time": round(time.time(), 3), "event": event, **content}
        self._file.write(json.dumps(line, ensure_ascii=False) + "\n")
        self._file.flush()
        self._listen(line)

    def _tree(self, queries: Sequence[Query]) -> dict[str, Any]:
        """The nodes of this round in words, and whether it begins another tree.

        The leaves of an ensemble's newest tree come in one query, of all records or of the tree's
        own. A tree that grows by tables of its nodes is asked node by node; the next one begins at
        the root again.
        """
        assert self._federation is not None
        schema = self._federation.study.schema
        trees = [
            tree
            for query in queries
            if isinstance(query, SumQuery) and isinstance(query.by, Leaves)
            if not _has_split(query.region)
            for tree in query.by.trees
        ]
        regions = trees[-1].regions() if trees else dict.fromkeys(q.region for q in queries)
        shown = list(filter(_has_split, regions))[:MOST_PATHS]
        words = {node: _words(schema, node) for node in {p for r in shown for p in _parts(r)}}
        paths = [[words[part] for part in _parts(region)] for region in shown]
        return {"paths": paths, "is_new_tree": bool(trees) or not any(q.region for q in queries)}

    def _spent(self) -> float | None:
        """The budget fraction of the most charged site; None if the budget has no limit."""
        assert self._federation is not None
        study, spent = self._federation.study, self._federation.sites.spent()
        return None if study.limit == math.inf else float(spent / study.total)


def _has_split(region: Region) -> bool:
    """Whether it is a node below a root; records of a tree's own alone are none."""
    return any(isinstance(step.test, Split) for step in region)


def _parts(region: Region) -> list[Region]:
    """The path to a region, step by step."""
    return [region[: k + 1] for k in range(len(region))]


def _words(schema: Schema, region: Region) -> str:
    """The last step in words; a fold, which is a tree's own records, is a step too."""
    last = region[-1]
    if isinstance(last.test, Split):
        from hedgerow.report.view import words_on  # no site needs it

        return words_on(schema, region, last.test.feature)
    return f"tree {last.outcome + 1}"


def event_in_words(event: RunEvent) -> str:
    match event["event"]:
        case "round":
            of = f" of {event['of']}" if event["of"] else ""
            spent = "" if event["spent"] is None else f", {event['spent']:.1%} of the budget"
            return (
                f"round {event['round']}{of}: {event['sites']} sites, {event['seconds']:.2f} s, "
                f"{event['bytes']} bytes{spent}"
            )
        case "note":
            return visible(f"{event['what']} {', '.join(event['sites'])}".rstrip())
    words = " ".join(str(v) for k, v in event.items() if k not in ("time", "event"))
    return visible(f"{event['event']}: {words}" if words else str(event["event"]))


def ignore(event: RunEvent) -> None:
    """A listener that ignores all events."""
