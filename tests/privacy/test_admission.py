"""A site believes nothing: what a coordinator may put into a query, and what comes of it.

Each attack was run against sites that computed whatever they were asked: they gave away a number
of rows to three digits for a ten-thousandth of the budget.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import product
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hedgerow.data.prepared import StudyRows
from hedgerow.errors import ParameterError, SiteRefused
from hedgerow.federation import client as endpoints
from hedgerow.federation.client import REFUSAL_BYTES, Client, code_of, refusal, refusal_code
from hedgerow.federation.wire import Bundle, Receiver, Sender
from hedgerow.models.layers import ROOT_LAYER, Layer, NodeTests
from hedgerow.models.losses import FirstOrder, LogLoss, SoftmaxLoss, SquaredLoss
from hedgerow.models.model import Additive, Curve
from hedgerow.models.tree import Tree
from hedgerow.privacy import admission
from hedgerow.privacy.accounting.budget import DPModel
from hedgerow.privacy.admission import reason_against
from hedgerow.privacy.bundles import Weight
from hedgerow.privacy.queries import (
    Binning,
    BoundQuery,
    Cells,
    ClassCounts,
    Count,
    CurveNewton,
    Fractions,
    Gradients,
    Hessians,
    Leaves,
    LocalSelection,
    MultiwaySplit,
    Query,
    Score,
    Scoring,
    SelectQuery,
    Sides,
    SumQuery,
    TargetCells,
    Thresholds,
    Whole,
    sums,
)
from hedgerow.schema.regions import EVERYONE, Fold, HeldOut, Region, Split, Step
from hedgerow.secagg.codes import Code
from hedgerow.secagg.encoding import messages_field
from hedgerow.secagg.envelope import MessageKind
from support.examples import (
    CLASS_STATISTICS,
    REPORTS,
    SHARED,
    STEP_OF_MANY,
    STEP_ON_CURVES,
    STEP_ON_SURFACES,
    STEP_ON_TIMES,
    TIME_STATISTICS,
    TWO_CLASS_STATISTICS,
    VALUE_GROUPS,
    VALUE_STATISTICS,
)
from support.hostile import RAW
from support.worlds import THREE, TWO, VALUE, federation, sample, site_rows, study, tap, weight_of

SHARE = Fraction(1, 10_000)
AT_ZERO = Additive((0.0,))
CURVE = Curve(0, ((1.0,),) * TWO.grids[0].n_cells)
NEWTON = CurveNewton((CURVE,), 0.5, 2.0, (0.1, 0.2), 0.0)
BINNING = Binning.of_cells(TWO)
SPLIT = TWO.grids[0].split_values(range(2))
MERGED = Binning(((0,) * TWO.grids[0].n_cells, *BINNING.bins[1:]))
ENDLESS = replace(CURVE, values=((math.inf,),) * TWO.grids[0].n_cells)


def asked(statistic: Any, by: Any = Whole(), fraction: Any = SHARE, region: Any = EVERYONE):  # noqa: B008
    return SumQuery(region, statistic, by, fraction)


SELECTION = SelectQuery(EVERYONE, (SPLIT,), Scoring(Score.GINI), SHARE)
HONEST = [
    (TWO, asked(ClassCounts(2), Cells((0, 1), BINNING))),
    (TWO, asked(Gradients(LogLoss(), AT_ZERO))),
    (TWO, asked(NEWTON)),
    (THREE, asked(Gradients(SoftmaxLoss(3), Additive((0.0,) * 3)))),
    (VALUE, asked(Fractions(-2.0, 6.0))),
    (VALUE, asked(Gradients(SquaredLoss(-2.0, 6.0, 1.0), AT_ZERO))),
    (TWO, BoundQuery(EVERYONE, (0,), BINNING, SHARE)),
]

FALSE_BOUNDS = {
    "a weight below zero": (
        VALUE,
        asked(Gradients(SquaredLoss(-2.0, 6.0, 1.0, weight=-0.9999999), AT_ZERO)),
    ),
    "a weight of a million": (
        VALUE,
        asked(Gradients(SquaredLoss(-2.0, 6.0, 1.0, weight=1e6), AT_ZERO)),
    ),
    "a log-loss of numbers": (VALUE, asked(Gradients(LogLoss(), AT_ZERO))),
    "a log-loss of three classes": (THREE, asked(Gradients(LogLoss(), AT_ZERO))),
    "20,000 classes at one output": (
        TWO,
        asked(Gradients(FirstOrder(SoftmaxLoss(20_000)), AT_ZERO)),
    ),
    "200,000 Hessians": (TWO, asked(Hessians(FirstOrder(SoftmaxLoss(200_000)), AT_ZERO))),
    "a radius without room": (TWO, asked(replace(NEWTON, radius=5e-324))),
    "a range that is none": (VALUE, asked(Fractions(1.0, 1.0))),
    "a range beyond the public one": (VALUE, asked(Fractions(-1e300, 1e300))),
    "a curve of infinity": (TWO, asked(replace(NEWTON, curves=(ENDLESS,)))),
}

ODD = {
    "a float for a count": (TWO, asked(ClassCounts(2.0))),
    "a bool for a count": (TWO, asked(ClassCounts(True))),
    "other classes": (TWO, asked(ClassCounts(3))),
    "a text for a share": (TWO, asked(Count(), fraction="1/2")),
    "a float for a share": (TWO, asked(Count(), fraction=0.5)),
    "a share of nothing": (TWO, asked(Count(), fraction=Fraction(0))),
    "a share below nothing": (TWO, asked(Count(), fraction=Fraction(-1, 2))),
    "a share of endless digits": (TWO, asked(Count(), fraction=Fraction(1, 10**70))),
    "a column that is not there": (TWO, asked(ClassCounts(2), Cells((7,), BINNING))),
    "a column twice": (TWO, asked(ClassCounts(2), Cells((0, 0), BINNING))),
    "a column below zero": (TWO, asked(ClassCounts(2), Cells((-1,), BINNING))),
    "a binning of other cells": (TWO, asked(ClassCounts(2), Cells((0,), Binning(((0, 1),) * 3)))),
    "a tree of other columns": (
        TWO,
        asked(Count(), Leaves((Tree.of_preorder(("elsewhere",), [(0.0,)]),))),
    ),
    "no tree": (TWO, asked(Count(), Leaves(()))),
    "a test on another grid": (
        TWO,
        asked(Count(), region=(Step(Split("age", "0" * 16, 1), 0),)),
    ),
    "cells that do not exist": (
        TWO,
        asked(Count(), region=(Step(Split("age", TWO.grids[0].digest, 1 << 200), 0),)),
    ),
    "a hundred million folds": (TWO, asked(Count(), region=(Step(Fold("d", 10**8), 0),))),
    "edges that fall": (VALUE, asked(Count(), TargetCells((1.0, 0.0)))),
    "edges of classes": (TWO, asked(Count(), TargetCells((0.0, 1.0)))),
    "a choice among nothing": (TWO, SelectQuery(EVERYONE, (), Scoring(Score.GINI), SHARE)),
    "a score of numbers": (
        TWO,
        SelectQuery(
            EVERYONE, (TWO.grids[0].split_values(range(2)),), Scoring(Score.SQUARED_ERROR), SHARE
        ),
    ),
    "a remainder below nothing": (TWO, replace(SELECTION, remainder=-SHARE)),
    "a remainder of pure epsilon": (TWO, replace(SELECTION, remainder=SHARE)),
    "bounds of numbers": (VALUE, BoundQuery(EVERYONE, (0,), BINNING, SHARE)),
    "a model that is no number": (TWO, asked(Gradients(LogLoss(), Additive((math.nan,))))),
}


@pytest.mark.parametrize(("schema", "query"), HONEST, ids=str)
@pytest.mark.parametrize("delta", ["0", "1e-6"])
def test_what_a_recipe_would_ask_is_admitted(schema, query, delta):
    assert reason_against(study(schema, 1, delta=delta, epsilon="100"), [query]) is None


@pytest.mark.parametrize("attack", FALSE_BOUNDS | ODD)
def test_what_no_recipe_would_ask_is_refused(attack):
    schema, query = (FALSE_BOUNDS | ODD)[attack]
    reason = reason_against(study(schema, 1), [query])
    assert isinstance(reason, str)
    assert reason


@pytest.mark.parametrize("remainder", [Fraction(1), Fraction(1, 10**70), Fraction(-1, 2), 0.5])
def test_a_remainder_is_a_part_of_the_budget_that_a_selection_leaves(remainder):
    gaussian = study(TWO, 1, delta="1e-6")
    good = replace(SELECTION, remainder=Fraction(1, 2))
    assert reason_against(gaussian, [good]) is None
    assert gaussian.selection_epsilon(good) > 1.2 * gaussian.selection_epsilon(SELECTION)
    assert reason_against(gaussian, [replace(SELECTION, remainder=remainder)])


def test_only_what_the_recipe_asks_is_admitted():
    narrow = replace(study(TWO, 1), asks=sums(ClassCounts, Cells))
    assert reason_against(narrow, [asked(ClassCounts(2), Cells((0,), BINNING))]) is None
    assert "never asks" in str(reason_against(narrow, [asked(ClassCounts(2))]))


def test_bundles_have_an_end():
    the_study = study(TWO, 1)
    assert reason_against(the_study, []) is not None
    assert reason_against(the_study, [asked(Count())] * 4097) is not None
    assert reason_against(the_study, [asked(Count())] * 4096) is None


@pytest.mark.parametrize("most", [35, 71])
def test_so_many_integers_leave_a_site_and_no_more(most, monkeypatch):
    """18 + 14 + 10 leave for one query of all columns, by cell and class."""
    query = asked(ClassCounts(2), Cells((0, 1, 2), BINNING))
    monkeypatch.setattr(admission, "MOST_INTEGERS", most)
    size = math.prod(query.shape)
    allowed = [k for k in range(1, 4) if reason_against(study(TWO, 1), [query] * k) is None]
    assert allowed == [k for k in range(1, 4) if k * size <= most]


def test_a_share_is_a_part_of_the_budget():
    for fraction in (Fraction(3, 2), Fraction(1, 10**64), Fraction(-1, 2)):
        assert "fraction" in str(reason_against(study(TWO, 1), [asked(Count(), fraction=fraction)]))
    assert reason_against(study(TWO, 1), [asked(Count(), fraction=Fraction(1))]) is None


def test_noise_that_cannot_be_drawn_is_not_promised():
    thin = asked(Fractions(-2.0, 6.0), fraction=Fraction(1, 10**7))
    assert reason_against(study(VALUE, 3), [thin]) is not None
    assert reason_against(study(VALUE, 3, delta="1e-6"), [thin]) is None


def test_a_record_s_vector_must_fit_the_clamp(monkeypatch):
    monkeypatch.setattr(admission, "LARGEST_CLAMPED", 1)
    for _, query in HONEST[1:4]:
        assert "too long for its unit" in str(admission._beyond_the_clamp(study(TWO, 1), query))
    assert admission._beyond_the_clamp(study(TWO, 1), HONEST[0][1]) is None


# ---------------------------------------------------------------------------- over real endpoints
def test_an_endpoint_serves_the_study_that_its_site_speaks_for_and_no_other():
    link = linked()
    end = link.clients[0]
    other = replace(link.study, name="another")
    stranger = StudyRows(other, end.rows.sums.rows)
    with pytest.raises(ParameterError, match="another study"):
        Client(stranger, end.site, end.store)
    keys = tuple(bytes([k]) * 32 for k in range(3))
    named = replace(link.study, sites=keys, coordinator=b"c" * 32)
    assert named.hash != link.study.hash


def linked(schema=TWO, n=90, n_sites=3, **options):
    X, y = sample(n, schema)
    fed = federation(
        study(schema, n_sites, **options), site_rows(X, y, np.arange(n) % n_sites, n_sites, schema)
    )
    return fed.sites


def round_messages(link, bundle):
    """ROUND for each site, signed by the true coordinator, in a key session that is fresh."""
    coordinator = link.coordinator
    if not coordinator.is_fresh(coordinator._round + 1, range(len(link.clients))):
        link.enter()
    return link.coordinator.start(bundle.questions, 1).requests(
        dict.fromkeys(range(len(link.clients)), bundle.definitions)
    )


def spent(link):
    return [e.store.ledger.spent(link.study.account) for e in link.clients]


def replies(link, bundle):
    return [link.clients[k].handle(message) for k, message in round_messages(link, bundle).items()]


@pytest.mark.parametrize("attack", FALSE_BOUNDS | ODD)
def test_a_hostile_query_gets_a_constant_code_and_costs_nothing(attack):
    schema, query = (FALSE_BOUNDS | ODD)[attack]
    link = linked(schema)
    try:
        bundle = Sender().encode([query])
    except ValueError:
        pytest.skip("no message can hold this value")
    found = replies(link, bundle)
    allowed = {refusal(Code.POLICY_REFUSED), refusal(Code.BAD_MESSAGE)}
    assert set(found) <= allowed
    assert spent(link) == [0, 0, 0]
    assert not any(e.receiver.definitions for e in link.clients)


@pytest.mark.parametrize(
    "attack", ["a weight below zero", "a log-loss of numbers", "a log-loss of three classes"]
)
def test_without_admission_the_clamp_still_holds(attack, monkeypatch):
    """The second lock: a record beyond its declared bound adds nothing."""
    schema, query = FALSE_BOUNDS[attack]
    monkeypatch.setattr(admission, "reason_against", lambda study, bundle: None)
    link = linked(schema, dp_model=DPModel.DISTRIBUTED)
    unit = link.study.unit(query)
    vector = link.clients[0].rows.sums.contributions(query.statistic, unit).astype(object)
    bound = query.statistic.bound(unit)
    assert all(sum(abs(v) for v in row) <= bound.l1 for row in vector)
    assert all(sum(v * v for v in row) <= bound.l2_squared for row in vector)


@pytest.mark.parametrize("raw", RAW)
def test_bytes_that_are_no_bundle_are_a_bad_message(raw):
    link = linked()
    found = replies(link, Bundle(RAW[raw], b""))
    assert set(found) == {refusal(Code.BAD_MESSAGE)}
    assert spent(link) == [0, 0, 0]


@pytest.mark.parametrize("definitions", [b"x", b"\x00\x00\x00\x09{", b"\xff" * 40])
def test_definitions_that_are_none_are_a_bad_message(definitions):
    link = linked()
    bundle = Bundle(Sender().encode([asked(Count())]).questions, definitions)
    assert set(replies(link, bundle)) == {refusal(Code.BAD_MESSAGE)}


@pytest.mark.parametrize("message", [b"", b"x", bytes(136), bytes(400)])
def test_bytes_that_are_no_letter_are_refused(message):
    link = linked()
    reply = link.clients[0].handle(message)
    assert len(reply) == REFUSAL_BYTES
    assert reply.startswith(endpoints.REFUSED)


def test_every_exception_has_one_constant_code():
    for error in (ValueError("secret"), MemoryError(), RecursionError(), KeyError("age")):
        assert code_of(error) is Code.INTERNAL
    assert {len(refusal(code)) for code in Code} == {REFUSAL_BYTES}
    assert refusal_code(refusal(Code.TOO_FEW)) == "TooFew"
    assert refusal_code(b"an answer") is None


# ------------------------------------------------------------------------------------------ names
def test_a_name_is_the_digest_of_its_content_and_is_counted_by_the_receiver():
    """One digest, two meanings: the second is simply another name, and nobody is fooled."""
    one, other = (
        Sender().encode([asked(ClassCounts(2), Cells((0,), bins))]) for bins in (BINNING, MERGED)
    )
    receiver = Receiver()
    with pytest.raises(SiteRefused, match="UnknownName"):
        receiver.decode(Bundle(one.questions, other.definitions))
    (query,), _ = receiver.decode(one)
    assert query.by.binning == BINNING


def test_what_a_refused_round_taught_is_forgotten():
    link = linked()
    greedy = asked(ClassCounts(2), Cells((0,), BINNING), fraction=Fraction(1))
    replies(link, Sender().encode([greedy]))
    known = [len(e.receiver.definitions) for e in link.clients]
    later = asked(ClassCounts(2), Cells((1,), MERGED), fraction=Fraction(1))
    assert set(replies(link, Sender().encode([later]))) == {refusal(Code.BUDGET_REFUSED)}
    assert [len(e.receiver.definitions) for e in link.clients] == known


def test_a_site_that_lacks_a_name_says_so_and_gets_the_same_questions_again():
    link, sender = linked(), Sender()
    query = asked(ClassCounts(2), Cells((0,), BINNING))
    bundle = sender.encode([query])
    assert set(replies(link, Bundle(bundle.questions, b""))) == {refusal(Code.UNKNOWN_NAME)}
    assert spent(link) == [0, 0, 0]
    found = replies(link, Bundle(bundle.questions, sender.everything()))
    assert not any(reply.startswith(endpoints.REFUSED) for reply in found)


def test_names_live_for_one_epoch_and_outlive_an_invitation_that_came_twice():
    link = linked()
    first = link.coordinator.attempt
    replies(link, Sender().encode([asked(ClassCounts(2), Cells((0,), BINNING))]))
    assert all(end.receiver.definitions for end in link.clients)
    link.coordinator.attempt = first - 1
    again = link.coordinator.join()
    keys = messages_field(link.coordinator.keys)
    for place, end in enumerate(link.clients):
        assert not end.handle(again[place]).startswith(endpoints.REFUSED)
        opened = end.handle(link.coordinator.message(MessageKind.OPEN, place, 0, keys))
        assert not opened.startswith(endpoints.REFUSED)
        end.handle(again[place][:-1] + b"?")  # nobody signed that
        assert end.receiver.definitions
    link.enter()
    assert not any(end.receiver.definitions for end in link.clients)


# --------------------------------------------------------------------------------- order and rows
@dataclass
class Probe:
    """How often rows were touched."""

    times: int = 0


CELLS = list(itertools.product(*(range(grid.n_cells) for grid in TWO.grids)))


def inside(cells):
    """The records of one cell of every column: most such regions hold none, some one."""
    splits = [grid.split_values([cell]) for grid, cell in zip(TWO.grids, cells, strict=True)]
    return tuple(Step(split, 0) for split in splits)


@pytest.mark.parametrize("fraction", [Fraction(1), SHARE], ids=["refused", "charged"])
def test_314_existence_probes_are_refused_or_charged_alike(fraction):
    """Free and exact when rows were read before the charge: answering or not told of a record."""
    link = linked(n=60, n_sites=2)
    probed, end = CELLS[:314], link.clients[0]
    held = {tuple(map(int, codes)) for codes in end.rows.sums.rows.codes.T}
    assert 0 < len(held & set(probed)) < 100
    if fraction == 1:
        replies(link, Sender().encode([asked(Count(), fraction=fraction)]))
    seen, before = set(), len(end.store.ledger.entries)
    for cells in probed:
        bundle = Sender().encode([asked(ClassCounts(2), fraction=fraction, region=inside(cells))])
        reply = end.handle(round_messages(link, bundle)[0])
        left = not reply.startswith(endpoints.REFUSED)
        seen.add((left, len(reply) if left else reply))
    charged = len(end.store.ledger.entries) - before
    if fraction == 1:
        assert (seen, charged) == ({(False, refusal(Code.BUDGET_REFUSED))}, 0)
    else:
        assert ({left for left, _ in seen}, charged) == ({True}, len(probed))


def test_a_budget_that_says_no_says_so_before_any_row_is_touched(monkeypatch):
    link, probe = linked(), Probe()

    def watched(make):
        probe.times += 1
        return make()

    tap(monkeypatch, link.clients[0].rows, watched)
    greedy = Sender().encode([asked(Count(), fraction=Fraction(1))])
    first, second = replies(link, greedy)[0], replies(link, greedy)[0]
    assert not first.startswith(endpoints.REFUSED)
    assert second == refusal(Code.BUDGET_REFUSED)
    assert probe.times == 1


@pytest.mark.parametrize(
    "query", [asked(ClassCounts(2)), BoundQuery(EVERYONE, (0, 1), BINNING, SHARE)], ids=str
)
def test_a_computation_that_fails_is_charged_and_refused_alike_whatever_failed(query, monkeypatch):
    well, ill = linked(), linked()

    def broken(*given):
        raise ValueError("row 7 is strange")

    for endpoint in ill.clients:
        monkeypatch.setattr(endpoint.rows.sums, "integers_of_all", broken)
    bundle = Sender().encode([query])
    assert not any(reply.startswith(endpoints.REFUSED) for reply in replies(well, bundle))
    assert replies(ill, bundle) == [refusal(Code.STUDY_CLOSED)] * 3
    assert spent(ill) == spent(well) == [SHARE * well.study.total] * 3


def test_replies_are_as_long_for_one_row_more_and_for_none():
    query = asked(ClassCounts(2), Cells((0, 1, 2), BINNING))
    lengths = set()
    for n in (0, 1, 2, 90):
        X, y = sample(90, TWO)
        parts = site_rows(X[:n], y[:n], np.zeros(n, int), 3, TWO)
        link = federation(study(TWO, 3), parts).sites
        lengths |= {len(reply) for reply in replies(link, Sender().encode([query]))}
    assert len(lengths) == 1


# --------------------------------------------------------------------------------------------------
# The weight of a bundle is no less than its bytes, whatever it holds.
LONG_SHARE = Fraction(10**63 - 1, 10**63 + 1)
FULL = (1 << 256) - 1
TESTS = [
    Split("\N{SNOWMAN}\N{MUSICAL SYMBOL G CLEF}" * 128, "f" * 64, FULL),
    Split('a"\\\n', "0" * 64, 1),
    Fold("\N{SNOWMAN}" * 256, 1 << 16),
    HeldOut(1 << 16),
]
STEPS = [Step(test, outcome) for test in TESTS for outcome in (0, 1)]
EVERY = [
    *CLASS_STATISTICS,
    *TWO_CLASS_STATISTICS,
    *VALUE_STATISTICS,
    *TIME_STATISTICS,
    *(REPORTS, STEP_ON_CURVES, STEP_ON_SURFACES, STEP_OF_MANY, STEP_ON_TIMES),
]
STATISTICS = [statistic for statistic in EVERY if "nan" not in repr(statistic)]
"""Those that can travel."""
CUTS = [
    Thresholds("\N{SNOWMAN}" * 256, "f" * 64, tuple(range(1, 257)), None),
    Thresholds("a", "0", (1,), 255),
]
SPLITS = [test for test in TESTS if isinstance(test, Split)]
CHAIN = MultiwaySplit(tuple(SPLITS))


def bytes_of(bundle: list[Query]) -> int:
    return Sender().encode(bundle).size


REGIONS: st.SearchStrategy[Region] = st.lists(st.sampled_from(STEPS), max_size=12).map(tuple)
QUERIES = st.one_of(
    st.builds(
        SumQuery,
        REGIONS,
        st.sampled_from(STATISTICS),
        st.sampled_from(VALUE_GROUPS),
        st.just(LONG_SHARE),
    ),
    st.builds(
        lambda region, kind, splits: kind(region, splits, Scoring(Score.ENTROPY), LONG_SHARE),
        REGIONS,
        st.sampled_from([SelectQuery, LocalSelection]),
        st.lists(st.sampled_from([*CUTS, *SPLITS, CHAIN]), min_size=1, max_size=4).map(tuple),
    ),
    st.builds(lambda region: BoundQuery(region, (0, 1), SHARED, LONG_SHARE), REGIONS),
)


@pytest.mark.property
@settings(max_examples=200, deadline=None)
@given(bundle=st.lists(QUERIES, min_size=1, max_size=8))
def test_no_bundle_is_longer_than_its_weight(bundle: list[Query]) -> None:
    assert bytes_of(bundle) <= weight_of(bundle)


@pytest.mark.property
@pytest.mark.parametrize(("statistic", "by"), list(product(STATISTICS, VALUE_GROUPS)))
def test_no_query_is_longer_than_its_weight(statistic, by):
    query = SumQuery(EVERYONE, statistic, by, LONG_SHARE)
    assert bytes_of([query]) <= Weight().with_query(query)


@pytest.mark.property
def test_packed_tests_of_random_cells_are_no_longer_than_their_weight():
    """What cannot be packed: every test of every layer is another one."""
    rng, layer, many = np.random.default_rng(0), ROOT_LAYER, list[Query]()
    for _ in range(9):
        shape = (layer.n_nodes, 1)
        left = rng.integers(1, 2**64, (*shape, 4), dtype=np.uint64)
        tests = NodeTests(rng.integers(0, 3, shape, dtype=np.int16), left)
        by = Sides(layer, tests)
        many.append(SumQuery(EVERYONE, CLASS_STATISTICS[0], by, LONG_SHARE))
        taken = tests.select(np.zeros(layer.n_nodes, np.intp), np.ones(layer.n_nodes, bool))
        layer = Layer(layer, taken, np.ones(2 * layer.n_nodes, bool))
    assert bytes_of(many[-1:]) <= weight_of(many[-1:])
    assert bytes_of(many) <= weight_of(many) <= 4 * bytes_of(many)


@pytest.mark.property
def test_what_queries_share_is_weighed_once():
    bins = Binning(tuple(tuple(range(200)) for _ in range(50)))
    one = SumQuery(EVERYONE, CLASS_STATISTICS[0], Cells((0,), bins), LONG_SHARE)
    other = replace(one, by=Cells((1,), bins))
    weight = Weight()
    assert 0 < 1.2 * weight.with_query(one) > weight.with_query(other)
    deep = tuple(Step(Split("age", "0", k + 1), 0) for k in range(40))
    ends = [replace(one, region=(*deep, Step(SPLITS[0], side)), by=Whole()) for side in (0, 1)]
    assert weight_of(ends) < 1.2 * weight_of(ends[:1])
