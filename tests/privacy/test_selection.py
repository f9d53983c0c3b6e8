"""Private selection: exact probabilities against draws, and against epsilon for every neighbor."""

import itertools
import random
from fractions import Fraction
from functools import cache

import numpy as np
import pytest
from scipy import stats

from hedgerow.errors import ParameterError
from hedgerow.privacy.mechanisms import selection
from hedgerow.privacy.mechanisms.coins import SecretRandomness, exp_bounds
from support.choices import exponential_pmf, permute_and_flip_pmf, report_noisy_max_pmf

pytestmark = pytest.mark.statistical

ALPHA = 1e-12
DRAWS = 200_000
SCORES = [0, 3, 5, 4, 5, 1]
COEFFICIENT = Fraction(2, 5)


MECHANISMS = {
    selection.exponential: exponential_pmf,
    selection.permute_and_flip: permute_and_flip_pmf,
    selection.report_noisy_max: report_noisy_max_pmf,
}
EACH = pytest.mark.parametrize(
    ("mechanism", "pmf"), MECHANISMS.items(), ids=[m.__name__ for m in MECHANISMS]
)


def agrees(counts, pmf):
    """Exact binomial tests, one for each candidate."""
    n = int(counts.sum())
    tests = (
        stats.binomtest(int(c), n, min(float(p), 1.0)) for c, p in zip(counts, pmf, strict=True)
    )
    return min(t.pvalue for t in tests) > ALPHA / len(counts)


def counts_of(mechanism, scores, coefficient, draws):
    secret = SecretRandomness()
    chosen = [mechanism(scores, coefficient, secret) for _ in range(draws)]
    return np.bincount(chosen, minlength=len(scores))


SLOW_TO_DRAW = {selection.report_noisy_max}
"""Noise for every candidate: the same number of draws takes most of a minute."""


@pytest.mark.parametrize(
    ("mechanism", "pmf"),
    [
        pytest.param(m, pmf, marks=[pytest.mark.slow] if m in SLOW_TO_DRAW else [])
        for m, pmf in MECHANISMS.items()
    ],
    ids=[m.__name__ for m in MECHANISMS],
)
def test_draws_follow_the_exact_probabilities(mechanism, pmf):
    counts = counts_of(mechanism, SCORES, COEFFICIENT, DRAWS)
    assert agrees(counts, pmf(SCORES, COEFFICIENT))
    assert not agrees(counts, pmf(SCORES, COEFFICIENT * Fraction(6, 5)))


@EACH
def test_a_dominant_candidate_and_hopeless_ones_are_drawn_right(mechanism, pmf):
    scores, coefficient = [0, 70, 60, 68], Fraction(1, 2)
    counts = counts_of(mechanism, scores, coefficient, 10_000)
    assert agrees(counts, pmf(scores, coefficient))


@EACH
def test_the_written_probabilities_sum_to_one(mechanism, pmf):
    assert pmf(SCORES, COEFFICIENT).sum() == pytest.approx(1, abs=1e-12)


# --------------------------------------------------------------------- every neighbor, exactly
def largest_loss(pmf, coefficient, moves, size=3, levels=3):
    """The largest log ratio over all scores below `levels` and all moves of one record."""

    @cache
    def logs(gaps):
        return np.log(pmf(gaps, coefficient))

    def at(scores):  # only differences matter, so few cases are different
        return logs(tuple(u - min(scores) for u in scores))

    starts = itertools.product(range(levels), repeat=size)
    return max(
        np.abs(at(u) - at([a + b for a, b in zip(u, move, strict=True)])).max()
        for u in starts
        for move in itertools.product(moves, repeat=size)
    )


@EACH
@pytest.mark.parametrize(("monotone", "moves"), [(True, (0, 1)), (False, (-1, 0, 1))])
def test_no_neighbor_is_told_apart_by_more_than_epsilon(mechanism, pmf, monotone, moves):
    epsilon = Fraction(3, 2)
    coefficient = epsilon / (1 if monotone else 2)  # the range of moves
    loss = largest_loss(pmf, coefficient, moves)
    assert loss <= float(epsilon) + 1e-9
    assert largest_loss(pmf, 2 * coefficient, moves) > float(epsilon)


@EACH
def test_the_monotone_coefficient_is_too_sharp_for_general_scores(mechanism, pmf):
    epsilon = Fraction(3, 2)
    assert largest_loss(pmf, epsilon, (-1, 0, 1)) > float(epsilon)


def test_permute_and_flip_is_never_worse_than_the_exponential_mechanism():
    rng = np.random.default_rng(5)
    for _ in range(200):
        scores = rng.integers(0, 12, size=5)
        coefficient = Fraction(int(rng.integers(1, 30)), 10)
        regret = scores.max() - scores
        flip, exponential = (
            pmf(scores, coefficient) @ regret for pmf in (permute_and_flip_pmf, exponential_pmf)
        )
        assert flip <= exponential + 1e-12


