"""Stored rounds, byte for byte, and stored bad messages with their codes."""

import json
import sys
from pathlib import Path

import numpy as np
import pytest

from hedgerow.errors import PartyRefused
from hedgerow.secagg.coordinator import Coordinator
from hedgerow.secagg.envelope import EMPTY_LEDGER
from hedgerow.secagg.keys import Identity, Roster
from hedgerow.secagg.parameters import Parameters
from hedgerow.secagg.site import MemoryInRam, Site

sys.path.insert(0, str(Path(__file__).parents[1] / "vectors"))
from make_secagg import HERE, all_vectors
from secagg_rehearsal import head


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
            site = Site(identities[me], roster, me, parameters, study, memory, entropy)
            self.sites.append(site)
        run = lambda length: bytes.fromhex(stored["run_id"])  # noqa: E731
        self.coordinator = Coordinator(identities[-1], roster, parameters, study, entropy=run)

    def messages(self, kind):
        return [m for m in self.stored["messages"] if m["kind"] == kind]

    def to_sites(self, kind):
        return {m["to"]: bytes.fromhex(m["message"]) for m in self.messages(kind)}

    def from_sites(self, kind):
        return {m["from"]: bytes.fromhex(m["message"]) for m in self.messages(kind)}

    def keys(self):
        made = {me: site.keys(EMPTY_LEDGER) for me, site in enumerate(self.sites)}
        assert made == self.from_sites("KEYS")
        return made

    def open(self):
        for me, message in self.to_sites("OPEN").items():
            self.sites[me].open(message)

    def mask(self):
        made = {}
        for me, message in self.to_sites("ROUND").items():
            vector = np.array(self.stored["vectors"][me])
            record = self.sites[me].mask(self.sites[me].begin(message), vector, head(me, 1))
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
STEPS = ["keys", "open", "mask", "sign", "unmask"]


@pytest.mark.parametrize("name", GOOD)
def test_sites_answer_a_stored_round_byte_for_byte(name):
    replay = Replay(load(name))
    for step in STEPS:
        getattr(replay, step)()


@pytest.mark.parametrize("name", GOOD)
def test_the_coordinator_writes_a_stored_round_byte_for_byte(name):
    stored = load(name)
    replay = Replay(stored)
    opens = replay.coordinator.open(replay.from_sites("KEYS").values())
    assert opens == replay.to_sites("OPEN")
    secure = replay.coordinator.start(bytes.fromhex(stored["bundle"]), len(stored["sum"]))
    assert secure.requests() == replay.to_sites("ROUND")
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


@pytest.fixture(scope="module")
def replays():
    """The stored round stopped after each step."""
    stopped = {}
    for last in STEPS[:4]:
        stopped[last] = replay = Replay(load("sum_5_sites_one_lost"))
        for step in STEPS[: STEPS.index(last) + 1]:
            getattr(replay, step)()
    return stopped


@pytest.mark.parametrize("row", load("sum_bad_messages"), ids=lambda row: row["name"])
def test_a_stored_bad_message_is_refused_with_its_code(replays, row):
    step = getattr(replays[row["after"]].sites[0], row["step"])
    with pytest.raises(PartyRefused) as refusal:
        step(bytes.fromhex(row["message"]))
    assert refusal.value.code == row["code"]


def test_the_stored_vectors_are_what_the_generator_writes():
    assert {name: load(name) for name in all_vectors()} == json.loads(json.dumps(all_vectors()))
