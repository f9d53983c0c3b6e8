"""Real scikit-learn estimators: their checks pass, and their manners are kept."""

from __future__ import annotations

import inspect
import pickle
import warnings

import numpy as np
import pytest
import sklearn
from sklearn.base import clone, is_regressor
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer
from sklearn.utils.estimator_checks import check_estimator

import hedgerow as hr
from hedgerow.errors import PrivacyWarning, SpecError, UnsupportedQuery
from hedgerow.methods.sklearn_checks import COMPARING, expected_failed_checks
from support.worlds import TWO, VALUE, sample

ESTIMATORS = [
    getattr(hr, name) for name in hr.__all__ if name.endswith(("Classifier", "Regressor"))
]
EACH = pytest.mark.parametrize("kind", ESTIMATORS, ids=lambda k: k.__name__)


def small(kind, **options):
    """An instance that fits in a moment."""
    known = inspect.signature(kind).parameters
    quick = {"n_trees": 4, "max_depth": 2, "max_splits": 3, "random_state": 0}
    return kind(**{**{k: v for k, v in quick.items() if k in known}, **options})


LEARNING = {
    hr.ExtraTreesClassifier: {"max_depth": 4},
    hr.ExtraTreesRegressor: {"max_depth": 4},
    hr.BoostedTreesRegressor: {"max_depth": 4},
    hr.ComponentBoostingRegressor: {"max_depth": 4, "split": "histogram"},
    hr.MedianForestClassifier: {"n_trees": 1},
    hr.MedianForestRegressor: {"n_trees": 1, "max_depth": 4, "split": "table"},
}
"""As small as the checks allow that ask whether something is learned."""


def learning(kind):
    return small(kind, placement="nowhere", **LEARNING.get(kind, {}))


def world(kind):
    schema = VALUE if is_regressor(kind()) else TWO
    return schema, *sample(120, schema)


SLOW_TO_CHECK = {hr.BoostedTreesClassifier}
"""Half a minute: its default looks at tables of pairs, and the checks make a hundred fits."""


@pytest.mark.parametrize(
    "kind",
    [
        pytest.param(kind, marks=[pytest.mark.slow] if kind in SLOW_TO_CHECK else [])
        for kind in ESTIMATORS
    ],
    ids=lambda kind: kind.__name__,
)
def test_scikit_learns_own_checks_pass(kind):
    """Without noise, since the checks compare two fits."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        results = check_estimator(learning(kind), on_fail=None)
    failed = {r["check_name"]: str(r["exception"]) for r in results if r["status"] == "failed"}
    assert failed == {}


@pytest.mark.slow
def test_with_noise_only_checks_fail_that_compare_two_fits():
    model = hr.TreeClassifier(epsilon=1e5)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        results = check_estimator(
            model, expected_failed_checks=expected_failed_checks(model), on_fail=None
        )
    assert [r["check_name"] for r in results if r["status"] == "failed"] == []
    assert {r["check_name"] for r in results if r["status"] == "xfail"} <= set(COMPARING)
    assert expected_failed_checks(hr.TreeClassifier(placement="nowhere")) == {}


def test_a_pipeline_hands_on_who_holds_each_row():
    schema, X, y = world(hr.HistogramTreeClassifier)
    with sklearn.config_context(enable_metadata_routing=True):
        asked = small(hr.HistogramTreeClassifier, schema=schema, epsilon=5.0)
        asked.set_fit_request(party=True, parties=True, person=True)
        line = make_pipeline(FunctionTransformer(), asked)
        line.fit(X, y, party=np.arange(len(y)) % 3, parties=range(4), person=np.arange(len(y)))
    assert line[-1].privacy_.parties == 4
    assert "believed" not in str(line[-1].privacy_)


@EACH
def test_an_estimator_can_be_cloned_pickled_and_put_in_a_pipeline(kind):
    schema, X, y = world(kind)
    model = small(kind, schema=schema, epsilon=5.0)
    assert clone(model).get_params() == model.get_params()
    line = make_pipeline(FunctionTransformer(), model).fit(X, y)
    again = pickle.loads(pickle.dumps(line))
    assert np.array_equal(again.predict(X), line.predict(X))


@EACH
def test_a_search_over_parameters_runs_and_the_statement_speaks_of_one_fit(kind):
    schema, X, y = world(kind)
    with pytest.warns(PrivacyWarning, match=r"epsilon = 12, delta = \S+ in total"):
        search = GridSearchCV(small(kind, schema=schema), {"epsilon": [1.0, 5.0]}, cv=2).fit(X, y)
    assert "this fit only" in str(search.best_estimator_.privacy_)
    assert "their epsilons and deltas add" in str(search.best_estimator_.privacy_)


@EACH
def test_parameters_are_stored_and_never_edited(kind):
    schema, X, y = world(kind)
    model = small(kind, schema=schema, epsilon=5.0)
    before = dict(model.get_params())
    model.fit(X, y)
    assert model.get_params() == before


@EACH
def test_weights_are_refused_with_a_reason(kind):
    schema, X, y = world(kind)
    with pytest.raises(SpecError, match="influence"):
        small(kind, schema=schema).fit(X, y, sample_weight=np.ones(len(y)))


ONE_HOLDER = [hr.KaryForestClassifier, hr.KaryForestRegressor]
"""Their nodes choose on exact scores of all rows."""
EACH_OF_SEVERAL = pytest.mark.parametrize(
    "kind", [k for k in ESTIMATORS if k not in ONE_HOLDER], ids=lambda k: k.__name__
)


@pytest.mark.parametrize("kind", ONE_HOLDER, ids=lambda k: k.__name__)
def test_what_needs_one_holder_says_so_to_several(kind):
    schema, X, y = world(kind)
    with pytest.raises(UnsupportedQuery, match="needs one holder of all rows"):
        small(kind, schema=schema).fit(X, y, party=np.arange(len(y)) % 3)


@EACH_OF_SEVERAL
def test_several_parties_train_one_model(kind):
    schema, X, y = world(kind)
    model = small(kind, schema=schema, epsilon=20.0, delta=1e-6)
    model.fit(X, y, party=np.arange(len(y)) % 3)
    assert model.privacy_.parties == 3
    assert len(model.predict(X)) == len(y)
    assert 0 < model.privacy_.epsilon <= 20.0


def test_an_estimator_and_what_it_holds_are_told_in_a_line_each():
    wide = hr.Schema([hr.Numeric(f"x{k}", 0.0, 1.0) for k in range(100)], classes=("no", "yes"))
    X = np.random.default_rng(0).random((60, 100))
    model = hr.TreeClassifier(wide, epsilon=5.0).fit(X, np.where(X[:, 0] > 0.5, "yes", "no"))
    told = "Schema(100 features: 'x0', 'x1', 'x2' and 97 more; classes: 'no', 'yes')"
    assert told in repr(model)
    for held in (model.privacy_, model.run_, model.ledger_, model.model_, model.grown_):
        assert len(repr(held)) < 120
        assert " object at 0x" not in repr(held)
