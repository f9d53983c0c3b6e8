"""The secure sum against `spec/one_round.py`: the same keys, shares, masks, messages and sums."""

import itertools
import random
from io import BytesIO

import numpy as np
import pytest

from hedgerow.secagg import masks, membership, shamir
from hedgerow.secagg.encoding import (
    Reader,
    digest,
    members_field,
    messages_field,
    read_body,
    table_field,
    u32,
)
from hedgerow.secagg.envelope import Envelope, seal_message
from hedgerow.secagg.keys import EphemeralKeys, Identity, Roster, open_share
from hedgerow.secagg.memory import set_hash
from hedgerow.secagg.messages import Keys, Masked, Mode, Round, Shares, Unmask
from hedgerow.secagg.opening import set_digest, take_masks_off
from hedgerow.secagg.session import Graph, KeySession, SiteSession
from spec import one_round as spec
from support.spec_replay import GOOD, load

BODIES = {
    "ENCAPS": (Reader.capsules, table_field), "BIND": (Reader.capsules, table_field),
    "JOIN": (Reader.u32, u32), "OPEN": (Reader.messages, messages_field),
    "SURVIVORS": (Reader.members, members_field), "SIGNED_SET": (Reader.signature, bytes),
    "KEYS": Keys, "ROUND": Round, "UNMASK": Unmask, "SHARES": Shares,
}  # fmt: skip
"""Bodies with a class, and the two functions of those of one field."""


def written_again(kind, body):
    if isinstance(kind, tuple):
        read, write = kind
        return write(read_body(body, read))
    return kind.read(body).to_bytes()


def drawn(label, length=32):
    return spec.hashlib.shake_256(str(label).encode()).digest(length)


def in_turn(rand):
    """Entropy that gives 32 bytes after the other."""
    pieces = iter([rand[i : i + 32] for i in range(0, len(rand), 32)])
    return lambda length: next(pieces)


class Sites:
    """Three ephemeral keys, as the spec's world and as the product's key session, all bound."""

    def __init__(self, threshold=2):
        privates = [drawn(("private", k), 96) for k in range(3)]
        made = [EphemeralKeys.draw(BytesIO(p).read) for p in privates]
        publics = [keys.public[0] for keys in made]
        study = spec.Study._make([None] * 18)._replace(n_sites=3, threshold=threshold)
        kems = dict(enumerate(keys.public[1] for keys in made))
        session = KeySession(
            bytes(16), drawn("epoch"), dict(enumerate(publics)), kems, Graph.full(3)
        )
        self.joined = [SiteSession(session, me, key, 0) for me, key in enumerate(made)]
        given = {me: one.encapsulate_all() for me, one in enumerate(self.joined)}
        for me, one in enumerate(self.joined):
            one.bind({peer: table[me] for peer, table in given.items() if me in table})
        cts = {(u, v): c[:1088] for u, table in given.items() for v, c in table.items()}
        more = drawn("epoch"), privates, publics, cts
        self.world = spec.World(study, (), b"", [], [], [], *more)
        assert self.joined[0].roots == {v: spec.root(self.world, 0, v) for v in (1, 2)}
        self.context = spec.context(drawn("epoch"), 7, 0, b"questions", publics)
        request = digest("bundle", bytes(1), b"questions")
        assert session.context(7, request, range(3)) == self.context


def test_hashes_are_the_spec_s():
    for parts in itertools.product((b"", b"a", b"ab"), repeat=2):
        assert digest("tag", *parts) == spec.H("tag", *parts)
    assert set_digest(b"context", (0, 2)) == spec.H("set", b"context", spec.ids((0, 2)))
    assert set_hash((0, 2)) == spec.H("members", spec.ids((0, 2)))


@pytest.mark.parametrize("n_sites", [2, 3, 5, 9])
def test_shares_are_the_spec_s_and_any_threshold_of_them_rebuilds(n_sites):
    for threshold in range(1, n_sites + 1):
        rand = drawn((n_sites, threshold), 32 * threshold)
        entropy = in_turn(rand)
        secret = shamir.random_element(entropy)
        shares = shamir.split(secret, threshold, range(n_sites), entropy)
        assert secret == int.from_bytes(rand[:32], "big") >> 1
        assert shares == spec.split_secret(secret, threshold, range(n_sites), rand[32:])
        some = tuple(sorted(random.Random(threshold).sample(range(n_sites), threshold)))
        rebuilt = shamir.combine((shares[k] for k in some), shamir.weights(some))
        assert rebuilt == spec.interpolate({k + 1: shares[k] for k in some}, 0) == secret
        if threshold > 1:  # a control: one share less gives another number
            assert spec.interpolate({k + 1: shares[k] for k in some[1:]}, 0) != secret


@pytest.mark.parametrize("length", [1, 2, 3, 1000])
def test_streams_are_added_as_the_spec_adds_them(length):
    vector = np.random.default_rng(length).integers(-(2**63), 2**63, length, dtype=np.int64)
    keys = [(drawn("plus"), 1), (drawn("minus"), -1), (drawn("more"), 1)]
    total = masks.to_ring(vector)
    masks.fold(total, [k for k, sign in keys if sign > 0], [k for k, sign in keys if sign < 0])
    assert total.tolist() == spec.fold(vector.tolist(), keys)


