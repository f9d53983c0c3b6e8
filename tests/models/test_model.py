"""A model is a value: what it works out for speed is kept once, and travels in no copy."""

from __future__ import annotations

import copy
import json
import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from hedgerow.methods.predicting import outputs
from hedgerow.models import model as models
from hedgerow.models.model import Additive, Curve, Model, Output
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
    for kept, given in zip((*again.trees, *again.curves), (*trees, *curves), strict=True):
        assert (given <= np.array(kept).T).all()
        assert (1.11 * given >= np.array(kept).T).all()
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
