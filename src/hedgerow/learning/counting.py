"""How many records there are, as far as noise lets it be known.

Recipes count the records first, with a share so small that good data never miss it. Where that
count does not stand out of its own noise, luck would decide what is trained: then it is asked once
more, with a larger share, and both are read together.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from hedgerow.learning.choosing.tables import inverse_variance
from hedgerow.learning.flow import Flow, ask
from hedgerow.queries import Answer, Count, SumQuery, Whole
from hedgerow.values.regions import EVERYONE

COUNT_IS_SEEN = 3.0  # deviations of its noise that a number of records must reach
AGAIN_SHARE = Fraction(1, 20)


@dataclass(frozen=True)
class RecordCount:
    """A noisy number of records, the deviation of its noise, and what it cost."""

    number: float
    deviation: float
    spent: Fraction

    @staticmethod
    def told(answer: Answer, share: Fraction) -> RecordCount:
        return RecordCount(float(answer.values.sum()), float(np.sqrt(answer.variance)), share)

    @property
    def is_seen(self) -> bool:
        """Whether the number stands out of its noise. If not, there may be none at all."""
        return self.number >= COUNT_IS_SEEN * self.deviation

    @property
    def positive(self) -> float:
        """The number for a division."""
        return max(self.number, 1.0)

    @property
    def at_most(self) -> float:
        return max(self.number, 0.0) + COUNT_IS_SEEN * self.deviation


def count_query(share: Fraction) -> SumQuery:
    return SumQuery(EVERYONE, Count(), Whole(), share)


def surely(first: RecordCount) -> Flow[RecordCount]:
    """As it is if it was seen; else with a second count, the less noisy the more believed."""
    if first.is_seen:
        return first
    second = RecordCount.told((yield from ask(count_query(AGAIN_SHARE))), AGAIN_SHARE)
    number, variance = inverse_variance(
        [(np.array([one.number]), one.deviation**2) for one in (first, second)]
    )
    return RecordCount(float(number[0]), float(np.sqrt(variance)), first.spent + second.spent)
