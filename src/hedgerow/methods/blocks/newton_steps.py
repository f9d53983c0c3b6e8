"""Leaf values and split gains of boosted trees, both from the same noisy sums.

Maddock et al. 2022, section 4.4: averaging, gradient and Newton updates; the fourth is ours.
A batch adds the mean of its raw weights. `PublishedSteps` and `PublishedAverages` are the paper's.
`Steps`, ours, asks for (g, c h) with the largest c that the norm allows, which lowers Hessian noise
for free, and shrinks leaves by that noise.

Shapes: L leaves, C channels, O outputs. Sums are in natural units of the statistic.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from hedgerow.errors import ParameterError
from hedgerow.methods.blocks.scores import TINY
from hedgerow.methods.constants import constant
from hedgerow.models.losses import FirstOrder, LogLoss, Loss, OddsLoss, SoftmaxLoss, SquaredLoss
from hedgerow.models.model import Additive
from hedgerow.models.uncertainty import of_proportions
from hedgerow.privacy.queries import ClassCounts, Fractions, Gradients, Statistic
from hedgerow.schema.arrays import FloatArray

DOUBT = constant(2.0, unit="Hessian", evidence="boosting.md#0031")
"""Hessian by which a leaf is shrunk, per deviation of a gradient's noise."""

DEVIATION = constant(0.15, unit="expected deviation of leaf values from zero")
MANY_CLASSES = constant(4, unit="classes", evidence="classes.md#0118")
"""Number of classes from which log-odds reach further."""

NoiseVariance = FloatArray | float
"""Variance of each channel: one for all sums, or one per sum."""


class Update(ABC):
    """What a boosted tree asks of its records, and what it makes of the noisy sums."""

    @abstractmethod
    def statistic(self, at: Additive) -> Statistic:
        """The statistic of a record at the model `at`."""

    @abstractmethod
    def score(self, sums: FloatArray, variance: NoiseVariance) -> FloatArray:
        """(..., C) -> (...) the fit of the best leaf value; half of its increase is the gain."""

    @abstractmethod
    def weight(self, sums: FloatArray) -> FloatArray:
        """(..., C) -> (...) total Hessian, or number of records."""

    @property
    @abstractmethod
    def weight_noise(self) -> float:
        """Standard deviation of `weight` per standard deviation of a channel."""

    @abstractmethod
    def values(self, sums: FloatArray, variance: NoiseVariance) -> FloatArray:
        """(L, C) -> (L, O) the values of all leaves of a tree, before `rate`.

        `variance` is that of the noise as it enters the model: a batch adds a mean, so its trees'
        noise partly averages out.
        """

    @abstractmethod
    def deviations(
        self, sums: FloatArray, left: NoiseVariance, variance: NoiseVariance
    ) -> FloatArray:
        """(L, O) the noise in `values(sums, left)`, where `variance` is that of the sums."""

    def rate(self, trees_per_round: int) -> float:
        """The weight of a tree in the model if `trees_per_round` trees used the same gradients."""
        return 1.0


@dataclass(frozen=True)
class Averages(Update):
    """Leaves hold class proportions, or the mean of a target.

    Counts of disjoint classes have norm 1, not sqrt 2, and so have complementary fractions.
    """

    counts: ClassCounts | Fractions

    def statistic(self, at: Additive) -> Statistic:
        return self.counts

    def score(self, sums: FloatArray, variance: NoiseVariance) -> FloatArray:
        c = np.maximum(sums, 0.0)
        return np.asarray((c**2).sum(axis=-1) / np.maximum(c.sum(axis=-1), TINY))

    def weight(self, sums: FloatArray) -> FloatArray:
        return np.asarray(sums.sum(axis=-1))

    @property
    def weight_noise(self) -> float:
        return float(np.sqrt(self.counts.channels))

    def values(self, sums: FloatArray, variance: NoiseVariance) -> FloatArray:
        p = _proportions(sums)
        if isinstance(self.counts, ClassCounts):
            return p
        return self.counts.low + (self.counts.high - self.counts.low) * p[:, 1:]

    def deviations(
        self, sums: FloatArray, left: NoiseVariance, variance: NoiseVariance
    ) -> FloatArray:
        rows = np.maximum(sums, 0.0).sum(axis=-1, keepdims=True)
        noise = of_proportions(_proportions(sums), rows, np.reshape(variance, (-1, 1)))
        if isinstance(self.counts, ClassCounts):
            return noise
        return (self.counts.high - self.counts.low) * noise[:, 1:]


