"""The component framework of Maddock et al. 2022, and its named methods as one line each.

Table 1 of the paper: a split method, a weight update, a way to place candidates, an interaction
rule and a batch size, freely combined. Oblivious trees, Wiener leaves and merged bins are ours.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from functools import partial

import numpy as np

from hedgerow.errors import SpecError
from hedgerow.methods.blocks import (
    greedy_trees,
    random_trees,
)
from hedgerow.methods.blocks.boosting import DrawnTrees, Rounds, Splitting, boost
from hedgerow.methods.blocks.cut_points import CutPoints, DeclaredCuts, Setting
from hedgerow.methods.blocks.flow import Flow, Quote
from hedgerow.methods.blocks.goal import goal_statistic
from hedgerow.methods.blocks.iterative_hessian import HessianCuts, RefinedTrees
from hedgerow.methods.blocks.newton_steps import (
    AverageClasses,
    AverageTarget,
    PrintedSteps,
    Steps,
    Update,
    Wiener,
)
from hedgerow.methods.blocks.sizes import Scale
from hedgerow.methods.method import Needs, Trained
from hedgerow.models.losses import FirstOrder, LogLoss, Loss, PlainLogLoss, SoftmaxLoss, SquaredLoss
from hedgerow.models.model import Additive, Model, Output
from hedgerow.models.uncertainty import ScoreNoise
from hedgerow.privacy.accounting.budget import Placement
from hedgerow.privacy.bundles import Size
from hedgerow.privacy.queries import Binning, Cells, Gradients, Leaves, QueryKinds, sums
from hedgerow.schema.candidates import Grids
from hedgerow.schema.schema import Schema


class Splits(Enum):
    HISTOGRAM = "histogram"
    PARTIALLY_RANDOM = "partially_random"
    TOTALLY_RANDOM = "totally_random"
    OBLIVIOUS = "oblivious"


class Updates(Enum):
    AVERAGING = "averaging"
    GRADIENT = "gradient"
    NEWTON = "newton"
    WIENER = "wiener"


class BoostedLeaves(Enum):
    """What becomes of a step that noise made: nothing, or it is pulled to the whole tree's."""

    PRINTED = "printed"
    PULLED = "pulled"


class Order(Enum):
    CYCLIC = "cyclic"
    RANDOM = "random"


