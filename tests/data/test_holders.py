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
from hedgerow.data.holders import declared_parties, split_by_party
from hedgerow.data.prepared import permanent_bits, told_once
from hedgerow.data.rows import Draws
from hedgerow.errors import DataError, SpecError
from hedgerow.federation.transports import in_process
from hedgerow.privacy.accounting.budget import Placement
from hedgerow.privacy.mechanisms.response import ALL_WORDS, BloomReports
from hedgerow.privacy.queries import Count, SumQuery, Whole
from hedgerow.schema.regions import Fold, Step
from methods.test_estimators import EACH_OF_SEVERAL, small, world
from studies.simulation import Sites
from support.worlds import TWO, holders, opened_by, sample, study, tap

X, Y = sample(60, TWO)
OWNER = np.array(["a", "b", "c"])[np.arange(60) % 3]
SITES = ["a", "b", "c", "empty"]
IS_PUBLIC = "which parties hold rows is public"


def tree(**options):
    return hr.HistogramTreeClassifier(TWO, max_depth=2, **options)


def numbers_of_rows(party, parties=None, n=60):
    y = np.arange(n)
    names = declared_parties(party, parties)
    return [len(labels) for _, labels in split_by_party(y[:, None], y, party, names)]


# ------------------------------------------------------------------------------- who takes part
def test_a_party_without_rows_takes_part_when_it_is_named():
    assert numbers_of_rows(OWNER, SITES) == [20, 20, 20, 0]
    assert numbers_of_rows(OWNER, ["empty", "c", "b", "a"]) == [0, 20, 20, 20]
    assert numbers_of_rows(OWNER) == [20, 20, 20]


@pytest.mark.parametrize(
    "wrap", [pd.Categorical, lambda *a, **k: pd.Series(pd.Categorical(*a, **k))]
)
def test_the_categories_of_a_categorical_are_the_parties(wrap):
    party = wrap(OWNER, categories=SITES)
    assert numbers_of_rows(party) == [20, 20, 20, 0]
    assert numbers_of_rows(party, ["c", "b", "a"]) == [20, 20, 20]
    assert IS_PUBLIC not in str(tree().fit(X, Y, party=party).privacy_)


@pytest.mark.parametrize("place", [0, 1, 2])
def test_one_record_decides_nothing_about_who_takes_part(place):
    """The same three sites, the same noise, whether or not a site holds a record."""
    owner = np.where(np.arange(60) == 7, place, (place + 1) % 3)
    without = np.delete(np.arange(60), 7)
    one, other = (
        tree().fit(X[rows], Y[rows], party=owner[rows], parties=range(3))
        for rows in (np.arange(60), without)
    )
    assert one.privacy_.parties == other.privacy_.parties == 3
    assert one.privacy_.honest_shares == other.privacy_.honest_shares
    assert [r.integers for r in one.run_.rounds[:1]] == [r.integers for r in other.run_.rounds[:1]]


def test_without_names_one_record_makes_a_site_appear_and_the_statement_says_so():
    """Twin of the test above."""
    owner = (np.arange(60) == 7).astype(int) + np.arange(60) % 2 * 2
    without = np.flatnonzero(owner != 3)
    one, other = (tree().fit(X[r], Y[r], party=owner[r]) for r in (np.arange(60), without))
    assert one.privacy_.parties != other.privacy_.parties
    assert IS_PUBLIC in str(one.privacy_)
    assert any(IS_PUBLIC in caveat for caveat in one.privacy_.to_dict()["caveats"])
    assert IS_PUBLIC not in str(tree().fit(X, Y, party=OWNER, parties=SITES).privacy_)
    assert IS_PUBLIC not in str(tree().fit(X, Y).privacy_)


@EACH_OF_SEVERAL
def test_an_empty_party_answers_for_every_estimator(kind):
    schema, rows, y = world(kind)
    model = small(kind, schema=schema, epsilon=20.0, delta=1e-6)
    model.fit(rows, y, party=np.arange(len(y)) % 3, parties=range(4))
    assert model.privacy_.parties == 4
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
    tree(epsilon=1e-8, delta=1e-8).fit(X, Y, party=OWNER, parties=SITES)
    assert kept
    assert all(response.vector.any() for response in kept)


# ------------------------------------------------------------------------------------- the rows
@pytest.mark.parametrize(
    "party",
    [
        OWNER,
        OWNER.astype(object),
        OWNER.tolist(),
        pd.Series(OWNER),
        pd.Series(OWNER, dtype="string"),
    ],
)
def test_each_party_gets_its_own_rows_in_their_order(party):
    parts = split_by_party(X, np.arange(60), party, SITES)
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
        for part, labels in split_by_party(table, np.arange(60), OWNER, SITES):
            assert np.asarray(part["n"]).tolist() == labels.tolist()


def test_an_arrow_table_is_fitted_by_the_names_of_its_columns():
    table = pa.table({"z": np.zeros(60), "b": Y == "yes", "a": np.arange(60.0)})
    schema = hr.Schema((hr.Numeric("a", 0, 60), hr.Numeric("b", 0, 1)), classes=TWO.classes)
    model = hr.HistogramTreeClassifier(schema, epsilon=900.0, max_depth=1)
    model.fit(table, Y, party=OWNER, parties=SITES)
    assert model.predict(table).tolist() == Y.tolist()
    assert model.feature_names_in_.tolist() == ["a", "b"]  # those of the schema


def test_numbers_and_texts_may_name_parties_side_by_side():
    assert numbers_of_rows([1, "a", 1, 2], n=4) == [2, 1, 1]


# ------------------------------------------------------------------------------- what is refused
@pytest.mark.parametrize(
    ("party", "says"),
    [
        ([*OWNER[:59], "stranger"], "'stranger' in some row, which is not among the parties"),
        ([*OWNER[:59], None], "party is None in some row; say for each row"),
        ([*OWNER[:59], math.nan], "party is nan in some row"),
        (pd.Series([*OWNER[:59], pd.NA]), "party is .* in some row; say for each row"),
        (pd.Categorical([*OWNER[:59], None]), "party is nan in some row"),
        (np.array([*OWNER[:59], math.nan]), "party is 'nan' in some row"),
        ([[name] for name in OWNER], "party holds lists"),
        (OWNER[:59], "party names 59 rows"),
    ],
)
@pytest.mark.parametrize("parties", [None, SITES])
def test_a_row_that_no_party_holds_is_refused(party, says, parties):
    if parties is None and "stranger" in says:
        parties = ["a", "b", "c"]
    with pytest.raises(DataError, match=says):
        tree().fit(X, Y, party=party, parties=parties)


@pytest.mark.parametrize(
    ("party", "parties", "says"),
    [
        (None, SITES, "give both"),
        (OWNER, "abc", "parties is 'abc'; give the names"),
        (OWNER, 3, "parties is 3; give the names"),
        (OWNER, [], "at least one name"),
        (OWNER, ["a", "b", "c", None], "each a text or a number"),
        (OWNER, ["a", "b", "c", ["d"]], "each a text or a number"),
        (OWNER, ["a", "b", "c", "c"], "name every site once"),
    ],
)
def test_parties_that_name_nobody_or_somebody_twice_are_refused(party, parties, says):
    with pytest.raises(SpecError, match=says):
        tree().fit(X, Y, party=party, parties=parties)


def test_what_fit_takes_is_said_when_it_gets_something_else():
    with pytest.raises(TypeError, match="push_down, party, parties and person"):
        tree().fit(X, Y, partys=OWNER)


# --------------------------------------------------------------------------------------------------
# Equal records at different holders: their told labels and folds are independent.
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
