"""scikit-learn to the letter: users' schemas, every scorer and every meta-estimator, beside
HistGradientBoosting. Fits are without noise, so that what is compared is manners, not chance.
"""

from __future__ import annotations

import inspect
import warnings
from fractions import Fraction
from functools import cache

import numpy as np
import pandas as pd
import pytest
import sklearn
from sklearn.calibration import CalibratedClassifierCV
from sklearn.compose import ColumnTransformer
from sklearn.ensemble import (
    BaggingClassifier,
    HistGradientBoostingClassifier,
    HistGradientBoostingRegressor,
    StackingClassifier,
    VotingClassifier,
)
from sklearn.exceptions import NotFittedError
from sklearn.metrics import get_scorer, get_scorer_names
from sklearn.model_selection import (
    GridSearchCV,
    TunedThresholdClassifierCV,
    cross_val_predict,
    cross_val_score,
)
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import FunctionTransformer

import hedgerow as hr
from hedgerow.errors import DataError, ParameterError
from hedgerow.methods import model_file
from hedgerow.methods.files import predict_file

USERS = {
    "texts": ("yes", "no"),
    "three texts": ("poor", "good", "fair"),
    "booleans": (True, False),
    "whole numbers": (1, 0),
    "three whole numbers": (2, 0, 1),
    "other numbers": (7, 3),
    "texts of digits": ("1", "0"),
}
"""Classes as users list them, none of them sorted."""
SLOW = pytest.mark.slow
FEATURES = {"age": (0, 100), "dose": (0, 10)}
CLASSIFIERS = [getattr(hr, name) for name in hr.__all__ if name.endswith("Classifier")]
ESTIMATORS = [*CLASSIFIERS, *(getattr(hr, n) for n in hr.__all__ if n.endswith("Regressor"))]
QUICK = {"n_estimators": 2, "max_depth": 3, "max_splits": 5, "random_state": 0, "epsilon": 1e5}
ROWS = pd.DataFrame(np.random.default_rng(5).random((180, 2)) * [100, 10], columns=["age", "dose"])
NUMBERS = ROWS["age"].to_numpy() + 1.0
EACH_USER = pytest.mark.parametrize("user", USERS)
SOME_USERS = pytest.mark.parametrize(
    "user",
    [
        pytest.param(user, marks=() if user in ("texts", "three texts", "booleans") else SLOW)
        for user in USERS
    ],
)
"""All of them in the long suite."""


def made(user, kind=hr.TreeClassifier, **options):
    known = inspect.signature(kind).parameters
    quick = {name: value for name, value in QUICK.items() if name in known}
    schema = hr.Schema(FEATURES, classes=USERS[user])
    return kind(**{**quick, "schema": schema, "dp_model": "none", **options})


def labels(user):
    """By age: the first class of the user's is that of the young."""
    classes = np.array(USERS[user])
    return classes[(ROWS["age"].to_numpy() * len(classes) / 100).astype(int)]


def reference():
    return HistGradientBoostingClassifier(max_iter=4, min_samples_leaf=5)


@cache
def fitted(user):
    return made(user).fit(ROWS, labels(user)), reference().fit(ROWS, labels(user))


# --------------------------------------------------------------------------------- classes
@EACH_USER
def test_classes_are_sorted_and_of_the_type_that_the_schema_lists(user):
    model, other = fitted(user)
    assert model.classes_.dtype == other.classes_.dtype
    assert model.classes_.tolist() == other.classes_.tolist()
    assert model.predict(ROWS).dtype == other.predict(ROWS).dtype
    assert model.score(ROWS, labels(user)) > 0.9
    said = model.predict_proba(ROWS)
    assert np.array_equal(model.classes_[said.argmax(axis=1)], model.predict(ROWS))


@pytest.mark.parametrize(
    "strange", [1.0, np.float32(1), True, "1"], ids=lambda label: type(label).__name__
)
def test_one_label_of_another_type_leaves_the_classes_of_a_saved_model(strange, tmp_path):
    schema = hr.Schema(FEATURES, classes=(0, 1))
    y = (ROWS["age"] > 50).astype(int).tolist()
    kinds = set()
    for one in (y, [*y[:-1], strange]):
        made("texts", schema=schema).fit(ROWS, one).save(tmp_path / "m.json")
        kinds.add(hr.load(tmp_path / "m.json").classes_.dtype)
    assert kinds == {np.dtype(np.int64)}


