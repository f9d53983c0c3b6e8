"""Enrollment by a token, as an attacker sees it: replayed, late, stolen, forged, in the middle."""

from __future__ import annotations

import json
import re
import socket
import ssl
import threading
import time
from contextlib import contextmanager
from pathlib import Path

import pytest
from typer.testing import CliRunner

from hedgerow.cli.main import app
from hedgerow.deployment import enrollment as module
from hedgerow.deployment.draft import fill_roster
from hedgerow.deployment.enrollment import Enrollment, SiteToken, enroll, listening
from hedgerow.deployment.run_folder import RunFolder
from hedgerow.deployment.site_state import StateFolder
from hedgerow.errors import EngineLost, ParameterError
from hedgerow.federation.transports.certificates import Request, key_bytes, load_key, new_key
from hedgerow.secagg.keys import Identity, spoken_words
from support.effort import LONG
from support.faults import free_port
from support.worlds import TWO

pytestmark = pytest.mark.network
RUN = CliRunner()


class Clock:
    now = 1_000_000_000.0

    def __call__(self) -> float:
        return self.now


class Coordinator:
    """A coordinator that invites, and whoever has enrolled there."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.clock, self.heard = RunFolder(folder), Clock(), []
        folder.mkdir()
        public = self.folder.own_identity().public
        self.enrollment = Enrollment(self.folder, public, self.clock)

    @contextmanager
    def listening(self):
        port = free_port()
        self.enrollment.invite(["north", "south"], f"https://localhost:{port}")
        with listening(self.enrollment, "127.0.0.1", port, ["localhost"], self.heard.append):
            yield self

    def token(self, name: str = "north") -> SiteToken:
        return self.enrollment.token_of(name)


@pytest.fixture
def coordinator(tmp_path):
    with Coordinator(tmp_path / "coordinator").listening() as made:
        yield made


def site(tmp_path: Path, folder: str = "north", name: str = "north") -> StateFolder:
    return StateFolder.create(tmp_path / folder, name, tmp_path / "anchors" / folder)


def body_of(state: StateFolder, token: SiteToken) -> bytes:
    """What the site would send."""
    key_file = state.tls / "site.key"
    if not key_file.exists():
        key_file.write_bytes(key_bytes(new_key()))
    text = Request.make(token.name, state.identity(), load_key(key_file)).to_text()
    return json.dumps({"request": text, "proof": token.proof(text)}).encode()


# ------------------------------------------------------------ the right way
def test_both_ends_show_the_same_six_words_and_no_secret_leaves_the_site(
    coordinator, tmp_path, monkeypatch
):
    sent = []
    real = module._call
    monkeypatch.setattr(module, "_call", lambda *a: sent.append(a[2:]) or real(*a))
    state = site(tmp_path)
    enrolled = enroll(state, coordinator.token())
    assert coordinator.heard == ["north"]
    invitation = coordinator.enrollment.invitations["north"]
    assert enrolled.words == invitation.words
    assert len(enrolled.words.split()) == 6
    assert invitation.identity == state.identity().public.hex()
    own_key = coordinator.folder.own_identity().public.hex()
    assert json.loads(enrolled.files["coordinator.json"])["key"] == own_key
    left = json.dumps(sent)
    assert len(sent) == 2
    assert state.identity().to_bytes().hex() not in left
    assert "PRIVATE" not in left
    assert coordinator.token().secret.hex() not in left
    place = enrolled.keep(state)
    names = {path.name for path in place.iterdir()}
    assert names == {"site.crt", "authority.crt", "coordinator.json"}
    assert coordinator.enrollment.missing == ["south"]


def test_nothing_is_kept_before_the_words_are_confirmed(coordinator, tmp_path):
    state = site(tmp_path)
    enroll(state, coordinator.token())
    assert [path.name for path in state.tls.iterdir()] == ["site.key"]


def test_the_book_of_tokens_is_private_and_read_again(coordinator, tmp_path):
    enroll(site(tmp_path), coordinator.token())
    file = coordinator.folder.path / "enrollment.json"
    assert file.stat().st_mode & 0o077 == 0
    public = coordinator.folder.own_identity().public
    again = Enrollment(coordinator.folder, public, coordinator.clock)
    assert again.invitations == coordinator.enrollment.invitations
    again.invite(["north", "south"], coordinator.token("south").url)
    assert again.token_of("south") == coordinator.token("south")  # not a new secret each time


# ------------------------------------------------------------------------------------------ replay
def test_a_lost_reply_is_asked_for_again_by_the_same_keys_alone(coordinator, tmp_path):
    state = site(tmp_path)
    first = enroll(state, coordinator.token())
    assert enroll(state, coordinator.token()).words == first.words
    other = site(tmp_path, "other")
    with pytest.raises(ParameterError, match="used by another key"):
        enroll(other, coordinator.token())
    assert coordinator.enrollment.keys == {"north": state.identity().public.hex()}


def test_the_same_identity_with_another_tls_key_is_another_use(coordinator, tmp_path):
    state = site(tmp_path)
    enroll(state, coordinator.token())
    (state.tls / "site.key").unlink()
    with pytest.raises(ParameterError, match="used by another key"):
        enroll(state, coordinator.token())


def test_a_recorded_request_brings_its_thief_nothing(coordinator, tmp_path):
    """The reply holds a certificate for the site's own key, which the thief has not."""
    body = body_of(site(tmp_path), coordinator.token())
    name, reply = coordinator.enrollment.admit(body)
    _, again = coordinator.enrollment.admit(body)
    assert name == "north"
    assert json.loads(reply)["coordinator"] == json.loads(again)["coordinator"]
    assert "PRIVATE" not in reply.decode() + again.decode()


