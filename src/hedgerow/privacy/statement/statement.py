"""What a model may promise, in words and numbers. Built from the study and the ledger alone."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from fractions import Fraction
from typing import Any

from hedgerow.privacy.accounting import conversions, rounding
from hedgerow.privacy.accounting.budget import Cost, Measure, Placement
from hedgerow.privacy.accounting.guarantee import (
    INFINITY,
    Drawn,
    Guarantee,
    guarantee_of_words,
    shown,
    unit_words,
)
from hedgerow.privacy.accounting.meaning import Meaning, meaning_of
from hedgerow.privacy.accounting.rounding import printed
from hedgerow.privacy.pricing import CHOICES
from hedgerow.privacy.statement import wording
from hedgerow.privacy.statement.about import About
from hedgerow.privacy.statement.spending import (
    Asked,
    Part,
    Spending,
    Total,
    by_mechanism,
    by_rounds,
    paid,
    worst_path,
)
from hedgerow.privacy.statement.wording import unprotected
from hedgerow.privacy.study import Study
from hedgerow.schema.problems import html_table
from hedgerow.schema.rules import exact
from hedgerow.version import __version__, source_digest

ACCOUNTANTS = {
    Measure.PURE: "pure filter: epsilons add along a record's path",
    Measure.ZCDP: "zCDP filter: rho adds along a record's path",
    Measure.GDP: "Gaussian-DP filter: mu squared adds along a record's path",
}
RANDOMNESS = "operating system's generator, expanded by AES-256-CTR; integers only"
ALONE = "every fit of a search over parameters is a fit of its own; their epsilons and deltas add."
TOGETHER = (
    "all fits counts each fit of the ledger with all it was allowed, as if of the same records: "
    "epsilons add, deltas add, and what inexact draws add to delta comes on top.",
    "fits that do not name this ledger are not in it.",
)
HELD_OUT = "one record in {}, by a secret draw of its own, was left out of training."
EVALUATED = "no record paid for both training and evaluation: together they keep {}."
OUTSIDE = "scores and calibration on raw rows are outside this statement."


@dataclass(frozen=True, kw_only=True, repr=False)
class PrivacyStatement:
    """The promise of one fit, or of one evaluation. What is done outside it is not covered.

    `epsilon` is what the run as a whole keeps, whatever its answers had been. `spent_epsilon`
    is that of what this run did release; it is smaller where budget was left.
    """

    guarantee: Guarantee
    promised_epsilon: float
    spent_epsilon: float
    spent_fraction: float | None
    unspent: tuple[Part, ...]
    neighbours: str
    accountant: str
    mechanisms: tuple[Part, ...]
    placement: str
    trust: tuple[tuple[str, str], ...]
    randomness: str
    schema_source: str
    saved_fraction: float
    delta_slack: float
    graph_delta: float
    parties: int
    honest_shares: int
    spending: tuple[Spending, ...]
    caveats: tuple[str, ...]
    meaning: Meaning
    unprotected: tuple[str, ...]
    release: str
    source: str
    """SHA-256 of the package's source files, in hexadecimal digits."""
    total: Total | None = None
    about: About | None = None
    held_out: tuple[Spending, ...] = ()
    """What records that were left out of training paid for: nothing else."""
    covers: str = "fit"
    """What was done with the records: one fit, or one evaluation. Nothing else is promised here."""

    @property
    def title(self) -> str:
        return f"Privacy statement (this {self.covers} only)"

    @property
    def epsilon(self) -> float:
        return self.guarantee.numbers[0]

    @property
    def delta(self) -> float:
        return self.guarantee.numbers[1]

    @property
    def unit(self) -> str:
        return unit_words(self.guarantee.unit, self.guarantee.protected)

    @property
    def promise(self) -> str:
        return self.guarantee.promise

    # ------------------------------------------------------------------------------------ faces
    def to_dict(self) -> dict[str, Any]:
        """For JSON; `from_dict` gives the equal statement back."""
        total = None if self.total is None else self.total.to_dict()
        parts = {"guarantee": self.guarantee.to_dict(), "total": total}
        facts = {"epsilon": self.epsilon, "delta": self.delta, "unit": self.unit}
        found: dict[str, Any] = _plain(facts | asdict(self) | parts)
        return found

    @staticmethod
    def from_dict(d: dict[str, Any]) -> PrivacyStatement:
        facts: dict[str, Any] = {k: math.inf if v == INFINITY else v for k, v in d.items()}
        facts["guarantee"] = _guarantee(d, *(facts.pop(k) for k in ("epsilon", "delta", "unit")))
        facts["unspent"] = tuple(Part(**part) for part in d["unspent"])
        facts["mechanisms"] = tuple(Part(**part) for part in d["mechanisms"])
        facts["spending"] = tuple(Spending(**line) for line in d["spending"])
        facts["held_out"] = tuple(Spending(**line) for line in d.get("held_out", ()))
        facts["trust"] = tuple((who, what) for who, what in d["trust"])
        facts["caveats"] = tuple(d["caveats"])
        facts["unprotected"] = tuple(d["unprotected"])
        facts["meaning"] = Meaning.from_dict(d["meaning"])
        facts["total"] = Total.from_dict(d["total"], d["unit"]) if d.get("total") else None
        facts["about"] = About.from_dict(d["about"]) if d.get("about") else None
        return PrivacyStatement(**facts)

    def __repr__(self) -> str:
        return f"PrivacyStatement({self.promise}, unit = {self.unit})"

    def __str__(self) -> str:
        lines = self._lines()
        width = max(len(title) for title, _ in lines)
        body = [f"  {title:<{width}}  {words}" for title, words in lines]
        return "\n".join([self.title, *body])

    def _repr_html_(self) -> str:
        return html_table(f"{self.title}: {self.promise}", self._lines())

    def _lines(self) -> list[tuple[str, str]]:
        return [
            *(self.about.lines() if self.about else ()),
            ("promise", self.promise),
            *([("all fits", self.total.promise)] if self.total else []),
            ("unit", self.unit),
            ("neighbours", self.neighbours),
            *_titled("meaning", wording.meaning_words(self.meaning, self.unit)),
            ("noise", self.placement),
            *_titled("mechanism", [f"{m.part:6.1%} {m.what}" for m in self.mechanisms] or ["none"]),
            ("accountant", self.accountant),
            ("randomness", self.randomness),
            *_titled("sampler", self._sampler_words()),
            *_titled("masks", self._graph_words()),
            ("schema", self.schema_source),
            *([("ledger", self.total.place)] if self.total else []),
            ("spent", self._spent_words()),
            *_titled("unspent", [f"{u.part:6.1%} {u.what}" for u in self.unspent]),
            *_titled("saved", self._saved_words()),
            *((_round_title(s.rounds), f"{s.part:6.1%} for {s.what}") for s in self.spending),
            *((_round_title(s.rounds), self._held_out_words(s)) for s in self.held_out),
            *((f"against {who}", what) for who, what in self.trust),
            *_titled("not protected", self.unprotected),
            ("code", f"hedgerow {self.release}, source {self.source[:16]}"),
            *(("note", caveat) for caveat in self.caveats),
        ]

    def _sampler_words(self) -> list[str]:
        if self.spent_fraction is None:
            return []
        if self.delta_slack == 0.0:
            return ["every draw is exact"]
        return [f"delta grows by at most {printed(self.delta_slack, 2)} for inexact draws"]

    def _graph_words(self) -> list[str]:
        if self.graph_delta == 0.0:
            return []
        part = printed(self.graph_delta, 2)
        return [
            f"between neighbours on a sparse graph; {part} of delta is for rounds it may expose"
        ]

    def _spent_words(self) -> str:
        if self.spent_fraction is None:
            return "no noise was added, so nothing is promised"
        part = f"{self.spent_fraction:.1%} of the budget, by the most charged record"
        if self.spent_fraction == 1.0:
            return part
        return f"{part}; what was asked has epsilon {printed(self.spent_epsilon)}"

    @staticmethod
    def _held_out_words(line: Spending) -> str:
        return f"{line.part:6.1%} for {line.what}, of held-out records, who paid for nothing else"

    def _saved_words(self) -> list[str]:
        if self.saved_fraction == 0.0:
            return []
        return [f"nodes handed down {self.saved_fraction:.1%} of their budget, on average"]


