"""The contribution of each record to its cell: integers with a bounded sensitivity.

A statistic declares its number of channels, what a record adds (1 to one channel, or a vector of
fractions), the bound of one record, the schemas it fits, and its description. It registers itself
once; the wire format, admission and the sensitivity tests read that registry.

Fractions are counted in integer units, `unit` per 1.0. The unit is not part of a statistic: it
follows from the approved study, so no message can choose it.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache, reduce
from itertools import pairwise
from math import ceil
from typing import ClassVar, Protocol, TypeVar

import numpy as np

from hedgerow.errors import UnsupportedQuery
from hedgerow.models.losses import (
    FirstOrder,
    LogLoss,
    Loss,
    Norms,
    OddsLoss,
    Sensitivity,
    SoftmaxLoss,
    SquaredLoss,
    clipped_gradients,
)
from hedgerow.models.model import Additive, Curve
from hedgerow.models.surfaces import Basis, basis_incompatibility
from hedgerow.models.validation import curve_incompatibility, model_incompatibility
from hedgerow.schema.arrays import N_CODES, Codes, FloatArray, GroupCodes
from hedgerow.schema.candidates import Binning
from hedgerow.schema.schema import Schema


# Queries in words, for people who approve studies and read statements.
@dataclass(frozen=True, slots=True)
class Phrase:
    """Words with counted nouns: "in {range}" with ("range", 5, 32) reads "in 5 to 32 ranges"."""

    pattern: str
    counts: tuple[tuple[str, int, int], ...] = ()

    def __str__(self) -> str:
        return self.said()

    def said(self, **instead: str) -> str:
        """The text; `instead` replaces a counted noun, for example by names."""
        nouns = {
            noun: f"{low if low == high else f'{low} to {high}'} {noun}{'' if high == 1 else 's'}"
            for noun, low, high in self.counts
        }
        return self.pattern.format(**nouns | instead)

    def then(self, other: Phrase) -> Phrase:
        return Phrase(f"{self.pattern} {other.pattern}", self.counts + other.counts)


def condense(phrases: Iterable[Phrase]) -> list[Phrase]:
    """Joins phrases of the same pattern; their counts become ranges."""
    by_pattern: dict[str, list[Phrase]] = {}
    for phrase in phrases:
        by_pattern.setdefault(phrase.pattern, []).append(phrase)
    return [reduce(_widen_counts, alike) for alike in by_pattern.values()]


def _widen_counts(first: Phrase, second: Phrase) -> Phrase:
    counts = (
        (noun, min(low, low2), max(high, high2))
        for (noun, low, high), (_, low2, high2) in zip(first.counts, second.counts, strict=True)
    )
    return Phrase(first.pattern, tuple(counts))


def counting(noun: str, count: int) -> tuple[str, int, int]:
    """A noun with an exact count."""
    return noun, count, count


LATTICE = 1 << 14
"""Integer units per 1.0 of a fractional statistic: truncation costs at most 2^-14 per record.

A study may use fewer units, because shares of Laplace noise are exact only up to a certain width.
"""

MOST_ODDS = 2.0**60
"""The largest odds: times e^30, the largest score, they are still finite."""
SMALLEST_RADIUS, LARGEST_RADIUS = 2.0**-20, 2.0**20
"""Radii that are exact enough to divide by."""


class Records(Protocol):
    """The view of the rows available to a statistic or a grouping."""

    @property
    def n(self) -> int: ...
    @property
    def classes(self) -> Codes: ...
    @property
    def target(self) -> FloatArray: ...
    @property
    def y(self) -> FloatArray:
        """Class codes or targets, whichever there are."""

    def target_codes(self, edges: Sequence[float]) -> GroupCodes: ...
    def raw(self, model: Additive) -> FloatArray:
        """(n, O) the model's raw score of each record."""

    def bins(self, binning: Binning) -> Codes: ...


