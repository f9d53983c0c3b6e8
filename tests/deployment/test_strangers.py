"""Whoever calls without a token or a certificate holds nobody up and fills no log. Real sockets."""

from __future__ import annotations

import asyncio
import errno
import json
import logging
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from http.client import HTTPConnection

import pytest

from hedgerow.deployment import live
from hedgerow.deployment.live import LiveView, RunTeller, live_view
from hedgerow.federation.transports import listener as door
from support.effort import LONG
from support.network import https

pytestmark = pytest.mark.network

STRANGERS = 200
HALF_REQUESTS = (b"", b"GET /events?token=", b"GET / HTTP/1.0\r\nHost: x")
HALF_HANDSHAKES = (b"", b"\x16", b"\x16\x03\x01\x02\x00\x01")


@contextmanager
def strangers(port: int, count: int, sayings: tuple[bytes, ...]) -> Iterator[list[socket.socket]]:
    """Open lines on which little or nothing is said."""
    with ExitStack() as opened:
        lines = []
        for k in range(count):
            line = opened.enter_context(socket.create_connection(("127.0.0.1", port), LONG))
            line.sendall(sayings[k % len(sayings)])
            lines.append(line)
        yield lines


def is_cut_off(line: socket.socket, seconds: float) -> bool:
    line.settimeout(max(seconds, 0.01))
    try:
        while line.recv(4096):
            pass
    except TimeoutError:
        return False
    except OSError:
        return True
    return True


def count_cut_off(lines: list[socket.socket], within: float) -> int:
    end = time.monotonic() + within
    return sum(is_cut_off(line, end - time.monotonic()) for line in lines)


# ------------------------------------------------------------------------------------ the live page
def test_a_stranger_cannot_hold_up_the_end_of_a_live_page():
    closed, view = threading.Event(), LiveView("wards", RunTeller())
    with strangers(int(view.host.split(":")[1]), 8, HALF_REQUESTS):
        asking = HTTPConnection(view.host, timeout=LONG)
        asking.request("GET", "/", headers={"Host": view.host})  # all before it are accepted
        assert asking.getresponse().status == 403
        ending = threading.Thread(target=lambda: (view.close(), closed.set()), daemon=True)
        ending.start()
        assert closed.wait(4.0)


def test_a_browser_hears_the_end_while_strangers_hold_every_line(capfd):
    with live_view("wards", RunTeller()) as view:
        port = int(view.host.split(":")[1])
        watching = HTTPConnection(view.host, timeout=LONG)
        watching.request("GET", f"/events?token={view.token}", headers={"Host": view.host})
        stream = watching.getresponse()
        with strangers(port, 4 * live.MOST_CALLERS, HALF_REQUESTS) as lines:
            assert count_cut_off(lines[: 2 * live.MOST_CALLERS], 4.0) == 2 * live.MOST_CALLERS
            view.tell({"time": 1.0, "event": "begun", "study": "x"})
            view.close()
        told = [line for line in stream.read().decode().splitlines() if line.startswith("data: ")]
        assert [json.loads(line[6:])["words"] for line in told] == ["begun: x"]
    assert capfd.readouterr().err == ""


# ---------------------------------------------------------------------------------- the HTTPS door
def test_callers_without_certificates_are_few_at_a_time_and_a_site_comes_in(tmp_path):
    with https(tmp_path, {"site-1": lambda letter: b"to " + letter}) as carrier:
        assert carrier.ask({"site-1": b"first"}, LONG) == {"site-1": b"to first"}
        with strangers(carrier.port, STRANGERS, HALF_HANDSHAKES) as lines:
            oldest = lines[: STRANGERS - door.MOST_STRANGERS]
            assert count_cut_off(oldest, door.HANDSHAKE_SECONDS / 2) == len(oldest)
            assert carrier.ask({"site-1": b"second"}, LONG) == {"site-1": b"to second"}
            carrier.close()
            assert count_cut_off(lines, LONG) == STRANGERS


def test_callers_without_certificates_write_few_lines_and_no_traceback(tmp_path, caplog, capfd):
    caplog.set_level(logging.INFO)
    with https(tmp_path, {"site-1": lambda letter: b"to " + letter}) as carrier:
        for k in range(STRANGERS):
            with socket.create_connection(("127.0.0.1", carrier.port), LONG) as line:
                line.sendall(
                    b"GET / HTTP/1.1\r\n\r\n" if k % 2 else b"\x16\x03\x01\x00\x02\x01\x00"
                )
                if k == STRANGERS - 1:
                    assert is_cut_off(line, LONG)
        assert carrier.ask({"site-1": b"?"}, LONG) == {"site-1": b"to ?"}
    lines = [one for one in caplog.records if "turned away" in one.getMessage()]
    assert 1 <= len(lines) <= door.MOST_LINES
    assert not [one for one in caplog.records if one.exc_info]
    assert "Traceback" not in capfd.readouterr().err


def test_lines_of_a_log_are_counted_when_they_are_left_out(monkeypatch):
    now = [1000.0]
    monkeypatch.setattr(door.time, "monotonic", lambda: now[0])
    lines = door.Lines(2, 60.0)
    assert [lines.next() for _ in range(5)] == ["", "", None, None, None]
    now[0] += 60.0
    assert lines.next() == "; 3 more before"
    assert lines.next() == ""


def test_a_door_without_descriptors_waits_and_says_so_once_in_a_while(
    tmp_path, caplog, monkeypatch
):
    """Where asyncio's own server writes a traceback at every try."""
    tries = []

    async def nothing_left(self, listener):
        tries.append(time.monotonic())
        if len(tries) > 50:
            await asyncio.Event().wait()
        raise OSError(errno.EMFILE, "too many open files")

    monkeypatch.setattr(door, "FULL_PAUSE", 0.0)
    monkeypatch.setattr(asyncio.SelectorEventLoop, "sock_accept", nothing_left)
    with https(tmp_path, {}):
        end = time.monotonic() + LONG
        while len(tries) <= 50 and time.monotonic() < end:
            threading.Event().wait(0.01)
    assert len(tries) == 51
    lines = [one for one in caplog.records if "too many open files" in one.getMessage()]
    assert len(lines) == door.MOST_LINES
    assert not [one for one in caplog.records if one.exc_info]