@EACH_USER
def test_decision_function_has_scikit_learns_form_and_says_what_predict_says(user):
    model, other = fitted(user)
    scores = model.decision_function(ROWS)
    assert scores.shape == other.decision_function(ROWS).shape
    assert np.isfinite(scores).all()
    best = (scores > 0).astype(int) if scores.ndim == 1 else scores.argmax(axis=1)
    assert np.array_equal(model.classes_[best], model.predict(ROWS))


@pytest.mark.parametrize("kind", CLASSIFIERS, ids=lambda kind: kind.__name__)
def test_every_classifier_has_sorted_classes_and_a_decision_function(kind):
    model = made("three texts", kind).fit(ROWS, labels("three texts"))
    assert model.classes_.tolist() == ["fair", "good", "poor"]
    assert model.decision_function(ROWS).shape == (len(ROWS), 3)
    assert model.score(ROWS, labels("three texts")) > 0.6


def test_a_search_by_auc_takes_the_better_setting():
    """An AUC of the wrong class is 1 less the true one, and the worst setting wins."""
    y = labels("texts")
    scores = cross_val_score(made("texts"), ROWS, y, scoring="roc_auc", cv=3)
    assert scores.min() > 0.9
    search = GridSearchCV(made("texts"), {"max_depth": [1, 3]}, scoring="roc_auc", cv=3)
    assert search.fit(ROWS, y).best_score_ > 0.9


# --------------------------------------------------------------------------------- scorers
def scored(name, model, X, y):
    """A number, or the kind of error that a scorer answers these labels with."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return float(get_scorer(name)(model, X, y))
        except Exception as error:
            return type(error)


@EACH_USER
def test_every_scorer_scores_as_it_scores_histogram_boosting(user):
    model, other = fitted(user)
    y = labels(user)
    for name in get_scorer_names():
        ours, theirs = scored(name, model, ROWS, y), scored(name, other, ROWS, y)
        if isinstance(theirs, type):
            assert ours is theirs, name
        elif np.isfinite(theirs):
            assert np.isfinite(ours), name
            assert ours > 0.85 or theirs < 0.9, name


def test_every_scorer_of_numbers_scores_a_regressor():
    schema = hr.Schema(FEATURES, target=(0, 110))
    model = hr.TreeRegressor(schema, dp_model="none").fit(ROWS, NUMBERS)
    other = HistGradientBoostingRegressor(max_iter=4).fit(ROWS, NUMBERS)
    for name in get_scorer_names():
        ours, theirs = (scored(name, one, ROWS, NUMBERS) for one in (model, other))
        assert isinstance(ours, type) == isinstance(theirs, type), name


# ------------------------------------------------------------------------- meta-estimators
def prefixed(estimator, verbose):
    by_column = ColumnTransformer(
        [("num", "passthrough", ["age"]), ("rest", FunctionTransformer(), ["dose"])],
        verbose_feature_names_out=verbose,
    )
    return make_pipeline(by_column, estimator).set_output(transform="pandas")


METAS = {
    "calibrated": lambda one: CalibratedClassifierCV(one, cv=2),
    "calibrated, one model": lambda one: CalibratedClassifierCV(one, cv=2, ensemble=False),
    "voting": lambda one: VotingClassifier([("a", one), ("b", one)]),
    "soft voting": lambda one: VotingClassifier([("a", one), ("b", one)], voting="soft"),
    "stacking": lambda one: StackingClassifier([("a", one)], cv=2),
    "stacking of predictions": lambda one: StackingClassifier(
        [("a", one)], reference(), cv=2, stack_method="predict_proba", passthrough=True
    ),
    "bagging": lambda one: BaggingClassifier(one, 2, random_state=0),
    "pipeline": lambda one: Pipeline([("same", FunctionTransformer()), ("model", one)]),
    "columns": lambda one: prefixed(one, verbose=False),
    "prefixed columns": lambda one: prefixed(one, verbose=True),
    "arrays of columns": lambda one: make_pipeline(
        ColumnTransformer([("num", "passthrough", ["age", "dose"])]), one
    ),
}


def outcome(meta, user, one):
    """What a user sees: classes, what is predicted, and the form of probabilities."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = METAS[meta](one).fit(ROWS, labels(user))
        said = model.predict(ROWS)
        form = model.predict_proba(ROWS).shape if hasattr(model, "predict_proba") else None
    return model.classes_.tolist(), said.dtype, form, bool((said == labels(user)).mean() > 0.8)


