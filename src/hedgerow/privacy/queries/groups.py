"""Groupings of records into cells; each grouping registers itself once.

A record is in one cell of every group, so contributions add over groups and not over cells.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar, Protocol, TypeVar

import numpy as np

from hedgerow.errors import ParameterError, UnsupportedQuery
from hedgerow.models.layers import Layer, NodeTests
from hedgerow.models.model import Additive, Model, Output
from hedgerow.models.tree import Tree
from hedgerow.models.validation import (
    binning_incompatibility,
    columns_incompatibility,
    layer_incompatibility,
    model_incompatibility,
    tests_incompatibility,
    trees_incompatibility,
)
from hedgerow.privacy.queries.statistics import Phrase, Records, counting, find_disorder, no_target
from hedgerow.schema.arrays import FloatArray, GroupCodes
from hedgerow.schema.candidates import Binning
from hedgerow.schema.schema import Schema


class Groups(Protocol):
    """Groups of cells; a record is in one cell of each of `groups`."""

    @property
    def words(self) -> Phrase:
        """Describes the cells, for people who approve the query."""

    @property
    def groups(self) -> int: ...
    @property
    def n_cells(self) -> int: ...
    def cells(self, records: Records) -> tuple[Sequence[int], GroupCodes]:
        """The rows of the matrix that are the groups, and the (rows, n) matrix of cell numbers."""

    def incompatibility(self, schema: Schema) -> str | None:
        """Why rows under this schema cannot be grouped this way; None if they can."""


GROUPINGS: dict[str, type] = {}
"""All groupings, by name."""

_Kind = TypeVar("_Kind", bound=type)


def grouping(kind: _Kind) -> _Kind:
    """Registers a grouping: it can be sent, and the sensitivity tests cover it."""
    GROUPINGS[kind.__name__] = kind
    return kind


@grouping
@dataclass(frozen=True, slots=True)
class Whole:
    """The region itself: one group of one cell."""

    words: ClassVar[Phrase] = Phrase("in total")
    groups: ClassVar[int] = 1
    n_cells: ClassVar[int] = 1

    def cells(self, records: Records) -> tuple[Sequence[int], GroupCodes]:
        return (0,), np.zeros((1, records.n), np.uint8)

    def incompatibility(self, schema: Schema) -> str | None:
        return None


@grouping
@dataclass(frozen=True)
class Cells:
    """The bins of some features."""

    features: tuple[int, ...]
    binning: Binning

    def __post_init__(self) -> None:
        if not self.features:
            raise ParameterError("a histogram was asked of no feature; name at least one.")

    @property
    def words(self) -> Phrase:
        bins = [self.binning.n_bins[f] for f in self.features]
        ranges = ("range", min(bins), max(bins))
        return Phrase("of {column} in {range}", (counting("column", self.groups), ranges))

    @property
    def groups(self) -> int:
        return len(self.features)

    @cached_property
    def n_cells(self) -> int:
        return max(self.binning.n_bins[f] for f in self.features)

    def cells(self, records: Records) -> tuple[Sequence[int], GroupCodes]:
        return self.features, records.bins(self.binning)

    def incompatibility(self, schema: Schema) -> str | None:
        return columns_incompatibility(self.features, schema) or binning_incompatibility(
            self.binning, schema
        )


@grouping
@dataclass(frozen=True)
class Leaves:
    """The leaves of some trees, in the order of `Tree.leaves`."""

    trees: tuple[Tree, ...]

    @property
    def words(self) -> Phrase:
        return Phrase("in the leaves of {tree}", (counting("tree", self.groups),))

    @property
    def groups(self) -> int:
        return len(self.trees)

    @property
    def n_cells(self) -> int:
        return max(t.n_leaves for t in self.trees)

    def cells(self, records: Records) -> tuple[Sequence[int], GroupCodes]:
        raise UnsupportedQuery("records are grouped while they are summed, tree by tree.")

    def incompatibility(self, schema: Schema) -> str | None:
        return trees_incompatibility(self.trees, schema) if self.trees else "no tree was named"


@grouping
@dataclass(frozen=True)
class Sides:
    """Both sides of m tests at every open node of a tree: 2 x C tables of random candidates.

    A record is at one open node, or has left the tree, so nodes are cells and the m tests of a node
    are groups. Cell 2 q + s is side s of the test of node q.
    """

    layer: Layer
    tests: NodeTests

    def __post_init__(self) -> None:
        shape = self.tests.feature.shape
        if len(shape) != 2 or shape[0] != self.layer.n_nodes or not shape[1]:
            raise ParameterError(
                f"tests of shape {shape} were asked of {self.layer.n_nodes} nodes; give every "
                "node the same number of tests, at least one."
            )

    @property
    def words(self) -> Phrase:
        return Phrase(
            "on both sides of {test} at each of {node}",
            (counting("test", self.groups), counting("node", self.layer.n_nodes)),
        )

    @property
    def groups(self) -> int:
        return int(self.tests.feature.shape[1])

    @property
    def n_cells(self) -> int:
        return 2 * self.layer.n_nodes

    def cells(self, records: Records) -> tuple[Sequence[int], GroupCodes]:
        raise UnsupportedQuery("records are grouped while they are summed, tree by tree.")

    def incompatibility(self, schema: Schema) -> str | None:
        return layer_incompatibility(self.layer, schema) or tests_incompatibility(
            self.tests, schema
        )


class _BetweenEdges:
    """One group, in cells between public edges: cell k holds edges[k-1] <= x < edges[k]."""

    __slots__ = ()
    edges: tuple[float, ...]
    groups: ClassVar[int] = 1

    @property
    def n_cells(self) -> int:
        return len(self.edges) + 1

    def _in_ranges_of(self, quantity: str) -> Phrase:
        return Phrase(f"in {{range}} of {quantity}", (counting("range", self.n_cells),))

    def _cells_of(self, values: FloatArray) -> tuple[Sequence[int], GroupCodes]:
        cells = np.searchsorted(np.asarray(self.edges), values, side="right")
        return (0,), cells.astype(np.uint16)[None, :]


@grouping
@dataclass(frozen=True, slots=True)
class TargetCells(_BetweenEdges):
    """Intervals of the numeric target between public edges."""

    edges: tuple[float, ...]

    @property
    def words(self) -> Phrase:
        return self._in_ranges_of("the target")

    def cells(self, records: Records) -> tuple[Sequence[int], GroupCodes]:
        return (0,), records.target_codes(self.edges)[None, :]

    def incompatibility(self, schema: Schema) -> str | None:
        return no_target(schema) or find_disorder(self.edges)


@grouping
@dataclass(frozen=True)
class ResidualCells(_BetweenEdges):
    """Intervals of |y - prediction| between public edges."""

    at: Additive
    edges: tuple[float, ...]

    @property
    def words(self) -> Phrase:
        return self._in_ranges_of("the size of the prediction error")

    def cells(self, records: Records) -> tuple[Sequence[int], GroupCodes]:
        return self._cells_of(np.abs(records.target - records.raw(self.at)[:, 0]))

    def incompatibility(self, schema: Schema) -> str | None:
        if self.at.outputs != 1:
            return f"the model has {self.at.outputs} outputs; a residual needs one"
        return (
            no_target(schema) or find_disorder(self.edges) or model_incompatibility(self.at, schema)
        )


@grouping
@dataclass(frozen=True)
class PredictionCells(_BetweenEdges):
    """Intervals of the prediction of a model with one output, between public edges."""

    at: Additive
    edges: tuple[float, ...]

    @property
    def words(self) -> Phrase:
        return self._in_ranges_of("the prediction")

    def cells(self, records: Records) -> tuple[Sequence[int], GroupCodes]:
        return self._cells_of(records.raw(self.at)[:, 0])

    def incompatibility(self, schema: Schema) -> str | None:
        if self.at.outputs != 1:
            return f"the model has {self.at.outputs} outputs; a score needs one"
        return find_disorder(self.edges) or model_incompatibility(self.at, schema)


@grouping
@dataclass(frozen=True)
class ScoreCells:
    """Intervals, between public edges, of the probabilities that some models predict.

    Each model is a group. With two classes the probability is that of the second class; with more
    it is that of the predicted class, and each predicted class has its own cells.
    """

    at: tuple[Additive, ...]
    outputs: tuple[Output, ...]
    sharpness: tuple[float, ...]
    classes: int
    edges: tuple[float, ...]

    @property
    def words(self) -> Phrase:
        ranges = counting("range", self.n_cells)
        if self.groups == 1:
            return Phrase("in {range} of the predicted probability", (ranges,))
        models = counting("model", self.groups)
        return Phrase(
            "in {range} of the probability predicted by each of {model}", (ranges, models)
        )

    @property
    def groups(self) -> int:
        return len(self.at)

    @property
    def n_cells(self) -> int:
        blocks = 1 if self.classes == 2 else self.classes
        return blocks * (len(self.edges) + 1)

    @property
    def models(self) -> tuple[Model, ...]:
        model_parts = zip(self.at, self.outputs, self.sharpness, strict=True)
        return tuple(Model(score, output, sharpness) for score, output, sharpness in model_parts)

    def cells(self, records: Records) -> tuple[Sequence[int], GroupCodes]:
        cell_rows = [self._cells_of(model.read(records.raw(model.score))) for model in self.models]
        return tuple(range(self.groups)), np.stack(cell_rows).astype(np.uint16)

    def _cells_of(self, probabilities: FloatArray) -> GroupCodes:
        """(n,) from (n, classes) probabilities."""
        edges = np.asarray(self.edges)
        if self.classes == 2:
            return np.searchsorted(edges, probabilities[:, 1], side="right").astype(np.uint16)
        top_class = np.argmax(probabilities, axis=1)
        score = probabilities[np.arange(len(probabilities)), top_class]
        cell = np.searchsorted(edges, score, side="right")
        return np.asarray(cell + top_class * (len(edges) + 1)).astype(np.uint16)

    def incompatibility(self, schema: Schema) -> str | None:
        if not self.at or not len(self.at) == len(self.outputs) == len(self.sharpness):
            return "models and the ways to read them are not of one number"
        if len(schema.classes or ()) != self.classes:
            return f"there are {len(schema.classes or ())} classes, not {self.classes}"
        if not self.edges or not self.edges[0] > 0.0 or not self.edges[-1] < 1.0:
            return "edges of probabilities lie between 0 and 1"
        reasons = (self._incompatibility(model, schema) for model in self.models)
        return find_disorder(self.edges) or next(filter(None, reasons), None)

    def _incompatibility(self, model: Model, schema: Schema) -> str | None:
        outputs = 1 if model.output is Output.SIGMOID and self.classes == 2 else self.classes
        if model.output is Output.VALUE or model.score.outputs != outputs:
            return f"a model has {model.score.outputs} outputs; {self.classes} classes need others"
        return model_incompatibility(model.score, schema)
