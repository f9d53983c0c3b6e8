"""How far the noise that protects records may have moved the numbers of a model.

Leaves and curves are computed from sums whose noise has a known variance; to first order the noise
of a number is its slope times that of the sums. What is kept are standard deviations, rounded up.
They speak of noise alone: not of new records, not of questions that other noise had chosen, and
not of what a later tree takes back of an earlier one's noise, which makes sums less noisy than
they are said to be.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain, groupby, repeat
from typing import Any, TypeVar

import numpy as np

from hedgerow.models.tree import Tree
from hedgerow.schema.arrays import N_CODES, FloatArray, canonical

# --------------------------------------------------------------------------------------------------
# Numbers for each cell of a column, told once where neighbouring cells repeat them.

_One = TypeVar("_One")


def alike_runs(rows: Iterable[tuple[float, ...]]) -> dict[str, Any]:
    """`cells`: how many cells are alike, run by run; `values`: by output, one number for each."""
    alike = [list(run) for _, run in groupby(rows, key=repr)]  # 0.0 equals -0.0
    outputs = zip(*(run[0] for run in alike), strict=True)
    return {"cells": [len(run) for run in alike], "values": [list(one) for one in outputs]}


def spread_over_cells(cells: Sequence[int], values: Sequence[_One]) -> tuple[_One, ...]:
    """In loops of the interpreter's own: a model has thousands of cells."""
    if set(map(type, cells)) != {int} or min(cells) < 1 or sum(cells) > N_CODES:
        raise ValueError(f"a column has {cells!r} cells")
    if len(values) != len(cells):
        raise ValueError(f"a column has {len(cells)} runs of cells and {len(values)} values")
    return tuple(chain.from_iterable(map(repeat, values, cells)))


NOISE_DIGITS = 2
MOST_OF_A_PART = 0.5
"""No number between 0 and 1 has a larger deviation."""
Deviations = tuple[tuple[float, ...], ...]
"""By output, then by leaf or cell."""


def of_proportions(
    p: FloatArray, rows: FloatArray | float, variance: FloatArray | float
) -> FloatArray:
    """(..., C) deviations of p = N / n, where each of the C masses N has this variance.

    dp_c = (dN_c - p_c dn) / n, so the variance is v ((1 - p_c)^2 + (C - 1) p_c^2) / n^2.
    """
    others = p.shape[-1] - 1
    spread = np.sqrt(variance * ((1.0 - p) ** 2 + others * p**2)) / np.maximum(rows, 1e-9)
    return np.asarray(np.minimum(spread, MOST_OF_A_PART))


@dataclass(frozen=True)
class NoisyTree:
    """A tree, and the deviation of each number of its leaves: (L, O)."""

    tree: Tree
    deviations: FloatArray

    def scaled(self, weight: float) -> NoisyTree:
        values = canonical(weight * self.tree.values)
        return NoisyTree(self.tree.with_values(values), abs(weight) * self.deviations)


@dataclass(frozen=True)
class ScoreNoise:
    """Deviations of the numbers of an additive score, in its own units.

    Of every tree (O, L) and of every curve (O, cells), or one row if all outputs have the same.
    Noise of different trees and leaves is independent, noise of one curve is not. `common` is the
    deviation of a factor that all numbers share, as a part of it. Nothing is kept of a model
    without noise.
    """

    trees: tuple[Deviations, ...] = ()
    curves: tuple[Deviations, ...] = ()
    common: float = 0.0

    @staticmethod
    def of(
        trees: Sequence[FloatArray] = (), curves: Sequence[FloatArray] = (), common: float = 0.0
    ) -> ScoreNoise:
        if not any(part.any() for part in (*trees, *curves)):
            return ScoreNoise()
        return ScoreNoise(
            tuple(map(_rounded_up, trees)),
            tuple(map(_rounded_up, curves)),
            _up(common),
        )

    def to_dict(self) -> dict[str, Any]:
        return {
            "trees": [list(map(list, part)) for part in self.trees],
            "curves": [alike_runs(zip(*part, strict=True)) for part in self.curves],
            "common": self.common,
        }

    @staticmethod
    def from_dict(d: dict[str, Any]) -> ScoreNoise:
        curves = tuple(
            tuple(spread_over_cells(curve["cells"], one) for one in _read(curve["values"]))
            for curve in d["curves"]
        )
        return ScoreNoise(tuple(map(_read, d["trees"])), curves, float(d["common"]))


def _rounded_up(values: FloatArray) -> Deviations:
    """To a few digits, never down: a band must not become narrower. Equal outputs stand once."""
    alike = bool((values == values[:, :1]).all())
    return tuple(tuple(map(_up, one)) for one in (values[:, :1] if alike else values).T.tolist())


def _up(value: float) -> float:
    near = float(f"{value:.{NOISE_DIGITS}g}")
    return (
        near
        if near >= value
        else float(f"{value * (1.0 + 10.0 ** (1 - NOISE_DIGITS)):.{NOISE_DIGITS}g}")
    )


def _read(part: Iterable[Iterable[Any]]) -> Deviations:
    found = tuple(tuple(map(float, one)) for one in part)
    lengths = {len(one) for one in found}
    if len(lengths) != 1 or not all(
        all(map(math.isfinite, one)) and min(one) >= 0 for one in found
    ):
        raise ValueError("deviations are no table of numbers above zero")
    return found


# --------------------------------------------------------------------------------------------------
# A finished tree with what is known of its leaves: released numbers, for people to read.


@dataclass(frozen=True)
class LeafValue:
    """What a leaf says, the noisy masses it says it from, and the variance of each mass.

    `scale` is what a proportion of 1 is worth in `value`: 1 for classes, a target's range.
    """

    value: FloatArray
    masses: FloatArray
    variance: float
    scale: float = 1.0

    @property
    def deviations(self) -> FloatArray:
        """(O,) of the noise in `value`, as if the leaf leaned on nothing; leaning makes it less."""
        masses = np.maximum(self.masses, 0.0)
        rows = max(float(masses.sum()), 1.0)
        moved = self.scale * of_proportions(masses / rows, rows, self.variance)
        return moved[-len(self.value) :]


@dataclass(frozen=True)
class Grown:
    """A tree and its leaves, counted from the left.

    `saved` is the part of its budget that each node asked did not spend.
    """

    tree: Tree
    leaves: tuple[LeafValue, ...] = field(repr=False)
    saved: tuple[float, ...] = field(default=(), repr=False)

    def shifted(self, by: float) -> Grown:
        """All leaves say so much more."""
        leaves = tuple(replace(leaf, value=leaf.value + by) for leaf in self.leaves)
        return replace(self, tree=self.tree.with_values(self.tree.values + by), leaves=leaves)
