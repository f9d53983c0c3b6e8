"""Boosted trees for the time to an event: what goes in, what comes out, and where it is refused."""

from __future__ import annotations

import csv
import json
import re
import shlex
import tomllib
import warnings
from dataclasses import replace
from fractions import Fraction
from functools import partial
from hashlib import shake_256
from itertools import count
from types import SimpleNamespace

import duckdb
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.utils.estimator_checks import check_estimator
from typer.testing import CliRunner

import hedgerow as hr
from deployment.test_study_file import TEXT
from docs.make_methods import TimedByLabels
from hedgerow.cli.main import app
from hedgerow.data.sums import Answering
from hedgerow.deployment.approve import what_leaves
from hedgerow.deployment.site_state import DataPlace
from hedgerow.deployment.study_file import StudyFile
from hedgerow.deployment.verify import problems_of
from hedgerow.errors import DataError, DataWarning, ParameterError, SignalWarning
from hedgerow.methods.blocks.private_bins import NoisyCount
from hedgerow.methods.blocks.target import RecordCount
from hedgerow.methods.dry_run import forecast
from hedgerow.methods.survival import baseline, interval_edges
from hedgerow.models.losses import SquaredLoss, sigmoid
from hedgerow.models.survival import concordance, interval_middles
from hedgerow.privacy.mechanisms import coins
from hedgerow.privacy.queries import CurveNewton, EventCounts, SumQuery, Whole
from hedgerow.schema.features import SMALLEST_TIME
from hedgerow.schema.regions import EVERYONE
from support.examples import BY_TIME, BY_VALUE, STEP_ON_TIMES, rows_of

N = 3000
DEATH = hr.Survival(time="years", event="death", horizon=20, unit="years")
SCHEMA = hr.Schema({"age": (-5, 5), "dose": (-5, 5), "ward": ["n", "s", "w"]}, survival=DEATH)


def table(n: int = N, seed: int = 0) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    age, dose = rng.normal(size=(2, n))
    times = rng.exponential(np.exp(2.0 - 0.9 * age - 0.4 * (dose > 0)))
    last = rng.uniform(0.0, 25.0, n)
    years, death = np.minimum(times, last), (times <= last).astype(int)
    ward = rng.choice(["n", "s", "w"], n)
    return pd.DataFrame({"age": age, "dose": dose, "ward": ward, "years": years, "death": death})


ROWS = table()
X, Y = ROWS[["age", "dose", "ward"]], ROWS[["years", "death"]]
STRUCTURED = np.array(
    list(zip(ROWS["death"] == 1, ROWS["years"], strict=True)), [("death", "?"), ("years", "f8")]
)


def plain(**options):
    """Without noise, so that two ways to the same rows give the same model."""
    return hr.SurvivalBoostedTrees(
        SCHEMA, dp_model="none", random_state=0, **{"n_estimators": 8, **options}
    )


@pytest.fixture(scope="module")
def fitted():
    return hr.SurvivalBoostedTrees(SCHEMA, epsilon=20.0, random_state=0, n_estimators=12).fit(X, Y)


# ------------------------------------------------------------------------------------- what goes in
@pytest.fixture(scope="module")
def expected():
    return plain().fit(X, Y).model_.to_dict()


def test_structured_arrays_and_frames_are_one(expected):
    assert plain().fit(X, STRUCTURED).model_.to_dict() == expected
    turned = STRUCTURED[["years", "death"]]
    assert plain().fit(X, turned).model_.to_dict() == expected


def test_columns_of_a_table_a_file_and_a_database_are_read_by_the_schemas_names(expected, tmp_path):
    path = tmp_path / "rows.csv"
    ROWS.to_csv(path, index=False, float_format="%.17g")
    assert plain().fit(ROWS, target="years").model_.to_dict() == expected
    assert plain().fit(path).model_.to_dict() == expected
    connection = database_of(ROWS)
    for push_down in (False, True):
        model = plain().fit(connection, sql="SELECT * FROM records", push_down=push_down)
        assert model.model_.to_dict() == expected


