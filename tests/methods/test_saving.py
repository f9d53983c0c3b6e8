"""A model that was saved and loaded is the model that was saved; any other file says what it is."""

from __future__ import annotations

import copy
import inspect
import json
import pickle
from fractions import Fraction
from itertools import count
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from sklearn.base import is_regressor
from sklearn.exceptions import NotFittedError

import hedgerow as hr
from hedgerow.errors import DataError, ParameterError
from hedgerow.methods import mlflow as flavor
from hedgerow.methods import model_file, saving
from hedgerow.privacy.mechanisms.response import BloomRandomizedResponse
from hedgerow.privacy.statement.record import RunRecord
from hedgerow.privacy.statement.statement import PrivacyStatement
from hedgerow.report.exports.cards import facts_of
from hedgerow.schema.grids import ColumnKind
from hedgerow.schema.schema import Schema
from support.handed_on import NAMES, answers, fitted, rows
from support.worlds import FEATURES, TWO, VALUE, sample

ESTIMATORS = [
    getattr(hr, name) for name in hr.__all__ if name.endswith(("Classifier", "Regressor"))
]
CLASSIFIERS = [kind for kind in ESTIMATORS if not is_regressor(kind())]
REGRESSORS = [kind for kind in ESTIMATORS if is_regressor(kind())]
SHOWABLE = ["TreeClassifier", "TreeRegressor", "HistogramTreeClassifier", "TopDownTreeClassifier"]

LABELS = {
    "two integers": np.array([0, 1]),
    "three small integers": np.array([-1, 0, 7], np.int8),
    "large integers": np.array([2**40, 2**40 + 1]),
    "booleans": np.array([False, True]),
    "two floats": np.array([-1.0, 1.0]),
    "three floats of 32 bits": np.array([0.0, 1.0, 2.0], np.float32),
    "texts": np.array(["no", "yes"]),
    "three texts": np.array(["a", "bb", "ccc"]),
    "objects that are texts": np.array(["no", "yes"], object),
    "objects that are integers": np.array([3, 4, 5], object),
    "objects that are booleans": np.array([False, True], object),
}
KINDS = {bool: "b", int: "i", float: "i", str: "U"}
"""Of `classes_`, by the type in which a schema lists classes; floats among them are whole."""
Z, TRUTH = sample(60, VALUE, seed=3)
FRAME = pd.DataFrame(Z, columns=["age", "dose", "ward"])


def small(kind, **options):
    known = inspect.signature(kind).parameters
    quick = {"n_estimators": 2, "max_depth": 2, "max_splits": 3, "random_state": 0, "epsilon": 5.0}
    return kind(**{**{k: v for k, v in quick.items() if k in known}, **options})


def labels_like(values):
    """A label for each row, of the values' own type."""
    cuts = np.quantile(TRUTH.astype(float), np.arange(1, len(values)) / len(values))
    return values[np.searchsorted(cuts, TRUTH.astype(float))]


def through_a_file(model, folder):
    model.save(folder / "model.json")
    return hr.load(folder / "model.json")


def assert_the_same(again, model, X, y):
    assert type(again) is type(model)
    assert again.get_params() == model.get_params()
    assert repr(again) == repr(model)
    assert again.predict(X).dtype == model.predict(X).dtype
    assert np.array_equal(again.predict(X), model.predict(X))
    if y.dtype != object or isinstance(y[0], str | float):  # scikit-learn scores no other objects
        assert again.score(X, y) == model.score(X, y)
    assert again.privacy_ == model.privacy_
    assert again.run_ == model.run_
    assert again.schema_ == model.schema_
    assert again.n_features_in_ == model.n_features_in_


