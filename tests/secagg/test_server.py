"""The coordinator believes no site: what it takes, what it refuses, whom it names."""

from dataclasses import replace

import numpy as np
import pytest

from hedgerow.errors import ParameterError, RoundFailed, SiteRefused
from hedgerow.secagg import client, membership, opening
from hedgerow.secagg import secure_sum as secure_sums
from hedgerow.secagg.envelope import Envelope, MessageKind
from hedgerow.secagg.messages import Masked, Shares
from hedgerow.secagg.opening import BadShares
from hedgerow.secagg.parameters import Parameters
from hedgerow.secagg.server import Coordinator
from support.secagg_dry_run import (
    STUDY,
    answer,
    consortium,
    masked_round,
    open_session,
    refuses,
    ring_sum,
    secure_sum,
    some_vectors,
)

PARTIES, THRESHOLD = 5, 3
EVERYBODY = tuple(range(PARTIES))


@pytest.fixture
def group():
    return consortium(PARTIES, Parameters(n_sites=PARTIES, colluders=1, threshold=THRESHOLD))


@pytest.fixture
def vectors():
    return some_vectors(PARTIES)


def from_site(group, me, kind, body, round=1):
    """A message that site `me` could really sign, however untrue."""
    held = group.coordinator.heads[me]
    return group.forge(kind, body, signer=me, sender=me, round=round, ledger=held)


def test_a_late_vector_cannot_be_opened(group, vectors):
    secure = group.coordinator.start(b"bundle", 3)
    sent = {me: answer(group, me, m, vectors[me]) for me, m in secure.requests().items()}
    for me in EVERYBODY[:-1]:
        secure.accept_masked(sent[me])
    for me, message in secure.close().items():
        secure.accept_signature(group.sites[me].sign_set(message))
    with refuses("OldRound"):
        secure.accept_masked(sent[4])
    for me, message in secure.unmask().items():
        secure.accept_shares(group.sites[me].unmask(message))
    np.testing.assert_array_equal(secure.opened().values, ring_sum(vectors, EVERYBODY[:-1]))
    assert not any(4 in answer.shares for answer in secure._answers.values())


def test_the_lost_site_s_seeds_are_of_this_round_and_its_shares_stay_sealed(group, vectors):
    secure = masked_round(group, vectors, lost=[4])
    for me, message in secure.close().items():
        secure.accept_signature(group.sites[me].sign_set(message))
    for me, message in secure.unmask().items():
        given = Shares.read(Envelope.parse(group.sites[me].unmask(message)).body)
        assert set(given.shares) == {0, 1, 2, 3}
        assert set(given.seeds) == {4}


class Inconsistent:
    """Deals shares of another secret than the one that masks the vector."""

    def __init__(self, culprit):
        self.culprit = culprit

    def __call__(self, vector, joined, *rest):
        hidden = hide(vector, joined, *rest)
        if joined.me != self.culprit:
            return hidden
        wrong = replace(hidden.body, commitment=bytes(32))
        return membership.MaskedVector(wrong, hidden.own_share, hidden.seeds, hidden.share_keys)


hide = membership.hide


@pytest.mark.parametrize("culprit", [0, 3])
def test_inconsistent_shares_name_their_dealer_and_open_nothing(
    group, vectors, monkeypatch, culprit
):
    monkeypatch.setattr(client, "hide", Inconsistent(culprit))
    with pytest.raises(BadShares) as failure:
        secure_sum(group, vectors)
    assert failure.value.sites == (culprit,)
    assert isinstance(failure.value, RoundFailed)


# ------------------------------------------------------------------- who lied about a share
OWNER, GIVER = 1, 3
NO_SHARE, NO_KEY = bytes([1]) * 32, bytes([2]) * 32