@pytest.mark.parametrize("meta", METAS)
@SOME_USERS
def test_every_meta_estimator_works_as_with_histogram_boosting(user, meta):
    assert outcome(meta, user, made(user)) == outcome(meta, user, reference())


@pytest.mark.slow
@pytest.mark.parametrize("kind", CLASSIFIERS, ids=lambda kind: kind.__name__)
@EACH_USER
def test_every_classifier_works_in_every_meta_estimator(user, kind):
    for meta in METAS:
        classes, _, form, _ = outcome(meta, user, made(user, kind))
        assert classes == sorted(USERS[user]), meta
        assert form in (None, (len(ROWS), len(USERS[user]))), meta


@pytest.mark.parametrize("user", ["texts", "booleans", "whole numbers", "texts of digits"])
def test_a_threshold_is_tuned(user):
    tuned = TunedThresholdClassifierCV(made(user), cv=2, random_state=0).fit(ROWS, labels(user))
    assert tuned.classes_.tolist() == sorted(USERS[user])
    assert tuned.score(ROWS, labels(user)) > 0.9


@pytest.mark.parametrize("method", ["predict", "predict_proba", "decision_function"])
@SOME_USERS
def test_cross_val_predict_gives_what_it_gives_of_histogram_boosting(user, method):
    y = labels(user)
    ours, theirs = (
        cross_val_predict(one, ROWS, y, cv=2, method=method) for one in (made(user), reference())
    )
    assert (ours.shape, ours.dtype) == (theirs.shape, theirs.dtype)
    if method == "predict":
        assert (ours == y).mean() > 0.9
    else:
        best = (ours > 0).astype(int) if ours.ndim == 1 else ours.argmax(axis=1)
        assert (np.unique(y)[best] == y).mean() > 0.9


def test_a_stacks_last_estimator_predicts_codes_of_users_labels():
    """Its columns are what the first estimators say: two probabilities between 0 and 1."""
    said = hr.Schema({"one": (0, 1), "two": (0, 1)}, classes=USERS["texts"])
    last = hr.TreeClassifier(said, dp_model="none")
    stack = StackingClassifier([("a", made("texts")), ("b", reference())], last, cv=2)
    assert stack.fit(ROWS, labels("texts")).score(ROWS, labels("texts")) > 0.9


def test_metadata_reaches_an_estimator_inside_a_search():
    with sklearn.config_context(enable_metadata_routing=True):
        asked = made("texts", dp_model="distributed").set_fit_request(site=True, sites=True)
        search = GridSearchCV(asked, {"max_depth": [1, 2]}, scoring="roc_auc", cv=2)
        with pytest.warns(hr.PrivacyWarning):
            search.fit(ROWS, labels("texts"), site=np.arange(len(ROWS)) % 3, sites=range(3))
    assert search.best_estimator_.privacy_.n_sites == 3


# ----------------------------------------------------------------------------------- codes
def test_codes_are_read_by_the_schema_and_never_mixed_with_classes():
    codes = (labels("texts") == "yes").astype(int)
    model = made("texts").fit(ROWS, codes)
    assert model.classes_.tolist() == [0, 1]
    assert model.score(ROWS, codes) > 0.9
    named = made("texts").fit(ROWS, labels("texts"))
    assert np.array_equal(model.predict_proba(ROWS), named.predict_proba(ROWS))
    for mixed in ([*codes[:-1].tolist(), "yes"], ["yes", *codes[1:].tolist()]):
        with pytest.raises(DataError, match=r"beside the code|is not (a|one of the) class"):
            made("texts").fit(ROWS, mixed)
    with pytest.raises(DataError, match="beside the code 0"):
        made("texts").fit(ROWS, np.arange(len(ROWS)) % 3)


