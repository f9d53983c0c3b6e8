"""A site's single file: its ledger, the answers it gave and the sets it opened.

Charge, round id and the complete masked message become durable in one transaction, before the
first byte leaves. Whoever asks the same again gets the stored bytes, at no charge. If the file
cannot be written nothing is sent.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import cast

from hedgerow.errors import LedgerUnavailable, PartyRefused, SpecError
from hedgerow.privacy.ledger.charges import Charge, Receipt
from hedgerow.privacy.ledger.events import Head, cost_text
from hedgerow.privacy.ledger.head_file import Anchor
from hedgerow.privacy.ledger.sqlite import SqliteLedger
from hedgerow.privacy.ledger.store import Hook, Store, connect, no_hook
from hedgerow.secagg.codes import Code, require
from hedgerow.secagg.envelope import LedgerHead, SignedHead, SignedHeader
from hedgerow.secagg.keys import Identity, verify
from hedgerow.secagg.memory import StoredRound

ROUNDS_KEPT = 2
"""Records hold whole vectors and the secrets to open them; older rounds are answered for."""

_SCHEMA = (
    "CREATE TABLE IF NOT EXISTS runs (study TEXT, run BLOB, open INTEGER, high_water INTEGER, "
    "PRIMARY KEY (study, run))",
    "CREATE TABLE IF NOT EXISTS outbox (study TEXT, run BLOB, round INTEGER, record BLOB, "
    "PRIMARY KEY (study, run, round))",
    "CREATE TABLE IF NOT EXISTS opened (study TEXT, run BLOB, round INTEGER, members TEXT, "
    "PRIMARY KEY (study, run, round))",
    "CREATE TABLE IF NOT EXISTS peers (key BLOB PRIMARY KEY, receipt BLOB)",
    "CREATE TABLE IF NOT EXISTS secrets (name TEXT PRIMARY KEY, value BLOB)",
)


@contextmanager
def open_ledger(path: Path, identity: Identity, anchor: Path) -> Iterator[SqliteLedger]:
    """The ledger alone, to read it or to approve a study while another process serves."""
    with closing(Store(connect(path))) as store:
        yield _ledger(store, identity, anchor)


class Vault:
    """The file of a site that serves. One process at a time holds it."""

    def __init__(self, store: Store, ledger: SqliteLedger, lock: sqlite3.Connection) -> None:
        self._store, self.ledger, self._lock = store, ledger, lock
        self._seen: dict[bytes, SignedHeader] = {}
        with store.transaction():
            for statement in _SCHEMA:
                store.execute(statement)
        ledger.verify()

    @classmethod
    def open(cls, path: Path, identity: Identity, anchor: Path, *, hook: Hook = no_hook) -> Vault:
        """`anchor` should lie where a restored backup does not bring it back.

        Raises LedgerRolledBack if the file is older than the anchor, LedgerBroken if its chain
        does not verify, LedgerUnavailable if another process serves from it.
        """
        with ExitStack() as opened:
            lock = opened.enter_context(closing(_exclusive(path.with_name(path.name + ".lock"))))
            store = opened.enter_context(closing(Store(connect(path), hook)))
            vault = cls(store, _ledger(store, identity, anchor), lock)
            opened.pop_all()
        return vault

    def close(self) -> None:
        self._store.close()
        self._lock.close()

    def memory(self, study: str) -> StudyMemory:
        return StudyMemory(self._store, self.ledger, study, self._seen)

    def release(
        self,
        charges: Sequence[Charge],
        run_id: bytes,
        round: int,
        mask: Callable[[LedgerHead], StoredRound],
    ) -> bytes:
        """The message to send, once its charge, its round id and itself are durable.

        `mask` gets the ledger's end after the charge and makes the record of the round. On any
        error nothing may be sent and, unless the disk failed at the very last, nothing is kept.
        """
        with self._store.transaction():
            receipt = self.ledger.reserve(charges, f"{run_id.hex()}/{round}")
            record = mask(_position(receipt))
            _check_record(record, run_id, round, receipt)
            self.memory(receipt.study).store(record)
        return record.message

    def close_study(self, study: str) -> None:
        """Ends a study: no more charges, and nothing left that could open its rounds."""
        with self._store.transaction():
            self.ledger.close(study)
            self._store.execute("UPDATE runs SET open = 0 WHERE study = ?", study)
            self._store.execute("DELETE FROM outbox WHERE study = ?", study)
            self._store.execute("DELETE FROM secrets WHERE name = ?", study)

    def secret(self, study: str) -> bytes:
        """32 bytes for the study's secret draws per record; durable before they are first seen.

        A fold that was drawn again after a restart would put a record into two folds.
        """
        with self._store.transaction():
            fresh = os.urandom(32)
            self._store.execute("INSERT OR IGNORE INTO secrets VALUES (?, ?)", study, fresh)
            found = self._store.execute("SELECT value FROM secrets WHERE name = ?", study)
        return cast(bytes, found[0][0])


class StudyMemory:
    """The vault's part for one study: what `hedgerow.secagg.site.Site` must not forget."""

    def __init__(
        self, store: Store, ledger: SqliteLedger, study: str, seen: dict[bytes, SignedHeader]
    ) -> None:
        self._store, self._ledger, self._study, self._seen = store, ledger, study, seen

    # ----------------------------------------------------------------------------------- runs
    def current_run(self) -> bytes | None:
        found = self._store.execute(
            "SELECT run FROM runs WHERE study = ? AND open = 1", self._study
        )
        return cast(bytes, found[0][0]) if found else None

    def open_run(self, run_id: bytes) -> None:
        with self._store.transaction():
            found = self._run(run_id)
            require(found is None or bool(found[0]), Code.RUN_SUPERSEDED)
            if found is None:
                self._close_run()
                self._store.execute("INSERT INTO runs VALUES (?, ?, 1, 0)", self._study, run_id)

    def high_water(self, run_id: bytes) -> int:
        found = self._run(run_id)
        return found[1] if found else 0

    # --------------------------------------------------------------------------------- rounds
    def outbox(self, run_id: bytes, round: int) -> StoredRound | None:
        """Once the anchor knows of their charge, stored bytes may leave again."""
        found = self._store.execute(
            "SELECT record FROM outbox WHERE study = ? AND run = ? AND round = ?",
            self._study, run_id, round,
        )  # fmt: skip
        if not found:
            return None
        self._ledger.settle()
        return StoredRound.from_bytes(cast(bytes, found[0][0]))

    def store(self, record: StoredRound) -> None:
        with self._store.transaction():
            require(record.run_id == self.current_run(), Code.RUN_SUPERSEDED)
            require(record.round > self.high_water(record.run_id), Code.OLD_ROUND)
            self._store.execute(
                "INSERT INTO outbox VALUES (?, ?, ?, ?)",
                self._study, record.run_id, record.round, record.to_bytes(),
            )  # fmt: skip
            self._store.execute(
                "UPDATE runs SET high_water = ? WHERE study = ? AND run = ?",
                record.round, self._study, record.run_id,
            )  # fmt: skip
            self._forget_old_rounds(record.run_id)
            self._keep_seen_heads()

    def opened_set(self, run_id: bytes, round: int) -> tuple[int, ...] | None:
        found = self._store.execute(
            "SELECT members FROM opened WHERE study = ? AND run = ? AND round = ?",
            self._study, run_id, round,
        )  # fmt: skip
        return tuple(map(int, str(found[0][0]).split())) if found else None

    def open_set(self, run_id: bytes, round: int, members: tuple[int, ...]) -> LedgerHead:
        record = self.outbox(run_id, round)
        if record is None:
            raise PartyRefused(Code.OLD_ROUND.value)
        with self._store.transaction():
            kept = self.opened_set(run_id, round)
            require(kept in (None, members), Code.SECOND_SET)
            if kept is None:
                self._store.execute(
                    "INSERT INTO opened VALUES (?, ?, ?, ?)",
                    self._study, run_id, round, " ".join(map(str, members)),
                )  # fmt: skip
        return record.ledger

    # ---------------------------------------------------------------------------------- heads
    def head_at(self, seq: int) -> bytes | None:
        return self._ledger.head_at(seq)

    def highest_head(self, peer: bytes) -> Head | None:
        seen = self._receipt(peer)
        return None if seen is None else seen.header.ledger.position

    def signed_head(self, peer: bytes) -> SignedHead | None:
        seen = self._receipt(peer)
        return None if seen is None else seen.signed_head

    def see_head(self, peer: bytes, receipt: SignedHeader) -> None:
        """Kept in memory and written with the next round: forgetting it costs evidence only."""
        known = self.highest_head(peer)
        if known is None or receipt.header.ledger.position > known:
            self._seen[peer] = receipt

    def _receipt(self, peer: bytes) -> SignedHeader | None:
        if peer in self._seen:
            return self._seen[peer]
        found = self._store.execute("SELECT receipt FROM peers WHERE key = ?", peer)
        return SignedHeader.read(cast(bytes, found[0][0])) if found else None

    # -------------------------------------------------------------------------------- the file
    def _run(self, run_id: bytes) -> tuple[int, int] | None:
        """(is it open, its high water)"""
        found = self._store.execute(
            "SELECT open, high_water FROM runs WHERE study = ? AND run = ?", self._study, run_id
        )
        return cast(tuple[int, int], found[0]) if found else None

    def _close_run(self) -> None:
        """For good: a later run takes over, and nothing is left that could open old rounds."""
        self._store.execute("UPDATE runs SET open = 0 WHERE study = ?", self._study)
        self._store.execute("DELETE FROM outbox WHERE study = ?", self._study)

    def _forget_old_rounds(self, run_id: bytes) -> None:
        rounds = self._store.execute(
            "SELECT round FROM outbox WHERE study = ? AND run = ? ORDER BY round DESC",
            self._study, run_id,
        )  # fmt: skip
        for (old,) in rounds[ROUNDS_KEPT:]:
            self._store.execute(
                "DELETE FROM outbox WHERE study = ? AND run = ? AND round = ?",
                self._study, run_id, old,
            )  # fmt: skip

    def _keep_seen_heads(self) -> None:
        for peer, receipt in self._seen.items():
            self._store.execute(
                "INSERT OR REPLACE INTO peers VALUES (?, ?)", peer, receipt.to_bytes()
            )


