"""The state of a ledger after its events. No file, no signature: rules only.

Events pass the same rules when they are written and when they are read, so a ledger that breaks
them can be neither written nor read.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from copy import copy
from dataclasses import dataclass, field
from fractions import Fraction
from functools import singledispatchmethod

from hedgerow.errors import BudgetExceeded, ParameterError
from hedgerow.privacy.accounting import conversions
from hedgerow.privacy.accounting.budget import Cost, Measure, checked_cost
from hedgerow.privacy.ledger.charges import (
    Change,
    Tally,
    measure_of,
    readable_cost,
    require_measure,
    require_new,
    require_within,
)
from hedgerow.privacy.ledger.events import (
    Approved,
    Charged,
    Closed,
    Event,
    LifetimeSet,
    Reconciled,
    Restored,
    SetOpened,
)


@dataclass(frozen=True, slots=True)
class OpenedSet:
    """The hash of an opened set, the number of its entry, and the study's spending by then."""

    members: bytes
    seq: int
    spent: Cost


@dataclass(slots=True)
class Account:
    """The account of a study; `recovered_cost` is spending known from receipts, without regions."""

    measure: Measure
    cap: Cost
    name: str = ""
    delta: Cost = Fraction(0)
    open: bool = True
    doubtful: bool = False
    recovered_cost: Cost = Fraction(0)
    tally: Tally = field(default_factory=Tally)
    rounds: set[str] = field(default_factory=set)
    sets: dict[str, OpenedSet] = field(default_factory=dict)

    @property
    def spent(self) -> Cost:
        """The spending; all of the cap after a restore, since the file may lack charges."""
        return self.cap if self.doubtful else self.known

    @property
    def known(self) -> Cost:
        return self.recovered_cost + self.tally.total

    @property
    def reserved(self) -> Cost:
        """The part of the lifetime budget that this study occupies."""
        return self.cap if self.open else self.spent


def next_seq(seq: int, event: Event) -> int:
    """The number of the next entry; only a restore skips numbers, those that were lost."""
    return max(seq, event.last) + 1 if isinstance(event, Restored) else seq + 1