def test_partitions_of_a_cluster_are_read_by_the_schemas_names(expected):
    dask = pytest.importorskip("dask.dataframe")
    partitions = dask.from_pandas(ROWS, npartitions=3)
    assert plain().fit(partitions).model_.to_dict() == expected


def test_several_sites_learn_what_one_would(expected):
    sites = np.arange(N) % 3
    assert plain().fit(X, Y, site=sites, sites=range(3)).model_.to_dict() == expected


def test_zero_is_a_time_and_the_horizon_ends_follow_up():
    from hedgerow.data.reading.encoding import encode, signed_times

    found = signed_times([0.0, 0.0, 3.0, np.nan, -1.0, 3.0], [1, 0, 1, 1, 1, 2])
    assert found[:3].tolist() == [SMALLEST_TIME, -SMALLEST_TIME, 3.0]
    assert np.isnan(found[3:]).all()
    rows = ROWS.head(3).assign(years=[30.0, 30.0, 20.0], death=[1, 0, 1])
    read = encode(rows, SCHEMA, target="years")
    assert read.y is not None
    assert read.y.tolist() == [-20.0, -20.0, 20.0]
    assert read.clamped["years"] == 2


def test_arrow_columns_are_an_outcome(expected):
    model = plain().fit(pa.Table.from_pandas(X), pa.Table.from_pandas(Y))
    assert model.model_.to_dict() == expected


def test_a_row_without_a_usable_outcome_is_left_out_whatever_the_others_hold():
    from hedgerow.data.reading.encoding import encode

    rows = ROWS.head(5).assign(years=[1.0, -1.0, np.nan, 1.0, 1.0], death=[1, 1, 1, 2, np.nan])
    read = encode(rows, SCHEMA, target="years")
    assert (read.n, read.skipped) == (1, 4)


REFUSED = {
    "competing risks": ({"death": 2}, "Competing risks are not supported"),
    "a negative time": ({"years": -1.0}, "use times from 0 on"),
}


@pytest.mark.parametrize(("change", "words"), REFUSED.values(), ids=REFUSED)
def test_owners_are_told_what_cannot_be_an_outcome(change, words, tmp_path):
    wrong = ROWS.head(20).assign(**change)
    with pytest.raises(DataError, match=words):
        plain().fit(wrong[X.columns], wrong[Y.columns])
    wrong.to_csv(tmp_path / "rows.csv", index=False)
    with pytest.raises(DataError, match=words):
        plain().fit(tmp_path / "rows.csv")


def database_of(rows: pd.DataFrame) -> duckdb.DuckDBPyConnection:
    connection = duckdb.connect()
    connection.register("given", rows)
    connection.execute("CREATE TABLE records AS SELECT * FROM given")
    return connection


def test_competing_risks_in_a_database_are_named_too():
    connection = database_of(ROWS.assign(death=ROWS["death"] * 2))
    with pytest.raises(DataError, match=r"'years' and 'death'.*Competing risks are not supported"):
        plain().fit(connection, sql="SELECT * FROM records", push_down=True)


@pytest.mark.parametrize("words", [("FALSE", "TRUE"), ("F", "T"), ("no", "yes")])
def test_truth_values_are_events_however_they_are_written(words, expected, tmp_path):
    """R writes TRUE; every way to the rows reads it."""
    rows = ROWS.assign(death=np.array(words)[ROWS["death"]])
    rows.to_csv(tmp_path / "rows.csv", index=False, float_format="%.17g")
    read = [plain().fit(X, rows[Y.columns]), plain().fit(tmp_path / "rows.csv")]
    query = {"sql": "SELECT * FROM records", "push_down": True}
    for model in [*read, plain().fit(database_of(rows), **query)]:
        assert model.model_.to_dict() == expected


def test_a_schema_declares_other_words_for_an_event(expected):
    """As in R's lung: 1 is censored, 2 is dead."""
    words = {"kind": "boolean", "true": ["2"], "false": ["1"]}
    outcome = hr.Survival("years", "death", 20, "years", event_parse=words)
    model = plain().set_params(schema=replace(SCHEMA, target=outcome))
    assert model.fit(X, Y.assign(death=Y["death"] + 1)).model_.to_dict() == expected


