"""The results page tells what was run, what holds, and what does not."""

from __future__ import annotations

import csv
import math
from pathlib import Path

import pandas as pd
import pytest

from studies.boosted import default, fits, page, recipes, run
from studies.boosted.accountant import ORDERS, at_the_papers_noise, renyi_epsilon
from studies.boosted.cells import Cells
from studies.boosted.paper import TRAINING_ROWS, weight_updates
from studies.harness import Computation

MEASURES = ("auc", "log_loss", "accuracy", "calibration_error", "seconds", "rounds", "bytes")


def table(*cells):
    return pd.DataFrame(
        [
            {
                **run._cell(dataset, recipe, epsilon, 0),
                **dict.fromkeys(MEASURES, 0.5),
                "auc": auc,
            }
            for dataset, recipe, epsilon, auc in cells
        ]
    )


def written(tmp_path, rows):
    page.write(Computation(tmp_path), rows, "python -m studies boosted")
    return (tmp_path / "README.md").read_text()


def test_a_target_that_is_missed_is_called_missed_and_one_that_is_met_held(tmp_path):
    text = written(
        tmp_path,
        table(("adult", recipes.DEFAULT, 1.0, 0.91), ("bank", recipes.DEFAULT, 1.0, 0.90)),
    )
    assert ".9060 held" in text
    assert ".9120 MISSED" in text


def test_a_cell_below_the_papers_deviation_is_listed_and_one_not_run_is_a_dash(tmp_path):
    mean, deviation = weight_updates(0.5)["totally_random", "newton", "adult"]
    recipe = recipes.components("totally_random", "newton")
    text = written(tmp_path, table(("adult", recipe, 0.5, mean - 2 * deviation)))
    assert "These fall short" in text
    assert "- / .8486" in text  # Bank, not run
    good = written(tmp_path, table(("adult", recipe, 0.5, mean)))
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
    recipe = recipes.components("totally_random", "newton")
    rows = table(*(("bank", recipe, 0.5, mean + gap) for gap in gaps))
    rows["split"] = range(len(gaps))
    text = written(tmp_path, rows)
    assert f"| {said} |" in text
    found = {"yes": "**holds**", "off": "clearly off in 1"}.get(said, "clearly off in 0")
    assert found in text


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
    for recipe in {cell["recipe"] for cell in run.cells(1)}:
        fits.estimator(schema, recipe)._recipe(schema)


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
        rows.append((split, recipes.DEFAULT, 0.8))
        rows += [(split, recipes.named(n, 100), 0.8 - lead[split]) for n, lead in rivals.items()]
    cells = page.Cells(
        pd.DataFrame(
            [{**run._cell("adult", recipe, 1.0, split), "auc": auc} for split, recipe, auc in rows]
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
    local = fits.promise(1.0, recipes.EVERY_RECORD, 1000)
    site = gaussian.mu_squared_within(Fraction(local["epsilon"]), delta)
    assert local["placement"] == "silo"
    assert float(5 / site) == pytest.approx(float(1000 / record), rel=1e-3)
    assert fits.promise(1.0, 5, 1000) == {"epsilon": 1.0}


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
            ("bank", recipes.components("totally_random", update), 0.5, split, 0.8)
            for update, n in splits_of.items()
            for split in range(n)
        ]
        table = pd.DataFrame(rows, columns=["dataset", "recipe", "epsilon", "split", "auc"])
        return page._splits(Cells(table.assign(parties=1, seconds=1.0)), 0.5)

    assert said({"newton": 5}) == "1 of 36 cells were run, on 5 splits each"
    assert said({"newton": 5, "gradient": 2}) == "2 of 36 cells were run, on 2 to 5 splits each"
    assert said({}) == "none of the cells was run"
