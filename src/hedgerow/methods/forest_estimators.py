"""Our own forest, for classes and for numbers."""

from __future__ import annotations

from hedgerow.methods.base import PrivateClassifier, PrivateEstimator, PrivateRegressor
from hedgerow.methods.forest import GuidedForest
from hedgerow.methods.method import Recipe
from hedgerow.methods.parameters import checked, estimator, filled, parameter
from hedgerow.schema.rules import or_none, whole
from hedgerow.schema.schema import Schema


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
    """A private forest: structure from one noisy table, all leaves from one sum.

    For two classes a last round asks what the votes mean, so that probabilities come true.

    Few rounds matter where sites are far apart: here two of them train one forest together.

    Examples
    --------
    >>> import hedgerow as hr
    >>> columns = (hr.Numeric("age", 0, 100), hr.Numeric("dose", 0, 10))
    >>> schema = hr.Schema(columns, classes=("no", "yes"))
    >>> X = [[20, 1], [30, 2], [70, 8], [80, 9]] * 500
    >>> y = ["no", "no", "yes", "yes"] * 500
    >>> site = ["Basel", "Bern"] * 1000
    >>> model = hr.ForestClassifier(schema, epsilon=10.0, random_state=0).fit(X, y, party=site)
    >>> model.predict([[25, 1], [75, 9]])
    array(['no', 'yes'], dtype='<U3')
    >>> len(model.run_.rounds)
    4

    """


@estimator
class ForestRegressor(_Forest, PrivateRegressor):
    """A private forest for a number, in four rounds; see ForestClassifier.

    Examples
    --------
    >>> import hedgerow as hr
    >>> columns = (hr.Numeric("age", 0, 100), hr.Numeric("dose", 0, 10))
    >>> schema = hr.Schema(columns, target=hr.Target(0, 100))
    >>> X = [[20, 1], [30, 2], [70, 8], [80, 9]] * 500
    >>> y = [10, 20, 80, 90] * 500
    >>> model = hr.ForestRegressor(schema, epsilon=10.0, random_state=0).fit(X, y)
    >>> low, high = model.predict([[20, 1], [80, 9]])
    >>> bool(low < high)
    True

    """
