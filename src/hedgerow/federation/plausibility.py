"""Plausibility checks of opened sums, with at most one false positive in 2^40 runs.

A coordinator sees only sums, so it checks sums. Apart from noise, counts are not negative, no cell
and no total exceeds what the records of its region can add, all tables of one region have the same
total of every class or channel, in whatever round they were asked, and the parts of a region add
up to it. The noise is bounded by a Chernoff bound of its law. Counts that are a little too low,
but too many of them, are evidence together. All of this fails once in 2^40 runs.

They catch accidents, garbage, inflation, and lies that contradict each other or exaggerate. They do
not catch a clever liar: a site that sends plausible counts of records it does not have, or of
turned labels, can still choose the model.
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
from hedgerow.models.losses import FirstOrder, SquaredLoss
from hedgerow.privacy.accounting.budget import DPModel
from hedgerow.privacy.mechanisms.mechanisms import (
    DiscreteGaussian,
    DiscreteLaplace,
    NoiseLaw,
    NoNoise,
    PolyaDifference,
)
from hedgerow.privacy.pricing import Noise
from hedgerow.privacy.queries import (
    ClassCounts,
    CurveNewton,
    Gradients,
    LabelReports,
    Query,
    Sides,
    Statistic,
    SumQuery,
    SurfaceGradients,
)
from hedgerow.privacy.study import Study
from hedgerow.schema.arrays import FloatArray
from hedgerow.schema.regions import Region, Step

FALSE_POSITIVE_RATE = 2.0**-40
"""The rate of all tests of a run together."""
FALSE_NEGATIVE_PARTS = 2.0**-20
"""The largest probability that a part is called negative in a run of honest sites."""
SLOPES: NDArray[np.float64] = np.geomspace(0.01, 0.49, 24)
"""Slopes at which exponential moments are evaluated, per deviation of the noise."""
RARE = (2.0**-5, 2.0**-10)
"""Fractions of the cells that a lie may be in, if not in all."""
NEAR = 2.0
"""Deviations below which a count is taken as zero, which is never more evidence."""
AnyQuery = TypeVar("AnyQuery", bound=Query)
QuerySum = tuple[Noise, NDArray[np.int64], tuple[int, ...]]
"""Noise and opened integers of one query, and the sites in the sum."""
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
    _counts: dict[tuple[tuple[int, ...], Region], FloatArray] = field(default_factory=dict)
    """By sites and region, bounds on the number of records, then of records of each class."""
    _evidence: FloatArray | float = 0.0
    """That counts of all rounds together are below zero."""

    def check(self, number: int, sums: Sequence[QuerySum]) -> None:
        """Checks the sums of one round; raises for an implausible one unless `goes_on`.

        Bounds have half of the run's rate, of which round r may use 1 / (r (r + 1)): all rounds
        together use it up. Evidence from all rounds has the other half.
        """
        if self.study.dp_model is DPModel.LABEL or not sums:
            return
        tests = 6 * sum(values.size for _, values, _ in sums)
        alarm = FALSE_POSITIVE_RATE / (2 * number * (number + 1) * tests)
        problems = [words for item in sums for words in self._problems(*item, alarm)]
        before, half = self._evidence, FALSE_POSITIVE_RATE / 2
        self._evidence = before + sum(_evidence_of(*item) for item in sums)
        is_new = is_below_zero(self._evidence, half) and not is_below_zero(before, half)
        if is_new and not problems:
            problems = ["counts of all rounds so far are together negative beyond their noise"]
        new = [f"round {number}: {words}" for words in problems]
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
        """What contradicts the bounds of each cell, channel and table of a query."""
        query = noise.query
        if not isinstance(query, SumQuery) or isinstance(query.statistic, LabelReports):
            return
        cells, statistic = values.reshape(query.shape).astype(np.float64), query.statistic
        _, n_cells, n_channels = query.shape
        of_cell, of_channel, of_table = (
            noise_reach(noise.of_site, len(members) * n, alarm)
            for n in (1, n_cells, n_cells * n_channels)
        )
        channels = cells.sum(axis=1)
        tables = channels if statistic.is_fractional else channels.sum(axis=1, keepdims=True)
        of_total = of_channel if statistic.is_fractional else of_table
        largest = statistic.bound(noise.unit).linf * noise.refinement
        records = self._most_records(members, query.region)
        if np.abs(cells).max() > records * largest + of_cell:
            yield f"a cell is larger than {records} records make it"
        if np.abs(tables).max() > records * largest + of_total:
            yield f"a table adds up to more than {records} records make it"
        if cells[..., first_positive(statistic) :].min(initial=0.0) < -of_cell:
            yield "a count is negative beyond its noise"
        elif _exceeds_count(statistic, cells, noise, of_cell):
            yield "a gradient is larger than the count beside it makes it"
        elif not isinstance(query.by, Sides):  # a record may have left the tree, or not be split
            bounds = _interval(channels, of_channel)
            if statistic.is_fractional:
                yield from _contradiction(bounds)
            else:
                by_class = bounds if isinstance(statistic, ClassCounts) else bounds[:, :0]
                bounds = np.concatenate([_interval(tables, of_table), by_class], axis=1)
                yield from self._count(members, query.region, bounds / largest)

    def _count(self, members: tuple[int, ...], region: Region, new: FloatArray) -> Iterator[str]:
        """Narrows the bounds of a region's records, and compares them with all its parts."""
        bounds, n = self._bounds(members, region).copy(), new.shape[1]
        bounds[0, :n] = np.maximum(bounds[0, :n], new[0])
        bounds[1, :n] = np.minimum(bounds[1, :n], new[1])
        if contradiction := _contradiction(bounds):
            yield from contradiction
            return
        self._counts[members, region] = bounds
        if region:
            above, test = region[:-1], region[-1].test
            parts = [(*above, Step(test, k)) for k in range(test.outcomes)]
            lows, highs = np.sum([self._bounds(members, part) for part in parts], axis=0)
            whole = self._bounds(members, above)
            if (lows > whole[1]).any() or (highs < whole[0]).any():
                yield "the parts of a table do not add up to the whole"

    def _bounds(self, members: tuple[int, ...], region: Region) -> FloatArray:
        bounds = self._counts.get((members, region))
        if bounds is None:
            n_classes = len(self.study.schema.classes or ())
            bounds = np.repeat([[0.0], [math.inf]], 1 + n_classes, axis=1)
        return bounds

    def _most_records(self, members: tuple[int, ...], region: Region) -> float:
        """By the study, and by the counts of the region and of those that contain it."""
        around = (self._bounds(members, region[:k]) for k in range(len(region) + 1))
        most = min(float(bounds[1, 0]) for bounds in around)
        most = most if self.rows is None else min(most, self.rows)
        return most if most == math.inf else max(math.floor(most), 0)


