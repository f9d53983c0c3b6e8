"""Real sites with real stores under a lying coordinator, crashes, restarts and rolled-back files.

Hypothesis draws what happens: questions for any participants, sets and certificates, processes that
die inside a transaction, files that are brought back, new key sessions, and honest rounds in
between.
After every step, of all that ever left the honest sites: one reply and one set a round, every reply
charged in the site's own ledger, no computable sum below the threshold's honest summands; and an
honest coordinator's round blames nobody.
"""

from __future__ import annotations

import shutil
import tempfile
from collections import defaultdict
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from hedgerow.errors import LedgerRolledBack, SiteRefused
from hedgerow.federation.site_store import SiteStore, StudyStore, round_name
from hedgerow.privacy.accounting.budget import Measure
from hedgerow.privacy.ledger.charges import Charge
from hedgerow.secagg.client import Site
from hedgerow.secagg.encoding import members_field
from hedgerow.secagg.envelope import EMPTY_LEDGER, Envelope, MessageKind
from hedgerow.secagg.messages import Masked, MemberTable, Round, Unmask
from hedgerow.secagg.opening import set_digest, witness_digest
from hedgerow.secagg.parameters import Parameters
from support.effort import either
from support.protocol_model import SOUND, InTwo, Known, Rules, View, World, computable, search
from support.secagg_dry_run import ring_sum, some_vectors
from support.site_stores import ACCOUNT, COST, StoreConsortium

pytestmark = pytest.mark.property

WORLD = World(sites=4, colluders=1, threshold=3)
SITES = range(WORLD.sites)
DIM = 2
IN_MEMORY = Path("/dev/shm")
"""Processes die here, not machines: files need not reach a disk."""
HONEST = st.sampled_from(WORLD.honest)
SETS = st.sets(st.sampled_from(list(SITES)), min_size=2).map(lambda s: tuple(sorted(s)))
LARGE_SETS = SETS.filter(lambda members: len(members) >= WORLD.threshold)
ROUNDS = st.integers(1, 3)
STEPS = st.sampled_from(["begun", "written", "committed", "settled"])


class Crash(BaseException):
    """The process dies here."""


class CrashingConsortium(StoreConsortium):
    """Vaults whose process dies while it serves, when a transaction comes to a step."""

    def __init__(self, folder: Path, n_sites: int, parameters: Parameters) -> None:
        self.doomed: dict[int, tuple[str, int]] = {}
        self.serving = False
        self.leaked: dict[int, bytes] = {}
        super().__init__(folder, n_sites, parameters)

    def _opened(self, me: int) -> SiteStore:
        def hook(step: str) -> None:
            last, more = self.doomed.get(me, ("", 0))
            if not self.serving or step != last:
                return
            if more:
                self.doomed[me] = last, more - 1
                return
            del self.doomed[me]
            raise Crash

        self.place(me).parent.parent.mkdir(exist_ok=True)
        return SiteStore.open(self.place(me), self.group.identities[me], self.anchor(me), hook=hook)


