"""Where trees alone mislead: a fallback to class shares or the mean, and the bias of clipping.

A model from tables that are all noise predicts worse than no model. Below the signal at which a
method beats the class shares or the mean, it returns these.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from hedgerow.methods.blocks.flow import Flow, NoiseModel, ask
from hedgerow.methods.blocks.target import (
    COUNT_IS_SEEN,
    InitialRound,
    RecordCount,
    TargetShape,
    TrainingTarget,
    locate_target,
)
from hedgerow.methods.constants import constant
from hedgerow.methods.method import TrainingResult, mean_of
from hedgerow.models.losses import SquaredLoss
from hedgerow.models.model import Additive
from hedgerow.models.tree import Tree
from hedgerow.models.uncertainty import LeafStatistics
from hedgerow.privacy.queries import Gradients, SumQuery, Whole, sums
from hedgerow.schema.arrays import FloatArray
from hedgerow.schema.regions import EVERYONE
from hedgerow.schema.schema import Schema, Target

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
FALLBACK_BELOW = constant(2.0, unit="signal", evidence="gates.md#0036")
"""Signal below which even totally random trees predict worse than the class shares."""
FALLBACK_BELOW_FOR_NUMBERS = constant(10.0, unit="signal", evidence="gates.md#0036")
"""Signal below which any tree predicts worse than the mean."""
FALLBACK_BELOW_FOR_ONE_SUM = constant(
    8.0, unit="rows per Gaussian noise of one sum", evidence="gates.md#0156"
)
"""Rows per Gaussian noise deviation of one sum, below which only class shares are released."""
FALLBACK_BELOW_IF_PURE = constant(
    40.0, unit="rows per Laplace noise of one sum", evidence="gates.md#0155"
)
"""Rows per Laplace noise deviation of one sum, below which only class shares are released."""
PRECISE = constant(0.01, unit="part of the records", evidence="gates.md#0036")
"""Noise of a share, relative to the records, below which more budget is useless."""
LEAST_KEPT = constant(0.1, unit="part", evidence="gates.md#0138")
"""Fraction of a difference that is always kept, so that the likelier class stays named."""
EVEN_UNTIL = constant(2.0, unit="deviations", evidence="gates.md#0138")
"""Deviations of noise by which shares must differ from uniform ones."""
MEAN_RANGE_FRACTION = constant(Fraction(1, 2), unit="part", evidence="gates.md#0138")
"""Fraction of the remaining budget for the target's range, if no cell has exceeded its noise."""
MEAN_UNSEEN = constant(0.5, unit="part of the rows", evidence="gates.md#0138")
"""Fraction of rows that may remain unseen there: a mean needs most of them."""


def needs_fallback(first_round: InitialRound, noise_model: NoiseModel) -> bool:
    """Whether trees would predict worse than the class shares or the mean, or this is unknown.

    A target that is below the noise everywhere may lie in a small part of its public range.
    """
    if not (first_round.records.is_seen and first_round.target.is_seen):
        return True
    if first_round.target.shape is not None:
        return first_round.signal < FALLBACK_BELOW_FOR_NUMBERS
    if noise_model.is_pure:
        return first_round.sure < FALLBACK_BELOW_IF_PURE
    return first_round.signal < FALLBACK_BELOW or first_round.sure < FALLBACK_BELOW_FOR_ONE_SUM


def bias_correction_of(
    first_round: InitialRound, schema: Schema, noise_model: NoiseModel
) -> BiasCorrection | None:
    """The bias correction of a regression; None for classes."""
    shape = first_round.target.shape
    if schema.target is None or shape is None:
        return None
    return BiasCorrection.of(schema.target, shape, first_round.rows, noise_model)


def shares_or_mean(
    first_round: InitialRound, schema: Schema, noise_model: NoiseModel
) -> Flow[TrainingResult]:
    """A tree of one leaf with the class shares; or the mean, after a last query for its range.

    Spends only what makes a class share precise to a hundredth, at most the remaining budget. A
    mean over a public range a hundred times too wide has a hundred times the noise. So if no cell
    of the target exceeded its noise, half of the remaining budget is spent to find one that does.
    """
    target, records, rest = first_round.target, first_round.records, 1 - first_round.spent
    if schema.target is not None and not target.is_seen:
        fraction = MEAN_RANGE_FRACTION * rest
        target = yield from locate_target(
            schema.target, records, fraction, noise_model, MEAN_UNSEEN
        )
        rest -= fraction
    fraction = _enough(target, records, rest, noise_model)
    answer = yield from ask(SumQuery(EVERYONE, target.statistic, Whole(), fraction))
    masses = answer.values[0, 0]
    least = LEAST_KEPT if target.shape is None else 0.0  # a mean has no likelier class
    leaf = target.leaf(shrink_shares(masses, answer.variance, least), masses, answer.variance)
    tree = Tree.build(schema.names, {EVERYONE: tuple(leaf.value.tolist())})
    statistics = (LeafStatistics(tree, (leaf,)),)
    return TrainingResult(mean_of([tree]), statistics, _words(target, records))


def _enough(
    target: TrainingTarget, records: RecordCount, rest: Fraction, noise_model: NoiseModel
) -> Fraction:
    """The fraction at which a count's deviation is `PRECISE` of the records; all if below the
    noise.

    The variance falls with the fraction for Gaussian noise, with its square for Laplace noise.
    """
    if not records.is_seen:
        return rest
    at_rest = noise_model.variance(SumQuery(EVERYONE, target.statistic, Whole(), rest))
    part = float(np.clip(at_rest / max((PRECISE * records.number) ** 2, 1.0), 1e-6, 1.0))
    part = part**0.5 if noise_model.is_pure else part
    return rest * Fraction(int(np.ceil(1000.0 * part)), 1000)


def shrink_shares(masses: FloatArray, variance: float, least_kept: float) -> FloatArray:
    """(C,) class shares, shrunk towards uniform ones by their noise (James and Stein 1961).

    `least_kept` is the fraction of the difference that is always kept. For regression the shares
    are (1 - u, u), and uniform ones are the middle of the range. The total is at least one that
    exceeds its noise, so that no share is a ratio of two noises. A class has at least one record.
    """
    n = len(masses)
    total = max(float(masses.sum()), COUNT_IS_SEEN * float(np.sqrt(n * variance)), float(n))
    away = masses - masses.mean()
    noise = EVEN_UNTIL**2 * (n - 1) * variance / n
    differ = float((away**2).mean())
    kept_part = max(1.0 - noise / differ, least_kept) if differ > 0.0 else 0.0
    shares = np.maximum(1.0 / n + kept_part * away / total, 1.0 / total)
    return np.asarray(shares / shares.sum())


def _words(target: TrainingTarget, records: RecordCount) -> str:
    constant_name = (
        "the mean of the target" if target.shape is not None else "the shares of the classes"
    )
    count_words = f"About {records.number:.0f} records were counted, with noise"
    at_most = max(records.number, 0.0) + COUNT_IS_SEEN * records.deviation
    hidden = f"Their number is below the noise, between 0 and about {at_most:.0f}"
    return (
        f"too few records for this epsilon: the model is {constant_name} and "
        f"uses no column. {count_words if records.is_seen else hidden}; ask with a larger "
        "epsilon, more records or fewer columns."
    )


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
