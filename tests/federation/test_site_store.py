"""A site's file: what it guarantees to the secure sum, and what leaves only after it is durable."""

import json
import shutil
import sqlite3
import stat
import subprocess
import sys
import threading
from contextlib import suppress
from fractions import Fraction as Q
from pathlib import Path

import numpy as np
import pytest

from hedgerow.errors import (
    BudgetExceeded,
    ComputationFailed,
    LedgerBroken,
    LedgerRolledBack,
    LedgerUnavailable,
    ParameterError,
    SiteRefused,
)
from hedgerow.federation.site_store import ROUNDS_KEPT
from hedgerow.privacy.accounting.budget import Measure
from hedgerow.privacy.ledger.chain import Anchor
from hedgerow.secagg.client import Fresh
from hedgerow.secagg.envelope import EMPTY_LEDGER, Envelope, LedgerHead
from hedgerow.secagg.memory import MemoryInRam, set_hash
from hedgerow.secagg.messages import Mode
from support import secagg_dry_run
from support.site_store_dry_run import (
    COST,
    REPLY,
    RUN,
    SECRET,
    STUDY,
    approved,
    charge,
    ledger_alone,
    open_store,
    opened_set,
    record_of,
    release,
    signed,
    started,
)

OTHER_RUN = b"another 16 bytes"
END = LedgerHead(1, b"h" * 32, "1/10")


def refuses(code):
    return pytest.raises(SiteRefused, match=f"code {code};")


def body_of(message):
    return bytes(Envelope.parse(message).body)


@pytest.fixture
def site_store(tmp_path):
    site_store = started(tmp_path)
    yield site_store
    site_store.close()


# ------------------------------------------------------- what every memory of a secure sum does
@pytest.fixture(params=["in a store", "in RAM"])
def memory(request, tmp_path):
    if request.param == "in RAM":
        yield MemoryInRam(ROUNDS_KEPT)
        return
    site_store = approved(tmp_path)
    yield site_store.memory(STUDY)
    site_store.close()


def keep(memory, *rounds):
    """Stores rounds as a guard does: in a store, with their charges."""
    for round in rounds:
        if isinstance(memory, MemoryInRam):
            memory.store(record_of(round, END))
        else:
            name = f"{RUN.hex()}/{round}"
            receipt = memory._ledger.reserve([charge()], name)
            memory.store(record_of(round, LedgerHead(receipt.seq, receipt.head, "1/10")))


def test_a_memory_has_one_open_run_and_a_closed_one_stays_closed(memory):
    assert memory.current_run() is None
    memory.open_run(RUN)
    memory.open_run(RUN)
    assert memory.current_run() == RUN
    memory.open_run(OTHER_RUN)
    assert memory.current_run() == OTHER_RUN
    with refuses("RunSuperseded"):
        memory.open_run(RUN)
    assert memory.current_run() == OTHER_RUN


def test_a_memory_keeps_records_byte_for_byte_and_the_high_water(memory):
    memory.open_run(RUN)
    assert memory.high_water(RUN) == 0
    record = record_of(3, END)
    memory.store(record)
    assert memory.outbox(RUN, 3) == record
    assert memory.high_water(RUN) == 3
    assert memory.outbox(RUN, 2) is memory.outbox(OTHER_RUN, 3) is None
    for old in (3, 2):
        with refuses("OldRound"):
            memory.store(record_of(old, END))
    assert memory.outbox(RUN, 3) == record


def test_a_memory_forgets_the_secrets_of_old_rounds_and_of_closed_runs(memory):
    memory.open_run(RUN)
    for round in range(1, ROUNDS_KEPT + 3):
        memory.store(record_of(round, END))
    kept = [r for r in range(1, ROUNDS_KEPT + 3) if memory.outbox(RUN, r)]
    assert kept == list(range(3, ROUNDS_KEPT + 3))
    memory.open_run(OTHER_RUN)
    assert not any(memory.outbox(RUN, r) for r in kept)
    assert memory.high_water(RUN) == ROUNDS_KEPT + 2


