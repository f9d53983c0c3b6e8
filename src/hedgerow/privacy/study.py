"""What all sites approved: the numbers that no round message may change.

Noise law, scale and charge of a query follow from the study and the query alone, so a site
derives them itself and a coordinator cannot name its own.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property, lru_cache
from typing import Any, NamedTuple

from hedgerow.errors import SpecError, UnsupportedQuery
from hedgerow.models.sensitivity import Sensitivity
from hedgerow.privacy.accounting import conversions
from hedgerow.privacy.accounting.budget import Cost, Measure, Placement
from hedgerow.privacy.accounting.coalition import Release
from hedgerow.privacy.declaration import Declaration, content_hash, content_of, rebuilt
from hedgerow.privacy.ledger.charges import Charge
from hedgerow.privacy.mechanisms import sampling
from hedgerow.privacy.mechanisms.mechanisms import (
    DiscreteGaussian,
    NoiseLaw,
    NoNoise,
    gaussian_share_tau,
)
from hedgerow.privacy.mechanisms.response import RandomisedResponse
from hedgerow.privacy.queries import (
    LATTICE,
    BoundQuery,
    ClassCounts,
    Count,
    LabelReports,
    Query,
    QueryKinds,
    Selecting,
    SelectQuery,
    Summed,
    SumQuery,
)
from hedgerow.privacy.study_checks import check_study
from hedgerow.schema.regions import EVERYONE, HeldOut, Region, Step
from hedgerow.secagg.parameters import Consortium

COUNTS = ClassCounts.__name__

COARSE_LATTICE = 64
"""Polya shares are drawn exactly down to a rate of 2^-15 per unit."""

WIDE_NOISE = 1 << 12
"""Deviation, in units, at which finer units say nothing more."""

SMOOTH_SHARE = 16
"""Variance below which a discrete-Gaussian share is refined: at 16 the sum of shares is within
10 h exp(-16 pi^2) < 1e-65 h of one discrete Gaussian, per coordinate."""

MOST_KEPT = 4096
"""Different prices and bounds whose noise is remembered."""


class _Noise(NamedTuple):
    """What protects a sum: how much finer its units are, the law of the sum, that of a site."""

    refinement: int
    of_sum: NoiseLaw
    of_site: NoiseLaw


@dataclass(frozen=True, kw_only=True)
class Study(Declaration):
    """What is declared, and the budget, noise and regions that follow from it."""

    def __post_init__(self) -> None:
        check_study(self)

    # ------------------------------------------------------------------------------- budget
    @property
    def honest(self) -> int:
        """Noise shares counted on: fewest survivors less tolerated colluders."""
        return self.threshold - self.colluders

    @property
    def parameters(self) -> Consortium:
        """The numbers of the secure sum; refused unless a sum that hides them can be formed."""
        return Consortium(
            parties=self.parties,
            colluders=self.colluders,
            threshold=self.threshold,
            sparse=self.graph,
        )

    @property
    def measure(self) -> Measure:
        return Measure.PURE if self.delta == 0 else Measure.GDP

    @cached_property
    def total(self) -> Fraction:
        """The whole budget in units of the measure, rounded down."""
        return conversions.whole_budget(self.measure, self.epsilon, self.noise_delta)

    @property
    def graph_delta(self) -> Fraction:
        """The part of delta that pays for what a sparse graph may expose.

        Only noise that is divided among sites needs masks: elsewhere each site's own protects it.
        """
        if self.graph is None or self.placement is not Placement.SHARES:
            return Fraction(0)
        return conversions.delta_of_sparse_rounds(self.graph.rounds, self.graph.sigma)

    @property
    def noise_delta(self) -> Fraction:
        """The rest of delta: noise is sized by it."""
        return self.delta - self.graph_delta

    @cached_property
    def spendable(self) -> Fraction:
        """What queries divide among themselves; the rest is for void rounds."""
        return self.total * (1 - self.retry_reserve)

    @property
    def reserve(self) -> Cost:
        """What rounds that fail may cost; where nothing is promised there is no end to it."""
        return math.inf if self.placement is Placement.NOWHERE else self.total - self.spendable

    @property
    def lattice(self) -> int:
        """Units per 1.0 of fractional statistics; coarse where Laplace noise is divided."""
        divided = self.placement is Placement.SHARES and self.measure is Measure.PURE
        return COARSE_LATTICE if divided else LATTICE

    def unit(self, query: Summed) -> int:
        """Integer units per 1.0 of a query's answer: no message can name its own."""
        if isinstance(query, BoundQuery):
            return self._bound_unit(query)
        return self.lattice if query.statistic.is_fractional else 1

    def _bound_unit(self, query: BoundQuery) -> int:
        """As fine as the lattice, unless noise makes that pointless.

        Sites round their bounds down, by less than two units each. Shares of Laplace noise have a
        widest law that is still drawn exactly, and finer units make the noise wider.
        """
        if self.placement in (Placement.NOWHERE, Placement.LABEL):
            return self.lattice
        whole = query.sensitivity(1).of_person(self.records_per_person)
        law = _law(self.measure, self._cost(query), whole)
        shares = self.honest if self.placement is Placement.SHARES else 1
        deviation, unit = math.sqrt(law.variance * self.parties / shares), 1
        while 2 * unit <= self.lattice and 2 * unit * deviation <= WIDE_NOISE:
            unit *= 2
        return unit

    @property
    def limit(self) -> Cost:
        return math.inf if self.placement is Placement.NOWHERE else self.total

    def charge(self, region: Region, cost: Cost, what: str) -> Charge:
        """A line of a ledger, on this study's account and in its measure."""
        return Charge(region, cost, what, self.account, self.measure)

    def cost(self, query: Query) -> Cost:
        """What a record in the query's region pays."""
        if isinstance(query, SelectQuery) and self.parties > 1:
            raise UnsupportedQuery(
                "a selection on exact scores needs one holder of all rows; with several parties "
                "ask noisy tables (split='noisy_counts' or 'table') or local choices "
                "(split='local_choice')."
            )
        if self.placement is Placement.NOWHERE:
            return math.inf
        if self.placement is Placement.LABEL:
            return self._label_cost(query)
        if query.share <= 0:
            raise SpecError(f"a query asks for the share {query.share} of the budget; use > 0.")
        return query.share * self.spendable

    @cached_property
    def response(self) -> RandomisedResponse:
        """How labels are told under placement `label`: once per record, for the whole run.

        The labels of one person share the promise.
        """
        each = self.epsilon / self.records_per_person
        return RandomisedResponse.for_epsilon(len(self.schema.classes or ()), each)

    @property
    def entry_cost(self) -> Cost:
        """What every person pays on entering, before any query: their randomised labels."""
        if self.placement is not Placement.LABEL:
            return Fraction(0)
        if self.label_reports is not None:
            return self.records_per_person * Fraction(self.label_reports.epsilon_forever)
        return self.epsilon

    @cached_property
    def admitted(self) -> QueryKinds:
        """What sites answer: where labels are told in bits, class counts are asked as bits."""
        if self.label_reports is None:
            return self.asks
        told = {replace(k, what=LabelReports.__name__) for k in self.asks if k.what == COUNTS}
        return self.asks | told

    # ------------------------------------------------------------------------------- records
    @cached_property
    def trained_on(self) -> Region:
        """The records that learners ask about: all of them, if none is held out."""
        return (Step(HeldOut(self.hold_out), 1),) if self.hold_out else EVERYONE

    @cached_property
    def held_out(self) -> Region:
        """The records that are kept out of training."""
        return (Step(HeldOut(self.hold_out), 0),)

    def is_held_out(self, region: Region) -> bool:
        return bool(self.hold_out) and region[:1] == self.held_out

    def as_asked(self, query: Query) -> Query:
        """The query as sites answer it: it says which records it is of, and what they tell."""
        if self.hold_out and not self.is_held_out(query.region):
            query = replace(query, region=self.trained_on + query.region)
        return self._as_told(query)

    def _as_told(self, query: Query) -> Query:
        """Where labels are told in bits, class counts are counts of bits."""
        if self.label_reports is None or not isinstance(query, SumQuery):
            return query
        if not isinstance(query.statistic, ClassCounts):
            return query
        return replace(query, statistic=LabelReports(self.label_reports.bits))

    # -------------------------------------------------------------------------------- noise
    def sum_law(self, query: Summed) -> NoiseLaw:
        """The law that protects the sum, in the query's units times `refinement`."""
        return self._noise(query).of_sum

    def site_law(self, query: Summed) -> NoiseLaw:
        """What one site draws."""
        return self._noise(query).of_site

    def variance(self, query: Summed, members: int | None = None) -> float:
        """Of the noise in the sum of so many sites, by default of all, in natural units."""
        unit = self.unit(query) * self.refinement(query)
        summands = self.parties if members is None else members
        return self.site_law(query).variance * summands / unit**2

    def refinement(self, query: Summed) -> int:
        """Extra units, so that shares of a discrete Gaussian stay smooth at small scales."""
        return self._noise(query).refinement

    def _noise(self, query: Summed) -> _Noise:
        """Kept: a query's noise is asked for many times, by every site of a process."""
        if self.placement in (Placement.NOWHERE, Placement.LABEL):
            return _Noise(1, NoNoise(), NoNoise())
        sensitivity = self._sensitivity(query)
        key = (query.share.numerator, query.share.denominator, sensitivity)
        found = self._noises.get(key)
        if found is None:
            found = self._derived_noise(self._cost(query), sensitivity)
            if len(self._noises) < MOST_KEPT:
                self._noises[key] = found
        return found

    @cached_property
    def _noises(self) -> dict[tuple[int, int, Sensitivity], _Noise]:
        return {}

    def _derived_noise(self, cost: Fraction, sensitivity: Sensitivity) -> _Noise:
        divided = self.placement is Placement.SHARES
        shares, factor = self.honest if divided else 1, 1
        law = _law(self.measure, cost, sensitivity)
        if isinstance(law, DiscreteGaussian):
            while law.sigma2 * factor**2 < SMOOTH_SHARE * shares:
                factor *= 2
        whole = _law(self.measure, cost, sensitivity.of_person(factor))
        return _Noise(factor, whole, whole.share(shares) if divided else whole)

    def release(self, query: Summed) -> Release:
        """The sum as the accountant of coalitions sees it: a person's records, each in one cell."""
        by_record = query.shape[0] * (query.shape[-1] if len(query.shape) > 1 else 1)
        return Release(
            law=self.sum_law(query),
            sensitivity=self._scaled(query),
            touched=by_record * self.records_per_person,
        )

    def slack(self, query: Summed) -> Fraction:
        """Total variation between the noise of all sites, as drawn, and its law."""
        size = math.prod(query.shape)
        drawn = self.parties * size * _total_variation(self.site_law(query))
        return drawn + size * self._share_distance(query)

    def _share_distance(self, query: Summed) -> Fraction:
        """Shares of a discrete Gaussian sum to it but for a factor exp(+-tau): variation <= tau.

        Shares of Laplace noise sum to it exactly.
        """
        law = self.sum_law(query)
        if self.placement is not Placement.SHARES or not isinstance(law, DiscreteGaussian):
            return Fraction(0)
        return Fraction(_share_tau(law.sigma2, self.honest))

    def selection_epsilon(self, query: Selecting) -> Fraction:
        return conversions.selection_epsilon(self.measure, self._cost(query), query.mechanism.value)

    def _cost(self, query: Query) -> Fraction:
        cost = self.cost(query)
        assert isinstance(cost, Fraction)
        return cost

    def _sensitivity(self, query: Summed) -> Sensitivity:
        return query.sensitivity(self.unit(query)).of_person(self.records_per_person)

    def _scaled(self, query: Summed) -> Sensitivity:
        return self._sensitivity(query).of_person(self.refinement(query))

    def _label_cost(self, query: Query) -> Fraction:
        """Nothing more: the label was told on entering, and features are not protected."""
        told = ClassCounts if self.label_reports is None else LabelReports
        if isinstance(query, SumQuery) and isinstance(query.statistic, told | Count):
            return Fraction(0)
        raise UnsupportedQuery(
            f"{type(query).__name__} needs true labels; under placement 'label' ask class counts, "
            "or use another placement."
        )

    # ----------------------------------------------------------------------------- identity
    def to_dict(self) -> dict[str, Any]:
        """All of it in plain values; `from_dict` gives the equal study back."""
        return content_of(self)

    @staticmethod
    def from_dict(content: Mapping[str, Any]) -> Study:
        """Refuses content that this hedgerow would not write itself, word for word."""
        study = rebuilt(Study, content)
        if study.hash != content_hash(content):
            raise SpecError(
                f"the study {study.name!r} was written by a hedgerow with another protocol or "
                "noise law, or was changed by hand; let all sites use the same release."
            )
        return study

    @cached_property
    def hash(self) -> bytes:
        return content_hash(self.to_dict())

    @cached_property
    def account(self) -> str:
        """Its key in every ledger: the hash, since a name can be given twice."""
        return self.hash.hex()


_total_variation = lru_cache(maxsize=4096)(sampling.total_variation)
_share_tau = lru_cache(maxsize=4096)(gaussian_share_tau)


@lru_cache(maxsize=4096)
def _law(measure: Measure, cost: Fraction, sensitivity: Sensitivity) -> NoiseLaw:
    return conversions.noise_law(measure, cost, sensitivity)
