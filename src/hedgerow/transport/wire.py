"""Queries as bytes and back. Values only: no code travels, unknown names are refused.

Large values (trees, curves, binnings, tests) travel once per run and are named by their content
afterwards, so that a batch of trees goes over the wire as the trees that are new.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass, field, fields, replace
from enum import Enum
from fractions import Fraction
from typing import Any

from hedgerow import queries
from hedgerow.errors import SpecError
from hedgerow.queries import Query
from hedgerow.values import losses, models, regions
from hedgerow.values.layers import Layer, NodeTests, layer_from_dict, layer_to_dict
from hedgerow.values.trees import Tree

_VALUES: dict[str, type[Any]] = {
    kind.__name__: kind
    for kind in (
        regions.Split,
        regions.Fold,
        regions.Step,
        losses.LogLoss,
        losses.SoftmaxLoss,
        losses.SquaredLoss,
        losses.FirstOrder,
        models.Curve,
        models.Additive,
        queries.Binning,
        *queries.STATISTICS.values(),
        *queries.GROUPINGS.values(),
        queries.Scoring,
        queries.Chain,
        queries.SumQuery,
        queries.BoundQuery,
        queries.SelectQuery,
        queries.LocalChoice,
    )
}
_ENUMS: dict[str, type[Enum]] = {e.__name__: e for e in (queries.Score, queries.Mechanism)}
_NAMED = (Tree, models.Curve, queries.Binning, regions.Split)
"""Sent once, then by digest."""
_REPEATED = (queries.Binning, regions.Split)
"""Asked about so often that their names are kept."""
_MORE = "More"
"""A model as the trees added to one that was sent before."""


@dataclass
class Sender:
    """The coordinator's end: remembers what this run has already sent."""

    sent: set[str] = field(default_factory=set)
    names: dict[Any, str] = field(default_factory=dict)
    last_model: tuple[models.Additive, str] | None = None

    def encode(self, bundle: Sequence[Query]) -> bytes:
        blobs: dict[str, Any] = {}
        body = [self._plain(query, blobs) for query in bundle]
        text = json.dumps({"new": blobs, "ask": body}, separators=(",", ":"), allow_nan=False)
        return text.encode()

    def _plain(self, value: Any, blobs: dict[str, Any]) -> Any:
        if isinstance(value, _REPEATED):
            if value not in self.names:
                self.names[value] = self._named(self._content(value, blobs), blobs)
            return {"@": self.names[value]}
        if isinstance(value, _NAMED):
            return {"@": self._named(self._content(value, blobs), blobs)}
        if isinstance(value, Layer):
            return {"@": self._layer(value, blobs)}
        if isinstance(value, NodeTests):
            return {"!": "NodeTests", "tests": value.to_dict()}
        if isinstance(value, models.Additive):
            return {"@": self._model(value, blobs)}
        if isinstance(value, tuple):
            return [self._plain(v, blobs) for v in value]
        if isinstance(value, Fraction):
            return {"%": str(value)}
        if isinstance(value, Enum):
            return {"#": [type(value).__name__, value.name]}
        if type(value).__name__ in _VALUES:
            parts = {f.name: self._plain(getattr(value, f.name), blobs) for f in fields(value)}
            return {"!": type(value).__name__, **parts}
        if value is None or isinstance(value, bool | int | float | str):
            return value
        raise SpecError(f"a {type(value).__name__} cannot be part of a query.")

    def _model(self, model: models.Additive, blobs: dict[str, Any]) -> str:
        """Names a model; one that grew out of the last one travels as its new trees."""
        if self.last_model is not None and self.last_model[0] is model:
            return self.last_model[1]
        content = self._growth(model, blobs) or self._content(model, blobs)
        self.last_model = (model, self._named(content, blobs))
        return self.last_model[1]

    def _growth(self, model: models.Additive, blobs: dict[str, Any]) -> dict[str, Any] | None:
        if self.last_model is None:
            return None
        old, name = self.last_model
        done = len(old.trees)
        if replace(model, trees=()) != replace(old, trees=()) or model.trees[:done] != old.trees:
            return None
        return {"!": _MORE, "of": name, "trees": self._plain(model.trees[done:], blobs)}

    def _layer(self, layer: Layer, blobs: dict[str, Any]) -> str:
        """Names a layer; only what it adds to the one above travels."""
        if layer.digest not in self.sent:
            above = None if layer.above is None else self._layer(layer.above, blobs)
            self.sent.add(layer.digest)
            blobs[layer.digest] = {"!": "Layer", "above": above, "new": layer_to_dict(layer)}
        return layer.digest

    def _named(self, content: Any, blobs: dict[str, Any]) -> str:
        text = json.dumps(content, sort_keys=True, separators=(",", ":"))
        digest = hashlib.sha256(text.encode()).hexdigest()[:32]
        if digest not in self.sent:
            self.sent.add(digest)
            blobs[digest] = content
        return digest

    def _content(self, value: Any, blobs: dict[str, Any]) -> Any:
        if isinstance(value, Tree):
            return {"!": "Tree", "tree": value.to_dict()}
        parts = {f.name: self._plain(getattr(value, f.name), blobs) for f in fields(value)}
        return {"!": type(value).__name__, **parts}


@dataclass
class Receiver:
    """A site's end: remembers what this run has named."""

    known: dict[str, Any] = field(default_factory=dict)

    def decode(self, message: bytes) -> list[Query]:
        document = json.loads(message)
        for digest, content in document["new"].items():
            self.known[digest] = self._value(content)
        return [self._value(query) for query in document["ask"]]

    def _value(self, plain: Any) -> Any:
        if isinstance(plain, list):
            return tuple(self._value(v) for v in plain)
        if not isinstance(plain, dict):
            return plain
        if "@" in plain:
            return self.known[plain["@"]]
        if "%" in plain:
            return Fraction(plain["%"])
        if "#" in plain:
            kind, name = plain["#"]
            return _ENUMS[kind][name]
        kind = plain["!"]
        if kind == "Tree":
            return Tree.from_dict(plain["tree"])
        if kind == "NodeTests":
            return NodeTests.from_dict(plain["tests"])
        if kind == "Layer":
            above = plain["above"]
            return layer_from_dict(plain["new"], None if above is None else self.known[above])
        if kind == _MORE:
            return self.known[plain["of"]].plus(*self._value(plain["trees"]))
        parts = {k: self._value(v) for k, v in plain.items() if k != "!"}
        return _VALUES[kind](**parts)
