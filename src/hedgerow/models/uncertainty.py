"""Standard deviations of the privacy noise in the numbers of a model.

Leaves and curves are computed from sums whose noise has a known variance; to first order the noise
of a number is its slope times that of the sums. Standard deviations are stored, rounded up. They
cover this noise alone: not sampling, not the queries that other noise would have selected, and not
the correction of an earlier tree's noise by later trees, which makes sums less noisy than stated.
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

# Numbers per cell of a column; runs of neighboring cells with equal numbers are stored once.

_One = TypeVar("_One")


def alike_runs(rows: Iterable[tuple[float, ...]]) -> dict[str, Any]:
    """`cells`: lengths of runs of equal cells; `values`: by output, one number per run."""
    alike = [list(run) for _, run in groupby(rows, key=repr)]  # 0.0 equals -0.0
    outputs = zip(*(run[0] for run in alike), strict=True)
    return {"cells": [len(run) for run in alike], "values": [list(output) for output in outputs]}


def spread_over_cells(cells: Sequence[int], values: Sequence[_One]) -> tuple[_One, ...]:
    """The value of each cell, from runs of cells; in C loops, since there are thousands."""
    if set(map(type, cells)) != {int} or min(cells) < 1 or sum(cells) > N_CODES:
        raise ValueError(f"a column has {cells!r} cells")
    if len(values) != len(cells):
        raise ValueError(f"a column has {len(cells)} runs of cells and {len(values)} values")
    return tuple(chain.from_iterable(map(repeat, values, cells)))


NOISE_DIGITS = 2
MOST_OF_A_PART = 0.5
"""The largest deviation of any number between 0 and 1."""
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

    def scale(self, weight: float) -> NoisyTree:
        values = canonical(weight * self.tree.values)
        return NoisyTree(self.tree.with_values(values), abs(weight) * self.deviations)


@dataclass(frozen=True)
class ScoreNoise:
    """Deviations of the numbers of an additive score, in its own units.

    Of every tree (O, L) and of every curve (O, cells), or one row if all outputs have the same.
    Noise is independent between trees and between leaves, but not within a curve. `common` is the
    relative deviation of a factor that all numbers share. Empty for a model without noise.
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
        return ScoreNoise(tuple(map(_round_up, trees)), tuple(map(_round_up, curves)), _up(common))

    def to_dict(self) -> dict[str, Any]:
        return {
            "trees": [list(map(list, part)) for part in self.trees],
            "curves": [alike_runs(zip(*part, strict=True)) for part in self.curves],
            "common": self.common,
        }

    @staticmethod
    def from_dict(d: dict[str, Any]) -> ScoreNoise:
        curves = tuple(
            tuple(
                spread_over_cells(curve["cells"], output)
                for output in _read_deviations(curve["values"])
            )
            for curve in d["curves"]
        )
        return ScoreNoise(tuple(map(_read_deviations, d["trees"])), curves, float(d["common"]))


def _round_up(values: FloatArray) -> Deviations:
    """Rounds up to a few digits, so that no band becomes narrower; equal outputs appear once."""
    alike = bool((values == values[:, :1]).all())
    return tuple(
        tuple(map(_up, output)) for output in (values[:, :1] if alike else values).T.tolist()
    )


def _up(value: float) -> float:
    near = float(f"{value:.{NOISE_DIGITS}g}")
    if near >= value:
        return near
    return float(f"{value * (1.0 + 10.0 ** (1 - NOISE_DIGITS)):.{NOISE_DIGITS}g}")


def _read_deviations(part: Iterable[Iterable[Any]]) -> Deviations:
    deviations = tuple(tuple(map(float, output)) for output in part)
    lengths = {len(output) for output in deviations}
    if len(lengths) != 1 or not all(
        min(output) >= 0 and math.isfinite(sum(output)) for output in deviations
    ):
        raise ValueError("deviations are no table of numbers above zero")
    return deviations


# A finished tree with statistics of its leaves: released numbers, for people to read.


@dataclass(frozen=True)
class LeafValue:
    """The value of a leaf, the noisy masses it comes from, and the variance of each mass.

    `scale` is the worth of a proportion of 1 in `value`: 1 for classes, the range of a target.
    """

    value: FloatArray
    masses: FloatArray
    variance: float
    scale: float = 1.0

    @property
    def deviations(self) -> FloatArray:
        """(O,) deviations of the noise in `value` without shrinkage, which would lower them."""
        masses = np.maximum(self.masses, 0.0)
        rows = max(float(masses.sum()), 1.0)
        deviations = self.scale * of_proportions(masses / rows, rows, self.variance)
        return deviations[-len(self.value) :]


@dataclass(frozen=True)
class LeafStatistics:
    """A tree and its leaves, counted from the left.

    `unspent_fractions` are the fractions of their budgets that nodes with queries did not spend.
    """

    tree: Tree
    leaves: tuple[LeafValue, ...] = field(repr=False)
    unspent_fractions: tuple[float, ...] = field(default=(), repr=False)

    def shift(self, by: float) -> LeafStatistics:
        leaves = tuple(replace(leaf, value=leaf.value + by) for leaf in self.leaves)
        return replace(self, tree=self.tree.with_values(self.tree.values + by), leaves=leaves)
