"""Forests of balanced trees (Consul and Williamson 2020), for classes and for numbers."""

from __future__ import annotations

from typing import Any

from hedgerow.errors import SpecError
from hedgerow.estimators.base import (
    PrivateClassifier,
    PrivateEstimator,
    PrivateRegressor,
    at_least,
    given_or_none,
    positive,
    shares,
)
from hedgerow.queries import Mechanism
from hedgerow.recipes.papers.consul import Cuts, MedianForest
from hedgerow.recipes.recipe import Recipe
from hedgerow.values.schema import Schema

ATTRIBUTES = ("uniform", "exponential", "permute_and_flip")
CUTS = {None: None, "grid": Cuts.GRID, "medians": Cuts.MEDIANS, "table": Cuts.TABLE}
ROWS = {None: None, "folds": True, "all": False}


class _MedianForest(PrivateEstimator):
    """Parameters of both forests."""

    def __init__(
        self,
        schema: Schema | None = None,
        epsilon: float = 1.0,
        delta: float = 0.0,
        *,
        n_trees: int = 1,
        max_depth: int | None = None,
        leaf_rows: float = 20.0,
        n_candidates: int | None = None,
        split_share: float = 0.7,
        attribute: str = "permute_and_flip",
        cuts: str | None = None,
        rows: str | None = None,
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
        self.leaf_rows = leaf_rows
        self.n_candidates = n_candidates
        self.split_share = split_share
        self.attribute = attribute
        self.cuts = cuts
        self.rows = rows
        self.placement = placement
        self.colluders = colluders
        self.threshold = threshold
        self.records_per_person = records_per_person
        self.random_state = random_state
        self.progress = progress

    def _recipe(self, schema: Schema) -> Recipe:
        for name, allowed in (("attribute", ATTRIBUTES), ("cuts", CUTS), ("rows", ROWS)):
            if getattr(self, name) not in allowed:
                given = getattr(self, name)
                raise SpecError(f"{name} is {given!r}; use one of {list(allowed)}.")
        uniform = self.attribute == "uniform"
        return MedianForest(
            n_trees=at_least(self.n_trees, 1, "n_trees"),
            max_depth=given_or_none(self.max_depth, "max_depth"),
            leaf_rows=float(positive(self.leaf_rows, "leaf_rows")),
            n_candidates=1 if uniform else given_or_none(self.n_candidates, "n_candidates"),
            split_share=shares(self.split_share, "split_share"),
            cuts=Cuts.MEDIAN if uniform and self.cuts != "table" else CUTS[self.cuts],
            mechanism=None if uniform else Mechanism(self.attribute),
            folds=ROWS[self.rows],
        )


class MedianForestClassifier(_MedianForest, PrivateClassifier):
    """DiPriMe, Consul and Williamson 2020, made sound; for classes.

    Parameters (besides those of every estimator)
    ----------
    n_trees : int
        Trees. One tree on all rows was better than several on parts of them, see
        docs/results/diprime.
    max_depth : int or None
        Levels. None buys a noisy number of rows for 1 % and takes as many levels as leave
        `leaf_rows` rows to be expected in a leaf.
    leaf_rows : float
        See `max_depth`.
    n_candidates : int or None
        Features a node looks at, drawn afresh for each (K in the paper); None is all of them.
    split_share : float
        Part of the budget for all splits of a path (rho in the paper); leaves have the rest.
    attribute : {'permute_and_flip', 'exponential', 'uniform'}
        How a node's feature is chosen: privately by the target, or in public at random.
        'exponential' is the cheaper one where delta > 0.
    cuts : {'grid', 'medians', 'table'} or None
        None: 'grid' for one holder, 'table' for several. 'grid': one private choice among all
        features and cuts. 'medians': a private median of each feature looked at, then one of
        them, as in the paper, each median paid. 'table': medians from noisy tables, the only
        one for several holders.
    rows : {'folds', 'all'} or None
        Every record draws the one tree it is used for, or all trees see all rows and divide the
        budget. None is 'folds' under Laplace noise (delta = 0), where both have the same noise,
        and 'all' elsewhere.

    """


class MedianForestRegressor(_MedianForest, PrivateRegressor):
    """DiPriMe for a number; parameters as for MedianForestClassifier."""