@dataclass(frozen=True)
class PublishedAverages(Update):
    """Section 4.4.1: with the pair (u, 1) per record, of norm sqrt 2, a leaf holds the ratio of
    sums.

    u is 1 for the second of two classes, or the target's position between `low` and `high`. The
    pair is asked as gradient -u and Hessian 1 of `loss` at `origin`. A leaf whose noisy count is
    not above 0 holds one half; splits are scored by equation (5).
    """

    loss: FirstOrder | SquaredLoss
    origin: Additive
    clip: float
    ridge: float = 1.0

    def statistic(self, at: Additive) -> Statistic:
        return Gradients(self.loss, self.origin)

    def score(self, sums: FloatArray, variance: NoiseVariance) -> FloatArray:
        return _published_score(sums[..., 0], sums[..., 1], self.ridge, self.clip)

    def weight(self, sums: FloatArray) -> FloatArray:
        return np.asarray(sums[..., 1])

    @property
    def weight_noise(self) -> float:
        return 1.0

    def _ratios(self, sums: FloatArray) -> FloatArray:
        positive, records = np.maximum(-sums[..., 0], 0.0), sums[..., 1]
        ratios = np.minimum(positive / np.maximum(records, TINY), 1.0)
        return np.asarray(np.where(records > 0.0, ratios, 0.5))

    def values(self, sums: FloatArray, variance: NoiseVariance) -> FloatArray:
        ratios = self._ratios(sums)
        if isinstance(self.loss, SquaredLoss):
            return (self.loss.low + (self.loss.high - self.loss.low) * ratios)[:, None]
        return np.stack([1.0 - ratios, ratios], axis=1)

    def deviations(
        self, sums: FloatArray, left: NoiseVariance, variance: NoiseVariance
    ) -> FloatArray:
        is_number = isinstance(self.loss, SquaredLoss)
        ratios, records = self._ratios(sums), np.maximum(sums[..., 1], 1.0)
        of_ratio = np.sqrt(variance) * np.hypot(1.0, ratios) / records
        spread = np.minimum(of_ratio, 0.5) * self.loss.gradient_scale
        return np.tile(spread[:, None], (1, 1 if is_number else 2))


def _published_score(g: FloatArray, h: FloatArray, ridge: float, clip: float) -> FloatArray:
    """Equation (5) with the clipped step, as in the released program; noise may make h negative.

    With unclipped steps a side of hardly a record, whose h is small by noise, would have the best
    score of all (studies/notes/boosting.md#0142).
    """
    whole = np.where(np.abs(h + ridge) > TINY, h + ridge, TINY)
    steps = np.clip(-g / whole, -clip, clip)
    return np.asarray(-(2.0 * g * steps + whole * steps**2))


def _proportions(sums: FloatArray) -> FloatArray:
    """Proportions; an empty leaf is uniform."""
    c = np.maximum(sums, 0.0)
    n = c.sum(axis=-1, keepdims=True)
    return np.asarray(np.where(n > 0, c / np.maximum(n, TINY), 1.0 / c.shape[-1]))


def gradients_and_hessians(loss: Loss, sums: FloatArray) -> tuple[FloatArray, FloatArray]:
    """(..., O) each, in the loss's own units; Hessians are clipped at 0."""
    g = loss.gradient_scale * sums[..., : loss.outputs]
    h = np.maximum(sums[..., loss.outputs :], 0.0) / loss.hessian_scale
    return g, np.broadcast_to(h, g.shape)