# --------------------------------------------------------------------------------- round trips
def classifiers_and_labels():
    """Each estimator, and each kind of labels; every pair of them in the long suite."""
    for i, kind in enumerate(CLASSIFIERS):
        for j, name in enumerate(LABELS):
            short = (i + j) % 4 == 0 or kind is hr.TreeClassifier
            marks = () if short else pytest.mark.slow
            yield pytest.param(kind, LABELS[name], id=f"{kind.__name__}-{name}", marks=marks)


@pytest.mark.parametrize(("kind", "values"), list(classifiers_and_labels()))
def test_a_classifier_comes_back_with_labels_of_their_own_type(kind, values, tmp_path):
    schema, y = Schema(FEATURES, classes=tuple(values)), labels_like(values)
    model = small(kind, schema=schema).fit(Z, y)
    assert model.classes_.dtype.kind == KINDS[type(values.tolist()[0])]
    assert list(model.classes_) == list(values)
    for again in (through_a_file(model, tmp_path), pickle.loads(pickle.dumps(model))):
        assert_the_same(again, model, Z, y)
        assert again.classes_.dtype == model.classes_.dtype
        assert {type(c) for c in again.classes_} == {type(c) for c in model.classes_}
        assert np.array_equal(again.predict_proba(Z), model.predict_proba(Z))


@pytest.mark.parametrize("kind", REGRESSORS, ids=lambda k: k.__name__)
def test_a_regressor_comes_back(kind, tmp_path):
    model = small(kind, schema=VALUE).fit(FRAME, TRUTH)
    for again in (through_a_file(model, tmp_path), pickle.loads(pickle.dumps(model))):
        assert_the_same(again, model, FRAME, TRUTH)
        assert list(again.feature_names_in_) == ["age", "dose", "ward"]
        assert not hasattr(again, "classes_")


@pytest.mark.parametrize("name", SHOWABLE)
def test_a_tree_that_comes_back_can_be_shown_drawn_and_asked(name, tmp_path):
    kind = getattr(hr, name)
    schema, y = (VALUE, TRUTH) if kind in REGRESSORS else (TWO, labels_like(np.array(TWO.classes)))
    model = small(kind, schema=schema, epsilon=50.0).fit(FRAME, y)
    again = through_a_file(model, tmp_path)
    assert again.decision_path(FRAME) == model.decision_path(FRAME)
    assert hr.show_tree(again) == hr.show_tree(model)
    assert hr.explain(again, FRAME) == hr.explain(model, FRAME)
    assert hr.draw_tree(again, tmp_path / "tree.svg").exists()


def test_statement_and_run_come_back_as_what_they_were(tmp_path):
    model = small(hr.TreeClassifier, schema=TWO).fit(*sample(60, TWO), site=np.arange(60) % 3)
    again = through_a_file(model, tmp_path)
    assert isinstance(again.privacy_, PrivacyStatement)
    assert isinstance(again.run_, RunRecord)
    assert str(again.privacy_) == str(model.privacy_)
    assert again.run_.bytes_per_site == model.run_.bytes_per_site > 0


def test_an_infinite_epsilon_stays_infinite(tmp_path):
    model = small(hr.TreeClassifier, schema=TWO, dp_model="none").fit(*sample(60, TWO))
    assert through_a_file(model, tmp_path).privacy_ == model.privacy_


def test_parameters_that_are_values_come_back_equal(tmp_path):
    X, y = sample(60, TWO)
    reports = BloomRandomizedResponse.for_epsilon(2, 4, 2, Fraction(5))
    label = hr.ExtraTreesClassifier(
        TWO, 5.0, n_estimators=np.int64(2), max_depth=2, dp_model="label", label_mechanism=reports
    ).fit(X, y)
    refined = hr.HistogramTreeClassifier(
        TWO, Fraction(5, 3), max_depth=1, screening=hr.FeatureScreening(bins=None)
    ).fit(X, y)
    for model in (label, refined):
        assert through_a_file(model, tmp_path).get_params() == model.get_params()


