"""Extremely randomised trees over several sites: Liu et al. 2020, Federated Extra-Trees."""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction
from typing import Any, Literal

import numpy as np

from hedgerow.errors import SpecError
from hedgerow.methods.base import PrivateClassifier, PrivateRegressor
from hedgerow.methods.blocks.flow import Flow, Quote, ask, together
from hedgerow.methods.blocks.goal import Goal, declared_goal, goal_statistic
from hedgerow.methods.blocks.layered import (
    MOST_ASKED_TESTS,
    DrawnColumns,
    RandomSplits,
    Room,
    assembled,
    grow_layers,
)
from hedgerow.methods.blocks.leaves import leaf_values, lean_of, leaning_on_all
from hedgerow.methods.blocks.public_grids import fine_schema
from hedgerow.methods.blocks.random_trees import random, totally_random
from hedgerow.methods.blocks.scores import gini, variance
from hedgerow.methods.blocks.sizes import Scale
from hedgerow.methods.method import Method, Needs, Recipe, Trained, mean_of, method
from hedgerow.methods.parameters import checked, estimator, parameter, when
from hedgerow.methods.presets import preset
from hedgerow.models.layers import ROOT_LAYER, NodeTests
from hedgerow.models.tree import Tree
from hedgerow.models.uncertainty import NoisyTree, ScoreNoise
from hedgerow.privacy.accounting.budget import Placement
from hedgerow.privacy.bundles import MOST_INTEGERS, Size
from hedgerow.privacy.mechanisms.response import BloomReports
from hedgerow.privacy.queries import (
    Binning,
    Cells,
    Leaves,
    QueryKinds,
    Sides,
    Statistic,
    SumQuery,
    sums,
)
from hedgerow.schema.arrays import FloatArray
from hedgerow.schema.candidates import Grids
from hedgerow.schema.regions import EVERYONE, Fold, Region, Step
from hedgerow.schema.rules import FLAG, SHARE, a, either, exact, number, one_of, or_none, whole
from hedgerow.schema.schema import Schema

PAPER = "Liu et al. 2020"
USUAL = {"n_trees": 20, "max_depth": 20}
"""The paper's numbers."""
NOISY = {"n_trees": 5, "max_depth": 6}
"""Where every sum carries noise and every level of every tree has a part of the budget."""
OPEN_FEATURES = frozenset({Placement.NOWHERE, Placement.LABEL})
"""Where sums carry no noise, and features no protection."""
LOOKING = (when(split="best"),)
"""Totally random trees look at nothing but their leaves."""


