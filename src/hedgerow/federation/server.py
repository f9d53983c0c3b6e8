"""The coordinator's half of a round: reserve, send, collect, answer. Knows links, not parties.

It keeps a ledger of its own for early refusal; the sites do not rely on it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from math import prod
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from hedgerow.errors import BudgetExceeded, RoundFailed
from hedgerow.federation.exchange import Collected
from hedgerow.privacy.accounting.budget import Cost, Measure, Placement
from hedgerow.privacy.bundles import cut
from hedgerow.privacy.ledger.charges import ENTRY_ID, ChargeLedger
from hedgerow.privacy.pricing import charges_of, entry_charges
from hedgerow.privacy.queries import (
    Answer,
    BoundQuery,
    Count,
    LocalChoice,
    Picks,
    Query,
    Reply,
    Summed,
    SumQuery,
)
from hedgerow.privacy.statement.record import Listener, Progress, RoundRecord, RunRecord, silent
from hedgerow.privacy.statement.spending import Asked, asked_in, paid, paid_on_entering, worst_path
from hedgerow.privacy.study import Study
from hedgerow.schema.arrays import FloatArray

MOST_TRIES = 3
"""How often one bundle is asked before a run gives up."""


class Link(Protocol):
    """The way to the sites and back."""

    def round(self, number: int, bundle: Sequence[Query]) -> Collected: ...

    def spent(self) -> Cost:
        """The largest total over the sites' receipts, rounds without an answer included."""
        ...


class Federation:
    """Answers queries by asking all sites at once."""

    def __init__(
        self,
        study: Study,
        link: Link,
        ledger: ChargeLedger,
        listener: Listener = silent,
    ) -> None:
        self.study = study
        self.link = link
        self.ledger = ledger
        self.listener = listener
        self.record = RunRecord()
        if entry := entry_charges(study):
            self.ledger.reserve_once(entry, ENTRY_ID)
        self.asked = paid_on_entering(study)
        self.slack = Fraction(0)
        """Total variation between all noise drawn so far and its laws, at most."""

    @property
    def is_pure(self) -> bool:
        return self.study.measure is Measure.PURE

    @property
    def parties(self) -> int:
        return self.study.parties

    def variance(self, query: Summed) -> float:
        """The noise a query would carry; a flow may ask before it decides."""
        return self.study.variance(query)

    def ask(self, asked: Sequence[Query]) -> list[Reply]:
        """In one round, or in as many as a list takes that is longer than a bundle may be.

        Each part is charged in its own round, before sites compute it, and repeated alone if it
        fails; where one cannot be asked, those before it stay charged.
        """
        queries = [self.study.as_asked(query) for query in asked]
        parts = cut(queries, travels=self.study.parties > 1)
        return [reply for part in parts for reply in self._asked_until_answered(part)]

    def _asked_until_answered(self, queries: Sequence[Query]) -> list[Reply]:
        """A round that fails is asked again while the study's reserve pays; its charge stays."""
        for _ in range(MOST_TRIES - 1):
            try:
                return self._round(queries)
            except RoundFailed:
                if not paid(worst_path(self._failed())) <= self.study.reserve:
                    raise
        return self._round(queries)

    def _round(self, queries: Sequence[Query]) -> list[Reply]:
        number = len(self.record.rounds) + 1
        self._require_rounds_left(number)
        charges = charges_of(queries, self.study)
        manifest = tuple(charge.what for charge in charges)
        self.ledger.reserve(charges, f"round {number}")
        self._note_slack(queries)
        asked = asked_in(number, queries, charges, self.study)
        self.listener(Progress(number, tuple(queries), done=False))
        try:
            collected = self.link.round(number, queries)
        except RoundFailed:
            self.asked += [replace(query, void=True) for query in asked]
            self.record.rounds.append(RoundRecord(number, manifest, void=True))
            raise
        self.asked += asked
        self.record.rounds.append(_recorded(number, manifest, collected))
        self.listener(Progress(number, tuple(queries), done=True))
        return self._replies(queries, collected)

    def _require_rounds_left(self, number: int) -> None:
        graph = self.study.graph
        if graph is not None and number > graph.rounds:
            raise BudgetExceeded(
                f"round {number} is one more than the study's sparse graph was paid for in delta. "
                f"Nothing was asked; name more than {graph.rounds} rounds in the study, or use the "
                "complete graph."
            )

    def _failed(self) -> list[Asked]:
        return [query for query in self.asked if query.void]

    def _note_slack(self, queries: Sequence[Query]) -> None:
        summed = (q for q in queries if isinstance(q, SumQuery | BoundQuery))
        self.slack += sum((self.study.slack(query) for query in summed), Fraction(0))

    def _replies(self, queries: Sequence[Query], got: Collected) -> list[Reply]:
        replies: list[Reply] = []
        start = selections = 0
        for query in queries:
            if isinstance(query, SumQuery | BoundQuery):
                size = prod(query.shape)
                replies.append(
                    self._answer(query, got.total[start : start + size], len(got.members))
                )
                start += size
            else:
                picks = tuple(p[selections] for p in got.picks)
                replies.append(Picks(picks if isinstance(query, LocalChoice) else picks[:1]))
                selections += 1
        return replies

    def _answer(self, query: Summed, integers: NDArray[np.int64], members: int) -> Answer:
        unit = self.study.unit(query) * self.study.refinement(query)
        values = integers.reshape(query.shape).astype(np.float64) / unit
        if self.study.placement is Placement.LABEL:
            return self._decoded(query, values)
        return Answer(values, self.study.variance(query, members))

    def _decoded(self, query: Summed, told: FloatArray) -> Answer:
        """True class counts, estimated without bias from labels that were told at random.

        The variance of a cell depends on its count; the answer states the mean over cells.
        """
        assert isinstance(query, SumQuery)
        if isinstance(query.statistic, Count):
            return Answer(told, 0.0)
        if self.study.label_reports is not None:
            ones, records = told[..., :-1], told[..., -1]
            spread = float(records.mean()) * self.study.label_reports.spread
            return Answer(self.study.label_reports.decode(ones, records), spread)
        response = self.study.response
        values = response.unbiased(told.astype(np.int64))
        lie, gap = float(response.each_other), float(response.keep - response.each_other)
        spread = told.sum(axis=-1).mean() * lie * (1.0 - lie) / gap**2
        return Answer(values, float(spread))


def _recorded(number: int, manifest: tuple[str, ...], got: Collected) -> RoundRecord:
    return RoundRecord(
        number, manifest, len(got.total), got.bytes_out, got.bytes_in, sites=len(got.members)
    )
