"""A model as a JSON file: schema, trees, statement. Noisy numbers only."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hedgerow.coordinator.record import RunRecord
from hedgerow.coordinator.statement import PrivacyStatement
from hedgerow.errors import DataError, SpecError
from hedgerow.estimators.predicting import outputs
from hedgerow.site.reading import encoding
from hedgerow.values.grown import Grown, LeafValue
from hedgerow.values.models import Model
from hedgerow.values.regions import Region
from hedgerow.values.schema import Schema
from hedgerow.values.trees import Tree

FORMAT = "hedgerow-model"
FORMAT_VERSION = 2


def save_model(path: str | Path, estimator: Any) -> None:
    """Writes beside the target and renames, so that a full disk leaves no half a model."""
    document = {
        "format": FORMAT,
        "version": FORMAT_VERSION,
        "estimator": type(estimator).__name__,
        "schema": estimator.schema_.to_dict(),
        "model": estimator.model_.to_dict(),
        "leaves": _leaves(estimator.grown_),
        "privacy": estimator.privacy_.to_dict(),
        "run": estimator.run_.to_dict(),
    }
    target = Path(path)
    half = target.with_name(target.name + ".part")
    half.write_text(json.dumps(document, indent=1, allow_nan=False), encoding="utf-8")
    os.replace(half, target)


def _leaves(grown: tuple[Grown, ...]) -> list[dict[str, Any]]:
    """Noisy masses of a single tree's leaves, so that the tree can be shown from its file."""
    if len(grown) != 1:
        return []
    return [
        {"masses": v.masses.tolist(), "variance": v.variance, "scale": v.scale}
        for v in grown[0].leaves
    ]


def _grown(tree: Tree, leaves: list[dict[str, Any]]) -> Grown:
    values = tuple(
        LeafValue(
            value,
            np.asarray(leaf["masses"], np.float64),
            float(leaf["variance"]),
            float(leaf["scale"]),
        )
        for value, leaf in zip(tree.values, leaves, strict=True)
    )
    return Grown(tree, values, ())


class LoadedModel:
    """A model read back from its file: it predicts and shows its statement."""

    def __init__(self, document: dict[str, Any]) -> None:
        self.schema_ = Schema.from_dict(document["schema"])
        self.model_ = Model.from_dict(document["model"])
        self.privacy_ = PrivacyStatement.from_dict(document["privacy"])
        self.estimator = document["estimator"]
        leaves = document["leaves"]
        self.grown_ = (_grown(self.model_.score.trees[0], leaves),) if leaves else ()
        self.run_ = RunRecord.from_dict(document["run"])

    def predict(self, X: Any) -> Any:
        out = outputs(self.model_, X, self.schema_)
        if self.schema_.classes is None:
            return out[:, 0]
        return np.asarray(self.schema_.classes, dtype=object)[out.argmax(axis=1)]

    def decision_path(self, X: Any) -> list[Region]:
        return decision_path(self.model_, encoding.encode_features(X, self.schema_))

    def predict_proba(self, X: Any) -> Any:
        if self.schema_.classes is None:
            raise DataError("this model predicts a number; use predict instead of predict_proba.")
        return outputs(self.model_, X, self.schema_)


def decision_path(model: Model, codes: NDArray[np.uint8]) -> list[Region]:
    """The region of the leaf that each record reaches; for models of a single tree."""
    trees = model.score.trees
    if len(trees) != 1:
        raise SpecError(f"this model has {len(trees)} trees; a decision path belongs to one tree.")
    regions = trees[0].regions()
    return [regions[leaf] for leaf in trees[0].apply(codes)]


def load_model(path: str | Path) -> LoadedModel:
    try:
        document = json.loads(Path(path).read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise DataError(
            f"{path} is no model file ({error}); give a file written by save()."
        ) from error
    if not isinstance(document, dict) or document.get("format") != FORMAT:
        raise DataError(f"{path} is no hedgerow model; give a file written by save().")
    if document["version"] != FORMAT_VERSION:
        raise DataError(
            f"{path} has format version {document['version']}, this release reads "
            f"{FORMAT_VERSION}; use the release that wrote it."
        )
    return LoadedModel(document)
