"""The mean of a number put right at the end: what the clip of its target has cut away.

Trees for a number sum a target that is clipped to where most of it was seen. A tail that noise hid
lies outside, and then every leaf is too low. One sum of what the model misses, over a range
several times as wide as the clip, tells by how much; all leaves move by that, less what its noise
alone would move them (James and Stein 1961).
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from hedgerow.learning.flow import Flow, Quote, ask
from hedgerow.learning.target_range import TargetShape
from hedgerow.queries import Gradients, SumQuery, Whole, sums
from hedgerow.values.losses import SquaredLoss
from hedgerow.values.models import Additive
from hedgerow.values.regions import EVERYONE
from hedgerow.values.schema import Target

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
