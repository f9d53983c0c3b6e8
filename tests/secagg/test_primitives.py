"""The small parts: hashing, reading, sharing, streams, parameters, codes."""

import itertools
import random

import numpy as np
import pytest
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

from hedgerow.errors import ParameterError, SiteRefused
from hedgerow.secagg import encoding, masks, shamir
from hedgerow.secagg.codes import Code, require
from hedgerow.secagg.encoding import Reader, digest, members_field, table_field
from hedgerow.secagg.envelope import LedgerHead
from hedgerow.secagg.parameters import Parameters
from support.secagg_dry_run import refuses


def test_there_are_twenty_five_codes_and_a_refusal_says_nothing_else():
    assert len(Code) == 25
    with pytest.raises(SiteRefused) as refusal:
        require(False, Code.BAD_SET)
    assert (refusal.value.code, refusal.value.site) == ("BadSet", None)
    assert refusal.value.__cause__ is None


@pytest.mark.parametrize(
    ("n_sites", "expected"),
    [
        (2, (1, 2, 1)),
        (3, (1, 3, 2)),
        (4, (1, 3, 2)),
        (5, (1, 4, 3)),
        (7, (2, 6, 4)),
        (10, (3, 8, 5)),
        (20, (6, 16, 10)),
        (100, (33, 80, 47)),
    ],
)
def test_the_default_parameters_are_the_promised_table(n_sites, expected):
    found = Parameters.default(n_sites)
    assert (found.colluders, found.threshold, found.honest) == expected


@pytest.mark.parametrize(
    ("n_sites", "colluders", "threshold"),
    [(1, 1, 1), (3, 0, 2), (3, 2, 2), (3, 3, 2), (3, 1, 4), (2**16, 1, 2)],
)
def test_parameters_that_promise_nothing_are_refused(n_sites, colluders, threshold):
    with pytest.raises(ParameterError):
        Parameters(n_sites=n_sites, colluders=colluders, threshold=threshold)


def test_no_two_lists_of_parts_hash_alike():
    parts = [b"", b"a", b"ab", b"b"]
    lists = [c for size in range(4) for c in itertools.product(parts, repeat=size)]
    assert len({digest("tag", *one) for one in lists}) == len(lists)
    assert digest("tag", b"a") != digest("other", b"a")


def test_a_reader_refuses_what_is_not_there_before_it_takes_it():
    with refuses("BadMessage"):
        Reader(b"\xff\xff\xff\xff").bytes_field()
    with refuses("BadMessage"):
        Reader(b"\xff\xff").members()
    with refuses("BadMessage"):
        Reader(b"\xff\xff" + bytes(60)).table(32)
    with refuses("BadMessage"):
        Reader(b"x").view(-1)
    with refuses("BadMessage"):
        Reader(b"x").finish()


@pytest.mark.parametrize("sites", [(1, 1), (2, 1), (0, 5, 5)])
def test_a_set_has_one_spelling(sites):
    with refuses("BadMessage"):
        Reader(members_field(sites)).members()
    rows = b"".join(encoding.u16(site) + b"x" for site in sites)
    with refuses("BadMessage"):
        Reader(encoding.u16(len(sites)) + rows).table(1)


def test_tables_and_sets_come_back_as_they_were():
    assert Reader(members_field((0, 3, 65535))).members() == (0, 3, 65535)
    table = {7: b"ab", 1: b"cd"}
    assert Reader(table_field(table)).table(2) == table


@pytest.mark.parametrize(
    "spent", ["1.5", "-1/2", "1/0", "nan", " 1/2", "1/2x", "9" * 65 + "/1", "1/" + "9" * 65]
)
def test_spent_is_a_rational_and_nothing_else(spent):
    with pytest.raises(ParameterError):
        LedgerHead(1, bytes([1]) * 32, spent)


def test_a_ledger_head_of_zeros_means_an_empty_ledger():
    for seq, head in ((0, bytes([1]) * 32), (1, bytes(32)), (1, b"short")):
        with pytest.raises(ParameterError):
            LedgerHead(seq, head, "0/1")


# Shamir


def seeded(seed):
    return random.Random(seed).randbytes


@pytest.mark.parametrize(("threshold", "sites"), [(1, 1), (2, 2), (3, 5), (8, 10), (34, 50)])
def test_any_threshold_of_shares_gives_the_secret(threshold, sites):
    entropy, secret = seeded(threshold), shamir.PRIME - 1
    shares = shamir.split(secret, threshold, range(sites), entropy)
    for seed in range(5):
        who = tuple(random.Random(seed).sample(range(sites), threshold))
        assert shamir.combine([shares[s] for s in who], shamir.weights(who)) == secret


