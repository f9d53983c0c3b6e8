"""Verdicts follow from pairs: clear ones are said, chance is called open, a reversal reverses."""

from __future__ import annotations

import re

import numpy as np
import pandas as pd
import pytest

from hedgerow.methods.consul import honest_factor_of_medians
from hedgerow.schema.schema import Numeric, Schema
from studies import authors
from studies import gubler as gubler_page
from studies.boosted_claims import PRINT, PROGRAM, Cells, agreement, beside_the_program
from studies.boosted_claims import claims as boosted_claims
from studies.boosted_fits import DATASETS, LEAVES, batched, components, weight_updates
from studies.claims import (
    FAILS,
    HOLDS,
    NOT_RUN,
    OPEN,
    OURS,
    PUBLISHED,
    RELEASED,
    Claim,
    clustered,
    in_short,
    lead,
    section,
    where_it_holds,
)
from studies.diprime_claims import DEPTHS, SHARED_DEPTHS, ahead
from studies.diprime_claims import claims as diprime_claims
from studies.gubler_claims import claims as gubler_claims
from studies.gubler_fits import AS_PRINTED, AS_RELEASED
from studies.kept import archived
from studies.measures import auc, calibration_error, of_classes
from studies.pages import evenly, left_out, line


def test_a_lead_is_its_mean_and_the_error_of_the_sample():
    found = lead([1.0, 2.0, 3.0, 4.0])
    assert (found.mean, found.n) == (2.5, 4)
    assert found.error == pytest.approx(np.std([1, 2, 3, 4], ddof=1) / 2)
    assert found.verdict == HOLDS  # 3.9 errors, and 3.2 are enough for four
    assert lead([0.0, 2.0, 4.0, -1.0]).verdict == OPEN
    assert lead([1.0, 1.1, 0.9, 1.0]).verdict == HOLDS
    assert lead([-1.0, -1.1, -0.9, -1.0]).verdict == FAILS
    assert lead([]).verdict == NOT_RUN
    assert lead([5.0]).verdict == OPEN


def test_verdicts_over_places_name_them():
    yes, no, unknown = lead([1.0, 1.1, 0.9]), lead([-1.0, -1.1, -0.9]), lead([1.0, -1.0, 0.0])
    assert where_it_holds({"a": yes, "b": yes}) == HOLDS
    assert where_it_holds({"a": no, "b": no}) == FAILS
    assert where_it_holds({"a": yes, "b": no, "c": unknown}) == (
        "holds only for a; does not hold for b; open for c"
    )
    assert where_it_holds({"a": no, "b": unknown}) == "does not hold for a; open for b"
    assert where_it_holds({}) == where_it_holds({"a": lead([])}) == NOT_RUN


def test_the_table_of_claims_has_every_column():
    text = section([Claim("says", "Table 1", {}, judged={"": HOLDS}, told="+0.1", authors="0.9")])
    assert "| says | Table 1 | as published | **holds** | +0.1 | 0.9 |" in text


def test_verdicts_of_places_are_counted():
    assert in_short({"a": HOLDS, "b": HOLDS, "c": NOT_RUN}) == "holds"
    assert in_short({"a": HOLDS, "b": FAILS, "c": OPEN}) == "holds 1/3, fails 1/3"
    assert in_short({"a": OPEN, "b": FAILS}) == "fails 1/2"
    assert in_short({"a": "2 of 3 cells"}) == "2 of 3 cells"
    assert in_short({}) == NOT_RUN


# -------------------------------------------------------------------------------------- the papers
def mixture(gain):
    """Plain, savings that gain so much, and trees without privacy; ten runs."""
    rng = np.random.default_rng(0)
    rows = []
    for seed in range(10):
        for p in (10, 50):
            base = {"seed": seed, "n": 250, "p": p, "rho": 0.3, "depth": 5}
            for epsilon in (1.0, 5.0):
                plain = 0.7 + rng.normal(0.0, 0.001)
                for method in ("plain", "saving", AS_PRINTED, AS_RELEASED, "defaults"):
                    won = 0.0 if method == "plain" else gain + rng.normal(0.0, 0.001)
                    rows.append(
                        {**base, "epsilon": epsilon, "method": method, "accuracy": plain + won}
                    )
            for method in ("local", "centralised"):
                rows.append({**base, "epsilon": 0.0, "method": method, "accuracy": 0.71})
    return pd.DataFrame(rows)


@pytest.mark.parametrize(("gain", "verdict"), [(0.05, HOLDS), (-0.05, FAILS)])
def test_gublers_claims_turn_with_the_rows(gain, verdict):
    found = {(claim.says, claim.column): claim for claim in gubler_claims(mixture(gain))}
    for column in (RELEASED, PUBLISHED, OURS):
        says = "Saving budget is consistently more accurate than plain"
        assert found[says, column].verdict == verdict
    deeper = found["The gain grows with the depth", PUBLISHED]
    assert deeper.verdict == NOT_RUN


