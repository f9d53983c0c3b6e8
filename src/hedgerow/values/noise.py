"""How far the noise that protects records may have moved the numbers of a model.

Leaves and curves are computed from sums whose noise has a known variance; to first order the noise
of a number is its slope times that of the sums. What is kept are standard deviations, rounded up.
They speak of noise alone: not of new records, not of questions that other noise had chosen, and
not of what a later tree takes back of an earlier one's noise, which makes sums less noisy than
they are said to be.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

import numpy as np

from hedgerow.values.arrays import N_CODES, FloatArray
from hedgerow.values.trees import Tree

NOISE_DIGITS = 2
MOST_OF_A_PART = 0.5
"""No number between 0 and 1 has a larger deviation."""
Deviations = tuple[tuple[float, ...], ...]


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
        values = weight * self.tree.values
        return NoisyTree(self.tree.with_values(values), abs(weight) * self.deviations)


@dataclass(frozen=True)
class ScoreNoise:
    """Deviations of the numbers of an additive score, in its own units.

    Of every tree (L, O) and of every curve (cells, O), or one column if all outputs have the same.
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
            "trees": [_flat(part) for part in self.trees],
            "curves": [_runs(part) for part in self.curves],
            "common": self.common,
        }

    @staticmethod
    def from_dict(d: dict[str, Any]) -> ScoreNoise:
        return ScoreNoise(
            tuple(_read(part) for part in d["trees"]),
            tuple(_cells(part) for part in d["curves"]),
            float(d["common"]),
        )


def _rounded_up(values: FloatArray) -> Deviations:
    """To a few digits, never down: a band must not become narrower. Equal outputs stand once."""
    alike = bool((values == values[:, :1]).all())
    return tuple(tuple(map(_up, row)) for row in (values[:, :1] if alike else values).tolist())


def _up(value: float) -> float:
    near = float(f"{value:.{NOISE_DIGITS}g}")
    return (
        near
        if near >= value
        else float(f"{value * (1.0 + 10.0 ** (1 - NOISE_DIGITS)):.{NOISE_DIGITS}g}")
    )


def _flat(part: Deviations) -> list[Any]:
    return [row[0] for row in part] if len(part[0]) == 1 else [list(row) for row in part]


def _runs(part: Deviations) -> list[list[float]]:
    """Neighbouring cells of one bin have one deviation: how many there are, then what it is."""
    alike = (list(run) for _, run in groupby(part))
    return [[len(run), *run[0]] for run in alike]


def _cells(runs: Sequence[Sequence[float]]) -> Deviations:
    if not all(type(run[0]) is int and 0 < run[0] <= N_CODES for run in runs):
        raise ValueError("deviations of a curve have no number of cells")
    return _read([list(row) for count, *row in runs for _ in range(int(count))])


def _read(part: Sequence[Any]) -> Deviations:
    rows = [row if isinstance(row, list) else [row] for row in part]
    found = tuple(tuple(float(value) for value in row) for row in rows)
    if len({len(row) for row in found}) > 1 or not all(
        0.0 <= value < math.inf for row in found for value in row
    ):
        raise ValueError("deviations of leaves are no table of numbers above zero")
    return found
