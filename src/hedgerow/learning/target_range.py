"""Where a numeric target lies within its public range, from noisy counts of ever finer cells.

A rare large value weighs much in a squared error, and cells fine enough to divide the bulk hide a
tail behind their noise: on a flat histogram of 1,024 cells the clip cut away most of a skewed
target's variance. So the range is told at five widths (a tree of counts; Hay et al. 2010), and read
from the widest down: a cell that stands out of its noise is divided, one that does not is left out,
and where no part of a cell stands out its mass is spread over it. Knows no row.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from hedgerow.learning.choosing.tables import inverse_variance
from hedgerow.queries import Answer, Count, SumQuery, TargetCells
from hedgerow.values.arrays import FloatArray
from hedgerow.values.regions import EVERYONE
from hedgerow.values.schema import Target

TARGET_SHARE = Fraction(1, 25)  # of the budget, for all widths together
WIDTHS, PURE_WIDTHS = (4, 16, 64, 256, 1024), (32, 1024)
"""Cells of the range at each width. Widths share the budget: Laplace noise affords fewer."""
TARGET_CELLS = WIDTHS[-1]
TARGET_STANDS_OUT = 3.5  # deviations of its noise by which a cell must be seen
MOST_UNSEEN = 0.15  # part of the rows that noise may hide in a cell which is left out
TAIL = 0.001  # part of the rows clipped at each end of the target
LEAST_SPREAD = 1e-4  # variance of the target as a part of its clipped range


@dataclass(frozen=True)
class TargetShape:
    """The noisy distribution of a numeric target over cells of its public range."""

    middles: FloatArray  # of the cells, in the target's own units
    weights: FloatArray  # noisy masses, not negative
    low: float  # quantiles that clip the target
    high: float

    @property
    def below(self) -> FloatArray:
        """Part of the rows at or below each cell."""
        return np.asarray(np.cumsum(self.weights) / self.weights.sum())

    @property
    def is_seen(self) -> bool:
        """Whether any cell stood out of its noise."""
        return bool(np.ptp(self.weights) > 0.0)

    @property
    def spread(self) -> float:
        """Variance of the clipped target as a part of the clipped range."""
        u = np.clip((self.middles - self.low) / (self.high - self.low), 0.0, 1.0)
        mean = np.average(u, weights=self.weights)
        return max(float(np.average((u - mean) ** 2, weights=self.weights)), LEAST_SPREAD)


def target_queries(target: Target, is_pure: bool, share: Fraction) -> list[SumQuery]:
    """Counts of the target's cells, one query for each width; `share` is for all of them."""
    widths = PURE_WIDTHS if is_pure else WIDTHS
    groups = [TargetCells(target_edges(target, n)) for n in widths]
    return [SumQuery(EVERYONE, Count(), by, share / len(widths)) for by in groups]


def target_edges(target: Target, n_cells: int) -> tuple[float, ...]:
    edges = np.linspace(target.low, target.high, n_cells + 1)[1:-1]
    return tuple(float(edge) for edge in edges)


def target_shape(
    target: Target, answers: Sequence[Answer], rows: float, most_unseen: float = MOST_UNSEEN
) -> TargetShape:
    """The noisy distribution on the finest cells, and the quantiles that clip it."""
    counts = [answer.values[0, :, 0] for answer in answers]
    weights = masses(counts, answers[0].variance, rows, most_unseen)
    edges = np.linspace(target.low, target.high, len(weights) + 1)
    below = np.cumsum(weights) / weights.sum()
    low = edges[np.searchsorted(below, TAIL)]
    high = edges[min(int(np.searchsorted(below, 1.0 - TAIL)), len(weights) - 1) + 1]
    return TargetShape((edges[:-1] + edges[1:]) / 2.0, weights, float(low), float(high))


def evenly_spread(target: Target) -> TargetShape:
    """What is known if nothing was asked: the public range."""
    edges = np.linspace(target.low, target.high, TARGET_CELLS + 1)
    middles = (edges[:-1] + edges[1:]) / 2.0
    return TargetShape(middles, np.ones(TARGET_CELLS), target.low, target.high)


def masses(
    counts: Sequence[FloatArray], variance: float, rows: float, most_unseen: float = MOST_UNSEEN
) -> FloatArray:
    """The rows, handed down from the whole range to the finest cells; (cells,)."""
    held = np.array([rows])
    for best, noise in _agreeing(counts, variance):
        parts, least = best.reshape(len(held), -1), TARGET_STANDS_OUT * np.sqrt(noise)
        seen = np.where(parts > least, parts, 0.0)
        if least > most_unseen * rows:  # too much could be left out
            seen = np.zeros_like(parts)
        unseen = seen.sum(axis=1, keepdims=True) <= 0.0
        shares = np.where(unseen, 1.0, seen)
        held = (held[:, None] * shares / shares.sum(axis=1, keepdims=True)).ravel()
    return held


def _agreeing(counts: Sequence[FloatArray], variance: float) -> list[tuple[FloatArray, float]]:
    """Each width's counts averaged with the sums of the finer ones; the widest first."""
    finest = (counts[-1], variance)
    agreed = [finest]
    for mine in reversed(counts[:-1]):
        finer, noise = agreed[0]
        parts = finer.reshape(len(mine), -1)
        agreed.insert(
            0, inverse_variance([(mine, variance), (parts.sum(axis=1), noise * parts.shape[1])])
        )
    return agreed
