"""Groups of an evaluation: which there are, what they cost, and when they are not asked."""

from __future__ import annotations

import json

import numpy as np
import pytest
from typer.testing import CliRunner

import hedgerow as hr
from hedgerow.cli.main import app
from hedgerow.errors import ParameterError, SignalWarning
from hedgerow.federation.transports import in_process
from hedgerow.methods.evaluated_rows import column_and_cuts, usual_cuts
from hedgerow.report.evaluation import ALL_GROUPS
from methods.test_evaluate import contents, rows_asked
from support.worlds import TWO, VALUE, sample

N = 4000
X, Y = sample(N, TWO)
FRESH, FRESH_Y = sample(N, TWO, seed=5)
AGE = np.array([np.nan if age is None else age for age in FRESH[:, 0]], float)


@pytest.fixture(scope="module")
def model():
    return hr.HistogramTreeClassifier(TWO, epsilon=20.0, max_depth=3).fit(X, Y)


@pytest.fixture
def nothing_asked(monkeypatch):
    def never(*given):
        pytest.fail("rows were asked")

    monkeypatch.setattr(in_process, "open_federation", never)


def accuracy(model, own) -> float:
    return float(np.mean(model.predict(FRESH[own]) == FRESH_Y[own]))


# ---- which groups ------------------------------------------------------------------------------


def test_a_bare_number_has_four_groups_of_its_public_range(model):
    """Point 11: not the hundred and more cells that a method reads it on."""
    said = hr.evaluate(model, FRESH, FRESH_Y, epsilon=40.0, by="age")
    assert list(said.groups) == [
        *("age < 25", "25 <= age < 50", "50 <= age < 75", "age >= 75", "age is missing"),
    ]
    middle = (AGE >= 25) & (AGE < 50)
    found = said.groups["25 <= age < 50"]["accuracy"].value
    assert found == pytest.approx(accuracy(model, middle), abs=0.03)
    assert said.groups["age < 25"].is_told


def test_a_number_is_cut_where_people_say_though_the_grid_is_not(model):
    assert 40.1 not in TWO.grids[0].edges
    said = hr.evaluate(model, FRESH, FRESH_Y, epsilon=40.0, by={"age": [40.1, 65]})
    assert list(said.groups)[:3] == ["age < 40.1", "40.1 <= age < 65", "age >= 65"]
    found = said.groups["40.1 <= age < 65"]["accuracy"].value
    own = (AGE >= 40.1) & (AGE < 65)
    assert found == pytest.approx(accuracy(model, own), abs=0.03)


@pytest.mark.parametrize(("feature", "cuts"), [
    (hr.Numeric("x", 0, 80), (20.0, 40.0, 60.0)),
    (hr.Numeric("x", 1, 10_000, spacing="log"), (10.0, 100.0, 1000.0)),
    (hr.Numeric("x", 0, 100, edges=(18, 65)), (18.0, 65.0)),
    (hr.Numeric("x", 0, 100, edges=(5, 10, 20, 30, 40, 60, 80, 90)), (20.0, 40.0, 80.0)),
], ids=["range", "log", "few edges", "edges"])  # fmt: skip
def test_cuts_of_a_bare_number_follow_from_the_schema(feature, cuts):
    assert usual_cuts(feature) == pytest.approx(cuts)


def test_held_out_records_stay_the_same_whatever_is_cut():
    """They are drawn on the model's own grid; a finer one would draw others."""
    model = hr.HistogramTreeClassifier(TWO, epsilon=20.0, max_depth=1, hold_out=2).fit(X, Y)
    whole, parts = rows_asked(
        lambda: (
            hr.evaluate(model, X, Y, epsilon=1.0),
            hr.evaluate(model, X, Y, epsilon=1.0, by={"age": [40.1]}),
        )
    )
    assert parts[0].schema.digest != whole[0].schema.digest
    assert len(contents(whole[0])) == len(contents(parts[0]))
    others = [[(codes[1:], y) for codes, y in contents(rows[0])] for rows in (whole, parts)]
    assert sorted(others[0]) == sorted(others[1])


# ---- what they cost ----------------------------------------------------------------------------


@pytest.mark.parametrize("schema", [TWO, VALUE], ids=["classes", "number"])
def test_all_records_have_a_part_of_their_own(schema):
    """Point 11: however many groups there are, their noise does not add up in "all"."""
    rows, y = sample(N, schema)
    kind = hr.TreeClassifier if schema.classes else hr.TreeRegressor
    model = kind(schema, epsilon=20.0).fit(rows, y)
    said = hr.evaluate(model, rows, y, epsilon=40.0, by="ward")
    assert [line.part for line in said.privacy_.spending] == [0.5, 0.5]
    assert said.privacy_.spent_fraction == 1.0
    assert said.parts[0][0].group == ALL_GROUPS
    assert len(said.groups) == TWO.grids[2].n_cells


