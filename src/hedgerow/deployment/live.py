"""A live view of a run or a site in a browser of this machine; it shows events only.

Loopback only, read only, one token for one run. The token is compared in constant time, and a
request must name this server as its host, so that no web page can look through a browser. Other
users of the machine can connect too, but without the token they hold nobody up. Health and metrics
are also on a Unix socket of the owner.
"""

from __future__ import annotations

import datetime as dt
import hmac
import json
import os
import secrets
import socket
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Condition, Event, Thread
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs, urlsplit

from hedgerow.deployment.progress import SITES_EVENT, RunEvent, event_in_words
from hedgerow.errors import ParameterError
from hedgerow.federation.audit_log import LOG, AuditLine, in_words
from hedgerow.federation.transports.socket import listen_at

if TYPE_CHECKING:
    from hedgerow.deployment.run_folder import RunFolder

# What a live page shows of a run or of a site: events turned into words, facts and a tree. The page
# computes nothing.

ENDS = ("finished", "ended")
LATE = ("slow", "lost")


@dataclass(frozen=True)
class Shown:
    """One line, the changed facts, the fraction of the budget, and paths of a tree.

    Paths are added to the tree that is shown, or begin another one.
    """

    time: float
    words: str
    facts: dict[str, str]
    spent: float | None = None
    paths: tuple[tuple[str, ...], ...] = ()
    is_new_tree: bool = False
    is_last: bool = False
    sites: dict[str, dict[str, Any]] = field(default_factory=dict)
    """The state of every site, by name; a line without words shows nothing else."""
    place: int = 0
    """The number of the study, where a page shows several."""


MetricValues = Mapping[str, float | Mapping[str, float]]


@dataclass
class RunTeller:
    """Events of a study's run, at its coordinator."""

    budget = "Budget of the most charged site"
    has_sites = True
    facts = {  # noqa: RUF012  (shared and never changed)
        "state": "State",
        "rounds": "Rounds",
        "sites": "Sites",
        "seconds": "Seconds",
        "left": "Seconds left",
        "bytes": "Bytes per site",
        "spent": "Spent",
    }
    name: str = ""
    has_tree: bool = True
    seconds: float = 0.0
    bytes: int = 0
    rounds: int = 0
    spent: float = 0.0
    sites: dict[str, dict[str, Any]] = field(default_factory=dict)

    def values(self) -> MetricValues:
        """Numbers for monitoring."""
        return {
            "run_rounds_total": float(self.rounds),
            "run_seconds_total": self.seconds,
            "run_bytes_total": float(self.bytes),
            "run_budget_used_ratio": self.spent,
            "site_seen_seconds": {name: float(s["seen"]) for name, s in self.sites.items()},
            "site_late": {name: float(s["state"] in LATE) for name, s in self.sites.items()},
        }

    def shown(self, event: RunEvent) -> Shown:
        name = event["event"]
        if name == SITES_EVENT:
            self.sites = event["sites"]
            return Shown(event["time"], "", {}, sites=event["sites"])
        if name == "round":
            return self._round(event)
        facts = {} if name == "note" else {"state": name}
        facts |= {"left": "none"} if name in ENDS else {}
        return Shown(event["time"], event_in_words(event), facts, is_last=name in ENDS)

    def _round(self, event: RunEvent) -> Shown:
        self.seconds += event["seconds"]
        self.bytes += event["bytes"]
        spent, of = event["spent"], event["of"]
        self.rounds, self.spent = event["round"], spent or 0.0
        left = max(of - event["round"], 0) * self.seconds / event["round"] if of else None
        facts = {
            "state": "training",
            "rounds": f"{event['round']} of {of}" if of else f"{event['round']}",
            "sites": f"{event['sites']}",
            "seconds": f"{self.seconds:.1f}",
            "left": "not known" if left is None else f"at most {left:.0f}",
            "bytes": f"{self.bytes}",
            "spent": "without noise" if spent is None else f"{100 * spent:.1f} %",
        }
        paths = tuple(tuple(path) for path in event.get("paths", ()))
        line = event["time"], event_in_words(event), facts, spent, paths
        return Shown(*line, is_new_tree=event.get("is_new_tree", False))


