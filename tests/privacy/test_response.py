"""Randomized response: the loss is counted word by word, and equals the stated epsilon."""

import itertools
import math
from collections import Counter
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import nnls

from hedgerow.errors import ParameterError
from hedgerow.privacy.mechanisms.coins import SecretRandomness, exp_bounds
from hedgerow.privacy.mechanisms.response import (
    ALL_WORDS,
    BloomRandomizedResponse,
    RandomizedResponse,
    codebook,
    log_up,
    non_negative,
)


def words_of_records(*shape: int) -> np.ndarray:
    """Fixed words: what a site's secret draws would be, the same in every run of this test."""
    return np.random.default_rng(0).integers(0, 2**64, shape, dtype=np.uint64)


def is_log_rounded_up(epsilon, ratio):
    """exp(epsilon) >= ratio by certified bounds, and not by more than rounding."""
    reaches = exp_bounds(Fraction(epsilon), 256)[1] * ratio <= 1 << 256
    return reaches and epsilon <= math.log1p(ratio - 1) * (1 + 1e-14)


# ----------------------------------------------------------------------------- k-ary response
def edge_words(response):
    """The first and the last word of every answer: between them the answer cannot change."""
    width = (ALL_WORDS - response.honest_words) // (response.classes - 1)
    starts = [0, *range(response.honest_words, ALL_WORDS, width)]
    return [(a, b - 1) for a, b in itertools.pairwise([*starts, ALL_WORDS])]


def exact_answers(response, label):
    """How many of the 2^64 words give each answer."""
    counts = Counter()
    for first, last in edge_words(response):
        words = np.array([first, last], np.uint64)
        answer, same = response.respond(np.array([label, label]), words).tolist()
        assert answer == same
        counts[answer] += last - first + 1
    return counts


@pytest.mark.parametrize("classes", [2, 3, 7])
@pytest.mark.parametrize("epsilon", [Fraction(1, 100), Fraction(1), Fraction(5)])
def test_the_exact_loss_is_the_stated_epsilon(classes, epsilon):
    response = RandomizedResponse.for_epsilon(classes, epsilon)
    tables = [exact_answers(response, label) for label in range(classes)]
    assert all(sum(t.values()) == ALL_WORDS for t in tables)
    worst = max(
        Fraction(a[k], b[k]) for a, b in itertools.permutations(tables, 2) for k in range(classes)
    )
    assert worst == response.epsilon_ratio
    assert is_log_rounded_up(response.epsilon, worst)
    assert 0 <= float(epsilon) - response.epsilon < 1e-15 * classes * math.exp(epsilon) + 1e-15


def test_a_response_that_forgets_the_other_classes_costs_more_than_it_says():
    """The negative control: p = e^eps / (1 + e^eps) is right for two classes only."""
    keep = Fraction(math.exp(1)) / (1 + Fraction(math.exp(1)))
    honest = ALL_WORDS - 4 * round(ALL_WORDS * (1 - keep) / 4)
    assert RandomizedResponse(5, honest).epsilon > 1 + math.log(3)


@pytest.mark.property
@settings(max_examples=50, deadline=None)
@given(st.integers(2, 40), st.fractions(min_value=Fraction(1, 1000), max_value=12))
def test_a_response_never_costs_more_than_asked(classes, epsilon):
    response = RandomizedResponse.for_epsilon(classes, epsilon)
    low, _ = exp_bounds(epsilon, 256)
    assert low * response.epsilon_ratio <= 1 << 256


def test_label_counts_are_recovered_from_answers_of_records():
    response = RandomizedResponse.for_epsilon(3, Fraction(3, 2))
    labels = np.repeat([0, 1, 2], [12_000, 6_000, 2_000])
    answers = response.respond(labels, words_of_records(labels.size))
    estimate = response.estimate_counts(np.bincount(answers, minlength=3))
    assert estimate.sum() == pytest.approx(labels.size)
    np.testing.assert_allclose(estimate, [12_000, 6_000, 2_000], atol=900)  # words are fixed


@pytest.mark.parametrize(
    ("classes", "honest"), [(1, 5), (3, 2**63 + 1), (3, 0), (4, 2**64), (2, 2**62)]
)
def test_uneven_or_inverted_responses_are_refused(classes, honest):
    with pytest.raises(ParameterError):
        RandomizedResponse(classes, honest)


@pytest.mark.parametrize(("classes", "epsilon"), [(1, Fraction(1)), (3, Fraction(0))])
def test_a_response_needs_two_classes_and_some_epsilon(classes, epsilon):
    with pytest.raises(ParameterError):
        RandomizedResponse.for_epsilon(classes, epsilon)


@pytest.mark.property
@settings(max_examples=100, deadline=None)
@given(st.fractions(min_value=1, max_value=10**12, max_denominator=2**70))
def test_logarithms_round_up(ratio):
    assert exp_bounds(Fraction(log_up(ratio)), 256)[1] * ratio <= 1 << 256
    assert log_up(ratio) <= math.log1p(float(ratio - 1)) * (1 + 1e-14)


# ------------------------------------------------------------------------------ Bloom reports
BLOOM = BloomRandomizedResponse(classes=3, bits=6, hashes=2, keep=Fraction(1, 2))


def permanent_odds(reports, bit):
    """P(1) of a permanent bit, from the words that flip it."""
    return Fraction(ALL_WORDS - reports._flip_words if bit else reports._flip_words, ALL_WORDS)


def instant_odds(reports, bit):
    """P(1) of one report of a bit of the label."""
    one, zero = (Fraction(w, ALL_WORDS) for w in reports._one_words)
    p = permanent_odds(reports, bit)
    return p * one + (1 - p) * zero


