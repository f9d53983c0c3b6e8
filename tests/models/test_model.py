"""A model is a value: what it works out for speed is kept once, and travels in no copy."""

from __future__ import annotations

import copy
import json
import pickle
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hedgerow.methods.predicting import outputs
from hedgerow.models import model as models
from hedgerow.models.losses import OddsLoss, sigmoid
from hedgerow.models.model import Additive, Curve, Model, Output
from hedgerow.models.surfaces import ALONE, Basis, basis_incompatibility
from hedgerow.models.survival import (
    RiskTable,
    SurvivalCurve,
    actuarial,
    at_risk,
    concordance,
)
from hedgerow.models.tree import Tree
from hedgerow.models.uncertainty import ScoreNoise, alike_runs, spread_over_cells
from hedgerow.schema.regions import Split, Step, cells
from hedgerow.schema.schema import Numeric, Schema

SCHEMA = Schema((Numeric("a", 0.0, 1.0, bins=8),), classes=("no", "yes"))
ROWS = np.linspace(0.0, 1.0, 20)[:, None]


def stump(value: float) -> Tree:
    split = Split("a", SCHEMA.grids[0].digest, cells(range(4)))
    return Tree.build(("a",), {(Step(split, 0),): (value,), (Step(split, 1),): (-value,)})


def some_model() -> Model:
    curve = Curve(0, tuple((0.1 * cell,) for cell in range(9)))
    trees = tuple(stump(float(k)) for k in range(50))
    return Model(Additive((0.25,), (curve,), trees), Output.SIGMOID)


