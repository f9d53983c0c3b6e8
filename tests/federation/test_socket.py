"""Messages over a Unix socket: whole, bounded, and only for whoever may open it."""

from __future__ import annotations

import os
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
    unix_address,
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
    with pytest.raises(ParameterError, match="Name a shorter path"):
        SocketListener(tmp_path / ("x" * 120), lambda message: message)


@pytest.mark.parametrize("has_descriptors", [True, False], ids=["Linux", "macOS"])
def test_a_deep_folder_has_its_socket_inside_for_its_owner_alone(
    has_descriptors, tmp_path, monkeypatch
):
    """The kernel takes 107 bytes of an address (macOS: 103); a newcomer's folder may be deeper."""
    if not has_descriptors:
        monkeypatch.delattr(os, "O_PATH")
    deep = tmp_path.joinpath(*["a_folder_of_a_project"] * 9)
    deep.mkdir(parents=True)
    for _ in range(2):  # the second finds the socket of one that died
        listener = SocketListener(deep / "socket", lambda message: b"got " + message)
        assert (deep / "socket").lstat().st_mode & 0o777 == 0o600
        assert ask(deep, b"x") == b"got x"
        (deep / "socket").rename(deep / "aside")
        listener.close()
        (deep / "aside").rename(deep / "socket")
    with pytest.raises(ConnectionRefusedError):
        ask(deep, b"x")


def test_a_folder_swapped_for_a_link_is_not_followed_after_it_was_opened(tmp_path):
    """The address of a deep socket names the folder that was opened, whoever renames it."""
    deep = tmp_path / ("d" * 120)
    deep.mkdir()
    with unix_address(str(deep / "socket")) as address, socket.socket(socket.AF_UNIX) as server:
        deep.rename(tmp_path / "moved")
        (tmp_path / "planted").mkdir()
        deep.symlink_to(tmp_path / "planted")
        server.bind(address)
    assert (tmp_path / "moved/socket").is_socket()
    assert not (tmp_path / "planted/socket").exists()


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
