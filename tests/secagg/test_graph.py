"""The sparse graph: degrees come out of the formulas, and a thousand sites sum over it."""

import math
from fractions import Fraction

import numpy as np
import pytest

from hedgerow.errors import ParameterError
from hedgerow.secagg.parameters import (
    Neighborhood,
    Parameters,
    Sparse,
    neighborhood,
    stays_connected,
)
from hedgerow.secagg.session import Graph
from support.secagg_dry_run import consortium, secure_sum, some_vectors
from support.worlds import remembered  # noqa: F401

THIRD, TENTH, TWENTIETH = Fraction(1, 3), Fraction(1, 10), Fraction(1, 20)

# corrupt, lost, eta -> (degree, threshold) for 100, 1,000 and 10,000 sites, at sigma = 40
TABLE = [
    (THIRD, THIRD, 20, [(68, 34), (294, 154), (442, 231)]),
    (THIRD, THIRD, 40, [(68, 34), (346, 174), (548, 275)]),
    (THIRD, TENTH, 20, [(42, 32), (102, 72), (126, 88)]),
    (TENTH, TENTH, 20, [(22, 11), (48, 27), (54, 31)]),
    (TWENTIETH, TWENTIETH, 20, [(12, 6), (30, 17), (34, 20)]),
]


@pytest.mark.parametrize(("corrupt", "lost", "eta", "expected"), TABLE)
def test_the_degree_table_is_what_the_formulas_say(corrupt, lost, eta, expected):
    found = [
        neighborhood(n, math.floor(corrupt * n), math.floor(lost * n), 40, eta)
        for n in (100, 1_000, 10_000)
    ]
    assert found == [Neighborhood(*row) for row in expected]


def hypergeometric(population, marked, draws, x):
    ways = math.comb(marked, x) * math.comb(population - marked, draws - x)
    return Fraction(ways, math.comb(population, draws))


def test_the_thresholds_meet_their_inequalities_and_the_next_ones_do_not():
    """Plain fractions against the running sums: 60 sites, 12 corrupt, 12 lost, 2^-10."""
    n, corrupt, lost, sigma, eta = 60, 12, 12, 10, 10
    found = neighborhood(n, corrupt, lost, sigma, eta)
    k, t = found.degree, found.threshold

    def many_corrupt(t):
        return n * sum(hypergeometric(n - 1, corrupt, k, x) for x in range(t, k + 1))

    def few_alive(t):
        return n * sum(hypergeometric(n - 1, n - lost - 1, k, x) for x in range(t))

    assert many_corrupt(t) <= Fraction(1, 2 ** (sigma + 1)) < many_corrupt(t - 1)
    assert few_alive(t) <= Fraction(1, 2**eta)


def test_connectivity_is_the_bound_on_two_runs_of_bad_neighbors():
    n, bad, sigma = 100, 20, 20
    for degree in range(2, 40, 2):
        bound = Fraction(n * (n - degree - 1), 2)
        for i in range(degree):
            bound *= Fraction(max(bad - i, 0), n - i)
        assert stays_connected(n, bad, degree, sigma) == (bound < Fraction(1, 2 ** (sigma + 1)))


def test_a_graph_that_cannot_exist_is_refused():
    with pytest.raises(ParameterError, match="use the complete graph"):
        neighborhood(50, 24, 24)


def test_neighbors_are_mutual_and_as_many_as_the_degree():
    ring = Graph.ring(50, 8, b"epoch")
    for me in range(50):
        near = ring.neighbors(me)
        assert len(near) == 8
        assert me not in near
        assert all(me in ring.neighbors(peer) for peer in near)
    assert sorted(ring.order) == list(range(50))
    assert ring.order != Graph.ring(50, 8, b"another").order


@pytest.mark.parametrize("n_sites", [2, 3, 4, 5, 100])
def test_on_the_full_graph_everybody_is_a_neighbor(n_sites):
    full = Graph.full(n_sites)
    assert all(full.neighbors(me) == set(range(n_sites)) - {me} for me in range(n_sites))


# Random corrupt and lost sites


def falls_apart(bad, reach):
    """Whether the good places of a ring are cut by two runs of at least `reach` bad ones.

    bad: (sets, n) booleans in ring order.
    """
    around = np.concatenate([bad, bad[:, : reach - 1]], axis=1)
    windows = np.lib.stride_tricks.sliding_window_view(around, reach, axis=1).all(axis=2)
    starts = windows & ~np.roll(windows, 1, axis=1)  # first window of each long run
    return starts.sum(axis=1) >= 2


def components(ring, good):
    """Connected parts of the good sites, the slow way."""
    left, parts = set(good), 0
    while left:
        parts, todo = parts + 1, [left.pop()]
        while todo:
            near = ring.neighbors(todo.pop()) & left
            left -= near
            todo += near
    return parts


