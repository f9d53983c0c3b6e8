"""Gate 3: what a site picks, at the end of `respond`, follows the law that was paid for.

Scores and coefficient are written down again from the rows and the study; picks are compared with
the exact probabilities, by a binomial test for each candidate, at 1e-9 together. Twins sharpen the
choice unpaid.
"""

from __future__ import annotations

import math
from fractions import Fraction
from statistics import NormalDist

import numpy as np
import pytest
from scipy.stats import binomtest

from hedgerow.data.prepared import StudyRows
from hedgerow.federation import client
from hedgerow.federation.client import respond
from hedgerow.privacy.accounting.budget import DPModel
from hedgerow.privacy.mechanisms.coins import SecretRandomness
from hedgerow.privacy.pricing import priced
from hedgerow.privacy.queries import LATTICE, LocalSelection, Mechanism, Score, Scoring, SelectQuery
from hedgerow.schema.regions import EVERYONE
from hedgerow.schema.schema import Numeric, Schema
from support.choices import exponential_pmf, permute_and_flip_pmf, report_noisy_max_pmf
from support.worlds import site_rows, study

pytestmark = pytest.mark.statistical

ALPHA = 1e-9
DRAWS = 1200
SCHEMA = Schema((Numeric("x", 0.0, 10.0, bins=10),), classes=("no", "yes"))
SPLITS = tuple(SCHEMA.grids[0].split_values(range(k)) for k in range(1, 9))
RECORDS = [(x, "yes" if x > 4 or x == 1 else "no") for x in range(10) for _ in range(3)]
SHARE = Fraction(1, 2)


PMFS = {
    Mechanism.EXPONENTIAL: exponential_pmf,
    Mechanism.PERMUTE_AND_FLIP: permute_and_flip_pmf,
    Mechanism.REPORT_NOISY_MAX: report_noisy_max_pmf,
}
CASES = [
    (mechanism, delta, m)
    for mechanism, delta in [
        (Mechanism.PERMUTE_AND_FLIP, "0"),
        (Mechanism.EXPONENTIAL, "0"),
        (Mechanism.EXPONENTIAL, "1e-6"),
        (Mechanism.REPORT_NOISY_MAX, "0"),
        (Mechanism.REPORT_NOISY_MAX, "1e-6"),
        (Mechanism.PERMUTE_AND_FLIP, "1e-6"),
    ]
    for m in (1, 3)
]


def gini_scores(candidates: int) -> list[int]:
    """- n (1 - sum p^2) of both sides of "x < k", in units, rounded as the choice has it."""
    scores = []
    for k in range(1, candidates + 1):
        loss = 0
        for side in (True, False):
            labels = [y for x, y in RECORDS if (x < k) == side]
            n, yes = len(labels), labels.count("yes")
            loss += 2 * (LATTICE * (n * n - yes**2 - (n - yes) ** 2) // (2 * max(n, 1)))
        scores.append(-loss)
    return scores


def coefficient(the_study, mechanism: Mechanism, m: int) -> Fraction:
    """Epsilon of the choice over how far m records can move scores apart: 2 a record."""
    if the_study.delta == 0:
        epsilon = SHARE * the_study.epsilon
    else:
        half = math.sqrt(SHARE * the_study.total) / 2
        epsilon = Fraction(math.log(NormalDist().cdf(half) / NormalDist().cdf(-half)))
        if mechanism is Mechanism.EXPONENTIAL:  # its loss has a range of epsilon, not of twice that
            epsilon *= 2
    return epsilon / (2 * LATTICE * m)


def follows(kind, candidates: int, mechanism: Mechanism, delta: str, m: int) -> bool:
    """The gate: many picks of one site against the exact probabilities."""
    n_sites = 1 if kind is SelectQuery else 3
    the_study = study(SCHEMA, n_sites, epsilon="2", delta=delta, records_per_person=m)
    X, y = np.array([[float(x)] for x, _ in RECORDS]), np.array([y for _, y in RECORDS], object)
    (rows,) = site_rows(X, y, np.zeros(len(RECORDS), int), 1, SCHEMA)
    query = kind(EVERYONE, SPLITS[:candidates], Scoring(Score.GINI), SHARE, mechanism)
    asked = [priced(the_study, query)] * DRAWS
    selections = respond(StudyRows(the_study, rows), asked, SecretRandomness()).selections
    exact = PMFS[mechanism](gini_scores(candidates), coefficient(the_study, mechanism, m))
    found = np.bincount(selections, minlength=candidates)
    tests = (binomtest(int(k), DRAWS, float(p)) for k, p in zip(found, exact, strict=True))
    return min(test.pvalue for test in tests) > ALPHA / candidates


@pytest.mark.parametrize("candidates", [2, 8])
@pytest.mark.parametrize(("mechanism", "delta", "m"), CASES)
def test_a_holders_picks_follow_the_law_that_was_paid_for(candidates, mechanism, delta, m):
    assert follows(SelectQuery, candidates, mechanism, delta, m)


@pytest.mark.parametrize("m", [1, 3])
@pytest.mark.parametrize("mechanism", list(PMFS))
def test_a_sites_own_picks_follow_it_too(mechanism, m):
    assert follows(LocalSelection, 6, mechanism, "0", m)


def sharpened(monkeypatch, factor: int) -> None:
    for mechanism, right in list(client.MECHANISMS.items()):
        monkeypatch.setitem(
            client.MECHANISMS,
            mechanism,
            lambda s, c, secret, right=right: right(s, factor * c, secret),
        )


@pytest.mark.parametrize("kind", [SelectQuery, LocalSelection])
@pytest.mark.parametrize(("mechanism", "delta", "m"), [CASES[0], CASES[3]])
def test_a_coefficient_doubled_at_the_site_is_seen(kind, mechanism, delta, m, monkeypatch):
    sharpened(monkeypatch, 2)
    assert not follows(kind, 8, mechanism, delta, m)


@pytest.mark.parametrize("kind", [SelectQuery, LocalSelection])
@pytest.mark.parametrize("mechanism", list(PMFS))
def test_records_per_person_ignored_in_a_choice_is_seen(kind, mechanism, monkeypatch):
    sharpened(monkeypatch, 3)
    assert not follows(kind, 8, mechanism, "0", 3)


def test_without_noise_the_best_is_picked():
    """And only there: a choice without randomness tells everything."""
    nowhere = study(SCHEMA, 1, DPModel.NONE)
    X, y = np.array([[float(x)] for x, _ in RECORDS]), np.array([y for _, y in RECORDS], object)
    (rows,) = site_rows(X, y, np.zeros(len(RECORDS), int), 1, SCHEMA)
    query = SelectQuery(EVERYONE, SPLITS, Scoring(Score.GINI), SHARE)
    asked = [priced(nowhere, query)]
    (selection,) = respond(StudyRows(nowhere, rows), asked, SecretRandomness()).selections
    assert selection == int(np.argmax(gini_scores(8)))
