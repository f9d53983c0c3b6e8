"""Messages over a Unix socket: whole, bounded, and only for whoever may open it."""

from __future__ import annotations

import socket
import threading
from pathlib import Path

import pytest

from hedgerow.errors import ParameterError
from hedgerow.federation.exchange import LONGEST_ANSWER, MAX_MESSAGE_BYTES
from hedgerow.federation.transports.frames import (
    Hangup,
    ask_service,
    receive_message,
    send_message,
)
from hedgerow.federation.transports.socket import SocketListener


def ask(folder: Path, message: bytes) -> bytes:
    return ask_service(str(folder / "socket"), message, LONGEST_ANSWER)


@pytest.fixture
def listener(tmp_path: Path):
    opened = SocketListener(tmp_path / "socket", lambda message: b"got " + message)
    yield opened
    opened.close()


def test_letters_are_answered_also_long_ones_and_many_at_once(tmp_path, listener):
    long = bytes(3_000_000)
    assert (ask(tmp_path, b""), ask(tmp_path, long)) == (b"got ", b"got " + long)
    answers: dict[int, bytes] = {}

    def ask_once(k: int) -> None:
        answers[k] = ask(tmp_path, str(k).encode())

    threads = [threading.Thread(target=ask_once, args=(k,)) for k in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert answers == {k: b"got %d" % k for k in range(20)}


def test_the_socket_is_its_owners_alone_and_is_gone_afterwards(tmp_path):
    listener = SocketListener(tmp_path / "socket", lambda message: message)
    assert (tmp_path / "socket").stat().st_mode & 0o777 == 0o600
    listener.close()
    assert not (tmp_path / "socket").exists()
    with pytest.raises(OSError):
        ask(tmp_path, b"?")


def test_a_socket_left_by_a_dead_process_is_replaced_and_a_file_is_not(tmp_path):
    left = socket.socket(socket.AF_UNIX)
    left.bind(str(tmp_path / "socket"))
    left.close()
    listener = SocketListener(tmp_path / "socket", lambda message: message)
    assert ask(tmp_path, b"x") == b"x"
    listener.close()
    (tmp_path / "file").write_text("mine")
    with pytest.raises(ParameterError, match="in the way"):
        SocketListener(tmp_path / "file", lambda message: message)
    with pytest.raises(ParameterError, match="nearer to the root"):
        SocketListener(tmp_path / ("x" * 120), lambda message: message)


@pytest.mark.parametrize("said", [(MAX_MESSAGE_BYTES + 1).to_bytes(8, "big"), b"\xff" * 8, b"\0\0"])
def test_who_announces_too_much_or_stops_is_hung_up_on(tmp_path, listener, said):
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(str(tmp_path / "socket"))
        connection.sendall(said)
        connection.shutdown(socket.SHUT_WR)
        assert connection.recv(1) == b""
    assert ask(tmp_path, b"?") == b"got ?"


def test_a_message_cut_off_is_no_message():
    one, other = socket.socketpair()
    with other:
        with one:
            send_message(one, b"whole")
            one.sendall((10).to_bytes(8, "big") + b"half")
        assert receive_message(other, 100) == b"whole"
        with pytest.raises(Hangup, match="in the middle"):
            receive_message(other, 100)
