"""The coordinator's end of a pipe through a network engine: FLARE, or Flower.

    coordinator's process    PipeExchange
        | Unix socket
    engine, at the server    takes messages from the socket, brings answers back
        | the engine's own network
    engine, at a site        asks the site's own service
        | Unix socket
    site's process           its service

The engine's job or run only carries bytes. If any part of it dies, another one is submitted and the
same messages are asked again, which costs nothing. What the engine reports about its state is not
trusted: only answers count.
"""

from __future__ import annotations

import socket
import time
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from hedgerow.errors import EngineLost
from hedgerow.federation.audit_log import LOG
from hedgerow.federation.exchange import (
    LONGEST_ANSWER,
    Accept,
    Messages,
    Misses,
    NamedExchange,
    Quorum,
)
from hedgerow.federation.transports.frames import (
    receive_named,
    receive_note,
    send_message,
    send_named,
)
from hedgerow.federation.transports.socket import listen_at

ACCEPT_SECONDS = 90.0
"""Time for the engine to start a submitted job, until it calls."""
HELLO_SECONDS = 60.0
"""Time for a submitted job to find the sites; also how late answers may be."""
SUBMIT_PAUSE = 2.0
SUBMITS = 30


class PipeExchange(ABC):
    """An `Exchange` that submits a job, waits until it calls, and asks through it."""

    pace = 0.0
    engine: str

    def __init__(self, names: Sequence[str], socket_path: Path) -> None:
        self._names, self._path = tuple(names), socket_path.resolve()
        self._server = listen_at(self._path)
        self._server.settimeout(ACCEPT_SECONDS)
        self._pipe: socket.socket | None = None
        self.jobs = 0
        """Number of jobs submitted."""

    @abstractmethod
    def submit(self) -> str:
        """Submits a job that will call; raises if the engine does not take it."""

    def __call__(self, messages: Messages, accept: Accept, quorum: Quorum) -> Misses:
        return NamedExchange(self._names, self.ask)(messages, accept, quorum)

    def ask(self, messages: Mapping[str, bytes], timeout: float) -> Mapping[str, bytes]:
        """Asks through the present job, or through another if that one is gone."""
        for _ in range(3):
            try:
                return self._through(self._pipe or self._submit_job(), messages, timeout)
            except OSError as error:
                LOG.warning("the %s job is gone (%s); another one is submitted", self.engine, error)
                self._hang_up()
        raise EngineLost(
            f"{self.engine} lost three jobs in a row; look at the server's log, then resume."
        )

    def close(self) -> None:
        if self._pipe is not None:
            with suppress(OSError):
                send_message(self._pipe, b"")
        self._hang_up()
        self._server.close()
        self._path.unlink(missing_ok=True)

    def _through(
        self, pipe: socket.socket, messages: Mapping[str, bytes], timeout: float
    ) -> dict[str, bytes]:
        pipe.settimeout(timeout + HELLO_SECONDS)
        send_named(pipe, messages, timeout=timeout)
        return receive_named(pipe, LONGEST_ANSWER)[1]

    def _submit_job(self) -> socket.socket:
        """Submits a job and waits until it calls."""
        job = self._submit_until_taken()
        self.jobs += 1
        try:
            pipe, _ = self._server.accept()
        except TimeoutError:
            raise OSError(f"job {job} did not call") from None
        self._pipe = pipe
        pipe.settimeout(HELLO_SECONDS + ACCEPT_SECONDS)
        LOG.info("%s job %s runs: %s", self.engine, job, receive_note(pipe))
        return pipe

    def _submit_until_taken(self) -> str:
        """The name of a job that the engine has taken; retries while its server is absent."""
        trouble: Exception | None = None
        for _ in range(SUBMITS):
            try:
                return self.submit()
            except Exception as error:  # engines raise anything while the server is absent
                trouble = error
                time.sleep(SUBMIT_PAUSE)
        raise EngineLost(
            f"{self.engine}'s server takes no job ({trouble}); check that it runs, then resume."
        ) from trouble

    def _hang_up(self) -> None:
        if self._pipe is not None:
            self._pipe.close()
            self._pipe = None