def test_a_memory_opens_one_set_a_round(memory):
    memory.open_run(RUN)
    keep(memory, 1, 2)
    assert opened_set(memory, 1) is None
    end = memory.open_set(RUN, 1, (0, 2, 5), REPLY)
    assert memory.open_set(RUN, 1, (0, 2, 5), REPLY) == end
    with refuses("SecondSet"):
        memory.open_set(RUN, 1, (0, 2), REPLY)
    assert memory.open_set(RUN, 2, (0, 2), REPLY) != end or isinstance(memory, MemoryInRam)
    assert opened_set(memory, 1) == set_hash((0, 2, 5))


def test_a_memory_keeps_the_highest_head_of_each_peer(memory):
    peer, other = b"p" * 32, b"q" * 32
    assert memory.receipt(peer) is None
    memory.see_head(peer, signed(5))
    memory.see_head(peer, signed(4))
    assert memory.receipt(peer) == signed(5)
    memory.see_head(peer, signed(6))
    assert memory.receipt(peer) == signed(6)
    assert memory.receipt(other) is None


# ------------------------------------------------------------------------- and across restarts
def test_what_a_vault_promised_outlives_the_process(tmp_path):
    site_store = started(tmp_path)
    site_store.memory(STUDY).see_head(b"p" * 32, signed(5))
    secret = site_store.secret(STUDY)
    message = release(site_store, 1)
    end = site_store.memory(STUDY).open_set(RUN, 1, (0, 1), REPLY)
    head = site_store.ledger.head()
    site_store.close()
    site_store = open_store(tmp_path)
    memory = site_store.memory(STUDY)
    assert (memory.current_run(), memory.high_water(RUN)) == (RUN, 1)
    assert memory.outbox(RUN, 1).message == message
    assert opened_set(memory, 1) == set_hash((0, 1))
    assert memory.open_set(RUN, 1, (0, 1), REPLY) == end
    position = Envelope.parse(end).header.ledger.position
    assert position == head == site_store.ledger.head()
    assert memory.receipt(b"p" * 32).header.ledger.position == (5, b"5" * 32)
    assert memory.head_at(head[0]) == head[1]
    assert site_store.secret(STUDY) == secret
    assert site_store.ledger.spent(STUDY) == COST
    site_store.close()


def test_studies_share_a_vault_but_neither_runs_nor_sets_nor_secrets(site_store):
    site_store.ledger.approve("another", Measure.PURE, Q(1))
    site_store.memory("another").open_run(RUN)
    secret = site_store.secret(STUDY)
    release(site_store, 1)
    site_store.memory(STUDY).open_set(RUN, 1, (0, 1), REPLY)
    other = site_store.memory("another")
    assert (other.high_water(RUN), other.outbox(RUN, 1), opened_set(other, 1)) == (
        0,
        None,
        None,
    )
    assert site_store.secret("another") != secret == site_store.secret(STUDY)
    assert (
        site_store.memory("another").head_at(3) == site_store.memory(STUDY).head_at(3) is not None
    )


# ------------------------------------------------------------------------------------ releasing
def test_a_released_message_is_charged_stored_and_knows_its_place_in_the_ledger(site_store):
    message = release(site_store, 1)
    record = site_store.memory(STUDY).outbox(RUN, 1)
    assert record.message == message
    assert record.header.ledger.position == site_store.ledger.head()
    assert record.header.ledger.spent == "1/1000"
    assert site_store.ledger.spent(STUDY) == COST


def nothing_happened(site_store):
    memory = site_store.memory(STUDY)
    assert site_store.ledger.spent(STUDY) == 0
    assert (memory.high_water(RUN), memory.outbox(RUN, 1)) == (0, None)
    site_store.ledger.verify()
    assert release(site_store, 1)


def test_over_budget_nothing_is_masked_charged_or_kept(site_store):
    with pytest.raises(BudgetExceeded):
        site_store.release([charge(Q(2))], RUN, 1, lambda end: pytest.fail("masked"))
    nothing_happened(site_store)


def test_a_refused_mask_takes_the_charge_back(site_store):
    def mask(end):
        raise SiteRefused("UnknownKey")

    with refuses("UnknownKey"):
        site_store.release([charge()], RUN, 1, mask)
    nothing_happened(site_store)


def test_a_record_of_another_round_than_the_one_charged_is_refused(site_store):
    with pytest.raises(ParameterError, match="nothing sent"):
        site_store.release([charge()], RUN, 1, lambda end: record_of(2, end))
    with pytest.raises(ParameterError, match="nothing sent"):
        site_store.release([charge()], RUN, 1, lambda end: record_of(1, EMPTY_LEDGER))
    nothing_happened(site_store)


