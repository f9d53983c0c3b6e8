"""Whoever calls without a token or a certificate holds nobody up and fills no log. Real sockets."""

from __future__ import annotations

import asyncio
import errno
import http.client
import json
import logging
import re
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from http.client import HTTPConnection
from pathlib import Path

import pytest

from deployment.test_enrollment import body_of
from deployment.test_serve import Kept, Served
from federation.test_https import posted
from hedgerow.deployment import live
from hedgerow.deployment.enrollment import Enrollment
from hedgerow.deployment.live import LiveView, RunTeller, live_view
from hedgerow.deployment.run_folder import RunFolder
from hedgerow.deployment.serve import Service
from hedgerow.deployment.study_file import StudyFile
from hedgerow.errors import ParameterError
from hedgerow.federation.client import refusal_code
from hedgerow.federation.secure_sites import SecureSites
from hedgerow.federation.transports import https as limited
from hedgerow.federation.transports.caller import Caller, client_context
from hedgerow.federation.transports.certificates import Authority
from hedgerow.federation.transports.https import HttpsExchange
from hedgerow.secagg.keys import Identity, Roster
from hedgerow.secagg.server import Coordinator
from support.effort import LONG
from support.network import World, ask, certified, https

pytestmark = pytest.mark.network

STRANGERS, SOON = 200, LONG / 8
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
@pytest.fixture
def nobody_is_too_slow(monkeypatch):
    """So that lines are cut off for what the test is about, and on no machine by their time."""
    monkeypatch.setattr(live._Handler, "timeout", 10 * LONG)
    monkeypatch.setattr(limited, "HANDSHAKE_SECONDS", 10 * LONG)


def test_a_stranger_cannot_hold_up_the_end_of_a_live_page(nobody_is_too_slow):
    closed, view = threading.Event(), LiveView("wards", RunTeller())
    with strangers(int(view.host.split(":")[1]), 8, HALF_REQUESTS):
        asking = HTTPConnection(view.host, timeout=LONG)
        asking.request("GET", "/", headers={"Host": view.host})  # all before it are accepted
        assert asking.getresponse().status == 403
        ending = threading.Thread(target=lambda: (view.close(), closed.set()), daemon=True)
        ending.start()
        assert closed.wait(SOON)


def test_a_browser_hears_the_end_while_strangers_hold_every_line(capfd, nobody_is_too_slow):
    with live_view("wards", RunTeller()) as view:
        port = int(view.host.split(":")[1])
        watching = HTTPConnection(view.host, timeout=LONG)
        watching.request("GET", f"/events?token={view.token}", headers={"Host": view.host})
        stream = watching.getresponse()
        with strangers(port, 4 * live.MOST_CALLERS, HALF_REQUESTS) as lines:
            assert count_cut_off(lines[: 2 * live.MOST_CALLERS], SOON) == 2 * live.MOST_CALLERS
            view.tell({"time": 1.0, "event": "begun", "study": "x"})
            view.close()
        told = [line for line in stream.read().decode().splitlines() if line.startswith("data: ")]
        assert [json.loads(line[6:])["words"] for line in told] == ["begun: x"]
    assert capfd.readouterr().err == ""


# ---------------------------------------------------------------------------------- the HTTPS
# limited
def test_callers_without_certificates_are_few_at_a_time_and_a_site_comes_in(
    tmp_path, nobody_is_too_slow
):
    with https(tmp_path, {"site-1": lambda message: b"to " + message}) as transport:
        assert ask(transport, {"site-1": b"first"}, LONG) == {"site-1": b"to first"}
        with strangers(transport.port, STRANGERS, HALF_HANDSHAKES) as lines:
            oldest = lines[: STRANGERS - limited.MOST_STRANGERS]
            assert count_cut_off(oldest, SOON) == len(oldest)
            assert ask(transport, {"site-1": b"second"}, LONG) == {"site-1": b"to second"}
            transport.close()
            assert count_cut_off(lines, LONG) == STRANGERS


def test_callers_without_certificates_write_few_lines_and_no_traceback(tmp_path, caplog, capfd):
    caplog.set_level(logging.INFO)
    with https(tmp_path, {"site-1": lambda message: b"to " + message}) as transport:
        for k in range(STRANGERS):
            with socket.create_connection(("127.0.0.1", transport.port), LONG) as line:
                line.sendall(
                    b"GET / HTTP/1.1\r\n\r\n" if k % 2 else b"\x16\x03\x01\x00\x02\x01\x00"
                )
                if k == STRANGERS - 1:
                    assert is_cut_off(line, LONG)
        assert ask(transport, {"site-1": b"?"}, LONG) == {"site-1": b"to ?"}
    lines = [one for one in caplog.records if "turned away" in one.getMessage()]
    assert 1 <= len(lines) <= limited.MOST_LINES
    assert not [one for one in caplog.records if one.exc_info]
    assert "Traceback" not in capfd.readouterr().err


