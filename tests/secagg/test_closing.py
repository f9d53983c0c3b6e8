"""The end of a run: a site's last word, what it lists, and the root over all rounds."""

from dataclasses import replace

import pytest

from hedgerow.errors import SiteRefused
from hedgerow.secagg.closing import LastWord, Release, round_leaf, tree_root
from hedgerow.secagg.encoding import digest, u64
from hedgerow.secagg.envelope import (
    NO_SESSION,
    Envelope,
    MessageKind,
    message_digest,
    open_shown,
    redact,
    seal_message,
)
from hedgerow.secagg.messages import Mode
from hedgerow.secagg.parameters import Parameters
from support.secagg_dry_run import (
    STUDY,
    answer,
    consortium,
    refuses,
    restarted,
    secure_sum,
    some_vectors,
)

ROOT = bytes([7]) * 32


@pytest.fixture
def group():
    made = consortium(4, Parameters(n_sites=4, colluders=1, threshold=3))
    secure_sum(made, some_vectors(4), lost_before=[3])
    secure_sum(made, some_vectors(4))
    return made


def said_by(group, me, root=ROOT):
    return group.sites[me].close(group.coordinator.close(root, 2)[me])


def test_a_last_word_lists_all_that_left_in_order_and_what_it_cost(group):
    message = said_by(group, 0)
    assert group.coordinator.accept_closed(message, ROOT) == 0
    envelope = Envelope.parse(message)
    said = LastWord.read(envelope.body)
    kinds = [(one.round, one.kind.name) for one in said.releases]
    assert kinds == [(1, "MASKED"), (1, "SIGNED_SET"), (1, "SHARES"), (2, "MASKED"), (2, "SHARES")]
    stored = group.memories[0].outbox(group.coordinator.run_id, 2).message
    assert said.releases[3].digest == message_digest(stored)
    assert (said.root, said.rounds, envelope.header.ledger.spent) == (ROOT, 2, "2/100")
    assert [
        one.round for one in LastWord.read(Envelope.parse(said_by(group, 3)).body).releases
    ] == [
        1,  # its vector was lost on the way, and had left all the same
        2,
        2,
    ]


def test_a_last_word_is_said_once_and_sent_as_often_as_it_is_asked_for(group):
    first = said_by(group, 0)
    assert said_by(group, 0) == first
    assert restarted(group, 0).close(group.coordinator.close(ROOT, 2)[0]) == first
    with refuses("StudyClosed"):
        said_by(group, 0, root=bytes(32))


def test_after_it_no_other_message_is_answered(group):
    secure = group.coordinator.start(b"bundle", 3)
    messages = secure.requests()
    said_by(group, 0)
    with refuses("StudyClosed"):
        group.sites[0].begin(messages[0])
    with refuses("StudyClosed"):
        group.sites[0].join(group.coordinator.join()[0], lambda: None)
    answer(group, 1, messages[1], some_vectors(4)[1])  # a control: one that has not closed


def test_a_run_that_is_not_open_is_not_closed(group):
    body = ROOT + u64(2)
    for changed in ({"run_id": bytes(16)}, {"round": 1, "session_id": NO_SESSION}):
        message = {"round": 0, "session_id": NO_SESSION} | changed
        with pytest.raises(SiteRefused):
            group.sites[0].close(group.forge(MessageKind.CLOSE, body, **message))
    assert group.memories[0].last_word() is None


def resaid(group, change, signer=0):
    """A CLOSED with another content, whose Ed25519 signature is right."""
    envelope = Envelope.parse(said_by(group, 0))
    body = change(LastWord.read(envelope.body))
    return seal_message(group.identities[signer], envelope.header, body.to_bytes())


CHANGES = {
    "root": lambda said: replace(said, root=bytes(32)),
    "rounds": lambda said: replace(said, rounds=1),
    "releases cut short": lambda said: replace(said, releases=said.releases[:-1]),
    "another digest": lambda said: replace(
        said, releases=(Release(1, MessageKind.MASKED, bytes(32)), *said.releases[1:])
    ),
    "no key": lambda said: replace(said, key=b""),
    "a flipped signature": lambda said: replace(said, signature=bytes(3309)),
}


@pytest.mark.parametrize("name", CHANGES)
def test_a_last_word_must_be_signed_to_last(group, name):
    with pytest.raises(SiteRefused):
        group.coordinator.accept_closed(resaid(group, CHANGES[name]), ROOT)


def test_another_key_s_lasting_signature_is_not_believed(group):
    """Whoever forged Ed25519 signatures one day would still lack the key that the roster names."""
    other = group.identities[1]
    envelope = Envelope.parse(said_by(group, 0))
    body = LastWord.read(envelope.body).by(other, envelope.header)
    message = seal_message(group.identities[0], envelope.header, body.to_bytes())
    with refuses("BadSignature"):
        group.coordinator.accept_closed(message, ROOT)


def test_a_last_word_of_another_root_is_not_taken(group):
    message = said_by(group, 0)
    with refuses("BadMessage"):
        group.coordinator.accept_closed(message, bytes(32))


# ----------------------------------------------------------------------------- what may be shown
def test_a_shown_message_is_signed_and_tells_nothing_of_the_ledger(group):
    message = group.memories[0].outbox(group.coordinator.run_id, 2).message
    whole = Envelope.parse(message)
    seq, head = whole.header.ledger.position
    data = redact(message)
    assert head not in data
    assert len(data) == len(message) - 8
    envelope = open_shown(data, STUDY, group.roster)
    assert bytes(envelope.body) == bytes(whole.body)
    assert (envelope.header.sender, envelope.header.ledger.seq) == (0, 0)
    assert seq > 0
    for place in range(0, len(data), 97):
        damaged = bytearray(data)
        damaged[place] ^= 1
        with pytest.raises(SiteRefused):
            open_shown(bytes(damaged), STUDY, group.roster)


def test_the_root_is_over_every_round_and_every_message_of_it():
    messages = [(0, MessageKind.MASKED, b"a" * 32), (1, MessageKind.MASKED, b"b" * 32)]
    right = 1, (False, Mode.AT_ONCE), (b"q", b"d"), (0, 1)
    leaf = round_leaf(*right, messages)
    assert leaf == round_leaf(*right, reversed(messages))
    wrong = 2, (True, Mode.AT_ONCE), (b"q", b"e"), (0, 2)
    others = {round_leaf(*right[:k], wrong[k], *right[k + 1 :], messages) for k in range(4)}
    others |= {
        round_leaf(*right, messages[:1]),
        round_leaf(1, (False, Mode.IN_TWO), *right[2:], messages),
    }
    assert len(others - {leaf}) == 6
    leaves = [bytes([k + 1]) * 32 for k in range(5)]
    roots = {tree_root(leaves[:count]) for count in range(6)}
    assert len(roots) == 6
    assert tree_root(leaves[:1]) == leaves[0]
    assert tree_root(leaves[:3]) == digest("node", digest("node", *leaves[:2]), leaves[2])