class Books:
    """The state after some events."""

    def __init__(self) -> None:
        self.seq = 0
        self.lifetime: LifetimeSet | None = None
        self.accounts: dict[str, Account] = {}
        self.lost_heads: dict[int, bytes] = {}
        self.missing: set[int] = set()
        self.restored_at = 0
        """Number of the entry that last declared this file an older copy."""

    def account(self, study: str) -> Account:
        if study not in self.accounts:
            raise ParameterError(
                f"study {study!r} is not approved at this site; approve it before it may charge."
            )
        return self.accounts[study]

    @property
    def committed(self) -> Cost:
        """The occupied lifetime budget: caps of open studies, spending of closed ones."""
        return self._total_committed(self.accounts.values())

    @property
    def failing(self) -> Cost:
        """The sum of the deltas of all studies, closed ones included."""
        return sum((account.delta for account in self.accounts.values()), Fraction(0))

    def for_trial(self) -> Books:
        """A copy that can apply limits and approvals without changing these books."""
        trial = copy(self)
        trial.accounts = dict(self.accounts)
        return trial

    def apply(self, event: Event) -> None:
        """Applies an event, or raises and changes nothing."""
        before, self.seq = self.seq, next_seq(self.seq, event)
        try:
            self._apply(event)
        except BaseException:
            self.seq = before
            raise

    @singledispatchmethod
    def _apply(self, event: Event) -> None:
        raise ParameterError(f"{event!r} is not an event of a ledger.")

    @_apply.register
    def _(self, event: LifetimeSet) -> None:
        checked_cost(event.limit)
        checked_cost(event.delta)
        if event.measure is Measure.GDP:
            raise ParameterError("a lifetime budget counts in epsilon or in rho; use one of these.")
        if self.accounts and self.lifetime and event.measure is not self.lifetime.measure:
            raise ParameterError(
                f"the lifetime budget counts in {self.lifetime.measure.value} and studies were "
                "approved under it; keep the measure, change the limit alone."
            )
        self.lifetime = event

    @_apply.register
    def _(self, event: Approved) -> None:
        if event.study in self.accounts:
            raise ParameterError(
                f"study {event.study!r} was approved before; give a new one a new name."
            )
        cap, delta = checked_cost(event.cap), checked_cost(event.delta)
        account = Account(event.measure, cap, event.name, delta)
        if self.lifetime is None:
            raise ParameterError(
                "this site has no lifetime budget; set one before approving a study."
            )
        new_total = self._total_committed([*self.accounts.values(), account])
        if not new_total <= self.lifetime.limit:
            raise BudgetExceeded(
                f"approving study {event.study!r} would commit {readable_cost(new_total)} of the "
                f"lifetime budget; {readable_cost(self.lifetime.limit)} is allowed "
                f"({self.lifetime.measure.value}). Nothing was approved. Close finished studies, "
                "or approve a smaller one."
            )
        failing = self.failing + delta
        if not failing <= self.lifetime.delta:
            raise BudgetExceeded(
                f"approving study {event.study!r} would bring the deltas of all studies to "
                f"{readable_cost(failing)}; {readable_cost(self.lifetime.delta)} is allowed. "
                "Nothing was approved."
            )
        self.accounts[event.study] = account

    @_apply.register
    def _(self, event: Charged) -> None:
        self._add(event)
        self.account(event.study).rounds.add(event.round_id)

    def require_room(self, event: Charged) -> None:
        """Raises as `apply` would, and changes nothing."""
        self.account(event.study).tally.undo(self._add(event))

    def _add(self, event: Charged) -> list[Change]:
        """Adds charges to their account, or raises; `Tally.undo` takes the result back."""
        account = self.account(event.study)
        measure = measure_of(event.charges, event.round_id)
        require_measure(measure, account.measure, event.round_id)
        require_new(event.round_id, event.study, is_used=event.round_id in account.rounds)
        if not account.open:
            raise ParameterError(f"study {event.study!r} is closed; approve a new study.")
        changes = account.tally.add(event.charges)
        try:
            _require_certain(account, event)
            require_within(account.known, account.cap, event.study, event.round_id)
        except BudgetExceeded:
            account.tally.undo(changes)
            raise
        return changes

    @_apply.register
    def _(self, event: SetOpened) -> None:
        account = self.account(event.study)
        if event.round_id not in account.rounds or event.round_id in account.sets:
            raise ParameterError(
                f"a set of round {event.round_id!r} was opened before, or the round was never "
                "charged; a round is charged first, and opens one set."
            )
        account.sets[event.round_id] = OpenedSet(event.members, self.seq, event.spent)

    @_apply.register
    def _(self, event: Closed) -> None:
        account = self.account(event.study)
        if not account.open:
            raise ParameterError(f"study {event.study!r} is closed already.")
        account.open = False

    @_apply.register
    def _(self, event: Restored) -> None:
        self.restored_at = self.seq
        self.lost_heads |= dict(event.lost)
        self.missing |= set(range(event.after + 1, event.last + 1))
        for account in self.accounts.values():
            account.doubtful = account.doubtful or account.open

    @_apply.register
    def _(self, event: Reconciled) -> None:
        receipts = [(self.account(study), checked_cost(spent)) for study, spent in event.spent]
        used_rounds = [(self.account(study), round_id) for study, round_id in event.rounds]
        for account, spent in receipts:
            account.recovered_cost, account.tally = max(spent, account.known), Tally()
        for account, round_id in used_rounds:
            account.rounds.add(round_id)
        for account in self.accounts.values():
            account.doubtful = False
        self.missing.clear()

    def _total_committed(self, accounts: Iterable[Account]) -> Cost:
        if self.lifetime is None:
            return math.inf
        total: Cost = Fraction(0)
        for account in accounts:
            total += conversions.lifetime_cost(
                account.measure, account.reserved, self.lifetime.measure
            )
        return total


def _require_certain(account: Account, event: Charged) -> None:
    if account.doubtful:
        raise BudgetExceeded(
            f"study {event.study!r} was open when this site's files were restored; it counts as "
            "fully spent until receipts say what was lost. Nothing was charged. "
            "Reconcile the ledger, or approve a new study."
        )
