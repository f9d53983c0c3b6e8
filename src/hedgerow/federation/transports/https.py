"""Messages over HTTPS: the coordinator has a listener, sites call it and wait there.

A site's call delivers the answer to its last message and asks for the next one. The coordinator
holds the call until there is a message, or for `HOLD_SECONDS`. So a site needs no open port, and
one connection suffices for a run.

    POST /v1/next    Hedgerow-Message: id of the message that the body answers; none on first call
    200              Hedgerow-Message: id of the message in the body
    204              nothing yet, call again
    410              the coordinator ends; it may be back later

Both ends show certificates (TLS 1.3); the name in a site's certificate is its name in the roster,
and a site gets its own messages only. Repeated messages are answered again: sites store what they
have answered, so neither a lost call nor a lost reply costs anything.
"""

from __future__ import annotations

import asyncio
import errno
import socket
import ssl
import threading
import time
import uuid
from collections.abc import Callable, Collection
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from hedgerow.errors import EngineLost
from hedgerow.federation.audit_log import LOG
from hedgerow.federation.exchange import (
    LONGEST_ANSWER,
    SHORT_ANSWER,
    Accept,
    Messages,
    Misses,
    Quorum,
    hand_over,
)
from hedgerow.federation.transports.caller import HOLD_SECONDS, MESSAGE, PATH

if TYPE_CHECKING:
    from aiohttp import web

# A TLS listener that strangers cannot exhaust, with descriptors or with lines of a log.
#
# Whoever connects is a stranger until the handshake has shown a certificate of the authority.
# Strangers are few at a time and have little time; one too many ends the oldest of them, so a site,
# whose handshake takes a moment, comes in while others hold the line.

HANDSHAKE_SECONDS = 10.0
MOST_STRANGERS = 64
"""Connections in the middle of a handshake at the same time."""
MOST_SITE_CONNECTIONS = 4
"""Connections of one site at the same time."""
MOST_LINES, LINES_SECONDS = 20, 60.0
"""Lines of the log about rejected callers, in this many seconds."""
FULL = {errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM}
FULL_PAUSE = 1.0