def _evidence_of(
    noise: Noise, values: NDArray[np.int64], members: tuple[int, ...]
) -> FloatArray | float:
    if not isinstance(query := noise.query, SumQuery) or not noise.of_site.variance:
        return 0.0
    counts = values.reshape(query.shape)[..., first_positive(query.statistic) :] / noise.scale
    return evidence_below_zero(counts, [(noise.of_site, len(members), noise.scale)])


def first_positive(statistic: Statistic) -> int:
    """The channels from here on hold a number of zero or more of each record."""
    match statistic:
        case Gradients():
            return statistic.loss.outputs
        case CurveNewton() | SurfaceGradients():
            return statistic.channels
    return 0


def _interval(totals: FloatArray, reach: float) -> FloatArray:
    """(2, C) what all groups allow for the total of each channel: the least, and the most."""
    return np.stack([totals.max(axis=0) - reach, totals.min(axis=0) + reach])


def _contradiction(bounds: FloatArray) -> list[str]:
    is_empty = (bounds[0] > bounds[1]).any()
    return ["tables of the same records have different totals"] if is_empty else []


def _exceeds_count(statistic: Statistic, cells: FloatArray, noise: Noise, reach: float) -> bool:
    """Whether a gradient is larger than the count beside it; only some losses have a count."""
    loss = statistic.loss if isinstance(statistic, Gradients) else None
    if not isinstance(loss, SquaredLoss | FirstOrder):
        return False
    gradients, counts = np.split(cells, [loss.outputs], axis=-1)
    one = math.floor(loss.hessian_scale * noise.unit) * noise.refinement
    largest = (counts + reach) / one * noise.scale if one else np.inf
    return bool((np.abs(gradients) > largest + reach).any())


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
    evidence: FloatArray = field(default_factory=lambda: np.zeros((2, 1 + len(RARE), len(SLOPES))))
    """That counts are below zero, in cells and in totals over cells."""

    @property
    def words(self) -> str:
        if self.signal < 4.0 * math.sqrt(self.noise) or self.whole <= 0.0:
            return "below the noise"
        return f"{math.sqrt(self.signal / self.whole):.0%}"


