"""Letters over HTTPS with real sockets: they arrive, strangers stay outside."""

from __future__ import annotations

import datetime as dt
import http.client
import socket
import ssl
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest

from hedgerow.errors import EngineLost, ParameterError
from hedgerow.federation.exchange import Quorum
from hedgerow.federation.transports import certificates
from hedgerow.federation.transports.caller import HUNG_UP, MESSAGE, PATH, address_of, client_context
from hedgerow.federation.transports.certificates import (
    Authority,
    Request,
    accept_certificate,
    new_key,
)
from hedgerow.federation.transports.https import MOST_SITE_CONNECTIONS, HttpsExchange
from hedgerow.secagg.keys import Identity
from support.effort import LONG
from support.faults import free_port
from support.network import ask, calling, certified, https, names

pytestmark = pytest.mark.network


def echo(name: str):
    return lambda message: name.encode() + b" got " + message


@pytest.fixture
def three(tmp_path: Path):
    with https(tmp_path, {name: echo(name) for name in names(3)}) as transport:
        yield transport


# -------------------------------------------------------------------------------------- carrying
def test_every_site_gets_its_own_letter_and_answers_it(three):
    for round in range(20):
        messages = {name: f"{name} {round}".encode() for name in names(3)}
        assert ask(three, messages, LONG) == {n: echo(n)(m) for n, m in messages.items()}


def test_long_and_empty_letters_and_answers_travel(tmp_path):
    long = bytes(range(256)) * 40_000  # 10 MB
    sites = {"site-1": lambda message: message, "site-2": lambda message: b""}
    with https(tmp_path, sites) as transport:
        assert ask(transport, {"site-1": long, "site-2": b"?"}, LONG) == {
            "site-1": long,
            "site-2": b"",
        }
        assert ask(transport, {"site-1": b""}, LONG) == {"site-1": b""}


def test_a_silent_site_is_absent_and_its_late_answer_is_not_taken_for_another(tmp_path):
    release = threading.Event()

    def slow(message: bytes) -> bytes:
        if message == b"first":
            release.wait(LONG)
        return b"to " + message

    with https(tmp_path, {"site-1": slow, "site-2": echo("site-2")}) as transport:
        both = {"site-1": b"first", "site-2": b"first"}
        tries = (ask(transport, both, seconds) for seconds in (0.5, 5.0, LONG))
        got = next(filter(None, tries))  # the first that was long enough for the other site
        assert set(got) == {"site-2"}
        release.set()
        assert ask(transport, {"site-1": b"second"}, LONG) == {"site-1": b"to second"}


def test_a_letter_waits_for_a_site_that_comes_later(tmp_path):
    authority = Authority.open(tmp_path / "authority")
    listener = HttpsExchange(["site-1"], authority.server_context(["127.0.0.1"]), "127.0.0.1")
    answers: list[object] = []
    asking = threading.Thread(target=lambda: answers.append(ask(listener, {"site-1": b"?"}, LONG)))
    try:
        asking.start()
        tls = client_context(*certified(tmp_path, authority, "site-1"))
        with calling(f"https://127.0.0.1:{listener.port}", tls, echo("site-1")):
            asking.join()
        assert answers == [{"site-1": b"site-1 got ?"}]
    finally:
        listener.close()


def test_a_site_finds_a_coordinator_that_went_away_and_came_back(tmp_path):
    authority = Authority.open(tmp_path / "authority")
    tls = client_context(*certified(tmp_path, authority, "site-1"))

    def listener(port: int = 0) -> HttpsExchange:
        return HttpsExchange(["site-1"], authority.server_context(["127.0.0.1"]), "127.0.0.1", port)

    first, notes = listener(free_port()), list[str]()
    with calling(f"https://127.0.0.1:{first.port}", tls, echo("site-1"), notes.append) as caller:
        assert ask(first, {"site-1": b"1"}, LONG)
        until(lambda: first._desks[0].calls == 2)  # it waits for the next message
        first.close()
        until(lambda: caller._lost == HUNG_UP)
        caller._tell("Connection refused")  # as it may find by itself, before the next line
        second = listener(first.port)
        try:
            assert ask(second, {"site-1": b"2"}, LONG) == {"site-1": b"site-1 got 2"}
        finally:
            second.close()
    said = [note.partition(f":{first.port} ")[2].split(",")[0] for note in notes]
    assert said[:2] == ["has ended", "answers"]


