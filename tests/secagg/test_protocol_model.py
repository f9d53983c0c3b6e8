"""The secure sum against its model: searched whole, and the real site held to the same rules.

The model is searched over every strategy of a lying coordinator; weaker sites must be found out.
Then the real `Site` is brought into every state of a round and asked every question: it accepts
exactly what the model allows. proofs/Protocol.v has the same rules for any number of sites.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from copy import deepcopy
from dataclasses import replace
from random import Random

import pytest

from hedgerow.errors import SiteRefused
from hedgerow.secagg import client
from hedgerow.secagg.client import Site
from hedgerow.secagg.encoding import members_field
from hedgerow.secagg.envelope import Envelope, MessageKind
from hedgerow.secagg.messages import Masked, MemberTable, Unmask
from hedgerow.secagg.opening import set_digest, witness_digest
from hedgerow.secagg.parameters import Parameters
from support.protocol_model import (
    MODES,
    SOUND,
    AtOnce,
    InTwo,
    Members,
    RolledBack,
    Rules,
    View,
    World,
    allowed,
    play,
    search,
    subsets,
)
from support.secagg_dry_run import consortium, masked_round, restarted, some_vectors

pytestmark = pytest.mark.property

FEW = [World(n, c, t) for n in (2, 3, 4) for c in range(1, n) for t in range(c + 1, n + 1)]
MORE = [World(5, 2, 3), World(5, 2, 4), World(5, 3, 4)]
MOST = [World(5, 1, 3), World(5, 1, 4), World(5, 1, 5)]
BROUGHT_BACK = [World(3, 1, 2), World(3, 1, 3), World(4, 2, 3), World(4, 2, 4)]
VIEWS = [World(3, 1, 2), World(3, 1, 3), World(4, 2, 3)]
WEAKER = {
    "signs two sets": ("in two", Rules(one_set=False)),
    "opens without a certificate": ("in two", Rules(certificate=False)),
    "asks for one signature less": ("in two", Rules(missing_signatures=1)),
    "sends before it stores": ("in two", Rules(stores_before_sending=False)),
    "forgets its set when it restarts": ("in two", Rules(remembers_after_restart=False)),
    "answers a round twice": ("at once", Rules(one_answer=False)),
    "falls back to a smaller set": ("at once", Rules(falls_back=True)),
    "asks for no witnesses": ("rolled back", Rules(asks_witnesses=False)),
    "asks for one witness less": ("rolled back", Rules(missing_witnesses=1)),
    "witnesses after a restart": ("rolled back", Rules(witnesses_after_restart=True)),
}
BESIDE = {"signs sets without itself": Rules(is_member=False)}
"""Rules that this property does not need: they guard against honest mistakes."""


# ---------------------------------------------------------------------------------------- the model
def keeps(world: World, mode: str = "in two", *, other_views: bool = False) -> bool:
    """Every sum has enough honest summands, and some sum has no more: it is not vacuous."""
    found = search(MODES[mode](world, SOUND, other_views))
    return found.whole and found.least == world.least_honest


@pytest.mark.parametrize("world", [*FEW, *MORE], ids=str)
def test_every_sum_has_enough_honest_summands_whatever_is_asked(world):
    assert keeps(world)


@pytest.mark.slow
@pytest.mark.parametrize("world", MOST, ids=str)
def test_so_it_is_among_five_sites(world):
    assert keeps(world)


@pytest.mark.parametrize("world", VIEWS, ids=str)
def test_so_it_is_when_sites_are_named_different_participants(world):
    assert keeps(world, other_views=True)


@pytest.mark.slow
@pytest.mark.parametrize("world", [World(4, 1, 2), World(4, 1, 3)], ids=str)
def test_so_it_is_for_all_lists_of_four_participants(world):
    assert keeps(world, other_views=True)


@pytest.mark.parametrize("world", [*FEW, *MORE, *MOST], ids=str)
def test_so_it_is_for_rounds_in_one_exchange(world):
    assert keeps(world, "at once")


@pytest.mark.parametrize("world", BROUGHT_BACK, ids=str)
def test_so_it_is_when_machines_are_brought_back_with_their_anchors(world):
    assert keeps(world, "rolled back")


@pytest.mark.slow
@pytest.mark.parametrize("world", [World(4, 1, 3), World(4, 1, 4)], ids=str)
def test_so_it_is_with_three_honest_machines_brought_back(world):
    assert keeps(world, "rolled back")


@pytest.mark.slow
@pytest.mark.parametrize("world", [World(5, 2, 4), World(5, 1, 4), World(7, 2, 6)], ids=str)
def test_random_plays_with_more_machines_break_nothing(world):
    draw = Random(0)
    mode = RolledBack(world)
    assert all(play(mode, draw, 40) >= world.least_honest for _ in range(300))


@pytest.mark.slow
def test_witnesses_who_are_not_bound_are_found_out():
    world = World(4, 1, 3)
    assert search(RolledBack(world, Rules(witnesses_are_bound=False))).least < world.least_honest


@pytest.mark.parametrize("name", WEAKER)
def test_a_weaker_site_is_found_out(name):
    mode, rules = WEAKER[name]
    world = World(4, 1, 3)
    assert search(MODES[mode](world, rules)).least < world.least_honest


@pytest.mark.parametrize("name", BESIDE)
def test_some_rules_guard_something_else(name):
    world = World(4, 1, 3)
    assert search(InTwo(world, BESIDE[name])).least >= world.least_honest


def test_binding_keys_to_participants_guards_something_else():
    world = World(3, 1, 2)
    weaker = replace(SOUND, binds_participants=False)
    assert search(InTwo(world, weaker, other_views=True)).least >= world.least_honest


def test_modes_are_told_apart_by_name():
    assert {"in two": InTwo, "at once": AtOnce, "rolled back": RolledBack} == MODES


# ------------------------------------------------------------------------------------- conformance
class Conformance:
    """One real site in one round of version 2, brought into any state and asked anything."""

    def __init__(self, world: World, site_class: type[Site] = Site, me: int = 0) -> None:
        parameters = Parameters(
            n_sites=world.sites, colluders=world.colluders, threshold=world.threshold
        )
        self.world, self.me = world, me
        self.group = consortium(world.sites, parameters, site_class)
        masked_round(self.group, some_vectors(world.sites, 2))
        run = self.group.coordinator.run_id
        self.records = [memory.outbox(run, 1) for memory in self.group.memories]
        bodies = [Masked.read(Envelope.parse(r.message).body, 2) for r in self.records]
        self.sealed = [body.sealed_shares for body in bodies]
        self.view = View(frozenset(range(world.sites)))
        self._fresh = deepcopy(self.group.memories[me].__dict__)
        self._site, self._class = self.group.sites[me], site_class

    def bring_to(self, bound: Members | None, restart: bool) -> None:
        """The site as after MASKED, bound to a set or not, in this process or in a new one."""
        self.group.memories[self.me].__dict__.update(deepcopy(self._fresh))
        self.group.sites[self.me] = self._site
        if bound is not None:
            assert self.accepts(bound, None)
        if restart:
            restarted(self.group, self.me, site_class=self._class)

    def show_witnesses(self, members: Members, count: int) -> None:
        """PROVE with so many signatures, of the others in order."""
        site, record = self.group.sites[self.me], self.records[self.me]
        listed = tuple(sorted(members))
        self.accepts(members, None)  # a nonce is drawn, unless the set is no set at all
        content = witness_digest(record.context, listed, self.me, site._nonce)
        others = [s for s in range(self.world.sites) if s != self.me]
        table = {s: self.group.identities[s].sign(content) for s in others[:count]}
        body = MemberTable(listed, table).to_bytes()
        place = {"round": 1, "receiver": self.me, "ledger": record.header.ledger}
        with suppress(SiteRefused):
            site.prove(self.group.forge(MessageKind.PROVE, body, **place))

    def accepts(self, members: Members, signers: Members | None) -> bool:
        site, record = self.group.sites[self.me], self.records[self.me]
        listed = tuple(sorted(members))
        if signers is None:
            kind, body, step = MessageKind.SURVIVORS, members_field(listed), site.sign_set
        else:
            signed = set_digest(record.context, listed)
            certificate = {s: self.group.identities[s].sign(signed) for s in sorted(signers)}
            sealed = {p: self.sealed[p][self.me] for p in listed if p != self.me}
            kind, step = MessageKind.UNMASK, site.unmask
            body = Unmask(listed, certificate, sealed).to_bytes()
        message = self.group.forge(
            kind, body, round=1, receiver=self.me, ledger=record.header.ledger
        )
        try:
            return Envelope.parse(step(message)).header.kind is not MessageKind.DOUBT
        except SiteRefused:
            return False

    def questions(self) -> Iterator[tuple[Members | None, Members, Members | None]]:
        """Every set it may be bound to, every set it may be asked about, every certificate."""
        everyone = range(self.world.sites)
        sets = subsets(everyone)
        bound = [s for s in subsets(everyone, self.world.threshold) if self.me in s]
        for one in (None, *bound):
            for members in sets:
                for signers in (None, frozenset[int](), *sets):
                    yield one, members, signers

    def differences(
        self, *, restart: bool = False, witnesses: int = 0, most: int | None = None
    ) -> tuple[int, int]:
        """Questions asked, and how often the site did not say what the model says."""
        asked, wrong, words = 0, 0, witnesses if restart else None
        for bound, members, signers in self.questions():
            self.bring_to(bound, restart)
            if words:
                self.show_witnesses(members, words)
            place = self.world, self.view, self.me, bound, members, signers
            expected = allowed(*place, witnesses=words)
            asked, wrong = asked + 1, wrong + (self.accepts(members, signers) != expected)
            if most is not None and wrong >= most:
                break
        return asked, wrong


@pytest.mark.parametrize(
    ("world", "asked"), [(World(3, 1, 2), 252), (World(3, 1, 3), 126)], ids=str
)
@pytest.mark.parametrize(
    ("restart", "witnesses"), [(False, 0), (True, 0), (True, 1), (True, 2)], ids=str
)
def test_the_real_site_accepts_what_the_model_allows(world, asked, restart, witnesses):
    found = Conformance(world).differences(restart=restart, witnesses=witnesses)
    assert found == (asked, 0)


class AsksNoWitnesses(Site):
    def _is_in_doubt(self, record, members):
        return False


@pytest.mark.parametrize("witnesses", [0, 1])
def test_a_real_site_that_asks_no_witnesses_differs(witnesses):
    world = World(3, 1, 3)
    differences = Conformance(world, AsksNoWitnesses).differences
    assert differences(restart=True, witnesses=witnesses, most=1)[1] == 1


@pytest.mark.slow
@pytest.mark.parametrize(
    ("world", "asked"),
    [(World(4, 1, 3), 1275), (World(4, 2, 3), 1275), (World(5, 2, 4), 6138)],
    ids=str,
)
def test_the_real_site_does_so_among_more_sites(world, asked):
    assert Conformance(world).differences() == (asked, 0)


class SignsStrangers(Site):
    def _check_members(self, members, record):
        client.require(len(members) >= self._parameters.threshold, client.Code.TOO_FEW)


class SignsFew(Site):
    def _check_members(self, members, record):
        client.require(self._author.me in members, client.Code.BAD_SET)


class OpensWithoutCertificate(Site):
    def _check_opening(self, asked, record):
        return None


class OpensWithOneSignatureLess(Site):
    def _check_opening(self, asked, record):
        if asked.members != record.participants:
            needed = self._parameters.threshold - 1
            client.check_certificate(
                asked.certificate, asked.members, record.context, self.roster, needed
            )


class SignsTwice(Site):
    def sign_set(self, message):
        self._memory._sets.clear()
        return super().sign_set(message)


@pytest.mark.parametrize(
    "site_class",
    [SignsStrangers, SignsFew, OpensWithoutCertificate, OpensWithOneSignatureLess, SignsTwice],
)
def test_a_real_site_that_checks_less_differs(site_class):
    """Negative controls of the comparison itself."""
    _, wrong = Conformance(World(3, 1, 2), site_class).differences(most=1)
    assert wrong == 1
