"""A site's single file: its ledger, the answers it gave and the sets it opened.

The charge, the round id and the complete masked message become durable in one transaction, before
the first byte leaves. A repeated request gets the stored bytes, at no charge. If the file cannot be
written, nothing is sent.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack, closing
from pathlib import Path
from types import SimpleNamespace

from hedgerow.errors import ComputationFailed, LedgerBroken, ParameterError
from hedgerow.federation.client import Computation
from hedgerow.federation.policy import Volume
from hedgerow.privacy.ledger import sqlite
from hedgerow.privacy.ledger.charges import ENTRY_ID, Charge, Receipt
from hedgerow.privacy.ledger.events import cost_of_text, short_text
from hedgerow.privacy.ledger.file import exclusive, open_ledger, signed_ledger
from hedgerow.privacy.ledger.sqlite import Table
from hedgerow.privacy.ledger.store import (
    LAYOUT_VERSION,
    Hook,
    LedgerStore,
    connect,
    copy_private,
    layout_version,
    make_private,
    no_hook,
    sync_file,
)
from hedgerow.secagg.client import Fresh
from hedgerow.secagg.closing import RELEASED, Release
from hedgerow.secagg.codes import Code, require
from hedgerow.secagg.envelope import (
    LedgerHead,
    MessageKind,
    SignedHeader,
    message_digest,
)
from hedgerow.secagg.keys import COORDINATOR, Identity
from hedgerow.secagg.memory import LastWordWriter, StoredRound, Writer, set_hash

# The tables of a store file beside the ledger: columns with their types, and how many of them form
# the key of a row.
_TABLES = {
    "runs": ("study TEXT, run BLOB, open INTEGER, high_water INTEGER", 2),
    "outbox": ("study TEXT, run BLOB, round INTEGER, record BLOB", 3),
    "peers": ("peer BLOB, seq INTEGER, head BLOB, receipt BLOB", 1),
    "secrets": ("study TEXT, value BLOB", 1),
    "volumes": ("study TEXT, rounds INTEGER, sent INTEGER, written INTEGER", 1),
    "releases": (
        "study TEXT, run BLOB, round INTEGER, kind INTEGER, place INTEGER, digest BLOB",
        4,
    ),
    "last_words": ("study TEXT, message BLOB", 1),
    "forks": ("peer BLOB, evidence BLOB", 1),
}


def _names(table: str) -> tuple[str, ...]:
    return tuple(column.split()[0] for column in _TABLES[table][0].split(", "))


_STATEMENTS = tuple(
    f"CREATE TABLE {name} ({columns}, code BLOB, PRIMARY KEY ({', '.join(_names(name)[:keys])}))"
    for name, (columns, keys) in _TABLES.items()
)


def create_tables(store: LedgerStore) -> None:
    """Creates the tables of a new file, all or none; checks those of any other."""
    with store.transaction():
        if layout_version(store) == 0:
            _require_layout(store, ())
            for statement in _STATEMENTS:
                store.execute(statement)
            store.execute(f"PRAGMA user_version = {LAYOUT_VERSION}")
        _require_layout(store, _STATEMENTS)


def _require_layout(store: LedgerStore, statements: tuple[str, ...]) -> None:
    if store.layout() != {*sqlite.LAYOUT, *statements}:
        raise LedgerBroken(
            "the tables of the site's file are not those of its version; nothing was changed. "
            "Restore the last good copy, then reconcile it."
        )


# The durable state of one study, in the file of all studies of the site.

ROUNDS_KEPT = 2
"""Records that are stored: they hold whole vectors and the secrets to open them."""


def round_name(run_id: bytes, round: int) -> str:
    """A round's id in the ledger."""
    return f"{run_id.hex()}/{round}"


