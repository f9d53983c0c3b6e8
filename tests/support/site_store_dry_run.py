"""A small site for tests of its store, and processes that are killed while they serve from it.

Run as a script it forks children and prints what they left behind as JSON; the test process
itself, which may have threads, never forks. Nothing here is part of hedgerow.
"""

from __future__ import annotations

import json
import os
import random
import signal
import sys
from collections.abc import Callable
from contextlib import AbstractContextManager
from fractions import Fraction as Q
from pathlib import Path

from hedgerow.errors import BudgetExceeded, LedgerUnavailable
from hedgerow.federation.site_store import SiteStore, StudyStore, round_name
from hedgerow.privacy.accounting.budget import Measure
from hedgerow.privacy.ledger.charges import Charge
from hedgerow.privacy.ledger.file import open_ledger
from hedgerow.privacy.ledger.sqlite import SqliteLedger
from hedgerow.privacy.ledger.store import no_hook
from hedgerow.secagg.envelope import Author, Envelope, LedgerHead, MessageKind, SignedHeader
from hedgerow.secagg.keys import COORDINATOR, EVERYBODY, Identity
from hedgerow.secagg.memory import MemoryInRam, StoredRound
from hedgerow.secagg.messages import Mode

IDENTITY = Identity.from_bytes(bytes(range(32)))
RUN = b"run of 16 bytes."
STUDY = "a study"
COST = Q(1, 1000)
SECRET = b"own share, a secret of 32 bytes."


def open_store(directory: Path, hook: Callable[[str], None] = no_hook) -> SiteStore:
    return SiteStore.open(
        directory / "state" / "site.db", IDENTITY, directory / "anchor", hook=hook
    )


def ledger_alone(directory: Path) -> AbstractContextManager[SqliteLedger]:
    return open_ledger(directory / "state" / "site.db", IDENTITY, directory / "anchor")


def started(directory: Path, hook: Callable[[str], None] = no_hook, cap: Q = Q(1)) -> SiteStore:
    site_store = approved(directory, hook, cap)
    site_store.memory(STUDY).open_run(RUN)
    return site_store


def opened_set(memory: StudyStore | MemoryInRam, round: int) -> bytes | None:
    """The hash of the set that the site has signed or opened in a round."""
    if isinstance(memory, MemoryInRam):
        return memory._sets.get((RUN, round))
    found = memory._ledger.opened(memory._study, round_name(RUN, round))
    return None if found is None else found.members


def approved(directory: Path, hook: Callable[[str], None] = no_hook, cap: Q = Q(1)) -> SiteStore:
    site_store = open_store(directory, hook)
    site_store.ledger.set_lifetime(Measure.PURE, Q(10**6))
    site_store.ledger.approve(STUDY, Measure.PURE, cap)
    return site_store


def charge(cost: Q = COST, study: str = STUDY) -> Charge:
    return Charge((), cost, "Count of all rows", study, Measure.PURE)


def record_of(
    round: int, ledger: LedgerHead, message: bytes = b"", run: bytes = RUN
) -> StoredRound:
    body = message or b"masked " + os.urandom(8).hex().encode()
    place = run, b"e" * 32, round, COORDINATOR, ledger
    return StoredRound(
        mode=Mode.IN_TWO, request=b"r" * 32, participants=(0, 1, 2), context=b"c" * 32,
        message=Author(IDENTITY, 1, b"s" * 32).seal(MessageKind.MASKED, body, *place),
        own_share=SECRET,
        seeds={1: b"1" * 32, 2: b"2" * 32}, share_keys={1: b"3" * 32, 2: b"4" * 32},
    )  # fmt: skip


def reply(head: LedgerHead) -> bytes:
    """What a site says once a set is written down."""
    author = Author(IDENTITY, 1, b"s" * 32)
    return author.seal(MessageKind.SHARES, b"distributed", RUN, b"e" * 32, 1, COORDINATOR, head)


REPLY = MessageKind.SHARES, reply


def signed(seq: int, by: Identity = IDENTITY) -> SignedHeader:
    """A message in which somebody says that their ledger has `seq` entries."""
    author = Author(by, 1, b"s" * 32)
    ledger = LedgerHead(seq, str(seq % 10).encode() * 32, "1/2")
    message = author.seal(MessageKind.KEYS, b"", RUN, b"e" * 32, 0, EVERYBODY, ledger)
    return Envelope.parse(message).receipt


def release(site_store: SiteStore, round: int, cost: Q = COST, message: bytes = b"") -> bytes:
    return site_store.release(
        [charge(cost)], RUN, round, lambda end: record_of(round, end, message)
    )


