"""The training target: classes, or a number whose useful range is estimated privately first.

Our methods begin with one round: a noisy number of rows and, for regression, a noisy histogram
of the target. What is below the noise is asked once more, with a larger fraction. All constants
follow from the resulting signal-to-noise ratio.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from hedgerow.methods.blocks.flow import Flow, NoiseModel, ask
from hedgerow.methods.blocks.tables import inverse_variance
from hedgerow.methods.constants import constant
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

COUNT_IS_SEEN = constant(3.0, unit="deviations", evidence="gates.md#0152")
"""Deviations of its noise that a number of records must reach."""
AGAIN_FRACTION = constant(Fraction(1, 20), unit="part of the budget", evidence="gates.md#0152")
"""Part of the budget for a second count."""
TARGET_FRACTION = constant(Fraction(1, 25), unit="part of the budget", evidence="numbers.md#0119")
"""Part of the budget for the range of a target, all widths together."""
WIDTHS = constant((4, 16, 64, 256, 1024), unit="cells", evidence="numbers.md#0119")
"""Cells of the range at each width."""
PURE_WIDTHS = constant((32, 1024), unit="cells", evidence="numbers.md#0119")
"""The same under Laplace noise, which affords fewer."""
TARGET_STANDS_OUT = constant(3.5, unit="deviations", evidence="numbers.md#0119")
"""Deviations of its noise by which a cell must be seen."""
MOST_UNSEEN = constant(0.15, unit="part of the rows", evidence="numbers.md#0119")
"""Fraction of rows that noise may hide in a cell that is left out."""
TAIL = constant(0.001, unit="part of the rows clipped at each end of the target")
LEAST_SPREAD = constant(1e-4, unit="variance of the target as a part of its clipped range")
SIZE_FRACTION = constant(Fraction(1, 100), unit="part of the budget", evidence="gates.md#0138")
"""Fraction of the budget for the number of records."""
TARGET_AGAIN = constant(Fraction(1, 5), unit="part of the budget", evidence="gates.md#0152")
"""Fraction of the budget for a second try, if no cell of the target exceeded its noise."""

# The noisy number of records. Methods count the records first, with a very small fraction of the
# budget. If that count does not exceed its own noise, it is asked again with a larger fraction, and
# both are combined: otherwise chance would decide what is trained.


@dataclass(frozen=True)
class RecordCount:
    """A noisy number of records, the deviation of its noise, and the fraction spent on it."""

    number: float
    deviation: float
    spent: Fraction

    @staticmethod
    def of(answer: Answer, fraction: Fraction) -> RecordCount:
        return RecordCount(float(answer.values.sum()), float(np.sqrt(answer.variance)), fraction)

    @property
    def is_seen(self) -> bool:
        """Whether the number exceeds its noise. If not, there may be no records at all."""
        return self.number >= COUNT_IS_SEEN * self.deviation

    @property
    def positive(self) -> float:
        """The number, at least 1, for divisions."""
        return max(self.number, 1.0)


def count_query(fraction: Fraction) -> SumQuery:
    return SumQuery(EVERYONE, Count(), Whole(), fraction)


def recount_if_unclear(first: RecordCount) -> Flow[RecordCount]:
    """The count itself if it is clear; else its inverse-variance mean with a second count."""
    if first.is_seen:
        return first
    second = RecordCount.of((yield from ask(count_query(AGAIN_FRACTION))), AGAIN_FRACTION)
    both = [(np.array([count.number]), count.deviation**2) for count in (first, second)]
    number, variance = inverse_variance(both)
    return RecordCount(float(number[0]), float(np.sqrt(variance)), first.spent + second.spent)


# The range of a numeric target within its public range, from noisy counts of ever finer cells. A
# rare large value matters much in a squared error, but cells fine enough for the bulk hide a tail
# behind their noise: on a flat histogram of 1,024 cells the clip cut away most of a skewed target's
# variance. So cells are counted at five widths (a tree of counts; Hay et al. 2010), from the widest
# down: a cell that exceeds its noise is divided, one that does not is left out, and where no part
# of a cell exceeds its noise its mass is spread over it.


@dataclass(frozen=True)
class TargetShape:
    """The noisy distribution of a numeric target over cells of its public range."""

    middles: FloatArray  # of the cells, in the target's own units
    weights: FloatArray  # noisy masses, not negative
    low: float  # quantiles that clip the target
    high: float

    @property
    def is_seen(self) -> bool:
        """Whether any cell exceeded its noise."""
        return bool(np.ptp(self.weights) > 0.0)

    @property
    def spread(self) -> float:
        """Variance of the clipped target relative to the squared clipped range."""
        u = np.clip((self.middles - self.low) / (self.high - self.low), 0.0, 1.0)
        mean = np.average(u, weights=self.weights)
        return max(float(np.average((u - mean) ** 2, weights=self.weights)), LEAST_SPREAD)


def target_queries(target: Target, is_pure: bool, fraction: Fraction) -> list[SumQuery]:
    """Counts of the target's cells, one query per width; `fraction` is for all of them."""
    widths = PURE_WIDTHS if is_pure else WIDTHS
    edges = [np.linspace(target.low, target.high, n + 1)[1:-1].tolist() for n in widths]
    part = fraction / len(widths)
    return [SumQuery(EVERYONE, Count(), TargetCells(tuple(inner)), part) for inner in edges]


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
    """A uniform distribution over the public range, where nothing was asked."""
    edges = np.linspace(target.low, target.high, WIDTHS[-1] + 1)
    middles = (edges[:-1] + edges[1:]) / 2.0
    return TargetShape(middles, np.ones(WIDTHS[-1]), target.low, target.high)


