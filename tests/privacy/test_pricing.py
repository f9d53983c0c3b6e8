"""What follows from a study and a query is worked out once, and stays with both."""

import pickle
from dataclasses import dataclass

import pytest

from hedgerow.privacy.pricing import once_a_query


@dataclass(frozen=True)
class Asked:
    number: int


calls = []


@once_a_query
def price(study, query):
    calls.append((study, query))
    if query.number < 0:
        raise ValueError
    return query.number * len(study)


@once_a_query
def nothing(study, query):
    calls.append((study, query))


@pytest.fixture(autouse=True)
def _no_calls():
    calls.clear()


def test_it_is_worked_out_once_for_each_query_and_study():
    query, study, other = Asked(2), [0] * 3, [0] * 5
    assert (price(study, query), price(study, query), len(calls)) == (6, 6, 1)
    assert price(study, Asked(2)) == 6  # an equal query is another object
    assert (price(other, query), len(calls)) == (10, 3)
    assert (nothing(other, query), nothing(other, query), len(calls)) == (None, None, 4)


def test_what_is_refused_is_looked_at_again():
    query, study = Asked(-1), [0]
    for _ in range(2):
        with pytest.raises(ValueError):
            price(study, query)
    assert len(calls) == 2


def test_it_changes_no_query_and_is_not_sent_along():
    query, study = Asked(2), [0] * 3
    before = pickle.dumps(query)
    price(study, query)
    assert (query, hash(query), repr(query)) == (Asked(2), hash(Asked(2)), "Asked(number=2)")
    sent = pickle.loads(pickle.dumps(query))
    assert len(pickle.dumps(query)) < len(before) + 200
    assert (price(study, sent), len(calls)) == (6, 2)
