"""A site's policy is closed unless somebody opened it."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import pytest

from hedgerow.errors import PartyRefused
from hedgerow.federation.policy import Policy, Volume
from hedgerow.privacy.accounting.budget import Placement
from support.worlds import TWO, study

STUDY = study(TWO, 3)
FITTING = Policy(
    recipes=frozenset({"test"}),
    features=frozenset(TWO.names),
    placements=frozenset({Placement.SHARES}),
    max_epsilon=Fraction(1),
    max_delta=Fraction(1, 10**6),
)


def test_nothing_is_allowed_by_default():
    assert len(list(Policy().reasons(STUDY))) == 4
    with pytest.raises(PartyRefused, match="PolicyRefused"):
        Policy().check(STUDY)


def test_an_open_policy_and_a_fitting_one_allow_the_study():
    Policy.open().check(STUDY)
    Policy.open().check(study(TWO, 1, Placement.CURATOR))
    FITTING.check(STUDY)


@pytest.mark.parametrize(
    "change",
    [
        {"recipes": frozenset({"other"})},
        {"features": frozenset({"age"})},
        {"placements": frozenset({Placement.SILO})},
        {"max_epsilon": Fraction(1, 2)},
        {"min_parties": 4},
    ],
    ids=lambda change: next(iter(change)),
)
def test_each_part_alone_can_say_no(change):
    assert len(list(replace(FITTING, **change).reasons(STUDY))) == 1


@pytest.mark.parametrize(
    ("change", "asked", "why"),
    [
        ({"max_delta": Fraction(1, 10**7)}, {"delta": Fraction(1, 10**6)}, "delta 1/1000000"),
        ({"max_colluders": 1}, {"colluders": 2}, "colluders 2 is above the ceiling 1"),
        ({"min_colluders": 2}, {}, "colluders 1 are fewer than 2"),
        ({"max_records_per_person": 2}, {"records_per_person": 3}, "records per person 3"),
    ],
)
def test_each_ceiling_of_a_study_alone_can_say_no(change, asked, why):
    wanted = replace(study(TWO, 5), **asked)
    fitting = replace(FITTING, max_epsilon=wanted.epsilon)
    assert list(fitting.reasons(wanted)) == []
    reasons = list(replace(fitting, **change).reasons(wanted))
    assert len(reasons) == 1
    assert why in reasons[0]


def test_rounds_of_a_study_have_a_ceiling_where_they_are_known():
    few = replace(FITTING, max_rounds=3)
    assert not list(few.reasons(STUDY)) + list(few.reasons(STUDY, 3))
    assert list(few.reasons(STUDY, 4)) == ["rounds 4 is above the ceiling 3"]


@pytest.mark.parametrize(
    ("change", "volume"),
    [
        ({"max_rounds": 2}, Volume(3, 0, 0)),
        ({"max_bytes": 99}, Volume(1, 100, 0)),
        ({"max_disk": 99}, Volume(1, 0, 100)),
    ],
)
def test_what_a_study_takes_has_ceilings(change, volume):
    FITTING.check_volume(STUDY, volume)
    with pytest.raises(PartyRefused, match="PolicyRefused"):
        replace(FITTING, **change).check_volume(STUDY, volume)


def test_no_noise_is_refused_unless_it_was_allowed():
    quiet = study(TWO, 3, Placement.NOWHERE)
    with pytest.raises(PartyRefused):
        FITTING.check(quiet)
