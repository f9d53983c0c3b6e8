"""The data sets of Consul and Williamson 2020, split and scaled as they do, and their numbers."""

from __future__ import annotations

import math
import os
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache, partial
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
from numpy.typing import NDArray
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import train_test_split

import hedgerow as hr
from hedgerow.data.reading import encoding
from hedgerow.federation import server
from hedgerow.methods import consul
from hedgerow.methods.blocks.medians import depth_for
from hedgerow.methods.blocks.public_grids import fine_schema
from hedgerow.methods.consul import MedianForest, honest_factor_of_medians
from hedgerow.methods.liu import ExtraTrees
from hedgerow.methods.method import Method, TrainingResult
from hedgerow.methods.multiway import KARY_BINS, MultiwayForestMethod, PrunedMultiwayForest
from hedgerow.models.tree import Tree
from hedgerow.privacy.accounting.budget import DPModel
from hedgerow.schema.regions import Region
from hedgerow.schema.schema import Schema
from studies import datasets, simulation
from studies.harness import Cell
from studies.kept import archived
from studies.planned import some_rows
from studies.simulation import Sites

REGRESSION = ("parkinsons", "appliances_energy", "metro_traffic", "gas_turbine", "flights_nyc13")
CLASSIFICATION = ("banknote", "credit_default", "wall_robot", "higgs_18k", "puc_rio_har")
PARTIES = 5
MOST_ROWS = {"flights_nyc13": 40_000}
TRAIN_PART = 0.9
POSTURES = ("sitting", "standing")


@dataclass(frozen=True)
class Halves:
    """Training rows at one site and at five sites, and test rows."""

    schema: Schema
    pooled: Sites
    divided: Sites
    X: Any
    y: NDArray[Any]
    X_test: Any
    y_test: NDArray[Any]

    @property
    def is_regression(self) -> bool:
        return self.schema.target is not None

    def score(self, said: NDArray[Any]) -> float:
        """Mean squared error in the paper's scale, or accuracy."""
        if self.schema.target is None:
            names = np.asarray(self.schema.classes, dtype=object)
            return float(np.mean(names[np.argmax(said, axis=1)] == self.y_test))
        return float(np.mean((said[:, 0] - self.y_test) ** 2)) / self.scale**2

    @property
    def scale(self) -> float:
        """The paper's released code divides Parkinson's by its maximum, the others by the range."""
        target = self.schema.target
        assert target is not None
        return target.high if "DFA" in self.schema.names else target.high - target.low


@lru_cache(maxsize=2)
def halves(name: str, seed: int) -> Halves:
    data = dataset(name)
    order = np.random.default_rng(seed).permutation(len(data.y))
    n = int(TRAIN_PART * len(order))
    X, X_test = (data.X.iloc[part].reset_index(drop=True) for part in (order[:n], order[n:]))
    y, y_test = data.y[order[:n]], data.y[order[n:]]
    schema = fine_schema(data.schema)
    site = np.random.default_rng(seed).permutation(np.arange(n) % PARTIES)
    pooled = Sites(X, y, np.zeros(n, np.int64), schema)
    return Halves(schema, pooled, Sites(X, y, site, schema), X, y, X_test, y_test)


@lru_cache(maxsize=2)
def dataset(name: str) -> datasets.Dataset:
    """As the paper has it: two classes, no ids; flights are a stand-in, sampled."""
    where = Path(os.environ[datasets.FOLDER_VARIABLE])
    is_regression = name in REGRESSION
    data = datasets.load(name, where, regression=is_regression)
    X, y = data.X, data.y
    if name == "wall_robot":
        y = np.where(y == "Move-Forward", "forward", "turn").astype(object)
    if name == "puc_rio_har":
        posture = y.astype(str)  # "sittingdown" leads to "sitting"
        kept = np.logical_or(*(np.char.startswith(posture, word) for word in POSTURES))
        X, y = X[kept].reset_index(drop=True), y[kept]
        y = np.where(np.char.startswith(y.astype(str), POSTURES[0]), *POSTURES).astype(object)
    if name in MOST_ROWS:
        drawn = np.random.default_rng(0).choice(len(y), MOST_ROWS[name], replace=False)
        X, y = X.iloc[drawn].reset_index(drop=True), y[drawn]
    return datasets.of_frame(name, X, y, regression=is_regression)


def occupancy(name: str) -> float:
    """Rows a leaf should expect: the paper's a-priori choice."""
    return 10.0 if name == "banknote" else 25.0


def paper_depth(name: str, rows: int, n_estimators: int) -> int:
    """The paper's depth, from the true number of rows, which it takes as public."""
    return depth_for(rows / n_estimators, occupancy(name))


