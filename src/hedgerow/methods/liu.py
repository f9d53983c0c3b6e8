"""Extremely randomized trees over several sites: Liu et al. 2020, Federated Extra-Trees."""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction
from typing import Any, Literal

import numpy as np

from hedgerow.errors import ParameterError
from hedgerow.methods.base import PrivateClassifier, PrivateRegressor
from hedgerow.methods.blocks.flow import Flow, NoiseModel, ask, together
from hedgerow.methods.blocks.layered import (
    MOST_ASKED_TESTS,
    DrawnColumns,
    RandomSplits,
    Room,
    assemble_tree,
    grow_layers,
)
from hedgerow.methods.blocks.leaves import leaf_values, shrink_to_all, shrinkage_of
from hedgerow.methods.blocks.public_grids import fine_schema
from hedgerow.methods.blocks.random_trees import random, totally_random
from hedgerow.methods.blocks.scores import gini, variance
from hedgerow.methods.blocks.sizes import Scale
from hedgerow.methods.blocks.target import TrainingTarget, declared_target, target_statistic
from hedgerow.methods.method import Method, Needs, TrainingResult, Values, mean_of, method
from hedgerow.methods.parameters import check_parameters, estimator, parameter, when
from hedgerow.methods.presets import Departure, preset
from hedgerow.models.layers import ROOT_LAYER, NodeTests
from hedgerow.models.tree import Tree
from hedgerow.models.uncertainty import NoisyTree, ScoreNoise
from hedgerow.privacy.accounting.budget import DPModel
from hedgerow.privacy.bundles import MOST_INTEGERS, Size
from hedgerow.privacy.mechanisms.response import BloomRandomizedResponse
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
from hedgerow.schema.arrays import FloatArray, Rng
from hedgerow.schema.candidates import Grids
from hedgerow.schema.regions import EVERYONE, Fold, Step
from hedgerow.schema.rules import FLAG, FRACTION, a, either, exact, number, one_of, or_none, whole
from hedgerow.schema.schema import Schema

PAPER = "Liu et al. 2020"
DEPARTURES = (
    Departure("the tables of a node agree on its total", {"consistency": False}),
    Departure("noisy leaf values are shrunk", {"shrinkage": False}),
    Departure(
        "cuts come from the public range, never from a site's own; without noise, `spare` tests "
        "make up for it",
        unsound="the smallest and the largest value of a site are values of two records",
    ),
    Departure(
        "a leaf of a noisy tree is asked again, with its own part of the budget",
        reason="the paper does not give the budget of a leaf's label",
    ),
    Departure(
        "sums are over all sites, so no site's label counts are visible",
        reason="the secure sum reveals less; its numbers are the same",
    ),
    Departure(
        "each of T trees of d levels is charged 1 / (T d) of the budget of the splits; the paper "
        "has one epsilon for every sum",
        published_as=("fet_gdp_as_published",),
    ),
)
LIU_DEFAULTS = {"n_estimators": 20, "max_depth": 20}
"""The paper's numbers."""
NOISY = {"n_estimators": 5, "max_depth": 6}
"""Used where every sum carries noise and every level of every tree has a part of the budget."""
OPEN_FEATURES = frozenset({DPModel.NONE, DPModel.LABEL})
"""DP models in which sums carry no noise and features have no protection."""
BEST_SPLIT = (when(split="best"),)
"""Totally random trees ask for their leaves only."""
UNDER_NOISE = tuple(when(split="best", dp_model=m) for m in ("distributed", "per_site", "central"))


