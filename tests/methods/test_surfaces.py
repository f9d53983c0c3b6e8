"""Curves and surfaces by gradient descent: what is asked, and what becomes of the answers."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

import hedgerow as hr
from hedgerow.methods.blocks import surfaces
from hedgerow.methods.blocks.curves import FeatureEffects, even_stacking
from hedgerow.methods.blocks.flow import run
from hedgerow.methods.blocks.random_trees import DrawableFeature
from hedgerow.methods.boosting_classes import starting_score, with_surfaces
from hedgerow.models.losses import sigmoid
from hedgerow.models.model import Additive
from hedgerow.privacy.queries import Answer, Binning, SurfaceGradients
from hedgerow.privacy.queries.statistics import COARSER
from hedgerow.schema.candidates import Grids

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
        groups = [basis.groups[k][self.codes[c.feature]] for k, c in enumerate(basis.functions)]
        groups.append(np.zeros(len(self.y), np.uint8))
        rows = np.concatenate(
            [
                table[width * groups[a].astype(int) + groups[b]]
                for table, (a, b, _, width) in zip(basis.tables, basis.layout, strict=True)
            ],
            axis=1,
        )
        raw = statistic.at.raw(self.codes)[:, 0] + rows @ np.array(statistic.coefficients)
        norm = np.maximum(np.linalg.norm(rows, axis=1), statistic.radius)
        sums = ((sigmoid(raw) - self.y) * statistic.radius / norm) @ rows / COARSER
        noise = self.rng.normal(0.0, self.deviation, len(sums))
        return [Answer((sums + noise)[None, None], self.deviation**2)]


def learn(deviation: float) -> tuple[surfaces.Surfaces, Sites]:
    codes, y = product_rows()
    effects, sites = effects_of(codes, y), Sites(codes, y, deviation)
    stacking = even_stacking(effects)
    start = starting_score(effects, GRIDS, stacking)
    drawables = [
        DrawableFeature(j, m, 1.0) for j, m in zip(effects.features, effects.masses, strict=True)
    ]
    flow = surfaces.learn_surfaces(effects, stacking, GRIDS, drawables, start, Fraction(1, 2), 1)
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
    expected = np.diag(surfaces.DECAY ** (2.0 * np.arange(surfaces.FUNCTIONS)))
    assert np.abs(gram - expected).max() < 0.02  # bounded functions are a little less
    assert np.abs((mass / mass.sum()) @ found).max() < 0.02


def test_two_bins_have_one_function_and_a_constant_column_none_that_counts():
    assert surfaces.orthonormal_functions(np.array([0.0, 1.0]), np.ones(2), True).shape == (2, 1)
    assert not surfaces.orthonormal_functions(np.zeros(1), np.ones(1), True).any()


def test_a_product_of_two_columns_is_learned_where_curves_alone_cannot():
    learned, sites = learn(1e-3)
    codes, y = product_rows()
    effects = effects_of(codes, y)
    before = loss_of(starting_score(effects, GRIDS, even_stacking(effects)))
    assert loss_of(learned.score()) < before - 0.04
    surface = learned.trees()[0].tree
    assert len(sites.asked) == sum(surfaces.DESCENT_ROUNDS)
    assert {t.feature for t in surface.tests if t} == {"x0", "x1"}


def test_curves_and_trees_add_up_to_what_the_descent_learned():
    """The model of curves and trees is the score of the last coefficients, cell by cell."""
    learned, _ = learn(10.0)
    codes, _ = product_rows(500)
    groups = [
        learned.descent.basis.groups[k][codes[c.feature]]
        for k, c in enumerate(learned.descent.basis.functions)
    ]
    groups.append(np.zeros(500, np.uint8))
    raw = learned.start.raw(codes)[:, 0]
    basis = learned.descent.basis
    for values, (a, b, _, width) in zip(
        basis.values(learned.descent.coefficients), basis.layout, strict=True
    ):
        raw = raw + values[width * groups[a].astype(int) + groups[b]]
    assert np.allclose(learned.score().raw(codes)[:, 0], raw, atol=1e-5)


def test_under_noise_that_says_nothing_the_model_stays_near_its_start():
    learned, _ = learn(1e6)
    codes, _ = product_rows()
    moved = learned.score().raw(codes)[:, 0] - learned.start.raw(codes)[:, 0]
    assert moved.std() < 1.0
    assert all((tree.deviations > 0.0).all() for tree in learned.trees())


def test_a_descent_that_turns_back_on_itself_takes_shorter_steps(monkeypatch):
    """Of a loss that bends more than was expected; without the rule it would not come to rest."""
    monkeypatch.setattr(surfaces, "STEEPEST", surfaces.STEEPEST / 12.0)
    learned, _ = learn(1e-3)
    tamed = loss_of(learned.score())
    monkeypatch.setattr(surfaces, "TURNED", 1e9)
    wild, _ = learn(1e-3)
    assert tamed < 0.69 < loss_of(wild.score())


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