# ---- when they are not asked -------------------------------------------------------------------


def test_groups_that_noise_hides_are_not_asked_and_not_paid(model):
    with pytest.warns(SignalWarning, match="groups of 'ward' were not asked, and their part of"):
        said = hr.evaluate(model, FRESH[:60], FRESH_Y[:60], epsilon=0.2, by="ward")
    assert said.groups == {}
    assert said.privacy_.spent_fraction == 0.5
    assert [line.rounds for line in said.privacy_.spending] == ["1"]


def test_groups_that_noise_hides_by_plan_are_refused_before_anything_is_charged(
    model, tmp_path, nothing_asked
):
    book = tmp_path / "all.ledger"
    how = {"epsilon": 0.2, "by": {"age": range(5, 100, 5)}, "ledger": book}
    with pytest.raises(
        ParameterError, match=r"20 groups of .* with about 200 records each.*Nothing was charg"
    ):
        hr.evaluate(model, FRESH, FRESH_Y, records=N, **how)
    assert not book.exists()
    with pytest.raises(ParameterError, match="records is 0; say about how many"):
        hr.evaluate(model, FRESH, FRESH_Y, records=0, **how)


def test_a_plan_of_less_noise_is_let_through(model):
    """Twin: the same groups at epsilon 40."""
    how = {"by": {"age": range(5, 100, 5)}, "records": N}
    assert len(hr.evaluate(model, FRESH, FRESH_Y, epsilon=40.0, **how).groups) == 21


@pytest.mark.parametrize(("by", "words"), [
    ("weight", "column 'weight' is not in the schema"),
    ({"ward": [1]}, "column 'ward' is no number"),
    ({"age": [65, 40]}, "give rising numbers above 0 and up to 100"),
    ({"age": [40, 165]}, "give rising numbers above 0 and up to 100"),
    ({"age": []}, "give rising numbers"),
    ({"age": ["x"]}, "give rising numbers"),
    ({"age": [float("nan")]}, "give rising numbers"),
    ({"age": [40], "dose": [1]}, "or one with its cuts"),
    (["age"], "or one with its cuts"),
], ids=str)  # fmt: skip
def test_what_cannot_be_cut_is_refused_before_anything_is_charged(model, by, words, nothing_asked):
    with pytest.raises(ParameterError, match=words):
        hr.evaluate(model, FRESH, FRESH_Y, epsilon=1.0, by=by)


def test_a_number_without_a_range_asks_for_cuts():
    with pytest.raises(
        ParameterError, match=r"no declared range.*by=\{'x': \[40, 65\]\}, or --by x=40"
    ):
        usual_cuts(hr.Numeric.open("x"))


# ---- the command -------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def place(tmp_path_factory, model):
    here = tmp_path_factory.mktemp("groups")
    model.save(here / "model.json")
    table = np.column_stack([FRESH.astype(object), FRESH_Y])
    rows = [",".join([*TWO.names, "outcome"]), *(",".join(map(str, row)) for row in table)]
    (here / "rows.csv").write_text("\n".join(rows), "utf-8")
    return here


def evaluated(place, *more):
    line = ["evaluate", f"{place}/model.json", "-d", f"{place}/rows.csv", "--target", "outcome"]
    return CliRunner().invoke(app, [*line, *more])


@pytest.mark.parametrize(("by", "first"), [("age=40,65", "age < 40"), ("age", "age < 25")])
def test_the_command_cuts_where_it_is_told(place, by, first):
    done = evaluated(place, "--epsilon", "40", "--by", by, "--json")
    assert done.exit_code == 0, done.output
    groups = [one["group"] for one in json.loads(done.stdout)["models"][0]]
    assert groups[:2] == [ALL_GROUPS, first]


def test_the_command_refuses_groups_that_noise_hides_by_plan(place):
    book = place / "all.ledger"
    more = ["--epsilon", "0.01", "--by", "age=40,65", "--records", "4000", "--ledger", str(book)]
    done = evaluated(place, *more)
    assert isinstance(done.exception, ParameterError)
    assert "are below the noise" in str(done.exception)
    assert not book.exists()


def test_cuts_are_typed_as_numbers_and_a_column_may_hold_the_sign():
    assert column_and_cuts("age=40,65.5", ["age"]) == {"age": [40.0, 65.5]}
    assert column_and_cuts("a=1", ["a=1", "a"]) == "a=1"
    assert column_and_cuts("a=1=2", ["a=1", "a"]) == {"a=1": [2.0]}
    with pytest.raises(ParameterError, match="write cuts as numbers: --by age=40,65"):
        column_and_cuts("age=old", ["age"])
