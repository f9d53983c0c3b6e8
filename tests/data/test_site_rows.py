"""Who takes part is said beforehand: no record decides whether its site appears."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from fractions import Fraction

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from scipy.stats import binomtest

import hedgerow as hr
from hedgerow.data.prepared import permanent_bits, randomize_labels_once
from hedgerow.data.rows import Draws
from hedgerow.data.site_rows import declared_sites, split_by_site
from hedgerow.errors import DataError, ParameterError
from hedgerow.federation.transports import in_process
from hedgerow.privacy.accounting.budget import DPModel
from hedgerow.privacy.mechanisms.response import ALL_WORDS, BloomRandomizedResponse
from hedgerow.privacy.queries import Count, SumQuery, Whole
from hedgerow.schema.regions import Fold, Step
from methods.test_estimators import EACH_OF_SEVERAL, small, world
from studies.simulation import Sites
from support.worlds import TWO, opened_by, sample, site_rows, study, tap

X, Y = sample(60, TWO)
OWNER = np.array(["a", "b", "c"])[np.arange(60) % 3]
SITES = ["a", "b", "c", "empty"]
IS_PUBLIC = "which sites hold rows is public"


def tree(**options):
    return hr.HistogramTreeClassifier(TWO, max_depth=2, **options)


def numbers_of_rows(site, sites=None, n=60):
    y = np.arange(n)
    names = declared_sites(site, sites)
    return [len(labels) for _, labels in split_by_site(y[:, None], y, site, names)]


# ------------------------------------------------------------------------------- who takes part
def test_a_party_without_rows_takes_part_when_it_is_named():
    assert numbers_of_rows(OWNER, SITES) == [20, 20, 20, 0]
    assert numbers_of_rows(OWNER, ["empty", "c", "b", "a"]) == [0, 20, 20, 20]
    assert numbers_of_rows(OWNER) == [20, 20, 20]


@pytest.mark.parametrize(
    "wrap", [pd.Categorical, lambda *a, **k: pd.Series(pd.Categorical(*a, **k))]
)
def test_the_categories_of_a_categorical_are_the_parties(wrap):
    site = wrap(OWNER, categories=SITES)
    assert numbers_of_rows(site) == [20, 20, 20, 0]
    assert numbers_of_rows(site, ["c", "b", "a"]) == [20, 20, 20]
    assert IS_PUBLIC not in str(tree().fit(X, Y, site=site).privacy_)


@pytest.mark.parametrize("place", [0, 1, 2])
def test_one_record_decides_nothing_about_who_takes_part(place):
    """The same three sites, the same noise, whether or not a site holds a record."""
    owner = np.where(np.arange(60) == 7, place, (place + 1) % 3)
    without = np.delete(np.arange(60), 7)
    one, other = (
        tree().fit(X[rows], Y[rows], site=owner[rows], sites=range(3))
        for rows in (np.arange(60), without)
    )
    assert one.privacy_.n_sites == other.privacy_.n_sites == 3
    assert one.privacy_.honest_shares == other.privacy_.honest_shares
    assert [r.integers for r in one.run_.rounds[:1]] == [r.integers for r in other.run_.rounds[:1]]


def test_without_names_one_record_makes_a_site_appear_and_the_statement_says_so():
    """Twin of the test above."""
    owner = (np.arange(60) == 7).astype(int) + np.arange(60) % 2 * 2
    without = np.flatnonzero(owner != 3)
    one, other = (tree().fit(X[r], Y[r], site=owner[r]) for r in (np.arange(60), without))
    assert one.privacy_.n_sites != other.privacy_.n_sites
    assert IS_PUBLIC in str(one.privacy_)
    assert any(IS_PUBLIC in caveat for caveat in one.privacy_.to_dict()["caveats"])
    assert IS_PUBLIC not in str(tree().fit(X, Y, site=OWNER, sites=SITES).privacy_)
    assert IS_PUBLIC not in str(tree().fit(X, Y).privacy_)


@EACH_OF_SEVERAL
def test_an_empty_party_answers_for_every_estimator(kind):
    schema, rows, y = world(kind)
    model = small(kind, schema=schema, epsilon=20.0, delta=1e-6)
    model.fit(rows, y, site=np.arange(len(y)) % 3, sites=range(4))
    assert model.privacy_.n_sites == 4
    assert len(model.predict(rows)) == len(y)


def test_an_empty_party_answers_with_noise_alone(monkeypatch):
    opened = in_process.open_federation
    kept = []

    def watched(*arguments):
        federation = opened(*arguments)
        rows = federation.sites.clients[3].rows
        tap(monkeypatch, rows, lambda make: kept.append(make()) or kept[-1])
        return federation

    monkeypatch.setattr(in_process, "open_federation", watched)
    # Noise so wide that no draw of it is zero by chance.
    tree(epsilon=1e-8, delta=1e-8).fit(X, Y, site=OWNER, sites=SITES)
    assert kept
    assert all(response.vector.any() for response in kept)


# ------------------------------------------------------------------------------------- the rows
@pytest.mark.parametrize(
    "site",
    [
        OWNER,
        OWNER.astype(object),
        OWNER.tolist(),
        pd.Series(OWNER),
        pd.Series(OWNER, dtype="string"),
    ],
)
def test_each_party_gets_its_own_rows_in_their_order(site):
    parts = split_by_site(X, np.arange(60), site, SITES)
    assert [labels.tolist() for _, labels in parts] == [
        list(range(0, 60, 3)),
        list(range(1, 60, 3)),
        list(range(2, 60, 3)),
        [],
    ]
    for rows, labels in parts:
        assert rows.tolist() == X[labels].tolist()


def test_rows_of_frames_and_tables_stay_with_their_party():
    frame = pd.DataFrame({"n": np.arange(60)}, index=np.arange(60)[::-1])
    for table in (frame, pa.table({"n": np.arange(60)})):
        for part, labels in split_by_site(table, np.arange(60), OWNER, SITES):
            assert np.asarray(part["n"]).tolist() == labels.tolist()


def test_an_arrow_table_is_fitted_by_the_names_of_its_columns():
    table = pa.table({"z": np.zeros(60), "b": Y == "yes", "a": np.arange(60.0)})
    schema = hr.Schema((hr.Numeric("a", 0, 60), hr.Numeric("b", 0, 1)), classes=TWO.classes)
    model = hr.HistogramTreeClassifier(schema, epsilon=900.0, max_depth=1)
    model.fit(table, Y, site=OWNER, sites=SITES)
    assert model.predict(table).tolist() == Y.tolist()
    assert model.feature_names_in_.tolist() == ["a", "b"]  # those of the schema


def test_numbers_and_texts_may_name_parties_side_by_side():
    assert numbers_of_rows([1, "a", 1, 2], n=4) == [2, 1, 1]


# ------------------------------------------------------------------------------- what is refused
@pytest.mark.parametrize(
    ("site", "says"),
    [
        ([*OWNER[:59], "stranger"], "'stranger' in some row, which is not among the sites"),
        ([*OWNER[:59], None], "site is None in some row; say for each row"),
        ([*OWNER[:59], math.nan], "site is nan in some row"),
        (pd.Series([*OWNER[:59], pd.NA]), "site is .* in some row; say for each row"),
        (pd.Categorical([*OWNER[:59], None]), "site is nan in some row"),
        (np.array([*OWNER[:59], math.nan]), "site is 'nan' in some row"),
        ([[name] for name in OWNER], "site holds lists"),
        (OWNER[:59], "site names 59 rows"),
    ],
)
@pytest.mark.parametrize("sites", [None, SITES])
def test_a_row_that_no_party_holds_is_refused(site, says, sites):
    if sites is None and "stranger" in says:
        sites = ["a", "b", "c"]
    with pytest.raises(DataError, match=says):
        tree().fit(X, Y, site=site, sites=sites)


@pytest.mark.parametrize(
    ("site", "sites", "says"),
    [
        (None, SITES, "give both"),
        (OWNER, "abc", "sites is 'abc'; give the names"),
        (OWNER, 3, "sites is 3; give the names"),
        (OWNER, [], "at least one name"),
        (OWNER, ["a", "b", "c", None], "each a text or a number"),
        (OWNER, ["a", "b", "c", ["d"]], "each a text or a number"),
        (OWNER, ["a", "b", "c", "c"], "name every site once"),
    ],
)
def test_parties_that_name_nobody_or_somebody_twice_are_refused(site, sites, says):
    with pytest.raises(ParameterError, match=says):
        tree().fit(X, Y, site=site, sites=sites)


def test_what_fit_takes_is_said_when_it_gets_something_else():
    with pytest.raises(TypeError, match="push_down, site, sites and person"):
        tree().fit(X, Y, partys=OWNER)


# --------------------------------------------------------------------------------------------------
# Equal records at different sites: their told labels and folds are independent.
ALPHA = 1e-6
COPIES = 4096
"""Equal records of each site. They differ by their number only, so each is one experiment."""
FOLD = Fold("trees", 3)
SITE_ROWS = pytest.mark.parametrize("k", [2, 3, 5])
ONE_LABEL = study(TWO, 2, DPModel.LABEL, epsilon="1")


def copies(k: int):
    """COPIES times the same record at each of k sites."""
    X, _ = sample(1, TWO)
    n = k * COPIES
    return np.repeat(X, n, axis=0), np.full(n, "yes", object), np.arange(n) % k


def fitted_sites(k: int, dp_model: str = "label", seed: int = 0):
    X, y, owner = copies(k)
    model = hr.HistogramTreeClassifier(TWO, dp_model=dp_model, random_state=seed)
    return opened_by(model, X, y, site=owner)[1]


def told(parts) -> np.ndarray:
    """(K, COPIES) the labels as they are told."""
    return np.stack([randomize_labels_once(rows, ONE_LABEL).labels for rows in parts])


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


@SITE_ROWS
def test_labels_that_a_fit_tells_of_equal_records_are_independent(k):
    assert are_independent(told(fitted_sites(k)), LABEL_ODDS)


@SITE_ROWS
@pytest.mark.parametrize("dp_model", ["label", "distributed", "none"])
def test_folds_of_equal_records_in_a_fit_are_independent(k, dp_model):
    assert are_independent(folds(fitted_sites(k, dp_model)), FOLD_ODDS)


@SITE_ROWS
def test_bits_that_a_fit_tells_of_equal_records_are_independent(k):
    reports = BloomRandomizedResponse(classes=2, bits=2, hashes=1, keep=Fraction(1, 2))
    parts = fitted_sites(k)
    first_bits = np.stack([permanent_bits(rows, reports)[:, 0] for rows in parts]).astype(int)
    flip, yes = Fraction(reports._flip_words, ALL_WORDS), reports.code[TWO.class_code("yes")]
    assert are_independent(first_bits, [flip, 1 - flip] if yes[0] else [1 - flip, flip])


@SITE_ROWS
def test_holders_of_the_test_worlds_are_independent(k):
    X, y, owner = copies(k)
    parts = site_rows(X, y, owner, k, TWO)
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


@SITE_ROWS
def test_one_secret_for_all_holders_turns_the_gate_red(k, monkeypatch):
    """Twin: what every fit did before."""
    monkeypatch.setattr(
        "hedgerow.data.site_rows.secret_draws", lambda name, k: [Draws(bytes(32), name)] * k
    )
    parts = fitted_sites(k)
    assert not are_independent(told(parts), LABEL_ODDS)
    assert not are_independent(folds(parts), FOLD_ODDS)


def test_without_noise_folds_repeat_with_random_state():
    one, again, other = (folds(fitted_sites(3, "none", seed)) for seed in (0, 0, 1))
    assert np.array_equal(one, again)
    assert not np.array_equal(one, other)


def test_with_noise_folds_do_not_repeat_with_random_state():
    one, again = (folds(fitted_sites(3, "label", seed=0)) for _ in range(2))
    assert not np.array_equal(one, again)
