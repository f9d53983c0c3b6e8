"""A whole run over sites that keep their ledgers and answers in files of their own."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from contract.worlds import TWO, holders, sample, study
from hedgerow.coordinator.federation import Federation
from hedgerow.errors import PartyRefused
from hedgerow.learning.flow import run
from hedgerow.privacy.accounting.budget import Measure
from hedgerow.privacy.ledger.charges import MemoryLedger
from hedgerow.recipes.papers.gubler import HistogramTree
from hedgerow.secagg.coordinator import Coordinator
from hedgerow.secagg.keys import Identity, Roster
from hedgerow.secagg.parameters import Parameters
from hedgerow.secagg.site import Site
from hedgerow.site.member import Member
from hedgerow.site.vault import Vault
from hedgerow.transport.endpoint import Endpoint
from hedgerow.transport.in_process import SecureLink
from hedgerow.transport.wire import Sender

PARTIES = 3


class DurableLink(SecureLink):
    """Sites that serve from vaults; `restart` stops all of them and lets them join again."""

    def __init__(self, the_study, rows, folder, caps):
        self.study, self.rows, self.folder = the_study, rows, folder
        self.identities = [Identity.generate() for _ in rows]
        self.coordinator_identity = Identity.generate()
        self.roster = Roster(
            tuple(i.public for i in self.identities), self.coordinator_identity.public
        )
        self.parameters = Parameters.default(PARTIES)
        self.vaults = [self._vault(k) for k in range(PARTIES)]
        for vault, cap in zip(self.vaults, caps, strict=True):
            vault.ledger.set_lifetime(Measure.ZCDP, Fraction(10))
            vault.ledger.approve(the_study.account, the_study.measure, cap, the_study.name)
        self.heads = {}
        self._join()

    def _vault(self, k):
        place = self.folder / f"site{k}"
        place.mkdir(exist_ok=True)
        return Vault.open(place / "vault.sqlite", self.identities[k], place / "anchor")

    def _join(self):
        self.coordinator = Coordinator(
            self.coordinator_identity, self.roster, self.parameters, self.study.hash, self.heads
        )
        self.endpoints = []
        for k, vault in enumerate(self.vaults):
            memory = vault.memory(self.study.account)
            pins = self.roster.fingerprints
            site = Site(
                self.identities[k], self.roster, k, self.parameters, self.study.hash, memory,
                pins=pins,
            )  # fmt: skip
            self.endpoints.append(Endpoint(Member(self.study, self.rows[k]), site, vault))
        self.join(lambda k: self.vaults[k].head(self.study.account))
        self.sender = Sender()

    def restart(self):
        self.heads = dict(self.coordinator.heads)
        for vault in self.vaults:
            vault.close()
        self.vaults = [self._vault(k) for k in range(PARTIES)]
        self._join()


def opened(tmp_path, caps=None):
    X, y = sample(150, TWO)
    the_study = study(TWO, PARTIES, delta="1e-6")
    link = DurableLink(
        the_study,
        holders(X, y, np.arange(150) % PARTIES, PARTIES, TWO),
        tmp_path,
        caps or [the_study.total] * PARTIES,
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
