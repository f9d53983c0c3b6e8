"""Ledgers that went back: somebody else remembers, and the site stops."""

from contextlib import nullcontext
from dataclasses import replace

import pytest

from hedgerow.errors import SiteRefused
from hedgerow.secagg.encoding import Reader, messages_field
from hedgerow.secagg.envelope import (
    EMPTY_LEDGER,
    Envelope,
    Header,
    LedgerHead,
    MessageKind,
    SignedHead,
    SignedHeader,
    follows,
    seal_message,
)
from hedgerow.secagg.keys import COORDINATOR
from hedgerow.secagg.membership import Heads
from hedgerow.secagg.memory import MemoryInRam
from hedgerow.secagg.messages import Keys, Round
from support.secagg_dry_run import (
    STUDY,
    answer,
    consortium,
    head,
    headers,
    keys_of,
    masked_round,
    next_coordinator,
    open_session,
    refuses,
    restarted,
    secure_sum,
    some_vectors,
)


@pytest.fixture
def group():
    return consortium(4)


@pytest.fixture
def vectors():
    return some_vectors(4)


def test_a_site_stops_when_the_coordinator_holds_a_head_ahead_of_its_file(group, vectors):
    masked_round(group, vectors)
    older = MemoryInRam()  # restored from before the charge
    restarted(group, 0, older)
    group.memories[0] = older
    with refuses("LedgerRolledBack"):  # JOIN shows it its own future
        open_session(group)
    forged = group.forge(MessageKind.ROUND, b"", ledger=group.coordinator.heads[0])
    with refuses("LedgerRolledBack"):
        group.sites[0].begin(forged)


def test_the_coordinator_refuses_keys_with_a_head_behind_the_one_it_holds(group, vectors):
    masked_round(group, vectors)
    held = dict(group.coordinator.heads)
    restarted(group, 0, MemoryInRam())
    group.coordinator.heads.clear()  # so that the message does not stop the site
    keys = keys_of(group, {me: EMPTY_LEDGER if me == 0 else head(me, 1) for me in range(4)})
    group.coordinator.heads = held
    with pytest.raises(SiteRefused, match="LedgerRolledBack") as refusal:
        group.coordinator.open(keys)
    assert refusal.value.site == 0


def test_a_site_stops_when_a_peer_has_seen_a_head_ahead_of_its_file(group, vectors):
    masked_round(group, vectors)
    open_session(group)  # peers now hold head 1 of everybody
    group.memories[0] = MemoryInRam()
    site = restarted(group, 0)
    forgetful = next_coordinator(group, {})
    keys = keys_of(group, {0: EMPTY_LEDGER} | {m: head(m, 1) for m in (1, 2, 3)}, forgetful)
    messages = forgetful.open(keys)
    forgetful.heads[0] = EMPTY_LEDGER
    with refuses("LedgerRolledBack"):
        site.open(messages[0])
    with refuses("LedgerRolledBack"):  # and its peers do not work with it either
        group.sites[1].open(messages[1])


def test_two_heads_with_one_number_are_refused_by_coordinator_and_peers(group, vectors):
    masked_round(group, vectors)
    open_session(group)
    forked = LedgerHead(1, bytes([7]) * 32, "1/100")
    ledgers = {0: forked} | {me: head(me, 1) for me in (1, 2, 3)}
    keys = keys_of(group, ledgers)
    with pytest.raises(SiteRefused, match="LedgerRolledBack") as refusal:
        group.coordinator.open(keys)
    assert refusal.value.site == 0
    forgetful = next_coordinator(group, {})
    messages = forgetful.open(keys_of(group, ledgers, forgetful))
    with refuses("LedgerForked"):
        group.sites[1].open(messages[1])


# ------------------------------------------------------------- a ledger that forked ends a site
def forked_at(group, me, knowing):
    """Site `me` runs twice: `knowing` has met a head of either copy, others of one alone."""
    first, second = (seal_head(group.identities[me], (7, bytes([copy]) * 32)) for copy in (1, 2))
    group.memories[knowing].see_fork(group.roster.sites[me], first.to_bytes() + second.to_bytes())


def told_of_forks(group, teller, forks):
    """KEYS of everybody, where `teller` shows these; as OPEN, by site."""
    keys = keys_of(group)
    honest = Keys.read(Envelope.parse(keys[teller]).body)
    header = Envelope.parse(keys[teller]).header
    body = replace(honest, forks=forks).to_bytes()
    keys[teller] = seal_message(group.identities[teller], header, body)
    return keys


def evidence(group, me, signer):
    heads = (seal_head(group.identities[signer], (7, bytes([copy]) * 32)) for copy in (1, 2))
    return b"".join(head.to_bytes() for head in heads)


