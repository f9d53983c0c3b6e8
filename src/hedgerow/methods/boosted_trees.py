"""Boosted trees: our default recipe, a method of the paper by its name, or free components."""

from __future__ import annotations

from dataclasses import fields, replace
from types import SimpleNamespace
from typing import Any, Self

from sklearn.utils.validation import check_is_fitted

from hedgerow.errors import SpecError
from hedgerow.methods.base import PrivateClassifier, PrivateEstimator, PrivateRegressor
from hedgerow.methods.blocks.cut_points import CutPoints, DeclaredCuts, MergedCuts, QuantileCuts
from hedgerow.methods.blocks.iterative_hessian import HessianCuts
from hedgerow.methods.boosting_classes import SmoothedBoost
from hedgerow.methods.boosting_numbers import RegressionBoost
from hedgerow.methods.maddock import NAMED, Boosted, BoostedLeaves, Order, Splits, Updates
from hedgerow.methods.method import Recipe
from hedgerow.methods.parameters import checked, estimator, filled, parameter, when
from hedgerow.schema.rules import number, one_of, or_none, whole
from hedgerow.schema.schema import Schema, Spacing

METHOD_NAMES = ("default", "components", *NAMED)
CANDIDATES: dict[str, CutPoints] = {
    "uniform": DeclaredCuts(),
    "log": DeclaredCuts(spacing=Spacing.LOG),
    "quantile": QuantileCuts(),
    "exact_quantile": QuantileCuts(exact=True),
    "merged": MergedCuts(),
    "iterative_hessian": HessianCuts(),
}

# Who uses what. Methods of the paper are combinations whose numbers may be changed.
_RECIPES = {name: make(1, 1) for name, make in NAMED.items()}
STEPPING = tuple(n for n, recipe in _RECIPES.items() if recipe.update is not Updates.AVERAGING)
REFINING = tuple(n for n, recipe in _RECIPES.items() if isinstance(recipe.candidates, HessianCuts))
COUNTED_BINS = tuple(c for c, cuts in CANDIDATES.items() if not isinstance(cuts, MergedCuts))

UNTOLD = (None, "partially_random", "totally_random", "oblivious")
"""Splits that ask no histogram at a tree's root."""
DRAWING = ("histogram", "partially_random", "totally_random")
"""Splits that look at the features of their tree; oblivious trees draw from all."""

DEFAULT, COMPONENTS = when(method="default"), when(method="components")
PAPER = when("method='DP-EBM' or another name of the paper", method=tuple(NAMED))
WITH_STEPS = (
    when("method='DP-EBM' or another name of the paper but 'DP-RF'", method=STEPPING),
    when(method="components", update=(None, "newton", "gradient")),
)

BATCH_TEXT = (
    "How many trees see the same gradients: a batch of random trees is one round. None is 1."
)