class PeerHeads:
    """The highest ledger head seen of each peer, in any study, with its signature.

    New heads stay in memory and are written with the next round: losing them costs evidence only.
    """

    def __init__(self, store: LedgerStore, tables: SimpleNamespace) -> None:
        self._store, self._table = store, tables.peers
        self._news: dict[bytes, SignedHeader] = {}

    def receipt(self, peer: bytes) -> SignedHeader | None:
        """The message header with the highest head."""
        if peer in self._news:
            return self._news[peer]
        result = self._table.get(peer)
        return None if result is None else SignedHeader.read(result[3])

    def see(self, peer: bytes, receipt: SignedHeader) -> None:
        if receipt.is_above(self.receipt(peer)):
            self._news[peer] = receipt

    def write(self) -> None:
        for peer, receipt in self._news.items():
            self._table.put(peer, *receipt.header.ledger.position, receipt.to_bytes())
        self._store.after_commit(self._news.clear)


_OF_A_ROUND = (*RELEASED, MessageKind.WITNESSED)
"""Messages whose ledger head is that of the entry that was written to send them."""


Observer = Callable[[Sequence[Charge], LedgerHead, StoredRound], None]
"""Sees a round in its transaction: charged and masked, not yet stored. Raising undoes all."""


def ignore_round(charges: Sequence[Charge], head: LedgerHead, record: StoredRound) -> None:
    """An observer that does nothing."""


