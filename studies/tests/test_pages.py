"""Pages of studies: their words are computed, and say of any numbers what these show."""

from __future__ import annotations

import ast
import math
import re
from itertools import product
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from hedgerow.schema.schema import Hashed, Numeric, Schema, Target
from studies import (
    arena,
    arena_peers,
    boosted,
    boosted_fits,
    open_ranges,
    ours_claims,
    planned,
    reconstruction,
    robust,
    which,
)
from studies.arena_peers import KIND
from studies.boosted_fits import (
    ORDERS,
    at_the_papers_noise,
    renyi_epsilon,
)
from studies.code_version import reached
from studies.datasets import of_frame
from studies.evidence import CELLS, RECORDS, stored
from studies.harness import Computation
from studies.ours import full_grids, quick_grids
from studies.ours_fits import CLASSES, FOR_CLASSES, WITH_PIECES, Task
from studies.robust import FIRST, LAST, grid
from studies.robust_fits import HARMS
from studies.which import Wanted, _jobs

# --------------------------------------------------------------------------------------------------
# No number of a page is typed: what its words say is computed from rows and settings.
STUDIES = Path(__file__).parents[1]
PAGES = ("boosted", "diprime", "gubler", "topdown", "extra_trees", "ours", "claims")
"""Modules that write sentences, beside those of claims."""
TEMPLATES = sorted(p for p in STUDIES.glob("*.py") if p.stem in PAGES or p.stem.endswith("_claims"))

PLACES = r"(?:Figures?|Fig\.|Figs\.|Tables?|Algorithms?|Theorems?|[Ss]ections?|[Aa]ppendix|Panels?)"
ALLOWED = re.compile(
    rf"{PLACES} (?:[A-Z]\.)?\d+[a-z]?(?:\.\d+)*(?:(?:, | and | to |-)\d+)*"  # places in a paper
    r"|Credit [12]|KDD Cup 99|EBM p=[\d.]+"  # names of data sets and methods
    r"|(?:docs|studies|benchmarks|tests)/\S+"  # files
    r"|\b(?:19|20)\d\d\b"  # years
    r"|^#+ \d+\."  # numbered headings
    r"|\b[A-Za-z]+\d+\w*|\b\w+_\w+"  # names: F1, R2, figure_3
    r"|\{[^{}]*\}",  # fields of templates
    re.MULTILINE,
)
DIGIT = re.compile(r"\d")


def typed_numbers(source: str) -> list[str]:
    """Sentences of a module with a digit that is in no name, place, file or field."""
    tree = ast.parse(source)
    silent = {id(node) for node in ast.walk(tree) for node in _silent(node)}
    return [
        node.value
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant)
        and isinstance(node.value, str)
        and id(node) not in silent
        and " " in node.value.strip()
        and DIGIT.search(ALLOWED.sub("", node.value))
    ]


def _silent(node: ast.AST) -> list[ast.AST]:
    """Docstrings and format specifications, which no page shows."""
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
        return [node.value]
    if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]).startswith("_TABLE"):
        return [node.value]  # what a paper prints
    if isinstance(node, ast.FormattedValue) and node.format_spec is not None:
        return list(ast.walk(node.format_spec))
    return []


@pytest.mark.parametrize("path", TEMPLATES, ids=lambda path: path.stem)
def test_no_number_of_a_page_is_typed(path):
    assert typed_numbers(path.read_text(encoding="utf-8")) == []


def test_every_paper_has_its_claims_here():
    """Twin of the list: a module with another name would go unread."""
    names = {path.stem for path in TEMPLATES}
    assert {*PAGES} | {f"{name}_claims" for name in PAGES[:-1]} <= names


@pytest.mark.parametrize(
    ("said", "is_typed"),
    [
        ('f"ours is {x:.3f} ahead"', False),
        ('"ours is 0.904, theirs 0.929"', True),
        ('f"ours is {x:.3f}, theirs .929"', True),
        ('"DP-ERT is ahead in 4 of 5 sets"', True),
        ('"Figure 3 and Tables 9 to 12 of the paper (2022); see docs/proofs/0050-x.md"', False),
        ('"the F1 of figure_3"', False),
        ('"epsilon {top:g} in all rows"', False),
    ],
)
def test_a_typed_number_is_seen(said, is_typed):
    """Twin: the grep finds what it is for, and lets names and places of a paper pass."""
    assert bool(typed_numbers(f"words = {said}")) is is_typed


