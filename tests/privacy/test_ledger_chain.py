"""The ledger on disk: what it remembers, what it notices, what it refuses."""

import math
import sqlite3
from dataclasses import replace
from fractions import Fraction as Q

import pytest
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from hedgerow.errors import (
    BudgetExceeded,
    LedgerBroken,
    LedgerRolledBack,
    LedgerUnavailable,
    ParameterError,
)
from hedgerow.privacy.accounting.budget import Measure
from hedgerow.privacy.ledger import chain, events, sqlite
from hedgerow.privacy.ledger.chain import Anchor
from hedgerow.privacy.ledger.charges import NO_HEAD, Charge
from hedgerow.privacy.ledger.events import Charged, from_json, to_json
from hedgerow.privacy.ledger.rules import Books
from hedgerow.privacy.ledger.sqlite import SqliteLedger
from hedgerow.privacy.ledger.store import LedgerStore, connect
from hedgerow.schema.regions import Fold, Split, Step

SPLIT = Split("age", "grid", 0b1011)


def charge(*steps, cost=Q(1, 10), study="a", measure=Measure.PURE):
    return Charge(tuple(steps), cost, "Count of all rows", study, measure)


class Bench:
    """A site's directory in which ledgers are opened, copied back and tampered with."""

    def __init__(self, directory):
        self.path, self.anchor = directory / "site.db", Anchor(directory / "anchor")
        self.key = Ed25519PrivateKey.generate()
        self.stores = []

    def ours(self, signature, message):
        try:
            self.key.public_key().verify(signature, message)
        except InvalidSignature:
            return False
        return True

    def open(self, **how):
        self.stores.append(LedgerStore(connect(self.path)))
        how = {"sign": self.key.sign, "verify": self.ours, "anchor": self.anchor} | how
        return SqliteLedger(self.stores[-1], **how)

    def close(self):
        while self.stores:
            self.stores.pop().close()

    def started(self, rounds=0):
        ledger = self.open()
        ledger.set_lifetime(Measure.ZCDP, Q(10))
        ledger.approve("a", Measure.PURE, Q(1))
        return ledger, [ledger.reserve([charge()], str(i)) for i in range(rounds)]

    def copy(self):
        self.close()
        return self.path.read_bytes()

    def bring_back(self, copy):
        self.close()
        self.path.write_bytes(copy)

    def tamper(self, *statements, triggers=True):
        self.close()
        raw = sqlite3.connect(self.path, isolation_level=None)
        if triggers:
            raw.execute("DROP TRIGGER ledger_keeps_entries")
            raw.execute("DROP TRIGGER ledger_loses_none")
        raw.execute("BEGIN")
        for sql, *values in statements:
            raw.execute(sql, values)
        raw.execute("COMMIT")
        raw.close()


@pytest.fixture
def bench(tmp_path):
    bench = Bench(tmp_path)
    yield bench
    bench.close()


# ------------------------------------------------------------------------------- remembering
def test_a_reopened_ledger_has_spent_what_it_had_spent(bench):
    ledger, _ = bench.started()
    ledger.reserve([charge(Step(SPLIT, 0)), charge(Step(SPLIT, 1), cost=Q(1, 3))], "1")
    ledger.reserve([charge(Step(Fold("draw", 4), 3))], "2")
    bench.close()
    again = bench.open()
    assert again.spent("a") == Q(1, 3) + Q(1, 10)
    assert again.head() == ledger._end.position
    again.reserve([charge(Step(SPLIT, 0), cost=Q(1, 5))], "3")
    assert again.spent("a") == Q(1, 3) + Q(1, 10)


def test_what_a_selection_left_stays_spent_over_a_restart_and_a_close(bench):
    ledger, _ = bench.started(rounds=1)
    receipt = ledger.reserve([replace(charge(), remainder=Q(1, 5))], "with a remainder")
    assert receipt.spent == Q(2, 10) + Q(1, 5)
    bench.close()
    again = bench.open()
    assert again.spent("a") == Q(2, 5)
    again.close("a")
    assert again.spent("a") == Q(2, 5)


def test_a_receipt_names_the_entry_it_stands_for(bench):
    ledger, (first, second) = bench.started(rounds=2)
    assert (second.seq, second.head) == ledger.head()
    assert ledger.head_at(first.seq) == first.head
    assert (first.spent, second.spent) == (Q(1, 10), Q(1, 5))
    assert ledger.head_at(99) is None
    assert ledger.head_at(0) == NO_HEAD