@dataclass(frozen=True, kw_only=True)
class Boosted:
    """One combination. The defaults of the numbers are the paper's (section 6.1).

    `features_per_tree` None means all of them; 1 with cyclic order is the EBM. For a regression
    the leaf clip counts in halves of the target's range. `leaves` PRINTED are the paper's, from
    sums of (g, h); PULLED, our repair, know how large their noise is and have less of it in h.
    """

    n_trees: int = 100
    max_depth: int = 4
    batch: int = 1
    split: Splits = Splits.TOTALLY_RANDOM
    update: Updates = Updates.NEWTON
    candidates: CutPoints = DeclaredCuts()  # noqa: RUF009  (a frozen value)
    order: Order = Order.RANDOM
    features_per_tree: int | None = None
    learning_rate: float = 0.3
    leaf_clip: float = 2.0
    ridge: float = 1.0
    min_gain: float = 0.0
    leaves: BoostedLeaves = BoostedLeaves.PULLED

    def __post_init__(self) -> None:
        if self.update is Updates.WIENER and self.split is not Splits.OBLIVIOUS:
            raise SpecError(
                f"Wiener leaves were asked of {self.split.value} trees; use split='oblivious', or "
                "another update."
            )

    @property
    def name(self) -> str:
        return "boosted"

    @property
    def needs(self) -> Needs:
        if self.candidates.protects:
            return Needs()
        return Needs(placements=frozenset({Placement.NOWHERE}))

    def asks(self, schema: Schema) -> QueryKinds:
        average = self.update is Updates.AVERAGING
        statistic = goal_statistic(schema) if average else Gradients
        asked = frozenset() if self._refines_for_free else self.candidates.asks
        return asked | sums(statistic, Cells if self._looks else Leaves)

    @property
    def _looks(self) -> bool:
        """Whether trees ask before they split."""
        return self.split in (Splits.HISTOGRAM, Splits.PARTIALLY_RANDOM)

    @property
    def _refines_for_free(self) -> bool:
        """Whether the trees' own tables tell the Hessians that candidates follow."""
        return self.split is Splits.HISTOGRAM and isinstance(self.candidates, HessianCuts)

    def grid(self, schema: Schema) -> Schema:
        return self.candidates.grid(schema)

    def largest(self, schema: Schema) -> Size:
        """Bins before the first tree, then a step a batch, or one a level where trees look."""
        scale, loss = Scale(schema), self._loss(schema)
        channels = max(loss.channels, scale.channels)
        leaves, batch = self._largest_tree(scale), min(self.batch, self.n_trees)
        model = scale.model_bytes(self.n_trees, leaves, max(loss.outputs, scale.channels))
        bins = scale.tables(channels=channels, shared=model)
        before = bins * self.candidates.rounds_for(self._setting(schema))
        return before + self._largest_batch(scale, batch, channels, model) * (
            -(-self.n_trees // self.batch)
        )

    def _largest_tree(self, scale: Scale) -> int:
        """Leaves: oblivious trees test on every level, all others stop at the most there may be."""
        oblivious = self.split is Splits.OBLIVIOUS
        return scale.complete(self.max_depth) if oblivious else scale.nodes(self.max_depth)

    def _largest_batch(self, scale: Scale, batch: int, channels: int, model: int) -> Size:
        """Beside the trees of a batch a table of Hessians may travel."""
        if not self._looks:
            leaves, queries = (
                self._largest_tree(scale),
                1 + isinstance(self.candidates, HessianCuts),
            )
            trees = scale.trees(batch, leaves, channels=channels, queries=queries, shared=model)
            return trees | scale.tables(queries, channels=channels, shared=model)
        size, one_table = Size(), self.features_per_tree == 1
        for level in range(1 if one_table else scale.deepest(self.max_depth)):
            queries = batch * scale.nodes(level) + 1
            size += scale.tables(queries, channels=channels, depth=level, shared=model)
        return size

    def _setting(self, schema: Schema) -> Setting:
        return Setting(
            schema,
            self._loss(schema),
            start_of(schema),
            self.n_trees,
            self.batch,
            histograms=self.split is Splits.HISTOGRAM,
        )

    def flow(self, schema: Schema, quote: Quote, rng: np.random.Generator) -> Flow[Trained]:
        update, start, setting = self._update(schema), start_of(schema), self._setting(schema)
        binning = yield from self.candidates.place(setting, quote)
        splitting = self._splitting_on(setting, binning)
        rounds = Rounds(self.n_trees, self.batch, 1 - self.candidates.share(setting))
        if self.update is Updates.AVERAGING:
            start = Additive((0.0,) * len(schema.classes or (0,)))
        score, noise = yield from boost(rounds, splitting, update, start, rng)
        return Trained(Model(score, self._output(schema), noise=ScoreNoise.of(noise)))

    # ---------------------------------------------------------------------------- components
    def _splitting_on(self, setting: Setting, binning: Binning) -> Splitting:
        if not isinstance(self.candidates, HessianCuts):
            return self._splitting(Grids(setting.schema, binning))
        return RefinedTrees(
            self.candidates,
            setting,
            binning,
            lambda bins: self._splitting(Grids(setting.schema, bins)),
            at_the_model=self.update is not Updates.AVERAGING,
        )

    def _splitting(self, grids: Grids) -> Splitting:
        features = self._features(grids.n_features)
        match self.split:
            case Splits.TOTALLY_RANDOM:
                return DrawnTrees(random_trees.totally_random(grids, features, self.max_depth))
            case Splits.OBLIVIOUS:
                known = [
                    random_trees.DrawableFeature(j, np.ones(n), 1.0)
                    for j, n in enumerate(grids.binning.n_bins)
                    if n > 2
                ]
                return DrawnTrees(random_trees.oblivious(grids, known, self.max_depth))
        if self.features_per_tree == 1:
            return self._one_feature_trees(grids, features)
        offers = (
            greedy_trees.every_cut(grids)
            if self.split is Splits.HISTOGRAM
            else greedy_trees.one_random_cut(grids)
        )
        return greedy_trees.GreedyTrees(
            offers, grids.schema.names, features, self.max_depth, self.min_gain
        )

    def _one_feature_trees(
        self, grids: Grids, features: random_trees.TreeFeatures
    ) -> greedy_trees.OneFeatureTrees:
        every = self.split is Splits.HISTOGRAM
        sets = greedy_trees.every_set(grids) if every else greedy_trees.one_random_set(grids)
        return greedy_trees.OneFeatureTrees(grids, sets, features, self.max_depth, self.min_gain)

    def _features(self, n_features: int) -> random_trees.TreeFeatures:
        k = self.features_per_tree or n_features
        rule = random_trees.cyclic if self.order is Order.CYCLIC else random_trees.random
        return rule(n_features, k)

    def _update(self, schema: Schema) -> Update:
        loss, scale = self._loss(schema), half_range(schema)
        match self.update:
            case Updates.AVERAGING if schema.target is not None:
                return AverageTarget(schema.target.low, schema.target.high)
            case Updates.AVERAGING:
                return AverageClasses(len(schema.classes or ()))
            case Updates.WIENER:
                return Wiener(loss, deviation=0.15 * scale, clip=self.leaf_clip * scale)
            case Updates.GRADIENT if not isinstance(loss, SquaredLoss):
                assert isinstance(loss, LogLoss | SoftmaxLoss)
                loss = FirstOrder(loss)
        steps = PrintedSteps if self.leaves is BoostedLeaves.PRINTED else Steps
        return steps(loss, self.learning_rate, self.leaf_clip * scale, self.ridge)

    def _loss(self, schema: Schema) -> Loss:
        loss = loss_of(schema)
        newton = self.update is Updates.NEWTON and isinstance(loss, LogLoss)
        return PlainLogLoss() if newton and self.leaves is BoostedLeaves.PRINTED else loss

    def _output(self, schema: Schema) -> Output:
        if self.update is Updates.AVERAGING:
            return Output.MEAN
        if schema.target is not None:
            return Output.VALUE
        return Output.SIGMOID if len(schema.classes or ()) == 2 else Output.SOFTMAX


def loss_of(schema: Schema) -> Loss:
    """Log-loss for classes; squared error, residuals clipped at half the range, for a target."""
    if schema.target is not None:
        return SquaredLoss(schema.target.low, schema.target.high, half_range(schema))
    n_classes = len(schema.classes or ())
    return LogLoss() if n_classes == 2 else SoftmaxLoss(n_classes)


def half_range(schema: Schema) -> float:
    """What a step of 1 is worth: 1 in log-odds, half the public range of a target."""
    target = schema.target
    return 1.0 if target is None else (target.high - target.low) / 2.0


def start_of(schema: Schema) -> Additive:
    """Scores of zero, or the middle of a target's range, to which predictions stay clipped."""
    target = schema.target
    if target is None:
        return Additive((0.0,) * loss_of(schema).outputs)
    return Additive(((target.low + target.high) / 2.0,), clip=(target.low, target.high))


# -------------------------------------------------------------------------------- named methods
Method = Callable[[int, int], Boosted]
"""(number of trees T, number of features m) -> the recipe of a row of Tables 2 and 6."""

_IH = HessianCuts()
_PRINTED = partial(Boosted, leaves=BoostedLeaves.PRINTED)
_EBM = partial(_PRINTED, order=Order.CYCLIC, features_per_tree=1)
_HIST = partial(_PRINTED, split=Splits.HISTOGRAM)

NAMED: dict[str, Method] = {
    "DP-EBM": lambda T, m: _EBM(n_trees=T * m, update=Updates.GRADIENT),
    "DP-EBM Newton": lambda T, m: _EBM(n_trees=T),
    "DP-RF": lambda T, m: Boosted(n_trees=T, batch=T, update=Updates.AVERAGING),
    "FEVERLESS (uniform)": lambda T, m: _HIST(n_trees=T),
    "DP-GBM": lambda T, m: _HIST(n_trees=T, update=Updates.GRADIENT),
    "DP-TR Newton": lambda T, m: _PRINTED(n_trees=T),
    "DP-TR Newton IH": lambda T, m: _PRINTED(n_trees=T, candidates=_IH),
    "DP-TR Newton IH EBM": lambda T, m: _EBM(n_trees=T, candidates=_IH),
    "DP-TR Batch IH EBM p=0.25": lambda T, m: _EBM(n_trees=T, candidates=_IH, batch=max(T // 4, 1)),
    "DP-TR Batch IH EBM p=1": lambda T, m: _EBM(n_trees=T, candidates=_IH, batch=T),
}