class LimitedListener:
    """Accepts connections, makes the handshake and passes them to `serve`; for one event loop."""

    def __init__(self, tls: ssl.SSLContext, serve: Callable[[], asyncio.BaseProtocol]) -> None:
        tls.sslobject_class = handshake_with(self._turn_away)
        self._tls, self._serve = tls, serve
        self._listeners: list[socket.socket] = []
        self._accepting: list[asyncio.Task[None]] = []
        self._strangers: dict[asyncio.Task[None], None] = {}
        """Oldest first."""
        self._lines = Lines(MOST_LINES, LINES_SECONDS)

    def open(self, host: str, port: int) -> int:
        """Listens at every address of the host; returns the port, where 0 chooses one."""
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(self._note_fault)
        result = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        for family, address in dict.fromkeys((item[0], item[4]) for item in result):
            place: Any = (address[0], port, *address[2:])
            listener = socket.create_server(place, family=family)
            listener.setblocking(False)
            self._listeners.append(listener)
            port = listener.getsockname()[1]
        self._accepting = [loop.create_task(self._accept(item)) for item in self._listeners]
        return port

    async def close(self) -> None:
        """Stops accepting, and ends connections in the middle of a handshake."""
        tasks = [*self._accepting, *self._strangers]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for listener in self._listeners:
            listener.close()

    async def _accept(self, listener: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        while True:
            try:
                line, _ = await loop.sock_accept(listener)
            except OSError as error:
                self._turn_away(str(error))
                await asyncio.sleep(FULL_PAUSE if error.errno in FULL else 0)
                continue
            self._meet(loop.create_task(self._shake_hands(line)))
            await asyncio.sleep(0)  # every handshake begins before the next caller is accepted

    def _meet(self, stranger: asyncio.Task[None]) -> None:
        if len(self._strangers) >= MOST_STRANGERS:
            oldest = next(iter(self._strangers))
            del self._strangers[oldest]
            oldest.cancel()
            self._turn_away("too many at once who show no certificate")
        self._strangers[stranger] = None
        stranger.add_done_callback(lambda task: self._strangers.pop(task, None))

    async def _shake_hands(self, line: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        try:
            await loop.connect_accepted_socket(
                self._serve, line, ssl=self._tls, ssl_handshake_timeout=HANDSHAKE_SECONDS
            )
        except ssl.SSLError:
            pass  # it is logged before the caller learns of it
        except OSError as error:
            self._turn_away(str(error) or type(error).__name__)

    def _turn_away(self, why: str) -> None:
        before = self._lines.next()
        if before is not None:
            LOG.warning("a caller was turned away at the listener: %s%s", why, before)

    def _note_fault(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        """Logs what asyncio would print with a traceback, each time, on the terminal."""
        error = context.get("exception")
        LOG.debug("a fault at the listener: %s", context.get("message"), exc_info=error)
        self._turn_away(f"{context.get('message')} ({error})")


def handshake_with(turn_away: Callable[[str], None]) -> type[ssl.SSLObject]:
    class Handshake(ssl.SSLObject):
        """Logs a caller without a certificate of the authority before the refusal is sent."""

        def do_handshake(self) -> None:
            try:
                super().do_handshake()
            except (ssl.SSLWantReadError, ssl.SSLWantWriteError):
                raise
            except ssl.SSLError as error:
                turn_away(error.reason or str(error))
                raise

    return Handshake


class Lines:
    """So many lines in so many seconds; the next one then says how many were left out."""

    def __init__(self, most: int, seconds: float) -> None:
        self._most, self._seconds = most, seconds
        self._began, self._n_lines, self._left_out = 0.0, 0, 0

    def next(self) -> str | None:
        """What the line adds about those before it; None if it is not to be written."""
        now = time.monotonic()
        if now >= self._began + self._seconds:
            self._began, self._n_lines = now, 0
        if self._n_lines >= self._most:
            self._left_out += 1
            return None
        self._n_lines += 1
        more, self._left_out = self._left_out, 0
        return f"; {more} more before" if more else ""


BODY_SECONDS = 60.0
"""Time for a whole answer to arrive after its first byte."""


# The coordinator's end.
@dataclass
class _Message:
    content: bytes
    answer: asyncio.Future[bytes]
    longest: int
    """Largest answer in bytes."""
    id: str = field(default_factory=lambda: uuid.uuid4().hex)
    fetches: int = 0


@dataclass
class _Dispatcher:
    """The state of one site: its waiting message, and its call that waits for a message."""

    message: _Message | None = None
    calls: int = 0
    connections: int = 0
    news: asyncio.Event = field(default_factory=asyncio.Event)


class HttpsExchange:
    """An `Exchange` whose sites call. It listens at `host` and `port` until it is closed."""

    def __init__(
        self, names: Collection[str], tls: ssl.SSLContext, host: str, port: int = 0
    ) -> None:
        self._desks = [_Dispatcher() for _ in names]
        self._places = {name: place for place, name in enumerate(names)}
        self._loop = asyncio.new_event_loop()
        self._ends = False
        self.callers: set[str] = set()
        """Sites that have called at least once."""
        self.port = self._open_listener(tls, host, port)
        self._thread = threading.Thread(target=self._run, name="https listener", daemon=True)
        self._thread.start()

    def __call__(self, messages: Messages, accept: Accept, quorum: Quorum) -> Misses:
        asking = asyncio.run_coroutine_threadsafe(self._ask(messages, quorum), self._loop)
        answers, fetched_again = asking.result()
        return replace(hand_over(messages, answers, accept), slow=fetched_again)

    def close(self) -> None:
        if self._thread.is_alive():
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join()

    async def _ask(
        self, messages: Messages, quorum: Quorum
    ) -> tuple[dict[int, bytes], frozenset[int]]:
        """The answers, and the sites that fetched a message twice: perhaps restarted processes."""
        longest, seconds = quorum.longest, quorum.seconds
        waiting = {site: self._lay_out(site, item, longest) for site, item in messages.items()}
        if waiting:
            await asyncio.wait([message.answer for message in waiting.values()], timeout=seconds)
        for site, message in waiting.items():
            if self._desks[site].message is message:
                self._desks[site].message = None
        answers = {
            site: message.answer.result()
            for site, message in waiting.items()
            if message.answer.done()
        }
        return answers, frozenset(site for site, item in waiting.items() if item.fetches > 1)

    def _lay_out(self, site: int, content: bytes, longest: int) -> _Message:
        desk, message = self._desks[site], _Message(content, self._loop.create_future(), longest)
        desk.message = message
        desk.news.set()
        return message

    def _open_listener(self, tls: ssl.SSLContext, host: str, port: int) -> int:
        try:
            return self._loop.run_until_complete(self._open(tls, host, port))
        except OSError as error:
            self._loop.close()
            raise EngineLost(
                f"nobody can call {host} port {port} ({error}); choose an address of this machine "
                "and a port that is free."
            ) from error

    async def _open(self, tls: ssl.SSLContext, host: str, port: int) -> int:
        from aiohttp import web

        app = web.Application(client_max_size=LONGEST_ANSWER)
        app.router.add_post(PATH, self._next)
        self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=1.0)
        await self._runner.setup()
        self._listener = LimitedListener(tls, self._runner.server)  # type: ignore[arg-type]
        return self._listener.open(host, port)

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        try:
            self._loop.run_forever()
        finally:
            self._loop.run_until_complete(self._shut())
            self._loop.close()

    async def _shut(self) -> None:
        """Ends all calls that wait for a message."""
        await self._listener.close()
        self._ends = True
        for desk in self._desks:
            desk.message = None
            desk.calls += 1
            desk.news.set()
        await self._runner.cleanup()
        self._hang_up()
        await asyncio.sleep(0)

    def _hang_up(self) -> None:
        """Ends connections in the middle of a handshake, or slow to close."""
        for transport in list(getattr(self._loop, "_transports", {}).values()):
            transport.abort()

    async def _next(self, request: web.Request) -> web.Response:
        from aiohttp import web

        name = name_in(request.get_extra_info("peercert"))
        place = self._places.get(name)
        if place is None:
            LOG.warning("a certificate for %r called, which is no site of this study", name)
            return web.Response(status=403)
        self.callers.add(name)
        desk = self._desks[place]
        if desk.connections == MOST_SITE_CONNECTIONS:
            return web.Response(status=429)
        desk.connections += 1
        try:
            return await self._serve_request(request, desk)
        finally:
            desk.connections -= 1

    async def _serve_request(self, request: web.Request, desk: _Dispatcher) -> web.Response:
        from aiohttp import web

        status = await self._take(request, desk)
        if status:
            return web.Response(status=status)
        message = await self._wait(desk)
        if message is None:
            return web.Response(status=410 if self._ends else 204)
        message.fetches += 1
        return web.Response(body=message.content, headers={MESSAGE: message.id})

    async def _take(self, request: web.Request, desk: _Dispatcher) -> int:
        """Passes an answer to whoever waits for it; a late one is read and dropped.

        Returns 0, or the status that refuses it: too slow, or longer than the request allows.
        """
        message = desk.message
        if message is None or request.headers.get(MESSAGE) != message.id:
            message = None
        longest = SHORT_ANSWER if message is None else message.longest
        try:
            async with asyncio.timeout(BODY_SECONDS):
                body = await _read_body(request, longest)
        except TimeoutError:
            return 408
        if message is None:  # late: nobody waits for it any more
            return 0
        if body is None:
            LOG.warning("a site answered with more than %d bytes; nothing was taken", longest)
            return 413
        if desk.message is message:
            desk.message = None
            desk.news.clear()
        if not message.answer.done():
            message.answer.set_result(body)
        return 0

    async def _wait(self, desk: _Dispatcher) -> _Message | None:
        """The message for this site. A newer call of the same site ends an older one's wait."""
        desk.calls += 1
        call = desk.calls
        desk.news.set()
        with suppress(TimeoutError):
            async with asyncio.timeout(HOLD_SECONDS):
                while desk.calls == call and desk.message is None:
                    desk.news.clear()
                    await desk.news.wait()
        return desk.message if desk.calls == call else None


async def _read_body(request: web.Request, longest: int) -> bytes | None:
    """The body, if it has at most this many bytes; the rest is neither read nor waited for."""
    if (request.content_length or 0) > longest:
        return None
    body = bytearray()
    async for part in request.content.iter_any():
        body += part
        if len(body) > longest:
            return None
    return bytes(body)


def name_in(certificate: Any) -> str:
    """The name in a verified certificate."""
    fields = [pair for part in (certificate or {}).get("subject", ()) for pair in part]
    names = [value for kind, value in fields if kind == "commonName"]
    return names[0] if len(names) == 1 else ""
