"""Learned constants: settings change what they name, searches keep what is clear, pages judge."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from hedgerow.errors import ParameterError
from hedgerow.methods import boosting_classes, forest, tree
from hedgerow.methods.blocks import fallback
from hedgerow.methods.blocks.target import declared_target
from studies import learned
from studies.harness import Computation
from studies.learned import (
    Difference,
    Wanted,
    again_grid,
    judge_grid,
    learned_settings,
    paired,
    run,
    search_grid,
)
from studies.learned_fits import (
    AND,
    CLASSES,
    MOST_COLUMNS,
    MOST_TRAIN,
    NUMBERS,
    OF_METHODS,
    TEST_ROWS,
    fit_made,
    fit_real,
    fitted_with,
    made,
)

TREE = ("tree", CLASSES)
EVERY = {c.label: c for constants in OF_METHODS.values() for c in constants}


def in_force(constant):
    """What the modules have now: the constant, or what the function or class makes."""
    present = [getattr(m, constant.name) for m in (constant.module, *constant.also)]
    assert all(value is present[0] for value in present)
    return present[0]


@pytest.mark.parametrize("label", EVERY)
def test_a_setting_changes_its_constant_wherever_it_is_and_puts_it_back(label):
    constant = EVERY[label]
    before = in_force(constant)
    for setting in constant.settings():
        with fitted_with(setting):
            assert in_force(constant) != before
        assert in_force(constant) is before


def test_settings_multiply_numbers_tuples_and_fields():
    setting = AND.join(
        (
            "boost_classes.TREE_GATE x 2",
            "counting.COUNT_IS_SEEN x 0.5",
            "tree.tree_constants.leaf_fraction x 1.5",
            "tree.tree_constants.pieces.penalty x 2",
            "forest.forest_constants.sharpness x 0.6667",
        )
    )
    usual = tree.tree_constants(100.0, False)
    with fitted_with(setting):
        assert boosting_classes.TREE_GATE == (400.0, 1200.0)
        assert fallback.COUNT_IS_SEEN == 1.5
        changed = tree.tree_constants(100.0, False)
        assert changed.leaf_fraction == usual.leaf_fraction * 3 / 2
        assert changed.pieces.penalty == 2 * usual.pieces.penalty
        assert changed.pieces.keep == usual.pieces.keep
        assert forest.forest_constants(100.0, False).sharpness == pytest.approx(1.0)
    assert tree.tree_constants(100.0, False) == usual


def test_a_setting_that_names_no_constant_is_refused():
    with pytest.raises(KeyError), fitted_with("tree.NO_SUCH x 2"):
        pass


@pytest.mark.parametrize("goal", [CLASSES, NUMBERS])
def test_a_seed_makes_one_task_and_others_another(goal):
    one, same, other = made(3, goal), made(3, goal), made(5, goal)
    pd.testing.assert_frame_equal(one.task.X, same.task.X)
    assert (one.task.y == same.task.y).all()
    assert one.task.X.shape != other.task.X.shape


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("goal", [CLASSES, NUMBERS])
def test_made_tasks_fit_their_schemas(seed, goal):
    found = made(seed, goal)
    X, y, schema = found.task.X, found.task.y, found.task.schema
    assert [f.name for f in schema.features] == list(X.columns)
    assert len(X) == len(y) == found.n_train + TEST_ROWS <= MOST_TRAIN + TEST_ROWS
    assert X.shape[1] <= MOST_COLUMNS
    for feature in schema.features:
        column = X[feature.name]
        if column.dtype.kind == "f":
            assert feature.low <= column.min() <= column.max() <= feature.high
        else:
            assert set(column) <= set(feature.values)
    if goal == NUMBERS:
        assert schema.target.low <= y.min() <= y.max() <= schema.target.high
    else:
        assert set(y) <= set(schema.classes)
    assert declared_target(schema).channels >= 2


def test_two_fits_of_a_seed_have_the_same_noise():
    cell = {"seed": 2, "goal": CLASSES, "method": "tree", "epsilon": 1.0}
    plain_score = fit_made(**cell, setting="")
    assert fit_made(**cell, setting="") == plain_score
    assert fit_made(**cell, setting="tree.shrinkage_of.per_noise x 2") != plain_score


@pytest.mark.parametrize(("name", "least"), [("wine", -np.log(3.0) - 0.5), ("diabetes", -0.5)])
def test_real_data_that_need_no_file_are_fitted(name, least):
    """Not much worse than even shares, or than the mean."""
    cell = {"split": 120, "task_name": name, "method": "tree", "epsilon": 8.0}
    found = fit_real(**cell, setting="")
    assert found["score"] > least
    assert fit_real(**cell, setting="") == found


# ---------------------------------------------------------------------------------------- learning
def searched(gains_by_setting, n=10):
    """Rows of a search in which settings of one tree gain so much, with a scatter of .01."""
    scatter = np.random.default_rng(0).normal(0.0, 0.01, n)
    rows = [
        (seed, CLASSES, "tree", 1.0, setting, gain + (scatter[seed] if setting else 0.0))
        for setting, gain in {"": 0.0, **gains_by_setting}.items()
        for seed in range(n)
    ]
    return pd.DataFrame(rows, columns=["seed", "goal", "method", "epsilon", "setting", "score"])


def test_only_clear_gains_are_learned_and_the_better_factor_of_each():
    small, large = EVERY["tree.ROOT_FRACTION"].settings()
    unclear = EVERY["tree.LEAST_ROWS"].settings()[0]
    worse = EVERY["plain.FALLBACK_BELOW"].settings()[1]
    found = learned_settings(searched({small: 0.05, large: 0.1, unclear: 0.001, worse: -0.1}))
    assert found[TREE] == large
    assert not any(setting for learner, setting in found.items() if learner != TREE)


def test_what_moves_nothing_is_not_learned():
    same = searched({})
    same = pd.concat([same, same.assign(setting="tree.LEAST_ROWS x 2")])
    assert learned_settings(same)[TREE] == ""


def test_pairs_are_of_the_same_cell():
    rows = [(0, "", 1.0), (1, "", 5.0), (0, "a", 2.0), (1, "a", 5.5), (2, "a", 9.0)]
    found = paired(pd.DataFrame(rows, columns=["seed", "setting", "score"]).assign(code="c"))
    assert list(found["gain"]) == [1.0, 0.5]


def test_later_grids_use_other_tasks_and_only_what_was_learned():
    wanted = Wanted(4, 2, False)
    found = {learner: "" for learner in OF_METHODS} | {TREE: "tree.LEAST_ROWS x 2"}
    again, judge = again_grid(wanted, found), judge_grid(wanted, found)
    assert not {c["seed"] for c in again} & {c["seed"] for c in search_grid(wanted)}
    assert {c["method"] for c in again + judge} == {"tree"}
    assert {c["setting"] for c in judge} == {"", "tree.LEAST_ROWS x 2"}
    assert {c["split"] for c in judge} == {120, 121}


def test_one_table_alone_is_refused(tmp_path):
    with pytest.raises(ParameterError, match="--only"):
        run(Computation(tmp_path, only=("search",)), Wanted(1, 1, True))


# -------------------------------------------------------------------------------------------- page
def test_constants_are_kept_if_clearly_better_and_no_set_is_hurt():
    better = {f"set {k}": Difference(0.05 + 0.01 * k, 0.01, 10) for k in range(4)}
    assert learned.is_kept(better)
    assert not learned.is_kept(better | {"hurt": Difference(-0.01, 0.001, 10)})
    assert not learned.is_kept({"one": better["set 0"]})
    assert not learned.is_kept({})


def test_the_page_tells_what_was_learned_and_what_it_did(tmp_path):
    setting = EVERY["tree.ROOT_FRACTION"].settings()[1]
    search = searched({setting: 0.1})
    judge = pd.DataFrame(
        [
            (split, name, "tree", 1.0, s, gain * bool(s) + 0.001 * split * bool(s))
            for split in range(5)
            for name, gain in (("wine", -0.5), ("adult", 0.2))
            for s in ("", setting)
        ],
        columns=["split", "task_name", "method", "epsilon", "setting", "score"],
    )
    tables = {"search": search, "again": search, "judge": judge}
    learned.write(
        Computation(tmp_path / "learned"), tables, learned_settings(search), "the command"
    )
    said = (tmp_path / "learned" / "README.md").read_text()
    assert "something was learned, to be kept: none." in said
    assert "| adult | **+0.2020 (0.0007)** |" in said
    assert "| wine | **-0.4980 (0.0007)** |" in said
    assert f"| tree of classes | {setting} |" in said
    assert "Nothing was learned for numbers." in said
