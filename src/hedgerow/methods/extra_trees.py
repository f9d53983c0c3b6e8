"""Extremely randomised trees over several sites (Liu et al. 2020)."""

from __future__ import annotations

from fractions import Fraction

from hedgerow.methods.base import PrivateClassifier, PrivateEstimator, PrivateRegressor
from hedgerow.methods.liu import ExtraTrees, LeanOn, Ranges, SplitRule
from hedgerow.methods.method import Recipe
from hedgerow.methods.parameters import checked, estimator, filled, parameter, when
from hedgerow.privacy.accounting.budget import Placement
from hedgerow.privacy.mechanisms.response import BloomReports
from hedgerow.schema.rules import FLAG, SHARE, Rule, a, either, number, one_of, or_none, whole
from hedgerow.schema.schema import Schema

LEANING = Rule(
    FLAG.kind, FLAG.allowed, lambda given: LeanOn.ABOVE if FLAG.read(given) else LeanOn.NONE
)
NOISY = {"n_trees": 5, "max_depth": 6}
"""Where every sum carries noise and every level of every tree has a part of the budget."""
LOOKING = (when(split="best"),)
"""Totally random trees look at nothing but their leaves."""


@estimator
class _ExtraTrees(PrivateEstimator):
    """What both kinds of extra-trees share."""

    n_trees: int | None = parameter(
        default=None,
        rule=or_none(whole(1)),
        text="Trees; every one is charged a part of the budget. None is the paper's 20 where sums "
        "carry no noise ('nowhere' and 'label'), and 5 elsewhere.",
    )
    max_depth: int | None = parameter(
        default=None,
        rule=or_none(whole(1)),
        text="Levels of splits; every one is charged a part of the budget. None is the paper's 20 "
        "where sums carry no noise ('nowhere' and 'label'), and 6 elsewhere.",
    )
    max_features: int | None = parameter(
        default=None,
        rule=or_none(whole(1)),
        used=LOOKING,
        text="Random tests that compete for a node; None is the root of the number of features, "
        "at least 2, and all features for a number where sums carry no noise.",
    )
    min_samples_split: float = parameter(
        default=2.0,
        rule=number(above=0.0),
        used=LOOKING,
        text="A node with fewer rows, as noisy numbers tell, stays a leaf.",
    )
    min_samples_leaf: float = parameter(
        default=1.0,
        rule=number(above=0.0),
        used=LOOKING,
        text="A side with fewer rows, as noisy numbers tell, is no split.",
    )
    split: str = parameter(
        default="best",
        rule=one_of(SplitRule),
        text="How a node finds its split. 'best': the best of `max_features` random tests. "
        "'random': without looking, so that everything is spent on the leaves.",
    )
    ranges: str = parameter(
        default="public",
        rule=one_of(Ranges),
        used=LOOKING,
        text="Cuts fall within the schema's bounds, or between the lowest and the highest cell "
        "that holds any row. 'observed' tells everybody exactly how many rows lie in every cell "
        "of every feature; only placements that protect no feature ('nowhere', 'label') allow it.",
    )
    leaf_share: float = parameter(
        default=0.5,
        rule=SHARE,
        used=LOOKING,
        text="Part of the budget kept for the leaves, where sums carry noise.",
    )
    subsample: int | None = parameter(
        default=None,
        rule=or_none(whole(2)),
        text="Each tree sees one record in so many, drawn by each record for each tree; None: all.",
    )
    spare: int = parameter(
        default=4,
        rule=whole(1),
        used=(
            when(split="best", placement="nowhere"),
            when(split="best", placement="label"),
        ),
        text="Random tests asked for each one that competes; tests that leave a side of the node "
        "empty drop out. Asked where that costs nothing; the default is by measurement, 1 asks "
        "for no more than `max_features`.",
    )
    lean: bool | str = parameter(
        default="all",
        rule=either(one_of({"all": LeanOn.ALL}), LEANING),
        text="What a noisy leaf leans on, the more the noisier it is. 'all': all leaves of its "
        "tree together. True: the nodes above it. False: nothing. Free of charge.",
    )

    def _recipe(self, schema: Schema) -> Recipe:
        given = checked(self)
        if given.placement in (Placement.NOWHERE, Placement.LABEL):
            return filled(ExtraTrees, given)
        absent = {name: value for name, value in NOISY.items() if getattr(given, name) is None}
        return filled(ExtraTrees, given, **absent)


@estimator
class ExtraTreesClassifier(_ExtraTrees, PrivateClassifier):
    """Federated Extra-Trees, Liu et al. 2020: all trees in lockstep, a round a level.

    Under placement 'nowhere' this is the paper's FET, under 'label' its FET-LDP (labels only:
    features are not protected), under 'silo' its FET-GDP; 'shares' divides the noise.

    Examples
    --------
    >>> import hedgerow as hr
    >>> columns = (hr.Numeric("age", 0, 100), hr.Numeric("dose", 0, 10))
    >>> schema = hr.Schema(columns, classes=("no", "yes"))
    >>> X = [[20, 1], [30, 2], [70, 8], [80, 9]] * 500
    >>> y = ["no", "no", "yes", "yes"] * 500
    >>> model = hr.ExtraTreesClassifier(schema, epsilon=10.0, max_depth=3, random_state=0)
    >>> model.fit(X, y).predict([[25, 1], [75, 9]])
    array(['no', 'yes'], dtype='<U3')

    Labels told at random, features not protected:

    >>> model.set_params(placement="label").fit(X, y).predict([[25, 1], [75, 9]])
    array(['no', 'yes'], dtype='<U3')

    """

    label_mechanism: str | BloomReports = parameter(
        default="response",
        rule=either(one_of({"response": "response", "bloom": "bloom"}), a(BloomReports)),
        used=(when(placement="label"),),
        text="How labels are told under placement 'label'. 'response': k-ary randomised response. "
        "'bloom': noisy bits of a Bloom filter, as in the paper, that cost epsilon for ever. Or "
        "such reports spelled out.",
    )

    def _label_reports(
        self, schema: Schema, epsilon: Fraction, placement: Placement | None
    ) -> BloomReports | None:
        told = checked(self).label_mechanism
        if told != "bloom":
            return told if isinstance(told, BloomReports) else None
        each = epsilon / checked(self).records_per_person
        return BloomReports.of_labels(len(schema.classes or ()), each)


@estimator
class ExtraTreesRegressor(_ExtraTrees, PrivateRegressor):
    """Federated Extra-Trees for a number: splits by variance; see ExtraTreesClassifier.

    Examples
    --------
    >>> import hedgerow as hr
    >>> columns = (hr.Numeric("age", 0, 100), hr.Numeric("dose", 0, 10))
    >>> schema = hr.Schema(columns, target=hr.Target(0, 100))
    >>> X = [[20, 1], [30, 2], [70, 8], [80, 9]] * 500
    >>> y = [10, 20, 80, 90] * 500
    >>> model = hr.ExtraTreesRegressor(schema, epsilon=10.0, max_depth=3, random_state=0)
    >>> low, high = model.fit(X, y).predict([[25, 1], [75, 9]])
    >>> bool(low < high)
    True

    """