@estimator
class _BoostedTrees(PrivateEstimator):
    """What both estimators share: parameters, and how they become a recipe."""

    method: str = parameter(
        default="default",
        rule=one_of({name: name for name in METHOD_NAMES}),
        text="'default' is our recipe, which has nothing to tune. 'components' combines the parts "
        "below freely. Any other is a method of Maddock et al. 2022 by its name there.",
    )
    n_trees: int | None = parameter(
        default=None,
        rule=or_none(whole(1)),
        text="Trees. None is 100, and for a number by default 20 (delta = 0) or 120.",
    )
    max_depth: int | None = parameter(
        default=None,
        rule=or_none(whole(1)),
        text="Levels of splits. None is 4, and for a number by default 5 or 7, by the noisy "
        "signal-to-noise ratio.",
    )
    batch: int | None = parameter(
        default=None,
        rule=or_none(whole(1)),
        used=(COMPONENTS,),
        text=BATCH_TEXT,
    )
    split: str | None = parameter(
        default=None,
        rule=or_none(one_of(Splits)),
        used=(COMPONENTS,),
        text="How a node finds its split. 'histogram': the best of all cuts. 'partially_random': "
        "the best of one random cut per feature. 'totally_random': without looking. 'oblivious': "
        "without looking, the same test for all nodes of a level. None is 'totally_random'.",
    )
    update: str | None = parameter(
        default=None,
        rule=or_none(one_of(Updates)),
        used=(COMPONENTS,),
        text="What leaves say: the mean of the target ('averaging'), a step along the gradient, a "
        "Newton step, or, in oblivious trees, a step shrunk by its noise ('wiener'). None is "
        "'newton'.",
    )
    candidates: str | None = parameter(
        default=None,
        rule=or_none(one_of(CANDIDATES)),
        used=(COMPONENTS,),
        text="Where candidate cuts come from. 'uniform' and 'log': public ranges, free of charge. "
        "'quantile', 'merged' and 'iterative_hessian': private counts, which are paid. "
        "'exact_quantile': the rows, with placement='nowhere' only. None is 'uniform'.",
    )
    n_bins: int | None = parameter(
        default=None,
        rule=or_none(whole(2)),
        used=(PAPER, when(method="components", candidates=(None, *COUNTED_BINS))),
        text="Bins per numeric feature. None is 32.",
    )
    hessian_rounds: int | None = parameter(
        default=None,
        rule=or_none(whole(1)),
        used=(
            when(method=REFINING),
            when(method="components", candidates="iterative_hessian", split=UNTOLD),
        ),
        text="Histograms of Hessians that 'iterative_hessian' buys, beside the first trees; "
        "'histogram' trees tell them anyway, at every tree. None is 5.",
    )
    order: str | None = parameter(
        default=None,
        rule=or_none(one_of(Order)),
        used=(when(method="components", features_per_tree=...),),
        text="Whether trees take turns ('cyclic') or draw ('random') in choosing "
        "`features_per_tree` features. None is 'random'.",
    )
    features_per_tree: int | None = parameter(
        default=None,
        rule=or_none(whole(1)),
        used=(when(method="components", split=(None, *DRAWING)),),
        text="Features that a tree may use; None is all of them.",
    )
    learning_rate: float | None = parameter(
        default=None,
        rule=or_none(number(above=0.0)),
        used=WITH_STEPS,
        text="Part of a step that is taken. None is 0.3.",
    )
    leaf_clip: float | None = parameter(
        default=None,
        rule=or_none(number(above=0.0)),
        used=(when(method="components", update=(None, "newton", "gradient", "wiener")),),
        text="Largest leaf value before the learning rate: in log-odds, or in half ranges of the "
        "target. None is 2.",
    )
    ridge: float | None = parameter(
        default=None,
        rule=or_none(number(least=0.0)),
        used=(when(method="components", update=(None, "newton", "gradient")),),
        text="The constant added to the Hessian of a leaf. None is 1.",
    )
    leaves: str | None = parameter(
        default=None,
        rule=or_none(one_of(BoostedLeaves)),
        used=WITH_STEPS,
        text="What a noisy leaf says. 'printed': the paper's step, and 0 if the noisy Hessian is "
        "not above 0. 'pulled': a step pulled towards that of the whole tree, the harder the "
        "louder its noise. None is 'printed' for the paper's methods and 'pulled' for components.",
    )
    min_gain: float | None = parameter(
        default=None,
        rule=or_none(number()),
        used=(when(method="components", split=("histogram", "partially_random")),),
        text="A greedy split that gains no more is not made. None is 0.",
    )

    def staged(self, n_trees: int) -> Self:
        """The fitted model of its first trees alone, which asks no record anything.

        For early stopping: `hedgerow.choose(..., stages=(10, 25, 50))`, or `choose` of `evaluate`.
        """
        check_is_fitted(self, "model_")
        score = self.model_.score
        if not isinstance(n_trees, int) or not 0 <= n_trees <= len(score.trees):
            raise SpecError(f"n_trees is {n_trees!r}; the model has 0 to {len(score.trees)} trees.")
        shorter = object.__new__(type(self))
        shorter.__dict__.update(self.__dict__)  # the holders' secrets too, which a copy leaves out
        shorter.model_ = replace(self.model_, score=replace(score, trees=score.trees[:n_trees]))
        shorter.grown_ = self.grown_[:n_trees]
        return shorter

    def _recipe(self, schema: Schema) -> Recipe:
        given = checked(self)
        if given.method == "default":
            return self._default(given)
        if given.method == "components":
            return _components(given)
        return _named(given, len(schema.features))

    def _default(self, given: SimpleNamespace) -> Recipe:
        return filled(SmoothedBoost, given)


