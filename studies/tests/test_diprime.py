"""`python -m studies diprime` runs from files to page, on splits that decided nothing."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

from hedgerow.federation import server
from hedgerow.models.tree import Tree
from hedgerow.schema.regions import EVERYONE, Step
from hedgerow.schema.schema import Numeric, Schema
from studies import diprime, diprime_fits
from studies.__main__ import app
from studies.datasets import FOLDER_VARIABLE
from studies.diprime_fits import METHOD_EXAMPLES, NOT_PRIVATE, left_parts
from studies.harness import Computation
from studies.kept import archived
from studies.ours_fits import task

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
    diprime_fits.halves.cache_clear()
    diprime_fits.dataset.cache_clear()
    diprime_fits.some_rows.cache_clear()
    task.cache_clear()


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
    measured = diprime.fit(100, data, method, 20.0, 2, 2, 0.5, 2)
    assert 0.0 <= measured["score"] <= 1.0


def test_no_split_of_the_tables_was_used_to_choose_constants():
    grids = diprime.full_grids().items()
    cells = [cell for name, (_, grid) in grids if name != "balance" for cell in grid]
    assert min(cell["seed"] for cell in cells) >= 100


def test_ours_and_its_rivals_share_their_splits():
    """Without them no lead could be told split by split."""
    table = pd.DataFrame(diprime.full_grids()["table2"][1])
    compared = table[table.method.isin(["ours", "DP-RF", "DP-DF", "DP-ERT"])]
    for _, mine in compared.groupby("data"):
        assert mine.groupby("method").seed.agg(tuple).nunique() == 1


def test_the_left_part_of_a_node_is_the_part_of_its_rows_that_goes_left():
    grid = Schema((Numeric("x", 0.0, 1.0, bins=4),), classes=("a", "b")).grids[0]
    first, second = grid.split_values(range(2)), grid.split_values(range(1))
    tree = Tree.build(
        ("x",),
        {
            (*EVERYONE, Step(first, 0), Step(second, 0)): (0.0,),
            (*EVERYONE, Step(first, 0), Step(second, 1)): (0.0,),
            (*EVERYONE, Step(first, 1)): (0.0,),
        },
    )
    codes = np.array([[0, 0, 0, 1, 3]], np.uint8)
    assert sorted(left_parts(tree, codes)) == pytest.approx([0.75, 0.8])


def test_a_caption_tells_panels_apart_that_have_other_numbers_of_splits():
    one, two = pd.DataFrame({"seed": [100]}), pd.DataFrame({"seed": [100, 101]})
    assert diprime._told({"depth": two, "trees": two}) == "2 splits; bars: standard errors"
    assert diprime._told({"depth": two, "trees": one}) == (
        "by depth 2 splits; bars: standard errors; by trees one of the splits; no error bars"
    )


def test_prices_of_selections_are_compared_on_the_same_rows_and_at_the_same_epsilon():
    table = archived("diprime").frame("selections")
    assert set(table.groupby(["seed", "data", "method", "epsilon"])["price"].nunique()) == {2}
    assert table["seed"].min() >= diprime.FIRST_SPLIT
    assert set(table["method"]) == set(diprime_fits.SELECTING)


def test_a_selection_priced_alone_leaves_nothing_to_later_sums(folder, monkeypatch):
    asked, plain = [], server.priced
    monkeypatch.setattr(
        server, "priced", lambda study, query: asked.append(query) or plain(study, query)
    )
    for price in (diprime_fits.ALONE, diprime_fits.AMONG_SUMS):
        diprime_fits.fit_selecting(0, "wall_robot", "TopDown by choice", 2.0, price)
    left = [query.remainder for query in asked if hasattr(query, "remainder")]
    assert left[0] == 0 < left[-1]
