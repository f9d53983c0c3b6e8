"""The coordinator's half of a round: charge, send, collect, answer. Independent of transports.

It has its own ledger for early refusal; the sites do not rely on it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from itertools import accumulate
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from hedgerow.errors import BudgetExceeded, RoundFailed
from hedgerow.federation.exchange import LeftOut, RoundSum
from hedgerow.federation.plausibility import AnyQuery, Influence, Plausibility, QuerySum
from hedgerow.privacy.accounting.budget import Cost, DPModel, Measure
from hedgerow.privacy.bundles import cut
from hedgerow.privacy.ledger.charges import ENTRY_ID, ChargeLedger, Tally
from hedgerow.privacy.pricing import Noise, Priced, entry_charges, priced
from hedgerow.privacy.queries import (
    Answer,
    Count,
    LocalSelection,
    Query,
    Reply,
    Selections,
    Summed,
    SumQuery,
)
from hedgerow.privacy.statement.record import Listener, Progress, RoundRecord, RunRecord, silent
from hedgerow.privacy.statement.spending import (
    ledger_total,
    of_worst_site,
    paid_on_entering,
    record_query,
    total_cost,
    worst_path,
)
from hedgerow.privacy.study import Study
from hedgerow.schema.arrays import FloatArray

MOST_TRIES = 3
"""How often one bundle is asked before a run gives up."""

MOST_REMAINDER = 32
"""Selections are priced by a remainder of at most this many times their own fraction of the budget:
more would make them at most 1.5 % sharper, and counts as spent in runs that end early.
"""


class Sites(Protocol):
    """The sites of a run: one site with all rows, or several behind a secure sum."""

    def round(self, number: int, bundle: Sequence[Priced], without: LeftOut = ()) -> RoundSum: ...

    def spent(self) -> Cost:
        """The largest total over the sites' receipts, rounds without an answer included."""
        ...


