"""One cell of Gubler's study: a mixture, shares of the budget, permuted labels, real data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from hedgerow.methods.method import Method
from hedgerow.privacy.accounting.budget import Cost
from hedgerow.privacy.queries import BoundQuery, Summed
from hedgerow.privacy.study import Study
from studies import datasets
from studies.gubler.methods import AS_RELEASED, METHODS, plain
from studies.gubler.mixture import BINS, PARTIES, Drawn, mixture
from studies.simulation import Answers, Sites, no_limit, probabilities, study_of, train

LEAST_ROWS = 10.0
SHARES_DEPTH, SHARES_ROWS, SHARES_FEATURES, SHARES_RHO = 7, 300, 10, 0.3
"""Figure 2 of the report."""
PERMUTED_DEPTH, PERMUTED_RHO = 5, 0.3
DEPTH_ON_REAL_DATA = 5
TRAIN_PART = 0.7


class WithoutBounds:
    """Sites that answer as the report's released code does: every local bound is zero.

    There a party's best impurity is computed from sums of labels at the lowest threshold, which
    leaves one side empty (hgubler/federated-private-trees, fc89ef9). What is left is noise.
    """

    def __init__(self, sites: Sites) -> None:
        self.schema, self.each, self._sites = sites.schema, sites.each, sites

    def integers(self, query: Summed, unit: int) -> NDArray[np.int64]:
        counted = self._sites.integers(query, unit)
        return np.zeros_like(counted) if isinstance(query, BoundQuery) else counted


def on_mixture(
    seed: int, n: int, p: int, rho: float, depth: int, epsilon: float, method: str
) -> Mapping[str, float]:
    drawn = mixture(n, p, rho, seed)
    if method in ("local", "centralised"):
        return {**_nothing(), "accuracy": _without_privacy(drawn, depth, method == "local")}
    sites = WithoutBounds(drawn.sites) if method == AS_RELEASED else drawn.sites
    return _scored(METHODS[method](depth, LEAST_ROWS), drawn, sites, epsilon, seed)


def _nothing() -> dict[str, float]:
    return {"accuracy": 0.0, "spent": 0.0, "saved": 0.0, "leaves": 0.0}


def _without_privacy(drawn: Drawn, depth: int, local: bool) -> float:
    from sklearn.tree import DecisionTreeClassifier

    mine = drawn.site == 0 if local else drawn.site >= 0
    tree = DecisionTreeClassifier(max_depth=depth, min_samples_leaf=int(LEAST_ROWS), random_state=0)
    tree.fit(drawn.X[mine], drawn.y[mine])
    return round(float(tree.score(drawn.X_test, drawn.y_test)), 4)


def _scored(
    learner: Method, drawn: Drawn, sites: Answers, epsilon: float, seed: int
) -> dict[str, float]:
    study = study_of(learner, sites, epsilon)
    trained, spent = train(learner, study, sites, seed, _limit(learner, study))
    found = probabilities(trained, drawn.X_test, drawn.schema).argmax(axis=1).astype(str)
    return {
        "accuracy": round(float(np.mean(found == drawn.y_test)), 4),
        "spent": round(float(spent), 4),
        "saved": round(trained.unspent_fraction, 4),
        "leaves": float(trained.leaf_statistics[0].tree.n_leaves),
    }


def _limit(learner: Method, study: Study) -> Cost:
    """Every method is held to its epsilon, but for the one that is known to exceed it."""
    return no_limit() if learner.name == "published_saving" else study.limit


def on_shares(
    seed: int, leaf_fraction: float, bounds_fraction: float, epsilon: float
) -> Mapping[str, float]:
    learner = replace(plain(SHARES_DEPTH, LEAST_ROWS), leaf_fraction=leaf_fraction)
    if bounds_fraction > 0.0:
        learner = replace(learner, budget_saving=True, bounds_fraction=bounds_fraction)
    drawn = mixture(SHARES_ROWS, SHARES_FEATURES, SHARES_RHO, seed)
    return _scored(learner, drawn, drawn.sites, epsilon, seed)


def on_permuted(seed: int, n: int, p: int, epsilon: float, permuted: bool) -> Mapping[str, float]:
    drawn = mixture(n, p, PERMUTED_RHO, seed, permuted)
    learner = METHODS["saving"](PERMUTED_DEPTH, LEAST_ROWS)
    return _scored(learner, drawn, drawn.sites, epsilon, seed)


@dataclass(frozen=True)
class Divided:
    """A data set, its training rows at five sites, its test rows."""

    whole: datasets.Dataset
    train: NDArray[np.int64]
    test: NDArray[np.int64]
    site: NDArray[np.int64]
    sites: Sites


@lru_cache(maxsize=1)
def divided(name: str, seed: int) -> Divided:
    whole = datasets.load(name, datasets.folder(None))
    order = np.random.default_rng(seed).permutation(len(whole.y))
    cut = int(TRAIN_PART * len(order))
    train_rows, test_rows = order[:cut], order[cut:]
    site = np.arange(cut) % PARTIES
    schema = whole.schema.with_grid(bins=BINS)
    X = whole.X.iloc[train_rows].reset_index(drop=True)
    sites = Sites(X, whole.y[train_rows], site, schema)
    return Divided(whole, train_rows, test_rows, site, sites)


def on_data(seed: int, data: str, delta: float, epsilon: float, method: str) -> Mapping[str, float]:
    split = divided(data, seed)
    if method in ("no privacy", "one site, no privacy"):
        return _tree_without_privacy(split, method != "no privacy")
    learner = METHODS[method](DEPTH_ON_REAL_DATA, LEAST_ROWS)
    # The product's own threshold: one site may collude and one may be lost.
    study = study_of(learner, split.sites, epsilon, delta, colluders=1, threshold=PARTIES - 1)
    trained, spent = train(learner, study, split.sites, seed, _limit(learner, study))
    X_test = split.whole.X.iloc[split.test]
    p = probabilities(trained, X_test, split.sites.schema)[:, 1]
    return {
        **_measured(p, split),
        "spent": round(float(spent), 4),
        "saved": round(trained.unspent_fraction, 4),
    }


def _measured(p: NDArray[np.float64], split: Divided) -> dict[str, float]:
    from sklearn.metrics import roc_auc_score

    is_second = split.whole.y[split.test] == split.sites.schema.classes[1]  # type: ignore[index]
    return {
        "accuracy": round(float(np.mean((p > 0.5) == is_second)), 4),
        "auc": round(float(roc_auc_score(is_second, p)), 4),
    }


def _tree_without_privacy(split: Divided, alone: bool) -> dict[str, float]:
    from sklearn.tree import DecisionTreeClassifier

    X = pd.get_dummies(split.whole.X).to_numpy(np.float64)
    rows = split.train[split.site == 0] if alone else split.train
    tree = DecisionTreeClassifier(
        max_depth=DEPTH_ON_REAL_DATA, min_samples_leaf=int(LEAST_ROWS), random_state=0
    ).fit(X[rows], split.whole.y[rows])
    p = tree.predict_proba(X[split.test])[:, 1]
    return {**_measured(p, split), "spent": 0.0, "saved": 0.0}
