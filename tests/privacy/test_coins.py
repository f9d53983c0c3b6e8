"""exp in integers, and the coins made from it."""

import itertools
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hedgerow.privacy.mechanisms import coins
from hedgerow.privacy.mechanisms.coins import SecretRandomness, exp_bounds, minus_log

rationals = st.fractions(min_value=0, max_value=400, max_denominator=10**30)


class Scripted:
    """Gives the bytes it was told to give, then fails."""

    def __init__(self, *integers, width=8):
        self.queue = [i.to_bytes(width, "little") for i in integers]

    def bytes(self, count):
        chunk = self.queue.pop(0)
        assert len(chunk) == count
        return chunk


def exp_times(x, bits):
    with mpmath.workprec(2 * bits + 200):
        return mpmath.exp(-mpmath.mpf(x.numerator) / x.denominator) * mpmath.mpf(2) ** bits


@pytest.mark.property
@settings(max_examples=300, deadline=None)
@given(rationals, st.sampled_from([31, 64, 128, 320, 512]))
def test_the_bounds_enclose_exp_and_differ_by_at_most_two(x, bits):
    low, high = exp_bounds(x, bits)
    assert low <= exp_times(x, bits) <= high
    assert high - low <= 2


@pytest.mark.parametrize("shares", [1, 2, 7, 1000])
@pytest.mark.parametrize("rate", [Fraction(5), Fraction(1, 3), Fraction(1, 2**40)])
def test_the_first_polya_probability_is_right_to_270_bits(rate, shares):
    one = 1 << 320
    log = minus_log(one - exp_bounds(rate, 320)[0], 320)
    with mpmath.workprec(800):
        a = mpmath.exp(-mpmath.mpf(rate.numerator) / rate.denominator)
        exact = -mpmath.log(1 - a) / shares
        assert abs(mpmath.mpf(log) / one / shares - exact) < mpmath.mpf(2) ** -270


# ------------------------------------------------------------------------------ one coin
@pytest.mark.parametrize("bits", [1, 2, 3, 8])
def test_a_prefix_that_decides_needs_no_more_bits(bits):
    x = Fraction(1, 3)
    edge = int(exp_times(x, bits))
    nothing = Scripted()
    assert all(coins.falls_below_exp(p, bits + 64, x, nothing) for p in (0, (edge << 64) - 1))
    assert not coins.falls_below_exp((edge + 1) << 64, bits + 64, x, nothing)


def test_a_prefix_on_the_edge_is_decided_by_the_next_bits():
    x = Fraction(2, 7)
    edge, next_bits = divmod(int(exp_times(x, 96)), 2**64)
    assert coins.falls_below_exp(edge, 32, x, Scripted(next_bits - 1000))
    assert not coins.falls_below_exp(edge, 32, x, Scripted(next_bits + 1000))
    assert coins.falls_below_exp(edge, 32, x, Scripted(next_bits, 0))  # still the edge: once more
    assert not coins.falls_below_exp(edge, 32, x, Scripted(next_bits, 2**64 - 1))


def exact_probability(coin, depth):
    """Sums the scripts of single bits on which a coin shows heads; gives bounds."""
    heads = undecided = Fraction(0)
    for length in range(1, depth + 1):
        for script in itertools.product((0, 128), repeat=length):
            source = Scripted(*script, width=1)
            try:
                result = coin(source)
            except IndexError:
                undecided += Fraction(1, 2**length) if length == depth else 0
                continue
            if not source.queue:
                heads += Fraction(1, 2**length) * result
    return heads, heads + undecided


@pytest.mark.parametrize("x", [Fraction(1, 2), Fraction(1), Fraction(3, 2)])
def test_the_exp_coin_has_exactly_its_bias_as_far_as_enumerated(x, monkeypatch):
    """Every uniform below 2^j reads whole bytes of which only the top bits count."""
    monkeypatch.setattr(coins, "uniform_below", _below_by_single_bits)
    low, high = exact_probability(lambda s: coins.bernoulli_exp(x, s), 12)
    assert low <= float(exp_times(x, 0)) <= high
    assert high - low < Fraction(1, 8)


def _below_by_single_bits(n, source):
    """The same exact uniform, one byte a bit, so that all scripts can be listed."""
    bits = (n - 1).bit_length()
    while True:
        value = 0
        for _ in range(bits):
            value = 2 * value + (source.bytes(1)[0] >> 7)
        if value < n:
            return value


# ----------------------------------------------------------------------------- many coins
denominators = st.fractions(min_value=1, max_value=2**61, max_denominator=1000)


@pytest.mark.property
@settings(max_examples=200, deadline=None)
@given(denominators, st.lists(st.fractions(min_value=0, max_value=1), min_size=1, max_size=50))
def test_the_vectorized_exp_is_within_its_stated_error(denominator, places):
    numerators = np.array([int(p * (int(denominator) - 1)) for p in places], np.uint64)
    estimates = coins._exp32(numerators, denominator)
    for n, estimate in zip(numerators, estimates, strict=True):
        exact = exp_times(Fraction(int(n)) / denominator, 32)
        assert abs(int(estimate) - exact) < 8  # proved: 7; the coins allow for 16


@pytest.mark.property
@settings(max_examples=200, deadline=None)
@given(denominators, st.lists(st.fractions(min_value=0, max_value=2), min_size=1, max_size=50))
def test_a_chance_from_below_is_never_above_and_near_where_the_exponent_is_small(
    denominator, places
):
    numerators = np.array([int(p * int(denominator)) for p in places], np.uint64)
    for n, least in zip(numerators, coins.exp_at_least(numerators, denominator), strict=True):
        exact = exp_times(Fraction(int(n)) / denominator, 32)
        assert int(least) <= exact
        assert int(least) > exact - 24 or int(n) >= int(denominator)


def test_many_coins_agree_with_exact_bounds_near_every_edge():
    denominator = Fraction(2 * 10**12 + 1, 2)
    numerators = np.repeat(np.arange(0, 10**12, 10**11, dtype=np.uint64), 41)
    edges = np.array([int(exp_times(Fraction(int(n)) / denominator, 32)) for n in numerators])
    steps = np.tile(np.arange(-20, 21), 10)
    uniforms = np.clip(edges + steps, 0, 2**32 - 1).astype(np.uint64)
    got = coins.exp_coins(numerators, denominator, uniforms, SecretRandomness())
    decided = steps != 0
    np.testing.assert_array_equal(got[decided], (steps < 0)[decided] | (numerators == 0)[decided])


def test_coins_for_large_exponents_are_settled_exactly_and_not_by_wrapped_words():
    numerators = np.array([2**40, 2**63, 5], np.uint64)
    uniforms = np.array([0, 2**31, 2**32 - 1], np.uint64)
    got = coins.exp_coins(numerators, Fraction(1), uniforms, SecretRandomness())
    assert got.tolist() == [False, False, False]