# ---------------------------------------------------------------------------------- killing
def serve_until_killed(directory: Path, wire: int, last_step: int | None, honest: bool) -> None:
    """Rounds without end; dies by its own hand at a step, or whenever the parent says."""
    steps = iter(range(10**9))

    def hook(step: str) -> None:
        if next(steps) == last_step:
            os.kill(os.getpid(), signal.SIGKILL)

    site_store = open_store(directory, hook)
    memory = site_store.memory(STUDY)
    while True:
        round = memory.high_water(RUN) + 1
        (serve if honest else serve_too_early)(site_store, round, wire)
        memory.open_set(RUN, round, (0, 1, round % 7 + 2), REPLY)
        os.write(wire, f"{round} set {round % 7 + 2}\n".encode())


def serve(site_store: SiteStore, round: int, wire: int) -> None:
    message = release(site_store, round)
    os.write(wire, f"{round} masked {message.hex()}\n".encode())


def serve_too_early(site_store: SiteStore, round: int, wire: int) -> None:
    """The mistake the store is there to prevent: bytes leave before their charge is durable."""

    def mask(end: LedgerHead) -> StoredRound:
        record = record_of(round, end)
        os.write(wire, f"{round} masked {record.message.hex()}\n".encode())
        return record

    site_store.release([charge()], RUN, round, mask)


def killed_once(directory: Path, chance: random.Random, honest: bool) -> list[str]:
    """What reached the wire before the child died."""
    reading, writing = os.pipe()
    last_step = chance.choice([None, chance.randrange(40)])
    child = os.fork()
    if child == 0:
        os.close(reading)
        serve_until_killed(directory, writing, last_step, honest)
    os.close(writing)
    with os.fdopen(reading) as wire:
        lines = []
        if last_step is None:
            lines = [wire.readline() for _ in range(chance.randrange(1, 6))]
            os.kill(child, signal.SIGKILL)
        lines += wire.readlines()
    os.waitpid(child, 0)
    return [line.rstrip("\n") for line in lines if line.endswith("\n")]


def kill_many(directory: Path, kills: int, seed: int, honest: int = 1) -> dict[str, object]:
    """Kills and restarts one site; says what it sent and what it remembers."""
    started(directory).close()
    chance, sent = random.Random(seed), []
    for _ in range(kills):
        sent += killed_once(directory, chance, bool(honest))
    return {"sent": sent} | remembered(directory)


def remembered(directory: Path) -> dict[str, object]:
    site_store = open_store(directory)
    memory = site_store.memory(STUDY)
    entries = [event for _, event in site_store.ledger.entries()]
    charged = [e.round_id for e in entries if type(e).__name__ == "Charged"]
    top = memory.high_water(RUN)
    outbox = {r: memory.outbox(RUN, r) for r in range(max(1, top - 1), top + 1)}
    found = {
        "charged": charged,
        "spent": str(site_store.ledger.spent(STUDY)),
        "high_water": top,
        "outbox": {r: f"masked {rec.message.hex()}" for r, rec in outbox.items() if rec},
        "sets": {r: opened.hex() for r in range(1, top + 1) if (opened := opened_set(memory, r))},
    }
    site_store.close()
    return found


# ----------------------------------------------------------------------------------- racing
def race(directory: Path, runners: int) -> dict[str, object]:
    """All runners want the last budget at once; each says how it went."""
    started(directory).close()
    start, gun = os.pipe()
    finish, report = os.pipe()
    for name in range(runners):
        if os.fork() == 0:
            os.close(gun)
            os.write(report, f"{run_for_it(directory, str(name), start)}\n".encode())
            os._exit(0)
    os.close(gun)
    os.close(report)
    with os.fdopen(finish) as lines:
        words = lines.read().split()
    for _ in range(runners):
        os.wait()
    return {"outcomes": words} | remembered(directory)


def run_for_it(directory: Path, name: str, start: int) -> str:
    """Two races in one: for the last of a study's cap, and for the last of the lifetime."""
    with ledger_alone(directory) as ledger:
        os.read(start, 1)  # end of file, for all at once
        reserved = _try(lambda: ledger.reserve([charge(Q(1))], name))
        approved = _try(lambda: ledger.approve(name, Measure.PURE, Q(10**6 - 1)))
    return f"{reserved} {approved}"


def _try(act: Callable[[], object]) -> str:
    try:
        act()
    except BudgetExceeded:
        return "refused"
    return "won"


def second_server(directory: Path) -> dict[str, object]:
    """Another process tries to serve from a store that is being served from."""
    site_store = started(directory)
    reading, writing = os.pipe()
    if os.fork() == 0:
        try:
            open_store(directory)
        except LedgerUnavailable as refusal:
            os.write(writing, str(refusal).encode())
        os._exit(0)
    os.wait()
    os.close(writing)
    with os.fdopen(reading) as words:
        refusal = words.read()
    site_store.close()
    return {"refusal": refusal}


if __name__ == "__main__":
    what, where, *numbers = sys.argv[1:]
    acts = {"kill": kill_many, "race": race, "second": second_server}
    print(json.dumps(acts[what](Path(where), *map(int, numbers))))
