"""Boosted trees: our default recipe, a method of the paper by its name, or free components."""

from __future__ import annotations

from typing import Any

from hedgerow.errors import SpecError
from hedgerow.estimators.base import (
    PrivateClassifier,
    PrivateEstimator,
    PrivateRegressor,
    at_least,
    given_or_none,
)
from hedgerow.learning.bins.cut_points import (
    CutPoints,
    DeclaredCuts,
    HessianCuts,
    MergedCuts,
    QuantileCuts,
)
from hedgerow.recipes.ours.boost_classes import SmoothedBoost
from hedgerow.recipes.ours.boost_numbers import RegressionBoost
from hedgerow.recipes.papers.maddock import NAMED, Boosted, Order, Splits, Updates
from hedgerow.recipes.recipe import Recipe
from hedgerow.values.schema import Schema, Spacing

SPLITS = {s.value: s for s in Splits}
UPDATES = {u.value: u for u in Updates}
ORDERS = {o.value: o for o in Order}


class _BoostedTrees(PrivateEstimator):
    """What both estimators share: parameters, and how they become a recipe.

    Parameters (besides those of every estimator)
    ----------
    method : str
        'default' is our recipe, which has nothing to tune. 'components' uses the parameters
        below. Or a method of Maddock et al. 2022 by its name: 'DP-EBM', 'DP-EBM Newton', 'DP-RF',
        'FEVERLESS (uniform)', 'DP-GBM', 'DP-TR Newton', 'DP-TR Newton IH', 'DP-TR Newton IH EBM',
        'DP-TR Batch IH EBM p=0.25', 'DP-TR Batch IH EBM p=1'.
    n_trees, max_depth, batch : int
        Trees, levels of each, and how many of them see the same gradients: a batch of random
        trees is one round.
    split : str
        'histogram', 'partially_random', 'totally_random' or 'oblivious'.
    update : str
        What leaves say: 'averaging', 'gradient', 'newton' or (oblivious trees) 'wiener'.
    candidates : str
        'uniform', 'log', 'quantile', 'merged', 'iterative_hessian', or 'exact_quantile', which
        is allowed with placement='nowhere' only.
    n_bins, hessian_rounds : int
        Bins per numeric feature, and rounds of refinement for 'iterative_hessian'.
    order, features_per_tree : str, int or None
        'cyclic' or 'random' choice of that many features per tree; None is all of them.
    learning_rate, leaf_clip, ridge, least_gain : float
        Step size, largest leaf value before it (in log-odds, or half ranges of the target), the
        constant added to Hessians, and the least gain of a greedy split.
    """

    def __init__(
        self,
        schema: Schema | None = None,
        epsilon: float = 1.0,
        delta: float = 1e-6,
        *,
        method: str = "default",
        n_trees: int = 100,
        max_depth: int = 4,
        batch: int = 1,
        split: str = "totally_random",
        update: str = "newton",
        candidates: str = "uniform",
        n_bins: int = 32,
        hessian_rounds: int = 5,
        order: str = "random",
        features_per_tree: int | None = None,
        learning_rate: float = 0.3,
        leaf_clip: float = 2.0,
        ridge: float = 1.0,
        least_gain: float = 0.0,
        placement: str | None = None,
        colluders: int | None = None,
        threshold: int | None = None,
        records_per_person: int = 1,
        random_state: Any = None,
        progress: bool = False,
    ) -> None:
        self.schema = schema
        self.epsilon = epsilon
        self.delta = delta
        self.method = method
        self.n_trees = n_trees
        self.max_depth = max_depth
        self.batch = batch
        self.split = split
        self.update = update
        self.candidates = candidates
        self.n_bins = n_bins
        self.hessian_rounds = hessian_rounds
        self.order = order
        self.features_per_tree = features_per_tree
        self.learning_rate = learning_rate
        self.leaf_clip = leaf_clip
        self.ridge = ridge
        self.least_gain = least_gain
        self.placement = placement
        self.colluders = colluders
        self.threshold = threshold
        self.records_per_person = records_per_person
        self.random_state = random_state
        self.progress = progress

    def _recipe(self, schema: Schema) -> Recipe:
        trees = at_least(self.n_trees, 1, "n_trees")
        if self.method == "default":
            return self._default(trees)
        if self.method == "components":
            return self._components(trees)
        if self.method not in NAMED:
            known = ["default", "components", *NAMED]
            raise SpecError(f"method is {self.method!r}; use one of {known}.")
        return NAMED[self.method](trees, len(schema.features))

    def _default(self, trees: int) -> Recipe:
        return SmoothedBoost(
            n_trees=trees,
            depth=at_least(self.max_depth, 1, "max_depth"),
            batch=at_least(self.batch, 1, "batch"),
        )

    def _components(self, trees: int) -> Boosted:
        return Boosted(
            n_trees=trees,
            depth=at_least(self.max_depth, 1, "max_depth"),
            batch=at_least(self.batch, 1, "batch"),
            splits=one_of(SPLITS, self.split, "split"),
            updates=one_of(UPDATES, self.update, "update"),
            cuts=one_of(self._cuts(), self.candidates, "candidates"),
            order=one_of(ORDERS, self.order, "order"),
            features_per_tree=given_or_none(self.features_per_tree, "features_per_tree"),
            learning_rate=float(self.learning_rate),
            leaf_clip=float(self.leaf_clip),
            ridge=float(self.ridge),
            least_gain=float(self.least_gain),
        )

    def _cuts(self) -> dict[str, CutPoints]:
        bins = at_least(self.n_bins, 2, "n_bins")
        return {
            "uniform": DeclaredCuts(bins),
            "log": DeclaredCuts(bins, Spacing.LOG),
            "quantile": QuantileCuts(bins),
            "exact_quantile": QuantileCuts(bins, exact=True),
            "merged": MergedCuts(),
            "iterative_hessian": HessianCuts(
                bins, at_least(self.hessian_rounds, 1, "hessian_rounds")
            ),
        }


class BoostedTreesClassifier(PrivateClassifier, _BoostedTrees):
    """Boosted trees for two classes or more; see the parameters above."""


class BoostedTreesRegressor(PrivateRegressor, _BoostedTrees):
    """Boosted trees for a number; see the parameters above."""

    def _default(self, trees: int) -> Recipe:
        return RegressionBoost()


def one_of(choices: dict[str, Any], value: str, name: str) -> Any:
    if value not in choices:
        raise SpecError(f"{name} is {value!r}; use one of {sorted(choices)}.")
    return choices[value]
