"""Probabilities that mean what they say: a line through the scores of two classes, from one table.

Trees that see parts of the same evidence may be too sure together, or not sure enough; which of
the two depends on the data. One round asks how many records of each class lie in each interval of
the score, a table that a record moves by 1, and the log-odds are read as shift + slope * score
(Platt 1999). Noise in the table is part of the fit. Departures: the line leans on what was expected
before, so that a table of noise changes nothing; and the probabilities should add up to the number
of the second class that earlier rounds told, which needs the rows of the intervals alone.

Shapes: B intervals of the score.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from hedgerow.methods.blocks.flow import Flow, Quote, ask
from hedgerow.methods.blocks.goal import TargetShape
from hedgerow.models.losses import SquaredLoss, sigmoid
from hedgerow.models.model import Additive
from hedgerow.privacy.queries import (
    Answer,
    ClassCounts,
    Gradients,
    PredictionCells,
    SumQuery,
    Whole,
    sums,
)
from hedgerow.schema.arrays import BoolArray, FloatArray, canonical
from hedgerow.schema.regions import EVERYONE
from hedgerow.schema.schema import Target

CALIBRATION_SHARE = Fraction(3, 100)
MOST_CALIBRATION_SHARE, WEAK_CALIBRATION = Fraction(1, 10), 100.0
"""What a rare class may get, and the signal below which it does: studies/notes/forests.md#0153."""
SIDE = (0.05, 0.1, 0.2, 0.3, 0.45, 0.6, 0.8, 1.0, 1.3, 1.6, 2.0, 2.5, 3.0, 4.0)
EDGES = (*(-e for e in reversed(SIDE)), 0.0, *SIDE)
EXPECTED_ERROR = 0.5  # deviation of shift and slope from what is expected before
STANDS_OUT = 3.0  # deviations of its noise by which an interval's records must be seen
STEPS = 12


@dataclass(frozen=True)
class Line:
    """Log-odds of the second class are shift + slope * score.

    `slope_noise` is the deviation of the noise in the slope, as a part of it.
    """

    shift: float
    slope: float
    slope_noise: float = 0.0


@dataclass(frozen=True)
class ClassTotals:
    """(2,) records of each class by earlier answers, and the variance of each."""

    masses: FloatArray
    variance: float


def calibrated(score: Additive, expected: Line, known: ClassTotals, share: Fraction) -> Flow[Line]:
    """The line that fits best, asked in one round; `score` has one output."""
    by = PredictionCells(score, EDGES)
    answer = yield from ask(SumQuery(EVERYONE, ClassCounts(2), by, share))
    return fitted(answer, expected, known)


def fitted(answer: Answer, expected: Line, known: ClassTotals) -> Line:
    """Gauss-Newton steps on the hits of each interval, weighed by their noise and sampling.

    With p the probability at the present line, h - p n has slope n p (1 - p) and a variance of that
    plus the noise of n and h in it. Intervals that noise hides say nothing. One more row of the
    fit holds all intervals: what is known of the hits, less the sum of p n. Of a rare class p is
    small, and so is the noise of n in it. It says nothing if noise hides all rows together.
    """
    counts = answer.values[0]  # (B, 2)
    rows, hits = counts.sum(axis=1), counts[:, 1]
    everyone = rows if _stands_out(known.masses.sum(), len(rows), answer) else np.zeros_like(rows)
    rows = np.where(_stands_out(rows, 1, answer), rows, 0.0)
    columns = np.stack([np.ones(len(rows)), _middles()], axis=1)
    prior = np.array([expected.shift, expected.slope])
    line, pull = prior.copy(), np.eye(2) / EXPECTED_ERROR**2
    for _ in range(STEPS):
        p = sigmoid(columns @ line)
        each, total = rows * p * (1.0 - p), everyone * p * (1.0 - p)
        noise = answer.variance * np.append((1.0 - p) ** 2 + p**2, 2.0 * (p**2).sum())
        noise[-1] += known.variance
        spread = np.append(each, max(float(total.sum()), 0.0)) + noise + 1e-9
        jacobian = np.vstack([each[:, None] * columns, total @ columns])  # (B + 1, 2)
        missed = np.append(hits - p * rows, known.masses[1] - p @ everyone)
        curvature = jacobian.T @ (jacobian / spread[:, None]) + pull
        gradient = jacobian.T @ (missed / spread) - pull @ (line - prior)
        line = line + np.clip(np.linalg.solve(curvature, gradient), -0.5, 0.5)
    moved = np.sqrt(np.linalg.solve(curvature, (jacobian / spread[:, None]).T)[1] ** 2 @ noise)
    shift, steep = canonical([line[0], max(line[1], 0.0)]).tolist()
    return Line(shift, steep, float(canonical(moved / steep)) if steep else 0.0)


