"""Gate 2: the noise at the end of the real pipeline (quantize, share, mask, unmask) is the law's.

What the rows add is counted by hand and taken off, so what is left of an opened sum is noise alone.
The law is written down again from the study's numbers, and the honest shares are counted by the
secure sum's own parameters. Two tests with bounds that hold at any sample size: an exact binomial
on the zeros and the Dvoretzky-Kiefer-Wolfowitz inequality, each at 1e-12.
"""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction
from functools import partial

import numpy as np
import pytest

from hedgerow.federation import client
from hedgerow.federation.client import Response
from hedgerow.models.losses import Sensitivity
from hedgerow.privacy.accounting.budget import DPModel
from hedgerow.privacy.mechanisms.mechanisms import (
    DiscreteGaussian,
    DiscreteLaplace,
    PolyaDifference,
)
from hedgerow.privacy.queries import Binning, Cells, ClassCounts, SumQuery
from hedgerow.privacy.study import Study
from hedgerow.schema.regions import EVERYONE, Step
from hedgerow.schema.schema import Numeric, Schema
from hedgerow.secagg.parameters import Parameters
from support.worlds import federation, site_rows, study, tap

pytestmark = pytest.mark.statistical

ALPHA = 1e-12
N_FEATURES, N_BINS = 200, 249
SCHEMA = Schema(
    tuple(Numeric(f"x{j}", 0.0, 1.0, bins=N_BINS) for j in range(N_FEATURES)),
    classes=("a", "b", "c", "d"),
)
QUERY = SumQuery(
    EVERYONE,
    ClassCounts(4),
    Cells(tuple(range(N_FEATURES)), Binning.of_cells(SCHEMA)),
    Fraction(1, 2),
)
HALF = SCHEMA.grids[0].split_values(range(125))
EMPTY_HALF = replace(QUERY, region=(Step(HALF, 1),))
"""Of records with x0 above the middle: nobody has one."""
PARTIES, ROWS = 5, 40


def rows_of(n_sites: int):
    """Some records for every site, all with x0 below the middle."""
    rng = np.random.default_rng(7)
    X = rng.uniform(0, 1, (ROWS, N_FEATURES))
    X[:, 0] *= 0.49
    y = rng.choice(SCHEMA.classes, ROWS)
    return site_rows(X, y, np.arange(ROWS) % n_sites, n_sites, SCHEMA)


def counted(rows, query) -> np.ndarray:
    """What one site's records add to the query, counted one by one."""
    table = np.zeros(query.shape, np.int64)
    if query.region == EVERYONE:
        for feature, codes in enumerate(rows.codes):
            np.add.at(table, (feature, codes, rows.labels), 1)
    return table.reshape(-1)


class Noise:
    """A query over sites with rows, with the noise of every site, and of the sum, alone."""

    def __init__(self, the_study: Study, query=QUERY, change=lambda site, vector: vector):
        the_study, query = replace(the_study), replace(query)  # a price stays with both
        parts = rows_of(the_study.n_sites)
        self.fed = federation(the_study, parts)
        self.query, self.change = query, change
        self.unit, self.scale = the_study.unit(query), the_study.refinement(query)
        self.exact = [self.scale * counted(rows, query) for rows in parts]
        self.vectors = []
        self.opened, self.declared_variance = self.asked_once_more()
        self.law = law_by_hand(the_study, query)
        self.honest = sum(self.vectors[: honest_shares(the_study)])

    def asked_once_more(self) -> tuple[np.ndarray, float]:
        """The noise of the sum, opened by a round of its own, and the variance it declares."""
        kept = len(self.vectors)
        with pytest.MonkeyPatch.context() as patched:
            for site, rows in enumerate(rows_in(self.fed)):
                tap(patched, rows, partial(self._kept, site))
            (answer,) = self.fed.ask([self.query])
        assert len(self.vectors) > kept
        units = np.rint(answer.values * self.unit * self.scale)
        return units.astype(np.int64).reshape(-1) - sum(self.exact), answer.variance

    def _kept(self, site, make):
        made = make()
        vector = self.change(site, made.vector)
        self.vectors.append(vector - self.exact[site])
        return Response(vector, made.selections)


def rows_in(fed):
    sites = fed.sites
    return [client.rows for client in sites.clients] if hasattr(sites, "clients") else [sites.rows]


def honest_shares(the_study: Study) -> int:
    """By the secure sum's own parameters: fewest survivors less those who may collude."""
    if the_study.dp_model is not DPModel.DISTRIBUTED:
        return 1
    return Parameters(
        n_sites=the_study.n_sites,
        colluders=the_study.colluders,
        threshold=the_study.threshold,
    ).honest


