"""Rounds that are opened at once: with all vectors the sum, with fewer nothing, and no way round.

Each attack has a weaker negative control, a site without one rule, against which it works.
"""

import itertools
import random

import numpy as np
import pytest

from hedgerow.errors import ParameterError
from hedgerow.secagg import client, masks, membership
from hedgerow.secagg.client import Site
from hedgerow.secagg.encoding import digest, members_field
from hedgerow.secagg.envelope import Envelope, MessageKind
from hedgerow.secagg.memory import StoredRound
from hedgerow.secagg.messages import LANES, Masked, Mode, Round, Unmask
from hedgerow.secagg.opening import MasksLeft, MissingVectors
from hedgerow.secagg.parameters import Parameters
from hedgerow.secagg.session import KeySession
from support.secagg_dry_run import (
    answer,
    consortium,
    head,
    ledger_of,
    refuses,
    ring_sum,
    secure_sum,
    some_vectors,
)

BUNDLE = b"bundle"


def started(group, vectors, participants=None):
    return group.coordinator.start(BUNDLE, len(vectors[0]), participants, mode=Mode.AT_ONCE)


def at_once(group, vectors, lost=()):
    """One exchange; what `lost` sites answered never arrives."""
    secure = started(group, vectors)
    for me, message in secure.requests().items():
        masked = answer(group, me, message, vectors[me])
        if me not in lost:
            secure.accept_masked(masked)
    return secure


@pytest.mark.parametrize("n_sites", [2, 3, 4, 5, 9, 20, 50])
def test_the_sum_at_once_is_the_sum_in_two_and_the_sum_in_the_ring(n_sites):
    group, vectors = consortium(n_sites), some_vectors(n_sites)
    secure = at_once(group, vectors)
    assert secure.close() == {}
    opened = secure.opened()
    np.testing.assert_array_equal(opened.values, ring_sum(vectors, range(n_sites)))
    np.testing.assert_array_equal(opened.values, secure_sum(group, vectors).values)
    assert (opened.members, opened.certificate) == (tuple(range(n_sites)), {})


def test_sums_wrap_at_the_ends_of_the_ring():
    ends = [2**63 - 1, -(2**63), 1, -1]
    for some in itertools.product(ends, repeat=3):
        vectors = [np.array([one, 0]) for one in some]
        secure = at_once(consortium(3), vectors)
        secure.close()
        np.testing.assert_array_equal(secure.opened().values, ring_sum(vectors, range(3)))


@pytest.mark.parametrize("lost", [(0,), (3,), (1, 4)])
def test_without_one_vector_it_is_void_and_the_silent_are_named(lost):
    group = consortium(5, Parameters(n_sites=5, colluders=1, threshold=3))
    secure = at_once(group, some_vectors(5), lost)
    with pytest.raises(MissingVectors, match="the charge stays") as void:
        secure.close()
    assert void.value.sites == lost
    with pytest.raises(ParameterError, match="still open"):
        secure.opened()


def test_the_same_question_again_gets_the_same_bytes():
    group, vectors = consortium(3), some_vectors(3)
    secure = started(group, vectors)
    messages = secure.requests()
    first = {me: answer(group, me, message, vectors[me]) for me, message in messages.items()}
    assert first == {
        me: answer(group, me, message, vectors[me]) for me, message in messages.items()
    }


def test_a_site_keeps_the_bytes_it_sent_and_no_secret():
    group = consortium(3)
    at_once(group, some_vectors(3))
    record = group.memories[0].outbox(group.coordinator.run_id, 1)
    assert (record.own_share, record.seeds, record.share_keys) == (b"", {}, {})
    assert StoredRound.from_bytes(record.to_bytes()) == record
    secure_sum(group, some_vectors(3))  # a control: in two there are secrets to open it with
    assert group.memories[0].outbox(group.coordinator.run_id, 2).share_keys


# -------------------------------------------------------------------------------- wrong vectors
def tampered(message, identity, change):
    """The MASKED of a site that signs something else."""
    envelope = Envelope.parse(message)
    masked = Masked.read(envelope.body, 3, mode=Mode.AT_ONCE)
    vector = masked.vector.copy()
    change(vector)
    body = Masked(vector, masked.context).to_bytes()
    return client.Author(identity, envelope.header.sender, envelope.header.study_hash).seal(
        MessageKind.MASKED,
        body,
        envelope.header.run_id,
        envelope.header.session_id,
        envelope.header.round,
        envelope.header.receiver,
        envelope.header.ledger,
    )