# --------------------------------------------------------------------------------------------------
# Pages about open ranges and plans say what their tables hold, and how much of them there is.
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
                **boosted._cell(dataset, learner, epsilon, 0),
                **dict.fromkeys(MEASURES, 0.5),
                "auc": auc,
            }
            for dataset, learner, epsilon, auc in cells
        ]
    )


def written(tmp_path, rows):
    tables = {"cells": rows, "published": pd.DataFrame()}
    boosted.write(Computation(tmp_path), tables, "python -m studies boosted")
    return (tmp_path / "README.md").read_text()


def test_a_cell_stands_beside_the_papers_and_one_not_run_is_a_dash(tmp_path):
    learner = boosted_fits.components("totally_random", "newton")
    text = written(tmp_path, table(("adult", learner, 0.5, 0.87)))
    assert "| totally random | newton | - / 0.8486 (0.0075) |" in text
    assert ".8700 / 0.8718 (0.0049)" in text


def test_the_papers_noise_is_that_of_its_accountant():
    """Google's Renyi accountant agrees, and the exact account charges less for the same noise."""
    from dp_accounting import GaussianDpEvent, rdp

    accountant = rdp.RdpAccountant(list(ORDERS)).compose(GaussianDpEvent(1 / 0.14))
    assert renyi_epsilon(0.14, 1e-5) == pytest.approx(accountant.get_epsilon(1e-5), rel=1e-9)
    for epsilon in (0.1, 0.5):
        assert 0.8 * epsilon < at_the_papers_noise(epsilon, 20_000) < epsilon


def test_every_recipe_of_the_grid_is_one_the_estimator_knows():
    from hedgerow.schema.schema import Numeric, Schema

    schema = Schema((Numeric("x", 0.0, 1.0),), classes=("no", "yes"))
    for learner in {cell["learner"] for cell in boosted.cells(1)}:
        boosted_fits.estimator(schema, learner)._method(schema)


@pytest.mark.parametrize(("given", "error"), [([0.5, 0.5], 0.0), ([0.95, 0.05], 0.05)])
def test_calibration_error_is_the_gap_between_promise_and_outcome(given, error):
    import numpy as np

    hit = np.array([1.0, 0.0])
    assert boosted_fits.calibration_error(hit, np.array(given)) == pytest.approx(error)


def test_five_sites_together_add_the_noise_of_every_record():
    from fractions import Fraction

    from hedgerow.privacy.accounting import gaussian

    delta = Fraction(1, 1000)
    record = gaussian.mu_squared_within(Fraction(1), delta)
    local = boosted_fits.guarantee(1.0, boosted_fits.EVERY_RECORD, 1000)
    site = gaussian.mu_squared_within(Fraction(local["epsilon"]), delta)
    assert local["dp_model"] == "per_site"
    assert float(5 / site) == pytest.approx(float(1000 / record), rel=1e-3)
    assert boosted_fits.guarantee(1.0, 5, 1000) == {"epsilon": 1.0}


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
    found = ours_claims.differences(table, "a", "b", "accuracy").loc[1.0]
    assert found["mean"] == pytest.approx(0.02)
    assert found["error"] == pytest.approx(0.0, abs=1e-9)
    assert ours_claims.is_clear(found)


def test_a_split_with_too_few_tasks_is_left_out_of_the_differences():
    whole = pd.concat([rows(who, [0.5], task=task) for who in "ab" for task in ("wine", "skin")])
    part = pd.concat([rows("a", [0.9]), rows("b", [0.1])]).assign(seed=7)
    found = ours_claims.differences(pd.concat([whole, part]), "a", "b", "accuracy", n_tasks=2)
    assert found.loc[1.0, "splits"] == 1
    assert found.loc[1.0, "mean"] == 0.0


@pytest.mark.parametrize(
    ("theirs", "clear"),
    [([0.6, 0.4, 0.5], False), ([0.4, 0.41, 0.4], True), ([0.4, 0.5, 0.4], False), ([0.4], False)],
)
def test_a_difference_is_clear_by_students_t_and_never_from_one_split(theirs, clear):
    table = pd.concat([rows("a", [0.5] * len(theirs)), rows("b", theirs)])
    found = ours_claims.differences(table, "a", "b", "accuracy").loc[1.0]
    assert ours_claims.is_clear(found) is clear


