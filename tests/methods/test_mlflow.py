"""MLflow saves, loads and logs models of ours; its tags are facts of their statements."""

from __future__ import annotations

import numpy as np
import pytest

import hedgerow as hr
from hedgerow.errors import ParameterError
from hedgerow.methods import mlflow as flavor
from hedgerow.report.exports.cards import facts_of
from support.handed_on import NAMES, answers, fitted, rows

X = rows(40).replace([np.inf, -np.inf], np.nan)
X[NAMES[3]] = X[NAMES[3]].replace({"7": None})
TASKS = pytest.mark.parametrize("task", ["two classes", "number"])


@pytest.fixture
def mlflow(tmp_path, monkeypatch):
    found = pytest.importorskip("mlflow", reason="mlflow is not installed")
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
