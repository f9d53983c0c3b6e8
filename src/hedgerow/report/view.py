"""A fitted tree for people: tests, and the value of each leaf with its uncertainty.

Everything here was released with noise. Rows and means are shown with two standard deviations of
their noise. `confidence` is the probability that the predicted class is the leaf's true majority,
with normal noise and a flat prior: it concerns noise, not new records.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from hedgerow.errors import ParameterError
from hedgerow.models.uncertainty import LeafValue
from hedgerow.report.weighing import Readable
from hedgerow.schema.regions import EVERYONE, Region, Split, Step
from hedgerow.schema.schema import Schema

DEVIATIONS = 2.0
SURE = 0.95
"""Confidence below which a leaf's class is marked with a question mark."""


@dataclass(frozen=True)
class Verdict:
    """The class probabilities of a leaf."""

    classes: tuple[str, ...]
    probabilities: tuple[float, ...]
    rows: float
    rows_spread: float
    confidence: float

    @property
    def winner(self) -> int:
        return int(np.argmax(self.probabilities))

    @property
    def name(self) -> str:
        return self.classes[self.winner]

    @property
    def probability(self) -> float:
        return self.probabilities[self.winner]

    @property
    def is_sure(self) -> bool:
        return self.confidence >= SURE


@dataclass(frozen=True)
class Mean:
    """The mean of a leaf, and its noise."""

    value: float
    value_spread: float
    rows: float
    rows_spread: float


Leaf = Verdict | Mean


@dataclass(frozen=True)
class Question:
    """A test: its words, and the words of each side given the path to it."""

    words: str
    sides: tuple[str, str]
    children: tuple[View, View]


View = Question | Leaf


def is_one_tree(model: Readable) -> bool:
    """Whether the model is one tree with leaf statistics."""
    if not hasattr(model, "leaf_statistics_"):
        raise ParameterError(
            f"this {type(model).__name__} is not fitted yet, so there is no tree to show; call "
            "fit first, or load a model."
        )
    return len(model.leaf_statistics_) == 1 and bool(model.leaf_statistics_[0].leaves)


def view_of(model: Readable) -> View:
    """The tree of a model that is one tree."""
    if not is_one_tree(model):
        raise ParameterError(
            "this model is not one tree; only such a tree can be shown, for example that of "
            "TreeClassifier or TreeRegressor. `explain`, `importances` and `feature_effect` read "
            "any model."
        )
    tree_statistics = model.leaf_statistics_
    leaves = dict(zip(tree_statistics[0].tree.regions(), tree_statistics[0].leaves, strict=True))
    return _view(model.schema_, EVERYONE, list(leaves), leaves)


def _view(
    schema: Schema, at: Region, below: Sequence[Region], leaves: dict[Region, LeafValue]
) -> View:
    if at in leaves:
        return leaf_of(schema, leaves[at])
    test = below[0][len(at)].test
    assert isinstance(test, Split)
    ways = [(*at, Step(test, outcome)) for outcome in (0, 1)]
    inside = [[r for r in below if r[: len(way)] == way] for way in ways]
    left, right = (_view(schema, w, i, leaves) for w, i in zip(ways, inside, strict=True))
    if not cells_left(schema, ways[0], test.feature):
        return right  # the path above excludes the other side
    if not cells_left(schema, ways[1], test.feature):
        return left
    grid = schema.grids[schema.index(test.feature)]
    sides = (words_on(schema, ways[0], test.feature), words_on(schema, ways[1], test.feature))
    return Question(readable(grid.describe(test.left)), sides, (left, right))


def leaf_of(schema: Schema, leaf: LeafValue) -> Leaf:
    masses = np.maximum(leaf.masses, 0.0)
    rows = float(masses.sum()), DEVIATIONS * math.sqrt(leaf.variance * len(masses))
    if schema.classes is None:
        spread = DEVIATIONS * float(leaf.deviations[0])  # at most the whole range
        return Mean(float(leaf.value[0]), spread, *rows)
    # the probability that noise did not put the second class first
    ordered_masses = [-math.inf, *np.sort(masses).tolist()]
    gap, spread = ordered_masses[-1] - ordered_masses[-2], math.sqrt(2.0 * leaf.variance)
    ratio = gap / spread if spread else math.inf if gap else 0.0
    confidence = 0.5 * (1.0 + math.erf(ratio / math.sqrt(2.0)))
    return Verdict(schema.classes, tuple(map(float, leaf.value)), *rows, confidence)


def cells_left(schema: Schema, region: Region, feature: str) -> int:
    """The cells of a feature that a path allows, as bits."""
    cells = (1 << schema.grids[schema.index(feature)].n_cells) - 1
    for step in region:
        if isinstance(step.test, Split) and step.test.feature == feature:
            cells &= step.test.left if step.outcome == 0 else ~step.test.left
    return cells


def words_on(schema: Schema, region: Region, feature: str) -> str:
    """The condition of a path on one feature: '19 <= worst radius < 33'."""
    grid = schema.grids[schema.index(feature)]
    return readable(grid.describe(cells_left(schema, region, feature)))


def readable(words: str) -> str:
    """Long decimals to four digits: 0.1667, not 0.16666666666666666. Models have exact values."""
    return re.sub(r"\d+\.\d{5,}", lambda number: f"{float(number[0]):.4g}", words)


def path_words(schema: Schema, region: Region) -> list[str]:
    """A path in words, one phrase per feature, in the order of first use."""
    features = dict.fromkeys(s.test.feature for s in region if isinstance(s.test, Split))
    return [words_on(schema, region, feature) for feature in features]
