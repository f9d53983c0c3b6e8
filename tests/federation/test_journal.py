"""A coordinator's journal keeps sums as they were, in few bytes."""

from __future__ import annotations

from contextlib import closing
from fractions import Fraction

import numpy as np
import pytest

from hedgerow.deployment.run_folder import coordinator_of
from hedgerow.federation.exchange import RetryPolicy, RoundSum, patient
from hedgerow.federation.journal import FileJournal, Record, RoundOutcome, narrow
from hedgerow.federation.secure_sites import SecureSites
from hedgerow.federation.server import Server
from hedgerow.privacy.ledger.charges import MemoryLedger
from hedgerow.privacy.queries import ClassCounts, SumQuery, Whole
from hedgerow.schema.regions import EVERYONE
from support.worlds import World

EDGES = [
    (1, [-128, 127]),
    (2, [-129]),
    (2, [128]),
    (2, [-(2**15), 2**15 - 1]),
    (4, [2**15]),
    (4, [-(2**31), 2**31 - 1]),
    (8, [-(2**31) - 1]),
    (8, [-(2**63), 2**63 - 1]),
    (1, []),
]


@pytest.mark.parametrize(("width", "numbers"), EDGES)
def test_a_sum_takes_as_many_bytes_as_its_largest_number_and_comes_back(tmp_path, width, numbers):
    total = np.array(numbers, np.int64)
    assert narrow(total).itemsize == width
    kept = RoundOutcome(1, 1, "digest", RoundSum(total, (), 10, 20, (0, 1)))
    journal = FileJournal(tmp_path)
    journal.add_outcome(kept, {}, {})
    journal.close()
    found = Record(tmp_path).recorded_round(1).result
    assert found.total.dtype == np.int64
    assert found.total.tolist() == numbers
    assert (found.bytes_out, found.bytes_in, found.members) == (10, 20, (0, 1))


# ------------------------------------------------------------------------------ thousands of rounds
QUERIES, ROUNDS = 40, 5000
MOST_BYTES_A_ROUND = 12_000
"""That memory may grow by: a run's record has the words of its queries."""


class KeepsMessages(FileJournal):
    """The negative control: all that came stays in memory."""

    def transcribe(self, one):
        self.__dict__.setdefault("all_rounds", []).append(one)
        super().transcribe(one)


def resident():
    with open("/proc/self/statm", encoding="ascii") as file:
        return int(file.read().split()[1]) * 4096


def grown_by(folder, rounds, kind):
    """Bytes a round that three sites and their coordinator grow by in one process."""
    folder.mkdir(exist_ok=True)
    world = World(folder, dp_model="distributed", epsilon="80")
    study, timing = world.study, RetryPolicy(world.names, world.agreed.timing)
    query = SumQuery(EVERYONE, ClassCounts(2), Whole(), Fraction(1, 2 * QUERIES * rounds))
    with closing(kind(world.folder.path)) as journal:
        identity = world.folder.identity(world.agreed)
        coordinator = coordinator_of(world.agreed, identity, journal, first_attempt=1)
        sites = SecureSites(study, coordinator, patient(world, timing), timing, journal)
        server, before = Server(study, sites, MemoryLedger(study.limit)), 0
        for number in range(rounds):
            server.ask([query] * QUERIES)
            if number == rounds // 5:
                before = resident()
        after = resident()
    world.close()
    return (after - before) / (rounds - rounds // 5)


@pytest.mark.slow
def test_memory_stays_flat_over_thousands_of_rounds(tmp_path):
    assert grown_by(tmp_path, ROUNDS, FileJournal) < MOST_BYTES_A_ROUND


@pytest.mark.slow
def test_a_journal_that_keeps_messages_is_seen_to_grow(tmp_path):
    plain, keeping = (
        grown_by(tmp_path / kind.__name__, 1500, kind) for kind in (FileJournal, KeepsMessages)
    )
    assert keeping > plain + 2_000  # three messages of a thousand bytes, and what was asked
