"""Which exports there are, and how a file of each is written."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Protocol

from hedgerow.errors import SpecError
from hedgerow.report import registry
from hedgerow.report.exports import dot, onnx, plain_text, python, sql, xgboost
from hedgerow.report.plain import PlainModel, Predicting, plain


class Handed(Predicting, registry.Stated, Protocol):
    """A fitted estimator, or a model read back from its file."""


OF_MODELS: dict[str, Callable[[PlainModel], str | bytes]] = {
    "onnx": onnx.written,
    "python": python.written,
    "sql": sql.written,
    "xgboost": xgboost.written,
    "dot": dot.written,
    "text": plain_text.written,
}
EXPORT_KINDS = (*OF_MODELS, "registry")


def exported(model: Handed, path: str | Path, to: str) -> Path:
    """Writes what another program reads, and says where."""
    if to not in EXPORT_KINDS:
        raise SpecError(f"to is {to!r}; use one of {list(EXPORT_KINDS)}.")
    content = registry.written(model) if to == "registry" else OF_MODELS[to](plain(model))
    return write_file(path, content.encode() if isinstance(content, str) else content)


def write_file(path: str | Path, content: bytes) -> Path:
    target = Path(path)
    try:
        target.write_bytes(content)
    except OSError as error:
        raise SpecError(
            f"{path} cannot be written: {error.strerror}; give the path of a file that may be."
        ) from error
    return target
