"""The page that says which estimator to take: read off tables, whatever is finished of them."""

from __future__ import annotations

import pandas as pd
import pytest

from studies.harness import Computation
from studies.which import page
from studies.which.run import Wanted, _jobs

PLACE = {"dataset": "adult", "learner": "method=default", "epsilon": 8.0, "n_sites": 1}


def fresh(aucs):
    return pd.DataFrame(
        [
            {**PLACE, "split": 800 + i, "auc": auc, "log_loss": 0.3, "rounds": 116.0}
            for i, auc in enumerate(aucs)
        ]
    )


def task(method, score, epsilon=1.0, **more):
    cell = {"seed": 40, "task_name": "iris", "method": method, "epsilon": epsilon}
    return {**cell, "auc": float("nan"), "accuracy": score, **more}


CLASSES = pd.DataFrame(
    [
        task("boosted", 0.91),
        task("forest", 0.905),
        task("tree", 0.7),
        task("HistGB", 0.95, float("inf")),
    ]
)
NUMBERS = pd.DataFrame(
    [
        {"seed": 40, "task_name": "metro_traffic", "method": m, "epsilon": e, "mse": mse}
        for m, e, mse in (("boosted", 1.0, 0.1), ("mean", float("inf"), 1.0))
    ]
)


def written(tmp_path, now, before=None):
    out = tmp_path / "which"
    out.mkdir()
    if before is not None:
        before.to_csv(out / "before.csv", index=False)
    limits = pd.DataFrame([{"dataset": "adult", "split": 800, "auc": 0.926}])
    tables = {"fresh": now, "limits": limits, "classes": CLASSES, "numbers": NUMBERS}
    page.write(Computation(out), tables, "python -m studies which")
    return (out / "README.md").read_text()


def test_a_run_that_time_cut_short_has_a_page_of_what_there_is(tmp_path):
    nothing = pd.DataFrame(columns=["dataset", "split", "code"])
    tables = {"fresh": fresh([0.92]), "limits": nothing, "classes": nothing, "numbers": nothing}
    page.write(Computation(tmp_path / "which"), tables, "python -m studies which")
    said = (tmp_path / "which/README.md").read_text()
    assert "0.9200" in said
    assert "## Classes" not in said


def test_the_page_names_the_best_and_what_is_close_to_it(tmp_path):
    said = written(tmp_path, fresh([0.92]))
    assert "| boosted, forest |" in said
    assert "0.900" in said  # R2 of an error of a tenth


def test_differences_are_paired_and_a_clear_loss_is_named(tmp_path):
    said = written(tmp_path, fresh([0.90, 0.91]), fresh([0.92, 0.931]))
    assert "-0.0205 ± 0.0005 (2 pairs)" in said
    assert "standard errors: Adult at epsilon 8 (1 holders)" in said


def test_without_an_earlier_run_nothing_is_compared(tmp_path):
    said = written(tmp_path, fresh([0.925, 0.925]))
    assert "standard errors: none" in said
    assert "held" in said


@pytest.mark.parametrize("quick", [True, False])
def test_every_cell_is_asked_once(quick):
    for _, cells in _jobs(Wanted(2, 1, quick)).values():
        keys = [tuple(cell.values()) for cell in cells]
        assert len(keys) == len(set(keys))
