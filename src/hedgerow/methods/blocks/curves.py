"""A smoothed additive start model: one curve of log-odds per feature, from one round of histograms.

Each feature's curve is a Gaussian process over its bins, observed with noise. Its strength and
smoothness are estimated from the histogram (empirical Bayes), so there is nothing to tune.

Shapes: B bins of one feature, O outputs (1 for two classes, else one per class), K classes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np

from hedgerow.methods.blocks.flow import Flow, ask
from hedgerow.methods.blocks.sizes import QUERY, Scale
from hedgerow.methods.blocks.tables import Tables, consistent
from hedgerow.methods.constants import constant
from hedgerow.models.losses import LogLoss, Loss, sigmoid, softmax
from hedgerow.models.model import Additive, Curve
from hedgerow.privacy.bundles import NUMBER, Size
from hedgerow.privacy.queries import Answer, CurveNewton, SumQuery, Whole
from hedgerow.schema.arrays import FloatArray, canonical
from hedgerow.schema.candidates import Grids
from hedgerow.schema.grids import ColumnKind
from hedgerow.schema.regions import EVERYONE

STRENGTHS = constant((0.02, 0.05, 0.1, 0.2, 0.4, 0.8, 1.6), unit="prior standard deviations")
"""Prior standard deviations of a curve to choose from."""
CORRELATION_LENGTHS = constant((0.1, 0.3, 1.0, 3.0), unit="correlation lengths")
"""Correlation lengths to choose from, relative to the number of bins."""
ROUGH = constant(0.1, unit="part of the prior variance that neighboring bins do not share")
USUAL_STRENGTH = constant(0.2, unit="strength that a weak prior expects")
PULL = constant(0.05, unit="nats per squared log-ratio of a strength to the usual one")
NEWTON_STEPS = constant(8, unit="steps of the smoothing of a curve")
DAMPING = constant(0.5, unit="part of such a step that is taken")
LARGEST_LOG_ODDS = constant(4.0, unit="log-odds of a bin at most, either way")
LARGEST_EFFECT = constant(3.0, unit="log-odds that a curve adds at most, either way")
LEAST_CLASS = constant(10.0, unit="records a class is taken to have at least")
ROUNDS = constant(3, unit="Newton steps", evidence="boosting.md#0030")
"""Newton steps on the weights of the curves, one round each."""
LARGEST_START = constant(0.5, unit="weight", evidence="boosting.md#0030")
"""Largest weight of a curve before the first step."""
LARGEST_STEP = constant(0.5, unit="change of a weight in one step, at most")
STEP_DEVIATION = constant(0.5, unit="deviation: how far a weight is expected to move in one step")
LEAST_WEIGHT = constant(-0.2, unit="weight of a curve, at least")
MOST_WEIGHT = constant(1.5, unit="weight of a curve, at most")


@dataclass(frozen=True)
class FeatureEffects:
    """The curves of the active features, the noisy masses of their bins, and the scores' base."""

    base: FloatArray  # (O,)
    features: tuple[int, ...]
    values: tuple[FloatArray, ...]  # (B, O) each
    masses: tuple[FloatArray, ...]  # (B,) each, not negative
    deviations: tuple[FloatArray, ...]  # (B, O) each, of the noise in the values

    @property
    def records(self) -> float:
        return float(np.mean([mass.sum() for mass in self.masses]))

    @property
    def strengths(self) -> FloatArray:
        """Mean square of each curve over the records."""
        return canonical(
            [
                float((m @ (v**2)).mean() / max(m.sum(), 1.0))
                for m, v in zip(self.masses, self.values, strict=True)
            ]
        )

    def curves(self, grids: Grids, weights: FloatArray) -> tuple[Curve, ...]:
        """The weighted curves, per cell instead of per bin."""
        effects = zip(self.features, self.values, weights, strict=True)
        return tuple(curve_of_bins(grids, j, w * v) for j, v, w in effects)

    def start(self, grids: Grids, stacking: Stacking) -> Additive:
        """The weighted curves as a model."""
        base = tuple((self.base + stacking.shift).tolist())
        return Additive(base, self.curves(grids, stacking.weights))

    def noise(self, grids: Grids, stacking: Stacking) -> list[FloatArray]:
        """(cells, O) noise deviations of the weighted curves."""
        weights = stacking.weights, stacking.deviations
        effects = zip(self.features, self.values, self.deviations, *weights, strict=True)
        return [np.hypot(w * d, s * v)[list(grids.binning.bins[j])] for j, v, d, w, s in effects]

    def parts(self, grids: Grids) -> tuple[tuple[float, ...], ...]:
        """The fraction of records in each cell of every feature, evenly divided within a bin."""
        parts: list[tuple[float, ...]] = [() for _ in grids.schema.grids]
        for j, mass in zip(self.features, self.masses, strict=True):
            bins = np.asarray(grids.binning.bins[j])
            cell_mass = mass / np.maximum(np.bincount(bins, minlength=len(mass)), 1)
            cells = cell_mass[bins] / max(float(mass.sum()), 1.0)
            parts[j] = tuple(round(float(part), 6) for part in cells)
        return tuple(parts)


