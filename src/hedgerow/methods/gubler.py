"""One tree from private histograms: Gubler 2023, Algorithms 2, 5 and 6."""

from __future__ import annotations

from fractions import Fraction
from functools import partial
from typing import Literal

import numpy as np

from hedgerow.errors import SpecError
from hedgerow.methods.base import PrivateClassifier
from hedgerow.methods.blocks import histograms
from hedgerow.methods.blocks.builder import ROOT, Chooser, LevelOrder, Node, TreePlan, grow
from hedgerow.methods.blocks.flow import Flow, Quote
from hedgerow.methods.blocks.goal import Goal
from hedgerow.methods.blocks.leaves import LeafBudget, by_leaf_budget
from hedgerow.methods.blocks.public_grids import fine_schema
from hedgerow.methods.blocks.scores import gini
from hedgerow.methods.blocks.screening import Refinement, refined_chooser
from hedgerow.methods.blocks.sizes import Scale
from hedgerow.methods.method import Method, Needs, Task, Trained, Values, mean_of, method
from hedgerow.methods.parameters import estimator, parameter, when
from hedgerow.methods.presets import preset
from hedgerow.privacy.bundles import Size
from hedgerow.privacy.queries import Binning, Cells, ClassCounts, QueryKinds, Whole, bounds, sums
from hedgerow.schema.candidates import Grids, all_features
from hedgerow.schema.rules import SHARE, a, exact, number, or_none, whole
from hedgerow.schema.schema import Schema

PAPER = "Gubler 2023"
Accounting = Literal["sound", "printed", "released"]
PRINTED_SENSITIVITY = Fraction(5, 4)
"""Of a bound, by the report's Lemma 3.2; the true one is 1."""


def honest_factor(
    accounting: Accounting,
    p: int,
    max_depth: int,
    leaf_share: Fraction = Fraction(1, 2),
    bounds_share: Fraction = Fraction(1, 4),
) -> Fraction:
    """What Algorithm 6 costs at most, in units of the epsilon that it names.

    The report gives each of p bounds the budget that it charges once, with noise for a sensitivity
    of 5/4, so a node of budget b pays 4/5 p bounds_share b for them. What a node saves is spent
    below, bounds again included: where these cost more than they save, the dearest path saves all
    it can, which leaves one histogram of p a node.
    """
    if accounting == "sound":
        return Fraction(1)
    bounds = p * bounds_share / PRINTED_SENSITIVITY if accounting == "printed" else 0
    level, hists = (1 - leaf_share) / max_depth, 1 - bounds_share
    below, slope = Fraction(0), bounds + hists  # of the last level: below + slope x its budget
    for _ in range(max_depth - 1):
        saved = Fraction(p - 1, p) if slope > 1 else Fraction(0)
        below, slope = below + slope * level, bounds + hists * (1 - saved + saved * slope)
    return leaf_share + below + slope * level


