"""Stored rounds, byte for byte, and stored bad messages with their codes."""

import json

import numpy as np
import pytest

from hedgerow.errors import PartyRefused
from hedgerow.secagg.client import MemoryInRam, Site
from hedgerow.secagg.envelope import EMPTY_LEDGER
from hedgerow.secagg.graph import Parameters
from hedgerow.secagg.keys import Identity, Roster
from hedgerow.secagg.server import Coordinator
from support.secagg_rehearsal import head
from vectors.make_secagg import HERE, all_vectors


def load(name):
    return json.loads((HERE / f"{name}.json").read_text())


class Replay:
    """The sites of a stored round, fed with its randomness and its coordinator's messages."""

    def __init__(self, stored):
        self.stored = stored
        identities = [Identity.from_bytes(bytes.fromhex(i)) for i in stored["identities"]]
        publics = [identity.public for identity in identities]
        roster = Roster(tuple(publics[:-1]), publics[-1])
        parameters = Parameters(
            parties=stored["parties"],
            colluders=stored["colluders"],
            threshold=stored["threshold"],
        )
        study = bytes.fromhex(stored["study_hash"])
        self.memories = [MemoryInRam() for _ in publics[:-1]]
        self.sites = []
        for me, memory in enumerate(self.memories):
            draws = map(bytes.fromhex, stored["randomness"][me])
            entropy = lambda length, draws=draws: next(draws)  # noqa: E731
            pins = roster.fingerprints
            site = Site(identities[me], roster, me, parameters, study, memory, entropy, pins=pins)
            self.sites.append(site)
        run = lambda length: bytes.fromhex(stored["run_id"])  # noqa: E731
        self.coordinator = Coordinator(identities[-1], roster, parameters, study, entropy=run)

    def messages(self, kind):
        return [m for m in self.stored["messages"] if m["kind"] == kind]

    def to_sites(self, kind):
        return {m["to"]: bytes.fromhex(m["message"]) for m in self.messages(kind)}

    def from_sites(self, kind):
        return {m["from"]: bytes.fromhex(m["message"]) for m in self.messages(kind)}

    def nothing(self):
        """Before the first letter."""

    def join(self):
        letters = self.to_sites("JOIN")
        made = {me: self.sites[me].join(m, lambda: EMPTY_LEDGER) for me, m in letters.items()}
        assert made == self.from_sites("KEYS")

    def open(self):
        for me, message in self.to_sites("OPEN").items():
            self.sites[me].open(message)

    def mask(self):
        made = {}
        for me, message in self.to_sites("ROUND").items():
            vector, picks = np.array(self.stored["vectors"][me]), self.stored["picks"][me]
            fresh = self.sites[me].begin(message)
            record = self.sites[me].mask(fresh, vector, head(me, 1), tuple(picks))
            self.memories[me].store(record)
            made[me] = record.message
        assert made == self.from_sites("MASKED")

    def sign(self):
        letters = self.to_sites("SURVIVORS")
        made = {me: self.sites[me].sign_set(message) for me, message in letters.items()}
        assert made == self.from_sites("SIGNED_SET")

    def unmask(self):
        letters = self.to_sites("UNMASK")
        made = {me: self.sites[me].unmask(message) for me, message in letters.items()}
        assert made == self.from_sites("SHARES")


GOOD = ["sum_3_sites", "sum_5_sites_one_lost"]
STEPS = ["nothing", "join", "open", "mask", "sign", "unmask"]


@pytest.mark.parametrize("name", GOOD)
def test_sites_answer_a_stored_round_byte_for_byte(name):
    replay = Replay(load(name))
    for step in STEPS:
        getattr(replay, step)()


@pytest.mark.parametrize("name", GOOD)
def test_the_coordinator_writes_a_stored_round_byte_for_byte(name):
    stored = load(name)
    replay = Replay(stored)
    assert replay.coordinator.join() == replay.to_sites("JOIN")
    opens = replay.coordinator.open(replay.from_sites("KEYS").values())
    assert opens == replay.to_sites("OPEN")
    secure = replay.coordinator.start(
        bytes.fromhex(stored["bundle"]), len(stored["sum"]), picks=len(stored["picks"][0])
    )
    definitions = {int(me): bytes.fromhex(text) for me, text in stored["definitions"].items()}
    assert secure.requests(definitions) == replay.to_sites("ROUND")
    for sender, message in replay.from_sites("MASKED").items():
        if sender not in stored["lost"]:
            secure.accept_masked(message)
    assert secure.close() == replay.to_sites("SURVIVORS")
    for message in replay.from_sites("SIGNED_SET").values():
        secure.accept_signature(message)
    assert secure.unmask() == replay.to_sites("UNMASK")
    for message in replay.from_sites("SHARES").values():
        secure.accept_shares(message)
    opened = secure.opened()
    assert (list(opened.members), opened.values.tolist()) == (stored["members"], stored["sum"])
    assert opened.picks == {me: tuple(stored["picks"][me]) for me in stored["members"]}


@pytest.fixture(scope="module")
def replays():
    """The stored round stopped after each step."""
    stopped = {}
    for last in STEPS[:-1]:
        stopped[last] = replay = Replay(load("sum_5_sites_one_lost"))
        for step in STEPS[: STEPS.index(last) + 1]:
            getattr(replay, step)()
    return stopped


@pytest.mark.parametrize("row", load("sum_bad_messages"), ids=lambda row: row["name"])
def test_a_stored_bad_message_is_refused_with_its_code(replays, row):
    step = getattr(replays[row["after"]].sites[0], row["step"])
    more = (EMPTY_LEDGER,) if row["step"] == "join" else ()
    with pytest.raises(PartyRefused) as refusal:
        step(bytes.fromhex(row["message"]), *more)
    assert refusal.value.code == row["code"]


def test_the_stored_vectors_are_what_the_generator_writes():
    assert {name: load(name) for name in all_vectors()} == json.loads(json.dumps(all_vectors()))