class Statistic(Protocol):
    """The contribution of each record to its cell: 1 to one channel, or a vector of fractions."""

    @property
    def channels(self) -> int: ...
    @property
    def words(self) -> Phrase:
        """Describes the summed quantity, for people who approve it."""

    @property
    def is_fractional(self) -> bool:
        """Whether contributions are fractions, counted in units of the study's lattice."""

    def channel(self, records: Records) -> Codes:
        """(n,) the channel to which each record adds 1; only for statistics that count."""

    def fractions(self, records: Records, unit: int) -> FloatArray:
        """(n, C) what each record adds, by its own values alone; for all other statistics."""

    def bound(self, unit: int) -> Sensitivity:
        """The bound on one record in one cell, in units."""

    def incompatibility(self, schema: Schema) -> str | None:
        """Why rows under this schema have no such statistic; None if they have."""


STATISTICS: dict[str, type] = {}
"""All statistics, by name."""

_Kind = TypeVar("_Kind", bound=type)


def statistic(kind: _Kind) -> _Kind:
    """Registers a statistic: it can be sent, and the sensitivity tests cover it."""
    STATISTICS[kind.__name__] = kind
    return kind


@lru_cache(maxsize=1024)
def on_lattice(norms: Norms, unit: int) -> Sensitivity:
    """Norms in integer units, rounded up; truncating a record never increases them.

    Cached: the coordinator and every site derive the noise of a query many times.
    """
    l1, l2, linf = norms.l1, norms.l2_squared, norms.linf
    return Sensitivity(ceil(l1 * unit), ceil(l2 * unit**2), ceil(linf * unit))


ONE_RECORD = Sensitivity(1, 1, 1)


@dataclass(frozen=True, slots=True)
class _Counted:
    """Counts records: each adds 1 to one channel, so the sensitivity is 1."""

    is_fractional: ClassVar[bool] = False

    def fractions(self, records: Records, unit: int) -> FloatArray:
        raise UnsupportedQuery(f"{type(self).__name__} counts whole records.")

    def bound(self, unit: int) -> Sensitivity:
        return ONE_RECORD


@dataclass(frozen=True)
class _Fractional:
    """A vector for each record, truncated toward zero in units of the lattice."""

    is_fractional: ClassVar[bool] = True

    def channel(self, records: Records) -> Codes:
        raise UnsupportedQuery(f"{type(self).__name__} adds fractions.")


@statistic
@dataclass(frozen=True, slots=True)
class Count(_Counted):
    """1 for every record."""

    words: ClassVar[Phrase] = Phrase("record counts")
    channels: ClassVar[int] = 1

    def channel(self, records: Records) -> Codes:
        return np.zeros(records.n, np.uint8)

    def incompatibility(self, schema: Schema) -> str | None:
        return None


@statistic
@dataclass(frozen=True, slots=True)
class ClassCounts(_Counted):
    """1 in the channel of the record's class: classes are disjoint, so the bound stays 1."""

    n_classes: int
    words: ClassVar[Phrase] = Phrase("class counts")

    @property
    def channels(self) -> int:
        return self.n_classes

    def channel(self, records: Records) -> Codes:
        return records.classes

    def incompatibility(self, schema: Schema) -> str | None:
        return _other_classes(self.n_classes, schema)


@statistic
@dataclass(frozen=True, slots=True)
class LabelReports(_Counted):
    """Sums of the bits of the records' randomized label reports, and the number of records.

    It replaces class counts where labels are reported in bits. The report itself protects the label
    and features are not protected, so no noise depends on this bound.
    """

    bits: int
    words: ClassVar[Phrase] = Phrase("sums of randomized label bits")

    @property
    def channels(self) -> int:
        return self.bits + 1

    def channel(self, records: Records) -> Codes:
        raise UnsupportedQuery("each record reports many bits at once.")

    def bound(self, unit: int) -> Sensitivity:
        return Sensitivity(self.channels, self.channels, 1)

    def incompatibility(self, schema: Schema) -> str | None:
        return None if schema.classes is not None else "the rows have no classes"


