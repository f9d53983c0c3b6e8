"""Steps in and out of order: sent again, after a crash, after a restart, in a new run."""

import dataclasses
import os
import threading
from contextlib import nullcontext, suppress

import numpy as np
import pytest

from hedgerow.errors import ParameterError, SiteRefused
from hedgerow.secagg import codes, session
from hedgerow.secagg.client import Fresh
from hedgerow.secagg.envelope import Envelope, MessageKind
from hedgerow.secagg.memory import MemoryInRam, StoredRound, set_hash
from hedgerow.secagg.messages import Masked, Round
from hedgerow.secagg.session import SiteSession
from support.effort import LONG
from support.secagg_dry_run import (
    answer,
    bind,
    consortium,
    head,
    keys_of,
    masked_round,
    next_coordinator,
    open_session,
    refuses,
    restarted,
    ring_sum,
    secure_sum,
    some_vectors,
)


@pytest.fixture
def group():
    return consortium(4)


@pytest.fixture
def vectors():
    return some_vectors(4)


def test_the_same_request_again_gets_the_same_bytes(group, vectors):
    secure = group.coordinator.start(b"bundle", 3)
    request = secure.requests()[0]
    first = answer(group, 0, request, vectors[0])
    again = group.sites[0].begin(request)
    assert isinstance(again, bytes)
    assert again == first


def test_another_bundle_under_a_used_round_id_is_refused(group, vectors):
    masked_round(group, vectors)
    for body in (Round(b"other", (0, 1, 2, 3)), Round(b"bundle", (0, 1, 2))):
        with refuses("RoundIdUsed"):
            group.sites[0].begin(
                group.forge(MessageKind.ROUND, body.to_bytes(), ledger=group.coordinator.heads[0])
            )


def test_a_round_below_the_high_water_is_refused(group, vectors):
    body = Round(b"bundle", (0, 1, 2, 3)).to_bytes()
    answer(group, 0, group.forge(MessageKind.ROUND, body, round=7), vectors[0])
    for old in (0, 3, 6):
        with refuses("OldRound"):
            group.sites[0].begin(group.forge(MessageKind.ROUND, body, round=old))


def test_the_high_water_outlives_records_and_epochs(vectors):
    group = consortium(4)
    memory = MemoryInRam(rounds_kept=1)
    restarted(group, 0, memory)
    open_session(group)
    for _ in range(2):
        masked_round(group, vectors)
    open_session(group)
    assert memory.outbox(group.coordinator.run_id, 1) is None
    request = group.forge(MessageKind.ROUND, Round(b"bundle", (0, 1, 2, 3)).to_bytes(), round=1)
    with refuses("OldRound"):
        group.sites[0].begin(request)


def test_a_round_that_was_masked_but_never_stored_is_used_up(group, vectors):
    """The transaction failed: nothing left the site, and the mask is not used again."""
    request = group.coordinator.start(b"bundle", 3).requests()[0]
    fresh = group.sites[0].begin(request)
    group.sites[0].mask(fresh, vectors[0], head(0, 1))
    with refuses("OldRound"):
        group.sites[0].mask(fresh, vectors[0], head(0, 1))
    with refuses("OldRound"):
        group.sites[0].begin(request)
    np.testing.assert_array_equal(secure_sum(group, vectors).values, ring_sum(vectors, range(4)))


def test_opening_the_same_epoch_again_does_not_free_used_masks(group, vectors):
    message = group.coordinator.message(MessageKind.OPEN, 0, 0, b"")
    request = group.coordinator.start(b"bundle", 3).requests()[0]
    fresh = group.sites[0].begin(request)
    group.sites[0].mask(fresh, vectors[0], head(0, 1))
    group.sites[0].open(message)
    with refuses("OldRound"):
        group.sites[0].mask(fresh, vectors[0], head(0, 1))


def test_one_ephemeral_key_serves_one_epoch(group):
    keys = keys_of(group)
    bind(group, group.coordinator.open(keys))
    other = group.coordinator.open(keys[:3])
    with refuses("UnknownKey"):
        group.sites[0].open(other[0])


