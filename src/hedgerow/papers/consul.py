"""Consul and Williamson 2020: forests split at private medians (DiPriMe), and their rivals.

The defaults are the paper's: 10 trees on disjoint parts of the rows, depth 5, K = 5, half of the
budget for the splits (rho), plain leaves, pure epsilon. `max_depth=None, rows_per_leaf=25` takes
the depth as the paper's tables do, from a number of rows that is bought. All but DP-ERT need one
holder of all rows; all but DP-DF predict a number where the schema has a target.

DiPriMeExp and DiPriMeFlip look at K medians of a node and pay for one. The functions that end in
`as_printed` run these budgets at the epsilon that they really cost; without, all K are paid.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any

from hedgerow.methods.liu import ExtraTreesClassifier, ExtraTreesRegressor
from hedgerow.methods.median_forest import MedianForestClassifier, MedianForestRegressor
from hedgerow.methods.multiway import KaryForestClassifier, KaryForestRegressor
from hedgerow.papers.presets import as_printed, n_features, of_task, preset
from hedgerow.schema.rules import exact

_MedianForest = MedianForestClassifier | MedianForestRegressor
_ExtraTrees = ExtraTreesClassifier | ExtraTreesRegressor
_KaryForest = KaryForestClassifier | KaryForestRegressor

PURE = {"delta": 0.0}
_USUAL = {**PURE, "n_trees": 10, "max_depth": 5, "leaf_share": 0.5, "folds": True, "lean": False}
_LOOKING = {**_USUAL, "max_features": 5}
EXP = {"split": "medians", "mechanism": "exponential"}
FLIP = {"split": "medians", "mechanism": "permute_and_flip"}
RHO = Fraction(1, 2)


def diprime(schema: Any = None, epsilon: float = 1.0, **given: Any) -> _MedianForest:
    """DiPriMe: a feature at random, cut at its private median by the exponential mechanism."""
    makes = {"split": "median", "mechanism": "exponential"}
    return _forest("DiPriMe", makes, _USUAL, {"schema": schema, "epsilon": epsilon, **given})


def diprime_exp(schema: Any = None, epsilon: float = 1.0, **given: Any) -> _MedianForest:
    """DiPriMeExp, every median paid: K private medians, one of them by the target."""
    return _forest("DiPriMeExp", EXP, _LOOKING, {"schema": schema, "epsilon": epsilon, **given})


def diprime_flip(schema: Any = None, epsilon: float = 1.0, **given: Any) -> _MedianForest:
    """DiPriMeFlip, every median paid: DiPriMeExp with permute-and-flip."""
    return _forest("DiPriMeFlip", FLIP, _LOOKING, {"schema": schema, "epsilon": epsilon, **given})


def diprime_exp_as_printed(
    schema: Any, printed_epsilon: float = 1.0, rho: float = 0.5, **given: Any
) -> _MedianForest:
    """DiPriMeExp with the paper's budgets, at the epsilon that they really cost."""
    return _told("DiPriMeExp", EXP, schema, printed_epsilon, rho, given)


def diprime_flip_as_printed(
    schema: Any, printed_epsilon: float = 1.0, rho: float = 0.5, **given: Any
) -> _MedianForest:
    """DiPriMeFlip with the paper's budgets, at the epsilon that they really cost."""
    return _told("DiPriMeFlip", FLIP, schema, printed_epsilon, rho, given)


def dp_ert(schema: Any = None, epsilon: float = 1.0, **given: Any) -> _ExtraTrees:
    """DP-ERT: random splits; the whole budget is for the leaves (Bojarski et al. 2014)."""
    usual = {**PURE, "n_trees": 10, "max_depth": 5, "lean": False}
    typed = {"schema": schema, "epsilon": epsilon, **given}
    kind = of_task(schema, ExtraTreesClassifier, ExtraTreesRegressor)
    return preset("DP-ERT", kind, {"split": "random"}, usual, typed)


def dp_rf(schema: Any = None, epsilon: float = 1.0, **given: Any) -> _KaryForest:
    """DP-RF: a branch for every bin of a privately chosen feature (Patil and Singh 2014)."""
    usual = {**PURE, "n_trees": 10, "max_features": 5, "n_bins": 5}
    typed = {"schema": schema, "epsilon": epsilon, **given}
    kind = of_task(schema, KaryForestClassifier, KaryForestRegressor)
    makes = {"prune": False} if kind is KaryForestClassifier else {}
    return preset("DP-RF", kind, makes, usual, typed)


def dp_df(schema: Any = None, epsilon: float = 1.0, **given: Any) -> KaryForestClassifier:
    """DP-DF: the same, pruned by noisy counts of every level (Fletcher and Islam 2015)."""
    usual = {**PURE, "n_trees": 10, "n_bins": 5, "min_samples_split": 25.0}
    typed = {"schema": schema, "epsilon": epsilon, **given}
    return preset("DP-DF", KaryForestClassifier, {"prune": True}, usual, typed)


def honest_factor_of_medians(k: int, rho: Fraction = RHO) -> Fraction:
    """What DiPriMeExp and DiPriMeFlip cost, in units of the epsilon that they name.

    A level's epsilon_s = epsilon_a = rho epsilon / 2 d: each of k medians costs epsilon_s, and the
    choice half of epsilon_a, since its score is monotone.
    """
    return 1 - rho + rho * (k + Fraction(1, 2)) / 2


def _told(
    method: str,
    makes: dict[str, Any],
    schema: Any,
    printed_epsilon: float,
    rho: float,
    given: dict[str, Any],
) -> _MedianForest:
    n = n_features(method, schema)
    k = min(given.get("max_features", _LOOKING["max_features"]) or n, n)
    part = exact(rho, "rho")
    factor = honest_factor_of_medians(k, part)
    told = {
        "schema": schema,
        "epsilon": as_printed(method, printed_epsilon, factor, given),
        "leaf_share": float((1 - part) / factor),
    }
    return _forest(f"{method} as printed", {**makes, **told}, _LOOKING, given)


def _forest(
    method: str, makes: dict[str, Any], usual: dict[str, Any], typed: dict[str, Any]
) -> _MedianForest:
    schema = typed.get("schema", makes.get("schema"))
    kind = of_task(schema, MedianForestClassifier, MedianForestRegressor)
    return preset(method, kind, makes, usual, typed)