def test_a_clear_lead_of_too_few_pairs_is_no_verdict():
    both = pd.concat([mixture(0.0), mixture(0.05).assign(depth=10)])
    found = {(claim.says, claim.column): claim for claim in gubler_claims(both)}
    deeper = found["The gain grows with the depth", PUBLISHED]
    assert "+5.0" in deeper.numbers
    assert re.fullmatch(r"open: \d+ of the 200 draws that a verdict on depth needs", deeper.verdict)


def boosted_cells(gap):
    rows = []
    for split in range(5):
        for name in DATASETS:
            for epsilon in (0.1, 0.5):
                paper, _ = weight_updates(epsilon)["totally_random", "newton", name]
                learner = components("totally_random", "newton")
                rows.append((name, learner, epsilon, split, paper + gap + 0.0001 * split))
            for leaves in LEAVES:
                rows.append((name, batched(20, leaves), 0.1, split, 0.8 + 0.001 * split))
                newton = 0.8 + 0.002 * split + (-0.02 if leaves == "published" else 0.02)
                rows.append((name, batched(1, leaves), 0.1, split, newton))
    table = pd.DataFrame(rows, columns=["dataset", "learner", "epsilon", "split", "auc"])
    return Cells(table.assign(n_sites=1, seconds=1.0))


def published_rows(gap):
    """What the authors' program gave, moved by a gap."""
    names = {"hist_based": "histogram"}
    table = authors.rows("maddock")
    table = table[table["method"] == "weight updates"]
    kinds = table["split_method"].map(lambda name: names.get(name, name))
    learners = [
        components(kind, update) for kind, update in zip(kinds, table["update"], strict=True)
    ]
    return Cells(table.assign(learner=learners, auc=table["value"] + gap))


@pytest.mark.parametrize(("gap", "verdict"), [(0.0, "holds"), (0.5, "0 of 120 cells")])
def test_published_cells_meet_the_authors_program_or_not(gap, verdict):
    met, *elsewhere = agreement(published_rows(gap))
    assert met.verdict == verdict
    assert not gap or {claim.verdict for claim in elsewhere} == {FAILS}


def test_every_cell_that_is_kept_meets_the_authors_program_or_print():
    """Few splits of the program are far from its own print in some cells; ours are not."""
    cells = list(beside_the_program(Cells(archived("boosted").frame("published"))))
    assert len(cells) == 120
    assert {cell.meets for cell in cells} == {PROGRAM, PRINT}
    assert sum(cell.meets == PRINT for cell in cells) <= 10


def test_one_program_gives_the_same_verdicts_in_both_columns():
    found = boosted_claims(boosted_cells(0.0), published_rows(0.0))
    both = [claim for claim in found if claim.program and claim.column == PUBLISHED]
    assert len(both) == 7
    for claim in both:
        assert claim.verdict == where_it_holds(claim.program)


def test_pairs_of_one_draw_count_once():
    values = pd.Series([1.0, 3.0, 5.0], index=pd.Index([0, 0, 1], name="seed"))
    found = clustered(values, ["seed"])
    assert (found.mean, found.n, found.unit) == (3.5, 2, "draws")


def test_batches_are_judged_by_both_leaves():
    found = boosted_claims(boosted_cells(0.0), published_rows(0.0))
    verdicts = {c.says: c.verdict for c in found if c.column == OURS}
    assert verdicts["At epsilon 0.1 batches of 20 trees beat Newton"] == HOLDS
    assert verdicts["Shrunk leaves beat batches of 20"] == HOLDS


def test_a_smaller_error_is_a_lead():
    rows = [
        {"data": "parkinsons", "method": method, "seed": seed, "score": error + 0.0001 * seed}
        for method, error in (("DiPriMe", 0.03), ("DP-ERT", 0.04))
        for seed in range(4)
    ]
    found = ahead(pd.DataFrame(rows), "parkinsons", "DiPriMe", "DP-ERT")
    assert found.mean == pytest.approx(1.0)  # in the paper's units
    assert found.verdict == HOLDS


def by_depth(errors, splits, depths=DEPTHS):
    """Figure 1 (a), the same for all variants but for a little scatter."""
    rng = np.random.default_rng(0)
    return pd.DataFrame(
        [
            {"method": method, "seed": seed, "depth": depth, "score": error + rng.normal(0.0, 1e-5)}
            for method in ("DiPriMe", "DiPriMeExp, paid", "DiPriMeFlip, paid")
            for seed in range(splits)
            for depth, error in zip(depths, errors, strict=True)
        ]
    )


@pytest.mark.parametrize(
    ("table", "verdict"),
    [
        (by_depth((0.010, 0.009, 0.008, 0.007, 0.009, 0.011), 5), HOLDS),
        (by_depth((0.010, 0.009, 0.008, 0.007, 0.006, 0.005), 5), FAILS),
        (by_depth((0.010, 0.009, 0.008, 0.007, 0.006, 0.005), 1), OPEN),
        (by_depth((0.010, 0.009, 0.008, 0.007), 5, DEPTHS[:4]), NOT_RUN),
        (None, NOT_RUN),
    ],
    ids=["worse", "best of all", "one split", "not that deep", "nothing"],
)
def test_depth_is_judged_by_the_deepest_that_is_planned(table, verdict):
    """Twin of a page that called it false because the best depth was the deepest that ran."""
    found = {claim.says: claim for claim in diprime_claims({"figure1_depth": table})}
    assert found["Deeper trees cost accuracy"].verdict == verdict


