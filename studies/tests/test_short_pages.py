"""Pages about open ranges and plans say what their tables hold, and how much of them there is."""

from __future__ import annotations

import pandas as pd

from studies import open_ranges, planned


def test_open_ranges_are_compared_in_pairs_and_clear_losses_are_named():
    cells = open_ranges.cells(3, ("adult", "bank"))
    lost = {"true": 0.90, "wide": 0.90, "open": 0.90}
    rows = [
        {**cell, "auc": lost[cell["schema"]] + 0.001 * cell["split"] * (cell["schema"] == "wide")}
        for cell in cells
    ]
    for row in rows:
        row["auc"] -= 0.02 * (row["dataset"] == "bank" and row["schema"] == "open")
    head, table, words = open_ranges.page(pd.DataFrame(rows))
    assert "mean of 3 split(s)" in head
    assert "| adult | 1 | 0.5 | 0.900 | 0.901 | 0.900 | -0.0010 (0.0006) |" in table
    assert "bank, 1 site(s), epsilon 0.5; bank, 1 site(s), epsilon 1" in words
    assert "adult" not in words


def test_a_plan_is_near_where_its_estimator_is():
    sets = ("adult", "bank")
    auc = dict(zip(planned.ESTIMATORS, (0.9, 0.895, 0.8), strict=True))
    rows = [
        {**cell, "auc": auc[cell["estimator"]]}
        for cell in planned.cells(range(1), sets)
        if cell["epsilon"] == 1.0
    ]
    taken = {"adult": "BoostedTrees", "bank": "Tree"}
    head, words, table = planned.page(pd.DataFrame(rows), taken)
    assert "mean of 1 split(s)" in head
    assert "(goal 90%; 50% at 1)" in words
    assert "Of 2 cells the plan's estimator is within 0.01 of the best in 50%" in words
    assert "whatever the plan says, in 100%" in words
    assert "| bank | 1 | 0.900 | 0.895 | 0.800 | Tree | 0.100 | 0.000 |" in table