def test_lines_of_a_log_are_counted_when_they_are_left_out(monkeypatch):
    now = [1000.0]
    monkeypatch.setattr(limited.time, "monotonic", lambda: now[0])
    lines = limited.Lines(2, 60.0)
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

    monkeypatch.setattr(limited, "FULL_PAUSE", 0.0)
    monkeypatch.setattr(asyncio.SelectorEventLoop, "sock_accept", nothing_left)
    with https(tmp_path, {}):
        end = time.monotonic() + LONG
        while len(tries) <= 50 and time.monotonic() < end:
            threading.Event().wait(0.01)
    assert len(tries) == 51
    lines = [one for one in caplog.records if "too many open files" in one.getMessage()]
    assert len(lines) == limited.MOST_LINES
    assert not [one for one in caplog.records if one.exc_info]


# --------------------------------------------------------------------------------------------------
# Everybody who has no business here, in one table: refused, written down, and nothing charged.
TURNED_AWAY = (ssl.SSLError, ConnectionError, http.client.RemoteDisconnected)


class Scene:
    """Three sites that serve an approved study, and a coordinator's limited that they may call."""

    def __init__(self, world: World, served: Served, limited: HttpsExchange, log) -> None:
        self.world, self.served, self.limited, self._log = world, served, limited, log

    def site_says(self, event: str) -> str:
        return " ".join(str(line) for line in self.world.lines(0, event))

    def listener_says(self) -> str:
        return " ".join(record.getMessage() for record in self._log.records)

    def refuses(self, message: bytes) -> str | None:
        return refusal_code(self.served.all[0].daemon.handle(message))

    def stranger(self) -> Authority:
        folder = self.world.folder / "stranger"
        folder.mkdir()
        return Authority.open(folder / "authority")


# ------------------------------------------------------------- each gives what was written down
def no_certificate(scene: Scene) -> str:
    bare = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    bare.load_verify_locations(scene.world.folder / "authority/authority.crt")
    with pytest.raises(TURNED_AWAY):
        posted(scene.limited.port, bare)
    return scene.listener_says()


def another_authority(scene: Scene) -> str:
    key, own, _ = certified(scene.world.folder / "stranger", scene.stranger(), "site-1")
    tls = client_context(key, own, scene.world.folder / "authority/authority.crt")
    with pytest.raises(TURNED_AWAY):
        posted(scene.limited.port, tls)
    return scene.listener_says()


def a_coordinator_of_another_authority(scene: Scene) -> str:
    """A site calls a limited whose certificate its own authority has not signed."""
    other = scene.stranger()
    false = HttpsExchange(scene.world.names, other.server_context(["127.0.0.1"]), "127.0.0.1")
    try:
        tls = client_context(*certified(scene.world.folder, scene.world.authority, "site-1"))
        said: list[str] = []
        caller = Caller(f"https://127.0.0.1:{false.port}", tls, lambda message: b"", said.append)
        with pytest.raises(ssl.SSLCertVerificationError) as refused:
            caller._call()
        assert false.callers == set()
    finally:
        false.close()
    caller._tell(str(refused.value))
    return " ".join(said)


def another_sites_name(scene: Scene) -> str:
    """Its own key, another's token: the coordinator signs no such request."""
    enrollment = Enrollment(RunFolder(scene.world.folder), scene.world.coordinator.public)
    enrollment.invite(scene.world.names, "https://localhost:8443")
    owner, liar = scene.world.sites[:2]
    enrollment.admit(body_of(owner, enrollment.token_of(owner.name)))
    with pytest.raises(ParameterError) as refused:
        enrollment.admit(body_of(liar, enrollment.token_of(owner.name)))
    return str(refused.value)


def a_name_outside_the_roster(scene: Scene) -> str:
    tls = client_context(*certified(scene.world.folder, scene.world.authority, "site-9"))
    assert posted(scene.limited.port, tls) == 403
    return scene.listener_says()


def a_replaced_roster_key(scene: Scene) -> str:
    world = scene.world
    stranger = Identity.generate().public.hex()
    changed = world.write_study("changed", **{world.sites[1].identity().public.hex(): stranger})
    with pytest.raises(ParameterError, match="known here"):
        world.approve_at(world.sites[0], changed)
    return scene.site_says("not approved")


def a_changed_study(scene: Scene) -> str:
    """The coordinator runs another study than was approved: its messages have another hash."""
    other = scene.world.write_study("study", **{"max_depth = 2": "max_depth = 3"})
    message = scene.world.link(scene.served.transport, other).coordinator.join()[0]
    assert scene.refuses(message) == "NotApproved"
    return scene.site_says("refused")


