"""A site's own ledger on disk: append-only, chained, signed, shared by all its studies.

Approving a study takes its whole cap out of the site's lifetime budget; rounds are then charged
against that cap. Charging, checking and writing are one exclusive transaction, so neither
studies nor processes can spend the same budget twice.
Rules and what a rollback can and cannot hide: docs/proofs/ledger.md.
"""

from __future__ import annotations

import hmac
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from fractions import Fraction
from typing import Any, cast

from hedgerow.errors import HedgerowError, LedgerBroken, LedgerRolledBack
from hedgerow.privacy.accounting.budget import Cost, Measure
from hedgerow.privacy.ledger import chain
from hedgerow.privacy.ledger.chain import START, Anchor, ChainLink, Entry, Sign, Verify
from hedgerow.privacy.ledger.charges import NO_HEAD, Charge, Receipt, study_of
from hedgerow.privacy.ledger.events import (
    Approved,
    Charged,
    Closed,
    Event,
    Head,
    LifetimeSet,
    Reconciled,
    Restored,
    SetOpened,
    from_json,
)
from hedgerow.privacy.ledger.rules import Books, OpenedSet, next_seq
from hedgerow.privacy.ledger.store import LedgerStore

LAYOUT = (
    "CREATE TABLE ledger (seq INTEGER PRIMARY KEY, body TEXT NOT NULL, "
    "head BLOB NOT NULL, signature BLOB NOT NULL)",
    "CREATE TRIGGER ledger_keeps_entries BEFORE UPDATE ON ledger "
    "BEGIN SELECT RAISE(ABORT, 'the ledger is append-only'); END",
    "CREATE TRIGGER ledger_loses_none BEFORE DELETE ON ledger "
    "BEGIN SELECT RAISE(ABORT, 'the ledger is append-only'); END",
)