def until(is_so: Callable[[], bool]) -> None:
    end = time.monotonic() + LONG
    while not is_so():
        assert time.monotonic() < end
        time.sleep(0.005)


def test_a_letter_is_given_again_to_a_site_that_died_with_it(tmp_path):
    authority = Authority.open(tmp_path / "authority")
    tls = client_context(*certified(tmp_path, authority, "site-1"))
    listener = HttpsExchange(["site-1"], authority.server_context(["127.0.0.1"]), "127.0.0.1")
    answers: list[object] = []
    asking = threading.Thread(target=lambda: answers.append(ask(listener, {"site-1": b"?"}, LONG)))
    try:
        asking.start()
        taken = http.client.HTTPSConnection("127.0.0.1", listener.port, context=tls)
        taken.request("POST", PATH, body=b"")
        assert taken.getresponse().read() == b"?"
        taken.close()  # and never answers
        with calling(f"https://127.0.0.1:{listener.port}", tls, echo("site-1")):
            asking.join()
        assert answers == [{"site-1": b"site-1 got ?"}]
    finally:
        listener.close()


def test_a_site_that_is_stopped_while_it_connects_does_not_wait_for_a_letter(tmp_path):
    authority = Authority.open(tmp_path / "authority")
    tls = client_context(*certified(tmp_path, authority, "site-1"))
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(LONG)
        with calling(f"https://127.0.0.1:{server.getsockname()[1]}", tls, echo("site-1")) as caller:
            plain, _ = server.accept()
            plain.settimeout(LONG)
            plain.recv(1, socket.MSG_PEEK)  # it has begun its handshake
            caller.stop()
            listener = authority.server_context(["127.0.0.1"])
            with listener.wrap_socket(plain, server_side=True) as spoken, suppress(ConnectionError):
                assert spoken.recv(1) == b""  # and hangs up instead of asking


def test_a_port_that_is_taken_is_an_engine_lost(tmp_path, three):
    authority = Authority.open(tmp_path / "another")
    with pytest.raises(EngineLost, match="nobody can call"):
        HttpsExchange([], authority.server_context(["127.0.0.1"]), "127.0.0.1", three.port)


@pytest.mark.parametrize("url", ["http://a:1", "https://a", "https://:1", "https://a:x", "a:1"])
def test_an_address_that_is_none_is_refused(url):
    with pytest.raises(ParameterError, match="https://host:port"):
        address_of(url)


# ------------------------------------------------------------------------------------------ clocks
def coordinator_ahead(monkeypatch, **by: float) -> None:
    """Certificates of a coordinator whose clock is ahead: to it, all sites are behind."""
    then = dt.datetime.now(dt.UTC) + dt.timedelta(**by)
    monkeypatch.setattr(certificates, "_now", lambda: then)


def test_a_site_whose_clock_is_a_day_behind_is_served(tmp_path, monkeypatch):
    coordinator_ahead(monkeypatch, hours=25)
    with https(tmp_path, {"site-1": echo("site-1")}) as transport:
        assert ask(transport, {"site-1": b"?"}, LONG) == {"site-1": b"site-1 got ?"}


