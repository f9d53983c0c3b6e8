"""The coordinator believes no site: what it takes, what it refuses, whom it names."""

from dataclasses import replace

import numpy as np
import pytest

from hedgerow.errors import ParameterError, RoundFailed, SiteRefused
from hedgerow.secagg import client, membership, shamir
from hedgerow.secagg.envelope import Envelope, MessageKind
from hedgerow.secagg.graph import Parameters
from hedgerow.secagg.messages import Masked, Shares
from hedgerow.secagg.opening import BadShares
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


def test_a_wrong_share_in_an_answer_is_noticed(group, vectors):
    secure = masked_round(group, vectors)
    secure.close()
    for me, message in secure.unmask().items():
        secure.accept_shares(group.sites[me].unmask(message))
    honest = secure._answers[0]
    wrong = shamir.to_bytes((shamir.from_bytes(honest.shares[2]) + 1) % shamir.PRIME)
    secure._answers[0] = Shares(honest.shares | {2: wrong}, honest.seeds)
    with pytest.raises(BadShares) as failure:
        secure.opened()
    assert failure.value.sites == (2,)
    secure._answers[0] = honest  # the site answers again, rightly this time
    np.testing.assert_array_equal(secure.opened().values, ring_sum(vectors, EVERYBODY))


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
    sealed = {receiver: bytes(48) for receiver in receivers}
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