def test_trees_are_laid_out_once_however_often_a_model_predicts(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    packings: list[int] = []
    pack = models.pack
    monkeypatch.setattr(models, "pack", lambda trees: packings.append(len(trees)) or pack(trees))
    model = some_model()
    answers = [outputs(model, ROWS, SCHEMA) for _ in range(3)]
    assert packings == [50]
    assert answers[0].tobytes() == answers[2].tobytes()


def test_a_model_with_more_trees_is_another_value_with_a_layout_of_its_own() -> None:
    score = some_model().score
    assert len(score.packed.depth) == 50
    assert len(score.plus(stump(3.0)).packed.depth) == 51


@pytest.mark.parametrize(
    "copied",
    [copy.copy, copy.deepcopy, lambda value: pickle.loads(pickle.dumps(value))],
    ids=["copy", "deepcopy", "pickle"],
)
def test_a_copy_is_equal_and_predicts_alike(copied: Callable[[Any], Any]) -> None:
    model = some_model()
    before = outputs(model, ROWS, SCHEMA)
    again = copied(model)
    assert again == model
    assert again.score.digest == model.score.digest
    assert outputs(again, ROWS, SCHEMA).tobytes() == before.tobytes()


def test_predicting_makes_no_pickle_longer() -> None:
    model = some_model()
    before = len(pickle.dumps(model))
    outputs(model, ROWS, SCHEMA)
    assert model.score.digest
    assert len(pickle.dumps(model)) == before


def test_a_pickled_tree_comes_back_closed_to_writing() -> None:
    tree = pickle.loads(pickle.dumps(stump(1.0)))
    with pytest.raises(ValueError, match="read-only"):
        tree.value[0] = 7.0


def test_deviations_come_back_and_are_never_rounded_down():
    rng = np.random.default_rng(0)
    trees = [rng.uniform(0.0, 2.0, (4, 3)), np.repeat(rng.uniform(0.0, 1e-5, (2, 1)), 3, axis=1)]
    curves = [np.repeat(rng.uniform(0.0, 9.0, (3, 2)), 5, axis=0)]
    noise = ScoreNoise.of(trees, curves, common=0.1234)
    again = ScoreNoise.from_dict(json.loads(json.dumps(noise.to_dict())))
    assert again == noise
    for kept, truth in zip((*again.trees, *again.curves), (*trees, *curves), strict=True):
        assert (truth <= np.array(kept).T).all()
        assert (1.11 * truth >= np.array(kept).T).all()
    assert ScoreNoise.of([np.zeros((2, 1))]) == ScoreNoise()


@pytest.mark.parametrize("bad", [[[-0.1]], [[0.1], [0.1, 0.2]], [[1.0, "nan"]], [[1e400]]])
def test_deviations_that_are_no_table_of_numbers_are_refused(bad):
    with pytest.raises(ValueError, match="deviations"):
        ScoreNoise.from_dict({"trees": [bad], "curves": [], "common": 0.0})


def test_cells_that_repeat_stand_once_and_come_back_to_the_last_bit():
    rows = ((0.0, 1.0), (-0.0, 1.0), (-0.0, 1.0), (0.1, -2.0))
    told = json.loads(json.dumps(alike_runs(rows)))
    assert told == {"cells": [1, 2, 1], "values": [[0.0, -0.0, 0.1], [1.0, 1.0, -2.0]]}
    again = [spread_over_cells(told["cells"], one) for one in told["values"]]
    assert repr(tuple(zip(*again, strict=True))) == repr(rows)


@pytest.mark.parametrize("cells_told", [[], [0], [1.0], [True], [257], [1, 1], ["1"]])
def test_runs_that_are_no_cells_are_refused(cells_told):
    with pytest.raises(ValueError, match="a column has"):
        spread_over_cells(cells_told, [0.5])


# --------------------------------------------------------------------------------------------------
# Chances over time from a score, and the loss of proportional odds.
LOSS = OddsLoss((1.0, 2.0, 4.0), (0.2, 0.7, 3.0))
EVERYONE = RiskTable((), (1.0, 2.0, 4.0), (5.0, 5.0, 5.0, 20.0, 10.0, 20.0, 30.0, 0.0), 2.0)
CURVE = SurvivalCurve(
    (1.0, 2.0, 4.0), (0.2, 0.7, 3.0), (0.8, 1.0, 1.2), 0.1, (0.1, 0.3, 0.6), EVERYONE
)


def negative_log_likelihood(loss: OddsLoss, f: float, y: float) -> float:
    edges, odds = np.array([0.0, *loss.edges]), np.array([0.0, *loss.odds])
    chance = odds * np.exp(f) / (1.0 + odds * np.exp(f))
    if y > 0.0 and y <= edges[-1]:
        k = int(np.searchsorted(edges, y, side="left"))
        return -float(np.log(chance[k] - chance[k - 1]))
    at = np.interp(min(abs(y), edges[-1]), edges, odds) * np.exp(f)
    return float(np.log(1.0 + at))


# ------------------------------------------------------------------------------------------- loss
@pytest.mark.property
@pytest.mark.parametrize("y", [0.5, 1.0, 1.5, 3.9, -0.5, -2.0, -9.0, 9.0])
@pytest.mark.parametrize("f", [-2.0, 0.3, 1.7])
def test_gradients_are_those_of_the_likelihood(y, f):
    step, minus = 1e-4, lambda f: negative_log_likelihood(LOSS, f, y)
    g = (minus(f + step) - minus(f - step)) / (2 * step)
    h = (minus(f + step) - 2 * minus(f) + minus(f - step)) / step**2
    found = LOSS.contributions(np.array([[f]]), np.array([y]))[0]
    assert found[0] == pytest.approx(g, abs=1e-5)
    assert found[1] / LOSS.hessian_scale == pytest.approx(h, abs=1e-4)
    assert LOSS.hessians(np.array([[f]]), np.array([y]))[0, 0] == pytest.approx(h, abs=1e-4)


def vectors(scale: float = 2.0) -> np.ndarray:
    """(g, scale h) of events and censored records over all a and b."""
    a, b = (one.ravel() for one in np.meshgrid(*[np.linspace(0.0, 1.0, 501)] * 2))
    event = np.stack([a + b - 1.0, scale * (a * (1.0 - a) + b * (1.0 - b))], axis=1)
    censored = np.stack([a, scale * a * (1.0 - a)], axis=1)
    return np.concatenate([event, censored])


def keeps(found: np.ndarray) -> bool:
    bound = OddsLoss.norms
    l1, l2, linf = np.abs(found).sum(axis=1), (found**2).sum(axis=1), np.abs(found).max(axis=1)
    return bool(
        l1.max() <= bound.l1 + 1e-12
        and l2.max() <= bound.l2_squared + 1e-12
        and linf.max() <= bound.linf + 1e-12
    )


@pytest.mark.property
def test_no_record_of_any_odds_is_longer_than_one():
    assert keeps(vectors())


@pytest.mark.property
def test_a_larger_factor_would_be_seen():
    """Twin."""
    assert not keeps(vectors(scale=2.001))


@pytest.mark.property
@given(
    raw=st.floats(-800, 800),
    y=st.floats(-10, 10),
    odds=st.lists(st.floats(0.0, 2.0**60), min_size=3, max_size=3),
)
def test_whatever_the_odds_the_loss_gives_such_vectors(raw, y, odds):
    loss = OddsLoss((1.0, 2.0, 4.0), tuple(sorted(odds)))
    assert keeps(loss.contributions(np.array([[raw]]), np.array([y])))


@pytest.mark.property
def test_beyond_the_last_edge_a_record_is_censored_there():
    raw = np.zeros((4, 1))
    found = LOSS.contributions(raw, np.array([5.0, -5.0, -4.0, 4.0]))
    np.testing.assert_array_equal(found[0], found[2])
    np.testing.assert_array_equal(found[1], found[2])
    assert not np.array_equal(found[3], found[2])


# ------------------------------------------------------------------------------------------ curve
@pytest.mark.property
def test_chances_are_logistic_at_the_edges_and_never_fall():
    score = np.linspace(-4, 4, 33)
    found = CURVE.chances(score)
    expected = sigmoid(np.log(0.2) + 0.1 + 0.8 * (score - 0.1))
    np.testing.assert_allclose(found[:, 0], expected)
    steep = replace(CURVE, slopes=(3.0, 1.0, -3.0)).chances(score)
    assert (np.diff(found, axis=1) >= 0).all()
    assert (np.diff(steep, axis=1) >= 0).all()


@pytest.mark.property
def test_survival_is_linear_between_edges_and_constant_beyond():
    score = np.array([-1.0, 2.0])
    at = CURVE.survival(score, np.array([0.0, 1.0, 1.5, 2.0, 4.0, 99.0]))
    np.testing.assert_allclose(at[:, 0], 1.0)
    np.testing.assert_allclose(at[:, 2], (at[:, 1] + at[:, 3]) / 2.0)
    np.testing.assert_allclose(at[:, 4], 1.0 - CURVE.chances(score)[:, -1])
    np.testing.assert_array_equal(at[:, 5], at[:, 4])


@pytest.mark.property
def test_a_curve_survives_its_file_and_a_broken_one_is_refused():
    groups = RiskTable((0.0,), (2.0,), tuple(map(float, range(8))), 1.0)
    whole = replace(CURVE, groups=groups, score_cuts=(-1.0, 1.0), score_parts=(0.2, 0.5, 0.3))
    text = json.loads(json.dumps(whole.to_dict()))
    assert SurvivalCurve.from_dict(text) == whole
    for broken in ({"odds": [1.0]}, {"slopes": [1.0, float("nan"), 1.0]}):
        with pytest.raises(ValueError):
            SurvivalCurve.from_dict(text | broken)
    with pytest.raises(ValueError):
        SurvivalCurve.from_dict(text | {"everyone": text["everyone"] | {"counts": [1.0]}})


@pytest.mark.property
def test_mean_scores_of_groups_follow_the_distribution():
    whole = replace(CURVE, score_cuts=(-1.0, 1.0), score_parts=(0.25, 0.5, 0.25))
    np.testing.assert_allclose(whole.group_scores(()), [0.0], atol=1e-9)
    low, high = whole.group_scores((0.5,))
    assert low == pytest.approx(-2.0 * 0.25 / 0.75, abs=1e-6)
    assert high == pytest.approx(2.0)


# ------------------------------------------------------------------------------- textbook numbers
@pytest.mark.property
def test_the_actuarial_estimate_is_that_of_the_textbook():
    table = EVERYONE.table[0]  # 5, 5, 5 censored, 10, 20, 30 events, 20 left
    risk = at_risk(table, 95.0)
    np.testing.assert_allclose(risk, [92.5, 77.5, 52.5])
    by_hand = 1.0 - np.cumprod(1.0 - np.array([10 / 92.5, 20 / 77.5, 30 / 52.5]))
    np.testing.assert_allclose(actuarial(table[1, :-1], risk), by_hand)


@pytest.mark.property
def test_without_noise_events_hardly_move_and_noise_draws_them_to_a_constant_hazard():
    table = EVERYONE.table[0] * 1000.0
    risk, edges = at_risk(table, 95_000.0), EVERYONE.edges

    def hazards(deviation: float) -> np.ndarray:
        counts = RiskTable((), edges, tuple(table.ravel().tolist()), deviation)
        left = np.array([1.0, *(1.0 - counts.smoothed_chances(95_000.0))])
        return 1.0 - left[1:] / left[:-1]

    np.testing.assert_allclose(hazards(0.0), table[1, :-1] / risk, rtol=2e-3)
    rates = hazards(1e6) * risk / ((risk - table[1, :-1] / 2.0) * np.diff([0.0, *edges]))
    np.testing.assert_allclose(rates, rates[0], rtol=1e-3)


def pairs(risk: np.ndarray, signed: np.ndarray) -> float:
    right = many = 0.0
    for a, y in zip(risk, signed, strict=True):
        for b, z in zip(risk, signed, strict=True):
            if y > 0 and (abs(z) > y or (abs(z) == y and z < 0)):
                many += 1
                right += float(a > b) + 0.5 * float(a == b)
    return right / many if many else 0.5


@pytest.mark.property
@given(seed=st.integers(0, 2**32 - 1), n=st.integers(0, 25))
def test_concordance_counts_pairs(seed, n):
    rng = np.random.default_rng(seed)
    signed = rng.choice([-1.0, 1.0], n) * rng.integers(1, 6, n)
    risk = rng.integers(0, 4, n).astype(float)
    assert concordance(risk, signed) == pytest.approx(pairs(risk, signed))


# ------------------------------------------------------------------------ functions of surfaces
FUNCTION = Curve(0, ((1.0, 2.0), (-1.0, 0.5), (1.0, 2.0)))
BASIS = Basis((FUNCTION, Curve(1, ((1.0,), (3.0,)))), ((0, ALONE), (0, 1)), (2.0, 10.0), 7)


def test_a_basis_is_the_rounded_products_of_its_functions():
    constant, alone, both = BASIS.tables
    assert constant.tolist() == [[7]]
    assert alone.tolist() == [[-2, 1], [2, 4]]  # cells of equal values are one group
    assert BASIS.groups[0, :3].tolist() == [1, 0, 1]
    assert both.tolist() == [[-10, 5], [-30, 15], [10, 20], [30, 60]]
    assert BASIS.widths == (1, 2, 2)
    assert BASIS.shared == (((0, 1), (0, 1, 2)),)  # one table of two columns serves all terms
    assert BASIS.squares.tolist() == [179, 1179, 569, 4569]
    assert BASIS.gather(np.array([1, 0, 2, 3])).tolist() == [42, 8, 21, 100, 225]
    assert basis_incompatibility(BASIS) is None


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"weights": (1.0,)}, "1 weights came for 2 terms"),
        ({"terms": ((0, ALONE), (0, 2))}, "did not come"),
        ({"terms": ((0, ALONE), (0, -2))}, "did not come"),
        ({"weights": (2.0, 1e300)}, "larger than"),
        ({"constant": 1 << 16}, "larger than"),
        ({"functions": (FUNCTION, Curve(1, ()))}, "no values"),
        ({"functions": (FUNCTION, Curve(1, ((1.0,), (1.0, 2.0))))}, "several lengths"),
        ({"terms": ((0, 1),) * 40_000, "weights": (1.0,) * 40_000}, "too many values"),
    ],
)
def test_a_basis_that_is_too_large_or_out_of_shape_is_refused(changed, words):
    assert words in str(basis_incompatibility(replace(BASIS, **changed)))
