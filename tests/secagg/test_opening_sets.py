"""Which sets may be opened: one a round, large enough, signed by its own members."""

import pytest

from hedgerow.secagg import client
from hedgerow.secagg.encoding import digest, members_field
from hedgerow.secagg.envelope import Envelope, MessageKind
from hedgerow.secagg.messages import Masked, Round, Shares, Unmask
from hedgerow.secagg.opening import set_digest
from hedgerow.secagg.parameters import Parameters
from hedgerow.secagg.session import KeySession
from support.secagg_dry_run import (
    answer,
    consortium,
    masked_round,
    refuses,
    some_vectors,
)

PARTIES, THRESHOLD = 5, 3
EVERYBODY = tuple(range(PARTIES))
THREE = (0, 1, 2)


@pytest.fixture
def group():
    return consortium(PARTIES, Parameters(n_sites=PARTIES, colluders=1, threshold=THRESHOLD))


@pytest.fixture
def vectors():
    return some_vectors(PARTIES)


@pytest.fixture
def masked(group, vectors):
    """A round in which everybody's vector was made; gives site -> MASKED body."""
    masked_round(group, vectors)
    records = [memory.outbox(group.coordinator.run_id, 1) for memory in group.memories]
    return [Masked.read(Envelope.parse(record.message).body, 3) for record in records]


def context(group):
    return group.memories[0].outbox(group.coordinator.run_id, 1).context


def certificate(group, members, signers):
    signed = set_digest(context(group), members)
    return {signer: group.identities[signer].sign(signed) for signer in signers}


def unmask_message(group, masked, me, members, signatures, **changed):
    sealed = {peer: masked[peer].sealed_shares[me] for peer in members if peer != me}
    return group.forge(
        MessageKind.UNMASK, Unmask(members, signatures, sealed).to_bytes(), **changed
    )


def survivors_message(group, members):
    return group.forge(MessageKind.SURVIVORS, members_field(members))


def test_a_certified_set_is_opened(group, masked):
    good = certificate(group, THREE, THREE)
    group.sites[0].unmask(unmask_message(group, masked, 0, THREE, good))


def test_a_smaller_set_without_certificate_is_refused(group, masked):
    with refuses("BadCertificate"):
        group.sites[0].unmask(unmask_message(group, masked, 0, THREE, {}))


@pytest.mark.parametrize(
    ("members", "signers"),
    [
        (THREE, (0, 1)),  # one too few
        ((0, 1, 2, 3), (0, 1)),
        (THREE, (0, 1, 3)),  # a non-member
        (THREE, (0, 1, 2, 4)),
    ],
)
def test_a_certificate_with_too_few_or_foreign_signers_is_refused(group, masked, members, signers):
    signatures = certificate(group, members, signers)
    with refuses("BadCertificate"):
        group.sites[0].unmask(unmask_message(group, masked, 0, members, signatures))


def test_a_certificate_with_one_signer_twice_is_refused(group, masked):
    once = certificate(group, THREE, (1, 2))
    body = unmask_message(group, masked, 0, THREE, once)
    with refuses("BadCertificate"):
        group.sites[0].unmask(body)
    with refuses("BadCertificate"):  # one signature under two names
        group.sites[0].unmask(unmask_message(group, masked, 0, THREE, once | {0: once[1]}))
    doubled = Unmask(THREE, once, {p: masked[p].sealed_shares[0] for p in (1, 2)}).to_bytes()
    start = 2 + 2 * len(THREE)
    row = doubled[start + 2 : start + 2 + 66]
    doubled = doubled[:start] + bytes([0, 3]) + row + doubled[start + 2 :]
    with refuses("BadMessage"):  # one row twice
        group.sites[0].unmask(group.forge(MessageKind.UNMASK, doubled))


def test_signatures_on_another_set_or_another_round_certify_nothing(group, masked, vectors):
    other_set = certificate(group, (0, 1, 2, 3), THREE)
    with refuses("BadCertificate"):
        group.sites[0].unmask(unmask_message(group, masked, 0, THREE, other_set))
    good = certificate(group, THREE, THREE)
    masked_round(group, vectors)
    with refuses("BadCertificate"):
        group.sites[0].unmask(unmask_message(group, masked, 0, THREE, good, round=2))


def test_a_certificate_of_one_less_would_open_a_set_if_nobody_counted(monkeypatch):
    """The negative control: without the count two sites' signatures open a set of three."""
    monkeypatch.setattr(client, "check_certificate", lambda *arguments: None)
    group = consortium(PARTIES, Parameters(n_sites=PARTIES, colluders=1, threshold=THRESHOLD))
    masked_round(group, some_vectors(PARTIES))
    records = [memory.outbox(group.coordinator.run_id, 1) for memory in group.memories]
    bodies = [Masked.read(Envelope.parse(record.message).body, 3) for record in records]
    short = certificate(group, THREE, (0, 1))
    group.sites[0].unmask(unmask_message(group, bodies, 0, THREE, short))