@statistic
@dataclass(frozen=True, slots=True)
class TargetClassCounts(_Counted):
    """Counts by interval of a numeric target, between public or released cuts."""

    cuts: tuple[float, ...]

    @property
    def words(self) -> Phrase:
        return Phrase(
            "record counts by {interval} of the target", (counting("interval", self.channels),)
        )

    @property
    def channels(self) -> int:
        return len(self.cuts) + 1

    def channel(self, records: Records) -> Codes:
        return records.target_codes(self.cuts).astype(np.uint8)

    def incompatibility(self, schema: Schema) -> str | None:
        return no_target(schema) or find_disorder(self.cuts)


@statistic
@dataclass(frozen=True, slots=True)
class EventCounts(_Counted):
    """Counts per time interval (t1, t2] of records with and without the event.

    Channel k is interval k without the event, channel K + k with it; the last interval is
    unbounded. A record has one time, so it adds 1 to one channel. The number at risk follows from
    the counts.
    """

    edges: tuple[float, ...]

    @property
    def words(self) -> Phrase:
        intervals = counting("interval", len(self.edges) + 1)
        return Phrase("counts of events and censored records by {interval} of time", (intervals,))

    @property
    def channels(self) -> int:
        return 2 * (len(self.edges) + 1)

    def channel(self, records: Records) -> Codes:
        place = np.searchsorted(np.asarray(self.edges), np.abs(records.target), side="left")
        has_event = (records.target > 0.0) * (len(self.edges) + 1)
        return (place + has_event).astype(np.uint8)

    def incompatibility(self, schema: Schema) -> str | None:
        if self.channels > N_CODES:
            return f"{len(self.edges)} edges of time; at most {N_CODES // 2 - 1} are allowed"
        return _misfit_of_times(self.edges, schema)


@statistic
@dataclass(frozen=True)
class Fractions(_Fractional):
    """Complementary fractional counts (1 - u, u) of a target u = (y - low) / (high - low).

    a = round(s u) and s - a add up to exactly s units, so L1 = s and L2 <= s. Under Laplace noise
    this is the best query for a mean (Consul and Williamson's leaves, corrected).
    """

    low: float
    high: float
    words: ClassVar[Phrase] = Phrase("target sums")
    channels: ClassVar[int] = 2

    def fractions(self, records: Records, unit: int) -> FloatArray:
        u = (np.clip(records.target, self.low, self.high) - self.low) / (self.high - self.low)
        part = np.rint(np.nan_to_num(u) * unit)
        return np.stack([unit - part, part], axis=1) / unit

    def bound(self, unit: int) -> Sensitivity:
        return Sensitivity(unit, unit**2, unit)

    def incompatibility(self, schema: Schema) -> str | None:
        return no_target(schema) or _not_within(self.low, self.high, schema)


@statistic
@dataclass(frozen=True)
class Gradients(_Fractional):
    """The loss's own vector (gradient and scaled Hessian) at a model.

    A site may cache the raw predictions of the model; only new trees are sent. Each record's vector
    is truncated toward zero, so no norm grows.
    """

    loss: Loss
    at: Additive
    words: ClassVar[Phrase] = Phrase("prediction-error sums")

    @property
    def channels(self) -> int:
        return self.loss.channels

    def fractions(self, records: Records, unit: int) -> FloatArray:
        return self.loss.contributions(records.raw(self.at), records.y)

    def bound(self, unit: int) -> Sensitivity:
        return on_lattice(self.loss.norms, unit)

    def incompatibility(self, schema: Schema) -> str | None:
        return _incompatibility_at(self.loss, self.at, schema)


@statistic
@dataclass(frozen=True)
class Hessians(_Fractional):
    """The Hessian alone, for placing candidates; its sensitivity is smaller."""

    loss: Loss
    at: Additive
    words: ClassVar[Phrase] = Phrase("prediction-uncertainty sums")

    @property
    def channels(self) -> int:
        return self.loss.hessian_channels

    def fractions(self, records: Records, unit: int) -> FloatArray:
        return self.loss.hessians(records.raw(self.at), records.y)

    def bound(self, unit: int) -> Sensitivity:
        return on_lattice(self.loss.hessian_norms, unit)

    def incompatibility(self, schema: Schema) -> str | None:
        return _incompatibility_at(self.loss, self.at, schema)