def masses(
    counts: Sequence[FloatArray], variance: float, rows: float, most_unseen: float = MOST_UNSEEN
) -> FloatArray:
    """(cells,) the mass, distributed from the whole range down to the finest cells."""
    total_rows = np.array([rows])
    for best, noise in _average_widths(counts, variance):
        parts, least = best.reshape(len(total_rows), -1), TARGET_STANDS_OUT * np.sqrt(noise)
        clear_parts = np.where(parts > least, parts, 0.0)
        if least > most_unseen * rows:  # too much could be left out
            clear_parts = np.zeros_like(parts)
        unseen = clear_parts.sum(axis=1, keepdims=True) <= 0.0
        shares = np.where(unseen, 1.0, clear_parts)
        total_rows = (total_rows[:, None] * shares / shares.sum(axis=1, keepdims=True)).ravel()
    return total_rows


def _average_widths(
    counts: Sequence[FloatArray], variance: float
) -> list[tuple[FloatArray, float]]:
    """Each width's counts averaged with the sums of the finer ones; the widest first."""
    estimates = [(counts[-1], variance)]
    for mine in reversed(counts[:-1]):
        finer, noise = estimates[0]
        parts = finer.reshape(len(mine), -1)
        below = parts.sum(axis=1), noise * parts.shape[1]
        estimates.insert(0, inverse_variance([(mine, variance), below]))
    return estimates


@dataclass(frozen=True)
class TrainingTarget:
    """Class counts, or complementary fractions (1 - u, u) of a clipped target."""

    statistic: Statistic
    shape: TargetShape | None = None

    @property
    def channels(self) -> int:
        return self.statistic.channels

    def value(self, p: FloatArray) -> FloatArray:
        """(..., C) proportions -> a model's outputs: themselves, or the (..., 1) mean target."""
        if self.shape is None:
            return p
        return np.asarray(self.shape.low + self.scale * p[..., 1:])

    @property
    def is_seen(self) -> bool:
        """Whether the range of a numeric target is known; always True for classes."""
        return self.shape is None or self.shape.is_seen

    @property
    def scale(self) -> float:
        return 1.0 if self.shape is None else self.shape.high - self.shape.low

    def deviations(self, p: FloatArray) -> FloatArray:
        """(..., C) deviations of proportions -> those of a model's outputs."""
        return p if self.shape is None else self.scale * p[..., 1:]

    def leaf(self, p: FloatArray, masses: FloatArray, variance: float) -> LeafValue:
        return LeafValue(self.value(p), masses, variance, self.scale)


