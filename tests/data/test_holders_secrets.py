"""Equal records at different holders: their told labels and folds are independent.

A draw is a function of the holder's secret and of the record's content, so a secret that two
holders share makes equal records lie together, and the loss of one label is then unbounded.
"""

from __future__ import annotations

import itertools
from collections import Counter
from fractions import Fraction

import numpy as np
import pytest
from scipy.stats import binomtest

import hedgerow as hr
from hedgerow.data.prepared import permanent_bits, told_once
from hedgerow.data.rows import Draws
from hedgerow.privacy.accounting.budget import Placement
from hedgerow.privacy.mechanisms.response import ALL_WORDS, BloomReports
from hedgerow.privacy.queries import Count, SumQuery, Whole
from hedgerow.schema.regions import Fold, Step
from studies.simulation import Sites
from support.worlds import TWO, holders, opened_by, sample, study

ALPHA = 1e-6
COPIES = 4096
"""Equal records of each holder. They differ by their number only, so each is one experiment."""
FOLD = Fold("trees", 3)
HOLDERS = pytest.mark.parametrize("k", [2, 3, 5])
ONE_LABEL = study(TWO, 2, Placement.LABEL, epsilon="1")


def copies(k: int):
    """COPIES times the same record at each of k holders."""
    X, _ = sample(1, TWO)
    n = k * COPIES
    return np.repeat(X, n, axis=0), np.full(n, "yes", object), np.arange(n) % k


def fitted_holders(k: int, placement: str = "label", seed: int = 0):
    X, y, owner = copies(k)
    model = hr.HistogramTreeClassifier(TWO, placement=placement, random_state=seed)
    return opened_by(model, X, y, party=owner)[1]


def told(parts) -> np.ndarray:
    """(K, COPIES) the labels as they are told."""
    return np.stack([told_once(rows, ONE_LABEL).labels for rows in parts])


def folds(parts) -> np.ndarray:
    return np.stack([rows.fold(FOLD) for rows in parts])


def are_independent(drawn: np.ndarray, odds: list[Fraction]) -> bool:
    """Whether all joint outcomes are as frequent as products of `odds` say: exact tests."""
    met = Counter(map(tuple, drawn.T.tolist()))
    outcomes = list(itertools.product(range(len(odds)), repeat=len(drawn)))
    chance = {o: float(np.prod([float(odds[v]) for v in o])) for o in outcomes}
    tests = [binomtest(met[o], drawn.shape[1], chance[o]).pvalue for o in outcomes]
    return min(tests) > ALPHA / len(tests)


LABEL_ODDS = [1 - ONE_LABEL.response.keep, ONE_LABEL.response.keep]  # all labels are "yes"
FOLD_ODDS = [Fraction(1, 3)] * 3


@HOLDERS
def test_labels_that_a_fit_tells_of_equal_records_are_independent(k):
    assert are_independent(told(fitted_holders(k)), LABEL_ODDS)


@HOLDERS
@pytest.mark.parametrize("placement", ["label", "shares", "nowhere"])
def test_folds_of_equal_records_in_a_fit_are_independent(k, placement):
    assert are_independent(folds(fitted_holders(k, placement)), FOLD_ODDS)


@HOLDERS
def test_bits_that_a_fit_tells_of_equal_records_are_independent(k):
    reports = BloomReports(classes=2, bits=2, hashes=1, keep=Fraction(1, 2))
    parts = fitted_holders(k)
    first_bits = np.stack([permanent_bits(rows, reports)[:, 0] for rows in parts]).astype(int)
    flip, yes = Fraction(reports._flip_words, ALL_WORDS), reports.code[TWO.class_code("yes")]
    assert are_independent(first_bits, [flip, 1 - flip] if yes[0] else [1 - flip, flip])


@HOLDERS
def test_holders_of_the_test_worlds_are_independent(k):
    X, y, owner = copies(k)
    parts = holders(X, y, owner, k, TWO)
    assert are_independent(told(parts), LABEL_ODDS)
    assert are_independent(folds(parts), FOLD_ODDS)


def test_sites_of_a_simulation_are_independent():
    X, y, owner = copies(3)
    assert are_independent(folds([site.rows for site in Sites(X, y, owner, TWO).each]), FOLD_ODDS)


def test_sums_over_the_folds_of_a_simulation_leave_nobody_out():
    X, y, owner = copies(3)
    sites = Sites(X, y, owner, TWO)
    counts = [
        sites.integers(SumQuery((Step(FOLD, i),), Count(), Whole(), Fraction(1)), 1)
        for i in range(3)
    ]
    assert np.sum(counts) == 3 * COPIES
    mine = [np.bincount(site.rows.fold(FOLD), minlength=3) for site in sites.each]
    assert np.concatenate(counts).tolist() == np.sum(mine, axis=0).tolist()


@HOLDERS
def test_one_secret_for_all_holders_turns_the_gate_red(k, monkeypatch):
    """Twin: what every fit did before."""
    monkeypatch.setattr(
        "hedgerow.data.holders.secret_draws", lambda name, k: [Draws(bytes(32), name)] * k
    )
    parts = fitted_holders(k)
    assert not are_independent(told(parts), LABEL_ODDS)
    assert not are_independent(folds(parts), FOLD_ODDS)


def test_without_noise_folds_repeat_with_random_state():
    one, again, other = (folds(fitted_holders(3, "nowhere", seed)) for seed in (0, 0, 1))
    assert np.array_equal(one, again)
    assert not np.array_equal(one, other)


def test_with_noise_folds_do_not_repeat_with_random_state():
    one, again = (folds(fitted_holders(3, "label", seed=0)) for _ in range(2))
    assert not np.array_equal(one, again)
