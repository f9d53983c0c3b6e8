"""Real scikit-learn estimators: their checks pass, and their manners are kept."""

from __future__ import annotations

import inspect
import os
import pickle
import subprocess
import sys
import warnings

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
import sklearn
from sklearn.base import clone, is_regressor
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer
from sklearn.utils.estimator_checks import check_estimator, check_regressors_train

import hedgerow as hr
from hedgerow.errors import DataWarning, ParameterError, PrivacyWarning, UnsupportedQuery
from hedgerow.methods.base import COMPARING, expected_failed_checks
from hedgerow.schema.arrays import canonical
from hedgerow.schema.grids import WIDEST, wide_edges
from methods.test_scikit_learn_users import FEATURES, NUMBERS, ROWS
from support.network import processors
from support.worlds import TWO, VALUE, sample

ESTIMATORS = [
    getattr(hr, name) for name in hr.__all__ if name.endswith(("Classifier", "Regressor"))
]
EACH = pytest.mark.parametrize("kind", ESTIMATORS, ids=lambda k: k.__name__)


def small(kind, **options):
    """An instance that fits in a moment."""
    known = inspect.signature(kind).parameters
    quick = {"n_estimators": 4, "max_depth": 2, "max_splits": 3, "random_state": 0}
    return kind(**{**{k: v for k, v in quick.items() if k in known}, **options})


LEARNING = {
    hr.ExtraTreesClassifier: {"max_depth": 4},
    hr.ExtraTreesRegressor: {"max_depth": 4},
    hr.BoostedTreesRegressor: {"max_depth": 4},
    hr.ComponentBoostingRegressor: {"max_depth": 4, "split": "histogram"},
    hr.MedianForestClassifier: {"n_estimators": 1},
    hr.MedianForestRegressor: {"n_estimators": 1, "max_depth": 4, "split": "table"},
}
"""As small as the checks allow that ask whether something is learned."""


def learning(kind):
    return small(kind, dp_model="none", **LEARNING.get(kind, {}))


def world(kind):
    schema = VALUE if is_regressor(kind()) else TWO
    return schema, *sample(120, schema)


SLOW_TO_CHECK = {hr.BoostedTreesClassifier, hr.BoostedTreesRegressor}
"""Their default learns curves and surfaces, and the checks make a hundred fits: half a minute and
ten seconds. What they share with the others, and all other tests here, is checked of them too.
"""


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
    assert expected_failed_checks(hr.TreeClassifier(dp_model="none")) == {}


def test_a_pipeline_hands_on_who_holds_each_row():
    schema, X, y = world(hr.HistogramTreeClassifier)
    with sklearn.config_context(enable_metadata_routing=True):
        asked = small(hr.HistogramTreeClassifier, schema=schema, epsilon=5.0)
        asked.set_fit_request(site=True, sites=True, person=True)
        line = make_pipeline(FunctionTransformer(), asked)
        line.fit(X, y, site=np.arange(len(y)) % 3, sites=range(4), person=np.arange(len(y)))
    assert line[-1].privacy_.n_sites == 4
    assert "assumption: nobody" not in str(line[-1].privacy_)


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
    assert "epsilons and deltas add" in str(search.best_estimator_.privacy_)


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
    with pytest.raises(ParameterError, match="influence"):
        small(kind, schema=schema).fit(X, y, sample_weight=np.ones(len(y)))


SINGLE_SITE = [hr.MultiwayForestClassifier, hr.MultiwayForestRegressor]
"""Their nodes choose on exact scores of all rows."""
EACH_OF_SEVERAL = pytest.mark.parametrize(
    "kind", [k for k in ESTIMATORS if k not in SINGLE_SITE], ids=lambda k: k.__name__
)


@pytest.mark.parametrize("kind", SINGLE_SITE, ids=lambda k: k.__name__)
def test_what_needs_one_holder_says_so_to_several(kind):
    schema, X, y = world(kind)
    with pytest.raises(UnsupportedQuery, match="needs all rows at one site"):
        small(kind, schema=schema).fit(X, y, site=np.arange(len(y)) % 3)


