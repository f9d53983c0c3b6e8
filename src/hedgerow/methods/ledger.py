"""A ledger file in which the guarantees of several fits add up."""

from __future__ import annotations

import math
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path
from types import FrameType
from typing import Any

from hedgerow.errors import BudgetExceeded, ParameterError, PrivacyWarning, warn
from hedgerow.methods.constants import constant
from hedgerow.privacy.accounting.budget import Cost, Measure
from hedgerow.privacy.accounting.conversions import check_guarantee
from hedgerow.privacy.accounting.guarantee import (
    Guarantee,
    add_guarantees,
    guarantee_of_words,
    shown_cost,
    unit_words,
)
from hedgerow.privacy.accounting.rounding import format_above
from hedgerow.privacy.ledger.events import Approved, Event, LifetimeSet
from hedgerow.privacy.ledger.file import is_there, open_alone
from hedgerow.privacy.ledger.rules import Books
from hedgerow.privacy.ledger.sqlite import SqliteLedger
from hedgerow.privacy.statement.spending import Total
from hedgerow.schema.rules import exact

USUAL_LIMIT = constant(1e-5, unit="lifetime delta where nobody chose one")


@dataclass(frozen=True)
class Ledger:
    """A privacy ledger: a file in which all fits that name it add up.

    A fit is charged its whole allowance (`epsilon`, `delta`), whether it finishes or not. Fits add
    up as if all used the same records. A fit that would exceed the limit is refused.

    Parameters
    ----------
    path : str or Path
        The file; created on first use, with a key, an anchor and a lock beside it.
    epsilon : float or None, default=None
        The limit of all fits together. None sets none and keeps the file's. A limit can be
        lowered, never raised.
    delta : float, default=1e-5
        The limit for delta, used with epsilon: ten fits of the default delta.

    """

    path: str | os.PathLike[str]
    epsilon: float | None = None
    delta: float = USUAL_LIMIT

    def __post_init__(self) -> None:
        if not isinstance(self.path, str | os.PathLike) or not os.fspath(self.path):
            raise ParameterError(f"the path of a ledger is {self.path!r}; name a file.")
        if self.epsilon is not None:
            check_guarantee(exact(self.epsilon, "epsilon"), exact(self.delta, "delta"))
        elif self.delta != USUAL_LIMIT:
            raise ParameterError(f"delta is {self.delta} and epsilon None; limit both, or neither.")

    def reserve(self, guarantee: Guarantee, *, name: str, to_come: int = 0) -> Total:
        """Charges one fit; durable on return. Raises BudgetExceeded with nothing charged.

        One ledger adds up guarantees of one kind only. `to_come` is the number of fits that a
        search will make after this one: the budget must cover them too, since half a search is
        useless.
        """
        with open_alone(self._file) as ledger:
            self._begin(ledger, unit_words(guarantee.unit, guarantee.protected))
            with ledger.current() as books:
                self._lower(ledger, books)
                self._require_room(books, [guarantee] * (1 + to_come))
                fit = os.urandom(16).hex()
                ledger.approve(fit, Measure.PURE, guarantee.epsilon, name, guarantee.delta)
                return _total(books, ledger)

    def total(self) -> Total:
        """The joint guarantee of all fits so far; also checks the file."""
        with self._open() as ledger, ledger.current() as books:
            return _total(books, ledger)

    def verify(self) -> Total:
        """Verifies the whole file: links, signatures, sums and the anchor."""
        with self._open() as ledger:
            ledger.verify()
        return self.total()

    def events(self) -> list[tuple[int, Event]]:
        """Limits and fits, numbered, in order."""
        with self._open() as ledger:
            ledger.verify()
            return [(entry.seq, event) for entry, event in ledger.entries()]

    @property
    def _file(self) -> Path:
        return Path(self.path).expanduser()

    @property
    def _limits(self) -> tuple[Cost, Cost]:
        if self.epsilon is None:
            return math.inf, math.inf
        return exact(self.epsilon), exact(self.delta)

    @contextmanager
    def _open(self) -> Iterator[SqliteLedger]:
        if not is_there(self._file):
            raise ParameterError(f"there is no ledger {self.path}; name one that a fit has made.")
        with open_alone(self._file) as ledger:
            yield ledger

    def _begin(self, ledger: SqliteLedger, unit: str) -> None:
        """Writes the first entry alone, so that the anchor has it before a fit is charged."""
        with ledger.current() as books:
            if books.lifetime is None:
                limit, failing = self._limits
                ledger.set_lifetime(Measure.PURE, limit, failing, unit)
            elif books.lifetime.unit != unit:
                raise ParameterError(
                    f"the ledger {self.path} adds up guarantees to {books.lifetime.unit!r}; this "
                    f"fit makes one to {unit!r}. Nothing was released; name another ledger."
                )

    def _lower(self, ledger: SqliteLedger, books: Books) -> None:
        lifetime, (limit, failing) = _lifetime(books), self._limits
        if self.epsilon is None or (limit, failing) == (lifetime.limit, lifetime.delta):
            return
        if not (limit <= lifetime.limit and failing <= lifetime.delta):
            raise ParameterError(
                f"the ledger {self.path} has the limit "
                f"{_guarantee(lifetime.limit, lifetime.delta)}, and {_guarantee(limit, failing)} "
                "was given. A limit can be lowered, not raised; name the same or none."
            )
        ledger.set_lifetime(Measure.PURE, limit, failing, lifetime.unit)

    def _require_room(self, books: Books, to_make: Sequence[Guarantee]) -> None:
        lifetime, fits = _lifetime(books), len(to_make)
        whole = add_guarantees(_total_guarantee(books), *to_make)
        if not (whole.epsilon <= lifetime.limit and whole.delta <= lifetime.delta):
            raise BudgetExceeded(
                f"{'this fit' if fits == 1 else f'this search, with {fits} fits to make,'} would "
                f"bring the ledger {self.path} to {whole.summary} over "
                f"{len(books.accounts) + fits} fits; its limit is "
                f"{_guarantee(lifetime.limit, lifetime.delta)}. Nothing was charged and nothing "
                "released. Ask for less."
            )