@pytest.mark.parametrize("lane", [-1, -2])
def test_a_vector_whose_masks_are_not_those_of_its_peers_opens_nothing(lane):
    group, vectors = consortium(3), some_vectors(3)
    secure = started(group, vectors)
    sent = {m: answer(group, m, x, vectors[m]) for m, x in secure.requests().items()}

    def change(vector):
        vector[lane] += np.uint64(1)

    for me, message in sent.items():
        wrong = tampered(message, group.identities[0], change) if me == 0 else message
        secure.accept_masked(wrong)
    secure.close()
    with pytest.raises(MasksLeft, match="do not cancel"):
        secure.opened()


def test_a_site_that_was_told_another_story_is_named(monkeypatch):
    group, vectors = consortium(3), some_vectors(3)
    secure = started(group, vectors)
    body = Round(b"another bundle", (0, 1, 2), mode=Mode.AT_ONCE).to_bytes()
    other = group.forge(MessageKind.ROUND, body)
    with refuses("BadMessage") as refused:
        secure.accept_masked(answer(group, 0, other, vectors[0]))
    assert refused.value.site == 0


# -------------------------------------------- a coordinator that tells every site its own story
def stories(n_sites, threshold, rng):
    """For every site a list that it is on, of the threshold or more, and a mode."""
    told = {}
    for me in range(n_sites):
        size = rng.randint(threshold, n_sites)
        others = rng.sample([k for k in range(n_sites) if k != me], size - 1)
        told[me] = tuple(sorted([me, *others])), rng.choice((Mode.AT_ONCE, Mode.AT_ONCE))
    return told


def open_sets(vectors, group):
    """Sets of sites whose vectors add up to what their lanes show to be free of masks."""
    found = []
    for size in range(1, len(vectors) + 1):
        for some in itertools.combinations(sorted(vectors), size):
            lanes = sum(vectors[me][-LANES:].astype(object) for me in some) % 2**64
            if not any(lanes):
                found.append(set(some))
    return found


def masked_under(group, told, vectors):
    answers = {}
    for me, (who, mode) in told.items():
        body = Round(BUNDLE, who, mode=mode).to_bytes()
        message = group.forge(MessageKind.ROUND, body, receiver=me)
        message = answer(group, me, message, vectors[me])
        answers[me] = Masked.read(Envelope.parse(message).body, 3, mode=mode).vector
    return answers


def smallest_open(n_sites, threshold, plays, seed):
    rng, least = random.Random(seed), []
    for _ in range(plays):
        group = consortium(n_sites, Parameters(n_sites=n_sites, colluders=1, threshold=threshold))
        told = stories(n_sites, threshold, rng)
        least += map(len, open_sets(masked_under(group, told, some_vectors(n_sites)), group))
    return min(least, default=None)


@pytest.mark.parametrize(("n_sites", "threshold"), [(4, 3), (5, 3), (5, 4)])
def test_whatever_lists_sites_are_told_no_fewer_than_the_threshold_are_open(n_sites, threshold):
    """All sites are honest here; with c of them corrupt at least threshold - c are left."""
    found = smallest_open(n_sites, threshold, 40, n_sites)
    assert found is None or found >= threshold
    group = consortium(n_sites, Parameters(n_sites=n_sites, colluders=1, threshold=threshold))
    everyone = dict.fromkeys(range(n_sites), (tuple(range(n_sites)), Mode.AT_ONCE))
    whole = open_sets(masked_under(group, everyone, some_vectors(n_sites)), group)
    assert whole == [set(range(n_sites))]  # a control: the search finds what there is


def test_without_participants_in_the_context_two_overlapping_sums_would_open(monkeypatch):
    """Twin: over {0, 1, 2} and over {0, 1, 2, 3} under one context: their difference is site 3's.

    Sites answer once a round, so the masks of one context come out for lists that contradict.
    """

    def without(self, round, request, participants):
        return digest("ctx", self.id, round.to_bytes(8, "big"), request)

    monkeypatch.setattr(KeySession, "context", without)
    parameters = Parameters(n_sites=4, colluders=1, threshold=3)
    group, vectors = consortium(4, parameters), some_vectors(4)
    told = {0: (0, 1, 2), 1: (0, 1, 2), 2: (0, 1, 2), 3: (0, 1, 3)}
    told = {me: (who, Mode.AT_ONCE) for me, who in told.items()}
    answers = masked_under(group, told, vectors)
    joined = group.sites[0]._membership.site_session
    context = joined.session.context(1, Round(BUNDLE, (), mode=Mode.AT_ONCE).request, ())
    # With one context for all lists the mask of 0 and 3 is the same in every story.
    other = group.sites[3]._membership.site_session.seed(context, 0)
    assert joined.seed(context, 3) == other
    assert open_sets(answers, group) == [{0, 1, 2}]


