"""Letters over HTTPS: the coordinator has a door, sites call it and wait there.

A site's call says "this answers the letter you gave me; what is next?" and is held until there is
a letter, or for `HOLD_SECONDS`. So a site needs no open port, and one connection does for a run.

    POST /v1/next    Hedgerow-Letter: id of the letter that the body answers; none on a first call
    200              Hedgerow-Letter: id of the letter in the body
    204              nothing yet, call again
    410              the coordinator ends; it may be back later

Both ends show certificates (TLS 1.3); the name in a site's certificate is its name in the roster,
and a site gets its own letters only. What is asked twice is answered twice: sites keep what they
have answered, so neither a lost call nor a lost reply costs anything.
"""

from __future__ import annotations

import asyncio
import datetime as dt
import http.client
import socket
import ssl
import threading
import uuid
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from hedgerow.errors import EngineLost, SpecError
from hedgerow.federation.audit_log import LOG
from hedgerow.federation.exchange import LONGEST_ANSWER, LONGEST_LETTER
from hedgerow.federation.transports.listener import Door

if TYPE_CHECKING:
    from aiohttp import web

PATH = "/v1/next"
LETTER = "Hedgerow-Letter"
HOLD_SECONDS = 25.0
"""Shorter than the minute after which proxies and firewalls drop a silent connection."""
BODY_SECONDS = 60.0
"""For a whole answer to arrive once its first byte has."""
FIRST_CALL_PAUSE, LONGEST_CALL_PAUSE = 0.1, 5.0
HUNG_UP = "has ended, as it should; it is called again until it is back"


# --------------------------------------------------------------------------- the coordinator's end
@dataclass
class _Letter:
    content: bytes
    answer: asyncio.Future[bytes]
    id: str = field(default_factory=lambda: uuid.uuid4().hex)


@dataclass
class _Desk:
    """One site's place: the letter that waits for it, and the call that waits for a letter."""

    letter: _Letter | None = None
    calls: int = 0
    news: asyncio.Event = field(default_factory=asyncio.Event)


class HttpsCarrier:
    """A `Carrier` whose sites call. It listens at `host` and `port` until it is closed."""

    def __init__(
        self, names: Collection[str], tls: ssl.SSLContext, host: str, port: int = 0
    ) -> None:
        self._desks = {name: _Desk() for name in names}
        self._loop = asyncio.new_event_loop()
        self._ends = False
        self.seen: set[str] = set()
        """Sites that have called at least once."""
        self.port = self._opened(tls, host, port)
        self._thread = threading.Thread(target=self._run, name="https door", daemon=True)
        self._thread.start()

    def ask(self, letters: Mapping[str, bytes], timeout: float) -> Mapping[str, bytes]:
        asking = asyncio.run_coroutine_threadsafe(self._ask(letters, timeout), self._loop)
        return asking.result()

    def close(self) -> None:
        if self._thread.is_alive():
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join()

    # ------------------------------------------------------------------------------------ asking
    async def _ask(self, letters: Mapping[str, bytes], timeout: float) -> dict[str, bytes]:
        waiting = {name: self._lay_out(name, content) for name, content in letters.items()}
        if waiting:
            await asyncio.wait([letter.answer for letter in waiting.values()], timeout=timeout)
        for name, letter in waiting.items():
            if self._desks[name].letter is letter:
                self._desks[name].letter = None
        return {
            name: letter.answer.result() for name, letter in waiting.items() if letter.answer.done()
        }

    def _lay_out(self, name: str, content: bytes) -> _Letter:
        desk, letter = self._desks[name], _Letter(content, self._loop.create_future())
        desk.letter = letter
        desk.news.set()
        return letter

    # ----------------------------------------------------------------------------------- serving
    def _opened(self, tls: ssl.SSLContext, host: str, port: int) -> int:
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
        self._door = Door(tls, self._runner.server)  # type: ignore[arg-type]
        return self._door.open(host, port)

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        try:
            self._loop.run_forever()
        finally:
            self._loop.run_until_complete(self._shut())
            self._loop.close()

    async def _shut(self) -> None:
        """Sends everybody home who waits for a letter."""
        await self._door.close()
        self._ends = True
        for desk in self._desks.values():
            desk.letter = None
            desk.calls += 1
            desk.news.set()
        await self._runner.cleanup()
        self._hang_up()
        await asyncio.sleep(0)

    def _hang_up(self) -> None:
        """On whoever is in the middle of a handshake, or takes long to say goodbye."""
        for transport in list(getattr(self._loop, "_transports", {}).values()):
            transport.abort()

    async def _next(self, request: web.Request) -> web.Response:
        from aiohttp import web

        name = name_in(request.get_extra_info("peercert"))
        desk = self._desks.get(name)
        if desk is None:
            LOG.warning("a certificate for %r called, which is no site of this study", name)
            return web.Response(status=403)
        self.seen.add(name)
        if not await self._take(request, desk):
            return web.Response(status=408)
        letter = await self._wait(desk)
        if letter is None:
            return web.Response(status=410 if self._ends else 204)
        return web.Response(body=letter.content, headers={LETTER: letter.id})

    async def _take(self, request: web.Request, desk: _Desk) -> bool:
        """Hands an answer to whoever waits for it; one that is late is read and forgotten."""
        try:
            async with asyncio.timeout(BODY_SECONDS):
                body = await request.read()
        except TimeoutError:
            return False
        letter = desk.letter
        if letter is not None and request.headers.get(LETTER) == letter.id:
            desk.letter = None
            desk.news.clear()
            if not letter.answer.done():
                letter.answer.set_result(body)
        return True

    async def _wait(self, desk: _Desk) -> _Letter | None:
        """The letter for this site. A newer call of the same site ends an older one's wait."""
        desk.calls += 1
        call = desk.calls
        desk.news.set()
        with suppress(TimeoutError):
            async with asyncio.timeout(HOLD_SECONDS):
                while desk.calls == call and desk.letter is None:
                    desk.news.clear()
                    await desk.news.wait()
        return desk.letter if desk.calls == call else None


