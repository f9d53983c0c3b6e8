"""Dyadic histograms: exact without noise; better prefixes under Gaussian noise alone."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from hedgerow.methods.blocks.builder import Node
from hedgerow.methods.blocks.flow import run
from hedgerow.methods.blocks.public_grids import fine_schema
from hedgerow.methods.blocks.tables import DyadicTables
from hedgerow.methods.consul import MedianForest
from hedgerow.privacy.accounting.budget import DPModel
from hedgerow.privacy.queries import Binning, ClassCounts
from hedgerow.schema.candidates import Grids
from hedgerow.schema.regions import EVERYONE, Step
from hedgerow.schema.schema import Numeric, Schema
from support.worlds import TWO, federation, sample, site_rows, study

COUNTS = ClassCounts(2)


def tables(n_bins=None):
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
    dyadic = tables()
    n_bins = dyadic.grids.binning.n_bins[feature]
    bins = np.random.default_rng(0).integers(0, 50, (n_bins, 2)).astype(float)
    every = np.ones(n_bins, bool)
    assert np.allclose(dyadic.bins(feature, every, runs_of(dyadic, feature, bins)), bins)


def test_bins_that_the_path_excludes_hold_nothing():
    dyadic = tables()
    region = (Step(TWO.grids[0].split_values(range(3)), 0),)
    reachable = dyadic.grids.reachable(region, 0)
    noise = [np.random.default_rng(1).normal(size=(level.n_bins[0], 2)) for level in dyadic.levels]
    read = dyadic.bins(0, reachable, noise)
    assert np.allclose(read[~reachable], 0.0)
    assert (read[reachable] != 0.0).all()


def prefix_variance(n_bins, length):
    """Of the least-squares prefix, in variances of one run."""
    dyadic = tables(n_bins)
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
    dyadic = tables()
    solution = dyadic._solution(2, np.ones(dyadic.grids.binning.n_bins[2], bool))
    assert len(dyadic.levels) * (solution**2).sum(axis=1) == pytest.approx(1.0)


def test_all_widths_together_cost_the_share_that_is_named():
    dyadic = tables()
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
