"""Bundles that were made to exhaust or to confuse a site: each gets a constant code, soon."""

from __future__ import annotations

import pytest

from hedgerow.federation.client import refusal
from hedgerow.secagg.codes import Code
from support.hostile import MOST_MEMORY, MOST_SECONDS, bundles, in_a_process_of_its_own

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