def test_a_fork_that_one_site_has_seen_ends_the_identity_for_all_and_for_good(group):
    forked_at(group, 3, knowing=1)
    messages = group.coordinator.join()
    keys = [group.sites[me].join(m, lambda: EMPTY_LEDGER) for me, m in messages.items()]
    with pytest.raises(SiteRefused, match="LedgerForked") as refusal:
        group.coordinator.open(keys)
    assert refusal.value.site == 3  # the forked site is named, not the one that told of it
    blind = told_of_forks(group, 1, {3: evidence(group, 3, 3)})
    with refuses("LedgerForked"):
        open_blindly(group, blind, 2)
    assert group.memories[2].fork(group.roster.sites[3]) is not None
    with refuses("LedgerForked"):  # nobody shows it this time
        open_blindly(group, keys_of(group), 2)


def open_blindly(group, keys, me):
    """The OPEN of a coordinator that looks away."""
    hub = group.coordinator
    hub._form(hub._joining(keys))
    body = messages_field(hub.keys)
    return group.sites[me].open(hub.message(MessageKind.OPEN, me, 0, body))


@pytest.mark.parametrize("kind", ["another site's", "the same head twice", "of two lengths"])
def test_what_is_no_fork_ends_nobody(group, kind):
    one = seal_head(group.identities[3], (7, bytes([1]) * 32))
    two = seal_head(group.identities[3], (8, bytes([2]) * 32))
    shown = {
        "another site's": evidence(group, 3, signer=1),
        "the same head twice": 2 * one.to_bytes(),
        "of two lengths": one.to_bytes() + two.to_bytes(),
    }[kind]
    open_blindly(group, told_of_forks(group, 1, {3: shown}), 2)
    assert group.memories[2].fork(group.roster.sites[3]) is None


def test_forks_believed_without_signatures_would_let_anybody_end_a_site(group, monkeypatch):
    """The negative control."""
    monkeypatch.setattr(SignedHead, "is_by", lambda self, site: True)
    with refuses("LedgerForked"):
        open_blindly(group, told_of_forks(group, 1, {3: evidence(group, 3, signer=1)}), 2)


# ------------------------------------------------------- heads carried to peers in every round
def request_of(group, number, receipts):
    body = Round(b"bundle", (0, 1, 2, 3), receipts=receipts).to_bytes()
    return group.forge(MessageKind.ROUND, body, round=number)


def answered(group, number, receipts, vectors):
    for me in range(4):
        body = Round(b"bundle", (0, 1, 2, 3), receipts=receipts).to_bytes()
        message = group.forge(MessageKind.ROUND, body, round=number, receiver=me)
        answer(group, me, message, vectors[me])


def test_a_coordinator_that_withholds_heads_gets_no_more_than_two_rounds(group, vectors):
    assert group.parameters.reach == 2
    answered(group, 1, (), vectors)
    answered(group, 2, (), vectors)
    with refuses("Stale"):
        group.sites[0].begin(request_of(group, 3, ()))
    shown = headers(group, 2)
    with refuses("Stale"):  # all but one, and an old one
        group.sites[0].begin(request_of(group, 3, (*shown[:3], headers(group, 1)[3])[:3]))
    answered(group, 3, shown, vectors)


def test_headers_are_believed_by_their_signatures_and_places(group, vectors):
    answered(group, 1, (), vectors)
    good = headers(group, 1)
    other = consortium(4)
    answered(other, 1, (), vectors)
    for bad in (good[1][:-1] + bytes([good[1][-1] ^ 1]), headers(other, 1)[1], good[1] + b"x"):
        with pytest.raises(SiteRefused):
            group.sites[0].begin(request_of(group, 2, (good[0], bad, *good[2:])))
    with refuses("BadMessage"):
        group.sites[0].begin(request_of(group, 2, 3 * good))  # twelve


def test_round_numbers_that_jump_make_no_head_fresh(group, vectors):
    answered(group, 1, (), vectors)
    with refuses("Stale"):
        group.sites[0].begin(request_of(group, 9, headers(group, 1)))


@pytest.mark.parametrize("n_sites", [3, 8, 9, 20])
def test_an_honest_coordinator_shows_enough_in_turn(n_sites):
    group, vectors = consortium(n_sites), some_vectors(n_sites)
    start = group.coordinator.attempt
    for _ in range(2 * group.parameters.reach + 3):
        secure_sum(group, vectors)
    assert group.coordinator.attempt == start


def test_the_coordinator_refuses_two_heads_with_one_number_in_a_round(group, vectors):
    secure = masked_round(group, vectors)
    again = group.coordinator.start(b"next", 3)
    fresh = group.sites[0].begin(again.requests()[0])
    record = group.sites[0].mask(fresh, vectors[0], LedgerHead(1, bytes([7]) * 32, "1/100"))
    with refuses("LedgerRolledBack"):
        again.accept_masked(record.message)
    assert secure.round != again.round


def test_the_coordinator_keeps_what_each_site_says_the_study_has_cost(group, vectors):
    for _ in range(2):
        secure_sum(group, vectors)
    assert {me: kept.spent for me, kept in group.coordinator.heads.items()} == {
        me: "2/100" for me in range(4)
    }


def told_a_false_head(group, false):
    """Site 1, which is corrupt, says in its KEYS how far site 0 had come; site 0 gets the OPEN."""
    keys = keys_of(group)
    honest = Keys.read(Envelope.parse(keys[1]).body)
    header = Envelope.parse(keys[1]).header
    lie = replace(honest, heads=honest.heads | {0: false}).to_bytes()
    keys[1] = seal_message(group.identities[1], header, lie)
    return group.coordinator.open(keys)[0]


