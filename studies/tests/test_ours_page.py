"""The verdicts of the study of ours: paired by splits, clear only beyond their own error."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from studies.ours import verdicts
from studies.ours.run import full_grids, quick_grids
from studies.ours.tasks import CLASSES, FOR_CLASSES, ON_EVEN_GRIDS, WITH_PIECES


def rows(who, accuracy, epsilon=1.0, task="wine"):
    """One row a split."""
    return pd.DataFrame(
        {
            "who": who,
            "task_name": task,
            "epsilon": epsilon,
            "seed": range(len(accuracy)),
            "accuracy": accuracy,
        }
    )


def test_differences_are_taken_split_by_split():
    """Splits differ by far more than the methods do; their pairs do not."""
    table = pd.concat([rows("a", [0.5, 0.7, 0.9]), rows("b", [0.48, 0.68, 0.88])])
    found = verdicts.differences(table, "a", "b", "accuracy").loc[1.0]
    assert found["mean"] == pytest.approx(0.02)
    assert found["error"] == pytest.approx(0.0, abs=1e-9)
    assert verdicts.is_clear(found)


def test_a_split_with_too_few_tasks_is_left_out_of_the_differences():
    whole = pd.concat([rows(who, [0.5], task=task) for who in "ab" for task in ("wine", "skin")])
    part = pd.concat([rows("a", [0.9]), rows("b", [0.1])]).assign(seed=7)
    found = verdicts.differences(pd.concat([whole, part]), "a", "b", "accuracy", n_tasks=2)
    assert found.loc[1.0, "splits"] == 1
    assert found.loc[1.0, "mean"] == 0.0


@pytest.mark.parametrize(
    ("theirs", "clear"),
    [([0.6, 0.4, 0.5], False), ([0.4, 0.41, 0.4], True), ([0.4, 0.5, 0.4], False), ([0.4], False)],
)
def test_a_difference_is_clear_by_students_t_and_never_from_one_split(theirs, clear):
    table = pd.concat([rows("a", [0.5] * len(theirs)), rows("b", theirs)])
    found = verdicts.differences(table, "a", "b", "accuracy").loc[1.0]
    assert verdicts.is_clear(found) is clear


def test_a_split_without_all_tasks_does_not_count_for_a_target():
    whole = pd.concat([rows("tree", [0.9], 0.5, task) for task in CLASSES])
    part = rows("tree", [0.1], 0.5).assign(seed=7)
    table = pd.concat([whole, part]).rename(columns={"who": "method"}).assign(noise="gaussian")
    (line,) = verdicts.accuracy_targets(table).itertuples(index=False)
    assert line.splits == 1
    assert line.met == "yes"


def test_a_rival_that_is_clearly_above_is_named_with_its_lead():
    table = pd.concat(
        [rows("tree (pure)", [0.5, 0.5, 0.51]), rows("Algorithm 5 (pure)", [0.6, 0.61, 0.6])]
    )
    standing = verdicts.unseen_verdicts(table).set_index("ours").loc["tree (pure)"]
    assert standing["clearly below one at (by)"] == "1 (0.100)"
    assert standing["clearly above all at"] == "none"


def test_a_weaker_promise_is_no_rival_of_a_pure_method():
    table = pd.concat([rows("Algorithm 5 (gaussian)", [0.9]), rows("LocalRNM (pure)", [0.9])])
    assert verdicts._rivals(table, "pure") == ["LocalRNM (pure)"]
    assert len(verdicts._rivals(table, "gaussian")) == 2


def test_counts_of_the_verdicts():
    cells = pd.Series(["none", "0.1 (0.200)", "0.1, 0.5, 1"])
    assert verdicts.epsilons_named(cells).tolist() == [0, 1, 3]
    table = pd.DataFrame([["a", "+0.1 ± 0", "-0.1 ± 0", "+0 ± 1 ~", "+0.1, one split"]])
    assert verdicts.tally(table) == (1, 1, 3, 1)


@pytest.mark.parametrize("grids", [full_grids, quick_grids])
def test_every_method_of_the_grids_is_known(grids):
    known = {*FOR_CLASSES, *ON_EVEN_GRIDS, *WITH_PIECES, "boosted", "mean", "CART", "HistGB"}
    methods = {cell["method"] for cells in grids().values() for cell in cells}
    assert methods <= known | {"random forest"}
    assert not np.isnan(sum(cell["epsilon"] for cells in grids().values() for cell in cells))