def test_a_function_among_the_parameters_is_named_and_left_out(tmp_path):
    X, y = sample(60, TWO)
    model = hr.TopDownTreeClassifier(TWO, max_splits=3, budget=lambda depth: 0.5**depth).fit(X, y)
    with pytest.warns(UserWarning, match=r"\['budget'\]"):
        again = through_a_file(model, tmp_path)
    assert again.budget == "decay"
    assert np.array_equal(again.predict_proba(X), model.predict_proba(X))


def test_a_loaded_model_can_be_saved_again_to_the_same_bytes(tmp_path):
    model = small(hr.ForestClassifier, schema=TWO).fit(*sample(60, TWO))
    model.save(tmp_path / "one.json")
    hr.load(tmp_path / "one.json").save(tmp_path / "two.json")
    assert (tmp_path / "one.json").read_bytes() == (tmp_path / "two.json").read_bytes()


def test_boosted_trees_of_a_file_of_before_have_the_class_of_their_method():
    """Written where one class had all methods, by BoostedTreesClassifier(method="DP-EBM")."""
    model = hr.load(Path(__file__).parents[1] / "vectors" / "model_version_5_boosted.json")
    assert type(model) is hr.ComponentBoostingClassifier
    of_paper = {"n_estimators": 2, "max_depth": 1, "epsilon": 10.0, "random_state": 0}
    assert model.get_params() == hr.papers.maddock.dp_ebm(model.schema, **of_paper).get_params()
    assert len(model.model_.score.trees) == model.n_estimators == 4
    said = [[0.6273800837947163, 0.3726199162052837], [0.3687368795498156, 0.6312631204501844]]
    assert model.predict_proba([[25, 1], [75, 9]]).tolist() == said


@pytest.mark.parametrize(
    ("name", "given", "expected"),
    [
        ("BoostedTreesClassifier", {"method": "default"}, hr.BoostedTreesClassifier()),
        ("BoostedTreesRegressor", {"method": "default", "n_estimators": 9}, None),
        (
            "BoostedTreesRegressor",
            {"method": "components", "split": "histogram"},
            hr.ComponentBoostingRegressor(split="histogram"),
        ),
        ("BoostedTreesRegressor", {"method": "DP-RF"}, hr.papers.maddock.dp_rf(VALUE)),
    ],
)
def test_every_method_of_before_is_found_again(name, given, expected):
    """None was the method's own value; the schema may have been read from rows."""
    absent = {"schema": None, "trees_per_round": None, "leaf_values": None, "n_estimators": None}
    content = {"estimator": name, "parameters": absent | given, "schema": VALUE.to_dict()}
    expected = expected or hr.BoostedTreesRegressor(n_estimators=9)
    found = saving._make_estimator(content)
    assert type(found) is type(expected)
    assert found.get_params() == expected.set_params(schema=None).get_params()


def test_classes_that_no_number_names_are_texts(tmp_path):
    schema = Schema(FEATURES, classes=("0", "1", "unknown"))
    model = small(hr.TreeClassifier, schema=schema).fit(Z, labels_like(np.array([0, 1])))
    assert list(model.classes_) == ["0", "1", "unknown"]
    assert list(through_a_file(model, tmp_path).classes_) == ["0", "1", "unknown"]


# ---------------------------------------------------------------------------------- other files
@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    path = tmp_path_factory.mktemp("saved") / "model.json"
    model = small(hr.HistogramTreeClassifier, schema=TWO).fit(*sample(60, TWO))
    model.save(path)
    return path


def refusal(path):
    with pytest.raises(DataError) as refused:
        hr.load(path)
    return str(refused.value)


def changed(saved, path, change, seal=False):
    """The saved document after `change`; `seal` makes its digest right again."""
    document = json.loads(saved.read_text())
    change(document)
    if seal:
        document["digest"] = model_file.digest_of_file(document)
    path.write_text(json.dumps(document))
    return path


