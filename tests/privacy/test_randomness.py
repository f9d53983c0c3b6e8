"""Secret words: fresh, exact, and never the same twice, not even after a fork."""

import ast
import copy
import inspect
import itertools
import os
import pickle
from collections import Counter
from fractions import Fraction
from pathlib import Path

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import hedgerow.privacy.mechanisms.coins as room
from hedgerow.privacy.mechanisms import coins
from hedgerow.privacy.mechanisms.coins import SecretRandomness, exp_bounds, minus_log, uniform_below

FORK_WARNING = "ignore:.*multi-threaded.*:DeprecationWarning"  # newer Pythons, with BLAS threads


class PlainBuffer:
    """What a sampler must not do: read the OS once, hand out words from memory."""

    def __init__(self):
        self.buffer = np.frombuffer(os.urandom(1 << 12), np.uint64)
        self.used = 0

    def words(self, count):
        self.used += count
        return self.buffer[self.used - count : self.used]


def words_of_parent_and_child(source, count=8):
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.write(writing, source.words(count).tobytes())
        finally:
            os._exit(0)
    os.waitpid(child, 0)
    with os.fdopen(reading, "rb") as pipe:
        os.close(writing)
        theirs = np.frombuffer(pipe.read(), np.uint64)
    assert theirs.size == count
    return source.words(count), theirs


@pytest.mark.filterwarnings(FORK_WARNING)
def test_a_forked_child_draws_other_words_than_its_parent():
    source = SecretRandomness()
    source.words(3)
    ours, theirs = words_of_parent_and_child(source)
    assert not set(ours.tolist()) & set(theirs.tolist())


@pytest.mark.filterwarnings(FORK_WARNING)
def test_two_children_of_one_parent_draw_different_words():
    source = SecretRandomness()
    _, first = words_of_parent_and_child(source)
    _, second = words_of_parent_and_child(source)
    assert not set(first.tolist()) & set(second.tolist())


@pytest.mark.filterwarnings(FORK_WARNING)
def test_a_plain_buffer_repeats_after_a_fork():
    ours, theirs = words_of_parent_and_child(PlainBuffer())
    np.testing.assert_array_equal(ours, theirs)


def test_no_word_comes_twice_across_calls_and_instances():
    one, other = SecretRandomness(), SecretRandomness()
    words = np.concatenate([one.words(20_000), one.words(3), other.words(20_000)])
    words = np.append(words, np.frombuffer(one.bytes(8), np.uint64))
    assert len(np.unique(words)) == len(words)


@pytest.mark.parametrize("count", [0, 1, 8191, 8192, 8193, 20_000])
def test_as_many_words_come_as_were_asked_for_and_all_are_filled(count):
    words = SecretRandomness().words(count)
    assert words.shape == (count,)
    assert words.dtype == np.uint64
    assert np.count_nonzero(words) == count  # a zero word has probability 2^-64


def test_a_later_call_leaves_earlier_words_alone():
    source = SecretRandomness()
    first = source.words(1000)
    before = first.copy()
    source.words(1000)
    np.testing.assert_array_equal(first, before)


def test_nothing_in_the_interface_takes_a_seed():
    assert list(inspect.signature(SecretRandomness).parameters) == []


@pytest.mark.parametrize("duplicate", [copy.deepcopy, pickle.dumps])
def test_a_source_cannot_be_cloned_or_sent(duplicate):
    with pytest.raises(TypeError):
        duplicate(SecretRandomness())


def test_a_shallow_copy_shares_the_stream_and_repeats_nothing():
    source = SecretRandomness()
    twin = copy.copy(source)
    assert not set(source.words(8).tolist()) & set(twin.words(8).tolist())


class Scripted:
    def __init__(self, *chunks):
        self.chunks = list(chunks)

    def bytes(self, count):
        chunk = self.chunks.pop(0)
        assert len(chunk) == count
        return chunk


def test_below_throws_away_what_would_make_it_uneven():
    # 3 needs two bits: the top two of a byte; 0b11 is outside and must be drawn again.
    assert uniform_below(3, Scripted(b"\xff", b"\xc0", b"\x80")) == 2


def test_below_gives_every_value_for_exactly_as_many_bytes():
    counts = Counter()
    for byte in range(256):
        try:
            counts[uniform_below(5, Scripted(bytes([byte])))] += 1
        except IndexError:  # thrown away: the script is over
            counts["again"] += 1
    assert counts == {0: 32, 1: 32, 2: 32, 3: 32, 4: 32, "again": 96}