FAR = (2**63 - 1, bytes([7]) * 32)


def false_heads(group):
    by_itself = seal_head(group.identities[1], FAR)
    as_coordinator = Envelope.parse(group.coordinator.message(MessageKind.ROUND, 0, 1, b""))
    return [by_itself, SignedHead(FAR, bytes(32), bytes(64)), as_coordinator.receipt.signed_head]


def seal_head(identity, head):
    """A head that `identity` claims as its own, in some message of some study."""
    ledger = LedgerHead(*head, "1/1")
    header = replace(SOME_HEADER, ledger=ledger)
    return Envelope.parse(seal_message(identity, header, b"")).receipt.signed_head


SOME_HEADER = Header(
    kind=MessageKind.KEYS,
    study_hash=bytes(32),
    run_id=bytes(16),
    session_id=bytes(32),
    round=0,
    sender=3,
    receiver=COORDINATOR,
    ledger=EMPTY_LEDGER,
)


@pytest.mark.parametrize("which", [0, 1, 2], ids=["its own", "unsigned", "the coordinator's"])
def test_a_false_head_told_by_a_peer_stops_nobody(group, which):
    group.coordinator.heads[0] = head(0, 5)  # what a lying coordinator claims to hold
    false = false_heads(group)[which]
    group.coordinator.heads.clear()
    group.sites[0].open(told_a_false_head(group, false))


def test_a_true_head_told_by_a_peer_stops_a_site_that_went_back(group):
    true = seal_head(group.identities[0], FAR)
    with refuses("LedgerRolledBack"):
        group.sites[0].open(told_a_false_head(group, true))


def test_heads_that_need_no_signature_would_let_anybody_stop_a_site(group, monkeypatch):
    """The negative control."""
    monkeypatch.setattr(SignedHead, "is_by", lambda self, site: True)
    with refuses("LedgerRolledBack"):
        group.sites[0].open(told_a_false_head(group, SignedHead(FAR, bytes(32), bytes(64))))


def test_a_told_head_hides_the_study_in_which_it_was_said(group, vectors):
    masked_round(group, vectors)
    open_session(group)
    told = group.memories[1].receipt(group.roster.sites[0]).signed_head
    assert told.is_by(group.roster.sites[0])
    assert STUDY not in told.to_bytes()
    assert group.coordinator.run_id not in told.to_bytes()
    assert SignedHead.read(told.to_bytes()) == told


@pytest.mark.parametrize("field", ["seq", "round"])
def test_a_count_of_more_than_63_bits_is_refused_on_reading(field):
    """A database could not hold it: one such number stopped every study of a store."""
    for number, code in ((2**63 - 1, None), (2**63, "BadMessage"), (2**64 - 1, "BadMessage")):
        ledger = LedgerHead(number, bytes([7]) * 32, "1/1") if field == "seq" else EMPTY_LEDGER
        round = number if field == "round" else 0
        message = replace(SOME_HEADER, ledger=ledger, round=round).to_bytes()
        with refuses(code) if code else nullcontext():
            Header.read(Reader(message))


def test_a_receipt_is_a_signed_header_without_its_body(group, vectors):
    secure = masked_round(group, vectors)
    receipt = SignedHeader.read(secure.receipts[2][1])
    receipt.verify(group.roster.sites[2])
    assert receipt.header.ledger == head(2, 1)
    cheaper = replace(receipt.header, ledger=replace(head(2, 1), spent="0/1"))
    for changed in (replace(receipt, header=cheaper), replace(receipt, body_hash=bytes(32))):
        with refuses("BadSignature"):
            changed.verify(group.roster.sites[2])
    with refuses("BadSignature"):
        receipt.verify(group.roster.sites[1])


def test_a_chain_only_grows():
    assert follows((2, b"b"), (1, b"a"))
    assert follows((1, b"a"), (1, b"a"))
    assert not follows((1, b"b"), (1, b"a"))
    assert not follows((1, b"a"), (2, b"b"))


def test_a_site_that_does_not_look_at_its_head_would_go_on(vectors, monkeypatch):
    """The negative control: without the check a restored site charges forgotten rounds again."""

    monkeypatch.setattr(Heads, "meet", lambda self, head: None)
    group = consortium(4)
    masked_round(group, vectors)
    request = group.coordinator.start(b"next", 3).requests()[0]
    group.sites[0]._memory = MemoryInRam()
    group.sites[0]._memory.open_run(group.coordinator.run_id)
    group.sites[0].begin(request)


def test_a_coordinator_s_signature_is_no_site_s(group):
    """One institution may be both; heads that it writes to others are not claims of its own."""
    both = group.identities[0]
    message = replace(SOME_HEADER, sender=COORDINATOR, ledger=LedgerHead(*FAR, "1/1"))
    signed = Envelope.parse(seal_message(both, message, b"")).receipt.signed_head
    assert not signed.is_by(both.public)
    assert seal_head(both, FAR).is_by(both.public)