@pytest.mark.parametrize(("threshold", "sites"), [(1, 3), (2, 5), (4, 6), (7, 7), (9, 4)])
def test_shares_are_the_values_of_one_polynomial_that_was_drawn_by_its_values(threshold, sites):
    """Against the plain form: Lagrange's polynomials multiplied out, point by point."""
    drawn = []

    def entropy(n):
        drawn.append(random.Random(len(drawn)).randbytes(n))
        return drawn[-1]

    ids = random.Random(3).sample(range(40), sites)
    shares = shamir.split(77, threshold, ids, entropy)
    points = [0, *(site + 1 for site in sorted(ids)[: threshold - 1])]
    values = [77, *(int.from_bytes(draw, "big") >> 1 for draw in drawn)]
    assert len(values) == len(points)
    for site, share in shares.items():
        expected = 0
        for point, value in zip(points, values, strict=True):
            for other in points:
                if other != point:
                    value *= (site + 1 - other) * pow(point - other, -1, shamir.PRIME)
            expected += value
        assert share == expected % shamir.PRIME


def test_what_split_deals_to_fewer_than_the_threshold_is_not_enough():
    """By the polynomial that was really drawn, and not by some polynomial that would fit."""
    secret, sites = 2**200 + 5, (0, 1, 2, 3)
    shares = shamir.split(secret, 3, sites, seeded(1))
    assert set(shares) == set(sites)
    assert secret not in shares.values()
    for few in itertools.combinations(sites, 2):
        assert shamir.combine([shares[site] for site in few], shamir.weights(few)) != secret


def test_one_share_less_fits_every_secret():
    """For each secret there is a polynomial through the shares known: they say nothing."""
    shares = shamir.split(5, 3, range(4), seeded(0))
    known = (0, 2)
    for secret in (0, 5, 17):
        weights = shamir.weights((*known, 1))
        rest = (secret - sum(shares[s] * w for s, w in zip(known, weights, strict=False))) % (
            shamir.PRIME
        )
        third = rest * pow(weights[2], -1, shamir.PRIME) % shamir.PRIME
        assert shamir.combine([*(shares[s] for s in known), third], weights) == secret


def test_a_draw_is_below_the_prime_and_uses_the_next_bytes_if_not():
    answers = iter([b"\xff" * 32, shamir.PRIME.to_bytes(32, "big"), bytes(31) + b"\x06"])
    too_big_then_small = shamir.random_element(lambda n: next(answers))
    assert too_big_then_small == shamir.PRIME >> 1
    answers = iter([b"\xff" * 32, bytes(31) + b"\x06"])
    assert shamir.random_element(lambda n: next(answers)) == 3


# Streams


def plain_stream(key, words):
    encryptor = Cipher(algorithms.AES(key), modes.CTR(bytes(16))).encryptor()
    return np.frombuffer(encryptor.update(bytes(8 * words)), "<u8")


@pytest.mark.parametrize("words", [1, 2, 3, 1000, 2**14, 2**14 + 1, 3 * 2**14 + 7])
def test_folding_equals_adding_and_subtracting_whole_streams(words):
    keys = [bytes([i]) * 32 for i in range(5)]
    start = np.arange(words, dtype="<u8")
    total = start.copy()
    masks.fold(total, plus=keys[:3], minus=keys[3:])
    expected = start.copy()
    for key in keys[:3]:
        expected += plain_stream(key, words)
    for key in keys[3:]:
        expected -= plain_stream(key, words)
    np.testing.assert_array_equal(total, expected)


def test_what_is_added_can_be_taken_away():
    total = np.arange(10, dtype="<u8")
    masks.fold(total, plus=[b"k" * 32], minus=[])
    assert not np.array_equal(total, np.arange(10))
    masks.fold(total, plus=[], minus=[b"k" * 32])
    np.testing.assert_array_equal(total, np.arange(10))


def test_the_ring_keeps_every_int64():
    extremes = np.array([-(2**63), -1, 0, 1, 2**63 - 1])
    np.testing.assert_array_equal(masks.center(masks.to_ring(extremes)), extremes)


def test_self_key_and_commitment_tell_rounds_and_secrets_apart():
    made = [
        f(context, secret)
        for f in (masks.self_key, masks.commitment)
        for context in (b"a" * 32, b"b" * 32)
        for secret in (1, 2)
    ]
    assert len(set(made)) == 8