@dataclass
class SiteTeller:
    """Events of one serving site, for its own staff."""

    budget = "Budget of the study that asked last"
    has_sites, has_tree, name = False, False, ""
    facts = {  # noqa: RUF012  (shared and never changed)
        "state": "State",
        "studies": "Studies served",
        "answered": "Rounds answered",
        "refused": "Messages refused",
        "asked": "Asked last",
        "spent": "Spent",
    }
    served_studies: set[str] = field(default_factory=set)
    n_answered: int = 0
    n_refused: int = 0

    def values(self) -> MetricValues:
        return {
            "site_studies": float(len(self.served_studies)),
            "site_rounds_total": float(self.n_answered),
            "site_refused_total": float(self.n_refused),
        }

    def shown(self, event: AuditLine) -> Shown:
        facts, spent = self._changes_of(event)
        when = dt.datetime.fromisoformat(event["time"]).timestamp()
        words = in_words(event)[10:]  # the page has its own clock
        return Shown(when, words, facts, spent, is_last=event["event"] == "stopped")

    def _changes_of(self, event: AuditLine) -> tuple[dict[str, str], float | None]:
        match event["event"]:
            case "started" | "stopped":
                return {"state": event["event"]}, None
            case "serves":
                self.served_studies.add(event["study"])
                return {"state": "serving", "studies": f"{len(self.served_studies)}"}, None
            case "refused":
                self.n_refused += 1
                return {"refused": f"{self.n_refused}"}, None
            case "round":
                self.n_answered += 1
                cost, _, limit = event["spent"].partition(" of ")
                spent = None if limit == "inf" else float(cost) / float(limit)
                words = event["spent"] if spent is None else f"{100 * spent:.1f} %"
                facts = {"answered": f"{self.n_answered}", "spent": words}
                return facts | {"asked": event["name"] or event["study"][:16]}, spent
        return {}, None


Teller = RunTeller | SiteTeller
"""Turns events, in order, into lines of a page; its name, facts and budget are the page's."""
LOOPBACK = "127.0.0.1"
BEAT_SECONDS = 15.0
"""Interval of keep-alive lines, by which a closed browser is noticed."""
ASKING_SECONDS, READING_SECONDS = 5.0, 30.0
"""How long a caller may be silent before it has shown the token, and after."""
MOST_CALLERS = 32
"""Callers at a time: each has a thread and a descriptor."""
LAST_SECONDS = 2.0
"""Time for browsers to receive the end."""
LOOK_SECONDS, SILENT_SECONDS = 0.5, 30.0
"""How often runs of other processes are polled, and the silence after which one is checked."""


class LiveView:
    """The events so far, and the readers that wait for more.

    Without `page` nothing listens on a port; `socket` is a Unix socket for /health and /metrics.
    """

    def __init__(
        self, title: str, *tellers: Teller, page: bool = True, socket: Path | None = None
    ) -> None:
        self._title, self._tellers = title, tellers
        self.token = os.environ.get("HEDGEROW_LIVE_TOKEN") or secrets.token_urlsafe(24)
        self._events: list[Shown] = []
        self._change = Condition()
        self._has_ended = False
        port = int(os.environ.get("HEDGEROW_LIVE_PORT") or 0)
        self._servers = [LimitedServer((LOOPBACK, port), _Handler)] if page else []
        self.is_watched = page
        if socket is not None:
            try:
                self._servers.append(_SocketServer(socket))
            except ParameterError as error:  # a run continues where no socket can be made
                LOG.warning("no metrics: %s", error)
        for server in self._servers:
            server.view = self
            Thread(target=server.serve_forever, daemon=True).start()

    @cached_property
    def page(self) -> bytes:
        """Made when a browser asks: a site that nobody watches does not load the report."""
        from hedgerow.report.page.page import LivePart, live_page

        parts = (
            LivePart(t.name, t.facts, t.budget, t.has_sites, t.has_tree) for t in self._tellers
        )
        return live_page(self._title, list(parts)).encode()

    @property
    def host(self) -> str:
        return f"{LOOPBACK}:{self._servers[0].server_address[1]}"

    @property
    def address(self) -> str:
        return f"http://{self.host}/?token={self.token}"

    def tell(self, event: dict[str, Any], place: int = 0) -> None:
        with self._change:
            shown = self._tellers[place].shown(event)
            if self.is_watched:
                is_last = shown.is_last and len(self._tellers) == 1
                self._events.append(replace(shown, place=place, is_last=is_last))
                self._change.notify_all()

    def metrics(self) -> str:
        with self._change:
            return metrics_text(*((t.name, t.values()) for t in self._tellers))

    def stream(self) -> Iterator[Shown | None]:
        """All events from the first on; None if nothing has happened for a while."""
        n_sent = 0
        while True:
            with self._change:
                if n_sent == len(self._events) and not self._has_ended:
                    self._change.wait(BEAT_SECONDS)
                fresh, has_ended = self._events[n_sent:], self._has_ended
            yield from fresh
            n_sent += len(fresh)
            if has_ended and not fresh:
                return
            if not fresh:
                yield None

    def close(self) -> None:
        with self._change:
            self._has_ended = True
            self._change.notify_all()
        for server in self._servers:
            server.shutdown()
            server.hang_up()
            server.server_close()


