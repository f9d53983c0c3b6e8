"""Reading what a stranger wrote: one way to say a thing, and an end to everything."""

from __future__ import annotations

import json
import struct
from fractions import Fraction

import numpy as np
import pytest

from hedgerow.errors import ParameterError, SiteRefused
from hedgerow.federation import wire
from hedgerow.federation.client import refusal
from hedgerow.federation.wire import Bundle, Receiver, Sender
from hedgerow.models.layers import NodeTests
from hedgerow.privacy.queries import Binning, Cells, ClassCounts, SumQuery
from hedgerow.schema.regions import EVERYONE
from hedgerow.secagg.codes import Code
from support.hostile import MOST_MEMORY, MOST_SECONDS, bundles, in_a_process_of_its_own
from support.worlds import TWO

QUERY = SumQuery(EVERYONE, ClassCounts(2), Cells((0,), Binning.of_cells(TWO)), Fraction(1, 3))


@pytest.mark.parametrize(
    "text",
    [
        b'{"a":1,"a":2}',
        b"NaN",
        b"Infinity",
        b"9" * 81,
        b"[" * 33 + b"]" * 33,
        b'{"a":' * 33 + b"1" + b"}" * 33,
    ],
    ids=["a key twice", "NaN", "infinity", "81 digits", "33 lists deep", "33 objects deep"],
)
def test_json_with_surprises_is_refused(text):
    with pytest.raises(ParameterError):
        wire.parse_json(text)


def test_json_that_is_too_deep_is_refused_before_a_value_is_made(monkeypatch):
    """Negative control: the decoder, which would make them all, is not there."""
    monkeypatch.setattr(wire, "_QUICK", None)
    for text in (b"[" * 10**6 + b"]" * 10**6, b'["]' + b"[" * 40 + b'"' + b"[" * 33):
        with pytest.raises(ParameterError, match="deeper than 32"):
            wire.parse_json(text)
    with pytest.raises(AttributeError):
        wire.parse_json(b'["' + b"[" * 40 + b'\\""]')  # brackets in a text are no lists


def test_json_at_the_limits_is_read():
    assert wire.parse_json(b"9" * 80) == int("9" * 80)
    assert wire.parse_json(b"[" * 32 + b"]" * 32) is not None


@pytest.mark.parametrize("text", ["9" * 65, f"1/{'9' * 65}", "1e5", "0.5", " 1/2", "1/2 ", 5, None])
def test_a_rational_is_two_whole_numbers_of_64_digits_at_most(text):
    with pytest.raises(ParameterError):
        wire.parse_rational(text)
    assert wire.parse_rational("-9/64") == Fraction(-9, 64)


def decoded(bundle, receiver=None):
    return (receiver or Receiver()).decode(bundle)


def test_what_was_encoded_comes_back():
    (query,), learned = decoded(Sender().encode([QUERY]))
    assert query == QUERY
    assert len(learned) == 1


def test_a_bundle_that_is_too_long_is_refused_before_it_is_read(monkeypatch):
    bundle = Sender().encode([QUERY])
    monkeypatch.setattr(wire, "MOST_BYTES", bundle.size - 1)
    monkeypatch.setattr(wire, "parse_json", lambda text: pytest.fail("it was read"))
    with pytest.raises(SiteRefused, match="BadMessage"):
        decoded(bundle)


def test_an_epoch_has_room_for_so_many_names(monkeypatch):
    receiver = Receiver()
    _, learned = decoded(Sender().encode([QUERY]), receiver)
    monkeypatch.setattr(wire, "MOST_NAMES", 0)
    with pytest.raises(SiteRefused, match="BadMessage"):
        receiver.keep(learned)
    assert receiver.definitions == {}


def test_only_large_values_have_names():
    blob = json.dumps({"!": "Count"}).encode()
    definitions = struct.pack(">I", len(blob)) + blob
    with pytest.raises(SiteRefused, match="BadMessage"):
        decoded(Bundle(Sender().encode([QUERY]).questions, definitions))


def test_a_bundle_has_room_for_so_many_tests():
    tests = NodeTests(np.zeros((1, 3), np.int16), np.zeros((1, 3, 4), np.uint64))
    plain = {"!": "NodeTests", "tests": tests.to_dict()}
    assert wire._Reading({}, {}, room=6).value([plain, plain]) == (tests, tests)
    with pytest.raises(ParameterError, match="more than"):
        wire._Reading({}, {}, room=5).value([plain, plain])


# ----------------------------------------------------------------------- sites of one process
def test_sites_that_know_the_same_names_read_a_bundle_as_the_same_objects():
    bundle = Sender().encode([QUERY])
    (one,), _ = decoded(bundle)
    (other,), _ = decoded(bundle)
    assert one is other


def test_names_that_another_site_knows_are_unknown_here():
    sender, knowing = Sender(), Receiver()
    _, learned = decoded(sender.encode([QUERY]), knowing)
    knowing.keep(learned)
    later = sender.encode([QUERY])
    assert later.definitions == b""
    assert decoded(later, knowing)[0] == [QUERY]
    with pytest.raises(SiteRefused, match="UnknownName"):
        decoded(later)
    knowing.forget()
    with pytest.raises(SiteRefused, match="UnknownName"):
        decoded(later, knowing)


# --------------------------------------------------------------------------------------------------
# Bundles that were made to exhaust or to confuse a site: each gets a constant code, soon.
EXPECTED = (Code.BAD_MESSAGE, Code.POLICY_REFUSED, Code.UNKNOWN_NAME, Code.BUDGET_REFUSED)


@pytest.fixture(scope="module")
def hostile():
    return bundles()


def slow_ones(found):
    return {name: s for name, (_, s) in found["answers"].items() if s > MOST_SECONDS}


def test_every_hostile_bundle_is_refused_within_a_second_and_200_megabytes(hostile, tmp_path):
    assert len(hostile) >= 38
    found = in_a_process_of_its_own(hostile, tmp_path)
    codes = {refusal(code).hex() for code in EXPECTED}
    assert [name for name, (reply, _) in found["answers"].items() if reply not in codes] == []
    slow = slow_ones(found)
    for _ in range(2):  # a busy machine makes somebody slow now and then, but not again and again
        if slow:
            slow = slow_ones(in_a_process_of_its_own({k: hostile[k] for k in slow}, tmp_path))
    assert slow == {}
    assert found["memory"] <= MOST_MEMORY
    assert found["charged"] == 0


def test_a_bundle_that_unpacks_without_end_would_be_seen(hostile, tmp_path):
    """Twin: without a cap on all tests together a few kilobytes take half a gigabyte."""
    bombs = {name: one for name, one in hostile.items() if name == "many bombs of tests"}
    assert bombs["many bombs of tests"].size < 4 * 2**20
    found = in_a_process_of_its_own(bombs, tmp_path, "--endless")
    assert found["memory"] > MOST_MEMORY
