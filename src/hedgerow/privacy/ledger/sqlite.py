"""A site's own ledger on disk: append-only, chained, signed, shared by all its studies.

Approving a study takes its whole cap out of the site's lifetime budget; rounds are then charged
against that cap. Charging, checking and writing are one exclusive transaction, so neither
studies nor processes can spend the same budget twice.
Rules and what a rollback can and cannot hide: docs/proofs/ledger.md.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from fractions import Fraction

from hedgerow.errors import LedgerBroken, LedgerRolledBack
from hedgerow.privacy.accounting.budget import Cost, Measure
from hedgerow.privacy.ledger.chain import Anchor, Entry, Sign, Verify
from hedgerow.privacy.ledger.charges import Charge, Receipt, study_of
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
from hedgerow.privacy.ledger.rules import Books, OpenedSet
from hedgerow.privacy.ledger.store import Store
from hedgerow.privacy.ledger.stored_chain import StoredChain


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
        self._store, self._chain = store, StoredChain(store, sign, verify, anchor)

    # ------------------------------------------------------------------------------- spending
    def set_lifetime(
        self, measure: Measure, limit: Cost, delta: Cost = Fraction(0), unit: str = ""
    ) -> None:
        """The site's own policy over all studies, in rho or in epsilon.

        In epsilon studies are pure, or count with all of their epsilon and their delta.
        """
        self._write(LifetimeSet(measure, limit, delta, unit))

    def approve(
        self, study: str, measure: Measure, cap: Cost, name: str = "", delta: Cost = Fraction(0)
    ) -> None:
        """Lets a study spend up to `cap`, all of which leaves the lifetime budget at once.

        `study` is its hash (`Study.account`); `name` is for people.
        """
        self._write(Approved(study, measure, cap, name, delta))

    def reserve(self, charges: Sequence[Charge], round_id: str) -> Receipt:
        """Charges a round; inside a transaction of the store it becomes durable with that."""
        study = study_of(charges, round_id)
        with self.current() as books:
            self._chain.append(Charged(study, round_id, tuple(charges)))
            seq, head = self._chain.end.position
            spent = books.account(study).spent
        return Receipt(study=study, round_id=round_id, seq=seq, head=head, spent=spent)

    def reserve_once(self, charges: Sequence[Charge], round_id: str) -> None:
        """Charges a round unless it was charged before, by whichever process."""
        with self.current() as books:
            if round_id not in books.account(study_of(charges, round_id)).rounds:
                self.reserve(charges, round_id)

    def open_set(self, study: str, round_id: str, members: bytes) -> OpenedSet:
        """Writes down the only set, by its hash, that this site will ever open in a round."""
        with self.current() as books:
            account = books.account(study)
            self._chain.append(SetOpened(study, round_id, members, account.spent))
            return account.sets[round_id]

    def close(self, study: str) -> None:
        """Ends a study for good; what it did not spend returns to the lifetime budget."""
        self._write(Closed(study))

    # -------------------------------------------------------------------------------- reading
    def spent(self, study: str) -> Cost:
        with self.current() as books:
            return books.account(study).spent

    def cap(self, study: str) -> Cost:
        with self.current() as books:
            return books.account(study).cap

    def is_open(self, study: str) -> bool:
        """May the study still charge? False if it was closed, or never approved."""
        with self.current() as books:
            account = books.accounts.get(study)
            return account is not None and account.open

    def committed(self) -> Cost:
        """What all studies together hold of the lifetime budget, in its measure."""
        with self.current() as books:
            return books.committed

    def opened(self, study: str, round_id: str) -> OpenedSet | None:
        """The set that was opened in a round, if any."""
        with self.current() as books:
            return books.account(study).sets.get(round_id)

    def has_charged(self, study: str) -> bool:
        """Has any round of the study been charged, or lost in a restore?"""
        with self.current() as books:
            account = books.accounts.get(study)
            return account is not None and bool(account.rounds or account.spent)

    def restored(self) -> int:
        """Number of the entry that last declared this file an older copy; 0 if none did."""
        with self.current() as books:
            return books.restored

    def entries(self) -> Iterator[tuple[Entry, Event]]:
        """All entries; they were checked when this ledger was last used."""
        for entry in self._chain.entries():
            yield entry, from_json(entry.body, self._chain.books.measure)

    def settle(self) -> None:
        """Makes sure that the anchor has what the file has, before stored bytes are sent again."""
        with self.current():
            pass

    # ---------------------------------------------------------------------------------- trust
    def head(self) -> Head:
        return self._chain.head()

    def head_at(self, seq: int) -> bytes | None:
        """The head after `seq` entries, also of entries known to be lost; None if never there."""
        return self._chain.head_at(seq)

    def meet(self, head: Head) -> None:
        """Somebody holds this head of ours: it must be on our chain."""
        self._chain.meet(head)

    def verify(self) -> None:
        """Reads everything again: links, signatures, sums, and the anchor."""
        with self._store.transaction():
            self._chain.read_again()

    def restore(self, lost: Iterable[Head] = ()) -> None:
        """Declares that this file is an older copy.

        `lost` are heads that others hold and the file does not; those of the anchor are added.
        Every study open at this time counts as fully spent until `reconcile`.
        """
        with self._store.transaction():
            self._chain.read_new()
            own = {entry.seq: entry.head for entry in self._chain.entries()}
            known = dict(lost) | self._chain.anchored()
            _require_one_history(own, known)
            strange = tuple(sorted((s, h) for s, h in known.items() if s not in own))
            self._chain.append(Restored(self._chain.end.seq, strange))

    def reconcile(self, receipts: Iterable[Receipt]) -> None:
        """Believes receipts, which the caller has verified, if no entry that was lost lacks one.

        A receipt without a round does not say what its entry was, only what was spent by then.
        """
        found = list(receipts)
        with self.current() as books:
            self._check_receipts(found, books)
            spent: dict[str, Cost] = {}
            for receipt in found:
                spent[receipt.study] = max(receipt.spent, spent.get(receipt.study, receipt.spent))
            rounds = {(r.study, r.round_id) for r in found if r.round_id}
            self._chain.append(Reconciled(tuple(sorted(spent.items())), tuple(sorted(rounds))))

    def _check_receipts(self, receipts: Iterable[Receipt], books: Books) -> None:
        """Each is of this chain, and together they tell what every lost entry was."""
        told = set()
        for receipt in receipts:
            if self.head_at(receipt.seq) or receipt.seq not in books.missing:
                self.meet((receipt.seq, receipt.head))
            if receipt.round_id:
                told.add(receipt.seq)
        unknown = books.missing - told
        if unknown:
            raise LedgerRolledBack(
                f"entries {_some(unknown)} were lost and no receipt tells what they charged; "
                "studies stay fully spent. Ask coordinators for the receipts they hold."
            )

    # ----------------------------------------------------------------------------- transactions
    @contextmanager
    def current(self) -> Iterator[Books]:
        """A transaction in which the books are those of the file, and the anchor agrees."""
        with self._store.transaction():
            self._chain.catch_up()
            yield self._chain.books

    def _write(self, event: Event) -> None:
        with self.current():
            self._chain.append(event)


def _require_one_history(own: Mapping[int, bytes], known: Mapping[int, bytes]) -> None:
    for seq, head in known.items():
        if own.get(seq, head) != head:
            raise LedgerBroken(
                f"two different entries {seq} of this ledger exist: two copies were in use and "
                "both spent. Retire this site's key; start a new ledger whose lifetime budget "
                "leaves out what both have spent."
            )


def _some(numbers: set[int]) -> str:
    shown = sorted(numbers)
    return ", ".join(map(str, shown[:5])) + (f" and {len(shown) - 5} more" if shown[5:] else "")
