"""A best-first tree: DP-TopDown of Wang, Dick and Balcan 2020, with three ways to find a split."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from fractions import Fraction

import numpy as np

from hedgerow.errors import SpecError
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
from hedgerow.methods.method import Needs, Task, Trained, mean_of
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
from hedgerow.schema.schema import Schema


class Finding(Enum):
    """How a node finds its split (the paper's PrivateSplit)."""

    CHOICE = "choice"
    NOISY_COUNTS = "noisy_counts"
    LOCAL_CHOICE = "local_choice"


class PerTable(Enum):
    """What NoisyCounts asks a table of."""

    FEATURE = "feature"  # a histogram, from which all its thresholds are read
    SPLIT = "split"  # both sides of every split, as written


class Criterion(Enum):
    """The paper's G, scaled to 1 where two classes are even."""

    ENTROPY = "entropy"
    GINI = "gini"
    ROOT_GINI = "root_gini"


IMPURITIES = {
    Criterion.ENTROPY: entropy,
    Criterion.GINI: full_gini,
    Criterion.ROOT_GINI: root_gini,
}
SCORES = {Criterion.ENTROPY: Score.ENTROPY, Criterion.GINI: Score.GINI}

TARGET_ERROR = 0.1
"""The paper's; nodes lighter than TARGET_ERROR / max_splits are not split."""

Budget = Callable[[int], Fraction]
"""B(d): what a node at depth d = 1, 2, ... may spend, of what the leaves do not keep."""


@dataclass(frozen=True)
class Geometric:
    """`first` for the root, and `ratio` times as much with every level."""

    first: Fraction
    ratio: Fraction

    def __call__(self, depth: int) -> Fraction:
        return self.first * self.ratio ** (depth - 1)


@dataclass(frozen=True)
class Listed:
    """What somebody wrote down for each depth."""

    shares: tuple[Fraction, ...]

    def __call__(self, depth: int) -> Fraction:
        return self.shares[depth - 1]


def even(max_splits: int) -> Budget:
    """The same for every depth that a tree of so many splits can have."""
    return Geometric(Fraction(1, max_splits), Fraction(1))


decay = Geometric(Fraction(1, 2), Fraction(1, 2))
slow = Geometric(Fraction(1, 5), Fraction(4, 5))
"""Falls so slowly that deep trees stay audible."""


@dataclass(frozen=True, kw_only=True)
class TopDown:
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

    max_splits: int = 512
    split: Finding = Finding.NOISY_COUNTS
    criterion: Criterion = Criterion.GINI
    budget: Budget = decay
    leaf_share: Fraction = Fraction(1, 2)
    min_fraction_split: float | None = None
    min_gain: float = 0.01
    rows_at_most: int = MOST_ROWS
    n_bins: int | None = None
    tables: PerTable = PerTable.FEATURE
    mechanism: Mechanism | None = None
    index_share: Fraction = SelectionRules.index_share
    ask_all: bool = False
    leaf_budget: LeafBudget = LeafBudget.UNSPENT
    consistency: bool = True
    lean: bool = False
    refine: Refinement | None = None

    def __post_init__(self) -> None:
        from_tables = (Finding.NOISY_COUNTS, Criterion.GINI, PerTable.FEATURE, True)
        given = (self.split, self.criterion, self.tables, self.consistency)
        if self.refine is not None and given != from_tables:
            raise SpecError(
                "refine needs split='noisy_counts', criterion='gini', tables='feature' and "
                "consistency=True: it refines noisy tables of features, which agree on their "
                "totals, and its penalty is Gini's."
            )
        if self.split is not Finding.NOISY_COUNTS and self.criterion not in SCORES:
            raise SpecError(
                f"criterion 'root_gini' cannot be used with split {self.split.value!r}: one "
                "record can move its score by 2 sqrt(n), so no useful choice is private. Use "
                "'entropy' or 'gini', or split='noisy_counts', where the score is computed from "
                "noisy tables."
            )
        shares = [self.budget(depth) for depth in range(1, self.max_splits + 1)]
        if min(shares) <= 0 or sum(shares) > 1:
            raise SpecError(
                f"the budget spends {float(sum(shares)):.6g} on a path of {self.max_splits} "
                "splits; every depth must have more than 0, and all of them together at most 1."
            )

    @property
    def name(self) -> str:
        return "topdown"

    @property
    def needs(self) -> Needs:
        return Needs(
            tasks=frozenset({Task.CLASSES}),
            one_holder=self.split is Finding.CHOICE,
        )

    def asks(self, schema: Schema) -> QueryKinds:
        if self.split is Finding.NOISY_COUNTS:
            return sums(ClassCounts, Cells if self._by_feature else Leaves, Whole)
        kind = SelectQuery if self.split is Finding.CHOICE else LocalChoice
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
        if self.split is Finding.NOISY_COUNTS and self._by_feature:
            return scale.tables(2, channels=scale.channels, depth=depth)
        tests = sum(2 * grid.n_cells for grid in scale.schema.grids)
        tables = Size.of_step(
            2,
            integers=2 * tests * scale.channels,
            bytes=QUERY + tests * scale.tree_bytes(2),
            shared=shared,
        )
        if self.split is Finding.NOISY_COUNTS:
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
        ends = by_leaf_budget(goal, self.leaf_budget, self.leaf_share, lean=self.lean)
        plan = TreePlan(choose, BestFirst(self.max_splits), self._deepest, ends)
        grown = yield from grow(plan, schema.names, rng, root)
        return Trained(mean_of([grown.tree]), (grown,))

    def _chooser(self, grids: Grids, counts: ClassCounts, quote: Quote) -> Chooser:
        if self.split is not Finding.NOISY_COUNTS:
            return self._by_selection(grids, counts, quote)
        if self._by_feature:
            return self._by_tables(grids, counts, quote)
        return self._by_every_table(grids, counts, quote)

    @property
    def _by_feature(self) -> bool:
        return self.tables is PerTable.FEATURE

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
        rules = SelectionRules(
            grids,
            counts,
            IMPURITIES[self.criterion],
            Scoring(SCORES[self.criterion], self.rows_at_most),
            self.mechanism or usual,
            self.consistency,
            self.index_share,
        )
        longest = rules.splitting_class[: quote.parties]  # a pick per site

        def shortlist(node: Node) -> SumQuery:
            return rules.sides(node, longest, self._share(node) * (1 - self.index_share))

        by = by_choice if self.split is Finding.CHOICE else by_local_choice
        return self._audible(by(rules, self._share), shortlist, quote)

    @property
    def _min_fraction(self) -> float:
        given = self.min_fraction_split
        return TARGET_ERROR / self.max_splits if given is None else given

    def _share(self, node: Node) -> Fraction:
        return (1 - self.leaf_share) * self.budget(node.depth + 1)
