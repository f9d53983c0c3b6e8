"""A study as all sites approved it: the numbers that no round message may change.

The noise law, scale and charge of a query follow from the study and the query alone, so each site
derives them itself and the coordinator cannot choose them.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property, lru_cache
from typing import Any, NamedTuple

from hedgerow.errors import ParameterError, UnsupportedQuery
from hedgerow.models.losses import Sensitivity
from hedgerow.models.validation import MOST_FOLDS
from hedgerow.privacy.accounting import conversions
from hedgerow.privacy.accounting.budget import Cost, DPModel, Measure
from hedgerow.privacy.accounting.coalition import CoalitionRelease
from hedgerow.privacy.declaration import STUDY, Declaration, content_hash, content_of, rebuilt
from hedgerow.privacy.ledger.charges import Charge
from hedgerow.privacy.mechanisms import sampling
from hedgerow.privacy.mechanisms.mechanisms import (
    DiscreteGaussian,
    NoiseLaw,
    NoNoise,
    gaussian_share_tau,
)
from hedgerow.privacy.mechanisms.response import RandomizedResponse
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
from hedgerow.schema.regions import EVERYONE, HeldOut, Region, Step
from hedgerow.secagg.parameters import Parameters, check_counts

COUNTS = ClassCounts.__name__

COARSE_LATTICE = 64
"""Lattice for divided Laplace noise: Polya shares are exact down to a rate of 2^-15 per unit."""

WIDE_NOISE = 1 << 12
"""Standard deviation of the noise, in units, above which finer units are of no use."""

SMOOTH_SHARE = 16
"""Variance below which a discrete-Gaussian share is refined: at 16 the sum of shares is within
10 h exp(-16 pi^2) < 1e-65 h of one discrete Gaussian, per coordinate."""


class _Noise(NamedTuple):
    """The noise of a sum: refinement of its units, law of the sum, law of one site."""

    refinement: int
    of_sum: NoiseLaw
    of_site: NoiseLaw


@dataclass(frozen=True, kw_only=True)
class Study(Declaration):
    """The declaration of a study, and the budget, noise and regions that follow from it."""

    def __post_init__(self) -> None:
        check_study(self)

    @property
    def honest(self) -> int:
        """The number of honest noise shares: fewest survivors minus tolerated colluders."""
        return self.threshold - self.colluders

    @property
    def parameters(self) -> Parameters:
        """The parameters of secure aggregation; raises if no sum can hide its summands."""
        return Parameters(
            n_sites=self.n_sites,
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
        """The part of delta that covers what a sparse graph may expose.

        Only noise that is divided among sites depends on masks; otherwise each site's own noise
        protects it.
        """
        if self.graph is None or self.dp_model is not DPModel.DISTRIBUTED:
            return Fraction(0)
        return conversions.delta_of_sparse_rounds(self.graph.rounds, self.graph.sigma)

    @property
    def noise_delta(self) -> Fraction:
        """The rest of delta, from which the noise is derived."""
        return self.delta - self.graph_delta

    @cached_property
    def spendable(self) -> Fraction:
        """The part of the budget for queries; the rest pays for failed rounds."""
        return self.total * (1 - self.retry_budget)

    @property
    def reserve(self) -> Cost:
        """The retry budget for failed rounds; unlimited if nothing is guaranteed."""
        return math.inf if self.dp_model is DPModel.NONE else self.total - self.spendable

    @property
    def lattice(self) -> int:
        """Integer units per 1.0 of fractional statistics; coarser for divided Laplace noise."""
        is_noise_divided = self.dp_model is DPModel.DISTRIBUTED and self.measure is Measure.PURE
        return COARSE_LATTICE if is_noise_divided else LATTICE

    def unit(self, query: Summed) -> int:
        """Integer units per 1.0 of a query's answer; a message cannot choose them."""
        if isinstance(query, BoundQuery):
            return self._bound_unit(query)
        return self.lattice if query.statistic.is_fractional else 1

    def _bound_unit(self, query: BoundQuery) -> int:
        """The unit of a bound: up to that of the lattice, while finer units help beside noise.

        Each site rounds its bound down by less than two units. Shares of Laplace noise are exact
        only up to a certain width, and finer units widen the noise.
        """
        if self.dp_model in (DPModel.NONE, DPModel.LABEL):
            return self.lattice
        whole = query.sensitivity(1).of_person(self.records_per_person)
        law = _law(self.measure, self._cost(query), whole)
        shares = self.honest if self.dp_model is DPModel.DISTRIBUTED else 1
        deviation, unit = math.sqrt(law.variance * self.n_sites / shares), 1
        while 2 * unit <= self.lattice and 2 * unit * deviation <= WIDE_NOISE:
            unit *= 2
        return unit

    @property
    def limit(self) -> Cost:
        return math.inf if self.dp_model is DPModel.NONE else self.total

    def charge(
        self, region: Region, cost: Cost, purpose: str, remainder: Cost = conversions.NOTHING
    ) -> Charge:
        """A ledger entry on this study's account and in its measure."""
        return Charge(region, cost, purpose, self.account, self.measure, remainder)

    def remainder(self, query: Query) -> Fraction:
        """The budget that must remain after a selection; 0 for sums."""
        if isinstance(query, Summed) or self.limit == math.inf:
            return conversions.NOTHING
        return query.remainder * self.spendable

    def cost(self, query: Query) -> Cost:
        """The cost of a query for a record in its region."""
        if isinstance(query, SelectQuery) and self.n_sites > 1:
            raise UnsupportedQuery(
                "a selection on exact scores needs all rows at one site; for several sites use "
                "noisy counts or local selections (split='noisy_counts' or 'local_choice')."
            )
        if self.dp_model is DPModel.NONE:
            return math.inf
        if self.dp_model is DPModel.LABEL:
            return self._label_cost(query)
        if query.fraction <= 0:
            raise ParameterError(
                f"a query asks for the fraction {query.fraction} of the budget; use > 0."
            )
        return query.fraction * self.spendable

    @cached_property
    def response(self) -> RandomizedResponse:
        """How labels are randomized under DP model `label`: once per record, for the whole run.

        The labels of one person share the guarantee.
        """
        epsilon_per_record = self.epsilon / self.records_per_person
        return RandomizedResponse.for_epsilon(len(self.schema.classes or ()), epsilon_per_record)

    @property
    def entry_cost(self) -> Cost:
        """The cost of entering the study, before any query: the randomized labels."""
        if self.dp_model is not DPModel.LABEL:
            return Fraction(0)
        if self.label_reports is not None:
            return self.records_per_person * Fraction(self.label_reports.epsilon_forever)
        return self.epsilon

    @cached_property
    def admitted(self) -> QueryKinds:
        """The queries that sites answer; with label reports, class counts are bit sums."""
        if self.label_reports is None:
            return self.asks
        bit_queries = {
            replace(k, what=LabelReports.__name__) for k in self.asks if k.what == COUNTS
        }
        return self.asks | bit_queries

    @property
    def training_rounds(self) -> int:
        """Most training rounds; 0 if neither `max_rounds` nor a sparse graph limits them."""
        most = [self.max_rounds, 0 if self.graph is None else self.graph.rounds]
        return min((max(n - bool(self.asks_held_out), 1) for n in most if n), default=0)

    @cached_property
    def held_out_test(self) -> HeldOut | None:
        """The draw that decides which records are held out; None if none is."""
        return HeldOut(self.hold_out) if self.hold_out else None

    @cached_property
    def trained_on(self) -> Region:
        """The region of the training records; all records if none is held out."""
        return (Step(self.held_out_test, 1),) if self.held_out_test else EVERYONE

    @cached_property
    def held_out(self) -> Region:
        return (Step(HeldOut(self.hold_out), 0),)

    def is_held_out(self, region: Region) -> bool:
        return self.held_out_test is not None and region[:1] == self.held_out

    def as_asked(self, query: Query) -> Query:
        """The query as sites answer it: about their training or held-out records.

        If labels are reported in bits, class counts become counts of bits.
        """
        if self.held_out_test and not self.is_held_out(query.region):
            query = replace(query, region=self.trained_on + query.region)
        reports = self.label_reports
        if reports is None or not isinstance(query, SumQuery):
            return query
        counts_classes = isinstance(query.statistic, ClassCounts)
        return replace(query, statistic=LabelReports(reports.bits)) if counts_classes else query

    def sum_law(self, query: Summed) -> NoiseLaw:
        """The law that protects the sum, in the query's units times `refinement`."""
        return self._noise(query).of_sum

    def site_law(self, query: Summed) -> NoiseLaw:
        return self._noise(query).of_site

    def variance(self, query: Summed, members: int | None = None) -> float:
        """Noise variance of the sum of `members` sites, by default all, in natural units."""
        unit = self.unit(query) * self.refinement(query)
        summands = self.n_sites if members is None else members
        return self.site_law(query).variance * summands / unit**2

    def refinement(self, query: Summed) -> int:
        """Extra units, so that shares of a discrete Gaussian stay smooth at small scales."""
        return self._noise(query).refinement

    def _noise(self, query: Summed) -> _Noise:
        if self.dp_model in (DPModel.NONE, DPModel.LABEL):
            return _Noise(1, NoNoise(), NoNoise())
        shares = self.honest if self.dp_model is DPModel.DISTRIBUTED else 1
        return _noise_of(self.measure, self._cost(query), self._sensitivity(query), shares)

    def release(self, query: Summed) -> CoalitionRelease:
        """The sum for the accountant of coalitions; each record of a person is in its own cell."""
        by_record = query.shape[0] * (query.shape[-1] if len(query.shape) > 1 else 1)
        return CoalitionRelease(
            law=self.sum_law(query),
            sensitivity=self._sensitivity(query).of_person(self.refinement(query)),
            touched_coordinates=by_record * self.records_per_person,
        )

    def slack(self, query: Summed) -> Fraction:
        """Total variation between the noise of all sites, as drawn, and its law.

        Shares of Laplace noise sum to it exactly; the sum of discrete Gaussian shares is at most
        tau from its law, since the densities differ by a factor within exp(+-tau).
        """
        law, size = self.sum_law(query), math.prod(query.shape)
        distance = self.n_sites * size * _total_variation(self.site_law(query))
        if self.dp_model is DPModel.DISTRIBUTED and isinstance(law, DiscreteGaussian):
            distance += size * Fraction(_share_tau(law.sigma2, self.honest))
        return distance

    def selection_epsilon(self, query: Selecting) -> Fraction:
        cost, name = self._cost(query), query.mechanism.value
        return conversions.selection_epsilon(self.measure, cost, name, self.remainder(query))

    def _cost(self, query: Query) -> Fraction:
        cost = self.cost(query)
        assert isinstance(cost, Fraction)
        return cost

    def _sensitivity(self, query: Summed) -> Sensitivity:
        return query.sensitivity(self.unit(query)).of_person(self.records_per_person)

    def _label_cost(self, query: Query) -> Fraction:
        """Zero: the label was charged on entering, and features are not protected."""
        free_statistic = ClassCounts if self.label_reports is None else LabelReports
        if isinstance(query, SumQuery) and isinstance(query.statistic, free_statistic | Count):
            return Fraction(0)
        raise UnsupportedQuery(
            f"{type(query).__name__} needs true labels; under dp_model 'label' ask class counts, "
            "or use another DP model."
        )

    def to_dict(self) -> dict[str, Any]:
        """The study as plain values; `from_dict` is the inverse."""
        return content_of(self)

    @staticmethod
    def from_dict(content: Mapping[str, Any]) -> Study:
        """Rebuilds a study; refuses content that this release would not write identically."""
        study = rebuilt(Study, content)
        if study.hash != content_hash(content):
            raise ParameterError(
                f"the study {study.name!r} was written by a hedgerow with another protocol or "
                "noise law, or was changed by hand; let all sites use the same release."
            )
        return study

    @cached_property
    def hash(self) -> bytes:
        return content_hash(self.to_dict())

    @cached_property
    def account(self) -> str:
        """The key of the study in every ledger: its hash, because names may repeat."""
        return self.hash.hex()


