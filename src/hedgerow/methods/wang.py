"""A best-first tree: DP-TopDown of Wang, Dick and Balcan 2020, with three ways to find a split."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, Literal

from hedgerow.errors import ParameterError
from hedgerow.methods.base import PrivateClassifier
from hedgerow.methods.blocks import histograms
from hedgerow.methods.blocks.builder import (
    ROOT,
    Chooser,
    Node,
    SplitChoice,
    Stop,
    TreePlan,
    grow,
)
from hedgerow.methods.blocks.flow import Flow, NoiseModel, ask, both
from hedgerow.methods.blocks.histograms import PATIENCE, above_of
from hedgerow.methods.blocks.leaves import by_leaf_budget
from hedgerow.methods.blocks.public_grids import fine_schema
from hedgerow.methods.blocks.scores import entropy, full_gini, root_gini
from hedgerow.methods.blocks.screening import FeatureScreening, refined_chooser
from hedgerow.methods.blocks.selection import (
    MechanismName,
    OneTablePerSplit,
    SelectionRules,
    by_every_table,
    by_selection,
)
from hedgerow.methods.blocks.sizes import DRAWS, QUERY, Scale
from hedgerow.methods.blocks.target import TrainingTarget
from hedgerow.methods.constants import constant
from hedgerow.methods.method import Method, Needs, Task, TrainingResult, mean_of, method
from hedgerow.methods.parameters import estimator, parameter, when
from hedgerow.methods.presets import Departure, preset
from hedgerow.models.tree import MOST_LEAVES
from hedgerow.models.validation import MOST_STEPS
from hedgerow.privacy.bundles import Size
from hedgerow.privacy.queries import (
    MOST_ROWS,
    Binning,
    Cells,
    ClassCounts,
    Count,
    Leaves,
    LocalSelection,
    Mechanism,
    QueryKinds,
    Score,
    Scoring,
    SelectQuery,
    Summed,
    SumQuery,
    Whole,
    choices,
    sums,
)
from hedgerow.schema.arrays import Rng
from hedgerow.schema.candidates import Grids, all_features
from hedgerow.schema.rules import FRACTION, Rule, a, either, exact, number, or_none, rule_of, whole
from hedgerow.schema.schema import Schema

TARGET_ERROR = constant(0.1, unit="error")
"""The paper's error; nodes lighter than it divided by max_splits are not split."""

PAPER = "Wang, Dick and Balcan 2020"
DEPARTURES = (
    Departure("weights and gains come from one answer", {"weight_query": True}),
    Departure("NoisyCounts asks one histogram per feature", {"tables": "split"}),
    Departure("nodes below the noise are not queried", {"ask_all": True}),
    Departure("tables agree with each other and with the path", {"consistency": False}),
    Departure("a leaf gets what its path did not spend", {"leaf_budget": "fraction"}),
    Departure(
        "the mechanism of a selection depends on the noise", {"mechanism": "report_noisy_max"}
    ),
    Departure("a selection has three quarters of a split's budget", {"index_fraction": 0.5}),
    Departure("leaf values are shrunk towards their ancestors", {"shrinkage": False}),
    Departure("tables are screened", {"screening": None}),
    Departure(
        "a selection releases its index only, and the value is a fresh count",
        unsound="the noisy maximum of k candidates, as published, would cost k / 2 times the claim",
    ),
    Departure(
        "scores are scaled by counts, and noise has the coefficient of monotone scores",
        unsound="noise on scores per row has the private number of rows in its scale",
    ),
    Departure(
        "children of the last split are not queried",
        unsound="nothing uses them, and they lie deeper than the budget counts",
    ),
    Departure(
        "NoisyCounts asks joint counts alone",
        reason="as in section 3; Theorem 15's marginals are their sums",
    ),
    Departure(
        "the number of all rows is the root's noisy one",
        unsound="|S| is private where neighbors differ by a record",
    ),
)
SplitMethod = Literal["choice", "noisy_counts", "local_choice"]
"""How a node finds its split (the paper's PrivateSplit)."""
Criterion = Literal["entropy", "gini", "root_gini"]
"""The paper's G, scaled to 1 for two even classes."""
BudgetName = Literal["decay", "slow", "even"]
IMPURITIES = {"entropy": entropy, "gini": full_gini, "root_gini": root_gini}
SCORES = {"entropy": Score.ENTROPY, "gini": Score.GINI}


