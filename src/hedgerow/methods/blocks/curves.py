"""A smoothed additive start: one curve of log-odds per feature, from one round of histograms.

Each feature's curve is a Gaussian process over its bins, seen through the noise. How strong and
how smooth it is comes from the histogram itself (empirical Bayes), so nothing is left to tune.
Knows no row: class histograms in, curves out.

Shapes: B bins of one feature, O outputs (1 for two classes, else one per class), K classes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from hedgerow.methods.blocks.flow import Flow, ask
from hedgerow.methods.blocks.tables import Tables, consistent, totals
from hedgerow.models.losses import LogLoss, sigmoid, softmax
from hedgerow.models.model import Curve
from hedgerow.privacy.queries import Answer, CurveNewton, SumQuery, Whole
from hedgerow.schema.arrays import FloatArray, canonical
from hedgerow.schema.candidates import Grids
from hedgerow.schema.grids import ColumnKind
from hedgerow.schema.regions import EVERYONE

STRENGTHS = (0.02, 0.05, 0.1, 0.2, 0.4, 0.8, 1.6)  # prior standard deviations of a curve
CORRELATION_LENGTHS = (0.1, 0.3, 1.0, 3.0)  # correlation lengths, as parts of the feature's bins
ROUGH = 0.1  # part of the prior variance that neighbouring bins do not share
USUAL_STRENGTH, PULL = 0.2, 0.05  # weak prior on the strength, in nats per squared log-ratio
NEWTON_STEPS, DAMPING = 8, 0.5
LARGEST_LOG_ODDS = 4.0
LEAST_CLASS = 10.0  # records a class is taken to have at least


@dataclass(frozen=True)
class Shapes:
    """The curves of the active features, their bins' noisy masses, and the scores' base."""

    base: FloatArray  # (O,)
    features: tuple[int, ...]
    values: tuple[FloatArray, ...]  # (B, O) each
    masses: tuple[FloatArray, ...]  # (B,) each, not negative
    deviations: tuple[FloatArray, ...]  # (B, O) each, of the noise in the values

    @property
    def strengths(self) -> FloatArray:
        """Mean square of each curve over the records."""
        return canonical(
            [
                float((m @ (v**2)).mean() / max(m.sum(), 1.0))
                for m, v in zip(self.masses, self.values, strict=True)
            ]
        )

    def curves(self, grids: Grids, weights: Sequence[float] | FloatArray) -> tuple[Curve, ...]:
        """Weighted, by cell instead of by bin."""
        return tuple(
            _curve(grids, j, w * v)
            for j, v, w in zip(self.features, self.values, weights, strict=True)
        )

    def noise(self, grids: Grids, weights: FloatArray, spread: FloatArray) -> list[FloatArray]:
        """(cells, O) deviations of the weighted curves; `spread` is that of the weights."""
        found = zip(self.features, self.values, self.deviations, weights, spread, strict=True)
        return [np.hypot(w * d, s * v)[list(grids.binning.bins[j])] for j, v, d, w, s in found]

    def parts(self, grids: Grids) -> tuple[tuple[float, ...], ...]:
        """The part of the records in each cell of every feature; a bin's cells share evenly."""
        found: list[tuple[float, ...]] = [() for _ in grids.schema.grids]
        for j, mass in zip(self.features, self.masses, strict=True):
            bins = np.asarray(grids.binning.bins[j])
            each = mass / np.maximum(np.bincount(bins, minlength=len(mass)), 1)
            cells = each[bins] / max(float(mass.sum()), 1.0)
            found[j] = tuple(round(float(part), 6) for part in cells)
        return tuple(found)


def _curve(grids: Grids, feature: int, values: FloatArray) -> Curve:
    by_cell = values[list(grids.binning.bins[feature])]
    return Curve(feature, tuple(tuple(row) for row in by_cell.tolist()))


def shapes(grids: Grids, tables: Tables) -> Shapes:
    """Curves of all features of class histograms (F, B, K)."""
    common, _ = totals(tables)
    agreed = consistent(tables)
    classes = np.maximum(common, LEAST_CLASS)
    base = canonical(log_prior(classes))
    values, masses, deviations = [], [], []
    for position, feature in enumerate(tables.features):
        counts = agreed.of(position)
        is_numeric = grids.grid(feature).kind is ColumnKind.NUMERIC
        found, noise = curve(counts, base, tables.variance, is_numeric)
        values.append(found)
        deviations.append(noise)
        masses.append(np.maximum(counts.sum(axis=1), 0.0))
    return Shapes(base, tables.features, tuple(values), tuple(masses), tuple(deviations))


def log_prior(classes: FloatArray) -> FloatArray:
    """Log-odds of the second class, or log-probabilities of three and more."""
    logs = np.log(classes / classes.sum())
    return np.array([logs[1] - logs[0]]) if len(classes) == 2 else logs