def _ledger(store: Store, identity: Identity, anchor: Path) -> SqliteLedger:
    def is_ours(signature: bytes, message: bytes) -> bool:
        try:
            verify(identity.public, signature, message, Code.BAD_SIGNATURE)
        except PartyRefused:
            return False
        return True

    return SqliteLedger(store, sign=identity.sign, verify=is_ours, anchor=Anchor(anchor))


def _exclusive(path: Path) -> sqlite3.Connection:
    """SQLite's own lock on a file of its own: held until closed, or until the process ends."""
    lock = connect(path, busy_seconds=0.0)
    try:
        lock.execute("PRAGMA journal_mode=OFF")
        lock.execute("BEGIN EXCLUSIVE")
    except sqlite3.OperationalError as error:
        lock.close()
        raise LedgerUnavailable(
            f"another process serves from {path.with_suffix('')}; one at a time may. "
            "Stop the other one, or wait for it."
        ) from error
    return lock


def _position(receipt: Receipt) -> LedgerHead:
    return LedgerHead(receipt.seq, receipt.head, cost_text(receipt.spent))


def _check_record(record: StoredRound, run_id: bytes, round: int, receipt: Receipt) -> None:
    asked = (run_id, round, (receipt.seq, receipt.head))
    if (record.run_id, record.round, record.ledger.position) != asked:
        raise SpecError(
            f"the masked message is of round {record.round} and not of the round {round} that was "
            "charged; nothing was kept and nothing sent."
        )
