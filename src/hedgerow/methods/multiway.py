"""Forests with a branch for every bin: DP-RF and DP-DF, baselines of Consul and Williamson 2020.

Numbers are divided into a few bins. A node chooses a feature by the exponential mechanism and has
one child for each of its bins; a feature is used once per path. A node with k children is
represented by k - 1 binary tests. Each of T trees has 1 / T of the budget and uses all rows. Leaves
hold proportions, which the forest averages.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from fractions import Fraction
from functools import cached_property

import numpy as np

from hedgerow.methods.base import PrivateClassifier, PrivateRegressor
from hedgerow.methods.blocks.flow import Flow, NoiseModel, ask, selection, together
from hedgerow.methods.blocks.leaves import plain_proportions
from hedgerow.methods.blocks.public_grids import fine_schema, thin_cells
from hedgerow.methods.blocks.scores import gini
from hedgerow.methods.blocks.sizes import Scale
from hedgerow.methods.blocks.target import TrainingTarget, declared_target, target_statistic
from hedgerow.methods.constants import constant
from hedgerow.methods.method import Method, Needs, Task, TrainingResult, mean_of, method
from hedgerow.methods.parameters import check_parameters, estimator, parameter, when
from hedgerow.models.tree import MOST_LEAVES, Tree
from hedgerow.models.uncertainty import LeafStatistics
from hedgerow.privacy.bundles import Size
from hedgerow.privacy.queries import (
    ClassCounts,
    Leaves,
    Mechanism,
    MultiwaySplit,
    QueryKinds,
    Score,
    Scoring,
    SelectQuery,
    SumQuery,
    choices,
    sums,
)
from hedgerow.schema.arrays import FloatArray, Rng
from hedgerow.schema.candidates import Grids
from hedgerow.schema.regions import EVERYONE, Region
from hedgerow.schema.rules import number, whole
from hedgerow.schema.schema import Schema

KARY_BINS = constant(5, unit="bins")
"""Bins of equal width of a numeric feature, as in the paper's experiments."""
NEVER_PRUNED = constant(2, unit="levels at the top of a tree that pruning leaves alone")


@dataclass(kw_only=True, eq=True, unsafe_hash=True)
class MultiwayForest(Method):
    """Common base of both forests."""

    n_estimators: int = parameter(
        default=10,
        rule=whole(1),
        text="Trees; each uses all rows and is charged a part of the budget.",
    )
    max_depth: int = parameter(
        default=3,
        rule=whole(1),
        text="Levels of branches; a feature is used once per path. Each level multiplies the nodes "
        "by the bins of a feature.",
    )
    n_bins: int = parameter(
        default=KARY_BINS,
        rule=whole(2),
        text="Bins of equal width of a numeric feature: a node has a branch for each.",
    )

    def grid(self, schema: Schema) -> Schema:
        return fine_schema(schema)

    def _children(self, schema: Schema) -> tuple[int, ...]:
        """The largest number of children of a node, per column."""
        return tuple(max(n - 1, 1) for n in thin_cells(schema, self.n_bins).n_bins)

    def _level_nodes(self, scale: Scale, level: int) -> int:
        """The largest number of nodes on a level of one tree."""
        return min(scale.widest(level, self._children(scale.schema)), MOST_LEAVES)

    def _choosing(self, scale: Scale, nodes: int, level: int, columns: int) -> Size:
        """Selections among `columns` columns at the nodes of a level, as multiway splits."""
        widest = max(self._children(scale.schema))
        return scale.choices(
            nodes, runs=columns * widest, candidates=columns, depth=level * (widest - 1)
        )