def as_ledger(value: Any) -> Ledger:
    """The ledger of a path; a path sets no limit."""
    if isinstance(value, Ledger):
        return value
    if isinstance(value, str | os.PathLike) and os.fspath(value):
        return Ledger(value)
    raise ValueError


def describe_event(number: int, event: Event) -> str:
    """One line per event, for people."""
    match event:
        case LifetimeSet(_, limit, delta, unit):
            words = "no limit" if limit == math.inf else f"limit {_guarantee(limit, delta)}"
            return f"{number:>6}  {words}, for {unit}"
        case Approved(_, _, cap, name, delta):
            return f"{number:>6}  {name}: {_guarantee(cap, delta)}"
    return f"{number:>6}  {type(event).__name__}"


def _lifetime(books: Books) -> LifetimeSet:
    if books.lifetime is None:
        raise ParameterError("this ledger was never begun; fit something with it first.")
    return books.lifetime


def _total_guarantee(books: Books) -> Guarantee:
    """All fits of the ledger together."""
    return guarantee_of_words(_lifetime(books).unit, books.committed, Fraction(books.failing))


def _total(books: Books, ledger: SqliteLedger) -> Total:
    seq, head = ledger.head()
    fits = len(books.accounts)
    return Total(guarantee=_total_guarantee(books), fits=fits, entry=seq, head=head.hex())


def _guarantee(epsilon: Cost, delta: Cost) -> str:
    return (
        f"epsilon = {format_above(shown_cost(epsilon))}, delta = {format_above(shown_cost(delta))}"
    )


# Detects whether a fit is one of many in a parameter search over the same rows. scikit-learn clones
# an estimator for every fit of a search, so no instance knows of the others. But the calling frame
# of scikit-learn has the number of settings and folds.

SEARCHES = "sklearn.model_selection."


@dataclass(frozen=True)
class Search:
    """The fits of one search: their number, the index of this one, and their total cost."""

    settings: int
    folds: int
    number: int
    guarantee: Guarantee

    @property
    def fits(self) -> int:
        return self.settings * self.folds

    @property
    def left(self) -> int:
        """Number of fits to come, this one included."""
        return self.fits - self.number


def search_around(guarantee: Guarantee) -> Search | None:
    """The search that called this fit, if any; `guarantee` is that of this fit."""
    frames: list[FrameType] = []
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        if frame.f_globals.get("__name__", "").startswith(SEARCHES):
            frames.append(frame)
        frame = frame.f_back
    frame = next((f for f in frames if f.f_code.co_name == "_fit_and_score"), None)
    variables = {} if frame is None else frame.f_locals
    settings, folds = variables.get("candidate_progress"), variables.get("split_progress")
    if not settings or not folds:
        return None
    epsilons, deltas = (
        _of_settings(frames, variables.get("estimator"), name) or [usual] * settings[1]
        for name, usual in (("epsilon", guarantee.epsilon), ("delta", guarantee.delta))
    )
    fold_guarantees = [
        replace(guarantee, epsilon=epsilon, delta=exact(delta))
        for epsilon, delta in zip(epsilons, deltas, strict=True)
    ]
    number = settings[0] * folds[1] + folds[0]
    return Search(settings[1], folds[1], number, add_guarantees(*fold_guarantees * folds[1]))


def _of_settings(frames: list[FrameType], estimator: Any, parameter: str) -> list[Cost]:
    """The cost of each setting, if the search runs in this process; else empty."""
    frame = next((f for f in frames if f.f_code.co_name == "evaluate_candidates"), None)
    candidates = list(frame.f_locals.get("candidate_params", ())) if frame else []
    names = {
        name for setting in candidates for name in setting if name.split("__")[-1] == parameter
    }
    if len(names) != 1:
        return []
    (name,) = names
    usual = estimator.get_params().get(name)
    return [exact(setting.get(name, usual)) for setting in candidates]


def warn_of_search(search: Search | None) -> None:
    """Warns once per search, at its first fit."""
    if search is None or search.number:
        return
    warn(
        f"a search over parameters makes {search.fits} fits of these rows ({search.settings} "
        f"settings, {search.folds} folds), with {search.guarantee.summary} in "
        "total, and one more fit with the best setting. Each statement speaks of its own fit "
        "alone, and scores on raw rows are not private. Give all fits one `ledger`, or search on "
        "public data.",
        PrivacyWarning,
    )