def law_by_hand(the_study: Study, query):
    """A person's m records are each in one cell of every feature."""
    groups, m = query.shape[0], the_study.records_per_person
    if the_study.delta == 0:
        return DiscreteLaplace(query.fraction * the_study.epsilon / (groups * m))
    squared = groups * (m * the_study.refinement(query)) ** 2
    return DiscreteGaussian(squared / (query.fraction * the_study.total))


def cdf_table(law, reach: int) -> np.ndarray:
    """CDF of the law on -reach..reach, from its definition."""
    k = np.arange(-reach, reach + 1, dtype=float)
    if isinstance(law, DiscreteLaplace):
        pmf = np.exp(-float(law.rate) * np.abs(k))
        return np.cumsum(pmf) * math.tanh(float(law.rate) / 2)
    pmf = np.exp(-(k**2) / (2 * float(law.sigma2)))
    return np.cumsum(pmf) / pmf.sum()


def passes(noise: np.ndarray, law) -> bool:
    reach = int(np.abs(noise).max()) + 60 * (1 + int(math.sqrt(law.variance)))
    cdf = cdf_table(law, reach)
    counts = np.bincount(noise + reach, minlength=2 * reach + 1)
    distance = np.abs(np.cumsum(counts) / len(noise) - cdf).max()
    if distance > math.sqrt(math.log(2 / ALPHA) / (2 * len(noise))):
        return False
    from scipy.stats import binom

    p_zero = cdf[reach] - cdf[reach - 1]
    zeros = int(counts[reach])
    tail = min(binom.cdf(zeros, len(noise), p_zero), binom.sf(zeros - 1, len(noise), p_zero))
    return bool(2 * tail >= ALPHA)


PURE = study(SCHEMA, PARTIES, epsilon="200")
GAUSSIAN = study(SCHEMA, PARTIES, epsilon="60", delta="1e-6")
PERSONS = [replace(s, records_per_person=3) for s in (PURE, GAUSSIAN)]
SINGLE_SITE = study(SCHEMA, 1, epsilon="200")
BOTH = pytest.mark.parametrize("the_study", [PURE, GAUSSIAN], ids=["laplace", "gaussian"])
OF_PERSONS = pytest.mark.parametrize("the_study", PERSONS, ids=["laplace", "gaussian"])


def is_declared(the_study: Study, query=QUERY) -> bool:
    """The gate: the noise that colluders do not know is the one that the study pays for."""
    noise = Noise(the_study, query)
    return passes(noise.honest, noise.law)


@BOTH
def test_h_honest_shares_are_exactly_the_declared_noise(the_study):
    assert is_declared(the_study)


@OF_PERSONS
def test_the_noise_of_a_study_of_persons_is_made_for_all_their_records(the_study):
    assert is_declared(the_study)


@OF_PERSONS
def test_records_per_person_ignored_in_sums_is_seen(the_study, monkeypatch):
    monkeypatch.setattr(Study, "_sensitivity", lambda self, query: query.sensitivity(1))
    assert not is_declared(the_study)


@BOTH
def test_colluders_ignored_are_seen(the_study, monkeypatch):
    """Twin: shares made for all survivors, as if none of them could tell."""
    monkeypatch.setattr(Study, "honest", property(lambda self: self.threshold))
    assert not is_declared(replace(the_study))  # another one, since a study keeps its laws


@BOTH
def test_the_variance_an_answer_states_is_that_of_all_shares(the_study):
    noise = Noise(the_study)
    measured = noise.opened.astype(float).var() / (noise.unit * noise.scale) ** 2
    assert measured == pytest.approx(noise.declared_variance, rel=0.03)


def halved(law):
    if isinstance(law, PolyaDifference):
        return replace(law, rate=2 * law.rate)
    return replace(law, sigma2=law.sigma2 / 4)


@BOTH
def test_half_the_noise_is_seen(the_study, monkeypatch):
    right = Study.site_law
    monkeypatch.setattr(Study, "site_law", lambda self, query: halved(right(self, query)))
    assert not is_declared(the_study)


@BOTH
def test_one_silent_party_is_seen(the_study):
    noise = Noise(the_study, change=lambda site, vector: vector * 0 if site == 0 else vector)
    assert not passes(noise.honest, noise.law)