def curve_of_bins(grids: Grids, feature: int, values: FloatArray) -> Curve:
    """A curve or some functions (B, k) of a feature's bins, as those of its cells."""
    rows = values[list(grids.binning.bins[feature])]
    return Curve(feature, tuple(map(tuple, rows.tolist())))


def shapes(grids: Grids, tables: Tables) -> FeatureEffects:
    """The curves of all features from class histograms (F, B, K)."""
    common, _ = tables.total
    agreement, base = consistent(tables), canonical(log_prior(np.maximum(common, LEAST_CLASS)))
    curves, masses = [], []
    for position, feature in enumerate(tables.features):
        counts = agreement.of(position)
        is_numeric = grids.grid(feature).kind is ColumnKind.NUMERIC
        curves.append(curve(counts, base, tables.variance, is_numeric))
        masses.append(np.maximum(counts.sum(axis=1), 0.0))
    values, deviations = zip(*curves, strict=True)
    return FeatureEffects(base, tables.features, values, tuple(masses), deviations)


def gradient_shapes(grids: Grids, tables: Tables, loss: Loss) -> FeatureEffects:
    """The curves of all features from sums of gradients and Hessians at the null model (F, B, 2).

    Each is one step: the negative gradient is H theta plus the noise of the sum and the records'
    own scatter, whose variance is H.
    """
    agreement = consistent(tables)
    values, masses, deviations = [], [], []
    for position, feature in enumerate(tables.features):
        sums = agreement.of(position)
        slope = np.maximum(sums[:, 1] / loss.hessian_scale, 1e-6)
        unit = families(len(slope), grids.grid(feature).kind is ColumnKind.NUMERIC)
        noise = np.full(len(slope), tables.variance)
        offsets, spread = smooth_curve(-sums[:, 0], slope, noise, noise + slope, unit)
        offsets = np.clip(offsets, -LARGEST_EFFECT, LARGEST_EFFECT)
        values.append(canonical(offsets - slope @ offsets / slope.sum())[:, None])
        deviations.append(canonical(spread)[:, None])
        masses.append(slope)
    effects = tuple(values), tuple(masses), tuple(deviations)
    return FeatureEffects(np.zeros(1), tables.features, *effects)


def smooth_curve(
    sums: FloatArray,
    slope: FloatArray,
    noise: FloatArray,
    spread: FloatArray,
    unit: FloatArray,
    strengths: Sequence[float] = STRENGTHS,
) -> tuple[FloatArray, FloatArray]:
    """(B,) the posterior mean of the offsets in sums = slope x offsets + error, and their
    deviations.

    `spread` is the variance of the error, `noise` the part of it that privacy adds.
    """
    prior = likeliest(sums, slope, spread, unit, strengths)
    solution = np.linalg.solve(slope[:, None] * prior * slope + np.diag(spread), sums)
    terms, mean = np.stack([slope, noise, spread]), slope / slope.sum()
    return np.asarray(prior @ (slope * solution)), _deviations(terms, prior, mean)


def families(n_bins: int, is_numeric: bool) -> FloatArray:
    """(l, B, B) candidate correlations of a curve."""
    families = [correlations(n_bins, ell) for ell in CORRELATION_LENGTHS] if is_numeric else []
    return np.stack(families or [np.eye(n_bins)])


def log_prior(classes: FloatArray) -> FloatArray:
    """Log-odds of the second class, or the log-probabilities of three or more classes."""
    logs = np.log(classes / classes.sum())
    return np.array([logs[1] - logs[0]]) if len(classes) == 2 else logs