def _guarantee(d: dict[str, Any], epsilon: float, delta: float, unit: str) -> Guarantee:
    """Older statements have no more than the numbers and the words; later ones repeat them."""
    if "guarantee" not in d:
        cost = math.inf if epsilon == math.inf else exact(epsilon)
        return guarantee_of_words(unit, cost, exact(delta))
    kept = Guarantee.from_dict(d["guarantee"])
    if (*kept.numbers, unit_words(kept.unit, kept.protected)) != (epsilon, delta, unit):
        raise ValueError(f"its statement says epsilon {epsilon} and keeps {kept.promise}")
    return kept


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _plain(one) for name, one in value.items()}
    return INFINITY if value == math.inf else value


def _titled(title: str, lines: Sequence[str]) -> list[tuple[str, str]]:
    """The title stands before the first line only."""
    return [(title if k == 0 else "", line) for k, line in enumerate(lines)]


def _round_title(rounds: str) -> str:
    return f"round {rounds}" if rounds[0].isdigit() else rounds


def statement(
    study: Study,
    spent: Cost,
    asked: Sequence[Asked],
    simulated: bool,
    saved_fraction: float = 0.0,
    slack: Fraction = Fraction(0),
    parties_met: bool = False,
    persons_told: bool = False,
    total: Total | None = None,
    instead: str | None = None,
    schema_source: str | None = None,
    drawn: Drawn | None = None,
) -> PrivacyStatement:
    """The statement of a finished run; `spent` is the largest total over the sites' ledgers.

    `saved_fraction` is the mean part of their budgets that nodes handed down unspent; `slack` is
    the total variation between all noise and its laws; `parties_met` says that nobody named the
    parties beforehand: those take part that hold rows; `persons_told` that sites knew whose each
    record is, and kept no more of a person than the study says; `total` is what all fits of a
    shared ledger promise; `instead` says what was trained where noise left no choice;
    `schema_source` tells of the schema as it was given, whose digest its file has too: the study's
    own has the recipe's grid; `drawn` which records it is of, if secret draws left others out.
    """
    no_noise = study.placement is Placement.NOWHERE
    inferred = bool(study.schema.unconfirmed)
    cost = _epsilon(study, spent)
    epsilon = shown(cost)
    kept = wording.guarantee_of(study, persons_told, epsilon=cost, drawn=drawn)
    path = [] if no_noise else worst_path(asked)
    tested = [query for query in asked if study.is_held_out(query.region)]
    trained = [query for query in asked if not study.is_held_out(query.region)]
    path_trained = worst_path(trained) if tested else path
    return PrivacyStatement(
        guarantee=kept,
        promised_epsilon=math.inf if no_noise else rounding.float_above(study.epsilon),
        spent_epsilon=math.inf if no_noise else _epsilon_of(study, spent),
        spent_fraction=None if no_noise else float(spent / study.total),
        unspent=() if no_noise else _unspent(study, spent, asked),
        neighbours=wording.neighbours(study, persons_told),
        accountant="none" if no_noise else ACCOUNTANTS[study.measure],
        mechanisms=by_mechanism(path, study.total) if path else (),
        placement=study.placement.value,
        trust=tuple(wording.trust(study, epsilon, asked)),
        randomness="none" if no_noise else RANDOMNESS,
        schema_source=schema_source or study.schema.provenance,
        saved_fraction=saved_fraction,
        delta_slack=_delta_slack(slack, epsilon),
        graph_delta=rounding.float_above(study.graph_delta),
        parties=study.parties,
        honest_shares=study.honest,
        spending=() if no_noise else by_rounds(trained, path_trained, study.total),
        held_out=() if no_noise else by_rounds(tested, worst_path(tested), study.total),
        caveats=(
            *([instead] if instead else []),
            *_warnings(study, epsilon, inferred, parties_met, simulated, asked),
            *_of_persons(study, persons_told),
            *([HELD_OUT.format(study.hold_out)] if study.hold_out else []),
            *([EVALUATED.format(kept.promise)] if tested else []),
            *(TOGETHER if total else [ALONE]),
            OUTSIDE,
        ),
        meaning=_meaning(study, spent, inferred, slack),
        unprotected=unprotected(study, inferred, simulated),
        release=__version__,
        source=source_digest(),
        total=total,
    )