# ------------------------------------------------------------------------------------------ expiry
def test_a_token_expires_by_the_coordinators_clock(coordinator, tmp_path):
    coordinator.clock.now = coordinator.token().expires - 1
    enroll(site(tmp_path), coordinator.token())  # negative control: a second before
    coordinator.clock.now += 1
    with pytest.raises(ParameterError, match="expired"):
        enroll(site(tmp_path, "south", "south"), coordinator.token("south"))
    coordinator.enrollment.invite(["north", "south"], coordinator.token().url)
    assert coordinator.enrollment.keys.keys() == {"north"}
    enroll(StateFolder.open(tmp_path / "south"), coordinator.token("south"))


def test_a_site_cannot_put_its_tokens_expiry_off(coordinator, tmp_path):
    token = coordinator.token()
    later = SiteToken(token.name, token.url, token.expires + 9, token.secret, token.authority)
    with pytest.raises(ParameterError, match="not known here"):
        enroll(site(tmp_path), later)


# ------------------------------------------------------------------------------- stolen and guessed
def test_whoever_lacks_the_secret_learns_nothing_about_who_is_invited(coordinator, tmp_path):
    token = coordinator.token()
    wrong = SiteToken(token.name, token.url, token.expires, bytes(16), token.authority)
    stranger = SiteToken("nobody", token.url, token.expires, bytes(16), token.authority)
    said = set()
    for one, state in ((wrong, site(tmp_path)), (stranger, site(tmp_path, "x", "nobody"))):
        with pytest.raises(ParameterError) as refused:
            enroll(state, one)
        said.add(str(refused.value))
    assert len(said) == 1
    assert coordinator.enrollment.keys == {}


def test_a_proof_is_of_one_request(coordinator, tmp_path):
    """A proxy that has seen a proof cannot put its own key under it."""
    token = coordinator.token()
    honest = json.loads(body_of(site(tmp_path), token))
    own = json.loads(body_of(site(tmp_path, "proxy"), token))
    with pytest.raises(ParameterError, match="not known"):
        coordinator.enrollment.admit(json.dumps({**own, "proof": honest["proof"]}).encode())
    coordinator.enrollment.admit(json.dumps(own).encode())  # negative control: with its own proof


def test_a_token_for_one_site_admits_no_other_name(coordinator, tmp_path):
    token = coordinator.token()
    south = SiteToken("south", token.url, token.expires, token.secret, token.authority)
    with pytest.raises(ParameterError, match="not known"):
        enroll(site(tmp_path, "south", "south"), south)
    with pytest.raises(ParameterError, match="is for 'north' and this site is 'south'"):
        enroll(StateFolder.open(tmp_path / "south"), token)