def evidence_below_zero(counts: FloatArray, parts: Sequence[NoisePart]) -> FloatArray:
    """By fraction of cells and slope, the log of a supermartingale if counts are zero or more.

    A cell is evidence by exp(slope x statistic) over its largest mean. The statistic is the square
    of a count below zero under Gaussian noise, which is symmetric and sub-Gaussian: a mean is at
    most (1 + (1 - 2 slope)^-1/2) / 2. Under other noise it is the count: exp(s |z|) is
    cosh(s z) + sinh(s |z|), and the mean of sinh(s |z|) is at most M(s), and at most the root of
    that of its square, so a mean is at most (1 + M(s) + min(M(s), ((M(2 s) - 1) / 2)^1/2)) / 2.
    Where a lie is in few cells, all others would hide it: so a cell's evidence is also mixed with
    1, of which it is a small fraction.
    """
    deviation = math.sqrt(sum(_spread(law) * n / scale**2 for law, n, scale in parts))
    below = np.maximum(-counts.ravel(), 0.0)
    is_far, slopes = below > NEAR * deviation, SLOPES
    if any(isinstance(law, DiscreteGaussian) for law, _, _ in parts):
        means = 0.5 + 0.5 / np.sqrt(1.0 - 2.0 * SLOPES)
        below = (below / deviation) ** 2
    else:
        slopes = 2.0 * SLOPES * min(_rate(law) / scale for law, _, scale in parts)
        once, twice = (np.array([_moment(k * s, parts) for s in slopes]) for k in (1, 2))
        squares = np.maximum(twice - 1.0, 0.0) / 2.0  # not below zero by rounding
        means = 0.5 * (1.0 + once + np.minimum(once, np.sqrt(squares)))
    evidence = slopes * below[is_far, None] - np.log(means)
    whole = slopes * below.sum() - counts.size * np.log(means)
    mixtures = [
        np.logaddexp(math.log1p(-part), math.log(part) + evidence).sum(axis=0)
        + (counts.size - len(evidence)) * np.log1p(part / means - part)
        for part in RARE
    ]
    return np.array([whole, *mixtures])


def is_below_zero(evidence: FloatArray | float, alarm: float) -> bool:
    """Whether honest counts would be so far below zero with probability <= `alarm`.

    Each entry of the evidence is the logarithm of a supermartingale, whatever is asked next, and so
    is their mean (Ville 1939).
    """
    together = float(np.logaddexp.reduce(evidence, axis=None))
    return together - math.log(np.size(evidence)) > -math.log(alarm)


def _spread(law: NoiseLaw) -> float:
    """The variance, or its bound by which a law is sub-Gaussian."""
    return float(law.sigma2) if isinstance(law, DiscreteGaussian) else law.variance


def _rate(law: NoiseLaw) -> float:
    assert isinstance(law, DiscreteLaplace | PolyaDifference)
    return float(law.rate)


def _moment(slope: float, parts: Sequence[NoisePart]) -> float:
    """E exp(slope x noise); infinite where a law has no such moment, or a huge one."""
    log = 0.0
    for law, n, scale in parts:
        if slope / scale >= _rate(law):
            return math.inf
        weight = n / law.shares if isinstance(law, PolyaDifference) else n
        log += weight * _cumulant(_rate(law), slope / scale)
    return math.exp(log) if log < 700.0 else math.inf


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
        groups = [
            g for g, part in sorted(self.parts.items()) if is_below_zero(part.evidence, alarm)
        ]
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
