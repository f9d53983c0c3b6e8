"""Ledgers that went back: somebody else remembers, and the site stops."""

import sys
from pathlib import Path

import pytest

from hedgerow.errors import PartyRefused
from hedgerow.secagg.coordinator import Coordinator
from hedgerow.secagg.envelope import EMPTY_LEDGER, LedgerHead, MessageKind, follows
from hedgerow.secagg.site import MemoryInRam, Site

sys.path.insert(0, str(Path(__file__).parents[1] / "vectors"))
from secagg_rehearsal import (
    STUDY,
    consortium,
    head,
    masked_round,
    open_epoch,
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
    with pytest.raises(PartyRefused, match="LedgerRolledBack") as refusal:
        open_epoch(group)
    assert refusal.value.party == 0  # the coordinator sees it first, in KEYS
    forged = group.forge(MessageKind.ROUND, b"", ledger=group.coordinator.heads[0])
    with refuses("LedgerRolledBack"):
        group.sites[0].begin(forged)


def test_a_site_stops_when_a_peer_has_seen_a_head_ahead_of_its_file(group, vectors):
    masked_round(group, vectors)
    open_epoch(group)  # peers now hold head 1 of everybody
    group.memories[0] = MemoryInRam()
    site = restarted(group, 0)
    forgetful = Coordinator(group.identities[-1], group.roster, group.parameters, STUDY)
    keys = [site.keys(EMPTY_LEDGER)] + [group.sites[me].keys(head(me, 1)) for me in (1, 2, 3)]
    messages = forgetful.open(keys)
    forgetful.heads[0] = EMPTY_LEDGER
    with refuses("LedgerRolledBack"):
        site.open(messages[0])
    with refuses("LedgerRolledBack"):  # and its peers do not work with it either
        group.sites[1].open(messages[1])


def test_two_heads_with_one_number_are_refused_by_coordinator_and_peers(group, vectors):
    masked_round(group, vectors)
    open_epoch(group)
    forked = LedgerHead(1, bytes([7]) * 32, "1/100")
    keys = [group.sites[0].keys(forked)] + [group.sites[me].keys(head(me, 1)) for me in (1, 2, 3)]
    with pytest.raises(PartyRefused, match="LedgerRolledBack") as refusal:
        group.coordinator.open(keys)
    assert refusal.value.party == 0
    forgetful = Coordinator(group.identities[-1], group.roster, group.parameters, STUDY)
    messages = forgetful.open(keys)
    with refuses("LedgerRolledBack"):
        group.sites[1].open(messages[1])


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


def test_a_chain_only_grows():
    assert follows((2, b"b"), (1, b"a"))
    assert follows((1, b"a"), (1, b"a"))
    assert not follows((1, b"b"), (1, b"a"))
    assert not follows((1, b"a"), (2, b"b"))


def test_a_site_that_does_not_look_at_its_head_would_go_on(vectors):
    """The twin: without the check a restored site charges its forgotten rounds again."""

    class Blind(Site):
        def _check_own_head(self, seq, head):
            pass

    group = consortium(4, site_class=Blind)
    masked_round(group, vectors)
    request = group.coordinator.start(b"next", 3).requests()[0]
    group.sites[0]._memory = MemoryInRam()
    group.sites[0]._memory.open_run(group.coordinator.run_id)
    group.sites[0].begin(request)
