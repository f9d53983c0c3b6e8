"""Replies leave at the end of public slots, whatever the rows; the clock here is a number."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from hedgerow.errors import SpecError
from hedgerow.federation.client import REFUSED, STEPS
from hedgerow.privacy.queries import ClassCounts, SumQuery, Whole
from hedgerow.privacy.statement.statement import statement
from hedgerow.schema.regions import EVERYONE
from hedgerow.secagg.envelope import MessageKind
from support.worlds import TWO, federation, holders, sample, study, tap

SLOT = 10
COUNTS = SumQuery(EVERYONE, ClassCounts(2), Whole(), Fraction(1, 10))


class Clock:
    """Time passes only while somebody works or waits."""

    def __init__(self) -> None:
        self.now = 1_000.0
        self.waited: list[float] = []

    def read(self) -> float:
        return self.now

    def wait(self, seconds: float) -> None:
        self.waited.append(seconds)
        self.now += seconds


def opened(clock, n=60, slot=SLOT):
    X, y = sample(n, TWO)
    fed = federation(study(TWO, 3, slot=slot), holders(X, y, np.arange(n) % 3, 3, TWO))
    for end in fed.sites.clients:
        end._clock, end._wait = clock.read, clock.wait
    return fed


def asked(fed):
    """A round's letter to the first site."""
    encoded = fed.sites.sender.encode([COUNTS])
    return fed.sites.coordinator.start(encoded.questions, 2).requests()[0]


def working(patched, end, clock, seconds):
    """The site's rows now take so long."""

    def slowly(make):
        clock.now += seconds
        return make()

    tap(patched, end.rows, slowly)


@pytest.mark.parametrize(
    ("seconds", "left"), [(0.0, 0), (0.25, 10), (9.75, 10), (10.0, 10), (10.25, 20), (34.5, 40)]
)
def test_a_reply_leaves_at_the_end_of_a_slot_counted_from_its_request(seconds, left, monkeypatch):
    clock = Clock()
    fed = opened(clock)
    letter, arrived = asked(fed), clock.now
    working(monkeypatch, fed.sites.clients[0], clock, seconds)
    reply = fed.sites.clients[0].handle(letter)
    assert not reply.startswith(REFUSED)
    assert clock.now - arrived == left
    assert 0 <= clock.waited[0] < SLOT


def test_the_time_of_a_reply_does_not_depend_on_how_many_rows_there_are(monkeypatch):
    def time_of(per_row, slot):
        clock, rows = Clock(), 90
        fed = opened(clock, rows, slot)
        letter, arrived = asked(fed), clock.now
        working(monkeypatch, fed.sites.clients[0], clock, per_row * rows)
        fed.sites.clients[0].handle(letter)
        return clock.now - arrived

    assert time_of(0.01, SLOT) == time_of(0.1, SLOT) == SLOT
    assert time_of(0.01, 0) != time_of(0.1, 0)  # twin: without a slot it does


def test_a_refusal_and_bytes_sent_again_keep_the_slot_as_well(monkeypatch):
    clock = Clock()
    fed = opened(clock)
    end, letter = fed.sites.clients[0], asked(fed)
    plain = STEPS[MessageKind.ROUND]

    def slowly(client, message):
        clock.now += 3.0
        return plain(client, message)

    monkeypatch.setitem(STEPS, MessageKind.ROUND, slowly)
    forged = letter[:-1] + bytes([letter[-1] ^ 1])
    replies = [end.handle(message) for message in (letter, letter, forged)]
    assert replies[0] == replies[1] != replies[2]
    assert clock.waited == [7.0] * 3
    assert end.handle(b"no message").startswith(REFUSED)
    assert len(clock.waited) == 3


def test_the_lock_is_not_held_while_a_reply_waits():
    clock = Clock()
    fed = opened(clock)
    end, letter = fed.sites.clients[0], asked(fed)
    free: list[bool] = []
    end._wait = lambda seconds: free.append(not end._lock.locked())
    end.handle(letter)
    assert free == [True]


@pytest.mark.parametrize("slot", [-1, 1.5, True, "10", 86_401])
def test_a_slot_is_a_whole_number_of_seconds(slot):
    with pytest.raises(SpecError, match="slot is"):
        study(TWO, 3, slot=slot)


def test_one_holder_has_nobody_to_keep_waiting():
    with pytest.raises(SpecError, match="replies to nobody"):
        study(TWO, 1, slot=5)


def test_the_statement_of_a_real_run_says_what_time_tells():
    plain = study(TWO, 3)
    said = [
        str(statement(one, Fraction(1, 2), [], simulated=False))
        for one in (plain, replace(plain, slot=1), replace(plain, slot=30))
    ]
    assert "about how many records" in said[0]
    assert "slots of 1 second;" in said[1]
    assert "slots of 30 seconds;" in said[2]
