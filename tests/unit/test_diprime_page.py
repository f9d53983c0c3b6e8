"""The page of the median forests: says what the numbers say, and no more."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from hedgerow.regions import EVERYONE, Step
from hedgerow.reproduce import diprime_page
from hedgerow.reproduce.diprime_methods import left_parts
from hedgerow.schema import Numeric, Schema
from hedgerow.trees import Tree

TABLE1 = pd.DataFrame(
    {"data": ["parkinsons"] * 2, "method": ["DP-ERT", "ours"], "score": [0.04, 0.024]}
)


def page(tmp_path, ours, rival):
    table2 = pd.DataFrame(
        {"data": ["banknote"] * 2, "method": ["DP-ERT", "ours"], "score": [rival, ours]}
    )
    diprime_page.write(tmp_path, {"table1": TABLE1, "table2": table2}, quick=True)
    return (tmp_path / "README.md").read_text(encoding="utf-8")


def test_the_page_says_better_where_ours_is_better(tmp_path):
    text = page(tmp_path, ours=0.95, rival=0.93)
    assert "banknote: ours is better than the paper's best" in text
    assert "higher mean than DP-ERT" in text


def test_the_page_says_worse_where_ours_is_worse(tmp_path):
    """Twin: the words follow the numbers."""
    text = page(tmp_path, ours=0.85, rival=0.93)
    assert "banknote: ours is **worse** than the paper's best" in text
    assert "**not** better than its rival here: banknote against DP-ERT" in text


def test_the_left_part_of_a_node_is_the_part_of_its_rows_that_goes_left():
    grid = Schema((Numeric("x", 0.0, 1.0, bins=4),), classes=("a", "b")).grids[0]
    first, second = grid.split_below(2), grid.split_below(1)
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