def test_a_site_whose_clock_is_further_behind_is_told_to_set_it(tmp_path, monkeypatch):
    coordinator_ahead(monkeypatch, days=3)
    authority, said, heard = Authority.open(tmp_path / "authority"), [], threading.Event()
    listener = HttpsExchange(["site-1"], authority.server_context(["127.0.0.1"]), "127.0.0.1")
    tls = client_context(*certified(tmp_path, authority, "site-1"))

    def note(text: str) -> None:
        said.append(text)
        heard.set()

    try:
        with calling(f"https://127.0.0.1:{listener.port}", tls, echo("site-1"), note):
            assert heard.wait(LONG)
    finally:
        listener.close()
    assert "certificate is not yet valid, and the clock here says" in said[0]
    assert "set what is wrong" in said[0]


# --------------------------------------------------------------------------------------- intruders
def posted(port: int, tls: ssl.SSLContext, body: bytes = b"", message: str = "") -> int:
    connection = http.client.HTTPSConnection("127.0.0.1", port, context=tls, timeout=LONG)
    try:
        connection.request("POST", PATH, body=body, headers={MESSAGE: message})
        return connection.getresponse().status
    finally:
        connection.close()


def test_nobody_comes_in_without_a_certificate(tmp_path, three):
    bare = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    bare.load_verify_locations(tmp_path / "authority/authority.crt")
    with pytest.raises((ssl.SSLError, ConnectionError, http.client.RemoteDisconnected)):
        posted(three.port, bare)
    assert ask(three, {"site-1": b"?"}, LONG)


def test_nobody_comes_in_with_a_certificate_of_another_authority(tmp_path, three):
    (tmp_path / "there").mkdir()
    other = Authority.open(tmp_path / "there/authority")
    key, certificate, _ = certified(tmp_path / "there", other, "site-1")
    tls = client_context(key, certificate, tmp_path / "authority/authority.crt")
    with pytest.raises((ssl.SSLError, ConnectionError, http.client.RemoteDisconnected)):
        posted(three.port, tls)


def test_a_site_does_not_talk_to_a_coordinator_of_another_authority(tmp_path, three):
    (tmp_path / "there").mkdir()
    other = Authority.open(tmp_path / "there/authority")
    tls = client_context(*certified(tmp_path / "there", other, "site-1"))
    with pytest.raises(ssl.SSLCertVerificationError):
        posted(three.port, tls)


def test_a_certificate_for_a_name_outside_the_roster_gets_nothing(tmp_path, three):
    authority = Authority.open(tmp_path / "authority")
    tls = client_context(*certified(tmp_path, authority, "site-9"))
    assert posted(three.port, tls) == 403
    assert three.callers <= set(names(3))


def test_a_site_cannot_answer_a_letter_of_another(tmp_path):
    """The name is the certificate's: nothing in a call can claim another."""
    authority = Authority.open(tmp_path / "authority")
    listener = HttpsExchange(names(2), authority.server_context(["127.0.0.1"]), "127.0.0.1")
    tls = {name: client_context(*certified(tmp_path, authority, name)) for name in names(2)}
    answers: list[object] = []
    asking = threading.Thread(target=lambda: answers.append(ask(listener, {"site-1": b"?"}, 1.0)))
    try:
        asking.start()
        taken = http.client.HTTPSConnection("127.0.0.1", listener.port, context=tls["site-1"])
        taken.request("POST", PATH, body=b"")
        id = taken.getresponse().headers[MESSAGE]
        liar = http.client.HTTPSConnection("127.0.0.1", listener.port, context=tls["site-2"])
        liar.request("POST", PATH, body=b"a lie", headers={MESSAGE: id})
        asking.join()
        assert answers == [{}]
        taken.close()
        liar.close()
    finally:
        listener.close()


def test_an_answer_longer_than_what_was_asked_is_not_taken(tmp_path):
    """Whatever a site sends: the coordinator neither keeps it nor waits for its end."""
    sites = {"site-1": lambda message: bytes(len(message) * 100), "site-2": echo("site-2")}
    with https(tmp_path, sites) as transport:
        answers: dict[int, bytes] = {}
        quorum = Quorum(lambda more: True, seconds=2.0, longest=5_000)
        missed = transport({0: bytes(100), 1: b"?"}, answers.__setitem__, quorum)
        assert missed.silent == {0}
        assert answers == {1: b"site-2 got ?"}
        quorum = Quorum(lambda more: True, seconds=LONG, longest=10_000)
        transport({0: bytes(100)}, answers.__setitem__, quorum)
        assert answers[0] == bytes(10_000)


