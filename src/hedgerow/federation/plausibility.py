"""Whether opened sums can be what honest sites send: one false positive in 2^40 runs.

A coordinator sees sums alone, so this is all that it can check. Counts are not negative, no cell
and no total is above what all records together add, and the groups of one query, each of which
holds every record once, have one total; each but for noise. How far noise goes is bounded by its
own law (Chernoff 1952), at a probability of which all tests of a run together use 2^-40.

They catch accidents, garbage and inflation. They do not catch a clever liar: a site that sends
plausible counts of records it does not have, or of turned labels, can still choose the model.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from hedgerow.errors import HedgerowError
from hedgerow.privacy.accounting.budget import DPModel
from hedgerow.privacy.mechanisms.mechanisms import (
    DiscreteGaussian,
    DiscreteLaplace,
    NoiseLaw,
    NoNoise,
)
from hedgerow.privacy.pricing import Noise
from hedgerow.privacy.queries import LabelReports, SumQuery
from hedgerow.privacy.study import Study

FALSE_POSITIVE_RATE = 2.0**-40
"""Of all tests of a run together."""
CLEVER = "a site that lies cleverly can still choose the model"


class Implausible(HedgerowError):
    """Sums that honest sites do not send."""

    def __init__(self, findings: Sequence[str]) -> None:
        super().__init__(
            f"{'; '.join(findings)}. Honest sites send this in one run of 2^40: a site's rows or "
            "its software are wrong, or it lies. The charge stays. Find out whose they are; "
            "`hedgerow study resume --anyway` goes on, and the statement says what was seen."
        )


@dataclass
class Plausibility:
    """The checks of one run. `rows` is a public bound on the records of all sites together."""

    study: Study
    rows: int | None = None
    goes_on: bool = False
    findings: list[str] = field(default_factory=list)
    tests: int = 0

    def check(self, number: int, sums: Sequence[tuple[Noise, NDArray[np.int64]]], n: int) -> None:
        """The sums of one round over `n` sites; raises unless the run goes on anyway.

        Round r may use 1 / (r (r + 1)) of the run's rate: all rounds together use it up.
        """
        if self.study.dp_model is DPModel.LABEL or not sums:
            return
        tests = 4 * sum(values.size for _, values in sums)
        alarm = FALSE_POSITIVE_RATE / (number * (number + 1) * tests)
        new = [
            f"round {number}: {words}"
            for noise, values in sums
            for words in self._problems(noise, values, n, alarm)
        ]
        self.tests += tests
        self.findings += new
        if new and not self.goes_on:
            raise Implausible(new)

    @property
    def words(self) -> str:
        """For the statement."""
        findings = "; ".join(self.findings) or "no sum is beyond what honest sites send"
        return f"{findings}; {CLEVER}"

    def _problems(
        self, noise: Noise, values: NDArray[np.int64], n: int, alarm: float
    ) -> Iterator[str]:
        query = noise.query
        if not isinstance(query, SumQuery) or isinstance(query.statistic, LabelReports):
            return
        cells = values.reshape(query.shape).astype(np.float64)
        reach = noise_reach(noise.of_site, n, alarm)
        largest = query.statistic.bound(noise.unit).linf * noise.refinement
        if self.rows is not None and np.abs(cells).max() > self.rows * largest + reach:
            yield f"a cell is larger than {self.rows} records make it"
        if query.statistic.is_fractional:
            return
        if cells.min() < -reach:
            yield "a count is negative beyond its noise"
        group_totals = cells.sum(axis=(1, 2))
        of_total = noise_reach(noise.of_site, n * cells[0].size, alarm)
        if self.rows is not None and group_totals.max() > self.rows * largest + of_total:
            yield f"a table counts more than {self.rows} records"
        if len(group_totals) > 1:
            apart = noise_reach(noise.of_site, 2 * n * cells[0].size, alarm)
            if group_totals.max() - group_totals.min() > apart:
                yield "tables of the same records have different totals"


def noise_reach(law: NoiseLaw, summands: int, alarm: float) -> float:
    """What a sum of so many independent draws exceeds with a probability of at most `alarm`.

    In the law's own units; by symmetry the same below zero.
    """
    bits = -math.log(alarm)
    match law:
        case NoNoise():
            return 0.0
        case DiscreteGaussian():  # sub-Gaussian (Canonne, Kamath and Steinke 2020)
            return math.sqrt(2.0 * float(law.sigma2) * summands * bits)
    rate = float(law.rate)
    weight = summands if isinstance(law, DiscreteLaplace) else summands / law.shares
    slopes = [rate * k / 256 for k in range(1, 256)]
    return min((weight * _cumulant(rate, slope) + bits) / slope for slope in slopes)


def _cumulant(rate: float, slope: float) -> float:
    """Log E exp(slope X) of X discrete Laplace; shares of it have their part of this."""
    outer = 2.0 * math.log(-math.expm1(-rate))
    return outer - math.log(-math.expm1(slope - rate)) - math.log(-math.expm1(-slope - rate))
