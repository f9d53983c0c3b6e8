"""`fit(..., person=ids)`: the bound is kept by each site, and the statement says who counted."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from sklearn.model_selection import GridSearchCV

import hedgerow as hr
from hedgerow.data.prepared import StudyRows
from hedgerow.errors import DataError
from methods.test_estimators import EACH, small, world
from support.worlds import TWO, sample

X, Y = sample(60, TWO)
WHO = np.arange(60) // 6
"""Ten persons of six records each."""


def tree(**options):
    return hr.HistogramTreeClassifier(TWO, max_depth=2, **options)


@pytest.fixture
def taken(monkeypatch):
    """How many records each site answers from."""
    found = []

    class Watched(StudyRows):
        def __init__(self, *given):
            super().__init__(*given)
            found.append(self.sums.rows.n)

    monkeypatch.setattr("hedgerow.federation.transports.in_process.StudyRows", Watched)
    return found


# -------------------------------------------------------------------------------- what is kept
@pytest.mark.parametrize("most", [1, 2, 7])
def test_a_fit_takes_no_more_records_of_a_person_than_it_says(most, taken):
    tree(records_per_person=most).fit(X, Y, person=WHO)
    assert taken == [10 * min(most, 6)]


def test_every_holder_counts_for_itself(taken):
    tree(records_per_person=2).fit(X, Y, person=WHO, site=np.arange(60) % 2)
    assert taken == [20, 20]


def test_persons_go_with_their_rows_in_whatever_order_sites_are_named(taken):
    """Of the first site each row is a person's own; the other one's rows are all of one person."""
    site = np.where(np.arange(60) < 40, "b", "a")
    person = np.where(np.arange(60) < 40, np.arange(60), 99)
    tree().fit(X, Y, person=person, site=site, sites=["b", "a"])
    assert taken == [40, 1]


@EACH
def test_every_estimator_takes_persons(kind, taken):
    schema, rows, y = world(kind)
    who = np.arange(len(y)) // 4
    small(kind, schema=schema).fit(rows, y, person=who)
    assert taken == [len(set(who))]


def test_labels_are_told_of_the_kept_records_only(taken):
    model = hr.ExtraTreesClassifier(TWO, n_estimators=2, max_depth=2, dp_model="label")
    model.fit(X, Y, person=WHO)
    assert taken == [10]


def test_without_persons_all_records_are_taken(taken):
    tree(records_per_person=2).fit(X, Y)
    assert taken == [60]


@pytest.mark.parametrize("wrap", [list, pd.Series, pa.array, pd.Categorical, lambda ids: ids])
def test_ids_may_come_in_any_kind_of_column(wrap, taken):
    tree().fit(X, Y, person=wrap(WHO))
    tree().fit(X, Y, person=wrap([f"nr {who}" for who in WHO]))
    assert taken == [10, 10]


def test_a_search_hands_persons_on(taken):
    search = GridSearchCV(tree(random_state=0), {"max_depth": [1, 2]}, cv=2, refit=False)
    with pytest.warns(hr.PrivacyWarning, match="4 fits"):
        search.fit(X, Y, person=WHO)
    assert len(taken) == 4
    assert max(taken) <= 10


# ------------------------------------------------------------------------------- what is said
def test_without_persons_the_bound_is_said_to_be_believed():
    believed = "assumption: nobody has more than 3 records"
    assert believed in str(tree(records_per_person=3).fit(X, Y).privacy_)
    counted = tree(records_per_person=3).fit(X, Y, person=WHO)
    assert "assumption: nobody" not in str(counted.privacy_)
    assert "assumption: nobody" not in str(tree().fit(X, Y).privacy_)


def test_with_persons_the_unit_is_a_person_however_many_records_they_have():
    said = tree(records_per_person=3).fit(X, Y, person=WHO).privacy_
    assert said.unit == "one person, of whose records 3 at most are kept"
    assert "adding or removing all records of one person" in said.neighbors
    assert "each site kept at most 3 records of each person" in str(said)


def test_a_person_at_two_holders_is_said_to_count_twice():
    twice = "a person with records at several sites counts once for each of them"
    said = tree().fit(X, Y, person=WHO, site=np.arange(60) % 2).privacy_
    assert said.unit == "one person at one site, of whose records 1 at most are kept"
    assert "one person at one site" in said.neighbors
    assert twice in str(said)
    assert twice not in str(tree().fit(X, Y, person=WHO).privacy_)


# --------------------------------------------------------------------------------- what is refused
@pytest.mark.parametrize("ids", [WHO[:-1], [*WHO, 3], []])
def test_as_many_ids_as_rows(ids):
    with pytest.raises(DataError, match=f"person names {len(ids)} rows, y has 60; give one id"):
        tree().fit(X, Y, person=ids)


def test_ids_in_a_table_are_refused():
    with pytest.raises(DataError, match=r"person has shape \(60, 1\); give one id per row"):
        tree().fit(X, Y, person=WHO[:, None])


@pytest.mark.parametrize("missing", [np.nan, None, "", " ", pd.NA])
def test_a_row_of_nobody_is_refused(missing):
    ids = [*WHO[:-1], missing]
    with pytest.raises(DataError, match=r"person is .* in 1 row\(s\); say for each row whose"):
        tree().fit(X, Y, person=ids)


def test_an_id_of_too_many_digits_is_to_be_given_as_text(taken):
    ids = WHO + 10**17
    with pytest.raises(DataError, match="as text"):
        tree().fit(X, Y, person=ids)
    tree().fit(X, Y, person=ids.astype(str))
    assert taken == [10]