@method("kary_forest", test_settings=({"n_estimators": 2, "max_depth": 2, "max_features": 2},))
class MultiwayForestMethod(MultiwayForest):
    """DP-RF: Patil and Singh 2014, after Friedman and Schuster 2010; for classes and regression.

    Half of a tree's budget is for its selections, half for its leaves. A node chooses among K
    random features by the Gini index, or by squared errors. Differences:
    `hedgerow.methods.consul.DEPARTURES`; counts of inner nodes are not asked.
    """

    max_features: int = parameter(
        default=5,
        rule=whole(1),
        text="Features that a node considers, drawn anew for each (K in the paper).",
    )

    @property
    def needs(self) -> Needs:
        return Needs(single_site=True)

    def asks(self, schema: Schema) -> QueryKinds:
        return choices(SelectQuery, score_of(schema)) | sums(target_statistic(schema), Leaves)

    def largest(self, schema: Schema) -> Size:
        scale, size = Scale(schema), Size()
        columns = min(self.max_features, scale.columns)
        for level in range(min(self.max_depth, scale.columns)):
            nodes = self.n_estimators * self._level_nodes(scale, level)
            size += self._choosing(scale, nodes, level, columns)
        leaves = scale.widest(self.max_depth, self._children(schema))
        return size + scale.trees(1, leaves, channels=scale.channels, queries=self.n_estimators)

    def flow(self, schema: Schema, noise_model: NoiseModel, rng: Rng) -> Flow[TrainingResult]:
        target, half = declared_target(schema), Fraction(1, 2 * self.n_estimators)
        scoring = Scoring(score_of(schema))
        parting = Parting(schema, scoring, half / self.max_depth, self.n_bins)

        def tree(draws: Rng) -> Flow[LeafStatistics]:
            level, ends = [parting.root], list[Region]()
            for _ in range(self.max_depth):
                asking = {}
                for branch in level:  # each draws the features that it considers
                    order = draws.permutation(np.asarray(branch.features, np.int64)).tolist()
                    features = tuple(sorted(order[: self.max_features]))
                    asking[branch] = parting.below(branch, features)
                children_of = yield from together(asking)
                ends += [b.region for b, children in children_of.items() if not children]
                level = [child for children in children_of.values() for child in children]
            regions = [*ends, *(b.region for b in level)]
            masses, variance = yield from _sums(schema, target, regions, half)
            return _tree_statistics(schema, target, masses, variance)

        seeds = rng.integers(2**63, size=self.n_estimators)
        flows = {number: tree(np.random.default_rng(seed)) for number, seed in enumerate(seeds)}
        return (yield from _forest(flows))


@method(
    "pruned_kary_forest",
    test_settings=({"n_estimators": 2, "max_depth": 2, "min_samples_split": 5.0},),
)
class PrunedMultiwayForest(MultiwayForest):
    """DP-DF: Fletcher and Islam 2015; for classes.

    Noisy class counts of every level, and the selections of every level but the last, have equal
    parts of a tree's budget. A node considers all features; the trees have different root features
    while there are any left. A node with fewer than `min_samples_split` noisy rows stays a leaf.
    Children that together are no purer than their parent, by noisy counts, are pruned. Scores are
    scaled by counts: the Gini index has no bound at a private number of rows.
    """

    min_samples_split: float = parameter(
        default=25.0, rule=number(above=0.0), text="A node with fewer noisy rows stays a leaf."
    )

    @property
    def needs(self) -> Needs:
        return Needs(tasks=frozenset({Task.CLASSES}), single_site=True)

    def asks(self, schema: Schema) -> QueryKinds:
        return sums(ClassCounts, Leaves) | choices(SelectQuery, Score.GINI)

    def largest(self, schema: Schema) -> Size:
        """One round for each tree's root, then counts and selections of every level in turn."""
        scale = Scale(schema)
        roots = self._choosing(scale, 1, 0, scale.columns) * self.n_estimators
        counts = scale.trees(1, MOST_LEAVES, channels=scale.channels, queries=self.n_estimators)
        size = roots + counts * (self.max_depth + 1)
        for level in range(1, self.max_depth):
            nodes = self.n_estimators * self._level_nodes(scale, level)
            size += self._choosing(scale, nodes, level, scale.columns)
        return size

    def flow(self, schema: Schema, noise_model: NoiseModel, rng: Rng) -> Flow[TrainingResult]:
        target = declared_target(schema)
        fraction = Fraction(1, self.n_estimators * (2 * self.max_depth + 1))
        parting = Parting(schema, Scoring(Score.GINI), fraction, self.n_bins)
        roots = yield from self._roots(parting)
        trees = (self._tree(schema, target, parting, root, fraction) for root in roots)
        return (yield from _forest(dict(enumerate(trees))))

    def _roots(self, parting: Parting) -> Flow[list[list[Branch]]]:
        """The children of each tree's root."""
        roots, free_features = list[list[Branch]](), parting.root.features
        for _ in range(self.n_estimators):
            children = yield from parting.below(parting.root, free_features)
            root_features = set(free_features) - set(children[0].features)
            left = tuple(f for f in free_features if f not in root_features)
            free_features = left or parting.root.features
            roots.append(children)
        return roots

    def _tree(
        self,
        schema: Schema,
        target: TrainingTarget,
        parting: Parting,
        first: list[Branch],
        fraction: Fraction,
    ) -> Flow[LeafStatistics]:
        leaf_masses, variance = yield from _sums(schema, target, [EVERYONE], fraction)
        level, ends, families = first, list[Region](), {parting.root: first}
        for depth in range(1, self.max_depth + 1):
            regions = [*ends, *(b.region for b in level)]
            masses, variance = yield from _sums(schema, target, regions, fraction)
            leaf_masses |= {b.region: masses[b.region] for b in level}
            large = [b for b in level if leaf_masses[b.region].sum() >= self.min_samples_split]
            most = (MOST_LEAVES - len(regions)) // parting.widest
            able = large[:most] if depth < self.max_depth else []  # the leaves are limited
            asking = {b: parting.below(b, b.features) for b in able}
            children_of = yield from together(asking)
            families |= {b: children for b, children in children_of.items() if children}
            ends += [b.region for b in level if b not in families]
            level = [child for children in children_of.values() for child in children]
        return _tree_statistics(schema, target, _prune(leaf_masses, families), variance)