class SealsBadly:
    """The owner sends the giver another ciphertext, or announces another share or key."""

    def __init__(self, start, receivers=(GIVER,)):
        self.start, self.receivers = start, receivers

    def __call__(self, vector, joined, *rest):
        hidden = hide(vector, joined, *rest)
        if joined.me != OWNER:
            return hidden
        table = dict(hidden.body.sealed_shares)
        for receiver in self.receivers:
            sealed = bytearray(table[receiver])
            sealed[self.start] ^= 1
            table[receiver] = bytes(sealed)
        body = replace(hidden.body, sealed_shares=table)
        return membership.MaskedVector(body, hidden.own_share, hidden.seeds, hidden.share_keys)


def lie(answer, key, what):
    """What the giver, or the owner, could sign instead of its own answer."""
    others = {owner: share for owner, share in answer.shares.items() if owner != OWNER}
    return {
        "a wrong share": replace(answer, shares=answer.shares | {OWNER: NO_SHARE}),
        "a needless complaint": replace(answer, shares=others, complaints={OWNER: key}),
        "a complaint with a false key": replace(answer, shares=others, complaints={OWNER: NO_KEY}),
    }[what]


def judged(group, vectors, what=None, liar=GIVER):
    """A round in two exchanges whose answers of `liar` are another; gives it, opened."""
    secure = masked_round(group, vectors)
    secure.close()
    key = group.memories[GIVER].outbox(group.coordinator.run_id, 1).share_keys[OWNER]
    for me, message in secure.unmask().items():
        given = group.sites[me].unmask(message)
        if what is not None and me == liar:
            body = lie(Shares.read(Envelope.parse(given).body), key, what).to_bytes()
            given = from_site(group, me, MessageKind.SHARES, body)
        secure.accept_shares(given)
    np.testing.assert_array_equal(secure.opened().values, ring_sum(vectors, EVERYBODY))
    return secure


@pytest.mark.parametrize(
    ("start", "liars", "suspects"),
    [(0, {OWNER}, set()), (48, {OWNER}, set()), (80, set(), set())],
    ids=["ciphertext", "hash of the share", "hash of the key"],
)
def test_whoever_seals_a_bad_share_is_named_and_the_round_goes_on(
    group, vectors, monkeypatch, start, liars, suspects
):
    monkeypatch.setattr(client, "hide", SealsBadly(start))
    secure = judged(group, vectors)
    assert (secure.liars, secure.suspects) == (liars, suspects)


@pytest.mark.parametrize(
    ("what", "liar", "liars", "suspects"),
    [
        ("a wrong share", GIVER, {GIVER}, set()),
        ("a needless complaint", GIVER, {GIVER}, set()),
        ("a complaint with a false key", GIVER, set(), {OWNER, GIVER}),
        ("a wrong share", OWNER, {OWNER}, set()),  # its own
    ],
)
def test_whoever_answers_badly_is_named_and_the_owner_is_not(
    group, vectors, what, liar, liars, suspects
):
    secure = judged(group, vectors, what, liar)
    assert (secure.liars, secure.suspects) == (liars, suspects)


def test_shares_that_nobody_judges_would_blame_the_owner(group, vectors, monkeypatch):
    """The negative control: an honest site was named for a share that another had changed."""

    def believe(sealed, context, owner, giver, answer):
        return opening.ShareVerdict(answer.shares.get(owner))

    monkeypatch.setattr(secure_sums, "judge_share", believe)
    wide = Parameters(n_sites=PARTIES, colluders=1, threshold=4)
    with pytest.raises(BadShares) as failure:
        judged(consortium(PARTIES, wide), vectors, "a wrong share")
    assert failure.value.sites == (OWNER,)


def test_a_signature_of_somebody_else_does_not_count(group, vectors):
    secure = masked_round(group, vectors, lost=[4])
    messages = secure.close()
    signed = group.sites[0].sign_set(messages[0])
    forged = group.forge(
        MessageKind.SIGNED_SET,
        bytes(Envelope.parse(signed).body),
        signer=1,
        sender=1,
        ledger=group.coordinator.heads[1],
    )
    with refuses("BadCertificate"):
        secure.accept_signature(forged)
    with pytest.raises(RoundFailed, match="0 sites signed"):
        secure.unmask()


