"""The export formats, and how a file of each is written."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any, Protocol

from hedgerow.errors import ParameterError
from hedgerow.report import registry
from hedgerow.report.exports import cards, onnx, plain_text, python, sql, xgboost
from hedgerow.report.plain import PlainModel, plain
from hedgerow.report.weighing import Readable


class Handed(Readable, registry.Stated, Protocol):
    """A fitted estimator, or a model read back from its file."""


OF_MODELS: dict[str, Callable[[PlainModel], str | bytes]] = {
    "onnx": onnx.to_onnx,
    "python": python.to_python,
    "sql": sql.to_sql,
    "xgboost": xgboost.to_xgboost,
    "dot": plain_text.to_dot,
    "text": plain_text.to_text,
}
OF_STATEMENTS: dict[str, Callable[[Any], str | bytes]] = {
    "registry": registry.registry_text,
    "model-card": cards.model_card,
    "cyclonedx": cards.cyclonedx,
    "croissant": cards.croissant,
    "annex-iv": cards.annex_iv,
    "skops": lambda model: bytes(import_optional("skops.io").dumps(model)),
}
EXPORT_KINDS = (*OF_MODELS, *OF_STATEMENTS, "mlflow", "signature")
"""`mlflow` writes a folder (methods/mlflow.py), `signature` a bundle beside the model file."""
PACKAGES = {"skops.io": "skops", "mlflow": "mlflow", "model_signing": "model-signing"}


def import_optional(module: str) -> Any:
    """Imports a module that only some exports need."""
    try:
        return import_module(module)
    except ImportError as error:
        package = PACKAGES.get(module, module)
        raise ParameterError(f"{package} is not installed; pip install {package}.") from error


def export_model(model: Handed, path: str | Path, to: str, times: Sequence[float] = ()) -> Path:
    """Writes a model for another program; returns the file's path."""
    if to not in EXPORT_KINDS:
        raise ParameterError(f"to is {to!r}; use one of {list(EXPORT_KINDS)}.")
    write = OF_STATEMENTS.get(to)
    content = write(model) if write is not None else OF_MODELS[to](plain(model, times))
    return write_file(path, content.encode() if isinstance(content, str) else content)


def write_signature(model_path: str | Path, path: str | Path, key: str | Path | None) -> Path:
    """Writes an OpenSSF model signature of a model file, by a private key in a PEM file."""
    if key is None or not Path(key).is_file():
        raise ParameterError(
            f"key is {str(key)!r}; give the PEM file of an elliptic-curve private key."
        )
    signing = import_optional("model_signing").signing.Config()
    signing.use_elliptic_key_signer(private_key=str(key)).sign(str(model_path), str(path))
    return Path(path)


def write_file(path: str | Path, content: bytes) -> Path:
    target = Path(path)
    try:
        target.write_bytes(content)
    except OSError as error:
        raise ParameterError(
            f"{path} cannot be written: {error.strerror}; give the path of a file that may be."
        ) from error
    return target