def curve(
    counts: FloatArray, base: FloatArray, variance: float, is_numeric: bool
) -> tuple[FloatArray, FloatArray]:
    """(B, O) offsets from the base and the deviations of their noise.

    By damped Newton steps, each the posterior mean of a line. With p the class probabilities at
    the present offsets, the residual p n - h has slope W = p (1 - p) n and variance v = W + the
    noise of n and h in it. Where the steps end, noise in the residual moves the offsets by the
    gain K W (W K W + v)^-1, with K the prior, or one of usual strength if noise chose a weaker.
    Noise in the slope of a thin bin turns its offset by the same part.
    """
    rows = np.maximum(counts.sum(axis=1), 0.0)  # (B,)
    offsets = np.zeros((len(rows), len(base)))
    priors = _priors(counts, base, variance, is_numeric)
    mean = np.broadcast_to(rows / max(float(rows.sum()), 1.0), (len(rows), len(rows)))
    for _ in range(NEWTON_STEPS):
        p = _probabilities(base + offsets)
        residual = p * counts.sum(axis=1, keepdims=True) - _hits(counts)
        slope = np.maximum(p * (1.0 - p) * rows[:, None], 1e-6)
        noise = _noise(p, variance, counts.shape[1])
        spread = noise + slope
        for o, prior in enumerate(priors):
            w, target = slope[:, o], slope[:, o] * offsets[:, o] - residual[:, o]
            step = np.linalg.solve(w[:, None] * prior * w + np.diag(spread[:, o]), target)
            moved = DAMPING * (prior @ (w * step))
            offsets[:, o] = (1.0 - DAMPING) * offsets[:, o] + moved
        offsets = np.clip(offsets, -LARGEST_LOG_ODDS, LARGEST_LOG_ODDS)
    deviations = [
        _deviations(np.stack([slope[:, o], noise[:, o], spread[:, o]]), prior, mean)
        for o, prior in enumerate(priors)
    ]
    offsets = canonical(offsets - mean @ offsets)
    thin = np.sqrt(counts.shape[1] * variance) / np.maximum(rows, np.sqrt(variance) + 1e-9)
    turned = np.abs(offsets) * np.minimum(thin, 1.0)[:, None]
    return offsets, canonical(np.hypot(np.stack(deviations, axis=1), turned))


def _deviations(known: FloatArray, prior: FloatArray, mean: FloatArray) -> FloatArray:
    """(B,) what noise in the residual moves, for slope, noise and spread (3, B) of one output."""
    w, noise, spread = known
    wide = prior * max(1.0, USUAL_STRENGTH**2 / prior[0, 0])
    gain = np.linalg.solve(w[:, None] * wide * w + np.diag(spread), w[:, None] * wide).T
    return np.asarray(np.sqrt((gain - mean @ gain) ** 2 @ noise))


def _probabilities(scores: FloatArray) -> FloatArray:
    return sigmoid(scores) if scores.shape[1] == 1 else softmax(scores)


def _hits(counts: FloatArray) -> FloatArray:
    """(B, O) counts of the classes that have an output."""
    return counts[:, 1:] if counts.shape[1] == 2 else counts


def _noise(p: FloatArray, variance: float, n_classes: int) -> FloatArray:
    """Of p n - h, where n is the sum of all classes' noisy counts."""
    return variance * ((1.0 - p) ** 2 + (n_classes - 1) * p**2)


def _priors(
    counts: FloatArray, base: FloatArray, variance: float, is_numeric: bool
) -> list[FloatArray]:
    """Prior covariance (B, B) of each output's curve, the likeliest of the grid."""
    p = _probabilities(base[None, :])
    residual = p * counts.sum(axis=1, keepdims=True) - _hits(counts)
    slope = np.maximum(p * (1.0 - p) * counts.sum(axis=1, keepdims=True), 1e-6)
    spread = _noise(p, variance, counts.shape[1]) + slope
    families = [correlations(len(counts), ell) for ell in CORRELATION_LENGTHS] if is_numeric else []
    unit = np.stack(families or [np.eye(len(counts))])  # (l, B, B)
    return [likeliest(residual[:, o], slope[:, o], spread[:, o], unit) for o in range(len(base))]


def correlations(n_bins: int, length: float) -> FloatArray:
    """Of a numeric feature's bins; the last bin, `missing`, stands alone."""
    known = n_bins - 1
    place = np.arange(known) / known
    near = np.exp(-np.abs(place[:, None] - place[None, :]) / length)
    out = np.eye(n_bins)
    out[:known, :known] = (1.0 - ROUGH) * near + ROUGH * np.eye(known)
    return out


def likeliest(
    residual: FloatArray, slope: FloatArray, spread: FloatArray, unit: FloatArray
) -> FloatArray:
    """The covariance k^2 U, over strengths k and families U, under which the residual is likeliest.

    The residual is N(0, k^2 H U H + diag(spread)) with H = diag(slope).
    """
    strengths = np.array(STRENGTHS)
    signal = slope[:, None] * unit * slope  # (l, B, B)
    covariance = strengths[:, None, None, None] ** 2 * signal + np.diag(spread)
    lower = np.linalg.cholesky(covariance)  # (k, l, B, B)
    white = np.linalg.solve(lower, residual[:, None])[..., 0]
    log_det = np.log(np.diagonal(lower, axis1=-2, axis2=-1)).sum(axis=-1)
    pull = PULL * np.log(strengths / USUAL_STRENGTH) ** 2
    evidence = -0.5 * (white**2).sum(axis=-1) - log_det - pull[:, None]
    k, family = np.unravel_index(int(np.argmax(evidence)), evidence.shape)
    return np.asarray(strengths[k] ** 2 * unit[family])


# --------------------------------------------------------------------------------------------------
# Private stacking: one weight per feature curve, by a few noisy Newton steps.
#
# Curves of features that were smoothed one by one count shared evidence several times. A logistic
# regression on the curves' values, of dimension features + 1 only, takes that back.

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
