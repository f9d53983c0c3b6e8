"""Probabilities that mean what they say: a line through the scores of two classes, from one table.

Trees that see parts of the same evidence may be too sure together, or not sure enough; which of
the two depends on the data. One round asks how many records of each class lie in each interval of
the score, a table that a record moves by 1, and the log-odds are read as shift + slope * score
(Platt 1999). Noise in the table is part of the fit. Departure: the line leans on what was expected
before, so that a table of noise changes nothing.

Shapes: B intervals of the score.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from hedgerow.learning.flow import Flow, ask
from hedgerow.queries import Answer, ClassCounts, PredictionCells, SumQuery
from hedgerow.values.arrays import FloatArray
from hedgerow.values.losses import sigmoid
from hedgerow.values.models import Additive
from hedgerow.values.regions import EVERYONE

CALIBRATION_SHARE = Fraction(3, 100)
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


def calibrated(score: Additive, expected: Line, share: Fraction) -> Flow[Line]:
    """The line that fits best, asked in one round; `score` has one output."""
    by = PredictionCells(score, EDGES)
    answer = yield from ask(SumQuery(EVERYONE, ClassCounts(2), by, share))
    return fitted(answer, expected)


def fitted(answer: Answer, expected: Line) -> Line:
    """Gauss-Newton steps on the hits of each interval, weighed by their noise and sampling.

    With p the probability at the present line, h - p n has slope n p (1 - p) and a variance of that
    plus the noise of n and h in it. Intervals that noise hides say nothing.
    """
    counts = answer.values[0]  # (B, 2)
    rows, hits = counts.sum(axis=1), counts[:, 1]
    rows = np.where(rows > STANDS_OUT * np.sqrt(2.0 * answer.variance), rows, 0.0)
    columns = np.stack([np.ones(len(rows)), _middles()], axis=1)
    prior = np.array([expected.shift, expected.slope])
    line, pull = prior.copy(), np.eye(2) / EXPECTED_ERROR**2
    for _ in range(STEPS):
        p = sigmoid(columns @ line)
        slope = rows * p * (1.0 - p)
        noise = answer.variance * ((1.0 - p) ** 2 + p**2)
        spread = slope + noise + 1e-9
        jacobian = slope[:, None] * columns
        curvature = jacobian.T @ (jacobian / spread[:, None]) + pull
        gradient = jacobian.T @ ((hits - p * rows) / spread) - pull @ (line - prior)
        line = line + np.clip(np.linalg.solve(curvature, gradient), -0.5, 0.5)
    moved = np.sqrt(np.linalg.solve(curvature, (jacobian / spread[:, None]).T)[1] ** 2 @ noise)
    shift, steep = float(line[0]), float(max(line[1], 0.0))
    return Line(shift, steep, float(moved) / steep if steep else 0.0)


def _middles() -> FloatArray:
    """Of the intervals; the outer ones are as wide as their neighbours."""
    edges = np.array(EDGES)
    ends = np.concatenate([[2 * edges[0] - edges[1]], edges, [2 * edges[-1] - edges[-2]]])
    return np.asarray((ends[:-1] + ends[1:]) / 2.0)