@lru_cache(maxsize=4096)
def _noise_of(measure: Measure, cost: Fraction, sensitivity: Sensitivity, shares: int) -> _Noise:
    """The noise of a sum, cached: every site of a process asks for it many times."""
    law, factor = _law(measure, cost, sensitivity), 1
    if isinstance(law, DiscreteGaussian):
        while law.sigma2 * factor**2 < SMOOTH_SHARE * shares:
            factor *= 2
    whole = _law(measure, cost, sensitivity.of_person(factor))
    return _Noise(factor, whole, whole.share(shares))


_total_variation = lru_cache(maxsize=4096)(sampling.total_variation)
_share_tau = lru_cache(maxsize=4096)(gaussian_share_tau)
_law = lru_cache(maxsize=4096)(conversions.noise_law)


# Validation: inconsistent numbers are refused before any site joins.


def check_study(study: Study) -> None:
    check_counts(study.n_sites, study.colluders, study.threshold)
    for name in ("records_per_person", "retry_budget", "reply_interval"):
        STUDY[name].rule.check(name, getattr(study, name))
    problem = next(_problems_of_sites(study), None)
    if problem is None and study.graph is not None:
        _ = study.parameters  # raises if no such graph exists
    if problem is None and study.dp_model is not DPModel.NONE:
        conversions.check_guarantee(study.epsilon, study.delta)
        problem = next(_problems_of_noise(study), None)
    if problem is not None:
        raise ParameterError(problem)


