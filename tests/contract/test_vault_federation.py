"""A whole run over sites that keep their ledgers and answers in files of their own."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from contract.durable_link import DurableLink
from contract.worlds import TWO, holders, sample, study
from hedgerow.coordinator.federation import Federation
from hedgerow.errors import PartyRefused
from hedgerow.learning.flow import run
from hedgerow.privacy.accounting.budget import Measure
from hedgerow.privacy.ledger.charges import MemoryLedger
from hedgerow.recipes.papers.gubler import HistogramTree

PARTIES = 3


def opened(tmp_path, caps=None):
    X, y = sample(150, TWO)
    the_study = study(TWO, PARTIES, delta="1e-6")
    link = DurableLink(
        the_study,
        holders(X, y, np.arange(150) % PARTIES, PARTIES, TWO),
        tmp_path,
        caps,
    )
    return Federation(the_study, link, MemoryLedger(the_study.limit)), link


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
