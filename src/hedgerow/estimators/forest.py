"""Our own forest, for classes and for numbers."""

from __future__ import annotations

from typing import Any

from hedgerow.estimators.base import (
    PrivateClassifier,
    PrivateEstimator,
    PrivateRegressor,
    given_or_none,
)
from hedgerow.recipes.ours.forest import GuidedForest
from hedgerow.recipes.recipe import Recipe
from hedgerow.values.schema import Schema


class _Forest(PrivateEstimator):
    """Parameters of both forests."""

    def __init__(
        self,
        schema: Schema | None = None,
        epsilon: float = 1.0,
        delta: float = 0.0,
        *,
        n_trees: int | None = None,
        max_depth: int | None = None,
        placement: str | None = None,
        colluders: int | None = None,
        threshold: int | None = None,
        records_per_person: int = 1,
        random_state: Any = None,
        progress: bool = False,
    ) -> None:
        self.schema = schema
        self.epsilon = epsilon
        self.delta = delta
        self.n_trees = n_trees
        self.max_depth = max_depth
        self.placement = placement
        self.colluders = colluders
        self.threshold = threshold
        self.records_per_person = records_per_person
        self.random_state = random_state
        self.progress = progress

    def _recipe(self, schema: Schema) -> Recipe:
        return GuidedForest(
            n_trees=given_or_none(self.n_trees, "n_trees"),
            max_depth=given_or_none(self.max_depth, "max_depth"),
        )


class ForestClassifier(_Forest, PrivateClassifier):
    """A private forest in three rounds: structure from one noisy table, leaves from one sum.

    Parameters (besides those of every estimator)
    ----------
    n_trees : int or None
        None is 16 or 48, by the signal-to-noise ratio.
    max_depth : int or None
        None is 6, 8 or 10, by the signal-to-noise ratio.
    """


class ForestRegressor(_Forest, PrivateRegressor):
    """A private forest for a number, in three rounds; parameters as for ForestClassifier."""
