"""Messages over a Unix socket: whole, bounded, and only for whoever may open it."""

from __future__ import annotations

import socket
import threading
from pathlib import Path

import pytest

from hedgerow.errors import SpecError
from hedgerow.federation.exchange import LONGEST_LETTER
from hedgerow.federation.transports.socket import (
    SocketDoor,
    SocketSite,
    Stopped,
    receive_message,
    send_message,
)


@pytest.fixture
def door(tmp_path: Path):
    opened = SocketDoor(tmp_path / "socket", lambda letter: b"got " + letter)
    yield opened
    opened.close()


def test_letters_are_answered_also_long_ones_and_many_at_once(tmp_path, door):
    site = SocketSite(tmp_path / "socket")
    long = bytes(3_000_000)
    assert (site.handle(b""), site.handle(long)) == (b"got ", b"got " + long)
    answers: dict[int, bytes] = {}

    def ask(k: int) -> None:
        answers[k] = site.handle(str(k).encode())

    threads = [threading.Thread(target=ask, args=(k,)) for k in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert answers == {k: b"got %d" % k for k in range(20)}


def test_the_socket_is_its_owners_alone_and_is_gone_afterwards(tmp_path):
    door = SocketDoor(tmp_path / "socket", lambda letter: letter)
    assert (tmp_path / "socket").stat().st_mode & 0o777 == 0o600
    door.close()
    assert not (tmp_path / "socket").exists()
    with pytest.raises(OSError):
        SocketSite(tmp_path / "socket").handle(b"?")


def test_a_socket_left_by_a_dead_process_is_replaced_and_a_file_is_not(tmp_path):
    left = socket.socket(socket.AF_UNIX)
    left.bind(str(tmp_path / "socket"))
    left.close()
    door = SocketDoor(tmp_path / "socket", lambda letter: letter)
    assert SocketSite(tmp_path / "socket").handle(b"x") == b"x"
    door.close()
    (tmp_path / "file").write_text("mine")
    with pytest.raises(SpecError, match="in the way"):
        SocketDoor(tmp_path / "file", lambda letter: letter)
    with pytest.raises(SpecError, match="nearer to the root"):
        SocketDoor(tmp_path / ("x" * 120), lambda letter: letter)


@pytest.mark.parametrize("said", [(LONGEST_LETTER + 1).to_bytes(8, "big"), b"\xff" * 8, b"\0\0"])
def test_who_announces_too_much_or_stops_is_hung_up_on(tmp_path, door, said):
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(str(tmp_path / "socket"))
        connection.sendall(said)
        connection.shutdown(socket.SHUT_WR)
        assert connection.recv(1) == b""
    assert SocketSite(tmp_path / "socket").handle(b"?") == b"got ?"


def test_a_message_cut_off_is_no_message():
    one, other = socket.socketpair()
    with other:
        with one:
            send_message(one, b"whole")
            one.sendall((10).to_bytes(8, "big") + b"half")
        assert receive_message(other, 100) == b"whole"
        with pytest.raises(Stopped, match="in the middle"):
            receive_message(other, 100)
