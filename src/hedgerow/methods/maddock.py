"""Boosted trees from components: Maddock et al. 2022, with the paper's methods by name.

Table 1 of the paper: a split method, a weight update, a placement of candidates, an interaction
rule and a batch size, freely combined. Oblivious trees, Wiener leaves and merged bins are ours, and
so are the corrections in `DEPARTURES`, which the paper's names turn off.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any, Literal

import numpy as np

from hedgerow.errors import ParameterError
from hedgerow.methods.base import PrivateClassifier, PrivateRegressor, StagedTrees
from hedgerow.methods.blocks import greedy_trees, random_trees
from hedgerow.methods.blocks.boosting import DrawnTrees, Rounds, Splitting, boost, equal_sizes
from hedgerow.methods.blocks.cut_points import (
    CutPoints,
    DeclaredCuts,
    MergedCuts,
    QuantileCuts,
    SplitContext,
)
from hedgerow.methods.blocks.flow import Flow, NoiseModel
from hedgerow.methods.blocks.iterative_hessian import HessianCuts, RefinedTrees
from hedgerow.methods.blocks.newton_steps import (
    Averages,
    PublishedAverages,
    PublishedSteps,
    Steps,
    Update,
    Wiener,
)
from hedgerow.methods.blocks.sizes import Scale
from hedgerow.methods.blocks.target import target_statistic
from hedgerow.methods.method import Method, Needs, TrainingResult, Values, method
from hedgerow.methods.parameters import estimator, parameter, when
from hedgerow.methods.presets import Departure, preset
from hedgerow.models.losses import FirstOrder, LogLoss, Loss, PlainLogLoss, SoftmaxLoss, SquaredLoss
from hedgerow.models.model import Additive, Model, Output
from hedgerow.models.uncertainty import ScoreNoise
from hedgerow.privacy.accounting.budget import DPModel
from hedgerow.privacy.bundles import Size
from hedgerow.privacy.queries import (
    Binning,
    Cells,
    ClassCounts,
    Fractions,
    Gradients,
    Leaves,
    QueryKinds,
    sums,
)
from hedgerow.schema.arrays import Rng
from hedgerow.schema.candidates import Grids
from hedgerow.schema.rules import number, or_none, whole
from hedgerow.schema.schema import Schema, Spacing

PAPER = "Maddock et al. 2022"
DEPARTURES = (
    Departure(
        "leaves are shrunk by their noise, splits are scored by Hessians clipped at zero, and "
        "averages are asked as counts of disjoint classes, of norm 1 instead of sqrt 2",
        {"leaf_values": "published"},
    ),
    Departure(
        "noise of (g, h) is calibrated to its norm 1 instead of sqrt(17) / 4",
        {"norms": "published"},
    ),
    Departure("the tables of a node agree on its total", {"consistency": False}),
    Departure("each side of a split must exceed its noise", {"noise_gate": False}),
    Departure(
        "a Hessian is charged by its own sensitivity, (T + s m / 16) / mu^2 in all",
        {"hessian_cost": "published"},
    ),
    Departure(
        "a side of a split is scored by the clipped step that it takes",
        reason="so does the released program; equation (5) has no clip",
    ),
    Departure(
        "a batch adds the mean of its weights",
        reason="the paper's sum runs one term too far; the released program has the mean",
    ),
    Departure(
        "a category is separated from all others, and `missing` is a bin that goes to either side",
        reason="the paper treats categories as numbers and drops rows with missing values; a "
        "column of codes can be declared as a number",
    ),
    Departure(
        "the Iterative Hessian halves a bin at the nearest edge of a public fine grid, its "
        "histograms have all features, and batches ask up to B - 1 of them before the first tree",
        reason="sites answer on a public grid; with one feature a tree Table 1 and section 5.3.3 "
        "differ; trees of a batch are drawn at once",
    ),
    Departure(
        "a random cut is drawn among the candidates that the path to its node leaves open",
        reason="any other has an empty side",
    ),
    Departure(
        "averages of three or more classes are counts of each class",
        reason="the paper has two classes",
    ),
    Departure(
        "under `ldp` noise is added in every leaf",
        unsound="the paper's server sees the leaf of each gradient",
    ),
)
CERTAIN = -30.0
"""Log-odds that exclude the second class: the gradient of a record there is 0 or -1."""
Splits = Literal["histogram", "partially_random", "totally_random", "oblivious"]
Updates = Literal["averaging", "gradient", "newton", "wiener"]
Candidates = Literal["uniform", "log", "quantile", "exact_quantile", "merged", "iterative_hessian"]
STEPPING = when(update=("newton", "gradient"))
PART_BY_PART = Fraction(17, 16)
"""The squared norm of (g, h) in section 4.2; the true one is 1 (`PlainLogLoss`)."""
WITHOUT_ROOT_TABLES = ("partially_random", "totally_random", "oblivious")
"""Splits without a histogram at a tree's root."""
DRAWING = ("histogram", "partially_random", "totally_random")
"""Splits that use the features of their tree; oblivious trees draw from all."""