@pytest.mark.parametrize(
    "event",
    [
        events.LifetimeSet(Measure.ZCDP, Q(1, 3)),
        events.LifetimeSet(Measure.PURE, math.inf, Q(1, 10**5), "one record"),
        events.Approved("0123abcd", Measure.GDP, math.inf, "ä study"),
        events.Approved("0123abcd", Measure.PURE, Q(1, 3), "a fit", Q(1, 10**6)),
        events.Charged(
            "a", "7", (charge(Step(SPLIT, 1), Step(Fold("d", 3), 2)), charge(cost=math.inf))
        ),
        events.Charged("a", "8", (replace(charge(), remainder=Q(2, 7)), charge(Step(SPLIT, 1)))),
        events.SetOpened("a", "7", bytes(range(32)), Q(2, 3)),
        events.Closed("a"),
        events.Restored(3, ((4, bytes(range(32))),)),
        events.Reconciled((("a", Q(1, 7)),), (("a", "7"), ("a", "8"))),
    ],
    ids=lambda event: type(event).__name__,
)
def test_every_event_reads_back_as_it_was_written(event):
    assert events.from_json(events.to_json(event)) == event
    assert "." not in events.to_json(event), "a rational was written as a float"


@pytest.mark.parametrize("text", ["{}", "[]", "no json", '{"kind":"Gift"}', '{"kind":"Closed"}'])
def test_an_unreadable_event_breaks_the_ledger(text):
    with pytest.raises(LedgerBroken, match="cannot be read"):
        events.from_json(text)


# ---------------------------------------------------------------------------------- spending
def test_a_study_spends_up_to_its_cap_and_not_a_trace_more(bench):
    ledger, _ = bench.started()
    ledger.reserve([charge(cost=Q(1))], "1")
    with pytest.raises(BudgetExceeded):
        ledger.reserve([charge(cost=Q(1, 10**30))], "2")
    assert ledger.spent("a") == 1
    ledger.verify()


def test_an_unknown_or_closed_study_cannot_charge(bench):
    ledger, _ = bench.started()
    with pytest.raises(ParameterError, match="not approved"):
        ledger.reserve([charge(study="b")], "1")
    ledger.close("a")
    with pytest.raises(ParameterError, match="closed"):
        ledger.reserve([charge()], "1")


def test_a_cap_in_one_measure_accepts_no_charge_in_another(bench):
    """A mu squared of 1 under a pure cap of 1 would be an epsilon of 4.89."""
    ledger, _ = bench.started()
    for measure in (Measure.GDP, Measure.ZCDP):
        with pytest.raises(ParameterError, match="this budget counts in epsilon"):
            ledger.reserve([charge(cost=Q(1), measure=measure)], "1")
    with pytest.raises(ParameterError, match="2 measures"):
        ledger.reserve([charge(), charge(measure=Measure.GDP)], "1")
    assert ledger.spent("a") == 0
    ledger.reserve([charge(cost=Q(1))], "1")


def test_two_studies_of_one_name_have_two_accounts(bench):
    ledger, _ = bench.started()
    ledger.approve("hash of one", Measure.PURE, Q(1), "the study")
    ledger.approve("hash of another", Measure.PURE, Q(1), "the study")
    ledger.reserve([charge(study="hash of one")], "1")
    assert (ledger.spent("hash of one"), ledger.spent("hash of another")) == (Q(1, 10), 0)


# ------------------------------------------------------------------------------- opening sets
MEMBERS, OTHERS = bytes([1]) * 32, bytes([2]) * 32


def test_a_round_opens_one_set_and_only_once_it_is_charged(bench):
    ledger, _ = bench.started(rounds=1)
    with pytest.raises(ParameterError, match="never charged"):
        ledger.open_set("a", "another round", MEMBERS)
    opened = ledger.open_set("a", "0", MEMBERS)
    assert (opened.seq, opened.members, opened.spent) == (4, MEMBERS, Q(1, 10))
    with pytest.raises(ParameterError, match="opened before"):
        ledger.open_set("a", "0", OTHERS)
    bench.close()
    assert bench.open().opened("a", "0") == opened
    assert max(bench.anchor.heads()) == 4


