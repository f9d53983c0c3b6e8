"""One interpretable tree from private histograms (Gubler 2023)."""

from __future__ import annotations

from hedgerow.methods.base import PrivateClassifier
from hedgerow.methods.blocks.leaves import LeafBudget
from hedgerow.methods.blocks.screening import Refinement
from hedgerow.methods.gubler import Accounting, HistogramTree
from hedgerow.methods.method import Recipe
from hedgerow.methods.parameters import checked, estimator, filled, parameter, when
from hedgerow.schema.rules import FLAG, SHARE, a, number, one_of, or_none, whole
from hedgerow.schema.schema import Schema


@estimator
class HistogramTreeClassifier(PrivateClassifier):
    """One tree from private histograms of all features: Gubler 2023, Algorithms 5 and 6.

    Examples
    --------
    >>> import hedgerow as hr
    >>> columns = (hr.Numeric("age", 0, 100), hr.Numeric("dose", 0, 10))
    >>> schema = hr.Schema(columns, classes=("no", "yes"))
    >>> X = [[20, 1], [30, 2], [70, 8], [80, 9]] * 500
    >>> y = ["no", "no", "yes", "yes"] * 500
    >>> model = hr.HistogramTreeClassifier(schema, epsilon=10.0, max_depth=2).fit(X, y)
    >>> model.predict([[25, 1], [75, 9]])
    array(['no', 'yes'], dtype='<U3')

    With the pieces of our own tree, which cost nothing:

    >>> pieces = {"refine": hr.Refinement(), "lean": True}
    >>> model = hr.HistogramTreeClassifier(schema, epsilon=10.0, max_depth=2, **pieces).fit(X, y)
    >>> model.predict([[25, 1], [75, 9]])
    array(['no', 'yes'], dtype='<U3')

    """

    max_depth: int = parameter(
        default=5, rule=whole(1), text="Levels of splits; a tree costs max_depth + 1 rounds."
    )
    min_samples_split: float = parameter(
        default=5.0,
        rule=number(least=0.0),
        used=(when(refine=None),),
        text="A node with fewer rows, as all noisy counts tell, stays a leaf.",
    )
    min_samples_leaf: float = parameter(
        default=5.0,
        rule=number(least=0.0),
        used=(when(refine=...),),
        text="A side with fewer rows, as noisy numbers tell, is no split.",
    )
    n_bins: int | None = parameter(
        default=None,
        rule=or_none(whole(2)),
        text="Uniform bins per numeric feature; None keeps the schema's own grid.",
    )
    leaf_share: float = parameter(
        default=0.5, rule=SHARE, text="Part of the budget kept for the leaves."
    )
    save_budget: bool = parameter(
        default=False,
        rule=FLAG,
        text="Algorithm 6: skip features whose noisy bound rules them out, hand what is saved "
        "down.",
    )
    bounds_share: float = parameter(
        default=0.25,
        rule=SHARE,
        used=(when(save_budget=True),),
        text="Part of a node's budget for the bounds.",
    )
    accounting: str = parameter(
        default="sound",
        rule=one_of(Accounting),
        used=(when(save_budget=True),),
        text="What the bounds of Algorithm 6 spend. 'sound': all of a node together what is meant "
        "for them. 'printed': each of them, as in the report, which counts them as one. "
        "'released': nothing, since the released code's bounds are noise around zero. Epsilon is "
        "always what is really spent at most; hedgerow.papers.gubler translates the report's.",
    )
    chunk: int = parameter(
        default=1,
        rule=whole(1),
        used=(when(save_budget=True),),
        text="Features asked per round while saving: larger chunks, fewer rounds, smaller savings.",
    )
    leaf_budget: str = parameter(
        default="unspent",
        rule=one_of(LeafBudget),
        text="What a leaf is asked with: all that its path did not spend, or 'share', the "
        "`leaf_share` alone, as printed.",
    )
    consistency: bool = parameter(
        default=True, rule=FLAG, text="Make all histograms of a node agree on their totals."
    )
    known_zeros: bool = parameter(
        default=True,
        rule=FLAG,
        used=(when(refine=None),),
        text="Drop the noise of bins that the path to a node excludes.",
    )
    lean: bool = parameter(
        default=False,
        rule=FLAG,
        text="Whether a leaf leans on the nodes above it: it says something between its own noisy "
        "counts and theirs, the closer to theirs the noisier its own are. Free of charge.",
    )
    refine: Refinement | None = parameter(
        default=None,
        rule=or_none(a(Refinement)),
        text="Tables asked and read as our own tree does it: private bins, naive-Bayes prior, "
        "screening, noise-penalised gain; hedgerow.Refinement() takes all of them. Numbers are "
        "then read on the fine grid, unless `n_bins` is given.",
    )

    def _recipe(self, schema: Schema) -> Recipe:
        return filled(HistogramTree, checked(self))