@pytest.mark.parametrize(
    ("on_all_rows", "verdict"),
    [((0.010, 0.009, 0.008, 0.011), HOLDS), ((0.008, 0.009, 0.010, 0.011), OPEN)],
)
def test_best_depths_are_compared_split_by_split(on_all_rows, verdict):
    tables = {
        "figure1_depth": by_depth((0.008, 0.009, 0.010, 0.011), 5, SHARED_DEPTHS),
        "figure5_depth": by_depth(on_all_rows, 5, SHARED_DEPTHS),
    }
    found = {claim.says: claim for claim in diprime_claims(tables)}
    assert found["The best depth is larger if trees share all rows"].verdict == verdict


def test_likeness_needs_pairs_as_a_lead_does():
    assert lead([0.001, -0.001, 0.0, 0.0]).within(0.01) == HOLDS
    assert lead([0.05, 0.051, 0.049]).within(0.01) == FAILS
    assert lead([0.05, -0.05]).within(0.01) == OPEN
    assert lead([0.0]).within(0.01) == OPEN
    assert lead([]).within(0.01) == NOT_RUN


def test_the_printed_budget_costs_less_where_there_are_fewer_features():
    assert float(honest_factor_of_medians(5)) == 15 / 8
    assert float(honest_factor_of_medians(4)) == 13 / 8


# ------------------------------------------------------------------------------------------ figures
def test_a_figure_has_one_number_of_repeats():
    table = pd.DataFrame(
        {"method": list("aaabb"), "x": [1, 1, 1, 1, 1], "seed": [0, 1, 2, 0, 1], "y": range(5)}
    )
    even = evenly(table, ["method", "x"], "seed")
    assert set(even["seed"]) == {0, 1}
    seldom = pd.concat([table, pd.DataFrame({"method": ["c"], "x": [1], "seed": [7], "y": [0]})])
    assert set(evenly(seldom, ["method", "x"], "seed")["method"]) == {"a", "b"}
    assert left_out(seldom, evenly(seldom, ["method", "x"], "seed"), ["method", "x"]) == (
        "; 1 of 3 points have fewer and are not drawn"
    )
    assert left_out(table, even, ["method", "x"]) == ""
    xs, means, errors = line(even[even["method"] == "a"], "x", "y")
    assert (xs, means) == ([1.0], [0.5])
    assert errors == [pytest.approx(np.std([0, 1], ddof=1) / np.sqrt(2))]


def test_a_point_of_fewer_runs_is_in_no_figure_of_the_mixtures(tmp_path, monkeypatch):
    """Twin of a figure of five runs with points of four."""
    table = mixture(0.05)
    first = table.iloc[0]
    lacks = (table["p"] == first["p"]) & (table["n"] == first["n"])
    lacks &= (table["rho"] == first["rho"]) & (table["epsilon"] == 1.0)
    lacks &= (table["method"] == "plain") & (table["seed"] == first["seed"])
    drawn = {}
    monkeypatch.setattr(
        gubler_page, "curves", lambda path, panels, *_: drawn.update({path.name: panels})
    )
    text = "".join(gubler_page._mixture(tmp_path, table[~lacks]))
    assert text.count("points have fewer and are not drawn") == 1
    panel = drawn[f"mixture_{first['n']}_5"][f"rho = {first['rho']}, p = {first['p']}"]
    assert 1.0 not in panel["plain"][0]
    assert 1.0 in panel["saving"][0]


# --------------------------------------------------------------------------------------------------
# Measures of probabilities, against cases that can be done by hand.
SCHEMA = Schema((Numeric("x", 0.0, 1.0),), classes=("no", "yes"))


def test_auc_counts_pairs_and_half_of_the_ties():
    assert auc(np.array([0.1, 0.4, 0.4, 0.8]), np.array([0, 0, 1, 1])) == pytest.approx(0.875)
    assert np.isnan(auc(np.array([0.1, 0.2]), np.array([1, 1])))


def test_a_forecast_that_is_right_as_often_as_it_says_is_calibrated():
    p = np.tile([0.75, 0.25], (4, 1))
    assert calibration_error(p, np.array([0, 0, 0, 1])) == pytest.approx(0.0)
    assert calibration_error(p, np.array([1, 1, 1, 1])) == pytest.approx(0.75)


def test_log_loss_is_finite_where_a_probability_is_zero():
    found = of_classes(np.array([[1.0, 0.0]]), np.array(["yes"], dtype=object), SCHEMA)
    assert found["accuracy"] == 0.0
    assert found["log_loss"] == pytest.approx(-np.log(1e-6), abs=1e-3)
