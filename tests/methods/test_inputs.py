"""Bad input gets one clear sentence, and nothing is charged when nothing was released."""

from __future__ import annotations

import math
import warnings

import numpy as np
import pandas as pd
import pytest

import hedgerow as hr
from hedgerow.errors import DataError, ParameterError, PrivacyWarning
from support.worlds import TWO, VALUE, opened_by, sample

X, Y = sample(60, TWO)


def fit(X=X, y=Y, site=None, schema=TWO, **options):
    return hr.HistogramTreeClassifier(schema, **{"max_depth": 2, **options}).fit(X, y, site=site)


@pytest.mark.parametrize("epsilon", [0, -1.0, math.inf, math.nan, "much", None])
def test_an_epsilon_that_promises_nothing_is_refused(epsilon):
    with pytest.raises(ParameterError, match="epsilon"):
        fit(epsilon=epsilon)


@pytest.mark.parametrize("delta", [1.0, 2.0, -1e-9, math.nan])
def test_a_delta_outside_its_range_is_refused(delta):
    with pytest.raises(ParameterError, match="delta"):
        fit(delta=delta)


def test_shares_among_one_party_are_refused():
    with pytest.raises(ParameterError, match="use 'central'"):
        fit(dp_model="distributed")


def test_a_curator_over_several_parties_is_refused():
    with pytest.raises(ParameterError, match="use 'distributed' or 'per_site'"):
        fit(dp_model="central", site=np.arange(60) % 3)


def test_an_unknown_placement_is_refused_with_the_known_ones():
    with pytest.raises(ParameterError, match="central"):
        fit(dp_model="somewhere")


def test_three_hundred_bins_are_refused():
    with pytest.raises(ParameterError, match="300"):
        fit(n_bins=300)


@pytest.mark.parametrize(
    "options",
    [
        {"max_depth": 0},
        {"leaf_fraction": 0.0},
        {"leaf_fraction": 1.5},
        {"chunk": 0},
        {"bounds_fraction": 1},
    ],
)
def test_parameters_outside_their_range_are_named(options):
    (name,) = options
    with pytest.raises(ParameterError, match=name):
        fit(**{"budget_saving": True, **options})


def test_missing_labels_are_refused():
    y = Y.copy()
    y[3] = np.nan
    with pytest.raises(DataError, match="label"):
        fit(y=y)


@pytest.mark.parametrize("wrong", [math.nan, math.inf, -math.inf])
def test_a_target_that_is_no_number_is_refused_by_our_own_error(wrong):
    X, y = sample(60, VALUE)
    y[3] = wrong
    with pytest.raises(DataError, match="y holds NaN or infinity"):
        hr.TreeRegressor(VALUE).fit(X, y)
    with pytest.raises(DataError, match="y holds NaN or infinity"):
        hr.TreeClassifier(TWO).fit(X, y)


def test_a_label_outside_the_schema_is_refused_with_the_classes():
    y = Y.copy()
    y[3] = "perhaps"
    with pytest.raises(DataError, match="perhaps"):
        fit(y=y)


def test_one_class_only_is_a_tree_that_says_so():
    model = fit(y=np.full(60, "yes", object), epsilon=50.0)
    assert set(model.predict(X)) == {"yes"}


def test_a_missing_column_is_named():
    frame = pd.DataFrame(X, columns=["age", "dose", "ward"]).drop(columns="dose")
    with pytest.raises(DataError, match="dose"):
        fit(X=frame)


def test_no_rows_are_refused():
    with pytest.raises(DataError, match="row"):
        fit(X=X[:0], y=Y[:0])


def test_one_row_is_enough_to_answer():
    assert fit(X=X[:1], y=Y[:1]).predict_proba(X[:2]).shape == (2, 2)


def test_constant_columns_and_infinite_values_are_answered():
    odd = X.copy()
    odd[:, 1] = np.inf
    assert fit(X=odd).predict(odd).shape == (60,)


def test_rows_and_parties_must_match():
    with pytest.raises(DataError, match="site"):
        fit(site=np.zeros(59))