def test_a_needless_certificate_is_refused(group, masked):
    needless = certificate(group, EVERYBODY, EVERYBODY)
    with refuses("BadCertificate"):
        group.sites[0].unmask(unmask_message(group, masked, 0, EVERYBODY, needless))


def test_a_second_set_is_refused_whichever_way_it_comes(group, masked):
    other = (0, 1, 3)
    group.sites[0].sign_set(survivors_message(group, THREE))
    for second in (other, (0, 1, 2, 3), EVERYBODY):
        with refuses("SecondSet"):
            group.sites[0].sign_set(survivors_message(group, second))
    with refuses("SecondSet"):
        group.sites[0].unmask(unmask_message(group, masked, 0, EVERYBODY, {}))
    with refuses("SecondSet"):
        good = certificate(group, other, other)
        group.sites[0].unmask(unmask_message(group, masked, 0, other, good))


def test_a_site_that_opened_everybody_signs_no_smaller_set(group, masked):
    group.sites[0].unmask(unmask_message(group, masked, 0, EVERYBODY, {}))
    with refuses("SecondSet"):
        group.sites[0].sign_set(survivors_message(group, THREE))


@pytest.mark.parametrize(
    ("members", "code"),
    [((0, 1), "TooFew"), ((1, 2, 3), "BadSet"), ((0, 1, 2, 7), "BadSet"), ((), "TooFew")],
)
def test_sets_that_are_small_or_foreign_are_refused(group, masked, members, code):
    with refuses(code):
        group.sites[0].sign_set(survivors_message(group, members))
    with refuses(code):
        body = Unmask(members, {}, {}).to_bytes()
        group.sites[0].unmask(group.forge(MessageKind.UNMASK, body))


@pytest.mark.parametrize(
    ("participants", "code"),
    [((0, 1), "TooFew"), ((1, 2, 3), "BadSet"), ((0, 1, 2, 9), "BadSet")],
)
def test_participant_lists_that_are_small_or_foreign_are_refused(group, participants, code):
    body = Round(b"bundle", participants).to_bytes()
    with refuses(code):
        group.sites[0].begin(group.forge(MessageKind.ROUND, body))


def test_sites_told_different_participants_do_not_open_each_other_s_shares(group, vectors):
    views = {0: (0, 1, 2), 1: (0, 1, 2), 2: (0, 2, 3), 3: (0, 2, 3)}
    sealed = {}
    for me, view in views.items():
        body = Round(b"bundle", view).to_bytes()
        request = group.forge(MessageKind.ROUND, body, receiver=me)
        body = Envelope.parse(answer(group, me, request, vectors[me])).body
        sealed[me] = Masked.read(body, 3).sealed_shares
    asked = Unmask((0, 1, 2), {}, {1: sealed[1][0], 2: sealed[2][0]})
    given = group.sites[0].unmask(group.forge(MessageKind.UNMASK, asked.to_bytes()))
    assert complaints(given) == {2}


def complaints(message):
    """Whose shares did not open; no share of theirs is given."""
    answer = Shares.read(Envelope.parse(message).body)
    assert not set(answer.shares) & set(answer.complaints)
    return set(answer.complaints)


def test_one_context_for_all_views_would_open_them(vectors, monkeypatch):
    """The negative control: if the participants were not bound, the shares would open."""
    monkeypatch.setattr(
        KeySession, "context", lambda self, round, request, who: digest("ctx", self.id)
    )
    group = consortium(PARTIES, Parameters(n_sites=PARTIES, colluders=1, threshold=THRESHOLD))
    test = test_sites_told_different_participants_do_not_open_each_other_s_shares
    with pytest.raises(AssertionError):
        test(group, vectors)


def test_a_missing_or_a_foreign_share_is_refused(group, masked):
    good = {peer: masked[peer].sealed_shares[0] for peer in EVERYBODY[1:]}
    missing = {peer: share for peer, share in good.items() if peer != 4}
    swapped = good | {1: good[2], 2: good[1]}
    with refuses("BadShare"):
        body = Unmask(EVERYBODY, {}, missing).to_bytes()
        group.sites[0].unmask(group.forge(MessageKind.UNMASK, body))
    other = masked[2].sealed_shares[1]  # sealed for site 1
    for bad, culprits in (
        (good | {2: other}, {2}),
        (good | {2: bytes(112)}, {2}),
        (swapped, {1, 2}),
    ):
        body = Unmask(EVERYBODY, {}, bad).to_bytes()
        given = group.sites[0].unmask(group.forge(MessageKind.UNMASK, body))
        assert complaints(given) == culprits


def test_shares_of_another_round_are_refused(group, masked, vectors):
    masked_round(group, vectors)  # round 2; round 1 was never opened
    given = group.sites[0].unmask(unmask_message(group, masked, 0, EVERYBODY, {}, round=2))
    assert complaints(given) == set(EVERYBODY[1:])