def test_numbers_that_codes_cannot_be_told_from_are_refused_with_what_to_do():
    schema = hr.Schema(FEATURES, classes=(1, 2))
    y = np.where(labels("texts") == "yes", 2, 1)
    assert made("texts", schema=schema).fit(ROWS, y).classes_.tolist() == [1, 2]
    with pytest.raises(DataError, match=r"list these: classes=range\(2\)"):
        made("texts", schema=schema).fit(ROWS, y - 1)
    coded = made("texts", schema=hr.Schema(FEATURES, classes=range(2)))
    assert VotingClassifier([("a", coded)]).fit(ROWS, y).score(ROWS, y) > 0.9


# ---------------------------------------------------------------------------------- columns
def test_a_prefix_is_taken_off_only_where_it_can_mean_one_column():
    model = fitted("texts")[0]
    renamed = ROWS.rename(columns={"age": "num__age", "dose": "union__num__dose"})
    assert np.array_equal(model.predict(renamed), model.predict(ROWS))
    assert np.array_equal(model.predict(renamed[:1]), model.predict(ROWS[:1]))
    with pytest.raises(DataError, match="has no column 'age'"):
        model.predict(renamed.assign(other__age=1.0))


# ------------------------------------------------------------------------------------ files
@pytest.mark.parametrize("user", ["texts", "three texts"])
@pytest.mark.parametrize("kind", [hr.TreeClassifier, hr.BoostedTreesClassifier])
def test_model_files_exports_and_commands_list_classes_as_the_estimator_does(kind, user, tmp_path):
    """Sums of two classes speak of the second: an export of the other would be 1 less this."""
    model = made(user, kind).fit(ROWS, labels(user))
    classes, row = model.classes_.tolist(), ROWS.iloc[0].to_dict()
    model.save(tmp_path / "m.json")
    again = hr.load(tmp_path / "m.json")
    assert again.classes_.tolist() == list(again.schema_.classes) == classes
    assert np.array_equal(again.predict_proba(ROWS), model.predict_proba(ROWS))
    module = {}
    exec(model.export(tmp_path / "m.py", to="python").read_text(), module)
    assert list(module["MODEL"]["classes"]) == classes
    said = module["predict_proba"](row)
    said = [said[name] for name in classes] if isinstance(said, dict) else said
    assert np.allclose(said, model.predict_proba(ROWS[:1])[0])
    sql = model.export(tmp_path / "m.sql", to="sql").read_text()
    places = [sql.index(f'"p_{name}"') for name in classes]
    assert places == sorted(places)
    booster = pytest.importorskip("xgboost").Booster(
        model_file=model.export(tmp_path / "x.json", to="xgboost")
    )
    names = list(ROWS.columns)
    types = ["float", "float"]
    matrix = pytest.importorskip("xgboost").DMatrix(
        ROWS.astype(np.float32), feature_names=names, feature_types=types
    )
    found = booster.predict(matrix)
    one = found if found.ndim == 1 else found[:, 1]
    assert np.allclose(one, model.predict_proba(ROWS.astype(np.float32))[:, 1], atol=1e-5)
    outputs, columns = predict_file(again, ROWS)
    assert columns == [str(name) for name in classes]
    assert np.allclose(outputs, model.predict_proba(ROWS))


@pytest.mark.parametrize("kind", ESTIMATORS, ids=lambda kind: kind.__name__)
def test_skops_saves_and_loads_every_estimator(kind):
    io = pytest.importorskip("skops.io")
    model = small_fit(kind)
    data = io.dumps(model)
    assert io.get_untrusted_types(data=data) == trusted(kind)
    again = io.loads(data, trusted=trusted(kind))
    assert np.array_equal(again.predict(ROWS), model.predict(ROWS))
    assert str(again.privacy_) == str(model.privacy_)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ESTIMATORS, ids=lambda kind: kind.__name__)
def test_mlflows_scikit_learn_flavour_saves_and_loads_every_estimator(kind, tmp_path):
    """Where it is installed: it brings two dozen packages that nothing else here needs."""
    model = small_fit(kind)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        flavour = pytest.importorskip("mlflow.sklearn")
        flavour.save_model(model, tmp_path / "model", skops_trusted_types=trusted(kind))
        again = flavour.load_model(str(tmp_path / "model"))
    assert np.array_equal(again.predict(ROWS), model.predict(ROWS))
    assert str(again.privacy_) == str(model.privacy_)


def trusted(kind):
    """All that a reader has to trust: the estimator itself."""
    return [f"{kind.__module__}.{kind.__name__}"]