def _problems_of_sites(study: Study) -> Iterator[str]:
    """Of sites, their keys and their held-out records."""
    has_names = bool(study.sites) or bool(study.coordinator)
    if has_names and (len(study.sites) != study.n_sites or not study.coordinator):
        yield (
            f"the study names {len(study.sites)} keys of {study.n_sites} sites and "
            f"{'a' if study.coordinator else 'no'} coordinator's; name all of them, or none "
            "in a simulation."
        )
    if study.names and (len(study.names), len(set(study.names))) != (study.n_sites,) * 2:
        yield (
            f"the study has {len(set(study.names))} names for {study.n_sites} sites; give each "
            "site one of its own."
        )
    if study.reply_interval and study.n_sites == 1:
        yield f"reply_interval is {study.reply_interval}, but one site replies to nobody; use 0."
    if type(study.hold_out) is not int or not (
        study.hold_out == 0 or 2 <= study.hold_out <= MOST_FOLDS
    ):
        yield (
            f"hold_out is {study.hold_out!r}; use 0 (no record is held out) or 2 to {MOST_FOLDS}: "
            "one record in so many."
        )
    if study.asks_held_out and not study.hold_out:
        yield "held-out records are asked, but hold_out is 0; say one in how many is."
    if study.asks_held_out and study.dp_model is DPModel.LABEL:
        yield (
            "held-out records cannot be asked under dp_model 'label', where labels are "
            "randomized before training; leave the evaluation out, or use another DP model."
        )


