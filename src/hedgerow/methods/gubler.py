"""One tree from private histograms: Gubler 2023, Algorithms 2, 5 and 6."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from functools import partial
from typing import Literal

from hedgerow.errors import ParameterError
from hedgerow.methods.base import PrivateClassifier
from hedgerow.methods.blocks import histograms
from hedgerow.methods.blocks.builder import ROOT, Chooser, Node, TreePlan, grow
from hedgerow.methods.blocks.flow import Flow, NoiseModel
from hedgerow.methods.blocks.leaves import by_leaf_budget
from hedgerow.methods.blocks.public_grids import fine_schema
from hedgerow.methods.blocks.scores import gini
from hedgerow.methods.blocks.screening import FeatureScreening, refined_chooser
from hedgerow.methods.blocks.sizes import Scale
from hedgerow.methods.blocks.target import TrainingTarget
from hedgerow.methods.method import Method, Needs, Task, TrainingResult, Values, mean_of, method
from hedgerow.methods.parameters import estimator, parameter, when
from hedgerow.methods.presets import Departure, preset
from hedgerow.privacy.bundles import Size
from hedgerow.privacy.queries import Binning, Cells, ClassCounts, QueryKinds, Whole, bounds, sums
from hedgerow.schema.arrays import Rng
from hedgerow.schema.candidates import Grids, all_features
from hedgerow.schema.rules import FRACTION, a, exact, number, or_none, whole
from hedgerow.schema.schema import Schema

PAPER = "Gubler 2023"
DEPARTURES = (
    Departure("a leaf gets all that its path did not spend", {"leaf_budget": "fraction"}),
    Departure("the histograms of a node agree on their totals", {"consistency": False}),
    Departure("bins that the path excludes are 0", {"known_zeros": False}),
    Departure("leaf values are shrunk towards their ancestors", {"shrinkage": False}),
    Departure("tables are screened", {"screening": None}),
    Departure(
        "the bounds of Algorithm 6 are charged in full",
        {"accounting": "published"},
        corrected=("algorithm_6", "algorithm_6_as_released"),
    ),
    Departure(
        "bins are declared; those of the released program follow the rows of a node",
        unsound="the ends of such bins are values of records",
    ),
    Departure(
        "any number of classes, with negative noisy counts as 0 in proportions; missing values "
        "and categories have their own bins",
        reason="the report has two classes and numbers without missing values",
    ),
    Departure(
        "while saving, fractions are rounded down by at most 3 percent",
        reason="fractions are exact, and their digits would otherwise grow with every level",
    ),
)
Accounting = Literal["corrected", "published", "released"]
PUBLISHED_SENSITIVITY = Fraction(5, 4)
"""Sensitivity of a bound by the report's Lemma 3.2; the true one is 1."""


def honest_factor(
    accounting: Accounting,
    p: int,
    max_depth: int,
    leaf_fraction: Fraction = Fraction(1, 2),
    bounds_fraction: Fraction = Fraction(1, 4),
) -> Fraction:
    """Largest true cost of Algorithm 6, in units of its published epsilon.

    The report gives each of p bounds the budget that it charges once, with noise for a sensitivity
    of 5/4, so a node of budget b pays 4/5 p bounds_fraction b for them. What a node saves is spent
    below, on bounds too: where these cost more than they save, the most expensive path saves all it
    can, which leaves one of p histograms per node.
    """
    if accounting == "corrected":
        return Fraction(1)
    bounds = p * bounds_fraction / PUBLISHED_SENSITIVITY if accounting == "published" else 0
    level, hists = (1 - leaf_fraction) / max_depth, 1 - bounds_fraction
    below, slope = Fraction(0), bounds + hists  # of the last level: below + slope x its budget
    for _ in range(max_depth - 1):
        unspent = Fraction(p - 1, p) if slope > 1 else Fraction(0)
        below, slope = below + slope * level, bounds + hists * (1 - unspent + unspent * slope)
    return leaf_fraction + below + slope * level


def impurity_bound(rows: Sequence[int], impurities: Sequence[float]) -> float:
    """Theorem 7: a lower bound on the impurity of any split of a feature, over all sites together.

    Takes, for each site, its rows in the node and the least impurity of a split of that feature
    there.
    """
    total = sum(rows)
    return sum(n * impurity for n, impurity in zip(rows, impurities, strict=True)) / max(total, 1)