def test_masks_reused_for_two_vectors_would_show_their_difference(vectors, monkeypatch):
    """The negative control: without the rule two vectors of one mask differ by self-masks."""
    monkeypatch.setattr(SiteSession, "use", lambda self, round: None)
    group = consortium(4)
    fresh = group.sites[0].begin(group.coordinator.start(b"bundle", 3).requests()[0])
    records = [group.sites[0].mask(fresh, v, head(0, 1)) for v in vectors[:2]]
    assert records[0].seeds == records[1].seeds


def test_masks_differ_from_round_to_round(group, vectors):
    first, second = (masked_round(group, vectors).round for _ in range(2))
    memory, run = group.memories[0], group.coordinator.run_id
    seeds = [set(memory.outbox(run, r).seeds.values()) for r in (first, second)]
    assert not seeds[0] & seeds[1]


def test_a_restarted_site_sends_and_answers_for_stored_rounds_byte_for_byte(group, vectors):
    secure = masked_round(group, vectors, lost=[3])
    survivors = secure.close()
    before = {me: group.sites[me].sign_set(m) for me, m in survivors.items()}
    site = restarted(group, 0)
    assert site.sign_set(survivors[0]) == before[0]
    for message in before.values():
        secure.accept_signature(message)
    unmask = secure.unmask()
    answers = {me: group.sites[me].unmask(m) for me, m in unmask.items()}
    assert restarted(group, 0).unmask(unmask[0]) == answers[0]
    for message in answers.values():
        secure.accept_shares(message)
    np.testing.assert_array_equal(secure.opened().values, ring_sum(vectors, (0, 1, 2)))


def test_a_restarted_site_sends_the_stored_vector_and_makes_no_new_one(group, vectors):
    old = masked_round(group, vectors).requests()
    site = restarted(group, 0)
    stored = group.memories[0].outbox(group.coordinator.run_id, 1)
    again = site.begin(old[0])
    assert isinstance(again, bytes)
    assert again == stored.message
    with refuses("UnknownKey"):
        site.begin(group.coordinator.start(b"next", 3).requests()[0])
    open_session(group)
    np.testing.assert_array_equal(secure_sum(group, vectors).values, ring_sum(vectors, range(4)))


def test_a_site_restored_from_an_old_copy_of_its_memory_never_reuses_a_mask(group, vectors):
    """Everything stored is forgotten; still the new process has no key to mask with."""
    secure = group.coordinator.start(b"bundle", 3)
    answer(group, 0, secure.requests()[0], vectors[0])
    older = MemoryInRam()
    older.open_run(group.coordinator.run_id)
    site = restarted(group, 0, older)
    with refuses("UnknownKey"):
        site.begin(secure.requests()[0])


def test_a_forked_copy_of_a_site_makes_no_vector(group, vectors, monkeypatch):
    fresh = group.sites[0].begin(group.coordinator.start(b"bundle", 3).requests()[0])
    monkeypatch.setattr(os, "getpid", lambda: -1)  # what a child sees: it is another process
    with refuses("UnknownKey"):
        group.sites[0].mask(fresh, vectors[0], head(0, 1))


def test_a_new_run_closes_the_old_one_for_good(group, vectors):
    old, secure = group.coordinator, masked_round(group, vectors)
    secure.close()
    group.coordinator = next_coordinator(group, old.heads)
    open_session(group)
    with refuses("RunSuperseded"):
        group.sites[0].unmask(secure.unmask()[0])
    with refuses("RunSuperseded"):
        group.sites[0].begin(old.start(b"bundle", 3).requests()[0])
    with refuses("RunSuperseded"):
        keys_of(group, old.heads, old)
    old.attempt += 1  # it knows better now, and is still refused
    with refuses("RunSuperseded"):
        group.sites[0].open(old.open(keys_of(group, old.heads, old))[0])


def test_a_record_comes_back_from_bytes_as_it_was(group, vectors):
    masked_round(group, vectors)
    record = group.memories[2].outbox(group.coordinator.run_id, 1)
    assert StoredRound.from_bytes(record.to_bytes()) == record
    for damaged in (record.to_bytes()[:-1], record.to_bytes() + b"\0"):
        with refuses("BadMessage"):
            StoredRound.from_bytes(damaged)