def small_fit(kind):
    if kind in CLASSIFIERS:
        return made("three texts", kind, dp_model=None).fit(ROWS, labels("three texts"))
    schema = hr.Schema(FEATURES, target=(0, 110))
    return made("texts", kind, schema=schema, dp_model=None).fit(ROWS, NUMBERS)


# --------------------------------------------------------------------------------------------------
# A user's mistake is answered by hedgerow's own error, which says what to do.
HUGE_AND_TINY = [10**400, 10**5000, 1e308, 2e6, Fraction(1, 10**400), 1e-300]


@pytest.mark.parametrize("name", ["privacy_", "classes_", "model_", "schema_", "ledger_"])
def test_what_fit_sets_says_before_it_that_fit_is_missing(name):
    model = made("texts")
    with pytest.raises(NotFittedError, match=f"not fitted yet, so it has no {name}; call fit"):
        getattr(model, name)
    assert not hasattr(model, name)
    with pytest.raises(AttributeError, match="no attribute 'privacy'"):
        model.privacy  # noqa: B018


@pytest.mark.parametrize("y", ["t", 1, b"t"], ids=repr)
def test_labels_named_by_a_text_are_asked_for_by_target(y):
    rows = ROWS.assign(t=labels("texts"))
    with pytest.raises(DataError, match=r"not a label for each row.*fit\(frame, target='...'\)"):
        made("texts").fit(rows, y)
    with pytest.raises(DataError, match="not a label for each row"):
        hr.evaluate(fitted("texts")[0], rows, y, epsilon=1.0)
    assert made("texts").fit(rows, target="t").score(ROWS, labels("texts")) > 0.9


@pytest.mark.parametrize("epsilon", HUGE_AND_TINY, ids=range(6))
def test_an_epsilon_beyond_all_use_is_refused_with_what_is_allowed(epsilon):
    with pytest.raises(
        ParameterError, match=r"epsilon is .*; use a finite number above 0, from 1e-12"
    ):
        made("texts", dp_model=None, epsilon=epsilon).fit(ROWS, labels("texts"))
    with pytest.raises(
        ParameterError, match=r"epsilon is .*; use a finite number above 0, from 1e-12"
    ):
        hr.evaluate(fitted("texts")[0], ROWS, labels("texts"), epsilon=epsilon)


@pytest.mark.parametrize("delta", [Fraction(1, 10**400), 1e-300, 1, Fraction(10**400)])
def test_a_delta_beyond_all_use_is_refused_with_what_is_allowed(delta):
    with pytest.raises(
        ParameterError, match=r"delta is .*; use 0 for pure epsilon, or a public number"
    ):
        made("texts", dp_model=None, delta=delta).fit(ROWS, labels("texts"))


@pytest.mark.parametrize("text", ["[" * 200_000, '{"format":' + "[" * 200_000], ids=len)
def test_a_model_file_of_brackets_is_no_model(text, tmp_path):
    (tmp_path / "m.json").write_text(text)
    with pytest.raises(DataError, match="deeper than any model; give a file written by save"):
        hr.load(tmp_path / "m.json")


def of_texts(content):
    content["parameters"]["n_jobs"] = "x"


def of_huge_leaves(content):
    for tree in content["model"]["score"]["trees"]:
        tree["leaves"] = (np.ones_like(tree["leaves"]) * 1e308).tolist()


def of_a_huge_start(content):
    content["model"]["score"]["base"] = [1e308 for _ in content["model"]["score"]["base"]]


def of_nests(content):
    for _ in range(600):
        content["parameters"]["n_jobs"] = [content["parameters"].get("n_jobs")]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (of_texts, "n_jobs is 'x'; use a whole number"),
        (of_nests, r"n_jobs is \[\[.*; use a whole number"),
        (of_huge_leaves, r"beyond 1e\+100"),
        (of_a_huge_start, r"beyond 1e\+100"),
    ],
)
def test_a_model_file_of_what_no_fit_writes_is_refused(change, words, tmp_path):
    path = tmp_path / "m.json"
    fitted("texts")[0].save(path)
    content = model_file.read(path)
    change(content)
    model_file.write(path, content)
    with pytest.raises(DataError, match=words):
        hr.load(path)
