"""What is left of a store when the power goes: a disk that forgets what was not synced.

A kill of the process cannot show a missing fsync, since the operating system still has the
bytes. So SQLite writes here through a file system (apsw's VFS) that remembers, for every file,
what was synced and what was only written. At every write, sync and delete it can say what a
power loss may leave: synced content and any subset of the rest. The store is then opened from
these remains with the ordinary library.
"""

import os
import random
import shutil
import signal
import sqlite3
import sys
from contextlib import closing
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from hedgerow.errors import LedgerError
from hedgerow.federation import site_store as site_stores
from hedgerow.federation.client import refusal_code
from hedgerow.privacy.ledger.store import LedgerStore
from hedgerow.privacy.queries import ClassCounts, SumQuery, Whole
from hedgerow.schema.regions import EVERYONE
from hedgerow.secagg.keys import Identity
from hedgerow.secagg.memory import set_hash
from hedgerow.secagg.messages import Mode
from support.site_store_dry_run import (
    COST,
    IDENTITY,
    REPLY,
    RUN,
    STUDY,
    open_store,
    opened_set,
    release,
    started,
)
from support.site_stores import DurableLink
from support.worlds import TWO, sample, site_rows, study

apsw = pytest.importorskip("apsw")


@dataclass
class Content:
    """One file: what is surely on disk (None: not even its name), and what may be."""

    synced: bytes | None = None
    unsynced: list[tuple[int, bytes] | int] = field(default_factory=list)
    deleted: bool = False

    def after(self, changes) -> bytes:
        data = bytearray(self.synced or b"")
        for change in changes:
            if isinstance(change, int):
                del data[change:]
            else:
                offset, new = change
                data.extend(bytes(max(0, offset - len(data))))
                data[offset : offset + len(new)] = new
        return bytes(data)

    def sync(self) -> None:
        self.synced, self.unsynced, self.deleted = self.after(self.unsynced), [], False

    def remains(self, chance: random.Random, survive: float) -> bytes | None:
        """After a power loss, if an unsynced change survives with this probability."""
        changes = [change for change in self.unsynced if chance.random() < survive]
        if self.deleted and chance.random() < survive:
            return None
        if self.synced is None and not changes:
            return None
        return self.after(changes)


class ForgetfulDisk(apsw.VFS):
    """The ordinary file system, watched; `moment` is called at everything that happens."""

    def __init__(self, name):
        self.name, self.files, self.moment = name, {}, lambda: None
        super().__init__(name, "")

    def xOpen(self, name, flags):
        path = name.filename() if isinstance(name, apsw.URIFilename) else name
        return ForgetfulFile(self, path, flags)

    def xDelete(self, path, sync_directory):
        super().xDelete(path, sync_directory)
        if sync_directory:
            self.files.pop(path, None)
        elif path in self.files:
            self.files[path].deleted = True
        self.moment()

    def remains(self, directory, chance, survive):
        for path, content in self.files.items():
            left = content.remains(chance, survive)
            if left is not None:
                (directory / Path(path).name).write_bytes(left)


class ForgetfulFile(apsw.VFSFile):
    def __init__(self, disk, path, flags):
        super().__init__("", path, flags)
        self.disk = disk
        self.content = disk.files.setdefault(path, Content())

    def xWrite(self, data, offset):
        super().xWrite(data, offset)
        self.content.unsynced.append((offset, bytes(data)))
        self.disk.moment()

    def xTruncate(self, size):
        super().xTruncate(size)
        self.content.unsynced.append(size)
        self.disk.moment()

    def xSync(self, flags):
        super().xSync(flags)
        self.content.sync()
        self.disk.moment()


class Experiment:
    """A site that answers rounds, and the verdict on everything a power loss could leave of it."""

    def __init__(self, directory, synchronous, seed=0, journal="TRUNCATE"):
        self.site, self.remains = directory / "site", directory / "remains"
        self.site.mkdir()
        self.chance = random.Random(seed)
        self.sent, self.opened, self.tried, self.bad = {}, {}, 0, []
        self.disk = ForgetfulDisk(f"forgetful {synchronous}")
        self.site_store = self.start(synchronous, journal)

    def start(self, synchronous, journal):
        started(self.site).close()
        path = self.site / "state" / "site.db"
        self.disk.files[str(path)] = Content(synced=path.read_bytes())
        connection = apsw.Connection(str(path), vfs=self.disk.name)
        store = LedgerStore(connection)
        store.execute(f"PRAGMA synchronous = {synchronous}")
        store.execute(f"PRAGMA journal_mode = {journal}")
        return site_stores.SiteStore(
            store, IDENTITY, self.site / "anchor", sqlite3.connect(":memory:")
        )

    def run(self, rounds):
        self.disk.moment = lambda: self.lose_power(self.chance.choice([0.0, 0.5, 1.0]))
        for round in range(1, rounds + 1):
            self.sent[round] = release(self.site_store, round)
            self.lose_power(0.0)
            self.site_store.memory(STUDY).open_set(RUN, round, (0, round), REPLY)
            self.opened[round] = (0, round)
            self.lose_power(0.0)
        self.disk.moment = lambda: None
        self.site_store.close()

    def lose_power(self, survive):
        shutil.rmtree(self.remains, ignore_errors=True)
        (self.remains / "state").mkdir(parents=True)
        self.disk.remains(self.remains / "state", self.chance, survive)
        shutil.copy(self.site / "anchor", self.remains / "anchor")
        self.tried += 1
        try:
            self.judge()
        except (LedgerError, AssertionError) as verdict:
            self.bad.append(str(verdict))

    def judge(self):
        site_store = open_store(self.remains)
        try:
            memory = site_store.memory(STUDY)
            high_water = memory.high_water(RUN)
            assert high_water >= max(self.sent, default=0), "a round that was sent is forgotten"
            assert site_store.ledger.spent(STUDY) == high_water * COST, "rounds and charges differ"
            for round in [r for r in self.sent if r > high_water - site_stores.ROUNDS_KEPT]:
                kept = memory.outbox(RUN, round)
                assert kept is not None, "bytes that were sent are forgotten"
                assert kept.message == self.sent[round], "other bytes than those that were sent"
            for round, members in self.opened.items():
                assert opened_set(memory, round) == set_hash(members), "a set is forgotten"
        finally:
            site_store.close()


