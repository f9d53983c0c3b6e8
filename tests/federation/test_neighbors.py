"""The guarantee at a site's listener: one record more or less moves what leaves by no more than the
noise was made for, and nothing else that anybody could see.

Every statistic and grouping, every private selection, and the queries that methods really put,
asked of whole sites over neighboring data sets with the same secret randomness.
"""

from __future__ import annotations

from fractions import Fraction
from functools import cache

import numpy as np
import pytest
from hypothesis import HealthCheck, example, given, settings

from hedgerow.data import sums as answer
from hedgerow.data.reading.encoding import Encoded
from hedgerow.data.rows import Draws, Rows
from hedgerow.errors import BudgetExceeded
from hedgerow.federation import client
from hedgerow.kernels.units import quantize
from hedgerow.privacy import admission
from hedgerow.privacy.accounting.budget import DPModel
from hedgerow.privacy.admission import reason_against
from hedgerow.privacy.mechanisms.response import BloomRandomizedResponse
from hedgerow.privacy.queries import (
    GROUPINGS,
    STATISTICS,
    Binning,
    Cells,
    ClassCounts,
    Fractions,
    LabelReports,
    LocalSelection,
    Score,
    Scoring,
    SelectQuery,
    SumQuery,
    Whole,
)
from hedgerow.schema.regions import EVERYONE
from hedgerow.secagg.envelope import MessageKind
from methods.test_method_sensitivity import CASES, IDS, adversaries, kept_by
from privacy.test_admission import FALSE_BOUNDS
from privacy.test_sensitivity import SUMS
from support.examples import BY_CLASS, BY_TIME, BY_TWO, BY_VALUE, SHARE, SPLIT, records, rows_of
from support.neighbors import answered, cheap, differences
from support.worlds import TWO, VALUE, study

pytestmark = pytest.mark.property

EXAMPLES = settings(max_examples=4, deadline=None, suppress_health_check=list(HealthCheck))
SCHEMAS = {"classes": BY_CLASS, "two classes": BY_TWO, "numbers": BY_VALUE, "times": BY_TIME}
PLACES = {
    "shares, pure": {"dp_model": DPModel.DISTRIBUTED, "epsilon": "9"},
    "shares, Gaussian": {"dp_model": DPModel.DISTRIBUTED, "delta": "1e-6", "epsilon": "20"},
    "per_site": {"dp_model": DPModel.PER_SITE, "delta": "1e-6", "epsilon": "20"},
    "none": {"dp_model": DPModel.NONE},
}
EDGE = [((0, 0, 0), 0, -1.0), ((4, 3, 3), 2, 3.0), ((1, 1, 1), 1, 7.0)]
"""First cells, missing ones, and a value beyond the range."""
QUICK = {"classes": "shares, Gaussian", "two classes": "shares, pure", "numbers": "per_site"}
QUICK["times"] = "shares, pure"
BOTH = [
    pytest.param(one, place, marks=() if QUICK[one] == place else pytest.mark.slow)
    for one in SCHEMAS
    for place in PLACES
]
CHOICES = [LocalSelection(EVERYONE, (SPLIT, SPLIT), Scoring(Score.GINI), SHARE)]


@cache
def bundle_of(schema_name, place):
    """Every query of the examples that the study admits, and a choice of each site."""
    schema = SCHEMAS[schema_name]
    the_study = study(schema, 2, **PLACES[place])
    queries = [cheap(query) for its, query in SUMS if its is schema]
    if schema.classes is not None:
        queries += map(cheap, CHOICES)
    return the_study, [query for query in queries if reason_against(the_study, [query]) is None]


def check_neighbors(the_study, bundle, found, schema):
    nobody = rows_of([], schema)
    with_it = answered(the_study, rows_of(found, schema), nobody, bundle)
    without = answered(the_study, rows_of(found[:-1], schema), nobody, bundle)
    assert with_it.code == "answered"
    assert differences(the_study, bundle, with_it, without) == []


@pytest.mark.parametrize(("schema_name", "place"), BOTH)
def test_one_record_moves_what_leaves_a_site_by_no_more_than_the_noise_was_made_for(
    schema_name, place
):
    the_study, bundle = bundle_of(schema_name, place)

    @EXAMPLES
    @given(found=records())
    @example(found=EDGE)
    @example(found=EDGE[1:2])
    def check(found):
        check_neighbors(the_study, bundle, found, SCHEMAS[schema_name])

    check()


def test_no_statistic_grouping_or_choice_is_left_out():
    asked = [query for name in SCHEMAS for query in bundle_of(name, "shares, Gaussian")[1]]
    sums = [query for query in asked if isinstance(query, SumQuery)]
    told_in_bits = {LabelReports}
    assert {type(q.statistic) for q in sums} | told_in_bits == set(STATISTICS.values())
    assert {type(q.by) for q in sums} == set(GROUPINGS.values())
    assert {type(q).__name__ for q in asked} == {"SumQuery", "BoundQuery", "LocalSelection"}


# ----------------------------------------------------------------------------------- real methods
RECORDS = 40


def some_rows(schema, without=None):
    codes, y = (part[..., :RECORDS] for part in adversaries(schema))
    kept = np.arange(RECORDS) != without
    encoded = Encoded(
        codes=codes[:, kept].copy(), y=y[kept], persons=None, clamped={}, unknown={}, skipped=0
    )
    return Rows(encoded, schema, Draws(bytes(32), "test"))


def nobodys_rows(schema):
    codes, y = adversaries(schema)
    nothing = Encoded(
        codes=codes[:, :0].copy(), y=y[:0], persons=None, clamped={}, unknown={}, skipped=0
    )
    return Rows(nothing, schema, Draws(bytes(32), "test"))