def test_a_signed_chain_that_opens_two_sets_is_not_believed(bench):
    ledger, _ = bench.started(rounds=1)
    ledger.open_set("a", "0", MEMBERS)
    ledger._books.account("a").sets.clear()  # whoever holds the key can sign anything
    ledger.open_set("a", "0", OTHERS)
    bench.close()
    with pytest.raises(LedgerBroken, match="breaks its own rules"):
        bench.open().verify()


def test_a_copy_from_before_a_set_is_older_than_the_anchor(bench):
    bench.started(rounds=1)
    copy = bench.copy()
    bench.open().open_set("a", "0", MEMBERS)
    bench.bring_back(copy)
    with pytest.raises(LedgerRolledBack):
        bench.open().open_set("a", "0", OTHERS)


def test_a_round_id_is_charged_once_even_after_a_restart(bench):
    bench.started(rounds=1)
    bench.close()
    with pytest.raises(ParameterError, match="charged before"):
        bench.open().reserve([charge()], "0")


def test_approving_a_study_takes_its_whole_cap_from_the_lifetime(bench):
    ledger = bench.open()
    ledger.set_lifetime(Measure.ZCDP, Q(1))
    ledger.approve("a", Measure.GDP, Q(3, 2))
    assert ledger.committed() == Q(3, 4)
    with pytest.raises(BudgetExceeded, match="lifetime"):
        ledger.approve("b", Measure.ZCDP, Q(1, 4) + Q(1, 10**9))
    ledger.approve("b", Measure.ZCDP, Q(1, 4))
    assert ledger.committed() == 1


def test_closing_a_study_gives_back_what_it_did_not_spend(bench):
    ledger = bench.open()
    ledger.set_lifetime(Measure.PURE, Q(1))
    ledger.approve("a", Measure.PURE, Q(1))
    ledger.reserve([charge(cost=Q(1, 4))], "1")
    ledger.close("a")
    assert ledger.committed() == Q(1, 4)
    ledger.approve("b", Measure.PURE, Q(3, 4))
    with pytest.raises(ParameterError, match="approved before"):
        ledger.approve("a", Measure.PURE, Q(0))


def test_a_study_without_noise_needs_an_unlimited_lifetime(bench):
    ledger = bench.open()
    ledger.set_lifetime(Measure.ZCDP, Q(100))
    with pytest.raises(BudgetExceeded):
        ledger.approve("open", Measure.PURE, math.inf)
    ledger.set_lifetime(Measure.ZCDP, math.inf)
    ledger.approve("open", Measure.PURE, math.inf)
    ledger.reserve([charge(cost=math.inf, study="open")], "1")


def test_nothing_is_approved_before_a_lifetime_is_set_and_its_measure_stays(bench):
    ledger = bench.open()
    with pytest.raises(ParameterError, match="no lifetime"):
        ledger.approve("a", Measure.PURE, Q(1))
    with pytest.raises(ParameterError, match="epsilon or in rho"):
        ledger.set_lifetime(Measure.GDP, Q(1))
    ledger.set_lifetime(Measure.PURE, Q(1))
    ledger.approve("a", Measure.PURE, Q(1))
    with pytest.raises(ParameterError, match="keep the measure"):
        ledger.set_lifetime(Measure.ZCDP, Q(1))
    with pytest.raises(ParameterError, match="delta = 0"):
        ledger.approve("b", Measure.GDP, Q(0))


@pytest.mark.parametrize("cap", [float("nan"), 1.0, Q(-1)])
def test_a_cap_that_is_no_exact_cost_is_refused(bench, cap):
    ledger, _ = bench.started()
    with pytest.raises(ParameterError):
        ledger.approve("b", Measure.PURE, cap)
    assert ledger.head()[0] == 2


def test_two_ledgers_on_one_file_see_each_other_s_charges(bench):
    one, _ = bench.started()
    other = bench.open()
    one.reserve([charge(cost=Q(3, 5))], "1")
    with pytest.raises(BudgetExceeded):
        other.reserve([charge(cost=Q(3, 5))], "2")
    other.reserve([charge(cost=Q(2, 5))], "2")
    assert one.spent("a") == 1


