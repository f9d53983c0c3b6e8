"""A model as a JSON file: schema, trees, statement. Noisy numbers only."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import numpy as np

from hedgerow.errors import DataError
from hedgerow.models import Model
from hedgerow.schema import Schema

FORMAT = "hedgerow-model"
VERSION = 1


def save_model(path: str | Path, estimator: Any) -> None:
    """Writes beside the target and renames, so that a full disk leaves no half a model."""
    document = {
        "format": FORMAT,
        "version": VERSION,
        "estimator": type(estimator).__name__,
        "schema": estimator.schema_.to_dict(),
        "model": estimator.model_.to_dict(),
        "privacy": estimator.privacy_.to_dict(),
        "run": estimator.run_.to_dict(),
    }
    target = Path(path)
    half = target.with_name(target.name + ".part")
    half.write_text(json.dumps(document, indent=1, allow_nan=False), encoding="utf-8")
    os.replace(half, target)


class LoadedModel:
    """A model read back from its file: it predicts and shows its statement."""

    def __init__(self, document: dict[str, Any]) -> None:
        self.schema_ = Schema.from_dict(document["schema"])
        self.model_ = Model.from_dict(document["model"])
        self.privacy_ = document["privacy"]
        self.estimator = document["estimator"]
        self.run_ = document["run"]

    def predict(self, X: Any) -> Any:
        from hedgerow.party import reading

        out = self.model_.predict(reading.encode_features(X, self.schema_))
        if self.schema_.classes is None:
            return out[:, 0]
        return np.asarray(self.schema_.classes, dtype=object)[out.argmax(axis=1)]

    def predict_proba(self, X: Any) -> Any:
        from hedgerow.party import reading

        if self.schema_.classes is None:
            raise DataError("this model predicts a number; use predict instead of predict_proba.")
        return self.model_.predict(reading.encode_features(X, self.schema_))


def load_model(path: str | Path) -> LoadedModel:
    try:
        document = json.loads(Path(path).read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise DataError(
            f"{path} is no model file ({error}); give a file written by save()."
        ) from error
    if not isinstance(document, dict) or document.get("format") != FORMAT:
        raise DataError(f"{path} is no hedgerow model; give a file written by save().")
    if document["version"] != VERSION:
        raise DataError(
            f"{path} has format version {document['version']}, this release reads {VERSION}; "
            "use the release that wrote it."
        )
    return LoadedModel(document)