@dataclass(frozen=True)
class Listed:
    """The values of a budget function by depth."""

    parts: tuple[Fraction, ...]

    def __call__(self, depth: int) -> Fraction:
        return self.parts[depth - 1]


def _callable(value: Any) -> Callable[[int], Any]:
    if not callable(value):
        raise TypeError
    function: Callable[[int], Any] = value
    return function


@method(
    "topdown",
    test_settings=(
        {"max_splits": 4},
        {"max_splits": 4, "screening": FeatureScreening(prior=False, bins=None), "shrinkage": True},
        {"max_splits": 3, "tables": "split", "consistency": False, "ask_all": True},
        {"max_splits": 3, "split": "choice", "rows_at_most": 1000},
        {"max_splits": 3, "split": "local_choice", "mechanism": "report_noisy_max"},
        {"max_splits": 3, "split": "local_choice", "consistency": False, "weight_query": True},
    ),
)
class TopDown(Method):
    """Best-first growth by the noisy count-scaled gain n J, at most `max_splits` splits.

    A node at depth d spends (1 - leaf_fraction) B(d); a leaf gets all that its path did not spend,
    at least `leaf_fraction`. Since sum_d B(d) <= 1 over `max_splits` depths, no path exceeds the
    budget. Differences from Algorithm 1: `DEPARTURES`. From our own tree, off by default:
    `shrinkage` of leaves towards their ancestors, and `screening` of tables;
    studies/notes/trees.md#0063. `n_bins` None takes the schema's bins.
    """

    max_splits: int = parameter(
        default=512, rule=whole(1), text="Splits of the tree, best first (M in the paper)."
    )
    split: SplitMethod = parameter(
        default="noisy_counts",
        text="How a node finds its split. 'noisy_counts': from private histograms of all features. "
        "'local_choice': among the splits that each site selected on its own rows. 'choice': by "
        "one site's private selection among all splits.",
    )
    criterion: Criterion = parameter(
        default="gini",
        text="Impurity. One record changes 'gini' by at most 2 and 'entropy' by log(rows), so "
        "private selections by 'gini' are sharper; the paper uses 'entropy'. 'root_gini' needs "
        "'noisy_counts': its sensitivity grows with the root of the number of rows, so it cannot "
        "score a selection.",
    )
    budget: BudgetName | Callable[[int], Any] = parameter(
        default="decay",
        rule=either(rule_of(BudgetName), Rule("callable", "a function of the depth", _callable)),
        text="Fraction B(d) of the splits' budget for a node at depth d = 1, 2, ...: 2^-d, 0.8^(d "
        "- 1) / 5, 1 / max_splits, or the values of a function. All depths together may have at "
        "most 1.",
    )
    leaf_fraction: float = parameter(
        default=0.5, rule=FRACTION, text="Fraction of the budget for the leaves (LPF in the paper)."
    )
    min_fraction_split: float | None = parameter(
        default=None,
        rule=or_none(number(least=0.0)),
        text="Smallest fraction of all rows that a node must hold to be split; None is 0.1 / "
        "max_splits.",
    )
    min_gain: float = parameter(
        default=0.01,
        rule=number(),
        text="A split must reduce the impurity per row by more than this.",
    )
    rows_at_most: int = parameter(
        default=MOST_ROWS,
        rule=whole(1),
        used_with=(when(criterion="entropy", split=("local_choice", "choice")),),
        text="A public guess of the number of rows: the closer from above, the sharper the "
        "selection. The guarantee holds for any guess.",
    )
    n_bins: int | None = parameter(
        default=None,
        rule=or_none(whole(2)),
        text="Uniform bins per numeric feature; None keeps the schema's own grid.",
    )
    tables: Literal["feature", "split"] = parameter(
        default="feature",
        used_with=(when(split="noisy_counts"),),
        text="What 'noisy_counts' asks: a histogram of each feature, or class counts on both sides "
        "of each 'split', as written in the paper; its noise grows with the number of splits.",
    )
    mechanism: MechanismName | None = parameter(
        default=None,
        rule=or_none(rule_of(MechanismName)),
        used_with=(when(split=("local_choice", "choice")),),
        text="The mechanism of a private selection; the paper's is 'report_noisy_max'. None is "
        "'permute_and_flip' for delta = 0, and 'exponential' for delta > 0.",
    )
    index_fraction: float = parameter(
        default=0.75,
        rule=FRACTION,
        used_with=(when(split=("local_choice", "choice")),),
        text="Fraction of a node's budget for the selection; the counts of the selected split get "
        "the rest. One half in the paper.",
    )
    ask_all: bool = parameter(
        default=False,
        text="Whether to query nodes whose noise would be larger than their rows, as in the paper.",
    )
    weight_query: bool = parameter(
        default=False,
        used_with=(when(screening=None),),
        text="Whether half of a node's budget, below the root, asks for its number of rows alone, "
        "as published. False takes it from the counts of the split.",
    )
    leaf_budget: Literal["unspent", "fraction"] = parameter(
        default="unspent",
        text="The budget of a leaf: all that its path did not spend, or 'fraction', the "
        "`leaf_fraction` alone, as published.",
    )
    consistency: bool = parameter(
        default=True,
        text="Make the tables of a node agree with each other and with the path to it.",
    )
    shrinkage: bool = parameter(
        default=False,
        text="Whether leaf values are shrunk towards their ancestors, the more the noisier they "
        "are. Post-processing, free of charge.",
    )
    screening: FeatureScreening | None = parameter(
        default=None,
        rule=or_none(a(FeatureScreening)),
        text="For 'noisy_counts': tables as in our own tree, with private bins, naive-Bayes prior, "
        "screening and noise-penalized gain, on the fine grid of numbers; "
        "hedgerow.FeatureScreening() enables all of them.",
    )

    def check(self) -> None:
        from_tables = ("noisy_counts", "gini", "feature", True)
        settings = (self.split, self.criterion, self.tables, self.consistency)
        if self.screening is not None and settings != from_tables:
            raise ParameterError(
                "screening needs split='noisy_counts', criterion='gini', tables='feature' and "
                "consistency=True: it reads noisy tables of features, which agree on their "
                "totals, and its penalty is Gini's."
            )
        if self.split != "noisy_counts" and self.criterion not in SCORES:
            raise ParameterError(
                f"criterion 'root_gini' cannot be used with split {self.split!r}: one "
                "record can move its score by 2 sqrt(n), so no useful choice is private. Use "
                "'entropy' or 'gini', or split='noisy_counts', where the score is computed from "
                "noisy tables."
            )
        shares = self._parts()
        if min(shares) <= 0 or sum(shares) > 1:
            raise ParameterError(
                f"the budget spends {float(sum(shares)):.6g} on a path of {self.max_splits} "
                "splits; every depth must have more than 0, and all of them together at most 1."
            )

    def _part(self, depth: int) -> Fraction:
        """B(d): the fraction that a node at depth d = 1, 2, ... may spend, without leaves."""
        match self.budget:
            case "decay":
                return Fraction(1, 2**depth)
            case "slow":  # slow enough that deep nodes stay above the noise
                return Fraction(1, 5) * Fraction(4, 5) ** (depth - 1)
            case "even":
                return Fraction(1, self.max_splits)
            case function:
                return exact(function(depth), f"budget({depth})")

    def _parts(self) -> tuple[Fraction, ...]:
        return tuple(self._part(depth) for depth in range(1, self.max_splits + 1))

    def _method(self, schema: Schema) -> Method:
        """The method with a budget function replaced by its values per depth, for approval."""
        base_method: Any = super()._method(schema)
        method: Method = (
            replace(base_method, budget=Listed(base_method._parts()))
            if callable(base_method.budget)
            else base_method
        )
        return method

    @property
    def needs(self) -> Needs:
        return Needs(tasks=frozenset({Task.CLASSES}), single_site=self.split == "choice")

    def asks(self, schema: Schema) -> QueryKinds:
        weights = sums(Count, Whole) if self.weight_query else frozenset()
        if self.split == "noisy_counts":
            return weights | sums(ClassCounts, Cells if self._by_feature else Leaves, Whole)
        kind = SelectQuery if self.split == "choice" else LocalSelection
        return weights | choices(kind, SCORES[self.criterion]) | sums(ClassCounts, Leaves, Whole)

    def grid(self, schema: Schema) -> Schema:
        if self.n_bins is not None:
            return schema.with_grid(bins=self.n_bins)
        return schema if self.screening is None else fine_schema(schema)

    def largest(self, schema: Schema) -> Size:
        """One step for the leaves; both children of a split are asked together.

        All paths belong to one tree: the tests above its nodes are sent once.
        """
        scale = Scale(schema)
        depth, splits = scale.deepest(self._deepest), min(self.max_splits, MOST_LEAVES - 1)
        shared_bytes = (2 * splits + 1 + DRAWS) * scale.step_bytes
        a_split = self._largest_split(scale, depth, shared_bytes)
        if self.weight_query:
            a_split += Size.of_step(2, integers=1, bytes=QUERY, shared_bytes=shared_bytes)
        leaves = Size.of_step(
            splits + 1,
            integers=scale.channels,
            bytes=QUERY,
            shared_bytes=shared_bytes,
            steps=depth + DRAWS,
            leaves=splits + 1,
        )
        return a_split * splits + leaves

    def _largest_split(self, scale: Scale, depth: int, shared_bytes: int) -> Size:
        if self.split == "noisy_counts" and self._by_feature:
            return scale.tables(2, channels=scale.channels, depth=depth)
        tests = sum(2 * grid.n_cells for grid in scale.schema.grids)
        tables = Size.of_step(
            2,
            integers=2 * tests * scale.channels,
            bytes=QUERY + tests * scale.tree_bytes(2),
            shared_bytes=shared_bytes,
        )
        if self.split == "noisy_counts":
            return tables
        return tables + Size.of_step(
            2, bytes=QUERY + tests * scale.step_bytes, shared_bytes=shared_bytes, candidates=tests
        )

    @property
    def _deepest(self) -> int:
        """The deepest path, at most as long as sites accept."""
        return min(self.max_splits, MOST_STEPS - DRAWS)

    def flow(self, schema: Schema, noise_model: NoiseModel, rng: Rng) -> Flow[TrainingResult]:
        counts = ClassCounts(len(schema.classes or ()))
        target, grids = TrainingTarget(counts), Grids(schema, Binning.of_cells(schema))
        root, min_gain = ROOT, self.min_gain
        if self.screening is None:
            choose, query_of = self._chooser(grids, counts, noise_model)
        else:
            root, choose = yield from refined_chooser(
                schema, target, self.screening, self._share, least=0.0
            )
            query_of = self._tables(grids, counts, self.screening.keep)
            min_gain *= 1 - 1 / counts.n_classes  # gini gains are not scaled to 1
        choose = if_above_noise(choose, query_of, noise_model, ask_all=self.ask_all)
        if self.weight_query:
            choose = with_weights(choose, self._share)
        least = TARGET_ERROR / self.max_splits
        least = least if self.min_fraction_split is None else self.min_fraction_split
        choose = if_worthwhile(choose, min_fraction=least, min_gain=min_gain)
        ends = by_leaf_budget(
            target,
            self.leaf_budget,
            exact(self.leaf_fraction),
            shrinkage=self.shrinkage,
        )
        plan = TreePlan(choose, self._deepest, ends, self.max_splits)
        statistics = yield from grow(plan, schema.names, rng, root)
        return TrainingResult(mean_of([statistics.tree]), (statistics,))

    def _chooser(
        self, grids: Grids, counts: ClassCounts, noise_model: NoiseModel
    ) -> tuple[Chooser, Callable[[Node], SumQuery]]:
        """How a node finds its split, and the query whose noise says whether it is asked."""
        settings = grids, counts, IMPURITIES[self.criterion]
        if self.split == "noisy_counts":
            if self._by_feature:
                rules = histograms.HistogramRules(
                    *settings, consistency=self.consistency, known_zeros=self.consistency
                )
                features = all_features(grids.n_features)
                choose = histograms.by_histogram(rules, features, self._share)
                return choose, self._tables(grids, counts, None)
            # Nothing is selected, so nothing is scored.
            every = OneTablePerSplit(
                *settings, Scoring(Score.GINI), Mechanism.EXPONENTIAL, self.consistency
            )
            return by_every_table(every, self._share), self._counts_of(every, None, Fraction(1))
        usual = Mechanism.PERMUTE_AND_FLIP if noise_model.is_pure else Mechanism.EXPONENTIAL
        scoring = Scoring(SCORES[self.criterion], self.rows_at_most)
        mechanism, index_fraction = Mechanism(self.mechanism or usual), exact(self.index_fraction)
        selecting = SelectionRules(*settings, scoring, mechanism, self.consistency, index_fraction)
        kind = SelectQuery if self.split == "choice" else LocalSelection
        shortlist = self._counts_of(selecting, noise_model.n_sites, 1 - index_fraction)
        return by_selection(selecting, self._share, kind), shortlist

    @property
    def _by_feature(self) -> bool:
        return self.tables == "feature"

    def _counts_of(
        self, rules: SelectionRules, most: int | None, part: Fraction
    ) -> Callable[[Node], SumQuery]:
        """Counts of at most so many splits: a site selects one."""
        splits = rules.splitting_class[:most]
        return lambda node: rules.sides(node, splits, self._share(node) * part)

    def _tables(
        self, grids: Grids, counts: ClassCounts, most: int | None
    ) -> Callable[[Node], SumQuery]:
        """A node's tables of at most `most` features; which ones does not change their noise."""
        by = Cells(tuple(range(grids.n_features))[:most], grids.binning)
        return lambda node: SumQuery(node.region, counts, by, self._share(node))

    def _share(self, node: Node) -> Fraction:
        """The budget of a node's split; with `weight_query` its weight costs the same again."""
        halves = 2 if self.weight_query and node.depth else 1
        return (1 - exact(self.leaf_fraction)) * self._part(node.depth + 1) / halves


