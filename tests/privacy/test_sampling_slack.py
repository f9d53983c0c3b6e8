"""Gate: what inexact draws add to delta is counted for every draw of every site and every round."""

from __future__ import annotations

import math
from fractions import Fraction
from functools import cache
from itertools import accumulate, islice

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mpmath import mp

from hedgerow.federation.server import Server
from hedgerow.kernels.noise import search
from hedgerow.privacy.accounting.budget import DPModel
from hedgerow.privacy.mechanisms import sampling
from hedgerow.privacy.mechanisms.coins import SecretRandomness, exp_bounds
from hedgerow.privacy.mechanisms.mechanisms import (
    DiscreteGaussian,
    DiscreteLaplace,
    NoNoise,
    PolyaDifference,
    gaussian_share_tau,
)
from hedgerow.privacy.mechanisms.sampling import (
    EXACT_BITS,
    LAW_BITS,
    Digit,
    Gaussian,
    Polya,
    table_of,
    total_variation,
    total_variation_of,
)
from hedgerow.privacy.queries import Binning, BoundQuery, Cells, ClassCounts, SumQuery, Whole
from hedgerow.privacy.statement import statement as module
from hedgerow.privacy.statement.statement import statement
from hedgerow.privacy.study import Study
from hedgerow.schema.regions import EVERYONE, Step
from hedgerow.secagg.parameters import Parameters
from support.worlds import TWO, federation, site_rows, study

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
    "central": study(TWO, 1),
    "central, delta": study(TWO, 1, epsilon="3", delta="1e-6"),
    "distributed": study(TWO, 5, epsilon="2"),
    "distributed, delta": study(TWO, 5, delta="1e-6"),
    "per_site": study(TWO, 3, DPModel.PER_SITE, epsilon="1/2"),
}
EACH = pytest.mark.parametrize("the_study", STUDIES.values(), ids=STUDIES)


def slack_by_hand(the_study: Study) -> Fraction:
    """sites x numbers x (how far one draw is from its law), and what shares are from a whole."""
    slack = Fraction(0)
    for query in (query for bundle in rounds() for query in bundle):
        whole, numbers = the_study.sum_law(query), math.prod(query.shape)
        if the_study.dp_model is DPModel.DISTRIBUTED:
            h = Parameters.default(the_study.n_sites).honest
            one = whole.share(h)
            slack += numbers * (
                Fraction(gaussian_share_tau(whole.sigma2, h)) if the_study.delta else 0
            )
        else:
            one = whole
        slack += the_study.n_sites * numbers * total_variation(one)
    return slack


def is_counted(the_study: Study) -> bool:
    """The gate: the statement's number is this one, rounded up."""
    X, y = np.empty((0, 3), object), np.empty(0, object)
    parts = site_rows(X, y, np.empty(0, int), the_study.n_sites, TWO)
    fed = federation(the_study, parts)
    for bundle in rounds():
        fed.ask(bundle)
    said = statement(the_study, fed.sites.spent(), fed.queries, is_simulation=True, slack=fed.slack)
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


@pytest.mark.parametrize("name", ["distributed", "per_site"])
def test_a_slack_of_one_site_only_is_seen(name, monkeypatch):
    right = Study.slack
    monkeypatch.setattr(Study, "slack", lambda self, query: right(self, query) / self.n_sites)
    assert not is_counted(STUDIES[name])


@EACH
def test_a_slack_of_the_last_round_only_is_seen(the_study, monkeypatch):
    right = Server._charge

    def charged(self, bundle):
        self.slack = Fraction(0)
        return right(self, bundle)

    monkeypatch.setattr(Server, "_charge", charged)
    assert not is_counted(the_study)


@EACH
def test_a_slack_without_the_other_data_sets_part_is_seen(the_study, monkeypatch):
    """Twin: 1 instead of 1 + e^epsilon."""
    monkeypatch.setattr(module, "_delta_slack", lambda slack, epsilon: float(slack))
    assert not is_counted(the_study)


