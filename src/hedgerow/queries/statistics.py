"""What each record adds to its cell: integers, and how far one record can move them."""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil
from typing import Protocol

import numpy as np

from hedgerow.privacy.accounting.sensitivity import Sensitivity
from hedgerow.values.losses import Loss, Norms
from hedgerow.values.models import Additive, Curve

LATTICE = 1 << 14
"""Integer units per 1.0 of a fractional statistic: truncation costs at most 2^-14 a record.

A statistic may ask for fewer: shares of Laplace noise are exact only up to a certain width.
"""


def on_lattice(norms: Norms, unit: int) -> Sensitivity:
    """Norms in integer units, rounded up; truncation of each record keeps them."""
    return Sensitivity(
        ceil(norms.l1 * unit), ceil(norms.l2_squared * unit**2), ceil(norms.linf * unit)
    )


class Statistic(Protocol):
    """What each record contributes to its cell: integers in units of 1 / `unit`."""

    @property
    def channels(self) -> int: ...
    @property
    def unit(self) -> int: ...
    @property
    def bound(self) -> Sensitivity:
        """Of one record in one cell, in units."""
        ...


@dataclass(frozen=True, slots=True)
class Count:
    """1 for every record."""

    @property
    def channels(self) -> int:
        return 1

    @property
    def unit(self) -> int:
        return 1

    @property
    def bound(self) -> Sensitivity:
        return Sensitivity(1, 1, 1)


@dataclass(frozen=True, slots=True)
class ClassCounts:
    """1 in the channel of the record's class: classes are disjoint, so the bound stays 1."""

    n_classes: int

    @property
    def channels(self) -> int:
        return self.n_classes

    @property
    def unit(self) -> int:
        return 1

    @property
    def bound(self) -> Sensitivity:
        return Sensitivity(1, 1, 1)


@dataclass(frozen=True, slots=True)
class LabelReports:
    """Ones in each bit of the records' randomised reports of their labels, and the records.

    Stands for class counts where labels are told as noisy bits. The report protects the label
    whatever is summed, and features are not protected, so no noise rests on this bound.
    """

    bits: int

    @property
    def channels(self) -> int:
        return self.bits + 1

    @property
    def unit(self) -> int:
        return 1

    @property
    def bound(self) -> Sensitivity:
        return Sensitivity(self.channels, self.channels, 1)


@dataclass(frozen=True, slots=True)
class TargetClassCounts:
    """Counts by interval of a numeric target; a class is a run between public or released cuts."""

    cuts: tuple[float, ...]

    @property
    def channels(self) -> int:
        return len(self.cuts) + 1

    @property
    def unit(self) -> int:
        return 1

    @property
    def bound(self) -> Sensitivity:
        return Sensitivity(1, 1, 1)


@dataclass(frozen=True, slots=True)
class Fractions:
    """Complementary fractional counts (1 - u, u) of a target u = (y - low) / (high - low).

    a = round(s u) and s - a: together exactly s units, so L1 = s and L2 <= s. Under Laplace
    noise this is the best way to ask for a mean (Consul and Williamson's leaves, repaired).
    """

    low: float
    high: float
    unit: int = LATTICE

    @property
    def channels(self) -> int:
        return 2

    @property
    def bound(self) -> Sensitivity:
        return Sensitivity(self.unit, self.unit**2, self.unit)


@dataclass(frozen=True)
class Gradients:
    """The loss's own vector (gradient and scaled Hessian) at a model: a value, not a state.

    A site may cache the raw predictions of the model; the wire sends only the trees that are
    new. Each record's vector is truncated toward zero, so no norm grows.
    """

    loss: Loss
    at: Additive
    unit: int = LATTICE

    @property
    def channels(self) -> int:
        return self.loss.channels

    @property
    def bound(self) -> Sensitivity:
        return on_lattice(self.loss.norms, self.unit)


@dataclass(frozen=True)
class Hessians:
    """The Hessian alone, for placing candidates: its own, smaller sensitivity."""

    loss: Loss
    at: Additive
    unit: int = LATTICE

    @property
    def channels(self) -> int:
        return self.loss.outputs

    @property
    def bound(self) -> Sensitivity:
        return on_lattice(self.loss.hessian_norms, self.unit)


@dataclass(frozen=True)
class CurveNewton:
    """One Newton step on the weights of feature curves: (g z, (c / R) upper(h z z^T)), |z| <= R.

    z are the values of the curves at the record and one constant column. With (g, c h) of norm
    at most 1 (binary log-loss, c = 3.33) the whole vector has norm at most R:
    |z|^2 (g^2 + c^2 h^2 |z|^2 / R^2) <= R^2. Divided by R it is at most 1.
    """

    curves: tuple[Curve, ...]
    constant: float
    radius: float
    weights: tuple[float, ...]
    base: float
    loss: Loss
    unit: int = LATTICE

    @property
    def dimension(self) -> int:
        return len(self.curves) + 1

    @property
    def channels(self) -> int:
        return self.dimension + self.dimension * (self.dimension + 1) // 2

    @property
    def bound(self) -> Sensitivity:
        # L1 <= sqrt(channels) L2, rounded up.
        l1 = int(np.ceil(np.sqrt(self.channels) * self.unit)) + 1
        return Sensitivity(l1, self.unit**2, self.unit)
