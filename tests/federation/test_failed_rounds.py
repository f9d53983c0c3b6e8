"""Rounds that fail: charged, counted, paid from the reserve, and asked again under a new number."""

from __future__ import annotations

import json
from fractions import Fraction

import numpy as np
import pytest

from hedgerow.errors import SpecError, TooFewParties
from hedgerow.federation.server import MOST_TRIES
from hedgerow.privacy.accounting.budget import Placement
from hedgerow.privacy.queries import ClassCounts, SumQuery, Whole
from hedgerow.privacy.statement.record import RunRecord
from hedgerow.privacy.statement.statement import statement
from hedgerow.schema.regions import EVERYONE
from support.worlds import TWO, federation, holders, sample, study

TENTH = Fraction(1, 10)
COUNTS = SumQuery(EVERYONE, ClassCounts(2), Whole(), TENTH)


def opened(failing=(), **terms):
    """A federation whose rounds of these numbers reach the sites and bring no answer."""
    X, y = sample(90, TWO)
    the_study = study(TWO, 3, **terms)
    fed = federation(the_study, holders(X, y, np.arange(90) % 3, 3, TWO))
    plain = fed.sites.round

    def round(number, bundle):
        collected = plain(number, bundle)
        if number in failing:
            raise TooFewParties(f"round {number}: nobody came.")
        return collected

    fed.sites.round = round
    return fed


def said_of(fed):
    return statement(fed.study, fed.sites.spent(), fed.asked, simulated=True)


def test_a_failed_round_is_asked_again_under_a_new_number_and_paid_twice():
    fed = opened(failing={1}, retry_reserve=TENTH)
    fed.ask([COUNTS])
    price = TENTH * Fraction(9, 10)
    assert fed.sites.spent() == fed.ledger.spent(fed.study.account) == 2 * price
    assert [(r.number, r.void) for r in fed.record.rounds] == [(1, True), (2, False)]


def test_the_reserve_is_no_query_s_and_a_plan_still_ends_after_rounds_have_failed():
    """Ten tenths of what may be spent, and one of them asked twice."""
    fed = opened(failing={4}, retry_reserve=TENTH)
    for _ in range(10):
        fed.ask([COUNTS])
    assert fed.sites.spent() == Fraction(9, 10) * Fraction(11, 10)
    assert fed.sites.spent() <= fed.study.total


def test_a_failure_beyond_the_reserve_ends_the_run_before_later_rounds_lack_their_budget():
    fed = opened(failing={1, 2}, retry_reserve=TENTH)
    with pytest.raises(TooFewParties, match="round 2"):
        fed.ask([COUNTS])
    assert fed.sites.spent() == 2 * TENTH * Fraction(9, 10)
    without = opened(failing={1})
    with pytest.raises(TooFewParties, match="round 1"):
        without.ask([COUNTS])


def test_a_round_that_never_succeeds_is_given_up_also_where_it_is_free():
    fed = opened(failing=range(100), placement=Placement.LABEL)
    with pytest.raises(TooFewParties):
        fed.ask([COUNTS])
    assert len(fed.record.rounds) == MOST_TRIES


def test_the_statement_counts_failed_rounds_and_what_was_kept_for_them():
    fed = opened(failing={2}, retry_reserve=Fraction(1, 5))
    fed.ask([COUNTS])
    fed.ask([COUNTS])
    said = said_of(fed)
    failed = said.spending[1]
    assert (failed.rounds, failed.part) == ("2", pytest.approx(0.08))
    assert "failed" in failed.what
    kept, rest = said.unspent
    assert kept.part == pytest.approx(0.2 - 0.08)
    assert kept.what == "kept for rounds that fail (1 did)"
    assert said.spent_fraction == pytest.approx(0.24)
    assert said.spent_fraction + kept.part + rest.part == pytest.approx(1.0)


def test_failed_rounds_left_out_of_the_sum_would_be_seen():
    """Twin: a coordinator that forgets what failed prints less than the sites paid."""
    fed = opened(failing={1}, retry_reserve=TENTH)
    fed.ask([COUNTS])
    fed.asked = [query for query in fed.asked if not query.void]
    said = said_of(fed)
    assert sum(line.part for line in said.spending) < said.spent_fraction - 0.05


def test_a_record_with_failed_rounds_comes_back_from_json():
    fed = opened(failing={1}, retry_reserve=TENTH)
    fed.ask([COUNTS])
    assert RunRecord.from_dict(json.loads(json.dumps(fed.record.to_dict()))) == fed.record


@pytest.mark.parametrize("reserve", [Fraction(-1, 10), Fraction(1)])
def test_a_reserve_that_is_no_part_of_the_budget_is_refused(reserve):
    with pytest.raises(SpecError, match="retry_reserve"):
        study(TWO, 3, retry_reserve=reserve)