def _stands_out(rows: FloatArray, intervals: int, answer: Answer) -> BoolArray:
    """Whether so many rows are seen through the noise of so many intervals of both classes."""
    return np.asarray(rows > STANDS_OUT * np.sqrt(2.0 * intervals * answer.variance))


def _middles() -> FloatArray:
    """Of the intervals; the outer ones are as wide as their neighbours."""
    edges = np.array(EDGES)
    ends = np.concatenate([[2 * edges[0] - edges[1]], edges, [2 * edges[-1] - edges[-2]]])
    return np.asarray((ends[:-1] + ends[1:]) / 2.0)


# --------------------------------------------------------------------------------------------------
# The mean of a number put right at the end: what the clip of its target has cut away.
#
# Trees for a number sum a target that is clipped to where most of it was seen. A tail that noise
# hid lies outside, and then every leaf is too low. One sum of what the model misses, over a range
# several times as wide as the clip, tells by how much; all leaves move by that, less what its noise
# alone would move them (James and Stein 1961).

MOST_TO_LEVEL, LEAST_TO_LEVEL = Fraction(1, 10), Fraction(1, 100)
LEVEL_NOISE = 0.05  # deviations of the target: noise of the shift below which more buys nothing
REACH = 4.0  # clipped ranges that a record may be off and still count in full
WEIGHT = 1e-3  # of the count that squared error sums besides, and nobody needs here

LEVEL_ASKS = sums(Gradients, Whole)


@dataclass(frozen=True)
class Levelling:
    """What is asked at the end, and with which share: both known before the trees are."""

    target: Target
    reach: float
    rows: float
    share: Fraction

    @staticmethod
    def of(target: Target, shape: TargetShape, rows: float, quote: Quote) -> Levelling:
        reach = min(REACH * (shape.high - shape.low), target.high - target.low)
        most = Levelling(target, reach, rows, MOST_TO_LEVEL)
        noise = reach * np.sqrt(quote.variance(most._query(Additive((0.0,))))) / rows
        wanted = LEVEL_NOISE * (shape.high - shape.low) * np.sqrt(shape.spread)
        part = min(float(noise / wanted), 1.0)
        part = part if quote.is_pure else part**2  # Laplace noise falls faster with its share
        share = max(MOST_TO_LEVEL * Fraction(round(1000 * part), 1000), LEAST_TO_LEVEL)
        return Levelling(target, reach, rows, share)

    def _query(self, at: Additive) -> SumQuery:
        loss = SquaredLoss(self.target.low, self.target.high, self.reach, WEIGHT)
        return SumQuery(EVERYONE, Gradients(loss, at), Whole(), self.share)

    def shift(self, at: Additive) -> Flow[float]:
        """By how much the model is too low on average, less what noise alone would say."""
        answer = yield from ask(self._query(at))
        shift = -self.reach * float(answer.values[0, 0, 0]) / self.rows
        noise = self.reach * float(np.sqrt(answer.variance)) / self.rows
        return shift * max(1.0 - (noise / shift) ** 2, 0.0) if shift else 0.0
