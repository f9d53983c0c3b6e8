"""`python -m studies diprime` runs from files to page, on splits that decided nothing."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

from studies.__main__ import app
from studies.datasets import FOLDER_VARIABLE
from studies.diprime import data, run
from studies.diprime.methods import METHOD_EXAMPLES, NOT_PRIVATE
from studies.diprime.verdicts import RIVALS
from studies.harness import Computation

ROWS = 300


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Small files under the names of three sets."""
    rng = np.random.default_rng(0)
    for name in ("parkinsons", "banknote", "wall_robot"):
        X = pd.DataFrame(rng.uniform(0.0, 1.0, (ROWS, 4)), columns=["DFA", "b", "c", "d"])
        seen = X["DFA"] + 0.5 * X["b"] > 0.7
        target = {
            "parkinsons": 5.0 + 3.0 * X["DFA"],
            "banknote": np.where(seen, "1", "2"),
            "wall_robot": np.where(seen, "Move-Forward", "Sharp-Right-Turn"),
        }[name]
        subject = {"subject": 1} if name == "parkinsons" else {}
        X.assign(target=target, **subject).to_parquet(tmp_path / f"{name}.parquet")
    monkeypatch.setenv(FOLDER_VARIABLE, str(tmp_path))
    yield tmp_path
    data.halves.cache_clear()
    data.dataset.cache_clear()


def in_this_process(computation, grids):
    return {
        name: pd.DataFrame([{**cell, **work(**cell)} for cell in cells])
        for name, (work, cells) in grids.items()
    }


def test_the_quick_command_makes_its_page(folder, tmp_path, monkeypatch):
    monkeypatch.setattr(Computation, "tables", in_this_process)
    out = tmp_path / "out"
    command = ["diprime", "--quick", "--data", str(folder), "--out", str(out)]
    result = CliRunner().invoke(app, command)
    assert result.exit_code == 0, result.output
    text = (out / "README.md").read_text(encoding="utf-8")
    assert "python -m studies diprime --data DIR --quick" in text
    for method in ("DP-RF", "DP-ERT", "DiPriMe", "ours", "ours, 5 sites"):
        assert f"| {method} |" in text


@pytest.mark.parametrize("method", [*NOT_PRIVATE, *METHOD_EXAMPLES])
@pytest.mark.parametrize("data", ["parkinsons", "banknote"])
def test_every_method_of_the_tables_is_fitted_and_scored(folder, data, method):
    if (data, method) == ("parkinsons", "DP-DF"):
        pytest.skip("DP-DF is for classes")
    measured = run.fit(100, data, method, 20.0, 2, 2, 0.5, 2)
    assert 0.0 <= measured["score"] <= 1.0
    assert measured["seconds"] >= 0.0


def test_folds_and_all_rows_are_compared_under_both_noises(folder):
    for delta in run.DELTAS:
        assert 0.0 < run.fit_rows(100, "banknote", delta, 2, False)["score"] <= 1.0


def test_no_split_of_the_tables_was_used_to_choose_constants():
    grids = run.full_grids().items()
    cells = [cell for name, (_, grid) in grids if name != "balance" for cell in grid]
    assert min(cell["seed"] for cell in cells) >= 100


def test_ours_and_its_rivals_share_their_splits():
    """Without them no lead could be told split by split."""
    table = pd.DataFrame(run.full_grids()["table2"][1])
    compared = table[table.method.isin(["ours", *RIVALS])]
    for _, mine in compared.groupby("data"):
        assert mine.groupby("method").seed.agg(tuple).nunique() == 1