def test_late_entry_and_plain_numbers_are_refused():
    with pytest.raises(DataError, match="Late entry"):
        plain().fit(X, Y.assign(entry=0.0))
    with pytest.raises(DataError, match="structured"):
        plain().fit(X, ROWS["years"])
    with pytest.raises(ParameterError, match="leave target out"):
        plain().fit(ROWS, target="death")


def test_each_estimator_is_for_its_own_kind_of_outcome():
    with pytest.raises(ParameterError, match="the time to an event"):
        hr.ForestRegressor(SCHEMA).fit(X, ROWS["years"])
    number = hr.Schema({"age": (-5, 5)}, target=(0, 20))
    with pytest.raises(ParameterError, match="survival=Survival"):
        hr.SurvivalBoostedTrees(number).fit(X[["age"]], STRUCTURED)


def test_a_schema_with_survival_survives_its_file_and_names_its_problems():
    assert hr.Schema.from_toml(SCHEMA.to_toml()) == SCHEMA
    assert SCHEMA.digest != hr.Schema(SCHEMA.features, target=(-20, 20)).digest
    wrong = {
        "one column twice": lambda: hr.Survival("t", "t", 5),
        "no horizon": lambda: hr.Survival("t", "e", 0),
        "a feature too": lambda: hr.Schema({"years": (0, 1)}, survival=DEATH),
        "two outcomes": lambda: hr.Schema({"x": (0, 1)}, target=(0, 1), survival=DEATH),
        "an unknown entry": lambda: hr.Schema.from_toml(SCHEMA.to_toml() + "\n[survival.entry]\n"),
    }
    for make in wrong.values():
        with pytest.raises(ParameterError):
            make()


# ------------------------------------------------------------------------------------ what is asked
def test_times_are_counted_by_interval_and_event():
    signed = [0.5, 1.0, -1.0, 1.5, -2.5, 2.6, -9.0]
    site = Answering(rows_of([((0, 0, 0), 0, y) for y in signed], BY_TIME), BY_TIME)
    query = SumQuery(EVERYONE, EventCounts((1.0, 2.5)), Whole(), Fraction(1, 2))
    assert site.integers(query, 1).tolist() == [1, 1, 1, 2, 1, 1]


def test_a_step_on_weights_is_refused_for_other_losses():
    def asked(loss):
        return CurveNewton(STEP_ON_TIMES.curves, 0.5, 2.0, STEP_ON_TIMES.weights, 0.3, loss)

    assert asked(STEP_ON_TIMES.loss).incompatibility(BY_TIME) is None
    assert asked(STEP_ON_TIMES.loss).incompatibility(BY_VALUE)
    assert "no bound" in str(asked(SquaredLoss(-1.0, 3.0, 1.0)).incompatibility(BY_VALUE))


def test_edges_of_time_are_distinct_even_where_all_events_share_a_cell():
    ends, counts = np.arange(1.0, 7.0), np.zeros((2, 6))
    counts[1, 2] = counts[0, 5] = 500.0
    counted = NoisyCount(RecordCount(1000.0, 1.0, Fraction(1, 500)), 1.0)
    edges = interval_edges(ends, counts, counted, Fraction(7, 100))
    assert list(edges) == sorted(set(edges))


def test_all_events_in_one_cell_are_learned_from():
    y = Y.assign(years=np.where(Y["death"] == 1, 1.0, 19.0))
    model = hr.SurvivalBoostedTrees(SCHEMA, epsilon=20.0, n_estimators=4, random_state=0).fit(X, y)
    assert np.isfinite(model.predict_survival_function(X.head(5), return_array=True)).all()


def test_the_baseline_meets_the_marginal_curve():
    cuts, parts = (-1.0, 0.0, 2.0), np.array([0.1, 0.4, 0.3, 0.2])
    odds = baseline((0.1, 0.4, 0.7), cuts, parts)
    means = sigmoid(np.log(np.array(odds))[:, None] + interval_middles(cuts)) @ parts
    np.testing.assert_allclose(means, [0.1, 0.4, 0.7], atol=1e-6)