# When a node is not queried, or queried and not split: by noisy numbers and public facts alone.
# These wrap a chooser. The leaf may spend what its node does not.


def if_worthwhile(choose: Chooser, *, min_fraction: float, min_gain: float) -> Chooser:
    """Keeps splits of nodes that hold `min_fraction` of all rows and gain more than `min_gain`.

    Wang, Dick and Balcan 2020, Algorithm 1 line 12 (weight at least error / M) and section 4 (J <=
    0.01 is not pushed). A node that its parent's answer clearly shows as too light is not queried.
    """

    def choose_or_stop(node: Node, rng: Rng) -> Flow[SplitChoice | Stop]:
        if is_clearly_below(node, min_fraction):
            return Stop()
        choice = yield from choose(node, rng)
        if isinstance(choice, Stop):
            return choice
        rows = _rows(choice) if choice.rows is None else choice.rows
        whole = rows_of_all(node)
        light = whole is not None and rows < min_fraction * whole
        if rows <= 0.0 or light or choice.gain <= min_gain * rows:
            return Stop(choice.spent)
        return choice

    return choose_or_stop


def with_weights(choose: Chooser, share: Callable[[Node], Fraction]) -> Chooser:
    """Algorithm 1, lines 10 to 13: a separate query gives the weight of each node below the root.

    The gain of a split is that weight times the gain per row by the node's own counts.
    """

    def choose_or_stop(node: Node, rng: Rng) -> Flow[SplitChoice | Stop]:
        if not node.depth:
            return (yield from choose(node, rng))
        fraction = share(node)
        query = SumQuery(node.region, Count(), Whole(), fraction)
        answer, choice = yield from both(ask(query), choose(node, rng))
        weight = float(answer.values[0, 0, 0])
        if isinstance(choice, Stop):
            return Stop(choice.spent + fraction)
        gain = weight * choice.gain / max(_rows(choice), 1.0)
        return replace(choice, gain=gain, spent=choice.spent + fraction, rows=weight)

    return choose_or_stop


