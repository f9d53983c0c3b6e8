"""Whatever a lying coordinator and its colluders do, an opened sum has enough honest summands.

Real sites on one side; on the other an adversary that holds the coordinator's key and all the
secrets of `colluders` sites. It shows every honest site sets of its own choosing, collects
signatures, certificates and answers, and keeps whatever is not refused. What it then knows is
counted with the sites' true secrets in hand, and checked by computing the sums it claims.
"""

import random
from contextlib import suppress
from dataclasses import dataclass, field

import numpy as np
import pytest

from hedgerow.errors import SiteRefused
from hedgerow.secagg import masks, shamir
from hedgerow.secagg.client import Site
from hedgerow.secagg.encoding import members_field
from hedgerow.secagg.envelope import Envelope, MessageKind
from hedgerow.secagg.keys import open_share
from hedgerow.secagg.memory import MemoryInRam
from hedgerow.secagg.messages import Masked, Round, Shares, Unmask
from hedgerow.secagg.opening import set_digest
from hedgerow.secagg.parameters import Parameters
from support.effort import either
from support.secagg_dry_run import answer, consortium, headers, ring_sum, some_vectors

pytestmark = pytest.mark.property

DIM = 2


@dataclass
class Attack:
    """One round under attack."""

    group: object
    choose: random.Random
    round: int
    honest: tuple[int, ...]
    records: dict = field(default_factory=dict)
    masked: dict = field(default_factory=dict)
    signatures: dict = field(default_factory=dict)
    shares: dict = field(default_factory=dict)  # (owner, site) -> share
    seeds: set = field(default_factory=set)  # pair seeds that honest sites revealed

    def run(self, vectors):
        self.collect_vectors(vectors)
        everyone = tuple(range(len(self.group.sites)))
        pool = [self.some_set() for _ in range(self.choose.randint(1, 5))]
        pool += [everyone] * self.choose.randint(0, 1)
        steps = [self.ask_signature] * self.choose.randint(0, 2) + [self.ask_shares] * 2
        for step in steps:
            for me in self.choose.sample(self.honest, len(self.honest)):
                listed = [members for members in pool if me in members]
                step(me, self.choose.choice(listed or pool))
        self.use_colluders()

    def collect_vectors(self, vectors):
        """Usually one list of participants for all, sometimes another one for some."""
        everyone = tuple(range(len(self.group.sites)))
        views = [everyone, self.some_set() if self.choose.random() < 0.2 else everyone]
        for me in everyone:
            view = self.choose.choice([v for v in views if me in v])
            asked = Round(b"q", view, receipts=headers(self.group, self.round - 1))
            request = self.message(MessageKind.ROUND, asked.to_bytes(), me)
            message = answer(self.group, me, request, vectors[me])
            self.records[me] = self.group.memories[me].outbox(
                self.group.coordinator.run_id, self.round
            )
            self.masked[me] = Masked.read(Envelope.parse(message).body, DIM)

    def some_set(self):
        """Small sets with all colluders in them are the most useful lies, so they are likely."""
        n_sites, threshold = len(self.group.sites), self.group.parameters.threshold
        friends = set(range(n_sites)) - set(self.honest) if self.choose.random() < 0.8 else set()
        size = threshold if self.choose.random() < 0.8 else self.choose.randint(threshold, n_sites)
        others = sorted(set(range(n_sites)) - friends)
        return tuple(sorted(friends | set(self.choose.sample(others, size - len(friends)))))

    def message(self, kind, body, me):
        record = self.records.get(me)
        held = {} if record is None else {"ledger": record.header.ledger}
        return self.group.forge(kind, body, round=self.round, receiver=me, **held)

    def ask_signature(self, me, members):
        message = self.message(MessageKind.SURVIVORS, members_field(members), me)
        try:
            signed = self.group.sites[me].sign_set(message)
        except SiteRefused:
            return
        signature = bytes(Envelope.parse(signed).body)
        self.signatures[me, self.records[me].context, members] = signature

    def certificate(self, context, members):
        """Every signature it has, and any it likes of the colluders'."""
        if members == tuple(range(len(self.group.sites))):
            return {}
        signed = set_digest(context, members)
        found = {}
        for me in members:
            if me not in self.honest:
                found[me] = self.group.identities[me].sign(signed)
            elif (me, context, members) in self.signatures:
                found[me] = self.signatures[me, context, members]
        return found

    def ask_shares(self, me, members):
        context = self.records[me].context
        sealed = {p: self.masked[p].sealed_shares.get(me, bytes(112)) for p in members if p != me}
        body = Unmask(members, self.certificate(context, members), sealed).to_bytes()
        try:
            given = self.group.sites[me].unmask(self.message(MessageKind.UNMASK, body, me))
        except SiteRefused:
            return
        answer = Shares.read(Envelope.parse(given).body)
        self.shares |= {(owner, me): share for owner, share in answer.shares.items()}
        for owner, key in answer.complaints.items():  # a key opens what was really sealed, if any
            with suppress(SiteRefused):
                sealed = self.masked[owner].sealed_shares.get(me, bytes(112))
                self.shares[owner, me] = open_share(key, context, owner, me, sealed)
        self.seeds |= set(answer.seeds.values())

    def use_colluders(self):
        """They open what was sealed for them and tell every seed they share."""
        for me in set(range(len(self.group.sites))) - set(self.honest):
            record = self.records[me]
            self.seeds |= set(record.seeds.values())
            for owner in self.honest:
                sealed = self.masked[owner].sealed_shares.get(me)
                key = record.share_keys.get(owner)
                if sealed is not None and key is not None:
                    try:
                        share = open_share(key, record.context, owner, me, sealed)
                    except SiteRefused:
                        continue
                    self.shares[owner, me] = share

    def self_key(self, owner):
        """The key of the owner's self-mask, if enough shares of it are known."""
        threshold = self.group.parameters.threshold
        site_rows = tuple(sorted(h for o, h in self.shares if o == owner))[:threshold]
        if len(site_rows) < threshold:
            return None
        known = (shamir.from_bytes(self.shares[owner, h]) for h in site_rows)
        secret = shamir.combine(known, shamir.weights(site_rows))
        context = self.records[owner].context
        assert masks.commitment(context, secret) == self.masked[owner].commitment
        return masks.self_key(context, secret)

    def unknown_seeds(self, owner):
        return set(self.records[owner].seeds.values()) - self.seeds

    def components(self):
        """Honest sites tied by pair masks the adversary does not know."""
        left = set(self.honest)
        while left:
            found, todo = set(), [left.pop()]
            while todo:
                here = todo.pop()
                found.add(here)
                tied = {o for o in left if self.unknown_seeds(o) & self.unknown_seeds(here)}
                left -= tied
                todo += tied
            yield tuple(sorted(found))

    def opened(self, vectors):
        """Components whose sum the adversary can compute; it does, and the sum is right."""
        for component in self.components():
            self_keys = [self.self_key(owner) for owner in component]
            ties = [seed for owner in component for seed in self.unknown_seeds(owner)]
            cancel = all(ties.count(seed) == 2 for seed in ties)
            if cancel and None not in self_keys:
                total = self.strip(component, self_keys)
                np.testing.assert_array_equal(total, ring_sum(vectors, component))
                yield component

    def strip(self, component, self_keys):
        total = np.zeros(DIM, masks.MASK_WORD)
        for owner, self_key in zip(component, self_keys, strict=True):
            total += self.masked[owner].vector
            seeds = {p: s for p, s in self.records[owner].seeds.items() if s in self.seeds}
            added = [seed for peer, seed in seeds.items() if owner < peer]
            taken = [seed for peer, seed in seeds.items() if peer < owner]
            masks.fold(total, plus=taken, minus=[self_key, *added])
        return masks.center(total)