def test_power_loss_at_any_moment_forgets_nothing_that_left(tmp_path):
    experiment = Experiment(tmp_path, "EXTRA")
    experiment.run(rounds=3)
    assert experiment.bad == []
    assert experiment.tried > 60


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(1, 6))
def test_power_loss_at_any_moment_of_a_longer_run_forgets_nothing_that_left(tmp_path, seed):
    experiment = Experiment(tmp_path, "EXTRA", seed)
    experiment.run(rounds=10)
    assert experiment.bad == []


@pytest.mark.parametrize(
    ("weaker", "journal"), [("OFF", "TRUNCATE"), ("NORMAL", "TRUNCATE"), ("FULL", "DELETE")]
)
def test_a_vault_that_synced_less_would_be_caught(tmp_path, weaker, journal):
    """A journal that is deleted comes back unless its folder is synced too."""
    experiment = Experiment(tmp_path, weaker, journal=journal)
    experiment.run(rounds=1)
    assert experiment.bad


# --------------------------------------------------------------------------------------------------
# SIGKILL at every line from the hold of a charge to the reply, in a process of its own.
TRACED = ("federation/client.py", "federation/site_store.py", "secagg/client.py", "privacy/ledger/")
ROUND = [SumQuery(EVERYONE, ClassCounts(2), Whole(), Fraction(1, 10))]


def answer_one_round(folder, last_line):
    """A site that is killed at a line of its answer; how many lines there were, if it is not."""
    the_study = study(TWO, 3)
    X, y = sample(60, TWO)
    link = DurableLink(the_study, site_rows(X, y, np.arange(60) % 3, 3, TWO), folder)
    (folder / "identity").write_bytes(link.identities[0].to_bytes())
    bundle = link.sender.encode(ROUND)
    message = link.coordinator.start(bundle.questions, 2, mode=Mode.AT_ONCE).requests(
        dict.fromkeys(range(3), bundle.definitions)
    )[0]
    lines = 0

    def count(frame, event, _):
        nonlocal lines
        if not any(part in frame.f_code.co_filename for part in TRACED):
            return None
        lines += event == "line"
        if lines == last_line:
            os.kill(os.getpid(), signal.SIGKILL)
        return count

    sys.settrace(count)
    reply = link.clients[0].handle(message)
    sys.settrace(None)
    assert refusal_code(reply) is None
    (folder / "reply").write_bytes(reply)
    return lines


def killed_at(folder, last_line):
    """Whether the site was charged, whether it has an answer, whether one may have left."""
    folder.mkdir()
    child = os.fork()
    if child == 0:
        answer_one_round(folder, last_line)
        os._exit(0)
    _, status = os.waitpid(child, 0)
    was_killed = os.WIFSIGNALED(status)
    identity = Identity.from_bytes((folder / "identity").read_bytes())
    store = site_stores.SiteStore.open(folder / "site0/store.sqlite", identity, folder / "anchor0")
    with closing(store):
        store.ledger.verify()
        account = study(TWO, 3).account
        memory = store.memory(account)
        return was_killed, store.ledger.spent(account) > 0, memory.count_rounds() > 0


@pytest.mark.slow
def test_a_kill_at_any_line_charges_if_and_only_if_bytes_may_have_left(tmp_path):
    (tmp_path / "whole").mkdir()
    lines = answer_one_round(tmp_path / "whole", -1)
    assert lines > 100
    outcomes = []
    for last_line in range(1, lines, max(lines // 40, 1)):
        was_killed, is_charged, is_stored = killed_at(tmp_path / str(last_line), last_line)
        assert was_killed
        assert is_charged == is_stored
        assert is_charged or not (tmp_path / str(last_line) / "reply").exists()
        outcomes.append(is_charged)
    assert outcomes == sorted(outcomes)  # once it is charged it stays so
    assert {*outcomes} == {False, True}