@statistic
@dataclass(frozen=True)
class CurveNewton(_Fractional):
    """One Newton step on the weights of feature curves: (g z, (c / R) upper(h z z^T)), |z| <= R.

    z are the values of the curves at the record and one constant column, g and h those of a loss
    whose (g, c h) has norm at most 1: c = 3.33 for two classes, 2 for survival. The whole vector
    then has norm at most R: |z|^2 (g^2 + c^2 h^2 |z|^2 / R^2) <= R^2. Divided by R it is at most 1.
    Proof: docs/proofs/losses.md.
    """

    curves: tuple[Curve, ...]
    constant: float
    radius: float
    weights: tuple[float, ...]
    base: float
    loss: Loss = LogLoss()  # noqa: RUF009  (a frozen value)

    @property
    def dimension(self) -> int:
        return len(self.curves) + 1

    @property
    def words(self) -> Phrase:
        return Phrase(
            "sums for one Newton step on the weights of {curve}",
            (counting("curve", len(self.curves)),),
        )

    @property
    def channels(self) -> int:
        return self.dimension + self.dimension * (self.dimension + 1) // 2

    def fractions(self, records: Records, unit: int) -> FloatArray:
        raise UnsupportedQuery("Newton vectors are too long to be held; they are summed at once.")

    def bound(self, unit: int) -> Sensitivity:
        # L1 <= sqrt(channels) L2, rounded up.
        return Sensitivity(math.isqrt(self.channels * unit**2) + 1, unit**2, unit)

    def incompatibility(self, schema: Schema) -> str | None:
        if not SMALLEST_RADIUS <= self.radius <= LARGEST_RADIUS:
            return f"the radius {self.radius} is too small or too large"
        if len(self.weights) != self.dimension:
            return f"{len(self.weights)} weights came for {self.dimension} columns"
        if not isinstance(self.loss, LogLoss | OddsLoss):
            return f"{type(self.loss).__name__} has no bound for a step on weights"
        start = Additive((self.base,), self.curves)
        return loss_incompatibility(self.loss, schema) or model_incompatibility(start, schema)


LEAST_GRADIENT_CLIP = 2.0**-6
COARSER = 16
"""Lattice units per unit of a surface gradient, whose functions are integers already."""
LARGEST_SURFACE_RADIUS = 1 << 20


