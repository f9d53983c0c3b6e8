"""The page of the median forests: says what the numbers say, and no more."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from hedgerow.models.tree import Tree
from hedgerow.schema.regions import EVERYONE, Step
from hedgerow.schema.schema import Numeric, Schema
from studies.diprime import page
from studies.diprime.methods import left_parts
from studies.diprime.verdicts import lead
from studies.harness import Computation


def table(name, **scores):
    """One row for every method and split."""
    return pd.DataFrame(
        [
            {"data": name, "method": method.replace("_", "-"), "seed": 100 + k, "score": score}
            for method, by_split in scores.items()
            for k, score in enumerate(by_split)
        ]
    )


TABLE1 = table("parkinsons", DP_ERT=[0.04], ours=[0.024])


def written(tmp_path, ours, rival):
    table2 = table("banknote", DP_ERT=rival, ours=ours)
    page.write(Computation(tmp_path), {"table1": TABLE1, "table2": table2}, quick=True)
    return (tmp_path / "README.md").read_text(encoding="utf-8")


def test_the_page_says_better_where_ours_is_better(tmp_path):
    text = written(tmp_path, ours=[0.95, 0.96, 0.94], rival=[0.90, 0.91, 0.89])
    assert "banknote: ours is better than the paper's best" in text
    assert "Ours is ahead in 1 of 1 cells; and each lead is larger than its error" in text


def test_the_page_says_worse_where_ours_is_worse(tmp_path):
    """Twin: the words follow the numbers."""
    text = written(tmp_path, ours=[0.85, 0.85], rival=[0.93, 0.92])
    assert "banknote: ours is **worse** than the paper's best" in text
    assert "ahead in 0 of 1 cells; **not** in: banknote against DP-ERT" in text


def test_a_lead_smaller_than_its_error_is_not_established(tmp_path):
    text = written(tmp_path, ours=[0.95, 0.93, 0.96], rival=[0.94, 0.95, 0.90])
    assert "ahead but **not established** in: banknote against DP-ERT (nor by" in text


def test_the_page_says_where_only_the_plain_test_sees_a_lead(tmp_path):
    text = written(tmp_path, ours=[0.93, 0.96] * 4, rival=[0.93] * 8)
    assert "**not established** in: banknote against DP-ERT (though by the plain" in text


def test_one_split_establishes_nothing(tmp_path):
    assert "nothing is established" in written(tmp_path, ours=[0.99], rival=[0.5])


def test_leads_are_taken_on_the_splits_that_both_have():
    rival = table("banknote", DP_ERT=[0.5, 0.7])
    ours = table("banknote", ours=[0.6, 0.9, 0.1])
    found = lead(pd.concat([rival, ours]), "banknote", "DP-ERT")
    assert found.splits == 2
    assert found.mean == pytest.approx(0.15)


def test_splits_that_share_rows_count_for_less_than_samples():
    found = lead(table("banknote", DP_ERT=[0.5, 0.5], ours=[0.6, 0.8]), "banknote", "DP-ERT")
    student, variance = 12.706, 0.02
    assert found.plain == pytest.approx(student * np.sqrt(variance / 2), rel=1e-3)
    assert found.error == pytest.approx(student * np.sqrt(variance * (1 / 2 + 1 / 9)), rel=1e-3)


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


def test_a_smaller_error_is_a_lead():
    found = lead(
        table("parkinsons", DP_ERT=[0.04, 0.05], ours=[0.02, 0.02]), "parkinsons", "DP-ERT"
    )
    assert found.mean == pytest.approx(0.025)


def test_a_caption_tells_panels_apart_that_have_other_numbers_of_splits():
    one, two = pd.DataFrame({"seed": [100]}), pd.DataFrame({"seed": [100, 101]})
    assert page._told({"depth": two, "trees": two}) == "2 splits; bars: standard errors"
    assert page._told({"depth": two, "trees": one}) == (
        "by depth 2 splits; bars: standard errors; by trees one of the splits; no error bars"
    )