def kary_depth(name: str, rows: int) -> int:
    """The same occupancy where every node has a child for each of five bins."""
    return max(1, int(math.log(rows / occupancy(name), KARY_BINS)))


# --------------------------------------------------------------------------------------------------
# What the study of median forests compares. Names in capitals are the paper's.
MOST_LEVELS = 7
"""Of the median forest without noise: one fit at the paper's depths would take minutes."""


@dataclass(frozen=True)
class Setting:
    """One cell of a grid. `depth` 0 follows the occupancy; epsilon is the true one."""

    name: str
    epsilon: float
    n_estimators: int
    depth: int
    split_fraction: Fraction
    k: int
    delta: float = 0.0

    def part_depth(self, rows: int) -> int:
        return self.depth or paper_depth(self.name, rows, self.n_estimators)

    def full_depth(self, rows: int) -> int:
        return self.depth or paper_depth(self.name, rows, 1)

    def kary_depth(self, rows: int) -> int:
        return kary_depth(self.name, rows)


# ------------------------------------------------------------------------------------- methods
Make = Callable[[Setting, Halves], Method]


def _dp_ert(setting: Setting, rows: Halves) -> Method:
    return ExtraTrees(
        n_estimators=setting.n_estimators,
        max_depth=setting.full_depth(len(rows.y)),
        split="random",
        shrinkage=False,
    )


def _dp_rf(setting: Setting, rows: Halves) -> Method:
    depth = setting.kary_depth(len(rows.y))
    return MultiwayForestMethod(
        n_estimators=setting.n_estimators, max_depth=depth, max_features=setting.k
    )


def _dp_df(setting: Setting, rows: Halves) -> Method:
    depth = setting.kary_depth(len(rows.y))
    return PrunedMultiwayForest(
        n_estimators=setting.n_estimators,
        max_depth=depth,
        min_samples_split=occupancy(setting.name),
    )


def _paper(
    setting: Setting, rows: Halves, preset: Callable[..., Any], *, folds: bool = True
) -> Method:
    """By its name in `hedgerow.papers`, at the sizes of a cell; every median is paid.

    Without folds every tree has all rows and its part of the budget, and may be deeper.
    """
    depth = setting.part_depth if folds else setting.full_depth
    chosen = {} if preset is consul.diprime else {"max_features": setting.k}
    model = preset(
        rows.schema,
        n_estimators=setting.n_estimators,
        max_depth=depth(len(rows.y)),
        leaf_fraction=float(1 - setting.split_fraction),
        **chosen,
    )
    made: MedianForest = model._method(rows.schema)
    return replace(made, folds=folds)


def _as_printed(setting: Setting, rows: Halves) -> Method:
    """The paper's budget, named for what it costs: splits have more than their half."""
    leaves = (1 - setting.split_fraction) / _printed_factor(setting, rows)
    return _paper(replace(setting, split_fraction=1 - leaves), rows, consul.diprime_exp)


def _median_without_noise(setting: Setting, rows: Halves) -> Method:
    return MedianForest(
        n_estimators=setting.n_estimators,
        max_depth=min(setting.full_depth(len(rows.y)), MOST_LEVELS),
        max_features=setting.k,
        split="medians",
        folds=False,
        shrinkage=False,
    )


def _ours(setting: Setting, rows: Halves, **changes: Any) -> Method:
    """The defaults of the estimators, whatever the setting says."""
    return MedianForest(**changes)


def _joint(setting: Setting, rows: Halves) -> Method:
    made = _paper(setting, rows, consul.diprime_flip)
    assert isinstance(made, MedianForest)
    return replace(made, split="grid")


def _printed_factor(setting: Setting, rows: Halves) -> Fraction:
    """True over stated epsilon; a set of four features has no five to ask."""
    k = min(setting.k, len(rows.schema.features))
    return honest_factor_of_medians(k, setting.split_fraction)


OVER_SITES = f"ours, {PARTIES} sites"
"""With `split="table"`; the table `sites` has it beside private selections."""
METHOD_EXAMPLES: dict[str, Make] = {
    "Median, no noise": _median_without_noise,
    "DP-RF": _dp_rf,
    "DP-DF": _dp_df,
    "DP-ERT": _dp_ert,
    "DiPriMe": partial(_paper, preset=consul.diprime),
    "DiPriMeExp, paid": partial(_paper, preset=consul.diprime_exp),
    "DiPriMeFlip, paid": partial(_paper, preset=consul.diprime_flip),
    "DiPriMeExp as printed": _as_printed,
    "joint choice, paper's sizes": _joint,
    "ours": _ours,
    "ours, no noise": partial(_ours, folds=True),
    OVER_SITES: partial(_ours, split="table"),
}
ALL_ROWS: dict[str, Make] = {
    "DiPriMe": partial(_paper, preset=consul.diprime, folds=False),
    "DiPriMeExp, paid": partial(_paper, preset=consul.diprime_exp, folds=False),
    "DiPriMeFlip, paid": partial(_paper, preset=consul.diprime_flip, folds=False),
}
"""Without partitioning the rows among trees (Figures 5 and 6)."""
NOT_PRIVATE = ("constant", "RF", "ERT")


