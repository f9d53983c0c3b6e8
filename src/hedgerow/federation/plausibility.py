"""Plausibility checks of opened sums, with at most one false positive in 2^40 runs.

A coordinator sees only sums, so it checks sums. Apart from noise, counts are not negative, no cell
and no total exceeds what the records of its region can add, all tables of one region have the same
total, in whatever round they were asked, and the parts of a region add up to it. The noise is
bounded by a Chernoff bound of its law; all bounds of a run together fail once in 2^40 runs.

They catch accidents, garbage and inflation. They do not catch a clever liar: a site that sends
plausible counts of records it does not have, or of turned labels, can still choose the model.
A study can pay for more (`Influence`): sums without one site at a time show the part of each.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import lru_cache
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from hedgerow.errors import HedgerowError, ParameterError
from hedgerow.privacy.accounting.budget import DPModel
from hedgerow.privacy.mechanisms.mechanisms import (
    DiscreteGaussian,
    DiscreteLaplace,
    NoiseLaw,
    NoNoise,
    PolyaDifference,
)
from hedgerow.privacy.pricing import Noise
from hedgerow.privacy.queries import LabelReports, Query, Sides, SumQuery
from hedgerow.privacy.study import Study
from hedgerow.schema.arrays import FloatArray
from hedgerow.schema.regions import Region, Step

FALSE_POSITIVE_RATE = 2.0**-40
"""The rate of all tests of a run together."""
FALSE_NEGATIVE_PARTS = 2.0**-20
"""The largest probability that a part is called negative in a run of honest sites."""
SLOPES: NDArray[np.float64] = np.geomspace(0.01, 0.49, 24)
"""Slopes at which exponential moments are evaluated, per deviation of the noise."""
AnyQuery = TypeVar("AnyQuery", bound=Query)
QuerySum = tuple[Noise, NDArray[np.int64], tuple[int, ...]]
"""Noise and opened integers of one query, and the sites in the sum."""
Bounds = tuple[float, float]
UNKNOWN: Bounds = (0.0, math.inf)
CLEVER = "a site that lies cleverly can still choose the model"


class Implausible(HedgerowError):
    """Raised for sums that honest sites would not send."""

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
    _counts: dict[tuple[tuple[int, ...], Region], Bounds] = field(default_factory=dict)
    """By sites and region, bounds on the number of records."""

    def check(self, number: int, sums: Sequence[QuerySum]) -> None:
        """Checks the sums of one round; raises for an implausible one unless `goes_on`.

        Round r may use 1 / (r (r + 1)) of the run's rate: all rounds together use it up.
        """
        if self.study.dp_model is DPModel.LABEL or not sums:
            return
        tests = 4 * sum(values.size for _, values, _ in sums)
        alarm = FALSE_POSITIVE_RATE / (number * (number + 1) * tests)
        new = [
            f"round {number}: {words}"
            for noise, values, members in sums
            for words in self._problems(noise, values, members, alarm)
        ]
        self.findings += new
        if new and not self.goes_on:
            raise Implausible(new)

    @property
    def words(self) -> str:
        """The line of the statement."""
        findings = "; ".join(self.findings) or "no sum is beyond what honest sites send"
        return f"{findings}; {CLEVER}"

    def _problems(
        self, noise: Noise, values: NDArray[np.int64], members: tuple[int, ...], alarm: float
    ) -> Iterator[str]:
        """What contradicts the bounds of each cell, and of each channel or table of a group."""
        query = noise.query
        if not isinstance(query, SumQuery) or isinstance(query.statistic, LabelReports):
            return
        cells = values.reshape(query.shape).astype(np.float64)
        is_count = not query.statistic.is_fractional
        totals = cells.sum(axis=(1, 2) if is_count else 1)
        summands = len(members) * cells[0].size // totals[0].size
        reach, of_total = (noise_reach(noise.of_site, n, alarm) for n in (len(members), summands))
        largest = query.statistic.bound(noise.unit).linf * noise.refinement
        records = self._most_records(members, query.region)
        if np.abs(cells).max() > records * largest + reach:
            yield f"a cell is larger than {records} records make it"
        if np.abs(totals).max() > records * largest + of_total:
            yield f"a table adds up to more than {records} records make it"
        if is_count:
            low, high = totals.max() - of_total, totals.min() + of_total
            if cells.min() < -reach or high < 0.0:
                yield "a count is negative beyond its noise"
            elif not isinstance(
                query.by, Sides
            ):  # a record may have left the tree, or not be split
                bounds = float(low / largest), float(high / largest)
                yield from self._count(members, query.region, bounds)

    def _count(self, members: tuple[int, ...], region: Region, bounds: Bounds) -> Iterator[str]:
        """Narrows the bounds of a region's records, and compares them with all its parts."""
        before = self._counts.get((members, region), UNKNOWN)
        low, high = max(bounds[0], before[0]), min(bounds[1], before[1])
        if low > high:
            yield "tables of the same records have different totals"
            return
        self._counts[members, region] = low, high
        if region:
            above, test = region[:-1], region[-1].test
            parts = [(members, (*above, Step(test, k))) for k in range(test.outcomes)]
            lows, highs = zip(*(self._counts.get(part, UNKNOWN) for part in parts), strict=True)
            whole = self._counts.get((members, above), UNKNOWN)
            if sum(lows) > whole[1] or sum(highs) < whole[0]:
                yield "the parts of a table do not add up to the whole"

    def _most_records(self, members: tuple[int, ...], region: Region) -> float:
        """By the study, and by the counts of the region and of those that contain it."""
        around = (self._counts.get((members, region[:k]), UNKNOWN) for k in range(len(region) + 1))
        most = min(bounds[1] for bounds in around)
        most = most if self.rows is None else min(most, self.rows)
        return most if most == math.inf else max(math.floor(most), 0)