def test_a_round_of_a_run_that_is_not_open_is_refused(site_store):
    with refuses("RunSuperseded"):
        site_store.release([charge()], OTHER_RUN, 1, lambda end: record_of(1, end, run=OTHER_RUN))
    nothing_happened(site_store)


def test_a_round_is_released_once(site_store):
    release(site_store, 1)
    with pytest.raises(ParameterError, match="charged before"):
        release(site_store, 1)
    assert site_store.ledger.spent(STUDY) == COST


# --------------------------------------------------------------------------------- when it fails
STEPS = ("begun", "written", "committed", "settled")


@pytest.mark.parametrize("step", STEPS)
def test_a_failure_at_any_step_sends_nothing_that_was_not_charged(tmp_path, step):
    armed = []

    def hook(name):
        if armed and name == step:
            armed.clear()
            raise InterruptedError

    site_store = started(tmp_path, hook)
    armed.append(True)
    with pytest.raises(InterruptedError):
        release(site_store, 1, message=b"the only bytes of round 1")
    site_store.close()
    site_store = open_store(tmp_path)
    kept = site_store.memory(STUDY).outbox(RUN, 1)
    assert (kept is not None) == (site_store.ledger.spent(STUDY) == COST)
    assert (kept is not None) == (site_store.memory(STUDY).high_water(RUN) == 1)
    assert (kept is not None) == (step in ("committed", "settled"))
    if kept is not None:
        assert body_of(kept.message) == b"the only bytes of round 1"
    site_store.close()


def test_a_full_disk_sends_nothing(site_store):
    (used,) = site_store._store.execute("PRAGMA page_count")[0]
    site_store._store.execute(f"PRAGMA max_page_count = {used + 1}")
    with pytest.raises(LedgerUnavailable, match=r"full.*nothing was sent"):
        release(site_store, 1, message=b"x" * 10**6)
    site_store._store.execute("PRAGMA max_page_count = 1000000")
    nothing_happened(site_store)


def test_a_full_disk_signs_no_set(site_store):
    release(site_store, 1)
    memory = site_store.memory(STUDY)
    (used,) = site_store._store.execute("PRAGMA page_count")[0]
    site_store._store.execute(f"PRAGMA max_page_count = {used}")
    with pytest.raises(LedgerUnavailable):
        approve_many(site_store)  # until the last page is full
    with pytest.raises(LedgerUnavailable):
        memory.open_set(RUN, 1, (0, 1), REPLY)
    assert opened_set(memory, 1) is None
    site_store._store.execute("PRAGMA max_page_count = 1000000")
    memory.open_set(RUN, 1, (0, 2), REPLY)
    assert opened_set(memory, 1) == set_hash((0, 2))


def approve_many(site_store):
    """Long entries until there is no room, then short ones until there is none for these."""
    with suppress(LedgerUnavailable):
        for i in range(100):
            site_store.ledger.approve(f"long study {i}", Measure.PURE, Q(1), "a long name " * 200)
    for i in range(100):
        site_store.ledger.approve(f"study {i}", Measure.PURE, Q(1))


