"""The queries of a run and the spending of its worst-case record: the numbers of a statement."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import groupby
from typing import Any

from hedgerow.privacy.accounting.budget import Cost, Measure
from hedgerow.privacy.accounting.coalition import CoalitionRelease
from hedgerow.privacy.accounting.guarantee import INFINITY, Guarantee, guarantee_of_words
from hedgerow.privacy.ledger.charges import Charge, Tally
from hedgerow.privacy.pricing import Priced, label_mechanism
from hedgerow.privacy.queries.statistics import Phrase, condense
from hedgerow.privacy.study import Study
from hedgerow.schema.regions import EVERYONE, Fold, HeldOut, Region, Test
from hedgerow.schema.rules import exact

ENTRY, END = 0, -1
"""Round numbers of the cost of entering, before the first round, and of the end."""
FAILED = " (failed: counted, not answered)"
KEPT = "kept unspent: selections were priced by it"


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """One query of one round: its price, its description, and its noise if it is a noisy sum."""

    round: int
    region: Region
    cost: Cost
    phrase: Phrase
    mechanism: str
    release: CoalitionRelease | None = None
    remainder: Cost = Fraction(0)
    """The budget that had to be left after a selection."""
    void: bool = False
    """Whether the round failed: it counts in full, without an answer."""
    without: tuple[int, ...] = ()
    """Sites that were not asked, and not charged."""


@dataclass(frozen=True, slots=True)
class Part:
    """A fraction of the budget, and its purpose."""

    part: float
    what: str


@dataclass(frozen=True, slots=True)
class Spending:
    """The queries of some consecutive rounds, and the fraction of the budget they cost."""

    rounds: str
    what: str
    part: float


def record_query(number: int, price: Priced) -> Asked:
    return Asked(
        round=number,
        region=price.query.region,
        cost=price.charge.cost,
        phrase=price.phrase,
        mechanism=price.mechanism,
        release=None if price.noise is None else price.noise.release,
        remainder=price.charge.remainder,
    )


def paid_on_entering(study: Study) -> list[Asked]:
    """The cost of randomized labels; empty under other DP models."""
    if not study.entry_cost:
        return []
    entry = Asked(
        round=ENTRY,
        region=EVERYONE,
        cost=study.entry_cost,
        phrase=Phrase("labels, randomized once per record for the whole run"),
        mechanism=label_mechanism(study),
    )
    return [entry]


def ledger_total(queries: Sequence[Asked], measure: Measure) -> Cost:
    """The spending as a site's ledger counts it, with the budget that selections were priced by."""
    tally = Tally()
    for _, group in groupby(queries, key=lambda query: query.round):
        tally.add([Charge(q.region, q.cost, "", "", measure, q.remainder) for q in group])
    return tally.total


def kept_for_selections(queries: Sequence[Asked], measure: Measure) -> list[Asked]:
    """The budget by which selections were priced and that no round spent; it counts as spent.

    `queries` are those of training: held-out records pay for none of it.
    """
    unused_cost = ledger_total(queries, measure) - total_cost(worst_path(queries))
    if not unused_cost > 0:
        return []
    words = Phrase("selections, which were priced by it (kept unspent)")
    first = queries[0].region[:1]
    region = first if first and isinstance(first[0].test, HeldOut) else EVERYONE
    return [Asked(round=END, region=region, cost=unused_cost, phrase=words, mechanism=KEPT)]


def worst_path(queries: Sequence[Asked], depth: int = 0) -> list[Asked]:
    """The queries that the worst-case record paid for; their costs add up to the ledger's total.

    As in the ledger, tests add, and of the outcomes of one test the worst counts
    (docs/proofs/ledger.md, section 1).
    """
    path = [query for query in queries if len(query.region) == depth]
    for outcomes in _by_test(queries, depth).values():
        path += max((worst_path(group, depth + 1) for group in outcomes.values()), key=total_cost)
    return path


def of_worst_site(queries: Sequence[Asked], n_sites: int, measure: Measure) -> Sequence[Asked]:
    """Those that one site was asked, of the site whose ledger has the largest total."""
    left_out = {site for query in queries for site in query.without}
    if len(left_out) < n_sites:
        return queries
    by_site = ([q for q in queries if site not in q.without] for site in sorted(left_out))
    return max(by_site, key=lambda own: ledger_total(own, measure))


def _by_test(queries: Iterable[Asked], depth: int) -> Mapping[Test, Mapping[int, list[Asked]]]:
    """Queries further down, by the test and the outcome of their next step."""
    tests: dict[Test, dict[int, list[Asked]]] = {}
    for query in queries:
        if len(query.region) > depth:
            step = query.region[depth]
            tests.setdefault(step.test, {}).setdefault(step.outcome, []).append(query)
    return tests


