"""What is left when more sites collude than a study tolerates."""

import itertools
import math
from fractions import Fraction as Q

import numpy as np
import pytest

from hedgerow.errors import SpecError
from hedgerow.models.sensitivity import Sensitivity
from hedgerow.privacy.accounting import conversions
from hedgerow.privacy.accounting.budget import Measure
from hedgerow.privacy.accounting.coalition import (
    Coalition,
    Release,
    cost_against,
    polya_loss,
)
from hedgerow.privacy.mechanisms.mechanisms import DiscreteGaussian, DiscreteLaplace

ONE = Sensitivity(1, 1, 1)


def counted(rate: Q) -> Release:
    return Release(law=DiscreteLaplace(rate), sensitivity=ONE)


def polya_difference(rate: float, shape: float, reach: int) -> np.ndarray:
    """P(0), P(1), .. of X - Y by plain summation."""
    a, one = math.exp(-rate), [1.0]
    for k in range(1, 40 * reach):
        one.append(one[-1] * a * (shape + k - 1) / k)
    q = np.array(one) * (1 - a) ** shape
    return np.array([np.dot(q[: len(q) - k], q[k:]) for k in range(reach)])


# (h, t, colluders) stands for `shape` honest shares of h; losses are for one unit count.
TABLE = [
    (2, 3, 2, (0.606, 1.138, 1.675)),
    (3, 4, 2, (0.343, 0.856, 1.389)),
    (3, 4, 3, (1.036, 1.549, 2.083)),
    (6, 8, 6, (1.036, 1.549, 2.083)),
    (6, 7, 2, (0.187, 0.652, 1.172)),
]


@pytest.mark.parametrize(("h", "t", "colluders", "expected"), TABLE)
def test_one_colluder_too_many_costs_what_the_exact_table_says(h, t, colluders, expected):
    coalition = Coalition(h=h, t=t, colluders=colluders)
    for declared, true in zip((Q(1, 10), Q(1, 2), Q(1)), expected, strict=True):
        found = cost_against(Measure.PURE, counted(declared), coalition)
        assert float(found) == pytest.approx(true, abs=6e-4)


@pytest.mark.parametrize("colluders", [0, 1])
def test_the_declared_cost_holds_against_tolerated_colluders(colluders):
    coalition = Coalition(h=3, t=4, colluders=colluders)
    assert cost_against(Measure.PURE, counted(Q(1, 10)), coalition) == Q(1, 10)
    law = DiscreteGaussian(Q(50))
    release = Release(law=law, sensitivity=ONE)
    assert cost_against(Measure.GDP, release, coalition) == conversions.cost_of(
        Measure.GDP, law, ONE
    )


@pytest.mark.parametrize("measure", list(Measure))
def test_nothing_is_promised_when_every_survivor_may_collude(measure):
    coalition = Coalition(h=3, t=4, colluders=4)
    release = Release(law=DiscreteGaussian(Q(50)), sensitivity=ONE)
    assert cost_against(measure, release, coalition) == math.inf


def test_gaussian_noise_loses_the_square_root_of_the_shares_it_misses():
    release = Release(law=DiscreteGaussian(Q(10**6)), sensitivity=ONE)
    full = cost_against(Measure.GDP, release, Coalition(h=4, t=6, colluders=2))
    half = cost_against(Measure.GDP, release, Coalition(h=4, t=6, colluders=4))
    assert float(half / full) == pytest.approx(2, rel=1e-6)


@pytest.mark.parametrize(
    ("rate", "shape"), [(0.5, Q(1, 2)), (0.1, Q(1, 3)), (1.0, Q(4, 5)), (0.3, Q(1))]
)
def test_the_loss_of_a_part_of_the_shares_is_the_exact_one(rate, shape):
    p = polya_difference(rate, float(shape), 30)
    both_sides = np.concatenate([p[:0:-1], p])
    for change in (1, 2, 7):
        worst = np.abs(np.log(both_sides[change:] / both_sides[:-change])).max()
        assert float(polya_loss(Q(rate), shape, change)) == pytest.approx(worst, rel=1e-6)


def test_an_even_spread_of_a_change_is_the_worst_one():
    rate, shape = Q(1, 5), Q(1, 2)
    release = Release(law=DiscreteLaplace(rate), sensitivity=Sensitivity(7, 49, 7), touched=3)
    cost = cost_against(Measure.PURE, release, Coalition(h=2, t=3, colluders=2))
    spreads = [s for s in itertools.product(range(8), repeat=3) if sum(s) <= 7]
    loss = [Q(0), *(polya_loss(rate, shape, change) for change in range(1, 8))]
    assert cost == max(sum(loss[change] for change in spread) for spread in spreads)


def test_two_releases_cost_more_against_a_coalition_than_one_of_twice_the_rate():
    coalition = Coalition(h=2, t=3, colluders=2)
    once = cost_against(Measure.PURE, counted(Q(1, 10)), coalition)
    assert 2 * once > cost_against(Measure.PURE, counted(Q(1, 5)), coalition)


def test_a_study_without_tolerated_colluders_is_not_a_study():
    with pytest.raises(SpecError):
        Coalition(h=3, t=3, colluders=1)
