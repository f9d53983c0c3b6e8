"""Calibrated probabilities: a line through the scores of two classes (Platt), from one noisy table.

Trees that share evidence may be overconfident or underconfident together, depending on the data.
One round counts the records of each class in intervals of the score, a table with sensitivity 1,
and the log-odds become shift + slope * score (Platt 1999). The fit accounts for the noise in the
table. The line is shrunk towards a prior line, so that pure noise changes nothing; the
probabilities are fitted to add up to the number of records of the second class in earlier
answers, for which only the rows per interval are needed.


Shapes: B intervals of the score.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from hedgerow.methods.blocks.flow import Flow, NoiseModel, ask
from hedgerow.methods.blocks.target import TargetShape
from hedgerow.methods.constants import constant
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

CALIBRATION_FRACTION = constant(
    Fraction(3, 100), unit="part of the budget", evidence="forests.md#0064"
)
"""Fraction of the budget for the table of scores."""
MAX_CALIBRATION_FRACTION = constant(
    Fraction(1, 10), unit="part of the budget", evidence="forests.md#0153"
)
"""Largest fraction that a rare class may get."""
WEAK_CALIBRATION = constant(100.0, unit="signal", evidence="forests.md#0153")
"""Signal below which a rare class gets more."""
SIDE = constant(
    (0.05, 0.1, 0.2, 0.3, 0.45, 0.6, 0.8, 1.0, 1.3, 1.6, 2.0, 2.5, 3.0, 4.0),
    unit="score",
    evidence="forests.md#0064",
)
"""Interval ends of the score, mirrored at 0."""
EXPECTED_ERROR = constant(0.5, unit="deviation of shift and slope from what is expected before")
STANDS_OUT = constant(3.0, unit="deviations")
"""Deviations of its noise that an interval's count must exceed."""
LINE_STEPS = constant(12, unit="Newton steps of the fit of the line")
MOST_TO_LEVEL = constant(Fraction(1, 10), unit="part of the budget", evidence="numbers.md#0119")
"""Largest fraction of the budget for the shift of the mean."""
LEAST_TO_LEVEL = constant(
    Fraction(1, 100), unit="part of the budget, at least", evidence="numbers.md#0119"
)
LEVEL_NOISE = constant(0.05, unit="deviations of the target", evidence="numbers.md#0119")
"""Noise of the shift, in deviations of the target, below which more budget is useless."""
REACH = constant(4.0, unit="clipped ranges", evidence="numbers.md#0119")
"""Width, in clipped ranges, within which a record's residual counts in full."""
WEIGHT = constant(1e-3, unit="weight of the count that squared error sums besides")

EDGES = (*(-e for e in reversed(SIDE)), 0.0, *SIDE)


@dataclass(frozen=True)
class Line:
    """Log-odds of the second class are shift + slope * score.

    `slope_noise` is the relative deviation of the noise in the slope.
    """

    shift: float
    slope: float
    slope_noise: float = 0.0


@dataclass(frozen=True)
class ClassTotals:
    """(2,) records of each class by earlier answers, and the variance of each."""

    masses: FloatArray
    variance: float


def calibrate(
    score: Additive, prior_line: Line, totals: ClassTotals, fraction: Fraction
) -> Flow[Line]:
    """Fits the line by one noisy query; `score` has one output."""
    by = PredictionCells(score, EDGES)
    answer = yield from ask(SumQuery(EVERYONE, ClassCounts(2), by, fraction))
    return fit_line(answer, prior_line, totals)


