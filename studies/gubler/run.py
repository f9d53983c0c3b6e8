"""Gubler's federated private tree: the report's simulation study, and real data.

Four grids: the Gaussian mixtures of Figures 3 to 5, the budget shares of Figure 2, permuted
labels, and five real data sets. Each keeps its finished cells in a CSV file.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from hedgerow.privacy.accounting.budget import Cost
from hedgerow.recipes.recipe import Recipe
from hedgerow.study.terms import Study
from studies import datasets
from studies.gubler.methods import METHODS, plain
from studies.gubler.mixture import BINS, PARTIES, Drawn, mixture
from studies.gubler.page import Results, write_results
from studies.harness import Cell, run_grid
from studies.simulation import Sites, no_limit, probabilities, study_of, train

LEAST_ROWS = 10.0
DEPTH_ON_REAL_DATA = 5
MIXTURE_METHODS = ("plain", "saving", "saving as printed", "defaults")
PURE_ONLY = "saving as printed"
TRAIN_PART = 0.7


@dataclass(frozen=True, kw_only=True)
class Effort:
    """How much of the study is run."""

    runs: int
    epsilons: tuple[float, ...]
    rows: tuple[int, ...] = (100, 250, 1000)
    features: tuple[int, ...] = (10, 25, 50)
    rhos: tuple[float, ...] = (0.3, 0.9)
    deep_runs: int = 0
    deep_rows: tuple[int, ...] = (250,)
    deep_features: tuple[int, ...] = (10,)
    deep_epsilons: tuple[float, ...] = (1.0, 5.0)
    share_runs: int = 0
    permuted_runs: int = 0
    data: tuple[str, ...] = ()
    data_runs: int = 0
    data_epsilons: tuple[float, ...] = (0.1, 0.5, 1.0, 2.0, 5.0)


QUICK = Effort(
    runs=2,
    epsilons=(1.0, 5.0),
    rows=(250,),
    features=(10,),
    rhos=(0.3,),
    permuted_runs=1,
    data=("banknote",),
    data_runs=1,
    data_epsilons=(1.0,),
)
USUAL = Effort(
    runs=3,
    epsilons=(0.5, 1.0, 2.0, 5.0, 10.0),
    deep_runs=1,
    deep_rows=(100, 250, 1000),
    deep_features=(10, 25, 50),
    share_runs=2,
    permuted_runs=5,
    data=("adult", "bank", "credit_default", "spambase", "banknote"),
    data_runs=3,
)
FULL = replace(
    USUAL,
    runs=50,
    epsilons=(0.1, 1.2, 2.3, 3.4, 4.5, 5.6, 6.7, 7.8, 8.9, 10.0),
    deep_runs=50,
    deep_epsilons=(0.1, 1.2, 2.3, 3.4, 4.5, 5.6, 6.7, 7.8, 8.9, 10.0),
    share_runs=50,
    permuted_runs=50,
    data_runs=10,
)


def run(out: Path, data: Path | None, quick: bool, workers: int | None, full: bool = False) -> None:
    """All grids, then the page. Without a data folder the real data are left out."""
    effort = QUICK if quick else FULL if full else USUAL
    if data is not None:
        os.environ[datasets.FOLDER_VARIABLE] = str(data)  # the workers' way to the files
    has_data = bool(effort.data) and datasets.FOLDER_VARIABLE in os.environ
    results = Results(
        mixture=run_grid(
            "mixtures", on_mixture, mixture_cells(effort), out / "mixture.csv", workers
        ),
        shares=_optional("shares", on_shares, share_cells(effort), out / "shares.csv", workers),
        permuted=_optional(
            "permuted labels", on_permuted, permuted_cells(effort), out / "permuted.csv", workers
        ),
        real=None
        if not has_data
        else _optional("real data", on_data, data_cells(effort), out / "real.csv", workers),
        peers=_peers(out / "diffprivlib.csv"),
    )
    options = " --quick" if quick else " --full" if full else ""
    write_results(out, results, options + (" --data DIR" if has_data else ""))


def _optional(
    title: str, work: Any, cells: list[Cell], where: Path, workers: int | None
) -> pd.DataFrame | None:
    return run_grid(title, work, cells, where, workers) if cells else None


def _peers(where: Path) -> pd.DataFrame | None:
    return pd.read_csv(where) if where.exists() else None


# ------------------------------------------------------------------------------------- mixtures
def mixture_cells(effort: Effort) -> list[Cell]:
    """Runs outermost, so that a study cut short is even."""
    shallow = product(range(effort.runs), effort.rows, effort.features, effort.rhos, [5])
    deep = product(
        range(effort.deep_runs), effort.deep_rows, effort.deep_features, effort.rhos, [10]
    )
    cells = list(_with_methods(shallow, effort.epsilons))
    return cells + list(_with_methods(deep, effort.deep_epsilons))


def _with_methods(settings: Any, epsilons: tuple[float, ...]) -> Iterator[Cell]:
    for seed, n, p, rho, depth in settings:
        base = {"seed": seed, "n": n, "p": p, "rho": rho, "depth": depth}
        for method in ("local", "centralised"):
            yield {**base, "epsilon": 0.0, "method": method}
        for epsilon, method in product(epsilons, MIXTURE_METHODS):
            yield {**base, "epsilon": epsilon, "method": method}


def on_mixture(
    seed: int, n: int, p: int, rho: float, depth: int, epsilon: float, method: str
) -> Mapping[str, float]:
    drawn = mixture(n, p, rho, seed)
    if method in ("local", "centralised"):
        return {**_nothing(), "accuracy": _without_privacy(drawn, depth, method == "local")}
    return _scored(METHODS[method](depth, LEAST_ROWS), drawn, epsilon, seed)


def _nothing() -> dict[str, float]:
    return {"accuracy": 0.0, "spent": 0.0, "saved": 0.0, "leaves": 0.0}


def _without_privacy(drawn: Drawn, depth: int, local: bool) -> float:
    from sklearn.tree import DecisionTreeClassifier

    mine = drawn.party == 0 if local else drawn.party >= 0
    tree = DecisionTreeClassifier(max_depth=depth, min_samples_leaf=int(LEAST_ROWS), random_state=0)
    tree.fit(drawn.X[mine], drawn.y[mine])
    return round(float(tree.score(drawn.X_test, drawn.y_test)), 4)


def _scored(recipe: Recipe, drawn: Drawn, epsilon: float, seed: int) -> dict[str, float]:
    study = study_of(recipe, drawn.sites, epsilon)
    trained, spent = train(recipe, study, drawn.sites, seed, _limit(recipe, study))
    found = probabilities(trained, drawn.X_test, drawn.schema).argmax(axis=1).astype(str)
    return {
        "accuracy": round(float(np.mean(found == drawn.y_test)), 4),
        "spent": round(float(spent), 4),
        "saved": round(trained.saved, 4),
        "leaves": float(trained.grown[0].tree.n_leaves),
    }


def _limit(recipe: Recipe, study: Study) -> Cost:
    """Every method is held to its epsilon, but for the one that is known to exceed it."""
    return no_limit() if recipe.name == "saving_as_printed" else study.limit


# ------------------------------------------------------------------------------ shares, Figure 2
def share_cells(effort: Effort) -> list[Cell]:
    """Figure 2: n = 300, p = 10, rho = 0.3, depth 7; the report does not name its epsilon."""
    parts = (0.1, 0.3, 0.5, 0.7, 0.9)
    bounds = (0.0, 0.1, 0.25, 0.5, 0.75, 0.9)  # 0 stands for no saving
    return [
        {"seed": seed, "leaf_share": leaf, "bounds_share": bound, "epsilon": 5.0}
        for seed, leaf, bound in product(range(effort.share_runs), parts, bounds)
    ]


def on_shares(
    seed: int, leaf_share: float, bounds_share: float, epsilon: float
) -> Mapping[str, float]:
    recipe = replace(plain(7, LEAST_ROWS), leaf_share=Fraction(str(leaf_share)))
    if bounds_share > 0.0:
        recipe = replace(recipe, save_budget=True, bounds_share=Fraction(str(bounds_share)))
    return _scored(recipe, mixture(300, 10, 0.3, seed), epsilon, seed)


# ------------------------------------------------------------------------------- permuted labels
def permuted_cells(effort: Effort) -> list[Cell]:
    rows, features = ((250,), (10,)) if effort.runs < 3 else ((250, 1000), (10, 50))
    return [
        {"seed": seed, "n": n, "p": p, "epsilon": epsilon, "permuted": permuted}
        for seed, n, p, epsilon, permuted in product(
            range(effort.permuted_runs), rows, features, (1.0, 5.0), (False, True)
        )
    ]


def on_permuted(seed: int, n: int, p: int, epsilon: float, permuted: bool) -> Mapping[str, float]:
    drawn = mixture(n, p, 0.3, seed, permuted)
    return _scored(METHODS["saving"](5, LEAST_ROWS), drawn, epsilon, seed)


# ------------------------------------------------------------------------------------- real data
def data_cells(effort: Effort) -> list[Cell]:
    cells: list[Cell] = []
    for seed, name in product(range(effort.data_runs), effort.data):
        base = {"seed": seed, "data": name}
        for method in ("no privacy", "one site, no privacy"):
            cells.append({**base, "delta": 0.0, "epsilon": 0.0, "method": method})
        for epsilon, delta, method in product(effort.data_epsilons, (0.0, 1e-6), METHODS):
            if delta == 0.0 or method != PURE_ONLY:
                cells.append({**base, "delta": delta, "epsilon": epsilon, "method": method})
    return cells


@dataclass(frozen=True)
class Divided:
    """A data set, its training rows at five sites, its test rows."""

    whole: datasets.Dataset
    train: NDArray[np.int64]
    test: NDArray[np.int64]
    party: NDArray[np.int64]
    sites: Sites


@lru_cache(maxsize=1)
def divided(name: str, seed: int) -> Divided:
    whole = datasets.load(name, datasets.folder(None))
    order = np.random.default_rng(seed).permutation(len(whole.y))
    cut = int(TRAIN_PART * len(order))
    train_rows, test_rows = order[:cut], order[cut:]
    party = np.arange(cut) % PARTIES
    schema = whole.schema.with_grid(bins=BINS)
    X = whole.X.iloc[train_rows].reset_index(drop=True)
    sites = Sites(X, whole.y[train_rows], party, schema)
    return Divided(whole, train_rows, test_rows, party, sites)


def on_data(seed: int, data: str, delta: float, epsilon: float, method: str) -> Mapping[str, float]:
    split = divided(data, seed)
    if method in ("no privacy", "one site, no privacy"):
        return _tree_without_privacy(split, method != "no privacy")
    recipe = METHODS[method](DEPTH_ON_REAL_DATA, LEAST_ROWS)
    # The product's own threshold: one site may collude and one may be lost.
    study = study_of(recipe, split.sites, epsilon, delta, colluders=1, threshold=PARTIES - 1)
    trained, spent = train(recipe, study, split.sites, seed, _limit(recipe, study))
    X_test = split.whole.X.iloc[split.test]
    p = probabilities(trained, X_test, split.sites.schema)[:, 1]
    return {
        **_measured(p, split),
        "spent": round(float(spent), 4),
        "saved": round(trained.saved, 4),
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
    rows = split.train[split.party == 0] if alone else split.train
    tree = DecisionTreeClassifier(
        max_depth=DEPTH_ON_REAL_DATA, min_samples_leaf=int(LEAST_ROWS), random_state=0
    ).fit(X[rows], split.whole.y[rows])
    p = tree.predict_proba(X[split.test])[:, 1]
    return {**_measured(p, split), "spent": 0.0, "saved": 0.0}