def test_a_thief_who_comes_first_is_seen_and_withdrawn(coordinator, tmp_path):
    thief, state = site(tmp_path, "thief"), site(tmp_path)
    stolen = enroll(thief, coordinator.token())
    with pytest.raises(ParameterError, match="tell the coordinator"):
        enroll(state, coordinator.token())
    coordinator.enrollment.withdraw("north")
    coordinator.enrollment.invite(["north", "south"], stolen.token.url)
    with pytest.raises(ParameterError, match="not known"):
        enroll(thief, stolen.token)
    assert enroll(state, coordinator.token()).words != stolen.words
    assert coordinator.enrollment.keys == {"north": state.identity().public.hex()}


@pytest.mark.parametrize(
    "body",
    [b"", b"[]", b"{}", b'{"request": 1, "proof": "x"}', b'{"request": "{}", "proof": "x"}',
     '{"request": "{}", "proof": "é"}'.encode(), b"[" * 60_000],
)  # fmt: skip
def test_whatever_a_stranger_sends_gets_the_same_words(coordinator, body):
    with pytest.raises(ParameterError) as refused:
        coordinator.enrollment.admit(body)
    assert str(refused.value) == module.NOT_INVITED


def test_a_holder_of_the_token_cannot_have_any_certificate_signed(coordinator, tmp_path):
    """Also with the right proof a request must be signed by its identity and carry its name."""
    token, state = coordinator.token(), site(tmp_path)
    other = Request.make("other", state.identity(), new_key())
    raw = json.loads(other.to_text()) | {"name": "north"}
    for forged in (raw | {"request": "no PEM"}, raw, raw | {"signature": "00" * 64}):
        text = json.dumps(forged)
        body = json.dumps({"request": text, "proof": token.proof(text)}).encode()
        with pytest.raises(ParameterError):
            coordinator.enrollment.admit(body)
    assert coordinator.enrollment.keys == {}
    coordinator.enrollment.admit(body_of(state, token))  # negative control


# ----------------------------------------------------------------------------------- in the middle
def test_another_authority_at_the_address_is_sent_nothing(coordinator, tmp_path):
    with Coordinator(tmp_path / "impostor").listening() as impostor:
        true = coordinator.token()
        led_astray = SiteToken(
            true.name, impostor.token().url, true.expires, true.secret, true.authority
        )
        with pytest.raises(ParameterError, match="another authority than the token names"):
            enroll(site(tmp_path), led_astray)
        assert impostor.heard == []


def test_the_authoritys_public_certificate_alone_does_not_make_an_impostor(
    coordinator, tmp_path, monkeypatch
):
    """Who stands in between can hand the true certificate on; its handshake fails all the same."""
    with Coordinator(tmp_path / "impostor").listening() as impostor:
        true = coordinator.token()
        led_astray = SiteToken(
            true.name, impostor.token().url, true.expires, true.secret, true.authority
        )
        monkeypatch.setattr(
            module, "_authority_of",
            lambda token: (coordinator.folder.authority / "authority.crt").read_bytes(),
        )  # fmt: skip
        with pytest.raises(EngineLost, match="CERTIFICATE_VERIFY_FAILED"):
            enroll(site(tmp_path), led_astray)
        assert impostor.heard == []


def test_a_forged_token_and_a_relayed_site_show_other_words(coordinator, tmp_path):
    """Mallory invites the site herself, and enrolls at the coordinator in its place."""
    with Coordinator(tmp_path / "mallory").listening() as mallory:
        at_site = enroll(site(tmp_path), mallory.token()).words
        enroll(site(tmp_path, "puppet"), coordinator.token())
        at_coordinator = coordinator.enrollment.invitations["north"].words
        assert at_site != at_coordinator


def test_a_certificate_for_another_host_is_refused(coordinator, tmp_path):
    true = coordinator.token()
    other = true.url.replace("localhost", "127.0.0.1")
    with pytest.raises(EngineLost, match="CERTIFICATE_VERIFY_FAILED"):
        enroll(
            site(tmp_path),
            SiteToken("north", other, true.expires, true.secret, true.authority),
        )


def test_whoever_holds_connections_open_keeps_no_site_out(coordinator, tmp_path):
    from hedgerow.deployment.live import MOST_CALLERS

    host, port = module.address_of(coordinator.token().url)
    held = [socket.create_connection((host, port), 5) for _ in range(2 * MOST_CALLERS)]
    try:
        enroll(site(tmp_path), coordinator.token())
    finally:
        for line in held:
            line.close()
    assert coordinator.heard == ["north"]


