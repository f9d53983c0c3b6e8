"""Everybody who has no business here, in one table: refused, written down, and nothing charged.

What a network engine of its own must refuse, a job that ships code among it, is in test_flare.py.
"""

from __future__ import annotations

import http.client
import logging
import re
import ssl
from collections.abc import Callable
from pathlib import Path

import pytest

from deployment.test_serve import Kept, Served
from federation.test_https import posted
from hedgerow.deployment.serve import Serving
from hedgerow.deployment.study_file import StudyFile
from hedgerow.errors import SpecError
from hedgerow.federation.client import refused_with
from hedgerow.federation.secure_sites import SecureSites
from hedgerow.federation.transports.certificates import Authority, Request, client_context, new_key
from hedgerow.federation.transports.https import Caller, HttpsCarrier
from hedgerow.secagg.graph import Parameters
from hedgerow.secagg.keys import Identity, Roster
from hedgerow.secagg.server import Coordinator
from support.network import World, certified

pytestmark = pytest.mark.network

TURNED_AWAY = (ssl.SSLError, ConnectionError, http.client.RemoteDisconnected)


class Scene:
    """Three sites that serve an approved study, and a coordinator's door that they may call."""

    def __init__(self, world: World, served: Served, door: HttpsCarrier, log) -> None:
        self.world, self.served, self.door, self._log = world, served, door, log

    def site_says(self, event: str) -> str:
        return " ".join(str(line) for line in self.world.lines(0, event))

    def door_says(self) -> str:
        return " ".join(record.getMessage() for record in self._log.records)

    def refuses(self, letter: bytes) -> str | None:
        return refused_with(self.served.all[0].daemon.handle(letter))

    def stranger(self) -> Authority:
        folder = self.world.folder / "stranger"
        folder.mkdir()
        return Authority.open(folder / "authority")


# ------------------------------------------------------------- each gives what was written down
def no_certificate(scene: Scene) -> str:
    bare = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    bare.load_verify_locations(scene.world.folder / "authority/authority.crt")
    with pytest.raises(TURNED_AWAY):
        posted(scene.door.port, bare)
    return scene.door_says()


def another_authority(scene: Scene) -> str:
    key, own, _ = certified(scene.world.folder / "stranger", scene.stranger(), "site-1")
    tls = client_context(key, own, scene.world.folder / "authority/authority.crt")
    with pytest.raises(TURNED_AWAY):
        posted(scene.door.port, tls)
    return scene.door_says()


def a_coordinator_of_another_authority(scene: Scene) -> str:
    """A site calls a door whose certificate its own authority has not signed."""
    other = scene.stranger()
    false = HttpsCarrier(scene.world.names, other.server_context(["127.0.0.1"]), "127.0.0.1")
    try:
        tls = client_context(*certified(scene.world.folder, scene.world.authority, "site-1"))
        said: list[str] = []
        caller = Caller(f"https://127.0.0.1:{false.port}", tls, lambda letter: b"", said.append)
        with pytest.raises(ssl.SSLCertVerificationError) as refused:
            caller._call()
        assert false.seen == set()
    finally:
        false.close()
    caller._tell(str(refused.value))
    return " ".join(said)


def another_sites_name(scene: Scene) -> str:
    """Its own key, another's name: the coordinator signs no such request."""
    liar = scene.world.sites[1].identity()
    own = scene.world.sites[0].identity().public
    with pytest.raises(SpecError, match="another key than the roster has") as refused:
        scene.world.authority.sign(Request.make("site-1", liar, new_key()), own)
    return str(refused.value)


def a_name_outside_the_roster(scene: Scene) -> str:
    tls = client_context(*certified(scene.world.folder, scene.world.authority, "site-9"))
    assert posted(scene.door.port, tls) == 403
    return scene.door_says()


def a_replaced_roster_key(scene: Scene) -> str:
    world = scene.world
    stranger = Identity.generate().public.hex()
    changed = world.write_study("changed", **{world.sites[1].identity().public.hex(): stranger})
    with pytest.raises(SpecError, match="known here"):
        world.approve_at(world.sites[0], changed)
    return scene.site_says("not approved")


def a_changed_study(scene: Scene) -> str:
    """The coordinator runs another study than was approved: its letters have another hash."""
    other = scene.world.write_study("study", **{"max_depth = 2": "max_depth = 3"})
    letter = scene.world.link(scene.served.carrier, other).coordinator.join()[0]
    assert scene.refuses(letter) == "NotApproved"
    return scene.site_says("refused")


def a_study_file_changed_at_the_site(scene: Scene) -> str:
    (folder,) = scene.world.sites[0].study_folders()
    text = folder.study_file.read_text().replace("max_depth = 2", "max_depth = 3")
    folder.study_file.write_text(text)
    scene.served.all[0].close()
    scene.served.all[0] = Serving(scene.world.sites[0])
    assert not scene.served.all[0].daemon.studies
    return scene.site_says("cannot serve")


def a_replayed_round(scene: Scene) -> str:
    """All letters of a whole run, once more, after the next run has begun."""
    world, kept = scene.world, Kept(scene.served.carrier)
    world.train(kept)
    charged = scene.served.charges(world.study_file)
    agreed = StudyFile.read(world.study_file)
    parameters = Parameters.of(agreed.study.parameters)
    later = Coordinator(
        world.coordinator, agreed.roster, parameters, agreed.study.hash, attempt=len(kept.letters)
    )
    link = world.link(scene.served.carrier)
    SecureSites(agreed.study, later, link.exchange, link.patience).enter()
    assert kept.letters
    for letters in kept.letters:
        assert scene.refuses(letters["site-1"]) is not None
    assert scene.served.charges(world.study_file) == charged
    return scene.site_says("refused")


def a_flipped_bit(scene: Scene) -> str:
    letter = bytearray(scene.world.link(scene.served.carrier).coordinator.join()[0])
    letter[-1] ^= 1
    assert scene.refuses(bytes(letter)) == "BadSignature"
    return scene.site_says("refused")


def a_second_coordinator(scene: Scene) -> str:
    agreed, liar = StudyFile.read(scene.world.study_file), Identity.generate()
    roster = Roster(agreed.roster.sites, liar.public)
    parameters = Parameters.of(agreed.study.parameters)
    letter = Coordinator(liar, roster, parameters, agreed.study.hash).join()[0]
    assert scene.refuses(letter) == "BadSignature"
    return scene.site_says("refused")


INTRUDERS: dict[str, tuple[Callable[[Scene], str], str]] = {
    "no certificate": (
        no_certificate,
        "turned away at the door: PEER_DID_NOT_RETURN_A_CERTIFICATE",
    ),
    "another authority": (another_authority, "turned away at the door: CERTIFICATE_VERIFY_FAILED"),
    "a coordinator of another authority": (
        a_coordinator_of_another_authority,
        "cannot be reached: .*CERTIFICATE_VERIFY_FAILED",
    ),
    "another site's name": (another_sites_name, "nothing was signed"),
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
    door = HttpsCarrier(world.names, tls, "127.0.0.1")
    try:
        with Served(world) as served, caplog.at_level(logging.WARNING, "hedgerow.site"):
            yield Scene(world, served, door, caplog)
    finally:
        door.close()


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
    letter = scene.world.link(scene.served.carrier).coordinator.join()[0]
    assert scene.refuses(letter) is None
    tls = client_context(*certified(scene.world.folder, scene.world.authority, "site-1"))
    connection = http.client.HTTPSConnection("127.0.0.1", scene.door.port, context=tls)
    connection.connect()
    connection.close()
    assert scene.door_says() == ""