class StudyStore:
    """The durable state of one study in the file, and the transaction of its rounds."""

    def __init__(
        self,
        site_store: SiteStore,
        store: LedgerStore,
        tables: SimpleNamespace,
        peers: PeerHeads,
        study: str,
    ) -> None:
        self._site_store, self._store, self._ledger = site_store, store, site_store.ledger
        self._tables, self._peers, self._study = tables, peers, study
        self.observer: Observer = ignore_round
        self._last: StoredRound | None = None
        """As stored by this process, the only one that writes the file."""
        self._last_word: bytes | None = None

    def current_run(self) -> bytes | None:
        result = self._tables.runs.rows(study=self._study, open=1)
        return bytes(result[0][1]) if result else None

    def open_run(self, run_id: bytes) -> None:
        with self._store.transaction():
            result = self._tables.runs.get(self._study, run_id)
            require(result is None or result[2] == 1, Code.RUN_SUPERSEDED)
            if result is None:
                self.close_runs()
                self._tables.runs.put(self._study, run_id, 1, 0)

    def close_runs(self) -> None:
        """Closes runs for good: nothing is left that could open an old round."""
        with self._store.transaction():
            self._last = None
            for study, run_id, _, high_water in self._tables.runs.rows(study=self._study, open=1):
                self._tables.runs.put(study, run_id, 0, high_water)
            self._tables.outbox.delete(study=self._study)

    def high_water(self, run_id: bytes) -> int:
        result = self._tables.runs.get(self._study, run_id)
        return int(result[3]) if result else 0

    def rounds(self) -> int:
        return sum(int(run[3]) for run in self._tables.runs.rows(study=self._study))

    def outbox(self, run_id: bytes, round: int) -> StoredRound | None:
        """Stored bytes may be sent again if the chain ends where the anchor says.

        What was stored before a restore is not sent: a set that the lost entries opened could be
        opened a second time, with other members.
        """
        with self._store.transaction():
            record = self._load(run_id, round)
            if record is None:
                return None
            self._ledger.settle()
            return record if record.header.ledger.seq > self._ledger.restored() else None

    def _load(self, run_id: bytes, round: int) -> StoredRound | None:
        last = self._last
        if last is not None and (last.header.run_id, last.header.round) == (run_id, round):
            return last
        result = self._tables.outbox.get(self._study, run_id, round)
        return None if result is None else StoredRound.from_bytes(result[3])

    def store(self, record: StoredRound) -> None:
        run_id, round = record.header.run_id, record.header.round
        with self._store.transaction():
            require(run_id == self.current_run(), Code.RUN_SUPERSEDED)
            require(round > self.high_water(run_id), Code.OLD_ROUND)
            self._put_in_outbox(run_id, round, record)
            self._tables.runs.put(self._study, run_id, 1, round)
            self._release(run_id, round, MessageKind.MASKED, record.message)
            self._peers.write()
            self._store.after_commit(lambda: self._keep(record))

    def _keep(self, record: StoredRound) -> None:
        self._last = record

    def _release(self, run_id: bytes, round: int, kind: MessageKind, message: bytes) -> None:
        """Lists a release, in the transaction that lets it leave for the first time."""
        key = self._study, run_id, round, int(kind)
        if kind in RELEASED and self._tables.releases.get(*key) is None:
            statement = "SELECT COUNT(*) FROM releases WHERE study = ? AND run = ?"
            ((place,),) = self._store.execute(statement, self._study, run_id)
            self._tables.releases.put(*key, place, message_digest(message))

    def releases(self, run_id: bytes) -> list[Release]:
        """The releases of a run, in order."""
        rows = self._tables.releases.rows(study=self._study, run=run_id)
        in_order = sorted(rows, key=lambda row: int(row[4]))
        return [Release(row[2], MessageKind(row[3]), bytes(row[5])) for row in in_order]

    def count_rounds(self) -> int:
        """Rounds released in all runs, which are those that were charged."""
        return len(self._tables.releases.rows(study=self._study, kind=int(MessageKind.MASKED)))

    def last_word(self) -> bytes | None:
        if self._last_word is None:
            result = self._tables.last_words.get(self._study)
            self._last_word = None if result is None else bytes(result[1])
        return self._last_word

    def bound_set(self, run_id: bytes, round: int) -> bytes | None:
        result = self._ledger.opened(self._study, round_name(run_id, round))
        return None if result is None else result.members

    def open_set(self, run_id: bytes, round: int, members: tuple[int, ...], reply: Writer) -> bytes:
        name, target = round_name(run_id, round), set_hash(members)
        with self._store.transaction():
            result = self._ledger.opened(self._study, name)
            if result is None:
                result = self._ledger.open_set(self._study, name, target)
            require(result.members == target, Code.SECOND_SET)
            head = self._ledger.head_at(result.seq)
            kind, make = reply
            message = make(LedgerHead(result.seq, head or b"", short_text(result.spent)))
            self._release(run_id, round, kind, message)
        return message

    def head_at(self, seq: int) -> bytes | None:
        return self._ledger.head_at(seq)

    def receipt(self, peer: bytes) -> SignedHeader | None:
        return self._peers.receipt(peer)

    def see_head(self, peer: bytes, receipt: SignedHeader) -> None:
        self._peers.see(peer, receipt)

    def fork(self, peer: bytes) -> bytes | None:
        result = self._tables.forks.get(peer)
        return None if result is None else bytes(result[1])

    def see_fork(self, peer: bytes, evidence: bytes) -> None:
        with self._store.transaction():
            if self.fork(peer) is None:
                self._tables.forks.put(peer, evidence)

    def _put_in_outbox(self, run_id: bytes, round: int, record: StoredRound) -> None:
        """Overwrites the oldest record once there are enough: erasing it first would write more."""
        row = self._study, run_id, round, record.to_bytes()
        rounds = self._store.execute(
            "SELECT round FROM outbox WHERE study = ? AND run = ? ORDER BY round",
            self._study, run_id,
        )  # fmt: skip
        if len(rounds) < ROUNDS_KEPT:
            self._tables.outbox.put(*row)
        else:
            self._tables.outbox.put_over((self._study, run_id, rounds[0][0]), *row)

    def head(self) -> LedgerHead:
        return self._site_store.head(self._study)

    def enter(self, charges: Sequence[Charge]) -> None:
        """Charges the cost of entering a study once, however often it starts."""
        self._ledger.reserve_once(charges, ENTRY_ID)

    def transact(
        self,
        charges: Sequence[Charge],
        request: Fresh,
        compute: Callable[[], Computation],
        mask: Callable[[LedgerHead, Computation], StoredRound],
    ) -> bytes:
        """Reserves the charge, reads rows, then writes the charge with the message.

        Rows are read outside the file's transaction, so other studies continue meanwhile. Nobody
        else charges this study then, since its client answers one message at a time.
        """
        self._ledger.require_room(charges, round_name(request.run_id, request.round))
        result: Computation | None = None
        failure: ComputationFailed | None = None
        try:
            result = compute()
        except ComputationFailed as error:
            failure = error

        def store_round(head: LedgerHead) -> StoredRound:
            if result is None:
                raise failure or ComputationFailed("nothing was computed.")
            record = mask(head, result)
            self.observer(charges, head, record)
            return record

        return self._site_store.release(charges, request.run_id, request.round, store_round)

    def close(self, run_id: bytes, last_word: LastWordWriter) -> bytes:
        """Closes the account and the run, and stores the last message, in one transaction."""
        with self._store.transaction():
            n_rounds, releases = self.count_rounds(), self.releases(run_id)
            self._site_store.close_study(self._study)
            message = last_word(self._site_store.head(self._study), n_rounds, releases)
            self._tables.last_words.put(self._study, message)
        return message