def curve(
    counts: FloatArray, base: FloatArray, variance: float, is_numeric: bool
) -> tuple[FloatArray, FloatArray]:
    """(B, O) offsets from the base, and the deviations of their noise.

    Computed by damped Newton steps, each the posterior mean of a linear model. With p the class
    probabilities at the current offsets, the residual p n - h has slope W = p (1 - p) n and
    variance v = W + the noise of n and h in it. At convergence, noise in the residual moves the
    offsets by the gain K W (W K W + v)^-1, with K the prior, or one of usual strength if noise
    chose a weaker one. Noise in the slope of a thin bin changes its offset by the same fraction.
    """
    rows, n_classes = np.maximum(counts.sum(axis=1), 0.0), counts.shape[1]
    hits = counts[:, 1:] if n_classes == 2 else counts

    def terms(offsets: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
        """(B, O) residual, slope, and noise of the residual, at these offsets."""
        p = probabilities(base + offsets)
        residual = p * counts.sum(axis=1, keepdims=True) - hits
        slope = np.maximum(p * (1.0 - p) * rows[:, None], 1e-6)
        return residual, slope, variance * ((1.0 - p) ** 2 + (n_classes - 1) * p**2)

    offsets, unit = np.zeros((len(rows), len(base))), families(len(rows), is_numeric)
    residual, slope, noise = terms(offsets)
    columns = zip(residual.T, slope.T, (noise + slope).T, strict=True)
    priors = [likeliest(*column, unit) for column in columns]
    mean = rows / max(float(rows.sum()), 1.0)
    for _ in range(NEWTON_STEPS):
        residual, slope, noise = terms(offsets)
        spread = noise + slope
        for o, prior in enumerate(priors):
            w, target = slope[:, o], slope[:, o] * offsets[:, o] - residual[:, o]
            step = np.linalg.solve(w[:, None] * prior * w + np.diag(spread[:, o]), target)
            newton_shift = DAMPING * (prior @ (w * step))
            offsets[:, o] = (1.0 - DAMPING) * offsets[:, o] + newton_shift
        offsets = np.clip(offsets, -LARGEST_LOG_ODDS, LARGEST_LOG_ODDS)
    deviations = [
        _deviations(np.stack([slope[:, o], noise[:, o], spread[:, o]]), prior, mean)
        for o, prior in enumerate(priors)
    ]
    offsets = canonical(offsets - mean @ offsets)
    thin = np.sqrt(n_classes * variance) / np.maximum(rows, np.sqrt(variance) + 1e-9)
    thin_bin_noise = np.abs(offsets) * np.minimum(thin, 1.0)[:, None]
    return offsets, canonical(np.hypot(np.stack(deviations, axis=1), thin_bin_noise))


def _deviations(noise_terms: FloatArray, prior: FloatArray, mean: FloatArray) -> FloatArray:
    """(B,) deviations by noise in the residual; `noise_terms` (3, B): slope, noise, spread."""
    w, noise, spread = noise_terms
    wide = prior * max(1.0, USUAL_STRENGTH**2 / prior[0, 0])
    gain = np.linalg.solve(w[:, None] * wide * w + np.diag(spread), w[:, None] * wide).T
    return np.asarray(np.sqrt((gain - mean @ gain) ** 2 @ noise))


def probabilities(scores: FloatArray) -> FloatArray:
    return sigmoid(scores) if scores.shape[1] == 1 else softmax(scores)


def correlations(n_bins: int, length: float) -> FloatArray:
    """Correlations of a numeric feature's bins; the last bin, `missing`, is independent."""
    n_numbers = n_bins - 1
    place = np.arange(n_numbers) / n_numbers
    near = np.exp(-np.abs(place[:, None] - place[None, :]) / length)
    out = np.eye(n_bins)
    out[:n_numbers, :n_numbers] = (1.0 - ROUGH) * near + ROUGH * np.eye(n_numbers)
    return out


def likeliest(
    residual: FloatArray,
    slope: FloatArray,
    spread: FloatArray,
    unit: FloatArray,
    candidates: Sequence[float] = STRENGTHS,
) -> FloatArray:
    """The covariance k^2 U, over strengths k and families U, with the largest likelihood.

    The residual is N(0, k^2 H U H + diag(spread)) with H = diag(slope).
    """
    strengths = np.array(candidates)
    signal = slope[:, None] * unit * slope  # (l, B, B)
    matrices = np.zeros((len(strengths), len(unit), *(len(residual) + 1,) * 2))
    matrices[..., :-1, :-1] = strengths[:, None, None, None] ** 2 * signal + np.diag(spread)
    matrices[..., -1, :-1] = residual  # the last row of the factor becomes the whitened residual
    matrices[..., -1, -1] = 2.0 * residual @ residual / spread.min() + 1.0  # positive definite
    lower = np.linalg.cholesky(matrices)  # (k, l, B + 1, B + 1)
    white = lower[..., -1, :-1]
    log_det = np.log(np.diagonal(lower, axis1=-2, axis2=-1)[..., :-1]).sum(axis=-1)
    pull = PULL * np.log(strengths / USUAL_STRENGTH) ** 2
    evidence = -0.5 * (white**2).sum(axis=-1) - log_det - pull[:, None]
    k, family = np.unravel_index(int(np.argmax(evidence)), evidence.shape)
    return np.asarray(strengths[k] ** 2 * unit[family])


# Private stacking: one weight per feature curve, by a few noisy Newton steps. Curves that were
# smoothed separately count shared evidence several times. A logistic regression on the curves'
# values, with only (features + 1) coefficients, corrects for that.


@dataclass(frozen=True)
class Stacking:
    """The weight of each curve, the shift of the base, and the noise of the weights."""

    weights: FloatArray
    shift: float
    deviations: FloatArray


def even_stacking(shapes: FeatureEffects) -> Stacking:
    """Equal starting weights, small enough for a stable sum of curves."""
    total, n = float(shapes.strengths.sum()) + 1e-6, len(shapes.features)
    weight = canonical(min(LARGEST_START, 1.0 / np.sqrt(total)))
    return Stacking(np.full(n, weight), 0.0, np.zeros(n))


def stack(
    shapes: FeatureEffects, grids: Grids, fraction: Fraction, is_constant_free: bool = False
) -> Flow[Stacking]:
    """Takes `ROUNDS` Newton steps of logistic regression, each one sum with its own bound.

    Curves count up to 1.5 times their mean square and the constant column a quarter of that in
    addition, so few records are scaled down to the radius. Proof: docs/proofs/losses.md. A step by
    G removes the part G H of earlier noise and adds its own. With a weak signal the constant stays
    within the bounds of the weights, because noise would move it (boosting.md#0161).
    """
    start = first_step(shapes, grids)
    weights = np.array(start.weights)
    noise = np.zeros((len(weights), len(weights)))  # covariance
    for _ in range(ROUNDS):
        statistic = replace(start, weights=tuple(weights.tolist()))
        answer = yield from ask(SumQuery(EVERYONE, statistic, Whole(), fraction / ROUNDS))
        step, contraction, own = newton_step(statistic, answer)
        weights = canonical(weights - step)
        places = slice(None, -1) if is_constant_free else slice(None)
        weights[places] = np.clip(weights[places], LEAST_WEIGHT, MOST_WEIGHT)
        noise = contraction @ noise @ contraction.T + own
    spread = np.sqrt(np.maximum(np.diagonal(noise), 0.0))
    return Stacking(weights[:-1], float(weights[-1] * start.constant), canonical(spread[:-1]))


def size_of_step(scale: Scale, shared_bytes: int) -> Size:
    """One Newton step, at a model of some bytes."""
    dimension = scale.columns + 1
    channels = dimension * (dimension + 3) // 2
    return Size.of_step(integers=channels, bytes=QUERY + NUMBER * dimension + shared_bytes)


def first_step(shapes: FeatureEffects, grids: Grids, loss: Loss | None = None) -> CurveNewton:
    """The statistic of the first step, with equal weights; bounds as in `stack`."""
    total = float(shapes.strengths.sum()) + 1e-6
    constant, radius = canonical([0.5 * np.sqrt(1.5 * total), np.sqrt(1.25 * 1.5 * total)])
    curves = shapes.curves(grids, np.ones(len(shapes.features)))
    weights = (*even_stacking(shapes).weights.tolist(), 0.0)
    return CurveNewton(
        curves, float(constant), float(radius), weights, float(shapes.base[0]), loss or LogLoss()
    )


def newton_step(
    statistic: CurveNewton, answer: Answer
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """One Wiener-filtered Newton step: directions below the noise hardly move.

    Also returns (d, d) the remaining part of an earlier error, and the covariance of its noise.
    """
    gradient, values, vectors = newton_sums(statistic, answer)
    noise = statistic.radius * np.sqrt(answer.variance)
    gain = values / np.maximum(values**2 + (noise / STEP_DEVIATION) ** 2, 1e-12)
    step = vectors @ (gain * (vectors.T @ gradient))
    short = min(1.0, LARGEST_STEP / max(float(np.abs(step).max()), 1e-9))
    contraction = (vectors * (1.0 - short * gain * values)) @ vectors.T
    own = (vectors * (short * gain * noise) ** 2) @ vectors.T
    return np.asarray(short * step), np.asarray(contraction), np.asarray(own)


def newton_sums(
    statistic: CurveNewton, answer: Answer
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """The gradient (d,), and the Hessian's eigenvalues (clipped at 0) and eigenvectors."""
    d, radius = statistic.dimension, statistic.radius
    sums = answer.values[0, 0]
    hessian = np.zeros((d, d))
    hessian[np.triu_indices(d)] = sums[d:] * radius**2 / statistic.loss.hessian_scale
    hessian += np.triu(hessian, 1).T
    values, vectors = np.linalg.eigh(hessian)
    return radius * sums[:d], np.maximum(values, 0.0), np.asarray(vectors)