@method(
    "extra_trees",
    test_settings=(
        {"n_estimators": 3, "max_depth": 4, "max_features": 2},
        {"n_estimators": 2, "max_depth": 2, "subsample": 2},
        {"n_estimators": 2, "max_depth": 3, "split": "random"},
        {"n_estimators": 2, "max_depth": 3, "shrinkage": True},
    ),
)
class ExtraTrees(Method):
    """All trees in lockstep: a forest of depth d takes d rounds, and one more under noise.

    | round | asked, of every tree                               | fraction of the budget      |
    |-------|----------------------------------------------------|-----------------------------|
    | 1..d  | 2 x C tables of `max_features` tests of every node | (1 - leaf_fraction) / (T d) |
    | d + 1 | class counts of the leaves                         | leaf_fraction / T, or more  |

    The tests of one node are charged together; the nodes of a level are disjoint. With split
    'random' only the leaves are asked, at 1 / T. Without noise the tables already contain the
    leaves. With `subsample` m a tree uses the records whose own draw for that tree is one in m; a
    record may be in every tree, so trees still add up.

    Cuts come from the public range or, with `ranges` 'observed' and no noise, from between the
    occupied cells of all sites together. Without noise, `spare` tests are asked for each one
    considered, and the first `max_features` that divide the node compete (see `RandomSplits`).
    Differences from the paper: `DEPARTURES`.
    """

    n_estimators: int | None = parameter(
        default=None,
        rule=or_none(whole(1)),
        text="Trees; each is charged a part of the budget. None is the paper's 20 if sums carry no "
        "noise ('none' and 'label'), and 5 otherwise.",
    )
    max_depth: int | None = parameter(
        default=None,
        rule=or_none(whole(1)),
        text="Levels of splits; each is charged a part of the budget. None is the paper's 20 if "
        "sums carry no noise ('none' and 'label'), and 6 otherwise.",
    )
    max_features: int | None = parameter(
        default=None,
        rule=or_none(whole(1)),
        used_with=BEST_SPLIT,
        text="Random tests that compete at a node; None is the square root of the number of "
        "features, at least 2, and all features for regression if sums carry no noise.",
    )
    min_samples_split: float = parameter(
        default=2.0,
        rule=number(above=0.0),
        used_with=BEST_SPLIT,
        text="A node with fewer noisy rows stays a leaf.",
    )
    min_samples_leaf: float = parameter(
        default=1.0,
        rule=number(above=0.0),
        used_with=BEST_SPLIT,
        text="A split needs at least this many noisy rows on each side.",
    )
    split: Literal["best", "random"] = parameter(
        default="best",
        text="How a node finds its split. 'best': the best of `max_features` random tests. "
        "'random': a random test, so that the whole budget is for the leaves.",
    )
    ranges: Literal["public", "observed"] = parameter(
        default="public",
        used_with=BEST_SPLIT,
        text="Cuts are drawn within the schema's bounds, or between the lowest and the highest "
        "occupied cell. 'observed' reveals the exact number of rows in every cell of every "
        "feature; only DP models that protect no feature ('none', 'label') allow it.",
    )
    leaf_fraction: float = parameter(
        default=0.5,
        rule=FRACTION,
        used_with=BEST_SPLIT,
        text="Fraction of the budget for the leaves, if sums carry noise.",
    )
    subsample: int | None = parameter(
        default=None,
        rule=or_none(whole(2)),
        text="Each tree uses one record in this many, drawn by each record for each tree; None: "
        "all.",
    )
    spare: int = parameter(
        default=4,
        rule=whole(1),
        used_with=(when(split="best", dp_model="none"), when(split="best", dp_model="label")),
        text="Random tests asked for each one that competes; tests with an empty side drop out. "
        "Used only where that is free; the default was measured, 1 asks for no more than "
        "`max_features`.",
    )
    budget_saving: bool = parameter(
        default=True,
        used_with=UNDER_NOISE,
        text="Leaves get what the levels would have cost that their tree does not ask.",
    )
    consistency: bool = parameter(
        default=True,
        used_with=UNDER_NOISE,
        text="Make the tables of a node agree on its total, if they carry noise.",
    )
    shrinkage: bool | Literal["all"] = parameter(
        default="all",
        rule=either(one_of({"all": "all"}), FLAG),
        text="Where a noisy leaf value is shrunk to, the more the noisier it is. 'all': the mean "
        "of its tree. True: its ancestors. False: no shrinkage. Post-processing, free of charge.",
    )

    def check(self) -> None:
        if self.split == "random" and self.ranges == "observed":
            raise ParameterError(
                "ranges is 'observed' and split is 'random'; totally random trees draw from the "
                "public range. Use ranges='public', or split='best'."
            )

    def _method(self, schema: Schema) -> Method:
        """The method, with None replaced by the default of the DP model."""
        base_method: Any = super()._method(schema)
        usual = LIU_DEFAULTS if check_parameters(self).dp_model in OPEN_FEATURES else NOISY
        absent = {name: n for name, n in usual.items() if getattr(base_method, name) is None}
        method: Method = replace(base_method, **absent)
        return method

    @property
    def _size(self) -> tuple[int, int]:
        """Trees and their levels."""
        return self.n_estimators or LIU_DEFAULTS["n_estimators"], self.max_depth or LIU_DEFAULTS[
            "max_depth"
        ]

    @property
    def needs(self) -> Needs:
        """'observed' releases exact counts of every cell, so it needs unprotected features."""
        reads_ranges = self.ranges == "observed"
        return Needs(dp_models=OPEN_FEATURES if reads_ranges else frozenset(DPModel))

    def asks(self, schema: Schema) -> QueryKinds:
        looks = (Cells,) if self.ranges == "observed" else ()
        return sums(target_statistic(schema), Sides, Leaves, *looks)

    def grid(self, schema: Schema) -> Schema:
        return fine_schema(schema)

    def largest(self, schema: Schema) -> Size:
        """Classes may be randomized bits, two per class and one more."""
        scale, (trees, depth) = Scale(schema), self._size
        channels = 2 * scale.channels + 1
        first = scale.tables(channels=channels) if self.ranges == "observed" else Size()
        leaves = scale.nodes(depth)
        if self.split == "best":
            for level in range(scale.deepest(depth)):
                first += self._largest_level(scale, level, channels)
        return first + scale.trees(1, leaves, channels=channels, queries=trees)

    def _largest_level(self, scale: Scale, level: int, channels: int) -> Size:
        """Assumes as many tests per node as are asked without noise."""
        n_features = min((self.max_features or scale.columns) * self.spare, scale.columns)
        tests = min(scale.nodes(level) * n_features, MOST_ASKED_TESTS)
        tests = min(tests, MOST_INTEGERS // (2 * channels))
        return scale.sides(self._size[0], level=level, tests=tests, channels=channels)

    def flow(self, schema: Schema, noise_model: NoiseModel, rng: Rng) -> Flow[TrainingResult]:
        target = declared_target(schema)
        room = yield from self._room(target, schema)
        flows = {
            t: self._tree(t, target, room, schema, noise_model, np.random.default_rng(seed))
            for t, seed in enumerate(rng.integers(0, 2**63, self._size[0]).tolist())
        }
        trees = (yield from together(flows)).values()
        noise = ScoreNoise.of([tree.deviations for tree in trees])
        return TrainingResult(mean_of([tree.tree for tree in trees], noise))

    def _room(self, target: TrainingTarget, schema: Schema) -> Flow[Room]:
        """Where the roots may be cut."""
        columns = DrawnColumns(schema)
        if self.ranges == "public":
            return Room.at_the_root(columns)
        by = Cells(tuple(range(len(schema.grids))), Binning.of_cells(schema))
        answer = yield from ask(SumQuery(EVERYONE, target.statistic, by, Fraction(1)))
        return Room.holding(columns, answer.values.sum(axis=2) > 0.0)

    def _tree(
        self,
        t: int,
        target: TrainingTarget,
        room: Room,
        schema: Schema,
        noise_model: NoiseModel,
        rng: Rng,
    ) -> Flow[NoisyTree]:
        trees, depth = self._size
        region, fraction = EVERYONE, Fraction(1, trees)
        if self.subsample is not None:
            region = (Step(Fold(f"tree {t}", self.subsample), 0),)
        if self.split == "random":
            grids, n = Grids(schema, Binning.of_cells(schema)), len(schema.grids)
            tree = totally_random(grids, random(n, n), depth)(0, rng)
        else:
            rules = self._rules(target, schema, noise_model)
            branches = yield from grow_layers(rules, schema, rng, region, room)
            tree, masses = assemble_tree(branches, schema, target.channels)
            if rules.noise == 0.0 and branches.root is not None:
                return _shrunk(tree, target, masses, 0.0)
            levels = len(branches.layers) if self.budget_saving else depth
            fraction -= levels * rules.level_fraction
        answer = yield from ask(SumQuery(region, target.statistic, Leaves((tree,)), fraction))
        masses, noise = answer.values[0], answer.variance
        if self.shrinkage == "all":
            return _shrunk(tree, target, masses, noise)
        shrinkage = shrinkage_of(target) if self.shrinkage else None
        leaves = leaf_values(tree, masses, noise, target, shrinkage).values()
        values = np.array([leaf.value for leaf in leaves])
        deviations = np.array([leaf.deviations for leaf in leaves])
        return NoisyTree(tree.with_values(values), deviations)

    def _rules(
        self, target: TrainingTarget, schema: Schema, noise_model: NoiseModel
    ) -> RandomSplits:
        n, statistic, (trees, depth) = len(schema.grids), target.statistic, self._size
        fraction = (1 - exact(self.leaf_fraction)) / (trees * depth)
        is_exact = _noise(statistic, 1, fraction, noise_model) == 0.0
        every = n if target.shape and is_exact else None
        n_features = _considered(self.max_features or every, n)
        noise = _noise(statistic, n_features, fraction, noise_model)
        spare = self.spare if noise == 0.0 else 1
        return RandomSplits(
            statistic=statistic,
            impurity=variance if target.shape else gini,
            n_considered=n_features,
            n_asked=min(n_features * spare, n),
            max_depth=depth,
            min_samples_split=self.min_samples_split,
            min_samples_leaf=self.min_samples_leaf,
            level_fraction=fraction,
            noise=noise,
            consistency=self.consistency,
        )


def _shrunk(tree: Tree, target: TrainingTarget, masses: FloatArray, noise: float) -> NoisyTree:
    p, deviations = shrink_to_all(masses, noise)
    return NoisyTree(tree.with_values(target.value(p)), target.deviations(deviations))


def _noise(statistic: Statistic, m: int, fraction: Fraction, noise_model: NoiseModel) -> float:
    """The noise variance of m tests per node; the table of the root represents all of them."""
    cuts = NodeTests(np.zeros((1, m), np.int16), np.zeros((1, m, 4), np.uint64))
    return noise_model.variance(SumQuery(EVERYONE, statistic, Sides(ROOT_LAYER, cuts), fraction))


def _considered(max_features: int | None, n: int) -> int:
    """Tests of a node; one alone would leave nothing to select."""
    return min(max_features or max(2, math.isqrt(n)), n)


@estimator
class ExtraTreesClassifier(PrivateClassifier, ExtraTrees):
    """Federated Extra-Trees, Liu et al. 2020: all trees in lockstep, one round per level.

    Under dp_model 'none' this is the paper's FET, under 'label' its FET-LDP (labels only:
    features are not protected), under 'per_site' its FET-GDP; 'distributed' divides the noise.

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

    Randomized labels, features not protected:

    >>> model.set_params(dp_model="label").fit(X, y).predict([[25, 1], [75, 9]])
    array(['no', 'yes'], dtype='<U3')

    """

    label_mechanism: str | BloomRandomizedResponse = parameter(
        default="response",
        rule=either(one_of({"response": "response", "bloom": "bloom"}), a(BloomRandomizedResponse)),
        used_with=(when(dp_model="label"),),
        text="How labels are randomized under dp_model 'label'. 'response': k-ary randomized "
        "response. 'bloom': noisy bits of a Bloom filter, as in the paper, which cost epsilon once "
        "for all reports. Or a BloomRandomizedResponse.",
    )

    def _label_reports(
        self, schema: Schema, epsilon: Fraction, dp_model: DPModel | None
    ) -> BloomRandomizedResponse | None:
        mechanism = check_parameters(self).label_mechanism
        if mechanism != "bloom":
            return mechanism if isinstance(mechanism, BloomRandomizedResponse) else None
        record_epsilon = epsilon / check_parameters(self).records_per_person
        return BloomRandomizedResponse.of_labels(len(schema.classes or ()), record_epsilon)


@estimator
class ExtraTreesRegressor(PrivateRegressor, ExtraTrees):
    """Federated Extra-Trees for a numeric target, split by variance; see ExtraTreesClassifier.

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


fet = preset(
    "fet",
    "FET",
    ExtraTreesClassifier,
    ExtraTreesRegressor,
    words="exact sums over all clients, no guarantee; a regressor if the schema has a target.",
    fixed_parameters={"split": "best", "dp_model": "none"},
    usual={**LIU_DEFAULTS, "shrinkage": False},
    rows={"FET": "", "FET, regression": "numbers"},
)
fet_ldp = preset(
    "fet_ldp",
    "FET-LDP",
    ExtraTreesClassifier,
    words="labels randomized once as noisy bits of a Bloom filter; features are not protected.",
    fixed_parameters={"split": "best", "dp_model": "label"},
    usual={**LIU_DEFAULTS, "label_mechanism": "bloom", "shrinkage": False},
)
AT_EACH_SITE = {"split": "best", "dp_model": "per_site"}
NOISY_SUMS = {
    **LIU_DEFAULTS,
    "delta": 0.0,
    "shrinkage": False,
    "consistency": False,
    "budget_saving": False,
}
fet_gdp = preset(
    "fet_gdp",
    "FET-GDP",
    ExtraTreesClassifier,
    words="every client adds Laplace noise to each of its sums, and all of them are charged.",
    fixed_parameters=AT_EACH_SITE,
    usual=NOISY_SUMS,
)


def _size_under_noise(values: Values, name: str) -> int:
    size: int = or_none(whole(1)).check(name, values.get(name)) or NOISY[name]
    return size


def _sums_of_a_record(schema: Schema, values: Values) -> int:
    """Noisy sums on a record's way through a tree: the tests of each level, and its leaf."""
    m = or_none(whole(1)).check("max_features", values.get("max_features"))
    return _size_under_noise(values, "max_depth") * _considered(m, len(schema.features)) + 1


fet_gdp_as_published = preset(
    "fet_gdp_as_published",
    "FET-GDP, as published",
    ExtraTreesClassifier,
    words="Laplace noise of the published epsilon on every sum, at what all of them cost.",
    fixed_parameters=AT_EACH_SITE,
    usual=NOISY_SUMS,
    rows={"FET-GDP, as published": "schema, published_epsilon=1.0"},
    factor=lambda schema, values: Fraction(
        _size_under_noise(values, "n_estimators") * _sums_of_a_record(schema, values)
    ),
    derive=lambda schema, values: {"leaf_fraction": 1.0 / _sums_of_a_record(schema, values)},
)