class LimitedServer(ThreadingHTTPServer):
    """Tracks its connections: shutdown waits only for those that showed the token."""

    daemon_threads = True
    block_on_close = False
    request_queue_size = MOST_CALLERS
    view: LiveView

    def __init__(self, address: tuple[str, int], handler: type[BaseHTTPRequestHandler]) -> None:
        super().__init__(address, handler)
        self._callers: dict[socket.socket, bool] = {}
        """Oldest first: whether the caller has shown the token."""
        self._change = Condition()

    def process_request(self, request: Any, client_address: Any) -> None:
        with self._change:
            self._callers[request] = False
            if len(self._callers) > MOST_CALLERS:
                oldest = next(caller for caller, is_known in self._callers.items() if not is_known)
                del self._callers[oldest]
                _cut(oldest)
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        with self._change:
            self._callers.pop(request, None)
            self._change.notify_all()
        super().shutdown_request(request)

    def welcome(self, caller: socket.socket) -> None:
        with self._change:
            if caller in self._callers:
                self._callers[caller] = True
        caller.settimeout(READING_SECONDS)

    def hang_up(self) -> None:
        """Closes connections: strangers at once, browsers once they have the end or do not read."""
        with self._change:
            for caller, is_known in self._callers.items():
                if not is_known:
                    _cut(caller)
            self._change.wait_for(lambda: not self._callers, LAST_SECONDS)
            for caller in self._callers:
                _cut(caller)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Ignores errors of a connection: the terminal belongs to the run."""


class _SocketServer(LimitedServer):
    """On a Unix socket that only its owner may open: callers need no token."""

    address_family = socket.AF_UNIX

    def __init__(self, path: Path) -> None:
        self._path = path
        super().__init__(str(path), _MachineHandler)  # type: ignore[arg-type]

    def server_bind(self) -> None:
        self.socket.close()
        self.socket = listen_at(self._path)
        self._inode = self._path.stat().st_ino

    def server_close(self) -> None:
        super().server_close()
        with suppress(FileNotFoundError):
            if self._path.stat().st_ino == self._inode:
                self._path.unlink()


def _cut(line: socket.socket) -> None:
    """Stops reading and writing, so that the caller's thread ends."""
    with suppress(OSError):
        line.shutdown(socket.SHUT_RDWR)


