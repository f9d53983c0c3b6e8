"""What a node expects of itself, how its own tables change that, and which split it takes."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from hedgerow.methods.blocks.builder import Node
from hedgerow.methods.blocks.flow import run
from hedgerow.methods.blocks.public_grids import fine_schema
from hedgerow.methods.blocks.scores import gini, prefix_gains
from hedgerow.methods.blocks.tables import Belief, DyadicTables, child_prior, update_belief
from hedgerow.methods.consul import MedianForest
from hedgerow.privacy.accounting.budget import DPModel
from hedgerow.privacy.queries import Binning, ClassCounts
from hedgerow.schema.candidates import Grids
from hedgerow.schema.regions import EVERYONE, Step
from hedgerow.schema.schema import Numeric, Schema
from support.worlds import TWO, federation, sample, site_rows, study

RNG = np.random.default_rng(0)
ROWS = 4000


def truth(n_features=3, n_bins=4, rows=ROWS):
    """Features that are independent within a class, and their exact tables."""
    y = RNG.integers(0, 2, rows)
    x = (RNG.random((rows, n_features)) * n_bins * (0.6 + 0.4 * y[:, None])).astype(int)
    return x, y, tables(x, y, n_features, n_bins)


def tables(x, y, n_features, n_bins):
    out = np.zeros((n_features, n_bins, 2))
    for j in range(n_features):
        np.add.at(out[j], (x[:, j], y), 1.0)
    return out


def belief(masses, variance=1.0):
    used = np.ones(masses.shape[:2], bool)
    return Belief(
        tuple(range(len(masses))),
        masses,
        np.full(masses.shape, variance),
        used,
        masses[0].sum(axis=0),
        variance,
    )


def test_the_split_features_table_is_known_exactly_in_a_child():
    _, _, exact = truth()
    child = child_prior(belief(exact), 1, np.array([True, True, False, False]), 0)
    assert np.array_equal(child.masses[1, :2], exact[1, :2])
    assert (child.masses[1, 2:] == 0.0).all()
    assert list(child.possible[1]) == [True, True, False, False]


def test_where_features_are_independent_within_a_class_the_prior_is_right():
    x, y, exact = truth()
    left = np.array([True, True, False, False])
    child = child_prior(belief(exact), 0, left, 0)
    inside = left[x[:, 0]]
    real = tables(x[inside], y[inside], 3, 4)
    assert np.abs(child.masses - real).max() < 6.0 * np.sqrt(real.max())


def test_both_children_together_are_the_parent():
    _, _, exact = truth()
    left = np.array([True, False, False, False])
    sides = [child_prior(belief(exact), 2, left, side) for side in (0, 1)]
    assert np.allclose(sides[0].masses + sides[1].masses, exact)
    assert np.allclose(sides[0].totals + sides[1].totals, exact[0].sum(axis=0))


def test_an_update_is_closer_to_the_truth_than_the_nodes_own_tables():
    x, y, exact = truth()
    left, variance = np.array([True, True, False, False]), 900.0
    prior = child_prior(belief(exact + RNG.normal(0, 10.0, exact.shape), 100.0), 0, left, 0)
    inside = left[x[:, 0]]
    real = tables(x[inside], y[inside], 3, 4)
    errors = {"own": 0.0, "both": 0.0}
    for _ in range(20):
        asked = real + RNG.normal(0, np.sqrt(variance), real.shape)
        errors["both"] += ((update_belief(prior, asked, variance).masses - real) ** 2).mean()
        errors["own"] += ((asked - real)[prior.possible] ** 2).mean()
    assert errors["both"] < 0.5 * errors["own"]


def test_without_noise_the_update_is_the_nodes_own_table():
    _, _, exact = truth()
    wrong = belief(exact[::-1].copy())
    after = update_belief(wrong, exact, 0.0)
    assert np.allclose(after.masses, exact)
    assert np.allclose(after.totals, exact[0].sum(axis=0))


def test_an_updated_node_keeps_its_impossible_bins_empty():
    _, _, exact = truth()
    prior = child_prior(belief(exact), 0, np.array([True, False, False, False]), 1)
    after = update_belief(prior, exact + 5.0, 25.0)
    assert (after.masses[0, 0] == 0.0).all()
    assert (after.variances[0, 0] == 0.0).all()


def gains(masses, variances=None, penalty=0.0, least=0.0, deviations=0.0):
    variances = np.zeros_like(masses) if variances is None else variances
    return prefix_gains(
        masses,
        variances,
        masses[0].sum(axis=0),
        penalty=penalty,
        least=least,
        deviations=deviations,
    )


def test_without_noise_a_gain_is_the_fall_of_the_gini_mass():
    _, _, exact = truth()
    found = gains(exact)
    for j in range(3):
        for b in range(3):
            left = exact[j, : b + 1].sum(axis=0)
            whole = exact[j].sum(axis=0)
            assert found[j, b] == pytest.approx(gini(whole) - gini(left) - gini(whole - left))


def test_a_side_below_the_least_is_no_candidate():
    table = np.array([[[2.0, 1.0], [40.0, 60.0], [60.0, 40.0]]])
    assert np.isneginf(gains(table, least=5.0)[0, 0])
    assert np.isfinite(gains(table, least=5.0)[0, 1])


def test_the_penalty_is_the_gain_that_noise_alone_shows_on_average():
    """On tables without any signal the penalized gain is zero in the mean."""
    flat, variance, bins = np.full((1, 6, 2), 500.0), 400.0, 6
    noise = np.full_like(flat, variance)
    seen = []
    rng = np.random.default_rng(3)
    for _ in range(4000):
        drawn = flat + rng.normal(0, np.sqrt(variance), flat.shape)
        drawn += (flat.sum(axis=1) - drawn.sum(axis=1))[:, None, :] / bins  # one known total
        seen.append(gains(drawn, noise, penalty=1.0)[0])
    mean, error = np.mean(seen, axis=0), np.std(seen, axis=0) / np.sqrt(len(seen))
    assert (np.abs(mean) < 6.0 * error).all()
    unpenalized = gains(drawn, noise)
    assert (unpenalized >= 0.0).all()


# --------------------------------------------------------------------------------------------------
# Dyadic histograms: exact without noise; better prefixes under Gaussian noise alone.
COUNTS = ClassCounts(2)


def dyadic_tables(n_bins=None):
    if n_bins is None:
        return DyadicTables(Grids(TWO, Binning.of_cells(TWO)), COUNTS)
    schema = Schema((Numeric("x", 0.0, 1.0, bins=n_bins),), classes=("no", "yes"))
    return DyadicTables(Grids(schema, Binning.of_cells(schema)), COUNTS)


def runs_of(dyadic, feature, bins):
    """The exact answers to all widths."""
    of_cell = np.asarray(dyadic.grids.binning.bins[feature])
    found = []
    for level in dyadic.levels:
        out = np.zeros((level.n_bins[feature], bins.shape[1]))
        for cell, run_ in enumerate(level.bins[feature]):
            out[run_] += bins[of_cell[cell]]
        found.append(out)
    return found


@pytest.mark.parametrize("feature", [0, 1, 2])
def test_without_noise_the_runs_give_the_bins_back(feature):
    dyadic = dyadic_tables()
    n_bins = dyadic.grids.binning.n_bins[feature]
    bins = np.random.default_rng(0).integers(0, 50, (n_bins, 2)).astype(float)
    every = np.ones(n_bins, bool)
    assert np.allclose(dyadic.bins(feature, every, runs_of(dyadic, feature, bins)), bins)


def test_bins_that_the_path_excludes_hold_nothing():
    dyadic = dyadic_tables()
    region = (Step(TWO.grids[0].split_values(range(3)), 0),)
    reachable = dyadic.grids.reachable(region, 0)
    noise = [np.random.default_rng(1).normal(size=(level.n_bins[0], 2)) for level in dyadic.levels]
    read = dyadic.bins(0, reachable, noise)
    assert np.allclose(read[~reachable], 0.0)
    assert (read[reachable] != 0.0).all()


def prefix_variance(n_bins, length):
    """Of the least-squares prefix, in variances of one run."""
    dyadic = dyadic_tables(n_bins)
    solution = dyadic._solution(0, np.ones(n_bins + 1, bool))
    return float((solution[:length].sum(axis=0) ** 2).sum()), len(dyadic.levels)


@pytest.mark.parametrize("n_bins", [16, 64])
@pytest.mark.parametrize("part", [0.25, 0.5, 0.7])
def test_under_gaussian_noise_a_prefix_is_less_noisy_than_of_a_flat_table(n_bins, part):
    length = int(part * n_bins)
    variance, b = prefix_variance(n_bins, length)
    assert b * variance < length


def test_under_laplace_noise_it_is_noisier():
    """Twin: the same answers at b^2 times the variance lose; so flat tables stay there."""
    variance, b = prefix_variance(16, 8)
    assert b**2 * variance > 8


def test_a_table_of_categories_is_as_good_as_a_flat_one():
    dyadic = dyadic_tables()
    solution = dyadic._solution(2, np.ones(dyadic.grids.binning.n_bins[2], bool))
    assert len(dyadic.levels) * (solution**2).sum(axis=1) == pytest.approx(1.0)


def test_all_widths_together_cost_the_share_that_is_named():
    dyadic = dyadic_tables()
    asked = next(dyadic.ask(Node(EVERYONE), (0, 1), Fraction(1, 3)))
    assert sum(query.fraction for query in asked) == Fraction(1, 3)
    assert len(asked) == 3


@pytest.mark.parametrize("delta", ["0", "1/1000000"])
def test_several_holders_spend_what_they_name_under_both_noises(delta):
    X, y = sample(300, TWO)
    schema = fine_schema(TWO)
    fed = federation(
        study(schema, 3, DPModel.DISTRIBUTED, "4", delta),
        site_rows(X, y, np.arange(300) % 3, 3, schema),
    )
    method = MedianForest(n_estimators=2, max_depth=2, split="table")
    trained = run(method.flow(schema, fed, np.random.default_rng(0)), fed)
    assert fed.ledger.spent(fed.study.account) <= fed.study.total
    assert len(trained.model.score.trees) == 2
