"""What follows from a study and a query is worked out once, and stays with both."""

from __future__ import annotations

import pickle
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np
import pytest

from hedgerow.errors import UnsupportedQuery
from hedgerow.federation.wire import Receiver, Sender
from hedgerow.privacy import admission, pricing
from hedgerow.privacy.admission import admit, reason_against
from hedgerow.privacy.pricing import once_a_query, priced
from hedgerow.privacy.queries import STATISTICS, ClassCounts, Count, QueryKind, SumQuery, Whole
from hedgerow.schema.regions import EVERYONE
from support.worlds import TWO, federation, sample, site_rows, study


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


# --------------------------------------------------------------------------------------------------
# A query's price: made once, for queries that were admitted, by whatever is registered by then.
SHARE = Fraction(1, 8)


@dataclass(frozen=True, slots=True)
class Tally(Count):
    """A statistic of somebody's own."""


def test_a_statistic_that_is_registered_late_is_known_to_wire_and_admission(monkeypatch):
    query = SumQuery(EVERYONE, Tally(), Whole(), SHARE)
    plain = study(TWO, 3)
    the_study = replace(plain, asks=plain.asks | {QueryKind("SumQuery", "Tally", "Whole")})
    assert reason_against(the_study, [query]) is not None
    monkeypatch.setitem(STATISTICS, "Tally", Tally)
    late = SumQuery(EVERYONE, Tally(), Whole(), SHARE)
    queries, _ = Receiver().decode(Sender().encode([late]))
    assert list(queries) == [late]
    assert reason_against(the_study, queries) is None


def test_a_query_that_is_refused_is_never_priced(monkeypatch):
    made = []
    monkeypatch.setattr(admission, "priced", lambda *given: made.append(given) or priced(*given))
    greedy = SumQuery(EVERYONE, Count(), Whole(), Fraction(3, 2))
    with pytest.raises(UnsupportedQuery, match="fraction of the budget"):
        admit(study(TWO, 3), [greedy])
    assert not made
    admit(study(TWO, 3), [SumQuery(EVERYONE, Count(), Whole(), SHARE)])
    assert made  # negative control: what is admitted is


@pytest.mark.parametrize("n_sites", [2, 5])
def test_a_query_is_priced_once_however_many_sites_there_are(n_sites, monkeypatch):
    made, plain = [], pricing.describe
    monkeypatch.setattr(pricing, "describe", lambda *given: made.append(given) or plain(*given))
    X, y = sample(60, TWO)
    fed = federation(study(TWO, n_sites), site_rows(X, y, np.arange(60) % n_sites, n_sites, TWO))
    fed.ask([SumQuery(EVERYONE, ClassCounts(2), Whole(), SHARE)])
    assert 1 <= len(made) <= 2  # by the server, and by all sites together


def test_a_price_holds_all_that_both_halves_of_a_round_need():
    the_study = study(TWO, 3)
    query = SumQuery(EVERYONE, ClassCounts(2), Whole(), SHARE)
    one = priced(the_study, query)
    assert priced(the_study, query) is one
    assert (one.charge.cost, one.charge.region) == (the_study.cost(query), EVERYONE)
    assert (one.size, one.noise.unit) == (2, the_study.unit(query))
    assert one.noise.of_site == the_study.site_law(query)
    assert one.noise.scale == the_study.unit(query) * the_study.refinement(query)
    assert (one.noise.release, one.noise.slack) == (
        the_study.release(query),
        the_study.slack(query),
    )