@EACH_OF_SEVERAL
def test_several_parties_train_one_model(kind):
    schema, X, y = world(kind)
    model = small(kind, schema=schema, epsilon=20.0, delta=1e-6)
    model.fit(X, y, site=np.arange(len(y)) % 3)
    assert model.privacy_.n_sites == 3
    assert len(model.predict(X)) == len(y)
    assert 0 < model.privacy_.epsilon <= 20.0


def test_an_estimator_and_what_it_holds_are_told_in_a_line_each():
    wide = hr.Schema([hr.Numeric(f"x{k}", 0.0, 1.0) for k in range(100)], classes=("no", "yes"))
    X = np.random.default_rng(0).random((60, 100))
    model = hr.TreeClassifier(wide, epsilon=5.0).fit(X, np.where(X[:, 0] > 0.5, "yes", "no"))
    told = "Schema(100 features: 'x0', 'x1', 'x2' and 97 more; classes: 'no', 'yes')"
    assert told in repr(model)
    for held in (model.privacy_, model.run_, model.ledger_, model.model_, model.leaf_statistics_):
        assert len(repr(held)) < 120
        assert " object at 0x" not in repr(held)


# --------------------------------------------------------------------------------------------------
# Estimators at their defaults run, and learn where nothing hides the signal.
@pytest.mark.parametrize("columns", [1, 3, 12])
def test_extra_trees_of_a_number_run_at_their_defaults_on_three_sites_with_pure_epsilon(columns):
    rng = np.random.default_rng(1)
    X = rng.random((60, columns))
    schema = hr.Schema({f"x{k}": (0, 1) for k in range(columns)}, target=(0, 1))
    model = hr.ExtraTreesRegressor(schema, delta=0.0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", hr.QualityWarning)
        model.fit(X, X[:, 0], site=np.arange(60) % 3, sites=range(3))
    assert model.privacy_.epsilon <= 1.0
    assert len(model.model_.score.trees) == 5


def test_extra_trees_without_noise_are_the_papers():
    schema = hr.Schema(FEATURES, target=(0, 110))
    model = hr.ExtraTreesRegressor(schema, dp_model="none").fit(ROWS, NUMBERS)
    assert len(model.model_.score.trees) == 20
    assert model.score(ROWS, NUMBERS) > 0.95


@pytest.mark.parametrize("options", [{"epsilon": 1e6}, {"dp_model": "none"}], ids=str)
def test_a_median_forest_of_a_number_learns_at_its_defaults(options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        check_regressors_train("MedianForestRegressor", hr.MedianForestRegressor(**options))


# --------------------------------------------------------------------------------------------------
# Ranges that nobody knows in public: a wide public ladder, and bins found by private counts.
N = 1500
OPEN = hr.Schema({"income": float, "age": float, "smoker": bool, "job": str}, classes=(False, True))


def people(n: int = N, seed: int = 0) -> tuple[pd.DataFrame, np.ndarray]:
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame(
        {
            "income": rng.lognormal(10, 1, n),
            "age": rng.integers(18, 90, n),
            "smoker": rng.random(n) < 0.3,
            "job": pd.array(rng.choice(["nurse", "clerk"], n), dtype="string"),
        }
    )
    score = (frame.income > 22_000).astype(float) + (frame.age > 55)
    return frame, (score + rng.normal(0, 0.4, n) > 1).to_numpy()


X, Y = people()


def test_the_ladder_is_public_and_fits_a_byte():
    edges = wide_edges()
    assert len(edges) < 254
    assert list(edges) == sorted(set(edges))
    assert max(np.diff([e for e in edges if 17 < e < 100])) < 9
    assert OPEN.features[0] == hr.Numeric("income", -WIDEST, WIDEST, edges=edges)
    assert OPEN.features[3] == hr.Hashed("job")
    assert hr.Schema.from_toml(OPEN.to_toml()) == OPEN


def test_open_ranges_are_learned_from_within_the_promise(recwarn):
    for who in (None, np.arange(N) % 3):
        model = hr.TreeClassifier(OPEN, epsilon=5.0).fit(X, Y, site=who)
        fresh, truth = people(seed=1)
        assert np.mean(model.predict(fresh) == truth) > 0.7
        assert model.privacy_.epsilon == 5.0
        assert "no range is declared for income, age: private counts" in str(model.privacy_)
    assert not [w for w in recwarn if w.category is DataWarning]


@EACH
def test_every_estimator_runs_on_open_ranges(kind):
    regression = kind.__name__.endswith("Regressor")
    schema = hr.Schema(OPEN.features, target=(0, 1)) if regression else OPEN
    y = Y.astype(float) if regression else Y
    assert len(small(kind, schema=schema, epsilon=5.0).fit(X[:200], y[:200]).predict(X[:9])) == 9


def test_the_word_private_takes_types_and_looks_at_no_value():
    for table in (X, pa.table({name: pa.array(X[name].tolist()) for name in X})):
        model = hr.TreeClassifier("private", epsilon=5.0).fit(table, Y)
        assert model.privacy_.epsilon == 5.0
        assert model.schema_.names == OPEN.names
        other = hr.TreeClassifier("private", epsilon=5.0).fit(table[:7], Y[:7])
        assert other.schema_.digest == model.schema_.digest


@pytest.mark.parametrize(
    ("rows", "labels", "says"),
    [
        (X.to_numpy(), Y, "types from a typed table"),
        (X.astype(object), Y, "types from a typed table"),
        (X, np.where(Y, "yes", "no"), "classes by their type only where labels are booleans"),
        (X, Y.astype(int), "classes by their type only where labels are booleans"),
    ],
)
def test_what_only_rows_could_tell_is_refused(rows, labels, says):
    with pytest.raises(ParameterError, match=says):
        hr.TreeClassifier("private").fit(rows, labels)


def test_another_word_is_no_schema():
    with pytest.raises(
        ParameterError, match=r"schema is 'public'; use a hedgerow.Schema, or one of 'priv"
    ):
        hr.TreeClassifier("public").fit(X, Y)


# --------------------------------------------------------------------------------------------------
# The same sums lead to the same questions and the same model on every processor.
FITS = """
import os
import warnings
import hedgerow as hr
from hedgerow.kernels import dispatch
from studies.simulation import fixed_noise
from studies.tests.answers import small_table

warnings.simplefilter("ignore")
dispatch.FORM = os.environ.get("LOOPS", dispatch.FORM)
X, y, schema = small_table()
for model in (
    hr.BoostedTreesClassifier(schema, epsilon=4.0, n_estimators=8, random_state=0),
    hr.papers.wang.noisy_counts(schema, epsilon=4.0, max_splits=8),
):
    with fixed_noise():
        model.fit(X, y)
    print(model.model_.score.digest)
"""


def models_on(features: dict[str, str]) -> str:
    done = subprocess.run(
        [sys.executable, "-c", FITS],
        env=os.environ | features | {"PYTHONPATH": os.pathsep.join(["src", "."])},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_every_processor_makes_the_same_models():
    models = {name: models_on(features) for name, features in processors().items()}
    assert len(models["AVX2"].split()) == 2
    assert len(set(models.values())) == 1, models


def test_canonical_numbers_forget_what_processors_differ_in():
    values = np.array([0.1, -3.7e300, 5e-300, np.inf, 838557.5141338573])
    assert np.array_equal(canonical(values), canonical(np.nextafter(values, np.inf)))
    assert canonical(0.0) == 0.0
    assert np.allclose(canonical(values), values, rtol=2.0**-24, atol=0.0)
    assert canonical(1 + 2.0**-20) != canonical(1.0)