class SiteStore:
    """The file of a site that serves. One process at a time holds it."""

    def __init__(
        self, store: LedgerStore, identity: Identity, anchor: Path, lock: sqlite3.Connection
    ) -> None:
        layout_version(store)
        store.check()
        self.ledger = signed_ledger(store, identity, anchor)
        self._store, self._identity, self._lock = store, identity, lock
        secret = identity.derive("rows of a store")
        tables = {
            name: Table(store, name, _names(name), n, secret) for name, (_, n) in _TABLES.items()
        }
        self._tables = SimpleNamespace(**tables)
        self._peers = PeerHeads(store, self._tables)
        self._memories: dict[str, StudyStore] = {}
        create_tables(store)
        self.ledger.verify()
        for table in tables.values():
            table.check()

    @classmethod
    def open(
        cls, path: Path, identity: Identity, anchor: Path, *, hook: Hook = no_hook
    ) -> SiteStore:
        """Opens a store. `anchor` should lie where a restored backup does not replace it.

        The folder of `path` is created, for its owner alone, if it is missing. Raises
        LedgerRolledBack if the file is older than the anchor, LedgerBroken if anything in it does
        not verify, LedgerUnavailable if another process serves from it.
        """
        path = path.resolve()  # another name of the same file must find the same lock
        make_private(path.parent)
        with ExitStack() as stack:
            lock = stack.enter_context(closing(exclusive(path)))
            store = stack.enter_context(closing(LedgerStore(connect(path), hook)))
            site_store = cls(store, identity, anchor, lock)
            stack.pop_all()
        return site_store

    def close(self) -> None:
        self._store.close()
        self._lock.close()

    def memory(self, study: str) -> StudyStore:
        """The state of a study: the same object each time."""
        if study not in self._memories:
            memory = StudyStore(self, self._store, self._tables, self._peers, study)
            self._memories.setdefault(study, memory)
        return self._memories[study]

    def head(self, study: str) -> LedgerHead:
        """The end of the ledger, and the cost of the study, for KEYS."""
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

        `mask` gets the ledger's end after the charge and makes the record of the round. After an
        error nothing may be sent and, unless the disk failed at the very last, nothing is stored.
        But a failed computation stays charged, and its study is closed with that charge.
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
        """What the study has used, including one more round with `line` bytes in the log.

        For `mask`, so that it is counted if and only if the round is stored. The ledger's entry is
        as long as the line; the stored answers are counted at their limit.
        """
        with self._store.transaction():
            row = self._tables.volumes.get(study) or (study, 0, 0, 0)
            totals = row[1] + 1, row[2] + len(record.message), row[3] + 2 * line
            self._tables.volumes.put(study, *totals)
        return Volume(totals[0], totals[1], totals[2] + ROUNDS_KEPT * record.size)

    def secret(self, study: str) -> bytes:
        """32 bytes for the study's secret draws per record; durable before they are first used.

        Drawn before the study's first charge and never again: with another secret a record would be
        in two folds, and charged in one.
        """
        with self._store.transaction():
            result = self._tables.secrets.get(study)
            if result is None:
                self._require_unspent(study)
                result = study, os.urandom(32)
                self._tables.secrets.put(*result)
        return bytes(result[1])

    def close_study(self, study: str) -> None:
        """Ends a study: no more charges, and nothing left that could open its rounds.

        Repeating it changes nothing; it completes the work if only the account was closed.
        """
        with self._store.transaction():
            if self.ledger.is_open(study):
                self.ledger.close(study)
            self.memory(study).close_runs()
            self._tables.secrets.delete(study=study)
            self._tables.releases.delete(study=study)

    def _require_unspent(self, study: str) -> None:
        if self.ledger.has_charged(study):
            raise LedgerBroken(
                f"study {study[:16]!r} was charged and its secret is gone: records would be drawn "
                "into other folds than those that paid. Close it, and approve a new study."
            )

    @classmethod
    def restore(
        cls,
        backup: Path,
        path: Path,
        identity: Identity,
        anchor: Path,
        receipts: Iterable[bytes] = (),
    ) -> SiteStore:
        """Serves from a backup; studies open in it count as fully spent until `reconcile`.

        `receipts` of this site are those that others hold. With the anchor they show which entries
        the backup lacks.
        """
        headers = [_verify(item, identity) for item in receipts]
        path = path.resolve()
        make_private(path.parent)
        with closing(exclusive(path)):
            copy_private(backup, path)
            with open_ledger(path, identity, anchor) as ledger:
                ledger.restore(receipt.header.ledger.position for receipt in headers)
        return cls.open(path, identity, anchor)

    def reconcile(self, receipts: Iterable[bytes]) -> None:
        """Recovers lost entries from this site's own receipts, if there is one for each entry.

        Receipts are headers of messages that this site has signed; coordinators store them. Studies
        then continue from what they had really spent.
        """
        self.ledger.reconcile(_as_receipt(_verify(item, self._identity)) for item in receipts)


