"""The chain in its file: read once, checked against itself and against the anchor, appended to.

All methods but `head`, `head_at` and `meet` are called inside a transaction of the store.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import cast

from hedgerow.errors import HedgerowError, LedgerBroken, LedgerRolledBack
from hedgerow.privacy.ledger import chain
from hedgerow.privacy.ledger.chain import START, Anchor, ChainLink, Entry, Sign, Verify
from hedgerow.privacy.ledger.charges import NO_HEAD
from hedgerow.privacy.ledger.events import Event, Head, from_json
from hedgerow.privacy.ledger.rules import Books, next_seq
from hedgerow.privacy.ledger.store import Store

LAYOUT = (
    "CREATE TABLE ledger (seq INTEGER PRIMARY KEY, body TEXT NOT NULL, "
    "head BLOB NOT NULL, signature BLOB NOT NULL)",
    "CREATE TRIGGER ledger_keeps_entries BEFORE UPDATE ON ledger "
    "BEGIN SELECT RAISE(ABORT, 'the ledger is append-only'); END",
    "CREATE TRIGGER ledger_loses_none BEFORE DELETE ON ledger "
    "BEGIN SELECT RAISE(ABORT, 'the ledger is append-only'); END",
)


class StoredChain:
    """`books` are what the entries up to `end` add up to."""

    def __init__(self, store: Store, sign: Sign, verify: Verify, anchor: Anchor | None) -> None:
        self._store, self._sign, self._verify, self._anchor = store, sign, verify, anchor
        self.books: Books = Books()
        self.end: ChainLink = START
        self._caught_up = 0
        self._met: dict[int, bytes] = {}
        """The last lines of the anchor, as far as they were found on this chain."""
        with store.transaction():
            for statement in LAYOUT:
                store.create(statement)

    # --------------------------------------------------------------------------------- writing
    def append(self, event: Event) -> None:
        """Rules first, then the row; the anchor follows once the row is durable."""
        self.books.apply(event)
        seq = next_seq(self.end.seq, event)
        entry = chain.seal_entry(seq, self.end, event, self._sign)
        self.end = self.end.after(entry)  # if the row cannot be written, all is read again
        self._store.execute(
            "INSERT INTO ledger VALUES (?, ?, ?, ?)",
            entry.seq, entry.body, entry.head, entry.signature,
        )  # fmt: skip
        self._store.after_commit(self._raise_anchor)

    # --------------------------------------------------------------------------------- reading
    def catch_up(self) -> None:
        """Makes the books agree with the file, and the file with the anchor.

        Once a transaction: until it ends nobody else can write.
        """
        if self._caught_up != self._store.transactions:
            self.read_new()
            self._check_anchor()
            self._caught_up = self._store.transactions

    def read_again(self) -> None:
        """Believes nothing that was read before, and holds every line of the anchor against it."""
        self._forget()
        self.catch_up()
        own: dict[object, object] = dict(self.books.lost_heads.items())
        own |= {seq: head for seq, head in self._store.execute("SELECT seq, head FROM ledger")}
        for head in self.anchored().items():
            if own.get(head[0]) != head[1]:
                self.meet(head)

    def read_new(self) -> None:
        """Other processes write, transactions fail: what was read may be too short or too long."""
        if self._stored_head(self.end.seq) != self.end.head:
            self._forget()
        try:
            self._take_all(self.entries(after=self.end.seq))
        except LedgerBroken:
            self._forget()
            raise

    def entries(self, after: int = 0) -> Iterator[Entry]:
        rows = self._store.execute(
            "SELECT seq, body, head, signature FROM ledger WHERE seq > ? ORDER BY seq", after
        )
        return map(_entry, rows)

    def _forget(self) -> None:
        self.books, self.end, self._caught_up, self._met = Books(), START, 0, {}

    def _take_all(self, entries: Iterable[Entry]) -> None:
        """The last entry's signature vouches for those before it, whose hashes lead to it."""
        unvouched: list[Entry] = []
        for entry in entries:
            if chain.vouches(entry, self.end):
                unvouched.clear()
            unvouched.append(entry)
            self._take(entry)
        for entry in unvouched:
            chain.check_signature(entry, self._verify)

    def _take(self, entry: Entry) -> None:
        try:
            event = from_json(entry.body, self.books.measure)
            chain.check_seq(entry, next_seq(self.end.seq, event))
            self.books.apply(event)
        except LedgerBroken:
            raise
        except HedgerowError as error:
            raise LedgerBroken(
                f"entry {entry.seq} of the ledger breaks its own rules: {error}"
            ) from error
        self.end = self.end.after(entry)

    # ----------------------------------------------------------------------------------- heads
    def head(self) -> Head:
        found = self._store.execute("SELECT seq, head FROM ledger ORDER BY seq DESC LIMIT 1")
        return cast(Head, found[0]) if found else START.position

    def head_at(self, seq: int) -> bytes | None:
        """The head after `seq` entries, also of entries known to be lost; None if never there."""
        if seq == 0:
            return NO_HEAD
        stored = self._stored_head(seq)
        return stored if stored != NO_HEAD else self.books.lost_heads.get(seq)

    def meet(self, head: Head) -> None:
        """Somebody holds this head of ours: it must be on our chain."""
        if self.head_at(head[0]) != head[1]:
            raise LedgerRolledBack(
                f"somebody holds entry {head[0]} of this ledger, and this file "
                f"{_relation(head[0], self.head()[0])}. It is an older or another copy; nothing "
                "may be charged to it. Find the newest copy, or declare the restore."
            )

    def anchored(self) -> dict[int, bytes]:
        """Every head of an entry that the anchor was told of."""
        heads = self._anchor.heads() if self._anchor else {}
        return {seq: head for seq, head in heads.items() if seq}

    def _stored_head(self, seq: int) -> bytes:
        found = self._store.execute("SELECT head FROM ledger WHERE seq = ?", seq)
        return cast(bytes, found[0][0]) if found else NO_HEAD

    def _check_anchor(self) -> None:
        if self._anchor is None:
            return
        latest = self._anchor.latest()
        if not latest and not self.end.seq:  # before the first entry: another process may see it
            self._anchor.append(START.position)
        for head in latest.items():
            if self._met.get(head[0]) != head[1]:
                self.meet(head)
        self._met = latest
        if not latest and self.end.seq > 1:
            raise LedgerRolledBack(
                "the anchor of this ledger is missing, so an older copy could not be told from "
                "the newest. Bring the anchor back, or declare the restore."
            )
        self._store.after_commit(self._raise_anchor)

    def _raise_anchor(self) -> None:
        """Also heals an anchor that a crash left one entry behind."""
        if self._anchor is not None and self.end.seq > max(self._met, default=0):
            self._anchor.append(self.end.position)
            self._met[self.end.seq] = self.end.head


def _entry(row: tuple[object, ...]) -> Entry:
    if tuple(map(type, row)) != (int, str, bytes, bytes):
        raise LedgerBroken(f"entry {row[0]!r} of the ledger is not what was written.")
    return Entry(*cast(tuple[int, str, bytes, bytes], row))


def _relation(seq: int, end: int) -> str:
    return f"ends at {end}" if seq > end else f"has another entry {seq}"
