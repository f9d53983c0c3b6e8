"""A guarantee as a value, and the composition of several.

A release is (epsilon, delta)-DP for a unit (one record, or all records of one person) between
neighboring data sets. Releases of the same records add up (basic composition, for any noise). Of
releases of disjoint parts the largest counts (parallel composition), if and only if every unit lies
in one part whatever the other units are. That holds where secret draws of the units themselves made
the parts.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from enum import Enum
from fractions import Fraction
from functools import lru_cache, reduce
from typing import Any

from hedgerow.errors import ParameterError
from hedgerow.privacy.accounting import rounding
from hedgerow.privacy.accounting.budget import Cost, Measure, checked_cost
from hedgerow.privacy.accounting.rounding import Real, context, float_above, format_above, real

INFINITY = "infinity"
"""Infinity in JSON, which has no such number."""


class Protected(Enum):
    """The protected part of a unit: all of it, its labels (features are public), or nothing."""

    RECORD = "record"
    LABEL = "label"
    NOTHING = "nothing"


@dataclass(frozen=True, slots=True, kw_only=True)
class Unit:
    """The unit of privacy: one record, or one person with up to `most` records.

    `counted` says that each site knew the person of each record and kept no more than `most`;
    otherwise `most` is an assumption.
    """

    most: int = 1
    counted: bool = False
    at_one_site: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Drawn:
    """Parts of the records, made by named secret draws; the release used no other records."""

    name: str
    parts: frozenset[int]
    by_person: bool

    def join(self, other: Drawn | None) -> Drawn | None:
        """The parts of both, if the same draw made them; None if they may overlap."""
        if other is None or (other.name, other.by_person) != (self.name, self.by_person):
            return None
        return Drawn(name=self.name, parts=self.parts | other.parts, by_person=self.by_person)


@dataclass(frozen=True, slots=True, kw_only=True)
class Guarantee:
    """The guarantee of one or several releases; `drawn` names their records unless they are all."""

    unit: Unit
    protected: Protected
    epsilon: Cost
    delta: Fraction
    drawn: Drawn | None = None

    def __post_init__(self) -> None:
        checked_cost(self.epsilon)
        checked_cost(self.delta)
        if (self.epsilon == math.inf) is not (self.protected is Protected.NOTHING):
            raise ParameterError(
                f"a guarantee has epsilon {self.epsilon} and protects {self.protected.value!r}; "
                "an infinite one protects nothing, and no other does."
            )

    @property
    def numbers(self) -> tuple[float, float]:
        """Epsilon and delta, rounded up."""
        return shown_cost(self.epsilon), shown_cost(self.delta)

    @property
    def summary(self) -> str:
        epsilon, delta = self.numbers
        return f"epsilon = {format_above(epsilon)}, delta = {format_above(delta)}"

    def to_dict(self) -> dict[str, Any]:
        sample = self.drawn
        return {
            "unit": asdict(self.unit),
            "protected": self.protected.value,
            "epsilon": INFINITY if self.epsilon == math.inf else str(self.epsilon),
            "delta": str(self.delta),
            "drawn": None if sample is None else asdict(sample) | {"parts": sorted(sample.parts)},
        }

    @staticmethod
    def from_dict(d: Mapping[str, Any]) -> Guarantee:
        sample = d["drawn"] and Drawn(**d["drawn"] | {"parts": frozenset(d["drawn"]["parts"])})
        infinite = d["epsilon"] == INFINITY
        return Guarantee(
            unit=Unit(**d["unit"]),
            protected=Protected(d["protected"]),
            epsilon=math.inf if infinite else Fraction(d["epsilon"]),
            delta=Fraction(d["delta"]),
            drawn=sample,
        )


def shown_cost(cost: Cost) -> float:
    return float_above(cost) if isinstance(cost, Fraction) else math.inf


def add_guarantees(first: Guarantee, *others: Guarantee) -> Guarantee:
    """Basic composition: epsilons and deltas add.

    If one release protects labels alone and another whole records, the first exposes features and
    the second does not cover a changed label, so both together guarantee nothing.
    """
    return reduce(lambda a, b: _combine(a, b, lambda x, y: x + y), others, first)


def combine_disjoint(first: Guarantee, second: Guarantee) -> Guarantee:
    """Parallel composition of releases of disjoint parts; raises if that is not proven."""
    reason = reason_not_apart(first, second)
    if reason is not None:
        raise ParameterError(f"{reason}, so that what was released of both adds up; add them.")
    return _combine(first, second, max)


def reason_not_apart(first: Guarantee, second: Guarantee) -> str | None:
    """Why it is not proven that no unit paid for both; None if it is proven."""
    first_sample, second_sample = first.drawn, second.drawn
    if first_sample is None or second_sample is None or first_sample.join(second_sample) is None:
        return "the records of both were not drawn apart by the same secret draws"
    if first_sample.parts & second_sample.parts:
        return "both were released of the same part of the records"
    if Protected.LABEL in (first.protected, second.protected):
        return "a record with another label may be drawn into another part"
    if first.unit.most > 1 and not first_sample.by_person:
        return "a person with several records may have some of them in each part"
    return None


def _combine(a: Guarantee, b: Guarantee, of: Callable[[Any, Any], Any]) -> Guarantee:
    check_one_unit(a.unit, b.unit)
    is_one_kind = a.protected is b.protected
    common_protection = a.protected if is_one_kind else Protected.NOTHING
    return Guarantee(
        unit=a.unit,
        protected=common_protection,
        epsilon=math.inf if common_protection is Protected.NOTHING else of(a.epsilon, b.epsilon),
        delta=of(a.delta, b.delta),
        drawn=None if a.drawn is None else a.drawn.join(b.drawn),
    )


def check_one_unit(*units: Unit) -> None:
    if len(set(units)) > 1:
        first, second = list(dict.fromkeys(units))[:2]
        raise ParameterError(
            f"guarantees to {unit_words(first)} and to {unit_words(second)} do not add up; make "
            "all of them to one unit (the same records_per_person, with or without `person`)."
        )


def unit_words(unit: Unit, protection: Protected = Protected.RECORD) -> str:
    """The protected unit in words; each site counts the records of declared persons by itself."""
    most, of_label = unit.most, protection is Protected.LABEL
    if unit.counted:
        whose = f"one person{' at one site' if unit.at_one_site else ''}"
        if of_label:
            return f"the labels of {whose}, {most} at most (features are not protected)"
        return f"{whose}, of whose records {most} at most are kept"
    match of_label, most > 1:
        case False, False:
            return "one record"
        case False, True:
            return f"one person with up to {most} records"
        case True, False:
            return "the label of one record (features are not protected)"
        case _:
            return f"the labels of one person's up to {most} records (features are not protected)"


def guarantee_of_words(words: str, epsilon: Cost, delta: Fraction) -> Guarantee:
    """Reads a guarantee from the numbers and words of a ledger or an older statement."""
    unit, protection_by_words = unit_of_words(words)
    protection = Protected.NOTHING if epsilon == math.inf else protection_by_words
    return Guarantee(unit=unit, protected=protection, epsilon=epsilon, delta=delta)


def unit_of_words(words: str) -> tuple[Unit, Protected]:
    """The inverse of `unit_words`."""
    digits = "".join(c for c in words if c.isdigit())
    unit = Unit(
        most=int(digits or 1), counted="at most" in words, at_one_site="at one site" in words
    )
    protection = Protected.LABEL if words.startswith("the label") else Protected.RECORD
    if unit_words(unit, protection) != words:
        raise ValueError(f"{words!r} is no unit of a guarantee")
    return unit, protection


# The meaning of a budget for one person: how well an attack can detect that they took part. A
# membership attack is a test on what was released. Differential privacy bounds its true positive
# rate given its false positive rate, whatever else the attacker knows (Wasserman and Zhou 2010;
# Kairouz, Oh and Viswanath 2015; Dong, Roth and Su 2022). All numbers are upper bounds, rounded up.
FALSE_POSITIVES = (Fraction(1, 1000), Fraction(1, 100), Fraction(1, 10))


@dataclass(frozen=True, slots=True)
class Meaning:
    """Bounds on membership attacks.

    `guess` is how often a guess is right, where a coin is right half of the time; `advantage` is
    the largest gap between the true and the false positive rate; `found` has, for some false
    positive rates, the largest true positive rate.
    """

    guess: float
    advantage: float
    found: tuple[tuple[float, float], ...]

    @staticmethod
    def from_dict(d: dict[str, Any]) -> Meaning:
        return Meaning(d["guess"], d["advantage"], tuple((a, b) for a, b in d["found"]))


@lru_cache(maxsize=1024)
def meaning_of(measure: Measure, cost: Cost, more_delta: Fraction = Fraction(0)) -> Meaning:
    """`more_delta` is the failure probability besides the noise; it adds to every success rate."""
    most = advantage(measure, cost, more_delta)
    return Meaning(
        guess=_float_above((1 + Fraction(most)) / 2),
        advantage=most,
        found=tuple((float(a), found_at(measure, cost, a, more_delta)) for a in FALSE_POSITIVES),
    )


def advantage(measure: Measure, cost: Cost, more_delta: Fraction = Fraction(0)) -> float:
    """The largest gap between the true and the false positive rate of an attack.

    tanh(epsilon / 2) for pure epsilon, 2 Phi(mu / 2) - 1 for mu-GDP.
    """
    if cost == math.inf:
        return 1.0
    ctx, amount = context(), real(Fraction(cost))
    is_pure = _is_pure(measure)
    return _bound(ctx.tanh(amount / 2) if is_pure else ctx.erf(ctx.sqrt(amount / 8)), more_delta)


def found_at(
    measure: Measure, cost: Cost, false_positives: Fraction, more_delta: Fraction = Fraction(0)
) -> float:
    """The highest true positive rate of a membership attack at a false positive rate.

    min(e^eps a, 1 - e^-eps (1 - a)) for pure epsilon, Phi(Phi^-1(a) + mu) for mu-GDP.
    """
    if cost == math.inf:
        return 1.0
    ctx, amount, alarms = context(), real(Fraction(cost)), real(false_positives)
    if _is_pure(measure):
        ratio = ctx.exp(amount)
        return _bound(min(ratio * alarms, 1 - (1 - alarms) / ratio), more_delta)
    quantile = -ctx.sqrt(2) * ctx.erfinv(1 - 2 * alarms)
    return _bound(ctx.ncdf(quantile + ctx.sqrt(amount)), more_delta)


def _is_pure(measure: Measure) -> bool:
    if measure is Measure.ZCDP:
        raise ParameterError(
            f"no meaning is derived for {measure.value}; use epsilon or mu squared."
        )
    return measure is Measure.PURE


def _bound(number: Real, more_delta: Fraction) -> float:
    return _float_above(rounding.above(number, rounding.FINE_BITS) + more_delta)


def _float_above(number: Fraction) -> float:
    return min(rounding.float_above(number), 1.0)