def test_a_record_holds_no_key_that_outlives_its_round(group, vectors):
    masked_round(group, vectors)
    stored = group.memories[0].outbox(group.coordinator.run_id, 1).to_bytes()
    site = group.sites[0]
    keys = site._membership._keys
    assert keys.agreement.private_bytes_raw() not in stored
    assert keys.encapsulation.private_bytes_raw() not in stored
    assert not any(root in stored for root in site._membership.site_session.roots.values())
    assert not any(
        secret in repr(group.memories[0].outbox(group.coordinator.run_id, 1))
        for secret in ("own_share", "seeds", "share_keys", "message")
    )


def test_a_memory_refuses_a_record_of_an_old_round(group, vectors):
    masked_round(group, vectors)
    record = group.memories[0].outbox(group.coordinator.run_id, 1)
    with refuses("OldRound"):
        group.memories[0].store(record)


def test_a_message_is_as_long_for_any_data(group):
    small, large = np.zeros(3, np.int64), np.full(3, -(2**62))
    lengths = set()
    for vector in (small, large):
        secure = masked_round(group, [vector] * 4)
        record = group.memories[0].outbox(group.coordinator.run_id, secure.round)
        lengths.add(len(record.message))
    assert len(lengths) == 1


@pytest.mark.parametrize("vector", [np.zeros(3), np.zeros((2, 2), np.int64), np.zeros(0, np.int64)])
def test_only_a_line_of_int64_can_be_masked(group, vector):
    fresh = group.sites[0].begin(group.coordinator.start(b"bundle", 3).requests()[0])
    with pytest.raises(ParameterError):
        group.sites[0].mask(fresh, vector, head(0, 1))


def test_masking_leaves_the_vector_alone(group, vectors):
    kept = vectors[0].copy()
    masked_round(group, vectors)
    np.testing.assert_array_equal(vectors[0], kept)


class CrashingMemory(MemoryInRam):
    """Dies before or after each durable write, as a process might."""

    def __init__(self, before: bool) -> None:
        super().__init__(rounds_kept=100)
        self.before, self.armed = before, False

    def open_set(self, *given):
        if self.armed and self.before:
            raise KeyboardInterrupt
        reply = super().open_set(*given)
        if self.armed:
            raise KeyboardInterrupt
        return reply


@pytest.mark.parametrize("step", ["sign_set", "unmask"])
@pytest.mark.parametrize("before", [True, False])
def test_a_crash_around_the_opened_set_loses_no_answer_and_allows_no_second(step, before, vectors):
    group = consortium(4)
    memory = CrashingMemory(before)
    site = restarted(group, 0, memory)
    group.memories[0] = memory
    open_session(group)
    secure = masked_round(group, vectors, lost=[3] if step == "sign_set" else [])
    messages = secure.close() or secure.unmask()
    memory.armed = True
    with pytest.raises(KeyboardInterrupt):
        getattr(site, step)(messages[0])
    memory.armed = False
    site = restarted(group, 0)
    kept = memory._sets.get((group.coordinator.run_id, secure.round))
    assert kept == (None if before else set_hash(secure.members))
    assert getattr(site, step)(messages[0]) == getattr(site, step)(messages[0])


def test_a_set_is_written_before_its_signature_leaves(vectors):
    """The negative control: a site that signs first and forgets would sign a second set."""

    class Forgetful(MemoryInRam):
        def open_set(self, run_id, round, members, reply):
            return reply[1](self.outbox(run_id, round).header.ledger)

    group = consortium(4)
    group.memories[0] = Forgetful(rounds_kept=9)
    restarted(group, 0)
    open_session(group)
    masked_round(group, vectors)
    signed = [
        group.sites[0].sign_set(group.forge(MessageKind.SURVIVORS, body))
        for body in (bytes([0, 3, 0, 0, 0, 1, 0, 2]), bytes([0, 3, 0, 0, 0, 1, 0, 3]))
    ]
    assert signed[0] != signed[1]


def test_the_dimension_is_the_bundle_s(group, vectors):
    secure = group.coordinator.start(b"bundle", 4)
    masked = answer(group, 0, secure.requests()[0], vectors[0])
    with refuses("BadMessage"):
        secure.accept_masked(masked)
    assert len(Masked.read(Envelope.parse(masked).body, 3).vector) == 3


