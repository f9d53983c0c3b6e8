"""A store as a file: damage, other hands, older layouts, permissions, locks."""

from __future__ import annotations

import math
import os
import random
import shutil
import sqlite3
import stat
from fractions import Fraction
from fractions import Fraction as Q
from pathlib import Path

import numpy as np
import pytest

from hedgerow.errors import (
    HedgerowError,
    LedgerBroken,
    LedgerError,
    LedgerUnavailable,
    ParameterError,
    SiteRefused,
)
from hedgerow.federation import site_store as layout
from hedgerow.federation.client import REFUSED
from hedgerow.federation.server import Server
from hedgerow.federation.site_store import SiteStore, backup_store
from hedgerow.methods.blocks.flow import run
from hedgerow.methods.gubler import HistogramTree
from hedgerow.privacy.accounting.budget import DPModel, Measure
from hedgerow.privacy.ledger.charges import ENTRY_ID, MemoryLedger
from hedgerow.privacy.ledger.events import Charged
from hedgerow.privacy.ledger.file import open_ledger
from hedgerow.privacy.ledger.sqlite import Table
from hedgerow.privacy.ledger.store import LAYOUT_VERSION, LedgerStore
from hedgerow.privacy.queries import ClassCounts, SumQuery, Whole
from hedgerow.schema.regions import EVERYONE
from hedgerow.secagg.keys import Identity
from support.site_store_dry_run import (
    COST,
    IDENTITY,
    REPLY,
    RUN,
    STUDY,
    charge,
    open_store,
    opened_set,
    release,
    signed,
    started,
)
from support.site_stores import DurableLink
from support.worlds import TWO, sample, site_rows, study

VECTORS = Path(__file__).parents[1] / "vectors"
PEER = b"p" * 32


def furnished(directory):
    """A store with something in every table."""
    site_store = started(directory)
    site_store.secret(STUDY)
    site_store.memory(STUDY).see_head(PEER, signed(5))
    for round in (1, 2, 3):
        release(site_store, round, message=b"masked message of round %d" % round)
        site_store.memory(STUDY).open_set(RUN, round, (0, 1, 2), REPLY)
    return site_store


def everything(site_store):
    """All that a store says, to be compared with what it said before."""
    memory = site_store.memory(STUDY)
    rounds = range(5)
    return (
        [entry for entry, _ in site_store.ledger.entries()],
        (site_store.head(STUDY), site_store.ledger.cap(STUDY), site_store.ledger.committed()),
        (memory.current_run(), memory.high_water(RUN)),
        [memory.outbox(RUN, round) for round in rounds],
        [opened_set(memory, round) for round in rounds],
        memory.receipt(PEER),
        site_store.secret(STUDY),
    )