def fit_and_score(
    method: str, setting: Setting, rows: Halves, seed: int, *, folds: bool = True
) -> float:
    if method == "constant":
        return rows.score(_constant(rows))
    if method in NOT_PRIVATE:
        return rows.score(_sklearn(method, setting, rows, seed))
    learner = (METHOD_EXAMPLES if folds else ALL_ROWS)[method](setting, rows)
    return score(train(method, learner, setting, rows, seed), rows)


def score(trained: TrainingResult, rows: Halves) -> float:
    return rows.score(simulation.probabilities(trained, rows.X_test, rows.schema))


def train(
    method: str, learner: Method, setting: Setting, rows: Halves, seed: int
) -> TrainingResult:
    several = method.endswith("sites")
    sites = rows.divided if several else rows.pooled
    dp_model = DPModel.DISTRIBUTED if several else DPModel.CENTRAL
    if method.endswith("no noise"):
        dp_model = DPModel.NONE
    printed = method.endswith("printed")
    factor = _printed_factor(setting, rows) if printed else 1
    epsilon = float(factor) * setting.epsilon
    study = simulation.study_of(learner, sites, epsilon, setting.delta, dp_model=dp_model)
    trained, _ = simulation.train(learner, study, sites, seed)
    return trained


def _constant(rows: Halves) -> NDArray[np.float64]:
    """What a model without features says: the training mean, or the parts of the classes."""
    if rows.is_regression:
        said = [float(np.mean(rows.y))]
    else:
        said = [float(np.mean(rows.y == label)) for label in rows.schema.classes or ()]
    return np.tile(said, (len(rows.y_test), 1))


def _sklearn(method: str, setting: Setting, rows: Halves, seed: int) -> NDArray[np.float64]:
    """Random forest and extremely randomized trees as the paper's released code sets them."""
    from sklearn import ensemble

    kind = "RandomForest" if method == "RF" else "ExtraTrees"
    make = getattr(ensemble, kind + ("Regressor" if rows.is_regression else "Classifier"))
    model = make(
        setting.n_estimators,
        max_depth=setting.full_depth(len(rows.y)),
        max_features=min(setting.k, rows.X.shape[1]),
        min_samples_leaf=5,
        random_state=seed,
    )
    X, X_test = _numbers(rows.X, rows), _numbers(rows.X_test, rows)
    model.fit(X, rows.y)
    said = model.predict(X_test)[:, None] if rows.is_regression else model.predict_proba(X_test)
    return np.asarray(said)


def _numbers(X: Any, rows: Halves) -> NDArray[np.float64]:
    """Categories by their place in the schema."""
    columns = []
    for feature in rows.schema.features:
        column = X[feature.name]
        places = {value: k for k, value in enumerate(getattr(feature, "values", ()))}
        columns.append([places[str(v)] for v in column] if places else column.to_numpy())
    return np.stack(columns, axis=1).astype(np.float64)


# ----------------------------------------------------------------------- balance of the splits
def leaf_parts(tree: Tree, codes: NDArray[np.uint8]) -> NDArray[np.float64]:
    """Part of the experimenter's rows in each leaf. Exact: never part of a model or a report."""
    leaves = tree.apply(codes)
    return np.asarray(np.bincount(leaves, minlength=tree.n_leaves) / codes.shape[1])


def left_parts(tree: Tree, codes: NDArray[np.uint8]) -> list[float]:
    """Part of each inner node's rows that goes left, of nodes that hold any."""
    regions = tree.regions()
    held = np.bincount(tree.apply(codes), minlength=len(regions))
    sides: dict[Region, list[int]] = {}
    for region, n in zip(regions, held.tolist(), strict=True):
        for level, step in enumerate(region):
            sides.setdefault(region[:level], [0, 0])[step.outcome] += n
    return [left / (left + right) for left, right in sides.values() if left + right]