def test_picks_travel_under_the_signature_and_come_back_in_the_same_bytes(group, vectors):
    secure = group.coordinator.start(b"bundle", 3, selections=2)
    for me, message in secure.requests().items():
        sent = answer(group, me, message, vectors[me], selections=(me, 2**32 - 1))
        assert answer(group, me, message, vectors[me], selections=(9, 9)) == sent
        secure.accept_masked(sent)
    secure.close()
    for me, message in secure.unmask().items():
        secure.accept_shares(group.sites[me].unmask(message))
    assert secure.opened().selections == {me: (me, 2**32 - 1) for me in range(4)}


@pytest.mark.parametrize("selections", [(), (1,), (1, 2, 3)])
def test_the_number_of_picks_is_the_bundle_s(group, vectors, selections):
    secure = group.coordinator.start(b"bundle", 3, selections=2)
    masked = answer(group, 0, secure.requests()[0], vectors[0], selections)
    with refuses("BadMessage"):
        secure.accept_masked(masked)


@pytest.mark.parametrize("selection", [-1, 2**32])
def test_a_pick_is_an_index_of_32_bits(group, vectors, selection):
    fresh = group.sites[0].begin(group.coordinator.start(b"bundle", 3).requests()[0])
    with pytest.raises(ParameterError, match="index of a selection"):
        group.sites[0].mask(fresh, vectors[0], head(0, 1), (selection,))


def test_definitions_differ_by_site_and_change_neither_masks_nor_round(group, vectors):
    secure = group.coordinator.start(b"bundle", 3)
    requests = secure.requests({1: b"what a name means", 2: b"more"})
    assert group.sites[1].begin(requests[1]).definitions == b"what a name means"
    assert group.sites[0].begin(requests[0]).definitions == b""
    for me, message in requests.items():
        secure.accept_masked(answer(group, me, message, vectors[me]))
    again = group.sites[1].begin(secure.requests()[1])  # asked again without them
    assert isinstance(again, bytes)
    secure.close()
    for me, message in secure.unmask().items():
        secure.accept_shares(group.sites[me].unmask(message))
    np.testing.assert_array_equal(secure.opened().values, ring_sum(vectors, range(4)))


def test_two_threads_never_mask_one_round_twice(group, vectors, monkeypatch):
    """Both have begun the round; the lock lets one of them use its masks."""
    fresh = group.sites[0].begin(group.coordinator.start(b"bundle", 3).requests()[0])
    assert masked_by_two_threads(group.sites[0], fresh, vectors[0], monkeypatch) == ["masked"]


def test_without_the_lock_two_threads_would_mask_one_round_twice(group, vectors, monkeypatch):
    """The negative control."""
    group.sites[0]._membership.site_session.lock = nullcontext()
    fresh = group.sites[0].begin(group.coordinator.start(b"bundle", 3).requests()[0])
    made = masked_by_two_threads(group.sites[0], fresh, vectors[0], monkeypatch, LONG)
    assert made == ["masked", "masked"]


def masked_by_two_threads(site, fresh, vector, monkeypatch, seconds=0.3):
    """Each thread that looks whether the round is new waits a while for the other to look too.

    Where the lock holds the other back, all of the `seconds` pass; without it they end at once.
    """
    both, done = threading.Barrier(2), []

    def looked(condition, code, position=None):
        if code is codes.Code.OLD_ROUND:
            with suppress(threading.BrokenBarrierError):
                both.wait(timeout=seconds)
        codes.require(condition, code, position)

    def mask():
        with suppress(SiteRefused):
            site.mask(fresh, vector, head(0, 1))
            done.append("masked")

    monkeypatch.setattr(session, "require", looked)
    threads = [threading.Thread(target=mask) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return done


def test_a_fresh_request_is_a_value(group):
    fresh = group.sites[0].begin(group.coordinator.start(b"bundle", 3).requests()[0])
    assert isinstance(fresh, Fresh)
    assert (fresh.bundle, fresh.round, fresh.participants) == (b"bundle", 1, (0, 1, 2, 3))
    with pytest.raises(dataclasses.FrozenInstanceError):
        fresh.round = 2
