"""What goes wrong without an error is said: values, names, tasks, sites, searches, noise."""

from __future__ import annotations

import json
import pickle
import re
import sys
import warnings

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from sklearn.model_selection import GridSearchCV
from sklearn.preprocessing import StandardScaler

import hedgerow as hr
from hedgerow.errors import (
    BudgetExceeded,
    DataError,
    DataWarning,
    ParameterError,
    PrivacyWarning,
    QualityWarning,
)
from methods.test_estimators import EACH, ESTIMATORS
from support.worlds import TWO, VALUE

N = 200
SCHEMA = hr.Schema(
    (
        hr.Numeric("glucose", 40, 240),
        hr.Numeric("mass", 10, 70),
        hr.Categorical("ward", ("north", "south")),
    ),
    classes=("no", "yes"),
)


def rows() -> tuple[pd.DataFrame, np.ndarray]:
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(
        {
            "glucose": rng.uniform(60, 220, N),
            "mass": rng.uniform(18, 60, N),
            "ward": rng.choice(["north", "south"], N),
        }
    )
    return frame, np.where(frame.glucose > 140, "yes", "no")


X, Y = rows()


def tree(schema=SCHEMA, **more) -> hr.HistogramTreeClassifier:
    return hr.HistogramTreeClassifier(schema, **{"epsilon": 50.0, "max_depth": 1, **more})