@lru_cache(maxsize=1024)
def noise_reach(law: NoiseLaw, summands: int, alarm: float) -> float:
    """The bound that a sum of `summands` independent draws exceeds with probability <= `alarm`.

    It is in the units of the law; by symmetry the same bound holds below zero.
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
    """Log E exp(slope X) for discrete Laplace X; a share of X has the same fraction of it."""
    outer = 2.0 * math.log(-math.expm1(-rate))
    return outer - math.log(-math.expm1(slope - rate)) - math.log(-math.expm1(-slope - rate))


# Leave one site out: the sums that a model is trained on, once more without some sites.


NoisePart = tuple[NoiseLaw, int, int]
"""The law of one share, the number of shares, and the integers per 1."""


@dataclass
class SitePart:
    """The contribution of left-out sites: sums with them less sums without, in units of noise."""

    signal: float = 0.0
    whole: float = 0.0
    noise: float = 0.0
    """Squared norms of their contribution and of the whole sum; variance of the first."""
    evidence: NDArray[np.float64] = field(default_factory=lambda: np.zeros((2, len(SLOPES))))
    """That counts are below zero, in cells and in totals over cells, by slope."""

    @property
    def words(self) -> str:
        if self.signal < 4.0 * math.sqrt(self.noise) or self.whole <= 0.0:
            return "below the noise"
        return f"{math.sqrt(self.signal / self.whole):.0%}"

    def is_negative(self, alarm: float) -> bool:
        """Whether honest counts would be so far below zero with probability <= `alarm`.

        Each entry of the evidence is the logarithm of a supermartingale, whatever is asked next,
        and so is their mean (Ville 1939).
        """
        together = float(np.logaddexp.reduce(self.evidence, axis=None))
        return together - math.log(self.evidence.size) > -math.log(alarm)


def evidence_below_zero(counts: NDArray[np.float64], parts: Sequence[NoisePart]) -> FloatArray:
    """By slope, log of exp(slope x statistic) over its largest mean for counts of zero or more.

    The statistic adds squares of counts below zero under Gaussian noise, which is symmetric and
    sub-Gaussian: a mean is at most (1 + (1 - 2 slope)^-1/2) / 2. Under other noise it adds the
    counts: exp(s |z|) is cosh(s z) + sinh(s |z|), and the mean of sinh(s |z|) is at most the root
    of that of its square, so a mean is at most (1 + M(s) + ((M(2 s) - 1) / 2)^1/2) / 2.
    """
    deviation = math.sqrt(sum(_spread(law) * n / scale**2 for law, n, scale in parts))
    below = np.maximum(-counts, 0.0) / (deviation or 1.0)
    if any(isinstance(law, DiscreteGaussian) for law, _, _ in parts):
        means = 0.5 + 0.5 / np.sqrt(1.0 - 2.0 * SLOPES)
        statistic = float((below**2).sum())
    else:
        slopes = SLOPES / (deviation or 1.0)
        once, twice = (np.array([_moment(k * s, parts) for s in slopes]) for k in (1, 2))
        means = 0.5 * (1.0 + once + np.sqrt((twice - 1.0) / 2.0))
        statistic = float(below.sum())
    return np.asarray(SLOPES * statistic - counts.size * np.log(means))


def _spread(law: NoiseLaw) -> float:
    """The variance, or its bound by which a law is sub-Gaussian."""
    return float(law.sigma2) if isinstance(law, DiscreteGaussian) else law.variance


def _moment(slope: float, parts: Sequence[NoisePart]) -> float:
    """E exp(slope x noise); infinite where a law has no such moment."""
    log = 0.0
    for law, n, scale in parts:
        assert isinstance(law, DiscreteLaplace | PolyaDifference)
        rate, weight = float(law.rate), n if isinstance(law, DiscreteLaplace) else n / law.shares
        if slope / scale >= rate:
            return math.inf
        log += weight * _cumulant(rate, slope / scale)
    return math.exp(min(log, 700.0))


@dataclass
class Influence:
    """Repeats each sum without some sites in turn, paid with a fraction of that sum's budget.

    The difference is the contribution of the left-out sites, with the noise of both sums. Counts
    of records are not negative, but a lie that is large enough to invert a model makes cells
    negative. This shows that a site lies, not which one: a site sees who is left out and can
    answer differently, which makes the contribution of another site negative.
    """

    study: Study
    fraction: Fraction
    names: Sequence[str]
    parts: dict[tuple[int, ...], SitePart] = field(default_factory=dict)
    _turn: int = 0

    def __post_init__(self) -> None:
        if self.study.threshold == self.study.n_sites or self.study.dp_model is DPModel.LABEL:
            raise ParameterError(
                f"influence is {float(self.fraction):g}, but sums open with {self.study.threshold} "
                f"of {self.study.n_sites} sites or labels are randomized: nobody can be left out. "
                "Lower threshold, or take influence out."
            )

    def kept(self, query: AnyQuery) -> AnyQuery:
        """The query with the budget that remains for training."""
        left = 1 - self.fraction if isinstance(query, SumQuery) else 1
        return replace(query, fraction=query.fraction * left)

    def repeated(self, queries: Sequence[Query]) -> list[Query]:
        """The sums among these queries, with the fraction of their budget for the repetition."""
        sums = [query for query in queries if isinstance(query, SumQuery)]
        return [replace(query, fraction=query.fraction * self.fraction) for query in sums]

    def next_group(self, members: tuple[int, ...]) -> tuple[int, ...]:
        """The next sites to leave out: as many as the threshold allows, or none."""
        size, self._turn = len(members) - self.study.threshold, self._turn + 1
        groups = [members[k : k + size] for k in range(0, len(members), size)] if size > 0 else [()]
        return groups[(self._turn - 1) % len(groups)]

    def add(self, group: tuple[int, ...], pairs: Iterable[tuple[QuerySum, QuerySum]]) -> None:
        """Adds sums over all sites, and the same sums without the group."""
        part = self.parts.setdefault(group, SitePart())
        for (noise, values, members), (rest_noise, rest, others) in pairs:
            variance = noise.of_site.variance * len(members) / noise.scale**2
            both = variance + rest_noise.of_site.variance * len(others) / rest_noise.scale**2
            weight = 1.0 / (variance or 1.0)
            everybody = values / noise.scale
            theirs = everybody - rest / rest_noise.scale
            part.signal += weight * float((theirs**2 - both).sum())
            part.whole += weight * float((everybody**2 - variance).sum())
            part.noise += 2.0 * values.size * (weight * both) ** 2
            query = noise.query
            if isinstance(query, SumQuery) and not query.statistic.is_fractional and variance:
                laws = (noise, members), (rest_noise, others)
                cells = theirs.reshape(query.shape)
                for scale, counts in enumerate((cells, cells.sum(axis=1))):
                    shares = 1 if scale == 0 else query.shape[1]
                    noises = [(x.of_site, shares * len(who), x.scale) for x, who in laws]
                    part.evidence[scale] += evidence_below_zero(counts, noises)

    @property
    def findings(self) -> list[str]:
        alarm = FALSE_NEGATIVE_PARTS / max(len(self.parts), 1)
        groups = [g for g, part in sorted(self.parts.items()) if part.is_negative(alarm)]
        return [f"counts are larger without {self._names(group)}" for group in groups]

    @property
    def words(self) -> str:
        """The line of the statement."""
        parts = [f"{self._names(g)} {part.words}" for g, part in sorted(self.parts.items())]
        findings = "; ".join(self.findings) or "no site's contribution is negative"
        return (
            f"contribution to the sums: {', '.join(parts) or 'no site could be left out'}; "
            f"{findings}; a negative one shows a lie, of that site or of one that frames it; costs "
            f"{float(self.fraction):.0%} of each sum's budget and one more round per round"
        )

    def _names(self, group: tuple[int, ...]) -> str:
        return " and ".join(self.names[site] for site in group)