def sampling_variance(loss: Loss, h: FloatArray) -> FloatArray:
    """The sampling variance of a gradient sum.

    For a log-loss at a well-fitting model it is the Hessian itself (the information equality).
    Other losses would need the variance of the residuals, which these sums do not contain.
    """
    return h if isinstance(loss, LogLoss | SoftmaxLoss | OddsLoss) else np.zeros_like(h)


def _noise_of_step(loss: Loss, steps: FloatArray, variance: NoiseVariance) -> FloatArray:
    """(L, O) deviation of G + H step: the effect of noise in both sums at this step."""
    noise_deviation = np.sqrt(np.reshape(np.asarray(variance, np.float64), (-1, 1)))
    return np.asarray(noise_deviation * np.hypot(loss.gradient_scale, steps / loss.hessian_scale))


@dataclass(frozen=True)
class OfLoss(Update):
    """Leaf values by the gradients and Hessians of a loss."""

    loss: Loss

    def statistic(self, at: Additive) -> Statistic:
        return Gradients(self.loss, at)

    def weight(self, sums: FloatArray) -> FloatArray:
        loss = self.loss
        return np.asarray(sums[..., loss.outputs :].sum(axis=-1) / loss.hessian_scale)

    @property
    def weight_noise(self) -> float:
        return float(np.sqrt(self.loss.channels - self.loss.outputs)) / self.loss.hessian_scale


@dataclass(frozen=True)
class Steps(OfLoss):
    """-G / (H + ridge), clipped: a Newton step, or a gradient step if the loss has h = 1.

    With few records G is mostly noise. The paper's noisier Hessian shrank such leaves by accident.
    Here a leaf is shrunk towards the step of its whole tree, with the weight of twice as many
    records as G's noise has deviations. (Shrunk towards zero, a thin leaf would predict even
    classes, however rare one of them is.)
    """

    learning_rate: float = 0.3
    clip: float = 2.0
    ridge: float = 1.0

    def score(self, sums: FloatArray, variance: NoiseVariance) -> FloatArray:
        g, h = gradients_and_hessians(self.loss, sums)
        return np.asarray((g**2 / (h + self.ridge + self._doubt(variance) + TINY)).sum(axis=-1))

    def values(self, sums: FloatArray, variance: NoiseVariance) -> FloatArray:
        noise = np.broadcast_to(np.asarray(variance, np.float64), len(sums))
        whole = self._shrunk_steps(sums.sum(axis=0, keepdims=True), noise.sum(keepdims=True), 0.0)
        return self._shrunk_steps(sums, noise, whole)

    def _shrunk_steps(
        self, sums: FloatArray, noise: NoiseVariance, towards: FloatArray | float
    ) -> FloatArray:
        g, h = gradients_and_hessians(self.loss, sums)
        doubt = self._doubt(noise)
        steps = (doubt * towards - g) / (h + self.ridge + doubt + TINY)
        return np.clip(steps, -self.clip, self.clip)

    def deviations(
        self, sums: FloatArray, left: NoiseVariance, variance: NoiseVariance
    ) -> FloatArray:
        """Uses the noise of its own sums; that of the whole tree's step is much smaller."""
        _, h = gradients_and_hessians(self.loss, sums)
        doubt = self._doubt(np.broadcast_to(np.asarray(left, np.float64), len(sums)))
        step_noise = _noise_of_step(self.loss, self.values(sums, left), variance)
        return np.asarray(step_noise / (h + self.ridge + doubt + TINY))

    def _doubt(self, variance: NoiseVariance) -> FloatArray:
        deviation = self.loss.gradient_scale * np.sqrt(np.asarray(variance, np.float64))
        return np.asarray(DOUBT * deviation[..., None])

    def rate(self, trees_per_round: int) -> float:
        return self.learning_rate / trees_per_round