SOME_METHODS = [
    pytest.param(*case, id=name, marks=() if k % 8 == 4 else pytest.mark.slow)
    for k, (case, name) in enumerate(zip(CASES, IDS, strict=True))
]


@pytest.mark.parametrize(("method", "schema"), SOME_METHODS)
def test_what_a_recipe_asks_moves_by_one_record_as_far_as_the_noise_was_made_for(method, schema):
    grid = method.grid(schema)
    n_sites = 1 if method.needs.single_site else 2
    the_study = study(grid, n_sites, delta="1e-6", epsilon="20")
    kept = [cheap(query) for query, _ in kept_by(method, schema)]
    bundle = [q for q in kept if n_sites == 1 or not isinstance(q, SelectQuery)]
    nobody = nobodys_rows(grid)
    whole = answered(the_study, some_rows(grid), nobody, bundle)
    assert whole.code == "answered"
    for record in (0, 2):
        less = answered(the_study, some_rows(grid, record), nobody, bundle)
        assert differences(the_study, bundle, whole, less) == []


# ------------------------------------------------------------------------ randomized labels
BITS = BloomRandomizedResponse(classes=3, bits=4, hashes=1, keep=Fraction(1, 2))


@pytest.mark.parametrize("reports", [None, BITS], ids=["k-ary", "bits"])
def test_another_label_moves_the_counts_of_its_own_record_alone(reports):
    """Under dp_model 'label' neighbors have the same records and one other label."""
    the_study = study(BY_CLASS, 2, DPModel.LABEL, epsilon="8", label_reports=reports)
    by = Cells((0, 1, 2), Binning.of_cells(BY_CLASS))
    asked = [SumQuery(EVERYONE, ClassCounts(3), one, SHARE) for one in (Whole(), by)]
    bundle = [the_study.as_asked(query) for query in asked]
    seen = [answered(the_study, labeled(y), labeled([]), bundle) for y in ([0, 1, 2], [0, 1, 0])]
    assert {one.code for one in seen} == {"answered"}
    assert seen[0].form == seen[1].form
    moved = np.abs(seen[0].total - seen[1].total)
    told = 2 if reports is None else BITS.bits
    assert moved.sum() <= told * (1 + 3)  # once in all, and once for each of three columns
    assert moved.max() <= 1


def labeled(y):
    """Records with different codes, so that every one has draws of its own."""
    codes = np.array([[k, k, k] for k in range(len(y))], np.uint8).reshape(len(y), 3).T.copy()
    encoded = Encoded(
        codes=codes, y=np.array(y, np.uint8), persons=None, clamped={}, unknown={}, skipped=0
    )
    return Rows(encoded, BY_CLASS, Draws(bytes(32), "test"))


# ------------------------------------------------------------------- what would happen otherwise
@pytest.mark.parametrize("attack", sorted(set(FALSE_BOUNDS) - {"a curve of infinity"}))
def test_a_false_sensitivity_is_stopped_by_the_clamp_where_admission_is_switched_off(
    attack, monkeypatch
):
    """All nine; an infinity has no JSON, and cannot be asked at all."""
    schema, query = FALSE_BOUNDS[attack]
    the_study = study(schema, 2, delta="1e-6")
    assert reason_against(the_study, [query]) is not None
    monkeypatch.setattr(admission, "reason_against", lambda study, bundle: None)
    nobody, whole = nobodys_rows(schema), some_rows(schema)
    seen = [answered(the_study, rows, nobody, [query]) for rows in (whole, some_rows(schema, 2))]
    assert differences(the_study, [query], *seen) == []


FRACTIONS = Fractions(VALUE.target.low, VALUE.target.high)


def test_a_statistic_without_its_clamp_is_seen(monkeypatch):
    """Twin: records that add three times what they declare, and nobody holds them to it."""
    the_study, query = study(VALUE, 2, delta="1e-6"), SumQuery(EVERYONE, FRACTIONS, Whole(), SHARE)
    nobody, pair = nobodys_rows(VALUE), (some_rows(VALUE), some_rows(VALUE, 1))
    plain = Fractions.fractions
    monkeypatch.setattr(Fractions, "fractions", lambda self, *on: 3 * plain(self, *on))
    held = [answered(the_study, rows, nobody, [query]) for rows in pair]
    assert all(one.code == "answered" for one in held)
    assert differences(the_study, [query], *held) == []
    monkeypatch.setattr(answer, "bounded_units", lambda values, unit, bound: quantize(values, unit))
    free = [answered(the_study, rows, nobody, [query]) for rows in pair]
    assert len(differences(the_study, [query], *free)) == 1


def test_a_length_a_code_or_a_write_that_depends_on_a_record_is_seen(monkeypatch):
    """Twin: a site that refuses where it has few rows, and one that writes once more."""
    query = SumQuery(EVERYONE, ClassCounts(2), Whole(), SHARE)
    the_study, nobody = study(TWO, 2), nobodys_rows(TWO)
    pair = some_rows(TWO), some_rows(TWO, 1)
    plain = client.Client._round

    def shy(self, message):
        if self.rows.sums.rows.n == RECORDS - 1:
            raise BudgetExceeded("one record too few")
        return plain(self, message)

    monkeypatch.setitem(client.STEPS, MessageKind.ROUND, shy)
    seen = [answered(the_study, rows, nobody, [query]) for rows in pair]
    assert len(differences(the_study, [query], *seen)) == 1
    assert [one.code.split()[0] for one in seen] == ["answered", "SiteRefused"]