# --------------------------------------------------------------------------------------------------
# Tables: thresholds checked against high-precision sums, ties and tails forced by scripts.
LAWS = [
    Polya(Fraction(1), 1),
    Polya(Fraction(1, 50), 1),
    Polya(Fraction(3, 10), 5),
    Polya(Fraction(1, 40), 1000),
    Digit(Fraction(1, 2**40), 1024),
    Digit(Fraction(1, 7), 16),
    Gaussian(Fraction(300), is_half=True),
    Gaussian(Fraction(1, 9)),
    Gaussian(Fraction(1000, 3)),
]
NAMES = [str(law) for law in LAWS]
PRECISION = 1200


class Scripted:
    """Words and bytes as told; the words live in one buffer that every later read overwrites."""

    def __init__(self, words, more=()):
        self.buffer = np.array(words, np.uint64)
        self.more = list(more)

    def words(self, count):
        assert count == len(self.buffer)
        return self.buffer

    def bytes(self, count):
        self.buffer[:] = 0
        return self.more.pop(0).to_bytes(count, "little")


# --------------------------------------------------------- the law, written down once more
def real(x):
    return mpmath.mpf(x.numerator) / x.denominator


def weights(law, support):
    match law:
        case Polya():
            r, a, w = mpmath.mpf(1) / law.shares, mpmath.exp(-real(law.rate)), mpmath.mpf(1)
            for k in support:
                yield w
                w *= a * (k + r) / (k + 1)
        case Digit():
            yield from (mpmath.exp(-real(law.rate) * k) for k in support)
        case _:
            yield from (mpmath.exp(-mpmath.mpf(k * k) / (2 * real(law.sigma2))) for k in support)


def total_weight(law, support):
    match law:
        case Polya():
            return (1 - mpmath.exp(-real(law.rate))) ** (-mpmath.mpf(1) / law.shares)
        case _:
            return mpmath.fsum(weights(law, support))


@cache
def cumulative(law):
    """The probability of being at most k, for every k that the law gives."""
    lowest, probabilities = law.probabilities()
    support = range(lowest, lowest + len(list(probabilities)))
    with mpmath.workprec(PRECISION):
        total = total_weight(law, support)
        sums = accumulate(weights(law, support), initial=mpmath.mpf(0))
        next(sums)
        return {k: s / total for k, s in zip(support, sums, strict=True)}


@pytest.mark.parametrize("law", LAWS, ids=NAMES)
def test_every_threshold_of_192_bits_is_within_two_units(law):
    _, probabilities = law.probabilities()
    with mpmath.workprec(PRECISION):
        for total, exact in zip(accumulate(probabilities), cumulative(law).values(), strict=True):
            error = exact * mpmath.mpf(2) ** EXACT_BITS - (total >> (LAW_BITS - EXACT_BITS))
            assert -0.5 < error < 1.5


@pytest.mark.parametrize("law", LAWS, ids=NAMES)
def test_every_word_of_a_table_is_the_floor_of_its_probability(law):
    table = table_of(law)
    with mpmath.workprec(PRECISION):
        exact = {k: int(mpmath.floor(p * 2**64)) for k, p in cumulative(law).items()}
    wanted = [min(exact[table.lowest + i], 2**64 - 1) for i in range(len(table.thresholds))]
    assert table.thresholds.tolist() == wanted


@pytest.mark.parametrize("law", LAWS, ids=NAMES)
def test_a_law_gives_no_more_entries_than_its_variation_counts(law):
    assert len(list(law.probabilities()[1])) <= law.entries()
    assert total_variation_of(law) < Fraction(1, 2**160)


@pytest.mark.parametrize("law", [Polya(Fraction(500), 3), Gaussian(Fraction(1, 2000))], ids=str)
def test_a_law_without_room_for_noise_is_a_table_of_one_value(law):
    noise = Scripted([0, 2**63, 2**64 - 1], more=[0, 2**128 - 1])
    assert sampling.draw_entries(table_of(law), 3, noise).tolist() == [0, 0, 0]


