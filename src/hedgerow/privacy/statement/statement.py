"""The privacy statement of a model, built from the study and the ledger alone."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from fractions import Fraction
from typing import Any

from hedgerow.errors import ParameterError
from hedgerow.privacy.accounting import conversions, rounding
from hedgerow.privacy.accounting.budget import Cost, DPModel, Measure
from hedgerow.privacy.accounting.guarantee import (
    INFINITY,
    Drawn,
    Guarantee,
    Meaning,
    guarantee_of_words,
    meaning_of,
    shown_cost,
    unit_words,
)
from hedgerow.privacy.accounting.rounding import format_above
from hedgerow.privacy.pricing import CHOICES
from hedgerow.privacy.queries import Gradients
from hedgerow.privacy.statement import wording
from hedgerow.privacy.statement.record import About
from hedgerow.privacy.statement.spending import (
    Asked,
    Part,
    Spending,
    Total,
    by_mechanism,
    by_rounds,
    kept_for_selections,
    of_worst_site,
    total_cost,
    worst_path,
)
from hedgerow.privacy.statement.wording import list_unprotected
from hedgerow.privacy.study import Study
from hedgerow.schema.rules import exact
from hedgerow.schema.visible import html_table
from hedgerow.version import __version__, source_digest

ACCOUNTANTS = {
    Measure.PURE: "pure DP (epsilon adds over the rounds)",
    Measure.GDP: "Gaussian DP (mu squared adds over the rounds)",
}
AMONG_SUMS = "; a selection is priced by the budget that is left after it"
RANDOMNESS = "operating system's generator, expanded by AES-256-CTR; integers only"
SEPARATE_FITS = "each fit of a hyperparameter search is a fit of its own: epsilons and deltas add."
TOGETHER = (
    "all fits: each fit of the ledger counts with its whole budget, as if on the same records "
    "(basic composition); what inexact sampling adds to delta comes on top.",
    "fits that do not use this ledger are not counted.",
)
HELD_OUT = "one record in {}, by a secret random draw, was held out of training."
EVALUATED = "no record paid for both training and evaluation: together they guarantee {}."
OF_TIMES = (
    "of each record the study uses the time of the event or of the last contact, in intervals for "
    "events; a record adds 1 to one cell of each table of times, and to each tree one vector of "
    "length at most 1. Nobody's time leaves a site; curves and numbers at risk are noisy. "
    "Censoring must not depend on the event beyond what the columns say."
)
MASKS = "between neighbors on a sparse graph; {} of delta is for rounds it may expose"
SAVED = "nodes passed on {:.1%} of their budget, on average"
PAID_ELSEWHERE = ", of held-out records, which paid for nothing else"
OUTSIDE = "scores and calibration on raw rows are outside this statement."


@dataclass(frozen=True, kw_only=True, repr=False)
class PrivacyStatement:
    """The guarantee of one fit or of one evaluation; it covers nothing else.

    `epsilon` is the guarantee of the run as a whole, whatever its answers are. `spent_epsilon` is
    that of what this run released; it is smaller where budget was left.
    """

    guarantee: Guarantee
    guaranteed_epsilon: float
    spent_epsilon: float
    spent_fraction: float | None
    unspent: tuple[Part, ...]
    neighbors: str
    accountant: str
    mechanisms: tuple[Part, ...]
    dp_model: str
    trust: tuple[tuple[str, str], ...]
    randomness: str
    schema_source: str
    saved_fraction: float
    delta_slack: float
    graph_delta: float
    n_sites: int
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
    """The spending of held-out records, which paid for nothing else."""
    covers: str = "fit"
    """What was done with the records: one fit, or one evaluation. Nothing else is covered."""

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
    def summary(self) -> str:
        return self.guarantee.summary

    def to_dict(self) -> dict[str, Any]:
        """For JSON; `from_dict` is the inverse."""
        total = None if self.total is None else self.total.to_dict()
        parts = {"guarantee": self.guarantee.to_dict(), "total": total}
        facts = {"epsilon": self.epsilon, "delta": self.delta, "unit": self.unit}
        content: dict[str, Any] = _plain(facts | asdict(self) | parts)
        return content

    @staticmethod
    def from_dict(d: dict[str, Any]) -> PrivacyStatement:
        facts: dict[str, Any] = {k: math.inf if v == INFINITY else v for k, v in d.items()}
        facts["guarantee"] = _guarantee(d, *(facts.pop(k) for k in ("epsilon", "delta", "unit")))
        facts["unspent"] = tuple(Part(**part) for part in d["unspent"])
        facts["mechanisms"] = tuple(Part(**part) for part in d["mechanisms"])
        facts["spending"] = tuple(Spending(**line) for line in d["spending"])
        facts["held_out"] = tuple(Spending(**line) for line in d.get("held_out", ()))
        facts["trust"] = tuple((adversary, bound) for adversary, bound in d["trust"])
        facts["caveats"] = tuple(d["caveats"])
        facts["unprotected"] = tuple(d["unprotected"])
        facts["meaning"] = Meaning.from_dict(d["meaning"])
        facts["total"] = Total.from_dict(d["total"], d["unit"]) if d.get("total") else None
        facts["about"] = About.from_dict(d["about"]) if d.get("about") else None
        return PrivacyStatement(**facts)

    def to_frame(self) -> Any:
        """A pandas table of the spending, round by round, and of the unspent budget."""
        try:
            import pandas as pd
        except ImportError:
            raise ParameterError(
                "a table needs pandas, which is not installed; pip install 'hedgerow[frames]'."
            ) from None

        rows = [
            *((line.rounds, line.what, line.part, "training") for line in self.spending),
            *((line.rounds, line.what, line.part, "held out") for line in self.held_out),
            *(("", part.what, part.part, "not used") for part in self.unspent),
        ]
        return pd.DataFrame(rows, columns=["rounds", "what", "part", "records"])

    def __repr__(self) -> str:
        return f"PrivacyStatement({self.summary}, unit = {self.unit})"

    def __str__(self) -> str:
        lines = self._lines()
        width = max(len(title) for title, _ in lines)
        body = [f"  {title:<{width}}  {words}" for title, words in lines]
        return "\n".join([self.title, *body])

    def _repr_html_(self) -> str:
        return html_table(f"{self.title}: {self.summary}", self._lines())

    def _lines(self) -> list[tuple[str, str]]:
        delta = format_above(self.graph_delta, 2)
        return [
            *(self.about.lines() if self.about else ()),
            ("guarantee", self.summary),
            *([("all fits", self.total.summary)] if self.total else []),
            ("unit of privacy", self.unit),
            ("neighbors", self.neighbors),
            *_title_lines("meaning", wording.meaning_words(self.meaning, self.unit)),
            ("noise", wording.dp_model_words(self.dp_model)),
            *_title_lines(
                "mechanism", [f"{m.part:6.1%} {m.what}" for m in self.mechanisms] or ["none"]
            ),
            ("accountant", self.accountant),
            ("randomness", self.randomness),
            *_title_lines("sampling", self._sampler_words()),
            *_title_lines("masks", [MASKS.format(delta)] if self.graph_delta else []),
            ("schema", self.schema_source),
            *([("ledger", self.total.place)] if self.total else []),
            ("budget used", self._spent_words()),
            *_title_lines("not used", [f"{u.part:6.1%} {u.what}" for u in self.unspent]),
            *([("saved", SAVED.format(self.saved_fraction))] if self.saved_fraction else []),
            *((_round_title(s.rounds), f"{s.part:6.1%} for {s.what}") for s in self.spending),
            *(
                (_round_title(s.rounds), f"{s.part:6.1%} for {s.what}{PAID_ELSEWHERE}")
                for s in self.held_out
            ),
            *((f"against {adversary}", bound) for adversary, bound in self.trust),
            *_title_lines("not protected", self.unprotected),
            ("code", f"hedgerow {self.release}, source {self.source[:16]}"),
            *(("note", caveat) for caveat in self.caveats),
        ]

    def _sampler_words(self) -> list[str]:
        if self.spent_fraction is None:
            return []
        if self.delta_slack == 0.0:
            return ["every draw is exact"]
        return [f"inexact sampling adds at most {format_above(self.delta_slack, 2)} to delta"]

    def _spent_words(self) -> str:
        if self.spent_fraction is None:
            return "no noise was added: no guarantee"
        part = f"{self.spent_fraction:.1%} (worst-case record)"
        if self.spent_fraction == 1.0:
            return part
        return f"{part}; what was released has epsilon {format_above(self.spent_epsilon)}"


def _guarantee(d: dict[str, Any], epsilon: float, delta: float, unit: str) -> Guarantee:
    """Reads a guarantee; older statements have only its numbers and words."""
    if "guarantee" not in d:
        cost = math.inf if epsilon == math.inf else exact(epsilon)
        return guarantee_of_words(unit, cost, exact(delta))
    guarantee = Guarantee.from_dict(d["guarantee"])
    words = unit_words(guarantee.unit, guarantee.protected)
    if (*guarantee.numbers, words) != (epsilon, delta, unit):
        raise ValueError(f"its statement says epsilon {epsilon} and keeps {guarantee.summary}")
    return guarantee


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _plain(item) for name, item in value.items()}
    return INFINITY if value == math.inf else value


def _title_lines(title: str, lines: Sequence[str]) -> list[tuple[str, str]]:
    """Pairs the lines with a title, which stands before the first line only."""
    return [(title if k == 0 else "", line) for k, line in enumerate(lines)]


def _round_title(rounds: str) -> str:
    return f"round {rounds}" if rounds[0].isdigit() else rounds


def statement(
    study: Study,
    spent: Cost,
    queries: Sequence[Asked],
    is_simulation: bool,
    saved_fraction: float = 0.0,
    slack: Fraction = Fraction(0),
    found_sites: bool = False,
    persons_declared: bool = False,
    total: Total | None = None,
    instead: str | None = None,
    schema_source: str | None = None,
    sample: Drawn | None = None,
) -> PrivacyStatement:
    """The statement of a finished run; `spent` is the largest total over the sites' ledgers.

    `saved_fraction` is the mean fraction of their budgets that nodes handed down unspent. `slack`
    is the total variation between all noise and its laws. `found_sites` says that the sites were
    not named beforehand: those that hold rows took part. `persons_declared` says that sites knew
    the person of each record, and kept no more records per person than the study says. `total` is
    the guarantee of all fits of a shared ledger. `instead` says what was trained where noise left
    no choice. `schema_source` describes the schema as it was given; the study's own has the
    method's grid. `sample` names the records, if secret draws left others out.
    """
    no_noise = study.dp_model is DPModel.NONE
    gradients = any(kind.what == Gradients.__name__ for kind in study.asks)
    learns_times = study.schema.survival is not None and gradients
    queries = of_worst_site(queries, study.n_sites, study.measure)
    is_schema_inferred = bool(study.schema.unconfirmed)
    accountant = "none" if no_noise else ACCOUNTANTS[study.measure]
    if any(query.remainder for query in queries):
        accountant += AMONG_SUMS
        of_training = [query for query in queries if not study.is_held_out(query.region)]
        queries = [*queries, *kept_for_selections(of_training, study.measure)]
    cost = _epsilon(study, spent)
    epsilon = shown_cost(cost)
    guarantee = wording.guarantee_of(study, persons_declared, epsilon=cost, sample=sample)
    path = [] if no_noise else worst_path(queries)
    test_queries = [query for query in queries if study.is_held_out(query.region)]
    training_queries = [query for query in queries if not study.is_held_out(query.region)]
    path_trained = worst_path(training_queries) if test_queries else path
    return PrivacyStatement(
        guarantee=guarantee,
        guaranteed_epsilon=math.inf if no_noise else rounding.float_above(study.epsilon),
        spent_epsilon=math.inf if no_noise else _epsilon_of(study, spent),
        spent_fraction=None if no_noise else float(spent / study.total),
        unspent=() if no_noise else _unspent(study, spent, queries),
        neighbors=wording.neighbors(study, persons_declared),
        accountant=accountant,
        mechanisms=by_mechanism(path, study.total) if path else (),
        dp_model=study.dp_model.value,
        trust=tuple(wording.trust(study, epsilon, queries)),
        randomness="none" if no_noise else RANDOMNESS,
        schema_source=schema_source or study.schema.provenance,
        saved_fraction=saved_fraction,
        delta_slack=_delta_slack(slack, epsilon),
        graph_delta=rounding.float_above(study.graph_delta),
        n_sites=study.n_sites,
        honest_shares=study.honest,
        spending=() if no_noise else by_rounds(training_queries, path_trained, study.total),
        held_out=() if no_noise else by_rounds(test_queries, worst_path(test_queries), study.total),
        caveats=(
            *([instead] if instead else []),
            *([OF_TIMES] if learns_times else []),
            *_warnings(study, epsilon, is_schema_inferred, found_sites, is_simulation, queries),
            *wording.list_unvetted(study),
            *_of_persons(study, persons_declared),
            *([HELD_OUT.format(study.hold_out)] if study.hold_out else []),
            *([EVALUATED.format(guarantee.summary)] if test_queries else []),
            *(TOGETHER if total else [SEPARATE_FITS]),
            OUTSIDE,
        ),
        meaning=_meaning(study, spent, is_schema_inferred, slack),
        unprotected=list_unprotected(study, is_schema_inferred, is_simulation),
        release=__version__,
        source=source_digest(),
        total=total,
    )


def _meaning(study: Study, spent: Cost, is_schema_inferred: bool, slack: Fraction) -> Meaning:
    """The meaning of the whole budget, which no run can exceed, or of the fixed cost of labels.

    Inexact draws add far less than the last digit, which is rounded up.
    """
    cost = spent if study.dp_model is DPModel.LABEL else study.total
    has_no_bound = is_schema_inferred or study.dp_model is DPModel.NONE
    return meaning_of(
        study.measure, math.inf if has_no_bound else cost, study.graph_delta + 2 * slack
    )


def _epsilon(study: Study, spent: Cost) -> Cost:
    """The guaranteed epsilon: that of the whole budget, or the fixed cost of randomized labels."""
    if study.dp_model is DPModel.NONE:
        return math.inf
    if study.dp_model is DPModel.LABEL:
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


def _unspent(study: Study, spent: Cost, queries: Sequence[Asked]) -> tuple[Part, ...]:
    """The unspent budget by reason; empty if nothing is left."""
    left = study.total - spent
    failed_queries = [query for query in queries if query.void]
    retry_budget = min(
        left, max(Fraction(0), study.reserve - total_cost(worst_path(failed_queries)))
    )
    rounds = len({query.round for query in failed_queries})
    why = "training ended before it used the whole budget"
    if study.dp_model is DPModel.LABEL:
        why = "randomized label bits cost less than the budget allows"
    parts = (
        (retry_budget, f"reserved for failed rounds ({rounds or 'none'} failed)"),
        (left - retry_budget, why),
    )
    return tuple(Part(float(cost / study.total), purpose) for cost, purpose in parts if cost)


def _warnings(
    study: Study,
    epsilon: float,
    is_schema_inferred: bool,
    found_sites: bool,
    is_simulation: bool,
    queries: Sequence[Asked],
) -> list[str]:
    notes = []
    if is_schema_inferred:
        notes.append(
            "ranges, categories or classes were read from the rows, so there is no guarantee for "
            f"them; the sums alone have epsilon {format_above(epsilon)}. Give a schema to fix "
            "this, or confirm a drafted one."
        )
    if found_sites:
        notes.append(
            "which sites hold rows is public: those that hold any took part. Name all sites "
            "when fitting, those without rows too, to fix this."
        )
    if conversions.is_weak_delta(study.delta):
        notes.append(conversions.WEAK_DELTA_WORDS)
    if study.n_sites > 1 and any(query.mechanism in CHOICES.values() for query in queries):
        notes.append("the coordinator sees the selection of each site; each is private on its own.")
    if is_simulation and study.n_sites > 1:
        notes.append(
            "simulated: one process held all rows and drew all noise; you trust that process."
        )
    if not is_simulation:
        notes.append(_of_time(study))
    return notes


def _of_time(study: Study) -> str:
    """The note on what the time of a reply reveals about a site's rows."""
    if not study.reply_interval:
        return (
            "how long a site takes to answer is not protected: it shows about how many records it "
            "holds. Give the study a reply interval to fix this."
        )
    interval = "1 second" if study.reply_interval == 1 else f"{study.reply_interval} seconds"
    return (
        f"sites reply at fixed intervals of {interval}; one that needs longer replies an interval "
        "later, which shows that it did."
    )


def _of_persons(study: Study, persons_declared: bool) -> list[str]:
    """Notes on whether the records of a person were counted, and by whom."""
    most = study.records_per_person
    if not persons_declared:
        assumption = f"assumption: nobody has more than {most} records. Name the column of persons "
        return [f"{assumption}(`person`) to enforce it."] if most > 1 else []
    which = "by a secret random draw; the others were left out"
    notes = [f"each site kept at most {most} records of each person, {which}."]
    if study.n_sites > 1:
        notes.append("a person with records at several sites counts once for each of them.")
    return notes