class ProtocolMachine(RuleBasedStateMachine):
    """`replies`, `sets` and `deeds` are all that left the sites, by (site, run and round)."""

    consortium_class = CrashingConsortium

    @initialize()
    def start(self) -> None:
        self.folder = Path(tempfile.mkdtemp(dir=IN_MEMORY if IN_MEMORY.is_dir() else None))
        parameters = Parameters(
            n_sites=WORLD.sites, colluders=WORLD.colluders, threshold=WORLD.threshold
        )
        self.world = self.consortium_class(self.folder, WORLD.sites, parameters)
        self.group = self.world.group
        self.silent: set[int] = set()
        self.copies: set[int] = set()
        self.offset = 0
        self.replies: dict[tuple[int, str], set[bytes]] = defaultdict(set)
        self.sets: dict[tuple[int, str], set[tuple[int, ...]]] = defaultdict(set)
        self.views: dict[str, dict[int, View]] = defaultdict(dict)
        self.known: dict[str, dict[int, Known]] = defaultdict(dict)
        self.signatures: dict[tuple[str, View, tuple[int, ...]], set[int]] = defaultdict(set)
        self.sealed: dict[tuple[str, int], dict[int, bytes]] = {}

    def teardown(self) -> None:
        if hasattr(self, "world"):
            self.world.close()
            shutil.rmtree(self.folder)

    # ------------------------------------------------------------------------------- helpers
    def name_of(self, number: int) -> str:
        return round_name(self.group.coordinator.run_id, number)

    def ask(self, me: int, kind: MessageKind, body: bytes, number: int, act):
        """What the site answers; None if it refuses or dies. A dead one is started again."""
        message = self.group.forge(kind, body, round=number, receiver=me)
        self.world.serving = True
        try:
            return act(message)
        except SiteRefused:
            return None
        except Crash:
            self.world.serving = False
            self.world.restart(me)
            return self.world.leaked.pop(me, None)
        finally:
            self.world.serving = False

    def reply(self, me: int, number: int, message: bytes) -> None:
        name = self.name_of(number)
        self.replies[me, name].add(message)
        record = self.group.memories[me].outbox(self.group.coordinator.run_id, number)
        if record is None:
            return
        self.views[name][me] = View(frozenset(record.participants), record.context)
        self.sealed[name, me] = Masked.read(Envelope.parse(message).body, DIM).sealed_shares

    def did(self, me: int, number: int, members: tuple[int, ...], *, opened: bool) -> None:
        name = self.name_of(number)
        self.sets[me, name].add(members)
        old = self.known[name].get(me, Known())
        new = old.after(frozenset(members), signed=not opened, opened=opened, bound=None)
        self.known[name][me] = new
        if not opened:
            self.signatures[name, self.views[name][me], members].add(me)

    # --------------------------------------------------------------------- a lying coordinator
    @rule(me=HONEST, number=ROUNDS, participants=LARGE_SETS, bundle=st.sampled_from([b"a", b"b"]))
    def ask_round(self, me, number, participants, bundle) -> None:
        self.ask_site(me, number, participants, bundle)

    @rule(number=ROUNDS)
    def ask_all(self, number) -> None:
        """Most questions only make sense where everybody has answered."""
        for me in SITES:
            self.ask_site(me, number, tuple(SITES), b"a")

    def ask_site(self, me: int, number: int, participants: tuple[int, ...], bundle: bytes) -> None:
        if me in self.silent:
            return
        number, vector = number + self.offset, some_vectors(WORLD.sites, DIM)[me]
        last = [
            reply for k in SITES for reply in self.replies.get((k, self.name_of(number - 1)), ())
        ]
        shown = tuple(Envelope.parse(reply).receipt.to_bytes() for reply in last)
        body = Round(bundle, participants, receipts=shown).to_bytes()
        message = self.ask(
            me, MessageKind.ROUND, body, number, lambda m: self.world.answer(me, m, vector)
        )
        if message is not None:
            self.reply(me, number, message)

    @rule(me=HONEST, number=ROUNDS, members=SETS)
    def ask_signature(self, me, number, members) -> None:
        if me in self.silent:
            return
        number += self.offset
        body = members_field(members)
        if self.ask_twice(me, MessageKind.SURVIVORS, body, number, members):
            self.did(me, number, members, opened=False)

    def ask_twice(self, me: int, kind: MessageKind, body: bytes, number: int, members) -> bool:
        """Whether it signs or opens; if it doubts, with all the witnesses that can be had."""
        reply = self.ask(me, kind, body, number, lambda m: self.step(me, kind)(m))
        if reply is not None and Envelope.parse(reply).header.kind is MessageKind.DOUBT:
            self.bring_witnesses(me, number, members, bytes(Envelope.parse(reply).body))
            reply = self.ask(me, kind, body, number, lambda m: self.step(me, kind)(m))
        return reply is not None and Envelope.parse(reply).header.kind is not MessageKind.DOUBT

    def step(self, me: int, kind: MessageKind):
        site = self.group.sites[me]
        return site.sign_set if kind is MessageKind.SURVIVORS else site.unmask

    def bring_witnesses(self, me: int, number: int, members, nonce: bytes) -> None:
        name = self.name_of(number)
        record = self.group.memories[me].outbox(self.group.coordinator.run_id, number)
        content = witness_digest(record.context, members, me, nonce)
        table = {
            s: self.group.identities[s].sign(content) for s in WORLD.friends & set(members) - {me}
        }
        body = MemberTable(members, {me: nonce}).to_bytes()
        for peer in set(WORLD.honest) & set(members) - {me} - self.silent:
            words = self.ask(
                peer, MessageKind.WITNESS, body, number, self.group.sites[peer].witness
            )
            if words is not None:
                table[peer] = MemberTable.read(Envelope.parse(words).body, 64).table[me]
                self.sets[peer, name].add(members)
        proof = MemberTable(members, table).to_bytes()
        self.ask(me, MessageKind.PROVE, proof, number, self.group.sites[me].prove)

    @rule(me=HONEST, number=ROUNDS, members=SETS, whole=st.booleans())
    def ask_shares(self, me, number, members, whole) -> None:
        """With all signatures on the set that there are, the colluders' own among them."""
        number += self.offset
        name = self.name_of(number)
        if me in self.silent or me not in self.views[name]:
            return
        view = self.views[name][me]
        members = tuple(sorted(view.participants)) if whole else members
        sealed = {
            p: self.sealed[name, p][me]
            for p in members
            if p != me and me in self.sealed.get((name, p), {})
        }
        signers = set() if whole else self.signatures[name, view, members] | WORLD.friends
        digest = set_digest(view.context, members)
        certificate = {
            s: self.group.identities[s].sign(digest) for s in sorted(signers & set(members))
        }
        body = Unmask(members, certificate, sealed).to_bytes()
        if self.ask_twice(me, MessageKind.UNMASK, body, number, members):
            self.did(me, number, members, opened=True)

    # ------------------------------------------------------------------------------ misfortune
    @rule(me=HONEST, step=STEPS, more=st.integers(0, 3))
    def die_at(self, me, step, more) -> None:
        """One of the next transactions of the site ends there."""
        if me not in self.silent:
            self.world.doomed[me] = step, more

    @rule(me=HONEST)
    def restart(self, me) -> None:
        if me not in self.silent:
            self.world.doomed.pop(me, None)
            self.world.restart(me)

    @rule(me=HONEST)
    def copy_file(self, me) -> None:
        if me not in self.copies | self.silent:
            self.world.copy([me])
            self.copies.add(me)

    @precondition(lambda self: self.copies - self.silent)
    @rule(data=st.data())
    def bring_back(self, data) -> None:
        """An old file either is the newest, or its site stays silent."""
        me = data.draw(st.sampled_from(sorted(self.copies - self.silent)))
        self.world.doomed.pop(me, None)
        self.world.bring_back(me)
        try:
            self.world.restart(me)
        except LedgerRolledBack:
            self.silent.add(me)

    @precondition(lambda self: not self.silent)
    @rule()
    def open_session(self) -> None:
        self.world.doomed.clear()
        self.world.open_session()
        self.offset = max(
            memory.high_water(self.group.coordinator.run_id) for memory in self.group.memories
        )

    # ------------------------------------------------------------------- an honest coordinator
    @precondition(lambda self: not self.silent)
    @rule(lost=st.sampled_from([(), (0,), (2,), (3,)]))
    def honest_round(self, lost) -> None:
        """Everybody works as they should: the sum comes out and nobody is blamed."""
        self.open_session()
        vectors = some_vectors(WORLD.sites, DIM)
        number = self.offset + 1
        secure = self.group.coordinator.start(b"honest", DIM, round=number)
        for me, request in secure.requests().items():
            message = self.world.answer(me, request, vectors[me])
            self.reply(me, number, message)
            if me not in lost:
                secure.accept_masked(message)
        for me, request in secure.close().items():
            secure.accept_signature(self.group.sites[me].sign_set(request))
            self.did(me, number, secure.members, opened=False)
        for me, request in secure.unmask().items():
            secure.accept_shares(self.group.sites[me].unmask(request))
            self.did(me, number, secure.members, opened=True)
        opened = secure.opened()
        assert set(opened.members) == set(SITES) - set(lost)
        assert (opened.values == ring_sum(vectors, opened.members)).all()
        self.offset = number

    # ------------------------------------------------------------------------------ invariants
    @invariant()
    def one_reply_and_one_set_a_round(self) -> None:
        assert all(len(messages) == 1 for messages in getattr(self, "replies", {}).values())
        honest = {
            key: sets for key, sets in getattr(self, "sets", {}).items() if key[0] in WORLD.honest
        }
        assert all(len(sets) == 1 for sets in honest.values())

    @invariant()
    def every_reply_is_charged(self) -> None:
        rounds: dict[int, set[str]] = defaultdict(set)
        for me, name in getattr(self, "replies", {}):
            rounds[me].add(name)
        for me, names in rounds.items():
            if me not in self.silent:
                ledger = self.world.site_stores[me].ledger
                entries = [event for _, event in ledger.entries()]
                charged = {e.round_id for e in entries if type(e).__name__ == "Charged"}
                assert names <= charged
                assert ledger.spent(ACCOUNT) == COST * len(charged)

    @invariant()
    def no_sum_has_too_few_honest_summands(self) -> None:
        for name, views in getattr(self, "views", {}).items():
            state = tuple(self.known[name].get(me, Known()) for me in WORLD.honest)
            sums = computable(WORLD, tuple(views.get(me) for me in WORLD.honest), state)
            assert all(len(members) >= WORLD.least_honest for members in sums)


