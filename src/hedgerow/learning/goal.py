"""What a recipe sums and predicts: classes, or a number whose useful range is bought first.

One round opens every recipe of ours: a noisy number of rows and, for regression, a noisy
histogram of the target. All constants follow from the signal-to-noise ratio it gives.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from hedgerow.learning.flow import Flow, Quote
from hedgerow.queries import (
    Answer,
    Binning,
    Cells,
    ClassCounts,
    Count,
    Fractions,
    QueryKinds,
    Statistic,
    SumQuery,
    TargetCells,
    Whole,
    sums,
)
from hedgerow.values.arrays import BoolArray, FloatArray
from hedgerow.values.grown import LeafValue
from hedgerow.values.regions import EVERYONE
from hedgerow.values.schema import Schema, Target

SIZE_SHARE = Fraction(1, 100)
TARGET_SHARE = Fraction(1, 50)
TARGET_CELLS = 1024
MERGED = (1, 4, 16, 64)  # cells that are taken as one where noise hides single ones
SEEN_FOR_CLASSES = 0.5  # part of the rows that must be in cells which stand out
SEEN_FOR_RANGE = 0.8  # the range must not lose its tails; on the coarsest cells 0.5 will do
TARGET_STANDS_OUT = 3.0  # deviations of its noise by which a target cell must be seen
ALONE_STANDS_OUT = 5.0  # and by which one must whose neighbours are not seen
NEAR = 4  # cells to either side that count as neighbours
CHANCE = 1.5e-5  # that the noise of an empty cell does so: of 1,024 hardly ever one
TAIL = 0.001  # part of the rows clipped at each end of the target
LEAST_SPREAD = 1e-4  # variance of the target as a part of its clipped range


@dataclass(frozen=True)
class TargetShape:
    """The noisy distribution of a numeric target over cells of its public range."""

    middles: FloatArray  # of the cells, in the target's own units
    weights: FloatArray  # noisy masses that stand out, else zero
    low: float  # quantiles that clip the target
    high: float

    @property
    def below(self) -> FloatArray:
        """Part of the rows at or below each cell."""
        return np.asarray(np.cumsum(self.weights) / self.weights.sum())

    @property
    def spread(self) -> float:
        """Variance of the clipped target as a part of the clipped range."""
        u = np.clip((self.middles - self.low) / (self.high - self.low), 0.0, 1.0)
        mean = np.average(u, weights=self.weights)
        return max(float(np.average((u - mean) ** 2, weights=self.weights)), LEAST_SPREAD)


@dataclass(frozen=True)
class Goal:
    """Class counts, or complementary fractions (1 - u, u) of a clipped target."""

    statistic: Statistic
    shape: TargetShape | None = None

    @property
    def channels(self) -> int:
        return self.statistic.channels

    def value(self, p: FloatArray) -> FloatArray:
        """(..., C) proportions -> what a model says: themselves, or the (..., 1) mean target."""
        if self.shape is None:
            return p
        return np.asarray(self.shape.low + self.scale * p[..., 1:])

    @property
    def scale(self) -> float:
        return 1.0 if self.shape is None else self.shape.high - self.shape.low

    def deviations(self, p: FloatArray) -> FloatArray:
        """(..., C) deviations of proportions -> those of what a model says."""
        return p if self.shape is None else self.scale * p[..., 1:]

    def leaf(self, p: FloatArray, masses: FloatArray, variance: float) -> LeafValue:
        return LeafValue(self.value(p), masses, variance, self.scale)


@dataclass(frozen=True)
class Opening:
    """What the first round tells."""

    goal: Goal
    rows: float  # noisy
    signal: float  # noisy rows over the noise of one table of all features at the full budget
    spent: Fraction


def goal_statistic(schema: Schema) -> type:
    """The kind of statistic that a goal under this schema sums."""
    return ClassCounts if schema.target is None else Fractions


def opening_asks(schema: Schema) -> QueryKinds:
    """What the first round asks."""
    return sums(Count, Whole) if schema.target is None else sums(Count, Whole, TargetCells)


def opening(schema: Schema, quote: Quote) -> Flow[Opening]:
    """Asks for the number of rows and, for regression, for the target's histogram."""
    queries = [SumQuery(EVERYONE, Count(), Whole(), SIZE_SHARE)]
    if schema.target is not None:
        cells = TargetCells(target_edges(schema.target))
        queries.append(SumQuery(EVERYONE, Count(), cells, TARGET_SHARE))
    replies = yield queries
    size, *rest = (reply for reply in replies if isinstance(reply, Answer))
    rows = max(float(size.values[0, 0, 0]), 1.0)
    goal = Goal(ClassCounts(len(schema.classes or ())))
    if schema.target is not None:
        shape = target_shape(schema.target, rest[0], rows)
        goal = Goal(Fractions(shape.low, shape.high), shape)
    spent = sum((q.share for q in queries), Fraction(0))
    return Opening(goal, rows, rows / full_noise(schema, goal, quote), spent)