def exact_loss(reports, odds):
    """The largest ratio over all pairs of labels and all strings of bits."""

    def probability(code, string):
        return math.prod(
            odds(reports, c) if s else 1 - odds(reports, c)
            for c, s in zip(code, string, strict=True)
        )

    strings = list(itertools.product((0, 1), repeat=reports.bits))
    tables = [[probability(code, s) for s in strings] for code in reports.code.tolist()]
    assert all(sum(t) == 1 for t in tables)
    return max(
        a / b for x, y in itertools.permutations(tables, 2) for a, b in zip(x, y, strict=True)
    )


@pytest.mark.parametrize("keep", [Fraction(1, 2), Fraction(1, 3), Fraction(9, 10)])
def test_the_exact_loss_of_bloom_reports_is_the_stated_epsilon(keep):
    reports = BloomRandomizedResponse(classes=3, bits=6, hashes=2, keep=keep)
    assert is_log_rounded_up(reports.epsilon_forever, exact_loss(reports, permanent_odds))
    assert is_log_rounded_up(reports.epsilon_once, exact_loss(reports, instant_odds))


def test_the_textbook_numbers_come_out():
    """k = 2, keep 1/2, reports 3/4 and 1/4: 4 ln 3 for ever, 2 ln(25/9) once."""
    assert BLOOM.epsilon_forever == pytest.approx(4 * math.log(3), rel=1e-14)
    assert BLOOM.epsilon_once == pytest.approx(2 * math.log(25 / 9), rel=1e-14)


def test_two_permanent_strings_for_one_record_cost_twice():
    """The negative control: redrawn after a restart, the bits of one record leak once more."""
    once = exact_loss(BLOOM, permanent_odds)
    assert math.log(once**2) > BLOOM.epsilon_forever * 1.99


def test_permanent_bits_flip_for_exactly_the_stated_words():
    flip = BLOOM._flip_words
    assert Fraction(flip, ALL_WORDS) == Fraction(1, 4)  # (1 - keep) / 2
    words = np.tile(np.array([[flip - 1], [flip]], np.uint64), BLOOM.bits)
    flipped, kept = BLOOM.permanent(np.array([1, 1]), words)
    np.testing.assert_array_equal(kept, BLOOM.code[1])
    np.testing.assert_array_equal(flipped, 1 - BLOOM.code[1])


class Scripted:
    def __init__(self, word):
        self.word = word

    def words(self, count):
        return np.full(count, self.word, np.uint64)


def test_instant_bits_are_sent_for_exactly_the_stated_words():
    permanent = BLOOM.code[:1]
    one, zero = BLOOM._one_words
    assert (one, zero) == (3 * 2**62, 2**62)
    assert BLOOM.instant(permanent, Scripted(zero - 1)).all()
    np.testing.assert_array_equal(BLOOM.instant(permanent, Scripted(zero)), permanent)
    np.testing.assert_array_equal(BLOOM.instant(permanent, Scripted(one - 1)), permanent)
    assert not BLOOM.instant(permanent, Scripted(one)).any()


def test_label_counts_are_decoded_from_instant_reports():
    labels = np.repeat([0, 1, 2], [12_000, 6_000, 2_000])
    permanent = BLOOM.permanent(labels, words_of_records(labels.size, BLOOM.bits))
    ones = BLOOM.instant(permanent, SecretRandomness()).sum(axis=0, dtype=np.int64)
    counts = BLOOM.decode(ones, labels.size)
    assert counts.min() >= 0
    np.testing.assert_allclose(counts, [12_000, 6_000, 2_000], atol=3_000)  # 7 deviations or more


def test_decoding_expected_counts_is_exact():
    one, zero = (float(p) for p in BLOOM._report_odds)
    truth = np.array([50.0, 0.0, 20.0])
    expected = zero * truth.sum() + (one - zero) * BLOOM.code.T @ truth
    np.testing.assert_allclose(BLOOM.decode(expected, 70), truth, atol=1e-9)


@pytest.mark.parametrize(
    ("classes", "bits", "hashes"), [(2, 2, 1), (26, 26, 1), (3, 6, 2), (10, 24, 3)]
)
def test_codes_set_equally_many_bits_and_can_be_told_apart(classes, bits, hashes):
    code = codebook(classes, bits, hashes)
    assert (code.sum(axis=1) == hashes).all()
    assert np.linalg.matrix_rank(code) == classes
    with pytest.raises(ValueError, match="read-only"):
        code[0, 0] = 1


@pytest.mark.parametrize(
    "change",
    [
        {"keep": Fraction(0)},
        {"keep": Fraction(1)},
        {"bits": 2},
        {"hashes": 6},
        {"hashes": 0},
        {"classes": 1},
        {"one_if_set": Fraction(1, 4), "one_if_clear": Fraction(3, 4)},
        {"one_if_set": Fraction(1)},
    ],
)
def test_reports_that_protect_or_tell_nothing_are_refused(change):
    fields = {"classes": 3, "bits": 6, "hashes": 2, "keep": Fraction(1, 2)}
    with pytest.raises(ParameterError):
        BloomRandomizedResponse(**{**fields, **change})


@pytest.mark.property
@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**32 - 1), st.sampled_from([(2, 4, 2), (3, 6, 2), (10, 24, 3)]))
def test_decoding_many_cells_at_once_is_non_negative_least_squares(seed, shape):
    matrix = codebook(*shape).T.astype(np.float64)
    told = np.random.default_rng(seed).normal(0, 30, (7, shape[1]))
    for row, solved in zip(told, non_negative(matrix, told), strict=True):
        best, distance = nnls(matrix, row)
        assert solved.min() >= 0.0
        assert np.linalg.norm(matrix @ solved - row) <= distance + 1e-4
        np.testing.assert_allclose(solved, best, atol=0.05)
