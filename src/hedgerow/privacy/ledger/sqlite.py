"""A site's own ledger on disk: append-only, chained, signed, shared by all its studies.

Approving a study takes its whole cap out of the site's lifetime budget; rounds are then charged
against that cap. Charging, checking and writing are one exclusive transaction, so neither
studies nor processes can spend the same budget twice.
Rules and what a rollback can and cannot hide: docs/proofs/ledger.md.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import cast

from hedgerow.errors import HedgerowError, LedgerBroken, LedgerRolledBack
from hedgerow.privacy.accounting.budget import Cost, Measure
from hedgerow.privacy.ledger import chain
from hedgerow.privacy.ledger.chain import START, Entry, Sign, Verify
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
from hedgerow.privacy.ledger.head_file import Anchor
from hedgerow.privacy.ledger.rules import Account, Books, OpenedSet, next_seq
from hedgerow.privacy.ledger.store import Store

LAYOUT = (
    "CREATE TABLE ledger (seq INTEGER PRIMARY KEY, body TEXT NOT NULL, "
    "head BLOB NOT NULL, signature BLOB NOT NULL)",
    "CREATE TRIGGER ledger_keeps_entries BEFORE UPDATE ON ledger "
    "BEGIN SELECT RAISE(ABORT, 'the ledger is append-only'); END",
    "CREATE TRIGGER ledger_loses_none BEFORE DELETE ON ledger "
    "BEGIN SELECT RAISE(ABORT, 'the ledger is append-only'); END",
)


class SqliteLedger:
    """`sign` and `verify` are the site's own key; `anchor` is outside the backed-up directory."""

    def __init__(
        self,
        store: Store,
        *,
        sign: Sign,
        verify: Verify,
        anchor: Anchor | None = None,
    ) -> None:
        self._store, self._sign, self._verify, self._anchor = store, sign, verify, anchor
        self._books, self._end = Books(), START
        self._caught_up = 0
        with store.transaction():
            for statement in LAYOUT:
                store.create(statement)

    # ------------------------------------------------------------------------------- spending
    def set_lifetime(self, measure: Measure, limit: Cost) -> None:
        """The site's own policy over all studies, in epsilon (pure studies only) or in rho."""
        self._write(LifetimeSet(measure, limit))

    def approve(self, study: str, measure: Measure, cap: Cost, name: str = "") -> None:
        """Lets a study spend up to `cap`, all of which leaves the lifetime budget at once.

        `study` is its hash (`Study.account`); `name` is for people.
        """
        self._write(Approved(study, measure, cap, name))

    def reserve(self, charges: Sequence[Charge], round_id: str) -> Receipt:
        """Charges a round; inside a transaction of the store it becomes durable with that."""
        study = study_of(charges, round_id)
        self._write(Charged(study, round_id, tuple(charges)))
        seq, head = self._end.position
        spent = self._account(study).spent
        return Receipt(study=study, round_id=round_id, seq=seq, head=head, spent=spent)

    def open_set(self, study: str, round_id: str, members: bytes) -> OpenedSet:
        """Writes down the only set, by its hash, that this site will ever open in a round."""
        with self._store.transaction():
            self._catch_up()
            account = self._account(study)
            self._append(SetOpened(study, round_id, members, account.spent))
            return account.sets[round_id]

    def close(self, study: str) -> None:
        """Ends a study for good; what it did not spend returns to the lifetime budget."""
        self._write(Closed(study))

    # -------------------------------------------------------------------------------- reading
    def spent(self, study: str) -> Cost:
        with self._store.transaction():
            self._catch_up()
            return self._account(study).spent

    def opened(self, study: str, round_id: str) -> OpenedSet | None:
        """The set that was opened in a round, if any."""
        with self._store.transaction():
            self._catch_up()
            return self._account(study).sets.get(round_id)

    def has_charged(self, study: str) -> bool:
        """Has any round of the study been charged, or lost in a restore?"""
        with self._store.transaction():
            self._catch_up()
            account = self._books.accounts.get(study)
            return account is not None and bool(account.rounds or account.spent)

    def restored(self) -> int:
        """Number of the entry that last declared this file an older copy; 0 if none did."""
        with self._store.transaction():
            self._catch_up()
            return self._books.restored

    def cap(self, study: str) -> Cost:
        with self._store.transaction():
            self._catch_up()
            return self._account(study).cap

    def committed(self) -> Cost:
        """What all studies together hold of the lifetime budget, in its measure."""
        with self._store.transaction():
            self._catch_up()
            return self._books.committed

    def entries(self) -> Iterator[tuple[Entry, Event]]:
        """All entries; they have been checked when this ledger was last used."""
        for entry in self._entries(after=0):
            yield entry, from_json(entry.body, self._books.measure)

    def settle(self) -> None:
        """Makes sure that the anchor has what the file has, before stored bytes are sent again."""
        with self._store.transaction():
            self._catch_up()

    # ---------------------------------------------------------------------------------- trust
    def head(self) -> Head:
        found = self._store.execute("SELECT seq, head FROM ledger ORDER BY seq DESC LIMIT 1")
        return cast(Head, found[0]) if found else START.position

    def head_at(self, seq: int) -> bytes | None:
        """The head after `seq` entries, also of entries known to be lost; None if never there."""
        if seq == 0:
            return NO_HEAD
        found = self._store.execute("SELECT head FROM ledger WHERE seq = ?", seq)
        return cast(bytes, found[0][0]) if found else self._books.lost_heads.get(seq)

    def meet(self, head: Head) -> None:
        """Somebody holds this head of ours: it must be on our chain."""
        if self.head_at(head[0]) != head[1]:
            raise LedgerRolledBack(
                f"somebody holds entry {head[0]} of this ledger, and this file "
                f"{_relation(head[0], self.head()[0])}. It is an older or another copy; nothing "
                "may be charged to it. Find the newest copy, or declare the restore."
            )

    def verify(self) -> None:
        """Reads everything again: links, signatures, sums, and the anchor."""
        with self._store.transaction():
            self._books, self._end, self._caught_up = Books(), START, 0
            self._catch_up()

    def restore(self, lost: Iterable[Head] = ()) -> None:
        """Declares that this file is an older copy.

        `lost` are heads that others hold and the file does not; those of the anchor are added.
        Every study open at this time counts as fully spent until `reconcile`.
        """
        with self._store.transaction():
            self._read_new()
            own = {entry.seq: entry.head for entry in self._entries(after=0)}
            known = dict(lost) | (self._anchor.heads() if self._anchor else {})
            for seq, head in known.items():
                if own.get(seq, head) != head:
                    raise LedgerBroken(
                        f"two different entries {seq} of this ledger exist: two copies were in "
                        "use and both spent. Retire this site's key; start a new ledger whose "
                        "lifetime budget leaves out what both have spent."
                    )
            strange = tuple(sorted((s, h) for s, h in known.items() if s not in own))
            self._append(Restored(self._end.seq, strange))

    def reconcile(self, receipts: Iterable[Receipt]) -> None:
        """Believes receipts, which the caller has verified, if no entry that was lost lacks one.

        A receipt without a round does not say what its entry was, only what was spent by then.
        """
        with self._store.transaction():
            self._catch_up()
            found = list(receipts)
            self._check_receipts(found)
            spent: dict[str, Cost] = {}
            for receipt in found:
                spent[receipt.study] = max(receipt.spent, spent.get(receipt.study, receipt.spent))
            rounds = {(r.study, r.round_id) for r in found if r.round_id}
            self._append(Reconciled(tuple(sorted(spent.items())), tuple(sorted(rounds))))

    def _check_receipts(self, receipts: Iterable[Receipt]) -> None:
        """Each is of this chain, and together they tell what every lost entry was."""
        told = set()
        for receipt in receipts:
            if self.head_at(receipt.seq) or receipt.seq not in self._books.missing:
                self.meet((receipt.seq, receipt.head))
            if receipt.round_id:
                told.add(receipt.seq)
        unknown = self._books.missing - told
        if unknown:
            raise LedgerRolledBack(
                f"entries {_some(unknown)} were lost and no receipt tells what they charged; "
                "studies stay fully spent. Ask coordinators for the receipts they hold."
            )

    # ------------------------------------------------------------------------------- the chain
    def _account(self, study: str) -> Account:
        return self._books.account(study)

    def _write(self, event: Event) -> None:
        with self._store.transaction():
            self._catch_up()
            self._append(event)

    def _append(self, event: Event) -> None:
        """Rules first, then the row; the anchor follows once the row is durable."""
        self._books.apply(event)
        seq = next_seq(self._end.seq, event)
        entry = chain.seal_entry(seq, self._end, event, self._sign)
        self._end = self._end.after(entry)  # if the row cannot be written, all is read again
        self._store.execute(
            "INSERT INTO ledger VALUES (?, ?, ?, ?)",
            entry.seq, entry.body, entry.head, entry.signature,
        )  # fmt: skip
        self._store.after_commit(self._raise_anchor)

    def _catch_up(self) -> None:
        """Makes the books agree with the file, and the file with the anchor.

        Once a transaction: until it ends nobody else can write.
        """
        if self._caught_up != self._store.transactions:
            self._read_new()
            self._check_anchor()
            self._caught_up = self._store.transactions

    def _read_new(self) -> None:
        """Other processes write, transactions fail: what was read may be too short or too long."""
        if self._stored_head(self._end.seq) != self._end.head:
            self._books, self._end = Books(), START
        try:
            self._take_all(self._entries(after=self._end.seq))
        except LedgerBroken:
            self._books, self._end = Books(), START  # nothing of it is believed
            raise

    def _take_all(self, entries: Iterable[Entry]) -> None:
        """The last entry's signature vouches for those before it, whose hashes lead to it."""
        unvouched: list[Entry] = []
        for entry in entries:
            if chain.vouches(entry, self._end):
                unvouched.clear()
            unvouched.append(entry)
            self._take(entry)
        for entry in unvouched:
            chain.check_signature(entry, self._verify)

    def _take(self, entry: Entry) -> None:
        try:
            event = from_json(entry.body, self._books.measure)
            chain.check_seq(entry, next_seq(self._end.seq, event))
            self._books.apply(event)
        except LedgerBroken:
            raise
        except HedgerowError as error:
            raise LedgerBroken(
                f"entry {entry.seq} of the ledger breaks its own rules: {error}"
            ) from error
        self._end = self._end.after(entry)

    def _entries(self, after: int) -> Iterator[Entry]:
        rows = self._store.execute(
            "SELECT seq, body, head, signature FROM ledger WHERE seq > ? ORDER BY seq", after
        )
        return map(_entry, rows)

    def _stored_head(self, seq: int) -> bytes:
        found = self._store.execute("SELECT head FROM ledger WHERE seq = ?", seq)
        return cast(bytes, found[0][0]) if found else NO_HEAD

    def _check_anchor(self) -> None:
        if self._anchor is None:
            return
        latest = self._anchor.latest()
        for head in latest.items():
            self.meet(head)
        if not latest and self._end.seq > 1:
            raise LedgerRolledBack(
                "the anchor of this ledger is missing, so an older copy could not be told from "
                "the newest. Bring the anchor back, or declare the restore."
            )
        self._store.after_commit(self._raise_anchor)

    def _raise_anchor(self) -> None:
        """Also heals an anchor that a crash left one entry behind."""
        if self._anchor is not None and self._end.seq > max(self._anchor.latest(), default=0):
            self._anchor.append(self._end.position)


def _entry(row: tuple[object, ...]) -> Entry:
    if tuple(map(type, row)) != (int, str, bytes, bytes):
        raise LedgerBroken(f"entry {row[0]!r} of the ledger is not what was written.")
    return Entry(*cast(tuple[int, str, bytes, bytes], row))


def _relation(seq: int, end: int) -> str:
    return f"ends at {end}" if seq > end else f"has another entry {seq}"


def _some(numbers: set[int]) -> str:
    shown = sorted(numbers)
    return ", ".join(map(str, shown[:5])) + (f" and {len(shown) - 5} more" if shown[5:] else "")
