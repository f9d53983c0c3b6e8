"""The unmasked sum is the sum of the inputs, whoever is lost and whenever."""

import itertools
import random

import numpy as np
import pytest

from hedgerow.errors import RoundFailed, TooFewSites
from hedgerow.secagg import masks, membership
from hedgerow.secagg.envelope import Envelope
from hedgerow.secagg.messages import Masked
from hedgerow.secagg.parameters import Parameters
from support.secagg_dry_run import consortium, masked_round, ring_sum, secure_sum, some_vectors


def subsets(sites):
    sites = list(sites)
    return itertools.chain.from_iterable(
        itertools.combinations(sites, size) for size in range(len(sites) + 1)
    )


def check_one_pattern(group, vectors, before, signing, after):
    """The sum over the survivors, or a void round exactly where the protocol says so."""
    everyone, threshold = set(range(len(group.sites))), group.parameters.threshold
    members = everyone - set(before)
    signers, answers = members - set(signing), members - set(after)
    if len(members) < threshold:
        with pytest.raises(TooFewSites):
            secure_sum(group, vectors, before, signing, after)
    elif (before and (len(signers) < threshold or answers != members)) or len(answers) < threshold:
        with pytest.raises(RoundFailed):
            secure_sum(group, vectors, before, signing, after)
    else:
        opened = secure_sum(group, vectors, before, signing, after)
        assert opened.members == tuple(sorted(members))
        assert bool(opened.certificate) == bool(before)
        np.testing.assert_array_equal(opened.values, ring_sum(vectors, members))


@pytest.mark.parametrize(
    ("n_sites", "threshold"),
    [(2, 2), (3, 2), (3, 3), (4, 3), pytest.param(5, 4, marks=pytest.mark.slow)],
)
def test_the_sum_is_right_for_every_subset_lost_before_and_every_subset_lost_after(
    n_sites, threshold
):
    parameters = Parameters(n_sites=n_sites, colluders=1, threshold=threshold)
    group, vectors = consortium(n_sites, parameters), some_vectors(n_sites)
    for before in subsets(range(n_sites)):
        for after in subsets(set(range(n_sites)) - set(before)):
            check_one_pattern(group, vectors, before, signing=(), after=after)


def test_the_sum_is_right_for_every_subset_that_does_not_sign():
    group = consortium(5, Parameters(n_sites=5, colluders=1, threshold=3))
    for before, signing in itertools.product(subsets(range(2)), subsets(range(5))):
        check_one_pattern(group, some_vectors(5), before, signing, after=())


@pytest.mark.parametrize(
    "n_sites",
    [*range(2, 9), 12, 20, *(pytest.param(n, marks=pytest.mark.slow) for n in (9, 10, 11, 33, 50))],
)
def test_the_sum_is_right_for_2_to_50_sites_and_random_losses(n_sites):
    group, choose = consortium(n_sites), random.Random(n_sites)
    may_go = n_sites - group.parameters.threshold
    for trial in range(4 if n_sites < 30 else 2):
        vectors = some_vectors(n_sites, seed=trial)
        before = choose.sample(range(n_sites), choose.randint(0, may_go)) if trial else ()
        remain = sorted(set(range(n_sites)) - set(before))
        after = () if before else choose.sample(remain, may_go)
        check_one_pattern(group, vectors, before, (), after)


def test_sums_wrap_at_2_to_the_63_as_two_s_complement_does():
    top, bottom = 2**63 - 1, -(2**63)
    vectors = [np.array(row) for row in ([top, bottom, -1], [1, -1, 1], [0, 5, 7])]
    opened = secure_sum(consortium(3), vectors)
    np.testing.assert_array_equal(opened.values, [bottom, bottom + 4, 7])
    np.testing.assert_array_equal(opened.values, ring_sum(vectors, range(3)))


def test_a_site_without_rows_sends_a_vector_like_any_other():
    group, vectors = consortium(3), some_vectors(3)
    vectors[1] = np.zeros(3, np.int64)
    np.testing.assert_array_equal(secure_sum(group, vectors).values, ring_sum(vectors, (0, 2)))


@pytest.mark.parametrize("dim", [1, 2, 2**14 - 1, 2**14, 2**14 + 1, 40_000])
def test_the_sum_is_right_at_the_edges_of_a_chunk(dim):
    vectors = some_vectors(3, dim)
    np.testing.assert_array_equal(
        secure_sum(consortium(3), vectors).values, ring_sum(vectors, range(3))
    )


def test_a_site_that_joins_only_some_rounds_is_in_those_sums_only():
    group, vectors = consortium(5), some_vectors(5)
    for participants in ((0, 1, 2, 3), (0, 1, 2, 3, 4), (1, 2, 3, 4)):
        secure = masked_round(group, vectors, participants=participants)
        assert secure.close() == {}
        for me, message in secure.unmask().items():
            secure.accept_shares(group.sites[me].unmask(message))
        np.testing.assert_array_equal(secure.opened().values, ring_sum(vectors, participants))


def test_masks_that_do_not_cancel_would_be_seen(monkeypatch):
    """The negative control: every site adds every mask, none takes any away."""

    def all_added(vector, self_keys, seeds, me):
        total = masks.to_ring(vector)
        masks.fold(total, plus=[*self_keys, *seeds.values()], minus=[])
        return total

    monkeypatch.setattr(membership, "_add_masks", all_added)
    vectors = some_vectors(3)
    assert not np.array_equal(
        secure_sum(consortium(3), vectors).values, ring_sum(vectors, range(3))
    )


def test_what_leaves_a_site_looks_nothing_like_its_vector():
    """Zeros in, and no zero word out: a missing mask would leave the vector as it is."""
    group = consortium(3)
    masked_round(group, [np.zeros(1000, np.int64)] * 3)
    record = group.memories[0].outbox(group.coordinator.run_id, 1)
    sent = Masked.read(Envelope.parse(record.message).body, 1000).vector
    assert len(np.unique(sent)) == 1000
