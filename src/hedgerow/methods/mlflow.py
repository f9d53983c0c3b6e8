"""MLflow flavor: a fitted model in MLflow's format, with its privacy statement as metadata and
tags.

`hedgerow.mlflow.save_model`, `log_model` and `load_model` work like those of MLflow's own flavors;
`mlflow.pyfunc.load_model` reads the same folder. The folder has the model file and only noisy
numbers.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from hedgerow.errors import ParameterError
from hedgerow.methods.saving import load
from hedgerow.schema.grids import ColumnKind
from hedgerow.version import __version__

FLAVOR = "hedgerow"
MODEL_FILE = "model.json"
PREDICTION = "prediction"


def save_model(model: Any, path: str | Path, mlflow_model: Any = None, **more: Any) -> Path:
    """Write a folder in MLflow's format.

    Parameters
    ----------
    model : estimator
        A fitted estimator.
    path : str or Path
        The folder to write; it must not exist, or be empty.
    mlflow_model : mlflow.models.Model or None, default=None
        Passed by `mlflow.models.Model.log`.
    **more
        Other fields of `mlflow.models.Model`, such as `metadata`.

    """
    mlflow = _package("mlflow")
    folder = Path(path)
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise ParameterError(f"{path} exists already; name a folder that does not exist.")
    folder.mkdir(parents=True, exist_ok=True)
    model.save(folder / MODEL_FILE)
    description = mlflow_model or mlflow.models.Model()
    metadata = more.pop("metadata", None) or {}
    description.metadata = {**(description.metadata or {}), **tags_of(model), **metadata}
    description.signature = more.pop("signature", None) or signature_of(model)
    description.add_flavor(FLAVOR, hedgerow_version=__version__, data=MODEL_FILE)
    mlflow.pyfunc.add_to_model(
        description, loader_module=__name__, data=MODEL_FILE, python_env="python_env.yaml"
    )
    environment = mlflow.utils.environment._PythonEnv.current()
    environment.dependencies = ["-r requirements.txt"]
    environment.to_yaml(str(folder / "python_env.yaml"))
    (folder / "requirements.txt").write_text(f"hedgerow=={__version__}\n", encoding="utf-8")
    description.save(str(folder / "MLmodel"))
    return folder


def log_model(model: Any, name: str = "model", **more: Any) -> Any:
    """Log a fitted model to the active run, with its privacy statement as tags of the run."""
    mlflow = _package("mlflow")
    model_info = mlflow.models.Model.log(
        artifact_path=None,
        name=name,
        flavor=sys.modules[__name__],
        model=model,
        metadata=tags_of(model),
        **more,
    )
    mlflow.set_tags(tags_of(model))
    return model_info


def load_model(model_uri: str) -> Any:
    """Load the fitted estimator at an MLflow URI."""
    mlflow = _package("mlflow")
    return load(Path(mlflow.artifacts.download_artifacts(model_uri)) / MODEL_FILE)


def _package(name: str) -> Any:
    from hedgerow.report.exports.export import import_optional

    return import_optional(name)


def tags_of(model: Any) -> dict[str, str]:
    """The facts of the privacy statement, named as tags."""
    from hedgerow.report.exports.cards import facts_of

    return {f"hedgerow.{name}": value for name, value in facts_of(model).items()}


def signature_of(model: Any) -> Any:
    """The columns of the schema, which may all be missing, and those of a prediction."""
    mlflow = _package("mlflow")
    column, kinds = mlflow.types.ColSpec, mlflow.types.DataType
    types = {ColumnKind.NUMERIC: mlflow.types.schema.AnyType()}  # a double refuses whole numbers
    inputs = [
        column(types.get(grid.kind, kinds.string), grid.feature, required=False)
        for grid in model.schema_.grids
    ]
    classes = model.schema_.classes
    first = kinds.double if classes is None else kinds.string
    names = [] if classes is None else [probability_name(name) for name in classes]
    outputs = [column(first, PREDICTION), *(column(kinds.double, name) for name in names)]
    schema = mlflow.types.Schema
    return mlflow.models.ModelSignature(schema(inputs), schema(outputs))


def probability_name(label: str) -> str:
    """The name of a probability column, as `hedgerow predict` writes it."""
    return f"probability of {label}"


class PyfuncModel:
    """Called by `mlflow.pyfunc`: rows in, a data frame of predictions out."""

    def __init__(self, model: Any) -> None:
        self.model = model

    def predict(self, rows: Any, params: Any = None) -> Any:
        """One row of predictions per row; for classes also their probabilities."""
        pandas, classes = _package("pandas"), self.model.schema_.classes
        if classes is None:
            return pandas.DataFrame({PREDICTION: self.model.predict(rows)})
        outputs = self.model.predict_proba(rows)
        class_names = [classes[k] for k in outputs.argmax(axis=1)]
        columns = {probability_name(name): outputs[:, k] for k, name in enumerate(classes)}
        return pandas.DataFrame({PREDICTION: class_names, **columns})


def _load_pyfunc(path: str) -> PyfuncModel:
    return PyfuncModel(load(path))