# ----------------------------------------------------------------------------------- what comes out
def test_risk_ranks_and_curves_fall(fitted):
    test = table(1500, seed=1)
    assert fitted.score(test[X.columns], test[Y.columns]) > 0.68
    found = fitted.predict_survival_function(test[X.columns], return_array=True)
    assert found.shape == (1500, len(fitted.unique_times_))
    assert ((found >= 0) & (found <= 1)).all()
    assert (np.diff(found, axis=1) <= 0).all()
    order = np.argsort(fitted.predict(test[X.columns]))
    assert found[order[-1], 0] <= found[order[0], 0]


def test_functions_of_time_agree_with_their_arrays(fitted):
    some, times = X.head(4), fitted.unique_times_
    survival = fitted.predict_survival_function(some)
    hazard = fitted.predict_cumulative_hazard_function(some)
    found = fitted.predict_survival_function(some, return_array=True)
    for k in range(4):
        np.testing.assert_allclose(survival[k](times), found[k])
        np.testing.assert_allclose(np.exp(-hazard[k](times)), found[k])
        assert survival[k](0.0) == 1.0
        assert hazard[k](0.0) == 0.0
    np.testing.assert_allclose(fitted.predict_proba_by(some, times), 1.0 - found)
    np.testing.assert_allclose(fitted.predict_proba_by(some, times[2]), 1.0 - found[:, 2])


@pytest.mark.parametrize("time", [-1.0, float("nan"), 20.5, [1.0, float("inf")]])
def test_nothing_is_said_of_times_beyond_the_horizon(fitted, time):
    curve = fitted.predict_survival_function(X.head(1))[0]
    for ask in (partial(fitted.predict_proba_by, X.head(1)), curve):
        with pytest.raises(ParameterError, match="use times from 0 to 20, the horizon"):
            ask(time)
    assert curve.domain == (0.0, 20.0)


def test_predicted_chances_are_near_those_that_happen(fitted):
    """Half-way, over all records: within a twentieth."""
    signed = np.where(Y["death"] == 1, Y["years"], -Y["years"])
    place = len(fitted.unique_times_) // 2
    t = fitted.unique_times_[place]
    said = fitted.predict_proba_by(X, t)
    known = (signed > 0) | (np.abs(signed) > t)
    happened = (signed > 0) & (signed <= t)
    assert abs(said[known].mean() - happened[known].mean()) < 0.1
    assert concordance(said, signed) > 0.68


def test_a_saved_model_predicts_as_before(fitted, tmp_path):
    fitted.save(tmp_path / "model.json")
    again = hr.load(tmp_path / "model.json")
    np.testing.assert_array_equal(
        again.predict_survival_function(X.head(9), return_array=True),
        fitted.predict_survival_function(X.head(9), return_array=True),
    )
    assert again.curve_ == fitted.curve_


def test_staged_models_keep_the_curve(fitted):
    assert len(fitted.staged(3).model_.score.trees) == 3
    assert fitted.staged(3).predict_survival_function(X.head(2), return_array=True).shape[0] == 2


def test_scikit_learns_tools_take_it():
    model = plain(n_estimators=2)
    assert (cross_val_score(model, X, STRUCTURED, cv=2) > 0.6).all()
    search = GridSearchCV(model, {"max_depth": [1, 2]}, cv=2).fit(X, STRUCTURED)
    assert search.best_params_["max_depth"] in (1, 2)
    assert clone(model).get_params()["n_estimators"] == 2


@pytest.fixture
def metrics():
    return pytest.importorskip("sksurv.metrics", reason="scikit-survival is not installed")


def test_scikit_survivals_metrics_take_it(fitted, metrics):
    risk, event, time = fitted.predict(X), STRUCTURED["death"], STRUCTURED["years"]
    expected = metrics.concordance_index_censored(event, time, risk)[0]
    assert fitted.score(X, STRUCTURED) == pytest.approx(expected, abs=1e-9)
    times = np.linspace(0.5, 15.0, 10)
    said = np.stack([f(times) for f in fitted.predict_survival_function(X)])
    assert 0.0 < metrics.integrated_brier_score(STRUCTURED, STRUCTURED, said, times) < 0.2
    assert metrics.concordance_index_ipcw(STRUCTURED, STRUCTURED, risk, tau=15.0)[0] > 0.65
    assert metrics.cumulative_dynamic_auc(STRUCTURED, STRUCTURED, risk, times)[1] > 0.7