@method(
    "extra_trees",
    tried=(
        {"n_trees": 3, "max_depth": 4, "max_features": 2},
        {"n_trees": 2, "max_depth": 2, "subsample": 2},
        {"n_trees": 2, "max_depth": 3, "split": "random"},
        {"n_trees": 2, "max_depth": 3, "lean": True},
    ),
)
class ExtraTrees(Method):
    """All trees in lockstep: a forest of depth d takes d rounds, and one more under noise.

    | round | asked, of every tree                                      | share of the budget      |
    |-------|-----------------------------------------------------------|--------------------------|
    | 1..d  | 2 x C tables of `max_features` random tests of every node | (1 - leaf_share) / (T d) |
    | d + 1 | class counts of the leaves                                | leaf_share / T           |

    The tests of one node are charged together, nodes of a level are disjoint. With split 'random'
    only the leaves are asked, at 1 / T. Without noise the tables already know the leaves.
    With `subsample` m a tree sees the records whose own draw for that tree falls on one of m;
    a record may be in every tree, so trees still add up.

    Departures from the paper: cuts come from the public range or, with `ranges` 'observed' and no
    noise, from between the cells that hold rows of all sites together, never from a site's own
    range. To make up for it where nothing carries noise, `spare` tests are asked for each one
    considered, and the first `max_features` that part the node compete (see RandomSplits). A leaf
    of a noisy tree is asked once more; sums are over all sites, so no site's label counts are
    seen. Noisy leaves lean as `lean` says.
    """

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
    split: Literal["best", "random"] = parameter(
        default="best",
        text="How a node finds its split. 'best': the best of `max_features` random tests. "
        "'random': without looking, so that everything is spent on the leaves.",
    )
    ranges: Literal["public", "observed"] = parameter(
        default="public",
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
    lean: bool | Literal["all"] = parameter(
        default="all",
        rule=either(one_of({"all": "all"}), FLAG),
        text="What a noisy leaf leans on, the more the noisier it is. 'all': all leaves of its "
        "tree together. True: the nodes above it. False: nothing. Free of charge.",
    )

    def check(self) -> None:
        if self.split == "random" and self.ranges == "observed":
            raise SpecError(
                "ranges is 'observed' and split is 'random'; totally random trees draw from the "
                "public range. Use ranges='public', or split='best'."
            )

    def _recipe(self, schema: Schema) -> Recipe:
        """None becomes the number that suits the placement."""
        made: Any = super()._recipe(schema)
        usual = USUAL if checked(self).placement in OPEN_FEATURES else NOISY
        absent = {name: n for name, n in usual.items() if getattr(made, name) is None}
        recipe: Recipe = replace(made, **absent)
        return recipe

    @property
    def _size(self) -> tuple[int, int]:
        """Trees and their levels."""
        return self.n_trees or USUAL["n_trees"], self.max_depth or USUAL["max_depth"]

    @property
    def needs(self) -> Needs:
        """'observed' tells exact counts of every cell: only where no feature is protected."""
        observed = self.ranges == "observed"
        return Needs(placements=OPEN_FEATURES if observed else frozenset(Placement))

    def asks(self, schema: Schema) -> QueryKinds:
        looks = (Cells,) if self.ranges == "observed" else ()
        return sums(goal_statistic(schema), Sides, Leaves, *looks)

    def grid(self, schema: Schema) -> Schema:
        return fine_schema(schema)

    def largest(self, schema: Schema) -> Size:
        """Classes may be told in bits, two of them a class and one more."""
        scale, (trees, depth) = Scale(schema), self._size
        channels = 2 * scale.channels + 1
        first = scale.tables(channels=channels) if self.ranges == "observed" else Size()
        leaves = scale.nodes(depth)
        if self.split == "best":
            for level in range(scale.deepest(depth)):
                first += self._largest_level(scale, level, channels)
        return first + scale.trees(1, leaves, channels=channels, queries=trees)

    def _largest_level(self, scale: Scale, level: int, channels: int) -> Size:
        """With as many tests of a node as are asked where nothing carries noise."""
        asked = min((self.max_features or scale.columns) * self.spare, scale.columns)
        tests = min(scale.nodes(level) * asked, MOST_ASKED_TESTS)
        tests = min(tests, MOST_INTEGERS // (2 * channels))
        return scale.sides(self._size[0], level=level, tests=tests, channels=channels)

    def flow(self, schema: Schema, quote: Quote, rng: np.random.Generator) -> Flow[Trained]:
        goal = declared_goal(schema)
        room = yield from self._room(goal, schema)
        flows = {
            t: self._tree(t, goal, room, schema, quote, np.random.default_rng(seed))
            for t, seed in enumerate(rng.integers(0, 2**63, self._size[0]).tolist())
        }
        grown = (yield from together(flows)).values()
        noise = ScoreNoise.of([one.deviations for one in grown])
        return Trained(mean_of([one.tree for one in grown], noise))

    def _room(self, goal: Goal, schema: Schema) -> Flow[Room]:
        """Where the roots may be cut."""
        columns = DrawnColumns(schema)
        if self.ranges == "public":
            return Room.at_the_root(columns)
        by = Cells(tuple(range(len(schema.grids))), Binning.of_cells(schema))
        answer = yield from ask(SumQuery(EVERYONE, goal.statistic, by, Fraction(1)))
        return Room.holding(columns, answer.values.sum(axis=2) > 0.0)

    def _tree(
        self,
        t: int,
        goal: Goal,
        room: Room,
        schema: Schema,
        quote: Quote,
        rng: np.random.Generator,
    ) -> Flow[NoisyTree]:
        trees, depth = self._size
        region, share = self._rows_of(t), Fraction(1, trees)
        if self.split == "random":
            tree = _random_tree(schema, depth, rng)
        else:
            rules = self._rules(goal, schema, quote)
            grown = yield from grow_layers(rules, schema, rng, region, room)
            tree, masses = assembled(grown, schema, goal.channels)
            if rules.noise == 0.0 and grown.root is not None:
                return _leaning(tree, goal, masses, 0.0)
            share *= exact(self.leaf_share)
        answer = yield from ask(SumQuery(region, goal.statistic, Leaves((tree,)), share))
        masses, noise = answer.values[0], answer.variance
        if self.lean == "all":
            return _leaning(tree, goal, masses, noise)
        lean = lean_of(goal) if self.lean else None
        leaves = leaf_values(tree, masses, noise, goal, lean).values()
        values = np.array([leaf.value for leaf in leaves])
        moved = np.array([leaf.deviations for leaf in leaves])
        return NoisyTree(tree.with_values(values), moved)

    def _rules(self, goal: Goal, schema: Schema, quote: Quote) -> RandomSplits:
        n, statistic, (trees, depth) = len(schema.grids), goal.statistic, self._size
        share = (1 - exact(self.leaf_share)) / (trees * depth)
        is_exact = _noise(statistic, 1, share, quote) == 0.0
        root = max(2, math.isqrt(n))  # one alone would be no choice
        considered = min(self.max_features or (n if goal.shape and is_exact else root), n)
        noise = _noise(statistic, considered, share, quote)
        spare = self.spare if noise == 0.0 else 1
        return RandomSplits(
            statistic=statistic,
            impurity=variance if goal.shape else gini,
            considered=considered,
            asked=min(considered * spare, n),
            max_depth=depth,
            min_samples_split=self.min_samples_split,
            min_samples_leaf=self.min_samples_leaf,
            level_share=share,
            noise=noise,
        )

    def _rows_of(self, t: int) -> Region:
        if self.subsample is None:
            return EVERYONE
        return (Step(Fold(f"tree {t}", self.subsample), 0),)


def _leaning(tree: Tree, goal: Goal, masses: FloatArray, noise: float) -> NoisyTree:
    p, moved = leaning_on_all(masses, noise)
    return NoisyTree(tree.with_values(goal.value(p)), goal.deviations(moved))


def _noise(statistic: Statistic, m: int, share: Fraction, quote: Quote) -> float:
    """Variance that m tests a node will meet; the table of the root stands for all of them."""
    cuts = NodeTests(np.zeros((1, m), np.int16), np.zeros((1, m, 4), np.uint64))
    return quote.variance(SumQuery(EVERYONE, statistic, Sides(ROOT_LAYER, cuts), share))


def _random_tree(schema: Schema, depth: int, rng: np.random.Generator) -> Tree:
    grids, n = Grids(schema, Binning.of_cells(schema)), len(schema.grids)
    return totally_random(grids, random(n, n), depth)(0, rng)


@estimator
class ExtraTreesClassifier(PrivateClassifier, ExtraTrees):
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
class ExtraTreesRegressor(PrivateRegressor, ExtraTrees):
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


# -------------------------------------------------------------------------- the paper's methods
# Cuts are drawn between the public bounds of a feature, never between a client's own extremes,
# which would tell them; `spare` tests make up for it.
fet = preset(
    "fet",
    "FET",
    ExtraTreesClassifier,
    ExtraTreesRegressor,
    words="exact sums over all clients, no promise; a number where the schema has a target.",
    fixed={"split": "best", "placement": "nowhere"},
    usual=USUAL,
    rows={"FET": "", "FET, regression": "numbers"},
)
fet_ldp = preset(
    "fet_ldp",
    "FET-LDP",
    ExtraTreesClassifier,
    words="labels told once and for all as noisy bits of a Bloom filter; features are open.",
    fixed={"split": "best", "placement": "label"},
    usual={**USUAL, "label_mechanism": "bloom"},
)
fet_gdp = preset(
    "fet_gdp",
    "FET-GDP",
    ExtraTreesClassifier,
    words="every client adds Laplace noise to each of its sums, and all of them are counted.",
    fixed={"split": "best", "placement": "silo"},
    usual={**USUAL, "delta": 0.0, "lean": False},
)