def rows_of_all(node: Node) -> float | None:
    """The root's noisy number of rows; None at the root itself."""
    above = above_of(node)
    return above[0].rows if above else None


def _rows(choice: SplitChoice) -> float:
    """The rows of a node by the counts of its split's sides."""
    return sum(side.rows for side in choice.evidence if side is not None)


def is_clearly_below(node: Node, min_fraction: float) -> bool:
    """Whether a node is too light by more than noise can explain."""
    whole = rows_of_all(node)
    if whole is None:
        return False
    evidence = node.evidence
    assert evidence is not None  # a node below the root has evidence
    deviation = math.sqrt(evidence.variance * len(evidence.masses))
    return evidence.rows + PATIENCE * deviation < min_fraction * whole


def if_above_noise(
    choose: Chooser,
    counts: Callable[[Node], Summed],
    noise_model: NoiseModel,
    *,
    ask_all: bool = False,
) -> Chooser:
    """Queries a node only if the noise of one cell is smaller than all its rows together.

    Budgets that halve with every level make deep answers pure noise. Skipping them costs nothing
    and leaves their budget to the leaf. With `ask_all` all nodes are queried, as in the paper,
    until such wide noise cannot be drawn.
    """
    noise: dict[Fraction, float] = {}  # depends on the fraction alone, and few fractions differ

    def choose_or_stop(node: Node, rng: Rng) -> Flow[SplitChoice | Stop]:
        query = counts(node)
        if query.fraction not in noise:
            try:
                noise[query.fraction] = math.sqrt(noise_model.variance(query))
            except ParameterError:  # wider than what can be drawn exactly
                noise[query.fraction] = math.inf
        rows = math.inf if ask_all or node.evidence is None else node.evidence.rows
        if noise[query.fraction] >= rows:
            return Stop()
        return (yield from choose(node, rng))

    return choose_or_stop


