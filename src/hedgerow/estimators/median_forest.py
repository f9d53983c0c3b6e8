"""Forests of balanced trees (Consul and Williamson 2020), for classes and for numbers."""

from __future__ import annotations

from hedgerow.estimators.base import PrivateClassifier, PrivateEstimator, PrivateRegressor
from hedgerow.estimators.parameters import checked, estimator, filled, parameter
from hedgerow.estimators.rules import SHARE, number, one_of, or_none, whole
from hedgerow.queries import Mechanism
from hedgerow.recipes.papers.consul import Cuts, MedianForest
from hedgerow.recipes.recipe import Recipe
from hedgerow.values.schema import Schema

FLIP, EXPONENTIAL = Mechanism.PERMUTE_AND_FLIP, Mechanism.EXPONENTIAL
ATTRIBUTES = {"uniform": None, FLIP.value: FLIP, EXPONENTIAL.value: EXPONENTIAL}
CUTS = {"grid": Cuts.GRID, "medians": Cuts.MEDIANS, "table": Cuts.TABLE}


@estimator
class _MedianForest(PrivateEstimator):
    """What both forests share."""

    n_trees: int = parameter(
        default=1,
        rule=whole(1),
        text="Trees. One tree on all rows was better than several on parts of them, see "
        "docs/results/diprime.",
    )
    max_depth: int | None = parameter(
        default=None,
        rule=or_none(whole(1)),
        text="Levels of splits. None buys a noisy number of rows for 1 % and takes as many levels "
        "as leave `leaf_rows` rows to be expected in a leaf.",
    )
    leaf_rows: float = parameter(
        default=20.0, rule=number(above=0.0), text="Rows to be expected in a leaf."
    )
    n_candidates: int | None = parameter(
        default=None,
        rule=or_none(whole(1)),
        text="Features a node looks at, drawn afresh for each (K in the paper); None is all of "
        "them.",
    )
    split_share: float = parameter(
        default=0.7,
        rule=SHARE,
        text="Part of the budget for all splits of a path (rho in the paper); leaves have the "
        "rest.",
    )
    attribute: str = parameter(
        default="permute_and_flip",
        rule=one_of(ATTRIBUTES),
        text="How a node's feature is chosen: privately by the target, or in public at random "
        "('uniform'). 'exponential' is the cheaper one where delta > 0.",
    )
    cuts: str | None = parameter(
        default=None,
        rule=or_none(one_of(CUTS)),
        text="'grid': one private choice among all features and cuts. 'medians': a private median "
        "of each feature looked at, then one of them, as in the paper, each median paid. 'table': "
        "medians from noisy tables, the only one for several holders. None: 'grid' for one "
        "holder, 'table' for several.",
    )
    rows: str | None = parameter(
        default=None,
        rule=or_none(one_of({"folds": True, "all": False})),
        text="Every record draws the one tree it is used for ('folds'), or all trees see all rows "
        "and divide the budget. None is 'folds' under Laplace noise (delta = 0), where both have "
        "the same noise, and 'all' elsewhere.",
    )

    def _recipe(self, schema: Schema) -> Recipe:
        given = checked(self)
        uniform = given.attribute is None
        return filled(
            MedianForest,
            given,
            n_candidates=1 if uniform else given.n_candidates,
            cuts=Cuts.MEDIAN if uniform and given.cuts is not Cuts.TABLE else given.cuts,
            mechanism=given.attribute,
            folds=given.rows,
        )


@estimator
class MedianForestClassifier(_MedianForest, PrivateClassifier):
    """DiPriMe, Consul and Williamson 2020, made sound; for classes."""


@estimator
class MedianForestRegressor(_MedianForest, PrivateRegressor):
    """DiPriMe for a number; see MedianForestClassifier."""