def total_cost(queries: Iterable[Asked]) -> Cost:
    return sum((query.cost for query in queries), Fraction(0))


def price(bundle: Iterable[Priced]) -> Cost:
    """The cost of queries of one round for the worst-case record."""
    return total_cost(worst_path([record_query(1, query_price) for query_price in bundle]))


def by_mechanism(path: Sequence[Asked], whole: Cost) -> tuple[Part, ...]:
    """The spending of the worst-case record by mechanism; largest parts first."""
    spent: dict[str, Cost] = {}
    for query in path:
        if query.cost:
            spent[query.mechanism] = spent.get(query.mechanism, Fraction(0)) + query.cost
    parts = [Part(float(cost / whole), mechanism) for mechanism, cost in spent.items()]
    return tuple(sorted(parts, key=lambda part: -part.part))


def by_rounds(
    all_queries: Sequence[Asked], path: Sequence[Asked], whole: Cost
) -> tuple[Spending, ...]:
    """Spending by round; consecutive rounds that ask the same kinds of query are one line."""
    rounds = [list(group) for _, group in groupby(all_queries, key=lambda query: query.round)]
    lines = []
    for _, alike in groupby(rounds, key=_kind):
        queries = [query for group in alike for query in group]
        first, last = queries[0].round, queries[-1].round
        cost = total_cost(query for query in path if first <= query.round <= last)
        lines.append(Spending(_name(first, last), _purpose_of(queries), float(cost / whole)))
    return tuple(lines)


def _kind(queries: Sequence[Asked]) -> tuple[object, ...]:
    patterns = frozenset(query.phrase.pattern for query in queries)
    return patterns, _piecewise(queries), queries[0].void, queries[0].round == ENTRY


def _purpose_of(queries: Sequence[Asked]) -> str:
    words = " and ".join(str(phrase) for phrase in condense(query.phrase for query in queries))
    free = "" if any(query.cost for query in queries) else " (from the randomized labels)"
    failure_note = FAILED if queries[0].void else ""
    return f"{words}{_piecewise(queries)}{free}{failure_note}"


def _piecewise(queries: Sequence[Asked]) -> str:
    """A note if the queries were asked fold by fold or node by node."""
    steps = (step for query in queries for step in query.region)
    tests = [step.test for step in steps if not isinstance(step.test, HeldOut)]
    if not tests:
        return ""
    return ", fold by fold" if all(isinstance(t, Fold) for t in tests) else ", node by node"


def _name(first: int, last: int) -> str:
    if first in (ENTRY, END):
        return "entry" if first == ENTRY else "end"
    return f"{first}" if first == last else f"{first}-{last}"


# The guarantee of several fits together.


@dataclass(frozen=True, kw_only=True)
class Total:
    """All fits of one ledger, this one included.

    Each counts with its whole budget, and as if all used the same records: epsilons and deltas add
    (basic composition, which holds for pure and Gaussian fits together, and for budgets that depend
    on earlier results).
    """

    guarantee: Guarantee
    fits: int
    entry: int
    head: str
    """The hash of the ledger's last entry, in hexadecimal digits; it covers all entries."""

    @property
    def epsilon(self) -> float:
        return self.guarantee.numbers[0]

    @property
    def delta(self) -> float:
        return self.guarantee.numbers[1]

    @property
    def summary(self) -> str:
        many = "1 fit" if self.fits == 1 else f"{self.fits} fits"
        return f"{self.guarantee.summary} over {many}"

    @property
    def place(self) -> str:
        return f"entry {self.entry}, head {self.head}"

    def to_dict(self) -> dict[str, Any]:
        """For JSON; epsilon and delta also as numbers, rounded up."""
        return {
            "epsilon": self.epsilon,
            "delta": self.delta,
            "fits": self.fits,
            "entry": self.entry,
            "head": self.head,
            "guarantee": self.guarantee.to_dict(),
        }

    @staticmethod
    def from_dict(d: Mapping[str, Any], unit: str) -> Total:
        """`unit` is that of the newest fit, which older files do not repeat."""
        if "guarantee" in d:
            guarantee = Guarantee.from_dict(d["guarantee"])
        else:
            epsilon = math.inf if d["epsilon"] in (INFINITY, math.inf) else exact(d["epsilon"])
            guarantee = guarantee_of_words(unit, epsilon, exact(d["delta"]))
        return Total(guarantee=guarantee, fits=d["fits"], entry=d["entry"], head=d["head"])
