"""A whole run over sites that keep their ledgers and answers in files of their own."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from hedgerow.errors import PartyRefused
from hedgerow.federation.client import REFUSED
from hedgerow.federation.server import Server
from hedgerow.methods.blocks.flow import run
from hedgerow.methods.gubler import HistogramTree
from hedgerow.privacy.accounting.budget import Measure, Placement
from hedgerow.privacy.ledger.charges import ENTRY_ID, MemoryLedger
from hedgerow.privacy.ledger.events import Charged
from hedgerow.privacy.queries import ClassCounts, SumQuery, Whole
from hedgerow.schema.regions import EVERYONE
from support.vaults import DurableLink
from support.worlds import TWO, holders, sample, study

PARTIES = 3
GAUSSIAN = study(TWO, PARTIES, delta="1e-6")
COUNTS = SumQuery(EVERYONE, ClassCounts(2), Whole(), Fraction(1, 10))
TOLD = study(TWO, PARTIES, Placement.LABEL, epsilon="2")


def opened(tmp_path, caps=None, the_study=GAUSSIAN):
    X, y = sample(150, TWO)
    link = DurableLink(
        the_study,
        holders(X, y, np.arange(150) % PARTIES, PARTIES, TWO),
        tmp_path,
        caps,
    )
    return Server(the_study, link, MemoryLedger(the_study.limit)), link


def finish(flow, federation, replies):
    try:
        while True:
            replies = federation.ask(flow.send(replies))
    except StopIteration as stop:
        return stop.value


def grow(federation):
    recipe = HistogramTree(max_depth=2)
    return run(recipe.flow(TWO, federation, np.random.default_rng(0)), federation)


def test_every_sites_file_says_what_the_coordinator_says(tmp_path):
    federation, link = opened(tmp_path)
    grow(federation)
    account = federation.study.account
    spent = federation.ledger.spent(account)
    assert federation.study.measure is Measure.GDP
    for vault in link.vaults:
        vault.ledger.verify()
        assert vault.ledger.spent(account) == spent
    receipts = {Fraction(head.spent) for head in link.coordinator.heads.values()}
    assert receipts == {spent}


def test_sites_that_restart_in_the_middle_join_again_and_forget_nothing(tmp_path):
    federation, link = opened(tmp_path)
    flow = HistogramTree(max_depth=2).flow(TWO, federation, np.random.default_rng(0))
    asked = flow.send(None)
    replies = federation.ask(asked)
    link.restart()
    trained = finish(flow, federation, replies)
    assert trained.model.score.trees
    account = federation.study.account
    assert {v.ledger.spent(account) for v in link.vaults} == {federation.ledger.spent(account)}


def test_a_site_with_a_smaller_cap_stops_the_run_and_keeps_its_promise(tmp_path):
    the_study = study(TWO, PARTIES, delta="1e-6")
    caps = [the_study.total, the_study.total, the_study.total / 3]
    federation, link = opened(tmp_path, caps)
    with pytest.raises(PartyRefused, match="BudgetRefused"):
        grow(federation)
    assert link.vaults[2].ledger.spent(the_study.account) <= caps[2]


# ---------------------------------------------------------------------------- labels told at random
def entries(link):
    """What each site's file says was charged, by round id."""
    return [
        [event.round_id for _, event in vault.ledger.entries() if isinstance(event, Charged)]
        for vault in link.vaults
    ]


def test_a_site_charges_for_told_labels_itself_once_over_restarts(tmp_path):
    federation, link = opened(tmp_path, the_study=TOLD)
    for _ in range(2):
        assert entries(link) == [[ENTRY_ID]] * PARTIES
        assert link.spent_at_sites() == [2] * PARTIES
        link.restart()
    federation.ask([COUNTS])
    assert link.spent_at_sites() == [2] * PARTIES
    shown = {Fraction(head.spent) for head in link.coordinator.heads.values()}
    assert shown == {2}  # receipts say it from the first KEYS on


def test_a_site_that_cannot_pay_for_its_labels_does_not_join(tmp_path):
    with pytest.raises(PartyRefused, match="BudgetRefused"):
        opened(tmp_path, [Fraction(2), Fraction(2), Fraction(1)], TOLD)


def test_an_invitation_that_nobody_signed_charges_nothing(tmp_path, monkeypatch):
    monkeypatch.setattr(DurableLink, "enter", lambda self: None)
    _, link = opened(tmp_path, the_study=TOLD)
    letter = link.coordinator.join()[0]
    assert link.clients[0].handle(letter[:-1] + bytes([letter[-1] ^ 1])).startswith(REFUSED)
    assert entries(link)[0] == []
    assert not link.clients[0].handle(letter).startswith(REFUSED)
    assert entries(link)[0] == [ENTRY_ID]
