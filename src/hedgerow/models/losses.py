"""Gradients and Hessians of losses, with bounds on what one record can contribute.

A loss turns a record's raw prediction (O outputs) and its target into C channels. The Hessian
channels are scaled up as far as the joint norm allows, which lowers their noise for free. NumPy
only; independent of trees and queries.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar, Protocol

import numpy as np

from hedgerow.errors import ParameterError
from hedgerow.schema.arrays import FloatArray


@dataclass(frozen=True, slots=True)
class Sensitivity:
    """Bounds on the change of an integer vector when one record is added or removed.

    In units of the query's lattice. The L2 norm is stored squared, as an integer.
    """

    l1: int
    l2_squared: int
    linf: int

    def __post_init__(self) -> None:
        if min(self.l1, self.l2_squared, self.linf) < 1:
            raise ParameterError(
                f"{self} is not positive; a query that no record can move needs no noise."
            )

    def repeat(self, times: int) -> Sensitivity:
        """The same contribution once in each of `times` groups: groups add up."""
        return Sensitivity(self.l1 * times, self.l2_squared * times, self.linf)

    def of_person(self, records: int) -> Sensitivity:
        """One person with up to `records` records, all of which may fall in one cell."""
        return Sensitivity(self.l1 * records, self.l2_squared * records**2, self.linf * records)


BINARY_HESSIAN_SCALE = 3.33
"""Largest c with g^2 + c^2 h^2 <= 1 for the log-loss is golden^2.5 = 3.3302."""

SOFTMAX_HESSIAN_SCALE = 2.0
"""Largest c with |(g, c h)| <= sqrt 2 for three classes or more; 3.33 would not hold."""


@dataclass(frozen=True, slots=True)
class Norms:
    """Largest L1, squared L2 and Linf norm of one record's vector, as exact rationals.

    The proofs compute with the same numbers: proofs/Bounds.v.
    """

    l1: Fraction
    l2_squared: Fraction
    linf: Fraction


ONE, QUARTER = Fraction(1), Fraction(1, 4)
BINARY_SCALE = Fraction(str(BINARY_HESSIAN_SCALE))
SOFTMAX_SCALE = Fraction(str(SOFTMAX_HESSIAN_SCALE))
"""The scales as exact decimals: 333/100, not the nearest double."""


class Loss(Protocol):
    """The interface of a loss for queries."""

    @property
    def outputs(self) -> int: ...
    @property
    def channels(self) -> int: ...
    @property
    def hessian_channels(self) -> int:
        """Channels of the Hessian alone: one for each output, or one for all."""

    @property
    def hessian_scale(self) -> float: ...
    @property
    def gradient_scale(self) -> float:
        """The value of one unit of a gradient channel."""

    def contributions(self, raw: FloatArray, target: FloatArray) -> FloatArray:
        """(n, C) gradient and scaled Hessian of each record."""

    def hessians(self, raw: FloatArray, target: FloatArray) -> FloatArray:
        """(n, O) unscaled Hessians."""

    @property
    def norms(self) -> Norms: ...
    @property
    def hessian_norms(self) -> Norms: ...


def sigmoid(z: FloatArray) -> FloatArray:
    return np.asarray(1.0 / (1.0 + np.exp(-np.clip(z, -30.0, 30.0))), np.float64)


LOG2_E = float.fromhex("0x1.71547652b82fep0")
LN2_HIGH, LN2_LOW = float.fromhex("0x1.62e42feep-1"), float.fromhex("0x1.a39ef35793c76p-33")
ROUNDER = 1.5 * 2.0**52
"""A number that is rounded to a whole one when this is added and subtracted."""
EXP_SERIES = [1.0 / math.factorial(k) for k in range(12, -1, -1)]


def logistic(z: FloatArray) -> FloatArray:
    """As `sigmoid`, by products and sums alone: the same bits on every machine and in C."""
    z = np.clip(z, -30.0, 30.0)
    k = (ROUNDER - z * LOG2_E) - ROUNDER
    rest = (-z - k * LN2_HIGH) - k * LN2_LOW
    power = np.full_like(z, EXP_SERIES[0])
    for coefficient in EXP_SERIES[1:]:
        power = power * rest + coefficient
    with np.errstate(invalid="ignore"):
        return np.asarray(1.0 / (1.0 + np.ldexp(power, k.astype(np.int32))), np.float64)


def softmax(z: FloatArray) -> FloatArray:
    e = np.exp(z - z.max(axis=-1, keepdims=True))
    return np.asarray(e / e.sum(axis=-1, keepdims=True), np.float64)


LONGER = 1.0 + 2.0**-40
"""The factor by which a computed norm is enlarged; it exceeds all rounding errors."""


def clipped_gradients(gradients: FloatArray, clip: float) -> FloatArray:
    """(n, O) gradients of norm at most 1: divided by their norm or by the clip, if that is more."""
    squares = np.zeros(len(gradients))
    for own in gradients.T:
        squares += own * own
    return np.asarray(gradients / np.maximum(LONGER * np.sqrt(squares), clip)[:, None])


@dataclass(frozen=True, slots=True)
class LogLoss:
    """Binary log-loss on one raw score: channels (g, 3.33 h).

    g = p - y, h = p (1 - p). g^2 + c^2 h^2 <= 1 while c^2 <= min_p (2 - p) / (p (1 - p)^2), the
    fifth power of the golden ratio, 11.0902. L1: |g| + c h <= 1 + c / 4, and exactly
    max_p (1 - p)(1 + c p) = (1 + c)^2 / (4 c).
    """

    outputs: ClassVar[int] = 1
    channels: ClassVar[int] = 2
    hessian_channels: ClassVar[int] = 1
    hessian_scale: ClassVar[float] = BINARY_HESSIAN_SCALE
    gradient_scale: ClassVar[float] = 1.0
    norms: ClassVar[Norms] = Norms((1 + BINARY_SCALE) ** 2 / (4 * BINARY_SCALE), ONE, ONE)
    hessian_norms: ClassVar[Norms] = Norms(QUARTER, QUARTER**2, QUARTER)

    def contributions(self, raw: FloatArray, target: FloatArray) -> FloatArray:
        p = logistic(raw[:, 0])
        return np.stack([p - target, self.hessian_scale * p * (1.0 - p)], axis=1)

    def hessians(self, raw: FloatArray, target: FloatArray) -> FloatArray:
        p = logistic(raw[:, :1])
        return np.asarray(p * (1.0 - p), np.float64)


@dataclass(frozen=True, slots=True)
class PlainLogLoss(LogLoss):
    """The same with channels (g, h), as in Maddock et al. 2022, section 4.2.

    There the norm is bounded by sqrt(17) / 4, part by part. Jointly it is at most 1: for
    |g| = 1 - p, g^2 + h^2 = (1 - p)^2 (1 + p^2) and |g| + h = 1 - p^2.
    """

    hessian_scale: ClassVar[float] = 1.0
    norms: ClassVar[Norms] = Norms(ONE, ONE, ONE)


@dataclass(frozen=True, slots=True)
class SoftmaxLoss:
    """Multiclass log-loss on K raw scores: channels (g_1..g_K, 2 h_1..2 h_K), L2 <= sqrt 2.

    Proof: docs/proofs/losses.md. L1 = 2 + c (1 - 1 / (K - 1)) for K >= 3.
    """

    n_classes: int
    hessian_scale: ClassVar[float] = SOFTMAX_HESSIAN_SCALE
    gradient_scale: ClassVar[float] = 1.0

    def __post_init__(self) -> None:
        if self.n_classes < 3:
            raise ParameterError(f"softmax over {self.n_classes} classes; use LogLoss for two.")

    @property
    def outputs(self) -> int:
        return self.n_classes

    @property
    def channels(self) -> int:
        return 2 * self.n_classes

    @property
    def hessian_channels(self) -> int:
        return self.n_classes

    def contributions(self, raw: FloatArray, target: FloatArray) -> FloatArray:
        p = softmax(raw)
        hit = np.arange(self.n_classes)[None, :] == target[:, None]
        return np.concatenate([p - hit, SOFTMAX_HESSIAN_SCALE * p * (1.0 - p)], axis=1)

    def hessians(self, raw: FloatArray, target: FloatArray) -> FloatArray:
        p = softmax(raw)
        return np.asarray(p * (1.0 - p), np.float64)

    @property
    def norms(self) -> Norms:
        return Norms(2 + SOFTMAX_SCALE * (1 - Fraction(1, self.n_classes - 1)), Fraction(2), ONE)

    @property
    def hessian_norms(self) -> Norms:
        # |h|_2 <= 2 / (3 sqrt 3) since p (1 - p)^2 <= 4 / 27; |h|_1 <= 1 - 1 / K.
        return Norms(1 - Fraction(1, self.n_classes), Fraction(4, 27), QUARTER)


@dataclass(frozen=True, slots=True)
class OddsLoss:
    """Time to an event under proportional odds: channels (g, 2 h) of norm 1.

    logit P(T <= t) = log odds(t) + f, with `odds` at `edges` and linear between them. The target is
    signed (`schema.features.Survival`). An event in (t1, t2] has a = P(T <= t2), b = P(T <= t1), g
    = a + b - 1 and h = a (1 - a) + b (1 - b); a record censored at t has g = a, h = a (1 - a).
    Times beyond the last edge are censored there. Proof: docs/proofs/losses.md.
    """

    edges: tuple[float, ...]
    odds: tuple[float, ...]
    outputs: ClassVar[int] = 1
    channels: ClassVar[int] = 2
    hessian_channels: ClassVar[int] = 1
    hessian_scale: ClassVar[float] = 2.0
    gradient_scale: ClassVar[float] = 1.0
    norms: ClassVar[Norms] = Norms(Fraction(5, 4), ONE, ONE)
    hessian_norms: ClassVar[Norms] = Norms(Fraction(1, 2), QUARTER, Fraction(1, 2))

    def contributions(self, raw: FloatArray, target: FloatArray) -> FloatArray:
        end, start, has_event = self._chances(raw, target)
        g = end + start - has_event
        return np.stack([g, 2.0 * (end * (1.0 - end) + start * (1.0 - start))], axis=1)

    def hessians(self, raw: FloatArray, target: FloatArray) -> FloatArray:
        return self.contributions(raw, target)[:, 1:] / self.hessian_scale

    def _chances(
        self, raw: FloatArray, target: FloatArray
    ) -> tuple[FloatArray, FloatArray, FloatArray]:
        """(n,) probabilities of an event by the end and the start of its interval; whether it
        happened.

        A censored record has the probability until its time, and 0.
        """
        edges, odds = np.array([0.0, *self.edges]), np.array([0.0, *self.odds])
        time = np.minimum(np.abs(target), edges[-1])
        has_event = (target > 0.0) & (target <= edges[-1])
        place = np.minimum(np.searchsorted(edges, time, side="left"), len(edges) - 1)
        ends = np.where(has_event, odds[place], np.interp(time, edges, odds))
        starts = np.where(has_event, odds[np.maximum(place - 1, 0)], 0.0)
        score = np.exp(np.clip(raw[:, 0], -30.0, 30.0))
        a, b = ends * score, starts * score
        return a / (1.0 + a), b / (1.0 + b), has_event.astype(np.float64)


class _Counting:
    """A Hessian that is 1 for every record: its sum is a count."""

    __slots__ = ()
    hessian_channels: ClassVar[int] = 1
    hessian_norms: ClassVar[Norms] = Norms(ONE, ONE, ONE)

    def hessians(self, raw: FloatArray, target: FloatArray) -> FloatArray:
        return np.ones((len(target), 1))


@dataclass(frozen=True, slots=True)
class SquaredLoss(_Counting):
    """Squared error with clipped residuals: channels (-clip(y - f, R) / R, weight).

    The first is the gradient in units of R, the second a count in units of `weight`; no factor is
    free here: L2 = sqrt(1 + weight^2), L1 = 1 + weight. `low` and `high` clip the target.
    """

    low: float
    high: float
    clip: float
    weight: float = 0.25
    outputs: ClassVar[int] = 1
    channels: ClassVar[int] = 2

    @property
    def hessian_scale(self) -> float:
        return self.weight

    @property
    def gradient_scale(self) -> float:
        return self.clip

    def contributions(self, raw: FloatArray, target: FloatArray) -> FloatArray:
        residual = np.clip(target, self.low, self.high) - raw[:, 0]
        g = -np.clip(residual, -self.clip, self.clip) / self.clip
        return np.stack([g, np.full(len(g), self.weight)], axis=1)

    @property
    def norms(self) -> Norms:
        weight = Fraction(self.weight)
        return Norms(1 + weight, 1 + weight**2, max(ONE, weight))


@dataclass(frozen=True, slots=True)
class FirstOrder(_Counting):
    """Gradients of a log-loss with every Hessian set to 1: channels (g, 1).

    The first-order update of Maddock et al. 2022, section 4.4.2. The count does not depend on the
    gradient, so the squared norms add: 1 + 1 for two classes, 2 + 1 for more.
    """

    loss: LogLoss | SoftmaxLoss
    hessian_scale: ClassVar[float] = 1.0
    gradient_scale: ClassVar[float] = 1.0

    @property
    def outputs(self) -> int:
        return self.loss.outputs

    @property
    def channels(self) -> int:
        return self.outputs + 1

    def contributions(self, raw: FloatArray, target: FloatArray) -> FloatArray:
        both = self.loss.contributions(raw, target)
        return np.concatenate([both[:, : self.outputs], np.ones((len(both), 1))], axis=1)

    @property
    def norms(self) -> Norms:
        classes = ONE if self.outputs == 1 else Fraction(2)
        return Norms(classes + 1, classes + 1, ONE)