def test_another_process_may_look_between_the_first_commit_and_its_anchor(bench):
    seen, ready = [], []

    def look(step):
        if step == "committed" and ready and not seen:
            seen.append(bench.open().is_open("a"))

    store = LedgerStore(connect(bench.path), look)
    bench.stores.append(store)
    ledger = SqliteLedger(store, sign=bench.key.sign, verify=bench.ours, anchor=bench.anchor)
    ready.append("the tables are there")
    with store.transaction():
        ledger.set_lifetime(Measure.ZCDP, Q(10))
        ledger.approve("a", Measure.PURE, Q(1))
    assert seen == [True]
    ledger.verify()


def test_a_transaction_that_fails_later_takes_the_charge_back(bench):
    ledger, _ = bench.started()
    store = bench.stores[-1]

    def charge_and_fail():
        with store.transaction():
            ledger.reserve([charge(cost=Q(1))], "1")
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        charge_and_fail()
    assert ledger.spent("a") == 0
    ledger.reserve([charge(cost=Q(1))], "1")
    assert ledger.spent("a") == 1
    assert max(bench.anchor.heads()) == ledger.head()[0]


# ---------------------------------------------------------------------------------- noticing
def test_the_ledger_of_an_honest_site_verifies(bench):
    ledger, _ = bench.started(rounds=3)
    ledger.verify()
    assert [entry.seq for entry, _ in ledger.entries()] == [1, 2, 3, 4, 5]


@pytest.mark.parametrize("sql", ["UPDATE ledger SET body = ''", "DELETE FROM ledger"])
def test_entries_are_neither_changed_nor_deleted_by_accident(bench, sql):
    bench.started(rounds=1)
    with pytest.raises(LedgerBroken, match="append-only"):
        bench.stores[-1].execute(sql)


TAMPERING = {
    "an edited cost": [("UPDATE ledger SET body = replace(body, '1/10', '1/99') WHERE seq = 3",)],
    "an edited reason": [
        ("UPDATE ledger SET body = replace(body, 'Count', 'count') WHERE seq = 4",)
    ],
    "a missing entry": [("DELETE FROM ledger WHERE seq = 4",)],
    "a missing beginning": [("DELETE FROM ledger WHERE seq = 1",)],
    "entries in another order": [
        ("UPDATE ledger SET seq = 99 WHERE seq = 3",),
        ("UPDATE ledger SET seq = 3 WHERE seq = 4",),
        ("UPDATE ledger SET seq = 4 WHERE seq = 99",),
    ],
    "an entry moved up": [("UPDATE ledger SET seq = 9 WHERE seq = 5",)],
    "a strange signature": [("UPDATE ledger SET signature = zeroblob(64) WHERE seq = 5",)],
    "a strange head": [("UPDATE ledger SET head = zeroblob(32) WHERE seq = 3",)],
    "an entry twice": [
        ("INSERT INTO ledger SELECT 6, body, head, signature FROM ledger WHERE seq = 5",)
    ],
}


@pytest.mark.parametrize("statements", TAMPERING.values(), ids=TAMPERING)
@pytest.mark.parametrize("anchored", [True, False])
def test_tampering_is_noticed_and_stops_all_charges(bench, statements, anchored):
    bench.started(rounds=3)
    bench.tamper(*statements)
    ledger = bench.open() if anchored else bench.open(anchor=None)
    with pytest.raises((LedgerBroken, LedgerRolledBack)):
        ledger.verify()
    with pytest.raises((LedgerBroken, LedgerRolledBack)):
        ledger.reserve([charge()], "new")


def test_entries_signed_with_another_key_are_not_believed(bench):
    bench.started(rounds=1)
    bench.close()
    bench.key = Ed25519PrivateKey.generate()
    with pytest.raises(LedgerBroken, match="not signed by this site"):
        bench.open().verify()


def test_a_signed_chain_that_overspends_is_not_believed(bench):
    ledger, _ = bench.started(rounds=1)
    # Whoever holds the key can sign anything; the sums must still be right.
    ledger._books.apply = lambda event: None
    ledger.reserve([charge(cost=Q(50))], "too much")
    bench.close()
    with pytest.raises(LedgerBroken, match="breaks its own rules"):
        bench.open().verify()


def test_a_signed_chain_that_skips_a_number_is_not_believed(bench, monkeypatch):
    ledger, _ = bench.started(rounds=1)
    with monkeypatch.context() as skipping:
        skipping.setattr(sqlite, "next_seq", lambda seq, event: seq + 2)
        ledger.reserve([charge()], "after a gap")
    bench.close()
    with pytest.raises(LedgerBroken, match="entry 4 of the ledger is missing"):
        bench.open().verify()


