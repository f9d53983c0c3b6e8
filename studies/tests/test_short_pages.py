"""Pages about open ranges and plans say what their tables hold, and how much of them there is."""

from __future__ import annotations

import csv
import math
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from studies import open_ranges, planned
from studies.boosted import default, fits, learners, page, run
from studies.boosted.accountant import ORDERS, at_the_papers_noise, renyi_epsilon
from studies.boosted.cells import Cells
from studies.boosted.paper import TRAINING_ROWS, weight_updates
from studies.harness import Computation
from studies.ours import verdicts
from studies.ours.run import full_grids, quick_grids
from studies.ours.tasks import CLASSES, FOR_CLASSES, ON_EVEN_GRIDS, WITH_PIECES


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


# --------------------------------------------------------------------------------------------------
# The results page tells what was run, what holds, and what does not.
MEASURES = ("auc", "log_loss", "accuracy", "calibration_error", "seconds", "rounds", "bytes")


def table(*cells):
    return pd.DataFrame(
        [
            {
                **run._cell(dataset, learner, epsilon, 0),
                **dict.fromkeys(MEASURES, 0.5),
                "auc": auc,
            }
            for dataset, learner, epsilon, auc in cells
        ]
    )


def written(tmp_path, rows):
    tables = {"cells": rows, "published": pd.DataFrame()}
    page.write(Computation(tmp_path), tables, "python -m studies boosted")
    return (tmp_path / "README.md").read_text()


def test_a_target_that_is_missed_is_called_missed_and_one_that_is_met_held(tmp_path):
    text = written(
        tmp_path,
        table(("adult", learners.DEFAULT, 1.0, 0.91), ("bank", learners.DEFAULT, 1.0, 0.90)),
    )
    assert ".9060 held" in text
    assert ".9120 MISSED" in text


def test_a_cell_below_the_papers_deviation_is_listed_and_one_not_run_is_a_dash(tmp_path):
    mean, deviation = weight_updates(0.5)["totally_random", "newton", "adult"]
    learner = learners.components("totally_random", "newton")
    text = written(tmp_path, table(("adult", learner, 0.5, mean - 2 * deviation)))
    assert "These fall short" in text
    assert "- / .8486" in text  # Bank, not run
    good = written(tmp_path, table(("adult", learner, 0.5, mean)))
    assert "None falls short" in good


@pytest.mark.parametrize(
    ("gaps", "said"),
    [
        ((0.004, -0.002, 0.001), "yes"),
        ((0.030, 0.031, 0.029), "off"),
        ((0.090, -0.060, 0.030), "no, within scatter"),
    ],
)
def test_a_printed_cell_is_near_off_or_within_scatter(tmp_path, gaps, said):
    mean, _ = weight_updates(0.5)["totally_random", "newton", "bank"]
    learner = learners.components("totally_random", "newton")
    rows = table(*(("bank", learner, 0.5, mean + gap) for gap in gaps))
    rows["split"] = range(len(gaps))
    text = written(tmp_path, rows)
    assert f"| {said} |" in text


def test_the_papers_noise_is_that_of_its_accountant():
    """Google's Renyi accountant agrees, and the exact account charges less for the same noise."""
    from dp_accounting import GaussianDpEvent, rdp

    accountant = rdp.RdpAccountant(list(ORDERS)).compose(GaussianDpEvent(1 / 0.14))
    assert renyi_epsilon(0.14, 1e-5) == pytest.approx(accountant.get_epsilon(1e-5), rel=1e-9)
    for epsilon in (0.1, 0.5):
        assert 0.8 * epsilon < at_the_papers_noise(epsilon, 20_000) < epsilon


def test_training_rows_are_those_of_the_files():
    with Path("studies/data/files.csv").open(newline="", encoding="utf-8") as lines:
        rows = {row["name"]: int(row["rows"]) for row in csv.DictReader(lines)}
    for name, n in TRAINING_ROWS.items():
        assert n == rows[name] - math.ceil(fits.TEST_PART * rows[name])


