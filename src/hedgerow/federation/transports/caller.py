"""A site's end of HTTPS: it calls the coordinator and waits there for messages.

The calls are described in `https.py`. A process that serves a site loads no event loop and nothing
that makes certificates.
"""

from __future__ import annotations

import datetime as dt
import http.client
import socket
import ssl
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from urllib.parse import urlsplit

from hedgerow.errors import ParameterError
from hedgerow.federation.audit_log import LOG
from hedgerow.federation.exchange import MAX_MESSAGE_BYTES

PATH = "/v1/next"
MESSAGE = "Hedgerow-Message"
HOLD_SECONDS = 25.0
"""Shorter than the minute after which proxies and firewalls drop a silent connection."""
FIRST_CALL_PAUSE, LONGEST_CALL_PAUSE = 0.1, 5.0
HUNG_UP = "has ended, as it should; it is called again until it is back"


def client_context(key: Path, certificate: Path, authority: Path) -> ssl.SSLContext:
    """TLS 1.3 towards one coordinator: only its authority is trusted."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.load_verify_locations(authority)
    context.load_cert_chain(certificate, key)
    return context


class Caller:
    """Calls one coordinator until stopped, and answers its messages with `handle`."""

    def __init__(
        self,
        url: str,
        tls: ssl.SSLContext,
        handle: Callable[[bytes], bytes],
        note: Callable[[str], None] = LOG.warning,
    ) -> None:
        """`note` is called whenever the coordinator is lost or found again."""
        self._host, self._port = address_of(url)
        self._url, self._tls, self._handle, self._note = url, tls, handle, note
        self._stop_event = threading.Event()
        self._connection: http.client.HTTPSConnection | None = None
        self._about, self._answer = "", b""
        self._lost = ""

    def run(self) -> None:
        """Runs until `stop` is called, and then returns once no connection is being made."""
        pause = FIRST_CALL_PAUSE
        while not self._stop_event.is_set():
            try:
                self._call()
                pause = FIRST_CALL_PAUSE
            except Exception as error:  # a site calls again, whatever a connection or a proxy does
                LOG.debug("a call failed", exc_info=error)
                self._hang_up()
                self._tell(_why(error))
                self._stop_event.wait(pause)
                pause = min(2 * pause, LONGEST_CALL_PAUSE)
        self._hang_up()

    def stop(self) -> None:
        self._stop_event.set()
        connection = self._connection
        line = connection.sock if connection is not None else None
        if line is not None:
            with suppress(OSError):
                line.shutdown(socket.SHUT_RDWR)

    def _call(self) -> None:
        """One call. The answer is kept until the coordinator has confirmed it."""
        connection = self._connect()
        if self._stop_event.is_set():  # `stop` had no connection to end
            return
        headers = {MESSAGE: self._about} if self._about else {}
        connection.request("POST", PATH, body=self._answer, headers=headers)
        response = connection.getresponse()
        message = response.read(MAX_MESSAGE_BYTES + 1)
        if response.status == 410:
            raise _HungUp(HUNG_UP)
        if len(message) > MAX_MESSAGE_BYTES or response.status not in (200, 204):
            raise http.client.HTTPException(f"the coordinator answered {response.status}")
        self._tell("")
        self._about, self._answer = "", b""
        if response.status == 200:
            answer = self._handle(message)
            self._about, self._answer = response.headers.get(MESSAGE, ""), answer

    def _connect(self) -> http.client.HTTPSConnection:
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
        """Notes each change once; absence after an orderly end is no news."""
        if trouble and self._lost == HUNG_UP:
            return
        if trouble != self._lost and not self._stop_event.is_set():
            absent = trouble and trouble != HUNG_UP
            words = f"cannot be reached: {trouble}" if absent else trouble or "answers"
            self._note(f"the coordinator at {self._url} {words}")
        self._lost = trouble


def address_of(url: str) -> tuple[str, int]:
    parts = urlsplit(url)
    try:
        port = parts.port
    except ValueError:
        port = None
    if parts.scheme != "https" or not parts.hostname or port is None or parts.path not in ("", "/"):
        raise ParameterError(
            f"the coordinator's address is {url!r}; write it as https://host:port."
        )
    return parts.hostname, port


_OUT_OF_TIME = (9, 10)
"""OpenSSL's codes for certificates that are not yet valid, or no longer."""


class _HungUp(Exception):
    """The coordinator has announced its end."""


def _why(error: Exception) -> str:
    if isinstance(error, ssl.SSLCertVerificationError):
        if error.verify_code in _OUT_OF_TIME:
            here = dt.datetime.now(dt.UTC).strftime("%Y-%m-%d %H:%M")
            return (
                f"{error.verify_message}, and the clock here says {here} UTC; compare it with the "
                "coordinator's, and set what is wrong"
            )
        return f"its certificate is not the authority's ({error.verify_message})"
    return str(error) or type(error).__name__
