"""What a site must not forget of one study, in the file it shares with all its studies."""

from __future__ import annotations

from hedgerow.federation.store.layout import VaultTables
from hedgerow.privacy.ledger.events import short_text
from hedgerow.privacy.ledger.sqlite import SqliteLedger
from hedgerow.privacy.ledger.store import Store
from hedgerow.secagg.codes import Code, require
from hedgerow.secagg.envelope import LedgerHead, Position, SignedHead, SignedHeader
from hedgerow.secagg.memory import StoredRound, set_hash

ROUNDS_KEPT = 2
"""Records hold whole vectors and the secrets to open them; older rounds are answered for."""


def round_name(run_id: bytes, round: int) -> str:
    """A round's id in the ledger."""
    return f"{run_id.hex()}/{round}"


class PeerHeads:
    """The highest ledger head seen of each peer, in any study, with its signature.

    News is kept in memory and written with the next round: forgetting it costs evidence only.
    """

    def __init__(self, store: Store, tables: VaultTables) -> None:
        self._store, self._table = store, tables.peers
        self._news: dict[bytes, SignedHeader] = {}

    def highest(self, peer: bytes) -> Position | None:
        if peer in self._news:
            return self._news[peer].header.ledger.position
        found = self._table.get(peer)
        return None if found is None else (found[1], found[2])

    def receipt(self, peer: bytes) -> SignedHeader | None:
        """The message header that shows it; none was kept by version 1."""
        if peer in self._news:
            return self._news[peer]
        found = self._table.get(peer)
        return SignedHeader.read(found[3]) if found is not None and found[3] else None

    def receipts(self) -> dict[bytes, bytes]:
        kept = {row[0]: row[3] for row in self._table.rows() if row[3]}
        return kept | {peer: receipt.to_bytes() for peer, receipt in self._news.items()}

    def see(self, peer: bytes, receipt: SignedHeader) -> None:
        known = self.highest(peer)
        if known is None or receipt.header.ledger.position > known:
            self._news[peer] = receipt

    def write(self) -> None:
        for peer, receipt in self._news.items():
            self._table.put(peer, *receipt.header.ledger.position, receipt.to_bytes())
        self._store.after_commit(self._news.clear)


class StudyMemory:
    """What `hedgerow.secagg.client.Site` must not forget, in a file."""

    def __init__(
        self, store: Store, ledger: SqliteLedger, tables: VaultTables, peers: PeerHeads, study: str
    ) -> None:
        self._store, self._ledger, self._tables = store, ledger, tables
        self._peers, self._study = peers, study
        self._last: StoredRound | None = None
        """As it was stored by this process, which alone writes the file."""

    # ----------------------------------------------------------------------------------- runs
    def current_run(self) -> bytes | None:
        found = self._tables.runs.rows(study=self._study, open=1)
        return bytes(found[0][1]) if found else None

    def open_run(self, run_id: bytes) -> None:
        with self._store.transaction():
            found = self._tables.runs.get(self._study, run_id)
            require(found is None or found[2] == 1, Code.RUN_SUPERSEDED)
            if found is None:
                self.close_runs()
                self._tables.runs.put(self._study, run_id, 1, 0)

    def close_runs(self) -> None:
        """For good: nothing is left that could open an old round."""
        with self._store.transaction():
            self._last = None
            for study, run_id, _, high_water in self._tables.runs.rows(study=self._study, open=1):
                self._tables.runs.put(study, run_id, 0, high_water)
            self._tables.outbox.delete(study=self._study)

    def high_water(self, run_id: bytes) -> int:
        found = self._tables.runs.get(self._study, run_id)
        return int(found[3]) if found else 0

    def rounds(self) -> int:
        return sum(int(run[3]) for run in self._tables.runs.rows(study=self._study))

    # --------------------------------------------------------------------------------- rounds
    def outbox(self, run_id: bytes, round: int) -> StoredRound | None:
        """Stored bytes may leave again if the chain ends where the anchor says.

        What was stored before a restore is not answered for: a set that the lost entries opened
        could be opened a second time, with other members.
        """
        with self._store.transaction():
            record = self._stored(run_id, round)
            if record is None:
                return None
            self._ledger.settle()
            return record if record.ledger.seq > self._ledger.restored() else None

    def _stored(self, run_id: bytes, round: int) -> StoredRound | None:
        last = self._last
        if last is not None and (last.run_id, last.round) == (run_id, round):
            return last
        found = self._tables.outbox.get(self._study, run_id, round)
        return None if found is None else StoredRound.from_bytes(found[3])

    def store(self, record: StoredRound) -> None:
        with self._store.transaction():
            require(record.run_id == self.current_run(), Code.RUN_SUPERSEDED)
            require(record.round > self.high_water(record.run_id), Code.OLD_ROUND)
            self._put_in_outbox(record)
            self._tables.runs.put(self._study, record.run_id, 1, record.round)
            self._peers.write()
            self._store.after_commit(lambda: self._keep(record))

    def _keep(self, record: StoredRound) -> None:
        self._last = record

    def open_set(self, run_id: bytes, round: int, members: tuple[int, ...]) -> LedgerHead:
        name, wanted = round_name(run_id, round), set_hash(members)
        with self._store.transaction():
            found = self._ledger.opened(self._study, name)
            if found is None:
                found = self._ledger.open_set(self._study, name, wanted)
            require(found.members == wanted, Code.SECOND_SET)
            head = self._ledger.head_at(found.seq)
        return LedgerHead(found.seq, head or b"", short_text(found.spent))

    # ---------------------------------------------------------------------------------- heads
    def head_at(self, seq: int) -> bytes | None:
        return self._ledger.head_at(seq)

    def highest_head(self, peer: bytes) -> Position | None:
        return self._peers.highest(peer)

    def signed_head(self, peer: bytes) -> SignedHead | None:
        receipt = self._peers.receipt(peer)
        return None if receipt is None else receipt.signed_head

    def see_head(self, peer: bytes, receipt: SignedHeader) -> None:
        self._peers.see(peer, receipt)

    # -------------------------------------------------------------------------------- the file
    def _put_in_outbox(self, record: StoredRound) -> None:
        """Over the oldest once there are enough: to erase that first would write megabytes more."""
        row = self._study, record.run_id, record.round, record.to_bytes()
        kept = self._store.execute(
            "SELECT round FROM outbox WHERE study = ? AND run = ? ORDER BY round",
            self._study, record.run_id,
        )  # fmt: skip
        if len(kept) < ROUNDS_KEPT:
            self._tables.outbox.put(*row)
        else:
            self._tables.outbox.put_over((self._study, record.run_id, kept[0][0]), *row)