def said(action) -> list[str]:
    """The data warnings of an action; all others are errors."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("error")
        warnings.simplefilter("always", DataWarning)
        action()
    return [str(one.message) for one in caught]


# ---- values --------------------------------------------------------------------------------------

STRANGE = {
    "after a scaler": (
        X.assign(glucose=StandardScaler().fit_transform(X[["glucose"]])[:, 0]),
        r"'glucose': 200 of 200 values \(100.0%\) are outside the range 40 to 240",
    ),
    "units too small": (X.assign(mass=X.mass * 1000), "'mass': 200 of 200 values"),
    "units too large": (
        X.assign(glucose=X.glucose / 1000 + 40),
        r"'glucose': all values are between 40\.\d+ and 40\.\d+, a small part of the range",
    ),
    "another spelling": (
        X.assign(ward=X.ward.str.upper()),
        r"'ward': 200 of 200 values .* are not among the 2 listed values \(north, south\)",
    ),
    "an empty column": (X.assign(mass=np.nan), "'mass': all 200 values are missing"),
}


@pytest.mark.parametrize("name", STRANGE)
def test_values_that_do_not_fit_are_told_at_fit_and_at_predict(name):
    strange, words = STRANGE[name]
    with pytest.warns(DataWarning, match=words):
        tree().fit(strange, Y)
    model = tree().fit(X, Y)
    with pytest.warns(DataWarning, match=words):
        model.predict(strange)


def test_rows_that_fit_are_silent_at_fit_and_at_predict():
    assert said(lambda: tree().fit(X, Y).predict(X)) == []


def test_one_percent_is_silent_and_two_are_not():
    two, four = (X.assign(mass=[999.0] * n + X.mass.tolist()[n:]) for n in (2, 4))
    assert said(lambda: tree().fit(two, Y)) == []
    (told,) = said(lambda: tree().fit(four, Y))
    assert "column 'mass': 4 of 200 values (2.0%) are outside the range 10 to 70" in told


def test_targets_outside_their_range_are_told():
    schema = hr.Schema(SCHEMA.features, target=hr.Target(0, 100))
    model = hr.TreeRegressor(schema, epsilon=50.0, max_depth=1)
    (told,) = said(lambda: model.fit(X, X.glucose))
    assert "column 'label':" in told
    assert "outside the range 0 to 100" in told


def test_a_report_counts_each_column_over_all_holders():
    odd = X.copy()
    odd.loc[:2, "mass"] = [999.0, -5.0, np.nan]
    odd.loc[:1, "ward"] = ["elsewhere", None]
    report = tree().fit(odd, Y, site=np.arange(N) % 3).data_report_
    mass, ward = report["mass"], report["ward"]
    assert (mass.rows, mass.clamped, mass.unknown, mass.missing) == (N, 2, 0, 1)
    assert (ward.rows, ward.clamped, ward.unknown, ward.missing) == (N, 0, 1, 1)
    assert "mass" in str(report)


def test_a_report_stays_with_the_owner(tmp_path):
    """The same parameters and released numbers with and without strange values: no count shows."""
    odd = X.assign(mass=[-77.25] * 37 + X.mass.tolist()[37:])
    model = tree().fit(odd, Y)
    assert model.data_report_["mass"].clamped == 37
    model.save(tmp_path / "model.json")
    text = (tmp_path / "model.json").read_text()
    assert "data_report" not in text
    assert "clamped" not in text
    assert not hasattr(pickle.loads(pickle.dumps(model)), "data_report_")
    assert not hasattr(hr.load(tmp_path / "model.json"), "data_report_")
    assert set(json.loads(text)["content"]) == {
        *("estimator", "parameters", "schema", "classes", "columns"),
        *("model", "leaves", "privacy", "run"),
    }


# ---- names ---------------------------------------------------------------------------------------


class Interchanged:
    """Nothing but the dataframe interchange protocol."""

    def __init__(self, frame: pd.DataFrame) -> None:
        self._frame = frame

    def __dataframe__(self, *args: object, **more: object) -> object:
        return self._frame.__dataframe__(*args, **more)


TURNED = X[["ward", "mass", "glucose"]]
TABLES = {
    "pandas": TURNED,
    "arrow": pa.table({name: TURNED[name].tolist() for name in TURNED}),
    "polars": pl.DataFrame({name: TURNED[name].tolist() for name in TURNED}),
    "interchange": Interchanged(TURNED),
}


@pytest.mark.filterwarnings("ignore:The Dataframe Interchange Protocol:DeprecationWarning")
@pytest.mark.filterwarnings("ignore:.*__dataframe__.*")
@pytest.mark.parametrize("kind", TABLES)
def test_columns_are_known_by_their_names(kind):
    model = tree().fit(X, Y)
    assert np.array_equal(model.predict_proba(TABLES[kind]), model.predict_proba(X))
    again = tree(dp_model="none").fit(TABLES[kind], Y)
    assert np.array_equal(again.predict_proba(X), tree(dp_model="none").fit(X, Y).predict_proba(X))
    assert again.feature_names_in_.tolist() == list(SCHEMA.names)
    shared = tree().fit(TABLES[kind], Y, site=np.arange(N) % 3)
    assert shared.privacy_.n_sites == 3


def test_names_are_those_of_columns_that_are_used():
    model = tree().fit(X.assign(visit=1.0), Y)
    assert model.feature_names_in_.tolist() == list(SCHEMA.names)
    assert model.n_features_in_ == len(model.feature_names_in_)
    assert not hasattr(model.fit(X.to_numpy(), Y), "feature_names_in_")


def test_an_array_after_a_named_fit_gets_scikit_learns_warning():
    model = tree().fit(X, Y)
    with pytest.warns(UserWarning, match="X does not have valid feature names, but Histogram"):
        model.predict(X.to_numpy())


def test_an_array_that_is_reordered_is_refused_by_its_values():
    model = tree().fit(X.to_numpy(), Y)
    with pytest.raises(DataError, match=r"'glucose': 'north' is not a number|'south' is not"):
        model.predict(TURNED.to_numpy())


def test_a_lazy_frame_is_refused_with_what_to_call():
    with pytest.raises(DataError, match=r"call .collect"):
        tree().fit(TABLES["polars"].lazy(), Y)


# ---- searches ------------------------------------------------------------------------------------


def test_a_search_is_told_with_its_fits_and_their_epsilon():
    search = GridSearchCV(tree(epsilon=2.0), {"max_depth": [1, 2]}, cv=3)
    words = r"6 fits .*2 settings, 3 folds.* epsilon = 12, delta = 6e-6 in total"
    with pytest.warns(PrivacyWarning, match=words):
        search.fit(X, Y)


def test_a_search_over_epsilon_adds_each(recwarn):
    warnings.simplefilter("always", PrivacyWarning)
    GridSearchCV(tree(), {"epsilon": [1.0, np.float64(4.0)]}, cv=2).fit(X, Y)
    told = [str(w.message) for w in recwarn if w.category is PrivacyWarning]
    assert len(told) == 1
    assert "4 fits" in told[0]
    assert "epsilon = 10, delta = 4e-6 in total" in told[0]


def test_a_search_over_delta_adds_each(recwarn):
    warnings.simplefilter("always", PrivacyWarning)
    GridSearchCV(tree(epsilon=1.0), {"delta": [1e-6, 3e-6]}, cv=2).fit(X, Y)
    told = [str(w.message) for w in recwarn if w.category is PrivacyWarning]
    assert "with epsilon = 4, delta = 8e-6 in total" in told[0]


def test_a_search_without_noise_spends_nothing_and_says_nothing():
    GridSearchCV(tree(dp_model="none"), {"max_depth": [1, 2]}, cv=2).fit(X, Y)


def test_a_search_that_a_ledger_has_no_room_for_spends_nothing(tmp_path):
    book = hr.Ledger(tmp_path / "fits.ledger", epsilon=10.0, delta=1e-3)
    search = GridSearchCV(
        tree(epsilon=2.0, ledger=book), {"max_depth": [1, 2]}, cv=3, error_score="raise"
    )
    with pytest.raises(BudgetExceeded, match=r"this search, with 6 fits to make, .*epsilon = 12"):
        search.fit(X, Y)
    assert book.total().fits == 0
    small = GridSearchCV(tree(epsilon=2.0, ledger=book), {"max_depth": [1, 2]}, cv=2)
    assert small.fit(X, Y).best_estimator_.privacy_.total.fits == 5


@pytest.mark.parametrize("epsilon", [np.int64(3), np.float32(3), np.float64(3)])
def test_an_epsilon_of_numpy_works_and_leaves_no_trace(epsilon):
    assert tree(epsilon=epsilon).fit(X, Y).privacy_.epsilon == 3.0
    assert type(tree(epsilon=3).fit(X, Y).privacy_.epsilon) is float


# ---- tasks, sites, files -----------------------------------------------------------------------


@EACH
def test_a_schema_of_the_other_task_is_refused(kind):
    regression = kind.__name__.endswith("Regressor")
    schema, says = (
        (TWO, "predicts a number.*classes") if regression else (VALUE, "predicts classes")
    )
    with pytest.raises(ParameterError, match=says):
        kind(schema).fit(X, Y if not regression else X.glucose)


def test_a_party_that_is_a_column_name_is_refused_with_the_column():
    with pytest.raises(ParameterError, match=r"site=frame\['ward'\]"):
        tree().fit(X, Y, site="ward")


@pytest.mark.parametrize("nobody", [None, float("nan")])
def test_a_row_that_nobody_holds_is_refused(nobody):
    with pytest.raises(DataError, match="say for each row who holds it"):
        tree().fit(X, Y, site=["a", nobody] + ["b"] * (N - 2))


def test_parties_that_look_like_persons_are_told():
    from hedgerow.data.site_rows import declared_sites, split_by_site

    with pytest.warns(DataWarning, match="site names 100 sites of 200 rows.*`person`"):
        split_by_site(X, Y, np.arange(N) % 100, declared_sites(None, None))
    many = np.arange(2010) % 201
    with pytest.warns(DataWarning, match="site names 201 sites of 2010 rows"):
        split_by_site(many, many, many, None)


def crowd(sites, kept=None):
    """Rows of so many sites, in memory or in a file, about to be fitted."""
    rows = pd.DataFrame(
        {"mass": np.linspace(10, 90, 6 * sites), "site": np.arange(6 * sites) % sites}
    )
    labels = np.where(rows.mass > 50, "high", "low")
    schema = hr.Schema((hr.Numeric("mass", 0, 100),), classes=("high", "low"))
    model = hr.TreeClassifier(schema, epsilon=5.0, max_depth=2)
    if kept is None:
        return lambda: model.fit(rows[["mass"]], labels, site=rows.site)
    rows.assign(label=labels).to_csv(kept, index=False)
    return lambda: model.fit(kept, target="label", site="site")


@pytest.mark.parametrize("in_a_file", [False, True])
def test_many_sites_in_one_process_are_told_what_they_take(monkeypatch, tmp_path, in_a_file):
    """600 took a quarter of an hour; before any of it a person hears how long and how many."""

    def stop(*given):
        raise KeyboardInterrupt

    monkeypatch.setattr("hedgerow.federation.transports.in_process.open_federation", stop)
    fit = crowd(600, tmp_path / "rows.csv" if in_a_file else None)
    with (
        pytest.warns(DataWarning, match=r"600 sites.* 5 rounds at most, up to about 3.6 minutes"),
        pytest.warns(DataWarning, match=r"site names 600 sites of 3600 rows"),
        pytest.raises(KeyboardInterrupt),
    ):
        fit()


@pytest.mark.parametrize(("sites", "told"), [(50, False), (51, True)])
def test_more_than_fifty_sites_show_how_far_they_are(monkeypatch, capsys, sites, told):
    def stop(*given):
        raise KeyboardInterrupt

    monkeypatch.setattr("hedgerow.federation.transports.in_process.open_federation", stop)
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    with warnings.catch_warnings(record=True) as words:
        warnings.simplefilter("always")
        with pytest.raises(KeyboardInterrupt):
            crowd(sites)()
    assert any("in one process" in str(one.message) for one in words) is told
    assert ("rounds" in capsys.readouterr().err) is told


def test_identifiers_among_features_are_told():
    ids = X.assign(patient=[f"P{i:05}" for i in range(N)], visit=np.arange(N))
    with (
        pytest.warns(DataWarning, match=r"\['patient', 'visit'\] hold another value in every row"),
        pytest.warns(PrivacyWarning, match="no schema"),
    ):
        tree(schema=None).fit(ids, Y)


def test_half_a_record_per_person_and_a_delta_of_one_half():
    with pytest.raises(ParameterError, match=r"records_per_person is 1.5; use a whole number"):
        tree(records_per_person=1.5).fit(X, Y)
    with pytest.warns(PrivacyWarning, match="delta is above 1e-4"):
        tree(delta=0.5).fit(X, Y)


def test_files_that_cannot_be_are_named(tmp_path):
    model = tree().fit(X, Y)
    with pytest.raises(ParameterError, match="make the folder first"):
        model.save(tmp_path / "none" / "model.json")
    (tmp_path / "model.json").write_text('{"format": "hedgerow-model", "version": 5}')
    with pytest.raises(DataError, match=r"lacks .*content"):
        hr.load(tmp_path / "model.json")


def test_a_tree_is_not_shown_before_it_is_fitted():
    for show in (hr.show_tree, lambda model: hr.explain(model, X)):
        with pytest.raises(ParameterError, match=r"not fitted yet.*call fit first"):
            show(tree())


# ---- noise ---------------------------------------------------------------------------------------


def test_all_estimators_have_one_default_delta():
    assert {kind().delta for kind in ESTIMATORS} == {1e-6}


def test_many_columns_without_delta_are_hinted_at():
    wide = hr.Schema(tuple(hr.Numeric(f"x{i}", 0, 1) for i in range(9)), classes=("no", "yes"))
    values = np.random.default_rng(0).uniform(0, 1, (N, 9))
    with pytest.warns(QualityWarning, match="delta is 0 and there are 9 columns.*1e-6"):
        tree(wide, delta=0.0).fit(values, Y)
    tree(wide).fit(values, Y)  # an error if it warned
    tree(SCHEMA, delta=0.0).fit(X, Y)


def test_unspent_budget_is_said_with_its_reason():
    few = tree(epsilon=1.0).fit(X.iloc[:2], Y[:2]).privacy_
    assert re.search(r"budget used +[0-9.]+% \(worst-case record\)", str(few))
    pure = hr.TreeClassifier(SCHEMA, epsilon=0.01).fit(X, Y).privacy_
    assert (pure.spent_fraction == 1.0) == (pure.unspent == ())
    for part in pure.unspent:
        assert part.what in str(pure)


# ---- where a warning points ----------------------------------------------------------------------

POINTING = {
    "values": lambda: tree().fit(X.assign(mass=X.mass * 1000), Y),
    "values at predict": lambda: FITTED.predict(X.assign(mass=X.mass * 1000)),
    "no names": lambda: FITTED.predict_proba(X.to_numpy()),
    "no schema": lambda: hr.HistogramTreeClassifier(max_depth=1).fit(X[["mass"]].round(), Y),
    "a weak delta": lambda: tree(delta=0.01).fit(X, Y),
    "crowds": lambda: hr.TreeRegressor(NUMBER, max_depth=1).fit(X, X.mass, site=np.arange(N) % 51),
    "a column of labels": lambda: tree().fit(X, Y[:, None]),
}
FITTED = tree().fit(X, Y)
NUMBER = hr.Schema(SCHEMA.features, target=hr.Target(0, 100))


@pytest.mark.parametrize("name", POINTING)
def test_a_warning_names_the_line_that_called(name):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        POINTING[name]()
    assert caught
    assert {one.filename for one in caught} == {__file__}