def name_in(certificate: Any) -> str:
    """The name that a verified certificate was made for."""
    fields = [pair for part in (certificate or {}).get("subject", ()) for pair in part]
    names = [value for kind, value in fields if kind == "commonName"]
    return names[0] if len(names) == 1 else ""


# ------------------------------------------------------------------------------------ a site's end
class Caller:
    """Calls one coordinator until stopped, and answers its letters with `handle`."""

    def __init__(
        self,
        url: str,
        tls: ssl.SSLContext,
        handle: Callable[[bytes], bytes],
        note: Callable[[str], None] = LOG.warning,
    ) -> None:
        """`note` is told whenever the coordinator is lost or found again."""
        self._host, self._port = address_of(url)
        self._url, self._tls, self._handle, self._note = url, tls, handle, note
        self._stopped = threading.Event()
        self._connection: http.client.HTTPSConnection | None = None
        self._about, self._answer = "", b""
        self._lost = ""

    def run(self) -> None:
        """Returns once `stop` was called: at once, but for a connection that is being made."""
        pause = FIRST_CALL_PAUSE
        while not self._stopped.is_set():
            try:
                self._call()
                pause = FIRST_CALL_PAUSE
            except Exception as error:  # whatever a line or a proxy does, a site calls again
                LOG.debug("a call failed", exc_info=error)
                self._hang_up()
                self._tell(_why(error))
                self._stopped.wait(pause)
                pause = min(2 * pause, LONGEST_CALL_PAUSE)
        self._hang_up()

    def stop(self) -> None:
        self._stopped.set()
        connection = self._connection
        line = connection.sock if connection is not None else None
        if line is not None:
            with suppress(OSError):
                line.shutdown(socket.SHUT_RDWR)

    def _call(self) -> None:
        """One call. The answer is kept until the coordinator has said that it got it."""
        connection = self._connected()
        if self._stopped.is_set():  # while there was no connection that `stop` could end
            return
        headers = {LETTER: self._about} if self._about else {}
        connection.request("POST", PATH, body=self._answer, headers=headers)
        response = connection.getresponse()
        letter = response.read(LONGEST_LETTER + 1)
        if response.status == 410:
            raise _HungUp
        if len(letter) > LONGEST_LETTER or response.status not in (200, 204):
            raise http.client.HTTPException(f"the coordinator answered {response.status}")
        self._tell("")
        self._about, self._answer = "", b""
        if response.status == 200:
            answer = self._handle(letter)
            self._about, self._answer = response.headers.get(LETTER, ""), answer

    def _connected(self) -> http.client.HTTPSConnection:
        if self._connection is None:
            self._connection = http.client.HTTPSConnection(
                self._host, self._port, context=self._tls, timeout=2 * HOLD_SECONDS
            )
        if self._connection.sock is None:
            self._connection.connect()
        return self._connection

    def _hang_up(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _tell(self, trouble: str) -> None:
        """Once for each change; that nobody is there after an orderly end is no news."""
        if trouble and self._lost == HUNG_UP:
            return
        if trouble != self._lost and not self._stopped.is_set():
            self._note(f"the coordinator at {self._url} {_in_words(trouble)}")
        self._lost = trouble


def address_of(url: str) -> tuple[str, int]:
    parts = urlsplit(url)
    try:
        port = parts.port
    except ValueError:
        port = None
    if parts.scheme != "https" or not parts.hostname or port is None or parts.path not in ("", "/"):
        raise SpecError(f"the coordinator's address is {url!r}; write it as https://host:port.")
    return parts.hostname, port


_OUT_OF_TIME = (9, 10)
"""OpenSSL's numbers for a certificate that is not yet valid, and for one that is no more."""


class _HungUp(Exception):
    """The coordinator has said that it ends."""


def _in_words(trouble: str) -> str:
    if trouble == HUNG_UP:
        return trouble
    return f"cannot be reached: {trouble}" if trouble else "answers"


def _why(error: Exception) -> str:
    if isinstance(error, _HungUp):
        return HUNG_UP
    if isinstance(error, ssl.SSLCertVerificationError):
        if error.verify_code in _OUT_OF_TIME:
            here = dt.datetime.now(dt.UTC).strftime("%Y-%m-%d %H:%M")
            return (
                f"{error.verify_message}, and the clock here says {here} UTC; compare it with the "
                "coordinator's, and set what is wrong"
            )
        return f"its certificate is not the authority's ({error.verify_message})"
    return str(error) or type(error).__name__