def test_without_the_mode_in_the_context_masks_of_both_modes_would_be_the_same(monkeypatch):
    """Twin: then the second vector of a site under the mask would be one question away."""
    request = Round(BUNDLE, (0, 1, 2)).request
    assert request != Round(BUNDLE, (0, 1, 2), mode=Mode.AT_ONCE).request
    monkeypatch.setattr(Round, "request", property(lambda asked: digest("bundle", asked.bundle)))
    assert Round(BUNDLE, ()).request == Round(BUNDLE, (), mode=Mode.AT_ONCE).request


def test_one_round_has_one_mode_at_a_site():
    group, vectors = consortium(3), some_vectors(3)
    at_once(group, vectors)
    body = Round(BUNDLE, (0, 1, 2), mode=Mode.IN_TWO).to_bytes()
    with refuses("RoundIdUsed"):
        group.sites[0].begin(group.forge(MessageKind.ROUND, body))


# ---------------------------------------------------- a coordinator that keeps one vector back
def asked_to_open(group, members):
    yield MessageKind.SURVIVORS, members_field(members), group.sites[0].sign_set
    yield MessageKind.UNMASK, Unmask(members, {}, {}).to_bytes(), group.sites[0].unmask


@pytest.mark.parametrize("members", [(0, 1, 2), (0, 1, 2, 3)])
def test_nobody_helps_to_open_it_for_fewer_or_once_more(members):
    group = consortium(4, Parameters(n_sites=4, colluders=1, threshold=3))
    at_once(group, some_vectors(4))
    for kind, body, step in asked_to_open(group, members):
        with refuses("BadSet"):
            step(group.forge(kind, body, ledger=group.coordinator.heads[0]))
    secure_sum(group, some_vectors(4))  # a control: in two the same set is opened


class MasksAgain(Site):
    """Twin: masks the numbers that it has stored once more, for those who are said to be left."""

    def mask_again(self, vector, context, participants):
        joined = self._membership.site_session
        return membership.hide_at_once(vector, joined, context, participants).body.vector


def test_masking_the_same_numbers_again_would_show_the_vector_that_was_kept_back():
    """Claim 2 of the protocol: S(P) - S(P without v) is v's vector under its own noise alone."""
    parameters = Parameters(n_sites=4, colluders=1, threshold=3)
    group, vectors = consortium(4, parameters, MasksAgain), some_vectors(4)
    secure = at_once(group, vectors)
    secure.close()
    everyone = secure.opened().values
    left = (0, 1, 2)
    context = group.sites[0]._membership.site_session.session.context(
        1, Round(BUNDLE, left, mode=Mode.AT_ONCE).request, left
    )
    again = [group.sites[me].mask_again(vectors[me], context, left) for me in left]
    fewer = masks.center(np.sum(again, axis=0, dtype=np.uint64)[:-LANES])
    np.testing.assert_array_equal(everyone - fewer, vectors[3])


def test_a_round_number_makes_one_vector():
    """Why the real site cannot be brought to that: its answer is stored and its key is used up."""
    group, vectors = consortium(4, Parameters(n_sites=4, colluders=1, threshold=3)), some_vectors(4)
    at_once(group, vectors)
    body = Round(BUNDLE, (0, 1, 2), mode=Mode.AT_ONCE).to_bytes()
    message = group.forge(MessageKind.ROUND, body, ledger=ledger_of(group, 0))
    with refuses("RoundIdUsed"):
        group.sites[0].begin(message)
    group.memories[0]._records.clear()
    with refuses("OldRound"):
        group.sites[0].begin(message)
    begun = client.Fresh(
        group.coordinator.run_id, group.coordinator.session.id, 1, Mode.AT_ONCE, BUNDLE, b"",
        (0, 1, 2), bytes(32), bytes(32),
    )  # fmt: skip
    with refuses("OldRound"):
        group.sites[0].mask(begun, vectors[0], head(0, 2))