@BOTH
def test_shares_for_all_parties_instead_of_the_honest_ones_are_seen(the_study, monkeypatch):
    monkeypatch.setattr(Study, "site_law", lambda self, q: self.sum_law(q).share(self.n_sites))
    assert not is_declared(the_study)


def test_features_treated_as_parallel_are_seen(monkeypatch):
    monkeypatch.setattr(SumQuery, "sensitivity", lambda query, unit: Sensitivity(1, 1, 1))
    assert not is_declared(PURE)


def test_noise_of_two_rounds_and_of_two_parties_is_unrelated():
    one, two = Noise(PURE), Noise(PURE)
    n = len(one.opened)
    bound = 8.0 / math.sqrt(n)  # eight deviations of a sample correlation: below 1e-14
    for a, b in [
        (one.opened, two.opened),
        (one.vectors[0], one.vectors[1]),
        (one.opened[:-1], one.opened[1:]),
    ]:
        assert abs(np.corrcoef(a, b)[0, 1]) < bound
    assert not np.array_equal(one.vectors[0], one.vectors[1])


# ------------------------------------------------------------------------- noise in every answer
@BOTH
def test_an_answer_of_nothing_but_zeros_carries_its_noise(the_study):
    """Rows that miss the asked region: what leaves does not tell that they do."""
    assert is_declared(the_study, EMPTY_HALF)


@BOTH
def test_noise_left_out_where_the_answer_is_zero_is_seen(the_study, monkeypatch):
    right = client.respond

    def respond(rows, asked, secret):
        exact = rows.sums.integers_of_all([one.query for one in asked], rows.study.unit)
        if any(sums.any() for sums in exact):
            return right(rows, asked, secret)
        return Response(np.concatenate(exact), ())

    monkeypatch.setattr(client, "respond", respond)
    assert is_declared(the_study, QUERY)  # where rows answer, this mutant adds its noise
    assert not is_declared(the_study, EMPTY_HALF)


def two_rounds_are_unrelated(the_study: Study) -> bool:
    """Equal queries in one run: the difference of their noise has the variance of both."""
    noise = Noise(the_study)
    one, two = noise.opened, noise.asked_once_more()[0]
    scale = noise.unit * noise.scale
    return is_of_both((one - two) / scale, noise.declared_variance)


def is_of_both(difference: np.ndarray, variance: float) -> bool:
    spread = difference.var() / (2 * variance)
    # A fourth moment of at most 6 squared variances: eight deviations are below 1e-14.
    return bool(abs(spread - 1) < 8 * math.sqrt(5 / difference.size))


@BOTH
def test_equal_queries_of_one_bundle_have_noise_of_their_own(the_study):
    """Those of one law are drawn together, and each gets a part that is its alone."""
    asked = [replace(QUERY, fraction=QUERY.fraction / 3)] * 3
    one, two, three = federation(the_study, rows_of(the_study.n_sites)).ask(asked)
    for a, b in ((one, two), (two, three), (one, three)):
        assert is_of_both(a.values - b.values, a.variance)


@BOTH
def test_equal_queries_of_one_run_have_noise_of_their_own(the_study):
    assert two_rounds_are_unrelated(the_study)


@BOTH
def test_noise_that_is_drawn_once_and_used_again_is_seen(the_study, monkeypatch):
    """Twin: kept by law and size, as a cache might."""
    right, kept = client.respond, {}

    def respond(rows, asked, secret):
        key = (id(rows), *((one.noise.of_site, one.size) for one in asked))
        return kept.setdefault(key, right(rows, asked, secret))

    monkeypatch.setattr(client, "respond", respond)
    assert is_declared(the_study)  # the law of one round is right
    assert not two_rounds_are_unrelated(the_study)


# ------------------------------------------------------------------------------- every DP model
@pytest.mark.parametrize("m", [1, 3])
@pytest.mark.parametrize("query", [QUERY, EMPTY_HALF], ids=["everybody", "nobody"])
def test_every_placement_that_promises_something_adds_its_own_noise(query, m):
    silo = Noise(replace(PURE, dp_model=DPModel.PER_SITE, records_per_person=m), query)
    assert len(silo.vectors) == PARTIES
    assert all(passes(vector, silo.law) for vector in silo.vectors)
    assert is_declared(replace(SINGLE_SITE, records_per_person=m), query)


def test_where_nothing_is_promised_the_sum_is_exact():
    for dp_model in (DPModel.NONE, DPModel.LABEL):
        noise = Noise(replace(PURE, dp_model=dp_model, epsilon=Fraction(10**6)))
        assert not noise.opened.any()
