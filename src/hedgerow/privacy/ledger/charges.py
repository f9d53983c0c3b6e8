"""Charges to records, by region: a round is charged first and released afterwards.

Costs add along a record's path. Two charges whose regions differ in the outcome of one test cannot
touch the same record, so the larger counts; all others add. This holds for epsilon, rho and mu^2
alike, also when charges depend on earlier answers.
Proof: docs/proofs/ledger.md.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Protocol

from hedgerow.errors import BudgetExceeded, ParameterError
from hedgerow.privacy.accounting.budget import Cost, Measure, checked_cost
from hedgerow.schema.regions import Region
from hedgerow.schema.visible import html_table

NO_HEAD = bytes(32)
ENTRY_ID = "entry"
"""The round id of the charge for entering a study, made once for all its runs."""


@dataclass(frozen=True, slots=True)
class Charge:
    """The price of a query for a record in `region`; `what` is its purpose in words.

    `study` is the key of the study's account: its hash, so that two studies of one name do not
    share a budget. `measure` is the measure of the cost; a ledger adds up one measure only.
    `remainder` is the budget that must be left after this round, because a selection was priced by
    it; it counts as spent from then on.
    """

    region: Region
    cost: Cost
    what: str
    study: str
    measure: Measure
    remainder: Cost = Fraction(0)

    def __post_init__(self) -> None:
        checked_cost(self.cost)
        checked_cost(self.remainder)


@dataclass(frozen=True, slots=True, kw_only=True)
class Receipt:
    """Confirms that a round was charged: the end of the ledger after its charge.

    `spent` is the cost of the whole study so far.
    """

    study: str
    round_id: str
    seq: int
    head: bytes
    spent: Cost


class ChargeLedger(Protocol):
    """Charges a round before anything is released, or raises; nothing is charged afterwards."""

    def reserve(self, charges: Sequence[Charge], round_id: str) -> Receipt:
        """Charges one round of one study, all or nothing.

        Raises BudgetExceeded and writes nothing unless the study's total stays within its limit. A
        charge is never taken back, whatever becomes of the round.
        """

    def reserve_once(self, charges: Sequence[Charge], round_id: str) -> None:
        """Charges a round unless it was charged before: for costs paid once per study."""

    def spent(self, study: str) -> Cost:
        """The total charge of the worst-case record in a study."""


_Units = int | float
"""A cost in units of a tally: an integer, or infinity."""


@dataclass(slots=True, eq=False)
class _Part:
    """A node (total: sum over its tests) or a test (total: its worst outcome)."""

    above: _Part | None
    total: _Units = 0
    parts: dict[Hashable, _Part] = field(default_factory=dict)


Change = tuple[_Part, _Units]


class Tally:
    """The charge of the worst-case record, updated as charges arrive.

    A charge takes one step of work for every step of its region whose total it raises: best-first
    trees ask about regions of a hundred steps in every round. Totals are integers of a unit that
    divides all costs so far: few denominators differ, and integers add exactly and faster than
    rationals. The spending of a study is never below its total after any round plus the remainder
    by which that round's selections were priced. The charges of one call of `add` are one round.
    """

    def __init__(self) -> None:
        self._root = _Part(None)
        self._remainders: dict[Hashable, _Part] = {}
        """By study: the largest sum of spending and remainder so far."""
        self._nodes: dict[tuple[str, Region], _Part] = {}
        self._parts = [self._root]
        self._per_one = 1
        """Units per 1."""

    @property
    def total(self) -> Cost:
        return self._cost(sum(map(self._spent, self._root.parts)))

    def of(self, study: str) -> Cost:
        return self._cost(self._spent(study)) if study in self._root.parts else Fraction(0)

    def _spent(self, study: Hashable) -> _Units:
        part, remainder = self._root.parts[study], self._remainders.get(study)
        return max(part.total, remainder.total) if remainder else part.total

    def _cost(self, units: _Units) -> Cost:
        return Fraction(units, self._per_one) if isinstance(units, int) else units

    def _units(self, cost: Cost) -> _Units:
        if not isinstance(cost, Fraction):
            return cost
        return cost.numerator * (self._per_one // cost.denominator)

    def add(self, charges: Sequence[Charge]) -> list[Change]:
        """Adds charges; `undo` takes them back by the result, as long as no others were added."""
        self._refine(charges)
        changes: list[Change] = []
        for charge in charges:
            self._add(charge, changes)
        for charge in charges:
            if charge.remainder:
                self._keep(charge, changes)
        return changes

    def _keep(self, charge: Charge, changes: list[Change]) -> None:
        if charge.study not in self._remainders:
            self._remainders[charge.study] = _Part(None)
            self._parts.append(self._remainders[charge.study])
        part = self._remainders[charge.study]
        changes.append((part, part.total))
        total = self._root.parts[charge.study].total + self._units(charge.remainder)
        part.total = max(part.total, total)

    def _refine(self, charges: Sequence[Charge]) -> None:
        """Switches to smaller units if these charges are not multiples of the present one."""
        costs = (cost for charge in charges for cost in (charge.cost, charge.remainder))
        finite = {cost.denominator for cost in costs if isinstance(cost, Fraction)}
        finer = math.lcm(self._per_one, *finite)
        if finer != self._per_one:
            for part in self._parts:
                part.total *= finer // self._per_one
            self._per_one = finer

    def undo(self, changes: list[Change]) -> None:
        for part, before in reversed(changes):
            part.total = before

    def _add(self, charge: Charge, changes: list[Change]) -> None:
        """Raises all totals that the charge changes.

        A test has the same total object as its worst outcome, so `is` replaces a comparison.
        """
        node, gain = self._node(charge.study, charge.region), self._units(charge.cost)
        before = node.total
        changes.append((node, before))
        node.total = before + gain
        while gain and (test := node.above) is not None and (parent := test.above) is not None:
            if test.total is not before:
                if not node.total > test.total:
                    return
                gain = node.total - test.total
            before = parent.total
            changes += ((test, test.total), (parent, before))
            test.total = node.total
            node, parent.total = parent, before + gain

    def _node(self, study: str, region: Region) -> _Part:
        """A study is a first test with one outcome, so studies share no node, and add."""
        node = self._nodes.get((study, region))
        if node is None:
            node = self._part(self._part(self._root, study), 0)
            above, steps = self._nodes.get((study, region[:-1])), region
            if above is not None:
                node, steps = above, region[-1:]
            for step in steps:
                node = self._part(self._part(node, step.test), step.outcome)
            self._nodes[study, region] = node
        return node

    def _part(self, above: _Part, key: Hashable) -> _Part:
        part = above.parts.get(key)
        if part is None:
            part = above.parts[key] = _Part(above)
            self._parts.append(part)
        return part


def study_of(charges: Sequence[Charge], round_id: str) -> str:
    studies = {charge.study for charge in charges}
    if len(studies) != 1:
        raise ParameterError(
            f"round {round_id!r} names {len(studies)} studies; reserve one round of one study."
        )
    return studies.pop()


def measure_of(charges: Sequence[Charge], round_id: str) -> Measure:
    measures = {charge.measure for charge in charges}
    if len(measures) != 1:
        raise ParameterError(
            f"round {round_id!r} counts in {len(measures)} measures; costs of one kind add up, "
            "so charge one."
        )
    return measures.pop()


def require_measure(measure: Measure, budget_measure: Measure, round_id: str) -> None:
    if measure is not budget_measure:
        raise ParameterError(
            f"round {round_id!r} counts in {measure.value}; this budget counts in "
            f"{budget_measure.value}. Nothing was charged. Approve the study in its own measure."
        )


def require_new(round_id: str, study: str, is_used: bool) -> None:
    if is_used:
        raise ParameterError(
            f"round {round_id!r} of study {study!r} was charged before; "
            "send the stored answer again, or ask under a new round id."
        )


def require_within(spent: Cost, limit: Cost, study: str, round_id: str) -> None:
    """Raises unless `spent <= limit`, without tolerance; NaN is refused."""
    if not spent <= limit:
        raise BudgetExceeded(
            f"round {round_id!r} would bring study {study!r} to {readable_cost(spent)}; "
            f"{readable_cost(limit)} is allowed. Nothing was charged and nothing released. "
            "Ask for less, or approve a new study with a larger budget."
        )


def readable_cost(cost: Cost) -> str:
    """A cost for messages: readable, and exact where a short decimal would hide a difference."""
    if not isinstance(cost, Fraction):
        return "infinity"
    return str(cost) if cost.denominator < 10**6 else f"{float(cost):.6g} ({cost})"


class MemoryLedger:
    """An in-memory ledger with one limit, for simulated sites and coordinators."""

    def __init__(self, limit: Cost) -> None:
        self.limit = checked_cost(limit)
        self.entries: list[tuple[str, tuple[Charge, ...]]] = []
        self._rounds: set[tuple[str, str]] = set()
        self._tally = Tally()
        self._measure: Measure | None = None
        self._head = NO_HEAD

    def __repr__(self) -> str:
        rounds = "1 round" if len(self.entries) == 1 else f"{len(self.entries)} rounds"
        spent = f"{float(self.total):.6g} of {float(self.limit):.6g}"
        unit = f" in {self._measure.value}" if self._measure else ""
        return f"MemoryLedger({rounds}, {spent} spent{unit})"

    def _repr_html_(self) -> str:
        lines = [
            (name, f"{float(charge.cost):.6g}", charge.what)
            for name, charges in self.entries
            for charge in charges
        ]
        return html_table(repr(self), lines, is_open=False)

    @property
    def total(self) -> Cost:
        return self._tally.total

    def spent(self, study: str) -> Cost:
        return self._tally.of(study)

    def reserve(self, charges: Sequence[Charge], round_id: str) -> Receipt:
        study, measure = study_of(charges, round_id), measure_of(charges, round_id)
        require_measure(measure, self._measure or measure, round_id)
        require_new(round_id, study, is_used=(study, round_id) in self._rounds)
        changes = self._tally.add(charges)
        try:
            require_within(self.total, self.limit, study, round_id)
        except BudgetExceeded:
            self._tally.undo(changes)
            raise
        self._measure = measure
        self._rounds.add((study, round_id))
        self.entries.append((round_id, tuple(charges)))
        self._head = hashlib.sha256(self._head + round_id.encode()).digest()
        return Receipt(
            study=study,
            round_id=round_id,
            seq=len(self.entries),
            head=self._head,
            spent=self.spent(study),
        )

    def reserve_once(self, charges: Sequence[Charge], round_id: str) -> None:
        if (study_of(charges, round_id), round_id) not in self._rounds:
            self.reserve(charges, round_id)