def test_a_cut_off_end_is_noticed_by_the_anchor_and_by_nothing_inside_the_file(bench):
    bench.started(rounds=3)
    bench.tamper(("DELETE FROM ledger WHERE seq = 5",))
    bench.open(anchor=None).verify()
    with pytest.raises(LedgerRolledBack, match="ends at 4"):
        bench.open().verify()


# ------------------------------------------------------------------------------ long ledgers
ENTRIES = 3000
VERY_LONG = 100_000


def bench_with(entries, directory):
    """A ledger of so many entries, written in one transaction."""
    bench = Bench(directory)
    ledger = bench.open()
    ledger.set_lifetime(Measure.ZCDP, Q(10**10))
    ledger.approve("a", Measure.PURE, Q(entries))
    with bench.stores[-1].transaction():
        for i in range(entries - 2):
            ledger.reserve([charge()], str(i))
    bench.close()
    return bench


@pytest.fixture(scope="module")
def long_ledger(tmp_path_factory):
    """To be copied by tests."""
    return bench_with(ENTRIES, tmp_path_factory.mktemp("long"))


@pytest.fixture
def long_copy(long_ledger, tmp_path):
    bench = Bench(tmp_path)
    bench.key = long_ledger.key
    bench.path.write_bytes(long_ledger.path.read_bytes())
    bench.anchor.append(max(long_ledger.anchor.heads().items()))
    yield bench
    bench.close()


class Counting:
    def __init__(self, verify):
        self.verify, self.calls = verify, 0

    def __call__(self, signature, message):
        self.calls += 1
        return self.verify(signature, message)


def test_one_signature_vouches_for_a_long_ledger(long_copy):
    counted = Counting(long_copy.ours)
    ledger = long_copy.open(verify=counted)
    ledger.verify()
    assert ledger.head()[0] == ENTRIES
    assert ledger.spent("a") == Q(ENTRIES - 2, 10)
    assert counted.calls == 1