def backup_store(site_store: Path, path: Path) -> None:
    """Writes a copy for `SiteStore.restore`, also while another process serves from the store.

    Answers that could be sent again are left out.
    """
    with closing(LedgerStore(connect(site_store))) as store:
        layout_version(store)
        store.copy(path)
    with closing(LedgerStore(connect(path))) as copy:
        copy.execute("DELETE FROM outbox")
    sync_file(path)


def _verify(receipt: bytes, identity: Identity) -> SignedHeader:
    result = SignedHeader.read(receipt)
    if result.header.sender == COORDINATOR:
        raise ParameterError(
            "a coordinator's message is no receipt; give headers of site messages."
        )
    result.verify(identity.public)
    return result


def _as_receipt(message: SignedHeader) -> Receipt:
    header = message.header
    of_round = header.kind in _OF_A_ROUND
    return Receipt(
        study=header.study_hash.hex(),
        round_id=round_name(header.run_id, header.round) if of_round else "",
        seq=header.ledger.seq,
        head=header.ledger.head,
        spent=cost_of_text(header.ledger.spent),
    )


def _check_record(record: StoredRound, run_id: bytes, round: int, receipt: Receipt) -> None:
    header, place = record.header, (run_id, round, (receipt.seq, receipt.head))
    if (header.run_id, header.round, header.ledger.position) != place:
        raise ParameterError(
            f"the masked message is of round {header.round} and not of the round {round} that was "
            "charged; nothing was kept and nothing sent."
        )
