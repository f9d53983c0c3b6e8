"""A site's policy is closed unless somebody opened it."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import pytest

from contract.worlds import TWO, study
from hedgerow.errors import PartyRefused
from hedgerow.privacy.accounting.budget import Placement
from hedgerow.site.policy import Policy

STUDY = study(TWO, 3)
FITTING = Policy(
    recipes=frozenset({"test"}),
    features=frozenset(TWO.names),
    placements=frozenset({Placement.SHARES}),
    max_epsilon=Fraction(1),
)


def test_nothing_is_allowed_by_default():
    assert len(list(Policy().reasons(STUDY))) == 4
    with pytest.raises(PartyRefused, match="PolicyRefused"):
        Policy().check(STUDY)


def test_an_open_policy_and_a_fitting_one_allow_the_study():
    Policy.open().check(STUDY)
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


def test_no_noise_is_refused_unless_it_was_allowed():
    quiet = study(TWO, 3, Placement.NOWHERE)
    with pytest.raises(PartyRefused):
        FITTING.check(quiet)
