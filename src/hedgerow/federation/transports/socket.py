"""Messages over a Unix socket that its owner alone may open.

A network engine in another process uses it to reach the site's own service, and at the server to
reach the coordinator's own process. Nothing is unpickled and nothing listens on a network.
"""

from __future__ import annotations

import os
import socket
import stat
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from hedgerow.errors import ParameterError
from hedgerow.federation.exchange import MAX_MESSAGE_BYTES
from hedgerow.federation.transports.frames import receive_message, send_message, unix_address

SLOWEST_SECONDS = 60.0
"""Longest time between two bytes of one message; then the connection is closed."""


# Places.
def listen_at(path: Path, mode: int = 0o600) -> socket.socket:
    """A listening socket at `path`; one left by a process that died is removed."""
    with suppress(FileNotFoundError):
        if not stat.S_ISSOCK(path.lstat().st_mode):
            raise ParameterError(f"{path} is in the way of a socket and is none; move it away.")
        path.unlink()
    server = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    before = os.umask(0o177)  # nobody may connect between bind and chmod
    try:
        with unix_address(str(path)) as address:
            server.bind(address)
    except OSError as error:
        server.close()
        raise ParameterError(
            f"no socket can be made at {path} ({len(os.fsencode(path))} bytes): {error}. Name a "
            "shorter path in a folder of your own; `hedgerow site serve` takes one with `--socket`."
        ) from error
    finally:
        os.umask(before)
    path.chmod(mode)
    server.listen()
    return server


class SocketListener:
    """The listener in the service's process. `mode` admits the engine's user through its group."""

    def __init__(self, path: Path, handle: Callable[[bytes], bytes], *, mode: int = 0o600) -> None:
        self._path, self._handle = path, handle
        self._server = listen_at(path, mode)
        self._inode = path.stat().st_ino
        threading.Thread(target=self._accept, name="socket listener", daemon=True).start()

    def close(self) -> None:
        """Removes the socket, unless another service has put its own there."""
        with suppress(OSError):
            self._server.shutdown(socket.SHUT_RDWR)
        self._server.close()
        with suppress(FileNotFoundError):
            if self._path.stat().st_ino == self._inode:
                self._path.unlink()

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._server.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        """One engine's connection: any number of messages, each answered before the next."""
        with connection, suppress(OSError):
            connection.settimeout(SLOWEST_SECONDS)
            while True:
                message = receive_message(connection, MAX_MESSAGE_BYTES)
                send_message(connection, self._handle(message))