EFFORT = settings(
    max_examples=either(12, 120),
    stateful_step_count=either(15, 40),
    deadline=None,
    suppress_health_check=list(HealthCheck),
)


def test_real_sites_keep_the_protocol_whatever_happens():
    run_state_machine_as_test(ProtocolMachine, settings=EFFORT)


# ------------------------------------------------------------------------------- negative controls
class SendsEarly(CrashingConsortium):
    """Bytes leave before their charge is durable, and then the process dies."""

    def answer(self, me, message, vector):
        site = self.group.sites[me]
        begun = site.begin(message)

        def mask(end):
            record = site.mask(begun, vector, end)
            self.leaked[me] = record.message
            self.doomed[me] = "written", 0
            return record

        charges = [Charge((), COST, "Count of all rows", ACCOUNT, Measure.PURE)]
        return self.site_stores[me].release(charges, begun.run_id, begun.round, mask)


class MachineThatSendsEarly(ProtocolMachine):
    consortium_class = SendsEarly


@pytest.fixture
def begun():
    """Machines that a test drives by hand."""
    made = []

    def begin(kind: type[ProtocolMachine]) -> ProtocolMachine:
        made.append(kind())
        made[-1].start()
        return made[-1]

    yield begin
    for machine in made:
        machine.teardown()


