"""Which exports there are, and how a file of each is written."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Protocol

from hedgerow.errors import SpecError
from hedgerow.report import registry
from hedgerow.report.exports import dot, onnx, plain_text, python, sql, xgboost
from hedgerow.report.plain import PlainModel, plain
from hedgerow.report.weighing import Readable


class Handed(Readable, registry.Stated, Protocol):
    """A fitted estimator, or a model read back from its file."""


OF_MODELS: dict[str, Callable[[PlainModel], str | bytes]] = {
    "onnx": onnx.to_onnx,
    "python": python.to_python,
    "sql": sql.to_sql,
    "xgboost": xgboost.to_xgboost,
    "dot": dot.to_dot,
    "text": plain_text.to_text,
}
EXPORT_KINDS = (*OF_MODELS, "registry")


def exported(model: Handed, path: str | Path, to: str) -> Path:
    """Writes what another program reads, and says where."""
    if to not in EXPORT_KINDS:
        raise SpecError(f"to is {to!r}; use one of {list(EXPORT_KINDS)}.")
    content = registry.registry_text(model) if to == "registry" else OF_MODELS[to](plain(model))
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
