"""The page of hurt records: what is worse than before or than no model is named."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from hedgerow.schema.schema import Hashed, Numeric, Schema, Target
from studies.harness import Computation
from studies.ours.tasks import Task
from studies.robust import page
from studies.robust.harms import HARMS
from studies.robust.run import FIRST, LAST, grid


def written(tmp_path, rows, before=()):
    out = tmp_path / "robust"
    out.mkdir()
    columns = ["task_name", "harm", "method", "score"]
    pd.DataFrame(before, columns=columns).to_csv(out / "before.csv", index=False)
    page.write(Computation(out), pd.DataFrame(rows, columns=columns).assign(seed=50), "command")
    return (out / "README.md").read_text()


def test_what_became_worse_and_what_is_worse_than_no_model_is_named(tmp_path):
    rows = [("adult", "clean", "forest", 0.9), ("gas_turbine", "target x 100", "tree", -0.5)]
    before = [("adult", "clean", "forest", 0.95), ("gas_turbine", "target x 100", "tree", -0.9)]
    said = written(tmp_path, rows, before)
    assert "1 are better by more than 0.02, 1 are worse: forest on adult, clean." in said
    assert "Worse than no model: tree on gas_turbine, target x 100." in said
    assert "| gas_turbine | - | - | - | - | -0.900 | -0.500 |" in said


def test_a_run_without_rows_has_a_page(tmp_path):
    assert "Worse than no model: none." in written(tmp_path, [])


def test_the_grid_begins_with_what_matters_most():
    harms = list(dict.fromkeys(cell["harm"] for cell in grid(1, quick=False)))
    assert tuple(harms[: len(FIRST)]) == FIRST
    assert harms[-1] == LAST
    assert set(harms) == set(HARMS)


def toy(is_number):
    rng = np.random.default_rng(0)
    X = pd.DataFrame({"a": rng.random(400), "b": rng.random(400)})
    columns = (Numeric("a", 0.0, 1.0), Numeric("b", 0.0, 1.0))
    if is_number:
        return Task(X, rng.random(400), Schema(columns, target=Target(0.0, 1.0)))
    y = np.where(rng.random(400) < 0.5, "no", "yes").astype(object)
    return Task(X, y, Schema(columns, classes=("no", "yes")))


@pytest.mark.parametrize("harm", HARMS)
def test_every_harm_leaves_a_task_that_fits_its_schema(harm):
    given, train = toy("target" in harm or "both" in harm), np.arange(300)
    hurt = HARMS[harm](given, train, np.random.default_rng(1))
    assert [f.name for f in hurt.task.schema.features] == list(hurt.task.X.columns)
    assert set(hurt.train) <= set(train)
    assert hurt.site is None or len(hurt.site) == len(hurt.train)
    assert len(hurt.task.X) == len(hurt.task.y) == 400


def test_harms_hurt_as_they_say():
    rng = np.random.default_rng(1)
    train = np.arange(300)
    rare = HARMS["1 : 99"](toy(False), train, rng)
    assert (rare.task.y[rare.train] == "yes").sum() == 1
    wide = HARMS["target x 100"](toy(True), train, rng).task.schema.target
    assert (wide.low, wide.high) == (-49.5, 50.5)
    site = HARMS["two rows, one class"](toy(False), train, rng).site
    assert np.bincount(site)[4] == 2
    hashed = HARMS["2,000 codes, hashed 4 times"](toy(False), train, rng).task.schema
    assert sum(isinstance(f, Hashed) for f in hashed.features) == 4