def test_a_reply_before_its_charge_is_seen(begun):
    machine = begun(MachineThatSendsEarly)
    machine.ask_site(0, 1, tuple(SITES), b"a")
    with pytest.raises(AssertionError):
        machine.every_reply_is_charged()


def test_two_sets_of_one_round_are_seen(begun, monkeypatch):
    machine = begun(ProtocolMachine)
    machine.ask_all(1)
    monkeypatch.setattr(
        StudyStore, "open_set", lambda self, run, number, members, reply: reply[1](EMPTY_LEDGER)
    )
    for members in ((0, 1, 2), (0, 1, 3)):
        machine.ask_signature(me=0, number=1, members=members)
    with pytest.raises(AssertionError):
        machine.one_reply_and_one_set_a_round()


@pytest.mark.parametrize("weaker", [Rules(certificate=False), SOUND], ids=["weaker", "sound"])
def test_sums_without_certificates_are_seen(begun, monkeypatch, weaker):
    """The model names the sets; real sites that check no certificate open them, others do not."""
    broken = search(InTwo(WORLD, Rules(certificate=False))).broken
    machine = begun(ProtocolMachine)
    machine.ask_all(1)
    if not weaker.certificate:
        monkeypatch.setattr(Site, "_check_opening", lambda self, asked, record: None)
    for me, known in zip(WORLD.honest, broken, strict=True):
        for deed in known.deeds:
            members = tuple(sorted(deed.members))
            machine.ask_shares(me=me, number=1, members=members, whole=len(members) == len(SITES))
    if weaker.certificate:
        machine.no_sum_has_too_few_honest_summands()
    else:
        with pytest.raises(AssertionError):
            machine.no_sum_has_too_few_honest_summands()
