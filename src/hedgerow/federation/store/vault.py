"""A site's single file: its ledger, the answers it gave and the sets it opened.

Charge, round id and the complete masked message become durable in one transaction, before the
first byte leaves. Whoever asks the same again gets the stored bytes, at no charge. If the file
cannot be written nothing is sent.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack, closing
from pathlib import Path

from hedgerow.errors import ComputationFailed, LedgerBroken, SpecError
from hedgerow.federation.policy import Volume
from hedgerow.federation.store.layout import VaultTables, bring_up_to_date
from hedgerow.federation.store.memory import ROUNDS_KEPT, PeerHeads, StudyMemory, round_name
from hedgerow.privacy.ledger.charges import ENTRY_ID, Charge, Receipt
from hedgerow.privacy.ledger.events import cost_of_text, short_text
from hedgerow.privacy.ledger.file import exclusive, open_ledger, signed_ledger
from hedgerow.privacy.ledger.store import (
    Hook,
    Store,
    check_version,
    connect,
    copy_private,
    make_private,
    no_hook,
    sync_file,
)
from hedgerow.secagg.client import Fresh
from hedgerow.secagg.envelope import LedgerHead, MessageKind, SignedHeader
from hedgerow.secagg.keys import COORDINATOR, Identity
from hedgerow.secagg.memory import StoredRound

__all__ = ["ROUNDS_KEPT", "StudyStore", "Vault", "exclusive", "open_ledger"]

_OF_A_ROUND = (MessageKind.MASKED, MessageKind.SIGNED_SET, MessageKind.SHARES)
"""Messages whose ledger head is that of the very entry that was written to send them."""


Observer = Callable[[Sequence[Charge], LedgerHead, StoredRound], None]
"""Sees a round in its transaction: charged and masked, not yet kept. What it raises undoes all."""


def unobserved(charges: Sequence[Charge], head: LedgerHead, record: StoredRound) -> None:
    """Nobody looks."""


class StudyStore(StudyMemory):
    """One study in the vault: its memory, and the transaction of its rounds."""

    def __init__(
        self, vault: Vault, store: Store, tables: VaultTables, peers: PeerHeads, study: str
    ) -> None:
        super().__init__(store, vault.ledger, tables, peers, study)
        self._vault = vault
        self.observer: Observer = unobserved

    def head(self) -> LedgerHead:
        return self._vault.head(self._study)

    def enter(self, charges: Sequence[Charge]) -> None:
        """Charges what records pay on entering a study; however often it starts, once."""
        self._ledger.reserve_once(charges, ENTRY_ID)

    def transact(
        self, charges: Sequence[Charge], begun: Fresh, mask: Callable[[LedgerHead], StoredRound]
    ) -> bytes:
        def observed(head: LedgerHead) -> StoredRound:
            record = mask(head)
            self.observer(charges, head, record)
            return record

        return self._vault.release(charges, begun.run_id, begun.round, observed)


class Vault:
    """The file of a site that serves. One process at a time holds it."""

    def __init__(
        self, store: Store, identity: Identity, anchor: Path, lock: sqlite3.Connection
    ) -> None:
        check_version(store)
        store.check()
        self.ledger = signed_ledger(store, identity, anchor)
        self._store, self._identity, self._lock = store, identity, lock
        self._tables = VaultTables(store, identity.derive("rows of a vault"))
        self._peers = PeerHeads(store, self._tables)
        self._memories: dict[str, StudyStore] = {}
        bring_up_to_date(store, self._tables)
        self.ledger.verify()
        self._tables.check()

    @classmethod
    def open(cls, path: Path, identity: Identity, anchor: Path, *, hook: Hook = no_hook) -> Vault:
        """`anchor` should lie where a restored backup does not bring it back.

        The folder of `path` is made, for its owner alone, if it is not there. Raises
        LedgerRolledBack if the file is older than the anchor, LedgerBroken if anything in it
        does not verify, LedgerUnavailable if another process serves from it.
        """
        path = path.resolve()  # the same file by another name must meet the same lock
        make_private(path.parent)
        with ExitStack() as opened:
            lock = opened.enter_context(closing(exclusive(path)))
            store = opened.enter_context(closing(Store(connect(path), hook)))
            vault = cls(store, identity, anchor, lock)
            opened.pop_all()
        return vault

    def close(self) -> None:
        self._store.close()
        self._lock.close()

    # -------------------------------------------------------------------------------- serving
    def memory(self, study: str) -> StudyStore:
        """One for each study, however often it is asked for."""
        if study not in self._memories:
            made = StudyStore(self, self._store, self._tables, self._peers, study)
            self._memories.setdefault(study, made)
        return self._memories[study]

    def head(self, study: str) -> LedgerHead:
        """Where the ledger ends, and what the study has cost: for KEYS."""
        with self._store.transaction():
            spent = self.ledger.spent(study)
            return LedgerHead(*self.ledger.head(), short_text(spent))

    def release(
        self,
        charges: Sequence[Charge],
        run_id: bytes,
        round: int,
        mask: Callable[[LedgerHead], StoredRound],
    ) -> bytes:
        """The message to send, once its charge, its round id and itself are durable.

        `mask` gets the ledger's end after the charge and makes the record of the round. On any
        error nothing may be sent and, unless the disk failed at the very last, nothing is kept;
        but a computation that failed stays charged, and its study is closed with that charge.
        """
        with self._store.transaction():
            receipt = self.ledger.reserve(charges, round_name(run_id, round))
            try:
                record = mask(LedgerHead(receipt.seq, receipt.head, short_text(receipt.spent)))
            except ComputationFailed as error:
                failure = error
                self.close_study(receipt.study)
            else:
                _check_record(record, run_id, round, receipt)
                self.memory(receipt.study).store(record)
                return record.message
        raise failure

    def take(self, study: str, record: StoredRound, line: int) -> Volume:
        """What the study has taken with one more round, of which `line` bytes are written down.

        For `mask`, so that it is counted if and only if the round is kept. The ledger's entry says
        what the line says; stored answers are as many as are kept.
        """
        with self._store.transaction():
            row = self._tables.volumes.get(study) or (study, 0, 0, 0)
            taken = row[1] + 1, row[2] + len(record.message), row[3] + 2 * line
            self._tables.volumes.put(study, *taken)
        return Volume(taken[0], taken[1], taken[2] + ROUNDS_KEPT * len(record.to_bytes()))

    def secret(self, study: str) -> bytes:
        """32 bytes for the study's secret draws per record; durable before they are first seen.

        Drawn before the study's first charge and never again: with another secret a record
        would be in two folds, and pay in one.
        """
        with self._store.transaction():
            found = self._tables.secrets.get(study)
            if found is None:
                self._require_unspent(study)
                found = study, os.urandom(32)
                self._tables.secrets.put(*found)
        return bytes(found[1])

    def close_study(self, study: str) -> None:
        """Ends a study: no more charges, and nothing left that could open its rounds.

        Done again it changes nothing: whoever closed its account alone has it finished here.
        """
        with self._store.transaction():
            if self.ledger.is_open(study):
                self.ledger.close(study)
            self.memory(study).close_runs()
            self._tables.secrets.delete(study=study)

    def _require_unspent(self, study: str) -> None:
        if self.ledger.has_charged(study):
            raise LedgerBroken(
                f"study {study[:16]!r} was charged and its secret is gone: records would be drawn "
                "into other folds than those that paid. Close it, and approve a new study."
            )

    # --------------------------------------------------------------------------- losing the file
    def backup(self, path: Path) -> None:
        """Writes a copy from which `restore` can go on; answers that may be re-sent stay out."""
        _copy_without_answers(self._store, path)

    @classmethod
    def restore(
        cls,
        backup: Path,
        path: Path,
        identity: Identity,
        anchor: Path,
        held: Iterable[bytes] = (),
    ) -> Vault:
        """Serves from a backup; studies open in it count as fully spent until `reconcile`.

        `held` are receipts of this site that others hold. They tell, with the anchor, which
        entries the backup lacks.
        """
        receipts = [_verified(one, identity) for one in held]
        path = path.resolve()
        make_private(path.parent)
        with closing(exclusive(path)):
            copy_private(backup, path)
            with open_ledger(path, identity, anchor) as ledger:
                ledger.restore(receipt.header.ledger.position for receipt in receipts)
        return cls.open(path, identity, anchor)

    def reconcile(self, held: Iterable[bytes]) -> None:
        """Takes this site's own receipts for what was lost: with one for each entry, all is known.

        Receipts are headers of messages that this site has signed; coordinators keep them.
        Studies then go on from what they had really spent.
        """
        self.ledger.reconcile(_as_receipt(_verified(one, self._identity)) for one in held)

    def receipts(self) -> dict[bytes, bytes]:
        """By peer, its highest signed header: to be given back to it if it lost its file."""
        return self._peers.receipts()


def backup_vault(vault: Path, path: Path) -> None:
    """The same from another process, while a service holds the vault."""
    with closing(Store(connect(vault))) as store:
        check_version(store)
        _copy_without_answers(store, path)


def _copy_without_answers(store: Store, path: Path) -> None:
    store.copy(path)
    with closing(Store(connect(path))) as copied:
        copied.execute("DELETE FROM outbox")
    sync_file(path)


def _verified(receipt: bytes, identity: Identity) -> SignedHeader:
    found = SignedHeader.read(receipt)
    if found.header.sender == COORDINATOR:
        raise SpecError("a coordinator's letter is no receipt; give headers of site messages.")
    found.verify(identity.public)
    return found


def _as_receipt(signed: SignedHeader) -> Receipt:
    header = signed.header
    of_round = header.kind in _OF_A_ROUND
    return Receipt(
        study=header.study_hash.hex(),
        round_id=round_name(header.run_id, header.round) if of_round else "",
        seq=header.ledger.seq,
        head=header.ledger.head,
        spent=cost_of_text(header.ledger.spent),
    )


def _check_record(record: StoredRound, run_id: bytes, round: int, receipt: Receipt) -> None:
    asked = (run_id, round, (receipt.seq, receipt.head))
    if (record.run_id, record.round, record.ledger.position) != asked:
        raise SpecError(
            f"the masked message is of round {record.round} and not of the round {round} that was "
            "charged; nothing was kept and nothing sent."
        )
