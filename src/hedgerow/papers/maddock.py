"""Maddock et al. 2022: federated boosted decision trees with differential privacy.

The defaults are section 6.1's: depth 4, 32 candidates, eta .3, beta 2, and the paper's leaves;
`leaves="pulled"` is our repair. T is 100 trees, as in its Tables 4 and 6; for DP-EBM as many for
each feature. A schema with a target gives the regressor, which the paper does not have.
"""

from __future__ import annotations

from typing import Any

from hedgerow.errors import SpecError
from hedgerow.methods.boosted_trees import BoostedTreesClassifier, BoostedTreesRegressor
from hedgerow.papers.presets import of_task, preset

BoostedTrees = BoostedTreesClassifier | BoostedTreesRegressor

_USUAL: dict[str, Any] = {"n_trees": 100, "max_depth": 4, "n_bins": 32}
_STEPS = {**_USUAL, "learning_rate": 0.3, "leaves": "printed"}
REFINED = {**_STEPS, "hessian_rounds": 5}


def dp_gbm(schema: Any = None, epsilon: float = 1.0, **given: Any) -> BoostedTrees:
    """DP-GBM: histograms and gradient steps, after Li et al. 2020."""
    return _named("DP-GBM", _STEPS, {"schema": schema, "epsilon": epsilon, **given})


def dp_rf(schema: Any = None, epsilon: float = 1.0, **given: Any) -> BoostedTrees:
    """DP-RF: totally random trees whose leaves are averages; one round."""
    return _named("DP-RF", _USUAL, {"schema": schema, "epsilon": epsilon, **given})


def feverless(schema: Any = None, epsilon: float = 1.0, **given: Any) -> BoostedTrees:
    """FEVERLESS: histograms and Newton steps, with uniform candidates to be private."""
    return _named("FEVERLESS (uniform)", _STEPS, {"schema": schema, "epsilon": epsilon, **given})


def dp_ebm(schema: Any = None, epsilon: float = 1.0, **given: Any) -> BoostedTrees:
    """DP-EBM: totally random trees of one feature each, in turns; gradient steps; T for each."""
    return _named("DP-EBM", _STEPS, {"schema": schema, "epsilon": epsilon, **given})


def dp_ebm_newton(schema: Any = None, epsilon: float = 1.0, **given: Any) -> BoostedTrees:
    """DP-EBM Newton: the same with Newton steps and T trees in all."""
    return _named("DP-EBM Newton", _STEPS, {"schema": schema, "epsilon": epsilon, **given})


def dp_tr_newton(schema: Any = None, epsilon: float = 1.0, **given: Any) -> BoostedTrees:
    """DP-TR Newton: totally random trees, Newton steps, uniform candidates."""
    return _named("DP-TR Newton", _STEPS, {"schema": schema, "epsilon": epsilon, **given})


def dp_tr_newton_ih(schema: Any = None, epsilon: float = 1.0, **given: Any) -> BoostedTrees:
    """DP-TR Newton IH: candidates refined by the Iterative Hessian of the first trees."""
    return _named("DP-TR Newton IH", REFINED, {"schema": schema, "epsilon": epsilon, **given})


def dp_tr_newton_ih_ebm(schema: Any = None, epsilon: float = 1.0, **given: Any) -> BoostedTrees:
    """DP-TR Newton IH EBM: the same, with one feature a tree, in turns."""
    return _named("DP-TR Newton IH EBM", REFINED, {"schema": schema, "epsilon": epsilon, **given})


def dp_tr_batch(
    schema: Any = None, epsilon: float = 1.0, p: float = 0.25, **given: Any
) -> BoostedTrees:
    """DP-TR Batch Newton IH EBM: the same, with a part p of all trees added at once."""
    if not 0.0 < p <= 1.0:
        raise SpecError(f"p is {p!r}; use the part of all trees in a batch, above 0 and up to 1.")
    n_trees = given.get("n_trees") or REFINED["n_trees"]
    makes = {
        "method": "components",
        "split": "totally_random",
        "update": "newton",
        "candidates": "iterative_hessian",
        "order": "cyclic",
        "features_per_tree": 1,
        "batch": max(1, int(p * n_trees)),
    }
    typed = {"schema": schema, "epsilon": epsilon, **given}
    return preset("DP-TR Batch IH EBM", _kind(schema), makes, REFINED, typed)


def ldp(schema: Any = None, epsilon: float = 1.0, **given: Any) -> BoostedTrees:
    """The LDP baseline: DP-TR Newton where every site adds enough noise for itself alone.

    With one record a site, `fit(X, y, party=range(len(y)))`, that is local differential privacy.
    Departure: noise is added in every leaf and not to the gradient alone, so that features are
    protected too; the paper's server is told in which leaf a gradient belongs.
    """
    makes = {"method": "DP-TR Newton", "placement": "silo"}
    typed = {"schema": schema, "epsilon": epsilon, **given}
    return preset("LDP", _kind(schema), makes, _STEPS, typed)


def _named(method: str, usual: dict[str, Any], typed: dict[str, Any]) -> BoostedTrees:
    return preset(method, _kind(typed["schema"]), {"method": method}, usual, typed)


def _kind(schema: Any) -> type[BoostedTrees]:
    return of_task(schema, BoostedTreesClassifier, BoostedTreesRegressor)