@pytest.mark.parametrize("n", [1, 2, 255, 256, 257, 10**30])
def test_below_stays_below(n):
    source = SecretRandomness()
    assert all(0 <= uniform_below(n, source) < n for _ in range(200))


# --------------------------------------------------------------------------------------------------
# No float and no NumPy generator on the way from secret words to released integers.
ROOM = Path(room.__file__).parent
DRAWING = ["coins", "sampling", "selection"]
GENERATORS = {"random", "default_rng", "Generator", "RandomState", "SystemRandom"}
FLOAT_TYPES = {"float16", "float32", "float64", "float128", "longdouble", "double", "single"}


def names(tree):
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute):
            yield node.attr
        elif isinstance(node, ast.Name):
            yield node.id
        elif isinstance(node, ast.Import | ast.ImportFrom):
            yield from (getattr(node, "module", None) or "").split(".")
            yield from (part for alias in node.names for part in alias.name.split("."))


def generators(source):
    return GENERATORS & set(names(ast.parse(source)))


def float_types(source):
    """Float dtypes by name, and `float` or "f8" handed over as a dtype."""
    tree = ast.parse(source)
    found = FLOAT_TYPES & set(names(tree))
    for call in (n for n in ast.walk(tree) if isinstance(n, ast.Call)):
        for argument in [*call.args, *(k.value for k in call.keywords)]:
            if isinstance(argument, ast.Name) and argument.id == "float":
                found.add("float as an argument")
            if isinstance(argument, ast.Constant) and argument.value in {"f4", "f8", "<f8", "d"}:
                found.add(argument.value)
    return found


def floats(source):
    """Any float at all: a literal, or the type."""
    tree = ast.parse(source)
    literals = {
        str(n.value)
        for n in ast.walk(tree)
        if isinstance(n, ast.Constant) and isinstance(n.value, float)
    }
    return literals | ({"float"} & set(names(tree))) | float_types(source)


@pytest.mark.parametrize("module", [*DRAWING, "mechanisms", "response"])
def test_no_generator_but_the_secret_one_is_named(module):
    assert generators((ROOM / f"{module}.py").read_text()) == set()


@pytest.mark.parametrize("module", [*DRAWING, "mechanisms"])
def test_no_array_of_floats_is_made(module):
    assert float_types((ROOM / f"{module}.py").read_text()) == set()


@pytest.mark.parametrize("module", DRAWING)
def test_no_float_is_written_where_noise_is_drawn(module):
    assert floats((ROOM / f"{module}.py").read_text()) == set()


@pytest.mark.parametrize(
    "source",
    [
        "import numpy as np\nnoise = np.random.laplace(size=3)",
        "from numpy.random import default_rng",
        "import random",
        "from numpy import random as secret",
    ],
)
def test_the_lint_sees_a_generator(source):
    assert generators(source)


@pytest.mark.parametrize(
    "source",
    [
        "x = y.astype(float)",
        "x = np.zeros(3, dtype=float)",
        "x = np.zeros(3, np.float64)",
        "x = np.zeros(3, 'f8')",
        "x = 0.5 * n",
        "x = float(n)",
    ],
)
def test_the_lint_sees_a_float(source):
    assert floats(source)


# --------------------------------------------------------------------------------------------------
# exp in integers, and the coins made from it.
rationals = st.fractions(min_value=0, max_value=400, max_denominator=10**30)


class ScriptedWords:
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
    nothing = ScriptedWords()
    assert all(coins.falls_below_exp(p, bits + 64, x, nothing) for p in (0, (edge << 64) - 1))
    assert not coins.falls_below_exp((edge + 1) << 64, bits + 64, x, nothing)


def test_a_prefix_on_the_edge_is_decided_by_the_next_bits():
    x = Fraction(2, 7)
    edge, next_bits = divmod(int(exp_times(x, 96)), 2**64)
    assert coins.falls_below_exp(edge, 32, x, ScriptedWords(next_bits - 1000))
    assert not coins.falls_below_exp(edge, 32, x, ScriptedWords(next_bits + 1000))
    assert coins.falls_below_exp(
        edge, 32, x, ScriptedWords(next_bits, 0)
    )  # still the edge: once more
    assert not coins.falls_below_exp(edge, 32, x, ScriptedWords(next_bits, 2**64 - 1))


def exact_probability(coin, depth):
    """Sums the scripts of single bits on which a coin shows heads; gives bounds."""
    heads = undecided = Fraction(0)
    for length in range(1, depth + 1):
        for script in itertools.product((0, 128), repeat=length):
            source = ScriptedWords(*script, width=1)
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