# --------------------------------------------------------------------------- limits and refusals
@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_a_single_candidate_wins(mechanism):
    assert mechanism([-7], Fraction(1), SecretRandomness()) == 0


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_a_hundred_thousand_candidates_are_no_trouble(mechanism):
    scores = np.random.default_rng(1).integers(0, 10**6, size=100_000)
    assert 0 <= mechanism(scores.tolist(), Fraction(1, 1000), SecretRandomness()) < 100_000


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_scores_from_an_integer_array_are_taken_and_floats_refused(mechanism):
    secret = SecretRandomness()
    assert mechanism(np.array([2, 900]), Fraction(1), secret) == 1
    with pytest.raises(ParameterError, match="not an integer"):
        mechanism([1.0, 2.0], Fraction(1), secret)
    with pytest.raises(ParameterError, match="not an integer"):
        mechanism([Fraction(1, 2), 2], Fraction(1), secret)


@pytest.mark.parametrize("mechanism", MECHANISMS)
@pytest.mark.parametrize(
    ("scores", "coefficient"),
    [
        ([], Fraction(1)),
        ([1, 2**62], Fraction(1)),
        ([1, -(2**90)], Fraction(1)),
        ([1, 2], 0.5),
        ([1, 2], Fraction(-1)),
    ],
)
def test_what_cannot_be_chosen_from_exactly_is_refused(mechanism, scores, coefficient):
    with pytest.raises(ParameterError):
        mechanism(scores, coefficient, SecretRandomness())


# --------------------------------------------------------------- the exponential, bit by bit
class Scripted:
    """One integer for `below`, then bytes for the coin."""

    def __init__(self, *integers):
        self.integers = list(integers)

    def bytes(self, count):
        return self.integers.pop(0).to_bytes(count, "little")


BITS = selection._WEIGHT_BITS


def test_bounds_of_a_weight_hold_the_weight_and_are_close():
    """Against one exponential of the whole gap, at four times the bits."""
    draw = random.Random(7)
    for _ in range(300):
        coefficient = Fraction(
            draw.randrange(1, 1000), draw.randrange(1, 2 ** draw.randrange(2, 40))
        )
        gap = draw.randrange(2 ** draw.randrange(1, 62))
        lows, highs = selection._weight_bounds(np.array([gap, 0]), coefficient)
        least, most = exp_bounds(coefficient * gap, 4 * BITS)
        assert int(lows[0]) << 3 * BITS <= most
        assert least <= int(highs[0]) << 3 * BITS
        assert highs[0] - lows[0] <= 17
        assert lows[1] == highs[1] == 1 << BITS


def test_a_product_of_eight_factors_is_short_by_less_than_is_said():
    """The worst that is known: gaps of 61 bits, all of their bytes in use, at weights near 1."""
    draw = random.Random(8)
    gaps = np.array([draw.randrange(2**60, 2**61) for _ in range(2000)])
    coefficient = Fraction(1, 2**62)
    lows, highs = selection._weight_bounds(gaps, coefficient)
    for gap, low, high in zip(gaps.tolist(), lows.tolist(), highs.tolist(), strict=True):
        least, most = exp_bounds(coefficient * gap, 4 * BITS)
        assert low << 3 * BITS <= least
        assert most <= high << 3 * BITS
        assert least - (low << 3 * BITS) < 17 << 3 * BITS


def test_the_integer_between_the_bounds_of_a_weight_is_settled_by_a_coin():
    """Two candidates, gaps 0 and 1: the second owns `high` integers, its last ones in doubt."""
    coefficient, one = Fraction(1), 1 << BITS
    lows, highs = selection._weight_bounds(np.array([0, 1]), coefficient)
    low, high, weight = int(lows[1]), int(highs[1]), exp_bounds(coefficient, BITS)[0]
    assert low <= weight < high
    surplus = -(one + high - 1).bit_length() % 8
    doubtful, below, above = ((one + v) << surplus for v in (weight, low - 1, high - 1))
    won = Scripted(doubtful, 0)  # the next 64 bits are 0: below the true weight
    assert selection.exponential([1, 0], coefficient, won) == 1
    lost = Scripted(doubtful, 2**64 - 1, 0)  # above it: starts over, now with the integer 0
    assert selection.exponential([1, 0], coefficient, lost) == 0
    sure, hopeless = Scripted(below), Scripted(above, 0)  # no coin is needed
    assert selection.exponential([1, 0], coefficient, sure) == 1
    assert selection.exponential([1, 0], coefficient, hopeless) == 0
    assert not any(one.integers for one in (won, lost, sure, hopeless))


def test_weights_that_the_first_bits_cannot_tell_apart_are_drawn_right(monkeypatch):
    """With four bits instead of 31 every other draw is settled by the coin, and none is wrong."""
    monkeypatch.setattr(selection, "_WEIGHT_BITS", 4)
    selection._factors.cache_clear()
    counts = counts_of(selection.exponential, SCORES, COEFFICIENT, 5_000)
    selection._factors.cache_clear()
    assert agrees(counts, exponential_pmf(SCORES, COEFFICIENT))


def test_a_draw_without_the_coin_is_seen(monkeypatch):
    """Twin: with four bits and every doubtful integer kept, the law is another one."""
    monkeypatch.setattr(selection, "_WEIGHT_BITS", 4)
    monkeypatch.setattr(selection, "falls_below_exp", lambda *_: True)
    selection._factors.cache_clear()
    counts = counts_of(selection.exponential, SCORES, COEFFICIENT, 5_000)
    selection._factors.cache_clear()
    assert not agrees(counts, exponential_pmf(SCORES, COEFFICIENT))
