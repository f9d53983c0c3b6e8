"""Where candidate cuts come from: merged cells, quantiles, the iterative Hessian."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from contract.worlds import TWO, federation, holders, sample, study
from hedgerow.errors import UnsupportedQuery
from hedgerow.learning.bins import by_count
from hedgerow.learning.bins.cut_points import (
    DeclaredCuts,
    HessianCuts,
    MergedCuts,
    QuantileCuts,
    Setting,
    even_runs,
    refined_runs,
)
from hedgerow.learning.bins.public_grids import fine_schema
from hedgerow.learning.flow import run
from hedgerow.privacy.accounting.budget import Placement
from hedgerow.recipes.papers.maddock import Boosted
from hedgerow.recipes.recipe import check_needs
from hedgerow.values.losses import LogLoss, SoftmaxLoss
from hedgerow.values.models import Additive
from hedgerow.values.schema import Numeric, Schema

X, Y = sample(400, TWO)
FINE = fine_schema(TWO)
SKEWED = fine_schema(Schema((Numeric("pay", 0.0, 1e6),), classes=("no", "yes"))).grids[0]
METHODS = [DeclaredCuts(), MergedCuts(), QuantileCuts(), HessianCuts(rounds=2)]


def open_study(placement=None, schema=FINE, **options):
    rows = holders(X, Y, np.zeros(len(Y), int), 1, schema)
    return federation(study(schema, 1, placement, **options), rows)


@given(st.lists(st.floats(0, 100), min_size=2, max_size=60), st.floats(1, 50))
def test_merged_cells_are_runs_and_every_inner_bin_holds_enough(mass, enough):
    bins = np.array(by_count.merge(mass, enough))
    assert bins[0] == 0
    assert set(np.diff(bins)) <= {0, 1}
    spikes = {int(b) for b, m in zip(bins, mass, strict=True) if m >= enough}
    held = np.bincount(bins, weights=mass)
    for b in range(len(held) - 1):
        assert held[b] >= enough * (1 - 1e-9) or b + 1 in spikes


def test_a_heavy_cell_stays_alone_and_a_light_end_joins_its_neighbour():
    assert by_count.merge([1, 1, 50, 1, 9, 2], enough=10) == (0, 0, 1, 2, 2, 2)


def test_counts_below_the_noise_share_what_is_left_of_the_records():
    counts = np.array([400.0, 3.0, -5.0, 1.0])
    mass = by_count.denoised(counts, variance=16.0, total=500.0, widths=np.array([1, 1, 1, 1]) / 4)
    assert mass[0] == 400.0
    assert np.allclose(mass[1:], 100.0 / 3)


def test_the_missing_cell_is_always_a_bin_of_its_own():
    _, binning = run(by_count.bins_by_count(FINE), open_study(epsilon="5"))
    for grid, bins in zip(FINE.grids, binning.bins, strict=True):
        assert bins[grid.missing] not in bins[: grid.missing]


def test_records_and_cells_are_asked_in_one_round():
    fed = open_study()
    run(by_count.bins_by_count(FINE), fed)
    assert len(fed.record.rounds) == 1


@pytest.mark.parametrize("method", METHODS, ids=lambda m: type(m).__name__)
def test_a_method_spends_the_share_it_names_in_the_rounds_it_names(method):
    schema = method.grid(TWO)
    fed = open_study(schema=schema, delta="1e-6")
    setting = Setting(schema, LogLoss(), Additive((0.0,)), n_trees=20)
    run(method.place(setting, fed), fed)
    assert fed.ledger.spent(fed.study.account) == method.share(setting) * fed.study.total
    assert len(fed.record.rounds) == method.rounds_for(schema)


def test_exact_quantiles_are_refused_wherever_somebody_is_protected():
    setting = Setting(FINE, LogLoss(), Additive((0.0,)), n_trees=20)
    recipe = Boosted(candidates=QuantileCuts(exact=True))
    for placement in set(Placement) - {Placement.NOWHERE}:
        with pytest.raises(UnsupportedQuery, match="nowhere"):
            check_needs(recipe, TWO, placement, 1)
    check_needs(recipe, TWO, Placement.NOWHERE, 1)
    open_to_all = open_study(Placement.NOWHERE)
    binning = run(QuantileCuts(8, exact=True).place(setting, open_to_all), open_to_all)
    assert max(binning.n_bins[:2]) <= 9


def test_a_hessian_histogram_is_charged_at_a_sixteenth_of_a_leaf_query():
    """At equal noise: |h| <= 1/4 where |(g, c h)| <= 1; softmax has its own ratio."""
    trees, method = 100, HessianCuts(rounds=5)
    setting = Setting(FINE, LogLoss(), Additive((0.0,)), trees)
    assert method.share(setting) == Fraction(5 * 2, 16) / (trees + Fraction(5 * 2, 16))
    three = Setting(FINE, SoftmaxLoss(3), Additive((0.0,) * 3), trees)
    assert method.share(three) > method.share(setting)


def test_the_iterative_hessian_finds_a_crowd_near_zero():
    """Nine of ten records lie in the lowest thousandth of the range."""
    runs = even_runs(SKEWED, 32)
    edges = (SKEWED.low, *SKEWED.edges, SKEWED.high)

    def hessians(runs):
        shares = []
        for first, end in runs:
            low, high = edges[first], edges[end]
            crowd = 0.9 * max(min(high, 1e3) - low, 0.0) / 1e3
            shares.append(1e4 * (crowd + 0.1 * (high - low) / 1e6))
        return np.array(shares)

    assert sum(edges[end] <= 1e3 for _, end in runs) == 0
    for _ in range(5):
        runs = refined_runs(SKEWED, runs, hessians(runs), 32)
        assert [a for a, _ in runs[1:]] == [b for _, b in runs[:-1]]
    assert len(runs) >= 32
    assert sum(edges[end] <= 1.1e3 for _, end in runs) >= 4