def test_scikit_survivals_own_checks_of_functions_pass(fitted):
    testing = pytest.importorskip("sksurv.testing", reason="scikit-survival is not installed")
    curves = fitted.predict_survival_function(X, return_array=True)
    testing.assert_survival_function_properties(curves)
    hazards = fitted.predict_cumulative_hazard_function(X, return_array=True)
    testing.assert_chf_properties(hazards)
    with pytest.raises(AssertionError):  # negative control: a curve that rises
        testing.assert_survival_function_properties(curves[:, ::-1])


def test_scikit_survivals_scorers_search_over_it(metrics):
    for scorer in (
        metrics.as_integrated_brier_score_scorer,
        metrics.as_cumulative_dynamic_auc_scorer,
    ):
        scored = scorer(plain(n_estimators=2), times=np.linspace(0.5, 15.0, 5))
        search = GridSearchCV(scored, {"estimator__max_depth": [1, 2]}, cv=2).fit(X, STRUCTURED)
        assert np.isfinite(search.cv_results_["mean_test_score"]).all()


@pytest.mark.slow
def test_scikit_learns_own_checks_pass_once_labels_are_times():
    """They know no structured `y`: their numbers become times of events, one by one."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        results = check_estimator(TimedByLabels(dp_model="none", n_estimators=2), on_fail=None)
    failed = {r["check_name"]: str(r["exception"]) for r in results if r["status"] == "failed"}
    assert failed == {}
    assert sum(r["status"] == "passed" for r in results) > 30


# ----------------------------------------------------------------------------- little to learn from
def test_few_records_are_said_and_noise_alone_gives_one_curve(monkeypatch):
    """With known noise: in one fit of some 250 the count of 300 records stands out."""
    numbers = count()
    known = SimpleNamespace(urandom=lambda n: shake_256(str(next(numbers)).encode()).digest(n))
    monkeypatch.setattr(coins, "os", known)
    with pytest.warns(SignalWarning, match="few records"):
        hr.SurvivalBoostedTrees(SCHEMA, epsilon=1.0, random_state=0, n_estimators=4).fit(
            X.head(800), Y.head(800)
        )
    with pytest.warns(SignalWarning, match="one survival curve for everybody"):
        model = hr.SurvivalBoostedTrees(SCHEMA, epsilon=0.05, random_state=0).fit(
            X.head(300), Y.head(300)
        )
    assert len(set(model.predict(X.head(50)))) == 1
    found = hr.evaluate(model, X, Y, epsilon=8.0)
    assert found["grouped_c_index"].value == pytest.approx(0.5, abs=0.02)
    assert len(found.parts[0][0].calibration) == 1
    assert np.isfinite(model.predict_survival_function(X.head(2), return_array=True)).all()


def test_enough_records_are_not_warned_of():
    with warnings.catch_warnings():
        warnings.simplefilter("error", SignalWarning)
        hr.SurvivalBoostedTrees(SCHEMA, epsilon=8.0, random_state=0, n_estimators=4).fit(X, Y)


def test_without_a_schema_the_horizon_is_read_and_nothing_is_promised():
    with pytest.warns(hr.PrivacyWarning):
        model = hr.SurvivalBoostedTrees(epsilon=8.0, n_estimators=4).fit(X, STRUCTURED)
    assert model.schema_.survival.horizon == pytest.approx(ROWS["years"].max())
    assert model.schema_.unconfirmed


# --------------------------------------------------------------------------------- around the model
def test_evaluation_by_one_table_is_near_the_truth(fitted):
    test = table(4000, seed=2)
    found = hr.evaluate(fitted, test[X.columns], test[Y.columns], epsilon=20.0)
    truth = fitted.score(test[X.columns], test[Y.columns])
    assert truth - 0.02 < found["grouped_c_index"].value < truth + 0.01
    assert found["grouped_c_index"].low < truth < found["grouped_c_index"].high + 0.01
    assert 0.0 < found["integrated_brier"].value < 0.25
    assert len(found.parts[0][0].calibration) > 4
    assert len(found.privacy_.spending) == 1
    assert hr.Evaluation.from_dict(found.to_dict())["integrated_brier"] == found["integrated_brier"]


def test_records_that_were_held_out_are_evaluated():
    model = hr.SurvivalBoostedTrees(SCHEMA, epsilon=8.0, hold_out=4, n_estimators=4, random_state=0)
    found = hr.evaluate(model.fit(X, Y), X, Y, epsilon=8.0)
    assert found["grouped_c_index"].value > 0.55


def test_candidates_are_compared():
    models = [hr.SurvivalBoostedTrees(SCHEMA, epsilon=8.0, n_estimators=k) for k in (2, 4)]
    found = hr.select_model(models, X, STRUCTURED, epsilon=8.0, delta=1e-6)
    assert found.chosen.predict(X.head(2)).shape == (2,)


def test_a_plan_speaks_of_concordance():
    told = hr.plan(SCHEMA, 400, epsilon=5.0, delta=1e-6, repeats=1)
    assert (told.estimator, told.measure) == ("SurvivalBoostedTrees", "C-index")


def test_the_command_line_fits_and_predicts(tmp_path):
    rows, schema, model = tmp_path / "rows.csv", tmp_path / "schema.toml", tmp_path / "model.json"
    ROWS.to_csv(rows, index=False)
    schema.write_text(SCHEMA.to_toml())
    run = CliRunner()
    fit = ["fit", "--data", str(rows), "--schema", str(schema), "--epsilon", "8"]
    fit += ["--output", str(model)]
    done = run.invoke(app, fit)
    assert done.exit_code == 0, done.output
    done = run.invoke(app, ["predict", str(model), str(rows), "--output", str(tmp_path / "p.csv")])
    assert done.exit_code == 0, done.output
    with (tmp_path / "p.csv").open() as file:
        lines = list(csv.DictReader(file))
    loaded = hr.load(model)
    assert len(lines) == N
    assert float(lines[0]["risk"]) == pytest.approx(loaded.predict(X.head(1))[0], rel=1e-4)
    last = f"S({loaded.unique_times_[-1]:g})"
    said = loaded.predict_survival_function(X.head(1), return_array=True)[0, -1]
    assert float(lines[0][last]) == pytest.approx(said, rel=1e-4)
    done = run.invoke(app, ["predict", str(model), str(rows), "--time", "5", "--time", "7.5"])
    assert done.output.startswith("risk,S(5),S(7.5)\n")
    done = run.invoke(app, ["predict", str(model), str(rows), "--time", "21"])
    assert "use times from 0 to 20" in str(done.exception)


@pytest.fixture
def files(tmp_path):
    """Rows, and the schema that names their columns of time and event."""
    rows, schema = tmp_path / "rows.csv", tmp_path / "schema.toml"
    ROWS.to_csv(rows, index=False)
    schema.write_text(SCHEMA.to_toml())
    return str(rows), str(schema)


COMMANDS = {
    "fit, with records held out": "fit --data {0} --schema {1} --hold-out 4 --output {2}/m.json",
    "select": "select 'SurvivalBoostedTrees n_estimators=2' 'SurvivalBoostedTrees n_estimators=4' "
    "--data {0} --schema {1} --output {2}/m.json",
    "plan, with proxy rows": "plan {1} --rows 400 --proxy {0} --public --repeats 1 --epsilon 8",
}


@pytest.mark.parametrize("command", COMMANDS.values(), ids=COMMANDS)
def test_commands_read_time_and_event_where_the_schema_says(command, files, tmp_path):
    done = CliRunner().invoke(app, shlex.split(command.format(*files, tmp_path)))
    assert done.exit_code == 0, done.output


def test_the_command_evaluates_without_a_named_column(fitted, files, tmp_path):
    fitted.save(tmp_path / "model.json")
    words = ["evaluate", str(tmp_path / "model.json"), "--data", files[0], "--epsilon", "8"]
    assert "grouped_c_index" in CliRunner().invoke(app, words).output


def test_a_schema_of_times_is_drafted_and_its_horizon_confirmed(files, tmp_path):
    run, path = CliRunner(), tmp_path / "drafted.toml"
    words = ["schema", "draft", files[0], "--target", "years", "--event", "death"]
    assert run.invoke(app, [*words, "--output", str(path)]).exit_code == 0
    drafted = hr.Schema.from_toml(path)
    assert drafted.survival.columns == ("years", "death")
    assert drafted.survival.horizon >= ROWS["years"].max()
    assert "death" not in drafted.columns
    answers = "\n".join(["-5 5", "-5 5", "n, s, w", "30"])
    done = run.invoke(app, ["schema", "confirm", str(path), "--by", "A. Ames"], input=answers)
    assert "horizon: 25" in done.output
    assert "all confirmed" in done.output
    assert hr.Schema.from_toml(path).survival.horizon == 30.0
    with pytest.raises(ParameterError, match="name the column of times"):
        hr.draft_schema(ROWS, event="death")
    with pytest.raises(DataError, match="no column 'dead'"):
        hr.draft_schema(ROWS, "years", event="dead")


def test_a_check_of_the_schema_tells_of_times_that_cannot_be_and_that_are_late(files, tmp_path):
    for name, change in {"bad": {"death": 2}, "late": {"years": ROWS["years"] * 9}}.items():
        ROWS.assign(**change).to_csv(tmp_path / f"{name}.csv", index=False)
    for name, words in {"bad": "no usable label", "late": "'years'"}.items():
        done = CliRunner().invoke(app, ["schema", "check", files[1], str(tmp_path / f"{name}.csv")])
        assert done.exit_code == 1
        assert words in done.output


def test_times_beyond_the_horizon_are_warned_of_wherever_they_are_read(tmp_path):
    """Years that are days after all: a file warns as two columns do."""
    late = ROWS.assign(years=ROWS["years"] * 9)
    late.to_csv(tmp_path / "late.csv", index=False)
    for rows in ((X, late[["years", "death"]]), (tmp_path / "late.csv",)):
        with pytest.warns(DataWarning, match="outside the range 0 to 20"):
            plain(n_estimators=1).fit(*rows)


def test_a_site_reports_the_schemas_column_of_times(tmp_path):
    place = DataPlace(str(tmp_path / "rows.csv"), "target")
    assert place.label(SCHEMA) == "years"
    assert place.label(hr.Schema({"x": (0, 1)}, target=(0, 1))) == "target"


def test_explanations_speak_of_the_event(fitted):
    (words,) = hr.explain(fitted, X.head(1))
    assert re.match(r"no event until [0-9.]+ years with probability", words)
    assert "log-odds of an event" in words
    assert "Nobody's time leaves a site" in str(fitted.privacy_)


def test_saved_files_have_their_published_form(fitted, tmp_path):
    pytest.importorskip("jsonschema")
    fitted.save(tmp_path / "model.json")
    assert problems_of("model", json.loads((tmp_path / "model.json").read_text())) == []
    whole = tomllib.loads(SCHEMA.to_toml())
    assert problems_of("schema", whole) == []
    assert problems_of("schema", whole | {"classes": ["a", "b"]})


def test_a_study_file_names_it_and_its_dry_run_goes_through(tmp_path):
    old = '[schema]\nclasses = ["no", "yes"]\n'
    new = '[schema.survival]\ntime = "years"\nevent = "death"\nhorizon = 20\n'
    text = TEXT.replace("HistogramTreeClassifier", "SurvivalBoostedTrees").replace(old, new)
    text = text.replace("max_depth = 2", "max_depth = 2\nn_estimators = 4")
    path = tmp_path / "study.toml"
    path.write_text(text, encoding="utf-8")
    agreed = StudyFile.read(path)
    assert agreed.study.schema.survival.columns == ("years", "death")
    told = forecast(agreed.study, agreed.method)
    assert 0 < told.rounds <= told.most_rounds
    assert (
        "leaves",
        "masked noisy sums: events and censored records per interval of time, in total",
    ) in what_leaves(agreed)