@method(
    "histogram_tree",
    tried=(
        {"max_depth": 3},
        {"max_depth": 2, "save_budget": True},
        {"max_depth": 2, "save_budget": True, "chunk": 3},
        {"max_depth": 2, "save_budget": True, "accounting": "printed"},
        {"max_depth": 2, "save_budget": True, "accounting": "released"},
        {"max_depth": 3, "refine": Refinement(keep=2), "lean": True},
    ),
)
class HistogramTree(Method):
    """Level by level; a node spends (1 - leaf_share) / max_depth, a leaf at least leaf_share.

    With `save_budget`, Algorithm 6, its bounds made sound unless `accounting` says otherwise: then
    the budget is what they really cost at most (`honest_factor`), and the report's own epsilon is
    that much smaller. Departures from the paper: any number of classes; missing values and
    categories have bins of their own; while saving, shares are rounded down by at most 3 percent.
    Extras, each of which can be turned off: a leaf gets all that its path did not spend
    (`leaf_budget`), the histograms of a node agree on their totals (`consistency`), bins that the
    path excludes hold nothing (`known_zeros`). Defaults by
    measurement: studies/notes/trees.md#0010. `n_bins` None takes the schema's bins.
    A node of fewer than `min_samples_split` noisy rows is not split; with `refine`, a side of fewer
    than `min_samples_leaf` is no split.
    Pieces of our own tree, off by default: leaves that `lean` on the nodes above them, and tables
    asked and read with `refine`; studies/notes/trees.md#0063.
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
        text="Algorithm 6: skip features whose noisy bound rules them out, hand what is saved "
        "down.",
    )
    bounds_share: float = parameter(
        default=0.25,
        rule=SHARE,
        used=(when(save_budget=True),),
        text="Part of a node's budget for the bounds.",
    )
    accounting: Accounting = parameter(
        default="sound",
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
    leaf_budget: Literal["unspent", "share"] = parameter(
        default="unspent",
        text="What a leaf is asked with: all that its path did not spend, or 'share', the "
        "`leaf_share` alone, as printed.",
    )
    consistency: bool = parameter(
        default=True, text="Make all histograms of a node agree on their totals."
    )
    known_zeros: bool = parameter(
        default=True,
        used=(when(refine=None),),
        text="Drop the noise of bins that the path to a node excludes.",
    )
    lean: bool = parameter(
        default=False,
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

    def check(self) -> None:
        if self.refine is not None and (self.save_budget or not self.consistency):
            raise SpecError(
                "refine needs save_budget=False and consistency=True: refined tables are asked "
                "together and agree on their totals."
            )

    @property
    def needs(self) -> Needs:
        """Bounds are each site's own, so with them the division counts."""
        return Needs(tasks=frozenset({Task.CLASSES}))

    def asks(self, schema: Schema) -> QueryKinds:
        tables = sums(ClassCounts, Cells, Whole)
        asked = self.save_budget and self.accounting != "released"
        return tables | bounds() if asked else tables

    def grid(self, schema: Schema) -> Schema:
        if self.n_bins is not None:
            return schema.with_grid(bins=self.n_bins)
        return schema if self.refine is None else fine_schema(schema)

    def largest(self, schema: Schema) -> Size:
        scale = Scale(schema)
        depth, channels = scale.deepest(self.max_depth), scale.channels
        size = Size()
        for level in range(depth):
            table = scale.tables(scale.nodes(level), channels=channels, depth=level)
            looks = -(-scale.columns // self.chunk) + 1 if self.save_budget else 1
            size += table * looks
        return size + scale.sums(scale.nodes(depth), channels=channels, depth=depth)

    def flow(self, schema: Schema, quote: Quote, rng: np.random.Generator) -> Flow[Trained]:
        goal = Goal(ClassCounts(len(schema.classes or ())))
        if self.refine is None:
            root, choose = ROOT, self._chooser(schema, goal, quote)
        else:
            root, choose = yield from refined_chooser(
                schema, goal, self.refine, self._node_share, least=self.min_samples_leaf
            )
        leaf_share = exact(self.leaf_share) / self._honest(len(schema.grids))
        ends = by_leaf_budget(goal, LeafBudget(self.leaf_budget), leaf_share, lean=self.lean)
        plan = TreePlan(choose, LevelOrder(), self.max_depth, ends)
        grown = yield from grow(plan, schema.names, rng, root)
        return Trained(mean_of([grown.tree]), (grown,))

    def _chooser(self, schema: Schema, goal: Goal, quote: Quote) -> Chooser:
        rules = histograms.HistogramRules(
            Grids(schema, Binning.of_cells(schema)),
            goal.statistic,
            gini,
            self.min_samples_split,
            self.consistency,
            self.known_zeros,
        )
        features = all_features(rules.grids.n_features)
        if not self.save_budget:
            return histograms.by_histogram(rules, features, self._node_share)
        honest = self._honest(rules.grids.n_features)
        return histograms.by_bounds(
            rules,
            features,
            lambda node: self._node_share(node) / honest,
            exact(self.bounds_share),
            self.chunk,
            self._bounds(rules.grids, quote),
        )

    def _honest(self, p: int) -> Fraction:
        shares = exact(self.leaf_share), exact(self.bounds_share)
        return honest_factor(self.accounting, p, self.max_depth, *shares)

    def _bounds(self, grids: Grids, quote: Quote) -> histograms.BoundFlow:
        share = exact(self.bounds_share)
        printed = share / PRINTED_SENSITIVITY
        match self.accounting:
            case "sound":
                return histograms.asked_bounds(grids, lambda p: share / p)
            case "printed":
                return histograms.asked_bounds(grids, lambda p: printed)
            case "released":
                return histograms.bounds_of_zero(grids, lambda p: printed, quote)

    def _node_share(self, node: Node) -> Fraction:
        """Levels divide equally what the leaves do not keep."""
        return (1 - exact(self.leaf_share)) / self.max_depth


@estimator
class HistogramTreeClassifier(PrivateClassifier, HistogramTree):
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


# ----------------------------------------------------------------------- the report's algorithms
USUAL = {
    "max_depth": 5,
    "n_bins": 10,
    "min_samples_split": 10.0,
    "leaf_share": 0.5,
    "leaf_budget": "share",
    "consistency": False,
    "known_zeros": False,
    "delta": 0.0,
}
"""Section 4: 10 bins, at least 10 rows a node, half of the budget for the leaves, pure epsilon."""
BOUNDED = {**USUAL, "bounds_share": 0.25}
"""And a quarter of a node's budget for bounds."""


def _factor(accounting: Accounting, schema: Schema, values: Values) -> Fraction:
    shares = (exact(values[name], name) for name in ("leaf_share", "bounds_share"))
    return honest_factor(accounting, len(schema.features), values["max_depth"], *shares)


algorithm_2 = preset(
    "algorithm_2",
    "Algorithm 2",
    HistogramTreeClassifier,
    words="splits by impurities of exact sums over all parties; nothing is promised.",
    fixed={"placement": "nowhere", "save_budget": False},
    usual=USUAL,
)
algorithm_5 = preset(
    "algorithm_5",
    "Algorithm 5",
    HistogramTreeClassifier,
    words="the best split of noisy histograms of all features, level by level.",
    fixed={"save_budget": False},
    usual=USUAL,
)
algorithm_6 = preset(
    "algorithm_6",
    "Algorithm 6, made sound",
    HistogramTreeClassifier,
    words="noisy bounds of all features, paid, rule out some histograms.",
    fixed={"save_budget": True, "accounting": "sound"},
    usual=BOUNDED,
)
algorithm_6_as_printed = preset(
    "algorithm_6_as_printed",
    "Algorithm 6, as printed",
    HistogramTreeClassifier,
    words="the report's budgets, at the epsilon that they really cost at most.",
    fixed={"save_budget": True, "accounting": "printed"},
    usual=BOUNDED,
    rows={"Algorithm 6, as printed": "schema, printed_epsilon=1.0"},
    factor=partial(_factor, "printed"),
)
algorithm_6_as_released = preset(
    "algorithm_6_as_released",
    "Algorithm 6, as released",
    HistogramTreeClassifier,
    words="its bounds are noise around zero, so they cost nothing.",
    fixed={"save_budget": True, "accounting": "released"},
    usual=BOUNDED,
    rows={"Algorithm 6, as released": "schema, printed_epsilon=1.0"},
    factor=partial(_factor, "released"),
)
