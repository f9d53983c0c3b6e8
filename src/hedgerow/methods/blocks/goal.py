"""What a recipe sums and predicts: classes, or a number whose useful range is bought first.

One round opens every recipe of ours: a noisy number of rows and, for regression, a noisy
histogram of the target. What noise hides of these is asked once more, with a larger share. All
constants follow from the signal-to-noise ratio it gives.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from hedgerow.methods.blocks.flow import Flow, Quote, ask
from hedgerow.methods.blocks.tables import inverse_variance
from hedgerow.models.uncertainty import LeafValue
from hedgerow.privacy.queries import (
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
from hedgerow.schema.arrays import FloatArray
from hedgerow.schema.regions import EVERYONE
from hedgerow.schema.schema import Schema, Target

# --------------------------------------------------------------------------------------------------
# How many records there are, as far as noise lets it be known.
#
# Recipes count the records first, with a share so small that good data never miss it. Where that
# count does not stand out of its own noise, luck would decide what is trained: then it is asked
# once more, with a larger share, and both are read together.

COUNT_IS_SEEN = 3.0  # deviations of its noise that a number of records must reach
AGAIN_SHARE = Fraction(1, 20)


@dataclass(frozen=True)
class RecordCount:
    """A noisy number of records, the deviation of its noise, and what it cost."""

    number: float
    deviation: float
    spent: Fraction

    @staticmethod
    def told(answer: Answer, share: Fraction) -> RecordCount:
        return RecordCount(float(answer.values.sum()), float(np.sqrt(answer.variance)), share)

    @property
    def is_seen(self) -> bool:
        """Whether the number stands out of its noise. If not, there may be none at all."""
        return self.number >= COUNT_IS_SEEN * self.deviation

    @property
    def positive(self) -> float:
        """The number for a division."""
        return max(self.number, 1.0)

    @property
    def at_most(self) -> float:
        return max(self.number, 0.0) + COUNT_IS_SEEN * self.deviation


def count_query(share: Fraction) -> SumQuery:
    return SumQuery(EVERYONE, Count(), Whole(), share)


def surely(first: RecordCount) -> Flow[RecordCount]:
    """As it is if it was seen; else with a second count, the less noisy the more believed."""
    if first.is_seen:
        return first
    second = RecordCount.told((yield from ask(count_query(AGAIN_SHARE))), AGAIN_SHARE)
    number, variance = inverse_variance(
        [(np.array([one.number]), one.deviation**2) for one in (first, second)]
    )
    return RecordCount(float(number[0]), float(np.sqrt(variance)), first.spent + second.spent)


# --------------------------------------------------------------------------------------------------
# Where a numeric target lies within its public range, from noisy counts of ever finer cells.
#
# A rare large value weighs much in a squared error, and cells fine enough to divide the bulk hide a
# tail behind their noise: on a flat histogram of 1,024 cells the clip cut away most of a skewed
# target's variance. So the range is told at five widths (a tree of counts; Hay et al. 2010), and
# read from the widest down: a cell that stands out of its noise is divided, one that does not is
# left out, and where no part of a cell stands out its mass is spread over it. Knows no row.

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
