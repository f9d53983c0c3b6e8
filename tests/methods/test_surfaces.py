"""Curves and surfaces by gradient descent: what is asked, and what becomes of the answers."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

import hedgerow as hr
from hedgerow.methods import boosting_numbers as numbers
from hedgerow.methods.blocks import surfaces
from hedgerow.methods.blocks.boosting import BatchPlan
from hedgerow.methods.blocks.curves import FeatureEffects, even_stacking
from hedgerow.methods.blocks.flow import run
from hedgerow.methods.blocks.target import evenly_spread
from hedgerow.methods.boosting_classes import with_surfaces
from hedgerow.models.losses import SquaredLoss, sigmoid
from hedgerow.models.model import Additive
from hedgerow.models.surfaces import ALONE
from hedgerow.privacy.queries import Answer, Binning, SurfaceGradients
from hedgerow.privacy.queries.statistics import COARSER
from hedgerow.schema.candidates import Grids
from hedgerow.schema.schema import Target
from support.worlds import VALUE, federation, sample, site_rows, study

SCHEMA = hr.Schema(
    tuple(hr.Numeric(f"x{j}", 0.0, 1.0, bins=9) for j in range(3)), classes=("no", "yes")
)
GRIDS = Grids(SCHEMA, Binning.of_cells(SCHEMA))
N_BINS = GRIDS.binning.n_bins[0]


def product_rows(n: int = 8000) -> tuple[np.ndarray, np.ndarray]:
    """Codes and labels of a product of two columns, with a weak curve of the first."""
    rng = np.random.default_rng(0)
    codes = rng.integers(0, 9, (3, n)).astype(np.uint8)
    x = (codes / 4.0) - 1.0
    return codes, (rng.random(n) < sigmoid(0.4 * x[0] + 1.5 * x[0] * x[1])).astype(np.float64)


def effects_of(codes: np.ndarray, y: np.ndarray) -> FeatureEffects:
    values, masses = [], []
    for cells in codes:
        mass = np.bincount(cells, minlength=N_BINS).astype(np.float64)
        hits = np.bincount(cells, y, N_BINS)
        odds = np.log((hits + 5.0) / (mass - hits + 5.0))
        values.append((odds - odds @ mass / mass.sum())[:, None])
        masses.append(mass)
    zeros = tuple(np.zeros((N_BINS, 1)) for _ in codes)
    base = np.log([y.mean() / (1.0 - y.mean())])
    return FeatureEffects(base, (0, 1, 2), tuple(values), tuple(masses), zeros)


def by_term(basis, tables, codes):
    """(n, d) the rows of each term's table in the records' cells, side by side."""
    groups = [basis.groups[k][codes[c.feature]].astype(int) for k, c in enumerate(basis.functions)]
    cells = [np.zeros(codes.shape[1], int)]
    for a, b in basis.terms:
        width = 1 if b == ALONE else int(basis.groups[b].max()) + 1
        cells.append(width * groups[a] + (0 if b == ALONE else groups[b]))
    return np.concatenate([t[own] for t, own in zip(tables, cells, strict=True)], axis=1)


class Sites:
    """Answers steps from rows in plain NumPy, with noise of a chosen size."""

    def __init__(self, codes: np.ndarray, y: np.ndarray, deviation: float) -> None:
        self.codes, self.y, self.deviation = codes, y, deviation
        self.asked, self.rng = list[SurfaceGradients](), np.random.default_rng(1)

    def ask(self, queries):
        (query,) = queries
        statistic = query.statistic
        self.asked.append(statistic)
        basis = statistic.basis
        rows = by_term(basis, basis.tables, self.codes)
        raw = statistic.at.raw(self.codes)[:, 0] + rows @ np.array(statistic.coefficients)
        norm = np.maximum(np.linalg.norm(rows, axis=1), statistic.radius)
        sums = ((sigmoid(raw) - self.y) * statistic.radius / norm) @ rows / COARSER
        noise = self.rng.normal(0.0, self.deviation, len(sums))
        return [Answer((sums + noise)[None, None], self.deviation**2)]


def learn(deviation: float) -> tuple[surfaces.Surfaces, Sites]:
    codes, y = product_rows()
    effects, sites = effects_of(codes, y), Sites(codes, y, deviation)
    stacking = even_stacking(effects)
    slope = surfaces.Slope.of_classes(effects, 1e3)
    flow = surfaces.learn_surfaces(effects, stacking, GRIDS, Fraction(1, 2), False, slope)
    return run(flow, sites), sites


def loss_of(score: Additive) -> float:
    codes, y = product_rows()
    p = np.clip(sigmoid(score.raw(codes)[:, 0]), 1e-9, 1.0 - 1e-9)
    return float(-np.where(y == 1.0, np.log(p), np.log(1.0 - p)).mean())


def test_functions_are_orthonormal_under_the_masses_and_shrink_in_turn():
    rng = np.random.default_rng(3)
    mass, values = rng.uniform(50.0, 150.0, 30), np.sin(np.linspace(0.0, 2.0, 30))
    found = surfaces.orthonormal_functions(values, mass, is_ordered=True)
    gram = (found * (mass / mass.sum())[:, None]).T @ found
    expected = np.diag(surfaces.DECAY ** (2.0 * np.arange(surfaces.FUNCTIONS[0])))
    assert np.abs(gram - expected).max() < 0.02  # bounded functions are a little less
    assert np.abs((mass / mass.sum()) @ found).max() < 0.02


def test_two_bins_have_one_function_and_a_constant_column_none_that_counts():
    assert surfaces.orthonormal_functions(np.array([0.0, 1.0]), np.ones(2), True).shape == (2, 1)
    assert not surfaces.orthonormal_functions(np.zeros(1), np.ones(1), True).any()


def test_a_product_of_two_columns_is_learned_where_curves_alone_cannot():
    learned, sites = learn(1e-3)
    codes, y = product_rows()
    effects = effects_of(codes, y)
    before = loss_of(effects.start(GRIDS, even_stacking(effects)))
    assert loss_of(learned.score()) < before - 0.04
    surface = learned.trees[0].tree
    assert len(sites.asked) == sum(surfaces.DESCENT_ROUNDS)
    assert {t.feature for t in surface.tests if t} == {"x0", "x1"}


def test_curves_and_trees_add_up_to_what_the_descent_learned():
    """The model of curves and trees is the score of the last coefficients, cell by cell."""
    learned, _ = learn(10.0)
    codes, _ = product_rows(500)
    basis = learned.descent.basis
    values = [own[:, None] for own in basis.values(learned.descent.coefficients[0])]
    raw = learned.start.raw(codes)[:, 0] + by_term(basis, values, codes).sum(axis=1)
    assert np.allclose(learned.score().raw(codes)[:, 0], raw, atol=1e-5)


def test_under_noise_that_says_nothing_the_model_stays_near_its_start():
    learned, _ = learn(1e6)
    codes, _ = product_rows()
    moved = learned.score().raw(codes)[:, 0] - learned.start.raw(codes)[:, 0]
    assert moved.std() < 1.0
    assert all((tree.deviations > 0.0).all() for tree in learned.trees)


def test_a_descent_that_turns_back_on_itself_takes_shorter_steps(monkeypatch):
    """Of a loss that bends more than was expected; without the rule it would not come to rest."""
    monkeypatch.setattr(surfaces, "STEEPEST", surfaces.STEEPEST / 12.0)
    learned, _ = learn(1e-3)
    tamed = loss_of(learned.score())
    monkeypatch.setattr(surfaces, "TURNED", 1e9)
    wild, _ = learn(1e-3)
    assert tamed < 0.69 < loss_of(wild.score())


def test_three_classes_share_functions_and_have_coefficients_of_their_own():
    """The class is a product of two columns: curves alone cannot tell it, surfaces can."""
    rng = np.random.default_rng(0)
    X = rng.random((6000, 3))
    sign = (X[:, 0] > 0.5) == (X[:, 1] > 0.5)
    y = np.where(X[:, 2] > 0.7, "c", np.where(sign, "a", "b"))
    schema = hr.Schema(SCHEMA.features, classes=("a", "b", "c"))
    model = hr.BoostedTreesClassifier(schema, 8.0, random_state=0)
    model.fit(X[:4000], y[:4000])
    assert (model.predict(X[4000:]) == y[4000:]).mean() > 0.8
    assert len(model.model_.score.trees) >= 3
    assert len(model.run_.rounds) == 3 + sum(surfaces.DESCENT_ROUNDS) + 100


def test_weak_signals_of_many_classes_have_no_pairs_and_short_gradients():
    effects = effects_of(*product_rows(500))
    many = replace(effects, base=np.zeros(5))
    weak, strong = (surfaces.Slope.of_classes(many, s) for s in (199.0, 2000.0))
    assert (weak.paired, strong.paired) == (0, surfaces.PAIRED)
    assert (weak.clip, strong.clip) == surfaces.CLIPS
    assert surfaces.Slope.of_classes(effects, 1.0).clip == 1.0


@pytest.mark.parametrize(("strength", "part"), [(1.0, 0), (1100.0, 0), (1130.0, 1), (1e6, 1)])
def test_weak_signals_keep_to_curves(strength, part):
    both, of_surfaces = with_surfaces(Fraction(1, 3), strength, columns=4)
    assert bool(of_surfaces) == bool(part)
    assert both == (Fraction(1, 2) if part else Fraction(1, 3))
    assert not with_surfaces(Fraction(1, 3), 79.0, columns=10_000)[1]


@pytest.mark.parametrize(
    ("strength", "columns", "has_trees"),
    [(2900.0, 1000, False), (7200.0, 10, False), (6000.0, 16, True), (19_000.0, 10, True)],
)
def test_trees_follow_surfaces_where_the_signal_and_the_columns_pay(strength, columns, has_trees):
    assert with_surfaces(Fraction(1, 3), strength, columns)[1] == (1 - Fraction(has_trees, 2))


# ---------------------------------------------------------------------------------------- numbers
STEP = numbers.MeanResiduals(numbers.IN_CLIPS, residuals=numbers.Residuals(1.0, 0.25))


def pair_sums(deviation: float) -> tuple[numbers.SmoothTable, np.ndarray, np.ndarray]:
    """The table of a product of two columns: its noisy sums, and the true means of its cells."""
    groups = np.arange(10) % 9
    columns = [surfaces.FeatureGroups(j, np.full(10, 800.0), groups) for j in range(2)]
    table = numbers.of_pair(GRIDS, *columns)
    x = np.linspace(-1.0, 1.0, 9)
    means, rows = 0.5 * np.outer(x, x).ravel(), np.full(81, 8000 / 81)
    noise = np.random.default_rng(2).normal(0.0, deviation, (81, 2))
    return table, np.stack([-rows * means, numbers.ROW_WEIGHT * rows], axis=1) + noise, means


def test_a_smooth_table_learns_its_cells_and_shrinks_what_noise_says():
    table, sums, means = pair_sums(0.1)
    learned = table.learn(sums, 0.1**2, STEP)
    assert np.abs(learned.tree.values[:, 0] - means).max() < 0.15
    assert learned.deviations.max() < 0.05
    table, sums, _ = pair_sums(2000.0)
    assert np.abs(table.learn(sums, 2000.0**2, STEP).tree.values).max() < 0.2


def test_rows_of_a_cell_follow_the_answer_unless_noise_hides_them():
    clear, sums, _ = pair_sums(5.0)
    hidden, noisy_sums, _ = pair_sums(5000.0)
    before = 3.0 * clear.rows
    clear.rows, hidden.rows = before, before
    clear.learn(sums, 25.0, STEP)
    hidden.learn(noisy_sums, 5000.0**2, STEP)
    assert np.abs(clear.rows.mean() - 8000 / 81) < 25.0
    assert np.abs(hidden.rows / before - 1.0).max() < 0.2


def test_curves_of_tables_have_no_mean_and_keep_their_form():
    """All columns are asked at once, around the mean of the target, in units of its clip."""
    stage = numbers.Stage(
        evenly_spread(Target(0.0, 10.0)), False, 1.0, numbers.Residuals(10.0, 1.0)
    )
    records = numbers.private_bins.RecordCount(1e6, 1.0, Fraction(0))
    count, rng = numbers.private_bins.NoisyCount(records, 0.01), np.random.default_rng(0)
    flow = numbers._curves(count, stage, GRIDS, rng)
    (query,) = next(flow)
    sums = np.zeros((len(query.by.trees), max(tree.n_leaves for tree in query.by.trees), 2))
    for own, tree in zip(sums, query.by.trees, strict=True):
        rows, means = 1e6 / tree.n_leaves, np.linspace(0.1, 0.4, tree.n_leaves)
        own[: tree.n_leaves] = np.stack([-rows * means, np.full_like(means, rows / 4.0)], axis=1)
    with pytest.raises(StopIteration) as done:
        flow.send([Answer(sums, 1e-6)])
    found = done.value.value
    steps = stage.residuals.clip * 0.3 / (len(found.values[0]) - 1)
    assert np.allclose(np.diff(found.values[0], axis=0), steps, rtol=0.02)
    assert abs(np.average(found.values[0][:, 0], weights=found.masses[0])) < 1e-7
    assert found.base == pytest.approx(5.0, abs=0.01)


def test_a_number_is_learned_in_units_of_its_clip():
    """Steps of a residual ten times as wide are ten times as long."""
    narrow, wide = (surfaces.Slope.of_number(SquaredLoss(-c, c, c), 100.0) for c in (1.0, 10.0))
    assert (wide.unit, wide.curvature) == (10.0 * narrow.unit, narrow.curvature)
    assert narrow.is_number
    assert narrow.momentum == surfaces.MOMENTUM


def test_deeper_trees_need_less_noise():
    counts = [
        numbers.private_bins.NoisyCount(numbers.private_bins.RecordCount(20_000.0, 1.0, 0), d)
        for d in (0.01, 1.0, 3.0, 100.0)
    ]
    depths = [numbers.depth_by_noise(count, Fraction(1, 200)) for count in counts]
    assert depths == sorted(depths, reverse=True)
    assert (depths[0], depths[-1]) == (numbers.MOST_BOOSTED_DEPTH, numbers.LEAST_BOOSTED_DEPTH)


NUMBER = hr.Schema(tuple(hr.Numeric(f"x{j}", 0.0, 1.0) for j in range(3)), target=hr.Target(-2, 2))


def product_of_columns(seed: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    X = rng.random((4000, 3))
    wave = np.sin(9.0 * X[:, 0]) * np.sin(9.0 * X[:, 1])
    return X, 0.5 * X[:, 2] + wave + 0.1 * rng.normal(size=4000)


def test_waves_of_two_columns_are_learned_and_few_rounds_leave_trees_alone(monkeypatch):
    X, y = product_of_columns(0)
    model = hr.BoostedTreesRegressor(NUMBER, 20.0, 1e-6, random_state=0).fit(X, y)
    unseen, truth = product_of_columns(1)
    assert model.score(unseen, truth) > 0.8
    assert len(model.model_.score.curves) == 3
    monkeypatch.setattr(BatchPlan, "fits", lambda *_: False)
    alone = hr.BoostedTreesRegressor(NUMBER, 20.0, 1e-6, random_state=0).fit(X, y)
    assert not alone.model_.score.curves


def test_curves_surfaces_and_trees_spend_the_whole_budget_and_no_more():
    method = numbers.RegressionBoost(n_estimators=4)
    grid, (X, y) = method.grid(VALUE), sample(600, VALUE)
    rows = site_rows(X, y, np.zeros(600, int), 1, grid)
    fed = federation(study(grid, 1, epsilon="50", delta="1e-6"), rows)
    found = run(method.flow(grid, fed, np.random.default_rng(0)), fed)
    assert found.model.score.curves
    assert len(found.model.score.trees) > 4  # surfaces too
    assert fed.ledger.spent(fed.study.account) == fed.study.total