@method(
    "boosted",
    test_settings=(
        {"n_estimators": 4, "max_depth": 1, "split": "partially_random", "update": "gradient"},
        {"n_estimators": 4, "max_depth": 1, "split": "histogram", "candidates": "quantile"},
        {
            "n_estimators": 4,
            "max_depth": 1,
            "split": "histogram",
            "candidates": "iterative_hessian",
            "n_bins": 8,
        },
        {"n_estimators": 3, "max_depth": 2, "split": "histogram", "features_per_tree": 1},
        {"n_estimators": 3, "candidates": "iterative_hessian", "leaf_values": "published"},
        {"n_estimators": 3, "trees_per_round": 3, "update": "averaging"},
        {
            "n_estimators": 4,
            "candidates": "iterative_hessian",
            "order": "cyclic",
            "features_per_tree": 1,
            "leaf_values": "published",
        },
    ),
)
class ComponentBoosting(Method):
    """One combination of components. Default values are the paper's (section 6.1).

    `features_per_tree` None means all; 1 with cyclic order is the EBM. For regression the leaf clip
    is in halves of the target's range.
    """

    n_estimators: int = parameter(default=100, rule=whole(1), text="Trees.")
    max_depth: int = parameter(default=4, rule=whole(1), text="Levels of splits.")
    trees_per_round: int = parameter(
        default=1,
        rule=whole(1),
        text="How many trees see the same gradients: a batch of random trees is one round.",
    )
    split: Splits = parameter(
        default="totally_random",
        text="How a node finds its split. 'histogram': the best of all cuts. 'partially_random': "
        "the best of one random cut per feature. 'totally_random': a random test. 'oblivious': a "
        "random test, the same for all nodes of a level.",
    )
    update: Updates = parameter(
        default="newton",
        text="The value of a leaf: the mean of the target ('averaging'), a gradient step, a Newton "
        "step, or, in oblivious trees, a step shrunk by its noise ('wiener').",
    )
    candidates: Candidates = parameter(
        default="uniform",
        text="Where candidate cuts come from. 'uniform' and 'log': public ranges, free of charge. "
        "'quantile', 'merged' and 'iterative_hessian': private counts, which are charged. "
        "'exact_quantile': the rows, with dp_model='none' only.",
    )
    n_bins: int = parameter(
        default=32,
        rule=whole(2),
        used_with=(
            when(candidates=("uniform", "log", "quantile", "exact_quantile", "iterative_hessian")),
        ),
        text="Bins per numeric feature.",
    )
    hessian_rounds: int = parameter(
        default=5,
        rule=whole(1),
        used_with=(when(candidates="iterative_hessian", split=WITHOUT_ROOT_TABLES),),
        text="Histograms of Hessians that 'iterative_hessian' asks for with the first trees; "
        "'histogram' trees provide them for free, with every tree.",
    )
    order: Literal["cyclic", "random"] = parameter(
        default="random",
        used_with=(when(features_per_tree=...),),
        text="Whether the `features_per_tree` features of a tree are taken in turn ('cyclic') or "
        "drawn ('random').",
    )
    features_per_tree: int | None = parameter(
        default=None,
        rule=or_none(whole(1)),
        used_with=(when(split=DRAWING),),
        text="Features that a tree may use; None is all of them.",
    )
    learning_rate: float = parameter(
        default=0.3,
        rule=number(above=0.0),
        used_with=(STEPPING,),
        text="Fraction of each step that is taken.",
    )
    leaf_clip: float = parameter(
        default=2.0,
        rule=number(above=0.0),
        used_with=(
            when(update=("newton", "gradient", "wiener")),
            when(
                update="averaging", leaf_values="published", split=("histogram", "partially_random")
            ),
        ),
        text="Largest leaf value before the learning rate: in log-odds, or in half ranges of the "
        "target.",
    )
    ridge: float = parameter(
        default=1.0,
        rule=number(least=0.0),
        used_with=(STEPPING,),
        text="The constant added to the Hessian of a leaf.",
    )
    leaf_values: Literal["published", "shrunk"] = parameter(
        default="shrunk",
        used_with=(when(update=("newton", "gradient", "averaging")),),
        text="The value of a noisy leaf. 'published': the paper's step, and 0 if the noisy Hessian "
        "is not above 0; for averages, noisy positives over noisy records. 'shrunk': a step shrunk "
        "towards that of the whole tree, the more the larger its noise; for averages, shares of "
        "the counts of each class.",
    )
    norms: Literal["joint", "published"] = parameter(
        default="joint",
        used_with=(when(update="newton", leaf_values="published"),),
        text="The norm to which the noise of Newton steps is calibrated: the largest norm of (g, "
        "h), which is 1, or the paper's sqrt(17) / 4, bounded part by part, which leaves a "
        "seventeenth of the budget unspent.",
    )
    consistency: bool = parameter(
        default=True,
        used_with=(when(split=("histogram", "partially_random")),),
        text="Make the tables of a node agree on its total. False, as published: each feature has "
        "its own.",
    )
    noise_gate: bool = parameter(
        default=True,
        used_with=(when(split=("histogram", "partially_random")),),
        text="Whether both sides of a split must have a Hessian (or number of records) that "
        "exceeds its noise. False, as published: any side.",
    )
    hessian_cost: Literal["own", "published"] = parameter(
        default="own",
        used_with=(when(candidates="iterative_hessian", split=WITHOUT_ROOT_TABLES),),
        text="The cost of a histogram of Hessians: 'own', as much as its smaller sensitivity needs "
        "at a leaf query's noise; 'published', as much as a leaf query, with less noise.",
    )
    min_gain: float = parameter(
        default=0.0,
        rule=number(),
        used_with=(when(split=("histogram", "partially_random")),),
        text="A greedy split must gain more than this.",
    )

    def check(self) -> None:
        if self.update == "wiener" and self.split != "oblivious":
            raise ParameterError(
                f"Wiener leaves were asked of {self.split} trees; use split='oblivious', or "
                "another update."
            )

    @property
    def _cut_points(self) -> CutPoints:
        match self.candidates:
            case "uniform":
                return DeclaredCuts(self.n_bins)
            case "log":
                return DeclaredCuts(self.n_bins, Spacing.LOG)
            case "quantile":
                return QuantileCuts(self.n_bins)
            case "exact_quantile":
                return QuantileCuts(self.n_bins, exact=True)
            case "merged":
                return MergedCuts()
            case "iterative_hessian":
                full_cost = self.hessian_cost == "published"
                return HessianCuts(self.n_bins, self.hessian_rounds, full_cost)

    @property
    def needs(self) -> Needs:
        if self._cut_points.protects:
            return Needs()
        return Needs(dp_models=frozenset({DPModel.NONE}))

    def asks(self, schema: Schema) -> QueryKinds:
        counts = self.update == "averaging" and not self._asks_pairs(schema)
        statistic = target_statistic(schema) if counts else Gradients
        cut_queries = frozenset() if self._refines_for_free else self._cut_points.asks
        return cut_queries | sums(statistic, Cells if self._asks_tables else Leaves)

    def _asks_pairs(self, schema: Schema) -> bool:
        """Whether averages are asked as published; the paper has two classes, or a number."""
        n_classes = len(schema.classes or ())
        return self.leaf_values == "published" and n_classes in (0, 2)

    @property
    def _asks_tables(self) -> bool:
        """Whether trees ask histograms before they split."""
        return self.split in ("histogram", "partially_random")

    @property
    def _refines_for_free(self) -> bool:
        """Whether the trees' own tables contain the Hessians that refine candidates."""
        return self.split == "histogram" and self.candidates == "iterative_hessian"

    def grid(self, schema: Schema) -> Schema:
        return self._cut_points.grid(schema)

    def largest(self, schema: Schema) -> Size:
        """Bins before the first tree, then one step per batch, or one per level for histograms."""
        scale, loss = Scale(schema), self._loss(schema)
        channels = max(loss.channels, scale.channels)
        leaves = self._largest_tree(scale)
        trees_per_round = min(self.trees_per_round, self.n_estimators)
        model = scale.model_bytes(self.n_estimators, leaves, max(loss.outputs, scale.channels))
        bins = scale.tables(channels=channels, shared_bytes=model)
        before = bins * self._cut_points.rounds_for(self._setting(schema))
        return before + self._largest_batch(scale, trees_per_round, channels, model) * (
            -(-self.n_estimators // self.trees_per_round)
        )

    def _largest_tree(self, scale: Scale) -> int:
        """Leaves per tree: oblivious trees test on every level, others stop at the limit."""
        oblivious = self.split == "oblivious"
        return scale.complete(self.max_depth) if oblivious else scale.nodes(self.max_depth)

    def _largest_batch(self, scale: Scale, trees_per_round: int, channels: int, model: int) -> Size:
        """A batch of trees, with a table of Hessians if one is asked."""
        cuts = self._cut_points
        if not self._asks_tables:
            leaves, queries = self._largest_tree(scale), 1 + isinstance(cuts, HessianCuts)
            trees = scale.trees(
                trees_per_round, leaves, channels=channels, queries=queries, shared_bytes=model
            )
            return trees | scale.tables(queries, channels=channels, shared_bytes=model)
        size, one_table = Size(), self.features_per_tree == 1
        for level in range(1 if one_table else scale.deepest(self.max_depth)):
            queries = trees_per_round * scale.nodes(level) + 1
            size += scale.tables(queries, channels=channels, depth=level, shared_bytes=model)
        return size

    def _setting(self, schema: Schema) -> SplitContext:
        return SplitContext(
            schema,
            self._loss(schema),
            start_of(schema),
            self.n_estimators,
            self.trees_per_round,
            histograms=self.split == "histogram",
        )

    def flow(self, schema: Schema, noise_model: NoiseModel, rng: Rng) -> Flow[TrainingResult]:
        update, start, setting = self._update(schema), start_of(schema), self._setting(schema)
        cuts = self._cut_points
        binning = yield from cuts.place(setting, noise_model)

        def splitting_on(bins: Binning) -> Splitting:
            return self._splitting(Grids(schema, bins))

        splitting = splitting_on(binning)
        if isinstance(cuts, HessianCuts):
            scored = self.update != "averaging"
            splitting = RefinedTrees(cuts, setting, binning, splitting_on, at_the_model=scored)
        fraction = 1 - cuts.fraction(setting)
        if self.norms == "published" and isinstance(setting.loss, PlainLogLoss):
            fraction /= PART_BY_PART
        rounds = Rounds(equal_sizes(self.n_estimators, self.trees_per_round), fraction)
        if self.update == "averaging":
            start = Additive((0.0,) * len(schema.classes or (0,)))
        score, noise = yield from boost(rounds, splitting, lambda _: update, start, rng)
        return TrainingResult(Model(score, self._output(schema), noise=ScoreNoise.of(noise)))

    def _splitting(self, grids: Grids) -> Splitting:
        rule = random_trees.cyclic if self.order == "cyclic" else random_trees.random
        features = rule(grids.n_features, self.features_per_tree or grids.n_features)
        match self.split:
            case "totally_random":
                return DrawnTrees(random_trees.totally_random(grids, features, self.max_depth))
            case "oblivious":
                drawables = [
                    random_trees.DrawableFeature(j, np.ones(n), 1.0)
                    for j, n in enumerate(grids.binning.n_bins)
                    if n > 2
                ]
                return DrawnTrees(random_trees.oblivious(grids, drawables, self.max_depth))
        rules = greedy_trees.SplitRules(self.min_gain, self.consistency, self.noise_gate)
        every = self.split == "histogram"
        one = self.features_per_tree == 1
        kind = greedy_trees.OneFeatureTrees if one else greedy_trees.GreedyTrees
        return kind(grids, every, features, self.max_depth, rules)

    def _update(self, schema: Schema) -> Update:
        loss, scale = self._loss(schema), half_range(schema)
        match self.update:
            case "averaging" if self._asks_pairs(schema):
                return _published_averages(schema, self.leaf_clip)
            case "averaging" if schema.target is not None:
                return Averages(Fractions(schema.target.low, schema.target.high))
            case "averaging":
                return Averages(ClassCounts(len(schema.classes or ())))
            case "wiener":
                return Wiener(loss, deviation=0.15 * scale, clip=self.leaf_clip * scale)
            case "gradient" if not isinstance(loss, SquaredLoss):
                assert isinstance(loss, LogLoss | SoftmaxLoss)
                loss = FirstOrder(loss)
        steps = PublishedSteps if self.leaf_values == "published" else Steps
        return steps(loss, self.learning_rate, self.leaf_clip * scale, self.ridge)

    def _loss(self, schema: Schema) -> Loss:
        loss = loss_of(schema)
        newton = self.update == "newton" and isinstance(loss, LogLoss)
        return PlainLogLoss() if newton and self.leaf_values == "published" else loss

    def _output(self, schema: Schema) -> Output:
        if self.update == "averaging":
            return Output.MEAN
        if schema.target is not None:
            return Output.VALUE
        return Output.SIGMOID if len(schema.classes or ()) == 2 else Output.SOFTMAX


def loss_of(schema: Schema) -> Loss:
    """Log-loss for classes; squared error, with residuals clipped at half the range, otherwise."""
    if schema.target is not None:
        return SquaredLoss(schema.target.low, schema.target.high, half_range(schema))
    n_classes = len(schema.classes or ())
    return LogLoss() if n_classes == 2 else SoftmaxLoss(n_classes)


def _published_averages(schema: Schema, clip: float) -> PublishedAverages:
    """The pair (u, 1): gradients at a model that is certain of the first class, or of `low`."""
    target = schema.target
    if target is None:
        return PublishedAverages(FirstOrder(LogLoss()), Additive((CERTAIN,)), clip)
    loss = SquaredLoss(target.low, target.high, target.high - target.low, weight=1.0)
    return PublishedAverages(loss, Additive((target.low,)), clip)


def half_range(schema: Schema) -> float:
    """The unit of a step: 1 in log-odds, half the public range of a target."""
    target = schema.target
    return 1.0 if target is None else (target.high - target.low) / 2.0


def start_of(schema: Schema) -> Additive:
    """Scores of zero, or the middle of a target's range, to which predictions stay clipped."""
    target = schema.target
    if target is None:
        return Additive((0.0,) * loss_of(schema).outputs)
    return Additive(((target.low + target.high) / 2.0,), clip=(target.low, target.high))


@estimator
class ComponentBoostingClassifier(StagedTrees, PrivateClassifier, ComponentBoosting):
    """Gradient boosting from components, for two classes or more: Maddock et al. 2022.

    The paper's own combinations by their names: `hedgerow.papers.maddock`.

    Examples
    --------
    >>> import hedgerow as hr
    >>> columns = (hr.Numeric("age", 0, 100), hr.Numeric("dose", 0, 10))
    >>> schema = hr.Schema(columns, classes=("no", "yes"))
    >>> X = [[20, 1], [30, 2], [70, 8], [80, 9]] * 500
    >>> y = ["no", "no", "yes", "yes"] * 500
    >>> options = {"epsilon": 10.0, "n_estimators": 20, "random_state": 0}
    >>> model = hr.ComponentBoostingClassifier(schema, **options)
    >>> model.fit(X, y).predict([[25, 1], [75, 9]])
    array(['no', 'yes'], dtype='<U3')

    A method of the paper by its name:

    >>> model = hr.papers.maddock.dp_tr_newton_ih(schema, n_estimators=10)
    >>> model.fit(X, y).predict_proba([[25, 1]]).shape
    (1, 2)

    """


@estimator
class ComponentBoostingRegressor(StagedTrees, PrivateRegressor, ComponentBoosting):
    """Gradient boosting from components, for a numeric target; see ComponentBoostingClassifier.

    Examples
    --------
    >>> import hedgerow as hr
    >>> columns = (hr.Numeric("age", 0, 100), hr.Numeric("dose", 0, 10))
    >>> schema = hr.Schema(columns, target=hr.Target(0, 100))
    >>> X = [[20, 1], [30, 2], [70, 8], [80, 9]] * 500
    >>> y = [10, 20, 80, 90] * 500
    >>> model = hr.ComponentBoostingRegressor(schema, epsilon=10.0, n_estimators=20, random_state=0)
    >>> low, high = model.fit(X, y).predict([[20, 1], [80, 9]])
    >>> bool(low < high)
    True

    """


MADDOCK_DEFAULTS = {"n_estimators": 100, "max_depth": 4, "n_bins": 32}
"""Section 6.1: depth 4, 32 candidates; T is 100 trees, as in Tables 4 and 6."""
PUBLISHED = {"leaf_values": "published", "norms": "published"}
PUBLISHED_SPLITS = {"consistency": False, "noise_gate": False}
"""Turns our corrections off: of leaves and their noise, and of splits by score."""
STEP_DEFAULTS = {
    **MADDOCK_DEFAULTS,
    "learning_rate": 0.3,
    "leaf_clip": 2.0,
    "leaf_values": "published",
}
"""With eta .3, beta 2 and the paper's leaves."""
NEWTON_DEFAULTS = {**STEP_DEFAULTS, **PUBLISHED}
REFINED = {**NEWTON_DEFAULTS, "hessian_rounds": 5, "hessian_cost": "published"}

RANDOM: dict[str, Any] = {
    "split": "totally_random",
    "update": "newton",
    "candidates": "uniform",
    "features_per_tree": None,
    "trees_per_round": 1,
}
IN_TURNS = {**RANDOM, "order": "cyclic", "features_per_tree": 1}
ITERATIVE = {"candidates": "iterative_hessian"}
GREEDY = {**RANDOM, "split": "histogram"}
BOTH = ComponentBoostingClassifier, ComponentBoostingRegressor
"""A schema with a target gives the regressor, which the paper does not have."""


def _trees(values: Values) -> int:
    trees: int = whole(1).check("n_estimators", values["n_estimators"])
    return trees


def _for_each_feature(schema: Any, values: Values) -> Values:
    if not isinstance(schema, Schema):
        raise ParameterError(
            f"schema is {schema!r}, but DP-EBM grows n_estimators for each feature; pass a "
            "hedgerow.Schema."
        )
    return {"n_estimators": _trees(values) * len(schema.features)}


def _part_of_all(schema: Any, values: Values) -> Values:
    p = values["p"]
    if not 0.0 < p <= 1.0:
        raise ParameterError(
            f"p is {p!r}; use the part of all trees in a batch, above 0 and up to 1."
        )
    return {"trees_per_round": max(1, int(p * _trees(values)))}


def _declare(name: str, title: str, words: str, fixed: Values, usual: Values, **more: Any) -> Any:
    return preset(
        name, title, *BOTH, words=words, fixed_parameters=fixed, usual=usual, file=__name__, **more
    )


dp_gbm = _declare(
    "dp_gbm",
    "DP-GBM",
    "histograms and gradient steps, after Li et al. 2020.",
    {**GREEDY, "update": "gradient"},
    {**STEP_DEFAULTS, **PUBLISHED_SPLITS},
)
dp_rf = _declare(
    "dp_rf",
    "DP-RF",
    "totally random trees whose leaves are averages; one round.",
    {**RANDOM, "update": "averaging"},
    {**MADDOCK_DEFAULTS, "leaf_values": "published"},
    derive=lambda schema, values: {"trees_per_round": _trees(values)},
)
feverless = _declare(
    "feverless",
    "FEVERLESS",
    "histograms and Newton steps, with uniform candidates to be private.",
    GREEDY,
    {**NEWTON_DEFAULTS, **PUBLISHED_SPLITS},
)
dp_ebm = _declare(
    "dp_ebm",
    "DP-EBM",
    "totally random trees of one feature each, in turns; gradient steps; T for each.",
    {**IN_TURNS, "update": "gradient"},
    STEP_DEFAULTS,
    own={"n_estimators": 100},
    derive=_for_each_feature,
)
dp_ebm_newton = _declare(
    "dp_ebm_newton",
    "DP-EBM Newton",
    "the same with Newton steps and T trees in all.",
    IN_TURNS,
    NEWTON_DEFAULTS,
)
dp_tr_newton = _declare(
    "dp_tr_newton",
    "DP-TR Newton",
    "totally random trees, Newton steps, uniform candidates.",
    RANDOM,
    NEWTON_DEFAULTS,
)
dp_tr_newton_ih = _declare(
    "dp_tr_newton_ih",
    "DP-TR Newton IH",
    "candidates refined by the Iterative Hessian of the first trees.",
    {**RANDOM, **ITERATIVE},
    REFINED,
)
dp_tr_newton_ih_ebm = _declare(
    "dp_tr_newton_ih_ebm",
    "DP-TR Newton IH EBM",
    "the same, with one feature a tree, in turns.",
    {**IN_TURNS, **ITERATIVE},
    REFINED,
)
dp_tr_batch = _declare(
    "dp_tr_batch",
    "DP-TR Batch IH EBM",
    "DP-TR Newton IH EBM with a part p of all trees added at once.",
    {**IN_TURNS, **ITERATIVE},
    REFINED,
    rows={
        "DP-TR Batch IH EBM (p = 0.25)": "schema, p=0.25",
        "DP-TR Batch IH EBM (p = 1)": "schema, p=1.0",
    },
    own={"p": 0.25},
    derive=_part_of_all,
)
ldp = _declare(
    "ldp",
    "LDP",
    "DP-TR Newton where every site adds enough noise for itself alone. With one record a site, "
    "`fit(X, y, site=range(len(y)))`, that is local differential privacy.",
    {**RANDOM, "dp_model": "per_site"},
    NEWTON_DEFAULTS,
)