def test_the_coordinator_takes_each_vector_once(group, vectors):
    secure = group.coordinator.start(b"bundle", 3)
    for me, message in secure.requests().items():
        sent = answer(group, me, message, vectors[me])
        secure.accept_masked(sent)
        secure.accept_masked(sent)
    secure.close()
    for me, message in secure.unmask().items():
        secure.accept_shares(group.sites[me].unmask(message))
    np.testing.assert_array_equal(secure.opened().values, ring_sum(vectors, EVERYBODY))


def test_answers_of_another_round_or_an_outsider_are_refused(group, vectors):
    first = masked_round(group, vectors)
    first.close()
    answers = {me: group.sites[me].unmask(m) for me, m in first.unmask().items()}
    second = masked_round(group, vectors, lost=[4])
    second.close()
    for message in answers.values():
        with pytest.raises(SiteRefused, match="BadMessage"):
            second.accept_shares(message)
    own = group.memories[4].outbox(group.coordinator.run_id, 2)
    with refuses("OldRound"):
        second.accept_masked(own.message)


def test_a_site_outside_the_epoch_is_not_heard(group):
    open_session(group, who=(0, 1, 2, 3))
    secure = group.coordinator.start(b"bundle", 3)
    body = Masked(np.zeros(3, "<u8"), secure.context, bytes(32)).to_bytes()
    with refuses("UnknownKey"):
        secure.accept_masked(from_site(group, 4, MessageKind.MASKED, body))


def test_a_site_outside_the_participants_is_not_added(group, vectors):
    secure = masked_round(group, vectors, participants=(0, 1, 2, 3))
    body = Masked(np.zeros(3, "<u8"), secure.context, bytes(32)).to_bytes()
    with refuses("BadSet"):
        secure.accept_masked(from_site(group, 4, MessageKind.MASKED, body))


@pytest.mark.parametrize("receivers", [(), (1, 2, 3), (0, 1, 2, 3, 4), (1, 2, 3, 9)])
def test_a_vector_comes_with_a_share_for_each_peer_and_nobody_else(group, receivers):
    secure = group.coordinator.start(b"bundle", 3)
    sealed = {receiver: bytes(112) for receiver in receivers}
    body = Masked(np.zeros(3, "<u8"), secure.context, bytes(32), sealed).to_bytes()
    with refuses("BadMessage"):
        secure.accept_masked(from_site(group, 0, MessageKind.MASKED, body))


def test_a_lost_site_neither_signs_nor_answers(group, vectors):
    secure = masked_round(group, vectors, lost=[4])
    secure.close()
    with refuses("BadSet"):
        secure.accept_signature(from_site(group, 4, MessageKind.SIGNED_SET, bytes(64)))
    with refuses("BadSet"):
        secure.accept_shares(from_site(group, 4, MessageKind.SHARES, Shares({}, {}).to_bytes()))


@pytest.mark.parametrize(
    ("shares", "seeds"),
    [((0, 1, 2), (4,)), ((0, 1, 2, 3, 4), (4,)), ((0, 1, 2, 3), ()), ((0, 1, 2, 3), (3, 4))],
)
def test_an_answer_covers_exactly_members_and_lost(group, vectors, shares, seeds):
    secure = masked_round(group, vectors, lost=[4])
    secure.close()
    answer = Shares({u: bytes(32) for u in shares}, {v: bytes(32) for v in seeds})
    with refuses("BadMessage"):
        secure.accept_shares(from_site(group, 0, MessageKind.SHARES, answer.to_bytes()))


def test_steps_out_of_order_say_what_to_do_first(group, vectors):
    unopened = consortium(3, opened=False)
    with pytest.raises(ParameterError, match="call open first"):
        unopened.coordinator.start(b"bundle", 3)
    secure = masked_round(group, vectors)
    with pytest.raises(ParameterError, match="call close first"):
        secure.unmask()
    for dim, who in ((0, None), (2**32 + 1, None), (3, (0, 1, 9))):
        with pytest.raises(ParameterError, match="cannot be summed"):
            group.coordinator.start(b"bundle", dim, who)
    with pytest.raises(ParameterError, match="compare roster and study"):
        Coordinator(group.identities[0], group.roster, group.parameters, STUDY)