def sizes_opened(parameters, rounds, seed, site_class=Site, memory_class=MemoryInRam):
    """Sizes of all honest sets opened in `rounds` rounds of random lies."""
    choose, n_sites = random.Random(seed), parameters.n_sites
    group = consortium(n_sites, parameters, site_class, memory_class=memory_class)
    for number in range(1, rounds + 1):
        vectors = some_vectors(n_sites, DIM, seed=number)
        honest = tuple(sorted(choose.sample(range(n_sites), n_sites - parameters.colluders)))
        attack = Attack(group, choose, number, honest)
        attack.run(vectors)
        yield from map(len, attack.opened(vectors))


SETTINGS = [
    (n_sites, colluders, threshold)
    for n_sites, colluders in [(2, 1), (3, 1), (4, 1), (4, 2), (5, 1), (5, 2), (6, 2), (7, 3)]
    for threshold in range(colluders + 1, n_sites + 1)
]


@pytest.mark.parametrize(("n_sites", "colluders", "threshold"), SETTINGS)
def test_every_opened_set_has_enough_honest_members(n_sites, colluders, threshold):
    parameters = Parameters(n_sites=n_sites, colluders=colluders, threshold=threshold)
    rounds = either(25, 50)
    sizes = list(sizes_opened(parameters, rounds, seed=n_sites * 100 + threshold))
    assert sizes, "an adversary that opens nothing tests nothing"
    assert min(sizes) >= parameters.honest


def test_the_bound_is_reached_so_it_is_not_checked_in_vain():
    parameters = Parameters(n_sites=5, colluders=1, threshold=3)
    assert min(sizes_opened(parameters, rounds=150, seed=1)) == parameters.honest


class WithoutCertificate(Site):
    def _check_opening(self, asked, record):
        pass


class ShortCertificate(Site):
    """Counts one signature too few."""

    def _check_opening(self, asked, record):
        if len(asked.certificate) < self._parameters.threshold - 1:
            super()._check_opening(asked, record)


class Forgetful(MemoryInRam):
    """Forgets which set it signed or opened."""

    def open_set(self, run_id, round, members, reply):
        return reply[1](self.outbox(run_id, round).header.ledger)


@pytest.mark.parametrize(
    "broken",
    [
        {"site_class": WithoutCertificate},
        {"site_class": ShortCertificate},
        {"memory_class": Forgetful},
    ],
    ids=["no certificate", "one signature less", "two sets a round"],
)
def test_the_adversary_would_win_against_a_weaker_site(broken):
    """The negative controls.

    The same adversary opens a sum with fewer honest members than guaranteed.
    """
    parameters = Parameters(n_sites=5, colluders=1, threshold=3)
    assert min(sizes_opened(parameters, rounds=150, seed=1, **broken)) < parameters.honest
