"""A TLS listener that strangers cannot exhaust, with descriptors or with lines of a log.

Whoever connects is a stranger until the handshake has shown a certificate of the authority.
Strangers are few at a time and have little time; one too many ends the oldest of them, so a site,
whose handshake takes a moment, comes in while others hold the line.
"""

from __future__ import annotations

import asyncio
import errno
import socket
import ssl
import time
from collections.abc import Callable
from typing import Any

from hedgerow.federation.audit_log import LOG

HANDSHAKE_SECONDS = 10.0
MOST_STRANGERS = 64
"""In the middle of a handshake at the same time."""
MOST_LINES, LINES_SECONDS = 20, 60.0
"""Of the log, about callers that were turned away, in so many seconds."""
FULL = {errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM}
FULL_PAUSE = 1.0


class Door:
    """Accepts, shakes hands and hands over to what `serve` makes; for one event loop."""

    def __init__(self, tls: ssl.SSLContext, serve: Callable[[], asyncio.BaseProtocol]) -> None:
        tls.sslobject_class = handshake_with(self._turn_away)
        self._tls, self._serve = tls, serve
        self._listeners: list[socket.socket] = []
        self._accepting: list[asyncio.Task[None]] = []
        self._strangers: dict[asyncio.Task[None], None] = {}
        """Oldest first."""
        self._lines = Lines(MOST_LINES, LINES_SECONDS)

    def open(self, host: str, port: int) -> int:
        """Listens at every address of the host; the port, where 0 chooses one."""
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(self._note_fault)
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        for family, address in dict.fromkeys((one[0], one[4]) for one in found):
            place: Any = (address[0], port, *address[2:])
            listener = socket.create_server(place, family=family)
            listener.setblocking(False)
            self._listeners.append(listener)
            port = listener.getsockname()[1]
        self._accepting = [loop.create_task(self._accept(one)) for one in self._listeners]
        return port

    async def close(self) -> None:
        """Nobody comes in any more; whoever is in the middle of a handshake is cut off."""
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
            await asyncio.sleep(0)  # every handshake begins before another caller is met

    def _meet(self, stranger: asyncio.Task[None]) -> None:
        if len(self._strangers) >= MOST_STRANGERS:
            oldest = next(iter(self._strangers))
            del self._strangers[oldest]
            oldest.cancel()
            self._turn_away("too many at once who show no certificate")
        self._strangers[stranger] = None
        stranger.add_done_callback(lambda done: self._strangers.pop(done, None))

    async def _shake_hands(self, line: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        try:
            await loop.connect_accepted_socket(
                self._serve, line, ssl=self._tls, ssl_handshake_timeout=HANDSHAKE_SECONDS
            )
        except ssl.SSLError:
            pass  # written down before the caller was told
        except OSError as error:
            self._turn_away(str(error) or type(error).__name__)

    def _turn_away(self, why: str) -> None:
        before = self._lines.next()
        if before is not None:
            LOG.warning("a caller was turned away at the door: %s%s", why, before)

    def _note_fault(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        """What asyncio would write with a traceback, each time, on the terminal."""
        error = context.get("exception")
        LOG.debug("a fault at the door: %s", context.get("message"), exc_info=error)
        self._turn_away(f"{context.get('message')} ({error})")


def handshake_with(turn_away: Callable[[str], None]) -> type[ssl.SSLObject]:
    class Handshake(ssl.SSLObject):
        """A caller without a certificate of the authority is turned away when that is written."""

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
        self._began, self._written, self._left_out = 0.0, 0, 0

    def next(self) -> str | None:
        """What the line adds about those before it; None if it is not to be written."""
        now = time.monotonic()
        if now >= self._began + self._seconds:
            self._began, self._written = now, 0
        if self._written >= self._most:
            self._left_out += 1
            return None
        self._written += 1
        more, self._left_out = self._left_out, 0
        return f"; {more} more before" if more else ""
