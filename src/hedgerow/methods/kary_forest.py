"""Forests whose nodes have a branch for every bin: DP-RF and DP-DF, for one holder."""

from __future__ import annotations

from hedgerow.methods.base import PrivateClassifier, PrivateEstimator, PrivateRegressor
from hedgerow.methods.method import Recipe
from hedgerow.methods.multiway import KARY_BINS, KaryForest, PrunedKaryForest
from hedgerow.methods.parameters import checked, estimator, filled, parameter, when
from hedgerow.schema.rules import FLAG, number, whole
from hedgerow.schema.schema import Schema


@estimator
class _KaryForest(PrivateEstimator):
    """What both forests share."""

    n_trees: int = parameter(
        default=10,
        rule=whole(1),
        text="Trees; each sees all rows and is charged a part of the budget.",
    )
    max_depth: int = parameter(
        default=3,
        rule=whole(1),
        text="Levels of branches; a feature is used once on a path. A level has as many times more "
        "nodes as features have bins.",
    )
    max_features: int = parameter(
        default=5,
        rule=whole(1),
        text="Features a node looks at, drawn afresh for each (K in the paper).",
    )
    n_bins: int = parameter(
        default=KARY_BINS,
        rule=whole(2),
        text="Bins of equal width of a numeric feature: a node has a branch for each.",
    )

    def _recipe(self, schema: Schema) -> Recipe:
        return filled(KaryForest, checked(self))


@estimator
class KaryForestClassifier(_KaryForest, PrivateClassifier):
    """A branch for every bin: DP-RF, Patil and Singh 2014, and pruned DP-DF, Fletcher and Islam.

    The forests with which Consul and Williamson 2020 compare theirs, made sound. Nodes choose
    features on exact scores, so one holder must have all rows.

    Examples
    --------
    >>> import hedgerow as hr
    >>> columns = (hr.Numeric("age", 0, 100), hr.Numeric("dose", 0, 10))
    >>> schema = hr.Schema(columns, classes=("no", "yes"))
    >>> X = [[20, 1], [30, 2], [70, 8], [80, 9]] * 500
    >>> y = ["no", "no", "yes", "yes"] * 500
    >>> model = hr.KaryForestClassifier(schema, epsilon=10.0, max_depth=1).fit(X, y)
    >>> model.predict([[25, 1], [75, 9]])
    array(['no', 'yes'], dtype='<U3')

    """

    max_features: int = parameter(
        default=5,
        rule=whole(1),
        used=(when(prune=False),),
        text="Features a node looks at, drawn afresh for each (K in the paper).",
    )
    prune: bool = parameter(
        default=False,
        rule=FLAG,
        text="DP-DF: nodes look at all features, trees have different roots, noisy counts of every "
        "level are bought, and children no purer than their parent are pruned.",
    )
    min_samples_split: float = parameter(
        default=25.0,
        rule=number(above=0.0),
        used=(when(prune=True),),
        text="A node with fewer rows, as noisy counts tell, stays a leaf.",
    )

    def _recipe(self, schema: Schema) -> Recipe:
        given = checked(self)
        if given.prune:
            return filled(PrunedKaryForest, given)
        return filled(KaryForest, given)


@estimator
class KaryForestRegressor(_KaryForest, PrivateRegressor):
    """The regression analogue of DP-RF (Consul and Williamson 2020, section 4).

    Examples
    --------
    >>> import hedgerow as hr
    >>> columns = (hr.Numeric("age", 0, 100), hr.Numeric("dose", 0, 10))
    >>> schema = hr.Schema(columns, target=hr.Target(0, 100))
    >>> X = [[20, 1], [30, 2], [70, 8], [80, 9]] * 500
    >>> y = [10, 20, 80, 90] * 500
    >>> model = hr.KaryForestRegressor(schema, epsilon=10.0, max_depth=1).fit(X, y)
    >>> low, high = model.predict([[25, 1], [75, 9]])
    >>> bool(low < high)
    True

    """
