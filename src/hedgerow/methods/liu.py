"""Extremely randomised trees over several sites: Liu et al. 2020, Federated Extra-Trees."""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import Enum
from fractions import Fraction

import numpy as np

from hedgerow.errors import SpecError
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
from hedgerow.methods.method import Needs, Trained, mean_of
from hedgerow.models.layers import ROOT_LAYER, NodeTests
from hedgerow.models.tree import Tree
from hedgerow.models.uncertainty import NoisyTree, ScoreNoise
from hedgerow.privacy.accounting.budget import Placement
from hedgerow.privacy.bundles import MOST_INTEGERS, Size
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
from hedgerow.schema.schema import Schema


class SplitRule(Enum):
    BEST = "best"
    RANDOM = "random"


class Ranges(Enum):
    """Between what a cut may fall: the schema's bounds, or the cells that hold any row."""

    PUBLIC = "public"
    OBSERVED = "observed"


class LeanOn(Enum):
    """What a noisy leaf leans on, beside its own counts."""

    NONE = "none"
    ALL = "all"  # all leaves of its tree together
    ABOVE = "above"  # the nodes above it


@dataclass(frozen=True, kw_only=True)
class ExtraTrees:
    """All trees in lockstep: a forest of depth d takes d rounds, and one more under noise.

    | round | asked, of every tree                                      | share of the budget      |
    |-------|-----------------------------------------------------------|--------------------------|
    | 1..d  | 2 x C tables of `max_features` random tests of every node | (1 - leaf_share) / (T d) |
    | d + 1 | class counts of the leaves                                | leaf_share / T           |

    The tests of one node are charged together, nodes of a level are disjoint. With split RANDOM
    only the leaves are asked, at 1 / T. Without noise the tables already know the leaves.
    With `subsample` m a tree sees the records whose own draw for that tree falls on one of m;
    a record may be in every tree, so trees still add up.

    Departures from the paper: cuts come from the public range or, with `ranges` OBSERVED and no
    noise, from between the cells that hold rows of all sites together, never from a site's own
    range. To make up for it where nothing carries noise, `spare` tests are asked for each one
    considered, and the first `max_features` that part the node compete (see RandomSplits). A leaf
    of a noisy tree is asked once more; sums are over all sites, so no site's label counts are
    seen. Noisy leaves lean as `lean` says.
    """

    n_trees: int = 20
    max_depth: int = 20
    max_features: int | None = None
    min_samples_split: float = 2.0
    min_samples_leaf: float = 1.0
    split: SplitRule = SplitRule.BEST
    ranges: Ranges = Ranges.PUBLIC
    leaf_share: Fraction = Fraction(1, 2)
    subsample: int | None = None
    spare: int = 4
    lean: LeanOn = LeanOn.ALL

    def __post_init__(self) -> None:
        if self.split is SplitRule.RANDOM and self.ranges is Ranges.OBSERVED:
            raise SpecError(
                "ranges is 'observed' and split is 'random'; totally random trees draw from the "
                "public range. Use ranges='public', or split='best'."
            )

    @property
    def name(self) -> str:
        return "extra_trees"

    @property
    def needs(self) -> Needs:
        """'observed' tells exact counts of every cell: only where no feature is protected."""
        observed = self.ranges is Ranges.OBSERVED
        open_features = frozenset({Placement.NOWHERE, Placement.LABEL})
        return Needs(
            placements=open_features if observed else frozenset(Placement),
        )

    def asks(self, schema: Schema) -> QueryKinds:
        looks = (Cells,) if self.ranges is Ranges.OBSERVED else ()
        return sums(goal_statistic(schema), Sides, Leaves, *looks)

    def grid(self, schema: Schema) -> Schema:
        return fine_schema(schema)

    def largest(self, schema: Schema) -> Size:
        """Classes may be told in bits, two of them a class and one more."""
        scale = Scale(schema)
        channels = 2 * scale.channels + 1
        first = scale.tables(channels=channels) if self.ranges is Ranges.OBSERVED else Size()
        leaves = scale.nodes(self.max_depth)
        if self.split is SplitRule.BEST:
            for level in range(scale.deepest(self.max_depth)):
                first += self._largest_level(scale, level, channels)
        return first + scale.trees(1, leaves, channels=channels, queries=self.n_trees)

    def _largest_level(self, scale: Scale, level: int, channels: int) -> Size:
        """With as many tests of a node as are asked where nothing carries noise."""
        asked = min((self.max_features or scale.columns) * self.spare, scale.columns)
        tests = min(scale.nodes(level) * asked, MOST_ASKED_TESTS)
        tests = min(tests, MOST_INTEGERS // (2 * channels))
        return scale.sides(self.n_trees, level=level, tests=tests, channels=channels)

    def flow(self, schema: Schema, quote: Quote, rng: np.random.Generator) -> Flow[Trained]:
        goal = declared_goal(schema)
        room = yield from self._room(goal, schema)
        flows = {
            t: self._tree(t, goal, room, schema, quote, np.random.default_rng(seed))
            for t, seed in enumerate(rng.integers(0, 2**63, self.n_trees).tolist())
        }
        grown = (yield from together(flows)).values()
        noise = ScoreNoise.of([one.deviations for one in grown])
        return Trained(mean_of([one.tree for one in grown], noise))

    def _room(self, goal: Goal, schema: Schema) -> Flow[Room]:
        """Where the roots may be cut."""
        columns = DrawnColumns(schema)
        if self.ranges is Ranges.PUBLIC:
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
        region, share = self._rows_of(t), Fraction(1, self.n_trees)
        if self.split is SplitRule.RANDOM:
            tree = _random_tree(schema, self.max_depth, rng)
        else:
            rules = self._rules(goal, schema, quote)
            grown = yield from grow_layers(rules, schema, rng, region, room)
            tree, masses = assembled(grown, schema, goal.channels)
            if rules.noise == 0.0 and grown.root is not None:
                return _leaning(tree, goal, masses, 0.0)
            share *= self.leaf_share
        answer = yield from ask(SumQuery(region, goal.statistic, Leaves((tree,)), share))
        masses, noise = answer.values[0], answer.variance
        if self.lean is LeanOn.ALL:
            return _leaning(tree, goal, masses, noise)
        lean = lean_of(goal) if self.lean is LeanOn.ABOVE else None
        leaves = leaf_values(tree, masses, noise, goal, lean).values()
        values = np.array([leaf.value for leaf in leaves])
        moved = np.array([leaf.deviations for leaf in leaves])
        return NoisyTree(tree.with_values(values), moved)

    def _rules(self, goal: Goal, schema: Schema, quote: Quote) -> RandomSplits:
        n, statistic = len(schema.grids), goal.statistic
        share = (1 - self.leaf_share) / (self.n_trees * self.max_depth)
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
            max_depth=self.max_depth,
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