# --------------------------------------------------------------------------------------- damage
class Flips:
    """Opens copies of a furnished store in which one bit is wrong."""

    def __init__(self, directory, seed):
        site_store = furnished(directory)
        self.expected = everything(site_store)
        site_store.close()
        self.directory, self.chance = directory, random.Random(seed)
        self.whole = (directory / "state" / "site.db").read_bytes()
        self.used = [place for place, byte in enumerate(self.whole) if byte]

    def outcome(self, place, bit):
        """'seen' if the store does not open, 'same' if it says what it said, else 'different'."""
        copy = self.directory / "damaged"
        shutil.rmtree(copy, ignore_errors=True)
        (copy / "state").mkdir(parents=True)
        shutil.copy(self.directory / "anchor", copy / "anchor")
        damaged = bytearray(self.whole)
        damaged[place] ^= 1 << bit
        (copy / "state" / "site.db").write_bytes(damaged)
        try:
            site_store = open_store(copy)
        except LedgerError:
            return "seen"
        try:
            return "same" if everything(site_store) == self.expected else "different"
        except LedgerError:
            return "seen"
        except HedgerowError:
            return "different"
        finally:
            site_store.close()

    def outcomes(self, flips):
        places = [self.chance.choice(self.used) for _ in range(flips // 2)]
        places += [self.chance.randrange(len(self.whole)) for _ in range(flips - flips // 2)]
        return [self.outcome(place, self.chance.randrange(8)) for place in places]


def test_three_hundred_flipped_bits_are_seen_or_change_nothing(tmp_path):
    found = Flips(tmp_path, seed=1).outcomes(300)
    assert "different" not in found
    assert found.count("seen") > 100


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(2, 7))
def test_a_thousand_flipped_bits_are_seen_or_change_nothing(tmp_path, seed):
    assert "different" not in Flips(tmp_path, seed).outcomes(1000)


def test_a_vault_without_codes_and_checks_would_believe_some_of_them(tmp_path, monkeypatch):
    """The negative control."""
    monkeypatch.setattr(Table, "_check_row", lambda table, row: tuple(row[:-1]))
    monkeypatch.setattr(LedgerStore, "check", lambda store: None)
    monkeypatch.setattr(layout, "_require_layout", lambda store, statements: None)
    assert "different" in Flips(tmp_path, seed=1).outcomes(300)


def tampered(directory, *statements):
    furnished(directory).close()
    raw = sqlite3.connect(directory / "state" / "site.db", isolation_level=None)
    for statement in statements:
        raw.execute(statement)
    raw.close()


TAMPERING = {
    "a run opened again": "UPDATE runs SET open = 1 - open",
    "a lower high water": "UPDATE runs SET high_water = 1",
    "a stored answer under another round": "UPDATE outbox SET round = 9 WHERE round = 3",
    "a stored answer of another study": "UPDATE outbox SET study = 'another'",
    "a changed answer": "UPDATE outbox SET record = zeroblob(500)",
    "a peer's other head": "UPDATE peers SET seq = 4",
    "a peer's head under another name": "UPDATE peers SET peer = zeroblob(32)",
    "another secret": "UPDATE secrets SET value = zeroblob(32)",
    "a secret for another study": "UPDATE secrets SET study = 'another'",
    "a code that is missing": "UPDATE runs SET code = NULL",
    "a code that is a text": "UPDATE runs SET code = 'code'",
    "a value of another kind": "UPDATE runs SET high_water = 'three'",
    "one more table": "CREATE TABLE more (x)",
    "another column": "ALTER TABLE runs ADD COLUMN more",
}


@pytest.mark.parametrize("statement", TAMPERING.values(), ids=TAMPERING)
def test_rows_that_this_site_did_not_write_are_not_believed(tmp_path, statement):
    tampered(tmp_path, statement)
    with pytest.raises(LedgerBroken):
        open_store(tmp_path)


def test_a_row_that_changes_while_the_site_serves_is_seen_when_it_is_read(tmp_path):
    """The last round is kept in memory as it was written; every other one is read."""
    site_store = furnished(tmp_path)
    last = site_store.memory(STUDY).outbox(RUN, 3)
    raw = sqlite3.connect(tmp_path / "state" / "site.db", isolation_level=None)
    raw.execute("UPDATE outbox SET record = zeroblob(500)")
    raw.close()
    with pytest.raises(LedgerBroken, match="not as this site wrote it"):
        site_store.memory(STUDY).outbox(RUN, 2)
    assert site_store.memory(STUDY).outbox(RUN, 3) == last
    site_store.close()
    with pytest.raises(LedgerBroken, match="not as this site wrote it"):
        open_store(tmp_path)


def test_a_secret_that_was_removed_is_not_drawn_again(tmp_path):
    tampered(tmp_path, "DELETE FROM secrets")
    site_store = open_store(tmp_path)
    with pytest.raises(LedgerBroken, match="secret is gone"):
        site_store.secret(STUDY)
    site_store.close()


def test_a_vault_of_another_identity_is_not_believed(tmp_path):
    furnished(tmp_path).close()
    with pytest.raises(LedgerError):
        SiteStore.open(tmp_path / "state" / "site.db", Identity.generate(), tmp_path / "anchor")


# ----------------------------------------------------------------------------- other layouts
@pytest.mark.parametrize("version", [LAYOUT_VERSION + 1, 1000, -1])
def test_a_file_of_a_version_that_is_not_known_is_left_alone(tmp_path, version):
    furnished(tmp_path).close()
    path = tmp_path / "state" / "site.db"
    raw = sqlite3.connect(path, isolation_level=None)
    raw.execute(f"PRAGMA user_version = {version}")
    raw.close()
    before = path.read_bytes()
    with pytest.raises(LedgerUnavailable, match="Nothing was changed"):
        open_store(tmp_path)
    with (
        pytest.raises(LedgerUnavailable, match="Nothing was changed"),
        open_ledger(path, IDENTITY, tmp_path / "anchor"),
    ):
        pass
    assert path.read_bytes() == before


@pytest.mark.parametrize("version", [0, 1, 4])
def test_a_file_that_says_it_has_another_layout_is_left_alone(tmp_path, version):
    """One flipped bit in the header says so; new tables would hide the stored rounds."""
    furnished(tmp_path).close()
    path = tmp_path / "state" / "site.db"
    raw = sqlite3.connect(path, isolation_level=None)
    raw.execute(f"PRAGMA user_version = {version}")
    raw.close()
    with pytest.raises(LedgerError, match="othing was changed"):
        open_store(tmp_path)
    raw = sqlite3.connect(path)
    assert raw.execute("SELECT count(*) FROM outbox").fetchone() == (2,)
    raw.close()


# ------------------------------------------------------------------------- permissions and locks
@pytest.mark.parametrize("umask", [0, 0o022, 0o777])
def test_folder_and_files_are_the_owner_s_alone_whatever_the_umask(tmp_path, umask):
    before = os.umask(umask)
    try:
        site_store = furnished(tmp_path)
        backup_store(tmp_path / "state" / "site.db", tmp_path / "state" / "backup")
    finally:
        os.umask(before)
    site_store.close()
    state = tmp_path / "state"
    assert stat.S_IMODE(state.stat().st_mode) == 0o700
    files = {file.name: stat.S_IMODE(file.stat().st_mode) for file in state.iterdir()}
    files["anchor"] = stat.S_IMODE((tmp_path / "anchor").stat().st_mode)
    assert set(files) == {"site.db", "site.db.lock", "backup", "anchor"}
    assert set(files.values()) == {0o600}


def test_a_folder_that_cannot_be_made_is_reported(tmp_path):
    with pytest.raises(LedgerUnavailable, match="folder above it exists"):
        open_store(tmp_path / "nowhere")


@pytest.mark.parametrize("linked", ["the file", "its folder"])
def test_a_vault_is_not_opened_twice_by_another_name(tmp_path, linked):
    site_store = started(tmp_path)
    if linked == "the file":
        (tmp_path / "other").mkdir()
        (tmp_path / "other" / "name.db").symlink_to(tmp_path / "state" / "site.db")
        path = tmp_path / "other" / "name.db"
    else:
        (tmp_path / "other").symlink_to(tmp_path / "state")
        path = tmp_path / "other" / "site.db"
    with pytest.raises(LedgerUnavailable, match="another process serves"):
        SiteStore.open(path, IDENTITY, tmp_path / "anchor")
    site_store.close()
    SiteStore.open(path, IDENTITY, tmp_path / "anchor").close()


# -------------------------------------------------------------------------- what KEYS say of it
def test_the_largest_position_that_a_peer_can_tell_stops_no_study(tmp_path):
    """One bit more is refused on reading: see test_secagg_heads.py."""
    site_store = started(tmp_path)
    site_store.memory(STUDY).see_head(PEER, signed(2**63 - 1))
    release(site_store, 1)
    site_store.close()
    site_store = open_store(tmp_path)
    assert site_store.memory(STUDY).receipt(PEER).header.ledger.seq == 2**63 - 1
    release(site_store, 2)
    site_store.close()


def test_the_head_of_a_vault_is_its_end_and_the_study_s_spending(tmp_path):
    site_store = started(tmp_path)
    assert site_store.head(STUDY).position == site_store.ledger.head()
    assert site_store.head(STUDY).spent == "0/1"
    release(site_store, 1)
    assert site_store.head(STUDY).spent == "1/1000"
    site_store.ledger.set_lifetime(Measure.PURE, math.inf)
    site_store.ledger.approve("no noise", Measure.PURE, math.inf)
    site_store.ledger.reserve([charge(math.inf, "no noise")], "1")
    assert site_store.head("no noise").spent == "inf"
    site_store.close()


def test_a_spending_of_too_many_digits_is_told_rounded_up(tmp_path):
    site_store = started(tmp_path)
    odd = Q(1, 3**200)
    release(site_store, 1, cost=odd)
    told = Q(site_store.head(STUDY).spent)
    assert odd <= told <= odd + Q(1, 10**40)
    assert site_store.ledger.spent(STUDY) == odd
    assert (
        site_store.memory(STUDY).outbox(RUN, 1).header.ledger.spent == site_store.head(STUDY).spent
    )
    site_store.close()


def test_nothing_is_told_of_a_study_that_was_not_approved(tmp_path):
    site_store = started(tmp_path)
    with pytest.raises(ParameterError, match="not approved"):
        site_store.head("another")
    assert site_store.ledger.spent(STUDY) == 0 * COST
    site_store.close()


# --------------------------------------------------------------------------------------------------
# A whole run over sites that keep their ledgers and answers in files of their own.
PARTIES = 3
GAUSSIAN = study(TWO, PARTIES, delta="1e-6")
COUNTS = SumQuery(EVERYONE, ClassCounts(2), Whole(), Fraction(1, 10))
TOLD = study(TWO, PARTIES, DPModel.LABEL, epsilon="2")


def opened(tmp_path, caps=None, the_study=GAUSSIAN):
    X, y = sample(150, TWO)
    link = DurableLink(
        the_study,
        site_rows(X, y, np.arange(150) % PARTIES, PARTIES, TWO),
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
    method = HistogramTree(max_depth=2)
    return run(method.flow(TWO, federation, np.random.default_rng(0)), federation)


def test_every_sites_file_says_what_the_coordinator_says(tmp_path):
    federation, link = opened(tmp_path)
    grow(federation)
    account = federation.study.account
    spent = federation.ledger.spent(account)
    assert federation.study.measure is Measure.GDP
    for site_store in link.site_stores:
        site_store.ledger.verify()
        assert site_store.ledger.spent(account) == spent
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
    assert {v.ledger.spent(account) for v in link.site_stores} == {federation.ledger.spent(account)}


def test_a_site_with_a_smaller_cap_stops_the_run_and_keeps_its_promise(tmp_path):
    the_study = study(TWO, PARTIES, delta="1e-6")
    caps = [the_study.total, the_study.total, the_study.total / 3]
    federation, link = opened(tmp_path, caps)
    with pytest.raises(SiteRefused, match="BudgetRefused"):
        grow(federation)
    assert link.site_stores[2].ledger.spent(the_study.account) <= caps[2]


# ---------------------------------------------------------------------------- randomized labels
def entries(link):
    """What each site's file says was charged, by round id."""
    return [
        [event.round_id for _, event in site_store.ledger.entries() if isinstance(event, Charged)]
        for site_store in link.site_stores
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
    with pytest.raises(SiteRefused, match="BudgetRefused"):
        opened(tmp_path, [Fraction(2), Fraction(2), Fraction(1)], TOLD)


def test_an_invitation_that_nobody_signed_charges_nothing(tmp_path, monkeypatch):
    monkeypatch.setattr(DurableLink, "enter", lambda self: None)
    _, link = opened(tmp_path, the_study=TOLD)
    message = link.coordinator.join()[0]
    assert link.clients[0].handle(message[:-1] + bytes([message[-1] ^ 1])).startswith(REFUSED)
    assert entries(link)[0] == []
    assert not link.clients[0].handle(message).startswith(REFUSED)
    assert entries(link)[0] == [ENTRY_ID]