def test_a_site_has_few_connections(tmp_path):
    authority = Authority.open(tmp_path / "authority")
    listener = HttpsExchange(names(1), authority.server_context(["127.0.0.1"]), "127.0.0.1")
    tls = client_context(*certified(tmp_path, authority, "site-1"))
    lines = []
    try:
        for _ in range(MOST_SITE_CONNECTIONS):
            line = http.client.HTTPSConnection("127.0.0.1", listener.port, context=tls)
            line.putrequest("POST", PATH)
            line.putheader("Content-Length", "5")
            line.endheaders(b"ab")  # and never the rest
            lines.append(line)
        until(lambda: listener._desks[0].connections == MOST_SITE_CONNECTIONS)
        assert posted(listener.port, tls) == 429
        lines.pop().close()
        until(lambda: listener._desks[0].connections < MOST_SITE_CONNECTIONS)
    finally:
        for line in lines:
            line.close()
        listener.close()


def test_old_tls_is_not_spoken(tmp_path, three):
    authority = Authority.open(tmp_path / "authority")
    old = client_context(*certified(tmp_path, authority, "site-1"))
    old.minimum_version = ssl.TLSVersion.TLSv1_2
    old.maximum_version = ssl.TLSVersion.TLSv1_2
    with pytest.raises((ssl.SSLError, ConnectionError)):
        posted(three.port, old)


def test_a_stranger_who_says_nothing_does_not_keep_others_waiting(three):
    with socket.create_connection(("127.0.0.1", three.port)):
        assert ask(three, {name: b"?" for name in names(3)}, LONG).keys() == set(names(3))


# ------------------------------------------------------------------------------------ certificates
def test_only_the_identity_that_signed_a_request_is_certified(tmp_path):
    authority, request = (
        Authority.open(tmp_path),
        Request.make("site-1", Identity.generate(), new_key()),
    )
    assert authority.sign(request)  # negative control
    another = replace(request, identity=Identity.generate().public)
    for stolen in (replace(request, name="site-2"), another):
        with pytest.raises(ParameterError, match="changed on its way"):
            authority.sign(stolen)


def test_a_request_is_the_same_after_writing_and_reading():
    request = Request.make("site-1", Identity.generate(), new_key())
    assert Request.parse(request.to_text()) == request
    assert "PRIVATE" not in request.to_text()
    with pytest.raises(ParameterError, match="no request"):
        Request.parse("[]")


def test_a_certificate_is_taken_from_the_authority_that_was_told_of(tmp_path):
    authority, key = Authority.open(tmp_path), new_key()
    reply = authority.sign(Request.make("site-1", Identity.generate(), key))
    told = authority.fingerprint
    assert accept_certificate(reply, f"sha256:{told.lower()}", key, "site-1")
    with pytest.raises(ParameterError, match="out of band"):
        accept_certificate(reply, told[:-1] + ("0" if told[-1] != "0" else "1"), key, "site-1")
    with pytest.raises(ParameterError, match="not for this site"):
        accept_certificate(reply, told, new_key(), "site-1")
    with pytest.raises(ParameterError, match="not for this site"):
        accept_certificate(reply, told, key, "site-2")
    with pytest.raises(ParameterError, match="two certificates"):
        accept_certificate(b"-----", told, key, "site-1")


def test_the_authority_keeps_its_key_to_itself(tmp_path):
    folder = tmp_path / "authority"
    first = Authority.open(folder)
    assert Authority.open(folder).fingerprint == first.fingerprint
    assert (folder.stat().st_mode & 0o777, (folder / "authority.key").stat().st_mode & 0o777) == (
        0o700,
        0o600,
    )