def _meaning(study: Study, spent: Cost, inferred: bool, slack: Fraction) -> Meaning:
    """Of the budget that no run can exceed; labels pay a price that is fixed beforehand.

    What inexact draws add is far below the last digit, which is rounded up anyhow.
    """
    cost = spent if study.placement is Placement.LABEL else study.total
    unbounded = inferred or study.placement is Placement.NOWHERE
    return meaning_of(study.measure, math.inf if unbounded else cost, study.graph_delta + 2 * slack)


def _epsilon(study: Study, spent: Cost) -> Cost:
    """What the whole run keeps: the budget that no run can exceed, not what this one happened to
    spend. Only labels pay a price that is fixed beforehand.
    """
    if study.placement is Placement.NOWHERE:
        return math.inf
    if study.placement is Placement.LABEL:
        return exact(_epsilon_of(study, spent))
    return study.epsilon


def _epsilon_of(study: Study, cost: Cost) -> float:
    return conversions.epsilon_of(study.measure, cost, study.noise_delta)


def _delta_slack(slack: Fraction, epsilon: float) -> float:
    """(1 + e^epsilon) times the total variation, rounded up (docs/proofs/samplers.md)."""
    if slack == 0 or math.isinf(epsilon):
        return 0.0
    factor = 1 + rounding.context().exp(epsilon)
    bound = rounding.above(rounding.real(slack) * factor, rounding.FINE_BITS)
    return rounding.float_above(min(bound, Fraction(1)))


