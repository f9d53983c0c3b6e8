"""Private stacking: one weight per feature curve, by a few noisy Newton steps.

Curves of features that were smoothed one by one count shared evidence several times. A logistic
regression on the curves' values, of dimension features + 1 only, takes that back.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from hedgerow.learning.curves.smoothing import Shapes
from hedgerow.learning.flow import Flow, ask
from hedgerow.queries import Answer, CurveNewton, SumQuery, Whole
from hedgerow.values.arrays import FloatArray, canonical
from hedgerow.values.candidates import Grids
from hedgerow.values.losses import LogLoss
from hedgerow.values.regions import EVERYONE

ROUNDS = 3
LARGEST_START = 0.5
LARGEST_STEP = 0.5
STEP_DEVIATION = 0.5  # how far a weight is expected to move in one step
LEAST_WEIGHT, MOST_WEIGHT = -0.2, 1.5


@dataclass(frozen=True)
class Stacked:
    """A weight per curve, what the constant column adds to the base, and the weights' noise."""

    weights: FloatArray
    shift: float
    deviations: FloatArray


def unstacked(shapes: Shapes) -> Stacked:
    """The start: all weights alike, small enough that the sum of curves does not explode."""
    total, n = float(shapes.strengths.sum()) + 1e-6, len(shapes.features)
    weight = canonical(min(LARGEST_START, 1.0 / np.sqrt(total)))
    return Stacked(np.full(n, weight), 0.0, np.zeros(n))


def stack(shapes: Shapes, grids: Grids, share: Fraction) -> Flow[Stacked]:
    """`ROUNDS` Newton steps of logistic regression; each is one sum with a bound of its own.

    Curves count up to 1.5 times their mean square and the constant column a quarter of that on
    top, so few records are scaled down to the radius. Proof: docs/proofs/curve_newton.md.
    A step by G takes back the part G H of the noise of the steps before and adds its own.
    """
    total = float(shapes.strengths.sum()) + 1e-6
    constant, radius = canonical([0.5 * np.sqrt(1.5 * total), np.sqrt(1.25 * 1.5 * total)])
    curves = shapes.curves(grids, np.ones(len(shapes.features)))
    weights = np.append(unstacked(shapes).weights, 0.0)
    noise = np.zeros((len(weights), len(weights)))  # covariance
    for _ in range(ROUNDS):
        statistic = CurveNewton(
            curves,
            float(constant),
            float(radius),
            tuple(weights.tolist()),
            float(shapes.base[0]),
        )
        answer = yield from ask(SumQuery(EVERYONE, statistic, Whole(), share / ROUNDS))
        step, kept, own = newton_step(statistic, answer)
        weights = canonical(np.clip(weights - step, LEAST_WEIGHT, MOST_WEIGHT))
        noise = kept @ noise @ kept.T + own
    spread = np.sqrt(np.maximum(np.diagonal(noise), 0.0))
    return Stacked(weights[:-1], float(weights[-1] * constant), canonical(spread[:-1]))


def newton_step(
    statistic: CurveNewton, answer: Answer
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """A Wiener-filtered Newton step: directions below the noise hardly move.

    Beside it (d, d) the part of an earlier error that is left, and the covariance of its noise.
    """
    d, radius = statistic.dimension, statistic.radius
    sums = answer.values[0, 0]
    gradient = radius * sums[:d]
    hessian = np.zeros((d, d))
    hessian[np.triu_indices(d)] = sums[d:] * radius**2 / LogLoss().hessian_scale
    hessian += np.triu(hessian, 1).T
    noise = radius * np.sqrt(answer.variance)
    values, vectors = np.linalg.eigh(hessian)
    values = np.maximum(values, 0.0)
    gain = values / np.maximum(values**2 + (noise / STEP_DEVIATION) ** 2, 1e-12)
    step = vectors @ (gain * (vectors.T @ gradient))
    short = min(1.0, LARGEST_STEP / max(float(np.abs(step).max()), 1e-9))
    kept = (vectors * (1.0 - short * gain * values)) @ vectors.T
    own = (vectors * (short * gain * noise) ** 2) @ vectors.T
    return np.asarray(short * step), np.asarray(kept), np.asarray(own)
