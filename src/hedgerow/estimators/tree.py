"""Our own single tree, for classes and for numbers."""

from __future__ import annotations

from typing import Any

from hedgerow.estimators.base import (
    PrivateClassifier,
    PrivateEstimator,
    PrivateRegressor,
    given_or_none,
)
from hedgerow.recipes.ours.tree import ScreenedTree
from hedgerow.recipes.recipe import Recipe
from hedgerow.values.schema import Schema


class _Tree(PrivateEstimator):
    """Parameters of both trees."""

    def __init__(
        self,
        schema: Schema | None = None,
        epsilon: float = 1.0,
        delta: float = 0.0,
        *,
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
        self.max_depth = max_depth
        self.placement = placement
        self.colluders = colluders
        self.threshold = threshold
        self.records_per_person = records_per_person
        self.random_state = random_state
        self.progress = progress

    def _recipe(self, schema: Schema) -> Recipe:
        return ScreenedTree(
            max_depth=given_or_none(self.max_depth, "max_depth"),
            merge_equal_labels=getattr(self, "merge_equal_labels", False),
        )


class TreeClassifier(_Tree, PrivateClassifier):
    """One interpretable private tree: private bins, screened tables, leaves that lean on parents.

    All constants follow from a noisy signal-to-noise ratio. A tree of depth D costs D + 2 rounds.
    Numeric columns are read on an even and a logarithmic ladder at once, unless the schema
    declares their edges.

    Parameters (besides those of every estimator)
    ----------
    max_depth : int or None
        Levels of splits; None is 6, or 3 where noise is as large as the data.
    merge_equal_labels : bool
        Whether sibling leaves that name one class become one leaf: about half the leaves, the
        same predictions, coarser probabilities.
    """

    def __init__(
        self,
        schema: Schema | None = None,
        epsilon: float = 1.0,
        delta: float = 0.0,
        *,
        max_depth: int | None = None,
        merge_equal_labels: bool = False,
        placement: str | None = None,
        colluders: int | None = None,
        threshold: int | None = None,
        records_per_person: int = 1,
        random_state: Any = None,
        progress: bool = False,
    ) -> None:
        super().__init__(
            schema,
            epsilon,
            delta,
            max_depth=max_depth,
            placement=placement,
            colluders=colluders,
            threshold=threshold,
            records_per_person=records_per_person,
            random_state=random_state,
            progress=progress,
        )
        self.merge_equal_labels = merge_equal_labels


class TreeRegressor(_Tree, PrivateRegressor):
    """One interpretable private tree for a number; see TreeClassifier.

    The target is clipped to its noisy .1 and 99.9 % quantiles within the schema's public range.

    Parameters (besides those of every estimator)
    ----------
    max_depth : int or None
        Levels of splits; None is 6, or 3 where noise is as large as the data.
    """