def declared_goal(schema: Schema) -> Goal:
    """Classes, or a number within its whole public range: nothing is asked beforehand."""
    if schema.target is None:
        return Goal(ClassCounts(len(schema.classes or ())))
    low, high = schema.target.low, schema.target.high
    edges = np.linspace(low, high, TARGET_CELLS + 1)
    shape = TargetShape((edges[:-1] + edges[1:]) / 2.0, np.ones(TARGET_CELLS), low, high)
    return Goal(Fractions(low, high), shape)


def full_noise(schema: Schema, goal: Goal, quote: Quote) -> float:
    """Deviation of the noise in a cell of all features' tables, all channels, at full budget."""
    every = Cells(tuple(range(len(schema.grids))), Binning.of_cells(schema))
    whole = SumQuery(EVERYONE, goal.statistic, every, Fraction(1))
    return max(float(np.sqrt(goal.channels * quote.variance(whole))), 1e-12)


def target_edges(target: Target) -> tuple[float, ...]:
    edges = np.linspace(target.low, target.high, TARGET_CELLS + 1)[1:-1]
    return tuple(float(edge) for edge in edges)


def target_shape(target: Target, answer: Answer, rows: float) -> TargetShape:
    """The noisy distribution on fine cells, and the quantiles that clip it from safer ones."""
    counts = answer.values[0, :, 0]
    weights = _standing_out(counts, answer.variance, rows, SEEN_FOR_CLASSES)
    safe = _standing_out(counts, answer.variance, rows, SEEN_FOR_RANGE)
    edges = np.linspace(target.low, target.high, TARGET_CELLS + 1)
    below = np.cumsum(safe) / safe.sum()
    low = edges[np.searchsorted(below, TAIL)]
    high = edges[min(int(np.searchsorted(below, 1.0 - TAIL)), TARGET_CELLS - 1) + 1]
    return TargetShape((edges[:-1] + edges[1:]) / 2.0, weights, float(low), float(high))


def _standing_out(counts: FloatArray, variance: float, rows: float, seen_part: float) -> FloatArray:
    """Counts that stand out of their noise, on the finest cells on which enough rows do.

    Where they do on none, all cells weigh the same: the public range is then all that is known.
    """
    for width in MERGED:
        needed = seen_part if width < MERGED[-1] else SEEN_FOR_CLASSES
        merged = counts.reshape(-1, width).sum(axis=1)
        least = TARGET_STANDS_OUT * np.sqrt(variance * width)
        kept = np.where(_are_seen(merged / np.sqrt(variance * width + 1e-12)), merged, 0.0)
        by_chance = CHANCE * len(merged) + 3.0 * np.sqrt(CHANCE * len(merged))  # cells, at most
        if kept.sum() > needed * rows + by_chance * 1.1 * least:
            return np.repeat(kept / width, width)
    return np.ones(len(counts))


def _are_seen(deviations: FloatArray) -> BoolArray:
    """Which cells are no noise: three deviations near another such cell, or five alone.

    In a range that is far too wide nearly all of 1,024 cells are empty. By three deviations alone
    one or two of them would be seen, and the quantiles would land anywhere.
    """
    is_high = deviations > TARGET_STANDS_OUT
    window = np.ones(2 * NEAR + 1)
    has_neighbour = np.convolve(is_high, window)[NEAR:-NEAR] > 1.5  # itself and another
    return np.asarray((is_high & has_neighbour) | (deviations > ALONE_STANDS_OUT))
