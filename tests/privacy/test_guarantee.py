"""Guarantees as values: what several releases keep together, and what they keep apart."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hedgerow.errors import ParameterError
from hedgerow.privacy.accounting.guarantee import (
    Drawn,
    Guarantee,
    Protected,
    Unit,
    add_guarantees,
    combine_disjoint,
    guarantee_of_words,
    unit_of_words,
    unit_words,
)
from hedgerow.schema.rules import exact

pytestmark = pytest.mark.property

COSTS = st.builds(Fraction, st.integers(0, 10**4), st.integers(1, 99))
DELTAS = st.builds(Fraction, st.integers(0, 10**4), st.just(10**9))
UNITS = st.one_of(
    st.builds(Unit, most=st.integers(1, 9)),
    st.builds(Unit, most=st.integers(1, 9), counted=st.just(True), at_one_site=st.booleans()),
)
PARTS = st.frozensets(st.integers(0, 5), min_size=1)
DRAWS = st.builds(Drawn, name=st.sampled_from(["one", "two"]), parts=PARTS, by_person=st.just(True))


@st.composite
def guarantees(draw, unit=None, drawn=None):
    protected = draw(st.sampled_from(Protected))
    return Guarantee(
        unit=unit or draw(UNITS),
        protected=protected,
        epsilon=math.inf if protected is Protected.NOTHING else draw(COSTS),
        delta=draw(DELTAS),
        drawn=drawn or draw(st.none() | DRAWS),
    )


@st.composite
def of_one_unit(draw, count=3):
    unit = draw(UNITS)
    return [draw(guarantees(unit)) for _ in range(count)]


@st.composite
def of_parts(draw, count=3):
    """Each of another part of the same draws; whole records, so that parts may be proven apart."""
    unit = draw(UNITS)
    found = [draw(guarantees(unit, Drawn(name="one", parts=frozenset({k}), by_person=True)))
             for k in range(count)]  # fmt: skip
    return [
        replace(one, protected=Protected.RECORD, epsilon=draw(COSTS))
        if one.protected is Protected.LABEL
        else one
        for one in found
    ]


RECORD = Guarantee(
    unit=Unit(), protected=Protected.RECORD, epsilon=Fraction(1), delta=Fraction(1, 10**6)
)
LABEL = replace(RECORD, protected=Protected.LABEL, delta=Fraction(0))
TRAINED, HELD_OUT = (Drawn(name="one", parts=frozenset({k}), by_person=False) for k in (1, 0))


# ---- together --------------------------------------------------------------------------------


@given(of_one_unit())
def test_together_is_associative_and_commutative(parts):
    a, b, c = parts
    assert (
        add_guarantees(add_guarantees(a, b), c)
        == add_guarantees(a, add_guarantees(b, c))
        == add_guarantees(a, b, c)
    )
    assert add_guarantees(a, b) == add_guarantees(b, a)


@given(of_one_unit(count=2))
def test_together_is_never_below_either(parts):
    a, b = parts
    whole = add_guarantees(a, b)
    assert whole.epsilon >= max(a.epsilon, b.epsilon)
    assert whole.delta == a.delta + b.delta
    if a.protected is b.protected:
        assert whole.epsilon == a.epsilon + b.epsilon
    else:
        assert (whole.epsilon, whole.protected) == (math.inf, Protected.NOTHING)


@given(of_one_unit(count=2), COSTS, DELTAS)
def test_together_is_monotone(parts, more, failing):
    a, b = parts
    worse = replace(a, epsilon=a.epsilon + more, delta=a.delta + failing)
    assert add_guarantees(worse, b).epsilon >= add_guarantees(a, b).epsilon
    assert add_guarantees(worse, b).delta >= add_guarantees(a, b).delta


@given(guarantees(), guarantees())
def test_other_units_do_not_add_up(a, b):
    if a.unit == b.unit:
        assert add_guarantees(a, b).unit == a.unit
        return
    with pytest.raises(ParameterError, match="do not add up; make all of them to one unit"):
        add_guarantees(a, b)


def test_of_labels_and_of_whole_records_nothing_is_kept_together():
    """Features lie open by one of them, so that the record is not protected by both."""
    assert add_guarantees(LABEL, RECORD).epsilon == math.inf
    assert add_guarantees(LABEL, RECORD).protected is Protected.NOTHING
    assert add_guarantees(LABEL, LABEL).summary == "epsilon = 2, delta = 0"


# ---- apart -----------------------------------------------------------------------------------


@given(of_parts())
def test_apart_is_associative_and_commutative_and_the_larger_of_both(parts):
    a, b, c = parts
    assert combine_disjoint(combine_disjoint(a, b), c) == combine_disjoint(
        a, combine_disjoint(b, c)
    )
    assert combine_disjoint(a, b) == combine_disjoint(b, a)
    whole = combine_disjoint(a, b)
    assert whole.epsilon == max(a.epsilon, b.epsilon)
    assert whole.delta == max(a.delta, b.delta)
    assert whole.epsilon <= add_guarantees(a, b).epsilon


@given(of_parts(count=2), COSTS, DELTAS)
def test_apart_is_monotone(parts, more, failing):
    a, b = parts
    worse = replace(a, epsilon=a.epsilon + more, delta=a.delta + failing)
    assert combine_disjoint(worse, b).epsilon >= combine_disjoint(a, b).epsilon
    assert combine_disjoint(worse, b).delta >= combine_disjoint(a, b).delta


PERSONS = replace(RECORD, unit=Unit(most=3))
UNPROVEN = {
    "nobody drew": (RECORD, RECORD, "not drawn apart"),
    "one was of all records": (replace(RECORD, drawn=TRAINED), RECORD, "not drawn apart"),
    "other draws": (
        replace(RECORD, drawn=TRAINED),
        replace(RECORD, drawn=replace(HELD_OUT, name="two")),
        "not drawn apart",
    ),
    "the same part": (
        replace(RECORD, drawn=TRAINED),
        replace(RECORD, drawn=TRAINED),
        "of the same part",
    ),
    "records of one person in both": (
        replace(PERSONS, drawn=TRAINED),
        replace(PERSONS, drawn=HELD_OUT),
        "a person with several records",
    ),
    "labels decide the part": (
        replace(LABEL, drawn=TRAINED),
        replace(LABEL, drawn=HELD_OUT),
        "another label may be drawn into another part",
    ),
    "units": (
        replace(RECORD, drawn=TRAINED),
        replace(RECORD, unit=Unit(most=2), drawn=HELD_OUT),
        "do not add up",
    ),
}


@pytest.mark.parametrize("name", UNPROVEN)
def test_without_a_proof_nothing_is_apart(name):
    first, second, words = UNPROVEN[name]
    with pytest.raises(ParameterError, match=words):
        combine_disjoint(first, second)


def test_parts_by_the_same_draws_are_apart():
    """Twin: with the proof the same numbers do not add."""
    trained, tested = replace(RECORD, drawn=TRAINED), replace(RECORD, drawn=HELD_OUT)
    assert combine_disjoint(trained, tested).summary == "epsilon = 1, delta = 1e-6"
    assert (
        combine_disjoint(add_guarantees(trained, trained), tested).summary
        == "epsilon = 2, delta = 2e-6"
    )
    by_person = [
        replace(PERSONS, drawn=replace(drawn, by_person=True)) for drawn in (TRAINED, HELD_OUT)
    ]
    assert combine_disjoint(*by_person).epsilon == 1


# ---- forms -----------------------------------------------------------------------------------


@given(guarantees())
def test_a_guarantee_comes_back_from_json(one):
    assert Guarantee.from_dict(json.loads(json.dumps(one.to_dict()))) == one


@given(UNITS, st.sampled_from([Protected.RECORD, Protected.LABEL]), COSTS, DELTAS)
def test_a_unit_comes_back_from_its_words(unit, protected, epsilon, delta):
    words = unit_words(unit, protected)
    assert unit_of_words(words) == (unit, protected)
    assert guarantee_of_words(words, epsilon, delta).protected is protected
    assert guarantee_of_words(words, math.inf, delta).protected is Protected.NOTHING


def test_words_of_no_unit_are_refused():
    for words in ("one hospital", "one person with up to 3 records, or so", ""):
        with pytest.raises(ValueError, match="no unit of a guarantee"):
            unit_of_words(words)


@pytest.mark.parametrize(
    "wrong",
    [{"epsilon": math.inf}, {"protected": Protected.NOTHING}, {"epsilon": 1.0}, {"delta": -1}],
)
def test_a_value_that_is_no_guarantee_is_refused(wrong):
    with pytest.raises(ParameterError):
        replace(RECORD, **wrong)


@given(guarantees())
def test_shown_numbers_are_never_below(one):
    epsilon, delta = one.numbers
    assert math.isinf(epsilon) if math.isinf(one.epsilon) else exact(epsilon) >= one.epsilon
    assert exact(delta) >= one.delta