def random_bad(rng, sets, n, bad):
    return rng.random((sets, n)).argsort(axis=1) < bad


def test_two_long_runs_are_exactly_what_cuts_the_ring():
    rng, ring = np.random.default_rng(0), Graph.ring(30, 4, b"epoch")
    bad = random_bad(rng, 200, 30, 8)
    slow = [components(ring, np.array(ring.order)[~row]) > 1 for row in bad]
    assert falls_apart(bad, ring.reach).tolist() == slow
    assert 0 < sum(slow) < 200


def test_random_corrupt_sets_cut_a_third_of_the_degree_and_never_the_degree():
    """10,000 sets at sigma = 34: the chance of a false alarm is 10,000 / 2^35 < 10^-6."""
    n, bad, sigma, sets = 1_000, 200, 34, 10_000
    degree = next(k for k in range(2, n, 2) if stays_connected(n, bad, k, sigma))
    rng = np.random.default_rng(1)
    cut = {"whole": 0, "third": 0}
    for _ in range(sets // 1_000):
        drawn = random_bad(rng, 1_000, n, bad)
        cut["whole"] += falls_apart(drawn, degree // 2).sum()
        cut["third"] += falls_apart(drawn, degree // 6).sum()
    assert cut["whole"] == 0
    assert cut["third"] > 100


def test_random_corrupt_sets_reach_a_third_of_the_threshold_and_never_the_threshold():
    """Nobody has `threshold` corrupt neighbors; at a third of the degree somebody does."""
    n, corrupt, sets = 1_000, 100, 10_000
    found = neighborhood(n, corrupt, 100, sigma=40)
    rng, seen = np.random.default_rng(2), {"whole": 0, "third": 0}
    for _ in range(sets // 1_000):
        drawn = random_bad(rng, 1_000, n, corrupt).astype(np.int16)
        seen["whole"] += (most_corrupt(drawn, found.degree // 2) >= found.threshold).sum()
        seen["third"] += (most_corrupt(drawn, found.degree // 6) >= found.threshold // 3).sum()
    assert seen["whole"] == 0
    assert seen["third"] > 3  # about 27 are expected


def most_corrupt(drawn, reach):
    """(sets,) the largest number of corrupt neighbors of any honest site of the ring."""
    n = drawn.shape[1]
    wide = np.concatenate([drawn[:, -reach:], drawn, drawn[:, :reach]], axis=1)
    sums = np.concatenate([np.zeros_like(wide[:, :1]), wide.cumsum(axis=1, dtype=np.int16)], axis=1)
    near = sums[:, 2 * reach + 1 :] - sums[:, :n] - drawn
    return np.where(drawn == 1, 0, near).max(axis=1)


# Real sites on the ring


@pytest.mark.parametrize(
    ("n_sites", "expected"),
    [(240, (36, 20)), pytest.param(1_000, (48, 27), marks=pytest.mark.slow)],
)
def test_many_sites_sum_over_the_ring_with_a_tenth_lost(remembered, n_sites, expected):  # noqa: F811
    tenth = n_sites // 10
    parameters = Parameters(
        n_sites=n_sites, colluders=tenth, threshold=n_sites - tenth, sparse=Sparse()
    )
    assert parameters.neighborhood == Neighborhood(*expected)
    group, vectors = consortium(n_sites, parameters), some_vectors(n_sites)
    lost = np.random.default_rng(3).choice(n_sites, tenth, replace=False).tolist()
    opened = secure_sum(group, vectors, lost_before=lost)
    members = sorted(set(range(n_sites)) - set(lost))
    np.testing.assert_array_equal(opened.values, sum(vectors[me] for me in members))
    assert opened.members == tuple(members)
    assert all(len(one._membership.site_session.roots) == expected[0] for one in group.sites)


def test_the_sparse_graph_is_for_many_sites_and_never_weaker_than_2_to_the_minus_40():
    with pytest.raises(ParameterError, match="more than 200"):
        Parameters(n_sites=200, colluders=1, threshold=180, sparse=Sparse())
    with pytest.raises(ParameterError, match="sigma >= 40"):
        Sparse(sigma=39)
    with pytest.raises(ParameterError, match="eta >= 20"):
        Sparse(eta=19)
    with pytest.raises(ParameterError, match="use the complete graph"):
        Parameters(n_sites=201, colluders=100, threshold=101, sparse=Sparse())


def test_the_full_graph_shares_with_everybody():
    parameters = Parameters.default(100)
    assert parameters.neighborhood == Neighborhood(99, 80)
    assert Graph.of(parameters, b"any") == Graph.full(100)
