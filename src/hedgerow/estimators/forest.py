"""Our own forest, for classes and for numbers."""

from __future__ import annotations

from hedgerow.estimators.base import PrivateClassifier, PrivateEstimator, PrivateRegressor
from hedgerow.estimators.parameters import checked, estimator, filled, parameter
from hedgerow.estimators.rules import or_none, whole
from hedgerow.recipes.ours.forest import GuidedForest
from hedgerow.recipes.recipe import Recipe
from hedgerow.values.schema import Schema


@estimator
class _Forest(PrivateEstimator):
    """What both forests share."""

    n_trees: int | None = parameter(
        default=None,
        rule=or_none(whole(1)),
        text="Trees; None is 8, 16 or 48, by the noisy signal-to-noise ratio.",
    )
    max_depth: int | None = parameter(
        default=None,
        rule=or_none(whole(1)),
        text="Levels of splits; None is 6, 8 or 10, by the noisy signal-to-noise ratio.",
    )

    def _recipe(self, schema: Schema) -> Recipe:
        return filled(GuidedForest, checked(self))


@estimator
class ForestClassifier(_Forest, PrivateClassifier):
    """A private forest in three rounds: structure from one noisy table, leaves from one sum."""


@estimator
class ForestRegressor(_Forest, PrivateRegressor):
    """A private forest for a number, in three rounds; see ForestClassifier."""