# ------------------------------------------------------------------------------ ties, tails
def looked_up(law, words, more):
    source = Scripted(words, more)
    values = sampling.draw_entries(table_of(law), len(words), source)
    assert not source.more, "fewer ties were settled than expected"
    return values.tolist()


def exact_thresholds(law):
    lowest, probabilities = law.probabilities()
    totals = accumulate(probabilities)
    return {k: t >> (LAW_BITS - EXACT_BITS) for k, t in enumerate(totals, start=lowest)}


@pytest.mark.parametrize("law", LAWS, ids=NAMES)
def test_a_word_on_a_threshold_is_settled_by_the_next_128_bits(law):
    table = table_of(law)
    for entry in range(0, len(table.thresholds) - 1, max(1, len(table.thresholds) // 7)):
        value = table.lowest + entry
        word, rest = divmod(exact_thresholds(law)[value], 2**128)
        assert word == table.thresholds[entry]
        if word == 0:
            continue  # the lower tail, tested below
        assert looked_up(law, [word], [rest - 1]) == [value]
        assert looked_up(law, [word], [rest]) == [value + 1]


def test_words_next_to_a_threshold_need_no_more_bits():
    law = Polya(Fraction(3, 10), 5)
    word = int(table_of(law).thresholds[4])
    assert looked_up(law, [word - 1, word + 1], []) == [4, 5]


def test_the_upper_tail_goes_on_where_the_table_ends():
    law = Polya(Fraction(1), 1)
    far = {k: t for k, t in exact_thresholds(law).items() if t >> 128 == 2**64 - 1}
    beyond = len(table_of(law).thresholds)
    for value in (beyond, beyond + 20, beyond + 60):
        assert looked_up(law, [2**64 - 1], [far[value - 1] % 2**128]) == [value]


def test_the_lower_tail_goes_on_where_the_table_begins():
    law = Gaussian(Fraction(1000, 3))
    exact = exact_thresholds(law)
    lowest = table_of(law).lowest
    for value in (lowest, lowest - 5, lowest - 50):
        assert looked_up(law, [0], [exact[value] - 1]) == [value]
        assert looked_up(law, [0], [exact[value]]) == [value + 1]


def test_a_digit_never_reaches_its_base():
    law = Digit(Fraction(1, 7), 16)
    assert looked_up(law, [2**64 - 1], [2**128 - 1]) == [15]


def test_several_ties_are_settled_by_their_own_words_although_the_source_reuses_its_memory():
    """The first extra read wipes the buffer; a sampler that looks at it again settles on 0."""
    law = Polya(Fraction(3, 10), 5)
    exact = exact_thresholds(law)
    words = [exact[k] >> 128 for k in (7, 3, 11)]
    rests = [exact[7] % 2**128, exact[3] % 2**128 - 1, exact[11] % 2**128]
    assert looked_up(law, words, rests) == [8, 3, 12]


def test_a_sampler_that_rereads_the_buffer_is_seen():
    law = Polya(Fraction(3, 10), 5)
    exact = exact_thresholds(law)
    words = [exact[k] >> 128 for k in (7, 3)]
    source = Scripted(words, [exact[7] % 2**128, exact[3] % 2**128])
    table = table_of(law)
    view = source.words(2)
    assert [table.settle(int(view[i]), source) for i in range(2)] != [8, 4]


# --------------------------------------------------------------------------------- the seam
def walk(words, thresholds, guide, shift, out, ties):
    """The loop a compiled kernel would run, word by word from the guide."""
    found = 0
    for i, word in enumerate(words.tolist()):
        k = int(guide[word >> shift])
        while k < len(thresholds) and thresholds[k] <= word:
            k += 1
        out[i] = k
        if k == len(thresholds) or (k > 0 and thresholds[k - 1] == word):
            ties[found] = i
            found += 1
    return found


@pytest.mark.parametrize("law", LAWS, ids=NAMES)
def test_a_walk_from_the_guide_equals_the_search(law):
    table = table_of(law)
    near = np.concatenate([table.thresholds[:200] + np.uint64(d) for d in (0, 1, 2**64 - 1)])
    words = np.concatenate([near, SecretRandomness().words(200)])
    outs, ties = np.empty((2, len(words)), np.int64), np.empty((2, len(words)), np.int64)
    args = (words, table.thresholds, table.guide, table.shift)
    n_walk = walk(*args, outs[0], ties[0])
    n_search = search(*args, outs[1], ties[1])
    assert n_walk == n_search
    np.testing.assert_array_equal(ties[0, :n_walk], ties[1, :n_walk])
    decided = np.setdiff1d(np.arange(len(words)), ties[0, :n_walk])
    np.testing.assert_array_equal(outs[0, decided], outs[1, decided])


@pytest.mark.property
@settings(max_examples=50, deadline=None)
@given(st.lists(st.integers(0, 20), min_size=1, max_size=6, unique=True), st.integers(0, 21))
def test_search_finds_the_first_larger_threshold(thresholds, word):
    thresholds = np.array(sorted(thresholds), np.uint64)
    out, ties = np.empty(1, np.int64), np.empty(1, np.int64)
    guide = np.zeros(64, np.int32)
    found = search(np.array([word], np.uint64), thresholds, guide, 58, out, ties)
    larger = [k for k, t in enumerate(thresholds.tolist()) if t > word]
    assert out[0] == (larger[0] if larger else len(thresholds))
    assert found == (word in thresholds.tolist() or not larger)


def test_draw_looks_every_table_up_with_the_kernel(monkeypatch):
    calls = []

    def spy(*args):
        calls.append(len(args[0]))
        return search(*args)

    monkeypatch.setattr(sampling, "invert", spy)
    laws = [
        DiscreteLaplace(Fraction(1, 10**6)),
        PolyaDifference(Fraction(1, 3), 4),
        DiscreteGaussian(Fraction(3)),
        DiscreteGaussian(Fraction(10**9)),
    ]
    for law in laws:
        calls.clear()
        noise = sampling.draw(law, 100, SecretRandomness())
        assert noise.shape == (100,)
        assert noise.dtype == np.int64
        assert calls


@pytest.mark.parametrize(
    "law",
    [
        NoNoise(),
        DiscreteLaplace(Fraction(1, 2**40)),
        PolyaDifference(Fraction(1, 1000), 3),
        DiscreteGaussian(Fraction(2**60)),
    ],
    ids=str,
)
def test_the_total_variation_is_reported_and_far_below_any_delta(law):
    assert 0 <= sampling.total_variation(law) < Fraction(1, 2**160)
    assert sampling.draw(law, 0, SecretRandomness()).shape == (0,)


# ------------------------------------------------------------------------- geometric digits
@pytest.mark.parametrize("rate", [Fraction(1, 3), Fraction(1, 1000), Fraction(1, 2**40)], ids=str)
@pytest.mark.parametrize("k", [0, 1, 1023, 1024, 123_456, 2**40])
def test_the_probabilities_of_the_digits_multiply_to_the_geometric_law(rate, k):
    product = Fraction(1)
    for place, law in sampling._digits(rate):
        assert isinstance(law, Digit) or law.shares == 1
        digit = k // place % law.base if isinstance(law, Digit) else k // place
        if digit >= law.entries():
            return  # below 2^-320
        product *= Fraction(next(islice(law.probabilities()[1], digit, None), 0), 2**LAW_BITS)
    with mpmath.workprec(PRECISION):
        exact = (1 - mpmath.exp(-real(rate))) * mpmath.exp(-real(rate) * k)
        assert abs(real(product) - exact) < exact * mpmath.mpf(2) ** -100


class Queued:
    """Words in the order in which they are asked for, then nothing."""

    def __init__(self, *words):
        self.queue = [np.array(some, np.uint64) for some in words]

    def words(self, count):
        assert len(self.queue[0]) == count
        return self.queue.pop(0)


def word_of(table, value):
    """A word that stands for a value of the table, and is no tie."""
    return 0 if value == 0 else int(table.thresholds[value - 1]) + 1


def test_every_sign_of_a_geometric_number_is_one_value_and_minus_zero_is_none():
    """All sizes below 8 with both signs: as words are equally many for both, so are the values."""
    rate = Fraction(1)
    table = table_of(Polya(rate, 1))
    sizes, minus = [k // 2 for k in range(16)], 0b1010101010101010
    first = [max(word_of(table, k), 1) for k in sizes]
    values, rejected = sampling._propose_signed(rate, 16, Queued(first, [minus]))
    assert rejected.tolist() == [1]
    assert sorted(np.delete(values, rejected).tolist()) == list(range(-7, 8))


def test_minus_zero_is_drawn_again_with_its_sign_and_nothing_else_is():
    rate = Fraction(1)
    table = table_of(Polya(rate, 1))
    words = Queued(
        [word_of(table, 3), 1, word_of(table, 5), 1],
        [0b1010],  # 3, minus zero, 5, minus zero
        [word_of(table, 2), 1],
        [0b11],  # minus 2, minus zero
        [1],
        [0b0],  # zero
    )
    drawn = sampling.draw(DiscreteLaplace(rate), 4, words)
    assert drawn.tolist() == [3, -2, 5, 0]
    assert not words.queue


# ------------------------------------------------------------------------- the wide Gaussian
@pytest.mark.parametrize("sigma2", [1000, 5000, Fraction(2**20 + 1, 3)], ids=float)
def test_a_uniform_below_the_sure_chance_is_below_that_of_every_fine_part(sigma2):
    """Every coarse step, and both ends and the middle of the fine part; exactly."""
    fine_bits, coarse_law = sampling._coarse(Fraction(sigma2))
    sure = sampling._surely_kept(Fraction(sigma2))
    assert len(sure) == coarse_law.entries()
    most = 1 << fine_bits
    for step, chance in enumerate(sure.tolist()):
        for excess in (0, most // 2, most):  # what a sign adds is in the last
            x = Fraction(excess * (2 * (step << fine_bits) + excess), 2 * sigma2)
            assert chance << 32 <= exp_bounds(x, 64)[1]
    assert sure[0] > 0.99 * 2**32  # most coins need not be looked at


def test_every_integer_is_proposed_in_exactly_one_way():
    """coarse 0..2, fine 0..3, both signs: the integers from -12 to 11, once each."""
    values = [(c * 4 + f) ^ -s for c in range(3) for f in range(4) for s in (0, 1)]
    assert sorted(values) == list(range(-12, 12))


@pytest.mark.parametrize("sigma2", [2**20 + 1, 10**8, 10**14, 2**60], ids=float)
def test_nine_of_ten_proposals_and_more_are_accepted(sigma2):
    given = Fraction(sigma2), 20_000, SecretRandomness()
    kept = np.delete(*sampling._coarse_and_fine(*given))
    assert len(kept) > 19_000  # 97.5 % expected at least; 19,000 would be 23 deviations off


def test_no_product_of_the_widest_gaussian_leaves_64_bits():
    fine_bits, coarse_law = sampling._coarse(Fraction(2**60))
    coarse = len(list(coarse_law.probabilities()[1])) << fine_bits
    excess = 2**fine_bits
    assert fine_bits + 1 + 32 <= 64
    assert excess * (2 * coarse + excess) < 2**63


@pytest.mark.parametrize("shares", [2, 7])
def test_a_difference_is_as_far_from_its_law_as_both_of_its_draws(shares):
    rate = Fraction(1, 20)
    one = total_variation_of(Polya(rate, shares))
    assert sampling.total_variation(PolyaDifference(rate, shares)) == 2 * one > 0