@dataclass(frozen=True)
class InitialRound:
    """What is released before training starts."""

    target: TrainingTarget
    records: RecordCount
    signal: float  # noisy rows over the noise of one table of all features at the full budget
    sure: float  # noisy rows over the noise of one sum over all records at the full budget
    spent: Fraction
    rounds: int = 1

    @staticmethod
    def of(
        target: TrainingTarget,
        records: RecordCount,
        schema: Schema,
        noise_model: NoiseModel,
        spent: Fraction,
        rounds: int = 1,
    ) -> InitialRound:
        def per_noise(by: Cells | Whole) -> float:
            """Rows per noise deviation of a cell, all channels, at the full budget."""
            query = SumQuery(EVERYONE, target.statistic, by, Fraction(1))
            noise = np.sqrt(target.channels * noise_model.variance(query))
            return records.positive / max(float(noise), 1e-12)

        every = Cells(tuple(range(len(schema.grids))), Binning.of_cells(schema))
        return InitialRound(target, records, per_noise(every), per_noise(Whole()), spent, rounds)

    @property
    def rows(self) -> float:
        return self.records.positive


def target_statistic(schema: Schema) -> type:
    """The statistic that is summed under this schema."""
    return ClassCounts if schema.target is None else Fractions


def initial_asks(schema: Schema) -> QueryKinds:
    """The kinds of query of the first round."""
    return sums(Count, Whole) if schema.target is None else sums(Count, Whole, TargetCells)


def initial_rounds(schema: Schema) -> int:
    """The largest number of rounds: each query may be asked twice."""
    return 2 if schema.target is None else 3


def initial_round(schema: Schema, noise_model: NoiseModel) -> Flow[InitialRound]:
    """Asks for the number of rows and, for regression, for the target's histogram.

    Trees over a range a hundred times too wide are far worse than the mean, so if no cell exceeded
    its noise the target is asked for again.
    """
    queries = [count_query(SIZE_FRACTION)]
    if schema.target is not None:
        queries += target_queries(schema.target, noise_model.is_pure, TARGET_FRACTION)
    replies = yield queries
    size, *cells = (reply for reply in replies if isinstance(reply, Answer))
    records = yield from recount_if_unclear(RecordCount.of(size, SIZE_FRACTION))
    target, spent = declared_target(schema), records.spent
    rounds = 1 + (spent > SIZE_FRACTION)
    if schema.target is not None:
        target = target_within(target_shape(schema.target, cells, records.positive))
        spent += TARGET_FRACTION
        if records.is_seen and not target.is_seen:
            target = yield from locate_target(schema.target, records, TARGET_AGAIN, noise_model)
            spent, rounds = spent + TARGET_AGAIN, rounds + 1
    return InitialRound.of(target, records, schema, noise_model, spent, rounds)


def locate_target(
    target: Target,
    records: RecordCount,
    fraction: Fraction,
    noise_model: NoiseModel,
    most_unseen: float = MOST_UNSEEN,
) -> Flow[TrainingTarget]:
    """Asks again for the range of a target of which no cell exceeded its noise."""
    replies = yield target_queries(target, noise_model.is_pure, fraction)
    cells = [reply for reply in replies if isinstance(reply, Answer)]
    return target_within(target_shape(target, cells, records.positive, most_unseen))


def target_within(shape: TargetShape) -> TrainingTarget:
    return TrainingTarget(Fractions(shape.low, shape.high), shape)


def declared_target(schema: Schema) -> TrainingTarget:
    """Classes, or a number within its whole public range: nothing is asked."""
    if schema.target is None:
        return TrainingTarget(ClassCounts(len(schema.classes or ())))
    return target_within(evenly_spread(schema.target))
