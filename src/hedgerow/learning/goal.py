"""What a recipe sums and predicts: classes, or a number whose useful range is bought first.

One round opens every recipe of ours: a noisy number of rows and, for regression, a noisy
histogram of the target. What noise hides of these is asked once more, with a larger share. All
constants follow from the signal-to-noise ratio it gives.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from hedgerow.learning.counting import RecordCount, count_query, surely
from hedgerow.learning.flow import Flow, Quote
from hedgerow.learning.target_range import (
    MOST_UNSEEN,
    TARGET_SHARE,
    TargetShape,
    evenly_spread,
    target_queries,
    target_shape,
)
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
from hedgerow.values.schema import Schema, Target

SIZE_SHARE = Fraction(1, 100)
TARGET_AGAIN = Fraction(1, 5)  # of the budget, where no cell of a target stood out at first


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
    def is_seen(self) -> bool:
        """Whether it is known where a number lies; classes are."""
        return self.shape is None or self.shape.is_seen

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
    """What is told before anything is learnt."""

    goal: Goal
    records: RecordCount
    signal: float  # noisy rows over the noise of one table of all features at the full budget
    sure: float  # noisy rows over the noise of one sum of everybody at the full budget
    spent: Fraction

    @staticmethod
    def of(
        goal: Goal, records: RecordCount, schema: Schema, quote: Quote, spent: Fraction
    ) -> Opening:
        signal = records.positive / full_noise(schema, goal, quote)
        return Opening(goal, records, signal, records.positive / sum_noise(goal, quote), spent)

    @property
    def rows(self) -> float:
        return self.records.positive


def goal_statistic(schema: Schema) -> type:
    """The kind of statistic that a goal under this schema sums."""
    return ClassCounts if schema.target is None else Fractions


def opening_asks(schema: Schema) -> QueryKinds:
    """What the first round asks."""
    return sums(Count, Whole) if schema.target is None else sums(Count, Whole, TargetCells)


def opening_rounds(schema: Schema) -> int:
    """The most it takes: each thing that is asked may be asked once more."""
    return 2 if schema.target is None else 3


def opening(schema: Schema, quote: Quote) -> Flow[Opening]:
    """Asks for the number of rows and, for regression, for the target's histogram.

    Trees over a range a hundred times too wide are far worse than the mean, so a target that no
    cell has shown is looked for again.
    """
    queries = [count_query(SIZE_SHARE)]
    if schema.target is not None:
        queries += target_queries(schema.target, quote.is_pure, TARGET_SHARE)
    replies = yield queries
    size, *cells = (reply for reply in replies if isinstance(reply, Answer))
    records = yield from surely(RecordCount.told(size, SIZE_SHARE))
    goal, spent = declared_goal(schema), records.spent
    if schema.target is not None:
        goal = goal_within(target_shape(schema.target, cells, records.positive))
        spent += TARGET_SHARE
        if records.is_seen and not goal.is_seen:
            goal = yield from looked_again(schema.target, records, TARGET_AGAIN, quote)
            spent += TARGET_AGAIN
    return Opening.of(goal, records, schema, quote, spent)


def looked_again(
    target: Target,
    records: RecordCount,
    share: Fraction,
    quote: Quote,
    most_unseen: float = MOST_UNSEEN,
) -> Flow[Goal]:
    """Where a target lies that no cell has shown before."""
    replies = yield target_queries(target, quote.is_pure, share)
    cells = [reply for reply in replies if isinstance(reply, Answer)]
    return goal_within(target_shape(target, cells, records.positive, most_unseen))


def goal_within(shape: TargetShape) -> Goal:
    return Goal(Fractions(shape.low, shape.high), shape)


def declared_goal(schema: Schema) -> Goal:
    """Classes, or a number within its whole public range: nothing is asked beforehand."""
    if schema.target is None:
        return Goal(ClassCounts(len(schema.classes or ())))
    return goal_within(evenly_spread(schema.target))


def full_noise(schema: Schema, goal: Goal, quote: Quote) -> float:
    """Deviation of the noise in a cell of all features' tables, all channels, at full budget."""
    every = Cells(tuple(range(len(schema.grids))), Binning.of_cells(schema))
    return _noise_of_all_channels(SumQuery(EVERYONE, goal.statistic, every, Fraction(1)), quote)


def sum_noise(goal: Goal, quote: Quote) -> float:
    """Deviation of the noise in one sum of everybody, all channels, at full budget."""
    return _noise_of_all_channels(SumQuery(EVERYONE, goal.statistic, Whole(), Fraction(1)), quote)


def _noise_of_all_channels(query: SumQuery, quote: Quote) -> float:
    return max(float(np.sqrt(query.statistic.channels * quote.variance(query))), 1e-12)