@pytest.mark.parametrize("added", [None, math.nan, "x", 0.5, True])
def test_one_row_more_in_a_list_changes_no_other(added):
    """NumPy would give all of a list one type: text beside a text, floats beside a float."""
    features = (hr.Numeric("n", 0, 9), hr.Categorical("code", (1, 2, 3)))
    tree = hr.HistogramTreeClassifier(hr.Schema(features, classes=(False, True)))
    rows, labels = [[1, 1], [2, 2], [3, 3]], [True, False, True]
    _, (before,) = opened_by(tree, rows, labels)
    _, (after,) = opened_by(tree, [*rows, [None, added]], [*labels, 0])
    assert after.codes[:, :3].tolist() == before.codes.tolist()
    assert after.labels[:3].tolist() == before.labels.tolist() == [1, 0, 1]


@pytest.mark.parametrize(
    ("y", "classes"),
    [
        ([True, False] * 9, (0, 1)),
        ([1, 0] * 9, (False, True)),
        ([1.0, 0.0] * 9, ("0", "1")),
        (["true", "false"] * 9, ("true", "false")),
        (["1.0", "2.0"] * 9, ("1.0", "2.0")),
    ],
)
def test_predictions_are_of_the_type_of_the_labels(y, classes):
    schema = hr.Schema((hr.Numeric("n", 0, 1),), classes=classes)
    rows = [[value == y[0]] for value in y]
    model = hr.HistogramTreeClassifier(schema, epsilon=900.0, max_depth=1).fit(rows, y)
    assert model.predict(rows).tolist() == y


def test_sample_weight_is_refused_with_a_reason():
    with pytest.raises(ParameterError, match="influence"):
        hr.HistogramTreeClassifier(TWO).fit(X, Y, sample_weight=np.ones(60))


def test_a_schema_that_is_none_warns_and_the_statement_says_infinity():
    with pytest.warns(PrivacyWarning, match="no schema"):
        model = fit(schema=None)
    assert model.privacy_.epsilon == math.inf
    assert "infinity" in str(model.privacy_)


def test_a_schema_of_another_kind_is_refused():
    with pytest.raises(ParameterError, match="schema"):
        fit(schema="private please")


def test_a_schema_of_another_task_is_refused_by_every_estimator():
    for kind in (getattr(hr, name) for name in hr.__all__ if name.endswith("Regressor")):
        with pytest.raises(ParameterError, match="predicts a number, but its schema has classes"):
            kind(TWO).fit(X, np.arange(len(X), dtype=float))
    for kind in (getattr(hr, name) for name in hr.__all__ if name.endswith("Classifier")):
        with pytest.raises(ParameterError, match="predicts classes, but its schema has a target"):
            kind(VALUE).fit(X, Y)


def test_a_tree_that_was_not_grown_cannot_be_shown():
    for show in (hr.show_tree, lambda model: hr.draw_tree(model, "tree.svg")):
        with pytest.raises(ParameterError, match="not fitted"):
            show(hr.TreeClassifier(TWO))


def test_a_picture_of_another_kind_or_place_is_refused(tmp_path):
    model = fit()
    with pytest.raises(ParameterError, match=r"end its name in \.svg"):
        hr.draw_tree(model, tmp_path / "tree.txt")
    with pytest.raises(ParameterError, match="is no folder"):
        hr.draw_tree(model, tmp_path / "none" / "tree.svg")


@pytest.mark.parametrize(
    ("rows", "says"),
    [
        (None, "X is None; give rows"),
        ("rows.parquet", "X is the path 'rows.parquet'; read the file first"),
        ({"age": [41]}, "X is a dict without a table's form; make a data frame"),
        ([{"age": 41}], "X is a list of dicts without a table's form; make a data frame"),
    ],
)
def test_what_is_no_table_is_refused_in_words_that_hold_no_value(rows, says):
    with pytest.raises(DataError, match=says) as error:
        fit().predict(rows)
    assert "41" not in str(error.value)
    if rows is None:
        with pytest.raises(DataError, match=says):
            fit(X=rows)


def test_a_crowd_of_parties_is_warned_of_once():
    model = hr.HistogramTreeClassifier(TWO, max_depth=1, dp_model="none")
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        model.fit(X, Y, site=np.arange(len(Y)) % 30)
    assert [str(one.message)[:19] for one in told].count("site names 30 sites") == 1


def test_prediction_before_fitting_is_refused():
    from sklearn.exceptions import NotFittedError

    with pytest.raises(NotFittedError):
        hr.HistogramTreeClassifier(TWO).predict(X)