def test_an_untouched_copy_is_loaded(saved, tmp_path):
    """Twin of all below: written anew by another hand, the file is still what it was."""
    assert hr.load(changed(saved, tmp_path / "m.json", lambda d: None)).classes_.tolist()


def test_an_untouched_file_is_not_spelled_again(saved, tmp_path, monkeypatch):
    """Its digest is that of a line as it lies there. Twin: another spelling is spelled back."""
    other = changed(saved, tmp_path / "m.json", lambda d: None)
    spelled = []
    monkeypatch.setattr(model_file, "_canonical_json", lambda value: spelled.append(value) or b"")
    assert model_file.open_document(saved)["content"]["estimator"] == "HistogramTreeClassifier"
    assert not spelled
    refusal(other)
    assert spelled


def test_a_second_content_beside_the_right_one_is_not_believed(saved, tmp_path):
    """JSON takes the last of two entries of one name: so does the check."""
    text, path = saved.read_text(), tmp_path / "m.json"
    forged = json.dumps(json.loads(text)["content"] | {"columns": ["forged", "too"]})
    path.write_text(text.removesuffix("\n}\n") + f',\n"content":{forged}\n}}\n')
    assert "was changed" in refusal(path)
    path.write_text(f'{{\n"content":{forged},' + text.removeprefix("{"))
    assert not hasattr(hr.load(path), "feature_names_in_")


@pytest.mark.parametrize("part", [0.1, 0.5, 0.9, 0.999])
def test_a_file_that_is_cut_short_says_so(saved, tmp_path, part):
    text = saved.read_text()
    (tmp_path / "m.json").write_text(text[: int(len(text) * part)])
    assert "cut short" in refusal(tmp_path / "m.json")


def numbers_of(value, path=()):
    if isinstance(value, dict | list):
        pairs = value.items() if isinstance(value, dict) else enumerate(value)
        return [found for key, inner in pairs for found in numbers_of(inner, (*path, key))]
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return [path] if is_number else []