@pytest.mark.parametrize("seq", [3, 17, ENTRIES // 2, ENTRIES - 1, ENTRIES])
@pytest.mark.parametrize(
    "change",
    [
        "body = replace(body, '1/10', '1/99')",
        "signature = zeroblob(64)",
        "signature = (SELECT signature FROM ledger WHERE seq = 2)",
        "head = zeroblob(32)",
    ],
)
def test_any_change_of_any_entry_of_a_long_ledger_is_seen(long_copy, seq, change):
    long_copy.tamper((f"UPDATE ledger SET {change} WHERE seq = {seq}",))
    with pytest.raises(LedgerBroken):
        long_copy.open().verify()


@pytest.mark.slow
def test_a_ledger_of_a_hundred_thousand_entries_opens_and_shows_one_changed_byte(tmp_path):
    bench = bench_with(VERY_LONG, tmp_path)
    counted = Counting(bench.ours)
    ledger = bench.open(verify=counted)
    ledger.verify()
    assert ledger.head()[0] == VERY_LONG
    assert ledger.spent("a") == Q(VERY_LONG - 2, 10)
    assert counted.calls == 1
    bench.close()
    bench.tamper(("UPDATE ledger SET body = replace(body, '1/10', '1/11') WHERE seq = 40000",))
    with pytest.raises(LedgerBroken):
        bench.open().verify()
    bench.close()


def test_a_forged_entry_in_the_middle_needs_the_last_signature(long_copy):
    """Every hash is made good again, as anybody can; the signature over them cannot be."""
    bench = long_copy
    store = LedgerStore(connect(bench.path))
    rows = [chain.Entry(*row) for row in store.execute("SELECT * FROM ledger ORDER BY seq")]
    store.close()
    end, changes = chain.START, []
    for entry in rows:
        body = entry.body.replace("1/10", "1/99") if entry.seq == 20 else entry.body
        event = events.from_json(body)
        forged = chain.seal_entry(entry.seq, end, event, lambda head, e=entry: e.signature)
        changes.append(("UPDATE ledger SET body = ?, head = ? WHERE seq = ?",
                        forged.body, forged.head, forged.seq))  # fmt: skip
        end = end.after(forged)
    bench.tamper(*changes)
    with pytest.raises(LedgerBroken, match="not signed by this site"):
        bench.open(anchor=None).verify()


@pytest.mark.parametrize(
    ("cost", "told"),
    [
        (Q(1, 3), "1/3"),
        (math.inf, "inf"),
        (Q(10**63), f"{10**63}/1"),
        (Q(1, 3**200), f"1/{10**40}"),
        (Q(2, 3) + Q(1, 7**300), f"{2 * 10**40 // 3 + 1}/{10**40}"),
        (Q(10**80, 3), "inf"),
    ],
)
def test_a_cost_in_a_message_has_64_digits_at_most_and_is_never_too_small(cost, told):
    assert events.short_text(cost) == (told if told == "inf" else str_of(Q(told)))
    assert events.cost_of_text(events.short_text(cost)) >= cost


def str_of(cost):
    return f"{cost.numerator}/{cost.denominator}"


# --------------------------------------------------------------------------------- rollback
def test_a_restored_copy_is_older_than_the_anchor_and_may_not_charge(bench):
    bench.started(rounds=1)
    copy = bench.copy()
    bench.open().reserve([charge()], "later")
    bench.bring_back(copy)
    ledger = bench.open()
    with pytest.raises(LedgerRolledBack):
        ledger.reserve([charge()], "again")
    assert ledger.head()[0] == 3


def test_a_head_that_somebody_else_holds_shows_the_rollback(bench):
    bench.started(rounds=1)
    copy = bench.copy()
    receipt = bench.open().reserve([charge()], "later")
    bench.bring_back(copy)
    ledger = bench.open(anchor=None)
    ledger.meet(ledger.head())
    with pytest.raises(LedgerRolledBack, match="ends at 3"):
        ledger.meet((receipt.seq, receipt.head))
    # Charging on from the old copy makes a second entry 4: two heads with one number.
    ledger.reserve([charge()], "other")
    with pytest.raises(LedgerRolledBack, match="another entry 4"):
        ledger.meet((receipt.seq, receipt.head))
    ledger.meet((0, NO_HEAD))


def test_a_missing_anchor_stops_the_site(bench, tmp_path):
    bench.started(rounds=1)
    bench.close()
    (tmp_path / "anchor").unlink()
    with pytest.raises(LedgerRolledBack, match="anchor of this ledger is missing"):
        bench.open().reserve([charge()], "new")


def test_an_anchor_that_a_crash_left_behind_is_healed(bench, tmp_path):
    ledger, _ = bench.started(rounds=3)
    lines = (tmp_path / "anchor").read_text().splitlines(keepends=True)
    (tmp_path / "anchor").write_text("".join(lines[:-2]) + "\n5 abc")  # torn while it was written
    ledger.settle()
    assert max(bench.anchor.heads()) == 5
    assert dict([ledger.head()]).items() <= bench.anchor.heads().items()


def test_a_long_anchor_is_read_from_its_end_only(bench, tmp_path):
    lines = (f"\n{seq} {bytes([seq % 251]).hex() * 32}\n" for seq in range(1, 500))
    (tmp_path / "anchor").write_text("".join(lines))
    assert bench.anchor.latest().items() <= bench.anchor.heads().items()
    assert max(bench.anchor.latest()) == 499
    assert len(bench.anchor.latest()) < 100


def test_an_anchor_that_cannot_be_written_stops_the_release(bench, tmp_path):
    ledger, _ = bench.started()
    (tmp_path / "anchor").unlink()
    (tmp_path / "anchor").mkdir()
    with pytest.raises(LedgerUnavailable, match="nothing was sent"):
        ledger.reserve([charge()], "1")


def restored(bench, lost_rounds=2):
    """A ledger brought back to before `lost_rounds` charges, and the receipts for these."""
    bench.started(rounds=1)
    copy = bench.copy()
    ledger = bench.open()
    receipts = [ledger.reserve([charge(cost=Q(1, 8))], f"lost {i}") for i in range(lost_rounds)]
    bench.bring_back(copy)
    return bench.open(), receipts


def test_after_a_restore_open_studies_count_as_fully_spent(bench):
    ledger, _ = restored(bench)
    ledger.restore()
    assert ledger.spent("a") == 1
    with pytest.raises(BudgetExceeded, match="restored"):
        ledger.reserve([charge()], "new")
    ledger.verify()
    ledger.approve("b", Measure.PURE, Q(1))
    ledger.reserve([charge(study="b")], "1")
    ledger.close("a")
    assert ledger.spent("a") == 1


def test_a_declared_restore_knows_the_heads_it_lost(bench):
    ledger, receipts = restored(bench)
    ledger.restore()
    assert ledger.head()[0] == receipts[-1].seq + 1
    for receipt in receipts:
        ledger.meet((receipt.seq, receipt.head))
    with pytest.raises(LedgerRolledBack):
        ledger.meet((receipts[0].seq, bytes(32)))


def test_receipts_for_all_that_was_lost_reconcile_a_study(bench):
    ledger, receipts = restored(bench)
    ledger.restore()
    ledger.reconcile(receipts)
    assert ledger.spent("a") == Q(1, 10) + Q(2, 8)
    ledger.reserve([charge(cost=Q(1, 10))], "new")
    bench.close()
    assert bench.open().spent("a") == Q(2, 10) + Q(2, 8)


@pytest.mark.parametrize("kept", [[], [0], [1]])
def test_missing_receipts_reconcile_nothing(bench, kept):
    ledger, receipts = restored(bench)
    ledger.restore()
    with pytest.raises(LedgerRolledBack, match="no receipt"):
        ledger.reconcile([receipts[i] for i in kept])
    assert ledger.spent("a") == 1


def test_a_receipt_that_is_not_of_this_chain_reconciles_nothing(bench):
    ledger, receipts = restored(bench)
    ledger.restore()
    foreign = replace(receipts[1], head=bytes([1]) * 32)
    with pytest.raises(LedgerRolledBack, match="another copy"):
        ledger.reconcile([receipts[0], foreign])
    assert ledger.spent("a") == 1


def test_a_receipt_that_is_of_no_round_does_not_tell_what_was_lost(bench):
    ledger, receipts = restored(bench)
    ledger.restore()
    with pytest.raises(LedgerRolledBack, match="no receipt"):
        ledger.reconcile([receipts[0], replace(receipts[1], round_id="")])
    ledger.reconcile([*receipts, replace(receipts[1], round_id="", spent=Q(9, 10))])
    assert ledger.spent("a") == Q(9, 10)


def test_a_round_that_was_lost_and_reconciled_is_not_charged_again(bench):
    ledger, receipts = restored(bench)
    ledger.restore()
    ledger.reconcile(receipts)
    with pytest.raises(ParameterError, match="charged before"):
        ledger.reserve([charge()], receipts[0].round_id)


def test_without_the_anchor_a_restore_learns_lost_heads_from_others(bench, tmp_path):
    ledger, receipts = restored(bench)
    (tmp_path / "anchor").unlink()
    ledger.restore([(receipts[-1].seq, receipts[-1].head)])
    ledger.meet((receipts[-1].seq, receipts[-1].head))
    ledger.verify()


def test_two_copies_that_both_spent_cannot_be_mended(bench):
    ledger, receipts = restored(bench)
    fork = bench.open(anchor=None)
    fork.reserve([charge()], "in the other copy")
    with pytest.raises(LedgerBroken, match="two copies"):
        ledger.restore([(receipts[0].seq, receipts[0].head)])


def test_the_books_take_no_event_they_do_not_know():
    with pytest.raises(ParameterError, match="not an event"):
        Books().apply("a gift")


# ------------------------------------------------------------------------- entries of many regions
DEEP = tuple(Step(Fold(f"d{k}", 2), 0) for k in range(1000))


def test_regions_of_an_entry_share_their_steps_and_come_back():
    charges = tuple(
        Charge(DEEP[: k % 1001], Q(1, 10**6), f"counts {k}", "s", Measure.PURE) for k in range(4096)
    )
    event = Charged("s", "r/1", charges)
    text = to_json(event)
    assert from_json(text) == event
    spelled_out = sum(len(charge.region) for charge in charges) * len('["fold","d0",2,0],')
    assert len(text) < 500_000 < spelled_out / 50


def test_the_words_of_a_charge_are_cut_and_a_step_stands_below_one_before_it():
    charge = Charge((), Q(1), "w" * 10_000, "s", Measure.PURE)
    text = to_json(Charged("s", "r/1", (charge,)))
    assert len(text) < 1_000
    assert '"steps":[]' in text
    wrong = text.replace('"steps":[]', '"steps":[[1,"fold","d",2,0]]')
    with pytest.raises(LedgerBroken):
        from_json(wrong)
