"""What a model may promise, in words and numbers. Built from the study and the ledger alone."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import groupby
from typing import Any

from hedgerow.privacy.accounting import conversions
from hedgerow.privacy.accounting.budget import Cost, Measure, Placement
from hedgerow.privacy.accounting.coalition import Coalition, Release, cost_against
from hedgerow.privacy.ledger.charges import Charge, worst_total
from hedgerow.privacy.noise.response import BloomReports
from hedgerow.study.terms import Study
from hedgerow.values.regions import Region

ACCOUNTANTS = {
    Measure.PURE: "pure filter: epsilons add along a record's path",
    Measure.ZCDP: "zCDP filter: rho adds along a record's path",
    Measure.GDP: "Gaussian-DP filter: mu squared adds along a record's path",
}
MECHANISMS = {
    Measure.PURE: "discrete Laplace noise on integer sums",
    Measure.ZCDP: "discrete Gaussian noise on integer sums",
    Measure.GDP: "discrete Gaussian noise on integer sums",
}


@dataclass(frozen=True, slots=True)
class Spending:
    """What some rounds in a row asked, and the part of the budget their worst record paid."""

    rounds: str
    what: str
    part: float


@dataclass(frozen=True, kw_only=True)
class PrivacyStatement:
    """The promise of one fit. Tuning, calibration and scores outside it are not covered."""

    epsilon: float
    delta: float
    promised_epsilon: float
    spent_fraction: float | None
    unit: str
    neighbours: str
    accountant: str
    mechanism: str
    placement: str
    trust: tuple[tuple[str, str], ...]
    randomness: str
    schema_source: str
    saved_fraction: float = 0.0
    delta_slack: float = 0.0
    parties: int = 1
    honest_shares: int = 1
    spending: tuple[Spending, ...] = ()
    caveats: tuple[str, ...] = field(default=())

    def to_dict(self) -> dict[str, Any]:
        out = {k: getattr(self, k) for k in self.__dataclass_fields__}
        out["epsilon"] = _number(self.epsilon)
        out["promised_epsilon"] = _number(self.promised_epsilon)
        out["trust"] = [list(line) for line in self.trust]
        out["caveats"] = list(self.caveats)
        out["spending"] = [[line.rounds, line.what, line.part] for line in self.spending]
        return out

    def __str__(self) -> str:
        lines = [
            "Privacy statement (this fit only)",
            f"  promise     epsilon = {_number(self.epsilon)}, delta = {self.delta:g}",
            f"  unit        {self.unit}; {self.neighbours}",
            f"  mechanism   {self.mechanism}",
            f"  accountant  {self.accountant}",
            f"  spent       {_part(self.spent_fraction)}",
            f"  noise       {self.placement}",
            f"  randomness  {self.randomness}",
            f"  sampler     delta grows by at most {self.delta_slack:.2g} for inexact draws",
            f"  schema      {self.schema_source}",
        ]
        if self.saved_fraction > 0.0:
            part = f"{self.saved_fraction:.1%}"
            lines.append(f"  saved       nodes handed down {part} of their budget, on average")
        lines += [f"  round {s.rounds:<10} {s.part:6.1%} for {s.what}" for s in self.spending]
        lines += [f"  against {who:<12} {what}" for who, what in self.trust]
        lines += [f"  note        {c}" for c in self.caveats]
        return "\n".join(lines)


def _part(fraction: float | None) -> str:
    if fraction is None:
        return "no noise was added, so nothing is promised"
    return f"{fraction:.1%} of the budget on the worst path"


def _number(epsilon: float) -> str:
    return "infinity" if math.isinf(epsilon) else conversions.printed(epsilon)


def statement(
    study: Study,
    spent: Cost,
    releases: Sequence[tuple[Region, Release]],
    schema_source: str,
    simulated: bool,
    saved_fraction: float = 0.0,
    slack: Fraction = Fraction(0),
    entries: Sequence[tuple[str, Sequence[Charge]]] = (),
) -> PrivacyStatement:
    """The statement of a finished run; `spent` is the largest total over the sites' ledgers.

    `saved_fraction` is the mean part of their budgets that nodes handed down unspent; `entries`
    are the charges of each round, for the table of who asked for what.
    """
    no_noise = study.placement is Placement.NOWHERE
    inferred = schema_source.startswith("inferred")
    epsilon = math.inf if no_noise else conversions.epsilon_of(study.measure, spent, study.delta)
    return PrivacyStatement(
        epsilon=math.inf if inferred else epsilon,
        delta=float(study.delta),
        promised_epsilon=math.inf if no_noise else float(study.epsilon),
        spent_fraction=None if no_noise else float(spent / study.total),
        unit=_unit(study),
        neighbours="two data sets are neighbours if one has this unit and the other does not",
        accountant="none" if no_noise else ACCOUNTANTS[study.measure],
        mechanism=_mechanism(study),
        placement=study.placement.value,
        trust=tuple(_trust(study, epsilon, releases)),
        randomness="operating system's generator, expanded by AES-256-CTR; integers only",
        schema_source=schema_source,
        saved_fraction=saved_fraction,
        delta_slack=_delta_slack(slack, epsilon),
        parties=study.parties,
        honest_shares=study.honest,
        spending=() if no_noise else spending(entries, study.total),
        caveats=tuple(_caveats(study, epsilon, inferred, simulated)),
    )


def spending(entries: Sequence[tuple[str, Sequence[Charge]]], whole: Cost) -> tuple[Spending, ...]:
    """Rounds in a row that ask the same kind of thing are one line."""
    lines = []
    numbered = enumerate((charges for _, charges in entries), start=1)
    for what, group in groupby(numbered, key=lambda entry: _kinds(entry[1])):
        rounds = list(group)
        first, last = rounds[0][0], rounds[-1][0]
        paid = worst_total([charge for _, charges in rounds for charge in charges])
        name = f"{first}" if first == last else f"{first}-{last}"
        lines.append(Spending(name, what, float(paid / whole)))
    return tuple(lines)


def _kinds(charges: Sequence[Charge]) -> str:
    """What a round asks, without the names of features and regions."""
    kinds = dict.fromkeys(
        charge.what.split(" of ")[0].split(",")[0] + (", by node" if charge.region else "")
        for charge in charges
    )
    return " and ".join(kinds)


def _delta_slack(slack: Fraction, epsilon: float) -> float:
    """(1 + e^epsilon) times the total variation, rounded up."""
    if slack == 0 or math.isinf(epsilon):
        return 0.0
    return math.nextafter(float(slack) * (1.0 + math.exp(min(epsilon, 700.0))), math.inf)


def _mechanism(study: Study) -> str:
    if study.placement is Placement.NOWHERE:
        return "none"
    if study.label_reports is not None:
        return _reports_words(study.label_reports)
    if study.placement is Placement.LABEL:
        keep = float(study.response.keep)
        return f"k-ary randomised response, drawn once per record; the truth with p = {keep:.3f}"
    return MECHANISMS[study.measure]


def _reports_words(reports: BloomReports) -> str:
    ever, once = (_number(e) for e in (reports.epsilon_forever, reports.epsilon_once))
    return (
        f"Bloom filter of the label, {reports.hashes} of {reports.bits} bits; permanent bits drawn "
        f"once per record: epsilon {ever} for any number of reports, {once} for one report"
    )


def _unit(study: Study) -> str:
    if study.placement is Placement.LABEL:
        return "the label of one record (features are not protected)"
    if study.records_per_person == 1:
        return "one record"
    return f"one person with up to {study.records_per_person} records"


def _trust(
    study: Study, epsilon: float, releases: Sequence[tuple[Region, Release]]
) -> list[tuple[str, str]]:
    shown = f"epsilon {_number(epsilon)}"
    if study.placement is not Placement.SHARES:
        return [("the public", shown)]
    more = _against(study, releases, study.colluders + 1)
    return [
        ("the public", shown),
        ("coordinator", f"{shown} (computational)"),
        (
            "coalition",
            f"{shown} with up to {study.colluders} colluding sites; {_number(more)} with one more",
        ),
        ("other site", f"{shown} (a site is one of the {study.colluders} tolerated)"),
    ]


def _against(study: Study, releases: Sequence[tuple[Region, Release]], colluders: int) -> float:
    """Epsilon against more colluders than the study tolerates, on the worst path."""
    coalition = Coalition(h=study.honest, t=study.threshold, colluders=colluders)
    prices = {r: cost_against(study.measure, r, coalition) for _, r in releases}
    spent = worst_total([study.charge(region, prices[r], "") for region, r in releases])
    return conversions.epsilon_of(study.measure, spent, study.delta)


def _caveats(study: Study, epsilon: float, inferred: bool, simulated: bool) -> list[str]:
    notes = []
    if inferred:
        notes.append(
            "ranges, categories and classes were read from the rows, so epsilon is infinite for "
            f"them; the sums alone have epsilon {_number(epsilon)}. Give a schema to repair this."
        )
    if simulated and study.parties > 1:
        notes.append(
            "simulated: one process held all rows and drew all noise; trust = that process."
        )
    notes.append("every fit of a search over parameters is a fit of its own; their epsilons add.")
    notes.append("scores and calibration on raw rows are outside this statement.")
    return notes