class SqliteLedger:
    """A site's ledger; `sign` and `verify` use its key, `anchor` is outside its backups."""

    def __init__(
        self, store: LedgerStore, *, sign: Sign, verify: Verify, anchor: Anchor | None = None
    ) -> None:
        self._store, self._sign, self._verify, self._anchor = store, sign, verify, anchor
        self._books = Books()  # the state after the entries up to `_end`
        self._end: ChainLink = START
        self._caught_up = 0
        self._anchor_heads: dict[int, bytes] = {}
        """The last lines of the anchor, as far as they were verified against this chain."""
        with store.transaction():
            for statement in LAYOUT:
                store.create(statement)

    def set_lifetime(
        self, measure: Measure, limit: Cost, delta: Cost = Fraction(0), unit: str = ""
    ) -> None:
        """Sets the limit of all studies together, in rho or in epsilon.

        In epsilon, a study is pure or counts with all of its epsilon and its delta.
        """
        self._write(LifetimeSet(measure, limit, delta, unit))

    def approve(
        self, study: str, measure: Measure, cap: Cost, name: str = "", delta: Cost = Fraction(0)
    ) -> None:
        """Allows a study to spend up to `cap`, all of which leaves the lifetime budget at once.

        `study` is its hash (`Study.account`); `name` is for people.
        """
        self._write(Approved(study, measure, cap, name, delta))

    def reserve(self, charges: Sequence[Charge], round_id: str) -> Receipt:
        """Charges a round; durable with the store's transaction."""
        study = study_of(charges, round_id)
        with self.current() as books:
            self._append(Charged(study, round_id, tuple(charges)))
            seq, head = self._end.position
            spent = books.account(study).spent
        return Receipt(study=study, round_id=round_id, seq=seq, head=head, spent=spent)

    def require_room(self, charges: Sequence[Charge], round_id: str) -> None:
        """Raises if `reserve` would refuse the round now; writes nothing."""
        with self.current() as books:
            event = Charged(study_of(charges, round_id), round_id, tuple(charges))
            books.require_room(event)

    def reserve_once(self, charges: Sequence[Charge], round_id: str) -> None:
        """Charges a round unless any process charged it before."""
        with self.current() as books:
            if round_id not in books.account(study_of(charges, round_id)).rounds:
                self.reserve(charges, round_id)

    def open_set(self, study: str, round_id: str, members: bytes) -> OpenedSet:
        """Records the hash of the only set that this site will ever open in a round."""
        with self.current() as books:
            account = books.account(study)
            self._append(SetOpened(study, round_id, members, account.spent))
            return account.sets[round_id]

    def close(self, study: str) -> None:
        """Ends a study for good; its unspent budget returns to the lifetime budget."""
        self._write(Closed(study))

    def spent(self, study: str) -> Cost:
        with self.current() as books:
            return books.account(study).spent

    def cap(self, study: str) -> Cost:
        with self.current() as books:
            return books.account(study).cap

    def is_open(self, study: str) -> bool:
        """Whether the study may still charge; False if it was closed or never approved."""
        with self.current() as books:
            account = books.accounts.get(study)
            return account is not None and account.open

    def committed(self) -> Cost:
        """The part of the lifetime budget that all studies occupy, in its measure."""
        with self.current() as books:
            return books.committed

    def opened(self, study: str, round_id: str) -> OpenedSet | None:
        with self.current() as books:
            return books.account(study).sets.get(round_id)

    def has_charged(self, study: str) -> bool:
        """Whether any round of the study was charged, or lost in a restore."""
        with self.current() as books:
            account = books.accounts.get(study)
            return account is not None and bool(account.rounds or account.spent)

    def restored(self) -> int:
        """Number of the entry that last declared this file an older copy; 0 if none did."""
        with self.current() as books:
            return books.restored_at

    def entries(self) -> Iterator[tuple[Entry, Event]]:
        """All entries, as verified when this ledger was last used."""
        for entry in self._entries():
            yield entry, from_json(entry.body)

    def settle(self) -> None:
        """Brings the anchor up to the file's end, before stored bytes are sent again."""
        with self.current():
            pass

    def verify(self) -> None:
        """Reads and verifies everything again: links, signatures, sums, and the anchor."""
        with self._store.transaction():
            self._forget()
            self._catch_up()
            own: dict[object, object] = dict(self._books.lost_heads.items())
            own |= {seq: head for seq, head in self._store.execute("SELECT seq, head FROM ledger")}
            for head in self._anchored_heads().items():
                if own.get(head[0]) != head[1]:
                    self.meet(head)

    def restore(self, lost: Iterable[Head] = ()) -> None:
        """Declares that this file is an older copy.

        `lost` are heads that others hold and the file lacks; those of the anchor are added. Every
        open study counts as fully spent until `reconcile`.
        """
        with self._store.transaction():
            self._read_new()
            own = {entry.seq: entry.head for entry in self._entries()}
            known_heads = dict(lost) | self._anchored_heads()
            _require_one_history(own, known_heads)
            strange = tuple(sorted((s, h) for s, h in known_heads.items() if s not in own))
            self._append(Restored(self._end.seq, strange))

    def reconcile(self, receipts: Iterable[Receipt]) -> None:
        """Applies receipts, which the caller has verified, if they cover every lost entry.

        A receipt without a round does not describe its entry, only the spending by then.
        """
        receipt_list = list(receipts)
        with self.current() as books:
            self._check_receipts(receipt_list, books)
            spent: dict[str, Cost] = {}
            for receipt in receipt_list:
                spent[receipt.study] = max(receipt.spent, spent.get(receipt.study, receipt.spent))
            rounds = {(r.study, r.round_id) for r in receipt_list if r.round_id}
            self._append(Reconciled(tuple(sorted(spent.items())), tuple(sorted(rounds))))

    def _check_receipts(self, receipts: Iterable[Receipt], books: Books) -> None:
        """Checks that each receipt is of this chain, and that they cover every lost entry."""
        receipt_seqs = set()
        for receipt in receipts:
            if self.head_at(receipt.seq) or receipt.seq not in books.missing:
                self.meet((receipt.seq, receipt.head))
            if receipt.round_id:
                receipt_seqs.add(receipt.seq)
        unknown = books.missing - receipt_seqs
        if unknown:
            raise LedgerRolledBack(
                f"entries {_some(unknown)} were lost and no receipt tells what they charged; "
                "studies stay fully spent. Ask coordinators for the receipts they hold."
            )

    @contextmanager
    def current(self) -> Iterator[Books]:
        """A transaction in which the books match the file, and the file the anchor."""
        with self._store.transaction():
            self._catch_up()
            yield self._books

    def _write(self, event: Event) -> None:
        with self.current():
            self._append(event)

    # The chain in its file: read once, verified against itself and the anchor, appended to. All
    # methods but `head`, `head_at` and `meet` are called inside a transaction of the store.

    def _append(self, event: Event) -> None:
        """Applies the rules, then writes the row; the anchor follows once the row is durable."""
        self._books.apply(event)
        seq = next_seq(self._end.seq, event)
        entry = chain.seal_entry(seq, self._end, event, self._sign)
        self._end = self._end.after(entry)  # if the row cannot be written, everything is read again
        self._store.execute(
            "INSERT INTO ledger VALUES (?, ?, ?, ?)",
            entry.seq, entry.body, entry.head, entry.signature,
        )  # fmt: skip
        self._store.after_commit(self._raise_anchor)

    def _catch_up(self) -> None:
        """Updates the books from the file, and verifies the file against the anchor.

        Once per transaction: nobody else can write until it ends.
        """
        if self._caught_up != self._store.transactions:
            self._read_new()
            self._check_anchor()
            self._caught_up = self._store.transactions

    def _read_new(self) -> None:
        """Reads the entries of other processes; starts over if the end that was read is gone."""
        if self._stored_head(self._end.seq) != self._end.head:
            self._forget()
        last = None
        try:
            for last in self._entries(after=self._end.seq):
                chain.check_link(last, self._end)
                self._take(last)
            if last is not None:  # its signature covers all others
                chain.check_signature(last, self._verify)
        except LedgerBroken:
            self._forget()
            raise

    def _entries(self, after: int = 0) -> Iterator[Entry]:
        rows = self._store.execute(
            "SELECT seq, body, head, signature FROM ledger WHERE seq > ? ORDER BY seq", after
        )
        return map(_entry, rows)

    def _forget(self) -> None:
        self._books, self._end, self._caught_up, self._anchor_heads = Books(), START, 0, {}

    def _take(self, entry: Entry) -> None:
        try:
            event = from_json(entry.body)
            chain.check_seq(entry, next_seq(self._end.seq, event))
            self._books.apply(event)
        except LedgerBroken:
            raise
        except HedgerowError as error:
            raise LedgerBroken(
                f"entry {entry.seq} of the ledger breaks its own rules: {error}"
            ) from error
        self._end = self._end.after(entry)

    def head(self) -> Head:
        rows = self._store.execute("SELECT seq, head FROM ledger ORDER BY seq DESC LIMIT 1")
        return cast(Head, rows[0]) if rows else START.position

    def head_at(self, seq: int) -> bytes | None:
        """The head after `seq` entries, lost ones included; None if it is unknown."""
        if seq == 0:
            return NO_HEAD
        stored_head = self._stored_head(seq)
        return stored_head if stored_head != NO_HEAD else self._books.lost_heads.get(seq)

    def meet(self, head: Head) -> None:
        """Raises unless this head, which somebody else holds, is on our chain."""
        if self.head_at(head[0]) != head[1]:
            end = self.head()[0]
            state = f"ends at {end}" if head[0] > end else f"has another entry {head[0]}"
            raise LedgerRolledBack(
                f"somebody holds entry {head[0]} of this ledger, and this file {state}. It is an "
                "older or another copy; nothing may be charged to it. Find the newest copy, or "
                "declare the restore."
            )

    def _anchored_heads(self) -> dict[int, bytes]:
        heads = self._anchor.heads() if self._anchor else {}
        return {seq: head for seq, head in heads.items() if seq}

    def _stored_head(self, seq: int) -> bytes:
        rows = self._store.execute("SELECT head FROM ledger WHERE seq = ?", seq)
        return cast(bytes, rows[0][0]) if rows else NO_HEAD

    def _check_anchor(self) -> None:
        if self._anchor is None:
            return
        latest = self._anchor.latest()
        if not latest and not self._end.seq:  # before the first entry: another process may see it
            self._anchor.append(START.position)
        for head in latest.items():
            if self._anchor_heads.get(head[0]) != head[1]:
                self.meet(head)
        self._anchor_heads = latest
        if not latest and self._end.seq > 1:
            raise LedgerRolledBack(
                "the anchor of this ledger is missing, so an older copy would not be "
                "noticed. Bring the anchor back, or declare the restore."
            )
        self._store.after_commit(self._raise_anchor)

    def _raise_anchor(self) -> None:
        """Appends the end to the anchor; also repairs one that a crash left one entry behind."""
        if self._anchor is not None and self._end.seq > max(self._anchor_heads, default=0):
            self._anchor.append(self._end.position)
            self._anchor_heads[self._end.seq] = self._end.head