def _prune(
    masses: dict[Region, FloatArray], families: dict[Branch, list[Branch]]
) -> dict[Region, FloatArray]:
    """Prunes from the deepest parents up; returns noisy counts of the remaining leaves."""
    remaining_families = dict(families)
    for parent, children in reversed(families.items()):
        impurity = sum(float(gini(masses[c.region])) for c in children)
        if (
            parent.level >= NEVER_PRUNED
            and not any(c in remaining_families for c in children)
            and impurity >= gini(masses[parent.region])
        ):
            del remaining_families[parent]
    nodes = (c for children in remaining_families.values() for c in children)
    return {c.region: masses[c.region] for c in nodes if c not in remaining_families}


@dataclass(frozen=True)
class Branch:
    """A node of a k-ary tree, with the features not yet used on its path."""

    region: Region
    features: tuple[int, ...]
    level: int = 0


@dataclass(frozen=True)
class Parting:
    """Multiway splits: a node selects a feature and gets a child for each of its bins."""

    schema: Schema
    scoring: Scoring
    fraction: Fraction
    n_bins: int = KARY_BINS

    @cached_property
    def grids(self) -> Grids:
        return Grids(self.schema, thin_cells(self.schema, self.n_bins))

    @cached_property
    def root(self) -> Branch:
        return Branch(EVERYONE, self.grids.active)

    @cached_property
    def widest(self) -> int:
        """The largest number of children of a node."""
        return max(self.grids.binning.n_bins)

    @cached_property
    def chains(self) -> dict[int, MultiwaySplit]:
        """A test for each bin of a feature but the last, which also holds `missing`."""
        chains = {}
        for f in self.root.features:
            alone = np.eye(n := self.grids.binning.n_bins[f], dtype=bool)[: n - 2]
            chains[f] = MultiwaySplit(tuple(self.grids.split(f, row) for row in alone))
        return chains

    def below(self, branch: Branch, features: Sequence[int]) -> Flow[list[Branch]]:
        """The children of a node by the feature it selects; none if there is no feature left."""
        if not features:
            return []
        chains = tuple(self.chains[f] for f in features)
        (k,) = yield from selection(
            SelectQuery(branch.region, chains, self.scoring, self.fraction, Mechanism.EXPONENTIAL)
        )
        left = tuple(f for f in branch.features if f != features[k])
        return [Branch(r, left, branch.level + 1) for r in chains[k].children(branch.region)]