class _Handler(BaseHTTPRequestHandler):
    server: LimitedServer
    protocol_version = "HTTP/1.0"
    timeout = ASKING_SECONDS

    def do_GET(self) -> None:
        place = urlsplit(self.path)
        token = parse_qs(place.query).get("token", [""])[0]
        view = self.server.view
        right = hmac.compare_digest(token.encode(), view.token.encode())
        if not right or self.headers.get("Host") != view.host:
            self.send_error(HTTPStatus.FORBIDDEN)
            return
        self.server.welcome(self.connection)
        if place.path == "/":
            self._send("text/html; charset=utf-8", view.page)
        elif place.path == "/events":
            self._stream(view)
        else:
            self._answer_machine(place.path)

    def _answer_machine(self, path: str) -> None:
        if path == "/health":
            self._send("text/plain; charset=utf-8", b"ok\n")
        elif path == "/metrics":
            self._send("text/plain; version=0.0.4", self.server.view.metrics().encode())
        else:
            self.send_error(HTTPStatus.NOT_FOUND)

    def _send(self, kind: str, body: bytes = b"") -> None:
        self.send_response(HTTPStatus.OK)
        self.send_header("Content-Type", kind)
        self.send_header("Cache-Control", "no-store")
        self.send_header("Referrer-Policy", "no-referrer")
        self.send_header("X-Content-Type-Options", "nosniff")
        self.end_headers()
        self.wfile.write(body)

    def _stream(self, view: LiveView) -> None:
        self._send("text/event-stream")
        try:
            for event in view.stream():
                line = ": still here" if event is None else f"data: {json.dumps(asdict(event))}"
                self.wfile.write(f"{line}\n\n".encode())
                self.wfile.flush()
        except OSError:
            return  # the browser left

    def log_message(self, format: str, *args: object) -> None:
        """Nothing is printed: the terminal belongs to the run."""


class _MachineHandler(_Handler):
    def do_GET(self) -> None:
        self.server.welcome(self.connection)
        self._answer_machine(urlsplit(self.path).path)


@contextmanager
def live_view(title: str, *tellers: Teller, **places: Any) -> Iterator[LiveView]:
    view = LiveView(title, *tellers, **places)
    try:
        yield view
    finally:
        view.close()


# Health and metrics, for machines that watch machines.


def metrics_text(*parts: tuple[str, MetricValues]) -> str:
    """Prometheus text; names that end in `_total` are counters, inner names are sites.

    Each part is a study with its values; the name of a single study is left out.
    """
    lines: dict[str, list[str]] = {}
    for study, values in parts:
        for name, value in values.items():
            kind = "counter" if name.endswith("_total") else "gauge"
            own = lines.setdefault(name, [f"# TYPE hedgerow_{name} {kind}"])
            inner = value.items() if isinstance(value, Mapping) else [("", value)]
            for site, number in inner:
                labels = {"study": study if len(parts) > 1 else "", "site": site}
                words = ",".join(f"{k}={json.dumps(v)}" for k, v in labels.items() if v)
                own.append(f"hedgerow_{name}{f'{{{words}}}' if words else ''} {number:.12g}")
    return "\n".join(line for own in lines.values() for line in own) + "\n"


# Runs of other processes, which a coordinator of several studies watches together.


class Follower:
    """The events of a run in another process, and the state of its sites."""

    def __init__(self, folder: RunFolder) -> None:
        self.folder, self._read, self._sites = folder, 0, b""
        self._is_open, self._heard = False, 0.0

    def fresh(self) -> Iterator[RunEvent]:
        """New events since the last call: whole lines, and the state of the sites."""
        content = self.folder.events_file.read_bytes() if self.folder.events_file.exists() else b""
        whole = content[self._read : content.rfind(b"\n") + 1]
        self._read += len(whole)
        for event in map(json.loads, whole.splitlines()):
            self._is_open, self._heard = event["event"] not in ENDS, time.monotonic()
            yield event
        sites_file = self.folder.sites_file
        sites = sites_file.read_bytes() if sites_file.exists() else b""
        if sites != self._sites:
            self._sites = sites
            yield json.loads(sites)
        if self._is_open and time.monotonic() - self._heard > SILENT_SECONDS:
            self._is_open, self._heard = self.folder.is_held(), time.monotonic()
            if not self._is_open:
                yield {"time": time.time(), "event": "stopped", "what": "nobody runs it now"}


def follow(view: LiveView, followers: Sequence[Follower], stop: Event) -> None:
    """Passes on events until `stop` is set."""
    while True:
        for place, follower in enumerate(followers):
            for event in follower.fresh():
                view.tell(event, place)
        if stop.wait(LOOK_SECONDS):
            return
