"""A best-first tree: DP-TopDown of Wang, Dick and Balcan 2020, with three ways to find a split."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, Literal

import numpy as np

from hedgerow.errors import SpecError
from hedgerow.methods.base import PrivateClassifier
from hedgerow.methods.blocks import histograms
from hedgerow.methods.blocks.builder import ROOT, BestFirst, Chooser, Node, TreePlan, grow
from hedgerow.methods.blocks.flow import Flow, Quote
from hedgerow.methods.blocks.goal import Goal
from hedgerow.methods.blocks.leaves import LeafBudget, by_leaf_budget
from hedgerow.methods.blocks.public_grids import fine_schema
from hedgerow.methods.blocks.scores import entropy, full_gini, root_gini
from hedgerow.methods.blocks.screening import Refinement, refined_chooser
from hedgerow.methods.blocks.selection import (
    OneTablePerSplit,
    SelectionRules,
    by_choice,
    by_every_table,
    by_local_choice,
)
from hedgerow.methods.blocks.sizes import DRAWS, QUERY, Scale
from hedgerow.methods.blocks.stopping import if_audible, if_worthwhile
from hedgerow.methods.method import Method, Needs, Recipe, Task, Trained, mean_of, method
from hedgerow.methods.parameters import estimator, parameter, when
from hedgerow.methods.presets import preset
from hedgerow.models.tree import MOST_LEAVES
from hedgerow.models.validation import MOST_STEPS
from hedgerow.privacy.bundles import Size
from hedgerow.privacy.queries import (
    MOST_ROWS,
    Binning,
    Cells,
    ClassCounts,
    Leaves,
    LocalChoice,
    Mechanism,
    QueryKinds,
    Score,
    Scoring,
    SelectQuery,
    SumQuery,
    Whole,
    choices,
    sums,
)
from hedgerow.schema.candidates import Grids, all_features
from hedgerow.schema.rules import SHARE, Rule, a, either, exact, number, or_none, rule_of, whole
from hedgerow.schema.schema import Schema

PAPER = "Wang, Dick and Balcan 2020"
Finding = Literal["choice", "noisy_counts", "local_choice"]
"""How a node finds its split (the paper's PrivateSplit)."""
Criterion = Literal["entropy", "gini", "root_gini"]
"""The paper's G, scaled to 1 where two classes are even."""
BudgetName = Literal["decay", "slow", "even"]
MechanismName = Literal["exponential", "permute_and_flip", "report_noisy_max"]
IMPURITIES = {"entropy": entropy, "gini": full_gini, "root_gini": root_gini}
SCORES = {"entropy": Score.ENTROPY, "gini": Score.GINI}
TARGET_ERROR = 0.1
"""The paper's; nodes lighter than TARGET_ERROR / max_splits are not split."""


@dataclass(frozen=True)
class Listed:
    """What a function says of each depth."""

    parts: tuple[Fraction, ...]

    def __call__(self, depth: int) -> Fraction:
        return self.parts[depth - 1]


def _callable(value: Any) -> Callable[[int], Any]:
    if not callable(value):
        raise TypeError
    given: Callable[[int], Any] = value
    return given


@method(
    "topdown",
    tried=(
        {"max_splits": 4},
        {"max_splits": 4, "refine": Refinement(prior=False, bins=None), "lean": True},
        {"max_splits": 3, "tables": "split", "consistency": False, "ask_all": True},
        {"max_splits": 3, "split": "choice", "rows_at_most": 1000},
        {"max_splits": 3, "split": "local_choice", "mechanism": "report_noisy_max"},
        {"max_splits": 3, "split": "local_choice", "consistency": False},
    ),
)
class TopDown(Method):
    """Best-first growth by the noisy count-scaled gain n J, at most `max_splits` splits.

    A node at depth d spends (1 - leaf_share) B(d); a leaf gets all that its path did not spend,
    at least `leaf_share`. Since sum_d B(d) <= 1 over the `max_splits` depths there are, no path
    can spend more than the whole. Departures from Algorithm 1: children of the last split are
    not asked (the paper asks them, at a depth its budget does not count); weights and gains come
    from one answer. The choosers list theirs. Repairs that can be turned off: NoisyCounts asks one
    histogram per feature (`tables`), nodes that noise would drown are not asked (`ask_all`), tables
    agree with each other (`consistency`), a leaf gets what its path left (`leaf_budget`), a choice
    is by the `mechanism` that suits the noise. Pieces of our own tree, off by default: leaves that
    `lean` on the nodes above them, and tables asked and read with `refine`;
    studies/notes/trees.md#0063. `n_bins` None takes the schema's bins.
    """

    max_splits: int = parameter(
        default=512, rule=whole(1), text="Splits of the tree, best first (M in the paper)."
    )
    split: Finding = parameter(
        default="noisy_counts",
        text="How a node finds its split. 'noisy_counts': from private histograms of all "
        "features. 'local_choice': among the splits that each site picked on its own rows. "
        "'choice': by one holder's private choice among all splits.",
    )
    criterion: Criterion = parameter(
        default="gini",
        text="Impurity. One record moves 'gini' by at most 2 and 'entropy' by log(rows), so "
        "private choices by 'gini' are sharper; the paper uses 'entropy'. 'root_gini' needs "
        "'noisy_counts': its sensitivity grows with the root of the number of rows, so it cannot "
        "score a choice.",
    )
    budget: BudgetName | Callable[[int], Any] = parameter(
        default="decay",
        rule=either(rule_of(BudgetName), Rule("callable", "a function of the depth", _callable)),
        text="Part B(d) of the splits' budget for a node at depth d = 1, 2, ...: 2^-d, "
        "0.8^(d - 1) / 5, 1 / max_splits, or what the function says. All depths together may "
        "have at most 1.",
    )
    leaf_share: float = parameter(
        default=0.5,
        rule=SHARE,
        text="Part of the budget kept for the leaves (LPF in the paper).",
    )
    min_fraction_split: float | None = parameter(
        default=None,
        rule=or_none(number(least=0.0)),
        text="Smallest part of all rows that a node must hold to be split; None is "
        "0.1 / max_splits.",
    )
    min_gain: float = parameter(
        default=0.01,
        rule=number(),
        text="A node whose impurity falls by no more than this, per row, is not split.",
    )
    rows_at_most: int = parameter(
        default=MOST_ROWS,
        rule=whole(1),
        used=(when(criterion="entropy", split=("local_choice", "choice")),),
        text="A public guess of the number of rows: the closer from above, the sharper the "
        "choice. Any guess is private.",
    )
    n_bins: int | None = parameter(
        default=None,
        rule=or_none(whole(2)),
        text="Uniform bins per numeric feature; None keeps the schema's own grid.",
    )
    tables: Literal["feature", "split"] = parameter(
        default="feature",
        used=(when(split="noisy_counts"),),
        text="What 'noisy_counts' asks: a histogram of each feature, or class counts on both sides "
        "of each 'split', as written in the paper; its noise grows with the number of splits.",
    )
    mechanism: MechanismName | None = parameter(
        default=None,
        rule=or_none(rule_of(MechanismName)),
        used=(when(split=("local_choice", "choice")),),
        text="How a private choice is made; the paper's is 'report_noisy_max'. None is "
        "'permute_and_flip' where delta = 0, and 'exponential' where delta > 0.",
    )
    index_share: float = parameter(
        default=0.75,
        rule=SHARE,
        used=(when(split=("local_choice", "choice")),),
        text="Part of a node's budget that the choice may spend; counts of what was chosen have "
        "the rest. One half in the paper.",
    )
    ask_all: bool = parameter(
        default=False,
        text="Whether nodes are asked too whose noise would be louder than their rows, as in the "
        "paper.",
    )
    leaf_budget: Literal["unspent", "share"] = parameter(
        default="unspent",
        text="What a leaf is asked with: all that its path did not spend, or 'share', the "
        "`leaf_share` alone, as printed.",
    )
    consistency: bool = parameter(
        default=True,
        text="Make the tables of a node agree with each other and with the path to it.",
    )
    lean: bool = parameter(
        default=False,
        text="Whether a leaf leans on the nodes above it: it says something between its own noisy "
        "counts and theirs, the closer to theirs the noisier its own are. Free of charge.",
    )
    refine: Refinement | None = parameter(
        default=None,
        rule=or_none(a(Refinement)),
        text="For 'noisy_counts': tables asked and read as our own tree does it, with private "
        "bins, naive-Bayes prior, screening and noise-penalised gain, on the fine grid of "
        "numbers; hedgerow.Refinement() takes all of them.",
    )

    def check(self) -> None:
        from_tables = ("noisy_counts", "gini", "feature", True)
        given = (self.split, self.criterion, self.tables, self.consistency)
        if self.refine is not None and given != from_tables:
            raise SpecError(
                "refine needs split='noisy_counts', criterion='gini', tables='feature' and "
                "consistency=True: it refines noisy tables of features, which agree on their "
                "totals, and its penalty is Gini's."
            )
        if self.split != "noisy_counts" and self.criterion not in SCORES:
            raise SpecError(
                f"criterion 'root_gini' cannot be used with split {self.split!r}: one "
                "record can move its score by 2 sqrt(n), so no useful choice is private. Use "
                "'entropy' or 'gini', or split='noisy_counts', where the score is computed from "
                "noisy tables."
            )
        shares = self._parts()
        if min(shares) <= 0 or sum(shares) > 1:
            raise SpecError(
                f"the budget spends {float(sum(shares)):.6g} on a path of {self.max_splits} "
                "splits; every depth must have more than 0, and all of them together at most 1."
            )

    def _part(self, depth: int) -> Fraction:
        """B(d): what a node at depth d = 1, 2, ... may spend, of what the leaves do not keep."""
        match self.budget:
            case "decay":
                return Fraction(1, 2**depth)
            case "slow":  # so slowly that deep trees stay audible
                return Fraction(1, 5) * Fraction(4, 5) ** (depth - 1)
            case "even":
                return Fraction(1, self.max_splits)
            case function:
                return exact(function(depth), f"budget({depth})")

    def _parts(self) -> tuple[Fraction, ...]:
        return tuple(self._part(depth) for depth in range(1, self.max_splits + 1))

    def _recipe(self, schema: Schema) -> Recipe:
        """Of a function of the depth, sites approve what it says of each depth."""
        made: Any = super()._recipe(schema)
        recipe: Recipe = (
            replace(made, budget=Listed(made._parts())) if callable(made.budget) else made
        )
        return recipe

    @property
    def needs(self) -> Needs:
        return Needs(tasks=frozenset({Task.CLASSES}), one_holder=self.split == "choice")

    def asks(self, schema: Schema) -> QueryKinds:
        if self.split == "noisy_counts":
            return sums(ClassCounts, Cells if self._by_feature else Leaves, Whole)
        kind = SelectQuery if self.split == "choice" else LocalChoice
        return choices(kind, SCORES[self.criterion]) | sums(ClassCounts, Leaves, Whole)

    def grid(self, schema: Schema) -> Schema:
        if self.n_bins is not None:
            return schema.with_grid(bins=self.n_bins)
        return schema if self.refine is None else fine_schema(schema)

    def largest(self, schema: Schema) -> Size:
        """One step for the leaves; both children of a split are asked together.

        All paths are of one tree: what leads to its nodes is told once.
        """
        scale = Scale(schema)
        depth, splits = scale.deepest(self._deepest), min(self.max_splits, MOST_LEAVES - 1)
        shared = (2 * splits + 1 + DRAWS) * scale.step_bytes
        a_split = self._largest_split(scale, depth, shared)
        leaves = Size.of_step(
            splits + 1,
            integers=scale.channels,
            bytes=QUERY,
            shared=shared,
            steps=depth + DRAWS,
            leaves=splits + 1,
        )
        return a_split * splits + leaves

    def _largest_split(self, scale: Scale, depth: int, shared: int) -> Size:
        if self.split == "noisy_counts" and self._by_feature:
            return scale.tables(2, channels=scale.channels, depth=depth)
        tests = sum(2 * grid.n_cells for grid in scale.schema.grids)
        tables = Size.of_step(
            2,
            integers=2 * tests * scale.channels,
            bytes=QUERY + tests * scale.tree_bytes(2),
            shared=shared,
        )
        if self.split == "noisy_counts":
            return tables
        return tables + Size.of_step(
            2, bytes=QUERY + tests * scale.step_bytes, shared=shared, candidates=tests
        )

    @property
    def _deepest(self) -> int:
        """No path of a tree is longer than those that sites look at."""
        return min(self.max_splits, MOST_STEPS - DRAWS)

    def flow(self, schema: Schema, quote: Quote, rng: np.random.Generator) -> Flow[Trained]:
        counts = ClassCounts(len(schema.classes or ()))
        goal, grids = Goal(counts), Grids(schema, Binning.of_cells(schema))
        root, min_gain = ROOT, self.min_gain
        if self.refine is None:
            choose = self._chooser(grids, counts, quote)
        else:
            root, choose = yield from refined_chooser(
                schema, goal, self.refine, self._share, least=0.0
            )
            choose = self._audible(choose, self._tables(grids, counts, self.refine.keep), quote)
            min_gain *= 1 - 1 / counts.n_classes  # its gains are not scaled to 1
        choose = if_worthwhile(choose, min_fraction=self._min_fraction, min_gain=min_gain)
        ends = by_leaf_budget(
            goal, LeafBudget(self.leaf_budget), exact(self.leaf_share), lean=self.lean
        )
        plan = TreePlan(choose, BestFirst(self.max_splits), self._deepest, ends)
        grown = yield from grow(plan, schema.names, rng, root)
        return Trained(mean_of([grown.tree]), (grown,))

    def _chooser(self, grids: Grids, counts: ClassCounts, quote: Quote) -> Chooser:
        if self.split != "noisy_counts":
            return self._by_selection(grids, counts, quote)
        if self._by_feature:
            return self._by_tables(grids, counts, quote)
        return self._by_every_table(grids, counts, quote)

    @property
    def _by_feature(self) -> bool:
        return self.tables == "feature"

    def _audible(self, choose: Chooser, asked: Callable[[Node], SumQuery], quote: Quote) -> Chooser:
        return if_audible(choose, asked, quote, ask_all=self.ask_all)

    def _by_tables(self, grids: Grids, counts: ClassCounts, quote: Quote) -> Chooser:
        rules = histograms.HistogramRules(
            grids,
            counts,
            IMPURITIES[self.criterion],
            consistency=self.consistency,
            known_zeros=self.consistency,
        )
        choose = histograms.by_histogram(rules, all_features(grids.n_features), self._share)
        return self._audible(choose, self._tables(grids, counts, None), quote)

    def _by_every_table(self, grids: Grids, counts: ClassCounts, quote: Quote) -> Chooser:
        rules = OneTablePerSplit(
            grids,
            counts,
            IMPURITIES[self.criterion],
            Scoring(Score.GINI),  # nothing is chosen by it
            Mechanism.EXPONENTIAL,
            self.consistency,
        )

        def asked(node: Node) -> SumQuery:
            return rules.sides(node, rules.splitting_class, self._share(node))

        return self._audible(by_every_table(rules, self._share), asked, quote)

    def _tables(
        self, grids: Grids, counts: ClassCounts, most: int | None
    ) -> Callable[[Node], SumQuery]:
        """A node's tables of at most so many features; which ones does not change their noise."""
        by = Cells(tuple(range(grids.n_features))[:most], grids.binning)
        return lambda node: SumQuery(node.region, counts, by, self._share(node))

    def _by_selection(self, grids: Grids, counts: ClassCounts, quote: Quote) -> Chooser:
        usual = Mechanism.PERMUTE_AND_FLIP if quote.is_pure else Mechanism.EXPONENTIAL
        index_share = exact(self.index_share)
        rules = SelectionRules(
            grids,
            counts,
            IMPURITIES[self.criterion],
            Scoring(SCORES[self.criterion], self.rows_at_most),
            Mechanism(self.mechanism or usual),
            self.consistency,
            index_share,
        )
        longest = rules.splitting_class[: quote.parties]  # a pick per site

        def shortlist(node: Node) -> SumQuery:
            return rules.sides(node, longest, self._share(node) * (1 - index_share))

        by = by_choice if self.split == "choice" else by_local_choice
        return self._audible(by(rules, self._share), shortlist, quote)

    @property
    def _min_fraction(self) -> float:
        given = self.min_fraction_split
        return TARGET_ERROR / self.max_splits if given is None else given

    def _share(self, node: Node) -> Fraction:
        return (1 - exact(self.leaf_share)) * self._part(node.depth + 1)


@estimator
class TopDownTreeClassifier(PrivateClassifier, TopDown):
    """A best-first tree: DP-TopDown, Wang, Dick and Balcan 2020, Algorithm 1, made sound.

    Made sound means: everything that leaves a site is charged for all that it tells, also where
    the paper's own account forgets some of it (docs/design/methods.md).

    Examples
    --------
    >>> import hedgerow as hr
    >>> columns = (hr.Numeric("age", 0, 100), hr.Numeric("dose", 0, 10))
    >>> schema = hr.Schema(columns, classes=("no", "yes"))
    >>> X = [[20, 1], [30, 2], [70, 8], [80, 9]] * 500
    >>> y = ["no", "no", "yes", "yes"] * 500
    >>> model = hr.TopDownTreeClassifier(schema, epsilon=10.0, max_splits=4).fit(X, y)
    >>> model.predict([[25, 1], [75, 9]])
    array(['no', 'yes'], dtype='<U3')

    """


# -------------------------------------------------------------------------- the paper's methods
# A private choice tells its index only: told with the noisy maximum, as printed, k candidates would
# cost k / 2 times the claim (docs/proofs/selection.md), so the value is a fresh count, for which
# the half of a node's budget stands that the paper gives to its weight. 'root_gini' has no useful
# sensitivity, and the two methods that choose privately refuse it.
USUAL = {
    "criterion": "entropy",
    "max_splits": 512,
    "budget": "decay",
    "leaf_share": 0.5,
    "leaf_budget": "share",
    "n_bins": 11,
    "ask_all": True,
    "consistency": False,
    "delta": 0.0,
}
"""Section 4: entropy, 512 splits, budgets that halve with the depth ('even' is the other one), half
of the budget for the leaves, 10 thresholds a number, pure epsilon."""
CHOOSING = {**USUAL, "index_share": 0.5}

single_machine_rnm = preset(
    "single_machine_rnm",
    "SingleMachine RNM",
    TopDownTreeClassifier,
    words="one holder's report-noisy-max over all splits (Lemma 4).",
    fixed={"split": "choice", "mechanism": "report_noisy_max"},
    usual=CHOOSING,
)
noisy_counts = preset(
    "noisy_counts",
    "NoisyCounts",
    TopDownTreeClassifier,
    words="every entity's noisy class counts of both sides of every split (Lemma 6).",
    fixed={"split": "noisy_counts", "tables": "split"},
    usual={**USUAL, "placement": "silo"},
    rows={"NoisyCounts": "", "NoisyCounts, root-Gini": 'schema, criterion="root_gini"'},
)
local_rnm = preset(
    "local_rnm",
    "LocalRNM",
    TopDownTreeClassifier,
    words="every entity's report-noisy-max on its own rows, then counts of what they chose.",
    fixed={"split": "local_choice", "mechanism": "report_noisy_max"},
    usual={**CHOOSING, "placement": "silo"},
    rows={
        "LocalRNM": "",
        "LocalRNM, even budgets": 'schema, budget="even"',
        "LocalRNM, Gini": 'schema, criterion="gini"',
    },
)