@method(
    "histogram_tree",
    test_settings=(
        {"max_depth": 3},
        {"max_depth": 2, "budget_saving": True},
        {"max_depth": 2, "budget_saving": True, "chunk": 3},
        {"max_depth": 2, "budget_saving": True, "accounting": "published"},
        {"max_depth": 2, "budget_saving": True, "accounting": "released"},
        {"max_depth": 3, "screening": FeatureScreening(keep=2), "shrinkage": True},
    ),
)
class HistogramTree(Method):
    """Level by level; a node spends (1 - leaf_fraction) / max_depth, a leaf at least leaf_fraction.

    `budget_saving` is Algorithm 6, with corrected bounds unless `accounting` says otherwise: then
    the budget is what they really cost at most (`honest_factor`), and the report's own epsilon is
    smaller by that factor. Differences from the report: `DEPARTURES`. Measured defaults:
    studies/notes/trees.md#0010. `n_bins` None takes the schema's bins. A node with fewer than
    `min_samples_split` noisy rows is not split; with `screening`, neither side may have fewer than
    `min_samples_leaf`. From our own tree, off by default: leaf values shrunk towards their
    ancestors (`shrinkage`), and feature `screening`; studies/notes/trees.md#0063.
    """

    max_depth: int = parameter(
        default=5, rule=whole(1), text="Levels of splits; a tree takes max_depth + 1 rounds."
    )
    min_samples_split: float = parameter(
        default=5.0,
        rule=number(least=0.0),
        used_with=(when(screening=None),),
        text="A node with fewer rows by all noisy counts stays a leaf.",
    )
    min_samples_leaf: float = parameter(
        default=5.0,
        rule=number(least=0.0),
        used_with=(when(screening=...),),
        text="A split needs at least this many noisy rows on each side.",
    )
    n_bins: int | None = parameter(
        default=None,
        rule=or_none(whole(2)),
        text="Uniform bins per numeric feature; None keeps the schema's own grid.",
    )
    leaf_fraction: float = parameter(
        default=0.5, rule=FRACTION, text="Fraction of the budget for the leaves."
    )
    budget_saving: bool = parameter(
        default=False,
        text="Algorithm 6: skip features that their noisy bound excludes, and pass the saved "
        "budget to the children.",
    )
    bounds_fraction: float = parameter(
        default=0.25,
        rule=FRACTION,
        used_with=(when(budget_saving=True),),
        text="Fraction of a node's budget for the bounds.",
    )
    accounting: Accounting = parameter(
        default="corrected",
        used_with=(when(budget_saving=True),),
        text="What the bounds of Algorithm 6 spend. 'corrected': all bounds of a node together "
        "spend their fraction. 'published': each of them spends it, while the report counts them "
        "as one. 'released': nothing, since the released code's bounds are noise around zero. "
        "Epsilon is always an upper bound on what is really spent; hedgerow.papers.gubler "
        "translates the report's.",
    )
    chunk: int = parameter(
        default=1,
        rule=whole(1),
        used_with=(when(budget_saving=True),),
        text="Features per round while saving: larger chunks mean fewer rounds and smaller "
        "savings.",
    )
    leaf_budget: Literal["unspent", "fraction"] = parameter(
        default="unspent",
        text="The budget of a leaf: all that its path did not spend, or 'fraction', the "
        "`leaf_fraction` alone, as published.",
    )
    consistency: bool = parameter(
        default=True, text="Make all histograms of a node agree on their totals."
    )
    known_zeros: bool = parameter(
        default=True,
        used_with=(when(screening=None),),
        text="Drop the noise of bins that the path to a node excludes.",
    )
    shrinkage: bool = parameter(
        default=False,
        text="Whether leaf values are shrunk towards their ancestors, the more the noisier they "
        "are. Post-processing, free of charge.",
    )
    screening: FeatureScreening | None = parameter(
        default=None,
        rule=or_none(a(FeatureScreening)),
        text="Tables as in our own tree: private bins, naive-Bayes prior, screening, "
        "noise-penalized gain; hedgerow.FeatureScreening() enables all of them. Numbers then use "
        "the fine grid, unless `n_bins` is given.",
    )

    def check(self) -> None:
        if self.screening is not None and (self.budget_saving or not self.consistency):
            raise ParameterError(
                "screening needs budget_saving=False and consistency=True: its tables are asked "
                "together and agree on their totals."
            )

    @property
    def needs(self) -> Needs:
        """Bounds are computed per site, so the division into sites matters."""
        return Needs(tasks=frozenset({Task.CLASSES}))

    def asks(self, schema: Schema) -> QueryKinds:
        tables = sums(ClassCounts, Cells, Whole)
        asks_bounds = self.budget_saving and self.accounting != "released"
        return tables | bounds() if asks_bounds else tables

    def grid(self, schema: Schema) -> Schema:
        if self.n_bins is not None:
            return schema.with_grid(bins=self.n_bins)
        return schema if self.screening is None else fine_schema(schema)

    def largest(self, schema: Schema) -> Size:
        scale = Scale(schema)
        depth, channels = scale.deepest(self.max_depth), scale.channels
        size = Size()
        for level in range(depth):
            table = scale.tables(scale.nodes(level), channels=channels, depth=level)
            looks = -(-scale.columns // self.chunk) + 1 if self.budget_saving else 1
            size += table * looks
        return size + scale.sums(scale.nodes(depth), channels=channels, depth=depth)

    def flow(self, schema: Schema, noise_model: NoiseModel, rng: Rng) -> Flow[TrainingResult]:
        target = TrainingTarget(ClassCounts(len(schema.classes or ())))
        if self.screening is None:
            root, choose = ROOT, self._chooser(schema, target, noise_model)
        else:
            root, choose = yield from refined_chooser(
                schema, target, self.screening, self._node_fraction, least=self.min_samples_leaf
            )
        leaf_fraction = exact(self.leaf_fraction) / self._honest(len(schema.grids))
        ends = by_leaf_budget(target, self.leaf_budget, leaf_fraction, shrinkage=self.shrinkage)
        plan = TreePlan(choose, self.max_depth, ends)
        statistics = yield from grow(plan, schema.names, rng, root)
        return TrainingResult(mean_of([statistics.tree]), (statistics,))

    def _chooser(self, schema: Schema, target: TrainingTarget, noise_model: NoiseModel) -> Chooser:
        rules = histograms.HistogramRules(
            Grids(schema, Binning.of_cells(schema)),
            target.statistic,
            gini,
            self.min_samples_split,
            self.consistency,
            self.known_zeros,
        )
        features = all_features(rules.grids.n_features)
        if not self.budget_saving:
            return histograms.by_histogram(rules, features, self._node_fraction)
        honest = self._honest(rules.grids.n_features)
        share = exact(self.bounds_fraction)
        published = share / PUBLISHED_SENSITIVITY
        return histograms.by_bounds(
            rules,
            features,
            lambda node: self._node_fraction(node) / honest,
            share,
            self.chunk,
            lambda p: share / p if self.accounting == "corrected" else published,
            noise_model if self.accounting == "released" else None,
        )

    def _honest(self, p: int) -> Fraction:
        shares = exact(self.leaf_fraction), exact(self.bounds_fraction)
        return honest_factor(self.accounting, p, self.max_depth, *shares)

    def _node_fraction(self, node: Node) -> Fraction:
        """Levels divide equally what the leaves do not get."""
        return (1 - exact(self.leaf_fraction)) / self.max_depth


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

    With the additions of our own tree, which cost nothing:

    >>> pieces = {"screening": hr.FeatureScreening(), "shrinkage": True}
    >>> model = hr.HistogramTreeClassifier(schema, epsilon=10.0, max_depth=2, **pieces).fit(X, y)
    >>> model.predict([[25, 1], [75, 9]])
    array(['no', 'yes'], dtype='<U3')

    """


GUBLER_DEFAULTS = {
    "max_depth": 5,
    "n_bins": 10,
    "min_samples_split": 10.0,
    "leaf_fraction": 0.5,
    "leaf_budget": "fraction",
    "consistency": False,
    "known_zeros": False,
    "delta": 0.0,
}
"""Section 4: 10 bins, at least 10 rows per node, half of the budget for leaves, pure epsilon."""
BOUNDED = {**GUBLER_DEFAULTS, "bounds_fraction": 0.25}
"""With a quarter of a node's budget for bounds."""


def _factor(accounting: Accounting, schema: Schema, values: Values) -> Fraction:
    shares = (exact(values[name], name) for name in ("leaf_fraction", "bounds_fraction"))
    return honest_factor(accounting, len(schema.features), values["max_depth"], *shares)


algorithm_2 = preset(
    "algorithm_2",
    "Algorithm 2",
    HistogramTreeClassifier,
    words="splits by impurities of exact sums over all sites; no guarantee.",
    fixed_parameters={"dp_model": "none", "budget_saving": False},
    usual=GUBLER_DEFAULTS,
)
algorithm_5 = preset(
    "algorithm_5",
    "Algorithm 5",
    HistogramTreeClassifier,
    words="the best split of noisy histograms of all features, level by level.",
    fixed_parameters={"budget_saving": False},
    usual=GUBLER_DEFAULTS,
)
algorithm_6 = preset(
    "algorithm_6",
    "Algorithm 6, corrected",
    HistogramTreeClassifier,
    words="noisy bounds of all features, charged, exclude some histograms.",
    fixed_parameters={"budget_saving": True, "accounting": "corrected"},
    usual=BOUNDED,
)
algorithm_6_as_published = preset(
    "algorithm_6_as_published",
    "Algorithm 6, as published",
    HistogramTreeClassifier,
    words="the report's budgets, at the epsilon that they really cost at most.",
    fixed_parameters={"budget_saving": True, "accounting": "published"},
    usual=BOUNDED,
    rows={"Algorithm 6, as published": "schema, published_epsilon=1.0"},
    factor=partial(_factor, "published"),
)
algorithm_6_as_released = preset(
    "algorithm_6_as_released",
    "Algorithm 6, as released",
    HistogramTreeClassifier,
    words="its bounds are noise around zero, so they cost nothing.",
    fixed_parameters={"budget_saving": True, "accounting": "released"},
    usual=BOUNDED,
    rows={"Algorithm 6, as released": "schema, published_epsilon=1.0"},
    factor=partial(_factor, "released"),
)
