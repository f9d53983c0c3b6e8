"""Our own single tree, for classes and for numbers."""

from __future__ import annotations

from hedgerow.methods.base import PrivateClassifier, PrivateEstimator, PrivateRegressor
from hedgerow.methods.method import Recipe
from hedgerow.methods.parameters import checked, estimator, filled, parameter
from hedgerow.methods.tree import ScreenedTree
from hedgerow.schema.rules import FLAG, or_none, whole
from hedgerow.schema.schema import Schema


@estimator
class _Tree(PrivateEstimator):
    """What both trees share."""

    max_depth: int | None = parameter(
        default=None,
        rule=or_none(whole(1)),
        text="Levels of splits; None is 6 and one more whenever the classes double, or 3 where "
        "noise is as large as the data.",
    )

    def _recipe(self, schema: Schema) -> Recipe:
        return filled(ScreenedTree, checked(self))


@estimator
class TreeClassifier(_Tree, PrivateClassifier):
    """One interpretable private tree: private bins, screened tables, leaves that lean on parents.

    Private bins are cells of a public grid, joined by noisy counts. Screened tables: a node asks
    only for the features that looked best to its parent. A leaf that leans says something between
    its own noisy counts and those of the nodes above it, the closer to theirs the noisier it is.
    All constants follow from a noisy signal-to-noise ratio. A tree of depth D costs D + 2 rounds,
    and more where noise hides the number of records, which is then asked again.
    Numeric columns are read on an even and a logarithmic ladder at once, unless the schema
    declares their edges.

    Examples
    --------
    >>> import hedgerow as hr
    >>> columns = (hr.Numeric("age", 0, 100), hr.Numeric("dose", 0, 10))
    >>> schema = hr.Schema(columns, classes=("no", "yes"))
    >>> X = [[20, 1], [30, 2], [70, 8], [80, 9]] * 500
    >>> y = ["no", "no", "yes", "yes"] * 500
    >>> model = hr.TreeClassifier(schema, epsilon=10.0).fit(X, y)
    >>> model.predict([[25, 1], [75, 9]])
    array(['no', 'yes'], dtype='<U3')
    >>> model.privacy_.promise
    'epsilon = 10, delta = 1e-6'

    """

    merge_equal_labels: bool = parameter(
        default=False,
        rule=FLAG,
        text="Whether sibling leaves that name one class become one leaf: about half the leaves, "
        "the same predictions, coarser probabilities.",
    )


@estimator
class TreeRegressor(_Tree, PrivateRegressor):
    """One interpretable private tree for a number; see TreeClassifier.

    The target is clipped to its noisy .1 and 99.9 % quantiles within the schema's public range.

    Examples
    --------
    >>> import hedgerow as hr
    >>> columns = (hr.Numeric("age", 0, 100), hr.Numeric("dose", 0, 10))
    >>> schema = hr.Schema(columns, target=hr.Target(0, 100))
    >>> X = [[20, 1], [30, 2], [70, 8], [80, 9]] * 500
    >>> y = [10, 20, 80, 90] * 500
    >>> model = hr.TreeRegressor(schema, epsilon=10.0).fit(X, y)
    >>> low, high = model.predict([[25, 1], [75, 9]])
    >>> bool(low < high)
    True

    """