def test_a_split_without_all_tasks_does_not_count_for_a_target():
    whole = pd.concat([rows("tree", [0.9], 0.5, task) for task in CLASSES])
    part = rows("tree", [0.1], 0.5).assign(seed=7)
    table = pd.concat([whole, part]).rename(columns={"who": "method"}).assign(noise="gaussian")
    (line,) = ours_claims.accuracy_targets(table).itertuples(index=False)
    assert line.splits == 1
    assert line.met == "yes"


def test_a_rival_that_is_clearly_above_is_named_with_its_lead():
    table = pd.concat(
        [rows("tree (pure)", [0.5, 0.5, 0.51]), rows("Algorithm 5 (pure)", [0.6, 0.61, 0.6])]
    )
    standing = ours_claims.unseen_verdicts(table).set_index("ours").loc["tree (pure)"]
    assert standing["clearly below one at (by)"] == "1 (0.100)"
    assert standing["clearly above all at"] == "none"


def test_a_weaker_promise_is_no_rival_of_a_pure_method():
    table = pd.concat([rows("Algorithm 5 (gaussian)", [0.9]), rows("LocalRNM (pure)", [0.9])])
    assert ours_claims._rivals(table, "pure") == ["LocalRNM (pure)"]
    assert len(ours_claims._rivals(table, "gaussian")) == 2


def test_counts_of_the_verdicts():
    cells = pd.Series(["none", "0.1 (0.200)", "0.1, 0.5, 1"])
    assert ours_claims.epsilons_named(cells).tolist() == [0, 1, 3]
    table = pd.DataFrame([["a", "+0.1 ± 0", "-0.1 ± 0", "+0 ± 1 ~", "+0.1, one split"]])
    assert ours_claims.tally(table) == (1, 1, 3, 1)


@pytest.mark.parametrize("grids", [full_grids, quick_grids])
def test_every_method_of_the_grids_is_known(grids):
    known = {*FOR_CLASSES, *WITH_PIECES, "boosted", "mean", "CART", "HistGB"}
    methods = {cell["method"] for cells in grids().values() for cell in cells}
    assert methods <= known | {"random forest"}
    assert not np.isnan(sum(cell["epsilon"] for cells in grids().values() for cell in cells))


# --------------------------------------------------------------------------------------------------
# The page that says which estimator to take: read off tables, whatever is finished of them.
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