@pytest.mark.parametrize("threshold", [2, 3])
def test_a_hidden_vector_is_the_spec_s(threshold):
    sites, rand = Sites(threshold), drawn("round", 32 * threshold)
    vector = [5, -7, 2**62, 0, -(2**63)]
    for me, joined in enumerate(sites.joined):
        theirs = spec.hide(sites.world, me, sites.context, spec.IN_TWO, vector, rand)
        ours = membership.hide(
            np.array(vector), joined, sites.context, (0, 1, 2), threshold, in_turn(rand)
        )
        assert ours.body.vector.tolist() == theirs.vector
        assert ours.body.commitment == theirs.commitment
        assert ours.body.sealed_shares == theirs.sealed
        assert ours.own_share == spec.uint(theirs.shares[me], 32)
        assert ours.seeds == theirs.seeds
        for peer in theirs.sealed:  # what the spec sealed is opened by whom it is for
            key = sites.joined[peer].share_keys(sites.context, me)[1]
            share = open_share(key, sites.context, me, peer, theirs.sealed[peer])
            assert share == spec.uint(theirs.shares[peer], 32)


def test_a_vector_that_is_opened_at_once_is_the_spec_s_and_keeps_no_secret():
    sites, vectors = Sites(3), [[1, -2], [30, 40], [500, -(2**63)]]
    context = spec.context(drawn("epoch"), 7, spec.AT_ONCE, b"questions", sites.world.publics)
    for me, joined in enumerate(sites.joined):
        theirs = spec.hide(sites.world, me, context, spec.AT_ONCE, vectors[me], b"")
        ours = membership.hide_at_once(np.array(vectors[me]), joined, context, (0, 1, 2))
        assert ours.body.vector.tolist() == theirs.vector
        assert (ours.own_share, ours.seeds, ours.share_keys) == (b"", {}, {})
    hidden = [spec.hide(sites.world, me, context, 1, vectors[me], b"").vector for me in range(3)]
    assert spec.open_at_once(hidden) == [531, 38 + -(2**63)]
    with pytest.raises(ValueError, match="MasksLeft"):
        spec.open_at_once(hidden[:2])


def test_masks_come_off_as_in_the_spec_with_one_site_lost():
    sites, vectors = Sites(), [[1, -2], [30, 40], [500, 600]]
    hidden = [
        spec.hide(sites.world, me, sites.context, spec.IN_TWO, vectors[me], drawn(me, 64))
        for me in range(3)
    ]
    members = {me: hidden[me] for me in (0, 2)}
    assert spec.uncover(members, sites.context, 2) == [501, 598]
    total = spec.fold(spec.added([hidden[0].vector, hidden[2].vector]), [])
    secrets = {
        me: spec.interpolate({1: h.shares[0], 3: h.shares[2]}, 0) for me, h in members.items()
    }
    keys = [masks.self_key(sites.context, b) for b in secrets.values()]
    answers = {me: Shares({}, {1: h.seeds[1]}) for me, h in members.items()}
    ours = np.array(total, np.uint64)
    take_masks_off(ours, keys, answers)
    assert masks.center(ours).tolist() == [501, 598]
    wrong = hidden[2]._replace(seeds=hidden[2].seeds | {1: drawn("another")})
    assert spec.uncover({0: hidden[0], 2: wrong}, sites.context, 2) != [501, 598]
    with pytest.raises(ValueError, match="BadShares"):
        spec.uncover({0: hidden[0], 2: wrong._replace(commitment=bytes(32))}, sites.context, 2)


@pytest.mark.parametrize("name", [*GOOD, "bad"])
def test_every_message_of_the_spec_is_read_and_written_again(name):
    stored = load(name)
    identities = [Identity.from_bytes(bytes.fromhex(secret)) for secret in stored["identities"]]
    publics = [identity.public for identity in identities]
    roster, seen = Roster(tuple(publics[:-1]), publics[-1]), set()
    for kind, site, text in stored["messages"]:
        message = bytes.fromhex(text)
        envelope = Envelope.parse(message)
        envelope.verify(roster)
        assert envelope.header.kind.name == kind
        signer = identities[site if kind in spec.FROM_SITES else -1]
        assert seal_message(signer, envelope.header, bytes(envelope.body)) == message
        if kind == "MASKED":
            told = stored["rounds"][envelope.header.round - 1]
            sizes, mode = (len(told["sum"]), len(told["selections"][0])), Mode(told["mode"])
            body = Masked.read(envelope.body, *sizes, mode).to_bytes()
        else:
            body = written_again(BODIES[kind], envelope.body)
        assert body == envelope.body
        seen.add(kind)
    assert seen >= {"JOIN", "KEYS", "OPEN", "ROUND", "MASKED"}
