"""Where candidate cuts come from: merged cells, quantiles, the iterative Hessian."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hedgerow.errors import UnsupportedQuery
from hedgerow.methods.blocks import private_bins
from hedgerow.methods.blocks.cut_points import DeclaredCuts, MergedCuts, QuantileCuts, SplitContext
from hedgerow.methods.blocks.flow import run
from hedgerow.methods.blocks.iterative_hessian import HessianCuts, even_runs, refine_runs
from hedgerow.methods.blocks.public_grids import fine_schema, finer_schema
from hedgerow.methods.maddock import ComponentBoosting
from hedgerow.methods.method import check_needs
from hedgerow.models.losses import LogLoss, SoftmaxLoss
from hedgerow.models.model import Additive
from hedgerow.privacy.accounting.budget import DPModel
from hedgerow.schema.schema import Numeric, Schema
from studies.tests.answers import fixed_noise
from support.worlds import TWO, federation, sample, site_rows, study

X, Y = sample(400, TWO)
FINE, FINER = fine_schema(TWO), finer_schema(TWO)
SKEWED = fine_schema(Schema((Numeric("pay", 0.0, 1e6),), classes=("no", "yes"))).grids[0]
METHODS = [DeclaredCuts(), MergedCuts(), QuantileCuts(), HessianCuts(rounds=2)]


def bins(schema):
    """Both rounds of private bins."""
    counted = yield from private_bins.count_records()
    return (yield from private_bins.bins_by_count(schema, counted))


def open_study(dp_model=None, schema=FINE, **options):
    rows = site_rows(X, Y, np.zeros(len(Y), int), 1, schema)
    return federation(study(schema, 1, dp_model, **options), rows)


@pytest.mark.property
@given(st.lists(st.floats(0, 100), min_size=2, max_size=60), st.floats(1, 50))
def test_merged_cells_are_runs_and_every_inner_bin_holds_enough(mass, enough):
    bins = np.array(private_bins.merge(mass, enough))
    assert bins[0] == 0
    assert set(np.diff(bins)) <= {0, 1}
    spikes = {int(b) for b, m in zip(bins, mass, strict=True) if m >= enough}
    held = np.bincount(bins, weights=mass)
    for b in range(len(held) - 1):
        assert held[b] >= enough * (1 - 1e-9) or b + 1 in spikes


def test_a_heavy_cell_stays_alone_and_a_light_end_joins_its_neighbor():
    assert private_bins.merge([1, 1, 50, 1, 9, 2], enough=10) == (0, 0, 1, 2, 2, 2)


def test_counts_below_the_noise_share_what_is_left_of_the_records():
    counts = np.array([400.0, 3.0, -5.0, 1.0])
    mass = private_bins.denoise(
        counts, variance=16.0, total=500.0, widths=np.array([1, 1, 1, 1]) / 4
    )
    assert mass[0] == 400.0
    assert np.allclose(mass[1:], 100.0 / 3)


def test_the_missing_cell_is_always_a_bin_of_its_own():
    binning = run(bins(FINE), open_study(epsilon="5"))
    for grid, merged in zip(FINE.grids, binning.bins, strict=True):
        assert merged[grid.missing] not in merged[: grid.missing]


@pytest.mark.parametrize(
    ("records", "deviation", "bins"),
    [(1e4, 1e3, 32), (6400.0, 8.0, 100), (1.2e4, 3.0, 1000), (1e4, 0.1, 1024)],
)
def test_a_bin_holds_some_deviations_of_the_noise_within_limits(records, deviation, bins):
    assert records / private_bins.records_a_bin(records, deviation) == pytest.approx(bins)


@pytest.mark.parametrize(("epsilon", "n_cells"), [("0.1", 121), ("5000", 241)])
def test_finer_cells_are_asked_only_where_they_stand_out_of_the_noise(epsilon, n_cells):
    fed, asked = open_study(schema=FINER, epsilon=epsilon, delta="1e-6"), []
    flow = bins(FINER)
    queries = next(flow)
    while queries:
        asked += queries
        try:
            queries = flow.send(fed.ask(queries))
        except StopIteration:
            break
    assert asked[1].by.binning.n_bins[0] == n_cells + 1


def test_more_budget_gives_more_bins():
    x = np.random.default_rng(0).uniform(0, 1, (4000, 1))
    schema = finer_schema(Schema((Numeric("x", 0.0, 1.0),), classes=("no", "yes")))
    rows = site_rows(
        x, np.resize(np.array(["no", "yes"], object), 4000), np.zeros(4000, int), 1, schema
    )
    found = []
    for epsilon in ("0.1", "20"):
        fed = federation(study(schema, 1, epsilon=epsilon, delta="1e-6"), rows)
        with fixed_noise():  # where noise is wide, the number of bins is a matter of luck
            found.append(run(bins(schema), fed).n_bins[0])
    assert found[0] <= 40
    assert found[1] >= 64


@pytest.mark.parametrize("method", METHODS, ids=lambda m: type(m).__name__)
def test_a_method_spends_the_share_it_names_in_the_rounds_it_names(method):
    schema = method.grid(TWO)
    fed = open_study(schema=schema, delta="1e-6")
    setting = SplitContext(schema, LogLoss(), Additive((0.0,)), n_estimators=20, trees_per_round=20)
    run(method.place(setting, fed), fed)
    assert fed.ledger.spent(fed.study.account) == method.fraction(setting) * fed.study.total
    assert len(fed.record.rounds) == method.rounds_for(setting)


def test_exact_quantiles_are_refused_wherever_somebody_is_protected():
    setting = SplitContext(FINE, LogLoss(), Additive((0.0,)), n_estimators=20)
    method = ComponentBoosting(candidates="exact_quantile")
    for dp_model in set(DPModel) - {DPModel.NONE}:
        with pytest.raises(UnsupportedQuery, match="none"):
            check_needs(method, TWO, dp_model, 1)
    check_needs(method, TWO, DPModel.NONE, 1)
    open_to_all = open_study(DPModel.NONE)
    binning = run(QuantileCuts(8, exact=True).place(setting, open_to_all), open_to_all)
    assert max(binning.n_bins[:2]) <= 9


def test_a_hessian_histogram_is_charged_at_a_sixteenth_of_a_leaf_query():
    """At equal noise: |h| <= 1/4 where |(g, c h)| <= 1; softmax has its own ratio."""
    trees, method = 100, HessianCuts(rounds=5)
    setting = SplitContext(FINE, LogLoss(), Additive((0.0,)), trees)
    assert method.fraction(setting) == Fraction(5 * 2, 16) / (trees + Fraction(5 * 2, 16))
    three = SplitContext(FINE, SoftmaxLoss(3), Additive((0.0,) * 3), trees)
    assert method.fraction(three) > method.fraction(setting)


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
        runs = refine_runs(SKEWED, runs, hessians(runs), 32)
        assert [a for a, _ in runs[1:]] == [b for _, b in runs[:-1]]
    assert len(runs) >= 32
    assert sum(edges[end] <= 1.1e3 for _, end in runs) >= 4