WHICH_CLASSES = pd.DataFrame(
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


def stage(with_surfaces, without):
    rows = [fresh(aucs).assign(surfaces=on) for on, aucs in ((1, with_surfaces), (0, without))]
    return pd.concat(rows).assign(seconds=1.0)


def written_which(tmp_path, now, surfaces=None):
    out = tmp_path / "which"
    out.mkdir()
    limits = pd.DataFrame([{"dataset": "adult", "split": 800, "auc": 0.926}])
    surfaces = stage([0.9], [0.9]) if surfaces is None else surfaces
    tables = {"fresh": now, "limits": limits, "classes": WHICH_CLASSES, "numbers": NUMBERS}
    which.write(Computation(out), {**tables, "surfaces": surfaces}, "python -m studies which")
    return (out / "README.md").read_text()


def test_a_run_that_time_cut_short_has_a_page_of_what_there_is(tmp_path):
    nothing = pd.DataFrame(columns=["dataset", "split", "code"])
    tables = dict.fromkeys(("limits", "classes", "numbers", "surfaces"), nothing)
    tables["fresh"] = fresh([0.92])
    which.write(Computation(tmp_path / "which"), tables, "python -m studies which")
    said = (tmp_path / "which/README.md").read_text()
    assert "0.9200" in said
    assert "## Classes" not in said


def test_the_page_names_the_best_and_what_is_close_to_it(tmp_path):
    said = written_which(tmp_path, fresh([0.92]))
    assert "| boosted, forest |" in said
    assert "0.900" in said  # R2 of an error of a tenth


def test_differences_are_paired_and_a_clear_loss_is_named(tmp_path):
    said = written_which(tmp_path, fresh([0.9]), stage([0.90, 0.91], [0.92, 0.931]))
    assert "-0.0205 ± 0.0005 (2 pairs)" in said
    assert "standard errors: Adult at epsilon 8 (1 sites)" in said


def test_one_pair_is_no_clear_loss(tmp_path):
    said = written_which(tmp_path, fresh([0.925, 0.925]), stage([0.90], [0.92]))
    assert "standard errors: none" in said
    assert "held" in said


@pytest.mark.parametrize("quick", [True, False])
def test_every_cell_is_asked_once(quick):
    for _, cells in _jobs(Wanted(2, 1, quick)).values():
        keys = [tuple(cell.values()) for cell in cells]
        assert len(keys) == len(set(keys))


# --------------------------------------------------------------------------------------------------
# The page of hurt records: what is worse than before or than no model is named.
def written_robust(tmp_path, rows, before=()):
    out = tmp_path / "robust"
    out.mkdir()
    columns = ["task_name", "harm", "method", "score"]
    pd.DataFrame(before, columns=columns).to_csv(out / "before.csv", index=False)
    robust.write(Computation(out), pd.DataFrame(rows, columns=columns).assign(seed=50), "command")
    return (out / "README.md").read_text()


def test_what_became_worse_and_what_is_worse_than_no_model_is_named(tmp_path):
    rows = [("adult", "clean", "forest", 0.9), ("gas_turbine", "target x 100", "tree", -0.5)]
    before = [("adult", "clean", "forest", 0.95), ("gas_turbine", "target x 100", "tree", -0.9)]
    said = written_robust(tmp_path, rows, before)
    assert "1 are better by more than 0.02, 1 are worse: forest on adult, clean." in said
    assert "Worse than no model: tree on gas_turbine, target x 100." in said
    assert "| gas_turbine | - | - | - | - | -0.900 | -0.500 |" in said


def test_a_run_without_rows_has_a_page(tmp_path):
    assert "Worse than no model: none." in written_robust(tmp_path, [])


def test_the_grid_begins_with_what_matters_most():
    harms = list(dict.fromkeys(cell["harm"] for cell in grid(1, quick=False)))
    assert tuple(harms[: len(FIRST)]) == FIRST
    assert harms[-1] == LAST
    assert set(harms) == set(HARMS)


def toy(is_number):
    rng = np.random.default_rng(0)
    X = pd.DataFrame({"a": rng.random(400), "b": rng.random(400)})
    columns = (Numeric("a", 0.0, 1.0), Numeric("b", 0.0, 1.0))
    if is_number:
        return Task(X, rng.random(400), Schema(columns, target=Target(0.0, 1.0)))
    y = np.where(rng.random(400) < 0.5, "no", "yes").astype(object)
    return Task(X, y, Schema(columns, classes=("no", "yes")))


@pytest.mark.parametrize("harm", HARMS)
def test_every_harm_leaves_a_task_that_fits_its_schema(harm):
    given, train = toy("target" in harm or "both" in harm), np.arange(300)
    hurt = HARMS[harm](given, train, np.random.default_rng(1))
    assert [f.name for f in hurt.task.schema.features] == list(hurt.task.X.columns)
    assert set(hurt.train) <= set(train)
    assert hurt.site is None or len(hurt.site) == len(hurt.train)
    assert len(hurt.task.X) == len(hurt.task.y) == 400


def test_harms_hurt_as_they_say():
    rng = np.random.default_rng(1)
    train = np.arange(300)
    rare = HARMS["1 : 99"](toy(False), train, rng)
    assert (rare.task.y[rare.train] == "yes").sum() == 1
    wide = HARMS["target x 100"](toy(True), train, rng).task.schema.target
    assert (wide.low, wide.high) == (-49.5, 50.5)
    site = HARMS["two rows, one class"](toy(False), train, rng).site
    assert np.bincount(site)[4] == 2
    hashed = HARMS["2,000 codes, hashed 4 times"](toy(False), train, rng).task.schema
    assert sum(isinstance(f, Hashed) for f in hashed.features) == 4


# --------------------------------------------------------------------------------------------------
# The attack rebuilds records from exact sums, and no more than a guess from noisy ones.
OTHERS, MOVES = 12, 100_000
FEW = {"OWN_ROWS": 60, "TREES": 6, "DEPTH": 6}
SEEN, GUESSED = 0.65, 0.55
"""Cells that an attack recovers at least where it works, and at most where it does not."""


def world(n=400):
    """Five numbers and three categories, of which records share little."""
    rng = np.random.default_rng(5)
    X = pd.DataFrame({f"n{j}": rng.integers(0, 24, n).astype(float) for j in range(5)})
    for j in range(3):
        X[f"c{j}"] = rng.choice(np.array(["u", "v", "w", "x"], object), n)
    y = (X["n0"] + X["n1"] + 6 * (X["c0"] == "u") > 24).astype(int)
    return of_frame("made", X, y, regression=False)


@pytest.fixture
def recovered(monkeypatch):
    """Mean share of cells and of whole records over three small draws."""
    for name, value in FEW.items():
        monkeypatch.setattr(reconstruction, name, value)
    return _recovered


def _recovered(view):
    found = [reconstruction.attack_on(world(), view, seed, OTHERS, MOVES) for seed in range(3)]
    cells, records = ([one[name] for one in found] for name in ("cells", "records"))
    return float(np.mean(cells)), float(np.mean(records))


@pytest.mark.slow
def test_exact_histograms_give_records_away_and_a_guess_does_not(recovered):
    cells, records = recovered(reconstruction.NOTHING)
    assert cells <= GUESSED
    assert records <= 0.1
    cells, records = recovered(reconstruction.HISTOGRAMS)
    assert cells >= SEEN
    assert records >= 0.2


@pytest.mark.slow
def test_hedgerow_gives_records_away_without_noise_and_not_with_it(recovered):
    """Without noise the attack must work here too: else nothing would be shown."""
    cells, records = recovered("hedgerow histograms, no noise")
    assert cells >= SEEN
    assert records >= 0.2
    cells, records = recovered("hedgerow histograms, epsilon 1")
    assert cells <= GUESSED
    assert records <= 0.1


def test_own_records_are_taken_off_exactly(recovered):
    rng = np.random.default_rng(0)
    codes, labels = rng.integers(0, 8, (50, 3)), rng.integers(0, 2, 50).astype(float)
    released = reconstruction.plain_boosting(codes, labels, 8, by_cell=True)
    own = reconstruction.Known(codes, codes.astype(object), labels)
    assert np.abs(reconstruction.without_own(released, own).sums).max() < 1e-9


def test_records_are_matched_in_any_order_and_numbers_within_the_tolerance():
    truth = np.array([[0.0, "a"], [10.0, "b"]], object)
    found = np.array([[10.5, "b"], [0.0, "x"]], object)
    assert reconstruction.recovered(found, truth, np.array([True, False])) == (0.75, 0.5)
    far = np.array([[15.0, "b"], [0.0, "a"]], object)
    assert reconstruction.recovered(far, truth, np.array([True, False])) == (0.75, 0.5)


def test_listening_ends_with_its_block():
    before = reconstruction.Server.ask
    with reconstruction.listening():
        assert reconstruction.Server.ask is not before
    assert reconstruction.Server.ask is before


def test_what_is_kept_says_that_noise_leaves_no_more_than_a_guess():
    found = {(e.parts[1], e.parts[2]): e for e in stored() if e.parts[0] == "reconstruction"}
    guess = found[CELLS, reconstruction.NOTHING]
    assert found[RECORDS, reconstruction.HISTOGRAMS].low > 0.2
    assert found[CELLS, reconstruction.HISTOGRAMS].low > guess.high
    for way in reconstruction.METHODS:
        for epsilon in reconstruction.EPSILONS[1:]:
            view = f"hedgerow {way}, {epsilon}"
            assert found[RECORDS, view].value <= 0.05
            assert found[CELLS, view].value <= guess.value + 0.05


# --------------------------------------------------------------------------------------------------
# The arena: who is ahead follows from games alone, and peers' rows from no code of ours.
def made_games(lead=0.1, splits=(1100, 1101)):
    """Two sets of each kind, where A is ahead of B, and LightGBM of both."""
    rows = []
    for (name, kind), split, epsilon in product(arena_peers.KIND.items(), splits, (0.1, 1.0)):
        floor = 0.0 if kind == "numbers" else 0.5
        cell = {"dataset": name, "split": split, "n_sites": 1.0, "floor": floor}
        players = {"A": floor + 0.2 + lead, "B": floor + 0.2}
        rows += [{**cell, "player": p, "epsilon": epsilon, "score": s} for p, s in players.items()]
        rows.append({**cell, "player": "LightGBM", "epsilon": math.inf, "score": floor + 0.4})
    table = pd.DataFrame(rows).drop_duplicates()
    return table.assign(name=table["player"])


def test_ratings_follow_wins_and_equals_have_one_rating():
    better, worse = arena.ratings(np.array([[0.0, 300.0], [100.0, 0.0]]))
    assert better - worse == pytest.approx(400 * math.log10(3), rel=0.02)
    assert better + worse == pytest.approx(2 * arena.AVERAGE)
    even = arena.ratings(np.array([[0.0, 50.0], [50.0, 0.0]]))
    assert even == pytest.approx([arena.AVERAGE] * 2)


def test_a_gap_is_the_part_of_the_way_to_the_better_learner_without_privacy():
    found = {(s.player, s.group): s for s in arena.standings(made_games())}
    for group in (arena.group_of(kind, e) for kind in arena_peers.SETS for e in (0.1, 1.0)):
        assert found["A", group].value == pytest.approx(0.75)
        assert found["B", group].value == found["B", group].low == pytest.approx(0.5)
    assert found["A", arena.RATING].low > found["B", arena.RATING].high
    assert found["A", arena.RATING].n == 2 * 2 * len(arena_peers.KIND)
    swapped = {(s.player, s.group): s for s in arena.standings(made_games(-0.1))}
    assert swapped["A", arena.RATING].high < swapped["B", arena.RATING].low
    none = {(s.player, s.group): s for s in arena.standings(made_games(-0.9))}
    assert none["A", "numbers, epsilon 1"].value == 0.0


def test_who_does_not_play_loses_nothing_and_is_no_mean():
    whole = made_games()
    whole = whole[(whole["player"] != "A") | (whole["dataset"] != "wine")]
    found = {(s.player, s.group): s for s in arena.standings(whole)}
    assert found["A", "more classes, epsilon 1"].value == pytest.approx(0.75)
    assert found["A", arena.RATING].n == 2 * 2 * (len(arena_peers.KIND) - 1)


def test_where_a_tree_is_ahead_of_the_default_is_listed_with_what_a_plan_names():
    scores = {"BoostedTrees": 0.8, "Forest": 0.83, "Tree": 0.7}
    rows = [
        {"dataset": d, "epsilon": 1.0, "n_sites": 1.0, "split": s, "player": p, "score": v}
        for d, s, (p, v) in product(("skin", "bank"), (1100, 1101), scores.items())
    ]
    found = arena.behind(pd.DataFrame(rows), {"skin": "Forest", "bank": "BoostedTrees"})
    assert list(found["other"]) == ["Forest", "Forest"]
    assert list(found["lead"]) == pytest.approx([0.03, 0.03])
    assert list(found["plan"]) == ["Forest", "BoostedTrees"]


def test_rows_of_peers_depend_on_no_code_of_ours():
    assert not {name for name in reached("studies.arena_peers") if name.startswith("hedgerow")}
    assert {name for name in reached("studies.arena") if name.startswith("hedgerow")}  # twin


def test_every_cell_of_the_arena_is_asked_once_and_by_who_can_play():
    grids = arena.grids(2, quick=False, is_page=True)
    for name, (_, cells) in grids.items():
        assert len({tuple(cell.values()) for cell in cells}) == len(cells), name
    assert {KIND[cell["dataset"]] for cell in grids["dp_ebm"][1]} == {"two classes", "numbers"}
    assert len(KIND) >= 20
    assert {arena.table_of(name) for name in ("Tree", "Tree, 5 sites")} < set(grids)


def test_a_fit_that_takes_too_long_has_no_score(monkeypatch):
    def forever(*_):
        while True:
            pass

    monkeypatch.setattr(arena_peers, "MOST_SECONDS", 0.02)
    assert math.isnan(arena_peers.measured(forever, "wine", 1100, 1.0)["score"])


@pytest.mark.parametrize(("name", "least"), [("breast_cancer", 0.9), ("diabetes", 0.1)])
def test_the_regressions_beside_ours_learn_at_a_large_epsilon_and_little_at_a_small_one(
    name, least
):
    many, few = (
        np.mean([arena_peers.peer(s, e, name, "DP regression")["score"] for s in range(5)])
        for e in (50.0, 0.01)
    )
    assert many > least
    assert many > few + 0.1


def test_a_gaussian_sum_costs_what_balle_and_wang_say():
    """Deviation 3.730 of sensitivity 1 for epsilon 1 and delta 1e-5."""
    assert 1.0 / arena_peers.gaussian_mu(1.0, 1e-5) == pytest.approx(3.730, abs=2e-3)