def _unspent(study: Study, spent: Cost, asked: Sequence[Asked]) -> tuple[Part, ...]:
    """What was left and why, in exact parts until the end: nothing left is no line."""
    left = study.total - spent
    failed = [query for query in asked if query.void]
    kept = min(left, max(Fraction(0), study.reserve - paid(worst_path(failed))))
    rounds = len({query.round for query in failed})
    why = "the learner ended before it had asked for all it was allowed"
    if study.placement is Placement.LABEL:
        why = "labels are told in bits that cost less than the promise allows"
    parts = ((kept, f"kept for rounds that fail ({rounds or 'none'} did)"), (left - kept, why))
    return tuple(Part(float(cost / study.total), what) for cost, what in parts if cost)


def _warnings(
    study: Study,
    epsilon: float,
    inferred: bool,
    parties_met: bool,
    simulated: bool,
    asked: Sequence[Asked],
) -> list[str]:
    notes = []
    if inferred:
        notes.append(
            "ranges, categories or classes were read from the rows, so epsilon is infinite for "
            f"them; the sums alone have epsilon {printed(epsilon)}. Give a schema to repair this, "
            "or confirm a drafted one."
        )
    if parties_met:
        notes.append(
            "which parties hold rows is public: those that hold any took part. Name all parties "
            "when fitting, those without rows too, to repair this."
        )
    if conversions.is_weak_delta(study.delta):
        notes.append(conversions.WEAK_DELTA_WORDS)
    if study.parties > 1 and any(query.mechanism in CHOICES.values() for query in asked):
        notes.append("the coordinator sees the choice of each site; each is private on its own.")
    if simulated and study.parties > 1:
        notes.append(
            "simulated: one process held all rows and drew all noise; trust = that process."
        )
    if not simulated:
        notes.append(_of_time(study))
    return notes


def _of_time(study: Study) -> str:
    """What the time of a reply tells about a site's rows."""
    if not study.slot:
        return (
            "how long a site takes to answer is not protected: it shows about how many records it "
            "holds. Give the study a slot to repair this."
        )
    slot = "1 second" if study.slot == 1 else f"{study.slot} seconds"
    return (
        f"sites answer at the end of slots of {slot}; one that needs longer answers a slot later, "
        "which shows that it did."
    )


def _of_persons(study: Study, persons_told: bool) -> list[str]:
    """Whether anybody counted, and who."""
    most = study.records_per_person
    if not persons_told:
        believed = f"that nobody has more than {most} records is believed, not counted. Tell whose "
        return [f"{believed}each record is (`person`) to have it kept."] if most > 1 else []
    which = "drawn by secret words of their own; others were left out unseen"
    kept = [f"each site kept at most {most} of a person's records, {which}."]
    if study.parties > 1:
        kept.append("a person with records at several sites counts once for each of them.")
    return kept