def _sums(
    schema: Schema, target: TrainingTarget, regions: Sequence[Region], fraction: Fraction
) -> Flow[tuple[dict[Region, FloatArray], float]]:
    """Noisy sums of all leaves of one tree, and their variance."""
    tree = Tree.build(schema.names, {region: () for region in regions})
    answer = yield from ask(SumQuery(EVERYONE, target.statistic, Leaves((tree,)), fraction))
    return dict(zip(tree.regions(), answer.values[0], strict=True)), answer.variance


def _tree_statistics(
    schema: Schema, target: TrainingTarget, masses: dict[Region, FloatArray], variance: float
) -> LeafStatistics:
    leaves = {r: target.leaf(plain_proportions(m), m, variance) for r, m in masses.items()}
    tree = Tree.build(schema.names, {r: leaf.value.tolist() for r, leaf in leaves.items()})
    return LeafStatistics(tree, tuple(leaves[region] for region in tree.regions()))


def _forest(trees: Mapping[int, Flow[LeafStatistics]]) -> Flow[TrainingResult]:
    statistics = tuple((yield from together(trees)).values())
    return TrainingResult(mean_of([part.tree for part in statistics]), statistics)


def score_of(schema: Schema) -> Score:
    return Score.GINI if schema.target is None else Score.SQUARED_ERROR


@estimator
class MultiwayForestClassifier(PrivateClassifier, MultiwayForestMethod):
    """A branch for every bin: DP-RF, Patil and Singh 2014, and pruned DP-DF, Fletcher and Islam.

    The baselines of Consul and Williamson 2020, corrected. Nodes choose features by exact scores,
    so one site must have all rows.

    Examples
    --------
    >>> import hedgerow as hr
    >>> columns = (hr.Numeric("age", 0, 100), hr.Numeric("dose", 0, 10))
    >>> schema = hr.Schema(columns, classes=("no", "yes"))
    >>> X = [[20, 1], [30, 2], [70, 8], [80, 9]] * 500
    >>> y = ["no", "no", "yes", "yes"] * 500
    >>> model = hr.MultiwayForestClassifier(schema, epsilon=10.0, max_depth=1).fit(X, y)
    >>> model.predict([[25, 1], [75, 9]])
    array(['no', 'yes'], dtype='<U3')

    """

    max_features: int = parameter(
        default=5,
        rule=whole(1),
        used_with=(when(prune=False),),
        text="Features that a node considers, drawn anew for each (K in the paper).",
    )
    prune: bool = parameter(
        default=False,
        text="DP-DF: nodes consider all features, trees have different roots, noisy counts of "
        "every level are asked, and children no purer than their parent are pruned.",
    )
    min_samples_split: float = parameter(
        default=25.0,
        rule=number(above=0.0),
        used_with=(when(prune=True),),
        text="A node with fewer noisy rows stays a leaf.",
    )

    def _method(self, schema: Schema) -> Method:
        if not self.prune:
            return super()._method(schema)
        parameters = vars(check_parameters(self))
        return PrunedMultiwayForest(
            **{f.name: parameters[f.name] for f in fields(PrunedMultiwayForest)}
        )


@estimator
class MultiwayForestRegressor(PrivateRegressor, MultiwayForestMethod):
    """The regression analogue of DP-RF (Consul and Williamson 2020, section 4).

    Examples
    --------
    >>> import hedgerow as hr
    >>> columns = (hr.Numeric("age", 0, 100), hr.Numeric("dose", 0, 10))
    >>> schema = hr.Schema(columns, target=hr.Target(0, 100))
    >>> X = [[20, 1], [30, 2], [70, 8], [80, 9]] * 500
    >>> y = [10, 20, 80, 90] * 500
    >>> model = hr.MultiwayForestRegressor(schema, epsilon=10.0, max_depth=1).fit(X, y)
    >>> low, high = model.predict([[25, 1], [75, 9]])
    >>> bool(low < high)
    True

    """