@estimator
class TopDownTreeClassifier(PrivateClassifier, TopDown):
    """A best-first tree: DP-TopDown, Wang, Dick and Balcan 2020, Algorithm 1, corrected.

    Corrected means: everything that leaves a site is charged in full, including what the paper's
    own accounting omits (docs/design/methods.md).

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


WANG_DEFAULTS = {
    "criterion": "entropy",
    "max_splits": 512,
    "budget": "decay",
    "leaf_fraction": 0.5,
    "leaf_budget": "fraction",
    "n_bins": 11,
    "ask_all": True,
    "consistency": False,
    "weight_query": True,
    "delta": 0.0,
}
"""Section 4: entropy, 512 splits, budgets that halve with the depth ('even' is the other one), half
of the budget for the leaves, 10 thresholds a number, pure epsilon."""
CHOOSING = {**WANG_DEFAULTS, "index_fraction": 0.5}


def rows_needed(
    error: float,
    advantage: float,
    max_splits: int,
    epsilon: float,
    failure: float,
    n_candidates: int,
    *,
    sites: int = 1,
    noisy_counts: bool = False,
    budget: BudgetName = "even",
) -> int:
    """Rows from which Theorem 3 (several sites: Corollary 16) guarantees this training error.

    Under the weak learning assumption with this advantage, noise spoils the growth of a tree of
    `max_splits` splits with at most this probability of failure. Constants are those of the proofs:
    zeta of A.5, weights and labels of A.5 and Corollary 16, splits of Theorem 14, or with
    `noisy_counts` of Theorem 15. The bound is far from tight; most tables have fewer rows.
    """
    part = float(min(TopDown(max_splits=max_splits, budget=budget)._parts()))
    zeta = advantage**2 * error / (48.0 * max_splits * math.log2(2.0 / error))
    node = epsilon * part / 2.0
    weights = math.log(8.0 * sites * max_splits / failure) * 2.0 * sites / (zeta * node)
    labels = math.log(4.0 * sites * (max_splits + 1) / failure)
    labels *= 8.0 * sites * (max_splits + 1) / (error * epsilon)
    one_split = rows_for_split(
        zeta,
        node / 2.0,
        failure / (2.0 * (2 * max_splits + 1)),
        n_candidates,
        sites=sites,
        noisy_counts=noisy_counts,
    )
    return math.ceil(max(weights, labels, 2.0 * max_splits / error * one_split))


def rows_for_split(
    zeta: float,
    epsilon: float,
    failure: float,
    n_candidates: int,
    *,
    sites: int = 1,
    noisy_counts: bool = False,
) -> int:
    """Rows of a node from which its split is within zeta of the best: Theorem 14, or 15.

    Terms n log n are solved by Lemma 13: m >= 2 b ln b gives m >= b ln m.
    """
    if noisy_counts:
        counts = 3.0 * sites * n_candidates
        b = 5.0 * math.log(counts / failure) * 2.0 * counts / (epsilon * zeta)
    else:
        b = math.log(n_candidates / failure) * 40.0 / (epsilon * zeta)
    b /= math.log(2.0)
    return math.ceil(2.0 * b * math.log(b))


single_machine_rnm = preset(
    "single_machine_rnm",
    "SingleMachine RNM",
    TopDownTreeClassifier,
    words="one site's report-noisy-max over all splits (Lemma 4).",
    fixed_parameters={"split": "choice", "mechanism": "report_noisy_max"},
    usual=CHOOSING,
)
noisy_counts = preset(
    "noisy_counts",
    "NoisyCounts",
    TopDownTreeClassifier,
    words="every site's noisy class counts of both sides of every split (Lemma 6).",
    fixed_parameters={"split": "noisy_counts", "tables": "split"},
    usual={**WANG_DEFAULTS, "dp_model": "per_site"},
    rows={"NoisyCounts": "", "NoisyCounts, root-Gini": 'schema, criterion="root_gini"'},
)
local_rnm = preset(
    "local_rnm",
    "LocalRNM",
    TopDownTreeClassifier,
    words="every site's report-noisy-max on its own rows, then counts of the selected splits.",
    fixed_parameters={"split": "local_choice", "mechanism": "report_noisy_max"},
    usual={**CHOOSING, "dp_model": "per_site"},
    rows={
        "LocalRNM": "",
        "LocalRNM, even budgets": 'schema, budget="even"',
        "LocalRNM, Gini": 'schema, criterion="gini"',
    },
)