def _require_one_history(own: Mapping[int, bytes], known_heads: Mapping[int, bytes]) -> None:
    for seq, head in known_heads.items():
        if own.get(seq, head) != head:
            raise LedgerBroken(
                f"two different entries {seq} of this ledger exist: two copies were in use and "
                "both spent. Retire this site's key; start a new ledger whose lifetime budget "
                "leaves out what both have spent."
            )


def _some(numbers: set[int]) -> str:
    shown = sorted(numbers)
    return ", ".join(map(str, shown[:5])) + (f" and {len(shown) - 5} more" if shown[5:] else "")


def _entry(row: tuple[object, ...]) -> Entry:
    if tuple(map(type, row)) != (int, str, bytes, bytes):
        raise LedgerBroken(f"entry {row[0]!r} of the ledger is not what was written.")
    return Entry(*cast(tuple[int, str, bytes, bytes], row))


# Rows beside the ledger, each with an authentication code under a key that only the site has. The
# chain covers charges and opened sets. Other rows (runs, stored answers, heads of other sites,
# secrets) need a code: a flipped bit, or a row moved to another key, must not pass for something
# that the site wrote.

Row = tuple[Any, ...]


class Table:
    """A table with a code in each row; `columns` excludes it, the first `keys` identify a row."""

    def __init__(
        self, store: LedgerStore, name: str, columns: tuple[str, ...], keys: int, secret: bytes
    ) -> None:
        self._store, self._name, self._secret = store, name, secret
        self._columns, self._keys = columns, columns[:keys]

    def put(self, *values: object) -> None:
        """Writes a row, replacing the one with the same key."""
        marks = ", ".join("?" * (len(values) + 1))
        code = self._code(values)
        self._store.execute(f"INSERT OR REPLACE INTO {self._name} VALUES ({marks})", *values, code)

    def put_over(self, old: tuple[object, ...], *values: object) -> None:
        """Overwrites the row with the key `old`, of which nothing is left."""
        assignments = ", ".join(f"{column} = ?" for column in (*self._columns, "code"))
        where = dict(zip(self._keys, old, strict=True))
        self._store.execute(
            f"UPDATE {self._name} SET {assignments}{_condition(where)}",
            *values, self._code(values), *where.values(),
        )  # fmt: skip

    def get(self, *key: object) -> Row | None:
        rows = self.rows(**dict(zip(self._keys, key, strict=True)))
        return rows[0] if rows else None

    def rows(self, **where: object) -> list[Row]:
        """The rows with these values, in order of their keys; each is verified."""
        order, columns = ", ".join(self._keys), ", ".join((*self._columns, "code"))
        rows = self._store.execute(
            f"SELECT {columns} FROM {self._name}{_condition(where)} ORDER BY {order}",
            *where.values(),
        )
        return [self._check_row(row) for row in rows]

    def delete(self, **where: object) -> None:
        self._store.execute(f"DELETE FROM {self._name}{_condition(where)}", *where.values())

    def check(self) -> None:
        self.rows()

    def _check_row(self, row: Row) -> Row:
        *values, code = row
        if not isinstance(code, bytes) or not hmac.compare_digest(code, self._code(values)):
            raise LedgerBroken(
                f"a row of {self._name!r} is not as this site wrote it. Nothing was sent; "
                "restore the last good copy, then reconcile it."
            )
        return tuple(values)

    def _code(self, values: tuple[object, ...] | list[object]) -> bytes:
        state = hmac.new(self._secret, digestmod="sha256")
        for part in (self._name, *values):
            kind, data = _encode_value(part)
            state.update(kind + len(data).to_bytes(8, "big"))
            state.update(data)
        return state.digest()


def _condition(where: dict[str, object]) -> str:
    return " WHERE " + " AND ".join(f"{column} = ?" for column in where) if where else ""


def _encode_value(value: object) -> tuple[bytes, bytes]:
    """The kind and bytes of a value; different values have different encodings."""
    match value:
        case bytes():
            return b"b", value
        case str():
            return b"s", value.encode("utf-8", errors="surrogatepass")
        case int():
            return b"i", str(value).encode()
    return b"?", repr(value).encode()
