"""What a recipe sums and predicts: classes, or a number whose useful range is bought first.

One round opens every recipe of ours: a noisy number of rows and, for regression, a noisy
histogram of the target. All constants follow from the signal-to-noise ratio it gives.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from hedgerow.learning.flow import Flow, Quote
from hedgerow.learning.target_range import TargetShape, evenly_spread, target_queries, target_shape
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
from hedgerow.values.arrays import FloatArray
from hedgerow.values.grown import LeafValue
from hedgerow.values.regions import EVERYONE
from hedgerow.values.schema import Schema

SIZE_SHARE = Fraction(1, 100)


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
        queries += target_queries(schema.target, quote.is_pure)
    replies = yield queries
    size, *rest = (reply for reply in replies if isinstance(reply, Answer))
    rows = max(float(size.values[0, 0, 0]), 1.0)
    goal = Goal(ClassCounts(len(schema.classes or ())))
    if schema.target is not None:
        shape = target_shape(schema.target, rest, rows)
        goal = Goal(Fractions(shape.low, shape.high), shape)
    spent = sum((q.share for q in queries), Fraction(0))
    return Opening(goal, rows, rows / full_noise(schema, goal, quote), spent)


def declared_goal(schema: Schema) -> Goal:
    """Classes, or a number within its whole public range: nothing is asked beforehand."""
    if schema.target is None:
        return Goal(ClassCounts(len(schema.classes or ())))
    shape = evenly_spread(schema.target)
    return Goal(Fractions(shape.low, shape.high), shape)


def full_noise(schema: Schema, goal: Goal, quote: Quote) -> float:
    """Deviation of the noise in a cell of all features' tables, all channels, at full budget."""
    every = Cells(tuple(range(len(schema.grids))), Binning.of_cells(schema))
    whole = SumQuery(EVERYONE, goal.statistic, every, Fraction(1))
    return max(float(np.sqrt(goal.channels * quote.variance(whole))), 1e-12)