def test_every_recipe_of_the_grid_is_one_the_estimator_knows():
    from hedgerow.schema.schema import Numeric, Schema

    schema = Schema((Numeric("x", 0.0, 1.0),), classes=("no", "yes"))
    for learner in {cell["learner"] for cell in run.cells(1)}:
        fits.estimator(schema, learner)._method(schema)


@pytest.mark.parametrize(("given", "error"), [([0.5, 0.5], 0.0), ([0.95, 0.05], 0.05)])
def test_calibration_error_is_the_gap_between_promise_and_outcome(given, error):
    import numpy as np

    hit = np.array([1.0, 0.0])
    assert fits.calibration_error(hit, np.array(given)) == pytest.approx(error)


def test_the_default_is_called_behind_where_its_paired_lead_is_negative_beyond_the_scatter(
    tmp_path,
):
    rivals = {"DP-RF": (-0.02, -0.021), "DP-TR Newton": (0.03, 0.031), "DP-GBM": (-0.01, 0.02)}
    rows = []
    for split in (0, 1):
        rows.append((split, learners.DEFAULT, 0.8))
        rows += [(split, learners.named(n, 100), 0.8 - lead[split]) for n, lead in rivals.items()]
    cells = page.Cells(
        pd.DataFrame(
            [
                {**run._cell("adult", learner, 1.0, split), "auc": auc}
                for split, learner, auc in rows
            ]
        )
    )
    text = default.Rivals(cells, {}).section()
    assert "-0.0205 ± 0.0005 BEHIND" in text
    assert "+0.0305 ± 0.0005 |" in text
    assert "+0.0050 ± 0.0150 =" in text
    assert "Of 3 comparisons the default is clearly ahead in 1, within the scatter in 1" in text


def test_five_sites_together_add_the_noise_of_every_record():
    from fractions import Fraction

    from hedgerow.privacy.accounting import gaussian

    delta = Fraction(1, 1000)
    record = gaussian.mu_squared_within(Fraction(1), delta)
    local = fits.guarantee(1.0, learners.EVERY_RECORD, 1000)
    site = gaussian.mu_squared_within(Fraction(local["epsilon"]), delta)
    assert local["dp_model"] == "per_site"
    assert float(5 / site) == pytest.approx(float(1000 / record), rel=1e-3)
    assert fits.guarantee(1.0, 5, 1000) == {"epsilon": 1.0}


@pytest.mark.parametrize(
    ("aucs", "verdict"),
    [
        ([0.85, 0.86, 0.87], "held"),
        ([0.80, 0.801, 0.799], "MISSED"),
        ([0.85, 0.83, 0.86], "MISSED (within the scatter)"),
        ([0.84], "MISSED (within the scatter)"),
        ([], ""),
    ],
)
def test_a_floor_is_clearly_missed_only_beyond_the_scatter(aucs, verdict):
    assert default._verdict(pd.Series(aucs, dtype=float), 0.85) == verdict


def test_a_table_says_how_many_of_its_cells_have_how_many_splits():
    def said(splits_of):
        rows = [
            ("bank", learners.components("totally_random", update), 0.5, split, 0.8)
            for update, n in splits_of.items()
            for split in range(n)
        ]
        table = pd.DataFrame(rows, columns=["dataset", "learner", "epsilon", "split", "auc"])
        return page._splits(Cells(table.assign(n_sites=1, seconds=1.0)), 0.5)

    assert said({"newton": 5}) == "1 of 36 cells were run, on 5 splits each"
    assert said({"newton": 5, "gradient": 2}) == "2 of 36 cells were run, on 2 to 5 splits each"
    assert said({}) == "none of the cells was run"


# --------------------------------------------------------------------------------------------------
# The verdicts of the study of ours: paired by splits, clear only beyond their own error.
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