@statistic
@dataclass(frozen=True)
class SurfaceGradients(_Fractional):
    """One gradient step on curves and surfaces: g F / max(1, |F| / R), F the basis's integers.

    g, one number per output, is the gradient of the loss at the model and the coefficients, divided
    by its norm or by the clip, whichever is larger: |g| <= 1. The vector g x F then has norm at
    most R. The multipliers of F are integers in units of 16 lattice units, so sums over records are
    exact products of tables. Coefficients and sums are ordered by output.
    Proof: docs/proofs/losses.md.
    """

    basis: Basis
    at: Additive
    coefficients: tuple[float, ...]
    radius: int
    loss: Loss = LogLoss()  # noqa: RUF009  (a frozen value)
    clip: float = 1.0

    @property
    def words(self) -> Phrase:
        return Phrase(
            "sums for one gradient step on {number} of curves and surfaces",
            (counting("number", self.channels),),
        )

    @property
    def channels(self) -> int:
        return self.basis.channels * self.loss.outputs

    def fractions(self, records: Records, unit: int) -> FloatArray:
        raise UnsupportedQuery("gradients of surfaces are too long to be held; they are summed.")

    def gradients(self, contributions: FloatArray) -> FloatArray:
        """(n, O) gradients of norm at most 1, each computed from its own record."""
        return clipped_gradients(contributions[:, : self.loss.outputs], self.clip)

    @staticmethod
    def units(unit: int) -> int:
        """Integer units per 1.0 of a multiple of F."""
        return max(unit // COARSER, 1)

    def bound(self, unit: int) -> Sensitivity:
        # L1 <= sqrt(channels) L2, rounded up.
        l2 = self.units(unit) * self.radius
        return Sensitivity(math.isqrt(self.channels * l2**2) + 1, l2**2, l2)

    def incompatibility(self, schema: Schema) -> str | None:
        if not 1 <= self.radius <= LARGEST_SURFACE_RADIUS:
            return f"the radius {self.radius} is too small or too large"
        if not isinstance(self.loss, LogLoss | SoftmaxLoss | SquaredLoss):
            return f"{type(self.loss).__name__} has no bound for a step on surfaces"
        if not LEAST_GRADIENT_CLIP <= self.clip <= 1.0:
            return f"the clip {self.clip} is not between {LEAST_GRADIENT_CLIP} and 1"
        reason = basis_incompatibility(self.basis)
        if reason is None and len(self.coefficients) != self.channels:
            reason = f"{len(self.coefficients)} coefficients came for {self.channels} channels"
        functions = (
            curve_incompatibility(curve, len(curve.values[0]), schema)
            for curve in self.basis.functions
            if reason is None
        )
        return (
            reason
            or next(filter(None, functions), None)
            or _incompatibility_at(self.loss, self.at, schema)
        )


def _other_classes(n_classes: int, schema: Schema) -> str | None:
    n_declared = len(schema.classes or ())
    reason = f"{n_classes} classes were named; there are {n_declared}"
    return None if n_classes == n_declared else reason


def no_target(schema: Schema) -> str | None:
    is_number = schema.target is not None and schema.survival is None
    return None if is_number else "the rows have no numeric target"


def find_disorder(cuts: tuple[float, ...]) -> str | None:
    """The problem with edges that are not finite or do not rise strictly; None if there is none."""
    rising = all(a < b for a, b in pairwise(cuts))
    return None if rising and all(map(math.isfinite, cuts)) else "edges do not rise"


def _not_within(low: float, high: float, schema: Schema) -> str | None:
    target = schema.target
    if target is not None and target.low <= low < high <= target.high:
        return None
    return f"[{low}, {high}] is no part of the target's range"


def loss_incompatibility(loss: Loss, schema: Schema) -> str | None:
    """Why a loss has no bound for this target: each needs two classes, K classes, or a number."""
    match loss:
        case LogLoss():
            return _other_classes(2, schema)
        case SoftmaxLoss():
            return _other_classes(loss.n_classes, schema)
        case FirstOrder():
            return loss_incompatibility(loss.loss, schema)
        case OddsLoss():
            if len(loss.odds) != len(loss.edges):
                return f"{len(loss.odds)} odds came for {len(loss.edges)} times"
            rising = all(a <= b for a, b in pairwise((0.0, *loss.odds)))
            if not rising or not all(odds <= MOST_ODDS for odds in loss.odds):
                return "odds of an event fall with time, or are too large"
            return _misfit_of_times(loss.edges, schema)
        case SquaredLoss():
            if (reason := no_target(schema)) is not None:
                return reason
            if not 0.0 < loss.weight <= 1.0:
                return f"the weight {loss.weight} of a record is not between 0 and 1"
            if not 0.0 < loss.clip <= loss.high - loss.low:
                return f"residuals clipped at {loss.clip} are not within the range"
            return _not_within(loss.low, loss.high, schema)
    return f"there is no loss {type(loss).__name__}"


def _misfit_of_times(edges: tuple[float, ...], schema: Schema) -> str | None:
    survival = schema.survival
    if survival is None:
        return "the rows have no time to an event"
    if not edges or not edges[0] > 0.0 or not edges[-1] <= survival.horizon:
        return "edges of time do not lie between 0 and the horizon"
    return find_disorder(edges)


def _incompatibility_at(loss: Loss, at: Additive, schema: Schema) -> str | None:
    reason = loss_incompatibility(loss, schema)
    if reason is None and at.outputs != loss.outputs:
        reason = f"the model has {at.outputs} outputs; the loss needs {loss.outputs}"
    return reason or model_incompatibility(at, schema)