def _components(given: SimpleNamespace) -> Boosted:
    return filled(Boosted, given, candidates=_sized(given.candidates or Boosted.candidates, given))


def _named(given: SimpleNamespace, n_features: int) -> Boosted:
    """A row of the paper's tables, with the numbers that the paper varies too."""
    recipe = NAMED[given.method](given.n_trees or Boosted.n_trees, n_features)
    numbers = {
        "max_depth": given.max_depth,
        "learning_rate": given.learning_rate,
        "leaves": given.leaves,
    }
    return replace(recipe, candidates=_sized(recipe.candidates, given), **_given(numbers))


def _sized(cuts: CutPoints, given: SimpleNamespace) -> CutPoints:
    """The same way to place cuts, with the user's numbers."""
    numbers = _given({"n_bins": given.n_bins, "rounds": given.hessian_rounds})
    known = {f.name for f in fields(cuts)}  # type: ignore[arg-type]
    return replace(cuts, **{n: v for n, v in numbers.items() if n in known})  # type: ignore[type-var]


def _given(numbers: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in numbers.items() if value is not None}


@estimator
class BoostedTreesClassifier(_BoostedTrees, PrivateClassifier):
    """Boosted trees for two classes or more.

    The default buys private bins, smooth curves of one feature each, their weights, and then, if
    there are records enough, trees that share one test a level.

    Examples
    --------
    >>> import hedgerow as hr
    >>> columns = (hr.Numeric("age", 0, 100), hr.Numeric("dose", 0, 10))
    >>> schema = hr.Schema(columns, classes=("no", "yes"))
    >>> X = [[20, 1], [30, 2], [70, 8], [80, 9]] * 500
    >>> y = ["no", "no", "yes", "yes"] * 500
    >>> model = hr.BoostedTreesClassifier(schema, epsilon=10.0, random_state=0).fit(X, y)
    >>> model.predict([[25, 1], [75, 9]])
    array(['no', 'yes'], dtype='<U3')

    A method of Maddock et al. 2022 by its name:

    >>> model = hr.BoostedTreesClassifier(schema, method="DP-TR Newton IH", n_trees=10)
    >>> model.fit(X, y).predict_proba([[25, 1]]).shape
    (1, 2)

    """

    batch: int | None = parameter(
        default=None, rule=or_none(whole(1)), used=(DEFAULT, COMPONENTS), text=BATCH_TEXT
    )


@estimator
class BoostedTreesRegressor(_BoostedTrees, PrivateRegressor):
    """Boosted trees for a number.

    The default reads the structure of all trees off one noisy table, then asks one small sum a
    round; below a signal that boosting needs it grows a forest instead.

    Examples
    --------
    >>> import hedgerow as hr
    >>> columns = (hr.Numeric("age", 0, 100), hr.Numeric("dose", 0, 10))
    >>> schema = hr.Schema(columns, target=hr.Target(0, 100))
    >>> X = [[20, 1], [30, 2], [70, 8], [80, 9]] * 500
    >>> y = [10, 20, 80, 90] * 500
    >>> model = hr.BoostedTreesRegressor(schema, epsilon=10.0, random_state=0).fit(X, y)
    >>> model.predict([[25, 1], [75, 9]]).shape
    (2,)

    """

    learning_rate: float | None = parameter(
        default=None,
        rule=or_none(number(above=0.0)),
        used=(DEFAULT, *WITH_STEPS),
        text="Part of a step that is taken. None is 0.3, and 0.4 by default.",
    )

    def _default(self, given: SimpleNamespace) -> Recipe:
        return filled(RegressionBoost, given)