def a_study_file_changed_at_the_site(scene: Scene) -> str:
    (folder,) = scene.world.sites[0].study_folders()
    text = folder.study_file.read_text().replace("max_depth = 2", "max_depth = 3")
    folder.study_file.write_text(text)
    scene.served.all[0].close()
    scene.served.all[0] = Service(scene.world.sites[0])
    assert not scene.served.all[0].daemon.studies
    return scene.site_says("cannot serve")


def a_replayed_round(scene: Scene) -> str:
    """All messages of a whole run, once more, after the next run has begun."""
    world, kept = scene.world, Kept(scene.served.transport)
    world.train(kept)
    charged = scene.served.charges(world.study_file)
    agreed = StudyFile.read(world.study_file)
    parameters = agreed.study.parameters
    later = Coordinator(
        world.coordinator, agreed.roster, parameters, agreed.study.hash, attempt=len(kept.messages)
    )
    link = world.link(scene.served.transport)
    SecureSites(agreed.study, later, link.exchange, link.retry_policy).enter()
    assert kept.messages
    for messages in kept.messages:
        assert scene.refuses(messages[0]) is not None
    assert scene.served.charges(world.study_file) == charged
    return scene.site_says("refused")


def a_flipped_bit(scene: Scene) -> str:
    message = bytearray(scene.world.link(scene.served.transport).coordinator.join()[0])
    message[-1] ^= 1
    assert scene.refuses(bytes(message)) == "BadSignature"
    return scene.site_says("refused")


def a_second_coordinator(scene: Scene) -> str:
    agreed, liar = StudyFile.read(scene.world.study_file), Identity.generate()
    roster = Roster(agreed.roster.sites, liar.public)
    parameters = agreed.study.parameters
    message = Coordinator(liar, roster, parameters, agreed.study.hash).join()[0]
    assert scene.refuses(message) == "BadSignature"
    return scene.site_says("refused")


INTRUDERS: dict[str, tuple[Callable[[Scene], str], str]] = {
    "no certificate": (
        no_certificate,
        "turned away at the listener: PEER_DID_NOT_RETURN_A_CERTIFICATE",
    ),
    "another authority": (
        another_authority,
        "turned away at the listener: CERTIFICATE_VERIFY_FAILED",
    ),
    "a coordinator of another authority": (
        a_coordinator_of_another_authority,
        "cannot be reached: .*CERTIFICATE_VERIFY_FAILED",
    ),
    "another site's name": (another_sites_name, "was used by another key"),
    "a name outside the roster": (a_name_outside_the_roster, "'site-9' called, which is no site"),
    "a replaced roster key": (a_replaced_roster_key, "fewer than 2 of the other sites are known"),
    "a changed study": (a_changed_study, "is not approved here"),
    "a study file changed at the site": (
        a_study_file_changed_at_the_site,
        "changed after it was approved",
    ),
    "a replayed round": (a_replayed_round, "RunSuperseded"),
    "a flipped bit": (a_flipped_bit, "BadSignature"),
    "a second coordinator": (a_second_coordinator, "BadSignature"),
}
"""What each does, and what is written down where the owner of that machine looks."""


@pytest.fixture
def scene(tmp_path: Path, caplog):
    world = World(tmp_path)
    world.approve(world.study_file)
    tls = world.authority.server_context(["127.0.0.1"])
    limited = HttpsExchange(world.names, tls, "127.0.0.1")
    try:
        with Served(world) as served, caplog.at_level(logging.WARNING, "hedgerow.site"):
            yield Scene(world, served, limited, caplog)
    finally:
        limited.close()


@pytest.mark.parametrize("who", INTRUDERS)
def test_an_intruder_is_refused_and_written_down_and_nothing_is_charged(scene, who):
    intrudes, told = INTRUDERS[who]
    study = scene.world.study_file
    before = scene.served.charges(study)
    assert before == [0, 0, 0]
    said = intrudes(scene)
    assert re.search(told, said), said
    if who != "a replayed round":  # which has a run of its own charged before, and looks itself
        assert scene.served.charges(study) == before


def test_a_letter_of_the_coordinator_is_not_refused(scene):
    """Twin."""
    message = scene.world.link(scene.served.transport).coordinator.join()[0]
    assert scene.refuses(message) is None
    tls = client_context(*certified(scene.world.folder, scene.world.authority, "site-1"))
    connection = http.client.HTTPSConnection("127.0.0.1", scene.limited.port, context=tls)
    connection.connect()
    connection.close()
    assert scene.listener_says() == ""
