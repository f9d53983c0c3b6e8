"""Forests of balanced trees (Consul and Williamson 2020), for classes and for numbers."""

from __future__ import annotations

from hedgerow.methods.base import PrivateClassifier, PrivateEstimator, PrivateRegressor
from hedgerow.methods.consul import MedianForest, MedianSplit
from hedgerow.methods.method import Recipe
from hedgerow.methods.parameters import checked, estimator, filled, parameter, when
from hedgerow.privacy.queries import Mechanism
from hedgerow.schema.rules import FLAG, SHARE, number, one_of, or_none, whole
from hedgerow.schema.schema import Schema

PRIVATE_CHOICES = ("grid", "medians", "median")
"""Splits that one holder chooses on exact scores, and not from noisy tables."""


@estimator
class _MedianForest(PrivateEstimator):
    """What both forests share."""

    n_trees: int = parameter(
        default=1,
        rule=whole(1),
        text="Trees. One tree on all rows was better than several on parts of them, see "
        "docs/results/consul.md.",
    )
    max_depth: int | None = parameter(
        default=None,
        rule=or_none(whole(1)),
        text="Levels of splits. None buys a noisy number of rows for 1 % and takes as many levels "
        "as leave `rows_per_leaf` rows to be expected in a leaf.",
    )
    rows_per_leaf: float = parameter(
        default=20.0,
        rule=number(above=0.0),
        used=(when(max_depth=None),),
        text="Rows to be expected in a leaf.",
    )
    max_features: int | None = parameter(
        default=None,
        rule=or_none(whole(1)),
        used=(when(split=(None, "grid", "medians", "table")),),
        text="Features a node looks at, drawn afresh for each (K in the paper); None is all of "
        "them, and five for 'table'.",
    )
    leaf_share: float = parameter(
        default=0.3,
        rule=SHARE,
        text="Part of the budget kept for the leaves; the splits of a path have the rest (rho in "
        "the paper).",
    )
    split: str | None = parameter(
        default=None,
        rule=or_none(one_of(MedianSplit)),
        text="How a node finds its split. 'grid': one private choice among all features and cuts. "
        "'medians': a private median of each feature looked at, then one of them, as in the "
        "paper, each median paid. 'median': a feature at random, its private median. 'table': "
        "medians from noisy tables, the only one for several holders. None: 'grid' for one "
        "holder, 'table' for several.",
    )
    mechanism: str | None = parameter(
        default=None,
        rule=or_none(one_of(Mechanism)),
        used=(when(split=(None, *PRIVATE_CHOICES)),),
        text="How one holder makes a private choice. None is 'permute_and_flip' where delta = 0, "
        "and 'exponential', which is cheaper there, where delta > 0.",
    )
    folds: bool | None = parameter(
        default=None,
        rule=or_none(FLAG),
        text="Whether every record draws the one tree it is used for, or all trees see all rows "
        "and divide the budget. None is True under Laplace noise (delta = 0), where both have "
        "the same noise, and False elsewhere.",
    )
    lean: bool = parameter(
        default=True,
        rule=FLAG,
        text="Whether a leaf leans on the nodes above it, the more the noisier it is; False is "
        "the paper's plain leaf. Free of charge.",
    )

    def _recipe(self, schema: Schema) -> Recipe:
        return filled(MedianForest, checked(self))


@estimator
class MedianForestClassifier(_MedianForest, PrivateClassifier):
    """Trees of private medians: DiPriMe, Consul and Williamson 2020, made sound; for classes.

    Made sound means: everything that leaves a site is charged for all that it tells. Where the
    paper pays for one median and looks at several, each is paid (studies/notes/trees.md#0050).

    Examples
    --------
    >>> import hedgerow as hr
    >>> columns = (hr.Numeric("age", 0, 100), hr.Numeric("dose", 0, 10))
    >>> schema = hr.Schema(columns, classes=("no", "yes"))
    >>> X = [[20, 1], [30, 2], [70, 8], [80, 9]] * 500
    >>> y = ["no", "no", "yes", "yes"] * 500
    >>> model = hr.MedianForestClassifier(schema, epsilon=10.0).fit(X, y)
    >>> model.predict([[20, 1], [80, 9]])
    array(['no', 'yes'], dtype='<U3')

    """


@estimator
class MedianForestRegressor(_MedianForest, PrivateRegressor):
    """DiPriMe for a number; see MedianForestClassifier.

    Examples
    --------
    >>> import hedgerow as hr
    >>> columns = (hr.Numeric("age", 0, 100), hr.Numeric("dose", 0, 10))
    >>> schema = hr.Schema(columns, target=hr.Target(0, 100))
    >>> X = [[20, 1], [30, 2], [70, 8], [80, 9]] * 500
    >>> y = [10, 20, 80, 90] * 500
    >>> model = hr.MedianForestRegressor(schema, epsilon=10.0).fit(X, y)
    >>> low, high = model.predict([[20, 1], [80, 9]])
    >>> bool(low < high)
    True

    """
