"""Gate: what inexact draws add to delta is counted for every draw of every site and every round."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from mpmath import mp

from hedgerow.federation.server import Server
from hedgerow.privacy.accounting.budget import Placement
from hedgerow.privacy.mechanisms.mechanisms import gaussian_share_tau
from hedgerow.privacy.mechanisms.sampling import total_variation
from hedgerow.privacy.queries import Binning, BoundQuery, Cells, ClassCounts, SumQuery, Whole
from hedgerow.privacy.statement import statement as module
from hedgerow.privacy.statement.statement import statement
from hedgerow.privacy.study import Study
from hedgerow.schema.regions import EVERYONE, Step
from hedgerow.secagg.graph import Parameters
from support.worlds import TWO, federation, holders, study

SPLIT = TWO.grids[0].split_values(range(4))
SHARE = Fraction(1, 5)
CELLS = Cells((0, 1, 2), Binning.of_cells(TWO))


def rounds():
    """New ones each time: a price stays with its query."""
    return [
        [SumQuery(EVERYONE, ClassCounts(2), CELLS, SHARE)],
        [BoundQuery(EVERYONE, (0, 1), Binning.of_cells(TWO), SHARE)],
        [SumQuery((Step(SPLIT, side),), ClassCounts(2), Whole(), SHARE) for side in (0, 1)],
    ]


STUDIES = {
    "curator": study(TWO, 1),
    "curator, delta": study(TWO, 1, epsilon="3", delta="1e-6"),
    "shares": study(TWO, 5, epsilon="2"),
    "shares, delta": study(TWO, 5, delta="1e-6"),
    "silo": study(TWO, 3, Placement.SILO, epsilon="1/2"),
}
EACH = pytest.mark.parametrize("the_study", STUDIES.values(), ids=STUDIES)


def slack_by_hand(the_study: Study) -> Fraction:
    """parties x numbers x (how far one draw is from its law), and what shares are from a whole."""
    slack = Fraction(0)
    for query in (query for bundle in rounds() for query in bundle):
        whole, numbers = the_study.sum_law(query), math.prod(query.shape)
        if the_study.placement is Placement.SHARES:
            h = Parameters.default(the_study.parties).honest
            one = whole.share(h)
            slack += numbers * (
                Fraction(gaussian_share_tau(whole.sigma2, h)) if the_study.delta else 0
            )
        else:
            one = whole
        slack += the_study.parties * numbers * total_variation(one)
    return slack


def is_counted(the_study: Study) -> bool:
    """The gate: the statement's number is this one, rounded up."""
    X, y = np.empty((0, 3), object), np.empty(0, object)
    parts = holders(X, y, np.empty(0, int), the_study.parties, TWO)
    fed = federation(the_study, parts)
    for bundle in rounds():
        fed.ask(bundle)
    said = statement(the_study, fed.sites.spent(), fed.asked, simulated=True, slack=fed.slack)
    slack = slack_by_hand(the_study)
    with mp.workdps(50):
        exact = mp.mpf(slack.numerator) / slack.denominator * (1 + mp.exp(float(the_study.epsilon)))
        return bool(exact <= mp.mpf(repr(said.delta_slack)) <= exact * (1 + mp.mpf(10) ** -15))


@EACH
def test_every_draw_is_in_the_slack_of_the_statement(the_study):
    assert is_counted(the_study)


@EACH
def test_a_slack_that_is_dropped_is_seen(the_study, monkeypatch):
    monkeypatch.setattr(Study, "slack", lambda self, query: Fraction(0))
    assert not is_counted(the_study)


@EACH
def test_a_slack_of_one_draw_only_is_seen(the_study, monkeypatch):
    right = Study.slack
    monkeypatch.setattr(
        Study, "slack", lambda self, query: right(self, query) / math.prod(query.shape)
    )
    assert not is_counted(the_study)


@pytest.mark.parametrize("name", ["shares", "silo"])
def test_a_slack_of_one_site_only_is_seen(name, monkeypatch):
    right = Study.slack
    monkeypatch.setattr(Study, "slack", lambda self, query: right(self, query) / self.parties)
    assert not is_counted(STUDIES[name])


@EACH
def test_a_slack_of_the_last_round_only_is_seen(the_study, monkeypatch):
    right = Server._charged

    def charged(self, bundle):
        self.slack = Fraction(0)
        return right(self, bundle)

    monkeypatch.setattr(Server, "_charged", charged)
    assert not is_counted(the_study)


@EACH
def test_a_slack_without_the_other_data_sets_part_is_seen(the_study, monkeypatch):
    """Twin: 1 instead of 1 + e^epsilon."""
    monkeypatch.setattr(module, "_delta_slack", lambda slack, epsilon: float(slack))
    assert not is_counted(the_study)