def test_every_number_that_is_changed_is_noticed(saved, tmp_path):
    content = json.loads(saved.read_text())["content"]
    places = numbers_of(content)
    assert len(places) > 50

    for place in places[:: len(places) // 40]:

        def change(document, place=place):
            inner = document["content"]
            for key in place[:-1]:
                inner = inner[key]
            inner[place[-1]] += 1

        assert "was changed" in refusal(changed(saved, tmp_path / "m.json", change))


@pytest.mark.parametrize("release", ["0.2.0", "0.1", "", 1])
def test_a_release_that_is_changed_is_noticed(saved, tmp_path, release):
    path = tmp_path / "m.json"
    changed(saved, path, lambda document: document.update(release=release))
    assert "was changed" in refusal(path)
    line = f'"release":{json.dumps(release)}'
    path.write_text(saved.read_text().replace(f'"release":"{hr.__version__}"', line))
    assert "was changed" in refusal(path)


@pytest.mark.parametrize("name", ["release", "digest", "content"])
def test_a_file_without_one_of_its_entries_names_it(saved, tmp_path, name):
    path = changed(saved, tmp_path / "m.json", lambda d: d.pop(name))
    assert f"lacks ['{name}']" in refusal(path)


@pytest.mark.parametrize("name", ["estimator", "parameters", "schema", "model", "privacy", "run"])
def test_a_content_without_one_of_its_entries_names_it(saved, tmp_path, name):
    path = changed(saved, tmp_path / "m.json", lambda d: d["content"].pop(name), seal=True)
    assert f"lacks ['{name}']" in refusal(path)


@pytest.mark.parametrize(
    ("version", "release", "words"),
    [
        (model_file.FORMAT_VERSION + 1, "9.9.9", "written by hedgerow 9.9.9.*update hedgerow"),
        (3, "0.1.0", "written by hedgerow 0.1.0.*fit and save the model again"),
        (1, None, "written by hedgerow before 0.1.0.*fit and save the model again"),
        ("two", "0.1.0", "version 'two'"),
    ],
)
def test_a_file_of_another_version_names_the_release(saved, tmp_path, version, release, words):
    def change(document):
        document["version"] = version
        document.pop("release")
        if release is not None:
            document["release"] = release

    with pytest.raises(DataError, match=words):
        hr.load(changed(saved, tmp_path / "m.json", change))


@pytest.mark.parametrize("content", [b"age,dose\n1,2\n", b"\x93NUMPY\xff\xfe", b""])
def test_a_file_that_is_no_json_says_so(tmp_path, content):
    (tmp_path / "m.json").write_bytes(content)
    assert "no JSON" in refusal(tmp_path / "m.json")


@pytest.mark.parametrize("content", ["{}", "[]", "3", '{"format": "other"}'])
def test_json_that_is_no_model_says_so(tmp_path, content):
    (tmp_path / "m.json").write_text(content)
    assert "no hedgerow model" in refusal(tmp_path / "m.json")


def test_a_file_that_is_not_there_says_so(tmp_path):
    assert "cannot be read" in refusal(tmp_path / "absent.json")


STRANGE = {
    "an estimator of another package": lambda c: c.update(estimator="os"),
    "a name that is no estimator": lambda c: c.update(estimator="Schema"),
    "a parameter nobody knows": lambda c: c["parameters"].update(color="blue"),
    "labels of a strange type": lambda c: c["classes"].update(type="datetime64[D]"),
    "a value of a strange kind": lambda c: c["parameters"].update(schema={"pickle": "..."}),
    "leaves of another tree": lambda c: c["leaves"][0].pop(),
    "a statement that lacks a line": lambda c: c["privacy"].pop("unit"),
}


@pytest.mark.parametrize("change", STRANGE.values(), ids=STRANGE)
def test_a_sealed_file_with_strange_content_is_refused_all_the_same(saved, tmp_path, change):
    path = changed(saved, tmp_path / "m.json", lambda d: change(d["content"]), seal=True)
    assert "does not understand" in refusal(path)


# -------------------------------------------------------------------------------------- writing
def test_a_folder_that_is_missing_is_named(saved, tmp_path):
    with pytest.raises(ParameterError, match="is no folder"):
        hr.load(saved).save(tmp_path / "absent" / "model.json")


def test_a_folder_is_no_file_to_write(saved, tmp_path):
    with pytest.raises(ParameterError, match="cannot be written"):
        hr.load(saved).save(tmp_path)
    assert list(tmp_path.parent.glob("*.part")) == []


def test_a_model_that_was_not_fitted_is_not_saved(tmp_path):
    with pytest.raises(NotFittedError):
        hr.TreeClassifier(TWO).save(tmp_path / "model.json")


def test_a_failed_save_leaves_the_old_file(saved, tmp_path, monkeypatch):
    path, old = tmp_path / "model.json", saved.read_bytes()
    path.write_bytes(old)
    model, calls = hr.load(saved), count()

    def full_disk(*args):
        next(calls)
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(model_file.os, "replace", full_disk)
    with pytest.raises(ParameterError, match="No space left"):
        model.save(path)
    assert next(calls) == 1
    assert path.read_bytes() == old


def test_what_is_in_a_file_is_a_copy(saved):
    """Loading twice gives two models that share nothing which one of them could change."""
    one, two = hr.load(saved), hr.load(saved)
    one.run_.rounds.clear()
    assert two.run_.rounds
    assert copy.deepcopy(two).get_params() == two.get_params()


# --------------------------------------------------------------------------------------------------
# MLflow saves, loads and logs models of ours; its tags are facts of their statements.
X = rows(40).replace([np.inf, -np.inf], np.nan)
X[NAMES[3]] = X[NAMES[3]].replace({"7": None})
TASKS = pytest.mark.parametrize("task", ["two classes", "number"])


@pytest.fixture
def mlflow(tmp_path, monkeypatch):
    found = pytest.importorskip("mlflow", reason="mlflow is not installed (make test-artifacts)")
    monkeypatch.setenv("MLFLOW_DISABLE_TELEMETRY", "true")
    monkeypatch.setenv("MLFLOW_ENABLE_ARTIFACTS_PROGRESS_BAR", "false")
    found.set_tracking_uri(f"sqlite:///{tmp_path / 'runs.sqlite'}")
    found.create_experiment("here", artifact_location=str(tmp_path / "artifacts"))
    found.set_experiment("here")
    return found


def model_of(task: str):
    return fitted("BoostedTreesRegressor" if task == "number" else "TreeClassifier", task)


def said(frame, task: str):
    columns = [c for c in frame.columns if task == "number" or c != "prediction"]
    return frame[columns].to_numpy(float)


def test_the_flavor_is_an_attribute_of_the_package_and_tags_are_facts():
    assert hr.mlflow is flavor
    model = model_of("two classes")
    assert flavor.tags_of(model) == {f"hedgerow.{k}": v for k, v in facts_of(model).items()}
    assert all(len(value) < 5000 for value in flavor.tags_of(model).values())


@pytest.mark.filterwarnings("ignore")
@TASKS
def test_a_saved_model_predicts_as_before(task, mlflow, tmp_path):
    model = model_of(task)
    folder = model.export(tmp_path / "saved", to="mlflow")
    again = flavor.load_model(str(folder))
    assert again.privacy_ == model.privacy_
    assert np.array_equal(answers(again, X), answers(model, X))
    generic = mlflow.pyfunc.load_model(str(folder))
    np.testing.assert_allclose(said(generic.predict(X), task), answers(model, X), atol=1e-12)
    assert generic.metadata.metadata["hedgerow.guarantee"] == model.privacy_.summary
    files = {path.name for path in folder.iterdir()}
    assert files == {"MLmodel", "model.json", "python_env.yaml", "requirements.txt"}


@pytest.mark.filterwarnings("ignore")
def test_whole_numbers_as_a_csv_file_has_them_are_taken(mlflow, tmp_path):
    model = model_of("two classes")
    generic = mlflow.pyfunc.load_model(str(model.export(tmp_path / "saved", to="mlflow")))
    numbers = [g.feature for g in model.schema_.grids if g.kind is ColumnKind.NUMERIC]
    whole = X.assign(**{name: np.arange(len(X)) for name in numbers})
    assert {whole[name].dtype for name in numbers} == {np.dtype(np.int64)}
    found = said(generic.predict(whole), "two classes")
    np.testing.assert_allclose(found, answers(model, whole), atol=1e-12)


@pytest.mark.filterwarnings("ignore")
@TASKS
def test_a_logged_model_has_its_statement_as_tags(task, mlflow):
    model = model_of(task)
    with mlflow.start_run() as run:
        logged = flavor.log_model(model)
    tags = mlflow.get_run(run.info.run_id).data.tags
    assert flavor.tags_of(model).items() <= tags.items()
    again = mlflow.pyfunc.load_model(logged.model_uri)
    np.testing.assert_allclose(said(again.predict(X), task), answers(model, X), atol=1e-12)


def test_a_folder_that_holds_something_is_not_written_over(mlflow, tmp_path):
    (tmp_path / "there").mkdir()
    (tmp_path / "there/file").write_text("x")
    with pytest.raises(ParameterError, match="exists already"):
        model_of("two classes").export(tmp_path / "there", to="mlflow")


def test_without_the_package_the_error_says_what_to_install(monkeypatch, tmp_path):
    monkeypatch.setitem(__import__("sys").modules, "mlflow", None)
    with pytest.raises(ParameterError, match="mlflow is not installed; pip install mlflow"):
        model_of("two classes").export(tmp_path / "saved", to="mlflow")