@dataclass(frozen=True)
class PublishedSteps(Steps):
    """Equations (3) to (5) of the paper: -G / (H + ridge), clipped; 0 where noise makes H <= 0.

    The paper ignores noise in weights, and in leaves.
    """

    def score(self, sums: FloatArray, variance: NoiseVariance) -> FloatArray:
        g = self.loss.gradient_scale * sums[..., : self.loss.outputs]
        h = sums[..., self.loss.outputs :] / self.loss.hessian_scale
        return np.asarray(_published_score(g, h, self.ridge, self.clip).sum(axis=-1))

    @property
    def weight_noise(self) -> float:
        return 0.0

    def values(self, sums: FloatArray, variance: NoiseVariance) -> FloatArray:
        g, h = gradients_and_hessians(self.loss, sums)
        steps = np.where(h > 0.0, -g / (h + self.ridge + TINY), 0.0)
        return np.clip(steps, -self.clip, self.clip)

    def _doubt(self, variance: NoiseVariance) -> FloatArray:
        return np.zeros((*np.shape(variance), 1))


@dataclass(frozen=True)
class Wiener(OfLoss):
    """Posterior means of leaf values, given sums with noise of known variance.

    For complete oblivious trees: two leaves that differ in j of the tests have prior covariance
    deviation^2 * alike^j. Shrinkage follows the noise and the records' own scatter, so there is no
    learning rate. Without the scatter each tree would take a full step once the noise is small.
    """

    deviation: float = DEVIATION
    alike: float = 0.5
    clip: float = 2.0
    overlap: float = 1.0
    """Trees of one round are weighted by (number of trees)^-overlap; 1 is their mean."""

    def score(self, sums: FloatArray, variance: NoiseVariance) -> FloatArray:
        g, h = gradients_and_hessians(self.loss, sums)
        return np.asarray((g**2 / (h + TINY)).sum(axis=-1))

    def values(self, sums: FloatArray, variance: NoiseVariance) -> FloatArray:
        g, h = gradients_and_hessians(self.loss, sums)
        return self._means(g, self._gains(h, variance))

    def deviations(
        self, sums: FloatArray, left: NoiseVariance, variance: NoiseVariance
    ) -> FloatArray:
        """Includes Hessian noise through the step; its effect on the gain is neglected."""
        g, h = gradients_and_hessians(self.loss, sums)
        gains = self._gains(h, left)
        mean_noise = _noise_of_step(self.loss, self._means(g, gains), variance)
        gains_and_noise = zip(gains, mean_noise.T, strict=True)
        return np.stack([np.sqrt(gain**2 @ mine**2) for gain, mine in gains_and_noise], axis=1)

    def _means(self, g: FloatArray, gains: list[FloatArray]) -> FloatArray:
        means = np.stack([-gain @ mine for gain, mine in zip(gains, g.T, strict=True)], axis=1)
        return np.asarray(np.clip(means, -self.clip, self.clip))

    def _gains(self, h: FloatArray, variance: NoiseVariance) -> list[FloatArray]:
        """(L, L) per output: the posterior means are minus these times the gradients."""
        prior = self.deviation**2 * _alike(len(h), self.alike)
        noise = np.broadcast_to(variance * self.loss.gradient_scale**2 + TINY, len(h))
        spread = noise[:, None] + sampling_variance(self.loss, h)
        return [
            np.linalg.solve(w[:, None] * prior * w + np.diag(v), w[:, None] * prior).T
            for w, v in zip(h.T, spread.T, strict=True)
        ]

    def rate(self, trees_per_round: int) -> float:
        return 1.0 / float(trees_per_round**self.overlap)


@lru_cache(maxsize=16)
def _alike(n_leaves: int, alike: float) -> FloatArray:
    """(L, L) alike ** (number of tests in which two leaves differ)."""
    if n_leaves & (n_leaves - 1):
        raise ParameterError(
            f"a tree has {n_leaves} leaves; Wiener leaves need complete oblivious trees "
            "(split='oblivious')."
        )
    out = np.ones((1, 1))
    while len(out) < n_leaves:
        out = np.kron(out, np.array([[1.0, alike], [alike, 1.0]]))
    out.flags.writeable = False
    return out