def _problems_of_noise(study: Study) -> Iterator[str]:
    """Of the DP model, of delta, which covers what a sparse graph may expose, and of reports."""
    dp_model, n_classes = study.dp_model, len(study.schema.classes or ())
    if dp_model is DPModel.CENTRAL and study.n_sites != 1:
        yield (
            f"dp_model 'central' needs one site, but {study.n_sites} sites hold rows; "
            "use 'distributed' or 'per_site'."
        )
    if dp_model is DPModel.DISTRIBUTED and study.n_sites < 2:
        yield (
            "dp_model 'distributed' divides noise among sites, but one site holds all rows; "
            "use 'central'."
        )
    if dp_model is DPModel.LABEL and (study.delta > 0 or study.schema.classes is None):
        yield (
            "dp_model 'label' randomizes class labels under pure epsilon; use delta = 0 and "
            "a schema with classes."
        )
    if study.graph_delta and not study.graph_delta < study.delta:
        yield (
            f"a sparse graph may expose something in {study.graph.rounds if study.graph else 0} "
            f"rounds with probability {float(study.graph_delta):.2g}, and delta is "
            f"{float(study.delta):.2g}; use the complete graph, a larger delta, a larger sigma or "
            "fewer rounds."
        )
    reports = study.label_reports
    if reports is None:
        return
    if dp_model is not DPModel.LABEL:
        yield (
            f"label reports were given under DP model {dp_model.name.lower()!r}; they "
            "belong to dp_model 'label'."
        )
    if reports.classes != n_classes:
        yield f"label reports are for {reports.classes} classes; the schema has {n_classes}."
    if study.entry_cost > study.epsilon:
        yield (
            f"label reports cost a person epsilon {float(study.entry_cost):.4g} for ever; the "
            f"study guarantees {float(study.epsilon):.4g}. Keep fewer bits or guarantee more."
        )