def test_a_locked_file_sends_nothing(site_store, tmp_path):
    site_store._store.execute("PRAGMA busy_timeout = 0")
    other = sqlite3.connect(tmp_path / "state" / "site.db", isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    with pytest.raises(LedgerUnavailable, match="locked"):
        release(site_store, 1)
    other.execute("ROLLBACK")
    other.close()
    nothing_happened(site_store)


def test_a_file_that_is_no_database_is_not_written_to(tmp_path):
    (tmp_path / "state").mkdir()
    (tmp_path / "state" / "site.db").write_bytes(b"no database " * 1000)
    with pytest.raises(LedgerBroken, match="cannot be read"):
        open_store(tmp_path)


def test_a_directory_that_is_not_there_is_reported(tmp_path):
    with pytest.raises(LedgerUnavailable, match="directory exists"), ledger_alone(tmp_path):
        pass


def test_bytes_whose_anchor_could_not_be_written_leave_only_once_it_can(site_store, monkeypatch):
    def full(anchor, head):
        raise LedgerUnavailable("no space left")

    with monkeypatch.context() as broken:
        broken.setattr(Anchor, "append", full)
        with pytest.raises(LedgerUnavailable):
            release(site_store, 1, message=b"charged, stored and not sent")
        with pytest.raises(LedgerUnavailable):
            site_store.memory(STUDY).outbox(RUN, 1)
    kept = site_store.memory(STUDY).outbox(RUN, 1)
    assert body_of(kept.message) == b"charged, stored and not sent"
    assert site_store.ledger.spent(STUDY) == COST


# ------------------------------------------------------------------------------- files and locks
def test_only_the_owner_can_read_the_files(tmp_path):
    seen = {}

    def hook(step):
        for file in (tmp_path / "state").iterdir():
            seen[file.name] = stat.S_IMODE(file.stat().st_mode)

    site_store = started(tmp_path, hook)
    release(site_store, 1)
    seen["anchor"] = stat.S_IMODE((tmp_path / "anchor").stat().st_mode)
    site_store.close()
    assert set(seen) == {"site.db", "site.db.lock", "site.db-journal", "anchor"}
    assert set(seen.values()) == {0o600}


def test_the_file_is_synced_through_to_the_directory(site_store):
    assert site_store._store.execute("PRAGMA synchronous") == [(3,)]
    assert site_store._store.execute("PRAGMA journal_mode") == [("truncate",)]
    assert site_store._store.execute("PRAGMA secure_delete") == [(1,)]


def test_the_journal_of_a_served_file_is_empty_and_goes_with_the_service(tmp_path):
    """It had pages with the secrets of the round that the last one was written over."""
    site_store, journal = started(tmp_path), tmp_path / "state" / "site.db-journal"
    for round in (1, 2, 3):
        release(site_store, round)
        assert journal.stat().st_size == 0
    site_store.close()
    assert not journal.exists()


def test_an_answer_is_written_over_the_oldest_and_nothing_of_that_is_left(tmp_path):
    site_store = started(tmp_path)
    sizes = (40_000, 40_000, 40_000, 90_000, 30)  # as long, longer and shorter
    for round, size in enumerate(sizes, start=1):
        release(site_store, round, message=b"of round %d " % round * (size // 11))
        kept = [r for r in range(1, 6) if file_holds(tmp_path, b"of round %d" % r)]
        assert kept == list(range(max(1, round - ROUNDS_KEPT + 1), round + 1))
        assert site_store.memory(STUDY).outbox(RUN, round).header.round == round
    site_store.close()
    again = open_store(tmp_path)
    assert [r for r in range(1, 6) if again.memory(STUDY).outbox(RUN, r)] == [4, 5]
    again.close()


def rehearse(*words):
    script = Path(__file__).parents[1] / "support" / "site_store_dry_run.py"
    done = subprocess.run(
        [sys.executable, str(script), *map(str, words)],
        check=True, capture_output=True, text=True,
    )  # fmt: skip
    return json.loads(done.stdout)


def test_one_process_at_a_time_serves_from_a_vault(site_store, tmp_path):
    with pytest.raises(LedgerUnavailable, match="another process serves"):
        open_store(tmp_path)
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    assert "another process serves" in rehearse("second", elsewhere)["refusal"]


def test_a_study_can_be_approved_while_another_process_serves(site_store, tmp_path):
    with ledger_alone(tmp_path) as ledger:
        ledger.approve("new", Measure.PURE, Q(1))
        assert site_store.ledger.cap("new") == 1
        release(site_store, 1)
        assert ledger.spent(STUDY) == COST


def test_of_all_who_want_the_last_budget_exactly_one_gets_it(tmp_path):
    runners = 4
    found = rehearse("race", tmp_path, runners)
    reserved, approved = found["outcomes"][0::2], found["outcomes"][1::2]
    assert sorted(reserved) == sorted(approved) == ["refused"] * (runners - 1) + ["won"]
    assert found["spent"] == "1"


# ------------------------------------------------------------------------------------- erasure
def file_holds(directory, secret):
    return any(secret in file.read_bytes() for file in (directory / "state").iterdir())


def test_secrets_of_a_closed_run_are_gone_from_the_file(tmp_path):
    site_store = started(tmp_path)
    release(site_store, 1, message=b"the masked vector" * 1000)
    assert file_holds(tmp_path, SECRET)
    site_store.memory(STUDY).open_run(OTHER_RUN)
    site_store.close()
    assert not file_holds(tmp_path, SECRET)
    assert not file_holds(tmp_path, b"the masked vector")


def test_closing_a_study_erases_its_rounds_and_its_secret_and_stops_it(tmp_path):
    site_store = started(tmp_path)
    secret = site_store.secret(STUDY)
    release(site_store, 1)
    site_store.close_study(STUDY)
    with pytest.raises(ParameterError, match="closed"):
        release(site_store, 2)
    assert site_store.memory(STUDY).current_run() is None
    assert site_store.ledger.committed() == COST
    site_store.close()
    assert not file_holds(tmp_path, SECRET)
    assert not file_holds(tmp_path, secret)


# ------------------------------------------------------------------------------ restored copies
def test_a_restored_state_directory_does_not_serve_until_the_restore_is_declared(tmp_path):
    site_store = started(tmp_path)
    release(site_store, 1)
    site_store.close()
    shutil.copytree(tmp_path / "state", tmp_path / "backup")
    site_store = open_store(tmp_path)
    release(site_store, 2)
    site_store.close()
    shutil.rmtree(tmp_path / "state")
    shutil.copytree(tmp_path / "backup", tmp_path / "state")
    with pytest.raises(LedgerRolledBack):
        open_store(tmp_path)
    with ledger_alone(tmp_path) as ledger:
        ledger.restore()
    site_store = open_store(tmp_path)
    with pytest.raises(BudgetExceeded, match="restored"):
        release(site_store, 2)
    site_store.close()


# -------------------------------------------------------------------------------------- killing
def check_remains(found):
    """No byte left that was not charged; nothing that left was forgotten or said twice."""
    messages, sets = {}, {}
    for line in found["sent"]:
        round, what, *member = line.split(" ")
        if what == "set":
            sets[int(round)] = int(member[0])
        else:
            assert int(round) not in messages, "a round was answered with two messages"
            messages[int(round)] = f"{what} {member[0]}"
    charged = [int(name.split("/")[1]) for name in found["charged"]]
    assert len(set(charged)) == len(charged)
    assert Q(found["spent"]) == len(charged) * COST
    assert set(messages) <= set(charged)
    assert found["high_water"] == max(charged) >= max(messages)
    for round, message in found["outbox"].items():
        assert messages.get(int(round), message) == message
    for round, member in sets.items():
        assert found["sets"][str(round)] == set_hash((0, 1, member)).hex()
    return messages


def test_after_twenty_kills_every_byte_that_left_is_charged(tmp_path):
    found = rehearse("kill", tmp_path, 20, 1)
    assert len(check_remains(found)) > 10


@pytest.mark.slow
@pytest.mark.parametrize("seed", [2, 3])
def test_after_two_hundred_kills_every_byte_that_left_is_charged(tmp_path, seed):
    found = rehearse("kill", tmp_path, 200, seed)
    assert len(check_remains(found)) > 100


def test_a_site_that_sends_before_it_charges_is_caught(tmp_path):
    with pytest.raises(AssertionError):
        check_remains(rehearse("kill", tmp_path, 20, 1, 0))


# ---------------------------------------------------------------------- with the real secure sum
def test_a_secure_sum_over_vaults_survives_the_restart_of_a_site(tmp_path):
    group = secagg_dry_run.consortium(3, opened=False)
    directories = [tmp_path / str(me) for me in range(3)]
    site_stores = []
    for me, directory in enumerate(directories):
        directory.mkdir()
        site_stores.append(Site.start(group, me, directory))
    open_session(group, site_stores)
    vectors = secagg_dry_run.some_vectors(3)
    secure = group.coordinator.start(b"bundle", 3)
    requests = secure.requests()
    answers = {me: site_stores[me].answer(group, requests[me], vectors[me]) for me in requests}
    again = site_stores[1].restarted(group)
    assert again.answer(group, requests[1], vectors[1] + 1) == answers[1]
    assert again.site_store.ledger.spent(STUDY) == COST
    for masked in answers.values():
        secure.accept_masked(masked)
    secure.close()
    requests = secure.unmask()
    secure.accept_doubt(group.sites[1].unmask(requests[1]))  # the others tell it which set it is
    for me, message in secure.ask_witnesses().items():
        secure.accept_witness(group.sites[me].witness(message))
    group.sites[1].prove(secure.proofs()[1])
    for me, message in requests.items():
        secure.accept_shares(group.sites[me].unmask(message))
    assert np.array_equal(secure.opened().values, secagg_dry_run.ring_sum(vectors, range(3)))
    for served in (site_stores[0], again, site_stores[2]):
        served.site_store.close()


class Site:
    """One site of the dry run, with a store for a memory and a ledger that really charges."""

    def __init__(self, me, directory, site_store):
        self.me, self.directory, self.site_store = me, directory, site_store

    @classmethod
    def start(cls, group, me, directory):
        site_store = started(directory)
        secagg_dry_run.restarted(group, me, site_store.memory(STUDY))
        return cls(me, directory, site_store)

    def restarted(self, group):
        self.site_store.close()
        site_store = open_store(self.directory)
        secagg_dry_run.restarted(group, self.me, site_store.memory(STUDY))
        return Site(self.me, self.directory, site_store)

    def head(self):
        return self.site_store.head(STUDY)

    def answer(self, group, message, vector):
        site = group.sites[self.me]
        begun = site.begin(message)
        if isinstance(begun, bytes):
            return begun
        return self.site_store.release(
            [charge()], begun.run_id, begun.round, lambda end: site.mask(begun, vector, end)
        )


def open_session(group, served):
    messages = group.coordinator.join()
    keys = [group.sites[one.me].join(messages[one.me], one.head) for one in served]
    secagg_dry_run.bind(group, group.coordinator.open(keys))


# ------------------------------------------------------------------ rows are read outside the file
def is_free(site_store):
    """Whether another study could use the file now."""
    answers = []

    def try_it():
        free = site_store._store._lock.acquire(blocking=False)
        answers.append(free)
        if free:
            site_store._store._lock.release()

    other = threading.Thread(target=try_it)
    other.start()
    other.join()
    return answers[0]


def begun(round):
    return Fresh(RUN, b"e" * 32, round, Mode.AT_ONCE, b"", b"", (0, 1), b"r" * 32, b"c" * 32)


def test_rows_are_read_while_other_studies_may_use_the_file(site_store):
    """And masks are made inside the transaction, which is the negative control."""
    seen = {}

    def compute():
        seen["reading rows"] = is_free(site_store)
        return b"vector"

    def mask(end, computed):
        assert computed == b"vector"
        seen["masking"] = is_free(site_store)
        return record_of(1, end, b"sent")

    memory = site_store.memory(STUDY)
    assert body_of(memory.transact([charge()], begun(1), compute, mask)) == b"sent"
    assert seen == {"reading rows": True, "masking": False}


def test_no_row_is_read_for_a_round_that_the_account_has_no_room_for(site_store):
    memory, head = site_store.memory(STUDY), site_store.ledger.head()
    for cost, error in ((Q(2), BudgetExceeded),):
        with pytest.raises(error):
            memory.transact([charge(cost)], begun(1), lambda: pytest.fail("read"), record_of)
    assert site_store.ledger.head() == head
    assert site_store.ledger.spent(STUDY) == 0
    assert memory.transact([charge()], begun(1), lambda: 1, lambda end, _: record_of(1, end))
    with pytest.raises(ParameterError, match="was charged before"):
        memory.transact([charge()], begun(1), lambda: pytest.fail("read"), record_of)


def test_a_computation_that_fails_outside_the_transaction_is_charged_and_ends_the_study(site_store):
    def fail():
        raise ComputationFailed("a row")

    memory = site_store.memory(STUDY)
    with pytest.raises(ComputationFailed, match="a row"):
        memory.transact([charge()], begun(1), fail, record_of)
    assert site_store.ledger.spent(STUDY) == COST
    assert not site_store.ledger.is_open(STUDY)


def test_a_process_that_dies_while_rows_are_read_has_charged_nothing(tmp_path):
    class Killed(BaseException):
        pass

    def die():
        raise Killed

    site_store = started(tmp_path)
    with pytest.raises(Killed):
        site_store.memory(STUDY).transact([charge()], begun(1), die, record_of)
    site_store.close()
    again = open_store(tmp_path)
    assert again.ledger.spent(STUDY) == 0
    assert again.memory(STUDY).high_water(RUN) == 0
    again.close()
