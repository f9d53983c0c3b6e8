"""Gate 2: the noise at the end of the real pipeline (quantise, share, mask, unmask) is the law's.

Parties hold no rows, so what is opened is noise alone. The shares of all but h parties are
subtracted, as colluders would. Two tests with bounds that hold at any sample size: an exact
binomial on the zeros and the Dvoretzky-Kiefer-Wolfowitz inequality, each at 1e-12.
"""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from contract.worlds import federation, holders, study
from hedgerow.privacy.accounting.budget import Placement
from hedgerow.privacy.noise.mechanisms import DiscreteGaussian, DiscreteLaplace, PolyaDifference
from hedgerow.queries import Binning, Cells, ClassCounts, SumQuery
from hedgerow.site.member import Member, Response
from hedgerow.study.terms import Study
from hedgerow.values.regions import EVERYONE
from hedgerow.values.schema import Numeric, Schema

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
    Fraction(1),
)
PARTIES = 5


class Noise:
    """One round over empty parties, with every party's own vector kept."""

    def __init__(self, the_study: Study, change=lambda party, vector: vector):
        X, y = np.empty((0, N_FEATURES)), np.empty(0, object)
        fed = federation(the_study, holders(X, y, np.empty(0, int), PARTIES, SCHEMA))
        self.vectors = []
        for party, endpoint in enumerate(fed.link.endpoints):
            endpoint.member.respond = self._kept(party, endpoint.member, change)
        (answer,) = fed.ask([QUERY])
        units = np.rint(answer.values * the_study.unit(QUERY) * the_study.refinement(QUERY))
        self.opened = units.astype(np.int64).reshape(-1)
        self.honest = self.opened - sum(self.vectors[the_study.honest :])
        self.law = the_study.sum_law(QUERY)
        self.declared_variance = answer.variance

    def _kept(self, party, member: Member, change):
        plain = member.respond

        def respond(bundle, secret):
            response = plain(bundle, secret)
            vector = change(party, response.vector)
            self.vectors.append(vector)
            return Response(vector, response.picks)

        return respond


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


PURE = study(SCHEMA, PARTIES, epsilon="100")
GAUSSIAN = study(SCHEMA, PARTIES, epsilon="40", delta="1e-6")


@pytest.mark.parametrize("the_study", [PURE, GAUSSIAN], ids=["laplace", "gaussian"])
def test_h_honest_shares_are_exactly_the_declared_noise(the_study):
    noise = Noise(the_study)
    assert isinstance(noise.law, DiscreteLaplace | DiscreteGaussian)
    assert passes(noise.honest, noise.law)


@pytest.mark.parametrize("the_study", [PURE, GAUSSIAN], ids=["laplace", "gaussian"])
def test_the_variance_an_answer_states_is_that_of_all_shares(the_study):
    noise = Noise(the_study)
    scale = the_study.unit(QUERY) * the_study.refinement(QUERY)
    measured = noise.opened.astype(float).var() / scale**2
    assert measured == pytest.approx(noise.declared_variance, rel=0.03)


def halved(law):
    if isinstance(law, PolyaDifference):
        return replace(law, rate=2 * law.rate)
    return replace(law, sigma2=law.sigma2 / 4)


@pytest.mark.parametrize("the_study", [PURE, GAUSSIAN], ids=["laplace", "gaussian"])
def test_half_the_noise_is_seen(the_study, monkeypatch):
    right = Study.site_law
    monkeypatch.setattr(Study, "site_law", lambda self, query: halved(right(self, query)))
    noise = Noise(the_study)
    assert not passes(noise.honest, noise.law)


@pytest.mark.parametrize("the_study", [PURE, GAUSSIAN], ids=["laplace", "gaussian"])
def test_one_silent_party_is_seen(the_study):
    noise = Noise(the_study, lambda party, vector: vector * 0 if party == 0 else vector)
    assert not passes(noise.honest, noise.law)


@pytest.mark.parametrize("the_study", [PURE, GAUSSIAN], ids=["laplace", "gaussian"])
def test_shares_for_all_parties_instead_of_the_honest_ones_are_seen(the_study, monkeypatch):
    monkeypatch.setattr(Study, "site_law", lambda self, q: self.sum_law(q).share(self.parties))
    noise = Noise(the_study)
    assert not passes(noise.honest, noise.law)


def test_features_treated_as_parallel_are_seen(monkeypatch):
    right = PURE.sum_law(QUERY)
    parallel = DiscreteLaplace(right.rate * N_FEATURES).share(PURE.honest)
    monkeypatch.setattr(Study, "site_law", lambda self, query: parallel)
    noise = Noise(PURE)
    assert not passes(noise.honest, right)


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


def test_every_placement_that_promises_something_adds_its_own_noise():
    silo = replace(PURE, placement=Placement.SILO)
    noise = Noise(silo)
    assert all(passes(vector, noise.law) for vector in noise.vectors)
    nowhere = Noise(replace(PURE, placement=Placement.NOWHERE))
    assert not nowhere.opened.any()
