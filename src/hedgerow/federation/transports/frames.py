"""Messages over a socket: eight bytes of length, then the bytes; also several with names.

A network engine gets a copy of this file, so it imports the standard library alone.
"""

from __future__ import annotations

import json
import os
import socket
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

_WIDTH = 8
_AT_ONCE = 1 << 20
_LONGEST_ADDRESS = 100
"""Bytes of a Unix socket's address; kernels allow 103 or 107."""
LONGEST_NOTE = 1 << 20
"""The note before named messages: the names, and numbers beside them."""


class Hangup(OSError):
    """The other end closed, or sent something that is not a message."""


def send_message(connection: socket.socket, data: bytes) -> None:
    connection.sendall(len(data).to_bytes(_WIDTH, "big"))
    connection.sendall(data)


def receive_message(connection: socket.socket, longest: int) -> bytes:
    """One message; raises `Hangup` if the other end closes, or announces more than `longest`."""
    length = int.from_bytes(_exactly(connection, _WIDTH), "big")
    if length > longest:
        raise Hangup(f"a message of {length} bytes was announced; at most {longest} are taken.")
    return _exactly(connection, length)


def _exactly(connection: socket.socket, length: int) -> bytes:
    """Allocates by what arrives, not by what was announced."""
    parts = bytearray()
    while len(parts) < length:
        part = connection.recv(min(_AT_ONCE, length - len(parts)))
        if not part:
            raise Hangup("the other end closed in the middle of a message.")
        parts += part
    return bytes(parts)


def send_note(connection: socket.socket, note: Mapping[str, Any]) -> None:
    send_message(connection, json.dumps(dict(note)).encode())


def receive_note(connection: socket.socket) -> dict[str, Any]:
    """What `send_note` sent; empty if the other end closed with an empty message."""
    result: dict[str, Any] = json.loads(receive_message(connection, LONGEST_NOTE) or b"{}")
    return result


def send_named(connection: socket.socket, messages: Mapping[str, bytes], **more: Any) -> None:
    send_note(connection, {"sites": list(messages), **more})
    for message in messages.values():
        send_message(connection, message)


def receive_named(
    connection: socket.socket, longest: int
) -> tuple[dict[str, Any], dict[str, bytes]]:
    """The note and the messages; none if the other end closed."""
    note = receive_note(connection)
    return note, {name: receive_message(connection, longest) for name in note.get("sites", ())}


@contextmanager
def unix_address(path: str) -> Iterator[str]:
    """An address of the socket at `path` that the kernel accepts, however deep its folder is.

    A long path goes through a descriptor of its folder, where the system has such names; elsewhere
    (macOS) through a short link to the folder, which only this user can follow.
    """
    folder, name = os.path.split(path)
    if len(os.fsencode(path)) <= _LONGEST_ADDRESS:
        yield path
    elif hasattr(os, "O_PATH"):
        descriptor = os.open(folder or ".", os.O_PATH | os.O_DIRECTORY)
        try:
            yield f"/proc/self/fd/{descriptor}/{name}"
        finally:
            os.close(descriptor)
    else:
        with tempfile.TemporaryDirectory(prefix="hr") as short:
            os.symlink(os.path.realpath(folder), f"{short}/f")
            yield f"{short}/f/{name}"


def connect_unix(path: str) -> socket.socket:
    """A connection to the Unix socket at `path`; OSError if nobody listens there."""
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        with unix_address(path) as address:
            connection.connect(address)
    except BaseException:
        connection.close()
        raise
    return connection


def ask_service(path: str, message: bytes, longest: int) -> bytes:
    """The answer of the site's own service at its Unix socket; OSError if it is absent."""
    with connect_unix(path) as connection:
        send_message(connection, message)
        return receive_message(connection, longest)