# --------------------------------------------------------------------------------------------------
# One cell of the study of median forests: a fit, a fit on folds or all rows, how rows fall.
FIRST_SPLIT = 100
"""No constant was chosen on splits from here on; see studies/notes/trees.md#0050."""
TREES, K, RHO = 10, 5, 0.5
EPSILON = {True: 10.0, False: 2.0}
"""The paper's, for regression and for classification."""


def fit(
    seed: int,
    data: str,
    method: str,
    epsilon: float,
    n_estimators: int,
    depth: int,
    rho: float,
    k: int,
) -> Mapping[str, float]:
    rows = halves(data, seed)
    setting = Setting(data, epsilon, n_estimators, depth, Fraction(rho), k)
    return {"score": fit_and_score(method, setting, rows, seed)}


def fit_on_all_rows(
    seed: int,
    data: str,
    method: str,
    epsilon: float,
    n_estimators: int,
    depth: int,
    rho: float,
    k: int,
) -> Mapping[str, float]:
    """As `fit`, but no tree has rows of its own."""
    rows = halves(data, seed)
    setting = Setting(data, epsilon, n_estimators, depth, Fraction(rho), k)
    return {"score": fit_and_score(method, setting, rows, seed, folds=False)}


def fit_over_sites(
    seed: int, data: str, delta: float, sites: int, split: consul.MedianSplit
) -> Mapping[str, float]:
    """Our forest with all rows at one site, or divided among five."""
    rows = halves(data, seed)
    setting = Setting(data, EPSILON[rows.is_regression], 1, 0, Fraction(RHO), K, delta)
    name = "ours" if sites == 1 else OVER_SITES
    return {"score": score(train(name, MedianForest(split=split), setting, rows, seed), rows)}


OCCUPANCY_EDGES = (0.0, 0.005, 0.01, 0.02, 0.05, 0.1, 1.0)
LEFT_EDGES = (0.0, 0.05, 0.25, 0.4, 0.6, 0.75, 0.95, 1.0)


def parts(seed: int, data: str, method: str) -> Mapping[str, float]:
    """How evenly rows fall, on the experimenter's own training rows (Figures 3 and 4)."""
    rows = halves(data, seed)
    setting = Setting(data, EPSILON[False], TREES, 5, Fraction(1, 2), K)
    trained = train(method, METHOD_EXAMPLES[method](setting, rows), setting, rows, seed)
    codes = encoding.encode_features(rows.X, rows.schema)
    trees = trained.model.score.trees
    leaves = np.concatenate([leaf_parts(tree, codes) for tree in trees])
    left = np.concatenate([left_parts(tree, codes) for tree in trees])
    return {
        **_histogram("leaf", leaves, OCCUPANCY_EDGES),
        **_histogram("left", left, LEFT_EDGES),
    }


def _histogram(
    name: str, values: np.ndarray[tuple[int], np.dtype[np.float64]], edges: Sequence[float]
) -> dict[str, float]:
    counts, _ = np.histogram(values, edges)
    return {f"{name} to {b:g}": c / len(values) for b, c in zip(edges[1:], counts, strict=True)}


# --------------------------------------------------------------------------------------------------
# Selections under delta > 0: priced alone, by the budget that is left after them, and as if plans
# were certified by what any strategy loses (docs/accounting.md).
ALONE, AMONG_SUMS, NO_MORE = "alone", "by what is left", "by what any strategy loses"
SELECTING: Mapping[str, Callable[..., Any]] = {
    "MedianForest": hr.MedianForestClassifier,
    "TopDown by choice": partial(hr.TopDownTreeClassifier, split="choice"),
    "MultiwayForest": hr.MultiwayForestClassifier,
    "SingleMachine RNM": hr.papers.wang.single_machine_rnm,
    "DiPriMeFlip": hr.papers.consul.diprime_flip,
}


def fit_selecting(seed: int, data: str, method: str, epsilon: float, price: str) -> Cell:
    """The AUC on a quarter of at most 8,000 rows, of which all prices have the same."""
    rows = some_rows(data)
    X, X_test, y, y_test = train_test_split(rows.X, rows.y, test_size=0.25, random_state=seed)
    plans = archived("audit").frame("plans", index_col="dp_model")
    assert plans is not None
    larger = epsilon / plans["lost"][method] if price == NO_MORE else epsilon
    estimator = SELECTING[method](rows.schema, epsilon=larger, delta=1e-6, random_state=seed)
    most = 0 if price == ALONE else server.MOST_REMAINDER
    with warnings.catch_warnings(), patch.object(server, "MOST_REMAINDER", most):
        warnings.simplefilter("ignore")
        estimator.fit(X, y)
    second = estimator.classes_[1]
    return {"auc": roc_auc_score(y_test == second, estimator.predict_proba(X_test)[:, 1])}