class Server:
    """Answers queries by asking all sites at once."""

    def __init__(
        self,
        study: Study,
        sites: Sites,
        ledger: ChargeLedger,
        listener: Listener = silent,
        plausibility: Plausibility | None = None,
        influence: Influence | None = None,
    ) -> None:
        self.study = study
        self.plausibility, self.influence = plausibility, influence
        self.sites = sites
        self.ledger = ledger
        self.listener = listener
        self.record = RunRecord()
        if entry := entry_charges(study):
            self.ledger.reserve_once(entry, ENTRY_ID)
        self.queries = paid_on_entering(study)
        self._tally = Tally()
        self.slack = Fraction(0)
        """Upper bound on the total variation between all noise drawn so far and its laws."""

    @property
    def is_pure(self) -> bool:
        return self.study.measure is Measure.PURE

    @property
    def n_sites(self) -> int:
        return self.study.n_sites

    @property
    def max_rounds(self) -> int:
        return self.study.training_rounds

    def variance(self, query: Summed) -> float:
        """The noise a query would carry; a flow may ask before it decides."""
        return self.study.variance(self._kept(query))

    def spent(self) -> Cost:
        """The budget used: by the sites' receipts, or more if a site missed a failed round.

        A failed round counts in full, whoever was charged: the coordinator may have opened it.
        """
        queries = of_worst_site(self.queries, self.study.n_sites, self.study.measure)
        return max(self.sites.spent(), ledger_total(queries, self.study.measure))

    def _kept(self, query: AnyQuery) -> AnyQuery:
        return query if self.influence is None else self.influence.kept(query)

    def ask(self, queries: Sequence[Query]) -> list[Reply]:
        """Asks queries in one round, or in as many as their number requires.

        Each part is charged in its own round, before sites compute it, and repeated alone if it
        fails, while the study's retry budget pays. If a part cannot be asked, the charges of those
        before it stay.
        """
        replies: list[Reply] = []
        plain_queries = [self.study.as_asked(query) for query in queries]
        for part in cut(plain_queries, travels=self.study.n_sites > 1):
            asked = self._with_remainders(part)
            bundle = [priced(self.study, self._kept(query)) for query in asked]
            number, result, tries = 0, None, 0
            while result is None:
                number, tries = self._charge(bundle), tries + 1
                try:
                    result = self.sites.round(number, bundle)
                except RoundFailed:
                    self._void(number, bundle)
                    if tries == MOST_TRIES or not self._reserve_pays():
                        raise
            replies += self._make_replies(number, bundle, result)
            if self.influence is not None:
                self._leave_out(self.influence, asked, _sums(bundle, result), result)
        return replies

    def _leave_out(
        self, influence: Influence, queries: Sequence[Query], sums: list[QuerySum], result: RoundSum
    ) -> None:
        """The same sums without some sites; if that fails, nothing is asked anew."""
        again = [priced(self.study, query) for query in influence.repeated(queries)]
        group = influence.next_group(result.members) if again else ()
        if not group:
            return
        number, before = self._charge(again), len(self.queries)
        try:
            rest = self.sites.round(number, again, group)
            self._make_replies(number, again, rest)
        except RoundFailed:
            self._void(number, again)
            return
        finally:
            self.queries[before:] = [replace(q, without=group) for q in self.queries[before:]]
        absent = tuple(site for site in result.members if site not in rest.members)
        whole = [item for item in sums if isinstance(item[0].query, SumQuery)]
        if absent:
            influence.add(absent, zip(whole, _sums(again, rest), strict=True))

    def _with_remainders(self, queries: Sequence[Query]) -> list[Query]:
        """Gives selections the budget that the worst-case record will have left.

        Only answered rounds count, so that a resumed run asks the same queries.
        """
        study = self.study
        if self.is_pure or study.limit == math.inf:
            return list(queries)
        self._tally.add([study.charge(q.region, study.cost(q), "") for q in queries])
        remaining = 1 - Fraction(self._tally.total) / study.spendable
        return [
            query
            if isinstance(query, Summed)
            else replace(query, remainder=_short(min(remaining, MOST_REMAINDER * query.fraction)))
            for query in queries
        ]

    def _charge(self, bundle: Sequence[Priced]) -> int:
        """Charges the bundle; returns the number of its round."""
        number, graph = len(self.record.rounds) + 1, self.study.graph
        if graph is not None and number > graph.rounds:
            raise BudgetExceeded(
                f"round {number} is one more than the study's sparse graph was paid for in delta. "
                f"Nothing was asked; name more than {graph.rounds} rounds in the study, or use the "
                "complete graph."
            )
        self.ledger.reserve([item.charge for item in bundle], f"round {number}")
        self.slack += sum((item.noise.slack for item in bundle if item.noise), Fraction(0))
        self.listener(Progress(number, tuple(item.query for item in bundle), done=False))
        return number

    def _void(self, number: int, bundle: Sequence[Priced]) -> None:
        self.queries += [replace(record_query(number, item), void=True) for item in bundle]
        self.record.rounds.append(RoundRecord(number, _manifest(bundle), void=True))

    def _reserve_pays(self) -> bool:
        """Whether the study's retry budget covers all rounds that failed so far."""
        void_queries = [query for query in self.queries if query.void]
        return bool(total_cost(worst_path(void_queries)) <= self.study.reserve)

    def _make_replies(self, number: int, bundle: Sequence[Priced], got: RoundSum) -> list[Reply]:
        self.queries += [record_query(number, item) for item in bundle]
        size, sites = len(got.total), len(got.members)
        record = RoundRecord(
            number, _manifest(bundle), size, got.bytes_out, got.bytes_in, sites=sites
        )
        self.record.rounds.append(record)
        self.listener(Progress(number, tuple(item.query for item in bundle), done=True))
        if self.plausibility is not None:  # once the round is on record
            self.plausibility.check(number, _sums(bundle, got))
        chosen, ends = zip(*got.selections, strict=True), accumulate(item.size for item in bundle)
        return [
            _select(item.query, next(chosen))
            if item.noise is None
            else self._answer(item.noise, got.total[end - item.size : end], sites)
            for item, end in zip(bundle, ends, strict=True)
        ]

    def _answer(self, noise: Noise, integers: NDArray[np.int64], members: int) -> Answer:
        values = integers.reshape(noise.query.shape).astype(np.float64) / noise.scale
        if self.study.dp_model is DPModel.LABEL:
            return self._decode(noise.query, values)
        return Answer(values, self.study.variance(noise.query, members))

    def _decode(self, query: Summed, reports: FloatArray) -> Answer:
        """Unbiased estimates of the true class counts from randomized labels.

        The variance of a cell depends on its count; the answer has the mean over cells.
        """
        assert isinstance(query, SumQuery)
        if isinstance(query.statistic, Count):
            return Answer(reports, 0.0)
        if self.study.label_reports is not None:
            ones, records = reports[..., :-1], reports[..., -1]
            spread = float(records.mean()) * self.study.label_reports.spread
            return Answer(self.study.label_reports.decode(ones, records), spread)
        response = self.study.response
        values = response.estimate_counts(reports.astype(np.int64))
        lie, gap = float(response.each_other), float(response.keep - response.each_other)
        spread = reports.sum(axis=-1).mean() * lie * (1.0 - lie) / gap**2
        return Answer(values, float(spread))


def _short(fraction: Fraction) -> Fraction:
    """Rounded down to few digits; 0 if nothing is left."""
    return Fraction(max(0, math.floor(fraction * 2**20)), 2**20)


def _sums(bundle: Sequence[Priced], got: RoundSum) -> list[QuerySum]:
    """The integers of each sum of a round."""
    ends = accumulate(item.size for item in bundle)
    return [
        (item.noise, got.total[end - item.size : end], got.members)
        for item, end in zip(bundle, ends, strict=True)
        if item.noise
    ]


def _manifest(bundle: Sequence[Priced]) -> tuple[str, ...]:
    return tuple(item.charge.what for item in bundle)


def _select(query: Query, selections: tuple[int, ...]) -> Selections:
    return Selections(selections if isinstance(query, LocalSelection) else selections[:1])