def test_a_body_without_an_end_is_not_read(coordinator):
    host, port = module.address_of(coordinator.token().url)
    anybody = ssl.create_default_context()
    anybody.check_hostname, anybody.verify_mode = False, ssl.CERT_NONE
    with anybody.wrap_socket(socket.create_connection((host, port), 5)) as line:
        line.sendall(b"POST /v1/enroll HTTP/1.0\r\nContent-Length: 99999999\r\n\r\n")
        assert b" 400 " in line.recv(200)


# ------------------------------------------------------------------------------------ tokens, words
def test_a_token_reads_as_it_was_written_and_a_slip_of_the_hand_is_seen(coordinator):
    token = coordinator.token()
    text = str(token)
    assert SiteToken.read(text) == token
    assert SiteToken.read(f"  {text[:40]}\n{text[40:]} ") == token  # a mail that broke the line
    for wrong in (text[:-1], text[:30] + "A" + text[31:] + "", "", "hr1-", "hr1-é"):
        if wrong != text:
            with pytest.raises(ParameterError, match="no whole token"):
                SiteToken.read(wrong)


def test_words_can_be_said_and_one_bit_changes_them():
    word = re.compile(r"[bdfghjklmnprstvz][aiou][bdfghjklmnprstvz][aiou][bdfghjklmnprstvz]")
    many = {spoken_words(k.to_bytes(2)) for k in range(2000)}
    assert len(many) == 2000
    assert all(word.fullmatch(one) for words in many for one in words.split())
    counted = {word for words in many for word in words.split()}
    assert len(counted) > 10_500  # of 12,000 even draws from 65,536 about 10,966 are distinct


# ------------------------------------------------------------ as it is typed
def study_without_keys(folder: Path) -> None:
    (folder / "schema.toml").write_text(TWO.to_toml())
    words = "study init study --name wards --estimator HistogramTreeClassifier --epsilon 1"
    done = RUN.invoke(app, f"{words} --schema schema.toml --site north --site south".split())
    assert "get its keys: hedgerow study invite study" in done.output
    file = folder / "study/study.toml"
    text = file.read_text()
    assert text.count('key = ""') == 2
    with pytest.raises(ParameterError, match="keys are still missing"):
        RunFolder(folder / "study").read_study()
    file.write_text(text.replace('name = "north"\n', 'name = "north"\nrows_at_most = 50\n'))


def enroll_at_last(state: StateFolder, token: SiteToken):
    """The listener opens a moment after the tokens are written."""
    end = time.monotonic() + LONG
    while True:
        try:
            return enroll(state, token)
        except EngineLost:
            assert time.monotonic() < end, "nobody listens"


def test_as_typed_the_study_gets_the_keys_of_its_sites(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    study_without_keys(tmp_path)
    port = free_port()
    asked = ["study", "invite", "study", "--listen", f"127.0.0.1:{port}", "--host", "localhost"]
    done = []
    waiting = threading.Thread(
        target=lambda: done.append(RUN.invoke(app, [*asked, "--yes"], catch_exceptions=False))
    )
    waiting.start()
    book = tmp_path / "study/enrollment.json"
    while not book.exists() and waiting.is_alive():
        waiting.join(0.05)
    folder = RunFolder(tmp_path / "study")
    public = folder.own_identity().public
    keys = {}
    for name in Enrollment(folder, public).missing:
        state = site(tmp_path, name, name)
        keys[name] = state.identity().public.hex()
        enroll_at_last(state, Enrollment(folder, public).token_of(name)).keep(state)
    waiting.join(LONG)
    assert done[0].exit_code == 0, done[0].output
    assert "names all keys" in done[0].output
    study_file = folder.read_study()
    assert (
        dict(zip(study_file.names, (k.hex() for k in study_file.roster.sites), strict=True)) == keys
    )
    assert [one.get("rows_at_most") for one in study_file.content["site"]] == [50, None]
    with pytest.raises(ParameterError, match="other keys than these sites enrolled with"):
        fill_roster(folder, {name: Identity.generate().public.hex() for name in keys})