def fit_line(answer: Answer, prior_line: Line, totals: ClassTotals) -> Line:
    """Gauss-Newton steps on the hits of each interval, weighted by their noise and sampling
    variance.

    With p the probability under the current line, h - p n has slope n p (1 - p) and a variance of
    that plus the noise of n and h in it. Intervals below the noise have no weight. One more
    equation covers all intervals: the known number of hits less the sum of p n, in which the noise
    of n is small if the class is rare. It has no weight if all rows together are below the noise.
    """
    counts = answer.values[0]  # (B, 2)
    rows, hits = counts.sum(axis=1), counts[:, 1]
    everyone = rows if _stands_out(totals.masses.sum(), len(rows), answer) else np.zeros_like(rows)
    rows = np.where(_stands_out(rows, 1, answer), rows, 0.0)
    columns = np.stack([np.ones(len(rows)), _middles()], axis=1)
    prior = np.array([prior_line.shift, prior_line.slope])
    line, pull = prior.copy(), np.eye(2) / EXPECTED_ERROR**2
    for _ in range(LINE_STEPS):
        p = sigmoid(columns @ line)
        cell_slopes, total = rows * p * (1.0 - p), everyone * p * (1.0 - p)
        noise = answer.variance * np.append((1.0 - p) ** 2 + p**2, 2.0 * (p**2).sum())
        noise[-1] += totals.variance
        spread = np.append(cell_slopes, max(float(total.sum()), 0.0)) + noise + 1e-9
        jacobian = np.vstack([cell_slopes[:, None] * columns, total @ columns])  # (B + 1, 2)
        residuals = np.append(hits - p * rows, totals.masses[1] - p @ everyone)
        curvature = jacobian.T @ (jacobian / spread[:, None]) + pull
        gradient = jacobian.T @ (residuals / spread) - pull @ (line - prior)
        line = line + np.clip(np.linalg.solve(curvature, gradient), -0.5, 0.5)
    slope_noise = np.sqrt(
        np.linalg.solve(curvature, (jacobian / spread[:, None]).T)[1] ** 2 @ noise
    )
    shift, steep = canonical([line[0], max(line[1], 0.0)]).tolist()
    return Line(shift, steep, float(canonical(slope_noise / steep)) if steep else 0.0)


def _stands_out(rows: FloatArray, intervals: int, answer: Answer) -> BoolArray:
    """Whether `rows` exceed the noise of this many intervals of both classes."""
    return np.asarray(rows > STANDS_OUT * np.sqrt(2.0 * intervals * answer.variance))


def _middles() -> FloatArray:
    """Midpoints of the intervals; the outer ones are as wide as their neighbors."""
    edges = np.array(EDGES)
    ends = np.concatenate([[2 * edges[0] - edges[1]], edges, [2 * edges[-1] - edges[-2]]])
    return np.asarray((ends[:-1] + ends[1:]) / 2.0)


# Bias correction of a regression: what clipping the target cut away. Regression trees sum a target
# clipped to the range in which most of it was seen. A tail below the noise lies outside it, and
# then every leaf is too low. One sum of the residuals, over a range several times as wide as the
# clip, estimates the bias; all leaves are shifted by it, shrunk by its noise (James and Stein
# 1961).


LEVEL_ASKS = sums(Gradients, Whole)


@dataclass(frozen=True)
class BiasCorrection:
    """The last query and its budget fraction, both fixed before the trees are grown."""

    target: Target
    reach: float
    rows: float
    fraction: Fraction

    @staticmethod
    def of(
        target: Target, shape: TargetShape, rows: float, noise_model: NoiseModel
    ) -> BiasCorrection:
        reach = min(REACH * (shape.high - shape.low), target.high - target.low)
        most = BiasCorrection(target, reach, rows, MOST_TO_LEVEL)
        noise = reach * np.sqrt(noise_model.variance(most._query(Additive((0.0,))))) / rows
        target_noise = LEVEL_NOISE * (shape.high - shape.low) * np.sqrt(shape.spread)
        part = min(float(noise / target_noise), 1.0)
        part = part if noise_model.is_pure else part**2  # variance ~ fraction^-2 if Laplace
        fraction = max(MOST_TO_LEVEL * Fraction(round(1000 * part), 1000), LEAST_TO_LEVEL)
        return BiasCorrection(target, reach, rows, fraction)

    def _query(self, at: Additive) -> SumQuery:
        loss = SquaredLoss(self.target.low, self.target.high, self.reach, WEIGHT)
        return SumQuery(EVERYONE, Gradients(loss, at), Whole(), self.fraction)

    def shift(self, at: Additive) -> Flow[float]:
        """The model's mean residual, shrunk by its noise."""
        answer = yield from ask(self._query(at))
        shift = -self.reach * float(answer.values[0, 0, 0]) / self.rows
        noise = self.reach * float(np.sqrt(answer.variance)) / self.rows
        return shift * max(1.0 - (noise / shift) ** 2, 0.0) if shift else 0.0
